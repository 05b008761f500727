"""Published experiments: every one runs, its report has every recipe and claim, and its text is what is said."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from softfloat.cli import main
from softfloat.experiments import EXPERIMENTS, Options, experiment, jobs, language, run_job
from softfloat.experiments.catalogue import Claim, means
from softfloat.experiments.command import experiment_report, with_shares
from softfloat.training import data


def run_quick(name, tmp_path, *more):
    arguments = ["reproduce", name, "--quick", "--seeds", "1", "--processes", "1", "--json"]
    return main([*arguments, "--data", "digits", "--out", str(tmp_path), *more])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_and_reports(name, tmp_path, capsys):
    assert run_quick(name, tmp_path) == 0
    (report,) = json.loads(capsys.readouterr().out)
    one = experiment(name)
    assert [row["recipe"] for row in report["rows"]] == list(one.recipes)
    assert all(row["runs"] == 1 for row in report["rows"]) and not report["failed"]
    assert [c["claim"] for c in report["claims"]] == [c.text for c in one.claims]
    assert json.loads((tmp_path / name / "report.json").read_text()) == report
    assert (tmp_path / name / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_thousand_small_updates():
    """Experiment 9: nearest 1, Kahan 2, stochastic 2 in the mean with sd 0.08."""
    chosen = experiment("updates").jobs(Options(seeds=(0,), quick=True))
    found = {job["recipe"]: run_job(job) for job in chosen}
    assert found["nearest"]["weight"] == 1.0 and found["nearest"]["spread"] == 0
    assert found["kahan"]["weight"] == 2.0
    assert abs(found["stochastic"]["weight"] - 2.0) < 0.03
    assert 0.06 < found["stochastic"]["spread"] < 0.1


@pytest.mark.exhaustive
def test_the_loss_of_pure_bfloat16_falls_and_then_rises():
    every = experiment("rising-loss").jobs(Options(seeds=(0,)))
    chosen = [{**job, "steps": 5000} for job in every if job["recipe"] in ("fp32", "pure bfloat16")]
    plain, pure = (run_job(job) for job in chosen)
    assert plain["bits"] == plain["lowest"]
    assert pure["bits"] > pure["lowest"] + 0.5
    assert pure["curve"][0]["bits"] > pure["lowest"]  # it had fallen


def test_the_same_seed_gives_the_same_run():
    job = experiment("rising-loss").jobs(Options(seeds=(5,), quick=True))[3]
    assert job["recipe"] == "stochastic"
    first, second = ({k: v for k, v in run_job(job).items() if k != "seconds"} for _ in range(2))
    assert first == second
    other = {k: v for k, v in run_job({**job, "seed": 6}).items() if k != "seconds"}
    assert first["curve"] != other["curve"]


def test_data_is_a_part_of_the_job(tmp_path):
    """Another text is another run: what is kept of the first does not stand for it."""
    path = tmp_path / "text.txt"
    path.write_text("one two three " * 400)
    options = Options(seeds=(0,), quick=True, text=str(path))
    before = experiment("language-model").jobs(options)[0]
    language.symbols_of.cache_clear()
    path.write_text("one two tree " * 400)
    assert experiment("language-model").jobs(options)[0] != before


# ---------------------------------------------------------------- reports
def test_a_claim_stands_beside_means_of_all_seeds():
    runs = {"a": [_run(0.5), _run(0.7)], "b": [_run(0.5), _run(None, "diverged")]}
    assert means(runs, ("accuracy",)) == {"a": {"accuracy": 0.6}, "b": {"accuracy": None}}


def _run(accuracy, status="finished"):
    return {"status": status, "accuracy": accuracy, "loss": 1.0, "curve": []}


def test_a_claim_that_fails_is_reported_as_one():
    from dataclasses import replace

    wrong = Claim("all is well", "nobody", lambda m: ("it is not", False))
    one = replace(experiment("fixed-point"), claims=(wrong,))
    report = experiment_report(one, {"fp32": [_run(0.5)]}, "nothing")
    assert report["claims"] == [
        {"claim": "all is well", "source": "nobody", "ours": "it is not", "agrees": False}
    ]


@pytest.mark.parametrize("name", ["fixed-point", "bfloat16-weights", "loss-scaling"])
def test_a_recipe_that_learns_nothing_contradicts_what_is_said_of_it(name):
    """A check that cannot fail would be none."""
    one = experiment(name)
    level = {recipe: {m: 0.5 for m in one.measures} for recipe in one.recipes}
    level["fp32"]["accuracy"] = 0.5
    assert not all(claim.check(level)[1] for claim in one.claims)
    apart = {r: {m: 0.9 if r == "fp32" else 0.1 for m in one.measures} for r in one.recipes}
    assert not all(claim.check(apart)[1] for claim in one.claims)
    gone = {r: {m: None for m in one.measures} for r in one.recipes}
    assert not all(claim.check(gone)[1] for claim in one.claims)


def test_the_share_of_errors_that_became_zero_is_of_those_that_were_not():
    counts = {"errors": {"values": 100, "nonzero": 50, "flushed": 10}}
    assert with_shares({"counts": counts})["errors_flushed_percent"] == 20
    assert with_shares({})["errors_flushed_percent"] == 0


# ---------------------------------------------------------------- texts
def test_symbols_are_the_characters_of_the_text(tmp_path):
    path = tmp_path / "text.txt"
    text = "Hello,\nworld: ä\t!" + "x" * 83
    path.write_text(text, encoding="utf-8")
    train, held_out, _ = language.symbols_of(str(path))
    every = np.concatenate([train, held_out])
    assert len(held_out) == 10 and len(every) == len(text)
    back = "".join(language.SYMBOLS[s] if s < len(language.SYMBOLS) else "?" for s in every)
    assert back == text.replace("ä", "?").replace("\t", "?")


def test_the_default_text_is_long_and_always_the_same():
    language.symbols_of.cache_clear()
    first = language.symbols_of(None)
    language.symbols_of.cache_clear()
    assert len(first[0]) > 500_000 and first[2] == language.symbols_of(None)[2]


def test_batches_are_windows_of_the_text_with_the_next_character_as_target():
    symbols = np.arange(5000) % 97
    x, y = language.batch(symbols, 1, 7, 8, 20)
    assert x.shape == y.shape == (8, 20)
    assert np.all((x + 1) % 97 == y) and np.all((x[:, :-1] + 1) % 97 == x[:, 1:])
    again, other = language.batch(symbols, 1, 7, 8, 20), language.batch(symbols, 2, 7, 8, 20)
    assert np.array_equal(x, again[0]) and not np.array_equal(x, other[0])


def test_a_text_that_has_changed_since_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one two three " * 400)
    job = experiment("language-model").jobs(Options(seeds=(0,), quick=True, text=str(path)))[0]
    language.symbols_of.cache_clear()
    path.write_text("one two tree " * 400)
    with pytest.raises(ValueError, match="has changed since this job was made"):
        run_job(job)


def test_a_text_that_is_too_short_is_refused(tmp_path, capsys):
    path = tmp_path / "short.txt"
    path.write_text("too short")
    assert main(["reproduce", "language-model", "--text", str(path), "--out", str(tmp_path)]) == 2
    assert "the text has 9 characters" in capsys.readouterr().err


# ---------------------------------------------------------------- the command
def test_the_list_names_every_experiment(capsys):
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in EXPERIMENTS)
    assert main(["reproduce", "--json"]) == 0
    assert [e["name"] for e in json.loads(capsys.readouterr().out)] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "unknown experiment 'nothing'; known: updates"),
        (["updates", "--seeds", "0"], "--seeds must be in 1..1000"),
        (["fixed-point", "--data", "cifar"], "unknown data 'cifar'; known: digits"),
        (["updates", "--data", "cifar"], "unknown data 'cifar'"),
        (["all", "--data", "x"], "unknown data 'x'"),
        (
            ["all", "--data-dir", "nowhere", "--data", "fashion-mnist"],
            "no Fashion-MNIST in nowhere",
        ),
        (["all", "--data-dir", "nowhere"], "data_dir is for fashion-mnist"),
        (["all", "--text", "nowhere.txt"], "cannot read nowhere.txt: No such file"),
    ],
)
def test_what_reproduce_cannot_do_is_refused_before_anything_runs(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(jobs, "run_job", lambda *_: pytest.fail("something ran"))
    code = main(["reproduce", *arguments, "--out", str(tmp_path), "--processes", "1", "--quick"])
    captured = capsys.readouterr()
    assert code == 2 and message in " ".join(captured.err.split())
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- the page
PAGE = Path(__file__).parent.parent / "docs" / "experiments.md"
TABLES = re.compile(r"^\| .* \|$", re.M)


def page_section(name):
    """The tables of the page after the command of an experiment, up to the next heading, as lines."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"`softfloat reproduce {name}`")
    return TABLES.findall(rest.partition("\n### ")[0])


def reported(name, tmp_path, data):
    """The lines of the tables that the command writes, at the sizes of the page."""
    arguments = ["--data", data, "--out", str(tmp_path), "--processes", "1"]
    assert main(["reproduce", name, *arguments]) == 0
    return TABLES.findall((tmp_path / name / "report.md").read_text(encoding="utf-8"))


def first_number(line):
    """The mean in the second column of a row, None where there is none."""
    found = re.match(r"\| .*? \| (-?\d+\.\d+) \+- ", line)
    return found and float(found[1])


def test_the_page_shows_what_reproduce_updates_writes(tmp_path):
    lines = reported("updates", tmp_path, "digits")
    assert len(lines) == 9 and lines == page_section("updates")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_has_every_row_and_claim_of_an_experiment(name):
    one, lines = experiment(name), page_section(name)
    found = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    for wanted in (*one.recipes, *(claim.text for claim in one.claims)):
        assert wanted in found, wanted


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "updates"])
def test_the_page_shows_what_reproduce_writes(name, tmp_path):
    """Means within a band: another processor adds in another order, and seeds differ by as much."""
    if not data.DEBIAN_FASHION_MNIST.is_dir():
        pytest.skip("the page's images are those of Debian's dataset-fashion-mnist")
    text = re.search(r"standard\s+library \(([0-9a-f]{16})\)", PAGE.read_text(encoding="utf-8"))
    if name in ("rising-loss", "language-model") and language.symbols_of(None)[2] != text[1]:
        pytest.skip("the page's text is that of another version of Python")
    lines, page = reported(name, tmp_path, data.DATASETS[1]), page_section(name)
    rows = [line for line in lines if first_number(line) is not None]
    assert len(rows) == len(experiment(name).recipes)
    for line, shown in zip(lines, page, strict=False):
        assert line.split(" | ")[0] == shown.split(" | ")[0]
        if first_number(line) is not None:
            assert abs(first_number(line) - first_number(shown)) < 0.05
