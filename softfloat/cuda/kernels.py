"""Thin kernels around the bodies: which thread this is, and where an element without a result is reported."""

import functools
import warnings

import numpy as np

# The module cuda is that of numba-cuda, which the importer has asked for.
from numba import cuda, float32, int64, uint32

from softfloat._jit import jit
from softfloat.cuda import bodies
from softfloat.cuda.arrays import bare
from softfloat.cuda.driver import SIMULATED, THREADS, blocks_for, processors
from softfloat.cuda.product import (
    BROAD,
    COLUMNS,
    DEPTH,
    GENERAL,
    LARGEST,
    LEAST,
    SIDE,
    TOGETHER,
    UNIVERSAL,
    choose_form,
    column_word,
    larger,
    product_word,
    row_word,
    start_body,
    survey_body,
)

FEW = 128  # blocks below which numba warns

if SIMULATED:

    def plain(x):
        """A thread's own array as compiled code takes it."""
        return getattr(getattr(x, "_item", x), "_ary", x)

else:

    @jit(inline=True)
    def plain(x):
        return x


@functools.cache
def elementwise_kernel(body):
    """The kernel of a body that gives every element a result."""

    @cuda.jit
    def softfloat_elementwise(arrays, masks, constants, how, key, offset):
        start, stride = cuda.grid(1), cuda.gridsize(1)
        body(arrays, masks, constants, how, key, offset, start, stride)

    return softfloat_elementwise


@functools.cache
def careful_kernel(body):
    """The kernel of a body that may find elements without a result: the least index goes to missing[0]."""

    @cuda.jit
    def softfloat_careful(arrays, masks, constants, how, key, offset, missing):
        start, stride = cuda.grid(1), cuda.gridsize(1)
        found = body(arrays, masks, constants, how, key, offset, start, stride)
        if found >= 0:
            cuda.atomic.min(missing, 0, found)

    return softfloat_careful


@functools.cache
def per_element_kernel(element, room):
    """The kernel of element(e, arrays, state, given), for each output; state: `room` words of the thread's own."""

    @cuda.jit
    def softfloat_element(count, arrays, given):
        state = cuda.local.array(room, int64)
        for e in range(cuda.grid(1), count, cuda.gridsize(1)):
            element(e, arrays, plain(state), given)

    return softfloat_element


def configured(kernel, grid, threads, stream):
    """kernel[grid, threads, stream] without numba's warning that a small array fills no large device."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Grid size")
        return kernel[grid, threads, stream]


def launch(kernel, tasks, stream, *arguments):
    """Run a kernel of bodies over so many tasks on a stream."""
    blocks = blocks_for(tasks)
    if blocks < FEW:
        configured(kernel, blocks, THREADS, stream)(*arguments)
    else:
        kernel[blocks, THREADS, stream](*arguments)


def copied(x, stream):
    """A flat copy, in C order, of an array of any layout as numba has it."""
    if min(x.strides, default=0) < 0:
        raise ValueError(
            f"a device array with negative strides {x.strides} cannot be read; copy it first"
        )
    room = cuda.device_array(x.size, x.dtype, stream=stream)
    if x.size:
        arrays = tuple(bare(y) for y in (room, room, x, x, x))
        body, none = bodies.copy_body(), (np.uint64(0),) * 3
        zero = np.int64(0)
        arguments = arrays, none, (zero,), (zero,) * 3, np.uint64(0), zero
        launch(elementwise_kernel(body), x.size, stream, *arguments)
    return room


# ---------------------------------------------------------------- products of matrices
def few_blocks(tasks):
    """Blocks for a loop that ends in atomic operations."""
    return max(1, min(-(-tasks // THREADS), 2 * processors()))


@functools.cache
def survey_kernel():
    """found[j] takes what softfloat.cuda.product.survey_body finds of a flat array."""

    @cuda.jit
    def softfloat_survey(x, found, j):
        largest, least, together = survey_body(plain(x), cuda.grid(1), cuda.gridsize(1))
        cuda.atomic.max(found, (j, LARGEST), largest)
        cuda.atomic.min(found, (j, LEAST), least)
        cuda.atomic.or_(found, (j, TOGETHER), together)

    return softfloat_survey


@functools.cache
def choice_kernel():
    """One thread: chosen[0] takes the form, ceiling[0] how far sums may go by it."""

    @cuda.jit
    def softfloat_choice(found, offers, chosen, ceiling):
        form, limit = choose_form(plain(found), plain(offers))
        chosen[0] = form
        ceiling[0] = limit

    return softfloat_choice


@functools.cache
def start_kernel():
    """chosen[1] is set where softfloat.cuda.product.start_body finds an initial value that tiles do not take."""

    @cuda.jit
    def softfloat_starts(C, F, N, chosen):
        if start_body(plain(C), F, N, cuda.grid(1), cuda.gridsize(1)):
            chosen[1] = 1

    return softfloat_starts


@functools.cache
def universal_kernel(body):
    """The kernel of the universal form, if that is the chosen one or another one gave up (chosen[1])."""

    @cuda.jit
    def softfloat_product(arrays, extent, constants, how, key, offset, chosen):
        if chosen[0] == UNIVERSAL or chosen[1] != 0:
            body(arrays, extent, constants, how, key, offset, cuda.grid(1), cuda.gridsize(1))

    return softfloat_product


@functools.cache
def tile_kernel(kind):
    """out = C + A @ B in tiles of a kind (a Tile), C empty for +0, if its form is the chosen one.

    constants : of the form.   key, row : of the random words; number of the result's first row.
    Where the tile sticks out, zeros are multiplied, which change no sum.
    """
    form, random, tall = kind.form, kind.random, kind.tall
    rows, share = SIDE * tall, DEPTH // tall  # share : threads that read a row of A
    step, prepare, blank = kind.step, kind.prepare, kind.blank

    @cuda.jit
    def softfloat_tile(A, B, C, out, chosen, ceiling, constants, key, row):
        if chosen[0] != form:
            return
        limit = ceiling[0]
        a_tile = cuda.shared.array((DEPTH, rows), float32)
        b_first = cuda.shared.array((DEPTH, COLUMNS), float32)
        b_second = cuda.shared.array((DEPTH, COLUMNS), float32)
        acc = cuda.local.array((tall, BROAD), float32)
        a_own = cuda.local.array(tall, float32)
        if random == 1:
            a_words = cuda.shared.array((DEPTH, rows), uint32)
            b_words = cuda.shared.array((DEPTH, COLUMNS), uint32)
            w_own = cuda.local.array(tall, uint32)
        tx, ty = uint32(cuda.threadIdx.x), uint32(cuda.threadIdx.y)
        m, n, terms = uint32(out.shape[0]), uint32(out.shape[1]), uint32(A.shape[1])
        row0 = uint32(cuda.blockIdx.x) * uint32(rows)
        column0 = uint32(cuda.blockIdx.y) * uint32(COLUMNS)
        place = ty * uint32(SIDE) + tx
        for i in range(tall):
            for j in range(BROAD):
                r = row0 + ty * uint32(tall) + uint32(i)
                column = column0 + tx * uint32(BROAD) + uint32(j)
                given = C.size > 0 and r < m and column < n
                acc[i, j] = C[int64(r) * int64(n) + int64(column)] if given else float32(0.0)
        for k0 in range(0, terms, DEPTH):
            worst = float32(0.0)
            for i in range(tall):
                for j in range(BROAD):
                    worst = larger(abs(acc[i, j]), worst)
            if worst > limit:
                chosen[1] = 1
            own = place // uint32(share)
            r = row0 + own
            for i in range(tall):
                kk = (place % uint32(share)) * uint32(tall) + uint32(i)
                k = uint32(k0) + kk
                inside = r < m and k < terms
                a_tile[kk, own] = A[r, k] if inside else float32(0.0)
                if random == 1:
                    a_words[kk, own] = row_word(key, row + int64(r), int64(k))
            for j in range(BROAD):
                own = tx * uint32(BROAD) + uint32(j)
                column = column0 + own
                k = uint32(k0) + ty
                inside = column < n and k < terms
                b = B[k, column] if inside else blank
                first, second = prepare(b, constants)
                b_first[ty, own] = first
                b_second[ty, own] = second
                if random == 1:
                    b_words[ty, own] = column_word(key, int64(column), int64(k))
            cuda.syncthreads()
            for kk in range(DEPTH):
                for i in range(tall):
                    a_own[i] = a_tile[uint32(kk), ty * uint32(tall) + uint32(i)]
                    if random == 1:
                        w_own[i] = a_words[uint32(kk), ty * uint32(tall) + uint32(i)]
                for j in range(BROAD):
                    own = tx * uint32(BROAD) + uint32(j)
                    first, second = b_first[uint32(kk), own], b_second[uint32(kk), own]
                    for i in range(tall):
                        y = uint32(0)
                        if random == 1:
                            y = product_word(w_own[i], b_words[uint32(kk), own])
                        acc[i, j] = step(acc[i, j], a_own[i], first, second, constants, y)
            cuda.syncthreads()
        for i in range(tall):
            for j in range(BROAD):
                r = row0 + ty * uint32(tall) + uint32(i)
                column = column0 + tx * uint32(BROAD) + uint32(j)
                if r < m and column < n:
                    out[r, column] = acc[i, j]
                    if form == GENERAL and not abs(acc[i, j]) <= limit:
                        chosen[1] = 1

    return softfloat_tile
