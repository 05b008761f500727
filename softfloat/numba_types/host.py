"""Soft arrays and scalars of the host, handed to compiled functions and handed back.

`register` is the one place where the host's class is named.
"""

from typing import Any

from numba.extending import NativeValue, box, typeof_impl, unbox
from numba.np.numpy_support import map_layout

from softfloat.numba_types.kinds import SoftArrayType, SoftFloatType

_make: dict[str, Any] = {}  # how the host makes an object of values and a format


def register(cls, make, rules, check):
    """Let objects of a class with `_values` and `_format` be arguments of compiled functions.

    make(values, fmt) : the object for an array, or for a float, of values of a format.
    rules() : how operations round in a kernel that is called now.
    check(fmt) : raises TypingError for a format that kernels have not.
    """

    def kind_of(self):
        values, fmt = self._values, self._format
        if values.ndim == 0:
            return _soft(fmt, rules(), check)
        layout, readonly = map_layout(values), not values.flags.writeable
        return array_type(fmt, rules(), check, values.ndim, layout, readonly, values.flags.aligned)

    _make["array"] = make
    cls._numba_type_ = property(kind_of)
    typeof_impl.register(cls)(lambda value, context: value._numba_type_)


_soft_types: dict = {}
_array_types: dict = {}


def _soft(fmt, rules, check):
    try:
        return _soft_types[fmt, rules]
    except KeyError:
        check(fmt)
        return _soft_types.setdefault((fmt, rules), SoftFloatType(fmt, rules))


def array_type(fmt, rules, check, ndim, layout, readonly, aligned):
    """The type of an array of values of a format, which `check` may refuse."""
    return _array(_soft(fmt, rules, check), ndim, layout, readonly, aligned)


def _array(soft, ndim, layout, readonly, aligned):
    key = id(soft), ndim, layout, readonly, aligned
    try:
        return _array_types[key]
    except KeyError:
        made = SoftArrayType(soft, ndim, layout, readonly=readonly, aligned=aligned)
        return _array_types.setdefault(key, made)


def as_kind(context, builder, source, target, value):
    """An array struct seen as another array type of the same memory."""
    before = context.make_array(source)(context, builder, value)
    after = context.make_array(target)(context, builder)
    for name in ("meminfo", "parent", "nitems", "itemsize", "shape", "strides"):
        setattr(after, name, getattr(before, name))
    after.data = builder.bitcast(before.data, after.data.type)
    return after._getvalue()


@unbox(SoftArrayType)
def _unbox_array(kind, value, c):
    values = c.pyapi.object_getattr_string(value, "_values")
    unboxed = c.unbox(kind.plain, values)
    c.pyapi.decref(values)
    array = as_kind(c.context, c.builder, kind.plain, kind, unboxed.value)
    return NativeValue(array, is_error=unboxed.is_error)


@unbox(SoftFloatType)
def _unbox_scalar(kind, value, c):
    values = c.pyapi.object_getattr_string(value, "_values")
    number = c.pyapi.number_float(values)
    c.pyapi.decref(values)
    wide = c.pyapi.float_as_double(number)
    c.pyapi.decref(number)
    model = c.context.data_model_manager[kind]
    return NativeValue(model.from_double(c.builder, wide), is_error=c.pyapi.c_api_error())


def make_soft(values, fmt):
    """The host's object for values of a format, an array or one float."""
    return _make["array"](values, fmt)


def _hand_back(c, fmt, value):
    """Call make_soft(value, fmt) on a Python object, whose reference is used up."""
    function = c.pyapi.unserialize(c.pyapi.serialize_object(make_soft))
    spec = c.pyapi.unserialize(c.pyapi.serialize_object(fmt))
    made = c.pyapi.call_function_objargs(function, (value, spec))
    for used in (value, function, spec):
        c.pyapi.decref(used)
    return made


@box(SoftArrayType)
def _box_array(kind, value, c):
    plain = as_kind(c.context, c.builder, kind, kind.plain, value)
    return _hand_back(c, kind.dtype.fmt, c.box(kind.plain, plain))


@box(SoftFloatType)
def _box_scalar(kind, value, c):
    model = c.context.data_model_manager[kind]
    return _hand_back(c, kind.fmt, c.pyapi.float_from_double(model.to_double(c.builder, value)))
