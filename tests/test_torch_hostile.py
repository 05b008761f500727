"""softfloat.torch where it could do nothing, or round wrongly, without a word: each way is rounded or refused."""

import copy
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_networks import BF16, DEEP, F, assert_same_bits, flat  # noqa: E402

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402

PLAIN = training.Policy("plain products", **BF16)
MASTER = training.Policy(
    "master", weights="float8_e4m3", activations="bfloat16", errors="float8_e5m2",
    weight_gradients="bfloat16", optimizer="bfloat16", update="bfloat16", master="binary32",
)  # fmt: skip
RANDOM = training.Policy("random", **BF16, rounding="stochastic")
OFF = 1.0035  # 1.0 in bfloat16; three of them are 3.015625, and three of those 3.0


def rounded(x, fmt="bfloat16"):
    return torch.from_numpy(np.array(sf.quantize(x.detach().numpy(), fmt)))


def on_grid(x, fmt="bfloat16"):
    x = torch.view_as_real(x) if x.is_complex() else x
    return torch.equal(rounded(x, fmt), x.detach())


def inside(function, policy=PLAIN, **options):
    """What a function gives inside a block."""
    with st.emulate(policy, **options):
        torch.ones(2, 2) @ torch.ones(2, 2)
        return function()


@pytest.fixture(autouse=True)
def known_start():
    torch.manual_seed(3)


# ---------------------------------------------------------------- operands of products
def sliced(x):
    whole = torch.full((2, 3), OFF)
    whole[:1].mul_(2)
    return whole[1:]


def partly_written(x):
    whole = torch.full((2, 3), OFF)
    torch.neg(x, out=whole[:1])
    return whole[1:]


WAYS = {
    "clamp": lambda x: x.clamp(max=OFF),
    "clamp_": lambda x: x.clamp_(max=OFF),
    "masked_fill": lambda x: x.masked_fill(x > 0, OFF),
    "where": lambda x: torch.where(x > 0, OFF, x),
    "fill_": lambda x: x.fill_(OFF),
    "slice assignment": lambda x: x.__setitem__((slice(None), slice(None)), OFF) or x,
    "full_like": lambda x: torch.full_like(x, OFF),
    "pad": lambda x: F.pad(x[:, :0], (3, 0), value=OFF),
    "threshold": lambda x: F.threshold(-x, 0.0, OFF),
    "hardtanh": lambda x: F.hardtanh(x, -1.0, OFF),
    "scatter": lambda x: x.scatter(1, torch.tensor([[0, 1, 2]]), OFF),
    "index_fill": lambda x: x.index_fill(1, torch.arange(3), OFF),
    "empty_like and NumPy": lambda x: torch.from_numpy(np.full((1, 3), OFF, np.float32)),
    "a slice that was rounded": sliced,
    "an out= that was a slice": partly_written,
}


@pytest.mark.parametrize("way", WAYS)
def test_products_round_constants_that_came_with_no_operation(way):
    got = inside(lambda: WAYS[way](torch.full((1, 3), 2.0) * 1) @ torch.ones(3, 1))
    assert got.item() == 3.0


def test_memory_is_not_taken_for_rounded_in_a_second_block():
    emulation = st.emulate(PLAIN)
    with emulation:
        x = torch.ones(1, 3) * 1
        x @ torch.ones(3, 1)
    x.fill_(OFF)
    with emulation:
        assert (x @ torch.ones(3, 1)).item() == 3.0


@pytest.mark.parametrize("accumulator", [None, "bfloat16"])
@pytest.mark.parametrize("name", ["mm", "bmm", "sum", "add", "matmul"])
def test_results_arrive_in_out(name, accumulator):
    policy = training.Policy("p", **BF16, accumulator=accumulator)
    x = torch.randn(3, 3)
    operands = {"bmm": (x[None], x[None]), "sum": (x, 0)}.get(name, (x, x))
    run = getattr(torch, name)
    want = inside(lambda: run(*operands), policy)
    out = torch.full_like(want, 7.0)
    inside(lambda: run(*operands, out=out), policy)
    assert_same_bits(out, want)
    empty = torch.empty(0)
    inside(lambda: run(*operands, out=empty), policy)
    assert_same_bits(empty, want)


def test_integers_are_left_alone():
    x = torch.randint(0, 1 << 40, (3, 3))
    got = inside(
        lambda: (
            x @ x,
            x * x,
            x.sum(0),
            x.float().argsort(),
            torch.bucketize(x.float(), x[0].sort()[0].float()),
        )
    )
    for a, b in zip(got, (x @ x, x * x, x.sum(0)), strict=False):
        assert torch.equal(a, b)


def test_complex_numbers_are_rounded_by_their_parts():
    x = torch.randn(3, 3, dtype=torch.complex64)
    got = inside(lambda: (x * x, torch.polar(x.real.abs(), x.imag)))
    assert all(map(on_grid, got))
    assert torch.equal(got[0], torch.view_as_complex(rounded(torch.view_as_real(x * x))))


@pytest.mark.parametrize("way", ["transposed", "strided", "same twice", "both of one"])
def test_backward_reads_the_operand_that_forward_read(way):
    x = torch.randn(5, 5)
    whole = torch.randn(5, 10)
    a = {"transposed": x.t(), "strided": whole[:, ::2], "same twice": x, "both of one": x}[way]
    w = torch.nn.Parameter(torch.eye(5))
    policy = training.Policy("r", activations=("float8_e4m3", "stochastic"))

    def run():
        if way == "both of one":  # forward rounds x, then w times its transpose
            (x.t() @ x).sum()
        y = a @ w
        y.backward(torch.eye(5))
        return y

    y = inside(run, policy, seed=1)
    assert not torch.equal(y, a)
    assert torch.equal(w.grad, y.t())


def test_a_tensor_times_itself_is_rounded_once():
    policy = training.Policy("r", activations=("float8_e4m3", "stochastic"))
    x = torch.randn(4, 4, requires_grad=True)

    def run():
        y = x @ x
        y.backward(torch.eye(4))
        return y

    inside(run, policy, seed=1)
    half = x.grad.t() / 2  # the gradient is twice the transpose of what was read
    assert on_grid(half, "float8_e4m3")


# ---------------------------------------------------------------- weights
def reloaded(model):
    model.load_state_dict({k: v * 3 for k, v in model.state_dict().items()})


CHANGES = {
    "p.data = ...": lambda m: setattr(m.weight, "data", m.weight.data * 3),
    "p.data = ... twice": lambda m: [setattr(m.weight, "data", m.weight.data * 3) for _ in "ab"],
    "p.data.mul_": lambda m: m.weight.data.mul_(3),
    "init": lambda m: torch.nn.init.normal_(m.weight),
    "zeros": lambda m: torch.nn.init.zeros_(m.weight),
    "load_state_dict": reloaded,
    "a part of it": lambda m: m.weight.data[1:].mul_(3),
    "a new parameter": lambda m: setattr(m, "weight", torch.nn.Parameter(torch.randn(4, 4))),
    "copy_": lambda m: m.weight.data.copy_(torch.randn(4, 4)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_stale_weight_is_read(change):
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def run():
        before = model(x)
        CHANGES[change](model)
        return before, model(x)

    before, got = inside(run, MASTER)
    assert not torch.equal(before, got)
    assert_same_bits(got.detach(), inside(lambda: model(x), MASTER).detach())


def test_no_stale_weight_is_read_in_a_second_block():
    model, x, emulation = torch.nn.Linear(4, 4), torch.randn(2, 4), st.emulate(MASTER)
    with emulation:
        model(x)
    with torch.no_grad():
        model.weight.mul_(3)
    with emulation:
        got = model(x)
    assert_same_bits(got.detach(), inside(lambda: model(x), MASTER).detach())


SNAPSHOTS = {
    "clone": lambda m: {k: v.clone() for k, v in m.state_dict().items()},
    "deepcopy": lambda m: copy.deepcopy(m).state_dict(),
    "double": lambda m: {k: v.double().float() for k, v in m.state_dict().items()},
    "copy_": lambda m: {k: torch.empty_like(v).copy_(v) for k, v in m.state_dict().items()},
}


@pytest.mark.parametrize("way", SNAPSHOTS)
def test_snapshots_have_the_stored_weights(way):
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    held = inside(lambda: model(x) is not None and SNAPSHOTS[way](model), MASTER)
    for name, value in model.state_dict().items():
        assert torch.equal(held[name], value)


def averages(model, policy=None):
    """An average of the weights while they move, in the three ways that loops keep one."""
    torch.manual_seed(5)
    one, two, three = ([p.detach().clone() for p in model.parameters()] for _ in range(3))
    fourth = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )

    def run():
        for _ in range(3):
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(torch.randn_like(p))
                for a, b, p in zip(one, two, model.parameters(), strict=True):
                    a.lerp_(p, 0.1)
                    b.mul_(0.9).add_(p, alpha=0.1)
                torch._foreach_lerp_(three, [p.detach() for p in model.parameters()], 0.1)
            fourth.update_parameters(model)

    inside(run, policy) if policy else run()
    return [*one, *two, *three, *(p.detach() for p in fourth.parameters())]


def test_averages_of_weights_are_those_of_plain_torch():
    model = torch.nn.Linear(4, 4)
    start = copy.deepcopy(model)
    policy = training.Policy("fp8", weights="float8_e4m3", activations=None, master="binary32")
    want = averages(start)
    for p in (policy, training.Policy("bf16", **{**BF16, "activations": None}, master="binary32")):
        for got, plain in zip(averages(copy.deepcopy(model), p), want, strict=True):
            assert_same_bits(got, plain)


def test_averages_stay_wide_where_activations_are_narrow():
    average, weights = torch.full((4,), OFF), torch.nn.Parameter(torch.full((4,), 2.0))
    plain = average.clone()

    def run():
        with torch.no_grad():
            average.lerp_(weights, 0.001)

    inside(run, MASTER)
    assert_same_bits(average, plain.lerp_(weights.detach(), 0.001))


# ---------------------------------------------------------------- backward
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def test_custom_functions_are_rounded_both_ways():
    x, w = torch.randn(3, 4, requires_grad=True), torch.nn.Parameter(torch.randn(4, 4))

    def run():
        y = Square.apply(Reversed.apply(x @ w))
        y.backward(torch.full((3, 4), OFF))
        return y

    y = inside(run, MASTER)
    assert on_grid(y) and on_grid(x.grad, "float8_e5m2") and on_grid(w.grad)


def test_quantize_runs_inside_a_block():
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4)

    def run():
        y = st.quantize(x @ w, "float8_e4m3", "float8_e4m3")
        y.backward(torch.full((3, 4), OFF))
        return y

    assert on_grid(inside(run), "float8_e4m3")
    assert_same_bits(x.grad, rounded(torch.ones(3, 4) @ rounded(w).t()))


def test_tensors_written_part_by_part_are_as_stacked_ones():
    found = []
    for stacked in (True, False):
        torch.manual_seed(5)
        layer, x = torch.nn.Linear(4, 3), torch.randn(2, 5, 4)

        def run(stacked=stacked, layer=layer, x=x):
            parts = [torch.tanh(layer(x[:, t])) for t in range(5)]
            y = torch.stack(parts, 1) if stacked else torch.zeros(2, 5, 3)
            for t in range(0 if stacked else 5):
                y[:, t] = parts[t]
            (y * y).sum().backward()

        inside(run, DEEP)
        found.append(np.concatenate([p.grad.numpy().ravel() for p in layer.parameters()]))
    assert_same_bits(*found)


@pytest.mark.parametrize("way", ["chunk", "split", "unbind", "slice", "select"])
def test_a_gradient_of_a_part_of_a_parameter_is_rounded_once(way):
    """As that of a parameter of its own: not to the errors' format first."""
    shape = {"unbind": (2, 4, 5), "select": (2, 4, 5)}.get(way, (8, 5))
    whole, x = torch.randn(shape), torch.randn(3, 5)
    cut = {
        "chunk": lambda w: w.chunk(2), "split": lambda w: w.split([4, 4]), "unbind": lambda w: w.unbind(),
        "slice": lambda w: (w[:4], w[4:]), "select": lambda w: (w[0], w[1]),
    }[way]  # fmt: skip

    def run(parts):
        (F.linear(x, parts[0]) * F.linear(x, parts[1])).sum().backward()

    joined = torch.nn.Parameter(whole.clone())
    apart = [torch.nn.Parameter(p.clone()) for p in cut(whole)]
    inside(lambda: run(cut(joined)), MASTER)
    inside(lambda: run(apart), MASTER)
    for got, want in zip(cut(joined.grad), apart, strict=True):
        assert not on_grid(got, "float8_e5m2")
        assert_same_bits(got, want.grad)


def test_a_parameter_used_twice_has_one_rounding_of_its_gradient():
    w, x, z = torch.nn.Parameter(torch.randn(4, 3)), torch.randn(5, 4), torch.randn(5, 4)
    e = torch.randn(5, 3)
    inside(lambda: (x @ w + z @ w).backward(e), MASTER)
    read = rounded(e, "float8_e5m2")
    want = rounded(x).t() @ read + rounded(z).t() @ read
    assert_same_bits(w.grad, rounded(want))


def test_overlapping_pools_add_errors_on_their_grid():
    x = torch.randn(1, 1, 6, 6, requires_grad=True)

    def run():
        torch.ones(2, 2) @ torch.ones(2, 2)
        F.max_pool2d(x.exp(), 3, 1).backward(torch.rand(1, 1, 4, 4))

    inside(run, MASTER)
    assert on_grid(x.grad, "float8_e5m2")


def test_gradients_stay_on_their_grid_when_they_are_clipped():
    model = torch.nn.Linear(4, 4)

    def run():
        model(torch.randn(3, 4)).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=False)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.0123)

    inside(run, MASTER)
    assert all(on_grid(p.grad) for p in model.parameters())


def test_gradients_that_a_loop_assigns_are_gradients():
    layer = nn.Linear(4, 4)

    def run():
        layer(torch.randn(3, 4))
        for p in layer.parameters():
            p.grad = torch.randn(p.shape)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.1)

    inside(run, MASTER)
    assert all(on_grid(p.grad) for p in layer.parameters())


def test_functional_calls_read_their_parameters_as_weights():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), torch.randn(3, 4)
    other = {n: torch.randn_like(p, requires_grad=True) for n, p in model.named_parameters()}
    y = inside(lambda: torch.func.functional_call(model, other, (x,)), MASTER)
    model.load_state_dict(other)
    assert_same_bits(y.detach(), inside(lambda: model(x), MASTER).detach())


# ---------------------------------------------------------------- optimizers
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(1.3))
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) * self.scale


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_parameter_without_dimensions_changes_nothing_for_the_others(kind):
    policy = training.Policy("u", update="float8_e5m2", optimizer="float8_e5m2")
    found = []
    for foreach in (False, True):
        torch.manual_seed(5)
        model, x = Scaled(), torch.randn(3, 4)
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, foreach=foreach)

        def run(model=model, x=x, optimizer=optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

        inside(run, policy)
        found.append(flat(model))
    assert_same_bits(*found)


ZOO = (
    "Adagrad RMSprop Adadelta LBFGS NAdam RAdam Adamax Rprop ASGD Adam AdamW SGD Muon Adafactor"
).split()


@pytest.mark.parametrize("kind", ZOO)
def test_every_optimizer_of_torch_keeps_weights_and_state_on_their_grids(kind):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8, bias=False), torch.nn.Tanh(),
                                torch.nn.Linear(8, 2, bias=False))  # fmt: skip
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-2)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    start = flat(model)
    inside(lambda: [optimizer.step(closure) for _ in range(3)])
    assert np.any(flat(model) != start)
    assert all(map(on_grid, model.parameters()))
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    assert all(on_grid(v) for v in state if v.dim())


# ---------------------------------------------------------------- modules
def attention_of(**options):
    def run(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **options)

    return run


QKV = [(2, 4, 5, 8)] * 3
TOKENS, IMAGE = (2, 5, 8), (2, 4, 9, 9)
nn = torch.nn
MODULES = {
    "sdpa": (attention_of(), QKV),
    "sdpa causal": (attention_of(is_causal=True), QKV),
    "sdpa mask": (attention_of(attn_mask=torch.ones(5, 5).tril().bool()), QKV),
    "sdpa bias": (attention_of(attn_mask=torch.linspace(-1, 1, 25).reshape(5, 5)), QKV),
    "sdpa dropout": (attention_of(dropout_p=0.3), QKV),
    "sdpa groups": (attention_of(enable_gqa=True), [QKV[0], (2, 2, 5, 8), (2, 2, 5, 8)]),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), [TOKENS] * 3),
    "cross attention": (lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=6), [TOKENS, (2, 5, 6), (2, 5, 6)]),
    "attention in eval": (lambda: nn.MultiheadAttention(8, 2, batch_first=True).eval(), [TOKENS] * 3),
    "encoder in eval": (lambda: nn.TransformerEncoderLayer(8, 2, 16).eval(), [TOKENS]),
    "transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), [TOKENS] * 2),
    "gru": (lambda: nn.GRU(8, 6, 2, bidirectional=True, dropout=0.1), [TOKENS]),
    "rnn": (lambda: nn.RNN(8, 6), [TOKENS]),
    "lstm": (lambda: nn.LSTM(8, 6, bidirectional=True, proj_size=3), [TOKENS]),
    "lstm cell": (lambda: nn.LSTMCell(8, 6), [(5, 8)]),
    "gru cell": (lambda: nn.GRUCell(8, 6), [(5, 8)]),
    "dilated, grouped": (lambda: nn.Conv2d(4, 6, 3, dilation=2, groups=2, padding="same"), [IMAGE]),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), [IMAGE]),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), [IMAGE]),
    "reflecting": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), [IMAGE]),
    "circular": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), [IMAGE]),
    "one image": (lambda: nn.Conv2d(4, 6, 3), [IMAGE[1:]]),
    "conv1d": (lambda: nn.Conv1d(5, 6, 3), [TOKENS]),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), [TOKENS]),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)), [TOKENS]),
    **{name: (lambda make=make: nn.Sequential(nn.Conv2d(4, 4, 1), make()), [IMAGE]) for name, make in {
        "overlapping pool": lambda: nn.MaxPool2d(3, 1), "adaptive pool": lambda: nn.AdaptiveMaxPool2d(2),
        "mean pool": lambda: nn.AdaptiveAvgPool2d(2), "upsample": lambda: nn.Upsample(scale_factor=2),
        "bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"), "batch norm": lambda: nn.BatchNorm2d(4),
        "instance norm": lambda: nn.InstanceNorm2d(4, affine=True), "group norm": lambda: nn.GroupNorm(2, 4),
        "rms norm": lambda: nn.RMSNorm(9), "layer norm": lambda: nn.LayerNorm(9), "prelu": lambda: nn.PReLU(4),
        "shuffle": lambda: nn.PixelShuffle(2), "response norm": lambda: nn.LocalResponseNorm(2),
        "dropout2d": lambda: nn.Dropout2d(), "glu": lambda: nn.GLU(1), "hardswish": lambda: nn.Hardswish(),
        "mish": lambda: nn.Mish(), "selu": lambda: nn.SELU(), "softshrink": lambda: nn.Softshrink(),
        "rrelu": lambda: nn.RReLU(), "silu": lambda: nn.SiLU(), "fold": lambda: nn.Unfold(3),
    }.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_results_and_gradients_of_modules_are_on_their_grids(name):
    module, shapes = MODULES[name]
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    module = module if name.startswith("sdpa") else module()
    policy = training.Policy("p", **{**BF16, "errors": "float8_e5m2"}, accumulator="bfloat16")

    def run():
        y = module(*inputs)
        y = y[0] if isinstance(y, tuple) else y
        (y * 1.3).sum().backward()
        return y

    y = inside(run, policy)
    assert on_grid(y)
    assert all(on_grid(x.grad, "float8_e5m2") for x in inputs)
    if isinstance(module, nn.Module):
        assert all(on_grid(p.grad) for p in module.parameters())


def test_channels_last_changes_no_bit():
    found = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 2, 3)).to(
            memory_format=layout
        )
        x = torch.randn(2, 4, 9, 9).to(memory_format=layout)
        policy = training.Policy("r", **BF16, accumulator="bfloat16", rounding="stochastic")
        inside(lambda model=model, x=x: model(x).square().sum().backward(), policy, seed=1)
        found.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert_same_bits(*found)


@pytest.mark.parametrize("model, shape", [
    (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), (0, 4)), (nn.Conv2d(2, 3, 3), (0, 2, 8, 8)),
])  # fmt: skip
def test_empty_batches_pass(model, shape):
    def run():
        y = model(torch.randn(shape))
        y.sum().backward()
        return y

    assert inside(run, DEEP).numel() == 0
    assert all(not p.grad.any() for p in model.parameters())


def test_a_parameter_that_thaws_has_its_gradient_rounded():
    policy = training.Policy("g", weight_gradients="float8_e5m2")
    layer, x = nn.Linear(4, 4).requires_grad_(False), torch.randn(3, 4)

    def run():
        layer(x)
        layer.requires_grad_(True)
        layer(x).sum().backward()

    inside(run, policy)
    assert on_grid(layer.weight.grad, "float8_e5m2") and on_grid(layer.bias.grad, "float8_e5m2")


def test_stacked_models_read_their_parameters_as_weights():
    models, x = [nn.Linear(4, 4, bias=False) for _ in range(3)], torch.randn(2, 4)
    stacked, _ = torch.func.stack_module_state(models)
    one = lambda p: torch.func.functional_call(models[0], p, (x,))  # noqa: E731
    got = inside(lambda: torch.vmap(one)(stacked), MASTER)
    want = inside(lambda: [m(x) for m in models], MASTER)
    assert_same_bits(got.detach(), torch.stack(want).detach())


# ---------------------------------------------------------------- products by their definition
def mul(a, b):
    return sf.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b), "bfloat16")


def plus(a, b):
    return sf.add(a, b, "bfloat16")


def conv(x, w, **geometry):
    return sf.conv2d(x, w, "bfloat16", **geometry)


def transposed(x, w):
    return sf.conv2d_input_gradient(x, w, (2, 2, 11, 11), "bfloat16", stride=2, groups=1)


A, B, C, V = (4, 5), (5, 3), (4, 3), (5,)
X = (2, 4, 9, 9)
PRODUCTS = {
    "mm": (torch.mm, mul, A, B),
    "einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), lambda a, b: mul(a, b.T), A, A),
    "einsum of batches": (
        lambda a, b: torch.einsum("bij,bjk->bik", a, b), mul, (2, *A), (2, *B)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([0], [0])), lambda a, b: mul(a.T, b), A, C),
    "matmul of batches": (torch.matmul, mul, (2, *A), (2, *B)),
    "mv": (torch.mv, lambda a, v: mul(a, v[:, None])[:, 0], A, V),
    "dot": (lambda a, b: torch.dot(a, b)[None], lambda a, b: mul(a[None], b[:, None])[0], V, V),
    "addmm": (torch.addmm, lambda c, a, b: plus(mul(a, b), c), C, A, B),
    "addmm, alpha and beta": (
        lambda c, a, b: torch.addmm(c, a, b, alpha=0.5, beta=2),
        lambda c, a, b: plus(mul(a, b) * np.float32(0.5), c * np.float32(2)), C, A, B),
    "addmm, beta=0": (lambda c, a, b: torch.addmm(c * torch.nan, a, b, beta=0), lambda c, a, b: mul(a, b), C, A, B),
    "baddbmm": (torch.baddbmm, lambda c, a, b: plus(mul(a, b), c), (2, *C), (2, *A), (2, *B)),
    "linear in 3 dimensions": (F.linear, lambda x, w: mul(x.reshape(8, 5), w.T).reshape(2, 4, 3), (2, *A), (3, 5)),
    "conv": (F.conv2d, conv, X, (6, 4, 3, 3)),
    "dilated, grouped conv": (
        lambda x, w: F.conv2d(x, w, None, 2, 1, 2, 2),
        lambda x, w: conv(x, w, stride=2, padding=1, dilation=2, groups=2), X, (6, 2, 3, 3)),
    "depthwise conv": (lambda x, w: F.conv2d(x, w, groups=4), lambda x, w: conv(x, w, groups=4), X, (4, 1, 3, 3)),
    "transposed conv": (lambda x, w: F.conv_transpose2d(x, w, stride=2), transposed, (2, 4, 5, 5), (4, 2, 3, 3)),
    "conv1d": (F.conv1d, lambda x, w: conv(x[:, :, None], w[:, :, None])[:, :, 0], (2, 4, 9), (6, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["contiguous", "strided", "float64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_their_definition(name, layout):
    run, reference, *shapes = PRODUCTS[name]
    given = [torch.randn(shape) for shape in shapes]
    if "add" in name:  # what is added is the number it is
        given[0] = rounded(given[0])
    if layout == "strided":
        given = [torch.stack([t, t], -1)[..., 0] for t in given]
    if layout == "float64":
        given = [t.double() for t in given]
    found = inside(lambda: run(*given), DEEP)
    assert found.dtype == given[0].dtype and found.shape == run(*given).shape
    want = reference(*(rounded(t).float().numpy() for t in given))
    assert_same_bits(found.float(), np.asarray(want, np.float32))


def test_padding_of_an_embedding_has_no_gradient():
    layer = nn.Embedding(7, 8, padding_idx=0)
    inside(lambda: (layer(torch.tensor([[0, 1, 2], [2, 2, 0]])) * OFF).sum().backward(), MASTER)
    assert not layer.weight.grad[0].any() and layer.weight.grad[2].eq(3).all()


# ---------------------------------------------------------------- refused
def gradient_of_gradient():
    x = torch.randn(3, 3, requires_grad=True)
    torch.autograd.grad((x @ x).exp().sum(), x, create_graph=True)


def nested():
    with st.emulate(PLAIN):
        pass


def flash():
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(*[torch.randn(2, 4, 5, 8)] * 3)


def complex_product():
    x = torch.randn(2, 2, dtype=torch.complex64)
    return x @ x


SPARSE = torch.eye(2).to_sparse()


def on_host():
    with torch.autograd.graph.save_on_cpu():
        nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()


REFUSED = {
    "create_graph": (gradient_of_gradient, "create_graph"),
    "copies of saved tensors": (on_host, "save_on_cpu"),
    "a block in a block": (nested, "active in this thread already"),
    "flash attention": (flash, "SDPBackend.MATH"),
    "complex products": (complex_product, "complex"),
    "sparse": (lambda: torch.sparse.mm(SPARSE, torch.eye(2)), "to_dense"),
    "fft": (lambda: torch.fft.rfft(torch.randn(4)), "_fft_r2c"),
    "eigenvalues": (lambda: torch.linalg.eigvalsh(torch.eye(2)), "linalg_eigh"),
    "bags": (lambda: nn.EmbeddingBag(7, 8)(torch.zeros(2, 3, dtype=torch.int64)), "_embedding_bag"),
    "in-place products": (lambda: torch.zeros(2, 2).addmm_(torch.eye(2), torch.eye(2)), "addmm_"),
    "conv3d": (lambda: nn.Conv3d(2, 3, 3)(torch.randn(1, 2, 5, 5, 5)), "3 dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_emulated_is_refused_by_name(name):
    run, words = REFUSED[name]
    with pytest.raises(st.EmulationError, match=words):
        inside(run, DEEP)


def test_the_gradients_of_torch_func_are_refused():
    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="saved tensor hooks") as told:
        inside(lambda: torch.func.grad(lambda v: v.exp().sum())(x))
    assert any("backward()" in note for note in told.value.__notes__)


def test_vmap_is_emulated():
    layer, x = nn.Linear(4, 4, bias=False), torch.randn(3, 2, 4)
    got = inside(lambda: torch.vmap(layer)(x), MASTER)
    assert_same_bits(got.detach(), inside(lambda: layer(x), MASTER).detach())


@pytest.mark.parametrize("given", [
    {"strict": "no"}, {"logits": 5}, {"seed": "7"}, {"seed": True}, {"monitor": 3},
], ids=str)  # fmt: skip
def test_options_without_meaning_are_refused(given):
    (name, value), *_ = given.items()
    with pytest.raises(TypeError, match=f"{name} must be .* got {value!r}"):
        st.emulate(PLAIN, **given)


# ---------------------------------------------------------------- compiled functions, threads
def test_a_compiled_function_is_seen_through():
    x = torch.randn(3, 3)
    compiled = torch.compile(lambda t: (t @ t).exp(), backend="aot_eager")
    assert_same_bits(inside(lambda: compiled(x)), inside(lambda: (x @ x).exp()))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused():
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    with pytest.raises(st.EmulationError, match="NestedTensor"):
        inside(lambda: torch.nested.nested_tensor(parts, layout=torch.jagged) * 2)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_traced_module_is_seen_through():
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4)
    traced = torch.jit.trace(module, x)
    assert_same_bits(inside(lambda: traced(x)).detach(), inside(lambda: module(x)).detach())


def test_each_thread_may_have_a_block_of_its_own_on_shared_modules():
    module, x = nn.LSTM(4, 4), torch.randn(3, 2, 4)
    policies = {"bfloat16": PLAIN, "float8_e4m3": training.Policy("e", activations="float8_e4m3")}
    alone = {name: inside(lambda p=p: module(x)[0], p) for name, p in policies.items()}
    found, meet = {}, threading.Barrier(2, timeout=60)

    def work(name, policy):
        with st.emulate(policy):
            meet.wait()
            found[name] = module(x)[0]
            meet.wait()
        meet.wait()

    flags = torch._C._get_mkldnn_enabled(), torch.backends.mha.get_fastpath_enabled()
    threads = [threading.Thread(target=work, args=item) for item in policies.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == set(alone)
    for name in alone:
        assert_same_bits(found[name].detach(), alone[name].detach())
    assert flags == (torch._C._get_mkldnn_enabled(), torch.backends.mha.get_fastpath_enabled())


def test_a_thread_without_a_block_is_told_what_it_may_do():
    module, x, caught = nn.Linear(4, 4), torch.randn(2, 4), []

    def work():
        try:
            module(x)
        except st.EmulationError as error:
            caught.append(str(error))

    with st.emulate(PLAIN):
        module(x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "Enter an emulate() there too" in caught[0] and "strict=False" in caught[0]


# ---------------------------------------------------------------- hooks of users, lazy modules
@pytest.mark.parametrize("when", ["before the block", "inside it"])
def test_gradients_that_hooks_of_users_change_are_on_their_grid(when):
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)

    def hook():
        layer.weight.register_hook(lambda g: g * 1.3)

    def run():
        layer(x)
        if when == "inside it":
            hook()
        layer(x).square().sum().backward()

    if when == "before the block":
        hook()
    inside(run, MASTER)
    assert on_grid(layer.weight.grad) and not on_grid(layer.weight.grad, "float8_e5m2")


def test_gradients_asked_for_are_on_their_grid():
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    found = inside(
        lambda: torch.autograd.grad(layer(x).square().sum(), list(layer.parameters())), MASTER
    )
    inside(lambda: layer(x).square().sum().backward(), MASTER)
    for got, p in zip(found, layer.parameters(), strict=True):
        assert_same_bits(got, p.grad)


def test_hooks_on_modules_change_no_bit():
    found = []
    for hooked in (False, True):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        x = torch.randn(3, 4, requires_grad=True)
        for part in model if hooked else ():
            part.register_full_backward_hook(lambda *_: None)
            part.register_forward_hook(lambda *_: None)
        inside(lambda model=model, x=x: model(x).square().sum().backward(), DEEP)
        found.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert_same_bits(*found)


def test_lazy_modules_have_their_names_from_the_first_call():
    policy = training.Policy("o", **BF16, overrides={"1": {"weight_gradients": "float8_e5m2"}})
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyLinear(3))
    inside(lambda: model(torch.randn(5, 6)).square().sum().backward(), policy)
    assert on_grid(model[1].weight.grad, "float8_e5m2")
    assert not on_grid(model[0].weight.grad, "float8_e5m2")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_models_of_other_dtypes_train_on_the_grid(dtype):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(3, 4, dtype=dtype)
    start = [p.detach().clone() for p in model.parameters()]

    def run():
        model(x).square().sum().backward()
        optimizer.step()

    inside(run, DEEP)
    for p, before in zip(model.parameters(), start, strict=True):
        assert p.dtype == dtype and on_grid(p.double()) and not torch.equal(p, before)


def test_accumulated_gradients_have_the_format_of_their_module():
    policy = training.Policy("o", **BF16, overrides={"0": {"weight_gradients": "float8_e5m2"}})
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), torch.randn(3, 4)
    inside(lambda: [model(x * (i + 1)).square().sum().backward() for i in range(3)], policy)
    assert on_grid(model[0].weight.grad, "float8_e5m2")
    assert on_grid(model[1].weight.grad) and not on_grid(model[1].weight.grad, "float8_e5m2")


# ---------------------------------------------------------------- random words
def twins():
    model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False))
    model[1].load_state_dict(model[0].state_dict())
    return model


@pytest.mark.parametrize("foreach", [False, True])
def test_equal_parameters_draw_words_of_their_own(foreach):
    policy = training.Policy(
        "u", weight_gradients=("bfloat16", "stochastic"), update=("bfloat16", "stochastic")
    )
    model, gradient = twins(), torch.randn(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), 1.0, foreach=foreach)

    def run():
        sum((part.weight * gradient).sum() for part in model).backward()
        optimizer.step()

    inside(run, policy, seed=1)
    assert not torch.equal(model[0].weight.grad, model[1].weight.grad)
    model[1].load_state_dict(model[0].state_dict())
    for part in model:
        part.weight.grad = gradient.clone()
    inside(optimizer.step, policy, seed=1)
    assert not torch.equal(model[0].weight, model[1].weight)


@pytest.mark.parametrize("foreach", [False, True])
def test_modules_called_from_the_loop_are_updated_with_words_of_their_own(foreach):
    policy = training.Policy("u", update=("bfloat16", "stochastic"))
    parts = [torch.nn.Linear(16, 16, bias=False) for _ in range(2)]
    parts[1].load_state_dict(parts[0].state_dict())
    parameters, gradient = [part.weight for part in parts], torch.randn(16, 16)

    def run():
        for part in parts:
            part(torch.ones(1, 16))
            part.weight.grad = gradient.clone()
        torch.optim.SGD(parameters, 1.0, foreach=foreach).step()

    inside(run, policy, seed=1)
    assert not torch.equal(*parameters)


def test_another_model_draws_no_word_of_the_training():
    """A teacher that runs first, without gradients, shares paths with the student, and a loss is a module too."""
    found = []
    for teaching in (False, True):
        torch.manual_seed(5)
        student, x, y = nn.Linear(8, 8), torch.randn(3, 8), torch.randn(3, 8)
        teacher, loss = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.MSELoss()

        def run(student=student, x=x, y=y, teacher=teacher, loss=loss, teaching=teaching):
            if teaching:
                with torch.no_grad():
                    teacher(x)
            loss(student(x), y).backward()

        inside(run, RANDOM, seed=1)
        found.append(student.weight.grad)
    assert_same_bits(*found)
