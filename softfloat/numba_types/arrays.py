"""Soft arrays in compiled code: whole-array operators, creation, conversion, sums and products.

Whole-array operators are typed only: numba fuses them into one loop over the operators of scalars. Sums start at +0
and go first element first, in C order, every operation rounded, as softfloat.array's do.
"""

import operator

import numpy as np
from numba.core import errors, types
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    intrinsic,
    overload,
    overload_attribute,
    overload_classmethod,
    overload_method,
)

from softfloat._jit import jit
from softfloat.array import array
from softfloat.numba_types import forms, functions, operators
from softfloat.numba_types.functions import dtype_value, target_of
from softfloat.numba_types.kinds import NEAREST, PLAIN, SoftArrayType, SoftFloatType, raw, wrapper
from softfloat.numba_types.operators import meeting
from softfloat.numba_types.options import OPTIONS, FormatConstant, FormatType, itself, unliteral


def ours_on_cpu(function, **options):
    """As `ours`, where arrays can be made: on the CPU. Asked before numba's own, which are for any target."""
    operators.OURS.add(function)
    return overload(function, jit_options=OPTIONS, target="cpu", **options)


# ---------------------------------------------------------------- whole-array operators
def _element(kind):
    return kind.dtype if isinstance(kind, types.Array) else unliteral(kind)


def _shape_of(what, args):
    """(soft type, dimensions) of a whole-array operation, or None where no soft array takes part."""
    if not any(isinstance(a, SoftArrayType) for a in args):
        return None
    for a in args:
        if isinstance(a, types.Array) and not isinstance(a.dtype, (SoftFloatType, types.Boolean)):
            raise errors.TypingError(
                f"cannot mix soft and plain arrays in {what}: make a soft one of the other with "
                "softfloat.array(y, x.dtype)"
            )
    soft = meeting(what, *map(_element, args))
    return None if soft is None else (soft, max(getattr(a, "ndim", 0) for a in args))


def _refuse_parallel():
    """numba's parallel=True makes loops of its own of whole-array expressions, and plain arrays for their results."""
    flags = ConfigStack.top_or_none()
    if flags is not None and flags.auto_parallel.enabled:
        raise errors.TypingError(
            "numba cannot run expressions of whole soft arrays under parallel=True: write a prange loop over the "
            "elements, or compile the function without parallel=True"
        )


def _operands(function):
    return getattr(function, "nin", 1 if function in functions.EXACT else 2)


def _array_rule(function, result):
    """Type a ufunc or operator on soft arrays; result(soft) is the type of its elements."""

    @infer_global(function)
    class _Rule(AbstractTemplate):
        key = function

        def generic(self, args, kws):
            if (
                kws
                or len(args) != self.operands
                or not any(isinstance(a, SoftArrayType) for a in args)
            ):
                return None
            if any(map(_is_scalar, args)):
                if function in _WRITTEN:
                    return None
                raise errors.TypingError(
                    f"{function.__name__} of a soft array takes no soft scalar beside it in kernels: spread the scalar "
                    "over an array, np.full(1, v, v.dtype)"
                )
            found = _shape_of(function.__name__, args)
            if found is None:
                return None
            soft, ndim = found
            element = result(soft)
            if isinstance(element, SoftFloatType):
                _refuse_parallel()
            made = SoftArrayType if isinstance(element, SoftFloatType) else types.Array
            return signature(made(element, ndim, "C"), *args)

        operands = _operands(function)

    return _Rule


ROUNDED = [
    *operators.ARITHMETIC,
    *functions.QUOTIENTS,
    *functions.CHOICES,
    *functions.EXACT,
    *operators.ROOTS,
    *operators.ELEMENTARY_FUNCTIONS,
    np.square,
    np.reciprocal,
    operator.pow,
    np.power,
]
TRUE_OR_FALSE = [*operators.COMPARISONS, np.isnan, np.isinf, np.isfinite, np.signbit]
# Written out: numba fuses expressions, not calls of operators.
_WRITTEN = {
    operator.add: jit(lambda a, b: a + b),
    operator.sub: jit(lambda a, b: a - b),
    operator.mul: jit(lambda a, b: a * b),
    operator.truediv: jit(lambda a, b: a / b),
    operator.mod: jit(lambda a, b: a % b),
    operator.floordiv: jit(lambda a, b: a // b),
    operator.pow: jit(lambda a, b: a**b),
    operator.lt: jit(lambda a, b: a < b),
    operator.le: jit(lambda a, b: a <= b),
    operator.gt: jit(lambda a, b: a > b),
    operator.ge: jit(lambda a, b: a >= b),
    operator.eq: jit(lambda a, b: a == b),
    operator.ne: jit(lambda a, b: a != b),
}
_IN_PLACE = {
    operator.iadd: _WRITTEN[operator.add],
    operator.isub: _WRITTEN[operator.sub],
    operator.imul: _WRITTEN[operator.mul],
    operator.itruediv: _WRITTEN[operator.truediv],
    operator.imod: _WRITTEN[operator.mod],
    operator.ifloordiv: _WRITTEN[operator.floordiv],
}


def _is_whole_array(function):
    """numba fuses operators and ufuncs only."""
    return isinstance(function, np.ufunc) or getattr(operator, function.__name__, None) is function


for _function in ROUNDED:
    if _is_whole_array(_function) and _function not in _IN_PLACE:
        _array_rule(_function, lambda soft: soft)
for _function in TRUE_OR_FALSE:
    _array_rule(_function, lambda soft: types.boolean)


def _is_scalar(kind):
    return isinstance(kind, SoftFloatType)


def _beside_a_scalar(function):
    """An operator between a soft array and a soft scalar: with an array of the scalar, which numba fuses."""
    run = _WRITTEN[function]

    @ours_on_cpu(function)
    def choose(a, b):
        if isinstance(a, types.Array) and _is_scalar(b) and _shape_of(function.__name__, (a, b)):
            return lambda a, b: run(a, spread(b))
        if isinstance(b, types.Array) and _is_scalar(a) and _shape_of(function.__name__, (a, b)):
            return lambda a, b: run(spread(a), b)


@jit
def spread(v):
    """An array of one number, which broadcasts with any."""
    return np.full(1, v, v.dtype)


for _function in _WRITTEN:
    _beside_a_scalar(_function)


@ours_on_cpu(abs)
def _abs(a):
    return (lambda a: np.absolute(a)) if isinstance(a, SoftArrayType) else None


def _in_place(function, plain):
    @ours_on_cpu(function)
    def choose(a, b):
        if not isinstance(a, SoftArrayType) or _shape_of(function.__name__, (a, b)) is None:
            return None
        operand = spread if _is_scalar(b) else itself

        def impl(a, b):
            a[...] = plain(a, operand(b))
            return a

        return impl


for _function, _plain in _IN_PLACE.items():
    _in_place(_function, _plain)


# ---------------------------------------------------------------- creation
@overload_classmethod(SoftArrayType, "_allocate", target="CPU")
def _allocate(cls, size, align):
    from numba.np.arrayobj import intrin_alloc  # slow to import

    return lambda cls, size, align: intrin_alloc(size, align)


@overload_attribute(SoftArrayType, "dtype", target="generic")
def _dtype(x):
    dtype = dtype_value(x.dtype)
    return lambda x: dtype(x)


def _filled(function, value):
    """np.empty, np.zeros or np.ones of a soft dtype."""

    @ours_on_cpu(function)
    def choose(shape, dtype):
        if not isinstance(dtype, (FormatConstant, FormatType)):
            return None
        soft = target_of(dtype, NEAREST)
        ndim = shape.count if isinstance(shape, types.BaseTuple) else 1
        make = allocator(SoftArrayType(soft, ndim, "C"))
        if value is None:
            return lambda shape, dtype: make(shape)
        one, wrap = forms.from_float(soft), wrapper(soft)

        def impl(shape, dtype):
            made = make(shape)
            made.fill(wrap(one(value)))
            return made

        return impl


def allocator(kind):
    """An intrinsic of a shape (an integer or a tuple) that gives a new array of a type, its elements unset."""

    @intrinsic
    def make(context, shape):
        def generate(context, builder, signature, arguments):
            from numba.np.arrayobj import _empty_nd_impl, _parse_shape

            sizes = _parse_shape(context, builder, shape, arguments[0])
            return _empty_nd_impl(context, builder, kind, sizes)._getvalue()

        return kind(shape), generate

    return make


for _function, _value in ((np.empty, None), (np.zeros, 0.0), (np.ones, 1.0)):
    _filled(_function, _value)


@ours_on_cpu(np.full)
def _full(shape, fill_value, dtype):
    if isinstance(dtype, FormatConstant):

        def impl(shape, fill_value, dtype):
            made = np.empty(shape, dtype)
            made.fill(fill_value)
            return made

        return impl


@ours_on_cpu(array, prefer_literal=True)
def _array(x, fmt):
    given = _element(x)
    if not isinstance(given, (SoftFloatType, *PLAIN)):
        return None
    target = target_of(fmt, given.rules if isinstance(given, SoftFloatType) else NEAREST)
    read, wrap = operators.reader(target, given), wrapper(target)
    if isinstance(given, SoftFloatType):
        near = forms.from_float(target)
        read = composed(near, raw)
    if not isinstance(x, types.Array):
        return lambda x, fmt: wrap(read(x))
    make = allocator(SoftArrayType(target, x.ndim, "C"))

    def impl(x, fmt):
        made = make(x.shape)
        for place, v in np.ndenumerate(x):
            made[place] = wrap(read(v))
        return made

    return impl


def composed(outer, inner):
    """outer(float64(inner(x)))."""

    @jit(inline=True)
    def run(x):
        return outer(np.float64(inner(x)))

    return run


@overload_method(SoftArrayType, "astype", target="cpu", prefer_literal=True)
def _astype(x, fmt):
    if isinstance(fmt, (FormatConstant, types.StringLiteral)):
        return lambda x, fmt: array(x, fmt)
    raise errors.TypingError(
        "a soft array becomes a plain one by .to_numpy(); .astype takes a global softfloat.Format, its literal "
        f"name or x.dtype, got {fmt}"
    )


@overload_method(SoftArrayType, "to_numpy", target="cpu")
def _to_numpy(x):
    number = np.float32 if x.dtype.carrier == types.float32 else np.float64

    def impl(x):
        made = np.empty(x.shape, number)
        for place, v in np.ndenumerate(x):
            made[place] = number(float(v))
        return made

    return impl


@overload_method(SoftArrayType, "view", target="cpu")
def _view(x, dtype):
    raise errors.TypingError("a soft array has no view as plain numbers: use .to_numpy()")


# ---------------------------------------------------------------- reductions: sequential, in C order
@jit
def _sum(a):
    s = array(0.0, a.dtype)
    for v in a.flat:
        s = s + v
    return s


@jit
def _product(a):
    p = array(1.0, a.dtype)
    for v in a.flat:
        p = p * v
    return p


@jit
def _mean(a):
    return _sum(a) / a.size


@jit
def _largest(a):
    if a.size == 0:
        raise ValueError("an empty array has no largest element")
    found = a.flat[0]
    for v in a.flat:
        found = np.maximum(found, v)
    return found


@jit
def _least(a):
    if a.size == 0:
        raise ValueError("an empty array has no least element")
    found = a.flat[0]
    for v in a.flat:
        found = np.minimum(found, v)
    return found


@jit
def _running_sum(a):
    made = np.empty(a.size, a.dtype)
    s = array(0.0, a.dtype)
    i = 0
    for v in a.flat:
        s = s + v
        made[i] = s
        i += 1
    return made


def _reduction(run, function, method):
    @ours_on_cpu(function)
    def choose(a):
        return (lambda a: run(a)) if isinstance(a, SoftArrayType) else None

    @overload_method(SoftArrayType, method, target="cpu")
    def choose_method(a):
        return lambda a: run(a)


for _run, _function, _name in (
    (_sum, np.sum, "sum"),
    (_product, np.prod, "prod"),
    (_mean, np.mean, "mean"),
    (_largest, np.max, "max"),
    (_least, np.min, "min"),
    (_running_sum, np.cumsum, "cumsum"),
):
    _reduction(_run, _function, _name)


@jit
def _inner(a, b):
    if a.size != b.size:
        raise ValueError("operands of a product differ in their inner sizes")
    s = array(0.0, a.dtype)
    for k in range(a.size):
        s = s + a[k] * b[k]
    return s


@jit
def _matrix_product(a, b):
    made = np.empty((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            made[i, j] = _inner(a[i], b[:, j])
    return made


@jit
def _matrix_vector(a, b):
    made = np.empty(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        made[i] = _inner(a[i], b)
    return made


@jit
def _vector_matrix(a, b):
    made = np.empty(b.shape[1], a.dtype)
    for j in range(b.shape[1]):
        made[j] = _inner(a, b[:, j])
    return made


_PRODUCTS = {
    (1, 1): _inner,
    (2, 2): _matrix_product,
    (2, 1): _matrix_vector,
    (1, 2): _vector_matrix,
}


def _product_of(function):
    @ours_on_cpu(function)
    def choose(a, b):
        if not isinstance(a, types.Array) or not isinstance(b, types.Array):
            return None
        if _shape_of(function.__name__, (a, b)) is None:
            return None
        run = _PRODUCTS.get((a.ndim, b.ndim))
        if run is None:
            raise errors.TypingError(
                f"{function.__name__} in kernels takes arrays of one or two dimensions"
            )
        return lambda a, b: run(a, b)


for _function in (operator.matmul, np.dot):
    _product_of(_function)


@overload_method(SoftArrayType, "dot", target="cpu")
def _dot_method(a, b):
    return lambda a, b: np.dot(a, b)


@ours_on_cpu(np.where)
def _where(condition, x, y):
    found = _shape_of("where", (condition, x, y)) or _shape_of("where", (x, y))
    if found is None or not isinstance(condition, types.Array):
        return None
    soft, _ = found
    ndim = max(kind.ndim for kind in (condition, x, y) if isinstance(kind, types.Array))
    make = allocator(SoftArrayType(soft, ndim, "C"))
    left, right = _picker(soft, x), _picker(soft, y)

    def impl(condition, x, y):
        shape = np.broadcast_shapes(condition.shape, _shape(x), _shape(y))
        made = make(shape)
        v, w = _spread_to(x, shape), _spread_to(y, shape)
        for place, chosen in np.ndenumerate(np.broadcast_to(condition, shape)):
            made[place] = left(v, place) if chosen else right(w, place)
        return made

    return impl


def _shape(x):
    raise NotImplementedError  # compiled only


def _spread_to(x, shape):
    raise NotImplementedError  # compiled only


@overload(_shape, jit_options=OPTIONS, target="cpu")
def _shape_in_kernels(x):
    return (lambda x: x.shape) if isinstance(x, types.Array) else (lambda x: 1)


@overload(_spread_to, jit_options=OPTIONS, target="cpu")
def _spread_in_kernels(x, shape):
    if isinstance(x, types.Array):
        return lambda x, shape: np.broadcast_to(x, shape)
    return lambda x, shape: x


def _picker(soft, kind):
    """f(x, place): the element of an array there, or a number."""
    if isinstance(kind, types.Array):
        return jit(inline=True)(lambda x, place: x[place])
    read, wrap = operators.reader(soft, kind), wrapper(soft)
    return jit(inline=True)(lambda x, place: wrap(read(x)))
