"""Matrix products with every product and sum rounded against sgemm on one thread."""

import os

import numpy as np
import threadpoolctl

import softfloat as sf
from bench.timing import Row, check_equal, compare
from softfloat import products

GOALS = {("bfloat16", 1): 0.34, ("bfloat16", 2): 0.64, ("binary16", 1): 0.25, ("binary16", 2): 0.48}
SHAPES = [(512, 512, 512), (4096, 64, 64), (64, 64, 64)]
EXACT = {"product": None}
RANDOM = {"rounding": "stochastic", "seed": 1}
# What goes in, the result's format, options, goal.
VARIANTS = [
    ("bfloat16", "bfloat16", EXACT, 0.21),
    ("binary16", "binary16", EXACT, 0.21),
    ("float8_e4m3fn", "bfloat16", EXACT, 0.45),
    ("float8_e5m2", "binary16", EXACT, None),
    ("float8_e4m3fn", "float8_e4m3fn", {"accumulator": "e6m9", **EXACT}, 0.45),
    ("bfloat16", "bfloat16", {"accumulator": "binary32"}, None),
    ("bfloat16", "bfloat16", {"accumulator": "binary32", **EXACT}, None),
    ("bfloat16", "bfloat16", RANDOM, 0.19),
    ("binary16", "binary16", RANDOM, 0.12),
    ("bfloat16", "bfloat16", {**RANDOM, **EXACT}, None),
    ("binary32", "binary32", {}, None),
    ("bfloat16", "bfloat16", {"order": "blocked", "block": 64}, None),
    ("bfloat16", "bfloat16", {"rounding": "toward_zero"}, None),
    ("binary16", "binary16", {"rounding": "toward_zero"}, None),
    ("bfloat16", "bfloat16", {"rounding": "toward_positive"}, None),
    ("bfloat16", "bfloat16", {"rounding": "ties_to_away"}, None),
]
IN_DOUBLE = [
    ("e8m22", "e8m22", {}, 0.25),
    ("fp24", "fp24", {}, 0.25),
    ("fp24", "fp24", EXACT, None),
    ("binary64", "binary64", {}, None),
]


def operands(shape, name):
    m, k, n = shape
    rng = np.random.default_rng(1)
    draw = lambda *size: sf.quantize(rng.standard_normal(size).astype(np.float32), name)  # noqa: E731
    return draw(m, k), draw(k, n)


def row(shape, name, threads, what, a, b, goal):
    """One product, its corner checked against the definition, timed beside sgemm on one thread."""
    sf.set_num_threads(threads)
    call = lambda: products.matmul(a, b, name)  # noqa: E731
    with sf.status():
        corner = products.matmul(a[:3], b[:, :3], name)
    check_equal(call()[:3, :3], corner, f"{name} matmul")
    size = a.shape[0] * a.shape[1] * b.shape[1]
    work = f"{name} {'x'.join(map(str, shape))}, {what}{threads} thread{'s' * (threads > 1)}"
    return Row(work, "sgemm", *compare(lambda: a @ b, call, size, 1.5), goal)


def variants(cases, dtype):
    """Other formats and roundings, one thread, 512 cubed; corners checked against the definition."""
    sf.set_num_threads(1)
    for source, fmt, options, goal in cases:
        a, b = (x.astype(dtype) for x in operands(SHAPES[0], source))
        call = lambda: products.matmul(a, b, fmt, **options)  # noqa: B023, E731
        with sf.status():  # which the definition alone can count
            corner = products.matmul(a[:3], b, fmt, **options)
        check_equal(call()[:3], corner, f"{source} matmul")
        x, y = a.astype(dtype), b.astype(dtype)
        ratio = compare(lambda: x @ y, call, 512**3, 1.5)  # noqa: B023
        chosen = ", ".join(f"{key}={value}" for key, value in options.items() if key != "seed")
        reference = "sgemm" if dtype == np.float32 else "dgemm"
        yield Row(f"{source} to {fmt} {chosen}", reference, *ratio, goal)


def rows():
    threads = os.cpu_count() or 1
    with threadpoolctl.threadpool_limits(1), np.errstate(all="ignore"):
        for (name, count), goal in GOALS.items():
            if count <= threads:
                a, b = operands(SHAPES[0], name)
                yield row(SHAPES[0], name, count, "", a, b, goal)
        for name in ("bfloat16", "binary16"):
            for shape in SHAPES[1:]:
                yield row(shape, name, 1, "", *operands(shape, name), None)
            a, b = operands(SHAPES[0], name)
            b[0, :] = np.inf
            yield row(SHAPES[0], name, 1, "infinities, ", a, b, None)
    with threadpoolctl.threadpool_limits(1), np.errstate(all="ignore"):
        yield from variants(VARIANTS, np.float32)
        yield from variants(IN_DOUBLE, np.float64)
    sf.set_num_threads(threads)
