"""SoftArray as an object: creation, indexing, views, assignment, text, storage, the rules of mixing."""

import copy
import decimal
import itertools
import pickle
import subprocess
import sys
from fractions import Fraction

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
    package_format,
    some_codes,
    some_values,
    values_of,
)

import softfloat as sf

BF, HALF = sf.bfloat16, sf.binary16
FEW = [NAMED[n] for n in ("e4m3fn", "e2m1fn", "e4m3fnuz", "binary16", "bfloat16", "binary64")]
SMALL = [f for f in FORMATS if f.bits <= 8] + [NAMED["e8m0fnu"]]


def numbers(a):
    return a.to_numpy().tolist()


# ---------------------------------------------------------------- creation
@pytest.mark.parametrize("fmt", FEW, ids=str)
def test_array_rounds_every_element_once(fmt):
    x = some_values(fmt, 300)
    ours = package_format(fmt)
    assert_same_bits(sf.array(x, ours).to_numpy(), sf.quantize(x, ours))
    up = sf.array(x, ours, rounding="toward_positive").to_numpy()
    assert_same_bits(up, sf.quantize(x, ours, rounding="toward_positive"))


def test_exact_inputs_are_rounded_once():
    inputs = ["0.1", Fraction(1, 3), decimal.Decimal("1e-3"), 2**70 + 1, 0.1]
    got = sf.array(inputs, BF)
    assert_same_bits(got.to_numpy(), [sf.quantize(x, BF) for x in inputs])
    wide = 2**60 + 2**52 + 1  # in float64 a tie of bfloat16
    assert float(sf.array(wide, BF)) == 2**60 + 2**53


def test_creation_functions():
    assert numbers(sf.zeros((2, 2), BF)) == [[0, 0], [0, 0]]
    assert numbers(sf.ones(2, "binary16")) == [1, 1]
    assert numbers(sf.full(2, "0.1", BF)) == [0.10009765625] * 2
    assert sf.empty((0, 3), BF).shape == (0, 3)
    assert numbers(sf.eye(2, BF)) == [[1, 0], [0, 1]] == numbers(sf.eye(2, fmt=BF))
    assert numbers(sf.eye(2, 3, 1, BF)) == np.eye(2, 3, 1).tolist()
    assert numbers(sf.arange(3, BF)) == [0, 1, 2] == numbers(sf.arange(0, 3, 1, BF))
    assert sf.arange(3, BF).format is BF
    a = sf.array([1.0, 2.0], BF)
    assert sf.asarray(a) is a
    assert sf.array(a) is not a
    for x in (a, a.to_numpy(), np.array(1.0, np.float32)):
        b = sf.array(x, BF)
        b[...] = 7
        assert not np.shares_memory(b, x)
    assert numbers(a) == [1, 2]
    assert sf.asarray(a, HALF).format == HALF


def test_arange_and_linspace_round_exact_numbers():
    got = sf.arange(0, 1, Fraction(1, 10), HALF)
    assert_same_bits(got.to_numpy(), sf.quantize([Fraction(i, 10) for i in range(10)], HALF))
    got = sf.linspace(0, 1, 7, fmt=BF)
    assert_same_bits(got.to_numpy(), sf.quantize([Fraction(i, 6) for i in range(7)], BF))
    assert float(sf.linspace(3, 5, 1, fmt=BF)[0]) == 3
    half_open = sf.linspace(0, 1, 4, endpoint=False, fmt=BF)
    assert numbers(half_open) == [0, 0.25, 0.5, 0.75]


def test_the_format_may_follow_the_last_number():
    for short, full in (
        (sf.arange(3, BF), sf.arange(3, fmt=BF)),
        (sf.arange(1, 3, BF), sf.arange(1, 3, fmt=BF)),
        (sf.arange(1, 3, "0.5", "bfloat16"), sf.arange(1, 3, 0.5, fmt=BF)),
        (sf.linspace(0, 1, "bfloat16"), sf.linspace(0, 1, fmt=BF)),
        (sf.linspace(0, 1, 5, BF), sf.linspace(0, 1, 5, fmt=BF)),
        (sf.linspace(0, 1, 5, False, np.float16), sf.linspace(0, 1, 5, False, sf.binary16)),
        (sf.eye(3, BF), sf.eye(3, fmt=BF)),
    ):
        assert short.format == full.format
        assert short.tolist() == full.tolist()


def test_a_format_without_zero_has_no_zeros():
    with pytest.raises(ValueError, match="no zero"):
        sf.zeros(2, "float8_e8m0fnu")
    assert numbers(sf.empty(2, "float8_e8m0fnu")) == [1, 1]


def test_a_missing_format_is_asked_for():
    with pytest.raises(TypeError, match="name the format"):
        sf.array([1.0])


def test_a_format_makes_scalars_and_arrays():
    x = BF(1.5)
    assert isinstance(x, sf.SoftArray)
    assert (x.shape, x.format, float(x)) == ((), BF, 1.5)
    assert BF([0.1, 2]).shape == (2,)
    assert float(sf.FixedPoint(3, 4)(0.1)) == 0.125
    assert float(BF("0.1", rounding="toward_negative")) == 0.099609375


# ---------------------------------------------------------------- interchange
@pytest.mark.parametrize(
    "name",
    [
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float4_e2m1fn",
        "float8_e8m0fnu",
    ],
)
def test_ml_dtypes_arrays_go_in_and_come_out(name):
    fmt = sf.as_format(name)
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(2**fmt.bits).astype(fmt.code_dtype)
    if not fmt.has_nan or fmt.bits < 16:
        codes = codes[: 2**fmt.bits]
    theirs = codes.view(dtype)
    ours = sf.array(theirs)
    assert ours.format == fmt
    back = ours.to_numpy(dtype)
    assert back.dtype == dtype
    numbers_back = back.astype(np.float32)
    assert_same_bits(numbers_back, theirs.astype(np.float32))


def test_codes_go_in_and_come_out():
    codes = np.arange(256, dtype=np.uint8)
    a = sf.from_codes(codes, "float8_e5m2fnuz")
    assert (a.codes == codes).all()
    assert a.codes.dtype == np.uint8


def test_to_numpy_is_a_copy_and_exact():
    a = sf.array([1.0, 2.0], BF)
    values = a.to_numpy()
    values[0] = 9
    assert float(a[0]) == 1
    assert a.to_numpy(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="another format"):
        a.to_numpy(ml_dtypes.float8_e4m3fn)
    with pytest.raises(ValueError, match="does not hold"):
        sf.array([1.0], sf.binary64).to_numpy(np.float32)


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.array,
        np.asanyarray,
        np.float64,
        lambda a: np.array([a[0], a[1]]),
        lambda a: np.asarray(a[0]),
        lambda a: np.ma.masked_array(a),
        lambda a: np.ones(2)[a],
    ],
)
def test_nothing_becomes_a_numpy_array_unseen(convert):
    with pytest.raises((TypeError, IndexError), match="to_numpy|integers|indices"):
        convert(sf.array([1.0, 2.0], BF))


# ---------------------------------------------------------------- indexing
KEYS = [
    0, -1, slice(None), slice(2, None, -1), Ellipsis, None, (0, 1), (slice(1, 3), slice(None, None, 2)),
    (Ellipsis, 0), [0, 2, 2], ([0, 1], [1, 0]), np.array([True, False, True, False]),
    np.arange(12).reshape(4, 3) % 2 == 0, (slice(None), np.array([2, 0])), (None, 1, None), (),
    (np.array([[0, 1], [2, 3]]),),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_indexing_is_numpys(key):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    a = sf.array(x, BF)
    got, expected = a[key], x[key]
    assert isinstance(got, sf.SoftArray)
    assert got.format is BF
    assert_same_bits(got.to_numpy(), expected)
    is_view = isinstance(expected, np.ndarray) and np.shares_memory(expected, x)
    assert np.shares_memory(got._values, a._values) == is_view


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_assignment_is_numpys_and_rounds(key):
    x = np.zeros((4, 3), np.float32)
    a = sf.array(x, BF)
    x[key] = np.float32(0.10009765625)
    a[key] = 0.1
    assert_same_bits(a.to_numpy(), x)


def test_assignment_rounds_exact_numbers_once():
    a = sf.zeros(6, BF)
    given = [
        "0.1",
        Fraction(1, 3),
        2**60 + 2**52 + 1,
        decimal.Decimal("0.7"),
        np.float64(0.1),
        HALF(0.1),
    ]
    for i, x in enumerate(given):
        a[i] = x
    assert_same_bits(
        a.to_numpy(),
        [sf.quantize(x if i < 5 else float(np.float16(0.1)), BF) for i, x in enumerate(given)],
    )
    a[:2] = [0.1, "0.2"]
    assert_same_bits(a[:2].to_numpy(), sf.quantize([0.1, 0.2], BF).astype(np.float32))
    with pytest.raises(ValueError, match="broadcast"):
        a[:2] = [1, 2, 3]


def test_a_write_through_a_view_is_seen():
    a = sf.zeros((2, 3), BF)
    a[0][1] = 0.1
    a.T[2, 1] = 2
    a.reshape(-1)[0] = 3
    for row in a:
        row[2] += 1
    assert numbers(a) == [[3, 0.10009765625, 1], [0, 0, 3]]


def test_scalars_are_values_of_their_own():
    a = sf.array([1.0, 2.0], BF)
    x = a[0]
    x += 1
    assert (float(x), float(a[0])) == (2, 1)
    y = a[1]
    a[1] = 7
    assert float(y) == 2
    with pytest.raises(ValueError, match="read-only"):
        y[()] = 3
    assert hash(y) == hash(2.0)
    assert {y: "two"}[BF(2)] == "two"
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    with pytest.raises(TypeError, match="unhashable"):
        hash(y.copy())


def test_iteration_and_containment():
    a = sf.array([[1.0, 2.0], [3.0, 4.0]], BF)
    assert [numbers(row) for row in a] == [[1, 2], [3, 4]]
    assert [float(x) for x in a[0]] == [1, 2]
    assert 0.1 in sf.array([0.1], BF)  # 0.1 is rounded first
    assert 5 not in a
    assert len(a) == 2
    with pytest.raises(TypeError):
        iter(BF(1.0)).__next__()
    x, y = a[1]
    assert (float(x), float(y)) == (3, 4)


def test_shape_methods_give_views():
    x = np.arange(6, dtype=np.float32)
    a = sf.array(x, HALF)
    for method in (
        lambda v: v.reshape(2, 3),
        lambda v: v.reshape((3, -1)),
        lambda v: v.reshape(2, 3).T,
        lambda v: v.reshape(1, 2, 3).transpose(2, 0, 1),
        lambda v: v.reshape(2, 3).swapaxes(0, 1),
        lambda v: v.reshape(1, 6).squeeze(),
        lambda v: v.ravel(),
    ):
        assert_same_bits(method(a).to_numpy(), method(x))
        assert np.shares_memory(method(a)._values, a._values)
    assert not np.shares_memory(a.flatten()._values, a._values)
    assert (a.ndim, a.size, a.shape, a.dtype) == (1, 6, (6,), HALF)


def test_truth_and_python_numbers():
    assert bool(BF(0.1))
    assert not BF(0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(sf.ones(2, BF))
    assert float(BF(0.1)) == 0.10009765625
    assert int(BF(3.5)) == 3
    with pytest.raises(TypeError):
        float(sf.ones(2, BF))
    assert sf.array([[0.5, 2]], BF).tolist() == [[0.5, 2.0]]
    assert round(HALF(2.567), 1) == HALF(2.6)
    assert round(HALF(2.5)) == 2
    assert f"{HALF(2.5):.3f}" == "2.500"


# ---------------------------------------------------------------- text
def parse(text, fmt):
    return sf.encode(text, fmt)


def bits_of_text(texts, fmt):
    return sf.quantize(np.array(texts, object), fmt)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_value_reads_back(fmt):
    ours = package_format(fmt)
    a = sf.from_codes(all_codes(fmt), ours)
    texts = [str(x) for x in a]
    assert_same_bits(bits_of_text(texts, ours), a.to_numpy(), texts)


def test_every_half_precision_value_reads_back_and_is_as_short_as_numpys():
    codes = np.arange(0, 65536, 7, dtype=np.uint16)
    a = sf.from_codes(codes, HALF)
    texts = [str(x) for x in a]
    assert_same_bits(bits_of_text(texts, HALF), a.to_numpy(), texts)
    for text, x in zip(texts, codes.view(np.float16), strict=True):
        if np.isfinite(x) and not float(x).is_integer():
            assert decimal.Decimal(text) == decimal.Decimal(str(x))


@pytest.mark.parametrize(
    "fmt", [NAMED["binary32"], NAMED["binary64"], oracle.Format(6, 9)], ids=str
)
def test_text_of_wide_formats(fmt):
    ours = package_format(fmt)
    a = sf.from_codes(some_codes(fmt, 400), ours)
    texts = [str(x) for x in a]
    assert_same_bits(bits_of_text(texts, ours), a.to_numpy(), texts)
    for text, x in zip(texts, a.to_numpy(), strict=True):
        if fmt.mantissa_bits == 52:
            assert text == repr(float(x))
        if fmt.mantissa_bits == 23 and np.isfinite(x) and not float(x).is_integer():
            assert decimal.Decimal(text) == decimal.Decimal(str(x))


@pytest.mark.parametrize("fmt", [NAMED["e5m2"], NAMED["e4m3fn"], oracle.Format(4, 5)], ids=str)
def test_no_shorter_decimal_reads_back(fmt):
    ours = package_format(fmt)
    a = sf.from_codes(np.arange(1, fmt.largest + 1), ours)
    for x in a:
        shown = decimal.Decimal(str(x))
        n = len(shown.normalize().as_tuple().digits)
        if n == 1 or float(x).is_integer():
            continue
        exponent = shown.adjusted() - n + 2
        nearby = [int(shown.scaleb(-exponent)) + d for d in (-1, 0, 1, 2)]
        candidates = [decimal.Decimal(k).scaleb(exponent) for k in nearby]
        # A tie goes to the even code, which the shortest text need not use.
        assert not any(sf.encode(c, ours) == sf.encode(x, ours) for c in candidates if c > 0)


def test_sfb110_integers_are_shown_in_full():
    for n in (8192, 65504, 17568):
        assert str(HALF(n)) == f"{n}.0"
        assert repr(HALF(n)) == f"SoftArray({n}.0, binary16)"
    codes = np.arange(0x7C00).astype(np.uint16)  # the finite ones
    integral = sf.from_codes(codes, HALF).to_numpy()
    integral = integral[integral == np.rint(integral)][::50]
    assert [str(HALF(v)) for v in integral] == [f"{v:.1f}" for v in integral.astype(float)]


def test_text_of_special_values_and_exponents():
    assert [str(BF(v)) for v in ("inf", "-inf", "nan", "-0.0", "1e-30", "1e30", "-0.001")] == [
        "inf", "-inf", "nan", "-0.0", "1e-30", "1e+30", "-0.001",
    ]  # fmt: skip


def test_repr_of_arrays():
    assert repr(sf.array([0.1, 2, -3], BF)) == "SoftArray([ 0.1,  2.0, -3.0], bfloat16)"
    assert str(sf.array([0.1, 2], BF)) == "[0.1 2.0]"
    assert repr(sf.array([[1, 2], [3, 4]], sf.Format(6, 9))) == (
        "SoftArray([[1.0, 2.0],\n           [3.0, 4.0]], Format(6, 9))"
    )
    assert repr(sf.empty((0, 3), BF)) == "SoftArray([], shape=(0, 3), bfloat16)"
    assert "..." in repr(sf.zeros(2000, BF))
    names = {**vars(sf), "SoftArray": sf.SoftArray}
    for a in (sf.array([0.1, 2], BF), sf.array([0.7], sf.Format(6, 9)), sf.FixedPoint(3, 4)([1.5])):
        back = eval(repr(a), names)
        assert back.format == a.format
        assert_same_bits(back.to_numpy(), a.to_numpy())


def test_printing_is_no_operation():
    with sf.status() as s, sf.rounding("toward_positive"):
        str(sf.array([1.0], BF))
        assert repr(BF(0.5)) == "SoftArray(0.5, bfloat16)"
    before = s.inexact
    assert before == 0


# ---------------------------------------------------------------- storage
@pytest.mark.parametrize(
    "fmt", [BF, sf.Format(11, 40), sf.FixedPoint(3, 4), sf.p3109(8, 3)], ids=str
)
def test_pickle_copy_and_files_keep_everything(fmt, tmp_path):
    a = sf.array([[0.1, -2.5], [0.0, 7.0]], fmt)
    for b in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), a.copy()):
        assert b.format == fmt
        assert_same_bits(b.to_numpy(), a.to_numpy())
        assert not np.shares_memory(a._values, b._values)
        b[0, 0] = 1
    sf.save(tmp_path / "one.npz", a)
    back = sf.load(tmp_path / "one.npz")
    assert back.format == fmt
    assert (back.codes == a.codes).all()
    sf.save(tmp_path / "two.npz", x=a, y=a[0])
    found = sf.load(tmp_path / "two.npz")
    assert list(found) == ["x", "y"]
    assert_same_bits(found["y"].to_numpy(), a[0].to_numpy())


def test_scalars_stay_scalars_when_stored():
    x = BF(0.1)
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert hash(y) == hash(x)


def test_pickles_are_read_in_another_process(tmp_path):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(sf.array([0.1, 2.0], "e6m9")))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.pickle")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[0.1 2.0]"


def test_files_say_what_is_wrong(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(2))
    with pytest.raises(ValueError, match="no SoftArrays"):
        sf.load(tmp_path / "other.npz")
    with pytest.raises(TypeError, match="SoftArrays"):
        sf.save(tmp_path / "x.npz", np.ones(2))
    with pytest.raises(ValueError, match="NaN"):
        sf.save(tmp_path / "x.npz", sf.array([np.nan], "float4_e2m1fn"))


def test_sfb112_files_hold_plain_codes_and_the_format(tmp_path):
    sf.save(tmp_path / "a.npz", sf.array([1.0, 2.0], BF))
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["array.codes"].dtype == np.uint16
        assert '"exponent_bits": 8' in str(stored["array.format"])


# ---------------------------------------------------------------- mixing
OPERATORS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}


@pytest.mark.parametrize("fmt", FEW, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_the_functions(name, fmt):
    ours = package_format(fmt)
    a = sf.from_codes(some_codes(fmt, 300, 1), ours)
    b = sf.from_codes(some_codes(fmt, 300, 2), ours)
    got = OPERATORS[name](a, b)
    assert got.format is ours
    x, y = a.to_numpy(), b.to_numpy()
    assert_same_bits(got.to_numpy(), getattr(sf, name)(x, y, ours))
    assert_same_bits(OPERATORS[name](a[0], b).to_numpy(), getattr(sf, name)(x[0], y, ours))
    assert_same_bits(
        OPERATORS[name](a, b[:, None]).to_numpy(), getattr(sf, name)(x, y[:, None], ours)
    )
    c = a.copy()
    view = c[::2]
    assert_same_bits(OPERATORS[name](view, b[::2]).to_numpy(), got.to_numpy()[::2])


@pytest.mark.parametrize("x", [3, 0.1, True, Fraction(1, 3), decimal.Decimal("0.7"), 10**40, -0.0])
def test_python_numbers_are_rounded_first(x):
    a = sf.array([1.0, 2.5, -3.0], BF)
    there = sf.quantize(x, BF)
    for name, operator in OPERATORS.items():
        function = getattr(sf, name)
        assert_same_bits(operator(a, x).to_numpy(), function(a.to_numpy(), np.float32(there), BF))
        assert_same_bits(operator(x, a).to_numpy(), function(np.float32(there), a.to_numpy(), BF))


@pytest.mark.parametrize("block", [{}, {"mode": "toward_zero"}, {"mode": "stochastic", "seed": 5}])
def test_numbers_beside_large_arrays_give_the_same_bits(block, monkeypatch):
    from softfloat.array import operators, ufuncs

    a = sf.array(np.random.default_rng(0).normal(size=(30, 10)), BF)

    def results():
        with sf.rounding(**block):
            return a * 0.3, 0.3 / a, a - 7, a % 0.3, a < 0.5, a.T + 0.3

    whole = results()
    for module in (operators, ufuncs):
        monkeypatch.setattr(module, "FULL_BELOW", 64)
    for got, expected in zip(results(), whole, strict=True):
        if isinstance(got, sf.SoftArray):
            got, expected = got.to_numpy(), expected.to_numpy()
        assert_same_bits(got, expected)


def test_python_numbers_go_to_nearest_in_every_block():
    a = sf.array([0.0], BF)
    for mode in ("toward_positive", "toward_negative"):
        with sf.rounding(mode):
            assert float((a + 0.1)[0]) == 0.10009765625
    with sf.status() as s:
        a + 0.1
    assert s.inexact == 0


def test_two_formats_do_not_mix():
    a, b = sf.ones(2, BF), sf.ones(2, HALF)
    for call in (
        lambda: a + b,
        lambda: a == b,
        lambda: np.maximum(a, b),
        lambda: np.concatenate([a, b]),
    ):
        with pytest.raises(TypeError, match=r"bfloat16 and binary16.*astype"):
            call()
    with pytest.raises(TypeError, match="astype"):
        a += b
    assert (a + b.astype(BF)).format is BF
    same = sf.ones(2, sf.Format(8, 7))  # equal by meaning
    assert numbers(a + same) == [2, 2]


def test_arrays_mix_where_every_element_is_a_value():
    a = sf.array([1.5, 2.0], BF)
    assert numbers(a + np.array([1, 2])) == [2.5, 4]
    assert numbers(np.eye(2) @ a) == [1.5, 2]
    assert numbers(np.array([0.5, np.nan])[:1] * a) == [0.75, 1]
    assert numbers([1, 2] + a) == [2.5, 4]
    assert numbers(a + np.array([1.0, 2.0], ml_dtypes.bfloat16)) == [2.5, 4]
    assert numbers(np.float64(0.5) * a) == [0.75, 1]
    assert numbers(a * np.array([True, False])) == [1.5, 0]
    assert bits64((sf.zeros(1, "float8_e4m3fnuz") + np.array([-0.0])).to_numpy()) == 0
    with pytest.raises(
        TypeError, match=r"element 1 is 0\.1, no value of bfloat16.*softfloat\.array"
    ):
        a + np.array([1.0, 0.1])
    with pytest.raises(TypeError, match=r"element \(1, 0\) is 257"):
        a + np.array([[1, 2], [257, 0]])
    with pytest.raises(TypeError, match=r"0\.1"):
        np.float64(0.1) * a
    with pytest.raises(TypeError, match="nan"):
        sf.ones(1, "float4_e2m1fn") + np.array([np.nan])
    with pytest.raises(TypeError, match="complex"):
        a + np.array([1j, 2])
    with pytest.raises(TypeError, match="masked"):
        a + np.ma.masked_array([1.0, 2.0])
    x = np.ones(2)
    with pytest.raises(TypeError):
        x += a


@pytest.mark.parametrize("other", [np.array(["1", "2"]), ["1", 2], [1j, 2], [None, 1]], ids=repr)
def test_arrays_of_what_is_no_number_do_not_mix(other):
    a = sf.ones(2, BF)
    for call in (lambda: a + other, lambda: other * a, lambda: np.concatenate([a, other])):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("other", [None, "1", b"1", 1j, object(), {}])
def test_what_is_no_number_does_not_mix(other):
    a = sf.ones(2, BF)
    for call in (lambda: a + other, lambda: other - a, lambda: a < other):
        with pytest.raises(TypeError):
            call()
    assert (a == other) is False


def test_comparison_rounds_python_numbers_first():
    a = sf.array([0.1, 2.0, np.nan, np.inf], HALF)
    assert (a == 0.1).tolist() == [True, False, False, False]
    assert (a != 0.1).tolist() == [False, True, True, True]
    assert (a < 1e6).tolist() == [True, True, False, False]
    assert (1 < a).tolist() == [False, True, False, True]
    assert type(HALF(1) < 2) is np.bool_


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float4_e2m1fn", "float8_e4m3fnuz", "float8_e8m0fnu"]
)
def test_numbers_beyond_the_range_compare_as_infinite(name):
    """A format without infinity would make 1e9 a NaN or its largest value."""
    a = sf.array([1.0, 4.0], name)
    assert (a < 1e9).all()
    assert (a > -1e9).all()
    assert not (a == 1e9).any()
    assert np.less(a, 1e9).all()
    assert np.greater(10**9, a).all()
    assert (a < decimal.Decimal("1e9")).all()
    assert (sf.full(1, sf.as_format(name).max, name) < 1e39).all()
    assert (sf.FixedPoint(3, 4, overflow="wrap")([1.0]) < 1e9).all()


def test_in_place_operators_keep_the_array():
    a = sf.array([1.0, 2.0], BF)
    b = view = a[:]
    view += 1
    view *= [2, 2]
    view -= BF(1)
    view /= 2
    view **= 2
    assert numbers(a) == [2.25, 6.25]
    assert b is view
    with pytest.raises(ValueError, match="shape"):
        a += sf.ones((3, 2), BF)


def test_astype_rounds_once_in_any_mode():
    a = sf.array([1 + 2.0**-9, 1.5], HALF)
    assert numbers(a.astype(BF)) == [1, 1.5]
    assert numbers(a.astype(BF, rounding="toward_positive")) == [1 + 2.0**-7, 1.5]
    assert a.astype(np.float32).format == sf.binary32
    assert a.astype(HALF, copy=False) is a
    assert a.astype(HALF) is not a


def test_functions_of_the_package_give_softarrays_for_softarrays():
    a = sf.array([1.0, 2.0, 3.0], BF)
    x = a.to_numpy()
    for got, expected in (
        (sf.quantize(a, HALF), sf.quantize(x, HALF)),
        (sf.add(a, 0.3, HALF), sf.add(x, 0.3, HALF)),
        (sf.fma(a, a, x, HALF), sf.fma(x, x, x, HALF)),
        (sf.sum(a, HALF), sf.sum(x, HALF)),
        (sf.sum(x=a, fmt=HALF), sf.sum(x, HALF)),
        (sf.matmul(a, x, HALF), sf.matmul(x, x, HALF)),
        (sf.dot(x, a, HALF), sf.dot(x, x, HALF)),
        (sf.cumsum(a, HALF), sf.cumsum(x, HALF)),
        (sf.norm(a, HALF), sf.norm(x, HALF)),
        (sf.nextafter(a, 0, HALF), sf.nextafter(x, 0, HALF)),
        (sf.round_to_integral(a, HALF), sf.round_to_integral(x, HALF)),
        (sf.scalbn(a, 2, HALF), sf.scalbn(x, 2, HALF)),
        (sf.sqrt(a[1], HALF), sf.sqrt(x[1], HALF)),
    ):
        assert isinstance(got, sf.SoftArray)
        assert got.format == HALF
        assert_same_bits(got.to_numpy(), expected)
    assert sf.maximum(a, 2).format is BF
    assert sf.negative(a).format is BF
    assert sf.encode(a, BF).dtype == np.uint16
    assert sf.isnan(a).tolist() == [False] * 3
    assert sf.less(a, 2).tolist() == [True, False, False]
    with pytest.raises(TypeError, match="fmt="):
        sf.maximum(a, a.astype(HALF))


def test_arrays_of_the_wide_carrier():
    for fmt in (sf.binary64, sf.Format(11, 40)):
        a = sf.array([0.1, 1e300], fmt)
        assert a._values.dtype == np.float64
        assert (a + a)._values.dtype == np.float64
        assert (a * 0.1)._values.dtype == np.float64
    assert sf.array(np.array([0.1], np.float64), BF)._values.dtype == np.float32


def test_every_pair_of_codes_compares_as_its_numbers_do():
    fmt = NAMED["e4m3fn"]
    ours = package_format(fmt)
    codes = all_codes(fmt)
    a = sf.from_codes(codes, ours)
    x = values_of(fmt, codes)
    for relation in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        got = getattr(a[:, None], relation)(a[None])
        assert (got == getattr(x[:, None], relation)(x[None])).all()


def test_protocol_of_sorted_and_builtins():
    a = sf.array([3.0, 1.0, 2.0], BF)
    assert [float(x) for x in sorted(a)] == [1, 2, 3]
    assert float(max(a)) == 3
    assert float(sum(a)) == 6
    assert float(abs(BF(-2))) == 2
    assert list(itertools.accumulate(a)) == [3, 4, 6]


def test_sfb115_operands_stay_and_out_may_alias():
    a, b = sf.array([1.0, 2.0, 4.0], BF), sf.array([0.5, 8.0, 16.0], BF)
    before = numbers(a), numbers(b)
    plain = a + b
    assert (numbers(a), numbers(b)) == before
    shifted = a.copy()
    expected = numbers(shifted[:-1] + b[:-1])
    np.add(shifted[:-1], b[:-1], out=shifted[1:])
    assert numbers(shifted[1:]) == expected
    np.add(a, b, out=a)
    assert_same_bits(a.to_numpy(), plain.to_numpy())
    shifted = b.copy()
    shifted[1:] += shifted[:-1]
    assert numbers(shifted) == [0.5, 8.5, 24]


def test_sfb116_integers_do_not_round_silently():
    assert (sf.ones(2, BF) + 10).format is BF
    with pytest.raises(TypeError, match="257"):
        sf.ones(2, BF) + np.int32(257)
    assert float(BF(np.int32(257))) == 256
    with pytest.raises(TypeError, match="complex"):
        sf.array(np.array([1j]), BF)


def test_sfb089_the_order_of_a_sum_is_the_one_documented():
    assert float(sf.array([2048.0, 1, 1], HALF).sum()) == 2048
    assert float(sf.array([1.0, 1, 2048], HALF).sum()) == 2050


def test_elements_in_order_can_be_read_and_set():
    a = sf.zeros((3, 3), BF)
    a.T.flat[1] = 0.1
    a.flat[::4] = [1, 2, 3]
    assert numbers(a) == [[1, 0, 0], [0.10009765625, 2, 0], [0, 0, 3]]
    assert [float(x) for x in a.flat][3:5] == [0.10009765625, 2]
    assert (len(a.flat), float(a.flat[8])) == (9, 3)


def test_a_format_without_zero_gets_none_from_numpy():
    a = sf.array([[1.0, 2.0], [4.0, 8.0]], "float8_e8m0fnu")
    assert np.isnan(np.tril(a)).tolist() == [[False, True], [False, False]]
    with pytest.raises(ValueError, match="no zero"):
        np.zeros_like(a)
    assert numbers(np.empty_like(a[0])) == [1, 1]


def test_fixed_point_arrays():
    q = sf.FixedPoint(3, 4)
    a = sf.array([0.1, 2.5, -3], q)
    x = a.to_numpy()
    assert numbers(a) == [0.125, 2.5, -3]
    assert_same_bits((a * a).to_numpy(), sf.multiply(x, x, q))
    assert_same_bits((a @ a).to_numpy(), sf.matmul(x, x, q))
    assert_same_bits((a / 3).to_numpy(), sf.divide(x, 3.0, q))
    assert (a > 1).tolist() == [False, True, False]
    assert numbers(-a) == [-0.125, -2.5, 3]


def test_nested_softarrays_keep_their_format():
    a = sf.array([1.0, 2.0], BF)
    assert sf.array([a, [a[0], 0.1]]).format is BF
    assert numbers(sf.array([a, [a[0], 0.1]])) == [[1, 2], [1, 0.10009765625]]
    with pytest.raises(TypeError, match="astype"):
        sf.array([a, a.astype(HALF)])
    assert numbers(sf.array([a, a.astype(HALF)], HALF)) == [[1, 2], [1, 2]]
