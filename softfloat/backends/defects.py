"""Loops over all triples of the values of a small format, each operation a look-up in its table of results.

A table holds the number of the result among the values, or -1 where that is not finite. Values that compare equal have
one number, so that +0 and -0 are no difference.
"""

import numpy as np

from softfloat._jit import jit


def _triples_loop(distributive):
    """run(times, plus, first, stop, counts, sizes): i * (j + k) against (i * j) + k, or + i * k if `distributive`."""

    @jit
    def run(times, plus, first, stop, counts, sizes):
        n = times.shape[0]
        for i in range(first, stop):
            differ, triples = np.int64(0), np.int64(0)
            for j in range(n):
                ij = times[i, j]
                if ij < 0:
                    continue
                for k in range(n):
                    jk = plus[j, k]
                    other = times[i, k] if distributive else k
                    one = times[i, jk] if jk >= 0 else np.int16(-1)
                    two = plus[ij, other] if other >= 0 else np.int16(-1)
                    valid = (one >= 0) & (two >= 0)
                    triples += valid
                    differ += valid & (one != two)
            counts[0] += triples
            counts[1] += differ
            sizes[i] = differ

    return run


_associative, _distributive = _triples_loop(0), _triples_loop(1)


def associativity_loop(table, first, stop, counts, sizes):
    """Triples (i, j, k) with first <= i < stop: of (i o j) o k and i o (j o k), how often both are finite, and differ.

    counts : (triples, differing), added to.   sizes[i] : differing triples that begin with i.
    """
    _associative(table, table, first, stop, counts, sizes)


def distributivity_loop(sums, products, first, stop, counts, sizes):
    """As `associativity_loop`, for i * (j + k) and i * j + i * k."""
    _distributive(products, sums, first, stop, counts, sizes)
