"""Sums and inner products by error-free transformations against the same algorithms on the processor's own numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import softfloat as sf
from softfloat import analysis

TYPES = {"binary32": np.float32, "binary64": np.float64}


def product_error(a, b, h, kind):
    """a b - h for the rounded product h: the error, which the format holds exactly."""
    return kind(float(Fraction(float(a)) * Fraction(float(b)) - Fraction(float(h))))


def two_sum(a, b):
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


def klein(x, kind):
    s = first = second = kind(0)
    for term in x:
        t = s + term
        c = (s - t) + term if abs(s) >= abs(term) else (term - t) + s
        u = first + c
        d = (first - u) + c if abs(first) >= abs(c) else (c - u) + first
        s, first, second = t, u, second + d
    return s + (first + second)


def priest(x, kind):
    x = sorted(x, key=abs, reverse=True)
    s, c = x[0], kind(0)
    for term in x[1:]:
        y = c + term
        u = term - (y - c)
        t = y + s
        v = y - (t - s)
        z = u + v
        s, previous = t + z, t
        c = z - (s - previous)
    return s


def sum_k(x, kind, folds=2):
    p = list(x)
    for _ in range(folds):
        for i in range(1, len(p)):
            p[i], p[i - 1] = two_sum(p[i], p[i - 1])
    total = kind(0)
    for term in p:
        total = total + term
    return total


def acc_sum(x, kind):
    u, p = np.finfo(kind).eps / 2, list(x)
    largest = max(map(abs, p))
    m = kind(2.0 ** math.ceil(math.log2(len(p) + 2)))
    sigma, t = m * kind(2.0 ** math.ceil(math.log2(largest))), kind(0)
    while True:
        q = [(sigma + term) - sigma for term in p]
        p = [term - part for term, part in zip(p, q, strict=True)]
        tau = sum(q, kind(0))
        before, t = t, t + tau
        if abs(t) >= m * m * kind(u) * sigma or sigma <= np.finfo(kind).tiny:
            return t + ((tau - (t - before)) + sum(p, kind(0)))
        sigma = sigma * (m * kind(u))


def dot2(x, y, kind):
    p = s = kind(0)
    for a, b in zip(x, y, strict=True):
        h = a * b
        r = product_error(a, b, h, kind)
        p, q = two_sum(p, h)
        s = s + (q + r)
    return p + s


def dot3(x, y, kind):
    parts, sums, p = [], [], kind(0)
    for a, b in zip(x, y, strict=True):
        h = a * b
        parts.append(product_error(a, b, h, kind))
        p, q = two_sum(p, h)
        sums.append(q)
    return sum_k([*parts, *sums, p], kind, folds=1)


SUMS = {"klein": klein, "priest": priest, "sumk": sum_k, "accsum": acc_sum}


def hard_terms(fmt, n, seed):
    """Rows of different condition numbers, of both signs."""
    targets = (10.0, 1e6, 1e12, 1e18)
    return np.stack(
        [analysis.ill_conditioned_sum(n, c, fmt, seed=[seed, i]) for i, c in enumerate(targets)]
    )


@pytest.mark.parametrize("fmt", TYPES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_those_of_the_algorithm(name, fmt):
    for n, seed in ((6, 1), (41, 2), (300, 3)):
        x = hard_terms(fmt, n, seed)
        got = analysis.sum_by(name, x, fmt)
        want = np.array([SUMS[name](row, TYPES[fmt]) for row in x.astype(TYPES[fmt])])
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes(), n


@pytest.mark.parametrize("fmt", TYPES)
def test_inner_products_are_those_of_the_algorithm(fmt):
    for n, seed in ((6, 1), (41, 2)):
        pairs = [
            analysis.ill_conditioned_dot(n, c, fmt, seed=[seed, i])
            for i, c in enumerate((10.0, 1e9, 1e15))
        ]
        x, y = (np.stack(part).astype(TYPES[fmt]) for part in zip(*pairs, strict=True))
        for name, algorithm in (("dot2", dot2), ("dot3", dot3)):
            got = analysis.dot_by(name, x, y, fmt)
            want = [algorithm(u, v, TYPES[fmt]) for u, v in zip(x, y, strict=True)]
            assert got.tobytes() == np.array(want, got.dtype).tobytes(), (name, n)


@pytest.mark.parametrize("fmt", ["bfloat16", "binary16", "e6m9"])
def test_accurate_sums_in_narrow_formats(fmt):
    """Faithful, and within 2 u: the theorems of their authors, where their conditions hold."""
    fmt = sf.as_format(fmt)
    rng = np.random.default_rng(3)
    n = (1 << fmt.precision // 2) - 2
    x = sf.quantize(rng.standard_normal((50, n)), fmt)
    exact = [sum(map(Fraction, row), Fraction(0)) for row in x.astype(float).tolist()]
    below, above = (
        sf.quantize(exact, fmt, rounding=f"toward_{way}") for way in ("negative", "positive")
    )
    got = analysis.sum_by("accsum", x, fmt)
    assert np.all((got == below) | (got == above))
    assert np.all(
        analysis.relative_error(analysis.sum_by("priest", x, fmt), exact) <= 2 * fmt.unit_roundoff
    )


def test_modes_shapes_soft_arrays_and_errors():
    x = sf.quantize(np.random.default_rng(1).random((2, 3, 20)), "bfloat16")
    for name in (*SUMS, "recursive", "sorted", "exact"):
        for rounding in sf.Rounding:
            if name == "accsum":
                continue
            got = analysis.sum_by(name, x, "bfloat16", rounding=rounding, seed=4)
            again = analysis.sum_by(name, x, "bfloat16", rounding=rounding, seed=4)
            assert got.shape == (2, 3) and got.tobytes() == again.tobytes()
            assert np.array_equal(got, sf.quantize(got, "bfloat16"))
    soft = sf.array(x, "bfloat16")
    total = analysis.sum_by("klein", soft, "bfloat16")
    assert isinstance(total, sf.SoftArray)
    assert np.array_equal(total.to_numpy(), analysis.sum_by("klein", x, "bfloat16"))
    assert isinstance(analysis.dot_by("dot2", soft, soft, "bfloat16"), sf.SoftArray)
    assert analysis.sum_by("sumk", np.zeros((2, 0)), "binary32").tolist() == [0.0, 0.0]
    assert math.isinf(analysis.sum_by("accsum", [math.inf, 1.0], "binary32"))
    with pytest.raises(ValueError, match="accsum in bfloat16 takes at most 14 terms"):
        analysis.sum_by("accsum", x, "bfloat16")
    with pytest.raises(ValueError, match="algorithm must be one of"):
        analysis.sum_by("gauss", x, "bfloat16")
    with pytest.raises(ValueError, match="arrays of one shape"):
        analysis.dot_by("dot2", x, x[0], "bfloat16")
    with pytest.raises(TypeError, match="no float64 holds"):
        analysis.sum_by("klein", ["0.1"], "binary32")
