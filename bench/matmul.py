"""Matrix products with every product and sum rounded against sgemm on one thread; sums against np.sum."""

import os

import numpy as np
import threadpoolctl

import softfloat as sf
from bench.timing import Row, check_equal, compare
from softfloat import products, reductions

GOALS = {("bfloat16", 1): 0.34, ("bfloat16", 2): 0.64, ("binary16", 1): 0.25, ("binary16", 2): 0.48}
SHAPES = [(512, 512, 512), (4096, 64, 64), (64, 64, 64)]


def operands(shape, name):
    m, k, n = shape
    rng = np.random.default_rng(1)
    draw = lambda *size: sf.quantize(rng.standard_normal(size).astype(np.float32), name)  # noqa: E731
    return draw(m, k), draw(k, n)


def row(shape, name, threads, what, a, b, goal):
    """One product, its corner checked against the definition, timed beside sgemm on one thread."""
    sf.set_num_threads(threads)
    call = lambda: products.matmul(a, b, name)  # noqa: E731
    corner = products.matmul(a[:3], b[:, :3], name, order="blocked", block=a.shape[1])
    check_equal(call()[:3, :3], corner, f"{name} matmul")
    size = a.shape[0] * a.shape[1] * b.shape[1]
    work = f"{name} {'x'.join(map(str, shape))}, {what}{threads} thread{'s' * (threads > 1)}"
    return Row(work, "sgemm", *compare(lambda: a @ b, call, size, 1.5), goal)


def sums(name):
    """Sums over an axis and in lanes, their first elements checked against the definition (float64 input)."""
    sf.set_num_threads(1)
    x = operands((1000, 1000, 1), name)[0]
    for axis, goal in ((0, 0.5), (1, 0.5)):
        call = lambda: reductions.sum(x, name, axis)  # noqa: B023, E731
        part = (x[:, :5] if axis == 0 else x[:5]).astype(np.float64)
        check_equal(call()[:5], reductions.sum(part, name, axis), f"{name} sum")
        ratio = compare(lambda: np.sum(x, axis), call, x.size)  # noqa: B023
        yield Row(f"{name} sum of 1000x1000 over axis {axis}", "np.sum", *ratio, goal)
    flat = x.reshape(-1)
    ratio = compare(
        lambda: np.sum(flat), lambda: reductions.sum(flat, name, order="lanes"), flat.size
    )
    yield Row(f"{name} sum of 1e6 in lanes", "np.sum", *ratio, 0.7)


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
            yield from sums(name)
    sf.set_num_threads(threads)
