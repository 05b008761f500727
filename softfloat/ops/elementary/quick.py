"""Elementary functions in float64, each with a bound on its error: the first try of the array functions.

name_quick(x) gives (y, e): the real result lies within e * |y| of y, or, where e is 0, any rounding to at most 51 bits
treats it as y: y is exact, or the odd one of the two float64 numbers around it. NaN means that another method is to be
taken. Only additions, multiplications, divisions, square roots and fma, so that loops over them become vectors. The
bounds hold with room to spare; tests measure the errors.

Source: Muller, Elementary Functions (2016), ch. 11; Cody and Waite, Software Manual for the Elementary Functions
(1980).
"""

import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import fma, one_like, or_, sub, to_bits, to_float
from softfloat.ops.elementary.multiprecision import Ball, log, pi

BITS = 256
NONE = math.nan
SHIFTER = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
BEFORE_ONE, ABOVE_ONE = 1.0 - 2.0**-53, 1.0 + 2.0**-52
LARGEST = 1e308
TINY_LINEAR = 2.0**-55  # |x| below which 10**x and its like are within a float64 of 1


def _pieces(value, *widths):
    """A number in units of 2**-BITS cut into floats of so many bits; the last one holds what it can of the rest."""
    floats = []
    for width in widths:
        drop = max(value.bit_length() - width, 0)
        floats.append(math.ldexp(value >> drop, drop - BITS))
        value -= (value >> drop) << drop
    return *floats, value / (1 << BITS)


_LN2 = log(Ball.of(2, BITS)).value
_LN10 = log(Ball.of(10, BITS)).value
# The first piece times a multiplier of 11 bits (20 for the angle) is exact; fma needs no more.
LN2_HIGH, LN2_LOW = _pieces(_LN2, 42)
LOG10_2_HIGH, LOG10_2_LOW = _pieces((_LN2 << BITS) // _LN10, 42)
HALF_PI_HIGH, HALF_PI_MIDDLE, HALF_PI_LOW = _pieces(pi(BITS) >> 1, 33, 33)
LN10, LOG2E, LOG10E = _LN10 / (1 << BITS), (1 << BITS) / _LN2, (1 << BITS) / _LN10
LOG2_10, TWO_OVER_PI = _LN10 / _LN2, (2 << BITS) / pi(BITS)
PI, DEGREE = pi(BITS) / (1 << BITS), pi(BITS) / (180 << BITS)
SQRT_HALF = np.array(math.sqrt(0.5)).view(np.int64).item()
QUARTER_PI = PI / 4
TWO_OVER_ROOT_PI = 2.0 / math.sqrt(PI)  # within 2**-52


UNROLLED = 12  # steps of a loop over a tuple that the compiler is sure to unroll
# Coefficients of series, the highest power first.
EXP = tuple(1 / math.factorial(n) for n in range(13, 1, -1))
LOG = tuple(2 / n for n in range(23, 1, -2))
SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(9, 0, -1))
COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(9, 0, -1))
ARCTAN = tuple(1 / n for n in range(41, 1, -2))
ERF = tuple((-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(15, 0, -1))
SCALED_ERFC = (  # see scaled_erfc
    -4.3961467107681097e-07,
    -5.038663820441496e-07,
    1.1712130687548316e-06,
    3.77930260586626e-06,
    1.3976539269190374e-06,
    -1.3966944705411077e-05,
    -2.7580862985575657e-05,
    2.7525459102263247e-05,
    0.00017436126024420305,
    4.3555597268701564e-05,
    -0.0009819770313183266,
    -0.0008471432505474789,
    0.006997461739322953,
    0.003732892404318157,
    -0.07897858101573353,
    0.24165819424246654,
    -0.4271858474139584,
    0.25539567631050575,
)


@jit(inline=True)
def horner(z, coefficients):
    """A polynomial of constant coefficients, at most 24."""
    p = coefficients[0]
    for k in range(1, min(len(coefficients), UNROLLED)):
        p = fma(p, z, coefficients[k])
    for k in range(UNROLLED, len(coefficients)):
        p = fma(p, z, coefficients[k])
    return p


# ---------------------------------------------------------------- exponentials
@jit(inline=True)
def exp_tail(r):
    """e**r - 1 for |r| <= 0.35, by Taylor's series."""
    return fma(horner(r, EXP) * r, r, r)


@jit(inline=True)
def power_of_two_from(t):
    """2**k from t = SHIFTER + k, |k| <= 1022."""
    return to_float(np.uint64((np.int64(to_bits(t)) + np.int64(1023)) << np.int64(52)))


@jit(inline=True)
def exp_pieces(x):
    """(s, p) with e**x = s + s*p, |x| <= 690."""
    t = fma(x, LOG2E, SHIFTER)
    k = t - SHIFTER
    r = fma(k, -LN2_HIGH, x)
    return power_of_two_from(t), exp_tail(fma(k, -LN2_LOW, r))


@jit(inline=True)
def exp_within(x):
    s, p = exp_pieces(x)
    return fma(s, p, s)


@jit(inline=True)
def expm1_within(x):
    s, p = exp_pieces(x)
    return fma(s, p, s - 1.0)


@jit(inline=True)
def hair(x, larger):
    """The odd one of x and its neighbour of larger or smaller magnitude; x not 0."""
    u = to_bits(x)
    return to_float(or_(u if larger else sub(u, one_like(u)), one_like(u)))


@jit(inline=True)
def beside(y, x, e, larger, limit):
    """(y, e), or where |x| < limit what lies just beside x, of larger or smaller magnitude; x itself where it is 0."""
    tiny = abs(x) < limit
    y = hair(x, larger) if tiny else y
    return (x if x == 0.0 else y), (0.0 if tiny else e)


@jit(inline=True)
def beside_one(y, x, e, larger, limit):
    """(y, e), or where |x| < limit what lies just above or below 1, the value at 0."""
    tiny = abs(x) < limit
    near = ABOVE_ONE if larger else BEFORE_ONE
    y = near if tiny else y
    return (1.0 if x == 0.0 else y), (0.0 if tiny else e)


@jit(inline=True)
def exp_quick(x):
    y, e = beside_one(exp_within(x), x, 2.0**-50, x > 0.0, TINY_LINEAR)
    return (y if abs(x) <= 690.0 else NONE), e


@jit(inline=True)
def exp2_quick(x):
    t = x + SHIFTER
    s = power_of_two_from(t)
    r = x - (t - SHIFTER)
    y = fma(s, exp_tail(r * (LN2_HIGH + LN2_LOW)), s)
    y, e = beside_one(y, x, 2.0**-50, x > 0.0, TINY_LINEAR)
    exact = r == 0.0
    return (y if abs(x) <= 1000.0 else NONE), (0.0 if exact else e)


@jit(inline=True)
def exp10_quick(x):
    t = fma(x, LOG2_10, SHIFTER)
    k = t - SHIFTER
    r = fma(k, -LOG10_2_LOW, fma(k, -LOG10_2_HIGH, x))
    s = power_of_two_from(t)
    y, e = beside_one(fma(s, exp_tail(r * LN10), s), x, 2.0**-50, x > 0.0, TINY_LINEAR)
    return (y if abs(x) <= 300.0 else NONE), e


@jit(inline=True)
def large_enough(x):
    """Whether a product with x keeps all its bits, or is zero."""
    return (abs(x) > 2.0**-1000) | (x == 0.0)


@jit(inline=True)
def expm1_quick(x):
    y, e = beside(expm1_within(x), x, 2.0**-49, x > 0.0, 2.0**-52)
    low = x <= -40.0
    y = -BEFORE_ONE if low else y
    return (y if (x <= 690.0) & (x >= -LARGEST) else NONE), (0.0 if low else e)


# ---------------------------------------------------------------- logarithms
@jit(inline=True)
def log_tail(f):
    """log(1 + f) for f in [-0.3, 0.42], by the series of the inverse hyperbolic tangent of f / (2 + f)."""
    s = f / (2.0 + f)
    z = s * s
    return fma(horner(z, LOG) * z, s, 2.0 * s)


@jit(inline=True)
def binade_of(x):
    """(k, m) with x = m * 2**k and m in [0.707, 1.415), of a normal number."""
    u = np.int64(to_bits(x))
    k = (u - np.int64(SQRT_HALF)) >> np.int64(52)
    return np.float64(k), to_float(np.uint64(u - (k << np.int64(52))))


@jit(inline=True)
def log_within(x):
    """The logarithm of a normal number."""
    k, m = binade_of(x)
    return fma(k, LN2_HIGH, fma(k, LN2_LOW, log_tail(m - 1.0)))


@jit(inline=True)
def log1p_within(x):
    """log(1 + x) for x > -1."""
    k, m = binade_of(1.0 + x)
    small = (x > -0.28) & (x < 0.4)
    f = x if small else m - 1.0
    k = 0.0 if small else k
    return fma(k, LN2_HIGH, fma(k, LN2_LOW, log_tail(f)))


@jit(inline=True)
def normal(x):
    return (x >= 2.0**-1000) & (x <= 2.0**1000)


@jit(inline=True)
def log_quick(x):
    return (log_within(x) if normal(x) else NONE), 2.0**-50


@jit(inline=True)
def log2_quick(x):
    return (log_within(x) * LOG2E if normal(x) else NONE), 2.0**-49


@jit(inline=True)
def log10_quick(x):
    return (log_within(x) * LOG10E if normal(x) else NONE), 2.0**-49


@jit(inline=True)
def log1p_quick(x):
    y, e = beside(log1p_within(x), x, 2.0**-49, x < 0.0, 2.0**-52)
    return (y if (x > -0.99) & (x <= 2.0**1000) else NONE), e


# ---------------------------------------------------------------- roots, scales
@jit(inline=True)
def cbrt_quick(x):
    m = abs(x)
    y = exp_within(log_within(m) * (1.0 / 3.0))
    y = y if normal(m) else NONE
    return (0.0 * x if x == 0.0 else math.copysign(y, x)), (0.0 if x == 0.0 else 2.0**-43)


@jit(inline=True)
def rsqrt_quick(x):
    return (1.0 / math.sqrt(x) if normal(x) else NONE), 2.0**-51


@jit(inline=True)
def degrees_quick(x):
    inside = large_enough(x) & (abs(x) <= 2.0**1000)
    return (x / DEGREE if inside else NONE), (0.0 if x == 0.0 else 2.0**-51)


@jit(inline=True)
def radians_quick(x):
    inside = large_enough(x) & (abs(x) <= 2.0**1000)
    return (x * DEGREE if inside else NONE), (0.0 if x == 0.0 else 2.0**-51)


# ---------------------------------------------------------------- angles
@jit(inline=True)
def sine_tail(r):
    """The sine of |r| <= 0.79."""
    z = r * r
    return fma(horner(z, SINE) * z, r, r)


@jit(inline=True)
def cosine_tail(r):
    """The cosine of |r| <= 0.79."""
    z = r * r
    return fma(horner(z, COSINE), z, 1.0)


@jit(inline=True)
def turned(x):
    """(bits whose last two are the quadrant, rest) of an angle below 2**18; the rest is NaN where it loses bits."""
    t = fma(x, TWO_OVER_PI, SHIFTER)
    k = t - SHIFTER
    r = fma(k, -HALF_PI_LOW, fma(k, -HALF_PI_MIDDLE, fma(k, -HALF_PI_HIGH, x)))
    safe = (abs(x) <= 2.0**18) & ((k == 0.0) | (abs(r) > 2.0**-20))
    return np.int64(to_bits(t)), (r if safe else NONE)


@jit(inline=True)
def half_turned(x):
    """The same of pi * x; exact but for one multiplication."""
    t = 2.0 * x + SHIFTER
    r = fma(t - SHIFTER, -0.5, x)
    safe = (abs(x) <= 2.0**48) & ((r != 0.0) | (x == 0.0)) & large_enough(r)
    return np.int64(to_bits(t)), (r * PI if safe else NONE)


@jit(inline=True)
def sine_of(q, r):
    """The sine of an angle in quadrant q, modulo 4."""
    y = cosine_tail(r) if (q & 1) == 1 else sine_tail(r)
    return -y if (q & 2) == 2 else y


@jit(inline=True)
def tangent_of(q, r):
    s = sine_tail(r)
    c = cosine_tail(r)
    return -c / s if (q & 1) == 1 else s / c


@jit(inline=True)
def sin_quick(x):
    q, r = turned(x)
    y, e = beside(sine_of(q, r), x, 2.0**-49, False, 2.0**-27)
    return y, e


@jit(inline=True)
def cos_quick(x):
    q, r = turned(x)
    y = sine_of(q + 1, r)
    return beside_one(y, x, 2.0**-49, False, 2.0**-27)


@jit(inline=True)
def tan_quick(x):
    q, r = turned(x)
    y, e = beside(tangent_of(q, r), x, 2.0**-48, True, 2.0**-27)
    return y, e


@jit(inline=True)
def sinpi_quick(x):
    q, r = half_turned(x)
    y = sine_of(q, r)
    return (x if x == 0.0 else y), (0.0 if x == 0.0 else 2.0**-49)


@jit(inline=True)
def cospi_quick(x):
    q, r = half_turned(x)
    y = sine_of(q + 1, r)
    return beside_one(y, x, 2.0**-49, False, 2.0**-29)


@jit(inline=True)
def tanpi_quick(x):
    q, r = half_turned(x)
    y = tangent_of(q, r)
    return (x if x == 0.0 else y), (0.0 if x == 0.0 else 2.0**-48)


@jit(inline=True)
def sinc_quick(x):
    q, r = half_turned(x)
    return beside_one(sine_of(q, r) / (x * PI), x, 2.0**-48, False, 2.0**-29)


@jit(inline=True)
def arctan_tail(t):
    """The arctangent of |t| <= 0.415, by Taylor's series."""
    z = t * t
    return fma(-horner(-z, ARCTAN) * z, t, t)


@jit(inline=True)
def angle_within(y, x):
    """arctan(y/x) of positive numbers whose quotients and sums stay normal."""
    steep = y > x
    low = x if steep else y
    high = y if steep else x
    middle = low > 0.41421356 * high
    t = (low - high if middle else low) / (low + high if middle else high)
    a = arctan_tail(t)
    a = a + QUARTER_PI if middle else a
    return 2.0 * QUARTER_PI - a if steep else a


@jit(inline=True)
def arctan_quick(x):
    m = abs(x)
    y, e = beside(math.copysign(angle_within(m, 1.0), x), x, 2.0**-49, False, 2.0**-27)
    return (y if m <= 2.0**500 else NONE), e


@jit(inline=True)
def arcsin_quick(x):
    m = abs(x)
    y = math.copysign(angle_within(m, math.sqrt((1.0 - m) * (1.0 + m))), x)
    y, e = beside(y, x, 2.0**-48, True, 2.0**-27)
    return (y if m < 1.0 else NONE), e


@jit(inline=True)
def arccos_quick(x):
    y = 2.0 * angle_within(math.sqrt(1.0 - x), math.sqrt(1.0 + x))
    return (y if abs(x) < 1.0 else NONE), 2.0**-48


# ---------------------------------------------------------------- hyperbolic functions
@jit(inline=True)
def sinh_quick(x):
    m = abs(x)
    d = expm1_within(m)
    y, e = beside(math.copysign(0.5 * (d + d / (d + 1.0)), x), x, 2.0**-48, True, 2.0**-27)
    return (y if m <= 690.0 else NONE), e


@jit(inline=True)
def cosh_quick(x):
    m = abs(x)
    d = exp_within(m)
    y, e = beside_one(0.5 * (d + 1.0 / d), x, 2.0**-48, True, 2.0**-27)
    return (y if m <= 690.0 else NONE), e


@jit(inline=True)
def tanh_quick(x):
    m = abs(x)
    large = m > 20.0
    d = expm1_within(2.0 * (0.0 if large else m))
    y = BEFORE_ONE if large else d / (d + 2.0)
    y, e = beside(math.copysign(y, x), x, 0.0 if large else 2.0**-48, False, 2.0**-27)
    return (y if m <= LARGEST else NONE), e


@jit(inline=True)
def arcsinh_quick(x):
    m = abs(x)
    s = m * m
    y = log1p_within(m + s / (1.0 + math.sqrt(1.0 + s)))
    y, e = beside(math.copysign(y, x), x, 2.0**-48, False, 2.0**-27)
    return (y if m <= 2.0**400 else NONE), e


@jit(inline=True)
def arccosh_quick(x):
    d = x - 1.0
    y = log1p_within(d + math.sqrt(d * (x + 1.0)))
    return (y if (x > 1.0) & (x <= 2.0**400) else NONE), 2.0**-48


@jit(inline=True)
def arctanh_quick(x):
    m = abs(x)
    y = math.copysign(0.5 * log1p_within(2.0 * m / (1.0 - m)), x)
    y, e = beside(y, x, 2.0**-48, True, 2.0**-27)
    return (y if m < 1.0 else NONE), e


# ---------------------------------------------------------------- error function
@jit(inline=True)
def scaled_erfc(x):
    """exp(x*x) * erfc(x) for x in [0.88, 6.05], within 2**-52.7.

    A Chebyshev interpolant of degree 17 in y = (x - 2) / (x + 2), by MPFR, written out in powers of y.
    """
    y = (x - 2.0) / (x + 2.0)
    return horner(y, SCALED_ERFC)


@jit(inline=True)
def erf_tail(x):
    """The error function of |x| <= 0.9, by Taylor's series."""
    z = x * x
    return TWO_OVER_ROOT_PI * fma(horner(z, ERF) * z, x, x)


@jit(inline=True)
def erf_quick(x):
    m = abs(x)
    large = m > 6.0
    inner = m if m < 6.0 else 6.0
    outer = 1.0 - exp_within(-inner * inner) * scaled_erfc(inner)
    y = erf_tail(m) if m < 0.9 else outer
    y = math.copysign(BEFORE_ONE if large else y, x)
    inside = (m <= LARGEST) & ((m > 2.0**-1000) | (x == 0.0))
    return (y if inside else NONE), (0.0 if large | (x == 0.0) else 2.0**-49)


# ---------------------------------------------------------------- two operands
@jit(inline=True)
def hypot_quick(x, y):
    a, b = abs(x), abs(y)
    high = a if a > b else b
    inside = (high >= 2.0**-400) & (high <= 2.0**400)
    return (math.sqrt(fma(x, x, y * y)) if inside & (a == a) & (b == b) else NONE), 2.0**-51


@jit(inline=True)
def power_quick(x, y):
    v = y * log_within(x)
    z = exp_within(v)
    inside = normal(x) & (abs(v) <= 690.0) & (abs(v) > 2.0**-40)
    return (z if inside else NONE), fma(abs(v), 2.0**-49, 2.0**-49)


@jit(inline=True)
def arctan2_quick(y, x):
    a, b = abs(y), abs(x)
    z = angle_within(a, b)
    z = PI - z if x < 0.0 else z
    low = a if a < b else b
    high = b if a < b else a
    inside = (low >= 2.0**-400) & (high <= 2.0**400) & (low > 2.0**-400 * high)
    return (math.copysign(z, y) if inside else NONE), 2.0**-48


@jit(inline=True)
def logaddexp_quick(x, y):
    high = x if x > y else y
    d = abs(x - y)
    z = high + log1p_within(exp_within(-d))
    inside = (d <= 690.0) & (abs(high) <= 2.0**40)
    return (z if inside else NONE), (abs(high) + 1.0) * 2.0**-49 / abs(z)


@jit(inline=True)
def logaddexp2_quick(x, y):
    high = x if x > y else y
    d = abs(x - y)
    z = high + log1p_within(exp_within(-d * (LN2_HIGH + LN2_LOW))) * LOG2E
    inside = (d <= 690.0) & (abs(high) <= 2.0**40)
    return (z if inside else NONE), (abs(high) + 1.0) * 2.0**-49 / abs(z)


UNARY_QUICK = {
    name.removesuffix("_quick"): function
    for name, function in list(globals().items())
    if name.endswith("_quick")
}
BINARY_QUICK = {
    name: UNARY_QUICK.pop(name) for name in ("hypot", "power", "arctan2", "logaddexp", "logaddexp2")
}
