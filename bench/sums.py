"""Sums with every addition rounded against np.sum of the same float32 numbers, one thread."""

import os

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal, compare
from softfloat import reductions

FORMATS = ("bfloat16", "binary16")
AXES = {"0": ((1000, 1000), 0), "1": ((1000, 1000), 1), "0 and 2": ((10, 1000, 100), (0, 2))}
FLAT = [{"order": "lanes"}, {"order": "pairwise"}]
FLAT += [{"order": "blocked", "block": block} for block in (64, 512, 4096)]


def numbers(name, size):
    rng = np.random.default_rng(1)
    return sf.quantize(rng.standard_normal(size).astype(np.float32), name)


def row(work, x, goal, axis=None, reference=np.sum, function=reductions.sum, **options):
    """One function, its result checked against the definition, beside np.sum over the same axis."""
    call = lambda: function(x, axis=axis, **options)  # noqa: E731
    got = call()
    with sf.status():  # takes the definition
        want = function(x, axis=axis, **options)
    check_equal(got, want, work)
    return Row(work, reference.__name__, *compare(lambda: reference(x, axis), call, x.size), goal)


def rows():
    sf.set_num_threads(1)
    for name in FORMATS:
        for label, (shape, axis) in AXES.items():
            x = numbers(name, shape)
            yield row(f"{name} {'x'.join(map(str, shape))}, axis {label}", x, 0.5, axis, fmt=name)
    x = numbers("bfloat16", (1000, 1000))
    for label, options in {
        "accumulator binary32": {"accumulator": "binary32"},
        "accumulator e8m15": {"accumulator": "e8m15"},
        "toward zero": {"rounding": "toward_zero"},
        "stochastic": {"rounding": "stochastic", "seed": 1},
    }.items():
        goal = 0.5 if "accumulator" in options else None
        for axis in (0, 1):
            yield row(f"bfloat16 axis {axis}, {label}", x, goal, axis, fmt="bfloat16", **options)
    for size, text in ((10**6, "1e6"), (10**7, "1e7")):
        x = numbers("bfloat16", size)
        for how in FLAT:
            wide = (
                {"accumulator": "binary32"} if how["order"] != "blocked" else {"outer": "binary32"}
            )
            for more in ({}, wide):
                label = " ".join(f"{v}" for v in (*how.values(), *more))
                yield row(f"bfloat16 {text} {label}", x, 0.7, fmt="bfloat16", **how, **more)
    x = numbers("bfloat16", 10**6)
    yield row("bfloat16 1e6 sequential", x, None, fmt="bfloat16")
    yield row(
        "bfloat16 1e6 sequential, toward zero", x, None, fmt="bfloat16", rounding="toward_zero"
    )
    cumsum = reductions.cumsum
    yield row("bfloat16 1e6 cumsum", x, None, reference=np.cumsum, function=cumsum, fmt="bfloat16")
    sf.set_num_threads(os.cpu_count() or 1)
