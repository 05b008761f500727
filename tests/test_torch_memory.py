"""Memory that emulation shares or uses again changes no bit: weights read in place, gradients, updates in pieces."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402
from softfloat.torch import rounder  # noqa: E402

ROLES = dict.fromkeys(training.policy.ROLES, "bfloat16")
NEAREST = training.Policy("nearest", **ROLES)
RANDOM = training.Policy("random", **ROLES, rounding="stochastic", update_rounding="stochastic")


def trained(policy, steps=3, **options):
    """(weights, gradients, state) of a small network after some steps, as bytes."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.ReLU(), torch.nn.Linear(9, 3))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, **options)
    x = torch.randn(5, 7)
    with st.emulate(policy, seed=4):
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    tensors = [t for p in model.parameters() for t in (p, p.grad, *optimizer.state[p].values())]
    return [t.detach().numpy().tobytes() for t in tensors]


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("policy", [NEAREST, RANDOM], ids=lambda p: p.name)
def test_updates_in_pieces_equal_the_whole(monkeypatch, policy, foreach):
    want = trained(policy, foreach=foreach)
    monkeypatch.setattr(rounder, "PIECE", 5)
    assert trained(policy, foreach=foreach) == want


@pytest.mark.parametrize("policy", [NEAREST, RANDOM], ids=lambda p: p.name)
def test_memory_in_any_layout_is_trained_alike(monkeypatch, policy):
    """The general path, which knows nothing of flat memory, gives the same bits."""
    want = trained(policy)
    monkeypatch.setattr(rounder, "flat_values", lambda tensor: None)
    monkeypatch.setattr("softfloat.torch.updates.flat_values", lambda tensor: None)
    assert trained(policy) == want


class Shared(torch.autograd.Function):
    """x @ (a + b).T, whose backward pass hands one tensor to both."""

    @staticmethod
    def forward(ctx, x, a, b):
        ctx.save_for_backward(x)
        return x @ (a + b).T

    @staticmethod
    def backward(ctx, error):
        (x,) = ctx.saved_tensors
        gradient = error.T @ x
        return None, gradient, gradient


def test_a_gradient_that_two_parameters_share_is_rounded_for_each():
    model = torch.nn.Module()
    model.a, model.b = (torch.nn.Parameter(torch.full((2, 3), 0.3)) for _ in range(2))
    model.forward = lambda x: Shared.apply(x, model.a, model.b)
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    raw = training.Policy("gradients", weight_gradients=("bfloat16", "stochastic"))
    with st.emulate(raw, seed=1):
        model(x).backward(torch.ones(40, 2))
    exact = (torch.ones(2, 40) @ x).numpy()
    for parameter in (model.a, model.b):
        down, up = (
            sf.quantize(exact, "bfloat16", rounding=r)
            for r in ("toward_negative", "toward_positive")
        )
        got = parameter.grad.numpy()
        assert np.all((got == down) | (got == up))
    assert not torch.equal(model.a.grad, model.b.grad)  # each with words of its own


def test_a_weight_on_its_grid_is_read_anew_when_it_changes():
    layer = torch.nn.Linear(4, 2, bias=False)
    x = torch.eye(4)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    with st.emulate(training.Policy("weights", weights="bfloat16")):  # so that outputs hide nothing
        assert torch.equal(layer(x), torch.ones(4, 2))
        layer.weight.data.fill_(1 + 2.0**-12)  # no value of bfloat16
        assert torch.equal(layer(x), torch.ones(4, 2))
        layer.weight.data.mul_(3)
        assert torch.equal(layer(x), torch.full((4, 2), 3.0))
    assert not torch.equal(layer.weight, torch.ones(2, 4))
