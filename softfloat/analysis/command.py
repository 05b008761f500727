"""The command `softfloat study`: a list of studies, one of them, or all in one page; progress, files, resumption."""

import contextlib
import inspect
import json
import sys
from pathlib import Path

from softfloat import __version__
from softfloat._jit import source_hash
from softfloat.analysis.catalogue import STUDIES, study
from softfloat.analysis.page import report_page
from softfloat.analysis.result import Tracker, tracked
from softfloat.training._extras import need
from softfloat.training.command import INTERRUPTED
from softfloat.training.report import write_atomically

KINDS = (".png", ".svg", ".pdf", ".csv", ".json")
PARTIAL = ".partial"
PAGE = "index.html"


class Journal:
    """Points of a study kept in a file, one JSON line each, so that an interrupted run can go on.

    The first line says which study, arguments, version and sources the points belong to; a file of others begins anew.
    """

    def __init__(self, path, name, arguments):
        self.path = Path(path)
        key = [name, arguments, __version__, source_hash()]
        self.header = json.dumps(key, default=str, sort_keys=True)
        self.known = self._read()
        self.resumed = len(self.known)
        self._file = None

    def _read(self):
        try:
            first, *lines = self.path.read_text().splitlines()
        except (OSError, ValueError):
            return {}
        if first != self.header:
            return {}
        known = {}
        for line in lines:
            with contextlib.suppress(ValueError):  # the last line of a killed run may be cut
                key, value = json.loads(line)
                known[key] = value
        return known

    def put(self, key, value):
        if self._file is None:
            # Written anew, so that a cut last line is not continued; whole, so that a kill now loses nothing.
            lines = [self.header, *(json.dumps(item) for item in self.known.items())]
            write_atomically(self.path, "\n".join(lines) + "\n")
            self._file = self.path.open("a")
        self.known[key] = value
        self._file.write(json.dumps([key, value]) + "\n")
        self._file.flush()

    def close(self):
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self):
        self.close()
        self.path.unlink(missing_ok=True)


def study_command(name=None, *, out=(), as_json=False, settings=(), **options):
    """Run `softfloat study`; returns 0, or 130 after Ctrl-C.

    name : None or "" for the list, a study, or "all".   out : files (PNG, SVG, PDF, CSV or JSON by suffix); for "all"
    one folder, which gets index.html and a JSON file of each study.   settings : texts KEY=VALUE, further arguments.
    options : fmt, n, seed, rounding; None where not given.
    n is the study's size, whatever its own name for that is (samples, extra).
    Raises ValueError or TypeError for options without meaning, ImportError that names the missing extra.
    """
    need("rich", "softfloat study", "cli")
    from rich.console import Console

    out = [Path(path) for path in out]
    screen = Console(stderr=as_json, highlight=False)
    if not name:
        _list(screen, as_json)
        return 0
    given = {key: value for key, value in options.items() if value is not None}
    if "seed" in given and not 0 <= given["seed"] < 1 << 64:
        raise ValueError(f"--seed must lie in 0..2**64 - 1, got {given['seed']}")
    if name == "all":
        return _run_all(screen, out, as_json, given, settings)
    chosen = study(name)
    if "seed" in given and "seed" not in chosen.parameters:
        screen.print(f"{chosen.name} draws nothing at random: --seed has no effect", soft_wrap=True)
        del given["seed"]
    arguments = given | _read_settings(chosen, settings)
    _check_files(out)
    journal = Journal(str(out[0]) + PARTIAL, chosen.name, arguments) if out else None
    result = _run(screen, chosen, arguments, journal)
    if result is None:
        _tell_interrupted(screen, journal)
        return INTERRUPTED
    if result.settings.get("exhaustive") and "n" in chosen.renamed and {"n", "seed"} & set(given):
        screen.print("all cases are taken: --n and --seed have no effect here", soft_wrap=True)
    for path in out:
        write_study(result, path)
    if journal:
        journal.remove()
    if as_json:
        print(result.to_json())
    else:
        _show(screen, result, out)
    return 0


def write_study(result, path):
    """Write a Study as what the suffix says: CSV (the table), JSON (everything) or a figure."""
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        write_atomically(path, result.to_csv())
    elif suffix == ".json":
        write_atomically(path, result.to_json() + "\n")
    else:
        result.plot(path)


def _check_files(out):
    for path in out:
        if path.suffix.lower() not in KINDS:
            raise ValueError(
                f"--out {path}: the file's kind is told by its suffix, one of {', '.join(KINDS)}"
            )
        if path.suffix.lower() in KINDS[:3]:
            need("matplotlib", f"--out {path}", "plot")


def _read_settings(chosen, settings):
    """KEY=VALUE texts as arguments, read as the kind of the parameter's default."""
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or key not in chosen.parameters:
            raise ValueError(
                f"--set {text}: give KEY=VALUE; the keys of {chosen.name} are {', '.join(chosen.parameters)}"
            )
        found[key] = _read_value(key, value, chosen.parameters[key])
    return found


def _read_value(key, text, default):
    try:
        if isinstance(default, (tuple, list, range)):
            parts = [part.strip() for part in text.split(",") if part.strip()]
            return [type(default[0])(part) for part in parts] if default else parts
        if isinstance(default, (int, float)):
            return type(default)(text)
    except ValueError:
        raise ValueError(f"--set {key}={text}: {key} is a number such as {default!r}") from None
    return text


def _list(screen, as_json):
    if as_json:
        print(json.dumps([_described(entry) for entry in STUDIES.values()], indent=1))
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("study", style="bold", no_wrap=True)
    table.add_column("what it shows")
    for entry in STUDIES.values():
        table.add_row(entry.name, entry.summary)
    screen.print(table)
    screen.print(
        "\nsoftfloat study NAME runs one; softfloat study all --out DIR writes a page of all."
    )


def _described(entry):
    parameters = {
        key: None if value is inspect.Parameter.empty else value
        for key, value in entry.parameters.items()
    }
    return {
        "name": entry.name,
        "summary": entry.summary,
        "parameters": json.loads(json.dumps(parameters, default=str)),
    }


def _run(screen, chosen, arguments, journal, label=None):
    """The Study, or None after Ctrl-C."""
    with _progress(screen, label or chosen.name) as on_point:
        known = journal.known if journal else None
        tracker = Tracker(on_point, known, journal.put if journal else None)
        try:
            with tracked(tracker):
                return chosen.run(**arguments)
        except KeyboardInterrupt:
            return None
        finally:
            if journal:
                journal.close()


@contextlib.contextmanager
def _progress(screen, label):
    """on_point for a Tracker: a bar on a terminal, nothing elsewhere."""
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bars:
        task = bars.add_task(label, total=None)

        def on_point(part, done, total):
            bars.update(task, description=f"{label}: {part}", completed=done, total=total)

        yield on_point


def _run_all(screen, out, as_json, given, settings):
    if len(out) != 1 or out[0].suffix.lower() in KINDS:
        raise ValueError(
            "softfloat study all needs --out DIR, one folder for the page and the data"
        )
    if settings or set(given) - {"seed"}:
        raise ValueError(
            "softfloat study all takes --out and --seed only: each study has its own format and size"
        )
    need("matplotlib", "softfloat study all", "plot")
    folder, results, journals = out[0], [], []
    for number, entry in enumerate(STUDIES.values(), 1):
        arguments = {key: value for key, value in given.items() if key in entry.parameters}
        journal = Journal(folder / f"{entry.name}{PARTIAL}", entry.name, arguments)
        try:
            result = _run(
                screen, entry, arguments, journal, f"{number}/{len(STUDIES)} {entry.name}"
            )
        except ImportError as error:
            screen.print(f"{entry.name} is left out: {error}", soft_wrap=True)
            continue
        if result is None:
            _tell_interrupted(screen, journal)
            return INTERRUPTED
        journals.append(journal)
        results.append(result)
        write_study(result, folder / f"{entry.name}.json")
    write_atomically(folder / PAGE, report_page(results))
    for journal in journals:
        journal.remove()
    if as_json:
        print(json.dumps([result.to_dict() for result in results], indent=1, allow_nan=False))
    screen.print(f"{len(results)} studies in {folder / PAGE}", soft_wrap=True)
    return 0


def _tell_interrupted(screen, journal):
    hint = "give --out, and an interrupted run can go on"
    if journal is not None:
        hint = f"{len(journal.known)} points are kept: the same command goes on from there"
    screen.print(f"interrupted; {hint}", soft_wrap=True)


def _show(screen, result, out):
    from rich.text import Text

    screen.print(Text(result.title, style="bold"))
    screen.print(Text(result.caption), soft_wrap=False)
    print()
    print(result.table(), file=sys.stdout)
    for path in out:
        screen.print(Text(f"written: {path}"), soft_wrap=True)
