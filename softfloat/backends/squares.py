"""Squares of numbers, a vector to a row, turned in registers: copied, or summed as they come.

A square of `size` rows and columns is read in halves of rows, so that one exchange of lanes of 128 bits and the
shuffles within such lanes are enough. What is summed goes to one running sum for each row; the sums of TOGETHER
squares are interleaved, because each addition waits for the one before.
"""

import functools

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from softfloat.backends.additions import SHORT, STEPPED
from softfloat.backends.tiles import WIDTH
from softfloat.rounding import AWAY, NEGATIVE, POSITIVE

SIDES = {np.float32: WIDTH, np.float64: WIDTH // 2}
TOGETHER = 2
LANE = 16  # bytes within which a shuffle is cheapest
_INT32 = ir.IntType(32)


def _mask(positions):
    return ir.Constant(ir.VectorType(_INT32, len(positions)), positions)


def _place(b, base, step, i, skip, kind):
    """A pointer to base + step * i + skip, in bytes."""
    offset = b.add(b.mul(step, ir.Constant(step.type, i)), ir.Constant(step.type, skip))
    return b.inttoptr(b.add(base, offset), kind.as_pointer())


def _interleaved(b, rows, lane, lanes):
    """The columns of squares of `lane` rows, one to each of the lanes, by perfect shuffles within them."""

    def mask(half):
        start = half * (lane // 2)
        within = [start + j // 2 + j % 2 * lane * lanes for j in range(lane)]
        return _mask([i * lane + j for i in range(lanes) for j in within])

    for _ in range(lane.bit_length() - 1):
        pairs = zip(rows[: lane // 2], rows[lane // 2 :], strict=True)
        rows = [b.shuffle_vector(x, y, mask(half)) for x, y in pairs for half in (0, 1)]
    return rows


def _columns(b, source, stride, number, itemsize, size):
    """The columns of a square as vectors, and before that what was read, as as many others."""
    lane = LANE // itemsize
    lanes, half = size // lane, size // 2
    halves = ir.VectorType(number, half)

    def joined(row, h):
        """Half h of a row, and of the row one lane further down."""
        parts = [
            b.load(_place(b, source, stride, i, h * half * itemsize, halves), align=itemsize)
            for i in (row, row + lane)
        ]
        return b.shuffle_vector(*parts, _mask(list(range(size))))

    def every_other(first):
        """Lanes first, first + 2, ... of two vectors."""
        return _mask([i * lane + j for i in range(first, 2 * lanes, 2) for j in range(lane)])

    found = [[] for _ in range(lanes)]  # by column of lanes
    for i in range(lane):
        for h in (0, 1):
            pairs = [joined(i + lane * q, h) for q in range(0, lanes, 2)]
            if lanes == 2:
                found[h].append(pairs[0])
            else:
                for first in (0, 1):
                    found[2 * h + first].append(b.shuffle_vector(*pairs, every_other(first)))
    read = [x for rows in found for x in rows]
    return [x for rows in found for x in _interleaved(b, rows, lane, lanes)], read


@functools.cache
def turn_tile(item):
    """The intrinsic tile(source, stride, target, width): turn a square of items; all in bytes."""
    size, itemsize = SIDES[item], np.dtype(item).itemsize

    @intrinsic
    def tile(context, source, stride, target, width):
        def generate(context, builder, signature, arguments):
            source, stride, target, width = arguments
            number = ir.FloatType() if itemsize == 4 else ir.DoubleType()
            columns, _ = _columns(builder, source, stride, number, itemsize, size)
            for i, column in enumerate(columns):
                place = _place(builder, target, width, i, 0, column.type)
                builder.store(column, place, align=itemsize)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), generate

    return tile


# ---------------------------------------------------------------- sums
class _Lanes:
    """Vectors of `size` numbers, of the items and of the lanes, and the constants of an addition."""

    def __init__(self, builder, constants, item, lane, size):
        self.b, self.size = builder, size
        self.number = ir.DoubleType() if lane is np.float64 else ir.FloatType()
        self.numbers = ir.VectorType(self.number, size)
        self.bits = ir.VectorType(ir.IntType(8 * np.dtype(lane).itemsize), size)
        self.wider = item is not lane
        self.constants = [
            builder.load(_place(builder, constants, constants, 0, skip, self.number))
            for skip in range(0, 3 * np.dtype(lane).itemsize, np.dtype(lane).itemsize)
        ]

    def splat(self, x):
        empty = ir.Constant(ir.VectorType(x.type, self.size), ir.Undefined)
        one = self.b.insert_element(empty, x, ir.Constant(_INT32, 0))
        return self.b.shuffle_vector(one, empty, _mask([0] * self.size))

    def add(self, kind, mode, s, x):
        """s + x as softfloat.backends.additions adds."""
        b = self.b
        z = b.fadd(s, b.fpext(x, self.numbers) if self.wider else x)
        if kind == SHORT:
            t = b.fmul(z, self.splat(self.constants[0]))
            return b.fsub(t, b.fsub(t, z))
        return self.step(mode, z) if kind == STEPPED else z

    def step(self, mode, z):
        b = self.b
        number = lambda n: ir.Constant(self.bits, [n] * self.size)  # noqa: E731
        keep = b.bitcast(self.splat(self.constants[0]), self.bits)
        dropped = b.xor(keep, number(-1))
        u = b.bitcast(z, self.bits)
        if mode == AWAY:
            u = b.add(u, b.add(b.lshr(dropped, number(1)), number(1)))
        elif mode in (POSITIVE, NEGATIVE):
            negative = b.ashr(u, number(self.bits.element.width - 1))
            away = negative if mode == NEGATIVE else b.xor(negative, number(-1))
            u = b.add(u, b.and_(dropped, away))
        return b.bitcast(b.and_(u, keep), self.numbers)

    def look(self, gridded, x, seen):
        """What was seen, and now of float32 terms x: as `look_form` of softfloat.backends.additions."""
        b = self.b
        digits, high, stray = seen
        words = ir.VectorType(_INT32, self.size)
        u = b.bitcast(x, words)
        m = b.and_(u, ir.Constant(words, [0x7FFFFFFF] * self.size))
        if gridded:
            # No vector is wider than the item's here: the constants are float32 numbers in any lane.
            smallest, step = (
                self.splat(b.fptrunc(c, ir.FloatType()) if self.wider else c)
                for c in self.constants[1:]
            )
            off = b.fcmp_unordered("!=", b.fsub(b.fadd(x, step), step), x)
            small = b.icmp_unsigned("<", m, b.bitcast(smallest, words))
            stray = b.select(b.and_(off, small), b.or_(stray, m), stray)
        return b.or_(digits, u), b.select(b.icmp_unsigned(">", m, high), m, high), stray


@functools.cache
def sum_tile(kind, gridded, mode, item, lane):
    """The intrinsic tile(source, stride, sums, constants, seen): add TOGETHER squares, one below the other, to sums.

    source : pointer to the first item.   stride : bytes from row to row.   sums : to a lane for each row.
    seen : to three vectors of uint32, of what was seen in the lanes; only the quick ways that are not native look.
    """
    size, itemsize = SIDES[item], np.dtype(item).itemsize
    watched = kind in (SHORT, STEPPED)

    @intrinsic
    def tile(context, source, stride, sums, constants, seen):
        def generate(context, b, signature, arguments):
            source, stride, sums, constants, seen = arguments
            v = _Lanes(b, constants, item, lane, size)
            number = ir.FloatType() if itemsize == 4 else ir.DoubleType()
            width = size * np.dtype(lane).itemsize
            words = ir.VectorType(_INT32, size)
            targets = [_place(b, sums, sums, 0, g * width, v.numbers) for g in range(TOGETHER)]
            found = [_place(b, seen, seen, 0, j * 4 * size, words) for j in range(3)]
            below = ir.Constant(stride.type, size)
            running = [b.load(target, align=itemsize) for target in targets]
            watch = [b.load(place, align=4) for place in found] if watched else []
            squares = []
            for _ in range(TOGETHER):
                columns, read = _columns(b, source, stride, number, itemsize, size)
                squares.append(columns)
                for x in read if watched else ():
                    watch = v.look(gridded, x, watch)
                source = b.add(source, b.mul(stride, below))
            for columns in zip(*squares, strict=True):
                running = [v.add(kind, mode, s, x) for s, x in zip(running, columns, strict=True)]
            for value, place in zip((*running, *watch), (*targets, *found), strict=False):
                b.store(value, place, align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return tile
