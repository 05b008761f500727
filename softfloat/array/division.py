"""NumPy's %, //, fmod and divmod: quotients and remainders from the exact quotient, each result rounded once.

The quotient is floored (%, //, divmod) or truncated (fmod) as an exact number; NumPy's own loops round on the way.
"""

import math
from fractions import Fraction

import numpy as np

from softfloat import functional
from softfloat.array.mixing import wide

_SAFE = (
    2.0**51
)  # below, the rounding of a quotient in float64 leaves no doubt about its integer part


def _truncated(a, b):
    """a - trunc(a / b) * b in float64: exact, as fmod of the C library is."""
    with np.errstate(all="ignore"):
        return np.fmod(a, b)


def fmod(a, b, fmt, **options):
    """a - trunc(a / b) * b; the sign is that of a."""
    return functional.quantize(_truncated(wide(a), wide(b)), fmt, **options)


def remainder(a, b, fmt, **options):
    """a - floor(a / b) * b; the sign is that of b, of a zero too. NaN for b = 0."""
    a, b = np.broadcast_arrays(wide(a), wide(b))
    rest = _truncated(a, b)
    turned = (rest != 0) & (np.signbit(rest) != np.signbit(b))
    result = np.asarray(functional.add(rest, np.where(turned, b, 0.0), fmt, **options))
    zero = np.asarray(functional.quantize(np.copysign(0.0, b), fmt))
    return np.where(rest == 0, zero, result).astype(fmt.carrier)


def floor_divide(a, b, fmt, **options):
    """floor(a / b), the exact quotient floored; a / 0 as division has it, NaN for an infinite a."""
    a, b = np.broadcast_arrays(wide(a), wide(b))
    with np.errstate(all="ignore"):
        quotient = a / b
        rest = _truncated(a, b)
        usual = np.isfinite(a) & (b != 0) & ~np.isnan(b)
        whole = np.where(usual & np.isfinite(b), np.rint((a - rest) / b), 0.0)
    turned = (rest != 0) & (np.signbit(rest) != np.signbit(b))
    whole = np.where(usual, whole - turned, np.where(b == 0, quotient, np.nan))
    whole = np.where(whole == 0, np.copysign(0.0, quotient), whole)
    far = usual & np.isfinite(b) & ~(np.abs(quotient) < _SAFE)
    exact = whole
    if far.any():
        exact = whole.astype(object)
        for place in map(tuple, np.argwhere(far)):
            exact[place] = math.floor(Fraction(float(a[place])) / Fraction(float(b[place])))
    result = np.asarray(functional.quantize(exact, fmt, **options))
    if (b == 0).any():  # flags, and formats in which such a quotient is NaN
        result = np.where(b == 0, functional.divide(a, np.where(b == 0, b, 1.0), fmt), result)
    return result.astype(fmt.carrier)


def divmod_values(a, b, fmt, **options):
    return floor_divide(a, b, fmt, **options), remainder(a, b, fmt, **options)
