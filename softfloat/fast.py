"""Rounding a float32 or float64 to a narrower format in a dozen vector instructions: the fast forms of the definition.

Each form states its domain (`fast_form`); outside it the loops of the definition take over, and inside it the tests
find the two equal. With m the target's significand field and M the carrier's:

*scaled* (emin above the carrier's, m <= M - 2): with E the power of two at or below |x|, but at least 2**emin, adding
and subtracting E * 2**(M - m) rounds |x| to nearest on the format's grid, normal and subnormal alike, because the ulp
of the sum is the grid's; the other modes correct that by one step of E * 2**-m.

*full* (the exponent range is the carrier's own): integer steps on the bits; a carry runs into the exponent as it must.

*shifted* (the rest: m = M, M - 1 or 0, or a lowest binade shared with the carrier): the same integer steps in the
normal range; below it one fixed power of two is added and subtracted.

A scaled stochastic decision compares the exact discarded part with (2**k - w) * 2**-k of a step: both are values of
the carrier, so it is the decision of the definition.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import (
    add,
    and_,
    binade,
    fma,
    infinity_like,
    is_negative,
    magnitude,
    one_like,
    or_,
    quiet_nan_like,
    shl,
    shr,
    sign_bit,
    sub,
    to_bits,
    to_float,
    unsigned_to_float,
    xor,
    zero_like,
)
from softfloat.fixed_point import (
    STEPS,
    WRAPPING,
    FixedPoint,
    fixed_rule,
    load_fixed_constants,
    steps_form,
)
from softfloat.format import CARRIERS, FLUSH, GRADUAL, GRID, NORMAL, UNDERFLOW
from softfloat.random import WORD_BITS
from softfloat.rounding import (
    AWAY,
    EQUAL,
    EVEN,
    FINITE,
    NAN,
    NEGATIVE,
    ODD,
    POSITIVE,
    STOCHASTIC,
    ZERO,
    infinity_code,
    overflow_code,
)

SCALED, FULL, SHIFTED = range(3)
# Bits of `rule`, above the two bits of the underflow rule.
NO_NEGATIVE_ZERO, UNSIGNED, OWN_INFINITY, CLAMPED, SIGNED_NAN = 4, 8, 16, 32, 64
BARE = 128  # infinities and NaNs are seen to by the caller

# Entries of the array of constants, all as bits of the carrier's width.
(
    SMALLEST_BINADE,  # 2**emin, below which the grid has one step
    SPREAD,  # 2**(M - m)
    SPREAD_SIGNED,  # 1.5 times that
    STEP,  # 2**-m
    LIMIT,  # the largest |x| that nearest rounding keeps finite
    LARGEST,
    OVERFLOW,  # what lies beyond
    INFINITE,  # what an infinite operand becomes
    SMALLEST,  # the smallest positive value, where there are no subnormals
    HALF_SMALLEST,
    TOP_BINADE,  # 2**emax
    LOW_HALF,  # half of a unit in the last kept place, less one
    KEEP,  # mask of the kept bits
    SHIFT,  # M - m
    LAST,  # one unit in the last kept place
    WORD_SHIFT,  # 32 - k
    WORD_LEFT,  # M - m - k where that is positive
    WORD_KEEP,  # mask of the bits that stochastic rounding looks at
    WORDS,  # 2**k
    WORD_STEP,  # 2**(-m-k)
    PARITY,  # of the carrier's exponent against the code's, where m = 0
    CUTS,  # 1 unless m = M
    WORD_RIGHT,  # k - M + m where that is positive
    CONSTANTS,
) = range(24)


def fast_form(fmt, carrier, mode, saturate, random_bits=24, variant=0):
    """(kind, mode, rule) of the fast form that rounds values of a carrier to a format, or None outside its domain."""
    if isinstance(fmt, FixedPoint):
        rule = fixed_rule(fmt, carrier, mode, saturate, random_bits, variant)
        return None if rule is None else (STEPS, mode, rule)
    c = CARRIERS[carrier]
    m = fmt.mantissa_bits
    underflow = fmt.parameters[UNDERFLOW]
    if not fmt.fits(carrier) or underflow > NORMAL or (not fmt.signed and not fmt.has_nan):
        return None
    if m == 0 and underflow != GRADUAL:
        return None
    stochastic = mode >= STOCHASTIC
    if stochastic and (variant != 0 or underflow not in (GRADUAL, FLUSH)):
        return None
    rule = underflow
    if not fmt.has_negative_zero:
        rule |= NO_NEGATIVE_ZERO
    if not fmt.signed:
        rule |= UNSIGNED
    if fmt.specials == "fn":
        rule |= SIGNED_NAN
    whole = fmt.specials == "ieee" and fmt.emin == c.emin and fmt.max_exponent == c.emax
    if whole and underflow == GRADUAL:
        if mode == EQUAL and m < c.mantissa_bits:
            return None
        if saturate:
            rule |= CLAMPED if saturate == FINITE else CLAMPED | OWN_INFINITY
        # The carrier itself: nothing is cut off, whatever the mode.
        return FULL, ZERO if m == c.mantissa_bits else mode, rule
    kind = SCALED
    if (
        fmt.emin <= c.emin
        or m > c.mantissa_bits - 2
        or fmt.max_exponent + c.mantissa_bits - m > c.emax
        or (m == 0 and mode in (EVEN, ODD))  # there the parity of a code is that of its exponent
    ):
        kind = SHIFTED
        reach = fmt.emin - m + c.mantissa_bits
        if underflow != GRADUAL or fmt.emin < c.emin or reach > c.emax:
            return None
        if mode == EQUAL:
            return None
    if stochastic:
        bits = random_bits
        lowest = (c.emin if underflow == FLUSH else fmt.emin) - m - bits
        if bits > c.mantissa_bits + 1 or lowest < c.emin - c.mantissa_bits:
            return None
    infinite = code_of_infinity(fmt, saturate)
    directed = mode in (POSITIVE, NEGATIVE) and infinite != fmt.max_code  # two ends that differ
    if directed or code_beyond(fmt, mode, saturate) != infinite:
        rule |= OWN_INFINITY
    return kind, mode, rule


def value_of_code(fmt, code):
    """The value of a magnitude code of a finite number, an infinity or (-1) a NaN."""
    if code == NAN:
        return math.nan
    return math.inf if code == fmt.infinity_code else fmt._value(code)


def code_beyond(fmt, mode, saturate):
    """The magnitude code that overflow gives; for the directed modes, in their own direction."""
    return overflow_code(mode == NEGATIVE, fmt.parameters, mode, saturate)


def code_of_infinity(fmt, saturate):
    """The magnitude code that an infinite operand gives."""
    return infinity_code(fmt.parameters, saturate)


def fast_constants(kind, fmt, carrier, mode, saturate, random_bits=24):
    """The constants of a fast form, as one unsigned array."""
    c = CARRIERS[carrier]
    unsigned = np.dtype(f"u{c.bits // 8}").type
    number = carrier.type
    m, M = fmt.mantissa_bits, c.mantissa_bits
    shift = M - m
    P = np.zeros(CONSTANTS, unsigned)

    def put(index, value):
        P[index] = np.array(value, number).view(unsigned)

    power = lambda k: math.ldexp(1.0, k) if k >= -1074 else 0.0  # noqa: E731
    flush = fmt.subnormals == "ftz"
    put(SMALLEST_BINADE, power(c.emin if flush else fmt.emin))
    put(SPREAD, power(shift))
    put(SPREAD_SIGNED, 1.5 * power(shift))
    put(STEP, power(-m))
    put(LARGEST, fmt.max)
    put(OVERFLOW, value_of_code(fmt, code_beyond(fmt, mode, saturate)))
    put(INFINITE, value_of_code(fmt, code_of_infinity(fmt, saturate)))
    put(SMALLEST, fmt.smallest_normal)
    put(HALF_SMALLEST, fmt.smallest_normal / 2)
    top = max(fmt.max_exponent, fmt.emin)  # a format may hold nothing but subnormals
    put(TOP_BINADE, power(top))
    if kind == SHIFTED:
        put(SPREAD, power(fmt.emin - m + M))
        put(STEP, power(fmt.emin - m))
        put(HALF_SMALLEST, power(fmt.emin - m - 1))
        put(WORD_STEP, power(fmt.emin - m - random_bits))
        # The code of a power of two and the carrier's bits of it may differ in parity; with nothing cut off, there
        # are no ties.
        carrier_field = fmt.emin + c.emax
        P[PARITY] = (carrier_field + 1) % 2 if m == 0 else 0
        P[CUTS] = int(shift > 0)
    if kind == SCALED:
        # Half a step above the largest value; that tie is kept where the largest code is even.
        tie = number(fmt.max + power(top - m - 1))
        kept = mode == EVEN and fmt.max_code % 2 == 0
        put(LIMIT, tie if kept else np.nextafter(tie, number(0)))
    P[LOW_HALF] = ((1 << shift) - 1) >> 1
    P[KEEP] = (1 << c.bits) - (1 << shift)
    P[SHIFT] = shift
    P[LAST] = 1 << shift
    used = min(random_bits, shift) if kind == FULL else random_bits
    if mode == EQUAL:
        used = 1  # the top bit of the word decides
    P[WORD_SHIFT] = WORD_BITS - used
    unseen = max(shift - used, 0)
    P[WORD_LEFT] = unseen
    P[WORD_RIGHT] = max(used - shift, 0)
    P[WORD_KEEP] = (1 << c.bits) - (1 << unseen)
    put(WORDS, power(random_bits))
    if kind != SHIFTED:
        put(WORD_STEP, power(-m - random_bits))
    return P


@jit(inline=True)
def load_constants(P):
    """The constants as scalars, once per call of a loop."""
    return (
        to_float(P[SMALLEST_BINADE]), to_float(P[SPREAD]), to_float(P[SPREAD_SIGNED]),
        to_float(P[STEP]), to_float(P[LIMIT]), to_float(P[LARGEST]), to_float(P[OVERFLOW]),
        to_float(P[INFINITE]), to_float(P[SMALLEST]), to_float(P[HALF_SMALLEST]),
        to_float(P[TOP_BINADE]), P[LOW_HALF], P[KEEP], P[SHIFT], P[LAST], P[WORD_SHIFT],
        P[WORD_LEFT], P[WORD_KEEP], to_float(P[WORDS]), to_float(P[WORD_STEP]), P[PARITY], P[CUTS],
        P[WORD_RIGHT],
    )  # fmt: skip


@functools.cache
def rounding_form(kind, mode, rule):
    """The compiled function round(x, p, word) of one fast form; p from `load_constants`.

    Each combination is compiled by itself, from the branches that it takes.
    """
    make = {SCALED: _scaled_form, FULL: _full_form, SHIFTED: _shifted_form, STEPS: steps_form}[kind]
    return make(mode, rule)


def constants_loader(kind):
    """The compiled function that reads the constants of a kind as scalars, once per call of a loop."""
    return load_fixed_constants if kind == STEPS else load_constants


def wraps_infinities(kind, rule):
    """Whether the form would have to wrap an infinity, which has no result."""
    return kind == STEPS and rule & WRAPPING != 0


def _full_form(mode, rule):
    clamped = int(rule & CLAMPED != 0)
    own_infinity = int(rule & OWN_INFINITY != 0)
    bare = int(rule & BARE != 0)

    @jit(inline=True)
    def round_full(x, p, word):
        largest, infinite = p[5], p[7]
        low_half, keep, shift, last, word_shift, word_left, word_keep = p[11:18]
        u = to_bits(x)
        if mode == EVEN:
            odd = and_(shr(u, shift), one_like(u))
            r = and_(add(u, add(low_half, odd)), keep)
        elif mode == AWAY:
            r = and_(add(u, add(low_half, one_like(u))), keep)
        elif mode == ZERO:
            r = and_(u, keep)
        elif mode == POSITIVE:
            up = zero_like(u) if is_negative(u) else sub(last, one_like(u))
            r = and_(add(u, up), keep)
        elif mode == NEGATIVE:
            up = sub(last, one_like(u)) if is_negative(u) else zero_like(u)
            r = and_(add(u, up), keep)
        elif mode == ODD:
            r = and_(u, keep)
            r = or_(r, last) if u != r else r
        else:
            r = and_(add(and_(u, word_keep), shl(shr(word, word_shift), word_left)), keep)
        if clamped == 1:
            finite = magnitude(r) if to_float(magnitude(r)) < largest else to_bits(largest)
            if own_infinity == 1:
                finite = to_bits(infinite) if magnitude(u) == infinity_like(u) else finite
            r = or_(finite, sign_bit(u))
        if bare == 1:
            return to_float(r)
        return to_float(r) if x == x else to_float(quiet_nan_like(u))

    return round_full


def finish_form(rule):
    """finish(x, y, p): the rounded magnitude y of x with its sign, infinities and NaNs as the format has them."""
    # Where zeros keep their sign, a caller that sees to infinities and NaNs needs nothing more than the sign.
    bare = int(rule & BARE != 0 and rule & (UNSIGNED | NO_NEGATIVE_ZERO) == 0)
    own_infinity = int(rule & OWN_INFINITY != 0)
    unsigned = int(rule & UNSIGNED != 0)
    no_negative_zero = int(rule & NO_NEGATIVE_ZERO != 0)
    signed_nan = int(rule & SIGNED_NAN != 0)

    @jit(inline=True)
    def finish(x, y, p):
        u = to_bits(x)
        sign = sign_bit(u)
        zero = to_float(zero_like(u))
        if bare == 1:
            return to_float(or_(to_bits(y), sign))
        if own_infinity == 1:
            y = p[7] if magnitude(u) == infinity_like(u) else y
        nan = to_float(quiet_nan_like(u))
        if unsigned == 1:
            y = nan if (sign != zero_like(u)) & (y > zero) else y
            return y if x == x else nan
        if no_negative_zero == 1:
            y = to_float(or_(to_bits(y), sign)) if y > zero else y
            return y if x == x else nan
        if signed_nan == 1:
            return to_float(or_(to_bits(y if x == x else nan), sign))
        return to_float(or_(to_bits(y), sign)) if x == x else nan

    return finish


def _scaled_form(mode, rule):
    underflow = rule & 3
    coarse = int(underflow in (GRID, NORMAL))
    finish = finish_form(rule)

    @jit(inline=True)
    def round_scaled(x, p, word):
        emin, spread, spread_signed, step, limit, largest, overflow = p[:7]
        smallest, half, top = p[8:11]
        word_shift, words, word_step = p[15], p[18], p[19]
        u = to_bits(x)
        a = to_float(magnitude(u))
        zero = to_float(zero_like(u))
        if mode == POSITIVE:
            # On signed numbers: with 1.5 times the power, the sum stays in one binade for either sign.
            c = -largest if x < -largest else x
            E = to_float(binade(to_bits(c)))
            E = E if E > emin else emin
            s = fma(-E, spread_signed, fma(E, spread_signed, c))
            s = fma(E, step, s) if s < c else s
            s = overflow if x > largest else s
            y = to_float(magnitude(to_bits(s)))
        elif mode == NEGATIVE:
            c = largest if x > largest else x
            E = to_float(binade(to_bits(c)))
            E = E if E > emin else emin
            s = fma(-E, spread_signed, fma(E, spread_signed, c))
            s = fma(-E, step, s) if s > c else s
            s = -overflow if x < -largest else s
            y = to_float(magnitude(to_bits(s)))
        elif mode == EVEN:
            E = to_float(binade(u))
            E = E if E > emin else emin
            y = fma(-E, spread, fma(E, spread, a))
            y = overflow if a > limit else y
        elif mode == AWAY:
            E = to_float(binade(u))
            E = E if E > emin else emin
            # A last bit set breaks ties upwards and changes nothing else.
            y = fma(-E, spread, fma(E, spread, to_float(or_(magnitude(u), one_like(u)))))
            y = overflow if a > limit else y
        elif mode == ZERO:
            E = to_float(binade(u))
            E = E if E > emin else emin
            y = fma(-E, spread, fma(E, spread, a))
            y = fma(-E, step, y) if y > a else y
            y = y if y < largest else overflow
        elif mode == ODD:
            c = largest if a > largest else a
            E = to_float(binade(to_bits(c)))
            E = E if E > emin else emin
            t = fma(E, spread, c)
            y = fma(-E, spread, t)
            rest = c - y
            stepped = fma(to_float(or_(to_bits(E), sign_bit(to_bits(rest)))), step, y)
            even = and_(to_bits(t), one_like(u)) == zero_like(u)
            y = stepped if (rest != zero) & even else y
            y = overflow if a > largest else y
        else:
            E = to_float(binade(u))
            E = E if E > emin else emin
            E = top if E > top else E
            y = fma(-E, spread, fma(E, spread, a))
            below = fma(-E, step, y) if y > a else y
            if mode == EQUAL:
                up = (a > below) & (shr(word, word_shift) != zero_like(u))
            else:
                steps = words - unsigned_to_float(shr(word, word_shift))
                up = a - below >= steps * (E * word_step)
            y = fma(E, step, below) if up else below
            y = overflow if y > largest else y
        if underflow == FLUSH:
            y = zero if y < smallest else y
        if coarse == 1:
            if mode == EVEN:
                up = a > half
            elif mode == AWAY:
                up = a >= half
            elif mode == ZERO:
                up = a < zero
            elif mode == POSITIVE:
                up = x > zero
            elif mode == NEGATIVE:
                up = x < zero
            else:
                up = a > zero
            y = (smallest if up else zero) if a < smallest else y
        return finish(x, y, p)

    return round_scaled


def _shifted_form(mode, rule):
    finish = finish_form(rule)

    @jit(inline=True)
    def round_shifted(x, p, word):
        emin, spread, step, largest, overflow, half = p[0], p[1], p[3], p[5], p[6], p[9]
        low_half, keep, shift, last, word_shift, word_left, word_keep, words, word_step = p[11:20]
        parity, cuts, word_right = p[20:23]
        u = to_bits(x)
        m = magnitude(u)
        a = to_float(m)
        sum_ = a + spread
        s = sum_ - spread  # the nearest multiple of the smallest subnormal, for |x| below 2**emin
        forward = True
        if mode == EVEN:
            odd = and_(xor(shr(m, shift), parity), cuts)
            r = and_(add(m, add(low_half, odd)), keep)
        elif mode == AWAY:
            r = and_(add(m, add(low_half, cuts)), keep)
            s = s + step if a - s == half else s
        elif mode == ZERO:
            r = and_(m, keep)
            s = s - step if s > a else s
        elif mode == POSITIVE or mode == NEGATIVE:
            forward = is_negative(u) if mode == NEGATIVE else not is_negative(u)
            r = and_(add(m, sub(last, one_like(u)) if forward else zero_like(u)), keep)
            up = s + step if s < a else s
            down = s - step if s > a else s
            s = up if forward else down
        elif mode == ODD:
            r = and_(m, keep)
            even = and_(xor(shr(m, shift), parity), one_like(u)) == zero_like(u)
            r = add(r, last) if (r != m) & even else r
            s = s - step if s > a else s
            even = and_(to_bits(s + spread), one_like(u)) == zero_like(u)
            s = s + step if (s != a) & even else s
        else:
            top = shr(shl(shr(word, word_shift), word_left), word_right)
            r = and_(add(and_(m, word_keep), top), keep)
            below = s - step if s > a else s
            steps = words - unsigned_to_float(shr(word, word_shift))
            s = below + step if a - below >= steps * word_step else below
        y = s if a < emin else to_float(r)
        if mode == POSITIVE or mode == NEGATIVE:
            y = (overflow if forward else largest) if y > largest else y
        else:
            y = overflow if y > largest else y
        return finish(x, y, p)

    return round_shifted


@functools.cache
def special_form(kind, mode, rule):
    """special(x, p, word): what an infinity or NaN becomes, as the whole form gives it."""
    if kind == STEPS:
        return steps_form(mode, rule)
    unsigned = int(rule & UNSIGNED != 0)
    signed_nan = int(rule & SIGNED_NAN != 0)

    @jit(inline=True)
    def special(x, p, word):
        u = to_bits(x)
        sign = sign_bit(u)
        nan = to_float(quiet_nan_like(u))
        y = p[7]
        if unsigned == 1:
            return y if x > to_float(zero_like(u)) else nan
        if signed_nan == 1:
            return to_float(or_(to_bits(y if x == x else nan), sign))
        y = to_float(or_(to_bits(y), sign)) if y == y else y
        return y if x == x else nan

    return special
