"""An elementary function of any real operands, to the last bit: Python, element by element.

Operands are floats, or Fractions where no float64 holds the number, as `softfloat.operands.exact_array` gives them.
"""

import math
import struct
from fractions import Fraction

from softfloat.codec import unpack
from softfloat.operands import parts_of
from softfloat.ops.elementary.binary import BINARY
from softfloat.ops.elementary.functions import UNARY
from softfloat.ops.elementary.multiprecision import leading_parts, rational_value
from softfloat.ops.elementary.results import DECIDED
from softfloat.rounding import FINITE_CLASS, INVALID, QUIET_CLASS

FUNCTIONS = UNARY | BINARY
OF_HALF_TURNS = ("sinpi", "cospi", "tanpi")


def exact_result(name, operands):
    """(class, negative, exponent, high, low, flags) of a function at these operands."""
    if name in OF_HALF_TURNS and isinstance(operands[0], Fraction):
        operands = (_within_turn(operands[0]),)
    unpacked = [v for x in operands for v in unpack(_bits(_stand_in(x)), 52, 11)]
    kind, negative, exponent, high, low, flags, known = FUNCTIONS[name](*unpacked)
    rational = any(isinstance(x, Fraction) for x in operands)
    if name == "power" and rational and kind in (FINITE_CLASS, QUIET_CLASS):
        return _power(kind, *operands)
    if kind != FINITE_CLASS or (known == DECIDED and not rational):
        return int(kind), int(negative), int(exponent), int(high), int(low), int(flags)
    return (*_finite_result(name, [Fraction(x) for x in operands], negative), 0)


def _finite_result(name, operands, negative):
    value = rational_value(name, *operands)
    if value is None:
        return leading_parts(name, *operands)
    return parts_of(value if value else -0.0 if negative else 0.0)


def _power(kind, x, y):
    """x**y of finite operands, one of which no float64 holds."""
    x, y = Fraction(x), Fraction(y)
    if x < 0 and y.denominator != 1:
        return int(QUIET_CLASS), 0, 0, 0, 0, INVALID
    negative = x < 0 and y.numerator & 1
    kind, _, *rest = _finite_result("power", [abs(x), y], False)
    return (kind, int(negative), *rest, 0)


def _within_turn(x):
    """A number of the same sine and cosine of pi*x: x modulo 2, with its sign, a float where that is exact."""
    rest = abs(x) % 2
    rest = -rest if x < 0 else rest
    nearest = math.copysign(rest.numerator / rest.denominator, x)
    return nearest if Fraction(nearest) == rest else rest


def _stand_in(x):
    """A float64 on the same side of every small integer: the number rounded to odd, within float64's range."""
    if not isinstance(x, Fraction):
        return x
    _, negative, exponent, high, _ = parts_of(x)
    significand = (high >> 9) | 1  # 53 bits; no float64 holds x, so the rest is not zero
    magnitude = math.ldexp(significand, max(min(exponent, 1000), -1000) - 52)
    return -magnitude if negative else magnitude


def _bits(x):
    return struct.unpack("<q", struct.pack("<d", x))[0]
