"""Vectorised loops of the fast forms over flat arrays.

Each returns False, having done nothing, on a processor whose floating-point control word cannot be read and may be set
to flush subnormals; the caller then takes the loop of the definition.
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
    resize,
    shr,
    to_bits,
    umax,
    xor,
    zero_like,
)
from softfloat.fast import BARE, FULL, load_constants, round_full, round_scaled
from softfloat.random import FIRST, GOLDEN, SECOND

ALIGNMENT = 64  # bytes: one cache line, and one vector of the widest kind
BLOCK = 4096  # elements between two looks at whether infinities or NaNs were among them
WORD_BLOCK = 256  # 64-bit random words made at a time, well inside the first-level cache


@jit(inline=True)
def round_one(x, p, word, kind, mode, rule):
    """One value by the fast form of this kind."""
    if kind == FULL:
        return round_full(x, p, word, mode, rule)
    return round_scaled(x, p, word, mode, rule)


@functools.cache
def round_loop(kind, mode, rule):
    """run(x, out, P): round a flat array into another that does not overlap it."""

    @jit
    def run(x, out, P):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_constants(P)
        none = P[0]
        head = 0
        if x.size > 256:  # whole vectors are stored fastest on their own alignment
            head = ((-out.ctypes.data) % ALIGNMENT) // x.itemsize
            for i in range(head):
                out[i] = round_one(x[i], p, none, kind, mode, rule)
        infinity = infinity_like(none)
        for start in range(head, x.size, BLOCK):
            source = x[start : start + BLOCK]
            target = out[start : start + BLOCK]
            largest = zero_like(none)
            for i in range(source.size):
                largest = umax(largest, magnitude(to_bits(source[i])))
                target[i] = round_one(source[i], p, none, kind, mode, rule | BARE)
            if not largest < infinity:  # rare: infinities and NaNs cost a second pass over the block
                for i in range(source.size):
                    target[i] = round_one(source[i], p, none, kind, mode, rule)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def round_in_place_loop(kind, mode, rule):
    """run(x, P): round a flat array in place. One array only: no alias check stands in the way of the vectors."""

    @jit
    def run(x, P):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_constants(P)
        none = P[0]
        for i in range(x.size):
            x[i] = round_one(x[i], p, none, kind, mode, rule)
        leave_standard_arithmetic(former)
        return True

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
def round_random_loop(kind, mode, rule):
    """run(x, out, P, key, offset): stochastic rounding; out may be x itself, element for element."""

    @jit
    def run(x, out, P, key, offset):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_constants(P)
        words = np.empty(WORD_BLOCK, np.uint64)
        halves = words.view(np.uint32)
        done = 0
        while done < x.size:
            first = offset + done
            fill_words(words, key, first >> 1)
            skip = first & 1
            n = min(2 * WORD_BLOCK - skip, x.size - done)
            source = x[done : done + n]
            target = out[done : done + n]
            half = halves[skip : skip + n]
            for i in range(n):
                word = resize(half[i], to_bits(source[i]))
                target[i] = round_one(source[i], p, word, kind, mode, rule)
            done += n
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
