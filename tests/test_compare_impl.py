"""Comparison inside: both kinds of operands, both paths, and neighbours that are no values."""

import math
from bisect import bisect_left, bisect_right
from decimal import Decimal
from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import FORMATS, NAMED, assert_same_bits, package_format, some_values
from numba import njit

import softfloat as sf
from softfloat.backends.compare import (
    class_loop,
    compare_loop,
    exponent_loop,
    integer_loop,
    select_loop,
    spacing_loop,
    step_loop,
    total_order_loop,
)
from softfloat.bits import leave_standard_arithmetic
from softfloat.comparison import _integer_limits
from softfloat.ops.compare import floor_code

RELATIONS = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
SELECTIONS = [
    f"{end}{kind}"
    for end in ("minimum", "maximum")
    for kind in ("", "_number", "_magnitude", "_magnitude_number")
]
UNUSUAL = 0x1F80 | 0x8040  # MXCSR: flush to zero, denormals are zero
USUAL = 0x1F80


@njit
def set_control_word(word):
    leave_standard_arithmetic(word)


@pytest.fixture
def flushed():
    """The processor flushes subnormals, as some libraries leave it."""
    set_control_word(UNUSUAL)
    yield
    set_control_word(USUAL)


def bits_of(x):
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


def floats(dtype, n, seed):
    """Random bits, with equal and close pairs, zeros, subnormals, infinities and all kinds of NaN among them."""
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}").type
    info = np.iinfo(unsigned)
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, info.max, n, dtype=unsigned, endpoint=True)
    sign = unsigned(1 << (info.bits - 1))
    infinity = bits_of(np.array([np.inf], dtype)).view(unsigned)[0]
    special = np.array(
        [0, 1, 2, infinity - 1, infinity, infinity + 1, infinity + 2, sign - 1, sign - 2]
        + [(infinity + sign) // 2 + 1, (infinity >> 1) + 1],
        unsigned,
    )
    special = np.concatenate([special, special | sign])
    few = rng.random(n) < 0.5
    raw = np.where(few, rng.choice(special, n), raw)
    return raw.view(dtype)


def columns(x):
    """The parts of floats, as the loops take numbers that no float64 holds."""
    rows = []
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = x.astype(np.float64)
    for v in wide.tolist():
        if v != v:
            rows.append((3, 0, 0, 0, 0))
        elif math.isinf(v):
            rows.append((2, v < 0, 0, 0, 0))
        elif v == 0:
            rows.append((0, math.copysign(1, v) < 0, 0, 0, 0))
        else:
            significand, exponent = math.frexp(abs(v))
            # Anywhere in the two words: the loops normalise.
            rows.append((1, v < 0, exponent - 1 + 5, int(significand * 2**57), 0))
    return np.array(rows, np.int64).T.copy()


# --- comparison
@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("types", [("f4", "f4"), ("f8", "f8"), ("f4", "f8"), ("f8", "f4")], ids=str)
def test_the_fast_comparison_is_the_definition(name, types):
    a, b = (floats(t, 3000, seed) for seed, t in enumerate(types))
    with np.errstate(all="ignore"):
        expected = RELATIONS[name](a.astype(np.float64), b.astype(np.float64))
    assert (getattr(sf, name)(a, b) == expected).all()
    out, counts = np.empty(a.size, bool), np.zeros(6, np.int64)
    run = compare_loop(list(RELATIONS).index(name))
    mantissas = [23 if t == "f4" else 52 for t in types]
    run(bits_of(a), mantissas[0], bits_of(b), mantissas[1], out, False, counts)
    assert (out == expected).all()
    run(columns(a), 52, bits_of(b), mantissas[1], out, False, counts)
    assert (out == expected).all()
    run(columns(a), 52, columns(b), 52, out, False, counts)
    assert (out == expected).all()


@pytest.mark.parametrize("name", RELATIONS)
def test_numbers_that_no_float64_holds_compare_exactly(name):
    numbers = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 10**30, -(10**30)]
    numbers += [Fraction(1, 3), -Fraction(1, 3), Decimal("0.1"), Decimal("1e-400")]
    numbers += [0.1, 0.0, float(Fraction(1, 3)), 5e-324, 1e300, 2.0**53, 2.0**64, -(2.0**63)]
    exact = [Fraction(n) for n in numbers]
    a = np.array(numbers, object)
    got = getattr(sf, name)(a[:, None], a[None, :])
    assert got.tolist() == [[RELATIONS[name](x, y) for y in exact] for x in exact]
    for x, p in zip(numbers[:11], exact[:11], strict=True):
        assert getattr(sf, name)(x, 0.1) == RELATIONS[name](p, Fraction(0.1))
        assert getattr(sf, name)(str(x), 0.1) == RELATIONS[name](p, Fraction(0.1))


def test_longdouble_operands_compare_exactly():
    x = np.longdouble(1) + np.finfo(np.longdouble).eps
    if np.finfo(np.longdouble).eps == np.finfo(np.float64).eps:
        pytest.skip("longdouble is float64 here")
    assert sf.greater(x, 1.0)
    assert not sf.equal(np.array([x]), np.array([1.0]))[0]
    assert sf.less(x, np.nextafter(1.0, 2.0))


def test_flags_are_counted_in_every_thread():
    n = 1 << 19
    x = np.zeros(n, np.float32)
    x[::4] = np.nan
    x.view(np.uint32)[1::8] = 0x7FA00000
    for threads in (1, 2):
        before = sf.get_num_threads()
        sf.set_num_threads(threads)
        try:
            with sf.status() as quiet:
                sf.less(x, 1.0)
            with sf.status() as signaling:
                sf.less(x, 1.0, signaling=True)
        finally:
            sf.set_num_threads(before)
        assert quiet.invalid == n // 8
        assert signaling.invalid == n // 4 + n // 8


def test_subnormal_numbers_are_not_zero_where_the_processor_flushes_them(flushed):
    tiny = np.array([1, 2, 0x80000001, 0], np.uint32).view(np.float32)
    zero = np.zeros(4, np.float32)
    assert sf.equal(tiny, zero).tolist() == [False, False, False, True]
    assert sf.less(tiny, zero).tolist() == [False, False, True, False]
    assert sf.equal(tiny, tiny.astype(np.float32)[::-1]).tolist() == [False] * 4
    assert sf.iszero(tiny).tolist() == [False, False, False, True]
    assert sf.minimum(tiny, zero).view(np.uint32).tolist() == [0, 0, 0x80000001, 0]
    assert sf.negative(tiny).view(np.uint32).tolist() == [0x80000001, 0x80000002, 1, 1 << 31]
    assert sf.next_up(tiny, "binary32").view(np.uint32).tolist() == [2, 3, 1 << 31, 1]
    assert sf.to_integer(tiny, rounding="toward_positive").tolist() == [1, 1, 0, 0]
    q = sf.FixedPoint(3, 4)
    assert sf.quantize(tiny, q, rounding="toward_positive").tolist() == [0.0625, 0.0625, 0.0, 0.0]


@pytest.mark.parametrize("n", [2, 1000, 100_000])
def test_single_numbers_meet_arrays(n):
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    for one in (0.1, np.float32(0.25), np.array([0.5])):
        assert (sf.less(x, one) == np.less(x.astype(np.float64), one)).all()
        assert (sf.greater(one, x) == np.less(x.astype(np.float64), one)).all()
        assert_same_bits(sf.maximum(x, one), np.maximum(x.astype(np.float64), one))
    assert sf.less(x[::2], 0.5).shape == x[::2].shape
    assert sf.less(x, x[:1]).sum() == (x < x[0]).sum()
    y = x.copy()
    assert_same_bits(sf.minimum(y, y[n // 2 :][:1], out=y), np.minimum(x, x[n // 2]))


# --- total order
@pytest.mark.parametrize("types", [("f4", "f4"), ("f8", "f8"), ("f4", "f8")], ids=str)
def test_total_order_is_the_order_of_sign_and_magnitude_bits(types):
    a, b = (floats(t, 3000, 3 + seed) for seed, t in enumerate(types))

    def key(x):
        raw = x.view(np.uint32).astype(np.uint64) if x.dtype == np.float32 else x.view(np.uint64)
        if x.dtype == np.float32:  # widen by hand: NaN payloads from the top
            nan = np.isnan(x)
            sign = (raw >> np.uint64(31)) << np.uint64(63)
            payload = (raw & np.uint64(0x7FFFFF)) << np.uint64(29)
            with np.errstate(all="ignore"):
                number = np.where(nan, 0, x).astype(np.float64).view(np.uint64)
            raw = np.where(nan, sign | np.uint64(0x7FF << 52) | payload, number)
        flip = np.where(raw >> np.uint64(63), np.uint64(2**64 - 1), np.uint64(1 << 63))
        return raw ^ flip

    assert (sf.total_order(a, b) == (key(a) <= key(b))).all()
    magnitude = sf.total_order(sf.absolute(a), sf.absolute(b))
    assert (sf.total_order_magnitude(a, b) == magnitude).all()
    numbers = ~np.isnan(a)
    out = np.empty(a.size, bool)
    total_order_loop(False)(columns(a), 52, bits_of(b), 23 if types[1] == "f4" else 52, out)
    assert (out == sf.total_order(a, b))[numbers].all()


def test_total_order_of_large_integers():
    assert sf.total_order(2**60 + 1, float(2**60)).tolist() is False
    assert sf.total_order([2**60 + 1, 2**60], [np.nan, -np.nan]).tolist() == [True, False]
    assert not sf.total_order(2**60 + 1, -np.float64(np.nan))


# --- minimum, maximum
@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("types", [("f4", "f4"), ("f8", "f8"), ("f4", "f8")], ids=str)
def test_the_fast_selection_is_the_definition(name, types):
    a, b = (floats(t, 3000, 5 + seed) for seed, t in enumerate(types))
    got = getattr(sf, name)(a, b)
    assert got.dtype == (np.float32 if types == ("f4", "f4") else np.float64)
    with sf.status() as s:
        defined = getattr(sf, name)(a, b)
    assert_same_bits(got, defined)
    signaling = [
        np.isnan(x) & ((x.view(f"u{x.itemsize}") >> (22 if x.itemsize == 4 else 51)) & 1 == 0)
        for x in (a, b)
    ]
    assert s.invalid == (signaling[0] | signaling[1]).sum()
    assert s.inexact == 0
    places = np.empty(a.size, np.uint8)
    kind = name.startswith("maximum"), "_magnitude" in name, name.endswith("_number")
    run = select_loop(*kind, True)
    run(columns(a), 52, columns(b), 52, places, 0, np.zeros(6, np.int64))
    with np.errstate(invalid="ignore"):
        chosen = np.choose(places, [a.astype(np.float64), b.astype(np.float64), np.nan])
    assert_same_bits(got, chosen)


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection_by_the_words_of_the_standard(name):
    values = [math.nan, -math.inf, -2.0, -1.5, -0.0, 0.0, 1.5, 2.0, math.inf]
    end = min if name.startswith("minimum") else max
    by_size = "_magnitude" in name

    def key(v):
        return (abs(v) if by_size else 0, v, math.copysign(1, v))

    for a in values:
        for b in values:
            numbers = [v for v in (a, b) if v == v]
            if len(numbers) == 2 or (name.endswith("_number") and numbers):
                expected = end(numbers, key=key)
            else:
                expected = math.nan
            assert_same_bits(getattr(sf, name)(a, b), expected, a, b)
            assert_same_bits(getattr(sf, name)(np.float32(a), b), expected, a, b)


def test_selection_is_exact_and_rounds_once():
    third = Fraction(1, 3)
    assert sf.maximum(third, float(third), "binary64") == float(third)
    below = Fraction(2**60 + 1)
    got = sf.minimum([below, below], [2.0**61, math.nan], "binary64", rounding="toward_positive")
    assert_same_bits(got, [2.0**60 + 256, math.nan])
    with pytest.raises(TypeError, match="fmt|format"):
        sf.minimum(2**60 + 1, 1.0)
    with pytest.raises(TypeError, match="rounding"):
        sf.minimum(1.0, 2.0, rounding="toward_zero")


def test_python_numbers_do_not_widen_a_selection():
    x = np.array([-1.5, 0.25, np.nan], np.float32)
    assert sf.maximum(x, 0).dtype == np.float32
    assert sf.maximum(x, 0.5).dtype == np.float32
    assert sf.maximum(x, 0.1).dtype == np.float64
    assert sf.maximum(x, np.float64(0.5)).dtype == np.float64
    out = np.empty(3, np.float32)
    assert sf.maximum(x, 0.0, out=out) is out
    assert_same_bits(out, [0.0, 0.25, np.nan])
    assert sf.minimum(x, 0.0, out=x) is x
    assert_same_bits(x, [-1.5, 0.0, np.nan])


# --- neighbours
NEIGHBOUR_FORMATS = [f for f in FORMATS if f.bits <= 16] + [
    NAMED["e8m0fnu"],
    oracle.Format(4, 3, signed=False),
    oracle.Format(3, 2, specials="finite", signed=False),
    oracle.p3109(8, 3, signed=False),
    oracle.Format(4, 3, subnormals="grid", specials="fn"),
]


def grid(fmt):
    """The finite values of a format in order, exactly."""
    codes = [c for c in oracle.sorted_codes(fmt) if oracle.from_code(fmt, c).kind == "finite"]
    return sorted({oracle.from_code(fmt, c).signed_value for c in codes})


@pytest.mark.parametrize("fmt", NEIGHBOUR_FORMATS, ids=str)
def test_neighbours_of_any_number(fmt):
    target, values = package_format(fmt), grid(fmt)
    rng = np.random.default_rng(0)
    x = np.concatenate([some_values(fmt, 400, seed=1), rng.normal(size=50), [1e300, -1e300]])
    x = x[np.isfinite(x)]
    end = math.inf if fmt.infinity is not None else None
    for function, upward in ((sf.next_up, True), (sf.next_down, False)):
        got = function(x, target)
        for v, g in zip(x.tolist(), got.tolist(), strict=True):
            v = Fraction(v)
            place = bisect_right(values, v) if upward else bisect_left(values, v) - 1
            if 0 <= place < len(values):
                expected = float(values[place])
            elif upward:
                expected = float(values[-1]) if end is None else end
            else:
                signed_end = float(values[0]) if end is None or not fmt.signed else -end
                expected = signed_end
            assert g == expected, (float(v), g, expected)


def test_neighbours_of_numbers_that_no_float64_holds():
    third = Fraction(1, 3)
    up, down = sf.next_up(third, "binary64"), sf.next_down(third, "binary64")
    assert Fraction(float(down)) < third < Fraction(float(up))
    assert np.nextafter(down, up) == up
    n = 2**60 + 1
    assert sf.next_down(n, "binary64") == 2.0**60
    assert sf.next_up(n, "binary64") == 2.0**60 + 256
    assert sf.nextafter(n, 2.0**60, "binary64") == 2.0**60
    assert sf.nextafter(n, n + 1, "binary64") == 2.0**60 + 256
    assert sf.nextafter(n, n, "binary64") == 2.0**60
    assert sf.next_up(n, "bfloat16") == 2.0**60 + 2.0**53


def test_the_ends_of_the_line():
    assert sf.next_up(448.0, "float8_e4m3fn") == 448.0
    assert sf.next_up(1e9, "float8_e4m3fn") == 448.0
    assert sf.next_down(1e9, "float8_e4m3fn") == 448.0
    assert sf.next_down(np.inf, "float8_e4m3fn") == 448.0
    assert sf.next_up(-np.inf, "binary16") == -65504.0
    assert sf.next_down(-np.inf, "binary16") == -np.inf
    assert sf.next_down(0.0, sf.Format(4, 3, signed=False)) == 0.0
    assert sf.next_up(-5.0, sf.Format(4, 3, signed=False)) == 0.0
    scale = sf.float8_e8m0fnu
    assert sf.next_up(0.0, scale) == 2.0**-127
    assert sf.next_down(2.0**-127, scale) == 2.0**-127
    assert sf.next_up(3.0, scale) == 4.0
    assert sf.next_down(3.0, scale) == 2.0


def test_neighbours_in_fixed_point():
    q = sf.FixedPoint(3, 4)
    x = np.array([-9.0, -8.0, -0.0, 0.0, 0.03, 7.9375, 8.0])
    assert sf.next_up(x, q).tolist() == [-8.0, -7.9375, 0.0625, 0.0625, 0.0625, 7.9375, 7.9375]
    assert sf.next_down(x, q).tolist() == [-8.0, -8.0, -0.0625, -0.0625, 0.0, 7.875, 7.9375]
    assert sf.spacing(x, q).tolist() == [-0.0625, -0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.0625]


def test_only_signaling_nans_make_a_neighbour_invalid():
    x = np.array([0x7FA00000, 0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    for call in (sf.next_up, sf.next_down, lambda v, f: sf.nextafter(1.0, v, f), sf.spacing):
        with sf.status() as s:
            got = call(x, "binary16")
        assert s.invalid == 1
        assert np.isnan(got).tolist() == [True, True, False]


@pytest.mark.parametrize("fmt", NEIGHBOUR_FORMATS, ids=str)
def test_spacing_is_the_gap_above(fmt):
    target, values = package_format(fmt), grid(fmt)
    magnitudes = [v for v in values if v >= 0]
    gaps = [b - a for a, b in zip(magnitudes, magnitudes[1:], strict=False)]
    for low, high, gap in list(zip(magnitudes, magnitudes[1:], gaps, strict=False))[:600]:
        inside = float(low + (high - low) / 3)
        assert Fraction(float(sf.spacing(float(low), target))) == gap
        assert Fraction(float(sf.spacing(inside, target))) == gap
        if low and fmt.signed:
            assert Fraction(float(sf.spacing(-float(low), target))) == -gap
    last = Fraction(float(sf.spacing(float(magnitudes[-1]), target)))
    if fmt.mantissa_bits:
        assert last == gaps[-1]
    assert Fraction(float(sf.spacing(1e300, target))) == last


# --- signs
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signs_change_nothing_but_the_sign_bit(dtype):
    x, y = floats(dtype, 2000, 8), floats(dtype, 2000, 9)
    unsigned = np.dtype(f"u{x.itemsize}")
    sign = bits_of(np.array([-0.0], dtype)).view(unsigned)[0]
    raw = x.view(unsigned)
    with sf.status() as s:
        assert (sf.negative(x).view(unsigned) == raw ^ sign).all()
        assert (sf.absolute(x).view(unsigned) == raw & ~sign).all()
        assert (sf.copysign(x, y).view(unsigned) == (raw & ~sign) | (y.view(unsigned) & sign)).all()
        assert (sf.signbit(x) == (raw & sign != 0)).all()
    assert s.invalid == 0
    before = raw.copy()
    z = sf.negative(x[::-2])
    assert (z.view(unsigned) == (before ^ sign)[::-2]).all()
    assert (raw == before).all()
    assert sf.negative(x, out=x) is x
    assert (raw == before ^ sign).all()


def test_signs_of_exact_numbers_and_formats():
    assert sf.negative(2**60 + 1, "binary64", rounding="toward_negative") == -(2.0**60) - 256
    assert sf.absolute(-(2**60) - 1, "binary64", rounding="toward_zero") == 2.0**60
    assert sf.copysign([Fraction(1, 3)], [-0.0], "binary64")[0] == -1 / 3
    with pytest.raises(TypeError, match="fmt"):
        sf.negative(2**60 + 1)
    assert_same_bits(sf.negative(0.0, "float8_e4m3fnuz"), 0.0)
    assert_same_bits(sf.negative(0.0, "float8_e4m3fn"), -0.0)
    assert sf.negative(1.1, "bfloat16") == sf.quantize(-1.1, "bfloat16")
    assert sf.negative(np.float32(1.1), "bfloat16").dtype == np.float32
    with pytest.raises(ValueError, match="negative"):
        sf.negative(1.0, sf.Format(3, 2, specials="finite", signed=False))


# --- classes
def test_predicates_of_exact_numbers():
    x = np.array([2**70, -(2**70), 0, float("nan"), float("inf")], object)
    assert sf.isnan(x).tolist() == [False, False, False, True, False]
    assert sf.isinf(x).tolist() == [False, False, False, False, True]
    assert sf.isfinite(x).tolist() == [True, True, True, False, False]
    assert sf.signbit(x).tolist() == [False, True, False, False, False]
    assert sf.iszero(x).tolist() == [False, False, True, False, False]
    assert sf.isfinite(2**70)
    assert sf.classify(2**70, "binary64") == "positiveNormal"


def test_class_names():
    x = np.array(
        [0x7FA00000, 0x7FC00000, 0xFF800000, 0xBF800000, 0xB3800000, 0x80000000]
        + [0x00000000, 0x33800000, 0x3F800000, 0x7F800000],
        np.uint32,
    ).view(np.float32)
    names = sf.classify(x, "binary16")
    assert names.tolist() == [
        "signalingNaN", "quietNaN", "negativeInfinity", "negativeNormal", "negativeSubnormal",
        "negativeZero", "positiveZero", "positiveSubnormal", "positiveNormal", "positiveInfinity",
    ]  # fmt: skip
    assert sf.classify(1.0, "binary16") == "positiveNormal"
    with pytest.raises(TypeError, match="fixed point"):
        sf.isnormal(1.0, sf.FixedPoint(3, 4))


# --- exponents
def test_logb_of_every_kind():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -8.5, 5e-324, 2.0**1000])
    with sf.status() as s:
        got = sf.logb(x)
    assert_same_bits(got, [-np.inf, -np.inf, np.inf, np.inf, np.nan, 0, 3, -1074, 1000], x)
    assert (s.divide_by_zero, s.invalid) == (2, 0)
    assert sf.logb(np.float32(1e-40)) == -133
    assert sf.logb(np.ones(2, np.float32)).dtype == np.float32
    assert sf.logb(10**40) == 132
    assert sf.logb(Fraction(1, 3)) == -2


def test_scalbn_of_exact_numbers_and_large_powers():
    third = Fraction(1, 3)
    assert sf.scalbn(third, 10, "binary16") == sf.quantize(third * 1024, "binary16")
    assert sf.scalbn(2**60 + 1, -60, "binary64", rounding="toward_positive") == 1 + 2.0**-52
    assert sf.scalbn(1.0, 10**30, "binary32") == np.inf
    assert sf.scalbn(1.0, -(10**30), "binary32", rounding="toward_positive") == 2.0**-149
    assert sf.scalbn(1.0, np.uint64(2**64 - 1), "binary32") == np.inf
    assert sf.scalbn([1.0, 2.0], [[1], [2]], "binary32").tolist() == [[2.0, 4.0], [4.0, 8.0]]


# --- integers
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


def rounded(exact, rounding):
    return oracle.to_integer(oracle.finite(exact), oracle.How(rounding))[0]


@pytest.mark.parametrize("rounding", oracle.ROUNDINGS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_exact_numbers_become_integers_at_the_ends(dtype, rounding):
    info = np.iinfo(dtype)
    ends = [Fraction(int(e)) for e in (info.min, info.max, 0)]
    offsets = [Fraction(k, 4) for k in range(-6, 7)] + [Fraction(1, 3), -Fraction(1, 3)]
    offsets += [Fraction(1, 2) + Fraction(1, 10**9), Fraction(1, 2) - Fraction(1, 10**9)]
    numbers = [e + o for e in ends for o in offsets]
    expected = [rounded(n, rounding) for n in numbers]
    inside = [info.min <= n <= info.max for n in expected]
    clamped = [min(max(n, info.min), info.max) for n in expected]
    x = np.array(numbers, object)
    with sf.status() as s:
        assert sf.to_integer(x, dtype, rounding=rounding).tolist() == clamped
    assert s.invalid == inside.count(False)
    inexact = [i and n.denominator != 1 for n, i in zip(numbers, inside, strict=True)]
    assert s.inexact == inexact.count(True)
    assert sf.to_integer(x, dtype, rounding=rounding, saturate=True).tolist() == clamped
    # The same through floats, where they hold the number.
    held = [i for i, n in enumerate(numbers) if Fraction(float(n)) == n]
    y = np.array([float(numbers[i]) for i in held])
    got = sf.to_integer(y, dtype, rounding=rounding, saturate=True)
    assert got.tolist() == [clamped[i] for i in held]


def test_elements_outside_the_range_are_named():
    x = np.array([[1.0, 2.0], [300.0, np.nan]])
    with pytest.raises(ValueError, match=r"element \(1, 0\) \(300.0\).*0..255 of uint8"):
        sf.to_integer(x, np.uint8)
    with pytest.raises(ValueError, match="saturate=True"):
        sf.to_integer(np.nan)
    assert sf.to_integer(x, np.uint8, saturate=True).tolist() == [[1, 2], [255, 0]]
    with sf.status() as s:
        assert sf.to_integer([np.inf, -np.inf], np.int8).tolist() == [127, -128]
    assert s.invalid == 2
    with pytest.raises(TypeError, match="dtype"):
        sf.to_integer(1.0, np.float64)
    out = np.empty(2, np.int16)
    assert sf.to_integer([1.5, 2.5], np.int16, out=out) is out
    assert out.tolist() == [2, 2]
    with pytest.raises(TypeError, match="int16"):
        sf.to_integer([1.5], np.int16, out=np.empty(1, np.int32))


@pytest.mark.parametrize("variant", "ABC")
def test_stochastic_integers_use_the_given_words(variant):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=500) * 100, np.arange(-8, 8) / 256, [2.0**62 + 2.0**10]])
    words = rng.integers(0, 256, x.size)
    how = {"rounding": "stochastic", "random_bits": 8, "variant": variant}
    expected = [
        oracle.to_integer(
            oracle.from_float(v), oracle.How("stochastic", False, int(w), 8, variant)
        )[0]
        for v, w in zip(x.tolist(), words, strict=True)
    ]
    assert sf.to_integer(x, random=words, **how).tolist() == expected
    whole = sf.to_integer(x, rounding="stochastic", seed=4)
    part = sf.to_integer(x[100:], rounding="stochastic", seed=4, offset=100)
    assert (whole[100:] == part).all()


# --- plain Python
@pytest.mark.parametrize("columned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_definitions_run_in_plain_python(dtype, columned):
    x, y = floats(dtype, 120, 20), floats(dtype, 120, 21)
    m = 23 if dtype == np.float32 else 52
    a, b = (columns(v) if columned else bits_of(v) for v in (x, y))
    formats = ["binary16", "float8_e4m3fnuz", "dlfloat16", "float8_e8m0fnu", sf.FixedPoint(3, 4)]
    choice = np.array([0, 0, 24, 0, 0], np.int64)
    limits, ends = _integer_limits(np.dtype(np.uint64), True)
    words, key = np.zeros(0, np.int64), np.uint64(0)
    calls = [
        (compare_loop(3), (a, m, b, m), bool, (True,)),
        (total_order_loop(False), (a, m, b, m), bool, ()),
        (select_loop(True, True, False, False), (a, m, b, m), np.int64, (52,)),
        (exponent_loop(), (a, m), np.int64, (52,)),
        (integer_loop(), (a, m), np.int64, (limits, ends, choice, key, words)),
    ]
    for fmt in map(sf.as_format, formats):
        F = fmt.parameters
        calls += [(step_loop(2), (a, m, b, m), np.int64, (52, F))]
        calls += [(spacing_loop(), (a, m), np.int64, (52, F))]
        calls += [(class_loop(), (a, m), np.uint8, (F,))]
    for loop, operands, kind, rest in calls:
        counted = loop not in (calls[1][0], class_loop())
        results = []
        for run in (loop, loop.py_func):
            if run is loop:  # compiled code takes the record of a format as an array
                mine = [np.array(r) if isinstance(r, tuple) else r for r in rest]
            else:
                mine = rest
            out, counts = np.empty(x.size, kind), np.zeros(6, np.int64)
            run(*operands, out, *mine, *([counts] if counted else []))
            results.append((out.tolist(), counts.tolist()))
        assert results[0] == results[1]


def test_zero_takes_the_place_of_the_smallest_power_in_dlfloat():
    F = sf.dlfloat16.parameters
    assert floor_code(1, sf.dlfloat16.emin, 1 << 61, 0, F) == (0, False)
    assert floor_code(1, sf.dlfloat16.emin, (1 << 61) + (1 << 52), 0, F) == (1, True)
    assert sf.next_up(2.0**sf.dlfloat16.emin, sf.dlfloat16) == sf.dlfloat16.smallest_normal
