"""The Python array API standard: each of its names does what it says there, or is listed as one that is not offered.

The reference is array-api-strict in float32 and float64, on operands whose results are exact in the format; and, for
special values, the tables of the standard, written out here.

Source: Python array API standard, version 2025.12, data-apis.org/array-api.
"""

import itertools
import math
import warnings
from decimal import Decimal

import array_standard
import numpy as np
import pytest
from helpers import bits64

import softfloat as sf

strict = pytest.importorskip("array_api_strict")
if not hasattr(np, "matvec"):
    pytest.skip("the names are those of NumPy 2.2 and later", allow_module_level=True)

FORMATS = {"binary16": "float64", "binary32": "float32", "binary64": "float64"}
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


# ---------------------------------------------------------------- two namespaces
class Space:
    """A namespace, with makers of operands."""

    def a(self, *shape):
        return self.reals(ramp(*shape))

    v = property(lambda self: self.reals)


class Reference(Space):
    """array-api-strict in one of its data types."""

    def __init__(self, dtype):
        self.dtype = getattr(strict, dtype)
        self.made = {"dtype": self.dtype}

    def __getattr__(self, name):
        function = getattr(strict, name)
        if name.startswith("logical_"):  # of truth values there; of numbers it is optional
            return lambda *x: function(*(v if isinstance(v, bool) else v != 0 for v in x))
        return function

    def isin(self, x, test, **options):
        """Of integers alone there."""
        return strict.isin(*(strict.astype(v, strict.int64) for v in (x, test)), **options)

    def reals(self, x):
        return strict.asarray(np.asarray(x, float), dtype=self.dtype)

    def plain(self, x):
        """Integers and truth values."""
        return strict.asarray(np.asarray(x))


class Soft(Space):
    """What SoftArrays offer under the standard's names: functions of the package where it has them, else NumPy's."""

    def __init__(self, fmt):
        self.dtype = fmt
        self.made = {"fmt": fmt}

    def __getattr__(self, name):
        return getattr(sf if name in array_standard.OWN else np, name)

    def reals(self, x):
        return sf.array(np.asarray(x, float), self.dtype)

    def plain(self, x):
        return np.asarray(x)


def both(format_name):
    return Reference(FORMATS[format_name]), Soft(getattr(sf, format_name))


def ramp(*shape):
    """Small integers of both signs, some twice."""
    return ((np.arange(math.prod(shape)) * 7) % 11 - 5.0).reshape(shape)


def assert_same(got, expected, fmt):
    """Shape, kind, and the bits of values; named tuples have the same fields."""
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        assert getattr(got, "_fields", None) == getattr(expected, "_fields", None)
        for x, y in zip(got, expected, strict=True):
            assert_same(x, y, fmt)
        return
    if not isinstance(expected, type(strict.asarray(0.0))):
        assert not isinstance(got, sf.SoftArray)
        assert got == expected
        return
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    if expected.dtype.kind == "f":
        assert isinstance(got, sf.SoftArray)
        assert got.format == fmt
        assert np.array_equal(bits64(got.to_numpy()), bits64(expected)), f"{got} for {expected}"
    else:
        assert isinstance(got, (np.ndarray, np.generic))
        assert got.dtype.kind == expected.dtype.kind
        assert np.array_equal(got, expected)


# ---------------------------------------------------------------- names
def names_of_the_standard():
    spaces = [("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft)]
    names = {prefix + name for prefix, space in spaces for name in space.__all__}
    return {n for n in names if "strict" not in n.lower()} - {
        "__version__",
        "Device",
        "fft",
        "linalg",
    }


PYTHONS = (
    "annotations array buffer doc hash iter module new reduce repr slots sizeof str weakref".split()
)


def attributes_of_the_standard():
    """Attributes and methods of its array object, without Python's own and NumPy's."""
    own = vars(type(strict.asarray(0.0)))
    found = {n for n in own if n.startswith("__") or not n.startswith("_")}
    return found - {f"__{name}__" for name in PYTHONS}


def test_every_name_is_offered_or_listed():
    listed = {row.name for row in array_standard.ROWS}
    assert names_of_the_standard() - listed == set()
    offered = {row.name for row in array_standard.ROWS if row.offered}
    types = {*array_standard.INTEGERS, "float32", "float64", "finfo"}
    assert offered == {*CALLS, *UNARY, *BINARY, *array_standard.CONSTANTS, *types}


def test_every_attribute_is_offered_or_listed():
    listed = {row.name for row in array_standard.ATTRIBUTES}
    assert attributes_of_the_standard() - listed == set()


def test_what_is_not_offered_is_not_there():
    a = sf.array([1.0, 2.0], sf.binary32)
    for row in array_standard.ROWS:
        function = _numpys(row.name)
        if row.offered or not callable(function) or row.name in WITHOUT_ARRAYS:
            continue
        with pytest.raises(TypeError, match="SoftArray"):
            function(a) if row.name not in PAIRS else function(a, a)
    for row in array_standard.ATTRIBUTES:
        assert hasattr(sf.ones((2, 2), "binary32"), row.name) == row.offered, row.name


# Those of NumPy that never see an array.
WITHOUT_ARRAYS = {"isdtype", "iinfo", "fft.fftfreq", "fft.rfftfreq"}
WITHOUT_ARRAYS |= {"__array_namespace_info__", "complex64", "complex128", "from_dlpack"}
PAIRS = {n for n in array_standard.ABSENT if n.startswith("bitwise") and n != "bitwise_invert"}
PAIRS |= {"can_cast", "result_type"}


def _numpys(name):
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# ---------------------------------------------------------------- element by element
SMALL = [-3, -2.5, -2, -1.5, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2, 2.5, 3]
UNARY = {
    **dict.fromkeys("abs ceil conj floor imag negative positive real round sign".split(), SMALL),
    **dict.fromkeys("signbit square trunc isfinite isinf isnan logical_not".split(), SMALL),
    **dict.fromkeys("asin asinh atan atanh expm1 log1p sin sinh tan tanh".split(), [0, -0.0]),
    **dict.fromkeys("acos acosh log".split(), [1]),
    **dict.fromkeys("cos cosh exp".split(), [0, -0.0]),
    "log10": [1, 10],
    "log2": [0.25, 0.5, 1, 2, 4, 1024],
    "reciprocal": [-4, -0.5, 1, 2, 8],
    "sqrt": [0.25, 1, 2.25, 4, 9, 100],
}
SHAPES = [(), (0,), (3, 0), (1,), (4,), (2, 3), (2, 1, 3)]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand_are_the_standards(name, format_name):
    reference, soft = both(format_name)
    for shape in SHAPES:
        x = np.resize(UNARY[name], shape)
        expected = getattr(reference, name)(reference.reals(x)) if name != "imag" else None
        if name == "imag":  # of complex numbers in the standard
            expected = reference.zeros_like(reference.reals(x))
        assert_same(getattr(soft, name)(soft.reals(x)), expected, soft.dtype)


ANY = "i -1 0 1 2 0.5 3 -0.5".split()
BINARY = {
    **dict.fromkeys("add subtract multiply copysign maximum minimum floor_divide".split(), SMALL),
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), SMALL),
    **dict.fromkeys("logical_and logical_or logical_xor remainder nextafter".split(), SMALL),
    "atan2": [0, 1, 2, 3],
    "divide": [-4, -2, -0.5, 0.5, 1, 2, 8],
    "hypot": [0, -0.0],
    "logaddexp": [math.inf, -math.inf],
    "pow": [0, 1, 2, 3],
}
PAIRS_OF_SHAPES = [
    ((), ()),
    ((0,), (1,)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((2, 3), ()),
    ((0, 3), (1, 3)),
    ((4, 1, 2), (3, 1)),
]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands_are_the_standards(name, format_name):
    reference, soft = both(format_name)
    if name == "nextafter" and format_name == "binary16":
        reference = Reference("float32")  # only its signs and specials are those of binary16
    values = BINARY[name]
    for first, second in PAIRS_OF_SHAPES:
        x, y = np.resize(values, first), np.resize(values[::-1] + values[:1], second)
        if name == "atan2":
            x = x * 0  # the angle zero
        if name == "nextafter":
            y = x  # the neighbours are those of the format: tests/test_compare.py
            first = second = x.shape
        expected = getattr(reference, name)(reference.reals(x), reference.reals(y))
        got = getattr(soft, name)(soft.reals(x), soft.reals(y))
        assert_same(got, expected, soft.dtype)
        for number in (2.0, 1):
            if name in ("atan2", "hypot", "logaddexp", "nextafter"):
                continue
            assert_same(
                getattr(soft, name)(soft.reals(x), number),
                getattr(reference, name)(reference.reals(x), number),
                soft.dtype,
            )
            assert_same(
                getattr(soft, name)(number, soft.reals(y)),
                getattr(reference, name)(number, reference.reals(y)),
                soft.dtype,
            )


# ---------------------------------------------------------------- special values
# operand>result, as the standard lists them; numbers stand for all of their kind.
SPECIAL = {
    "abs": "nan>nan -0>0 -inf>inf",
    "acos": "nan>nan 2>nan inf>nan -2>nan -inf>nan 1>0",
    "acosh": "nan>nan 0.5>nan -0>nan -2>nan -inf>nan 1>0 inf>inf",
    "asin": "nan>nan 2>nan inf>nan -2>nan -inf>nan 0>0 -0>-0",
    "asinh": "nan>nan 0>0 -0>-0 inf>inf -inf>-inf",
    "atan": "nan>nan 0>0 -0>-0 inf>pi/2 -inf>-pi/2",
    "atanh": "nan>nan -2>nan -inf>nan 2>nan inf>nan -1>-inf 1>inf 0>0 -0>-0",
    "ceil": "3>3 -3>-3 inf>inf -inf>-inf 0>0 -0>-0 nan>nan -0.5>-0",
    "cos": "nan>nan 0>1 -0>1 inf>nan -inf>nan",
    "cosh": "nan>nan 0>1 -0>1 inf>inf -inf>inf",
    "exp": "nan>nan 0>1 -0>1 inf>inf -inf>0",
    "expm1": "nan>nan 0>0 -0>-0 inf>inf -inf>-1",
    "floor": "3>3 -3>-3 inf>inf -inf>-inf 0>0 -0>-0 nan>nan",
    "isfinite": "inf>0 -inf>0 nan>0 0>1 -0>1 3>1",
    "isinf": "inf>1 -inf>1 nan>0 0>0 -0>0 3>0",
    "isnan": "nan>1 inf>0 -inf>0 0>0 3>0",
    "log": "nan>nan -2>nan -inf>nan 0>-inf -0>-inf 1>0 inf>inf",
    "log10": "nan>nan -2>nan -inf>nan 0>-inf -0>-inf 1>0 inf>inf",
    "log1p": "nan>nan -2>nan -inf>nan -1>-inf -0>-0 0>0 inf>inf",
    "log2": "nan>nan -2>nan -inf>nan 0>-inf -0>-inf 1>0 inf>inf",
    "negative": "nan>nan 0>-0 -0>0 inf>-inf -inf>inf",
    "positive": "nan>nan 0>0 -0>-0 inf>inf -inf>-inf",
    "reciprocal": "nan>nan 0>inf -0>-inf inf>0 -inf>-0",
    "round": "3>3 inf>inf -inf>-inf 0>0 -0>-0 nan>nan 0.5>0 -0.5>-0 1.5>2 2.5>2 -2.5>-2",
    "sign": "-3>-1 -inf>-1 -0>0 0>0 3>1 inf>1 nan>nan",
    "signbit": "0>0 -0>1 inf>0 -inf>1 3>0 -3>1 nan>0",
    "sin": "nan>nan 0>0 -0>-0 inf>nan -inf>nan",
    "sinh": "nan>nan 0>0 -0>-0 inf>inf -inf>-inf",
    "square": "nan>nan 0>0 -0>0 inf>inf -inf>inf",
    "sqrt": "nan>nan -2>nan -inf>nan 0>0 -0>-0 inf>inf",
    "tan": "nan>nan 0>0 -0>-0 inf>nan -inf>nan",
    "tanh": "nan>nan 0>0 -0>-0 inf>1 -inf>-1",
    "trunc": "3>3 -3>-3 inf>inf -inf>-inf 0>0 -0>-0 nan>nan -0.5>-0",
}
# Rows: the first operand; columns: the second; "." where the result is that of ordinary numbers.
COLUMNS = "-inf -3 -0 0 3 inf nan".split()
SPECIAL_PAIRS = {
    "add": """
        -inf   -inf -inf -inf -inf -inf nan  nan
        -2     -inf .    -2   -2   .    inf  nan
        -0     -inf -3   -0   0    3    inf  nan
        0      -inf -3   0    0    3    inf  nan
        3      -inf 0    3    3    .    inf  nan
        inf    nan  inf  inf  inf  inf  inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "subtract": """
        -inf   nan  -inf -inf -inf -inf -inf nan
        -2     inf  .    -2   -2   .    -inf nan
        -0     inf  3    0    -0   -3   -inf nan
        0      inf  3    0    0    -3   -inf nan
        3      inf  .    3    3    0    -inf nan
        inf    inf  inf  inf  inf  inf  nan  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "multiply": """
        -inf   inf  inf  nan  nan  -inf -inf nan
        -2     inf  .    0    -0   .    -inf nan
        -0     nan  0    0    -0   -0   nan  nan
        0      nan  -0   -0   0    0    nan  nan
        2      -inf .    -0   0    .    inf  nan
        inf    -inf -inf nan  nan  inf  inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "divide": """
        -inf   nan  inf  inf  -inf -inf nan  nan
        -3     0    1    inf  -inf -1   -0   nan
        -0     0    0    nan  nan  -0   -0   nan
        0      -0   -0   nan  nan  0    0    nan
        3      -0   -1   -inf inf  1    0    nan
        inf    nan  -inf -inf inf  inf  nan  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    # Of the two answers that the standard leaves for infinities, those of Python.
    "floor_divide": """
        -inf   nan  nan  inf  -inf nan  nan  nan
        -3     0    1    inf  -inf -1   -1   nan
        -0     0    0    nan  nan  -0   -0   nan
        0      -0   -0   nan  nan  0    0    nan
        3      -1   -1   -inf inf  1    0    nan
        inf    nan  nan  -inf inf  nan  nan  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "remainder": """
        -inf   nan  nan  nan  nan  nan  nan  nan
        -2     -2   -2   nan  nan  1    inf  nan
        -0     -0   -0   nan  nan  0    0    nan
        0      -0   -0   nan  nan  0    0    nan
        2      -inf -1   nan  nan  2    2    nan
        inf    nan  nan  nan  nan  nan  nan  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "atan2": """
        -inf   -3pi/4 -pi/2 -pi/2 -pi/2 -pi/2 -pi/4 nan
        -2     -pi    .     -pi/2 -pi/2 .     -0    nan
        -0     -pi    -pi   -pi   -0    -0    -0    nan
        0      pi     pi    pi    0     0     0     nan
        2      pi     .     pi/2  pi/2  .     0     nan
        inf    3pi/4  pi/2  pi/2  pi/2  pi/2  pi/4  nan
        nan    nan    nan   nan   nan   nan   nan   nan""",
    "copysign": """
        -inf   -inf -inf -inf inf  inf  inf  inf
        -2     -2   -2   -2   2    2    2    2
        -0     -0   -0   -0   0    0    0    0
        0      -0   -0   -0   0    0    0    0
        2      -2   -2   -2   2    2    2    2
        inf    -inf -inf -inf inf  inf  inf  inf
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "hypot": """
        -inf   inf  inf  inf  inf  inf  inf  inf
        -4     inf  5    4    4    5    inf  nan
        -0     inf  3    0    0    3    inf  nan
        0      inf  3    0    0    3    inf  nan
        4      inf  5    4    4    5    inf  nan
        inf    inf  inf  inf  inf  inf  inf  inf
        nan    inf  nan  nan  nan  nan  inf  nan""",
    "logaddexp": """
        -inf   -inf -3   .    0    3    inf  nan
        -2     -2   .    .    .    .    inf  nan
        inf    inf  inf  inf  inf  inf  inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "nextafter": """
        -inf   -inf .    .    .    .    .    nan
        -3     .    -3   .    .    .    .    nan
        -0     .    .    -0   0    .    .    nan
        0      .    .    -0   0    .    .    nan
        3      .    .    .    .    3    .    nan
        inf    .    .    .    .    .    inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "maximum": """
        -inf   -inf -3   -0   0    3    inf  nan
        -4     -4   -3   -0   0    3    inf  nan
        2      2    2    2    2    3    inf  nan
        inf    inf  inf  inf  inf  inf  inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "minimum": """
        -inf   -inf -inf -inf -inf -inf -inf nan
        -4     -inf -4   -4   -4   -4   -4   nan
        2      -inf -3   -0   0    2    2    nan
        inf    -inf -3   -0   0    3    inf  nan
        nan    nan  nan  nan  nan  nan  nan  nan""",
    "equal": """
        -inf   1    0    0    0    0    0    0
        -3     0    1    0    0    0    0    0
        -0     0    0    1    1    0    0    0
        0      0    0    1    1    0    0    0
        3      0    0    0    0    1    0    0
        inf    0    0    0    0    0    1    0
        nan    0    0    0    0    0    0    0""",
    "not_equal": """
        -inf   0    1    1    1    1    1    1
        -3     1    0    1    1    1    1    1
        -0     1    1    0    0    1    1    1
        0      1    1    0    0    1    1    1
        3      1    1    1    1    0    1    1
        inf    1    1    1    1    1    0    1
        nan    1    1    1    1    1    1    1""",
}
POWERS = "-inf -3 -2 -0.5 -0 0 0.5 2 3 inf nan".split()
SPECIAL_PAIRS["pow"] = """
        -inf   0    -0   0    0    1    1    inf  inf  -inf inf  nan
        -2     0    .    .    nan  1    1    nan  .    .    inf  nan
        -1     1    .    .    nan  1    1    nan  .    .    1    nan
        -0.5   inf  .    .    nan  1    1    nan  .    .    0    nan
        -0     inf  -inf inf  inf  1    1    0    0    -0   0    nan
        0      inf  inf  inf  inf  1    1    0    0    0    0    nan
        0.5    inf  .    .    .    1    1    .    .    .    0    nan
        1      1    1    1    1    1    1    1    1    1    1    1
        2      0    .    .    .    1    1    .    .    .    inf  nan
        inf    0    0    0    0    1    1    inf  inf  inf  inf  nan
        nan    nan  nan  nan  nan  1    1    nan  nan  nan  nan  nan"""


def value(text, fmt):
    """The number of a table, those with pi as the nearest value of the format."""
    if "pi" not in text:
        return float(text)
    times, part = text.replace("pi", ",").split(",")
    times = {"": 1, "-": -1}.get(times) or int(times)
    return float(sf.array(PI * times / int(part[1:] or 1), fmt))


def special_cases(name, fmt):
    """(operands, results) of a table."""
    if name in SPECIAL:
        pairs = [case.split(">") for case in SPECIAL[name].split()]
        return [[value(x, fmt) for x, _ in pairs]], [value(y, fmt) for _, y in pairs]
    columns = POWERS if name == "pow" else COLUMNS
    found = []
    for line in SPECIAL_PAIRS[name].strip().splitlines():
        first, *results = line.split()
        assert len(results) == len(columns)
        found += [(first, y, z) for y, z in zip(columns, results, strict=True) if z != "."]
    first, second, results = (
        [value(text, fmt) for text in part] for part in zip(*found, strict=True)
    )
    return [first, second], results


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", [*SPECIAL, *SPECIAL_PAIRS])
def test_special_values_are_the_standards(name, format_name):
    reference, soft = both(format_name)
    operands, results = special_cases(name, soft.dtype)
    got = getattr(soft, name)(*map(soft.reals, operands))
    truths = isinstance(got, np.ndarray)
    got = got.astype(float) if truths else got.to_numpy().astype(float)
    wrong = bits64(got) != bits64(np.array(results))
    assert not wrong.any(), [(*x, g) for *x, g, w in zip(*operands, got, wrong, strict=True) if w]
    with np.errstate(all="ignore"):  # the table itself, against the reference
        same = np.asarray(getattr(reference, name)(*map(reference.reals, operands)), float)
    near = np.isclose(same, results, rtol=1e-3, equal_nan=True)
    assert near.all() and (np.signbit(same) == np.signbit(results))[~np.isnan(results)].all()


def test_nan_keeps_no_sign():
    """Where the standard speaks of the sign of NaN: a format has one NaN, without a sign."""
    a = sf.array([np.nan, -np.nan], sf.binary32)
    assert not np.signbit(a).any()
    assert not np.signbit(np.copysign(a, sf.array([-1.0, -1.0], sf.binary32))).any()
    assert (np.copysign(sf.array([2.0, 2.0], sf.binary32), a) == 2).all()


# ---------------------------------------------------------------- functions of whole arrays
REGULAR = [[2.0, 1, 0], [0, 1, 4], [0, 0, 4]]
SHEAR = [[1.0, 3, -2], [0, 1, 4], [0, 0, 1]]
POSITIVE = [[4.0, 2, 0], [2, 5, 2], [0, 2, 10]]
CALLS = {
    "all": lambda x: [x.all(x.plain(ramp(2, 3) > 0)), x.all(x.a(2, 3), axis=1, keepdims=True)],
    "any": lambda x: [x.any(x.a(2, 0), axis=1), x.any(x.a(2, 3), axis=(0, 1)), x.any(x.a())],
    "argmax": lambda x: [x.argmax(x.a(2, 3)), x.argmax(x.a(4, 3), axis=0, keepdims=True)],
    "argmin": lambda x: [x.argmin(x.a(2, 3)), x.argmin(x.a(4, 3), axis=-1)],
    "argsort": lambda x: [x.argsort(x.a(13)), x.argsort(x.a(3, 4), axis=0), x.argsort(x.a(0))],
    "astype": lambda x: [
        x.astype(x.a(2, 3), x.bool), x.astype(x.a(2, 3), x.int32), x.astype(x.a(3), x.dtype),
    ],
    "arange": lambda x: [
        x.arange(5, **x.made), x.arange(1, 6, 2, **x.made), x.arange(3, 0, -1, **x.made),
        x.arange(3, 3, **x.made),
    ],
    "asarray": lambda x: [x.asarray([[1.0, 2], [3, 4]], **x.made), x.asarray(2.5, **x.made)],
    "broadcast_arrays": lambda x: list(x.broadcast_arrays(x.a(2, 1), x.a(3))),
    "broadcast_shapes": lambda x: [x.broadcast_shapes((2, 1), (3,))],
    "broadcast_to": lambda x: [x.broadcast_to(x.a(3), (2, 3)), x.broadcast_to(x.a(), (0, 2))],
    "clip": lambda x: [
        x.clip(x.a(2, 3), -1, 2), x.clip(x.a(2, 3), min=x.a(3)), x.clip(x.a(4), max=1.5),
        x.clip(x.a(3)), x.clip(x.v([1, math.nan, 3]), x.v([math.nan, 0, 0]), x.v([1, 1, 1])),
    ],
    "concat": lambda x: [
        x.concat([x.a(2, 3), x.a(1, 3)]), x.concat([x.a(2, 3), x.a(2, 1)], axis=1),
        x.concat([x.a(2, 3), x.a(2)], axis=None), x.concat((x.a(0), x.a(2))),
    ],
    "count_nonzero": lambda x: [
        x.count_nonzero(x.a(3, 4)), x.count_nonzero(x.a(3, 4), axis=1, keepdims=True),
    ],
    "cumulative_prod": lambda x: [
        x.cumulative_prod(x.a(4)), x.cumulative_prod(x.a(3, 2), axis=0, include_initial=True),
    ],
    "cumulative_sum": lambda x: [
        x.cumulative_sum(x.a(7)), x.cumulative_sum(x.a(3, 2), axis=1, include_initial=True),
        x.cumulative_sum(x.a(0), include_initial=True),
    ],
    "diff": lambda x: [
        x.diff(x.a(7)), x.diff(x.a(3, 4), axis=0, n=2), x.diff(x.a(1)), x.diff(x.a(3), n=0),
        x.diff(x.a(2, 3), prepend=x.a(2, 1), append=x.a(2, 2)),
    ],
    "empty": lambda x: [x.empty((2, 3), **x.made).shape, x.empty(0, **x.made)],
    "empty_like": lambda x: [x.empty_like(x.a(2, 3)).shape, x.empty_like(x.a(2, 0))],
    "expand_dims": lambda x: [x.expand_dims(x.a(2, 3), axis=-1), x.expand_dims(x.a(), axis=0)],
    "eye": lambda x: [x.eye(3, **x.made), x.eye(2, 4, k=1, **x.made), x.eye(3, 2, k=-2, **x.made)],
    "flip": lambda x: [x.flip(x.a(2, 3)), x.flip(x.a(2, 3), axis=-1), x.flip(x.a(2, 3, 2), axis=(0, 2))],
    "full": lambda x: [x.full((2, 3), 2.5, **x.made), x.full((), math.inf, **x.made)],
    "full_like": lambda x: [x.full_like(x.a(2, 3), -1.5), x.full_like(x.a(), 3, dtype=x.dtype)],
    "isin": lambda x: [x.isin(x.a(2, 3), x.v([1, 2])), x.isin(x.a(3), x.a(0))],
    "linspace": lambda x: [
        x.linspace(0, 4, 5, **x.made), x.linspace(1, -1, 4, endpoint=False, **x.made),
        x.linspace(2, 2, 1, **x.made), x.linspace(0, 1, 0, **x.made),
    ],
    "matmul": lambda x: [
        x.matmul(x.a(2, 3), x.a(3, 4)), x.matmul(x.a(3), x.a(3)), x.matmul(x.a(3), x.a(2, 3, 1)),
        x.matmul(x.a(2, 1, 3), x.a(4, 3, 2)[:1, ...]), x.matmul(x.a(2, 0), x.a(0, 3)),
    ],
    "matrix_transpose": lambda x: [x.matrix_transpose(x.a(2, 3)), x.matrix_transpose(x.a(2, 3, 4))],
    "max": lambda x: [
        x.max(x.a(2, 3)), x.max(x.a(2, 3, 2), axis=(0, 2), keepdims=True), x.max(x.v([1, math.nan])),
    ],
    "mean": lambda x: [
        x.mean(x.v([1, 2, 3, 4])), x.mean(x.v([[1, 3], [2, 4]]), axis=0, keepdims=True),
        x.mean(x.v([1, math.inf])), x.mean(x.v([1, math.nan])), x.mean(x.a(0)),
    ],
    "meshgrid": lambda x: [*x.meshgrid(x.a(2), x.a(3)), *x.meshgrid(x.a(2), x.a(3), indexing="ij")],
    "min": lambda x: [x.min(x.a(2, 3)), x.min(x.a(2, 3), axis=-1), x.min(x.v([math.nan, -math.inf]))],
    "moveaxis": lambda x: [x.moveaxis(x.a(2, 3, 4), 0, -1), x.moveaxis(x.a(2, 3, 4), (0, 1), (2, 0))],
    "nonzero": lambda x: [*x.nonzero(x.a(3, 4)), *x.nonzero(x.a(0))],
    "ones": lambda x: [x.ones((2, 3), **x.made), x.ones(2, **x.made), x.ones((), **x.made)],
    "ones_like": lambda x: [x.ones_like(x.a(2, 3)), x.ones_like(x.a(), dtype=x.dtype)],
    "permute_dims": lambda x: [x.permute_dims(x.a(2, 3, 4), (2, 0, 1))],
    "prod": lambda x: [
        x.prod(x.a(4)), x.prod(x.a(2, 3), axis=1, keepdims=True), x.prod(x.a(0)),
        x.prod(x.a(2, 0), axis=1), x.prod(x.a(4), dtype=x.dtype), x.prod(x.v([0, math.inf])),
    ],
    "repeat": lambda x: [
        x.repeat(x.a(2, 3), 2), x.repeat(x.a(2, 3), 3, axis=0),
        x.repeat(x.a(2, 3), x.plain([1, 0, 2]), axis=1),
    ],
    "reshape": lambda x: [
        x.reshape(x.a(2, 3), (3, 2)), x.reshape(x.a(2, 3), (-1,)), x.reshape(x.a(1), ()),
        x.reshape(x.a(2, 3), (6, 1), copy=True),
    ],
    "roll": lambda x: [
        x.roll(x.a(2, 3), 1), x.roll(x.a(2, 3), -1, axis=1), x.roll(x.a(2, 3), (1, 2), axis=(0, 1)),
    ],
    "searchsorted": lambda x: [
        x.searchsorted(x.v([1, 2, 2, 4]), x.v([0, 2, 5])),
        x.searchsorted(x.v([1, 2, 2, 4]), x.v([[2, 3]]), side="right"),
        x.searchsorted(x.v([4, 1, 2]), x.v([2]), sorter=x.plain([1, 2, 0])),
    ],
    "sort": lambda x: [x.sort(x.a(13)), x.sort(x.a(3, 4), axis=0), x.sort(x.v([0, -0.0, 1, -1]))],
    "squeeze": lambda x: [x.squeeze(x.a(1, 3, 1), axis=0), x.squeeze(x.a(1, 3, 1), axis=(0, 2))],
    "stack": lambda x: [x.stack([x.a(3), x.a(3)]), x.stack((x.a(2, 3), x.a(2, 3)), axis=-1)],
    "std": lambda x: [
        x.std(x.v([1, 3, 1, 3])), x.std(x.v([[0, 4], [4, 0]]), axis=0, keepdims=True),
        x.std(x.v([1, 1, 4, 4, 1, 1]), correction=3), x.std(x.v([1, math.inf])),
    ],
    "sum": lambda x: [
        x.sum(x.a(2, 3)), x.sum(x.a(2, 3, 2), axis=(0, 2), keepdims=True), x.sum(x.a(0)),
        x.sum(x.a(2, 0), axis=0), x.sum(x.v([math.inf, -math.inf])), x.sum(x.a(3), dtype=x.dtype),
    ],
    "take": lambda x: [
        x.take(x.a(5), x.plain([0, -1, 2])), x.take(x.a(2, 3), x.plain([2, 0]), axis=1),
    ],
    "take_along_axis": lambda x: [x.take_along_axis(x.a(2, 3), x.plain([[0, 2], [1, 1]]), axis=1)],
    "tensordot": lambda x: [
        x.tensordot(x.a(2, 3), x.a(3, 4), axes=1), x.tensordot(x.a(2, 3), x.a(3, 2), axes=((0, 1), (1, 0))),
        x.tensordot(x.a(2), x.a(3), axes=0),
    ],
    "tile": lambda x: [x.tile(x.a(2, 3), (2, 1)), x.tile(x.a(3), (2, 2)), x.tile(x.a(2, 3), (2,))],
    "tril": lambda x: [x.tril(x.a(3, 4)), x.tril(x.a(2, 3, 3), k=1), x.tril(x.a(3, 3), k=-1)],
    "triu": lambda x: [x.triu(x.a(3, 4)), x.triu(x.a(2, 3, 3), k=1), x.triu(x.a(3, 3), k=-2)],
    "unique_all": lambda x: [x.unique_all(x.a(3, 5)), x.unique_all(x.v([math.nan, 1, math.nan]))],
    "unique_counts": lambda x: [x.unique_counts(x.a(3, 5)), x.unique_counts(x.v([math.nan] * 2))],
    "unique_inverse": lambda x: [x.unique_inverse(x.a(3, 5)), x.unique_inverse(x.a())],
    "unique_values": lambda x: [x.unique_values(x.a(3, 5)), x.unique_values(x.a(0))],
    "unstack": lambda x: [*x.unstack(x.a(2, 3)), *x.unstack(x.a(2, 3), axis=1)],
    "var": lambda x: [
        x.var(x.v([1, 3, 1, 3])), x.var(x.v([[1, 5], [3, 5]]), axis=1, keepdims=True),
        x.var(x.v([1, 2, 3]), correction=1), x.var(x.v([1, math.nan])),
    ],
    "vecdot": lambda x: [
        x.vecdot(x.a(3), x.a(3)), x.vecdot(x.a(2, 3), x.a(3)), x.vecdot(x.a(3, 2), x.a(3, 2), axis=-2),
    ],
    "where": lambda x: [
        x.where(x.plain(ramp(2, 3) > 0), x.a(2, 3), x.a(3)), x.where(x.plain([True, False]), x.a(2), 1.5),
        x.where(x.plain(True), x.a(), x.a(2)),
    ],
    "zeros": lambda x: [x.zeros((2, 3), **x.made), x.zeros(2, **x.made), x.zeros((), **x.made)],
    "zeros_like": lambda x: [x.zeros_like(x.a(2, 3)), x.zeros_like(x.a(), dtype=x.dtype)],
    "linalg.cholesky": lambda x: [
        x.linalg.cholesky(x.v(POSITIVE)), x.linalg.cholesky(x.v([POSITIVE] * 2), upper=True),
    ],
    "linalg.cross": lambda x: [
        x.linalg.cross(x.a(3), x.v([1, 2, 3])), x.linalg.cross(x.a(3, 2), x.a(3, 2)[::-1, :], axis=-2),
        x.linalg.cross(x.a(2, 3), x.v([[1, 2, 3]])),
    ],
    "linalg.det": lambda x: [x.linalg.det(x.v(SHEAR)), x.linalg.det(x.v([SHEAR, SHEAR[::-1]]))],
    "linalg.diagonal": lambda x: [x.linalg.diagonal(x.a(3, 4)), x.linalg.diagonal(x.a(2, 3, 4), offset=-1)],
    "linalg.inv": lambda x: [x.linalg.inv(x.v(REGULAR)), x.linalg.inv(x.v([REGULAR] * 2))],
    "linalg.matmul": lambda x: [x.linalg.matmul(x.a(2, 3), x.a(3, 4)), x.linalg.matmul(x.a(3), x.a(3))],
    "linalg.matrix_norm": lambda x: [
        x.linalg.matrix_norm(x.v([[2, 4], [4, 0]])), x.linalg.matrix_norm(x.a(2, 3, 4), ord=1),
        x.linalg.matrix_norm(x.a(3, 4), ord=math.inf, keepdims=True),
        x.linalg.matrix_norm(x.a(3, 4), ord=-1), x.linalg.matrix_norm(x.a(3, 4), ord=-math.inf),
    ],
    "linalg.matrix_power": lambda x: [
        x.linalg.matrix_power(x.v(REGULAR), n) for n in (0, 1, 2, 3, 4, -1, -2)
    ],
    "linalg.matrix_transpose": lambda x: [x.linalg.matrix_transpose(x.a(2, 3, 4))],
    "linalg.outer": lambda x: [x.linalg.outer(x.a(3), x.a(4)), x.linalg.outer(x.a(0), x.a(2))],
    "linalg.qr": lambda x: [
        part + 0.0 for matrix in ([[0.0, 2], [4, 0]], [[0.0], [4], [0]]) for mode in ("reduced", "complete")
        for part in x.linalg.qr(x.v(matrix), mode=mode)
    ],
    "linalg.slogdet": lambda x: [
        x.linalg.slogdet(x.v([[0.0, 1], [1, 0]])), x.linalg.slogdet(x.v([[1.0, 2], [2, 4]])),
    ],
    "linalg.solve": lambda x: [
        x.linalg.solve(x.v(REGULAR), x.v([4, 8, 4])), x.linalg.solve(x.v(REGULAR), x.v([[4], [8], [4]])),
        x.linalg.solve(x.v([REGULAR] * 2), x.v([4, 8, 4])),
    ],
    "linalg.tensordot": lambda x: [x.linalg.tensordot(x.a(2, 3), x.a(3, 4), axes=1)],
    "linalg.trace": lambda x: [x.linalg.trace(x.a(3, 4)), x.linalg.trace(x.a(2, 3, 3), offset=1, dtype=x.dtype)],
    "linalg.vecdot": lambda x: [x.linalg.vecdot(x.a(2, 3), x.a(3)), x.linalg.vecdot(x.a(3, 2), x.a(3, 2), axis=-2)],
    "linalg.vector_norm": lambda x: [
        x.linalg.vector_norm(x.v([3, 4])), x.linalg.vector_norm(x.v([[3, 4], [0, 5]]), axis=1, keepdims=True),
        x.linalg.vector_norm(x.a(2, 3), ord=1), x.linalg.vector_norm(x.a(2, 3), ord=math.inf, axis=0),
        x.linalg.vector_norm(x.a(2, 3, 2), ord=-math.inf, axis=(0, 2)), x.linalg.vector_norm(x.a(7), ord=0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_arrays_are_the_standards(name, format_name):
    reference, soft = both(format_name)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of infinities and of means of nothing
        expected = CALLS[name](reference)
    for got, right in itertools.zip_longest(CALLS[name](soft), expected):
        assert_same(got, right, soft.dtype)


# ---------------------------------------------------------------- constants and data types
def test_constants_are_pythons_numbers():
    a = sf.array([1.0, 2.0], sf.binary32)
    for name in array_standard.CONSTANTS:
        got, expected = getattr(np, name), getattr(strict, name)
        assert got is expected or got == expected or math.isnan(got) and math.isnan(expected)
    assert (a * np.pi).format is sf.binary32
    assert a[np.newaxis, :].shape == (1, 2)
    assert (a + np.inf == np.inf).all() and np.isnan(a + np.nan).all()


def test_data_types():
    a = sf.array([0.0, 1.0, -2.5], sf.binary32)
    assert sf.float32 == sf.binary32 and sf.float64 == sf.binary64
    for name in array_standard.INTEGERS:
        whole = np.abs(a).astype(getattr(np, name))
        assert type(whole) is np.ndarray and whole.dtype == name
        assert whole.tolist() == [0, 1, 1 if name == "bool" else 2]
    for ours, theirs in ((sf.float32, "float32"), (sf.float64, "float64")):
        got, expected = sf.finfo(ours), strict.finfo(getattr(strict, theirs))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(got, field) == getattr(expected, field), field
        assert got.dtype == theirs  # the carrier


# ---------------------------------------------------------------- the array object
BINARY_OPERATORS = {
    "add": "+", "floordiv": "//", "mod": "%", "mul": "*", "pow": "**", "sub": "-", "truediv": "/",
    "matmul": "@",
}  # fmt: skip


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", BINARY_OPERATORS)
def test_operators_are_the_standards(name, format_name):
    values = {"pow": [1, 2, 3, 1], "truediv": [-4, 0.5, 1, 2]}.get(name, [-3, 1, 2.5, 4])
    symbol = BINARY_OPERATORS[name]
    lines = ["a {} b", "a {} a", "b[:1] {} a" if name != "matmul" else "b {} a"]
    if name != "matmul":
        lines += ["a {} 2.0", "2 {} a", "a[0] {} a", "a[0] {} 1", "c {} a"]
    for line in lines:
        results = []
        for space in both(format_name):
            a, b = space.reals(values), space.reals(values[::-1])
            c = space.reals([[1.0], [2.0]])
            results.append(eval(line.format(symbol), {"a": a, "b": b, "c": c}))
        assert_same(results[1], results[0], getattr(sf, format_name))
    changed = []
    for space in both(format_name):
        a, b = space.reals([values] * 4), space.reals([values[::-1]] * 4)
        before = a
        exec(f"a {symbol}= b", {}, scope := {"a": a, "b": b})
        changed.append(scope["a"])
    assert scope["a"] is before
    assert_same(changed[1], changed[0], getattr(sf, format_name))


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_array_object_is_the_standards(format_name):
    fmt = getattr(sf, format_name)
    for line in (
        "-a", "+a", "abs(a)", "a == b", "a != b", "a < b", "a <= b", "a > b", "a >= b", "a == 2.0",
        "3 < a", "a.T", "m.mT", "m.shape", "m.ndim", "m.size", "a.shape", "bool(a[0, 1])",
        "float(a[0, 1])", "int(a[0, 1])", "complex(a[0, 1])",
        "a.to_device(a.device)", "a[0, 1]", "a[1, :]", "a[:, -1]", "a[..., 0]", "a[::-1, 1:]", "a[a > 0]",
        "a[None, ...]", "m[0, ..., 1]", "a[i, j]",
    ):  # fmt: skip
        results = []
        for space in both(format_name):
            names = {
                "a": space.reals(ramp(2, 3)),
                "b": space.reals(ramp(3)),
                "m": space.reals(ramp(2, 3, 4)),
            }
            names |= {"i": space.plain([0, 1]), "j": space.plain([2, 0])}
            results.append(eval(line, names))
        assert_same(results[1], results[0], fmt)
    for line in (
        "a[0, 1] = 2.5",
        "a[...] = 1",
        "a[a > 0] = 0.5",
        "a[:, 1] = b",
        "a[1, :] = a[0, :]",
    ):
        changed = []
        for space in both(format_name):
            names = {"a": space.reals(ramp(2, 3)), "b": space.reals([7.0, 8.0])}
            exec(line, names)
            changed.append(names["a"])
        assert_same(changed[1], changed[0], fmt)


def test_index_and_bits_are_errors():
    a = sf.array([1.0, 2.0], sf.binary32)
    assert a.device == "cpu" and a.to_device("cpu") is a
    with pytest.raises(TypeError):
        [1, 2, 3][a[0]]
    for line in ("a & a", "a | 1", "1 ^ a", "a << 1", "a >> a", "~a"):
        with pytest.raises(TypeError):
            eval(line, {"a": a})


def test_there_is_no_namespace():
    """So that a library that goes by the standard refuses these arrays, where it asks for the namespace."""
    compat = pytest.importorskip("array_api_compat")
    a = sf.array([1.0, 2.0], sf.binary32)
    assert not compat.is_array_api_obj(a)
    with pytest.raises(TypeError):
        compat.array_namespace(a)
