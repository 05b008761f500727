"""Matrix products as matrix engines form them: vector loops over the columns of a panel, and the definition.

The loops of each kind state what they are right for; elements that leave that domain are marked, and the definition
(softfloat.ops.engine) forms them anew. So the choice decides the speed only, and no result depends on the threads.

fused : products are exact in float32 (significands of at most 23 bits together), the power of two that aligns them is
    exact, conversion to integers cuts them, int32 sums them; the step ends in float64, where the sum is exact. Marked:
    operands that are not finite, E outside F - 126 .. 125 (without products and c, nothing is marked).
exact : a fused step without cut, by float64 sums with their errors. Marked: more than one error in a step.
fma, evenodd, tree : the processor's own float32 or float64 operations, subnormal results flushed by comparison.
    Marked: results equal to the smallest normal (they may come from below) where they are flushed; where rounding is to
    odd, results from 2**127 on.
"""

import functools
import math

import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.cpu import cast, make_nans_canonical
from softfloat.backends.threads import run_chunks
from softfloat.bits import (
    UNKNOWN,
    and_,
    binade,
    enter_standard_arithmetic,
    fma,
    is_negative,
    leave_standard_arithmetic,
    magnitude,
    one_like,
    or_,
    shr,
    sign_bit,
    sub,
    to_bits,
    to_float,
    umax,
    xor,
    zero_like,
)
from softfloat.format import EMIN, MANTISSA_BITS, MAX_CODE
from softfloat.formats import binary32, binary64
from softfloat.ops.engine import (
    A_EMIN,
    B_EMIN,
    C_EMIN,
    C_IN,
    DEPTH,
    DOWN,
    EVENODD,
    FLUSH_IN,
    FLUSH_OUT,
    FMA,
    FRACTION,
    FRACTION_C,
    FRACTION_P,
    GROUPS,
    IEEE,
    KIND,
    LATE,
    LIMIT,
    LOWEST,
    MODE,
    REACH,
    SIGNED_ZEROS,
    STEP,
    TREE,
    engine_dot,
    workspace,
)
from softfloat.rounding import EVEN, ODD, ZERO

TERMS_AT_ONCE = 1 << 20  # products of the definition between two looks at Ctrl-C
UNITS_AT_ONCE = 1 << 26  # the same of the vector loops, in multiply-adds over PRODUCTS_PER_UNIT
PRODUCTS_PER_UNIT = 8  # multiply-adds that count as one element when work is split over threads
WIDTH = 128  # columns of a panel
SLAB = 512  # products that a packed panel is long, at most: it stays in the second cache
ZERO_EXPONENT = -8000  # of a zero operand: no sum of two exponents comes near
NO_EXPONENT = -4000  # below: all terms are zero
FAR = np.float32(2.0**127)  # to-odd sums from here on are left to the definition
HIGHEST = 125  # of E: products below 2**(E + 2) stay finite
SUM_BITS = 31  # of an int32 sum
EXACT_BITS = (
    23  # of a product: exact in float32, subnormal or not, as far as it is above the last bit kept
)


# ---------------------------------------------------------------- the definition
@jit
def define_elements(a, b, n, elements, columns, c, order, P, F, out):
    """Elements row * columns + column of the result into out, all bits of float64 numbers.

    a, b : rows of n numbers.   c : initial values of the elements.
    """
    work = workspace(P[STEP])
    for e in range(elements.size):
        i, j = elements[e] // columns, elements[e] % columns
        out[e] = engine_dot(a, b, i, j, n, c[e], order, P, F, work)


def converted(x, dtype):
    """x in another carrier that holds all its values, subnormal or not."""
    if x.dtype == dtype:
        return x
    out = np.empty(x.shape, dtype)
    if not cast(_plain(x).reshape(-1), out.reshape(-1)):
        with np.errstate(all="ignore"):
            out[...] = x
    return out


def _plain(x):
    """x with its numbers side by side, writeable: the one kind of array that the loops are compiled for."""
    return np.require(x, requirements=("C", "W"))


def _bits(x):
    """Values as a flat array of float64 bits, in C order."""
    return np.ascontiguousarray(converted(x, np.float64)).reshape(-1).view(np.int64)


def define(P, order, records, a, b, c, elements):
    """Some elements (row * columns + column) of c + a @ b, by the definition, as float64 values."""
    rows, i = np.unique(elements // c.shape[1], return_inverse=True)
    columns, j = np.unique(elements % c.shape[1], return_inverse=True)
    n, width = a.shape[1], max(len(columns), 1)
    left, right = _bits(a[rows]), _bits(b[:, columns].T)
    start = _bits(c.reshape(-1)[elements])
    places = i * width + j
    out = np.empty(elements.size)
    target = out.view(np.int64)

    def task(first, stop):
        part = slice(first, stop)
        define_elements(
            left, right, n, places[part], width, start[part], order, P, records, target[part]
        )

    if elements.size:
        run_chunks(task, elements.size, max(1, TERMS_AT_ONCE // max(n, 1)))
    return out


# ---------------------------------------------------------------- packing
@intrinsic
def _borrowed(context, x):
    """The same array without its owner, which the caller keeps alive: handing it on counts no references.

    The atomic counters would cost as much as a step of an engine.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(x)(context, builder, arguments[0])
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()

    return x(x), generate


@jit(inline=True)
def _exponent(x, emin):
    """The exponent of a float32, at least emin (an int32); ZERO_EXPONENT of a zero."""
    m = magnitude(
        to_bits(x)
    )  # integers: a processor that flushes subnormals would take them for zeros
    e = np.int32(np.int32(shr(m, np.uint32(23))) - np.int32(127))
    e = e if e > emin else emin
    return np.int16(e) if m != zero_like(m) else np.int16(ZERO_EXPONENT)


@jit
def _pack_rows(A, turned, emin, values, exponents, bad):
    """Rows of A in the order of the engine, zeros where it has no more: values, exponents, whether all are finite."""
    for i in range(A.shape[0]):
        row = A[i]
        for k in range(turned.size):
            x = row[turned[k]] if turned[k] < row.size else A.dtype.type(0)
            finite = x - x == 0
            bad[i] |= not finite
            values[i, k] = x
            exponents[i, k] = _exponent(np.float32(x), np.int32(emin))


@jit
def _pack_panel(B, turned, k0, n, j, width, emin, values, exponents, bad):
    """Numbers k0 to k0 + n, in the order of the engine, of some columns of B, row after row of WIDTH."""
    for k in range(n):
        place = k * WIDTH
        source = turned[k0 + k]
        if source >= B.shape[0] or width < WIDTH:
            values[place : place + WIDTH] = 0
            exponents[place : place + WIDTH] = ZERO_EXPONENT
        if source < B.shape[0]:
            row = B[source]
            for l in range(width):  # noqa: E741
                x = row[j + l]
                if not (x - x == 0):
                    bad[j + l] = True  # the one value that threads write here
                values[place + l] = x
                exponents[place + l] = _exponent(np.float32(x), np.int32(emin))


# ---------------------------------------------------------------- fused steps
@jit(inline=True)
def _power(e):
    """2**e as a float64, for an int32 in the range of normal numbers."""
    return to_float(np.uint64((np.int64(e) + 1023) << 52))


@jit(inline=True)
def _rounded(v, unit, cut, least, limit):
    """v rounded to float64 numbers of fewer bits: to nearest (cut = 0) or toward zero (cut = 2**-bits).

    unit : 2**(52 - bits).   least : bits of 2**emin.   limit : what counts as infinite. A zero is +0.
    """
    m = abs(v)
    top = to_float(umax(binade(to_bits(m)), least))
    big = top * unit
    y = (m + big) - big
    y = y - top * cut if y > m else y
    y = np.inf if y >= limit else y
    return to_float(or_(to_bits(y), sign_bit(to_bits(v)))) + 0.0


@jit(inline=True)
def _begin(c, emin, E):
    """The exponents of the accumulators."""
    least = np.int32(emin)
    for j in range(WIDTH):
        E[j] = _exponent(c[j], least)


@jit(inline=True)
def _largest(ea, xb, k, count, E):
    """Raise E to the exponents of products k to k + count, four at a time."""
    stop = k + count
    while k + 4 <= stop:
        e0, e1, e2, e3 = ea[k], ea[k + 1], ea[k + 2], ea[k + 3]
        p = k * WIDTH
        x0, x1 = xb[p : p + WIDTH], xb[p + WIDTH : p + 2 * WIDTH]
        x2, x3 = xb[p + 2 * WIDTH : p + 3 * WIDTH], xb[p + 3 * WIDTH : p + 4 * WIDTH]
        for j in range(WIDTH):
            m0, m1 = np.int16(e0 + x0[j]), np.int16(e1 + x1[j])
            m2, m3 = np.int16(e2 + x2[j]), np.int16(e3 + x3[j])
            m0 = m0 if m0 > m1 else m1
            m2 = m2 if m2 > m3 else m3
            m0 = m0 if m0 > m2 else m2
            E[j] = E[j] if E[j] > m0 else m0
        k += 4
    for l in range(k, stop):  # noqa: E741
        x0 = xb[l * WIDTH : (l + 1) * WIDTH]
        for j in range(WIDTH):
            m0 = np.int16(ea[l] + x0[j])
            E[j] = E[j] if E[j] > m0 else m0


@jit(inline=True)
def _add_cut(fa, vb, k, count, scale, acc):
    """Add products k to k + count, times a power of two and cut to integers, to acc, four at a time."""
    stop = k + count
    while k + 4 <= stop:
        f0, f1, f2, f3 = fa[k], fa[k + 1], fa[k + 2], fa[k + 3]
        p = k * WIDTH
        x0, x1 = vb[p : p + WIDTH], vb[p + WIDTH : p + 2 * WIDTH]
        x2, x3 = vb[p + 2 * WIDTH : p + 3 * WIDTH], vb[p + 3 * WIDTH : p + 4 * WIDTH]
        for j in range(WIDTH):
            s = scale[j]
            t0, t1 = np.int32(f0 * x0[j] * s), np.int32(f1 * x1[j] * s)
            t2, t3 = np.int32(f2 * x2[j] * s), np.int32(f3 * x3[j] * s)
            acc[j] = np.int32(np.int32(acc[j] + np.int32(t0 + t1)) + np.int32(t2 + t3))
        k += 4
    for l in range(k, stop):  # noqa: E741
        x0 = vb[l * WIDTH : (l + 1) * WIDTH]
        for j in range(WIDTH):
            acc[j] = np.int32(acc[j] + np.int32(fa[l] * x0[j] * scale[j]))


@jit(inline=True)
def _choose_scales(E, F, lowest, X, scale, seen):
    """Clip E to where the loops are right, into X; the powers of two that align to it; `seen` where E is out of reach.

    lowest : the engine's own bound of E, if any.
    """
    words = scale.view(np.int32)
    least, highest = np.int32(max(F - 126, lowest)), np.int32(HIGHEST)
    first, none = np.int32(F - 126 if lowest < F - 126 else NO_EXPONENT), np.int32(NO_EXPONENT)
    top = np.int32(F + 127)
    for j in range(WIDTH):
        e = np.int32(E[j])
        strange = ((e < first) & (e > none)) | (e > highest)
        seen[j] = np.int32(seen[j] | np.int32(strange))
        e = e if e > least else least
        e = e if e < highest else highest
        X[j] = e
        words[j] = np.int32(np.int32(top - e) << np.int32(23))


@jit(inline=True)
def _sum_products(fa, vb, k, count, chunk, scale, acc, S):
    """Add the cut products to S + acc (float64, int32); acc is zero at first, and holds `chunk` products."""
    stop = k + count
    while stop - k > chunk:
        _add_cut(fa, vb, k, chunk, scale, acc)
        for j in range(WIDTH):
            S[j] += np.float64(acc[j])
            acc[j] = np.int32(0)
        k += chunk
    _add_cut(fa, vb, k, stop - k, scale, acc)


@jit(inline=True)
def _early_step(fa, ea, vb, xb, k, c, P, chunk, how, E, X, scale, acc, S, seen):
    """One fused step of a row of accumulators c that take part in the alignment."""
    F = np.int32(P[FRACTION])
    _begin(c, P[C_EMIN], E)
    _largest(ea, xb, k, P[STEP], E)
    _choose_scales(E, F, P[LOWEST], X, scale, seen)
    for j in range(WIDTH):
        S[j] = np.float64(np.int32(c[j] * scale[j]))
        acc[j] = np.int32(0)
    _sum_products(fa, vb, k, P[STEP], chunk, scale, acc, S)
    unit, cut, least, limit = how
    for j in range(WIDTH):
        s = (S[j] + np.float64(acc[j])) * _power(np.int32(X[j] - F))
        c[j] = np.float32(_rounded(s, unit, cut, least, limit))


@jit(inline=True)
def _group_sum(fa, ea, vb, xb, k, count, P, chunk, E, X, scale, acc, S, seen):
    """The products k to k + count aligned among themselves: sums in S, their E in X, NO_EXPONENT if all are zero."""
    for j in range(WIDTH):
        E[j] = np.int16(2 * ZERO_EXPONENT)
        S[j] = 0.0
        acc[j] = np.int32(0)
    _largest(ea, xb, k, count, E)
    _choose_scales(E, P[FRACTION], P[LOWEST], X, scale, seen)
    _sum_products(fa, vb, k, count, chunk, scale, acc, S)
    for j in range(WIDTH):
        S[j] += np.float64(acc[j])
        X[j] = X[j] if E[j] > NO_EXPONENT else np.int32(NO_EXPONENT)


@jit(inline=True)
def _floor_scaled(x, e):
    """The integer at or below x * 2**e, for integers x below 2**60: below 2**-1000 any power gives the same."""
    return np.floor(x * _power(e if e > np.int32(-1000) else np.int32(-1000)))


@jit(inline=True)
def _join_groups(S, X, T, Y):
    """The sums S of exponents X and T of exponents Y in units of the larger exponent, into S and X."""
    for j in range(WIDTH):
        top = X[j] if X[j] > Y[j] else Y[j]
        S[j] = _floor_scaled(S[j], np.int32(X[j] - top)) + _floor_scaled(T[j], np.int32(Y[j] - top))
        X[j] = top


@jit(inline=True)
def _late_step(c, P, how, E, X, S, seen):
    """Let the accumulators join the sums of the products, S of exponents X, in a second alignment."""
    _begin(c, P[C_EMIN], E)
    reach = np.int32(P[REACH] if P[REACH] >= 0 else 1 << 14)
    F, FP, FC = np.int32(P[FRACTION]), np.int32(P[FRACTION_P]), np.int32(P[FRACTION_C])
    unit_p, unit_c = _power(np.int32(-FP)), _power(np.int32(-FC))
    unit, cut, least, limit = how
    for j in range(WIDTH):
        e = np.int32(E[j])
        top = X[j] if X[j] > e else e
        seen[j] = np.int32(seen[j] | np.int32(e > np.int32(127)))
        addend = np.float64(c[j]) if e >= np.int32(top - reach) else 0.0
        top = top if top > np.int32(NO_EXPONENT) else np.int32(0)
        s = _floor_scaled(S[j], np.int32(np.int32(X[j] - F) + np.int32(FP - top))) * unit_p
        s += np.floor(addend * _power(np.int32(FC - top))) * unit_c
        c[j] = np.float32(_rounded(s * _power(top), unit, cut, least, limit))


@jit(inline=True)
def _two_sum(x, y):
    """x + y and its error, exactly (Knuth)."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


@jit(inline=True)
def _odd(s, error):
    """s + error rounded to odd, s being that sum rounded to nearest (float32 or float64)."""
    u = to_bits(s)
    one = one_like(u)
    # An error that points back to zero: the number cut off is one below s, and odd since s is even.
    shorter = is_negative(xor(to_bits(error), u))
    moved = sub(u, one) if shorter else or_(u, one)
    inexact = (error > 0) | (error < 0)
    return to_float(moved if inexact & (and_(u, one) == zero_like(u)) else u)


@jit(inline=True)
def _exact_step(fa, vb, k, c, P, S, R, errors, seen):
    """One step of accumulators c of binary32 that are rounded once, to nearest, nothing being cut."""
    for j in range(WIDTH):
        S[j] = np.float64(c[j])
        R[j] = 0.0
        errors[j] = np.int32(0)
    signed = P[SIGNED_ZEROS] != 0
    for l in range(k, k + P[STEP]):  # noqa: E741
        x, f = vb[l * WIDTH : (l + 1) * WIDTH], np.float64(fa[l])
        for j in range(WIDTH):
            S[j], error = _two_sum(S[j], f * np.float64(x[j]))
            inexact = (error > 0) | (error < 0)
            errors[j] = np.int32(errors[j] + np.int32(inexact))
            R[j] = error if inexact else R[j]
    for j in range(WIDTH):
        s, error = _two_sum(S[j], R[j])
        y = np.float32(_odd(s, error))
        seen[j] = np.int32(seen[j] | np.int32(errors[j] > np.int32(1)))
        c[j] = y if signed else y + np.float32(0)


# ---------------------------------------------------------------- steps of rounded operations
@jit(inline=True)
def _flushed(y, tiny):
    """y, or a zero of its sign below `tiny` (negative where nothing is flushed)."""
    return to_float(sign_bit(to_bits(y))) if abs(y) < tiny else y


@jit(inline=True)
def _chain(fa, vb, k, stop, stride, c, tiny, seen):
    """Fused multiply-adds onto c of products k, k + stride, ..., four at a time; `seen` is set where one is `tiny`."""
    while k + 3 * stride < stop:
        f0, f1, f2, f3 = fa[k], fa[k + stride], fa[k + 2 * stride], fa[k + 3 * stride]
        p, step = k * WIDTH, stride * WIDTH
        x0, x1 = vb[p : p + WIDTH], vb[p + step : p + step + WIDTH]
        x2, x3 = vb[p + 2 * step : p + 2 * step + WIDTH], vb[p + 3 * step : p + 3 * step + WIDTH]
        for j in range(WIDTH):
            y0 = fma(f0, x0[j], c[j])
            y1 = fma(f1, x1[j], _flushed(y0, tiny))
            y2 = fma(f2, x2[j], _flushed(y1, tiny))
            y3 = fma(f3, x3[j], _flushed(y2, tiny))
            c[j] = _flushed(y3, tiny)
            met = (abs(y0) == tiny) | (abs(y1) == tiny) | (abs(y2) == tiny) | (abs(y3) == tiny)
            seen[j] = np.int32(seen[j] | np.int32(met))
        k += 4 * stride
    for l in range(k, stop, stride):  # noqa: E741
        x0 = vb[l * WIDTH : (l + 1) * WIDTH]
        for j in range(WIDTH):
            y0 = fma(fa[l], x0[j], c[j])
            seen[j] = np.int32(seen[j] | np.int32(abs(y0) == tiny))
            c[j] = _flushed(y0, tiny)


@jit(inline=True)
def _sum(x, y, odd, tiny):
    """(x + y rounded to nearest or to odd, and flushed; whether it is to be marked)."""
    s = x + y
    if odd:
        s, error = _two_sum(x, y)
        s = _odd(s, error)
        return _flushed(s, tiny), not (abs(s) < FAR)
    return _flushed(s, tiny), abs(s) == tiny


@jit(inline=True)
def _add_into(x, y, odd, tiny, seen):
    """x += y, rounded: two arrays apart from each other, or LLVM's vector loop would not run."""
    for j in range(WIDTH):
        s, met = _sum(x[j], y[j], odd, tiny)
        seen[j] = np.int32(seen[j] | np.int32(met))
        x[j] = s


@jit(inline=True)
def _tree(fa, vb, k, c, count, odd, tiny, values, seen):
    """The rounded products k to k + count, their pairwise sum, and that added to c."""
    for t in range(count):
        x, f = vb[(k + t) * WIDTH : (k + t + 1) * WIDTH], fa[k + t]
        v = values[t * WIDTH : (t + 1) * WIDTH]
        for j in range(WIDTH):
            y = f * x[j]
            met = not (abs(y) < FAR) if odd else abs(y) == tiny
            seen[j] = np.int32(seen[j] | np.int32(met))
            v[j] = _flushed(y, tiny)
    stride = 1
    while stride < count:
        for t in range(0, count - stride, 2 * stride):
            x = values[t * WIDTH : (t + 1) * WIDTH]
            y = values[(t + stride) * WIDTH : (t + stride + 1) * WIDTH]
            _add_into(x, y, odd, tiny, seen)
        stride *= 2
    _add_into(c, values[:WIDTH], odd, tiny, seen)


# ---------------------------------------------------------------- rows: a slab of products onto WIDTH accumulators
@jit(inline=True)
def _add_instruction(c, s, tune, seen):
    """c + s, to nearest in the accumulator's format; `seen` where that is not finite."""
    unit, least, limit = tune[5], tune[3], tune[4]
    for j in range(WIDTH):
        v = np.float64(c[j]) + np.float64(s[j])  # innocuous for 24 bits, exact for fewer
        seen[j] = np.int32(seen[j] | np.int32(not (v - v == 0)))
        c[j] = np.float32(v) if unit == 0 else np.float32(_rounded(v, unit, 0.0, least, limit))


@jit
def early_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    E, X, scale, acc, S, _, _, _, own, _ = scratch
    chunk, unit, cut, least, limit, _, _ = tune
    separate = P[C_IN] == IEEE
    for first in range(0, n, P[DEPTH]):
        if separate:
            own[:] = np.float32(0)
        k = first
        while k < first + P[DEPTH]:
            s = own if separate else c
            how = unit, cut, least, limit
            _early_step(fa, ea, vb, xb, k, s, P, chunk, how, E, X, scale, acc, S, seen)
            k += P[STEP]
        if separate:
            _add_instruction(c, own, tune, seen)


@jit
def late_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    E, X, scale, acc, S, _, Y, T, _, _ = scratch
    chunk, unit, cut, least, limit, _, _ = tune
    half = P[STEP] // P[GROUPS]
    k = 0
    while k < n:
        _group_sum(fa, ea, vb, xb, k, half, P, chunk, E, X, scale, acc, S, seen)
        if P[GROUPS] == 2:
            _group_sum(fa, ea, vb, xb, k + half, half, P, chunk, E, Y, scale, acc, T, seen)
            _join_groups(S, X, T, Y)
        _late_step(c, P, (unit, cut, least, limit), E, X, S, seen)
        k += P[STEP]


@jit
def exact_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    _, _, _, errors, S, _, _, R, own, _ = scratch
    separate = P[C_IN] == IEEE
    for first in range(0, n, P[DEPTH]):
        if separate:
            own[:] = np.float32(-0.0) if P[SIGNED_ZEROS] else np.float32(0)
        k = first
        while k < first + P[DEPTH]:
            _exact_step(fa, vb, k, own if separate else c, P, S, R, errors, seen)
            k += P[STEP]
        if separate:
            for j in range(WIDTH):
                c[j] = c[j] + own[j]


@jit
def chain_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    _chain(fa, vb, 0, n, 1, c, c.dtype.type(tune[6]), seen)


@jit
def evenodd_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    even, odd = scratch[8], scratch[9][:WIDTH]
    tiny = c.dtype.type(tune[6])
    for k in range(0, n, P[STEP]):
        even[:] = np.float32(0)
        odd[:] = np.float32(0)
        _chain(fa, vb, k, k + P[STEP], 2, even, tiny, seen)
        _chain(fa, vb, k + 1, k + P[STEP], 2, odd, tiny, seen)
        _add_into(even, odd, False, tiny, seen)
        _add_into(c, even, False, tiny, seen)


@jit
def tree_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    values, tiny = scratch[9], c.dtype.type(tune[6])
    for k in range(0, n, P[STEP]):
        _tree(fa, vb, k, c, P[STEP], False, tiny, values, seen)


@jit
def odd_tree_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    values, tiny = scratch[9], c.dtype.type(tune[6])
    for k in range(0, n, P[STEP]):
        _tree(fa, vb, k, c, P[STEP], True, tiny, values, seen)


def _scratch(step, slab, dtype):
    """What a loop writes to: packed values and exponents of B, sums, what was seen of them; then what rows use."""
    of = lambda kind, n=1: np.empty(n * WIDTH, kind)  # noqa: E731
    packed = of(dtype, slab), of(np.int16, slab), of(dtype), of(np.int32)
    aligned = of(np.int16), of(np.int32), of(np.float32), of(np.int32), of(np.float64)
    more = of(np.int16), of(np.int32), of(np.float64), of(dtype), of(dtype, step)
    return packed + aligned + more


@functools.cache
def rows_loop(row):
    """The compiled loop over panels, slabs and rows around one of the row functions."""

    @jit
    def loop(fa, ea, b, c, turned, P, tune, start, stop, slab, bad, marks, scratch):
        """c += A @ b for rows start to stop: False if it must not run. bad : of columns. marks : of elements."""
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        fa, ea, P, c = _borrowed(fa), _borrowed(ea), _borrowed(P), _borrowed(c)
        vb, xb, sums, seen = (
            _borrowed(scratch[0]), _borrowed(scratch[1]), _borrowed(scratch[2]), _borrowed(scratch[3]),
        )  # fmt: skip
        rest = (
            _borrowed(scratch[4]), _borrowed(scratch[5]), _borrowed(scratch[6]), _borrowed(scratch[7]),
            _borrowed(scratch[8]), _borrowed(scratch[9]), _borrowed(scratch[10]), _borrowed(scratch[11]),
            _borrowed(scratch[12]), _borrowed(scratch[13]),
        )  # fmt: skip
        n, columns = turned.size, c.shape[1]
        for j in range(0, columns, WIDTH):
            width = min(WIDTH, columns - j)
            for k in range(0, n, slab):
                count = min(slab, n - k)
                _pack_panel(b, turned, k, count, j, width, P[B_EMIN], vb, xb, bad)
                for i in range(start, stop):
                    sums[:] = c.dtype.type(0)
                    seen[:] = np.int32(0)
                    sums[:width] = c[i, j : j + width]
                    fr, er = fa[i, k : k + count], ea[i, k : k + count]
                    row(fr, er, vb, xb, count, sums, P, tune, rest, seen)
                    c[i, j : j + width] = sums[:width]
                    for l in range(width):  # noqa: E741
                        marks[i, j + l] |= seen[l] != 0
        leave_standard_arithmetic(former)
        return True

    return loop


# ---------------------------------------------------------------- choice
def _is(record, fmt):
    return all(record[i] == fmt.record[i] for i in (MANTISSA_BITS, EMIN, MAX_CODE))


def choose(P, records, bits):
    """The row function that is right for an engine, products having so many bits; None where none is."""
    rounded, accumulator = records
    single = _is(accumulator, binary32)
    mode, flush = P[MODE], P[FLUSH_OUT]
    if P[KIND] == FMA:
        return chain_row if mode == EVEN and (single or _is(accumulator, binary64)) else None
    if P[KIND] == EVENODD:
        return evenodd_row if mode == EVEN and single else None
    if P[KIND] == TREE:
        if mode == ODD and flush and single and bits <= EXACT_BITS:
            return odd_tree_row
        return tree_row if mode == EVEN and single else None
    if P[FRACTION] < 0:
        plain = mode == EVEN and single and _is(rounded, binary32) and P[C_IN] != LATE
        return exact_row if plain and not flush and not P[LIMIT] else None
    far = min(P[A_EMIN], P[B_EMIN], accumulator[EMIN]) < -126
    if far or flush or P[SIGNED_ZEROS] or P[DOWN] or mode not in (EVEN, ZERO) or bits > EXACT_BITS:
        return None
    if chunk_size(P) < 1:
        return None
    if P[C_IN] == LATE:
        return late_row if P[LOWEST] <= NO_EXPONENT else None
    return early_row


def chunk_size(P):
    """How many integers below 2**(F + 2), cut products, an int32 can sum."""
    return int((1 << SUM_BITS) >> (P[FRACTION] + 2)) if P[FRACTION] >= 0 else 1


def tuning(P, records):
    """The numbers that row functions read: see _rounded; the unit of the accumulator, and the number to flush below."""
    rounded, accumulator = (record.tolist() for record in records)
    bits = rounded[MANTISSA_BITS]
    largest = (accumulator[MAX_CODE] >> accumulator[MANTISSA_BITS]) - 1 + accumulator[EMIN]
    unit = (
        0.0
        if accumulator[MANTISSA_BITS] == 23
        else math.ldexp(1.0, 52 - accumulator[MANTISSA_BITS])
    )
    return (
        chunk_size(P),
        math.ldexp(1.0, 52 - bits),
        0.0 if P[MODE] == EVEN else math.ldexp(1.0, -bits),
        np.uint64((accumulator[EMIN] + 1023) << 52),
        math.ldexp(1.0, largest + 1) if largest < 1023 else np.inf,
        unit,
        math.ldexp(1.0, accumulator[EMIN]) if P[FLUSH_OUT] else -1.0,
    )


def _turned(P, order, n):
    """The place in memory of each product in the order of the loops; those that do not exist have n and more."""
    depth = P[DEPTH]
    places = order
    if P[GROUPS] == 2:
        steps = order.reshape(-1, P[STEP])
        places = np.concatenate([steps[:, 0::2], steps[:, 1::2]], axis=1).reshape(-1)
    firsts = np.arange(0, n, depth)
    return (firsts[:, None] + places[None, :]).reshape(-1)


def _flush(x, emin):
    return np.where(np.abs(x) < math.ldexp(1.0, int(emin)), np.copysign(x.dtype.type(0), x), x)


def _fast_product(row, P, order, records, a, b, c):
    """(c + a @ b, which elements are to be formed anew), or None where the loops must not run."""
    if P[FLUSH_IN]:
        a, b = _flush(a, P[A_EMIN]), _flush(b, P[B_EMIN])
    a, b = _plain(a), _plain(b)
    c = _plain(_flush(c, P[C_EMIN])) if P[FLUSH_OUT] else c.copy()
    m, n = c.shape
    turned = _turned(P, order, a.shape[1])
    depth = int(P[DEPTH])
    slab = max(1, SLAB // depth) * depth
    values, exponents = np.empty((m, turned.size), c.dtype), np.empty((m, turned.size), np.int16)
    bad_rows, bad_columns = np.zeros(m, np.bool_), np.zeros(n, np.bool_)
    marks = np.zeros((m, n), np.bool_)
    _pack_rows(a, turned, P[A_EMIN], values, exponents, bad_rows)
    tune, loop, done = tuning(P, records), rows_loop(row), []
    unit = max(1, n * turned.size // PRODUCTS_PER_UNIT)

    def task(first, stop):
        start, end = -(-first // unit), -(-stop // unit)
        if start < end:
            scratch = _scratch(int(P[STEP]), slab, c.dtype)
            ran = loop(
                values, exponents, b, c, turned, P, tune, start, end, slab, bad_columns, marks, scratch
            )  # fmt: skip
            done.append(ran)

    run_chunks(task, m * unit, UNITS_AT_ONCE)
    if not all(done):
        return None
    if row in (early_row, late_row):
        marks |= bad_rows[:, None] | bad_columns[None, :]
    return c, marks


def engine_product(P, order, records, bits, a, b, c):
    """c + a @ b for matrices of values in the accumulator's carrier, as an engine forms it.

    P, order, records : its parameters, as softfloat.ops.engine reads them.   bits : of a product's significand.
    """
    if b.shape[1] < min(a.shape[0], WIDTH):  # panels are wide: let the longer side be their columns
        P = P.copy()
        P[A_EMIN], P[B_EMIN] = P[B_EMIN], P[A_EMIN]
        return engine_product(P, order, records, bits, b.T, a.T, c.T).T
    row = choose(P, records, bits)
    found = None
    if row is not None and a.shape[1] and c.size:
        found = _fast_product(row, P, order, records, a, b, c)
    out, marks = (np.empty(c.shape, c.dtype), np.ones(c.shape, bool)) if found is None else found
    elements = np.flatnonzero(marks)
    if elements.size:
        found = define(P, order, records, a, b, c, elements)
        out.reshape(-1)[elements] = converted(found, out.dtype)
    make_nans_canonical(out.reshape(-1))
    return out
