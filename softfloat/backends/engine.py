"""Matrix products as matrix engines form them: the definition, one element after the other."""

import numpy as np

from softfloat._jit import jit
from softfloat.backends.threads import run_chunks
from softfloat.ops.engine import STEP, engine_dot, workspace

TERMS_AT_ONCE = 1 << 20  # products of the definition between two looks at Ctrl-C


@jit
def define_elements(a, b, n, elements, columns, c, order, P, F, out):
    """Elements row * columns + column of the result into out, all bits of float64 numbers.

    a, b : rows of n numbers.   c : initial values of the elements.
    """
    work = workspace(P[STEP])
    for e in range(elements.size):
        i, j = elements[e] // columns, elements[e] % columns
        out[e] = engine_dot(a, b, i, j, n, c[e], order, P, F, work)


def _bits(x):
    """Values as a flat array of float64 bits, in C order."""
    return np.ascontiguousarray(x, np.float64).reshape(-1).view(np.int64)


def define(P, order, records, a, b, elements, c):
    """Elements of a @ b, by the definition, as float64 values."""
    n, columns = b.shape
    left, right, start = _bits(a), _bits(b.T), _bits(c)
    out = np.empty(elements.size)
    target = out.view(np.int64)

    def task(first, stop):
        part = slice(first, stop)
        define_elements(
            left, right, n, elements[part], columns, start[part], order, P, records, target[part]
        )

    if elements.size:
        run_chunks(task, elements.size, max(1, TERMS_AT_ONCE // max(n, 1)))
    return out


def engine_product(P, order, records, a, b, c):
    """c + a @ b for matrices of values in their carriers, as the engine described by P, order and records forms it."""
    elements = np.arange(c.size)
    found = define(P, order, records, a, b, elements, c)
    with np.errstate(all="ignore"):
        return found.astype(c.dtype).reshape(c.shape)
