"""Constants of the compiled functions, made from their definitions in integers when the module is loaded.

Fractions are rows (high, low) of two 62-bit words, truncated to 124 bits; see `wide`.
"""

import math

import numpy as np

from softfloat.ops.elementary.multiprecision import Ball, arctan, exp, ln2, log, pi
from softfloat.rounding import MASK, WORD

BITS = 2 * WORD
WORKING = BITS + 64
STEPS = 64  # intervals of [0, 1) in the tables of 2**x and of the arctangent
LOG_STEPS = 128  # intervals of [1, 2) in the table of the logarithm
LOG_FOLD = (
    53  # from this one on, the significand is halved: 1 + 53/128 is about the square root of two
)


def _rows(fractions):
    """Integers in units of 2**-BITS as an array of rows (high, low)."""
    rows = [(int(f) >> WORD, int(f) & MASK) for f in fractions]
    return np.array(rows, np.int64).reshape(-1, 2)


def _cut(value):
    return value >> (WORKING - BITS)


def _magnitude(ball):
    """(exponent, high, low) of a positive Ball."""
    width = ball.value.bit_length()
    kept = ball.value >> (width - BITS) if width >= BITS else ball.value << (BITS - width)
    return width - 1 - ball.bits, kept >> WORD, kept & MASK


def _ball(value):
    return Ball(value, 2, WORKING)


def _factors(count, reciprocal):
    return _rows((1 << BITS) // reciprocal(n) for n in range(count))


# Series whose sums stay below 1: each is half of the function's quotient by its first term.
EXP = _factors(32, lambda n: 2 * math.factorial(n + 1))  # (exp(x) - 1) / x
LOG = _factors(32, lambda n: 2 * (n + 1))  # log(1 + x) / x, alternating
SIN = _factors(20, lambda n: 2 * math.factorial(2 * n + 1))  # sin(x) / x in x**2, alternating
COS = _factors(20, lambda n: math.factorial(2 * n + 2))  # (1 - cos(x)) / x**2 in x**2, alternating
ARCTAN = _factors(16, lambda n: 2 * (2 * n + 1))  # arctan(x) / x in x**2, alternating


def _exp2_table():
    """2**(i/64) / 2."""
    step = exp(_ball(ln2(WORKING) // STEPS))
    values, power = [], Ball.of(1, WORKING)
    for _ in range(STEPS):
        values.append(_cut(power.value) >> 1)
        power = power * step
    return _rows(values)


def log_reciprocals():
    """Integers c: c/512 is about the reciprocal of the middle of each interval of [1, 2), halved from LOG_FOLD on."""
    folded = [LOG_STEPS if j < LOG_FOLD else 2 * LOG_STEPS for j in range(LOG_STEPS)]
    exact = [round(512 * 2 * fold / (2 * (LOG_STEPS + j) + 1)) for j, fold in enumerate(folded)]
    # Around 1 the significand is left as it is, so that small logarithms keep their precision.
    return [512, *exact[1:-1], 512]


def _log_table():
    """(sign, exponent, high, low) of -log(c/512); zeros where c/512 is 1."""
    rows = []
    for c in log_reciprocals():
        value = log(Ball.of(c, WORKING) / 512).value if c != 512 else 0
        rows.append((int(value > 0), *_magnitude(_ball(abs(value)))) if value else (0, 0, 0, 0))
    return np.array(rows, np.int64)


def _arctan_table():
    """(exponent, high, low) of arctan(i/64), i = 0..64; zeros for i = 0."""
    rows = [_magnitude(arctan(Ball.of(i, WORKING) / STEPS)) for i in range(1, STEPS + 1)]
    return np.array([(0, 0, 0), *rows], np.int64)


EXP2_TABLE = _exp2_table()
LOG_RECIPROCALS = np.array(log_reciprocals(), np.int64)
LOG_TABLE = _log_table()
ARCTAN_TABLE = _arctan_table()

# 2/pi after a zero word pair, enough for every float64 exponent.
PADDING = 2
_WORDS = 22
_TWO_OVER_PI = (1 << (WORD * _WORDS + WORD * _WORDS + 1)) // pi(WORD * _WORDS)
TWO_OVER_PI = np.array(
    [0] * PADDING + [(_TWO_OVER_PI >> (WORD * (_WORDS - 1 - i))) & MASK for i in range(_WORDS)],
    np.int64,
)

_PI, _LN2 = _ball(pi(WORKING)), _ball(ln2(WORKING))
_LN10 = log(Ball.of(10, WORKING))
_ONE = Ball.of(1, WORKING)
LN2_EXPONENT, LN2_HIGH, LN2_LOW = _magnitude(_LN2)
LOG2E_EXPONENT, LOG2E_HIGH, LOG2E_LOW = _magnitude(_ONE / _LN2)
LOG2TEN_EXPONENT, LOG2TEN_HIGH, LOG2TEN_LOW = _magnitude(_LN10 / _LN2)
LOG10E_EXPONENT, LOG10E_HIGH, LOG10E_LOW = _magnitude(_ONE / _LN10)
PI_EXPONENT, PI_HIGH, PI_LOW = _magnitude(_PI)
DEGREE_EXPONENT, DEGREE_HIGH, DEGREE_LOW = _magnitude(_PI / 180)
RADIAN_EXPONENT, RADIAN_HIGH, RADIAN_LOW = _magnitude(Ball.of(180, WORKING) / _PI)
TWO_OVER_ROOT_PI_EXPONENT, TWO_OVER_ROOT_PI_HIGH, TWO_OVER_ROOT_PI_LOW = _magnitude(
    Ball.of(2, WORKING) / _PI.sqrt()
)
