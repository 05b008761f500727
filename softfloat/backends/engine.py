"""Matrix products as matrix engines form them: vector loops over the columns of a panel, and the definition.

The loops (engine_rows) mark the elements that leave their domain, and the definition (softfloat.ops.engine) forms them
anew. So the choice decides the speed only, and no result depends on the threads.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import cast, make_nans_canonical
from softfloat.backends.engine_rows import (
    NO_EXPONENT,
    WIDTH,
    ZERO_EXPONENT,
    chain_row,
    early_row,
    evenodd_row,
    exact_row,
    exponent_of,
    group_row,
    late_row,
    odd_tree_row,
    tree_row,
)
from softfloat.backends.threads import run_chunks
from softfloat.bits import (
    UNKNOWN,
    borrowed,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
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
    GROUP,
    GROUPS,
    KIND,
    LATE,
    LIMIT,
    LOWEST,
    MODE,
    SCALE_BITS,
    SCALE_EMIN,
    SCALE_PIECE,
    SIGNED_ZEROS,
    STEP,
    TREE,
    UNIT,
    engine_dot,
    workspace,
)
from softfloat.rounding import EVEN, ODD, ZERO

TERMS_AT_ONCE = 1 << 20  # products of the definition between two looks at Ctrl-C
UNITS_AT_ONCE = 1 << 26  # the same of the vector loops, in multiply-adds over PRODUCTS_PER_UNIT
PRODUCTS_PER_UNIT = 8  # multiply-adds that count as one element when work is split over threads
SLAB = 512  # products that a packed panel is long, at most: it stays in the second cache
SUM_BITS = 31  # of an int32 sum
EXACT_BITS = (
    23  # of a product: exact in float32, subnormal or not, as far as it is above the last bit kept
)
SUM_OF_GROUPS_BITS = 52  # of a float64 sum of aligned groups


_NO_SCALES = np.empty(0, np.int64)
_NO_EXPONENTS = np.empty((0, 0), np.int16)
TINY = np.float32(2.0**-126)


# ---------------------------------------------------------------- the definition
@jit
def define_elements(a, b, scales_a, scales_b, n, elements, columns, c, order, P, F, out):
    """Elements row * columns + column of the result into out, all bits of float64 numbers.

    a, b : rows of n numbers.   scales_a, scales_b : those of all numbers, or empty.   c : initial values of the
    elements.
    """
    work = workspace(P[STEP])
    X = borrowed(a), borrowed(b), borrowed(scales_a), borrowed(scales_b)
    for e in range(elements.size):
        i, j = elements[e] // columns, elements[e] % columns
        out[e] = engine_dot(X, i, j, n, c[e], order, P, F, work)


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


def define(P, order, records, a, b, c, elements, scales=None):
    """Some elements (row * columns + column) of c + a @ b, by the definition, as float64 values."""
    rows, i = np.unique(elements // c.shape[1], return_inverse=True)
    columns, j = np.unique(elements % c.shape[1], return_inverse=True)
    n, width = a.shape[1], max(len(columns), 1)
    left, right = _bits(a[rows]), _bits(b[:, columns].T)
    more = _NO_SCALES, _NO_SCALES
    if scales is not None:
        more = _bits(scales[0][rows]), _bits(scales[1][:, columns].T)
    start = _bits(c.reshape(-1)[elements])
    places = i * width + j
    out = np.empty(elements.size)
    target = out.view(np.int64)

    def task(first, stop):
        part = slice(first, stop)
        define_elements(
            left, right, *more, n, places[part], width, start[part], order, P, records, target[part]
        )  # fmt: skip

    if elements.size:
        run_chunks(task, elements.size, max(1, TERMS_AT_ONCE // max(n, 1)))
    return out


# ---------------------------------------------------------------- packing
@jit
def _scale(x, s, emin, P, values, exponents):
    """x * s and its exponent, of flat float32 arrays: False if it must not run.

    NaN stands for what is not exact. With groups an exponent is that of the scale alone.
    """
    former = enter_standard_arithmetic()
    if former == UNKNOWN:
        return False
    grouped = P[GROUP] > 0
    least, least_scale = np.int32(emin), np.int32(P[SCALE_EMIN])
    for i in range(x.size):
        y = x[i] * s[i]
        lost = (abs(y) < TINY) & (x[i] != np.float32(0)) & (s[i] != np.float32(0))
        values[i] = np.float32(np.nan) if lost else y
        e, own = exponent_of(s[i], least_scale), exponent_of(x[i], least)
        exponents[i] = e if grouped else np.int16(e + own)
    leave_standard_arithmetic(former)
    return True


def _scaled(x, scales, emin, P):
    """(values, exponents) of a scaled operand, or None where the loop must not run."""
    x, scales = _plain(x), _plain(scales)
    values, exponents = np.empty(x.shape, np.float32), np.empty(x.shape, np.int16)
    flat = (part.reshape(-1) for part in (x, scales))
    if not _scale(*flat, emin, P, values.reshape(-1), exponents.reshape(-1)):
        return None
    return values, exponents


@jit
def _pack_rows(A, given, turned, emin, values, exponents, bad):
    """Rows of A in the order of the engine, zeros where it has no more: values, exponents, whether all are finite.

    given : the exponents, or an empty array.
    """
    for i in range(A.shape[0]):
        row = A[i]
        for k in range(turned.size):
            source = turned[k]
            x = row[source] if source < row.size else A.dtype.type(0)
            finite = x - x == 0
            bad[i] |= not finite
            values[i, k] = x
            if given.size > 0 and source < row.size:
                exponents[i, k] = given[i, source]
            else:
                exponents[i, k] = exponent_of(np.float32(x), np.int32(emin))


@jit
def _pack_panel(B, given, turned, k0, n, j, width, emin, values, exponents, bad):
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
                exponents[place + l] = exponent_of(np.float32(x), np.int32(emin))
            if given.size > 0:
                exponents[place : place + width] = given[source, j : j + width]


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
    def loop(fa, ea, b, given, c, turned, P, tune, start, stop, slab, bad, marks, scratch):
        """c += A @ b for rows start to stop: False if it must not run.

        fa, ea : values and exponents of A, packed.   given : exponents of b, or empty.   bad : of columns.
        marks : of elements.
        """
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        fa, ea, P, c = borrowed(fa), borrowed(ea), borrowed(P), borrowed(c)
        vb, xb, sums, seen = (
            borrowed(scratch[0]), borrowed(scratch[1]), borrowed(scratch[2]), borrowed(scratch[3]),
        )  # fmt: skip
        rest = (
            borrowed(scratch[4]), borrowed(scratch[5]), borrowed(scratch[6]), borrowed(scratch[7]),
            borrowed(scratch[8]), borrowed(scratch[9]), borrowed(scratch[10]), borrowed(scratch[11]),
            borrowed(scratch[12]), borrowed(scratch[13]),
        )  # fmt: skip
        n, columns = turned.size, c.shape[1]
        for j in range(0, columns, WIDTH):
            width = min(WIDTH, columns - j)
            for k in range(0, n, slab):
                count = min(slab, n - k)
                _pack_panel(b, given, turned, k, count, j, width, P[B_EMIN], vb, xb, bad)
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
    """The row function that is right for an engine; None where none is.

    bits : of the significand of a product, or of a group of products.
    """
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
    if P[GROUP] > 0:
        head = bits + P[UNIT] + 2 - 2 * SCALE_PIECE  # bits of a group above 2**E
        count = int(P[STEP] // P[GROUP]).bit_length()
        return group_row if head + P[FRACTION] + count <= SUM_OF_GROUPS_BITS else None
    if chunk_size(P) < 1 or P[SCALE_BITS] > 1:
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


def _fast_product(row, P, order, records, a, b, c, scales):
    """(c + a @ b, which elements are to be formed anew), or None where the loops must not run."""
    if P[FLUSH_IN]:
        a, b = _flush(a, P[A_EMIN]), _flush(b, P[B_EMIN])
    a, b = _plain(a), _plain(b)
    given = _NO_EXPONENTS, _NO_EXPONENTS
    if scales is not None:
        left, right = _scaled(a, scales[0], P[A_EMIN], P), _scaled(b, scales[1], P[B_EMIN], P)
        if left is None or right is None:
            return None
        (a, b), given = (left[0], right[0]), (left[1], right[1])
    c = _plain(_flush(c, P[C_EMIN])) if P[FLUSH_OUT] else c.copy()
    m, n = c.shape
    turned = _turned(P, order, a.shape[1])
    depth = int(P[DEPTH])
    slab = max(1, SLAB // depth) * depth
    values, exponents = np.empty((m, turned.size), c.dtype), np.empty((m, turned.size), np.int16)
    bad_rows, bad_columns = np.zeros(m, np.bool_), np.zeros(n, np.bool_)
    marks = np.zeros((m, n), np.bool_)
    _pack_rows(a, given[0], turned, P[A_EMIN], values, exponents, bad_rows)
    tune, loop, done = tuning(P, records), rows_loop(row), []
    unit = max(1, n * turned.size // PRODUCTS_PER_UNIT)

    def task(first, stop):
        start, end = -(-first // unit), -(-stop // unit)
        if start < end:
            scratch = _scratch(int(P[STEP]), slab, c.dtype)
            ran = loop(
                values, exponents, b, given[1], c, turned, P, tune, start, end, slab, bad_columns, marks,
                scratch,
            )  # fmt: skip
            done.append(ran)

    run_chunks(task, m * unit, UNITS_AT_ONCE)
    if not all(done):
        return None
    if row in (early_row, late_row, group_row):
        marks |= bad_rows[:, None] | bad_columns[None, :]
    return c, marks


def engine_product(P, order, records, bits, a, b, c, scales=None):
    """c + a @ b for matrices of values in the accumulator's carrier, as an engine forms it.

    P, order, records : its parameters, as softfloat.ops.engine reads them.   bits : of a product's significand, or of a
    group of products.   scales : the scale of each number of a and of b, or None.
    """
    if b.shape[1] < min(a.shape[0], WIDTH):  # panels are wide: let the longer side be their columns
        P = P.copy()
        P[A_EMIN], P[B_EMIN] = P[B_EMIN], P[A_EMIN]
        scales = None if scales is None else (scales[1].T, scales[0].T)
        return engine_product(P, order, records, bits, b.T, a.T, c.T, scales).T
    row = choose(P, records, bits)
    found = None
    if row is not None and a.shape[1] and c.size:
        found = _fast_product(row, P, order, records, a, b, c, scales)
    out, marks = (np.empty(c.shape, c.dtype), np.ones(c.shape, bool)) if found is None else found
    elements = np.flatnonzero(marks)
    if elements.size:
        found = define(P, order, records, a, b, c, elements, scales)
        out.reshape(-1)[elements] = converted(found, out.dtype)
    make_nans_canonical(out.reshape(-1))
    return out
