"""Floored and truncated quotients of floats, and what they leave: the quick forms, where float64 holds them exactly."""

import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import UNKNOWN, enter_standard_arithmetic, leave_standard_arithmetic

SAFE = (
    2.0**51
)  # below, the rounding of a quotient in float64 leaves no doubt about its integer part


@jit
def remainders(a, b, floored, out):
    """a - floor(a / b) * b (or trunc); False if one is special or not exact in the dtype of out, or b is zero."""
    former = enter_standard_arithmetic()
    good = former != UNKNOWN
    for i in range(out.size):
        x, y = float(a[i]), float(b[i])
        good &= (abs(x) < math.inf) & (abs(y) < math.inf) & (y != 0.0)
        rest = np.fmod(x, y)  # exact, as that of the C library is
        z = rest
        if floored & (rest != 0.0) & ((rest < 0.0) != (y < 0.0)):
            z = rest + y
            # Exact unless one of the two differences (of Knuth's TwoSum) tells otherwise.
            part = z - rest
            good &= (y == part) & (rest == z - part)
        out[i] = math.copysign(0.0, y) if floored & (z == 0.0) else z
        good &= float(out[i]) == z
    leave_standard_arithmetic(former)
    return good


@jit
def floored_quotients(a, b, out):
    """floor(a / b), the exact quotient floored; False if one is special, large or not exact in out, or b is zero."""
    former = enter_standard_arithmetic()
    good = former != UNKNOWN
    for i in range(out.size):
        x, y = float(a[i]), float(b[i])
        good &= (abs(x) < math.inf) & (abs(y) < math.inf) & (y != 0.0)
        quotient = x / y
        good &= abs(quotient) < SAFE
        rest = np.fmod(x, y)
        # For large x and small y the difference is rounded, but the integer next to the quotient is the same.
        whole = np.rint((x - rest) / y)
        if (rest != 0.0) & ((rest < 0.0) != (y < 0.0)):
            whole -= 1.0
        out[i] = math.copysign(0.0, quotient) if whole == 0.0 else whole
        good &= float(out[i]) == whole
    leave_standard_arithmetic(former)
    return good


__all__ = ["SAFE", "floored_quotients", "remainders"]
