"""softfloat.torch against references by hand: the weights after three steps, bit for bit.

A reference names each operation of a forward and a backward pass and rounds its result with the package's NumPy
functions; with an accumulator its products and sums are softfloat's. The formulas of single operations that no policy
looks into (normalizations, softmax, gelu) are torch's own, in float32.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_networks import (  # noqa: E402
    BF16,
    DEEP,
    SHALLOW,
    F,
    Hand,
    assert_same_bits,
    attention,
    cnn,
    loss_gradient,
    lstm,
    mlp,
    softmax,
    softmax_back,
    through,
    trained,
    transformer,
)

from softfloat import training  # noqa: E402
from softfloat.training.policy import ROLES  # noqa: E402


def by_hand_mlp(policy, optimizer="sgd", steps=3):
    """Each layer has its own policy, that of the overrides for it."""
    torch.manual_seed(3)
    model, x, y = mlp()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    first, last = (Hand(policy.at(layer), optimizer) for layer in ("0", "2"))
    x = first(x.numpy(), "activations")
    for _ in range(steps):
        hidden = first.linear(x, w["0.weight"], w["0.bias"])
        active = np.maximum(hidden, np.float32(0))
        read = last(active, "activations")
        logits = last.linear(read, w["2.weight"], w["2.bias"])
        error = loss_gradient(Hand(policy), logits, y)
        g = {}
        below, g["2.weight"], g["2.bias"] = last.linear_back(error, read, w["2.weight"])
        last.update(w, g)
        below = np.where(active > 0, below, np.float32(0))
        g = {}
        _, g["0.weight"], g["0.bias"] = first.linear_back(below, x, w["0.weight"])
        first.update(w, g)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def by_hand_attention(policy, optimizer="sgd", steps=3):
    torch.manual_seed(3)
    model, x, y = attention()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand = Hand(policy, optimizer)
    act, err = (lambda t: hand(t, "activations")), (lambda t: hand(t, "errors"))
    rows = act(x.numpy()).reshape(6, 4)
    scale = np.float32(4**-0.25)  # torch's: the root of 1 / sqrt(width), for queries and keys each
    for _ in range(steps):
        q, k, v = (
            hand.linear(rows, w[f"{n}.weight"], w[f"{n}.bias"]).reshape(2, 3, 4)
            for n in ("query", "key", "value")
        )
        q, k = act(q * scale), act(k * scale)
        scores = act(hand.product(q, k.mT))
        shares = act(softmax(scores))
        mixed = act(hand.product(shares, v)).reshape(2, 12)
        logits = hand.linear(mixed, w["head.weight"], w["head.bias"])
        error, g = loss_gradient(hand, logits, y), {}
        below, g["head.weight"], g["head.bias"] = hand.linear_back(error, mixed, w["head.weight"])
        below = below.reshape(2, 3, 4)
        e = {"value": err(hand.product(shares.mT, below))}
        inner = err(softmax_back(err(hand.product(below, v.mT)), shares))
        e["query"] = err(err(hand.product(inner, k)) * scale)
        e["key"] = err(err(hand.product(q.mT, inner)).mT * scale)
        for n, part in e.items():
            part = np.ascontiguousarray(part).reshape(6, 4)
            _, g[f"{n}.weight"], g[f"{n}.bias"] = hand.linear_back(part, rows, w[f"{n}.weight"])
        hand.update(w, g)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def by_hand_cnn(policy, optimizer="sgd", steps=3):
    torch.manual_seed(3)
    model, x, y = cnn()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand = Hand(policy, optimizer)
    act, err = (lambda t: hand(t, "activations")), (lambda t: hand(t, "errors"))
    first, second = {"padding": 1}, {"stride": 2, "groups": 2}
    pool = lambda t: F.max_pool2d(t, 2)  # noqa: E731
    norm = lambda t, a, b: F.batch_norm(t, None, None, a, b, True)  # noqa: E731
    x = act(x.numpy())
    for _ in range(steps):
        read = {name: hand(value, "weights") for name, value in w.items()}
        a = hand.convolution(x, read["first.weight"], **first)
        a = act(hand.plus(a, read["first.bias"][:, None, None]))
        affine = read["norm.weight"], read["norm.bias"]
        b = act(norm(*map(torch.from_numpy, (a, *affine))).numpy())
        c = np.maximum(b, np.float32(0))
        d = pool(torch.from_numpy(c)).numpy()
        f = np.maximum(act(hand.convolution(d, read["second.weight"], **second)), np.float32(0))
        mask = act(torch.empty(4, 4).bernoulli_(0.75).div_(0.75).numpy())
        h = act(f.reshape(4, 4) * mask)
        logits, g = hand.linear(h, w["head.weight"], w["head.bias"]), {}
        e = loss_gradient(hand, logits, y)
        e, g["head.weight"], g["head.bias"] = hand.linear_back(e, h, w["head.weight"])
        e = np.where(f > 0, err(e * mask).reshape(f.shape), np.float32(0))
        e, g["second.weight"] = hand.convolution_back(e, d, read["second.weight"], **second)
        e = err(e)
        (e,) = through(pool, e, c)
        e = np.where(c > 0, e, np.float32(0))
        e, g["norm.weight"], g["norm.bias"] = through(norm, e, a, *affine)
        e = err(e)
        _, g["first.weight"] = hand.convolution_back(e, x, read["first.weight"], **first)
        g["first.bias"] = hand.total(e, (0, 2, 3))
        hand.update(w, g)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def by_hand_lstm(policy, optimizer="sgd", steps=3):
    torch.manual_seed(3)
    model, x, y = lstm()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand = Hand(policy, optimizer)
    act, err = (lambda t: hand(t, "activations")), (lambda t: hand(t, "errors"))
    run = lambda f, t: act(f(torch.from_numpy(np.ascontiguousarray(t))).numpy())  # noqa: E731
    aten = torch.ops.aten
    back = lambda f, *t: err(f(*(torch.from_numpy(np.ascontiguousarray(u)) for u in t)).numpy())  # noqa: E731
    rows = act(x.numpy()).swapaxes(0, 1).reshape(12, 4)
    wi, wh, bi, bh = (f"lstm.{n}_l0" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for _ in range(steps):
        read = {name: hand(value, "weights") for name, value in w.items()}
        projected = act(act(hand.product(rows, read[wi].T)) + read[bi]).reshape(3, 4, 24)
        h, c, kept = np.zeros((4, 6), np.float32), np.zeros((4, 6), np.float32), []
        for t in range(3):
            z = act(hand.linear(h, w[wh], w[bh]) + projected[t])
            i, f, o = (run(torch.sigmoid, z[:, k : k + 6]) for k in (0, 6, 18))
            u = run(torch.tanh, z[:, 12:18])
            new = act(act(f * c) + act(i * u))
            s = run(torch.tanh, new)
            kept.append((h, c, i, f, o, u, s))
            h, c = act(o * s), new
        logits, g = hand.linear(h, w["head.weight"], w["head.bias"]), {}
        e = loss_gradient(hand, logits, y)
        e, g["head.weight"], g["head.bias"] = hand.linear_back(e, h, w["head.weight"])
        ec, errors = None, [None] * 3
        for t in (2, 1, 0):
            h, c, i, f, o, u, s = kept[t]
            eo, es = err(e * s), err(e * o)
            es = back(aten.tanh_backward, es, s)
            ec = es if ec is None else err(ec + es)
            parts = (
                back(aten.sigmoid_backward, err(ec * u), i), back(aten.sigmoid_backward, err(ec * c), f),
                back(aten.tanh_backward, err(ec * i), u), back(aten.sigmoid_backward, eo, o),
            )  # fmt: skip
            errors[t] = np.concatenate(parts, 1)
            ec = err(ec * f)
            e, dw, db = hand.linear_back(errors[t], h, w[wh])
            g[wh] = dw if t == 2 else g[wh] + dw
            g[bh] = db if t == 2 else g[bh] + db
        every = np.stack(errors)
        g[bi] = hand.total(every, (0, 1))
        g[wi] = hand.product(every.reshape(12, 24).T, rows)
        hand.update(w, g)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def by_hand_transformer(policy, optimizer="sgd", steps=3):
    torch.manual_seed(3)
    model, tokens, y = transformer()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand = Hand(policy, optimizer)
    act, err = (lambda t: hand(t, "activations")), (lambda t: hand(t, "errors"))
    norm = lambda t, a, b: F.layer_norm(t, (8,), a, b)  # noqa: E731
    run = lambda f, *t: f(*(torch.from_numpy(np.ascontiguousarray(u)) for u in t)).numpy()  # noqa: E731
    rows = lambda t: np.ascontiguousarray(t).reshape(20, -1)  # noqa: E731
    block = lambda t: t.reshape(4, 5, -1)  # noqa: E731
    turned = lambda t: t.swapaxes(0, 1)  # noqa: E731  (4, 5, n) and (5, 4, n): torch's attention has places first
    scale = np.float32(4**-0.25)  # the root of 1 / sqrt(width of a head), for queries and keys each
    name = {n: f"layer.self_attn.{n}" for n in ("in_proj_weight", "in_proj_bias")}
    out, up, down = "layer.self_attn.out_proj", "layer.linear1", "layer.linear2"

    def heads(t):  # (5, 4, 8) -> (4, 2, 5, 4): batch, head, place, width
        return t.reshape(5, 8, 4).swapaxes(0, 1).reshape(4, 2, 5, 4)

    def merged(t):  # and back
        return np.ascontiguousarray(t).reshape(8, 5, 4).swapaxes(0, 1).reshape(5, 4, 8)

    for _ in range(steps):
        read = {n: hand(value, "weights") for n, value in w.items()}
        affine = {
            n: (read[f"layer.{n}.weight"], read[f"layer.{n}.bias"]) for n in ("norm1", "norm2")
        }
        # Forward: x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))), then the mean over places.
        x0 = read["embedding.weight"][tokens.numpy()]
        n1 = act(run(norm, x0, *affine["norm1"]))
        places = rows(turned(n1))
        packed = act(hand.product(places, read[name["in_proj_weight"]].T))
        packed = act(packed + read[name["in_proj_bias"]]).reshape(5, 4, 3, 8)
        q, k, v = (heads(np.ascontiguousarray(packed[:, :, i])) for i in range(3))
        q, k = act(q * scale), act(k * scale)
        scores = act(hand.product(q.reshape(8, 5, 4), k.reshape(8, 5, 4).mT)).reshape(4, 2, 5, 5)
        shares = act(softmax(scores)).reshape(8, 5, 5)
        mixed = act(hand.product(shares, v.reshape(8, 5, 4)))
        mixed = rows(merged(mixed))
        attended = hand.linear(mixed, w[f"{out}.weight"], w[f"{out}.bias"]).reshape(5, 4, 8)
        x1 = act(x0 + turned(attended))
        n2 = act(run(norm, x1, *affine["norm2"]))
        h = hand.linear(rows(n2), w[f"{up}.weight"], w[f"{up}.bias"])
        active = act(run(F.gelu, h))
        x2 = act(x1 + block(hand.linear(active, w[f"{down}.weight"], w[f"{down}.bias"])))
        pooled = act(run(lambda t: t.mean(1), x2))
        logits = hand.linear(pooled, w["head.weight"], w["head.bias"])
        # Backward, last operation first.
        g = {}
        e = loss_gradient(hand, logits, y)
        e, g["head.weight"], g["head.bias"] = hand.linear_back(e, pooled, w["head.weight"])
        e = err(np.repeat(e[:, None], 5, 1) / np.float32(5))
        f, g[f"{down}.weight"], g[f"{down}.bias"] = hand.linear_back(
            rows(e), active, w[f"{down}.weight"]
        )
        f = err(run(torch.ops.aten.gelu_backward, f, h))
        f, g[f"{up}.weight"], g[f"{up}.bias"] = hand.linear_back(f, rows(n2), w[f"{up}.weight"])
        f, g["layer.norm2.weight"], g["layer.norm2.bias"] = through(
            norm, block(f), x1, *affine["norm2"]
        )
        e = err(e + err(f))
        f, g[f"{out}.weight"], g[f"{out}.bias"] = hand.linear_back(
            rows(turned(e)), mixed, w[f"{out}.weight"]
        )
        f = heads(f.reshape(5, 4, 8)).reshape(8, 5, 4)
        ev = err(hand.product(shares.mT, f))
        inner = err(softmax_back(err(hand.product(f, v.reshape(8, 5, 4).mT)), shares))
        eq = err(err(hand.product(inner, k.reshape(8, 5, 4))) * scale)
        ek = err(err(hand.product(q.reshape(8, 5, 4).mT, inner)).mT * scale)
        f = rows(np.stack([merged(t) for t in (eq, ek, ev)], 2).reshape(5, 4, 24))
        g[name["in_proj_bias"]] = hand.total(f.reshape(5, 4, 24), (0, 1))
        g[name["in_proj_weight"]] = hand.product(f.T, places)
        f = turned(err(hand.product(f, read[name["in_proj_weight"]])).reshape(5, 4, 8))
        f, g["layer.norm1.weight"], g["layer.norm1.bias"] = through(norm, f, x0, *affine["norm1"])
        e = err(e + err(f))
        g["embedding.weight"] = run(
            lambda t: torch.ops.aten.embedding_dense_backward(t, tokens, 11, -1, False), e
        )
        hand.update(w, g)
    return np.concatenate([w[n].ravel() for n, _ in model.named_parameters()])


BY_HAND = {
    "mlp": by_hand_mlp, "cnn": by_hand_cnn, "transformer": by_hand_transformer, "lstm": by_hand_lstm,
    "attention": by_hand_attention,
}  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "sgd_foreach", "adamw", "adamw_foreach"])
@pytest.mark.parametrize("policy", [SHALLOW, DEEP], ids=lambda p: p.name)
@pytest.mark.parametrize("network", BY_HAND)
def test_weights_are_those_of_the_reference_by_hand(network, policy, optimizer):
    want = BY_HAND[network](policy, optimizer.split("_")[0])
    assert_same_bits(trained(network, policy, optimizer)[0], want)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw_foreach"])
@pytest.mark.parametrize("layer", ["0", "2"])
@pytest.mark.parametrize(
    "role",
    [
        "weights",
        "activations",
        "errors",
        "weight_gradients",
        "optimizer",
        "update",
        "master",
        "accumulator",
    ],
)
def test_an_override_changes_one_role_of_one_layer(role, layer, optimizer):
    base = {**dict.fromkeys(ROLES, "e8m9"), "master": "e8m9", "accumulator": "e8m9"}
    policy = training.Policy("o", **base, overrides={layer: {role: "bfloat16"}})
    found = trained("mlp", policy, optimizer)[0]
    assert_same_bits(found, by_hand_mlp(policy, optimizer.split("_")[0]))
    differs = np.any(found != trained("mlp", training.Policy("base", **base), optimizer)[0])
    assert differs == ((role, layer) != ("errors", "0"))  # where no error goes further


KAHAN = training.Policy("deep", **BF16, accumulator="bfloat16", kahan=True)


@pytest.mark.parametrize("optimizer", ["sgd", "sgd_foreach", "adamw", "adamw_foreach"])
@pytest.mark.parametrize("network", ["mlp", "transformer"])
def test_compensated_updates_are_those_of_the_reference_by_hand(network, optimizer):
    found = trained(network, KAHAN, optimizer, 4)[0]
    assert_same_bits(found, BY_HAND[network](KAHAN, optimizer.split("_")[0], 4))
    assert np.any(found != trained(network, DEEP, optimizer, 4)[0])
