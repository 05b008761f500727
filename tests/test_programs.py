"""Whole programs, unmodified, on SoftArrays: bit for bit what they give on the oracle's scalars."""

import numpy as np
import oracle
import programs
import pytest
from exact_scalar import assert_equal_to_exact, both
from helpers import NAMED, assert_same_bits

import softfloat as sf

FORMATS = [NAMED[n] for n in ("binary16", "bfloat16", "e5m2", "binary32")] + [oracle.Format(6, 9)]


@pytest.fixture(params=FORMATS, ids=str)
def fmt(request):
    return request.param


def inputs(fmt, *arrays):
    """The same inputs, for SoftArrays and for exact scalars."""
    pairs = [both(fmt, x) for x in arrays]
    return [p[0] for p in pairs], [p[1] for p in pairs]


def spd(n, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, n))
    return B @ B.T / n + np.eye(n)


def test_conjugate_gradients(fmt):
    b = np.random.default_rng(1).normal(size=6)
    soft, exact = inputs(fmt, spd(6), b, np.zeros(6))
    assert_equal_to_exact(
        programs.conjugate_gradients(*soft, 4), programs.conjugate_gradients(*exact, 4)
    )


def test_conjugate_gradients_converge():
    A, b = spd(40), np.random.default_rng(1).normal(size=40)
    x = programs.conjugate_gradients(*(sf.array(v, sf.binary32) for v in (A, b, np.zeros(40))), 40)
    assert x.format is sf.binary32
    residual = np.linalg.norm(b - A @ x.to_numpy(np.float64)) / np.linalg.norm(b)
    assert residual < 40 * 2.0**-24 * np.linalg.cond(A)


def test_lu_with_partial_pivoting(fmt):
    rng = np.random.default_rng(2)
    (A, b), (E, c) = inputs(fmt, rng.normal(size=(6, 6)), rng.normal(size=6))
    factors, exact = programs.lu(A), programs.lu(E)
    assert (factors[1] == exact[1]).all()
    assert_equal_to_exact(factors[0], exact[0])
    assert_equal_to_exact(programs.solve(factors, b), programs.solve(exact, c))


def three_precisions(A, b, low, work, high, steps=10):
    casts = [lambda x, f=f: x.astype(f) for f in (low, work, high)]
    return programs.refine(sf.array(A, work), sf.array(b, work), *casts, steps)


def system(n, condition, seed):
    """A matrix of this condition number with a known solution, both in binary32, b exact in binary64."""
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(n, n)))
    V, _ = np.linalg.qr(rng.normal(size=(n, n)))
    A = (U * np.geomspace(1, 1 / condition, n)) @ V
    return np.float32(A).astype(float), np.float32(rng.normal(size=n)).astype(float)


@pytest.mark.parametrize("condition", [10, 100])
def test_refinement_in_three_precisions_converges_as_published(condition):
    """Carson and Higham (2018): while condition * u_low < 1, errors shrink to about u, whatever the condition."""
    A, b = system(24, condition, 5)
    x = np.linalg.solve(A.astype(np.longdouble).astype(float), np.float32(b).astype(float))
    iterates = three_precisions(A, b, sf.binary16, sf.binary32, sf.binary64)
    errors = [np.max(np.abs(v.to_numpy(np.float64) - x)) / np.max(np.abs(x)) for v in iterates]
    u_low, u = 2.0**-11, 2.0**-24
    assert errors[0] > 100 * u  # half precision alone
    assert errors[-1] <= 2 * u
    rate = 24 * condition * u_low  # the published factor, up to a constant of the order n
    for before, after in zip(errors, errors[1:], strict=False):
        assert after <= max(rate * before, 2 * u)


def test_refinement_diverges_where_the_factors_are_too_coarse():
    A, b = system(24, 1e5, 5)
    x = np.linalg.solve(A, b)
    last = three_precisions(A, b, sf.float8_e5m2, sf.binary32, sf.binary64)[-1]
    error = np.max(np.abs(last.to_numpy(np.float64) - x)) / np.max(np.abs(x))
    assert not error < 0.5


def fft_inputs(n, seed=3):
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(n // 2) / n
    return rng.normal(size=n), rng.normal(size=n), np.cos(angles), np.sin(angles)


def test_fft(fmt):
    soft, exact = inputs(fmt, *fft_inputs(16))
    for got, expected in zip(programs.fft(*soft), programs.fft(*exact), strict=True):
        assert_equal_to_exact(got, expected)


def test_fft_is_numpys_up_to_its_error_bound():
    given = fft_inputs(256)
    re, im = programs.fft(*(sf.array(v, sf.binary32) for v in given))
    expected = np.fft.fft(given[0] + 1j * given[1])
    error = np.linalg.norm(re.to_numpy() + 1j * im.to_numpy() - expected)
    # Higham (2002), theorem 24.2: eta is about 5 u a stage, inputs rounded too.
    assert error <= 10 * 8 * 2.0**-24 * np.linalg.norm(expected)


def test_runge_kutta_on_lorenz(fmt):
    soft, exact = inputs(fmt, [1.0, 2.0, 20.0])
    assert_equal_to_exact(programs.lorenz(*soft, 1 / 64, 5), programs.lorenz(*exact, 1 / 64, 5))


def test_in_binary64_the_trajectory_is_numpys_own():
    start = np.array([1.0, 2.0, 20.0])
    got = programs.lorenz(sf.array(start, sf.binary64), 0.01, 200)
    assert_same_bits(got.to_numpy(), programs.lorenz(start, 0.01, 200))


def test_in_binary32_the_trajectory_is_numpys_own():
    start = np.array([1.0, 2.0, 20.0], np.float32)
    got = programs.lorenz(sf.array(start, sf.binary32), 0.01, 200)
    assert_same_bits(got.to_numpy(), programs.lorenz(start, 0.01, 200))


def test_in_binary16_the_trajectory_is_numpys_own():
    start = np.array([1.0, 2.0, 20.0], np.float16)
    got = programs.lorenz(sf.array(start, sf.binary16), 0.01, 200)
    assert_same_bits(got.to_numpy(), programs.lorenz(start, 0.01, 200))


def test_k_means(fmt):
    rng = np.random.default_rng(4)
    points = (
        rng.normal(size=(8, 2)) * 0.3 + rng.integers(0, 2, (8, 1)) * 2
    )  # counts are values of e5m2
    soft, exact = inputs(fmt, points, points[[0, 3, 5]])
    (centres, labels), (expected, exact_labels) = (
        programs.k_means(*soft, 3),
        programs.k_means(*exact, 3),
    )
    assert (labels == exact_labels).all()
    assert_equal_to_exact(centres, expected)


def test_kalman_filter(fmt):
    rng = np.random.default_rng(6)
    h = 0.25
    given = (
        [0.0, 1.0],
        np.eye(2),
        [[1, h], [0, 1]],
        [[1.0, 0.0]],
        np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]]) * 0.1,
        [[0.5]],
        (np.arange(1, 9) * h + rng.normal(size=8) * 0.5)[:, None],
    )
    soft, exact = inputs(fmt, *given)
    assert_equal_to_exact(programs.kalman(*soft), programs.kalman(*exact))


def test_programs_round_in_the_mode_of_the_block_and_repeat():
    given = [sf.array(v, sf.bfloat16) for v in (spd(8), np.ones(8), np.zeros(8))]
    nearest = programs.conjugate_gradients(*given, 4)

    def stochastic(seed):
        with sf.rounding("stochastic", seed=seed):
            return programs.conjugate_gradients(*given, 4)

    assert_same_bits(stochastic(1).to_numpy(), stochastic(1).to_numpy())
    assert (stochastic(1).to_numpy() != stochastic(2).to_numpy()).any()
    assert (stochastic(1).to_numpy() != nearest.to_numpy()).any()
