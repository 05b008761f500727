"""Arithmetic on numbers of 124 bits: fractions in two words, and magnitudes with an exponent.

A fraction (high, low) stands for (high * 2**62 + low) * 2**-124. A magnitude (exponent, high, low) is as in
softfloat.rounding: (high + low * 2**-62) * 2**(exponent - 61), bit 61 of `high` set. Results are truncated: each
function states by how much, in units of 2**-124 for a fraction, relative for a magnitude.
"""

from softfloat._jit import both
from softfloat.bits import bit_length, i64
from softfloat.ops.arithmetic import add_magnitudes, multiply_significands, normalise
from softfloat.rounding import MASK, TOP, WORD


@both(inline=False)
def multiply_fractions(ah, al, bh, bl):
    """Product of two fractions; less than 3 units too small."""
    high, low = multiply_significands(ah, bh)
    left, _ = multiply_significands(ah, bl)
    right, _ = multiply_significands(al, bh)
    low += left
    high += low >> WORD
    low = (low & MASK) + right
    return high + (low >> WORD), low & MASK


@both
def subtract_fractions(ah, al, bh, bl):
    """Exact difference of two fractions, the first not the smaller."""
    low = al - bl
    borrow = 1 if low < 0 else 0
    return ah - bh - borrow, low + (borrow << WORD)


@both
def add_fractions(ah, al, bh, bl):
    """Exact sum of two fractions that is itself below 1."""
    low = al + bl
    return ah + bh + (low >> WORD), low & MASK


@both(inline=False)
def magnitude_of(high, low):
    """A non-zero fraction as a magnitude; exact."""
    high, low, places = normalise(high, low)
    return -1 - places, high, low


@both
def fraction_of(exponent, high, low):
    """A magnitude below 1 as a fraction; less than 1 unit too small."""
    places = -1 - exponent
    if places == 0:
        return high, low
    if places < WORD:
        return high >> places, ((high << (WORD - places)) & MASK) | (low >> places)
    if places < 2 * WORD:
        return 0, high >> (places - WORD)
    return 0, 0


@both
def whole(n):
    """A positive integer below 2**62 as a magnitude; exact."""
    width = bit_length(n)
    return width - 1, n << (WORD - width), 0


@both(inline=False)
def multiply(ea, ha, la, eb, hb, lb):
    """Product of two magnitudes, at most 2**-121 of it too small."""
    high, low = multiply_fractions(ha, la, hb, lb)
    exponent = ea + eb + 1
    if high < TOP:
        high = (high << 1) | (low >> (WORD - 1))
        low = (low << 1) & MASK
        exponent -= 1
    return exponent, high, low


@both(inline=False)
def add(na, ea, ha, la, nb, eb, hb, lb):
    """Sum of two signed magnitudes: (is zero, negative, exponent, high, low); within 2**-122 of the larger of them."""
    return add_magnitudes(na, ea, ha, la, nb, eb, hb, lb)


@both(inline=False)
def divide(ea, ha, la, eb, hb, lb):
    """Quotient of two magnitudes, at most 2**-123 of it too small; exact where 124 bits hold it."""
    exponent = ea - eb
    if ha < hb or (ha == hb and la < lb):
        ha = (ha << 1) | (la >> (WORD - 1))
        la = (la << 1) & MASK
        exponent -= 1
    high = i64(0)
    low = i64(0)
    for i in range(2 * WORD):
        bit = 0
        if ha > hb or (ha == hb and la >= lb):
            ha, la = subtract_fractions(ha, la, hb, lb)
            bit = 1
        ha = (ha << 1) | (la >> (WORD - 1))
        la = (la << 1) & MASK
        if i < WORD:
            high = (high << 1) | bit
        else:
            low = (low << 1) | bit
    return exponent, high, low


@both(inline=False)
def integer_root(a3, a2, a1, a0):
    """(high, low, 1 if inexact) of the square root of an integer of four 62-bit words, the highest first; floor."""
    high = i64(0)
    low = i64(0)
    rest_high = i64(0)
    rest_low = i64(0)
    word = a3
    for i in range(2 * WORD):
        if i == WORD // 2:
            word = a2
        if i == WORD:
            word = a1
        if i == WORD + WORD // 2:
            word = a0
        pair = (word >> (WORD - 2)) & 3
        word = (word << 2) & MASK
        # With `rest` and `root` so far: 4*rest + pair >= 4*root + 1.
        larger = rest_high > high or (rest_high == high and rest_low > low)
        equal = rest_high == high and rest_low == low
        bit = 1 if larger or (equal and pair > 0) else 0
        if bit == 1:
            rest_high, rest_low = subtract_fractions(rest_high, rest_low, high, low)
            pair -= 1
        rest_high = (rest_high << 2) | (rest_low >> (WORD - 2))
        rest_low = ((rest_low << 2) & MASK) + pair
        if rest_low < 0:  # pair is -1
            rest_low += MASK + 1
            rest_high -= 1
        elif rest_low > MASK:
            rest_low -= MASK + 1
            rest_high += 1
        high = (high << 1) | (low >> (WORD - 1))
        low = ((low << 1) & MASK) | bit
    return high, low, 1 if rest_high != 0 or rest_low != 0 else 0


@both
def sqrt(exponent, high, low):
    """Square root of a magnitude, at most 2**-123 of it too small."""
    if exponent & 1:
        root_high, root_low, _ = integer_root(high, low, 0, 0)
    else:
        root_high, root_low, _ = integer_root(
            high >> 1, ((high & 1) << (WORD - 1)) | (low >> 1), (low & 1) << (WORD - 1), 0
        )
    return exponent >> 1, root_high, root_low


@both(inline=False)
def series(table, first, terms, high, low, alternating):
    """Sum of table[first + n] * z**n for n < terms, z a fraction; with alternating signs if asked.

    The table holds decreasing positive fractions. Within 8 units for z <= 5/8.
    """
    sum_high = i64(table[first + terms - 1, 0])
    sum_low = i64(table[first + terms - 1, 1])
    for n in range(first + terms - 2, first - 1, -1):
        part_high, part_low = multiply_fractions(sum_high, sum_low, high, low)
        sum_high = i64(table[n, 0])
        sum_low = i64(table[n, 1])
        if alternating:
            sum_high, sum_low = subtract_fractions(sum_high, sum_low, part_high, part_low)
        else:
            sum_high, sum_low = add_fractions(sum_high, sum_low, part_high, part_low)
    return sum_high, sum_low
