"""Matrix products by vector kernels: blocks that fit in the caches, each tile by the cheapest form that is right.

C is cut into tiles, B into blocks of 256 terms by up to 512 columns. Before a tile takes its part of a block, bounds on
what can appear there choose among three forms (softfloat.ops.linalg): the quickest, one for subnormal products, and one
for everything. They agree bit for bit wherever more than one is right, so the choice, like the cut of the work into
boxes for threads, decides the speed only.

Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008), for the blocking.
"""

import functools
from typing import NamedTuple

import numpy as np

from softfloat._jit import jit
from softfloat.backends.cpu import make_nans_canonical
from softfloat.backends.direction import NEAREST, set_direction
from softfloat.backends.packing import (
    TALLIES,
    aligned,
    bounds_of_tally,
    copy_in,
    copy_lanes,
    copy_out,
    pack_lanes,
    pack_panel,
    pack_rows,
    tally_columns,
    tile_bounds,
)
from softfloat.backends.threads import get_num_threads, run_parts
from softfloat.backends.tiles import ABSENT, ROWS, VECTORS, WIDE, WIDTH, tile
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
def contraction(quick, middle, universal, width):
    """The kernel of three forms (ABSENT, or codes; the carrier's are all WIDE or none) as a compiled function."""
    vectors, rows = panel_rows(middle % WIDE)
    both = vectors == 2
    apart = quick != ABSENT and product_way(quick) == NORMAL
    panel = VECTORS * width
    none_quick, none_universal = quick == ABSENT, universal == ABSENT

    @jit
    def run_tile(form, a, b, n, c, stride, constants):
        if form == QUICK:
            tile(quick, a, b, n, c, stride, constants)
        elif form == MIDDLE:
            tile(middle, a, b, n, c, stride, constants)
        else:
            tile(universal, a, b, n, c, stride, constants)

    @jit(inline=True)
    def room_for(like, columns, depth):
        """Buffers for a block: packed B and A, a tile, tallies and bounds of columns, and which panels are packed."""
        panels = (columns + panel - 1) // panel
        packed_b = aligned((2 if apart else 1) * panels * rows * depth * panel, like)
        packed_a = aligned(depth * ROWS * width * vectors, like)
        tally = np.empty((TALLIES, columns), like.dtype)
        ready = np.empty((2, panels), np.bool_)
        return packed_b, packed_a, aligned(ROWS * panel, like), tally, np.empty((panels, 3)), ready

    @jit(inline=True)
    def bound_panels(B, block, room):
        """Bounds of the panels of a block, none of them packed yet."""
        j0, columns, k0, n = block
        _, _, _, tally, bounds, ready = room
        tally_columns(B, k0, n, j0, columns, tally)
        ready[:] = False
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
    def row_of_tiles(A, B, C, words, i, height, block, room, choice, paired):
        """C += A @ B for a block of B and the rows of a tile."""
        constants, limits, factors, forced = choice
        j0, columns, k0, n = block
        packed_a, spare, bounds = room[1], room[2], room[4]
        spread = (0.0, 0.0)
        if not paired:
            spread = pack_rows(A, words[0], i, height, k0, n, width, packed_a, both)
        for p in range((columns + panel - 1) // panel):
            j, count = j0 + p * panel, min(panel, columns - p * panel)
            if paired:
                spread = pack_lanes(A, words[0], k0, n, j, count, width, packed_a, both)
            form = form_of(C, (i, height, j, count), spread, bounds[p], limits, forced)
            panel_at = address_of(p, form, B, words[1], block, room, factors)
            target_at, stride = C.ctypes.data + C.itemsize * (i * C.shape[1] + j), C.shape[1]
            whole = height == ROWS and count == panel and not paired
            if not whole:  # by way of a spare tile
                target_at, stride = spare.ctypes.data, panel
                if paired:
                    copy_lanes(C, j, count, width, panel, spare, False)
                else:
                    copy_in(C, i, height, j, count, panel, spare)
            constants_at = constants.ctypes.data
            run_tile(form, packed_a.ctypes.data, panel_at, n, target_at, stride, constants_at)
            if paired:
                copy_lanes(C, j, count, width, panel, spare, True)
            elif not whole:
                copy_out(spare, panel, C, i, height, j, count)

    @jit
    def sweep(A, B, C, items, words, box, step, room, choice, paired):
        """The blocks of a box, `step` columns wide, one after the other."""
        first, last, i0, i1, j0, j1, k0, k1 = box
        A, B, C = borrowed(A), borrowed(B), borrowed(C)
        words = borrowed(words[0]), borrowed(words[1])
        room = (
            borrowed(room[0]), borrowed(room[1]), borrowed(room[2]),
            borrowed(room[3]), borrowed(room[4]), borrowed(room[5]),
        )  # fmt: skip
        choice = borrowed(choice[0]), borrowed(choice[1]), borrowed(choice[2]), choice[3]
        for e in range(first, last):
            a, b, c = A[items[e, 0]], B[items[e, 1]], C[e]
            of_a = words[0][min(e - first, words[0].shape[0] - 1)]
            of_b = words[1][min(e - first, words[1].shape[0] - 1)]
            own = ((of_a, k0 if paired else i0, j0 if paired else k0), (of_b, k0, j0))
            for j in range(j0, j1, step):
                for k in range(k0, k1, DEPTH):
                    block = (j, min(step, j1 - j), k, min(DEPTH, k1 - k))
                    bound_panels(b, block, room)
                    for i in range(i0, i1, ROWS):
                        height = min(ROWS, i1 - i)
                        row_of_tiles(a, b, c, own, i, height, block, room, choice, paired)

    @jit
    def contract_box(A, B, C, items, words, box, choice, direction, paired):
        """C += A @ B, every operation rounded, for part of C and of the terms: False if it must not run.

        A, B, C : batches of matrices.   items : for each of C, the batches of A and B.   words : batches of the words
        of A and B within the box, bits of the carrier; one for all, or one each.   box : as `Box`.
        choice : constants, limits, factors of the panel rows of the quick form, then of the others; a form to take
        wherever it is right, or ANY.   paired : A is transposed, and its column j meets column j of B alone.
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
        sweep(A, B, C, items, words, box, step, room, choice, paired)
        set_direction(NEAREST)
        leave_standard_arithmetic(former)
        return True

    return contract_box


@functools.cache
def matrix_contraction(quick, middle, universal, width):
    """The same for two matrices as one call of few arguments: to take those apart costs as much as a small product."""
    contract_box = contraction(quick, middle, universal, width)

    @jit
    def contract(a, b, c, items, constants, limits, factors, forced, direction):
        """c = a @ b, NaNs canonical: False if it must not run.   items : of a batch of one; the rest as above."""
        flat = c.reshape(-1)
        for i in range(flat.size):
            flat[i] = 0
        A, B = a.reshape((1, a.shape[0], a.shape[1])), b.reshape((1, b.shape[0], b.shape[1]))
        C = c.reshape((1, c.shape[0], c.shape[1]))
        box = (0, 1, 0, a.shape[0], 0, b.shape[1], 0, a.shape[1])
        choice = (constants, limits, factors, forced)
        done = contract_box(A, B, C, items, (A, B), box, choice, direction, False)
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


def contract(run, arguments, operands, C, items, words, terms, paired=False, forced=ANY):
    """C += A @ B on batches in one carrier, NaNs canonical; False if the kernels must not run here.

    run : a contraction.   arguments : constants, limits, factors, direction.   operands : A and B.   items, paired : as
    it takes them.   words : a function that gives those of A and B for a box, or None.   terms : the first and the end.
    """
    A, B = operands
    *choice, direction = arguments
    batches, m, n = C.shape
    done = []

    def task(*numbers):
        box = Box(*numbers)
        own = operands if words is None else words(box)
        done.append(run(A, B, C, items, own, tuple(box), (*choice, forced), direction, paired))

    threads = get_num_threads()
    for first in range(*terms, TERMS):
        part = first, min(first + TERMS, terms[1])
        run_parts(task, _boxes(batches, m, n, part, threads), threads)
    return all(done)
