"""Elementary functions, each the exact real result rounded once to a format, in every mode.

Special values are those of NumPy and IEEE 754-2019, section 9.2. Operands are taken as the exact numbers they are and
need not be values of the format; all that `quantize` says of inputs, results, `out=` and options holds here. Where the
124 bits of the compiled functions do not decide a rounding, integers of any length do: no result is a guess.
"""

import functools
from itertools import chain
from typing import Unpack

import numpy as np

from softfloat.backends.exact import COUNTED, OFFSET, parts_loop
from softfloat.format import Format
from softfloat.formats import as_format, binary64
from softfloat.functional import (
    Choice,
    Options,
    _bits_view,
    _dress,
    _each_block,
    _mantissa,
    _may_fail,
    _no_result,
    _opened,
    _plan,
    _round_parts,
    _separate,
    divide,
    multiply,
)
from softfloat.operands import FLOAT64, Devices, Parts, exact_array, on_device
from softfloat.rounding import ODD, STOCHASTIC
from softfloat.status import active_status

GRAIN = 1 << 13  # elements at a time, so that the bounds of the quick way stay in the cache
QUICK_BITS = 36  # of a significand, random bits included, up to which float64 usually decides
PAIR_BITS = 50  # up to which a float64 rounded to odd stands for a pair of them


@functools.cache
def _modules():
    """The loops and the exact evaluation, loaded by the first call: their tables would slow the import."""
    import softfloat.backends.elementary as loops
    import softfloat.ops.elementary.exact as exact

    return loops, exact


def _call(name, operands, fmt, out, options):
    """One function on broadcast operands: the whole path from arguments to result."""
    if on_device(*operands):
        return Devices.load().elementwise(name, operands, fmt, out, options)
    fmt = as_format(fmt)
    choice = Choice.of(name, options)
    values, shape, result = _opened(operands, fmt, out)
    if any(isinstance(value, Parts) for value in values):
        exact = [np.broadcast_to(exact_array(x), shape).ravel() for x in operands]
        exact_result = _modules()[1].exact_result
        rows = [exact_result(name, items) for items in zip(*exact, strict=True)]
        *columns, flags = np.array(rows, np.int64).reshape(-1, 6).T
        parts = Parts(*(column.reshape(shape) for column in columns))
        _round_parts(parts, fmt, choice, result, flags=np.ascontiguousarray(flags))
    else:
        evaluation = _Evaluation(name, fmt, choice, shape)
        _each_block(evaluation, _separate(values, out), result, GRAIN)
        if evaluation.missing:
            _no_result(fmt, min(evaluation.missing), shape)
    return _dress(result, operands, out, fmt)


class _Evaluation:
    """One function on flat blocks: in float64 or pairs of it where these decide the rounding, else by definition."""

    def __init__(self, name, fmt, choice, shape):
        self.name, self.fmt, self.choice = name, fmt, choice
        self.loops, self.exact = _modules()
        self.words, self.key = choice.words(shape), np.uint64(choice.key)
        # Asked for here: blocks may be done by threads that know nothing of the caller's context.
        self.collected = active_status()
        self.missing = []
        self.bounds = self.plan = None
        if not self.collected and not _may_fail(fmt):
            self._choose()

    def _choose(self):
        """The quick way: bounds of the results, and the rounding that both take unless they are rounded already."""
        fmt, choice = self.fmt, self.choice
        random = choice.mode >= STOCHASTIC
        bits = fmt.mantissa_bits + (choice.bits if random else 0)
        pairs = isinstance(fmt, Format) and self.name in self.loops.PAIRS
        if bits <= QUICK_BITS:
            self.bounds = self.loops.bounds_loop(self.name)
        elif pairs and bits <= PAIR_BITS:
            self.bounds = self._pair_bounds(ODD)
        elif pairs and not random and fmt == binary64:
            self.bounds = self._pair_bounds(choice.mode)
            return
        self.plan = _plan(fmt, FLOAT64, choice)
        if self.plan is None:
            self.bounds = None

    def _pair_bounds(self, mode):
        loop = self.loops.pair_bounds_loop(self.name)
        return lambda *arrays: loop(*arrays, mode)

    def _rounded(self, bound, start):
        """Round a bound in place; False where that cannot be done."""
        return self.plan is None or self.plan.in_place(bound, self.key, self.choice.offset + start)

    def __call__(self, blocks, target, start):
        """Fill `target`, whose first element has this index."""
        blocks = [x.copy() if np.may_share_memory(x, target) else x for x in blocks]
        if self.bounds is None:
            self.define(blocks, target, start)
            return
        low, high = np.empty((2, target.size))
        undecided = np.empty(target.size, np.int64)
        found = -1
        if (
            self.bounds(*blocks, low, high)
            and self._rounded(low, start)
            and self._rounded(high, start)
        ):
            found = self.loops.keep_equal(low, high, target, undecided)
        if found < 0:
            self.define(blocks, target, start)
        elif found:
            indices = undecided[:found]
            buffer = np.empty(found, target.dtype)
            self.define([x[indices] for x in blocks], buffer, start, indices)
            target[indices] = buffer

    def define(self, blocks, target, start, indices=None):
        """Evaluate to 124 bits and round once; in Python what those leave open. indices : places of scattered ones."""
        counts = np.zeros(COUNTED, np.int64)
        undecided = np.empty(target.size, np.int64)
        columns = np.empty((self.loops.COLUMNS, target.size), np.int64)
        bits = [_bits_view(x).astype(np.int64) for x in blocks]
        evaluate = self.loops.evaluation_loop(self.name)
        evaluate(*chain(*zip(bits, map(_mantissa, blocks), strict=True)), columns)
        options = self.choice.array()
        options[OFFSET] += start
        words = self.words[start : start + target.size] if self.words.size else self.words
        if indices is not None:
            words = self.words_at(start, indices)
        first, found = self.loops.round_columns(
            columns, _bits_view(target), _mantissa(target),
            self.fmt.record, options, self.key, words, counts, undecided,
        )  # fmt: skip
        failed = [first] if first >= 0 else []
        if found:
            places = undecided[:found]
            words = self.words_at(start, places if indices is None else indices[places])
            failed += self.decide(blocks, target, places, words, counts)
        self.missing.extend(start + i for i in failed)
        for block in self.collected:
            block.add(counts)

    def words_at(self, start, indices):
        """The random words of some elements of a block; empty where none is needed."""
        if self.choice.mode < STOCHASTIC:
            return self.words
        if self.words.size:
            return self.words[start + indices]
        return np.array([self.choice.word(start + int(i)) for i in indices], np.int64)

    def decide(self, blocks, target, places, words, counts):
        """Finish the elements that 124 bits leave open; the places of those without a result."""
        rows = [self.exact.exact_result(self.name, [float(x[i]) for x in blocks]) for i in places]
        columns = np.ascontiguousarray(np.array(rows, np.int64).T)
        buffer = np.empty(len(rows), target.dtype)
        found = parts_loop()(
            *columns, _bits_view(buffer), _mantissa(buffer), self.fmt.record, self.choice.array(),
            self.key, words, counts,
        )  # fmt: skip
        target[places] = buffer
        return [int(places[found])] if found >= 0 else []


def exp(x, fmt, *, out=None, **options: Unpack[Options]):
    """e**x."""
    return _call("exp", (x,), fmt, out, options)


def exp2(x, fmt, *, out=None, **options: Unpack[Options]):
    """2**x; exact at integers."""
    return _call("exp2", (x,), fmt, out, options)


def exp10(x, fmt, *, out=None, **options: Unpack[Options]):
    """10**x (IEEE 754's exp10; NumPy has none)."""
    return _call("exp10", (x,), fmt, out, options)


def expm1(x, fmt, *, out=None, **options: Unpack[Options]):
    """e**x - 1, accurate where x is small; keeps the sign of zero."""
    return _call("expm1", (x,), fmt, out, options)


def log(x, fmt, *, out=None, **options: Unpack[Options]):
    """The natural logarithm: -infinity and divide_by_zero at zeros, NaN below."""
    return _call("log", (x,), fmt, out, options)


def log2(x, fmt, *, out=None, **options: Unpack[Options]):
    """The logarithm to base 2; exact at powers of two."""
    return _call("log2", (x,), fmt, out, options)


def log10(x, fmt, *, out=None, **options: Unpack[Options]):
    """The logarithm to base 10; exact at powers of ten."""
    return _call("log10", (x,), fmt, out, options)


def log1p(x, fmt, *, out=None, **options: Unpack[Options]):
    """log(1 + x), accurate where x is small; -infinity at -1, NaN below."""
    return _call("log1p", (x,), fmt, out, options)


def cbrt(x, fmt, *, out=None, **options: Unpack[Options]):
    """The cube root, of the sign of x."""
    return _call("cbrt", (x,), fmt, out, options)


def rsqrt(x, fmt, *, out=None, **options: Unpack[Options]):
    """1/sqrt(x) (IEEE 754's rSqrt), rounded once; an infinity of its sign at a zero, NaN below."""
    return _call("rsqrt", (x,), fmt, out, options)


def sin(x, fmt, *, out=None, **options: Unpack[Options]):
    """The sine of x radians, reduced exactly however large x is; NaN at infinities."""
    return _call("sin", (x,), fmt, out, options)


def cos(x, fmt, *, out=None, **options: Unpack[Options]):
    """The cosine of x radians."""
    return _call("cos", (x,), fmt, out, options)


def tan(x, fmt, *, out=None, **options: Unpack[Options]):
    """The tangent of x radians."""
    return _call("tan", (x,), fmt, out, options)


def sinpi(x, fmt, *, out=None, **options: Unpack[Options]):
    """sin(pi * x) (IEEE 754's sinPi): zeros of x's sign at integers."""
    return _call("sinpi", (x,), fmt, out, options)


def cospi(x, fmt, *, out=None, **options: Unpack[Options]):
    """cos(pi * x) (IEEE 754's cosPi): +0 half-way between integers."""
    return _call("cospi", (x,), fmt, out, options)


def tanpi(x, fmt, *, out=None, **options: Unpack[Options]):
    """tan(pi * x) (IEEE 754's tanPi)."""
    return _call("tanpi", (x,), fmt, out, options)


def sinc(x, fmt, *, out=None, **options: Unpack[Options]):
    """sin(pi * x) / (pi * x), as NumPy's: 1 at zero; +0 at other integers."""
    return _call("sinc", (x,), fmt, out, options)


def arcsin(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse sine, in [-pi/2, pi/2]; NaN beyond [-1, 1]."""
    return _call("arcsin", (x,), fmt, out, options)


def arccos(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse cosine, in [0, pi]; NaN beyond [-1, 1]."""
    return _call("arccos", (x,), fmt, out, options)


def arctan(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse tangent, in [-pi/2, pi/2]."""
    return _call("arctan", (x,), fmt, out, options)


def arctan2(y, x, fmt, *, out=None, **options: Unpack[Options]):
    """The angle of the point (x, y), in [-pi, pi], of the sign of y."""
    return _call("arctan2", (y, x), fmt, out, options)


def degrees(x, fmt, *, out=None, **options: Unpack[Options]):
    """x * 180/pi."""
    return _call("degrees", (x,), fmt, out, options)


def radians(x, fmt, *, out=None, **options: Unpack[Options]):
    """x * pi/180."""
    return _call("radians", (x,), fmt, out, options)


def sinh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The hyperbolic sine."""
    return _call("sinh", (x,), fmt, out, options)


def cosh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The hyperbolic cosine."""
    return _call("cosh", (x,), fmt, out, options)


def tanh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The hyperbolic tangent."""
    return _call("tanh", (x,), fmt, out, options)


def arcsinh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse hyperbolic sine."""
    return _call("arcsinh", (x,), fmt, out, options)


def arccosh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse hyperbolic cosine; NaN below 1."""
    return _call("arccosh", (x,), fmt, out, options)


def arctanh(x, fmt, *, out=None, **options: Unpack[Options]):
    """The inverse hyperbolic tangent: infinite at +-1, NaN beyond."""
    return _call("arctanh", (x,), fmt, out, options)


def erf(x, fmt, *, out=None, **options: Unpack[Options]):
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x (scipy.special.erf)."""
    return _call("erf", (x,), fmt, out, options)


def hypot(x, y, fmt, *, out=None, **options: Unpack[Options]):
    """sqrt(x*x + y*y); infinite if one operand is, also beside a NaN."""
    return _call("hypot", (x, y), fmt, out, options)


def power(x, y, fmt, *, out=None, **options: Unpack[Options]):
    """x**y (IEEE 754's pow): 1 for y = 0 or x = 1 whatever the other is; NaN for x < 0 unless y is an integer."""
    return _call("power", (x, y), fmt, out, options)


def logaddexp(x, y, fmt, *, out=None, **options: Unpack[Options]):
    """log(e**x + e**y)."""
    return _call("logaddexp", (x, y), fmt, out, options)


def logaddexp2(x, y, fmt, *, out=None, **options: Unpack[Options]):
    """log2(2**x + 2**y)."""
    return _call("logaddexp2", (x, y), fmt, out, options)


def square(x, fmt, *, out=None, **options: Unpack[Options]):
    """x * x."""
    return multiply(x, x, fmt, out=out, **options)


def reciprocal(x, fmt, *, out=None, **options: Unpack[Options]):
    """1 / x."""
    return divide(1.0, x, fmt, out=out, **options)


float_power = power
deg2rad, rad2deg = radians, degrees

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "cosh",
    "cospi",
    "deg2rad",
    "degrees",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "float_power",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "rsqrt",
    "sin",
    "sinc",
    "sinh",
    "sinpi",
    "square",
    "tan",
    "tanh",
    "tanpi",
]
