"""The commands `softfloat sweep` and `softfloat reproduce`: jobs, progress, tables, files."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

from softfloat.experiments.catalogue import EXPERIMENTS, FASHION, Options, experiment, means
from softfloat.experiments.jobs import Store, run_jobs
from softfloat.experiments.kinds import check_jobs
from softfloat.experiments.sweep import (
    read_sweep,
    save_sweep,
    shown_spread,
    spread,
    summary,
)
from softfloat.training._extras import need
from softfloat.training.command import INTERRUPTED
from softfloat.training.data import DATASETS, DEBIAN_FASHION_MNIST
from softfloat.training.report import check_folder, environment, write_atomically

OUT = "softfloat-runs"
FAILED = 1


# ---------------------------------------------------------------- sweep
def sweep_command(file, *, out=None, processes=None, as_json=False, figure=True):
    """Run `softfloat sweep`; returns 0, 1 if a run failed, or 130 after Ctrl-C.

    file : TOML, see softfloat.experiments.sweep.   out : folder; by default softfloat-runs and the sweep's name.
    processes : None for one on each core.   figure : whether to draw one, for which matplotlib is needed.
    Runs that are in the folder already are not repeated, and one that was ended goes on from its checkpoint.
    """
    need("rich", "softfloat sweep", "cli")
    if figure:
        need("matplotlib", "the figure of softfloat sweep", "plot")
    from rich.console import Console

    screen = Console(stderr=as_json, highlight=False, markup=False)
    sweep = read_sweep(file)
    folder = _folder(out, sweep.name)
    ran = _run(screen, sweep.jobs, folder, processes)
    if ran is None:
        return INTERRUPTED
    results, failed = ran
    paths = save_sweep(sweep, results, folder)
    if figure and any(result is not None for result in results):
        from softfloat.experiments.figures import sweep_figure

        paths.append(folder / "sweep.png")
        sweep_figure(sweep, results, paths[-1])
    if as_json:
        sys.stdout.write(paths[0].read_text(encoding="utf-8"))
    screen.print(sweep_table(sweep, results))
    _close(screen, failed, paths)
    return FAILED if failed else 0


def sweep_table(sweep, results):
    """Mean and standard deviation over the seeds, as a rich Table; lost: of the updates."""
    heads = ("accuracy", "loss", "lost %")
    table = _table(sweep.name, ("recipe", *sweep.keys), ("runs", *heads))
    for row in summary(map(sweep.cell, sweep.jobs), results):
        # 80 columns have room for two spreads (in two lines if need be); the files have all of them.
        shown = [shown_spread(row[m]) for m in ("accuracy", "loss")]
        shown.append(shown_spread({**row["updates_lost_percent"], "sd": None}, 1))
        runs = f"{row['runs']}, {row['diverged']} diverged" if row["diverged"] else str(row["runs"])
        table.add_row(*map(str, row["cell"]), runs, *shown)
    return table


# ---------------------------------------------------------------- reproduce
def reproduce_command(
    name=None, *, seeds=3, quick=False, data=None, data_dir=None, text=None, out=None, processes=None, as_json=False,
    figure=True,
):  # fmt: skip
    """Run `softfloat reproduce`; returns 0, 1 if a run failed, or 130 after Ctrl-C.

    name : None for the list, an experiment, or "all".   seeds : their number.   quick : sizes of seconds.
    data : fashion-mnist, digits, or None for the first that is there.   text : a file for the language model.
    """
    need("rich", "softfloat reproduce", "cli")
    if figure:
        need("matplotlib", "the figure of softfloat reproduce", "plot")
    from rich.console import Console

    screen = Console(stderr=as_json, highlight=False, markup=False)
    if not name:
        return _list(screen, as_json)
    if isinstance(seeds, bool) or not 1 <= seeds <= 1000:
        raise ValueError(f"--seeds must be in 1..1000, got {seeds}")
    chosen = list(EXPERIMENTS.values()) if name == "all" else [experiment(name)]
    options = Options(tuple(range(seeds)), quick, _data(data, data_dir, quick), data_dir, text)
    # All of what is asked for is checked before the first of it runs.
    jobs = {one.name: one.jobs(options) for one in chosen}
    top = _folder(out, "reproduce")
    folders = {n: top / n for n in jobs}
    stores = {n: Store(folder) for n, folder in folders.items()}
    check_jobs(job for n in jobs for job in jobs[n] if stores[n].get(job) is None)
    reports, code = [], 0
    for one in chosen:
        report = _reproduce(screen, one, jobs[one.name], folders[one.name], processes, figure)
        if report is None:
            return INTERRUPTED
        reports.append(report)
        code = max(code, FAILED if report["failed"] else 0)
    if as_json:
        json.dump(reports, sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
    return code


def _data(data, data_dir, quick):
    """Fashion-MNIST where it is, else the digits that come with scikit-learn."""
    if data is not None:
        if data not in DATASETS:
            raise ValueError(f"unknown data {data!r}; known: {', '.join(DATASETS)}")
        return data
    there = data_dir is not None or DEBIAN_FASHION_MNIST.is_dir()
    return FASHION if there and not quick else "digits"


def _list(screen, as_json):
    if as_json:
        print(
            json.dumps([{"name": e.name, "title": e.title} for e in EXPERIMENTS.values()], indent=1)
        )
        return 0
    table = _table(None, ("experiment", "what it shows"), ())
    for one in EXPERIMENTS.values():
        table.add_row(one.name, one.title)
    screen.print(table)
    screen.print("softfloat reproduce NAME runs one, softfloat reproduce all every one of them.")
    return 0


def _reproduce(screen, one, jobs, folder, processes, figure):
    """The report of one experiment as a dict, None after Ctrl-C."""
    ran = _run(screen, jobs, folder, processes, one.name)
    if ran is None:
        return None
    results, failed = ran
    groups = {recipe: [] for recipe in one.recipes}
    for job, result in zip(jobs, results, strict=True):
        if result is not None:
            groups[job["recipe"]].append(with_shares(result))
    seeds = len({job["seed"] for job in jobs})
    setting = f"{one.setting(jobs[0])}; {seeds} seed{'s' * (seeds > 1)}"
    report = experiment_report(one, groups, setting, failed)
    paths = [folder / "report.json", folder / "report.md"]
    write_atomically(paths[0], json.dumps(report, indent=1, allow_nan=False) + "\n")
    write_atomically(paths[1], markdown(one, report))
    if figure and all(groups.values()):
        from softfloat.experiments.figures import experiment_figure

        paths.append(folder / "figure.png")
        experiment_figure(one, groups, f"{setting}.", paths[-1])
    _show(screen, one, report)
    _close(screen, failed, paths)
    return report


def with_shares(result):
    """A result with the share of errors that became zero, of those that were not, and of logits at the range's end."""
    counts = result.get("counts", {})
    shares = {}
    for name, role, what, of in (
        ("errors_flushed_percent", "errors", "flushed", "nonzero"),
        ("logits_clipped_percent", "logits", "saturated", "values"),
    ):
        found = counts.get(role, {})
        shares[name] = 100 * found[what] / found[of] if found.get(of) else 0.0
    return {**result, **shares}


def experiment_report(one, groups, setting, failed=()):
    """What an experiment gave, ready for JSON: rows of the table, claims with our figures beside them."""
    rows = [
        {"recipe": recipe, "runs": len(runs), "diverged": sum(r["status"] == "diverged" for r in runs),
         **{m: spread(r.get(m) for r in runs) for m in one.measures}}
        for recipe, runs in groups.items()
    ]  # fmt: skip
    claims = []
    if all(groups.values()):
        found = means(groups, one.measures)
        for claim in one.claims:
            ours, agrees = claim.check(found)
            claims.append(
                {"claim": claim.text, "source": claim.source, "ours": ours, "agrees": bool(agrees)}
            )
    return {
        "name": one.name, "title": one.title, "setting": setting, "rows": rows, "claims": claims,
        "failed": list(failed), "environment": environment(),
    }  # fmt: skip


def markdown(one, report):
    """The tables of a report as docs/experiments.md has them."""
    heads = [heading for heading, _ in one.measures.values()]
    rows = [(row["recipe"], *_cells(one, row)) for row in report["rows"]]
    claims = [
        (c["claim"], c["source"], c["ours"], "yes" if c["agrees"] else "**no**")
        for c in report["claims"]
    ]
    lines = [f"{report['title']}: {report['setting']}."]
    for heading, body in (
        (("recipe", *heads), rows),
        (("claim", "source", "ours", "agrees"), claims),
    ):
        lines += ["", f"| {' | '.join(heading)} |", "|" + "---|" * len(heading)]
        lines += [f"| {' | '.join(row)} |" for row in body]
    return "\n".join(lines) + "\n"


def _cells(one, row):
    ended = f" ({row['diverged']} diverged)" if row["diverged"] else ""
    return [
        shown_spread(row[m], digits) + ended * (i == 0)
        for i, (m, (_, digits)) in enumerate(one.measures.items())
    ]


def _show(screen, one, report):
    heads = [heading for heading, _ in one.measures.values()]
    table = _table(f"{report['title']}\n{report['setting']}", ("recipe",), ("runs", *heads))
    for row in report["rows"]:
        table.add_row(row["recipe"], str(row["runs"]), *_cells(one, row))
    screen.print(table)
    beside = _table(
        "What the sources say, and our figures", ("claim", "source", "ours", "agrees"), ()
    )
    for claim in report["claims"]:
        beside.add_row(
            claim["claim"], claim["source"], claim["ours"], "yes" if claim["agrees"] else "NO"
        )
    screen.print(beside)


# ---------------------------------------------------------------- both
def _folder(out, name):
    """Where results go: `out`, or a folder of that name among all runs."""
    if out is None:
        return Path(OUT) / name
    check_folder(out)
    return Path(out)


def _run(screen, jobs, folder, processes, label="runs"):
    """(results, messages of failed runs), or None after Ctrl-C."""
    done = 0
    with _progress(screen, len(jobs), label) as (on_share, tick):

        def on_done(index, result):
            nonlocal done
            done += 1
            tick(index)

        try:
            return run_jobs(
                jobs, Store(folder), processes=processes, on_share=on_share, on_done=on_done
            )
        except KeyboardInterrupt:
            pass
    screen.print(
        f"interrupted: {done} of {len(jobs)} runs are kept in {folder}; the same command goes on from there, and "
        "repeats some seconds of a run that was begun",
        soft_wrap=True,
    )
    return None


@contextmanager
def _progress(screen, count, label):
    """(on_share, on_done) for run_jobs: a bar over all runs on a terminal, nothing elsewhere."""
    if not screen.is_terminal:
        yield (lambda index, share: None), (lambda index: None)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.fields[done]} of {task.total:.0f} done"), TimeRemainingColumn(elapsed_when_finished=True),
    )  # fmt: skip
    with Progress(*columns, console=screen) as bars:
        task, shares, done = bars.add_task(label, total=count, done=0), {}, set()

        def show():
            bars.update(task, completed=len(done) + sum(shares.values()), done=len(done))

        def on_share(index, share):
            shares[index] = share
            show()

        def on_done(index):
            shares.pop(index, None)
            done.add(index)
            show()

        yield on_share, on_done


def _table(title, words, numbers):
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _close(screen, failed, paths):
    for message in failed:
        screen.print(f"failed: {message}", style="bold red", markup=False, soft_wrap=True)
    names = ", ".join(path.name for path in paths)
    screen.print(f"Written to {paths[0].parent}: {names}", soft_wrap=True)
