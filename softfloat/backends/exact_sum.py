"""Loops of exact sums and inner products.

A long run of terms is first sorted by exponent: a table has three words for each exponent of the last place, and one
term costs two or three additions to words of its exponent. The words have room for TABLE_TERMS terms; then the table
is emptied into the limbs of softfloat.ops.exact_sum. A short run goes to the limbs at once.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.ops.exact_sum import (
    BASE,
    LIMB,
    LIMB_MASK,
    LIMBS,
    PLAIN_FIELD,
    SAW_OTHER,
    TOP_FIELD,
    carry,
    deposit,
    field_of,
    parts_of_sum,
    product_words,
    seen_in_product,
    seen_in_term,
    term_words,
)

TABLE_TERMS = 1 << 17
SHORT_RUN = 512  # terms that are not worth emptying a table for
WORDS, PLACES = 3, 4096
SINGLE_PLACES = (
    2 + BASE - 300
)  # the last place of a product of float32 numbers, less the fields of the factors
COLUMNS = 6  # of what describes a sum: class, negative, exponent, high, low, flags


@jit
def empty_table(table, limbs):
    for place in range(PLACES):
        for w in range(WORDS):
            word = table[place, w]
            if word != 0:
                deposit(limbs, word, place - 2 + LIMB * w)
                table[place, w] = 0


@functools.cache
def gather_loop(product):
    """gather(a, b, limbs, table): add at most TABLE_TERMS terms a[k], or a[k] * b[k]; returns what was seen.

    a, b : bits of float64 numbers.   limbs : settled before and after.   table : zeros before and after.
    """

    @jit
    def seen_in_run(a, b):
        seen = 0
        for k in range(a.size):
            seen |= seen_in_product(a[k], b[k]) if product else seen_in_term(a[k])
        return seen

    @jit
    def gather(a, b, limbs, table):
        special, other = False, np.int64(0)
        short = a.size < SHORT_RUN
        for k in range(a.size):
            if product:
                place = field_of(a[k]) + field_of(b[k])
                w0, w1, w2 = product_words(a[k], b[k])
                special |= ((a[k] >> 52) & TOP_FIELD == TOP_FIELD) | (
                    (b[k] >> 52) & TOP_FIELD == TOP_FIELD
                )
                other |= w0 | w1 | w2 | ((a[k] ^ b[k]) >> 63)  # a product that is zero may be -0
            else:
                place = field_of(a[k]) + PLAIN_FIELD
                w0, w1 = term_words(a[k])
                w2 = np.int64(0)
                special |= (a[k] >> 52) & TOP_FIELD == TOP_FIELD
                other |= a[k]
            if short:
                deposit(limbs, w0, place - 2)
                deposit(limbs, w1, place - 2 + LIMB)
                deposit(limbs, w2, place - 2 + 2 * LIMB)
            else:
                table[place, 0] += w0
                table[place, 1] += w1
                if product:
                    table[place, 2] += w2
        if not short:
            empty_table(table, limbs)
        carry(limbs)
        if special:
            return seen_in_run(a, b)
        return SAW_OTHER if other != 0 else 0

    return gather


@jit
def gather_singles(a, b, limbs, table):
    """gather(a, b, limbs, table) of products for the bits of float32 numbers, uint32: their products have 48 bits.

    Returns -1, and nothing is added, where a number is infinite or NaN.
    """
    special, other = False, np.int64(0)
    for k in range(a.size):
        u, v = np.int64(a[k]), np.int64(b[k])
        fu, fv = (u >> 23) & 0xFF, (v >> 23) & 0xFF
        m = ((u & 0x7FFFFF) | (np.int64(fu != 0) << 23)) * (
            (v & 0x7FFFFF) | (np.int64(fv != 0) << 23)
        )
        negative = (u ^ v) >> 31
        place = max(fu, 1) + max(fv, 1) + SINGLE_PLACES
        table[place, 0] += ((m & LIMB_MASK) ^ -negative) + negative
        table[place, 1] += ((m >> LIMB) ^ -negative) + negative
        special |= (fu == 0xFF) | (fv == 0xFF)
        other |= m | negative
    if special:
        table[:] = 0
        return -1
    empty_table(table, limbs)
    carry(limbs)
    return SAW_OTHER if other != 0 else 0


@functools.cache
def rows_loop(product):
    """run(a, b, n, mode, columns): sums of consecutive runs of n terms, taken apart into int64 columns (6, rows)."""
    gather = gather_loop(product)

    @jit
    def run(a, b, n, mode, columns):
        table = np.zeros((PLACES, WORDS) if n >= SHORT_RUN else (1, WORDS), np.int64)
        limbs = np.zeros(LIMBS, np.int64)
        for row in range(columns.shape[1]):
            limbs[:] = 0
            seen = 0
            for first in range(row * n, (row + 1) * n, TABLE_TERMS):
                stop = min((row + 1) * n, first + TABLE_TERMS)
                seen |= gather(a[first:stop], b[first:stop] if product else a[:0], limbs, table)
            kind, negative, exponent, high, low, raised = parts_of_sum(limbs, seen, mode)
            columns[0, row], columns[1, row], columns[2, row] = kind, negative, exponent
            columns[3, row], columns[4, row], columns[5, row] = high, low, raised

    return run


@jit
def parts_loop(limbs, seen, mode, columns):
    """As `rows_loop`, for one sum that is in the limbs already."""
    kind, negative, exponent, high, low, raised = parts_of_sum(limbs, seen, mode)
    columns[0, 0], columns[1, 0], columns[2, 0] = kind, negative, exponent
    columns[3, 0], columns[4, 0], columns[5, 0] = high, low, raised
