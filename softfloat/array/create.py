"""Making SoftArrays: from anything that holds numbers, each rounded once; from codes; filled, and evenly spaced."""

import math
import sys
from fractions import Fraction

import numpy as np

import softfloat.array.core  # noqa: F401  (what holds the values)
from softfloat.array.mixing import common_format, leaves, rounded
from softfloat.fixed_point import FixedPoint
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.functional import _integer, decode
from softfloat.operands import Held, exact_parts, held, hold, host_only


def _format_for(x, fmt):
    if fmt is not None:
        return as_format(fmt)
    if isinstance(x, (Held, list, tuple)):
        common = common_format(leaves(x))
        if common is not None:
            return common
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.type.__module__.startswith("ml_dtypes"):
        return as_format(dtype)
    raise TypeError(
        "name the format: softfloat.array(x, fmt), for instance softfloat.array(x, 'bfloat16')"
    )


def array(x, fmt=None, **options):
    """A new SoftArray of x, every element rounded once; options as for `quantize`, rounding= among them.

    x : what `quantize` takes (large integers, Fraction, Decimal and decimal strings are taken exactly), SoftArrays and
        nested lists of them.   fmt : by default that of a SoftArray or of an array of ml_dtypes.

    >>> import softfloat as sf
    >>> sf.array(["0.1", 2, 3.14159], "bfloat16")
    SoftArray([ 0.1,  2.0, 3.14], bfloat16)
    """
    fmt = _format_for(x, fmt)
    values = rounded(x, fmt, **options)
    if isinstance(x, (np.ndarray, Held, list, tuple)) or values.ndim:
        return held(values, fmt)
    return hold(values, fmt)


def asarray(x, fmt=None, **options):
    """As `array`, but a SoftArray of this format comes back as it is."""
    fmt = _format_for(x, fmt)
    if isinstance(x, Held) and x._format == fmt:
        return x
    return array(x, fmt, **options)


def from_codes(codes, fmt):
    """A SoftArray of codes, integers in [0, 2**fmt.bits)."""
    host_only(codes)
    fmt = as_format(fmt)
    return held(np.array(decode(codes, fmt), fmt.carrier), fmt)


def zeros(shape, fmt):
    """Zeros; ValueError for a format without zero."""
    return full(shape, 0, fmt)


def ones(shape, fmt):
    return full(shape, 1, fmt)


def empty(shape, fmt):
    """An array to be filled; it holds zeros (ones where the format has no zero), so that every element is a value."""
    fmt = as_format(fmt)
    return full(shape, 0 if fmt.has_zero else 1, fmt)


def full(shape, x, fmt):
    """An array filled with x, rounded once; x may be an array that broadcasts to the shape."""
    fmt = as_format(fmt)
    values = np.empty(shape, fmt.carrier)
    values[...] = _checked(rounded(x, fmt), x, fmt)
    return held(values, fmt)


def _checked(value, x, fmt):
    if isinstance(fmt, Format) and not fmt.has_zero and np.isscalar(x) and x == 0:
        raise ValueError(f"{fmt.label} has no zero; fill with another value")
    return value


def eye(n, m=None, k=0, fmt=None):
    """Ones on diagonal k, zeros elsewhere. eye(n, fmt) is short for eye(n, fmt=fmt)."""
    if fmt is None and _names_format(m):
        m, fmt = None, m
    fmt = _format_for(None, fmt)
    return held(rounded(np.eye(n, m, k), fmt), fmt)


def arange(start, stop=None, step=1, fmt=None):
    """start, start + step, ... below stop: exact numbers, each rounded once. arange(n, fmt) counts from 0 to n - 1.

    The format may follow the last number that is given: arange(start, stop, fmt).
    """
    if fmt is None and _names_format(stop):
        stop, fmt = None, stop
    elif fmt is None and _names_format(step):
        step, fmt = 1, step
    if stop is None:
        start, stop = 0, start
    fmt = _format_for(None, fmt)
    first, last, width = (_exact(x) for x in (start, stop, step))
    if not width:
        raise ValueError("arange: step must not be zero")
    count = max(0, -((first - last) // width))
    return array(_numbers(first, width, int(count)), fmt)


def linspace(start, stop, num=50, endpoint=True, fmt=None):
    """num numbers from start to stop at exact equal distances, each rounded once.

    The format may follow the last number that is given: linspace(start, stop, num, fmt).
    """
    if fmt is None and _names_format(num):
        num, fmt = 50, num
    elif fmt is None and _names_format(endpoint):
        endpoint, fmt = True, endpoint
    fmt = _format_for(None, fmt)
    num = _integer("num", num, 0, sys.maxsize)
    first, last = _exact(start), _exact(stop)
    gaps = num - 1 if endpoint else num
    return array(_numbers(first, (last - first) / gaps if gaps > 0 else Fraction(0), num), fmt)


def _names_format(x):
    """Whether an argument is a format, in a place where numbers may be too: "0.1" is one of those."""
    return isinstance(x, (type, np.dtype, Format, FixedPoint)) or (
        isinstance(x, str) and x[:1].isalpha()
    )


def _exact(x):
    exact = exact_parts(float(x) if isinstance(x, Held) else x)
    try:
        return Fraction(exact)
    except (ValueError, OverflowError):
        raise ValueError(f"a finite number is needed here, got {x!r}") from None


def _numbers(first, width, count):
    """first + i * width for i < count: floats where that is exact, else Fractions."""
    unit = math.lcm(first.denominator, width.denominator)
    scale = max(abs(first), abs(first + width * count)) * unit
    if scale < 1 << 53 and unit & (unit - 1) == 0 and unit.bit_length() < 900:
        return float(first) + float(width) * np.arange(count)
    exact = np.empty(count, object)
    exact[:] = [first + i * width for i in range(count)]
    return exact


def create_like(name, fmt, given, options):
    """What np.zeros(shape, like=a) and its kin make, in the format of a or of dtype=; None for other functions."""
    if options.get("dtype") not in (None, float):  # float: what NumPy puts where nothing was said
        fmt = as_format(options["dtype"])
    options = {k: v for k, v in options.items() if k not in ("dtype", "order", "copy", "device")}
    if name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        return array(given[0], fmt)
    if name in ("zeros", "ones", "empty", "full", "eye", "arange"):
        return globals()[name](*given, fmt=fmt, **{k.lower(): v for k, v in options.items()})
    return eye(*given, fmt=fmt) if name == "identity" else None


Format.make = staticmethod(array)

__all__ = [
    "arange",
    "array",
    "asarray",
    "empty",
    "eye",
    "from_codes",
    "full",
    "linspace",
    "ones",
    "zeros",
]
