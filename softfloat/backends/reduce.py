"""Loops of the definitions of sums and products: one output element after the other, any format, any rounding."""

from softfloat._jit import jit
from softfloat.ops.reduce import (
    AT_RESULT,
    AT_TERM,
    FACTOR,
    ONE,
    PLACES,
    TO_ACCUMULATOR,
    TO_RESULT,
    accumulate,
    convert,
    divide_by_count,
    keys_of,
    reduce_terms,
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
    for e in range(out.size):
        index = first + e
        batch = index // (shape[1] * shape[2])
        i = rows[batch] * shape[1] + index // shape[2] % shape[1]
        j = columns[batch] * shape[2] + index % shape[2]
        given = starts.size > 0
        start = starts[index] if given else (ONE if kind == FACTOR else 0)
        own = keys_of(key, offset + index, shape[2])
        s = reduce_terms(a, b, i * n, j * n, n, start, given, order, block, kind, F, R, own)
        word = word_of(R[TO_RESULT], own, AT_RESULT)
        if finish == MEAN:
            out[e] = divide_by_count(s, n, F[TO_RESULT], R[TO_RESULT], word)
        elif finish == ROOT:
            out[e] = sqrt(s, F[TO_RESULT], R[TO_RESULT], word)
        else:
            out[e] = convert(s, F[TO_RESULT], R[TO_RESULT], word)


@jit
def cumulative_loop(a, n, kind, F, R, key, offset, out, first):
    """Running totals of rows of n numbers, all bits of float64; out holds whole rows, from row `first`.

    Row r uses the key of element r.
    """
    for row in range(out.size // n):
        number = first + row
        own = keys_of(key, offset + number, 1)
        s = ONE if kind == FACTOR else 0
        for k in range(n):
            u, v = term(a, a, number * n + k, 0, k, kind, F, R, own)
            word = word_of(R[TO_ACCUMULATOR], own, PLACES * k + AT_TERM)
            s = accumulate(s, u, v, kind, F[TO_ACCUMULATOR], R[TO_ACCUMULATOR], word)
            word = word_of(R[TO_RESULT], own, PLACES * k + AT_RESULT)
            out[row * n + k] = convert(s, F[TO_RESULT], R[TO_RESULT], word)
