"""Rounding an operation's exact result to formats that leave float64 no room: the fast form of arithmetic there.

Formats up to binary64 itself, whose significand or exponent range is close to the carrier's, cannot first round to odd
in float64. Here the result is z + e: the float64 nearest to it, and its exact error e. In units of z's last place its
magnitude lies at or above the integer `below`: z's own, less one where the error points toward zero. One function,
`wide_core`, rounds `below` and what the error says about the rest to a multiple of 2**shift:

*in place*: `below` is the pattern of bits itself, exponent and sign included, and `shift` the same for every element.
Right where the result is a normal number of the format and no error underflows: its loop watches that.

*universal*: `below` is a significand of 53 bits beside an exponent of its own; `shift` grows below the normal range.

A stochastic decision adds the word to the discarded bits and keeps the carry. Word bits below z's last place meet the
error itself: the sign of error + (fraction - 1) * ulp, exact by one fused operation.

Source: Boldo and Muller (2011), as in softfloat.ops.error_free; the decision of the definition in softfloat.rounding.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from softfloat._jit import jit
from softfloat.bits import add, and_, fma, or_, shl, shr, sub, to_float, xor
from softfloat.fast import code_beyond, code_of_infinity, value_of_code
from softfloat.fixed_point import FixedPoint
from softfloat.format import (
    FLAGS,
    FLOAT64,
    FLUSH,
    GRADUAL,
    GRID,
    NAN_QUOTIENTS,
    SIGNED_NAN,
    UNDERFLOW,
)
from softfloat.rounding import AWAY, EVEN, ODD, STOCHASTIC, VARIANT_B, VARIANT_C, ZERO

NEVER, ALWAYS, PERHAPS = range(
    3
)  # whether bits of z itself are cut off: p = 53, below, the universal form
MAGNITUDE = (1 << 63) - 1
FIELD = (1 << 52) - 1
INFINITY = 0x7FF << 52
QUIET_NAN = INFINITY | 1 << 51
ONE_BITS = 1023 << 52
HIDDEN = 1 << 52
UNLIMITED = 1 << 20  # an exponent beyond all

# Entries of the array of constants, int64.
(
    SHIFT,  # bits of z that the format cuts off in its normal range
    LOWEST,  # emin; below it the grid keeps the quantum 2**FLOOR
    FLOOR,
    FLUSHED,  # results that stay below this binade become zeros
    SMALLEST,  # bits of 2**emin
    LARGEST,  # bits of the largest value
    OVERFLOW,  # of what lies beyond
    INFINITE,  # of what an infinite operand becomes
    WORD_KEEP,  # mask of the used bits of a word, at the top of 64
    WORD_END,  # the bit below them that variant B sets
    ZERO_SIGN,  # mask of the sign that a zero may have
    NAN_SIGN,  # and a NaN
    CONSTANTS,
) = range(13)


@dataclass(frozen=True)
class WideForm:
    """What the fast loop is compiled for.

    cut : whether bits of z are cut off.
    whole : the format's range is float64's own and overflow gives what float64 gives.
    fine : words have bits below z's last place.
    """

    mode: int
    cut: int
    whole: bool
    fine: bool
    negative_zero: bool


def wide_form(operation, fmt, mode, saturate, random_bits, variant):
    """The WideForm that rounds the results of an operation, or None outside the domain."""
    if isinstance(fmt, FixedPoint) or not fmt.signed or fmt.parameters[UNDERFLOW] > GRID:
        return None
    undefined = operation == "divide" and fmt.parameters[FLAGS] & NAN_QUOTIENTS
    m = fmt.mantissa_bits
    # With m = 0 a code's parity is that of its exponent.
    if m == 0 or undefined or not fmt.fits(FLOAT64.dtype) or variant == VARIANT_C:
        return None
    whole = (
        fmt.specials == "ieee"
        and fmt.subnormals is True
        and (fmt.emin, fmt.max_exponent) == (FLOAT64.emin, FLOAT64.emax)
        and not saturate
    )
    return WideForm(
        mode,
        ALWAYS if m < FLOAT64.mantissa_bits else NEVER,
        whole,
        mode == STOCHASTIC and random_bits + variant > FLOAT64.mantissa_bits - m,
        fmt.has_negative_zero,
    )


def wide_constants(fmt, mode, saturate, random_bits, variant):
    """The constants of a wide form, as one int64 array."""
    P = np.zeros(CONSTANTS, np.int64)
    underflow = fmt.parameters[UNDERFLOW]
    bits = lambda value: np.float64(value).view(np.int64)  # noqa: E731
    P[SHIFT] = FLOAT64.mantissa_bits - fmt.mantissa_bits
    P[LOWEST] = -UNLIMITED if underflow == FLUSH else fmt.emin
    P[FLOOR] = fmt.emin - (fmt.mantissa_bits if underflow == GRADUAL else 0)
    P[FLUSHED] = fmt.emin if underflow == FLUSH else -UNLIMITED
    P[SMALLEST] = bits(math.ldexp(1.0, fmt.emin))
    P[LARGEST] = bits(fmt.max)
    P[OVERFLOW] = bits(value_of_code(fmt, code_beyond(fmt, mode, saturate)))
    P[INFINITE] = bits(value_of_code(fmt, code_of_infinity(fmt, saturate)))
    P[WORD_KEEP] = -1 << (64 - random_bits)
    P[WORD_END] = 1 << (63 - random_bits) if variant == VARIANT_B else 0
    P[ZERO_SIGN] = -1 << 63 if fmt.has_negative_zero else 0
    P[NAN_SIGN] = -1 << 63 if fmt.parameters[FLAGS] & SIGNED_NAN else 0
    return P


@functools.cache
def wide_core(mode, cut):
    """core(below, less, more, away, tie, high, carry, shift, mask): `below` rounded to a multiple of 2**shift.

    less, more : whether z lies beyond the exact magnitude, or below it; neither where z is exact.
    away : whether this element goes away from zero, where the mode does so by sign or by chance.
    tie : whether an error of the kind `more` is half a unit.   mask : 2**shift - 1.
    high, carry : the word above the unit, and whether its rest and the error make up one more unit.
    """

    @jit(inline=True)
    def core(below, less, more, away, tie, high, carry, shift, mask):
        zero, one = np.uint64(0), np.uint64(1)
        keep = xor(mask, np.uint64(MAGNITUDE + (1 << 63)))
        inexact = one if less | more else zero
        if mode == EVEN:
            nearest = add(below, one if less else zero)
            if cut == NEVER:
                return nearest
            c = and_(shr(nearest, shift), one)
            c = one if more else c
            c = zero if less else c
            if cut == PERHAPS:
                c = and_(c, mask)
            return and_(add(nearest, add(shr(mask, one), c)), keep)
        if mode == AWAY:
            c = one if less | (more & tie) else zero
            if cut == NEVER:
                return add(below, c)
            half = shr(add(mask, one), one)
            if cut == PERHAPS:
                half = add(half, and_(c, keep))
            return and_(add(below, half), keep)
        if mode == ZERO:
            return and_(below, keep)
        if mode == ODD:
            kept = and_(below, keep)
            rest = or_(and_(below, mask), inexact)
            return or_(kept, add(mask, one)) if rest != zero else kept
        if mode == STOCHASTIC:
            return and_(add(below, add(high, one if carry else zero)), keep)
        return and_(add(below, add(mask, inexact) if away else zero), keep)

    return core


@jit(inline=True)
def word_parts(word, shift):
    """A word at the top of 64 bits as (units of the last place, 1 + the fraction of one below)."""
    high = shr(shr(word, np.uint64(1)), sub(np.uint64(63), shift))
    fraction = shr(shl(word, shift), np.uint64(12))
    return high, to_float(or_(fraction, np.uint64(ONE_BITS)))


@jit(inline=True)
def carry_of_error(root, less, more, e, e2, scale, ulp, fraction):
    """Whether the exact result, from `below` on, and the fraction of a word make up one unit.

    e + e2 : the error, times `scale`; of a square root z the remainder a - z*z, and `scale` is z.
    ulp : of `below`.   fraction : 1 + that of the word.
    """
    step = (fraction - 1.0 if less else fraction - 2.0) * ulp
    if root:
        # a >= (z - step)**2; the products are exact, and where they cancel so is the sum.
        twice = scale + scale
        p = twice * step
        d = fma(-step, step, (e + p) + fma(twice, step, -p))
    else:
        d = fma(step, scale, e) + e2
    return (d >= 0.0) & (less | more)
