"""Trigonometric functions of one operand and their inverses, as in `functions`."""

from softfloat._jit import both
from softfloat.bits import bit_length, i64
from softfloat.ops.elementary.cores import (
    angle,
    complement_root,
    reduced_angle,
    sine,
    tangent,
)
from softfloat.ops.elementary.results import (
    TINY,
    beyond_one,
    computed,
    infinite,
    just_beside,
    nan_of,
    one,
    pole,
    special,
    undefined,
    zero,
)
from softfloat.ops.elementary.tables import (
    DEGREE_EXPONENT,
    DEGREE_HIGH,
    DEGREE_LOW,
    PI_EXPONENT,
    PI_HIGH,
    PI_LOW,
    RADIAN_EXPONENT,
    RADIAN_HIGH,
    RADIAN_LOW,
)
from softfloat.ops.elementary.wide import add, divide, multiply
from softfloat.rounding import (
    FINITE_CLASS,
    QUIET_CLASS,
    TOP,
    WORD,
    ZERO_CLASS,
)


@both(inline=False)
def sin_parts(kind, negative, exponent, high):
    """The sine; NaN of infinity."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), zero(negative))
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    quadrant, rest_negative, exponent, high, low = reduced_angle(exponent, high)
    minus, exponent, high, low = sine(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def cos_parts(kind, negative, exponent, high):
    """The cosine; NaN of infinity."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), one(False))
    if exponent < -TINY:
        return just_beside(False, 0, TOP, False)
    quadrant, rest_negative, exponent, high, low = reduced_angle(exponent, high)
    minus, exponent, high, low = sine((quadrant + 1) & 3, rest_negative, exponent, high, low)
    return computed(minus, exponent, high, low)


@both(inline=False)
def tan_parts(kind, negative, exponent, high):
    """The tangent; NaN of infinity."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), zero(negative))
    if exponent < -TINY:
        return just_beside(negative, exponent, high, True)
    quadrant, rest_negative, exponent, high, low = reduced_angle(exponent, high)
    minus, exponent, high, low = tangent(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def half_turns(exponent, high):
    """2*x as (quadrant modulo 4, rest is zero, negative, exponent, high, low of the rest times pi/2)."""
    exponent += 1  # of 2*x
    quadrant = i64(0)
    negative = False
    rest = high
    if exponent >= WORD:
        return quadrant, True, False, i64(0), i64(0), i64(0)
    if exponent >= -1:
        unit = 1 << (WORD - 1 - exponent) if exponent >= 0 else TOP << 1
        quadrant = (high >> (WORD - 1 - exponent)) & 3 if exponent >= 0 else i64(0)
        rest = high & (unit - 1)
        negative = 2 * rest >= unit and rest > 0
        if negative:
            quadrant = (quadrant + 1) & 3
            rest = unit - rest
        if rest == 0:
            return quadrant, True, False, i64(0), i64(0), i64(0)
    places = WORD - bit_length(rest)
    exponent, high, low = multiply(
        exponent - places, rest << places, 0, PI_EXPONENT - 1, PI_HIGH, PI_LOW
    )
    return quadrant, False, negative, exponent, high, low


@both(inline=False)
def sinpi_parts(kind, negative, exponent, high):
    """sin(pi * x); a zero of x's sign at integers, +-1 between them."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), zero(negative))
    quadrant, on_axis, rest_negative, exponent, high, low = half_turns(exponent, high)
    if on_axis:
        return zero(negative) if (quadrant & 1) == 0 else one((quadrant == 3) != negative)
    minus, exponent, high, low = sine(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def cospi_parts(kind, negative, exponent, high):
    """cos(pi * x); +0 half-way between integers."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), one(False))
    if exponent < -TINY - 1:
        return just_beside(False, 0, TOP, False)
    quadrant, on_axis, rest_negative, exponent, high, low = half_turns(exponent, high)
    if on_axis:
        return zero(False) if (quadrant & 1) == 1 else one(quadrant == 2)
    minus, exponent, high, low = sine((quadrant + 1) & 3, rest_negative, exponent, high, low)
    return computed(minus, exponent, high, low)


@both(inline=False)
def tanpi_parts(kind, negative, exponent, high):
    """tan(pi * x); exact at multiples of 1/4, with the signs of zeros and poles of IEEE 754-2019, 9.2.1."""
    if kind != FINITE_CLASS:
        return special(kind, undefined(), zero(negative))
    quarter = high == TOP and exponent == -2
    if exponent >= -2 and exponent < WORD - 3:
        quarter = (high & ((1 << (WORD - 3 - exponent)) - 1)) == 0
    quadrant, on_axis, rest_negative, exponent, high, low = half_turns(exponent, high)
    if on_axis:
        # Zeros and poles alternate in sign: even and odd numbers of half-turns.
        odd = quadrant >= 2
        return zero(negative != odd) if (quadrant & 1) == 0 else pole(negative != odd)
    if quarter:
        return one(((quadrant & 1) == 1) != (rest_negative != negative))
    minus, exponent, high, low = tangent(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def sinc_parts(kind, negative, exponent, high):
    """sin(pi * x) / (pi * x): 1 at zero, +0 at other integers and at infinity."""
    if kind != FINITE_CLASS:
        return special(kind, zero(False), one(False))
    if exponent < -TINY - 2:
        return just_beside(False, 0, TOP, False)
    quadrant, on_axis, rest_negative, e, h, low = half_turns(exponent, high)
    if on_axis and (quadrant & 1) == 0:
        return zero(False)
    minus = quadrant == 3
    if on_axis:
        e, h, low = i64(0), i64(TOP), i64(0)
    else:
        minus, e, h, low = sine(quadrant, rest_negative, e, h, low)
    ep, hp, lp = multiply(exponent, high, 0, PI_EXPONENT, PI_HIGH, PI_LOW)
    exponent, high, low = divide(e, h, low, ep, hp, lp)
    return computed(minus, exponent, high, low)


@both(inline=False)
def arcsin_parts(kind, negative, exponent, high):
    """The inverse sine, in [-pi/2, pi/2]; NaN beyond [-1, 1]."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if beyond_one(kind, exponent, high):
        return undefined()
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, True)
    if exponent == 0:
        return computed(negative, PI_EXPONENT - 1, PI_HIGH, PI_LOW)
    er, hr, lr = complement_root(exponent, high)
    exponent, high, low = angle(exponent, high, 0, er, hr, lr)
    return computed(negative, exponent, high, low)


@both(inline=False)
def arccos_parts(kind, negative, exponent, high):
    """The inverse cosine, in [0, pi]; NaN beyond [-1, 1]."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if beyond_one(kind, exponent, high):
        return undefined()
    if kind == ZERO_CLASS:
        return computed(False, PI_EXPONENT - 1, PI_HIGH, PI_LOW)
    if exponent == 0:
        return computed(False, PI_EXPONENT, PI_HIGH, PI_LOW) if negative else zero(False)
    er, hr, lr = complement_root(exponent, high)
    exponent, high, low = angle(er, hr, lr, exponent, high, 0)
    if negative:
        _, _, exponent, high, low = add(
            False, PI_EXPONENT, PI_HIGH, PI_LOW, True, exponent, high, low
        )
    return computed(False, exponent, high, low)


@both(inline=False)
def arctan_parts(kind, negative, exponent, high):
    """The inverse tangent, in [-pi/2, pi/2]."""
    if kind != FINITE_CLASS:
        return special(kind, computed(negative, PI_EXPONENT - 1, PI_HIGH, PI_LOW), zero(negative))
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    exponent, high, low = angle(exponent, high, 0, 0, TOP, 0)
    return computed(negative, exponent, high, low)


@both(inline=False)
def degrees_parts(kind, negative, exponent, high):
    """x radians in degrees."""
    if kind != FINITE_CLASS:
        return special(kind, infinite(negative), zero(negative))
    exponent, high, low = multiply(exponent, high, 0, RADIAN_EXPONENT, RADIAN_HIGH, RADIAN_LOW)
    return computed(negative, exponent, high, low)


@both(inline=False)
def radians_parts(kind, negative, exponent, high):
    """x degrees in radians."""
    if kind != FINITE_CLASS:
        return special(kind, infinite(negative), zero(negative))
    exponent, high, low = multiply(exponent, high, 0, DEGREE_EXPONENT, DEGREE_HIGH, DEGREE_LOW)
    return computed(negative, exponent, high, low)
