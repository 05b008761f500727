"""On a CUDA device: rounding against a copy on the device, products in multiply-adds a second and against cuBLAS."""

import time

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal, compare

SIZE = 1 << 27
SIDE = 4096
STOCHASTIC = {"rounding": "stochastic", "seed": 1}
ROUNDINGS = [
    ("bfloat16", {}, 0.95),
    ("binary16", {}, 0.95),
    ("float8_e4m3fn", {}, 0.95),
    ("bfloat16", STOCHASTIC, 0.9),
    ("binary16", STOCHASTIC, 0.9),
]
PRODUCTS = [("bfloat16", 3.0), ("binary16", 1.5)]  # T multiply-adds a second, on an H200


def rows():
    if not sf.cuda.is_available():
        print("gpu: no CUDA device here")
        return
    from numba import cuda

    yield from _roundings(cuda)
    yield from _products(cuda)


def _waiting(cuda, call):
    def run():
        call()
        cuda.synchronize()

    return run


def _roundings(cuda):
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    given, out = cuda.to_device(x), cuda.device_array(SIZE, np.float32)
    copy = _waiting(cuda, lambda: out.copy_to_device(given))
    for fmt, options, goal in ROUNDINGS:
        call = _waiting(cuda, lambda: sf.quantize(given, fmt, out=out, **options))  # noqa: B023
        call()
        check_equal(out.copy_to_host(), sf.quantize(x, fmt, **options), fmt)
        name = f"quantize {fmt}{', stochastic' if options else ''}"
        yield Row(name, "copy on the device", *compare(copy, call, SIZE), goal)


def _products(cuda):
    rng = np.random.default_rng(0)
    for fmt, goal in PRODUCTS:
        a, b = (
            sf.quantize(rng.standard_normal((SIDE, SIDE)).astype(np.float32), fmt) for _ in "ab"
        )
        left, right = cuda.to_device(a), cuda.to_device(b)
        out = cuda.device_array((SIDE, SIDE), np.float32)
        call = _waiting(cuda, lambda: sf.matmul(left, right, fmt, out=out))  # noqa: B023
        call()
        check_equal(out.copy_to_host()[:64], sf.matmul(a[:64], b, fmt), fmt)
        taken = []
        for _ in range(7):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        rates = SIDE**3 / np.array(taken) / 1e12
        low, high = np.percentile(rates, [10, 90])
        yield Row(f"matmul {SIDE}, {fmt}", "T multiply-adds/s", rates.max(), low, high, goal)
        try:
            import cupy
        except ImportError:
            continue
        of_cublas = _waiting(cuda, lambda: cupy.matmul(cupy.asarray(left), cupy.asarray(right)))  # noqa: B023
        yield Row(f"matmul {SIDE}, {fmt}", "cuBLAS sgemm", *compare(of_cublas, call, SIDE), None)
