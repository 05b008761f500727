"""Convolutions and their gradients with every operation rounded, beside matrix products of the same sizes."""

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal, compare

GOAL = 0.77  # 1.3 times the product's time
# Input, weights, padding.
CASES = [
    ((32, 64, 28, 28), (64, 64, 3, 3), 1),
    ((32, 256, 7, 7), (256, 256, 3, 3), 1),
    ((32, 64, 28, 28), (128, 64, 1, 1), 0),
]


def draw(name, *shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return sf.quantize(x, name)


def row(name, what, call, expected, size):
    """One call, its first part checked against the definition, beside the product (m, k) @ (k, n) of this size."""
    m, k, n = size
    check_equal(call()[:1], expected, f"{name} {what}")
    a, b = draw(name, m, k), draw(name, k, n)
    ratio = compare(lambda: sf.matmul(a, b, name), call, m * k * n, 1.0)
    return Row(f"{name} {what}, {m}x{k}x{n}", "matmul", *ratio, GOAL)


def case(name, shape, weights, padding):
    """The rows of one geometry; one block of all terms takes the definition."""
    x, w = draw(name, *shape), draw(name, *weights)
    y = draw(name, *sf.conv2d(x, w, name, padding=padding).shape)
    how, slow = {"padding": padding}, {"padding": padding, "order": "blocked", "block": 1 << 30}
    m, terms, places, kernel = (
        weights[0],
        w[0].size,
        y.size // weights[0],
        f"{w.shape[2]}x{w.shape[3]}",
    )

    call = lambda: sf.conv2d(x, w, name, **how)  # noqa: E731
    expected = sf.conv2d(x[:1], w, name, **slow)
    yield row(name, f"conv2d {kernel}", call, expected, (m, terms, places))

    call = lambda: sf.conv2d_input_gradient(y, w, x.shape, name, **how)  # noqa: E731
    expected = sf.conv2d_input_gradient(y[:1], w, x[:1].shape, name, **slow)
    sizes = (weights[1], w[:, 0].size, x.size // weights[1])
    yield row(name, f"input gradient {kernel}", call, expected, sizes)

    call = lambda: sf.conv2d_weight_gradient(x, y, w.shape, name, **how)  # noqa: E731
    expected = sf.conv2d_weight_gradient(x, y[:, :1], w[:1].shape, name, **slow)
    yield row(name, f"weight gradient {kernel}", call, expected, (m, places, terms))


def rows():
    threads = sf.get_num_threads()
    sf.set_num_threads(1)
    for name in ("bfloat16", "binary16"):
        for shape, weights, padding in CASES:
            yield from case(name, shape, weights, padding)
    sf.set_num_threads(threads)
