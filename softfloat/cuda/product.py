"""Products of matrices on a device in register tiles: every product and sum rounded, terms in order.

Four forms: the quickest, where no product is subnormal; one for subnormal products; one that rounds each product and
each sum by the form of its format and mode (softfloat.fast); and one for everything. A survey of the operands on the
device chooses; the kernels of the other forms then end at once, and nothing waits for the host. Where a sum comes near
the end of the range after all, tiles say so, and the last form does it all again.

The first two are the CPU's forms "normal" and "gradual" (softfloat.ops.linalg) with "split" sums. All tiles compute in
float32, for formats of at most 11 digits.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.bits import (
    and_,
    fma,
    magnitude,
    minus,
    mul,
    plus,
    shl,
    shr,
    sub,
    times,
    to_bits,
    to_float,
    u64,
    xor,
)
from softfloat.cuda import bodies
from softfloat.cuda.arrays import bare
from softfloat.cuda.elementwise import integers, numbers
from softfloat.fast import constants_loader, fast_constants, fast_form, rounding_form
from softfloat.format import Format
from softfloat.operands import FLOAT32
from softfloat.ops.error_free import to_odd
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
    COLUMN,
    EXACT,
    PLAIN,
    ROUNDED,
    ROW,
    SEQUENTIAL,
    SHARED_BITS,
    TALLY,
    TO_ACCUMULATOR,
    TO_PRODUCT,
    TO_RESULT,
    keys_of,
    line_key,
    term_word,
    word_of,
    word_of_line,
)
from softfloat.products import _candidates
from softfloat.rounding import AWAY, EVEN, NEGATIVE, STOCHASTIC
from softfloat.scalar import core

FLOAT32_MAX = float(np.finfo(np.float32).max)
LEAST_EXACT = 2.0**-126  # from which on products of 24 digits are float32 numbers
LONGEST = 11  # digits of a format whose sums float32 may round first
QUICK, MIDDLE, GENERAL, UNIVERSAL = range(4)
# A block of 16 x 16 threads makes SIDE * tall x COLUMNS outputs, each thread tall x BROAD of them, DEPTH terms at a
# time.
SIDE, BROAD, DEPTH = 16, 4, 16
COLUMNS = SIDE * BROAD
MOST_COLUMNS = COLUMNS * 65535  # of a grid's second dimension
DIGITS = 24  # of float32
# What the survey finds of an operand: largest and least magnitude but 0 (as bits), and all bits together.
LARGEST, LEAST, TOGETHER, FOUND = range(4)


@intrinsic
def _maximum(context, x, y):
    if x != types.float32 or y != types.float32:
        return None

    def generate(context, builder, signature, arguments):
        number = ir.FloatType()
        kind = ir.FunctionType(number, [number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.maxnum.f32")
        return builder.call(function, arguments)

    return x(x, y), generate


@jit(inline=True)
def larger(x, y):
    """The larger of two float32 numbers that are no NaNs, in one instruction."""
    return _maximum(np.float32(x), np.float32(y))


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
def quick_step(acc, a, scaled, split, words, y):
    """acc + a * b, six operations; scaled, split : b Q and b K.   words : Q, K and the clamp."""
    r = fma(-a, scaled, times(a, split))
    return split_sum(acc, r, words[1])


@jit(inline=True)
def middle_step(acc, a, b, scaled, words, y):
    """acc + a * b where products may be subnormal; scaled : b Q."""
    c = times(a, scaled)
    C = math.copysign(larger(abs(c), words[2]), c)
    return split_sum(acc, minus(fma(a, b, C), C), words[1])


@jit(inline=True)
def toward_zero(z, e):
    """The next number toward zero from an exact result, or z where that is exact; e : the error of z."""
    u = to_bits(z)
    outward = and_(shr(xor(u, to_bits(e)), np.uint32(31)), np.uint32(abs(e) > np.float32(0.0)))
    return to_float(sub(u, outward))


@functools.cache
def general_step(kind, mode, rule, bits):
    """step(acc, a, b, b, constants, y): acc + a * b, product and sum each rounded by a fast form of float32.

    y : the word of the multiply-add, `bits` of it for each rounding. To nearest, the sum of two numbers of at most 11
    digits is first rounded to the 24 of float32, which never matters (Figueroa 1995); else it keeps what the rounding
    asks for: whether anything was cut off, or its first digits.
    """
    round_one, add = rounding_form(kind, mode, rule), core.WITH_ERROR["add"]
    load = constants_loader(kind)
    nearest, drawn = int(mode in (EVEN, AWAY)), int(mode == STOCHASTIC)
    bits = np.uint32(bits % 32)

    @jit(inline=True)
    def step(acc, a, b, same, constants, y):
        loaded, y = load(constants), np.uint32(y)
        r = round_one(times(a, b), loaded, y)
        y = shl(y, bits)
        if nearest == 1:
            return round_one(plus(r, acc), loaded, y)
        z, e, _ = add(r, acc, acc, mode)
        if drawn == 1:
            return round_one(toward_zero(z, e), loaded, y)
        return round_one(to_odd(z, e), loaded, y)

    return step


@jit(inline=True)
def product_word(row, column):
    """The word of a multiply-add."""
    return mul(np.uint32(row), np.uint32(column))


class Tile(NamedTuple):
    """A kind of tile: what its kernel is compiled for.

    form : QUICK, MIDDLE or GENERAL.   rounding : (kind, mode, rule) of a fast form, and bits of a word; or nothing.
    """

    form: int
    rounding: tuple = ()

    @property
    def tall(self):
        """Rows of a thread: fewer where steps are long, so that compilers keep all of a tile in registers."""
        return 4 if self.form == GENERAL else 8

    @property
    def step(self):
        if self.form == GENERAL:
            return general_step(*self.rounding)
        return quick_step if self.form == QUICK else middle_step

    @property
    def random(self):
        return int(bool(self.rounding) and self.rounding[1] >= STOCHASTIC)

    @property
    def prepare(self):
        """The two numbers that a step takes for b, from b and the constants."""
        return (prepare_quick, prepare_middle, prepare_general)[self.form]

    @property
    def blank(self):
        """What b is beyond the end: acc + 0 * blank is acc, also where that is a zero of either sign."""
        keeps = self.form == GENERAL and self.rounding[1] != NEGATIVE
        return np.float32(-0.0 if keeps else 0.0)


@jit(inline=True)
def prepare_quick(b, words):
    return scaled(b, words[0]), scaled(b, words[1])


@jit(inline=True)
def prepare_middle(b, words):
    return b, scaled(b, words[0])


@jit(inline=True)
def prepare_general(b, words):
    return b, b


@jit(inline=True)
def row_word(key, i, k):
    """The word of row i of the result for term k."""
    return word_of_line(line_key(key, ROW, i), k)


@jit(inline=True)
def column_word(key, j, k):
    return word_of_line(line_key(key, COLUMN, j), k)


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


class Offer(NamedTuple):
    """A form and its domain: digits of a number, the largest sum before DEPTH terms come to nothing and after them the
    roundings, the largest factor, the smallest product.
    """

    form: int
    digits: int
    largest_sum: float
    largest_factor: float
    least_product: float


@jit
def ceiling_of(found, offer):
    """How far sums may go by a form; 0 where it does not take operands of these surveys (2, FOUND).

    A sum beyond the ceiling could overflow within DEPTH terms.
    """
    _, digits, largest_sum, largest_factor, least_product = offer
    none, infinity = np.float32(0.0), np.uint32(0x7F800000)
    odd = np.uint32((np.uint32(1) << np.uint32(DIGITS - np.int64(digits))) - np.uint32(1))
    for j in range(2):
        if found[j, LARGEST] >= infinity or (found[j, TOGETHER] & odd) != np.uint32(0):
            return none
    a, b = _value(found[0, LARGEST]), _value(found[1, LARGEST])
    ceiling = np.float32((largest_sum - DEPTH * (a * b)) * (1.0 - 2.0**-20))
    if not ceiling > none or b > largest_factor:
        return none
    least = _value(found[0, LEAST]) * _value(found[1, LEAST])
    return ceiling if a == 0.0 or b == 0.0 or least >= least_product else none


@jit
def choose_form(found, offers):
    """(the first form that takes the operands, the ceiling of its sums); offers : rows of `Offer`."""
    for o in range(offers.shape[0]):
        offer = offers[o, 0], offers[o, 1], offers[o, 2], offers[o, 3], offers[o, 4]
        ceiling = ceiling_of(found, offer)
        if ceiling > np.float32(0.0):
            return np.int64(offer[0]), ceiling
    return UNIVERSAL, np.float32(0.0)


# ---------------------------------------------------------------- everything
@functools.cache
def universal_body(mode, exact):
    """One output after the other by the operations of softfloat.scalar, any Formats and mode.

    arrays : out, A, B, C (initial values, flat, or empty), R (the roundings).   extent : rows, columns, terms.
    constants : (F, N) of product, sum, result.
    """
    multiply, add = core.operation("multiply"), core.operation("add")
    fused, convert = core.operation("fma"), core.operation("quantize")
    kind = EXACT if exact else ROUNDED
    exact = int(exact)

    @jit
    def body(arrays, extent, constants, how, key, offset, start, stride):
        out, A, B, C, R = arrays
        m, n, terms = extent
        (FP, NP), (FA, NA), (FR, NR) = constants
        saturate, bits, variant, final = how
        for e in range(start, m * n, stride):
            i, j = e // n, e % n
            own = keys_of(key, offset + e, n)
            s = np.float64(C[u64(e)]) if C.size > 0 else 0.0
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
def _limits(fmt):
    """Of the quick and the middle form: the limits of softfloat.backends.kernels, for DEPTH terms."""
    short = math.ldexp(1.0, 126 - (DIGITS - fmt.precision))
    room = min(short, fmt.max) / _growth(fmt) - 2 * DEPTH * fmt.smallest_subnormal
    return room, short


def _growth(fmt):
    """How much DEPTH roundings may add to a sum, as a factor."""
    return 1.01 * math.exp(fmt.epsilon * (DEPTH + 1))


def _tiles(how, n):
    """[(Tile, its Offer, its constants)] in order of preference; n : columns of the result."""
    fmt, choice = how.accumulator, how.choices[1]
    alike = how.product == fmt == how.result and not how.exact
    alike = alike and how.choices[0].mode == choice.mode
    if not alike or fmt.precision > LONGEST or n > MOST_COLUMNS:
        return []
    candidates = _candidates(how, n)
    found = []
    if candidates and choice.mode == EVEN and not how.choices[3].saturate:
        kernel = candidates[0]
        quick, middle, last = kernel.forms
        ways = (product_way(quick), sum_way(quick), product_way(middle), sum_way(middle))
        if (
            kernel.dtype == FLOAT32
            and ways == (NORMAL, SPLIT, GRADUAL, SPLIT)
            and sum_way(last) == FULL
        ):
            words = tuple(kernel.constants[i] for i in (SCALE, SPLITTER, CLAMP))
            limits = fmt.precision, *_limits(fmt)
            found.append((Tile(QUICK), Offer(QUICK, *limits, fmt.smallest_normal), words))
            found.append((Tile(MIDDLE), Offer(MIDDLE, *limits, 0.0), words))
    form = fast_form(fmt, FLOAT32, choice.mode, choice.saturate, choice.bits, choice.variant)
    if form is None or (choice.mode >= STOCHASTIC and not _drawn_alike(how, n)):
        return found
    constants = fast_constants(form[0], fmt, FLOAT32, choice.mode, choice.saturate, choice.bits)
    largest = FLOAT32_MAX / (1 if 2 * fmt.max < FLOAT32_MAX else _growth(fmt))
    offer = Offer(GENERAL, DIGITS // 2, largest, FLOAT32_MAX, LEAST_EXACT)
    found.append((Tile(GENERAL, (*form, choice.bits)), offer, tuple(constants)))
    return found


def _drawn_alike(how, n):
    """Whether tiles have the random words of a product: they share one, of bits that float32 has to spare."""
    choice = how.choices[1]
    room = min(SHARED_BITS, DIGITS - how.accumulator.precision)
    return choice.bits <= room and how.offset % n == 0 and how.choices[0].bits == choice.bits


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

    R = tuple(bare(call.upload(rounding[:TALLY])) for rounding in how.roundings())
    constants = tuple((integers(f), numbers(f)) for f in (how.accumulator, how.result))
    kernels.launch(
        kernels.elementwise_kernel(sum_body(how.choices[1].mode)), out.size, call.stream,
        (bare(out), bare(x), R), tuple(np.int64(n) for n in extent), constants, _options(how),
        np.uint64(how.key), np.int64(how.offset),
    )  # fmt: skip


def multiply(call, a, b, c, out, extent, how):
    """c + A @ B of this extent (rows, columns, terms) into `out`, flat; a, b, c : flat, c None for +0."""
    from softfloat.cuda import kernels

    m, n, terms = extent
    A, B = a.reshape(m, terms), b.reshape(terms, n)
    C = call.cuda.device_array(0, out.dtype, stream=call.stream) if c is None else c
    tiles = _tiles(how, n) if all(x.dtype == FLOAT32 for x in (a, b, C, out)) else []
    chosen = call.upload(np.array([UNIVERSAL, 0], np.int64))
    if tiles and terms:
        _run_tiles(call, tiles, (A, B, C, out.reshape(m, n)), chosen, how)
    R = tuple(bare(call.upload(rounding[:TALLY])) for rounding in how.roundings())
    constants = tuple((integers(f), numbers(f)) for f in (how.product, how.accumulator, how.result))
    body = universal_body(how.choices[1].mode, how.exact)
    arrays = (*map(bare, (out, A, B, C)), R)
    sizes = tuple(np.int64(x) for x in extent)
    kernels.launch(
        kernels.universal_kernel(body), m * n, call.stream,
        arrays, sizes, constants, _options(how), np.uint64(how.key), np.int64(how.offset), chosen,
    )  # fmt: skip


def _run_tiles(call, tiles, arrays, chosen, how):
    """Choose a form on the device, and run the tiles of those that have them; chosen says whether that was all."""
    from softfloat.cuda import kernels

    A, B, C, out = arrays
    found = call.upload(np.array([[0, 0x7F800000, 0]] * 2, np.uint32))
    for j, x in enumerate((A, B)):
        blocks = kernels.few_blocks(x.size)
        survey = kernels.configured(kernels.survey_kernel(), blocks, kernels.THREADS, call.stream)
        survey(x.reshape(x.size), found, j)
    ceiling = call.upload(np.zeros(1, np.float32))
    offers = call.upload(np.array([offer for _, offer, _ in tiles], np.float64))
    choice = kernels.configured(kernels.choice_kernel(), 1, 1, call.stream)
    choice(found, offers, chosen, ceiling)
    if C.size:
        stray_starts(call, C, how.accumulator, chosen)
    m, n = out.shape
    key, row = np.uint64(how.key), np.int64(how.offset // n)
    for tile, _, constants in tiles:
        grid = -(-m // (SIDE * tile.tall)), -(-n // COLUMNS)
        kernel = kernels.configured(kernels.tile_kernel(tile), grid, (SIDE, SIDE), call.stream)
        kernel(*arrays, chosen, ceiling, constants, key, row)


def stray_starts(call, C, fmt, chosen):
    """Have the universal form do it where an initial value is -0 or no value of the accumulator's format."""
    from softfloat.cuda import kernels

    kernel = kernels.configured(
        kernels.start_kernel(), kernels.few_blocks(C.size), kernels.THREADS, call.stream
    )
    kernel(C, integers(fmt), numbers(fmt), chosen)


_convert = core.operation("quantize")


@jit
def start_body(C, F, N, start, stride):
    """Whether an initial value of a thread is none that the tiles take."""
    found = False
    for t in range(start, C.size, stride):
        value = np.float64(C[u64(t)])
        same = _convert(value, value, value, F, N, EVEN, 0, 0, 24, 0) == value
        found = found or not same or (value == 0.0 and core.signed_bits(value) < 0)
    return found
