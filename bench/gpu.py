"""On a CUDA device: rounding against a copy on the device, products in multiply-adds a second and against cuBLAS.

Times are those of the device, between two events around calls that follow each other: what Python does for a call goes
on beside the kernel before it, if that is long enough.
"""

import importlib
import importlib.metadata

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal

SIZE = 1 << 28
CHECKED = 1 << 22  # results compared with the CPU's at each end
SIDE = 4096
CALLS, ROUNDS = 10, 9
STOCHASTIC = {"rounding": "stochastic", "seed": 1}
ROUNDINGS = [
    ("bfloat16", {}, 0.95),
    ("binary16", {}, 0.95),
    ("float8_e4m3fn", {}, 0.95),
    ("bfloat16", STOCHASTIC, 0.9),
    ("binary16", STOCHASTIC, 0.9),
]
# T multiply-adds a second, on an H200; the first two have goals.
PRODUCTS = [
    ("bfloat16", {}, 3.0),
    ("binary16", {}, 1.5),
    ("bfloat16", {"rounding": "toward_zero"}, None),
    ("bfloat16", STOCHASTIC, None),
]


def rows():
    from softfloat.cuda.driver import SIMULATED

    if SIMULATED or not sf.cuda.is_available():
        print("gpu: no CUDA device here")
        return
    from numba import cuda

    print(_versions(cuda))
    yield from _roundings(cuda)
    yield from _products(cuda)


def _versions(cuda):
    packages = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numba", "numba-cuda", "numpy")
    )
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else device.name
    capability = ".".join(map(str, device.compute_capability))
    runtime = ".".join(map(str, cuda.runtime.get_version()))
    return f"gpu: {name}, compute capability {capability}, CUDA {runtime}, {packages}"


def _seconds(cuda, call):
    """Of one call on the device, among several that follow each other on the default stream."""
    start, stop = cuda.event(), cuda.event()
    start.record()
    for _ in range(CALLS):
        call()
    stop.record()
    stop.synchronize()
    return cuda.event_elapsed_time(start, stop) / 1000 / CALLS


def _compared(cuda, reference, call):
    """(ratio of the fastest rounds, 10th and 90th percentile over rounds) of reference time to the call's."""
    for run in (reference, call):
        run()
    cuda.synchronize()
    taken = np.array([[_seconds(cuda, run) for run in (reference, call)] for _ in range(ROUNDS)])
    best = taken.min(axis=0)
    low, high = np.percentile(taken[:, 0] / taken[:, 1], [10, 90])
    return best[0] / best[1], low, high


def _roundings(cuda):
    x = np.random.default_rng(0).standard_normal(SIZE, np.float32)
    given, out = cuda.to_device(x), cuda.device_array(SIZE, np.float32)

    def copy():
        out.copy_to_device(given)

    for fmt, options, goal in ROUNDINGS:

        def call(fmt=fmt, options=options):
            sf.quantize(given, fmt, out=out, **options)

        call()
        first, last = (out[part].copy_to_host() for part in (slice(CHECKED), slice(-CHECKED, None)))
        check_equal(first, sf.quantize(x[:CHECKED], fmt, **options), fmt)
        more = {**options, "offset": SIZE - CHECKED} if options else {}
        check_equal(last, sf.quantize(x[-CHECKED:], fmt, **more), fmt)
        name = f"quantize {fmt}{', stochastic' if options else ''}"
        yield Row(name, "copy on the device", *_compared(cuda, copy, call), goal)


def _products(cuda):
    rng = np.random.default_rng(0)
    for fmt, options, goal in PRODUCTS:
        a, b = (sf.quantize(rng.standard_normal((SIDE, SIDE), np.float32), fmt) for _ in "ab")
        left, right = cuda.to_device(a), cuda.to_device(b)
        out = cuda.device_array((SIDE, SIDE), np.float32)

        def call(left=left, right=right, out=out, fmt=fmt, options=options):
            sf.matmul(left, right, fmt, out=out, **options)

        call()
        check_equal(out[:64].copy_to_host(), sf.matmul(a[:64], b, fmt, **options), fmt)
        rates = SIDE**3 / np.array([_seconds(cuda, call) for _ in range(ROUNDS)]) / 1e12
        low, high = np.percentile(rates, [10, 90])
        name = f"matmul {SIDE}, {fmt}{', ' + options['rounding'] if options else ''}"
        yield Row(name, "T multiply-adds/s", rates.max(), low, high, goal)
        of_cublas = _cublas(left, right)
        if of_cublas is not None:
            yield Row(name, "cuBLAS sgemm", *_compared(cuda, of_cublas, call), None)


def _cublas(left, right):
    """A call of sgemm on the same operands, by CuPy or PyTorch; None where neither is there."""
    for name in ("cupy", "torch"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if name == "torch" and not library.cuda.is_available():
            continue
        make = library.asarray if name == "cupy" else _as_tensor(library)
        a, b = make(left), make(right)
        return lambda: library.matmul(a, b)  # noqa: B023
    return None


def _as_tensor(torch):
    return lambda x: torch.as_tensor(x, device="cuda")
