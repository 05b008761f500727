"""Sums on a device: the definitions of softfloat.ops.reduce, every order, format and rounding of the CPU.

One thread makes an output element; where there are few of them and the order combines partial results, one thread each
of these. Sums in sequence and most products of matrices do not come here, but to softfloat.cuda.product.
"""

import math

import numpy as np

from softfloat._jit import jit
from softfloat.backends.reduce import AS_IT_IS, finished
from softfloat.cuda import bodies, product
from softfloat.cuda.arrays import bare
from softfloat.cuda.elementwise import Call
from softfloat.cuda.terms import NO_BITS, gather
from softfloat.fixed_point import FixedPoint
from softfloat.functional import _carriers, _result_dtype
from softfloat.ops.reduce import (
    BLOCKED,
    EXACT,
    FACTOR,
    LANE_COUNT,
    LANES,
    LEVELS,
    ONE,
    PAIRWISE,
    PLAIN,
    ROUNDED,
    STATE,
    TALLY,
    advance,
    begin,
    close_block,
    end,
    keys_of,
    pairwise,
    put,
    sequential,
)
from softfloat.reductions import _axes
from softfloat.scalar.core import from_signed_bits

FEW_ELEMENTS = 1 << 12  # of a result that leave threads idle
LEAST_TERMS = 128  # of an element of which several threads make the parts


@jit
def line_numbers(e, rows, columns, shape):
    """The row of a and the column of b (a row of its own) that make element e of a shape (batches, I, J)."""
    batch = e // (shape[1] * shape[2])
    i = rows[batch] * shape[1] + e // shape[2] % shape[1]
    return i, columns[batch] * shape[2] + e % shape[2]


@jit
def reduce_element(e, arrays, state, given):
    """Output element e; as softfloat.backends.reduce.reduce_part, for all terms at once.

    arrays : out, a, b, rows, columns, starts.   given : the shape, terms, pieces, the choice (order, block, kind,
    finish), formats, roundings, key and offset of the random words.
    """
    out, a, b, rows, columns, starts, _ = arrays
    shape, n, _, (order, block, kind, finish), F, R, key, offset = given
    i, j = line_numbers(e, rows, columns, shape)
    first = starts[e] if starts.size > 0 else (ONE if kind == FACTOR else 0)
    own = keys_of(key, offset + e, shape[2])
    begin(first, order, kind, state)
    advance(a, b, i * n, j * n, 0, n, order, block, kind, state, F, R, own)
    deliver(e, out, state, first, starts.size > 0, n, (order, block, kind, finish), F, R, own)


@jit
def deliver(e, out, state, first, given, n, choice, F, R, own):
    """Output element e of what is under way after the last term."""
    order, block, kind, finish = choice
    s = end(n, first, given, order, block, kind, state, F, R, own)
    value = from_signed_bits(finished(s, n, finish, F, R, own))
    out[e] = bodies.held_as(value if value == value else np.nan, out)


# ---------------------------------------------------------------- few elements of many terms
# The order is fixed, and with it the partial results that it combines: those are made by threads of their own.
@jit
def reduce_piece(t, arrays, state, given):
    """Partial result t % pieces of element t // pieces: a lane, a block, or a whole subtree of 2**level terms."""
    _, a, b, rows, columns, _, partial = arrays
    shape, n, (pieces, level), (order, block, kind, _), F, R, key, offset = given
    e, q = t // pieces, t % pieces
    i, j = line_numbers(e, rows, columns, shape)
    own = keys_of(key, offset + e, shape[2])
    neutral = ONE if kind == FACTOR else 0
    if order == LANES:
        s = sequential(a, b, i * n, j * n, q, n, LANE_COUNT, neutral, kind, F, R, own)
    elif order == BLOCKED:
        stop = min(n, (q + 1) * block)
        s = sequential(a, b, i * n, j * n, q * block, stop, 1, neutral, kind, F, R, own)
    else:
        first, stop = q << level, (q + 1) << level
        pairwise(a, b, i * n, j * n, first, stop, level, state, neutral, kind, F, R, own)
        s = state[level]
    partial[t] = s


@jit
def join_element(e, arrays, state, given):
    """Output element e of its partial results; of a tree, with the terms that no whole subtree took."""
    out, a, b, rows, columns, starts, partial = arrays
    shape, n, (pieces, level), (order, block, kind, finish), F, R, key, offset = given
    i, j = line_numbers(e, rows, columns, shape)
    own = keys_of(key, offset + e, shape[2])
    neutral = ONE if kind == FACTOR else 0
    first = starts[e] if starts.size > 0 else neutral
    begin(first, order, kind, state)
    for q in range(pieces):
        s = partial[e * pieces + q]
        if order == LANES:
            state[q] = s
        elif order == BLOCKED:
            state[1] = s
            if (q + 1) * block <= n:  # the last, shorter one is closed in the end
                close_block(state, q * block, neutral, kind, F, R, own)
        else:
            put(s, ((q + 1) << level) - 1, level, LEVELS, state, kind, F, R, own)
    if order == PAIRWISE:
        i, j = i * n, j * n
        pairwise(a, b, i, j, pieces << level, n, LEVELS, state, neutral, kind, F, R, own)
    deliver(e, out, state, first, starts.size > 0, n, (order, block, kind, finish), F, R, own)


def pieces_of(order, block, n, size):
    """(partial results of an element, level of the subtrees) for threads of their own; 0 if each element has one."""
    if size > FEW_ELEMENTS or n < LEAST_TERMS:
        return 0, 0
    if order == LANES:
        return LANE_COUNT, 0
    if order == BLOCKED and block < n:
        return -(-n // block), 0
    if order == PAIRWISE:
        level = n.bit_length() // 2  # as many subtrees as terms in each
        return n >> level, level
    return 0, 0


def run_elements(call, element, room, count, arrays, given):
    """Launch element(e, arrays, state, given) for each e; state : `room` words of memory of the thread's own."""
    from softfloat.cuda.kernels import launch, per_element_kernel

    if count:
        kernel = per_element_kernel(element, room)
        launch(kernel, count, call.stream, np.int64(count), arrays, given)


def define(call, out, a, b, rows, columns, shape, n, starts, kind, finish, how):
    """Launch the definition over a result of this shape (batches, rows, columns)."""
    _refuse(how)
    size = math.prod(shape)
    block = how.block or 1
    pieces, level = pieces_of(how.order, block, n, size)
    partial = call.cuda.device_array(max(1, size * pieces), np.int64, stream=call.stream)
    starts = call.upload(NO_BITS) if starts is None else starts
    lines = call.upload(rows), call.upload(columns)
    arrays = tuple(map(bare, (out, a, b, *lines, starts, partial)))
    extent = tuple(np.int64(x) for x in shape)
    choice = tuple(np.int64(x) for x in (how.order, block, kind, finish))
    F = tuple(tuple(np.int64(x) for x in record) for record in how.formats)
    R = tuple(bare(call.upload(rounding[:TALLY])) for rounding in how.roundings())
    parts = np.int64(pieces), np.int64(level)
    given = extent, np.int64(n), parts, choice, F, R, np.uint64(how.key), np.int64(how.offset)
    if pieces:
        run_elements(call, reduce_piece, STATE, size * pieces, arrays, given)
    element = join_element if pieces else reduce_element
    run_elements(call, element, STATE, size, arrays, given)


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
            flat = call.apart(call.owner.view(value, call.stream), target)
            product.add_up(call, flat, target, (outer, n, inner), how)
        return result
    a = gather(call, call.owner.view(value, call.stream), (outer, n, inner))
    if kind in (FACTOR, PLAIN):
        one = np.zeros(1, np.int64)
        define(call, target, a, a, one, one, (1, size, 1), n, None, kind, finish, how)
    else:  # rows times themselves
        rows = np.arange(size, dtype=np.int64)
        kind = EXACT if how.exact else ROUNDED
        define(call, target, a, a, rows, rows, (size, 1, 1), n, None, kind, finish, how)
    return result
