"""Formats: derived quantities, decode tables code by code, names, identity, bad descriptions."""

import copy
import pickle
import subprocess
import sys
from fractions import Fraction

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import oracle
import pytest
from helpers import (
    FORMATS,
    NAMED,
    all_codes,
    assert_same_bits,
    bits64,
    manifest,
    package_format,
    some_codes,
    table_format,
    values_of,
    vectors,
)

import softfloat as sf

PUBLISHED = [
    row
    for row in manifest("published")["rows"]
    if row["quantity"] in ("u", "max", "min_normal", "min_sub", "max_sub", "nans", "infs", "emax")
    and row["match"]
    and row["format"] != "binary128"
]
PUBLISHED_NAMES = {
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e4m3b11fnuz": "float8_e4m3b11fnuz",
    "e4m3": "float8_e4m3",
    "e3m4": "float8_e3m4",
    "e2m1fn": "float4_e2m1fn",
    "e2m3fn": "float6_e2m3fn",
    "e3m2fn": "float6_e3m2fn",
    "e8m0fnu": "float8_e8m0fnu",
    "fp24_pxr": "pxr24",
}
ML_DTYPES = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3",
    "float8_e3m4",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e4m3b11fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
]
GFLOAT = {
    "binary16": gfloat.formats.format_info_binary16,
    "bfloat16": gfloat.formats.format_info_bfloat16,
    "float8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
    "float8_e5m2": gfloat.formats.format_info_ocp_e5m2,
    "float8_e8m0fnu": gfloat.formats.format_info_ocp_e8m0,
    "float6_e2m3fn": gfloat.formats.format_info_ocp_e2m3,
    "float6_e3m2fn": gfloat.formats.format_info_ocp_e3m2,
    "float4_e2m1fn": gfloat.formats.format_info_ocp_e2m1,
}
NAMES = [
    *("binary16", "bfloat16", "tf32", "binary32", "binary64", "dlfloat16", "pxr24", "fp24"),
    *("cfloat8_143", "cfloat8_152", "cfloat16"),
    *ML_DTYPES,
]
EVERY_FIELD = [
    sf.Format(5, 10),
    sf.Format(5, 10, name="half"),
    sf.Format(4, 3, bias=11, specials="fnuz"),
    sf.Format(6, 9, bias=31, specials="fn", subnormals="normal"),
    sf.Format(8, 7, subnormals=False),
    sf.Format(6, 9, subnormals="grid"),
    sf.Format(5, 3, specials="p3109_extended", signed=False),
    sf.Format(8, 0, bias=127, specials="scale", signed=False),
    *sf.formats().values(),
]


def published_format(name):
    if name.startswith("cfloat8_1_"):
        shape, bias = name.removeprefix("cfloat8_").split(" bias ")
        exponent_bits, mantissa_bits = (int(d) for d in shape.split("_")[1:])
        return sf.Format(exponent_bits, mantissa_bits, bias=int(bias), specials="finite")
    return sf.as_format(PUBLISHED_NAMES.get(name, name))


def exactly(text):
    """'1*2^-126', '7/512' and '448' as fractions."""
    if "*2^" in text:
        significand, exponent = text.split("*2^")
        return Fraction(significand) * oracle.power_of_two(int(exponent))
    return Fraction(text)


# --- derived quantities
@pytest.mark.parametrize(
    "row", PUBLISHED, ids=lambda r: f"{r['format']}-{r['quantity']}-{r['source']}"
)
def test_derived_quantities_are_the_published_ones(row):
    fmt, quantity = published_format(row["format"]), row["quantity"]
    if quantity == "max_sub":
        below = sf.encode(fmt.smallest_normal, fmt) - 1
        got = float(sf.decode(np.array([below], fmt.code_dtype), fmt)[0])
    elif quantity in ("nans", "infs"):
        values = sf.decode(np.arange(2**fmt.bits, dtype=fmt.code_dtype), fmt)
        got = int((np.isnan if quantity == "nans" else np.isinf)(values).sum())
    else:
        names = {"u": "unit_roundoff", "min_normal": "smallest_normal"}
        names |= {"min_sub": "smallest_subnormal"}
        got = getattr(fmt, names.get(quantity, quantity))
    # Where only a rounded decimal was published, the oracle's exact value beside it is meant.
    expected = row["oracle"] if float(Fraction(got)) == float(exactly(row["published"])) else None
    assert expected is not None
    assert Fraction(got) == Fraction(float(exactly(expected)))


@pytest.mark.parametrize("fmt", [*FORMATS, *NAMED.values()], ids=str)
def test_derived_quantities_are_those_of_the_values(fmt):
    got = package_format(fmt)
    largest, smallest = fmt.value(fmt.largest), fmt.value(fmt.smallest)
    assert got.bits == fmt.bits
    assert got.precision == fmt.mantissa_bits + 1
    assert got.emin == fmt.emin
    assert oracle.power_of_two(got.emax) <= largest < oracle.power_of_two(got.emax + 1)
    assert Fraction(got.max) == largest
    assert Fraction(got.smallest_subnormal) == smallest
    assert Fraction(got.epsilon) == oracle.power_of_two(-fmt.mantissa_bits)
    assert Fraction(got.unit_roundoff) == oracle.power_of_two(-fmt.mantissa_bits - 1)
    assert got.has_infinity == (fmt.infinity is not None)
    assert got.has_nan == (fmt.nan is not None)
    assert got.has_negative_zero == fmt.negative_zero
    assert got.bias == fmt.bias


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        (sf.binary16, np.float16),
        (sf.binary32, np.float32),
        (sf.binary64, np.float64),
        *((getattr(sf, name), getattr(ml_dtypes, name)) for name in ML_DTYPES),
    ],
    ids=repr,
)
def test_finfo_answers_with_numpy_s_names_and_values(fmt, dtype):
    got, expected = sf.finfo(fmt), ml_dtypes.finfo(dtype)
    names = "bits nmant nexp iexp max min eps tiny smallest_normal smallest_subnormal"
    names = [*names.split(), "machep", "minexp", "maxexp"]
    if (
        fmt.bits >= 8
    ):  # ml_dtypes states another epsneg for its 4- and 6-bit types than for the rest
        names += ["epsneg", "negep"]
    if dtype is ml_dtypes.float8_e8m0fnu:  # no significand, no sign: described there in its own way
        names = ["bits", "max", "smallest_normal"]
    for name in names:
        assert float(getattr(got, name)) == float(getattr(expected, name)), name
    if fmt.bits >= 16:
        assert got.precision == expected.precision
        assert dtype(got.resolution) == dtype(expected.resolution)


def test_finfo_takes_whatever_names_a_format():
    assert sf.finfo("bfloat16").max == sf.finfo(sf.bfloat16).max == sf.bfloat16.max
    assert sf.finfo(np.float16).eps == np.finfo(np.float16).eps


# --- codes
@pytest.mark.parametrize("name", manifest("tables")["decode_tables"])
def test_decode_agrees_code_by_code_with_the_published_table(name):
    fmt, table = table_format(name), vectors("decode_tables")[name]
    got = sf.decode(all_codes(fmt), package_format(fmt))
    assert_same_bits(got, table, all_codes(fmt))


@pytest.mark.parametrize(
    "name", [n for n in manifest("tables")["decode_tables"] if n[:6] == "binary"]
)
def test_p3109_names_build_the_formats_of_the_report(name):
    K, rest = name.removeprefix("binary").split("p")
    fmt = sf.p3109(int(K), int(rest[:-2]), signed=rest[-2] == "s", extended=rest[-1] == "e")
    assert fmt == package_format(table_format(name))
    assert fmt == sf.as_format(name)
    assert fmt.name == name


@pytest.mark.parametrize("name", ML_DTYPES)
def test_decode_agrees_with_ml_dtypes(name):
    fmt, dtype = getattr(sf, name), getattr(ml_dtypes, name)
    codes = np.arange(2**fmt.bits, dtype=fmt.code_dtype)
    with np.errstate(invalid="ignore"):  # the cast quiets signaling NaNs
        expected = codes.view(dtype).astype(np.float64)
    assert_same_bits(sf.decode(codes, fmt), expected, codes)


@pytest.mark.parametrize("name", GFLOAT)
def test_decode_agrees_with_gfloat(name):
    fmt = getattr(sf, name)
    codes = np.arange(2**fmt.bits, dtype=fmt.code_dtype)
    with np.errstate(over="ignore"):  # gfloat computes 2**k also for the codes of infinity
        expected = gfloat.decode_ndarray(GFLOAT[name], codes.astype(np.int64))
    assert_same_bits(sf.decode(codes, fmt), expected, codes)


@pytest.mark.parametrize("K", range(3, 9))
def test_decode_agrees_with_gfloat_on_p3109(K):
    for P in range(1, K):
        info = gfloat.formats.format_info_p3109(K, P)
        codes = np.arange(2**K)
        expected = gfloat.decode_ndarray(info, codes)
        assert_same_bits(sf.decode(codes.astype(np.uint8), sf.p3109(K, P)), expected, codes)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [(sf.binary16, np.float16), (sf.binary32, np.float32), (sf.binary64, np.float64)],
    ids=repr,
)
def test_decode_agrees_with_numpy(fmt, dtype):
    codes = some_codes(oracle.Format(fmt.exponent_bits, fmt.mantissa_bits), 20000)
    assert_same_bits(sf.decode(codes, fmt), codes.view(dtype), codes)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_decode_then_encode_gives_every_code_back(fmt):
    target = package_format(fmt)
    codes = all_codes(fmt) if fmt.bits <= 16 else some_codes(fmt, 50000)
    values = sf.decode(codes, target)
    assert_same_bits(values, values_of(fmt, codes), codes)
    same = sf.encode(values, target)
    assert same.dtype == codes.dtype == target.code_dtype
    low = (codes & codes.dtype.type(fmt.all_ones)) < fmt.smallest
    sign = codes & codes.dtype.type(fmt.minus)
    expected = np.where(low & (not fmt.negative_zero), 0, np.where(low, sign, codes))
    nan = np.isnan(values)
    assert (same[~nan] == expected[~nan]).all()
    if fmt.specials not in ("fn", "finite"):
        assert (same[nan] == fmt.nan).all()


@pytest.mark.parametrize("fmt", [sf.float8_e4m3fn, sf.Format(5, 6, specials="fn")], ids=repr)
def test_nan_keeps_its_sign_where_the_format_has_two(fmt):
    nan, minus = fmt.nan_code, 1 << (fmt.bits - 1)
    x = np.array([np.nan, -np.nan])
    assert np.signbit(x).tolist() == [False, True]
    assert sf.encode(x, fmt).tolist() == [nan, nan | minus]
    assert np.signbit(sf.decode(np.array([nan, nan | minus], fmt.code_dtype), fmt)).tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32", "binary64", "tf32"])
def test_decode_keeps_a_signaling_nan_signaling(name):
    fmt, reference = getattr(sf, name), NAMED[name]
    codes = np.array([reference.infinity + 1, reference.nan], fmt.code_dtype)
    values = sf.decode(codes, fmt)
    quiet = {4: (np.uint32, 1 << 22), 8: (np.uint64, 1 << 51)}[values.itemsize]
    assert ((values.view(quiet[0]) & quiet[0](quiet[1])) != 0).tolist() == [False, True]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_values_lie_in_the_smallest_carrier_that_holds_them(fmt):
    codes = some_codes(fmt, 2000)
    values = values_of(fmt, codes)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    fits = (bits64(narrow) == bits64(values)).all()
    assert sf.decode(codes, package_format(fmt)).dtype == (np.float32 if fits else np.float64)


# --- names
@pytest.mark.parametrize("name", NAMES)
def test_named_formats_are_attributes_and_listed(name):
    fmt = getattr(sf, name)
    assert isinstance(fmt, sf.Format)
    assert sf.formats()[name] is fmt or sf.formats()[name] == fmt
    assert sf.as_format(name) == fmt
    assert fmt.name == name


def test_formats_hands_out_a_dict_of_its_own():
    sf.formats().clear()
    assert "bfloat16" in sf.formats()


@pytest.mark.parametrize(
    ("spec", "fmt"),
    [
        ("e6m9", sf.Format(6, 9)),
        ("e5m10", sf.binary16),
        ("e5m6fn", sf.Format(5, 6, specials="fn")),
        ("e6m17fnuz", sf.Format(6, 17, specials="fnuz")),
        ("e4m3fn", sf.float8_e4m3fn),
        ("e4m3", sf.float8_e4m3),
        ("e2m1fn", sf.float4_e2m1fn),
        ("e2m3fn", sf.float6_e2m3fn),
        ("e3m2fn", sf.float6_e3m2fn),
        ("e8m0fnu", sf.float8_e8m0fnu),
        ("float16", sf.binary16),
        ("float32", sf.binary32),
        ("float64", sf.binary64),
        (np.float16, sf.binary16),
        (np.float32, sf.binary32),
        (np.float64, sf.binary64),
        (np.dtype("<f2"), sf.binary16),
        (np.dtype(">f8"), sf.binary64),
        *((getattr(ml_dtypes, name), getattr(sf, name)) for name in ML_DTYPES),
        *((np.dtype(getattr(ml_dtypes, name)), getattr(sf, name)) for name in ML_DTYPES),
        (sf.Format(6, 9), sf.Format(6, 9)),
    ],
    ids=repr,
)
def test_as_format_reads(spec, fmt):
    assert sf.as_format(spec) == fmt


def test_aliases_name_the_same_format():
    assert sf.float16 == sf.binary16
    assert sf.float32 == sf.binary32
    assert sf.float64 == sf.binary64


@pytest.mark.parametrize(
    ("name", "near"),
    [("bflot16", "bfloat16"), ("float8_e4m3fm", "float8_e4m3fn"), ("binary61", "binary16")],
)
def test_an_unknown_name_lists_the_near_matches(name, near):
    with pytest.raises(ValueError, match=near) as error:
        sf.as_format(name)
    assert name in str(error.value)


def test_e8m0_alone_is_ambiguous_and_the_error_names_both_readings():
    with pytest.raises(ValueError, match=r"(?s)float8_e8m0fnu.*Format\(8, 0"):
        sf.as_format("e8m0")


@pytest.mark.parametrize("spec", [None, 5, 1.5, ["e6m9"], object()])
def test_what_names_no_format_is_a_type_error(spec):
    with pytest.raises(TypeError, match=type(spec).__name__):
        sf.as_format(spec)


@pytest.mark.parametrize("spec", [np.int32, np.complex64, np.dtype("U3")])
def test_dtypes_without_a_format_are_refused_by_name(spec):
    with pytest.raises((TypeError, ValueError), match=np.dtype(spec).name.rstrip("0123456789")):
        sf.as_format(spec)


# --- bad descriptions
@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((0, 3), {}, r"exponent_bits must be in 1\.\.11, got 0"),
        ((12, 3), {}, r"exponent_bits must be in 1\.\.11, got 12"),
        ((15, 112), {}, r"1\.\.11, got 15"),
        ((8, 53), {}, r"mantissa_bits must be in 0\.\.52, got 53"),
        ((8, -1), {}, r"mantissa_bits must be in 0\.\.52, got -1"),
        ((8, 160), {}, "160"),
        ((5, 2), {"specials": "iee"}, "ieee"),
        ((5, 2), {"subnormals": "flush"}, "ftz"),
        ((8, 3), {"specials": "scale", "signed": False}, "mantissa_bits=0"),
        ((8, 0), {"specials": "scale"}, "signed=False"),
        ((11, 52), {"bias": 0}, "bias"),
    ],
)
def test_impossible_formats_say_what_is_allowed(arguments, keywords, message):
    with pytest.raises(ValueError, match=message):
        sf.Format(*arguments, **keywords)


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((5.0, 2), {}),
        ((5, "2"), {}),
        ((True, 2), {}),
        ((5, 2), {"bias": 1.5}),
        ((5, 2), {"signed": "yes"}),
        ((5, 2), {"name": 3}),
        ((5, 2, 15), {}),
    ],
)
def test_fields_of_the_wrong_type_are_type_errors(arguments, keywords):
    with pytest.raises(TypeError):
        sf.Format(*arguments, **keywords)


@pytest.mark.parametrize(("K", "P"), [(2, 1), (17, 3), (8, 0), (8, 8), (16, 1)])
def test_p3109_refuses_what_the_report_or_the_package_does_not_have(K, P):
    with pytest.raises(ValueError, match=r"K must|P must|exponent"):
        sf.p3109(K, P)


# --- identity
@pytest.mark.parametrize("fmt", EVERY_FIELD, ids=repr)
def test_repr_round_trips(fmt):
    again = eval(repr(fmt), {"Format": sf.Format, "sf": sf, "softfloat": sf})
    assert again == fmt
    assert again.name == fmt.name


@pytest.mark.parametrize("fmt", EVERY_FIELD, ids=repr)
def test_pickle_and_copy_give_an_equal_format(fmt):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(fmt, protocol))
        assert again == fmt
        assert hash(again) == hash(fmt)
        assert (again.name, repr(again)) == (fmt.name, repr(fmt))
    assert copy.copy(fmt) == fmt
    assert copy.deepcopy(fmt) == fmt
    assert {fmt: 1}[copy.deepcopy(fmt)] == 1


def test_a_pickle_is_read_in_another_process():
    data = pickle.dumps([sf.bfloat16, sf.Format(6, 9, subnormals="grid")])
    script = (
        "import pickle, sys, softfloat as sf; f, g = pickle.loads(bytes.fromhex(sys.argv[1]));"
        "assert f == sf.bfloat16 and {f: 1}[sf.Format(8, 7)] == 1;"
        "assert g == sf.Format(6, 9, subnormals='grid') and g != sf.Format(6, 9)"
    )
    subprocess.run([sys.executable, "-c", script, data.hex()], check=True)


def test_formats_are_equal_by_meaning():
    assert sf.Format(5, 10) == sf.Format(5, 10, bias=15) == sf.Format(5, 10, name="half")
    assert hash(sf.Format(5, 10)) == hash(sf.Format(5, 10, bias=15, name="half"))
    assert sf.Format(8, 7, subnormals=False) == sf.Format(8, 7, subnormals="ftz")
    assert sf.Format(4, 3, specials="fnuz") == sf.float8_e4m3fnuz


def test_formats_that_differ_in_one_field_differ():
    fields = [
        {},
        {"bias": 14},
        *({"specials": s} for s in ("fn", "fnuz", "finite", "p3109_extended", "p3109_finite")),
        *({"subnormals": s} for s in ("ftz", "grid", "normal")),
        {"signed": False},
    ]
    formats = [sf.Format(5, 10, **f) for f in fields] + [sf.Format(6, 10), sf.Format(5, 9)]
    assert len(set(formats)) == len(formats)
    assert sf.Format(5, 10) != "binary16"


@pytest.mark.parametrize("field", ["exponent_bits", "bias", "name", "specials", "anything"])
def test_a_format_cannot_be_changed(field):
    fmt = sf.Format(5, 10)
    with pytest.raises(AttributeError):
        setattr(fmt, field, 3)
    with pytest.raises(AttributeError):
        delattr(fmt, field)
    assert fmt == sf.binary16


@pytest.mark.parametrize("fmt", EVERY_FIELD, ids=repr)
def test_print_shows_range_and_layout(fmt):
    shown = str(fmt)
    assert len(shown.splitlines()) > 3
    assert str(fmt.bits) in shown
    for value in (fmt.max, fmt.smallest_normal):
        numbers = [w for w in shown.replace(",", " ").split() if w[0].isdigit()]
        assert any(abs(float(w) / value - 1) < 1e-2 for w in numbers if "*" not in w), value


def test_print_says_which_e4m3_overflows_to_nan():
    assert "NaN" in str(sf.float8_e4m3fn)
    assert "infinity" in str(sf.float8_e4m3)


@pytest.mark.parametrize("subnormals", [True, "ftz", "grid", "normal"])
@pytest.mark.parametrize("bias", [127, 142, 143, 148, 149])
def test_the_carrier_holds_the_last_place_of_the_lowest_binade(bias, subnormals):
    """Without subnormals too: the smallest normal numbers differ by 2**(emin - mantissa_bits)."""
    fmt = sf.Format(8, 7, bias=bias, subnormals=subnormals)
    codes = np.arange(600, dtype=np.uint16)
    assert sf.decode(codes, fmt).tolist() == [float(fmt.exact(int(c))) for c in codes]
