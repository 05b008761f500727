"""Thin kernels around the bodies: which thread this is, and where an element without a result is reported."""

import functools
import warnings

# The module cuda is that of numba-cuda, which the importer has asked for.
from numba import cuda, float32, int64, uint32

from softfloat._jit import jit
from softfloat.cuda.driver import SIMULATED, THREADS, blocks_for, processors
from softfloat.cuda.product import (
    BROAD,
    COLUMNS,
    DEPTH,
    LARGEST,
    LEAST,
    QUICK,
    ROWS,
    SIDE,
    STEPS,
    TALL,
    TOGETHER,
    UNIVERSAL,
    choose_form,
    scaled,
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


def per_element_kernel(element, room):
    """The kernel of element(e, arrays, state, ...), for each output; state: `room` words of the thread's own."""

    @cuda.jit
    def softfloat_reduce(arrays, shape, n, choice, F, R, key, offset):
        state = cuda.local.array(room, int64)
        for e in range(cuda.grid(1), shape[0] * shape[1] * shape[2], cuda.gridsize(1)):
            element(e, arrays, plain(state), shape, n, choice, F, R, key, offset)

    return softfloat_reduce


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
    def softfloat_choice(found, digits, limits, chosen, ceiling):
        form, limit = choose_form(plain(found), digits, limits)
        chosen[0] = form
        ceiling[0] = limit

    return softfloat_choice


@functools.cache
def universal_kernel(body):
    """The kernel of the universal form, if that is the chosen one or another one gave up (chosen[1])."""

    @cuda.jit
    def softfloat_product(arrays, extent, constants, how, key, offset, chosen):
        if chosen[0] == UNIVERSAL or chosen[1] != 0:
            body(arrays, extent, constants, how, key, offset, cuda.grid(1), cuda.gridsize(1))

    return softfloat_product


@functools.cache
def tile_kernel(form):
    """C = A @ B in tiles, by the quick or the middle form, if that is the chosen one; words: Q, K and the clamp.

    Where the tile sticks out, zeros are multiplied, which change no sum.
    """
    step = STEPS[form]

    @cuda.jit
    def softfloat_tile(A, B, C, chosen, ceiling, words):
        if chosen[0] != form:
            return
        scale, splitter, clamp = words
        limit = ceiling[0]
        a_tile = cuda.shared.array((DEPTH, ROWS), float32)
        b_first = cuda.shared.array((DEPTH, COLUMNS), float32)
        b_second = cuda.shared.array((DEPTH, COLUMNS), float32)
        acc = cuda.local.array((TALL, BROAD), float32)
        a_own = cuda.local.array(TALL, float32)
        tx, ty = uint32(cuda.threadIdx.x), uint32(cuda.threadIdx.y)
        m, n, terms = uint32(C.shape[0]), uint32(C.shape[1]), uint32(A.shape[1])
        row0 = uint32(cuda.blockIdx.y) * uint32(ROWS)
        column0 = uint32(cuda.blockIdx.x) * uint32(COLUMNS)
        place = ty * uint32(SIDE) + tx
        for i in range(TALL):
            for j in range(BROAD):
                acc[i, j] = float32(0.0)
        for k0 in range(0, terms, DEPTH):
            worst = float32(0.0)
            for i in range(TALL):
                for j in range(BROAD):
                    size = abs(acc[i, j])
                    worst = size if size > worst else worst
            if worst > limit:
                chosen[1] = 1
            r = row0 + (place >> uint32(1))
            for i in range(TALL):
                kk = (place & uint32(1)) * uint32(TALL) + uint32(i)
                k = uint32(k0) + kk
                inside = r < m and k < terms
                a_tile[kk, place >> uint32(1)] = A[r, k] if inside else float32(0.0)
            for j in range(BROAD):
                column = column0 + tx * uint32(BROAD) + uint32(j)
                k = uint32(k0) + ty
                inside = column < n and k < terms
                b = B[k, column] if inside else float32(0.0)
                if form == QUICK:
                    b_first[ty, tx * uint32(BROAD) + uint32(j)] = scaled(b, scale)
                    b_second[ty, tx * uint32(BROAD) + uint32(j)] = scaled(b, splitter)
                else:
                    b_first[ty, tx * uint32(BROAD) + uint32(j)] = b
                    b_second[ty, tx * uint32(BROAD) + uint32(j)] = scaled(b, scale)
            cuda.syncthreads()
            for kk in range(DEPTH):
                for i in range(TALL):
                    a_own[i] = a_tile[uint32(kk), ty * uint32(TALL) + uint32(i)]
                for j in range(BROAD):
                    first = b_first[uint32(kk), tx * uint32(BROAD) + uint32(j)]
                    second = b_second[uint32(kk), tx * uint32(BROAD) + uint32(j)]
                    for i in range(TALL):
                        acc[i, j] = step(acc[i, j], a_own[i], first, second, splitter, clamp)
            cuda.syncthreads()
        for i in range(TALL):
            for j in range(BROAD):
                r = row0 + ty * uint32(TALL) + uint32(i)
                column = column0 + tx * uint32(BROAD) + uint32(j)
                if r < m and column < n:
                    C[r, column] = acc[i, j]

    return softfloat_tile
