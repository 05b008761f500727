"""Codes, values and exact numbers: taking them apart and putting them together, in integers only.

Working on bit patterns keeps signaling NaNs, signed zeros and subnormals intact even where a library has switched the
processor to flush subnormals.
"""

from softfloat._jit import both
from softfloat.bits import bit_length
from softfloat.format import (
    EMIN,
    FLAGS,
    FLUSH,
    GRID,
    INFINITY_CODE,
    MAGNITUDE_BITS,
    MANTISSA_BITS,
    NAN_CODE,
    NEGATIVE_ZERO,
    NORMAL,
    SCALE,
    SIGNED_NAN,
    UNDERFLOW,
)
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    NAN,
    NO_RESULT,
    QUIET_CLASS,
    SIGNALING_CLASS,
    WORD,
    ZERO_CLASS,
)


@both
def unpack(bits, carrier_mantissa, carrier_exponent):
    """Take apart the bits of a float32 or float64 given as a signed integer.

    Returns (class, negative, exponent, high); see softfloat.rounding for the last two. `high` has its top bit at 61.
    """
    magnitude = bits & ((1 << (carrier_mantissa + carrier_exponent)) - 1)
    negative = bits < 0
    field = magnitude >> carrier_mantissa
    fraction = magnitude & ((1 << carrier_mantissa) - 1)
    bias = (1 << (carrier_exponent - 1)) - 1
    if field == 2 * bias + 1:
        if fraction == 0:
            return INFINITE_CLASS, negative, 0, 0
        if fraction >> (carrier_mantissa - 1):
            return QUIET_CLASS, negative, 0, 0
        return SIGNALING_CLASS, negative, 0, 0
    if magnitude == 0:
        return ZERO_CLASS, negative, 0, 0
    if field == 0:
        width = bit_length(fraction)
        return FINITE_CLASS, negative, width - carrier_mantissa - bias, fraction << (WORD - width)
    significand = fraction | (1 << carrier_mantissa)
    return FINITE_CLASS, negative, field - bias, significand << (WORD - 1 - carrier_mantissa)


@both
def parts_of_code(code, F):
    """(integer significand, exponent of its last place) of a finite magnitude code."""
    m = F[MANTISSA_BITS]
    field = code >> m
    fraction = code & ((1 << m) - 1)
    if F[UNDERFLOW] >= NORMAL:
        if code == 0 and F[UNDERFLOW] != SCALE:
            return 0, 0
        return fraction + (1 << m), F[EMIN] + field - m
    if field == 0:
        if F[UNDERFLOW] == FLUSH or F[UNDERFLOW] == GRID:
            return 0, 0
        return fraction, F[EMIN] - m
    return fraction + (1 << m), F[EMIN] + field - 1 - m


@both
def carrier_bits(significand, exponent, carrier_mantissa, carrier_exponent):
    """The magnitude bits of significand * 2**exponent, which must be a value of the carrier."""
    if significand == 0:
        return 0
    width = bit_length(significand)
    bias = (1 << (carrier_exponent - 1)) - 1
    top = width - 1 + exponent
    if top < 1 - bias:
        position = exponent + bias - 1 + carrier_mantissa
        return significand << position if position >= 0 else significand >> -position
    shift = carrier_mantissa + 1 - width
    aligned = significand << shift if shift >= 0 else significand >> -shift
    return ((top + bias - 1) << carrier_mantissa) + aligned


@both
def to_carrier(negative, code, F, carrier_mantissa, carrier_exponent):
    """The bits, as a signed integer, of the carrier value of a magnitude code (or NAN, NO_RESULT) and a sign."""
    infinity = ((1 << carrier_exponent) - 1) << carrier_mantissa
    sign = -(1 << (carrier_mantissa + carrier_exponent))
    if code == NAN or code == NO_RESULT:
        quiet = infinity | (1 << (carrier_mantissa - 1))
        return quiet | sign if negative and (F[FLAGS] & SIGNED_NAN) != 0 else quiet
    if code == F[INFINITY_CODE]:
        return infinity | sign if negative else infinity
    significand, exponent = parts_of_code(code, F)
    bits = carrier_bits(significand, exponent, carrier_mantissa, carrier_exponent)
    if negative and (bits != 0 or (F[FLAGS] & NEGATIVE_ZERO) != 0):
        return bits | sign
    return bits


@both
def to_code(negative, code, F):
    """The whole code, sign included, as a signed 64-bit integer; NaN becomes the canonical NaN (or -1 without one)."""
    sign = 1 << F[MAGNITUDE_BITS]
    if code == NAN or code == NO_RESULT:
        signed = negative and (F[FLAGS] & SIGNED_NAN) != 0
        return F[NAN_CODE] | sign if signed else F[NAN_CODE]
    if negative and (code != 0 or (F[FLAGS] & NEGATIVE_ZERO) != 0):
        return code | sign
    return code
