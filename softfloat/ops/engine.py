"""Matrix engines (tensor cores and their like): the definition, in exact integers, of c + the sum of a[k] * b[k].

An instruction takes K products, in its own order, in steps of L. What a step does to the accumulator c:

fused : the products and c are aligned to the largest exponent E among them, cut below 2**(E - F), added, and rounded
    once. The exponent of a product is e(a) + e(b), not renormalised, e clamped at the emin of the operand's format.
    c takes part (early), or is aligned with the sum of the products in a second step (late), or each instruction
    begins at +0 and its result is added to c by one rounded addition (ieee). F < 0 stands for no cut.
tree : each product is rounded, the L products are added pairwise, then c is added; every operation rounded.
fma : a chain of fused multiply-adds.
evenodd : two chains of fused multiply-adds from +0, of even and of odd k; their sum is added to c.

Kind fused may have scales: number k of a row stands for itself times the scale of its block. The scales of a product
multiply it and add their exponents to its own; or, with groups, so many consecutive products are summed exactly first,
and that sum times its two scales has the exponent of the scales alone.

Products that an instruction has room for but the operands lack are +0 times +0, without scales. Overflow gives
infinity in every mode. NaN and infinity come out as of the exact sum. Numbers are the bits of float64 values, as signed
integers.

Source: Fasi, Higham, Mikaitis, Pranesh, Numerical Behavior of NVIDIA Tensor Cores (2021); Khattak, Mikaitis, Accurate
Models of NVIDIA Tensor Cores (2026); Xie et al., MMA-Sim (2025).
"""

import numpy as np

from softfloat._jit import jit
from softfloat.bits import bit_length, i64
from softfloat.codec import to_carrier, unpack
from softfloat.format import INFINITY_CODE
from softfloat.ops.arithmetic import add_parts, fma_parts
from softfloat.rounding import (
    EVEN,
    FINITE_CLASS,
    INFINITE_CLASS,
    NAN,
    NO_SATURATION,
    OVERFLOWED,
    QUIET_CLASS,
    VARIANT_A,
    WORD,
    ZERO_CLASS,
    round_number,
)

# Entries of the parameters. LIMIT: products from 2**128 on are infinite. REACH: c is dropped if its exponent is lower
# than the common one by more (negative: never). SCALE_BITS: the precision of scales, or 0. GROUP: 0, or how many
# products are summed, in units of 2**UNIT, before they are aligned.
(
    KIND,
    STEP,
    DEPTH,
    FRACTION,
    DOWN,
    C_IN,
    FRACTION_P,
    FRACTION_C,
    REACH,
    LOWEST,
    GROUPS,
    A_EMIN,
    B_EMIN,
    C_EMIN,
    FLUSH_IN,
    FLUSH_OUT,
    LIMIT,
    SIGNED_ZEROS,
    MODE,
    SCALE_BITS,
    SCALE_EMIN,
    GROUP,
    UNIT,
) = range(23)
PARAMETERS = 23
FUSED, TREE, FMA, EVENODD = range(4)
EARLY, LATE, IEEE = range(3)
ONLY_ROUNDED, TO_ACCUMULATOR = range(2)  # formats: of a fused step's result; of the accumulator
NONE = -(1 << 20)  # the exponent of a zero
SIGN = -(1 << 63)
LIMIT_EXPONENT = 128
# What was seen among the terms of a sum.
SAW_NAN, SAW_PLUS, SAW_MINUS, SAW_OTHER = 1, 2, 4, 8  # OTHER: anything but -0
# A sum without cut is kept in limbs of 32 bits, the first of weight 2**-BASE: enough for products of float32 values.
BASE, LIMBS, LIMB, LIMB_MASK = 320, 24, 32, (1 << 32) - 1
PIECE = 24  # bits of a significand that are added at a time
SCALE_PIECE = 4  # bits of the significand of a scale


@jit
def workspace(step):
    """Significands, exponents of their last places, exponents, and limbs of a sum, for steps of so many products."""
    return (
        np.zeros(step + 1, np.int64),
        np.zeros(step + 1, np.int64),
        np.zeros(step + 1, np.int64),
        np.zeros(LIMBS, np.int64),
    )


# ---------------------------------------------------------------- rounding
@jit
def finish(negative, exponent, high, low, F, mode, signed_zeros):
    """The bits of an exact non-zero number, rounded; overflow gives infinity in every mode."""
    code, flags = round_number(
        negative, exponent, high, low, F, mode, NO_SATURATION, 0, 24, VARIANT_A
    )
    if flags & OVERFLOWED:
        code = F[INFINITY_CODE]
    return i64(to_carrier(negative and (code != 0 or signed_zeros), code, F, 52, 11))


@jit
def special(negative, kind, F):
    """The bits of a zero, an infinity or a NaN."""
    code = 0 if kind == ZERO_CLASS else F[INFINITY_CODE] if kind == INFINITE_CLASS else NAN
    return i64(to_carrier(negative and kind <= INFINITE_CLASS, code, F, 52, 11))


@jit
def add(x, y, F, mode):
    """x + y, rounded."""
    cx, nx, ex, hx = unpack(x, 52, 11)
    cy, ny, ey, hy = unpack(y, 52, 11)
    kind, negative, exponent, high, low, _ = add_parts(cx, nx, ex, hx, cy, ny, ey, hy, mode)
    if kind == FINITE_CLASS:
        return finish(negative, exponent, high, low, F, mode, True)
    return special(negative, kind, F)


@jit
def fma(x, y, z, F, mode):
    """x * y + z, rounded once."""
    cx, nx, ex, hx = unpack(x, 52, 11)
    cy, ny, ey, hy = unpack(y, 52, 11)
    cz, nz, ez, hz = unpack(z, 52, 11)
    kind, negative, exponent, high, low, _ = fma_parts(
        cx, nx, ex, hx, cy, ny, ey, hy, cz, nz, ez, hz, mode
    )
    if kind == FINITE_CLASS:
        return finish(negative, exponent, high, low, F, mode, True)
    return special(negative, kind, F)


@jit
def multiply(x, y, F, mode):
    """x * y, rounded: the sum with a zero of the product's own sign."""
    return fma(x, y, (x ^ y) & SIGN, F, mode)


@jit
def flushed(x, emin):
    """x, or a zero of its sign where it is below 2**emin."""
    return x & SIGN if (x & ~SIGN) >> 52 < emin + 1023 else x


# ---------------------------------------------------------------- operands
@jit
def operand(x, i, k, n, emin, P):
    """Number k of row i, +0 beyond the end."""
    if k >= n:
        return i64(0)
    return flushed(x[i * n + k], emin) if P[FLUSH_IN] else x[i * n + k]


@jit
def cut(s, q, grid, down):
    """s * 2**q in units of 2**grid, the rest cut off: toward -infinity, or toward zero."""
    if q >= grid:
        return s << (q - grid)
    if grid - q >= WORD:
        return -1 if down and s < 0 else 0
    if down or s >= 0:
        return s >> (grid - q)
    return -(-s >> (grid - q))


@jit
def product(X, i, j, k, n, P):
    """Product number k, without scales: (what was seen of it, significand, exponent of its last place, exponent)."""
    cx, nx, ex, hx = unpack(operand(X[0], i, k, n, P[A_EMIN], P), 52, 11)
    cy, ny, ey, hy = unpack(operand(X[1], j, k, n, P[B_EMIN], P), 52, 11)
    negative = nx != ny
    if cx > INFINITE_CLASS or cy > INFINITE_CLASS:
        return SAW_NAN, 0, 0, NONE
    if cx == INFINITE_CLASS or cy == INFINITE_CLASS:
        undefined = cx == ZERO_CLASS or cy == ZERO_CLASS
        return (SAW_NAN if undefined else SAW_MINUS if negative else SAW_PLUS), 0, 0, NONE
    if cx == ZERO_CLASS or cy == ZERO_CLASS:
        return (0 if negative else SAW_OTHER), 0, 0, NONE
    seen = SAW_OTHER
    s = (hx >> (WORD - PIECE)) * (hy >> (WORD - PIECE))
    q = ex + ey - 2 * (PIECE - 1)
    if P[LIMIT] and bit_length(s) - 1 + q >= LIMIT_EXPONENT:
        seen |= SAW_MINUS if negative else SAW_PLUS
    return seen, -s if negative else s, q, max(ex, P[A_EMIN]) + max(ey, P[B_EMIN])


@jit
def scaled(seen, s, q, e, X, i, j, k, n, P):
    """A product or a sum of products, of exponent e, times the scales of number k: as `product` gives it."""
    cx, _, ex, hx = unpack(X[2][i * n + k], 52, 11)
    cy, _, ey, hy = unpack(X[3][j * n + k], 52, 11)
    zero = cx == ZERO_CLASS or cy == ZERO_CLASS
    infinite = seen & (SAW_PLUS | SAW_MINUS) != 0
    if cx > INFINITE_CLASS or cy > INFINITE_CLASS or (zero and infinite):
        return seen | SAW_NAN, 0, 0, NONE
    if zero or s == 0:
        return seen, 0, 0, NONE
    s *= (hx >> (WORD - SCALE_PIECE)) * (hy >> (WORD - SCALE_PIECE))
    e += max(ex, P[SCALE_EMIN]) + max(ey, P[SCALE_EMIN])
    return seen, s, q + ex + ey - 2 * (SCALE_PIECE - 1), e


@jit
def read_products(X, i, j, n, first, turn, order, P, work):
    """Put the products of a step into the workspace: what was seen among them."""
    S, Q, E, _ = work
    seen = 0
    for t in range(P[STEP]):
        k = first + order[turn + t]
        saw, s, q, e = product(X, i, j, k, n, P)
        if P[SCALE_BITS] > 0 and k < n:
            saw, s, q, e = scaled(saw, s, q, e, X, i, j, k, n, P)
        seen |= saw
        S[t], Q[t], E[t] = s, q, e
    return seen


@jit
def read_groups(X, i, j, n, first, turn, order, P, work):
    """The same where products are summed in groups: each sum takes the place of its first product."""
    S, Q, E, _ = work
    seen = 0
    for g in range(0, P[STEP], P[GROUP]):
        total, saw = 0, 0
        for t in range(g, g + P[GROUP]):
            found, s, q, _ = product(X, i, j, first + order[turn + t], n, P)
            saw |= found
            total += cut(s, q, P[UNIT], False)
            S[t], Q[t], E[t] = 0, 0, NONE
        k = first + order[turn + g]
        if k < n:
            saw, S[g], Q[g], E[g] = scaled(saw, total, P[UNIT], 0, X, i, j, k, n, P)
        seen |= saw
    return seen


@jit
def read_c(c, P, work):
    """Put the accumulator behind the products: what was seen."""
    S, Q, E, _ = work
    t = P[STEP]
    kind, negative, exponent, high = unpack(c, 52, 11)
    S[t], Q[t], E[t] = 0, 0, NONE
    if kind > INFINITE_CLASS:
        return SAW_NAN
    if kind == INFINITE_CLASS:
        return SAW_MINUS if negative else SAW_PLUS
    if kind == ZERO_CLASS:
        return 0 if negative else SAW_OTHER
    s = high >> (WORD - PIECE)
    S[t], Q[t], E[t] = -s if negative else s, exponent - (PIECE - 1), max(exponent, P[C_EMIN])
    return SAW_OTHER


# ---------------------------------------------------------------- sums
@jit
def aligned_sum(first, stop, stride, F, down, lowest, work):
    """(sum in units of 2**(E - F), E) of some terms, aligned to the largest exponent E, at least `lowest`.

    E is NONE if all are zero.
    """
    S, Q, E, _ = work
    top = NONE
    for t in range(first, stop, stride):
        top = max(top, E[t])
    if top == NONE:
        return 0, NONE
    top = max(top, lowest)
    total = 0
    for t in range(first, stop, stride):
        if S[t] != 0:
            total += cut(S[t], Q[t], top - F, down)
    return total, top


@jit
def join(s, q, grid_s, t, r, grid_t, down):
    """s * 2**q and t * 2**r, each cut at its own grid, added in units of the finer grid."""
    grid = min(grid_s, grid_t)
    total = 0
    if s != 0:
        total += cut(s, q, grid_s, down) << (grid_s - grid)
    if t != 0:
        total += cut(t, r, grid_t, down) << (grid_t - grid)
    return total


@jit
def late_sum(P, work):
    """(sum, exponent of its unit) of a step that takes c in after the products."""
    S, Q, E, _ = work
    n, F = P[STEP], P[FRACTION]
    if P[GROUPS] == 1:
        s, top = aligned_sum(0, n, 1, F, P[DOWN], P[LOWEST], work)
    else:
        s0, top0 = aligned_sum(0, n, 2, F, P[DOWN], P[LOWEST], work)
        s1, top1 = aligned_sum(1, n, 2, F, P[DOWN], P[LOWEST], work)
        top = max(top0, top1)
        grid = top - F
        s = join(s0, top0 - F, grid, s1, top1 - F, grid, True)
    both = max(top, E[n])
    if both == NONE:
        return 0, 0
    c = S[n]
    if P[REACH] >= 0 and E[n] < both - P[REACH]:
        c = 0
    grid_p, grid_c = both - P[FRACTION_P], both - P[FRACTION_C]
    s = join(s, top - F, grid_p, c, Q[n], grid_c, True)
    return s, min(grid_p, grid_c)


@jit
def long_sum(count, work):
    """The exact sum of `count` terms: (negative, exponent, high, low) of it, high = 0 if it is zero."""
    S, Q, _, limbs = work
    limbs[:] = 0
    for t in range(count):
        m = abs(S[t])
        for piece in range(2):
            position = Q[t] + BASE + PIECE * piece
            part = ((m >> (PIECE * piece)) & ((1 << PIECE) - 1)) << (position % LIMB)
            if part != 0:
                sign = -1 if S[t] < 0 else 1
                limbs[position // LIMB] += sign * (part & LIMB_MASK)
                limbs[position // LIMB + 1] += sign * (part >> LIMB)
    negative = carry_over(limbs)
    if negative:
        for l in range(LIMBS):  # noqa: E741
            limbs[l] = -limbs[l]
        carry_over(limbs)
    top = LIMBS - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return False, 0, 0, 0
    width = bit_length(limbs[top])
    high, missing, rest = limbs[top] << (WORD - width), WORD - width, 0
    for l in range(top - 1, -1, -1):  # noqa: E741
        taken = min(missing, LIMB)
        high |= (limbs[l] >> (LIMB - taken)) << (missing - taken)
        rest |= limbs[l] & ((1 << (LIMB - taken)) - 1)
        missing -= taken
    return negative, LIMB * top + width - 1 - BASE, high, 1 if rest != 0 else 0


@jit
def carry_over(limbs):
    """Bring all limbs but the last into 0..2**32 - 1: whether the whole is negative."""
    for l in range(LIMBS - 1):  # noqa: E741
        limbs[l + 1] += limbs[l] >> LIMB
        limbs[l] &= LIMB_MASK
    return limbs[LIMBS - 1] < 0


# ---------------------------------------------------------------- steps
@jit
def fused_step(X, i, j, n, first, turn, order, c, P, F, work):
    """One step of kind fused: the accumulator's new bits."""
    seen = read_c(c, P, work)
    if P[GROUP] > 0:
        seen |= read_groups(X, i, j, n, first, turn, order, P, work)
    else:
        seen |= read_products(X, i, j, n, first, turn, order, P, work)
    result = F[ONLY_ROUNDED]
    both = SAW_PLUS | SAW_MINUS
    if seen & SAW_NAN != 0 or seen & both == both:
        return special(False, QUIET_CLASS, result)
    if seen & both != 0:
        return special(seen & SAW_MINUS != 0, INFINITE_CLASS, result)
    count = P[STEP] + 1
    if P[FRACTION] < 0:
        negative, exponent, high, low = long_sum(count, work)
    else:
        if P[C_IN] == LATE:
            s, unit = late_sum(P, work)
        else:
            s, top = aligned_sum(0, count, 1, P[FRACTION], P[DOWN], P[LOWEST], work)
            unit = top - P[FRACTION]
        width = bit_length(abs(s))
        negative, exponent, low = s < 0, unit + width - 1, 0
        high = abs(s) << (WORD - width) if width > 0 else 0
    if high == 0:
        # -0 only if every term is: a sum of +0 alone, or one that cancels or is cut to nothing, is +0.
        return special(P[SIGNED_ZEROS] != 0 and seen & SAW_OTHER == 0, ZERO_CLASS, result)
    return finish(negative, exponent, high, low, result, P[MODE], P[SIGNED_ZEROS] != 0)


@jit
def tree_step(X, i, j, n, first, turn, order, c, P, F, work):
    """One step of kind tree."""
    values = work[0]
    count, mode, accumulator = P[STEP], P[MODE], F[TO_ACCUMULATOR]
    for t in range(count):
        k = first + order[turn + t]
        x, y = operand(X[0], i, k, n, P[A_EMIN], P), operand(X[1], j, k, n, P[B_EMIN], P)
        values[t] = multiply(x, y, accumulator, mode)
    while count > 1:
        for t in range(count // 2):
            values[t] = add(values[2 * t], values[2 * t + 1], accumulator, mode)
        if count % 2:
            values[count // 2] = values[count - 1]
        count = (count + 1) // 2
    return add(c, values[0], accumulator, mode)


@jit
def chain(X, i, j, n, first, start, stop, stride, order, c, P, F):
    """Fused multiply-adds onto c."""
    for t in range(start, stop, stride):
        k = first + order[t]
        x, y = operand(X[0], i, k, n, P[A_EMIN], P), operand(X[1], j, k, n, P[B_EMIN], P)
        c = fma(x, y, c, F[TO_ACCUMULATOR], P[MODE])
    return c


@jit
def step(X, i, j, n, first, turn, order, c, P, F, work):
    """Products turn to turn + L of the instruction that begins at product `first`."""
    stop = turn + P[STEP]
    if P[KIND] == FUSED:
        return fused_step(X, i, j, n, first, turn, order, c, P, F, work)
    if P[KIND] == TREE:
        return tree_step(X, i, j, n, first, turn, order, c, P, F, work)
    if P[KIND] == FMA:
        return chain(X, i, j, n, first, turn, stop, 1, order, c, P, F)
    even = chain(X, i, j, n, first, turn, stop, 2, order, i64(0), P, F)
    odd = chain(X, i, j, n, first, turn + 1, stop, 2, order, i64(0), P, F)
    both = add(even, odd, F[TO_ACCUMULATOR], P[MODE])
    return add(c, both, F[TO_ACCUMULATOR], P[MODE])


@jit
def engine_dot(X, i, j, n, c, order, P, F, work):
    """c + sum of a[i, k] * b[j, k] over the n numbers of a row, as the engine forms it: bits.

    X : a, b and the scales of all their numbers (empty without scales).   order : the place in memory of each product
    of an instruction.   P : the parameters.   F : records of the formats of a step's result and of the accumulator.
    work : from `workspace`.
    """
    if P[FLUSH_OUT] and n > 0:
        c = flushed(c, P[C_EMIN])
    for first in range(0, n, P[DEPTH]):
        s = (SIGN if P[SIGNED_ZEROS] else 0) if P[C_IN] == IEEE else c  # a zero that changes no sum
        for turn in range(0, P[DEPTH], P[STEP]):
            s = step(X, i, j, n, first, turn, order, s, P, F, work)
        c = add(c, s, F[TO_ACCUMULATOR], EVEN) if P[C_IN] == IEEE else s
    return c
