"""Vectorised arithmetic for formats close to binary64: a fast form of each block, and one that redoes what it flags.

The fast form rounds in place and watches, by the least and greatest magnitudes of a block, that no result left the
normal range and no error term underflowed. Where it can, it has the processor round in the direction that the mode
asks for, or toward zero, and needs no error terms. The universal form has no domain: it computes on significands in
[1, 2) with exponents beside them. Neither branches on data.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import (
    ADD,
    DIVIDE,
    FAST_OPERATIONS,
    FMA,
    MULTIPLY,
    SQRT,
    SUBTRACT,
    fill_words,
)
from softfloat.backends.direction import (
    DOWN,
    NEAREST,
    TOWARD_ZERO,
    UP,
    fma_has_direction,
    set_direction,
)
from softfloat.backends.fma_ways import fma_both_ways, fma_has_ways
from softfloat.bits import (
    UNKNOWN,
    and_,
    binade,
    borrowed,
    enter_standard_arithmetic,
    fma,
    leave_standard_arithmetic,
    magnitude,
    or_,
    resize,
    shl,
    shr,
    sign_bit,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    unsigned_to_float,
    xor,
)
from softfloat.ops.error_free import (
    LARGE,
    SMALL_DIVIDEND,
    SMALL_PRODUCT,
    divide_with_error,
    fast_two_sum,
    fma_with_errors,
    multiply_with_error,
    positive_nan,
    sqrt_with_error,
    two_sum,
    zero_of_sum,
)
from softfloat.rounding import AWAY, EQUAL, EVEN, NEGATIVE, ODD, POSITIVE, STOCHASTIC, ZERO
from softfloat.wide import (
    FIELD,
    FLOOR,
    FLUSHED,
    HIDDEN,
    INFINITE,
    INFINITY,
    LARGEST,
    LOWEST,
    MAGNITUDE,
    NAN_SIGN,
    NEVER,
    ONE_BITS,
    OVERFLOW,
    PERHAPS,
    QUIET_NAN,
    SHIFT,
    SMALLEST,
    WORD_END,
    WORD_KEEP,
    ZERO_SIGN,
    carry_of_error,
    wide_core,
    word_parts,
)

WIDE_BLOCK = (
    2048  # elements that are computed anew together; their operands stay in the first-level cache
)
PART = 256  # of them that are rounded both ways before more is done with them
FAR = 400  # binary places beyond which the smaller addend only breaks ties
NOTHING = 5000  # minus the exponent of a zero
DEEPEST = 59  # places cut off that are kept for the decision, the last one jammed
SMALL_ROOT, ROOT_SCALE, ROOT_UNSCALE = 2.0**-700, 2.0**400, 2.0**-200
SMALL_PRODUCT_BITS = int(np.float64(SMALL_PRODUCT).view(np.int64))
SMALL_DIVIDEND_BITS = int(np.float64(SMALL_DIVIDEND).view(np.int64))
LARGE_BITS = int(np.float64(LARGE).view(np.int64))


@functools.cache
def wide_loop(operation, form):
    """run(a, b, c, out, P, redo, key, offset): an operation on flat float64 arrays, rounded to the format of P.

    Sets redo[j] for each WIDE_BLOCK elements that are outside the fast form's domain; what out holds there is void.
    An operand of one element stands for as many as needed. out shares no memory with the operands. Returns False,
    having done nothing, on processors whose floating-point control word cannot be read.
    """
    op = FAST_OPERATIONS[operation]
    direction, _ = way_of(ADD if op == SUBTRACT else op, form)
    return _block_loop(fast_block(op, form), form.mode, direction, False)


@functools.cache
def universal_loop(operation, mode):
    """run(a, b, c, out, P, redo, key, offset): as `wide_loop`, for the blocks whose redo[j] is set, of any operands."""
    compute = universal_block(FAST_OPERATIONS[operation], mode)
    return _block_loop(compute, mode, NEAREST, True)


def _block_loop(compute, mode, direction, flagged):
    """run(...) that hands compute(xs, ys, zs, target, P, halves, ways) every block, or those that are flagged.

    ways : room for PART numbers rounded down, and up.
    """
    random = int(mode >= STOCHASTIC)
    again = int(flagged)

    @jit
    def blocks(operands, repeats, out, P, redo, words, key, offset, ways):
        a, b, c = borrowed(operands[0]), borrowed(operands[1]), borrowed(operands[2])
        all_a, all_b, all_c = borrowed(repeats[0]), borrowed(repeats[1]), borrowed(repeats[2])
        lent, target = (borrowed(ways[0]), borrowed(ways[1])), borrowed(out)
        halves = borrowed(words.view(np.uint32))
        for j in range(redo.size):
            if again == 1 and not redo[j]:
                continue
            start = j * WIDE_BLOCK
            stop = min(start + WIDE_BLOCK, target.size)
            first = offset + start
            if random == 1:
                fill_words(words, key, first >> 1)
            redo[j] = compute(
                a[start:stop] if a.size > 1 else all_a,
                b[start:stop] if b.size > 1 else all_b,
                c[start:stop] if c.size > 1 else all_c,
                target[start:stop],
                P,
                halves[first & 1 :] if random == 1 else halves,
                lent,
            )

    @jit
    def run(a, b, c, out, P, redo, key, offset):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        words = np.empty(WIDE_BLOCK // 2 + 1 if random == 1 else 0, np.uint64)
        ways = np.empty(PART), np.empty(PART)
        repeats = repeated(a), repeated(b), repeated(c)
        if direction != NEAREST:
            set_direction(direction)
        blocks((a, b, c), repeats, out, P, redo, words, key, offset, ways)
        if direction != NEAREST:
            set_direction(NEAREST)
        leave_standard_arithmetic(former)
        return True

    return run


@jit(inline=True)
def repeated(x):
    """A block of copies of an only element; nothing where there are more."""
    return np.full(WIDE_BLOCK if x.size == 1 else 0, x[0] if x.size == 1 else 0.0)


@jit(inline=True)
def word_of(half, P):
    """32 random bits as `word_parts` takes them: those in use at the top of 64."""
    top = shl(resize(half, np.uint64(0)), np.uint64(32))
    return or_(and_(top, np.uint64(P[WORD_KEEP])), np.uint64(P[WORD_END]))


@jit(inline=True)
def signed_as(e, z):
    """e, with its sign turned where z is negative."""
    return to_float(xor(to_bits(e), sign_bit(to_bits(z))))


# ---------------------------------------------------------------- results with their errors
@functools.cache
def exact_form(op, whole, precise):
    """exact(a, b, c) -> (z, e, e2, scale): the rounded result, and its error, away from zero, as (e + e2) / scale.

    Of a square root, e is the remainder a - z*z and scale is z. The sign of e alone is right. The error of an fma is
    exact only with `precise`: two numbers that do not overlap.   whole : a sum may overflow.
    """

    @jit(inline=True)
    def exact(a, b, c):
        e2 = 0.0
        scale = 1.0
        if op == ADD:
            if whole:
                z, e = fast_two_sum(a, b)
            else:
                z, e = two_sum(a, b)
        elif op == MULTIPLY:
            z, e = multiply_with_error(a, b)
        elif op == DIVIDE:
            z, e = divide_with_error(a, b)
            scale = abs(b)
        elif op == SQRT:
            z, e = sqrt_with_error(a)
            scale = z
        else:
            z, e, e2 = fma_with_errors(a, b, c)
            if precise:
                e, e2 = two_sum(e, e2)
                e2 = signed_as(e2, z)
            else:
                e = e + e2
        return z, signed_as(e, z), e2, scale

    return exact


@functools.cache
def zero_form(op, mode):
    """zero(z, a, b, c): z, but exact zero sums with the sign that rounding toward negative gives them."""

    @jit(inline=True)
    def zero(z, a, b, c):
        if mode == NEGATIVE and op == ADD:
            return zero_of_sum(z, a, b)
        if mode == NEGATIVE and op == FMA:
            return zero_of_sum(z, a * b, c)
        return z

    return zero


@functools.cache
def error_form(op, mode, cut, fine, judged):
    """rounded(z, below, unit, e, e2, scale, shift, mask, word): `wide_core` told all it wants to know.

    below : as `wide_core` has it.   unit : bits of a number in its binade.   judged : e is one of `truncated_form`.
    """
    core = wide_core(mode, cut)
    root = op == SQRT
    ties = op not in (DIVIDE, SQRT)  # a quotient or root of numbers of 53 bits never has 54

    @jit(inline=True)
    def rounded(z, below, unit, e, e2, scale, shift, mask, word):
        less, more = e < 0.0, e > 0.0
        away, tie, carry = False, False, False
        high = np.uint64(0)
        if mode == POSITIVE:
            away = sign_bit(to_bits(z)) == high
        if mode == NEGATIVE:
            away = sign_bit(to_bits(z)) != high
        if mode == EQUAL:
            away = sign_bit(word) != high
        if judged:
            tie = more
        elif mode == AWAY and ties:
            tie = (e == to_float(binade(unit)) * 2.0**-53) & (e2 == 0.0)
        if mode == STOCHASTIC:
            high, fraction = word_parts(word, shift)
            if fine:
                ulp = to_float(binade(unit)) * 2.0**-52
                carry = carry_of_error(root, less, more, e, e2, scale, ulp, fraction)
        return core(below, less, more, away, tie, high, carry, shift, mask)

    return rounded


# ---------------------------------------------------------------- the fast form
# What has to be known beside the processor's own result; BOTH: the result rounded down and up.
OWN, INEXACT, BOTH, ERROR = range(4)
_DIRECTIONS = {EVEN: NEAREST, ZERO: TOWARD_ZERO, POSITIVE: UP, NEGATIVE: DOWN}


def way_of(op, form):
    """(direction of the processor, what has to be known beside its result) of the fast form.

    Rounding twice in one direction is rounding once. Ties away from zero, and words without bits below z's last place,
    ask for no more than the exact result truncated to z's bits; other modes ask whether that is exact as well. An fma
    that differs when it is rounded down and up is not, where the processor has instructions for that.
    """
    mode, cut = form.mode, form.cut != NEVER
    if op == FMA and mode != EVEN and not fma_has_direction():
        return NEAREST, ERROR
    if mode in _DIRECTIONS and not (mode == EVEN and cut):
        return _DIRECTIONS[mode], OWN
    if mode == AWAY and cut or mode == STOCHASTIC and not form.fine:
        return TOWARD_ZERO, OWN
    if op == FMA and mode in (EVEN, ODD) and fma_has_ways():
        return NEAREST, BOTH
    told = mode in (AWAY, ODD, EQUAL) or mode == EVEN and op == MULTIPLY
    return (TOWARD_ZERO, INEXACT) if told and op in (ADD, MULTIPLY) else (NEAREST, ERROR)


def watched(op, form):
    """(whether low results, large ones, or operands may take a block out of the fast form's domain)."""
    _, need = way_of(op, form)
    low = not form.whole or need != OWN and (form.fine or op in (MULTIPLY, DIVIDE))
    high = not form.whole or form.mode >= STOCHASTIC or need == INEXACT and form.mode == AWAY
    return low, high or need == ERROR and op == FMA, need == ERROR and op in (DIVIDE, FMA)


@functools.cache
def plain_form(op):
    """plain(a, b, c) -> the result as the processor rounds it."""

    @jit(inline=True)
    def plain(a, b, c):
        if op == ADD:
            return a + b
        if op == MULTIPLY:
            return a * b
        if op == DIVIDE:
            return a / b
        if op == SQRT:
            return math.sqrt(a)
        return fma(a, b, c)

    return plain


@functools.cache
def truncated_form(op, mode):
    """truncated(a, b) -> (z, e) of a sum or product toward zero: e > 0 where the rest is not zero, else e = 0.

    With ties away from zero, where the rest is half a unit or more, unless z is the largest float64. The direction has
    to be set. A sum is exact where z less either addend gives the other: one of these differences is exact, or both.
    """

    @jit(inline=True)
    def truncated(a, b):
        if op == ADD and mode != AWAY:
            z = a + b
            c, d = z - a, z - b
            rest = (c < b) | (c > b) | (d < a) | (d > a)
            return z, 1.0 if rest else 0.0
        z, e = fast_two_sum(a, b) if op == ADD else multiply_with_error(a, b)
        if mode == AWAY:
            e = (z + (e + e)) - z
        return z, 1.0 if (e < 0.0) | (e > 0.0) else 0.0

    return truncated


@functools.cache
def in_place_form(op, form):
    """result(x, y, w, lower, upper, shift, mask, word) -> (result, z to be watched): one element, inside the domain.

    lower, upper : the exact result rounded down and up, where that is wanted.
    """
    mode = form.mode
    plain = plain_form(op)
    exact = exact_form(op, form.whole, op == FMA and (mode == AWAY or form.fine))
    zero = zero_form(op, mode)
    truncated = truncated_form(op, mode)
    _, need = way_of(op, form)
    rounded = error_form(op, mode, form.cut, form.fine, need in (INEXACT, BOTH))
    _, guarded, _ = watched(op, form)
    positive_zero = not form.negative_zero

    @jit(inline=True)
    def result(x, y, w, lower, upper, shift, mask, word):
        z, e, e2, scale = 0.0, 0.0, 0.0, 1.0
        if need == ERROR:
            small = op == SQRT and x < SMALL_ROOT  # scaled, lest the remainder underflow
            z, e, e2, scale = exact(x * ROOT_SCALE if small else x, y, w)
            z = zero(z, x, y, w)
        elif need == INEXACT:
            z, e = truncated(x, y)
        elif need == BOTH:
            z = lower if upper > 0.0 else upper
            e = 1.0 if lower < upper else 0.0
        else:
            z = plain(x, y, w)
        # The sign of z stays where it is, above the bits that change.
        below = sub(to_bits(z), np.uint64(1 if e < 0.0 else 0))
        r = to_float(rounded(z, below, below, e, e2, scale, shift, mask, word))
        if need == ERROR and op == SQRT:
            r = r * (ROOT_UNSCALE if small else 1.0)
        if not guarded:
            r = r if z == z else to_float(np.uint64(QUIET_NAN))
        if positive_zero:
            r = 0.0 if r == 0.0 else r
        if need == BOTH:
            z = upper if upper > 0.0 else lower  # not zero unless that is exact
        return r, z

    return result


@functools.cache
def least_form(op):
    """least(z, r, x, y, w) -> (key of the result, key of an operand): least magnitudes; exact zeros count as large."""

    @jit(inline=True)
    def least(z, r, x, y, w):
        one, large = np.uint64(1), np.uint64(MAGNITUDE)
        m = magnitude(to_bits(z))
        if op == MULTIPLY:
            return m if (x != 0.0) & (y != 0.0) else large, large
        if op == DIVIDE:
            return m if x != 0.0 else large, sub(magnitude(to_bits(x)), one)
        if op == FMA:
            product = magnitude(to_bits(x * y))
            return sub(m, one), product if (x != 0.0) & (y != 0.0) else large
        if op == SQRT:
            return sub(magnitude(to_bits(r)), one), large
        return sub(m, one), large

    return least


@functools.cache
def bounds_form(op, form):
    """bounds(P) -> the least result and operand, and the greatest result, that are inside the domain, as bits."""
    _, need = way_of(op, form)
    errors = need != OWN and (form.fine or op in (MULTIPLY, DIVIDE))
    whole = form.whole
    truncated = need != ERROR  # the largest float64 may stand for what lies beyond

    @jit(inline=True)
    def bounds(P):
        low = np.uint64(SMALL_PRODUCT_BITS if errors else 0)
        operand = np.uint64(SMALL_DIVIDEND_BITS if op == DIVIDE else SMALL_PRODUCT_BITS)
        high = np.uint64(INFINITY - (2 if truncated else 1))
        if not whole:
            low = umax(low, np.uint64(P[SMALLEST]))
            high = umin(high, np.uint64(P[LARGEST]))
        if need == ERROR and op == FMA:
            high = umin(high, np.uint64(LARGE_BITS - 1))
        return low, operand, high

    return bounds


@functools.cache
def fast_part(op, form):
    """part(xs, ys, zs, target, P, halves, ways): the fast form; (least result and operand, greatest result)."""
    negated = op == SUBTRACT
    op = ADD if negated else op
    result = in_place_form(op, form)
    least = least_form(op)
    factors_watched = watched(op, form)[2] and op == FMA
    random = int(form.mode >= STOCHASTIC)
    both = int(way_of(op, form)[1] == BOTH)

    @jit(inline=True)
    def part(xs, ys, zs, target, P, halves, ways):
        shift = np.uint64(P[SHIFT])
        mask = sub(shl(np.uint64(1), shift), np.uint64(1))
        low, operand, high = np.uint64(MAGNITUDE), np.uint64(MAGNITUDE), np.uint64(0)
        for i in range(target.size):
            x = xs[i]
            y = -ys[i] if negated else ys[i]
            w = zs[i]
            lower = ways[0][i] if both == 1 else 0.0
            upper = ways[1][i] if both == 1 else 0.0
            word = word_of(halves[i], P) if random == 1 else np.uint64(0)
            r, z = result(x, y, w, lower, upper, shift, mask, word)
            target[i] = r
            result_key, operand_key = least(z, r, x, y, w)
            low = umin(low, result_key)
            operand = umin(operand, operand_key)
            high = umax(high, umax(magnitude(to_bits(r)), magnitude(to_bits(z))))
            if factors_watched:
                high = umax(high, umax(magnitude(to_bits(x * y)), magnitude(to_bits(w))))
        return low, operand, high

    return part


@functools.cache
def fast_block(op, form):
    """block(xs, ys, zs, target, P, halves, ways): the fast form of a block; returns whether it left its domain."""
    part = fast_part(op, form)
    op = ADD if op == SUBTRACT else op
    bounds = bounds_form(op, form)
    low_watched, high_watched, operands_watched = watched(op, form)
    both = int(way_of(op, form)[1] == BOTH)

    @jit(inline=True)
    def block(xs, ys, zs, target, P, halves, ways):
        if both == 1:
            low, operand, high = np.uint64(MAGNITUDE), np.uint64(MAGNITUDE), np.uint64(0)
            for j in range(0, target.size, PART):
                x, y, z = xs[j : j + PART], ys[j : j + PART], zs[j : j + PART]
                fma_both_ways(x, y, z, ways[0], ways[1])
                seen = part(x, y, z, target[j : j + PART], P, halves, ways)
                low, operand, high = umin(low, seen[0]), umin(operand, seen[1]), umax(high, seen[2])
        else:
            low, operand, high = part(xs, ys, zs, target, P, halves, ways)
        least_result, least_operand, greatest = bounds(P)
        outside = low_watched and low <= least_result
        outside |= operands_watched and operand < least_operand
        outside |= high_watched and high > greatest
        return outside

    return block


# ---------------------------------------------------------------- the universal form
@jit(inline=True)
def power(k):
    """2**k, for k in -1022..1023."""
    return to_float(shl(np.uint64(k + 1023), np.uint64(52)))


@jit(inline=True)
def times_power(x, k):
    """x * 2**k for any k; exact where the result is a float64."""
    k = min(max(k, -2000), 2000)
    half = k >> 1
    return x * power(half) * power(k - half)


@jit(inline=True)
def split(x):
    """A finite number as (significand in +-[1, 2) or zero, exponent)."""
    small = abs(x) < 2.0**-1022
    u = to_bits(x * 2.0**64 if small else x)
    exponent = np.int64(shr(magnitude(u), np.uint64(52))) - (1087 if small else 1023)
    unit = or_(and_(u, np.uint64((1 << 63) | FIELD)), np.uint64(ONE_BITS))
    empty = x == 0.0
    return x if empty else to_float(unit), -NOTHING if empty else exponent


@functools.cache
def scaled_form(op):
    """scaled(a, b, c) -> (z, e, e2, scale, exponent): as `exact_form`, times 2**exponent, of any finite operands."""
    exact = exact_form(FMA if op == ADD else op, False, True)

    @jit(inline=True)
    def scaled(a, b, c):
        if op == ADD:
            c = b
            b = 1.0
        sa, exponent = split(a)
        sb, eb = split(b)
        sc, ec = split(c)
        if op == MULTIPLY:
            exponent += eb
        elif op == DIVIDE:
            exponent -= eb
        elif op == SQRT:
            odd = exponent & 1
            sa = sa * (2.0 if odd != 0 else 1.0)
            exponent = (exponent - odd) >> 1
        else:
            product = max(exponent + eb, -NOTHING)
            exponent = max(product, ec)
            # Far below, only that the smaller addend is there matters, not how small it is.
            sa = sa * power(max(product - exponent, -FAR))
            sc = sc * power(max(ec - exponent, -FAR))
        z, e, e2, scale = exact(sa, sb, sc)
        return z, e, e2, scale, exponent

    return scaled


@functools.cache
def native_form(op, mode):
    """native(a, b, c) -> (float64's own result, whether it is right: for an operand or the result is special).

    Special are infinities, NaNs and zeros.
    """
    zero = zero_form(op, mode)
    plain = plain_form(op)

    @jit(inline=True)
    def native(a, b, c):
        special = not abs(a) < math.inf
        if op != SQRT:
            special |= not abs(b) < math.inf
        if op in (MULTIPLY, DIVIDE):
            special |= (a == 0.0) | (b == 0.0)
        if op == SQRT:
            special |= not a > 0.0
        if op == FMA:
            special |= not abs(c) < math.inf
        z = plain(a, b, c)
        return positive_nan(zero(z, a, b, c)), special

    return native


@functools.cache
def universal_number(op, mode):
    """number(x, y, w, P, word) -> (magnitude of the rounded result, sign, whether the exact result is zero)."""
    scaled = scaled_form(op)
    rounded = error_form(FMA if op == ADD else op, mode, PERHAPS, mode == STOCHASTIC, False)

    @jit(inline=True)
    def number(x, y, w, P, word):
        one = np.uint64(1)
        z, e, e2, scale, exponent = scaled(x, y, w)
        unit = sub(magnitude(to_bits(z)), np.uint64(1 if e < 0.0 else 0))
        exponent += np.int64(shr(unit, np.uint64(52))) - 1023
        below = or_(and_(unit, np.uint64(FIELD)), np.uint64(HIDDEN))
        quantum = exponent - 52 + P[SHIFT] if exponent >= P[LOWEST] else P[FLOOR]
        cut = quantum - (exponent - 52)
        places = min(cut, DEEPEST)
        dropped = min(cut - places, 63)
        # What is jammed lies below any word and any tie.
        below = or_(shr(below, np.uint64(dropped)), np.uint64(1 if dropped > 0 else 0))
        shift = np.uint64(places)
        mask = sub(shl(one, shift), one)
        r = rounded(z, below, unit, e, e2, scale, shift, mask, word)
        # Flushing goes by the exponent after rounding as if that had no bound.
        tiny = exponent + np.int64(shr(r, np.uint64(53))) < P[FLUSHED]
        value = times_power(unsigned_to_float(r), quantum - places)
        return 0.0 if tiny else value, sign_bit(to_bits(z)), z == 0.0

    return number


@functools.cache
def universal_form(op, mode):
    """result(x, y, w, P, word): one element, whatever its operands."""
    number = universal_number(op, mode)
    native = native_form(op, mode)
    directed = mode in (POSITIVE, NEGATIVE)

    @jit(inline=True)
    def result(x, y, w, P, word):
        none = np.uint64(0)
        value, sign, zero = number(x, y, w, P, word)
        largest = to_float(np.uint64(P[LARGEST]))
        away = True
        if directed:
            away = (sign == none) == (mode == POSITIVE)
        beyond = to_float(np.uint64(P[OVERFLOW])) if away else largest
        value = beyond if value > largest else value
        own, special = native(x, y, w)
        infinite = to_float(np.uint64(P[INFINITE]))
        special |= zero
        value = (infinite if abs(own) == math.inf else abs(own)) if special else value
        sign = sign_bit(to_bits(own)) if special else sign
        sign = sign if value == value else and_(sign, np.uint64(P[NAN_SIGN]))
        sign = and_(sign, np.uint64(P[ZERO_SIGN])) if value == 0.0 else sign
        value = value if value == value else to_float(np.uint64(QUIET_NAN))
        return to_float(or_(to_bits(value), sign))

    return result


@functools.cache
def universal_block(op, mode):
    """block(xs, ys, zs, target, P, halves, ways): the universal form of a block; False, as nothing is left to do."""
    result = universal_form(ADD if op == SUBTRACT else op, mode)
    random = int(mode >= STOCHASTIC)

    @jit(inline=True)
    def block(xs, ys, zs, target, P, halves, ways):
        for i in range(target.size):
            y = -ys[i] if op == SUBTRACT else ys[i]
            word = word_of(halves[i], P) if random == 1 else np.uint64(0)
            target[i] = result(xs[i], y, zs[i], P, word)
        return False

    return block
