"""What the tests share: vector files, formats to test in, edge values, comparisons of bits."""

import json
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import oracle
import pytest

import softfloat as sf

DATA = Path(__file__).parent / "data"

# The vector files' names of modes, of special-value rules and of subnormal rules.
VECTOR_ROUNDING = {
    "near_even": "ties_to_even",
    "near_maxMag": "ties_to_away",
    "minMag": "toward_zero",
    "max": "toward_positive",
    "min": "toward_negative",
    "odd": "to_odd",
}
VECTOR_SPECIALS = {
    "ieee": "ieee",
    "fn": "fn",
    "fnuz": "fnuz",
    "finite": "finite",
    "p3109e": "p3109_extended",
}
VECTOR_SUBNORMALS = {"yes": True, "ftz": "ftz", "grid": "grid", "lownormal": "normal"}
VECTOR_SATURATE = {"none": False, "finite": "finite", "propagate": "propagate"}
UNDEFINED = 0xFFFF

NAMED = {
    "e4m3fn": oracle.Format(4, 3, specials="fn"),
    "e5m2": oracle.Format(5, 2),
    "e4m3fnuz": oracle.Format(4, 3, specials="fnuz"),
    "e5m2fnuz": oracle.Format(5, 2, specials="fnuz"),
    "e4m3b11fnuz": oracle.Format(4, 3, bias=11, specials="fnuz"),
    "e4m3": oracle.Format(4, 3),
    "e3m4": oracle.Format(3, 4),
    "e2m1fn": oracle.Format(2, 1, specials="finite"),
    "e2m3fn": oracle.Format(2, 3, specials="finite"),
    "e3m2fn": oracle.Format(3, 2, specials="finite"),
    "e8m0fnu": oracle.Format(8, 0, bias=127, specials="scale", signed=False),
    "binary16": oracle.BINARY16,
    "bfloat16": oracle.BFLOAT16,
    "binary32": oracle.BINARY32,
    "binary64": oracle.BINARY64,
    "tf32": oracle.Format(8, 10),
    "dlfloat16": oracle.Format(6, 9, bias=31, specials="fn", subnormals="normal"),
}

# One of each rule, of each carrier (within it and all of it), and odd ones.
FORMATS = [
    *(NAMED[n] for n in ("e4m3fn", "e5m2", "e4m3fnuz", "e2m1fn", "e3m2fn", "binary16", "bfloat16")),
    *(NAMED[n] for n in ("tf32", "binary32", "binary64", "dlfloat16", "e3m4")),
    oracle.Format(6, 9),
    oracle.Format(11, 40),
    oracle.Format(3, 52),
    oracle.Format(10, 5),
    oracle.Format(8, 1),
    oracle.Format(2, 20),
    oracle.Format(5, 10, subnormals="ftz"),
    oracle.Format(8, 7, subnormals="ftz"),
    oracle.Format(6, 9, subnormals="grid"),
    oracle.Format(6, 17, specials="fnuz"),
    oracle.Format(5, 18, specials="finite"),
    oracle.Format(5, 30, bias=3),
    oracle.p3109(8, 3),
    oracle.p3109(8, 4, extended=False),
    oracle.p3109(8, 1),
]


@lru_cache(maxsize=2)
def vectors(name):
    with np.load(DATA / f"{name}.npz") as stored:
        return {key: stored[key] for key in stored.files}


def manifest(name):
    return json.loads((DATA / f"{name}.json").read_text())


def vector_format(entry):
    """The oracle's format for an entry of odd.json, hard.json or sr.json."""
    return oracle.Format(
        entry["e"],
        entry["m"],
        entry["bias"],
        VECTOR_SPECIALS[entry["specials"]],
        VECTOR_SUBNORMALS[entry.get("subnormals", "yes")],
    )


def p3109_name(name):
    """binary8p3se and its kin, read as IEEE P3109 names them."""
    K, rest = name.removeprefix("binary").split("p")
    return oracle.p3109(int(K), int(rest[:-2]), rest[-2] == "s", rest[-1] == "e")


def table_format(name):
    return NAMED[name] if name in NAMED else p3109_name(name)


@cache
def package_format(fmt):
    return sf.Format(
        fmt.exponent_bits,
        fmt.mantissa_bits,
        bias=fmt.bias,
        specials=fmt.specials,
        subnormals=fmt.subnormals,
        signed=fmt.signed,
    )


def spread(formats, operations, roundings):
    """(format, operation, rounding), the default suite kept short: each new combination compiles.

    Formats without a name of their own, or with rules of their own, try every mode on sums and two modes on the other
    operations; the remaining combinations are left to the exhaustive suite.
    """
    return [
        pytest.param(f, o, r, id=f"{f}-{o}-{r}", marks=() if r in core(f, o) else EXHAUSTIVE)
        for f in formats
        for o in operations
        for r in roundings
    ]


EXHAUSTIVE = pytest.mark.exhaustive


def core(fmt, operation):
    """The modes in which the default suite tries an operation."""
    plain = fmt.specials == "ieee" and fmt.subnormals is True and fmt.signed
    if operation == "add" or (plain and fmt in NAMED.values()):
        return {*oracle.ROUNDINGS, "stochastic"}
    return {"ties_to_even", "toward_negative"}


def code_dtype(fmt):
    return np.dtype(next(f"u{n}" for n in (1, 2, 4, 8) if fmt.bits <= 8 * n))


# --- TestFloat's files
WIDTHS = {"f16": sf.binary16, "f32": sf.binary32, "f64": sf.binary64, "bf16": sf.bfloat16}
REFERENCE = {
    "f16": oracle.BINARY16,
    "f32": oracle.BINARY32,
    "f64": oracle.BINARY64,
    "bf16": oracle.BFLOAT16,
}
INTEGER_TYPES = {"i32": np.int32, "ui32": np.uint32, "i64": np.int64, "ui64": np.uint64}


def entries_of_testfloat(wanted, from_integers=False):
    """(width, operation, mode) of the runs with a wanted operation or target of a conversion."""
    entries = []
    for width in ("f16", "f32", "f64"):
        for entry in manifest(f"testfloat_{width}")["entries"]:
            source, name = entry["op"].split("_", 1)
            if wanted(name.removeprefix("to_")) and (source in INTEGER_TYPES) == from_integers:
                place = f"{entry['op']}-{entry['mode']}"
                entries.append(pytest.param(width, entry["op"], entry["mode"], id=place))
    return entries


def rows_of_testfloat(width, operation, mode):
    """Columns of one TestFloat run; the flags `fb` are stored only where they differ from `fa`."""
    stored = vectors(f"testfloat_{width}")
    rows = {
        column: stored[f"{operation}.{mode}.{column}"]
        for column in ("a", "b", "c", "r", "fa", "fb")
        if f"{operation}.{mode}.{column}" in stored
    }
    return {"fb": rows["fa"], **rows}


# --- values
def values_of(fmt, codes):
    """float64 values of codes, one field at a time; NaN codes become the default NaN."""
    codes = np.asarray(codes).astype(np.uint64)
    magnitude = codes & np.uint64(fmt.all_ones)
    trailing = magnitude & np.uint64(2**fmt.mantissa_bits - 1)
    field = (magnitude >> np.uint64(fmt.mantissa_bits)).astype(np.int64)
    implicit = np.uint64(2**fmt.mantissa_bits)
    low = (field == 0) & (fmt.specials != "scale")
    if fmt.subnormals is True:
        significand = np.where(low, trailing, trailing + implicit)
        exponent = np.where(low, 1, field)
    elif fmt.subnormals == "normal":
        significand, exponent = np.where(magnitude == 0, 0, trailing + implicit), field
    else:
        significand, exponent = np.where(low, 0, trailing + implicit), field
    # Two steps: 2**(e - bias - m) may be below the smallest float64 where the product is not.
    scaled = np.ldexp(significand.astype(np.float64), -fmt.mantissa_bits)
    with np.errstate(over="ignore"):
        result = np.ldexp(scaled, exponent - fmt.bias)
    if fmt.infinity is not None:
        result = np.where(magnitude == np.uint64(fmt.infinity), np.inf, result)
    if fmt.signed:
        negative = (codes & np.uint64(fmt.minus)) != 0
        if not fmt.negative_zero:
            negative &= result != 0
        result = np.where(negative, -result, result)
    return np.where(is_nan_code(fmt, codes), np.nan, result)


def is_nan_code(fmt, codes):
    codes = np.asarray(codes).astype(np.uint64)
    magnitude = codes & np.uint64(fmt.all_ones)
    if fmt.specials == "ieee":
        return magnitude > np.uint64(fmt.infinity)
    if fmt.nan is None:
        return np.zeros(codes.shape, bool)
    return (magnitude if fmt.specials == "fn" else codes) == np.uint64(fmt.nan)


def all_codes(fmt):
    return np.arange(2**fmt.bits, dtype=np.uint64).astype(code_dtype(fmt))


def some_codes(fmt, n, seed=0):
    """Codes of every kind: the ends of all ranges, and random ones, half near powers of two."""
    rng = np.random.default_rng(seed)
    one = (fmt.bias << fmt.mantissa_bits) & fmt.all_ones
    ends = {
        0,
        1,
        2,
        fmt.smallest,
        fmt.largest,
        fmt.largest - 1,
        fmt.all_ones,
        one,
        one + 1,
        one - 1,
    }
    ends |= {2**fmt.mantissa_bits, 2**fmt.mantissa_bits - 1, 2**fmt.mantissa_bits + 1}
    if fmt.infinity is not None:
        ends.add(fmt.infinity)
    ends = [c & fmt.all_ones for c in ends]
    ends = np.array(sorted({c | s for c in ends for s in (0, fmt.minus)}), dtype=np.uint64)
    drawn = rng.integers(0, 2**fmt.bits - 1, max(n - len(ends), 0), dtype=np.uint64, endpoint=True)
    few = np.uint64(max(2**fmt.mantissa_bits - 1, 0))
    near = (drawn & ~few) + np.uint64(rng.integers(0, 3)) * (rng.random(len(drawn)) < 0.5)
    drawn = np.where(rng.random(len(drawn)) < 0.5, near.astype(np.uint64), drawn)
    drawn &= np.uint64(2**fmt.bits - 1)
    return rng.permutation(np.concatenate([ends, drawn])[:n]).astype(code_dtype(fmt))


def some_values(fmt, n, seed=0):
    """float64 inputs that decide: values, midpoints, their neighbours, numbers outside."""
    rng = np.random.default_rng(seed)
    codes = some_codes(fmt, n, seed).astype(np.uint64)
    magnitude = np.minimum(codes & np.uint64(fmt.all_ones), np.uint64(fmt.largest))
    sign = codes & np.uint64(fmt.minus)
    below = values_of(fmt, magnitude)
    above = values_of(fmt, np.minimum(magnitude + np.uint64(1), np.uint64(fmt.largest)))
    with np.errstate(over="ignore", invalid="ignore"):
        middle = below + (above - below) / 2
        beyond = below + (
            below - values_of(fmt, np.maximum(magnitude, np.uint64(1)) - np.uint64(1))
        )
        choices = [below, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)]
        choices += [np.nextafter(below, 0), np.nextafter(below, np.inf), beyond, beyond * 1.75]
        choices += [
            below / 2,
            below / 4 * 3,
            below * 2.0**-30,
            below + (above - below) * rng.random(n),
        ]
        random_bits = rng.integers(0, 2**64 - 1, n, dtype=np.uint64, endpoint=True)
        choices += [random_bits.view(np.float64)]
        x = np.choose(rng.integers(0, len(choices), n), choices)
    x = np.where(sign != 0, -x, x)
    x[rng.integers(0, n, 6)] = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324]
    return x


# --- comparisons
def bits64(x):
    """Values as float64 bit patterns, all NaNs as one."""
    with np.errstate(invalid="ignore"):  # a signaling NaN is a NaN like any other here
        x = np.asarray(x).astype(np.float64)
    return np.where(np.isnan(x), np.uint64(0x7FF8 << 48), x.view(np.uint64))


def assert_same_bits(got, expected, *inputs):
    """Two arrays of values, bit for bit, NaN as one class."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    wrong = np.flatnonzero(bits64(got) != bits64(expected))
    shown = [
        f"  {[str(np.broadcast_to(x, got.shape).ravel()[i]) for x in inputs]} gave"
        f" {float(got.ravel()[i]).hex()}, expected {float(expected.ravel()[i]).hex()}"
        for i in wrong[:5]
    ]
    assert not len(wrong), "\n".join([f"{len(wrong)} of {got.size} differ", *shown])


def assert_same_codes(got, codes, fmt, *inputs):
    """An array of values against expected codes, bit for bit, NaN as one class."""
    assert_same_bits(got, values_of(fmt, codes), *inputs)


def expected_codes(fmt, results):
    """Codes of the oracle's results; a NaN that the format lacks is masked."""
    missing = np.array([r.code is None for r in results], bool)
    return np.array([r.code or 0 for r in results], np.uint64), missing


def assert_matches_oracle(got, fmt, results, *inputs):
    codes, missing = expected_codes(fmt, results)
    expected = np.where(missing, np.nan, values_of(fmt, codes))
    assert_same_bits(got, expected.reshape(np.shape(got)), *inputs)


def assert_flags(call, operands, flags, tininess):
    """Rows of one expected pattern go in together, so that counts tell which elements raised."""
    for pattern in np.unique(flags):
        rows = flags == pattern
        with sf.status(tininess=tininess) as status:
            call(*(x[rows] for x in operands))
        expected = {f.name: int(rows.sum()) if pattern & f else 0 for f in oracle.Flag}
        assert {name: getattr(status, name) for name in expected} == expected


def on_both_paths(call, *operands):
    """The result, after checking that counting flags, which takes other loops, gives the same."""
    result = call(*operands)
    with sf.status():
        assert_same_bits(call(*operands), result, *operands)
    return result


def numbers(x):
    """Oracle operands for a float array."""
    return [oracle.from_float(float(v)) for v in np.asarray(x).ravel()]
