"""Matrix products and inner products with every rounding chosen.

Formats of the products, the accumulator and the result, the roundings and the order of the additions are arguments, as
in softfloat.reductions. softfloat.ops.reduce defines the orders and the random words; the vector kernels of
softfloat.backends.contract give the same bits where they apply.
"""

import math

import numpy as np

from softfloat import engines
from softfloat.backends.contract import compare_values, contract, fast_product
from softfloat.backends.reduce import AS_IT_IS
from softfloat.formats import as_format
from softfloat.functional import _carriers, _checked_out, quantize
from softfloat.operands import FLOAT32, Held, hold
from softfloat.ops.reduce import EXACT, ROUNDED, SEQUENTIAL
from softfloat.reductions import _DEFAULT, _NO_STARTS, _bits, _define, _deliver, _How, _values


def _shapes(a, b):
    """(batch shape, result shape) of a matrix product after NumPy's rules; a and b are at least 2-D."""
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: the inner sizes differ: a has shape {a.shape}, b has shape {b.shape}"
        )
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"matmul: batch shapes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast together"
        ) from None
    return batch, (*batch, a.shape[-2], b.shape[-1])


def _batches(shape, batch):
    """For each batch of the result, the number of the operand's batch."""
    if not batch:
        return np.zeros(1, np.int64)
    own = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(own, batch)).reshape(-1)


def matmul(
    a,
    b,
    fmt,
    *,
    product=_DEFAULT,
    accumulator=None,
    order="sequential",
    block=None,
    outer=None,
    fma=False,
    c=None,
    engine=None,
    out=None,
    product_rounding=None,
    result_rounding=None,
    **options,
):
    """Matrix product with every operation rounded; shapes as for np.matmul, batches included.

    a : (..., m, k) and b : (..., k, n) are taken as the exact numbers they are.   fmt : the result's format.
    product : the format of a product, by default the accumulator's; None (or fma=True) adds exact products, so that
        each step is rounded once.   accumulator : by default fmt.
    order, block, outer : of the sum over k, as for `sum`.   c : initial accumulator, of a shape that broadcasts to the
        result's; by default +0.
    engine : a softfloat.engines.Engine, which then says how products are formed and added: a and b hold values of its
        inputs, c of its accumulator, and what it gives is rounded to fmt, to nearest.
    options : rounding, saturate, seed, stream, offset, random_bits, variant as for `quantize`.
    Returns (..., m, n) values of fmt. Error bound of the default: |C - AB| <= gamma_k |A||B|, Higham (2002), ch. 3.
    Raises ValueError if the inner sizes differ or rounding is stochastic without a seed.
    """
    if engine is not None:
        _check_engine(
            engine,
            product=(product, _DEFAULT),
            accumulator=(accumulator, None),
            order=(order, "sequential"),
            block=(block, None),
            outer=(outer, None),
            fma=(fma, False),
            product_rounding=(product_rounding, None),
            result_rounding=(result_rounding, None),
            **{name: (True, None) for name in options},
        )
    if fma:
        if product is not _DEFAULT and product is not None:
            raise ValueError("fma=True adds exact products; leave product= out")
        product = None
    how = _How(
        fmt, accumulator, product, order, block, outer, product_rounding, result_rounding, options
    )
    first, dtypes = _values(a, "a")
    second, more = _values(b, "b")
    if not first.ndim or not second.ndim:
        raise ValueError(
            f"matmul takes arrays of one or more dimensions, got shapes {first.shape} and {second.shape}"
        )
    left = first[None, :] if first.ndim == 1 else first
    right = second[:, None] if second.ndim == 1 else second
    batch, full = _shapes(left, right)
    shape = full if first.ndim > 1 else full[:-2] + full[-1:]
    shape = shape if second.ndim > 1 else shape[:-1]
    initial = None if c is None else _initial(c, shape, full)
    if engine is None:
        wide = _product(left, right, initial, batch, full, how)
    else:
        batches = _batches(left.shape[:-2], batch), _batches(right.shape[:-2], batch)
        found = engines.product(engine, (a, left), (b, right), initial, *batches)
        wide = np.asarray(quantize(found.reshape(full), how.result))
    result = _deliver(wide, shape, how, dtypes + more, out)
    soft = isinstance(a, Held) or isinstance(b, Held)
    return hold(result, how.result) if soft and out is None else result


def _check_engine(engine, **given):
    """ValueError where an option says what the engine says already."""
    if not isinstance(engine, engines.Engine):
        raise TypeError(
            f"engine must be an Engine, such as softfloat.engines.h100_fp8, got {engine!r}"
        )
    for name, (value, default) in given.items():
        if value is not default and value != default:
            raise ValueError(
                f"{name}= does not go with engine=, which says how to multiply and add; change the engine with "
                "dataclasses.replace, or leave one of them out"
            )


def _initial(c, shape, full):
    value, _ = _values(c, "c")
    try:
        return np.broadcast_to(value, shape).reshape(full)
    except ValueError:
        raise ValueError(
            f"c of shape {value.shape} does not broadcast to the result's shape {shape}"
        ) from None


def _product(a, b, c, batch, full, how):
    """All elements of a matrix product of at least 2-D operands."""
    rows, columns = _batches(a.shape[:-2], batch), _batches(b.shape[:-2], batch)
    plain = how.plain if how.order == SEQUENTIAL and not how.exact else None
    fast = fast_product(plain) if plain is not None else None
    if fast is not None:
        found = _fast_product(fast, a, b, c, rows, columns, full)
        if found is not None:
            return found
    starts = _NO_STARTS if c is None else _bits(c)
    kind = EXACT if how.exact else ROUNDED
    transposed = _bits(np.swapaxes(b, -1, -2))
    extent = (math.prod(batch), full[-2], full[-1])
    return _define(
        _bits(a), transposed, rows, columns, extent, a.shape[-1], starts, kind, AS_IT_IS, how
    )


def _narrow(value, fmt):
    """The values as contiguous float32 numbers, NaNs canonical, if all are values of the format, else None."""
    if value.dtype == FLOAT32:
        narrow = np.ascontiguousarray(value)
    else:
        with np.errstate(all="ignore"):
            narrow = np.ascontiguousarray(value, FLOAT32)
            if not np.array_equal(narrow, value, equal_nan=True):
                return None
    flat = narrow.reshape(-1)
    same, has_nan = compare_values(flat, quantize(flat, fmt))
    if not same:
        return None
    return np.where(np.isnan(narrow), FLOAT32.type(np.nan), narrow) if has_nan else narrow


def _fast_product(fast, a, b, c, rows, columns, full):
    """As `_product` by the vector kernels, or None where an operand is not a value of the format."""
    left, right = _narrow(a, fast.fmt), _narrow(b, fast.fmt)
    start = None if c is None else _narrow(c, fast.fmt)
    if left is None or right is None or (c is not None and start is None):
        return None
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    result = (
        np.zeros((len(rows), m, n), FLOAT32) if c is None else start.reshape(len(rows), m, n).copy()
    )
    left = left.reshape(math.prod(a.shape[:-2]), m, k)
    right = right.reshape(math.prod(b.shape[:-2]), k, n)
    for i in range(len(rows)):
        if not contract(fast, left[rows[i]], right[columns[i]], result[i]):
            return None
    return result.reshape(full)


def dot(a, b, fmt, *, out=None, **options):
    """Inner product as np.dot forms it: of vectors, matrices, or the last axis of a and the last but one of b.

    Options as for `matmul`. A scalar operand multiplies every element: one product, one sum with +0.
    """
    first, second = (np.asarray(x._values if isinstance(x, Held) else x) for x in (a, b))
    if first.ndim == 0 or second.ndim == 0:
        shape = first.shape + second.shape
        pair = first.reshape(-1, 1), second.reshape(1, -1)
    elif second.ndim == 1:
        shape = first.shape[:-1]
        pair = first.reshape(math.prod(shape), first.shape[-1]), second[:, None]
    else:
        shape = first.shape[:-1] + second.shape[:-2] + second.shape[-1:]
        moved = np.moveaxis(second, -2, 0)
        pair = (
            first.reshape(math.prod(first.shape[:-1]), first.shape[-1]),
            moved.reshape(moved.shape[0], math.prod(moved.shape[1:])),
        )
    held = [isinstance(x, Held) for x in (a, b)]
    pair = [hold(p, x._format) if h else p for p, x, h in zip(pair, (a, b), held, strict=True)]
    result = matmul(*pair, fmt, **options).reshape(shape)
    if out is None:
        return result if result.ndim or any(held) else result[()]
    target = _checked_out(out, shape, _carriers(as_format(fmt)), as_format(fmt))
    target[...] = result._values if isinstance(result, Held) else result
    return out


def vdot(a, b, fmt, **options):
    """The inner product of all elements of two arrays, each in C order; options as for `matmul`."""
    flat = [x if isinstance(x, Held) else np.asarray(x) for x in (a, b)]
    return matmul(*(x.reshape(-1) for x in flat), fmt, **options)


__all__ = ["dot", "matmul", "vdot"]
