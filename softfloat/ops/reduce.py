"""Sums and products of many terms, every operation rounded: the definitions, one term after the other.

All numbers are the bits of float64 values, as signed integers. Term i of a sum is x[i]; of an inner product
a[i] * b[i], which is rounded to the product format or, where that is None, added unrounded (a fused multiply-add).
The running sum lives in the accumulator format. What the orders mean:

sequential : s = start; s = s + t[i] for i = 0, 1, ...
pairwise : n terms are split at the largest power of two below n, down to single terms; a single term is +0 + t[i].
lanes : term i goes to lane i mod 64; each lane is sequential and starts at +0; the 64 lanes are combined pairwise.
blocked : consecutive blocks of `block` terms are sequential, each from +0, in the accumulator; their sums are added
    sequentially, from `start`, in the outer format.
kahan : y = t[i] + e; z = s + y; e = (s - z) + y; s = z (Higham 2002, algorithm 4.2).
neumaier : z = s + t[i]; e = e + ((s - z) + t[i] if |s| >= |t[i]| else (t[i] - z) + s); s = z; in the end s + e.

`start` is +0 or what the caller gives. Pairwise and lanes add a given start to their total: start + total.

Random words: an output element has a key of its own, word number `index` (its place in the result, in C order) of
the key of (seed, stream). Its operations are numbered 8 * i + place: i is the term (for a sum of two partial sums:
the first term of the right one; for a sum of lanes: the right one's first lane) and place says which operation. So a
word depends on what is computed, never on when or where.

The two roundings of a multiply-add (of the product of term k, and of its addition in a sequential run of terms) share
one 32-bit word y = R * C modulo 2**32 instead: R is the odd word k of the key of the row, C that of the column; rows
and columns count through the whole result, batches included: index // N and index % N for results of N columns. With
`random_bits` k <= 16 the product takes the top k bits of y and the sum the next k. (Words of a rectangle i, i' by
j, j' are related by a product of integers only, which no sum of bits shows.) With more bits, a 64-bit mix of both keys
takes the place of y; the product has the top k bits of its high half, the sum those of the low half.

A reduction may stop after any term and go on later: `begin`, `advance` and `end` keep what is under way in an array.

An operation without a result (a negative number where there is neither a sign nor a NaN, an infinity to be wrapped)
gives a NaN, and leaves a note in its rounding's MISSING; `outcome` makes of that what stands for the whole element.

Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), ch. 4.
"""

import numpy as np

from softfloat import bits
from softfloat._jit import jit
from softfloat.bits import i64, shr, u64, xor
from softfloat.codec import to_carrier, unpack
from softfloat.ops.arithmetic import (
    add_parts,
    divide_parts,
    exact_product,
    fma_parts,
    multiply_parts,
    sqrt_parts,
)
from softfloat.ops.convert import round_any
from softfloat.random import FIRST, GOLDEN, SECOND, WORD_BITS, element_word, key_word, mix
from softfloat.rounding import (
    FINITE_CLASS,
    INFINITE_CLASS,
    INVALID,
    NO_RESULT,
    SIGNALING_CLASS,
    STOCHASTIC,
    ZERO_CLASS,
)

SEQUENTIAL, PAIRWISE, LANES, BLOCKED, KAHAN, NEUMAIER = range(6)
ORDERS = {
    "sequential": SEQUENTIAL,
    "pairwise": PAIRWISE,
    "lanes": LANES,
    "blocked": BLOCKED,
    "kahan": KAHAN,
    "neumaier": NEUMAIER,
}
# What a term is: x[i]; a[i] * b[i] rounded; a[i] * b[i] exact; a factor of a product of all terms.
PLAIN, ROUNDED, EXACT, FACTOR = range(4)
# Entries of the formats and of the roundings that a reduction works with.
TO_PRODUCT, TO_ACCUMULATOR, TO_OUTER, TO_RESULT = range(4)
STAGES = 4
# Entries of one rounding: mode, saturation, random bits, variant, whether an operation had no result; and, in a status
# block alone, from TALLY on, how many operations raised each flag.
MODE, SATURATE, RANDOM_BITS, VARIANT, MISSING, TALLY = range(6)
# An element of which an operation of stage s had no result: the bits NO_VALUE + s, a NaN that nothing else here gives.
NO_VALUE = (0xFFF << 51) + 1
# Places of the operations of a term, and how many there may be.
AT_PRODUCT, AT_TERM, AT_MERGE, AT_THIRD, AT_FOURTH, AT_OUTER, AT_TOTAL, AT_RESULT = range(8)
PLACES = 8
LANE_COUNT = 64
ELEMENT, ROW, COLUMN = range(3)  # of the keys of an element
SHARED_BITS = 16  # random bits up to which product and sum share a word of 32
GOLDEN32 = 0x9E3779B1
FIRST32, SECOND32 = 0x85EBCA6B, 0xC2B2AE35  # of the finaliser of MurmurHash3
STATE = 64  # numbers under way: lanes, or levels of a tree
LEVELS = 62
ONE = 0x3FF << 52
SIGN = -(1 << 63)


@jit
def word_of(R, key, step):
    """The random integer of one operation of an element with this key; 0 where the mode needs none."""
    if R[MODE] < STOCHASTIC:
        return 0
    return i64(element_word(key[ELEMENT], step) >> u64(WORD_BITS - R[RANDOM_BITS]))


@jit
def line_key(key, line, index):
    """The key of a row or column."""
    return key_word(u64(u64(key) ^ u64(FIRST if line == ROW else SECOND)), u64(index))


@jit
def keys_of(key, index, columns):
    """The keys of the element of this index in a result of so many columns: its own, its row's, its column's."""
    row, column = index // columns, index % columns
    return key_word(u64(key), u64(index)), line_key(key, ROW, row), line_key(key, COLUMN, column)


@jit(inline=True)
def line_word(low, high, k):
    """The odd word k of a row or column whose key has these halves; all are uint32."""
    x = xor(bits.add(bits.mul(k, np.uint32(GOLDEN32)), low), high)
    x = bits.mul(xor(x, shr(x, np.uint32(16))), np.uint32(FIRST32))
    x = bits.mul(xor(x, shr(x, np.uint32(13))), np.uint32(SECOND32))
    return bits.or_(xor(x, shr(x, np.uint32(16))), np.uint32(1))


@jit
def word_of_line(key, k):
    return line_word(np.uint32(key), np.uint32(key >> u64(32)), np.uint32(k))


@jit
def term_word(R, key, k, place, kind):
    """The random integer of the product of term k or of its addition."""
    if kind == PLAIN or kind == FACTOR:
        return word_of(R, key, PLACES * k + place)
    if R[MODE] < STOCHASTIC:
        return 0
    count = R[RANDOM_BITS]
    skipped = 0 if place == AT_PRODUCT else 1
    if count <= SHARED_BITS:
        y = i64(bits.mul(word_of_line(key[ROW], k), word_of_line(key[COLUMN], k)))
        return (y >> (WORD_BITS - count * (1 + skipped))) & ((1 << count) - 1)
    y = mix(u64(mix(u64(key[ROW] + u64(k + 1) * u64(GOLDEN))) + key[COLUMN]))
    half = u64(y << u64(WORD_BITS * skipped)) >> u64(WORD_BITS)
    return i64(half >> u64(WORD_BITS - count))


@jit
def rounded(kind, negative, exponent, high, low, raised, F, R, word):
    """The bits of an exact result, of any class, rounded to a format."""
    code, negative, flags = round_any(
        kind, negative, exponent, high, low, raised,
        F, R[MODE], R[SATURATE], word, R[RANDOM_BITS], R[VARIANT],
    )  # fmt: skip
    if code == NO_RESULT:
        R[MISSING] = 1
    for j in range(TALLY, R.size):
        R[j] += (flags >> (j - TALLY)) & 1
    return i64(to_carrier(negative, code, F, 52, 11))


@jit
def outcome(s, R):
    """The bits s of an element, or those that say which stage had no result; the notes of that are taken away."""
    for stage in range(STAGES - 1, -1, -1):
        if R[stage][MISSING] != 0:
            s = i64(NO_VALUE + stage)
            R[stage][MISSING] = 0
    return s


@jit
def convert(a, F, R, word):
    ca, na, ea, ha = unpack(a, 52, 11)
    raised = INVALID if ca == SIGNALING_CLASS else 0
    return rounded(ca, na and ca <= INFINITE_CLASS, ea, ha, 0, raised, F, R, word)


@jit
def add(a, b, F, R, word):
    ca, na, ea, ha = unpack(a, 52, 11)
    cb, nb, eb, hb = unpack(b, 52, 11)
    kind, negative, exponent, high, low, raised = add_parts(ca, na, ea, ha, cb, nb, eb, hb, R[MODE])
    return rounded(kind, negative, exponent, high, low, raised, F, R, word)


@jit
def multiply(a, b, F, R, word):
    ca, na, ea, ha = unpack(a, 52, 11)
    cb, nb, eb, hb = unpack(b, 52, 11)
    kind, negative, exponent, high, low, raised = multiply_parts(ca, na, ea, ha, cb, nb, eb, hb)
    return rounded(kind, negative, exponent, high, low, raised, F, R, word)


@jit
def fma(a, b, c, F, R, word):
    ca, na, ea, ha = unpack(a, 52, 11)
    cb, nb, eb, hb = unpack(b, 52, 11)
    cc, nc, ec, hc = unpack(c, 52, 11)
    kind, negative, exponent, high, low, raised = fma_parts(
        ca, na, ea, ha, cb, nb, eb, hb, cc, nc, ec, hc, R[MODE]
    )
    return rounded(kind, negative, exponent, high, low, raised, F, R, word)


@jit
def divide_by_count(a, n, F, R, word):
    """a / n for a count n below 2**53."""
    ca, na, ea, ha = unpack(a, 52, 11)
    cb, nb, eb, hb = unpack(count_bits(n), 52, 11)
    kind, negative, exponent, high, low, raised = divide_parts(ca, na, ea, ha, cb, nb, eb, hb)
    return rounded(kind, negative, exponent, high, low, raised, F, R, word)


@jit
def sqrt(a, F, R, word):
    ca, na, ea, ha = unpack(a, 52, 11)
    kind, negative, exponent, high, low, raised = sqrt_parts(ca, na, ea, ha)
    return rounded(kind, negative, exponent, high, low, raised, F, R, word)


@jit
def count_bits(n):
    """The bits of a count below 2**53 as a float64."""
    if n == 0:
        return 0
    exponent = 0
    while n >> (exponent + 1) != 0:
        exponent += 1
    return ((1023 + exponent) << 52) | ((n << (52 - exponent)) & ((1 << 52) - 1))


@jit
def not_below(s, u, v):
    """Whether |s| >= |u * v|, exactly; of infinities and NaNs either answer gives the same sum."""
    cs, ns, es, hs = unpack(s, 52, 11)
    cu, nu, eu, hu = unpack(u, 52, 11)
    cv, nv, ev, hv = unpack(v, 52, 11)
    if cs == ZERO_CLASS:
        return cu == ZERO_CLASS or cv == ZERO_CLASS
    if cs != FINITE_CLASS or cu != FINITE_CLASS or cv != FINITE_CLASS:
        return True
    exponent, high, low = exact_product(eu, hu, ev, hv)
    if es != exponent:
        return es > exponent
    return hs > high or (hs == high and low == 0)


@jit
def term(a, b, i, j, k, kind, F, R, key):
    """Term k as (u, v), the exact product of two numbers; a[i] and b[j] are what it is made of."""
    if kind == ROUNDED:
        word = term_word(R[TO_PRODUCT], key, k, AT_PRODUCT, kind)
        return multiply(a[i], b[j], F[TO_PRODUCT], R[TO_PRODUCT], word), ONE
    if kind == EXACT:
        return a[i], b[j]
    return a[i], ONE


@jit
def plus(s, u, v, F, R, word):
    """s + u * v, rounded once."""
    if v == ONE:
        return add(u, s, F, R, word)
    return fma(u, v, s, F, R, word)


@jit
def accumulate(s, u, v, kind, F, R, word):
    """The running result s with one term more."""
    if kind == FACTOR:
        return multiply(s, u, F, R, word)
    return plus(s, u, v, F, R, word)


@jit
def sequential(a, b, i, j, first, stop, step, s, kind, F, R, key):
    """Terms first, first + step, ... below stop, onto s."""
    for k in range(first, stop, step):
        u, v = term(a, b, i + k, j + k, k, kind, F, R, key)
        word = term_word(R[TO_ACCUMULATOR], key, k, AT_TERM, kind)
        s = accumulate(s, u, v, kind, F[TO_ACCUMULATOR], R[TO_ACCUMULATOR], word)
    return s


@jit
def merge(s, t, k, kind, F, R, key):
    """Two partial results, of which the right one begins with term (or lane) k."""
    word = word_of(R[TO_ACCUMULATOR], key, PLACES * k + AT_MERGE)
    return accumulate(s, t, ONE, kind, F[TO_ACCUMULATOR], R[TO_ACCUMULATOR], word)


@jit
def lanes(a, b, i, j, first, stop, state, kind, F, R, key):
    for lane in range(LANE_COUNT):
        k = first + (lane - first) % LANE_COUNT
        state[lane] = sequential(a, b, i, j, k, stop, LANE_COUNT, state[lane], kind, F, R, key)


@jit
def join(state, n, kind, F, R, key):
    """The tree over n lanes: it splits them at the largest power of two below n."""
    width = 1
    while width < n:
        for k in range(width, n, 2 * width):
            state[k - width] = merge(state[k - width], state[k], k, kind, F, R, key)
        width *= 2
    return state[0]


@jit
def put(s, k, level, top, state, kind, F, R, key):
    """Take in the sum s of the 2**level terms of which k is the last: whole subtrees join, below level `top`.

    state[level] holds the sum of a whole subtree of 2**level terms where that bit of the number of terms is set.
    """
    while level < top and (k >> level) & 1:
        s = merge(state[level], s, (k >> level) << level, kind, F, R, key)
        level += 1
    state[level] = s


@jit
def pairwise(a, b, i, j, first, stop, top, state, neutral, kind, F, R, key):
    for k in range(first, stop):
        s = sequential(a, b, i, j, k, k + 1, 1, neutral, kind, F, R, key)
        put(s, k, 0, top, state, kind, F, R, key)


@jit
def join_subtrees(state, n, neutral, kind, F, R, key):
    """The whole subtrees of n terms, the smallest one last, combined from there."""
    s, found = neutral, False
    for level in range(LEVELS):
        if (n >> level) & 1:
            # What has been combined begins after this subtree.
            right = ((n >> (level + 1)) << (level + 1)) + (1 << level)
            s = merge(state[level], s, right, kind, F, R, key) if found else state[level]
            found = True
    return s


@jit
def blocked(a, b, i, j, first, stop, state, neutral, block, kind, F, R, key):
    """Blocks in the accumulator, state[1] the one under way; their results in the outer format, state[0]."""
    k = first
    while k < stop:
        begun = k - k % block
        end = min(stop, begun + block)
        state[1] = sequential(a, b, i, j, k, end, 1, state[1], kind, F, R, key)
        if end == begun + block:
            close_block(state, begun, neutral, kind, F, R, key)
        k = end


@jit
def close_block(state, begun, neutral, kind, F, R, key):
    word = word_of(R[TO_OUTER], key, PLACES * begun + AT_OUTER)
    state[0] = accumulate(state[0], state[1], ONE, kind, F[TO_OUTER], R[TO_OUTER], word)
    state[1] = neutral


@jit
def kahan(a, b, i, j, first, stop, state, kind, F, R, key):
    """Compensated summation, the correction state[1] added before each term."""
    A, how = F[TO_ACCUMULATOR], R[TO_ACCUMULATOR]
    s, e = state[0], state[1]
    for k in range(first, stop):
        u, v = term(a, b, i + k, j + k, k, kind, F, R, key)
        step = PLACES * k
        y = plus(e, u, v, A, how, word_of(how, key, step + AT_TERM))
        z = add(s, y, A, how, word_of(how, key, step + AT_MERGE))
        rest = add(s, z ^ SIGN, A, how, word_of(how, key, step + AT_THIRD))
        e = add(rest, y, A, how, word_of(how, key, step + AT_FOURTH))
        s = z
    state[0], state[1] = s, e


@jit
def neumaier(a, b, i, j, first, stop, state, kind, F, R, key):
    """Compensated summation, the correction state[1] kept apart until the end."""
    A, how = F[TO_ACCUMULATOR], R[TO_ACCUMULATOR]
    s, e = state[0], state[1]
    for k in range(first, stop):
        u, v = term(a, b, i + k, j + k, k, kind, F, R, key)
        step = PLACES * k
        z = plus(s, u, v, A, how, word_of(how, key, step + AT_TERM))
        word3, word4 = word_of(how, key, step + AT_MERGE), word_of(how, key, step + AT_THIRD)
        if not_below(s, u, v):
            rest = add(s, z ^ SIGN, A, how, word3)
            rest = plus(rest, u, v, A, how, word4)
        else:
            rest = plus(z ^ SIGN, u, v, A, how, word3)
            rest = add(rest, s, A, how, word4)
        e = add(e, rest, A, how, word_of(how, key, step + AT_FOURTH))
        s = z
    state[0], state[1] = s, e


@jit
def begin(start, order, kind, state):
    """What is under way before the first term; start : bits of the initial value."""
    neutral = ONE if kind == FACTOR else 0
    state[:] = neutral
    if order == SEQUENTIAL or order == BLOCKED or order == KAHAN or order == NEUMAIER:
        state[0] = start


@jit
def advance(a, b, i, j, first, stop, order, block, kind, state, F, R, key):
    """Take the terms first, first + 1, ... below stop, made of a[i + k] and b[j + k].

    key : what keys_of gives for this element.   F, R : formats and roundings of the four stages.
    """
    neutral = ONE if kind == FACTOR else 0
    if order == SEQUENTIAL:
        state[0] = sequential(a, b, i, j, first, stop, 1, state[0], kind, F, R, key)
    elif order == BLOCKED:
        blocked(a, b, i, j, first, stop, state, neutral, block, kind, F, R, key)
    elif order == KAHAN:
        kahan(a, b, i, j, first, stop, state, kind, F, R, key)
    elif order == NEUMAIER:
        neumaier(a, b, i, j, first, stop, state, kind, F, R, key)
    elif order == LANES:
        lanes(a, b, i, j, first, stop, state, kind, F, R, key)
    else:
        pairwise(a, b, i, j, first, stop, LEVELS, state, neutral, kind, F, R, key)


@jit
def end(n, start, given, order, block, kind, state, F, R, key):
    """The accumulator's bits after n terms; `given` : the initial value is the caller's own."""
    neutral = ONE if kind == FACTOR else 0
    if order == BLOCKED and n % block != 0:
        close_block(state, n - n % block, neutral, kind, F, R, key)
    if order == NEUMAIER:
        A, how = F[TO_ACCUMULATOR], R[TO_ACCUMULATOR]
        return add(state[0], state[1], A, how, word_of(how, key, AT_TOTAL))
    if order != LANES and order != PAIRWISE:
        return state[0]
    # With fewer terms than lanes, the empty ones would add zeros.
    if order == LANES:
        s = join(state, min(n, LANE_COUNT), kind, F, R, key)
    else:
        s = join_subtrees(state, n, neutral, kind, F, R, key)
    if not given:
        return s
    word = word_of(R[TO_ACCUMULATOR], key, AT_TOTAL)
    return accumulate(start, s, ONE, kind, F[TO_ACCUMULATOR], R[TO_ACCUMULATOR], word)
