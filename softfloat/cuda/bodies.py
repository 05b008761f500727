"""What one thread does: loops in strides, over arrays that lie on a device or, in tests, on the CPU.

Rounding and arithmetic are the CPU's functions. All bodies share one call:

    body(arrays, masks, constants, how, key, offset, start, stride) -> index of an element without a result, or -1

arrays : (out, words, a, b, c), flat.
masks : of the indices into a, b, c: all ones, or 0 for an operand of one element.
how : (saturate, random bits, variant).   key, offset : of the random words; `words`, if any, are given ones.
start, stride : the first task of the thread and the number of threads.
"""

import functools
import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from softfloat._jit import jit
from softfloat.backends.cpu import LARGE32, SMALL32
from softfloat.backends.exact import decoded
from softfloat.bits import i64, resize, to_float, u64
from softfloat.codec import to_carrier, to_code
from softfloat.fast import constants_loader, load_constants, rounding_form
from softfloat.fixed_point import FIXED
from softfloat.format import FLAGS, NAN_EXISTS
from softfloat.ops.convert import to_twos_complement
from softfloat.ops.error_free import to_odd
from softfloat.random import WORD_BITS, element_word, key_word
from softfloat.rounding import NAN, NO_RESULT, STOCHASTIC
from softfloat.scalar import core

EXPONENT, MANTISSA = core.EXPONENT, core.MANTISSA
HALF_WORD = 0xFFFFFFFF


# ---------------------------------------------------------------- memory
def _element_pointer(context, builder, kind, array, index):
    made = context.make_array(kind)(context, builder, array)
    return builder.gep(made.data, [index])


@functools.cache
def load_group(width):
    """load(x, g): elements width*g, ... of an array that is aligned to as many, in one instruction."""

    @intrinsic
    def load(context, x, g):
        def generate(context, builder, signature, arguments):
            kind = signature.args[0]
            index = builder.mul(arguments[1], ir.Constant(arguments[1].type, width))
            pointer = _element_pointer(context, builder, kind, arguments[0], index)
            number = context.get_value_type(kind.dtype)
            vector = ir.VectorType(number, width)
            size = context.get_abi_sizeof(number)
            loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=width * size)
            place = lambda j: ir.Constant(ir.IntType(32), j)  # noqa: E731
            return cgutils.pack_array(
                builder, [builder.extract_element(loaded, place(j)) for j in range(width)]
            )

        return types.UniTuple(x.dtype, width)(x, g), generate

    return load


@functools.cache
def store_group(width):
    """store(x, g, values): the reverse of `load_group`."""

    @intrinsic
    def store(context, x, g, values):
        def generate(context, builder, signature, arguments):
            kind = signature.args[0]
            index = builder.mul(arguments[1], ir.Constant(arguments[1].type, width))
            pointer = _element_pointer(context, builder, kind, arguments[0], index)
            number = context.get_value_type(kind.dtype)
            vector = ir.Constant(ir.VectorType(number, width), ir.Undefined)
            for j in range(width):
                value = builder.extract_value(arguments[2], j)
                vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), j))
            size = context.get_abi_sizeof(number)
            target = builder.bitcast(pointer, vector.type.as_pointer())
            builder.store(vector, target, align=width * size)
            return context.get_dummy_value()

        return types.void(x, g, values), generate

    return store


@intrinsic
def held_as(context, y, out):
    """A float64 that is a value of float32, or itself, as an element of `out`; a NaN keeps its sign and is quiet.

    A device turns every NaN that it converts into its own.
    """
    if y != types.float64:
        return None
    target = out.dtype

    def generate(context, builder, signature, arguments):
        value = arguments[0]
        if target == types.float64:
            return value
        short, long = ir.IntType(32), ir.IntType(64)
        upper = builder.trunc(
            builder.lshr(builder.bitcast(value, long), ir.Constant(long, 32)), short
        )
        sign = builder.and_(upper, ir.Constant(short, 1 << 31))
        nan = builder.or_(sign, ir.Constant(short, 0x7FC00000))
        number = builder.bitcast(builder.fptrunc(value, ir.FloatType()), short)
        is_nan = builder.fcmp_unordered("uno", value, value)
        return builder.bitcast(builder.select(is_nan, nan, number), ir.FloatType())

    return target(y, out), generate


@jit(inline=True)
def float_of(u):
    """The float32 with these bits."""
    return to_float(u)


@functools.cache
def copy_body():
    """out[i] = element i, in C order, of an array of any layout."""

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, x = arrays[0], arrays[2]
        for i in range(start, out.size, stride):
            out[i] = x.flat[i]
        return -1

    return body


# ---------------------------------------------------------------- random words
@jit(inline=True)
def pair_words(key, first):
    """The 32-bit words of the elements `first` and `first` + 1, as uint64: halves of one word if `first` is even."""
    w = key_word(key, first >> 1)
    low, high = w & u64(HALF_WORD), w >> u64(32)
    if first & 1:
        low, high = high, key_word(key, (first >> 1) + 1) & u64(HALF_WORD)
    return low, high


@jit(inline=True)
def four_words(key, first):
    """The 32-bit words of four elements from `first`, as uint64."""
    low = u64(HALF_WORD)
    w, x = key_word(key, first >> 1), key_word(key, (first >> 1) + 1)
    a, b, c, d = w & low, w >> u64(32), x & low, x >> u64(32)
    if first & 1:
        a, b, c, d = b, c, d, key_word(key, (first >> 1) + 2) & low
    return a, b, c, d


@jit(inline=True)
def word_at(words, key, index, i, bits):
    """The random integer of element i, whose global index is `index`: a given one, or the top bits of its word."""
    if words.size > 0:
        return i64(words[i])
    return i64(element_word(key, index) >> u64(WORD_BITS - bits))


# ---------------------------------------------------------------- rounding
@functools.cache
def round_body(kind, mode, rule, width):
    """Quantize by a fast form, `width` elements at a time; constants: the words of the form."""
    round_one = rounding_form(kind, mode, rule)
    load, load_many, store_many = constants_loader(kind), load_group(width), store_group(width)
    stochastic = int(mode >= STOCHASTIC)

    @jit(inline=True)
    def round_pair(x, y, p, none, key, first):
        v, w = u64(0), u64(0)
        if stochastic == 1:
            v, w = pair_words(key, first)
        return round_one(x, p, resize(v, none)), round_one(y, p, resize(w, none))

    @jit(inline=True)
    def round_four(x, p, none, key, first):
        words = u64(0), u64(0), u64(0), u64(0)
        if stochastic == 1:
            words = four_words(key, first)
        return (
            round_one(x[0], p, resize(words[0], none)),
            round_one(x[1], p, resize(words[1], none)),
            round_one(x[2], p, resize(words[2], none)),
            round_one(x[3], p, resize(words[3], none)),
        )

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, x = arrays[0], arrays[2]
        p, none = load(constants), constants[0]
        groups = np.uint64(x.size // width) if width > 1 else np.uint64(0)
        g = np.uint64(start)
        while g < groups:
            first = np.int64(g) * width + offset
            if width == 4:
                store_many(out, g, round_four(load_many(x, g), p, none, key, first))
            if width == 2:
                a, b = load_many(x, g)
                store_many(out, g, round_pair(a, b, p, none, key, first))
            g = np.uint64(g + np.uint64(stride))
        i = groups * np.uint64(width) + np.uint64(start)
        while i < np.uint64(x.size):
            y, _ = round_pair(x[i], x[i], p, none, key, np.int64(i) + offset)
            out[i] = y
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body


# ---------------------------------------------------------------- operations
@functools.cache
def operation_body(name, mode):
    """Any operation of softfloat.scalar by its fast form or the definition; constants: (F, N) of the format."""
    run = core.operation(name)
    stochastic = int(mode >= STOCHASTIC)

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, words, a, b, c = arrays
        F, N = constants
        saturate, bits, variant = how
        i = np.uint64(start)
        while i < np.uint64(out.size):
            word = i64(0)
            if stochastic == 1:
                word = word_at(words, key, np.int64(i) + offset, i, bits)
            x, y = np.float64(a[i & masks[0]]), np.float64(b[i & masks[1]])
            z = np.float64(c[i & masks[2]])
            out[i] = held_as(run(x, y, z, F, N, mode, saturate, word, bits, variant), out)
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body


@functools.cache
def lane_body(name, kind, mode, rule):
    """add, subtract, multiply, divide or sqrt of float32 numbers in float32; constants: (words of the form, F, N).

    For formats of at most 22 bits precision; what float32 cannot decide is done in float64.
    """
    fast, slow = core.WITH_ERROR[name], core.operation(name)
    round_one = rounding_form(kind, mode, rule)
    checked = {"multiply": 1, "divide": 2, "sqrt": 3}.get(name, 0)

    @jit(inline=True)
    def outside(z, a, b):
        m, n = abs(a), abs(b)
        small, zero = np.float32(SMALL32), np.float32(0.0)
        found = not abs(z) < np.float32(np.inf)
        if checked > 0:
            found |= (m < small) & (m > zero)
        if checked == 1:
            found |= (n < small) & (n > zero)
        if checked == 2:
            found |= n > np.float32(LARGE32)
        return found

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, a, b, _ = arrays
        P, F, N = constants
        p, none = load_constants(P), P[0]
        i = np.uint64(start)
        while i < np.uint64(out.size):
            x, y = a[i & masks[0]], b[i & masks[1]]
            z, e, _ = fast(x, y, x, mode)
            if outside(z, x, y):
                v, w = np.float64(x), np.float64(y)
                out[i] = held_as(slow(v, w, w, F, N, mode, how[0], i64(0), how[1], how[2]), out)
            else:
                out[i] = round_one(to_odd(z, e), p, none)
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body


@functools.cache
def careful_body(name, mode, codes):
    """Any operation by the definition, which knows numbers without a result; constants: F, of a Format or FixedPoint.

    codes : whether codes are stored, not values.
    """
    run = core.defined(name)
    stochastic, codes = int(mode >= STOCHASTIC), int(codes)

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, words, a, b, c = arrays
        F = constants
        saturate, bits, variant = how
        missing = np.int64(-1)
        i = np.uint64(start)
        while i < np.uint64(out.size):
            word = i64(0)
            if stochastic == 1:
                word = word_at(words, key, np.int64(i) + offset, i, bits)
            x, y = np.float64(a[i & masks[0]]), np.float64(b[i & masks[1]])
            z = np.float64(c[i & masks[2]])
            code, negative = run(x, y, z, F, mode, saturate, word, bits, variant)
            if code == NO_RESULT or (codes == 1 and code == NAN and F[NAN_EXISTS] == 0):
                missing = np.int64(i) if missing < 0 else missing
            elif codes == 0:
                value = core.from_signed_bits(
                    i64(to_carrier(negative, code, F, MANTISSA, EXPONENT))
                )
                out[i] = held_as(value, out)
            elif (F[FLAGS] & FIXED) != 0:
                out[i] = to_twos_complement(negative, code, F)
            else:
                out[i] = to_code(negative, code, F)
            i = np.uint64(i + np.uint64(stride))
        return missing

    return body


@functools.cache
def compare_body(relation):
    """Comparisons of the exact numbers, float64 holding both."""
    holds = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)[relation]

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, a, b, _ = arrays
        i = np.uint64(start)
        while i < np.uint64(out.size):
            out[i] = holds(np.float64(a[i & masks[0]]), np.float64(b[i & masks[1]]))
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body


# ---------------------------------------------------------------- codes
@functools.cache
def encode_body(mode):
    """The codes of numbers; constants: (F, N) of a format with NaN."""
    stochastic = int(mode >= STOCHASTIC)

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, words, a, _, _ = arrays
        F, N = constants
        saturate, bits, variant = how
        i = np.uint64(start)
        while i < np.uint64(out.size):
            word = i64(0)
            if stochastic == 1:
                word = word_at(words, key, np.int64(i) + offset, i, bits)
            x = np.float64(a[i])
            out[i] = core.encode(x, x, x, F, N, mode, saturate, word, bits, variant)
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body


@functools.cache
def decode_body(mantissa):
    """The values of codes, as bits of a carrier with this significand field; constants: (F, quiet bit)."""

    @jit
    def body(arrays, masks, constants, how, key, offset, start, stride):
        out, _, a, _, _ = arrays
        F, quiet = constants
        i = np.uint64(start)
        while i < np.uint64(out.size):
            out[i] = decoded(i64(a[i]), F, mantissa, quiet)
            i = np.uint64(i + np.uint64(stride))
        return -1

    return body
