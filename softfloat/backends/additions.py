"""One addition s + x with a rounded result, in one of the ways that loops over many terms are made of.

All are equal in bits wherever more than one is right:

native : the processor's own, where the accumulator is binary32 or binary64, to nearest.
short : z = s + x; t = z K; t - (t - z), with q bits more in a lane than in the format and K = 2**q + 1 (Veltkamp). A
    lane has at least 2p + 2 bits, so the first rounding loses nothing (Figueroa 1995); a tie comes out even for q >= 2
    (t keeps the parity of the cut z). Domain: to nearest, IEEE specials and subnormals, terms that are values of the
    format, and no sum that could overflow: |s| grows by 2 |x| at most, for s itself is a neighbour of the sum.
stepped : z = s + x with the processor rounding in the direction of the mode (toward zero for ties away); then the bits
    of z, plus what makes the next kept one of them, cut. Such roundings compose exactly. Domain: as for short, of the
    modes toward zero, ties away and, in formats with the exponents of float32 and lanes of it, up and down.
whole : z and its exact error in float64, rounded to odd, then by a fast form of the rounding: any mode and any format
    with such a form, infinities and NaNs too. Domain: terms and values below 2**1000, at most 51 bits.

Loops that add in the short or stepped way watch the terms that pass (`seen`), to tell whether all was in its domain.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from softfloat import bits
from softfloat._jit import jit
from softfloat.backends.direction import DOWN, NEAREST, TOWARD_ZERO, UP
from softfloat.bits import (
    and_,
    is_negative,
    magnitude,
    one_like,
    or_,
    resize,
    shr,
    sub,
    to_bits,
    to_float,
    umax,
    zero_like,
)
from softfloat.fast import constants_loader, fast_constants, fast_form, rounding_form
from softfloat.fixed_point import STEPS, FixedPoint, fixed_constants
from softfloat.ops.error_free import multiply_with_error, positive_nan, to_odd, two_sum, zero_of_sum
from softfloat.rounding import AWAY, EVEN, NEGATIVE, POSITIVE, STOCHASTIC, ZERO

NATIVE, SHORT, STEPPED, WHOLE = range(4)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# The processor's, of stepped forms.
DIRECTIONS = {ZERO: TOWARD_ZERO, AWAY: TOWARD_ZERO, POSITIVE: UP, NEGATIVE: DOWN}
DIGITS, HIGH, STRAY = range(3)  # what is seen of float32 terms, as in `look_form`
LARGEST_WHOLE = 2.0**1000
LARGEST_FACTOR = 2.0**400  # and its inverse: products of two such numbers keep an exact error


@functools.cache
def addition_form(kind, form, factor):
    """add(s, x, p, word): s + x, or s * x, rounded; p from `loader`."""
    if kind == NATIVE:

        @jit(inline=True)
        def add(s, x, p, word):
            return s * x if factor else s + x

    elif kind == SHORT:

        @jit(inline=True)
        def add(s, x, p, word):
            z = s + x
            t = z * p[0]
            return t - (t - z)

    elif kind == STEPPED:
        addend = _addend_form(form[1])

        @jit(inline=True)
        def add(s, x, p, word):
            u, keep = to_bits(s + x), to_bits(p[0])
            return to_float(and_(bits.add(u, addend(u, keep)), keep))

    else:
        round_one = rounding_form(*form)
        negative = int(form[1] == NEGATIVE and not factor)

        @jit(inline=True)
        def add(s, x, p, word):
            z, e = multiply_with_error(s, x) if factor else two_sum(s, x)
            if negative == 1:
                z = zero_of_sum(z, s, x)
            return round_one(positive_nan(to_odd(z, e)), p, resize(word, to_bits(z)))

    return add


@functools.cache
def _addend_form(mode):
    """addend(u, keep): what is added to the bits u, rounded in the direction of the mode, before they are cut."""

    @jit(inline=True)
    def addend(u, keep):
        zero, one = zero_like(u), one_like(u)
        dropped = sub(sub(zero, keep), one)
        if mode == ZERO:
            return zero
        if mode == AWAY:
            return bits.add(shr(dropped, one), one)
        return dropped if is_negative(u) == (mode == NEGATIVE) else zero

    return addend


@functools.cache
def leaf_form(kind, form):
    """leaf(x, p): +0 + x rounded, the first sum of a tree."""
    add = addition_form(kind, form, False)

    @jit(inline=True)
    def leaf(x, p):
        zero = to_float(zero_like(to_bits(x)))
        return add(zero, x, p, zero_like(to_bits(x))) if kind == WHOLE else x + zero

    return leaf


@jit(inline=True)
def _load_short(P):
    """K, or the mask of the kept bits; for the terms the smallest normal number and what rounds to the grid below."""
    return P[0], np.float32(P[1]), np.float32(P[2])


def is_watched(kind):
    return kind in (SHORT, STEPPED)


def is_gridded(kind, form):
    return is_watched(kind) and form[0]


def loader(kind, form):
    return constants_loader(form[0]) if kind == WHOLE else _load_short


@functools.cache
def look_form(gridded):
    """look(x, digits, high, stray, p): what is seen of float32 terms, all as bits.

    digits : every bit that is set somewhere.   high : the largest magnitude.   stray : not zero if a term lies between
    two numbers of the grid; where the dropped bits do not tell (`gridded`).
    """

    @jit(inline=True)
    def look(x, digits, high, stray, p):
        u = to_bits(x)
        m = magnitude(u)
        if gridded:
            off = ((x + p[2]) - p[2]) != x
            stray = or_(stray, m if (abs(x) < p[1]) & off else zero_like(u))
        return or_(digits, u), umax(high, m), stray

    return look


@jit(inline=True)
def note(seen, digits, high, stray):
    seen[DIGITS] = or_(seen[DIGITS], digits)
    seen[HIGH] = umax(seen[HIGH], high)
    seen[STRAY] = or_(seen[STRAY], stray)


@functools.cache
def watch_loop(gridded):
    """watch(x, seen, p): look at all of x."""
    look = look_form(gridded)

    @jit
    def watch(x, seen, p):
        digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
        for i in range(x.size):
            digits, high, stray = look(x[i], digits, high, stray, p)
        note(seen, digits, high, stray)

    return watch


# ---------------------------------------------------------------- a way, ready for one format
@dataclass(frozen=True)
class Form:
    """A way to add, ready for one format.

    rounding : the fast form of the rounding; or (whether terms are `gridded`, mode).
    """

    kind: int
    rounding: tuple
    constants: np.ndarray

    @property
    def way(self):
        return self.kind, self.rounding

    @property
    def direction(self):
        """The processor's."""
        return DIRECTIONS[self.rounding[1]] if self.kind == STEPPED else NEAREST


def quick_form(fmt, lane, mode):
    """(form, dropped bits, largest sum) of the short or stepped form in these lanes, or None."""
    p, digits = fmt.precision, np.finfo(lane).nmant + 1
    ordinary = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    fits = fmt.fits(lane) and 2 <= p <= ((digits - 2) // 2 if mode == EVEN else digits - 1)
    if not ordinary or not fits or fmt.exponent_bits < 2:
        return None
    q = digits - p
    # At emin = -126 the subnormals of float32 end where those of the format do: the dropped bits tell.
    gridded = fmt.emin > -126
    if mode != EVEN and fmt.emin < np.finfo(lane).minexp:
        return None
    # Up and down, a sum may grow by more than its terms: it has to overflow as float32 does.
    full = lane == FLOAT32 and (fmt.emin, fmt.max_exponent) == (-126, 127)
    if mode in (POSITIVE, NEGATIVE) and not full:
        return None
    step = math.ldexp(1.5, fmt.emin + 24 - p) if gridded else 0.0
    constants = np.array([(1 << q) + 1, fmt.smallest_normal, step], lane)
    limit = min(fmt.max, math.ldexp(1.0, 126 - q) if lane == FLOAT32 else LARGEST_WHOLE)
    if mode != EVEN:
        limit = min(fmt.max, LARGEST_WHOLE)
        word = np.uint32 if lane == FLOAT32 else np.uint64
        constants.view(word)[0] = np.iinfo(word).max ^ word((1 << q) - 1)
    form = Form(SHORT if mode == EVEN else STEPPED, (gridded, mode), constants)
    return form, (1 << max(24 - p, 0)) - 1, limit


def whole_form(fmt, mode, saturate, bits, variant, factor):
    """The whole form, or None outside its domain."""
    form = fast_form(fmt, FLOAT64, mode, saturate, bits, variant)
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    if form is None or wraps or fmt.mantissa_bits > (51 - bits if mode >= STOCHASTIC else 50):
        return None
    smallest = math.ldexp(1.0, -fmt.fraction_bits) if form[0] == STEPS else fmt.smallest_subnormal
    if fmt.max > (LARGEST_FACTOR if factor else LARGEST_WHOLE):
        return None
    if factor and smallest < 1 / LARGEST_FACTOR:
        return None
    if form[0] == STEPS:
        return Form(WHOLE, form, fixed_constants(fmt, FLOAT64, mode, bits))
    return Form(WHOLE, form, fast_constants(form[0], fmt, FLOAT64, mode, saturate, bits))
