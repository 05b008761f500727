"""On a GPU: pytest -m gpu. The same bits as on the CPU, on any stream, in the arrays of every library."""

import numpy as np
import pytest
from cuda_compile import SKIP

import softfloat as sf

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(SKIP, reason="numba-cuda is not installed")]
CHUNK = 1 << 26
GROUPS = [
    "quantize", "comparisons", "arithmetic", "codes", "reductions", "products", "any_products", "soft_arrays",
    "soft_kernels", "refusals", "engines", "scaled_engines", "starts", "orders", "tiles", "layouts",
    "everything",
]  # fmt: skip
STOCHASTIC = {"rounding": "stochastic", "seed": 7}


@pytest.fixture(autouse=True)
def device():
    if not sf.cuda.is_available():
        pytest.fail("pytest -m gpu needs a CUDA device")


def all_float32(chunk):
    """Part of the 2**32 numbers of float32, in the order of their bits."""
    first = chunk * CHUNK
    return np.arange(first, first + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)


def assert_identical(got, wanted, *what):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    kind = f"u{got.dtype.itemsize}"
    wrong = np.count_nonzero(got.view(kind) != wanted.view(kind))
    assert wrong == 0, (*what, wrong)


@pytest.mark.parametrize("options", [{}, STOCHASTIC], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "tf32"])
def test_all_float32_numbers_are_rounded_as_on_the_cpu(fmt, options):
    from numba import cuda

    for chunk in range((1 << 32) // CHUNK):
        x = all_float32(chunk)
        more = {**options, "offset": chunk * CHUNK} if options else {}
        got = sf.quantize(cuda.to_device(x), fmt, **more).copy_to_host()
        assert_identical(got, sf.quantize(x, fmt, **more), fmt, chunk)


@pytest.mark.parametrize("group", GROUPS)
def test_functions_have_the_bits_of_the_cpu(group):
    import simulated_cuda

    getattr(simulated_cuda, group)()


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "fma", "sqrt"])
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "binary32", "binary64"])
def test_random_operands_by_the_million(name, fmt):
    from numba import cuda

    rng = np.random.default_rng(5)
    count = {"sqrt": 1, "fma": 3}.get(name, 2)
    for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64)):
        top = np.iinfo(bits).max
        x = [rng.integers(0, top, 1 << 20, bits, endpoint=True).view(dtype) for _ in range(count)]
        got = getattr(sf, name)(*map(cuda.to_device, x), fmt).copy_to_host()
        assert_identical(got, getattr(sf, name)(*x, fmt), name, fmt)


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 65, 7), (256, 192, 300), (130, 70, 1000)])
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-10])
def test_products_have_the_bits_of_the_cpu(shape, fmt, scale):
    from numba import cuda

    m, n, k = shape
    rng = np.random.default_rng(2)
    a = sf.quantize((rng.standard_normal((m, k)) * scale).astype(np.float32), fmt)
    b = sf.quantize((rng.standard_normal((k, n)) * scale).astype(np.float32), fmt)
    got = sf.matmul(cuda.to_device(a), cuda.to_device(b), fmt).copy_to_host()
    assert_identical(got, sf.matmul(a, b, fmt), shape, fmt)


MODES = [{}, {"rounding": "toward_zero"}, {"rounding": "to_odd"}, {**STOCHASTIC, "offset": 1920}]


@pytest.mark.parametrize("options", MODES, ids=lambda o: o.get("rounding", "nearest"))
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "float8_e5m2"])
def test_products_in_every_mode_begin_with_c(fmt, options):
    from numba import cuda

    rng = np.random.default_rng(2)
    shapes = (130, 300), (300, 192), (130, 192)
    a, b, c = (sf.quantize(rng.standard_normal(s, np.float32), fmt) for s in shapes)
    there = [cuda.to_device(x) for x in (a, b, c)]
    got = sf.matmul(*there[:2], fmt, c=there[2], **options).copy_to_host()
    assert_identical(got, sf.matmul(a, b, fmt, c=c, **options), fmt)


@pytest.mark.parametrize("name", sf.engines.presets())
def test_engines_have_the_bits_of_the_cpu(name):
    from numba import cuda
    from test_cuda_bodies import operands_of

    engine = sf.engines.presets()[name]
    a, b, c, scales = operands_of(engine, (37, 130, 29), np.random.default_rng(0))
    wanted = sf.matmul(a, b, engine.acc, engine=engine, c=c, **scales)
    there = {k: cuda.to_device(x) for k, x in {"c": c, **scales}.items()}
    left, right = cuda.to_device(a), cuda.to_device(b)
    got = sf.matmul(left, right, engine.acc, engine=engine, **there).copy_to_host()
    assert_identical(got, wanted, name)


@pytest.mark.parametrize("order", ["pairwise", "lanes", "blocked", "kahan"])
def test_one_long_sum_in_any_order(order):
    from numba import cuda

    x = np.random.default_rng(1).standard_normal((1 << 20) + 77, np.float32)
    more = {"order": order, **({"block": 1000} if order == "blocked" else {})}
    for options in ({}, STOCHASTIC):
        got = sf.sum(cuda.to_device(x), "bfloat16", accumulator="binary32", **more, **options)
        wanted = sf.sum(x, "bfloat16", accumulator="binary32", **more, **options)
        assert_identical(got.copy_to_host(), wanted, order)


def test_work_goes_to_the_stream_of_the_array():
    from numba import cuda

    stream = cuda.stream()
    x = np.arange(1 << 24, dtype=np.float32)
    given = cuda.to_device(np.zeros_like(x), stream=stream)
    given.copy_to_device(x, stream=stream)
    result = sf.quantize(given, "bfloat16")
    got = result.copy_to_host(stream=stream)
    stream.synchronize()
    assert_identical(got, sf.quantize(x, "bfloat16"))


def test_cupy_arrays_come_back_as_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    with cupy.cuda.Stream(non_blocking=True):
        y = cupy.asarray(x)
        got = sf.add(y.T, y.T * 2, "bfloat16")
        product = sf.matmul(y, y.T, "bfloat16")
        assert isinstance(got, cupy.ndarray) and isinstance(product, cupy.ndarray)
        found = cupy.asnumpy(got), cupy.asnumpy(product)
    assert_identical(found[0], sf.add(x.T, x.T * 2, "bfloat16"))
    assert_identical(found[1], sf.matmul(x, x.T, "bfloat16"))


def test_torch_tensors_come_back_as_torch_tensors():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    with torch.cuda.stream(torch.cuda.Stream()):
        y = torch.asarray(x, device="cuda")
        got = sf.quantize(y, "float8_e4m3fn", **STOCHASTIC)
        short = sf.quantize(y.to(torch.bfloat16), "float8_e4m3fn")
        codes = sf.encode(y, "float8_e4m3fn")
        assert got.is_cuda and got.dtype == torch.float32 and codes.dtype == torch.uint8
        found = got.cpu().numpy(), short.cpu().numpy(), codes.cpu().numpy()
        wide = y.to(torch.bfloat16).float().cpu().numpy()
    assert_identical(found[0], sf.quantize(x, "float8_e4m3fn", **STOCHASTIC))
    assert_identical(found[1], sf.quantize(wide, "float8_e4m3fn"))
    assert_identical(found[2], sf.encode(x, "float8_e4m3fn"))
