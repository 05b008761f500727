"""Arithmetic that knows the sign of its own error, so that one rounding can follow: the fast forms.

z is the rounded result and e has the sign of (exact - z), or is zero where z is exact. `to_odd` then moves z to the
odd one of the two numbers around the exact result: one of 53 (24) bits that any rounding to 51 (22) bits or fewer
treats as it would treat the exact one. Sums and products are written by name, so that no compiler joins them.

Domain: operands whose products, quotients and errors neither overflow nor underflow float64. Any float32 operand is
inside; `outside_*` say which float64 operands are not.

Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd (IEEE
Trans. Comput., 2008); Boldo and Muller, Exact and approximated error of the FMA (2011).
"""

import math

from softfloat._jit import jit
from softfloat.bits import (
    fma,
    magnitude,
    minus,
    one_like,
    or_,
    plus,
    quiet_nan_like,
    shr,
    sign_bit,
    sub,
    times,
    to_bits,
    to_float,
    top_position,
    xor,
    zero_like,
)

LARGE = 2.0**1020
SMALL_PRODUCT = 2.0**-960
SMALL_DIVIDEND = 2.0**-900


@jit(inline=True)
def two_sum(a, b):
    """a + b as (rounded sum, exact error): Knuth's algorithm, for any order of the operands."""
    z = plus(a, b)
    t = minus(z, a)
    return z, plus(minus(a, minus(z, t)), minus(b, t))


@jit(inline=True)
def fast_two_sum(a, b):
    """The same by Dekker's algorithm, larger operand first. Where a sum overflows, the error is -z."""
    larger = magnitude(to_bits(b)) > magnitude(to_bits(a))
    high = b if larger else a
    low = a if larger else b
    z = plus(a, b)
    return z, minus(low, minus(z, high))


@jit(inline=True)
def multiply_with_error(a, b):
    z = times(a, b)
    return z, fma(a, b, -z)


@jit(inline=True)
def divide_with_error(a, b):
    z = a / b
    rest = fma(-z, b, a)  # has the sign of the error times that of b
    return z, to_float(xor(to_bits(rest), sign_bit(to_bits(b))))


@jit(inline=True)
def sqrt_with_error(a):
    z = math.sqrt(a)
    return z, fma(-z, z, a)


@jit(inline=True)
def fma_with_errors(a, b, c):
    """a*b + c as (rounded result, two numbers whose sum is the exact error)."""
    z = fma(a, b, c)
    high = times(a, b)
    low = fma(a, b, -high)
    s, e2 = two_sum(c, low)
    t, e1 = two_sum(high, s)
    return z, plus(minus(t, z), e1), e2


@jit(inline=True)
def fma_with_error(a, b, c):
    z, e1, e2 = fma_with_errors(a, b, c)
    return z, plus(e1, e2)


@jit(inline=True)
def to_odd(z, e):
    """The odd neighbour of the exact result, or z where that is exact."""
    u = to_bits(z)
    toward_zero = shr(xor(u, to_bits(e)), top_position(u))
    odd = or_(sub(u, toward_zero), one_like(u))
    # An error that is NaN comes with a z that is infinite or NaN, and leaves it so.
    return to_float(odd) if abs(e) > to_float(zero_like(u)) else z


@jit(inline=True)
def positive_nan(z):
    """z, with any NaN replaced by the canonical one (an operation's NaN has no sign of its own)."""
    return z if z == z else to_float(quiet_nan_like(to_bits(z)))


@jit(inline=True)
def zero_of_sum(z, a, b):
    """The sum z of a and b as rounding toward negative wants it: an exact zero of unlike signs is -0."""
    unlike = sign_bit(xor(to_bits(a), to_bits(b)))
    return to_float(or_(to_bits(z), unlike)) if z == to_float(zero_like(unlike)) else z


@jit(inline=True)
def outside_add(z):
    return not abs(z) < LARGE


@jit(inline=True)
def outside_multiply(z, a, b):
    m = abs(z)
    return (not m < LARGE) | ((m < SMALL_PRODUCT) & (a != 0.0) & (b != 0.0))


@jit(inline=True)
def outside_divide(z, a):
    m = abs(z)
    return (not m < LARGE) | (((m < SMALL_PRODUCT) | (abs(a) < SMALL_DIVIDEND)) & (a != 0.0))


@jit(inline=True)
def outside_sqrt(z, a):
    return (not z < LARGE) | ((a < SMALL_DIVIDEND) & (a != 0.0))


@jit(inline=True)
def outside_fma(z, a, b, c):
    m = abs(a * b)
    small = (m < SMALL_PRODUCT) & (a != 0.0) & (b != 0.0)
    return (not m < LARGE) | (not abs(c) < LARGE) | (not abs(z) < LARGE) | small
