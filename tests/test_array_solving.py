"""Linear equations, order statistics, histograms and polynomials on SoftArrays, against loops over exact scalars."""

from fractions import Fraction

import numpy as np
import pytest
from exact_scalar import Exact, assert_equal_to_exact, both
from helpers import NAMED, assert_same_bits

import softfloat as sf

FEW = [NAMED[n] for n in ("e5m2", "binary16", "binary64")]
BINARY16 = NAMED["binary16"]
BF = sf.bfloat16


def pair(fmt, shape, seed=0):
    return both(fmt, np.random.default_rng(seed).normal(size=shape))


def numbers(a):
    return a.to_numpy().tolist()


# ---------------------------------------------------------------- loops, one element after another
def eliminated(a):
    """(factors, row order, swaps) by Gaussian elimination, the first largest pivot of each column."""
    n, swaps = len(a), 0
    a, rows = [list(row) for row in a], list(range(n))
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(a[i][k]) > abs(a[best][k]):
                best = i
        swaps += best != k
        a[k], a[best] = a[best], a[k]
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(k + 1, n):
            a[i][k] = a[i][k] / a[k][k]
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - a[i][k] * a[k][j]
    return a, rows, swaps


def substituted(a, rows, b):
    n = len(a)
    x = [b[i] for i in rows]
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - a[i][k] * x[k]
    for i in reversed(range(n)):
        for k in reversed(range(i + 1, n)):
            x[i] = x[i] - a[i][k] * x[k]
        x[i] = x[i] / a[i][i]
    return x


@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_equations_are_solved_by_elimination_in_order(fmt):
    a, e = pair(fmt, (2, 5, 5))
    b, g = pair(fmt, (2, 5, 3), seed=1)
    solutions, determinants, inverses = np.linalg.solve(a, b), np.linalg.det(a), np.linalg.inv(a)
    one = Exact.of(fmt, 1)
    for i in range(2):
        factors, rows, swaps = eliminated(e[i])
        columns = [substituted(factors, rows, list(g[i, :, j])) for j in range(3)]
        assert_equal_to_exact(solutions[i], np.array(columns, object).T)
        assert_equal_to_exact(np.linalg.solve(a[i], b[i, :, 0]), np.array(columns[0], object))
        unit = [[one if k == j else Exact.of(fmt, 0) for k in range(5)] for j in range(5)]
        columns = [substituted(factors, rows, unit[j]) for j in range(5)]
        assert_equal_to_exact(inverses[i], np.array(columns, object).T)
        product = one
        for k in range(5):
            product = product * factors[k][k]
        assert_equal_to_exact(determinants[i], -product if swaps % 2 else product)


def test_stacks_broadcast_as_numpys():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(3, 1, 4, 4)), rng.normal(size=(2, 4, 2))
    a, b = sf.array(x, sf.binary64), sf.array(y, sf.binary64)
    got = np.linalg.solve(a, b)
    assert got.shape == np.linalg.solve(x, y).shape
    assert_same_bits(got[2, 1].to_numpy(), np.linalg.solve(a[2, 0], b[1]).to_numpy())
    assert np.linalg.inv(a[:0]).shape == (0, 1, 4, 4)
    assert np.linalg.det(a).shape == (3, 1)


def test_a_singular_matrix_is_an_error_and_its_determinant_zero():
    a = sf.array([[1.0, 2.0], [2.0, 4.0]], BF)
    for function in (np.linalg.inv, lambda m: np.linalg.solve(m, m[0])):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            function(a)
    assert float(np.linalg.det(a)) == 0
    zero = sf.zeros((3, 3), BF)
    assert float(np.linalg.det(zero)) == 0
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        np.linalg.cholesky(sf.array([[1.0, 2.0], [2.0, 1.0]], BF))
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        np.linalg.inv(sf.ones((2, 3), BF))


def test_sign_and_logarithm_of_the_determinant():
    a = sf.array([[0.0, 3.0], [5.0, 1.0]], BF)
    sign, logarithm = np.linalg.slogdet(a)
    assert float(sign) == -1
    terms = np.log(sf.array([5.0, 3.0], BF))
    assert_same_bits(logarithm.to_numpy(), (terms[0] + terms[1]).to_numpy())


@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_cholesky_subtracts_products_in_order(fmt):
    x = np.random.default_rng(3).normal(size=(4, 4))
    a, e = both(fmt, x @ x.T + 4 * np.eye(4))
    a[np.triu_indices(4, 1)] = np.nan if a.format.has_nan else 0  # only the lower triangle is read
    lower = [[Exact.of(fmt, 0)] * 4 for _ in range(4)]
    for j in range(4):
        for i in range(j, 4):
            s = e[i, j]
            for k in range(j):
                s = s - lower[i][k] * lower[j][k]
            lower[i][j] = s.sqrt() if i == j else s / lower[j][j]
    got = np.linalg.cholesky(a)
    assert_equal_to_exact(got, np.array(lower, object))
    assert_same_bits(np.linalg.cholesky(a.T, upper=True).to_numpy(), got.T.to_numpy())


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 3), (2, 4, 2)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_is_numpys_up_to_rounding(shape, mode):
    x = np.random.default_rng(4).normal(size=shape)
    got, expected = np.linalg.qr(sf.array(x, sf.binary64), mode), np.linalg.qr(x, mode)
    got, expected = ([got], [expected]) if mode == "r" else (got, expected)
    for g, e in zip(got, expected, strict=True):
        # Higham (2002), theorem 19.4: a modest multiple of m n u.
        assert np.abs(g.to_numpy() - e).max() <= 5 * 20 * 2.0**-53


def test_qr_of_a_small_case_step_by_step():
    a, e = both(BINARY16, [[3.0, 1.5], [4.0, 0.25]])
    zero, two = Exact.of(BINARY16, 0), Exact.of(BINARY16, 2)
    x = e[:, 0]
    size = (zero + x[0] * x[0] + x[1] * x[1]).sqrt()
    v = [x[0] + size, x[1]]
    square = zero + v[0] * v[0] + v[1] * v[1]

    def reflected(y):
        t = (zero + v[0] * y[0] + v[1] * y[1]) / square * two
        return [y[0] - v[0] * t, y[1] - v[1] * t]

    top = reflected(e[:, 1])
    expected = np.array([[-size, top[0]], [zero, top[1]]], object)
    q, r = np.linalg.qr(a)
    assert_equal_to_exact(r, expected)
    one = Exact.of(BINARY16, 1)
    columns = [reflected([one, zero]), reflected([zero, one])]
    assert_equal_to_exact(q, np.array(columns, object).T)


def test_products_of_several_matrices_and_condition_numbers():
    a, b = (sf.array(np.random.default_rng(i).normal(size=(3, 3)), BF) for i in (5, 6))
    assert_same_bits(np.linalg.multi_dot([a, b, a]).to_numpy(), ((a @ b) @ a).to_numpy())
    got = np.linalg.cond(a, 1)
    expected = np.linalg.norm(a, 1) * np.linalg.norm(np.linalg.inv(a), 1)
    assert_same_bits(got.to_numpy(), expected.to_numpy())
    with pytest.raises(TypeError, match="singular values"):
        np.linalg.cond(a)


# ---------------------------------------------------------------- order statistics
def quantile(fmt, row, q, method):
    """One quantile of a list of exact scalars."""
    ordered = sorted(row, key=float)
    place = Fraction(q) * (len(row) - 1)
    below = place.numerator // place.denominator
    part = place - below
    if method == "nearest":
        return ordered[round(place)]
    if method == "midpoint" and part:
        part = Fraction(1, 2)
    if not part or method == "lower":
        return ordered[below]
    low, high = ordered[below], ordered[below + 1]
    if method == "higher":
        return high
    step = high - low
    return low + step * part if part < Fraction(1, 2) else high - step * (1 - part)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_quantiles_take_few_steps_between_two_elements(fmt, method):
    a, e = pair(fmt, (3, 6), seed=7)
    qs = [0, 0.1, 0.25, 0.5, 0.77, 1]
    got = np.quantile(a, qs, axis=1, method=method)
    expected = [[quantile(fmt, e[i], q, method) for i in range(3)] for q in qs]
    assert_equal_to_exact(got, np.array(expected, object))
    assert_equal_to_exact(
        np.quantile(a, 0.77, method=method), quantile(fmt, e.ravel(), 0.77, method)
    )
    got = np.percentile(a[0], 30, method=method)
    assert_equal_to_exact(got, quantile(fmt, e[0], Fraction(3, 10), method))


def test_quantiles_and_nan():
    nan = float("nan")
    a = sf.array([[1.0, nan, 3.0, 2.0], [nan] * 4, [4.0, 5.0, 6.0, 7.0]], BF)
    assert_same_bits(np.quantile(a, 0.5, axis=1).to_numpy(), np.float32([nan, nan, 5.5]))
    for got in (
        np.nanquantile(a, 0.5, axis=1),
        np.nanmedian(a, axis=1),
        np.nanpercentile(a, 50, axis=1),
    ):
        assert_same_bits(got.to_numpy(), np.float32([2, nan, 5.5]))
    assert np.nanquantile(a, [0.5, 1], axis=1, keepdims=True).shape == (2, 3, 1)
    assert np.quantile(a[:0], 0.5, axis=1).shape == (0,)
    with pytest.raises(ValueError, match="no elements"):
        np.quantile(a[:0], 0.5)
    with pytest.raises(ValueError, match="must be in 0..100"):
        np.percentile(a, 101)
    with pytest.raises(TypeError, match="there are linear"):
        np.quantile(a, 0.5, method="weibull")


@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_covariances_add_products_in_order(fmt):
    a, e = pair(fmt, (3, 4), seed=8)
    zero = Exact.of(fmt, 0)
    distances = []
    for row in e:
        total = zero
        for v in row:
            total = total + v
        distances.append([v - total / 4 for v in row])
    expected = np.empty((3, 3), object)
    for i in range(3):
        for j in range(3):
            total = zero
            for u, v in zip(distances[i], distances[j], strict=True):
                total = total + u * v
            expected[i, j] = total / 3
    assert_equal_to_exact(np.cov(a), expected)
    assert_equal_to_exact(np.cov(a[0], a[1]), expected[:2, :2])
    assert_equal_to_exact(np.cov(a.T, rowvar=False), expected)
    sizes = [expected[i, i].sqrt() for i in range(3)]
    ratio = expected[0, 1] / sizes[0] / sizes[1]
    clipped = Exact.of(fmt, min(max(float(ratio), -1.0), 1.0))
    assert_equal_to_exact(np.corrcoef(a)[0, 1], clipped)


# ---------------------------------------------------------------- histograms
def test_histograms_count_between_rounded_edges():
    x = np.random.default_rng(9).normal(size=200)
    a = sf.array(x, BF)
    counts, edges = np.histogram(a, 7)
    assert_same_bits(
        edges.to_numpy(), sf.linspace(float(a.min()), float(a.max()), 8, fmt=BF).to_numpy()
    )
    values, bounds = a.to_numpy(), edges.to_numpy()
    for i in range(7):
        last = values <= bounds[i + 1] if i == 6 else values < bounds[i + 1]
        assert counts[i] == ((values >= bounds[i]) & last).sum()
    assert counts.sum() == 200
    assert (np.histogram(a, edges)[0] == counts).all()
    density, _ = np.histogram(a, 7, density=True)
    expected = sf.array(counts, BF) / sf.sum(sf.array(counts, BF), BF) / np.diff(edges)
    assert_same_bits(density.to_numpy(), expected.to_numpy())
    with pytest.raises(TypeError, match="number of bins"):
        np.histogram(a, "auto")
    assert (np.histogram(sf.full(3, 2.0, BF), 4)[0] == [0, 0, 3, 0]).all()


def test_weights_are_added_in_order():
    w = sf.array([0.1] * 40, BF)
    total = BF(0.0)
    for v in w:
        total = total + v
    sums = np.bincount(np.zeros(40, int), weights=w, minlength=3)
    assert_same_bits(sums.to_numpy(), np.float32([float(total), 0, 0]))
    got, _ = np.histogram(sf.zeros(40, BF), 2, (-1, 1), weights=w)
    assert_same_bits(got.to_numpy(), np.float32([0, float(total)]))


# ---------------------------------------------------------------- polynomials
@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_polynomials_step_by_step(fmt):
    (p, e), (q, g) = pair(fmt, 5, seed=10), pair(fmt, 3, seed=11)
    zero = Exact.of(fmt, 0)
    padded = [zero, zero, *g]
    assert_equal_to_exact(
        np.polyadd(p, q), np.array([a + b for a, b in zip(e, padded, strict=True)], object)
    )
    assert_equal_to_exact(
        np.polysub(p, q), np.array([a - b for a, b in zip(e, padded, strict=True)], object)
    )
    assert_same_bits(np.polymul(p, q).to_numpy(), np.convolve(p, q).to_numpy())
    assert_equal_to_exact(np.polyder(p), np.array([c * n for c, n in zip(e, (4, 3, 2, 1))], object))  # noqa: B905
    integral = [c / n for c, n in zip(e, (5, 4, 3, 2, 1), strict=True)]
    assert_equal_to_exact(np.polyint(p), np.array([*integral, zero], object))
    rest, quotient = list(e), []
    for k in range(3):
        quotient.append(rest[k] / g[0])
        for j in range(3):
            rest[k + j] = rest[k + j] - quotient[k] * g[j]
    got, left = np.polydiv(p, q)
    assert_equal_to_exact(got, np.array(quotient, object))
    assert_equal_to_exact(left, np.array(rest[3:], object))
    powers = np.empty((3, 4), object)
    for i in range(3):
        power = Exact.of(fmt, 1)
        for j in range(4):
            powers[i, j] = power
            power = power * g[i]
    assert_equal_to_exact(np.vander(q, 4, increasing=True), powers)
    assert_equal_to_exact(np.vander(q, 4), powers[:, ::-1])


def test_a_polynomial_from_its_zeros():
    assert numbers(np.poly(sf.array([1.0, 2.0, -3.0], BF))) == [1, 0, -7, 6]
    with pytest.raises(TypeError, match=r"np\.poly"):
        np.poly(sf.eye(2, BF))


def test_functions_along_axes_and_parts_of_real_arrays():
    a = sf.array(np.arange(6).reshape(2, 3), BF)
    assert numbers(np.apply_over_axes(np.sum, a, [0, 1])) == [[15]]
    assert numbers(a.imag) == numbers(np.imag(a)) == [[0] * 3] * 2
    assert np.real_if_close(a) is a
