"""Compiled loops over flat arrays: what a rounding did, which updates were lost, whether all is finite.

They look at bits, so that a processor that takes subnormal numbers for zeros counts them all the same.
"""

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import largest_bits
from softfloat.bits import (
    add,
    and_,
    infinity_like,
    magnitude,
    one_like,
    or_,
    to_bits,
    to_float,
    umax,
    umin,
    xor,
    zero_like,
)

NONZERO, FLUSHED, SATURATED, OVERFLOWED, COUNTED = range(5)
BLOCK = 1 << 12


@jit(inline=True)
def nonzero_bits(u):
    """1 for the bits of a number other than zero, else 0."""
    return umin(magnitude(u), one_like(u))


@jit
def count_rounded(before, after, high, low, counts):
    """Add to `counts` what one rounding did to an array. A zero stays a zero.

    before, after : flat values.   high, low : bits of the magnitudes of the range's ends, positive and negative.
    """
    nearer = min(high, low)
    infinity = infinity_like(high)
    for start in range(0, before.size, BLOCK):
        x = before[start : start + BLOCK]
        y = after[start : start + BLOCK]
        was = left = largest = zero_like(infinity)
        for i in range(x.size):
            a = to_bits(x[i])
            was = add(was, nonzero_bits(a))
            left = add(left, nonzero_bits(to_bits(y[i])))
            largest = umax(largest, magnitude(a))
        counts[NONZERO] += np.int64(was)
        counts[FLUSHED] += np.int64(was) - np.int64(left)
        if largest > nearer:  # rare: a second look
            for i in range(x.size):
                a = magnitude(to_bits(x[i]))
                if (low if a != to_bits(x[i]) else high) < a < infinity:
                    held = magnitude(to_bits(y[i])) < infinity
                    counts[SATURATED if held else OVERFLOWED] += 1


@jit
def count_lost(weights, change, updated):
    """(elements with a change that is not zero, those of them whose weight stayed), from flat values."""
    moving = moved = 0
    for start in range(0, weights.size, BLOCK):
        before = weights[start : start + BLOCK]
        after = updated[start : start + BLOCK]
        dw = change[start : start + BLOCK]
        asked = done = zero_like(to_bits(before[0]))
        for i in range(before.size):
            w, r = to_bits(before[i]), to_bits(after[i])
            differ = umin(xor(w, r), one_like(w))
            differ = and_(differ, nonzero_bits(or_(w, r)))  # -0 and +0 are one value
            moves = nonzero_bits(to_bits(dw[i]))
            asked = add(asked, moves)
            done = add(done, and_(moves, differ))
        moving += np.int64(asked)
        moved += np.int64(done)
    return moving, moving - moved


@jit
def count_exponents(x, stride, divisor, histogram):
    """Count the biased float32 exponents of x / divisor, of every stride-th element; zeros are left out.

    x : flat values.   histogram : (256,) counts to add to; bin 0 is for what lies below 2**-126.
    """
    for i in range(0, x.size, stride):
        u = magnitude(to_bits(np.float32(x[i] / divisor)))
        if u != zero_like(u):
            histogram[np.int64(u) >> 23] += 1


@jit
def signal_and_noise(before, after, stride):
    """(sum of squares of values, of their changes) of every stride-th element whose change is finite."""
    signal = noise = 0.0
    for i in range(0, before.size, stride):
        x = np.float64(before[i])
        moved = np.float64(after[i]) - x
        if np.isfinite(moved):
            signal += x * x
            noise += moved * moved
    return signal, noise


@jit
def pass_where_positive(gate, x, out):
    """out = x where the gate is positive, else +0; flat values.

    NumPy's where takes ten times as long on a gate without a pattern.
    """
    for i in range(out.size):
        u = to_bits(gate[i])
        zero = zero_like(u)
        # A positive number has a magnitude, and no sign.
        opened = (u == magnitude(u)) & (u != zero)
        out[i] = x[i] if opened else to_float(zero)


def magnitude_bits(value, dtype):
    """The bits of |value| in a carrier, an unsigned integer."""
    dtype = np.dtype(dtype)
    return np.abs(np.array(value, dtype)).view(f"u{dtype.itemsize}")[()]


INFINITY = {np.dtype(dtype): magnitude_bits(np.inf, dtype) for dtype in (np.float32, np.float64)}


def largest_magnitude(x):
    """The largest magnitude in an array, infinite or NaN if it holds such; 0.0 for an empty one."""
    if not x.size:
        return 0.0
    bits = np.asarray(largest_bits(x.ravel()), f"u{x.itemsize}")
    return float(bits.view(x.dtype))


def gated(gate, x):
    """x where the gate, of the same shape and dtype, is positive, else +0."""
    out = np.empty(x.shape, x.dtype)
    pass_where_positive(gate.ravel(), x.ravel(), out.reshape(-1))
    return out


def all_finite(x):
    """Whether every value of an array is finite."""
    return not x.size or bool(largest_bits(x.ravel()) < INFINITY[x.dtype])
