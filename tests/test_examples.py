"""Every example runs and shows what it is there to show."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
ARGUMENTS = {"torch_training": ["--steps", "6", "--figure", "losses.png"]}
NEEDS = {"torch_training": "torch"}
SHOWS = {
    "cuda_kernel": "0 of 4096 results differ",
    "matmul_accumulator": "accumulator bfloat16",
    "numpy_formats": "float8_e4m3fn",
    "rounding_modes": "bfloat16  lies in",
    "status_flags": "float8_e5m2",
    "user_kernel": "operations that left their format: 0",
    "summation_order": "binary16: ",
    "torch_training": "FP8 hybrid, H100 sums",
    "stochastic_sum": "ties_to_even  mean 1.000, standard deviation 0.000",
}


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES} == set(SHOWS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    monkeypatch.setattr(sys, "argv", [str(path), *ARGUMENTS.get(path.stem, ())])
    runpy.run_path(str(path), run_name="__main__")
    assert SHOWS[path.stem] in capsys.readouterr().out
