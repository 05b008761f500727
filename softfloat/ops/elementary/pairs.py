"""Elementary functions in pairs of float64, each with a bound on its error: the first try for formats beyond `quick`.

name_pair(x) gives (high, low, e): the real result lies within e * |high| of high + low, where |low| is a small part of
|high|. NaN means that another method is to be taken. Only additions, multiplications, divisions, square roots and fma,
so that loops over them become vectors. High terms of a series are formed in float64, the others in pairs; the bounds
hold with room to spare; tests measure the errors.

Source: Dekker, A floating-point technique for extending the available precision (1971); Muller, Elementary Functions
(2016), ch. 11.
"""

import math

from softfloat._jit import jit
from softfloat.bits import fma
from softfloat.ops.elementary.multiprecision import pi
from softfloat.ops.elementary.quick import (
    _LN2,
    _LN10,
    BITS,
    HALF_PI_HIGH,
    HALF_PI_LOW,
    HALF_PI_MIDDLE,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    NONE,
    SHIFTER,
    TWO_OVER_PI,
    _pieces,
    binade_of,
    cbrt_quick,
    half_turned,
    horner,
    normal,
    power_of_two_from,
    turned,
)

LEAST = (
    2.0**-200
)  # operands below are left to other methods: no error of a product underflows above
E = 2.0**-68  # of most functions
E_LESS_ONE = 2.0**-66  # where e**x - 1 loses bits


def _pair(value):
    """A number in units of 2**-BITS as two float64."""
    return _pieces(value, 53)


def _reciprocals(*divisors):
    """1/n as pairs, high and low."""
    found = []
    for n in divisors:
        high, low = _pair((1 << BITS) // abs(n))
        found += (high, low) if n > 0 else (-high, -low)
    return tuple(found)


LN2, LN2_REST = _pair(_LN2)
LN10, LN10_REST = _pair(_LN10)
LOG2E_PAIR, LOG2E_REST = _pair((1 << 2 * BITS) // _LN2)
LOG10E, LOG10E_REST = _pair((1 << 2 * BITS) // _LN10)
PI, PI_REST = _pair(pi(BITS))
QUARTER_PI, QUARTER_PI_REST = _pair(pi(BITS) >> 2)
DEGREE, DEGREE_REST = _pair(pi(BITS) // 180)
RADIAN, RADIAN_REST = _pair((180 << 2 * BITS) // pi(BITS))
# Coefficients of series, the highest power first: those that float64 holds well enough, then pairs, high and low.
EXP = tuple(1 / math.factorial(n) for n in range(16, 5, -1))
EXP_PAIRS = (*_reciprocals(120, 24, 6, 2), 1.0, 0.0)
LOG = tuple(1 / n for n in range(29, 5, -2))
LOG_PAIRS = (*_reciprocals(5, 3), 1.0, 0.0)
SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(10, 3, -1))
SINE_PAIRS = (*_reciprocals(-5040, 120, -6), 1.0, 0.0)
COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(11, 3, -1))
COSINE_PAIRS = (*_reciprocals(-720, 24, -2), 1.0, 0.0)
ARCTAN = tuple(1 / n for n in range(53, 11, -2))
ARCTAN_PAIRS = (*_reciprocals(11, 9, 7, 5, 3), 1.0, 0.0)


# ---------------------------------------------------------------- arithmetic: errors below 2**-100 of the result
@jit(inline=True)
def join(a, b):
    """a + b as a pair, |a| the larger."""
    s = a + b
    return s, b - (s - a)


@jit(inline=True)
def plus(ah, al, bh, bl):
    """Sum of two pairs; relative to the larger of them where they cancel."""
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t)
    return join(s, e + (al + bl))


@jit(inline=True)
def times(ah, al, bh, bl):
    p = ah * bh
    return join(p, fma(ah, bh, -p) + fma(ah, bl, al * bh))


@jit(inline=True)
def over(ah, al, bh, bl):
    q = ah / bh
    return join(q, (fma(-q, bh, ah) + fma(-q, bl, al)) / bh)


@jit(inline=True)
def root(ah, al):
    r = math.sqrt(ah)
    return join(r, (fma(-r, r, ah) + al) / (2.0 * r))


@jit(inline=True)
def series(zh, zl, coefficients, pairs):
    """A polynomial of a pair, by Horner's scheme; each coefficient is larger than what is added to it."""
    h, l = horner(zh, coefficients), 0.0  # noqa: E741
    for k in range(0, len(pairs), 2):
        th, tl = times(h, l, zh, zl)
        s, e = join(pairs[k], th)
        h, l = join(s, e + (tl + pairs[k + 1]))  # noqa: E741
    return h, l


@jit(inline=True)
def inside(x, largest):
    m = abs(x)
    return (m >= LEAST) & (m <= largest)


# ---------------------------------------------------------------- exponentials
@jit(inline=True)
def exp_tail(rh, rl):
    """e**r - 1 of a pair, |r| <= 0.35."""
    return times(*series(rh, rl, EXP, EXP_PAIRS), rh, rl)


@jit(inline=True)
def exp_pieces(xh, xl):
    """(s, h, l) with e**x = s + s*(h + l), of a pair with |x| <= 690."""
    t = fma(xh, LOG2E, SHIFTER)
    k = t - SHIFTER
    r = fma(k, -LN2_HIGH, xh)
    p = k * LN2_LOW
    rh, rl = plus(r, 0.0, -p, xl - fma(k, LN2_LOW, -p))
    h, l = exp_tail(rh, rl)  # noqa: E741
    return power_of_two_from(t), h, l


@jit(inline=True)
def exp_of(xh, xl):
    s, h, l = exp_pieces(xh, xl)  # noqa: E741
    h, l = plus(1.0, 0.0, h, l)  # noqa: E741
    return s * h, s * l


@jit(inline=True)
def expm1_of(xh, xl):
    s, h, l = exp_pieces(xh, xl)  # noqa: E741
    return plus(*plus(s, 0.0, -1.0, 0.0), s * h, s * l)


@jit(inline=True)
def exp_pair(x):
    h, l = exp_of(x, 0.0)  # noqa: E741
    return (h if inside(x, 690.0) else NONE), l, E


@jit(inline=True)
def exp2_pair(x):
    t = x + SHIFTER
    s = power_of_two_from(t)
    h, l = exp_tail(*times(x - (t - SHIFTER), 0.0, LN2, LN2_REST))  # noqa: E741
    h, l = plus(1.0, 0.0, h, l)  # noqa: E741
    return (s * h if inside(x, 1000.0) else NONE), s * l, E


@jit(inline=True)
def exp10_pair(x):
    h, l = exp_of(*times(x, 0.0, LN10, LN10_REST))  # noqa: E741
    return (h if inside(x, 299.0) else NONE), l, E


@jit(inline=True)
def expm1_pair(x):
    h, l = expm1_of(x, 0.0)  # noqa: E741
    return (h if inside(x, 690.0) else NONE), l, E_LESS_ONE


# ---------------------------------------------------------------- logarithms
@jit(inline=True)
def log_tail(fh, fl):
    """log(1 + f) of a pair in [-0.3, 0.42]."""
    dh, dl = plus(2.0, 0.0, fh, fl)
    sh, sl = over(fh, fl, dh, dl)
    zh, zl = times(sh, sl, sh, sl)
    h, l = times(*series(zh, zl, LOG, LOG_PAIRS), sh, sl)  # noqa: E741
    return 2.0 * h, 2.0 * l


@jit(inline=True)
def with_exponent(k, h, l):  # noqa: E741
    """k * log(2) + a pair below it."""
    p = k * LN2_LOW
    ch, cl = plus(k * LN2_HIGH, 0.0, p, fma(k, LN2_LOW, -p))
    return plus(ch, cl, h, l)


@jit(inline=True)
def log_of(x):
    k, m = binade_of(x)
    h, l = log_tail(m - 1.0, 0.0)  # noqa: E741
    return with_exponent(k, h, l)


@jit(inline=True)
def log1p_of(xh, xl):
    """log(1 + x) of a pair above -0.99."""
    wh, wl = plus(1.0, 0.0, xh, xl)
    k, m = binade_of(wh)
    small = (xh > -0.28) & (xh < 0.4)
    fh, fl = plus(m - 1.0, 0.0, wl * (m / wh), 0.0)
    k = 0.0 if small else k
    h, l = log_tail(xh if small else fh, xl if small else fl)  # noqa: E741
    return with_exponent(k, h, l)


@jit(inline=True)
def log_pair(x):
    h, l = log_of(x)  # noqa: E741
    return (h if normal(x) else NONE), l, E


@jit(inline=True)
def log2_pair(x):
    h, l = log_of(x)  # noqa: E741
    h, l = times(h, l, LOG2E_PAIR, LOG2E_REST)  # noqa: E741
    return (h if normal(x) else NONE), l, E


@jit(inline=True)
def log10_pair(x):
    h, l = log_of(x)  # noqa: E741
    h, l = times(h, l, LOG10E, LOG10E_REST)  # noqa: E741
    return (h if normal(x) else NONE), l, E


@jit(inline=True)
def log1p_pair(x):
    h, l = log1p_of(x, 0.0)  # noqa: E741
    return (h if inside(x, 2.0**1000) & (x > -0.99) else NONE), l, E


# ---------------------------------------------------------------- roots, scales
@jit(inline=True)
def cbrt_pair(x):
    y, _ = cbrt_quick(x)
    sh, sl = times(y, 0.0, y, 0.0)
    ch, cl = times(sh, sl, y, 0.0)
    h, l = join(y, ((x - ch) - cl) / (3.0 * sh))  # noqa: E741
    return (h if inside(x, 2.0**1000) else NONE), l, 2.0**-80


@jit(inline=True)
def rsqrt_pair(x):
    y = 1.0 / math.sqrt(x)
    p = x * y
    rest = fma(-p, y, 1.0) - fma(x, y, -p) * y
    h, l = join(y, 0.5 * y * rest)  # noqa: E741
    return (h if inside(x, 2.0**900) & (x > 0.0) else NONE), l, 2.0**-90


@jit(inline=True)
def degrees_pair(x):
    h, l = times(x, 0.0, RADIAN, RADIAN_REST)  # noqa: E741
    return (h if inside(x, 2.0**1000) else NONE), l, 2.0**-98


@jit(inline=True)
def radians_pair(x):
    h, l = times(x, 0.0, DEGREE, DEGREE_REST)  # noqa: E741
    return (h if inside(x, 2.0**1000) else NONE), l, 2.0**-98


# ---------------------------------------------------------------- angles
@jit(inline=True)
def sine_tail(rh, rl):
    """The sine of a pair, |r| <= 0.79."""
    zh, zl = times(rh, rl, rh, rl)
    return times(*series(zh, zl, SINE, SINE_PAIRS), rh, rl)


@jit(inline=True)
def cosine_tail(rh, rl):
    """The cosine of a pair, |r| <= 0.79."""
    zh, zl = times(rh, rl, rh, rl)
    return series(zh, zl, COSINE, COSINE_PAIRS)


@jit(inline=True)
def turned_pair(x):
    """(bits whose last two are the quadrant, rest as a pair) of an angle below 2**18; NaN where the rest is small."""
    q, safe = turned(x)
    k = fma(x, TWO_OVER_PI, SHIFTER) - SHIFTER
    r = fma(k, -HALF_PI_HIGH, x)
    rh, rl = plus(r, 0.0, -k * HALF_PI_MIDDLE, 0.0)
    p = k * HALF_PI_LOW
    rh, rl = plus(rh, rl, -p, -fma(k, HALF_PI_LOW, -p))
    return q, (rh if (safe == safe) & (abs(x) >= LEAST) else NONE), rl


@jit(inline=True)
def half_turned_pair(x):
    """The same of pi * x."""
    q, safe = half_turned(x)
    r = fma((2.0 * x + SHIFTER) - SHIFTER, -0.5, x)
    rh, rl = times(r, 0.0, PI, PI_REST)
    return q, (rh if (safe == safe) & (abs(r) >= LEAST) else NONE), rl


@jit(inline=True)
def sine_of(q, rh, rl):
    """The sine of an angle in quadrant q, modulo 4."""
    sh, sl = sine_tail(rh, rl)
    ch, cl = cosine_tail(rh, rl)
    turn = (q & 1) == 1
    h, l = (ch if turn else sh), (cl if turn else sl)  # noqa: E741
    minus = (q & 2) == 2
    return (-h if minus else h), (-l if minus else l)


@jit(inline=True)
def tangent_of(q, rh, rl):
    sh, sl = sine_tail(rh, rl)
    ch, cl = cosine_tail(rh, rl)
    turn = (q & 1) == 1
    nh, nl = (-ch if turn else sh), (-cl if turn else sl)
    return over(nh, nl, sh if turn else ch, sl if turn else cl)


@jit(inline=True)
def sin_pair(x):
    q, rh, rl = turned_pair(x)
    h, l = sine_of(q, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def cos_pair(x):
    q, rh, rl = turned_pair(x)
    h, l = sine_of(q + 1, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def tan_pair(x):
    q, rh, rl = turned_pair(x)
    h, l = tangent_of(q, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def sinpi_pair(x):
    q, rh, rl = half_turned_pair(x)
    h, l = sine_of(q, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def cospi_pair(x):
    q, rh, rl = half_turned_pair(x)
    h, l = sine_of(q + 1, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def tanpi_pair(x):
    q, rh, rl = half_turned_pair(x)
    h, l = tangent_of(q, rh, rl)  # noqa: E741
    return h, l, E


@jit(inline=True)
def sinc_pair(x):
    q, rh, rl = half_turned_pair(x)
    h, l = over(*sine_of(q, rh, rl), *times(x, 0.0, PI, PI_REST))  # noqa: E741
    return h, l, E


@jit(inline=True)
def arctan_tail(th, tl):
    """The arctangent of a pair, |t| <= 0.415."""
    zh, zl = times(th, tl, th, tl)
    return times(*series(-zh, -zl, ARCTAN, ARCTAN_PAIRS), th, tl)


@jit(inline=True)
def angle_of(yh, yl, xh, xl):
    """arctan(y/x) of positive pairs whose quotients and sums stay normal."""
    steep = yh > xh
    lh, ll = (xh if steep else yh), (xl if steep else yl)
    hh, hl = (yh if steep else xh), (yl if steep else xl)
    middle = lh > 0.41421356 * hh
    nh, nl = plus(lh, ll, -hh if middle else 0.0, -hl if middle else 0.0)
    dh, dl = plus(hh, hl, lh if middle else 0.0, ll if middle else 0.0)
    h, l = arctan_tail(*over(nh, nl, dh, dl))  # noqa: E741
    h, l = plus(QUARTER_PI if middle else 0.0, QUARTER_PI_REST if middle else 0.0, h, l)  # noqa: E741
    sh, sl = plus(2.0 * QUARTER_PI, 2.0 * QUARTER_PI_REST, -h, -l)
    return (sh if steep else h), (sl if steep else l)


@jit(inline=True)
def signed(h, l, x):  # noqa: E741
    """The pair with the sign of x; h is not negative."""
    return (-h if x < 0.0 else h), (-l if x < 0.0 else l)


@jit(inline=True)
def arctan_pair(x):
    h, l = signed(*angle_of(abs(x), 0.0, 1.0, 0.0), x)  # noqa: E741
    return (h if inside(x, 2.0**200) else NONE), l, E


@jit(inline=True)
def arcsin_pair(x):
    m = abs(x)
    h, l = root(*times(*plus(1.0, 0.0, -m, 0.0), *plus(1.0, 0.0, m, 0.0)))  # noqa: E741
    h, l = signed(*angle_of(m, 0.0, h, l), x)  # noqa: E741
    return (h if (m >= LEAST) & (m < 1.0) else NONE), l, E


@jit(inline=True)
def arccos_pair(x):
    yh, yl = root(*plus(1.0, 0.0, -x, 0.0))
    xh, xl = root(*plus(1.0, 0.0, x, 0.0))
    h, l = angle_of(yh, yl, xh, xl)  # noqa: E741
    return (2.0 * h if (abs(x) >= LEAST) & (abs(x) < 1.0) else NONE), 2.0 * l, E


# ---------------------------------------------------------------- hyperbolic functions
@jit(inline=True)
def sinh_pair(x):
    dh, dl = expm1_of(abs(x), 0.0)
    qh, ql = over(dh, dl, *plus(1.0, 0.0, dh, dl))
    h, l = signed(*plus(dh, dl, qh, ql), x)  # noqa: E741
    return (0.5 * h if inside(x, 690.0) else NONE), 0.5 * l, E_LESS_ONE


@jit(inline=True)
def cosh_pair(x):
    eh, el = exp_of(abs(x), 0.0)
    h, l = plus(eh, el, *over(1.0, 0.0, eh, el))  # noqa: E741
    return (0.5 * h if inside(x, 690.0) else NONE), 0.5 * l, E


@jit(inline=True)
def tanh_pair(x):
    m = abs(x)
    dh, dl = expm1_of(2.0 * (m if m < 22.0 else 22.0), 0.0)
    h, l = signed(*over(dh, dl, *plus(2.0, 0.0, dh, dl)), x)  # noqa: E741
    return (h if inside(x, 22.0) else NONE), l, E_LESS_ONE


@jit(inline=True)
def arcsinh_pair(x):
    m = abs(x)
    sh, sl = times(m, 0.0, m, 0.0)
    rh, rl = plus(1.0, 0.0, *root(*plus(1.0, 0.0, sh, sl)))
    h, l = signed(*log1p_of(*plus(m, 0.0, *over(sh, sl, rh, rl))), x)  # noqa: E741
    return (h if inside(x, 2.0**200) else NONE), l, E


@jit(inline=True)
def arccosh_pair(x):
    d = x - 1.0  # exact below 2**53
    rh, rl = root(*times(d, 0.0, *plus(x, 0.0, 1.0, 0.0)))
    h, l = log1p_of(*plus(d, 0.0, rh, rl))  # noqa: E741
    return (h if (x > 1.0) & (x < 2.0**50) else NONE), l, E


@jit(inline=True)
def arctanh_pair(x):
    m = abs(x)
    qh, ql = over(2.0 * m, 0.0, *plus(1.0, 0.0, -m, 0.0))
    h, l = signed(*log1p_of(qh, ql), x)  # noqa: E741
    return (0.5 * h if (m >= LEAST) & (m < 1.0) else NONE), 0.5 * l, E


# ---------------------------------------------------------------- two operands
@jit(inline=True)
def hypot_pair(x, y):
    ah, al = times(x, 0.0, x, 0.0)
    bh, bl = times(y, 0.0, y, 0.0)
    h, l = root(*plus(ah, al, bh, bl))  # noqa: E741
    return (h if inside(x, 2.0**400) & inside(y, 2.0**400) else NONE), l, 2.0**-88


@jit(inline=True)
def power_pair(x, y):
    vh, vl = times(*log_of(x), y, 0.0)
    m = abs(vh)
    safe = normal(x) & inside(y, 2.0**200) & (m <= 690.0) & (m >= LEAST)
    h, l = exp_of(vh, vl)  # noqa: E741
    return (h if safe else NONE), l, E + m * E


@jit(inline=True)
def arctan2_pair(y, x):
    h, l = angle_of(abs(y), 0.0, abs(x), 0.0)  # noqa: E741
    bh, bl = plus(PI, PI_REST, -h, -l)
    left = x < 0.0
    h, l = signed(bh if left else h, bl if left else l, y)  # noqa: E741
    return (h if inside(x, 2.0**200) & inside(y, 2.0**200) else NONE), l, E


@jit(inline=True)
def distance(x, y):
    """(the larger operand, minus the distance of the other as a pair, whether that is not too large)."""
    high = x if x > y else y
    dh, dl = plus(y if x > y else x, 0.0, -high, 0.0)
    return high, dh, dl, (dh >= -100.0) & (abs(high) <= 2.0**40)


@jit(inline=True)
def logaddexp_pair(x, y):
    high, dh, dl, near = distance(x, y)
    h, l = plus(high, 0.0, *log1p_of(*exp_of(dh, dl)))  # noqa: E741
    return (h if near else NONE), l, (abs(high) + 1.0) * E / abs(h)


@jit(inline=True)
def logaddexp2_pair(x, y):
    high, dh, dl, near = distance(x, y)
    th, tl = log1p_of(*exp_of(*times(dh, dl, LN2, LN2_REST)))
    h, l = plus(high, 0.0, *times(th, tl, LOG2E_PAIR, LOG2E_REST))  # noqa: E741
    return (h if near else NONE), l, (abs(high) + 1.0) * E / abs(h)


UNARY_PAIRS = {
    name.removesuffix("_pair"): function
    for name, function in list(globals().items())
    if name.endswith("_pair") and name not in ("_pair", "turned_pair", "half_turned_pair")
}
BINARY_PAIRS = {
    name: UNARY_PAIRS.pop(name) for name in ("hypot", "power", "arctan2", "logaddexp", "logaddexp2")
}
