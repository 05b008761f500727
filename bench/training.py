"""A step of training in low precision against the same step in plain float32 NumPy with BLAS, on one thread.

A perceptron 784-512-512-10, batch 128, gradient descent.
"""

import numpy as np
import threadpoolctl

import softfloat as sf
from bench.timing import Row, compare
from softfloat import training

SIZES, BATCH, RATE = (784, 512, 512, 10), 128, 1e-3
EVERYTHING = dict.fromkeys(training.policy.ROLES, "bfloat16")
RANDOM = {"rounding": "stochastic", "update_rounding": "stochastic"}
# What is rounded, the policy, whether a Monitor watches, the goal.
CASES = [
    ("all tensors bfloat16, nearest", training.Policy("n", **EVERYTHING), 2),
    ("all tensors binary16, nearest", training.PRESETS["pure_binary16"], 2),
    ("all tensors bfloat16, stochastic", training.Policy("s", **EVERYTHING, **RANDOM), 3),
    ("fixed_point, stochastic", training.PRESETS["fixed_point"], 3),
    ("mixed_binary16", training.PRESETS["mixed_binary16"], 2),
    ("fp8_hybrid", training.PRESETS["fp8_hybrid"], None),
    (
        "every multiply-add bfloat16",
        training.Policy("e", **EVERYTHING, accumulator="bfloat16"),
        4.5,
    ),
    ("fp8_chunked, every multiply-add", training.PRESETS["fp8_chunked"], None),
    ("fp32", training.PRESETS["fp32"], None),
]


def batch():
    rng = np.random.default_rng(1)
    return rng.random((BATCH, SIZES[0]), dtype=np.float32), rng.integers(0, SIZES[-1], BATCH)


class Plain:
    """The step in NumPy as one writes it by hand."""

    def __init__(self):
        start = training.Trainer("fp32", SIZES).parameters
        self.weights = [start[f"layer{k}.weight"].copy() for k in (1, 2, 3)]
        self.biases = [start[f"layer{k}.bias"].copy() for k in (1, 2, 3)]

    def step(self, x, labels):
        w, b, lr = self.weights, self.biases, np.float32(RATE)
        h1 = np.maximum(x @ w[0] + b[0], 0)
        h2 = np.maximum(h1 @ w[1] + b[1], 0)
        z = h2 @ w[2] + b[2]
        z = z - z.max(axis=1, keepdims=True)
        e = np.exp(z)
        sums = e.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(np.mean(np.log(sums[:, 0]) - z[rows, labels]))
        d3 = e / sums
        d3[rows, labels] -= 1
        d3 /= np.float32(len(labels))
        d2 = (d3 @ w[2].T) * (h2 > 0)
        d1 = (d2 @ w[1].T) * (h1 > 0)
        for k, (a, d) in enumerate(((x, d1), (h1, d2), (h2, d3))):
            w[k] -= lr * (a.T @ d)
            b[k] -= lr * d.sum(axis=0)
        return loss


def rows():
    images, labels = batch()
    threads = sf.get_num_threads()
    sf.set_num_threads(1)
    with threadpoolctl.threadpool_limits(1):
        for what, policy, goal in CASES:
            # Each case trains from its start again: values that have converged are not those of a step.
            plain, trainer = Plain(), training.Trainer(policy, SIZES, lr=RATE)
            if abs(plain.step(images, labels) - trainer.step(images, labels)) > 0.1:
                raise AssertionError(f"{what}: the loss is wrong, so its speed means nothing")
            yield row(what, plain, trainer, images, labels, goal)
        for what, policy, _ in CASES[:2]:
            trainer = training.Trainer(policy, SIZES, lr=RATE)
            watched = training.Trainer(policy, SIZES, lr=RATE, monitor=training.Monitor())
            yield row(f"{what}, with a Monitor", trainer, watched, images, labels, 1.1, "without")
    sf.set_num_threads(threads)


def row(what, reference, trainer, images, labels, goal, name="plain NumPy"):
    """The time of `trainer` over that of `reference`."""
    ratio, low, high = compare(
        lambda: reference.step(images, labels), lambda: trainer.step(images, labels), 10**7, 2.0
    )
    return Row(what, name, 1 / ratio, 1 / high, 1 / low, goal, True)
