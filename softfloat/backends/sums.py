"""Sums of many terms by loops that the compiler turns into vectors, every addition rounded.

One addition s + x is made in one of three ways, equal in bits wherever more than one is right:

native : the processor's own, where the accumulator is binary32 or binary64, to nearest.
short : z = s + x; t = z K; t - (t - z), with q bits more in a lane than in the format and K = 2**q + 1 (Veltkamp). A
    lane has at least 2p + 2 bits, so the first rounding loses nothing (Figueroa 1995); a tie comes out even for q >= 2
    (t keeps the parity of the cut z). Domain: to nearest, IEEE specials and subnormals, terms that are values of the
    format, and no sum that could overflow: |s| grows by 2 |x| at most, for s itself is a neighbour of the sum.
whole : z and its exact error in float64, rounded to odd, then by a fast form of the rounding: any mode and any format
    with such a form, infinities and NaNs too. Domain: terms and values below 2**1000, at most 51 bits.

The loops watch the terms that pass (`seen`); a piece of the work that was outside the domain of the short form is done
again by the whole one. Terms lie in a flat array, `stride` numbers from one row to the next.
"""

import functools
from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.cpu import cast
from softfloat.backends.threads import run_chunks
from softfloat.backends.tiles import WIDTH
from softfloat.bits import (
    UNKNOWN,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
    magnitude,
    or_,
    resize,
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
from softfloat.rounding import EVEN, NEGATIVE, STOCHASTIC

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NATIVE, SHORT, WHOLE = range(3)
DIGITS, HIGH, STRAY = range(3)  # what is seen of float32 terms, as in `_look_form`
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
PANEL = 4096  # columns added at a time: their sums stay in the first-level cache
TURNED_ROWS, TURNED_TERMS = 128, 64  # of a block that is copied to turn rows into columns
FEW_ROWS = 4  # below, one sum after the other is faster than turning
LEVELS = 6  # of the tree that one pass climbs
LEAVES = 1 << LEVELS
TREE_BLOCK = 4096  # terms whose levels stay in the first-level cache
PIECE = 1 << 20  # terms between two looks at what was seen; the tree of so many is one piece
WIDE_PIECE = 1 << 14  # columns of a piece
CHUNK = 1 << 24  # terms between two looks at Ctrl-C
LARGEST_WHOLE = 2.0**1000
LARGEST_FACTOR = 2.0**400  # and its inverse: products of two such numbers keep an exact error
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
    """K; the smallest normal number and what rounds to the grid below it, for the terms."""
    return P[0], np.float32(P[1]), np.float32(P[2])


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
    add, load, look = _addition(kind, form, factor), _loader(kind, form), _look_form(form is True)
    watched = int(kind == SHORT and watched)
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
    add, load, look = _addition(kind, form, factor), _loader(kind, form), _look_form(form is True)
    watched = int(kind == SHORT)
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


def _turn_tile(item, size):
    """The intrinsic tile(source, stride, target, width): turn a square of `size` numbers a side; all in bytes."""

    @intrinsic
    def tile(context, source, stride, target, width):
        def generate(context, builder, signature, arguments):
            vector = ir.VectorType(context.get_value_type(item), size)
            source, stride, target, width = arguments

            def place(base, step, i):
                offset = builder.mul(step, ir.Constant(step.type, i))
                return builder.inttoptr(builder.add(base, offset), vector.as_pointer())

            def mask(half):
                return ir.Constant(
                    ir.VectorType(ir.IntType(32), size),
                    [j // 2 + half * (size // 2) + j % 2 * size for j in range(size)],
                )

            rows = [builder.load(place(source, stride, i), align=4) for i in range(size)]
            # Each pass interleaves row i with row i + size / 2: log2(size) perfect shuffles turn the square.
            for _ in range(size.bit_length() - 1):
                pairs = zip(rows[: size // 2], rows[size // 2 :], strict=True)
                rows = [builder.shuffle_vector(x, y, mask(h)) for x, y in pairs for h in (0, 1)]
            for i, row in enumerate(rows):
                builder.store(row, place(target, width, i), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), generate

    return tile


_SIDES = {np.float32: WIDTH, np.float64: WIDTH // 2}
_TILES = {
    np.float32: _turn_tile(types.float32, WIDTH),
    np.float64: _turn_tile(types.float64, WIDTH // 2),
}


@functools.cache
def _turn_loop(item):
    """turn(flat, stride, rows, n, T): T[k * rows + r] = flat[r * stride + k] for k < n."""
    tile, size, itemsize = _TILES[item], _SIDES[item], np.dtype(item).itemsize

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
def _rows_loop(kind, form, lane, item, factor):
    """Entry j takes the terms flat[j * stride], flat[j * stride + 1], ...: blocks of rows are turned into columns."""
    columns, turn = _columns_loop(kind, form, lane, factor, False), _turn_loop(item)
    chain, load = _chain_loop(kind, form, lane, factor), _loader(kind, form)
    watch, watched = _watch_loop(form is True), int(kind == SHORT)
    room, room_of_items = _room_form(lane), _room_form(item)

    @jit
    def rows_loop(flat, stride, n, S, P, seen, keys, first):
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

    return rows_loop


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
def _tree_loop(kind, form, lane, leaves):
    """Entry j is set to the tree over flat[j * stride : j * stride + n]; leaves : these are terms, not sums."""
    add, leaf, load = _addition(kind, form, False), _leaf(kind, form), _loader(kind, form)
    watch, watched = _watch_loop(form is True), int(kind == SHORT and leaves)
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
def _guarded(loop):
    """A loop in standard arithmetic; `standard_arithmetic` has said that this can be had."""

    @jit
    def run(*arguments):
        former = enter_standard_arithmetic()
        loop(*arguments)
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
    """A way to add, ready for one format: its kind; the fast form of its rounding, or whether terms are `gridded`."""

    kind: int
    rounding: tuple | bool
    constants: np.ndarray


def _short_form(fmt, lane):
    """(form, dropped bits, largest sum) of the short form in these lanes, or None."""
    p, bits = fmt.precision, np.finfo(lane).nmant + 1
    ordinary = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    fits = fmt.fits(lane) and 2 <= p <= (bits - 2) // 2
    if not ordinary or not fits or fmt.exponent_bits < 2:
        return None
    q = bits - p
    # At emin = -126 the subnormals of float32 end where those of the format do: the dropped bits tell.
    gridded = fmt.emin > -126
    step = 1.5 * 2.0 ** (fmt.emin + 24 - p) if gridded else 0.0
    constants = np.array([2.0**q + 1, fmt.smallest_normal, step], lane)
    limit = min(fmt.max, 2.0 ** (126 - q) if lane == FLOAT32 else LARGEST_WHOLE)
    return _Form(SHORT, gridded, constants), (1 << max(24 - p, 0)) - 1, limit


def _whole_form(fmt, mode, saturate, bits, variant, factor):
    """The whole form, or None outside its domain."""
    form = fast_form(fmt, FLOAT64, mode, saturate, bits, variant)
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    if form is None or wraps or fmt.mantissa_bits > (51 - bits if mode >= STOCHASTIC else 50):
        return None
    smallest = 2.0**-fmt.fraction_bits if form[0] == STEPS else fmt.smallest_subnormal
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
        if mode != EVEN or saturate or not isinstance(fmt, Format):
            return
        for native, lane in ((binary32, FLOAT32), (binary64, FLOAT64)):
            if fmt == native:
                self.quick, self.lane = _Form(NATIVE, False, np.zeros(3, lane)), lane
        if self.quick or factor or not self.whole:
            return
        for lane in (FLOAT32, FLOAT64):
            found = _short_form(fmt, lane)
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

        out : of a chain, n results to an entry.
        """
        width = LANE_COUNT if name == "lanes" else 1
        across, along = (1, stride) if name == "columns" else (stride, 1)
        outputs = S.size // width
        flat = flat.view()
        flat.flags.writeable = False  # so that the loops are compiled for one kind of array alone
        if name == "columns":
            count = min(outputs, WIDE_PIECE)
            depth = PIECE // count
        else:
            count = min(outputs, max(TURNED_ROWS if name == "rows" else 1, PIECE // n))
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
                if self.native or self._inside(kept, n, seen):
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

    def _run(self, name, form, work, S, out):
        """One loop on one piece; returns what was seen."""
        flat, stride, n, keys, first = work
        seen = np.zeros(3, np.uint32)
        more = ((S[:0] if out is None else out),) if name == "chain" else ()
        run = _loop(name, form.kind, form.rounding, S.dtype.type, flat.dtype.type, self.factor)
        run(flat, stride, n, S, form.constants, seen, keys, first, *more)
        return seen

    def _inside(self, before, n, seen):
        """Whether a piece was in the domain of the short form."""
        high = float(seen.view(FLOAT32)[HIGH])
        reach = float(_largest(before)) + 2 * n * high
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
        case _:
            loop = _tree_loop(kind, form, lane, name == "tree")
    return _guarded(loop)


@functools.cache
def adder(fmt, mode, saturate, bits, variant, factor=False):
    """The Adder of these; one that takes nothing where no form applies."""
    return Adder(fmt, mode, saturate, bits, variant, factor)
