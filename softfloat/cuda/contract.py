"""Products of matrices and inner products on a device: which way each goes."""

import math

import numpy as np

from softfloat import products
from softfloat.backends.reduce import AS_IT_IS
from softfloat.cuda import engine as engines
from softfloat.cuda import product
from softfloat.cuda.arrays import owner_of
from softfloat.cuda.elementwise import Call
from softfloat.cuda.reduce import define
from softfloat.cuda.terms import gather
from softfloat.functional import _carriers, _result_dtype
from softfloat.ops.reduce import EXACT, ROUNDED
from softfloat.products import _batches, _check_sizes, _shapes


class _Shape:
    """What softfloat.products asks an operand for."""

    def __init__(self, shape):
        self.shape, self.ndim = tuple(shape), len(shape)


def matmul(a, b, how, c, engine, scales, own, out):
    """Matrix products as softfloat.products takes them; own : formats of a and b, or names of their dtypes, or None."""
    call = Call("matmul", [x for x in (a, b, c, *scales, out) if x is not None])
    for x in (a, b):
        if not owner_of(x):
            raise TypeError(
                f"softfloat.matmul: both operands lie on the device or neither does, got {type(x).__name__}"
            )
    operands, shapes, dtypes = call.read_apart([a, b])
    if not shapes[0] or not shapes[1]:
        raise ValueError(
            f"matmul takes arrays of one or more dimensions, got shapes {shapes[0]} and {shapes[1]}"
        )
    _check_sizes("matmul", *map(_Shape, shapes))
    first = (1, *shapes[0]) if len(shapes[0]) == 1 else shapes[0]
    second = (*shapes[1], 1) if len(shapes[1]) == 1 else shapes[1]
    batch, full = _shapes(_Shape(first), _Shape(second))
    shape = full if len(shapes[0]) > 1 else full[:-2] + full[-1:]
    shape = shape if len(shapes[1]) > 1 else shape[:-1]
    dtype = _result_dtype(how.result, dtypes)
    result, target = call.result(out, shape, dtype, _carriers(how.result), how.result.label)
    start = None if c is None else _initial(call, c, shape)
    extent = (math.prod(batch), full[-2], full[-1])
    rows, columns = _batches(first[:-2], batch), _batches(second[:-2], batch)
    if engine is not None:
        engines.product(
            call, engine, operands, own, start, scales, (first, second, extent), rows, columns,
            how.result, target, shape,
        )  # fmt: skip
        return result
    views = [call.apart(call.owner.view(x, call.stream), target) for x in operands]
    k = first[-1]
    if not batch and product.takes(how):
        if target.size:
            product.multiply(call, *views, start, target, (full[-2], full[-1], k), how)
        return result
    bits_a = gather(call, views[0], (math.prod(first[:-1]), k, 1))
    bits_b = gather(call, views[1], (math.prod(second[:-2]), k, second[-1]))
    starts = None if start is None else gather(call, start, (target.size, 1, 1))
    kind = EXACT if how.exact else ROUNDED
    define(call, target, bits_a, bits_b, rows, columns, extent, k, starts, kind, AS_IT_IS, how)
    return result


def _initial(call, c, shape):
    """A flat copy of the initial accumulators, broadcast to the result's shape."""
    (value,), (own,), _ = call.read_apart([c])
    try:
        np.broadcast_to(np.empty(own, bool), shape)
    except ValueError:
        raise ValueError(
            f"c of shape {own} does not broadcast to the result's shape {shape}"
        ) from None
    return call.spread(value, shape)


def dot(a, b, fmt, out, options):
    """softfloat.dot of vectors and matrices."""
    if not 0 < len(np.shape(a)) <= 2 or not 0 < len(np.shape(b)) <= 2:
        raise TypeError(
            f"softfloat.dot on a device takes vectors and matrices, got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return products.matmul(a, b, fmt, out=out, **options)
