"""Sums of many terms by loops that the compiler turns into vectors, every addition rounded.

An `Adder` cuts the work into pieces for the loops of softfloat.backends.sum_loops. A piece that was outside the domain
of the short or stepped way to add (softfloat.backends.additions) is done again by the whole one.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.backends import compensated
from softfloat.backends.additions import (
    DIGITS,
    DIRECTIONS,
    FLOAT32,
    FLOAT64,
    HIGH,
    LARGEST_FACTOR,
    LARGEST_WHOLE,
    NATIVE,
    STRAY,
    Form,
    quick_form,
    whole_form,
)
from softfloat.backends.cpu import cast, largest_bits
from softfloat.backends.direction import DOWN, NEAREST, UP, set_direction
from softfloat.backends.squares import SIDES, TOGETHER
from softfloat.backends.sum_loops import (
    COMPENSATED,
    LONG_ROW,
    TURNED_ROWS,
    blocks_loop,
    loop_of,
)
from softfloat.backends.threads import get_num_threads, run_chunks
from softfloat.bits import (
    UNKNOWN,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
    to_float,
    u64,
)
from softfloat.format import Format
from softfloat.formats import binary32, binary64
from softfloat.ops.reduce import LANE_COUNT
from softfloat.random import key_word
from softfloat.rounding import EVEN, STOCHASTIC

PIECE = 1 << 20  # terms between two looks at what was seen; the tree of so many is one piece
WIDE_PIECE = 1 << 14  # columns of a piece
CHUNK = 1 << 24  # terms between two looks at Ctrl-C
NO_KEYS = np.zeros(0, np.uint64)


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
    return to_float(largest_bits(x))


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


class Adder:
    """Sums (or products) in one accumulator and rounding: each piece by a quick form where that is right, else whole.

    lane : the dtype of running results, which holds every value of the format.
    """

    def __init__(self, fmt, mode, saturate, bits, variant, factor=False):
        self.factor, self.random = factor, mode >= STOCHASTIC
        self.whole = whole_form(fmt, mode, saturate, bits, variant, factor)
        self.quick, self.lane = None, FLOAT64
        if mode not in (EVEN, *DIRECTIONS) or saturate or not isinstance(fmt, Format):
            return
        for native, lane in ((binary32, FLOAT32), (binary64, FLOAT64)):
            if fmt == native and mode == EVEN:
                self.quick = Form(NATIVE, (False, EVEN), np.zeros(3, lane))
                self.lane = lane
        if self.quick or factor or not self.whole:
            return
        for lane in (FLOAT32, FLOAT64):
            found = quick_form(fmt, lane, mode)
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
        loop = blocks_loop(*self.quick.way, np.float32, outer.quick.way)
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
        loop = loop_of(name, *form.way, S.dtype.type, flat.dtype.type, self.factor)
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
def adder(fmt, mode, saturate, bits, variant, factor=False):
    """The Adder of these; one that takes nothing where no form applies."""
    return Adder(fmt, mode, saturate, bits, variant, factor)
