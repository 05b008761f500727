"""What the numbers of an array have in common: how large they are, and how many digits they need."""

from typing import NamedTuple

import numpy as np

from softfloat._jit import jit
from softfloat.bits import (
    UNKNOWN,
    and_,
    bit_length,
    enter_standard_arithmetic,
    infinity_like,
    leave_standard_arithmetic,
    magnitude,
    one_like,
    or_,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    zero_like,
)


class Span(NamedTuple):
    """What is known of the finite numbers of an array.

    largest : magnitude.   least : the smallest place that holds a digit, as a power of two (inf if all are zero).
    digits : most significant digits of a number.   special : whether there are infinities or NaNs besides.
    """

    largest: float
    least: float
    digits: int
    special: bool


@jit
def _widened(magnitude_bits, short):
    """The float64 of magnitude bits of a float32 (short) or of itself, by integers: nothing is flushed on the way."""
    u = np.int64(magnitude_bits)
    if short:
        exponent, fraction = u >> 23, u & 0x7FFFFF
        if exponent == 0xFF:
            exponent = 0x7FF
        elif exponent > 0:
            exponent += 1023 - 127
        elif fraction > 0:
            length = bit_length(fraction)
            exponent = 1023 - 150 + length
            fraction = (fraction << (24 - length)) & 0x7FFFFF
        u = exponent << 52 | fraction << 29
    return to_float(np.uint64(u))


@jit
def survey_numbers(x):
    """What a Span holds: largest finite magnitude, least place of a digit, most digits, whether some are not finite."""
    former = enter_standard_arithmetic()
    none = zero_like(to_bits(x.dtype.type(0)))
    infinity = infinity_like(none)
    digits, largest, least = none, none, infinity
    special = none
    field = sub(and_(infinity, sub(none, infinity)), one_like(none))
    for i in range(x.size):
        m = magnitude(to_bits(x[i]))
        finite = m < infinity
        special = or_(special, none if finite else one_like(none))
        m = m if finite else none
        largest = umax(largest, m)
        part = and_(m, field)
        digits = or_(digits, part)
        without = and_(m, sub(m, one_like(m)))  # the last digit taken away
        last = to_bits(to_float(m) - to_float(without))
        last = m if part == none else last
        least = umin(least, infinity if m == none else last)
    if former != UNKNOWN:
        leave_standard_arithmetic(former)
    short = x.itemsize == 4
    together = np.int64(digits)
    longest = 24 if short else 53
    trailing = bit_length(together & -together) - 1 if together else longest - 1
    return _widened(largest, short), _widened(least, short), longest - trailing, special != none


def survey(x):
    """The Span of a contiguous array of a carrier."""
    return Span(*survey_numbers(x.reshape(-1)))
