"""Matrix products by vector kernels: blocks that fit in the caches, each tile by the cheapest form that is right.

C is cut into tiles of 4 rows by two vectors, the inner index into blocks of 256. Before a tile takes its part of a
block, bounds on what can appear there choose the form (softfloat.ops.linalg): the forms agree bit for bit wherever
more than one is right, so the choice, like the number of threads, decides the speed only. Rows are split over threads.

Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for the blocking.
"""

import functools
import math

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.threads import run_chunks
from softfloat.bits import (
    UNKNOWN,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
    magnitude,
    one_like,
    or_,
    quiet_nan_like,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    xor,
    zero_like,
)
from softfloat.format import Format
from softfloat.ops.linalg import (
    BITS_HALF,
    BITS_KEEP,
    BITS_SHIFT,
    CLAMP,
    CONSTANTS,
    FLOAT,
    FORMS,
    FULL,
    GRADUAL,
    GRID,
    LARGEST,
    NORMAL,
    SCALE,
    SMALLEST_NORMAL,
    SPLITTER,
    Vectors,
)

ROWS, VECTORS = 4, 2  # of a tile
DEPTH = 256  # terms of a block
COLUMNS = 512  # of a block of B
PRODUCTS_PER_UNIT = 16  # multiply-adds that count as one element when work is split over threads
UNITS_AT_ONCE = 1 << 27  # between two looks at Ctrl-C
WORD = ir.IntType(64)
# What the choice of a form looks at: growth of a sum by the roundings of a block and an absolute slack; the largest sum
# and the largest factor that the short forms take; the smallest product that the normal form takes.
GROWTH, SLACK, LARGEST_SUM, LARGEST_FACTOR, LEAST_PRODUCT = range(5)


def _processor():
    """(numbers in a vector, whether AVX-512 has its range instruction) on the processor that numba compiles for."""
    if config.CPU_FEATURES is None:
        features = llvmlite.binding.get_host_cpu_features()
    else:
        features = {text[1:]: text[0] == "+" for text in config.CPU_FEATURES.split(",") if text}
    wide = bool(features.get("avx512f"))
    return 16 if wide else 8, wide and bool(features.get("avx512dq"))


WIDTH, RANGE_INSTRUCTION = _processor()
PANEL = VECTORS * WIDTH  # columns of a tile
ALIGNMENT = 4 * WIDTH


def _constant(n):
    return ir.Constant(WORD, n)


def _load(builder, pointer, kind, alignment):
    found = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    found.align = alignment
    return found


def _store(builder, value, pointer, alignment):
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = alignment


def _tile(form):
    """The intrinsic tile(a, b, n, c, stride, constants) of one form; all are addresses, but n and stride.

    a : n groups of ROWS vectors, each one number repeated.   b : n groups of two panel rows of PANEL numbers, as the
    form wants them.   c : ROWS rows of PANEL numbers, `stride` numbers apart, read and written.
    """
    step = FORMS[form]

    @intrinsic
    def tile(context, a, b, n, c, stride, constants):
        def generate(context, builder, signature, arguments):
            v = Vectors(builder, WIDTH, RANGE_INSTRUCTION)
            numbers = FLOAT.as_pointer()
            a, b, n, c, stride, constants = arguments
            a, b, c, constants = (builder.inttoptr(x, numbers) for x in (a, b, c, constants))
            loaded = [
                v.splat(builder.load(builder.gep(constants, [_constant(j)])))
                for j in range(CONSTANTS)
            ]
            targets = [
                builder.gep(
                    c, [builder.add(builder.mul(_constant(i), stride), _constant(j * WIDTH))]
                )
                for i in range(ROWS)
                for j in range(VECTORS)
            ]
            sums = [_load(builder, t, v.floats, 4) for t in targets]
            before = builder.block
            loop, after = builder.append_basic_block(), builder.append_basic_block()
            builder.cbranch(builder.icmp_signed(">", n, _constant(0)), loop, after)
            builder.position_at_end(loop)
            k = builder.phi(WORD)
            k.add_incoming(_constant(0), before)
            running = [builder.phi(v.floats) for _ in sums]
            for phi, initial in zip(running, sums, strict=True):
                phi.add_incoming(initial, before)
            row = builder.gep(b, [builder.mul(k, _constant(2 * PANEL))])
            panels = [
                [
                    _load(
                        builder,
                        builder.gep(row, [_constant(copy * PANEL + j * WIDTH)]),
                        v.floats,
                        ALIGNMENT,
                    )
                    for copy in range(2)
                ]
                for j in range(VECTORS)
            ]
            column = builder.gep(a, [builder.mul(k, _constant(ROWS * WIDTH))])
            done = []
            for i in range(ROWS):
                factor = _load(
                    builder, builder.gep(column, [_constant(i * WIDTH)]), v.floats, ALIGNMENT
                )
                for j in range(VECTORS):
                    acc = running[i * VECTORS + j]
                    done.append(step(v, acc, factor, panels[j], loaded))
            following = builder.add(k, _constant(1))
            k.add_incoming(following, loop)
            for phi, value in zip(running, done, strict=True):
                phi.add_incoming(value, loop)
            builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
            builder.position_at_end(after)
            results = [builder.phi(v.floats) for _ in sums]
            for phi, initial, value in zip(results, sums, done, strict=True):
                phi.add_incoming(initial, before)
                phi.add_incoming(value, loop)
            for result, target in zip(results, targets, strict=True):
                _store(builder, result, target, 4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return tile


_normal_tile, _gradual_tile, _full_tile = (_tile(form) for form in (NORMAL, GRADUAL, FULL))


@intrinsic
def _spread(context, address, x):
    """Store a number WIDTH times."""

    def generate(context, builder, signature, arguments):
        v = Vectors(builder, WIDTH, RANGE_INSTRUCTION)
        pointer = builder.inttoptr(arguments[0], FLOAT.as_pointer())
        _store(builder, v.splat(arguments[1]), pointer, ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.intp, types.float32), generate


@intrinsic
def _scaled_row(context, source, target, factor):
    """PANEL numbers times a factor, from anywhere to an aligned place."""

    def generate(context, builder, signature, arguments):
        v = Vectors(builder, WIDTH, RANGE_INSTRUCTION)
        numbers = FLOAT.as_pointer()
        source, target = (builder.inttoptr(x, numbers) for x in arguments[:2])
        factor = v.splat(arguments[2])
        for j in range(VECTORS):
            place = [_constant(j * WIDTH)]
            x = _load(builder, builder.gep(source, place), v.floats, 4)
            _store(builder, builder.fmul(x, factor), builder.gep(target, place), ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32), generate


@jit
def _aligned(n):
    """n float32 numbers at a multiple of 64 bytes."""
    block = np.empty(n + 16, np.float32)
    skip = ((-block.ctypes.data) % 64) // 4
    return block[skip : skip + n]


@jit
def _pack_rows(A, i, rows, first, n, packed):
    """Numbers first to first + n of some rows of A, each repeated over a vector: largest, smallest non-zero magnitude.

    Rows that a tile lacks repeat the last one. Both answers are bits, the second less one.
    """
    address = packed.ctypes.data
    largest = np.uint32(0)
    smallest = np.uint32(0xFFFFFFFF)
    for r in range(ROWS):
        row = A[i + min(r, rows - 1), first : first + n]
        for k in range(n):
            u = magnitude(to_bits(row[k]))
            largest = umax(largest, u)
            smallest = umin(smallest, sub(u, one_like(u)))
        for k in range(n):
            _spread(address + 4 * WIDTH * (k * ROWS + r), row[k])
    return largest, smallest


@jit
def _pack_panel(B, first, n, j, width, one, other, packed):
    """Two copies of a panel of B, times two factors; columns that B lacks are zero."""
    address = packed.ctypes.data
    for k in range(n):
        row = B[first + k]
        place = 2 * k * PANEL
        if width == PANEL:
            source = row.ctypes.data + 4 * j
            _scaled_row(source, address + 4 * place, one)
            _scaled_row(source, address + 4 * (place + PANEL), other)
        else:
            packed[place : place + 2 * PANEL] = np.float32(0)
            for l in range(width):  # noqa: E741
                packed[place + l] = row[j + l] * one
                packed[place + PANEL + l] = row[j + l] * other


@jit
def _panel_bounds(B, first, n, j, width, sums):
    """(largest sum of magnitudes of a column, largest and smallest non-zero magnitude) of part of a panel."""
    sums[:width] = np.float32(0)
    largest = np.uint32(0)
    smallest = np.uint32(0xFFFFFFFF)
    for k in range(first, first + n):
        row = B[k, j : j + width]
        for l in range(width):  # noqa: E741
            u = magnitude(to_bits(row[l]))
            sums[l] += abs(row[l])
            largest = umax(largest, u)
            smallest = umin(smallest, sub(u, one_like(u)))
    highest = np.float32(0)
    for l in range(width):  # noqa: E741
        if not sums[l] <= highest:  # a NaN wins, and stays: nothing is below it
            highest = sums[l] if highest == highest else highest
    return highest, largest, smallest


@jit
def _tile_bounds(C, i, rows, j, width):
    """(bits of the largest magnitude, whether some number is -0) in part of C."""
    largest = np.uint32(0)
    minus_zero = False
    for r in range(i, i + rows):
        row = C[r, j : j + width]
        for l in range(width):  # noqa: E741
            u = to_bits(row[l])
            largest = umax(largest, magnitude(u))
            minus_zero |= u == np.uint32(0x80000000)
    return largest, minus_zero


@jit
def _number(u):
    """A float32 of these magnitude bits, as a float64."""
    one = np.empty(1, np.uint32)
    one[0] = u
    return np.float64(one.view(np.float32)[0])


@jit
def _run_tile(form, a, b, n, c, stride, constants):
    if form == NORMAL:
        _normal_tile(a, b, n, c, stride, constants)
    elif form == GRADUAL:
        _gradual_tile(a, b, n, c, stride, constants)
    else:
        _full_tile(a, b, n, c, stride, constants)


@jit
def _edge_tile(form, a, b, n, C, i, rows, j, width, spare, constants):
    """A tile that is not all of it in C, by way of a spare one."""
    spare[:] = np.float32(0)
    for r in range(rows):
        for l in range(width):  # noqa: E741
            spare[r * PANEL + l] = C[i + r, j + l]
    _run_tile(form, a, b, n, spare.ctypes.data, PANEL, constants)
    for r in range(rows):
        for l in range(width):  # noqa: E741
            C[i + r, j + l] = spare[r * PANEL + l]


@jit
def _contract_rows(A, B, C, start, stop, constants, limits, forced):
    """C += A @ B, every operation rounded, for the rows start to stop of C: False if it must not run.

    forced : a form to take wherever it is right, or -1.
    """
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return False
    K, N = B.shape
    growth, slack = limits[GROWTH], limits[SLACK]
    largest_sum, largest_factor = limits[LARGEST_SUM], limits[LARGEST_FACTOR]
    smallest_normal = limits[LEAST_PRODUCT]
    panels = (min(N, COLUMNS) + PANEL - 1) // PANEL
    size = 2 * DEPTH * PANEL
    packed_b = _aligned(2 * panels * size)  # as the normal form wants it, then as the others do
    packed_a = _aligned(DEPTH * ROWS * WIDTH)
    spare = _aligned(ROWS * PANEL)
    bounds = np.empty((panels, 3))
    ready = np.empty((2, panels), np.bool_)
    constants_at = constants.ctypes.data
    a_at, b_at, c_at = packed_a.ctypes.data, packed_b.ctypes.data, C.ctypes.data
    one, scale, splitter = np.float32(1), constants[SCALE], constants[SPLITTER]
    for j0 in range(0, N, COLUMNS):
        count = (min(COLUMNS, N - j0) + PANEL - 1) // PANEL
        for k0 in range(0, K, DEPTH):
            n = min(DEPTH, K - k0)
            ready[:] = False
            for p in range(count):
                j = j0 + p * PANEL
                total, high, low = _panel_bounds(B, k0, n, j, min(PANEL, N - j), spare)
                bounds[p, 0] = total
                bounds[p, 1] = _number(high)
                bounds[p, 2] = _number(low + np.uint32(1))
            for i in range(start, stop, ROWS):
                rows = min(ROWS, stop - i)
                high, low = _pack_rows(A, i, rows, k0, n, packed_a)
                highest = _number(high)
                lowest = _number(low + np.uint32(1))
                for p in range(count):
                    j = j0 + p * PANEL
                    width = min(PANEL, N - j)
                    held, minus_zero = _tile_bounds(C, i, rows, j, width)
                    reach = (_number(held) + highest * bounds[p, 0]) * growth + slack
                    form = FULL
                    if (
                        reach <= largest_sum
                        and bounds[p, 1] <= largest_factor
                        and not minus_zero
                        and forced != FULL
                    ):
                        least = lowest * bounds[p, 2]
                        exact = least >= smallest_normal or highest == 0 or bounds[p, 1] == 0
                        form = NORMAL if exact and forced != GRADUAL else GRADUAL
                    kept = 0 if form == NORMAL else 1
                    place = (kept * panels + p) * size
                    if not ready[kept, p]:
                        ready[kept, p] = True
                        first = scale if form == NORMAL else one
                        second = splitter if form == NORMAL else scale
                        target = packed_b[place : place + size]
                        _pack_panel(B, k0, n, j, width, first, second, target)
                    panel_at = b_at + 4 * place
                    if rows == ROWS and width == PANEL:
                        _run_tile(form, a_at, panel_at, n, c_at + 4 * (i * N + j), N, constants_at)
                    else:
                        _edge_tile(
                            form, a_at, panel_at, n, C, i, rows, j, width, spare, constants_at
                        )
    leave_standard_arithmetic(former)
    return True


@jit
def compare_values(x, rounded):
    """(whether two float32 arrays hold the same numbers, whether there are NaNs), as integers."""
    infinity = np.uint32(0x7F800000)
    differ = np.uint32(0)
    largest = np.uint32(0)
    for i in range(x.size):
        u, r = to_bits(x[i]), to_bits(rounded[i])
        m = magnitude(u)
        largest = umax(largest, m)
        differ = or_(differ, xor(u, r) if m <= infinity else zero_like(u))
    return differ == 0, largest > infinity


@jit
def make_nans_canonical(x):
    """Replace every NaN: processors differ in the sign of those that they make."""
    for i in range(x.size):
        u = to_bits(x[i])
        x[i] = x[i] if x[i] == x[i] else to_float(quiet_nan_like(u))


class Fast:
    """The kernels made ready for one format."""

    def __init__(self, fmt):
        p, emin = fmt.precision, fmt.emin
        q = 24 - p
        self.fmt = fmt
        self.constants = np.zeros(CONSTANTS, np.float32)
        words = self.constants.view(np.uint32)
        self.constants[SPLITTER] = 2.0**q + 1
        self.constants[SCALE] = 2.0**q
        self.constants[CLAMP] = 2.0 ** (emin + q)
        self.constants[GRID] = 1.5 * 2.0 ** (emin + q)
        self.constants[SMALLEST_NORMAL] = fmt.smallest_normal
        self.constants[LARGEST] = fmt.max
        words[BITS_SHIFT] = q
        words[BITS_HALF] = (1 << (q - 1)) - 1
        words[BITS_KEEP] = 0x100000000 - (1 << q)
        u = fmt.unit_roundoff
        # (1 + u)**(n + 1) over a block, with a percent for the rounded bounds themselves.
        growth = 1.01 * math.exp(min(u * (DEPTH + 1), 600.0))
        short = 2.0 ** (126 - q)
        self.limits = np.array(
            [
                growth,
                growth * DEPTH * fmt.smallest_subnormal,
                min(fmt.max, short),
                short,
                fmt.smallest_normal,
            ]
        )
        self.forced = -1


@functools.cache
def fast_product(fmt):
    """The kernels for products whose every operation rounds to nearest in this format, or None."""
    if not isinstance(fmt, Format) or not fmt.fits(np.float32):
        return None
    ordinary = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    return Fast(fmt) if ordinary and 2 <= fmt.precision <= 11 and fmt.exponent_bits >= 2 else None


def contract(fast, A, B, C):
    """C += A @ B on float32 arrays of values of the format, NaNs canonical; False if the kernels must not run here."""
    rows, n = C.shape
    unit = max(1, ROWS * n * A.shape[1] // PRODUCTS_PER_UNIT)
    tiles = -(-rows // ROWS)
    done = []

    def task(first, stop):
        start = -(-first // unit) * ROWS
        end = min(rows, -(-stop // unit) * ROWS)
        if start < end:
            ran = _contract_rows(A, B, C, start, end, fast.constants, fast.limits, fast.forced)
            done.append(ran)

    run_chunks(task, tiles * unit, UNITS_AT_ONCE)
    return all(done)
