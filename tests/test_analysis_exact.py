"""Exact sums and inner products against fractions and math.fsum, and measures of error by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

import softfloat as sf
from softfloat import analysis

LENGTHS = (0, 1, 2, 7, 100, 511, 512, 3000)
MODES = [m for m in sf.Rounding if not str(m).startswith("stochastic")]
INF, NAN = math.inf, math.nan


def wild(n, seed):
    """Finite float64 numbers of every exponent, the upper ones lowered so that few hundred sums stay finite."""
    words = np.random.default_rng(seed).integers(0, 1 << 64, 2 * n + 8, dtype=np.uint64)
    x = words.view(np.float64)
    return (x[np.isfinite(x)] * 2.0**-40)[:n]


def fraction_sum(x):
    return sum(map(Fraction, x), Fraction(0))


def fraction_dot(x, y):
    return sum((Fraction(u) * Fraction(v) for u, v in zip(x, y, strict=True)), Fraction(0))


@pytest.mark.parametrize("n", LENGTHS)
def test_sums_are_exact_over_the_whole_range(n):
    x = wild(n, n)
    x = np.concatenate((x, -x[: n // 3]))  # and cancel
    assert analysis.exact_sum(x, None) == fraction_sum(x.tolist())
    assert float(analysis.exact_sum(x)) == math.fsum(x)


@pytest.mark.parametrize("n", LENGTHS)
def test_inner_products_are_exact_over_the_whole_range(n):
    x, y = wild(n, n), wild(n, n + 1)
    assert analysis.exact_dot(x, y, None) == fraction_dot(x.tolist(), y.tolist())
    tiny = np.full(n, 5e-324)
    assert analysis.exact_dot(tiny, tiny, None) == n * Fraction(5e-324) ** 2


def test_the_long_way_of_blocks_gives_the_same():
    x = np.random.default_rng(3).standard_normal(300_001).astype(np.float32)
    assert analysis.exact_sum(x, None) == fraction_sum(x.tolist())
    assert float(analysis.exact_sum(x)) == math.fsum(x)
    ones = np.full(1 << 20, -np.finfo(np.float64).max)
    assert analysis.exact_sum(ones, None) == -(1 << 20) * Fraction(np.finfo(np.float64).max)
    assert analysis.exact_dot(ones, ones, None) == (1 << 20) * Fraction(ones[0]) ** 2


def test_long_inner_products_of_float32_values():
    rng = np.random.default_rng(4)
    words = rng.integers(0, 1 << 32, (2, 140_000), dtype=np.uint32).view(np.float32)
    x, y = np.where(np.isfinite(words), words, np.float32(1))
    want = fraction_dot(x.tolist(), y.tolist())
    assert analysis.exact_dot(x, y, None) == want
    assert analysis.exact_dot(x.astype(float), y, None) == want
    assert analysis.exact_dot(x, y) == sf.quantize(want, "binary64")
    zeros = np.zeros(140_000, np.float32)
    assert repr(float(analysis.exact_dot(zeros, -x, rounding="toward_negative"))) == "-0.0"
    x[7], y[7] = INF, 0
    with sf.status() as s:
        assert math.isnan(analysis.exact_dot(x, y))
    assert s.invalid == 1


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize(
    "fmt", ["bfloat16", "binary16", "float8_e4m3fn", "binary32", "binary64", "e6m9"]
)
def test_the_sum_is_rounded_once(fmt, rounding):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 60)) * 2.0 ** rng.integers(-40, 3, (40, 60))
    y = rng.standard_normal((40, 60))
    exact = np.array([fraction_sum(row) for row in x.tolist()])
    products = np.array([fraction_dot(u, v) for u, v in zip(x.tolist(), y.tolist(), strict=True)])
    with sf.status() as expected:
        want = sf.quantize(exact, fmt, rounding=rounding)
    with sf.status() as counted:
        got = analysis.exact_sum(x, fmt, axis=1, rounding=rounding)
    assert got.tobytes() == want.tobytes() and got.dtype == want.dtype
    assert counted.inexact == expected.inexact and counted.overflow == expected.overflow
    got = analysis.exact_dot(x, y, fmt, rounding=rounding)
    assert got.tobytes() == sf.quantize(products, fmt, rounding=rounding).tobytes()


def test_a_tail_far_below_breaks_a_tie():
    half = 2.0**-9
    for tail, want in ((0.0, 1.0), (2.0**-300, 1 + 2.0**-7), (-(2.0**-300), 1.0)):
        assert float(analysis.exact_sum([1.0, half, half, tail], "bfloat16")) == want


def test_stochastic_rounding_takes_one_word_per_sum():
    x = np.random.default_rng(1).random((50, 30))
    exact = np.array([fraction_sum(row) for row in x.tolist()])
    options = {"rounding": "stochastic", "seed": 9, "offset": 5}
    got = analysis.exact_sum(x, "binary16", axis=1, **options)
    assert got.tobytes() == sf.quantize(exact, "binary16", **options).tobytes()
    with pytest.raises(ValueError, match="needs seed="):
        analysis.exact_sum(x, "binary16", rounding="stochastic")


@pytest.mark.parametrize(
    ("terms", "even", "down"),
    [
        ([], "0.0", "0.0"),
        ([0.0, 0.0], "0.0", "0.0"),
        ([-0.0], "0.0", "-0.0"),
        ([1.0, -1.0], "0.0", "-0.0"),
        ([INF, 1.0], "inf", "inf"),
        ([-INF, 1e308], "-inf", "-inf"),
        ([INF, -INF], "nan", "nan"),
        ([NAN, INF], "nan", "nan"),
        ([1e308, 1e308], "inf", "1.7976931348623157e+308"),
        ([1e308, 1e308, -1e308], "1e+308", "1e+308"),
    ],
)
def test_zeros_infinities_and_nans(terms, even, down):
    for padding in (0, 600):  # the way of short runs, and that of long ones
        x = np.array(terms + [0.0] * padding)
        if terms == [-0.0] and padding:
            x = np.full(600, -0.0)
        assert repr(float(analysis.exact_sum(x))) == even
        assert repr(float(analysis.exact_sum(x, rounding="toward_negative"))) == down
        dots = analysis.exact_dot(x, np.ones(x.size), rounding="toward_negative")
        assert repr(float(dots)) == down
    assert math.isnan(analysis.exact_dot([0.0, 1.0], [INF, 1.0]))
    with sf.status() as s:
        analysis.exact_sum([INF, -INF])
        analysis.exact_sum([NAN])
    assert s.invalid == 1


def test_numbers_beyond_float64_and_soft_arrays():
    assert analysis.exact_sum(["0.1", "0.2"], None) == Fraction(3, 10)
    assert analysis.exact_sum([2**70 + 1, -(2**70)], None) == 1
    assert analysis.exact_dot([Fraction(1, 3)], [3], None) == 1
    a = sf.array([1.0, 2.0, 3.0], sf.bfloat16)
    total = analysis.exact_sum(a)
    assert isinstance(total, sf.SoftArray) and float(total) == 6.0
    assert isinstance(analysis.exact_dot(a, a, sf.binary16), sf.SoftArray)
    with pytest.raises(TypeError, match="say fmt="):
        analysis.exact_dot(a, sf.array([1.0, 2.0, 3.0], sf.binary16))


def test_axes_layouts_and_errors():
    x = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(analysis.exact_sum(x, axis=1), x.sum(1))
    assert np.array_equal(analysis.exact_sum(x[::-1, :, ::2], axis=0), x[:, :, ::2].sum(0))
    assert np.array_equal(analysis.exact_dot(x[0], np.arange(4.0)), x[0] @ np.arange(4.0))
    assert analysis.exact_sum(x, None, axis=2)[1, 0] == 54
    assert np.array_equal(analysis.exact_sum(x, axis=(0, -1)), x.sum((0, 2)))
    assert analysis.exact_sum(x[:, :, :0], axis=(1, 2)).tolist() == [0.0, 0.0]
    assert analysis.exact_sum(x[:0], axis=1).shape == (0, 4)
    with pytest.raises(ValueError, match="last axes of one length"):
        analysis.exact_dot(np.ones(3), np.ones(4))
    with pytest.raises(TypeError, match="not rounded"):
        analysis.exact_sum(x, None, rounding="toward_zero")


def test_measures_by_hand():
    assert analysis.absolute_error(1.5, 1) == 0.5
    assert analysis.relative_error([1.0, 0.0, 1.0], [2, 0, 0]).tolist() == [0.5, 0.0, INF]
    assert analysis.ulp_error(1.0, 1 + 2.0**-8, "bfloat16") == 0.5
    assert analysis.ulp_error(0.0, 2.0**-25, "binary16") == 0.5
    assert analysis.digits(1.001, 1) == pytest.approx(3, abs=1e-9)
    assert analysis.digits(0.5, 1, base=2) == 1
    assert analysis.digits(1.0, 1) == INF
    assert analysis.sum_condition([1.0, 1e-3, -1.0]) == pytest.approx(2001)
    assert analysis.sum_condition([1.0, -1.0]) == INF
    assert analysis.dot_condition([1.0, 1.0], [3.0, -1.0]) == 4.0
    assert analysis.sum_backward_error(1.5, [1.0, -1.0]) == 0.75
    matrix = np.array([[1.0, 2.0], [3.0, -3.0]])
    assert analysis.dot_backward_error([3.0, 1.0], matrix, [1.0, 1.0]).tolist() == [0.0, 1 / 6]
    assert math.isnan(analysis.relative_error(NAN, 1.0))
    assert analysis.absolute_error(INF, 1.0) == INF


def test_a_fault_in_the_limbs_would_be_seen():
    """The reference of these tests tells a sum from one that lost its last bit."""
    x = wild(100, 7)
    assert fraction_sum(x.tolist()) + Fraction(2) ** -1074 != analysis.exact_sum(x, None)
