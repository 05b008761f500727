"""Loops over the elementary functions: evaluate, see whether the known bits decide the rounding, round once."""

import functools

import numpy as np

from softfloat._jit import both, jit
from softfloat.backends.exact import (
    MODE,
    RANDOM_BITS,
    SATURATE,
    VARIANT,
    chosen_word,
    count_flags,
    exponent_width,
    store,
)
from softfloat.bits import (
    UNKNOWN,
    add,
    enter_standard_arithmetic,
    i64,
    leave_standard_arithmetic,
    one_like,
    sub,
    to_bits,
    to_float,
)
from softfloat.codec import unpack
from softfloat.fixed_point import FIXED, WRAPS
from softfloat.format import EMIN, FLAGS, MANTISSA_BITS, NAN_EXISTS
from softfloat.ops.convert import round_any
from softfloat.ops.elementary.binary import BINARY
from softfloat.ops.elementary.functions import UNARY
from softfloat.ops.elementary.pairs import BINARY_PAIRS, UNARY_PAIRS
from softfloat.ops.elementary.quick import BINARY_QUICK, NONE, UNARY_QUICK
from softfloat.ops.elementary.results import DECIDED
from softfloat.ops.error_free import to_odd
from softfloat.rounding import (
    AWAY,
    EVEN,
    FINITE_CLASS,
    NAN,
    NEGATIVE,
    NO_RESULT,
    ODD,
    POSITIVE,
    STOCHASTIC,
    WORD,
)

COLUMNS = 7
LOOSEST = 2.0**-20  # relative error from which a quick result is not worth rounding
BEYOND = 1 << 20  # exponents beyond every format: no bit of the significand matters


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


@both
def put(columns, i, result):
    """Write a result into column i."""
    kind, negative, exponent, high, low, raised, known = result
    columns[0, i], columns[1, i], columns[2, i] = kind, negative, exponent
    columns[3, i], columns[4, i], columns[5, i], columns[6, i] = high, low, raised, known


@functools.cache
def evaluation_loop(name):
    """The compiled loop of one function: run(a, ma, columns), or run(a, ma, b, mb, columns) where it has two operands.

    a, b : bits of float32 or float64 numbers as int64, ma and mb their significand fields.  columns : (7, n) int64
    array for class, negative, exponent, high, low, flags and known bits of the results.
    """
    if name in UNARY:
        return _unary_loop(jit(UNARY[name]))
    return _binary_loop(jit(BINARY[name]))


def _unary_loop(evaluate):
    @jit
    def run(a, ma, columns):
        for i in range(a.size):
            put(columns, i, evaluate(*unpack(a[i], ma, exponent_width(ma))))

    return run


def _binary_loop(evaluate):
    @jit
    def run(a, ma, b, mb, columns):
        for i in range(a.size):
            first = unpack(a[i], ma, exponent_width(ma))
            put(columns, i, evaluate(*first, *unpack(b[i], mb, exponent_width(mb))))

    return run


@jit
def round_columns(columns, out, mo, F, choice, key, words, counts, undecided):
    """Round results and store them: (index of the first without a value in the format or -1, how many are undecided).

    The indices of undecided ones are in `undecided`; for them nothing is stored or counted. Other arguments as for
    `exact_loop`.
    """
    missing = -1
    found = 0
    mode = choice[MODE]
    bits = choice[RANDOM_BITS]
    for i in range(out.size):
        word = i64(chosen_word(choice, key, words, i))
        kind, negative, exponent = columns[0, i], columns[1, i] != 0, columns[2, i]
        high, low, raised, known = columns[3, i], columns[4, i], columns[5, i], columns[6, i]
        if kind == FINITE_CLASS:
            if is_undecided(exponent, high, low, known, needed_bits(exponent, F, mode, bits)):
                undecided[found] = i
                found += 1
                continue
            if known != DECIDED:
                low = low | 1
        code, negative, flags = round_any(
            kind, negative, exponent, high, low, raised,
            F, mode, choice[SATURATE], word, bits, choice[VARIANT],
        )  # fmt: skip
        if missing < 0 and (code == NO_RESULT or (mo == 0 and code == NAN and F[NAN_EXISTS] == 0)):
            missing = i
        store(out, i, mo, negative, code, F)
        count_flags(flags, counts)
    return missing, found


# ---------------------------------------------------------------- the quick way
@functools.cache
def bounds_loop(name):
    """The compiled loop of a function in float64: run(a, low, high), or run(a, b, low, high) with two operands.

    low and high enclose each result as far as roundings to at most 48 bits can tell; both are NaN where another method
    is to be taken. False where the processor's arithmetic is not known to be standard.
    """
    if name in UNARY_QUICK:
        return _unary_bounds(UNARY_QUICK[name])
    return _binary_bounds(BINARY_QUICK[name])


@jit(inline=True)
def enclose(y, e):
    d = abs(y) * (e if e < LOOSEST else NONE)
    return y - d, y + d


def _unary_bounds(quick):
    @jit
    def run(a, low, high):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(a.size):
            y, e = quick(np.float64(a[i]))
            low[i], high[i] = enclose(y, e)
        leave_standard_arithmetic(former)
        return True

    return run


def _binary_bounds(quick):
    @jit
    def run(a, b, low, high):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(a.size):
            y, e = quick(np.float64(a[i]), np.float64(b[i]))
            low[i], high[i] = enclose(y, e)
        leave_standard_arithmetic(former)
        return True

    return run


PAIRS = UNARY_PAIRS | BINARY_PAIRS


@jit(inline=True)
def settle(z, error, mode):
    """z + error rounded to a float64 in a mode; z is their sum to nearest, or next to that, and normal; or NaN."""
    u = to_bits(z)
    longer = ((error > 0) & (z > 0)) | ((error < 0) & (z < 0))
    shorter = ((error < 0) & (z > 0)) | ((error > 0) & (z < 0))
    down = sub(u, one_like(u)) if shorter else u  # the magnitude cut
    up = add(u, one_like(u)) if longer else u
    if mode == EVEN or mode == AWAY:  # never half-way: both neighbours are asked for
        return z + error
    if mode == ODD:
        return to_odd(z, error)
    outward = (mode == POSITIVE and z > 0) or (mode == NEGATIVE and z < 0)
    return to_float(up if outward else down)


@jit(inline=True)
def enclose_pair(high, low, e, mode):
    z = high + low
    rest = (high - z) + low
    d = abs(z) * e
    known = (e < LOOSEST) & (abs(rest) + d < np.inf)
    z = z if known else NONE
    return settle(z, rest - d, mode), settle(z, rest + d, mode)


@functools.cache
def pair_bounds_loop(name):
    """`bounds_loop` by pairs of float64: run(a, low, high, mode), or run(a, b, low, high, mode) with two operands.

    low and high are the ends of the interval that holds the result, rounded to float64 in the mode. Of a rounding to
    odd, further roundings to at most 51 bits, random ones included, see what they would see of the results.
    """
    pair = PAIRS[name]

    @jit
    def unary(a, low, high, mode):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(a.size):
            y, rest, e = pair(np.float64(a[i]))
            low[i], high[i] = enclose_pair(y, rest, e, mode)
        leave_standard_arithmetic(former)
        return True

    @jit
    def binary(a, b, low, high, mode):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        for i in range(a.size):
            y, rest, e = pair(np.float64(a[i]), np.float64(b[i]))
            low[i], high[i] = enclose_pair(y, rest, e, mode)
        leave_standard_arithmetic(former)
        return True

    return binary if name in BINARY_PAIRS else unary


@jit
def keep_equal(low, high, out, undecided):
    """Store the roundings of both bounds where they agree; how many do not, or are NaN, their indices in `undecided`.

    -1 where the processor's arithmetic is not known to be standard.
    """
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return -1
    open_ones = 0
    for i in range(out.size):
        out[i] = low[i]
        differ = (to_bits(low[i]) != to_bits(high[i])) | (low[i] != low[i])
        open_ones += differ
    found = 0
    if open_ones > 0:
        for i in range(out.size):
            if (to_bits(low[i]) != to_bits(high[i])) | (low[i] != low[i]):
                undecided[found] = i
                found += 1
    leave_standard_arithmetic(former)
    return found
