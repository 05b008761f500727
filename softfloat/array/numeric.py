"""NumPy functions that compute, step by step as NumPy's own do: every step is an operation rounded once.

The first line of each docstring says which steps there are and in which order: the documentation is made of them.
"""

from fractions import Fraction

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from softfloat import elementary, functional
from softfloat.array.create import linspace
from softfloat.array.mixing import common_format, comparand, is_weak, operand, rounded
from softfloat.array.registry import implements, unsupported
from softfloat.array.structural import dressed
from softfloat.array.ufuncs import EXACT, NO_VALUE, accumulate, call, delivered, reduce, rows_of
from softfloat.context import operation_options
from softfloat.operands import Held, hold

SUMS, STEPS = "sums and statistics", "functions of several steps"
_NO = NO_VALUE


def soft(x, *others):
    """x as a SoftArray: itself, or values of the format that it meets."""
    return (
        x if isinstance(x, Held) else hold(operand(x, common_format(others)), common_format(others))
    )


def _operation(function, *values, fmt):
    """An operation of the functional layer as the next one of the rounding block."""
    plain = (v._values if isinstance(v, Held) else v for v in values)
    return hold(np.asarray(function(*plain, fmt, **operation_options())), fmt)


def _into(out, result):
    return result if out is None else delivered(result._values, EXACT, result._format, out)


# ---------------------------------------------------------------- sums
@implements(np.sum, section=SUMS)
def sum_(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO, where=True):
    """sequential, from +0 or initial, in C order of the reduced axes, every addition rounded; dtype: another format"""
    return reduce(np.add, soft(a, out), axis, dtype, out, keepdims, initial, where)


@implements(np.prod, section=SUMS)
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO, where=True):
    """sequential, from 1 or initial, in C order, every multiplication rounded"""
    return reduce(np.multiply, soft(a, out), axis, dtype, out, keepdims, initial, where)


def _running(ufunc, a, axis, dtype, out):
    a = soft(a, out)
    if axis is None or (
        a.ndim == 0 and axis in (0, -1)
    ):  # one element is a sequence of one, as in NumPy
        a, axis = a.ravel(), 0
    return accumulate(ufunc, a, axis, dtype, out)


@implements(np.cumsum, section=SUMS)
def cumsum(a, axis=None, dtype=None, out=None):
    """running sums from +0, every addition rounded"""
    return _running(np.add, a, axis, dtype, out)


@implements(np.cumprod, section=SUMS)
def cumprod(a, axis=None, dtype=None, out=None):
    """running products, every multiplication rounded"""
    return _running(np.multiply, a, axis, dtype, out)


def _with_initial(ufunc, start, x, axis, dtype, out, include_initial):
    if x.ndim > 1 and axis is None:
        raise ValueError("axis= is needed for an array of more than one dimension")
    axis = 0 if axis is None else axis
    result = _running(ufunc, x, axis, dtype, None)
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        first = np.full_like(result, start, shape=tuple(shape))
        result = np.concatenate([first, result], axis=axis)
    return _into(out, result)


@implements(getattr(np, "cumulative_sum", None), section=SUMS)
def cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    """as cumsum"""
    return _with_initial(np.add, 0, x, axis, dtype, out, include_initial)


@implements(getattr(np, "cumulative_prod", None), section=SUMS)
def cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    """as cumprod"""
    return _with_initial(np.multiply, 1, x, axis, dtype, out, include_initial)


@implements(np.max, np.amax, section=SUMS)
def max_(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
    """exact; NaN if one is NaN; -0 < +0"""
    return reduce(np.maximum, soft(a, out), axis, None, out, keepdims, initial, where)


@implements(np.min, np.amin, section=SUMS)
def min_(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
    """exact; NaN if one is NaN; -0 < +0"""
    return reduce(np.minimum, soft(a, out), axis, None, out, keepdims, initial, where)


@implements(np.ptp, section=SUMS)
def ptp(a, axis=None, out=None, keepdims=False):
    """max - min, rounded"""
    return _into(out, max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims))


def _count(a, axis, keepdims, where):
    counted = np.broadcast_to(where, a.shape)
    return np.asarray(np.sum(counted, axis=axis, keepdims=keepdims, dtype=np.int64))


def _over_count(total, count, fmt):
    """total / count, the count exact, rounded once; NaN of no terms."""
    return _operation(functional.divide, total, count.astype(np.float64), fmt=fmt)


@implements(np.mean, section=SUMS)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """sum as np.sum, then / the exact number of terms"""
    total = sum_(a, axis, dtype, None, keepdims, _NO, where)
    return _into(out, _over_count(total, _count(a, axis, keepdims, where), total._format))


@implements(np.var, section=SUMS)
def var(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=_NO,
    correction=_NO,
):
    """m = mean; d = a - m; sum of d * d as np.sum; then / (n - ddof), an exact number"""
    if correction is not _NO:
        ddof = correction
    a = a if dtype is None else a.astype(dtype)
    centre = globals()["mean"](a, axis, None, None, True, where=where) if mean is _NO else mean
    distance = a - centre
    squares = sum_(distance * distance, axis, None, None, keepdims, _NO, where)
    count = np.maximum(_count(a, axis, keepdims, where) - ddof, 0)
    return _into(out, _over_count(squares, count, a._format))


@implements(np.std, section=SUMS)
def std(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=_NO,
    correction=_NO,
):
    """the square root of np.var, rounded"""
    square = var(
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return _into(out, np.sqrt(square))


@implements(np.average, section=SUMS)
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    """sum(a * weights) / sum(weights), products, sums and quotient rounded; as np.mean without weights"""
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        total = hold(
            np.asarray(rounded(_count(a, axis, keepdims, True), result._format)), result._format
        )
    else:
        a = soft(a, weights)
        weights = soft(weights, a)
        if weights.shape != a.shape:
            if weights.ndim != 1 or axis is None or weights.shape[0] != a.shape[axis]:
                raise TypeError(
                    f"weights of shape {weights.shape} do not fit {a.shape} along axis {axis}"
                )
            weights = np.moveaxis(
                np.broadcast_to(weights, np.moveaxis(a, axis, -1).shape), -1, axis
            )
        total = sum_(weights, axis, keepdims=keepdims)
        result = sum_(a * weights, axis, keepdims=keepdims) / total
    return (result, total) if returned else result


@implements(np.median, section=SUMS)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """the middle element, or (lower + upper) / 2, two roundings; NaN if one is NaN, and of no elements"""
    rows, shape = rows_of(a._values, axis, keepdims)
    ordered = dressed(np.sort(rows, axis=-1, kind="stable"), a._format)
    n = rows.shape[-1]
    if not n:
        return mean(a, axis, None, out, keepdims)
    middle = (
        ordered[..., n // 2] if n % 2 else (ordered[..., n // 2 - 1] + ordered[..., n // 2]) / 2
    )
    missing = np.isnan(rows).any(axis=-1)
    return _into(out, np.where(missing, ordered[..., -1], middle).reshape(shape))


def _without_nan(name, run, fill):
    def function(a, axis=None, dtype=None, out=None, *given, **options):
        values = np.where(np.isnan(a._values), a._values.dtype.type(fill), a._values)
        return run(hold(values, a._format), axis, dtype, out, *given, **options)

    function.__doc__ = f"as np.{name}, NaN counted as {fill}"
    return function


for _name, _run, _fill in (
    ("sum", sum_, 0),
    ("prod", prod, 1),
    ("cumsum", cumsum, 0),
    ("cumprod", cumprod, 1),
):
    implements(getattr(np, f"nan{_name}"), section=SUMS)(_without_nan(_name, _run, _fill))


@implements(np.nanmax, section=SUMS)
def nanmax(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
    """exact; numbers before NaN"""
    return reduce(np.fmax, a, axis, None, out, keepdims, initial, where)


@implements(np.nanmin, section=SUMS)
def nanmin(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
    """exact; numbers before NaN"""
    return reduce(np.fmin, a, axis, None, out, keepdims, initial, where)


for _name, _run in (("mean", mean), ("var", var), ("std", std)):

    def _skip_nan(a, *given, _run=_run, where=True, **options):
        return _run(a, *given, where=~np.isnan(a._values) & where, **options)

    _skip_nan.__doc__ = f"as np.{_name} of the elements that are not NaN"
    implements(getattr(np, f"nan{_name}"), section=SUMS)(_skip_nan)


# ---------------------------------------------------------------- elementwise
@implements(np.clip, section=STEPS)
def clip(a, a_min=_NO, a_max=_NO, out=None, *, min=_NO, max=_NO, **options):
    """maximum with the lower, then minimum with the upper bound; exact"""
    low, high = (y if x is _NO else x for x, y in ((a_min, min), (a_max, max)))
    low, high = (None if x is _NO else x for x in (low, high))
    a = soft(a, low, high, out)
    fmt = a._format
    for ufunc, bound in ((np.maximum, low), (np.minimum, high)):
        if bound is not None:
            bound = hold(comparand(bound, fmt), fmt) if is_weak(bound) else bound
            a = call(ufunc, (a, bound))
    return _into(out, a.copy() if low is None and high is None else a)


@implements(np.round, np.around, section=STEPS)
def round_(a, decimals=0, out=None):
    """the exact multiple of 10**-decimals nearest to each element, ties to even, rounded once"""
    if decimals == 0:
        return _into(out, np.rint(a))
    values = a._values
    exact = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        v = float(values[place])
        moved = round(Fraction(v), decimals) if np.isfinite(v) and v else Fraction(0)
        exact[place] = moved if moved else np.copysign(0.0, v) if np.isfinite(v) else v
    return _into(out, _operation(functional.quantize, exact, fmt=a._format))


@implements(np.fix, section=STEPS)
def fix(x, out=None):
    """to an integer, toward zero"""
    return _into(out, np.trunc(x))


@implements(np.sinc, section=STEPS)
def sinc(x):
    """sin(pi * x) / (pi * x), rounded once; 1 at 0"""
    return _operation(elementary.sinc, x, fmt=x._format)


@implements(np.isclose, section=STEPS)
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """|a - b| <= atol + rtol * |b|, each of the three operations rounded; equal infinities are close"""
    a, b = soft(a, b), soft(b, a)
    near = np.abs(a - b) <= atol + rtol * np.abs(b)
    result = (np.isfinite(b) & near) | (a == b)
    if equal_nan:
        result = result | (np.isnan(a) & np.isnan(b))
    return result


@implements(np.allclose, section=STEPS)
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """as np.isclose, of all elements"""
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@implements(np.linspace, section=STEPS)
def linspace_(
    start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None
):
    """exact distances between two numbers, each result rounded once, to nearest, as softfloat.linspace"""
    if np.ndim(start) or np.ndim(stop) or retstep:
        raise unsupported("np.linspace", "only of two numbers, without retstep=")
    fmt = common_format([start, stop])
    return linspace(*(float(soft(x, start, stop)) for x in (start, stop)), num, endpoint, fmt)


@implements(np.logspace, section=STEPS)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """base ** np.linspace, each rounded"""
    powers = linspace_(*(soft(x, start, stop) for x in (start, stop)), num, endpoint, axis=axis)
    return np.power(base, powers)


# ---------------------------------------------------------------- differences
@implements(np.diff, section=STEPS)
def diff(a, n=1, axis=-1, prepend=_NO, append=_NO):
    """a[i + 1] - a[i], rounded, n times"""
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    a = soft(a, prepend, append)
    ends = []
    for x in (prepend, append):
        if x is not _NO:
            x = soft(x, a)
            if x.ndim == 0:
                x = np.broadcast_to(
                    x, [1 if i == axis % a.ndim else s for i, s in enumerate(a.shape)]
                )
        ends.append(x)
    parts = [x for x in (ends[0], a, ends[1]) if x is not _NO]
    a = np.concatenate(parts, axis=axis) if len(parts) > 1 else a
    for _ in range(n):
        a = np.moveaxis(a, axis, -1)
        a = np.moveaxis(a[..., 1:] - a[..., :-1], -1, axis)
    return a


@implements(np.ediff1d, section=STEPS)
def ediff1d(ary, to_end=None, to_begin=None):
    """differences of neighbours in C order, rounded"""
    flat = soft(ary, to_end, to_begin).ravel()
    parts = [to_begin, flat[1:] - flat[:-1], to_end]
    return np.concatenate([np.atleast_1d(soft(x, flat)).ravel() for x in parts if x is not None])


@implements(np.gradient, section=STEPS)
def gradient(f, *varargs, axis=None, edge_order=1):
    """(f[i + 1] - f[i - 1]) / (2 * h) inside, two-point or three-point differences at the ends, every step rounded"""
    f = soft(f, *varargs)
    axes = range(f.ndim) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if len(varargs) > 1 and len(varargs) != len(axes):
        raise TypeError(
            f"give one spacing, or one for each of the {len(axes)} axes, got {len(varargs)}"
        )
    spacings = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1] * len(axes)
    if edge_order not in (1, 2):
        raise ValueError(f"edge_order must be 1 or 2, got {edge_order}")
    results = [_gradient(f, h, i, edge_order) for h, i in zip(spacings, axes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _gradient(f, h, axis, edge_order):
    f = np.moveaxis(f, axis, -1)
    if f.shape[-1] < edge_order + 1:
        raise ValueError(
            f"an axis of {f.shape[-1]} elements is too short for edge_order={edge_order}"
        )
    h = h if is_weak(h) else soft(h, f)
    if not is_weak(h) and h.ndim:
        if h.shape != f.shape[-1:]:
            raise ValueError(
                f"coordinates of shape {h.shape} do not fit an axis of {f.shape[-1]} elements"
            )
        return np.moveaxis(_uneven(f, np.diff(h), edge_order), -1, axis)
    result = np.zeros_like(f)
    result[..., 1:-1] = (f[..., 2:] - f[..., :-2]) / (2 * h)
    if edge_order == 1:
        result[..., 0] = (f[..., 1] - f[..., 0]) / h
        result[..., -1] = (f[..., -1] - f[..., -2]) / h
    else:
        result[..., 0] = (-1.5 / h) * f[..., 0] + (2 / h) * f[..., 1] + (-0.5 / h) * f[..., 2]
        result[..., -1] = (0.5 / h) * f[..., -3] + (-2 / h) * f[..., -2] + (1.5 / h) * f[..., -1]
    return np.moveaxis(result, -1, axis)


def _uneven(f, dx, edge_order):
    """NumPy's formulas for coordinates at uneven distances."""
    d1, d2 = dx[:-1], dx[1:]
    a, b, c = -d2 / (d1 * (d1 + d2)), (d2 - d1) / (d1 * d2), d1 / (d2 * (d1 + d2))
    result = np.zeros_like(f)
    result[..., 1:-1] = a * f[..., :-2] + b * f[..., 1:-1] + c * f[..., 2:]
    if edge_order == 1:
        result[..., 0] = (f[..., 1] - f[..., 0]) / dx[0]
        result[..., -1] = (f[..., -1] - f[..., -2]) / dx[-1]
        return result
    p, q = dx[0], dx[1]
    a, b, c = -(2 * p + q) / (p * (p + q)), (p + q) / (p * q), -p / (q * (p + q))
    result[..., 0] = a * f[..., 0] + b * f[..., 1] + c * f[..., 2]
    p, q = dx[-2], dx[-1]
    a, b, c = q / (p * (p + q)), -(q + p) / (p * q), (2 * q + p) / (q * (p + q))
    result[..., -1] = a * f[..., -3] + b * f[..., -2] + c * f[..., -1]
    return result


@implements(np.trapezoid, section=STEPS)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """sum of d * (y[i + 1] + y[i]) / 2 with d = dx or differences of x, every step rounded, sum as np.sum"""
    y = soft(y, x)
    y = np.moveaxis(y, axis, -1)
    if x is not None:
        x = soft(x, y)
        dx = np.diff(x) if x.ndim == 1 else np.moveaxis(np.diff(x, axis=axis), axis, -1)
    return sum_(dx * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)


# ---------------------------------------------------------------- sequences
@implements(np.interp, section=STEPS)
def interp(x, xp, fp, left=None, right=None, period=None):
    """slope = (fp[j + 1] - fp[j]) / (xp[j + 1] - xp[j]); slope * (x - xp[j]) + fp[j], every step rounded"""
    if period is not None:
        raise unsupported("np.interp", "period= is not there yet")
    fmt = common_format([x, xp, fp])
    x, xp, fp = (soft(v, x, xp, fp) for v in (x, xp, fp))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(
            f"xp and fp must be equally long sequences, got shapes {xp.shape} and {fp.shape}"
        )
    place = np.searchsorted(xp, x, side="right") - 1
    j = np.clip(place, 0, max(len(xp) - 2, 0))
    k = np.minimum(j + 1, len(xp) - 1)
    slope = (fp[k] - fp[j]) / (xp[k] - xp[j])
    result = slope * (x - xp[j]) + fp[j]
    # NumPy's second try, from the other end, and equal ends.
    again = slope * (x - xp[k]) + fp[k]
    result = np.where(
        np.isnan(result), np.where(np.isnan(again) & (fp[j] == fp[k]), fp[j], again), result
    )
    result = np.where(x == xp[j], fp[j], result)
    result = np.where(place == len(xp) - 1, fp[-1], result)
    low, high = (
        fp[i] if v is None else hold(operand(v, fmt), fmt) for i, v in ((0, left), (-1, right))
    )
    result = np.where(x < xp[0], low, np.where(x > xp[-1], high, result))
    return np.where(np.isnan(x), x, result)


def _correlated(a, v, mode):
    """Sums over k, in order, of a[n + k] * v[k], from +0; every product and sum rounded."""
    n = len(v)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f'mode must be "full", "same" or "valid", got {mode!r}')
    before, after = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[
        mode
    ]
    length = len(a) + before + after - n + 1
    total = np.zeros_like(a, shape=(length,))
    for k in range(n):
        # Terms beyond the ends are no terms: nothing is added there.
        first = max(0, before - k)
        last = min(length, len(a) + before - k)
        part = a[first + k - before : last + k - before] * v[k]
        total[first:last] = total[first:last] + part
    return total


def _two_sequences(a, v):
    a, v = soft(a, v), soft(v, a)
    a, v = np.atleast_1d(a), np.atleast_1d(v)
    if a.ndim > 1 or v.ndim > 1 or not len(a) or not len(v):
        raise ValueError(
            f"two sequences of at least one element are needed, got shapes {a.shape}, {v.shape}"
        )
    return a, v


@implements(np.convolve, section=STEPS)
def convolve(a, v, mode="full"):
    """sum over k of a[n - k] * v[k], longer operand first, its elements in order, from +0; each step rounded"""
    a, v = _two_sequences(a, v)
    a, v = (v, a) if len(v) > len(a) else (a, v)
    return _correlated(a, v[::-1], mode)


@implements(np.correlate, section=STEPS)
def correlate(a, v, mode="valid"):
    """sum over k of a[n + k] * v[k], k in order, from +0; each step rounded"""
    a, v = _two_sequences(a, v)
    if len(v) > len(a):
        return _correlated(v, a, mode)[::-1]
    return _correlated(a, v, mode)


@implements(np.polyval, section=STEPS)
def polyval(p, x):
    """Horner from the highest power: y * x + p[i], product and sum rounded"""
    x, p = soft(x, p), soft(p, x)
    y = np.zeros_like(x)
    for coefficient in p:
        y = y * x + coefficient
    return y
