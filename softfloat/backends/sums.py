"""Sums of many terms by loops that the compiler turns into vectors, every addition rounded.

One addition s + x is made in one of these ways, equal in bits wherever more than one is right:

native : the processor's own, where the accumulator is binary32 or binary64, to nearest.
short : z = s + x; t = z K; t - (t - z), with q bits more in a lane than in the format and K = 2**q + 1 (Veltkamp). A
    lane has at least 2p + 2 bits, so the first rounding loses nothing (Figueroa 1995); a tie comes out even for q >= 2
    (t keeps the parity of the cut z). Domain: to nearest, IEEE specials and subnormals, terms that are values of the
    format, and no sum that could overflow: |s| grows by 2 |x| at most, for s itself is a neighbour of the sum.
stepped : z = s + x with the processor rounding in the direction of the mode (toward zero for ties away); then the bits
    of z, plus what makes the next kept one of them, cut. Such roundings compose exactly. Domain: as for short, of the
    modes toward zero, ties away and, in formats with the exponents of float32 and lanes of it, up and down.
whole : z and its exact error in float64, rounded to odd, then by a fast form of the rounding: any mode and any format
    with such a form, infinities and NaNs too. Domain: terms and values below 2**1000, at most 51 bits.

The loops watch the terms that pass (`seen`); a piece of the work that was outside the domain of the short or stepped
form is done again by the whole one. Terms lie in a flat array, `stride` numbers from one row to the next.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from softfloat import bits
from softfloat._jit import jit
from softfloat.backends import compensated
from softfloat.backends.cpu import cast
from softfloat.backends.direction import DOWN, NEAREST, TOWARD_ZERO, UP, set_direction
from softfloat.backends.squares import (
    NATIVE,
    SHORT,
    SIDES,
    STEPPED,
    TOGETHER,
    WHOLE,
    sum_tile,
    turn_tile,
)
from softfloat.backends.threads import get_num_threads, run_chunks
from softfloat.bits import (
    UNKNOWN,
    and_,
    enter_standard_arithmetic,
    is_negative,
    leave_standard_arithmetic,
    magnitude,
    one_like,
    or_,
    resize,
    shr,
    sub,
    to_bits,
    to_float,
    u64,
    umax,
    zero_like,
)
from softfloat.fast import constants_loader, fast_constants, fast_form, rounding_form
from softfloat.fixed_point import STEPS, FixedPoint, fixed_constants
from softfloat.format import Format
from softfloat.formats import binary32, binary64
from softfloat.ops.error_free import (
    multiply_with_error,
    positive_nan,
    to_odd,
    two_sum,
    zero_of_sum,
)
from softfloat.ops.reduce import LANE_COUNT
from softfloat.random import key_word
from softfloat.rounding import AWAY, EVEN, NEGATIVE, POSITIVE, STOCHASTIC, ZERO

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
DIRECTIONS = {
    ZERO: TOWARD_ZERO,
    AWAY: TOWARD_ZERO,
    POSITIVE: UP,
    NEGATIVE: DOWN,
}  # of stepped forms
DIGITS, HIGH, STRAY = range(3)  # what is seen of float32 terms, as in `_look_form`
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
PANEL = 4096  # columns added at a time: their sums stay in the first-level cache
TURNED_ROWS, TURNED_TERMS = 128, 64  # of a block that is copied to turn rows into columns
FEW_ROWS = 4  # below, one sum after the other is faster than turning
LONG_ROW = 1024  # terms from which squares begin at cache lines, and sums of blocks can wait until all are known
LEVELS = 6  # of the tree that one pass climbs
LEAVES = 1 << LEVELS
TREE_BLOCK = 4096  # terms whose levels stay in the first-level cache
PIECE = 1 << 20  # terms between two looks at what was seen; the tree of so many is one piece
WIDE_PIECE = 1 << 14  # columns of a piece
CHUNK = 1 << 24  # terms between two looks at Ctrl-C
LARGEST_WHOLE = 2.0**1000
LARGEST_FACTOR = 2.0**400  # and its inverse: products of two such numbers keep an exact error
COMPENSATED = ("kahan", "neumaier")  # beginnings of the names of their loops
NO_KEYS = np.zeros(0, np.uint64)


# ---------------------------------------------------------------- one addition
@functools.cache
def _addition(kind, form, factor):
    """add(s, x, p, word): s + x, or s * x, rounded; p from `_loader`."""
    if kind == NATIVE:

        @jit(inline=True)
        def add(s, x, p, word):
            return s * x if factor else s + x

    elif kind == SHORT:

        @jit(inline=True)
        def add(s, x, p, word):
            z = s + x
            t = z * p[0]
            return t - (t - z)

    elif kind == STEPPED:
        addend = _addend_form(form[1])

        @jit(inline=True)
        def add(s, x, p, word):
            u, keep = to_bits(s + x), to_bits(p[0])
            return to_float(and_(bits.add(u, addend(u, keep)), keep))

    else:
        round_one = rounding_form(*form)
        negative = int(form[1] == NEGATIVE and not factor)

        @jit(inline=True)
        def add(s, x, p, word):
            z, e = multiply_with_error(s, x) if factor else two_sum(s, x)
            if negative == 1:
                z = zero_of_sum(z, s, x)
            return round_one(positive_nan(to_odd(z, e)), p, resize(word, to_bits(z)))

    return add


@functools.cache
def _addend_form(mode):
    """addend(u, keep): what is added to the bits u, rounded in the direction of the mode, before they are cut."""

    @jit(inline=True)
    def addend(u, keep):
        zero, one = zero_like(u), one_like(u)
        dropped = sub(sub(zero, keep), one)
        if mode == ZERO:
            return zero
        if mode == AWAY:
            return bits.add(shr(dropped, one), one)
        return dropped if is_negative(u) == (mode == NEGATIVE) else zero

    return addend


@functools.cache
def _leaf(kind, form):
    """leaf(x, p): +0 + x rounded, the first sum of a tree."""
    add = _addition(kind, form, False)

    @jit(inline=True)
    def leaf(x, p):
        zero = to_float(zero_like(to_bits(x)))
        return add(zero, x, p, zero_like(to_bits(x))) if kind == WHOLE else x + zero

    return leaf


@jit(inline=True)
def _load_short(P):
    """K, or the mask of the kept bits; for the terms the smallest normal number and what rounds to the grid below."""
    return P[0], np.float32(P[1]), np.float32(P[2])


def _watched(kind):
    return kind in (SHORT, STEPPED)


def _gridded(kind, form):
    return _watched(kind) and form[0]


def _loader(kind, form):
    return constants_loader(form[0]) if kind == WHOLE else _load_short


@functools.cache
def _look_form(gridded):
    """look(x, digits, high, stray, p): what is seen of float32 terms, all as bits.

    digits : every bit that is set somewhere.   high : the largest magnitude.   stray : not zero if a term lies between
    two numbers of the grid; where the dropped bits do not tell (`gridded`).
    """

    @jit(inline=True)
    def look(x, digits, high, stray, p):
        u = to_bits(x)
        m = magnitude(u)
        if gridded:
            off = ((x + p[2]) - p[2]) != x
            stray = or_(stray, m if (abs(x) < p[1]) & off else zero_like(u))
        return or_(digits, u), umax(high, m), stray

    return look


@jit(inline=True)
def _note(seen, digits, high, stray):
    seen[DIGITS] = or_(seen[DIGITS], digits)
    seen[HIGH] = umax(seen[HIGH], high)
    seen[STRAY] = or_(seen[STRAY], stray)


@functools.cache
def _watch_loop(gridded):
    """watch(x, seen, p): look at all of x."""
    look = _look_form(gridded)

    @jit
    def watch(x, seen, p):
        digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
        for i in range(x.size):
            digits, high, stray = look(x[i], digits, high, stray, p)
        _note(seen, digits, high, stray)

    return watch


# ---------------------------------------------------------------- loops
# run(flat, stride, n, S, P, seen, keys, first): add to each entry of S its n terms, of which the first is number
# `first` of the element; keys : of the elements, where random words decide.
@functools.cache
def _columns_loop(kind, form, lane, factor, watched=True):
    """Entry j takes the terms flat[j], flat[stride + j], ..."""
    add, load, look = (
        _addition(kind, form, factor),
        _loader(kind, form),
        _look_form(_gridded(kind, form)),
    )
    watched = int(_watched(kind) and watched)
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
                    _note(seen, digits, high, stray)

    return columns


@functools.cache
def _chain_loop(kind, form, lane, factor):
    """Entry j takes the terms flat[j * stride], flat[j * stride + 1], ...: one sum after the other.

    out : every partial result, n to an entry; or empty.
    """
    add, load, look = (
        _addition(kind, form, factor),
        _loader(kind, form),
        _look_form(_gridded(kind, form)),
    )
    watched = int(_watched(kind))
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
                _note(seen, digits, high, stray)

    return chain


@functools.cache
def _room_form(item):
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
    sums = _room_form(lane.type)(size)
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
    chain, load = _chain_loop(kind, form, lane, factor), _loader(kind, form)
    watch, watched = _watch_loop(_gridded(kind, form)), int(_watched(kind))
    room, room_of_items = _room_form(lane), _room_form(item)

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
    gridded, mode = (form[0], form[1]) if _watched(kind) else (False, EVEN)
    tile, size = sum_tile(kind, gridded, mode, item, lane), SIDES[item]
    itemsize, lanesize, step = np.dtype(item).itemsize, np.dtype(lane).itemsize, TOGETHER * size
    chained = int(outer is not None)
    add, load = _addition(*(outer or (kind, form)), False), _loader(kind, form)

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
            _note(seen, found[DIGITS, i], found[HIGH, i], found[STRAY, i])
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
def _blocks_loop(kind, form, lane, outer):
    """As `_rows_loop` for blocks of whole squares, one after the other, whose sums are added to total[0] in turn.

    seen : what was seen of the terms, and of the sums.
    """
    tiled, watch = _tiled_loop(kind, form, lane, np.float32, outer), _watch_loop(_gridded(*outer))
    load, watched = _loader(*outer), int(_watched(outer[0]))

    @jit
    def blocks(flat, block, S, P, seen, total, Q):
        tiled(flat, block, block, S, P, seen[0], total, Q)
        if watched == 1:
            watch(S, seen[1], load(Q))

    return blocks


@functools.cache
def _lanes_loop(kind, form, lane):
    """Entry 64 j + i takes the terms flat[j * stride + i], flat[j * stride + i + 64], ... of n."""
    columns, room = _columns_loop(kind, form, lane, False), _room_form(lane)

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
    way = _addition(kind, form, False), _loader(kind, form), _look_form(_gridded(kind, form)), _note
    room, neumaier = _room_form(lane), name.startswith("neumaier")
    columns = compensated.columns_loop(*way, lane, room, PANEL, neumaier)
    if name.endswith("columns"):
        return columns
    chain = compensated.chain_loop(*way, lane, neumaier)
    block = _room_form(item), FEW_ROWS, TURNED_ROWS, TURNED_TERMS
    return compensated.rows_loop(columns, chain, _turn_loop(item), *block)


@functools.cache
def _tree_loop(kind, form, lane, leaves):
    """Entry j is set to the tree over flat[j * stride : j * stride + n]; leaves : these are terms, not sums."""
    add, leaf, load = _addition(kind, form, False), _leaf(kind, form), _loader(kind, form)
    watch, watched = _watch_loop(_gridded(kind, form)), int(_watched(kind) and leaves)
    room = _room_form(lane)
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


# ---------------------------------------------------------------- around the loops
@functools.cache
def _guarded(loop, direction):
    """A loop in standard arithmetic or another direction; `standard_arithmetic` has said that this can be had."""

    @jit
    def run(*arguments):
        former = enter_standard_arithmetic()
        if direction != NEAREST:
            set_direction(direction)
        loop(*arguments)
        if direction != NEAREST:
            set_direction(NEAREST)
        leave_standard_arithmetic(former)

    return run


@jit
def standard_arithmetic():
    """Whether the processor's arithmetic can be made standard for a while."""
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return False
    leave_standard_arithmetic(former)
    return True


@jit
def narrow(x, out):
    """Copy float64 numbers to float32: (whether that was exact, the largest finite magnitude)."""
    former = enter_standard_arithmetic()
    same, largest = True, 0.0
    for i in range(x.size):
        y = np.float32(x[i])
        out[i] = y
        same &= (np.float64(y) == x[i]) | (x[i] != x[i])
        m = abs(x[i])
        largest = m if (m > largest) & (m < np.inf) else largest
    leave_standard_arithmetic(former)
    return same, largest


@jit
def _largest(x):
    """The largest magnitude; a NaN if there is one."""
    largest = zero_like(to_bits(x[0]))
    for i in range(x.size):
        largest = umax(largest, magnitude(to_bits(x[i])))
    return to_float(largest)


@jit
def element_keys(key, first, out):
    """The keys of the elements first, first + 1, ... of a result."""
    for i in range(out.size):
        out[i] = key_word(u64(key), first + i)


def _share(task, count, each):
    """Split range(count), each worth `each` elements, over threads: task(first, stop)."""

    def some(first, stop):
        start, end = -(-first // each), -(-stop // each)
        if start < end:
            task(start, end)

    run_chunks(some, count * each, CHUNK)


@dataclass(frozen=True)
class _Form:
    """A way to add, ready for one format.

    rounding : the fast form of the rounding; or (whether terms are `gridded`, mode).
    """

    kind: int
    rounding: tuple
    constants: np.ndarray

    @property
    def way(self):
        return self.kind, self.rounding

    @property
    def direction(self):
        """The processor's."""
        return DIRECTIONS[self.rounding[1]] if self.kind == STEPPED else NEAREST


def _quick_form(fmt, lane, mode):
    """(form, dropped bits, largest sum) of the short or stepped form in these lanes, or None."""
    p, digits = fmt.precision, np.finfo(lane).nmant + 1
    ordinary = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    fits = fmt.fits(lane) and 2 <= p <= ((digits - 2) // 2 if mode == EVEN else digits - 1)
    if not ordinary or not fits or fmt.exponent_bits < 2:
        return None
    q = digits - p
    # At emin = -126 the subnormals of float32 end where those of the format do: the dropped bits tell.
    gridded = fmt.emin > -126
    if mode != EVEN and fmt.emin < np.finfo(lane).minexp:
        return None
    # Up and down, a sum may grow by more than its terms: it has to overflow as float32 does.
    full = lane == FLOAT32 and (fmt.emin, fmt.max_exponent) == (-126, 127)
    if mode in (POSITIVE, NEGATIVE) and not full:
        return None
    step = math.ldexp(1.5, fmt.emin + 24 - p) if gridded else 0.0
    constants = np.array([(1 << q) + 1, fmt.smallest_normal, step], lane)
    limit = min(fmt.max, math.ldexp(1.0, 126 - q) if lane == FLOAT32 else LARGEST_WHOLE)
    if mode != EVEN:
        limit = min(fmt.max, LARGEST_WHOLE)
        word = np.uint32 if lane == FLOAT32 else np.uint64
        constants.view(word)[0] = np.iinfo(word).max ^ word((1 << q) - 1)
    form = _Form(SHORT if mode == EVEN else STEPPED, (gridded, mode), constants)
    return form, (1 << max(24 - p, 0)) - 1, limit


def _whole_form(fmt, mode, saturate, bits, variant, factor):
    """The whole form, or None outside its domain."""
    form = fast_form(fmt, FLOAT64, mode, saturate, bits, variant)
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    if form is None or wraps or fmt.mantissa_bits > (51 - bits if mode >= STOCHASTIC else 50):
        return None
    smallest = math.ldexp(1.0, -fmt.fraction_bits) if form[0] == STEPS else fmt.smallest_subnormal
    if fmt.max > (LARGEST_FACTOR if factor else LARGEST_WHOLE):
        return None
    if factor and smallest < 1 / LARGEST_FACTOR:
        return None
    if form[0] == STEPS:
        return _Form(WHOLE, form, fixed_constants(fmt, FLOAT64, mode, bits))
    return _Form(WHOLE, form, fast_constants(form[0], fmt, FLOAT64, mode, saturate, bits))


class Adder:
    """Sums (or products) in one accumulator and rounding: each piece by a quick form where that is right, else whole.

    lane : the dtype of running results, which holds every value of the format.
    """

    def __init__(self, fmt, mode, saturate, bits, variant, factor=False):
        self.factor, self.random = factor, mode >= STOCHASTIC
        self.whole = _whole_form(fmt, mode, saturate, bits, variant, factor)
        self.quick, self.lane = None, FLOAT64
        if mode not in (EVEN, *DIRECTIONS) or saturate or not isinstance(fmt, Format):
            return
        for native, lane in ((binary32, FLOAT32), (binary64, FLOAT64)):
            if fmt == native and mode == EVEN:
                self.quick = _Form(NATIVE, (False, EVEN), np.zeros(3, lane))
                self.lane = lane
        if self.quick or factor or not self.whole:
            return
        for lane in (FLOAT32, FLOAT64):
            found = _quick_form(fmt, lane, mode)
            if found:
                self.lane = lane
                self.quick, self.dropped, self.limit = found
                return

    @property
    def native(self):
        return self.quick is not None and self.quick.kind == NATIVE

    def takes(self, terms, largest):
        """Whether such terms are in the domain; `largest` : the largest finite one of those in float64."""
        if self.native and self.lane == FLOAT64:
            return True
        bound = LARGEST_FACTOR if self.factor else LARGEST_WHOLE
        return self.whole is not None and (terms.dtype == FLOAT32 or largest < bound)

    def add(self, name, flat, stride, n, S, keys=NO_KEYS, first=0, out=None):
        """Run the loop `name` on all of the work, in pieces, over threads; neither n nor S is empty.

        out : of a chain, n results to an entry.   S : 64 lanes to an entry, or the two numbers of a compensated sum.
        """
        width = LANE_COUNT if name == "lanes" else 2 if name.startswith(COMPENSATED) else 1
        columns, rows = name.endswith("columns"), name.endswith("rows")
        across, along = (1, stride) if columns else (stride, 1)
        outputs = S.size // width
        flat = flat.view()
        flat.flags.writeable = False  # so that the loops are compiled for one kind of array alone
        if columns:
            count = min(outputs, WIDE_PIECE)
            depth = PIECE // count
        else:
            count = min(outputs, max(TURNED_ROWS if rows else 1, PIECE // n))
            depth = n if name in ("tree", "branches") else max(PIECE // count, LANE_COUNT)
            depth -= depth % LANE_COUNT if depth < n else 0

        def task(begin, end):
            for j in range(begin, end, count):
                stop = min(end, j + count)
                part, own = S[j * width : stop * width], keys[j:stop]
                for k in range(0, n, depth):
                    length = min(depth, n - k)
                    piece = flat[j * across + k * along :]
                    target = None if out is None else out[j * n + k : (stop - 1) * n + k + length]
                    self._piece(name, piece, stride, length, part, own, first + k, target)

        _share(task, outputs, n)

    def _piece(self, name, flat, stride, n, S, keys, first, out):
        work = (flat, stride, n, keys, first)
        if self.quick and (self.lane == FLOAT64 or flat.dtype == FLOAT32):
            kept = S.copy()
            if self.native or name != "branches" and flat.dtype == FLOAT32:
                seen = self._run(name, self.quick, work, S, out)
                if self.native or self._inside(kept, n, seen, name):
                    return
            S[:] = kept
        if self.lane == FLOAT64:
            self._run(name, self.whole, work, S, out)
            return
        wide, partial = np.empty(S.size), None if out is None else np.empty(out.size)
        cast(S, wide)
        self._run(name, self.whole, work, wide, partial)
        cast(wide, S)
        if out is not None:
            cast(partial, out)

    def add_blocks(self, flat, block, S, outer, total):
        """As add("rows") for blocks one after the other; and total += their sums in turn, by the Adder `outer`.

        Returns False where this is not to be had, or was outside some domain: nothing is right then.
        """
        quick = self.quick and outer.quick and self.lane == outer.lane == flat.dtype == FLOAT32
        one_way = quick and self.quick.direction == outer.quick.direction
        squares = block < LONG_ROW and block % SIDES[np.float32] == 0
        if not one_way or not squares or get_num_threads() > 1:
            return False
        flat = flat.view()
        flat.flags.writeable = False
        loop = _blocks_loop(*self.quick.way, np.float32, outer.quick.way)
        run = _guarded(loop, self.quick.direction)
        count, least = max(1, PIECE // block), TOGETHER * SIDES[np.float32]
        for j in range(0, S.size, count):
            part, before, seen = S[j : j + count], total.copy(), np.zeros((2, 3), np.uint32)
            if part.size < least:
                self.add("rows", flat[j * block :], block, block, part)
                outer.add("rows", part, part.size, part.size, total)
                continue
            run(
                flat[j * block :], block, part, self.quick.constants, seen, total,
                outer.quick.constants,
            )  # fmt: skip
            if not (self.native or self._inside(part[:0], block, seen[0], "rows")):
                return False
            if not (outer.native or outer._inside(before, part.size, seen[1], "chain")):
                return False
        return True

    def _run(self, name, form, work, S, out):
        """One loop on one piece; returns what was seen."""
        flat, stride, n, keys, first = work
        seen = np.zeros(3, np.uint32)
        more = ((S[:0] if out is None else out),) if name == "chain" else ()
        loop = _loop(name, *form.way, S.dtype.type, flat.dtype.type, self.factor)
        run = _guarded(loop, form.direction)
        run(flat, stride, n, S, form.constants, seen, keys, first, *more)
        return seen

    def _inside(self, before, n, seen, name):
        """Whether a piece was in the domain of the short form."""
        high = float(seen.view(FLOAT32)[HIGH])
        if name.startswith(COMPENSATED):
            reach = compensated.MARGIN * high
        elif self.quick.direction in (UP, DOWN):
            reach = high
        else:
            reach = 2 * n * high + (float(_largest(before)) if before.size else 0.0)
        return not (seen[DIGITS] & self.dropped or seen[STRAY]) and reach <= self.limit


@functools.cache
def _loop(name, kind, form, lane, item, factor):
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


@functools.cache
def adder(fmt, mode, saturate, bits, variant, factor=False):
    """The Adder of these; one that takes nothing where no form applies."""
    return Adder(fmt, mode, saturate, bits, variant, factor)
