"""Vectorised loops of the fast form of fixed point over flat arrays.

As in softfloat.backends.cpu, each returns False, having done nothing, where it must not run: the
processor's arithmetic cannot be made standard, or an infinity has to be wrapped. The caller then
takes the loop of the definition.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import ALIGNMENT, WORD_BLOCK, fill_words
from softfloat.bits import (
    UNKNOWN,
    enter_standard_arithmetic,
    infinity_like,
    leave_standard_arithmetic,
    magnitude,
    resize,
    to_bits,
)
from softfloat.fixed_point import (
    STEPS,
    WRAPPING,
    fixed_constants,
    fixed_rule,
    load_fixed_constants,
    round_to_steps,
)
from softfloat.rounding import STOCHASTIC


@jit(inline=True)
def has_infinity(x):
    """Whether any element is infinite."""
    found = False
    for i in range(x.size):
        u = to_bits(x[i])
        found |= magnitude(u) == infinity_like(u)
    return found


@functools.cache
def fixed_loop(mode, rule):
    """run(x, out, P): round a flat array into another; where they overlap, it does nothing."""

    @jit
    def run(x, out, P):
        if abs(x.ctypes.data - out.ctypes.data) < x.size * x.itemsize:
            return False
        if rule & WRAPPING and has_infinity(x):
            return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_fixed_constants(P)
        none = P[0]
        head = 0
        if x.size > 256:  # whole vectors are stored fastest on their own alignment
            head = ((-out.ctypes.data) % ALIGNMENT) // x.itemsize
            for i in range(head):
                out[i] = round_to_steps(x[i], p, none, mode, rule)
        source = x[head:]
        target = out[head:]
        for i in range(source.size):
            target[i] = round_to_steps(source[i], p, none, mode, rule)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def fixed_in_place_loop(mode, rule):
    """run(x, P): round a flat array in place; see softfloat.backends.cpu.round_in_place_loop."""

    @jit
    def run(x, P):
        if rule & WRAPPING and has_infinity(x):
            return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_fixed_constants(P)
        none = P[0]
        for i in range(x.size):
            x[i] = round_to_steps(x[i], p, none, mode, rule)
        leave_standard_arithmetic(former)
        return True

    return run


@functools.cache
def fixed_random_loop(mode, rule):
    """run(x, out, P, key, offset): stochastic rounding; out may be x itself."""

    @jit
    def run(x, out, P, key, offset):
        if rule & WRAPPING and has_infinity(x):
            return False
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_fixed_constants(P)
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
                target[i] = round_to_steps(source[i], p, word, mode, rule)
            done += n
        leave_standard_arithmetic(former)
        return True

    return run


class FixedPlan:
    """A fast form of fixed point ready to run, as softfloat.functional.Plan is for formats."""

    def __init__(self, fmt, carrier, mode, rule, bits):
        self.form = (STEPS, mode, rule)
        self.stochastic = mode >= STOCHASTIC
        self.constants = fixed_constants(fmt, carrier, mode, bits)
        self.run = (fixed_random_loop if self.stochastic else fixed_loop)(mode, rule)

    def in_place(self, x, key, start):
        """Round a flat block in place; False where the loop of the definition must take it."""
        if self.stochastic:
            return self.run(x, x, self.constants, key, start)
        return fixed_in_place_loop(*self.form[1:])(x, self.constants)

    def __call__(self, x, out, key, start):
        """Round a flat block into another; False as above."""
        if self.stochastic:
            return self.run(x, out, self.constants, key, start)
        return self.run(x, out, self.constants)


def fixed_plan(fmt, carrier, mode, saturate, bits, variant):
    """The FixedPlan for values of a carrier, or None where only the definition will do."""
    rule = fixed_rule(fmt, carrier, mode, saturate, bits, variant)
    return None if rule is None else FixedPlan(fmt, carrier, mode, rule, bits)
