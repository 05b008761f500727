"""Exact sums against np.sum of the same numbers, one thread; all triples of 8-bit formats; sweeps of orders."""

import math
import os
import time

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal, compare
from softfloat import analysis, reductions

LONG = 10**8


def seconds(call, rounds=5):
    """Seconds of the fastest round, after a first call."""
    call()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken), min(taken), max(taken)


def exact_rows():
    for dtype in (np.float64, np.float32):
        for size in (200_000, 10**7):
            x = np.random.default_rng(1).standard_normal(size).astype(dtype)
            for work, call in (
                ("exact_sum", lambda x=x: analysis.exact_sum(x)),
                ("exact_dot", lambda x=x: analysis.exact_dot(x, x)),
            ):
                if size < 10**6:
                    wide = x.astype(np.float64)
                    want = math.fsum(
                        wide * wide if dtype == np.float32 and work == "exact_dot" else wide
                    )
                    if work == "exact_sum" or dtype == np.float32:
                        check_equal(call(), want, work)
                ratio, low, high = compare(call, lambda x=x: np.sum(x), size)
                yield Row(
                    f"{work} {dtype.__name__} {size:.0e}",
                    "time of np.sum",
                    ratio,
                    low,
                    high,
                    30,
                    True,
                )


def rows():
    sf.set_num_threads(1)
    yield from exact_rows()
    x = sf.quantize(np.random.default_rng(1).random(LONG, np.float32), "bfloat16")
    call = lambda: reductions.sum(x, "bfloat16", order="blocked", block=512, outer="binary32")  # noqa: E731
    ratio, low, high = compare(lambda: np.sum(x), call, LONG)
    yield Row("bfloat16 1e8 blocked 512, binary32", "np.sum", ratio, low, high, 0.5)
    soft = sf.array(x[: 10**7], "bfloat16")
    plain = soft.to_numpy()
    for work, call in (
        ("exact_sum", lambda: analysis.exact_sum(soft)),
        ("exact_dot", lambda: analysis.exact_dot(soft, soft)),
    ):
        ratio, low, high = compare(call, lambda: np.sum(plain), soft.size)
        yield Row(f"{work} of a SoftArray, 1e7", "time of np.sum", ratio, low, high, 30, True)
    terms = np.random.default_rng(1).standard_normal(256)
    sweep = lambda: analysis.order_sweep(terms, "binary16", trials=20_000)  # noqa: E731
    taken = {}
    for threads in (1, os.cpu_count() or 1):
        sf.set_num_threads(threads)
        taken[threads] = min(seconds(sweep)[:1])
    yield Row("order_sweep, 20,000 orders of 256 terms, all cores", "one core",
              taken[1] / taken[threads], 0, 0, None)  # fmt: skip
    for name in ("float8_e5m2", "float8_e4m3fn"):
        best, low, high = seconds(lambda name=name: analysis.associativity(name))
        yield Row(f"associativity of {name}, 16 M triples", "seconds", best, low, high, 1, True)
    best, low, high = seconds(lambda: analysis.order_sweep(terms, "binary16", trials=2000))
    yield Row("order_sweep, 256 terms, 2000 orders", "seconds", best, low, high, None, True)
