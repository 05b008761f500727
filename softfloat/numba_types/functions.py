"""Functions of soft scalars in compiled code: signs, extremes, integral values, remainders, powers, conversions.

They give what softfloat.array gives for the ufuncs of the same names. To add a function to a table is to add a line.
"""

import functools
import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import errors, types
from numba.extending import intrinsic, lower_builtin, overload_attribute, overload_method

from softfloat import functional
from softfloat._jit import jit
from softfloat.bits import fma, is_negative, to_bits
from softfloat.format import FLOAT64
from softfloat.formats import as_format
from softfloat.numba_types import forms
from softfloat.numba_types.kinds import SoftDType, SoftFloatType, raw, wrapper
from softfloat.numba_types.operators import (
    NO_WORD,
    deterministic,
    meeting,
    of_two,
    ours,
    reader,
)
from softfloat.numba_types.options import FormatConstant, literal
from softfloat.ops.error_free import divide_with_error, positive_nan, to_odd
from softfloat.rounding import EVEN, NEGATIVE, POSITIVE, ZERO


def in_mode(soft, mode):
    """The same soft type with another rounding mode."""
    return SoftFloatType(soft.fmt, soft.rules._replace(mode=mode))


@functools.cache
def settled(soft, mode=None, keeps_nan=False):
    """f(v): a float64 rounded to the format, as a float of the lane; in the type's mode or another.

    Also for exact results, where the format has no -0, no sign, or not the range.
    """
    target = soft if mode is None else in_mode(soft, mode)
    rounded = forms.rounder(target, FLOAT64.dtype, keeps_nan)
    slow = forms.defined(target, "quantize")
    number = forms.number_type(soft)
    known = int(rounded is not None)

    @jit(inline=True)
    def run(v):
        if known == 1:
            return number(rounded(v, NO_WORD))
        return number(slow(v, v, v, NO_WORD))

    return run


# ---------------------------------------------------------------- one operand
@jit(inline=True)
def _negate(v):
    return -v


@jit(inline=True)
def _same(v):
    return v


@jit(inline=True)
def _magnitude(v):
    return abs(v)


@jit(inline=True)
def _sign(v):
    return v if v != v else (1.0 if v > 0.0 else (-1.0 if v < 0.0 else 0.0))


@jit(inline=True)
def _floor(v):
    return np.floor(v)


@jit(inline=True)
def _ceil(v):
    return np.ceil(v)


@jit(inline=True)
def _trunc(v):
    return np.trunc(v)


@jit(inline=True)
def _rint(v):
    return np.rint(v)


# The exact result in float64, and the mode in which it is rounded (None: the type's own).
EXACT = {
    operator.neg: (_negate, None),
    operator.pos: (_same, None),
    abs: (_magnitude, None),
    math.fabs: (_magnitude, None),
    np.negative: (_negate, None),
    np.positive: (_same, None),
    np.absolute: (_magnitude, None),
    np.fabs: (_magnitude, None),
    np.sign: (_sign, EVEN),
    np.floor: (_floor, NEGATIVE),
    np.ceil: (_ceil, POSITIVE),
    np.trunc: (_trunc, ZERO),
    np.rint: (_rint, EVEN),
}
_UNROUNDED = (_negate, _same, _magnitude)  # exact where the format has a sign and -0


def _exact(function, compute, mode):
    @ours(function)
    def choose(a):
        if not isinstance(a, SoftFloatType):
            return None
        wrap = wrapper(a)
        if compute in _UNROUNDED and a.fmt.has_negative_zero:
            return lambda a: wrap(compute(raw(a)))
        settle = settled(a, EVEN if mode is None else mode, True)
        return lambda a: wrap(settle(compute(np.float64(raw(a)))))


for _function, (_compute, _mode) in EXACT.items():
    _exact(_function, _compute, _mode)


@ours(np.square)
def _square(a):
    return (lambda a: a * a) if isinstance(a, SoftFloatType) else None


@ours(np.reciprocal)
def _reciprocal(a):
    return (lambda a: 1 / a) if isinstance(a, SoftFloatType) else None


# Python's own go to integers.
def _to_integer(function, compute):
    @ours(function)
    def choose(a):
        if isinstance(a, SoftFloatType):
            return lambda a: np.int64(compute(np.float64(raw(a))))


for _function, _compute in (
    (math.floor, _floor),
    (math.ceil, _ceil),
    (math.trunc, _trunc),
    (round, _rint),
):
    _to_integer(_function, _compute)


@ours(np.signbit)
def _signbit(a):
    return (lambda a: is_negative(to_bits(raw(+a)))) if isinstance(a, SoftFloatType) else None


@ours(operator.not_)
def _not(a):
    return (lambda a: raw(a) == 0.0) if isinstance(a, SoftFloatType) else None


@lower_builtin(bool, SoftFloatType)
def _truth(context, builder, signature, arguments):
    """Whether a number is not zero, in integers: a user's fastmath must not reach a comparison with NaN."""
    number = builder.extract_value(arguments[0], 0)
    word = ir.IntType(64 if isinstance(number.type, ir.DoubleType) else 32)
    magnitude = builder.shl(builder.bitcast(number, word), ir.Constant(word, 1))
    return builder.icmp_unsigned("!=", magnitude, ir.Constant(word, 0))


# ---------------------------------------------------------------- two operands
@jit(inline=True)
def _maximum(x, y):
    if x != x or y != y:
        return positive_nan(x + y)
    if x == y:
        return y if is_negative(to_bits(x)) else x
    return x if x > y else y


@jit(inline=True)
def _minimum(x, y):
    if x != x or y != y:
        return positive_nan(x + y)
    if x == y:
        return x if is_negative(to_bits(x)) else y
    return x if x < y else y


@jit(inline=True)
def _fmax(x, y):
    if x != x:
        return positive_nan(y)
    return x if y != y else _maximum(x, y)


@jit(inline=True)
def _fmin(x, y):
    if x != x:
        return positive_nan(y)
    return x if y != y else _minimum(x, y)


@jit(inline=True)
def _larger(x, y):
    return y if y > x else x


@jit(inline=True)
def _smaller(x, y):
    return y if y < x else x


# One of the operands, in the floats of the lane. Python's max and min keep the first where neither is above.
CHOICES = {
    np.maximum: _maximum,
    np.minimum: _minimum,
    np.fmax: _fmax,
    np.fmin: _fmin,
    max: _larger,
    min: _smaller,
}


def _choice(function, compute):
    @ours(function)
    def choose(a, b):
        soft = meeting(function.__name__, a, b)
        if soft is None:
            return None
        x, y, wrap = reader(soft, a), reader(soft, b), wrapper(soft)
        return lambda a, b: wrap(compute(x(a), y(b)))


for _function, _compute in CHOICES.items():
    _choice(_function, _compute)


def _three(function):
    @ours(function)
    def choose(a, b, c):
        if meeting(function.__name__, a, b, c) is not None:
            return lambda a, b, c: function(function(a, b), c)


def _four(function):
    @ours(function)
    def choose(a, b, c, d):
        if meeting(function.__name__, a, b, c, d) is not None:
            return lambda a, b, c, d: function(function(a, b), function(c, d))


for _function in (max, min):
    _three(_function)
    _four(_function)


@ours(np.clip)
def _clip(a, a_min, a_max):
    if meeting("clip", a, a_min, a_max) is not None:
        return lambda a, a_min, a_max: np.minimum(np.maximum(a, a_min), a_max)


def _copysign(function):
    @ours(function)
    def choose(a, b):
        soft = meeting("copysign", a, b)
        if soft is not None:
            x, y, wrap, settle = (
                reader(soft, a),
                reader(soft, b),
                wrapper(soft),
                settled(soft, EVEN, True),
            )
            # +v: a NaN's sign is that of the canonical one.
            return lambda a, b: wrap(settle(math.copysign(np.float64(x(a)), np.float64(y(b)))))


for _function in (math.copysign, np.copysign):
    _copysign(_function)


@intrinsic
def truncated_remainder(context, a, b):
    """a - trunc(a / b) * b of two float64 numbers: exact."""
    if not a == b == types.float64:
        return None
    return a(a, b), lambda c, builder, s, arguments: builder.frem(*arguments)


@functools.cache
def remainder_form(soft, floored):
    """f(a, b) in float64: a - floor(a / b) * b, or with trunc, rounded once; NaN for b = 0."""
    add, settle = forms.from_odd(soft, "add"), settled(soft)
    number = forms.number_type(soft)
    floored = int(floored)

    @jit(inline=True)
    def run(a, b):
        rest = truncated_remainder(a, b)
        if floored == 1:
            if rest == 0.0:
                return settle(math.copysign(0.0, b))
            if (rest < 0.0) != (b < 0.0):
                return number(add(rest, b, b, NO_WORD))
        return settle(rest)

    return run


@functools.cache
def floor_divide_form(soft):
    """f(a, b) in float64: the exact quotient floored, rounded once; a / b where that is no finite number."""
    settle, divide = settled(soft), forms.from_odd(soft, "divide")
    number = forms.number_type(soft)

    @jit(inline=True)
    def run(a, b):
        z, e = divide_with_error(a, b)
        if abs(a) == math.inf and b != 0.0:
            return number(math.nan)  # as NumPy has it
        if not abs(z) < math.inf or a == 0.0:
            return number(divide(a, b, b, NO_WORD))
        if abs(z) < 1.0:
            return settle(0.0 if (a < 0.0) == (b < 0.0) else -1.0)
        if abs(z) < 2.0**53:
            whole = np.floor(z)
            return settle(whole - 1.0 if whole == z and e < 0.0 else whole)
        # z is an integer: floored, the exact quotient is z itself where it is less than one above.
        exact = e > 0.0 and abs(fma(-z, b, a)) < abs(b)
        return settle(z if exact else to_odd(z, e))

    return run


def _needs_range(soft, what):
    if not forms.always_inside(soft):
        raise errors.TypingError(
            f"{what} in kernels needs a format of at most 9 exponent bits, got {soft}"
        )


def _quotient(function, what, form):
    @ours(function)
    def choose(a, b):
        soft = deterministic(meeting(what, a, b), what)
        if soft is None:
            return None
        _needs_range(soft, what)
        x, y, run, wrap = reader(soft, a), reader(soft, b), form(soft), wrapper(soft)
        return lambda a, b: wrap(run(np.float64(x(a)), np.float64(y(b))))


def _floored(soft):
    return remainder_form(soft, True)


def _truncated(soft):
    return remainder_form(soft, False)


QUOTIENTS: dict[Any, Any] = {
    operator.mod: _floored,
    operator.imod: _floored,
    np.remainder: _floored,
    math.fmod: _truncated,
    np.fmod: _truncated,
    operator.floordiv: floor_divide_form,
    operator.ifloordiv: floor_divide_form,
    np.floor_divide: floor_divide_form,
}
for _function, _form in QUOTIENTS.items():
    _quotient(_function, _function.__name__, _form)


@ours(divmod)
def _divmod(a, b):
    if meeting("divmod", a, b) is not None:
        return lambda a, b: (a // b, a % b)


# ---------------------------------------------------------------- powers
_POWERS = {
    1: lambda a, b: +a,
    2: lambda a, b: a * a,
    -1: lambda a, b: 1 / a,
}


def _power(function):
    @ours(function, prefer_literal=True)
    def choose(a, b):
        soft = meeting("**", a, b)
        if soft is None:
            return None
        known, power = literal(b) if not isinstance(b, SoftFloatType) else (False, None)
        if isinstance(a, SoftFloatType) and known and power in _POWERS:
            return _POWERS[power]  # one operation
        deterministic(soft, "** but for the literal exponents -1, 1 and 2")
        return of_two(soft, "power", a, b)


for _function in (operator.pow, operator.ipow, pow, math.pow, np.power):
    _power(_function)


# ---------------------------------------------------------------- formats of scalars
def dtype_value(soft):
    """An intrinsic of one argument that gives the dtype of a soft type, whatever the argument."""
    kind = SoftDType(soft)

    @intrinsic
    def give(context, x):
        return kind(x), lambda c, b, s, a: c.get_constant_generic(b, kind, soft.fmt)

    return give


@overload_attribute(SoftFloatType, "dtype", target="generic")
def _dtype(x):
    dtype = dtype_value(x)
    return lambda x: dtype(x)


@overload_attribute(SoftFloatType, "real", target="generic")
def _real(x):
    return lambda x: +x


@overload_method(SoftFloatType, "item", target="generic")
def _item(x):
    return lambda x: np.float64(raw(x))


def target_of(fmt, rules):
    """The soft type that a format argument names; TypingError unless it is known at compile time."""
    known, name = literal(fmt)
    if known and isinstance(name, str):
        fmt = FormatConstant(as_format(name))
    if isinstance(fmt, SoftDType):
        return fmt.soft
    if isinstance(fmt, FormatConstant):
        return SoftFloatType(fmt.fmt, rules)
    raise errors.TypingError(
        "the format of a soft number must be known when the kernel is compiled: a global Format, its literal "
        f"name or the dtype of a soft array, got {fmt}"
    )


@overload_method(SoftFloatType, "astype", target="generic", prefer_literal=True)
def _astype(x, fmt):
    target = target_of(fmt, x.rules)
    near, wrap = forms.from_float(target), wrapper(target)
    return lambda x, fmt: wrap(near(np.float64(raw(x))))


@ours(functional.fma)
def _fma(a, b, c, fmt):
    soft = meeting("fma", a, b, c)
    if soft is None:
        return None
    if target_of(fmt, soft.rules) != soft:
        raise errors.TypingError(
            f"fma of {soft} numbers gives one, not {fmt}: convert it with .astype"
        )
    if soft.stochastic:
        raise errors.TypingError("fma has no stochastic rounding in kernels")
    x, y, z = (reader(soft, kind) for kind in (a, b, c))
    run, wrap = forms.operation(soft, "fma"), wrapper(soft)
    return lambda a, b, c, fmt: wrap(run(x(a), y(b), z(c), NO_WORD))


# ---------------------------------------------------------------- what Python asks of every object
def _no_text(x):
    raise errors.TypingError("a soft number has no text in kernels: say str(float(x))")


for _name in ("__str__", "__repr__", "__format__"):
    overload_method(SoftFloatType, _name, target="generic")(_no_text)


@overload_method(SoftFloatType, "__hash__", target="generic")
def _hash(x):
    return lambda x: hash(np.float64(raw(x)))
