"""Sums over the rows of a matrix by vector kernels, every addition rounded."""

import numpy as np
from numba import types
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.contract import (
    RANGE_INSTRUCTION,
    WIDTH,
    WORD,
    _constant,
    _load,
    _store,
)
from softfloat.bits import (
    UNKNOWN,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
    magnitude,
    or_,
    to_bits,
    umax,
    umin,
)
from softfloat.ops.linalg import (
    CONSTANTS,
    FLOAT,
    GRID,
    LARGEST,
    SMALLEST_NORMAL,
    Vectors,
    watched_sum,
)

SUM_VECTORS = 4  # accumulators of a sum over rows, enough to hide the latency of the additions
SUM_DEPTH = 32  # rows added before the next columns are looked at
SPARE_DEPTH = 128  # rows copied at a time where columns are too few for a vector
SUM_PANEL = SUM_VECTORS * WIDTH


@intrinsic
def _sum_tile(context, x, stride, n, sums, seen, constants):
    """sums += n rows of SUM_PANEL numbers at x, `stride` numbers apart, every sum rounded.

    All but stride and n are addresses. seen : three vectors of integers, as watched_sum keeps them.
    """

    def generate(context, builder, signature, arguments):
        v = Vectors(builder, WIDTH, RANGE_INSTRUCTION)
        x, stride, n, sums, seen, constants = arguments
        numbers = FLOAT.as_pointer()
        x, sums, seen, constants = (
            builder.inttoptr(a, numbers) for a in (x, sums, seen, constants)
        )
        loaded = [
            v.splat(builder.load(builder.gep(constants, [_constant(j)]))) for j in range(CONSTANTS)
        ]
        places = [[_constant(j * WIDTH)] for j in range(SUM_VECTORS)]
        targets = [builder.gep(sums, place) for place in places]
        targets += [builder.gep(seen, place) for place in places[:3]]
        kinds = [v.floats] * SUM_VECTORS + [v.integers] * 3
        begin = [_load(builder, t, kind, 4) for t, kind in zip(targets, kinds, strict=True)]
        before = builder.block
        loop, after = builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(WORD)
        k.add_incoming(_constant(0), before)
        running = [builder.phi(kind) for kind in kinds]
        for phi, initial in zip(running, begin, strict=True):
            phi.add_incoming(initial, before)
        row = builder.gep(x, [builder.mul(k, stride)])
        done, marks = [], running[SUM_VECTORS:]
        for acc, place in zip(running[:SUM_VECTORS], places, strict=True):
            number = _load(builder, builder.gep(row, place), v.floats, 4)
            total, marks = watched_sum(v, acc, number, marks, loaded)
            done.append(total)
        done += marks
        following = builder.add(k, _constant(1))
        k.add_incoming(following, loop)
        for phi, value in zip(running, done, strict=True):
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
        builder.position_at_end(after)
        for target, value in zip(targets, done, strict=True):
            _store(builder, value, target, 4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


@jit
def _hold(X, first, stop, columns, constants):
    """Whether all numbers of a block lie on the grid of the format and within its range."""
    words = constants.view(np.uint32)
    largest, smallest, grid = words[LARGEST], words[SMALLEST_NORMAL], constants[GRID]
    infinity = np.uint32(0x7F800000)
    stray = np.uint32(0)
    for k in range(first, stop):
        row = X[k, :columns]
        for j in range(row.size):
            x = row[j]
            m = magnitude(to_bits(x))
            stray = or_(stray, m if (m > largest) & (m < infinity) else np.uint32(0))
            off = ((x + grid) - grid) != x
            stray = or_(stray, m if (m < smallest) & off else np.uint32(0))
    return stray == 0


@jit
def _all_values(X, first, stop, columns, seen, constants):
    """Whether a block of which this was seen holds values of the format only; `seen` begins anew."""
    words = constants.view(np.uint32)
    digits = np.uint32(0)
    high = np.uint32(0)
    low = np.uint32(0xFFFFFFFF)
    for j in range(WIDTH):
        digits = or_(digits, seen[j])
        high = umax(high, seen[WIDTH + j])
        low = umin(low, seen[2 * WIDTH + j])
    seen[: 2 * WIDTH] = np.uint32(0)
    seen[2 * WIDTH :] = np.uint32(0xFFFFFFFF)
    if digits != 0:
        return False
    ordinary = high <= words[LARGEST] and low + np.uint32(1) >= words[SMALLEST_NORMAL]
    return ordinary or _hold(X, first, stop, columns, constants)


@jit
def _add_whole_panels(X, n, S, seen, constants):
    """`add_rows` for n rows and as many columns as S has, a multiple of SUM_PANEL."""
    stride = X.strides[0] // 4
    for k in range(0, n, SUM_DEPTH):
        stop = min(n, k + SUM_DEPTH)
        for j in range(0, S.size, SUM_PANEL):
            _sum_tile(
                X.ctypes.data + 4 * (k * stride + j), stride, stop - k, S.ctypes.data + 4 * j,
                seen.ctypes.data, constants.ctypes.data,
            )  # fmt: skip
        if not _all_values(X, k, stop, S.size, seen, constants):
            return False
    return True


@jit
def add_rows(X, S, constants):
    """S = S + X[k] for k = 0, 1, ..., every sum rounded; False, S void, if X holds what is no value of the format.

    X : float32, the numbers of a row side by side.
    """
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return False
    n, columns = X.shape
    whole = columns - columns % SUM_PANEL
    seen = np.zeros(3 * WIDTH, np.uint32)
    seen[2 * WIDTH :] = np.uint32(0xFFFFFFFF)
    good = whole == 0 or _add_whole_panels(X, n, S[:whole], seen, constants)
    rest = columns - whole
    if rest > 0:
        spare = np.zeros((SPARE_DEPTH, SUM_PANEL), np.float32)
        last = np.zeros(SUM_PANEL, np.float32)
        last[:rest] = S[whole:]
        for k in range(0, n, SPARE_DEPTH):
            depth = min(SPARE_DEPTH, n - k)
            for i in range(depth):
                for j in range(rest):
                    spare[i, j] = X[k + i, whole + j]
            good = good and _add_whole_panels(spare, depth, last, seen, constants)
        S[whole:] = last[:rest]
    leave_standard_arithmetic(former)
    return good
