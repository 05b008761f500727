"""Operations on numbers that no float64 holds: exact rational arithmetic in Python, element by element.

Slow, and needed only where an operand is a large integer, a longdouble, a Fraction, a Decimal or a decimal string.
"""

import math
from fractions import Fraction

import numpy as np

from softfloat.operands import parts_of
from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    INEXACT,
    INVALID,
    NEGATIVE,
    QUIET_CLASS,
    STOCHASTIC,
    WORD,
    rounds_away,
)


def rational_parts(operation, operands, choice):
    """Columns (class, negative, exponent, high, low) of the exact results, and the flags the operation raised.

    operation : name of an elementwise operation.  operands : flat object arrays of floats and Fractions.
    choice : the call's options, with `mode`, `bits`, `variant` and `word(index)`.
    """
    apply = _OPERATIONS[operation]
    rows = []
    for index, items in enumerate(zip(*operands, strict=True)):
        kind, negative, *rest, flags = apply(choice, index, *items)
        if kind == QUIET_CLASS and operation != "round_to_integral":
            negative = 0  # an operation's NaN has no sign of its own
            if not any(_is_nan(x) for x in items):
                flags |= INVALID
        rows.append((kind, negative, *rest, flags))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return [columns[:, j].copy() for j in range(6)]


def _is_nan(x):
    return isinstance(x, float) and math.isnan(x)


def _finite(x):
    return isinstance(x, Fraction) or math.isfinite(x)


def _fraction(x):
    return x if isinstance(x, Fraction) else Fraction(x)


def _signed(value, negative_zero):
    """Parts and flags of an exact Fraction; zero gets the given sign."""
    return (*parts_of(value if value else -0.0 if negative_zero else 0.0), 0)


def _special(value):
    """Parts and flags of a float that is infinite or NaN, or that an operation returns as it is."""
    return (*parts_of(value), 0)


def _shadow(x):
    """A float with the class and sign of x: enough to find what an operation with an infinity or NaN gives."""
    if isinstance(x, Fraction):
        return math.copysign(1.0, x) if x else 0.0
    return x


def _is_negative(x):
    return x < 0 if isinstance(x, Fraction) else math.copysign(1.0, x) < 0


def _add(choice, index, a, b):
    if not (_finite(a) and _finite(b)):
        return _special(_shadow(a) + _shadow(b))
    signs = _is_negative(a), _is_negative(b)
    both_zero = not a and not b
    same = both_zero and signs[0] == signs[1]
    return _signed(_fraction(a) + _fraction(b), signs[0] if same else choice.mode == NEGATIVE)


def _subtract(choice, index, a, b):
    return _add(choice, index, a, -b)


def _multiply(choice, index, a, b):
    if not (_finite(a) and _finite(b)):
        return _special(_shadow(a) * _shadow(b))
    return _signed(_fraction(a) * _fraction(b), _is_negative(a) != _is_negative(b))


def _divide(choice, index, a, b):
    if not (_finite(a) and _finite(b)) or not b:
        with np.errstate(all="ignore"):
            quotient = float(np.float64(_shadow(a)) / np.float64(_shadow(b)))
        by_zero = _finite(a) and a and not b
        return (*parts_of(quotient), DIVIDED_BY_ZERO if by_zero else 0)
    return _signed(_fraction(a) / _fraction(b), _is_negative(a) != _is_negative(b))


def _fma(choice, index, a, b, c):
    if not (_finite(a) and _finite(b) and _finite(c)):
        return _special(_shadow(a) * _shadow(b) + _shadow(c))
    negative = _is_negative(a) != _is_negative(b)
    product = _fraction(a) * _fraction(b)
    both_zero = not product and not c
    same = both_zero and negative == _is_negative(c)
    return _signed(product + _fraction(c), negative if same else choice.mode == NEGATIVE)


def _sqrt(choice, index, a):
    if _is_nan(a) or a == math.inf or not a:
        return _special(a)
    if a < 0:
        return _special(math.nan)
    a = _fraction(a)
    # 124 bits of the root: an inexact one is marked in the last, below anything that rounding looks at.
    width = a.numerator.bit_length() - a.denominator.bit_length()
    shift = 2 * WORD - width // 2
    scaled, rest = divmod(a.numerator << max(2 * shift, 0), a.denominator << max(-2 * shift, 0))
    root = math.isqrt(scaled)
    exact = rest == 0 and root * root == scaled
    return _signed(Fraction(2 * root + (not exact), 2) * Fraction(2) ** -shift, False)


def _remainder(choice, index, a, b):
    if _is_nan(a) or _is_nan(b) or not _finite(a) or not b:
        return _special(math.nan)
    if not _finite(b):
        return (*parts_of(a), 0)
    quotient = _fraction(a) / _fraction(b)
    return _signed(_fraction(a) - round(quotient) * _fraction(b), _is_negative(a))


def _round_to_integral(choice, index, a):
    if not _finite(a):
        return _special(a)
    negative, magnitude = _is_negative(a), abs(_fraction(a))
    whole = math.floor(magnitude)
    # The discarded fraction as the definition takes it: 62 bits, and whether anything lies below.
    scaled = (magnitude - whole) * (1 << WORD)
    fraction = math.floor(scaled)
    rest = int(scaled != fraction)
    word = choice.word(index) if choice.mode >= STOCHASTIC else 0
    up = rounds_away(
        choice.mode, negative, whole % 2 == 1, fraction, rest, word, choice.bits, choice.variant
    )
    *parts, _ = _signed(Fraction(-1 if negative else 1) * (whole + up), negative)
    return (*parts, INEXACT if scaled else 0)


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
