"""Order statistics, covariances and histograms: exact choices of elements, and few rounded steps between them."""

import math
from fractions import Fraction

import numpy as np

from softfloat.array.linear import dot
from softfloat.array.mixing import common_format, operand
from softfloat.array.numeric import SUMS, _into, _over_count, mean, soft
from softfloat.array.registry import implements, unsupported
from softfloat.array.structural import INDICES, dressed
from softfloat.array.ufuncs import at, rows_of
from softfloat.operands import Held, exact_parts, hold

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


# ---------------------------------------------------------------- quantiles
def _shares(q, whole, name):
    """The fractions of 1 that q asks for, exactly: (list, shape of q)."""
    asked = q._values if isinstance(q, Held) else np.asarray(q)
    exact = []
    for item in asked.ravel().tolist():
        number = exact_parts(item)
        if isinstance(number, float) and not math.isfinite(number) or not 0 <= number <= whole:
            raise ValueError(f"{name}: q must be in 0..{whole}, got {item}")
        exact.append(Fraction(number) / whole)
    return exact, asked.shape


def _between(ordered, place, method):
    """The element at an exact place of sorted rows, or what the method makes of its two neighbours."""
    below = math.floor(place)
    part = place - below
    if method == "nearest":
        below, part = round(place), 0
    elif method == "higher":
        below, part = math.ceil(place), 0
    elif method == "lower" or not part:
        part = 0
    elif method == "midpoint":
        part = Fraction(1, 2)
    low = ordered[..., below]
    if not part:
        return low
    high = ordered[..., below + 1]
    step = high - low
    return low + step * part if part < Fraction(1, 2) else high - step * (1 - part)


def _quantile(name, whole, a, q, axis, out, method, keepdims, weights, skip_nan):
    """All quantiles: q's axes first."""
    if weights is not None:
        raise unsupported(name, "weights= is not there yet")
    if method not in METHODS:
        raise unsupported(name, f"method={method!r}; there are {', '.join(METHODS)}")
    a = soft(a, q, out)
    shares, asked = _shares(q, whole, name)
    rows, shape = rows_of(a._values, axis, keepdims)
    if not (rows.shape[-1] or skip_nan):
        raise ValueError(f"{name} of no elements has no result")
    rows = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    missing = np.isnan(rows)
    ordered = dressed(np.sort(rows, axis=-1, kind="stable"), a._format)
    sizes = (~missing).sum(axis=-1) if skip_nan else np.full(len(rows), rows.shape[-1])
    results = np.zeros_like(a, shape=(len(shares), math.prod(shape)))
    results[...] = np.nan
    for size in np.unique(sizes):
        here = sizes == size
        if not size:
            continue
        for i, share in enumerate(shares):
            results[i][here] = _between(ordered[here], share * (int(size) - 1), method)
    if not skip_nan:
        some = missing.any(axis=-1)
        results[:, some] = ordered[some, ..., -1]
    return _into(out, results.reshape(asked + tuple(shape)))


_STEPS = (
    "place and t exact; low + (high - low) * t, or high - (high - low) * (1 - t) for t >= 1/2, each weight and step "
    "rounded"
)


def _register(function, whole, skip_nan, steps):
    name = f"np.{function.__name__}"

    def quantile(
        a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *,
        weights=None,
    ):  # fmt: skip
        return _quantile(name, whole, a, q, axis, out, method, keepdims, weights, skip_nan)

    quantile.__doc__ = steps
    implements(function, section=SUMS)(quantile)


_register(np.quantile, 1, False, _STEPS)
_register(np.percentile, 100, False, "as np.quantile")
_register(np.nanquantile, 1, True, "as np.quantile of the elements that are not NaN")
_register(np.nanpercentile, 100, True, "as np.quantile of the elements that are not NaN")


@implements(np.nanmedian, section=SUMS)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """the middle of the elements that are not NaN, or (lower + upper) / 2, two roundings"""
    rows, shape = rows_of(a._values, axis, keepdims)
    ordered = dressed(np.sort(rows, axis=-1, kind="stable"), a._format)
    size = (~np.isnan(rows)).sum(axis=-1)[..., None]
    low = np.take_along_axis(ordered, np.maximum(size - 1, 0) // 2, axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(size // 2, rows.shape[-1] - 1), axis=-1)[..., 0]
    middle = np.where(size[..., 0] % 2 == 1, low, (low + high) / 2)
    return _into(out, np.where(size[..., 0] == 0, np.nan, middle).reshape(shape))


# ---------------------------------------------------------------- covariances
@implements(np.cov, section=SUMS)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """d = x - mean of each row; d @ d.T as the operator @, then / (n - ddof), an exact number"""
    if fweights is not None or aweights is not None:
        raise unsupported("np.cov", "weights are not there yet")
    m = soft(m, y)
    if m.ndim > 2:
        raise ValueError(f"np.cov takes at most two dimensions, got shape {m.shape}")
    x = _variables(m, rowvar)
    if y is not None:
        x = np.concatenate([x, _variables(soft(y, m), rowvar)])
    x = x if dtype is None else x.astype(dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    distance = x - mean(x, axis=1, keepdims=True)
    count = np.asarray(max(x.shape[1] - ddof, 0))
    return np.squeeze(_over_count(dot(distance, distance.T), count, x._format))


def _variables(x, rowvar):
    x = np.atleast_2d(x)
    return x if rowvar or x.shape[0] == 1 else x.T


@implements(np.corrcoef, section=SUMS)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """c as np.cov; c / sqrt(diagonal) along both axes, every step rounded, then clipped to [-1, 1]"""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    size = np.sqrt(np.diagonal(c))
    return np.clip(c / size[:, None] / size[None, :], -1, 1)


# ---------------------------------------------------------------- histograms
@implements(np.histogram_bin_edges, section=INDICES)
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """from least to largest at exact equal distances, each rounded once; edges that are given stay as they are"""
    if isinstance(bins, str):
        raise unsupported("np.histogram", f"bins={bins!r}: name the number of bins, or their edges")
    fmt = common_format([a, bins, weights])
    if np.ndim(bins) == 1:
        edges = soft(bins, a, weights)
        if (edges[:-1] > edges[1:]).any():
            raise ValueError("np.histogram: bins must increase")
        return edges
    a = soft(a, weights)
    if bins < 1:
        raise ValueError(f"np.histogram: bins must be positive, got {bins}")
    low, high = (0.0, 1.0) if range is None and not a.size else range or (np.min(a), np.max(a))
    low, high = (float(hold(operand(v, fmt), fmt)) for v in (low, high))
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"np.histogram: the range must be finite and increase, got {low}, {high}")
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return np.linspace(hold(operand(low, fmt), fmt), hold(operand(high, fmt), fmt), bins + 1)


@implements(np.histogram, section=INDICES)
def histogram(a, bins=10, range=None, density=None, weights=None):
    """exact counts between rounded edges; weights summed in the order of a; density: / sum / width, each rounded"""
    edges = histogram_bin_edges(a, bins, range, weights)
    a = soft(a, edges).ravel()
    place = np.searchsorted(edges, a, side="right") - 1
    last = len(edges) - 1
    place = np.where(a == edges[-1], last - 1, place)
    inside = (place >= 0) & (place < last) & ~np.isnan(a)
    if weights is None:
        counts = np.bincount(place[inside], minlength=last)
    else:
        counts = bincount(place[inside], soft(weights, a).ravel()[inside], last)
    if not density:
        return counts, edges
    counts = counts if isinstance(counts, Held) else hold(operand(counts, a._format), a._format)
    return counts / np.sum(counts) / np.diff(edges), edges


@implements(np.bincount, section=SUMS)
def bincount(x, /, weights=None, minlength=0):
    """sums of the weights of each place from +0, in their order, every addition rounded"""
    if not isinstance(weights, Held):
        raise TypeError("np.bincount takes integers in x; weights= may be a SoftArray")
    x = np.asarray(x)
    if x.shape != weights.shape or x.ndim != 1:
        raise ValueError(
            f"np.bincount: x and weights must be equally long, got shapes {x.shape}, {weights.shape}"
        )
    size = len(np.bincount(x, minlength=minlength))
    total = np.zeros_like(weights, shape=(size,))
    at(np.add, total, x, weights)
    return total


__all__ = ["METHODS"]
