"""Numbers on a device as the definitions of sums and products take them: rows of float64 bits.

Also which elements of an array are no values of a format.
"""

import functools

import numpy as np

from softfloat._jit import jit
from softfloat.cuda.elementwise import ALL, integers, numbers
from softfloat.functional import Choice
from softfloat.rounding import EVEN
from softfloat.scalar import core
from softfloat.scalar.core import signed_bits

QUIET_BITS = 0x7FF8000000000000  # of the canonical NaN
NO_BITS = np.zeros(0, np.int64)
NEAREST = Choice()


@functools.cache
def gather_body():
    """out[e * n + k] : the bits, as float64, of term places[k] of element e of an array (outer, N, inner).

    constants: n, N, inner; without places it is term k. NaNs are the canonical one.
    """

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, x, places, _ = arrays
        n, whole, inner = constants
        for t in range(start, out.size, stride):
            e, k = t // n, t % n
            k = places[k] if places.size > 0 else k
            value = np.float64(x[np.uint64((e // inner * whole + k) * inner + e % inner)])
            out[t] = signed_bits(value) if value == value else np.int64(QUIET_BITS)
        return -1

    return body


def gather(call, view, extent, places=None):
    """The terms of each element of a flat array of this extent (outer, N, inner), row by row, as bits on the device.

    places : those that are taken, by default all.
    """
    outer, whole, inner = extent
    n = whole if places is None else len(places)
    size = outer * n * inner
    room = call.cuda.device_array(max(size, 1), np.int64, stream=call.stream)
    if size:
        words = call.words(NEAREST, ())
        chosen = words if places is None else call.upload(np.asarray(places, np.int64))
        flat = [(view, ALL), (chosen, ALL), (words, ALL)]
        constants = np.int64(n), np.int64(whole), np.int64(inner)
        call.run(gather_body(), room, words, flat, constants, NEAREST)
    return room


@functools.cache
def stray_body():
    """The first element of a thread that is no value of a format; constants: (F, N), whether it has NaN, infinity, -x.

    A negative NaN is one of the NaNs.
    """
    convert = core.operation("quantize")

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, x, _, _ = arrays
        (F, N), has_nan, has_infinity, signed = constants
        found = np.int64(-1)
        for t in range(start, out.size, stride):
            value = np.float64(x[np.uint64(t)])
            rounded = convert(value, value, value, F, N, EVEN, 0, 0, 24, 0)
            same = rounded == value
            if value != value:
                same = has_nan == 1
            elif abs(value) == np.inf:
                same = same and has_infinity == 1
            if signed == 0 and value == value and signed_bits(value) < 0:
                same = False
            if not same and found < 0:
                found = np.int64(t)
        return found

    return body


def first_stray(call, view, fmt, signed=True):
    """(index, value) of the first element of a flat array that is no value of a Format; None if all are. Waits."""
    if not view.size:
        return None
    flags = (fmt.has_nan, fmt.has_infinity, signed)
    constants = ((integers(fmt), numbers(fmt)), *map(np.int64, flags))
    words = call.words(NEAREST, ())
    index = call.missing(stray_body(), view, words, [(view, ALL)], constants, NEAREST)
    if index is None:
        return None
    return index, call.download(view, index)


def place_of(index, shape):
    return tuple(int(i) for i in np.unravel_index(index, shape))


def rounded(call, view, fmt, choice):
    """The numbers of a flat array rounded to a Format with a sign or NaN, in a new array of its dtype."""
    room = call.cuda.device_array(view.size, view.dtype, stream=call.stream)
    call.fill("quantize", [(view, ALL)], room, fmt, choice, call.words(choice, ()))
    return room
