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


def _uncontracted(name, build):
    """An intrinsic on two equal floats that no compiler joins with another operation into a fused one.

    On the CPU nothing does. NVIDIA's compilers join a product and a sum, also the caller's product with a sum of ours,
    unless the rounding is written into the instruction.
    """

    @intrinsic
    def step(context, x, y):
        if x != y or x not in (types.float32, types.float64):
            return None

        def generate(context, builder, signature, arguments):
            if not builder.module.triple.startswith("nvptx"):
                return build(builder, *arguments)
            a, b = arguments
            if name == "sub":  # there is none: the negated operand is exact
                b = builder.fsub(ir.Constant(b.type, -0.0), b)
            kind = ir.FunctionType(a.type, [a.type, a.type])
            instruction = "mul" if name == "mul" else "add"
            full = f"llvm.nvvm.{instruction}.rn.{'f' if x == types.float32 else 'd'}"
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), [a, b])

        return x(x, y), generate

    return step


plus = _uncontracted("add", lambda b, x, y: b.fadd(x, y))
minus = _uncontracted("sub", lambda b, x, y: b.fsub(x, y))
times = _uncontracted("mul", lambda b, x, y: b.fmul(x, y))


@intrinsic
def _count_leading_zeros(context, x):
    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


def bit_length(n):
    """Bits in a non-negative integer: 0 for 0, 3 for 5. Runs in Python and compiled."""
    return int(n).bit_length()


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


def _by_width(build, result=None):
    """An intrinsic of one unsigned argument; `build` also gets the width and significand field of its float."""

    @intrinsic
    def step(context, u):
        if u not in (types.uint32, types.uint64):
            return None
        width, mantissa = (32, 23) if u == types.uint32 else (64, 52)

        def generate(context, builder, signature, arguments):
            return build(builder, arguments[0], width, mantissa)

        return u(u), generate

    return step


def _constant(value):
    return _by_width(lambda b, u, width, mantissa: ir.Constant(u.type, value(width, mantissa)))


def _infinity(width, mantissa):
    return (1 << (width - 1)) - (1 << mantissa)


magnitude = _by_width(lambda b, u, w, m: b.and_(u, ir.Constant(u.type, (1 << (w - 1)) - 1)))
sign_bit = _by_width(lambda b, u, w, m: b.and_(u, ir.Constant(u.type, 1 << (w - 1))))
binade = _by_width(lambda b, u, w, m: b.and_(u, ir.Constant(u.type, _infinity(w, m))))
zero_like = _constant(lambda w, m: 0)
one_like = _constant(lambda w, m: 1)
top_position = _constant(lambda w, m: w - 1)
infinity_like = _constant(_infinity)
quiet_nan_like = _constant(lambda w, m: _infinity(w, m) | 1 << (m - 1))


@intrinsic
def to_bits(context, x):
    """The bits of a float32 or float64 as an unsigned integer."""
    pairs = {types.float32: types.uint32, types.float64: types.uint64}
    if x not in pairs:
        return None

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(pairs[x]))

    return pairs[x](x), generate


@intrinsic
def to_float(context, u):
    """The float32 or float64 with these bits."""
    pairs = {types.uint32: types.float32, types.uint64: types.float64}
    if u not in pairs:
        return None

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(pairs[u]))

    return pairs[u](u), generate


@intrinsic
def resize(context, u, like):
    """An unsigned integer at the width of another: zeros added or high bits dropped."""
    if u not in (types.uint32, types.uint64) or like not in (types.uint32, types.uint64):
        return None

    def generate(context, builder, signature, arguments):
        if u == like:
            return arguments[0]
        target = context.get_value_type(like)
        if like == types.uint64:
            return builder.zext(arguments[0], target)
        return builder.trunc(arguments[0], target)

    return like(u, like), generate


# The control word of the processor's floating-point unit: bits that change what arithmetic gives.
_X86_UNUSUAL = (
    0x8000 | 0x6000 | 0x0040
)  # flush to zero, rounding direction, denormals are zero (MXCSR)
_ARM_UNUSUAL = 0x01C80000  # FZ, RMode, FZ16 (FPCR)
STANDARD, UNKNOWN = -1, -2


def _x86_word(builder):
    slot = cgutils.alloca_once(builder, ir.IntType(32))
    signature = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    return slot, builder.bitcast(slot, ir.IntType(8).as_pointer()), signature


@intrinsic
def enter_standard_arithmetic(context):
    """Make the processor round to nearest and keep subnormals, as it does unless some library changed that.

    Returns STANDARD where nothing had to be done, the former control word where it was changed, or UNKNOWN on
    processors whose control word this package cannot read.
    """

    def generate(context, builder, signature, arguments):
        word64 = ir.IntType(64)
        triple = builder.module.triple
        if triple.startswith(("x86_64", "i386", "i686", "amd64")):
            slot, pointer, kind = _x86_word(builder)
            read = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.stmxcsr")
            write = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.ldmxcsr")
            builder.call(read, [pointer])
            word = builder.load(slot)
            unusual = builder.icmp_unsigned(
                "!=",
                builder.and_(word, ir.Constant(word.type, _X86_UNUSUAL)),
                ir.Constant(word.type, 0),
            )
            with builder.if_then(unusual, likely=False):
                kept = builder.and_(word, ir.Constant(word.type, 0xFFFF & ~_X86_UNUSUAL))
                builder.store(kept, slot)
                builder.call(write, [pointer])
            former = builder.zext(word, word64)
        elif triple.startswith(("aarch64", "arm64")):
            read = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(word64, []), "llvm.aarch64.get.fpcr"
            )
            write = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [word64]), "llvm.aarch64.set.fpcr"
            )
            former = builder.call(read, [])
            unusual = builder.icmp_unsigned(
                "!=",
                builder.and_(former, ir.Constant(word64, _ARM_UNUSUAL)),
                ir.Constant(word64, 0),
            )
            with builder.if_then(unusual, likely=False):
                builder.call(
                    write, [builder.and_(former, ir.Constant(word64, ~_ARM_UNUSUAL & MASK64))]
                )
        else:
            return ir.Constant(word64, UNKNOWN)
        return builder.select(unusual, former, ir.Constant(word64, STANDARD))

    return types.int64(), generate


@intrinsic
def leave_standard_arithmetic(context, former):
    """Give the processor back the control word that enter_standard_arithmetic returned."""

    def generate(context, builder, signature, arguments):
        triple = builder.module.triple
        word = arguments[0]
        changed = builder.icmp_signed(">=", word, ir.Constant(word.type, 0))
        with builder.if_then(changed, likely=False):
            if triple.startswith(("x86_64", "i386", "i686", "amd64")):
                slot, pointer, kind = _x86_word(builder)
                builder.store(builder.trunc(word, ir.IntType(32)), slot)
                write = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.ldmxcsr")
                builder.call(write, [pointer])
            elif triple.startswith(("aarch64", "arm64")):
                write = cgutils.get_or_insert_function(
                    builder.module,
                    ir.FunctionType(ir.VoidType(), [word.type]),
                    "llvm.aarch64.set.fpcr",
                )
                builder.call(write, [word])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def borrowed(context, x):
    """The same array without its owner, which the caller must keep alive: handing it on counts no references.

    Counting is atomic, and in a loop over tiles it costs more than the tiles. Safe for arguments of the function only.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(x)(context, builder, arguments[0])
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()

    return x(x), generate
