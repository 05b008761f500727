"""Matrix products by vector kernels: blocks that fit in the caches, each tile by the cheapest form that is right.

C is cut into tiles, B into blocks of 256 terms by up to 512 columns. Before a tile takes its part of a block, bounds on
what can appear there choose among three forms (softfloat.ops.linalg): the quickest, one for subnormal products, and one
for everything. They agree bit for bit wherever more than one is right, so the choice, like the cut of the work into
boxes for threads, decides the speed only.

Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for the blocking.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import make_nans_canonical
from softfloat.backends.direction import NEAREST, set_direction
from softfloat.backends.packing import (
    TALLIES,
    aligned,
    bounds_of_rows,
    bounds_of_tally,
    copy_in,
    copy_lanes,
    copy_out,
    pack_lanes,
    pack_panel,
    tally_columns,
    tile_bounds,
)
from softfloat.backends.survey import survey_numbers
from softfloat.backends.threads import get_num_threads, run_parts
from softfloat.backends.tiles import ABSENT, ROWS, VECTORS, WIDE, WIDTH, lane_tile, tile
from softfloat.bits import (
    UNKNOWN,
    borrowed,
    enter_standard_arithmetic,
    leave_standard_arithmetic,
)
from softfloat.format import CARRIERS
from softfloat.ops.linalg import (
    BITS_HALF,
    BITS_KEEP,
    BITS_RAISE,
    BITS_SHIFT,
    CLAMP,
    CONSTANTS,
    GRID,
    INFINITE,
    LARGEST,
    NORMAL,
    OVERFLOW,
    OVERFLOW_NEGATIVE,
    SCALE,
    SMALLEST_NORMAL,
    SPLITTER,
    WORD_KEEP,
    WORD_SHIFT,
    panel_rows,
    product_way,
)

DEPTH = 256  # terms of a block
COLUMNS = 512  # of a block of B
PANEL = VECTORS * WIDTH  # columns of a tile in float32
# What packing costs, in multiply-adds of a full tile: for a number of A in each block of columns, and for one of B.
PACK_A, PACK_B = 40, 12
SHARED = 1 << 21  # multiply-adds that are worth waking a second thread for
OF_A_THREAD = 1 << 25  # that a thread does at once, if there is more work
AT_ONCE = 1 << 30  # multiply-adds of a box at most: between two looks at Ctrl-C
NUMBERS = 1 << 24  # of the operands of a box: how many words it may need
TERMS = 1 << 20  # of a box
# The three forms of a kernel: where no product is subnormal, where none is too large, and for everything.
QUICK, MIDDLE, UNIVERSAL = range(3)
ANY = -1  # no form is forced
# What the choice of a form looks at: growth of a sum by the roundings of a block and an absolute slack; the largest sum
# and the largest factor that the first two forms take; the smallest product that the quick one takes; whether they
# lose the sign of a zero.
GROWTH, SLACK, LARGEST_SUM, LARGEST_FACTOR, LEAST_PRODUCT, LOSES_ZEROS, LIMITS = range(7)
# What operands of a small product keep to: digits of two factors and of one of B; the least place of a digit of a
# product; the largest product, and largest sum of them after roundings that each add so much.
MOST_DIGITS, MOST_DIGITS_B, LEAST_PLACE, MOST_PRODUCT, MOST_TOTAL, GROWTH_OF_SUMS, EASY = range(7)
FACTORS = 4  # numbers that scale panel rows, for the quick form and for the others


@jit
def _chosen(held, minus_zero, highest, lowest, bounds, limits, forced):
    """The form that a tile takes.

    held, highest : the largest magnitudes in C and A.   bounds : as _panel_bounds gives them.
    """
    reach = (held + highest * bounds[0]) * limits[GROWTH] + limits[SLACK]
    if (
        not reach <= limits[LARGEST_SUM]
        or bounds[1] > limits[LARGEST_FACTOR]
        or (minus_zero and limits[LOSES_ZEROS] != 0)
        or forced == UNIVERSAL
    ):
        return UNIVERSAL
    exact = lowest * bounds[2] >= limits[LEAST_PRODUCT] or highest == 0 or bounds[1] == 0
    return QUICK if exact and forced != MIDDLE else MIDDLE


@functools.cache
def contraction(quick, middle, universal, width, paired=False):
    """The kernel of three forms (ABSENT, or codes; the carrier's are all WIDE or none) as a compiled function.

    paired : A is transposed, and its column j meets column j of B alone.
    """
    vectors, rows = panel_rows(middle % WIDE)
    both = vectors == 2
    apart = quick != ABSENT and product_way(quick) == NORMAL
    panel = VECTORS * width
    none_quick, none_universal = quick == ABSENT, universal == ABSENT

    @jit
    def run_tile(form, a, height, b, n, c, stride, constants):
        if form == QUICK:
            tile(quick, a, height, b, n, c, stride, constants)
        elif form == MIDDLE:
            tile(middle, a, height, b, n, c, stride, constants)
        else:
            tile(universal, a, height, b, n, c, stride, constants)

    @jit
    def run_lane_tile(form, a, b, n, c, stride, constants):
        if form == QUICK:
            lane_tile(quick, a, b, n, c, stride, constants)
        elif form == MIDDLE:
            lane_tile(middle, a, b, n, c, stride, constants)
        else:
            lane_tile(universal, a, b, n, c, stride, constants)

    @jit(inline=True)
    def room_for(like, columns, depth):
        """Buffers for a block: packed B and A, a tile, tallies and bounds of columns, and which panels are packed."""
        panels = (columns + panel - 1) // panel
        packed_b = aligned((2 if apart else 1) * panels * rows * depth * panel, like)
        packed_a = aligned(depth * ROWS * width * vectors if paired else 0, like)
        tally = np.empty((TALLIES, columns), like.dtype)
        ready = np.empty((2, panels), np.bool_)
        return packed_b, packed_a, aligned(ROWS * panel, like), tally, np.empty((panels, 3)), ready

    @jit(inline=True)
    def bound_panels(B, block, room):
        """Bounds of the panels of a block."""
        j0, columns, k0, n = block
        _, _, _, tally, bounds, _ = room
        tally_columns(B, k0, n, j0, columns, tally)
        for p in range((columns + panel - 1) // panel):
            found = bounds_of_tally(tally, p * panel, min(panel, columns - p * panel))
            bounds[p, 0], bounds[p, 1], bounds[p, 2] = found

    @jit(inline=True)
    def address_of(p, form, B, words, block, room, factors):
        """Where panel p lies as the form wants it; packed now if it is not yet."""
        j0, columns, k0, n = block
        packed_b, ready = room[0], room[5]
        kept = 1 if apart and form == QUICK else 0
        size = packed_b.size // ((2 if apart else 1) * ready.shape[1])
        place = (kept * ready.shape[1] + p) * size
        if not ready[kept, p]:
            ready[kept, p] = True
            one, other = factors[2 - 2 * kept], factors[3 - 2 * kept]
            j, count = j0 + p * panel, min(panel, columns - p * panel)
            target = packed_b[place : place + size]
            pack_panel(B, words, k0, n, j, count, panel, rows, both, one, other, target)
        return packed_b.ctypes.data + packed_b.itemsize * place

    @jit(inline=True)
    def form_of(C, where, spread, bounds, limits, forced):
        """The form for part of C: where, as tile_bounds takes it; spread, of the numbers of A."""
        i, height, j, count = where
        held, minus_zero = tile_bounds(C, i, height, j, count)
        form = _chosen(held, minus_zero, spread[0], spread[1], bounds, limits, forced)
        return MIDDLE if none_quick and form == QUICK or none_universal else form

    @jit(inline=True)
    def row_of_tiles(A, B, C, words, i, height, block, room, choice):
        """C += A @ B for a block of B and the rows of a tile."""
        constants, limits, factors, forced, settled = choice
        j0, columns, k0, n = block
        spare, bounds = room[2], room[4]
        spread = (0.0, 0.0)
        if settled == ANY:
            spread = bounds_of_rows(A, i, height, k0, n)
        marks, row0, term0 = words[0]
        numbers_at = A.ctypes.data + A.itemsize * (i * A.shape[1] + k0)
        words_at = marks.ctypes.data + A.itemsize * ((i - row0) * marks.shape[1] + k0 - term0)
        source = (numbers_at, A.shape[1], words_at, marks.shape[1])
        for p in range((columns + panel - 1) // panel):
            j, count = j0 + p * panel, min(panel, columns - p * panel)
            form = settled
            if settled == ANY:
                form = form_of(C, (i, height, j, count), spread, bounds[p], limits, forced)
            panel_at = address_of(p, form, B, words[1], block, room, factors)
            target_at, stride = C.ctypes.data + C.itemsize * (i * C.shape[1] + j), C.shape[1]
            whole = height == ROWS and count == panel
            if not whole:  # by way of a spare tile
                target_at, stride = spare.ctypes.data, panel
                copy_in(C, i, height, j, count, panel, spare)
            run_tile(form, source, height, panel_at, n, target_at, stride, constants.ctypes.data)
            if not whole:
                copy_out(spare, panel, C, i, height, j, count)

    @jit(inline=True)
    def row_of_lanes(A, B, C, words, block, room, choice):
        """C[0, j] += the sum of A[k, j] * B[k, j] over a block of B."""
        constants, limits, factors, forced, _ = choice
        j0, columns, k0, n = block
        packed_a, spare, bounds = room[1], room[2], room[4]
        for p in range((columns + panel - 1) // panel):
            j, count = j0 + p * panel, min(panel, columns - p * panel)
            spread = pack_lanes(A, words[0], k0, n, j, count, width, packed_a, both)
            form = form_of(C, (0, 1, j, count), spread, bounds[p], limits, forced)
            panel_at = address_of(p, form, B, words[1], block, room, factors)
            copy_lanes(C, j, count, width, panel, spare, False)
            spare_at, constants_at = spare.ctypes.data, constants.ctypes.data
            run_lane_tile(form, packed_a.ctypes.data, panel_at, n, spare_at, panel, constants_at)
            copy_lanes(C, j, count, width, panel, spare, True)

    @jit
    def sweep(A, B, C, items, words, box, step, room, choice):
        """The blocks of a box, `step` columns wide, one after the other."""
        first, last, i0, i1, j0, j1, k0, k1 = box
        A, B, C = borrowed(A), borrowed(B), borrowed(C)
        words = borrowed(words[0]), borrowed(words[1])
        room = (
            borrowed(room[0]), borrowed(room[1]), borrowed(room[2]),
            borrowed(room[3]), borrowed(room[4]), borrowed(room[5]),
        )  # fmt: skip
        choice = (
            borrowed(choice[0]), borrowed(choice[1]), borrowed(choice[2]), choice[3], choice[4],
        )  # fmt: skip
        for e in range(first, last):
            a, b, c = A[items[e, 0]], B[items[e, 1]], C[e]
            of_a = words[0][min(e - first, words[0].shape[0] - 1)]
            of_b = words[1][min(e - first, words[1].shape[0] - 1)]
            own = ((of_a, k0 if paired else i0, j0 if paired else k0), (of_b, k0, j0))
            for j in range(j0, j1, step):
                for k in range(k0, k1, DEPTH):
                    block = (j, min(step, j1 - j), k, min(DEPTH, k1 - k))
                    room[5][:] = False
                    if choice[4] == ANY:
                        bound_panels(b, block, room)
                    if paired:
                        row_of_lanes(a, b, c, own, block, room, choice)
                    else:
                        for i in range(i0, i1, ROWS):
                            height = min(ROWS, i1 - i)
                            row_of_tiles(a, b, c, own, i, height, block, room, choice)

    @jit
    def contract_box(A, B, C, items, words, box, choice, direction):
        """C += A @ B, every operation rounded, for part of C and of the terms: False if it must not run.

        A, B, C : batches of matrices.   items : for each of C, the batches of A and B.   words : batches of the words
        of A and B within the box, bits of the carrier; one for all, or one each.   box : as `Box`.
        choice : constants, limits, factors of the panel rows of the quick form, then of the others; a form to take
        wherever it is right, or ANY; a form that is right everywhere, so that nothing is looked at, or ANY.
        """
        former = enter_standard_arithmetic()
        if former == UNKNOWN:
            return False
        set_direction(direction)
        _, _, _, _, j0, j1, k0, k1 = box
        panels = (j1 - j0 + panel - 1) // panel
        blocks = (panels * panel + COLUMNS - 1) // COLUMNS
        step = (panels + blocks - 1) // blocks * panel
        room = room_for(A, min(step, j1 - j0), min(DEPTH, k1 - k0))
        sweep(A, B, C, items, words, box, step, room, choice)
        set_direction(NEAREST)
        leave_standard_arithmetic(former)
        return True

    return contract_box


@functools.cache
def small_contraction(quick, middle, universal, width):
    """A product of two small matrices as one compiled call of few arguments: each costs a thousand terms."""
    contract_box = contraction(quick, middle, universal, width)
    none_quick, none_universal = quick == ABSENT, universal == ABSENT

    @jit
    def contract(a, b, c, constants, limits, easy, forced, direction):
        """c = a @ b: False, with c void, where this is not the way to make it.

        a, b : of finite numbers, or it is not.   constants : those of the formats, then the factors of panel rows.
        easy : what the operands have to keep to for the limits to hold, as MOST_PRODUCT and those after it say.
        """
        count = constants.size - FACTORS
        own, factors = constants[:count], constants[count:]
        terms = b.shape[0]
        highest, lowest, digits, special = survey_numbers(a.reshape(-1))
        largest, least, digits_b, special_b = survey_numbers(b.reshape(-1))
        if special or special_b or digits + digits_b > easy[MOST_DIGITS]:
            return False
        if digits_b > easy[MOST_DIGITS_B] or lowest * least < easy[LEAST_PLACE]:
            return False
        product = highest * largest
        growth = 1.01 * math.exp(min(easy[GROWTH_OF_SUMS] * (terms + 1), 600.0))
        if product > easy[MOST_PRODUCT] or terms * product * growth > easy[MOST_TOTAL]:
            return False
        settled = MIDDLE
        if not none_universal:
            bounds = (terms * largest, largest, least)
            settled = _chosen(0.0, False, highest, lowest, bounds, limits, forced)
            settled = MIDDLE if none_quick and settled == QUICK else settled
            settled = ANY if settled == UNIVERSAL or terms > DEPTH else settled
        flat = c.reshape(-1)
        for i in range(flat.size):
            flat[i] = 0
        A, B = a.reshape((1, a.shape[0], a.shape[1])), b.reshape((1, b.shape[0], b.shape[1]))
        C = c.reshape((1, c.shape[0], c.shape[1]))
        box = (0, 1, 0, a.shape[0], 0, b.shape[1], 0, terms)
        items = np.zeros((1, 2), np.int64)
        choice = (own, limits, factors, forced, settled)
        done = contract_box(A, B, C, items, (A, B), box, choice, direction)
        if settled == ANY or none_universal:  # else everything is finite
            make_nans_canonical(flat)
        return done

    return contract


def format_constants(fmt, carrier, overflow, word=None):
    """The constants of a format for the forms in a carrier, as an array of the carrier's dtype.

    overflow : magnitudes that overflow gives for positive and for negative numbers, and the one of infinities.
    word : (number of random bits, how many bits of the word lie above them), where there are any.
    """
    c = CARRIERS[np.dtype(carrier)]
    q = c.mantissa_bits + 1 - fmt.precision
    constants = np.zeros(CONSTANTS, c.dtype)
    bits = constants.view(np.uint32 if c.bits == 32 else np.uint64)
    with np.errstate(
        over="ignore"
    ):  # a constant that does not fit belongs to a form that is not right there
        constants[SPLITTER] = (1 << q) + 1
        constants[SCALE] = 1 << q
        constants[CLAMP] = np.ldexp(1.0, fmt.emin + q)
        constants[GRID] = np.ldexp(1.5, fmt.emin + q)
    constants[SMALLEST_NORMAL] = fmt.smallest_normal
    constants[LARGEST] = fmt.max
    constants[OVERFLOW], constants[OVERFLOW_NEGATIVE], constants[INFINITE] = overflow
    bits[BITS_SHIFT] = q
    bits[BITS_HALF] = (1 << (q - 1)) - 1 if q else 0
    bits[BITS_KEEP] = (1 << c.bits) - (1 << q)
    bits[BITS_RAISE] = (2 * q + 1) << (c.mantissa_bits - 1)
    if word is not None:
        count, above = word
        bits[WORD_SHIFT] = c.bits - q - above
        bits[WORD_KEEP] = ((1 << count) - 1) << (q - count)
    return constants


class Box(NamedTuple):
    """Part of the work: batches first to last, rows, columns and terms, each from one number up to another."""

    first: int
    last: int
    row: int
    row_end: int
    column: int
    column_end: int
    term: int
    term_end: int


def _pieces(size, count, unit=1):
    """(start, end) of at most `count` nearly equal pieces of range(size), at multiples of `unit`."""
    units = -(-size // unit)
    step = -(-units // count) * unit
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def _grid(m, n, count):
    """Pieces of the rows and of the columns, `count` pairs or so, for which the least is packed."""
    costs = []
    for down in range(1, min(count, -(-m // ROWS)) + 1):
        across = min(-(-count // down), -(-n // PANEL))
        blocks = across * -(-n // (across * COLUMNS))
        costs.append(
            (-(-count // (down * across)), down * PACK_B * n + blocks * PACK_A * m, down, across)
        )
    *_, down, across = min(costs)
    return _pieces(m, down, ROWS), _pieces(n, across, PANEL)


def _boxes(batches, m, n, terms, threads):
    """The boxes into which these terms of a product are cut, a list: as many as threads and Ctrl-C ask for."""
    first, last = terms
    k = last - first
    rows, columns = -(-m // ROWS) * ROWS, -(-n // PANEL) * PANEL
    work = batches * k * (rows * columns + PACK_A * m + PACK_B * columns)
    count = max(1, work // AT_ONCE, batches * (m + n) * k // NUMBERS)
    if threads > 1 and work >= SHARED:
        count = max(count, threads * min(4, max(1, work // (threads * OF_A_THREAD))))
    if batches >= count:
        return [Box(*some, 0, m, 0, n, first, last) for some in _pieces(batches, count)]
    down, across = _grid(m, n, -(-count // batches))
    return [
        Box(e, e + 1, *some, *others, first, last)
        for e in range(batches)
        for some in down
        for others in across
    ]


def contract(run, arguments, operands, C, items, words, terms, forced=ANY):
    """C += A @ B on batches in one carrier, NaNs canonical; False if the kernels must not run here.

    run : a contraction.   arguments : constants, limits, factors, direction.   operands : A and B.   items : as it
    takes them.   words : a function that gives those of A and B for a box, or None.   terms : the first and the end.
    """
    A, B = operands
    *choice, direction = arguments
    batches, m, n = C.shape
    done = []

    def task(*numbers):
        box = Box(*numbers)
        own = operands if words is None else words(box)
        done.append(run(A, B, C, items, own, tuple(box), (*choice, forced, ANY), direction))

    threads = get_num_threads()
    for first in range(*terms, TERMS):
        part = first, min(first + TERMS, terms[1])
        run_parts(task, _boxes(batches, m, n, part, threads), threads)
    return all(done)
