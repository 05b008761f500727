"""Products of matrices on a device in register tiles: every product and sum rounded, terms in order.

Three forms, as on the CPU (softfloat.ops.linalg): the quickest, where no product is subnormal; one for subnormal
products; and one for everything, which also takes the other modes and formats. A survey of the operands on the device
chooses; the kernels of the other two forms then end at once, and nothing waits for the host.

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
    """The form for operands of these surveys (2, FOUND).

    digits : that a number may have.   limits : largest sum over the number of terms and their growth, largest factor,
    smallest product without subnormals, slack.
    """
    largest_sum, largest_factor, least_product = limits
    infinity = np.uint32(0x7F800000)
    odd = np.uint32((np.uint32(1) << np.uint32(DIGITS - digits)) - np.uint32(1))
    for j in range(2):
        if found[j, LARGEST] >= infinity or (found[j, TOGETHER] & odd) != np.uint32(0):
            return UNIVERSAL
    a, b = _value(found[0, LARGEST]), _value(found[1, LARGEST])
    if a * b > largest_sum or b > largest_factor:
        return UNIVERSAL
    if a == 0.0 or b == 0.0:
        return QUICK
    least = _value(found[0, LEAST]) * _value(found[1, LEAST])
    return QUICK if least >= least_product else MIDDLE


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


# ---------------------------------------------------------------- on the host
def _tile_limits(kernel, terms):
    """What `choose_form` compares with, for inner products of so many terms."""
    epsilon = kernel.accumulator.epsilon
    growth = 1.01 * math.exp(min(epsilon * (terms + 1), 600.0))
    q = DIGITS - kernel.accumulator.precision
    short = math.ldexp(1.0, 126 - q)
    slack = growth * 2 * terms * kernel.accumulator.smallest_subnormal
    room = min(short, kernel.accumulator.max) - slack
    return max(room, 0.0) / (growth * max(terms, 1)), short, kernel.accumulator.smallest_normal


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


def multiply(call, a, b, out, extent, how):
    """A @ B of this extent (rows, columns, terms) into `out`, flat; a, b : flat views."""
    from softfloat.cuda import kernels

    m, n, terms = extent
    A, B = a.reshape(m, terms), b.reshape(terms, n)
    kernel = _tiles(how, n) if a.dtype == b.dtype == out.dtype == np.float32 else None
    chosen = call.upload(np.array([UNIVERSAL], np.int64))
    if kernel is not None and terms:
        found = call.upload(np.array([[0, 0x7F800000, 0]] * 2, np.uint32))
        for j, x in enumerate((a, b)):
            blocks = kernels.few_blocks(x.size)
            survey = kernels.configured(
                kernels.survey_kernel(), blocks, kernels.THREADS, call.stream
            )
            survey(x, found, j)
        limits = tuple(float(x) for x in _tile_limits(kernel, terms))
        precision = np.int64(kernel.accumulator.precision)
        choice = kernels.configured(kernels.choice_kernel(), 1, 1, call.stream)
        choice(found, precision, limits, chosen)
        words = tuple(kernel.constants[i] for i in (SCALE, SPLITTER, CLAMP))
        grid = (-(-n // COLUMNS), -(-m // ROWS))
        for form in (QUICK, MIDDLE):
            tile = kernels.configured(kernels.tile_kernel(form), grid, (SIDE, SIDE), call.stream)
            tile(A, B, out.reshape(m, n), chosen, words)
    c = how.choices[1]
    options = tuple(np.int64(x) for x in (c.saturate, c.bits, c.variant, how.choices[3].saturate))
    R = tuple(bare(call.upload(rounding[:5])) for rounding in how.roundings())
    constants = tuple((integers(f), numbers(f)) for f in (how.product, how.accumulator, how.result))
    body = universal_body(c.mode, how.exact)
    arrays = (bare(out), bare(A), bare(B), R)
    sizes = tuple(np.int64(x) for x in extent)
    kernels.launch(
        kernels.universal_kernel(body), m * n, call.stream,
        arrays, sizes, constants, options, np.uint64(how.key), np.int64(how.offset), chosen,
    )  # fmt: skip
