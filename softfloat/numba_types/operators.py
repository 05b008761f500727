"""Operators and scalar functions on soft numbers in compiled code, for the CPU and CUDA alike.

To add a function of one or two operands is to add a line to a table below. Each result is rounded once, in the type's
mode; plain numbers beside a soft one are rounded to its format first, to nearest.
"""

import math
import operator
from typing import Any

import numpy as np
from numba.core import errors, types
from numba.core.imputils import lower_constant
from numba.extending import lower_cast, overload

from softfloat._jit import jit
from softfloat.numba_types import forms
from softfloat.numba_types.kinds import PLAIN, SoftArrayType, SoftFloatType, raw, wrapper
from softfloat.numba_types.options import OPTIONS, unliteral
from softfloat.operands import Held
from softfloat.scalar.core import ELEMENTARY

NO_WORD = np.uint64(0)


# ---------------------------------------------------------------- which operands meet
def is_plain(kind):
    """Whether a numba type is a number without a format."""
    return isinstance(unliteral(kind), PLAIN)


def meeting(what, *kinds):
    """The soft type in which operands meet; None where the operation is none of ours. TypingError for two of them."""
    soft = [kind for kind in kinds if isinstance(kind, SoftFloatType)]
    if not soft or not all(isinstance(k, SoftFloatType) or is_plain(k) for k in kinds):
        return None
    first = soft[0]
    for other in soft[1:]:
        if other != first:
            raise errors.TypingError(
                f"cannot mix {first} and {other} in {what}: {remedy(first, other)}"
            )
    return first


def remedy(first, other):
    """What to do about two soft types that meet."""
    if first.fmt != other.fmt:
        return "convert one of them with .astype(fmt)"
    return (
        "they round in different ways; an array that the kernel makes takes the rounding of an argument x "
        "with dtype=x.dtype"
    )


def deterministic(soft, what):
    """The soft type, or a TypingError where its operations need random words."""
    if soft is not None and soft.stochastic:
        raise errors.TypingError(
            f"{what} has no stochastic rounding in kernels; only + - * / and sqrt have"
        )
    return soft


def reader(soft, kind):
    """A compiled function from an operand to a float of the soft type's lane."""
    if isinstance(kind, SoftFloatType):
        return raw
    integer = isinstance(unliteral(kind), types.Integer)
    return forms.from_integer(soft) if integer else forms.from_float(soft)


OURS: set[Any] = set()  # functions of which there is a version for soft operands


def ours(function, **options):
    """Decorator: numba's overload with the package's own arithmetic options."""
    OURS.add(function)
    return overload(function, jit_options=OPTIONS, target="generic", **options)


# ---------------------------------------------------------------- rounded operations
def of_two(soft, name, a, b):
    """What computes an operation of two operands of these kinds, rounded once."""
    x, y = reader(soft, a), reader(soft, b)
    run, wrap = forms.operation(soft, name), wrapper(soft)

    def impl(a, b):
        v, w = x(a), y(b)
        return wrap(run(v, w, w, NO_WORD))

    return impl


def _rounded(function, name, operands, admitted):
    """Register an operation under a function; admitted(soft, what) is the soft type, or None where it is for others."""
    what = function.__name__
    if operands == 2:

        @ours(function)
        def choose(a, b):
            soft = admitted(meeting(what, a, b), what)
            return None if soft is None else of_two(soft, name, a, b)

        return

    @ours(function)
    def choose_one(a):
        soft = admitted(meeting(what, a), what)
        if soft is None:
            return None
        run, wrap = forms.operation(soft, name), wrapper(soft)

        def impl(a):
            v = raw(a)
            return wrap(run(v, v, v, NO_WORD))

        return impl


def _without_words(soft, what):
    """Stochastic operations are those of softfloat.numba_types.streams."""
    return None if soft is None or soft.stochastic else soft


ARITHMETIC = {
    operator.add: "add",
    operator.iadd: "add",
    operator.sub: "subtract",
    operator.isub: "subtract",
    operator.mul: "multiply",
    operator.imul: "multiply",
    operator.truediv: "divide",
    operator.itruediv: "divide",
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
}
for _function, _name in ARITHMETIC.items():
    _rounded(_function, _name, 2, _without_words)
ROOTS = {math.sqrt: "sqrt", np.sqrt: "sqrt"}
for _function, _name in ROOTS.items():
    _rounded(_function, _name, 1, _without_words)


# ---------------------------------------------------------------- elementary functions, by all their names
_MATH_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "power": "pow",
}


def spellings(name):
    """The functions of math and NumPy that are an elementary function."""
    found = (getattr(math, _MATH_NAMES.get(name, name), None), getattr(np, name, None))
    return [function for function in found if function is not None]


# Powers look at literal exponents first: softfloat.numba_types.functions.
ELEMENTARY_FUNCTIONS = {
    function: name for name in ELEMENTARY if name != "power" for function in spellings(name)
}
for _function, _name in ELEMENTARY_FUNCTIONS.items():
    _rounded(_function, _name, ELEMENTARY[_name], deterministic)


# ---------------------------------------------------------------- comparisons
@jit(inline=True)
def _wide(x):
    return np.float64(raw(x))


def compared(soft, kind):
    """A compiled function from an operand of a comparison to float64."""
    if isinstance(kind, SoftFloatType):
        return _wide
    near = forms.comparand(soft)

    @jit(inline=True)
    def number(v):
        return near(np.float64(v))

    return number


def _comparison(function, relation):
    @ours(function)
    def choose(a, b):
        soft = meeting(function.__name__, a, b)
        if soft is None:
            return None
        if isinstance(a, SoftFloatType) and isinstance(b, SoftFloatType):
            return lambda a, b: relation(raw(a), raw(b))
        x, y = compared(soft, a), compared(soft, b)
        return lambda a, b: relation(x(a), y(b))


COMPARISONS = {
    operator.lt: operator.lt,
    operator.le: operator.le,
    operator.gt: operator.gt,
    operator.ge: operator.ge,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
}
for _function, _relation in COMPARISONS.items():
    _comparison(_function, _relation)


# ---------------------------------------------------------------- out of the format, by request
def _out(function, convert):
    @ours(function)
    def choose(a):
        if isinstance(a, SoftFloatType):
            return lambda a: convert(np.float64(raw(a)))


@jit(inline=True)
def _to_int(v):
    return np.int64(v)


@jit(inline=True)
def _not_zero(v):
    return v != 0.0


@jit(inline=True)
def _number(v):
    return v


@jit(inline=True)
def _is_nan(v):
    return v != v


@jit(inline=True)
def _is_infinite(v):
    return abs(v) == math.inf


@jit(inline=True)
def _is_finite(v):
    return abs(v) < math.inf


CONVERSIONS = {
    float: _number,
    int: _to_int,
    bool: _not_zero,
    operator.truth: _not_zero,
    math.isnan: _is_nan,
    math.isinf: _is_infinite,
    math.isfinite: _is_finite,
    np.isnan: _is_nan,
    np.isinf: _is_infinite,
    np.isfinite: _is_finite,
}
for _function, _convert in CONVERSIONS.items():
    _out(_function, _convert)


# ---------------------------------------------------------------- into the format, where the two meet
@lower_cast(types.Float, SoftFloatType)
@lower_cast(types.Integer, SoftFloatType)
@lower_cast(types.Boolean, SoftFloatType)
def _cast_in(context, builder, source, target, value):
    """Round a plain number, as literals and accumulators that meet a soft number are."""
    read, wrap = reader(target, source), wrapper(target)
    # The call is all that a user's flags can reach: what it calls has flags of its own.
    return context.compile_internal(builder, lambda v: wrap(read(v)), target(source), [value])


@lower_constant(SoftArrayType)
@lower_constant(SoftFloatType)
def _no_constant(context, builder, kind, value):
    """numba asks for one where a kernel has a global SoftArray, and where it sums over threads."""
    if isinstance(value, Held):
        raise errors.TypingError(
            "a global SoftArray would keep the rounding of the call that was compiled first: "
            "hand it to the kernel as an argument"
        )
    raise errors.TypingError(
        f"prange has no reduction of {kind}: its order, and so its result, would depend on the number of threads. "
        "Write the terms to an array in the prange loop and sum that in a plain loop after it"
    )
