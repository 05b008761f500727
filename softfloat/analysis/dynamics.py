"""Iterations whose roundings add up: Euler's method on a slow decay, lost updates, the logistic map.

Source: Croci et al., Stochastic rounding: implementation, error analysis and applications (2022), section 8.4.
"""

import math

import numpy as np

from softfloat import reductions
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.growth import formats_of
from softfloat.analysis.result import BOUND, REFERENCE, Line, Panel, Study, measured
from softfloat.analysis.statistics import as_floating, checked_count, deviation, mean_interval
from softfloat.formats import as_format
from softfloat.functional import add, divide, multiply, quantize, subtract

END = 2.0**-6  # of the interval of Euler's method
RATE = -20.0  # y' = y / RATE
UPDATES_AT_ONCE = 1 << 14
REFERENCE_BITS = 2048  # of the logistic map's reference


def euler(fmt="binary16", n=1 << 12, *, trials=50, seed=0):
    """Error at the end of Euler's method for y' = -y/20, y(0) = 1 on [0, 2**-6], every operation rounded.

    Steps: powers of two up to n. Table: n, nearest, stochastic (mean absolute error), low and high (its 95 % interval),
    mean_of_y_error (of the mean of the runs), and truncation (the error of the method itself).
    """
    fmt, trials = as_format(fmt), checked_count("trials", trials, 2)
    steps = [1 << k for k in range(0, checked_count("n", n, 1).bit_length())]
    exact = math.exp(END / RATE)

    def run(size):
        nearest = _euler(np.ones(1), size, fmt, {})
        drawn = _euler(np.ones(trials), size, fmt, {"rounding": "stochastic", "seed": seed})
        mean, low, high = mean_interval(np.abs(drawn - exact))
        return [abs(nearest[0] - exact), mean, low, high, abs(drawn.mean() - exact)]

    nearest, mean, low, high, of_mean = np.array(measured("steps", steps, run)).T
    truncation = np.array([abs((1 + END / RATE / k) ** k - exact) for k in steps])
    table = {
        "n": np.array(steps), "nearest": nearest, "stochastic": mean, "low": low, "high": high,
        "mean_of_y_error": of_mean, "truncation": truncation,
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
    return Study(
        name="euler",
        title=f"Euler's method in {fmt.label}: small steps are lost to nearest",
        caption=(
            f"y' = -y/20, y(0) = 1 on [0, 2**-6] in {fmt.label}; y + h (y / -20), three roundings a step; stochastic: "
            f"{trials} runs (seed {seed}), band: 95 % interval of the mean."
        ),
        settings={"format": fmt.label, "n": steps[-1], "trials": trials, "seed": seed},
        facts={
            "plateau": plateau,
            "nearest_at_n": float(nearest[-1]),
            "stochastic_at_n": float(mean[-1]),
        },
        arrays=table,
        panels=(Panel("steps", "error of y at the end", lines, x_scale="log2", y_scale="log"),),
    )


def _euler(y, steps, fmt, options):
    """y at the end, after Euler's steps; element i of y is run number i."""
    step = float(quantize(END / steps, fmt))
    streams = iter(range(3 * steps))
    for _ in range(steps):
        own = [options | ({"stream": next(streams)} if options else {}) for _ in range(3)]
        slope = divide(y, RATE, fmt, **own[0])
        y = add(y, multiply(step, slope, fmt, **own[1]), fmt, **own[2])
    return np.asarray(y, float)


def updates(fmt="bfloat16", n=1000, *, step="0.001", trials=1000, seed=0):
    """Many small updates of one number, w = 1 and n times w + step: to nearest, by Kahan, stochastic.

    Facts: exact (1 + n fl(step)), nearest, kahan, and of the stochastic runs mean, low and high (the 95 % interval of
    the mean) and deviation. Table: value and runs, the stochastic results and how many runs ended there. Lost updates
    of pure 16-bit training, after Zamirai et al., Revisiting bfloat16 training (2020).
    """
    fmt, n, trials = as_format(fmt), checked_count("n", n), checked_count("trials", trials, 2)
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
    facts = {
        "exact": float(exact_sum(terms)),
        "nearest": float(reductions.sum(terms, fmt)),
        "kahan": float(reductions.sum(terms, fmt, order="kahan")),
        "mean": mean, "low": low, "high": high, "deviation": deviation(found),
    }  # fmt: skip
    top = [0, int(runs.max())]
    lines = (
        Line("stochastic runs", values, runs),
        Line("exact", [facts["exact"]] * 2, top, REFERENCE),
        Line("to nearest", [facts["nearest"]] * 2, top, BOUND),
    )
    return Study(
        name="updates",
        title=f"{n:,} updates of {step} in {fmt.label}: lost to nearest, kept on average by chance",
        caption=(
            f"w = 1, then {n:,} times w + {small:g}, rounded to {fmt.label}; {trials:,} stochastic runs (seed {seed}), "
            f"95 % interval of their mean {low:.4f} to {high:.4f}."
        ),
        settings={"format": fmt.label, "n": n, "step": step, "trials": trials, "seed": seed},
        facts=facts,
        arrays={"value": values, "runs": runs},
        panels=(Panel("w in the end", "runs", lines, kind="points"),),
    )


def logistic_map(fmt=("bfloat16", "binary16", "binary32", "binary64"), n=120, *, r="3.9", x0="0.3"):
    """When the logistic map x <- r x (1 - x) in a format leaves the true orbit of the rounded r and x0.

    The reference is computed in 2048-bit fixed point. Table: format, steps_kept (until the orbits are 0.1 apart), and
    predicted, p log 2 / lambda with lambda the Lyapunov exponent of the reference. Extra: errors, one row a format.
    """
    formats, n = [as_floating(f) for f in formats_of(fmt)], checked_count("n", n, 2)
    if n > 500:
        raise ValueError(
            f"n must be at most 500, where the reference still has digits to spare, got {n}"
        )
    by_label = {f.label: f for f in formats}

    def errors(label):
        f = by_label[label]
        rate, x = float(quantize(r, f)), float(quantize(x0, f))
        truth, found = _orbit(rate, x, n), [x]
        for _ in range(n - 1):
            rest = subtract(1.0, found[-1], f)
            found.append(float(multiply(multiply(rate, found[-1], f), rest, f)))
        return np.abs(np.array(found) - truth)

    rows = np.array(measured("formats", list(by_label), errors))
    kept = [int(np.argmax(row > 0.1)) if (row > 0.1).any() else n for row in rows]
    orbit = _orbit(float(r), float(x0), n)
    lyapunov = float(np.mean(np.log(np.abs(float(r) * (1 - 2 * orbit)))))
    predicted = [
        f.precision * math.log(2) / lyapunov if lyapunov > 0 else math.inf for f in formats
    ]
    lines = tuple(Line(label, np.arange(n), row) for label, row in zip(by_label, rows, strict=True))
    return Study(
        name="logistic_map",
        title="The logistic map forgets its start a digit at a time",
        caption=(
            f"x <- r x (1 - x), r = {r}, x0 = {x0}, rounded to each format; each orbit against the exact one of "
            f"its own r and x0, in {REFERENCE_BITS}-bit arithmetic; Lyapunov exponent of {n} steps: {lyapunov:.3f}."
        ),
        settings={"formats": list(by_label), "n": n, "r": r, "x0": x0},
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
