"""A million random and edge cases per operation against MPFR, spread over formats and modes."""

import gmpy2
import numpy as np
import oracle
import pytest
from helpers import assert_same_bits, package_format, some_codes, some_values, values_of
from oracle import ROUNDINGS

import softfloat as sf

pytestmark = pytest.mark.exhaustive

SHAPES = [(5, 10), (8, 7), (8, 10), (8, 23), (11, 52), (6, 9), (4, 3), (5, 2), (11, 40), (3, 52)]
SHAPES += [
    (10, 5),
    (8, 1),
    (2, 20),
    (9, 51),
    (10, 51),
    (11, 12),
    (8, 26),
    (7, 16),
    (4, 11),
    (11, 51),
]
OPERATIONS = {
    "quantize": (sf.quantize, lambda c, x: gmpy2.mpfr(x), 1),
    "add": (sf.add, lambda c, x, y: c.add(x, y), 2),
    "subtract": (sf.subtract, lambda c, x, y: c.sub(x, y), 2),
    "multiply": (sf.multiply, lambda c, x, y: c.mul(x, y), 2),
    "divide": (sf.divide, lambda c, x, y: c.div(x, y), 2),
    "sqrt": (sf.sqrt, lambda c, x: c.sqrt(x), 1),
    "fma": (sf.fma, lambda c, x, y, z: c.fma(x, y, z), 3),
}
CASES = 8400  # a mode and a format: 1,008,000 an operation
MPFR_MODES = {
    "ties_to_even": gmpy2.RoundToNearest,
    "toward_zero": gmpy2.RoundToZero,
    "toward_positive": gmpy2.RoundUp,
    "toward_negative": gmpy2.RoundDown,
}


def context(fmt, rounding, extra=0):
    """MPFR's significands lie in [1/2, 1): its exponents are one larger. `extra`: digits more."""
    subnormal = fmt.emin - fmt.mantissa_bits - extra
    return gmpy2.context(
        precision=fmt.mantissa_bits + 1 + extra,
        emax=fmt.bias + 1,
        emin=subnormal + 1,
        subnormalize=True,
        round=rounding,
    )


def run(fmt, compute, rounding, rows, extra=0):
    """MPFR's results; not yet floats, which could not hold the extra digit of binary64."""
    with context(fmt, rounding, extra) as c:
        return [compute(c, *row) for row in rows]


def floats(results):
    return np.array([float(r) for r in results])


def odd(fmt, values):
    """Whether the code of a value of the format is odd."""
    _, exponent = np.frexp(np.abs(values))
    quantum = np.maximum(exponent - 1, fmt.emin) - fmt.mantissa_bits
    with np.errstate(invalid="ignore"):
        steps = np.ldexp(np.abs(values), -quantum)
        lsb = np.fmod(steps, 2) == 1
    if fmt.mantissa_bits == 0:
        return (exponent - 1 - fmt.emin) % 2 == 0
    return np.where(np.isfinite(values), lsb, False)


def expected(fmt, compute, rounding, rows):
    if rounding in MPFR_MODES:
        return floats(run(fmt, compute, MPFR_MODES[rounding], rows))
    toward = run(fmt, compute, gmpy2.RoundToZero, rows)
    away = floats(run(fmt, compute, gmpy2.RoundAwayZero, rows))
    if rounding == "to_odd":
        return np.where(odd(fmt, floats(toward)), floats(toward), away)
    # One digit more, cut off: it is set from the midpoint on.
    finer = run(fmt, compute, gmpy2.RoundToZero, rows, extra=1)
    below = [f == t for f, t in zip(finer, toward, strict=True)]
    return np.where(below, floats(toward), away)


def operands(operation, fmt, n, arity, seed):
    if operation == "quantize":
        return [some_values(fmt, n, seed)]
    codes = [some_codes(fmt, n, seed=seed + i) for i in range(arity)]
    x = [values_of(fmt, c) for c in codes]
    rng = np.random.default_rng(seed)
    if arity > 1:  # operands of like exponents cancel, and their quotients crowd the midpoints
        close = rng.random(n) < 0.3
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = sf.quantize(-x[0] * rng.choice([0.5, 1.0, 2.0], n), package_format(fmt))
        x[-1] = np.where(close, scaled, x[-1])
    return x


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_against_mpfr(operation, rounding):
    function, compute, arity = OPERATIONS[operation]
    for seed, (exponent_bits, mantissa_bits) in enumerate(SHAPES):
        fmt = oracle.Format(exponent_bits, mantissa_bits)
        x = operands(operation, fmt, CASES, arity, 100 * seed + ROUNDINGS.index(rounding))
        with gmpy2.context(precision=53):
            rows = [
                [float(v) if operation == "quantize" else gmpy2.mpfr(float(v)) for v in row]
                for row in zip(*x, strict=True)
            ]
        got = function(*x, package_format(fmt), rounding=rounding)
        assert_same_bits(got, expected(fmt, compute, rounding, rows), *x)
