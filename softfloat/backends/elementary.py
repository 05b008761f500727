"""Loops over the elementary functions: evaluate, see whether the known bits decide the rounding, round once."""

import functools

from softfloat._jit import both, jit
from softfloat.backends.exact import MODE, RANDOM_BITS, SATURATE, VARIANT
from softfloat.backends.exact import chosen_word, count_flags, exponent_width, store
from softfloat.bits import i64
from softfloat.codec import unpack
from softfloat.fixed_point import FIXED, WRAPS
from softfloat.format import EMIN, FLAGS, MANTISSA_BITS, NAN_EXISTS
from softfloat.ops.convert import round_any
from softfloat.ops.elementary.binary import BINARY
from softfloat.ops.elementary.functions import DECIDED, UNARY
from softfloat.rounding import FINITE_CLASS, NAN, NO_RESULT, STOCHASTIC, WORD

BEYOND = 1 << 20  # exponents from here on are beyond every format: no bit of the significand matters


@both
def needed_bits(exponent, F, mode, random_bits):
    """Leading bits of a result that a rounding looks at one by one; of the others it sees whether any is set."""
    extra = random_bits + 1 if mode >= STOCHASTIC else 1
    if (F[FLAGS] & FIXED) == 0:
        return F[MANTISSA_BITS] + 1 + extra
    top = exponent + F[MANTISSA_BITS] - F[EMIN]  # the exponent in units of the last place
    if top >= WORD and (F[FLAGS] & WRAPS) == 0:
        return 1
    return max(top + 1, 0) + extra


@both
def ones(count):
    """That many set bits, at most a word of them."""
    return (1 << min(max(count, 0), WORD)) - 1


@both
def is_undecided(exponent, high, low, known, needed):
    """Whether an error beyond the first `known` bits can reach those needed: all between are alike."""
    if known == DECIDED or abs(exponent) >= BEYOND:
        return False
    if known <= needed:
        return True
    top = 2 * WORD - needed
    bottom = 2 * WORD - known
    upper_mask = ones(top - WORD) - ones(bottom - WORD)
    lower_mask = ones(top) - ones(bottom)
    upper = high & upper_mask
    lower = low & lower_mask
    return (upper == 0 and lower == 0) or (upper == upper_mask and lower == lower_mask)


@both(inline=False)
def deliver(
    kind, negative, exponent, high, low, raised, known, i, out, mo, F, choice, word, counts
):
    """Round and store one result: 0, or 1 where it has no value in the format, or 2 where its bits do not decide."""
    if kind == FINITE_CLASS:
        needed = needed_bits(exponent, F, choice[MODE], choice[RANDOM_BITS])
        if is_undecided(exponent, high, low, known, needed):
            return 2
        if known != DECIDED:
            low = low | 1
    code, negative, flags = round_any(
        kind, negative, exponent, high, low, raised,
        F, choice[MODE], choice[SATURATE], word, choice[RANDOM_BITS], choice[VARIANT],
    )  # fmt: skip
    store(out, i, mo, negative, code, F)
    count_flags(flags, counts)
    return 1 if code == NO_RESULT or (mo == 0 and code == NAN and F[NAN_EXISTS] == 0) else 0


@functools.cache
def unary_loop(name):
    """The compiled loop of one function of one operand.

    run(a, ma, out, mo, F, choice, key, words, counts, undecided) -> (index of the first element without a result in
    the format or -1, how many elements are undecided); their indices are in `undecided`, and nothing is stored or
    counted for them. The other arguments are those of `exact_loop`.
    """
    evaluate = jit(UNARY[name])

    @jit
    def run(a, ma, out, mo, F, choice, key, words, counts, undecided):
        missing = -1
        found = 0
        for i in range(a.size):
            word = i64(chosen_word(choice, key, words, i))
            ca, na, ea, ha = unpack(i64(a[i]), ma, exponent_width(ma))
            kind, negative, exponent, high, low, raised, known = evaluate(ca, na, ea, ha)
            state = deliver(
                kind, negative, exponent, high, low, raised, known,
                i, out, mo, F, choice, word, counts,
            )  # fmt: skip
            if state == 1 and missing < 0:
                missing = i
            if state == 2:
                undecided[found] = i
                found += 1
        return missing, found

    return run


@functools.cache
def binary_loop(name):
    """As `unary_loop`, of two operands: run(a, ma, b, mb, out, ...)."""
    evaluate = jit(BINARY[name])

    @jit
    def run(a, ma, b, mb, out, mo, F, choice, key, words, counts, undecided):
        missing = -1
        found = 0
        for i in range(a.size):
            word = i64(chosen_word(choice, key, words, i))
            ca, na, ea, ha = unpack(i64(a[i]), ma, exponent_width(ma))
            cb, nb, eb, hb = unpack(i64(b[i]), mb, exponent_width(mb))
            kind, negative, exponent, high, low, raised, known = evaluate(
                ca, na, ea, ha, cb, nb, eb, hb
            )
            state = deliver(
                kind, negative, exponent, high, low, raised, known,
                i, out, mo, F, choice, word, counts,
            )  # fmt: skip
            if state == 1 and missing < 0:
                missing = i
            if state == 2:
                undecided[found] = i
                found += 1
        return missing, found

    return run
