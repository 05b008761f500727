"""Elementary functions of two operands, as in `functions`."""

from softfloat._jit import both
from softfloat.bits import bit_length, i64
from softfloat.ops.arithmetic import add_parts, multiply_significands
from softfloat.ops.elementary.cores import (
    angle,
    exponential,
    logarithm,
    logarithm_of_one_plus,
    power_of_two,
)
from softfloat.ops.elementary.functions import integer_power
from softfloat.ops.elementary.results import (
    DECIDED,
    KNOWN,
    TINY,
    TINY_LINEAR,
    TINY_QUOTIENT,
    computed,
    exactly,
    infinite,
    is_integer,
    just_below_quotient,
    just_beside,
    nan_of,
    odd_part,
    one,
    pole,
    undefined,
    zero,
)
from softfloat.ops.elementary.tables import (
    LN2_EXPONENT,
    LN2_HIGH,
    LN2_LOW,
    LOG2E_EXPONENT,
    LOG2E_HIGH,
    LOG2E_LOW,
    PI_EXPONENT,
    PI_HIGH,
    PI_LOW,
)
from softfloat.ops.elementary.wide import add, integer_root, multiply, whole
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    MASK,
    QUIET_CLASS,
    SIGNALING_CLASS,
    TOP,
    WORD,
    ZERO_CLASS,
)

KNOWN_POWER = 100  # bits of a power: the logarithm's error grows with the exponent, to 2**-101
POWER_BITS = 123  # of an exact power that is multiplied out


@both
def nan_of_two(ca, cb):
    """The result of an operation on two operands, one a NaN."""
    return nan_of(SIGNALING_CLASS if ca == SIGNALING_CLASS or cb == SIGNALING_CLASS else ca)


# ---------------------------------------------------------------- hypot
@both
def square_words(high, places):
    """The square of a significand, shifted right by an even number of places below 62, as words from the top."""
    upper, lower = multiply_significands(high, high)
    if places == 0:
        return upper, lower, i64(0)
    cut = (1 << places) - 1
    third = (lower & cut) << (WORD - places)
    lower = ((upper & cut) << (WORD - places)) | (lower >> places)
    return upper >> places, lower, third


@both(inline=False)
def hypot_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """sqrt(a*a + b*b), exact to the last bit; infinite if one operand is, also beside a quiet NaN."""
    if ca == SIGNALING_CLASS or cb == SIGNALING_CLASS:
        return nan_of(SIGNALING_CLASS)
    if ca == INFINITE_CLASS or cb == INFINITE_CLASS:
        return infinite(False)
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        return nan_of(QUIET_CLASS)
    if ca == ZERO_CLASS and cb == ZERO_CLASS:
        return zero(False)
    if ca == ZERO_CLASS or cb == ZERO_CLASS:
        return exactly(False, eb, hb, 0) if ca == ZERO_CLASS else exactly(False, ea, ha, 0)
    if eb > ea or (eb == ea and hb > ha):
        ea, ha, eb, hb = eb, hb, ea, ha
    if ea - eb > TINY:
        return just_beside(False, ea, ha, True)
    # a*a has 106 bits from the top of four words on, one place down for the carry and one for an even shift.
    a3, a2, a1 = square_words(ha, 2)
    shift = 2 * (ea - eb) + 2
    b3, b2, b1 = square_words(hb, shift % WORD)
    b0 = i64(0)
    if shift >= WORD:
        b3, b2, b1, b0 = i64(0), b3, b2, b1
    w1 = a1 + b1
    w2 = a2 + b2 + (w1 >> WORD)
    w3 = a3 + b3 + (w2 >> WORD)
    high, low, inexact = integer_root(w3, w2 & MASK, w1 & MASK, b0)
    # The sum is below 2**247: its root has 123 or 124 bits.
    exponent = ea
    if high < TOP:
        high = (high << 1) | (low >> (WORD - 1))
        low = (low << 1) & MASK
    else:
        exponent += 1
    return exactly(False, exponent, high, low | inexact)


# ---------------------------------------------------------------- power
@both
def is_odd_integer(kind, exponent, high):
    if kind != FINITE_CLASS or exponent < 0 or exponent >= WORD:
        return False
    return is_integer(exponent, high) and ((high >> (WORD - 1 - exponent)) & 1) == 1


@both(inline=False)
def exact_power(exponent, high, ny, ey, hy):
    """(found, exponent, high, low) of |x|**y where that is a number of at most 123 bits, x not 1."""
    m, t = odd_part(exponent, high)
    n, f = odd_part(ey, hy)
    while f < 0:  # x**(n / 2**k): square roots
        root, inexact = i64(0), i64(1)
        if (t & 1) == 0:
            root, _, inexact = integer_root(m, 0, 0, 0)
            # The root of m * 2**186 is that of m times 2**93: 31 of its places lie in the upper word.
            root = root >> (WORD // 2)
            inexact = i64(0) if root * root == m else i64(1)
        if inexact != 0:
            return False, i64(0), i64(0), i64(0)
        m = root
        t >>= 1
        f += 1
    if f + bit_length(n) > 30 or (m > 1 and ny):
        return False, i64(0), i64(0), i64(0)
    count = n << f
    if m > 1 and bit_length(m) * count > POWER_BITS:
        return False, i64(0), i64(0), i64(0)
    if ny:
        t = -t
    if m == 1:
        return True, t * count, i64(TOP), i64(0)
    ep, hp, lp = integer_power(m, count)
    return True, ep + t * count, hp, lp


@both
def power_at_limits(ca, na, ea, ha, cb, nb, odd):
    """x**y where x is zero or infinite or y is infinite; neither NaN, y not zero."""
    if cb == INFINITE_CLASS:
        if ca == FINITE_CLASS and ea == 0 and ha == TOP:
            return one(False)
        large = ca == INFINITE_CLASS or (ca == FINITE_CLASS and ea >= 0)
        return zero(False) if large == nb else infinite(False)
    if ca == ZERO_CLASS:
        return pole(na and odd) if nb else zero(na and odd)
    return zero(na and odd) if nb else infinite(na and odd)


@both(inline=False)
def power_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """x**y (IEEE 754's pow): 1 for y = 0 and for x = 1 whatever the other is; NaN for x < 0 unless y is an integer."""
    if ca == SIGNALING_CLASS or cb == SIGNALING_CLASS:
        return nan_of(SIGNALING_CLASS)
    unit = ca == FINITE_CLASS and ea == 0 and ha == TOP
    if cb == ZERO_CLASS or (unit and not na):
        return one(False)
    if ca == QUIET_CLASS or cb == QUIET_CLASS:
        return nan_of(QUIET_CLASS)
    odd = is_odd_integer(cb, eb, hb)
    if ca != FINITE_CLASS or cb == INFINITE_CLASS:
        return power_at_limits(ca, na, ea, ha, cb, nb, odd)
    if na and not is_integer(eb, hb):
        return undefined()
    negative = na and odd
    if unit:
        return one(negative)
    found, exponent, high, low = exact_power(ea, ha, nb, eb, hb)
    if found:
        return exactly(negative, exponent, high, low)
    nl, el, hl, ll = logarithm(ea, ha, 0)
    el, hl, ll = multiply(el, hl, ll, LOG2E_EXPONENT, LOG2E_HIGH, LOG2E_LOW)
    el, hl, ll = multiply(el, hl, ll, eb, hb, 0)
    if el < -TINY_LINEAR:
        return just_beside(negative, 0, TOP, nl == nb)
    exponent, high, low = power_of_two(nl != nb, el, hl, ll)
    return FINITE_CLASS, negative, exponent, high, low, 0, KNOWN_POWER


# ---------------------------------------------------------------- arctan2
@both
def eighths_of_turn(negative, count):
    """A multiple of pi/4 with a sign."""
    exponent, high, low = i64(PI_EXPONENT - 2), i64(PI_HIGH), i64(PI_LOW)
    if count > 0:
        ec, hc, lc = whole(count)
        exponent, high, low = multiply(exponent, high, low, ec, hc, lc)
        return computed(negative, exponent, high, low)
    return zero(negative)


@both(inline=False)
def arctan2_parts(cy, ny, ey, hy, cx, nx, ex, hx):
    """The angle of the point (x, y), in [-pi, pi]; of the sign of y."""
    if cy >= QUIET_CLASS or cx >= QUIET_CLASS:
        return nan_of_two(cy, cx)
    if cy == ZERO_CLASS or (cx == INFINITE_CLASS and cy != INFINITE_CLASS):
        return eighths_of_turn(ny, i64(4) if nx else i64(0))
    if cy == INFINITE_CLASS and cx == INFINITE_CLASS:
        return eighths_of_turn(ny, i64(3) if nx else i64(1))
    if cy == INFINITE_CLASS or cx == ZERO_CLASS:
        return eighths_of_turn(ny, i64(2))
    if not nx and ex - ey > TINY_QUOTIENT:
        return just_below_quotient(ny, ey, hy, ex, hx)
    exponent, high, low = angle(ey, hy, 0, ex, hx, 0)
    if nx:
        _, _, exponent, high, low = add(
            False, PI_EXPONENT, PI_HIGH, PI_LOW, True, exponent, high, low
        )
    return computed(ny, exponent, high, low)


# ---------------------------------------------------------------- logarithms of sums
@both
def larger_operand(ca, na, ea, ha):
    """An operand as a result: a zero, an infinity or a finite number."""
    return ca, na, ea, ha, 0, 0, DECIDED


@both
def sum_at_limits(ca, na, ea, ha, cb, nb, eb, hb):
    """log(e**a + e**b) where an operand is NaN or infinite."""
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        return nan_of_two(ca, cb)
    if ca == INFINITE_CLASS and (not na or cb == INFINITE_CLASS):
        return infinite(na and nb)
    if cb == INFINITE_CLASS and not nb:
        return infinite(False)
    return (
        larger_operand(cb, nb, eb, hb) if ca == INFINITE_CLASS else larger_operand(ca, na, ea, ha)
    )


@both
def one_more(ca, na, ea, ha):
    """a + 1, exact: log2(2**a + 2**a)."""
    kind, negative, exponent, high, low, _ = add_parts(
        ca, na, ea, ha, FINITE_CLASS, False, 0, TOP, 0
    )
    return kind, negative, exponent, high, low, 0, DECIDED


@both(inline=False)
def sum_of_powers(ca, na, ea, ha, cb, nb, eb, hb, binary):
    """The logarithm of e**a + e**b (of 2**a + 2**b to base 2 if `binary`): max(a, b) + log1p(e**-|a - b|).

    Where the terms cancel, fewer bits are known.
    """
    if ca >= INFINITE_CLASS or cb >= INFINITE_CLASS:
        return sum_at_limits(ca, na, ea, ha, cb, nb, eb, hb)
    kind, second, ed, hd, ld, _ = add_parts(ca, na, ea, ha, cb, not nb, eb, hb, 0)
    if second:
        ca, na, ea, ha = cb, nb, eb, hb
    if kind == ZERO_CLASS and binary:
        return one_more(ca, na, ea, ha)
    if kind == ZERO_CLASS:
        el, hl, ll = i64(LN2_EXPONENT), i64(LN2_HIGH), i64(LN2_LOW)
    elif binary:
        el, hl, ll = power_of_two(True, ed, hd, ld)
        _, el, hl, ll = logarithm_of_one_plus(False, el, hl, ll)
        el, hl, ll = multiply(el, hl, ll, LOG2E_EXPONENT, LOG2E_HIGH, LOG2E_LOW)
    else:
        el, hl, ll = exponential(True, ed, hd, ld)
        _, el, hl, ll = logarithm_of_one_plus(False, el, hl, ll)
    if ca == ZERO_CLASS:
        return computed(False, el, hl, ll)
    if el < ea - TINY_LINEAR:
        return just_beside(na, ea, ha, not na)
    nothing, negative, exponent, high, low = add(na, ea, ha, 0, False, el, hl, ll)
    if nothing:
        return FINITE_CLASS, False, el, hl, ll, 0, 0
    return FINITE_CLASS, negative, exponent, high, low, 0, max(KNOWN - max(el - exponent, 0), 0)


@both(inline=False)
def logaddexp_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """log(e**a + e**b)."""
    return sum_of_powers(ca, na, ea, ha, cb, nb, eb, hb, False)


@both(inline=False)
def logaddexp2_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """log2(2**a + 2**b); exact where a = b."""
    return sum_of_powers(ca, na, ea, ha, cb, nb, eb, hb, True)


BINARY = {
    "hypot": hypot_parts,
    "power": power_parts,
    "arctan2": arctan2_parts,
    "logaddexp": logaddexp_parts,
    "logaddexp2": logaddexp2_parts,
}
