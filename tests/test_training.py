"""Training: every tensor on its grid, exact loss scaling, honest counts, and runs that repeat bit for bit."""

import csv
import functools
import gzip
import io
import json
import math
import pickle
import struct
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest

import softfloat as sf
from softfloat import training
from softfloat.training import cast as casting
from softfloat.training import command, data, monitor, report, run, words
from softfloat.training import trainer as trainers
from softfloat.training.policy import ROLES

SEED = 11


def bits(a):
    a = np.ascontiguousarray(a)
    return a.view(np.uint32 if a.dtype == np.float32 else np.uint64)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(bits(a), bits(b))


def batches(count, size=16, pixels=20, classes=5, seed=SEED):
    """Made-up images: (size, pixels) in [0, 1), and labels."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield (
            rng.random((size, pixels), dtype=np.float32),
            rng.integers(0, classes, size),
        )


def trained(policy, steps=4, sizes=(20, 12, 8, 5), lr=0.1, momentum=0.0, seed=SEED, watch=None):
    trainer = training.Trainer(policy, sizes, lr=lr, momentum=momentum, seed=seed, monitor=watch)
    losses = [trainer.step(images, labels) for images, labels in batches(steps)]
    return trainer, losses


@pytest.fixture(scope="module")
def digits():
    return training.load_data("digits")


# ---------------------------------------------------------------- loss scaling
def grad_scaler_reference(outcomes, scale, growth, backoff, interval):
    """torch's _amp_update_scale_ in its own words: the scales after each step."""
    scale, tracker = np.float32(scale), 0
    for finite in outcomes:
        if not finite:
            scale, tracker = np.float32(scale * np.float32(backoff)), 0
        else:
            tracker += 1
            if tracker == interval:
                with np.errstate(over="ignore"):
                    grown = np.float32(scale * np.float32(growth))
                scale = grown if np.isfinite(grown) else scale
                tracker = 0
        yield float(scale), tracker


@pytest.mark.parametrize("growth", [2.0, 1.5, 8.0])
@pytest.mark.parametrize("interval", [1, 2, 7])
def test_the_scale_follows_grad_scaler(growth, interval):
    rng = np.random.default_rng(SEED)
    outcomes = rng.random(400) < 0.8
    scaler = training.LossScaler(2.0**16, growth, 0.5, interval, minimum=2.0**-126)
    expected = grad_scaler_reference(outcomes, 2.0**16, growth, 0.5, interval)
    for finite, (scale, tracker) in zip(outcomes, expected, strict=True):
        scaler.update(bool(finite))
        assert (scaler.scale, scaler.growth_tracker) == (scale, tracker)


def test_the_defaults_are_those_of_grad_scaler():
    scaler = training.LossScaler()
    state = scaler.state_dict()
    assert (state["scale"], state["growth_factor"], state["backoff_factor"]) == (65536.0, 2.0, 0.5)
    assert (state["growth_interval"], state["_growth_tracker"]) == (2000, 0)
    for _ in range(1999):
        scaler.update(True)
    assert scaler.scale == 2.0**16
    scaler.update(True)
    assert scaler.scale == 2.0**17


def test_growth_that_would_overflow_float32_is_left_out():
    scaler = training.LossScaler(2.0**127, growth_interval=1)
    scaler.update(True)
    assert scaler.scale == 2.0**127 and scaler.growth_tracker == 0


def test_sfb125_the_scale_never_reaches_zero_and_says_so_once():
    policy = training.Policy("all overflow", errors="binary16", loss_scale="dynamic")
    trainer = training.Trainer(policy, (3, 2), seed=SEED)
    before = {key: value.copy() for key, value in trainer.parameters.items()}
    scaler = trainer.scaler
    with pytest.warns(RuntimeWarning, match="floor of 6.10352e-05") as caught:
        for _ in range(3000):
            gradients, finite = scaler.unscale({"w": np.float32([1, np.inf])})
            scaler.update(finite)
            assert scaler.scale >= 2.0**-14
    assert len(caught) == 1
    assert scaler.scale == scaler.minimum == 2.0**-14
    assert scaler.skipped == 3000 and scaler.floor_hits == 3000 - 30
    assert all(same_bits(before[key], trainer.parameters[key]) for key in before)


def test_sfb127_a_step_that_is_not_finite_is_skipped_once(monkeypatch):
    trainer = training.Trainer("mixed_binary16", (20, 5), seed=SEED)
    images, labels = next(batches(1))
    before = {key: value.copy() for key, value in trainer.parameters.items()}
    passes = trainer.network.backward

    def poisoned(gradient, cast, wanted):
        passes(gradient, cast, wanted)
        cast.gradients["layer1.weight"][0, 0] = np.nan

    monkeypatch.setattr(trainer.network, "backward", poisoned)
    trainer.step(images, labels)
    assert (trainer.scaler.scale, trainer.scaler.growth_tracker) == (2.0**15, 0)
    assert trainer.scaler.skipped == 1
    assert all(same_bits(before[key], trainer.parameters[key]) for key in before)


def test_sfb127_gradients_are_unscaled_exactly_and_the_scale_grows():
    scaler = training.LossScaler(2.0**16, growth_interval=2)
    gradients = [np.float32([1, 2]), np.float32([3e-5])]
    kept = [g.copy() for g in gradients]
    for _ in range(2):
        unscaled, finite = scaler.unscale(gradients)
        assert finite and scaler.scale == 2.0**16
        for got, g in zip(unscaled, gradients, strict=True):
            assert same_bits(got, np.ldexp(g, -16))
        scaler.update(finite)
    assert scaler.scale == 2.0**17
    assert all(same_bits(a, b) for a, b in zip(kept, gradients, strict=True))


def test_a_scaler_resumes_from_its_state():
    outcomes = np.random.default_rng(SEED).random(60) < 0.7
    whole = training.LossScaler(growth_interval=3)
    first = training.LossScaler(growth_interval=3)
    for finite in outcomes:
        whole.update(bool(finite))
    for finite in outcomes[:25]:
        first.update(bool(finite))
    second = training.LossScaler()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for finite in outcomes[25:]:
        second.update(bool(finite))
    assert second.state_dict() == whole.state_dict()


def test_a_state_of_torch_is_taken():
    scaler = training.LossScaler()
    scaler.load_state_dict(
        {"scale": 512.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 5,
         "_growth_tracker": 3}
    )  # fmt: skip
    scaler.update(True)
    scaler.update(True)
    assert scaler.scale == 2048.0
    with pytest.raises(ValueError, match="lacks growth_factor"):
        scaler.load_state_dict({"scale": 1.0})


def test_a_constant_scale_stays():
    scaler = training.LossScaler(1000.0, dynamic=False, growth_interval=1)
    for finite in (True, False, True):
        scaler.update(finite)
    assert scaler.scale == 1000.0 and scaler.skipped == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"init_scale": 0.0}, "init_scale must be > 0"),
        ({"init_scale": math.inf}, "init_scale"),
        ({"growth_factor": 1.0}, "growth_factor must be > 1"),
        ({"backoff_factor": 1.0}, "backoff_factor must be > 0 and < 1"),
        ({"growth_interval": 0}, "at least 1, got 0"),
        ({"minimum": 0.0}, "minimum must be > 0"),
        ({"init_scale": 1.0, "minimum": 2.0}, "lies below minimum"),
    ],
)
def test_a_scaler_refuses_what_has_no_meaning(arguments, message):
    with pytest.raises(ValueError, match=message):
        training.LossScaler(**arguments)


# ---------------------------------------------------------------- policies
def test_policies_take_names_formats_and_none():
    policy = training.Policy("p", weights="e4m3fn", activations=sf.bfloat16, errors="fp32")
    assert policy.weights == sf.float8_e4m3fn and policy.errors == sf.binary32
    assert policy.logits is None and policy.stored == sf.float8_e4m3fn
    assert policy.grids["errors"] is None and policy.grids["stored"] == sf.float8_e4m3fn
    assert policy.dtype == np.float32
    assert policy == pickle.loads(pickle.dumps(policy)) and hash(policy) == hash(policy)
    with pytest.raises(AttributeError):
        policy.weights = None


def test_a_wide_format_widens_the_carrier_and_then_float32_is_a_grid():
    policy = training.Policy("p", weights="binary64")
    assert policy.dtype == np.float64
    assert policy.grids["weights"] is None and policy.grids["errors"] == sf.binary32


@pytest.mark.parametrize("name", training.PRESETS)
def test_presets_say_where_they_come_from(name):
    policy = training.PRESETS[name]
    assert policy.name == name and policy.source
    assert training.as_policy(name) is policy and training.as_policy(policy) is policy
    json.dumps(policy.labels())


def test_presets_are_the_recipes_of_their_sources():
    p = training.PRESETS
    assert all(v is None for v in p["fp32"].grids.values())
    assert set(p["pure_binary16"].grids.values()) == {sf.binary16}
    assert set(p["pure_bfloat16"].grids.values()) == {sf.bfloat16}
    assert p["bfloat16_stochastic"].update_rounding == "stochastic"
    assert p["bfloat16_stochastic"].rounding == "ties_to_even"
    assert p["mixed_binary16"].grids["stored"] is None
    assert p["mixed_binary16"].loss_scale == "dynamic"
    fp8 = p["fp8_hybrid"]
    assert (fp8.weights, fp8.activations) == (sf.float8_e4m3fn, sf.float8_e4m3fn)
    assert fp8.errors == sf.float8_e5m2 and fp8.saturate and fp8.master == sf.binary32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "bfloat17"}, "did you mean 'bfloat16'"),
        ({"rounding": "up"}, "rounding"),
        ({"loss_scale": "static"}, 'None, "dynamic" or a positive number'),
        ({"loss_scale": -1}, "positive number"),
        ({"scaling": "block"}, 'None, "current" or "delayed"'),
        ({"scaling": "current", "weights": "e4m3fn"}, 'give master="binary32"'),
    ],
)
def test_policies_refuse_what_has_no_meaning(options, message):
    with pytest.raises(ValueError, match=message):
        training.Policy("p", **options)


def test_unknown_recipes_are_answered_with_the_known():
    with pytest.raises(ValueError, match="unknown recipe 'fp23'; known: fp32, tf32, pure"):
        training.as_policy("fp23")


def test_options_that_are_not_given_follow_those_that_are():
    pure = training.custom_policy(weights="bfloat16", activations="e5m2", rounding="stochastic")
    assert pure.update == pure.optimizer == sf.bfloat16 and pure.logits == sf.float8_e5m2
    assert pure.update_rounding == "stochastic" and pure.errors is None
    mixed = training.custom_policy(weights="bfloat16", master="binary32", logits="binary16")
    assert mixed.update is None and mixed.logits == sf.binary16


# ---------------------------------------------------------------- the network
def test_softmax_cross_entropy_takes_large_logits():
    logits = np.float32([[1e4, 0, -1e4], [0, 0, 0]])
    loss, gradient = training.softmax_cross_entropy(logits, np.array([0, 1]))
    assert loss == pytest.approx(math.log(3) / 2, rel=1e-6)
    assert np.allclose(gradient, [[0, 0, 0], [1 / 6, -1 / 3, 1 / 6]], atol=1e-7)


def float16_reference(trainer, steps, lr):
    """Pure binary16 training written again with NumPy's float16: a second opinion on every rounding."""
    half = lambda x: np.asarray(x).astype(np.float16).astype(np.float32)  # noqa: E731
    weights = {key: value.astype(np.float16) for key, value in trainer.parameters.items()}
    depth = len(weights) // 2
    for images, labels in batches(steps):
        w = {key: value.astype(np.float32) for key, value in weights.items()}
        acts = [half(images)]
        for k in range(1, depth + 1):
            z = half(acts[-1] @ w[f"layer{k}.weight"] + w[f"layer{k}.bias"])
            acts.append(np.maximum(z, 0) if k < depth else z)
        e = np.exp(acts[-1] - acts[-1].max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        p[np.arange(len(labels)), labels] -= 1
        error = half(p / np.float32(len(labels)))
        for k in range(depth, 0, -1):
            gw, gb = half(acts[k - 1].T @ error), half(error.sum(axis=0))
            if k > 1:
                error = half(error @ w[f"layer{k}.weight"].T) * (acts[k - 1] > 0)
            for key, g in ((f"layer{k}.weight", gw), (f"layer{k}.bias", gb)):
                # lr is held in the carrier, and so this product is exact before it is rounded.
                weights[key] = weights[key] + (
                    g.astype(np.float64) * -float(np.float32(lr))
                ).astype(np.float16)
    return weights


def test_pure_binary16_is_what_float16_arithmetic_gives():
    start = training.Trainer("pure_binary16", (20, 12, 8, 5), seed=SEED)
    expected = float16_reference(start, 10, 0.1)
    trainer, _ = trained("pure_binary16", steps=10)
    for key, value in expected.items():
        assert same_bits(trainer.parameters[key], value.astype(np.float32)), key


class Recorder(casting.Caster):
    """A Caster that keeps everything it gives out, with the role."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.kept = []

    def __call__(self, x, role, module, what="", own=False):
        kept = x.copy()
        y = super().__call__(x, role, module, what, own)
        assert own or same_bits(x, kept)
        name = ".".join(part for part in (module, what) if part)
        self.kept.append((role, name, y, self.scales.get(name, 1.0)))
        return y

    def momentum(self, *arguments):
        y = super().momentum(*arguments)
        self.kept.append(("optimizer", arguments[-1], y, 1.0))
        return y

    def change(self, *arguments):
        y = super().change(*arguments)
        self.kept.append(("update", arguments[-1], y, 1.0))
        return y

    def updated(self, *arguments):
        y = super().updated(*arguments)
        self.kept.append(("stored", arguments[-1], y, 1.0))
        return y


def recorded(trainer):
    """The trainer, with a Recorder for a Caster."""
    old = trainer.cast
    trainer.cast = Recorder(old.policy, SEED, None, ops=old.ops)
    trainer.cast.parameters, trainer.cast.buffers = old.parameters, old.buffers
    return trainer


FP8 = training.PRESETS["fp8_hybrid"]
MORE_POLICIES = [
    training.custom_policy(
        "stochastic", weights="e6m9", activations="e4m3fn", errors="e5m2",
        weight_gradients="bfloat16", master="binary32", update="e8m10", rounding="stochastic",
        loss_scale=1000,
    ),
    training.Policy("narrow", weights="e8m4", activations="e3m5", errors="e8m1"),
    training.Policy("wide", **dict.fromkeys(ROLES, "e11m40")),
    training.Policy("wide master", activations="bfloat16", weights="binary16", master="binary64"),
    training.custom_policy("fixed", weights="Q1.14", activations="Q5.10", errors="Q0.15",
                           weight_gradients="Q3.12", update="Q0.20", master="Q1.20"),
]  # fmt: skip


def assert_on_grid(array, fmt, scale, what):
    assert np.isfinite(array).all(), what
    if fmt is None:
        fmt = sf.binary32
    scaled = array * array.dtype.type(scale)
    assert same_bits(scaled, sf.quantize(scaled, fmt)), what


@pytest.mark.parametrize(
    "policy", [*training.PRESETS.values(), *MORE_POLICIES], ids=lambda p: p.name
)
def test_every_tensor_is_on_the_grid_that_the_policy_names(policy):
    trainer = training.Trainer(policy, (20, 12, 8, 5), lr=0.1, momentum=0.9, seed=SEED)
    recorded(trainer)
    fmt = lambda value: getattr(value, "fmt", value)  # noqa: E731
    wanted = {role: fmt(getattr(policy, role)) for role in ROLES}
    wanted["stored"] = policy.stored
    for images, labels in batches(3):
        trainer.step(images, labels)
    for role, name, array, scale in trainer.cast.kept:
        assert array.dtype == policy.dtype
        assert_on_grid(array, wanted[role], scale, (role, name))
    for key, array in trainer.parameters.items():
        assert_on_grid(array, policy.stored, 1.0, key)
        velocity = trainer.optimizer.state["momentum"][key]
        assert_on_grid(velocity, wanted["optimizer"], 1.0, key)
    seen = {role for role, *_ in trainer.cast.kept}
    assert seen == {*wanted} - ({"weights"} if policy.master is None else set())


def test_a_tensor_off_the_grid_would_be_seen():
    trainer = recorded(training.Trainer("fp32", (20, 12, 8, 5), seed=SEED))
    for images, labels in batches(2):
        trainer.step(images, labels)
    for role, name, array, _ in trainer.cast.kept:
        if role in ("weights", "weight_gradients", "errors"):
            with pytest.raises(AssertionError):
                assert_on_grid(array, sf.binary16, 1.0, name)


def test_tensor_scales_are_powers_of_two_that_fill_the_range():
    trainer, _ = trained("fp8_current")
    cast = trainer.cast
    assert {"layer1.weight", "layer1.output", "layer2.error", "input"} <= set(cast.scales)
    for name in ("layer1", "layer2", "layer3"):
        scale = cast.scales[f"{name}.weight"]
        assert math.frexp(scale)[0] == 0.5
        largest = np.abs(trainer.parameters[f"{name}.weight"])
        # Of the weights before the last update; one step moves them by far less than a factor of two.
        assert 448 / 4 < largest.max() * scale < 2 * 448
    zeros = casting.Caster(FP8)(np.zeros(3, np.float32), "errors", "none")
    assert not zeros.any()


def test_the_callers_arrays_are_left_alone():
    images, labels = next(batches(1))
    kept = images.copy(), labels.copy()
    trainer = training.Trainer(FP8, (20, 12, 5), seed=SEED)
    trainer.step(images, labels)
    assert same_bits(images, kept[0]) and np.array_equal(labels, kept[1])


# ---------------------------------------------------------------- updates
def descend(policy, start, gradient, lr, steps, seed=SEED, watch=None):
    """SGD with a constant gradient on one array of weights."""
    cast = training.Caster(training.as_policy(policy), seed, watch)
    parameters = {"w": np.asarray(start, np.float32)}
    optimizer = training.SGD(lr)
    cast.parameters = parameters
    for step in range(steps):
        cast.step = step
        optimizer.step(parameters, {"w": np.full_like(parameters["w"], gradient)}, cast)
    return parameters["w"]


@pytest.mark.parametrize("name", ["pure_binary16", "pure_bfloat16"])
def test_small_updates_are_lost(name):
    watch = training.Monitor()
    assert descend(name, [1.0], -1.0, 1e-4, 10000, watch=watch) == 1.0
    assert (watch.updates, watch.lost) == (10000, 10000) and watch.lost_percent == 100


def test_a_thousand_steps_of_a_thousandth():
    assert descend("pure_bfloat16", [1.0], 1.0, 1e-3, 1000) == 1.0
    assert descend("pure_binary16", [1.0], 1.0, 1e-3, 1000) == np.float32(0.022186279296875)
    assert descend("mixed_binary16", [1.0], 1.0, 1e-3, 1000) == pytest.approx(0, abs=1e-4)


def test_sfb106_small_updates_survive_on_average():
    start = np.ones(256)
    kept = descend("pure_bfloat16", start, -(2.0**-12), 1.0, 4096)
    assert (kept == 1.0).all()
    moved = descend("bfloat16_stochastic", start, -(2.0**-12), 1.0, 4096)
    assert abs(moved.mean(dtype=np.float64) - 2.0) < 0.04
    assert same_bits(moved, sf.quantize(moved, sf.bfloat16)) and len(np.unique(moved)) > 8
    again = descend("bfloat16_stochastic", start, -(2.0**-12), 1.0, 4096)
    assert same_bits(moved, again)


def test_momentum_is_rounded_once_to_its_format():
    cast = training.Caster(training.PRESETS["pure_bfloat16"])
    v, g = np.float32([1.0, 3.0]), np.float32([2.0**-9, 1.0])
    got = cast.momentum(0.9, v, g, "", "m")
    exact = np.float64(np.float32(0.9)) * v + g
    assert same_bits(got, exact.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_fp32_training_is_plain_numpy():
    trainer, losses = trained("fp32", steps=5, momentum=0.5)
    again = training.Trainer("fp32", (20, 12, 8, 5), lr=0.1, momentum=0.5, seed=SEED)
    w, v = dict(again.parameters), {}
    for (images, labels), loss in zip(batches(5), losses, strict=True):
        h1 = np.maximum(images @ w["layer1.weight"] + w["layer1.bias"], 0)
        h2 = np.maximum(h1 @ w["layer2.weight"] + w["layer2.bias"], 0)
        z = h2 @ w["layer3.weight"] + w["layer3.bias"]
        got, d3 = training.softmax_cross_entropy(z, labels)
        assert got == loss
        d2 = (d3 @ w["layer3.weight"].T) * (h2 > 0)
        d1 = (d2 @ w["layer2.weight"].T) * (h1 > 0)
        for k, x, d in ((3, h2, d3), (2, h1, d2), (1, images, d1)):
            for key, g in ((f"layer{k}.weight", x.T @ d), (f"layer{k}.bias", d.sum(axis=0))):
                v[key] = v.get(key, np.zeros_like(g)) * np.float32(0.5) + g
                w[key] = w[key] + v[key] * np.float32(-0.1)
    assert all(same_bits(w[key], trainer.parameters[key]) for key in w)


# ---------------------------------------------------------------- counts
def test_exponents_are_counted():
    x = np.float32([0, -0.0, 1, -1.5, 2, 0.25, 2.0**-130, 3e38])
    counts = monitor.exponent_counts(x)
    expected = {0: 1, 127: 2, 128: 1, 125: 1, 254: 1}
    assert {i: n for i, n in enumerate(counts) if n} == expected


def test_flushed_overflowed_and_saturated_values_are_counted():
    x = np.float32([0, 1, 2.0**-25, 2.0**-26, -(2.0**-30), 65504, 65520, -1e6, np.inf, np.nan])
    for saturate, over, held in ((False, 2, 0), (True, 0, 2)):
        watch = training.Monitor(every=1)
        cast = training.Caster(
            training.Policy("p", errors="binary16", saturate=saturate), SEED, watch
        )
        cast(x, "errors", "e")
        counts = watch.counts["errors"]
        assert (counts["values"], counts["nonzero"], counts["flushed"]) == (10, 9, 3)
        assert (counts["overflowed"], counts["saturated"]) == (over, held)
        assert watch.percent("flushed") == pytest.approx(100 * 3 / 9)
        assert watch.percent("flushed", "weights") == 0


def test_saturation_inside_a_scaled_tensor_is_counted_in_its_units():
    watch = training.Monitor()
    y = np.float32([448, 449, 100])
    watch.tensor("w", "weights", y / 8, y / 8, sf.float8_e4m3fn, 0, scale=8.0)
    assert watch.counts["weights"]["saturated"] == 1


def test_lost_updates_are_those_that_leave_the_weight():
    watch = training.Monitor(every=1)
    w, dw = np.float32([1, 1, 0, 2]), np.float32([0, 2.0**-30, 2.0**-30, 1])
    watch.update("w", w, dw, w + dw, 0)
    assert (watch.updates, watch.lost) == (3, 1)
    assert watch.median_ratio == -30
    assert training.Monitor().median_ratio is None


def test_errors_are_recorded_with_and_without_the_loss_scale():
    watch = training.Monitor(every=1)
    trained(training.Policy("p", errors="binary16", loss_scale=2.0**10), steps=2, watch=watch)
    scaled = np.flatnonzero(watch.histograms["errors"])
    assert scaled.size and np.array_equal(scaled, np.flatnonzero(watch.unscaled) + 10)
    assert np.array_equal(watch.histograms["errors"][scaled], watch.unscaled[scaled - 10])


def test_watching_changes_nothing():
    plain, _ = trained("bfloat16_stochastic")
    watched, _ = trained("bfloat16_stochastic", watch=training.Monitor(every=1))
    assert all(same_bits(plain.parameters[k], watched.parameters[k]) for k in plain.parameters)


# ---------------------------------------------------------------- determinism
@pytest.mark.parametrize("policy", [training.PRESETS["bfloat16_stochastic"], MORE_POLICIES[0]])
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(policy):
    threads = sf.get_num_threads()
    try:
        runs = []
        for count in (1, threads, threads):
            sf.set_num_threads(count)
            runs.append(trained(policy, sizes=(20, 300, 5))[0].parameters)
    finally:
        sf.set_num_threads(threads)
    other = trained(policy, sizes=(20, 300, 5), seed=SEED + 1)[0].parameters
    for key, value in runs[0].items():
        assert all(same_bits(value, again[key]) for again in runs[1:])
        assert not same_bits(value, other[key])


def test_random_bits_are_a_function_of_seed_step_tensor_and_element():
    policy = training.Policy("p", weights="bfloat16", rounding="stochastic")
    x = np.random.default_rng(SEED).normal(size=4000).astype(np.float32)

    def rounded(seed=1, step=2, name="a", part=slice(None)):
        cast = training.Caster(policy, seed)
        cast.step = step
        return cast(x[part], "weights", name)

    whole = rounded()
    assert same_bits(whole, rounded())
    assert same_bits(whole[:100], rounded(part=slice(0, 100)))
    for other in (rounded(seed=2), rounded(step=3), rounded(name="b")):
        assert 0.2 < np.mean(whole != other) < 0.8


def test_initial_weights_and_orders_are_fixed_words():
    """The words of a seed must never change: results of old runs are repeated from them."""
    first = words.uniform(words.raw_words(0, 0), (2,))
    assert (np.abs(first) <= 1).all()
    assert same_bits(first, words.uniform(words.raw_words(0, 0), (2,)))
    again = words.raw_words(7, 1, 3)
    assert [hex(int(w)) for w in again(2)] == PINNED_WORDS
    order = words.permutation(words.raw_words(7, 1, 3), 1000)
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert not np.array_equal(order, words.permutation(words.raw_words(7, 1, 4), 1000))


PINNED_WORDS = ["0xe16865d16ed3ee7e", "0xecdbeccd33322f4d"]


# ---------------------------------------------------------------- divergence
def test_a_loss_that_is_not_finite_names_the_first_tensor_that_went_bad():
    trainer = training.Trainer("pure_binary16", (20, 12, 5), lr=1e4, seed=SEED)
    with pytest.raises(training.DivergenceError) as caught:
        for images, labels in batches(50):
            trainer.step(images * 100, labels)
    text = str(caught.value)
    assert "the loss is nan" in text and "First tensor that went bad: layer" in text
    assert "in binary16) at step" in text and "largest value of binary16 65504" in text


def test_the_first_bad_tensor_is_the_one_that_was_poisoned():
    trainer = training.Trainer("fp32", (20, 12, 8, 5), seed=SEED)
    trainer.parameters["layer2.bias"][3] = np.inf
    images, labels = next(batches(1))
    with pytest.raises(training.DivergenceError, match=r"bad: layer2\.bias \(weights in binary32"):
        trainer.step(images, labels)


def test_a_run_that_diverges_is_reported_and_the_others_go_on(digits):
    result = training.run_recipes(
        ["pure_binary16", "fp32"], data=digits, lr=2000.0, epochs=1, hidden=16
    )
    bad, good = result.runs
    assert bad.status == "diverged" and good.status == "finished"
    assert math.isnan(bad.loss) and bad.to_dict()["loss"] is None
    assert bad.message.startswith("pure_binary16 stopped at step") and "logits" in bad.message
    assert bad.time_ratio is None and good.time_ratio == 1.0


# ---------------------------------------------------------------- runs
def test_small_updates_need_a_master_copy_or_stochastic_rounding(digits):
    """The default setting, shorter: what the command is there to show."""
    names = ["fp32", "pure_binary16", "pure_bfloat16", "bfloat16_stochastic", "mixed_binary16"]
    result = training.run_recipes([*names, "fp8_hybrid"], data=digits, epochs=6)
    runs = {r.policy: r for r in result.runs}
    fp32 = runs["fp32"].loss
    assert runs["pure_bfloat16"].loss > runs["pure_binary16"].loss > fp32 + 0.03
    for name in ("bfloat16_stochastic", "mixed_binary16", "fp8_hybrid"):
        assert abs(runs[name].loss - fp32) < 0.03, name
    assert runs["pure_binary16"].updates_lost_percent > 60
    assert runs["pure_bfloat16"].updates_lost_percent > 85
    assert runs["mixed_binary16"].updates_lost_percent < 2
    assert "late in any long training" in result.note()
    assert runs["fp32"].median_update_exponent < -11


def test_at_a_large_rate_there_is_no_difference(digits):
    result = training.run_recipes(["fp32", "pure_binary16"], data=digits, epochs=4, lr=0.1)
    fp32, half = result.runs
    assert fp32.accuracy > 0.9 and abs(fp32.accuracy - half.accuracy) < 0.02
    assert "those that matter arrive" in result.note()


def test_runs_repeat_bit_for_bit_and_differ_by_seed(digits):
    first, again, other = (
        training.train(
            "bfloat16_stochastic", digits, settings=training.Settings(epochs=1, hidden=8, seed=seed)
        ).to_dict()
        for seed in (3, 3, 4)
    )
    for key in ("accuracy", "loss", "curve", "counts", "histograms"):
        assert first[key] == again[key], key
    assert first["loss"] != other["loss"]


def test_the_order_of_images_depends_on_seed_and_epoch_alone(digits, monkeypatch):
    orders = {}
    plain = run.permutation

    def kept(words, n):
        order = plain(words, n)
        orders.setdefault((policy, seed), []).append(order.tobytes())
        return order

    monkeypatch.setattr(run, "permutation", kept)
    for policy, seed in (("fp32", 1), ("pure_binary16", 1), ("fp32", 2)):
        settings = training.Settings(epochs=2, hidden=4, batch=700, seed=seed)
        training.train(policy, digits, settings=settings)
    assert orders["fp32", 1] == orders["pure_binary16", 1]
    assert len({*orders["fp32", 1], *orders["fp32", 2]}) == 4


def test_a_run_says_what_it_did(digits):
    calls = []
    settings = training.Settings(epochs=2, hidden=(8,), batch=100)
    got = training.train(
        "mixed_binary16", digits, settings=settings, progress=lambda *a: calls.append(a)
    )
    assert [c[1] for c in calls] == list(range(1, 29)) and {c[2] for c in calls} == {28}
    assert got.steps == 28 and len(got.curve) == 2 and got.curve[-1]["loss"] == got.loss
    assert got.loss_scale == 2.0**16 and got.seconds > 0
    assert got.ranges["errors"] == {
        "format": "binary16", "smallest": 2.0**-24, "smallest_normal": 2.0**-14, "largest": 65504.0,
    }  # fmt: skip
    assert sum(got.histograms["errors"].values()) > 0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "epochs must be in 1"),
        ({"batch": 0}, ValueError, "batch"),
        ({"batch": 2.5}, TypeError, "batch must be an integer"),
        ({"hidden": (0,)}, ValueError, "hidden"),
        ({"lr": 0}, ValueError, "lr must be a positive number"),
        ({"lr": math.nan}, ValueError, "lr"),
        ({"momentum": 1.0}, ValueError, r"momentum must lie in \[0, 1\)"),
        ({"seed": -1}, ValueError, "seed"),
        ({"data": "cifar"}, ValueError, "known: digits, fashion-mnist"),
        ({"recipes": ["fp32", "fp32"]}, ValueError, "different names"),
        ({"recipes": []}, ValueError, "one or more recipes"),
    ],
)
def test_settings_without_meaning_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        training.run_recipes(**settings)


# ---------------------------------------------------------------- data
def test_a_batch_of_more_images_than_there_are_is_refused(digits):
    there = len(digits.labels)
    with pytest.raises(ValueError, match=f"batch is {there + 1}, but digits has {there} training"):
        training.train("fp32", digits, settings=training.Settings(batch=there + 1))
    settings = training.Settings(batch=there, epochs=1, hidden=4)
    assert training.train("fp32", digits, settings=settings).steps == 1


def test_digits_are_split_once_and_for_all(digits):
    assert digits.images.shape == (1438, 64) and digits.test_images.shape == (359, 64)
    assert digits.images.dtype == np.float32 and digits.images.max() == 1
    assert same_bits(digits.images, sf.quantize(digits.images, sf.binary16))


def idx(array):
    array = np.asarray(array, np.uint8)
    return struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def write_fashion(folder, dot="-", pack=lambda raw: raw, end=""):
    rng = np.random.default_rng(SEED)
    parts = {}
    for prefix, n in (("train", 40), ("t10k", 10)):
        images, labels = rng.integers(0, 256, (n, 28, 28)), rng.integers(0, 10, n)
        (folder / f"{prefix}-images{dot}idx3-ubyte{end}").write_bytes(pack(idx(images)))
        (folder / f"{prefix}-labels{dot}idx1-ubyte{end}").write_bytes(pack(idx(labels)))
        parts[prefix] = images, labels
    return parts


@pytest.mark.parametrize(
    ("dot", "pack", "end"), [("-", gzip.compress, ".gz"), ("-", bytes, ""), (".", bytes, "")]
)
def test_fashion_mnist_is_read_from_a_folder(tmp_path, dot, pack, end):
    parts = write_fashion(tmp_path, dot, pack, end)
    got = training.load_data("fashion-mnist", tmp_path)
    images, labels = parts["train"]
    assert np.array_equal(
        got.images, (images.reshape(40, 784) / np.float32(255)).astype(np.float32)
    )
    assert np.array_equal(got.labels, labels) and got.test_images.shape == (10, 784)


def test_missing_files_say_how_to_get_them(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"dataset-fashion-mnist.*zalandoresearch.*--data-dir"
    ):
        training.load_data("fashion-mnist", tmp_path)
    with pytest.raises(ValueError, match="Use --data fashion-mnist"):
        training.load_data("digits", tmp_path)


def test_broken_files_are_refused(tmp_path):
    write_fashion(tmp_path)
    target = tmp_path / "train-images-idx3-ubyte"
    whole = target.read_bytes()
    for raw, message in (
        (whole[:-1], "but holds"),
        (b"PNG" + whole, "no idx file"),
        (b"", "no idx file"),
        (gzip.compress(whole)[:-9], "no whole gzip file"),
        (idx(np.zeros((39, 28, 28))), r"images of shape \(39, 784\)"),
        (idx(np.zeros((40, 8, 8))), "784"),
    ):
        target.write_bytes(raw)
        with pytest.raises(ValueError, match=message):
            training.load_data("fashion-mnist", tmp_path)
    target.write_bytes(whole)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.full(10, 11)))
    with pytest.raises(ValueError, match="labels must lie in 0..9"):
        training.load_data("fashion-mnist", tmp_path)


@pytest.mark.skipif(
    not data.DEBIAN_FASHION_MNIST.is_dir(), reason="Debian's dataset-fashion-mnist is not installed"
)
def test_debians_fashion_mnist_is_found():
    got = training.load_data("fashion-mnist")
    assert got.images.shape == (60000, 784) and got.test_images.shape == (10000, 784)


# ---------------------------------------------------------------- files and command
@pytest.fixture(scope="module")
def small_report(digits):
    return training.run_recipes(["fp32", "mixed_binary16"], data=digits, epochs=2, hidden=8)


def test_results_are_written_as_json_and_csv(small_report, tmp_path):
    paths = training.save_report(small_report, tmp_path / "runs")
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == sorted(p.name for p in paths)
    content = json.loads(paths[0].read_text())
    assert [r["policy"] for r in content["runs"]] == ["fp32", "mixed_binary16"]
    assert content["settings"]["hidden"] == [8] and content["environment"]["numpy"]
    rows = list(csv.DictReader(io.StringIO(paths[1].read_text())))
    assert float(rows[1]["accuracy"]) == small_report.runs[1].accuracy
    assert len(list(csv.DictReader(io.StringIO(paths[2].read_text())))) == 4


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "results.json"
    report.write_atomically(target, "old")

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(report.os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        report.write_atomically(target, "new")
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_the_figure_shows_every_recipe_and_both_histograms(small_report, tmp_path):
    from softfloat.plot import training_figure

    figure = training_figure(small_report, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    axes = figure.get_axes()
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert [label.split()[0] for label in labels] == ["fp32", "mixed_binary16"]
    assert axes[1].get_title("left").startswith("Before loss scaling")
    assert axes[2].get_title("left").startswith("After loss scaling (last 2$^{16}$)")
    for count, ax in ((1, axes[1]), (2, axes[2])):
        heights = sum(bar.get_height() for bar in ax.patches if bar.get_width() == 1)
        assert heights == pytest.approx(1), count


def test_a_figure_of_one_run_without_loss_scale_has_one_histogram(digits):
    from softfloat.plot import training_figure

    alone = training.run_recipes(["fp32"], data=digits, epochs=1, hidden=4)
    assert len(training_figure(alone).get_axes()) == 2
    with pytest.raises(ValueError, match="no finished run"):
        training_figure(training.Report([], alone.settings))


def quick(tmp_path, **options):
    return training.train_command(
        **{"out": tmp_path, "epochs": 1, "hidden": "8", "batch": 64, **options}
    )


def test_the_command_prints_one_table_and_writes_files(tmp_path, capsys):
    assert quick(tmp_path / "out", recipes="fp32,pure-binary16") == 0
    shown = capsys.readouterr().out
    assert (
        "pure_binary16" in shown and "updates" in shown and "late in any" in " ".join(shown.split())
    )
    assert max(map(len, shown.splitlines()[:8])) <= 80
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"results.json", "results.csv", "curves.csv", "training.png"}


def test_brackets_and_dollars_in_names_are_no_markup(tmp_path, capsys):
    policy = training.Policy("a[/b] $\\frac$", weights="bfloat16")
    assert quick(tmp_path / "o[/u]t", recipes=[policy]) == 0
    assert "a[/b] $\\frac$" in capsys.readouterr().out
    assert (tmp_path / "o[/u]t" / "training.png").exists()


def test_json_is_a_list_of_runs_and_nothing_else(tmp_path, capsys):
    options = {"weights": "bfloat16", "activations": "e4m3fn", "errors": "e5m2"}
    more = {"master": "binary32", "rounding": "stochastic", "loss_scale": "1024"}
    assert quick(tmp_path, as_json=True, figure=False, **options, **more) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [r["policy"] for r in runs] == ["fp32", "custom"]
    assert all({"accuracy", "loss", "updates_lost_percent", "time_ratio"} <= set(r) for r in runs)
    assert runs[1]["formats"]["activations"] == "float8_e4m3fn" and runs[1]["loss_scale"] == 1024
    assert not (tmp_path / "training.png").exists()


def test_ctrl_c_keeps_what_has_finished(tmp_path, capsys, monkeypatch):
    finished = []
    train_one = run._train

    def interrupted(policy, *arguments):
        if finished:
            raise KeyboardInterrupt
        finished.append(policy.name)
        return train_one(policy, *arguments)

    monkeypatch.setattr(run, "_train", interrupted)
    assert quick(tmp_path, recipes="fp32,pure_binary16,mixed_binary16") == 130
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 3 recipes finished and are kept; missing: pure_binary16, mixed_binary16" in shown
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["interrupted"] and [r["policy"] for r in content["runs"]] == ["fp32"]


def test_a_real_ctrl_c_ends_the_command_well(tmp_path):
    script = f"""
import os, signal, sys
from softfloat.training import Trainer, train_command
# What runs in the background may have been told to ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
plain = Trainer.step

def step(self, *batch):
    if self.steps == 50:
        os.kill(os.getpid(), signal.SIGINT)
    return plain(self, *batch)

Trainer.step = step
sys.exit(train_command(out={str(tmp_path)!r}, recipes="fp32,pure_binary16", epochs=4000))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 130, ended.stderr
    assert "Interrupted: 0 of 2" in ended.stdout and "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("module", "extra"), [("rich", "cli"), ("matplotlib", "plot"), ("sklearn", "train")]
)
def test_a_missing_extra_is_named(module, extra, tmp_path, monkeypatch):
    for name in [m for m in sys.modules if m.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs .*: pip install 'softfloat-numba\[{extra}\]'"):
        quick(tmp_path)


def test_the_floor_of_the_loss_scale_reaches_the_user(tmp_path, capsys, monkeypatch):
    high = functools.partial(training.LossScaler, minimum=2.0**15)
    monkeypatch.setattr(trainers, "LossScaler", high)
    # At such scales all weight gradients overflow float8_e4m3, whose largest value is 240.
    options = {"weight_gradients": "float8_e4m3", "errors": "binary16", "loss_scale": "dynamic"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quick(tmp_path, figure=False, **options) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("warning: the loss scale has fallen to its floor of 32768") == 1
    assert "custom: the loss scaler skipped 22 of 22 steps and ended at 32768." in shown


def test_unknown_options_are_refused(tmp_path):
    with pytest.raises(TypeError, match="unknown option 'wieghts'"):
        quick(tmp_path, wieghts="bfloat16")
    with pytest.raises(ValueError, match="64 or 64,32"):
        quick(tmp_path, hidden="a")
    assert command.chosen_policies(None, {"weights": None})[0].name == "fp32"
    assert len(command.chosen_policies()) == len(training.DEFAULT_RECIPES)
