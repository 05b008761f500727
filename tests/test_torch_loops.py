"""softfloat.torch in loops of every shape: all networks, optimizers and what users put around a step; bits count."""

import contextlib
import functools
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_networks import (  # noqa: E402
    DEEP,
    NETWORKS,
    OPTIMIZERS,
    RANDOM,
    SHALLOW,
    F,
    assert_same_bits,
    flat,
    trained,
)

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402

EVERY = list(NETWORKS)[:4]
SCALE = 2.0**10


def plain_step(model, x, y, optimizer):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def accumulating(model, x, y, optimizer):
    optimizer.zero_grad()
    for half in (slice(0, 2), slice(2, 4)):
        (F.cross_entropy(model(x[half]), y[half]) / 2).backward()
    optimizer.step()


def scaling(model, x, y, optimizer, scaler=None):
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    scaler.step(optimizer)
    scaler.update()


def autocasting(model, x, y, optimizer):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(model(x).float(), y)
    loss.backward()
    optimizer.step()


def evaluating(model, x, y, optimizer):
    plain_step(model, x, y, optimizer)
    model.eval()
    with torch.no_grad():
        (model(x).argmax(-1) == y).float().mean()
    with torch.inference_mode():
        model(x)
    model.train()


def clipping(model, x, y, optimizer):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()


def with_closure(model, x, y, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)


def checkpointing(model, x, y, optimizer):
    optimizer.zero_grad()
    F.cross_entropy(checkpoint(model, x, use_reentrant=False), y).backward()
    optimizer.step()


STEPS = {
    "plain": plain_step, "accumulating": accumulating, "scaling": scaling, "autocast": autocasting,
    "evaluating": evaluating, "clipping": clipping, "closure": with_closure, "checkpointing": checkpointing,
}  # fmt: skip


def run(network, optimizer, shape, policy=None, steps=3, seed=None):
    """The weights after some steps of a shape, in a block of the policy or in plain torch; and the block."""
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    step = STEPS[shape]
    if shape == "scaling":
        step = functools.partial(step, scaler=torch.amp.GradScaler("cpu", init_scale=SCALE))
    block = contextlib.nullcontext() if policy is None else st.emulate(policy, seed=seed)
    with block as emulation:
        for _ in range(steps):
            step(model, x[:4], y[:4], optimizer)
    return flat(model), emulation


MATRIX = pytest.mark.parametrize(
    "network, optimizer, shape",
    [
        pytest.param(n, o, s, marks=() if o == "adamw_foreach" or s == "plain" else pytest.mark.exhaustive)
        for n in EVERY for o in OPTIMIZERS for s in STEPS
    ],
)  # fmt: skip


@MATRIX
def test_a_policy_of_float32_is_plain_torch_in_every_loop(network, optimizer, shape):
    want, _ = run(network, optimizer, shape)
    assert_same_bits(run(network, optimizer, shape, "fp32")[0], want)


@MATRIX
def test_every_loop_ends_on_the_grid_and_knows_all_it_ran(network, optimizer, shape):
    policy = training.Policy("b", **dict.fromkeys(training.policy.ROLES, "bfloat16"))
    found, emulation = run(network, optimizer, shape, policy)
    assert_same_bits(sf.quantize(found, "bfloat16"), found)
    assert not {"unknown", "opaque", "lost"} & set(emulation.report().calls)
    if "foreach" in optimizer:
        assert_same_bits(run(network, optimizer.replace("_foreach", ""), shape, policy)[0], found)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw_foreach"])
@pytest.mark.parametrize("network", EVERY)
def test_what_changes_no_number_changes_no_bit(network, optimizer):
    """A loss scale of a power of two, a closure, checkpointing, and evaluation between steps."""
    want, _ = run(network, optimizer, "plain", DEEP)
    for shape in ("scaling", "closure", "checkpointing", "evaluating"):
        if network == "cnn" and shape in ("checkpointing", "evaluating"):
            continue  # the statistics of the batch are gathered twice
        assert_same_bits(run(network, optimizer, shape, DEEP)[0], want)


# ---------------------------------------------------------------- stochastic rounding, by sites
LONGER = ["mlp", "transformer", "cnn", "lstm"]


@pytest.mark.parametrize("network", LONGER)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "adamw_foreach"])
def test_stochastic_runs_resume_bit_for_bit(network, optimizer):
    whole, _ = trained(network, RANDOM, optimizer, steps=4, seed=5)
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    first = OPTIMIZERS[optimizer](model.parameters())
    with st.emulate(RANDOM, seed=5) as emulation:
        for _ in range(2):
            plain_step(model, x, y, first)
    states = model.state_dict(), first.state_dict(), emulation.state_dict(), torch.get_rng_state()
    again, _, _ = NETWORKS[network]()
    second = OPTIMIZERS[optimizer](again.parameters())
    again.load_state_dict(states[0])
    second.load_state_dict(states[1])
    resumed = st.emulate(RANDOM, seed=5)
    resumed.load_state_dict(states[2])
    torch.set_rng_state(states[3])
    with resumed:
        for _ in range(2):
            plain_step(again, x, y, second)
    assert_same_bits(flat(again), whole)


@pytest.mark.parametrize("network", ["mlp", "transformer"])
def test_stochastic_runs_do_not_know_how_blocks_are_cut(network):
    whole, _ = trained(network, RANDOM, "sgd", steps=4, seed=5)
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    emulation = st.emulate(RANDOM, seed=5)
    for _ in range(4):
        with emulation:
            plain_step(model, x, y, optimizer)
    assert_same_bits(flat(model), whole)


@pytest.mark.parametrize("policy", [RANDOM, SHALLOW], ids=lambda p: p.name)
@pytest.mark.parametrize("network", ["mlp", "transformer", "lstm"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_no_bit(network, reentrant, policy):
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        model, x, y = NETWORKS[network]()
        if x.is_floating_point():
            x.requires_grad_()
        elif reentrant:
            pytest.skip(
                "reentrant checkpointing needs an input with a gradient, and tokens have none"
            )
        with st.emulate(policy, seed=5):
            for _ in range(2):
                outputs = (
                    checkpoint(model, x, use_reentrant=reentrant) if checkpointed else model(x)
                )
                F.cross_entropy(outputs, y).backward()
        found.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert_same_bits(*found)


class Checkpointing(torch.nn.Module):
    """A transformer whose block may be checkpointed, as a whole or the second half of it."""

    def __init__(self, what):
        super().__init__()
        self.what = what
        self.model = NETWORKS["transformer"]()[0]

    def forward(self, x):
        run = lambda part, t: checkpoint(part, t, use_reentrant=False)  # noqa: E731
        x = self.model.embedding(x)
        x = run(self.model.layer, x) if self.what == "layer" else self.model.layer(x)
        x = x.mean(1)
        return run(self.model.head, x) if self.what == "head" else self.model.head(x)


def test_a_layer_checkpointed_twice_in_a_pass_reads_what_it_read():
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        lstm, x = torch.nn.LSTM(4, 4, batch_first=True), torch.randn(2, 3, 4, requires_grad=True)
        with st.emulate(SHALLOW):
            y = x
            for _ in range(2):
                run = lambda t: lstm(t.flip(1))[0].flip(1)  # noqa: B023, E731
                y = checkpoint(run, y, use_reentrant=False) if checkpointed else run(y)
            y.square().sum().backward()
        found.append(np.concatenate([p.grad.numpy().ravel() for p in lstm.parameters()]))
    assert_same_bits(*found)


def test_parts_of_a_transformer_may_be_checkpointed():
    found = []
    for what in ("", "layer", "head"):
        torch.manual_seed(3)
        _, x, y = NETWORKS["transformer"]()
        torch.manual_seed(3)
        model = Checkpointing(what)
        with st.emulate(RANDOM, seed=5):
            F.cross_entropy(model(x), y).backward()
        found.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert_same_bits(found[1], found[0])
    assert_same_bits(found[2], found[0])


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x @ w).tanh() * 1.1

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        y = (x @ w).tanh()
        g = g * 1.1 * (1 - y * y)
        return g @ w.t(), x.t() @ g


class Part(torch.nn.Module):
    """`inner` as a function or as a module, checkpointed as `how` says: operations of its own before and after."""

    def __init__(self, kind, how, as_module):
        super().__init__()
        self.kind, self.how, self.as_module = kind, how, as_module
        self.layer, self.w = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.randn(8, 8) / 2)

    def inner(self, x):
        if self.kind == "function":
            return F.gelu(self.layer(x) * 0.77) * 1.3 + 0.1
        if self.kind == "custom":
            return Squash.apply(x, self.w) * 1.1
        h = self.layer(x)
        with torch.no_grad():
            scale = (h * 1.37).tanh() * 0.77
        return h * scale

    def checked(self, run, x):
        return checkpoint(run, x, use_reentrant=self.how == "reentrant")

    def forward(self, x):
        if self.as_module:
            return self.inner(x)
        x = x * 0.9
        return self.checked(self.inner, x) if self.how else self.inner(x)


class AroundPart(torch.nn.Module):
    def __init__(self, *options):
        super().__init__()
        self.first, self.part, self.last = (
            torch.nn.Linear(8, 8),
            Part(*options),
            torch.nn.Linear(8, 4),
        )

    def forward(self, x):
        h, part = self.first(x), self.part
        return self.last(part.checked(part, h) if part.as_module and part.how else part(h))


NARROW_ERRORS = training.Policy(
    "narrow errors", **{**dict.fromkeys(training.policy.ROLES, "bfloat16"), "errors": "e5m2"},
    overrides={"part": {"activations": "e5m4"}},
)  # fmt: skip


@pytest.mark.parametrize("policy", [RANDOM, NARROW_ERRORS], ids=lambda p: p.name)
@pytest.mark.parametrize("as_module", [True, False])
@pytest.mark.parametrize("kind", ["function", "custom", "no_grad"])
@pytest.mark.parametrize("how", ["frames", "reentrant"])
def test_checkpointed_parts_are_recomputed_where_they_stand(how, kind, as_module, policy):
    if (how, kind, policy) == ("reentrant", "no_grad", RANDOM):
        pytest.skip("the first pass cannot tell what has no gradient: it draws words of its own")
    found = []
    for way in ("", how):
        torch.manual_seed(3)
        model, x = AroundPart(kind, way, as_module), torch.randn(6, 8)
        with st.emulate(policy, seed=5):
            for _ in range(2):
                F.cross_entropy(model(x), torch.arange(6) % 4).backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    for one, other in zip(*found, strict=True):
        assert_same_bits(one, other)


def test_functions_outside_modules_are_recomputed_in_any_order():
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        weights = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
        h = torch.randn(5, 4)
        with st.emulate(RANDOM, seed=5):
            for w in weights:
                run = lambda t, w=w: F.gelu(t @ w) * 1.1  # noqa: E731
                h = checkpoint(run, h, use_reentrant=False) if checkpointed else run(h)
            h.sum().backward()
        found.append(np.concatenate([w.grad.numpy().ravel() for w in weights]))
    assert_same_bits(*found)


def test_nested_checkpoints_of_functions_cannot_be_random():
    w, x = torch.randn(4, 4, requires_grad=True), torch.randn(5, 4)
    inner = lambda t: F.gelu(t @ w) * 1.2  # noqa: E731
    outer = lambda t: checkpoint(inner, F.gelu(t @ w), use_reentrant=False)  # noqa: E731
    with (
        pytest.raises(st.EmulationError, match="do not nest"),
        st.emulate(RANDOM, seed=5),
    ):
        checkpoint(outer, x, use_reentrant=False).sum().backward()


class Scaling(torch.nn.Module):
    """Operations on inputs, which have no gradient, inside the module."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.layer((x - 0.123) * 1.2345) * 1.1


def test_an_evaluation_before_the_step_draws_no_word_of_it():
    found = []
    for evaluates in (False, True):
        torch.manual_seed(3)
        model, x = Scaling(), torch.randn(6, 8)
        with st.emulate(RANDOM, seed=5):
            if evaluates:
                with torch.no_grad():
                    model(x)
            F.cross_entropy(model(x), torch.arange(6) % 4).backward()
        found.append(model.layer.weight.grad.numpy())
    assert_same_bits(*found)


def test_evaluation_keeps_nothing_of_each_batch():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU(), torch.nn.Linear(4, 4))
    x = torch.randn(2, 8)
    sizes = []
    with st.emulate(SHALLOW) as emulation, torch.no_grad():
        for _ in range(2):
            for _ in range(5):
                model(x)
            held = vars(emulation._state.sites).values()
            sizes.append(sum(len(v) for v in held if isinstance(v, (dict, list))))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("network", ["mlp", "transformer"])
@pytest.mark.parametrize("threads", [1, 2])
def test_stochastic_runs_are_the_same_on_any_number_of_threads(network, threads):
    ours, torchs = sf.get_num_threads(), torch.get_num_threads()
    want, _ = trained(network, RANDOM, "adamw", seed=5)
    try:
        sf.set_num_threads(min(threads, ours))
        torch.set_num_threads(threads)
        assert_same_bits(trained(network, RANDOM, "adamw", seed=5)[0], want)
    finally:
        sf.set_num_threads(ours)
        torch.set_num_threads(torchs)


@pytest.mark.parametrize("network", ["mlp", "transformer"])
def test_stochastic_runs_do_not_know_what_else_runs(network):
    """Metrics, averages of weights, other networks, snapshots, clones: none of it draws a word of the training."""
    want, _ = trained(network, RANDOM, "sgd", seed=5)
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    generator = torch.Generator().manual_seed(1)
    average = [p.detach().clone() for p in model.parameters()]
    with st.emulate(RANDOM, seed=5):
        for step in range(3):
            optimizer.zero_grad()
            outputs = model(x)
            if step:
                noise = torch.randn(5, 5, generator=generator)
                (noise @ noise).exp().sum()
                with torch.no_grad():
                    model(x).softmax(-1).log().sum()
                    [a.lerp_(p, 0.1) for a, p in zip(average, model.parameters(), strict=True)]
                [v.clone() for v in model.state_dict().values()]
            F.cross_entropy(outputs, y).backward()
            sum(p.grad.norm() for p in model.parameters()).item()
            optimizer.step()
    assert_same_bits(flat(model), want)


class Lookahead(torch.optim.Optimizer):
    """Zhang et al. (2019): each second step goes half of the way from the slow weights to the fast ones."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0
        super().__init__([p for group in inner.param_groups for p in group["params"]], {})
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % 2 == 0:
            for slow, p in zip(self.slow, self.param_groups[0]["params"], strict=True):
                slow.add_(p - slow, alpha=0.5)
                p.copy_(slow)


def test_an_optimizer_around_another_takes_one_step_and_reads_masters():
    found = []
    policy = training.Policy("m", weights="float8_e4m3fn", master="binary32")
    for block in (contextlib.nullcontext(), st.emulate(policy)):
        torch.manual_seed(3)
        model = torch.nn.Linear(4, 2, bias=False)
        optimizer = Lookahead(torch.optim.SGD(model.parameters(), 0.1))
        with block as emulation:
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.ones(3, 4)).sum().backward()  # gradients that weights have no part in
                optimizer.step()
        found.append(flat(model))
    assert emulation.state_dict()["step"] == 4
    assert_same_bits(*found)


def test_compensated_runs_resume_bit_for_bit():
    policy = training.Policy("k", **dict.fromkeys(training.policy.ROLES, "bfloat16"), kahan=True)
    whole, _ = trained("mlp", policy, "adamw", steps=4)
    torch.manual_seed(3)
    model, x, y = NETWORKS["mlp"]()
    first = OPTIMIZERS["adamw"](model.parameters())
    with st.emulate(policy) as emulation:
        for _ in range(2):
            plain_step(model, x, y, first)
    again, _, _ = NETWORKS["mlp"]()
    again.load_state_dict(model.state_dict())
    second = OPTIMIZERS["adamw"](again.parameters())
    second.load_state_dict(first.state_dict())
    resumed = st.emulate(policy)
    resumed.load_state_dict(emulation.state_dict())
    with resumed:
        for _ in range(2):
            plain_step(again, x, y, second)
    assert_same_bits(flat(again), whole)


def test_scales_of_delayed_scaling_resume_bit_for_bit():
    def make():
        torch.manual_seed(3)
        model, x, y = NETWORKS["mlp"]()
        return model, OPTIMIZERS["sgd"](model.parameters()), x, y

    model, optimizer, x, y = make()
    with st.emulate("fp8_hybrid"):
        for _ in range(4):
            plain_step(model, x, y, optimizer)
    whole = flat(model)
    model, optimizer, x, y = make()
    with st.emulate("fp8_hybrid") as emulation:
        for _ in range(2):
            plain_step(model, x, y, optimizer)
    held = io.BytesIO()
    torch.save(emulation.state_dict(), held)
    held.seek(0)
    resumed = st.emulate("fp8_hybrid")
    resumed.load_state_dict(torch.load(held, weights_only=True))
    with resumed:
        for _ in range(2):
            plain_step(model, x, y, optimizer)
    assert_same_bits(flat(model), whole)
