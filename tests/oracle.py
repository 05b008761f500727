"""Slow exact reference: the rules told a second time, in integers and fractions.

A positive real is known only by its floor at any power-of-two scale (`Positive`), which serves
quotients and square roots alike; a rounding looks at that floor and at how much of the number it
left out. No floating-point operation decides anything here, and no line is shared with the package.

Source: IEEE 754-2019, sections 3 to 7; OCP 8-bit and MX formats as ml_dtypes documents them; IEEE
P3109 v4.0.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntFlag
from fractions import Fraction

ROUNDINGS = (
    "ties_to_even",
    "ties_to_away",
    "toward_zero",
    "toward_positive",
    "toward_negative",
    "to_odd",
)
STOCHASTIC = ("stochastic", "stochastic_equal")


class Flag(IntFlag):
    """Exceptions, at TestFloat's bit positions."""

    inexact = 1
    underflow = 2
    overflow = 4
    divide_by_zero = 8
    invalid = 16


NO_FLAG = Flag(0)


# --- formats
@dataclass(frozen=True)
class Format:
    """The fields of a format. A magnitude code is a code without its sign bit."""

    exponent_bits: int
    mantissa_bits: int
    bias: int | None = None
    specials: str = "ieee"
    subnormals: bool | str = True
    signed: bool = True

    def __post_init__(self):
        if self.bias is None:
            half = 2 ** (self.exponent_bits - 1)
            later = self.specials in ("fnuz", "p3109_extended", "p3109_finite")
            object.__setattr__(self, "bias", half if later else half - 1)
        if self.subnormals is False:
            object.__setattr__(self, "subnormals", "ftz")

    def __str__(self):
        extra = [self.specials] * (self.specials != "ieee")
        extra += [str(self.subnormals)] * (self.subnormals is not True)
        usual = Format(self.exponent_bits, self.mantissa_bits, specials=self.specials).bias
        extra += [f"bias{self.bias}"] * (self.bias != usual)
        extra += ["unsigned"] * (not self.signed)
        return "_".join([f"e{self.exponent_bits}m{self.mantissa_bits}", *extra])

    @property
    def all_ones(self):
        return 2 ** (self.exponent_bits + self.mantissa_bits) - 1

    @property
    def bits(self):
        return self.exponent_bits + self.mantissa_bits + self.signed

    @property
    def minus(self):
        """The sign bit, or nothing."""
        return self.all_ones + 1 if self.signed else 0

    @property
    def infinity(self):
        """Magnitude code of infinity, or None."""
        if self.specials == "ieee":
            return self.all_ones - (2**self.mantissa_bits - 1)
        if self.specials == "p3109_extended":
            return self.all_ones - (not self.signed)
        return None

    @property
    def nan(self):
        """Code of the canonical NaN, or None."""
        match self.specials:
            case "finite":
                return None
            case "ieee":
                quiet = 2**self.mantissa_bits // 2
                return self.infinity + quiet if quiet else None
            case "fn" | "scale":
                return self.all_ones
            case "fnuz" | "p3109_extended" | "p3109_finite":
                return self.minus if self.signed else self.all_ones
        raise ValueError(self.specials)

    @property
    def largest(self):
        """Magnitude code of the largest finite value: just below the lowest special at the top."""
        specials = [c for c in (self.infinity, self.nan) if c is not None and c <= self.all_ones]
        return min(specials) - 1 if specials else self.all_ones

    @property
    def smallest(self):
        """Magnitude code of the smallest positive value."""
        if self.specials == "scale":
            return 0
        return 2**self.mantissa_bits if self.subnormals in ("ftz", "grid") else 1

    @property
    def negative_zero(self):
        return self.signed and self.specials in ("ieee", "fn", "finite")

    @property
    def emin(self):
        """Exponent of the lowest binade whose values carry the full precision."""
        lowest_field = 0 if self.subnormals == "normal" or self.specials == "scale" else 1
        return lowest_field - self.bias

    def value(self, magnitude_code):
        """The non-negative rational behind the magnitude code of a finite number."""
        field, trailing = divmod(magnitude_code, 2**self.mantissa_bits)
        if field == 0 and self.specials != "scale":
            if self.subnormals in ("ftz", "grid") or magnitude_code == 0:
                return Fraction(0)
            if self.subnormals is True:
                return trailing * power_of_two(1 - self.bias - self.mantissa_bits)
        significand = 2**self.mantissa_bits + trailing
        return significand * power_of_two(field - self.bias - self.mantissa_bits)

    def zero(self, negative):
        return self.minus if negative and self.negative_zero else 0


def p3109(K, P, signed=True, extended=True):
    exponent_bits = K - P + (not signed)
    specials = "p3109_extended" if extended else "p3109_finite"
    return Format(exponent_bits, P - 1, specials=specials, signed=signed)


# --- numbers
def power_of_two(k):
    return Fraction(2**k) if k >= 0 else Fraction(1, 2**-k)


@dataclass(frozen=True)
class Number:
    """A datum: finite (with the sign of its zero), infinite, or not a number."""

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)
    signaling: bool = False

    @property
    def is_nan(self):
        return self.kind == "nan"

    @property
    def is_infinite(self):
        return self.kind == "infinite"

    @property
    def is_zero(self):
        return self.kind == "finite" and self.magnitude == 0

    @property
    def signed_value(self):
        return -self.magnitude if self.negative else self.magnitude

    def __neg__(self):
        return Number(self.kind, not self.negative, self.magnitude, self.signaling)


NAN = Number("nan")


def infinite(negative):
    return Number("infinite", negative)


def finite(q, negative=None):
    """A rational as a Number; `negative` gives the sign of a zero."""
    return Number("finite", q < 0 if q else bool(negative), abs(Fraction(q)))


def from_code(fmt, code):
    code = int(code)
    negative = bool(code & fmt.minus)
    magnitude_code = code & fmt.all_ones
    if fmt.specials == "ieee" and magnitude_code > fmt.infinity:
        return Number("nan", negative, signaling=magnitude_code < fmt.nan)
    if fmt.specials == "fn" and magnitude_code == fmt.nan:
        return Number("nan", negative)
    if fmt.specials not in ("ieee", "fn") and code == fmt.nan:
        return NAN
    if magnitude_code == fmt.infinity:
        return infinite(negative)
    magnitude = fmt.value(magnitude_code)
    # Codes of exponent field 0 that read as zero do so without a sign where there is no -0.
    return Number("finite", negative and (magnitude > 0 or fmt.negative_zero), magnitude)


BINARY16, BFLOAT16 = Format(5, 10), Format(8, 7)
BINARY32, BINARY64 = Format(8, 23), Format(11, 52)


def from_float(x):
    """A Python float, bit by bit, so that the sign of zero and a signaling NaN are seen."""
    return from_code(BINARY64, struct.unpack("<Q", struct.pack("<d", x))[0])


class Positive:
    """A positive real: the quotient n/d, or its square root."""

    def __init__(self, quotient, root=False):
        quotient = Fraction(quotient)
        self.n, self.d, self.root = quotient.numerator, quotient.denominator, root

    def floor(self, k):
        """floor(x * 2**k), and whether that is all of x * 2**k."""
        shift = 2 * k if self.root else k
        n, d = (self.n << shift, self.d) if shift >= 0 else (self.n, self.d << -shift)
        whole, rest = divmod(n, d)
        if not self.root:
            return whole, rest == 0
        side = math.isqrt(whole)
        return side, rest == 0 and side * side == whole

    @property
    def exponent(self):
        """floor(log2(x))."""
        e = self.n.bit_length() - self.d.bit_length()
        if (self.n << -e if e < 0 else self.n) < (self.d << e if e > 0 else self.d):
            e -= 1
        return e // 2 if self.root else e

    def over(self, unit):
        quotient = Fraction(self.n, self.d)
        return Positive(quotient / (unit * unit if self.root else unit), self.root)

    def below(self, q):
        """Is x < q?"""
        return Fraction(self.n, self.d) < (q * q if self.root else q)


# --- rounding
@dataclass(frozen=True)
class How:
    """How to round: the mode, what becomes of an overflow, and the random word if one is needed."""

    rounding: str = "ties_to_even"
    saturate: bool | str = False
    word: int | None = None
    random_bits: int = 24
    variant: str = "A"

    def away(self, negative, odd, discarded):
        """Does a magnitude move away from zero? `discarded`: its part beyond the integer below."""
        half, exactly_half = discarded(1)
        match self.rounding:
            case _ if half == 0 and exactly_half:
                return False
            case "ties_to_even":
                return bool(half) and (odd or not exactly_half)
            case "ties_to_away":
                return bool(half)
            case "toward_zero":
                return False
            case "toward_positive":
                return not negative
            case "toward_negative":
                return negative
            case "to_odd":
                return not odd
            case "stochastic_equal":
                return self.word >= 2 ** (self.random_bits - 1)
            case "stochastic":
                return self.drawn(discarded) >= 2**self.random_bits
        raise ValueError(self.rounding)

    def drawn(self, discarded):
        """P3109 v4.0, StochasticA, B and C, as what is compared with 2**k."""
        k = self.random_bits
        if self.variant == "A":
            return discarded(k)[0] + self.word
        if self.variant == "B":
            return (discarded(k + 1)[0] + 2 * self.word + 1) / Fraction(2)
        if self.variant == "C":
            doubled, exact = discarded(k + 1)
            kept, half = divmod(doubled, 2)
            return kept + (half and (kept % 2 == 1 or not exact)) + self.word
        raise ValueError(self.variant)


def tail(y):
    """The fraction f of y as a function of k: floor(f * 2**k), and whether that is all."""
    whole = y.floor(0)[0]

    def discarded(k):
        t, exact = y.floor(k)
        return t - (whole << k), exact

    return discarded


@dataclass(frozen=True)
class Rounded:
    """A result: its code (None for a NaN or a negative that the format lacks), and its flags."""

    code: int | None
    after: Flag = NO_FLAG  # tininess detected after rounding
    before: Flag = NO_FLAG  # tininess detected before rounding

    def raising(self, flags):
        return Rounded(self.code, self.after | flags, self.before | flags)


def stays_tiny(fmt, x, negative, how):
    """Is x below the smallest normal also when rounded with an unbounded exponent?"""
    y = x.over(power_of_two(x.exponent - fmt.mantissa_bits))
    whole = y.floor(0)[0]
    moved = whole + how.away(negative, whole % 2 == 1, tail(y))
    return moved * power_of_two(x.exponent - fmt.mantissa_bits) < power_of_two(fmt.emin)


def round_real(fmt, x, negative, how):
    """The rounding of a non-zero real of magnitude x; what is negative then needs a sign bit."""
    if negative and fmt.specials == "scale":
        return Rounded(fmt.nan)
    result = round_magnitude(fmt, x, negative, how)
    return Rounded(fmt.nan) if negative and not fmt.signed and result.code else result


def round_magnitude(fmt, x, negative, how):
    if fmt.specials == "scale":
        return round_scale(fmt, x, how)
    sign = fmt.minus if negative else 0
    if fmt.subnormals is not True and x.below(fmt.value(fmt.smallest)):
        return round_in_gap(fmt, x, negative, how)

    quantum = power_of_two(max(x.exponent, fmt.emin) - fmt.mantissa_bits)
    y = x.over(quantum)
    significand, exact = y.floor(0)
    # One binade spans 2**mantissa_bits codes; the first full one starts at the code of 2**emin.
    first = 0 if fmt.subnormals == "normal" else 2**fmt.mantissa_bits
    binade = max(x.exponent, fmt.emin) - fmt.emin
    code = first + (binade - 1) * 2**fmt.mantissa_bits + significand
    code += how.away(negative, code % 2 == 1, tail(y))
    if code > fmt.largest:
        return overflow(fmt, negative, how)
    if exact:
        return Rounded(sign | code if code else fmt.zero(negative))
    after = before = Flag.inexact
    if x.below(power_of_two(fmt.emin)):
        before |= Flag.underflow
        if stays_tiny(fmt, x, negative, how):
            after |= Flag.underflow
    return Rounded(sign | code if code else fmt.zero(negative), after, before)


def round_in_gap(fmt, x, negative, how):
    """Between zero and the smallest positive value of a format without subnormals."""
    if fmt.subnormals == "ftz":
        away = not stays_tiny(fmt, x, negative, how)
    elif how.rounding == "to_odd":
        away = True  # zero is even and its neighbour stands for "something was there"
    else:
        away = how.away(negative, False, tail(x.over(fmt.value(fmt.smallest))))
    code = (fmt.minus if negative else 0) | fmt.smallest if away else fmt.zero(negative)
    flags = Flag.inexact | Flag.underflow
    return Rounded(code, flags, flags)


def round_scale(fmt, x, how):
    """E8M0: a tie goes to the larger power, everything too small to the smallest."""
    e = x.exponent
    y = x.over(power_of_two(e))
    if how.rounding == "ties_to_even":
        code = e + fmt.bias + bool(tail(y)(1)[0])
    else:
        code = e + fmt.bias + how.away(False, (e + fmt.bias) % 2 == 1, tail(y))
    if code > fmt.largest:
        return overflow(fmt, False, how)
    inexact = NO_FLAG if y.floor(0)[1] and code >= 0 else Flag.inexact
    if code < 0 or e < fmt.emin:
        inexact |= Flag.underflow if inexact else NO_FLAG
    return Rounded(max(code, 0), inexact, inexact)


def overflow(fmt, negative, how):
    """What stands for a magnitude rounded beyond the largest finite one (IEEE 754-2019, 7.4)."""
    flags = Flag.overflow | Flag.inexact
    held_back = {
        "toward_zero": True,
        "toward_positive": negative,
        "toward_negative": not negative,
        "to_odd": fmt.largest % 2 == 1,
    }.get(how.rounding, False)
    endless = fmt.infinity is not None or fmt.nan is not None
    if held_back or how.saturate or not endless or fmt.specials == "p3109_finite":
        return Rounded((fmt.minus if negative else 0) | fmt.largest, flags, flags)
    return Rounded(beyond(fmt, negative), flags, flags)


def beyond(fmt, negative):
    """Infinity where there is one, else NaN."""
    sign = fmt.minus if negative else 0
    if fmt.infinity is not None:
        return sign | fmt.infinity
    return sign | fmt.nan if fmt.specials == "fn" else fmt.nan


def deliver(fmt, number, how, exact_zero_sign=None):
    """A Number, or a Positive with its sign, into a format."""
    if number.is_nan:
        if fmt.specials == "fn" and number.negative:
            return Rounded(fmt.minus | fmt.nan)
        return Rounded(fmt.nan)
    if number.is_infinite:
        if number.negative and not fmt.signed:
            return Rounded(fmt.nan)
        endless = fmt.infinity is not None or fmt.nan is not None
        keeps = how.saturate is False or (how.saturate == "propagate" and fmt.infinity is not None)
        if keeps and endless and fmt.specials != "p3109_finite":
            return Rounded(beyond(fmt, number.negative))
        return Rounded((fmt.minus if number.negative else 0) | fmt.largest)
    if number.is_zero:
        return Rounded(fmt.nan if fmt.specials == "scale" else fmt.zero(number.negative))
    return round_real(fmt, Positive(number.magnitude), number.negative, how)


# --- operations
def quantize(fmt, x, how=How()):
    """Also convert: a signaling NaN raises invalid."""
    if x.is_nan and x.signaling:
        return deliver(fmt, x, how).raising(Flag.invalid)
    return deliver(fmt, x, how)


def nan_result(fmt, operands, invalid=False):
    invalid = invalid or any(x.is_nan and x.signaling for x in operands)
    flags = Flag.invalid if invalid else NO_FLAG
    return Rounded(fmt.nan, flags, flags)


def zero_sum_negative(signs, all_zero, how):
    """Sign of an exact zero sum: that of zeros of one sign, else that of the direction (6.3)."""
    if all_zero and len(set(signs)) == 1:
        return signs[0]
    return how.rounding == "toward_negative"


def add(fmt, x, y, how=How()):
    if x.is_nan or y.is_nan:
        return nan_result(fmt, (x, y))
    if x.is_infinite and y.is_infinite and x.negative != y.negative:
        return nan_result(fmt, (x, y), invalid=True)
    if x.is_infinite or y.is_infinite:
        return deliver(fmt, x if x.is_infinite else y, how)
    total = x.signed_value + y.signed_value
    sign = zero_sum_negative((x.negative, y.negative), x.is_zero and y.is_zero, how)
    return deliver(fmt, finite(total, sign), how)


def subtract(fmt, x, y, how=How()):
    return add(fmt, x, -y, how)


def multiply(fmt, x, y, how=How()):
    negative = x.negative != y.negative
    if x.is_nan or y.is_nan:
        return nan_result(fmt, (x, y))
    if (x.is_infinite and y.is_zero) or (x.is_zero and y.is_infinite):
        return nan_result(fmt, (x, y), invalid=True)
    if x.is_infinite or y.is_infinite:
        return deliver(fmt, infinite(negative), how)
    return deliver(fmt, finite(x.signed_value * y.signed_value, negative), how)


def divide(fmt, x, y, how=How()):
    negative = x.negative != y.negative
    if x.is_nan or y.is_nan:
        return nan_result(fmt, (x, y))
    if (x.is_infinite and y.is_infinite) or (x.is_zero and y.is_zero):
        return nan_result(fmt, (x, y), invalid=True)
    if x.is_infinite:
        return deliver(fmt, infinite(negative), how)
    if y.is_zero:
        return deliver(fmt, infinite(negative), how).raising(Flag.divide_by_zero)
    if y.is_infinite:
        return deliver(fmt, finite(Fraction(0), negative), how)
    return deliver(fmt, finite(x.signed_value / y.signed_value, negative), how)


def sqrt(fmt, x, how=How()):
    if x.is_nan:
        return nan_result(fmt, (x,))
    if x.is_zero:
        return deliver(fmt, x, how)
    if x.negative:
        return nan_result(fmt, (x,), invalid=True)
    if x.is_infinite:
        return deliver(fmt, x, how)
    return round_real(fmt, Positive(x.magnitude, root=True), False, how)


def fma(fmt, x, y, z, how=How()):
    """x*y + z. Infinity times zero beside a quiet NaN is invalid, as in TestFloat (7.2)."""
    negative = x.negative != y.negative
    impossible = (x.is_infinite and y.is_zero) or (x.is_zero and y.is_infinite)
    if x.is_nan or y.is_nan or z.is_nan or impossible:
        return nan_result(fmt, (x, y, z), invalid=impossible)
    if x.is_infinite or y.is_infinite:
        if z.is_infinite and z.negative != negative:
            return nan_result(fmt, (x, y, z), invalid=True)
        return deliver(fmt, infinite(negative), how)
    if z.is_infinite:
        return deliver(fmt, z, how)
    product = x.signed_value * y.signed_value
    sign = zero_sum_negative((negative, z.negative), product == 0 and z.is_zero, how)
    return deliver(fmt, finite(product + z.signed_value, sign), how)


def remainder(fmt, x, y, how=How()):
    """x - n*y with n the integer nearest x/y, even on a tie; a zero takes the sign of x (5.3.1)."""
    if x.is_nan or y.is_nan:
        return nan_result(fmt, (x, y))
    if x.is_infinite or y.is_zero:
        return nan_result(fmt, (x, y), invalid=True)
    if y.is_infinite:
        return deliver(fmt, x, how)
    # Fraction rounds half to even.
    rest = x.signed_value - round(x.signed_value / y.signed_value) * y.signed_value
    return deliver(fmt, finite(rest, x.negative), how)


def to_integer(x, how=How()):
    """The integer that a finite Number rounds to, and whether that was exact."""
    whole = math.floor(x.magnitude)
    if whole == x.magnitude:
        return (-whole if x.negative else whole), True
    y = Positive(x.magnitude)
    whole += how.away(x.negative, whole % 2 == 1, tail(y))
    return (-whole if x.negative else whole), False


def round_to_integral(fmt, x, how=How()):
    if x.is_nan:
        return nan_result(fmt, (x,))
    if x.is_infinite:
        return deliver(fmt, x, how)
    n, exact = to_integer(x, how)
    return deliver(fmt, finite(Fraction(n), x.negative), how).raising(
        NO_FLAG if exact else Flag.inexact
    )


def compare(x, y):
    """-1, 0 or 1; None if unordered."""
    if x.is_nan or y.is_nan:
        return None

    def position(v):
        if v.is_infinite:
            return (-1 if v.negative else 1, 0)
        return (0, v.signed_value)

    return (position(x) > position(y)) - (position(x) < position(y))


def next_code(fmt, code, up):
    """Code of the nearest value above (below) a finite or infinite one."""
    values = sorted_codes(fmt)
    at = values.index(code)
    return values[min(max(at + (1 if up else -1), 0), len(values) - 1)]


def sorted_codes(fmt):
    """Every code of a number, by value, -0 before +0; other codes that read as zero left out."""
    top = fmt.largest if fmt.infinity is None else fmt.infinity
    positive = [c for c in range(1, top + 1) if c >= fmt.smallest]
    negative = [fmt.minus | c for c in reversed(positive)] if fmt.signed else []
    zeros = ([fmt.minus] if fmt.negative_zero else []) + [0]
    return negative + zeros + positive


# --- random words
def splitmix64(z):
    """The finalizer of Steele, Lea and Flood (2014)."""
    z %= 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def random_key(seed, stream=0):
    return splitmix64(splitmix64(seed + GOLDEN_GAMMA) + stream * 0x94D049BB133111EB)


def random_word(seed, stream, index, k=32):
    """The k random bits of one element: the top of a 32-bit half of output number index // 2."""
    output = splitmix64(random_key(seed, stream) + (index // 2 + 1) * GOLDEN_GAMMA)
    half = output // 2**32 if index % 2 else output % 2**32
    return half >> (32 - k)
