"""What README.md and docs/ show is what happens: Python blocks run, commands print the same."""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from softfloat.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#\s]+)")


def page_id(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    """(line number, text) of the fenced blocks in a language."""
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found[1] == language:
            yield text.count("\n", 0, found.start(2)), found[2]


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_python_blocks_run(path, tmp_path, monkeypatch):
    """One namespace per page; a block with prompts is a doctest, any other one a script."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    parser = doctest.DocTestParser()
    with np.printoptions(legacy=False):
        for line, text in blocks(path, "python"):
            if ">>>" in text:
                test = parser.get_doctest(text, namespace, f"{path.name}:{line}", str(path), line)
                runner.run(test, clear_globs=False)
                namespace.update(test.globs)
            else:
                exec(compile("\n" * line + text, str(path), "exec"), namespace)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_commands_print_what_the_page_shows(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for _, text in blocks(path, "console"):
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "softfloat"
            main(arguments)
            assert lines(capsys.readouterr().out) == lines(expected), command


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_links_lead_somewhere(path):
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
