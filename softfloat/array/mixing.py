"""What may meet a SoftArray in an operation, and what it is worth there.

- Python numbers (bool, int, float, Fraction, Decimal) are weak: each is rounded to the format, to nearest.
- SoftArrays of one format; two formats are a TypeError.
- Other arrays (NumPy's, its scalars, ml_dtypes', lists) of which every element is a value of the format; an element
  that is none is a TypeError that names it. Nothing is rounded behind the user's back.
"""

import contextvars
import decimal
import functools
import math
from fractions import Fraction

import numpy as np

from softfloat import comparison
from softfloat.array.processor import standard
from softfloat.fixed_point import FixedPoint
from softfloat.functional import quantize
from softfloat.operands import FLOAT64, Held, exact_parts, host_only, on_device

WEAK = (bool, int, float, Fraction, decimal.Decimal)


def is_weak(x):
    """Whether x is a Python number, which takes the format of what it meets; NumPy's float64 is none."""
    return isinstance(x, WEAK) and not isinstance(x, np.generic)


def quietly(function, *given, **options):
    """Call a function outside all status and rounding blocks: what it does is no operation of the user's."""
    return contextvars.Context().run(function, *given, **options)


def literal(x, fmt):
    """A Python number as a read-only array without dimensions: the nearest value of the format."""
    if type(x) is int or (type(x) is float and x):
        return _remembered(x, fmt)
    return _unusual(x, fmt)


@standard
def _unusual(x, fmt):
    """What is not remembered: -0.0, which has the key of 0.0, and numbers that a processor may take for zeros."""
    if type(x) is float and x == 0 and math.copysign(1.0, x) > 0:
        return _remembered(0, fmt)
    return _literal(x, fmt)


@standard
def _literal(x, fmt):
    values = np.array(quietly(quantize, x, fmt), fmt.carrier)
    values.flags.writeable = False
    return values


_remembered = functools.lru_cache(maxsize=1024, typed=True)(_literal)


@standard
def comparand(x, fmt):
    """A Python number to compare with: the nearest value, an infinity beyond the range even where there is none."""
    if type(x) in (float, int) and -fmt.max < x < fmt.max and (fmt.signed or x >= 0):
        return literal(x, fmt)
    exact = exact_parts(x)
    if isinstance(exact, float) and not math.isfinite(exact):
        return np.array(exact, fmt.carrier)
    if exact < 0 and not fmt.signed:
        return np.array(-math.inf, fmt.carrier)
    top = Fraction(fmt.max)
    step = top - Fraction(float(comparison.next_down(fmt.max, fmt)))
    if abs(exact) >= top + step / 2:
        return np.array(-math.inf if exact < 0 else math.inf, fmt.carrier)
    if isinstance(fmt, FixedPoint):
        exact = min(max(exact, fmt.min), fmt.max)  # so that nothing wraps
    return literal(exact, fmt)


def two_formats(first, second):
    return TypeError(
        f"cannot mix {first.label} and {second.label}: convert one of them with .astype(fmt)"
    )


def operand(x, fmt):
    """What x is worth beside values of a format: values, in the format's carrier."""
    if on_device(x):
        raise TypeError(
            f"a SoftArray of the host and a {type(x).__name__} of a device do not mix; copy one of them, for instance "
            "with .to_device(), and call softfloat's functions"
        )
    if isinstance(x, Held):
        if x._format is not fmt and x._format != fmt:
            raise two_formats(fmt, x._format)
        return x._values
    if is_weak(x):
        return literal(x, fmt)
    return exact_values(x, fmt)


@standard
def exact_values(x, fmt):
    """An array-like as values of a format; TypeError, naming the first element, unless all are."""
    text = getattr(getattr(x, "dtype", None), "kind", "") in ("U", "S")
    if text or x is None or any(isinstance(item, (str, bytes)) for item in leaves(x)):
        raise TypeError(f"cannot mix {fmt.label} values with text or None, got {x!r}")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"cannot mix {fmt.label} values with a masked array; mask the result instead"
        )
    if isinstance(x, (list, tuple)):
        x = without_held(x, fmt)
    try:
        values = np.asarray(quietly(quantize, x, fmt), fmt.carrier)
    except ValueError as error:
        raise TypeError(f"cannot mix {fmt.label} values with this array: {error}") from None
    missing = np.isnan(values)
    if fmt.has_nan and missing.any():
        missing &= ~np.asarray(comparison.isnan(x))
    wrong = ~(np.asarray(quietly(comparison.equal, values, x)) | np.isnan(values)) | missing
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        shown = np.asarray(x)[place]
        raise TypeError(
            f"cannot mix {fmt.label} values with {_described(x)}: {_place(place)} is {shown!s}, no value "
            f"of {fmt.label}. Round it first: softfloat.array(x, fmt)"
        )
    return values


def _described(x):
    dtype = getattr(x, "dtype", None)
    return f"an array of dtype {dtype}" if dtype is not None else f"a {type(x).__name__}"


def _place(place):
    if not place:
        return "it"
    return f"element {place if len(place) > 1 else place[0]}"


def without_held(x, fmt=None):
    """A nested sequence with plain numbers and arrays where it had SoftArrays, which must be of the format."""
    if isinstance(x, Held):
        if fmt is not None and x._format != fmt:
            raise two_formats(fmt, x._format)
        return x._values if x._values.ndim else x._values[()]
    if isinstance(x, (list, tuple)):
        return [without_held(item, fmt) for item in x]
    return x


def plain_dtype(x):
    """The dtype that x names if it is one of integers or bool, else None."""
    if isinstance(x, type) and not issubclass(x, (int, np.integer, np.bool_)):
        return None
    if not isinstance(x, (type, str, np.dtype)):
        return None
    try:
        dtype = np.dtype(x)
    except TypeError:
        return None
    return dtype if dtype.kind in "iub" and dtype.isbuiltin == 1 else None


def leaves(x):
    """The items of nested lists and tuples."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from leaves(item)
    else:
        yield x


def truth(x):
    """A condition as NumPy takes it: of a SoftArray, whether elements are not zero."""
    return x._values != 0 if isinstance(x, Held) else x


def no_values(x, name):
    """x, an argument that chooses elements or counts them: TypeError for a SoftArray, as NumPy has it for floats."""
    for item in leaves(x):
        if isinstance(item, Held):
            raise TypeError(
                f"{name} takes plain integers or truth values, got a SoftArray of {item._format.label}: "
                "say a.astype(int), or a != 0"
            )
    return x


def common_format(operands):
    """The one format of the SoftArrays among the operands, or None; TypeError for two."""
    found = None
    for x in operands:
        if isinstance(x, Held):
            if found is not None and x._format is not found and x._format != found:
                raise two_formats(found, x._format)
            found = x._format
    return found


@standard
def rounded(x, fmt, **options):
    """Anything as values of the format, in its carrier, rounded once; options as for `quantize`."""
    if isinstance(x, (list, tuple)):
        x = without_held(x)
    elif isinstance(x, Held):
        x = x._values
    host_only(x)
    return np.asarray(quantize(x, fmt, **options), fmt.carrier)


@standard
def wide(values):
    """Values as float64, which every value is; quiet."""
    with np.errstate(all="ignore"):
        return values.astype(FLOAT64)
