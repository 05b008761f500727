"""Fused multiply-adds rounded down and up at once, by instructions that bear their direction: AVX-512 has them."""

import numpy as np
from numba import types
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.direction import processor_features
from softfloat.backends.tiles import constant, counted_loop, load, store
from softfloat.ops.linalg import DOUBLE, DOWN, UP, Vectors

LANES = 8


def fma_has_ways():
    """Whether the processor that numba compiles for has such instructions."""
    return bool(processor_features().get("avx512f"))


@intrinsic
def _whole_vectors(context, count, a, b, c, lower, upper):
    """The loop of `fma_both_ways` over so many vectors, at these addresses."""

    def generate(context, builder, signature, arguments):
        count, *addresses = arguments
        v = Vectors(builder, LANES, False, wide=True)
        *operands, lower, upper = (builder.inttoptr(x, DOUBLE.as_pointer()) for x in addresses)

        def body(k, carried):
            place = [builder.mul(k, constant(LANES))]
            numbers = [load(builder, builder.gep(x, place), v.floats, 8) for x in operands]
            for target, way in ((lower, DOWN), (upper, UP)):
                store(builder, v.directed_fma(*numbers, way), builder.gep(target, place), 8)
            return carried

        counted_loop(builder, count, [], body)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


@jit(inline=True)
def _all_but_the_last(a, b, c, lower, upper):
    addresses = a.ctypes.data, b.ctypes.data, c.ctypes.data, lower.ctypes.data, upper.ctypes.data
    _whole_vectors(a.size // LANES, *addresses)


@jit
def _last(a, b, c, lower, upper):
    """What lies beyond the whole vectors."""
    first = a.size // LANES * LANES
    x = np.zeros((5, LANES))
    for j in range(a.size - first):
        x[0, j], x[1, j], x[2, j] = a[first + j], b[first + j], c[first + j]
    _all_but_the_last(x[0], x[1], x[2], x[3], x[4])
    for j in range(a.size - first):
        lower[first + j], upper[first + j] = x[3, j], x[4, j]


@jit(inline=True)
def fma_both_ways(a, b, c, lower, upper):
    """a * b + c rounded down and up, for contiguous float64 arrays of one size; the targets may be longer."""
    _all_but_the_last(a, b, c, lower, upper)
    if a.size % LANES > 0:
        _last(a, b, c, lower, upper)
