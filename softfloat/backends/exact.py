"""Loops that apply the definition: exact operation in integers, one rounding, flags counted. Any format, any input.

Slower than the fast forms by one to two orders of magnitude; they take over outside the domains of those, and are what
those are tested against.
"""

import functools

from softfloat._jit import both, jit
from softfloat.bits import i64, u64
from softfloat.codec import to_carrier, to_code, unpack
from softfloat.fixed_point import FIXED
from softfloat.format import (
    FLAGS,
    INFINITY_CODE,
    MAGNITUDE_BITS,
    MAX_CODE,
    NAN_EXISTS,
    NEGATIVE_ZERO,
    SIGNED,
)
from softfloat.ops.arithmetic import (
    add_parts,
    divide_parts,
    fma_parts,
    multiply_parts,
    normalise,
    remainder_parts,
    sqrt_parts,
)
from softfloat.ops.convert import integral_parts, round_any, scaled_parts, to_twos_complement
from softfloat.random import WORD_BITS, element_word
from softfloat.rounding import (
    EQUAL,
    FINITE_CLASS,
    INVALID,
    NAN,
    NO_RESULT,
    SIGNALING_CLASS,
    STOCHASTIC,
)

CONVERT, ADD, SUBTRACT, MULTIPLY, DIVIDE, SQRT, FMA, REMAINDER, INTEGRAL, SCALE = range(10)
OPERATIONS = {
    "convert": CONVERT,
    "add": ADD,
    "subtract": SUBTRACT,
    "multiply": MULTIPLY,
    "divide": DIVIDE,
    "sqrt": SQRT,
    "fma": FMA,
    "remainder": REMAINDER,
    "round_to_integral": INTEGRAL,
    "scalbn": SCALE,
}
# Entries of `choice`: mode, saturation, random bits, variant, global index of element 0.
MODE, SATURATE, RANDOM_BITS, VARIANT, OFFSET = range(5)
COUNTED = 6  # flags, TINY_BEFORE the last


@both
def exponent_width(mantissa):
    """The exponent field of the carrier with this significand field."""
    return 8 if mantissa == 23 else 11


@both
def chosen_word(choice, key, words, i):
    """The random integer of element i of this call: a given one, or the top bits of its counter-based word."""
    if choice[MODE] != STOCHASTIC and choice[MODE] != EQUAL:
        return 0
    if words.size > 0:
        return words[i]
    return element_word(u64(key), choice[OFFSET] + i) >> (WORD_BITS - choice[RANDOM_BITS])


@both
def store(out, i, mantissa, negative, code, F):
    """Write a result as carrier bits, or as a code where mantissa is 0."""
    if mantissa == 0 and (F[FLAGS] & FIXED) != 0:
        out[i] = to_twos_complement(negative, code, F)
    elif mantissa == 0:
        out[i] = to_code(negative, code, F)
    else:
        out[i] = to_carrier(negative, code, F, mantissa, exponent_width(mantissa))


@both
def count_flags(flags, counts):
    """Add the raised flags of one element to the six counters."""
    for j in range(COUNTED):
        counts[j] += (flags >> j) & 1


@functools.cache
def exact_loop(operation):
    """The compiled loop of one operation.

    run(a, b, c, ma, mb, mc, out, mo, F, choice, key, words, counts) -> index of the first element that has no result
    in the format, or -1. a, b, c and out hold the bits of float32 or float64 numbers as int32 or int64 (b: the power,
    for "scalbn"); ma, mb, mc, mo are their significand fields, 23 or 52, and mo = 0 asks for codes. counts[j] grows by
    one for each element that raises flag j.
    """
    op = OPERATIONS[operation]

    @jit
    def run(a, b, c, ma, mb, mc, out, mo, F, choice, key, words, counts):
        mode = choice[MODE]
        bits = choice[RANDOM_BITS]
        variant = choice[VARIANT]
        missing = -1
        for i in range(a.size):
            word = i64(chosen_word(choice, key, words, i))
            ca, na, ea, ha = unpack(i64(a[i]), ma, exponent_width(ma))
            if op in (ADD, SUBTRACT, MULTIPLY, DIVIDE, FMA, REMAINDER):
                cb, nb, eb, hb = unpack(i64(b[i]), mb, exponent_width(mb))
            if op == CONVERT:
                kind, negative, exponent, high, low = ca, na, ea, ha, 0
                raised = INVALID if ca == SIGNALING_CLASS else 0
            if op == ADD:
                kind, negative, exponent, high, low, raised = add_parts(
                    ca, na, ea, ha, cb, nb, eb, hb, mode
                )
            if op == SUBTRACT:
                kind, negative, exponent, high, low, raised = add_parts(
                    ca, na, ea, ha, cb, not nb, eb, hb, mode
                )
            if op == MULTIPLY:
                kind, negative, exponent, high, low, raised = multiply_parts(
                    ca, na, ea, ha, cb, nb, eb, hb
                )
            if op == DIVIDE:
                kind, negative, exponent, high, low, raised = divide_parts(
                    ca, na, ea, ha, cb, nb, eb, hb
                )
            if op == SQRT:
                kind, negative, exponent, high, low, raised = sqrt_parts(ca, na, ea, ha)
            if op == FMA:
                cc, nc, ec, hc = unpack(i64(c[i]), mc, exponent_width(mc))
                kind, negative, exponent, high, low, raised = fma_parts(
                    ca, na, ea, ha, cb, nb, eb, hb, cc, nc, ec, hc, mode
                )
            if op == REMAINDER:
                kind, negative, exponent, high, low, raised = remainder_parts(
                    ca, na, ea, ha, cb, nb, eb, hb
                )
            if op == INTEGRAL:
                kind, negative, exponent, high, low, raised = integral_parts(
                    ca, na, ea, ha, mode, word, bits, variant
                )
            if op == SCALE:
                kind, negative, exponent, high, low, raised = scaled_parts(
                    ca, na, ea, ha, i64(b[i])
                )
            code, negative, flags = round_any(
                kind, negative, exponent, high, low, raised,
                F, mode, choice[SATURATE], word, bits, variant,
            )  # fmt: skip
            if missing < 0 and (
                code == NO_RESULT or (mo == 0 and code == NAN and F[NAN_EXISTS] == 0)
            ):
                missing = i
            store(out, i, mo, negative, code, F)
            count_flags(flags, counts)
        return missing

    return run


@functools.cache
def parts_loop():
    """As `exact_loop("convert")`, from numbers that are already taken apart.

    `high` and `low` need not be normalised.

    run(kinds, negatives, exponents, highs, lows, raised, out, mo, F, choice, key, words, counts); raised holds the
    flags of the operation that gave the numbers.
    """

    @jit
    def run(
        kinds, negatives, exponents, highs, lows, raised, out, mo, F, choice, key, words, counts
    ):
        missing = -1
        for i in range(kinds.size):
            word = i64(chosen_word(choice, key, words, i))
            negative = negatives[i] != 0
            high, low, exponent = i64(highs[i]), i64(lows[i]), i64(exponents[i])
            if kinds[i] == FINITE_CLASS:
                high, low, places = normalise(high, low)
                exponent -= places
            code, negative, flags = round_any(
                kinds[i], negative, exponent, high, low, raised[i],
                F, choice[MODE], choice[SATURATE], word, choice[RANDOM_BITS], choice[VARIANT],
            )  # fmt: skip
            if missing < 0 and (
                code == NO_RESULT or (mo == 0 and code == NAN and F[NAN_EXISTS] == 0)
            ):
                missing = i
            store(out, i, mo, negative, code, F)
            count_flags(flags, counts)
        return missing

    return run


@both
def decoded(code, F, mo, quiet_bit):
    """The carrier bits, as a signed integer, of a code in range; NaN codes keep whether they signal.

    mo : significand field of the carrier.   quiet_bit : of the format's NaN codes, or 0 where every NaN is quiet.
    """
    width = F[MAGNITUDE_BITS]
    me = exponent_width(mo)
    infinity = ((1 << me) - 1) << mo
    magnitude = code & ((1 << width) - 1)
    negative = (F[FLAGS] & SIGNED) != 0 and ((code >> width) & 1) == 1
    if (F[FLAGS] & FIXED) != 0:
        return to_carrier(negative, (1 << width) - magnitude if negative else magnitude, F, mo, me)
    special = magnitude > F[MAX_CODE] and magnitude != F[INFINITY_CODE]
    if special or (negative and magnitude == 0 and (F[FLAGS] & NEGATIVE_ZERO) == 0):
        # The top bit of a carrier's NaN field says quiet; signaling needs another bit set.
        signals = quiet_bit != 0 and (magnitude & quiet_bit) == 0
        bits = infinity | (1 if signals else 1 << (mo - 1))
        return bits | -(1 << (mo + me)) if negative and magnitude != 0 else bits
    return to_carrier(negative, magnitude, F, mo, me)


@functools.cache
def decode_loop():
    """run(codes, out, mo, F, quiet_bit): the carrier bits of codes held as int64; arguments as for `decoded`."""

    @jit
    def run(codes, out, mo, F, quiet_bit):
        for i in range(codes.size):
            out[i] = decoded(codes[i], F, mo, quiet_bit)

    return run
