"""Compiled operations of one soft type on its floats: hardware arithmetic, then the fast form of its rounding.

Three ways, the first that is exact: the operation in the type's own float and one rounding, where rounding to nearest
twice is harmless; the operation in float64 with the sign of its error, to odd, and one rounding; the definition. The
constants of the format are constants of the code.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import fma, resize, to_bits
from softfloat.fast import (
    BARE,
    NO_NEGATIVE_ZERO,
    OWN_INFINITY,
    SCALED,
    SIGNED_NAN,
    UNSIGNED,
    fast_constants,
    fast_form,
    load_constants,
    rounding_form,
)
from softfloat.format import FLAGS, FLOAT32, FLOAT64, NAN_QUOTIENTS
from softfloat.numba_types.kinds import NEAREST, SoftFloatType
from softfloat.ops.error_free import positive_nan, to_odd
from softfloat.random import WORD_BITS
from softfloat.rounding import AWAY, EVEN
from softfloat.scalar.core import ELEMENTARY, QUICK_BITS, WITH_ERROR, bounds_of, defined_value

ADD, SUBTRACT, MULTIPLY, DIVIDE, SQRT, FMA = range(6)
PLAIN_OPERATIONS = {
    "add": ADD,
    "subtract": SUBTRACT,
    "multiply": MULTIPLY,
    "divide": DIVIDE,
    "sqrt": SQRT,
    "fma": FMA,
}


def record_of(fmt):
    """The integers of a format as a tuple that compiled code holds as constants."""
    return tuple(np.int64(n) for n in fmt.parameters)


def _is_binary64(soft):
    fmt, rules = soft.fmt, soft.rules
    whole = fmt.mantissa_bits == 52 and fmt.emin == -1022 and fmt.max_exponent == 1023
    return whole and fmt.has_infinity and fmt.subnormals is True and rules[:2] == NEAREST[:2]


@functools.cache
def rounder(soft, lane, keeps_nan=False):
    """round(z, word): a float of the lane rounded by the soft type's fast form; None where there is none.

    keeps_nan : keep the sign of a NaN, where the format has one: an operation's NaN has none, a copied one has.
    Infinities and NaNs need no look where the form gives them back by itself; a NaN may then come back with a sign.
    """
    fmt, rules = soft.fmt, soft.rules
    form = fast_form(fmt, lane, *rules)
    if form is None:
        return None
    kind, mode, rule = form
    if kind == SCALED and mode in (EVEN, AWAY):
        special = OWN_INFINITY | UNSIGNED | NO_NEGATIVE_ZERO | SIGNED_NAN
        rule |= BARE if not rule & special else 0
    round_one = rounding_form(kind, mode, rule)
    words = tuple(fast_constants(kind, fmt, lane, mode, rules.saturate, rules.bits))
    positive = int(rule & SIGNED_NAN != 0 and not keeps_nan)

    @jit(inline=True)
    def rounded(z, word):
        if positive == 1:
            z = positive_nan(z)
        return round_one(z, load_constants(words), resize(word, words[0]))

    return rounded


def _nearest_twice(soft):
    """Whether float64 arithmetic rounded to nearest, then the soft type's rounding, is one rounding."""
    fmt = soft.fmt
    low = fmt.emin - fmt.mantissa_bits
    return (
        soft.rules.mode in (EVEN, AWAY)
        and 2 * fmt.mantissa_bits + 4 <= 53
        and 2 * low >= FLOAT64.emin
        and max(2 * fmt.max_exponent + 2, fmt.max_exponent + 1 - low) <= FLOAT64.emax
    )


def always_inside(soft):
    """Whether no operation on values of the format leaves the domain of error-free float64 arithmetic."""
    fmt = soft.fmt
    low = fmt.emin - fmt.mantissa_bits
    return 2 * low >= -900 and max(2 * fmt.max_exponent, fmt.max_exponent - low) <= 1000


def _leaves_room(soft):
    """Whether a float64 rounded to odd has the bits that the soft type's rounding looks at."""
    m, rules = soft.fmt.mantissa_bits, soft.rules
    return m <= (51 - rules.bits if soft.stochastic else 50)


def number_type(soft):
    return np.float32 if soft.lane is FLOAT32 else np.float64


@functools.cache
def defined(soft, operation):
    """f(a, b, c, word) on float64 numbers by the definition."""
    value, F = defined_value(operation), record_of(soft.fmt)
    mode, saturate, bits, variant = soft.rules
    shift = np.uint64(WORD_BITS - bits)

    @jit(inline=True)
    def run(a, b, c, word):
        return value(a, b, c, F, mode, saturate, np.int64(word >> shift), bits, variant)

    return run


@functools.cache
def from_odd(soft, operation, checked=True):
    """f(a, b, c, word) on float64 numbers, to odd and then rounded; the definition outside the domain of that.

    checked : whether operands may lie outside the domain of error-free arithmetic.
    """
    rounded, fast, slow = (
        rounder(soft, FLOAT64.dtype),
        WITH_ERROR[operation],
        defined(soft, operation),
    )
    if rounded is None or not _leaves_room(soft):
        return slow
    mode = soft.rules.mode
    undefined = int(operation == "divide" and soft.fmt.parameters[FLAGS] & NAN_QUOTIENTS != 0)
    checked = int(checked)

    @jit(inline=True)
    def run(a, b, c, word):
        z, e, outside = fast(a, b, c, mode)
        if checked == 1 and outside:
            return slow(a, b, c, word)
        if undefined == 1 and b == 0.0:
            return slow(a, b, c, word)
        return rounded(to_odd(z, e), word)

    return run


@functools.cache
def plain(operation):
    """The operation of the hardware on two floats of one type (the second unused by a root)."""
    op = PLAIN_OPERATIONS[operation]

    @jit(inline=True)
    def run(x, y, z):
        if op == ADD:
            return x + y
        if op == SUBTRACT:
            return x - y
        if op == MULTIPLY:
            return x * y
        if op == DIVIDE:
            return x / y
        if op == SQRT:
            return math.sqrt(x)
        return fma(x, y, z)

    return run


@functools.cache
def operation(soft, name):
    """f(x, y, z, word): one rounded operation on floats of the type's lane; operands beyond its own are ignored.

    word : the 32 random bits of this rounding, a uint64; ignored where none are needed.
    """
    if _is_binary64(soft) and name in PLAIN_OPERATIONS:
        run = plain(name)
        return jit(inline=True)(lambda x, y, z, word: run(x, y, z))
    divides = name == "divide" and soft.fmt.parameters[FLAGS] & NAN_QUOTIENTS
    twice = name in PLAIN_OPERATIONS and name != "fma" and not divides
    if twice and soft.lane is FLOAT32:
        return _rounded_once(plain(name), rounder(soft, FLOAT32.dtype))
    rounded = rounder(soft, FLOAT64.dtype)
    if twice and rounded is not None and _nearest_twice(soft):
        return _rounded_once(plain(name), rounded)
    if name in ELEMENTARY and rounded is not None and _quick(soft):
        wide = _between_bounds(soft, name, rounded)
    elif name in WITH_ERROR:
        wide = from_odd(soft, name, not always_inside(soft))
    else:
        wide = defined(soft, name)
    number = number_type(soft)

    @jit(inline=True)
    def run(x, y, z, word):
        return number(wide(np.float64(x), np.float64(y), np.float64(z), word))

    return run


def _quick(soft):
    return soft.fmt.mantissa_bits + (soft.rules.bits if soft.stochastic else 0) <= QUICK_BITS


def _between_bounds(soft, name, rounded):
    """An elementary function in float64: both bounds rounded; the definition where they differ."""
    bounds, slow = bounds_of(name), defined(soft, name)

    @jit(inline=True)
    def run(a, b, c, word):
        low, high = bounds(a, b)
        x, y = rounded(low, word), rounded(high, word)
        return x if to_bits(x) == to_bits(y) and low == low else slow(a, b, c, word)

    return run


def _rounded_once(run, rounded):
    @jit(inline=True)
    def operate(x, y, z, word):
        return rounded(run(x, y, z), word)

    return operate


# ---------------------------------------------------------------- plain numbers
@functools.cache
def from_float(soft):
    """f(x): a float as a float of the lane, rounded to nearest whatever the type's mode: numbers are data."""
    near = SoftFloatType(soft.fmt, NEAREST)
    rounded, slow = rounder(near, FLOAT64.dtype), defined(near, "quantize")
    number, identical = number_type(soft), int(_is_binary64(near))
    exact = int(rounded is not None)

    @jit(inline=True)
    def run(x):
        v = np.float64(x)
        if identical == 1:
            return v
        if exact == 1:
            return number(rounded(v, np.uint64(0)))
        return number(slow(v, v, v, np.uint64(0)))

    return run


@functools.cache
def from_integer(soft):
    """f(n): an integer of up to 64 bits as a float of the lane, rounded once, to nearest."""
    add = from_odd(SoftFloatType(soft.fmt, NEAREST), "add", False)
    number = number_type(soft)

    @jit(inline=True)
    def run(n):
        high = np.float64(n >> 32) * 2.0**32
        low = np.float64(np.uint64(n) & np.uint64(0xFFFFFFFF))
        return number(add(high, low, low, np.uint64(0)))

    return run


@functools.cache
def comparand(soft):
    """f(v): the float64 that a plain float64 is compared as: its nearest value, an infinity beyond the range."""
    near = from_float(soft)
    fmt = soft.fmt
    # The tie above the largest value, which rounds up: below it numbers are nearest the largest.
    below = fmt._value(fmt.max_code - 1) if fmt.max_code else 0.0
    limit = fmt.max + (fmt.max - below) / 2
    signed = int(fmt.signed)

    @jit(inline=True)
    def run(v):
        if signed == 0 and v < 0.0:
            return -math.inf
        if abs(v) >= limit:
            return math.copysign(math.inf, v)
        return np.float64(near(v))

    return run
