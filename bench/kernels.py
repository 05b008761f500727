"""Users' kernels on SoftArrays against the same kernels on float64: times, one thread."""

import time

import numba
import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal

ELEMENTS = 1_000_000
COEFFICIENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
C0, C1, C2, C3, C4, C5, C6, C7 = COEFFICIENTS


@numba.njit
def axpy(a, x, y, out):
    for i in range(x.shape[0]):
        out[i] = a * x[i] + y[i]


@numba.njit
def stencil(x, out):
    for i in range(1, x.shape[0] - 1):
        out[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]


@numba.njit
def horner(x, out):
    for i in range(x.shape[0]):
        s = C0 * x[i] + C1
        s = s * x[i] + C2
        s = s * x[i] + C3
        s = s * x[i] + C4
        s = s * x[i] + C5
        s = s * x[i] + C6
        s = s * x[i] + C7
        out[i] = s


@numba.njit
def jacobi(u, out):
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            out[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def kernels():
    """(name, kernel, arguments in float64, the goal for binary16 to nearest)."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, ELEMENTS))
    side = int(ELEMENTS**0.5)
    u = rng.standard_normal((side, side))
    yield "axpy", axpy, (2.1, x, y, np.zeros_like(x)), 1.8
    yield "3-point stencil", stencil, (x, np.zeros_like(x)), 4.0
    yield "Horner, degree 7", horner, (x, np.zeros_like(x)), 11.0
    yield "Jacobi, 2-D", jacobi, (u, np.zeros_like(u)), 3.8


def soft(arguments, fmt):
    return [sf.array(a, fmt) if isinstance(a, np.ndarray) else a for a in arguments]


def check(kernel, arguments, fmt):
    """The kernel, compiled, against itself run by Python on a corner of the arrays."""
    small = [
        a[tuple(slice(0, 12) for _ in a.shape)].copy() if hasattr(a, "shape") else a
        for a in arguments
    ]
    compiled, interpreted = soft(small, fmt), soft(small, fmt)
    kernel(*compiled)
    kernel.py_func(*interpreted)
    check_equal(compiled[-1].to_numpy(), interpreted[-1].to_numpy(), kernel.__name__)


def seconds(kernel, arguments):
    """Processor time of one call: other processes do not count."""
    start = time.thread_time()
    kernel(*arguments)
    return time.thread_time() - start


def rows(rounds=40):
    """Time ratios to the float64 kernel at 1e6 elements; bfloat16 may take 1.5 times as long, truncation 2 times."""
    numba.set_num_threads(1)
    for name, kernel, arguments, goal in kernels():
        for fmt, mode, factor in (
            ("binary16", "nearest", 1.0),
            ("bfloat16", "nearest", 1.5),
            ("bfloat16", "truncate", 2.0),
        ):
            with sf.rounding(mode):
                check(kernel, arguments, fmt)
                given = soft(arguments, fmt)
                seconds(kernel, given)
                seconds(kernel, arguments)
                taken = np.array(
                    [(seconds(kernel, given), seconds(kernel, arguments)) for _ in range(rounds)]
                )
            best = taken.min(axis=0)
            low, high = np.percentile(taken[:, 0] / taken[:, 1], [10, 90])
            row = f"{name}, {fmt} {mode}"
            yield Row(row, "float64 kernel", best[0] / best[1], low, high, factor * goal, True)
