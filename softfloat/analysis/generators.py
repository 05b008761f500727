"""Sums and inner products of a prescribed condition number.

Source: Ogita, Rump and Oishi, Accurate sum and dot product (2005), algorithm 6.1 (GenDot).
"""

import math

import numpy as np

from softfloat.analysis.exact import exact_dot
from softfloat.analysis.statistics import as_floating, checked_count
from softfloat.functional import quantize


def ill_conditioned_dot(n, condition, fmt="binary64", *, seed=0):
    """(x, y), n >= 6 values of fmt each, whose inner product has about this condition number.

    Half of the terms spread over sqrt(condition), the other half cancel what the sum is so far. `dot_condition` gives
    the true number: of the order that was asked for, not equal to it. Raises ValueError where the range of the format
    is too narrow.
    """
    return _generated(n, condition, as_floating(fmt), seed, both=True)


def ill_conditioned_sum(n, condition, fmt="binary64", *, seed=0):
    """n >= 6 values of fmt whose sum has about this condition number, made as for `ill_conditioned_dot`."""
    return _generated(n, condition, as_floating(fmt), seed, both=False)[0]


def _generated(n, condition, fmt, seed, both):
    n = checked_count("n", n, 6)
    if not 1 <= condition < math.inf:
        raise ValueError(f"condition must be a number from 1 on, got {condition}")
    bits = math.log2(condition) / (2 if both else 1)
    if bits + 2 > fmt.emax or -fmt.precision < fmt.emin:
        raise ValueError(
            f"a condition number of {condition:.3g} needs numbers up to 2**{bits + 2:.0f}, but {fmt.label} ends at "
            f"2**{fmt.emax}; use a wider format"
        )
    rng = np.random.default_rng(seed)
    half = n // 2
    exponents = np.rint(rng.random(half) * bits)
    exponents[0], exponents[-1] = round(bits) + 1, 0
    x, y = np.zeros(n), np.ones(n)
    x[:half] = _rounded(2 * rng.random(half) - 1, exponents, fmt)
    if both:
        y[:half] = _rounded(2 * rng.random(half) - 1, exponents, fmt)
    falling = np.rint(np.linspace(bits, 0, n - half))
    for i, exponent in zip(range(half, n), falling, strict=True):
        new = float(_rounded(2 * rng.random() - 1, exponent, fmt))
        rest = new - float(exact_dot(x[:i], y[:i]))
        if both:
            x[i] = float(_rounded(2 * rng.random() - 1, exponent, fmt))
            y[i] = float(quantize(rest / x[i], fmt, saturate=True)) if x[i] else 0.0
        else:
            x[i] = float(quantize(rest, fmt, saturate=True))
    order = rng.permutation(n)
    return x[order].astype(fmt.carrier), y[order].astype(fmt.carrier)


def _rounded(u, exponent, fmt):
    return np.asarray(quantize(np.ldexp(u, np.asarray(exponent, int)), fmt), float)
