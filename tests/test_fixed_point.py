"""Fixed point: every mode, saturation and wrap-around, codes, arithmetic, against fractions."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import assert_same_bits
from oracle import ROUNDINGS, How

import softfloat as sf

SHAPES = [
    {"integer_bits": 3, "fraction_bits": 4},
    {"integer_bits": 0, "fraction_bits": 7},
    {"integer_bits": 7, "fraction_bits": 0},
    {"integer_bits": 3, "fraction_bits": 4, "signed": False},
    {"integer_bits": 3, "fraction_bits": 4, "symmetric": True},
    {"integer_bits": 3, "fraction_bits": 4, "overflow": "wrap"},
    {"integer_bits": 3, "fraction_bits": 4, "signed": False, "overflow": "wrap"},
    {"integer_bits": 15, "fraction_bits": 16},
]
OPERATIONS = {
    "add": (sf.add, lambda a, b: a + b, 2),
    "subtract": (sf.subtract, lambda a, b: a - b, 2),
    "multiply": (sf.multiply, lambda a, b: a * b, 2),
    "divide": (sf.divide, lambda a, b: a / b, 2),
    "fma": (sf.fma, lambda a, b, c: a * b + c, 3),
}


def named(shape):
    return "-".join(f"{k}={v}" for k, v in shape.items())


def limits(shape):
    width = shape["integer_bits"] + shape["fraction_bits"]
    if not shape.get("signed", True):
        return 0, 2**width - 1
    return -(2**width) + shape.get("symmetric", False), 2**width - 1


def steps(shape, exact, how):
    """The integer behind the fixed-point value that an exact rational becomes."""
    scaled = exact * oracle.power_of_two(shape["fraction_bits"])
    n, _ = oracle.to_integer(oracle.finite(scaled), how)
    low, high = limits(shape)
    if shape.get("overflow") != "wrap":
        return min(max(n, low), high)
    span = high + 1 if low == 0 else 2 * (high + 1)
    return (n - low) % span + low


def values(shape, numerators):
    return np.ldexp(np.array(numerators, np.float64), -shape["fraction_bits"])


def inputs(shape, n=400, seed=0):
    rng = np.random.default_rng(seed)
    low, high = limits(shape)
    whole = rng.integers(2 * low - 5, 2 * high + 5, n)
    quarters = whole + rng.choice([0.0, 0.25, 0.5, 0.75, 0.5 - 2.0**-20, 0.5 + 2.0**-20], n)
    x = np.ldexp(quarters, -shape["fraction_bits"])
    return np.concatenate([x, values(shape, [low, high, low - 1, high + 1]), [0.0, -0.0]])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_quantize_and_encode_round_the_exact_number(shape, rounding):
    fmt = sf.FixedPoint(**shape)
    for x in (inputs(shape), inputs(shape).astype(np.float32)):
        expected = [steps(shape, Fraction(float(v)), How(rounding)) for v in x]
        got = sf.quantize(x, fmt, rounding=rounding)
        assert (got == values(shape, expected)).all()
        codes = sf.encode(x, fmt, rounding=rounding)
        assert codes.dtype.kind == "u"
        width = shape["integer_bits"] + shape["fraction_bits"] + shape.get("signed", True)
        assert codes.tolist() == [n % 2**width for n in expected]
        assert_same_bits(sf.decode(codes, fmt), values(shape, expected), x)


@pytest.mark.parametrize("shape", SHAPES[:7], ids=named)
def test_every_code_is_its_own_value(shape):
    fmt = sf.FixedPoint(**shape)
    low, high = limits(shape)
    x = values(shape, range(low, high + 1))
    for rounding in ROUNDINGS:
        assert (sf.quantize(x, fmt, rounding=rounding) == x).all()
    assert (sf.quantize(x, fmt, rounding="stochastic", seed=1) == x).all()
    codes = sf.encode(x, fmt)
    assert len(set(codes.tolist())) == len(x)
    assert (sf.decode(codes, fmt) == x).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_arithmetic_rounds_the_exact_result(shape, operation, rounding):
    function, exact, arity = OPERATIONS[operation]
    fmt = sf.FixedPoint(**shape)
    low, high = limits(shape)
    rng = np.random.default_rng(len(operation))
    numerators = [rng.integers(low, high, 300, endpoint=True) for _ in range(arity)]
    numerators[-1] = np.where(numerators[-1] == 0, 1, numerators[-1])
    operands = [values(shape, n) for n in numerators]
    expected = [
        steps(shape, exact(*(Fraction(float(v)) for v in row)), How(rounding))
        for row in zip(*operands, strict=True)
    ]
    got = function(*operands, fmt, rounding=rounding)
    assert (got == values(shape, expected)).all()


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_stochastic_rounding_uses_the_given_words(shape, variant):
    fmt = sf.FixedPoint(**shape)
    x = inputs(shape)
    words = np.random.default_rng(0).integers(0, 2**8, len(x))
    expected = [
        steps(shape, Fraction(float(v)), How("stochastic", False, int(w), 8, variant))
        for v, w in zip(x, words, strict=True)
    ]
    how = {"rounding": "stochastic", "random": words, "random_bits": 8, "variant": variant}
    assert (sf.quantize(x, fmt, **how) == values(shape, expected)).all()


def test_stochastic_frequencies_and_reproducibility():
    fmt = sf.FixedPoint(3, 4)
    x = np.full(200_000, 1.015625)  # a quarter of a step above 1
    got = sf.quantize(x, fmt, rounding="stochastic", seed=2)
    assert abs(int((got != 1).sum()) - 50_000) < 5 * (200_000 * 0.1875) ** 0.5
    assert_same_bits(
        sf.quantize(x[1000:], fmt, rounding="stochastic", seed=2, offset=1000), got[1000:]
    )
    assert_same_bits(sf.quantize(-x, fmt, rounding="stochastic", seed=2), -got)
    with pytest.raises(ValueError, match="seed="):
        sf.quantize(x, fmt, rounding="stochastic")


@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_infinities_saturate(shape):
    if shape.get("overflow") == "wrap":
        pytest.skip("an infinity has no residue")
    low, high = limits(shape)
    got = sf.quantize([np.inf, -np.inf, 1e300, -1e300], sf.FixedPoint(**shape))
    assert (got == values(shape, [high, low, high, low])).all()


def test_nan_has_no_code():
    with pytest.raises(ValueError, match="NaN"):
        sf.encode([0.0, np.nan], sf.FixedPoint(3, 4))


@pytest.mark.parametrize("integer", [2**53 + 1, 2**62 + 1, -(2**40) - 3])
def test_wide_integers_are_taken_exactly(integer):
    shape = {"integer_bits": 4, "fraction_bits": 3, "overflow": "wrap"}
    expected = steps(shape, Fraction(integer), How())
    got = sf.quantize(np.array([integer], np.int64), sf.FixedPoint(**shape))
    assert (got == values(shape, [expected])).all()


def test_scalars_shapes_and_out():
    fmt = sf.FixedPoint(3, 4)
    assert sf.quantize(1.03, fmt) == 1.0
    assert isinstance(sf.quantize(1.03, fmt), np.floating)
    x = np.linspace(-9, 9, 60).reshape(3, 4, 5)
    expected = sf.quantize(x, fmt)
    assert expected.shape == x.shape
    before = x.copy()
    assert_same_bits(sf.quantize(x[:, ::-1], fmt), expected[:, ::-1])
    assert_same_bits(x, before)
    assert sf.quantize(x, fmt, out=x) is x
    assert_same_bits(x, expected)


def test_fields_identity_and_repr():
    fmt = sf.FixedPoint(3, 4, symmetric=True)
    assert (fmt.integer_bits, fmt.fraction_bits, fmt.signed) == (3, 4, True)
    assert (fmt.symmetric, fmt.overflow) == (True, "saturate")
    assert fmt.bits == 8
    again = eval(repr(fmt), {"FixedPoint": sf.FixedPoint, "sf": sf})
    for same in (again, pickle.loads(pickle.dumps(fmt)), copy.copy(fmt), copy.deepcopy(fmt)):
        assert same == fmt
        assert hash(same) == hash(fmt)
    others = {sf.FixedPoint(3, 4), sf.FixedPoint(4, 3), sf.FixedPoint(3, 4, overflow="wrap"), fmt}
    assert len(others) == 4
    with pytest.raises(AttributeError):
        fmt.integer_bits = 5
    assert math.isclose(float(fmt.max), 8 - 1 / 16, rel_tol=0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"integer_bits": -1, "fraction_bits": 4}, ValueError),
        ({"integer_bits": 0, "fraction_bits": 0, "signed": False}, ValueError),
        ({"integer_bits": 60, "fraction_bits": 60}, ValueError),
        ({"integer_bits": 3.5, "fraction_bits": 4}, TypeError),
        ({"integer_bits": 3, "fraction_bits": 4, "overflow": "clip"}, ValueError),
        ({"integer_bits": 3, "fraction_bits": 4, "symmetric": True, "signed": False}, ValueError),
        (
            {"integer_bits": 3, "fraction_bits": 4, "symmetric": True, "overflow": "wrap"},
            ValueError,
        ),
    ],
    ids=str,
)
def test_impossible_descriptions_are_refused(arguments, error):
    with pytest.raises(error):
        sf.FixedPoint(**arguments)


def test_an_infinity_does_not_wrap_around():
    with pytest.raises(ValueError, match="wrap"):
        sf.quantize([1.0, np.inf], sf.FixedPoint(3, 4, overflow="wrap"))
