"""Policies by layer, compensated updates, delayed scales, what a Monitor counts, and runs that are resumed."""

import dataclasses
import gc
import math
import os
import subprocess
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from training_networks import NETWORKS, make, transformer

import softfloat as sf
from softfloat import training
from softfloat.training import checkpoint, kernels
from softfloat.training.cast import Caster
from softfloat.training.scaling import DelayedScales

SEED = 11


def same_bits(a, b):
    kind = f"u{a.dtype.itemsize}"
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.view(kind), b.view(kind))


def same_parameters(a, b):
    assert a.parameters.keys() == b.parameters.keys()
    return all(same_bits(a.parameters[key], b.parameters[key]) for key in a.parameters)


# ---------------------------------------------------------------- policies
def test_overrides_change_the_layers_whose_names_match():
    policy = training.Policy(
        "p", weights="bfloat16", activations="e4m3fn", accumulator="bfloat16",
        overrides={
            "blocks.*": {"weights": "binary16"},
            "*:layer_norm": {"activations": None},
            "blocks.0.*": {"accumulator": None, "errors": ("e5m2", "stochastic")},
        },
    )  # fmt: skip
    assert policy.at("head", "linear") == policy.at("head") == policy.at("block", "linear")
    assert policy.at("blocks.1.up").weights == sf.binary16
    assert policy.at("blocks.1.up").sums[0] == sf.bfloat16
    first = policy.at("blocks.0.norm", "layer_norm")
    assert first.activations is None and first.sums is None and first.weights == sf.binary16
    assert first.grid("errors") == (sf.float8_e5m2, "stochastic")
    assert policy.at("head").grid("errors") == (None, "ties_to_even")
    assert hash(policy) and policy == training.Policy(
        **{f: getattr(policy, f) for f in policy.__dataclass_fields__}
    )


def test_overrides_reach_the_tensors_of_a_network():
    policy = training.Policy(
        "p", weights="bfloat16", activations="bfloat16",
        overrides={"head": {"weights": "binary64", "logits": "binary64"}, "*:gelu": {"activations": "e4m3fn"}},
    )  # fmt: skip
    trainer = training.Trainer(policy, transformer(), seed=SEED)
    assert trainer.policy.dtype == np.float64
    seen = {}

    class Watch(training.Monitor):
        def tensor(self, name, role, before, after, fmt, *rest):
            seen[name] = fmt

    trainer.cast.monitor = Watch()
    trainer.step(np.array([[1, 2, 3]]), np.array([[2, 3, 4]]))
    assert seen["head.output"] is None and seen["feed.inner.gelu.output"] == sf.float8_e4m3fn
    assert seen["feed.inner.up.output"] == sf.bfloat16 and seen["head.error"] == sf.binary32
    head, up = (trainer.parameters[k] for k in ("head.weight", "feed.inner.up.weight"))
    assert same_bits(up, sf.quantize(up, sf.bfloat16))
    assert not same_bits(head, sf.quantize(head, sf.bfloat16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": ("bfloat16",)}, r"a pair \(format, rounding\)"),
        ({"engine": "h200_fp9"}, "unknown engine 'h200_fp9'; known: v100_fp16"),
        ({"engine": 3}, "must be an Engine"),
        ({"engine": "h100_fp8", "accumulator": "bfloat16"}, "leave accumulator= and block= out"),
        ({"product": "exact"}, r"go with accumulator="),
        ({"block": 0, "accumulator": "e6m9"}, "block must be an integer in 1"),
        ({"kahan": 2}, "kahan must be True or False"),
        ({"amax_history": 0}, "amax_history"),
        ({"scaling": "delayed", "weights": "e4m3fn"}, 'give master="binary32"'),
        ({"overrides": {"a": {"loss_scale": 2.0}}}, "'loss_scale' cannot be set for 'a' alone"),
        ({"overrides": {"a": {"weights": "bf17"}}}, "bf17"),
    ],
)
def test_policies_refuse_what_has_no_meaning(options, message):
    with pytest.raises(ValueError, match=message):
        training.Policy("p", **options)


def test_the_recipes_of_the_papers():
    p = training.PRESETS
    assert p["bfloat16_kahan"].kahan and set(p["bfloat16_kahan"].grids.values()) == {sf.bfloat16}
    hybrid = p["fp8_hybrid"]
    assert (hybrid.scaling, hybrid.amax_history, hybrid.margin) == ("delayed", 1024, 0)
    chunked, half = p["fp8_chunked"], sf.as_format("e6m9")
    assert chunked.sums == (
        half, {"rounding": "ties_to_even", "order": "blocked", "block": 64, "product": None},
    )  # fmt: skip
    assert chunked.grid("stored") == (half, "stochastic") == chunked.grid("update")
    assert chunked.loss_scale == 1000 and chunked.grid("errors").fmt == sf.float8_e5m2
    fixed = p["fixed_point"]
    assert set(fixed.grids.values()) == {sf.FixedPoint(3, 12)}
    assert fixed.rounding == fixed.update_rounding == "stochastic"


# ---------------------------------------------------------------- updates
def descend(policy, steps, lr, gradient=-1.0, n=1, optimizer=None):
    """Weights that start at 1 under a constant gradient."""
    policy = training.as_policy(policy)
    cast = Caster(policy, SEED)
    parameters = {"w": np.ones(n, policy.dtype)}
    optimizer = optimizer or training.SGD(lr)
    for step in range(steps):
        cast.step = step
        gradients = {"w": np.full(n, gradient, policy.dtype)}
        optimizer.step(parameters, gradients, cast)
    return parameters["w"]


def test_a_compensated_sum_keeps_what_rounding_loses():
    """1 + 1000 x 1e-3: nearest 1, Kahan 2, stochastic 2 on average (Zamirai et al. 2020)."""
    assert descend("pure_bfloat16", 1000, 1e-3) == 1.0
    assert descend("bfloat16_kahan", 1000, 1e-3) == 2.0
    many = descend("bfloat16_stochastic", 1000, 1e-3, n=1000)
    assert abs(many.mean() - 2.0) < 0.02 and 0.05 < many.std() < 0.12


def test_kahans_update_is_the_algorithm_in_exact_steps():
    policy = training.PRESETS["bfloat16_kahan"]
    near = lambda x: Fraction(float(sf.quantize(float(x), sf.bfloat16)))  # noqa: E731
    assert descend(policy, 0, 1e-3) == 1.0
    w, lost = Fraction(1), Fraction(0)
    for step in range(1, 60):
        y = near(near(Fraction(float(np.float32(0.003)))) - lost)
        s = near(w + y)
        lost, w = near(near(s - w) - y), s
        assert Fraction(float(descend(policy, step, 0.003)[0])) == w


def test_adam_rounds_its_state_to_the_optimizers_format():
    policy = training.Policy("p", optimizer="e5m2")
    optimizer = training.Adam(0.1)
    descend(policy, 5, 0.1, gradient=0.3, optimizer=optimizer)
    for slot in ("mean", "square"):
        state = optimizer.state[slot]["w"]
        assert state[0] != 0 and same_bits(state, sf.quantize(state, sf.float8_e5m2))


# ---------------------------------------------------------------- scales of tensors
def test_delayed_scales_follow_the_largest_of_the_history():
    rng = np.random.default_rng(1)
    scales, seen = DelayedScales(4, margin=1), []
    for _ in range(40):
        expected = 1.0
        recent = max(seen[-4:], default=0.0)
        if recent:
            expected = 2.0 ** (math.floor(math.log2(448 / recent)) - 1)
        assert scales.scale("t", sf.float8_e4m3fn) == expected
        largest = float(2.0 ** rng.integers(-12, 12) * 1.37)
        scales.found["t"] = largest
        assert scales.scale("t", sf.float8_e4m3fn) == expected  # of this step
        scales.commit()
        seen.append(largest)
    scales.found["t"] = math.inf
    scales.commit()
    assert scales.histories["t"][:2].tolist() == [0.0, seen[-1]]


def test_fp8_hybrid_scales_by_the_past():
    trainer = training.Trainer("fp8_hybrid", (20, 8, 5), lr=0.1, seed=SEED)
    rng = np.random.default_rng(2)
    x, y = rng.random((16, 20), dtype=np.float32), rng.integers(0, 5, 16)
    trainer.step(x, y)
    assert set(trainer.cast.scales.values()) == {1.0}
    weight = np.abs(trainer.parameters["layer1.weight"]).max()
    trainer.step(x, y)
    scale = trainer.cast.scales["layer1.weight"]
    assert 448 / 4 < scale * weight < 448 * 2 and math.frexp(scale)[0] == 0.5
    kept = trainer.cast.delayed.state_dict()
    trainer.evaluate(x, y)
    assert all(np.array_equal(kept[k], v) for k, v in trainer.cast.delayed.histories.items())


# ---------------------------------------------------------------- loss scale
def test_the_loss_scaler_is_grad_scaler():
    torch = pytest.importorskip("torch")
    options = {
        "init_scale": 2.0**10,
        "growth_factor": 1.7,
        "backoff_factor": 0.3,
        "growth_interval": 3,
    }
    theirs = torch.amp.GradScaler("cpu", **options)
    ours = training.LossScaler(**options, minimum=2.0**-120)
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)
    rng = np.random.default_rng(3)
    for _ in range(60):
        g = rng.standard_normal(2).astype(np.float32)
        if rng.random() < 0.25:
            g[1] = [np.inf, np.nan, -np.inf][rng.integers(3)]
        weight.grad = torch.from_numpy(g.copy())
        theirs.scale(torch.zeros(1))
        theirs.unscale_(optimizer)
        (unscaled,), finite = ours.unscale([g])
        if finite:
            assert same_bits(unscaled, weight.grad.numpy())
        theirs.step(optimizer)
        theirs.update()
        ours.update(finite)
        state = theirs.state_dict()
        assert {key: ours.state_dict()[key] for key in state} == state
    again = training.LossScaler()
    again.load_state_dict(theirs.state_dict())
    assert again.scale == ours.scale and again.growth_tracker == ours.growth_tracker


@pytest.mark.parametrize("scale", [1000.1, 0.7, 1e-40, 3.4028234e38])
def test_a_scale_is_a_float32_as_that_of_grad_scaler(scale):
    scaler = training.LossScaler(scale, dynamic=False)
    assert scaler.scale == float(np.float32(scale)) != scale
    (g,), _ = scaler.unscale([np.float32([1.0, -3.0])])
    with np.errstate(over="ignore"):
        inverse = np.float32(1 / np.float64(np.float32(scale)))
        assert same_bits(g, np.float32([1.0, -3.0]) * inverse)


def test_a_scale_that_is_no_float32_is_refused():
    with pytest.raises(ValueError, match="init_scale must be a positive float32, got 1e-60"):
        training.LossScaler(1e-60, dynamic=False)


# ---------------------------------------------------------------- counts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_are_those_of_a_plain_loop(dtype):
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(9000) * 2.0 ** rng.integers(-30, 30, 9000)).astype(dtype)
    x[::50] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-40], x[::50].size)
    for fmt in (sf.binary16, sf.float8_e4m3fn, sf.FixedPoint(3, 4)):
        for scale in (1.0, 0.25, -8.0):
            y = sf.quantize(x * dtype(scale), fmt).astype(dtype)
            watch = training.Monitor(every=1000)
            watch.tensor("t", "errors", x, y, fmt, 1, scale)
            want = dict.fromkeys(training.monitor.COUNTS, 0)
            for a, b in zip(x.tolist(), y.tolist(), strict=True):
                want["values"] += 1
                want["nonzero"] += a != 0
                want["flushed"] += a != 0 and b == 0
                if math.isfinite(a) and not fmt.min <= a * scale <= fmt.max:
                    want["saturated" if math.isfinite(b) else "overflowed"] += 1
            assert watch.counts["errors"] == want
            assert watch.tensors["t"].share("flushed") == want["flushed"] / want["nonzero"]


def test_lost_updates_are_counted_as_in_a_plain_loop():
    rng = np.random.default_rng(5)
    w = rng.choice(np.float32([0.0, -0.0, 1.0, -2.5]), 9000)
    dw = rng.choice(np.float32([0.0, -0.0, 1e-9, 0.5]), 9000)
    r = w + dw
    r[::3] = np.where(r[::3] == 0, -r[::3], r[::3])
    pairs = list(zip(w.tolist(), dw.tolist(), r.tolist(), strict=True))
    lost = sum(d != 0 and a == b for a, d, b in pairs)
    assert kernels.count_lost(w, dw, r) == (sum(d != 0 for _, d, _ in pairs), lost)


def test_largest_magnitudes_see_what_is_not_finite():
    x = np.float32([0.5, -3.0, 1e-40])
    assert kernels.largest_magnitude(x) == 3.0 and kernels.all_finite(x)
    assert kernels.all_finite(x[:0]) and kernels.largest_magnitude(x[:0]) == 0.0
    for value in (np.inf, -np.inf, np.nan, -np.nan):
        x[1] = value
        assert not kernels.all_finite(x) and not kernels.largest_magnitude(x) < math.inf


def test_the_signal_to_noise_ratio_is_that_of_the_sample():
    x = np.random.default_rng(6).standard_normal(4000).astype(np.float32)
    y = sf.quantize(x, sf.float8_e4m3fn)
    watch = training.Monitor(every=1)
    watch.tensor("t", "weights", x, y, sf.float8_e4m3fn, 0)
    exact = np.float64(x) @ np.float64(x) / np.sum(np.square(np.float64(y) - x))
    assert watch.tensors["t"].snr == pytest.approx(10 * math.log10(exact), rel=1e-12)
    assert watch.record[-1][:2] == (0, "t") and watch.record[-1][5] == watch.tensors["t"].snr
    watch.tensor("u", "weights", x, x, None, 0)
    assert watch.tensors["u"].snr == math.inf and watch.tensors["u"].values == 0


@pytest.mark.parametrize("name", ["pure_bfloat16", "mixed_binary16", "fp32"])
def test_weights_are_sampled_where_they_are_stored(name, tmp_path):
    trainer = training.Trainer(name, (20, 5), lr=0.1, seed=SEED, monitor=training.Monitor(every=2))
    rng = np.random.default_rng(8)
    x, y = rng.random((16, 20), dtype=np.float32), rng.integers(0, 5, 16)
    trainer.step(x, y)
    trainer.step(x, y)
    before = trainer.parameters["layer1.weight"].copy()
    trainer.step(x, y)
    account = trainer.monitor.tensors["layer1.weight"]
    w = trainer.parameters["layer1.weight"]
    assert account.role == ("weights" if name.startswith("mixed") else "stored")
    assert account.updates and account.latest.sum() == w.size
    assert account.histogram.sum() == 2 * w.size
    exponents = np.frexp(before)[1] - 1 + 127
    assert abs(np.average(np.arange(256), weights=account.latest) - exponents.mean()) < 0.2
    if name == "pure_bfloat16":
        assert account.range["format"] == "bfloat16" and 40 < account.snr < 60
    elif name == "fp32":
        assert account.range is None and account.snr == math.inf
    else:
        assert account.range["format"] == "binary16" and 60 < account.snr < 80
    from softfloat.plot import tensor_figure

    tensor_figure(trainer.monitor, "layer1.weight", tmp_path / "w.png")


def test_the_latest_histogram_is_that_of_the_last_sampled_step():
    rng = np.random.default_rng(12)
    watch, every = training.Monitor(every=2), np.zeros(training.monitor.BINS, np.int64)
    for step in range(5):
        x = (rng.standard_normal(500) * 2.0**step).astype(np.float32)
        watch.tensor("t", "errors", x, x, sf.binary16, step)
        if step % 2 == 0:
            own = training.monitor.exponent_counts(x)
            every += own
        assert np.array_equal(watch.tensors["t"].latest, own)
        assert np.array_equal(watch.tensors["t"].histogram, every)
    again = training.Monitor()
    again.load_state_dict(watch.state_dict())
    assert np.array_equal(again.tensors["t"].latest, own)


# ---------------------------------------------------------------- going on
RESUMED = [
    ("transformer", "bfloat16_stochastic", lambda: training.AdamW(0.01)),
    ("transformer", "fp8_hybrid", lambda: training.SGD(0.1, 0.9)),
    ("convolutional", "mixed_binary16", lambda: training.Adam(0.01)),
    ("regression", "bfloat16_kahan", lambda: training.SGD(0.1, 0.9)),
]


def build(name, policy, optimizer):
    trainer, drawn = make(name, policy, optimizer=optimizer(), monitor=training.Monitor(every=2))
    if name == "transformer":
        trainer.network.parts["feed"].inner.parts["drop"].rate = 0.2
    return trainer, drawn


@pytest.mark.parametrize("case", RESUMED, ids=lambda c: f"{c[0]} {c[1]}")
def test_a_resumed_run_has_the_bits_of_a_whole_one(case, tmp_path):
    whole, drawn = build(*case)
    for step in range(7):
        whole.step(*drawn(step))
    first, _ = build(*case)
    for step in range(4):
        first.step(*drawn(step))
    first.save(tmp_path / "run.npz")
    second, _ = build(*case)
    second.step(*drawn(99))  # what it did before is forgotten
    second.load(tmp_path / "run.npz")
    losses = [second.step(*drawn(step)) for step in range(4, 7)]
    assert np.isfinite(losses).all() and same_parameters(whole, second)
    states = [checkpoint._packed(t.state_dict(), []) for t in (whole, second)]
    assert states[0] == states[1]
    for key in whole.buffers:
        assert same_bits(whole.buffers[key], second.buffers[key])


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_bits_on_one_thread_and_two(name):
    before = sf.get_num_threads()
    policy = training.Policy(
        "p", weights="bfloat16", activations="bfloat16", errors=("e5m2", "stochastic"), accumulator="bfloat16",
    )  # fmt: skip
    runs = []
    try:
        for threads in (1, 2):
            sf.set_num_threads(threads)
            trainer, drawn = make(name, policy, lr=0.1)
            for step in range(2):
                trainer.step(*drawn(step))
            runs.append(trainer)
    finally:
        sf.set_num_threads(before)
    assert same_parameters(*runs)


def test_blas_threads_do_not_change_the_bits():
    script = (
        "import numpy as np; from softfloat import training\n"
        "t = training.Trainer('pure_bfloat16', (300, 257, 10), lr=0.1, seed=1)\n"
        "r = np.random.default_rng(0)\n"
        "for _ in range(3): t.step(r.random((129, 300), dtype='f4'), r.integers(0, 10, 129))\n"
        "import zlib; print(zlib.crc32(b''.join(v.tobytes() for v in t.parameters.values())))\n"
    )
    found = set()
    for threads in ("1", "2"):
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": threads,
            "SOFTFLOAT_NUM_THREADS": threads,
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_a_checkpoint_is_read_by_its_kind_alone(tmp_path):
    trainer, drawn = make("regression", "mixed_binary16")
    trainer.step(*drawn(0))
    path = tmp_path / "run.npz"
    trainer.save(path)
    for other, message in (
        (make("regression", "fp32")[0], "the state has policy"),
        (make("regression", "mixed_binary16", seed=3)[0], "the state has seed 11"),
        (training.Trainer("mixed_binary16", (6, 3), seed=11), "the state has parameters"),
        (make("regression", "mixed_binary16", optimizer=training.Adam())[0], "state of SGD"),
    ):
        with pytest.raises(ValueError, match=message):
            other.load(path)
    raw = path.read_bytes()
    for broken in (raw[:-200], b"", b"PK" + raw):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="no checkpoint of softfloat.training"):
            trainer.load(path)
    with pytest.raises(FileNotFoundError):
        trainer.load(tmp_path / "none")


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    trainer, _ = make("regression", "fp32")
    path = tmp_path / "run.npz"
    trainer.save(path)
    old = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(training.report.os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        trainer.save(path)
    assert path.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_states_come_back_bit_for_bit(tmp_path):
    state = {
        "a": np.float32([1, -0.0, np.nan]), "b": [1, 2.5, -math.inf, None, "x", True],
        "c": {"d": np.zeros((0, 3)), "f": 0.1, "g": ()},
    }  # fmt: skip
    training.save_state(tmp_path / "s.npz", state)
    back = training.load_state(tmp_path / "s.npz")
    assert same_bits(back["a"], state["a"]) and back["b"] == state["b"]
    assert back["c"]["d"].shape == (0, 3) and back["c"]["f"] == 0.1 and back["c"]["g"] == []
    with pytest.raises(TypeError, match="a checkpoint holds"):
        training.save_state(tmp_path / "t.npz", {"a": object()})


def test_memory_stays_flat():
    trainer, drawn = make("transformer", "fp8_hybrid", monitor=training.Monitor(every=2, keep=20))
    batch = drawn(0)
    for _ in range(30):
        trainer.step(*batch)
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(2):
            for _ in range(60):
                trainer.step(*batch)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 40_000  # sixty steps hold on to nothing of their tensors


# ---------------------------------------------------------------- divergence
def test_the_first_bad_tensor_may_be_a_gradient():
    policy = training.Policy("p", weight_gradients="float8_e4m3")
    trainer = training.Trainer(policy, (20, 8, 5), lr=1e-3, seed=SEED)
    rng = np.random.default_rng(7)
    x, y = rng.random((16, 20), dtype=np.float32) * 3e4, rng.integers(0, 5, 16)
    trainer.step(x, y)
    message = r"layer2\.weight\.gradient \(weight gradients in float8_e4m3\) at step 0"
    with pytest.raises(training.DivergenceError, match=message):
        trainer.step(x, y)


def test_the_first_bad_tensor_may_be_an_update():
    policy = training.Policy("p", weights="binary16", update="binary32")
    trainer = training.Trainer(policy, (20, 5), lr=1e6, seed=SEED)
    rng = np.random.default_rng(8)
    x, y = rng.random((16, 20), dtype=np.float32), rng.integers(0, 5, 16)
    trainer.step(x, y)
    message = r"layer1\.(weight|bias)\.updated \(stored in binary16\) at step 0"
    with pytest.raises(training.DivergenceError, match=message):
        trainer.step(x, y)


@pytest.mark.parametrize(
    ("policy", "optimizer", "message"),
    [
        ({"optimizer": "e4m3fn"}, training.SGD(0.1, 0.9), r"momentum \(optimizer in float8_e4m3fn"),
        (
            {"optimizer": "e4m3fn"},
            training.Adam(0.1),
            r"(mean|square) \(optimizer in float8_e4m3fn",
        ),
        ({"update": "e4m3fn"}, training.SGD(1e5), r"change \(update in float8_e4m3fn"),
        ({"update": "e4m3fn"}, training.AdamW(1e5), r"change \(update in float8_e4m3fn"),
        ({"weights": "e4m3fn", "kahan": True}, training.SGD(1e5), r"updated \(stored in"),
    ],
)
def test_the_first_bad_tensor_may_be_one_of_the_optimizer(policy, optimizer, message):
    trainer = training.Trainer(training.Policy("p", **policy), (20, 5), optimizer=optimizer)
    rng = np.random.default_rng(8)
    x, y = rng.random((16, 20), dtype=np.float32) * 1e4, rng.integers(0, 5, 16)
    with pytest.raises(training.DivergenceError, match=r"bad: layer1\.\w+\." + message) as caught:
        for _ in range(3):
            trainer.step(x, y)
    assert "largest value of float8_e4m3fn 448" in str(caught.value)


# ---------------------------------------------------------------- figures
def test_figures_of_tensors_and_formats(tmp_path):
    from softfloat.plot import range_ruler, tensor_figure

    trainer, drawn = make("regression", "mixed_binary16", monitor=training.Monitor(every=1))
    trainer.step(*drawn(0))
    axes = tensor_figure(trainer.monitor, "first.output", tmp_path / "a.png").get_axes()[0]
    assert "first.output (activations)" in axes.get_title("left")
    assert sum(b.get_height() for b in axes.patches if b.get_width() == 1) == pytest.approx(1)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    trainer.step(*drawn(1))
    latest = tensor_figure(trainer.monitor, "first.output", latest=True).get_axes()[0]
    assert sum(b.get_height() for b in latest.patches if b.get_width() == 1) == pytest.approx(1)
    with pytest.raises(ValueError, match="no tensor 'x'; known: "):
        tensor_figure(trainer.monitor, "x")
    axes = range_ruler(["binary16", "bfloat16", sf.FixedPoint(3, 12)]).get_axes()[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["binary16", "bfloat16", "Q3.12"]
    assert axes.patches[0].get_x() == -14 and axes.patches[0].get_width() == 30
    with pytest.raises(ValueError, match="one or more formats"):
        range_ruler([])


# --- arguments
TRAINER = ("fp32", (8, 5, 3))


def twice(layer):
    return training.Sequential(training.Linear(8, 8), layer, training.Residual(layer))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, x, y: t.step(x, y - 1), ValueError, r"labels must be in 0..2"),
        (lambda t, x, y: t.step(x, y + 7), ValueError, r"labels must be in 0..2"),
        (lambda t, x, y: t.step(x, y * 1.0), TypeError, "labels must be integers"),
        (lambda t, x, y: t.step(x + 0j, y), TypeError, "inputs must be real numbers"),
        (lambda t, x, y: t.step("abc", y), TypeError, "inputs must be real numbers"),
        (lambda t, x, y: t.step(x[:0], y[:0]), ValueError, "one or more rows"),
        (lambda t, x, y: t.evaluate(x[:0], y[:0]), ValueError, "one or more rows"),
        (lambda t, x, y: t.predict(x, block=0), ValueError, "block must be at least 1"),
        (
            lambda t, x, y: training.Trainer(*TRAINER, optimizer=training.SGD),
            TypeError,
            "optimizer",
        ),
        (
            lambda t, x, y: training.Trainer(*TRAINER, loss="mse"),
            TypeError,
            "loss must be a function",
        ),
        (lambda t, x, y: training.Trainer(*TRAINER, monitor="x"), TypeError, "monitor must be"),
        (
            lambda t, x, y: training.Trainer(*TRAINER, seed=None),
            TypeError,
            "seed must be an integer",
        ),
        (
            lambda t, x, y: training.Trainer(*TRAINER, optimizer=training.SGD(0.1), lr=0.5),
            ValueError,
            "lr and momentum are for the default optimizer; SGD has its own",
        ),
        (
            lambda t, x, y: training.Trainer(*TRAINER, optimizer=t.optimizer),
            ValueError,
            "this SGD belongs to another Trainer",
        ),
        (
            lambda t, x, y: training.Policy(loss_scale=1e39),
            ValueError,
            r"loss_scale must be .* of float32 .* got 1e\+39",
        ),
        (lambda t, x, y: training.Policy(loss_scale="1e-60"), ValueError, "of float32"),
        (
            lambda t, x, y: training.mean_squared_error(x, x * 1j),
            TypeError,
            "targets must be real numbers",
        ),
        (
            lambda t, x, y: training.Trainer("fp32", twice(training.ReLU())),
            ValueError,
            r"ReLU\(\) stands in the network more than once; .* one for each place",
        ),
        (
            lambda t, x, y: training.Trainer(
                "fp32",
                training.Sequential(
                    **{"a.b": training.Linear(8, 8)}, a=training.Sequential(b=training.Linear(8, 3))
                ),
            ),
            ValueError,
            "two parts of the network are called 'a.b'",
        ),
        (
            lambda t, x, y: training.Trainer("fp32", twice(training.Linear(8, 8))),
            ValueError,
            r"Linear\(\) stands in the network more than once",
        ),
        (
            lambda t, x, y: training.Trainer(training.Policy("p", engine="h100_fp8"), (8, 3)).step(
                x, y
            ),
            ValueError,
            r"layer1: h100_fp8 takes b as values of .*: give activations and weights a format",
        ),
        (lambda t, x, y: training.Trainer(*TRAINER, lr="x"), TypeError, "lr must be a number"),
        (lambda t, x, y: training.Trainer("fp32", 8), TypeError, "layer sizes"),
        (lambda t, x, y: training.Adam(0.1, betas=0.9), ValueError, "betas must be two numbers"),
        (lambda t, x, y: training.LossScaler(dynamic="yes"), TypeError, "dynamic must be True"),
        (lambda t, x, y: training.LossScaler(growth_interval="a"), TypeError, "growth_interval"),
        (lambda t, x, y: training.Policy("mine", saturate="x"), ValueError, "saturate must be"),
        (lambda t, x, y: training.Policy(None), TypeError, "name must be a string"),
        (lambda t, x, y: training.Monitor(keep=-1), ValueError, "keep must be"),
        (lambda t, x, y: t.load_state_dict(None), TypeError, "state of a Trainer is a dict"),
        (lambda t, x, y: t.load_state_dict({}), ValueError, "it lacks policy, seed, steps"),
        (lambda t, x, y: t.optimizer.load_state_dict(None), TypeError, "state of an optimizer"),
        (lambda t, x, y: t.optimizer.load_state_dict({}), ValueError, "it lacks kind, steps"),
        (lambda t, x, y: training.LossScaler().load_state_dict(None), TypeError, "loss scaler is"),
        (lambda t, x, y: training.LossScaler().load_state_dict({}), ValueError, "it lacks scale"),
        (lambda t, x, y: training.Monitor().load_state_dict([]), TypeError, "state of a Monitor"),
        (lambda t, x, y: training.Monitor().load_state_dict({}), ValueError, "it lacks every"),
        (lambda t, x, y: DelayedScales(4).load_state_dict(None), TypeError, "delayed scales"),
        (lambda t, x, y: training.Policy(overrides="x"), ValueError, "overrides must be"),
        (lambda t, x, y: training.Policy(overrides={"a": 3}), ValueError, "overrides must be"),
        (lambda t, x, y: training.Policy(overrides={3: {}}), ValueError, "overrides must be"),
        (lambda t, x, y: training.Policy(overrides=5), ValueError, "overrides must be"),
        (lambda t, x, y: training.Policy(loss_scale=[]), ValueError, r"such as 1024, got \[\]"),
        (
            lambda t, x, y: training.Settings(data=[]),
            TypeError,
            "data must be the name of a data set",
        ),
        (lambda t, x, y: training.Settings(data_dir=3), TypeError, "data_dir must be a folder"),
        (lambda t, x, y: training.Settings(hidden=None), TypeError, "hidden must be a list"),
        (lambda t, x, y: training.Checkpoint("a", seconds=-1), ValueError, "seconds must be"),
        (lambda t, x, y: training.Checkpoint(5), TypeError, "the path of a file, got 5"),
        (lambda t, x, y: t.load(None), TypeError, "the path of a file, got None"),
        (lambda t, x, y: t.load(__file__), ValueError, "is no checkpoint of softfloat.training"),
        (lambda t, x, y: training.Linear("a", 2), ValueError, "Linear: sizes must be positive"),
        (lambda t, x, y: training.Linear(None, 2), ValueError, "Linear: sizes must be positive"),
        (lambda t, x, y: training.Linear(math.nan, 2), ValueError, "Linear: sizes must be"),
        (lambda t, x, y: training.Conv2d(2, 4, "x"), ValueError, "Conv2d: kernel: sizes must"),
        (lambda t, x, y: training.Conv2d(2, 4, (3,)), ValueError, "size must be one number or two"),
        (lambda t, x, y: training.Conv2d(2, 4, 3, groups=0), ValueError, "sizes must be positive"),
        (lambda t, x, y: training.Conv2d(2, 4, 3, groups=3), ValueError, "groups must divide"),
        (lambda t, x, y: training.Dropout("x"), TypeError, "rate must be a number"),
        (lambda t, x, y: training.MaxPool2d("a"), ValueError, "MaxPool2d: sizes must be"),
        (lambda t, x, y: training.BatchNorm("a"), ValueError, "BatchNorm: sizes must be"),
        (
            lambda t, x, y: training.BatchNorm(3, momentum=5),
            ValueError,
            r"momentum must lie in \[0",
        ),
        (lambda t, x, y: training.LayerNorm(3, epsilon=-1), ValueError, "epsilon must be"),
        (lambda t, x, y: training.Residual(5), TypeError, "inner must be a Module"),
        (lambda t, x, y: training.perceptron((8, "a")), ValueError, "layer: sizes must be"),
        (lambda t, x, y: training.LossScaler().unscale(None), TypeError, "a list or a dict"),
        (lambda t, x, y: training.LossScaler().update("x"), TypeError, "finite must be True"),
        (lambda t, x, y: training.custom_policy(nothing=1), TypeError, "a policy has no 'nothing'"),
        (lambda t, x, y: training.run_recipes("fp32"), TypeError, "recipes must be a list"),
        (lambda t, x, y: training.run_recipes(epoch=1), TypeError, "unknown setting 'epoch'"),
        (lambda t, x, y: training.train("fp32", settings={}), TypeError, "settings must be"),
        (
            lambda t, x, y: training.Dataset("d", None, y, x, y, 3),
            TypeError,
            "must be NumPy arrays, got NoneType",
        ),
        (
            lambda t, x, y: training.Trainer(
                training.Policy("p", overrides={"layr2": {"weights": None}}), (8, 5, 3)
            ),
            ValueError,
            "overrides name 'layr2', which is no part of the network; known: layer1, relu1, layer2",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, message):
    x, y = np.ones((4, 8), np.float32), np.array([0, 1, 2, 1])
    with pytest.raises(error, match=message):
        call(training.Trainer(*TRAINER), x, y)


# --- losses of one's own
@pytest.mark.parametrize(
    ("loss", "returned"),
    [
        (lambda z, y: 1.0, "float"),
        (lambda z, y: (1.0, z, z), r"\(float, an array.*, an array"),
        (lambda z, y: (z, z), r"\(an array of shape \(4, 3\)"),
        (lambda z, y: ("x", z), r"\(str, an array"),
        (lambda z, y: (1.0, z[:2]), r"\(float, an array of shape \(2, 3\)"),
        (lambda z, y: (1.0, z.astype(int)), r"\(float, an array.*int64"),
        (lambda z, y: (1.0, None), r"\(float, NoneType\)"),
        (lambda z, y: None, "NoneType"),
    ],
)
def test_a_loss_that_returns_the_wrong_kind_is_told_what_it_must(loss, returned):
    trainer = training.Trainer(*TRAINER, loss=loss)
    x, y = np.ones((4, 8), np.float32), np.array([0, 1, 2, 1])
    message = rf"loss must return a number and its gradient.*shape \(4, 3\); it returned {returned}"
    for call in (trainer.step, trainer.evaluate):
        with pytest.raises(TypeError, match=message):
            call(x, y)


def test_a_loss_of_ones_own_is_used():
    x, y = np.random.default_rng(9).random((4, 8), np.float32), np.array([0, 1, 2, 1])
    own = training.Trainer(*TRAINER, loss=lambda z, y: training.softmax_cross_entropy(z, y), seed=1)
    plain = training.Trainer(*TRAINER, seed=1)
    assert own.step(x, y) == plain.step(x, y) and same_parameters(own, plain)


def test_the_accuracy_of_a_regression_is_nan():
    trainer, drawn = make("regression", "fp32")
    loss, accuracy = trainer.evaluate(*drawn(0))
    assert math.isfinite(loss) and math.isnan(accuracy)


# --- states that are refused
def test_a_state_that_is_refused_changes_nothing():
    trainer, drawn = build(*RESUMED[1])
    trainer.step(*drawn(0))
    before = checkpoint._packed(trainer.state_dict(), [])
    other, _ = build(*RESUMED[1])
    other.step(*drawn(1))
    other.step(*drawn(2))
    good = other.state_dict()
    for part, wrong in (
        ("steps", -1), ("steps", "x"), ("parameters", None), ("buffers", []), ("optimizer", {}), ("scales", 7),
        ("scales", {"head.output": np.zeros(3)}), ("monitor", {"every": 1}), ("scaler", {}),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            trainer.load_state_dict({**good, part: wrong})
        assert checkpoint._packed(trainer.state_dict(), []) == before, part
    trainer.load_state_dict(good)
    assert checkpoint._packed(trainer.state_dict(), []) == checkpoint._packed(good, [])


OPTIMIZERS = [
    (training.SGD(0.1, 0.9, 0.01), training.SGD(0.2)),
    (training.Adam(0.1, (0.5, 0.6), 1e-3, 0.1), training.Adam()),
    (training.AdamW(0.1, (0.5, 0.6), 1e-3, 0.1), training.AdamW()),
]


@pytest.mark.parametrize("pair", OPTIMIZERS, ids=lambda pair: type(pair[0]).__name__)
def test_a_resumed_optimizer_has_the_numbers_it_had(pair, tmp_path):
    one, other = (training.Trainer("fp32", (8, 5, 3), optimizer=o) for o in pair)
    rng = np.random.default_rng(5)
    drawn = [(rng.random((4, 8), dtype=np.float32), rng.integers(0, 3, 4)) for _ in range(4)]
    for x, y in drawn[:2]:
        one.step(x, y)
    one.save(tmp_path / "a.npz")
    other.load(tmp_path / "a.npz")
    for x, y in drawn[2:]:
        one.step(x, y)
        other.step(x, y)
    assert same_parameters(one, other)


def test_arrays_that_do_not_fit_the_network_are_refused():
    trainer = training.Trainer("fp32", (8, 5, 3), lr=0.1, momentum=0.9)
    trainer.step(np.ones((4, 8), np.float32), np.array([0, 1, 2, 1]))
    for part, slot, wrong, message in (
        ("optimizer", "momentum", np.zeros((2, 2), np.float32), "momentum of layer1.weight is float32"),
        ("optimizer", "momentum", np.zeros((8, 5)), "layer1.weight is float64"),
        ("parameters", None, np.zeros((8, 5)), "float64"),
    ):  # fmt: skip
        state = trainer.state_dict()
        held = state[part] if slot is None else state[part]["state"][slot]
        held["layer1.weight"] = wrong
        before = checkpoint._packed(trainer.state_dict(), [])
        with pytest.raises(ValueError, match=message):
            trainer.load_state_dict(state)
        assert checkpoint._packed(trainer.state_dict(), []) == before
    state = trainer.state_dict()
    state["optimizer"]["state"]["momentum"]["layer9.weight"] = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="layer9.weight .* no such parameter"):
        trainer.load_state_dict(state)


@pytest.mark.parametrize("network", [training.Linear(8, 3), training.BatchNorm(8)])
def test_one_layer_is_a_network(network):
    trainer = training.Trainer("fp32", network, lr=0.1, monitor=training.Monitor())
    x, y = np.random.default_rng(3).random((4, 8), dtype=np.float32), np.array([0, 1, 2, 1])
    losses = [trainer.step(x, y) for _ in range(10)]
    assert losses[-1] < losses[0] and trainer.evaluate(x, y)[0] > 0
    assert set(trainer.parameters) <= {"weight", "bias", "gain"}


# --- checkpoints of runs
def test_a_training_run_goes_on_from_its_checkpoint_at_any_step(tmp_path):
    digits = training.load_data("digits")
    settings = training.Settings(epochs=2, hidden=(8,), batch=200, momentum=0.5, seed=3)
    path, seen = tmp_path / "run.npz", []
    whole = training.train("bfloat16_stochastic", digits, settings=settings)
    for end in (1, 6, 7, 8, 13):  # seven steps in an epoch

        def stop(name, step, steps, loss, end=end):
            seen.append(step)
            if step == end:
                raise KeyboardInterrupt

        keep = training.Checkpoint(path, seconds=0)
        with pytest.raises(KeyboardInterrupt):
            training.train(
                "bfloat16_stochastic", digits, settings=settings, progress=stop, checkpoint=keep
            )
        assert path.exists()
    again = training.train(
        "bfloat16_stochastic", digits, settings=settings, progress=lambda n, s, *_: seen.append(s),
        checkpoint=path,
    )  # fmt: skip
    # A step that was ended after it had been done, but before the next checkpoint, is done again.
    assert seen == [1, *range(1, 7), 6, 7, 7, 8, *range(8, 14), 13, 14]
    for key in ("accuracy", "loss", "curve", "counts", "histograms", "updates_lost_percent"):
        assert getattr(again, key) == getattr(whole, key), key
    assert not path.exists()


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    digits = training.load_data("digits")
    settings = training.Settings(epochs=1, hidden=(8,), batch=200)
    path = tmp_path / "run.npz"

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(
            "fp32",
            digits,
            settings=settings,
            progress=stop,
            checkpoint=training.Checkpoint(path, 0),
        )
    kept = path.read_bytes()
    fewer = training.Dataset("digits", digits.images[:600], digits.labels[:600],
                             digits.test_images, digits.test_labels, 10)  # fmt: skip
    for policy, data, changes, message in (
        ("tf32", digits, {}, "the state has policy"),
        ("fp32", digits, {"lr": 0.5}, "other settings or data; give another path"),
        ("fp32", fewer, {}, "other settings or data"),
    ):
        with pytest.raises(ValueError, match=message):
            training.train(
                policy, data, settings=dataclasses.replace(settings, **changes), checkpoint=path
            )
    assert path.read_bytes() == kept


def test_checkpoints_are_rare_where_they_take_long(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])

    def slow(path, state):
        clock[0] += 3.0
        written.append(state)

    written = []
    monkeypatch.setattr(checkpoint, "save_state", slow)
    keep = training.Checkpoint(tmp_path / "a", seconds=10)
    for _ in range(1000):
        clock[0] += 1.0
        keep.offer(lambda: clock[0])
    assert written[0] == 10.0 and len(written) == 1 + 990 // 150


@pytest.mark.parametrize(
    ("engine", "block", "allowed"),
    [
        ("b200_mxf8f6f4", 32, "powers of two, the values of float8_e8m0fnu"),
        ("b200_nvfp4", 16, "values of float8_e4m3fn that are not negative"),
    ],
)
def test_scales_of_blocks_are_told_what_they_may_be(engine, block, allowed):
    a, ones = np.ones((1, 64), np.float32), np.ones((1, 64 // block), np.float32)
    unit = sf.engines.presets()[engine]
    with pytest.raises(ValueError, match=rf"{engine} takes scale_a as {allowed}; element \(0, 0\)"):
        sf.matmul(a, a.T, sf.binary32, engine=unit, scale_a=-3.1 * ones, scale_b=ones.T)
