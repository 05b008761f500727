"""Summation algorithms compared: by the number of terms, by the size of chunks, by the condition number.

Sources: Higham (2002), ch. 4; Blanchard, Higham and Mary, A class of fast and accurate summation algorithms (2020), for
FABsum; Ogita, Rump and Oishi, Accurate sum and dot product (2005), for SumK and Dot2; Wang et al., Training deep neural
networks with 8-bit floating point numbers (2018), for chunks. softfloat.analysis.compensated names those of the others.
"""

import math

import numpy as np

from softfloat import products, reductions
from softfloat.analysis.compensated import FOLDS, KERNELS, by_kernel
from softfloat.analysis.exact import exact_dot, exact_sum
from softfloat.analysis.generators import ill_conditioned_dot, ill_conditioned_sum
from softfloat.analysis.growth import sizes_up_to
from softfloat.analysis.measures import dot_condition, relative_error, sum_condition
from softfloat.analysis.orders import roundoff
from softfloat.analysis.result import (
    BOUND,
    REFERENCE,
    Line,
    Panel,
    Published,
    Study,
    measured,
)
from softfloat.analysis.statistics import (
    as_floating,
    checked_choice,
    checked_count,
    deviation,
    is_nearest,
    mean_interval,
    options_of,
    uniform,
)
from softfloat.functional import quantize
from softfloat.operands import as_values, keeps_format
from softfloat.rounding import as_rounding

BLOCK = 128

# name: options of softfloat.sum.
ORDERS = {
    "recursive": {},
    "blocked": {"order": "blocked", "block": BLOCK},
    "pairwise": {"order": "pairwise"},
    "lanes": {"order": "lanes"},
    "fabsum": {"order": "blocked", "block": BLOCK, "outer": "binary64"},
    "kahan": {"order": "kahan"},
    "neumaier": {"order": "neumaier"},
}
# In the two panels of the figures: the error grows with n and with the condition number, or is compensated.
PLAIN_SUMS = ("recursive", "sorted", "blocked", "lanes", "pairwise", "fabsum", "kahan")
ACCURATE_SUMS = ("neumaier", "klein", "priest", "sumk", "accsum", "exact")
SUMS = (*PLAIN_SUMS, *ACCURATE_SUMS)
PLAIN_DOTS = ("recursive", "fused", "pairwise", "blocked")
ACCURATE_DOTS = ("dot2", "dot3", "exact")
DOTS = (*PLAIN_DOTS, *ACCURATE_DOTS)


@keeps_format
def sum_by(algorithm, x, fmt, *, rounding="ties_to_even", seed=0):
    """The sum along the last axis by a named algorithm, every operation rounded to fmt.

    x : values of fmt.   algorithm : of softfloat.sum, "recursive", "blocked", "pairwise", "lanes", "fabsum" (blocks
    added in binary64), "kahan" and "neumaier"; "sorted" (recursive, ascending magnitudes); "klein" (compensated twice);
    "priest" (doubly compensated, descending magnitudes); "sumk" (SumK with K = 3); "accsum" (faithful for at most
    2**(p/2) - 2 terms); "exact" (rounded once).
    Raises ValueError for an unknown algorithm, and for terms beyond the domain of "accsum".
    """
    checked_choice("algorithm", algorithm, SUMS)
    fmt, options = as_floating(fmt), options_of(rounding, seed)
    x = _float_values(x)
    if algorithm == "exact":
        return exact_sum(x, fmt, axis=-1, **options)
    if algorithm in ("sorted", "priest"):
        size = np.abs(x) if algorithm == "sorted" else -np.abs(x)
        x = np.take_along_axis(x, np.argsort(size, axis=-1, kind="stable"), axis=-1)
    if algorithm in KERNELS:
        if algorithm == "accsum" and not accsum_takes(x, fmt):
            raise ValueError(
                f"accsum in {fmt.label} takes at most {_accsum_terms(fmt)} terms, with room for their number beside "
                f"the largest below 2**{fmt.emax}, got {x.shape[-1]}; use another algorithm or a wider format"
            )
        return by_kernel(algorithm, x, x, fmt, options)
    return reductions.sum(x, fmt, axis=-1, **ORDERS.get(algorithm, {}), **options)


@keeps_format
def dot_by(algorithm, x, y, fmt, *, rounding="ties_to_even", seed=0):
    """The inner product along the last axis, of arrays of one shape, by a named algorithm in fmt; as `sum_by`.

    algorithm : "recursive", "pairwise", "blocked" (products rounded); "fused" (by fma); "dot2" and "dot3" (Dot2, and
    DotK with K = 3: as if in twice and three times the precision); "exact" (rounded once).
    """
    checked_choice("algorithm", algorithm, DOTS)
    fmt, options = as_floating(fmt), options_of(rounding, seed)
    x, y = _float_values(x), _float_values(y)
    if x.shape != y.shape or not x.ndim:
        raise ValueError(f"dot_by takes arrays of one shape, got shapes {x.shape} and {y.shape}")
    if algorithm == "exact":
        return exact_dot(x, y, fmt, **options)
    if algorithm in KERNELS:
        return by_kernel(algorithm, x, y, fmt, options)
    how = {"fma": True} if algorithm == "fused" else ORDERS[algorithm]
    return products.matmul(x[..., None, :], y[..., :, None], fmt, **how, **options)[..., 0, 0]


def _float_values(x):
    value, _ = as_values(x)
    if not isinstance(value, np.ndarray):
        raise TypeError(
            "the terms are numbers that no float64 holds; round them first, with softfloat.quantize"
        )
    return value


def _accsum_terms(fmt):
    return max(0, (1 << fmt.precision // 2) - 2)


def accsum_takes(x, fmt):
    """Whether AccSum's conditions hold: 2**(2 M) u <= 1, M = ceil(log2(n + 2)), and 2**M max |x| within the range."""
    n = x.shape[-1]
    if n > _accsum_terms(fmt):
        return False
    largest = float(np.abs(x).max(initial=0.0))
    bits = math.ceil(math.log2(n + 2))
    return not 0 < largest < math.inf or math.frexp(largest)[1] + bits <= fmt.emax


def _bound(algorithm, n, fmt, rounding):
    """The worst relative error of a sum of positive terms, to first order; None where it is not known to us.

    Those of compensated sums hold to nearest. Higham (2002), ch. 4; Klein (2006): of order (n u)**3; Ogita, Rump and
    Oishi (2005); Rump, Ogita and Oishi (2008).
    """
    n, u = np.asarray(n, float), roundoff(fmt, rounding)
    found = {
        "recursive": (n - 1) * u,
        "sorted": (n - 1) * u,
        "pairwise": np.ceil(np.log2(n)) * u,
        "blocked": (np.minimum(n, BLOCK) + np.ceil(n / BLOCK) - 2).clip(min=1) * u,
        "fabsum": np.minimum(n, BLOCK) * u,
        "exact": u + 0 * n,
    }
    if is_nearest(rounding):
        found |= {
            "kahan": 2 * u + n * u * u,
            "neumaier": u + (n * u) ** 2,
            "klein": u + (n * u) ** 2 * u + (n * u) ** 3,
            "priest": np.where(n <= 2.0 ** (fmt.precision - 3), 2 * u, np.nan),
            "sumk": u + 3 * (n * u) ** 2 * u + (2 * n * u) ** FOLDS,
            "accsum": np.where(n <= _accsum_terms(fmt), 2 * u, np.nan),
        }
    return found.get(algorithm)


def _algorithm_panels(names, groups, x, found, floor, bounds, label):
    """A panel for each group of algorithms, with the bounds [(group, Line)] that belong there."""
    panels = []
    for number, (title, group) in enumerate(groups):
        lines = [
            Line(name, x, np.maximum(row, floor))
            for name, row in zip(names, found, strict=True)
            if name in group
        ]
        if lines:
            lines += [line for where, line in bounds if where == number]
            panels.append(
                Panel(
                    label, "relative error", tuple(lines), x_scale="log", y_scale="log", title=title
                )
            )
    return tuple(panels)


def sum_algorithms(
    fmt="binary32", n=131072, *, algorithms=SUMS, trials=5, rounding="ties_to_even", seed=0
):
    """Relative error of summation algorithms on uniform terms in [0, 1), against the number of terms.

    Table: n, and for each algorithm the root mean square over the trials; NaN where "accsum" does not apply.
    """
    fmt, rounding, trials = as_floating(fmt), as_rounding(rounding), checked_count("trials", trials)
    sizes, names = sizes_up_to(n, 128, 2), _chosen(algorithms, SUMS)
    terms = quantize(uniform(seed, trials, sizes[-1]), fmt)
    exact = {size: exact_sum(terms[:, :size], None, axis=1) for size in sizes}

    def error(key):
        name, size = key
        x = np.ascontiguousarray(terms[:, :size])
        if name == "accsum" and not accsum_takes(x, fmt):
            return math.nan
        got = sum_by(name, x, fmt, rounding=rounding, seed=seed)
        return math.sqrt(np.mean(relative_error(got, exact[size]) ** 2))

    keys = [(name, size) for name in names for size in sizes]
    found = np.reshape(measured("algorithms", keys, error), (len(names), len(sizes)))
    floor = 2.0 ** -(fmt.precision + 6)
    known = {name: b for name in names if (b := _bound(name, sizes, fmt, rounding)) is not None}
    bounds = [
        (int(b in ACCURATE_SUMS), Line(f"bound of {b}", sizes, np.minimum(known[b], 1), BOUND))
        for b in ("recursive", "fabsum", "kahan", "neumaier", "klein", "priest")
        if b in known
    ]
    groups = (
        ("orders, and Kahan's sum", PLAIN_SUMS),
        ("error-free transformations", ACCURATE_SUMS),
    )
    return Study(
        name="sum_algorithms",
        title=f"Summation algorithms in {fmt.label}",
        caption=(
            f"{fmt.label}, {rounding}; uniform terms, root mean square of {trials} draws (seed {seed}); blocks of "
            f"{BLOCK}; fabsum adds its blocks in binary64; accsum takes up to {_accsum_terms(fmt):,} terms. Errors "
            f"below {floor:.1g} are drawn there; bounds are of the worst case, to first order."
        ),
        settings={"format": fmt.label, "n": sizes[-1], "algorithms": names, "trials": trials,
                  "rounding": str(rounding), "seed": seed},
        arrays={"n": np.array(sizes), **dict(zip(names, found, strict=True))},
        extra={"bounds": known},
        panels=_algorithm_panels(names, groups, sizes, found, floor, bounds, "n"),
        published=tuple(_published_growth(sizes, dict(zip(names, found, strict=True)))),
    )  # fmt: skip


def _chosen(algorithms, known):
    """A list of names from a list, or from names with commas between."""
    if isinstance(algorithms, str):
        algorithms = [name.strip() for name in algorithms.split(",") if name.strip()]
    names = [checked_choice("algorithm", name, known) for name in algorithms]
    if not names:
        raise ValueError(f"give at least one algorithm; choose from {', '.join(known)}")
    return list(dict.fromkeys(names))


def _published_growth(sizes, found):
    source = "Blanchard, Higham and Mary (2020): n u against b u, for any n"
    for name, value in (("recursive", "grows with n"), ("fabsum", "does not grow with n")):
        if name in found:
            first, last = found[name][0], found[name][-1]
            ours = f"{first:.2g} at {sizes[0]:,}, {last:.2g} at {sizes[-1]:,}"
            yield Published(f"error of {name}", value, source, ours)


def chunked_dot(
    fmt="e6m9",
    n=65536,
    *,
    chunks=(1, 8, 32, 64, 128, 256, 512, 1024),
    rounding="ties_to_even",
    trials=20,
    seed=0,
):
    """A long sum in chunks, in one narrow format, rounded as told and stochastic (Wang et al. 2018, figure 3b).

    Terms: uniform with mean 1 and standard deviation 1. Table: chunk, value, error (relative), bound ((chunk + n/chunk)
    u, times sum |x| / |sum x|, at most 1). Facts: exact, and the mean, its 95 % interval and the deviation of
    stochastic rounding without chunks.
    """
    fmt, n, rounding = as_floating(fmt), checked_count("n", n), as_rounding(rounding)
    trials, chunks = checked_count("trials", trials), [checked_count("a chunk", c) for c in chunks]
    half = math.sqrt(3)
    terms = quantize(1 + half * (2 * uniform(seed, n) - 1), fmt)
    exact = exact_sum(terms, None)
    # A chunk of one number is no chunk: the plain sum.
    options = options_of(rounding, seed, trials)  # a stream that no trial has
    value = np.array(
        measured(
            "chunks", chunks,
            lambda c: float(reductions.sum(terms, fmt, order="blocked", block=c, **options)),
        )
    )  # fmt: skip
    drawn = measured(
        "stochastic", range(trials),
        lambda t: float(reductions.sum(terms, fmt, rounding="stochastic", seed=seed, stream=t)),
    )  # fmt: skip
    mean, low, high = mean_interval(drawn)
    chunk = np.array(chunks)
    worst = (chunk + n / chunk) * roundoff(fmt, rounding) * sum_condition(terms)
    table = {
        "chunk": chunk, "value": value, "error": relative_error(value, np.full(value.size, exact)),
        "bound": np.minimum(worst, 1),
    }  # fmt: skip
    off = relative_error(drawn, np.full(trials, exact))
    lines = (
        Line("in chunks", chunk, value),
        Line("exact", chunk, float(exact), REFERENCE),
        Line("stochastic, no chunks: mean and range", [chunk[0]], [mean], low=[min(drawn)], high=[max(drawn)]),
    )  # fmt: skip
    errors = (
        Line("in chunks", chunk, table["error"]),
        Line("stochastic, no chunks: mean and range", [chunk[0]], [off.mean()], low=[off.min()], high=[off.max()]),
        Line("(chunk + n/chunk) u", chunk, table["bound"], BOUND),
    )  # fmt: skip
    published = ()
    if fmt == as_floating("e6m9") and is_nearest(rounding) and 1 in chunks and n >= 8192:
        ours = f"{value[chunks.index(1)]:g} of {float(exact):.0f}"
        source = "Wang et al. (2018), figure 3b, as recalled"
        published = (Published("sum without chunks stops at", "4096", source, ours),)
    return Study(
        name="chunked_dot",
        title=f"A sum of {n:,} terms in {fmt.label}: chunks save it",
        caption=(
            f"{fmt.label}, {rounding}; uniform terms of mean 1 and deviation 1 (seed {seed}); stochastic: {trials} "
            f"runs (streams 0 to {trials - 1}), 95 % interval of the mean {low:.0f} to {high:.0f}."
        ),
        settings={"format": fmt.label, "n": n, "chunks": chunks, "rounding": str(rounding), "trials": trials,
                  "seed": seed},
        facts={
            "exact": float(exact), "stochastic_mean": mean, "mean_low": low, "mean_high": high,
            "stochastic_deviation": deviation(drawn),
        },
        arrays=table,
        panels=(
            Panel("terms in a chunk", "sum", lines, x_scale="log2"),
            Panel("terms in a chunk", "relative error", errors, x_scale="log2", y_scale="log"),
        ),
        published=published,
    )  # fmt: skip


def condition_sweep(fmt="binary32", n=100, *, problem="sum", algorithms=None, points=17, trials=5,
                    rounding="ties_to_even", seed=0):  # fmt: skip
    """Relative error of sums or inner products against the condition number (Ogita, Rump and Oishi 2005, figure 6.1).

    problem : "sum" or "dot".   algorithms : those of `sum_by` or `dot_by`, by default all.
    Errors follow u cond, u + u**2 cond and u + u**3 cond, so that each reaches 1 at another power of 1/u. Table:
    condition (geometric mean of the true ones of the trials) and the median error of each algorithm, at most 1.
    """
    fmt, trials, rounding = as_floating(fmt), checked_count("trials", trials), as_rounding(rounding)
    checked_choice("problem", problem, ("sum", "dot"))
    known = SUMS if problem == "sum" else DOTS
    names = _chosen(known if algorithms is None else algorithms, known)
    u = fmt.unit_roundoff
    room = 2 if problem == "dot" else 1  # each factor takes half the digits of the condition number
    top = min(FOLDS * fmt.precision + fmt.precision / 2, room * (fmt.emax - 4))
    if top < 5 or fmt.emin > -fmt.precision:
        raise ValueError(
            f"{fmt.label} has too few digits or too narrow a range, 2**{fmt.emin} to 2**{fmt.emax}, for several "
            "condition numbers; use a wider format"
        )
    targets = 2.0 ** np.linspace(4, top, checked_count("points", points, 2))

    def errors(target):
        rows = [_problem(problem, n, target, fmt, [seed, t]) for t in range(trials)]
        x, y = (np.stack(part) for part in zip(*rows, strict=True))
        if problem == "sum":
            exact, conditions = exact_sum(x, None, axis=1), [sum_condition(row) for row in x]
        else:
            exact = exact_dot(x, y, None)
            conditions = [dot_condition(*pair) for pair in zip(x, y, strict=True)]
        found = []
        for name in names:
            if name == "accsum" and not accsum_takes(x, fmt):
                found.append(math.nan)
                continue
            how = {"rounding": rounding, "seed": seed}
            got = (
                sum_by(name, x, fmt, **how) if problem == "sum" else dot_by(name, x, y, fmt, **how)
            )
            with np.errstate(invalid="ignore"):
                error = np.nan_to_num(relative_error(got, exact), nan=1.0, posinf=1.0)
            found.append(float(np.median(np.minimum(error, 1))))
        return [float(np.exp(np.mean(np.log(conditions)))), *found]

    rows = sorted(measured(problem, targets.tolist(), errors))
    condition, *columns = np.array(rows).T
    floor = u / 64
    bounds = []
    for where, k in ((0, 1), (1, 2), (1, 3)):
        bound = np.minimum(condition * u**k + (u if k > 1 else 0), 1)
        label = "cond u" if k == 1 else f"u + cond u^{k}"
        bounds.append((where, Line(label, condition, bound, BOUND)))
    plain = PLAIN_SUMS if problem == "sum" else PLAIN_DOTS
    accurate = [name for name in known if name not in plain]
    groups = (("one rounding after the other", plain), ("error-free transformations", accurate))
    what = "sums" if problem == "sum" else "inner products"
    return Study(
        name="condition_sweep",
        title=f"Error of {what} against condition number, {fmt.label}: each algorithm has its knee",
        caption=(
            f"{fmt.label}, {rounding}, {what} of {n} generated terms, median of {trials} draws for each condition "
            f"number (seed {seed}); errors above 1 count as 1, those below {floor:.1g} are drawn there."
        ),
        settings={"format": fmt.label, "n": n, "problem": problem, "algorithms": names, "points": len(targets),
                  "trials": trials, "rounding": str(rounding), "seed": seed},
        arrays={"condition": condition, **dict(zip(names, columns, strict=True))},
        panels=_algorithm_panels(names, groups, condition, columns, floor, bounds, "condition number"),
        published=tuple(_published_knees(names, condition, columns, u)),
    )  # fmt: skip


def _problem(problem, n, target, fmt, seed):
    if problem == "dot":
        return ill_conditioned_dot(n, target, fmt, seed=seed)
    x = ill_conditioned_sum(n, target, fmt, seed=seed)
    return x, x


def _published_knees(names, condition, columns, u):
    source = "Ogita, Rump and Oishi (2005), figure 6.1, as recalled"
    powers = {"recursive": 1, "neumaier": 2, "dot2": 2, "sumk": 3, "dot3": 3}
    for name, column in zip(names, columns, strict=True):
        if name in powers:
            knee = next((c for c, e in zip(condition, column, strict=True) if e >= 0.5), None)
            ours = "beyond the figure" if knee is None else f"u^{math.log(knee) / math.log(u):.2f}"
            yield Published(
                f"{name}: no digit is right from condition", f"u^-{powers[name]}", source, ours
            )
