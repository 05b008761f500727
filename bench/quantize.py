"""quantize against np.copyto: every mode, three sizes, in place, stochastic, subnormal data, small calls, memory."""

import os
import timeit
import tracemalloc

import numpy as np

import softfloat as sf
from bench.timing import Row, check_equal, compare, times

GOALS = {
    "ties_to_even": (0.95, 0.95, 1.0),
    "ties_to_away": (0.9, 0.9, 1.0),
    "toward_zero": (0.8, 0.8, 1.0),
    "toward_positive": (0.65, 0.65, 1.0),
    "toward_negative": (0.65, 0.65, 1.0),
    "to_odd": (0.55, 0.55, 1.0),
}
SIZES = (10_000, 1_000_000, 10_000_000)


def normal(n, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(n).astype(dtype)


def reference(x, fmt, rounding, **options):
    """The definition, by way of the status counters, on a sample."""
    with sf.status():
        return sf.quantize(x[:2000], fmt, rounding=rounding, **options)


def deterministic():
    """Every mode. At 1e4 elements a checked call costs as much as the work, so its loop is shown apart."""
    for name in ("binary16", "bfloat16", "float8_e4m3fn"):
        fmt = sf.as_format(name)
        for rounding, goals in GOALS.items():
            for n, goal in zip(SIZES, goals, strict=True):
                x = normal(n)
                out = np.empty_like(x)
                call = lambda: sf.quantize(x, fmt, rounding=rounding, out=out)  # noqa: B023, E731
                check_equal(call()[:2000], reference(x, fmt, rounding), name)
                copy = lambda: np.copyto(out, x)  # noqa: B023, E731
                if n == SIZES[0]:
                    plan = fmt.plans[rounding, False, x.dtype]
                    loop = lambda: plan.run(x, out, plan.constants)  # noqa: B023, E731
                    yield Row(
                        f"{name} {rounding} {n:.0e}, loop",
                        "np.copyto",
                        *compare(copy, loop, n),
                        goal,
                    )
                    goal = None
                yield Row(f"{name} {rounding} {n:.0e}", "np.copyto", *compare(copy, call, n), goal)


def in_place():
    n = SIZES[-1]
    x = normal(n)
    out = np.empty_like(x)
    y = x.copy()
    call = lambda: sf.quantize(y, sf.binary16, out=y)  # noqa: E731
    check_equal(call()[:2000], reference(x, sf.binary16, "ties_to_even"), "in place")
    ratio = compare(lambda: np.copyto(out, x), call, n)
    yield Row("binary16 in place 1e7", "np.copyto", *ratio, 1.5)


def stochastic():
    n = SIZES[-1]
    x = normal(n)
    out = np.empty_like(x)
    threads = os.cpu_count() or 1
    for name, goals in (("binary16", (0.70, 0.95)), ("bfloat16", (0.80, 0.95))):
        for count, goal in zip((1, 2), goals, strict=True):
            if count > threads:
                continue
            sf.set_num_threads(count)
            call = lambda: sf.quantize(x, name, rounding="SR", seed=7, out=out)  # noqa: B023, E731
            want = reference(x, name, "SR", seed=7)
            check_equal(call()[:2000], want, name)
            ratio = compare(lambda: np.copyto(out, x), call, n)
            yield Row(f"{name} stochastic 1e7, {count} thread(s)", "np.copyto", *ratio, goal)
            sf.set_num_threads(1)
    sf.set_num_threads(1)


def subnormal_data():
    n = SIZES[1]
    x = normal(n)
    tiny = (x * np.float32(2.0**-20)).astype(np.float32)
    out = np.empty_like(x)
    taken = times(
        [
            lambda: sf.quantize(x, sf.binary16, out=out),
            lambda: sf.quantize(tiny, sf.binary16, out=out),
        ],
        60,
        1,
    )
    best = taken.min(axis=0)
    each = taken[:, 1] / taken[:, 0]
    yield Row(
        "subnormal-heavy data", "normal data, time", best[1] / best[0], *np.percentile(each, [10, 90]), 1.1, True
    )  # fmt: skip


def small_call():
    x = normal(10)
    sf.quantize(x, sf.binary16)
    runs = np.array(timeit.repeat(lambda: sf.quantize(x, sf.binary16), number=20000, repeat=15))
    runs *= 1e6 / 20000
    yield Row("a call on 10 elements", "us", runs.min(), *np.percentile(runs, [10, 90]), 1.0, True)


def memory():
    x = normal(1 << 22)
    out = np.empty_like(x)
    for what, call, goal in (
        ("memory, fresh result", lambda: sf.quantize(x, sf.binary16), 1.0),
        ("memory, out=", lambda: sf.quantize(x, sf.binary16, out=out), 0.05),
    ):
        call()
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1] / x.nbytes
        tracemalloc.stop()
        yield Row(what, "copies of the input", peak, peak, peak, goal + 0.01, True)


def rows():
    """All rows, one thread unless a row says otherwise."""
    sf.set_num_threads(1)
    for part in (
        small_call,
        deterministic,
        in_place,
        stochastic,
        subnormal_data,
        memory,
    ):
        yield from part()
