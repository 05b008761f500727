"""Elementary functions of one operand: name_parts(class, negative, exponent, high) of an unpacked float64 or float32.

Each returns (class, negative, exponent, high, low, flags, known): the result is to be rounded once. `known` counts the
leading bits that its error leaves right up to a carry; DECIDED says that the result is exact, or that its last bit
stands for a remainder that no format sees. Results that are rational are found by exact means, so that no rounding
rests on a number that merely looks exact.

Source: IEEE 754-2019, section 9.2 (special values).
"""

from softfloat._jit import both
from softfloat.bits import bit_length, i64
from softfloat.ops.arithmetic import exact_quotient
from softfloat.ops.elementary.cores import (
    angle,
    complement_root,
    exponential,
    exponential_less_one,
    logarithm,
    logarithm_of_one_plus,
    power_of_two,
    reduced_angle,
    sine,
    tangent,
)
from softfloat.ops.elementary.tables import (
    DEGREE_EXPONENT,
    DEGREE_HIGH,
    DEGREE_LOW,
    LOG2E_EXPONENT,
    LOG2E_HIGH,
    LOG2E_LOW,
    LOG2TEN_EXPONENT,
    LOG2TEN_HIGH,
    LOG2TEN_LOW,
    LOG10E_EXPONENT,
    LOG10E_HIGH,
    LOG10E_LOW,
    PI_EXPONENT,
    PI_HIGH,
    PI_LOW,
    RADIAN_EXPONENT,
    RADIAN_HIGH,
    RADIAN_LOW,
    TWO_OVER_ROOT_PI_EXPONENT,
    TWO_OVER_ROOT_PI_HIGH,
    TWO_OVER_ROOT_PI_LOW,
)
from softfloat.ops.elementary.wide import add, divide, multiply, sqrt, whole
from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    MASK,
    QUIET_CLASS,
    SIGNALING_CLASS,
    TOP,
    WORD,
    ZERO_CLASS,
)

DECIDED = 2 * WORD
KNOWN = 106  # bits of a computed result: every error below is under 2**-107 of it
# Below 2**-TINY a function differs from its first term by less than 2**-90 of it: quadratic or linear next terms.
TINY = 46
TINY_LINEAR = 92
NEAR_ONE = 32  # |x| from which tanh is within 2**-90 of 1
ERF_NEAR_ONE = 8  # the same for erf


# ---------------------------------------------------------------- results
@both
def computed(negative, exponent, high, low):
    return FINITE_CLASS, negative, exponent, high, low, 0, KNOWN


@both
def exactly(negative, exponent, high, low):
    return FINITE_CLASS, negative, exponent, high, low, 0, DECIDED


@both
def one(negative):
    return FINITE_CLASS, negative, 0, TOP, 0, 0, DECIDED


@both
def zero(negative):
    return ZERO_CLASS, negative, 0, 0, 0, 0, DECIDED


@both
def infinite(negative):
    return INFINITE_CLASS, negative, 0, 0, 0, 0, DECIDED


@both
def pole(negative):
    """An exact infinity from a finite operand."""
    return INFINITE_CLASS, negative, 0, 0, 0, DIVIDED_BY_ZERO, DECIDED


@both
def undefined():
    return QUIET_CLASS, False, 0, 0, 0, INVALID, DECIDED


@both
def nan_of(kind):
    """The result of an operation on a NaN."""
    return QUIET_CLASS, False, 0, 0, 0, INVALID if kind == SIGNALING_CLASS else 0, DECIDED


@both
def just_beside(negative, exponent, high, larger):
    """A number whose magnitude is a hair larger or smaller than (exponent, high), a float64."""
    if larger:
        return FINITE_CLASS, negative, exponent, high, 1, 0, DECIDED
    if high == TOP:
        return FINITE_CLASS, negative, exponent - 1, MASK, MASK, 0, DECIDED
    return FINITE_CLASS, negative, exponent, high - 1, MASK, 0, DECIDED


@both
def odd_part(exponent, high):
    """(m, k) with m odd and m * 2**k the magnitude, one of at most 53 bits."""
    k = exponent - WORD + 1
    while (high & 1) == 0:
        high >>= 1
        k += 1
    return high, k


@both
def is_integer(exponent, high):
    """Whether a float64's magnitude is an integer."""
    if exponent < 0 or exponent >= WORD:
        return exponent >= 0
    return (high & ((1 << (WORD - 1 - exponent)) - 1)) == 0


# ---------------------------------------------------------------- exponentials
@both(inline=False)
def exp_parts(kind, negative, exponent, high):
    """e**x."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return zero(False) if negative else infinite(False)
    if kind == ZERO_CLASS:
        return one(False)
    if exponent < -TINY_LINEAR:
        return just_beside(False, 0, TOP, not negative)
    exponent, high, low = exponential(negative, exponent, high, 0)
    return computed(False, exponent, high, low)


@both(inline=False)
def exp2_parts(kind, negative, exponent, high):
    """2**x; exact at integers."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return zero(False) if negative else infinite(False)
    if kind == ZERO_CLASS:
        return one(False)
    if exponent < -TINY_LINEAR:
        return just_beside(False, 0, TOP, not negative)
    whole_number = is_integer(exponent, high)
    exponent, high, low = power_of_two(negative, exponent, high, 0)
    if whole_number:
        return exactly(False, exponent, high, low)
    return computed(False, exponent, high, low)


@both(inline=False)
def exp10_parts(kind, negative, exponent, high):
    """10**x; exact at the integers 0 to 37, of those with 5**x below 2**87."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return zero(False) if negative else infinite(False)
    if kind == ZERO_CLASS:
        return one(False)
    if exponent < -TINY_LINEAR:
        return just_beside(False, 0, TOP, not negative)
    if not negative and exponent < 6 and is_integer(exponent, high):
        n = high >> (WORD - 1 - exponent)
        if n <= 37:
            ep, hp, lp = integer_power(5, n)
            return exactly(False, ep + n, hp, lp)
    exponent, high, low = multiply(exponent, high, 0, LOG2TEN_EXPONENT, LOG2TEN_HIGH, LOG2TEN_LOW)
    exponent, high, low = power_of_two(negative, exponent, high, low)
    return computed(False, exponent, high, low)


@both(inline=False)
def integer_power(m, n):
    """m**n as a magnitude, exact up to 123 bits."""
    em, hm, lm = whole(m)
    exponent, high, low = i64(0), i64(TOP), i64(0)
    for _ in range(n):
        exponent, high, low = multiply(exponent, high, low, em, hm, lm)
    return exponent, high, low


@both(inline=False)
def expm1_parts(kind, negative, exponent, high):
    """e**x - 1; keeps the sign of zero."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return one(True) if negative else infinite(False)
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent < -TINY_LINEAR:
        return just_beside(negative, exponent, high, not negative)
    if negative and exponent >= 6:
        return just_beside(True, 0, TOP, False)
    exponent, high, low = exponential_less_one(negative, exponent, high, 0)
    return computed(negative, exponent, high, low)


# ---------------------------------------------------------------- logarithms
@both
def outside_logarithm(kind, negative):
    """A logarithm where it is special: at NaN, infinity, zero and negative numbers; class FINITE elsewhere."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == ZERO_CLASS:
        return pole(True)
    if negative:
        return undefined()
    if kind == INFINITE_CLASS:
        return infinite(False)
    return one(False)


@both(inline=False)
def log_parts(kind, negative, exponent, high):
    """The natural logarithm; of zero -infinity, of 1 +0."""
    if kind != FINITE_CLASS or negative:
        return outside_logarithm(kind, negative)
    if exponent == 0 and high == TOP:
        return zero(False)
    negative, exponent, high, low = logarithm(exponent, high, 0)
    return computed(negative, exponent, high, low)


@both(inline=False)
def log2_parts(kind, negative, exponent, high):
    """The logarithm to base 2; exact at powers of two."""
    if kind != FINITE_CLASS or negative:
        return outside_logarithm(kind, negative)
    if high == TOP:
        if exponent == 0:
            return zero(False)
        ek, hk, lk = whole(abs(exponent))
        return exactly(exponent < 0, ek, hk, lk)
    negative, exponent, high, low = logarithm(exponent, high, 0)
    exponent, high, low = multiply(exponent, high, low, LOG2E_EXPONENT, LOG2E_HIGH, LOG2E_LOW)
    return computed(negative, exponent, high, low)


@both(inline=False)
def log10_parts(kind, negative, exponent, high):
    """The logarithm to base 10; exact at 1, 10, ..., 10**22, the powers that a float64 holds."""
    if kind != FINITE_CLASS or negative:
        return outside_logarithm(kind, negative)
    if exponent == 0 and high == TOP:
        return zero(False)
    m, k = odd_part(exponent, high)
    n = i64(0)
    power = i64(1)
    while power < m:
        power *= 5
        n += 1
    if power == m and n == k:
        ek, hk, lk = whole(n)
        return exactly(False, ek, hk, lk)
    negative, exponent, high, low = logarithm(exponent, high, 0)
    exponent, high, low = multiply(exponent, high, low, LOG10E_EXPONENT, LOG10E_HIGH, LOG10E_LOW)
    return computed(negative, exponent, high, low)


@both(inline=False)
def log1p_parts(kind, negative, exponent, high):
    """log(1 + x); keeps the sign of zero, -infinity at -1."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == ZERO_CLASS:
        return zero(negative)
    if negative and (kind == INFINITE_CLASS or exponent >= 0):
        return pole(True) if kind == FINITE_CLASS and exponent == 0 and high == TOP else undefined()
    if kind == INFINITE_CLASS:
        return infinite(False)
    if exponent < -TINY_LINEAR:
        return just_beside(negative, exponent, high, negative)
    negative, exponent, high, low = logarithm_of_one_plus(negative, exponent, high, 0)
    return computed(negative, exponent, high, low)


# ---------------------------------------------------------------- roots
@both
def cube_root_of_integer(m):
    """floor of the cube root of an integer below 2**54."""
    root = i64(0)
    for i in range(18):
        trial = root + (1 << (17 - i))
        if trial * trial * trial <= m:
            root = trial
    return root


@both(inline=False)
def cbrt_parts(kind, negative, exponent, high):
    """The cube root, of the sign of x."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return infinite(negative)
    if kind == ZERO_CLASS:
        return zero(negative)
    m, k = odd_part(exponent, high)
    if k % 3 == 0:
        root = cube_root_of_integer(m)
        if root * root * root == m:
            exponent, high, low = whole(root)
            return exactly(negative, exponent + k // 3, high, low)
    third = exponent // 3
    _, exponent, high, low = logarithm(exponent - 3 * third, high, 0)
    exponent, high, low = divide(exponent, high, low, 1, TOP + (TOP >> 1), 0)
    exponent, high, low = exponential(False, exponent, high, low)
    return computed(negative, exponent + third, high, low)


@both(inline=False)
def rsqrt_parts(kind, negative, exponent, high):
    """1/sqrt(x); of +-0 an infinity of its sign."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == ZERO_CLASS:
        return pole(negative)
    if negative:
        return undefined()
    if kind == INFINITE_CLASS:
        return zero(False)
    if high == TOP and (exponent & 1) == 0:
        return exactly(False, -(exponent >> 1), TOP, 0)
    exponent, high, low = sqrt(exponent, high, 0)
    exponent, high, low = divide(0, TOP, 0, exponent, high, low)
    return computed(False, exponent, high, low)


# ---------------------------------------------------------------- trigonometry
@both(inline=False)
def sin_parts(kind, negative, exponent, high):
    """The sine; NaN of infinity."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    quadrant, rest_negative, exponent, high, low = reduced_angle(exponent, high)
    minus, exponent, high, low = sine(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def cos_parts(kind, negative, exponent, high):
    """The cosine; NaN of infinity."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return one(False)
    if exponent < -TINY:
        return just_beside(False, 0, TOP, False)
    quadrant, rest_negative, exponent, high, low = reduced_angle(exponent, high)
    minus, exponent, high, low = sine((quadrant + 1) & 3, rest_negative, exponent, high, low)
    return computed(minus, exponent, high, low)


@both(inline=False)
def tan_parts(kind, negative, exponent, high):
    """The tangent; NaN of infinity."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return zero(negative)
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
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return zero(negative)
    quadrant, on_axis, rest_negative, exponent, high, low = half_turns(exponent, high)
    if on_axis:
        return zero(negative) if (quadrant & 1) == 0 else one((quadrant == 3) != negative)
    minus, exponent, high, low = sine(quadrant, rest_negative, exponent, high, low)
    return computed(minus != negative, exponent, high, low)


@both(inline=False)
def cospi_parts(kind, negative, exponent, high):
    """cos(pi * x); +0 half-way between integers."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return one(False)
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
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return undefined()
    if kind == ZERO_CLASS:
        return zero(negative)
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
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return zero(False)
    if kind == ZERO_CLASS:
        return one(False)
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


@both
def beyond_one(kind, exponent, high):
    """Whether a magnitude is above 1."""
    return kind == INFINITE_CLASS or (
        kind == FINITE_CLASS and (exponent > 0 or (exponent == 0 and high > TOP))
    )


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
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return computed(negative, PI_EXPONENT - 1, PI_HIGH, PI_LOW)
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    exponent, high, low = angle(exponent, high, 0, 0, TOP, 0)
    return computed(negative, exponent, high, low)


@both(inline=False)
def degrees_parts(kind, negative, exponent, high):
    """x radians in degrees."""
    if kind != FINITE_CLASS:
        return kept(kind, negative)
    exponent, high, low = multiply(exponent, high, 0, RADIAN_EXPONENT, RADIAN_HIGH, RADIAN_LOW)
    return computed(negative, exponent, high, low)


@both(inline=False)
def radians_parts(kind, negative, exponent, high):
    """x degrees in radians."""
    if kind != FINITE_CLASS:
        return kept(kind, negative)
    exponent, high, low = multiply(exponent, high, 0, DEGREE_EXPONENT, DEGREE_HIGH, DEGREE_LOW)
    return computed(negative, exponent, high, low)


@both
def kept(kind, negative):
    """A zero or an infinity as it is, or the NaN of an operation."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    return zero(negative) if kind == ZERO_CLASS else infinite(negative)


# ---------------------------------------------------------------- hyperbolic functions
@both(inline=False)
def sinh_parts(kind, negative, exponent, high):
    """The hyperbolic sine."""
    if kind != FINITE_CLASS:
        return kept(kind, negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, True)
    # With E = e**x - 1: (E + E/(E + 1)) / 2, without cancellation.
    em, hm, lm = exponential_less_one(False, exponent, high, 0)
    if exponent < 7:
        _, _, ed, hd, ld = add(False, em, hm, lm, False, 0, TOP, 0)
        ed, hd, ld = divide(em, hm, lm, ed, hd, ld)
        _, _, em, hm, lm = add(False, em, hm, lm, False, ed, hd, ld)
    return computed(negative, em - 1, hm, lm)


@both(inline=False)
def cosh_parts(kind, negative, exponent, high):
    """The hyperbolic cosine."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return infinite(False)
    if kind == ZERO_CLASS:
        return one(False)
    if exponent < -TINY:
        return just_beside(False, 0, TOP, True)
    ee, he, le = exponential(False, exponent, high, 0)
    if exponent < 7:
        ed, hd, ld = divide(0, TOP, 0, ee, he, le)
        _, _, ee, he, le = add(False, ee, he, le, False, ed, hd, ld)
    return computed(False, ee - 1, he, le)


@both(inline=False)
def tanh_parts(kind, negative, exponent, high):
    """The hyperbolic tangent; +-1 at the infinities."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return one(negative)
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    if exponent >= bit_length(NEAR_ONE) - 1:
        return just_beside(negative, 0, TOP, False)
    # With E = e**(2*x) - 1: E / (E + 2).
    em, hm, lm = exponential_less_one(False, exponent + 1, high, 0)
    _, _, ed, hd, ld = add(False, em, hm, lm, False, 1, TOP, 0)
    exponent, high, low = divide(em, hm, lm, ed, hd, ld)
    return computed(negative, exponent, high, low)


@both(inline=False)
def arcsinh_parts(kind, negative, exponent, high):
    """The inverse hyperbolic sine."""
    if kind != FINITE_CLASS:
        return kept(kind, negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, False)
    # log1p(x + x**2 / (1 + sqrt(1 + x**2)))
    es, hs, ls = multiply(exponent, high, 0, exponent, high, 0)
    _, _, er, hr, lr = add(False, es, hs, ls, False, 0, TOP, 0)
    er, hr, lr = sqrt(er, hr, lr)
    _, _, er, hr, lr = add(False, er, hr, lr, False, 0, TOP, 0)
    es, hs, ls = divide(es, hs, ls, er, hr, lr)
    _, _, es, hs, ls = add(False, es, hs, ls, False, exponent, high, 0)
    _, exponent, high, low = logarithm_of_one_plus(False, es, hs, ls)
    return computed(negative, exponent, high, low)


@both(inline=False)
def arccosh_parts(kind, negative, exponent, high):
    """The inverse hyperbolic cosine; NaN below 1."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == ZERO_CLASS or negative or (kind == FINITE_CLASS and exponent < 0):
        return undefined()
    if kind == INFINITE_CLASS:
        return infinite(False)
    if exponent == 0 and high == TOP:
        return zero(False)
    # With d = x - 1: log1p(d + sqrt(d * (x + 1)))
    _, _, ed, hd, ld = add(False, exponent, high, 0, True, 0, TOP, 0)
    _, _, es, hs, ls = add(False, exponent, high, 0, False, 0, TOP, 0)
    es, hs, ls = multiply(es, hs, ls, ed, hd, ld)
    es, hs, ls = sqrt(es, hs, ls)
    _, _, es, hs, ls = add(False, es, hs, ls, False, ed, hd, ld)
    _, exponent, high, low = logarithm_of_one_plus(False, es, hs, ls)
    return computed(False, exponent, high, low)


@both(inline=False)
def arctanh_parts(kind, negative, exponent, high):
    """The inverse hyperbolic tangent; infinite at +-1, NaN beyond."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == ZERO_CLASS:
        return zero(negative)
    if beyond_one(kind, exponent, high):
        return undefined()
    if exponent == 0:
        return pole(negative)
    if exponent < -TINY:
        return just_beside(negative, exponent, high, True)
    # log1p(2*x / (1 - x)) / 2
    _, _, ed, hd, ld = add(False, 0, TOP, 0, True, exponent, high, 0)
    exponent, high, low = divide(exponent + 1, high, 0, ed, hd, ld)
    _, exponent, high, low = logarithm_of_one_plus(False, exponent, high, low)
    return computed(negative, exponent - 1, high, low)


# ---------------------------------------------------------------- error function
@both
def divide_by_small(exponent, high, low, divisor):
    """A magnitude over an integer below 2**30, at most 2**-122 of it too small."""
    first = high // divisor
    rest = ((high - first * divisor) << (WORD // 2)) | (low >> (WORD // 2))
    second = rest // divisor
    rest = ((rest - second * divisor) << (WORD // 2)) | (low & ((1 << (WORD // 2)) - 1))
    low = (second << (WORD // 2)) | (rest // divisor)
    places = WORD - bit_length(first)
    if places > 0:
        first = (first << places) | (low >> (WORD - places))
        low = (low << places) & MASK
    return exponent - places, first, low


@both(inline=False)
def erf_parts(kind, negative, exponent, high):
    """The error function 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x; +-1 at the infinities."""
    if kind >= QUIET_CLASS:
        return nan_of(kind)
    if kind == INFINITE_CLASS:
        return one(negative)
    if kind == ZERO_CLASS:
        return zero(negative)
    if exponent >= bit_length(ERF_NEAR_ONE) - 1:
        return just_beside(negative, 0, TOP, False)
    # exp(-x**2) * sum of x * (2*x**2)**n / (1*3*...*(2*n + 1)): no cancellation.
    es, hs, ls = multiply(exponent, high, 0, exponent, high, 0)
    et, ht, lt = exponent, high, i64(0)
    e, h, low = exponent, high, i64(0)
    n = i64(0)
    while et > e - 2 * WORD - 4:
        n += 1
        et, ht, lt = multiply(et, ht, lt, es + 1, hs, ls)
        et, ht, lt = divide_by_small(et, ht, lt, 2 * n + 1)
        _, _, e, h, low = add(False, e, h, low, False, et, ht, lt)
    es, hs, ls = exponential(True, es, hs, ls)
    e, h, low = multiply(e, h, low, es, hs, ls)
    e, h, low = multiply(
        e, h, low, TWO_OVER_ROOT_PI_EXPONENT, TWO_OVER_ROOT_PI_HIGH, TWO_OVER_ROOT_PI_LOW
    )
    return computed(negative, e, h, low)


# ---------------------------------------------------------------- for functions of two operands
@both
def just_below_quotient(negative, ey, hy, ex, hx):
    """y/x less a hair, for two float64 magnitudes."""
    exponent, high, low = exact_quotient(ey, hy, ex, hx)
    if (low & 1) == 0:  # exact
        if low == 0 and high == TOP:
            return FINITE_CLASS, negative, exponent - 1, MASK, MASK, 0, DECIDED
        if low == 0:
            high -= 1
            low = MASK + 1
        low -= 1
    return FINITE_CLASS, negative, exponent, high, low, 0, DECIDED


UNARY = {
    "exp": exp_parts,
    "exp2": exp2_parts,
    "exp10": exp10_parts,
    "expm1": expm1_parts,
    "log": log_parts,
    "log2": log2_parts,
    "log10": log10_parts,
    "log1p": log1p_parts,
    "cbrt": cbrt_parts,
    "rsqrt": rsqrt_parts,
    "sin": sin_parts,
    "cos": cos_parts,
    "tan": tan_parts,
    "sinpi": sinpi_parts,
    "cospi": cospi_parts,
    "tanpi": tanpi_parts,
    "sinc": sinc_parts,
    "arcsin": arcsin_parts,
    "arccos": arccos_parts,
    "arctan": arctan_parts,
    "degrees": degrees_parts,
    "radians": radians_parts,
    "sinh": sinh_parts,
    "cosh": cosh_parts,
    "tanh": tanh_parts,
    "arcsinh": arcsinh_parts,
    "arccosh": arccosh_parts,
    "arctanh": arctanh_parts,
    "erf": erf_parts,
}
