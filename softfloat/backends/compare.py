"""Loops of comparisons, neighbours, classes and conversions to integers.

Operands are bits of float32 or float64 numbers as int32 or int64 (ma, mb: their significand
fields), or (5, n) columns of exact numbers; `load` tells them apart. The two *_floats loops are
fast forms on the floats themselves: they return False, having done nothing, where the processor's
arithmetic cannot be made standard.
"""

import functools

from softfloat._jit import jit
from softfloat.backends.exact import (
    MODE,
    RANDOM_BITS,
    VARIANT,
    chosen_word,
    count_flags,
    exponent_width,
    store,
)
from softfloat.bits import (
    UNKNOWN,
    and_,
    enter_standard_arithmetic,
    i64,
    leave_standard_arithmetic,
    magnitude,
    or_,
    quiet_nan_like,
    to_bits,
    to_float,
)
from softfloat.codec import carrier_bits
from softfloat.ops.compare import (
    FIRST,
    SECOND,
    UNORDERED,
    chosen,
    class_of,
    exponent_of,
    last_place,
    load,
    neighbour,
    number_bits,
    order,
    precedes,
)
from softfloat.ops.convert import integer_of, round_any
from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    EVEN,
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    NO_SATURATION,
    QUIET_CLASS,
    SIGNALING_CLASS,
    VARIANT_A,
    ZERO_CLASS,
)

EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)
RELATIONS = "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"
UP, DOWN, AFTER = range(3)


@functools.cache
def compare_loop(relation):
    """run(a, ma, b, mb, out, signaling, counts): the definition of the six comparisons."""

    @jit
    def run(a, ma, b, mb, out, signaling, counts):
        for i in range(out.size):
            ca, na, ea, ha, la, _ = load(a, i, ma)
            cb, nb, eb, hb, lb, _ = load(b, i, mb)
            found = order(ca, na, ea, ha, la, cb, nb, eb, hb, lb)
            if relation == EQUAL:
                out[i] = found == 0
            elif relation == NOT_EQUAL:
                out[i] = found != 0
            elif relation == LESS:
                out[i] = found == -1
            elif relation == LESS_EQUAL:
                out[i] = found == -1 or found == 0
            elif relation == GREATER:
                out[i] = found == 1
            else:
                out[i] = found == 1 or found == 0
            signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS
            if signals or (signaling and found == UNORDERED):
                count_flags(INVALID, counts)

    return run


@functools.cache
def compare_floats(relation):
    """run(a, b, out): the same on floats, without flags; the processor widens float32 exactly."""

    @jit
    def run(a, b, out):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(out.size):
            if relation == EQUAL:
                out[i] = a[i] == b[i]
            elif relation == NOT_EQUAL:
                out[i] = a[i] != b[i]
            elif relation == LESS:
                out[i] = a[i] < b[i]
            elif relation == LESS_EQUAL:
                out[i] = a[i] <= b[i]
            elif relation == GREATER:
                out[i] = a[i] > b[i]
            else:
                out[i] = a[i] >= b[i]
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def total_order_loop(magnitudes):
    """run(a, ma, b, mb, out): totalOrder, or with `magnitudes` totalOrderMag."""

    @jit
    def run(a, ma, b, mb, out):
        for i in range(out.size):
            ca, na, ea, ha, la, pa = load(a, i, ma)
            cb, nb, eb, hb, lb, pb = load(b, i, mb)
            if magnitudes:
                na = nb = False
            out[i] = precedes(ca, na, ea, ha, la, pa, cb, nb, eb, hb, lb, pb)

    return run


@functools.cache
def select_loop(larger, magnitudes, numbers, places):
    """run(a, ma, b, mb, out, mo, counts): minimum and maximum; see `chosen`.

    With `places`, out holds which operand it is (FIRST, SECOND, NEITHER), else the bits of the
    result.
    """

    @jit
    def run(a, ma, b, mb, out, mo, counts):
        for i in range(out.size):
            ca, na, ea, ha, la, _ = load(a, i, ma)
            cb, nb, eb, hb, lb, _ = load(b, i, mb)
            place = chosen(larger, magnitudes, numbers, ca, na, ea, ha, la, cb, nb, eb, hb, lb)
            if places:
                out[i] = place
            elif place == FIRST:
                out[i] = number_bits(ca, na, ea, ha, mo)
            elif place == SECOND:
                out[i] = number_bits(cb, nb, eb, hb, mo)
            else:
                out[i] = number_bits(QUIET_CLASS, False, 0, 0, mo)
            if ca == SIGNALING_CLASS or cb == SIGNALING_CLASS:
                count_flags(INVALID, counts)

    return run


@jit(inline=True)
def select_float(x, y, larger, magnitudes, numbers):
    """Minimum or maximum of two floats of one width."""
    both = (
        to_float(and_(to_bits(x), to_bits(y)))  # of equal numbers: only zeros differ in a bit
        if larger
        else to_float(or_(to_bits(x), to_bits(y)))
    )
    z = (x if x > y else y) if larger else (x if x < y else y)
    z = both if x == y else z
    if magnitudes:
        p = to_float(magnitude(to_bits(x)))
        q = to_float(magnitude(to_bits(y)))
        first = p > q if larger else p < q
        z = x if first else (z if p == q else y)
    nan = to_float(quiet_nan_like(to_bits(x)))
    if numbers:
        z = y if x != x else z
        z = x if y != y else z
        return nan if z != z else z
    return nan if (x != x) | (y != y) else z


@functools.cache
def select_floats(larger, magnitudes, numbers):
    """run(a, b, out): the same on floats of one width, without flags; out may be an operand."""

    @jit
    def run(a, b, out):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(out.size):
            out[i] = select_float(a[i], b[i], larger, magnitudes, numbers)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def step_loop(direction):
    """run(a, ma, b, mb, out, mo, F, counts): the neighbour UP, DOWN, or AFTER a towards b."""

    @jit
    def run(a, ma, b, mb, out, mo, F, counts):
        for i in range(out.size):
            ca, na, ea, ha, la, _ = load(a, i, ma)
            signals = ca == SIGNALING_CLASS
            upward = direction == UP
            code = i64(0)
            if direction == AFTER:
                cb, nb, eb, hb, lb, _ = load(b, i, mb)
                signals = signals or cb == SIGNALING_CLASS
                found = order(ca, na, ea, ha, la, cb, nb, eb, hb, lb)
                upward = found < 0
                if found == UNORDERED:
                    ca = QUIET_CLASS
            if direction == AFTER and found == 0:
                code, negative, _ = round_any(
                    cb, nb, eb, hb, lb, 0, F, EVEN, NO_SATURATION, 0, 1, VARIANT_A
                )
            else:
                negative, code = neighbour(upward, ca, na, ea, ha, la, F)
            store(out, i, mo, negative, code, F)
            if signals:
                count_flags(INVALID, counts)

    return run


@functools.cache
def spacing_loop():
    """run(a, ma, out, mo, F, counts): the step to the next value away from zero."""

    @jit
    def run(a, ma, out, mo, F, counts):
        width = exponent_width(mo)
        for i in range(out.size):
            kind, negative, exponent, high, low, _ = load(a, i, ma)
            if kind >= INFINITE_CLASS:
                out[i] = number_bits(QUIET_CLASS, False, 0, 0, mo)
                if kind != QUIET_CLASS:
                    count_flags(INVALID, counts)
            else:
                significand, last = last_place(kind, exponent, high, low, F)
                bits = carrier_bits(significand, last, mo, width)
                if negative and kind == FINITE_CLASS:
                    bits |= -(1 << (mo + width))
                out[i] = bits

    return run


@functools.cache
def class_loop():
    """run(a, ma, out, F): the place in CLASS_NAMES."""

    @jit
    def run(a, ma, out, F):
        for i in range(out.size):
            kind, negative, exponent, high, low, _ = load(a, i, ma)
            out[i] = class_of(kind, negative, exponent, high, low, F)

    return run


@functools.cache
def exponent_loop():
    """run(a, ma, out, mo, counts): logb as bits of float32 or float64."""

    @jit
    def run(a, ma, out, mo, counts):
        for i in range(out.size):
            kind, _, exponent, _, _, _ = load(a, i, ma)
            if kind == ZERO_CLASS:
                count_flags(DIVIDED_BY_ZERO, counts)
            if kind == SIGNALING_CLASS:
                count_flags(INVALID, counts)
            kind, negative, size = exponent_of(kind, exponent)
            bits = number_bits(kind, negative, 0, 0, mo)
            if kind == FINITE_CLASS:
                bits |= carrier_bits(size, 0, mo, exponent_width(mo))
            out[i] = bits

    return run


@functools.cache
def integer_loop():
    """run(a, ma, out, limits, ends, choice, key, words, counts): to integers, as 64 bits.

    limits : see `integer_of`.   ends : what stands for a number above the range, for one below it,
    and for NaN. Returns the index of the first element that is none of the range, or -1.
    """

    @jit
    def run(a, ma, out, limits, ends, choice, key, words, counts):
        missing = -1
        for i in range(out.size):
            word = i64(chosen_word(choice, key, words, i))
            kind, negative, exponent, high, low, _ = load(a, i, ma)
            bits, flags = integer_of(
                kind, negative, exponent, high, low, limits,
                choice[MODE], word, choice[RANDOM_BITS], choice[VARIANT],
            )  # fmt: skip
            if flags & INVALID:
                bits = ends[2] if kind >= QUIET_CLASS else ends[1] if negative else ends[0]
                if missing < 0:
                    missing = i
            out[i] = bits
            count_flags(flags, counts)
        return missing

    return run
