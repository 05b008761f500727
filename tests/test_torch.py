"""softfloat.torch: what emulate does with unmodified models and loops, and what it says where it cannot; bits count."""

import doctest
import os
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_networks import (  # noqa: E402
    DEEP,
    NETWORKS,
    RANDOM,
    SHALLOW,
    F,
    assert_same_bits,
    mlp,
    trained,
)

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402
from softfloat.training.policy import ROLES  # noqa: E402


@pytest.fixture(autouse=True)
def known_start():
    torch.manual_seed(3)
    yield
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


# ---------------------------------------------------------------- all networks
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


def test_other_roundings_than_torchs_need_float32():
    model, x, _ = mlp()
    with st.emulate(RANDOM, seed=1):
        model(x)
        with torch.autocast("cpu", torch.bfloat16):
            with pytest.raises(st.EmulationError, match="stochastic would come too late"):
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


def test_a_model_in_a_forked_process_is_an_error():
    model, x, _ = mlp()
    with st.emulate(DEEP):
        model(x)
        child = os.fork()
        if child == 0:
            try:
                model(x)
            except st.EmulationError as error:
                os._exit(0 if "another thread or process" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), 1.001) * (i + 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader_load_data_unrounded():
    want = torch.stack([Numbers()[i] for i in range(4)])
    with st.emulate(DEEP):
        torch.ones(2, 2) @ torch.ones(2, 2)
        loader = torch.utils.data.DataLoader(
            Numbers(), 4, num_workers=1, multiprocessing_context="fork"
        )
        (got,) = loader
    assert torch.equal(got, want)


@pytest.mark.filterwarnings(
    "ignore:Using `torch.compile.module.` when there are global hooks:UserWarning"
)
def test_a_compiled_module_is_an_error():
    model, x, _ = mlp()
    compiled = torch.compile(model, backend="eager")
    with st.emulate(DEEP):
        model(x)
        with pytest.raises(st.EmulationError, match="that torch.compile was given"):
            compiled(x)


@pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
def test_fused_paths_that_are_switched_on_again_are_errors():
    lstm, x = torch.nn.LSTM(4, 4), torch.randn(3, 2, 4)
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    with st.emulate(DEEP):
        lstm(x)
        with torch.backends.mkldnn.flags(enabled=True):
            with pytest.raises(st.EmulationError, match=r"mkldnn.flags\(enabled=False\)"):
                lstm(x)
        torch.backends.mha.set_fastpath_enabled(True)
        with torch.no_grad(), pytest.raises(st.EmulationError, match="set_fastpath_enabled"):
            layer(x)


def test_a_canary_that_is_not_seen_is_an_error(monkeypatch):
    from softfloat.torch import classes

    seen = classes.kind_and_name

    def hidden(func):
        kind, name = seen(func)
        return classes.QUERY if "mm" in name else kind, name

    monkeypatch.setattr(classes, "kind_and_name", hidden)
    with pytest.raises(st.EmulationError, match="hides operations from emulate"):
        with st.emulate(SHALLOW):
            pytest.fail("the block was entered")


@pytest.mark.parametrize("accumulator", [None, "bfloat16"])
def test_scaled_formats_are_scaled_by_each_tensors_largest(accumulator):
    """A power of two brings the largest magnitude under the format's; products see what is left of the tensors."""

    def scaled(x):
        shift = np.floor(np.log2(448 / np.abs(x).max()))
        return np.asarray(sf.quantize(x * np.float32(2**shift), "float8_e4m3fn")) * np.float32(
            2**-shift
        )

    e4m3 = dict.fromkeys(("weights", "activations"), "float8_e4m3fn")
    policy = training.Policy(
        "s", **e4m3, master="binary32", scaling="current", accumulator=accumulator
    )
    layer, x = torch.nn.Linear(6, 5, bias=False), 100 * torch.randn(4, 6)
    with st.emulate(policy):
        y = layer(x).detach().numpy()
    a, b = scaled(x.numpy()), scaled(layer.weight.detach().numpy()).T
    found = (
        sf.matmul(a, b, accumulator)
        if accumulator
        else (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    )
    assert_same_bits(y, scaled(found))


def test_without_strict_what_is_not_emulated_is_counted():
    model, x, y = mlp()
    before = F.cross_entropy(model(x), y)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    ran = []
    with st.emulate(DEEP, strict=False) as emulation:
        one_pass(model, x, y)
        optimizer.step()
        torch.linalg.eigvalsh(torch.eye(2))
        before.backward()
        thread = threading.Thread(target=lambda: ran.append(model(x)))
        thread.start()
        thread.join()
    calls = emulation.report().calls
    assert "_fused_sgd_" in calls["opaque"]
    assert any("eigh" in name for name in calls["unknown"])
    assert "AddmmBackward0" in calls["lost"]
    assert torch.equal(ran[0], model(x))


# ---------------------------------------------------------------- loops of other shapes
def test_a_module_checkpointed_twice_cannot_be_random():
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(4, 4)
    with st.emulate(RANDOM, seed=1):
        x = torch.randn(2, 4, requires_grad=True)
        for _ in range(2):
            x = checkpoint(layer, x, use_reentrant=False)
        with pytest.raises(st.EmulationError, match="recomputed in backward"):
            x.sum().backward()


def test_a_state_of_another_seed_is_refused():
    state = st.emulate(RANDOM, seed=5).state_dict()
    with pytest.raises(ValueError, match="seed 5, this one 6"):
        st.emulate(RANDOM, seed=6).load_state_dict(state)


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


# ---------------------------------------------------------------- overrides, report, monitor
def formats_seen(policy, **options):
    """{(name of a tensor, role): label of the format that it was rounded to}, over two steps of an MLP."""
    monitor = training.Monitor(every=1)
    trained("mlp", policy, "adamw", 2, monitor=monitor, **options)
    held = monitor.tensors.items()
    return {(n, a.role): a.range["format"] for n, a in held if a.range is not None}


def changed_by(overrides, **options):
    """The tensors whose format overrides change, as (name, role, format)."""
    base = {**dict.fromkeys(ROLES, "e8m9"), "master": "e8m9"}
    before = formats_seen(training.Policy("b", **base), **options)
    after = formats_seen(training.Policy("o", **base, overrides=overrides), **options)
    assert before.keys() <= after.keys()
    # What two formats met in is rounded once more to its own, which moves nothing.
    assert {after[key] for key in after.keys() - before.keys()} <= {"e8m9"}
    return {(*key, after[key]) for key in before if before[key] != after[key]}


def test_overrides_by_operation_change_its_results_alone():
    found = changed_by({"*:mm": {"errors": "bfloat16"}, "*:addmm": {"activations": "bfloat16"}})
    assert {(role, label) for _, role, label in found} == {("activations", "bfloat16")} | {
        ("errors", "bfloat16") for name, role, _ in found if role == "errors"
    }
    assert all("addmm" in name for name, role, _ in found if role == "activations")


def test_overrides_by_module_and_operation_need_both():
    found = changed_by({"0:addmm": {"activations": "bfloat16"}})
    assert found == {
        ("0.addmm.operand1", "activations", "bfloat16"), ("0.addmm.output", "activations", "bfloat16"),
    }  # fmt: skip
    assert not changed_by({"0:conv": {"activations": "bfloat16"}})


@pytest.mark.parametrize(
    "given", [{"overrides": {"encoder.*:mm": {"errors": "bfloat16"}}}, {"logits": "head"}]
)
def test_a_pattern_that_no_module_met_is_a_warning(given):
    policy = training.Policy("b", overrides=given.get("overrides", {}))
    with pytest.warns(RuntimeWarning, match=r"path like '(encoder\.\*|head)'.*here: , 0, 1, 2"):
        trained("mlp", policy, logits=given.get("logits"))


def test_an_override_of_weights_is_of_that_module():
    found = changed_by({"2": {"weights": "bfloat16"}})
    assert found == {("2.weight", "weights", "bfloat16"), ("2.bias", "weights", "bfloat16")}


def test_an_override_of_the_optimizer_is_of_that_modules_state():
    found = changed_by({"2": {"optimizer": "bfloat16"}})
    assert found and all(n.startswith("2.") and r == "optimizer" for n, r, _ in found)


def test_logits_are_the_results_of_the_modules_named():
    policy = training.Policy("l", activations="bfloat16", logits="e8m9")
    seen = formats_seen(policy, logits="2")
    assert seen["2.addmm.output", "logits"] == "e8m9"
    assert ("2.addmm.output", "activations") not in seen and (
        "0.addmm.output",
        "logits",
    ) not in seen


def test_the_report_counts_operations_and_elements():
    _, emulation = trained("mlp", DEEP, steps=3)
    report = emulation.report()
    assert report.calls["product"] == {"addmm": 6, "mm": 9}
    weights = 5 * 7 + 7 + 7 * 3 + 3
    assert report.elements["weights"] == report.elements["weight_gradients"] == 3 * weights
    assert report.elements["stored"] == report.elements["update"] == 3 * weights
    assert "product: 15 calls\n  addmm 6\n  mm 9" in str(report)


def test_a_monitor_counts_what_each_tensor_lost():
    policy = training.Policy("m", activations="float8_e4m3", errors="float8_e4m3")
    layer, monitor = torch.nn.Linear(2, 4, bias=False), training.Monitor(every=1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0], [2.0**10, 0], [2.0**-12, 0], [0, 0]]))
    x = torch.tensor([[1.0, 1.0]], requires_grad=True)
    with st.emulate(policy, monitor=monitor):
        y = layer(x)
        y.backward(torch.tensor([[2.0**-12, 0, 0, 2.0]]))
    output = monitor.tensors["mm.output"]
    assert output.role == "activations" and output.values == 4
    shares = output.share("flushed"), output.share("overflowed"), output.share("saturated")
    assert shares == (1 / 3, 1 / 4, 0.0)
    where = np.flatnonzero(output.histogram) - 127
    assert where.tolist() == [-12, 0, 10] and output.histogram.sum() == 3
    error = monitor.tensors["mm.error.operand0"]  # read once for each of the two gradients
    assert (error.role, error.values, error.share("flushed")) == ("errors", 8, 1 / 2)


def test_a_monitor_sees_every_role():
    monitor = training.Monitor(every=1)
    found, _ = trained("mlp", SHALLOW, monitor=monitor)
    assert_same_bits(found, trained("mlp", SHALLOW)[0])
    for role in ("weights", "activations", "errors", "weight_gradients", "update"):
        assert monitor.counts[role]["values"] > 0, role
    assert monitor.updates > 0
    assert monitor.tensors["0.addmm.output"].histogram.sum() > 0


@pytest.mark.parametrize("network", list(NETWORKS)[:4])
def test_a_monitor_watches_plain_float32_and_changes_no_bit(network):
    """Fused paths too, which hide nothing where nothing is rounded."""
    policy, monitor = training.Policy("fp32"), training.Monitor(every=1)
    assert_same_bits(trained(network, policy, monitor=monitor)[0], trained(network, policy)[0])
    assert any(one.role == "errors" for one in monitor.tensors.values())


def test_the_page_does_what_it_says():
    page = Path(__file__).resolve().parents[1] / "docs" / "torch.md"
    if page.exists():
        assert doctest.testfile(str(page), module_relative=False) == (0, 8)
