"""Rounding to a format: the one definition, in integers. Every fast form elsewhere is tested equal to it.

An exact non-zero number is (negative, exponent, high, low): its magnitude is (high + low * 2**-62) * 2**(exponent - 61)
with 2**61 <= high < 2**62 and 0 <= low < 2**62. The last bit of `low` is jammed: it is set if anything non-zero lies
below, so that ties are never decided on a truncated tail.

Magnitudes of a format lie on a line of codes 0, 1, 2, ... that goes on upwards without end; rounding picks the code at
or below the number, or the next one. What lies beyond the largest finite code then overflows.

The functions run in plain Python, compiled on the CPU, and compiled for CUDA: all integers fit in a signed 64-bit word.

Source: IEEE 754-2019, sections 4.3 and 7.4; P3109 interim report v4.0 (stochastic variants A, B, C).
"""

import difflib
from enum import Enum, EnumMeta

from softfloat._jit import both
from softfloat.format import (
    EMIN,
    FLAGS,
    FLUSH,
    GRADUAL,
    INFINITY_CODE,
    MANTISSA_BITS,
    MAX_CODE,
    NAN_EXISTS,
    NAN_QUOTIENTS,
    NORMAL,
    SATURATES,
    SCALE,
    SIGNED,
    UNDERFLOW,
)

WORD = 62  # bits in `high` and in `low`
TOP = 1 << (WORD - 1)
MASK = (1 << WORD) - 1

EVEN, AWAY, ZERO, POSITIVE, NEGATIVE, ODD, STOCHASTIC, EQUAL = range(8)
NO_SATURATION, FINITE, PROPAGATE = range(3)
VARIANT_A, VARIANT_B, VARIANT_C = range(3)
INEXACT, UNDERFLOWED, OVERFLOWED, DIVIDED_BY_ZERO, INVALID = 1, 2, 4, 8, 16
TINY_BEFORE = 32  # tiny before rounding, for the other rule of underflow
ZERO_CLASS, FINITE_CLASS, INFINITE_CLASS, QUIET_CLASS, SIGNALING_CLASS = range(5)
NAN = -1  # stands for a NaN where a magnitude code is expected
NO_RESULT = -2  # a negative number in an unsigned format without NaN


class RoundingMeta(EnumMeta):
    """The type of the class, of its own so that numba can tell it (softfloat.numba_types.options)."""


class Rounding(Enum, metaclass=RoundingMeta):
    """The rounding modes; every function also takes the string or an alias (RNE, RNA, RTZ, RTP, RTN, SR, ...)."""

    TIES_TO_EVEN = "ties_to_even"
    TIES_TO_AWAY = "ties_to_away"
    TOWARD_ZERO = "toward_zero"
    TOWARD_POSITIVE = "toward_positive"
    TOWARD_NEGATIVE = "toward_negative"
    TO_ODD = "to_odd"
    STOCHASTIC = "stochastic"
    STOCHASTIC_EQUAL = "stochastic_equal"

    def __str__(self):
        return self.value

    @property
    def mode(self):
        """The integer that compiled code knows this mode by."""
        return MODES[self]


MODES = {name: code for code, name in enumerate(Rounding)}
_ALIASES = {
    "nearest": Rounding.TIES_TO_EVEN,
    "truncate": Rounding.TOWARD_ZERO,
    "rne": Rounding.TIES_TO_EVEN,
    "rna": Rounding.TIES_TO_AWAY,
    "rtz": Rounding.TOWARD_ZERO,
    "rtp": Rounding.TOWARD_POSITIVE,
    "rtn": Rounding.TOWARD_NEGATIVE,
    "sr": Rounding.STOCHASTIC,
}
_ALIASES |= {mode.value: mode for mode in Rounding}


def as_rounding(spec):
    """The Rounding that a member, its string or an alias names; ValueError with near matches otherwise."""
    if isinstance(spec, Rounding):
        return spec
    if not isinstance(spec, str):
        raise TypeError(
            f"rounding must be a softfloat.Rounding or its name, got {type(spec).__name__}"
        )
    found = _ALIASES.get(spec.strip().lower().replace("-", "_").replace(" ", "_"))
    if found is None:
        near = difflib.get_close_matches(spec.lower(), _ALIASES, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ValueError(
            f"unknown rounding {spec!r}; {hint}Choose from " + ", ".join(map(str, Rounding))
        )
    return found


@both
def discard(high, low, shift):
    """Cut the magnitude `shift` >= 1 bits above the end of `high`.

    Returns (kept integer, top 62 bits of the discarded fraction, 1 if anything non-zero lies below those).
    """
    if shift < WORD:
        kept = high >> shift
        fraction = ((high & ((1 << shift) - 1)) << (WORD - shift)) | (low >> shift)
        rest = low & ((1 << shift) - 1)
    elif shift < 2 * WORD:
        kept = 0
        fraction = high >> (shift - WORD)
        rest = (high & ((1 << (shift - WORD)) - 1)) | low
    else:
        kept = 0
        fraction = 0
        rest = 1
    return kept, fraction, 1 if rest != 0 else 0


@both
def rounds_away(mode, negative, odd, fraction, rest, word, random_bits, variant):
    """Whether a magnitude with this discarded fraction goes to the next code away from zero.

    odd : parity of the code below.  fraction, rest : as from `discard`.  word : random integer in [0, 2**random_bits).
    """
    inexact = fraction != 0 or rest != 0
    if mode == EVEN:
        return fraction > TOP or (fraction == TOP and (rest != 0 or odd))
    if mode == AWAY:
        return fraction >= TOP
    if mode == ZERO:
        return False
    if mode == POSITIVE:
        return inexact and not negative
    if mode == NEGATIVE:
        return inexact and negative
    if mode == ODD:
        return inexact and not odd
    if mode == EQUAL:
        return inexact and word >= (1 << (random_bits - 1))
    if variant == VARIANT_B:
        return (fraction >> (WORD - 1 - random_bits)) + 2 * word + 1 >= (1 << (random_bits + 1))
    steps = fraction >> (WORD - random_bits)
    if variant == VARIANT_C:
        tail = fraction & ((1 << (WORD - random_bits)) - 1)
        half = 1 << (WORD - 1 - random_bits)
        if tail > half or (tail == half and (rest != 0 or (steps & 1) == 1)):
            steps += 1
    return steps + word >= (1 << random_bits)


@both
def overflow_code(negative, F, mode, saturate):
    """The magnitude code of a number whose rounding lies beyond the largest finite one (IEEE 754-2019, 7.4)."""
    if (
        saturate != NO_SATURATION
        or (F[FLAGS] & SATURATES) != 0
        or mode == ZERO
        or (mode == POSITIVE and negative)
        or (mode == NEGATIVE and not negative)
        or (mode == ODD and (F[MAX_CODE] & 1) == 1)
    ):
        return F[MAX_CODE]
    if F[INFINITY_CODE] >= 0:
        return F[INFINITY_CODE]
    return NAN


@both
def infinity_code(F, saturate):
    """The magnitude code of an infinite operand or of an exact infinity such as 1/0."""
    no_infinity = F[INFINITY_CODE] < 0
    if saturate == FINITE or (F[FLAGS] & SATURATES) != 0 or (saturate == PROPAGATE and no_infinity):
        return F[MAX_CODE]
    return NAN if no_infinity else F[INFINITY_CODE]


@both
def ratio_to_smallest(exponent, high, low, F):
    """(fraction, rest) of x / smallest for 0 < x < smallest = (2**m + 1) * 2**(emin - m), by long division.

    The only place where the discarded fraction of a binary number is not itself binary (formats without the code of
    2**emin, such as DLFloat).
    """
    divisor = (1 << F[MANTISSA_BITS]) + 1
    used = WORD + 1 + exponent - F[EMIN] + F[MANTISSA_BITS]  # leading bits that reach the quotient
    fraction = 0
    remainder = 0
    rest = 0
    for i in range(2 * WORD):
        if i < WORD:
            bit = (high >> (WORD - 1 - i)) & 1
        else:
            bit = (low >> (2 * WORD - 1 - i)) & 1
        if i < used:
            remainder = 2 * remainder + bit
            fraction = 2 * fraction
            if remainder >= divisor:
                remainder -= divisor
                fraction += 1
        else:
            rest |= bit
    return fraction, 1 if remainder != 0 or rest != 0 else 0


@both
def round_below_smallest(negative, exponent, high, low, F, mode, word, random_bits, variant):
    """The code, 0 or that of the smallest positive value, for a number below it in a format without subnormals."""
    m = F[MANTISSA_BITS]
    if F[UNDERFLOW] == SCALE:
        return 0  # the scale has no zero: ml_dtypes gives its smallest power
    if F[UNDERFLOW] == FLUSH:
        # Rounded as if the exponent had no bound; zero unless that reaches the smallest normal.
        kept, fraction, rest = discard(high, low, WORD - 1 - m)
        up = rounds_away(
            mode, negative, (kept & 1) == 1, fraction, rest, word, random_bits, variant
        )
        reached = up and kept + 1 == (2 << m) and exponent == F[EMIN] - 1
        return 1 << m if reached else 0
    if F[UNDERFLOW] == NORMAL:
        smallest = 1
        fraction, rest = ratio_to_smallest(exponent, high, low, F)
    else:
        smallest = 1 << m
        _, fraction, rest = discard(high, low, WORD - 1 + F[EMIN] - exponent)
    up = rounds_away(mode, negative, False, fraction, rest, word, random_bits, variant)
    return smallest if up else 0


@both
def is_tiny(negative, exponent, high, low, F, mode, word, random_bits, variant):
    """Whether a number below 2**emin stays below it when rounded with unbounded exponent (tiny after rounding)."""
    if exponent < F[EMIN] - 1:
        return True
    kept, fraction, rest = discard(high, low, WORD - 1 - F[MANTISSA_BITS])
    up = rounds_away(mode, negative, (kept & 1) == 1, fraction, rest, word, random_bits, variant)
    return not (up and kept + 1 == (2 << F[MANTISSA_BITS]))


@both
def round_number(negative, exponent, high, low, F, mode, saturate, word, random_bits, variant):
    """Round an exact non-zero number to a format: (magnitude code, flags). The one definition.

    F : Format.parameters or .record.  mode, saturate, variant : the integers of this module.
    The code may be NAN (overflow in a format without infinity) or NO_RESULT (negative, in an unsigned format
    without NaN). Flags are INEXACT, UNDERFLOWED (tiny after rounding), TINY_BEFORE and OVERFLOWED.
    """
    m = F[MANTISSA_BITS]
    emin = F[EMIN]
    flags = 0
    no_zero_field = 1 if F[UNDERFLOW] >= NORMAL else 0  # codes of exponent field 0 are normal there
    bounded = max(exponent, emin)
    if exponent - emin >= (F[MAX_CODE] >> m) + no_zero_field:
        bounded = exponent = emin  # far beyond the end: any code above the largest will do
        kept, fraction, rest = F[MAX_CODE] + 1 + (no_zero_field << m), 0, 0
    else:
        kept, fraction, rest = discard(high, low, WORD - 1 - m + bounded - exponent)
    code = ((bounded - emin) << m) + kept - (no_zero_field << m)
    inexact = fraction != 0 or rest != 0
    if F[UNDERFLOW] != GRADUAL and (exponent < emin or (F[UNDERFLOW] == NORMAL and code == 0)):
        code = round_below_smallest(
            negative, exponent, high, low, F, mode, word, random_bits, variant
        )
        flags = INEXACT | UNDERFLOWED | TINY_BEFORE
    else:
        # Both neighbours of a tie between powers of two are odd; the scale then takes the larger.
        odd = (code & 1) == 1 or (F[UNDERFLOW] == SCALE and mode == EVEN)
        if F[UNDERFLOW] == SCALE and mode == EVEN and exponent == emin and inexact:
            code += 1  # between its two smallest powers ml_dtypes always takes the larger
        elif rounds_away(mode, negative, odd, fraction, rest, word, random_bits, variant):
            code += 1
        if inexact:
            flags = INEXACT
            if exponent < emin:
                flags |= TINY_BEFORE
                if is_tiny(negative, exponent, high, low, F, mode, word, random_bits, variant):
                    flags |= UNDERFLOWED
    if code > F[MAX_CODE]:
        code = overflow_code(negative, F, mode, saturate)
        flags = INEXACT | OVERFLOWED
    if negative and (F[FLAGS] & SIGNED) == 0 and (code > 0 or F[UNDERFLOW] == SCALE or code == NAN):
        code = negative_in_unsigned(F)
    return code, flags


@both
def negative_in_unsigned(F):
    """What stands for a negative number in an unsigned format: NaN, or nothing where there is none."""
    return NAN if F[NAN_EXISTS] != 0 else NO_RESULT


@both
def round_quantum(negative, exponent, high, low, last, mode, word, random_bits, variant):
    """Round an exact non-zero number to a multiple of 2**last: (count of quanta, 1 if inexact).

    Counts beyond 62 bits are the caller's to avoid: exponent - last must be below 62.
    """
    shift = WORD - 1 - (exponent - last)
    if shift < 1:
        return high << -shift, 0
    kept, fraction, rest = discard(high, low, shift)
    if rounds_away(mode, negative, (kept & 1) == 1, fraction, rest, word, random_bits, variant):
        kept += 1
    return kept, 1 if fraction != 0 or rest != 0 else 0


@both
def round_parts(
    kind, negative, exponent, high, low, flags, F, mode, saturate, word, random_bits, variant
):
    """Round any exact result, of whatever class, to a format: (magnitude code, flags).

    kind : one of the five classes.  flags : those the operation raised (INVALID, DIVIDED_BY_ZERO).
    """
    if kind == FINITE_CLASS:
        code, raised = round_number(
            negative, exponent, high, low, F, mode, saturate, word, random_bits, variant
        )
        return code, flags | raised
    if kind == ZERO_CLASS:
        return NAN if F[UNDERFLOW] == SCALE else 0, flags
    if kind == INFINITE_CLASS:
        if flags != 0 and (F[FLAGS] & NAN_QUOTIENTS) != 0:
            return NAN, INVALID  # P3109: a number over zero is NaN
        if negative and (F[FLAGS] & SIGNED) == 0:
            return negative_in_unsigned(F), flags
        return infinity_code(F, saturate), flags
    return NAN, flags
