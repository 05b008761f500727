"""Thin kernels around the bodies: which thread this is, and where an element without a result is reported."""

import functools

from numba import cuda, int64  # cuda: of numba-cuda, which the importer has asked for

from softfloat._jit import jit
from softfloat.cuda.driver import SIMULATED, THREADS, blocks_for

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


def launch(kernel, tasks, stream, *arguments):
    """Run a kernel of bodies over so many tasks on a stream."""
    kernel[blocks_for(tasks), THREADS, stream](*arguments)
