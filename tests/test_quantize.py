"""quantize, encode, decode: one rounding from any input in every mode; what is refused."""

import copy
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import gfloat
import ml_dtypes
import numpy as np
import oracle
import pytest
from helpers import (
    FORMATS,
    NAMED,
    UNDEFINED,
    VECTOR_ROUNDING,
    VECTOR_SATURATE,
    all_codes,
    assert_flags,
    assert_matches_oracle,
    assert_same_bits,
    assert_same_codes,
    bits64,
    is_nan_code,
    manifest,
    numbers,
    on_both_paths,
    package_format,
    some_values,
    table_format,
    values_of,
    vector_format,
    vectors,
)
from oracle import ROUNDINGS, How
from test_formats import GFLOAT, ML_DTYPES

import softfloat as sf

STORED = [(kind, name) for kind in ("odd", "hard") for name in manifest(kind)["formats"]]
STORED = [(kind, name) for kind, name in STORED if name not in ("e15m48", "e7m56")]
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


# --- results
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("key", manifest("tables")["cast_tables_from_binary16"])
def test_every_binary16_value_casts_as_in_the_table(key, dtype):
    name, rounding, saturate = key.split(".")
    fmt, table = table_format(name), vectors("cast_tables_from_binary16")[key]
    target = package_format(fmt)
    how = {"rounding": VECTOR_ROUNDING[rounding], "saturate": VECTOR_SATURATE[saturate]}
    x = HALVES.astype(dtype)
    undefined = (table == UNDEFINED) & (table.dtype == np.uint16) & (fmt.nan is None)
    values = on_both_paths(lambda v: sf.quantize(v, target, **how), x)
    assert np.isnan(values[undefined]).all()
    assert_same_codes(values[~undefined], table[~undefined], fmt, x[~undefined])
    codes = sf.encode(x[~undefined], target, **how)
    nan = is_nan_code(fmt, table[~undefined])
    assert (codes[~nan] == table[~undefined][~nan]).all()
    assert is_nan_code(fmt, codes[nan]).all()


@pytest.mark.parametrize(("kind", "name"), STORED)
def test_stored_rows_and_their_flags(kind, name):
    table, rows = manifest(kind), vectors(f"{kind}_{name}")
    fmt = vector_format(table["formats"][name])
    target = package_format(fmt)
    chosen = rows["op"] == table["ops"].index("quantize")
    x = rows["xq"].view(np.float64)
    for number, rounding in enumerate(table["modes"]):
        here = rows["mode"][chosen] == number
        how = {"rounding": VECTOR_ROUNDING[rounding]}
        got = on_both_paths(lambda v, how=how: sf.quantize(v, target, **how), x[here])
        assert_same_codes(got, rows["r"][chosen][here], fmt, x[here])
        for tininess, column in (("after", "fa"), ("before", "fb")):
            flags = rows[column][chosen][here]
            assert_flags(
                lambda v, how=how: sf.quantize(v, target, **how), [x[here]], flags, tininess
            )


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("name", manifest("sr")["formats"])
def test_stochastic_outcomes_for_given_words(name, variant):
    rows = vectors(f"sr_{name}")
    fmt = vector_format(manifest("sr")["formats"][name])
    x, target = rows["x"].view(np.float64), package_format(fmt)
    for k in np.unique(rows["nbits"]):
        here = rows["nbits"] == k
        how = {"rounding": "stochastic", "variant": variant, "random_bits": int(k)}
        got = sf.quantize(x[here], target, random=rows["R"][here], **how)
        assert_same_codes(got, rows[variant][here], fmt, x[here], rows["R"][here])
        codes = sf.encode(x[here], target, random=rows["R"][here], **how)
        nan = is_nan_code(fmt, rows[variant][here])
        assert (codes[~nan] == rows[variant][here][~nan]).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_values_midpoints_and_their_neighbours_round_as_the_oracle_says(fmt, rounding):
    x = some_values(fmt, 400, seed=ROUNDINGS.index(rounding))
    both_ways = rounding in ("ties_to_even", "toward_negative")
    for saturate in (False, "finite", "propagate") if both_ways else (False,):
        expected = [oracle.quantize(fmt, v, How(rounding, saturate)) for v in numbers(x)]
        options = {"rounding": rounding, "saturate": saturate}
        got = on_both_paths(lambda v, o=options: sf.quantize(v, package_format(fmt), **o), x)
        assert_matches_oracle(got, fmt, expected, x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_float32_inputs_round_as_float64_inputs_do(fmt, rounding):
    with np.errstate(over="ignore"):
        x = some_values(fmt, 3000, seed=7).astype(np.float32)
    with np.errstate(over="ignore"):  # to an infinity that the format has is not an overflow here
        wide = x.astype(np.float64)
    target = package_format(fmt)
    got, expected = (sf.quantize(v, target, rounding=rounding) for v in (x, wide))
    assert_same_bits(got, expected, x)
    defined = ~np.isnan(expected) | target.has_nan
    codes, wide_codes = (sf.encode(v[defined], target, rounding=rounding) for v in (x, wide))
    assert (codes == wide_codes).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_value_of_the_format_never_moves(fmt, rounding):
    codes = all_codes(fmt) if fmt.bits <= 16 else np.unique(vectors("sr_tf32")["lo"])
    x = values_of(fmt, codes.astype(np.uint64) & np.uint64(2**fmt.bits - 1))
    assert_same_bits(sf.quantize(x, package_format(fmt), rounding=rounding), x, codes)


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_zero", "to_odd"])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_is_the_code_of_quantize(fmt, rounding):
    x, target = some_values(fmt, 3000, seed=3), package_format(fmt)
    values = sf.quantize(x, target, rounding=rounding)
    x, values = x[~np.isnan(values)], values[~np.isnan(values)]
    codes = sf.encode(x, target, rounding=rounding)
    assert codes.dtype == target.code_dtype
    assert_same_codes(values, codes, fmt, x)
    assert_same_bits(sf.decode(codes, target), values, x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", ML_DTYPES)
def test_nearest_even_agrees_with_ml_dtypes(name, dtype):
    fmt, other = getattr(sf, name), getattr(ml_dtypes, name)
    if name == "float8_e8m0fnu" and dtype is np.float16:
        pytest.skip("covered from float32, which reaches the whole range")
    with np.errstate(all="ignore"):
        x = (
            HALVES
            if dtype is np.float16
            else some_values(NAMED.get(name[7:], NAMED["bfloat16"]), 50000)
        )
        x = x.astype(dtype)
        x = x[~np.isnan(x)]
        expected = x.astype(other).astype(np.float64)
    kept = np.isfinite(x) | fmt.has_nan
    if name == "float8_e8m0fnu":  # below its smallest power: see the tests of the scale format
        kept &= np.abs(x) >= 2.0**-126
    assert_same_bits(sf.quantize(x[kept], fmt), expected[kept], x[kept])


@pytest.mark.parametrize(
    ("rounding", "mode"),
    [
        ("ties_to_even", gfloat.RoundMode.TiesToEven),
        ("ties_to_away", gfloat.RoundMode.TiesToAway),
        ("toward_zero", gfloat.RoundMode.TowardZero),
        ("toward_positive", gfloat.RoundMode.TowardPositive),
        ("toward_negative", gfloat.RoundMode.TowardNegative),
    ],
)
@pytest.mark.parametrize("name", [n for n in GFLOAT if n != "float8_e8m0fnu"])
def test_rounding_in_range_agrees_with_gfloat(name, rounding, mode):
    fmt = getattr(sf, name)
    x = HALVES.astype(np.float64)
    x = x[np.abs(x) <= fmt.max]
    expected = gfloat.round_ndarray(GFLOAT[name], x, mode)
    assert_same_bits(sf.quantize(x, fmt, rounding=rounding), expected, x)


def test_the_scale_format_follows_ml_dtypes_over_all_of_float32():
    x = np.arange(0, 2**32, 4999, dtype=np.uint64).astype(np.uint32)
    edges = np.arange(512, dtype=np.uint32) << np.uint32(22)  # powers of two and their ties
    x = np.concatenate([x, edges - 1, edges, edges + 1]).astype(np.uint32).view(np.float32)
    x = x[(np.abs(x) <= 2.0**-127) | (np.abs(x) >= 2.0**-126) | np.isnan(x)]
    with np.errstate(invalid="ignore"):
        expected = x.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert (sf.encode(x, sf.float8_e8m0fnu) == expected).all()


def test_the_scale_format_follows_ml_dtypes_up_from_its_smallest_power():
    """ml_dtypes rounds all that lies between the two lowest powers up, not from the tie on."""
    x = np.arange(2**22, 2**23, 997, dtype=np.uint32).view(np.float32)
    expected = x.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert (sf.encode(x, sf.float8_e8m0fnu) == expected).all()


def test_rounds_directly_never_through_float32():
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, -(1 + 2.0**-8 + 2.0**-40)])
    assert sf.quantize(x, sf.bfloat16).tolist() == [1 + 2.0**-7, 1.0, -(1 + 2.0**-7)]


def test_overflow_is_decided_after_rounding():
    x = np.array([65519.996, 65520.0, 65536.0, np.inf])
    assert sf.quantize(x, sf.binary16).tolist() == [65504.0, np.inf, np.inf, np.inf]
    assert sf.quantize(x, sf.binary16, saturate=True).tolist() == [65504.0] * 4
    assert sf.quantize(x, sf.binary16, saturate="propagate").tolist() == [65504.0] * 3 + [np.inf]
    assert np.isnan(sf.quantize([464.1, np.inf], sf.float8_e4m3fn)).all()
    assert sf.quantize([464.0, 464.1], sf.float8_e4m3fn, saturate=True).tolist() == [448.0, 448.0]


# --- rounding names
@pytest.mark.parametrize(
    ("alias", "rounding"),
    [
        ("nearest", "ties_to_even"),
        ("truncate", "toward_zero"),
        ("RNE", "ties_to_even"),
        ("RNA", "ties_to_away"),
        ("RTZ", "toward_zero"),
        ("RTP", "toward_positive"),
        ("RTN", "toward_negative"),
        ("SR", "stochastic"),
    ],
)
def test_aliases_of_modes(alias, rounding):
    x = some_values(NAMED["binary16"], 1000)
    how = {"seed": 1} if rounding == "stochastic" else {}
    expected = sf.quantize(x, sf.binary16, rounding=sf.Rounding(rounding), **how)
    for spelling in (alias, alias.lower(), rounding):
        assert_same_bits(sf.quantize(x, sf.binary16, rounding=spelling, **how), expected)


def test_rounding_lists_every_mode():
    assert {mode.value for mode in sf.Rounding} == {*ROUNDINGS, *oracle.STOCHASTIC}


# --- inputs
WORDS = [1.1, -2.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0, 65520.0, 2.0**-25, 3e-8, 1e30]


def nested(x):
    return [x[:6].tolist(), x[6:].tolist()]


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_negative"])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.tolist(),
        lambda x: tuple(x.tolist()),
        nested,
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[::-1],
        lambda x: np.tile(x, 5)[5::5],
        lambda x: x.reshape(3, 4).T,
        lambda x: np.asfortranarray(x.reshape(3, 4)),
        lambda x: np.repeat(x.reshape(3, 4), 3, axis=1)[:, 1::3],
        lambda x: np.broadcast_to(x, (5, 12)),
        lambda x: x.astype(">f8"),
        lambda x: x.astype(">f8")[::3],
        lambda x: memoryview(x),
        lambda x: x.reshape(3, 1, 4, 1),
        lambda x: x[:0],
        lambda x: x[:0].reshape(0, 3),
    ],
    ids=[
        *("array", "list", "tuple", "nested", "strided", "reversed", "sliced", "transposed"),
        *("fortran", "columns", "broadcast", "big_endian", "big_endian_strided", "buffer", "4d"),
        *("empty", "empty_2d"),
    ],
)
def test_any_arrangement_gives_the_elementwise_result(make, rounding):
    x = make(np.array(WORDS))
    plain = np.array(x, np.float64)
    expected = [oracle.quantize(oracle.BINARY16, v, How(rounding)) for v in numbers(plain)]
    got = sf.quantize(x, sf.binary16, rounding=rounding)
    assert isinstance(got, np.ndarray)
    assert got.shape == plain.shape
    assert got.dtype.isnative
    assert got.flags.writeable
    assert_matches_oracle(got, oracle.BINARY16, expected, plain)
    codes = sf.encode(x, sf.binary16, rounding=rounding)
    assert (codes.shape, codes.dtype) == (plain.shape, np.uint16)
    assert_same_bits(sf.decode(codes, sf.binary16), got)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 255, 256, 257, 4095, 4097, 100_003])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_every_length_and_alignment_gives_the_same_elements(size, shift):
    x = np.resize(some_values(NAMED["binary16"], 1000), size + shift)[shift:]
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            v = x.astype(dtype)
        for rounding in ROUNDINGS:
            got = sf.quantize(v, sf.binary16, rounding=rounding)
            expected = np.resize(sf.quantize(v[:1000], sf.binary16, rounding=rounding), size)
            if size <= 1000 or shift == 0:
                assert_same_bits(got, expected, v)
            assert_same_bits(got[-1:], sf.quantize(v[-1:], sf.binary16, rounding=rounding))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (1.1, 1.099609375),
        (3, 3.0),
        (2049, 2048.0),
        (True, 1.0),
        (np.float64(1.1), 1.099609375),
        (np.float32(1.1), 1.099609375),
        (np.float16(1.1), 1.099609375),
        (np.int8(-3), -3.0),
        (np.bool_(False), 0.0),
        (np.array(1.1), 1.099609375),
        (np.array(2049), 2048.0),
        (ml_dtypes.bfloat16(1.1), 1.1015625),
        (Fraction(11, 10), 1.099609375),
        (Decimal("1.1"), 1.099609375),
        ("1.1", 1.099609375),
        (2**70, np.inf),
    ],
    ids=lambda v: f"{type(v).__name__}",
)
def test_a_scalar_gives_a_numpy_scalar(x, expected):
    got = sf.quantize(x, sf.binary16)
    assert isinstance(got, np.floating)
    assert got.shape == ()
    assert float(got) == expected
    assert isinstance(sf.encode(x, sf.binary16), np.uint16)


def test_zero_dimensional_codes_decode_to_scalars():
    for code in (np.uint16(0x3C00), np.array(0x3C00, np.uint16), 0x3C00):
        value = sf.decode(code, sf.binary16)
        assert isinstance(value, np.float32)
        assert value == 1.0


@pytest.mark.parametrize(
    ("dtype", "fmt", "carrier"),
    [
        (np.float32, "bfloat16", np.float32),
        (np.float64, "bfloat16", np.float64),
        (np.float16, "bfloat16", np.float32),
        (np.float16, "binary16", np.float32),
        (np.float32, "binary64", np.float64),
        (np.float64, "binary64", np.float64),
        (np.float32, sf.Format(11, 40), np.float64),
        (np.float16, sf.Format(10, 5), np.float64),
        (np.float32, sf.Format(3, 52), np.float64),
        (np.longdouble, "bfloat16", np.float32),
        (np.int64, "bfloat16", np.float32),
        (np.uint8, "binary64", np.float64),
        (np.bool_, "float4_e2m1fn", np.float32),
        (np.dtype(">f4"), "bfloat16", np.float32),
        (np.dtype(">f8"), "bfloat16", np.float64),
        (ml_dtypes.bfloat16, "float8_e5m2", np.float32),
        (np.float32, sf.Format(8, 7, bias=140), np.float32),
        (np.float32, sf.Format(8, 7, bias=145), np.float64),
        (np.float32, sf.Format(8, 7, bias=100), np.float64),
        (np.float32, sf.Format(8, 23, specials="fn"), np.float64),
    ],
    ids=str,
)
def test_the_result_s_carrier(dtype, fmt, carrier):
    got = sf.quantize(np.ones(3, dtype), fmt)
    assert got.dtype == carrier
    assert got.dtype.isnative


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", [n for n in ML_DTYPES if n != "float8_e8m0fnu"])
def test_ml_dtypes_arrays_are_taken_at_their_values(name, rounding):
    source = getattr(sf, name)
    codes = np.arange(min(2**source.bits, 65536), dtype=np.uint32).astype(source.code_dtype)
    x = codes.view(getattr(ml_dtypes, name))
    target = sf.Format(3, 2)
    got = sf.quantize(x, target, rounding=rounding)
    with np.errstate(invalid="ignore"):  # the cast quiets signaling NaNs
        wide = x.astype(np.float64)
    assert_same_bits(got, sf.quantize(wide, target, rounding=rounding), codes)


INTEGERS = [0, 1, 257, 259, 33000, 2**24 + 2**16 + 1, 2**53 + 1, 2**62 + 2**54, 2**62 + 2**54 + 1]
INTEGERS += [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "fmt", [NAMED["bfloat16"], NAMED["binary64"], oracle.Format(11, 40)], ids=str
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64, object])
def test_integers_of_every_width_are_exact(dtype, fmt, rounding):
    signed = [*INTEGERS, *(-n for n in INTEGERS), -(2**63)]
    limits = np.iinfo(dtype) if dtype is not object else None
    chosen = [n for n in signed if limits is None or limits.min <= n <= limits.max]
    expected = [oracle.quantize(fmt, oracle.finite(Fraction(n)), How(rounding)) for n in chosen]
    x = np.array(chosen, dtype)
    assert_matches_oracle(sf.quantize(x, package_format(fmt), rounding=rounding), fmt, expected, x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "fmt", [NAMED["bfloat16"], NAMED["binary64"], oracle.Format(2, 20)], ids=str
)
def test_long_double_rounds_once(fmt, rounding):
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long double is float64 here")
    base = some_values(fmt, 300).astype(np.longdouble)
    x = np.concatenate(
        [base, np.nextafter(base, np.longdouble(0)), np.nextafter(base, np.longdouble("inf"))]
    )
    x = np.concatenate([x, np.array(["1e-4000", "-1e4000", "nan", "1e-310"], np.longdouble)])

    def exact(v):
        if np.isnan(v):
            return oracle.NAN
        if np.isinf(v):
            return oracle.infinite(bool(v < 0))
        significand, exponent = np.frexp(v)
        high = float(significand)
        low = float(significand - np.longdouble(high))
        q = (Fraction(high) + Fraction(low)) * oracle.power_of_two(int(exponent))
        return oracle.finite(q, bool(np.signbit(v)))

    expected = [oracle.quantize(fmt, exact(v), How(rounding)) for v in x]
    assert_matches_oracle(sf.quantize(x, package_format(fmt), rounding=rounding), fmt, expected, x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "fmt", [NAMED["binary16"], NAMED["binary64"], NAMED["e4m3fn"], oracle.Format(11, 40)], ids=str
)
def test_fractions_decimals_big_integers_and_strings_round_once(fmt, rounding):
    tie = (
        fmt.value(fmt.smallest + 4)
        + (fmt.value(fmt.smallest + 5) - fmt.value(fmt.smallest + 4)) / 2
    )
    one = 1 + Fraction(2) ** -(fmt.mantissa_bits + 1)
    tiny = Fraction(1, 10**400)
    exact = [tie, tie + tiny, tie - tiny, one, one + tiny, -one - tiny, one - tiny, tiny, -tiny]
    exact += [Fraction(10) ** 400, Fraction(11529215046068469765, 77371252455336267181195264)]
    exact += [Fraction(2**200 + 1), Fraction(-1, 3), Fraction(0)]
    expected = [oracle.quantize(fmt, oracle.finite(q), How(rounding)) for q in exact]
    target = package_format(fmt)
    assert_matches_oracle(sf.quantize(exact, target, rounding=rounding), fmt, expected, exact)

    texts = [
        "0.1",
        "-0.1",
        "1e400",
        "1e-400",
        "-0",
        "inf",
        "-Infinity",
        "nan",
        "1025.49995",
        "1025.5",
    ]
    texts += ["1.00048828125000000000000000000001", "2.98023223876953125E-8", " 7 ", "+3.5"]
    data = [oracle.NAN if "nan" in t else None for t in texts]
    data = [
        d
        or (
            oracle.infinite("-" in t)
            if "inf" in t.lower()
            else oracle.finite(Fraction(t.strip()), "-" in t)
        )
        for d, t in zip(data, texts, strict=True)
    ]
    expected = [oracle.quantize(fmt, d, How(rounding)) for d in data]
    assert_matches_oracle(sf.quantize(texts, target, rounding=rounding), fmt, expected, texts)
    array = np.array(texts)
    assert_matches_oracle(sf.quantize(array, target, rounding=rounding), fmt, expected, texts)
    for text, result in zip(texts, expected, strict=True):
        assert_matches_oracle(sf.quantize(text, target, rounding=rounding), fmt, [result], text)

    decimals = [Decimal(t.strip()) for t in texts]
    assert_matches_oracle(sf.quantize(decimals, target, rounding=rounding), fmt, expected, texts)


def test_mixed_exact_objects_in_one_array():
    x = [Fraction(1, 3), 2**80, Decimal("0.1"), 0.5, "0.25", True]
    expected = [oracle.finite(Fraction(v)) for v in (x[0], x[1], x[2], x[3], x[4], 1)]
    expected = [oracle.quantize(oracle.BFLOAT16, v) for v in expected]
    got = sf.quantize(np.array(x, object), sf.bfloat16)
    assert_matches_oracle(got, oracle.BFLOAT16, expected, x)


class Tagged(np.ndarray):
    pass


def test_subclasses_are_taken_as_arrays():
    x = np.array(WORDS)
    got = sf.quantize(x.view(Tagged), sf.binary16)
    assert_same_bits(np.asarray(got), sf.quantize(x, sf.binary16))
    masked = np.ma.masked_array(x, mask=np.arange(len(x)) % 2)
    assert_same_bits(np.asarray(sf.quantize(masked, sf.binary16)), sf.quantize(x, sf.binary16))


def test_read_only_input_works_and_stays(tmp_path):
    x = np.array(WORDS)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    x.flags.writeable = False
    expected = sf.quantize(np.array(WORDS), sf.binary16)
    assert_same_bits(sf.quantize(x, sf.binary16), expected)
    assert_same_bits(sf.quantize(mapped, sf.binary16), expected)
    assert (sf.encode(x, sf.binary16) == sf.encode(np.array(WORDS), sf.binary16)).all()


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "stochastic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_input_is_never_changed(rounding, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        x = some_values(NAMED["bfloat16"], 5000).astype(dtype)
    before = x.tobytes()
    how = {"seed": 3} if rounding == "stochastic" else {}
    sf.quantize(x, sf.bfloat16, rounding=rounding, **how)
    sf.encode(x, sf.bfloat16, rounding=rounding, **how)
    assert x.tobytes() == before


# --- out=
@pytest.mark.parametrize("rounding", [*ROUNDINGS, "stochastic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary16, sf.float8_e4m3fn, sf.tf32], ids=repr)
def test_out_receives_the_result_and_may_be_the_input(fmt, dtype, rounding):
    with np.errstate(over="ignore", invalid="ignore"):
        x = some_values(NAMED["binary16"], 3001).astype(dtype)
    how = {"rounding": rounding} | ({"seed": 3} if rounding == "stochastic" else {})
    expected = sf.quantize(x, fmt, **how)
    out = np.full_like(x, 7)
    assert sf.quantize(x, fmt, out=out, **how) is out
    assert_same_bits(out, expected, x)
    again = x.copy()
    assert sf.quantize(again, fmt, out=again, **how) is again
    assert_same_bits(again, expected, x)


@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_out_may_overlap_the_input(shift):
    x = some_values(NAMED["binary16"], 5000)
    expected = sf.quantize(x[8:-8], sf.binary16)
    buffer = x.copy()
    sf.quantize(buffer[8:-8], sf.binary16, out=buffer[8 + shift : len(x) - 8 + shift])
    assert_same_bits(buffer[8 + shift : len(x) - 8 + shift], expected)
    buffer = x.copy()
    sf.quantize(buffer, sf.binary16, out=buffer[::-1])
    assert_same_bits(buffer[::-1], sf.quantize(x, sf.binary16))


@pytest.mark.parametrize("step", [2, -1, 3])
def test_out_may_be_strided(step):
    x = some_values(NAMED["binary16"], 5000)
    buffer = np.full(5000 * abs(step), 7.0)
    sf.quantize(x, sf.binary16, out=buffer[::step])
    assert_same_bits(buffer[::step], sf.quantize(x, sf.binary16))
    if abs(step) > 1:
        assert (buffer[1::step] == 7).all()


def test_out_may_be_two_dimensional_and_in_fortran_order():
    x = some_values(NAMED["binary16"], 600).reshape(20, 30)
    out = np.empty((20, 30), order="F")
    assert sf.quantize(x, sf.binary16, out=out) is out
    assert_same_bits(out, sf.quantize(x, sf.binary16))


def test_encode_and_decode_write_to_out():
    x = some_values(NAMED["binary16"], 600)
    codes = np.empty(600, np.uint16)
    assert sf.encode(x, sf.binary16, out=codes) is codes
    assert (codes == sf.encode(x, sf.binary16)).all()


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty(3), ValueError),
        (np.empty((4, 1)), ValueError),
        (np.empty((1, 4)), ValueError),
        (np.empty(4, np.float16), TypeError),
        (np.empty(4, np.int32), TypeError),
        (np.empty(4, np.complex128), TypeError),
        ([0.0] * 4, TypeError),
    ],
    ids=["short", "column", "row", "float16", "int32", "complex", "list"],
)
def test_an_unfit_out_is_refused_and_names_what_it_should_be(out, error):
    x = np.array([1.1, 2.2, 3.3, 4.4])
    before = copy.deepcopy(out) if isinstance(out, list) else out.tobytes()
    with pytest.raises(error, match="out"):
        sf.quantize(x, sf.binary16, out=out)
    assert (out if isinstance(out, list) else out.tobytes()) == before
    assert x.tolist() == [1.1, 2.2, 3.3, 4.4]


def test_a_read_only_out_is_refused():
    out = np.zeros(2)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only|writ"):
        sf.quantize(np.ones(2), sf.binary16, out=out)


# --- bad input
@pytest.mark.parametrize(
    "x",
    [
        np.array([1 + 2j]),
        1 + 2j,
        np.array([None, 1.0], object),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros(2, [("a", "f8")]),
        {"a": 1},
        None,
        object(),
    ],
    ids=[
        "complex",
        "complex_scalar",
        "object",
        "datetime",
        "record",
        "dict",
        "none",
        "any",
    ],
)
@pytest.mark.parametrize("function", [sf.quantize, sf.encode])
def test_what_is_not_a_real_number_is_a_type_error(function, x):
    before = repr(x)
    with pytest.raises(TypeError):
        function(x, sf.binary16)
    assert repr(x) == before


@pytest.mark.parametrize("text", ["garbage", "1.1.1", "", "0x1p3z", "1,5"])
def test_a_string_that_is_no_number_is_a_value_error_that_shows_it(text):
    with pytest.raises(ValueError, match=r"(?s)" + (text.replace(".", r"\.") or "''")):
        sf.quantize(text, sf.binary16)
    with pytest.raises(ValueError, match=r"number|decimal|literal"):
        sf.quantize([text, "1"], sf.binary16)


def test_ragged_lists_are_refused():
    with pytest.raises((ValueError, TypeError)):
        sf.quantize([[1.0, 2.0], [3.0]], sf.binary16)


@pytest.mark.parametrize(
    ("rounding", "near"),
    [("ties_to_evn", "ties_to_even"), ("toward_zer", "toward_zero"), ("stochstic", "stochastic")],
)
def test_an_unknown_mode_lists_the_near_matches(rounding, near):
    with pytest.raises(ValueError, match=near) as error:
        sf.quantize(1.0, sf.binary16, rounding=rounding)
    assert rounding in str(error.value)


@pytest.mark.parametrize("rounding", oracle.STOCHASTIC)
@pytest.mark.parametrize("function", [sf.quantize, sf.encode])
def test_stochastic_rounding_without_a_seed_is_a_value_error(function, rounding):
    with pytest.raises(ValueError, match="seed="):
        function(np.ones(3), sf.binary16, rounding=rounding)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"random_bits": 0, "seed": 1}, ValueError, r"random_bits.*1\.\.32"),
        ({"random_bits": 33, "seed": 1}, ValueError, r"random_bits.*1\.\.32"),
        ({"random_bits": 2.5, "seed": 1}, TypeError, "random_bits"),
        ({"variant": "D", "seed": 1}, ValueError, "variant"),
        ({"seed": 1.5}, TypeError, "seed"),
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": 2**64}, ValueError, "seed"),
        ({"seed": 1, "stream": -1}, ValueError, "stream"),
        ({"seed": 1, "offset": -1}, ValueError, "offset"),
        ({"random": np.array([0.5, 0.5])}, TypeError, "random"),
        ({"random": np.array([1, 2, 3])}, ValueError, "random|shape|broadcast"),
        ({"random": np.array([0, 2**24])}, ValueError, "random"),
        ({"random": np.array([0, -1])}, ValueError, "random"),
        ({"random": np.array([0, 256]), "random_bits": 8}, ValueError, "random"),
    ],
)
def test_bad_stochastic_options_say_what_is_allowed(options, error, message):
    with pytest.raises(error, match=message):
        sf.quantize(np.array([1.1, 2.2]), sf.binary16, rounding="stochastic", **options)


@pytest.mark.parametrize("saturate", ["max", 2, None, "Finite "])
def test_an_unknown_saturation_lists_the_choices(saturate):
    with pytest.raises((ValueError, TypeError), match="propagate"):
        sf.quantize(1.0, sf.binary16, saturate=saturate)


def test_encode_of_nan_without_a_code_names_the_index():
    x = np.zeros((3, 4))
    x[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*1, 2|NaN.*\b6\b|1, 2.*NaN|\b6\b.*NaN"):
        sf.encode(x, sf.float4_e2m1fn)
    assert np.isnan(sf.quantize(x, sf.float4_e2m1fn)[1, 2])


def test_a_negative_number_in_an_unsigned_format():
    unsigned = sf.p3109(8, 3, signed=False)
    assert np.isnan(sf.quantize([-1.0, -np.inf], unsigned)).all()
    assert sf.encode([-1.0], unsigned).tolist() == [0xFF]
    assert sf.quantize(-0.0, unsigned) == 0
    with pytest.raises(ValueError, match=r"negative|-1"):
        sf.quantize([1.0, -1.0], sf.Format(5, 3, specials="finite", signed=False))


@pytest.mark.parametrize("codes", [np.array([1.5]), np.array([256]), np.array([-1]), ["1"]])
def test_decode_refuses_what_is_no_code(codes):
    with pytest.raises((TypeError, ValueError)):
        sf.decode(codes, sf.float8_e4m3fn)


def test_decode_takes_integers_of_any_dtype():
    expected = sf.decode(np.array([0, 1, 0x7E, 0xFF], np.uint8), sf.float8_e4m3fn)
    for dtype in (np.int64, np.uint16, np.uint64, ">u4"):
        got = sf.decode(np.array([0, 1, 0x7E, 0xFF], dtype), sf.float8_e4m3fn)
        assert_same_bits(got, expected)
    assert_same_bits(sf.decode([0, 1, 0x7E, 0xFF], "e4m3fn"), expected)


def test_the_format_may_be_given_by_name_or_dtype():
    x = np.array(WORDS)
    expected = sf.quantize(x, sf.binary16)
    for spec in ("binary16", "e5m10", np.float16, np.dtype(np.float16), sf.Format(5, 10)):
        assert_same_bits(sf.quantize(x, spec), expected)


@pytest.mark.parametrize("fmt", ["binary61", "e99m1", "e5m77"])
def test_an_unknown_format_is_a_value_error(fmt):
    with pytest.raises(ValueError, match=r"unknown|must be in"):
        sf.quantize(1.0, fmt)


# --- independence of layout, chunks and threads
@pytest.mark.parametrize("rounding", ["stochastic", "stochastic_equal"])
def test_chunks_with_their_offset_reproduce_the_whole(rounding):
    x = np.random.default_rng(0).standard_normal(300_001).astype(np.float32)
    how = {"rounding": rounding, "seed": 11, "stream": 5}
    whole = sf.quantize(x, sf.bfloat16, **how)
    cuts = [0, 1, 2, 17, 1000, 1001, 65536, 200_003, len(x)]
    for a, b in pairwise(cuts):
        assert_same_bits(sf.quantize(x[a:b], sf.bfloat16, offset=a, **how), whole[a:b])
    codes = sf.encode(x, sf.bfloat16, **how)
    assert_same_codes(whole, codes, oracle.BFLOAT16)


def test_words_follow_the_logical_index_not_the_layout():
    x = np.random.default_rng(0).standard_normal((120, 130))
    how = {"rounding": "stochastic", "seed": 11}
    expected = sf.quantize(x, sf.bfloat16, **how)
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    for same in (np.asfortranarray(x), wide, x[::-1][::-1], x.astype(">f8"), np.array(x.T).T):
        assert_same_bits(sf.quantize(same, sf.bfloat16, **how), expected)
    assert_same_bits(sf.quantize(x.ravel(), sf.bfloat16, **how), expected.ravel())
    out = np.empty_like(np.asfortranarray(x))
    assert_same_bits(sf.quantize(x, sf.bfloat16, out=out, **how), expected)


def test_the_carrier_does_not_change_a_stochastic_decision():
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    for k in (8, 24, 32):
        how = {"rounding": "stochastic", "seed": 3, "random_bits": k}
        assert_same_bits(
            sf.quantize(x, sf.bfloat16, **how),
            sf.quantize(x.astype(np.float64), sf.bfloat16, **how),
            x,
        )


def test_seed_stream_and_offset_each_give_other_words():
    x = np.full(1000, 1.0 + 2.0**-9)
    how = {"rounding": "stochastic"}
    results = [
        sf.quantize(x, sf.bfloat16, **how, **options).tobytes()
        for options in (
            {"seed": 0},
            {"seed": 1},
            {"seed": 0, "stream": 1},
            {"seed": 0, "offset": 1},
        )
    ]
    assert len(set(results)) == len(results)


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_zero", "stochastic"])
@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary16, sf.Format(11, 40)], ids=repr)
def test_the_thread_count_changes_no_bit(fmt, rounding):
    x = some_values(NAMED["binary16"], 500_009)
    how = {"rounding": rounding} | ({"seed": 3} if rounding == "stochastic" else {})
    threads = sf.get_num_threads()
    try:
        results = []
        for n in sorted({1, threads}):
            sf.set_num_threads(n)
            results.append(bits64(sf.quantize(x, fmt, **how)))
    finally:
        sf.set_num_threads(threads)
    assert all((r == results[0]).all() for r in results)


@pytest.mark.parametrize("rounding", oracle.STOCHASTIC)
@pytest.mark.parametrize("k", [1, 2, 4, 8, 24, 32])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_seeded_rounding_uses_the_documented_words(fmt, k, rounding):
    """With few bits the words often lie on the threshold itself."""
    x, target = some_values(fmt, 200, seed=k), package_format(fmt)
    words = [oracle.random_word(21, 4, 1000 + i, k) for i in range(len(x))]
    options = {"rounding": rounding, "random_bits": k}
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = x.astype(np.float32)
    for v in (x, narrow):
        expected = [
            oracle.quantize(fmt, d, How(rounding, False, w, k))
            for d, w in zip(numbers(v), words, strict=True)
        ]
        got = on_both_paths(
            lambda v: sf.quantize(v, target, seed=21, stream=4, offset=1000, **options), v
        )
        assert_matches_oracle(got, fmt, expected, v, words)
        assert_same_bits(sf.quantize(v, target, random=np.array(words), **options), got, v)
