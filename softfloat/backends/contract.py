"""Matrix products by vector kernels: blocks that fit in the caches, each tile by the cheapest form that is right.

C is cut into tiles of 4 rows by two vectors, the inner index into blocks of 256. Before a tile takes its part of a
block, bounds on what can appear there choose among three forms (softfloat.ops.linalg): the quickest, one for subnormal
products, and one for everything. They agree bit for bit wherever more than one is right, so the choice, like the number
of threads, decides the speed only. Rows are split over threads.

Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for the blocking.
"""

import functools

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.direction import NEAREST, set_direction
from softfloat.backends.threads import run_chunks
from softfloat.bits import (
    UNKNOWN,
    add,
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
from softfloat.format import CARRIERS, Format
from softfloat.ops.linalg import (
    BITS_HALF,
    BITS_KEEP,
    BITS_RAISE,
    BITS_SHIFT,
    CLAMP,
    CONSTANTS,
    DOUBLE,
    GRID,
    INFINITE,
    LARGEST,
    NORMAL,
    OVERFLOW,
    OVERFLOW_NEGATIVE,
    SCALE,
    SMALLEST_NORMAL,
    SPLITTER,
    WORD_KEEP,
    WORD_SHIFT,
    Vectors,
    panel_rows,
    product_way,
    step,
)

ROWS, VECTORS = 4, 2  # of a tile
DEPTH = 256  # terms of a block
COLUMNS = 512  # of a block of B
PRODUCTS_PER_UNIT = 16  # multiply-adds that count as one element when work is split over threads
UNITS_AT_ONCE = 1 << 27  # between two looks at Ctrl-C
WORD = ir.IntType(64)
# The three forms of a kernel: where no product is subnormal, where none is too large, and for everything.
QUICK, MIDDLE, UNIVERSAL = range(3)
ABSENT = -1
ANY = -1  # no form is forced
WIDE = 1 << 12  # added to the code of a form in float64
# What the choice of a form looks at: growth of a sum by the roundings of a block and an absolute slack; the largest sum
# and the largest factor that the first two forms take; the smallest product that the quick one takes; whether they
# lose the sign of a zero.
GROWTH, SLACK, LARGEST_SUM, LARGEST_FACTOR, LEAST_PRODUCT, LOSES_ZEROS, LIMITS = range(7)


def _processor():
    """(numbers in a vector, whether AVX-512 has its range instruction) on the processor that numba compiles for."""
    if config.CPU_FEATURES is None:
        features = llvmlite.binding.get_host_cpu_features()
    else:
        features = {text[1:]: text[0] == "+" for text in config.CPU_FEATURES.split(",") if text}
    wide = bool(features.get("avx512f"))
    return 16 if wide else 8, wide and bool(features.get("avx512dq"))


WIDTH, RANGE_INSTRUCTION = _processor()
PANEL = VECTORS * WIDTH  # columns of a tile in float32
ALIGNMENT = 4 * WIDTH


def _constant(n):
    return ir.Constant(WORD, n)


def _load(builder, pointer, kind, alignment):
    found = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    found.align = alignment
    return found


def _store(builder, value, pointer, alignment):
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = alignment


def _emitter(builder, wide):
    """The emitter for a carrier, and the type of pointers to its numbers."""
    v = Vectors(builder, WIDTH // 2 if wide else WIDTH, RANGE_INSTRUCTION, wide)
    return v, v.number_type.as_pointer()


def _counted_loop(builder, n, carried, body):
    """The values carried through body(k, values) for k = 0 to n - 1."""
    before = builder.block
    loop, after = builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", n, _constant(0)), loop, after)
    builder.position_at_end(loop)
    k = builder.phi(WORD)
    k.add_incoming(_constant(0), before)
    running = [builder.phi(value.type) for value in carried]
    for phi, initial in zip(running, carried, strict=True):
        phi.add_incoming(initial, before)
    done = body(k, running)
    following = builder.add(k, _constant(1))
    k.add_incoming(following, loop)
    for phi, value in zip(running, done, strict=True):
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)
    results = [builder.phi(value.type) for value in carried]
    for phi, initial, value in zip(results, carried, done, strict=True):
        phi.add_incoming(initial, before)
        phi.add_incoming(value, loop)
    return results


def _emit_tile(builder, code, wide, a, b, n, c, stride, constants):
    v, numbers = _emitter(builder, wide)
    factor_rows, rows = panel_rows(code)
    a, b, c, constants = (builder.inttoptr(x, numbers) for x in (a, b, c, constants))
    loaded = [
        v.splat(builder.load(builder.gep(constants, [_constant(j)]))) for j in range(2 * CONSTANTS)
    ]
    places = [(i, j) for i in range(ROWS) for j in range(VECTORS)]
    targets = [
        builder.gep(c, [builder.add(builder.mul(_constant(i), stride), _constant(j * v.width))])
        for i, j in places
    ]
    lowest = 8 if wide else 4

    def vector(pointer, index):
        return _load(
            builder, builder.gep(pointer, [_constant(index * v.width)]), v.floats, ALIGNMENT
        )

    def terms(k, sums):
        row = builder.gep(b, [builder.mul(k, _constant(rows * VECTORS * v.width))])
        column = builder.gep(a, [builder.mul(k, _constant(ROWS * factor_rows * v.width))])
        panels = [[vector(row, copy * VECTORS + j) for copy in range(rows)] for j in range(VECTORS)]
        done = []
        for i in range(ROWS):
            factors = [vector(column, i * factor_rows + f) for f in range(factor_rows)]
            for j in range(VECTORS):
                done.append(step(v, code, sums[i * VECTORS + j], factors, panels[j], loaded))
        return done

    sums = [_load(builder, t, v.floats, lowest) for t in targets]
    for value, target in zip(_counted_loop(builder, n, sums, terms), targets, strict=True):
        _store(builder, value, target, lowest)


@intrinsic(prefer_literal=True)
def _tile(context, code, a, b, n, c, stride, constants):
    """acc + a * b for n terms of a tile, by the form of a code; all are addresses, but n and stride.

    a : n groups of ROWS vectors, each one number repeated (or pairs of them: number, word).   b : n groups of one or
    two panel rows, as the form wants them.   c : ROWS rows of a panel, `stride` numbers apart, read and written.
    """
    if not isinstance(code, types.IntegerLiteral):
        return None
    number = code.literal_value

    def generate(context, builder, signature, arguments):
        if number != ABSENT:
            _emit_tile(builder, number % WIDE, number >= WIDE, *arguments[1:])
        return context.get_dummy_value()

    return types.void(code, *[types.intp] * 6), generate


@intrinsic
def _spread(context, address, x):
    """Store a number once in every place of a vector."""

    def generate(context, builder, signature, arguments):
        v, numbers = _emitter(builder, arguments[1].type == DOUBLE)
        pointer = builder.inttoptr(arguments[0], numbers)
        _store(builder, v.splat(arguments[1]), pointer, ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.intp, x), generate


def _copy_panel_row(builder, wide, source, target, change):
    v, numbers = _emitter(builder, wide)
    source, target = (builder.inttoptr(x, numbers) for x in (source, target))
    for j in range(VECTORS):
        place = [_constant(j * v.width)]
        x = _load(builder, builder.gep(source, place), v.floats, 8 if wide else 4)
        _store(builder, change(v, x), builder.gep(target, place), ALIGNMENT)


@intrinsic
def _scaled_row(context, source, target, factor):
    """The numbers of a panel row times a factor, from anywhere to an aligned place."""

    def generate(context, builder, signature, arguments):
        source, target, factor = arguments
        scale = lambda v, x: builder.fmul(x, v.splat(factor))  # noqa: E731
        _copy_panel_row(builder, factor.type == DOUBLE, source, target, scale)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, factor), generate


@intrinsic
def _copied_row(context, source, target, like):
    """The bits of a panel row, from anywhere to an aligned place."""

    def generate(context, builder, signature, arguments):
        source, target, like = arguments
        _copy_panel_row(builder, like.type == DOUBLE, source, target, lambda v, x: x)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, like), generate


@jit
def _aligned(n, like):
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


@jit
def _pack_rows(A, words, i, rows, first, n, width, packed, both):
    """Numbers first to first + n of some rows of A, each repeated over a vector: largest, smallest non-zero magnitude.

    Rows that a tile lacks repeat the last one. With `both`, each is followed by its word.
    """
    address = packed.ctypes.data
    largest, smallest = _no_bounds(packed[0])
    size = width * packed.itemsize
    count = 2 if both else 1
    for r in range(ROWS):
        own = i + min(r, rows - 1)
        row = A[own, first : first + n]
        largest, smallest = _bounds_of(row, largest, smallest)
        for k in range(n):
            _spread(address + size * (k * ROWS + r) * count, row[k])
        if both:
            marks = words[own, first : first + n]
            for k in range(n):
                _spread(address + size * ((k * ROWS + r) * 2 + 1), marks[k])
    return _number(largest), _after(smallest)


@jit
def _pack_panel(B, words, first, n, j, count, panel, rows, both, one, other, packed):
    """A panel of B in one or two rows a term: times two factors, or itself and its words; columns B lacks are zero."""
    address, size = packed.ctypes.data, packed.itemsize
    none = packed.dtype.type(0)
    for k in range(n):
        row = B[first + k]
        place = rows * k * panel
        if count == panel:
            source = row.ctypes.data + size * j
            _scaled_row(source, address + size * place, one)
            if both:
                source = words[first + k].ctypes.data + size * j
                _copied_row(source, address + size * (place + panel), one)
            elif rows == 2:
                _scaled_row(source, address + size * (place + panel), other)
        else:
            packed[place : place + rows * panel] = none
            for l in range(count):  # noqa: E741
                packed[place + l] = row[j + l] * one
                if both:
                    packed[place + panel + l] = words[first + k, j + l]
                elif rows == 2:
                    packed[place + panel + l] = row[j + l] * other


@jit
def _panel_bounds(B, first, n, j, count, sums):
    """(largest sum of magnitudes of a column, largest and smallest non-zero magnitude) of part of a panel."""
    none = sums.dtype.type(0)
    sums[:count] = none
    largest, smallest = _no_bounds(none)
    for k in range(first, first + n):
        row = B[k, j : j + count]
        for l in range(count):  # noqa: E741
            u = magnitude(to_bits(row[l]))
            sums[l] += abs(row[l])
            largest = umax(largest, u)
            smallest = umin(smallest, sub(u, one_like(u)))
    highest = none
    for l in range(count):  # noqa: E741
        if not sums[l] <= highest:  # a NaN wins, and stays: nothing is below it
            highest = sums[l] if highest == highest else highest
    return np.float64(highest), _number(largest), _after(smallest)


@jit
def _tile_bounds(C, i, rows, j, count):
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


@jit
def _copy_in(C, i, rows, j, count, panel, spare):
    """Part of C into a spare tile, zeros around it."""
    spare[:] = spare.dtype.type(0)
    for r in range(rows):
        for l in range(count):  # noqa: E741
            spare[r * panel + l] = C[i + r, j + l]


@jit
def _copy_out(spare, panel, C, i, rows, j, count):
    for r in range(rows):
        for l in range(count):  # noqa: E741
            C[i + r, j + l] = spare[r * panel + l]


@jit
def _chosen(held, minus_zero, highest, lowest, bounds, limits, forced):
    """The form that a tile takes.

    held, highest : the largest magnitudes in C and A.   bounds : as _panel_bounds gives them.
    """
    reach = (held + highest * bounds[0]) * limits[GROWTH] + limits[SLACK]
    if (
        not reach <= limits[LARGEST_SUM]
        or bounds[1] > limits[LARGEST_FACTOR]
        or (minus_zero and limits[LOSES_ZEROS] != 0)
        or forced == UNIVERSAL
    ):
        return UNIVERSAL
    exact = lowest * bounds[2] >= limits[LEAST_PRODUCT] or highest == 0 or bounds[1] == 0
    return QUICK if exact and forced != MIDDLE else MIDDLE


@functools.cache
def contraction(quick, middle, universal, width):
    """The kernel of three forms (ABSENT, or codes; the carrier's are all WIDE or none) as a compiled function."""
    vectors, rows = panel_rows(middle % WIDE)
    both = vectors == 2
    apart = quick != ABSENT and product_way(quick) == NORMAL
    panel = VECTORS * width
    none_quick, none_universal = quick == ABSENT, universal == ABSENT

    @jit
    def run_tile(form, a, b, n, c, stride, constants):
        if form == QUICK:
            _tile(quick, a, b, n, c, stride, constants)
        elif form == MIDDLE:
            _tile(middle, a, b, n, c, stride, constants)
        else:
            _tile(universal, a, b, n, c, stride, constants)

    @jit
    def contract_rows(A, B, C, marks, start, stop, constants, limits, factors, direction, forced):
        """C += A @ B, every operation rounded, for the rows start to stop of C: False if it must not run.

        marks : words of A and of B, bits of the carrier.   factors : of the panel rows of the quick form, then of the
        others.   forced : a form to take wherever it is right, or ANY.
        """
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        set_direction(direction)
        K, N = B.shape
        panels = (min(N, COLUMNS) + panel - 1) // panel
        size = rows * DEPTH * panel
        packed_b = _aligned((2 if apart else 1) * panels * size, A)
        packed_a = _aligned(DEPTH * ROWS * width * vectors, A)
        spare = _aligned(ROWS * panel, A)
        bounds = np.empty((panels, 3))
        ready = np.empty((2, panels), np.bool_)
        item = A.itemsize
        constants_at = constants.ctypes.data
        a_at, b_at, c_at = packed_a.ctypes.data, packed_b.ctypes.data, C.ctypes.data
        for j0 in range(0, N, COLUMNS):
            in_block = (min(COLUMNS, N - j0) + panel - 1) // panel
            for k0 in range(0, K, DEPTH):
                n = min(DEPTH, K - k0)
                ready[:] = False
                for p in range(in_block):
                    j = j0 + p * panel
                    found = _panel_bounds(B, k0, n, j, min(panel, N - j), spare)
                    bounds[p, 0], bounds[p, 1], bounds[p, 2] = found
                for i in range(start, stop, ROWS):
                    height = min(ROWS, stop - i)
                    highest, lowest = _pack_rows(
                        A, marks[0], i, height, k0, n, width, packed_a, both
                    )
                    for p in range(in_block):
                        j = j0 + p * panel
                        count = min(panel, N - j)
                        held, minus_zero = _tile_bounds(C, i, height, j, count)
                        form = _chosen(held, minus_zero, highest, lowest, bounds[p], limits, forced)
                        if none_quick and form == QUICK or none_universal:
                            form = MIDDLE
                        kept = 1 if apart and form == QUICK else 0
                        place = (kept * panels + p) * size
                        if not ready[kept, p]:
                            ready[kept, p] = True
                            own = factors[2 - 2 * kept : 4 - 2 * kept]
                            target = packed_b[place : place + size]
                            _pack_panel(
                                B, marks[1], k0, n, j, count, panel, rows, both, own[0], own[1],
                                target,
                            )  # fmt: skip
                        panel_at = b_at + item * place
                        whole = height == ROWS and count == panel
                        target_at, stride = c_at + item * (i * N + j), N
                        if not whole:  # by way of a spare tile
                            _copy_in(C, i, height, j, count, panel, spare)
                            target_at, stride = spare.ctypes.data, panel
                        run_tile(form, a_at, panel_at, n, target_at, stride, constants_at)
                        if not whole:
                            _copy_out(spare, panel, C, i, height, j, count)
        set_direction(NEAREST)
        leave_standard_arithmetic(former)
        return True

    return contract_rows


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


def format_constants(fmt, carrier, overflow, word=None):
    """The constants of a format for the forms in a carrier, as an array of the carrier's dtype.

    overflow : magnitudes that overflow gives for positive and for negative numbers, and the one of infinities.
    word : (number of random bits, how many bits of the word lie above them), where there are any.
    """
    c = CARRIERS[np.dtype(carrier)]
    q = c.mantissa_bits + 1 - fmt.precision
    constants = np.zeros(CONSTANTS, c.dtype)
    bits = constants.view(np.uint32 if c.bits == 32 else np.uint64)
    with np.errstate(
        over="ignore"
    ):  # a constant that does not fit belongs to a form that is not right there
        constants[SPLITTER] = 2.0**q + 1
        constants[SCALE] = 2.0**q
        constants[CLAMP] = np.ldexp(1.0, fmt.emin + q)
        constants[GRID] = np.ldexp(1.5, fmt.emin + q)
    constants[SMALLEST_NORMAL] = fmt.smallest_normal
    constants[LARGEST] = fmt.max
    constants[OVERFLOW], constants[OVERFLOW_NEGATIVE], constants[INFINITE] = overflow
    bits[BITS_SHIFT] = q
    bits[BITS_HALF] = (1 << (q - 1)) - 1 if q else 0
    bits[BITS_KEEP] = (1 << c.bits) - (1 << q)
    bits[BITS_RAISE] = (2 * q + 1) << (c.mantissa_bits - 1)
    if word is not None:
        count, above = word
        bits[WORD_SHIFT] = c.bits - q - above
        bits[WORD_KEEP] = ((1 << count) - 1) << (q - count)
    return constants


class Fast:
    """What the kernel of sums needs of a format."""

    def __init__(self, fmt):
        self.fmt = fmt
        self.constants = format_constants(fmt, np.float32, (np.inf, np.inf, np.inf))


@functools.cache
def fast_product(fmt):
    """The constants for sums of which each rounds to nearest in this format, or None."""
    if not isinstance(fmt, Format) or not fmt.fits(np.float32):
        return None
    ordinary = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    return Fast(fmt) if ordinary and 2 <= fmt.precision <= 11 and fmt.exponent_bits >= 2 else None


def contract(run, arguments, A, B, C, marks, forced=ANY):
    """C += A @ B on arrays of one carrier, NaNs canonical; False if the kernels must not run here.

    run, arguments : of softfloat.backends.kernels.   marks : words of A and B, or A and B where there are none.
    """
    rows, n = C.shape
    unit = max(1, ROWS * n * A.shape[1] // PRODUCTS_PER_UNIT)
    tiles = -(-rows // ROWS)
    done = []

    def task(first, stop):
        start = -(-first // unit) * ROWS
        end = min(rows, -(-stop // unit) * ROWS)
        if start < end:
            done.append(run(A, B, C, marks, start, end, *arguments, forced))

    run_chunks(task, tiles * unit, UNITS_AT_ONCE)
    return all(done)
