"""Compiled operations of one soft type on its floats: hardware arithmetic, then the fast form of its rounding.

Three ways, the first that is exact: the operation in the type's own float and one rounding, where rounding to nearest
twice is harmless; the operation in float64 with the sign of its error, to odd, and one rounding; the definition. The
constants of the format are constants of the code.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import (
    and_,
    binade,
    fma,
    infinity_like,
    is_negative,
    magnitude,
    minus,
    one_like,
    or_,
    plus,
    resize,
    shr,
    sign_bit,
    sub,
    times,
    to_bits,
    to_float,
    top_position,
    xor,
    zero_like,
)
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
from softfloat.rounding import AWAY, EVEN, ZERO
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


def _truncates(soft, lane):
    """Whether `_truncation` rounds float64 numbers to the type."""
    fmt, rules = soft.fmt, soft.rules
    return (
        lane == FLOAT64.dtype
        and rules.mode == ZERO
        and rules.saturate == 0
        and fmt.specials == "ieee"
        and fmt.signed
        and fmt.subnormals is True
        and fast_form(fmt, lane, *rules)[0] == SCALED
    )


def _truncation(fmt):
    """round(z, word) toward zero by one sum, for formats with infinity and gradual underflow.

    Half a step is taken from the magnitude inside the sum that rounds to nearest. A last bit set keeps what already
    lies on the grid above the tie, and lifts nothing else to the next value; so z need only be the float64 at or below
    the magnitude. Magnitudes under half a step can leave the binade of the sum, downwards.
    """
    m = fmt.mantissa_bits
    floor, largest, spread = 2.0**fmt.emin, fmt.max, 2.0 ** (52 - m)
    below = spread - 2.0 ** (-m - 1)  # 53 bits
    step = fmt.smallest_subnormal

    @jit(inline=True)
    def rounded(z, word):
        u = to_bits(z)
        a = to_float(magnitude(u))
        E = to_float(binade(u))
        E = E if E > floor else floor
        t = fma(E, below, to_float(or_(magnitude(u), one_like(u))))
        y = fma(-E, spread, t)
        y = largest if y > largest else y
        y = y if a < math.inf else a
        y = 0.0 if a < step else y
        return to_float(or_(to_bits(y), sign_bit(u)))

    return rounded


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
    if _truncates(soft, lane):
        return _truncation(fmt)
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


@jit(inline=True)
def toward_zero(z, e):
    """The float64 at or next below the magnitude of the exact result, by the sign of its error."""
    u = to_bits(z)
    larger = shr(xor(u, to_bits(e)), top_position(u))
    return to_float(sub(u, larger)) if abs(e) > 0.0 else z


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
    mode, settle = soft.rules.mode, toward_zero if _truncates(soft, FLOAT64.dtype) else to_odd
    undefined = int(operation == "divide" and soft.fmt.parameters[FLAGS] & NAN_QUOTIENTS != 0)
    checked = int(checked)

    @jit(inline=True)
    def run(a, b, c, word):
        z, e, outside = fast(a, b, c, mode)
        if checked == 1 and outside:
            return slow(a, b, c, word)
        if undefined == 1 and b == 0.0:
            return slow(a, b, c, word)
        return rounded(settle(z, e), word)

    return run


@functools.cache
def plain(operation):
    """The operation of the hardware on two floats of one type (the second unused by a root)."""
    op = PLAIN_OPERATIONS[operation]

    @jit(inline=True)
    def run(x, y, z):
        if op == ADD:
            return plus(x, y)
        if op == SUBTRACT:
            return minus(x, y)
        if op == MULTIPLY:
            return times(x, y)
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
    if soft.lane is FLOAT32 and soft.rules.mode == ZERO:
        twice = False
        if name in ("add", "subtract", "multiply"):
            return _cut(soft, PLAIN_OPERATIONS[name])
    if twice and soft.lane is FLOAT32:
        return _rounded_once(plain(name), rounder(soft, FLOAT32.dtype))
    rounded = rounder(soft, FLOAT64.dtype)
    if twice and rounded is not None and _nearest_twice(soft):
        return _rounded_once(plain(name), rounded)
    if name == "multiply" and rounded is not None and _exact_products(soft):
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


@functools.cache
def _cut(soft, op):
    """f(x, y, z, word): a sum or product toward zero, of values of a format with float32's exponents.

    That is the float32 result without its low bits, but for two cases, in which the float32 below it is meant. A sum
    can lie on the grid above the exact one: then it is one operand, and the other, of the other sign, is lost in it.
    And a result beyond the range is the largest value, of which infinity less one bit has all the bits.
    """
    kept = (1 << 32) - (1 << FLOAT32.mantissa_bits - soft.fmt.mantissa_bits)

    @jit(inline=True)
    def run(x, y, z, word):
        if op == MULTIPLY:
            s = x * y
            # The error of an infinity is infinite, and a NaN where an operand was infinite.
            error = to_bits(fma(x, y, -s))
            below = magnitude(error) == infinity_like(error)
        else:
            y = -y if op == SUBTRACT else y
            s = x + y
            u, v = to_bits(x), to_bits(y)
            operand = (s == x) | (s == y)
            numbers = (magnitude(u) != zero_like(u)) & (magnitude(v) != zero_like(v))
            infinite = magnitude(to_bits(s)) == infinity_like(u)
            lost = operand & numbers & is_negative(xor(u, v))
            below = not operand if infinite else lost
        u = to_bits(s)
        u = sub(u, one_like(u)) if below else u
        return to_float(and_(u, np.uint32(kept)))

    return run


def _exact_products(soft):
    """Whether the product of two values is a float64, so that there is no error to look at."""
    return 2 * soft.fmt.precision <= 53 and always_inside(soft)


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
