"""softfloat.torch: unmodified models against references by hand with the package's NumPy functions; bits count."""

import doctest
import os
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402
from softfloat.training.policy import ROLES  # noqa: E402

F = torch.nn.functional
LR, MOMENTUM = 0.125, 0.5
BF16 = dict.fromkeys(ROLES, "bfloat16")
DEEP = training.Policy("deep", **BF16, accumulator="bfloat16")
SHALLOW = training.Policy(
    "shallow", weights="float8_e4m3", activations="float8_e4m3", errors="float8_e5m2",
    weight_gradients="bfloat16", optimizer="bfloat16", update="bfloat16", master="binary16",
)  # fmt: skip
RANDOM = training.Policy(
    "random", **BF16, accumulator="e8m9", rounding="stochastic", update_rounding="stochastic"
)


@pytest.fixture(autouse=True)
def known_start():
    torch.manual_seed(3)
    yield
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def mlp():
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    return model, torch.randn(6, 5), torch.randint(0, 3, (6,))


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.second = torch.nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False)
        self.drop = torch.nn.Dropout(0.25)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(self.drop(F.relu(self.second(x)).flatten(1)))


def cnn():
    return Images(), torch.randn(4, 2, 8, 8), torch.randint(0, 3, (4,))


class Text(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, width)
        self.layer = torch.nn.TransformerEncoderLayer(
            width, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.head = torch.nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x)).mean(1))


def transformer():
    return Text(), torch.randint(0, 11, (4, 5)), torch.randint(0, 3, (4,))


class Sequences(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    return Sequences(), torch.randn(4, 3, 4), torch.randint(0, 3, (4,))


class Attention(torch.nn.Module):
    def __init__(self, width=4, places=3):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))
        self.head = torch.nn.Linear(places * width, 3)

    def forward(self, x):
        mixed = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.head(mixed.flatten(1))


def attention():
    return Attention(), torch.randn(2, 3, 4), torch.randint(0, 3, (2,))


NETWORKS = {
    "mlp": mlp, "cnn": cnn, "transformer": transformer, "lstm": lstm, "attention": attention,
}  # fmt: skip
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, LR, momentum=MOMENTUM, foreach=False),
    "sgd_foreach": lambda p: torch.optim.SGD(p, LR, momentum=MOMENTUM, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
}


def loop(model, optimizer, x, y, steps=3, extra=False):
    """The training loop of a user, who knows nothing of emulation."""
    for step in range(steps):
        optimizer.zero_grad()
        outputs = model(x)
        if extra and step % 2:
            with torch.no_grad():
                (model.eval()(x).argmax(-1) == y).float().mean()
                model.train()
            (outputs.detach() * 1.5).mean().exp()
        loss = F.cross_entropy(outputs, y)
        loss.backward()
        optimizer.step()
    return loss


def trained(network, policy, optimizer="sgd", steps=3, **options):
    """The weights after a few steps, as one array, and the emulation."""
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    extra = options.pop("extra", False)
    run = OPTIMIZERS[optimizer](model.parameters())
    with st.emulate(policy, **options) as emulation:
        loop(model, run, x, y, steps, extra)
    return flat(model), emulation


def flat(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def assert_same_bits(got, want):
    got, want = (np.ascontiguousarray(a, np.float32).view(np.uint32) for a in (got, want))
    assert np.array_equal(got, want), f"{np.count_nonzero(got != want)} of {got.size} differ"


# ---------------------------------------------------------------- references by hand
class Hand:
    """The operations of a policy in NumPy: q(role) rounds, product and total run in the accumulator."""

    def __init__(self, policy):
        self.policy = policy
        self.fmt, self.options = policy.sums or (None, {})

    def __call__(self, x, role):
        grid = self.policy.grid(role)
        x = np.asarray(x, np.float32)
        return x if grid.fmt is None else np.asarray(sf.quantize(x, grid.fmt))

    def product(self, a, b):
        if self.fmt is None:
            a, b = (torch.from_numpy(np.asarray(x)) for x in (a, b))
            return (a @ b).numpy()
        return sf.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b), self.fmt, **self.options)

    def plus(self, y, b):
        return y + b if self.fmt is None else sf.add(y, b, self.fmt)

    def total(self, x, axis):
        if self.fmt is None:
            return torch.from_numpy(x).sum(axis).numpy()
        return sf.sum(x, self.fmt, axis)

    def linear(self, x, w, b):
        return self(
            self.plus(self.product(x, self(w, "weights").T), self(b, "weights")), "activations"
        )

    def linear_back(self, e, x, w):
        """(error below, gradients of w and b, not yet rounded)."""
        below = self(self.product(e, self(w, "weights")), "errors")
        return below, self.product(e.T, x), self.total(e, 0)

    def update(self, weights, gradients, velocities):
        """One step of SGD with momentum, operation by operation."""
        for name, g in gradients.items():
            g = self(g, "weight_gradients")
            if name in velocities:
                v = self(velocities[name] * np.float32(MOMENTUM), "optimizer")
                v = self(v + g, "optimizer")
            else:
                v = g
            velocities[name] = v
            change = self(v * np.float32(-LR), "update")
            fmt = self.policy.grid("stored").fmt
            w = weights[name]
            weights[name] = w + change if fmt is None else np.asarray(sf.add(w, change, fmt))


def loss_gradient(hand, logits, y):
    """The gradient of the mean cross entropy with respect to the logits: in the carrier, rounded where it enters."""
    held = torch.from_numpy(logits).requires_grad_()
    F.cross_entropy(held, y).backward()
    return hand(held.grad.numpy(), "errors")


def by_hand_mlp(policy, steps=3):
    torch.manual_seed(3)
    model, x, y = mlp()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand, velocities = Hand(policy), {}
    x = hand(x.numpy(), "activations")
    for _ in range(steps):
        hidden = hand.linear(x, w["0.weight"], w["0.bias"])
        active = np.maximum(hidden, np.float32(0))
        logits = hand.linear(active, w["2.weight"], w["2.bias"])
        error = loss_gradient(hand, logits, y)
        g = {}
        below, g["2.weight"], g["2.bias"] = hand.linear_back(error, active, w["2.weight"])
        below = np.where(active > 0, below, np.float32(0))
        _, g["0.weight"], g["0.bias"] = hand.linear_back(below, x, w["0.weight"])
        hand.update(w, g, velocities)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


@pytest.mark.parametrize("optimizer", ["sgd", "sgd_foreach"])
@pytest.mark.parametrize("policy", [SHALLOW, DEEP], ids=lambda p: p.name)
def test_an_mlp_trains_as_its_reference_by_hand(policy, optimizer):
    assert_same_bits(trained("mlp", policy, optimizer)[0], by_hand_mlp(policy))


def softmax(x):
    return torch.softmax(torch.from_numpy(np.ascontiguousarray(x)), -1).numpy()


def softmax_back(e, y):
    e, y = (torch.from_numpy(np.ascontiguousarray(a)) for a in (e, y))
    return torch.ops.aten._softmax_backward_data(e, y, -1, torch.float32).numpy()


def by_hand_attention(policy, steps=3):
    torch.manual_seed(3)
    model, x, y = attention()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand, velocities = Hand(policy), {}
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
        hand.update(w, g, velocities)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


@pytest.mark.parametrize("policy", [SHALLOW, DEEP], ids=lambda p: p.name)
def test_attention_trains_as_its_reference_by_hand(policy):
    assert_same_bits(trained("attention", policy)[0], by_hand_attention(policy))


def through(function, e, *inputs):
    """Gradients of a torch function in the carrier: what autograd's own formulas give."""
    held = [torch.from_numpy(np.ascontiguousarray(x)).requires_grad_() for x in inputs]
    e = torch.from_numpy(np.ascontiguousarray(e))
    return [g.numpy() for g in torch.autograd.grad(function(*held), held, e)]


def by_hand_cnn(policy, steps=3):
    torch.manual_seed(3)
    model, x, y = cnn()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand, velocities = Hand(policy), {}
    act, err = (lambda t: hand(t, "activations")), (lambda t: hand(t, "errors"))
    fmt, first, second = hand.fmt, {"padding": 1}, {"stride": 2, "groups": 2}
    pool = lambda t: F.max_pool2d(t, 2)  # noqa: E731
    norm = lambda t, a, b: F.batch_norm(t, None, None, a, b, True)  # noqa: E731
    x = act(x.numpy())
    for _ in range(steps):
        read = {name: hand(value, "weights") for name, value in w.items()}
        a = sf.conv2d(x, read["first.weight"], fmt, **first)
        a = act(hand.plus(a, read["first.bias"][:, None, None]))
        affine = read["norm.weight"], read["norm.bias"]
        b = act(norm(*map(torch.from_numpy, (a, *affine))).numpy())
        c = np.maximum(b, np.float32(0))
        d = pool(torch.from_numpy(c)).numpy()
        f = np.maximum(act(sf.conv2d(d, read["second.weight"], fmt, **second)), np.float32(0))
        mask = act(torch.empty(4, 4).bernoulli_(0.75).div_(0.75).numpy())
        h = act(f.reshape(4, 4) * mask)
        logits, g = hand.linear(h, w["head.weight"], w["head.bias"]), {}
        e = loss_gradient(hand, logits, y)
        e, g["head.weight"], g["head.bias"] = hand.linear_back(e, h, w["head.weight"])
        e = np.where(f > 0, err(e * mask).reshape(f.shape), np.float32(0))
        g["second.weight"] = sf.conv2d_weight_gradient(
            d, e, w["second.weight"].shape, fmt, **second
        )
        e = err(sf.conv2d_input_gradient(e, read["second.weight"], d.shape, fmt, **second))
        (e,) = through(pool, e, c)
        e = np.where(c > 0, e, np.float32(0))
        e, g["norm.weight"], g["norm.bias"] = through(norm, e, a, *affine)
        e = err(e)
        g["first.weight"] = sf.conv2d_weight_gradient(x, e, w["first.weight"].shape, fmt, **first)
        g["first.bias"] = hand.total(e, (0, 2, 3))
        hand.update(w, g, velocities)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def test_a_convolutional_network_trains_as_its_reference_by_hand():
    assert_same_bits(trained("cnn", DEEP)[0], by_hand_cnn(DEEP))


def by_hand_lstm(policy, steps=3):
    torch.manual_seed(3)
    model, x, y = lstm()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand, velocities = Hand(policy), {}
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
        hand.update(w, g, velocities)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


def test_an_lstm_trains_as_its_reference_by_hand():
    assert_same_bits(trained("lstm", DEEP)[0], by_hand_lstm(DEEP))


# ---------------------------------------------------------------- all networks
@pytest.mark.parametrize("network", list(NETWORKS)[:4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_policy_of_float32_gives_the_bits_of_plain_torch(network, optimizer):
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    loop(model, OPTIMIZERS[optimizer](model.parameters()), x, y)
    assert_same_bits(trained(network, "fp32", optimizer)[0], flat(model))


@pytest.mark.parametrize("network", list(NETWORKS)[:4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_weight_lies_on_its_grid(network, optimizer):
    found, emulation = trained(network, DEEP, optimizer)
    assert_same_bits(np.asarray(sf.quantize(found, "bfloat16")), found)
    calls = emulation.report().calls
    assert not {"unknown", "opaque", "lost"} & set(calls)


@pytest.mark.parametrize("network", list(NETWORKS)[:4])
def test_stochastic_runs_repeat_with_other_work_in_the_loop_and_on_any_threads(network):
    first = trained(network, RANDOM, seed=5)[0]
    assert_same_bits(trained(network, RANDOM, seed=5)[0], first)
    before = sf.get_num_threads()
    sf.set_num_threads(1)
    assert_same_bits(trained(network, RANDOM, seed=5)[0], first)
    sf.set_num_threads(before)
    assert np.any(trained(network, RANDOM, seed=6)[0] != first)
    if network not in (
        "cnn",
    ):  # whose other work draws the masks of dropout's generator, as without emulation
        assert_same_bits(trained(network, RANDOM, seed=5, extra=True)[0], first)


# ---------------------------------------------------------------- what a user meets when emulation cannot see
def one_pass(model, x, y):
    F.cross_entropy(model(x), y).backward()


def test_stochastic_rounding_needs_a_seed():
    with pytest.raises(ValueError, match="needs seed="):
        st.emulate(RANDOM)


def test_a_block_without_a_product_is_an_error():
    with pytest.raises(st.EmulationError, match="no product was emulated"):
        with st.emulate(DEEP):
            torch.ones(3) + 1
    with st.emulate(DEEP, strict=False) as emulation:
        torch.ones(3) + 1
    assert emulation.report().products() == 0


def test_a_model_in_another_thread_is_an_error():
    model, x, y = mlp()
    caught = []

    def work():
        try:
            one_pass(model, x, y)
        except st.EmulationError as error:
            caught.append(str(error))

    with st.emulate(DEEP, strict=True):
        model(x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "another thread" in caught[0]


def test_backward_after_the_block_is_an_error():
    model, x, y = mlp()
    with st.emulate(DEEP):
        loss = F.cross_entropy(model(x), y)
    with pytest.raises(st.EmulationError, match="backward"):
        loss.backward()


def test_backward_of_a_graph_from_before_the_block_is_an_error():
    model, x, y = mlp()
    loss = F.cross_entropy(model(x), y)
    with pytest.raises(st.EmulationError, match="outside this block"):
        with st.emulate(DEEP):
            model(x)
            loss.backward()


def test_a_changed_operand_is_still_found():
    w = torch.nn.Parameter(torch.ones(2, 2))
    with st.emulate(DEEP):
        y = (torch.ones(2, 2) @ w).exp()
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_fused_optimizer_is_an_error(kind):
    model, x, y = mlp()
    optimizer = getattr(torch.optim, kind)(model.parameters(), 0.1, fused=True)
    with st.emulate(DEEP):
        one_pass(model, x, y)
        with pytest.raises(st.EmulationError, match="fused=False"):
            optimizer.step()


def test_an_operation_without_a_rule_is_named():
    with st.emulate(DEEP):
        torch.ones(2, 2) @ torch.ones(2, 2)
        with pytest.raises(st.EmulationError, match="_linalg_eigh|linalg"):
            torch.linalg.eigvalsh(torch.eye(2))


def test_compensated_updates_are_refused():
    with pytest.raises(ValueError, match="kahan=False"):
        st.emulate("bfloat16_kahan")


def test_a_loss_scale_without_a_scaler_is_a_warning():
    model, x, _ = mlp()
    with pytest.warns(RuntimeWarning, match="GradScaler"):
        with st.emulate("mixed_binary16"):
            model(x)


def test_a_format_that_the_dtype_cannot_hold_is_an_error():
    model, x, _ = mlp()
    with st.emulate("pure_binary16"):
        model(x)
        with torch.autocast("cpu", torch.bfloat16):
            with pytest.raises(st.EmulationError, match="cannot hold"):
                model(x)


def test_a_canary_that_does_not_change_colour_is_an_error(monkeypatch):
    from softfloat.torch import rounder

    monkeypatch.setattr(rounder, "write", lambda tensor, array: None)
    monkeypatch.setattr(rounder, "array_of", lambda t: t.detach().clone().numpy())
    monkeypatch.setattr(rounder, "flat_values", lambda t: t.detach().clone().numpy().reshape(-1))
    with pytest.raises(st.EmulationError, match="does not let emulate round"):
        st.emulate(SHALLOW).__enter__()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_loads_data_unrounded():
    x = torch.full((4,), 1.001)
    with st.emulate(DEEP):
        torch.ones(2, 2) @ torch.ones(2, 2)
        rounded = x * 1
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(x * 1, x) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not torch.equal(rounded, x)


# ---------------------------------------------------------------- loops of other shapes
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("policy", [DEEP, RANDOM], ids=lambda p: p.name)
def test_activation_checkpointing_changes_no_bit(policy, reentrant):
    from torch.utils.checkpoint import checkpoint

    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        model, x, y = mlp()
        x = x.requires_grad_()
        with st.emulate(policy, seed=5):
            outputs = checkpoint(model, x, use_reentrant=reentrant) if checkpointed else model(x)
            F.cross_entropy(outputs, y).backward()
        found.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert_same_bits(*found)


def test_a_module_checkpointed_twice_cannot_be_random():
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(4, 4)
    with st.emulate(RANDOM, seed=1):
        x = torch.randn(2, 4, requires_grad=True)
        for _ in range(2):
            x = checkpoint(layer, x, use_reentrant=False)
        with pytest.raises(st.EmulationError, match="recomputed in backward"):
            x.sum().backward()


@pytest.mark.parametrize("optimizer", ["sgd", "adamw_foreach"])
def test_a_resumed_run_goes_on_bit_for_bit(optimizer):
    whole, _ = trained("mlp", RANDOM, optimizer, steps=4, seed=5)
    torch.manual_seed(3)
    model, x, y = mlp()
    run = OPTIMIZERS[optimizer](model.parameters())
    with st.emulate(RANDOM, seed=5) as emulation:
        loop(model, run, x, y, 2)
    states = model.state_dict(), run.state_dict(), emulation.state_dict()
    model, _, _ = mlp()
    run = OPTIMIZERS[optimizer](model.parameters())
    model.load_state_dict(states[0])
    run.load_state_dict(states[1])
    emulation = st.emulate(RANDOM, seed=5)
    emulation.load_state_dict(states[2])
    with emulation:
        loop(model, run, x, y, 2)
    assert_same_bits(flat(model), whole)
    with pytest.raises(ValueError, match="seed"):
        st.emulate(RANDOM, seed=6).load_state_dict(states[2])


def test_gradients_accumulate_on_their_grid():
    model, x, y = mlp()
    with st.emulate(DEEP):
        for half in (slice(0, 3), slice(3, 6)):
            one_pass(model, x[half], y[half])
    torch.manual_seed(3)
    again, x, y = mlp()
    parts = []
    for half in (slice(0, 3), slice(3, 6)):
        again.zero_grad()
        with st.emulate(DEEP):
            one_pass(again, x[half], y[half])
        parts.append([p.grad.numpy().copy() for p in again.parameters()])
    for p, a, b in zip(model.parameters(), *parts, strict=True):
        assert_same_bits(p.grad.numpy(), sf.quantize(a + b, "bfloat16"))


def test_the_unmodified_grad_scaler_runs():
    model, x, y = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    with st.emulate("mixed_binary16"):
        for _ in range(30):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert 1 < scaler.get_scale() < 2.0**25


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("network", list(NETWORKS)[:4])
def test_evaluation_gives_the_bits_of_the_forward_pass(network, mode):
    model, x, _ = NETWORKS[network]()
    model.eval()
    with st.emulate(DEEP):
        want = model(x).detach().numpy()
        with mode():
            got = model(x).numpy()
    assert_same_bits(got, want)


def test_autocast_runs_inside():
    model, x, y = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with st.emulate(SHALLOW):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(x)
        assert outputs.dtype == torch.bfloat16
        held = outputs.detach().float().numpy()
        assert_same_bits(sf.quantize(held, "float8_e4m3"), held)
        F.cross_entropy(outputs.float(), y).backward()
        optimizer.step()
    for p in model.parameters():
        assert_same_bits(sf.quantize(p.detach().numpy(), "binary16"), p.detach().numpy())


def test_overrides_reach_one_module():
    policy = training.Policy("o", **BF16, overrides={"2": {"activations": "float8_e4m3"}})
    model, x, _ = mlp()
    with st.emulate(policy):
        first = model[:1](x).detach().numpy()
    with st.emulate(policy):
        y = model(x).detach().numpy()
    assert_same_bits(sf.quantize(y, "float8_e4m3"), y)
    assert np.any(np.asarray(sf.quantize(first, "float8_e4m3")) != first)


def test_a_monitor_counts_every_tensor():
    monitor = training.Monitor(every=1)
    trained("mlp", SHALLOW, monitor=monitor)
    counts = monitor.counts
    for role in ("weights", "activations", "errors", "weight_gradients"):
        assert counts[role]["values"] > 0, role
    assert monitor.updates > 0
    assert monitor.tensors["0.addmm.output"].histogram.sum() > 0


# ---------------------------------------------------------------- the small tools
def test_quantize_rounds_both_ways():
    x = torch.randn(50, requires_grad=True)
    g = torch.randn(50)
    y = st.quantize(x, "float8_e4m3", "float8_e5m2", rounding="stochastic", seed=3, stream=4)
    y.backward(g)
    options = {"rounding": "stochastic", "seed": 3}
    assert_same_bits(
        y.detach(), sf.quantize(x.detach().numpy(), "float8_e4m3", stream=4, **options)
    )
    want = sf.quantize(g.numpy(), "float8_e5m2", stream=4 | 1 << 63, **options)
    assert_same_bits(x.grad, want)
    short = st.quantize(x.detach().bfloat16(), "float8_e4m3")
    assert short.dtype == torch.bfloat16
    with pytest.raises(TypeError, match="floating torch tensor"):
        st.quantize(torch.ones(2, dtype=torch.int64), "bfloat16")
    with pytest.raises(ValueError, match="needs seed="):
        st.quantize(x, "bfloat16", rounding="stochastic")


def test_a_quantizer_draws_anew_and_resumes():
    make = lambda: st.Quantizer("float8_e4m3", rounding="stochastic", seed=1, stream=2)  # noqa: E731
    x, first = torch.randn(100), make()
    runs = [first(x) for _ in range(3)]
    assert not torch.equal(runs[0], runs[1])
    other = make()
    other(x)
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(x), other(x))


def test_a_low_precision_optimizer_holds_its_five_slots():
    model, x, y = mlp()
    inner = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM)
    optimizer = st.LowPrecisionOptimizer(
        inner, weight="float8_e4m3", grad="float8_e5m2", momentum="bfloat16", acc="binary16",
        grad_scaling=0.5,
    )  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    weights = [p.detach().numpy().copy() for p in model.parameters()]
    velocity = [None] * len(weights)
    for _ in range(3):
        assert optimizer.step(closure) > 0
        for i, p in enumerate(model.parameters()):
            g = p.grad.numpy()
            assert_same_bits(sf.quantize(g, "float8_e5m2"), g)
            held = velocity[i]
            v = g if held is None else held * np.float32(MOMENTUM) + g
            stepped = torch.from_numpy(weights[i].copy()).add_(torch.from_numpy(v), alpha=-LR)
            weights[i] = sf.quantize(stepped.numpy(), "binary16")
            velocity[i] = sf.quantize(v, "bfloat16")
            assert_same_bits(p.detach(), sf.quantize(weights[i], "float8_e4m3"))
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert optimizer.steps == 3


def test_the_loss_scaler_follows_grad_scaler():
    scales = []
    for scaler in (torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2),
                   st.LossScaler(2.0**127, growth_interval=2)):  # fmt: skip
        torch.manual_seed(3)
        model, x, y = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found = []
        for _ in range(8):
            optimizer.zero_grad()
            scaler.scale(1e3 * F.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(scaler.get_scale())
        scales.append((found, flat(model)))
        state = scaler.state_dict()
    assert scales[0][0] == scales[1][0] and scales[0][0][0] < 2.0**127
    assert_same_bits(scales[0][1], scales[1][1])
    plain = torch.amp.GradScaler("cpu")
    plain.load_state_dict({k: state[k] for k in plain.state_dict()})
    fresh = st.LossScaler()
    fresh.load_state_dict(plain.state_dict())
    assert fresh.get_scale() == scaler.get_scale()
    with pytest.raises(RuntimeError, match="update"):
        fresh.update()


def test_the_page_does_what_it_says():
    page = Path(__file__).resolve().parents[1] / "docs" / "torch.md"
    if page.exists():
        assert doctest.testfile(str(page), module_relative=False) == (0, 8)


def test_negated_views_are_taken_as_the_numbers_they_are():
    x = (torch.tensor([1.1, -2.3]) + 1j * torch.tensor([0.1, 3.3])).conj().imag
    assert torch.equal(st.quantize(x, "bfloat16"), st.quantize(x.clone(), "bfloat16"))
