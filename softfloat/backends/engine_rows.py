"""Steps of matrix engines on rows of WIDTH accumulators: vector loops, each with the domain in which it is right.

A loop marks, in `seen`, the accumulators that leave its domain: softfloat.ops.engine then forms them anew.

fused : products are exact in float32 (significands of at most 23 bits together), the power of two that aligns them is
    exact, conversion to integers cuts them, int32 sums them; the step ends in float64, where the sum is exact. Marked:
    operands that are not finite, E outside F - 126 .. 125 (without products and c, nothing is marked).
grouped : a fused step whose groups of products are exact in float32, aligned and summed in float64. Marked: the same,
    and E above 112.
exact : a fused step without cut, by float64 sums with their errors. Marked: more than one error in a step.
fma, evenodd, tree : the processor's own float32 or float64 operations, subnormal results flushed by comparison.
    Marked: results equal to the smallest normal (they may come from below) where they are flushed; where rounding is to
    odd, results from 2**127 on.
"""

import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import (
    binade,
    fma,
    magnitude,
    or_,
    shr,
    sign_bit,
    to_bits,
    to_float,
    umax,
    zero_like,
)
from softfloat.ops.engine import (
    C_EMIN,
    C_IN,
    DEPTH,
    FRACTION,
    FRACTION_C,
    FRACTION_P,
    GROUP,
    GROUPS,
    IEEE,
    LOWEST,
    REACH,
    SIGNED_ZEROS,
    STEP,
)
from softfloat.ops.error_free import to_odd, two_sum

WIDTH = 128  # accumulators of a row, the columns of a panel
ZERO_EXPONENT = -8000  # of a zero operand: no sum of two exponents comes near
NO_EXPONENT = -4000  # below: all terms are zero
FAR = np.float32(2.0**127)  # to-odd sums from here on are left to the definition
HIGHEST = 125  # of E: products below 2**(E + 2) stay finite
HIGHEST_OF_GROUPS = 112  # the same of sums below 2**(E + 15)


@jit(inline=True)
def exponent_of(x, emin):
    """The exponent of a float32, at least emin (an int32); ZERO_EXPONENT of a zero."""
    # By integers: a processor that flushes subnormals would take them for zeros.
    m = magnitude(to_bits(x))
    e = np.int32(np.int32(shr(m, np.uint32(23))) - np.int32(127))
    e = e if e > emin else emin
    return np.int16(e) if m != zero_like(m) else np.int16(ZERO_EXPONENT)


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
        E[j] = exponent_of(c[j], least)


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
def _group_sums(fa, ea, vb, xb, k, P, E, values):
    """Sums of groups of products into `values`; E is raised to the exponents of those that are not zero."""
    for g in range(P[STEP] // P[GROUP]):
        v, first = values[g * WIDTH : (g + 1) * WIDTH], k + g * P[GROUP]
        v[:] = np.float32(0)
        for l in range(first, first + P[GROUP]):  # noqa: E741
            x, f = vb[l * WIDTH : (l + 1) * WIDTH], fa[l]
            for j in range(WIDTH):
                v[j] = fma(f, x[j], v[j])
        exponents, own = xb[first * WIDTH : (first + 1) * WIDTH], ea[first]
        for j in range(WIDTH):
            e = np.int16(own + exponents[j])
            e = e if v[j] != np.float32(0) else np.int16(2 * ZERO_EXPONENT)
            E[j] = E[j] if E[j] > e else e


@jit(inline=True)
def _cut(x):
    """x cut to an integer, toward zero; a float64."""
    return math.copysign(np.floor(abs(x)), x)


@jit(inline=True)
def _group_step(fa, ea, vb, xb, k, c, P, how, E, X, scale, S, values, seen):
    """One fused step of a row of accumulators c and of groups of products that are summed exactly."""
    F = np.int32(P[FRACTION])
    _begin(c, P[C_EMIN], E)
    _group_sums(fa, ea, vb, xb, k, P, E, values)
    _choose_scales(E, F, P[LOWEST], X, scale, seen)
    for j in range(WIDTH):
        seen[j] = np.int32(seen[j] | np.int32(X[j] > np.int32(HIGHEST_OF_GROUPS)))
        S[j] = _cut(np.float64(c[j]) * np.float64(scale[j]))
    for g in range(P[STEP] // P[GROUP]):
        v = values[g * WIDTH : (g + 1) * WIDTH]
        for j in range(WIDTH):
            S[j] += _cut(np.float64(v[j]) * np.float64(scale[j]))
    unit, cut, least, limit = how
    for j in range(WIDTH):
        c[j] = np.float32(_rounded(S[j] * _power(np.int32(X[j] - F)), unit, cut, least, limit))


@jit(inline=True)
def _add_exactly(s, rest, errors, product):
    """s + product, with what the sum loses: rest keeps the last such error, `errors` counts them."""
    s, error = two_sum(s, product)
    inexact = (error > 0) | (error < 0)
    return s, error if inexact else rest, np.int32(errors + np.int32(inexact))


@jit(inline=True)
def _round_once(s, rest, signed):
    """s + rest as a float32; a zero is +0 unless it has IEEE's sign."""
    s, error = two_sum(s, rest)
    y = np.float32(to_odd(s, error))
    return y if signed else y + np.float32(0)


@jit(inline=True)
def _exact_pair(fa, vb, k, c, signed, seen):
    """`_exact_step` for two products: nothing leaves the registers."""
    x0, x1 = vb[k * WIDTH : (k + 1) * WIDTH], vb[(k + 1) * WIDTH : (k + 2) * WIDTH]
    f0, f1 = np.float64(fa[k]), np.float64(fa[k + 1])
    for j in range(WIDTH):
        s, rest, count = np.float64(c[j]), 0.0, np.int32(0)
        s, rest, count = _add_exactly(s, rest, count, f0 * np.float64(x0[j]))
        s, rest, count = _add_exactly(s, rest, count, f1 * np.float64(x1[j]))
        seen[j] = np.int32(seen[j] | np.int32(count > np.int32(1)))
        c[j] = _round_once(s, rest, signed)


@jit(inline=True)
def _exact_step(fa, vb, k, c, P, S, R, errors, seen):
    """One step of accumulators c of binary32 that are rounded once, to nearest, nothing being cut."""
    for j in range(WIDTH):
        S[j] = np.float64(c[j])
        R[j] = 0.0
        errors[j] = np.int32(0)
    for l in range(k, k + P[STEP]):  # noqa: E741
        x, f = vb[l * WIDTH : (l + 1) * WIDTH], np.float64(fa[l])
        for j in range(WIDTH):
            S[j], R[j], errors[j] = _add_exactly(S[j], R[j], errors[j], f * np.float64(x[j]))
    signed = P[SIGNED_ZEROS] != 0
    for j in range(WIDTH):
        seen[j] = np.int32(seen[j] | np.int32(errors[j] > np.int32(1)))
        c[j] = _round_once(S[j], R[j], signed)


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
        s, error = two_sum(x, y)
        s = to_odd(s, error)
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
def group_row(fa, ea, vb, xb, n, c, P, tune, scratch, seen):
    E, X, scale, _, S, _, _, _, own, values = scratch
    _, unit, cut, least, limit, _, _ = tune
    how = unit, cut, least, limit
    separate = P[C_IN] == IEEE
    for first in range(0, n, P[DEPTH]):
        if separate:
            own[:] = np.float32(0)
        k = first
        while k < first + P[DEPTH]:
            s = own if separate else c
            _group_step(fa, ea, vb, xb, k, s, P, how, E, X, scale, S, values, seen)
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
            s = own if separate else c
            if P[STEP] == 2:
                _exact_pair(fa, vb, k, s, P[SIGNED_ZEROS] != 0, seen)
            else:
                _exact_step(fa, vb, k, s, P, S, R, errors, seen)
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
