"""Measures of error, each computed from exact numbers and rounded once, to float64.

Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), ch. 1, 3 and 4; Ogita, Rump and Oishi, Accurate
sum and dot product (2005), for the condition numbers.
"""

import math
from fractions import Fraction

import numpy as np

from softfloat.analysis.exact import exact_dot, exact_sum
from softfloat.analysis.statistics import as_floating
from softfloat.operands import exact_array


def _each(function, *arrays):
    """A function of exact numbers, element by element, as a float64 array or a float."""
    exact = [exact_array(a) for a in arrays]
    with np.errstate(invalid="ignore"):  # NaN in, NaN out
        result = np.frompyfunc(function, len(arrays), 1)(*exact)
    return np.asarray(result, object).astype(np.float64)[()]


def _finite(*numbers):
    return all(isinstance(x, Fraction) or math.isfinite(x) for x in numbers)


def _difference(x, exact):
    """|x - exact|: 0 of equal infinities, infinite or NaN of others."""
    if _finite(x, exact):
        return abs(Fraction(x) - Fraction(exact))
    return 0.0 if x == exact else abs(_shadow(x) - _shadow(exact))


def _shadow(x):
    return x if not isinstance(x, Fraction) else 0.0


def _ratio(numerator, denominator):
    """numerator / denominator of numbers that are not negative: 0/0 is 0, as an error of zero is none."""
    if not _finite(numerator, denominator):
        return float(_shadow(numerator)) if _finite(denominator) else math.nan
    if not denominator:
        return math.inf if numerator else 0.0
    try:
        return float(Fraction(numerator) / Fraction(denominator))
    except OverflowError:
        return math.inf


def absolute_error(x, exact):
    """|x - exact|, element by element. exact : floats, Fractions, decimal strings: what `quantize` takes."""
    return _each(lambda u, v: _ratio(_difference(u, v), 1), x, exact)


def relative_error(x, exact):
    """|x - exact| / |exact|; 0 where both are zero, infinite where only `exact` is.

    >>> from softfloat.analysis import relative_error
    >>> float(relative_error(0.34375, "1/3"))
    0.03125
    """
    return _each(lambda u, v: _ratio(_difference(u, v), abs(v)), x, exact)


def ulp_error(x, exact, fmt):
    """|x - exact| in units of the last place of fmt at `exact`: 2**(max(e, emin) + 1 - p) with 2**e <= |exact|."""
    fmt = as_floating(fmt)

    def units(u, v):
        if not _finite(u, v):
            return _ratio(_difference(u, v), 1)
        v = Fraction(v)
        exponent = fmt.emin
        if v:
            n, d = abs(v.numerator), v.denominator
            exponent = n.bit_length() - d.bit_length()
            exponent -= abs(v) < Fraction(2) ** exponent
        last = max(exponent, fmt.emin) + 1 - fmt.precision
        return _ratio(_difference(u, v), Fraction(2) ** last)

    return _each(units, x, exact)


def digits(x, exact, base=10):
    """Correct digits: -log_base of the relative error, at least 0; infinite where x is exact. base=2 gives bits."""
    with np.errstate(divide="ignore"):
        found = -np.log2(relative_error(x, exact)) / math.log2(base)
    return np.maximum(found, 0.0)[()]


def sum_condition(x):
    """The condition number of a sum, sum |x_i| / |sum x_i|: relative errors u of the terms grow by it."""
    x = exact_array(x).reshape(-1)
    return _ratio(exact_sum(np.abs(x), None), abs(exact_sum(x, None)))


def dot_condition(x, y):
    """The condition number of an inner product, 2 |x|.|y| / |x.y| (Ogita, Rump and Oishi 2005)."""
    x, y = exact_array(x), exact_array(y)
    return _ratio(2 * exact_dot(np.abs(x), np.abs(y), None), abs(exact_dot(x, y, None)))


def sum_backward_error(s, x):
    """|s - sum x_i| / sum |x_i|: the smallest relative change of the terms that makes s their exact sum."""
    x = exact_array(x).reshape(-1)
    return _ratio(_difference(exact_array(s)[()], exact_sum(x, None)), exact_sum(np.abs(x), None))


def dot_backward_error(s, x, y):
    """|s - x.y| / (|x|.|y|) along the last axis: for s = A x the componentwise backward error of each row."""
    x, y = np.asarray(x), np.asarray(y)
    exact, size = exact_dot(x, y, None), exact_dot(np.abs(x), np.abs(y), None)
    return _each(lambda a, b, c: _ratio(_difference(a, b), c), s, exact, size)


__all__ = [
    "absolute_error",
    "digits",
    "dot_backward_error",
    "dot_condition",
    "relative_error",
    "sum_backward_error",
    "sum_condition",
    "ulp_error",
]
