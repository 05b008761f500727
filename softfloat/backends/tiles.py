"""Tiles of a matrix product as vector instructions, and the instructions that lay out their operands.

A tile is 4 rows by two vectors of C; the loop over the terms is emitted with the form of each multiply-add
(softfloat.ops.linalg) inside.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from softfloat.backends.direction import processor_features
from softfloat.ops.linalg import CONSTANTS, DOUBLE, Vectors, panel_rows, step

ROWS, VECTORS = 4, 2  # of a tile
WORD = ir.IntType(64)
ABSENT = -1  # the code of no form
WIDE = 1 << 12  # added to the code of a form in float64


def _processor():
    """(numbers in a vector, whether AVX-512 has its range instruction) on the processor that numba compiles for."""
    features = processor_features()
    wide = bool(features.get("avx512f"))
    return 16 if wide else 8, wide and bool(features.get("avx512dq"))


WIDTH, RANGE_INSTRUCTION = _processor()
ALIGNMENT = 4 * WIDTH


def constant(n):
    """An index or a number of numbers."""
    return ir.Constant(WORD, n)


def load(builder, pointer, kind, alignment):
    """A value of a vector type from a pointer to numbers."""
    found = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    found.align = alignment
    return found


def store(builder, value, pointer, alignment):
    """A vector to where a pointer to numbers points."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = alignment


def _emitter(builder, wide):
    """The emitter for a carrier, and the type of pointers to its numbers."""
    v = Vectors(builder, WIDTH // 2 if wide else WIDTH, RANGE_INSTRUCTION, wide)
    return v, v.number_type.as_pointer()


def counted_loop(builder, n, carried, body):
    """The values carried through body(k, values) for k = 0 to n - 1."""
    before = builder.block
    loop, after = builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", n, constant(0)), loop, after)
    builder.position_at_end(loop)
    k = builder.phi(WORD)
    k.add_incoming(constant(0), before)
    running = [builder.phi(value.type) for value in carried]
    for phi, initial in zip(running, carried, strict=True):
        phi.add_incoming(initial, before)
    done = body(k, running)
    following = builder.add(k, constant(1))
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


def _emit_tile(builder, code, wide, factors_of, b, n, c, stride, constants):
    """The loop over the terms; factors_of(v, k) : for each row of the tile, its factor vectors in term k."""
    v, numbers = _emitter(builder, wide)
    _, rows = panel_rows(code)
    b, c, constants = (builder.inttoptr(x, numbers) for x in (b, c, constants))
    loaded = [
        v.splat(builder.load(builder.gep(constants, [constant(j)]))) for j in range(2 * CONSTANTS)
    ]
    places = [(i, j) for i in range(ROWS) for j in range(VECTORS)]
    targets = [
        builder.gep(c, [builder.add(builder.mul(constant(i), stride), constant(j * v.width))])
        for i, j in places
    ]
    lowest = 8 if wide else 4

    def terms(k, sums):
        row = builder.gep(b, [builder.mul(k, constant(rows * VECTORS * v.width))])
        panels = [
            [_vector(v, row, copy * VECTORS + j) for copy in range(rows)] for j in range(VECTORS)
        ]
        return [
            step(v, code, sums[i * VECTORS + j], factors, panels[j], loaded)
            for i, factors in enumerate(factors_of(v, k))
            for j in range(VECTORS)
        ]

    sums = [load(builder, t, v.floats, lowest) for t in targets]
    for value, target in zip(counted_loop(builder, n, sums, terms), targets, strict=True):
        store(builder, value, target, lowest)


def _vector(v, pointer, index):
    place = v.builder.gep(pointer, [constant(index * v.width)])
    return load(v.builder, place, v.floats, ALIGNMENT)


def _repeated_factors(builder, code, wide, a, rows):
    """Factors that each fill a vector: the numbers of rows of A, and their words where the form has them."""
    _, numbers = _emitter(builder, wide)
    factor_rows, _ = panel_rows(code)
    lines = []
    for i in range(ROWS):
        # Rows that A lacks repeat its last: nobody looks at what becomes of them.
        beyond = builder.icmp_signed("<", constant(i), rows)
        row = builder.select(beyond, constant(i), builder.sub(rows, constant(1)))
        at, stride = (
            [builder.extract_value(a, 2 * f + part) for f in range(factor_rows)] for part in (0, 1)
        )
        lines.append(
            [
                builder.gep(builder.inttoptr(x, numbers), [builder.mul(row, size)])
                for x, size in zip(at, stride, strict=True)
            ]
        )
    return lambda v, k: [[v.splat(builder.load(builder.gep(x, [k]))) for x in y] for y in lines]


def _packed_factors(builder, code, wide, a):
    """Factors as `pack_lanes` lays them out."""
    _, numbers = _emitter(builder, wide)
    count, _ = panel_rows(code)
    a = builder.inttoptr(a, numbers)

    def factors_of(v, k):
        column = builder.gep(a, [builder.mul(k, constant(ROWS * count * v.width))])
        return [[_vector(v, column, i * count + f) for f in range(count)] for i in range(ROWS)]

    return factors_of


@intrinsic(prefer_literal=True)
def tile(context, code, a, rows, b, n, c, stride, constants):
    """acc + a * b for n terms of a tile, by the form of a code.

    a : (address of the first number of the tile's first row, numbers from row to row, and the same of the words).
    rows : of A, 1 to ROWS.   b : address of n groups of one or two panel rows, as the form wants them.   c : address of
    ROWS rows of a panel, `stride` numbers apart, read and written.   constants : their address.
    """
    if not isinstance(code, types.IntegerLiteral):
        return None
    number = code.literal_value

    def generate(context, builder, signature, arguments):
        _, a, rows, *others = arguments
        if number != ABSENT:
            own = number % WIDE, number >= WIDE
            _emit_tile(builder, *own, _repeated_factors(builder, *own, a, rows), *others)
        return context.get_dummy_value()

    return types.void(code, types.UniTuple(types.intp, 4), *[types.intp] * 6), generate


@intrinsic(prefer_literal=True)
def lane_tile(context, code, a, b, n, c, stride, constants):
    """The same where each lane has factors of its own.   a : address of what `pack_lanes` has laid out."""
    if not isinstance(code, types.IntegerLiteral):
        return None
    number = code.literal_value

    def generate(context, builder, signature, arguments):
        _, a, *others = arguments
        if number != ABSENT:
            own = number % WIDE, number >= WIDE
            _emit_tile(builder, *own, _packed_factors(builder, *own, a), *others)
        return context.get_dummy_value()

    return types.void(code, *[types.intp] * 6), generate


def _copy_panel_row(builder, wide, source, target, change):
    v, numbers = _emitter(builder, wide)
    source, target = (builder.inttoptr(x, numbers) for x in (source, target))
    for j in range(VECTORS):
        place = [constant(j * v.width)]
        x = load(builder, builder.gep(source, place), v.floats, 8 if wide else 4)
        store(builder, change(v, x), builder.gep(target, place), ALIGNMENT)


@intrinsic
def scaled_row(context, source, target, factor):
    """The numbers of a panel row times a factor, from anywhere to an aligned place."""

    def generate(context, builder, signature, arguments):
        source, target, factor = arguments
        scale = lambda v, x: builder.fmul(x, v.splat(factor))  # noqa: E731
        _copy_panel_row(builder, factor.type == DOUBLE, source, target, scale)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, factor), generate


@intrinsic
def copied_row(context, source, target, like):
    """The bits of a panel row, from anywhere to an aligned place."""

    def generate(context, builder, signature, arguments):
        source, target, like = arguments
        _copy_panel_row(builder, like.type == DOUBLE, source, target, lambda v, x: x)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, like), generate
