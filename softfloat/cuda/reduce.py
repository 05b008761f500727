"""Sums and products of matrices on a device: the definitions of softfloat.ops.reduce, one thread an output element.

Every order, format and rounding of the CPU. Products of matrices that the tiles of softfloat.cuda.product take do not
come here.
"""

import functools
import math

import numpy as np

from softfloat import products
from softfloat._jit import jit
from softfloat.backends.reduce import AS_IT_IS, finished
from softfloat.cuda import bodies, product
from softfloat.cuda.arrays import bare, owner_of
from softfloat.cuda.elementwise import ALL, Call
from softfloat.fixed_point import FixedPoint
from softfloat.functional import _carriers, _result_dtype
from softfloat.ops.reduce import (
    EXACT,
    FACTOR,
    ONE,
    PLAIN,
    ROUNDED,
    STATE,
    advance,
    begin,
    end,
    keys_of,
)
from softfloat.products import _batches, _shapes
from softfloat.reductions import _axes
from softfloat.scalar.core import from_signed_bits, signed_bits

_NO_BITS = np.zeros(0, np.int64)


@functools.cache
def gather_body():
    """out[e * n + k] : the bits, as float64, of term k of element e of an array (outer, n, inner); constants: n, inner.

    NaNs are the canonical one.
    """

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, x, _, _ = arrays
        n, inner = constants
        for t in range(start, out.size, stride):
            e, k = t // n, t % n
            value = np.float64(x[np.uint64((e // inner * n + k) * inner + e % inner)])
            out[t] = signed_bits(value) if value == value else np.int64(0x7FF8000000000000)
        return -1

    return body


@jit
def reduce_element(e, arrays, state, shape, n, choice, F, R, key, offset):
    """Output element e; as softfloat.backends.reduce.reduce_part, for all terms at once.

    arrays : out, a, b, rows, columns, starts.   choice : order, block, kind, finish.
    """
    out, a, b, rows, columns, starts = arrays
    order, block, kind, finish = choice
    batch = e // (shape[1] * shape[2])
    i = rows[batch] * shape[1] + e // shape[2] % shape[1]
    j = columns[batch] * shape[2] + e % shape[2]
    given = starts.size > 0
    first = starts[e] if given else (ONE if kind == FACTOR else 0)
    own = keys_of(key, offset + e, shape[2])
    begin(first, order, kind, state)
    advance(a, b, i * n, j * n, 0, n, order, block, kind, state, F, R, own)
    s = end(n, first, given, order, block, kind, state, F, R, own)
    value = from_signed_bits(finished(s, n, finish, F, R, own))
    out[e] = bodies.held_as(value if value == value else np.nan, out)


@functools.cache
def reduce_kernel():
    """The kernel of `reduce_element`: what is under way lies in memory of the thread's own."""
    from softfloat.cuda.kernels import per_element_kernel

    return per_element_kernel(reduce_element, STATE)


def _gather(call, value, outer, n, inner):
    """The terms of each element, one after the other, as bits on the device."""
    room = call.cuda.device_array(max(outer * n * inner, 1), np.int64, stream=call.stream)
    flat = [(call.owner.view(value, call.stream), ALL)]
    constants = np.int64(n), np.int64(inner)
    if outer * n * inner:
        words = call.words(_Deterministic, ())
        call.run(gather_body(), room, words, flat, constants, _Deterministic)
    return room


class _Deterministic:
    """What a call that rounds nothing says of rounding."""

    saturate, bits, variant, key, offset = 0, 24, 0, 0, 0

    @staticmethod
    def words(shape):
        return _NO_BITS


def _define(call, out, a, b, rows, columns, shape, n, starts, kind, finish, how):
    """Launch the definition over a result of this shape (batches, rows, columns)."""
    from softfloat.cuda.kernels import launch

    _refuse(how)
    size = math.prod(shape)
    if not size:
        return
    upload = lambda x: bare(call.upload(x))  # noqa: E731
    arrays = (bare(out), bare(a), bare(b), upload(rows), upload(columns), upload(starts))
    F = tuple(tuple(np.int64(x) for x in record) for record in how.formats)
    R = tuple(upload(rounding[:5]) for rounding in how.roundings())
    choice = tuple(np.int64(x) for x in (how.order, how.block or 1, kind, finish))
    extent = tuple(np.int64(x) for x in shape)
    launch(
        reduce_kernel(), size, call.stream,
        arrays, extent, np.int64(n), choice, F, R, np.uint64(how.key), np.int64(how.offset),
    )  # fmt: skip


def _refuse(how):
    fmt = how.result
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    if wraps or not (fmt.has_nan or fmt.signed):
        raise TypeError(
            f"a result may have no value in {fmt.label}, and a sum on a device has no way to say so; "
            "copy the operands to the host"
        )


def reduction(x, how, axis, keepdims, kind, finish, out):
    """sum, mean, prod and norm: as softfloat.reductions takes them; over one axis, or over all in C order."""
    call = Call("sum", [x, *([] if out is None else [out])])
    (value,), shape, dtypes = call.read([x])
    axes = _axes(axis, len(shape))
    if len(axes) != len(shape) and len(axes) != 1:
        raise TypeError(
            f"reductions on a device go over one axis or over all, got axis={axis}; "
            "sum over one after the other, or copy the array to the host"
        )
    whole = len(axes) == len(shape)
    outer = 1 if whole else math.prod(shape[: axes[0]])
    inner = 1 if whole else math.prod(shape[axes[0] + 1 :])
    n = math.prod(shape[i] for i in axes)
    kept = tuple(s for i, s in enumerate(shape) if i not in axes)
    if keepdims:
        kept = tuple(1 if i in axes else s for i, s in enumerate(shape))
    dtype = _result_dtype(how.result, dtypes)
    result, target = call.result(out, kept, dtype, _carriers(how.result), how.result.label)
    size = outer * inner
    if kind == PLAIN and finish == AS_IT_IS and product.takes(how):
        if size:
            flat = call.owner.view(value, call.stream)
            product.add_up(call, flat, target, (outer, n, inner), how)
        return result
    a = _gather(call, value, outer, n, inner)
    if kind in (FACTOR, PLAIN):
        one = np.zeros(1, np.int64)
        _define(call, target, a, a, one, one, (1, size, 1), n, _NO_BITS, kind, finish, how)
    else:  # rows times themselves
        rows = np.arange(size, dtype=np.int64)
        kind = EXACT if how.exact else ROUNDED
        _define(call, target, a, a, rows, rows, (size, 1, 1), n, _NO_BITS, kind, finish, how)
    return result


def matmul(a, b, how, c, engine, out):
    """Matrix products as softfloat.products takes them; neither c= nor engine= is done on a device."""
    for name, given in (("c", c), ("engine", engine)):
        if given is not None:
            raise TypeError(
                f"softfloat.matmul: {name}= is not done on a device; copy the operands to the host"
            )
    call = Call("matmul", [x for x in (a, b, out) if x is not None])
    for x in (a, b):
        if not owner_of(x):
            raise TypeError(
                f"softfloat.matmul: both operands lie on the device or neither does, got {type(x).__name__}"
            )
    (left, right), shapes, dtypes = call.read_apart([a, b])
    if not shapes[0] or not shapes[1]:
        raise ValueError(
            f"matmul takes arrays of one or more dimensions, got shapes {shapes[0]} and {shapes[1]}"
        )
    first = (1, *shapes[0]) if len(shapes[0]) == 1 else shapes[0]
    second = (*shapes[1], 1) if len(shapes[1]) == 1 else shapes[1]
    batch, full = _shapes(_Shape(first), _Shape(second))
    shape = full if len(shapes[0]) > 1 else full[:-2] + full[-1:]
    shape = shape if len(shapes[1]) > 1 else shape[:-1]
    dtype = _result_dtype(how.result, dtypes)
    result, target = call.result(out, shape, dtype, _carriers(how.result), how.result.label)
    k = first[-1]
    if not batch and product.takes(how):
        views = [call.owner.view(x, call.stream) for x in (left, right)]
        if math.prod(shape):
            product.multiply(call, *views, target, (full[-2], full[-1], k), how)
        return result
    rows, columns = _batches(first[:-2], batch), _batches(second[:-2], batch)
    extent = (math.prod(batch), full[-2], full[-1])
    bits_a = _gather(call, left, 1, math.prod(first), 1)
    bits_b = _gather(call, right, math.prod(second[:-2]), k, second[-1])
    kind = EXACT if how.exact else ROUNDED
    _define(call, target, bits_a, bits_b, rows, columns, extent, k, _NO_BITS, kind, AS_IT_IS, how)
    return result


class _Shape:
    """What softfloat.products asks an operand for."""

    def __init__(self, shape):
        self.shape, self.ndim = tuple(shape), len(shape)


def dot(a, b, fmt, out, options):
    """softfloat.dot of vectors and matrices."""
    if not 0 < len(a.shape) <= 2 or not 0 < len(b.shape) <= 2:
        raise TypeError(
            f"softfloat.dot on a device takes vectors and matrices, got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return products.matmul(a, b, fmt, out=out, **options)
