"""Text of values: the shortest digits that give the value back when read in its format.

Integers below 10**16 are written in full (65504.0, not 65500.0). Otherwise, of the shortest decimals that round to the
value, to nearest, the closest one.

Source: Steele and White, How to print floating-point numbers accurately (1990); the bounds here are exact fractions.
"""

import math
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from fractions import Fraction

import numpy as np

from softfloat.fixed_point import FixedPoint

PLAIN_BELOW = 1e16  # as for Python's floats
PLAIN_FROM = 1e-4
_DIGITS = 17  # tell every float64


def text(value, fmt):
    """The digits of one value of a format, as Python writes floats."""
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    magnitude = abs(value)
    if magnitude < PLAIN_BELOW and magnitude.is_integer():
        return f"{sign}{magnitude:.1f}"
    shortest = _shortest(magnitude, fmt)
    if PLAIN_FROM <= magnitude < PLAIN_BELOW:
        plain = f"{shortest:f}"
        return sign + (plain if "." in plain else plain + ".0")
    digits = shortest.normalize().as_tuple()
    whole, *rest = map(str, digits.digits)
    fraction = f".{''.join(rest)}" if rest else ""
    return f"{sign}{whole}{fraction}e{int(digits.exponent) + len(rest):+03d}"


def _shortest(magnitude, fmt):
    """The shortest decimal between the midpoints around a positive value; of several, the closest."""
    exact = Fraction(magnitude)
    below, above, closed = _bounds(exact, fmt)
    whole = Decimal(magnitude)
    for n in range(1, _DIGITS + 1):
        found = []
        for how in (ROUND_HALF_EVEN, ROUND_DOWN, ROUND_UP):
            candidate = Context(prec=n, rounding=how).plus(whole)
            place = Fraction(candidate)
            if below < place < above or (closed and place in (below, above)):
                found.append((abs(place - exact), candidate))
        if found:
            return min(found, key=lambda pair: pair[0])[1]  # of two as near, the even digit
    return whole


def _bounds(exact, fmt):
    """(below, above, closed): what lies between rounds to the value; so do the ends themselves if closed."""
    if isinstance(fmt, FixedPoint):
        half = Fraction(fmt.resolution) / 2
        return exact - half, exact + half, False
    if fmt.specials == "scale" and exact == Fraction(fmt.smallest_normal):
        return exact / 2, exact, True  # what is larger goes up, as in ml_dtypes
    m, lowest = fmt.mantissa_bits, fmt.emin
    if fmt.subnormals is not True:
        lowest = -(
            1 << 20
        )  # the smallest values have neighbours below that are as near as any others
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= exact < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, lowest) - m)
    significand = exact / quantum
    narrow = (
        exponent > lowest and significand == 1 << m
    )  # a power of two: its neighbour below is nearer
    # Nor is the rule of ties that of other formats where the last bit belongs to the exponent.
    closed = m > 0 and fmt.subnormals is True and significand % 2 == 0
    return exact - quantum / (4 if narrow else 2), exact + quantum / 2, closed


def array_text(values, fmt, prefix="", separator=", "):
    """The elements as NumPy lays arrays out, right-aligned; NumPy's print options decide what is left out."""
    if values.ndim == 0:
        return text(values, fmt)
    memory = {}

    def shown(value):
        key = float(value), math.copysign(1.0, value)
        if key not in memory:
            memory[key] = text(value, fmt)
        return memory[key]

    np.array2string(values, formatter={"float_kind": shown})  # tells which elements are shown
    width = max(map(len, memory.values()), default=0)
    return np.array2string(
        values,
        separator=separator,
        prefix=prefix,
        formatter={"float_kind": lambda value: shown(value).rjust(width)},
    )


def format_text(fmt):
    """How a repr names a format: by its name, or as the call that makes it."""
    return fmt.name if fmt.name and fmt.name.isidentifier() else repr(fmt)
