"""NumPy's %, //, fmod and divmod: quotients and remainders from the exact quotient, each result rounded once.

The quotient is floored (%, //, divmod) or truncated (fmod) as an exact number; NumPy's own loops round on the way.
"""

import math
from fractions import Fraction

import numpy as np

from softfloat import functional
from softfloat.array.processor import standard
from softfloat.backends.division import SAFE, floored_quotients, remainders
from softfloat.operands import FLOAT64


def _pair(a, b):
    """Both in float64 and of one shape; every value is a float64."""
    a, b = a.astype(FLOAT64), b.astype(FLOAT64)
    return (a, b) if a.shape == b.shape else np.broadcast_arrays(a, b)


def _quickly(run, a, b, *more):
    """The exact results of a loop in the carrier; None where it does not apply."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    exact = np.empty(a.shape, a.dtype)
    done = run(a.reshape(-1), b.reshape(-1), *more, exact.reshape(-1))
    return exact if done else None


@standard
def fmod(a, b, fmt, **options):
    """a - trunc(a / b) * b; the sign is that of a."""
    quick = _quickly(remainders, a, b, False)
    if quick is not None:
        return functional.quantize(quick, fmt, **options)
    with np.errstate(all="ignore"):
        rest = np.fmod(*_pair(a, b))  # exact, as fmod of the C library is
    return functional.quantize(rest, fmt, **options)


@standard
def remainder(a, b, fmt, **options):
    """a - floor(a / b) * b; the sign is that of b, of a zero too. NaN for b = 0."""
    quick = _quickly(remainders, a, b, True)
    if quick is not None:
        return functional.quantize(quick, fmt, **options)
    with np.errstate(all="ignore"):
        a, b = _pair(a, b)
        rest = np.fmod(a, b)
        turned = (rest != 0) & ((rest < 0) != (b < 0))
        # What is left has the bits of a value, if perhaps below the range of a format without subnormals.
        dtype = fmt.carrier if fmt.subnormals is True else FLOAT64
        part, whole = rest.astype(dtype), np.where(turned, b, 0.0).astype(dtype)
    result = functional.add(part, whole, fmt, **options)
    zero = np.copysign(result.dtype.type(0), b) if fmt.has_negative_zero else 0.0
    return np.where((rest == 0) & fmt.has_zero, zero, result).astype(fmt.carrier)


@standard
def floor_divide(a, b, fmt, **options):
    """floor(a / b), the exact quotient floored; a / 0 as division has it, NaN for an infinite a."""
    quick = _quickly(floored_quotients, a, b)
    if quick is not None:
        return functional.quantize(quick, fmt, **options)
    with np.errstate(all="ignore"):
        a, b = _pair(a, b)
        quotient = a / b
        rest = np.fmod(a, b)
        usual = np.isfinite(a) & (b != 0) & (b == b)
        finite = usual & np.isfinite(b)
        whole = np.where(finite, np.rint((a - rest) / b), 0.0)
        whole -= (rest != 0) & ((rest < 0) != (b < 0))
    whole = np.where(usual, whole, np.where(b == 0, quotient, np.nan))
    whole = np.where(whole == 0, np.copysign(0.0, quotient), whole)
    far = finite & ~(np.abs(quotient) < SAFE)
    exact = _floored(whole, a, b, far) if far.any() else whole
    result = functional.quantize(exact, fmt, **options)
    if (b == 0).any():  # flags, and formats in which such a quotient is NaN
        result = np.where(b == 0, functional.divide(a, np.where(b == 0, b, 1.0), fmt), result)
    return result.astype(fmt.carrier, copy=False)


def _floored(whole, a, b, far):
    """The quotients as exact integers where float64 does not hold them."""
    exact = whole.astype(object)
    for place in map(tuple, np.argwhere(far)):
        exact[place] = math.floor(Fraction(float(a[place])) / Fraction(float(b[place])))
    return exact


def divmod_values(a, b, fmt, **options):
    return floor_divide(a, b, fmt, **options), remainder(a, b, fmt, **options)
