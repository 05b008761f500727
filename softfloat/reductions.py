"""Sums and products of elements with every rounding chosen.

Each takes the format of the result; the format of the accumulator (by default the same), that of the products (by
default the accumulator's, None for exact ones) and the order of the additions are arguments. softfloat.ops.reduce
defines the orders and the random words. No result depends on the number of threads or on the memory layout.

rounding= holds for every operation, unless product_rounding= or result_rounding= say otherwise for theirs.

A NaN passes through, and where an operation on the way has no result, a ValueError names the element: as with the loop.

Inside a block of `softfloat.status` every operation counts like an element: each product, each addition, the first one
to +0 included, and the last rounding. There the definition does the work, whatever that costs.
"""

import math

import numpy as np

from softfloat.backends.cpu import cast, make_nans_canonical
from softfloat.backends.exact import COUNTED
from softfloat.backends.orders import as_terms, axis_sums
from softfloat.backends.reduce import (
    AS_IT_IS,
    MEAN,
    ROOT,
    cumulative_loop,
    finish_loop,
    reduce_loop,
    reduce_part,
)
from softfloat.backends.sums import NO_KEYS, adder, element_keys, standard_arithmetic
from softfloat.backends.threads import run_chunks
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.functional import (
    Choice,
    Options,
    _carriers,
    _checked_out,
    _integer,
    _may_fail,
    _no_result,
    _result_dtype,
    divide,
    multiply,
    quantize,
    sqrt,
)
from softfloat.operands import FLOAT64, Devices, Parts, as_values, keeps_format, on_device
from softfloat.ops.reduce import (
    BLOCKED,
    EXACT,
    FACTOR,
    KAHAN,
    MISSING,
    NEUMAIER,
    NO_VALUE,
    ORDERS,
    PLAIN,
    ROUNDED,
    SEQUENTIAL,
    STAGES,
    STATE,
    TALLY,
    TO_ACCUMULATOR,
    TO_PRODUCT,
    TO_RESULT,
)
from softfloat.rounding import EVEN, MODES, STOCHASTIC, as_rounding
from softfloat.status import active_status

# Stands for the accumulator's format where None means something else.
_DEFAULT = "the accumulator's"
_NO_STARTS = np.zeros(0, np.int64)
_PARTS = "a product", "the accumulator", "the sum of the blocks", ""  # of an element, by stage
_TERMS_AT_ONCE = 1 << 20  # operations of the definition between two looks at Ctrl-C
_FEW_TERMS = 1 << 12  # that the definition adds before the fast loops are made ready
_FEW_RESULTS = (
    1 << 8
)  # that the definition rounds before an elementwise operation is called instead


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
        _check_options(options, product_rounding, result_rounding)
        self.result = as_format(fmt)
        self.accumulator = self.result if accumulator is None else as_format(accumulator)
        self.exact = product is None
        if self.exact and product_rounding is not None:
            raise ValueError(
                f"product_rounding={product_rounding!r} goes with products that are rounded; product=None (or "
                "fma=True) keeps them exact"
            )
        self.product = (
            self.accumulator if product is None or product is _DEFAULT else as_format(product)
        )
        self.order = _order(order)
        self.block = _block(order, block)
        if outer is not None and self.order != BLOCKED:
            raise ValueError(f'outer= goes with order="blocked", got order={order!r}')
        self.outer = self.accumulator if outer is None else as_format(outer)
        self.stages = self.product, self.accumulator, self.outer, self.result
        self.may_fail = any(map(_may_fail, self.stages))
        common = Choice(**options)
        own = (product_rounding, None, None, result_rounding)
        self.choices = [common if r is None else Choice(**{**options, "rounding": r}) for r in own]
        self.counting = active_status()  # every operation is counted in these, and so defined
        self.offset = max(choice.offset for choice in self.choices)
        self.key = np.uint64(max(choice.key for choice in self.choices))

    @property
    def formats(self):
        return tuple(fmt.record for fmt in self.stages)

    def roundings(self):
        """What the loops of the definition read; in a status block they also count there."""
        room = np.zeros(TALLY - MISSING + (COUNTED if self.counting else 0), np.int64)
        return tuple(np.concatenate((choice.array()[:MISSING], room)) for choice in self.choices)

    def count(self, roundings):
        """Add what was counted there to the status blocks, once per operation that raised a flag."""
        for block in self.counting:
            for rounding in roundings:
                block.add(rounding[TALLY:])

    @property
    def plain(self):
        """The one format, if every operation rounds to it, to nearest, as usual and uncounted; else None."""
        one = self.result
        same = one == self.accumulator and one == self.product
        usual = all(c.mode == EVEN and c.saturate == 0 for c in self.choices)
        fits = same and usual and not self.counting
        return one if fits and isinstance(one, Format) else None


def _check_options(options, *own):
    """Refuse rounding options that sums and products lack; one element of theirs has many roundings."""
    names = [name for name in Options.__annotations__ if name != "random"]
    if options.pop("random", None) is not None:
        raise ValueError(
            "random= is not taken here, where one element has many roundings; give seed="
        )
    for name in options:
        if name not in names:
            raise TypeError(
                f"there is no option {name!r} here; besides the function's own arguments there are "
                f"{', '.join(names)}, product_rounding and result_rounding"
            )
    for rounding in (options.get("rounding"), *own):
        random = rounding is not None and MODES[as_rounding(rounding)] >= STOCHASTIC
        if random and options.get("seed") is None:
            raise ValueError(
                f'rounding="{as_rounding(rounding)}" needs seed=, so that the result can be repeated'
            )


def _check_no_products(options):
    """Refuse the rounding of products where there are none before the operation that rounding= is for."""
    if options.get("product_rounding") is not None:
        raise ValueError(
            f"product_rounding={options['product_rounding']!r} goes with functions that form products and add them, "
            "such as dot and norm; here rounding= says it all"
        )


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
    if np.ma.is_masked(x):
        raise TypeError(
            f"{what} has masked elements, which a sum or product cannot leave out; give .filled(value)"
        )
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
    if how.may_fail:
        _check_values(wide, shape, how)
    wide = wide.reshape(shape)
    make_nans_canonical(wide.reshape(-1))
    dtype = _result_dtype(fmt, dtypes)
    if out is not None:
        result = _checked_out(out, shape, _carriers(fmt), fmt)
    elif wide.dtype == dtype:
        return wide if wide.ndim else wide[()]
    else:
        result = np.empty(shape, dtype)
    _copy(wide, result)
    if out is not None:
        return out
    return result if result.ndim else result[()]


def _check_values(wide, shape, how):
    """ValueError for the first element of which an operation had no result."""
    bits = _bits(wide)
    missing = np.flatnonzero((bits >= NO_VALUE) & (bits < NO_VALUE + STAGES))
    if missing.size:
        stage = int(bits[missing[0]]) - NO_VALUE
        _no_result(how.stages[stage], missing[0], shape, _PARTS[stage])


def _copy(values, result):
    """Values into an array of either carrier that holds them, subnormal or not, whatever the processor flushes."""
    if values.dtype != result.dtype:
        there = np.empty(values.size, result.dtype)
        flat = np.ascontiguousarray(values).reshape(-1)
        values = there.reshape(values.shape) if cast(flat, there) else values
    with np.errstate(all="ignore"):
        result[...] = values


def _define(a, b, rows, columns, shape, n, starts, kind, finish, how):
    """All output elements by the definition, as float64 values."""
    wide = np.empty(math.prod(shape))
    extent = np.array(shape, np.int64)
    target = wide.view(np.int64)
    common = (a, b, rows, columns, extent, n, starts, how.order, how.block, kind, finish)

    def task(first, stop):
        roundings = how.roundings()
        more = (how.formats, roundings, how.key, how.offset)
        if n <= _TERMS_AT_ONCE:
            reduce_loop(*common, *more, target[first:stop], first)
        else:
            state = np.empty(STATE, np.int64)
            for index in range(first, stop):
                for k in range(0, n, _TERMS_AT_ONCE):
                    end = min(n, k + _TERMS_AT_ONCE)
                    reduce_part(*common, *more, target[index : index + 1], index, k, end, state)
        how.count(roundings)

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
    if kind != ROUNDED:
        _check_no_products(more)
    own = more.pop("product_rounding", None), more.pop("result_rounding", None)
    how = _How(fmt, accumulator, product, order, block, outer, *own, more)
    if not isinstance(keepdims, (bool, np.bool_, int, np.integer)):
        raise TypeError(f"keepdims must be True or False, got {keepdims!r}")
    if kind == FACTOR and how.order in (KAHAN, NEUMAIER):
        raise ValueError(f"order={order!r} compensates sums; a product takes another order")
    if on_device(x):
        return Devices.load().reduction(x, how, axis, keepdims, kind, finish, out)
    value, dtypes = _values(x, "the input")
    axes = _axes(axis, value.ndim)
    kept = tuple(i for i in range(value.ndim) if i not in axes)
    n = math.prod(value.shape[i] for i in axes)
    shape = tuple(value.shape[i] for i in kept)
    wide = _fast_reduction(value, axes, n, kind, finish, how)
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


def _adder(fmt, choice, kind):
    return adder(fmt, choice.mode, choice.saturate, choice.bits, choice.variant, kind == FACTOR)


def _fast_reduction(value, axes, n, kind, finish, how):
    """All output elements, in C order, by the fast loops; None where they do not apply or are not worth it."""
    choice = how.choices[TO_ACCUMULATOR]
    random = choice.mode >= STOCHASTIC
    if value.size < max(_FEW_TERMS, 1) or how.counting:
        return None
    if how.order != SEQUENTIAL and (random or kind == FACTOR) or not standard_arithmetic():
        return None
    if kind == ROUNDED:
        squares = how.choices[TO_PRODUCT]
        if how.exact or squares.mode >= STOCHASTIC or _may_fail(how.product):
            return None
        value = multiply(value, value, how.product, **_options(squares))
    inner, outer = _adder(how.accumulator, choice, kind), _adder(how.outer, choice, kind)
    if inner.lane == FLOAT64 and inner.native and value.flags.aligned:
        terms, largest = value, 0.0
    else:
        terms, largest = as_terms(value)
    if not inner.takes(terms, largest):
        return None
    keys = NO_KEYS
    if random:
        keys = np.empty(value.size // n, np.uint64)
        element_keys(how.key, how.offset, keys)
    sums = axis_sums(terms, axes, how.order, how.block, inner, outer, int(kind == FACTOR), keys)
    return None if sums is None else _finished(sums, n, finish, how)


def _options(choice):
    """The rounding options of a choice without random words."""
    saturate = {0: False, 1: "finite", 2: "propagate"}[choice.saturate]
    return {"rounding": choice.rounding, "saturate": saturate}


def _finished(sums, n, finish, how):
    """The results of accumulators over n terms each."""
    choice, fmt = how.choices[TO_RESULT], how.result
    if finish == AS_IT_IS and fmt == how.outer and choice.mode < STOCHASTIC and not choice.saturate:
        return sums
    if sums.size > _FEW_RESULTS and choice.mode < STOCHASTIC and n and not _may_fail(fmt):
        if finish == MEAN:
            return divide(sums, float(n), fmt, **_options(choice))
        return (sqrt if finish == ROOT else quantize)(sums, fmt, **_options(choice))
    wide = np.empty(sums.size)
    accumulators, target = _bits(sums), wide.view(np.int64)

    def task(first, stop):
        finish_loop(
            accumulators, n, finish, how.formats, how.roundings(), how.key, how.offset,
            target[first:stop], first,
        )  # fmt: skip

    run_chunks(task, wide.size, _TERMS_AT_ONCE)
    return wide


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
    _check_no_products(options)
    own = None, options.pop("result_rounding", None)
    how = _How(fmt, accumulator, _DEFAULT, "sequential", None, None, *own, options)
    value, dtypes = _values(x, "the input")
    axes = _axes(axis, value.ndim)
    if axis is None or value.ndim == 0:
        value, axes = value.reshape(-1), (0,)
    if len(axes) != 1:
        raise ValueError(f"cumsum runs along one axis, or along all with axis=None; got {axis}")
    (axis,) = axes
    moved = np.ascontiguousarray(np.moveaxis(value, axis, -1))
    wide = _fast_running(moved, how)
    if wide is None:
        wide = _defined_running(moved, how)
    placed = np.moveaxis(wide.reshape(moved.shape), -1, axis)
    return _deliver(np.ascontiguousarray(placed), value.shape, how, dtypes, out)


def _defined_running(moved, how):
    """Running sums along the last axis by the definition."""
    a, n = _bits(moved), moved.shape[-1]
    wide = np.empty(a.size)
    target = wide.view(np.int64)

    def task(first, stop):
        roundings = how.roundings()
        for row in range(first, stop):
            s = 0
            for k in range(0, n, _TERMS_AT_ONCE):
                part = target[row * n + k : row * n + min(n, k + _TERMS_AT_ONCE)]
                s = cumulative_loop(
                    a, n, PLAIN, how.formats, roundings, how.key, how.offset, part, row, k, s
                )
        how.count(roundings)

    if a.size:
        run_chunks(task, a.size // n, max(1, _TERMS_AT_ONCE // n))
    return wide


def _fast_running(moved, how):
    """Running sums along the last axis by the fast loops, or None where they do not apply."""
    choice, result = how.choices[TO_ACCUMULATOR], how.choices[TO_RESULT]
    if moved.size < max(_FEW_TERMS, 1) or how.counting:
        return None
    if result.mode >= STOCHASTIC or _may_fail(how.result):
        return None
    inner, n = _adder(how.accumulator, choice, PLAIN), moved.shape[-1]
    terms, largest = as_terms(moved)
    if not standard_arithmetic() or not inner.takes(terms, largest):
        return None
    rows = moved.size // n
    keys = NO_KEYS
    if choice.mode >= STOCHASTIC:
        keys = np.empty(rows, np.uint64)
        element_keys(how.key, how.offset, keys)
    sums, out = np.zeros(rows, inner.lane), np.empty(moved.size, inner.lane)
    inner.add("chain", terms.reshape(-1), n, n, sums, keys, out=out)
    if how.result == how.accumulator and not result.saturate:
        return out
    return quantize(out, how.result, **_options(result))


__all__ = ["cumsum", "mean", "norm", "prod", "sum"]
