"""Sums and inner products without error: a fixed-point number as wide as the range of float64 products.

The number is an array of LIMBS signed 64-bit limbs, each worth 2**32 of the one before, the first 2**-BASE: the square
of the smallest subnormal float64, so that every product of two float64 numbers is a whole number of its units. A limb
has 31 bits to spare: `carry` settles them now and then. The sum starts at +0, as every sum of this package, and is
rounded once, by the definition, from `parts_of_sum`.

Source: Kulisch, Computer Arithmetic and Validity (2013), the long accumulator; Neal, Fast exact summation using small
and large superaccumulators (2015).
"""

from softfloat._jit import jit
from softfloat.bits import bit_length
from softfloat.codec import unpack
from softfloat.ops.arithmetic import multiply_parts
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    NEGATIVE,
    QUIET_CLASS,
    SIGNALING_CLASS,
    WORD,
    ZERO_CLASS,
)

BASE = 2148
LIMB, LIMB_MASK = 32, (1 << 32) - 1
LIMBS = 136  # products below 2**2048, and 2**62 of them
FRACTION = (1 << 52) - 1
TOP_FIELD = 0x7FF  # the exponent field of infinities and NaNs
# Exponent fields fa and fb of the factors give a product whose last place is worth 2**(fa + fb - 2 - BASE).
# A plain term counts as a product with a factor of this field.
PLAIN_FIELD = 1075
# What was seen among the terms; OTHER: anything but +0.
SAW_NAN, SAW_PLUS, SAW_MINUS, SAW_OTHER, SAW_INVALID = 1, 2, 4, 8, 16


@jit
def deposit(limbs, word, position):
    """Add word * 2**(position - BASE), |word| < 2**62, as three digits of the word's sign."""
    negative = word < 0
    magnitude = -word if negative else word
    first, shift = position // LIMB, position % LIMB
    low = (magnitude & LIMB_MASK) << shift
    high = (magnitude >> LIMB) << shift
    digits = low & LIMB_MASK, (low >> LIMB) + (high & LIMB_MASK), high >> LIMB
    for i in range(3):
        limbs[first + i] += -digits[i] if negative else digits[i]


@jit
def carry(limbs):
    """Make every limb but the last a digit in [0, 2**32); due after 2**28 deposits at the latest."""
    over = 0
    for i in range(LIMBS - 1):
        total = limbs[i] + over
        limbs[i] = total & LIMB_MASK
        over = total >> LIMB
    limbs[LIMBS - 1] += over


@jit(inline=True)
def field_of(a):
    """The exponent field that gives the last place; subnormal numbers have that of the smallest normal ones."""
    return max((a >> 52) & TOP_FIELD, 1)


@jit(inline=True)
def significand_of(a):
    hidden = (((a >> 52) & TOP_FIELD) != 0) << 52
    return (a & FRACTION) | hidden


@jit(inline=True)
def term_words(a):
    """Words w with w[0] + w[1] * 2**32 = the signed significand."""
    sign = a >> 63
    m = significand_of(a)
    return ((m & LIMB_MASK) ^ sign) - sign, ((m >> LIMB) ^ sign) - sign


@jit(inline=True)
def product_words(a, b):
    """Words w with w[0] + w[1] * 2**32 + w[2] * 2**64 = the signed product of the significands; |w[2]| < 2**43."""
    sign = (a ^ b) >> 63
    u, v = significand_of(a), significand_of(b)
    u0, u1, v0, v1 = u & LIMB_MASK, u >> LIMB, v & LIMB_MASK, v >> LIMB
    last = u0 * v0  # 64 bits: its sign bit is a digit
    middle = u1 * v0 + u0 * v1
    w0 = last & LIMB_MASK
    w1 = ((last >> LIMB) & LIMB_MASK) + (middle & LIMB_MASK)
    w2 = (middle >> LIMB) + u1 * v1
    return (w0 ^ sign) - sign, (w1 ^ sign) - sign, (w2 ^ sign) - sign


@jit
def seen_in(kind, negative, raised):
    """What a term of this class counts as."""
    if kind >= QUIET_CLASS:
        invalid = kind == SIGNALING_CLASS or raised != 0
        return SAW_NAN | SAW_OTHER | (SAW_INVALID if invalid else 0)
    if kind == INFINITE_CLASS:
        return SAW_OTHER | (SAW_MINUS if negative else SAW_PLUS)
    return 0 if kind == ZERO_CLASS and not negative else SAW_OTHER


@jit
def seen_in_term(a):
    kind, negative, _, _ = unpack(a, 52, 11)
    return seen_in(kind, negative, 0)


@jit
def seen_in_product(a, b):
    ca, na, ea, ha = unpack(a, 52, 11)
    cb, nb, eb, hb = unpack(b, 52, 11)
    kind, negative, _, _, _, raised = multiply_parts(ca, na, ea, ha, cb, nb, eb, hb)
    return seen_in(kind, negative, raised)


@jit
def window(limbs, position):
    """62 bits of the settled non-negative number from this bit on; bits below the first are zeros."""
    first, shift = position // LIMB, position % LIMB
    bits = 0
    for i in range(3):
        digit = limbs[first + i] if 0 <= first + i < LIMBS else 0
        place = LIMB * i - shift
        if place < 0:
            bits |= digit >> -place
        elif place < WORD:
            bits |= (digit & ((1 << (WORD - place)) - 1)) << place
    return bits


@jit
def parts_of_sum(limbs, seen, mode):
    """The sum as (class, negative, exponent, high, low, flags), as softfloat.rounding takes it apart.

    The limbs are settled, and left as those of the magnitude.
    """
    if seen & SAW_NAN or (seen & SAW_PLUS and seen & SAW_MINUS):
        both = seen & SAW_NAN == 0
        return QUIET_CLASS, False, 0, 0, 0, INVALID if both or seen & SAW_INVALID else 0
    if seen & (SAW_PLUS | SAW_MINUS):
        return INFINITE_CLASS, seen & SAW_MINUS != 0, 0, 0, 0, 0
    negative = limbs[LIMBS - 1] < 0
    if negative:
        for i in range(LIMBS):
            limbs[i] = -limbs[i]
        carry(limbs)
    top = LIMBS - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        # +0 + t is +0 for a zero t of either sign, but -0 toward negative unless t is +0 too.
        return ZERO_CLASS, mode == NEGATIVE and seen & SAW_OTHER != 0, 0, 0, 0, 0
    leading = LIMB * top + bit_length(limbs[top]) - 1
    high = window(limbs, leading - (WORD - 1))
    lowest = leading - (2 * WORD - 1)
    low = window(limbs, lowest)
    if lowest > 0:
        rest = limbs[lowest // LIMB] & ((1 << (lowest % LIMB)) - 1)
        for i in range(lowest // LIMB):
            rest |= limbs[i]
        low |= rest != 0
    return FINITE_CLASS, negative, leading - BASE, high, low, 0
