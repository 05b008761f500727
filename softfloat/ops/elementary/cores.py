"""The few functions that all others are made of, on magnitudes of 124 bits; integers only.

Arguments are reduced exactly or with tables, the rest is a Taylor series. Bounds on errors are relative unless said.

Source: Muller, Elementary Functions (2016), ch. 4, 6 and 11; Payne and Hanek, Radian reduction for trigonometric
functions (ACM SIGNUM Newsletter, 1983).
"""

from softfloat._jit import both
from softfloat.bits import i64
from softfloat.ops.arithmetic import multiply_significands
from softfloat.ops.elementary.tables import (
    ARCTAN,
    ARCTAN_TABLE,
    COS,
    EXP,
    EXP2_TABLE,
    LN2_EXPONENT,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    LOG2E_EXPONENT,
    LOG2E_HIGH,
    LOG2E_LOW,
    LOG_FOLD,
    LOG_RECIPROCALS,
    LOG_TABLE,
    PADDING,
    PI_EXPONENT,
    PI_HIGH,
    PI_LOW,
    SIN,
    TWO_OVER_PI,
)
from softfloat.ops.elementary.wide import (
    add,
    add_fractions,
    divide,
    fraction_of,
    magnitude_of,
    multiply,
    multiply_fractions,
    series,
    sqrt,
    subtract_fractions,
    whole,
)
from softfloat.rounding import MASK, TOP, WORD

FAR = 1 << 30  # stands for an exponent beyond every format
INDEX_BITS = 6  # of the tables of 2**x and of the arctangent
LOG_INDEX_BITS = 7
LOG_RECIPROCAL_BITS = 9


# ---------------------------------------------------------------- exponentials
@both(inline=False)
def power_of_two(negative, exponent, high, low):
    """2**x of a signed magnitude: (exponent, high, low), within 2**-118 and the error of |x| < 2**14."""
    if exponent >= 14:
        return (-FAR if negative else FAR), TOP, 1
    if exponent < 0:
        k = i64(0)
        high, low = fraction_of(exponent, high, low)
    else:
        places = exponent + 1
        rest = (1 << (WORD - places)) - 1
        k = high >> (WORD - places)
        high = ((high & rest) << places) | (low >> (WORD - places))
        low = (low & rest) << places
    if negative:
        k = -k
        if high != 0 or low != 0:
            k -= 1
            high, low = subtract_fractions(MASK + 1, 0, high, low)
    i = high >> (WORD - INDEX_BITS)
    high = high & ((1 << (WORD - INDEX_BITS)) - 1)
    high, low = multiply_fractions(high, low, LN2_HIGH, LN2_LOW)
    factor_high, factor_low = series(EXP, 0, 16, high, low, False)
    high, low = multiply_fractions(high, low, factor_high, factor_low)
    start_high = i64(EXP2_TABLE[i, 0])
    start_low = i64(EXP2_TABLE[i, 1])
    high, low = multiply_fractions(high, low, start_high, start_low)
    high, low = add_fractions(high, low, high, low)
    high, low = add_fractions(high, low, start_high, start_low)
    return k, high, low


@both(inline=False)
def exponential(negative, exponent, high, low):
    """e**x of a signed magnitude, within 2**-109."""
    exponent, high, low = multiply(exponent, high, low, LOG2E_EXPONENT, LOG2E_HIGH, LOG2E_LOW)
    return power_of_two(negative, exponent, high, low)


@both(inline=False)
def exponential_less_one(negative, exponent, high, low):
    """|e**x - 1| of a signed magnitude, within 2**-108."""
    if exponent < -1:
        factor_high, factor_low = fraction_of(exponent, high, low)
        factor_high, factor_low = series(EXP, 0, 30, factor_high, factor_low, negative)
        ef, hf, lf = magnitude_of(factor_high, factor_low)
        return multiply(exponent + 1, high, low, ef, hf, lf)
    exponent, high, low = exponential(negative, exponent, high, low)
    _, _, exponent, high, low = add(False, exponent, high, low, True, 0, TOP, 0)
    return exponent, high, low


# ---------------------------------------------------------------- logarithms
@both
def small_logarithm(negative, exponent, high, low):
    """log(1 + x) of a signed magnitude below 2**-7, as the magnitude of a number of x's sign; within 2**-120."""
    factor_high, factor_low = fraction_of(exponent, high, low)
    factor_high, factor_low = series(LOG, 0, 19, factor_high, factor_low, not negative)
    ef, hf, lf = magnitude_of(factor_high, factor_low)
    return multiply(exponent + 1, high, low, ef, hf, lf)


@both(inline=False)
def logarithm(exponent, high, low):
    """The natural logarithm of a magnitude other than 1: (negative, exponent, high, low), within 2**-112."""
    j = (high >> (WORD - 1 - LOG_INDEX_BITS)) & ((1 << LOG_INDEX_BITS) - 1)
    k = exponent
    scale = i64(0)
    if j >= LOG_FOLD:
        k += 1
        scale = i64(-1)
    c = i64(LOG_RECIPROCALS[j])
    untouched = c == 1 << LOG_RECIPROCAL_BITS
    if not untouched:
        ec, hc, lc = whole(c)
        scale, high, low = multiply(scale, high, low, ec - LOG_RECIPROCAL_BITS, hc, lc)
    zero, negative, exponent, high, low = add(False, scale, high, low, True, 0, TOP, 0)
    if not zero:
        exponent, high, low = small_logarithm(negative, exponent, high, low)
    if not untouched:
        nt = i64(LOG_TABLE[j, 0]) != 0
        et, ht, lt = i64(LOG_TABLE[j, 1]), i64(LOG_TABLE[j, 2]), i64(LOG_TABLE[j, 3])
        if zero:
            negative, exponent, high, low = nt, et, ht, lt
        else:
            zero, negative, exponent, high, low = add(negative, exponent, high, low, nt, et, ht, lt)
    if k != 0:
        ek, hk, lk = whole(abs(k))
        ek, hk, lk = multiply(ek, hk, lk, LN2_EXPONENT, LN2_HIGH, LN2_LOW)
        if zero:
            return k < 0, ek, hk, lk
        zero, negative, exponent, high, low = add(negative, exponent, high, low, k < 0, ek, hk, lk)
    return negative, exponent, high, low


@both(inline=False)
def logarithm_of_one_plus(negative, exponent, high, low):
    """log(1 + x) of a signed magnitude above -1: (negative, exponent, high, low), within 2**-112."""
    if exponent < -LOG_INDEX_BITS - 1:
        exponent, high, low = small_logarithm(negative, exponent, high, low)
        return negative, exponent, high, low
    _, _, exponent, high, low = add(False, 0, TOP, 0, negative, exponent, high, low)
    return logarithm(exponent, high, low)


# ---------------------------------------------------------------- angles
@both
def bits_of_two_over_pi(offset):
    """The 62 bits of 2/pi that follow its first `offset`; those before the point are zeros."""
    i = offset // WORD
    shift = offset - WORD * i
    upper = i64(TWO_OVER_PI[i + PADDING])
    lower = i64(TWO_OVER_PI[i + PADDING + 1])
    return ((upper & ((1 << (WORD - shift)) - 1)) << shift) | (lower >> (WORD - shift))


@both(inline=False)
def quarter_turns(exponent, high):
    """x / (pi/2) of a float64's magnitude >= 1/2: (quadrant 0..3, negative, exponent, high, low of the rest).

    The rest lies in [-1/2, 1/2], within 2**-118: no float64 is closer to a multiple of pi/2 than 2**-62 quarter turns.
    """
    # Bits of 2/pi before this one give multiples of four quarter turns.
    offset = exponent - WORD - 1
    w3, w2, w1, w0 = i64(0), i64(0), i64(0), i64(0)
    carry = i64(0)
    for i in range(4):
        upper, lower = multiply_significands(high, bits_of_two_over_pi(offset + (3 - i) * WORD))
        lower += carry
        carry = upper + (lower >> WORD)
        w3, w2, w1, w0 = lower & MASK, w3, w2, w1
    # w3..w0 are a fraction of a whole turn.
    quadrant = w3 >> (WORD - 2)
    w3 = w3 & ((1 << (WORD - 2)) - 1)
    negative = (w3 >> (WORD - 3)) == 1
    if negative:
        quadrant = (quadrant + 1) & 3
        w3 = (1 << (WORD - 2)) - 1 - w3
        w2, w1, w0 = MASK - w2, MASK - w1, MASK - w0
    exponent = i64(2)
    if w3 == 0:
        w3, w2, w1 = w2, w1, w0
        exponent -= WORD
    rest, w3, w2 = magnitude_of(w3, w2)
    # The shift by -1 - rest places has made room for bits of the next word.
    return quadrant, negative, exponent + rest, w3, w2 | (w1 >> (WORD + 1 + rest))


@both(inline=False)
def reduced_angle(exponent, high):
    """A float64's magnitude as (quadrant, negative, exponent, high, low): quadrant * pi/2 plus at most pi/4."""
    if exponent < -1:
        return 0, False, exponent, high, 0
    quadrant, negative, exponent, high, low = quarter_turns(exponent, high)
    exponent, high, low = multiply(exponent, high, low, PI_EXPONENT - 1, PI_HIGH, PI_LOW)
    return quadrant, negative, exponent, high, low


@both
def sine_series(exponent, high, low):
    """The sine of a magnitude of at most pi/4, within 2**-120."""
    square_high, square_low = fraction_of(exponent, high, low)
    square_high, square_low = multiply_fractions(square_high, square_low, square_high, square_low)
    factor_high, factor_low = series(SIN, 0, 18, square_high, square_low, True)
    ef, hf, lf = magnitude_of(factor_high, factor_low)
    return multiply(exponent + 1, high, low, ef, hf, lf)


@both
def cosine_series(exponent, high, low):
    """The cosine of a magnitude of at most pi/4, within 2**-120; below 1."""
    square_high, square_low = fraction_of(exponent, high, low)
    square_high, square_low = multiply_fractions(square_high, square_low, square_high, square_low)
    high, low = series(COS, 0, 18, square_high, square_low, True)
    high, low = multiply_fractions(high, low, square_high, square_low)
    if high == 0 and low == 0:
        return -1, MASK, MASK
    high, low = subtract_fractions(MASK + 1, 0, high, low)
    return magnitude_of(high, low)


@both(inline=False)
def sine(quadrant, negative, exponent, high, low):
    """The sine of quadrant * pi/2 plus a signed magnitude of at most pi/4: (negative, exponent, high, low)."""
    if (quadrant & 1) == 0:
        exponent, high, low = sine_series(exponent, high, low)
        return negative != (quadrant == 2), exponent, high, low
    exponent, high, low = cosine_series(exponent, high, low)
    return quadrant == 3, exponent, high, low


@both(inline=False)
def tangent(quadrant, negative, exponent, high, low):
    """The tangent of such an angle: (negative, exponent, high, low), within 2**-118."""
    es, hs, ls = sine_series(exponent, high, low)
    ec, hc, lc = cosine_series(exponent, high, low)
    if (quadrant & 1) == 0:
        exponent, high, low = divide(es, hs, ls, ec, hc, lc)
        return negative, exponent, high, low
    exponent, high, low = divide(ec, hc, lc, es, hs, ls)
    return not negative, exponent, high, low


@both(inline=False)
def angle(ey, hy, ly, ex, hx, lx):
    """arctan(y/x) of two magnitudes, in (0, pi/2), within 2**-114."""
    steep = ey > ex or (ey == ex and (hy > hx or (hy == hx and ly > lx)))
    if steep:
        ey, hy, ly, ex, hx, lx = ex, hx, lx, ey, hy, ly
    i = i64(0)
    if ex - ey < 8:  # i/64 is about y/x
        divisor = hx >> (WORD // 2)
        i = (64 * (hy >> (WORD // 2 + ex - ey)) + divisor // 2) // divisor
    zero = False
    negative = False
    if i > 0:
        # arctan(y/x) - arctan(c) = arctan((y - c*x) / (x + c*y))
        ec, hc, lc = whole(i)
        ep, hp, lp = multiply(ex, hx, lx, ec - INDEX_BITS, hc, lc)
        eq, hq, lq = multiply(ey, hy, ly, ec - INDEX_BITS, hc, lc)
        zero, negative, ey, hy, ly = add(False, ey, hy, ly, True, ep, hp, lp)
        _, _, ex, hx, lx = add(False, ex, hx, lx, False, eq, hq, lq)
    exponent, high, low = i64(ARCTAN_TABLE[i, 0]), i64(ARCTAN_TABLE[i, 1]), i64(ARCTAN_TABLE[i, 2])
    if not zero:
        et, ht, lt = divide(ey, hy, ly, ex, hx, lx)
        square_high, square_low = fraction_of(et, ht, lt)
        square_high, square_low = multiply_fractions(
            square_high, square_low, square_high, square_low
        )
        factor_high, factor_low = series(ARCTAN, 0, 10, square_high, square_low, True)
        ef, hf, lf = magnitude_of(factor_high, factor_low)
        et, ht, lt = multiply(et + 1, ht, lt, ef, hf, lf)
        if i == 0:
            exponent, high, low = et, ht, lt
        else:
            _, _, exponent, high, low = add(False, exponent, high, low, negative, et, ht, lt)
    if steep:
        _, _, exponent, high, low = add(
            False, PI_EXPONENT - 1, PI_HIGH, PI_LOW, True, exponent, high, low
        )
    return exponent, high, low


@both(inline=False)
def complement_root(exponent, high):
    """sqrt(1 - x*x) of a float64's magnitude below 1, within 2**-119."""
    _, _, em, hm, lm = add(False, 0, TOP, 0, True, exponent, high, 0)
    _, _, ep, hp, lp = add(False, 0, TOP, 0, False, exponent, high, 0)
    em, hm, lm = multiply(em, hm, lm, ep, hp, lp)
    return sqrt(em, hm, lm)
