"""Sweeps: what a TOML file asks for is what is run, once, whatever ends it early; and the tables add up."""

import csv
import dataclasses
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import softfloat
from softfloat import training
from softfloat.cli import main
from softfloat.experiments import (
    Options,
    experiment,
    kinds,
    policy_of,
    read_sweep,
    run_job,
    summary,
    sweep_command,
    sweep_of,
)
from softfloat.experiments import jobs as jobs_module
from softfloat.experiments.jobs import Store, job_name, run_jobs
from softfloat.experiments.sweep import spread
from softfloat.training import PRESETS

QUICK = {"data": "digits", "epochs": 1, "hidden": [8]}
SMALL = """
name = "small"
recipes = ["fp32", "half"]
formats = ["bfloat16"]
seeds = [3, 4]

[recipe.half]
base = "mixed_binary16"
loss_scale = 1024

[settings]
data = "digits"
epochs = 1
hidden = [8]
examples = 320

[grid]
lr = [0.1, 0.01]
"""


def update_job(seed, recipe="stochastic", **changes):
    """A job of about a tenth of a second."""
    table = {"base": "bfloat16_stochastic"}
    return {
        "kind": "updates", "recipe": recipe, "policy": table, "seed": seed, "trials": 50, "steps": 200,
        "change": 1e-3, "window": 50, **changes,
    }  # fmt: skip


def timeless(result):
    return {k: v for k, v in result.items() if k not in ("seconds", "time_ratio")}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


# ---------------------------------------------------------------- what a file asks for
def test_a_sweep_is_every_recipe_with_every_seed_and_setting(file):
    sweep = read_sweep(file)
    found = {(j["recipe"], j["settings"]["lr"], j["seed"]) for j in sweep.jobs}
    assert len(sweep.jobs) == 12
    assert found == {
        (r, lr, s) for r in ("fp32", "half", "bfloat16") for lr in (0.1, 0.01) for s in (3, 4)
    }
    assert sweep.cell(sweep.jobs[0]) == ("fp32", 0.1)
    assert len({job_name(job) for job in sweep.jobs}) == 12


def test_recipes_of_a_file_are_policies():
    assert policy_of("a", {"base": "mixed_binary16"}) == _renamed("mixed_binary16", "a")
    assert policy_of("b", {"format": "bfloat16"}) == _renamed("pure_bfloat16", "b")
    own = policy_of("c", {"weights": "e6m9", "update": ["e6m9", "stochastic"]})
    assert own.weights.label == "e6m9" and own.update.rounding == "stochastic"


def test_a_table_may_have_every_field_of_a_policy():
    table = tomllib.loads("""
        weights = "bfloat16"
        activations = "Q3.12"
        logits = "none"
        errors = "e5m2 stochastic"
        weight_gradients = ["e6m9", "toward_zero"]
        optimizer = "e8m10"
        update = "e8m11"
        master = "binary32"
        accumulator = "e6m9"
        product = "exact"
        block = 64
        rounding = "stochastic"
        update_rounding = "nearest"
        saturate = "propagate"
        kahan = true
        scaling = "delayed"
        amax_history = 16
        margin = 1
        loss_scale = 1024
        [overrides.layer2]
        weights = "fp32"
        """)
    policy = policy_of("a", table)
    known = {f.name for f in dataclasses.fields(training.Policy)} - {"name", "source", "engine"}
    assert set(table) == known
    plain = training.Policy()
    assert all(
        getattr(policy, name) != getattr(plain, name)
        for name in known - {"logits", "update_rounding"}
    )
    assert policy.errors == (softfloat.float8_e5m2, "stochastic") and policy.logits is None
    assert policy_of("b", {"engine": "h100_fp8"}).engine.name == "h100_fp8"


def _renamed(preset, name):
    from dataclasses import replace

    return replace(PRESETS[preset], name=name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no recipes"),
        ({"recipes": ["fp33"]}, "unknown recipe 'fp33'"),
        ({"formats": ["e99m9"]}, "e99m9|exponent_bits"),
        ({"recipes": "fp32"}, "recipes must be a list"),
        ({"recipes": ["fp32", "fp32"]}, "stands twice"),
        ({"recipes": ["fp32"], "seed": 3}, "unknown key 'seed'"),
        ({"recipes": ["fp32"], "seeds": [1, 1]}, "seeds must be"),
        ({"recipes": ["fp32"], "seeds": 0}, "seeds must be"),
        ({"recipes": ["fp32"], "settings": {"rate": 1}}, "unknown key 'rate'"),
        ({"recipes": ["fp32"], "settings": {"lr": -1.0}}, "lr must be"),
        ({"recipes": ["fp32"], "settings": {"examples": 0}}, "examples must be"),
        ({"recipes": ["fp32"], "grid": {"lr": 0.1}}, "a list of values"),
        ({"recipes": ["fp32"], "grid": {"lr": [0.1]}, "settings": {"lr": 0.1}}, "keep one"),
        ({"recipes": ["fp32"], "seeds": 1000, "grid": {"batch": list(range(1, 1001))}}, "at most"),
        ({"recipes": ["fp32"], "grid": {"lr": [0.1, 0.2, 0.1]}}, "lr has 0.1 twice"),
        ({"recipes": ["fp32"], "grid": {"lr": [1, 1.0]}}, "lr has 1.0 twice"),
        ({"recipes": ["fp32"], "grid": {"hidden": [8, [8]]}}, r"hidden has \[8\] twice"),
        ({"recipes": ["fp32"], "grid": {"examples": [64, 64]}}, "examples has 64 twice"),
        ({"recipe": {"x": {"overrides": "layer1"}}}, "overrides must be"),
        ({"recipe": {"x": {"overrides": {"layer1": {"weight": "e5m2"}}}}}, "'weight' cannot be set"),
        ({"recipe": {"x": {"wieghts": "bfloat16"}}}, "unknown 'wieghts'"),
        ({"recipe": {"x": {"base": "fp32", "format": "bfloat16"}}}, "not both"),
        ({"formats": ["bfloat16"], "recipe": {"bfloat16": {}}}, "choose a new one"),
        ({"recipes": ["fp32"], "name": "../other"}, "name must be"),
        ({"recipes": ["fp32"], "name": "a\0b"}, "name must be"),
    ],
)  # fmt: skip
def test_what_a_sweep_cannot_mean_is_refused_before_anything_runs(given, message):
    with pytest.raises(ValueError, match=message):
        sweep_of(given)


def test_a_file_that_is_no_toml_is_named(tmp_path, capsys):
    bad = tmp_path / "bad.toml"
    bad.write_text("recipes = [")
    assert main(["sweep", str(bad)]) == 2
    assert "is no TOML file" in capsys.readouterr().err
    for path, reason in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        assert main(["sweep", str(path)]) == 2
        said = capsys.readouterr().err
        assert f"cannot read {path}: {reason}" in said and "give a TOML file" in said


@pytest.mark.parametrize("command", ["sweep", "reproduce", "train"])
def test_a_folder_that_cannot_be_written_is_named_before_anything_runs(
    command, file, tmp_path, monkeypatch, capsys
):
    def fail(*_, **__):
        pytest.fail("something ran")

    monkeypatch.setattr(jobs_module, "run_job", fail)
    monkeypatch.setattr(training.command, "run_recipes", fail)
    words = {"sweep": [str(file)], "reproduce": ["updates", "--processes", "1"], "train": []}
    for out in (file, file / "below", tmp_path / ("x" * 300), ""):
        assert main([command, *words[command], "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert "results cannot be written to" in said and "give a folder with --out" in said
        assert "Errno" not in said
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


# ---------------------------------------------------------------- jobs
def test_a_run_that_is_kept_is_not_repeated(tmp_path, monkeypatch):
    jobs, store = [update_job(0), update_job(1)], Store(tmp_path)
    first, failed = run_jobs(jobs, store, processes=1)
    assert not failed and first[0] != first[1]
    monkeypatch.setattr(jobs_module, "run_job", lambda *_: pytest.fail("was run again"))
    seen = []
    again, _ = run_jobs(jobs, store, processes=1, on_done=lambda i, r: seen.append(i))
    assert again == first and seen == [0, 1]


def test_a_changed_job_is_another_job(tmp_path):
    store = Store(tmp_path)
    run_jobs([update_job(0)], store, processes=1)
    for other in (update_job(1), update_job(0, steps=100), update_job(0, recipe="x")):
        assert store.get(other) is None
    assert store.get(update_job(0)) is not None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"job": 1, "result": 2}', b"\xff\xfe"])
def test_a_damaged_file_is_done_again(tmp_path, damage):
    store, job = Store(tmp_path), update_job(0)
    (whole,), _ = run_jobs([job], store, processes=1)
    store.path(job).write_bytes(damage)
    assert store.get(job) is None
    (again,), _ = run_jobs([job], store, processes=1)
    assert again == whole == store.get(job)


def test_the_same_job_twice_is_done_once(tmp_path, monkeypatch):
    ran = []
    real = jobs_module.run_job
    monkeypatch.setattr(jobs_module, "run_job", lambda *a: ran.append(1) or real(*a))
    results, _ = run_jobs([update_job(0)] * 3, Store(tmp_path), processes=1)
    assert len(ran) == 1 and results[0] == results[1] == results[2] is not None


def test_processes_give_the_bits_of_one_and_a_failed_job_stops_no_other(tmp_path):
    jobs = [update_job(0), {**update_job(1), "kind": "nothing"}, update_job(2)]
    alone, failed_alone = run_jobs(jobs, Store(tmp_path / "1"), processes=1)
    together, failed = run_jobs(jobs, Store(tmp_path / "2"), processes=2)
    assert alone == together and alone[1] is None and alone[2] is not None
    assert failed == failed_alone and "seed 1: KeyError" in failed[0]


def test_a_process_that_dies_takes_one_job_with_it(tmp_path):
    killed = []

    def kill_one(index, result):
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    jobs = [update_job(seed) for seed in range(6)]
    results, failed = run_jobs(jobs, Store(tmp_path), processes=2, on_done=kill_one)
    assert sum(result is None for result in results) == len(failed) == 1
    assert failed[0].endswith("its process ended with code -9")
    again, failed = run_jobs(jobs, Store(tmp_path), processes=1)
    assert None not in again and not failed


@pytest.mark.parametrize("processes", [0, -1, 1.5, True])
def test_processes_is_a_positive_integer(tmp_path, processes):
    with pytest.raises(ValueError, match="processes must be"):
        run_jobs([update_job(0)], Store(tmp_path), processes=processes)


SCRIPT = """
import multiprocessing, sys
sys.path.insert(0, {root!r})
from softfloat.experiments.jobs import Store, run_jobs

if __name__ == "__main__":
    def told(index, result):
        print(*[p.pid for p in multiprocessing.active_children()], flush=True)
    run_jobs({jobs!r}, Store({folder!r}), processes=2, on_done=told)
"""


def test_a_kill_loses_no_finished_run_and_leaves_no_process(tmp_path):
    jobs, store = [update_job(s, steps=1500) for s in range(60)], Store(tmp_path / "runs")
    root = str(Path(softfloat.__file__).parents[1])
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=root, jobs=jobs, folder=str(tmp_path / "runs")))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        children = [int(pid) for pid in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert len(children) == 2
    deadline = time.monotonic() + 60
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in children)
    kept = [job for job in jobs if store.get(job) is not None]
    assert 1 <= len(kept) < len(jobs)
    assert sorted(p.name for p in store.folder.glob("*.json")) == sorted(
        store.path(job).name for job in kept
    )  # no file that is only begun
    times = {job_name(job): store.path(job).stat().st_mtime_ns for job in kept}
    run_jobs(kept, store, processes=1)
    assert times == {job_name(job): store.path(job).stat().st_mtime_ns for job in kept}
    assert store.get(kept[0]) == run_job(kept[0])


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---------------------------------------------------------------- checkpoints inside a run
def long_jobs():
    """A job of each kind that keeps checkpoints, of some seconds each."""
    images = {
        "kind": "images", "recipe": "sr", "policy": {"base": "bfloat16_stochastic"}, "seed": 1, "examples": None,
        "settings": {**QUICK, "epochs": 40, "momentum": 0.5, "batch": 32},
    }  # fmt: skip
    options = Options(seeds=(0,), quick=True)
    found = [images]
    for name, recipe, steps in (
        ("rising-loss", "kahan", 1500),
        ("language-model", "fp8 operands", 120),
    ):
        job = next(j for j in experiment(name).jobs(options) if j["recipe"] == recipe)
        found.append({**job, "steps": steps, "window": 7, "held_out": 20})
    return found


KILLED = """
import sys
sys.path.insert(0, {root!r})
from softfloat.experiments.jobs import Store, run_jobs

run_jobs([{job!r}], Store({folder!r}, seconds=0.3), processes=1)
"""


@pytest.mark.parametrize("job", long_jobs(), ids=lambda job: job["kind"])
def test_a_run_that_is_killed_goes_on_where_it_was_and_ends_with_the_same_bits(job, tmp_path):
    store = Store(tmp_path, seconds=1e9)
    path = store.checkpoint(job).path
    root = str(Path(softfloat.__file__).parents[1])
    script = tmp_path / "script.py"
    script.write_text(KILLED.format(root=root, job=job, folder=str(tmp_path)))
    with subprocess.Popen([sys.executable, script]) as process:
        deadline = time.monotonic() + 120
        while not path.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert path.exists() and store.get(job) is None
    shares = []
    (result,), failed = run_jobs(
        [job], store, processes=1, on_share=lambda i, share: shares.append(share)
    )
    assert not failed and not path.exists()
    steps = round(1 / (shares[1] - shares[0]))
    assert len(shares) < steps and shares[-1] == 1.0  # it did not begin again
    whole = run_job(job)
    assert timeless(result) == timeless(whole)


def test_a_checkpoint_that_cannot_be_gone_on_from_counts_as_none(tmp_path):
    job, other = {**long_jobs()[0], "settings": QUICK}, update_job(0)
    store = Store(tmp_path)
    whole = run_job(job)
    path = store.checkpoint(job).path
    wrong = training.Trainer("fp32", (3, 2)).state_dict()
    for damage in (b"", b"PK nothing", {"a": 1}, {"run": {}, "task": None, "trainer": wrong}):
        path.parent.mkdir(exist_ok=True)
        if isinstance(damage, bytes):
            path.write_bytes(damage)
        else:
            training.save_state(path, damage)
        (again,), failed = run_jobs([job], Store(tmp_path), processes=1)
        assert not failed and timeless(again) == timeless(whole) and not path.exists()
        store.path(job).unlink()
    assert store.checkpoint(other).path != path


# ---------------------------------------------------------------- the command
def test_an_interrupted_sweep_goes_on_and_ends_as_if_nothing_had_been(
    file, tmp_path, monkeypatch, capsys
):
    real, ran = jobs_module.run_job, []

    def stopping(job, *arguments):
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append(job_name(job))
        return real(job, *arguments)

    out = tmp_path / "out"
    arguments = {"out": out, "processes": 1, "figure": False}
    monkeypatch.setattr(jobs_module, "run_job", stopping)
    assert sweep_command(file, **arguments) == 130
    assert "5 of 12 runs are kept" in capsys.readouterr().out
    monkeypatch.setattr(
        jobs_module, "run_job", lambda j, *a: ran.append(job_name(j)) or real(j, *a)
    )
    assert sweep_command(file, **arguments) == 0
    assert len(ran) == len(set(ran)) == 12  # nothing lost, nothing repeated
    jobs = read_sweep(file).jobs
    kept = Store(out).get(jobs[0])
    assert timeless(kept) == timeless(run_job(jobs[0]))
    _check_files(out)


def _check_files(out):
    with open(out / "summary.csv") as file:
        rows = list(csv.DictReader(file))
    with open(out / "runs.csv") as file:
        runs = list(csv.DictReader(file))
    whole = json.loads((out / "sweep.json").read_text())
    assert len(rows) == 6 and len(runs) == 12 and len(whole["runs"]) == 12
    for row in rows:
        own = [
            float(r["accuracy"])
            for r in runs
            if (r["recipe"], r["lr"]) == (row["recipe"], row["lr"])
        ]
        assert len(own) == 2 == int(row["runs"])
        assert float(row["accuracy_mean"]) == pytest.approx(statistics.fmean(own), rel=1e-12)
        assert float(row["accuracy_sd"]) == pytest.approx(
            statistics.stdev(own), rel=1e-9, abs=1e-15
        )


def test_the_command_prints_a_table_and_draws(tmp_path, capsys):
    path = tmp_path / "two.toml"
    path.write_text(
        'recipes = ["fp32"]\nseeds = 2\n[settings]\nepochs = 1\nhidden = [8]\nexamples = 160\n'
    )
    out = tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out), "--processes", "1"]) == 0
    shown = capsys.readouterr().out
    assert "fp32" in shown and "+-" in shown
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert main(["sweep", str(path), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"][0]["recipe"] == "fp32"


@pytest.mark.parametrize("name", ["a[/b]", "$\\frac$", "\u00fc \u00f1 [bold]"])
def test_names_may_have_any_character(name, tmp_path, capsys):
    path = tmp_path / "any.toml"
    quoted, folder = json.dumps(name, ensure_ascii=False), name.replace("/", "").replace("\\", "")
    path.write_text(
        f"name = '{folder}'\n[recipe.{quoted}]\nbase = 'fp32'\n"
        "[settings]\nepochs = 1\nhidden = [8]\nexamples = 160\n",
        encoding="utf-8",
    )
    out = tmp_path / folder
    assert main(["sweep", str(path), "--out", str(out), "--processes", "1"]) == 0
    assert name in capsys.readouterr().out
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_checkpoint_that_another_process_takes_away_counts_as_none(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    training.save_state(path, {})
    seen = training.Checkpoint(path)
    monkeypatch.setattr(type(path), "exists", lambda self: True)
    path.unlink()
    seen.resume(lambda state: pytest.fail("there was nothing to take"))


def test_a_table_too_wide_for_the_screen_loses_no_digit(tmp_path, capsys):
    path = tmp_path / "wide.toml"
    path.write_text(
        'seeds = 2\n[recipe.a_recipe_with_a_name_of_forty_characters_]\nweights = "bfloat16"\n'
        "[settings]\nepochs = 1\nhidden = [8]\nexamples = 160\n"
        "[grid]\nmomentum = [0.5]\nbatch = [32]\nlr = [0.0001]\n"
    )
    assert main(["sweep", str(path), "--out", str(tmp_path), "--processes", "1"]) == 0
    shown = capsys.readouterr().out
    row = json.loads((tmp_path / "sweep.json").read_text())["summary"][0]
    assert "\u2026" not in shown and "..." not in shown
    assert all(f"{row[m]:.3f}" in shown for m in ("accuracy_mean", "accuracy_sd", "loss_sd"))


def test_a_sweep_whose_run_fails_says_so(file, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Store, "put", full)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--processes", "1"]) == 1
    assert "failed: fp32, seed 3: OSError: disk full" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('data = "fashion-mnist"\ndata_dir = "nowhere"', "no Fashion-MNIST in nowhere"),
        ('data = "digits"\ndata_dir = "here"', "data_dir is for fashion-mnist"),
        ('data = "cifar"', "unknown data 'cifar'"),
        ("examples = 10", "batch is 16, but digits has 10 training images"),
    ],
)
def test_data_is_looked_for_before_the_first_run(settings, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(jobs_module, "run_job", lambda *_: pytest.fail("something ran"))
    path = tmp_path / "a.toml"
    path.write_text(f'recipes = ["fp32"]\n[settings]\n{settings}\n')
    assert main(["sweep", str(path), "--out", str(tmp_path), "--processes", "1"]) == 2
    assert message in capsys.readouterr().err


def test_what_is_kept_is_shown_where_its_data_are_gone(file, tmp_path, monkeypatch):
    arguments = {"out": tmp_path / "out", "processes": 1, "figure": False}
    assert sweep_command(file, **arguments) == 0
    monkeypatch.setattr(kinds, "load", lambda *_: pytest.fail("data were read"))
    assert sweep_command(file, **arguments) == 0


# ---------------------------------------------------------------- tables
def test_mean_and_spread_are_those_of_the_statistics_module():
    values = [0.5, 0.75, 0.7, 1.0]
    found = spread([*values, None])
    assert found["mean"] == pytest.approx(statistics.fmean(values), rel=1e-15)
    assert found["sd"] == pytest.approx(statistics.stdev(values), rel=1e-15)
    assert (found["low"], found["high"], found["n"]) == (0.5, 1.0, 4)
    assert spread([None])["mean"] is None and spread([2.0])["sd"] is None


def test_a_summary_counts_runs_that_diverged_and_leaves_out_missing_ones():
    runs = [
        {"status": "finished", "accuracy": 0.5}, {"status": "diverged", "accuracy": None}, None,
        {"status": "finished", "accuracy": 0.25},
    ]  # fmt: skip
    first, second = summary(["a", "a", "a", "b"], runs, ("accuracy",))
    assert (first["cell"], first["runs"], first["diverged"]) == ("a", 2, 1)
    assert first["accuracy"]["mean"] == 0.5 and second["accuracy"]["n"] == 1
