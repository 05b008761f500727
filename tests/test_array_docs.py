"""docs/arrays.md says what the tables hold."""

import arrays_page


def test_the_page_is_the_registry():
    assert arrays_page.PAGE.read_text() == arrays_page.page(), (
        "docs/arrays.md is out of date: run python tests/arrays_page.py"
    )


def test_supported_names_of_the_standard_are_found():
    assert arrays_page.is_supported("matmul")
    assert arrays_page.is_supported("linalg.vector_norm")
    assert not arrays_page.is_supported("fft.fft")
