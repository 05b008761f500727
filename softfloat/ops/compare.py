"""Order, neighbours and classes of exact numbers: questions that are answered without rounding.

Operands are taken apart: (class, negative, exponent, high, low, payload). The payload is the 52-bit
significand field of a NaN, its top bit the quiet bit, and 0 for anything else.

Neighbours are steps on the line of magnitude codes of a format (see softfloat.rounding).

Source: IEEE 754-2019, sections 5.3.1, 5.7.2, 5.10, 5.11 and 9.6.
"""

from softfloat._jit import both
from softfloat.bits import i64
from softfloat.codec import carrier_bits, parts_of_code, unpack
from softfloat.fixed_point import lowest_code
from softfloat.format import (
    EMIN,
    FLAGS,
    FLUSH,
    GRADUAL,
    GRID,
    INFINITY_CODE,
    MANTISSA_BITS,
    MAX_CODE,
    NORMAL,
    SCALE,
    SIGNED,
    UNDERFLOW,
)
from softfloat.ops.arithmetic import normalise
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    NAN,
    QUIET_CLASS,
    SIGNALING_CLASS,
    WORD,
    ZERO_CLASS,
    discard,
)

UNORDERED = 2
FIRST, SECOND, NEITHER = range(3)  # which operand a minimum or maximum is
# The classes of IEEE 754-2019, 5.7.2, in the order of `CLASS_NAMES`.
CLASS_NAMES = (
    "signalingNaN",
    "quietNaN",
    "negativeInfinity",
    "negativeNormal",
    "negativeSubnormal",
    "negativeZero",
    "positiveZero",
    "positiveSubnormal",
    "positiveNormal",
    "positiveInfinity",
)
PAYLOAD_BITS = 52
QUIET_PAYLOAD = 1 << (PAYLOAD_BITS - 1)


# ---------------------------------------------------------------- operands
@both
def load(a, i, mantissa):
    """Element i taken apart. a: bits of float32 or float64 numbers, or (5, n) columns."""
    if a.ndim == 2:
        kind, negative = i64(a[0, i]), a[1, i] != 0
        exponent, high, low = i64(a[2, i]), i64(a[3, i]), i64(a[4, i])
        if kind == FINITE_CLASS:
            high, low, places = normalise(high, low)
            exponent -= places
        return kind, negative, exponent, high, low, QUIET_PAYLOAD if kind >= QUIET_CLASS else 0
    else:  # an else, so that the compiler drops the branch of the other kind
        bits = i64(a[i])
        kind, negative, exponent, high = unpack(bits, mantissa, 8 if mantissa == 23 else 11)
        payload = 0
        if kind >= QUIET_CLASS:
            payload = (bits & ((1 << mantissa) - 1)) << (PAYLOAD_BITS - mantissa)
        return kind, negative, exponent, high, 0, payload


@both
def number_bits(kind, negative, exponent, high, mantissa):
    """The bits, as a signed integer, of a number that the carrier holds; one NaN for all."""
    width = 8 if mantissa == 23 else 11
    infinity = ((1 << width) - 1) << mantissa
    if kind >= QUIET_CLASS:
        return infinity | (1 << (mantissa - 1))
    bits = 0
    if kind == INFINITE_CLASS:
        bits = infinity
    if kind == FINITE_CLASS:
        # The last nine bits of a number from a float64 are zero.
        bits = carrier_bits(high >> 9, exponent - (WORD - 1 - 9), mantissa, width)
    return bits | -(1 << (mantissa + width)) if negative else bits


# ---------------------------------------------------------------- order
@both
def magnitude_order(ca, ea, ha, la, cb, eb, hb, lb):
    """-1, 0 or 1 as |a| is below, at or above |b|; neither is NaN."""
    if ca != cb:
        return -1 if ca < cb else 1
    if ca != FINITE_CLASS or (ea == eb and ha == hb and la == lb):
        return 0
    if ea != eb:
        return -1 if ea < eb else 1
    if ha != hb:
        return -1 if ha < hb else 1
    return -1 if la < lb else 1


@both
def order(ca, na, ea, ha, la, cb, nb, eb, hb, lb):
    """-1, 0 or 1 as a is below, at or above b (-0 is at +0); UNORDERED where one is NaN."""
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        return UNORDERED
    if ca == ZERO_CLASS and cb == ZERO_CLASS:
        return 0
    if na != nb:
        return -1 if na else 1
    relation = magnitude_order(ca, ea, ha, la, cb, eb, hb, lb)
    return -relation if na else relation


@both
def precedes(ca, na, ea, ha, la, pa, cb, nb, eb, hb, lb, pb):
    """totalOrder(a, b) of IEEE 754-2019, 5.10: whether a comes before b, or is the same."""
    if na != nb:
        return na
    if ca >= QUIET_CLASS and cb >= QUIET_CLASS:
        below, above = pa < pb, pa > pb
    elif ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        below, above = cb >= QUIET_CLASS, ca >= QUIET_CLASS
    else:
        relation = magnitude_order(ca, ea, ha, la, cb, eb, hb, lb)
        below, above = relation < 0, relation > 0
    return not below if na else not above


@both
def chosen(larger, magnitudes, numbers, ca, na, ea, ha, la, cb, nb, eb, hb, lb):
    """Which operand is the minimum (or, with `larger`, the maximum); NEITHER stands for NaN.

    magnitudes : |a| and |b| decide first.   numbers : a number beats a NaN.   -0 lies below +0.
    """
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        if not numbers or (ca >= QUIET_CLASS and cb >= QUIET_CLASS):
            return NEITHER
        return SECOND if ca >= QUIET_CLASS else FIRST
    relation = 0
    if magnitudes:
        relation = magnitude_order(ca, ea, ha, la, cb, eb, hb, lb)
    if relation == 0:
        relation = order(ca, na, ea, ha, la, cb, nb, eb, hb, lb)
    if relation == 0 and na != nb:
        relation = -1 if na else 1
    return FIRST if (relation >= 0 if larger else relation <= 0) else SECOND


# ---------------------------------------------------------------- neighbours
@both
def floor_code(kind, exponent, high, low, F):
    """(code, exact): the last magnitude code at or below a finite magnitude, and whether at it.

    The code is -1 below the smallest power of a format without zero, MAX_CODE + 1 beyond the
    largest value.
    """
    m, emin = F[MANTISSA_BITS], F[EMIN]
    if kind == ZERO_CLASS:
        return (-1 if F[UNDERFLOW] == SCALE else 0), F[UNDERFLOW] != SCALE
    no_zero_field = 1 if F[UNDERFLOW] >= NORMAL else 0
    if exponent - emin > (F[MAX_CODE] >> m) + 1:
        return F[MAX_CODE] + 1, False
    if exponent < emin and F[UNDERFLOW] != GRADUAL:
        return (-1 if F[UNDERFLOW] == SCALE else 0), False
    bounded = max(exponent, emin)
    kept, fraction, rest = discard(high, low, WORD - 1 - m + bounded - exponent)
    code = ((bounded - emin) << m) + kept - (no_zero_field << m)
    exact = fraction == 0 and rest == 0
    if code == 0 and F[UNDERFLOW] == NORMAL:
        exact = False  # the place of 2**emin is taken by zero
    return code, exact


@both
def code_above(code, F):
    """The magnitude code after this one, over the gap where subnormals are missing."""
    if code == 0 and (F[UNDERFLOW] == FLUSH or F[UNDERFLOW] == GRID):
        return 1 << F[MANTISSA_BITS]
    return code + 1


@both
def code_below(code, F):
    """The magnitude code before this one."""
    if code == 1 << F[MANTISSA_BITS] and (F[UNDERFLOW] == FLUSH or F[UNDERFLOW] == GRID):
        return 0
    return code - 1


@both
def neighbour(upward, kind, negative, exponent, high, low, F):
    """(negative, code) of the smallest value of a format above any number, or the largest below.

    Past the largest finite value comes infinity; where there is none, and past the end of an
    unsigned format, the step stays at the end.
    """
    if kind >= QUIET_CLASS:
        return False, NAN
    if kind == ZERO_CLASS:
        negative = not upward
    outward = upward != negative
    if negative and (F[FLAGS] & SIGNED) == 0:
        return False, 0  # the end of an unsigned format, from below or at zero
    largest = lowest_code(F) if negative else F[MAX_CODE]
    if kind == INFINITE_CLASS:
        code, exact = largest + 1, False
    else:
        code, exact = floor_code(kind, exponent, high, low, F)
    if outward:
        code = code_above(code, F)
        if code > largest:
            code = F[INFINITY_CODE] if F[INFINITY_CODE] >= 0 else largest
        return negative, code
    if code > largest:
        return negative, largest
    return negative, max(code_below(code, F) if exact else code, 0)


@both
def last_place(kind, exponent, high, low, F):
    """(significand, exponent) of the step from the value at or below a magnitude to the next."""
    code, _ = floor_code(kind, exponent, high, low, F)
    code = min(code, F[MAX_CODE])
    if code < 0 or (code == 0 and F[UNDERFLOW] != SCALE):
        return parts_of_code(code_above(code, F), F)
    return 1, parts_of_code(code, F)[1]


# ---------------------------------------------------------------- classes
@both
def class_of(kind, negative, exponent, high, low, F):
    """The place in CLASS_NAMES of a number taken as a datum of the format."""
    if kind == SIGNALING_CLASS:
        return 0
    if kind == QUIET_CLASS:
        return 1
    if kind == INFINITE_CLASS:
        place = 3
    elif kind == ZERO_CLASS:
        place = 0
    else:
        code, exact = floor_code(kind, exponent, high, low, F)
        first = 1 if F[UNDERFLOW] == NORMAL else 1 << F[MANTISSA_BITS]
        if F[UNDERFLOW] == SCALE:
            first = 0
        place = 2 if code >= first else 1
    return 5 - place if negative else 6 + place


@both
def exponent_of(kind, exponent):
    """logb: (class, negative, magnitude) of the exponent of a number; minus infinity for zero."""
    if kind == ZERO_CLASS:
        return INFINITE_CLASS, True, 0
    if kind == FINITE_CLASS:
        return (FINITE_CLASS if exponent != 0 else ZERO_CLASS), exponent < 0, abs(exponent)
    return kind, False, 0
