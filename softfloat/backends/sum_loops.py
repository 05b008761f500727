"""Loops that add the terms of many sums, in rows, columns, lanes and trees, in any way of softfloat.backends.additions.

run(flat, stride, n, S, P, seen, keys, first): add to each entry of S its n terms, of which the first is number `first`
of the element. Terms lie in a flat array, `stride` numbers from one row to the next.   P : the constants of the way.
seen : what was seen of the terms.   keys : of the elements, where random words decide.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.backends import compensated
from softfloat.backends.additions import (
    DIGITS,
    HIGH,
    STRAY,
    WHOLE,
    addition_form,
    is_gridded,
    is_watched,
    leaf_form,
    loader,
    look_form,
    note,
    watch_loop,
)
from softfloat.backends.squares import SIDES, TOGETHER, sum_tile, turn_tile
from softfloat.bits import u64
from softfloat.ops.reduce import LANE_COUNT
from softfloat.random import key_word
from softfloat.rounding import EVEN, STOCHASTIC

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
PANEL = 4096  # columns added at a time: their sums stay in the first-level cache
TURNED_ROWS, TURNED_TERMS = 128, 64  # of a block that is copied to turn rows into columns
FEW_ROWS = 4  # below, one sum after the other is faster than turning
LONG_ROW = 1024  # terms from which squares begin at cache lines, and sums of blocks can wait until all are known
LEVELS = 6  # of the tree that one pass climbs
LEAVES = 1 << LEVELS
TREE_BLOCK = 4096  # terms whose levels stay in the first-level cache
COMPENSATED = ("kahan", "neumaier")  # beginnings of the names of their loops


@functools.cache
def _columns_loop(kind, form, lane, factor, watched=True):
    """Entry j takes the terms flat[j], flat[stride + j], ..."""
    add, load, look = (
        addition_form(kind, form, factor),
        loader(kind, form),
        look_form(is_gridded(kind, form)),
    )
    watched = int(is_watched(kind) and watched)
    random = int(kind == WHOLE and form[1] >= STOCHASTIC)

    @jit
    def columns(flat, stride, n, S, P, seen, keys, first):
        p = load(P)
        for j in range(0, S.size, PANEL):
            T = S[j : j + PANEL]
            own = keys[j : j + PANEL]
            for k in range(n):
                start = k * stride + j
                row = flat[start : start + T.size]
                digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
                for i in range(T.size):
                    word = np.uint64(0)
                    if random == 1:
                        # Step 8 k + AT_TERM is the upper half of word 4 k.
                        word = key_word(own[i], 4 * (first + k)) >> u64(32)
                    if watched == 1:
                        digits, high, stray = look(row[i], digits, high, stray, p)
                    T[i] = add(T[i], lane(row[i]), p, word)
                if watched == 1:
                    note(seen, digits, high, stray)

    return columns


@functools.cache
def _chain_loop(kind, form, lane, factor):
    """Entry j takes the terms flat[j * stride], flat[j * stride + 1], ...: one sum after the other.

    out : every partial result, n to an entry; or empty.
    """
    add, load, look = (
        addition_form(kind, form, factor),
        loader(kind, form),
        look_form(is_gridded(kind, form)),
    )
    watched = int(is_watched(kind))
    random = int(kind == WHOLE and form[1] >= STOCHASTIC)

    @jit
    def chain(flat, stride, n, S, P, seen, keys, first, out):
        p = load(P)
        for j in range(S.size):
            row = flat[j * stride : j * stride + n]
            target = out[j * n : j * n + n]
            s = S[j]
            digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
            for k in range(n):
                word = np.uint64(0)
                if random == 1:
                    word = key_word(keys[j], 4 * (first + k)) >> u64(32)
                if watched == 1:
                    digits, high, stray = look(row[k], digits, high, stray, p)
                s = add(s, lane(row[k]), p, word)
                if target.size > 0:
                    target[k] = s
            S[j] = s
            if watched == 1:
                note(seen, digits, high, stray)

    return chain


@functools.cache
def room_form(item):
    """room(n): n numbers at a multiple of 64 bytes, where what was just stored is read back fastest."""
    itemsize = np.dtype(item).itemsize

    @jit
    def room(n):
        block = np.empty(n + ALIGNMENT // itemsize, item)
        skip = (-block.ctypes.data % ALIGNMENT) // itemsize
        return block[skip : skip + n]

    return room


def running(size, initial, lane):
    """An array of initial values for running results."""
    sums = room_form(lane.type)(size)
    sums[:] = initial
    return sums


@functools.cache
def _turn_loop(item):
    """turn(flat, stride, rows, n, T): T[k * rows + r] = flat[r * stride + k] for k < n."""
    tile, size, itemsize = turn_tile(item), SIDES[item], np.dtype(item).itemsize

    @jit
    def turn(flat, stride, rows, n, T):
        source, target = flat.ctypes.data, T.ctypes.data
        whole_rows, whole = rows - rows % size, n - n % size
        for r in range(0, whole_rows, size):
            for k in range(0, whole, size):
                tile(
                    source + itemsize * (r * stride + k), itemsize * stride,
                    target + itemsize * (k * rows + r), itemsize * rows,
                )  # fmt: skip
        for r in range(rows):
            for k in range(whole if r < whole_rows else 0, n):
                T[k * rows + r] = flat[r * stride + k]

    return turn


@functools.cache
def _turning_loop(kind, form, lane, item, factor):
    """Entry j takes the terms flat[j * stride], flat[j * stride + 1], ...: blocks of rows are turned into columns."""
    columns, turn = _columns_loop(kind, form, lane, factor, False), _turn_loop(item)
    chain, load = _chain_loop(kind, form, lane, factor), loader(kind, form)
    watch, watched = watch_loop(is_gridded(kind, form)), int(is_watched(kind))
    room, room_of_items = room_form(lane), room_form(item)

    @jit
    def turning(flat, stride, n, S, P, seen, keys, first):
        p = load(P)
        if S.size < FEW_ROWS:
            chain(flat, stride, n, S, P, seen, keys, first, S[:0])
            return
        T = room_of_items(TURNED_ROWS * TURNED_TERMS)
        U = room(TURNED_ROWS)
        for r in range(0, S.size, TURNED_ROWS):
            part = S[r : r + TURNED_ROWS]
            own = keys[r : r + TURNED_ROWS]
            near = U[: part.size]
            near[:] = part
            for k in range(0, n, TURNED_TERMS):
                depth = min(TURNED_TERMS, n - k)
                turn(flat[r * stride + k :], stride, part.size, depth, T)
                if watched == 1:
                    watch(T[: part.size * depth], seen, p)
                columns(T, part.size, depth, near, P, seen, own, first + k)
            part[:] = near

    return turning


@functools.cache
def _tiled_loop(kind, form, lane, item, outer):
    """tiled(flat, stride, n, S, P, seen, total, Q): what whole squares hold of the rows of `_rows_loop`.

    outer : (kind, form) of an addition with constants Q, or None: it adds the finished sums to total[0] in turn, a few
    between two squares, so that neither chain of additions waits for itself alone.
    There are at least TOGETHER squares of rows. Returns how many terms of each row are done.
    """
    gridded, mode = (form[0], form[1]) if is_watched(kind) else (False, EVEN)
    tile, size = sum_tile(kind, gridded, mode, item, lane), SIDES[item]
    itemsize, lanesize, step = np.dtype(item).itemsize, np.dtype(lane).itemsize, TOGETHER * size
    chained = int(outer is not None)
    add, load = addition_form(*(outer or (kind, form)), False), loader(kind, form)

    @jit
    def tiled(flat, stride, n, S, P, seen, total, Q):
        found = np.zeros((3, size), np.uint32)
        source, sums, constants = flat.ctypes.data, S.ctypes.data, P.ctypes.data
        q, s, done = load(Q), total[0], 0
        rows, depth = S.size, n - n % size
        kept = S[rows - step :].copy()
        each = step * size // max(depth, 1) + 1
        for begin in range(0, rows if depth > 0 else 0, step):
            r = min(begin, rows - step)
            if r < begin:  # some rows are summed a second time: less work than a way of their own
                S[r:] = kept
            for k in range(0, depth, size):
                place = source + itemsize * (r * stride + k)
                tile(place, itemsize * stride, sums + lanesize * r, constants, found.ctypes.data)
                if chained == 1:
                    stop = max(done, min(done + each, r))
                    for j in range(done, stop):
                        s = add(s, S[j], q, np.uint64(0))
                    done = stop
        if chained == 1:
            for j in range(done, rows):
                s = add(s, S[j], q, np.uint64(0))
            total[0] = s
        for i in range(size):
            note(seen, found[DIGITS, i], found[HIGH, i], found[STRAY, i])
        return depth

    return tiled


@functools.cache
def _rows_loop(kind, form, lane, item, factor):
    """Entry j takes the terms flat[j * stride], flat[j * stride + 1], ...: in squares as far as they go."""
    turning = _turning_loop(kind, form, lane, item, factor)
    if kind == WHOLE or factor:
        return turning
    tiled, least = _tiled_loop(kind, form, lane, item, None), TOGETHER * SIDES[item]
    itemsize = np.dtype(item).itemsize

    @jit
    def rows_loop(flat, stride, n, S, P, seen, keys, first):
        if S.size < least:
            turning(flat, stride, n, S, P, seen, keys, first)
            return
        skip = 0
        if n >= LONG_ROW and stride * itemsize % ALIGNMENT == 0:
            # Rows that are far apart share few places of the cache: no line may be needed by two squares.
            skip = -flat.ctypes.data % ALIGNMENT // itemsize
            turning(flat, stride, skip, S, P, seen, keys, first)
        end = skip + tiled(flat[skip:], stride, n - skip, S, P, seen, S, P)
        if n > end:
            turning(flat[end:], stride, n - end, S, P, seen, keys, first)

    return rows_loop


@functools.cache
def blocks_loop(kind, form, lane, outer):
    """As `_rows_loop` for blocks of whole squares, one after the other, whose sums are added to total[0] in turn.

    seen : what was seen of the terms, and of the sums.
    """
    tiled, watch = _tiled_loop(kind, form, lane, np.float32, outer), watch_loop(is_gridded(*outer))
    load, watched = loader(*outer), int(is_watched(outer[0]))

    @jit
    def blocks(flat, block, S, P, seen, total, Q):
        tiled(flat, block, block, S, P, seen[0], total, Q)
        if watched == 1:
            watch(S, seen[1], load(Q))

    return blocks


@functools.cache
def _lanes_loop(kind, form, lane):
    """Entry 64 j + i takes the terms flat[j * stride + i], flat[j * stride + i + 64], ... of n."""
    columns, room = _columns_loop(kind, form, lane, False), room_form(lane)

    @jit
    def lanes(flat, stride, n, S, P, seen, keys, first):
        near = room(LANE_COUNT)
        whole = n // LANE_COUNT
        rest = n - whole * LANE_COUNT
        for j in range(S.size // LANE_COUNT):
            row = flat[j * stride : j * stride + n]
            part = S[j * LANE_COUNT : (j + 1) * LANE_COUNT]
            near[:] = part
            columns(row, LANE_COUNT, whole, near, P, seen, keys, first)
            columns(row[n - rest :], LANE_COUNT, 1, near[:rest], P, seen, keys, first)
            part[:] = near

    return lanes


@functools.cache
def _compensated_loop(name, kind, form, lane, item):
    """ "kahan columns" and its like: entry j is the sum S[2 j] and its correction S[2 j + 1]."""
    way = (
        addition_form(kind, form, False),
        loader(kind, form),
        look_form(is_gridded(kind, form)),
        note,
    )
    room, neumaier = room_form(lane), name.startswith("neumaier")
    columns = compensated.columns_loop(*way, lane, room, PANEL, neumaier)
    if name.endswith("columns"):
        return columns
    chain = compensated.chain_loop(*way, lane, neumaier)
    block = room_form(item), FEW_ROWS, TURNED_ROWS, TURNED_TERMS
    return compensated.rows_loop(columns, chain, _turn_loop(item), *block)


@functools.cache
def _tree_loop(kind, form, lane, leaves):
    """Entry j is set to the tree over flat[j * stride : j * stride + n]; leaves : these are terms, not sums."""
    add, leaf, load = addition_form(kind, form, False), leaf_form(kind, form), loader(kind, form)
    watch, watched = watch_loop(is_gridded(kind, form)), int(is_watched(kind) and leaves)
    room = room_form(lane)
    initial = int(leaves)

    @jit(inline=True)
    def first_level(x, y, p):
        half = x.size // 2
        word = np.uint64(0)
        for i in range(half):
            u, v = lane(x[2 * i]), lane(x[2 * i + 1])
            y[i] = add(leaf(u, p), leaf(v, p), p, word) if initial == 1 else add(u, v, p, word)
        if x.size > 2 * half:
            u = lane(x[x.size - 1])
            y[half] = leaf(u, p) if initial == 1 else u
        return y[: x.size - half]

    @jit
    def level(x, y, p):
        half = x.size // 2
        word = np.uint64(0)
        for i in range(half):
            y[i] = add(x[2 * i], x[2 * i + 1], p, word)
        if x.size > 2 * half:
            y[half] = x[x.size - 1]
        return y[: x.size - half]

    @jit
    def climb(x, y, z, steps, p):
        """Up to `steps` levels more; y and z are spare."""
        for _ in range(steps):
            if x.size > 1:
                x = level(x, y, p)
                y, z = z, y
        return x

    @jit
    def tree(flat, stride, n, S, P, seen, keys, first):
        p = load(P)
        a, b = room(TREE_BLOCK), room(TREE_BLOCK)
        sums = np.empty(-(-n // LEAVES) + 1, lane)
        for j in range(S.size):
            row = flat[j * stride : j * stride + n]
            for k in range(0, n, TREE_BLOCK):
                x = row[k : k + TREE_BLOCK]
                if watched == 1:
                    watch(x, seen, p)
                found = climb(first_level(x, a, p), b, a, LEVELS - 1, p)
                sums[k // LEAVES : k // LEAVES + found.size] = found
            left = sums[: -(-n // LEAVES)]
            while left.size > TREE_BLOCK:
                done = 0
                for k in range(0, left.size, TREE_BLOCK):
                    x = left[k : k + TREE_BLOCK]
                    found = climb(level(x, a, p), b, a, LEVELS - 1, p)
                    sums[done : done + found.size] = found
                    done += found.size
                left = sums[:done]
            S[j] = climb(left, a, b, 64, p)[0]

    return tree


@functools.cache
def loop_of(name, kind, form, lane, item, factor):
    match name:
        case "columns":
            loop = _columns_loop(kind, form, lane, factor)
        case "chain":
            loop = _chain_loop(kind, form, lane, factor)
        case "rows":
            loop = _rows_loop(kind, form, lane, item, factor)
        case "lanes":
            loop = _lanes_loop(kind, form, lane)
        case _ if name.startswith(COMPENSATED):
            loop = _compensated_loop(name, kind, form, lane, item)
        case _:
            loop = _tree_loop(kind, form, lane, name == "tree")
    return loop
