"""Sweeps: a TOML file to jobs, and runs to a table of means and spreads.

name = "digits"
recipes = ["fp32", "mixed_binary16"]     # presets
formats = ["bfloat16", "e5m6"]           # a recipe each: this format for every tensor
seeds = 3                                # or a list: [0, 7, 42]

[recipe.half_update]                     # a recipe of your own: fields of Policy, beside base = "..." or format = "..."
base = "mixed_binary16"
loss_scale = 1024

[settings]                               # of every run: fields of training.Settings, and examples
data = "digits"
epochs = 5

[grid]                                   # every combination of these
lr = [0.1, 0.01]
"""

import itertools
import json
import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from softfloat.experiments.kinds import policy_of
from softfloat.training.presets import PRESETS, as_policy
from softfloat.training.report import csv_text, environment, write_atomically
from softfloat.training.run import Settings

KEYS = ("name", "recipes", "formats", "seeds", "recipe", "settings", "grid")
SETTINGS = (*(f.name for f in fields(Settings) if f.name != "seed"), "examples")
MEASURES = (
    "accuracy",
    "loss",
    "updates_lost_percent",
    "flushed_percent",
    "overflowed_percent",
    "seconds",
)
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Sweep:
    """name; jobs in the order of their runs; keys : names of what the grid varies."""

    name: str
    jobs: tuple
    keys: tuple

    def cell(self, job):
        """What a job shares with those that differ in the seed alone: (recipe, values of the grid)."""
        every = {**job["settings"], "examples": job["examples"]}
        return job["recipe"], *(_short(every.get(key)) for key in self.keys)


def read_sweep(path):
    """The Sweep that a TOML file describes. Raises ValueError that names what is wrong in it."""
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"cannot read {path}: {error.strerror}; give a TOML file with recipes, seeds and settings"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    return sweep_of(given, Path(path).stem)


def sweep_of(given, name="sweep"):
    """The Sweep of a dict with the keys of the TOML file."""
    _known("the sweep", given, KEYS)
    tables = _recipes(given)
    settings, grid = given.get("settings", {}), given.get("grid", {})
    _known("[settings]", settings, SETTINGS)
    _known("[grid]", grid, SETTINGS)
    _check_grid(grid, settings)
    seeds = _seeds(given.get("seeds", 1))
    count = math.prod(map(len, grid.values())) * len(tables) * len(seeds)
    if count > MOST_RUNS:
        raise ValueError(f"the sweep has {count} runs; at most {MOST_RUNS} go into one")
    jobs = [
        image_job(recipe, table, {**settings, **dict(zip(grid, values, strict=True))}, seed)
        for values in itertools.product(*grid.values())
        for seed in seeds
        for recipe, table in tables.items()
    ]
    name = given.get("name", name)
    named = isinstance(name, str) and name.isprintable() and name.strip(". ")
    if not named or {"/", "\\"} & set(name):
        raise ValueError(f"name must be a text that can name a folder, got {name!r}")
    return Sweep(name, tuple(jobs), tuple(grid))


def _check_grid(grid, settings):
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"[grid] {key}: a list of values is needed, got {values!r}")
        if key in settings:
            raise ValueError(f"{key} stands in [settings] and in [grid]; keep one")
        # Twice the same run would count as two seeds; 8 and [8] are the same hidden layers.
        same = [v if key == "examples" else getattr(Settings(**{key: v}), key) for v in values]
        for i, value in enumerate(same):
            if value in same[:i]:
                raise ValueError(f"[grid] {key} has {values[i]!r} twice; keep one")


def image_job(recipe, table, settings, seed):
    """The job of one run of `softfloat.training.train`; checked here, before hours of work."""
    policy_of(recipe, table)
    settings = dict(settings)
    examples = settings.pop("examples", None)
    if examples is not None and (
        isinstance(examples, bool) or not isinstance(examples, int) or examples < 1
    ):
        raise ValueError(f"examples must be a positive integer, got {examples!r}")
    Settings(**settings, seed=seed)
    return {
        "kind": "images", "recipe": recipe, "policy": table, "settings": settings, "examples": examples, "seed": seed,
    }  # fmt: skip


def _known(where, given, names):
    if not isinstance(given, dict):
        raise ValueError(f"{where} must be a table, got {given!r}")
    for key in given:
        if key not in names:
            raise ValueError(f"{where} has an unknown key {key!r}; known: {', '.join(names)}")


def _recipes(given):
    own = given.get("recipe", {})
    if not isinstance(own, dict) or not all(isinstance(table, dict) for table in own.values()):
        raise ValueError("[recipe.NAME] must be a table of fields of Policy for each name")
    tables = {}
    for key in ("recipes", "formats"):
        names = given.get(key, [])
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"{key} must be a list of names, got {names!r}")
        for name in names:
            table = {"format": name}
            if key == "recipes":
                if name in own:
                    continue
                name = as_policy(name).name
                table = {"base": name}
            if name in tables:
                raise ValueError(f"{name!r} stands twice in {key}")
            tables[name] = table
    for name, table in own.items():
        if name in tables:
            raise ValueError(f"[recipe.{name}] has the name of another recipe; choose a new one")
        tables[name] = table
    if not tables:
        raise ValueError(
            f"the sweep has no recipes; give recipes = [...], such as {', '.join(PRESETS)}"
        )
    return tables


def _seeds(given):
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        if given > MOST_RUNS:
            raise ValueError(f"the sweep has {given} seeds; at most {MOST_RUNS} runs go into one")
        return list(range(given))
    whole = isinstance(given, list) and all(
        isinstance(s, int) and not isinstance(s, bool) for s in given
    )
    if not whole or not given or len(set(given)) != len(given):
        raise ValueError(
            f"seeds must be a number of seeds or a list of different integers, got {given!r}"
        )
    return given


# ---------------------------------------------------------------- tables
def spread(values):
    """{mean, sd, low, high, n} of numbers; sd, of a sample, is None for one value; those that are None are left out."""
    values = [float(v) for v in values if v is not None]
    if not values:
        return {"mean": None, "sd": None, "low": None, "high": None, "n": 0}
    mean = math.fsum(values) / len(values)
    sd = None
    if len(values) > 1:
        sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return {"mean": mean, "sd": sd, "low": min(values), "high": max(values), "n": len(values)}


def summary(cells, results, measures=MEASURES):
    """One dict per cell, in the order of their first run: cell, runs, diverged, and `spread` of every measure.

    cells : one per result, whatever can be a key; results : dicts, or None for a run that is missing.
    """
    groups = {}
    for cell, result in zip(cells, results, strict=True):
        group = groups.setdefault(cell, [])
        if result is not None:
            group.append(result)
    return [
        {
            "cell": cell,
            "runs": len(group),
            "diverged": sum(r["status"] == "diverged" for r in group),
            **{m: spread(r.get(m) for r in group) for m in measures},
        }
        for cell, group in groups.items()
    ]


def save_sweep(sweep, results, folder):
    """Write sweep.json (summary and every run), summary.csv and runs.csv; returns the paths."""
    rows = summary(map(sweep.cell, sweep.jobs), results)
    runs = [
        {**_names(sweep, sweep.cell(job)), "seed": job["seed"], **result}
        for job, result in zip(sweep.jobs, results, strict=True)
        if result is not None
    ]
    flat = [
        {**_names(sweep, row["cell"]), "runs": row["runs"], "diverged": row["diverged"],
         **{f"{m}_{part}": row[m][part] for m in MEASURES for part in ("mean", "sd", "low", "high")}}
        for row in rows
    ]  # fmt: skip
    heads = ["recipe", *sweep.keys]
    content = {"name": sweep.name, "environment": environment(), "summary": flat, "runs": runs}
    files = {
        "sweep.json": json.dumps(content, indent=1, allow_nan=False) + "\n",
        "summary.csv": csv_text(list(flat[0]), flat),
        "runs.csv": csv_text(
            (*heads, "seed", "status", *MEASURES, "steps", "skipped_steps", "loss_scale"), runs
        ),
    }
    for name, text in files.items():
        write_atomically(Path(folder) / name, text)
    return [Path(folder) / name for name in files]


def _names(sweep, cell):
    return dict(zip(("recipe", *sweep.keys), cell, strict=True))


def _short(value):
    return "-".join(map(str, value)) if isinstance(value, list) else value


def shown_spread(found, digits=3):
    """A mean with its spread, "0.943 +- 0.002", as text; "-" where there is none."""
    if found["mean"] is None:
        return "-"
    text = f"{found['mean']:.{digits}f}"
    return text if found["sd"] is None else f"{text} +- {found['sd']:.{digits}f}"
