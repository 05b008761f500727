"""The methods behind Python's operators: the way of the ufunc, and a short cut for what is met most.

The short cut is for operands of one format and shape, and for Python numbers: straight to the loop, no table, no block.
"""

import numpy as np

from softfloat.array.mixing import comparand, is_weak, literal
from softfloat.array.ufuncs import FULL_BELOW, call
from softfloat.context import active_rounding
from softfloat.operands import Held, held

_ARRAYS = (np.ndarray, np.generic, list, tuple)


def is_operand(x):
    """Whether an operator tries: anything else is left to the other operand, and to Python's own TypeError."""
    return isinstance(x, (Held, *_ARRAYS)) or is_weak(x) or hasattr(x, "dtype")


def _beside(values, other, fmt, number):
    """Values of `other` in the shape of `values` where they are quickly had, else None."""
    kind = type(other)
    if kind is Held.kind:
        if other._format is not fmt:
            return None
        found = other._values
    elif kind is float or kind is int:
        found = number(other, fmt)
    else:
        return None
    if found.shape == values.shape:
        return found
    if found.ndim or values.size > FULL_BELOW:
        return None
    filled = np.empty(values.shape, values.dtype)
    filled.fill(found)
    return filled


def scalar(values, fmt):
    """Values without dimensions, fresh from a loop, as a scalar."""
    values.flags.writeable = False
    return held(values, fmt)


def arithmetic(ufunc, run):
    """(a + b, b + a, a += b) for a ufunc and the function run(a, b, fmt) behind it."""

    def apply(a, b, fmt):
        if a.ndim:
            return held(run(a, b, fmt), fmt)
        return scalar(run(a.reshape(1), b.reshape(1), fmt).reshape(()), fmt)

    def method(self, other):
        if active_rounding() is None:
            a, fmt = self._values, self._format
            b = _beside(a, other, fmt, literal)
            if b is not None:
                return apply(a, b, fmt)
        return call(ufunc, (self, other)) if is_operand(other) else NotImplemented

    def reflected(self, other):
        if active_rounding() is None:
            a, fmt = self._values, self._format
            b = _beside(a, other, fmt, literal)
            if b is not None:
                return apply(b, a, fmt)
        return call(ufunc, (other, self)) if is_operand(other) else NotImplemented

    return method, reflected, _in_place(method)


def relation(ufunc, run):
    """a < b for a ufunc and the function run(a, b) behind it."""

    def method(self, other):
        a = self._values
        b = _beside(a, other, self._format, comparand)
        if b is not None and a.ndim:
            return run(a, b)
        return call(ufunc, (self, other)) if is_operand(other) else NotImplemented

    return method


def general(ufunc):
    """(a @ b, b @ a, a @= b) by the ufunc alone."""

    def method(self, other):
        return call(ufunc, (self, other)) if is_operand(other) else NotImplemented

    def reflected(self, other):
        return call(ufunc, (other, self)) if is_operand(other) else NotImplemented

    return method, reflected, _in_place(method)


def _in_place(method):
    """a += b by a + b: a keeps its elements' place; a scalar, which nothing changes, gives a new one."""

    def in_place(self, other):
        result = method(self, other)
        values = self._values
        if result is NotImplemented or (values.ndim == 0 and not values.flags.writeable):
            return result
        if result.shape != values.shape:
            raise ValueError(
                f"the result of shape {result.shape} does not fit the shape {values.shape} in place"
            )
        values[...] = result._values
        return self

    return in_place


def unary(ufunc):
    """floor(a) and its kin by the ufunc."""
    return lambda self: call(ufunc, (self,))


def whole(ufunc):
    """math.floor(a) and its kin: the int of a scalar."""
    return lambda self: int(call(ufunc, (self,)))


def sign_change(ufunc, keeps):
    """-a and abs(a): NumPy's own where keeps(fmt) says that a changed sign is all there is to it."""

    def method(self):
        values, fmt = self._values, self._format
        if values.ndim and keeps(fmt):
            return held(ufunc(values), fmt)
        return call(ufunc, (self,))

    return method


def power(self, other):
    """a**b; as in NumPy, the numbers 2 and 0.5 beside an array are x * x and sqrt(x), which keeps -0 and -infinity."""
    if type(other) in (int, float):
        if other == 2:
            return self * self
        if other == 0.5:
            return call(np.sqrt, (self,))
    return call(np.power, (self, other)) if is_operand(other) else NotImplemented
