"""How the error of a sum grows with its length: to nearest in proportion to n, or until it stops; stochastic, sqrt(n).

Sources: Higham (2002), ch. 4, for n u; Higham and Mary, A new approach to probabilistic rounding error analysis (2019),
and Connolly, Higham and Mary, Stochastic rounding and its probabilistic backward error analysis (2021), for sqrt(n) u;
Croci et al., Stochastic rounding: implementation, error analysis and applications (2022), section 8, for the problems.
"""

import math

import numpy as np

from softfloat import products, reductions
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.measures import dot_backward_error, relative_error
from softfloat.analysis.orders import roundoff
from softfloat.analysis.result import BOUND, REFERENCE, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    as_floating,
    checked_choice,
    checked_count,
    is_nearest,
    is_stochastic,
    options_of,
    uniform,
)
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.functional import divide, quantize
from softfloat.rounding import as_rounding

CHUNK = 1 << 16
HARMONIC_FORMATS = ("e3m4", "float8_e5m2", "float8_e4m3fn", "bfloat16", "binary16", "binary32")
SERIES = {
    "harmonic": lambda k, fmt: divide(1.0, k, fmt),
    "counting": lambda k, fmt: np.ones(k.size),
    "tenth": lambda k, fmt: np.full(k.size, float(quantize("0.1", fmt))),
}
CROCI = "Croci et al. (2022), section 8"
# What others found: (format, mode): value, first term without effect, source.
KNOWN = {
    ("e3m4", "ties_to_even"): (3.5, 16, "Higham and Pranesh (2019), as recalled"),
    ("bfloat16", "ties_to_even"): (5.0625, 65, "Higham and Pranesh (2019), as recalled"),
    ("binary16", "ties_to_even"): (7.0859375, 513, "Higham and Pranesh (2019), as recalled"),
    ("binary32", "ties_to_even"): (15.403682708740234, 2097152, "Malone (2013)"),
}


def formats_of(fmt, read=as_format):
    """A list of formats from one, from several, or from names with commas between; `read` turns one into a format."""
    if isinstance(fmt, str):
        fmt = [name.strip() for name in fmt.split(",") if name.strip()]
    formats = [read(f) for f in (fmt if isinstance(fmt, (list, tuple)) else [fmt])]
    if not formats:
        raise ValueError("give at least one format, such as bfloat16,binary16")
    return formats


def sizes_up_to(n, first=10, per_decade=2):
    """Numbers from `first` to n, evenly spaced in the logarithm; n is one of them."""
    n = checked_count("n", n, 2)
    steps = max(1, round(per_decade * math.log10(max(n / first, 1))))
    return sorted({int(round(v)) for v in np.geomspace(min(first, n), n, steps + 1)})


# ---------------------------------------------------------------- where a sum stops
def harmonic(
    fmt=HARMONIC_FORMATS, *, series="harmonic", rounding="ties_to_even", n=1 << 22, seed=0
):
    """Where the running sum of a series of positive terms, all rounded to a format, stops to grow.

    series : "harmonic" (fl(1/k)), "counting" (ones) or "tenth" (fl(0.1)).   n : terms at most.
    Table: format, value, last_change (the last term that changes the sum), stops_at (the next one), reached_n
    (True where the sum still grew at the end), and theory: the terms after which the next is below what moves the sum
    (half an ulp to nearest, one toward zero or down), NaN where the rounding or the series gives no such number.
    """
    checked_choice("series", series, SERIES)
    rounding, n = as_rounding(rounding), checked_count("n", n)
    by_label = {f.label: f for f in formats_of(fmt)}
    found = measured(
        series, list(by_label), lambda name: _stop(by_label[name], series, rounding, n, seed)
    )
    values, last = [float(v) for v, _ in found], [int(k) for _, k in found]
    labels = list(by_label)
    table = {
        "format": labels,
        "value": values,
        "last_change": last,
        "stops_at": [k + 1 for k in last],
        "reached_n": [k >= n for k in last],
        "theory": [_theory(by_label[f], v, series, rounding) for f, v in zip(labels, values, strict=True)],
    }  # fmt: skip
    lines = [Line("last term that changes the sum", labels, last)]
    if not all(map(math.isnan, table["theory"])):
        lines.append(Line("theory: later terms are too small", labels, table["theory"], BOUND))
    known = [KNOWN.get((f, str(rounding)), (0, math.nan))[1] - 1 for f in labels]
    if series == "harmonic" and not all(map(math.isnan, known)):
        lines.append(Line("published", labels, known, REFERENCE))
    return Study(
        name="harmonic",
        title=f"Where the {series} series stops"
        if series != "tenth"
        else "Where the sum of 0.1 stops",
        caption=f"Sequential sums of the {series} series, every term and sum rounded, {rounding}; at most {n:,} terms.",
        settings={
            "series": series,
            "formats": labels,
            "rounding": str(rounding),
            "n": n,
            "seed": seed,
        },
        arrays=table,
        panels=(Panel("format", "term number", tuple(lines), y_scale="log", kind="bars"),),
        published=tuple(_published(series, str(rounding), table)),
    )


def _theory(fmt, s, series, rounding):
    """1 / t, with t the largest term that cannot change the sum s; NaN where that is not known."""
    down = str(rounding) in ("toward_zero", "toward_negative")
    if series != "harmonic" or not (is_nearest(rounding) or down) or not 0 < s < math.inf:
        return math.nan
    ulp = (
        fmt.resolution
        if not isinstance(fmt, Format)
        else max(math.ulp(s) * 2.0 ** (53 - fmt.precision), fmt.smallest_subnormal)
    )
    return (1 if down else 2) / ulp


def _stop(fmt, series, rounding, n, seed):
    """[the sum in the end, the last term that changed it]."""
    s, last, stochastic = 0.0, 0, is_stochastic(rounding)
    for first in range(1, n + 1, CHUNK):
        k = np.arange(first, min(n + 1, first + CHUNK), dtype=np.float64)
        terms = np.concatenate(([s], SERIES[series](k, fmt)))
        running = reductions.cumsum(terms, fmt, **options_of(rounding, seed, first)).astype(float)
        changed = np.flatnonzero(running[1:] != running[:-1])
        s = float(running[-1])
        if changed.size:
            last = first + int(changed[-1])
        elif not stochastic:
            break  # the terms do not grow: what one leaves unchanged, no later one changes
        if not math.isfinite(s):
            break
    return [s, last]


def _published(series, rounding, table):
    for label, value, stop in zip(table["format"], table["value"], table["stops_at"], strict=True):
        if series == "harmonic" and (label, rounding) in KNOWN:
            known, index, source = KNOWN[label, rounding]
            yield Published(
                f"{label}: sum, first term lost",
                f"{known!r}, {index:,}",
                source,
                f"{value!r}, {stop:,}",
            )


# ---------------------------------------------------------------- error against n
def stagnation(fmt="binary16", n=10**6, *, trials=10, series="harmonic", factor=1.0, seed=0):
    """Relative error of a running sum against its length, to nearest and stochastic.

    series : "harmonic" (fl(1/k)) or "uniform" (in [0, 1)).   trials : seeds of stochastic rounding.   factor : the l of
    the probabilistic bound, which holds with probability 1 - 2 exp(-l**2 / 2).
    Table: n, nearest, stochastic (root mean square), worst (largest), deterministic_bound (gamma_n with u, at most 1)
    and probabilistic_bound (exp(l sqrt(n) 2u + n (2u)**2 / (1 - 2u)) - 1).
    """
    fmt, trials = as_floating(fmt), checked_count("trials", trials)
    checked_choice("series", series, ("harmonic", "uniform"))
    sizes = np.array(sizes_up_to(n))
    if series == "harmonic":
        terms = divide(1.0, np.arange(1.0, sizes[-1] + 1), fmt)
    else:
        terms = quantize(uniform(seed, sizes[-1]), fmt)
    edges = np.concatenate(([0], sizes))
    parts = [exact_sum(terms[a:b], None) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    exact = np.array([sum(parts[: i + 1]) for i in range(len(parts))], object)

    def errors(trial):
        options = {} if trial < 0 else {"rounding": "stochastic", "seed": seed, "stream": trial}
        running = reductions.cumsum(terms, fmt, **options)[sizes - 1]
        return relative_error(running, exact)

    nearest, *drawn = np.array(measured(series, range(-1, trials), errors))
    drawn = np.array(drawn)
    u = fmt.unit_roundoff
    table = {
        "n": sizes,
        "nearest": nearest,
        "stochastic": np.sqrt(np.mean(drawn**2, axis=0)),
        "worst": drawn.max(axis=0),
        "deterministic_bound": growth_bound(sizes, u),
        "probabilistic_bound": probable_bound(sizes, 2 * u, factor),
    }
    what = "the harmonic series" if series == "harmonic" else f"uniform terms (seed {seed})"
    return Study(
        name="stagnation",
        title=f"Error of a long sum in {fmt.label}: nearest {nearest[-1]:.3g}, "
        f"stochastic {table['stochastic'][-1]:.2g} at n = {sizes[-1]:,}",
        caption=(
            f"Sequential sums of {what} in {fmt.label}; stochastic: root mean square of {trials} runs "
            f"(seed {seed}, streams 0 to {trials - 1}), the band their range. {_with_probability(factor)}"
        ),
        settings={"format": fmt.label, "n": int(sizes[-1]), "trials": trials, "series": series, "factor": factor,
                  "seed": seed},
        facts={"nearest_at_n": float(nearest[-1]), "mean_at_n": float(drawn[:, -1].mean()),
               "worst_at_n": float(drawn[:, -1].max())},
        arrays=table,
        panels=(_growth_panel(table, "relative error", drawn, "gamma_n", "of order sqrt(n) 2u"),),
        published=(
            Published(f"error to nearest at n = {sizes[-1]:,}", "grows to order 1", CROCI, f"{nearest[-1]:.3g}"),
            Published(f"stochastic error at n = {sizes[-1]:,}", "about 1e-2 in binary16", CROCI,
                      f"mean {drawn[:, -1].mean():.2g}, worst {drawn[:, -1].max():.2g}"),
        ) if series == "harmonic" and sizes[-1] >= 10**5 else (),
    )  # fmt: skip


def _with_probability(factor):
    """What a caption says of a bound with this l."""
    if not (isinstance(factor, (int, float)) and factor > 0):
        raise ValueError(f"factor must be a positive number, got {factor!r}")
    chance = 1 - 2 * math.exp(-(factor**2) / 2)
    if chance <= 0:
        return f"Probabilistic bound with l = {factor:g}: the order of the growth, no guarantee."
    return (
        f"Probabilistic bound with l = {factor:g}: it holds with probability {chance:.3g} or more."
    )


def growth_bound(sizes, u):
    """gamma_n = n u / (1 - n u), at most 1."""
    product = np.asarray(sizes) * u
    return np.where(product < 0.5, product / np.maximum(1 - product, 0.5), 1.0).clip(max=1.0)


def probable_bound(sizes, u, factor):
    """exp(l sqrt(n) u + n u**2 / (1 - u)) - 1, Connolly, Higham and Mary (2021), at most 1."""
    sizes = np.asarray(sizes, float)
    if u >= 1:
        return np.ones(sizes.size)
    return np.expm1(np.minimum(factor * np.sqrt(sizes) * u + sizes * u * u / (1 - u), 1.0)).clip(
        max=1.0
    )


def _growth_panel(table, label, drawn, first, second):
    lines = (
        Line("nearest", table["n"], table["nearest"]),
        Line(
            "stochastic",
            table["n"],
            table["stochastic"],
            low=drawn.min(axis=0),
            high=table["worst"],
        ),
        Line(first, table["n"], table["deterministic_bound"], BOUND),
        Line(second, table["n"], table["probabilistic_bound"], BOUND),
    )
    if "stochastic_bound" in table:
        lines += (Line("sqrt(n) 2u, stochastic", table["n"], table["stochastic_bound"], BOUND),)
    return Panel("n", label, lines, x_scale="log", y_scale="log")


def matvec_backward(fmt="binary16", n=10**4, *, rows=100, trials=3, seed=0):
    """Backward error of y = A x, every operation rounded: max_i |y - A x|_i / (|A| |x|)_i, nearest and stochastic.

    A is rows by n, 1e-3 times uniform, x uniform in [0, 1); both are rounded to fmt first (Croci et al. 2022).
    Table: n, nearest, stochastic (mean of the trials), worst, deterministic_bound (gamma_n), probabilistic_bound
    (sqrt(n) u) and stochastic_bound (l sqrt(n) 2u of Connolly, Higham and Mary 2021, with l = 1), each at most 1.
    """
    fmt, trials = as_floating(fmt), checked_count("trials", trials)
    sizes = sizes_up_to(n)
    rng = np.random.default_rng(seed)
    matrix = quantize(1e-3 * rng.random((checked_count("rows", rows), sizes[-1])), fmt)
    x = quantize(rng.random(sizes[-1]), fmt)

    def errors(size):
        a, b = np.ascontiguousarray(matrix[:, :size]), x[:size]
        runs = [products.matmul(a, b, fmt)]
        for trial in range(trials):
            runs.append(products.matmul(a, b, fmt, rounding="stochastic", seed=seed, stream=trial))
        return [float(dot_backward_error(y, a, b).max()) for y in runs]

    found = np.array(measured("sizes", sizes, errors)).T
    u = fmt.unit_roundoff
    table = {
        "n": np.array(sizes), "nearest": found[0], "stochastic": found[1:].mean(axis=0),
        "worst": found[1:].max(axis=0), "deterministic_bound": growth_bound(sizes, u),
        "probabilistic_bound": np.minimum(np.sqrt(sizes) * u, 1),
        "stochastic_bound": np.minimum(2 * np.sqrt(sizes) * u, 1),
    }  # fmt: skip
    left = next(
        (s for s, e, b in zip(sizes, found[0], table["probabilistic_bound"], strict=True) if e > b),
        None,
    )
    return Study(
        name="matvec_backward",
        title=f"Backward error of a matrix times a vector in {fmt.label}",
        caption=(
            f"{fmt.label}; A of {rows} rows, 1e-3 uniform, x uniform (seed {seed}); the largest row counts. "
            f"Stochastic: mean of {trials} runs (streams 0 to {trials - 1}), the band their range. "
            "The bounds of order sqrt(n) u are drawn with l = 1: the order of the growth, no guarantee."
        ),
        settings={
            "format": fmt.label,
            "n": sizes[-1],
            "rows": rows,
            "trials": trials,
            "seed": seed,
        },
        arrays=table,
        panels=(_growth_panel(table, "largest backward error", found[1:], "gamma_n", "sqrt(n) u"),),
        published=(
            Published("to nearest it leaves sqrt(n) u", f"near n = 1/u = {1 / u:,.0f}", CROCI,
                      "not up to the largest n" if left is None else f"at n = {left:,}"),
        ),
    )  # fmt: skip


def dot_backward(
    fmt="binary16", n=10**5, *, trials=10, rounding="ties_to_even", factor=1.0, seed=0
):
    """Backward error |s - x.y| / (|x|.|y|) of inner products, of numbers in [0, 1) and in [-1, 1).

    Numbers of one sign meet the bound sqrt(n) u and then stagnate; those of mean zero stay nearly flat (Higham and Mary
    2019, 2020). factor : as for `stagnation`; the bound holds for one operation with probability
    1 - 2 exp(-l**2 (1 - u)**2 / 2). Table: n, positive and symmetric (means of the trials), deterministic_bound
    (gamma_n) and probabilistic_bound (exp(l sqrt(n) u + n u**2 / (1 - u)) - 1).
    """
    fmt, rounding = as_floating(fmt), as_rounding(rounding)
    trials, sizes = checked_count("trials", trials), sizes_up_to(n)
    u = roundoff(fmt, rounding)

    def errors(key):
        kind, size = key
        x, y = uniform([seed, kind], 2, trials, sizes[-1])[:, :, :size]
        if kind:
            x, y = 2 * x - 1, 2 * y - 1
        x, y = quantize(x, fmt), quantize(y, fmt)
        options = options_of(rounding, seed, kind)
        s = products.matmul(x[:, None, :], y[:, :, None], fmt, **options)[:, 0, 0]
        return dot_backward_error(s, x, y)

    found = np.array(measured("dots", [(kind, size) for kind in (0, 1) for size in sizes], errors))
    positive, symmetric = found.reshape(2, len(sizes), trials)
    table = {
        "n": np.array(sizes), "positive": positive.mean(axis=1), "symmetric": symmetric.mean(axis=1),
        "deterministic_bound": growth_bound(sizes, u), "probabilistic_bound": probable_bound(sizes, u, factor),
    }  # fmt: skip
    lines = (
        Line(
            "numbers in [0, 1)", sizes, table["positive"], low=positive.min(1), high=positive.max(1)
        ),
        Line(
            "numbers in [-1, 1)",
            sizes,
            table["symmetric"],
            low=symmetric.min(1),
            high=symmetric.max(1),
        ),
        Line("gamma_n", sizes, table["deterministic_bound"], BOUND),
        Line("of order sqrt(n) u", sizes, table["probabilistic_bound"], BOUND),
    )
    return Study(
        name="dot_backward",
        title=f"Backward error of inner products in {fmt.label}: the mean of the numbers matters",
        caption=f"{fmt.label}, {rounding}, sequential; means of {trials} pairs (seed {seed}), bands their range. "
        f"{_with_probability(factor)}",
        settings={
            "format": fmt.label,
            "n": sizes[-1],
            "trials": trials,
            "rounding": str(rounding),
            "factor": factor,
            "seed": seed,
        },
        arrays=table,
        panels=(Panel("n", "backward error", lines, x_scale="log", y_scale="log"),),
        published=tuple(
            Published(f"numbers in {kind}", value, "Higham and Mary (2019, 2020)",
                      f"{row[0]:.2g} at {sizes[0]:,}, {row[-1]:.2g} at {sizes[-1]:,}")
            for kind, value, row in (("[0, 1)", "follow sqrt(n) u, then stagnate", table["positive"]),
                                     ("[-1, 1)", "stay nearly flat", table["symmetric"]))
        ),
    )  # fmt: skip
