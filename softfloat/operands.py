"""Taking apart what a user hands over: any array-like of numbers, as float32 or float64 values or as exact numbers.

Nothing is rounded here. What no float64 holds exactly (large integers, longdouble, Fraction, Decimal, decimal strings)
becomes integer parts that are rounded once, straight to the target.
"""

import collections.abc
import decimal
import functools
import inspect
import numbers
import re
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from softfloat.formats import as_format
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    QUIET_CLASS,
    WORD,
    ZERO_CLASS,
)

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
EXACT_INTEGERS = 1 << 53  # every integer up to here is a float64
_HEXADECIMAL = re.compile(r"([+-]?)0x([0-9a-f]+)\.?([0-9a-f]*)(?:p([+-]?[0-9]{1,9}))?")
_LARGEST_POWER = 400_000  # of two, in a hexadecimal string
_LARGEST_EXPONENT = 1 << 40  # of an exact number; beyond, integers would not fit in memory


class Held:
    """What holds values of a format: the base of softfloat.array.SoftArray, by which lower layers know it.

    _values : float32 or float64 array of the format's carrier.   _format : Format or FixedPoint.
    """

    __slots__ = ("_format", "_values")
    kind: type  # the class derived from this one, which puts itself here


def held(values, fmt):
    """Values in the carrier of a format, as an object that holds them; nothing is checked or copied."""
    new = object.__new__(Held.kind)
    new._values = values
    new._format = fmt
    return new


def hold(values, fmt):
    """Values of a format as an object that holds them. Without dimensions it is a scalar, which nothing can change."""
    values = np.asarray(values, fmt.carrier)
    if values.ndim == 0 and values.flags.writeable:
        values = values.copy()
        values.flags.writeable = False
    return held(values, fmt)


def keeps_format(function):
    """Decorator of f(x, ..., fmt, ...): where an argument before fmt holds values of a format, so does the result."""
    names = list(inspect.signature(function).parameters)
    operands = names[: names.index("fmt")]

    @functools.wraps(function)
    def dressed(*given, **options):
        every = {**dict(zip(names, given, strict=False)), **options}
        holders = {n: every[n] for n in operands if isinstance(every.get(n), Held)}
        if not holders:
            return function(*given, **options)
        every.update((n, x._values) for n, x in holders.items())
        result = function(**every)
        return result if every.get("out") is not None else hold(result, as_format(every["fmt"]))

    return dressed


class Devices:
    """The functions for arrays on a device: a layer above this one, which softfloat._late says how to load."""

    load: Any = None  # -> the module of functions


_DEVICE_LIBRARIES = frozenset(("numba", "numba_cuda", "cupy", "torch"))


def on_device(*operands):
    """Whether one of them may lie on a CUDA device: arrays of numba and CuPy, tensors of PyTorch that say so."""
    for x in operands:
        if type(x) is np.ndarray:
            continue
        root = type(x).__module__.partition(".")[0]
        if root in _DEVICE_LIBRARIES and (root != "torch" or getattr(x, "is_cuda", False)):
            return True
        if getattr(type(x), "on_device", False):
            return True
    return False


class Parts:
    """Exact numbers taken apart: arrays of class, sign, exponent, high and low word, all of one shape."""

    def __init__(self, kinds, negatives, exponents, highs, lows, wrap=None):
        self.shape = np.shape(kinds)
        self.arrays = tuple(
            np.ascontiguousarray(a, np.int64).reshape(self.shape)
            for a in (kinds, negatives, exponents, highs, lows)
        )
        self.wrap = wrap


def _garbage(x, what):
    return TypeError(
        f"cannot take {what} as real numbers; give floats, integers, Fraction, Decimal or decimal strings"
    )


def as_values(x):
    """(array of float32 or float64 values or Parts, whether the dtype was float32/float64 itself).

    Raises TypeError for complex, datetime, void and other data that are not real numbers.
    """
    a = x if type(x) is np.ndarray else _to_array(x)
    dtype = a.dtype
    if not dtype.isnative:
        a = a.astype(dtype.newbyteorder("="))
        dtype = a.dtype
    if dtype == FLOAT32 or dtype == FLOAT64:
        return a, True
    kind = dtype.kind
    if kind == "b":
        return a.astype(FLOAT32), False
    if kind in "iu":
        if dtype.itemsize < 4:
            return a.astype(FLOAT32), False
        if dtype.itemsize == 4:
            return a.astype(FLOAT64), False
        return _from_long_integers(a), False
    if kind == "f":
        if dtype.itemsize == 2:
            return a.astype(FLOAT32), False
        if dtype == np.longdouble:
            return _from_long_double(a), False
    if kind in "OUS":
        return _from_objects(a), False
    if kind == "V" or dtype.isbuiltin == 2:
        try:  # the types of ml_dtypes: each is exact in float32
            if not dtype.fields:
                name = dtype.name
                if name not in ("int1", "int2", "int4", "uint1", "uint2", "uint4"):
                    as_format(dtype)
                return a.astype(FLOAT32), False
        except (ValueError, TypeError):
            pass
    raise _garbage(x, f"an array of dtype {dtype}")


def host_only(x):
    """TypeError for an array on a device, naming the public function that was called: the package's outermost."""
    if not on_device(x):
        return
    frame, name = sys._getframe(1), ""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("softfloat"):
        name = frame.f_code.co_name
        if name in ("dressed", "run") and callable(frame.f_locals.get("function")):  # a decorator's
            name = frame.f_locals["function"].__name__
        frame = frame.f_back
    raise TypeError(
        f"softfloat.{name} is not offered for arrays on a device; copy them to the host (.copy_to_host() of numba, "
        ".get() of CuPy, .cpu() of PyTorch, .to_host() of soft arrays)"
    )


def _to_array(x):
    if isinstance(x, Held):
        return x._values
    host_only(x)
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray) if type(x) is not np.ndarray else x
    if isinstance(x, (Fraction, decimal.Decimal, str)):
        return np.array(x, dtype=object)
    if x is None or isinstance(x, (dict, set, bytes)):
        raise _garbage(x, type(x).__name__)
    try:
        a = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"the input does not form an array: {error}") from None
    if a.dtype.kind in "US":  # a list that mixes strings and numbers would have lost digits
        a = np.array(x, dtype=object)
    elif a.dtype.kind == "f" and not hasattr(x, "dtype") and _is_sequence(x):
        # NumPy turns [2**60 + 1, 0.5] into floats; keep what it would have rounded.
        if _holds_large_integer(x):
            a = np.array(x, dtype=object)
    return a


def _is_sequence(x):
    return isinstance(x, collections.abc.Sequence) and not isinstance(x, (str, bytes))


def _holds_large_integer(x):
    if _is_sequence(x):
        return any(_holds_large_integer(item) for item in x)
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "iu" and x.dtype.itemsize == 8
    return isinstance(x, (int, np.integer)) and not -EXACT_INTEGERS <= int(x) <= EXACT_INTEGERS


def _from_long_integers(a):
    low, high = (int(a.min()), int(a.max())) if a.size else (0, 0)
    if -EXACT_INTEGERS <= low and high <= EXACT_INTEGERS:
        return a.astype(FLOAT64)
    negative = a < 0 if a.dtype.kind == "i" else np.zeros(a.shape, bool)
    bits = a.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - bits, bits)
    kinds = np.where(magnitude == 0, ZERO_CLASS, FINITE_CLASS)
    highs = (magnitude >> np.uint64(2)).astype(np.int64)
    lows = (magnitude & np.uint64(3)).astype(np.int64) << (WORD - 2)
    return Parts(kinds, negative, np.full(a.shape, 63), highs, lows)


def _from_long_double(a):
    a = np.asarray(a, np.longdouble)
    with np.errstate(all="ignore"):
        narrow = a.astype(FLOAT64)
        if np.all((narrow == a) | np.isnan(a)):
            return narrow
        significand, exponent = np.frexp(np.abs(a))
        scaled = np.ldexp(np.where(np.isfinite(a), significand, 0), WORD)
        highs = scaled.astype(np.int64)
        lows = np.ldexp(scaled - highs.astype(np.longdouble), WORD).astype(np.int64)
    kinds = np.where(a == 0, ZERO_CLASS, FINITE_CLASS)
    kinds = np.where(np.isinf(a), INFINITE_CLASS, np.where(np.isnan(a), QUIET_CLASS, kinds))
    return Parts(kinds, np.signbit(a), exponent.astype(np.int64) - 1, highs, lows)


def _from_objects(a):
    flat = [exact_parts(item) for item in a.ravel().tolist()]
    if all(isinstance(item, float) for item in flat):
        return np.array(flat, FLOAT64).reshape(a.shape)
    columns = np.array([parts_of(item) for item in flat], np.int64).reshape(-1, 5)
    return Parts(*(columns[:, j].reshape(a.shape) for j in range(5)))


def exact_parts(item):
    """A number as a float where that is exact, else as a Fraction; strings are read as decimals or ratios."""
    if isinstance(item, bytes):
        item = item.decode("ascii", "replace")
    if isinstance(item, str):
        item = _parse(item)
    if isinstance(item, (float, np.floating)):
        if isinstance(item, np.longdouble) and np.isfinite(item):
            return _nearest_or_exact(Fraction(*item.as_integer_ratio())) if item else float(item)
        return float(item)
    if isinstance(item, decimal.Decimal):
        if item.is_nan():
            return float("nan")
        if item.is_infinite() or not item:
            return float(item)
        if abs(item.adjusted()) > 100_000:
            raise ValueError(f"the decimal exponent of {item} is too large to be taken exactly")
        item = Fraction(item)
    elif isinstance(item, (np.timedelta64, np.datetime64)):
        _refuse(item)
    elif isinstance(item, (bool, np.bool_, int, np.integer)):
        item = Fraction(int(item))
    elif isinstance(item, numbers.Rational):
        item = Fraction(int(item.numerator), int(item.denominator))
    if not isinstance(item, Fraction):
        try:
            return (
                float(np.float32(item)) if type(item).__module__ == "ml_dtypes" else _refuse(item)
            )
        except (TypeError, ValueError):
            _refuse(item)
    return _nearest_or_exact(item)


def _nearest_or_exact(item):
    """A Fraction as a float where that is exact."""
    try:
        nearest = item.numerator / item.denominator
    except OverflowError:
        return item
    return nearest if Fraction(nearest) == item else item


def exact_array(x):
    """x as an object array of floats and Fractions, each exact."""
    a = np.asarray(_to_array(x))
    flat = [
        exact_parts(item) for item in (a if a.dtype == np.longdouble else a.astype(object)).ravel()
    ]
    exact = np.empty(len(flat), object)
    exact[:] = flat
    return exact.reshape(a.shape)


def _refuse(item):
    raise _garbage(item, f"{type(item).__name__} {item!r}")


def _parse(text):
    word = text.strip().lower().replace("_", "")
    try:
        if word.lstrip("+-") in ("inf", "infinity", "nan"):
            return float(word)
        hexadecimal = _HEXADECIMAL.fullmatch(word)
        if hexadecimal:
            sign, whole, part, power = hexadecimal.groups()
            part, power = part or "", int(power or 0)
            if abs(power) > _LARGEST_POWER:
                raise ValueError
            digits = int(whole + part, 16)
            if not digits:
                return -0.0 if sign == "-" else 0.0
            exact = Fraction(digits) * Fraction(2) ** (power - 4 * len(part))
            return -exact if sign == "-" else exact
        if "/" in word:
            return Fraction(word)
        return decimal.Decimal(word)
    except (ValueError, decimal.InvalidOperation, ZeroDivisionError):
        raise ValueError(
            f"cannot read {text!r} as a number; write a decimal such as '0.1' or '1e-7', "
            "a ratio such as '1/3', 'inf' or 'nan'"
        ) from None


def parts_of(item):
    """(class, negative, exponent, high, low) of a float or Fraction, the last bit of `low` jammed."""
    if isinstance(item, float):
        negative = int(np.signbit(item))
        if item != item:
            return QUIET_CLASS, negative, 0, 0, 0
        if item in (float("inf"), float("-inf")):
            return INFINITE_CLASS, negative, 0, 0, 0
        if item == 0:
            return ZERO_CLASS, negative, 0, 0, 0
        item = Fraction(item)
    numerator, denominator = abs(item.numerator), item.denominator
    shift = 2 * WORD - numerator.bit_length() + denominator.bit_length()
    if shift >= 0:
        quotient, rest = divmod(numerator << shift, denominator)
    else:
        quotient, rest = divmod(numerator, denominator << -shift)
    # The quotient has 124 or 125 bits.
    if quotient.bit_length() > 2 * WORD:
        rest |= quotient & 1
        quotient >>= 1
        shift -= 1
    quotient |= rest != 0
    exponent = 2 * WORD - 1 - shift
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(f"the exponent of {item} is too large to be taken exactly")
    return FINITE_CLASS, int(item < 0), exponent, quotient >> WORD, quotient & ((1 << WORD) - 1)
