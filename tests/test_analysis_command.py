"""softfloat study: files, JSON, errors, interruption and resumption, and the page of all studies."""

import dataclasses
import html.parser
import json
import re
import signal as signals
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from studies import QUICK, quick

from softfloat import analysis, cli
from softfloat.analysis import command, page
from softfloat.analysis.catalogue import STUDIES


@pytest.fixture
def run(capsys, monkeypatch):
    """run(*arguments) -> (exit code, stdout, stderr) of softfloat study in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        code = cli.main(["study", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def small(monkeypatch):
    """The catalogue with every study at its quick size."""
    for name, entry in STUDIES.items():
        fixed = {**entry.fixed, **QUICK[name]}
        monkeypatch.setitem(STUDIES, name, dataclasses.replace(entry, fixed=fixed))


def test_without_a_name_all_studies_are_listed(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(name in out for name in STUDIES)
    code, out, _ = run("--json")
    listed = json.loads(out)
    assert [entry["name"] for entry in listed] == list(STUDIES)
    assert all(entry["summary"].endswith(".") for entry in listed)


def test_a_study_is_shown_and_printed_as_json(run):
    code, out, err = run("harmonic", "--format", "bfloat16", "--n", "1000")
    assert (code, err) == (0, "") and "5.0625" in out
    assert "at most 1,000 terms." in " ".join(out.split())
    code, out, err = run("harmonic", "--format", "bfloat16", "--n", "1000", "--json")
    assert json.loads(out) == analysis.harmonic("bfloat16", n=1000).to_dict()


def test_files_by_suffix(run, tmp_path):
    paths = [tmp_path / f"sr.{kind}" for kind in ("png", "svg", "pdf", "csv", "json")]
    code, out, _ = run("sr-bias", "--n", 3, *(word for path in paths for word in ("--out", path)))
    assert code == 0 and all(f"written: {path}" in out.replace("\n", "") for path in paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG") and paths[2].read_bytes().startswith(
        b"%PDF"
    )
    ElementTree.parse(paths[1])
    found = analysis.sr_bias(extra=3)
    assert (
        paths[3].read_text() == found.to_csv()
        and json.loads(paths[4].read_text()) == found.to_dict()
    )
    assert len(list(tmp_path.iterdir())) == 5  # and nothing half done


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["harmonics"], "did you mean harmonic"),
        (["harmonic", "--format", "bfloat61"], "bfloat61"),
        (["harmonic", "--n", "0"], "n must be at least 1"),
        (["harmonic", "--seed", "-1"], "--seed must lie in"),
        (["harmonic", "--set", "nothing=1"], "the keys of harmonic are"),
        (["harmonic", "--set", "series"], "give KEY=VALUE"),
        (["harmonic", "--set", "series=fourier"], "series must be one of"),
        (["sr_bias", "--set", "extra=x"], "is a number"),
        (["matmul_engine", "--format", "bfloat16"], "takes numbers in float8_e4m3fn, float8_e5m2"),
        (["sr_bias", "--rounding", "RNE"], "has no argument rounding"),
        (["stagnation", "--format", "bfloat16,binary16"], "bfloat16,binary16"),
        (["condition_sweep", "--set", "problem=product"], "problem must be one of 'sum', 'dot'"),
        (["sum_algorithms", "--set", "algorithms=kahan,gauss"], "got 'gauss'"),
        (["sr_bias", "--out", "x.txt"], "one of .png"),
        (["all"], "needs --out DIR"),
        (["all", "--out", "dir", "--n", "3"], "takes --out and --seed only"),
    ],
)
def test_wrong_usage_is_one_paragraph(run, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2 and err.startswith("softfloat: ") and err.count("\n") == 1
    assert message in err


def test_a_seed_without_effect_is_said_so(run):
    code, out, _ = run("double_rounding", "--set", "fmt=float4_e2m1fn", "--seed", 3)
    assert code == 0
    code, out, _ = run("sr_bias", "--n", 2, "--seed", 3)
    assert code == 0 and "draws nothing at random: --seed has no effect" in out


def test_a_size_without_effect_is_said_so(run):
    code, out, _ = run("associativity", "--format", "float4_e2m1fn", "--n", 100)
    assert code == 0 and "all cases are taken: --n and --seed have no effect" in out
    code, out, _ = run("associativity", "--format", "bfloat16", "--n", 100)
    assert code == 0 and "no effect" not in out


@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_a_study_that_a_signal_ends_goes_on_where_it_was(tmp_path, signal):
    path, partial = tmp_path / "a.json", tmp_path / "a.json.partial"
    words = ["stagnation", "--n", "100", "--set", "trials=4", "--out", str(path)]
    # The study waits after its third point, until the signal comes.
    script = (
        "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from softfloat import cli; from softfloat.analysis import command\n"
        "put, done = command.Journal.put, []\n"
        "def slow(journal, key, value):\n"
        "    put(journal, key, value); done.append(key)\n"
        "    if len(done) == 3: print('waiting', flush=True); time.sleep(100)\n"
        f"command.Journal.put = slow; sys.exit(cli.main(['study', *{words!r}]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(getattr(signals, signal))
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == (130 if signal == "SIGINT" else -9)
    assert ("3 points are kept" in rest) == (signal == "SIGINT")
    assert len(partial.read_text().splitlines()) == 4 and not path.exists()
    assert cli.main(["study", *words]) == 0 and not partial.exists()
    assert json.loads(path.read_text()) == analysis.stagnation(n=100, trials=4).to_dict()


def test_studies_whose_packages_are_missing_are_left_out(run, small, tmp_path, monkeypatch):
    def missing(*arguments, **options):
        raise ImportError("softfloat train needs scikit-learn: pip install")

    entry = STUDIES["fixed_point_sr"]
    for name in list(STUDIES):
        if name not in ("fixed_point_sr", "sr_bias"):
            monkeypatch.delitem(STUDIES, name)
    monkeypatch.setitem(
        STUDIES, "fixed_point_sr", dataclasses.replace(entry, function=missing, fixed={})
    )
    code, out, _ = run("all", "--out", tmp_path)
    assert code == 0 and "fixed_point_sr is left out" in out and "1 studies" in out
    assert (tmp_path / "index.html").exists()


def test_an_interrupted_study_goes_on_where_it_was(run, tmp_path, monkeypatch):
    path = tmp_path / "growth.json"
    arguments = ("stagnation", "--n", "200", "--set", "trials=4", "--out", path)
    computed = []
    put = command.Journal.put

    def stop_at_third(journal, key, value):
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append(key)
        put(journal, key, value)

    monkeypatch.setattr(command.Journal, "put", stop_at_third)
    code, out, _ = run(*arguments)
    assert code == 130 and "3 points are kept" in out and not path.exists()
    partial = tmp_path / "growth.json.partial"
    partial.write_text(partial.read_text() + '["a line that was cu')
    again = []
    monkeypatch.setattr(
        command.Journal, "put", lambda j, key, value: (again.append(key), put(j, key, value))
    )
    code, _, _ = run(*arguments)
    assert code == 0 and len(again) == 2 and not set(again) & set(computed)
    assert json.loads(path.read_text()) == analysis.stagnation(n=200, trials=4).to_dict()
    assert not partial.exists()


def test_points_of_other_arguments_are_not_taken(run, tmp_path):
    path = tmp_path / "a.json"
    other = command.Journal(str(path) + command.PARTIAL, "stagnation", {"n": 100})
    other.put('["harmonic", -1]', [9.0])
    other.close()
    assert command.Journal(other.path, "stagnation", {"n": 100}).known == {
        '["harmonic", -1]': [9.0]
    }
    assert command.Journal(other.path, "stagnation", {"n": 200}).known == {}
    code, _, _ = run("stagnation", "--n", "100", "--set", "trials=2", "--out", path)
    assert code == 0
    assert json.loads(path.read_text()) == analysis.stagnation(n=100, trials=2).to_dict()


class Outline(html.parser.HTMLParser):
    """Tags in order, ids, links, and whether every tag is closed."""

    VOID = {"meta", "br", "hr", "img", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.bad = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(tag)


def test_the_page_of_all_studies_is_whole(run, small, tmp_path):
    folder = tmp_path / "report"
    code, out, _ = run("all", "--out", folder)
    assert code == 0 and f"{len(STUDIES)} studies" in out
    text = (folder / "index.html").read_text()
    outline = Outline(text)
    assert not outline.open and not outline.bad
    assert len(set(outline.ids)) == len(outline.ids)
    assert [link[1:] for link in outline.links] == list(STUDIES)
    assert set(STUDIES) <= set(outline.ids)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert referred <= set(outline.ids)
    # Nothing is loaded from elsewhere: references point into the page.
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', text)
    assert "@media (prefers-color-scheme: dark)" in text and "width=device-width" in text
    figures = [a for tag, a in outline.tags if tag == "svg"]
    assert len(figures) == sum(len(quick(name).panels) for name in STUDIES)
    assert all(a["role"] == "img" and a["aria-label"] for a in figures)
    headings = [a for tag, a in outline.tags if tag == "th"]
    assert all(a.get("scope") in ("col", "row") for a in headings)
    assert {path.name for path in folder.iterdir()} == {
        "index.html",
        *(f"{n}.json" for n in STUDIES),
    }
    for name in STUDIES:
        assert json.loads((folder / f"{name}.json").read_text()) == quick(name).to_dict()


def test_the_page_escapes_what_it_is_given():
    study = analysis.Study("x", "a < b & c", 'say "<b>".', {}, arrays={"<i>": ["<u>"]})
    text = page.report_page([study], "T < U")
    assert "<b>" not in text and "<i>" not in text and "<u>" not in text and "T &lt; U" in text
