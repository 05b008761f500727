"""NumPy's products of arrays: every product and every sum is rounded, the contracted index in order, from +0."""

import math
import string

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from softfloat import contractions, products, reductions
from softfloat.array.mixing import common_format, leaves, operand
from softfloat.array.numeric import soft, sum_
from softfloat.array.registry import implements, unsupported
from softfloat.array.ufuncs import EXACT, call, delivered, rows_of
from softfloat.context import operation_options
from softfloat.operands import held, hold

PRODUCTS = "products"
LETTERS = string.ascii_letters  # what NumPy makes of the indices of einsum


def _pair(a, b, out=None):
    fmt = common_format([a, b, out])
    return operand(a, fmt), operand(b, fmt), fmt


def _result(values, fmt, out=None):
    return delivered(np.asarray(values), EXACT, fmt, out)


@implements(np.dot, section=PRODUCTS)
def dot(a, b, out=None):
    """sum from +0 over the last axis of a and the last but one of b; beside a scalar sums of one product"""
    first, second, fmt = _pair(a, b, out)
    return _result(products.dot(first, second, fmt, **operation_options()), fmt, out)


@implements(np.vdot, section=PRODUCTS)
def vdot(a, b, /):
    """sum over all elements in C order"""
    first, second, fmt = _pair(a, b)
    return _result(products.vdot(first, second, fmt, **operation_options()), fmt)


@implements(np.inner, section=PRODUCTS)
def inner(a, b, /):
    """as softfloat.inner: sum from +0 over the last axes"""
    first, second, fmt = _pair(a, b)
    return _result(contractions.inner(first, second, fmt, **operation_options()), fmt)


@implements(np.outer, section=PRODUCTS)
def outer(a, b, out=None):
    """a[i] * b[j], rounded; -0 stays, as in np.multiply, where softfloat.outer has sums from +0"""
    first, second, fmt = _pair(a, b, out)
    result = call(np.multiply, (hold(first.reshape(-1, 1), fmt), hold(second.reshape(1, -1), fmt)))
    return _result(result._values, fmt, out)


implements(np.linalg.outer, section=PRODUCTS)(outer)


@implements(np.tensordot, np.linalg.tensordot, section=PRODUCTS)
def tensordot(a, b, axes=2):
    """as softfloat.tensordot: sum from +0 over the named axes, in C order of those of a as they are named"""
    first, second, fmt = _pair(a, b)
    return _result(contractions.tensordot(first, second, fmt, axes, **operation_options()), fmt)


@implements(np.linalg.matmul, section=PRODUCTS)
def matmul(x1, x2, /):
    """as the operator @"""
    return call(np.matmul, (x1, x2))


@implements(np.linalg.vecdot, section=PRODUCTS)
def vecdot(x1, x2, /, *, axis=-1):
    """sum over an axis of both"""
    return np.vecdot(x1, x2, axis=axis)


@implements(np.kron, section=PRODUCTS)
def kron(a, b):
    """a[i] * b[j], rounded"""
    a, b = soft(a, b), soft(b, a)
    n = max(a.ndim, b.ndim)
    first = a.reshape((1,) * (n - a.ndim) + a.shape)
    second = b.reshape((1,) * (n - b.ndim) + b.shape)
    spread = [s for i in first.shape for s in (i, 1)], [s for i in second.shape for s in (1, i)]
    shape = [i * j for i, j in zip(first.shape, second.shape, strict=True)]
    return (first.reshape(spread[0]) * second.reshape(spread[1])).reshape(shape)


@implements(np.cross, section=PRODUCTS)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """a1 * b2 - a2 * b1 and so on: two products and a difference, rounded"""
    axisa, axisb, axisc = (axis,) * 3 if axis is not None else (axisa, axisb, axisc)
    a, b = np.moveaxis(soft(a, b), axisa, -1), np.moveaxis(soft(b, a), axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(
            f"np.cross takes vectors of three elements, got shapes {a.shape} and {b.shape}"
        )
    pairs = ((1, 2), (2, 0), (0, 1))
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in pairs]
    return np.stack(parts, axis=axisc)


@implements(np.linalg.cross, section=PRODUCTS)
def linalg_cross(x1, x2, /, *, axis=-1):
    """as np.cross"""
    return cross(x1, x2, axis=axis)


@implements(np.trace, section=PRODUCTS)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """sum of the diagonal as np.sum"""
    return sum_(np.diagonal(a, offset, axis1, axis2), -1, dtype, out)


@implements(np.linalg.trace, section=PRODUCTS)
def linalg_trace(x, /, *, offset=0, dtype=None):
    """sum of the diagonal as np.sum"""
    return trace(x, offset, -2, -1, dtype)


@implements(np.linalg.matrix_power, section=PRODUCTS)
def matrix_power(a, n):
    """n matrix products: a @ a for 2, (a @ a) @ a for 3, else by squaring, low bits first; below 0, of the inverse"""
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 0:
        return np.broadcast_to(
            np.full_like(a, np.eye(a.shape[-1]), shape=a.shape[-2:]), a.shape
        ).copy()
    if n <= 3:
        return a.copy() if n == 1 else a @ a if n == 2 else (a @ a) @ a
    square, result = None, None
    while n > 0:
        square = a if square is None else square @ square
        n, bit = divmod(n, 2)
        if bit:
            result = square if result is None else result @ square
    return result


# ---------------------------------------------------------------- norms
@implements(np.linalg.norm, section=PRODUCTS)
def norm(x, ord=None, axis=None, keepdims=False):
    """sqrt(sum of x * x), each step rounded; 1 and inf norms by np.sum and np.max of |x|; not the 2-norm of matrices"""
    if axis is None and (
        ord is None or (ord in ("fro", "f") and x.ndim == 2) or (ord == 2 and x.ndim == 1)
    ):
        values = reductions.norm(x._values.ravel("K"), x._format, **operation_options())
        result = hold(np.asarray(values), x._format)
        return result.reshape((1,) * x.ndim) if keepdims else result
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(f"a norm is over one or two axes, got axis={axis} for shape {x.shape}")


def _vector_norm(x, ord, axis, keepdims):
    size = np.abs(x)
    if ord is None or ord == 2:
        values = reductions.norm(
            x._values, x._format, axis=axis, keepdims=keepdims, **operation_options()
        )
        return hold(np.asarray(values), x._format)
    if ord == math.inf:
        return _largest(size, axis, keepdims)
    if ord == -math.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        ones = np.where(x != 0, np.ones_like(x), 0)
        return np.sum(ones, axis=axis, keepdims=keepdims)
    raise unsupported("np.linalg.norm", f"ord={ord!r} needs powers")


def _largest(sizes, axis, keepdims):
    """The largest of sizes, zero of none."""
    initial = {} if sizes.shape[axis] else {"initial": 0}
    return np.max(sizes, axis=axis, keepdims=keepdims, **initial)


def _matrix_norm(x, ord, axes, keepdims):
    if ord in (None, "fro", "f"):
        values = reductions.norm(
            x._values, x._format, axis=axes, keepdims=keepdims, **operation_options()
        )
        return hold(np.asarray(values), x._format)
    if ord not in (1, -1, math.inf, -math.inf):
        raise unsupported("np.linalg.norm", f"ord={ord!r} of a matrix needs its singular values")
    rows, columns = normalize_axis_tuple(axes, x.ndim)
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = np.sum(np.abs(x), axis=summed, keepdims=True)
    result = _largest(sums, other, True) if ord > 0 else np.min(sums, axis=other, keepdims=True)
    return result if keepdims else np.squeeze(result, axis=(rows, columns))


@implements(np.linalg.vector_norm, section=PRODUCTS)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """as np.linalg.norm of vectors; over all elements in C order without axis"""
    if axis is None or isinstance(axis, tuple):
        rows, shape = rows_of(x._values, axis, keepdims)
        return _vector_norm(hold(rows, x._format), ord, -1, False).reshape(shape)
    return _vector_norm(x, ord, axis, keepdims)


@implements(np.linalg.matrix_norm, section=PRODUCTS)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """as np.linalg.norm of the last two axes"""
    return _matrix_norm(x, ord, (-2, -1), keepdims)


# ---------------------------------------------------------------- contractions
@implements(np.einsum, section=PRODUCTS)
def einsum(*operands, out=None, optimize=False, **options):
    """as softfloat.einsum: sums from +0, indices as they appear; operands left to right, whatever optimize= says

    Each pair of operands is contracted and rounded. One operand of which nothing is summed: a view.
    """
    if options:
        raise TypeError(f"np.einsum on SoftArrays takes no {next(iter(options))}=")
    if not operands:
        raise ValueError("np.einsum needs subscripts and operands, got nothing")
    text, *arrays = operands if isinstance(operands[0], str) else _from_lists(operands)
    fmt = common_format([*leaves(arrays), out])
    values = [operand(x, fmt) for x in arrays]
    if len(values) == 1 and _only_moves(text):
        moved = np.einsum(text, values[0])
        return held(moved, fmt) if out is None else _result(moved, fmt, out)
    # Each product has a stream of its own, so each counts as an operation of the block.
    streams = [operation_options() for _ in range(max(len(values) - 1, 1))]
    return _result(contractions.einsum(text, *values, fmt=fmt, **streams[0]), fmt, out)


def _only_moves(text):
    """Whether subscripts of one operand sum over no index."""
    letters, arrow, result = "".join(text.replace("...", "").split()).partition("->")
    if arrow:
        return set(letters) <= set(result)
    return len(set(letters)) == len(letters)


def _from_lists(operands):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as index strings."""

    def spelled(indices):
        if any(i is not Ellipsis and not 0 <= i < len(LETTERS) for i in indices):
            raise ValueError(
                f"np.einsum: indices must be in 0..{len(LETTERS) - 1}, got {list(indices)}"
            )
        return "".join("..." if i is Ellipsis else LETTERS[i] for i in indices)

    pairs = len(operands) // 2
    arrays = operands[: 2 * pairs : 2]
    text = ",".join(spelled(i) for i in operands[1 : 2 * pairs : 2])
    if len(operands) % 2:
        text += "->" + spelled(operands[-1])
    return text, *arrays
