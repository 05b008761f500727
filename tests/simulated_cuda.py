"""Functions on device arrays against the same on NumPy arrays, bit for bit; run by test_cuda.py in the simulator.

    NUMBA_ENABLE_CUDASIM=1 python tests/simulated_cuda.py GROUP ...

With a GPU, and without the variable, it runs there.
"""

import sys
from dataclasses import replace

import numpy as np
from numba import cuda

import softfloat as sf
from softfloat import scalar as sc

SEED = 11


def numbers(dtype, n, rng):
    """Any bits, ordinary numbers, and the special ones."""
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = rng.integers(0, np.iinfo(unsigned).max, n, unsigned, endpoint=True).view(dtype)
    near = rng.standard_normal(n) * np.exp2(rng.integers(-14, 14, n))
    x = np.where(rng.random(n) < 0.5, bits, near.astype(dtype))
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0]
    return x


def on_host(x):
    return np.asarray(x.copy_to_host()) if hasattr(x, "copy_to_host") else x


def check_same(got, wanted, what):
    got, wanted = on_host(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (what, got.dtype, got.shape)
    kind = f"u{got.dtype.itemsize}"  # of booleans too
    wrong = np.flatnonzero(got.reshape(-1).view(kind) != wanted.reshape(-1).view(kind))
    assert not wrong.size, (
        what,
        wrong.size,
        wrong[:3],
        got.reshape(-1)[wrong[:3]],
        wanted.reshape(-1)[wrong[:3]],
    )


def compare(name, operands, fmt, **options):
    """One function on the device and on the host: the same bits or the same error."""
    function = getattr(sf, name)
    try:
        wanted = function(*operands, fmt, **options)
    except ValueError as error:
        wanted = error
    given = [cuda.to_device(x) if isinstance(x, np.ndarray) else x for x in operands]
    try:
        got = function(*given, fmt, **options)
    except ValueError as error:
        assert isinstance(wanted, ValueError) and str(error) == str(wanted), (name, error, wanted)
        return
    assert not isinstance(wanted, Exception), (name, fmt, wanted)
    check_same(got, wanted, (name, str(fmt), options))


def operands(count, dtype=np.float32, n=203):
    rng = np.random.default_rng(SEED)
    return [numbers(dtype, n, rng) for _ in range(count)]


def quantize():
    stochastic = {"rounding": "stochastic", "seed": 5}
    x = operands(1)
    for fmt in ("binary16", "bfloat16"):
        compare("quantize", x, fmt)
        compare("quantize", x, fmt, **stochastic)
        compare("quantize", x, fmt, **stochastic, offset=3)
    compare("quantize", [x[0][3:10]], "binary16", **stochastic)
    compare("quantize", [x[0][:0]], "binary16")
    compare("quantize", [x[0][:200].reshape(10, 20)], "binary16")


def comparisons():
    a, b = operands(2)
    b[::3] = a[::3]
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = b.astype(np.float64)
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        function, given = getattr(sf, name), cuda.to_device(a)
        check_same(function(given, cuda.to_device(b)), function(a, b), name)
        check_same(function(given, cuda.to_device(wide)), function(a, b), name)
        check_same(function(given, 0.1), function(a, 0.1), name)
        check_same(function(1.0, given), function(1.0, a), name)


def arithmetic():
    for options in ({}, {"rounding": "stochastic", "seed": 5, "offset": 3}):
        compare("quantize", operands(1), "float8_e4m3fn", **options)
        compare("quantize", operands(1, np.float64), "bfloat16", **options)
    a, b = operands(2)
    compare("add", [a, b], "bfloat16")
    compare("add", [a, 1.5], "bfloat16")
    compare("add", [np.float32(0.1), b], "bfloat16")
    compare("add", [a, b.astype(np.float64)], "float8_e4m3fn")


def codes():
    (x,) = operands(1)
    compare("encode", [x], "bfloat16")
    compare("encode", [x], "float8_e4m3fn")
    for fmt in ("bfloat16", "float8_e4m3fnuz"):
        compare("decode", [sf.encode(x, fmt)], fmt)
    compare("encode", [x], "float4_e2m1fn")  # a NaN has no code there
    compare("encode", [x[5:9]], sf.FixedPoint(3, 4))


def everything():
    modes = [{"rounding": str(mode)} for mode in sf.Rounding]
    modes[6]["seed"] = modes[7]["seed"] = 3
    given = np.random.default_rng(SEED).integers(0, 1 << 24, 203)
    modes += [{"saturate": True}, {"rounding": "stochastic", "random": given}]
    names = {
        "quantize": 1,
        "add": 2,
        "subtract": 2,
        "multiply": 2,
        "divide": 2,
        "sqrt": 1,
        "fma": 3,
    }
    for fmt in ("bfloat16", "binary16", "float8_e4m3fnuz", "dlfloat16", "binary32", "binary64"):
        for options in modes:
            for name, count in names.items():
                compare(name, operands(count, np.float64), fmt, **options)
                compare(name, operands(count), fmt, **options)
    for name in ("exp", "log", "sin", "tanh", "erf", "cbrt", "rsqrt"):
        compare(name, operands(1), "bfloat16")
    for name in ("remainder", "hypot", "power"):
        compare(name, operands(2), "binary16")


def reductions():
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((6, 35)).astype(np.float32)
    stochastic = {"rounding": "stochastic", "seed": 5}
    for options in ({}, {"axis": 0}, {"axis": 1}, {"order": "pairwise"}, {"order": "lanes"}):
        compare("sum", [x], "bfloat16", **options)
    compare(
        "sum", [x], "bfloat16", axis=1, order="blocked", block=8, outer="binary32", **stochastic
    )
    compare("sum", [x], "bfloat16", axis=1, accumulator="binary16", **stochastic)
    compare("mean", [x], "binary16", axis=0)
    compare("norm", [x], "binary16", axis=1, keepdims=True)
    a, b = x[:4, :12].copy(), rng.standard_normal((2, 12, 5)).astype(np.float32)
    compare("matmul", [a, b], "bfloat16")
    compare("matmul", [a, b[0]], "bfloat16", order="lanes")


def products():
    rng = np.random.default_rng(SEED)
    a = sf.quantize(rng.standard_normal((9, 33)).astype(np.float32), "bfloat16")
    b = sf.quantize(rng.standard_normal((33, 70)).astype(np.float32), "bfloat16")
    compare("matmul", [a, b], "bfloat16")  # the quick form
    small = [sf.quantize(x * np.float32(2.0**-9), "binary16") for x in (a, b)]
    compare("matmul", small, "binary16")  # subnormal products
    large = [np.full(shape, 60, np.float32) for shape in ((2, 33), (33, 3))]
    compare("matmul", large, "binary16")  # tiles that give up: the sums overflow in the end
    c = a.copy()
    c[0, 0], c[1, 1] = np.inf, np.nan
    compare("matmul", [c, b], "bfloat16")


def any_products():
    rng = np.random.default_rng(SEED)
    a, b = (
        rng.standard_normal((3, 12)).astype(np.float32),
        rng.standard_normal((12, 5)).astype(np.float32),
    )
    stochastic = {"rounding": "stochastic", "seed": 5}
    compare("matmul", [a, b], "bfloat16", **stochastic)
    compare("matmul", [a, b[:, 0].copy()], "binary16", product=None, accumulator="binary32")
    compare("dot", [a[0], b[:, 0].copy()], "binary16")


def compare_product(a, b, fmt, c=None, engine=None, **options):
    """A product with an initial accumulator, an engine and scales, on the device and on the host."""
    more = {"c": c, "engine": engine, **options}
    wanted = sf.matmul(a, b, fmt, **more)
    there = {k: cuda.to_device(x) if isinstance(x, np.ndarray) else x for k, x in more.items()}
    check_same(sf.matmul(cuda.to_device(a), cuda.to_device(b), fmt, **there), wanted, (fmt, more))


def engine_operands(engine, k=40):
    rng = np.random.default_rng(SEED)
    a, b = (
        sf.quantize(rng.standard_normal(s).astype(np.float32), engine.inputs[0])
        for s in ((2, 3, k), (k, 2))
    )
    return rng, a, b


def engines():
    split = replace(sf.engines.h100_fp8, promote=16, split=3, split_tile=8, split_order="pairwise")
    for engine in (sf.engines.h100_fp8, sf.engines.a100_tf32, sf.engines.cdna2_bf16, split):
        rng, a, b = engine_operands(engine)
        c = sf.quantize(rng.standard_normal((3, 2)), engine.acc)
        compare_product(a, b, "bfloat16", c, engine)
        compare_product(a[0], b[:, 0].copy(), "bfloat16", None, engine)
    rng, a, b = engine_operands(sf.engines.h100_fp8)
    try:
        sf.matmul(cuda.to_device(a * np.float32(1.01)), cuda.to_device(b), "bfloat16", engine=split)
    except ValueError as error:
        assert "takes a as values of float8_e4m3fn or float8_e5m2; element (" in str(error), error
    else:
        raise AssertionError("a stray operand")
    soft = sf.array(a, "float8_e5m2").to_device(), sf.cuda.to_device(b, "float8_e5m2")
    got = sf.matmul(*soft, "bfloat16", engine=split).to_host()
    wanted = sf.matmul(*(x.to_host() for x in soft), "bfloat16", engine=split)
    check_same(got._values, wanted._values, "formats of soft arrays")


def scaled_engines():
    for engine in (sf.engines.b200_mxf8f6f4, sf.engines.b200_nvfp4):
        rng, a, b = engine_operands(engine)
        blocks = -(-40 // engine.block)
        scales = [np.exp2(rng.integers(-3, 3, s)) for s in ((2, 3, blocks), (blocks, 1))]
        compare_product(a, b, "binary32", None, engine, scale_a=scales[0], scale_b=scales[1])


def starts():
    rng = np.random.default_rng(SEED)
    a, b, c = (
        sf.quantize(rng.standard_normal(s).astype(np.float32), "bfloat16")
        for s in ((5, 20), (20, 7), (5, 7))
    )
    compare_product(a, b, "bfloat16", c)
    compare_product(a, b, "bfloat16", c * np.float32(1.37))  # no values of the accumulator
    compare_product(a, b, "bfloat16", c[0])
    compare_product(a, b, "bfloat16", -0.0)
    compare_product(a, b, "bfloat16", c, order="pairwise")
    into = cuda.to_device(c)
    got = sf.matmul(cuda.to_device(a), cuda.to_device(b), "bfloat16", c=into, out=into)
    assert got is into
    check_same(into, sf.matmul(a, b, "bfloat16", c=c), "c=, out=")


def orders():
    x = np.random.default_rng(SEED).standard_normal(700).astype(np.float32)
    stochastic = {"rounding": "stochastic", "seed": 5}
    blocked = {"order": "blocked", "block": 33, "outer": "binary32"}
    for options in ({"order": "pairwise"}, {"order": "lanes"}, blocked):
        compare("sum", [x], "bfloat16", **options)
        compare("sum", [x], "bfloat16", accumulator="binary32", **options, **stochastic)
        compare("prod", [x], "bfloat16", **options)
        compare("norm", [x], "bfloat16", **options)
        compare("dot", [x, x[::-1].copy()], "bfloat16", **options)
    compare("sum", [x], "bfloat16", order="kahan")
    compare("sum", [x], "bfloat16", order="neumaier")


def tiles():
    rng = np.random.default_rng(SEED)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((5, 20), (20, 70)))
    stochastic = {"rounding": "stochastic", "seed": 5}
    for fmt in ("bfloat16", "binary16"):
        own = [sf.quantize(x, fmt) for x in (a, b)]
        for options in ({"rounding": "toward_negative"}, stochastic, {"saturate": True}):
            compare("matmul", own, fmt, **options)
    own = [sf.quantize(x, "bfloat16") for x in (a, b)]
    compare("matmul", own, sf.Format(8, 7, subnormals="ftz"))  # which may end a sum at -0
    compare("matmul", [a * 0, -own[1]], "bfloat16", rounding="toward_negative")
    for scales in ((2.0**-66, 2.0**-70), (2.0**62, 2.0**64)):  # no products of float32
        far = [x * np.float32(s) for x, s in zip(own, scales, strict=True)]
        compare("matmul", far, "bfloat16", rounding="toward_zero")
    compare("matmul", [x * np.float32(100) for x in own], "float8_e4m3fn", rounding="toward_zero")


def layouts():
    v = numbers(np.float32, 60, np.random.default_rng(SEED)).reshape(6, 10)
    d = cuda.to_device(v)
    for got, wanted in (
        (sf.quantize(d[::2], "bfloat16"), sf.quantize(v[::2], "bfloat16")),
        (sf.add(d[:, 3], d[:, 4], "bfloat16"), sf.add(v[:, 3], v[:, 4], "bfloat16")),
        (sf.add(d, d[0], "bfloat16"), sf.add(v, v[0], "bfloat16")),
        (sf.add(d[:, :1], d, "bfloat16"), sf.add(v[:, :1], v, "bfloat16")),
        (sf.sum(d.T, "bfloat16", axis=0), sf.sum(v.T, "bfloat16", axis=0)),
        (sf.encode(d.T, "bfloat16"), sf.encode(v.T, "bfloat16")),
    ):
        check_same(got, wanted, "strides")
    for shape in ((), (0,), (0, 3)):
        h = np.ones(shape, np.float32)
        check_same(sf.quantize(cuda.to_device(h), "bfloat16"), h, shape)
        check_same(sf.sum(cuda.to_device(h), "bfloat16"), h.sum(dtype=np.float32), shape)
    line = cuda.to_device(v.reshape(-1))
    got = sf.add(line[1:], line[:-1], "bfloat16", out=line[:-1])
    check_same(
        got, sf.add(v.reshape(-1)[1:], v.reshape(-1)[:-1], "bfloat16"), "out= one element off"
    )
    q = sf.quantize(v[:6, 4:10] * 0 + np.float32(1.5), "bfloat16")
    g = cuda.to_device(q)
    check_same(
        sf.matmul(g, g, "bfloat16", out=g), sf.matmul(q, q, "bfloat16"), "out= is an operand"
    )
    for call, error, text in (
        (lambda: sf.add(d[0], d[1], "bfloat16", out=d[:, 0]), ValueError, "out= must have shape"),
        (lambda: sf.add(d[:, 0], d[:, 1], "bfloat16", out=d[:, 2]), ValueError, "C-contiguous"),
        (lambda: sf.matmul(d, d, "bfloat16"), ValueError, "the inner sizes differ"),
        (lambda: sf.add(d, d[:, :4], "bfloat16"), ValueError, "broadcast"),
        (lambda: sf.minimum(d, d), TypeError, "softfloat.minimum is not offered"),
    ):
        refuses(call, error, text)


def refuses(call, error, text):
    try:
        call()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(text)


def soft_arrays():
    x, y = (sf.array(v[8:40], "bfloat16") for v in operands(2))
    a, b = x.to_device(), sf.cuda.to_device(y)
    for got, wanted in (
        (a.to_host(), x),
        (sf.add(a, b, "bfloat16").to_host(), sf.add(x, y, "bfloat16")),
        (sf.quantize(a, "binary16").to_host(), sf.quantize(x, "binary16")),
    ):
        assert got._format == wanted._format
        check_same(got._values, wanted._values, "soft arrays")
    out = sf.cuda.to_device(np.zeros(32), "bfloat16")
    assert sf.multiply(a, b, "bfloat16", out=out) is out
    check_same(out.to_host()._values, sf.multiply(x, y, "bfloat16")._values, "out=")


def soft_kernels():
    x, y = (sf.array(v[8:40], "bfloat16") for v in operands(2))
    a, b, out = x.to_device(), y.to_device(), sf.zeros(32, "bfloat16").to_device()
    soft_kernel[1, 32](0.1, a, b, out)
    check_same(
        out.to_host()._values, (0.1 * x + y)._values, "a kernel that knows nothing of formats"
    )
    plain = cuda.to_device(np.zeros(32))
    scalar_kernel[1, 32](a.values, b.values, plain, sf.binary16, sf.Rounding.TOWARD_NEGATIVE)
    wanted = sf.add(x._values, y._values, "binary16", rounding="toward_negative")
    check_same(plain, wanted.astype(np.float64), "scalar functions, format and mode as arguments")


@cuda.jit
def soft_kernel(a, x, y, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = a * x[i] + y[i]


@sf.cuda.jit
def scalar_kernel(x, y, out, fmt, rounding):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = sc.add(x[i], y[i], fmt, rounding)


def refusals():
    x = cuda.to_device(np.ones(4, np.float32))
    for call, error, text in (
        (lambda: sf.add(x, np.ones(4, np.float32), "binary16"), TypeError, "copy it to the device"),
        (
            lambda: sf.quantize(x, "binary16", out=np.ones(4)),
            TypeError,
            "out= must be an array of numba",
        ),
        (lambda: sf.decode(x, "binary16"), TypeError, "codes must be integers"),
        (lambda: sf.quantize(x, "binary16", rounding="stochastic"), ValueError, "needs seed="),
    ):
        refuses(call, error, text)
    with sf.status():
        refuses(lambda: sf.quantize(x, "binary16"), TypeError, "flags")


if __name__ == "__main__":
    for group in sys.argv[1:]:
        globals()[group]()
    print("the same bits")
