"""Comparison, order, minimum, maximum, neighbours, predicates, exponents, rounding to integers."""

import math
from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import (
    FORMATS,
    INTEGER_TYPES,
    NAMED,
    REFERENCE,
    VECTOR_ROUNDING,
    WIDTHS,
    all_codes,
    assert_flags,
    assert_matches_oracle,
    assert_same_bits,
    assert_same_codes,
    entries_of_testfloat,
    manifest,
    numbers,
    package_format,
    rows_of_testfloat,
    some_codes,
    some_values,
    values_of,
    vector_format,
    vectors,
)
from oracle import ROUNDINGS, How

import softfloat as sf

PREDICATES = {
    "eq": (sf.equal, False),
    "eq_signaling": (sf.equal, True),
    "le": (sf.less_equal, True),
    "le_quiet": (sf.less_equal, False),
    "lt": (sf.less, True),
    "lt_quiet": (sf.less, False),
}
SMALL = [f for f in FORMATS if f.bits <= 9 or f == oracle.BINARY16]
STORED = [
    (kind, name)
    for kind in ("odd", "hard")
    for name in manifest(kind)["formats"]
    if name not in ("e15m48", "e7m56")
]
SPECIAL = np.array([np.nan, -np.inf, -2.5, -1.0, -0.0, 0.0, 1.0, 2.5, np.inf])


# --- comparison
@pytest.mark.parametrize(
    ("width", "operation", "mode"), entries_of_testfloat(PREDICATES.__contains__)
)
def test_testfloat_comparisons(width, operation, mode):
    rows = rows_of_testfloat(width, operation, mode)
    function, signaling = PREDICATES[operation.split("_", 1)[1]]
    a, b = (sf.decode(rows[x], WIDTHS[width]) for x in "ab")
    got = function(a, b, signaling=signaling)
    assert got.dtype == bool
    assert (got == (rows["r"] != 0)).all()
    assert_flags(lambda x, y: function(x, y, signaling=signaling), [a, b], rows["fa"], "after")


@pytest.mark.parametrize(("kind", "name"), STORED)
def test_stored_comparisons(kind, name):
    table, rows = manifest(kind), vectors(f"{kind}_{name}")
    chosen = rows["op"] == table["ops"].index("compare")
    if not chosen.any():
        pytest.skip("no such rows in this file")
    fmt = package_format(vector_format(table["formats"][name]))
    a, b = (sf.decode(rows[x][chosen], fmt) for x in "ab")
    order = rows["r"][chosen].astype(int)
    assert (sf.less(a, b) == (order == 0)).all()
    assert (sf.equal(a, b) == (order == 1)).all()
    assert (sf.greater(a, b) == (order == 2)).all()
    assert (sf.less_equal(a, b) == (order <= 1)).all()
    assert (sf.greater_equal(a, b) == ((order == 1) | (order == 2))).all()
    assert (sf.not_equal(a, b) == (order != 1)).all()


def test_quiet_and_signaling_comparisons_differ_in_the_flag_only():
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    unordered = int((np.isnan(a) | np.isnan(b)).sum())
    for function in (sf.equal, sf.not_equal, sf.less, sf.less_equal, sf.greater, sf.greater_equal):
        with sf.status() as quiet:
            first = function(a, b)
        with sf.status() as signaling:
            second = function(a, b, signaling=True)
        assert (first == second).all()
        assert (quiet.invalid, signaling.invalid) == (0, unordered)


def test_comparisons_are_exact_between_integers_and_floats():
    n = np.array([2**53 + 1, 2**63 - 1], np.int64)
    x = n.astype(np.float64)
    assert sf.equal(n, x).tolist() == [False, False]
    assert sf.greater(n, x).tolist() == [True, False]
    assert sf.less(Fraction(1, 3), 1 / 3) == (Fraction(1, 3) < Fraction(1 / 3))
    assert sf.less(np.float32(0.1), 0.1) == (float(np.float32(0.1)) < 0.1)


def test_comparisons_broadcast_and_take_scalars():
    assert sf.less(SPECIAL[:, None], SPECIAL[None]).shape == (9, 9)
    assert isinstance(sf.less(1.0, 2.0), (bool, np.bool_))
    with pytest.raises(ValueError, match="shape"):
        sf.less(np.ones(3), np.ones(4))
    with pytest.raises(TypeError):
        sf.less(1j, 1.0)


def test_total_order_sorts_every_datum():
    below = [0xFFFFFFFF, 0xFFC00000, 0xFF800001, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000]
    above = [0x00000000, 0x00000001, 0x3F800000, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF]
    data = np.array([*below, *above], np.uint32).view(np.float32)
    got = sf.total_order(data[:, None], data[None, :])
    place = np.arange(len(data))
    assert (got == (place[:, None] <= place[None, :])).all()


# --- minimum, maximum
@pytest.mark.parametrize(
    ("function", "choose", "quiet"),
    [
        (sf.minimum, min, False),
        (sf.maximum, max, False),
        (sf.minimum_number, min, True),
        (sf.maximum_number, max, True),
    ],
)
def test_minimum_and_maximum_of_2019(function, choose, quiet):
    def key(v):
        return (v, math.copysign(1, v))

    for a in SPECIAL:
        for b in SPECIAL:
            kept = [v for v in (a, b) if not np.isnan(v)]
            decided = len(kept) == 2 or (quiet and kept)
            expected = choose(kept, key=key) if decided else np.nan
            assert_same_bits(function(a, b), expected, a, b)
    grid = np.meshgrid(SPECIAL, SPECIAL)
    assert function(*grid).shape == (9, 9)


@pytest.mark.parametrize("function", [sf.minimum, sf.maximum, sf.minimum_number, sf.maximum_number])
def test_a_signaling_nan_makes_minimum_and_maximum_invalid(function):
    signaling = np.array([0x7FA00000], np.uint32).view(np.float32)
    for x, count in ((signaling, 1), (np.array([np.nan], np.float32), 0)):
        with sf.status() as s:
            function(x, np.ones(1, np.float32))
        assert s.invalid == count


def test_minimum_rounds_into_a_named_format():
    got = sf.minimum(np.array([1.1, 5.0]), np.array([1.2, 1e9]), sf.binary16)
    assert_same_bits(got, sf.quantize([1.1, 5.0], sf.binary16))


# --- neighbours
def up_table(fmt):
    """(values, their successors) over all finite and infinite values whose successor is defined."""
    codes = oracle.sorted_codes(fmt)
    values = values_of(fmt, np.array(codes, np.uint64))
    after = np.append(values[1:], values[-1])
    both_zeros = fmt.negative_zero
    if both_zeros:  # the successor of -0 is the smallest positive value, as that of +0
        zero = codes.index(fmt.minus)
        after[zero] = after[zero + 1]
    known = np.isinf(values[-1]) or fmt.infinity is not None
    return (values, after) if known else (values[:-1], after[:-1])


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_next_up_and_next_down_step_through_every_value(fmt):
    values, after = up_table(fmt)
    target = package_format(fmt)
    assert_same_bits(sf.next_up(values, target), after, values)
    # nextDown(x) = -nextUp(-x)
    mirrored = -after
    if not fmt.negative_zero:
        mirrored = np.where(mirrored == 0, 0.0, mirrored)
        values = np.where(values == 0, -0.0, values)
    if fmt.signed:
        assert_same_bits(sf.next_down(-values, target), mirrored, values)


@pytest.mark.parametrize("width", ["f16", "f32", "f64"])
def test_nextafter_agrees_with_numpy(width):
    fmt = WIDTHS[width]
    codes = some_codes(REFERENCE[width], 5000), some_codes(REFERENCE[width], 5000, seed=1)
    x, y = (c.view(f"f{c.itemsize}") for c in codes)
    with np.errstate(all="ignore"):
        expected = np.nextafter(x, y)
        plain = np.isfinite(x) & ~np.isnan(y)
        got = sf.nextafter(x, y, fmt)
    assert_same_bits(got[plain], expected[plain], x[plain], y[plain])
    assert np.isnan(got[np.isnan(x) | np.isnan(y)]).all()


def test_nextafter_of_zeros_and_infinities():
    x = np.array([0.0, -0.0, np.inf, -np.inf, 3.0, 1.0, 65504.0, 0.0, -0.0, np.inf])
    y = np.array([-0.0, 0.0, 0.0, 0.0, -1.0, 2.0, np.inf, 1.0, -1.0, np.inf])
    expected = [
        -0.0,
        0.0,
        65504.0,
        -65504.0,
        2.998046875,
        1.0009765625,
        np.inf,
        2.0**-24,
        -(2.0**-24),
    ]
    assert_same_bits(sf.nextafter(x, y, sf.binary16), [*expected, np.inf], x, y)


@pytest.mark.parametrize(
    "fmt", [oracle.Format(5, 10, subnormals="ftz"), NAMED["dlfloat16"]], ids=str
)
def test_the_neighbours_of_zero_without_subnormals(fmt):
    smallest = float(fmt.value(fmt.smallest))
    target = package_format(fmt)
    assert sf.next_up(0.0, target) == smallest
    assert sf.next_down(0.0, target) == -smallest
    assert sf.next_down(smallest, target) == 0.0
    assert_same_bits(sf.next_up(-smallest, target), -0.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_spacing_agrees_with_numpy(dtype):
    fmt = sf.as_format(dtype)
    reference = oracle.Format(fmt.exponent_bits, fmt.mantissa_bits)
    x = some_codes(reference, 5000).view(dtype)
    with np.errstate(all="ignore"):
        x = x[np.isfinite(x)]
        # np.spacing overflows at the largest finite value, where the step below it is meant
        x = x[np.abs(x) < np.finfo(dtype).max]
        # NumPy's float16 takes the smaller neighbour at negative powers of two; float32 does not.
        expected = np.where(x < 0, -np.spacing(np.abs(x)), np.spacing(np.abs(x)))
    assert_same_bits(sf.spacing(x, fmt), expected, x)
    assert np.isnan(sf.spacing(np.array([np.inf, np.nan]), fmt)).all()


# --- predicates
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_class_predicates_on_every_code(fmt):
    target = package_format(fmt)
    codes = all_codes(fmt)
    x = sf.decode(codes, target)
    data = [oracle.from_code(fmt, c) for c in codes]
    tiny = oracle.power_of_two(fmt.emin)
    if fmt.subnormals == "normal":
        tiny = fmt.value(fmt.smallest)
    expected = {
        sf.isnan: [d.is_nan for d in data],
        sf.isinf: [d.is_infinite for d in data],
        sf.isfinite: [d.kind == "finite" for d in data],
        sf.iszero: [d.is_zero for d in data],
    }
    for predicate, truth in expected.items():
        assert predicate(x).tolist() == truth
    normal = [d.kind == "finite" and d.magnitude >= tiny for d in data]
    subnormal = [d.kind == "finite" and 0 < d.magnitude < tiny for d in data]
    assert sf.isnormal(x, target).tolist() == normal
    assert sf.issubnormal(x, target).tolist() == subnormal
    number = np.array([not d.is_nan for d in data])
    signs = [d.negative and (not d.is_zero or fmt.negative_zero) for d in data]
    assert (sf.signbit(x) == signs)[number].all()


def test_predicates_keep_shapes_and_take_scalars():
    assert sf.isnan(np.zeros((3, 4))).shape == (3, 4)
    assert not sf.isinf(1.0)
    assert sf.isnan([np.nan, 1]).tolist() == [True, False]


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_classify_gives_the_names_of_ieee_754(fmt):
    def name(d):
        if d.is_nan:
            return "signalingNaN" if d.signaling else "quietNaN"
        kind = "Infinity" if d.is_infinite else "Zero" if d.is_zero else "Normal"
        if kind == "Normal" and fmt.subnormals is True and d.magnitude < 2 ** Fraction(fmt.emin):
            kind = "Subnormal"
        return ("negative" if d.negative else "positive") + kind

    codes = all_codes(fmt)
    got = sf.classify(sf.decode(codes, package_format(fmt)), package_format(fmt))
    assert got.tolist() == [name(oracle.from_code(fmt, c)) for c in codes]


# --- exponents
@pytest.mark.parametrize(
    "fmt", [NAMED["binary16"], NAMED["binary64"], oracle.Format(6, 9)], ids=str
)
def test_logb_is_the_floor_of_the_logarithm(fmt):
    x = values_of(fmt, some_codes(fmt, 2000))
    finite = np.isfinite(x) & (x != 0)
    got = sf.logb(x)
    expected = [oracle.Positive(n.magnitude).exponent for n in numbers(x[finite])]
    assert (got[finite] == expected).all()
    assert (got[x == 0] == -np.inf).all()
    assert (got[np.isinf(x)] == np.inf).all()
    assert np.isnan(got[np.isnan(x)]).all()
    with sf.status() as s:
        sf.logb(np.array([0.0, -0.0, 1.0]))
    assert s.divide_by_zero == 2


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", [NAMED["binary16"], NAMED["binary64"], NAMED["e4m3fn"]], ids=str)
def test_scalbn_rounds_once(fmt, rounding):
    x = values_of(fmt, some_codes(fmt, 400))
    n = np.random.default_rng(0).integers(-60, 60, len(x))
    if fmt == oracle.BINARY64:
        n *= 40
    expected = [
        oracle.quantize(fmt, v, How(rounding))
        if v.kind != "finite"
        else oracle.deliver(
            fmt,
            oracle.finite(v.signed_value * oracle.power_of_two(int(k)), v.negative),
            How(rounding),
        )
        for v, k in zip(numbers(x), n, strict=True)
    ]
    got = sf.scalbn(x, n, package_format(fmt), rounding=rounding)
    assert_matches_oracle(got, fmt, expected, x, n)


def test_scalbn_takes_any_exponent():
    assert sf.scalbn(1.0, np.arange(-149, 128), sf.binary32).tolist() == [
        2.0**e for e in range(-149, 128)
    ]
    assert sf.scalbn(1.0, 10**9, sf.binary64) == np.inf
    assert sf.scalbn(1.0, -(10**9), sf.binary64) == 0.0
    with pytest.raises(TypeError):
        sf.scalbn(1.0, 1.5, sf.binary64)


# --- round to integral
@pytest.mark.parametrize(
    ("width", "operation", "mode"), entries_of_testfloat(lambda name: name == "roundToInt")
)
def test_testfloat_round_to_integral(width, operation, mode):
    rows = rows_of_testfloat(width, operation, mode)
    x = sf.decode(rows["a"], WIDTHS[width])

    def call(v):
        return sf.round_to_integral(v, WIDTHS[width], rounding=VECTOR_ROUNDING[mode])

    assert_same_codes(call(x), rows["r"], REFERENCE[width], x)
    assert_flags(call, [x], rows["fa"], "after")


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_code_rounds_to_an_integral_value_once(fmt, rounding):
    x = values_of(fmt, all_codes(fmt) if fmt.bits <= 9 else some_codes(fmt, 2000))
    for saturate in (False, True):
        how = How(rounding, saturate)
        expected = [oracle.round_to_integral(fmt, v, how) for v in numbers(x)]
        got = sf.round_to_integral(x, package_format(fmt), rounding=rounding, saturate=saturate)
        assert_matches_oracle(got, fmt, expected, x)


def test_rounding_to_integral_may_overflow():
    with sf.status() as s:
        assert sf.round_to_integral(15.5, sf.float8_e3m4) == np.inf
    assert (s.overflow, s.inexact) == (1, 1)
    assert sf.round_to_integral(15.5, sf.float8_e3m4, rounding="toward_zero") == 15.0
    assert sf.round_to_integral(15.5, sf.float8_e3m4, saturate=True) == 15.5


# --- to integer
@pytest.mark.parametrize(
    ("width", "operation", "mode"),
    entries_of_testfloat(lambda name: name in INTEGER_TYPES),
)
def test_testfloat_to_integer(width, operation, mode):
    rows = rows_of_testfloat(width, operation, mode)
    dtype = INTEGER_TYPES[operation.split("_")[-1]]
    x = sf.decode(rows["a"], WIDTHS[width])

    def call(v):
        return sf.to_integer(v, dtype=dtype, rounding=VECTOR_ROUNDING[mode])

    # What an invalid conversion returns is for the implementation to say.
    valid = (rows["fa"] & 16) == 0
    with sf.status():
        got = call(x)
    assert got.dtype == dtype
    assert (got[valid] == rows["r"].view(dtype)[valid]).all()
    assert_flags(call, [x], rows["fa"], "after")


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int64, np.uint64])
def test_to_integer_is_exact_in_range(dtype, rounding):
    limits = np.iinfo(dtype)
    x = np.concatenate([some_values(NAMED["binary64"], 200), np.arange(-300, 300) / 4])
    x = np.concatenate(
        [x, [float(limits.max) - 0.5, float(limits.max) + 0.5, float(limits.min) - 0.5]]
    )
    x = x[np.isfinite(x)]
    expected = [oracle.to_integer(v, How(rounding))[0] for v in numbers(x)]
    inside = np.array([limits.min <= n <= limits.max for n in expected])
    got = sf.to_integer(x[inside], dtype=dtype, rounding=rounding)
    assert got.dtype == dtype
    assert got.tolist() == [n for n, i in zip(expected, inside, strict=True) if i]
    ends = [min(max(n, limits.min), limits.max) for n in expected]
    assert sf.to_integer(x, dtype=dtype, rounding=rounding, saturate=True).tolist() == ends
    with sf.status() as s:
        sf.to_integer(x, dtype=dtype, rounding=rounding)
    assert s.invalid == (~inside).sum()


@pytest.mark.parametrize("bad", [1e30, -1e30, np.inf, np.nan])
def test_to_integer_out_of_range_names_the_element_unless_told_to_saturate(bad):
    x = np.array([1.5, 2.0, bad])
    with pytest.raises(ValueError, match=r"element 2 .*saturate=True"):
        sf.to_integer(x, dtype=np.int32)
    limits = np.iinfo(np.int32)
    end = 0 if np.isnan(bad) else limits.max if bad > 0 else limits.min
    assert sf.to_integer(x, dtype=np.int32, saturate=True).tolist() == [2, 2, end]


def test_to_integer_wants_an_integer_dtype():
    with pytest.raises(TypeError, match="dtype"):
        sf.to_integer(np.ones(2), dtype=np.float32)


@pytest.mark.parametrize("rounding", ["stochastic", "stochastic_equal"])
def test_stochastic_rounding_to_integers_stays_between_the_neighbours(rounding):
    x = np.random.default_rng(0).uniform(-100, 100, 20_000)
    for got in (
        sf.to_integer(x, rounding=rounding, seed=1),
        sf.round_to_integral(x, sf.binary64, rounding=rounding, seed=1),
    ):
        assert ((got == np.floor(x)) | (got == np.ceil(x))).all()
        assert 0.4 < np.mean(np.abs(got) > np.abs(x)) < 0.6
    whole = np.arange(-1000.0, 1000.0)
    assert (sf.to_integer(whole, rounding=rounding, seed=1) == whole).all()
