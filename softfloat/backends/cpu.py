"""Vectorised loops of the fast forms over flat arrays.

Each returns False, having done nothing, where it must not run: on a processor whose floating-point control word cannot
be read and may be set to flush subnormals, or where an infinity would have to be wrapped. The caller then takes the
loop of the definition.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.bits import (
    UNKNOWN,
    add,
    enter_standard_arithmetic,
    infinity_like,
    leave_standard_arithmetic,
    magnitude,
    mul,
    one_like,
    quiet_nan_like,
    resize,
    shr,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    xor,
    zero_like,
)
from softfloat.fast import (
    BARE,
    constants_loader,
    load_constants,
    rounding_form,
    special_form,
    wraps_infinities,
)
from softfloat.ops.error_free import (
    divide_with_error,
    fma_with_error,
    multiply_with_error,
    outside_add,
    outside_divide,
    outside_fma,
    outside_multiply,
    outside_sqrt,
    positive_nan,
    sqrt_with_error,
    to_odd,
    two_sum,
    zero_of_sum,
)
from softfloat.random import FIRST, GOLDEN, SECOND
from softfloat.rounding import NEGATIVE

ALIGNMENT = 64  # bytes: one cache line, and one vector of the widest kind
BLOCK = 32768  # elements between two looks at whether infinities or NaNs were among them
SHORT_BLOCK = 4096  # elements between two looks at whether one of them moved
WORD_BLOCK = 256  # 64-bit random words made at a time, well inside the first-level cache


@jit(inline=True)
def has_infinity(x):
    """Whether any element is infinite."""
    found = False
    for i in range(x.size):
        u = to_bits(x[i])
        found |= magnitude(u) == infinity_like(u)
    return found


@functools.cache
def round_loop(kind, mode, rule):
    """run(x, out, P): round a flat array into another; where they overlap, it does nothing and returns False."""
    round_one = rounding_form(kind, mode, rule | BARE)
    special = special_form(kind, mode, rule)
    load = constants_loader(kind)
    wraps = int(wraps_infinities(kind, rule))

    @jit
    def run(x, out, P):
        distance = abs(np.int64(x.ctypes.data) - np.int64(out.ctypes.data))
        if distance < x.size * x.itemsize:
            return False
        if wraps == 1:
            if has_infinity(x):
                return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load(P)
        none = P[0]
        infinity = infinity_like(none)
        start = 0
        # Whole vectors are stored fastest on their own alignment: the first block ends there.
        stop = ((-out.ctypes.data) % ALIGNMENT) // x.itemsize if x.size > 256 else 0
        while start < x.size:
            source = x[start:stop]
            target = out[start:stop]
            largest = zero_like(none)
            for i in range(source.size):
                largest = umax(largest, magnitude(to_bits(source[i])))
                target[i] = round_one(source[i], p, none)
            if not largest < infinity:  # infinities and NaNs are rare: they cost a second pass
                for i in range(source.size):
                    if not magnitude(to_bits(source[i])) < infinity:
                        target[i] = special(source[i], p, none)
            start = stop
            stop = min(start + BLOCK, x.size)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def round_in_place_loop(kind, mode, rule):
    """run(x, P): round a flat array in place. One array only: no alias check stands in the way of the vectors."""
    round_one = rounding_form(kind, mode, rule)
    load = constants_loader(kind)
    wraps = int(wraps_infinities(kind, rule))

    @jit
    def run(x, P):
        if wraps == 1:
            if has_infinity(x):
                return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load(P)
        none = P[0]
        for i in range(x.size):
            x[i] = round_one(x[i], p, none)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def unmoved_loop(kind, mode, rule):
    """run(x, P): whether rounding would leave every bit of a flat array as it is; it stops at the first block
    of SHORT_BLOCK elements that moves."""
    round_one = rounding_form(kind, mode, rule)
    load = constants_loader(kind)
    wraps = int(wraps_infinities(kind, rule))

    @jit
    def run(x, P):
        if wraps == 1:
            if has_infinity(x):
                return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load(P)
        none = P[0]
        moved = zero_like(none)
        for start in range(0, x.size, SHORT_BLOCK):
            part = x[start : start + SHORT_BLOCK]
            for i in range(part.size):
                u = to_bits(part[i])
                moved = umax(moved, xor(u, to_bits(round_one(part[i], p, none))))
            if moved != zero_like(none):
                break
        leave_standard_arithmetic(former)
        return moved == zero_like(none)

    return run


@jit(inline=True)
def fill_words(words, key, first):
    """words[j] = word number first + j of the key; the loop form of softfloat.random.key_word."""
    c = add(mul(np.uint64(first + 1), np.uint64(GOLDEN)), key)
    for j in range(words.size):
        z = mul(xor(c, shr(c, np.uint64(30))), np.uint64(FIRST))
        z = mul(xor(z, shr(z, np.uint64(27))), np.uint64(SECOND))
        words[j] = xor(z, shr(z, np.uint64(31)))
        c = add(c, np.uint64(GOLDEN))


@functools.cache
def round_random_loop(kind, mode, rule, in_place=0):
    """run(x, out, P, key, offset): stochastic rounding of a flat array into one that shares no memory with it.

    in_place : 1: into x itself, which is given as `out` too. One array then, and no alias check before the vectors.
    """
    round_one = rounding_form(kind, mode, rule)
    load = constants_loader(kind)
    wraps = int(wraps_infinities(kind, rule))

    @jit
    def run(x, out, P, key, offset):
        if wraps == 1:
            if has_infinity(x):
                return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load(P)
        words = np.empty(WORD_BLOCK, np.uint64)
        halves = words.view(np.uint32)
        done = 0
        while done < x.size:
            first = offset + done
            fill_words(words, key, first >> 1)
            skip = first & 1
            n = min(2 * WORD_BLOCK - skip, x.size - done)
            target = out[done : done + n]
            source = target if in_place == 1 else x[done : done + n]
            half = halves[skip : skip + n]
            for i in range(n):
                word = resize(half[i], to_bits(source[i]))
                target[i] = round_one(source[i], p, word)
            done += n
        leave_standard_arithmetic(former)
        return True

    return run


ADD, SUBTRACT, MULTIPLY, DIVIDE, SQRT, FMA = range(6)
FAST_OPERATIONS = {
    "add": ADD,
    "subtract": SUBTRACT,
    "multiply": MULTIPLY,
    "divide": DIVIDE,
    "sqrt": SQRT,
    "fma": FMA,
}
REDO_BLOCK = 4096  # elements that are computed anew together when one of them must
# In float32, products, quotients and roots of numbers between these keep an exact error term.
SMALL32, LARGE32 = 2.0**-48, 2.0**24


@functools.cache
def arithmetic_loop(operation, kind, mode, rule):
    """run(a, b, out, P, redo): add, subtract, multiply, divide or sqrt on flat float32 arrays, all in float32 lanes.

    For formats of at most 22 bits precision. Returns `head`, or -1 having done nothing: block 0 is the first `head`
    elements, up to a boundary where vectors are stored fastest, and each later one has REDO_BLOCK. redo[j] is set for
    each block that holds an infinity, a NaN, or operands so large or small that an error term could underflow; what
    out holds there is void. out shares no memory with the operands.
    """
    op = FAST_OPERATIONS[operation]
    round_one = rounding_form(kind, mode, rule | BARE)

    @jit
    def run(a, b, out, P, redo):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return -1
        p = load_constants(P)
        none = P[0]
        one = one_like(none)
        infinity = infinity_like(none)
        small = to_bits(np.float32(SMALL32))
        large = to_bits(np.float32(LARGE32))
        head = min(((-out.ctypes.data) % ALIGNMENT) // out.itemsize, out.size)
        for j in range(redo.size):
            start = head + (j - 1) * REDO_BLOCK if j > 0 else 0
            stop = start + REDO_BLOCK if j > 0 else head
            target = out[start:stop]
            xs = a[start:stop]
            ys = b[start:stop]
            highest = zero_like(none)
            lowest = infinity
            greatest_divisor = zero_like(none)
            for i in range(target.size):
                x = xs[i]
                y = ys[i]
                if op == ADD:
                    z, e = two_sum(x, y)
                if op == SUBTRACT:
                    y = -y
                    z, e = two_sum(x, y)
                if op == MULTIPLY:
                    z, e = multiply_with_error(x, y)
                    # A zero operand is harmless: less one, it is the largest integer.
                    lowest = umin(lowest, sub(magnitude(to_bits(x)), one))
                    lowest = umin(lowest, sub(magnitude(to_bits(y)), one))
                if op == DIVIDE:
                    z, e = divide_with_error(x, y)
                    lowest = umin(lowest, sub(magnitude(to_bits(x)), one))
                    greatest_divisor = umax(greatest_divisor, magnitude(to_bits(y)))
                if op == SQRT:
                    z, e = sqrt_with_error(x)
                    lowest = umin(lowest, sub(magnitude(to_bits(x)), one))
                if mode == NEGATIVE and op in (ADD, SUBTRACT):
                    z = zero_of_sum(z, x, y)
                highest = umax(highest, magnitude(to_bits(z)))
                target[i] = round_one(to_odd(z, e), p, none)
            redo[j] = (highest >= infinity) | (lowest < small) | (greatest_divisor > large)
        leave_standard_arithmetic(former)
        return head

    return run


@functools.cache
def odd_loop(operation, toward_negative):
    """run(a, b, c, out, redo): exact results of an operation as float64 numbers rounded to odd, for a second rounding.

    redo[j] is set for each REDO_BLOCK elements that hold an operand outside the domain of error-free arithmetic; what
    out holds there is void. NaNs are the canonical one. out shares no memory with the operands.
    """
    op = FAST_OPERATIONS[operation]

    @jit
    def run(a, b, c, out, redo):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for j in range(redo.size):
            start = j * REDO_BLOCK
            target = out[start : start + REDO_BLOCK]
            xs = a[start : start + REDO_BLOCK]
            ys = b[start : start + REDO_BLOCK]
            zs = c[start : start + REDO_BLOCK]
            outside = False
            for i in range(target.size):
                x = np.float64(xs[i])
                y = x
                if op == SQRT:
                    z, e = sqrt_with_error(x)
                    bad = outside_sqrt(z, x)
                if op == ADD:
                    y = np.float64(ys[i])
                    z, e = two_sum(x, y)
                    bad = outside_add(z)
                if op == SUBTRACT:
                    y = -np.float64(ys[i])
                    z, e = two_sum(x, y)
                    bad = outside_add(z)
                if op == MULTIPLY:
                    y = np.float64(ys[i])
                    z, e = multiply_with_error(x, y)
                    bad = outside_multiply(z, x, y)
                if op == DIVIDE:
                    y = np.float64(ys[i])
                    z, e = divide_with_error(x, y)
                    bad = outside_divide(z, x)
                if op == FMA:
                    w = np.float64(ys[i])
                    y = np.float64(zs[i])
                    z, e = fma_with_error(x, w, y)
                    bad = outside_fma(z, x, w, y)
                    x = x * w
                if toward_negative:
                    z = zero_of_sum(z, x, y)
                outside |= bad
                target[i] = positive_nan(to_odd(z, e))
            redo[j] = outside
        leave_standard_arithmetic(former)
        return True

    return run


@jit
def cast(x, out):
    """Copy between float32 and float64 where every value is exact in both, subnormals included."""
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return False
    for i in range(x.size):
        out[i] = x[i]
    leave_standard_arithmetic(former)
    return True


@jit
def largest_bits(x):
    """The bits of the largest magnitude of flat values: at least those of infinity if not all are finite."""
    largest = zero_like(to_bits(x[0]))
    for i in range(x.size):
        largest = umax(largest, magnitude(to_bits(x[i])))
    return largest


@jit
def make_nans_canonical(x):
    """Replace every NaN: processors differ in the sign of those that they make."""
    for i in range(x.size):
        u = to_bits(x[i])
        x[i] = x[i] if x[i] == x[i] else to_float(quiet_nan_like(u))
