"""The direction in which the processor rounds, for kernels that need another than to nearest.

To be set within standard arithmetic only (softfloat.bits.enter_standard_arithmetic), and set back to nearest before
that is left.
"""

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

NEAREST, DOWN, UP, TOWARD_ZERO = range(4)  # as x86 numbers them; Arm exchanges UP and DOWN
_X86_PLACE, _ARM_PLACE = 13, 22


def processor_features():
    """Features of the processor that numba compiles for: a mapping of names to whether it has them."""
    if config.CPU_FEATURES is None:
        return llvmlite.binding.get_host_cpu_features()
    return {text[1:]: text[0] == "+" for text in config.CPU_FEATURES.split(",") if text}


def fma_has_direction():
    """Whether an fma is an instruction, which rounds in the direction that was set; a library's may not."""
    triple = llvmlite.binding.get_default_triple()
    if triple.startswith(("aarch64", "arm64")):
        return True
    return bool(processor_features().get("fma"))


def _set_x86(builder, direction):
    slot = cgutils.alloca_once(builder, ir.IntType(32))
    pointer = builder.bitcast(slot, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type])
    read = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.stmxcsr")
    write = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.ldmxcsr")
    builder.call(read, [pointer])
    word = builder.load(slot)
    kept = builder.and_(word, ir.Constant(word.type, 0xFFFF & ~(3 << _X86_PLACE)))
    chosen = builder.shl(builder.trunc(direction, word.type), ir.Constant(word.type, _X86_PLACE))
    builder.store(builder.or_(kept, chosen), slot)
    builder.call(write, [pointer])


def _set_arm(builder, direction):
    word64 = ir.IntType(64)
    number = lambda n: ir.Constant(word64, n)  # noqa: E731
    read = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(word64, []), "llvm.aarch64.get.fpcr"
    )
    write = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [word64]), "llvm.aarch64.set.fpcr"
    )
    low = builder.and_(direction, number(1))
    high = builder.lshr(direction, number(1))
    exchanged = builder.or_(builder.shl(low, number(1)), high)
    kept = builder.and_(builder.call(read, []), number(((1 << 64) - 1) & ~(3 << _ARM_PLACE)))
    builder.call(write, [builder.or_(kept, builder.shl(exchanged, number(_ARM_PLACE)))])


@intrinsic
def set_direction(context, direction):
    """Make the processor round to NEAREST, DOWN, UP or TOWARD_ZERO; nothing where its control word is unknown."""

    def generate(context, builder, signature, arguments):
        triple = builder.module.triple
        if triple.startswith(("x86_64", "i386", "i686", "amd64")):
            _set_x86(builder, arguments[0])
        elif triple.startswith(("aarch64", "arm64")):
            _set_arm(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate
