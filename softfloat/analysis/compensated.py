"""Sums and inner products by error-free transformations, every operation rounded to one format.

These are what softfloat.sum has no order for: compiled loops over the rows of an array. Operation number i of a row
takes the random word i of the row's key, where the rounding needs one.

Sources: Priest, On properties of floating point arithmetics (1992), as Higham (2002), algorithm 4.3, for doubly
compensated summation; Klein, A generalized Kahan-Babuska-summation-algorithm (2006); Ogita, Rump and Oishi, Accurate
sum and dot product (2005), for SumK, Dot2 and DotK; Rump, Ogita and Oishi, Accurate floating-point summation part I:
faithful rounding (2008), for AccSum.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import i64, u64
from softfloat.functional import Choice
from softfloat.random import WORD_BITS, element_word, key_word
from softfloat.rounding import STOCHASTIC
from softfloat.scalar import core

FOLDS = 3  # K of SumK and DotK
INTEGERS = 9  # of Format.kernel_record; floats follow
MODE, SATURATE, RANDOM_BITS, VARIANT = range(4)


@functools.cache
def _operation(name):
    """run(x, y, z, H, key, step): one operation; H holds the format's numbers and the rounding."""
    rounded = core.operation(name)

    @jit
    def run(x, y, z, H, key, step):
        F, N, R = H
        word = i64(0)
        if R[MODE] >= STOCHASTIC:
            word = i64(element_word(key, step) >> u64(WORD_BITS - R[RANDOM_BITS]))
        return rounded(x, y, z, F, N, R[MODE], R[SATURATE], word, R[RANDOM_BITS], R[VARIANT])

    return run


@functools.cache
def _two_sum():
    """two_sum(a, b, H, key, step): (a + b, its error) by Knuth's six operations, and the number of the next one."""
    add = _operation("add")

    @jit
    def two_sum(a, b, H, key, step):
        s = add(a, b, b, H, key, step)
        z = add(s, -a, b, H, key, step + 1)
        left = add(a, -add(s, -z, b, H, key, step + 2), b, H, key, step + 3)
        right = add(b, -z, b, H, key, step + 4)
        return s, add(left, right, b, H, key, step + 5), step + 6

    return two_sum


@functools.cache
def _klein():
    """Second-order compensation: the errors of the sum are summed with their own errors kept."""
    add = _operation("add")

    @jit
    def larger_first(s, t, x, H, key, step):
        """The error of t = s + x by Babuska's choice."""
        high, low = (s, x) if abs(s) >= abs(x) else (x, s)
        return add(add(high, -t, t, H, key, step), low, t, H, key, step + 1)

    @jit
    def klein(x, y, H, key):
        s, first, second, step = 0.0, 0.0, 0.0, 0
        for term in x:
            t = add(s, term, term, H, key, step)
            c = larger_first(s, t, term, H, key, step + 1)
            u = add(first, c, c, H, key, step + 3)
            d = larger_first(first, u, c, H, key, step + 4)
            second = add(second, d, d, H, key, step + 6)
            s, first, step = t, u, step + 7
        rest = add(first, second, second, H, key, step)
        return add(s, rest, rest, H, key, step + 1)

    return klein


@functools.cache
def _priest():
    """Doubly compensated summation; the terms come by falling magnitude."""
    add = _operation("add")

    @jit
    def priest(x, y, H, key):
        s, c, step = 0.0, 0.0, 0
        for term in x:
            y = add(c, term, term, H, key, step)
            u = add(term, -add(y, -c, c, H, key, step + 1), c, H, key, step + 2)
            t = add(y, s, s, H, key, step + 3)
            v = add(y, -add(t, -s, s, H, key, step + 4), s, H, key, step + 5)
            z = add(u, v, v, H, key, step + 6)
            previous = t
            s = add(t, z, z, H, key, step + 7)
            c = add(z, -add(s, -previous, s, H, key, step + 8), s, H, key, step + 9)
            step += 10
        return s

    return priest


@functools.cache
def _fold():
    """fold(p, folds, H, key, step): sum of p after `folds` error-free passes over it, which change p."""
    add, two_sum = _operation("add"), _two_sum()

    @jit
    def fold(p, folds, H, key, step):
        last = p.size - 1
        for _ in range(folds):
            for i in range(1, p.size):
                p[i], p[i - 1], step = two_sum(p[i], p[i - 1], H, key, step)
        s = 0.0
        for i in range(last):
            s = add(s, p[i], s, H, key, step)
            step += 1
        return add(s, p[last], s, H, key, step) if p.size else s

    return fold


@functools.cache
def _sum_k(folds):
    fold = _fold()

    @jit
    def sum_k(x, y, H, key):
        return fold(x.copy(), folds, H, key, 0)

    return sum_k


@functools.cache
def _dot2():
    """An inner product whose errors, of products by fma and of sums, are summed beside it."""
    add, multiply, fma, two_sum = _operation("add"), _operation("multiply"), _operation("fma"), _two_sum()  # fmt: skip

    @jit
    def dot2(x, y, H, key):
        p, s, step = 0.0, 0.0, 0
        for i in range(x.size):
            h = multiply(x[i], y[i], s, H, key, step)
            r = fma(x[i], y[i], -h, H, key, step + 1)
            p, q, step = two_sum(p, h, H, key, step + 2)
            s = add(s, add(q, r, s, H, key, step), s, H, key, step + 1)
            step += 2
        return add(p, s, s, H, key, step)

    return dot2


@functools.cache
def _dot_k(folds):
    multiply, fma, two_sum, fold = _operation("multiply"), _operation("fma"), _two_sum(), _fold()

    @jit
    def dot_k(x, y, H, key):
        n = x.size
        parts, p, step = np.zeros(2 * n + 1), 0.0, 0
        for i in range(n):
            h = multiply(x[i], y[i], p, H, key, step)
            parts[i] = fma(x[i], y[i], -h, H, key, step + 1)
            p, parts[n + i], step = two_sum(p, h, H, key, step + 2)
        parts[2 * n] = p
        return fold(parts, folds - 1, H, key, step)

    return dot_k


@functools.cache
def _acc_sum():
    """Faithful rounding: leading parts of all terms are cut at a common place, where their sum is exact."""
    add = _operation("add")

    @jit
    def acc_sum(x, y, H, key):
        p, step, t = x.copy(), 0, 0.0
        largest = np.abs(p).max() if p.size else 0.0
        if not 0 < largest < math.inf:
            return largest + np.sum(p)  # zeros, infinities, NaN
        u = H[1][2] / 2  # 2**-p
        terms = 2.0 ** math.ceil(math.log2(p.size + 2))
        mantissa, exponent = math.frexp(largest)
        sigma = terms * 2.0 ** (exponent - (mantissa == 0.5))
        smallest = H[1][0] * H[1][2]
        while True:
            tau = 0.0
            for i in range(p.size):
                q = add(add(sigma, p[i], p[i], H, key, step), -sigma, sigma, H, key, step + 1)
                p[i] = add(p[i], -q, q, H, key, step + 2)
                tau = add(tau, q, q, H, key, step + 3)
                step += 4
            before, t = t, add(t, tau, tau, H, key, step)
            step += 1
            if abs(t) >= terms * terms * u * sigma or sigma * u <= smallest / 2:
                break
            sigma *= terms * u
        rest = add(tau, -add(t, -before, t, H, key, step), t, H, key, step + 1)
        s, step = 0.0, step + 2
        for i in range(p.size):
            s = add(s, p[i], s, H, key, step)
            step += 1
        return add(t, add(rest, s, s, H, key, step), s, H, key, step + 1)

    return acc_sum


KERNELS = {
    "klein": _klein,
    "priest": _priest,
    "sumk": lambda: _sum_k(FOLDS - 1),
    "accsum": _acc_sum,
    "dot2": _dot2,
    "dot3": lambda: _dot_k(FOLDS - 1),
}


@functools.cache
def _rows(name):
    kernel = KERNELS[name]()

    @jit
    def rows(x, y, H, key, out):
        for i in range(out.size):
            out[i] = kernel(x[i], y[i], H, key_word(key, i))

    return rows


def by_kernel(name, x, y, fmt, options):
    """The results of the rows (..., n) of x, and of y for an inner product, as values of fmt."""
    choice = Choice(**options)
    H = (
        tuple(fmt.kernel_record[:INTEGERS].tolist()),
        tuple(fmt.kernel_record[INTEGERS:].view(np.float64).tolist()),
        (choice.mode, choice.saturate, choice.bits, choice.variant),
    )
    shape = x.shape[:-1]
    x, y = (np.ascontiguousarray(v, np.float64).reshape(math.prod(shape), -1) for v in (x, y))
    out = np.empty(math.prod(shape))
    _rows(name)(x, y, H, np.uint64(choice.key), out)
    return out.reshape(shape).astype(fmt.carrier)
