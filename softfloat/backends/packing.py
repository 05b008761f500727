"""Parts of the operands of a matrix product, laid out as tiles read them, and bounds on what is in them.

Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for the layout.
"""

import numpy as np

from softfloat._jit import jit
from softfloat.backends.tiles import ROWS, VECTORS, copied_row, scaled_row
from softfloat.bits import (
    add,
    magnitude,
    one_like,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    zero_like,
)

# Rows of a tally of columns.
SUMS, LARGEST, SMALLEST, TALLIES = range(4)
SQUARE = 32  # of numbers that are transposed at once


@jit
def aligned(n, like):
    """n numbers at a multiple of 64 bytes."""
    block = np.empty(n + 16, like.dtype)
    skip = ((-block.ctypes.data) % 64) // block.itemsize
    return block[skip : skip + n]


@jit
def _bounds_of(row, largest, smallest):
    """Bits of the largest magnitude, and of the smallest non-zero one less one, of a row and of what came before."""
    for k in range(row.size):
        u = magnitude(to_bits(row[k]))
        largest = umax(largest, u)
        smallest = umin(smallest, sub(u, one_like(u)))
    return largest, smallest


@jit
def _no_bounds(like):
    """What _bounds_of begins with."""
    zero = zero_like(to_bits(like))
    return zero, sub(zero, one_like(zero))


@jit
def _number(u):
    return np.float64(to_float(u))


@jit
def _after(u):
    return np.float64(to_float(add(u, one_like(u))))


@jit(inline=True)
def bounds_of_rows(A, i, rows, first, n):
    """Largest and smallest non-zero magnitude of the numbers first to first + n of some rows of A."""
    largest, smallest = _no_bounds(A[i, first])
    for r in range(i, i + rows):
        largest, smallest = _bounds_of(A[r, first : first + n], largest, smallest)
    return _number(largest), _after(smallest)


@jit(inline=True)
def pack_lanes(A, words, first, n, j, lanes, width, packed, both):
    """Columns of A as the lanes of a tile's factors: largest and smallest non-zero magnitude.

    Lane l of vector r is column j + r width + l, and there are so many lanes. With `both`, each vector is followed by
    its words.   words : those of A, and the term and column of the first of them.
    """
    marks, term0, column0 = words
    largest, smallest = _no_bounds(packed[0])
    count = 2 if both else 1
    packed[: n * ROWS * width * count] = packed.dtype.type(0)
    for k in range(n):
        row = A[first + k, j : j + lanes]
        largest, smallest = _bounds_of(row, largest, smallest)
        for r in range(VECTORS):
            place = (k * ROWS + r) * width * count
            before = r * width
            for l in range(min(width, lanes - before)):  # noqa: E741
                packed[place + l] = row[before + l]
                if both:
                    own = marks[first + k - term0, j - column0 + before + l]
                    packed[place + width + l] = own
    return _number(largest), _after(smallest)


@jit(inline=True)
def pack_panel(B, words, first, n, j, count, panel, rows, both, one, other, packed):
    """A panel of B in one or two rows a term: times two factors, or itself and its words; columns B lacks are zero.

    words : those of B, and the term and column of the first of them.
    """
    address, size = packed.ctypes.data, packed.itemsize
    marks, term0, column0 = words
    if count < panel:
        packed[: n * rows * panel] = packed.dtype.type(0)
    for k in range(n):
        row = B[first + k]
        place = rows * k * panel
        if count == panel:
            source = row.ctypes.data + size * j
            scaled_row(source, address + size * place, one)
            if both:
                own = marks[first + k - term0].ctypes.data + size * (j - column0)
                copied_row(own, address + size * (place + panel), one)
            elif rows == 2:
                scaled_row(source, address + size * (place + panel), other)
        else:
            for l in range(count):  # noqa: E741
                packed[place + l] = row[j + l] * one
                if both:
                    packed[place + panel + l] = marks[first + k - term0, j - column0 + l]
                elif rows == 2:
                    packed[place + panel + l] = row[j + l] * other


@jit
def tally_columns(B, first, n, j, count, tally):
    """For each column of part of B: the sum of magnitudes, the largest, and the number below the smallest non-zero one.

    Row after row, as they lie in memory.
    """
    sums, large, small = tally[SUMS], tally[LARGEST], tally[SMALLEST]
    none = sums.dtype.type(0)
    largest, smallest = _no_bounds(none)
    sums[:count], large[:count], small[:count] = none, to_float(largest), to_float(smallest)
    for k in range(first, first + n):
        row = B[k, j : j + count]
        for l in range(count):  # noqa: E741
            u = magnitude(to_bits(row[l]))
            sums[l] += abs(row[l])
            large[l] = to_float(umax(to_bits(large[l]), u))
            small[l] = to_float(umin(to_bits(small[l]), sub(u, one_like(u))))


@jit
def bounds_of_tally(tally, first, count):
    """(largest sum of magnitudes of a column, largest and smallest non-zero magnitude) of a panel."""
    sums = tally[SUMS]
    highest = sums.dtype.type(0)
    largest, smallest = _no_bounds(highest)
    for l in range(first, first + count):  # noqa: E741
        if not sums[l] <= highest:  # a NaN wins, and stays: nothing is below it
            highest = sums[l] if highest == highest else highest
        largest = umax(largest, to_bits(tally[LARGEST, l]))
        smallest = umin(smallest, to_bits(tally[SMALLEST, l]))
    return np.float64(highest), _number(largest), _after(smallest)


@jit(inline=True)
def tile_bounds(C, i, rows, j, count):
    """(largest magnitude, whether some number is -0) in part of C."""
    largest, _ = _no_bounds(C[i, j])
    minus_zero = False
    for r in range(i, i + rows):
        row = C[r, j : j + count]
        for l in range(count):  # noqa: E741
            u = to_bits(row[l])
            largest = umax(largest, magnitude(u))
            minus_zero |= (u != zero_like(u)) & (magnitude(u) == zero_like(u))
    return _number(largest), minus_zero


@jit(inline=True)
def copy_in(C, i, rows, j, count, panel, spare):
    """Part of C into a spare tile, zeros around it."""
    spare[:] = spare.dtype.type(0)
    for r in range(rows):
        for l in range(count):  # noqa: E741
            spare[r * panel + l] = C[i + r, j + l]


@jit(inline=True)
def copy_out(spare, panel, C, i, rows, j, count):
    """The numbers that `copy_in` took, back to where they were."""
    for r in range(rows):
        for l in range(count):  # noqa: E741
            C[i + r, j + l] = spare[r * panel + l]


@jit(inline=True)
def copy_lanes(C, j, count, width, panel, spare, out):
    """Row 0 of C to the places of a spare tile where lanes meet their columns, or back from there (out)."""
    if not out:
        spare[:] = spare.dtype.type(0)
    for l in range(count):  # noqa: E741
        place = l // width * panel + l
        if out:
            C[0, j + l] = spare[place]
        else:
            spare[place] = C[0, j + l]


@jit
def transposed(x):
    """Batches of matrices, each transposed, in squares that stay in the cache: what NumPy does jumps over pages."""
    batches, m, n = x.shape
    out = np.empty((batches, n, m), x.dtype)
    for e in range(batches):
        for i in range(0, m, SQUARE):
            for j in range(0, n, SQUARE):
                for l in range(j, min(j + SQUARE, n)):  # noqa: E741
                    for k in range(i, min(i + SQUARE, m)):
                        out[e, l, k] = x[e, k, l]
    return out
