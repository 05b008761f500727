"""Operations on numbers that no float64 holds: exact rational arithmetic in Python, element by element.

Slow, and needed only where an operand is a large integer, a longdouble, a Fraction, a Decimal or a decimal string.
"""

import math
from fractions import Fraction

import numpy as np

from softfloat.operands import parts_of
from softfloat.rounding import MODES, NEGATIVE, WORD, Rounding


def rational_parts(operation, operands, mode):
    """Columns (class, negative, exponent, high, low) of the exact results.

    operation : name of an elementwise operation.  operands : flat object arrays of floats and Fractions.
    """
    apply = _OPERATIONS[operation]
    rows = [apply(mode, *items) for items in zip(*operands, strict=True)]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return [columns[:, j].copy() for j in range(5)]


def _finite(x):
    return isinstance(x, Fraction) or math.isfinite(x)


def _fraction(x):
    return x if isinstance(x, Fraction) else Fraction(x)


def _signed(value, negative_zero):
    """Parts of an exact Fraction; zero gets the given sign."""
    return parts_of(value) if value else parts_of(-0.0 if negative_zero else 0.0)


def _shadow(x):
    """A float with the class and sign of x: enough to find what an operation with an infinity or NaN gives."""
    if isinstance(x, Fraction):
        return math.copysign(1.0, x) if x else 0.0
    return x


def _is_negative(x):
    return x < 0 if isinstance(x, Fraction) else math.copysign(1.0, x) < 0


def _add(mode, a, b):
    if not (_finite(a) and _finite(b)):
        return parts_of(_shadow(a) + _shadow(b))
    signs = _is_negative(a), _is_negative(b)
    total = _fraction(a) + _fraction(b)
    both_zero = not a and not b
    return _signed(total, signs[0] if both_zero and signs[0] == signs[1] else mode == NEGATIVE)


def _subtract(mode, a, b):
    return _add(mode, a, -b)


def _multiply(mode, a, b):
    if not (_finite(a) and _finite(b)):
        return parts_of(_shadow(a) * _shadow(b))
    return _signed(_fraction(a) * _fraction(b), _is_negative(a) != _is_negative(b))


def _divide(mode, a, b):
    if not (_finite(a) and _finite(b)) or not b:
        with np.errstate(all="ignore"):
            return parts_of(float(np.float64(_shadow(a)) / np.float64(_shadow(b))))
    return _signed(_fraction(a) / _fraction(b), _is_negative(a) != _is_negative(b))


def _fma(mode, a, b, c):
    if not (_finite(a) and _finite(b) and _finite(c)):
        product = _shadow(a) * _shadow(b)
        return parts_of(product + _shadow(c))
    negative = _is_negative(a) != _is_negative(b)
    product = _fraction(a) * _fraction(b)
    total = product + _fraction(c)
    both_zero = not product and not c
    same = both_zero and negative == _is_negative(c)
    return _signed(total, negative if same else mode == NEGATIVE)


def _sqrt(mode, a):
    if not _finite(a) or not a or a < 0:
        return parts_of(float(np.sqrt(np.float64(a)))) if not a or a > 0 else parts_of(math.nan)
    a = _fraction(a)
    # 124 bits of the root: an inexact one is marked in the last, below anything that rounding looks at.
    width = a.numerator.bit_length() - a.denominator.bit_length()
    shift = 2 * WORD - width // 2
    scaled, rest = divmod(a.numerator << max(2 * shift, 0), a.denominator << max(-2 * shift, 0))
    root = math.isqrt(scaled)
    exact = rest == 0 and root * root == scaled
    return parts_of(Fraction(2 * root + (not exact), 2) * Fraction(2) ** -shift)


def _remainder(mode, a, b):
    if not _finite(a) or not b or (isinstance(b, float) and math.isnan(b)):
        return parts_of(math.nan)
    if not _finite(b):
        return parts_of(a)
    a, b = _fraction(a), _fraction(b)
    return _signed(a - round(a / b) * b, a < 0)


def _round_to_integral(mode, a):
    if not _finite(a):
        return parts_of(a)
    negative, magnitude = _is_negative(a), abs(_fraction(a))
    low = math.floor(magnitude)
    rest = magnitude - low
    if rest:
        half = Fraction(1, 2)
        away = {
            Rounding.TIES_TO_EVEN: rest > half or (rest == half and low % 2 == 1),
            Rounding.TIES_TO_AWAY: rest >= half,
            Rounding.TOWARD_ZERO: False,
            Rounding.TOWARD_POSITIVE: not negative,
            Rounding.TOWARD_NEGATIVE: negative,
            Rounding.TO_ODD: low % 2 == 0,
        }
        by_code = {MODES[name]: value for name, value in away.items()}
        if mode not in by_code:
            raise NotImplementedError(
                "stochastic rounding to an integral value needs operands that float64 holds"
            )
        low += by_code[mode]
    return _signed(Fraction(-low if negative else low), negative)


_OPERATIONS = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "fma": _fma,
    "sqrt": _sqrt,
    "remainder": _remainder,
    "round_to_integral": _round_to_integral,
}
