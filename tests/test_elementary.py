"""Elementary functions against MPFR: the real result, rounded once, in every mode."""

import functools
import math
from fractions import Fraction

import elementary_reference as mpfr
import gmpy2
import numpy as np
import oracle
import pytest
from helpers import (
    NAMED,
    all_codes,
    assert_matches_oracle,
    assert_same_bits,
    package_format,
    some_codes,
    values_of,
)

import softfloat as sf
from softfloat._jit import jit
from softfloat.backends.elementary import (
    COLUMNS,
    PAIRS,
    bounds_loop,
    evaluation_loop,
    pair_bounds_loop,
)
from softfloat.codec import unpack
from softfloat.ops.elementary import tables
from softfloat.ops.elementary.binary import BINARY
from softfloat.ops.elementary.exact import _bits, exact_result
from softfloat.ops.elementary.functions import UNARY
from softfloat.ops.elementary.multiprecision import leading_parts
from softfloat.ops.elementary.quick import BINARY_QUICK, UNARY_QUICK
from softfloat.ops.elementary.results import DECIDED
from softfloat.rounding import EVEN, FINITE_CLASS, NEGATIVE, ODD, POSITIVE, ZERO

FUNCTIONS = [*mpfr.UNARY, *mpfr.BINARY]
NARROW = {name: NAMED[name] for name in ("e5m2", "e4m3", "e4m3fn", "e4m3fnuz")}
MIDDLE = {"binary16": NAMED["binary16"], "bfloat16": NAMED["bfloat16"], "e6m9": oracle.Format(6, 9)}
WIDE = {"binary32": NAMED["binary32"], "binary64": NAMED["binary64"]}
MODES = [
    *({"rounding": mode} for mode in oracle.ROUNDINGS),
    {"rounding": "stochastic", "seed": 5},
    {"rounding": "stochastic", "seed": 6, "variant": "B", "random_bits": 5},
    {"rounding": "stochastic", "seed": 7, "variant": "C", "random_bits": 32},
    {"rounding": "stochastic_equal", "seed": 8},
]
HARD = [  # near midpoints of binary64, or near multiples of pi/2, for one function or another
    *(float.fromhex(x) for x in ("0x1.9E9CBBFD6080Bp-31", "0x1.62A88613629B5p+678")),
    *(float.fromhex(x) for x in ("0x1.E0000000001C2p-20", "0x1.8000000000009p-23")),
    *(float.fromhex(x) for x in ("0x1.DFFFFFFFFFF1Fp-22", "0x1.921FB54442D18p+0")),
    *(6381956970095103 * 2.0**797, 2.0**1023, 1e22, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 0.5, 0.25),
    *(2.0**-1074, 2.0**-1022, 2.0**-540, 2.0**-93, 2.0**-60, 2.0**-47, 2.0**-46, 2.0**-26),
    *(709.78, 745.13, -745.14, 3.0, 8.0, 27.0, 10.0, 100.0, 1e15, 1.5, 2.5, 1e300, 88.7, -103.9),
]


@functools.lru_cache(maxsize=4)
def references(name, operands):
    """MPFR's results at tuples of floats, as an object array, and the counts of invalid and divide_by_zero."""
    found = [mpfr.reference(name, *row) for row in zip(*operands, strict=True)]
    results = np.empty(len(found), object)
    results[:] = [result for result, _, _ in found]
    return results, sum(bool(i) for _, i, _ in found), sum(bool(p) for _, _, p in found)


def check(name, operands, fmt, modes):
    """A function at operand arrays in all these modes, bit for bit, by the definition (flags counted) and without."""
    results, invalid, poles = references(name, tuple(tuple(map(float, x)) for x in operands))
    for options in modes:
        with sf.status() as status:
            got = getattr(sf, name)(*operands, fmt, **options)
        assert_same_bits(getattr(sf, name)(*operands, fmt, **options), got, *operands)
        with sf.status() as plain:
            expected = sf.quantize(results, fmt, out=np.empty(got.shape, got.dtype), **options)
        assert_same_bits(got, expected, *operands)
        assert (status.invalid, status.divide_by_zero) == (invalid, poles)
        for flag in ("inexact", "underflow", "overflow"):
            assert getattr(status, flag) == getattr(plain, flag), flag


def sample(fmt, n, seed):
    with np.errstate(invalid="ignore"):
        return values_of(fmt, some_codes(fmt, n, seed=seed)).astype(np.float64)


def operands_for(name, fmt, n, seed=1):
    """Values of every kind, half of them of magnitudes where the functions do something."""
    arity = 1 if name in mpfr.UNARY else 2
    rng = np.random.default_rng(seed)
    arrays = []
    for i in range(arity):
        drawn = sample(fmt, n, seed + i)
        usual = rng.standard_normal(n) * 2.0 ** rng.integers(-8, 6, n)
        mixed = np.where(rng.random(n) < 0.5, drawn, usual)
        arrays.append(np.asarray(sf.quantize(mixed, package_format(fmt)), np.float64))
    return arrays


@pytest.mark.parametrize("name", mpfr.UNARY)
def test_every_8_bit_operand_is_rounded_correctly_in_every_mode(name):
    for fmt in NARROW.values():
        check(name, [values_of(fmt, all_codes(fmt))], package_format(fmt), MODES)


@pytest.mark.parametrize("name", mpfr.BINARY)
def test_pairs_of_8_bit_operands_are_rounded_correctly(name):
    for fmt in (NARROW["e5m2"], NARROW["e4m3fn"]):
        x = values_of(fmt, all_codes(fmt))
        keep = np.random.default_rng(3).permutation(x.size**2)[:1500]
        check(
            name, [np.repeat(x, x.size)[keep], np.tile(x, x.size)[keep]], package_format(fmt), MODES
        )


@pytest.mark.sweep
@pytest.mark.parametrize("fmt", NARROW)
@pytest.mark.parametrize("name", mpfr.BINARY)
def test_all_pairs_of_8_bit_operands_are_rounded_correctly(name, fmt):
    x = values_of(NARROW[fmt], all_codes(NARROW[fmt]))
    operands = [np.repeat(x, x.size), np.tile(x, x.size)]
    check(name, operands, package_format(NARROW[fmt]), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_16_bit_operands_are_rounded_correctly(name):
    for fmt in MIDDLE.values():
        check(name, operands_for(name, fmt, 300), package_format(fmt), MODES)


@pytest.mark.sweep
@pytest.mark.parametrize("fmt", MIDDLE)
@pytest.mark.parametrize("name", mpfr.UNARY)
def test_every_16_bit_operand_is_rounded_correctly_in_every_mode(name, fmt):
    fmt = MIDDLE[fmt]
    check(name, [values_of(fmt, all_codes(fmt))], package_format(fmt), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wide_operands_are_rounded_correctly(name):
    for fmt in WIDE.values():
        check(name, operands_for(name, fmt, 250), package_format(fmt), MODES)


@pytest.mark.sweep
@pytest.mark.parametrize("fmt", WIDE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_wide_operands_are_rounded_correctly(name, fmt):
    check(name, operands_for(name, WIDE[fmt], 100_000, seed=9), package_format(WIDE[fmt]), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hard_tiny_and_huge_operands_are_rounded_correctly(name):
    x = np.array([*HARD, *(-v for v in HARD)])
    operands = [x] if name in mpfr.UNARY else [np.repeat(x, x.size)[::3], np.tile(x, x.size)[::3]]
    for fmt in ("binary16", "binary64"):
        check(name, operands, fmt, MODES[:7])


def test_small_angles_are_told_from_the_quotient_they_lie_below():
    """Quotients that are nearly values or ties: q - q**3/3 lies on the other side unless q is small enough."""
    rng = np.random.default_rng(8)
    n = 4000
    y = rng.integers(1, 2**7, n).astype(float)
    x = 2.0**53 + rng.integers(-40, 40, n)
    x = np.where(rng.random(n) < 0.5, x, 2.0**52 + rng.integers(0, 2**10, n))
    far = np.ldexp(x, rng.integers(-6, 30, n))
    for fmt in ("binary64", "e11m40", "binary32"):
        check("arctan2", [y, far], sf.as_format(fmt), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_agree_with_the_oracle(name):
    """A second opinion on the rounding, in integers and fractions."""
    for fmt in (oracle.Format(4, 3), oracle.Format(3, 6, subnormals="ftz"), NAMED["e4m3fnuz"]):
        operands = operands_for(name, fmt, 60, seed=4)
        results = [mpfr.reference(name, *row)[0] for row in zip(*operands, strict=True)]
        for options in MODES[:6]:
            how = oracle.How(options["rounding"])
            expected = [
                oracle.deliver(
                    fmt, oracle.from_float(r) if isinstance(r, float) else oracle.finite(r), how
                )
                for r in results
            ]
            got = getattr(sf, name)(*operands, package_format(fmt), **options)
            assert_matches_oracle(got, fmt, expected, *operands)


# ---------------------------------------------------------------- formats with rules of their own
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "rsqrt", "sinpi", "power", "arctan2"])
@pytest.mark.parametrize(
    "fmt",
    [
        sf.float8_e8m0fnu,
        sf.Format(6, 9, subnormals="grid"),
        sf.Format(5, 10, subnormals="ftz"),
        sf.dlfloat16,
        sf.float4_e2m1fn,
        sf.FixedPoint(7, 8),
        sf.FixedPoint(3, 20, signed=False),
        sf.Format(11, 30),
    ],
    ids=lambda fmt: fmt.label,
)
def test_special_formats_round_as_quantize_does(name, fmt):
    operands = operands_for(name, NAMED["binary32"], 200, seed=3)
    if name in ("log", "rsqrt", "power"):
        operands[0] = np.abs(operands[0])
    finite = np.logical_and.reduce([np.isfinite(x) & (x != 0) for x in operands])
    operands = [x[finite] for x in operands]
    results, _, _ = references(name, tuple(tuple(map(float, x)) for x in operands))
    for options in (
        {},
        {"rounding": "toward_negative"},
        {"rounding": "SR", "seed": 3},
        {"saturate": True},
    ):
        expected = sf.quantize(results, fmt, **options)
        assert_same_bits(getattr(sf, name)(*operands, fmt, **options), expected, *operands)
        with sf.status():
            assert_same_bits(getattr(sf, name)(*operands, fmt, **options), expected, *operands)


def test_a_wrapping_fixed_point_format_gets_the_exact_integer_bits():
    fmt = sf.FixedPoint(7, 8, overflow="wrap")
    x = np.array([20.5, 1.0, 30.25, -3.0])
    expected = sf.quantize([mpfr.reference("exp", float(v))[0] for v in x], fmt)
    assert_same_bits(sf.exp(x, fmt), expected, x)


# ---------------------------------------------------------------- operands
def test_operands_that_no_float64_holds_are_taken_exactly():
    third, long = Fraction(1, 3), 2**80 + 1
    for fmt in ("bfloat16", "binary64"):
        with gmpy2.context(precision=400):
            x, n = gmpy2.mpq(1, 3), gmpy2.mpz(long)
            wanted = {
                "exp": (third, gmpy2.exp(gmpy2.mpfr(x))),
                "sin": (long, gmpy2.sin(gmpy2.mpfr(n))),
                "log": (long, gmpy2.log(gmpy2.mpfr(n))),
                "arctanh": ("0.1", gmpy2.atanh(gmpy2.mpfr("0.1"))),
                "erf": (third, gmpy2.erf(gmpy2.mpfr(x))),
                "sinpi": (
                    Fraction(2**90 + 1, 3),
                    gmpy2.sin(gmpy2.const_pi() * ((2**90 + 1) % 6) / 3),
                ),
            }
        for name, (operand, result) in wanted.items():
            exact = Fraction(*map(int, result.as_integer_ratio()))
            assert getattr(sf, name)(operand, fmt) == sf.quantize(exact, fmt), name


def test_rational_results_of_rational_operands_are_exact():
    cases = [
        (sf.cbrt, (Fraction(8, 27),), Fraction(2, 3)),
        (sf.power, (Fraction(4, 9), Fraction(-3, 2)), Fraction(27, 8)),
        (sf.power, (-(2**70) - 1, 3), Fraction(-(2**70) - 1) ** 3),
        (sf.log10, (Fraction(1, 1000),), Fraction(-3)),
        (sf.log2, (Fraction(1, 2**2000),), Fraction(-2000)),
        (sf.sinpi, (Fraction(1, 6),), Fraction(1, 2)),
        (sf.cospi, (Fraction(2, 3),), Fraction(-1, 2)),
        (sf.hypot, (Fraction(3, 7), Fraction(4, 7)), Fraction(5, 7)),
        (sf.rsqrt, (Fraction(4, 9),), Fraction(3, 2)),
        (sf.logaddexp2, (Fraction(1, 3), Fraction(1, 3)), Fraction(4, 3)),
    ]
    for function, operands, exact in cases:
        for rounding in oracle.ROUNDINGS:
            with sf.status() as got_flags:
                got = function(*operands, "binary64", rounding=rounding)
            with sf.status() as flags:
                assert got == sf.quantize(exact, "binary64", rounding=rounding), function.__name__
            assert repr(got_flags) == repr(flags)


def test_operands_beyond_float64_stay_on_their_side_of_special_points():
    hair = Fraction(1, 2**100)
    assert np.isnan(sf.arcsin(1 + hair, "binary32")) and not np.isnan(
        sf.arcsin(1 - hair, "binary32")
    )
    assert np.isnan(sf.arccosh(1 - hair, "binary32")) and sf.arccosh(1 + hair, "binary32") > 0
    assert np.isnan(sf.log1p(-1 - hair, "binary32")) and np.isfinite(
        sf.log1p(-1 + hair, "binary32")
    )
    assert sf.log(1 + hair, "binary64") > 0 > sf.log(1 - hair, "binary64")
    assert np.isnan(sf.power(Fraction(-1, 3), Fraction(1, 3), "binary32"))
    assert sf.power(-3, 2**60 + 1, "binary32") == -math.inf
    assert sf.exp(-(2**70), "binary32", rounding="toward_positive") == 2.0**-149
    assert sf.tanh(2**70 + 1, "binary32", rounding="toward_zero") == 1 - 2.0**-24
    assert sf.logaddexp(0, -(2**70) - 1, "binary32", rounding="toward_positive") == 2.0**-149


def test_shapes_out_and_carriers_follow_the_other_operations():
    x = np.linspace(0.1, 3, 24, dtype=np.float32).reshape(4, 6)
    y = sf.exp(x, "bfloat16")
    assert y.dtype == np.float32 and y.shape == x.shape
    assert np.array_equal(sf.exp(x[:, ::2], "bfloat16"), y[:, ::2])
    assert np.array_equal(sf.exp(np.asfortranarray(x), "bfloat16"), y)
    out = x.copy()
    assert sf.exp(out, "bfloat16", out=out) is out and np.array_equal(out, y)
    shifted = np.concatenate([x.ravel(), [0]]).astype(np.float32)
    sf.exp(shifted[:-1], "bfloat16", out=shifted[1:])
    assert np.array_equal(shifted[1:], y.ravel())
    assert sf.power(x, x[0], "binary16").shape == (4, 6)
    assert type(sf.exp(1.0, "bfloat16")) is np.float64 and sf.exp([], "bfloat16").size == 0
    with pytest.raises(TypeError, match="no option 'ronding'"):
        sf.exp(x, "bfloat16", ronding="RTZ")
    with pytest.raises(ValueError, match="do not broadcast"):
        sf.hypot(x, x[:, :5], "bfloat16")


def test_chunks_and_threads_give_the_bits_of_the_whole():
    x = np.random.default_rng(1).standard_normal(300_000).astype(np.float32)
    before = sf.get_num_threads()
    for options in ({"rounding": "toward_positive"}, {"rounding": "SR", "seed": 4}):
        whole = sf.tanh(x, "bfloat16", **options)
        sf.set_num_threads(3)
        try:
            assert_same_bits(sf.tanh(x, "bfloat16", **options), whole)
        finally:
            sf.set_num_threads(before)
    parts = [
        sf.tanh(x[:777], "bfloat16", **options),
        sf.tanh(x[777:], "bfloat16", offset=777, **options),
    ]
    assert_same_bits(np.concatenate(parts), whole)


def test_given_random_words_decide():
    x = np.array([0.3, 0.3, 0.3])
    got = sf.exp(x, "bfloat16", rounding="stochastic", random=np.array([0, 2**24 - 1, 2**23]))
    down, up = (sf.exp(0.3, "bfloat16", rounding=r) for r in ("toward_negative", "toward_positive"))
    assert got[0] == down and got[1] == up and got[2] in (down, up)


def test_aliases_and_derived_functions():
    x = np.array([0.5, -3.0, 7.25], np.float32)
    assert np.array_equal(sf.deg2rad(x, "binary32"), sf.radians(x, "binary32"))
    assert np.array_equal(sf.rad2deg(x, "binary32"), sf.degrees(x, "binary32"))
    assert np.array_equal(sf.square(x, "binary16"), sf.multiply(x, x, "binary16"))
    assert np.array_equal(sf.reciprocal(x, "binary16"), sf.divide(1.0, x, "binary16"))
    assert sf.float_power is sf.power and sf.reciprocal(x, "binary16").dtype == np.float32


# ---------------------------------------------------------------- the parts
@pytest.mark.parametrize("name", FUNCTIONS)
def test_python_and_compiled_code_agree(name):
    operands = operands_for(name, NAMED["binary64"], 25, seed=8)
    columns = np.empty((COLUMNS, 25), np.int64)
    evaluation_loop(name)(*[part for x in operands for part in (x.view(np.int64), 52)], columns)
    for i, row in enumerate(zip(*operands, strict=True)):
        unpacked = [part for x in row for part in unpack(_bits(float(x)), 52, 11)]
        assert [int(v) for v in (UNARY | BINARY)[name](*unpacked)] == columns[:, i].tolist(), row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_124_bits_have_the_stated_error_and_any_number_of_bits_none(name):
    """The relative error is below 2**-(known + 1); `leading_parts` is the result cut to 124 bits."""
    for row in zip(*operands_for(name, NAMED["binary64"], 60, seed=2), strict=True):
        row = [float(x) for x in row]
        if not np.all(np.isfinite(row)):
            continue
        exact, _, _ = mpfr.reference(name, *row)
        if isinstance(exact, float) or not Fraction(1, 2**1200) < abs(exact) < 2**2000:
            continue
        unpacked = [part for x in row for part in unpack(_bits(x), 52, 11)]
        kind, negative, exponent, high, low, _, known = (UNARY | BINARY)[name](*unpacked)
        near = (
            Fraction(high * 2**62 + low) * Fraction(2) ** (exponent - 123) * (-1 if negative else 1)
        )
        bits = known if known < DECIDED else 90
        assert abs(near - exact) < abs(exact) * Fraction(1, 2 ** (bits + 1)), row
        if known < DECIDED and name != "power":
            _, negative, exponent, high, low = leading_parts(name, *map(Fraction, row))
            cut = Fraction(high * 2**62 + low - 1) * Fraction(2) ** (exponent - 123)
            assert low & 1 and (exact < 0) == bool(negative)
            assert -1 < (abs(exact) - cut) / Fraction(2) ** (exponent - 123) < 2, row


@pytest.mark.sweep
@pytest.mark.parametrize("name", mpfr.UNARY)
def test_every_16_bit_operand_has_the_stated_error(name):
    """binary16 and bfloat16 in one: a result that is known so well is rounded correctly in every mode."""
    values = [values_of(NAMED[fmt], all_codes(NAMED[fmt])) for fmt in ("binary16", "bfloat16")]
    x = np.unique(np.concatenate(values))
    x = x[np.isfinite(x)]
    columns = np.empty((COLUMNS, x.size), np.int64)
    evaluation_loop(name)(x.view(np.int64), 52, columns)
    for v, (kind, negative, exponent, high, low, _, known) in zip(
        x.tolist(), columns.T.tolist(), strict=True
    ):
        if abs(exponent) > 3000:
            continue  # the other tests see that such results overflow or underflow
        exact, _, _ = mpfr.reference(name, v)
        if kind != FINITE_CLASS:
            assert isinstance(exact, float), v
            continue
        # In units of the last bit, which counts as half where it is jammed.
        units = exact * Fraction(2) ** (123 - exponent) * (-1 if negative else 1)
        allowed = 2 ** (123 - known) if known < DECIDED else 2**36
        assert abs(((high << 62) | low) - units) < allowed, v


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_quick_way_and_the_definition_agree(name):
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    usual = rng.standard_normal(100_000) * 2.0 ** rng.integers(-12, 7, 100_000)
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.concatenate([bits, usual.astype(np.float32)])
        half = all_codes(NAMED["binary16"]).view(np.float16).astype(np.float32)
    for fmt, values in (("binary32", x), ("bfloat16", x), ("binary16", half)):
        operands = [values] if name in mpfr.UNARY else [values, rng.permutation(values)]
        for options in MODES:
            got = getattr(sf, name)(*operands, fmt, **options)
            with sf.status():
                assert_same_bits(got, getattr(sf, name)(*operands, fmt, **options), *operands)


def test_rational_results_are_exact_in_124_bits():
    """Found by exact means, not left to more bits: kernels have these alone."""
    cases = {
        "exp2": [(-1070.0, Fraction(1, 2**1070)), (52.0, 2**52)],
        "exp10": [(n, 10**n) for n in range(38)],
        "log2": [(2.0**k, k) for k in (-1074, -1, 1, 1023)],
        "log10": [(10.0**k, k) for k in range(1, 23)],
        "cbrt": [(float(n**3), n) for n in (2, 3, -5, 208063)] + [(0.125, Fraction(1, 2))],
        "rsqrt": [(4.0**k, Fraction(2) ** -k) for k in (-500, -1, 1, 3)],
        "sinpi": [(0.5, 1), (-1.5, 1)],
        "cospi": [(3.0, -1), (2.0**60, 1)],
        "tanpi": [(0.25, 1), (-1.25, -1), (0.75, -1)],
        "hypot": [(3.0, 4.0, 5), (2.0**-1074, 0.0, Fraction(1, 2**1074))],
        "power": [
            (2.25, 1.5, Fraction(27, 8)),
            (3.0, 33.0, 3**33),
            (2.0**-9, -5.0, 2**45),
            (16.0, 0.25, 2),
        ],
        "logaddexp2": [(1.5, 1.5, Fraction(5, 2)), (-3.0, -3.0, -2)],
    }
    for name, rows in cases.items():
        for *row, exact in rows:
            unpacked = [part for x in row for part in unpack(_bits(float(x)), 52, 11)]
            kind, negative, exponent, high, low, _, known = (UNARY | BINARY)[name](*unpacked)
            value = Fraction(high * 2**62 + low) * Fraction(2) ** (exponent - 123)
            assert (known, -value if negative else value) == (DECIDED, exact), (name, row)


@pytest.mark.parametrize("name", [*UNARY_QUICK, *BINARY_QUICK])
def test_float64_results_lie_within_half_their_stated_error(name):
    """Against the 124-bit evaluation; where no error is stated, on the same side of x, 1 or the like."""
    operands = [
        np.ascontiguousarray(x) for x in operands_for(name, NAMED["binary64"], 20_000, seed=6)
    ]
    low, high = np.empty((2, operands[0].size))
    assert bounds_loop(name)(*operands, low, high)
    columns = np.empty((COLUMNS, low.size), np.int64)
    evaluation_loop(name)(*[part for x in operands for part in (x.view(np.int64), 52)], columns)
    kinds, negatives, exponents, highs, lows = columns[:5]
    checked = np.isfinite(low) & (kinds == FINITE_CLASS) & (np.abs(exponents) < 900)
    # Relative to 2**(exponent - 61), in integers: high and the bounds have 62 bits, 53 of the latter in use.
    unit = np.ldexp(
        np.where(negatives != 0, -1.0, 1.0), 61 - exponents.clip(-900, 900).astype(np.int32)
    )
    ends = [np.where(checked, end * unit, 0).astype(np.int64) for end in (low, high)]
    lower, upper = np.minimum(*ends), np.maximum(*ends)
    margin = (upper - lower) // 4 - (
        1 << 9
    )  # the bounds are rounded themselves, to multiples of 2**9
    wrong = checked & (lower < upper) & ((highs < lower + margin) | (highs > upper - margin))
    assert not wrong.any(), [x[wrong][:3] for x in operands]
    # No error stated: the result is exact, or between the float64 neighbours of the odd one.
    point = checked & (lower == upper)
    odd = (lower >> 9) & 1 == 1
    gap = np.where(highs < lower, lower - highs - (lows > 0), highs - lower)  # cut
    wrong = point & ~((gap < 1 << 9) & (odd | (highs == lower) & (lows == 0)))
    assert not wrong.any(), [x[wrong][:3] for x in operands]


@functools.cache
def pair_loop(name):
    """The compiled loop over a function in pairs: run(a, high, low, e), or run(a, b, high, low, e)."""
    pair = PAIRS[name]

    @jit
    def unary(a, high, low, e):
        for i in range(a.size):
            high[i], low[i], e[i] = pair(a[i])

    @jit
    def binary(a, b, high, low, e):
        for i in range(a.size):
            high[i], low[i], e[i] = pair(a[i], b[i])

    return binary if name in mpfr.BINARY else unary


def near_trouble(name, n, seed):
    """Operands for a function in float64, many where terms cancel or the range ends."""
    operands = operands_for(name, NAMED["binary64"], n, seed=seed)
    rng = np.random.default_rng(seed + 50)
    hair = rng.choice([-1, 1], n) * 2.0 ** -rng.uniform(1, 52, n)
    near = rng.choice([-1, 1], n) + hair if name.startswith(("arc", "log", "power")) else hair * 8
    return [np.where(rng.random(n) < 0.4, near, x) for x in operands]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_lie_within_half_their_stated_error(name):
    """Against the 124-bit evaluation, in exact fractions."""
    n = 600
    operands = near_trouble(name, n, 16)
    high, low, e = np.empty((3, n))
    pair_loop(name)(*operands, high, low, e)
    columns = np.empty((COLUMNS, n), np.int64)
    evaluation_loop(name)(*[part for x in operands for part in (x.view(np.int64), 52)], columns)
    tried = np.flatnonzero(np.isfinite(high) & (columns[0] == FINITE_CLASS) & (e < 2.0**-20))
    assert tried.size > n // 10
    for i in tried:
        _, negative, exponent, upper, lower = columns[:5, i].tolist()
        exact = Fraction((upper << 62) + lower) * Fraction(2) ** (exponent - 123)
        error = Fraction(high[i]) + Fraction(low[i]) - (-exact if negative else exact)
        assert abs(error) <= Fraction(e[i]) / 2 * abs(exact), [float(x[i]) for x in operands]


@pytest.mark.parametrize("n", [3000, pytest.param(100_000, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_round_as_the_definition_does(name, n):
    """binary64, and formats whose results pairs decide by way of a float64 rounded to odd; few are left open."""
    operands = near_trouble(name, n, 26)
    for fmt, modes in (
        ("binary64", MODES[:6]),
        (sf.Format(9, 46), MODES[:6]),
        ("binary32", MODES[6:7]),
    ):
        for options in modes:
            got = getattr(sf, name)(*operands, fmt, **options)
            with sf.status():
                assert_same_bits(got, getattr(sf, name)(*operands, fmt, **options), *operands)
    bounds = np.empty((2, n))
    assert pair_bounds_loop(name)(*operands_for(name, NAMED["binary16"], n), *bounds, EVEN)
    settled = np.isfinite(bounds).all(axis=0)
    assert np.mean(bounds[0][settled] != bounds[1][settled]) < 0.01 and settled.mean() > 0.1


def test_a_pair_of_which_nothing_is_known_decides_nothing():
    """log(1 + e**-45.2): the sum cancels more than pairs hold. Rounded to odd, z + NaN must not be z."""
    a, b = np.array([-45.19619889509681]), np.array([3.1815846260411663e-29])
    for mode in (EVEN, ZERO, POSITIVE, NEGATIVE, ODD):
        bounds = np.empty((2, 1))
        assert pair_bounds_loop("logaddexp")(a, b, *bounds, mode)
        assert np.isnan(bounds).all()


def test_tables_hold_what_mpfr_gives():
    with gmpy2.context(precision=400):

        def units(x):
            return int(gmpy2.floor(x * gmpy2.mpfr(2) ** 124))

        two = gmpy2.mpfr(2)
        rows = [(int(a) << 62) + int(b) for a, b in tables.EXP2_TABLE]
        assert all(abs(r - units(two ** (gmpy2.mpfr(i) / 64) / 2)) <= 1 for i, r in enumerate(rows))
        for c, (minus, e, a, b) in zip(
            tables.LOG_RECIPROCALS, tables.LOG_TABLE.tolist(), strict=True
        ):
            exact = -gmpy2.log(gmpy2.mpfr(int(c)) / 512)
            value = ((a << 62) + b) * two ** (e - 123)
            assert abs(value - abs(exact)) <= abs(exact) * two**-122 and (exact < 0) == bool(minus)
        for i, (e, a, b) in enumerate(tables.ARCTAN_TABLE.tolist()):
            exact = gmpy2.atan(gmpy2.mpfr(i) / 64)
            assert abs(((a << 62) + b) * two ** (e - 123) - exact) <= exact * two**-122
        constants = {
            "LN2": gmpy2.log(2),
            "LOG2E": 1 / gmpy2.log(2),
            "LOG2TEN": gmpy2.log2(10),
            "LOG10E": 1 / gmpy2.log(10),
            "PI": gmpy2.const_pi(),
            "DEGREE": gmpy2.const_pi() / 180,
            "RADIAN": 180 / gmpy2.const_pi(),
            "TWO_OVER_ROOT_PI": 2 / gmpy2.sqrt(gmpy2.const_pi()),
        }
        for name, exact in constants.items():
            e, a, b = (getattr(tables, f"{name}_{part}") for part in ("EXPONENT", "HIGH", "LOW"))
            assert abs(((a << 62) + b) * two ** (e - 123) - exact) <= exact * two**-122, name
    with gmpy2.context(precision=3000):
        words = [int(w) for w in tables.TWO_OVER_PI[tables.PADDING :]]
        bits = int(gmpy2.floor(2 / gmpy2.const_pi() * gmpy2.mpfr(2) ** (62 * len(words))))
        assert sum(w << 62 * (len(words) - 1 - i) for i, w in enumerate(words)) == bits


def test_what_124_bits_leave_open_is_settled_by_more(monkeypatch):
    """e**(2**-53) = 1 + 2**-53 + 2**-107 + ... is a hair above a midpoint of binary64."""
    asked = []

    def spy(name, operands):
        asked.append(name)
        return exact_result(name, operands)

    monkeypatch.setattr("softfloat.ops.elementary.exact.exact_result", spy)
    assert sf.exp(2.0**-53, "binary64") == 1 + 2.0**-52 and asked == ["exp"]
    assert sf.exp(-(2.0**-54), "binary64") == 1.0 and sf.exp(2.0**-54, "binary64") == 1.0
    a = -0.6931471805599453  # nearly -log(2): the sum cancels
    with sf.status() as s:
        got = sf.logaddexp([a, a], [a, 1.0], "binary64", rounding="SR", seed=1)
    assert asked.count("logaddexp") == 1 and s.inexact == 2
    exact = [mpfr.reference("logaddexp", a, b)[0] for b in (a, 1.0)]
    assert_same_bits(got, sf.quantize(exact, "binary64", rounding="SR", seed=1))
