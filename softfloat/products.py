"""Matrix products and inner products with every rounding chosen.

Formats of the products, the accumulator and the result, the roundings and the order of the additions are arguments, as
in softfloat.reductions. softfloat.ops.reduce defines the orders and the random words; the vector kernels of
softfloat.backends.contract give the same bits where they apply.
"""

import functools
import math

import numpy as np

from softfloat.backends.contract import contract
from softfloat.backends.kernels import (
    CARRIER_TYPES,
    Words,
    element_words,
    kernels,
)
from softfloat.backends.packing import transposed
from softfloat.backends.reduce import AS_IT_IS
from softfloat.backends.survey import Span, survey
from softfloat.formats import as_format
from softfloat.functional import NoValueError, _carriers, _checked_out, add, quantize
from softfloat.operands import FLOAT32, Devices, Held, hold, on_device
from softfloat.ops.reduce import (
    AT_OUTER,
    AT_RESULT,
    BLOCKED,
    EXACT,
    PLACES,
    ROUNDED,
    SEQUENTIAL,
)
from softfloat.reductions import (
    _DEFAULT,
    _NO_STARTS,
    _bits,
    _copy,
    _define,
    _deliver,
    _How,
    _values,
)
from softfloat.rounding import STOCHASTIC, VARIANT_A
from softfloat.status import active_status

_SATURATIONS = (False, "finite", "propagate")
# Random bits by default: as many as every format of up to 11 digits leaves to spare in float32.
_RANDOM_BITS = 13
_SHORT = 1 << 20  # multiply-adds of a product that one thread does at once
_ALONE = np.zeros((1, 2), np.int64)  # the batches of A and B in the only product


def _check_sizes(name, first, second):
    """The sizes over which a function of this name sums: the last of a, and the last but one of b or its only one."""
    if first.shape[-1] != second.shape[-2 if second.ndim > 1 else -1]:
        raise ValueError(
            f"{name}: the inner sizes differ: a has shape {first.shape}, b has shape {second.shape}"
        )


def _shapes(a, b):
    """(batch shape, result shape) of a matrix product after NumPy's rules; a and b are at least 2-D."""
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
    scale_a=None,
    scale_b=None,
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
        inputs, c of its accumulator, and what it gives is rounded to fmt, to nearest: all that status blocks count.
    scale_a, scale_b : the scales of an engine that has them, one for each `engine.block` consecutive k: of shapes that
        broadcast to (..., m, blocks) and (..., blocks, n).
    options : rounding, saturate, seed, stream, offset, random_bits, variant as for `quantize`, but random_bits is 13 by
        default: what fast kernels have room for.
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
    elif scale_a is not None or scale_b is not None:
        raise ValueError(
            "scale_a= and scale_b= go with engine=, such as softfloat.engines.b200_mxf8f6f4"
        )
    if not isinstance(fma, (bool, np.bool_)):
        raise TypeError(f"fma must be True or False, got {fma!r}")
    if fma:
        if product is not _DEFAULT and product is not None:
            raise ValueError("fma=True adds exact products; leave product= out")
        product = None
    how, simple = _how(
        fmt, accumulator, product, order, block, outer, product_rounding, result_rounding, options
    )
    if simple is not None and c is None and engine is None and out is None:
        result = _short(a, b, simple)
        if result is not None:
            return result
    if on_device(a, b, c, scale_a, scale_b):
        return Devices.load().matmul(a, b, how, c, engine, (scale_a, scale_b), out)
    first, dtypes = _values(a, "a")
    second, more = _values(b, "b")
    if not first.ndim or not second.ndim:
        raise ValueError(
            f"matmul takes arrays of one or more dimensions, got shapes {first.shape} and {second.shape}"
        )
    _check_sizes("matmul", first, second)
    left = first[None, :] if first.ndim == 1 else first
    right = second[:, None] if second.ndim == 1 else second
    batch, full = _shapes(left, right)
    shape = full if first.ndim > 1 else full[:-2] + full[-1:]
    shape = shape if second.ndim > 1 else shape[:-1]
    initial = None if c is None else _initial(c, shape, full)
    if engine is None:
        wide = _product(left, right, initial, batch, full, how)
    else:
        from softfloat import engine_products  # loaded by those who ask for an engine

        batches = _batches(left.shape[:-2], batch), _batches(right.shape[:-2], batch)
        scales = [None if x is None else _values(x, "a scale")[0] for x in (scale_a, scale_b)]
        if second.ndim == 1 and scales[1] is not None and scales[1].ndim == 1:
            scales[1] = scales[1][:, None]
        found = engine_products.product(engine, (a, left), (b, right), initial, *batches, scales)
        wide = np.asarray(quantize(found.reshape(shape), how.result))
    result = _deliver(wide, shape, how, dtypes + more, out)
    soft = isinstance(a, Held) or isinstance(b, Held)
    return hold(result, how.result) if soft and out is None else result


@functools.lru_cache(128, typed=True)
def _known(*chosen, **options):
    """The checked choice of formats and roundings, and its simple kernel: calls that repeat one spend no time on it."""
    how = _How(*chosen, options)
    return how, _simple(how)


def _how(*chosen):
    *chosen, options = chosen
    options.setdefault("random_bits", _RANDOM_BITS)
    if not active_status():  # a choice made within a block counts for that block
        try:
            return _known(*chosen, **options)
        except TypeError:  # something that cannot be hashed, or is wrong
            pass
    return _How(*chosen, options), None


def _simple(how):
    """The kernel that alone makes the result of float32 operands, or None."""
    candidates = _candidates(how, 1)
    last = how.result == how.accumulator and not how.choices[3].saturate
    if how.order != SEQUENTIAL or not candidates or not last or not how.result.fits(FLOAT32):
        return None
    return None if candidates[0].words or candidates[0].dtype != FLOAT32 else candidates[0]


def _short(a, b, kernel):
    """The product of two small matrices, without the detours that the general case needs; None if it is one."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.ndim != 2 or b.ndim != 2:
        return None
    if a.dtype != FLOAT32 or b.dtype != FLOAT32 or not (a.flags.carray and b.flags.carray):
        return None
    m, k = a.shape
    n = b.shape[1]
    if k != b.shape[0] or not 0 < m * n * k <= _SHORT:
        return None
    result = whole = np.empty((m, n), FLOAT32)
    if n == 1 < m:  # columns are what vectors hold
        a, b, whole = b.T, transposed(a[None])[0], result.T
    return result if kernel.run_small(a, b, whole, kernel.forced) else None


def _check_engine(engine, **given):
    """ValueError where an option says what the engine says already."""
    from softfloat.engines import Engine

    if not isinstance(engine, Engine):
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
    found = _by_kernels(a, b, c, rows, columns, full, how)
    if found is not None:
        return found
    starts = _NO_STARTS if c is None else _bits(c)
    kind = EXACT if how.exact else ROUNDED
    transposed = _bits(np.swapaxes(b, -1, -2))
    extent = (math.prod(batch), full[-2], full[-1])
    return _define(
        _bits(a), transposed, rows, columns, extent, a.shape[-1], starts, kind, AS_IT_IS, how
    )


class _Operand:
    """An operand in the carriers that can hold it, and the span of its numbers."""

    def __init__(self, value):
        self.value = value
        self._found = {}

    def within(self, dtype):
        """(contiguous array of this dtype, NaNs canonical, its Span), or None if some number is not in it."""
        if dtype not in self._found:
            self._found[dtype] = self._made(dtype)
        return self._found[dtype]

    def _made(self, dtype):
        if self.value.dtype == dtype:
            x = np.ascontiguousarray(self.value)
        else:
            x = np.empty(self.value.shape, dtype)
            _copy(self.value, x)
            if dtype.itemsize < self.value.dtype.itemsize:
                back = np.empty(x.shape, self.value.dtype)
                _copy(x, back)
                if not _same_bits(back, self.value):
                    return None
        if not x.flags.writeable:
            x = x.copy()  # another type to the compiler, which would compile everything anew for it
        span = survey(x)
        if span.special and np.isnan(x).any():
            x = np.where(np.isnan(x), dtype.type(np.nan), x)
        return x, span


_NO_START = Span(0.0, math.inf, 1, False)


def _candidates(how, columns):
    """The kernels for a call's formats and roundings; none where one of these is beyond them."""
    to_product, to_sum = how.choices[0], how.choices[1]
    alike = (to_product.mode, to_product.saturate) == (to_sum.mode, to_sum.saturate)
    if how.order not in (SEQUENTIAL, BLOCKED) or not alike:
        return ()
    if how.may_fail:
        return ()
    if to_sum.mode == STOCHASTIC:
        # Where rows of the result do not begin at multiples of their length, its columns have no keys of their own.
        whole = how.offset % max(columns, 1) == 0
        if to_sum.variant != VARIANT_A or to_product.bits != to_sum.bits or not whole:
            return ()
    product = None if how.exact else how.product
    bits = to_sum.bits if to_sum.mode == STOCHASTIC else 0
    return kernels(product, how.accumulator, to_sum.mode, to_sum.saturate, bits)


class _Arranged:
    """Operands of a product as batches of matrices that suit the kernels; its elements keep their order.

    b shared by all batches: one tall product. One column: one row instead, of the transposed product, since vectors
    hold columns. A single element in each batch: columns of a and b, in pairs.
    """

    def __init__(self, a, b, c, rows, columns, full, how):
        _, m, n = self.shape = (len(rows), *full[-2:])
        self.a, self.b = (x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (a, b))
        self.c, self.size = c, m
        self.items = np.stack((rows, columns), 1)
        self.turned = self.paired = False
        self._join()
        if self.shape[2] == 1 and self.shape[1] > 1:
            self._turn()
            # Rows of the result that are columns here have words for each batch.
            if how.choices[1].mode != STOCHASTIC:
                self._join()
        if self.shape[1:] == (1, 1) and self.shape[0] > 1:
            self._pair()

    def _join(self):
        batches, m, n = self.shape
        if len(self.b) == 1 and 1 < len(self.a) == batches:
            self.a = self.a.reshape(1, batches * m, self.a.shape[2])
            self.shape, self.items, self.size = (1, batches * m, n), _ALONE, batches * m

    def _turn(self):
        batches, m, n = self.shape
        # Of other dtypes, and those that lie the other way round already, NumPy's view will do.
        quick = self.a.dtype in CARRIER_TYPES and self.a.flags.carray
        turned = transposed(self.a) if quick else self.a.swapaxes(1, 2)
        self.a, self.b = self.b.swapaxes(1, 2), turned
        self.shape, self.items, self.turned = (batches, n, m), self.items[:, ::-1].copy(), True

    def _pair(self):
        self.a = self.a[self.items[:, 0], 0].T[None]
        self.b = self.b[self.items[:, 1], :, 0].T[None]
        self.shape, self.items, self.turned = (1, 1, self.shape[0]), _ALONE, True
        self.paired = True


def _by_kernels(a, b, c, rows, columns, full, how):
    """As `_product` by the vector kernels, or None outside their domain."""
    candidates = _candidates(how, full[-1])
    if active_status() or not candidates:
        return None
    whole = _Arranged(a, b, c, rows, columns, full, how)
    left, right = _Operand(whole.a), _Operand(whole.b)
    start = None if c is None or how.order == BLOCKED else _Operand(c)
    for kernel, content in [*((k, False) for k in candidates), *((k, True) for k in candidates)]:
        found = [None if x is None else x.within(kernel.dtype) for x in (left, right, start)]
        if found[0] is None or found[1] is None or (start is not None and found[2] is None):
            continue
        if start is not None and not _all_values(found[2][0], how.accumulator):
            continue
        spans = [_NO_START if x is None else x[1] for x in found]
        arguments = kernel.prepared(*spans, a.shape[-1], content)
        if arguments is None:
            continue
        arrays = [None if x is None else x[0] for x in found]
        task = _Task(kernel, arguments, whole, a.shape[-1], how, how.offset // max(full[-1], 1))
        total = task.blocked(*arrays[:2], c) if how.order == BLOCKED else task.all(*arrays)
        if total is not None:
            return task.finished(total, full, c is not None)
    return None


def _all_values(x, fmt):
    return _same_bits(np.asarray(quantize(x, fmt)), x)


def _same_bits(x, y):
    """Whether two arrays hold the same values: by their bits, for a processor may take subnormal numbers for zeros."""
    kind = np.int32 if y.dtype == FLOAT32 else np.int64
    same = np.ascontiguousarray(x, y.dtype).view(kind) == np.ascontiguousarray(y).view(kind)
    return bool((same | np.isnan(y)).all())


class _Task:
    """One product by one kernel: blocks of terms, and the last rounding.

    whole : the operands, arranged.   row : the number of the result's first row.
    """

    def __init__(self, kernel, arguments, whole, terms, how, row):
        self.kernel, self.arguments, self.whole = kernel, arguments, whole
        self.terms, self.how, self.row, self.shape = terms, how, row, whole.shape

    def all(self, left, right, start):
        """The sums of all terms, or None."""
        result = np.zeros(self.shape, self.kernel.dtype)
        if start is not None:
            result[...] = start.reshape(self.shape)
        return result if self._contract((left, right), result, 0, self.terms) else None

    def blocked(self, left, right, start):
        """The sums of the blocks, added up in the outer format, or None."""
        how = self.how
        total = np.zeros(self.shape) if start is None else start.reshape(self.shape)
        for first in range(0, self.terms, how.block):
            block = np.zeros(self.shape, self.kernel.dtype)
            last = min(first + how.block, self.terms)
            if not self._contract((left, right), block, first, last):
                return None
            step = PLACES * first + AT_OUTER
            total = add(total, block, how.outer, **self._rounding(how.choices[1], step))
        return total

    def _contract(self, operands, result, first, last):
        """Terms first, first + 1, ..., last - 1 onto the result; False if the kernels must not run."""
        if not result.size:
            return True
        whole, words = self.whole, None
        if self.kernel.words:
            words = Words(
                self.how.key, self.kernel, whole.size, self.row, whole.turned, whole.paired
            )
        kernel, terms = self.kernel, (first, last)
        run = kernel.run_pairs if whole.paired else kernel.run
        call = run, self.arguments, operands, result, whole.items, words, terms
        return contract(*call, kernel.forced)

    def _rounding(self, choice, step):
        """Options of a rounding of all elements, whose words are those of an operation of theirs."""
        options = {"rounding": choice.rounding, "saturate": _SATURATIONS[choice.saturate]}
        if choice.mode >= STOCHASTIC:
            words = np.empty(math.prod(self.shape), np.int64)
            element_words(self.how.key, self.how.offset, step, choice.bits, words)
            options |= {"random": words.reshape(self.shape), "random_bits": choice.bits}
            options["variant"] = "ABC"[choice.variant]
        return options

    def finished(self, total, full, given):
        """The sums rounded to the result's format."""
        how = self.how
        last = how.outer if how.order == BLOCKED else how.accumulator
        final = how.choices[3]
        if how.result != last or given or final.saturate:
            total = quantize(total, how.result, **self._rounding(final, AT_RESULT))
        return total.reshape(full)


def rearranged(a, b, fmt, **options):
    """`matmul` for a result of another shape: an error that names an element says that it is one of this product."""
    try:
        return matmul(a, b, fmt, **options)
    except NoValueError as error:
        error.add_note(
            f"In the matrix product of shapes {np.shape(a)} and {np.shape(b)}, formed for this result."
        )
        raise


def _plain_array(x, what):
    """x as an array of its own dtype; what NumPy would round, such as large integers in a list, is refused."""
    if isinstance(x, Held):
        return x._values
    if type(x) is np.ndarray:
        return x
    value, _ = _values(x, what)
    found = np.asarray(x)
    # An array keeps its type, which tells an engine the format; integers keep theirs, which asks for no carrier.
    return found if isinstance(x, (np.ndarray, np.generic)) or found.dtype.kind in "biu" else value


def dot(a, b, fmt, *, out=None, **options):
    """Inner product as np.dot forms it: of vectors, matrices, or the last axis of a and the last but one of b.

    Options as for `matmul`. A scalar operand multiplies every element: one product, one sum with +0.
    """
    if on_device(a, b):
        return Devices.load().dot(a, b, fmt, out, options)
    first, second = _plain_array(a, "a"), _plain_array(b, "b")
    if first.ndim and second.ndim:
        _check_sizes("dot", first, second)
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
    result = rearranged(*pair, fmt, **options).reshape(shape)
    if out is None:
        return result if result.ndim or any(held) else result[()]
    target = _checked_out(out, shape, _carriers(as_format(fmt)), as_format(fmt))
    target[...] = result._values if isinstance(result, Held) else result
    return out


def vdot(a, b, fmt, **options):
    """The inner product of all elements of two arrays, each in C order; options as for `matmul`."""
    pairs = ((a, "a"), (b, "b"))
    flat = [(x if isinstance(x, Held) else _plain_array(x, what)).reshape(-1) for x, what in pairs]
    if flat[0].size != flat[1].size:
        raise ValueError(f"vdot: a has {flat[0].size} elements, but b has {flat[1].size}")
    return matmul(*flat, fmt, **options)


__all__ = ["dot", "matmul", "vdot"]
