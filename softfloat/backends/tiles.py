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
def tile(context, code, a, b, n, c, stride, constants):
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
def spread(context, address, x):
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
