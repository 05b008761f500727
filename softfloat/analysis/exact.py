"""Sums and inner products without rounding error but for one rounding at the end: the references of every study.

softfloat.ops.exact_sum says how: a fixed-point number wide enough for every product of float64 numbers.
"""

import functools
import math
from fractions import Fraction

import numpy as np

from softfloat.backends.exact_sum import (
    COLUMNS,
    TABLE_TERMS,
    gather_loop,
    gather_singles,
    parts_loop,
    rows_loop,
)
from softfloat.backends.exact_sum import PLACES as TABLE_PLACES
from softfloat.backends.exact_sum import WORDS as TABLE_WORDS
from softfloat.formats import as_format
from softfloat.functional import Choice, _carriers, _round_parts, quantize
from softfloat.operands import FLOAT32, Held, Parts, as_values, exact_array, hold
from softfloat.ops.exact_sum import BASE, LIMB, LIMBS
from softfloat.reductions import _bits
from softfloat.rounding import FINITE_CLASS, NEGATIVE, ZERO_CLASS

_OWN = "that of the operands"  # where no format is given: that of a SoftArray, else binary64


def exact_sum(x, fmt=_OWN, axis=None, **options):
    """The exact sum of the elements, over an axis, over several, or over all, rounded once to fmt. Any number of terms.

    x : what `softfloat.quantize` takes, Fraction and large integers included.
    fmt : any format, by default that of a SoftArray or else binary64; None for the exact value, a Fraction (a float
        where it is infinite or NaN).   options : rounding, saturate, seed, ... as for `softfloat.quantize`.
    Infinities of both signs give NaN. The sum starts at +0, so that an exact zero is +0, or -0 when rounding toward
    negative unless every term is +0.

    >>> from softfloat.analysis import exact_sum
    >>> float(exact_sum([1e16, 1.0, -1e16])), float(exact_sum([1.0, 2.0**-9, 2.0**-40], "bfloat16"))
    (1.0, 1.0)
    """
    value, soft = _operand(x)
    if isinstance(value, Parts):
        terms = _along(exact_array(x), axis)
        return _rational(terms, terms.shape[:-1], fmt, soft, options)
    rows = _along(value, axis)
    return _reduced(rows, None, rows.shape[:-1], fmt, soft, options)


def exact_dot(a, b, fmt=_OWN, **options):
    """The exact inner product along the last axis of a and b, whose other axes broadcast, rounded once to fmt.

    fmt, options : as for `exact_sum`. exact_dot(A, x) is the product of a matrix and a vector. Zero times infinity
    gives NaN. Raises ValueError if the lengths differ.

    >>> from softfloat.analysis import exact_dot
    >>> exact_dot([0.1, 0.1], [0.1, -0.1], None)
    Fraction(0, 1)
    """
    (first, soft), (second, more) = _operand(a), _operand(b)
    exact = isinstance(first, Parts) or isinstance(second, Parts)
    if exact:
        first, second = exact_array(a), exact_array(b)
    if not first.ndim or not second.ndim or first.shape[-1] != second.shape[-1]:
        raise ValueError(
            f"exact_dot takes two arrays with last axes of one length, got shapes {first.shape} and {second.shape}"
        )
    if soft is not None and more is not None and soft != more and fmt is _OWN:
        raise TypeError(
            f"exact_dot of {soft.label} and {more.label} arrays: say fmt=, the result's format"
        )
    first, second = np.broadcast_arrays(first, second)
    shape, soft = first.shape[:-1], soft or more
    if exact:
        products = np.frompyfunc(_times, 2, 1)(first, second)
        return _rational(np.asarray(products, object), shape, fmt, soft, options)
    return _reduced(first, second, shape, fmt, soft, options)


def _operand(x):
    value, _ = as_values(x)
    return value, x._format if isinstance(x, Held) else None


def _along(x, axis):
    """x with the axis of the sum last, or several as one; all elements in C order where it is None."""
    if axis is None:
        return x.reshape(-1)
    axes = axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(x, axes, range(-len(axes), 0))
    kept = moved.ndim - len(axes)
    return moved.reshape(*moved.shape[:kept], math.prod(moved.shape[kept:]))


def _result_format(fmt, soft):
    if fmt is _OWN:
        return soft if soft is not None else as_format("binary64")
    return as_format(fmt)


def _reduced(a, b, shape, fmt, soft, options):
    """Sums of the rows of a, or of the products with b, in the format and dress that were asked for."""
    if fmt is None:
        _no_options(options)
        return _exact_values(a, b, shape)
    fmt = _result_format(fmt, soft)
    choice = Choice.of("exact_sum", options)
    columns = np.empty((COLUMNS, math.prod(shape)), np.int64)
    if columns.shape[1] == 1 and a.size > TABLE_TERMS:
        limbs, seen = _long_sum(a.reshape(-1), None if b is None else b.reshape(-1))
        parts_loop(limbs, seen, choice.mode, columns)
    elif columns.size:
        flat = _bits(a)
        other = flat if b is None else _bits(b)
        rows_loop(b is not None)(flat, other, a.shape[-1], choice.mode, columns)
    return _rounded(Parts(*(c.reshape(shape) for c in columns[:5])), columns[5], fmt, choice, soft)


def _rounded(parts, flags, fmt, choice, soft):
    carriers = _carriers(fmt)
    result = np.empty(parts.shape, carriers[0])
    _round_parts(parts, fmt, choice, result, flags=flags.copy())
    if soft is not None:
        return hold(result, fmt)
    return result if parts.shape else result[()]


def _long_sum(a, b):
    """(settled limbs, what was seen) of one long sum, a block at a time: no copy of the whole is made."""
    gather, singles = gather_loop(b is not None), b is not None and a.dtype == b.dtype == FLOAT32
    limbs, seen = np.zeros(LIMBS, np.int64), 0
    table = np.zeros((TABLE_PLACES, TABLE_WORDS), np.int64)
    for first in range(0, a.size, TABLE_TERMS):
        block = slice(first, first + TABLE_TERMS)
        if singles:
            bits = (np.ascontiguousarray(x[block]).view(np.uint32) for x in (a, b))
            found = gather_singles(*bits, limbs, table)
            if found >= 0:
                seen |= found
                continue
        left = _bits(a[block])
        right = left[:0] if b is None else _bits(b[block])
        seen |= gather(left, right, limbs, table)
    return limbs, seen


def _exact_values(a, b, shape):
    """Sums of the rows as Fractions (floats where they are infinite or NaN), in an object array or alone."""
    n = a.shape[-1]
    first = np.ascontiguousarray(a).reshape(math.prod(shape), n)
    second = None if b is None else np.ascontiguousarray(b).reshape(first.shape)
    found = np.empty(first.shape[0], object)
    for i, row in enumerate(first):
        limbs, seen = _long_sum(row, None if second is None else second[i])
        columns = np.empty((COLUMNS, 1), np.int64)
        parts_loop(limbs, seen, 0, columns)
        kind, negative = columns[:2, 0]
        if kind in (ZERO_CLASS, FINITE_CLASS):
            whole = functools.reduce(lambda n, limb: (n << LIMB) + int(limb), limbs[::-1], 0)
            found[i] = Fraction(-whole if negative else whole, 1 << BASE)
        else:
            found[i] = math.nan if kind > FINITE_CLASS + 1 else -math.inf if negative else math.inf
    return found.reshape(shape)[()]


# ---------------------------------------------------------------- numbers that no float64 holds
def _times(u, v):
    if not isinstance(u, Fraction) and not math.isfinite(u):
        return u * _sign(v)
    if not isinstance(v, Fraction) and not math.isfinite(v):
        return v * _sign(u)
    product = Fraction(u) * Fraction(v)
    return product if product else math.copysign(0.0, _sign(u) * _sign(v) or 1.0)


def _sign(u):
    """A float with the class and sign of an exact number."""
    if isinstance(u, Fraction):
        return float((u > 0) - (u < 0))
    return u if not u or not math.isfinite(u) else math.copysign(1.0, u)


def _rational_sum(row):
    special = [u for u in row if not isinstance(u, Fraction) and not math.isfinite(u)]
    if special:
        with np.errstate(invalid="ignore"):
            return float(np.sum(special))
    return sum((Fraction(u) for u in row), Fraction(0))


def _rational(terms, shape, fmt, soft, options):
    """Sums of the rows of exact numbers: slow, one Fraction after the other."""
    sums = np.empty(math.prod(shape), object)
    for i, row in enumerate(terms.reshape(sums.size, -1)):
        sums[i] = _rational_sum(row)
    if fmt is None:
        _no_options(options)
        return sums.reshape(shape)[()]
    fmt = _result_format(fmt, soft)
    if Choice.of("exact_sum", options).mode == NEGATIVE:
        all_zero = [
            all(not u and math.copysign(1, u) > 0 for u in row)
            for row in terms.reshape(sums.size, -1)
        ]
        sums[:] = [s if s or z else -0.0 for s, z in zip(sums, all_zero, strict=True)]
    result = quantize(sums.reshape(shape), fmt, **options)
    return hold(result, fmt) if soft is not None else result


def _no_options(options):
    if options:
        raise TypeError(
            f"exact values are not rounded: leave out {', '.join(options)}, or name a format with fmt="
        )


__all__ = ["exact_dot", "exact_sum"]
