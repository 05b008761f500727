"""Bit casts, integer steps of fixed width, and fused multiply-add: what numba's own operators cannot say.

numba promotes uint32 arithmetic to 64 bits and mixed signed arithmetic to float64; these helpers keep every step at
the width of its operands, so that loops stay vectorised and integers stay exact.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

MASK64 = (1 << 64) - 1


def _bitcast(source, target):
    @intrinsic
    def cast(context, x):
        if x != source:
            return None

        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return cast


float_to_bits32 = _bitcast(types.float32, types.uint32)
bits_to_float32 = _bitcast(types.uint32, types.float32)
float_to_bits64 = _bitcast(types.float64, types.uint64)
bits_to_float64 = _bitcast(types.uint64, types.float64)


def _same_width(build):
    """An intrinsic on two equal unsigned types that returns that type."""

    @intrinsic
    def step(context, x, y):
        if x != y or x not in (types.uint32, types.uint64):
            return None

        def generate(context, builder, signature, arguments):
            return build(builder, *arguments)

        return x(x, y), generate

    return step


add = _same_width(lambda b, x, y: b.add(x, y))
sub = _same_width(lambda b, x, y: b.sub(x, y))
mul = _same_width(lambda b, x, y: b.mul(x, y))
shl = _same_width(lambda b, x, y: b.shl(x, y))
shr = _same_width(lambda b, x, y: b.lshr(x, y))
and_ = _same_width(lambda b, x, y: b.and_(x, y))
or_ = _same_width(lambda b, x, y: b.or_(x, y))
xor = _same_width(lambda b, x, y: b.xor(x, y))
umin = _same_width(lambda b, x, y: b.select(b.icmp_unsigned("<", x, y), x, y))
umax = _same_width(lambda b, x, y: b.select(b.icmp_unsigned(">", x, y), x, y))


@intrinsic
def is_negative(context, x):
    """The top bit of an unsigned integer, as a boolean."""
    if x not in (types.uint32, types.uint64):
        return None

    def generate(context, builder, signature, arguments):
        zero = ir.Constant(arguments[0].type, 0)
        bit = builder.icmp_signed("<", arguments[0], zero)
        return context.cast(builder, builder.zext(bit, ir.IntType(8)), types.uint8, types.boolean)

    return types.boolean(x), generate


@intrinsic
def unsigned_to_float(context, x):
    """uint32 to float32, uint64 to float64, as signed conversions (the argument stays below the top bit)."""
    pairs = {types.uint32: types.float32, types.uint64: types.float64}
    if x not in pairs:
        return None
    target = pairs[x]

    def generate(context, builder, signature, arguments):
        return builder.sitofp(arguments[0], context.get_value_type(target))

    return target(x), generate


@intrinsic
def fma(context, a, b, c):
    """a*b + c with one rounding; vectorises, unlike a call to libm."""
    if not (a == b == c and a in (types.float32, types.float64)):
        return None
    name = "llvm.fma.f32" if a == types.float32 else "llvm.fma.f64"

    def generate(context, builder, signature, arguments):
        number = context.get_value_type(a)
        signature = ir.FunctionType(number, [number] * 3)
        return builder.call(
            cgutils.get_or_insert_function(builder.module, signature, name), arguments
        )

    return a(a, b, c), generate


@intrinsic
def _count_leading_zeros(context, x):
    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


def bit_length(n):
    """Bits in a non-negative integer: 0 for 0, 3 for 5. Runs in Python and compiled."""
    return n.bit_length()


@overload(bit_length, target="generic")
def _bit_length(n):
    return lambda n: np.int64(64) - _count_leading_zeros(np.int64(n))


def u64(n):
    """n modulo 2**64: a Python integer in Python, a uint64 compiled."""
    return n & MASK64


@overload(u64, target="generic")
def _u64(n):
    return lambda n: np.uint64(n)


def i64(n):
    """A whole number as the kind of integer the definition works in: int in Python, int64 compiled."""
    return int(n)


@overload(i64, target="generic")
def _i64(n):
    return lambda n: np.int64(n)
