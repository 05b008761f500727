"""docs/arrays.md says what the tables hold."""

from operator import attrgetter

import array_standard
import arrays_page
import numpy as np
import pytest

from softfloat.array.registry import FUNCTIONS, UFUNCS

pytestmark = pytest.mark.skipif(
    not hasattr(np, "matvec"), reason="the page is that of NumPy 2.2 and later"
)


def test_the_page_is_the_registry():
    assert arrays_page.PAGE.read_text() == arrays_page.page(), (
        "docs/arrays.md is out of date: run python tests/arrays_page.py"
    )


def test_functions_of_the_standard_are_in_the_tables():
    for row in array_standard.ROWS:
        if row.name in array_standard.FUNCTIONS and row.name != "broadcast_shapes":
            function = attrgetter(row.name)(np)
            assert function in UFUNCS or function in FUNCTIONS, row.name
