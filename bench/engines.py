"""Matrix products of matrix engines against sgemm (dgemm where the operands are binary64), all on one thread."""

import os

import numpy as np
import threadpoolctl

import softfloat as sf
from bench.timing import Row, check_equal, compare
from softfloat import engines
from softfloat.backends.engine import define

SIZE = 512
GOALS = {
    "h100_fp8": 0.04,
    "ada_fp8": 0.04,
    "h100_fp8_mma": 0.02,
    "b200_fp8": 0.02,
    "b200_mxf8f6f4": 0.02,
    "b200_mxf4": 0.02,
    "b200_nvfp4": 0.02,
    "h100_fp16": 0.02,
    "h100_fp16_fp16": 0.02,
    "h100_bf16": 0.02,
    "h100_tf32": 0.02,
    "a100_fp16": 0.02,
    "a100_tf32": 0.02,
    "v100_fp16": 0.02,
    "cdna3_fp16": 0.02,
    "cdna3_fp8": 0.02,
    "cdna2_fp16": 0.02,
    "cdna2_bf16": 0.02,
    "cdna1_fp16_exact": None,
    "avx512_bf16": 0.02,
    "amx_bf16": 0.02,
    "arm_bf16": 0.02,
    "arm_bf16_ebf": 0.02,
    "nvidia_fp64": 0.02,
}


def operands(engine):
    """a and b, and the scales of their numbers or None."""
    rng = np.random.default_rng(1)
    fmt = engine.inputs[0]
    draw = lambda: sf.quantize(rng.standard_normal((SIZE, SIZE)).astype(fmt.carrier), fmt)  # noqa: E731
    a, b = draw(), draw()
    if engine.scales is None:
        return a, b, None
    shape = (SIZE, -(-SIZE // engine.block))
    one, other = (sf.quantize(rng.uniform(0.5, 4, shape), engine.scales) for _ in range(2))
    return a, b, (one.astype(np.float32), other.T.astype(np.float32))


def corner(engine, a, b, scales):
    """The first three rows and columns, by the definition."""
    fmt = engine.inputs[0]
    P = engine.parameters(fmt, fmt)
    a, b = (sf.quantize(x, engine.cut or fmt, rounding="toward_zero") for x in (a[:3], b[:, :3]))
    start = np.zeros((3, 3), engine.acc.carrier)
    if scales is not None:
        one, other = (
            np.repeat(x, engine.block, axis=i) for i, x in zip((1, 0), scales, strict=True)
        )
        scales = one[:3, :SIZE], other[:SIZE, :3]
    found = define(P, engine.places, engine.records, a, b, start, np.arange(9), scales)
    return found.reshape(3, 3)


def rows():
    threads = os.cpu_count() or 1
    sf.set_num_threads(1)
    with threadpoolctl.threadpool_limits(1):
        for name, goal in GOALS.items():
            engine = getattr(engines, name)
            a, b, scales = operands(engine)
            more = {} if scales is None else {"scale_a": scales[0], "scale_b": scales[1]}
            call = lambda: sf.matmul(a, b, engine.acc, engine=engine, **more)  # noqa: B023, E731
            check_equal(call()[:3, :3], corner(engine, a, b, scales), name)
            ratio = compare(lambda: a @ b, call, SIZE**3, 1.0)  # noqa: B023
            gemm = "sgemm" if a.dtype == np.float32 else "dgemm"
            yield Row(f"{name}, {SIZE}x{SIZE}x{SIZE}, 1 thread", gemm, *ratio, goal)
    sf.set_num_threads(threads)
