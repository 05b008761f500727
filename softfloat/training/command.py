"""The command `softfloat train`: options to recipes, progress, one table at the end, files."""

import json
import sys
import warnings
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from softfloat.training._extras import need
from softfloat.training.policy import Policy
from softfloat.training.presets import DEFAULT_RECIPES, as_policy, custom_policy
from softfloat.training.report import check_folder, save_report
from softfloat.training.run import run_recipes

OUT = "softfloat-runs"
FIGURE = "training.png"
FORMAT_OPTIONS = tuple(f.name for f in fields(Policy) if f.name not in ("name", "source"))
INTERRUPTED = 130  # the exit status of a program ended by Ctrl-C


def train_command(
    *,
    recipes=None,
    data="digits",
    data_dir=None,
    hidden=(64,),
    epochs=None,
    lr=1e-3,
    batch=16,
    momentum=0.0,
    seed=0,
    out=OUT,
    as_json=False,
    figure=True,
    **formats,
):
    """Run `softfloat train`; returns 0, 1 if every recipe diverged, or 130 after Ctrl-C.

    recipes : names, in a list or one string with commas; None: all of DEFAULT_RECIPES.
    hidden : sizes of hidden layers, in a list or one string with commas.
    out : folder of the results.   as_json : print the list of runs as JSON, all else on stderr.
    figure : True, or a function of (report, path) that draws; False or None: no figure, and then
        matplotlib is not needed.
    formats : every field of Policy but its name and source. Any of them adds a recipe "custom", by
        default beside fp32 alone. overrides may be strings for `read_override`.
    Raises ValueError for options without meaning, ImportError that names the missing extra.
    """
    need("rich", "softfloat train", "cli")
    if figure:  # better now than after two minutes
        need("matplotlib", "the figure of softfloat train", "plot")
    from rich.console import Console

    policies = chosen_policies(recipes, formats)
    check_folder(out)
    # No markup: names may have brackets.
    screen = Console(stderr=as_json, soft_wrap=False, markup=False)
    out = Path(out)
    settings = {
        "data": data, "data_dir": data_dir, "hidden": _sizes(hidden), "epochs": epochs, "lr": lr,
        "batch": batch, "momentum": momentum, "seed": seed,
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        with _progress(screen, policies) as progress:
            report = run_recipes(
                policies, progress=progress, on_run=lambda r: save_report(r, out), **settings
            )
    paths = save_report(report, out) if report.runs else []
    if report.runs and figure:
        from softfloat.plot import training_figure

        draw = figure if callable(figure) else training_figure
        draw(report, out / FIGURE)
        paths.append(out / FIGURE)
    if as_json:
        json.dump([run.to_dict() for run in report.runs], sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
    _show(screen, report, paths, {str(w.message) for w in caught})
    if report.interrupted:
        return INTERRUPTED
    return 1 if all(run.status == "diverged" for run in report.runs) else 0


def chosen_policies(recipes=None, formats=None):
    """The Policies that the options --recipes and those of a custom recipe ask for."""
    given = {key: value for key, value in (formats or {}).items() if value is not None}
    unknown = sorted(set(given) - set(FORMAT_OPTIONS))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; known: {', '.join(FORMAT_OPTIONS)}")
    overrides = given.get("overrides")
    if isinstance(overrides, (list, tuple)) and all(isinstance(o, str) for o in overrides):
        given["overrides"] = [read_override(text) for text in overrides]
    if isinstance(recipes, str):
        recipes = [name for name in recipes.split(",") if name.strip()]
        if not recipes:
            raise ValueError("no recipe is named; give names with commas between, or leave it out")
    if not recipes:
        recipes = ["fp32"] if given else DEFAULT_RECIPES
    policies = [as_policy(recipe) for recipe in recipes]
    return [*policies, custom_policy(**given)] if given else policies


def read_override(text):
    """(pattern, {field: value}) from "PATTERN FIELD=VALUE, FIELD=VALUE": what holds for the layers that match.

    >>> read_override("layer2 weights=none, errors=e5m2 stochastic, block=64")
    ('layer2', {'weights': 'none', 'errors': 'e5m2 stochastic', 'block': 64})
    """
    pattern, _, rest = text.strip().partition(" ")
    pairs = [part.partition("=") for part in rest.split(",")]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise ValueError(
            f"an override is PATTERN FIELD=VALUE, more with commas, such as 'layer2 weights=fp32', got {text!r}"
        )
    return pattern, {name.strip(): _value(name.strip(), value.strip()) for name, _, value in pairs}


def _value(name, text):
    """The value of a field of Policy that a command line writes."""
    truth = {"true": True, "false": False}
    if name in ("kahan", "saturate") and text.lower() in truth:
        return truth[text.lower()]
    return int(text) if name == "block" and text.isdigit() else text


def _sizes(hidden):
    if isinstance(hidden, str):
        try:
            return tuple(int(part) for part in hidden.split(",") if part.strip())
        except ValueError:
            raise ValueError(
                f"hidden must be sizes of layers such as 64 or 64,32, got {hidden!r}"
            ) from None
    return hidden


@contextmanager
def _progress(screen, policies):
    """progress(name, step, steps, loss) for run_recipes: bars on a terminal, nothing elsewhere."""
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=screen) as bars:
        tasks = {p.name: bars.add_task(p.name, total=None, loss="-", start=False) for p in policies}
        started = set()

        def progress(name, step, steps, loss):
            if name not in started:
                started.add(name)
                bars.start_task(tasks[name])
            if step % 8 == 0 or step == steps:
                bars.update(tasks[name], completed=step, total=steps, loss=f"{loss:.3f}")

        yield progress


def _show(screen, report, paths, messages):
    if report.runs:
        screen.print(table(report))
        screen.print(report.note(), highlight=False)
    for run in report.runs:
        if run.message:
            screen.print(run.message, style="bold red", markup=False)
        if run.skipped_steps:
            screen.print(
                f"{run.policy}: the loss scaler skipped {run.skipped_steps} of {run.steps} steps "
                f"and ended at {run.loss_scale:g}.",
                highlight=False,
            )
    for message in sorted(messages):
        screen.print(f"warning: {message}", style="yellow", markup=False)
    if report.interrupted:
        screen.print(
            f"Interrupted: {len(report.runs)} of {len(report.recipes)} recipes finished and are "
            f"kept; missing: {', '.join(report.missing)}.",
            style="bold yellow",
        )
    if paths:
        names = ", ".join(path.name for path in paths)
        screen.print(f"Written to {paths[0].parent}: {names}", soft_wrap=True, highlight=False)


HEADINGS = (
    "accuracy",
    "loss",
    "updates\nlost",
    "flushed\nto zero",
    "over-\nflowed",
    "time\nof fp32",
)
CAPTION = (
    "accuracy: on the test images. loss: on the training images, last epoch. "
    "updates lost: w + dw == w though dw is not 0. flushed, overflowed: of all values rounded."
)
STOCHASTIC = (
    "Under stochastic rounding the updates that move the weight make up for those that are lost."
)


def table(report):
    """The table at the end, as a rich Table of at most 80 columns."""
    from rich import box
    from rich.table import Table

    s = report.settings
    sizes = "-".join(map(str, s.hidden))
    title = (
        f"{s.data}, hidden {sizes}, {s.epochs} epochs, batch {s.batch}, lr {s.lr:g}, seed {s.seed}"
    )
    stochastic = any(
        str(run.formats.get("update_rounding")).startswith("stochastic") for run in report.runs
    )
    caption = f"{CAPTION} {STOCHASTIC}" if stochastic else CAPTION
    grid = Table(
        title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    grid.add_column("policy", no_wrap=True)
    for heading in HEADINGS:
        grid.add_column(heading, justify="right")
    for run in report.runs:
        style = "red" if run.status == "diverged" else None
        ratio = "-" if run.time_ratio is None else f"{run.time_ratio:.2f}x"
        grid.add_row(
            run.policy,
            f"{run.accuracy:.3f}",
            f"{run.loss:.3f}",
            f"{run.updates_lost_percent:.1f}%",
            _share(run.flushed_percent),
            _share(run.overflowed_percent),
            ratio,
            style=style,
        )
    return grid


def _share(percent):
    """A percentage in three digits; what is small but not zero does not show as zero."""
    if percent == 0:
        return "0"
    return f"{percent:.2f}%" if percent >= 0.01 else "<0.01%"
