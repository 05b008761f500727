"""Loops over all triples of the values of a small format, each operation a look-up in its table of results.

A table holds the number of the result among the values, or -1 where that is not finite. Values that compare equal have
one number, so that +0 and -0 are no difference.
"""

import numpy as np

from softfloat._jit import jit


@jit
def associativity_loop(table, first, stop, counts, sizes):
    """Triples (i, j, k) with first <= i < stop: of (i o j) o k and i o (j o k), how often both are finite, and differ.

    counts : (triples, differing), added to.   sizes[i] : differing triples that begin with i.
    """
    n = table.shape[0]
    for i in range(first, stop):
        differ, triples = np.int64(0), np.int64(0)
        for j in range(n):
            ij = table[i, j]
            if ij < 0:
                continue
            for k in range(n):
                jk = table[j, k]
                left = table[ij, k]
                right = table[i, jk] if jk >= 0 else np.int16(-1)
                valid = (left >= 0) & (right >= 0)
                triples += valid
                differ += valid & (left != right)
        counts[0] += triples
        counts[1] += differ
        sizes[i] = differ


@jit
def distributivity_loop(sums, products, first, stop, counts, sizes):
    """As `associativity_loop`, for i * (j + k) and i * j + i * k."""
    n = sums.shape[0]
    for i in range(first, stop):
        differ, triples = np.int64(0), np.int64(0)
        for j in range(n):
            ij = products[i, j]
            if ij < 0:
                continue
            for k in range(n):
                jk, ik = sums[j, k], products[i, k]
                left = products[i, jk] if jk >= 0 else np.int16(-1)
                right = sums[ij, ik] if ik >= 0 else np.int16(-1)
                valid = (left >= 0) & (right >= 0)
                triples += valid
                differ += valid & (left != right)
        counts[0] += triples
        counts[1] += differ
        sizes[i] = differ
