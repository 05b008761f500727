"""Products of matrices by an engine, on a device: the definition of softfloat.ops.engine, one thread an output element.

As softfloat.engine_products does it on the CPU: operands in the engine's formats, scales of blocks, parts of k.
"""

import functools
import math

import numpy as np

from softfloat._jit import jit
from softfloat.cuda.arrays import bare
from softfloat.cuda.elementwise import ALL, integers
from softfloat.cuda.reduce import line_numbers, run_elements
from softfloat.cuda.terms import NEAREST, first_stray, gather, place_of, rounded
from softfloat.engine_products import (
    check_scales,
    format_of_sums,
    inputs_of,
    refuse,
    refuse_scale,
    split_product,
)
from softfloat.engines import LARGEST_L
from softfloat.functional import Choice
from softfloat.ops.engine import LIMBS, add, engine_dot
from softfloat.rounding import EVEN

TERMS = LARGEST_L + 1  # of a step: the products, and the accumulator
ROOM = 3 * TERMS + LIMBS  # numbers of a thread's own
CUT = Choice(rounding="toward_zero", saturate="propagate")


@jit
def engine_element(e, arrays, state, given):
    """Output element e as bits.

    arrays : out, a, b and the scales of all their numbers (or empty), initial values (or empty), rows, columns.
    given : the shape (batches, rows, columns), terms, places in memory, parameters, formats.
    """
    out, a, b, scales_a, scales_b, starts, rows, columns = arrays
    shape, n, order, P, F = given
    i, j = line_numbers(e, rows, columns, shape)
    work = state[:TERMS], state[TERMS : 2 * TERMS], state[2 * TERMS : 3 * TERMS], state[3 * TERMS :]
    c = starts[e] if starts.size > 0 else 0
    out[e] = engine_dot((a, b, scales_a, scales_b), i, j, n, c, order, P, F, work)


@functools.cache
def plus_body():
    """The sums of two arrays of bits, rounded to nearest; constants: F."""

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, x, y, _ = arrays
        for t in range(start, out.size, stride):
            out[t] = add(x[t], y[t], constants, EVEN)
        return -1

    return body


class _Product:
    """One call: its operands on the device, and how parts of it are formed.

    operands : values of a and b.   own : their formats or the names of their dtypes, where known.   c : initial values,
    flat, or None.   scales : of a and b, or None.   shapes : of a, b (two or more dimensions) and the result (batches,
    rows, columns).   rows, columns : for each batch of the result, the batch of a and of b.
    """

    def __init__(self, call, engine, operands, own, c, scales, shapes, rows, columns):
        check_scales(engine, scales)
        self.call, self.engine = call, engine
        *self.shapes, self.extent = shapes
        self.size, self.terms = math.prod(self.extent), self.shapes[0][-1]
        pairs = [self._operand(j, operands[j], own[j]) for j in range(2)]
        self.views = [view for view, _ in pairs]
        self.parameters = call.upload(engine.parameters(*(fmt for _, fmt in pairs)))
        self.scales = [self._scale(j, scales[j]) for j in range(2) if engine.scales is not None]
        self.start = self._initial(c)
        self.lines = call.upload(rows), call.upload(columns)
        self.places = call.upload(engine.places.astype(np.int64))
        self.records = tuple(tuple(np.int64(x) for x in record) for record in engine.records)

    def _operand(self, j, value, own):
        """(a flat view of its numbers, their format)."""
        call, engine = self.call, self.engine
        view = call.owner.view(value, call.stream)
        for fmt in inputs_of(engine, own):
            stray = first_stray(call, view, fmt)
            if stray is None:
                return view if engine.cut is None else rounded(call, view, engine.cut, CUT), fmt
        index, number = stray
        refuse(engine, "ab"[j], inputs_of(engine, own), place_of(index, self.shapes[j]), number)

    def _scale(self, j, value):
        """(a flat copy with a scale for each block of each row or column, its extent)."""
        call, engine, what = self.call, self.engine, ("scale_a", "scale_b")[j]
        blocks = list(self.shapes[j])
        axis = -1 - j
        blocks[axis] = -(-self.terms // engine.block)
        (value,), (shape,), _ = call.read_apart([value])
        if j and len(self.shapes[1]) == 2 and self.shapes[1][1] == 1 and len(shape) == 1:
            value, shape = value.reshape(shape[0], 1), (shape[0], 1)  # of a vector
        view, _ = call.flat(value, shape)
        stray = first_stray(call, view, engine.scales, signed=False)
        if stray is not None:
            refuse_scale(engine, what, place_of(stray[0], shape), stray[1])
        try:
            np.broadcast_to(np.empty(shape, bool), blocks)
        except ValueError:
            raise ValueError(
                f"{what} of shape {shape} does not broadcast to {tuple(blocks)}, one scale for each {engine.block} "
                "consecutive k"
            ) from None
        return call.spread(value, tuple(blocks)), _extent(blocks, axis)

    def _initial(self, c):
        if c is None:
            return self.call.upload(np.zeros(self.size, np.int64))
        stray = first_stray(self.call, c, self.engine.acc)
        if stray is not None:
            place = place_of(stray[0], self.extent)
            refuse(self.engine, "c", [self.engine.acc], place, stray[1])
        return gather(self.call, c, (self.size, 1, 1))

    def run(self, k, c):
        """c + the products of these k, as bits."""
        call, engine = self.call, self.engine
        k = np.arange(self.terms)[k]
        a, b = (
            gather(call, view, _extent(shape, axis), k)
            for view, shape, axis in zip(self.views, self.shapes, (-1, -2), strict=True)
        )
        none = call.words(NEAREST, ())
        more = [gather(call, view, extent, k // engine.block) for view, extent in self.scales]
        more = more or [none, none]
        out = call.cuda.device_array(self.size, np.int64, stream=call.stream)
        arrays = tuple(map(bare, (out, a, b, *more, c, *self.lines)))
        shape = tuple(np.int64(x) for x in self.extent)
        given = shape, np.int64(k.size), bare(self.places), bare(self.parameters), self.records
        run_elements(call, engine_element, ROOM, self.size, arrays, given)
        return out

    def plus(self, x, y):
        call = self.call
        out = call.cuda.device_array(self.size, np.int64, stream=call.stream)
        flat = [(x, ALL), (y, ALL)]
        constants = integers(format_of_sums(self.engine))
        call.run(plus_body(), out, call.words(NEAREST, ()), flat, constants, NEAREST)
        return out

    def whole(self):
        """c + a @ b as float64 numbers, flat."""
        zero = self.call.upload(np.zeros(self.size, np.int64))
        found = split_product(self.engine, self.terms, self.run, self.plus, self.start, zero)
        return found.view(np.float64)


def _extent(shape, axis):
    """(outer, terms, inner) of an array along its last axis but -1 - axis."""
    inner = math.prod(shape[len(shape) + axis + 1 :])
    return math.prod(shape[:axis]), shape[axis], inner


def product(call, engine, operands, own, c, scales, shapes, rows, columns, fmt, target, shape):
    """c + a @ b by an engine, rounded to fmt, to nearest, into `target`, flat; see `_Product`."""
    if not target.size:
        check_scales(engine, scales)
        return
    wide = _Product(call, engine, operands, own, c, scales, shapes, rows, columns).whole()
    call.fill("quantize", [(wide, ALL)], target, fmt, NEAREST, call.words(NEAREST, ()), shape)
