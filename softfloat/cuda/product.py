"""Products of matrices on a device in register tiles: every product and sum rounded, terms in order.

Three forms, as on the CPU (softfloat.ops.linalg): the quickest, where no product is subnormal; one for subnormal
products; and one for everything, which also takes the other modes and formats. A survey of the operands on the device
chooses; the kernels of the other two forms then end at once, and nothing waits for the host. Where a sum comes near the
end of the range after all, tiles say so, and the third form does it all again.

The first two are the CPU's forms "normal" and "gradual" with "split" sums, in float32, for formats of at most 11
digits.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.bits import fma, magnitude, minus, plus, times, to_bits, u64
from softfloat.cuda import bodies
from softfloat.cuda.arrays import bare
from softfloat.cuda.elementwise import integers, numbers
from softfloat.format import Format
from softfloat.ops.linalg import (
    CLAMP,
    FULL,
    GRADUAL,
    NORMAL,
    SCALE,
    SPLIT,
    SPLITTER,
    product_way,
    sum_way,
)
from softfloat.ops.reduce import (
    AT_PRODUCT,
    AT_RESULT,
    AT_TERM,
    EXACT,
    PLAIN,
    ROUNDED,
    SEQUENTIAL,
    TO_ACCUMULATOR,
    TO_PRODUCT,
    TO_RESULT,
    keys_of,
    term_word,
    word_of,
)
from softfloat.products import _candidates
from softfloat.rounding import EVEN
from softfloat.scalar import core

QUICK, MIDDLE, UNIVERSAL = range(3)
# A block of 16 x 16 threads makes ROWS x COLUMNS outputs, each thread TALL x BROAD of them; DEPTH terms at a time.
SIDE, TALL, BROAD, DEPTH = 16, 8, 4, 16
ROWS, COLUMNS = SIDE * TALL, SIDE * BROAD
DIGITS = 24  # of float32
# What the survey finds of an operand: largest and least magnitude but 0 (as bits), and all bits together.
LARGEST, LEAST, TOGETHER, FOUND = range(4)


@jit(inline=True)
def scaled(b, factor):
    """b * factor, which is exact."""
    return times(b, factor)


@jit(inline=True)
def split_sum(acc, r, splitter):
    """acc + r rounded: Veltkamp's splitting."""
    s = plus(acc, r)
    u = times(s, splitter)
    return minus(u, minus(u, s))


@jit(inline=True)
def quick_step(acc, a, scaled, split, splitter, clamp):
    """acc + a * b, six operations; scaled, split : b Q and b K."""
    r = fma(-a, scaled, times(a, split))
    return split_sum(acc, r, splitter)


@jit(inline=True)
def middle_step(acc, a, b, scaled, splitter, clamp):
    """acc + a * b where products may be subnormal; scaled : b Q."""
    c = times(a, scaled)
    size = abs(c) if abs(c) > clamp else clamp
    C = math.copysign(size, c)
    return split_sum(acc, minus(fma(a, b, C), C), splitter)


STEPS = {QUICK: quick_step, MIDDLE: middle_step}


# ---------------------------------------------------------------- the choice of a form
@jit
def survey_body(x, start, stride):
    """(largest and least magnitude but 0, all bits together) of the elements of a thread, as uint32."""
    largest, together = np.uint32(0), np.uint32(0)
    least = np.uint32(0x7F800000)
    for i in range(start, x.size, stride):
        u = to_bits(x[np.uint64(i)])
        m = magnitude(u)
        largest = max(largest, m)
        together = np.uint32(together | m)
        least = min(least, m) if m > np.uint32(0) else least
    return largest, least, together


@jit(inline=True)
def _value(u):
    return np.float64(bodies.float_of(np.uint32(u)))


@jit
def choose_form(found, digits, limits):
    """(the form for operands of these surveys (2, FOUND), the ceiling of sums that go on by it).

    digits : that a number may have.   limits : the largest sum before DEPTH terms come to nothing and after them the
    roundings, the largest factor, the smallest product without subnormals. A sum beyond the ceiling could overflow
    within DEPTH terms.
    """
    largest_sum, largest_factor, least_product = limits
    none = np.float32(0.0)
    infinity = np.uint32(0x7F800000)
    odd = np.uint32((np.uint32(1) << np.uint32(DIGITS - digits)) - np.uint32(1))
    for j in range(2):
        if found[j, LARGEST] >= infinity or (found[j, TOGETHER] & odd) != np.uint32(0):
            return UNIVERSAL, none
    a, b = _value(found[0, LARGEST]), _value(found[1, LARGEST])
    ceiling = np.float32((largest_sum - DEPTH * (a * b)) * (1.0 - 2.0**-20))
    if not ceiling > none or b > largest_factor:
        return UNIVERSAL, none
    if a == 0.0 or b == 0.0:
        return QUICK, ceiling
    least = _value(found[0, LEAST]) * _value(found[1, LEAST])
    return (QUICK if least >= least_product else MIDDLE), ceiling


# ---------------------------------------------------------------- everything
@functools.cache
def universal_body(mode, exact):
    """One output after the other by the operations of softfloat.scalar, any Formats and mode.

    arrays : out, A, B, R (the roundings).   extent : rows, columns, terms.
    constants : (F, N) of product, sum, result.
    """
    multiply, add = core.operation("multiply"), core.operation("add")
    fused, convert = core.operation("fma"), core.operation("quantize")
    kind = EXACT if exact else ROUNDED
    exact = int(exact)

    @jit
    def body(arrays, extent, constants, how, key, offset, start, stride):
        out, A, B, R = arrays
        m, n, terms = extent
        (FP, NP), (FA, NA), (FR, NR) = constants
        saturate, bits, variant, final = how
        for e in range(start, m * n, stride):
            i, j = e // n, e % n
            own = keys_of(key, offset + e, n)
            s = 0.0
            for k in range(terms):
                x = np.float64(A[u64(i), u64(k)])
                y = np.float64(B[u64(k), u64(j)])
                word = term_word(R[TO_ACCUMULATOR], own, k, AT_TERM, kind)
                if exact == 1:
                    s = fused(x, y, s, FA, NA, mode, saturate, word, bits, variant)
                else:
                    w = term_word(R[TO_PRODUCT], own, k, AT_PRODUCT, kind)
                    p = multiply(x, y, y, FP, NP, mode, saturate, w, bits, variant)
                    s = add(p, s, s, FA, NA, mode, saturate, word, bits, variant)
            w = word_of(R[TO_RESULT], own, AT_RESULT)
            y = convert(s, s, s, FR, NR, mode, final, w, bits, variant)
            out[e] = bodies.held_as(y if y == y else np.nan, out)

    return body


@functools.cache
def sum_body(mode):
    """Sums in sequence, one output after the other, any Formats and mode; called as the bodies of elements are.

    arrays : out, x, R.   extent : outer, terms, inner: of x.   constants : (F, N) of accumulator and result.
    """
    add, convert = core.operation("add"), core.operation("quantize")

    @jit
    def body(arrays, extent, constants, how, key, offset, start, stride):
        out, x, R = arrays
        outer, terms, inner = extent
        (FA, NA), (FR, NR) = constants
        saturate, bits, variant, final = how
        for e in range(start, outer * inner, stride):
            first = e // inner * terms * inner + e % inner
            own = keys_of(key, offset + e, 1)
            s = 0.0
            for k in range(terms):
                y = np.float64(x[u64(first + k * inner)])
                word = term_word(R[TO_ACCUMULATOR], own, k, AT_TERM, PLAIN)
                s = add(y, s, s, FA, NA, mode, saturate, word, bits, variant)
            word = word_of(R[TO_RESULT], own, AT_RESULT)
            y = convert(s, s, s, FR, NR, mode, final, word, bits, variant)
            out[e] = bodies.held_as(y if y == y else np.nan, out)
        return -1

    return body


# ---------------------------------------------------------------- on the host
def _tile_limits(fmt):
    """What `choose_form` compares with: the limits of softfloat.backends.kernels, for DEPTH terms."""
    growth = 1.01 * math.exp(fmt.epsilon * (DEPTH + 1))
    short = math.ldexp(1.0, 126 - (DIGITS - fmt.precision))
    room = min(short, fmt.max) / growth - 2 * DEPTH * fmt.smallest_subnormal
    return room, short, fmt.smallest_normal


def _tiles(how, n):
    """The kernel whose first forms tiles have, or None."""
    candidates = _candidates(how, n)
    if not candidates or how.result != how.accumulator or how.choices[3].saturate:
        return None
    kernel = candidates[0]
    quick, middle, _ = kernel.forms
    ways = (product_way(quick), sum_way(quick), product_way(middle), sum_way(middle))
    short = kernel.dtype == np.float32 and kernel.product == kernel.accumulator
    usual = how.choices[1].mode == EVEN and sum_way(kernel.forms[2]) == FULL
    return kernel if short and usual and ways == (NORMAL, SPLIT, GRADUAL, SPLIT) else None


def takes(how):
    """Whether products of this kind are done here; the others are done by the definition."""
    formats = (how.product, how.accumulator, how.result)
    same = len({(c.mode, c.saturate, c.bits, c.variant) for c in how.choices[:2]}) == 1
    last = how.choices[3].mode == how.choices[1].mode
    able = all(isinstance(fmt, Format) and (fmt.signed or fmt.has_nan) for fmt in formats)
    return how.order == SEQUENTIAL and same and last and able


def _options(how):
    """Saturation, random bits and variant of every step, and the saturation of the last rounding."""
    c = how.choices[1]
    return tuple(np.int64(x) for x in (c.saturate, c.bits, c.variant, how.choices[3].saturate))


def add_up(call, x, out, extent, how):
    """Sums of a flat x of this extent (outer, terms, inner), in sequence, into `out`, flat."""
    from softfloat.cuda import kernels

    R = tuple(bare(call.upload(rounding[:5])) for rounding in how.roundings())
    constants = tuple((integers(f), numbers(f)) for f in (how.accumulator, how.result))
    kernels.launch(
        kernels.elementwise_kernel(sum_body(how.choices[1].mode)), out.size, call.stream,
        (bare(out), bare(x), R), tuple(np.int64(n) for n in extent), constants, _options(how),
        np.uint64(how.key), np.int64(how.offset),
    )  # fmt: skip


def multiply(call, a, b, out, extent, how):
    """A @ B of this extent (rows, columns, terms) into `out`, flat; a, b : flat views."""
    from softfloat.cuda import kernels

    m, n, terms = extent
    A, B = a.reshape(m, terms), b.reshape(terms, n)
    kernel = _tiles(how, n) if a.dtype == b.dtype == out.dtype == np.float32 else None
    chosen = call.upload(np.array([UNIVERSAL, 0], np.int64))
    if kernel is not None and terms:
        found = call.upload(np.array([[0, 0x7F800000, 0]] * 2, np.uint32))
        for j, x in enumerate((a, b)):
            blocks = kernels.few_blocks(x.size)
            survey = kernels.configured(
                kernels.survey_kernel(), blocks, kernels.THREADS, call.stream
            )
            survey(x, found, j)
        limits = tuple(float(x) for x in _tile_limits(kernel.accumulator))
        ceiling = call.upload(np.zeros(1, np.float32))
        precision = np.int64(kernel.accumulator.precision)
        choice = kernels.configured(kernels.choice_kernel(), 1, 1, call.stream)
        choice(found, precision, limits, chosen, ceiling)
        words = tuple(kernel.constants[i] for i in (SCALE, SPLITTER, CLAMP))
        grid = (-(-n // COLUMNS), -(-m // ROWS))
        for form in (QUICK, MIDDLE):
            tile = kernels.configured(kernels.tile_kernel(form), grid, (SIDE, SIDE), call.stream)
            tile(A, B, out.reshape(m, n), chosen, ceiling, words)
    R = tuple(bare(call.upload(rounding[:5])) for rounding in how.roundings())
    constants = tuple((integers(f), numbers(f)) for f in (how.product, how.accumulator, how.result))
    body = universal_body(how.choices[1].mode, how.exact)
    arrays = (bare(out), bare(A), bare(B), R)
    sizes = tuple(np.int64(x) for x in extent)
    kernels.launch(
        kernels.universal_kernel(body), m * n, call.stream,
        arrays, sizes, constants, _options(how), np.uint64(how.key), np.int64(how.offset), chosen,
    )  # fmt: skip
