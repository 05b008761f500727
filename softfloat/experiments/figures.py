"""Figures of sweeps and of experiments: the mean of the seeds as a line, every single run as a point."""

import textwrap

import numpy as np

from softfloat.plot import FAINT, LINES, STYLE, exponent_panel, exponent_span, literal, save
from softfloat.training._extras import need

_REFERENCE = "fp32"
_GREY = "#b5b5b5"


def experiment_figure(experiment, results, caption, path=None):
    """Curves of every recipe, final figures run by run, and histograms of errors where the experiment has them.

    results : {recipe: [result of every seed]}.   caption : what was run.   Returns the matplotlib Figure.
    """
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    columns = 3 if experiment.histogram else 2
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6 * columns, 5.2), layout="constrained")
        parts = figure.subfigures(1, columns, squeeze=False)[0]
        _curves(parts[0].subplots(), experiment, results)
        measure = next(iter(experiment.measures))
        _points(parts[1].subplots(), results, measure, experiment.measures[measure][0])
        if experiment.histogram:
            _histograms(parts[2], {name: results[name] for name in experiment.histogram})
        figure.suptitle(experiment.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        _caption(figure, caption, 5.6 * columns)
        if path is not None:
            save(figure, path)
    return figure


def sweep_figure(sweep, results, path=None, measure="accuracy"):
    """The measure of every run, a row for each recipe and combination of settings, and the mean of its seeds."""
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    groups = {}
    for job, result in zip(sweep.jobs, results, strict=True):
        if result is not None:
            recipe, *values = sweep.cell(job)
            settings = ", ".join(f"{k} {v}" for k, v in zip(sweep.keys, values, strict=True))
            groups.setdefault(literal(f"{recipe}  {settings}".strip()), []).append(result)
    if not groups:
        raise ValueError("the sweep has no finished run to draw")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 1.6 + 0.34 * len(groups)), layout="constrained")
        _points(figure.subplots(), groups, measure, f"{measure}, on the test images")
        figure.suptitle(literal(sweep.name), x=0.01, ha="left", fontsize=12, fontweight="bold")
        _caption(
            figure,
            "A point for each seed, a bar at their mean; a recipe that diverged has no point.",
            8.5,
        )
        if path is not None:
            save(figure, path)
    return figure


def _caption(figure, text, width):
    lines = textwrap.wrap(literal(text), int(14.5 * width))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8.5, color="#555555")


def _styles(names):
    """{recipe: line style}: fp32 broad and grey, the others narrower from one to the next.

    So a curve that lies on an earlier one does not hide it.
    """
    styles = iter(LINES * 9)
    found = {}
    for name in names:
        if name == _REFERENCE:
            found[name] = {"color": _GREY, "linewidth": 7, "zorder": 1}
            continue
        colour, dash, marker = next(styles)
        width = max(1.4, 4.0 - 0.65 * (len(found) - (_REFERENCE in found)))
        found[name] = {
            "color": colour, "linestyle": dash, "linewidth": width, "marker": marker,
            "markersize": 4 + width, "markeredgecolor": "white", "zorder": 2,
        }  # fmt: skip
    return found


def _curves(ax, experiment, results):
    measure, label = experiment.curve
    values = []
    for position, (name, style) in enumerate(_styles(results).items()):
        curves = [result["curve"] for result in results[name] if result["curve"]]
        ended = sum(result["status"] == "diverged" for result in results[name])
        label_of = name + (f" ({ended} of {len(results[name])} diverged)" if ended else "")
        length = min(map(len, curves), default=0)
        if not length:
            ax.plot([], [], label=label_of, **style)
            continue
        x = [point.get("step", point.get("epoch")) for point in curves[0][:length]]
        y = np.array([[_number(p[measure]) for p in curve[:length]] for curve in curves])
        mean, every = y.mean(axis=0), max(1, length // 7)
        values.append(y[np.isfinite(y)])
        if name != _REFERENCE:
            style["markevery"] = (min(position * every // len(results), length - 1), every)
            ax.fill_between(
                x, y.min(axis=0), y.max(axis=0), color=style["color"], alpha=0.15, linewidth=0
            )
        ax.plot(x, mean, label=label_of, **style)
    seen = np.concatenate(values) if values else np.ones(1)
    if seen.size and seen.min() > 0 and seen.max() > 20 * seen.min():
        ax.set_yscale("log")
    by_step = any("step" in r["curve"][0] for g in results.values() for r in g if r["curve"])
    ax.set_xlabel("step" if by_step else "epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(label)
    ax.set_title("Mean of the seeds; the band is their range")
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none", handlelength=3.2, fontsize=9)


def _points(ax, groups, measure, label):
    """A row for each group, top down: its runs as points, their mean as a bar."""
    styles = _styles(groups)
    for row, (name, runs) in enumerate(groups.items()):
        values = [_number(run.get(measure)) for run in runs]
        finite = [v for v in values if np.isfinite(v)]
        ended = sum(run["status"] == "diverged" for run in runs)
        colour = styles[name]["color"] if len(groups) <= len(LINES) + 1 else LINES[2][0]
        if finite:
            # Runs of one value lie on each other: a little up and down tells them apart.
            places = row + 0.22 * (np.arange(len(finite)) - (len(finite) - 1) / 2) / max(
                1, len(finite) - 1
            )
            ax.plot(
                finite, places, "o", color=colour, markersize=6, markeredgecolor="white", zorder=3
            )
            mean = float(np.mean(finite))
            ax.plot([mean, mean], [row - 0.3, row + 0.3], color=colour, linewidth=2, zorder=2)
            ax.annotate(
                f"{mean:.3f}",
                (max(finite), row),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        if ended:
            ax.text(
                0.99, row, f"{ended} of {len(runs)} diverged", transform=ax.get_yaxis_transform(), ha="right",
                va="center", fontsize=9, color=FAINT,
            )  # fmt: skip
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.4, -0.6)
    ax.margins(x=0.2)
    ax.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel(label)
    ax.set_title("Every run, and the mean")


def _histograms(figure, groups):
    """Exponents of the errors, all seeds together, over the range of their format."""
    drawn = []
    for name, runs in groups.items():
        counts = {}
        for run in runs:
            for exponent, count in run["histograms"]["errors"].items():
                counts[int(exponent)] = counts.get(int(exponent), 0) + count
        if counts:
            drawn.append((name, counts, runs[0]["ranges"]["errors"]))
    if not drawn:
        return
    axes = figure.subplots(len(drawn), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    limits = drawn[0][2]
    # What is rarer than one in ten thousand does not widen the axis.
    common = [{e: n for e, n in c.items() if 1e4 * n >= sum(c.values())} for _, c, _ in drawn]
    span = exponent_span(limits, *common)
    for ax, (name, counts, _) in zip(axes, drawn, strict=True):
        exponent_panel(ax, counts, limits, name, span)
    axes[-1].set_xlabel(
        f"activation gradients: binade, log$_2$ |value|; shaded: {limits['format']}"
    )


def _number(value):
    return np.nan if value is None else float(value)
