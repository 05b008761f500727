"""Elementary functions of rational numbers to any number of bits, with error bounds that are carried along.

A Ball is an integer count of units 2**-bits and a bound on its error in those units. Each function is evaluated with
more and more bits until its leading 124 are known. Pure Python: needed where 124 bits do not decide a rounding, for
operands that no float64 holds, and to make the tables of the compiled functions.

Source: Brent and Zimmermann, Modern Computer Arithmetic (2010), ch. 4.
"""

import functools
import math
from fractions import Fraction

from softfloat.operands import parts_of
from softfloat.rounding import FINITE_CLASS, MASK, WORD

FIRST_BITS = 192
MOST_BITS = 1 << 17
GUARD = 32  # bits added inside a function, more than its steps can lose
FAR = 1 << 30  # stands for an exponent beyond every format
LARGEST_POWER = 1 << 15  # of two, beyond which a result is as good as infinite or zero


class Ball:
    """An integer `value` in units of 2**-bits that lies within `error` units of a real number."""

    __slots__ = ("bits", "error", "value")

    def __init__(self, value, error, bits):
        self.value, self.error, self.bits = value, error, bits

    @classmethod
    def of(cls, x, bits):
        """The Ball around a rational number."""
        x = Fraction(x)
        value, rest = divmod(x.numerator << bits, x.denominator)
        return cls(value, int(rest != 0), bits)

    def _other(self, other):
        return other if isinstance(other, Ball) else Ball.of(other, self.bits)

    def __add__(self, other):
        other = self._other(other)
        return Ball(self.value + other.value, self.error + other.error, self.bits)

    def __neg__(self):
        return Ball(-self.value, self.error, self.bits)

    def __sub__(self, other):
        return self + -self._other(other)

    def __mul__(self, other):
        other = self._other(other)
        error = abs(self.value) * other.error + abs(other.value) * self.error
        error += self.error * other.error
        return Ball((self.value * other.value) >> self.bits, (error >> self.bits) + 2, self.bits)

    def __truediv__(self, other):
        other = self._other(other)
        smallest = abs(other.value) - other.error
        if smallest <= 0:
            raise PrecisionError
        quotient = (self.value << self.bits) // other.value
        error = ((self.error << self.bits) + (abs(quotient) + 1) * other.error) // smallest
        return Ball(quotient, error + 2, self.bits)

    def sqrt(self):
        """The square root of a positive number."""
        smallest = self.value - self.error
        if smallest <= 0:
            raise PrecisionError
        low = math.isqrt(smallest << self.bits)
        high = math.isqrt((self.value + self.error) << self.bits) + 1
        return Ball(low, high - low, self.bits)

    def is_larger(self, other):
        """Whether the number is above a rational; an undecided comparison asks for more bits."""
        difference = self - other
        if abs(difference.value) <= difference.error:
            raise PrecisionError
        return difference.value > 0


class PrecisionError(ArithmeticError):
    """A Ball is too wide for what is asked of it."""


# ---------------------------------------------------------------- constants and series, in units of 2**-bits
@functools.lru_cache(maxsize=64)
def ln2(bits):
    """floor(ln(2) * 2**bits), or one less: Machin-like sum of inverse hyperbolic tangents."""
    w = bits + GUARD
    total = 18 * _arctanh_inverse(26, w) - 2 * _arctanh_inverse(4801, w)
    return (total + 8 * _arctanh_inverse(8749, w)) >> GUARD


@functools.lru_cache(maxsize=64)
def pi(bits):
    """floor(pi * 2**bits), or one less: Machin's formula."""
    w = bits + GUARD
    return (16 * _arctan_inverse(5, w) - 4 * _arctan_inverse(239, w)) >> GUARD


def _arctanh_inverse(n, w):
    return _inverse_series(n, w, 1)


def _arctan_inverse(n, w):
    return _inverse_series(n, w, -1)


def _inverse_series(n, w, sign):
    term, total, k = (1 << w) // n, 0, 1
    while term:
        total += term // k if sign > 0 or k % 4 == 1 else -(term // k)
        term //= n * n
        k += 2
    return total


def _exp(x, bits):
    """(value, error) of exp of an exact x, both in units of 2**-bits."""
    power = abs(x) >> bits
    halvings = math.isqrt(bits)
    w = bits + GUARD + halvings + power.bit_length()
    k, rest = divmod(x << (w - bits), ln2(w))
    rest >>= halvings
    term = total = 1 << w
    n = 1
    while term:
        term = ((term * rest) >> w) // n
        total += term
        n += 1
    for _ in range(halvings):
        total = (total * total) >> w
    shift = w - bits - k
    if shift >= 0:
        return total >> shift, 2
    # The lost bits stay within the guard: the error is below 2**-bits relative to the result.
    return total << -shift, 2 << k


def _log(x, bits):
    """(value, error) of the logarithm of an exact x > 0."""
    k = x.bit_length() - bits
    w = bits + GUARD + abs(k).bit_length()
    m = x << (w - bits)
    m = m >> k if k >= 0 else m << -k  # in [1/2, 1]
    one = 1 << w
    y = ((m - one) << w) // (m + one)
    square = (y * y) >> w
    total, n = 0, 1
    while y not in (0, -1):
        total += y // n
        y = (y * square) >> w
        n += 2
    return (2 * total + k * ln2(w)) >> (w - bits), 2


def _arctan(x, bits):
    """(value, error) of the arctangent of an exact x >= 0."""
    w = bits + GUARD
    x <<= GUARD
    one = 1 << w
    large = x > one
    if large:
        x = (one << w) // x
    for _ in range(3):
        x = (x << w) // (one + math.isqrt((one << w) + x * x))
    square = (x * x) >> w
    term, total, n = x, 0, 1
    while term:
        total += term // n if n % 4 == 1 else -(term // n)
        term = (term * square) >> w
        n += 2
    total *= 8
    if large:
        total = (pi(w) >> 1) - total
    return total >> GUARD, 2


def _sin_cos(x, bits):
    """(sine, cosine, error) of an exact x."""
    w = bits + GUARD + max(0, abs(x).bit_length() - bits)
    quadrant, r = divmod(x << (w - bits), pi(w) >> 1)
    square = (r * r) >> w
    results = []
    for term, n in ((r, 1), (1 << w, 0)):
        total = 0
        while term:
            total += term
            term = -(((term * square) >> w) // ((n + 1) * (n + 2)))
            term += term < 0  # toward zero, so that the loop ends
            n += 2
        results.append(total >> (w - bits))
    sine, cosine = results
    turned = ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))
    return (*turned[quadrant & 3], 2)


# ---------------------------------------------------------------- functions of Balls
def exp(x):
    """e**x."""
    value, error = _exp(x.value, x.bits)
    if x.error:
        if x.error >> (x.bits - 1):
            raise PrecisionError
        error += ((value + error) * 2 * x.error >> x.bits) + 1  # exp(d) - 1 <= 2*d for d <= 1/2
    return Ball(value, error, x.bits)


def log(x):
    """The natural logarithm of a positive number."""
    smallest = x.value - x.error
    if smallest <= 0:
        raise PrecisionError
    value, error = _log(x.value, x.bits)
    return Ball(value, error + (x.error << x.bits) // smallest + (x.error > 0), x.bits)


def arctan(x):
    value, error = _arctan(abs(x.value), x.bits)
    return Ball(value if x.value >= 0 else -value, error + x.error, x.bits)


def sin(x):
    sine, _, error = _sin_cos(x.value, x.bits)
    return Ball(sine, error + x.error, x.bits)


def cos(x):
    _, cosine, error = _sin_cos(x.value, x.bits)
    return Ball(cosine, error + x.error, x.bits)


def _pi(x):
    return Ball(pi(x.bits), 2, x.bits)


def _ln2(x):
    return Ball(ln2(x.bits), 2, x.bits)


def _cbrt(x):
    root = exp(log(x if x.value > 0 else -x) / 3)
    return root if x.value > 0 else -root


def _sinh(x):
    e = exp(x)
    return (e - Ball.of(1, x.bits) / e) * Fraction(1, 2)


def _cosh(x):
    e = exp(x)
    return (e + Ball.of(1, x.bits) / e) * Fraction(1, 2)


def _tanh(x):
    e = exp(x * 2)
    return (e - 1) / (e + 1)


def _arcsin(x):
    if abs(x.value) >> x.bits:  # +-1, or too close to it
        if x.error:
            raise PrecisionError
        return _pi(x) * Fraction(1 if x.value > 0 else -1, 2)
    return arctan(x / ((-x + 1) * (x + 1)).sqrt())


def _arccos(x):
    return _pi(x) * Fraction(1, 2) - _arcsin(x)


def _arcsinh(x):
    result = log((x * x + 1).sqrt() + (x if x.value > 0 else -x))
    return result if x.value > 0 else -result


def _erf(x):
    """2/sqrt(pi) * exp(-x**2) * sum of x * (2*x**2)**n / (1*3*...*(2*n + 1)); all terms of one sign."""
    square = x * x
    term, total, n = x, x, 1
    while abs(term.value) > term.error or n < (square.value >> (x.bits - 2)):
        term = term * square * Fraction(2, 2 * n + 1)
        total = total + term
        n += 1
    # Terms fall by half at least from here on.
    total = Ball(total.value, total.error + 2 * (abs(term.value) + term.error), x.bits)
    return total * exp(-square) * 2 / _pi(x).sqrt()


def _sinpi(x):
    return sin(x * _pi(x))


def _arctan2(y, x):
    for ball in (y, x):
        if ball.error and abs(ball.value) <= ball.error:
            raise PrecisionError  # its sign is not known
    if x.value > 0 and abs(y.value) <= x.value:
        return arctan(y / x)
    if y.value == 0:
        return _pi(x)
    half = _pi(x) * Fraction(1, 2)
    return (half if y.value > 0 else -half) - arctan(x / y)


def _log_sum(a, b, base):
    high, low = (a, b) if a.value >= b.value else (b, a)
    return high + log(exp((low - high) * base) + 1) / base


def _logaddexp(a, b):
    return _log_sum(a, b, Ball.of(1, a.bits))


EVALUATE = {
    "exp": exp,
    "exp2": lambda x: exp(x * _ln2(x)),
    "exp10": lambda x: exp(x * log(Ball.of(10, x.bits))),
    "expm1": lambda x: exp(x) - 1,
    "log": log,
    "log2": lambda x: log(x) / _ln2(x),
    "log10": lambda x: log(x) / log(Ball.of(10, x.bits)),
    "log1p": lambda x: log(x + 1),
    "cbrt": _cbrt,
    "rsqrt": lambda x: Ball.of(1, x.bits) / x.sqrt(),
    "sin": sin,
    "cos": cos,
    "tan": lambda x: sin(x) / cos(x),
    "sinpi": _sinpi,
    "cospi": lambda x: cos(x * _pi(x)),
    "tanpi": lambda x: sin(x * _pi(x)) / cos(x * _pi(x)),
    "sinc": lambda x: _sinpi(x) / (x * _pi(x)),
    "arcsin": _arcsin,
    "arccos": _arccos,
    "arctan": arctan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "arcsinh": _arcsinh,
    "arccosh": lambda x: log(x + (x * x - 1).sqrt()),
    "arctanh": lambda x: log((x + 1) / (-x + 1)) * Fraction(1, 2),
    "erf": _erf,
    "degrees": lambda x: x * 180 / _pi(x),
    "radians": lambda x: x * _pi(x) / 180,
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "power": lambda x, y: exp(log(x) * y),
    "arctan2": _arctan2,
    "logaddexp": _logaddexp,
    "logaddexp2": lambda a, b: _log_sum(a, b, _ln2(a)),
}


# ---------------------------------------------------------------- results
def leading_parts(name, *operands):
    """(class, negative, exponent, high, low) of an irrational result at rational operands, correct to its last bit.

    The last bit of `low` is set: the number lies strictly between two of 124 bits. Results that are rational
    (`rational_value`) and operands outside the domain are the caller's to exclude.
    """
    found = _limit(name, operands)
    bits = FIRST_BITS
    while found is None and bits <= MOST_BITS:
        try:
            found = _leading(EVALUATE[name](*(Ball.of(x, bits) for x in operands)))
        except PrecisionError:
            pass
        bits *= 2
    if found is None:
        raise ValueError(
            f"{name} of {' and '.join(map(repr, operands))} is too close to a number of few bits: "
            f"{MOST_BITS} bits do not tell them apart"
        )
    return (FINITE_CLASS, *found)


def _leading(ball):
    """The parts of a Ball, or None where its error leaves one of the leading 124 bits open."""
    magnitude = abs(ball.value)
    low, high = magnitude - ball.error, magnitude + ball.error
    shift = low.bit_length() - 2 * WORD
    if low <= 0 or shift < 0 or low >> shift != high >> shift:
        return None
    kept = low >> shift
    exponent = 2 * WORD - 1 + shift - ball.bits
    return int(ball.value < 0), exponent, kept >> WORD, (kept & MASK) | 1


def _limit(name, operands):
    """The parts of a result so large, so small or so close to 1 that no format sees the difference; else None."""
    x = operands[0]
    if name in ("tanh", "erf") and abs(x) > WORD:
        return int(x < 0), -1, MASK, MASK
    if name in ("exp", "exp2", "exp10", "expm1", "sinh", "cosh") and abs(x) > LARGEST_POWER:
        if name == "expm1" and x < 0:
            return 1, -1, MASK, MASK
        small = x < 0 and name in ("exp", "exp2", "exp10")
        return int(name == "sinh" and x < 0), -FAR if small else FAR, (MASK + 1) >> 1, 1
    if name in ("logaddexp", "logaddexp2") and abs(x - operands[1]) > LARGEST_POWER:
        return _hair_above(max(operands))
    if name == "power":
        power = operands[1] * (x.numerator.bit_length() - x.denominator.bit_length())
        if abs(power) > LARGEST_POWER:
            return 0, FAR if power > 0 else -FAR, (MASK + 1) >> 1, 1
    return None


def _hair_above(x):
    """The parts of a number just above x."""
    _, negative, exponent, high, low = parts_of(x if x else Fraction(1, 1 << LARGEST_POWER))
    if negative and not low & 1:
        _, _, exponent, high, low = parts_of(-x - abs(x) / (1 << 4 * WORD))
    return negative, exponent, high, low | 1


def _root(x, n):
    """The exact n-th root of a non-negative rational, or None."""
    p, q = _integer_root(x.numerator, n), _integer_root(x.denominator, n)
    return None if p is None or q is None else Fraction(p, q)


def _integer_root(a, n):
    if a < 2:
        return a
    if n >= a.bit_length():
        return None
    low, high = 1, 1 << -(-a.bit_length() // n)
    while low < high:
        middle = (low + high + 1) >> 1
        low, high = (middle, high) if middle**n <= a else (low, middle - 1)
    return low if low**n == a else None


def _log_of_power(x, base):
    """k with base**k == x, or None."""
    k = round(math.log(x.numerator, base) - math.log(x.denominator, base))
    return Fraction(k) if Fraction(base) ** k == x else None


def _half_turns(x):
    """sin(pi * x) where that is rational, else None (Niven's theorem)."""
    known = {0: 0, 1: 1, 2: 2, 3: 1, 4: 0, 5: -1, 6: -2, 7: -1}
    x %= 2
    sixth = {Fraction(1, 6): 1, Fraction(5, 6): 1, Fraction(7, 6): -1, Fraction(11, 6): -1}
    if x in sixth:
        return Fraction(sixth[x], 2)
    return Fraction(known[int(2 * x) * 2 % 8] // 2) if (2 * x).denominator == 1 else None


def _rational_power(x, y):
    root = _root(x, y.denominator) if y.denominator <= 1 << 12 or x == 1 else None
    if x == 1:
        return Fraction(1)
    if root is None or abs(y.numerator) > 1 << 12:
        return None
    return root**y.numerator


def _rational_tangent(x):
    quarter = 4 * x % 4
    return Fraction((0, 1, None, -1)[int(quarter)]) if quarter.denominator == 1 else None


_AT_ZERO = dict.fromkeys(("exp", "exp2", "exp10", "cos", "cosh", "cospi", "sinc"), 1)
_AT_ZERO |= dict.fromkeys(("expm1", "log1p", "sin", "tan", "arcsin", "arctan", "sinh", "tanh"), 0)
_AT_ZERO |= dict.fromkeys(("arcsinh", "arctanh", "erf", "degrees", "radians", "cbrt"), 0)
_AT_ONE = dict.fromkeys(("log", "log2", "log10", "arccos", "arccosh"), 0)
_RATIONAL = {
    "exp2": lambda x: Fraction(2) ** x if x.denominator == 1 and abs(x) < 1 << 15 else None,
    "exp10": lambda x: Fraction(10) ** x if x.denominator == 1 and abs(x) < 1 << 12 else None,
    "log2": lambda x: _log_of_power(x, 2),
    "log10": lambda x: _log_of_power(x, 10),
    "cbrt": lambda x: -r if (r := _root(abs(x), 3)) is not None and x < 0 else r,
    "rsqrt": lambda x: _root(1 / x, 2),
    "sinpi": _half_turns,
    "cospi": lambda x: _half_turns(x + Fraction(1, 2)),
    "tanpi": _rational_tangent,
    "sinc": lambda x: Fraction(0) if x.denominator == 1 else None,
    "hypot": lambda x, y: _root(x * x + y * y, 2),
    "power": _rational_power,
    "arctan2": lambda y, x: Fraction(0) if y == 0 and x > 0 else None,
    "logaddexp2": lambda a, b: a + 1 if a == b else None,
}


def rational_value(name, *operands):
    """The result at rational operands inside the domain where that is rational, else None."""
    x = operands[0]
    if x == 0 and name in _AT_ZERO:
        return Fraction(_AT_ZERO[name])
    if x == 1 and name in _AT_ONE:
        return Fraction(_AT_ONE[name])
    found = _RATIONAL.get(name)
    return found(*operands) if found else None
