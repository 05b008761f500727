"""A scalar whose every operation is the oracle's: NumPy runs the same program on object arrays of them, one by one.

So what a program does on SoftArrays can be compared, bit for bit, with what it means.
"""

import numpy as np
import oracle
from helpers import code_dtype, package_format, values_of

import softfloat as sf


class Exact:
    """A value of an oracle format, with Python's operators; numbers it meets are rounded to the format first."""

    def __init__(self, fmt, code):
        self.fmt, self.code = fmt, int(code)

    @classmethod
    def of(cls, fmt, x):
        if isinstance(x, cls):
            return x
        number = oracle.from_float(float(x)) if isinstance(x, float) else oracle.finite(x)
        return cls(fmt, oracle.quantize(fmt, number).code)

    @property
    def number(self):
        return oracle.from_code(self.fmt, self.code)

    def _with(self, operation, *others, reverse=False):
        if any(isinstance(x, np.ndarray) for x in others):
            return NotImplemented  # NumPy takes the elements one by one
        operands = [self.number, *(Exact.of(self.fmt, x).number for x in others)]
        if reverse:
            operands.reverse()
        return Exact(self.fmt, operation(self.fmt, *operands).code)

    def __add__(self, x):
        return self._with(oracle.add, x)

    def __radd__(self, x):
        return self._with(oracle.add, x, reverse=True)

    def __sub__(self, x):
        return self._with(oracle.subtract, x)

    def __rsub__(self, x):
        return self._with(oracle.subtract, x, reverse=True)

    def __mul__(self, x):
        return self._with(oracle.multiply, x)

    def __rmul__(self, x):
        return self._with(oracle.multiply, x, reverse=True)

    def __truediv__(self, x):
        return self._with(oracle.divide, x)

    def __rtruediv__(self, x):
        return self._with(oracle.divide, x, reverse=True)

    def __pow__(self, n):
        assert n == 2
        return self * self

    def __neg__(self):
        return Exact(self.fmt, self.code ^ self.fmt.minus)

    def __abs__(self):
        return Exact(self.fmt, self.code & self.fmt.all_ones)

    def sqrt(self):
        return self._with(oracle.sqrt)

    def conjugate(self):
        return self

    def _compared(self, x, wanted):
        if isinstance(x, np.ndarray):
            return NotImplemented
        return oracle.compare(self.number, Exact.of(self.fmt, x).number) in wanted

    def __eq__(self, x):
        return self._compared(x, (0,))

    def __ne__(self, x):
        return self._compared(x, (-1, 1, None))

    def __lt__(self, x):
        return self._compared(x, (-1,))

    def __gt__(self, x):
        return self._compared(x, (1,))

    def __le__(self, x):
        return self._compared(x, (-1, 0))

    def __ge__(self, x):
        return self._compared(x, (0, 1))

    __hash__ = None

    def __bool__(self):
        return not self.number.is_zero

    def __float__(self):
        return float(values_of(self.fmt, [self.code])[0])

    def __repr__(self):
        return f"Exact({float(self)})"


def exact_array(fmt, codes):
    """Codes as an object array of exact scalars."""
    codes = np.asarray(codes)
    result = np.empty(codes.shape, object)
    for place in np.ndindex(codes.shape):
        result[place] = Exact(fmt, codes[place])
    return result


def both(fmt, x):
    """The same numbers, rounded to nearest by the oracle, as (SoftArray, object array of exact scalars)."""
    x = np.asarray(x, np.float64)
    codes = np.array([Exact.of(fmt, float(v)).code for v in x.ravel()], np.uint64).reshape(x.shape)
    soft = sf.from_codes(codes.astype(code_dtype(fmt)), package_format(fmt))
    return soft, exact_array(fmt, codes)


def assert_equal_to_exact(got, expected):
    """A SoftArray against exact scalars (or an object array of them), bit for bit, NaN as one class."""
    expected = np.asarray(expected, object)
    codes = np.array([e.code for e in expected.ravel()], np.uint64).reshape(expected.shape)
    assert isinstance(got, sf.SoftArray)
    assert got.shape == expected.shape
    fmt = next((e.fmt for e in expected.ravel()), None)
    if fmt is None:
        return
    want, have = values_of(fmt, codes), got.to_numpy().astype(np.float64)
    same = (np.isnan(want) & np.isnan(have)) | (want.view(np.uint64) == have.view(np.uint64))
    assert same.all(), f"{(~same).sum()} of {same.size} differ, first at {np.argwhere(~same)[0]}"
