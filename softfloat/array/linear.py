"""NumPy's products of arrays: every product and every sum is rounded, the contracted index in order, from +0."""

import math

import numpy as np

from softfloat import functional, reductions
from softfloat.array.mixing import common_format, leaves, operand
from softfloat.array.numeric import soft, sum_
from softfloat.array.registry import implements, unsupported
from softfloat.array.ufuncs import call, rows_of
from softfloat.context import operation_options
from softfloat.operands import Held, hold

PRODUCTS = "products"


def _pair(a, b, out=None):
    fmt = common_format([a, b, out])
    return operand(a, fmt), operand(b, fmt), fmt


def _delivered(values, fmt, out):
    result = hold(np.asarray(values), fmt)
    if out is None:
        return result
    if not isinstance(out, Held) or out.shape != result.shape:
        raise TypeError(f"out= must be a SoftArray of shape {result.shape}")
    out[...] = result
    return out


@implements(np.dot, section=PRODUCTS)
def dot(a, b, out=None):
    """sum over the last axis of a and the last but one of b; a scalar operand only multiplies"""
    first, second, fmt = _pair(a, b, out)
    if first.ndim == 0 or second.ndim == 0:
        return _delivered(functional.multiply(first, second, fmt, **operation_options()), fmt, out)
    return _delivered(reductions.dot(first, second, fmt, **operation_options()), fmt, out)


@implements(np.vdot, section=PRODUCTS)
def vdot(a, b, /):
    """sum over all elements in C order"""
    first, second, fmt = _pair(a, b)
    return _delivered(reductions.vdot(first, second, fmt, **operation_options()), fmt, None)


@implements(np.inner, section=PRODUCTS)
def inner(a, b, /):
    """sum over the last axes"""
    first, second, fmt = _pair(a, b)
    if first.ndim == 0 or second.ndim == 0:
        return call(np.multiply, (a, b))
    return np.tensordot(hold(first, fmt), hold(second, fmt), axes=(-1, -1))


@implements(np.outer, section=PRODUCTS)
def outer(a, b, out=None):
    """a[i] * b[j], rounded"""
    first, second, fmt = _pair(a, b, out)
    result = hold(first.reshape(-1, 1), fmt) * hold(second.reshape(1, -1), fmt)
    return _delivered(result._values, fmt, out)


implements(np.linalg.outer, section=PRODUCTS)(outer)


@implements(np.tensordot, np.linalg.tensordot, section=PRODUCTS)
def tensordot(a, b, axes=2):
    """sum over the named axes, in C order of those of a"""
    first, second, fmt = _pair(a, b)
    if isinstance(axes, (int, np.integer)):
        left, right = range(first.ndim - axes, first.ndim), range(axes)
    else:
        left, right = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
    left, right = [i % first.ndim for i in left], [i % second.ndim for i in right]
    if [first.shape[i] for i in left] != [second.shape[i] for i in right]:
        raise ValueError(
            f"tensordot: shapes {first.shape} and {second.shape} do not fit along {axes}"
        )
    rows = [i for i in range(first.ndim) if i not in left]
    columns = [i for i in range(second.ndim) if i not in right]
    n = math.prod(first.shape[i] for i in left)
    shape = [first.shape[i] for i in rows] + [second.shape[i] for i in columns]
    first = (
        first.transpose(rows + left).reshape(-1, n)
        if n
        else np.zeros((math.prod(shape[: len(rows)]), 0))
    )
    second = (
        second.transpose(right + columns).reshape(n, -1)
        if n
        else np.zeros((0, math.prod(shape[len(rows) :])))
    )
    result = reductions.matmul(first, second, fmt, **operation_options())
    return hold(np.asarray(result).reshape(shape), fmt)


@implements(np.linalg.matmul, section=PRODUCTS)
def matmul(x1, x2, /):
    """as the operator @"""
    return call(np.matmul, (x1, x2))


@implements(np.linalg.vecdot, section=PRODUCTS)
def vecdot(x1, x2, /, *, axis=-1):
    """sum over an axis of both"""
    x1, x2 = soft(x1, x2), soft(x2, x1)
    return call(np.vecdot, (np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)))


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
    """n matrix products: a @ a for 2, (a @ a) @ a for 3, else by squaring, low bits first"""
    if n < 0:
        raise unsupported("np.linalg.matrix_power", "negative powers need an inverse")
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
        return np.max(size, axis=axis, keepdims=keepdims)
    if ord == -math.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        ones = np.where(x != 0, np.ones_like(x), 0)
        return np.sum(ones, axis=axis, keepdims=keepdims)
    raise unsupported("np.linalg.norm", f"ord={ord!r} needs powers")


def _matrix_norm(x, ord, axes, keepdims):
    if ord in (None, "fro", "f"):
        values = reductions.norm(
            x._values, x._format, axis=axes, keepdims=keepdims, **operation_options()
        )
        return hold(np.asarray(values), x._format)
    if ord not in (1, -1, math.inf, -math.inf):
        raise unsupported("np.linalg.norm", f"ord={ord!r} of a matrix needs its singular values")
    rows, columns = (i % x.ndim for i in axes)
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = np.sum(np.abs(x), axis=summed, keepdims=True)
    result = (np.max if ord > 0 else np.min)(sums, axis=other, keepdims=True)
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


# ---------------------------------------------------------------- einsum
@implements(np.einsum, section=PRODUCTS)
def einsum(*operands, out=None, optimize=False, **options):
    """products of the operands left to right, then the sum over the other indices as they appear, each rounded"""
    if options:
        raise TypeError(f"np.einsum on SoftArrays takes no {next(iter(options))}=")
    terms, result, arrays = _parsed(operands)
    fmt = common_format([*leaves(arrays), out])
    values = []
    for term, x in zip(terms, arrays, strict=True):
        single = "".join(dict.fromkeys(term))
        taken = operand(x, fmt)
        # A repeated index takes a diagonal, which copies elements only.
        values.append(taken if single == term else np.einsum(f"{term}->{single}", taken))
    terms = ["".join(dict.fromkeys(term)) for term in terms]
    return _delivered(_contracted(terms, values, result, fmt), fmt, out)


def _contracted(terms, values, result, fmt):
    summed = [c for c in dict.fromkeys("".join(terms)) if c not in result]
    sizes = {}
    for term, v in zip(terms, values, strict=True):
        for c, size in zip(term, v.shape, strict=True):
            if sizes.setdefault(c, size) != size and 1 not in (size, sizes[c]):
                raise ValueError(f"einsum: index {c!r} has sizes {sizes[c]} and {size}")
            sizes[c] = max(size, sizes[c])
    if len(terms) == 2 and summed and all(c in terms[0] and c in terms[1] for c in summed):
        return _as_matrices(terms, values, result, summed, sizes, fmt)
    every = [*result, *summed]
    product = None
    for term, v in zip(terms, values, strict=True):
        axes = sorted(range(len(term)), key=lambda i, term=term: every.index(term[i]))
        spread = v.transpose(axes).reshape([sizes_of(c, term, v) for c in every])
        part = hold(np.atleast_1d(spread), fmt)
        product = part if product is None else product * part
    full = np.broadcast_to(product, [sizes[c] for c in every] or (1,))
    if not summed:
        return full._values.reshape([sizes[c] for c in result])
    total = np.sum(full, axis=tuple(range(len(result), len(every))))
    return total._values.reshape([sizes[c] for c in result])


def sizes_of(c, term, v):
    return v.shape[term.index(c)] if c in term else 1


def _as_matrices(terms, values, result, summed, sizes, fmt):
    """Two operands that share the summed indices: the same products and sums as a matrix product."""
    a, b = terms
    batch = [c for c in result if c in a and c in b]
    rows = [c for c in result if c in a and c not in b]
    columns = [c for c in result if c in b and c not in a]

    def matrix(v, term, *groups):
        v = np.broadcast_to(v, [sizes[c] for c in term])
        v = v.transpose([term.index(c) for group in groups for c in group])
        return v.reshape(
            [sizes[c] for c in batch] + [math.prod(sizes[c] for c in g) for g in groups[1:]]
        )

    product = reductions.matmul(
        matrix(values[0], a, batch, rows, summed),
        matrix(values[1], b, batch, summed, columns),
        fmt,
        **operation_options(),
    )
    order = [*batch, *rows, *columns]
    shaped = np.asarray(product).reshape([sizes[c] for c in order])
    return shaped.transpose([order.index(c) for c in result])


def _parsed(operands):
    """(index strings of the operands, that of the result, the operands)."""
    if not isinstance(operands[0], str):
        operands = _from_lists(operands)
    text, *arrays = operands
    text = text.replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"einsum: {text!r} names {len(terms)} operands, got {len(arrays)}")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in text]
    dims = [np.ndim(x) - len(t.replace("...", "")) for t, x in zip(terms, arrays, strict=True)]
    most = max([d for d, t in zip(dims, terms, strict=True) if "..." in t], default=0)
    terms = [
        t.replace("...", "".join(free[most - d : most])) if "..." in t else t
        for t, d in zip(terms, dims, strict=True)
    ]
    if arrow:
        result = result.replace("...", "".join(free[:most]))
    else:
        joined = "".join(terms)
        named = "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in free[:most])
        )
        result = "".join(free[:most]) + named
    for t, x in zip(terms, arrays, strict=True):
        if len(t) != np.ndim(x):
            raise ValueError(
                f"einsum: {t!r} names {len(t)} indices of an operand of {np.ndim(x)} dimensions"
            )
    if any(c not in "".join(terms) for c in result) or len(set(result)) < len(result):
        raise ValueError(f"einsum: {result!r} is no result of {text!r}")
    return terms, result, arrays


def _from_lists(operands):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as index strings."""
    letters = "abcdefghijklmnopqrstuvwxyz"

    def spelled(indices):
        return "".join("..." if i is Ellipsis else letters[i] for i in indices)

    pairs = len(operands) // 2
    arrays = operands[: 2 * pairs : 2]
    text = ",".join(spelled(i) for i in operands[1 : 2 * pairs : 2])
    if len(operands) % 2:
        text += "->" + spelled(operands[-1])
    return text, *arrays
