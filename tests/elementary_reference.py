"""Elementary functions by MPFR: each result as a Fraction that any rounding takes for the real number, or a float.

A Fraction is the result cut to 300 bits, with one bit more set where that is not all of it. Zeros, infinities and NaN
are floats.
"""

import math
from fractions import Fraction

import gmpy2

BITS = 300
SINGLE = gmpy2.context(
    precision=BITS, round=gmpy2.RoundToZero, emax=1 << 40, emin=-(1 << 40), subnormalize=False
)
STEPS = gmpy2.context(precision=BITS + 150, emax=1 << 40, emin=-(1 << 40))
EXACT = gmpy2.context(precision=5000, emax=1 << 40, emin=-(1 << 40))
LONG = 1 << 12  # places beyond which only the sign of a term counts
MPFR_NAMES = {
    "rsqrt": "rec_sqrt",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}
SIMPLE = (
    "exp exp2 exp10 expm1 log log2 log10 log1p cbrt rsqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh"
    " arccosh arctanh erf hypot power arctan2"
).split()
UNARY = [name for name in SIMPLE if name not in ("hypot", "power", "arctan2")]
UNARY += ["sinpi", "cospi", "tanpi", "sinc", "degrees", "radians"]
BINARY = ["hypot", "power", "arctan2", "logaddexp", "logaddexp2"]


def reference(name, *operands):
    """(result, invalid, divide_by_zero) of a function at floats; NaN operands are quiet."""
    if any(math.isnan(x) for x in operands):
        return _beside_nan(name, *operands), False, False
    if name in SIMPLE:
        return _simple(name, *operands)
    result = COMPOSED[name](*operands)
    pole = name == "tanpi" and result in (math.inf, -math.inf)
    return result, isinstance(result, float) and math.isnan(result), pole


def _beside_nan(name, *operands):
    if name == "hypot" and any(math.isinf(x) for x in operands):
        return math.inf
    if name == "power" and (operands[0] == 1 or operands[1] == 0):
        return 1.0
    return math.nan


def _simple(name, *operands):
    if name == "rsqrt" and operands[0] == 0:
        return math.copysign(math.inf, operands[0]), False, True
    with gmpy2.context(SINGLE) as context:
        numbers = [gmpy2.mpfr(x) for x in operands]
        if name == "power":
            result = context.pow(*numbers)
        else:
            result = getattr(gmpy2, MPFR_NAMES.get(name, name))(*numbers)
        pole = context.divzero and gmpy2.is_infinite(result)
    if name == "power" and pole:
        pole = operands[0] == 0 and math.isfinite(operands[1])
    return _number(result), gmpy2.is_nan(result), pole


def _number(result):
    """An MPFR result that was rounded toward zero as a Fraction or a float."""
    if gmpy2.is_nan(result) or gmpy2.is_infinite(result) or (result == 0 and result.rc == 0):
        return float(result)
    if result == 0:  # underflow
        return _tiny(result.is_signed())
    significand, exponent = result.as_mantissa_exp()
    if exponent > LONG * 16:
        return Fraction((-1 if significand < 0 else 1) * 2 ** (16 * LONG) + 1)
    if exponent < -LONG * 16:
        return _tiny(significand < 0)
    exact = Fraction(int(significand)) * Fraction(2) ** int(exponent)
    if result.rc:
        # The bit after those that were kept.
        place = int(exponent) + int(significand).bit_length() - BITS - 1
        exact += (-1 if significand < 0 else 1) * Fraction(2) ** place
    return exact


def _tiny(negative):
    return Fraction(-1 if negative else 1, 2 ** (16 * LONG))


def _cut(result):
    """An irrational number, computed to more bits, cut."""
    with gmpy2.context(SINGLE):
        kept = gmpy2.mpfr(gmpy2.mpfr(result), BITS)
    significand, exponent = kept.as_mantissa_exp()
    place = int(exponent) + int(significand).bit_length() - BITS - 1
    exact = Fraction(int(significand)) * Fraction(2) ** int(exponent)
    return exact + (-1 if significand < 0 else 1) * Fraction(2) ** place


def _half_turns(x):
    """x modulo 2, in (-2, 2)."""
    rest = abs(Fraction(x)) % 2
    return -rest if x < 0 else rest


def _of_pi(function, x):
    with gmpy2.context(STEPS):
        return getattr(gmpy2, function)(gmpy2.const_pi() * gmpy2.mpfr(gmpy2.mpq(x)))


def _sinpi(x):
    if math.isinf(x):
        return math.nan
    rest = _half_turns(x)
    if rest.denominator == 1:
        return math.copysign(0.0, x)
    if (2 * rest).denominator == 1:
        return Fraction(1 if int(2 * rest) % 4 == 1 else -1)
    return _cut(_of_pi("sin", rest))


def _cospi(x):
    if math.isinf(x):
        return math.nan
    rest = _half_turns(x)
    if (2 * rest).denominator == 1:
        return (Fraction(1), 0.0, Fraction(-1), 0.0)[int(2 * rest) % 4]
    if abs(rest) < Fraction(1, 2**200):
        return 1 - Fraction(1, 2**BITS)
    return _cut(_of_pi("cos", rest))


def _tanpi(x):
    if math.isinf(x):
        return math.nan
    rest = _half_turns(x)
    if rest.denominator == 1:
        odd = int(rest) % 2 == 1
        return -0.0 if odd != (math.copysign(1, x) < 0) else 0.0
    if (2 * rest).denominator == 1:
        return math.inf if int(2 * rest) % 4 == 1 else -math.inf
    if (4 * rest).denominator == 1:
        return Fraction(1 if int(4 * rest) % 4 == 1 else -1)
    return _cut(_of_pi("tan", rest))


def _sinc(x):
    if math.isinf(x):
        return 0.0
    if x == 0:
        return Fraction(1)
    rest = _half_turns(x)
    if rest.denominator == 1:
        return 0.0
    if abs(rest) < Fraction(1, 2**200):
        return 1 - Fraction(1, 2**BITS)
    with gmpy2.context(STEPS):
        pi = gmpy2.const_pi()
        sine = gmpy2.sin(pi * gmpy2.mpfr(gmpy2.mpq(rest)))
        return _cut(sine / (pi * gmpy2.mpfr(x)))


def _scaled(x, up):
    if x == 0 or math.isinf(x):
        return x
    with gmpy2.context(STEPS):
        factor = gmpy2.const_pi() / 180
        return _cut(gmpy2.mpfr(x) / factor if up else gmpy2.mpfr(x) * factor)


def _log_sum(a, b, base):
    high, low = max(a, b), min(a, b)
    if math.isinf(high) or math.isinf(low):
        return high if math.isinf(high) or high == 0 else Fraction(high)
    if base == 2 and a == b:
        return (Fraction(a) + 1) or 0.0
    with gmpy2.context(EXACT):
        distance = gmpy2.mpfr(high) - gmpy2.mpfr(low)
        if distance > LONG // 2:
            if high == 0:
                return _tiny(False)
            return Fraction(high) + abs(Fraction(high)) / 2 ** (2 * BITS)
    with gmpy2.context(STEPS, precision=2500):
        if base == 2:
            added = gmpy2.log1p(gmpy2.exp2(-distance)) / gmpy2.log(gmpy2.mpfr(2))
        else:
            added = gmpy2.log1p(gmpy2.exp(-distance))
    with gmpy2.context(EXACT):
        return _cut(gmpy2.mpfr(high) + added)


COMPOSED = {
    "sinpi": _sinpi,
    "cospi": _cospi,
    "tanpi": _tanpi,
    "sinc": _sinc,
    "degrees": lambda x: _scaled(x, True),
    "radians": lambda x: _scaled(x, False),
    "logaddexp": lambda a, b: _log_sum(a, b, None),
    "logaddexp2": lambda a, b: _log_sum(a, b, 2),
}
