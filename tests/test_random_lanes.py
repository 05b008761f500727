"""Stochastic sums, differences and products in float32 lanes and rounding in place equal the definition bit by bit."""

import numpy as np
import pytest

import softfloat as sf
from softfloat import functional
from softfloat.backends.cpu import REDO_BLOCK
from softfloat.in_place import ExactSum, InPlace, keys_of
from softfloat.random import element_word, make_key

FORMATS = (
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float6_e3m2fn",
)
WIDE = sf.Format(8, 20)  # the exponents of float32, and nearly its precision
OPERATIONS = ("add", "subtract", "multiply")
SEED, STREAM = 11, 5
SIZE = 2 * REDO_BLOCK + 37  # whole blocks and a part of one


def bits(x):
    return x.view(np.uint32)


def defined(function, *arrays, **options):
    """By the definition, which counts flags."""
    with sf.status():
        return function(*arrays, **options)


def random_floats(rng, low, high):
    """Random significands and signs, exponents from a range."""
    exponents = rng.integers(low + 127, high + 127, SIZE).astype(np.uint32) << 23
    return (rng.integers(0, 1 << 32, SIZE, np.uint32) & 0x807FFFFF | exponents).view(np.float32)


def hard_pairs(fmt):
    """Operands near each other, far apart, of the format, at powers of two, tiny, huge and special."""
    rng = np.random.default_rng(3)
    x, y = random_floats(rng, -12, 6), random_floats(rng, -36, 6)
    values = sf.quantize(x, fmt)
    powers = np.exp2(rng.integers(-12, 8, SIZE)).astype(np.float32)
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)
    yield x, y
    yield values, sf.quantize(y, fmt)
    yield values, -values * np.float32(1 + 2**-20)
    yield values, -values
    yield powers, -np.exp2(rng.integers(-60, 0, SIZE)).astype(np.float32)
    yield random_floats(rng, -126, -90), random_floats(rng, -126, -90)
    yield random_floats(rng, 90, 127), random_floats(rng, 60, 127)
    mixed = x.copy()
    mixed[::997] = np.resize(specials, mixed[::997].size)
    yield mixed, y


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", [*FORMATS, WIDE], ids=str)
def test_random_lanes_equal_the_definition(operation, fmt):
    run = getattr(sf, operation)
    for saturate in (False, True):
        for i, (x, y) in enumerate(hard_pairs(fmt)):
            options = {
                "rounding": "stochastic", "seed": SEED, "stream": STREAM, "offset": i % 3, "saturate": saturate,
            }  # fmt: skip
            got = run(x, y, fmt, **options)
            assert np.array_equal(bits(got), bits(defined(run, x, y, fmt, **options)))


@pytest.mark.parametrize("fmt", ["bfloat16", "float16"])
@pytest.mark.parametrize("random_bits", [1, 8, 24])
def test_random_lanes_decide_at_the_very_edge(fmt, random_bits):
    """Sums whose discarded part is what the word asks for, less a trifle, exactly, and more."""
    m = sf.as_format(fmt).mantissa_bits
    words = np.array([element_word(make_key(SEED, STREAM), i) for i in range(SIZE)], np.float64)
    part = 2.0**random_bits - np.floor(words / 2.0 ** (32 - random_bits))
    part = part * 2.0 ** (-random_bits - m)  # of numbers between 1 and 2
    signs = np.where(np.arange(SIZE) % 2, -1.0, 1.0)
    for trifle in (-(2.0**-45), 0.0, 2.0**-45):
        whole = signs * (1 + 3 * 2.0**-m + part)
        x = whole.astype(np.float32)
        y = (whole - x + signs * trifle).astype(np.float32)
        options = {
            "rounding": "stochastic",
            "seed": SEED,
            "stream": STREAM,
            "random_bits": random_bits,
        }
        got = sf.add(x, y, fmt, **options)
        assert np.array_equal(bits(got), bits(defined(sf.add, x, y, fmt, **options)))
        up = np.abs(got) > 1 + 3 * 2.0**-m
        exact = np.abs(x.astype(np.float64) + y) - (1 + 3 * 2.0**-m) == part + trifle
        assert exact.mean() > 0.9
        assert np.all(up[exact] == (trifle >= 0))


def test_random_lanes_run_where_they_should(monkeypatch):
    """Else the tests above would compare the definition with itself."""
    calls = []
    for fmt in ("bfloat16", "float16"):
        lanes = functional._random_lanes(
            "add", sf.as_format(fmt), functional.Choice("stochastic", seed=1)
        )
        run = lanes.run
        monkeypatch.setattr(lanes, "run", lambda *a, run=run: calls.append(run(*a)) or calls[-1])
        sf.add(np.ones(8, np.float32), np.ones(8, np.float32), fmt, rounding="stochastic", seed=1)
    assert calls == [True, True]


def test_chunks_of_sums_repeat_the_whole():
    x, y = next(hard_pairs("bfloat16"))
    options = {"rounding": "stochastic", "seed": SEED}
    whole = sf.add(x, y, "bfloat16", **options)
    for start in (1, 511, 4097):
        part = sf.add(x[start:], y[start:], "bfloat16", offset=start, **options)
        assert np.array_equal(bits(part), bits(whole[start:]))


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_zero", "stochastic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmt", [*FORMATS, sf.FixedPoint(3, 4)], ids=str)
def test_rounding_in_place_equals_the_definition(fmt, dtype, rounding):
    fmt = fmt if isinstance(fmt, sf.FixedPoint) else sf.as_format(fmt)
    run = InPlace(fmt, dtype, rounding)
    for x, _ in hard_pairs("bfloat16"):
        x = x[np.isfinite(x)].astype(dtype)
        options = {"rounding": rounding}
        if run.random:
            options.update(seed=SEED, stream=STREAM, offset=3)
        want = defined(sf.quantize, x, fmt, **options)
        if run(x, keys_of(SEED)(STREAM), 3):
            assert x.tobytes() == want.tobytes()
        assert not run.leaves(np.full(5, 1 + 2.0**-20, dtype))
        if run.leaves(want):  # then no rounding moves it
            assert defined(sf.quantize, want, fmt, **options).tobytes() == want.tobytes()
        else:
            assert want.tobytes() != defined(sf.quantize, want, fmt).tobytes()


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_zero", "stochastic"])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_prepared_sums_equal_the_definition(fmt, rounding):
    run = ExactSum(sf.as_format(fmt), np.float32, rounding)
    options = {"rounding": rounding}
    if rounding == "stochastic":
        options.update(seed=SEED, stream=STREAM, offset=3)
    for x, y in hard_pairs(fmt):
        out = np.empty_like(x)
        assert run(x, y, out, keys_of(SEED)(STREAM), 3)
        assert np.array_equal(bits(out), bits(defined(sf.add, x, y, fmt, **options)))
