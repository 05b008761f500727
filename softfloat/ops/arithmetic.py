"""Exact arithmetic: each operation gives the exact real result as (negative, exponent, high, low), to be rounded once.

Operands are the unpacked significands of float64 or float32 numbers: `high` has 62 bits of which the last nine are
zero. All steps are integer steps on words of at most 63 bits, so that plain Python, CPU and CUDA agree.

Source: Muller et al., Handbook of Floating-Point Arithmetic (2018), ch. 7 and 8; IEEE 754-2019, sections 5.3 to 6.3.
"""

from softfloat._jit import both
from softfloat.bits import bit_length
from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    MASK,
    NEGATIVE,
    QUIET_CLASS,
    SIGNALING_CLASS,
    WORD,
    ZERO_CLASS,
)

HALF = WORD // 2
HALF_MASK = (1 << HALF) - 1


@both
def normalise(high, low):
    """Shift a non-zero double word left until bit 61 of `high` is set: (high, low, places)."""
    places = 0
    if high == 0:
        high = low
        low = 0
        places = WORD
    shift = WORD - bit_length(high)
    if shift > 0:
        high = (high << shift) | (low >> (WORD - shift))
        low = (low << shift) & MASK
    return high, low, places + shift


@both
def shift_right_jam(high, low, places):
    """Shift a double word right, keeping whether anything was lost in its last bit."""
    if places <= 0:
        return high, low
    if places < WORD:
        lost = low & ((1 << places) - 1)
        low = ((high << (WORD - places)) & MASK) | (low >> places)
        high = high >> places
    elif places < 2 * WORD:
        lost = low | (high & ((1 << (places - WORD)) - 1))
        low = high >> (places - WORD)
        high = 0
    else:
        lost = high | low
        high = 0
        low = 0
    return high, low | (1 if lost != 0 else 0)


@both
def add_magnitudes(na, ea, ha, la, nb, eb, hb, lb):
    """Exact sum of two non-zero numbers: (is zero, negative, exponent, high, low)."""
    if eb > ea or (eb == ea and (hb > ha or (hb == ha and lb > la))):
        na, ea, ha, la, nb, eb, hb, lb = nb, eb, hb, lb, na, ea, ha, la
    # One spare bit at the top for the carry; sums of 106-bit products lose nothing by it.
    ha, la = shift_right_jam(ha, la, 1)
    hb, lb = shift_right_jam(hb, lb, ea - eb + 1)
    if na == nb:
        low = la + lb
        high = ha + hb + (low >> WORD)
        low = low & MASK
    else:
        low = la - lb
        high = ha - hb
        if low < 0:
            low += MASK + 1
            high -= 1
    if high == 0 and low == 0:
        return True, False, 0, 0, 0
    high, low, places = normalise(high, low)
    return False, na, ea + 1 - places, high, low


@both
def multiply_significands(ha, hb):
    """Product of two 62-bit words of which the last nine bits are zero: (high, low) of 2 * 62 bits, not normalised."""
    a1 = ha >> HALF
    a0 = ha & HALF_MASK
    b1 = hb >> HALF
    b0 = hb & HALF_MASK
    middle = a1 * b0 + a0 * b1
    low = a0 * b0 + ((middle & HALF_MASK) << HALF)
    return a1 * b1 + (middle >> HALF) + (low >> WORD), low & MASK


@both
def exact_product(ea, ha, eb, hb):
    """(exponent, high, low) of the product of two non-zero magnitudes."""
    high, low = multiply_significands(ha, hb)
    high, low, places = normalise(high, low)
    return ea + eb + 1 - places, high, low


@both
def exact_quotient(ea, ha, eb, hb):
    """(exponent, high, low) of the quotient of two non-zero magnitudes, the last bit jammed."""
    dividend = ha >> 9  # 53-bit integers
    divisor = hb >> 9
    exponent = ea - eb
    if dividend < divisor:
        dividend = 2 * dividend
        exponent -= 1
    high = dividend // divisor  # the leading bit
    remainder = dividend - high * divisor
    low = 0
    for _ in range(61):  # 61 bits more for `high`, then 62 for `low`
        remainder = 2 * remainder
        high = 2 * high
        if remainder >= divisor:
            remainder -= divisor
            high += 1
    for _ in range(62):
        remainder = 2 * remainder
        low = 2 * low
        if remainder >= divisor:
            remainder -= divisor
            low += 1
    return exponent, high, low | (1 if remainder != 0 else 0)


@both
def exact_root(exponent, high):
    """(exponent, high, low) of the square root of a positive number, the last bit jammed.

    61 bits of the root come from the schoolbook method, 31 more from the quotient of its remainder.
    """
    significand = high >> 9  # 53 bits
    if exponent & 1:
        significand = 2 * significand
    # The root of significand * 2**k, k even, with 61 bits; bits are brought down in pairs.
    width = bit_length(significand)
    if width & 1:
        width += 1
    root = 0
    remainder = 0
    for i in range(61):
        pair = (significand >> (width - 2 - 2 * i)) & 3 if width - 2 - 2 * i >= 0 else 0
        remainder = 4 * remainder + pair
        trial = 4 * root + 1
        root = 2 * root
        if remainder >= trial:
            remainder -= trial
            root += 1
    # sqrt(root**2 + remainder) = root + tail; tail >= q / 2**31 iff q**2 <= rest * 2**31.
    rest = remainder
    tail = 0
    for _ in range(31):
        rest = 2 * rest
        tail = 2 * tail
        if rest >= 2 * root:
            rest -= 2 * root
            tail += 1
    if rest < (1 << 31) and tail * tail > (rest << 31):
        tail -= 1
        inexact = 1
    else:
        inexact = 1 if rest != 0 or tail != 0 else 0
    high = 2 * root + (tail >> 30)
    low = ((tail & ((1 << 30) - 1)) << 32) | inexact
    return exponent >> 1, high, low


@both
def zero_sum_sign(na, nb, mode):
    """The sign of an exact zero sum of terms with these signs (IEEE 754-2019, 6.3)."""
    return na if na == nb else mode == NEGATIVE


@both
def add_parts(ca, na, ea, ha, cb, nb, eb, hb, mode):
    """a + b: (class, negative, exponent, high, low, flags)."""
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS
        return QUIET_CLASS, False, 0, 0, 0, INVALID if signals else 0
    if ca == INFINITE_CLASS or cb == INFINITE_CLASS:
        if ca == cb and na != nb:
            return QUIET_CLASS, False, 0, 0, 0, INVALID
        return INFINITE_CLASS, na if ca == INFINITE_CLASS else nb, 0, 0, 0, 0
    if ca == ZERO_CLASS and cb == ZERO_CLASS:
        return ZERO_CLASS, zero_sum_sign(na, nb, mode), 0, 0, 0, 0
    if ca == ZERO_CLASS:
        return FINITE_CLASS, nb, eb, hb, 0, 0
    if cb == ZERO_CLASS:
        return FINITE_CLASS, na, ea, ha, 0, 0
    zero, negative, exponent, high, low = add_magnitudes(na, ea, ha, 0, nb, eb, hb, 0)
    if zero:
        return ZERO_CLASS, mode == NEGATIVE, 0, 0, 0, 0
    return FINITE_CLASS, negative, exponent, high, low, 0


@both
def multiply_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """a * b."""
    negative = na != nb
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS
        return QUIET_CLASS, False, 0, 0, 0, INVALID if signals else 0
    if ca == INFINITE_CLASS or cb == INFINITE_CLASS:
        if ca == ZERO_CLASS or cb == ZERO_CLASS:
            return QUIET_CLASS, False, 0, 0, 0, INVALID
        return INFINITE_CLASS, negative, 0, 0, 0, 0
    if ca == ZERO_CLASS or cb == ZERO_CLASS:
        return ZERO_CLASS, negative, 0, 0, 0, 0
    exponent, high, low = exact_product(ea, ha, eb, hb)
    return FINITE_CLASS, negative, exponent, high, low, 0


@both
def divide_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """a / b; a non-zero number over zero is an exact infinity that raises divide_by_zero."""
    negative = na != nb
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS
        return QUIET_CLASS, False, 0, 0, 0, INVALID if signals else 0
    if (ca == INFINITE_CLASS and cb == INFINITE_CLASS) or (ca == ZERO_CLASS and cb == ZERO_CLASS):
        return QUIET_CLASS, False, 0, 0, 0, INVALID
    if ca == INFINITE_CLASS:
        return INFINITE_CLASS, negative, 0, 0, 0, 0
    if cb == ZERO_CLASS:
        return INFINITE_CLASS, negative, 0, 0, 0, DIVIDED_BY_ZERO
    if ca == ZERO_CLASS or cb == INFINITE_CLASS:
        return ZERO_CLASS, negative, 0, 0, 0, 0
    exponent, high, low = exact_quotient(ea, ha, eb, hb)
    return FINITE_CLASS, negative, exponent, high, low, 0


@both
def sqrt_parts(ca, na, ea, ha):
    """The square root; that of -0 is -0."""
    if ca >= QUIET_CLASS:
        return QUIET_CLASS, False, 0, 0, 0, INVALID if ca == SIGNALING_CLASS else 0
    if ca == ZERO_CLASS:
        return ZERO_CLASS, na, 0, 0, 0, 0
    if na:
        return QUIET_CLASS, False, 0, 0, 0, INVALID
    if ca == INFINITE_CLASS:
        return INFINITE_CLASS, False, 0, 0, 0, 0
    exponent, high, low = exact_root(ea, ha)
    return FINITE_CLASS, False, exponent, high, low, 0


@both
def fma_parts(ca, na, ea, ha, cb, nb, eb, hb, cc, nc, ec, hc, mode):
    """a * b + c. Infinity times zero raises invalid also where c is NaN (IEEE 754-2019, 7.2 leaves it open)."""
    negative = na != nb
    infinite = ca == INFINITE_CLASS or cb == INFINITE_CLASS
    zero = ca == ZERO_CLASS or cb == ZERO_CLASS
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS or cc >= QUIET_CLASS:
        signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS or cc == SIGNALING_CLASS
        undefined = infinite and zero
        return QUIET_CLASS, False, 0, 0, 0, INVALID if signals or undefined else 0
    if infinite:
        if zero or (cc == INFINITE_CLASS and nc != negative):
            return QUIET_CLASS, False, 0, 0, 0, INVALID
        return INFINITE_CLASS, negative, 0, 0, 0, 0
    if cc == INFINITE_CLASS:
        return INFINITE_CLASS, nc, 0, 0, 0, 0
    if zero:
        if cc == ZERO_CLASS:
            return ZERO_CLASS, zero_sum_sign(negative, nc, mode), 0, 0, 0, 0
        return FINITE_CLASS, nc, ec, hc, 0, 0
    exponent, high, low = exact_product(ea, ha, eb, hb)
    if cc == ZERO_CLASS:
        return FINITE_CLASS, negative, exponent, high, low, 0
    none, negative, exponent, high, low = add_magnitudes(
        negative, exponent, high, low, nc, ec, hc, 0
    )
    if none:
        return ZERO_CLASS, mode == NEGATIVE, 0, 0, 0, 0
    return FINITE_CLASS, negative, exponent, high, low, 0


@both
def remainder_parts(ca, na, ea, ha, cb, nb, eb, hb):
    """IEEE remainder a - n*b, n the integer nearest to a/b, ties to even n; exact. A zero takes the sign of a."""
    if ca >= QUIET_CLASS or cb >= QUIET_CLASS:
        signals = ca == SIGNALING_CLASS or cb == SIGNALING_CLASS
        return QUIET_CLASS, False, 0, 0, 0, INVALID if signals else 0
    if ca == INFINITE_CLASS or cb == ZERO_CLASS:
        return QUIET_CLASS, False, 0, 0, 0, INVALID
    if ca == ZERO_CLASS:
        return ZERO_CLASS, na, 0, 0, 0, 0
    if cb == INFINITE_CLASS or ea < eb - 1:
        return FINITE_CLASS, na, ea, ha, 0, 0
    divisor = hb >> 8  # 54 bits, in units of 2**(eb - 53)
    rest = ha >> 8
    odd = False
    if ea < eb:
        exponent = eb - 53
        # ea = eb - 1: the operands meet on the grid of a's last bit.
        divisor = 2 * divisor
        exponent -= 1
    else:
        exponent = eb - 53
        for _ in range(ea - eb):
            if rest >= divisor:
                rest -= divisor
            rest = 2 * rest
        if rest >= divisor:
            rest -= divisor
            odd = True
    negative = na
    double = 2 * rest
    if double > divisor or (double == divisor and odd):
        rest = divisor - rest
        negative = not na
    if rest == 0:
        return ZERO_CLASS, na, 0, 0, 0, 0
    width = bit_length(rest)
    return FINITE_CLASS, negative, exponent + width - 1, rest << (WORD - width), 0, 0
