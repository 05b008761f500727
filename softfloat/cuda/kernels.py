"""Thin kernels around the bodies: which thread this is, and where an element without a result is reported."""

import functools

from numba import cuda  # of numba-cuda: the importer has asked for it

from softfloat.cuda.driver import THREADS, blocks_for


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


def launch(kernel, tasks, stream, *arguments):
    """Run a kernel of bodies over so many tasks on a stream."""
    kernel[blocks_for(tasks), THREADS, stream](*arguments)
