"""Figures of studies: every panel from its lines, theory dashed and grey, measurements in colour and marked."""

import io
import re
import textwrap

import numpy as np

from softfloat.analysis.result import BOUND, MEASURED, REFERENCE
from softfloat.plot import FAINT, INK, LINES, STYLE, save
from softfloat.training._extras import need

_FIRST = tuple(LINES[i] for i in (0, 2, 3, 1, 4, 5, 6))  # neighbours far apart
# Where these do not do, the colours again, with other dashes and markers.
_STYLES = (
    *_FIRST,
    *((c, (0, (3, 1, 1, 1)), m) for (c, _, _), m in zip(_FIRST, "<>*phd8", strict=True)),
)
_BOUND_DASHES = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)))
WIDTH = 6.2  # inches of a panel
LEGEND_SIZE = 8.5  # points
LEGEND_LETTERS = 75  # of that size side by side in a panel, lines of the legend counted


def study_figure(study, path=None):
    """The figure of a Study; path : None, or a file to write, PNG, PDF or SVG by its suffix.

    Raises ImportError without matplotlib, ValueError where the study has nothing to draw.
    """
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    if not study.panels:
        raise ValueError(f"the study {study.name!r} has no figure")
    columns = min(len(study.panels), 2)
    rows = -(-len(study.panels) // columns)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": study.name}):
        width = WIDTH * columns
        lines = textwrap.wrap(study.caption, int(14.5 * width))
        title = textwrap.wrap(study.title, int(9.5 * width))
        height = 4.1 * rows + 0.5 + 0.2 * len(lines) + 0.2 * len(title)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, study.panels, strict=False):
            _DRAWN[panel.kind](ax, panel)
            _legend(ax, panel)
        for ax in axes[len(study.panels) :]:
            ax.set_axis_off()
        figure.suptitle("\n".join(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8.5, color="#555555")
        if path is not None:
            save(figure, path)
    return figure


def panel_svg(study, number, width=5.0):
    """One panel as SVG text for a page that has title and caption itself; its letters stay letters."""
    matplotlib = need("matplotlib", "a figure", "plot")
    from matplotlib.figure import Figure

    panel = study.panels[number]
    own = {"svg.hashsalt": f"{study.name}-{number}", "svg.fonttype": "none"}
    with matplotlib.rc_context({**STYLE, **own}):
        figure = Figure(figsize=(width, 0.74 * width), layout="constrained")
        ax = figure.subplots()
        _DRAWN[panel.kind](ax, panel)
        _legend(ax, panel)
        raw = io.StringIO()
        figure.savefig(raw, format="svg", transparent=True, metadata={"Date": None})
    text = raw.getvalue()
    # Several drawings share a page: the names inside one must not be those of another.
    own = f"{study.name}-{number}-"
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{own}", text[text.index("<svg") :])


def _frame(ax, panel):
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.x_scale == "log2":
        ax.set_xscale("log", base=2)
    else:
        ax.set_xscale(panel.x_scale)
    ax.set_yscale(panel.y_scale)
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)


def _legend(ax, panel):
    """Above the axes, where it hides nothing, in as many columns as its longest label leaves room for; title above."""
    labels = [line.label for line in panel.lines if line.label]
    rows = 0
    if len(labels) > 1:
        columns = min(3, max(1, LEGEND_LETTERS // (max(map(len, labels)) + 7)), len(labels))
        rows = -(-len(labels) // columns)
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, borderpad=0.1, ncols=columns, frameon=False,
            fontsize=LEGEND_SIZE, handlelength=2.6, columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    ax.set_title(panel.title, pad=6 + 1.5 * LEGEND_SIZE * rows)


def _visible(y, panel):
    """What a logarithmic axis can show; an error of zero is a gap there."""
    y = np.asarray(y, float)
    return np.where(y > 0, y, np.nan) if panel.y_scale == "log" else y


def _draw_lines(ax, panel):
    _frame(ax, panel)
    styles, dashes = iter(_STYLES), iter(_BOUND_DASHES * 9)
    for line in panel.lines:
        y = _visible(line.y, panel)
        if line.kind == MEASURED:
            _draw_measured(ax, panel, line, y, *next(styles))
            continue
        how = {
            "color": INK if line.kind == BOUND else FAINT,
            "linestyle": next(dashes),
            "linewidth": 1.3,
        }
        if y.ndim == 0:
            ax.axhline(float(y), label=line.label, **how)
        else:
            ax.plot(np.asarray(line.x), y, label=line.label, **how)


def _draw_measured(ax, panel, line, y, colour, dash, marker):
    x = np.asarray(line.x)
    if line.low is not None:
        low, high = _visible(line.low, panel), _visible(line.high, panel)
        if x.size == 1:
            ax.plot([x[0], x[0]], [low[0], high[0]], color=colour, linewidth=2.5)
        else:
            ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    points = panel.kind == "points"
    ax.plot(
        x, y, color=colour, linestyle="" if points else dash, marker=marker, markersize=5,
        linewidth=1.6, markeredgecolor="white", markeredgewidth=0.6, label=line.label,
        markevery=1 if points else max(1, x.size // 12),
    )  # fmt: skip


def _draw_bars(ax, panel):
    _frame(ax, panel)
    solid = [line for line in panel.lines if line.kind == MEASURED]
    width = 0.8 / len(solid)
    for i, line in enumerate(solid):
        places = np.arange(len(line.x)) + (i - (len(solid) - 1) / 2) * width
        colour = _STYLES[(1 + i) % len(_STYLES)][0]
        error = None
        if line.low is not None:
            y = np.asarray(line.y, float)
            error = np.abs(np.array([y - np.asarray(line.low), np.asarray(line.high) - y]))
        ax.bar(
            places, line.y, width, color=colour, edgecolor="white", label=line.label, yerr=error,
            hatch=("", "//", "..", "xx")[i % 4],
        )  # fmt: skip
    for line, dash in zip(
        (p for p in panel.lines if p.kind != MEASURED), _BOUND_DASHES, strict=False
    ):
        if np.ndim(line.y):
            marker = {"marker": "_", "markersize": 18, "color": INK}
            if line.kind == REFERENCE:
                marker = {
                    "marker": "D",
                    "markersize": 5,
                    "color": LINES[0][0],
                    "markeredgecolor": "white",
                }
            ax.plot(range(len(line.x)), line.y, linestyle="", label=line.label, **marker)
        else:
            ax.axhline(line.y, color=INK, linestyle=dash, linewidth=1.3, label=line.label)
    ax.set_xticks(range(len(solid[0].x)), [str(v) for v in solid[0].x])
    if max(len(str(v)) for v in solid[0].x) > 7:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_ha("right")


def _height(node):
    return 1 + max(map(_height, node)) if isinstance(node, tuple) else 0


def _draw_tree(ax, panel):
    """A nested tuple: leaves, which are integers, in their order; a node above the middle of its children."""
    order = iter(range(10**9))
    small, tall = panel.lines[0].x, _height(panel.lines[0].y)

    def place(node):
        if not isinstance(node, tuple):
            x, height = next(order), 0
            ax.text(
                x, -0.02 * tall, str(node), ha="center", va="top", fontsize=7 if small > 16 else 9
            )
        else:
            spots = [place(child) for child in node]
            x = (spots[0][0] + spots[-1][0]) / 2
            height = 1 + max(h for _, h in spots)
            for child_x, child_height in spots:
                ax.plot(
                    [child_x, child_x, x],
                    [child_height, height, height],
                    color=LINES[2][0],
                    linewidth=1.2,
                )
        return x, height

    x, height = place(panel.lines[0].y)
    ax.plot([x], [height], "o", color=LINES[0][0], markersize=5)
    ax.set_ylim(-0.09 * height, height * 1.04)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.set_xticks([])
    ax.set_yticks(range(0, height + 1, max(1, height // 8)))


_DRAWN = {"lines": _draw_lines, "points": _draw_lines, "bars": _draw_bars, "tree": _draw_tree}
