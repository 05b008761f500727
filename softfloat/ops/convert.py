"""Roundings that are operations of their own: to an integral value, and by a power of two; exact until rounded."""

from softfloat._jit import both
from softfloat.bits import bit_length
from softfloat.rounding import (
    FINITE_CLASS,
    INEXACT,
    INVALID,
    QUIET_CLASS,
    SIGNALING_CLASS,
    WORD,
    ZERO_CLASS,
    round_quantum,
)


@both
def integral_parts(kind, negative, exponent, high, mode, word, random_bits, variant):
    """Round to an integral value, in the precision of integers: (class, negative, exponent, high, low, flags)."""
    if kind == SIGNALING_CLASS:
        return QUIET_CLASS, negative, 0, 0, 0, INVALID
    if kind != FINITE_CLASS or exponent >= WORD - 1:
        return kind, negative, exponent, high, 0, 0
    count, inexact = round_quantum(
        negative, exponent, high, 0, 0, mode, word, random_bits, variant
    )
    flags = INEXACT if inexact != 0 else 0
    if count == 0:
        return ZERO_CLASS, negative, 0, 0, 0, flags
    width = bit_length(count)
    return FINITE_CLASS, negative, width - 1, count << (WORD - width), 0, flags


@both
def scaled_parts(kind, negative, exponent, high, places):
    """x * 2**places."""
    if kind == SIGNALING_CLASS:
        return QUIET_CLASS, negative, 0, 0, 0, INVALID
    return kind, negative, exponent + places, high, 0, 0
