"""What a study gives back: arrays, a table, a figure, JSON; and how long studies are tracked and resumed."""

import contextlib
import contextvars
import csv
import io
import json
import math
from dataclasses import dataclass, field

import numpy as np

MEASURED, BOUND, REFERENCE = "measured", "bound", "reference"


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    low, high : ends of confidence intervals or of the range seen, or None.   kind : MEASURED, BOUND (of a theory) or
    REFERENCE (a published or exact value).   Where y is one number, it is a level.
    """

    label: str
    x: object
    y: object
    kind: str = MEASURED
    low: object = None
    high: object = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes.   kind : "lines", "points", "bars" (x are labels) or "tree" (one line, y a nested tuple)."""

    x_label: str
    y_label: str
    lines: tuple
    x_scale: str = "linear"
    y_scale: str = "linear"
    kind: str = "lines"
    title: str = ""


@dataclass(frozen=True)
class Published:
    """A value from the literature beside ours."""

    quantity: str
    value: str
    source: str
    ours: str


@dataclass(frozen=True, eq=False)
class Study:
    """The result of a study. Its facts and arrays are attributes too: `associativity(fmt).differ`.

    caption : what was run, with seeds, numbers of trials and confidence levels.   settings : the arguments.
    facts : single numbers.   arrays : columns of one length, the table.   extra : arrays beside the table.
    """

    name: str
    title: str
    caption: str
    settings: dict
    facts: dict = field(default_factory=dict)
    arrays: dict = field(default_factory=dict)
    panels: tuple = ()
    published: tuple = ()
    extra: dict = field(default_factory=dict)

    def __getattr__(self, name):
        for group in ("facts", "arrays", "extra"):
            found = self.__dict__.get(group, {})
            if name in found:
                return found[name]
        raise AttributeError(f"a study {self.__dict__.get('name')!r} has no attribute {name!r}")

    def __repr__(self):
        return f"{self.title}\n{self.caption}\n\n{self.table()}"

    def rows(self):
        """The table as lists of Python values, one list per row."""
        columns = [_plain(np.asarray(a).tolist()) for a in self.arrays.values()]
        return [list(row) for row in zip(*columns, strict=True)]

    def table(self):
        """The table as text: facts, then columns, then published values beside ours."""
        parts = []
        if self.facts:
            parts.append(_aligned([], [[k.replace("_", " "), v] for k, v in self.facts.items()]))
        if self.arrays:
            parts.append(_aligned(list(self.arrays), self.rows()))
        if self.published:
            heading = ["quantity", "published", "ours", "source"]
            rows = [[p.quantity, p.value, p.ours, p.source] for p in self.published]
            parts.append(_aligned(heading, rows))
        return "\n\n".join(parts)

    def to_dict(self):
        """Everything but the figure, ready for JSON; infinities and NaN become strings."""
        return _jsonable(
            {
                "study": self.name,
                "title": self.title,
                "caption": self.caption,
                "settings": self.settings,
                "facts": self.facts,
                "table": self.arrays,
                "extra": self.extra,
                "published": [vars(p) for p in self.published],
            }
        )

    def to_json(self, indent=1):
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self):
        """The table; that of the facts where a study has no other."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if self.arrays:
            writer.writerow(self.arrays)
            writer.writerows(self.rows())
        else:
            writer.writerow(["quantity", "value"])
            writer.writerows([k, _plain(v)] for k, v in self.facts.items())
        return text.getvalue()

    def plot(self, path=None):
        """The figure, a matplotlib Figure; path : a file to write it to, PNG, SVG or PDF by its suffix."""
        from softfloat.analysis.figure import study_figure

        return study_figure(self, path)


def _plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype != object else _plain(list(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _jsonable(value):
    value = _plain(value)
    if isinstance(value, dict):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def shown(value):
    """A number in as few digits as tell it: whole numbers with commas, others in five digits at most; NaN as "-"."""
    value = _plain(value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        if abs(value) < 1e10 and value == int(value):
            return f"{value:.10g}"
        exact = repr(value)
        return exact if len(exact) <= 12 and "e" not in exact else f"{value:.5g}"
    return str(value)


def _aligned(heading, rows):
    cells = [[shown(v) for v in row] for row in rows]
    texts = [heading, *cells] if heading else cells
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))] if texts else []
    numeric = [
        all(not isinstance(row[i], str) for row in rows) and i > 0 for i in range(len(widths))
    ]

    def line(row):
        padded = (
            t.rjust(w) if right else t.ljust(w)
            for t, w, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    lines = [line(row) for row in texts]
    if heading:
        lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


# ---------------------------------------------------------------- long studies
class Tracker:
    """Reports each measured point, and keeps it, so that an interrupted study can go on.

    on_point : called with (study's part, points done, points in all).   known : {key: value} of points of an earlier
    run of the same study and settings.   on_value : called with (key, value) of every new point.
    """

    def __init__(self, on_point=None, known=None, on_value=None):
        self.on_point, self.known, self.on_value = on_point, known or {}, on_value


_tracker = contextvars.ContextVar("tracker", default=Tracker())  # noqa: B039  never changed in place


@contextlib.contextmanager
def tracked(tracker):
    """Inside, studies report to this Tracker."""
    token = _tracker.set(tracker)
    try:
        yield tracker
    finally:
        _tracker.reset(token)


def measured(part, keys, compute):
    """[compute(key) for key in keys], tracked. Values are numbers or lists of numbers, such as JSON keeps exactly."""
    tracker, keys = _tracker.get(), list(keys)
    values = []
    for done, key in enumerate(keys):
        name = json.dumps([part, _plain(key)])
        if name not in tracker.known:
            value = _plain(compute(key))
            if tracker.on_value:
                tracker.on_value(name, value)
        else:
            value = tracker.known[name]
        values.append(value)
        if tracker.on_point:
            tracker.on_point(part, done + 1, len(keys))
    return values
