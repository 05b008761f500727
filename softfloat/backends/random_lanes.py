"""Sums, differences and products of float32 numbers, exact, rounded stochastically in float32 lanes.

The exact result is z + e: z the nearest float32, and e its error, a float32 too (Dekker 1971). With G the step of the
format's grid at |z + e| and w a word of k <= 24 bits, the definition rounds up where the part above the grid point
below, r + e with r a float32, is at least t = (2**k - w) * 2**-k * G. The float32 difference r - t decides that. Either
t is a multiple of a unit no larger than the ulp of z, and r - t, at most 2**24 such units, is exact. Or both are
multiples of that ulp: then a difference other than zero is more than |e|.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import (
    ADD,
    FAST_OPERATIONS,
    MULTIPLY,
    REDO_BLOCK,
    SMALL32,
    WORD_BLOCK,
    fill_words,
)
from softfloat.bits import (
    UNKNOWN,
    binade,
    enter_standard_arithmetic,
    fma,
    infinity_like,
    is_negative,
    leave_standard_arithmetic,
    magnitude,
    one_like,
    shr,
    sub,
    to_bits,
    to_float,
    umax,
    umin,
    unsigned_to_float,
    zero_like,
)
from softfloat.fast import (
    BARE,
    CLAMPED,
    FULL,
    OWN_INFINITY,
    SCALED,
    fast_constants,
    finish_form,
    load_constants,
)
from softfloat.ops.error_free import multiply_with_error, two_sum
from softfloat.rounding import STOCHASTIC

OPERATIONS = ("add", "subtract", "multiply")
WORD_LIMIT, PRECISION_LIMIT = (
    24,
    21,
)  # bits of a word, and of a significand's field, for the argument above
# Between these, a format with the exponents of float32 leaves room for G * 2**-k, and for the power that rounds.
LOW, HIGH = 2.0**-96, 2.0**96


class RandomLanes:
    """The loop and the constants of one operation and format. form : (kind, mode, rule) as `fast_form` gives it."""

    def __init__(self, operation, form, fmt, choice):
        kind, mode, rule = form
        carrier = np.dtype(np.float32)
        self.constants = fast_constants(SCALED, fmt, carrier, mode, choice.saturate, choice.bits)
        self.run = random_lanes_loop(operation, kind, rule)

    @staticmethod
    def fit(operation, form, fmt, choice):
        """Whether there is a loop: of all that rounds at random, for formats whose grid is scaled."""
        if form is None or operation not in OPERATIONS:
            return False
        kind, mode, _ = form
        short = fmt.mantissa_bits <= PRECISION_LIMIT and choice.bits <= WORD_LIMIT
        return kind in (SCALED, FULL) and mode == STOCHASTIC and short


@functools.cache
def random_pair_form(kind, rule):
    """round(z, e, p, word): z + e, rounded. Infinities and NaNs are seen to by the caller."""
    finish = finish_form((rule | BARE) & ~(CLAMPED | OWN_INFINITY))
    full = int(kind == FULL)

    @jit(inline=True)
    def round_pair(z, e, p, word):
        emin, spread, _, step, _, largest, overflow = p[:7]
        top, word_shift, words, word_step = p[10], p[15], p[18], p[19]
        if full == 1:
            emin = np.float32(LOW)
        u = to_bits(z)
        a = to_float(magnitude(u))
        e = -e if is_negative(u) else e
        short = e < to_float(zero_like(u))
        E = to_float(binade(sub(u, one_like(u)) if short else u))  # a power of two ends its binade
        E = E if E > emin else emin
        E = top if E > top else E
        y = fma(-E, spread, fma(E, spread, a))
        below = fma(-E, step, y) if (y > a) | ((y == a) & short) else y
        steps = words - unsigned_to_float(shr(word, word_shift))
        up = (a - below) - steps * (E * word_step) >= -e
        y = fma(E, step, below) if up else below
        return finish(z, overflow if y > largest else y, p)

    return round_pair


@functools.cache
def random_lanes_loop(operation, kind, rule):
    """run(a, b, out, P, redo, key, offset): an operation on flat float32 arrays, as `arithmetic_loop`.

    redo[j] is set for each REDO_BLOCK elements that hold something outside the domain; what out holds there is void.
    Returns False, having done nothing, as the other loops do. out shares no memory with the operands.
    """
    op = FAST_OPERATIONS[operation]
    round_pair = random_pair_form(kind, rule)
    full = int(kind == FULL)

    @jit
    def run(a, b, out, P, redo, key, offset):
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        p = load_constants(P)
        one = one_like(P[0])
        infinity = infinity_like(one)
        low = to_bits(np.float32(LOW)) if full == 1 else zero_like(one)
        high = to_bits(np.float32(HIGH)) if full == 1 else infinity
        small = to_bits(np.float32(SMALL32))
        words = np.empty(WORD_BLOCK + 1, np.uint64)
        half = words.view(np.uint32)[offset & 1 :]
        for j in range(redo.size):
            highest = zero_like(one)
            lowest = infinity
            factor = infinity
            stop = min((j + 1) * REDO_BLOCK, out.size)
            for start in range(j * REDO_BLOCK, stop, 2 * WORD_BLOCK):
                fill_words(words, key, (offset + start) >> 1)
                target = out[start : start + 2 * WORD_BLOCK]
                xs = a[start : start + 2 * WORD_BLOCK]
                ys = b[start : start + 2 * WORD_BLOCK]
                for i in range(target.size):
                    if op == MULTIPLY:
                        z, e = multiply_with_error(xs[i], ys[i])
                        # A zero is harmless: less one, it is the largest integer.
                        factor = umin(factor, sub(magnitude(to_bits(xs[i])), one))
                        factor = umin(factor, sub(magnitude(to_bits(ys[i])), one))
                    else:
                        z, e = two_sum(xs[i], ys[i] if op == ADD else -ys[i])
                    highest = umax(highest, magnitude(to_bits(z)))
                    lowest = umin(lowest, sub(magnitude(to_bits(z)), one))
                    target[i] = round_pair(z, e, p, half[i])
            redo[j] = (highest >= high) | (lowest < low) | (factor < small)
        leave_standard_arithmetic(former)
        return True

    return run
