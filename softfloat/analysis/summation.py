"""Summation algorithms compared: by the number of terms, by the size of chunks, by the condition number.

Sources: Higham (2002), ch. 4; Blanchard, Higham and Mary, A class of fast and accurate summation algorithms (2020), for
FABsum; Ogita, Rump and Oishi, Accurate sum and dot product (2005), for SumK; Wang et al., Training deep neural networks
with 8-bit floating point numbers (2018), for chunks.
"""

import math

import numpy as np

from softfloat import reductions
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.generators import ill_conditioned_sum
from softfloat.analysis.growth import sizes_up_to
from softfloat.analysis.measures import relative_error, sum_condition
from softfloat.analysis.orders import roundoff
from softfloat.analysis.result import BOUND, REFERENCE, Line, Panel, Study, measured
from softfloat.analysis.statistics import (
    as_floating,
    checked_count,
    deviation,
    mean_interval,
    options_of,
    uniform,
)
from softfloat.functional import add, quantize, subtract
from softfloat.rounding import as_rounding

BLOCK = 128
FOLDS = 3  # of SumK

# name: options of softfloat.sum.
ALGORITHMS = {
    "recursive": {},
    "blocked": {"order": "blocked", "block": BLOCK},
    "pairwise": {"order": "pairwise"},
    "lanes": {"order": "lanes"},
    "fabsum": {"order": "blocked", "block": BLOCK, "outer": "binary64"},
    "kahan": {"order": "kahan"},
    "neumaier": {"order": "neumaier"},
}


def sum_by(algorithm, x, fmt, *, rounding="ties_to_even", seed=0):
    """The sum along the last axis by a named algorithm, rounded to fmt.

    Those of ALGORITHMS; "sorted" (recursive, ascending magnitudes), "sumk" (two passes of error-free
    transformations, then a sum that is compensated: SumK with K = 3) and "exact" (rounded once).
    """
    fmt, options = as_floating(fmt), options_of(rounding, seed)
    if algorithm == "exact":
        return exact_sum(x, fmt, axis=-1, **options)
    if algorithm == "sorted":
        x = np.take_along_axis(x, np.argsort(np.abs(x), axis=-1, kind="stable"), axis=-1)
        return reductions.sum(x, fmt, axis=-1, **options)
    if algorithm == "sumk":
        return _sum_k(np.asarray(x), fmt, options)
    if algorithm not in ALGORITHMS:
        names = ", ".join(map(repr, [*ALGORITHMS, "sorted", "sumk", "exact"]))
        raise ValueError(f"algorithm must be one of {names}, got {algorithm!r}")
    return reductions.sum(x, fmt, axis=-1, **ALGORITHMS[algorithm], **options)


def _sum_k(x, fmt, options):
    """Ogita, Rump and Oishi (2005), algorithm 4.8 with K = FOLDS."""
    p = np.moveaxis(x, -1, 0).copy()
    for _ in range(FOLDS - 1):
        for i in range(1, p.shape[0]):
            p[i], p[i - 1] = _two_sum(p[i], p[i - 1], fmt, options)
    rest = reductions.sum(p[:-1], fmt, axis=0, **options)
    return add(rest, p[-1], fmt, **options)


def _two_sum(a, b, fmt, options):
    """(a + b, its rounding error), Knuth's six operations, each rounded to fmt."""
    s = add(a, b, fmt, **options)
    z = subtract(s, a, fmt, **options)
    left = subtract(a, subtract(s, z, fmt, **options), fmt, **options)
    return s, add(left, subtract(b, z, fmt, **options), fmt, **options)


def _bound(algorithm, n, u):
    """The worst relative error of a sum of positive terms, to first order; None where it is not known to us."""
    n = np.asarray(n, float)
    return {
        "recursive": (n - 1) * u,
        "sorted": (n - 1) * u,
        "pairwise": np.ceil(np.log2(n)) * u,
        "blocked": (np.minimum(n, BLOCK) + np.ceil(n / BLOCK) - 2).clip(min=1) * u,
        "fabsum": np.minimum(n, BLOCK) * u,
        "kahan": 2 * u + n * u * u,
        "neumaier": u + (n * u) ** 2,
        "exact": u + 0 * n,
    }.get(algorithm)


def sum_algorithms(fmt="binary32", n=131072, *, trials=5, rounding="ties_to_even", seed=0):
    """Relative error of summation algorithms on uniform terms in [0, 1), against the number of terms.

    Table: n, and for each algorithm the root mean square over the trials.
    """
    fmt, rounding, trials = as_floating(fmt), as_rounding(rounding), checked_count("trials", trials)
    sizes, names = sizes_up_to(n, 128, 2), [*ALGORITHMS, "sorted", "exact"]
    terms = quantize(uniform(seed, trials, sizes[-1]), fmt)
    exact = {size: exact_sum(terms[:, :size], None, axis=1) for size in sizes}

    def error(key):
        name, size = key
        got = sum_by(name, np.ascontiguousarray(terms[:, :size]), fmt, rounding=rounding, seed=seed)
        return math.sqrt(np.mean(relative_error(got, exact[size]) ** 2))

    keys = [(name, size) for name in names for size in sizes]
    found = np.reshape(measured("algorithms", keys, error), (len(names), len(sizes)))
    u, chosen = roundoff(fmt, rounding), ("recursive", "fabsum")
    floor = 2.0 ** -(fmt.precision + 6)
    lines = [
        Line(name, sizes, np.maximum(row, floor)) for name, row in zip(names, found, strict=True)
    ]
    lines += [
        Line(f"bound of {b}", sizes, np.minimum(_bound(b, sizes, u), 1), BOUND) for b in chosen
    ]
    return Study(
        name="sum_algorithms",
        title=f"Summation algorithms in {fmt.label}",
        caption=(
            f"{fmt.label}, {rounding}; uniform terms, root mean square of {trials} draws (seed {seed}); blocks of "
            f"{BLOCK}; fabsum adds its blocks in binary64. Errors below {floor:.1g} are drawn there."
        ),
        settings={
            "format": fmt.label,
            "n": sizes[-1],
            "trials": trials,
            "rounding": str(rounding),
            "seed": seed,
        },
        arrays={"n": np.array(sizes), **dict(zip(names, found, strict=True))},
        extra={"bounds": {name: b for name in names if (b := _bound(name, sizes, u)) is not None}},
        panels=(Panel("n", "relative error", tuple(lines), x_scale="log", y_scale="log"),),
    )


def chunked_dot(
    fmt="e6m9", n=65536, *, chunks=(1, 8, 32, 64, 128, 256, 512, 1024), trials=20, seed=0
):
    """A long sum in chunks, in one narrow format, to nearest and stochastic (Wang et al. 2018, figure 3b).

    Terms: uniform with mean 1 and standard deviation 1. Table: chunk, value, error (relative, to nearest), bound
    ((chunk + n/chunk) u). Facts: exact, and the mean, its 95 % interval and the deviation of stochastic rounding
    without chunks.
    """
    fmt, n = as_floating(fmt), checked_count("n", n)
    trials = checked_count("trials", trials)
    half = math.sqrt(3)
    terms = quantize(1 + half * (2 * uniform(seed, n) - 1), fmt)
    exact = exact_sum(terms, None)
    # A chunk of one number is no chunk: the plain sum.
    value = np.array(
        measured(
            "chunks", chunks,
            lambda c: float(reductions.sum(terms, fmt, order="blocked", block=c)),
        )
    )  # fmt: skip
    drawn = measured(
        "stochastic", range(trials),
        lambda t: float(reductions.sum(terms, fmt, rounding="stochastic", seed=seed, stream=t)),
    )  # fmt: skip
    mean, low, high = mean_interval(drawn)
    chunk = np.array(chunks)
    table = {
        "chunk": chunk, "value": value, "error": relative_error(value, np.full(value.size, exact)),
        "bound": (chunk + n / chunk) * fmt.unit_roundoff,
    }  # fmt: skip
    lines = (
        Line("nearest, in chunks", chunk, value),
        Line("exact", chunk, float(exact), REFERENCE),
        Line(
            "stochastic, no chunks: mean and range",
            [chunk[0]],
            [mean],
            low=[min(drawn)],
            high=[max(drawn)],
        ),
    )
    return Study(
        name="chunked_dot",
        title=f"A sum of {n:,} terms in {fmt.label}: chunks save it",
        caption=(
            f"{fmt.label}; uniform terms of mean 1 and standard deviation 1 (seed {seed}); stochastic: {trials} runs "
            f"(streams 0 to {trials - 1}), 95 % interval of the mean {low:.0f} to {high:.0f}."
        ),
        settings={"format": fmt.label, "n": n, "chunks": list(map(int, chunks)), "trials": trials, "seed": seed},
        facts={
            "exact": float(exact), "stochastic_mean": mean, "mean_low": low, "mean_high": high,
            "stochastic_deviation": deviation(drawn),
        },
        arrays=table,
        panels=(Panel("terms in a chunk", "sum", lines, x_scale="log2"),),
    )  # fmt: skip


def condition_sweep(fmt="binary32", n=100, *, algorithms=("recursive", "neumaier", "sumk", "exact"), points=17,
                    trials=5, seed=0):  # fmt: skip
    """Relative error of summation algorithms against the condition number (Ogita, Rump and Oishi 2005, figure 6.1).

    Errors follow u cond, u + u**2 cond and u + u**3 cond, so that each reaches 1 at another power of 1/u. Table:
    condition (geometric mean of the true ones of the trials) and the median error of each algorithm, at most 1.
    """
    fmt, trials = as_floating(fmt), checked_count("trials", trials)
    u = fmt.unit_roundoff
    top = min(FOLDS * fmt.precision + fmt.precision / 2, fmt.emax - 4)
    targets = 2.0 ** np.linspace(4, top, checked_count("points", points, 2))

    def errors(target):
        rows = np.stack(
            [ill_conditioned_sum(n, target, fmt, seed=[seed, t]) for t in range(trials)]
        )
        exact = exact_sum(rows, None, axis=1)
        conditions = [sum_condition(row) for row in rows]
        found = [
            float(np.median(np.minimum(relative_error(sum_by(a, rows, fmt), exact), 1)))
            for a in algorithms
        ]
        return [float(np.exp(np.mean(np.log(conditions)))), *found]

    rows = sorted(measured("conditions", targets.tolist(), errors))
    condition, *columns = np.array(rows).T
    floor = u / 64
    lines = [
        Line(a, condition, np.maximum(c, floor)) for a, c in zip(algorithms, columns, strict=True)
    ]
    for k in (1, 2, 3):
        bound = np.minimum(condition * u**k + (u if k > 1 else 0), 1)
        lines.append(Line(f"cond u^{k}" if k > 1 else "cond u", condition, bound, BOUND))
    return Study(
        name="condition_sweep",
        title=f"Error against condition number, {fmt.label}: each algorithm has its knee",
        caption=(
            f"{fmt.label}, sums of {n} generated terms, median of {trials} draws for each condition number "
            f"(seed {seed}); errors above 1 count as 1, those below {floor:.1g} are drawn there."
        ),
        settings={
            "format": fmt.label,
            "n": n,
            "trials": trials,
            "seed": seed,
            "algorithms": list(algorithms),
        },
        arrays={"condition": condition, **dict(zip(algorithms, columns, strict=True))},
        panels=(
            Panel("condition number", "relative error", tuple(lines), x_scale="log", y_scale="log"),
        ),
    )
