"""One operation on float64 numbers, its format and mode known only at run time: a fast form, and the definition.

The fast form: the operation in float64 with the sign of its error, to odd (softfloat.ops.error_free); then one sum with
E * 2**(52 - m), E the power of two at or below the magnitude, rounds it on the format's grid, and the mode says whether
the value below or above is meant. Where an operand, the result or the format lies outside its domain, the
definition in integers decides.

A format is given as F, its nine integers, and N, its five numbers: the two halves of Format.kernel_record. Where it is
a constant of the caller, the compiler folds both.
"""

import functools
import math
from typing import Any

from numba import types
from numba.extending import intrinsic

from softfloat._jit import both, jit
from softfloat.backends.elementary import enclose
from softfloat.bits import (
    and_,
    binade,
    fma,
    i64,
    is_negative,
    magnitude,
    one_like,
    plus,
    to_bits,
    to_float,
    zero_like,
)
from softfloat.codec import to_carrier, to_code, unpack
from softfloat.format import (
    EMIN,
    FLAGS,
    FLOOR,
    GRADUAL,
    INFINITY_CODE,
    LARGEST,
    LOWEST,
    MAGNITUDE_BITS,
    MANTISSA_BITS,
    MAX_CODE,
    NEGATIVE_ZERO,
    NORMAL,
    SIGNED,
    SPREAD,
    STEP,
    UNDERFLOW,
)
from softfloat.ops.arithmetic import (
    add_parts,
    divide_parts,
    fma_parts,
    multiply_parts,
    remainder_parts,
    sqrt_parts,
)
from softfloat.ops.convert import integral_parts, round_any
from softfloat.ops.elementary.binary import BINARY
from softfloat.ops.elementary.functions import UNARY
from softfloat.ops.elementary.quick import BINARY_QUICK, UNARY_QUICK
from softfloat.ops.elementary.results import DECIDED
from softfloat.ops.error_free import (
    divide_with_error,
    fma_with_error,
    multiply_with_error,
    outside_add,
    outside_divide,
    outside_fma,
    outside_multiply,
    outside_sqrt,
    sqrt_with_error,
    to_odd,
    two_sum,
    zero_of_sum,
)
from softfloat.rounding import (
    AWAY,
    EQUAL,
    EVEN,
    FINITE_CLASS,
    INVALID,
    NAN,
    NEGATIVE,
    ODD,
    POSITIVE,
    SIGNALING_CLASS,
    STOCHASTIC,
)

MANTISSA, EXPONENT = 52, 11  # fields of float64
QUICK_BITS = 36  # of a significand, random bits included, up to which float64 usually decides an elementary function
BINARY64_MAX_CODE = 0x7FEFFFFFFFFFFFFF


@intrinsic
def signed_bits(context, x):
    """The bits of a float64 as a signed integer."""
    if x != types.float64:
        return None
    target = types.int64
    generate = lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(target))  # noqa: E731
    return target(x), generate


@intrinsic
def from_signed_bits(context, u):
    """The float64 with these bits."""
    if u != types.int64:
        return None
    target = types.float64
    generate = lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(target))  # noqa: E731
    return target(u), generate


# ---------------------------------------------------------------- the definition
@both
def _convert(ca, na, ea, ha, mode, word, bits, variant):
    return ca, na, ea, ha, 0, INVALID if ca == SIGNALING_CLASS else 0


@both
def _sqrt(ca, na, ea, ha, mode, word, bits, variant):
    return sqrt_parts(ca, na, ea, ha)


@both
def _subtract(ca, na, ea, ha, cb, nb, eb, hb, mode):
    return add_parts(ca, na, ea, ha, cb, not nb, eb, hb, mode)


@both
def _multiply(ca, na, ea, ha, cb, nb, eb, hb, mode):
    return multiply_parts(ca, na, ea, ha, cb, nb, eb, hb)


@both
def _divide(ca, na, ea, ha, cb, nb, eb, hb, mode):
    return divide_parts(ca, na, ea, ha, cb, nb, eb, hb)


@both
def _remainder(ca, na, ea, ha, cb, nb, eb, hb, mode):
    return remainder_parts(ca, na, ea, ha, cb, nb, eb, hb)


# Exact results by the number of operands; each entry is a function of the operands taken apart.
PARTS: tuple[dict[str, Any], ...] = (
    {},
    {"quantize": _convert, "sqrt": _sqrt, "round_to_integral": integral_parts},
    {
        "add": add_parts,
        "subtract": _subtract,
        "multiply": _multiply,
        "divide": _divide,
        "remainder": _remainder,
    },
    {"fma": fma_parts},
)


ELEMENTARY = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2)}  # operands of each


def _elementary_parts(name):
    """The result to 124 bits; beyond them something non-zero is taken to follow, unless they are known to be all."""
    operands = ELEMENTARY[name]
    evaluate = jit(UNARY[name] if operands == 1 else BINARY[name])

    @jit(inline=True)
    def take(a, b, c, mode, word, bits, variant):
        first = unpack(signed_bits(a), MANTISSA, EXPONENT)
        if operands == 1:
            result = evaluate(*first)
        else:
            result = evaluate(*first, *unpack(signed_bits(b), MANTISSA, EXPONENT))
        kind, negative, exponent, high, low, raised, known = result
        if kind == FINITE_CLASS and known != DECIDED:
            low = low | 1
        return kind, negative, exponent, high, low, raised

    return take


@functools.cache
def exact_parts(operation):
    """parts(a, b, c, mode, word, bits, variant): the exact result as (class, negative, exponent, high, low, flags)."""
    if operation in ELEMENTARY:
        return _elementary_parts(operation)
    operands = next(n for n in (1, 2, 3) if operation in PARTS[n])
    parts = PARTS[operands][operation]

    @jit(inline=True)
    def take(a, b, c, mode, word, bits, variant):
        ca, na, ea, ha = unpack(signed_bits(a), MANTISSA, EXPONENT)
        if operands == 1:
            return parts(ca, na, ea, ha, mode, word, bits, variant)
        cb, nb, eb, hb = unpack(signed_bits(b), MANTISSA, EXPONENT)
        if operands == 2:
            return parts(ca, na, ea, ha, cb, nb, eb, hb, mode)
        cc, nc, ec, hc = unpack(signed_bits(c), MANTISSA, EXPONENT)
        return parts(ca, na, ea, ha, cb, nb, eb, hb, cc, nc, ec, hc, mode)

    return take


@functools.cache
def defined(operation):
    """run(a, b, c, F, mode, saturate, word, bits, variant) -> (magnitude code, negative) by the definition."""
    parts = exact_parts(operation)

    @jit
    def run(a, b, c, F, mode, saturate, word, bits, variant):
        kind, negative, exponent, high, low, raised = parts(a, b, c, mode, word, bits, variant)
        code, negative, flags = round_any(
            kind, negative, exponent, high, low, raised, F, mode, saturate, word, bits, variant
        )
        return code, negative

    return run


@functools.cache
def defined_value(operation):
    """As `defined`, giving the value."""
    run = defined(operation)

    @jit
    def value(a, b, c, F, mode, saturate, word, bits, variant):
        code, negative = run(a, b, c, F, mode, saturate, word, bits, variant)
        return from_signed_bits(i64(to_carrier(negative, code, F, MANTISSA, EXPONENT)))

    return value


# ---------------------------------------------------------------- the fast form
# Each operation as (result, something of its error's sign, whether an operand lies outside the domain).
@jit(inline=True)
def _fast_quantize(a, b, c, mode):
    return a, 0.0, False


@jit(inline=True)
def _fast_add(a, b, c, mode):
    z, e = two_sum(a, b)
    return zero_of_sum(z, a, b) if mode == NEGATIVE else z, e, outside_add(z)


@jit(inline=True)
def _fast_subtract(a, b, c, mode):
    return _fast_add(a, -b, c, mode)


@jit(inline=True)
def _fast_multiply(a, b, c, mode):
    z, e = multiply_with_error(a, b)
    return z, e, outside_multiply(z, a, b)


@jit(inline=True)
def _fast_divide(a, b, c, mode):
    z, e = divide_with_error(a, b)
    return z, e, outside_divide(z, a)


@jit(inline=True)
def _fast_sqrt(a, b, c, mode):
    z, e = sqrt_with_error(a)
    return z, e, outside_sqrt(z, a)


@jit(inline=True)
def _fast_fma(a, b, c, mode):
    z, e = fma_with_error(a, b, c)
    return zero_of_sum(z, a * b, c) if mode == NEGATIVE else z, e, outside_fma(z, a, b, c)


WITH_ERROR = {
    "quantize": _fast_quantize,
    "add": _fast_add,
    "subtract": _fast_subtract,
    "multiply": _fast_multiply,
    "divide": _fast_divide,
    "sqrt": _fast_sqrt,
    "fma": _fast_fma,
}


@jit(inline=True)
def rounds_up(mode, negative, rest, step, odd, word, bits):
    """Whether a magnitude `rest` above a value, a `step` below the next, goes up; every mode but EVEN."""
    if mode == AWAY:
        return rest + rest >= step
    if mode == POSITIVE:
        return (rest > 0.0) & (not negative)
    if mode == NEGATIVE:
        return (rest > 0.0) & negative
    if mode == ODD:
        return (rest > 0.0) & (not odd)
    if mode == EQUAL:
        return (rest > 0.0) & ((i64(word) >> (bits - 1)) != 0)
    if mode == STOCHASTIC:
        # Products of a power of two and an integer below 2**33: exact, so this is the decision of the definition.
        unit = from_signed_bits((i64(1023) - bits) << MANTISSA)
        return rest >= float((i64(1) << bits) - i64(word)) * (step * unit)
    return False


@jit(inline=True)
def round_fast(z, F, N, mode, word, bits, variant):
    """(z rounded to the format, True), or (anything, False) outside the domain; z is rounded to odd."""
    u = to_bits(z)
    a = to_float(magnitude(u))
    negative = is_negative(u)
    E = to_float(binade(u))
    E = E if E > N[FLOOR] else N[FLOOR]
    t = fma(E, N[SPREAD], a)
    y = fma(-E, N[SPREAD], t)
    inside = True
    if mode != EVEN:
        step = E * N[STEP]
        over = y > a
        below = y - step if over else y
        odd = (and_(to_bits(t), one_like(u)) != zero_like(u)) != over
        y = below + step if rounds_up(mode, negative, a - below, step, odd, word, bits) else below
        if mode == STOCHASTIC:
            lowest = F[EMIN] - F[MANTISSA_BITS] - bits
            inside = (variant == 0) & (F[MANTISSA_BITS] + bits <= 51) & (lowest > -1022)
    inside &= (y <= N[LARGEST]) & ((a >= N[LOWEST]) | (a == 0.0))
    if negative & ((y > 0.0) | ((F[FLAGS] & NEGATIVE_ZERO) != 0)):
        y = -y
    return y, inside


@jit(inline=True)
def is_binary64(F):
    """Whether the format is float64 itself."""
    return (F[MAX_CODE] == BINARY64_MAX_CODE) & (F[MANTISSA_BITS] == 52) & (F[EMIN] == -1022)


@functools.cache
def bounds_of(name):
    """f(a, b) -> (low, high) around the result of an elementary function in float64; NaN where it does not know."""
    operands = ELEMENTARY[name]
    quick = UNARY_QUICK[name] if operands == 1 else BINARY_QUICK[name]

    @jit(inline=True)
    def bounds(a, b):
        if operands == 1:
            y, e = quick(a)
        else:
            y, e = quick(a, b)
        return enclose(y, e)

    return bounds


def _elementary(name):
    """As `operation`, for an elementary function: two bounds rounded, the definition where they differ."""
    slow, bounds = defined_value(name), bounds_of(name)

    @jit(inline=True)
    def run(a, b, c, F, N, mode, saturate, word, bits, variant):
        # On a GPU a product of the caller's could join the first sum in here; the sum with -0 takes it apart.
        a, b = plus(a, -0.0), plus(b, -0.0)
        if F[MANTISSA_BITS] + (bits if mode >= STOCHASTIC else 0) <= QUICK_BITS:
            low, high = bounds(a, b)
            x, x_inside = round_fast(low, F, N, mode, word, bits, variant)
            y, y_inside = round_fast(high, F, N, mode, word, bits, variant)
            if x_inside & y_inside & (signed_bits(x) == signed_bits(y)):
                return x
        return slow(a, b, c, F, mode, saturate, word, bits, variant)

    return run


@functools.cache
def operation(name):
    """run(a, b, c, F, N, mode, saturate, word, bits, variant): one rounded operation on float64 numbers."""
    if name in ELEMENTARY:
        return _elementary(name)
    slow = defined_value(name)
    fast = WITH_ERROR.get(name)
    if fast is None:

        @jit(inline=True)
        def run(a, b, c, F, N, mode, saturate, word, bits, variant):
            return slow(a, b, c, F, mode, saturate, word, bits, variant)

        return run

    @jit(inline=True)
    def run(a, b, c, F, N, mode, saturate, word, bits, variant):
        z, e, outside = fast(a, b, c, mode)
        if (mode == EVEN) & is_binary64(F) & (F[UNDERFLOW] == GRADUAL) & (abs(z) < math.inf):
            return z  # the processor's own rounding
        y, inside = round_fast(to_odd(z, e), F, N, mode, word, bits, variant)
        if inside & (not outside):
            return y
        return slow(a, b, c, F, mode, saturate, word, bits, variant)

    return run


# ---------------------------------------------------------------- codes
@jit(inline=True)
def code_of(y, F):
    """The code of a finite value of a format with subnormals or without, zero included."""
    u = signed_bits(abs(y))
    field = (u >> MANTISSA) - 1023 - F[EMIN]  # of the exponent, from 0 at the lowest normal binade
    m = F[MANTISSA_BITS]
    if field >= 0:
        no_zero_field = 1 if F[UNDERFLOW] >= NORMAL else 0
        fraction = (u & ((i64(1) << MANTISSA) - 1)) >> (MANTISSA - m)
        code = ((field + 1 - no_zero_field) << m) | fraction
    else:
        unit = from_signed_bits((i64(1023) + m - F[EMIN]) << MANTISSA)
        code = i64(abs(y) * unit)
    return code | (i64(1) << F[MAGNITUDE_BITS]) if is_negative(to_bits(y)) else code


_defined_quantize = defined("quantize")


@jit
def defined_code(a, F, mode, saturate, word, bits, variant):
    """The code of a number by the definition; -1 for a NaN where the format has none."""
    code, negative = _defined_quantize(a, a, a, F, mode, saturate, word, bits, variant)
    return i64(to_code(negative, code, F))


@jit(inline=True)
def encode(a, b, c, F, N, mode, saturate, word, bits, variant):
    """The code of a float64 rounded to the format."""
    y, inside = round_fast(a, F, N, mode, word, bits, variant)
    if inside:
        return code_of(y, F)
    return defined_code(a, F, mode, saturate, word, bits, variant)


@jit
def decode(code, F):
    """The float64 value of a code; every NaN code gives the canonical one."""
    width = F[MAGNITUDE_BITS]
    magnitude = code & ((i64(1) << width) - 1)
    negative = ((F[FLAGS] & SIGNED) != 0) & (((code >> width) & 1) == 1)
    special = (magnitude > F[MAX_CODE]) & (magnitude != F[INFINITY_CODE])
    if special | (negative & (magnitude == 0) & ((F[FLAGS] & NEGATIVE_ZERO) == 0)):
        magnitude = i64(NAN)
    return from_signed_bits(i64(to_carrier(negative, magnitude, F, MANTISSA, EXPONENT)))
