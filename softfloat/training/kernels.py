"""Compiled loops over flat arrays: what a rounding did, which updates were lost, whether all is finite.

They look at bits, so that a processor that takes subnormal numbers for zeros counts them all the same.
"""

import numpy as np

from softfloat._jit import jit
from softfloat.bits import add, and_, magnitude, one_like, or_, umax, umin, xor, zero_like

NONZERO, FLUSHED, SATURATED, OVERFLOWED, COUNTED = range(5)
BLOCK = 1 << 12


@jit(inline=True)
def nonzero_bits(u):
    """1 for the bits of a number other than zero, else 0."""
    return umin(magnitude(u), one_like(u))


@jit
def count_rounded(before, after, infinity, high, low, counts):
    """Add to `counts` what one rounding did to an array. A zero stays a zero.

    before, after : bits of the values, as flat unsigned arrays.   infinity : bits of the carrier's infinity.
    high, low : magnitudes of the range's ends, positive and negative.
    """
    nearer = min(high, low)
    for start in range(0, before.size, BLOCK):
        x = before[start : start + BLOCK]
        y = after[start : start + BLOCK]
        was = left = largest = zero_like(infinity)
        for i in range(x.size):
            was = add(was, nonzero_bits(x[i]))
            left = add(left, nonzero_bits(y[i]))
            largest = umax(largest, magnitude(x[i]))
        counts[NONZERO] += np.int64(was)
        counts[FLUSHED] += np.int64(was) - np.int64(left)
        if largest > nearer:  # rare: a second look
            for i in range(x.size):
                a = magnitude(x[i])
                if (low if a != x[i] else high) < a < infinity:
                    held = magnitude(y[i]) < infinity
                    counts[SATURATED if held else OVERFLOWED] += 1


@jit
def count_lost(weights, change, updated):
    """(elements with a change that is not zero, those of them whose weight stayed), from bits of flat arrays."""
    moving = moved = 0
    for start in range(0, weights.size, BLOCK):
        w = weights[start : start + BLOCK]
        dw = change[start : start + BLOCK]
        r = updated[start : start + BLOCK]
        asked = done = zero_like(w[0])
        for i in range(w.size):
            one = one_like(w[i])
            differ = umin(xor(w[i], r[i]), one)
            differ = and_(differ, nonzero_bits(or_(w[i], r[i])))  # -0 and +0 are one value
            moves = nonzero_bits(dw[i])
            asked = add(asked, moves)
            done = add(done, and_(moves, differ))
        moving += np.int64(asked)
        moved += np.int64(done)
    return moving, moving - moved


@jit
def largest_bits(bits):
    """The largest magnitude of flat bits, as bits: at least those of infinity if not all values are finite."""
    largest = zero_like(bits[0])
    for i in range(bits.size):
        largest = umax(largest, magnitude(bits[i]))
    return largest


@jit
def pass_where_positive(gate, bits, out):
    """out = bits where the gate's bits are those of a positive number, else +0; flat unsigned arrays.

    NumPy's where takes ten times as long on a gate without a pattern.
    """
    for i in range(out.size):
        zero = zero_like(bits[i])
        # A positive number has a magnitude, and no sign.
        opened = (gate[i] == magnitude(gate[i])) & (gate[i] != zero)
        out[i] = bits[i] if opened else zero


class Layout:
    """The bits of a carrier, as uint32 or uint64."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self.unsigned = np.dtype(f"u{self.dtype.itemsize}")
        self.infinity = self.of(np.inf)

    def of(self, value):
        """The bits of a magnitude."""
        return np.abs(np.array(value, self.dtype)).view(self.unsigned)[()]

    def bits(self, x):
        """The bits of an array, flat."""
        return np.ascontiguousarray(x).reshape(-1).view(self.unsigned)


LAYOUTS = {np.dtype(dtype): Layout(dtype) for dtype in (np.float32, np.float64)}


def largest_magnitude(x):
    """The largest magnitude in an array, infinite or NaN if it holds such; 0.0 for an empty one."""
    layout = LAYOUTS[x.dtype]
    largest = largest_bits(layout.bits(x)) if x.size else 0
    return float(np.array(largest, layout.unsigned).view(layout.dtype))


def gated(gate, x):
    """x where the gate, of the same shape and dtype, is positive, else +0."""
    layout = LAYOUTS[x.dtype]
    out = np.empty(x.shape, x.dtype)
    pass_where_positive(layout.bits(gate), layout.bits(x), layout.bits(out))
    return out


def all_finite(x):
    """Whether every value of an array is finite."""
    layout = LAYOUTS[x.dtype]
    return not x.size or bool(largest_bits(layout.bits(x)) < layout.infinity)
