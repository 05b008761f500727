"""softfloat.torch's small tools: quantize, Quantizer, LowPrecisionOptimizer, LossScaler; bits count."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_networks import LR, MOMENTUM, F, assert_same_bits, flat, mlp  # noqa: E402

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402


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


def test_negated_views_are_taken_as_the_numbers_they_are():
    x = (torch.tensor([1.1, -2.3]) + 1j * torch.tensor([0.1, 3.3])).conj().imag
    assert torch.equal(st.quantize(x, "bfloat16"), st.quantize(x.clone(), "bfloat16"))


def test_quantize_runs_under_transforms():
    x = torch.randn(3, 4)
    run = lambda t: st.quantize(t, "float8_e4m3", "float8_e5m2")  # noqa: E731
    assert_same_bits(torch.vmap(run)(x), run(x))
    assert_same_bits(torch.vmap(run, in_dims=1, out_dims=1)(x), run(x))
    found = torch.func.grad(lambda t: (run(t) * 0.3).sum())(x)
    assert_same_bits(found, torch.full_like(x, 0.3125))
    each = torch.vmap(torch.func.grad(lambda t: (run(t) * 0.3).sum()))(x)
    assert_same_bits(each, found)
    with pytest.raises(st.EmulationError, match="quantize outside vmap"):
        torch.vmap(lambda t: st.quantize(t, "bfloat16", rounding="stochastic", seed=1))(x)


def test_quantize_is_straight_through_twice():
    x = torch.randn(5, requires_grad=True)
    (g,) = torch.autograd.grad(
        (st.quantize(x, "bfloat16", "bfloat16") ** 2).sum(), x, create_graph=True
    )
    g.sum().backward()
    assert_same_bits(x.grad, torch.full((5,), 2.0))


@pytest.mark.parametrize("stream", [-1, 2**63, 2**64])
def test_streams_of_gradients_are_not_to_be_had(stream):
    with pytest.raises(ValueError, match=r"0\.\.2\*\*63 - 1"):
        st.quantize(torch.ones(2), "bfloat16", rounding="stochastic", seed=1, stream=stream)
    with pytest.raises(TypeError, match="stream must be an integer"):
        st.quantize(torch.ones(2), "bfloat16", stream=1.5)


def test_a_low_precision_optimizer_works_with_schedulers_and_scalers():
    layer = torch.nn.Linear(4, 4)
    inner = torch.optim.SGD(layer.parameters(), lr=1.0)
    optimizer = st.LowPrecisionOptimizer(inner, weight="bfloat16")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(layer(torch.randn(2, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    assert inner.param_groups[0]["lr"] == 0.25 and optimizer.steps == 2
    held = layer.weight.detach().numpy()
    assert_same_bits(sf.quantize(held, "bfloat16"), held)


@pytest.mark.parametrize("given, error, words", [
    ({"grad_scaling": "x"}, ValueError, "grad_scaling must be a positive number, got 'x'"),
    ({"weight": ("bfloat16",)}, ValueError, "a pair"),
    ({"weight": "bfloat16", "rounding": "stochastic"}, ValueError, "needs seed="),
])  # fmt: skip
def test_options_of_a_low_precision_optimizer_are_checked(given, error, words):
    inner = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=1.0)
    with pytest.raises(error, match=words):
        st.LowPrecisionOptimizer(inner, **given)


def test_tensors_without_dimensions_keep_that():
    x = torch.tensor(1.1, requires_grad=True)
    y = st.quantize(x, "float8_e4m3", "float8_e5m2")
    y.backward(torch.tensor(0.3))
    assert y.shape == x.grad.shape == () and (y.item(), x.grad.item()) == (1.125, 0.3125)
    inner = torch.optim.SGD([torch.nn.Parameter(torch.tensor(1.1))], lr=0.0)
    inner.param_groups[0]["params"][0].grad = torch.tensor(1.0)
    st.LowPrecisionOptimizer(inner, weight="float8_e4m3").step()
    assert inner.param_groups[0]["params"][0].item() == 1.125
