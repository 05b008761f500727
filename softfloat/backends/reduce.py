"""Loops of the definitions of sums and products: one output element after the other, any format, any rounding.

What they write is the `outcome` of an element, as softfloat.ops.reduce says.
"""

import numpy as np

from softfloat._jit import jit
from softfloat.ops.reduce import (
    AT_RESULT,
    AT_TERM,
    FACTOR,
    ONE,
    PLACES,
    STATE,
    TO_ACCUMULATOR,
    TO_RESULT,
    accumulate,
    advance,
    begin,
    convert,
    divide_by_count,
    end,
    keys_of,
    outcome,
    sqrt,
    term,
    word_of,
)

# What is done to the accumulator in the end: rounded to the result's format as it is, over the number of terms, or
# its square root.
AS_IT_IS, MEAN, ROOT = range(3)


@jit
def reduce_loop(
    a, b, rows, columns, shape, n, starts, order, block, kind, finish, F, R, key, offset, out, first
):
    """Output elements first, first + 1, ... into out, all bits of float64 numbers.

    Element (batch, i, j) of the shape (batches, I, J) is made of row rows[batch] * I + i of a and row
    columns[batch] * J + j of b, each of n numbers.  starts : initial values, or empty.
    """
    state = np.empty(STATE, np.int64)
    for e in range(out.size):
        reduce_part(
            a, b, rows, columns, shape, n, starts, order, block, kind, finish, F, R, key, offset,
            out[e : e + 1], first + e, 0, n, state,
        )  # fmt: skip


@jit
def reduce_part(
    a, b, rows, columns, shape, n, starts, order, block, kind, finish, F, R, key, offset, out,
    index, first, stop, state,
):  # fmt: skip
    """The terms first to stop of n of one output element; the last part writes it. state : what is under way."""
    batch = index // (shape[1] * shape[2])
    i = rows[batch] * shape[1] + index // shape[2] % shape[1]
    j = columns[batch] * shape[2] + index % shape[2]
    given = starts.size > 0
    start = starts[index] if given else (ONE if kind == FACTOR else 0)
    own = keys_of(key, offset + index, shape[2])
    if first == 0:
        begin(start, order, kind, state)
    advance(a, b, i * n, j * n, first, stop, order, block, kind, state, F, R, own)
    if stop == n:
        s = end(n, start, given, order, block, kind, state, F, R, own)
        out[0] = outcome(finished(s, n, finish, F, R, own), R)


@jit
def finished(s, n, finish, F, R, key):
    """The result of an accumulator s over n terms, for the element with this key."""
    word = word_of(R[TO_RESULT], key, AT_RESULT)
    if finish == MEAN:
        return divide_by_count(s, n, F[TO_RESULT], R[TO_RESULT], word)
    if finish == ROOT:
        return sqrt(s, F[TO_RESULT], R[TO_RESULT], word)
    return convert(s, F[TO_RESULT], R[TO_RESULT], word)


@jit
def finish_loop(sums, n, finish, F, R, key, offset, out, first):
    """Results number first, first + 1, ... of accumulators, all bits of float64 numbers."""
    for e in range(out.size):
        own = keys_of(key, offset + first + e, 1)
        out[e] = outcome(finished(sums[first + e], n, finish, F, R, own), R)


@jit
def cumulative_loop(a, n, kind, F, R, key, offset, out, row, first, s):
    """Running totals of numbers first, first + 1, ... of a row of n, all bits of float64, from s; returns the last."""
    own = keys_of(key, offset + row, 1)
    for k in range(first, first + out.size):
        u, v = term(a, a, row * n + k, 0, k, kind, F, R, own)
        word = word_of(R[TO_ACCUMULATOR], own, PLACES * k + AT_TERM)
        s = accumulate(s, u, v, kind, F[TO_ACCUMULATOR], R[TO_ACCUMULATOR], word)
        word = word_of(R[TO_RESULT], own, PLACES * k + AT_RESULT)
        out[k - first] = outcome(convert(s, F[TO_RESULT], R[TO_RESULT], word), R)
    return s
