"""Roundings of their own: to an integral value, by a power of two, to integers, to fixed point.

`round_any` rounds an exact result of any class to whatever the record describes; loops call it.
"""

from softfloat._jit import both
from softfloat.bits import bit_length
from softfloat.fixed_point import FIXED, WRAPS, lowest_code
from softfloat.format import EMIN, FLAGS, MANTISSA_BITS, MAX_CODE, SIGNED
from softfloat.rounding import (
    FINITE_CLASS,
    INEXACT,
    INFINITE_CLASS,
    INVALID,
    MASK,
    NAN,
    NO_RESULT,
    NO_SATURATION,
    OVERFLOWED,
    QUIET_CLASS,
    SIGNALING_CLASS,
    STOCHASTIC,
    WORD,
    ZERO_CLASS,
    discard,
    round_parts,
    round_quantum,
    rounds_away,
)

HALF_WORD = 32
HALF_WORD_MASK = (1 << HALF_WORD) - 1


@both
def integral_parts(kind, negative, exponent, high, mode, word, random_bits, variant):
    """Round to an integral value: (class, negative, exponent, high, low, flags)."""
    if kind == SIGNALING_CLASS:
        return QUIET_CLASS, negative, 0, 0, 0, INVALID
    if kind != FINITE_CLASS or exponent >= WORD - 1:
        return kind, negative, exponent, high, 0, 0
    count, inexact = round_quantum(negative, exponent, high, 0, 0, mode, word, random_bits, variant)
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


# ---------------------------------------------------------------- to integers
@both
def cut_at_units(top, high, low):
    """Cut a magnitude with leading bit 2**top at its units, as `discard` cuts.

    Returns (whole part modulo 2**62, top 62 bits of the fraction, 1 if anything lies below those).
    """
    if top < WORD - 1:
        return discard(high, low, WORD - 1 - top)
    places = top - (WORD - 1)
    if places < WORD:
        whole = ((high & ((1 << (WORD - places)) - 1)) << places) | (low >> (WORD - places))
        return whole, (low & ((1 << (WORD - places)) - 1)) << places, 0
    if places < 2 * WORD:
        return (low & ((1 << (2 * WORD - places)) - 1)) << (places - WORD), 0, 0
    return 0, 0, 0


@both
def integer_halves(negative, exponent, high, low, mode, word, random_bits, variant):
    """A non-zero magnitude below 2**64 as an integer: (upper and lower 32 bits, 1 if inexact).

    The upper half may reach 2**32.
    """
    whole, fraction, rest = cut_at_units(exponent, high, low)
    upper = whole >> HALF_WORD if exponent < WORD else high >> (HALF_WORD - (exponent - WORD + 1))
    lower = whole & HALF_WORD_MASK
    if rounds_away(mode, negative, (lower & 1) == 1, fraction, rest, word, random_bits, variant):
        lower += 1
        if lower > HALF_WORD_MASK:
            lower = 0
            upper += 1
    return upper, lower, 1 if fraction != 0 or rest != 0 else 0


@both
def join_halves(negative, upper, lower):
    """The 64 bits of an integer, as a signed one, from its sign and the halves of its magnitude."""
    if negative:
        upper = HALF_WORD_MASK - upper if lower != 0 else HALF_WORD_MASK + 1 - upper
        lower = HALF_WORD_MASK + 1 - lower if lower != 0 else 0
    upper = upper & HALF_WORD_MASK
    if upper >> (HALF_WORD - 1):
        upper -= HALF_WORD_MASK + 1
    return (upper << HALF_WORD) + lower


@both
def integer_of(kind, negative, exponent, high, low, limits, mode, word, random_bits, variant):
    """(bits, flags) of any number as an integer: 0 and INVALID where none of the range will do.

    limits : upper and lower halves of the largest magnitudes of a positive and of a negative
    integer.
    """
    if kind == ZERO_CLASS:
        return 0, 0
    if kind != FINITE_CLASS or exponent >= 2 * HALF_WORD:
        return 0, INVALID
    upper, lower, inexact = integer_halves(
        negative, exponent, high, low, mode, word, random_bits, variant
    )
    end = 2 if negative else 0
    if upper > limits[end] or (upper == limits[end] and lower > limits[end + 1]):
        return 0, INVALID
    return join_halves(negative, upper, lower), INEXACT if inexact != 0 else 0


# ---------------------------------------------------------------- to fixed point
@both
def wrapped(negative, count, width, signed):
    """(negative, magnitude) of an integer modulo 2**width, from its magnitude modulo 2**62."""
    span = 1 << width
    count = count & (span - 1)
    if negative:
        count = (span - count) & (span - 1)
    if signed and count >> (width - 1):
        return True, span - count
    return False, count


@both
def round_fixed(negative, exponent, high, low, F, mode, saturate, word, random_bits, variant):
    """Round an exact non-zero number to a fixed-point format: (magnitude code, negative, flags).

    A number whose jammed tail would have to be known to wrap it gives NO_RESULT.
    """
    n = F[MANTISSA_BITS]
    signed = (F[FLAGS] & SIGNED) != 0
    largest = F[MAX_CODE]
    if negative:
        largest = lowest_code(F) if signed else 0
    top = exponent + n - F[EMIN]  # exponent of the number in units of the last place
    wraps = (F[FLAGS] & WRAPS) != 0 and saturate == NO_SATURATION
    if top >= WORD - 1 and not wraps:
        return largest, negative, INEXACT | OVERFLOWED
    # As many bits of the fraction decide; of the others, whether anything is there.
    seen = random_bits + 2 if mode >= STOCHASTIC else 2
    if wraps and top > 2 * WORD - 1 - seen and low & 1:
        return NO_RESULT, negative, 0
    count, fraction, rest = cut_at_units(top, high, low)
    if rounds_away(mode, negative, (count & 1) == 1, fraction, rest, word, random_bits, variant):
        count += 1
    flags = INEXACT if fraction != 0 or rest != 0 else 0
    if top < WORD - 1 and count <= largest:
        return count, negative, flags
    if not wraps:
        return largest, negative, INEXACT | OVERFLOWED
    negative, count = wrapped(negative, count & MASK, n + (1 if signed else 0), signed)
    return count, negative, INEXACT | OVERFLOWED


@both
def round_any(
    kind, negative, exponent, high, low, flags, F, mode, saturate, word, random_bits, variant
):
    """As `round_parts`, to floating or fixed point: (magnitude code, negative, flags)."""
    if (F[FLAGS] & FIXED) == 0:
        code, flags = round_parts(
            kind, negative, exponent, high, low, flags,
            F, mode, saturate, word, random_bits, variant,
        )  # fmt: skip
        return code, negative, flags
    if kind == FINITE_CLASS:
        code, negative, raised = round_fixed(
            negative, exponent, high, low, F, mode, saturate, word, random_bits, variant
        )
        return code, negative, flags | raised
    if kind == ZERO_CLASS:
        return 0, False, flags
    if kind == INFINITE_CLASS:
        if (F[FLAGS] & WRAPS) != 0 and saturate == NO_SATURATION:
            return NO_RESULT, negative, flags
        if not negative:
            return F[MAX_CODE], negative, flags
        return (lowest_code(F) if (F[FLAGS] & SIGNED) != 0 else 0), negative, flags
    return NAN, negative, flags


@both
def to_twos_complement(negative, code, F):
    """The code of a fixed-point number from its sign and magnitude code."""
    width = F[MANTISSA_BITS] + (1 if (F[FLAGS] & SIGNED) != 0 else 0)
    return (-code if negative else code) & ((1 << width) - 1)
