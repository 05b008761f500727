"""Fixed point inside: the fast form against the definition, wrapping without end, and the paths between."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import assert_same_bits
from oracle import How

import softfloat as sf
from softfloat.fast import fast_form
from softfloat.rounding import MODES, Rounding

FORMATS = [
    sf.FixedPoint(3, 4),
    sf.FixedPoint(0, 7, symmetric=True),
    sf.FixedPoint(4, 12),
    sf.FixedPoint(8, 0, signed=False),
    sf.FixedPoint(0, 1),
    sf.FixedPoint(11, 12),
    sf.FixedPoint(12, 12, signed=False),
    sf.FixedPoint(0, 24),
    sf.FixedPoint(3, 4, overflow="wrap"),
    sf.FixedPoint(5, 3, signed=False, overflow="wrap"),
    sf.FixedPoint(12, 12, overflow="wrap"),
    sf.FixedPoint(24, 0, signed=False, overflow="wrap"),
    sf.FixedPoint(20, 32),
    sf.FixedPoint(53, 0, signed=False),
    sf.FixedPoint(0, 52, overflow="wrap"),
    sf.FixedPoint(26, 27, signed=False, overflow="wrap"),
]
WRAPPING = [f for f in FORMATS if f.overflow == "wrap"]
DETERMINISTIC = [mode for mode in Rounding if "stochastic" not in mode.value]


def inputs(fmt, dtype, n=4000, seed=0):
    """Values, ties and their neighbours, ends of the range, numbers far outside, tiny ones, zeros and NaN."""
    rng = np.random.default_rng(seed)
    low, high = int(fmt.min / fmt.resolution), fmt.max_code
    span = high - low + 1
    whole = rng.integers(low - span, high + span, n).astype(np.float64)
    whole[: n // 8] = rng.integers(-40, 40, n // 8)
    part = rng.choice([0, 0.25, 0.5, 0.75, 0.5 - 2.0**-20, 0.5 + 2.0**-20, 2.0**-30, 1 / 3], n)
    x = (whole + part) * fmt.resolution
    exponents = rng.integers(-140, 120, n // 4)
    x[n // 2 : n // 2 + n // 4] = np.ldexp(rng.normal(size=n // 4), exponents)
    ends = [low - 1, low, low + 1, high - 1, high, high + 1]
    ends = [(e + h) * fmt.resolution for e in ends for h in (-0.5, 0, 0.5)]
    tiny = [5e-324, -5e-324, 1e-310, -1e-42, 1e-45, 0.0, -0.0, np.nan]
    x = np.concatenate([x, ends, tiny])
    with np.errstate(all="ignore"):
        return rng.permutation(x.astype(dtype))


def defined(x, fmt, **options):
    """The result of the definition: a block that counts flags leaves no fast form."""
    with sf.status():
        return sf.quantize(x, fmt, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rounding", Rounding, ids=str)
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.label)
def test_the_fast_form_is_the_definition(fmt, rounding, dtype):
    if not fmt.fits(dtype):
        pytest.skip("the carrier does not hold the format")
    options = {"rounding": rounding}
    if rounding in (Rounding.STOCHASTIC, Rounding.STOCHASTIC_EQUAL):
        options |= {"seed": 3, "offset": 5}
    assert fast_form(fmt, np.dtype(dtype), MODES[rounding], 0) is not None
    x = inputs(fmt, dtype)
    for extra in ({}, {"saturate": True}):
        got = sf.quantize(x, fmt, **options, **extra)
        assert got.dtype == dtype
        assert_same_bits(got, defined(x, fmt, **options, **extra), x)
    assert not np.signbit(got[got == 0]).any()
    again = x.copy()
    sf.quantize(again, fmt, out=again, **options, **extra)
    assert_same_bits(again, got, x)


@pytest.mark.parametrize("bits", [1, 8, 24, 25, 32])
@pytest.mark.parametrize("variant", "ABC")
def test_any_number_of_random_bits(bits, variant):
    fmt = sf.FixedPoint(4, 12)
    how = {"rounding": "stochastic", "seed": 1, "random_bits": bits, "variant": variant}
    for dtype in (np.float32, np.float64):
        x = inputs(fmt, dtype)
        assert_same_bits(sf.quantize(x, fmt, **how), defined(x, fmt, **how), x)


def exact_steps(fmt, x, rounding, word=0, bits=24):
    """The integer of a fixed-point number, from the exact one."""
    how = How(rounding, False, word, bits, "A")
    n, _ = oracle.to_integer(oracle.finite(x * 2**fmt.fraction_bits), how)
    low = int(Fraction(fmt.min) / Fraction(fmt.resolution))
    if fmt.overflow == "wrap":
        return (n - low) % 2**fmt.bits + low
    return min(max(n, low), fmt.max_code)


@pytest.mark.parametrize("rounding", DETERMINISTIC, ids=str)
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.label)
def test_values_against_fractions(fmt, rounding):
    x = inputs(fmt, np.float64, 400, seed=2)
    x = np.concatenate([x[np.isfinite(x)], [1e300, -1e300, 2.0**200 + 2.0**150, 1.7e308]])
    expected = [exact_steps(fmt, Fraction(v), str(rounding)) for v in x.tolist()]
    values = np.array([float(n * Fraction(fmt.resolution)) for n in expected])
    assert_same_bits(sf.quantize(x, fmt, rounding=rounding), values + 0.0, x)
    codes = sf.encode(x, fmt, rounding=rounding)
    assert codes.dtype == fmt.code_dtype
    assert codes.tolist() == [n % 2**fmt.bits for n in expected]
    assert_same_bits(sf.decode(codes, fmt), values + 0.0, x)
    assert [fmt.exact(c) for c in codes.tolist()] == [Fraction(v) for v in values]


@pytest.mark.parametrize("fmt", WRAPPING, ids=lambda f: f.label)
def test_wrapping_of_exact_numbers(fmt):
    rng = np.random.default_rng(0)
    numbers = [Fraction(int(n), 3) for n in rng.integers(-(2**40), 2**40, 60)]
    numbers += [Fraction(10**30 + k) + Fraction(1, 2**k) for k in range(20)]
    numbers += [Fraction(2**63 + k) for k in range(10)] + [-Fraction(7**40), Fraction(3) ** 70]
    expected = [exact_steps(fmt, n, "ties_to_even") for n in numbers]
    got = sf.quantize(np.array(numbers, object), fmt)
    assert [Fraction(v) / Fraction(fmt.resolution) for v in got.tolist()] == expected
    with pytest.raises(ValueError, match="element 1 .*wrap"):
        sf.quantize([Fraction(1), Fraction(10**60, 7)], fmt)
    assert sf.quantize([Fraction(10**60, 7)], fmt, saturate=True)[0] == fmt.max


OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_negative", "to_odd", "stochastic"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.label)
def test_arithmetic_of_any_floats(fmt, operation, rounding):
    rng = np.random.default_rng(1)
    n = 150
    low, high = int(fmt.min / fmt.resolution), fmt.max_code
    arity = 3 if operation == "fma" else 2
    operands = [rng.integers(low, high, n, endpoint=True) * fmt.resolution for _ in range(arity)]
    operands[0][::5] = rng.normal(size=n // 5) * fmt.max * 1.7  # no values of the format
    operands[1][operands[1] == 0] = fmt.resolution
    words = rng.integers(0, 256, n)
    options = {"rounding": rounding}
    if rounding == "stochastic":
        options |= {"random": words, "random_bits": 8}
    got = getattr(sf, operation)(*operands, fmt, **options)
    rows = zip(*(x.tolist() for x in operands), words.tolist(), strict=True)
    expected = [
        exact_steps(fmt, OPERATIONS[operation](*map(Fraction, v)), rounding, word, 8)
        for *v, word in rows
    ]
    values = [float(n * Fraction(fmt.resolution)) for n in expected]
    assert_same_bits(got, np.array(values) + 0.0, *operands)


@pytest.mark.parametrize("rounding", Rounding, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fast_arithmetic_is_the_definition(dtype, operation, rounding):
    options = {"rounding": rounding}
    if rounding in (Rounding.STOCHASTIC, Rounding.STOCHASTIC_EQUAL):
        options |= {"seed": 3, "offset": 5}
    for fmt in FORMATS:
        x = [inputs(fmt, dtype, 600, seed) for seed in range(3 if operation == "fma" else 2)]
        with sf.status():
            expected = getattr(sf, operation)(*x, fmt, **options, saturate=True)
        got = getattr(sf, operation)(*x, fmt, **options, saturate=True)
        assert_same_bits(got, expected, *x)


def test_other_operations():
    q = sf.FixedPoint(3, 4)
    assert sf.sqrt([2.0, 0.0, 100.0], q).tolist() == [1.4375, 0.0, 7.9375]
    assert sf.remainder(7.0, 2.5, q) == -0.5
    assert sf.round_to_integral([2.5, -7.75, 7.75], q).tolist() == [2.0, -8.0, 7.9375]
    assert sf.scalbn([1.5, -1.0], [2, 5], q).tolist() == [6.0, -8.0]
    assert sf.minimum(0.1, 0.3, q) == 0.125
    assert sf.negative(-8.0, q) == 7.9375
    assert sf.to_integer(sf.quantize(2.5, q)) == 2


def test_special_operands():
    q, w = sf.FixedPoint(3, 4), sf.FixedPoint(3, 4, overflow="wrap")
    with sf.status() as s:
        assert sf.divide([1.0, -1.0], [0.0, 0.0], q).tolist() == [7.9375, -8.0]
        assert np.isnan(sf.divide(0.0, 0.0, q))
    assert (s.divide_by_zero, s.invalid) == (2, 1)
    with sf.status() as s:
        sf.quantize([100.0, 0.01, 1.0, -100.0], q)
        sf.quantize([100.0, 0.01, 1.0, 8.0], w)
    assert (s.overflow, s.inexact, s.underflow) == (4, 6, 0)
    for x in ([1.0, np.inf], [np.nan, -np.inf]):
        with pytest.raises(ValueError, match="element 1 .*infinite"):
            sf.quantize(x, w)
        with sf.status(), pytest.raises(ValueError, match="element 1 .*infinite"):
            sf.quantize(x, w)
        assert abs(sf.quantize(x, w, saturate=True)[1]) in (7.9375, 8.0)
    large = np.zeros(1 << 18)
    large[1 << 17] = np.inf
    with pytest.raises(ValueError, match=f"element {1 << 17} "):
        sf.quantize(large, w)
    assert np.isnan(sf.quantize(np.nan, w))
    with pytest.raises(ValueError, match="the value .*NaN"):
        sf.encode(np.nan, w)
    with pytest.raises(ValueError, match=r"element \(0, 1\) is NaN, and Q3.4 has no code"):
        sf.encode([[0.0, np.nan]], q)


def test_decode_checks_the_range():
    q = sf.FixedPoint(3, 3)
    assert sf.decode(np.arange(128), q).tolist() == [
        (k - 128 if k > 63 else k) / 8 for k in range(128)
    ]
    with pytest.raises(ValueError, match="0..127"):
        sf.decode([128], q)
    assert q.code_dtype == np.uint8
    assert sf.FixedPoint(8, 8).code_dtype == np.uint32


def test_carriers():
    assert sf.quantize(np.float64(0.1), sf.FixedPoint(3, 4)).dtype == np.float64
    assert sf.quantize(np.float32(0.1), sf.FixedPoint(3, 4)).dtype == np.float32
    assert sf.quantize([1], sf.FixedPoint(12, 12)).dtype == np.float32
    assert sf.quantize(np.float32(0.1), sf.FixedPoint(12, 13)).dtype == np.float64
    x = np.float32(0.1)
    assert sf.quantize(x, sf.FixedPoint(0, 40)) == round(float(x) * 2**40) / 2**40


def test_the_same_bits_on_any_thread_and_layout():
    q = sf.FixedPoint(2, 14)
    x = np.random.default_rng(0).normal(size=300_001).astype(np.float32)
    how = {"rounding": "stochastic", "seed": 9}
    before = sf.get_num_threads()
    try:
        sf.set_num_threads(1)
        one = sf.quantize(x, q, **how)
        sf.set_num_threads(2)
        assert_same_bits(sf.quantize(x, q, **how), one)
    finally:
        sf.set_num_threads(before)
    assert_same_bits(sf.quantize(x[7:], q, offset=7, **how), one[7:])
    reversed_ = sf.quantize(x[::-1], q)
    assert_same_bits(reversed_[::-1], sf.quantize(x, q))


def test_description():
    q = sf.FixedPoint(3, 12, signed=False, overflow="wrap")
    assert repr(q) == "FixedPoint(3, 12, signed=False, overflow='wrap')"
    assert str(sf.FixedPoint(3, 4)).splitlines()[0].split() == ["format", "Q3.4"]
    assert q.label == "UQ3.12 wrap"
    assert (q.bits, q.max, q.min, q.resolution) == (15, 8 - 2**-12, 0.0, 2**-12)
    assert sf.FixedPoint(3, 12, symmetric=True).min == -sf.FixedPoint(3, 12).max
    assert sf.FixedPoint(3, 12) != sf.Format(4, 3)
    assert sf.as_format(q) is q
    with pytest.raises(AttributeError, match="immutable"):
        del q.signed
    with pytest.raises(ValueError, match="1..52"):
        sf.FixedPoint(30, 23)
    with pytest.raises(ValueError, match="0..53"):
        sf.FixedPoint(54, 0)
