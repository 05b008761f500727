"""SoftArray: an array whose elements are values of a format, with NumPy's manners.

It is no ndarray: a library that turns its argument into one would go on in float64 without a word, so np.asarray
raises. NumPy's functions reach a SoftArray through NEP 13 (ufuncs) and NEP 18 (functions); operators go the same way,
with a short cut (softfloat.array.operators).
"""

import copy
import functools

import numpy as np

from softfloat import comparison, functional
from softfloat.array.division import floor_divide, remainder
from softfloat.array.mixing import literal, no_values, plain_dtype, quietly, rounded, wide
from softfloat.array.operators import (
    arithmetic,
    general,
    is_operand,
    power,
    relation,
    scalar,
    sign_change,
    unary,
    whole,
)
from softfloat.array.printing import array_text, format_text
from softfloat.array.processor import standard
from softfloat.array.registry import call_function
from softfloat.array.ufuncs import call_one, dispatch
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.operands import Held, held, hold
from softfloat.status import active_status

# NumPy's functions with like=, which is not among the arguments that are passed on.
LIKE = (
    *("array", "asarray", "asanyarray", "ascontiguousarray", "zeros", "ones", "empty", "full"),
    *("eye", "identity", "arange"),
)


def _method(function):
    """A method that is a NumPy function of the array."""

    @functools.wraps(function)
    def method(self, *given, **options):
        return function(self, *given, **options)

    return method


class SoftArray(Held):
    """An array of values of a format; `softfloat.array` makes one, and SoftArray(x, fmt) is short for it.

    Arithmetic rounds every operation once to the format, to nearest or as `with softfloat.rounding(...)` says.
    Indexing gives views, as NumPy's does; without dimensions it gives scalars, which are SoftArrays that nothing
    changes. Assignment rounds what is assigned. dtype is the format.
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 1000.0  # before masked arrays and matrices

    def __new__(cls, x, fmt=None, **options):
        return Format.make(x, fmt, **options)

    # ---------------------------------------------------------------- what it is
    @property
    def format(self):
        """The Format (or FixedPoint)."""
        return self._format

    dtype = format

    @property
    def codes(self):
        """The codes of the elements, a new array of unsigned integers. ValueError for a NaN that has none."""
        return np.asarray(quietly(functional.encode, self._values, self._format))

    shape = property(lambda self: self._values.shape)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    nbytes = property(
        lambda self: self._values.nbytes, doc="Bytes of the carrier that holds the values."
    )
    T = property(lambda self: self._view(self._values.T))
    mT = property(lambda self: self._view(self._values.mT))  # noqa: N815
    real = property(lambda self: self)
    imag = property(np.imag, doc="The imaginary part of real numbers: zeros.")
    flat = property(lambda self: Flat(self), doc="The elements in C order, to be read and set.")
    base = property(lambda self: self._values.base)
    device = property(lambda self: "cpu", doc="Where the values are.")
    flags = property(lambda self: self._values.flags)

    def _view(self, values):
        return held(values, self._format)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return (self[i] for i in range(len(self._values)))

    def __contains__(self, x):
        return bool(np.any(self == x))

    # ---------------------------------------------------------------- out of the format
    @standard
    def to_numpy(self, dtype=None):
        """The values as a new NumPy array: float32, or float64 where the format needs it.

        dtype : np.float32, np.float64 or any type that holds every value of the format, such as the format's own type
            of ml_dtypes. ValueError if it does not.
        """
        if dtype is None:
            return self._values.copy()
        dtype = np.dtype(dtype)
        if dtype in (np.float32, np.float64):
            if not self._format.fits(dtype):
                raise ValueError(f"{dtype} does not hold every value of {self._format.label}")
            with np.errstate(all="ignore"):
                return self._values.astype(dtype)
        if as_format(dtype) != self._format:
            raise ValueError(
                f"{dtype} is another format than {self._format.label}; convert with .astype first"
            )
        return self.codes.view(dtype)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"a SoftArray of {self._format.label} is no NumPy array, so that nothing goes on in float64 unseen; "
            "convert it with .to_numpy()"
        )

    @standard
    def item(self, *where):
        """One element as a Python float, exact."""
        return float(self._values.item(*where))

    def tolist(self):
        """The values as (nested lists of) Python floats, exact."""
        return wide(self._values).tolist()

    @standard
    def __float__(self):
        return float(self._one("a float"))

    def __complex__(self):
        return complex(float(self))

    @standard
    def __int__(self):
        return int(self._one("an int"))

    @standard
    def __bool__(self):
        return bool(self._values)  # NumPy's own errors for more than one element, and for none

    @standard
    def __round__(self, ndigits=None):
        return int(np.round(self)) if ndigits is None else np.round(self, ndigits)

    def _one(self, what):
        if self._values.ndim:
            raise TypeError(f"only a scalar becomes {what}, got an array of shape {self.shape}")
        return self._values[()]

    @standard
    def __hash__(self):
        if self._values.ndim or self._values.flags.writeable:
            raise TypeError("unhashable type: a SoftArray can change; only its scalars have a hash")
        return hash(float(self._values))

    def to_device(self, device="cuda", /, *, stream=None):
        """The values on the current CUDA device, for kernels and functions there: a softfloat.cuda.SoftDeviceArray.

        On the device "cpu": the array itself.
        """
        if device == "cpu":
            return self
        if device != "cuda":
            raise ValueError(f'device must be "cuda" or "cpu", got {device!r}')
        from softfloat.cuda import to_device  # needs numba-cuda

        return to_device(self, stream=0 if stream is None else stream)

    # ---------------------------------------------------------------- conversion, copies, storage
    @standard
    def astype(self, fmt, *, copy=True, **options):
        """The values rounded once to another format; options as for `quantize`, rounding= among them.

        NumPy's integers and bool, as indices need them, give plain NumPy arrays: toward zero as in NumPy, unless
        rounding= says otherwise, a value out of their range being a ValueError; and x != 0.
        """
        plain = plain_dtype(fmt)
        if plain is not None:
            if plain.kind == "b":
                return self._values != 0
            return comparison.to_integer(
                self._values, plain, **{"rounding": "toward_zero", **options}
            )
        fmt = as_format(fmt)
        if fmt == self._format and not copy and not options:
            return self
        return hold(np.array(functional.quantize(self._values, fmt, **options)), fmt)

    def copy(self, order="C"):
        """A copy that can be changed, of a scalar too."""
        return self._view(self._values.copy(order))

    def __copy__(self):
        return self if self._is_scalar() else self.copy("K")

    def __deepcopy__(self, memo):
        return self if self._is_scalar() else self._view(copy.deepcopy(self._values, memo))

    def _is_scalar(self):
        return self._values.ndim == 0 and not self._values.flags.writeable

    def __reduce__(self):
        return _rebuild, (self._values, self._format, self._is_scalar())

    # ---------------------------------------------------------------- text
    @standard
    def __repr__(self):
        digits = array_text(self._values, self._format, prefix="SoftArray(")
        if self._values.size == 0 and self.shape != (0,):
            digits += f", shape={self.shape}"
        return f"SoftArray({digits}, {format_text(self._format)})"

    @standard
    def __str__(self):
        return array_text(self._values, self._format, separator=" ")

    @standard
    def __format__(self, spec):
        if not spec:
            return str(self)
        return format(float(self), spec)

    # ---------------------------------------------------------------- elements
    def __getitem__(self, key):
        try:
            found = self._values[key]
        except TypeError:
            no_values(key, "an index")
            raise
        if isinstance(found, np.ndarray):
            return held(found, self._format)
        return scalar(np.array(found), self._format)

    @standard
    def __setitem__(self, key, x):
        if isinstance(x, Held) and x._format == self._format:
            values = x._values
        elif type(x) in (float, int) and not active_status():
            values = literal(x, self._format)
        else:
            values = rounded(x, self._format)
        try:
            self._values[key] = values
        except TypeError:
            no_values(key, "an index")
            raise

    def fill(self, x):
        """Set every element to the value of x, rounded."""
        self[...] = x

    # ---------------------------------------------------------------- operators
    __add__, __radd__, __iadd__ = arithmetic(np.add, functional.add)
    __sub__, __rsub__, __isub__ = arithmetic(np.subtract, functional.subtract)
    __mul__, __rmul__, __imul__ = arithmetic(np.multiply, functional.multiply)
    __truediv__, __rtruediv__, __itruediv__ = arithmetic(np.divide, functional.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = arithmetic(np.floor_divide, floor_divide)
    __mod__, __rmod__, __imod__ = arithmetic(np.remainder, remainder)
    __pow__ = power
    _, __rpow__, __ipow__ = general(np.power)
    __matmul__, __rmatmul__, __imatmul__ = general(np.matmul)
    __divmod__, __rdivmod__, _ = general(np.divmod)
    __eq__ = relation(np.equal, comparison.equal)
    __ne__ = relation(np.not_equal, comparison.not_equal)
    __lt__ = relation(np.less, comparison.less)
    __le__ = relation(np.less_equal, comparison.less_equal)
    __gt__ = relation(np.greater, comparison.greater)
    __ge__ = relation(np.greater_equal, comparison.greater_equal)
    __neg__ = sign_change(np.negative, lambda fmt: fmt.has_negative_zero)
    __pos__ = unary(np.positive)
    __abs__ = sign_change(np.absolute, lambda fmt: True)
    __trunc__ = whole(np.trunc)
    __floor__ = whole(np.floor)
    __ceil__ = whole(np.ceil)

    # ---------------------------------------------------------------- NumPy's protocols
    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if len(inputs) == 1 and method == "__call__" and out is None and not options:
            return call_one(ufunc, self)
        operands = (inputs[0], *inputs[2:]) if method == "at" else inputs  # between: an index
        if any(not is_operand(x) and x is not None for x in operands if not isinstance(x, str)):
            return NotImplemented
        return dispatch(ufunc, method, inputs, out, options)

    def __array_function__(self, function, types, arguments, options):
        if not all(issubclass(kind, (Held, np.ndarray)) for kind in types):
            return NotImplemented
        if function.__name__ in LIKE:
            from softfloat.array.create import create_like

            return create_like(function.__name__, self._format, arguments, options)
        return call_function(function, arguments, options)

    # ---------------------------------------------------------------- NumPy's methods
    all = _method(np.all)
    any = _method(np.any)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    argpartition = _method(np.argpartition)
    argsort = _method(np.argsort)
    choose = _method(np.choose)
    cumprod = _method(np.cumprod)
    cumsum = _method(np.cumsum)
    diagonal = _method(np.diagonal)
    dot = _method(np.dot)
    max = _method(np.max)
    mean = _method(np.mean)
    min = _method(np.min)
    nonzero = _method(np.nonzero)
    prod = _method(np.prod)
    put = _method(np.put)
    repeat = _method(np.repeat)
    round = _method(np.round)
    searchsorted = _method(np.searchsorted)
    squeeze = _method(np.squeeze)
    std = _method(np.std)
    sum = _method(np.sum)
    swapaxes = _method(np.swapaxes)
    take = _method(np.take)
    trace = _method(np.trace)
    var = _method(np.var)

    def clip(self, min=None, max=None, out=None):
        return np.clip(self, min, max, out=out)

    def compress(self, condition, axis=None, out=None):
        return np.compress(condition, self, axis, out)

    def reshape(self, *shape, order="C"):
        return self._view(self._values.reshape(*shape, order=order))

    def transpose(self, *axes):
        return self._view(self._values.transpose(*axes))

    def ravel(self, order="C"):
        return self._view(self._values.ravel(order))

    def flatten(self, order="C"):
        return self._view(self._values.flatten(order))

    def view(self):
        """Another SoftArray of the same elements."""
        return self._view(self._values.view())

    def sort(self, axis=-1, *, kind=None, stable=None):
        """Sort in place, as np.sort."""
        self._values[...] = np.sort(self, axis=axis, kind=kind, stable=stable)._values

    def partition(self, kth, axis=-1, kind="introselect"):
        """Partition in place, as np.partition."""
        self._values[...] = np.partition(self, kth, axis=axis, kind=kind)._values

    def conj(self):
        return self

    conjugate = conj


class Flat:
    """The elements of a SoftArray in C order: an iterator that can be indexed and set, as ndarray.flat."""

    def __init__(self, array):
        self._array = array

    def __len__(self):
        return self._array.size

    def __iter__(self):
        return iter(self._array.ravel())

    def __getitem__(self, key):
        return hold(self._array._values.flat[key], self._array._format)

    def __setitem__(self, key, x):
        self._array._values.flat[key] = rounded(x, self._array._format)


def _rebuild(values, fmt, scalar):
    return hold(values, fmt) if scalar else held(values, fmt)


Held.kind = SoftArray
