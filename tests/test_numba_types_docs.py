"""The table of docs/kernels.md lists what kernels have, no more and no less."""

import re
from pathlib import Path

import pytest

from softfloat.numba_types import functions, operators

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kernels.md"
TABLES = {
    "rounded once": {**operators.ARITHMETIC, **operators.ROOTS},
    "exact, or rounded in a mode of its own": functions.EXACT,
    "remainders and quotients": functions.QUOTIENTS,
    "one of the operands": functions.CHOICES,
    "comparisons": operators.COMPARISONS,
    "out of the format": operators.CONVERSIONS,
}


@pytest.mark.parametrize("group", TABLES)
def test_the_page_lists_what_is_there(group):
    (row,) = re.findall(rf"^\| {re.escape(group)} \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == sorted({f.__name__ for f in TABLES[group]})
