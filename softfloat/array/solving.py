"""Linear equations and factors of matrices: textbook algorithms, every operation of which rounds to the format.

Each element takes its updates in the order that its function states, so that the bits are defined; NumPy's come from
LAPACK and hang on its blocks. Stacks of matrices are worked on together, element by element as alone. What needs
eigenvalues or singular values is a TypeError: there is no short sequence of steps that defines them.

Source: Golub and Van Loan, Matrix Computations (2013); Higham, Accuracy and Stability (2002).
"""

import numpy as np

from softfloat.array.create import zeros
from softfloat.array.linear import vector_norm
from softfloat.array.numeric import _into, soft
from softfloat.array.registry import implements, unsupported
from softfloat.operands import Held

SOLVING = "linear equations"


def _matrices(a, name, square=True):
    """A SoftArray of matrices as a new stack (batch, rows, columns), and the shape of the batch."""
    if not isinstance(a, Held) or a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        raise np.linalg.LinAlgError(
            f"np.linalg.{name} takes {'square matrices' if square else 'matrices'} (of the last two axes), "
            f"got shape {np.shape(a)}"
        )
    return a.reshape(-1, *a.shape[-2:], order="C").copy(), a.shape[:-2]


def _factored(a):
    """(L and U of each matrix in one, its rows in their new order, whether their number of swaps is odd).

    Elimination with the first largest pivot of a column: for k in order, each row below takes l = a / pivot, then
    a - l * u, so that every element is its value less products in the order of k.
    """
    count, n = a.shape[:2]
    each = np.arange(count)
    rows = np.tile(np.arange(n), (count, 1))
    odd = np.zeros(count, bool)
    for k in range(n):
        chosen = k + np.argmax(np.abs(a[:, k:, k]), axis=1)
        odd ^= chosen != k
        swap = a[each, chosen], a[:, k].copy()
        a[:, k], a[each, chosen] = swap
        rows[each, chosen], rows[:, k] = rows[:, k].copy(), rows[each, chosen].copy()
        # A column of zeros stays: there is nothing to divide by.
        live = a[:, k, k] != 0
        if k + 1 < n and live.any():
            lower = a[live, k + 1 :, k] / a[live, k, k][:, None]
            a[live, k + 1 :, k] = lower
            update = lower[:, :, None] * a[live, k, k + 1 :][:, None, :]
            a[live, k + 1 :, k + 1 :] = a[live, k + 1 :, k + 1 :] - update
    return a, rows, odd


def _solved(factors, rows, b):
    """x of L U x = b, columns side by side: forward with k upward, back with k downward, dividing by the pivot."""
    n = factors.shape[1]
    x = np.take_along_axis(b, rows[:, :, None], axis=1)
    for k in range(n):
        x[:, k + 1 :] = x[:, k + 1 :] - factors[:, k + 1 :, k, None] * x[:, None, k]
    for k in reversed(range(n)):
        x[:, k] = x[:, k] / factors[:, k, k, None]
        x[:, :k] = x[:, :k] - factors[:, :k, k, None] * x[:, None, k]
    return x


def _regular(factors):
    if (np.diagonal(factors, axis1=1, axis2=2) == 0).any():
        raise np.linalg.LinAlgError("Singular matrix: a pivot is zero in the format")
    return factors


@implements(np.linalg.solve, section=SOLVING)
def solve(a, b):
    """LU with the first largest pivot, l = a / pivot, a - l * u; b - l * x, k up; (b - u * x) / pivot, k down"""
    a, b = soft(a, b), soft(b, a)
    stack, batch = _matrices(a, "solve")
    vector = b.ndim == 1
    right = b[:, None] if vector else b
    if right.shape[-2] != stack.shape[-1]:
        raise ValueError(f"np.linalg.solve: shapes {a.shape} and {b.shape} do not fit")
    batch = np.broadcast_shapes(batch, right.shape[:-2])
    stack = np.broadcast_to(a, batch + a.shape[-2:]).reshape(-1, *a.shape[-2:]).copy()
    right = np.broadcast_to(right, batch + right.shape[-2:])
    factors, rows, _ = _factored(stack)
    x = _solved(_regular(factors), rows, right.reshape(-1, *right.shape[-2:]))
    x = x.reshape(right.shape)
    return x[..., 0] if vector else x


@implements(np.linalg.inv, section=SOLVING)
def inv(a):
    """as np.linalg.solve(a, eye(n))"""
    factors, rows, _ = _factored(_matrices(a, "inv")[0])
    one = zeros(factors.shape, a._format)
    one[:, np.arange(a.shape[-1]), np.arange(a.shape[-1])] = 1
    return _solved(_regular(factors), rows, one).reshape(a.shape)


def _pivots(a, name):
    stack, batch = _matrices(a, name)
    factors, _, odd = _factored(stack)
    return np.diagonal(factors, axis1=1, axis2=2), odd, batch


@implements(np.linalg.det, section=SOLVING)
def det(a):
    """the pivots of np.linalg.solve as np.prod takes them, then the sign of the row swaps"""
    pivots, odd, batch = _pivots(a, "det")
    product = np.prod(pivots, axis=1)
    return np.where(odd, -product, product).reshape(batch)


@implements(np.linalg.slogdet, section=SOLVING)
def slogdet(a):
    """sign and sum of the logarithms of |pivot| as np.sum takes them, each rounded"""
    pivots, odd, batch = _pivots(a, "slogdet")
    sign = np.prod(np.sign(pivots), axis=1)
    sign = np.where(sign == 0, 0, np.where(odd, -sign, sign)).reshape(batch)
    result = type(np.linalg.slogdet(np.eye(1)))
    return result(sign, np.sum(np.log(np.abs(pivots)), axis=1).reshape(batch))


@implements(np.linalg.cholesky, section=SOLVING)
def cholesky(a, /, *, upper=False):
    """a[i, j] - l[i, k] * l[j, k] with k upward, then sqrt on the diagonal and / l[j, j] below, each step rounded"""
    a = np.swapaxes(a, -1, -2) if upper else a
    work, _ = _matrices(a, "cholesky")
    n = work.shape[1]
    for j in range(n):
        pivot = np.sqrt(work[:, j, j])
        if not (pivot > 0).all():
            raise np.linalg.LinAlgError("Matrix is not positive definite in the format")
        work[:, j, j] = pivot
        work[:, j + 1 :, j] = work[:, j + 1 :, j] / pivot[:, None]
        below = work[:, j + 1 :, j]
        work[:, j + 1 :, j + 1 :] = (
            work[:, j + 1 :, j + 1 :] - below[:, :, None] * below[:, None, :]
        )
    lower = np.tril(work).reshape(a.shape)
    return np.swapaxes(lower, -1, -2) if upper else lower


@implements(np.linalg.qr, section=SOLVING)
def qr(a, mode="reduced"):
    """Householder: v = x, v[0] + sign * norm(x); t = (v @ y) / (v @ v) * 2; y - v * t; Q from the last v to the first

    The norm is np.linalg.norm's, v @ y and v @ v are sums of rounded products from +0, in order.
    """
    if mode not in ("reduced", "complete", "r"):
        raise unsupported("np.linalg.qr", f'mode={mode!r}; there are "reduced", "complete" and "r"')
    r, batch = _matrices(a, "qr", square=False)
    count, m, n = r.shape
    steps = min(m - 1, n) if m else 0
    vectors = []
    for k in range(steps):
        v = r[:, k:, k].copy()
        size = vector_norm(v, axis=1)
        v[:, 0] = v[:, 0] + np.copysign(size, v[:, 0])
        vectors.append(v)
        diagonal = -np.copysign(size, r[:, k, k])
        _reflect(v, r[:, k:, k + 1 :])
        r[:, k, k], r[:, k + 1 :, k] = diagonal, 0
    size = m if mode == "complete" else min(m, n)
    upper = np.triu(r[:, :size]).reshape(*batch, size, n)
    if mode == "r":
        return upper
    q = zeros((count, m, size), a._format)
    q[:, np.arange(size), np.arange(size)] = 1
    for k in reversed(range(steps)):
        _reflect(vectors[k], q[:, k:, k:])
    return type(np.linalg.qr(np.eye(1)))(q.reshape(*batch, m, size), upper)


def _reflect(v, y):
    """Reflect the columns of y, in place, in the planes across v; a zero v leaves them."""
    square = np.vecdot(v, v)
    live = square != 0
    if not (live.any() and y.size):
        return
    v, part = v[live], y[live]
    t = (v[:, None, :] @ part)[:, 0, :] / square[live][:, None] * 2
    y[live] = part - v[:, :, None] * t[:, None, :]


@implements(np.linalg.multi_dot, section=SOLVING)
def multi_dot(arrays, *, out=None):
    """the products from left to right, as the operator @"""
    if len(arrays) < 2:
        raise ValueError(f"np.linalg.multi_dot takes two or more arrays, got {len(arrays)}")
    result = arrays[0]
    for x in arrays[1:]:
        result = result @ x
    return _into(out, result)


@implements(np.linalg.cond, section=SOLVING)
def cond(x, p=None):
    """norm(x) * norm(inv(x)), for p = 1, -1, inf, -inf and "fro\""""
    if p not in (1, -1, np.inf, -np.inf, "fro"):
        raise unsupported(
            "np.linalg.cond", f"p={p!r} needs singular values; there are 1, -1, inf, -inf and 'fro'"
        )
    return np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(inv(x), p, (-2, -1))


__all__ = ["SOLVING"]
