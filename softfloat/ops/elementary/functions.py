"""Elementary functions of one operand: name_parts(class, negative, exponent, high) of an unpacked float64 or float32.

Each returns one of the `results`. Results that are rational are found by exact means, so that no rounding rests on a
number that merely looks exact.

Source: IEEE 754-2019, section 9.2 (special values).
"""

from softfloat._jit import both
from softfloat.bits import bit_length, i64
from softfloat.ops.elementary.angles import (
    arccos_parts,
    arcsin_parts,
    arctan_parts,
    cos_parts,
    cospi_parts,
    degrees_parts,
    radians_parts,
    sin_parts,
    sinc_parts,
    sinpi_parts,
    tan_parts,
    tanpi_parts,
)
from softfloat.ops.elementary.cores import (
    exponential,
    exponential_less_one,
    logarithm,
    logarithm_of_one_plus,
    power_of_two,
)
from softfloat.ops.elementary.results import (
    TINY,
    TINY_LINEAR,
    beyond_one,
    computed,
    exactly,
    infinite,
    is_integer,
    just_beside,
    nan_of,
    odd_part,
    one,
    pole,
    special,
    undefined,
    zero,
)
from softfloat.ops.elementary.tables import (
    LOG2E_EXPONENT,
    LOG2E_HIGH,
    LOG2E_LOW,
    LOG2TEN_EXPONENT,
    LOG2TEN_HIGH,
    LOG2TEN_LOW,
    LOG10E_EXPONENT,
    LOG10E_HIGH,
    LOG10E_LOW,
    TWO_OVER_ROOT_PI_EXPONENT,
    TWO_OVER_ROOT_PI_HIGH,
    TWO_OVER_ROOT_PI_LOW,
)
from softfloat.ops.elementary.wide import add, divide, multiply, sqrt, whole
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    MASK,
    QUIET_CLASS,
    TOP,
    WORD,
    ZERO_CLASS,
)

NEAR_ONE = 32  # |x| from which tanh is within 2**-90 of 1
ERF_NEAR_ONE = 8  # the same for erf


# ---------------------------------------------------------------- exponentials
@both(inline=False)
def exp_parts(kind, negative, exponent, high):
    """e**x."""
    if kind != FINITE_CLASS:
        return special(kind, zero(False) if negative else infinite(False), one(False))
    if exponent < -TINY_LINEAR:
        return just_beside(False, 0, TOP, not negative)
    exponent, high, low = exponential(negative, exponent, high, 0)
    return computed(False, exponent, high, low)


@both(inline=False)
def exp2_parts(kind, negative, exponent, high):
    """2**x; exact at integers."""
    if kind != FINITE_CLASS:
        return special(kind, zero(False) if negative else infinite(False), one(False))
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
    if kind != FINITE_CLASS:
        return special(kind, zero(False) if negative else infinite(False), one(False))
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
    if kind != FINITE_CLASS:
        return special(kind, one(True) if negative else infinite(False), zero(negative))
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
    if kind != FINITE_CLASS:
        return special(kind, infinite(negative), zero(negative))
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


# ---------------------------------------------------------------- hyperbolic functions
@both(inline=False)
def sinh_parts(kind, negative, exponent, high):
    """The hyperbolic sine."""
    if kind != FINITE_CLASS:
        return special(kind, infinite(negative), zero(negative))
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
    if kind != FINITE_CLASS:
        return special(kind, infinite(False), one(False))
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
    if kind != FINITE_CLASS:
        return special(kind, one(negative), zero(negative))
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
        return special(kind, infinite(negative), zero(negative))
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
    if kind != FINITE_CLASS:
        return special(kind, one(negative), zero(negative))
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
