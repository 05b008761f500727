"""Figures, drawn with matplotlib without touching its global state.

Colours are those of Okabe and Ito, Color Universal Design (2008), told apart by every kind of
colour vision; what a colour says, a dash, a marker or a word says too.
"""

import io
import math
from pathlib import Path

import numpy as np

from softfloat.formats import as_format, binary16, binary32
from softfloat.training._extras import need
from softfloat.training.monitor import BIAS, range_of
from softfloat.training.report import write_atomically

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
LINES = (
    (VERMILION, "-", "o"),
    (ORANGE, "-", "s"),
    (BLUE, "--", "^"),
    (GREEN, "--", "D"),
    (PURPLE, "-.", "v"),
    (SKY, ":", "P"),
    (BLACK, ":", "X"),
)
INK, FAINT = "#333333", "#8a8a8a"
NORMAL_FILL, SUBNORMAL_FILL = "#d7e8f4", "#eef5fa"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def training_figure(report, path=None):
    """Loss curves of all recipes, and the errors' exponents against the range of their format.

    report : training.Report.   path : None, or a file to write, PNG, PDF or SVG by its suffix.
    Returns the matplotlib Figure. Raises ImportError without matplotlib, ValueError without runs.
    """
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    if not report.runs:
        raise ValueError("the report has no finished run to draw")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12.5, 5.6), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.12), wspace=0.03)
        loss_curves(left.subplots(), report)
        error_histograms(right, report)
        s = report.settings
        sizes = "-".join(map(str, s.hidden))
        figure.suptitle(
            f"Training on {s.data}: hidden {sizes}, batch {s.batch}, "
            f"learning rate {s.lr:g}, seed {s.seed}",
            x=0.01, ha="left", fontsize=12, fontweight="bold",
        )  # fmt: skip
        if path is not None:
            save(figure, path)
    return figure


def save(figure, path):
    """Write a figure in the format of the path's suffix (default PNG), atomically."""
    kind = Path(path).suffix.lstrip(".") or "png"
    raw = io.BytesIO()
    figure.savefig(raw, format=kind, dpi=150)
    write_atomically(path, raw.getvalue())


def loss_curves(axes, report):
    """Mean training loss per epoch, a line for each recipe.

    fp32 is the broad grey one: recipes as good as it lie on it, and can still be seen.
    """
    styles = iter(LINES * 10)
    for position, run in enumerate(report.runs):
        epochs = [point["epoch"] for point in run.curve]
        losses = [point["loss"] for point in run.curve]
        ended = f"stopped: loss not finite (step {run.steps})"
        result = f"{run.accuracy:.3f}" if run.status == "finished" else ended
        label = f"{literal(run.policy)}  {result}"
        if run.policy == "fp32":
            dot = "o" if len(epochs) == 1 else None
            axes.plot(
                epochs, losses, color="#b5b5b5", linewidth=7, label=label, zorder=1, marker=dot,
                markersize=12,
            )  # fmt: skip
            continue
        colour, dash, marker = next(styles)
        every = max(1, len(epochs) // 7)
        width = max(
            1.4, 4.0 - 0.65 * (position - 1)
        )  # what lies on an earlier line does not hide it
        axes.plot(
            epochs, losses, color=colour, linestyle=dash, linewidth=width, label=label, zorder=2,
            marker=marker, markersize=4 + width, markeredgecolor="white",
            markevery=(position * every // len(report.runs), every),
        )  # fmt: skip
    axes.set_title("Training loss of every recipe")
    axes.set_xlabel("epoch")
    axes.set_ylabel("cross entropy, mean of the epoch")
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    if report.settings.epochs == 1:
        axes.set_xticks([1])
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.ticklabel_format(axis="y", useOffset=False)
    losses = [point["loss"] for run in report.runs for point in run.curve]
    if losses and 0 < 100 * min(losses) < max(losses):
        axes.set_yscale("log")
    axes.legend(
        title="recipe, test accuracy", loc="best", frameon=True, framealpha=0.9,
        edgecolor="none", alignment="left", handlelength=3.2, fontsize=9.5,
    )  # fmt: skip


def error_histograms(figure, report):
    """Histograms of log2 of the errors, before and after the loss scale, over their format's range.

    figure : a figure or part of one, which gets one or two axes, one above the other.
    """
    run, limits = _scaled_run(report)
    before = {int(e): n for e, n in run.histograms["errors_unscaled"].items()}
    after = {int(e): n for e, n in run.histograms["errors"].items()}
    span = exponent_span(limits, before, after)
    rows = [(before, "Without a loss scale")]
    if run.loss_scale is not None:
        kind = f"After loss scaling (last {_power(run.loss_scale)})"
        rows = [(before, "Before loss scaling"), (after, kind)]
    axes = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (counts, title) in zip(axes, rows, strict=True):
        exponent_panel(ax, counts, limits, title, span)
    axes[-1].set_xlabel(f"activation gradients of {literal(run.policy)}: binade, log$_2$ |value|")


def literal(text):
    """A text of the user's for matplotlib, whose dollars would begin a formula."""
    return text.replace("$", r"\$")


def exponent_span(limits, *histograms):
    """(first, last) binade of an axis on which a range and histograms {exponent: count} have room."""
    lowest, _, top = _edges(limits)
    exponents = [e for counts in histograms for e in counts]
    return min([lowest - 6, *exponents]), max([top + 5, *exponents]) + 1


def exponent_panel(ax, counts, limits, title, span):
    """One histogram {exponent: count} over a range; the title says how much lies outside."""
    _range_bands(ax, limits, *span)
    _bars(ax, counts)
    ax.set_title(_verdict(counts, title, limits))
    ax.set_ylabel("share of values")
    ax.set_xlim(*span)


def tensor_figure(monitor, name, path=None, *, latest=False):
    """Exponents of one tensor before rounding, over the range of its format.

    monitor : training.Monitor.   name : of a tensor, a key of monitor.tensors.   path : as for `training_figure`.
    latest : the last step that was sampled, instead of all of them.
    """
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    if name not in monitor.tensors:
        raise ValueError(f"no tensor {name!r}; known: {', '.join(monitor.tensors)}")
    account = monitor.tensors[name]
    held = account.latest if latest else account.histogram
    counts = {int(e) - BIAS: int(held[e]) for e in np.flatnonzero(held)}
    if not counts:
        raise ValueError(f"no values other than zero were sampled of {name}")
    limits = account.range or range_of(binary32)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        ax = figure.subplots()
        title = f"{literal(name)} ({account.role.replace('_', ' ')})"
        exponent_panel(ax, counts, limits, title, exponent_span(limits, counts))
        ax.set_xlabel("binade, log$_2$ |value|")
        if path is not None:
            save(figure, path)
    return figure


def range_ruler(formats, path=None):
    """The ranges of formats side by side: normal numbers dark, subnormal ones light, on a scale of binades.

    formats : what as_format takes, or FixedPoint.   path : as for `training_figure`.
    """
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    rows = [fmt if getattr(fmt, "is_fixed", False) else as_format(fmt) for fmt in formats]
    if not rows:
        raise ValueError("give one or more formats")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 1 + 0.42 * len(rows)), layout="constrained")
        ax = figure.subplots()
        for y, fmt in enumerate(rows):
            lowest, normal, top = _edges(range_of(fmt))
            ax.barh(y, top - normal, left=normal, height=0.62, color=BLUE)
            ax.barh(y, normal - lowest, left=lowest, height=0.62, color=SKY)
            digits = fmt.mantissa_bits + 1
            ax.text(
                top, y, f"  {digits} bit{'s' * (digits > 1)} of precision", va="center", fontsize=9
            )
        ax.set_yticks(range(len(rows)), [fmt.label for fmt in rows])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.set_xlabel("binade, log$_2$ |value|: subnormal numbers light, normal numbers dark")
        ax.set_title("What formats can represent")
        if path is not None:
            save(figure, path)
    return figure


def _scaled_run(report):
    """The run whose errors are drawn, and the range they are drawn against.

    The first with a loss scale, else the first with errors in binary16, else the first of all.
    """
    usable = [run for run in report.runs if run.histograms.get("errors_unscaled")]
    if not usable:
        raise ValueError("no run has recorded errors")
    half = range_of(binary16)
    scaled = [run for run in usable if run.loss_scale is not None]
    narrow = [run for run in usable if run.ranges.get("errors") == half]
    run = (scaled or narrow or usable)[0]
    return run, run.ranges.get("errors", half)


def _edges(limits):
    """Exponents where the range starts, where its normal numbers start, and just above its end."""
    lowest, normal = (math.frexp(limits[key])[1] - 1 for key in ("smallest", "smallest_normal"))
    return lowest, normal, math.frexp(limits["largest"])[1]


def _range_bands(ax, limits, x_low, x_high):
    lowest, normal, top = _edges(limits)
    ax.axvspan(normal, top, color=NORMAL_FILL, zorder=0)
    if lowest < normal:
        ax.axvspan(lowest, normal, color=SUBNORMAL_FILL, zorder=0)
    for edge in {lowest, normal, top}:
        ax.axvline(edge, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    words = [
        (normal, top, f"{limits['format']}: normal" if lowest < normal else limits["format"]),
        (lowest, normal, "subnormal"),
        (x_low, lowest, "to zero"),
        (top, x_high, "over"),
    ]
    for start, stop, text in words:
        if stop - start >= 0.014 * len(text) * (x_high - x_low):  # its width in a panel of 5 inches
            ax.text(
                (start + stop) / 2, 0.97, text, transform=ax.get_xaxis_transform(), ha="center",
                va="top", fontsize=9, color="#555555",
            )  # fmt: skip


def _bars(ax, counts):
    """Shares on a logarithmic axis, as the tail is what matters."""
    total = sum(counts.values())
    exponents = sorted(counts)
    heights = [counts[e] / total for e in exponents]
    ax.bar(
        exponents, heights, width=1.0, align="edge", color=BLUE, edgecolor="white", linewidth=0.6,
        zorder=2,
    )  # fmt: skip
    ax.set_yscale("log")
    ax.set_ylim(1e-7, 30)
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1], ["0.0001 %", "0.01 %", "1 %", "100 %"])
    ax.minorticks_off()


def _verdict(counts, title, limits):
    """The title: how much of the histogram lies where the format has fewer digits, or none."""
    total = sum(counts.values())
    _, normal, top = _edges(limits)
    below = sum(n for e, n in counts.items() if e < normal) / total
    over = sum(n for e, n in counts.items() if e >= top) / total
    text = f"{title}: {_percent(below)} below the normal range"
    return text + (f", {_percent(over)} above" if over else "")


def _percent(share):
    if share == 0:
        return "nothing"
    if share >= 0.995:
        return "all" if share == 1 else "over 99 %"
    return f"{100 * share:.2g} %" if share >= 1e-4 else "under 0.01 %"


def _power(scale):
    fraction, exponent = math.frexp(scale)
    return f"2$^{{{exponent - 1}}}$" if fraction == 0.5 else f"{scale:g}"
