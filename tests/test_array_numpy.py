"""On small integers in binary64 nothing is rounded: there every function must give what NumPy gives."""

import math
import warnings

import numpy as np
import pytest

import softfloat as sf

RNG = np.random.default_rng(11)
A = RNG.integers(-4, 5, (3, 4)).astype(float)
B = RNG.integers(-4, 5, (4, 3)).astype(float)
C = RNG.integers(1, 5, (2, 3, 4)).astype(float)
V = RNG.integers(1, 5, 4).astype(float)
MASK = A > 0

CALLS = {
    "sum axes": lambda a, b, c, v: np.sum(c, axis=(0, 2), keepdims=True),
    "sum where": lambda a, b, c, v: np.sum(a, axis=1, where=MASK, initial=3),
    "sum negative axis": lambda a, b, c, v: c.sum(axis=-2),
    "prod where": lambda a, b, c, v: np.prod(a, axis=0, where=MASK),
    "max initial": lambda a, b, c, v: np.max(a, axis=1, initial=2, keepdims=True),
    "min where": lambda a, b, c, v: np.min(a, axis=0, where=MASK, initial=7),
    "cumsum": lambda a, b, c, v: np.cumsum(c, axis=1),
    "cumprod": lambda a, b, c, v: np.cumprod(a, axis=-1),
    "ptp": lambda a, b, c, v: np.ptp(c, axis=2, keepdims=True),
    "median": lambda a, b, c, v: np.median(c * 2, axis=(0, 1), keepdims=True),
    "median even": lambda a, b, c, v: np.median(a * 2, axis=1),
    "median all": lambda a, b, c, v: np.median(a * 2),
    "mean": lambda a, b, c, v: np.mean(c * 4, axis=2, keepdims=True),
    "mean where": lambda a, b, c, v: np.mean(a * 12, axis=1, where=A != 9),
    "var": lambda a, b, c, v: np.var(c * 4, axis=2, ddof=0),
    "var keepdims": lambda a, b, c, v: (c * 4).var(axis=2, keepdims=True),
    "std": lambda a, b, c, v: np.std(np.stack([c, c]), axis=0),
    "average": lambda a, b, c, v: np.average(a, axis=1, weights=[1, 1, 1, 1]),
    "average all": lambda a, b, c, v: np.average(c * 24),
    "average returned": lambda a, b, c, v: np.average(a, axis=0, weights=[1, 2, 1], returned=True),
    "diff": lambda a, b, c, v: np.diff(c, n=2, axis=1),
    "diff ends": lambda a, b, c, v: np.diff(a, axis=0, prepend=a[:1], append=5),
    "ediff1d": lambda a, b, c, v: np.ediff1d(a, to_end=[1, 2], to_begin=0),
    "gradient": lambda a, b, c, v: np.gradient(a * 2),
    "gradient axis": lambda a, b, c, v: np.gradient(c * 2, 2, axis=2),
    "gradient steps": lambda a, b, c, v: np.gradient(a * 4, 2, 1),
    "gradient order": lambda a, b, c, v: np.gradient(a * 2, axis=1, edge_order=2),
    "gradient coordinates": lambda a, b, c, v: np.gradient(
        a * 8, np.array([0, 1, 2, 4.0])[:4], axis=1
    ),
    "trapezoid": lambda a, b, c, v: np.trapezoid(c * 2, axis=1),
    "trapezoid x": lambda a, b, c, v: np.trapezoid(a * 2, x=np.cumsum(v)),
    "interp": lambda a, b, c, v: np.interp(a, np.array([-3.0, 0, 1, 3]), v * 6, left=-1, right=9),
    "convolve": lambda a, b, c, v: np.convolve(a[0], v, "same"),
    "correlate": lambda a, b, c, v: np.correlate(a.ravel(), v, "full"),
    "polyval": lambda a, b, c, v: np.polyval(v, a),
    "clip": lambda a, b, c, v: np.clip(a, [-1, 0, 1, 2], 2),
    "round": lambda a, b, c, v: np.round(a / 2),
    "round decimals": lambda a, b, c, v: np.round(a * 17, -1),
    "dot 3d": lambda a, b, c, v: np.dot(c, b),
    "dot vector": lambda a, b, c, v: np.dot(c, v),
    "dot 1d nd": lambda a, b, c, v: np.dot(v, b),
    "inner": lambda a, b, c, v: np.inner(c, a),
    "inner scalar": lambda a, b, c, v: np.inner(a, 3),
    "vdot": lambda a, b, c, v: np.vdot(a, a),
    "tensordot": lambda a, b, c, v: np.tensordot(c, a, axes=([1, 2], [0, 1])),
    "tensordot axes": lambda a, b, c, v: np.tensordot(c, b, axes=(2, 0)),
    "tensordot 0": lambda a, b, c, v: np.tensordot(a, v, axes=0),
    "kron": lambda a, b, c, v: np.kron(a, c),
    "cross": lambda a, b, c, v: np.cross(b, b[::-1]),
    "cross axes": lambda a, b, c, v: np.cross(a, a[::-1], axis=0),
    "trace": lambda a, b, c, v: np.trace(c, 1, 1, 2),
    "outer": lambda a, b, c, v: np.outer(a, v),
    "matmul batch": lambda a, b, c, v: c @ b,
    "matmul vector": lambda a, b, c, v: v @ b,
    "matrix_power": lambda a, b, c, v: np.linalg.matrix_power(b[:3], 5),
    "norm 1": lambda a, b, c, v: np.linalg.norm(a, 1),
    "norm -inf": lambda a, b, c, v: np.linalg.norm(a, -np.inf, keepdims=True),
    "norm axis": lambda a, b, c, v: np.linalg.norm(c, np.inf, axis=(0, 2)),
    "norm 0": lambda a, b, c, v: np.linalg.norm(a, 0, axis=1),
    "vector_norm": lambda a, b, c, v: np.linalg.vector_norm(c, ord=1, axis=(0, 2), keepdims=True),
    "einsum ij,jk": lambda a, b, c, v: np.einsum("ij,jk", a, b),
    "einsum transposed": lambda a, b, c, v: np.einsum("ij,jk->ki", a, b),
    "einsum batch": lambda a, b, c, v: np.einsum("bij,jk->bik", c, b),
    "einsum all": lambda a, b, c, v: np.einsum("bij->", c),
    "einsum two sums": lambda a, b, c, v: np.einsum("bij,ij->b", c, a),
    "einsum single sum": lambda a, b, c, v: np.einsum("bij,j->i", c, v),
    "einsum diagonal": lambda a, b, c, v: np.einsum("ii->i", b[:3]),
    "einsum trace": lambda a, b, c, v: np.einsum("ii", b[:3]),
    "einsum ellipsis": lambda a, b, c, v: np.einsum("...j,...j->...", c, a),
    "einsum three": lambda a, b, c, v: np.einsum("ij,jk,k->i", a, b, b[0]),
    "einsum lists": lambda a, b, c, v: np.einsum(c, [0, 1, 2], v, [2], [1, 0]),
    "einsum outer": lambda a, b, c, v: np.einsum("i,j->ji", v, b[0]),
    "einsum scalar": lambda a, b, c, v: np.einsum(",i->i", 2, v),
    "fold": lambda a, b, c, v: np.subtract.reduce(c, axis=(1,)),
    "fold keepdims": lambda a, b, c, v: np.subtract.reduce(a, axis=0, keepdims=True),
    "fold initial": lambda a, b, c, v: np.subtract.reduce(a, axis=1, initial=100),
    "accumulate": lambda a, b, c, v: np.subtract.accumulate(c, axis=-1),
    "reduceat": lambda a, b, c, v: np.add.reduceat(a, [0, 2, 1], axis=1),
    "outer ufunc": lambda a, b, c, v: np.maximum.outer(a, v),
    "logical": lambda a, b, c, v: np.logical_or.reduce(a, axis=0),
    "minimum at": lambda a, b, c, v: changed(np.minimum.at, a, ([0, 0, 1], [1, 1, 2]), -9),
    "divmod": lambda a, b, c, v: np.divmod(a * 7, v),
    "floor_divide": lambda a, b, c, v: a * 7 // -v,
    "mod": lambda a, b, c, v: (a * 7) % -v,
    "power": lambda a, b, c, v: a**2,
    "isclose": lambda a, b, c, v: np.isclose(a, a + 0.5, atol=1),
    "sort": lambda a, b, c, v: np.sort(c, axis=None),
    "partition": lambda a, b, c, v: np.sort(np.partition(v, 2)),
    "nansum": lambda a, b, c, v: np.nansum(np.where(a > 2, np.nan, a), axis=0),
    "nanmean": lambda a, b, c, v: np.nanmean(np.where(v == v[0], np.nan, v * 6)),
    "insert": lambda a, b, c, v: np.insert(a, [1, 2], v, axis=0),
    "unique": lambda a, b, c, v: np.unique(a, return_counts=True),
    "unique axis": lambda a, b, c, v: np.unique(np.concatenate([a, a]), axis=0),
    "choose": lambda a, b, c, v: np.choose([1, 0, 1, 1], (a, a + 1)),
    "linspace": lambda a, b, c, v: np.linspace(a[0, 0], a[0, 0] + 4, 5),
    "apply_along_axis": lambda a, b, c, v: np.apply_along_axis(np.cumsum, 1, c),
    "apply_along_axis matrix": lambda a, b, c, v: np.apply_along_axis(np.diag, -1, a),
    "block": lambda a, b, c, v: np.block([[a, a[:, :1]], [v, 1.0]]),
    "pad": lambda a, b, c, v: np.pad(a, ((1, 2), (0, 1)), mode="wrap"),
    "tri": lambda a, b, c, v: np.triu(c, -1) - np.tril(c),
    "roll": lambda a, b, c, v: np.roll(a, (1, 2), axis=(0, 1)),
    "rot90": lambda a, b, c, v: np.rot90(c, 3, axes=(1, 2)),
}


SHAPES = [(), (0,), (1,), (3,), (2, 3), (0, 3), (3, 0), (2, 1, 3)]
ONE_AXIS = [None, 0, 1, -1, -2, 3]
SEVERAL = [(0, 1), (0, -1), ()]
ALONG = {
    **{n: getattr(np, n) for n in "sum prod max min any all ptp count_nonzero nansum flip squeeze nanmax".split()},
    **{n: getattr(np, n) for n in "argmax argmin cumsum cumprod sort median".split()},
    "repeat": lambda a, axis: np.repeat(a, 2, axis=axis),
    "diff": lambda a, axis: np.diff(a, axis=axis),
    "expand_dims": np.expand_dims,
    "stack": lambda a, axis: np.stack([a, a], axis=axis),
    "concatenate": lambda a, axis: np.concatenate([a, a], axis=axis),
    "take": lambda a, axis: np.take(a, [0], axis=axis),
    "delete": lambda a, axis: np.delete(a, 0, axis=axis),
    "roll": lambda a, axis: np.roll(a, 1, axis=axis),
    "moveaxis": lambda a, axis: np.moveaxis(a, axis, 0),
    "append": lambda a, axis: np.append(a, a, axis=axis),
    "split": lambda a, axis: np.array_split(a, 2, axis=axis),
    "gradient": lambda a, axis: np.gradient(a * 2, axis=axis),
    "norm 1": lambda a, axis: np.linalg.norm(a, 1, axis=axis),
    "norm of matrices": lambda a, axis: np.linalg.norm(a, 1, axis=(0, axis)),
    "vector_norm": lambda a, axis: np.linalg.vector_norm(a, ord=np.inf, axis=axis),
    "trapezoid": lambda a, axis: np.trapezoid(a * 2, axis=axis),
    "apply_along_axis": lambda a, axis: np.apply_along_axis(np.sum, axis, a),
}  # fmt: skip
PAIRED = {
    **{n: getattr(np, n) for n in "add matmul dot inner outer kron minimum less vdot convolve".split()},
    **{n: getattr(np, n) for n in "vecdot cross array_equal isin append searchsorted".split() if hasattr(np, n)},
    **{n: getattr(np, n) for n in "union1d setdiff1d polymul polyval broadcast_arrays allclose".split()},
}  # fmt: skip
TAKES_SEVERAL = "sum prod max min any all ptp count_nonzero nansum flip squeeze nanmax".split()


def outcome(call, *operands):
    """A result, or the error as one of a kind."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*operands)
        except (ValueError, IndexError, TypeError) as error:
            return error


def integers(shape):
    return (np.arange(math.prod(shape)) * 5 % 9 - 4.0).reshape(shape)


@pytest.mark.parametrize("name", ALONG)
def test_every_axis_of_every_shape_is_numpys(name):
    """What has a result in NumPy has the same here; what is an error there is one, arrays without axes aside."""
    for shape in SHAPES:
        for axis in ONE_AXIS + SEVERAL * (name in TAKES_SEVERAL):
            x = integers(shape)
            expected = outcome(ALONG[name], x, axis)
            got = outcome(ALONG[name], sf.array(x, sf.binary64), axis)
            if isinstance(expected, Exception):
                assert isinstance(got, Exception) or not shape, (shape, axis, got, expected)
            else:
                assert not isinstance(got, Exception), (shape, axis, got)
                assert_same(got, expected)


@pytest.mark.parametrize("name", PAIRED)
def test_every_pair_of_shapes_is_numpys(name):
    for first in SHAPES:
        for second in SHAPES:
            x, y = integers(first), integers(second)[..., ::-1] if second else integers(second)
            expected = outcome(PAIRED[name], x, y)
            got = outcome(PAIRED[name], *(sf.array(v, sf.binary64) for v in (x, y)))
            if isinstance(expected, Exception):
                assert isinstance(got, Exception), (first, second, got, expected)
            else:
                assert not isinstance(got, Exception), (first, second, got)
                assert_same(got, expected)


def changed(function, a, *given):
    a = a.copy()
    function(a, *given)
    return a


def assert_same(got, expected):
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for x, y in zip(got, expected, strict=True):
            assert_same(x, y)
        return
    if isinstance(got, sf.SoftArray):
        assert got.format is sf.binary64
        got = got.to_numpy()
        assert np.asarray(expected).dtype == np.float64
    else:
        assert np.asarray(expected).dtype.kind in "bi"
    assert np.shape(got) == np.shape(expected)
    assert np.array_equal(got, expected, equal_nan=np.asarray(expected).dtype.kind == "f")


@pytest.mark.parametrize("name", CALLS)
def test_what_needs_no_rounding_is_numpys(name):
    expected = CALLS[name](A, B, C, V)
    assert_same(CALLS[name](*(sf.array(x, sf.binary64) for x in (A, B, C, V))), expected)


@pytest.mark.parametrize("name", CALLS)
def test_memory_layout_makes_no_difference(name):
    """Transposed copies, strided and reversed views of the same elements."""
    turned = [sf.array(np.repeat(x[::-1], 2, axis=-1), sf.binary64) for x in (A, B, C, V)]
    views = [x[::-1, ..., ::2] if x.ndim > 1 else x[::-2][::1] for x in turned]
    views[3] = sf.array(np.repeat(V, 2), sf.binary64)[::2]
    fortran = [x.T.copy().T for x in views]
    expected = CALLS[name](A, B, C, V)
    for given in (views, fortran):
        assert_same(CALLS[name](*given), expected)
