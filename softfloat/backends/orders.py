"""Sums over the axes of an array, in each order, from the loops over rows and columns of softfloat.backends.sums.

Blocks are rows of their own; a tree over many terms is a tree over the sums of its whole subtrees. So every order comes
down to rows, columns, lanes and trees, which may be split over threads.
"""

import math

import numpy as np

from softfloat.backends.additions import FLOAT32
from softfloat.backends.sum_loops import running
from softfloat.backends.sums import NO_KEYS, PIECE, narrow
from softfloat.ops.reduce import (
    KAHAN,
    LANE_COUNT,
    LANES,
    NEUMAIER,
    PAIRWISE,
    SEQUENTIAL,
)

LEAST_SLAB = 1 << 12  # terms; smaller parts of an array are copied together first


def as_terms(value):
    """(the values as float32 if that is exact, else as they are; the largest finite magnitude of float64 ones)."""
    if value.dtype == FLOAT32:
        return value if value.flags.aligned else value.copy(), 0.0
    flat = np.ascontiguousarray(value).reshape(-1)
    short = np.empty(flat.size, FLOAT32)
    same, largest = narrow(flat, short)
    return (short if same else flat).reshape(value.shape), largest


def axis_sums(value, axes, order, block, adder, outer, initial, keys=NO_KEYS):
    """The running result of each element of a reduction over some axes, in C order; adder.lane or outer.lane.

    value : terms that the adder takes, none of its dimensions empty.   initial : 0, or 1 for products.
    Returns None where the sums of blocks are nothing that `outer` takes.
    """
    kept = tuple(i for i in range(value.ndim) if i not in axes)
    n = math.prod(value.shape[i] for i in axes)
    size = value.size // n
    if order == SEQUENTIAL:
        sums = running(size, initial, adder.lane)
        _walk_array(adder, value, axes, kept, sums, keys)
        return sums
    if order in (KAHAN, NEUMAIER):
        return _compensated(adder, value, axes, kept, order)
    rows = np.ascontiguousarray(value.transpose(kept + axes)).reshape(size, n)
    if order == PAIRWISE:
        return _pairwise(adder, rows)
    if order == LANES:
        return _lanes(adder, rows)
    return _blocked(adder, outer, rows, block)


def _compensated(adder, value, axes, kept, order):
    """Columns where the terms of all the elements lie so, else rows."""
    name = "kahan" if order == KAHAN else "neumaier"
    n = math.prod(value.shape[i] for i in axes)
    size = value.size // n
    pairs = running(2 * size, 0, adder.lane)
    if size > 1 and axes + kept == tuple(range(value.ndim)):
        flat = np.ascontiguousarray(value).reshape(-1)
        adder.add(f"{name} columns", flat, size, n, pairs)
    else:
        flat = np.ascontiguousarray(value.transpose(kept + axes)).reshape(-1)
        adder.add(f"{name} rows", flat, n, n, pairs)
    sums, rests = pairs[::2].copy(), pairs[1::2].copy()
    if order == NEUMAIER:
        adder.add("columns", rests, size, 1, sums)
    return sums


def _pairwise(adder, rows):
    partial = _by_blocks(adder, "tree", rows, PIECE)
    return _join(adder, partial)


def _join(adder, partial):
    """The tree over the columns of an array of running results."""
    if partial.shape[1] == 1:
        return partial[:, 0].copy()
    flat = np.ascontiguousarray(partial).reshape(-1)
    sums = running(len(partial), 0, adder.lane)
    adder.add("branches", flat, partial.shape[1], partial.shape[1], sums)
    return sums


def _lanes(adder, rows):
    size, n = rows.shape
    lanes = running(size * LANE_COUNT, 0, adder.lane)
    adder.add("lanes", rows.reshape(-1), n, n, lanes)
    return _join(adder, lanes.reshape(size, LANE_COUNT)[:, : min(n, LANE_COUNT)])


def _blocked(adder, outer, rows, block):
    if len(rows) == 1:
        total = _chained(adder, outer, rows.reshape(-1), block)
        if total is not None:
            return total
    partial, largest = as_terms(_by_blocks(adder, "rows", rows, block))
    if not outer.takes(partial, largest):
        return None
    sums = running(len(rows), 0, outer.lane)
    outer.add("rows", partial.reshape(-1), partial.shape[1], partial.shape[1], sums)
    return sums


def _chained(adder, outer, flat, block):
    """The sum of one element, its blocks added as they are finished; None where that is not to be had."""
    whole = flat.size // block
    sums, total = running(whole, 0, adder.lane), running(1, 0, outer.lane)
    if not adder.add_blocks(flat, block, sums, outer, total):
        return None
    rest = flat[whole * block :]
    if rest.size:
        last = running(1, 0, adder.lane)
        adder.add("rows", rest, rest.size, rest.size, last)
        outer.add("rows", last, 1, 1, total)
    return total


def _by_blocks(adder, name, rows, block):
    """(rows, blocks): what a loop gives for each block of consecutive terms; the last block may be shorter."""
    size, n = rows.shape
    whole, rest = divmod(n, block)
    partial = np.zeros((size, whole + (rest > 0)), adder.lane)
    if whole:
        main = np.ascontiguousarray(rows[:, : whole * block]).reshape(-1)
        sums = running(size * whole, 0, adder.lane)
        adder.add(name, main, block, block, sums)
        partial[:, :whole] = sums.reshape(size, whole)
    if rest:
        sums = running(size, 0, adder.lane)
        adder.add(name, rows.reshape(-1)[whole * block :], n, rest, sums)
        partial[:, whole] = sums
    return partial


# ---------------------------------------------------------------- layouts
def _walk_array(adder, value, axes, kept, sums, keys):
    """sums += the terms of each element in C order of the axes, wherever they lie."""
    dims = _dimensions(value, axes)
    if dims is None or not _walkable(dims):
        value = np.ascontiguousarray(value.transpose(axes + kept))
        dims = _dimensions(value, tuple(range(len(axes))))
    span = 1 + sum((length - 1) * stride for length, stride, _ in dims)
    flat = np.lib.stride_tricks.as_strided(value, (span,), (value.itemsize,))
    _walk(adder, flat, dims, sums, keys, 0)


def _dimensions(value, axes):
    """[(length, stride in numbers, whether it is summed over)], neighbours that are one dimension joined; or None."""
    dims = []
    for i, length in enumerate(value.shape):
        stride, odd = divmod(value.strides[i], value.itemsize)
        if length == 1:
            continue
        if odd or stride < 0:
            return None
        summed = i in axes
        if dims and dims[-1][2] == summed and dims[-1][1] == length * stride:
            dims[-1] = (dims[-1][0] * length, stride, summed)
        else:
            dims.append((length, stride, summed))
    return dims


def _walkable(dims):
    """Whether the last two dimensions are rows or columns of a size that is worth a call of their own."""
    last = dims[-2:]
    if len(last) == 2 and last[0][2] == last[1][2]:
        return False
    if last and all(stride != 1 for _, stride, _ in last):
        return False
    return len(dims) <= 2 or math.prod(length for length, _, _ in last) >= LEAST_SLAB


def _walk(adder, flat, dims, sums, keys, first):
    """As `_walk_array`, for the dimensions of `_dimensions`; `first` is the number of the first term."""
    if len(dims) <= 2:
        _walk_plane(adder, flat, dims, sums, keys, first)
        return
    (length, stride, summed), *rest = dims
    terms = math.prod(n for n, _, s in rest if s)
    size = math.prod(n for n, _, s in rest if not s)
    for i in range(length):
        part = slice(None) if summed else slice(i * size, (i + 1) * size)
        begin = first + i * terms if summed else first
        _walk(adder, flat[i * stride :], rest, sums[part], keys[part], begin)


def _walk_plane(adder, flat, dims, sums, keys, first):
    """Columns where the kept dimension has its numbers side by side, else rows."""
    n, along = next(((length, stride) for length, stride, summed in dims if summed), (1, 1))
    across = next((stride for _, stride, summed in dims if not summed), 1)
    if across == 1 and sums.size > 1:
        adder.add("columns", flat, along, n, sums, keys, first)
    elif n == 1:
        adder.add("columns", flat[::across].copy(), 1, 1, sums, keys, first)
    else:
        adder.add("rows", flat, across, n, sums, keys, first)
