"""What a reviewer broke once: odd arrays, exact operands, options, status blocks. Each must stay mended."""

import collections
import threading
from fractions import Fraction

import numpy as np
import pytest

import softfloat as sf
from softfloat.backends import threads as pool

F4 = np.float32
B16 = sf.binary16


def fresh(n=12):
    return np.arange(n, dtype=F4) + F4(0.1)


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_zero", "stochastic"])
@pytest.mark.parametrize("fmt", [B16, sf.float8_e4m3fn, sf.FixedPoint(5, 2)], ids=lambda f: f.label)
def test_in_place_on_any_view(fmt, rounding):
    options = {"rounding": rounding} | ({"seed": 4} if rounding == "stochastic" else {})
    views = [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.reshape(3, 4).T,
        lambda x: x.reshape(3, 4)[:, 1:3],
        lambda x: x,
    ]
    for view in views:
        x = fresh()
        want = sf.quantize(view(x).copy(), fmt, **options)
        place = view(x)
        assert sf.quantize(place, fmt, out=place, **options) is place
        assert np.array_equal(place, want)


def test_in_place_on_a_field_of_a_structure():
    record = np.zeros(5, dtype=[("a", "i4"), ("y", "f4")])
    record["y"] = fresh(5)
    want = sf.quantize(fresh(5), B16)
    sf.quantize(record["y"], B16, out=record["y"])
    assert np.array_equal(record["y"], want)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_as_out_and_as_operand():
    out = np.asmatrix(np.zeros((2, 3), F4))
    x = np.full((2, 3), 1.1, F4)
    for call in (
        lambda: sf.quantize(x, B16, out=out),
        lambda: sf.add(x, x, B16, out=out),
        lambda: sf.remainder(x, x, B16, out=out),
        lambda: sf.quantize(x, B16, out=out, rounding="SR", seed=1),
    ):
        out[...] = -1
        assert call() is out
    assert np.array_equal(np.asarray(out), sf.quantize(x, B16, rounding="SR", seed=1))
    matrix = np.asmatrix(x)
    assert isinstance(sf.quantize(matrix, B16), np.matrix)
    sf.quantize(matrix, B16, out=matrix)


def test_masks_are_kept_and_joined():
    a = np.ma.array([1.1, 2.2, 3.3], mask=[0, 1, 0])
    b = np.ma.array([1.1, 2.2, 3.3], mask=[0, 0, 1])
    assert sf.quantize(a, B16).mask.tolist() == [False, True, False]
    assert sf.add(a, b, B16).mask.tolist() == [False, True, True]
    with pytest.raises(TypeError, match="plain NumPy array"):
        sf.quantize(a, B16, out=a)


def test_no_helper_goes_on_after_a_call_returned(monkeypatch):
    x = np.random.default_rng(1).standard_normal(1_000_000)
    want = sf.remainder(x, 0.3, B16)
    before = sf.get_num_threads()
    started = []
    start = threading.Thread.start

    def limited(thread):
        if len(started) >= 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(pool, "_pool", None)
    monkeypatch.setattr(threading.Thread, "start", limited)
    try:
        sf.set_num_threads(8)
        got = sf.remainder(x, np.full(x.shape, 0.3), B16)
        assert np.array_equal(got, want)
    finally:
        sf.set_num_threads(before)


THIRD = Fraction(1, 3)


def test_p3109_division_by_zero_of_exact_operands():
    for fmt in (sf.p3109(8, 3), sf.p3109(8, 3, extended=False), sf.p3109(8, 3, signed=False)):
        with sf.status() as s:
            assert np.isnan(sf.divide(THIRD, 0, fmt)) and np.isnan(sf.divide(1.0, 0.0, fmt))
        assert s.invalid == 2


@pytest.mark.parametrize(
    ("call", "flag"),
    [
        (lambda big: sf.divide(big, 0, B16), "divide_by_zero"),
        (lambda big: sf.subtract([np.inf, big], [np.inf, 0], B16), "invalid"),
        (lambda big: sf.multiply([0, big], [np.inf, 1], B16), "invalid"),
        (lambda big: sf.sqrt(-big, B16), "invalid"),
        (lambda big: sf.remainder(big, 0, B16), "invalid"),
    ],
)
def test_exact_operands_raise_the_flags_of_floats(call, flag):
    with sf.status() as exact:
        call(2**60 + 1)
    with sf.status() as floating:
        call(2.0**60)
    assert getattr(exact, flag) == getattr(floating, flag) == 1


def test_round_to_integral_of_exact_operands():
    with sf.status() as s:
        assert sf.round_to_integral(Fraction(7, 3), B16) == 2
    assert s.inexact == 1
    halves = [Fraction(1, 2) + k for k in range(200)] + [THIRD]
    floats = [0.5 + k for k in range(200)] + [1 / 3]
    for mode in sf.Rounding:
        seed = {"seed": 5} if mode.value.startswith("stochastic") else {}
        got = sf.round_to_integral(halves, B16, rounding=mode, **seed)
        assert np.array_equal(got, sf.round_to_integral(floats, B16, rounding=mode, **seed))


def test_long_double_beyond_float64():
    huge = np.finfo(np.longdouble).max
    if huge == np.finfo(np.float64).max:
        pytest.skip("longdouble is float64 here")
    assert sf.add(huge, 1, B16) == np.inf
    assert sf.multiply(huge, huge, B16, rounding="toward_zero") == 65504
    assert sf.negative(huge, B16) == -np.inf


def test_hexadecimal_strings_are_exact():
    assert sf.quantize("0x1.00200000000000000001p0", B16) == 1 + 2.0**-10
    assert sf.quantize("0x1p5000", B16) == np.inf
    assert sf.quantize("-0x1.8p-3", B16) == -0.1875
    with pytest.raises(ValueError, match="cannot read"):
        sf.quantize("+-inf", B16)


def test_signs_survive_among_exact_operands():
    assert np.signbit(sf.remainder(-0.0, THIRD, B16))
    minus_nan = np.copysign(np.nan, -1)
    got = sf.quantize([minus_nan, THIRD], sf.float8_e4m3fn)
    assert np.isnan(got[0]) and np.signbit(got[0])
    assert sf.copysign(1.0, np.array([minus_nan, THIRD], object), B16).tolist() == [-1.0, 1.0]


def test_sequences_other_than_lists_keep_large_integers():
    value = 2**60 + 2**36 + 1
    want = sf.quantize([value, 0.5], sf.binary32)
    assert np.array_equal(sf.quantize(collections.deque([value, 0.5]), sf.binary32), want)


@pytest.mark.parametrize("subnormals", ["ftz", "grid"])
def test_a_format_of_zero_alone_is_refused(subnormals):
    with pytest.raises(ValueError, match="no number but zero"):
        sf.Format(1, 1, bias=120, subnormals=subnormals)


def test_a_call_that_fails_leaves_its_input():
    x = np.array([1.1, 2.2, -3.3], F4)
    before = x.copy()
    with pytest.raises(ValueError, match="element 2 is negative"):
        sf.quantize(x, sf.Format(4, 3, specials="finite", signed=False), out=x)
    assert np.array_equal(x, before)


def test_options_are_checked_whatever_was_called_before():
    x = fresh()
    sf.quantize(x, B16, saturate=True)
    for value in (1, 1.0, 0, None):
        with pytest.raises(ValueError, match="saturate must be"):
            sf.quantize(x, B16, saturate=value)
    sf.quantize(x, B16)
    for options in ({"variant": "D"}, {"random_bits": 99}, {"offset": -5}, {"variant": ["A"]}):
        with pytest.raises(ValueError):
            sf.quantize(x, B16, **options)
    with pytest.raises(TypeError, match="seed must be an integer"):
        sf.quantize(x, B16, seed="x")
    with pytest.raises(TypeError, match=r"add\(\) has no option 'foo'"):
        sf.add(x, x, B16, foo=1)
    for _ in "ab":  # also after a call that left its way for the next one
        with pytest.raises(TypeError, match="rounding"):
            sf.add(x, x, B16, rounding=None)
        sf.add(x, x, B16)


def test_a_status_block_inside_itself_counts_once():
    s = sf.status()
    with s, s:
        sf.quantize(0.1, B16)
    assert s.inexact == 1


def test_status_blocks_may_end_in_any_order():
    first, second = sf.status(), sf.status()
    first.__enter__()
    second.__enter__()
    first.__exit__()
    sf.quantize(0.1, B16)
    second.__exit__()
    sf.quantize(0.1, B16)
    assert (first.inexact, second.inexact) == (0, 1)


def test_more_than_32_dimensions():
    deep = np.full((1,) * 40, 1.5, F4)
    with pytest.raises(ValueError, match="more than 32 dimensions"):
        sf.add(deep, np.ones((2, 2, 2), F4), B16)
    wide = np.full((2,) * 3 + (1,) * 40, 1.5, F4)[::-1]
    assert np.array_equal(sf.add(wide, wide, B16), wide + wide)


def test_small_things():
    assert sf.decode([], B16).shape == (0,)
    sf.set_num_threads(np.int64(sf.get_num_threads()))
    with pytest.raises(TypeError, match="real numbers"):
        sf.quantize(np.array([np.timedelta64(5, "s")], object), B16)
    with pytest.raises(ValueError, match="subnormals must be one of True, False"):
        sf.Format(5, 2, subnormals=np.array([1, 2]))
    with pytest.raises(ValueError, match="unknown format"):
        sf.as_format("e" + "9" * 5000 + "m1")
    with pytest.raises(TypeError, match="signed must be True or False"):
        sf.p3109(16, 5, signed="no")
    with pytest.raises(ValueError):
        B16.record[0] = 3
