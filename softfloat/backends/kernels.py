"""Which kernels a matrix product may take: for each carrier the forms, their constants, and the domain.

A kernel is right for operands that its `admits` accepts; what it cannot take goes to the next one, in the end to the
definition. softfloat.ops.linalg says what the forms need.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from softfloat._jit import jit
from softfloat.backends.contract import (
    ANY,
    DEPTH,
    EASY,
    GROWTH_OF_SUMS,
    LARGEST_FACTOR,
    LARGEST_SUM,
    LEAST_PLACE,
    LEAST_PRODUCT,
    LIMITS,
    LOSES_ZEROS,
    MOST_DIGITS,
    MOST_DIGITS_B,
    MOST_PRODUCT,
    MOST_TOTAL,
    SLACK,
    contraction,
    format_constants,
    small_contraction,
)
from softfloat.backends.contract import GROWTH as GROWS
from softfloat.backends.direction import DOWN, NEAREST, TOWARD_ZERO, UP
from softfloat.backends.packing import transposed
from softfloat.backends.tiles import ABSENT, WIDE, WIDTH
from softfloat.format import CARRIERS, INFINITY_CODE, Format
from softfloat.ops.linalg import (
    CORRECTED,
    DOWNWARD,
    EXACT,
    FULL,
    FULL_CORRECTED,
    FULL_STEPS,
    GRADUAL,
    GRADUAL_CORRECTED,
    HALF,
    LOOSE_STEPS,
    NATIVE,
    NORMAL,
    NOTHING,
    OFFSET_STEPS,
    SPLIT,
    STEPS,
    UPWARD,
    WHOLE_WORD,
    WORD,
    form,
    has_words,
    product_way,
    sum_way,
)
from softfloat.ops.reduce import COLUMN, ROW, SHARED_BITS, line_key, line_word
from softfloat.random import WORD_BITS, element_word, key_word
from softfloat.rounding import (
    AWAY,
    EVEN,
    NAN,
    NEGATIVE,
    NO_SATURATION,
    POSITIVE,
    STOCHASTIC,
    ZERO,
    infinity_code,
    overflow_code,
)

CARRIER_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
STEP_WAYS = (STEPS, OFFSET_STEPS, FULL_STEPS)
# Ways to form sums that need not be multiples of the smallest number.
ANY_GRID = (NATIVE, GRADUAL, GRADUAL_CORRECTED, OFFSET_STEPS, FULL_STEPS)
# Mode: the direction of the processor, and what steps add.
STEPPED = {
    ZERO: (TOWARD_ZERO, NOTHING),
    AWAY: (TOWARD_ZERO, HALF),
    POSITIVE: (UP, UPWARD),
    NEGATIVE: (DOWN, DOWNWARD),
    STOCHASTIC: (TOWARD_ZERO, WORD),
}
IN_HARDWARE = {EVEN: NEAREST, ZERO: TOWARD_ZERO, POSITIVE: UP, NEGATIVE: DOWN}


class Kernel:
    """Kernels for one choice of formats and rounding in one carrier.

    product : Format, or None for exact products.   forms : quick, middle and universal, as ops.linalg codes them; a
    kernel without a universal form is right everywhere.   constants : of the product's format, then the accumulator's.
    """

    forced = ANY  # tests set a form that is to be taken wherever it is right

    def __init__(self, carrier, product, accumulator, forms, direction, constants):
        self.carrier = CARRIERS[carrier]
        self.dtype, self.product, self.accumulator = carrier, product, accumulator
        self.forms, self.direction, self.constants = forms, direction, constants
        self.words = has_words(forms[1])
        self.native = forms[2] == ABSENT
        self.steps = direction != NEAREST
        self.integers = np.uint32 if carrier.itemsize == 4 else np.uint64  # of the carrier's width
        self.limits = self._limits()
        self.epsilon = max(fmt.epsilon for fmt in self._formats)
        self.tiny = math.ldexp(1.0, self.carrier.emin - self.carrier.mantissa_bits)
        self.factors = np.ones(4, carrier)
        if product is not None and product_way(forms[1]) == GRADUAL:
            Q = math.ldexp(1.0, self.digits - product.precision)
            self.factors[:] = Q, Q + 1, 1.0, Q

    @property
    def digits(self):
        """Precision of the carrier."""
        return self.carrier.mantissa_bits + 1

    @property
    def _formats(self):
        return [fmt for fmt in (self.product, self.accumulator) if fmt is not None]

    @functools.cached_property
    def run(self):
        return contraction(*self._compiled)

    @functools.cached_property
    def run_pairs(self):
        return contraction(*self._compiled, True)

    @functools.cached_property
    def run_small(self):
        """run(a, b, c, forced): c = a @ b of small matrices; False, with c void, where `prepared` has to be asked."""
        contract = small_contraction(*self._compiled)
        choice = np.concatenate((self.constants, self.factors)), self.limits, self.easy
        direction = self.direction
        return lambda a, b, c, forced: contract(a, b, c, *choice, forced, direction)

    @property
    def _compiled(self):
        wide = self.carrier.bits == 64
        codes = [code if code == ABSENT else code + WIDE * wide for code in self.forms]
        return *codes, WIDTH // 2 if wide else WIDTH

    def _limits(self):
        formats = self._formats
        limits = np.zeros(LIMITS)
        # (1 + u)**(n + 1) over a block, with a percent for the rounded bounds themselves.
        epsilon = max(fmt.epsilon for fmt in formats)
        limits[GROWS] = 1.01 * math.exp(min(epsilon * (DEPTH + 1), 600.0))
        smallest = max(fmt.smallest_subnormal for fmt in formats)
        limits[SLACK] = limits[GROWS] * 2 * DEPTH * smallest
        q = max(self.digits - fmt.precision for fmt in formats)
        short = math.ldexp(1.0, self.carrier.emax - 1 - q)
        limits[LARGEST_SUM] = min(short, *(fmt.max for fmt in formats))
        limits[LARGEST_FACTOR] = short
        limits[LEAST_PRODUCT] = self.product.smallest_normal if self.product else 0.0
        loose = product_way(self.forms[1]) == LOOSE_STEPS
        limits[LOSES_ZEROS] = float(loose or not self.steps and not self.native)
        return limits

    @property
    def easy(self):
        """What finite operands keep to so that `prepared` gives the limits as they are."""
        easy = np.zeros(EASY)
        easy[[MOST_DIGITS, MOST_DIGITS_B, MOST_PRODUCT, MOST_TOTAL]] = math.inf
        if self.native:
            return easy
        if product_way(self.forms[0]) == NORMAL:
            easy[MOST_DIGITS_B] = self.product.precision
        if not self.steps and product_way(self.forms[1]) == GRADUAL:
            easy[MOST_DIGITS] = self.digits - 1
        if sum_way(self.forms[1]) == GRADUAL:
            easy[MOST_DIGITS] = min(easy[MOST_DIGITS], self.accumulator.precision)
        if not self.steps and self.product is None:
            easy[LEAST_PLACE] = self.tiny
        if not self._on_grid(0.0):
            easy[LEAST_PLACE] = max(easy[LEAST_PLACE], self.accumulator.smallest_subnormal)
        if self._has_to_be_calm:
            easy[MOST_PRODUCT] = self._most
            easy[GROWTH_OF_SUMS] = 2 * self.epsilon
            if self.accumulator.max > self._most:
                easy[MOST_TOTAL] = self._most
        return easy

    def prepared(self, a, b, c, terms, content):
        """Arguments of `run` for operands of these spans and an inner size; None where the kernel is not right.

        Unless `content`, None also where only the universal form would be.
        """
        if self.native:
            return self.constants, self.limits, self.factors, self.direction
        place = a.least * b.least if min(a.largest, b.largest) > 0 else math.inf
        if not self._admits(a, b, c, terms, place):
            return None
        limits = self.limits.copy()
        if product_way(self.forms[0]) == NORMAL and b.digits > self.product.precision:
            limits[LEAST_PRODUCT] = math.inf  # b K would not be exact
        if not self._on_grid(place):
            limits[LEAST_PRODUCT] = math.inf
            if sum_way(self.forms[1]) not in ANY_GRID:
                if not content:
                    return None
                limits[LARGEST_SUM] = -1.0
        if sum_way(self.forms[1]) == GRADUAL:
            # Below this no digit of the accumulator is lost, so that two roundings are as one.
            lossless = self.accumulator.smallest_subnormal * math.ldexp(1.0, self.digits - 1)
            if a.digits + b.digits > self.accumulator.precision:
                if not content and c.largest + a.largest * b.largest > lossless:
                    return None
                limits[LARGEST_SUM] = min(limits[LARGEST_SUM], lossless)
        return self.constants, limits, self.factors, self.direction

    def _on_grid(self, place):
        """Whether all products are multiples of the accumulator's smallest number, so that small sums are exact."""
        if self.steps and self.accumulator.emin == self.carrier.emin:
            return True  # steps cut there as elsewhere
        grid = self.accumulator.smallest_subnormal
        rounded = self.product is not None and self.product.smallest_subnormal >= grid
        return rounded or place >= grid

    def _admits(self, a, b, c, terms, place):
        if self.steps:
            return self._is_calm(a, b, c, terms)
        digits = a.digits + b.digits
        if self.product is None:
            if place < self.tiny:
                return False  # the carrier could lose a digit of the product
            if sum_way(self.forms[1]) == GRADUAL and digits > self.accumulator.precision:
                # A product that loses digits is too small to matter, and the accumulator loses none (`prepared`).
                if digits + self.accumulator.precision > self.digits - 1:
                    return False
        elif product_way(self.forms[1]) == GRADUAL and digits > self.digits - 1:
            return False
        return not self._has_to_be_calm or self._is_calm(a, b, c, terms)

    @property
    def _has_to_be_calm(self):
        # Integer steps after one exact or harmlessly rounded sum need nothing more.
        return self.steps or sum_way(self.forms[2]) not in (FULL, NATIVE)

    @property
    def _most(self):
        """The largest magnitude that may appear, where `_has_to_be_calm`."""
        return math.ldexp(1.0, self.carrier.emax - 2)

    def _is_calm(self, a, b, c, terms):
        """Whether no finite product or sum comes near the end of the carrier's range."""
        most = self._most
        product = a.largest * b.largest
        growth = 1.01 * math.exp(min(2 * self.epsilon * (terms + 1), 600.0))
        total = (c.largest + terms * product) * growth
        return product <= most and min(total, self.accumulator.max) <= most


def _is_native(fmt, carrier):
    c = CARRIERS[carrier]
    return (
        isinstance(fmt, Format)
        and fmt.specials == "ieee"
        and fmt.subnormals is True
        and fmt.signed
        and (fmt.precision, fmt.emin, fmt.emax) == (c.mantissa_bits + 1, c.emin, c.emax)
    )


def _is_ordinary(fmt, carrier):
    """Whether the forms know how to round to a format in this carrier."""
    return (
        isinstance(fmt, Format)
        and fmt.signed
        and fmt.has_negative_zero
        and fmt.subnormals is True
        and fmt.fits(carrier)
        and fmt.emin >= CARRIERS[carrier].emin
        and 2 <= fmt.precision <= CARRIERS[carrier].mantissa_bits
        and fmt.exponent_bits >= 2
    )


def _beyond(fmt, mode, saturate):
    """Magnitudes that overflow gives for positive and for negative numbers, and the one of infinities."""
    record = fmt.parameters
    codes = [overflow_code(negative, record, mode, saturate) for negative in (False, True)]
    codes.append(infinity_code(record, saturate))
    value = {fmt.max_code: fmt.max, record[INFINITY_CODE]: math.inf, NAN: math.nan}  # -1 is no code
    return [value[code] for code in codes]


def _same(values):
    return all(x == values[0] or (x != x and values[0] != values[0]) for x in values)


def _nearest_forms(product, accumulator, native_product, native_sum, digits):
    """Candidates (quick, middle, universal) for rounding to nearest."""
    short = (
        digits // 2 - 1
    )  # longest precision for which two roundings, M digits and then p, are one
    if not native_sum and accumulator.precision > short:
        return []
    if product is None:
        if native_sum:
            return [(ABSENT, form(EXACT, NATIVE), ABSENT)]
        universal = form(EXACT, FULL_CORRECTED)
        return [
            (form(EXACT, SPLIT), form(EXACT, GRADUAL), universal),
            (form(EXACT, CORRECTED), form(EXACT, GRADUAL_CORRECTED), universal),
        ]
    if native_product:
        if native_sum:
            return [(ABSENT, form(NATIVE, NATIVE), ABSENT)]
        return [(ABSENT, form(NATIVE, CORRECTED), form(NATIVE, FULL_CORRECTED))]
    if product.precision > short:
        return []
    total = last = NATIVE
    if not native_sum:
        fits = product.precision <= accumulator.precision
        on_grid = product.smallest_subnormal >= accumulator.smallest_subnormal
        total = SPLIT if fits else CORRECTED
        last = FULL if fits and on_grid else FULL_CORRECTED
    return [(form(NORMAL, total), form(GRADUAL, total), form(FULL, last))]


def _stepped_forms(product, accumulator, native_product, native_sum, addend, emin):
    """Candidates for the other modes. Formats that begin where the carrier does need no offset."""
    plain, gradual, universal = [NATIVE if native_sum else way for way in STEP_WAYS]
    if accumulator.emin == emin:
        gradual = plain
    if product is None or native_product:
        products = [EXACT if product is None else NATIVE] * 3
    else:
        products = list(STEP_WAYS)
        if product.emin == emin:
            products[1] = STEPS
        if product.smallest_subnormal >= accumulator.smallest_subnormal:
            gradual = plain
            # Toward zero a sum that began at +0 and is not rounded never becomes -0: the sign of what it adds is lost.
            if products[1] == OFFSET_STEPS and addend not in (UPWARD, DOWNWARD):
                products[1] = LOOSE_STEPS
    ways = (plain, gradual, universal)
    quick, middle, last = (form(p, s, addend) for p, s in zip(products, ways, strict=True))
    return [(ABSENT if quick == middle else quick, middle, ABSENT if last == middle else last)]


@jit
def row_marks(key, first, term, out):
    """The words of terms term, term + 1, ... of the rows first, first + 1, ... of a product (uint32 or uint64)."""
    for i in range(out.shape[0]):
        own = line_key(key, ROW, first + i)
        low, high = np.uint32(own), np.uint32(own >> np.uint64(32))
        for k in range(out.shape[1]):
            out[i, k] = line_word(low, high, np.uint32(term + k))


@jit
def column_marks(key, first, term, out):
    """The words of terms term, term + 1, ..., one a row, of the columns first, first + 1, ..."""
    n = out.shape[1]
    low, high = np.empty(n, np.uint32), np.empty(n, np.uint32)
    for j in range(n):
        own = line_key(key, COLUMN, first + j)
        low[j], high[j] = np.uint32(own), np.uint32(own >> np.uint64(32))
    for k in range(out.shape[0]):
        for j in range(n):
            out[k, j] = line_word(low[j], high[j], np.uint32(term + k))


class Words(NamedTuple):
    """The words of the multiply-adds of a product, for each box of it (as softfloat.backends.contract cuts them).

    size : rows of a batch.   row : the number of the result's first row.   turned : rows of the result are columns of
    the arrays C.   paired : likewise, and each column of B meets one of A.
    """

    key: int
    kernel: Kernel
    size: int
    row: int
    turned: bool
    paired: bool

    def __call__(self, box):
        """Batches of the words of A and of B: one for all, or one for each batch of the box."""
        lines = (box.column, box.column_end) if self.turned else (box.row, box.row_end)
        others = (0, 1) if self.turned else (box.column, box.column_end)
        batches, count, terms = box.last - box.first, lines[1] - lines[0], box.term_end - box.term
        # A box of several batches has all their rows, which follow one another.
        rows = np.empty((batches, count, terms), self.kernel.integers)
        first = self.row + box.first * self.size + lines[0]
        row_marks(self.key, first, box.term, rows.reshape(-1, terms))
        columns = np.empty((1, terms, others[1] - others[0]), self.kernel.integers)
        column_marks(self.key, others[0], box.term, columns[0])
        found = rows, columns
        if self.turned:
            found = transposed(columns), transposed(rows)
        if self.paired:
            found = np.repeat(columns, count, 2), found[1]
        return tuple(x.view(self.kernel.dtype) for x in found)


@jit
def element_words(key, offset, step, bits, out):
    """Words of `bits` bits for operation `step` of the elements offset, offset + 1, ..."""
    for e in range(out.size):
        own = key_word(np.uint64(key), np.uint64(offset + e))
        out[e] = np.int64(element_word(own, step) >> np.uint64(WORD_BITS - bits))


@functools.cache
def kernels(product, accumulator, mode, saturate, random_bits):
    """The kernels for these formats (product None: exact) and this rounding of product and sum, the best first.

    random_bits : of stochastic rounding, variant A; else 0.
    """
    found = []
    for carrier in CARRIER_TYPES:
        found += _kernels_in(carrier, product, accumulator, mode, saturate, random_bits)
    return tuple(found)


def _kernels_in(carrier, product, accumulator, mode, saturate, random_bits):
    c = CARRIERS[carrier]
    formats = [accumulator if product is None else product, accumulator]
    native = [_is_native(fmt, carrier) for fmt in formats]
    if not all(n or _is_ordinary(fmt, carrier) for n, fmt in zip(native, formats, strict=True)):
        return []
    if any(native) and (mode not in IN_HARDWARE or saturate != NO_SATURATION):
        return []
    if mode == EVEN:
        beyond = [_beyond(fmt, mode, saturate) for fmt in formats]
        if not all(map(_same, beyond)):
            return []
        shapes = _nearest_forms(product, accumulator, *native, c.mantissa_bits + 1)
        direction = NEAREST
    elif mode in STEPPED and _has_room(formats, c, mode, random_bits):
        direction, addend = STEPPED[mode]
        beyond = [_beyond(fmt, mode, saturate) for fmt in formats]
        if addend == WORD and c.mantissa_bits + 1 - formats[0].precision == random_bits:
            addend = WHOLE_WORD
        shapes = _stepped_forms(product, accumulator, *native, addend, c.emin)
    else:
        return []
    words = (
        [(random_bits, above) for above in (0, random_bits)] if mode == STOCHASTIC else [None, None]
    )
    constants = np.concatenate(
        [
            format_constants(*each)
            for each in zip(formats, [carrier] * 2, beyond, words, strict=True)
        ]
    )
    return [Kernel(carrier, product, accumulator, s, direction, constants) for s in shapes]


def _has_room(formats, c, mode, random_bits):
    """Whether words of this many bits fit among the digits that the carrier has to spare, and in its lanes."""
    if mode != STOCHASTIC:
        return True
    spare = [c.mantissa_bits + 1 - fmt.precision for fmt in formats]
    return random_bits <= min(*spare, SHARED_BITS) and max(spare) + random_bits <= c.bits
