"""softfloat.torch: what emulate does with unmodified models and loops, and what it says where it cannot; bits count."""

import doctest
import os
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_networks import (  # noqa: E402
    BF16,
    DEEP,
    NETWORKS,
    OPTIMIZERS,
    RANDOM,
    SHALLOW,
    F,
    assert_same_bits,
    flat,
    loop,
    mlp,
    trained,
)

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402


@pytest.fixture(autouse=True)
def known_start():
    torch.manual_seed(3)
    yield
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


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


class Squashing(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            p.tanh_()


def test_compensated_updates_need_an_optimizer_that_adds():
    model, x, y = mlp()
    optimizer = Squashing(model.parameters(), {})
    with st.emulate("bfloat16_kahan"):
        one_pass(model, x, y)
        with pytest.raises(st.EmulationError, match="kahan.*otherwise than by adding"):
            optimizer.step()


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


def test_the_page_does_what_it_says():
    page = Path(__file__).resolve().parents[1] / "docs" / "torch.md"
    if page.exists():
        assert doctest.testfile(str(page), module_relative=False) == (0, 8)
