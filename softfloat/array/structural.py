"""NumPy functions that move, choose, order and compare elements: nothing is rounded, so NumPy does them on the values.

What joins a SoftArray there (another operand of concatenate, a fill value) follows the rules of softfloat.array.mixing;
what is assigned (copyto, put, fill_diagonal, full_like, ...) is rounded once, as `a[key] = x` does.
"""

import functools
import inspect

import numpy as np

from softfloat.array.create import empty, full
from softfloat.array.mixing import common_format, leaves, no_values, operand, rounded, truth
from softfloat.array.registry import implements, name_of
from softfloat.array.ufuncs import check_target
from softfloat.formats import as_format
from softfloat.operands import Held, held, hold

MOVES, INDICES, ASSIGNS = "moving elements", "order, indices and truth", "assigning"


def _values(x, fmt):
    """Values for SoftArrays and what joins them, through nested sequences of SoftArrays."""
    if isinstance(x, (list, tuple)) and any(isinstance(item, Held) for item in leaves(x)):
        return [_values(item, fmt) for item in x]
    return operand(x, fmt)


def dressed(result, fmt):
    """Arrays of a result, or of a list or tuple of results, as SoftArrays."""
    if isinstance(result, (list, tuple)):
        parts = [dressed(item, fmt) for item in result]
        if hasattr(result, "_fields"):
            return type(result)(*parts)
        return type(result)(parts)
    if isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind == "f":
        if not fmt.has_zero:  # NumPy fills in zeros, which are no values there
            result = np.where(result == 0, result.dtype.type(np.nan), result)
        return (
            held(result, fmt)
            if isinstance(result, np.ndarray) and result.ndim
            else hold(result, fmt)
        )
    return result


# NumPy's functions in C, which told their arguments only later than version 2.0.
_IN_C = {
    np.concatenate: lambda arrays, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    np.where: lambda condition, x=None, y=None: None,
    np.lexsort: lambda keys, axis=-1: None,
    np.may_share_memory: lambda a, b, max_work=0: None,
    np.shares_memory: lambda a, b, max_work=-1: None,
}


def _passed_on(function, names, plain):
    """What calls a NumPy function with values in place of the SoftArrays in the named arguments."""
    signature = inspect.signature(_IN_C.get(function, function))

    def moved(*given, **options):
        bound = signature.bind(*given, **options)
        every = bound.arguments
        present = [n for n in names if n in every]
        out = every.get("out")
        for n in every.keys() - {*names, "out"}:
            every[n] = (
                truth(every[n])
                if n == "condition"
                else no_values(every[n], f"{n}= of {name_of(function)}")
            )
        fmt = common_format([*leaves([every[n] for n in present]), out])
        for n in present if fmt is not None else ():  # else a condition was soft, and nothing more
            every[n] = _each(every[n], fmt) if _variadic(signature, n) else _values(every[n], fmt)
        if out is not None and fmt is not None:
            every["out"] = check_target(out, plain, fmt)
        result = function(*bound.args, **bound.kwargs)
        if out is not None:
            return out
        return result if plain or fmt is None else dressed(result, fmt)

    return moved


def _each(items, fmt):
    return tuple(_values(item, fmt) for item in items)


def _variadic(signature, name):
    return signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL


def _register(section, text, plain, table):
    for function, names in table.items():
        moved = _passed_on(function, names.split(), plain)
        moved.__doc__ = text
        implements(function, section=section)(moved)


_register(
    MOVES,
    "exact",
    False,
    {
        np.append: "arr values",
        np.atleast_1d: "arys",
        np.atleast_2d: "arys",
        np.atleast_3d: "arys",
        np.array_split: "ary",
        np.block: "arrays",
        np.broadcast_arrays: "args",
        np.broadcast_to: "array",
        np.choose: "choices",
        np.column_stack: "tup",
        np.compress: "a",
        np.concatenate: "arrays",
        np.copy: "a",
        np.delete: "arr",
        np.diag: "v",
        np.diagflat: "v",
        np.diagonal: "a",
        np.dsplit: "ary",
        np.dstack: "tup",
        np.expand_dims: "a",
        np.extract: "arr",
        np.flip: "m",
        np.fliplr: "m",
        np.flipud: "m",
        np.hsplit: "ary",
        np.hstack: "tup",
        np.insert: "arr values",
        np.linalg.diagonal: "x",
        np.linalg.matrix_transpose: "x",
        np.matrix_transpose: "x",
        np.meshgrid: "xi",
        np.moveaxis: "a",
        np.ravel: "a",
        np.real: "val",
        np.repeat: "a",
        np.reshape: "a",
        np.resize: "a",
        np.roll: "a",
        np.rollaxis: "a",
        np.rot90: "m",
        np.select: "choicelist default",
        np.split: "ary",
        np.squeeze: "a",
        np.stack: "arrays",
        np.swapaxes: "a",
        np.take: "a",
        np.take_along_axis: "arr",
        np.tile: "A",
        np.transpose: "a",
        np.tril: "m",
        np.trim_zeros: "filt",
        np.triu: "m",
        np.vsplit: "ary",
        np.vstack: "tup",
        np.where: "x y",
        np.lib.stride_tricks.sliding_window_view: "x",
        **({np.unstack: "x"} if hasattr(np, "unstack") else {}),
    },
)
_register(
    INDICES,
    "exact",
    True,
    {
        np.all: "a",
        np.any: "a",
        np.argmax: "a",
        np.argmin: "a",
        np.argwhere: "a",
        np.array_equal: "a1 a2",
        np.array_equiv: "a1 a2",
        np.count_nonzero: "a",
        np.diag_indices_from: "arr",
        np.digitize: "x bins",
        np.flatnonzero: "a",
        np.iscomplex: "x",
        np.iscomplexobj: "x",
        np.isin: "element test_elements",
        np.isneginf: "x",
        np.isposinf: "x",
        np.isreal: "x",
        np.isrealobj: "x",
        np.lexsort: "keys",
        np.may_share_memory: "a b",
        np.nanargmax: "a",
        np.nanargmin: "a",
        np.ndim: "a",
        np.nonzero: "a",
        np.searchsorted: "a v",
        np.shape: "a",
        np.shares_memory: "a b",
        np.size: "a",
        np.tril_indices_from: "arr",
        np.triu_indices_from: "arr",
    },
)


# ---------------------------------------------------------------- order
@implements(np.sort, section=INDICES)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """exact; NaN last, always stable, so that -0 and +0 keep their order"""
    return dressed(np.sort(a._values, axis=axis, kind="stable"), a._format)


@implements(np.argsort, section=INDICES)
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    """exact; NaN last, always stable"""
    return np.argsort(a._values, axis=axis, kind="stable")


@implements(np.partition, section=INDICES)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """exact; sorts, which is a partition"""
    np.partition(np.empty(a.shape if axis is not None else a.size), kth, axis)  # its own errors
    return sort(a, axis)


@implements(np.argpartition, section=INDICES)
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    """exact; sorts, which is a partition"""
    np.partition(np.empty(a.shape if axis is not None else a.size), kth, axis)
    return argsort(a, axis)


def _register_sets():
    """Sets see one zero: -0 counts as +0, so that the result does not hang on which comes first."""

    def one_zero(x, fmt):
        values = operand(x, fmt)
        return np.where(values == 0, values.dtype.type(0), values)

    for function in (
        *(np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values),
        *(np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d),
    ):
        count = 1 if function.__name__.startswith("unique") else 2

        @functools.wraps(function)
        def sets(*given, _function=function, _count=count, **options):
            fmt = common_format(given[:_count])
            values = [one_zero(x, fmt) for x in given[:_count]]
            return dressed(_function(*values, *given[_count:], **options), fmt)

        sets.__doc__ = "exact; -0 counts as +0"
        implements(function, section=INDICES)(sets)


_register_sets()


# ---------------------------------------------------------------- assignment
def _target(a, name):
    if not isinstance(a, Held):
        raise TypeError(
            f"np.{name} changes a NumPy array here, which cannot hold values of a format unseen; "
            "give .to_numpy() of the SoftArray"
        )
    return a._values, a._format


@implements(np.copyto, section=ASSIGNS)
def copyto(dst, src, casting="same_kind", where=True):
    """src rounded once, to nearest"""
    values, fmt = _target(dst, "copyto")
    np.copyto(values, rounded(src, fmt), where=no_values(where, "where= of np.copyto"))


@implements(np.put, section=ASSIGNS)
def put(a, ind, v, mode="raise"):
    """v rounded once, to nearest"""
    values, fmt = _target(a, "put")
    np.put(values, no_values(ind, "ind= of np.put"), rounded(v, fmt), mode=mode)


@implements(np.put_along_axis, section=ASSIGNS)
def put_along_axis(arr, indices, values, axis=-1):
    """values rounded once, to nearest"""
    own, fmt = _target(arr, "put_along_axis")
    indices = no_values(indices, "indices= of np.put_along_axis")
    np.put_along_axis(own, indices, rounded(values, fmt), axis)


@implements(np.place, section=ASSIGNS)
def place(arr, mask, vals):
    """vals rounded once, to nearest"""
    values, fmt = _target(arr, "place")
    np.place(values, truth(mask), rounded(vals, fmt))


@implements(np.putmask, section=ASSIGNS)
def putmask(a, mask, values):
    """values rounded once, to nearest"""
    own, fmt = _target(a, "putmask")
    np.putmask(own, truth(mask), rounded(values, fmt))


@implements(np.fill_diagonal, section=ASSIGNS)
def fill_diagonal(a, val, wrap=False):
    """val rounded once, to nearest"""
    values, fmt = _target(a, "fill_diagonal")
    np.fill_diagonal(values, rounded(val, fmt), wrap)


# ---------------------------------------------------------------- like another array
def _like(a, fill, dtype, shape):
    fmt = a._format if dtype is None else as_format(dtype)
    return full(a.shape if shape is None else shape, fill, fmt)


@implements(np.zeros_like, section=MOVES)
def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """zeros of the format, or of the format given as dtype"""
    return _like(a, 0, dtype, shape)


@implements(np.empty_like, section=MOVES)
def empty_like(prototype, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """zeros, or ones where the format has no zero"""
    fmt = prototype._format if dtype is None else as_format(dtype)
    return empty(prototype.shape if shape is None else shape, fmt)


@implements(np.ones_like, section=MOVES)
def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """ones of the format, or of the format given as dtype"""
    return _like(a, 1, dtype, shape)


@implements(np.full_like, section=MOVES)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """fill_value rounded once, to nearest"""
    if not isinstance(a, Held):
        raise TypeError(
            "np.full_like: the array is no SoftArray, the fill value is; use softfloat.full"
        )
    return _like(a, fill_value, dtype, shape)


@implements(np.astype, section=MOVES)
def astype(x, dtype, /, *, copy=True, device=None):
    """each element rounded once, to nearest, to the format"""
    return x.astype(dtype, copy=copy)


@implements(np.pad, section=MOVES)
def pad(array, pad_width, mode="constant", **options):
    """exact; constant_values follow the rules of mixing; no modes that compute ("mean", "linear_ramp")"""
    if mode in ("mean", "linear_ramp") or callable(mode) or options.get("reflect_type") == "odd":
        raise TypeError(f"np.pad on SoftArrays takes modes that only copy elements, got {mode!r}")
    fmt = array._format
    if "constant_values" in options:
        options["constant_values"] = operand(options["constant_values"], fmt)
    return dressed(np.pad(array._values, pad_width, mode, **options), fmt)


@implements(np.nan_to_num, section=MOVES)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """exact; infinities become the largest finite values of the format"""
    fmt = x._format
    posinf = fmt.max if posinf is None else posinf
    neginf = fmt.min if neginf is None else neginf
    nan, posinf, neginf = (operand(v, fmt) for v in (nan, posinf, neginf))
    values = np.nan_to_num(x._values, copy=copy, nan=nan, posinf=posinf, neginf=neginf)
    return dressed(np.asarray(values), fmt) if copy else x


# ---------------------------------------------------------------- functions of the user's, and text
@implements(np.apply_along_axis, section=MOVES)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """the function on each one-dimensional slice, a SoftArray"""
    moved = np.moveaxis(arr, axis, -1)
    results = [func1d(moved[place], *args, **kwargs) for place in np.ndindex(moved.shape[:-1])]
    if not results:
        raise ValueError("np.apply_along_axis: an axis of length 0 leaves no slice to apply it to")
    shape, inner = moved.shape[:-1], np.shape(results[0])
    joined = np.stack(results) if isinstance(results[0], Held) else np.array(results)
    return np.moveaxis(
        joined.reshape(shape + inner), range(len(shape), len(shape) + len(inner)),
        range(axis % arr.ndim, axis % arr.ndim + len(inner)),
    )  # fmt: skip


@implements(np.piecewise, section=MOVES)
def piecewise(x, condlist, funclist, *args, **kw):
    """each function on the elements where its condition holds; numbers rounded once"""
    conditions = [
        np.asarray(c) for c in (condlist if isinstance(condlist, (list, tuple)) else [condlist])
    ]
    if conditions and conditions[0].ndim == 0 and x.ndim:
        conditions = [np.asarray(condlist)]
    if len(funclist) == len(conditions) + 1:
        conditions = [*conditions, ~np.any(conditions, axis=0)]
    if len(funclist) != len(conditions):
        raise ValueError(f"{len(conditions)} conditions need as many functions, or one more")
    result = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        result[condition] = function(x[condition], *args, **kw) if callable(function) else function
    return result


@implements(np.apply_over_axes, section=MOVES)
def apply_over_axes(func, a, axes):
    """the function over each axis in turn"""
    for axis in np.atleast_1d(axes):
        result = func(a, int(axis))
        a = result if result.ndim == a.ndim else np.expand_dims(result, int(axis))
    return a


@implements(np.real_if_close, section=MOVES)
def real_if_close(a, tol=100):
    """exact: a itself"""
    return a


@implements(np.imag, section=MOVES)
def imag(val):
    """zeros"""
    return zeros_like(val)


@implements(np.array_repr, section=INDICES)
def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """repr(a)"""
    return repr(arr)


@implements(np.array_str, np.array2string, section=INDICES)
def array_str(a, *ignored, **options):
    """str(a)"""
    return str(a)
