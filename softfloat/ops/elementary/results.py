"""Results of elementary functions: (class, negative, exponent, high, low, flags, known), to be rounded once.

`known` counts the leading bits that an error leaves right up to a carry; DECIDED says that the result is exact, or that
its last bit stands for a remainder that no format sees.
"""

from softfloat._jit import both
from softfloat.ops.arithmetic import exact_quotient
from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    MASK,
    QUIET_CLASS,
    SIGNALING_CLASS,
    TOP,
    WORD,
    ZERO_CLASS,
)

DECIDED = 2 * WORD
KNOWN = 106  # bits of a computed result: every error below is under 2**-107 of it
# Below 2**-TINY a function differs from its first term by less than 2**-90 of it: quadratic or linear next terms.
TINY = 46
TINY_LINEAR = 92
# A quotient of float64 numbers that is not a boundary of a rounding to 53 bits and 32 random ones is 2**-139 of itself
# away from it: below 2**-TINY_QUOTIENT the cube of one is less than that.
TINY_QUOTIENT = 71


@both
def computed(negative, exponent, high, low):
    return FINITE_CLASS, negative, exponent, high, low, 0, KNOWN


@both
def exactly(negative, exponent, high, low):
    return FINITE_CLASS, negative, exponent, high, low, 0, DECIDED


@both
def one(negative):
    return FINITE_CLASS, negative, 0, TOP, 0, 0, DECIDED


@both
def zero(negative):
    return ZERO_CLASS, negative, 0, 0, 0, 0, DECIDED


@both
def infinite(negative):
    return INFINITE_CLASS, negative, 0, 0, 0, 0, DECIDED


@both
def pole(negative):
    """An exact infinity from a finite operand."""
    return INFINITE_CLASS, negative, 0, 0, 0, DIVIDED_BY_ZERO, DECIDED


@both
def undefined():
    return QUIET_CLASS, False, 0, 0, 0, INVALID, DECIDED


@both
def nan_of(kind):
    """The result of an operation on a NaN."""
    return QUIET_CLASS, False, 0, 0, 0, INVALID if kind == SIGNALING_CLASS else 0, DECIDED


@both
def special(kind, at_infinity, at_zero):
    """The result at an operand that is not a finite number other than zero: these two, or the NaN of an operation."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    return at_infinity if kind == INFINITE_CLASS else at_zero


@both
def just_beside(negative, exponent, high, larger):
    """A number whose magnitude is a hair larger or smaller than (exponent, high), a float64."""
    if larger:
        return FINITE_CLASS, negative, exponent, high, 1, 0, DECIDED
    if high == TOP:
        return FINITE_CLASS, negative, exponent - 1, MASK, MASK, 0, DECIDED
    return FINITE_CLASS, negative, exponent, high - 1, MASK, 0, DECIDED


@both
def odd_part(exponent, high):
    """(m, k) with m odd and m * 2**k the magnitude, one of at most 53 bits."""
    k = exponent - WORD + 1
    while (high & 1) == 0:
        high >>= 1
        k += 1
    return high, k


@both
def is_integer(exponent, high):
    """Whether a float64's magnitude is an integer."""
    if exponent < 0 or exponent >= WORD:
        return exponent >= 0
    return (high & ((1 << (WORD - 1 - exponent)) - 1)) == 0


@both
def beyond_one(kind, exponent, high):
    """Whether a magnitude is above 1."""
    return kind == INFINITE_CLASS or (
        kind == FINITE_CLASS and (exponent > 0 or (exponent == 0 and high > TOP))
    )


@both
def just_below_quotient(negative, ey, hy, ex, hx):
    """y/x less a hair, for two float64 magnitudes."""
    exponent, high, low = exact_quotient(ey, hy, ex, hx)
    if (low & 1) == 0:  # exact
        if low == 0 and high == TOP:
            return FINITE_CLASS, negative, exponent - 1, MASK, MASK, 0, DECIDED
        if low == 0:
            high -= 1
            low = MASK + 1
        low -= 1
    return FINITE_CLASS, negative, exponent, high, low, 0, DECIDED
