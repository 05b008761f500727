"""Writes docs/arrays.md: the text here, the tables from the registry. python tests/arrays_page.py"""

from pathlib import Path

import array_standard

import softfloat.array.functions  # noqa: F401  (fills the table)
from softfloat.array.registry import FUNCTIONS, SECTIONS, UFUNCS, name_of

PAGE = Path(__file__).parent.parent / "docs" / "arrays.md"

TEXT = """\
# Arrays

A `SoftArray` holds values of a format and behaves like a NumPy array: operators and NumPy functions round every
operation once, to the format. So code that was written for NumPy runs in a format that the machine does not have.

```python
>>> import numpy as np, softfloat as sf
>>> a = sf.array([0.1, 0.2, 0.3], sf.bfloat16)
>>> a
SoftArray([0.1, 0.2, 0.3], bfloat16)
>>> a * 2 + 1
SoftArray([1.2, 1.4, 1.6], bfloat16)
>>> np.sqrt(a) @ a, a.mean(), a.codes
(SoftArray(0.285, bfloat16), SoftArray(0.2, bfloat16), array([15821, 15949, 16026], dtype=uint16))
>>> a.to_numpy()
array([0.10009766, 0.20019531, 0.30078125], dtype=float32)

```

## Making and leaving them

- `sf.array(x, fmt)` rounds every element of x once: floats of any precision, integers of any size, `Fraction`,
  `Decimal`, decimal strings, nested lists, SoftArrays. `rounding=` and the other options of `quantize` say how.
  Without `fmt`, arrays of `ml_dtypes` keep their format. `fmt(x)` is short for it: `sf.bfloat16(1.5)` is a scalar.
- `sf.zeros(shape, fmt)`, `ones`, `full`, `empty`, `eye`, `arange`, `linspace`: arange and linspace round exact
  numbers.
- `sf.from_codes(codes, fmt)` and `.codes` for bit patterns; `.to_numpy()` for values as float32 (float64 where the
  format needs it); `.to_numpy(ml_dtypes.bfloat16)` for the format's own type there; `.astype(fmt, rounding=...)` for
  another format; `.astype(int)` and `.astype(bool)` give plain NumPy arrays, toward zero, for indices and masks.
- `np.asarray(a)` raises: a library that does that would go on in float64 unseen. Say `.to_numpy()`. What asks one
  element for a Python float gets it, as from `float(a[0])`: `math.sqrt(a[0])`, an element of a float64 array.
- `.dtype` is the format, so that `np.zeros_like(a)`, `x.astype(a.dtype)` and comparisons of dtypes work as in NumPy
  code.
- `sf.save(file, a)` or `sf.save(file, x=a, y=b)` writes an .npz with plain codes and the format as JSON;
  `sf.load(file)` reads it. Pickle, `copy` and `deepcopy` keep the format too.

Indexing takes all of NumPy's forms and gives views. Assignment rounds what is assigned, once, exactly: `a[0] =
"0.1"`. One element is a SoftArray without dimensions that nothing changes: it has a hash, and `float(a[0])` is exact.
Functions of the package (`sf.add(a, b, fmt)`, `sf.sum(a, fmt)`, ...) give SoftArrays for SoftArrays, except `encode`,
`logb` (exponents need be no values of the format: plain floats) and what gives truth values or integers. Their `out=`
takes plain NumPy arrays and SoftArrays of the result's format; NumPy's functions take SoftArrays there.

The text of a value has the fewest digits that read back as the value in its format, of those the nearest to it;
integers below 10**16 are written in full: 65504.0 in binary16, not 65500.0.

## What mixes

| beside a SoftArray | counts as |
|---|---|
| `bool`, `int`, `float`, `Fraction`, `Decimal` | the nearest value of the format, also in comparisons |
| a SoftArray of the same format | itself |
| a SoftArray of another format | TypeError; convert one with `.astype` |
| arrays of NumPy and `ml_dtypes`, lists | themselves, if every element is a value of the format; else TypeError |
| anything else | TypeError |

A Python number goes to nearest in every rounding block and raises no flag. In comparisons one beyond the range of the
format counts as infinite, also where the format has no infinity.

## Rounding

`with sf.rounding("toward_positive"):` holds for operators and NumPy functions on SoftArrays inside the block, in this
thread or task; functions of the package take `rounding=` themselves, and conversions (`sf.array`, `.astype`,
assignment) go to nearest unless they are told. In `with sf.rounding("stochastic", seed=7):` the operations are
numbered, and operation n draws the random words of stream n: the same block twice gives the same bits. Tasks started
inside a block count on from its number, each on its own; `stream=` tells blocks of one seed apart.

```python
>>> with sf.rounding("stochastic", seed=7):
...     x = a / 3
>>> with sf.rounding("stochastic", seed=7):
...     y = a / 3
>>> bool((x == y).all())
True

```

`with sf.status() as s:` counts the flags of operators and functions as it does for the package's own.

## Ufuncs

With `out=`, `where=` and `dtype=` (a format); those of two operands also with `reduce`, `accumulate`, `reduceat`,
`outer` and `at`, element after element in order. `np.add.reduce` starts at +0, `np.multiply.reduce` at 1. Where
`where` is false there is no operation and no flag, and without `out` the result is zero. docs/elementary.md says how
elementary functions are computed and what their special values are. `x ** 2` is x * x and `x ** 0.5` is sqrt(x), which
keeps -0; all else is `np.power`.

"""

AFTER = """\
Every other ufunc and NumPy function raises a TypeError that names it.

## The Python array API standard

SoftArray offers no `__array_namespace__`. Code that asks for it goes by the standard's data types and their promotion,
to float64 too, and by one kind of array that holds indices and truth values as well; here a format is the data type,
two of them do not mix, and indices and truth values are plain NumPy arrays, so a namespace could not keep its word.

Of the standard's names, version 2025.12, these do what it says, special values included, when NumPy's function (or the
package's, or the method) is called; tests/test_array_api.py tries each beside array-api-strict. Indices, counts and
truth values are plain NumPy arrays; formats without infinity or NaN have their own rules there; NaN has no sign; sums
start at +0. No function takes device=.

"""


def standard_table(rows):
    """The names of the standard: those without a note together, the others by note."""
    lines = ["| name | offered as | where it differs, or why it is not there |", "|---|---|---|"]
    groups: dict[tuple, list] = {}
    for row in rows:
        place = row.place and row.place.removesuffix(row.name)
        groups.setdefault((place, row.note), []).append(f"`{row.name}`")
    for (place, note), names in groups.items():
        offered = {None: "no", "np.": "np.NAME", "sf.": "sf.NAME"}.get(place, place)
        lines.append(f"| {', '.join(names)} | {offered} | {note} |")
    return "\n".join(lines) + "\n"


def ufunc_table():
    lines = ["| ufunc | result, rounded once unless it is exact |", "|---|---|"]
    for ufunc, rule in UFUNCS.items():
        lines.append(f"| `{name_of(ufunc)}` | {rule.steps.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def function_tables():
    parts = []
    for section in dict.fromkeys(SECTIONS.values()):
        parts.append(
            f"\n## Functions: {section}\n\n| function | steps and their order |\n|---|---|\n"
        )
        mine = [f for f, s in SECTIONS.items() if s == section]
        by_text: dict[str, list[str]] = {}
        for function in mine:
            text = FUNCTIONS[function].__doc__.strip().splitlines()[0].replace("|", r"\|")
            by_text.setdefault(text, []).append(f"`{name_of(function)}`")
        for text, names in sorted(by_text.items(), key=lambda item: sorted(item[1])):
            parts.append(f"| {', '.join(sorted(set(names)))} | {text} |\n")
    return "".join(parts)


def page():
    return (
        TEXT
        + ufunc_table()
        + function_tables()
        + "\n"
        + AFTER
        + standard_table(array_standard.ROWS)
        + "\nOf its array object:\n\n"
        + standard_table(array_standard.ATTRIBUTES)
    )


if __name__ == "__main__":
    PAGE.write_text(page())
