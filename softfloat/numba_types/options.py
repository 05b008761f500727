"""Formats and roundings inside users' kernels: as arguments, as global constants, as literal strings.

A Format argument is one type whatever the format, so that no new one is compiled; a Format that is a global of the
kernel is a constant, folded into the code. Types carry the hash of the package's sources: code that a user's module
keeps on disk is compiled anew after an upgrade.
"""

import functools
import struct
from typing import Any

from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.imputils import lower_constant
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import Purpose
from numba.extending import (
    NativeValue,
    box,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from softfloat._jit import jit, source_hash
from softfloat.format import NUMBERS, Format
from softfloat.formats import as_format
from softfloat.rounding import MODES, Rounding, RoundingMeta, as_rounding

SATURATIONS = {False: 0, True: 1, "finite": 1, "propagate": 2}
VARIANTS = {"A": 0, "B": 1, "C": 2}
INTEGERS = 9  # entries of Format.parameters
# How functions of ours are compiled wherever they are called: a caller's fastmath would reach into them.
OPTIONS: Any = {"error_model": "numpy", "fastmath": False, "forceinline": True, "nogil": True}


class FormatType(types.Type):
    """Any Format, known when the kernel runs."""

    def __init__(self):
        super().__init__(name=f"softfloat.Format[{source_hash()}]")


class FormatConstant(types.Type):
    """A Format that is known when the kernel is compiled."""

    def __init__(self, fmt):
        self.fmt = fmt
        super().__init__(name=f"softfloat.{fmt!r}[{source_hash()}]")

    def unify(self, context, other):
        return format_type if isinstance(other, (FormatType, FormatConstant)) else None

    def can_convert_to(self, context, other):
        return Conversion.promote if isinstance(other, FormatType) else None


class RoundingType(types.Type):
    """A softfloat.Rounding; its value in kernels is the integer of the mode."""

    def __init__(self):
        super().__init__(name=f"softfloat.Rounding[{source_hash()}]")


class RoundingClassType(types.Type):
    """The class softfloat.Rounding itself, for its members in kernels."""

    def __init__(self):
        super().__init__(name="softfloat.Rounding class")


format_type, rounding_type, rounding_class_type = FormatType(), RoundingType(), RoundingClassType()
# Where the host object names its type, numba's dispatcher asks nobody else.
setattr(Format, "_numba_type_", format_type)  # noqa: B010
setattr(Rounding, "_numba_type_", rounding_type)  # noqa: B010


@register_model(FormatType)
@register_model(FormatConstant)
class FormatModel(models.StructModel):
    """The record of a format: nine integers and five numbers."""

    def __init__(self, manager, kind):
        members = [
            ("integers", types.UniTuple(types.int64, INTEGERS)),
            ("numbers", types.UniTuple(types.float64, NUMBERS)),
        ]
        super().__init__(manager, kind, members)


@register_model(RoundingType)
class _RoundingModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.IntType(64))


register_model(RoundingClassType)(models.OpaqueModel)


@typeof_impl.register(Format)
def _typeof_format(value, context):
    return FormatConstant(value) if context.purpose is Purpose.constant else format_type


@typeof_impl.register(Rounding)
def _typeof_rounding(value, context):
    return rounding_type


@typeof_impl.register(RoundingMeta)
def _typeof_rounding_class(value, context):
    return rounding_class_type


@unbox(FormatType)
def _unbox_format(kind, value, c):
    """Copy the words of Format.kernel_record into registers."""
    words = c.pyapi.object_getattr_string(value, "kernel_record")
    array_type = types.Array(types.int64, 1, "C", readonly=True)
    unboxed = c.unbox(array_type, words)
    c.pyapi.decref(words)  # the format keeps it
    data = c.context.make_array(array_type)(c.context, c.builder, unboxed.value).data
    record = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    load = lambda i: c.builder.load(c.builder.gep(data, [ir.Constant(ir.IntType(64), i)]))  # noqa: E731
    record.integers = cgutils.pack_array(c.builder, [load(i) for i in range(INTEGERS)])
    number = ir.DoubleType()
    record.numbers = cgutils.pack_array(
        c.builder, [c.builder.bitcast(load(INTEGERS + i), number) for i in range(NUMBERS)]
    )
    c.context.nrt.decref(c.builder, array_type, unboxed.value)
    return NativeValue(record._getvalue(), is_error=unboxed.is_error)


@box(FormatConstant)
def _box_format(kind, value, c):
    return c.pyapi.unserialize(c.pyapi.serialize_object(kind.fmt))


@unbox(RoundingType)
def _unbox_rounding(kind, value, c):
    mode = c.pyapi.object_getattr_string(value, "mode")
    unboxed = c.unbox(types.int64, mode)
    c.pyapi.decref(mode)
    return NativeValue(unboxed.value, is_error=unboxed.is_error)


@lower_constant(FormatType)
@lower_constant(FormatConstant)
def _constant_format(context, builder, kind, value):
    words = [int(word) for word in value.kernel_record]
    number = lambda word: struct.unpack("d", struct.pack("q", word))[0]  # noqa: E731
    integers = [ir.Constant(ir.IntType(64), word) for word in words[:INTEGERS]]
    numbers = [ir.Constant(ir.DoubleType(), number(word)) for word in words[INTEGERS:]]
    parts = [
        ir.Constant(ir.ArrayType(entries[0].type, len(entries)), entries)
        for entries in (integers, numbers)
    ]
    return ir.Constant.literal_struct(parts)


@lower_cast(FormatConstant, FormatType)
def _cast_format(context, builder, source, target, value):
    return value


@lower_constant(RoundingType)
def _constant_rounding(context, builder, kind, value):
    return ir.Constant(ir.IntType(64), MODES[value])


@lower_constant(RoundingClassType)
def _constant_rounding_class(context, builder, kind, value):
    return context.get_dummy_value()


@infer_getattr
class _RoundingMembers(AttributeTemplate):
    key = RoundingClassType

    def generic_resolve(self, kind, name):
        return rounding_type if name in Rounding.__members__ else None


@lower_getattr_generic(RoundingClassType)
def _rounding_member(context, builder, kind, value, name):
    return _constant_rounding(context, builder, rounding_type, Rounding[name])


def _member(name, result):
    @intrinsic
    def get(context, fmt):
        if not isinstance(fmt, (FormatType, FormatConstant)):
            return None

        def generate(context, builder, signature, arguments):
            record = cgutils.create_struct_proxy(fmt)(context, builder, arguments[0])
            return getattr(record, name)

        return result(fmt), generate

    return get


format_integers = _member("integers", types.UniTuple(types.int64, INTEGERS))
format_numbers = _member("numbers", types.UniTuple(types.float64, NUMBERS))


@intrinsic
def _mode_of(context, rounding):
    if not isinstance(rounding, RoundingType):
        return None
    return types.int64(rounding), lambda context, builder, signature, arguments: arguments[0]


# ---------------------------------------------------------------- arguments as compiled code reads them
def unliteral(kind):
    """The type of a literal argument; any other type as it is."""
    return getattr(kind, "literal_type", kind)


def literal(kind):
    """(True, value) of an argument that is known at compile time: a literal, a default, a plain default value."""
    if isinstance(kind, types.Literal):
        return True, kind.literal_value
    if isinstance(kind, types.Omitted):
        return True, kind.value
    return (False, None) if isinstance(kind, types.Type) else (True, kind)


@functools.cache
def constant(value):
    """A compiled function of one argument that gives a value whatever the argument."""

    @jit(inline=True)
    def give(argument):
        return value

    return give


@jit(inline=True)
def itself(argument):
    """The argument."""
    return argument


@jit(inline=True)
def one_if(argument):
    """1 for True, 0 for False."""
    return 1 if argument else 0


def _refuse(error):
    raise errors.TypingError(str(error)) from error


def read_format(kind):
    """A function from the argument to its record, for a Format or a literal name."""
    known, name = literal(kind)
    if known and isinstance(name, str):
        try:
            fmt = as_format(name)
        except (TypeError, ValueError) as error:
            _refuse(error)
        return constant(fmt)
    if isinstance(kind, (FormatType, FormatConstant)):
        return itself
    raise errors.TypingError(
        f"fmt must be a softfloat.Format or the literal name of one, got a value of type {kind}"
    )


def read_mode(kind):
    """A function from the argument to the integer of its mode, for a Rounding or a literal name."""
    known, name = literal(kind)
    if known:
        try:
            return constant(MODES[as_rounding(name)])
        except (TypeError, ValueError) as error:
            _refuse(error)
    if isinstance(kind, RoundingType):
        return _mode_of
    raise errors.TypingError(
        "rounding must be a softfloat.Rounding or the literal name of one in a kernel, "
        f"got a value of type {kind}"
    )


def read_choice(name, kind, allowed):
    """A function from the argument to an integer, for a literal that is a key of `allowed`."""
    known, value = literal(kind)
    if known and isinstance(value, (bool, str)) and value in allowed:
        return constant(allowed[value])
    if isinstance(kind, types.Boolean) and True in allowed:
        return one_if
    raise errors.TypingError(
        f"{name} must be one of {', '.join(map(repr, allowed))}, written as a literal in a kernel"
    )
