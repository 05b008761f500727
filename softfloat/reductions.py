"""Sums, products, inner products and matrix products with every rounding chosen.

Each takes the format of the result; the format of the accumulator (by default the same), that of the products (by
default the accumulator's, None for exact ones) and the order of the additions are arguments. softfloat.ops.reduce
defines the orders and the random words. No result depends on the number of threads or on the memory layout.

rounding= holds for every operation, unless product_rounding= or result_rounding= say otherwise for theirs.
"""

import math

import numpy as np

from softfloat.backends.contract import (
    add_rows,
    compare_values,
    contract,
    fast_product,
    make_nans_canonical,
)
from softfloat.backends.cpu import cast
from softfloat.backends.reduce import AS_IT_IS, MEAN, ROOT, cumulative_loop, reduce_loop
from softfloat.backends.threads import run_chunks
from softfloat.fixed_point import FixedPoint
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.functional import (
    Choice,
    _carriers,
    _checked_out,
    _integer,
    _result_dtype,
    add,
    divide,
    quantize,
)
from softfloat.operands import FLOAT32, FLOAT64, Parts, as_values, keeps_format
from softfloat.ops.reduce import (
    BLOCKED,
    EXACT,
    FACTOR,
    KAHAN,
    LANE_COUNT,
    LANES,
    NEUMAIER,
    ORDERS,
    PLAIN,
    ROUNDED,
    SEQUENTIAL,
)
from softfloat.rounding import EVEN

_DEFAULT = (
    "the accumulator's"  # stands for the accumulator's format where None means something else
)
_NO_STARTS = np.zeros(0, np.int64)
TURNED_ROWS, TURNED_COLUMNS = 512, 64  # of the blocks that are copied to turn rows into columns
_TERMS_AT_ONCE = 1 << 20  # operations of the definition between two looks at Ctrl-C


class _How:
    """The checked formats, roundings and order of one call."""

    def __init__(
        self,
        fmt,
        accumulator,
        product,
        order,
        block,
        outer,
        product_rounding,
        result_rounding,
        options,
    ):
        if options.pop("random", None) is not None:
            raise ValueError(
                "random= is not taken here, where one element has many roundings; give seed="
            )
        self.result = as_format(fmt)
        self.accumulator = self.result if accumulator is None else as_format(accumulator)
        self.exact = product is None
        self.product = (
            self.accumulator if product is None or product is _DEFAULT else as_format(product)
        )
        self.order = _order(order)
        self.block = _block(order, block)
        if outer is not None and self.order != BLOCKED:
            raise ValueError(f'outer= goes with order="blocked", got order={order!r}')
        self.outer = self.accumulator if outer is None else as_format(outer)
        common = Choice(**options)
        own = (product_rounding, None, None, result_rounding)
        self.choices = [common if r is None else Choice(**{**options, "rounding": r}) for r in own]
        self.offset = max(choice.offset for choice in self.choices)
        self.key = np.uint64(max(choice.key for choice in self.choices))

    @property
    def formats(self):
        return (
            self.product.record,
            self.accumulator.record,
            self.outer.record,
            self.result.record,
        )

    @property
    def roundings(self):
        return tuple(choice.array() for choice in self.choices)

    @property
    def plain(self):
        """The one format, if every operation rounds to it, to nearest, and overflows as usual; else None."""
        one = self.result
        same = one == self.accumulator and one == self.product
        usual = all(c.mode == EVEN and c.saturate == 0 for c in self.choices)
        return one if same and usual and isinstance(one, Format) else None


def _order(order):
    try:
        return ORDERS[order]
    except (KeyError, TypeError):
        raise ValueError(
            f"order must be one of {', '.join(map(repr, ORDERS))}, got {order!r}"
        ) from None


def _block(order, block):
    if order != "blocked":
        if block is not None:
            raise ValueError(f'block= goes with order="blocked", got order={order!r}')
        return 1
    if block is None:
        raise ValueError('order="blocked" needs block=, the number of terms in a block')
    return _integer("block", block, 1, (1 << 62) - 1)


def _values(x, what):
    """x as an array of float32 or float64 values, and its dtype if that is one of these."""
    value, own = as_values(x)
    if isinstance(value, Parts):
        raise TypeError(
            f"{what} holds numbers that no float64 holds exactly; round them first, with softfloat.quantize"
        )
    if type(x) is float:
        own = True
    return value, [value.dtype] if own else []


def _bits(value):
    """Values as a flat array of float64 bit patterns, in C order."""
    value = np.ascontiguousarray(value)
    if value.dtype == FLOAT64:
        return value.reshape(-1).view(np.int64)
    wide = np.empty(value.size)
    if not cast(value.reshape(-1), wide):
        wide[:] = value.reshape(-1)
    return wide.view(np.int64)


def _deliver(wide, shape, how, dtypes, out):
    """Results, as float32 or float64 values, in an array of the result's carrier, NaNs canonical."""
    fmt = how.result
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    if (wraps or not (fmt.signed or isinstance(fmt, FixedPoint))) and np.isnan(wide).any():
        if wraps or not fmt.has_nan:
            place = np.unravel_index(int(np.flatnonzero(np.isnan(wide))[0]), shape) if shape else ()
            raise ValueError(
                f"element {tuple(map(int, place))} of the result has no value in {fmt.label}: it is NaN, or "
                "negative where there is no sign"
            )
    wide = wide.reshape(shape)
    make_nans_canonical(wide.reshape(-1))
    dtype = _result_dtype(fmt, dtypes)
    if out is not None:
        result = _checked_out(out, shape, _carriers(fmt), fmt.label)
    elif wide.dtype == dtype:
        return wide if wide.ndim else wide[()]
    else:
        result = np.empty(shape, dtype)
    with np.errstate(all="ignore"):
        result[...] = wide
    if out is not None:
        return out
    return result if result.ndim else result[()]


def _define(a, b, rows, columns, shape, n, starts, kind, finish, how):
    """All output elements by the definition, as float64 values."""
    wide = np.empty(math.prod(shape))
    formats, roundings = how.formats, how.roundings
    extent = np.array(shape, np.int64)
    target = wide.view(np.int64)

    def task(first, stop):
        reduce_loop(
            a, b, rows, columns, extent, n, starts, how.order, how.block, kind, finish,
            formats, roundings, how.key, how.offset, target[first:stop], first,
        )  # fmt: skip

    run_chunks(task, wide.size, max(1, _TERMS_AT_ONCE // max(n, 1)))
    return wide


def _axes(axis, ndim):
    """Normalised axes of a reduction, in increasing order."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    normal = []
    for one in axes:
        one = _integer("axis", one, -ndim, ndim - 1) if ndim else _integer("axis", one, -1, 0)
        normal.append(one % ndim if ndim else 0)
    if len(set(normal)) != len(normal):
        raise ValueError(f"axis {axis} names an axis twice")
    return tuple(sorted(normal)) if ndim else ()


def _reduce(x, fmt, axis, keepdims, kind, finish, accumulator, product, order, more, out):
    """Reduction over axes; the terms of an element come in C order of the reduced axes."""
    block, outer = more.pop("block", None), more.pop("outer", None)
    own = more.pop("product_rounding", None), more.pop("result_rounding", None)
    how = _How(fmt, accumulator, product, order, block, outer, *own, more)
    if kind == FACTOR and how.order in (KAHAN, NEUMAIER):
        raise ValueError(f"order={order!r} compensates sums; a product takes another order")
    value, dtypes = _values(x, "the input")
    axes = _axes(axis, value.ndim)
    kept = tuple(i for i in range(value.ndim) if i not in axes)
    n = math.prod(value.shape[i] for i in axes)
    shape = tuple(value.shape[i] for i in kept)
    wide = None
    if kind == PLAIN and value.dtype == FLOAT32:
        wide = _fast_sum(value, axes, kept, n, how)
        if wide is not None and finish == MEAN:
            wide = divide(wide, float(n), how.result)
    if wide is None:
        wide = _defined_reduction(value.transpose(kept + axes), len(kept), n, kind, finish, how)
    if keepdims:
        shape = tuple(1 if i in axes else s for i, s in enumerate(value.shape))
    return _deliver(wide, shape, how, dtypes, out)


def _defined_reduction(value, kept, n, kind, finish, how):
    """The definition on elements of n terms each, in C order."""
    a = _bits(value)
    size = math.prod(value.shape[:kept])
    if kind == FACTOR or kind == PLAIN:
        zero = np.zeros(1, np.int64)
        return _define(a, a, zero, zero, (1, size, 1), n, _NO_STARTS, kind, finish, how)
    # Rows times themselves: each row is a batch of its own.
    rows = np.arange(size, dtype=np.int64)
    kind = EXACT if how.exact else ROUNDED
    return _define(a, a, rows, rows, (size, 1, 1), n, _NO_STARTS, kind, finish, how)


def _fast_sum(value, axes, kept, n, how):
    """Sums over axes by the vector kernel, or None outside its domain: one format, rounded to nearest."""
    fast = fast_product(how.plain) if how.plain is not None else None
    if fast is None:
        return None
    size = math.prod(value.shape[i] for i in kept)
    terms = value.transpose(axes + kept).reshape(n, size)
    if how.order == LANES and size == 1:
        return _lane_sum(terms.reshape(n), fast)
    if how.order != SEQUENTIAL:
        return None
    return _column_sums(terms, fast)


def _column_sums(terms, fast):
    """The sequential sum of each column, or None."""
    n, size = terms.shape
    sums = np.zeros(size, FLOAT32)
    if size <= 1 or n == 0 or terms.strides[1] == 4:
        terms = terms if terms.strides[1] == 4 else np.ascontiguousarray(terms)
        return sums if add_rows(terms, sums, fast.constants) else None
    for j in range(0, size, TURNED_COLUMNS):
        part = sums[j : j + TURNED_COLUMNS]
        for k in range(0, n, TURNED_ROWS):
            turned = np.ascontiguousarray(terms[k : k + TURNED_ROWS, j : j + TURNED_COLUMNS])
            if not add_rows(turned, part, fast.constants):
                return None
    return sums


def _lane_sum(x, fast):
    """The sum of a flat array in the order "lanes", or None."""
    whole = x.size - x.size % LANE_COUNT
    lanes = np.zeros(LANE_COUNT, FLOAT32)
    rows = np.ascontiguousarray(x[:whole]).reshape(-1, LANE_COUNT)
    rest = np.ascontiguousarray(x[whole:]).reshape(1, -1)
    for part in (rows, rest):
        if part.size and not add_rows(part, lanes[: part.shape[1]], fast.constants):
            return None
    while lanes.size > 1:
        lanes = add(lanes[0::2], lanes[1::2], fast.fmt)
    return lanes


@keeps_format
def sum(
    x, fmt, axis=None, keepdims=False, *, accumulator=None, order="sequential", out=None, **options
):
    """The sum of the elements over an axis, over several, or over all (in C order), every addition rounded.

    fmt : the result's format.   accumulator : that of the additions, by default fmt.
    order : "sequential" (bit for bit the naive loop, from +0), "pairwise", "lanes", "blocked" (with block= and outer=,
        the format that adds the blocks' sums), "kahan" or "neumaier"; softfloat.ops.reduce defines them.
    options : rounding, saturate, seed, stream, offset, random_bits, variant as for `quantize`; result_rounding for the
        last rounding alone.

    >>> import numpy as np, softfloat as sf
    >>> from softfloat import reductions
    >>> ones = np.ones(4096, np.float32)
    >>> float(reductions.sum(ones, sf.bfloat16))
    256.0
    >>> float(reductions.sum(ones, sf.bfloat16, order="blocked", block=64))
    4096.0
    """
    return _reduce(
        x, fmt, axis, keepdims, PLAIN, AS_IT_IS, accumulator, _DEFAULT, order, options, out
    )


@keeps_format
def mean(
    x, fmt, axis=None, keepdims=False, *, accumulator=None, order="sequential", out=None, **options
):
    """The sum in the accumulator, as `sum` forms it, over the number of terms, rounded once to fmt. NaN of no terms."""
    return _reduce(x, fmt, axis, keepdims, PLAIN, MEAN, accumulator, _DEFAULT, order, options, out)


@keeps_format
def prod(
    x, fmt, axis=None, keepdims=False, *, accumulator=None, order="sequential", out=None, **options
):
    """The product of the elements, from 1, every multiplication rounded; arguments as for `sum`."""
    return _reduce(
        x, fmt, axis, keepdims, FACTOR, AS_IT_IS, accumulator, _DEFAULT, order, options, out
    )


@keeps_format
def norm(
    x,
    fmt,
    axis=None,
    keepdims=False,
    *,
    product=_DEFAULT,
    accumulator=None,
    order="sequential",
    out=None,
    **options,
):
    """The Euclidean norm: the sum of squares in the accumulator, then its square root, rounded once to fmt.

    product : the format of the squares, by default the accumulator's; None for exact squares.
    """
    return _reduce(x, fmt, axis, keepdims, ROUNDED, ROOT, accumulator, product, order, options, out)


@keeps_format
def cumsum(x, fmt, axis=None, *, accumulator=None, out=None, **options):
    """Running sums along an axis (None: of all elements in C order), from +0, each also rounded to fmt."""
    own = options.pop("product_rounding", None), options.pop("result_rounding", None)
    how = _How(fmt, accumulator, _DEFAULT, "sequential", None, None, *own, options)
    value, dtypes = _values(x, "the input")
    if axis is None:
        value, axis = value.reshape(-1), 0
    (axis,) = _axes(axis, value.ndim)
    moved = np.moveaxis(value, axis, -1)
    n = moved.shape[-1]
    a = _bits(moved)
    wide = np.empty(a.size)
    target = wide.view(np.int64)
    formats, roundings = how.formats, how.roundings

    def task(first, stop):
        part = target[first * n : stop * n]
        cumulative_loop(a, n, PLAIN, formats, roundings, how.key, how.offset, part, first)

    if a.size:
        run_chunks(task, a.size // n, max(1, _TERMS_AT_ONCE // n))
    placed = np.moveaxis(wide.reshape(moved.shape), -1, axis)
    return _deliver(np.ascontiguousarray(placed), value.shape, how, dtypes, out)


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


@keeps_format
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
    options : rounding, saturate, seed, stream, offset, random_bits, variant as for `quantize`.
    Returns (..., m, n) values of fmt. Error bound of the default: |C - AB| <= gamma_k |A||B|, Higham (2002), ch. 3.
    Raises ValueError if the inner sizes differ or rounding is stochastic without a seed.
    """
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
    wide = _product(left, right, initial, batch, full, how)
    return _deliver(wide, shape, how, dtypes + more, out)


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


@keeps_format
def dot(a, b, fmt, *, out=None, **options):
    """Inner product as np.dot forms it: of vectors, matrices, or the last axis of a and the last but one of b.

    Options as for `matmul`. A scalar operand multiplies every element: one product, one sum with +0.
    """
    first, second = np.asarray(a), np.asarray(b)
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
    result = np.asarray(matmul(*pair, fmt, **options)).reshape(shape)
    if out is None:
        return result if result.ndim else result[()]
    _checked_out(out, shape, _carriers(as_format(fmt)), as_format(fmt).label)[...] = result
    return out


@keeps_format
def vdot(a, b, fmt, **options):
    """The inner product of all elements of two arrays, each in C order; options as for `matmul`."""
    return matmul(np.asarray(a).reshape(-1), np.asarray(b).reshape(-1), fmt, **options)


__all__ = ["cumsum", "dot", "matmul", "mean", "norm", "prod", "sum", "vdot"]
