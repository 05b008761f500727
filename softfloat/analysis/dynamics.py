"""Iterations whose roundings add up: Euler's method on a slow decay, lost updates, the logistic map.

Source: Croci et al., Stochastic rounding: implementation, error analysis and applications (2022), section 8.4.
"""

import math

import numpy as np

from softfloat import reductions
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.growth import formats_of
from softfloat.analysis.orders import around
from softfloat.analysis.result import BOUND, REFERENCE, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    as_floating,
    checked_count,
    deviation,
    mean_interval,
    options_of,
)
from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.functional import add, divide, multiply, quantize, subtract
from softfloat.rounding import as_rounding

END = 2.0**-6  # of the interval of Euler's method
RATE = -20.0  # y' = y / RATE
UPDATES_AT_ONCE = 1 << 14
REFERENCE_BITS = 2048  # of the logistic map's reference


def euler(fmt="binary16", n=1 << 12, *, trials=50, seed=0):
    """Errors at the end of Euler's method for a slow decay and for a circle, every operation rounded.

    The decay is y' = -y/20, y(0) = 1 on [0, 2**-6]; the circle u' = v, v' = -u, once around from (1, 0). Steps: powers
    of two up to n. Table: n, nearest, stochastic (mean absolute error), low and high (its 95 % interval),
    mean_of_y_error (of the mean of the runs), and truncation (the error of the method itself); for the circle
    circle_nearest, circle_stochastic (mean) and circle_truncation, distances from where it began.
    """
    fmt, trials = as_format(fmt), checked_count("trials", trials, 2)
    steps = [1 << k for k in range(0, checked_count("n", n, 1).bit_length())]
    exact, stochastic = math.exp(END / RATE), {"rounding": "stochastic", "seed": seed}

    def run(size):
        nearest = _euler(np.ones(1), size, fmt, {})
        drawn = _euler(np.ones(trials), size, fmt, stochastic)
        mean, low, high = mean_interval(np.abs(drawn - exact))
        around = _circle(np.ones(1), size, fmt, {}), _circle(np.ones(trials), size, fmt, stochastic)
        return [
            abs(nearest[0] - exact),
            mean,
            low,
            high,
            abs(drawn.mean() - exact),
            *(d.mean() for d in around),
        ]

    found = np.array(measured("steps", steps, run)).T
    nearest, mean, low, high, of_mean, *circle = found
    truncation = np.array([abs((1 + END / RATE / k) ** k - exact) for k in steps])
    table = {
        "n": np.array(steps), "nearest": nearest, "stochastic": mean, "low": low, "high": high,
        "mean_of_y_error": of_mean, "truncation": truncation, "circle_nearest": circle[0],
        "circle_stochastic": circle[1],
        "circle_truncation": np.array([abs((1 - 2j * math.pi / k) ** k - 1) for k in steps]),
    }  # fmt: skip
    plateau = abs(1 - exact)
    lines = (
        Line("nearest", steps, nearest),
        Line(
            "stochastic, mean of the runs' errors",
            steps,
            mean,
            low=low,
            high=high,
        ),
        Line("stochastic, error of the runs' mean", steps, of_mean),
        Line("error of doing nothing", steps, plateau, BOUND),
        Line("error of the method", steps, truncation, BOUND),
    )
    around = (
        Line("nearest", steps, circle[0]),
        Line("stochastic, mean of the runs' errors", steps, circle[1]),
        Line("error of the method", steps, table["circle_truncation"], BOUND),
    )
    return Study(
        name="euler",
        title=f"Euler's method in {fmt.label}: small steps are lost to nearest",
        caption=(
            f"y' = -y/20, y(0) = 1 on [0, 2**-6] in {fmt.label}; y + h (y / -20), three roundings a step; stochastic: "
            f"{trials} runs (seed {seed}), band: 95 % interval of the mean. Circle: u + h v, v - h u, four roundings."
        ),
        settings={"format": fmt.label, "n": steps[-1], "trials": trials, "seed": seed},
        facts={
            "plateau": plateau,
            "nearest_at_n": float(nearest[-1]),
            "stochastic_at_n": float(mean[-1]),
        },
        arrays=table,
        panels=(
            Panel("steps", "error of y at the end", lines, "log2", "log", title="y' = -y/20"),
            Panel("steps", "distance from the start", around, "log2", "log", title="once around the circle"),
        ),
        published=(
            Published("plateau to nearest", f"|1 - exp(-b/20)| = {plateau:.4g}",
                      "Croci et al. (2022), section 8.4", f"{nearest[-1]:.4g} at {steps[-1]:,} steps"),
        ),
    )  # fmt: skip


def _euler(y, steps, fmt, options):
    """y at the end, after Euler's steps; element i of y is run number i."""
    step = float(quantize(END / steps, fmt))
    streams = iter(range(3 * steps))
    for _ in range(steps):
        own = [options | ({"stream": next(streams)} if options else {}) for _ in range(3)]
        slope = divide(y, RATE, fmt, **own[0])
        y = add(y, multiply(step, slope, fmt, **own[1]), fmt, **own[2])
    return np.asarray(y, float)


def _circle(u, steps, fmt, options):
    """Distances from (1, 0) after once around; element i is run number i."""
    h, v = float(quantize(2 * math.pi / steps, fmt)), np.zeros(u.size)
    for i in range(steps):
        own = [options | ({"stream": (1 << 32) + 4 * i + k} if options else {}) for k in range(4)]
        across, down = multiply(h, v, fmt, **own[0]), multiply(h, u, fmt, **own[1])
        u, v = add(u, across, fmt, **own[2]), subtract(v, down, fmt, **own[3])
    return np.hypot(np.asarray(u, float) - 1, np.asarray(v, float))


def updates(fmt="bfloat16", n=1000, *, step="0.001", trials=1000, rounding="ties_to_even", seed=0):
    """Many small updates of one number, w = 1 and n times w + step: to nearest, by Kahan, stochastic.

    rounding : that of the first two.   Facts: exact (1 + n fl(step)), nearest, kahan, and of the stochastic runs mean,
    low and high (the 95 % interval of the mean), deviation and predicted_deviation (while w has the ulp of 1). Table:
    value and runs, the stochastic results and how many runs ended there. Lost updates of pure 16-bit training, after
    Zamirai et al., Revisiting bfloat16 training (2020).
    """
    fmt, n, trials = as_format(fmt), checked_count("n", n), checked_count("trials", trials, 2)
    how = options_of(rounding, seed, n)  # a stream that no update of the stochastic runs has
    small = float(quantize(step, fmt))
    terms = np.concatenate(([1.0], np.full(n, small)))

    def ends(first):
        w = np.ones(min(trials, first + UPDATES_AT_ONCE) - first)
        for i in range(n):
            w = add(w, small, fmt, rounding="stochastic", seed=seed, stream=i, offset=first)
        return w

    parts = measured("updates", range(0, trials, UPDATES_AT_ONCE), ends)
    found = np.concatenate([np.asarray(part, float) for part in parts])
    mean, low, high = mean_interval(found)
    values, runs = np.unique(found, return_counts=True)
    # Each update goes up with probability f = step mod ulp, as long as w has the ulp of 1.
    ulp = fmt.epsilon if isinstance(fmt, Format) else fmt.resolution
    up = math.fmod(small, ulp) / ulp
    facts = {
        "exact": float(exact_sum(terms, "binary64")),
        "nearest": float(reductions.sum(terms, fmt, **how)),
        "kahan": float(reductions.sum(terms, fmt, order="kahan", **how)),
        "mean": mean, "low": low, "high": high, "deviation": deviation(found),
        "predicted_deviation": ulp * math.sqrt(n * abs(up) * (1 - abs(up))),
    }  # fmt: skip
    top = [0, int(runs.max())]
    lines = (
        Line("stochastic runs", values, runs),
        Line("exact", [facts["exact"]] * 2, top, REFERENCE),
        Line(str(as_rounding(rounding)), [facts["nearest"]] * 2, top, REFERENCE),
        Line("by Kahan", [facts["kahan"]] * 2, top, REFERENCE),
        *around(facts["exact"], facts["predicted_deviation"], "predicted deviation", top),
    )
    published = ()
    if fmt.label == "bfloat16" and n == 1000 and float(step) == 1e-3 and not how.get("seed"):
        published = (
            Published("nearest; Kahan", "lost; kept", "Zamirai et al. (2020)",
                      f"{facts['nearest']:g}; {facts['kahan']:g} of {facts['exact']:g}"),
        )  # fmt: skip
    return Study(
        name="updates",
        title=f"{n:,} updates of {step} in {fmt.label}: {facts['nearest']:g} to nearest, "
        f"{mean:.4g} on average by chance",
        caption=(
            f"w = 1, then {n:,} times w + {small:g}, rounded to {fmt.label}; {trials:,} stochastic runs (seed {seed}), "
            f"95 % interval of their mean {low:.4f} to {high:.4f}."
        ),
        settings={"format": fmt.label, "n": n, "step": step, "trials": trials, "rounding": str(as_rounding(rounding)),
                  "seed": seed},
        facts=facts,
        arrays={"value": values, "runs": runs},
        panels=(Panel("w in the end", "runs", lines, kind="points"),),
        published=published,
    )  # fmt: skip


def logistic_map(
    fmt=("bfloat16", "binary16", "binary32", "binary64"),
    n=120,
    *,
    r="3.9",
    x0="0.3",
    rounding="ties_to_even",
    seed=0,
):
    """When the logistic map x <- r x (1 - x) in a format leaves the true orbit of the rounded r and x0.

    The reference is computed in 2048-bit fixed point. Table: format, steps_kept (until the orbits are 0.1 apart), and
    predicted, p log 2 / lambda with lambda the Lyapunov exponent of the reference. Extra: errors, one row a format.
    """
    formats, n = [as_floating(f) for f in formats_of(fmt)], checked_count("n", n, 2)
    rounding = as_rounding(rounding)
    if n > 500:
        raise ValueError(
            f"n must be at most 500, where the reference still has digits to spare, got {n}"
        )
    by_label = {f.label: f for f in formats}

    def errors(label):
        f = by_label[label]
        rate, x = float(quantize(r, f)), float(quantize(x0, f))
        if not 0 <= rate <= 4 or not 0 <= x <= 1:
            raise ValueError(f"r must lie in 0..4 and x0 in 0..1, got r={r} and x0={x0}")
        truth, found = _orbit(rate, x, n), [x]
        for i in range(n - 1):
            own = [options_of(rounding, seed, 3 * i + k) for k in range(3)]
            rest = subtract(1.0, found[-1], f, **own[0])
            found.append(float(multiply(multiply(rate, found[-1], f, **own[1]), rest, f, **own[2])))
        return np.abs(np.array(found) - truth)

    rows = np.array(measured("formats", list(by_label), errors))
    kept = [int(np.argmax(row > 0.1)) if (row > 0.1).any() else n for row in rows]
    orbit = _orbit(float(r), float(x0), n)
    lyapunov = float(np.mean(np.log(np.abs(float(r) * (1 - 2 * orbit)))))
    predicted = [
        f.precision * math.log(2) / lyapunov if lyapunov > 0 else math.inf for f in formats
    ]
    lines = tuple(Line(label, np.arange(n), row) for label, row in zip(by_label, rows, strict=True))
    for i, f in enumerate(formats):
        grown = np.minimum(f.unit_roundoff * np.exp(lyapunov * np.arange(n)), 1)
        lines += (Line("" if i else "u exp(lyapunov step)", np.arange(n), grown, BOUND),)
    return Study(
        name="logistic_map",
        title="The logistic map forgets its start a digit at a time",
        caption=(
            f"x <- r x (1 - x), r = {r}, x0 = {x0}, in each format, {rounding}; each orbit against the exact one of "
            f"its own r and x0, in {REFERENCE_BITS}-bit arithmetic; Lyapunov exponent of {n} steps: {lyapunov:.3f}."
        ),
        settings={
            "formats": list(by_label),
            "n": n,
            "r": r,
            "x0": x0,
            "rounding": str(rounding),
            "seed": seed,
        },
        facts={"lyapunov": lyapunov},
        arrays={"format": list(by_label), "steps_kept": kept, "predicted": predicted},
        extra={"errors": rows},
        panels=(Panel("step", "|x - exact x|", lines, y_scale="log"),),
    )


def _orbit(rate, x, n):
    """n numbers of the orbit of these float64 numbers, in fixed point of REFERENCE_BITS fraction bits."""
    one = 1 << REFERENCE_BITS
    rate, x = (int(math.ldexp(v, 1000)) << (REFERENCE_BITS - 1000) for v in (rate, x))
    orbit = []
    for _ in range(n):
        orbit.append(x / one)
        x = (rate * x >> REFERENCE_BITS) * (one - x) >> REFERENCE_BITS
    return np.array(orbit)
