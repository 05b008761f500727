"""NEP 13: NumPy's ufuncs on SoftArrays, from one table of rules. To add a ufunc is to add a line to the table.

Each result is rounded once unless its line says otherwise. reduce, accumulate, outer, at and reduceat follow from the
rule of two operands: they are sequential, first element first.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from softfloat import comparison, elementary, functional, reductions
from softfloat.array.division import divmod_values, floor_divide, fmod, remainder
from softfloat.array.mixing import common_format, comparand, is_weak, no_values, operand
from softfloat.array.processor import standard
from softfloat.array.registry import UFUNCS, name_of, unsupported
from softfloat.context import operation_options
from softfloat.formats import as_format
from softfloat.operands import Held, hold

# Elements below which a number is spread over an array: the loops for equal shapes are quicker.
FULL_BELOW = 1 << 22

# What a rule gives: values rounded to the format, values that need no rounding, or something else (bool, int).
ROUNDED, EXACT, PLAIN = "rounded", "exact", "plain"


@dataclass(frozen=True)
class Rule:
    """How a ufunc works on values of a format.

    run : run(*values, fmt, **options) if a result is ROUNDED, else run(*values, fmt); arrays of the carrier come out.
    results : what each result is; of several, run gives a tuple.   steps : for the documentation.
    compares : Python numbers beyond the range are infinite.   integers : positions of operands that are integers.
    identity : what an empty reduction gives, or None.   elementwise : False for products of matrices.
    neutral : operands on which it raises no flag.
    """

    run: Any
    steps: str
    results: tuple[str, ...] = (ROUNDED,)
    compares: bool = False
    integers: tuple[int, ...] = ()
    identity: float | None = None
    elementwise: bool = True
    neutral: float = 1.0


def _exact(run, steps, results=(EXACT,), **more):
    return Rule(lambda *values: run(*values[:-1]), steps, results, **more)


def _with_format(run, steps, results=(EXACT,), **more):
    return Rule(run, steps, results, **more)


def _relation(run, steps):
    return _exact(run, steps, (PLAIN,), compares=True)


def _integral(mode):
    return lambda x, fmt: functional.round_to_integral(x, fmt, rounding=mode)


def _truth(ufunc):
    return lambda *values: ufunc(*(v != 0 for v in values[:-1]))


def _negative(x, fmt):
    return comparison.negative(x, None if fmt.has_negative_zero else fmt)


def _sign(x, fmt):
    return functional.quantize(np.where(np.isnan(x), x, np.sign(x)), fmt)


def _heaviside(x, y, fmt):
    with np.errstate(all="ignore"):
        return functional.quantize(np.heaviside(x, y), fmt)


def _modf(x, fmt):
    whole = np.asarray(functional.round_to_integral(x, fmt, rounding="toward_zero"))
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(x), 0, x - whole)
    # Exact: the rest is made of the lower bits of x.
    rest = np.asarray(comparison.copysign(functional.quantize(rest, fmt), x, fmt))
    return rest, comparison.copysign(whole, x, fmt)


def _frexp(x, fmt):
    """x = fraction * 2**exponent with 1/2 <= |fraction| < 1, where the format has such fractions."""
    usual = np.isfinite(x) & (x != 0)
    exponents = np.where(usual, comparison.logb(np.where(usual, x, 1)), -1).astype(np.int64) + 1
    return comparison.scalbn(x, -exponents, fmt), exponents.astype(np.int32)


def _ldexp(x, n, fmt, **options):
    return comparison.scalbn(x, n, fmt, **options)


def _square(x, fmt, **options):
    return functional.multiply(x, x, fmt, **options)


def _reciprocal(x, fmt, **options):
    return functional.divide(np.ones_like(x), x, fmt, **options)


def _power(x, y, fmt, **options):
    """x**y; where every y is 2, as a product: the same bits sooner."""
    uniform = float(y.flat[0]) if y.size and (y == y.flat[0]).all() else None
    if uniform == 2:
        return _square(np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape)), fmt, **options)
    return elementary.power(x, y, fmt, **options)


def _matmul(a, b, fmt, **options):
    from softfloat.products import matmul  # its kernels are the longest to load

    return matmul(a, b, fmt, **options)


def _matrix(name, left, right):
    """The product of operands of which the last one or two dimensions are vectors or matrices."""

    def run(a, b, fmt, **options):
        if a.ndim < left or b.ndim < right:
            raise ValueError(
                f"np.{name} needs operands of at least {left} and {right} dimensions, "
                f"got shapes {a.shape} and {b.shape}"
            )
        first = a[..., None, :] if left == 1 else a
        second = b[..., :, None] if right == 1 else b
        result = np.asarray(_matmul(first, second, fmt, **options))
        result = result[..., 0, :] if left == 1 else result
        return result[..., 0] if right == 1 else result

    return run


_MATRIX = "every product and every sum rounded, k in order, from +0"

UFUNCS |= {
    np.add: Rule(functional.add, "a + b", identity=0.0),
    np.subtract: Rule(functional.subtract, "a - b"),
    np.multiply: Rule(functional.multiply, "a * b", identity=1.0),
    np.divide: Rule(functional.divide, "a / b"),
    np.sqrt: Rule(functional.sqrt, "the square root"),
    np.square: Rule(_square, "x * x"),
    np.reciprocal: Rule(_reciprocal, "1 / x"),
    np.power: Rule(_power, "x**y; 1 for y = 0 or x = 1; NaN for x < 0 unless y is an integer"),
    np.float_power: Rule(_power, "as np.power, in the format"),
    np.remainder: Rule(remainder, "a - floor(a / b) * b, exact quotient; sign of b"),
    np.fmod: Rule(fmod, "a - trunc(a / b) * b, exact; sign of a"),
    np.floor_divide: Rule(floor_divide, "floor of the exact quotient"),
    np.divmod: Rule(divmod_values, "floor_divide and remainder", (ROUNDED, ROUNDED)),
    np.ldexp: Rule(_ldexp, "x * 2**n", integers=(1,)),
    np.negative: _with_format(_negative, "-x, exact"),
    np.positive: _exact(np.copy, "x, exact"),
    np.absolute: _exact(comparison.absolute, "|x|, exact"),
    np.fabs: _exact(comparison.absolute, "|x|, exact"),
    np.conjugate: _exact(np.copy, "x, exact"),
    np.sign: _with_format(_sign, "-1, 0 or 1, exact"),
    np.copysign: _with_format(comparison.copysign, "x with the sign of y, exact"),
    np.heaviside: _with_format(_heaviside, "0, y or 1, exact"),
    np.maximum: _exact(comparison.maximum, "the larger, NaN if one is; -0 < +0; exact"),
    np.minimum: _exact(comparison.minimum, "the smaller, NaN if one is; -0 < +0; exact"),
    np.fmax: _exact(comparison.maximum_number, "the larger, numbers before NaN; exact"),
    np.fmin: _exact(comparison.minimum_number, "the smaller, numbers before NaN; exact"),
    np.nextafter: _with_format(comparison.nextafter, "the neighbour of x in the format towards y"),
    np.spacing: _with_format(comparison.spacing, "one unit in the last place"),
    np.rint: _with_format(_integral("ties_to_even"), "to an integer, ties to even"),
    np.floor: _with_format(_integral("toward_negative"), "to an integer, down"),
    np.ceil: _with_format(_integral("toward_positive"), "to an integer, up"),
    np.trunc: _with_format(_integral("toward_zero"), "to an integer, toward zero"),
    np.modf: _with_format(_modf, "fraction and whole part, exact", (EXACT, EXACT)),
    np.frexp: _with_format(_frexp, "fraction in [1/2, 1) and exponent", (EXACT, PLAIN)),
    np.equal: _relation(comparison.equal, "quiet; False if one is NaN"),
    np.not_equal: _relation(comparison.not_equal, "quiet; True if one is NaN"),
    np.less: _relation(comparison.less, "False if one is NaN"),
    np.less_equal: _relation(comparison.less_equal, "False if one is NaN"),
    np.greater: _relation(comparison.greater, "False if one is NaN"),
    np.greater_equal: _relation(comparison.greater_equal, "False if one is NaN"),
    np.isnan: _exact(comparison.isnan, "whether NaN", (PLAIN,)),
    np.isinf: _exact(comparison.isinf, "whether infinite", (PLAIN,)),
    np.isfinite: _exact(comparison.isfinite, "whether finite", (PLAIN,)),
    np.signbit: _exact(comparison.signbit, "whether the sign is negative, zeros too", (PLAIN,)),
    np.logical_and: Rule(_truth(np.logical_and), "of x != 0", (PLAIN,), identity=1.0),
    np.logical_or: Rule(_truth(np.logical_or), "of x != 0", (PLAIN,), identity=0.0),
    np.logical_xor: Rule(_truth(np.logical_xor), "of x != 0", (PLAIN,), identity=0.0),
    np.logical_not: Rule(_truth(np.logical_not), "of x != 0", (PLAIN,)),
    np.matmul: Rule(_matmul, _MATRIX, elementwise=False),
}
UFUNCS |= {
    np.exp: Rule(elementary.exp, "e**x", neutral=0.0),
    np.exp2: Rule(elementary.exp2, "2**x", neutral=0.0),
    np.expm1: Rule(elementary.expm1, "e**x - 1", neutral=0.0),
    np.log: Rule(elementary.log, "the natural logarithm"),
    np.log2: Rule(elementary.log2, "the logarithm to base 2"),
    np.log10: Rule(elementary.log10, "the logarithm to base 10"),
    np.log1p: Rule(elementary.log1p, "log(1 + x)", neutral=0.0),
    np.logaddexp: Rule(elementary.logaddexp, "log(e**x + e**y)", neutral=math.nan),
    np.logaddexp2: Rule(elementary.logaddexp2, "log2(2**x + 2**y)", neutral=0.0),
    np.cbrt: Rule(elementary.cbrt, "the cube root"),
    np.hypot: Rule(elementary.hypot, "sqrt(x * x + y * y), rounded once", neutral=0.0),
    np.sin: Rule(elementary.sin, "the sine, of radians", neutral=0.0),
    np.cos: Rule(elementary.cos, "the cosine, of radians", neutral=0.0),
    np.tan: Rule(elementary.tan, "the tangent, of radians", neutral=0.0),
    np.arcsin: Rule(elementary.arcsin, "the angle in [-pi/2, pi/2]", neutral=0.0),
    np.arccos: Rule(elementary.arccos, "the angle in [0, pi]"),
    np.arctan: Rule(elementary.arctan, "the angle in [-pi/2, pi/2]", neutral=0.0),
    np.arctan2: Rule(
        elementary.arctan2, "the angle of the point (y, x), in [-pi, pi]", neutral=0.0
    ),
    np.sinh: Rule(elementary.sinh, "the hyperbolic sine", neutral=0.0),
    np.cosh: Rule(elementary.cosh, "the hyperbolic cosine", neutral=0.0),
    np.tanh: Rule(elementary.tanh, "the hyperbolic tangent", neutral=0.0),
    np.arcsinh: Rule(elementary.arcsinh, "the inverse hyperbolic sine", neutral=0.0),
    np.arccosh: Rule(elementary.arccosh, "the inverse hyperbolic cosine"),
    np.arctanh: Rule(elementary.arctanh, "the inverse hyperbolic tangent", neutral=0.0),
    np.degrees: Rule(elementary.degrees, "x * 180 / pi, rounded once", neutral=0.0),
    np.rad2deg: Rule(elementary.degrees, "x * 180 / pi, rounded once", neutral=0.0),
    np.radians: Rule(elementary.radians, "x * pi / 180, rounded once", neutral=0.0),
    np.deg2rad: Rule(elementary.radians, "x * pi / 180, rounded once", neutral=0.0),
}
for _name, _left, _right in (("vecdot", 1, 1), ("matvec", 2, 1), ("vecmat", 1, 2)):
    if hasattr(np, _name):
        UFUNCS[getattr(np, _name)] = Rule(_matrix(_name, _left, _right), _MATRIX, elementwise=False)


def rule_of(ufunc):
    """The rule of a ufunc; TypeError if there is none."""
    rule = UFUNCS.get(ufunc)
    if rule is None:
        raise unsupported(name_of(ufunc))
    return rule


# ---------------------------------------------------------------- calls
@standard
def dispatch(ufunc, method, inputs, out, options):
    """What NumPy asks for by __array_ufunc__."""
    rule_of(ufunc)
    if method == "__call__":
        if "axis" in options and ufunc is getattr(np, "vecdot", None):
            inputs = _along(inputs, out, options.pop("axis"))
        return call(ufunc, inputs, out=out, **options)
    if method == "outer":
        a, b = (_as_held(x, common_format(inputs)) for x in inputs)
        a = a.reshape(a.shape + (1,) * b.ndim)
        return call(ufunc, (a, b), out=out, **options)
    if ufunc.signature is not None:
        raise unsupported(f"{name_of(ufunc)}.{method}")
    if method == "at":
        return at(ufunc, *inputs, **options)
    run = {"reduce": reduce, "accumulate": accumulate, "reduceat": reduceat}[method]
    first, *rest = inputs
    target = out[0] if out is not None else None
    return run(
        ufunc, _as_held(first, common_format([*inputs, target])), *rest, out=target, **options
    )


def _along(inputs, out, axis):
    """Operands with the contracted axis as the last one."""
    fmt = common_format([*inputs, *(out or ())])
    return tuple(np.moveaxis(_as_held(x, fmt), axis, -1) for x in inputs)


def _as_held(x, fmt):
    return x if isinstance(x, Held) else hold(operand(x, fmt), fmt)


@standard
def call_one(ufunc, a):
    """A ufunc of one SoftArray and nothing else said: `call` without its questions."""
    rule = rule_of(ufunc)
    if len(rule.results) > 1 or not a._values.ndim:
        return call(ufunc, (a,))
    fmt = a._format
    if rule.results[0] == ROUNDED:
        return hold(rule.run(a._values, fmt, **operation_options()), fmt)
    value = rule.run(a._values, fmt)
    return value if rule.results[0] == PLAIN else hold(value, fmt)


@standard
def call(ufunc, inputs, out=None, where=True, dtype=None, **options):
    """A ufunc on SoftArrays and what they may meet; out and where as for NumPy, dtype the format of the result.

    Where `where` is false and there is no out, the result is zero.
    """
    rule = rule_of(ufunc)
    _refuse(ufunc, options)
    targets = out if isinstance(out, tuple) else (out,)
    fmt = common_format(inputs)
    if fmt is None:
        fmt = common_format(targets)
    values = [_taken(rule, i, x, fmt) for i, x in enumerate(inputs)]
    result = fmt if dtype is None else as_format(dtype)
    if where is not True:
        no_values(where, f"where= of {name_of(ufunc)}")
        values = _unmasked(values, where, rule.neutral)
    found = _run(rule, values, result)
    if len(rule.results) == 1 and out is None and where is True and dtype is None:
        kind = rule.results[0]
        return delivered(found, kind, result, None)
    found = found if isinstance(found, tuple) else (found,)
    if dtype is not None:
        found = _converted(found, rule, result)
    dressed = tuple(
        delivered(value, kind, result, target, where)
        for value, kind, target in zip(
            found, rule.results, [*targets, *[None] * len(found)], strict=False
        )
    )
    return dressed if len(dressed) > 1 else dressed[0]


def _converted(found, rule, fmt):
    """Results that were exact in the operands' format, in another."""
    return tuple(
        np.asarray(functional.quantize(value, fmt)) if kind == EXACT else value
        for value, kind in zip(found, rule.results, strict=True)
    )


def _refuse(ufunc, options):
    left_out = {"casting": "same_kind", "order": "K", "subok": True}
    for name, value in options.items():
        if name not in left_out or value != left_out[name]:
            raise TypeError(f"{name_of(ufunc)} on SoftArrays takes no {name}=")


def _taken(rule, position, x, fmt):
    """An operand as the rule wants it."""
    if position in rule.integers:
        n = np.asarray(x)
        if n.dtype.kind not in "iu":
            raise TypeError(f"operand {position} must be integers, got dtype {n.dtype}")
        return n
    if rule.compares and is_weak(x):
        return comparand(x, fmt)
    return operand(x, fmt)


def _unmasked(values, where, neutral):
    """Operands with others where nothing is asked for, which raise no flag."""
    shape = np.broadcast_shapes(*(v.shape for v in values), np.shape(where))
    return [np.where(where, np.broadcast_to(v, shape), v.dtype.type(neutral)) for v in values]


def _run(rule, values, fmt):
    """Apply a rule to values; two operands of which one is a single number get one shape."""
    options = operation_options() if ROUNDED in rule.results else {}
    if rule.elementwise and len(values) == 2 and not rule.integers:
        a, b = values
        if a.ndim == 0 < b.ndim or b.ndim == 0 < a.ndim:
            if max(a.size, b.size) > FULL_BELOW and rule.results == (ROUNDED,):
                return _by_pieces(rule, values, fmt, options)
            shape = a.shape or b.shape
            values = [v if v.ndim else np.full(shape, v) for v in values]
    if rule.elementwise and len(rule.results) == 1 and all(v.ndim == 0 for v in values):
        # The loops for arrays are quicker than what scalars take.
        return rule.run(*(v.reshape(1) for v in values), fmt, **options).reshape(())
    return rule.run(*values, fmt, **options)


def _by_pieces(rule, values, fmt, options):
    """A number beside a large array, which is not to be joined by a second one."""
    shape = next(v.shape for v in values if v.ndim)
    flat = [v.reshape(-1) for v in values]
    result = np.empty(math.prod(shape), fmt.carrier)
    for start in range(0, result.size, FULL_BELOW):
        stop = min(start + FULL_BELOW, result.size)
        pieces = [
            v[start:stop] if whole.ndim else np.full(stop - start, v)
            for v, whole in zip(flat, values, strict=True)
        ]
        # Random words belong to the place in the whole array.
        place = {"offset": start} if "seed" in options else {}
        result[start:stop] = rule.run(*pieces, fmt, **options, **place)
    return result.reshape(shape)


def delivered(value, kind, fmt, target, where=None):
    """A result as the caller gets it: in `target`, as a SoftArray, or plain.

    where : of an elementwise call, True or a mask; the result may then spread over a larger target.
    """
    plain = kind == PLAIN
    masked = where is not None and where is not True
    if target is None:
        if masked:
            rest = np.asarray(value).dtype.type(0 if plain or fmt.has_zero else 1)
            value = np.where(where, value, rest)
        if plain:
            return value[()] if isinstance(value, np.ndarray) else value
        return hold(np.asarray(value, fmt.carrier), fmt)
    place = check_target(target, plain, fmt)
    shape = np.shape(value)
    if where is not None:
        shape = np.broadcast_shapes(shape, place.shape, np.shape(where))
    if shape != place.shape:
        raise ValueError(f"out= must have shape {np.shape(value)}, got {place.shape}")
    np.copyto(place, value, where=where if masked else True)
    return target


def check_target(target, plain, fmt):
    """The array behind out=: TypeError unless it is plain where the result is, else of the format."""
    if plain:
        if isinstance(target, Held):
            raise TypeError("out= must be a NumPy array: the result is no value of the format")
        return target
    if not isinstance(target, Held):
        raise TypeError(f"out= must be a SoftArray of {fmt.label}, got {type(target).__name__}")
    if target._format != fmt:
        raise TypeError(
            f"out= must be a SoftArray of {fmt.label}, got one of {target._format.label}"
        )
    return target._values


# ---------------------------------------------------------------- reductions
NO_VALUE = getattr(np, "_NoValue", None)


def _binary(ufunc, method):
    rule = rule_of(ufunc)
    if ufunc.nin != 2 or ufunc.nout != 1 or rule.integers:
        raise ValueError(
            f"{name_of(ufunc)} has no {method}: it takes ufuncs of two operands and one result"
        )
    return rule


@standard
def reduce(ufunc, a, axis=0, dtype=None, out=None, keepdims=False, initial=NO_VALUE, where=True):
    """Fold over axes, in C order of the reduced axes, sequentially; sums from +0 and products from 1, or from initial.

    dtype : the format to which every operation rounds, and that of the result.
    """
    rule = _binary(ufunc, "reduce")
    fmt = a._format if dtype is None else as_format(dtype)
    rows, shape = rows_of(a._values, axis, bool(keepdims))
    if where is not True:
        no_values(where, f"where= of {name_of(ufunc)}.reduce")
        mask, _ = rows_of(np.broadcast_to(where, a.shape), axis, False)
        rows = _skipped(ufunc, rule, rows, mask, initial)
    if initial is not NO_VALUE and initial is not None:
        start = np.broadcast_to(operand(initial, fmt), (*rows.shape[:-1], 1))
        rows = np.concatenate([start, rows], axis=-1)
    value = np.asarray(_folded(ufunc, rule, rows, fmt))
    if EXACT in rule.results and fmt != a._format:
        value = np.asarray(functional.quantize(value, fmt))
    value = value.reshape(shape)
    return delivered(value, rule.results[0], fmt, out)


def rows_of(values, axis, keepdims):
    """(values with the reduced axes as one last axis, shape of the result)."""
    axes = reductions._axes(axis, values.ndim)
    kept = tuple(i for i in range(values.ndim) if i not in axes)
    n = math.prod(values.shape[i] for i in axes)
    shape = tuple(values.shape[i] for i in kept)
    rows = values.transpose(kept + axes).reshape(*shape, n)
    if keepdims:
        shape = tuple(1 if i in axes else s for i, s in enumerate(values.shape))
    return rows, shape


def _skipped(ufunc, rule, rows, mask, initial):
    """Rows in which the terms that are left out change nothing."""
    if rule.identity is None and initial is NO_VALUE:
        raise ValueError(f"{name_of(ufunc)}.reduce with where= needs initial=: it has no identity")
    if rule.identity is not None:
        return np.where(mask, rows, rows.dtype.type(rule.identity))
    if ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        return np.where(mask, rows, rows.dtype.type(initial))
    raise unsupported(f"{name_of(ufunc)}.reduce with where=")


def _folded(ufunc, rule, rows, fmt):
    if ufunc in (np.add, np.multiply):
        run = reductions.sum if ufunc is np.add else reductions.prod
        return run(rows, fmt, axis=-1, **operation_options())
    if ufunc in (np.logical_and, np.logical_or, np.logical_xor):
        return ufunc.reduce(rows != 0, axis=-1)
    n = rows.shape[-1]
    if not n:
        raise ValueError(f"{name_of(ufunc)}.reduce of no elements has no result; give initial=")
    if EXACT in rule.results:
        return _halved(rule, rows, fmt)
    total = rows[..., 0]
    for i in range(1, n):
        total = np.asarray(_run(rule, (total, rows[..., i]), fmt))
    return total


def _halved(rule, rows, fmt):
    """The largest or smallest: exact, so that the order does not matter."""
    while rows.shape[-1] > 1:
        half = rows.shape[-1] // 2
        pairs = np.asarray(
            rule.run(rows[..., :half].copy(), rows[..., half : 2 * half].copy(), fmt)
        )
        rows = np.concatenate([pairs, rows[..., 2 * half :]], axis=-1)
    return rows[..., 0]


@standard
def accumulate(ufunc, a, axis=0, dtype=None, out=None):
    """All partial folds along an axis; sums from +0."""
    rule = _binary(ufunc, "accumulate")
    fmt = a._format if dtype is None else as_format(dtype)
    if not a.ndim:
        raise TypeError("cannot accumulate on a scalar")
    if ufunc is np.add:
        value = np.asarray(reductions.cumsum(a._values, fmt, axis=axis, **operation_options()))
        return delivered(value, rule.results[0], fmt, out)
    moved = np.moveaxis(a._values, axis, 0)
    steps = [moved[0].astype(fmt.carrier)] if len(moved) else []
    for row in moved[1:]:
        steps.append(np.asarray(_run(rule, (steps[-1], row), fmt)))
    value = np.stack(steps).reshape(moved.shape) if steps else moved
    return delivered(np.moveaxis(value, 0, axis), rule.results[0], fmt, out)


def reduceat(ufunc, a, indices, axis=0, dtype=None, out=None):
    """The fold of a[i:j] for neighbours i, j of indices (the last to the end); a[i] where j <= i."""
    rule = _binary(ufunc, "reduceat")
    fmt = a._format if dtype is None else as_format(dtype)
    moved = np.moveaxis(a._values, axis, 0)
    starts = [int(i) for i in np.asarray(indices).reshape(-1)]
    if any(not 0 <= i < len(moved) for i in starts):
        raise IndexError(f"indices must be in 0..{len(moved) - 1}, got {starts}")
    parts = []
    for i, j in zip(starts, [*starts[1:], len(moved)], strict=True):
        piece = np.moveaxis(moved[i : max(j, i + 1)], 0, -1)
        parts.append(np.asarray(_folded(ufunc, rule, piece, fmt)))
    value = np.stack(parts) if parts else moved[:0]
    return delivered(np.moveaxis(value, 0, axis), rule.results[0], fmt, out)


def at(ufunc, a, indices, b=None):
    """a[i] = f(a[i], b) for each index in turn, repeated indices each time."""
    rule = rule_of(ufunc)
    if not isinstance(a, Held):
        raise TypeError(
            f"{name_of(ufunc)}.at changes its first operand, which must be the SoftArray"
        )
    if PLAIN in rule.results or ufunc.nout != 1:
        raise unsupported(f"{name_of(ufunc)}.at")
    places = np.arange(a.size).reshape(a.shape)[indices]
    flat = places.reshape(-1)
    if b is not None:
        b = b if 1 in rule.integers else operand(b, a._format)
        b = np.broadcast_to(b, places.shape).reshape(-1)
    turn = _occurrence(flat)
    values = np.ascontiguousarray(a._values).reshape(-1).copy()
    for k in range(int(turn.max(initial=-1)) + 1):
        chosen = turn == k
        operands = (values[flat[chosen]],) if b is None else (values[flat[chosen]], b[chosen])
        values[flat[chosen]] = _run(rule, operands, a._format)
    a._values[...] = values.reshape(a.shape)


def _occurrence(flat):
    """How often the same index came before, for each."""
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = (
        np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(flat) else np.zeros(0, bool)
    )
    positions = np.arange(len(flat))
    start = np.maximum.accumulate(np.where(first, positions, 0)) if len(flat) else positions
    result = np.empty(len(flat), np.int64)
    result[order] = positions - start
    return result
