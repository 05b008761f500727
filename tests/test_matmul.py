"""The vector kernels of the matrix product equal the definition, whichever form of them runs."""

import contextlib
import hashlib
import itertools
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from helpers import assert_same_bits

import softfloat as sf
from softfloat import products
from softfloat.backends import contract
from softfloat.backends.kernels import Kernel, column_marks, kernels, row_marks
from softfloat.random import make_key
from softfloat.rounding import EVEN, NEGATIVE

FORMATS = {
    "bfloat16": sf.bfloat16,
    "binary16": sf.binary16,
    "e6m9": sf.Format(6, 9),
    "e5m2": sf.Format(5, 2),
    "e4m3": sf.Format(4, 3),
    "e3m4": sf.Format(3, 4),
    "e8m1": sf.Format(8, 1),
    "e8m10": sf.Format(8, 10),
    "e2m8": sf.Format(2, 8),
    "e7m5_bias100": sf.Format(7, 5, bias=100),
}
EXHAUSTIVE = pytest.mark.sweep
SHAPES = [
    (0, 3, 2),
    (3, 0, 2),
    (2, 3, 0),
    (1, 1, 1),
    (5, 7, 9),
    (4, 257, 32),
    (9, 520, 45),
    (33, 3, 530),
]
ANY, GRADUAL, FULL = contract.ANY, contract.MIDDLE, contract.UNIVERSAL


@contextlib.contextmanager
def forced(form):
    """Take one form of the kernels wherever it is right."""
    Kernel.forced = form
    try:
        yield
    finally:
        Kernel.forced = ANY


def defined(*operands, **options):
    """The scalar definition, which alone can count flags."""
    with sf.status():
        return products.matmul(*operands, **options)


def loop(a, b, fmt, c=None):
    """The naive loop over k, by elementwise operations in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    s = np.zeros((a.shape[0], b.shape[1])) if c is None else c.astype(np.float64)
    for k in range(a.shape[1]):
        s = sf.add(s, sf.multiply(a[:, k : k + 1], b[k : k + 1], fmt), fmt)
    return s


def normal(fmt, shape, scale, seed):
    x = np.random.default_rng(seed).standard_normal(shape) * scale
    with np.errstate(over="ignore"):
        return np.asarray(sf.quantize(x, fmt), np.float32)


def operands(fmt, shape, kind, seed=0):
    """Values of a format that bring out a kind of trouble."""
    m, k, n = shape
    small, large = fmt.smallest_normal, fmt.max
    left, right = {
        "ordinary": (1.0, 1.0),
        "subnormal operands": (small, 1.0),
        "subnormal products": (small**0.5, small**0.5),
        "vanishing products": (small, small),
        "overflow at times": (large**0.5 / 8, large**0.5 / 8),
        "overflow at once": (large / 4, 4.0),
        "specials": (1.0, 1.0),
        "zeros": (0.0, 1.0),
    }[kind]
    a, b = normal(fmt, (m, k), left, seed), normal(fmt, (k, n), right, seed + 1)
    if kind == "specials" and a.size and b.size:
        a[m // 2, k // 2] = np.inf
        a[0, -1] = np.nan
        b[k // 2, n // 2] = -np.inf
        b[0, 0] = np.nan
    return a, b


KINDS = (
    "ordinary",
    "subnormal operands",
    "subnormal products",
    "vanishing products",
    "overflow at times",
    "overflow at once",
    "specials",
    "zeros",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_form_is_the_naive_loop(name, kind):
    fmt = FORMATS[name]
    for shape in SHAPES if name in ("bfloat16", "binary16") else SHAPES[3:6]:
        a, b = operands(fmt, shape, kind)
        expected = loop(a, b, fmt)
        for form in (ANY, GRADUAL, FULL):
            with forced(form):
                assert_same_bits(products.matmul(a, b, fmt), expected)


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_the_kernels_are_the_definition(name):
    """The scalar definition itself, which calls no elementwise function."""
    for kind in KINDS:
        a, b = operands(FORMATS[name], (5, 40, 6), kind, 3)
        assert_same_bits(products.matmul(a, b, name), defined(a, b, name))


# What goes in, and how it is multiplied. Each line compiles kernels of its own.
EXACT = {"product": None}
RANDOM = {"rounding": "stochastic", "seed": 5, "stream": 2}
CASES = [
    ("bfloat16", "bfloat16", EXACT),
    ("binary16", "binary16", EXACT),
    ("float8_e4m3fn", "bfloat16", EXACT),
    ("float8_e5m2", "binary16", EXACT),
    ("float8_e4m3fnuz", "float8_e4m3fn", {"accumulator": "e6m9", **EXACT}),
    ("float8_e4m3fn", "float8_e4m3fn", {}),
    ("binary16", "bfloat16", {"accumulator": "binary32"}),
    ("bfloat16", "bfloat16", {"accumulator": "binary32", **EXACT}),
    ("bfloat16", "bfloat16", {"accumulator": "binary16"}),
    ("bfloat16", "bfloat16", {"product": "binary32"}),
    ("binary32", "binary32", {}),
    ("e8m20", "e8m20", {}),
    ("binary32", "e9m14", EXACT),
    ("bfloat16", "bfloat16", RANDOM),
    ("binary16", "binary16", RANDOM),
    ("float8_e4m3fn", "bfloat16", {**RANDOM, **EXACT, "random_bits": 16}),
    ("binary16", "binary16", {"rounding": "toward_zero"}),
    ("bfloat16", "bfloat16", {"rounding": "toward_positive"}),
    ("bfloat16", "bfloat16", {"rounding": "ties_to_away", "saturate": True}),
]
DOWNWARD = [  # as upward, for the longer suite
    ("binary16", "binary16", {"rounding": "toward_negative"}),
    ("binary32", "binary32", {"rounding": "toward_negative"}),
]
MORE = [
    ("binary64", "binary64", {}),
    ("fp24", "fp24", EXACT),
    ("e8m20", "e8m20", RANDOM),
    ("e8m20", "e8m20", {"rounding": "toward_positive", **EXACT}),
    ("binary16", "binary16", {**RANDOM, **EXACT}),
    ("tf32", "bfloat16", {"product": "tf32"}),
    ("binary16", "e5m2", {"accumulator": "binary16", "result_rounding": "toward_zero"}),
    ("bfloat16", "bfloat16", {"accumulator": "binary32", "rounding": "toward_zero"}),
    ("bfloat16", "bfloat16", {"rounding": "ties_to_away", **EXACT}),
]


def tricky(fmt, shape, kind, rng):
    """Values of a format, by the kind of trouble that they make."""
    fmt = sf.as_format(fmt)
    x = rng.standard_normal(shape)
    x *= {
        "spread": 2.0 ** rng.integers(-12, 13, shape),
        "few digits": 1.0,
        "subnormal": min(fmt.smallest_normal**0.5, 1e150),
        "tiny": fmt.smallest_normal,
        "large": min(fmt.max**0.5 / 8, 1e150),
        "huge": fmt.max / 4,
        "specials": 1.0,
    }[kind]
    if kind == "few digits":  # many ties, cancellations and zeros of both signs
        x = np.copysign(np.round(2 * x) / 2, rng.standard_normal(shape))
    with np.errstate(all="ignore"):
        x = np.asarray(sf.quantize(x, fmt, saturate=True), np.float64)
    if kind == "specials" and x.size > 5:
        x.flat[rng.integers(x.size, size=3)] = [np.inf, -np.inf, np.nan]
    return x


TRICKY = ("spread", "few digits", "subnormal", "tiny", "large", "huge", "specials")


def check_case(source, fmt, options, shape, kind, rng):
    m, k, n = shape
    a, b = tricky(source, (m, k), kind, rng), tricky(source, (k, n), kind, rng)
    c = tricky(options.get("accumulator", fmt), (m, n), kind, rng)
    for given in ({}, {"c": c}):
        expected = defined(a, b, fmt, **options, **given)
        for form in (ANY, GRADUAL, FULL):
            with forced(form):
                assert_same_bits(products.matmul(a, b, fmt, **options, **given), expected)


@pytest.mark.parametrize(
    "case",
    [
        *CASES,
        *(pytest.param(c, marks=pytest.mark.exhaustive) for c in DOWNWARD),
        *(pytest.param(c, marks=EXHAUSTIVE) for c in MORE),
    ],
    ids=str,
)
def test_every_kernel_is_the_definition(case):
    source, fmt, options = case
    rng = np.random.default_rng(1)
    for shape in ((0, 1, 3), (1, 0, 2), (1, 1, 1), (3, 17, 33), (5, 65, 17)):
        for kind in TRICKY if math.prod(shape) > 1 else TRICKY[:1]:
            check_case(source, fmt, options, shape, kind, rng)
    check_case(source, fmt, options, (3, 300, 5), "spread", rng)
    check_case(source, fmt, options, (2, 9, 530), "few digits", rng)


@pytest.mark.parametrize("options", [{}, {"outer": "binary32"}, RANDOM], ids=str)
@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_by_the_kernels_are_the_definition(block, options):
    rng = np.random.default_rng(3)
    a, b = tricky("bfloat16", (2, 5, 70), "spread", rng), tricky("bfloat16", (70, 6), "spread", rng)
    options = {"order": "blocked", "block": block, **options}
    for c in (None, tricky("binary32", (5, 6), "spread", rng)):
        got = products.matmul(a, b, "bfloat16", c=c, **options)
        assert_same_bits(got, defined(a, b, "bfloat16", c=c, **options))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_any_formats_and_modes_together(seed):
    rng = np.random.default_rng(seed)
    named = ["bfloat16", "binary16", "tf32", "float8_e4m3fn", "float8_e5m2", "e6m9", "e8m1", "e2m8"]
    named += ["binary32", "fp24", "e8m12", "e5m20", "binary64", "e11m20", "e10m15"]
    modes = ["ties_to_even", "toward_zero", "ties_to_away", "toward_positive", "toward_negative"]
    for _ in range(100):
        source, fmt, accumulator, product = rng.choice(named, 4)
        mode = str(rng.choice([*modes, "stochastic"]))
        options = {"rounding": mode, "accumulator": accumulator, "product": product}
        options |= {"seed": 1} if mode == "stochastic" else {}
        options |= EXACT if rng.random() < 0.4 else {}
        shape = tuple(rng.choice([1, 2, 5, 9, 17, 33], 3))
        check_case(source, fmt, options, shape, str(rng.choice(TRICKY)), rng)


# --- the claims of ops.linalg, on small carriers, in exact arithmetic
def cut(x, digits, floor=None):
    """x to so many binary digits, or to a multiple of 2**floor, to nearest, ties to even."""
    if x == 0:
        return x
    unit = Fraction(2) ** (math.floor(math.log2(abs(x))) + 1 - digits)
    unit = unit if floor is None else max(unit, Fraction(2) ** floor)
    return round(x / unit) * unit


@pytest.mark.parametrize(("digits", "p"), [(8, 2), (8, 3), (10, 4), (11, 4)])
def test_products_and_sums_are_cut_as_claimed(digits, p):
    Q = 2 ** (digits - p)
    K = Q + 1
    for n in range(2 ** (digits - 1), 2**digits):
        x = Fraction(n)
        if n % 2 == 0:  # fewer digits than the carrier
            r = cut(K * x, digits) - Q * x
            assert cut(r, digits) == r == cut(x, p)
        for error in (
            Fraction(-1, 2),
            Fraction(-1, 64),
            Fraction(0),
            Fraction(1, 64),
            Fraction(1, 2),
        ):
            if abs(error) == Fraction(1, 2) and n % 2:
                continue  # a sum half-way between two numbers of the carrier is even
            u = cut(K * x + error, digits)
            s = cut(u - cut(u - x, digits), digits)
            assert s == cut(x + error, p)
        e = Fraction(2) ** (n.bit_length() - 1)
        C = 3 * Q * e / 2
        assert cut(x + C, digits) - C == cut(x, p)
        assert cut(C - x, digits) - C == -cut(x, p)


@pytest.mark.sweep
@pytest.mark.parametrize("p", range(2, 12))
def test_every_product_of_23_digits_is_cut_to_nearest(p):
    """The rule for products in float32 itself, over all significands of 23 digits."""
    Q = 2.0 ** (24 - p)
    x = np.arange(2.0**22, 2.0**23)
    r = ((Q + 1) * x).astype(np.float32) - Q * x
    assert np.array_equal(r, sf.quantize(x, sf.Format(8, p - 1)))


# --- random words
@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_negative"])
@pytest.mark.parametrize("product", ["own", None])
@pytest.mark.parametrize("name", ["bfloat16", "binary16", "e4m3", "e8m10", "binary32"])
def test_small_products_are_those_of_the_general_way(name, product, rounding):
    fmt = FORMATS.get(name) or sf.as_format(name)
    rng = np.random.default_rng(7)
    options = {"rounding": rounding, **({} if product == "own" else {"product": product})}
    with np.errstate(over="ignore", under="ignore"):
        for m, k, n in [(5, 9, 33), (4, 64, 32), (7, 300, 3), (6, 5, 1)]:
            for power in (-126, -70, -24, -12, 0, 6, 40, 63):
                scale = 2.0 ** (62 if power == 63 else rng.integers(-9, 9))
                a = (rng.standard_normal((m, k)) * math.ldexp(1.0, power)).astype(np.float32)
                b = (rng.standard_normal((k, n)) * scale).astype(np.float32)
                if n == 33:  # factors of few digits leave the others more
                    a = rng.choice(np.float32([1, 5, 7, -3]), (m, k))
                    b = (b.view(np.uint32) & np.uint32(0xFFFFFFF0)).view(np.float32)
                elif power > -24 and n > 3:
                    a, b = sf.quantize(a, fmt), sf.quantize(b, fmt)
                general = sf.matmul(a, b, fmt, c=np.zeros((m, n), np.float32), **options)
                assert_same_bits(sf.matmul(a, b, fmt, **options), general)


def test_ordinary_small_products_take_the_short_way():
    x = sf.quantize(np.random.default_rng(0).standard_normal((16, 16)), "bfloat16")
    x = x.astype(np.float32)
    for name in ("bfloat16", "binary16", "binary32"):
        kernel = kernels(sf.as_format(name), sf.as_format(name), EVEN, 0, 0)[0]
        assert kernel.run_small(x, x, np.empty_like(x), kernel.forced)
        infinite = np.full_like(x, np.inf)
        assert not kernel.run_small(x, infinite, np.empty_like(x), kernel.forced)
    for fmt, calm in ((sf.bfloat16, 110), (sf.binary16, 119)):
        kernel = kernels(fmt, fmt, NEGATIVE, 0, 0)[0]
        for power in (0, 110, 119, 124):
            large = x * np.float32(2.0**power)
            done = kernel.run_small(x, large, np.empty_like(x), kernel.forced)
            assert done == (power <= calm)


def test_the_words_of_products_are_even_and_unrelated():
    key = np.uint64(make_key(7, 0))
    rows, columns = np.empty((128, 32), np.uint32), np.empty((32, 128), np.uint32)
    row_marks(key, 0, 0, rows)
    column_marks(key, 0, 0, columns)
    y = rows[:, None, :] * columns.T[None]
    for word in (y >> 19, (y >> 6) & 0x1FFF):
        for threshold in (0.5, 0.25, 0.9, 0.01):
            u = (word < threshold * 8192) - threshold
            s = u / math.sqrt(threshold * (1 - threshold))
            seen = {
                "mean": s,
                "term": s[..., 1:] * s[..., :-1],
                "row": s[1:] * s[:-1],
                "column": s[:, 1:] * s[:, :-1],
                "corners": s[1:, 1:] * s[:-1, 1:] * s[1:, :-1] * s[:-1, :-1],
                "far corners": s[:64, :64] * s[64:, :64] * s[:64, 64:] * s[64:, 64:],
            }
            for what, x in seen.items():
                rarity = np.sqrt(x.size) * x.mean() / x.std()
                assert abs(rarity) < 5, (what, threshold, rarity)


def test_stochastic_products_are_unbiased():
    """1 + 3/8 ulp, many times over: the mean of the results is the exact one."""
    fmt = sf.bfloat16
    c = np.full((64, 64), 1.0, np.float32)
    a, b = np.full((64, 1), 3 / 8 * fmt.epsilon), np.ones((1, 64))
    ups = [products.matmul(a, b, fmt, c=c, rounding="stochastic", seed=s) > 1 for s in range(40)]
    share = np.mean(ups)
    assert abs(share - 3 / 8) < 5 * math.sqrt(3 / 8 * 5 / 8 / (40 * 64 * 64))


@pytest.mark.parametrize("bits", [5, 13, 24])
def test_parts_of_a_stochastic_product_repeat_the_whole(bits):
    rng = np.random.default_rng(0)
    a, b = (
        tricky("bfloat16", (2, 9, 40), "spread", rng),
        tricky("bfloat16", (40, 10), "spread", rng),
    )
    options = {**RANDOM, "random_bits": bits}
    whole = products.matmul(a, b, "bfloat16", **options)
    rows = products.matmul(a[1, 3:], b, "bfloat16", offset=120, **options)
    assert_same_bits(rows, whole[1, 3:])
    assert_same_bits(
        products.matmul(a[0], b, "bfloat16", offset=3, **options),
        defined(a[0], b, "bfloat16", offset=3, **options),
    )
    assert not np.array_equal(whole, products.matmul(a, b, "bfloat16", **{**options, "seed": 6}))


def test_the_processor_rounds_to_nearest_again_afterwards():
    a = np.ones((2, 2), np.float32)
    for rounding in ("toward_zero", "toward_positive", "toward_negative"):
        products.matmul(a, a, "bfloat16", rounding=rounding)
        tenth = np.float64(1) / np.float64(10)
        assert (tenth * 3, tenth + 0.2) == (0.30000000000000004, 0.30000000000000004)


# --- other processors
ELSEWHERE = CASES[0:3] + CASES[5:6] + CASES[13:15] + CASES[17:18]
FEW_ELSEWHERE = CASES[0:1] + CASES[5:6]


def digest_of_all(cases):
    """A digest of the results of some kernels, to be compared between processors."""
    found = hashlib.sha256()
    rng = np.random.default_rng(4)
    for source, fmt, options in cases:
        for kind in TRICKY:
            a, b = tricky(source, (9, 70), kind, rng), tricky(source, (70, 37), kind, rng)
            found.update(np.ascontiguousarray(products.matmul(a, b, fmt, **options)).tobytes())
    return found.hexdigest()


AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx,+bmi,+bmi2,+f16c"}
NO_FMA = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": "+sse4.2"}


@pytest.mark.parametrize(
    ("processor", "cases"),
    [
        (AVX2, "FEW_ELSEWHERE"),
        pytest.param(AVX2, "ELSEWHERE", marks=pytest.mark.exhaustive),
        pytest.param(NO_FMA, "ELSEWHERE", marks=EXHAUSTIVE),
    ],
    ids=["avx2, few", "avx2", "no fma"],
)
def test_other_processors_give_the_same_bits(processor, cases):
    here = os.path.dirname(os.path.abspath(__file__))
    shown = subprocess.run(
        [sys.executable, "-c", f"from test_matmul import *; print(digest_of_all({cases}))"],
        env={
            **os.environ,
            **processor,
            "PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)]),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout.strip() == digest_of_all(globals()[cases])


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_an_initial_accumulator_begins_the_loop(name):
    fmt = FORMATS[name]
    a, b = operands(fmt, (6, 12, 35), "ordinary")
    for scale in (1.0, fmt.max / 4, fmt.smallest_normal):
        c = normal(fmt, (6, 35), scale, 8)
        c[0, :4] = [-0.0, np.inf, np.nan, -fmt.max]
        for form in (ANY, GRADUAL, FULL):
            with forced(form):
                assert_same_bits(products.matmul(a, b, fmt, c=c), loop(a, b, fmt, c))
                zero = products.matmul(a * 0, b, fmt, c=c)
                assert_same_bits(zero, loop(a * 0, b, fmt, c))


@pytest.mark.parametrize("form", [ANY, GRADUAL, FULL])
@pytest.mark.parametrize("precision", range(2, 12))
def test_products_of_all_significands(precision, form):
    """Every pair of significands, with the product in the normal range and at each place of the subnormal one."""
    fmt = sf.Format(6, precision - 1)
    significands = np.arange(2 ** (precision - 1), 2**precision).astype(np.float32)
    if precision > 9:
        significands = significands[:: precision - 8]
    columns = np.concatenate((significands, -significands[::7]))
    half = 2.0 ** (fmt.emin // 2 - precision)
    for place in (*range(-2, precision + 2), 30):
        a = significands[:, None] * np.float32(half)
        b = columns[None] * np.float32(half * 2.0 ** (place - precision + 2))
        with forced(form):
            got = products.matmul(a, b, fmt)
        product = np.asarray(sf.multiply(a.astype(np.float64), b.astype(np.float64), fmt))
        assert_same_bits(got, product + 0.0)  # sums start at +0


@pytest.mark.parametrize("form", [ANY, GRADUAL, FULL])
def test_sums_of_all_pairs(form):
    for fmt in (sf.Format(5, 3), sf.Format(8, 2), sf.Format(4, 5)):
        codes = np.arange(2**fmt.bits)
        values = np.unique(np.asarray(sf.decode(codes, fmt)))
        c = np.broadcast_to(values, (len(values), len(values)))
        with forced(form):
            got = products.matmul(values[:, None], np.ones((1, len(values))), fmt, c=c)
        assert_same_bits(got, sf.add(values[:, None], values[None], fmt))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((2, 0, 3, 4), (4, 5)),
        ((0, 3, 4), (0, 4, 5)),
        ((2, 3, 0), (0, 5)),
        ((2, 4), (3, 4, 5)),
    ],
)
@pytest.mark.parametrize("fmt", ["bfloat16", "float8_e4m3fn"])
def test_shapes_are_those_of_numpy(left, right, fmt):
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, left).astype(np.float32)
    b = rng.integers(-2, 3, right).astype(np.float32)
    assert_same_bits(products.matmul(a, b, fmt), a @ b)
    assert_same_bits(products.dot(a, b, fmt), np.dot(a, b))
    assert_same_bits(products.matmul(a, b, fmt, rounding="toward_zero", product=None), a @ b)


def test_dot_with_scalars_and_vdot():
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert_same_bits(products.dot(2.0, a, "bfloat16"), 2 * a)
    assert_same_bits(products.dot(a, 2.0, "bfloat16"), 2 * a)
    assert_same_bits(products.vdot(a, a[::-1], "bfloat16"), np.vdot(a, a[::-1]))
    out = np.empty((2, 2), np.float32)
    assert products.dot(a, a.T, "bfloat16", out=out) is out
    assert_same_bits(out, a @ a.T)


def test_layout_dtype_and_batching_do_not_matter():
    a, b = operands(sf.bfloat16, (19, 70, 37), "ordinary")
    expected = products.matmul(a, b, "bfloat16")
    for x, y in itertools.product((a, a.astype(float), np.asfortranarray(a)), (b, b.astype(">f4"))):
        assert_same_bits(products.matmul(x, y, "bfloat16"), expected)
    stacked = products.matmul(np.stack((a, a[::-1])), b, "bfloat16")
    assert_same_bits(stacked[1], expected[::-1])
    assert_same_bits(products.matmul(a, b[:, 5:21], "bfloat16"), expected[:, 5:21])
    ten = np.ascontiguousarray(b[:, ::3])
    assert_same_bits(products.matmul(a, ten, "bfloat16"), expected[:, ::3])


def test_operands_outside_the_format_are_taken_exactly():
    x = np.array([[0.1, 0.2]], np.float32)
    y = np.array([[0.3], [0.7]])
    assert_same_bits(products.matmul(x, y, "bfloat16"), loop(x, y, "bfloat16"))
    with pytest.raises(TypeError, match="round them first"):
        products.matmul([[2**70 + 1]], [[1]], "bfloat16")


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_thread_count_does_not_matter(name):
    a, b = operands(FORMATS[name], (203, 130, 130), "specials")
    threads = sf.get_num_threads()
    results = []
    try:
        for n in (1, 2, 5):
            sf.set_num_threads(n)
            results.append(products.matmul(a, b, name))
    finally:
        sf.set_num_threads(threads)
    assert_same_bits(results[0], results[1])
    assert_same_bits(results[0], results[2])


@contextlib.contextmanager
def small_boxes():
    """Cut even small products into many boxes, on three threads."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("SHARED", 1),
            ("OF_A_THREAD", 64),
            ("AT_ONCE", 1 << 14),
            ("TERMS", 300),
        ):
            patch.setattr(contract, name, value)
        patch.setattr(contract, "get_num_threads", lambda: 3)
        yield


@pytest.mark.parametrize(
    "options", [{}, RANDOM, {**RANDOM, "order": "blocked", "block": 64}], ids=str
)
def test_the_cut_into_boxes_does_not_matter(options):
    rng = np.random.default_rng(5)
    for left, right in [((130, 70), (70, 200)), ((3, 700), (700, 45)), ((9, 5, 70), (9, 70, 33))]:
        a, b = tricky("binary16", left, "spread", rng), tricky("binary16", right, "spread", rng)
        expected = products.matmul(a, b, "bfloat16", **options)
        with small_boxes():
            assert_same_bits(products.matmul(a, b, "bfloat16", **options), expected)


@pytest.mark.parametrize("cut", [contextlib.nullcontext, small_boxes])
@pytest.mark.parametrize("options", [{}, RANDOM, {**RANDOM, "offset": 6}], ids=str)
def test_batches_and_single_columns_are_the_definition(options, cut):
    rng = np.random.default_rng(6)
    for left, right in [
        ((70, 1, 40), (70, 40, 1)),
        ((3, 40), (7, 40, 1)),
        ((1, 40), (7, 40, 1)),
        ((7, 3, 40), (7, 40, 1)),
        ((7, 1, 40), (40, 1)),
        ((7, 3, 40), (40, 2)),
        ((2, 1, 3, 40), (3, 40, 6)),
        ((90, 300), (300, 1)),
        ((1, 300), (300, 90)),
    ]:
        for kind in ("spread", "specials"):
            a, b = tricky("bfloat16", left, kind, rng), tricky("bfloat16", right, kind, rng)
            c = tricky("bfloat16", (left[-2], right[-1]), kind, rng)
            for given in ({}, {"c": c}):
                with cut():
                    got = products.matmul(a, b, "bfloat16", **options, **given)
                assert_same_bits(got, defined(a, b, "bfloat16", **options, **given))


def test_boxes_cover_each_element_once():
    for batches, m, n, k in [
        (1, 512, 512, 512),
        (1, 64, 25088, 576),
        (5, 900, 70, 400),
        (999, 4, 4, 4),
    ]:
        for threads in (1, 2, 3):
            seen = np.zeros((batches, m, n), np.int8)
            for box in contract._boxes(batches, m, n, (0, k), threads):
                seen[box.first : box.last, box.row : box.row_end, box.column : box.column_end] += 1
                assert (box.term, box.term_end) == (0, k)
            assert (seen == 1).all()


def test_read_only_operands_compile_nothing_anew():
    a, b = operands(sf.bfloat16, (5, 6, 7), "specials")
    expected = products.matmul(a, b, "bfloat16")
    fmt = sf.bfloat16
    run = kernels(fmt, fmt, EVEN, 0, 0)[0].run
    before = len(run.signatures)
    a.flags.writeable = b.flags.writeable = False
    assert_same_bits(products.matmul(a, b, fmt), expected)
    assert len(run.signatures) == before


def test_inputs_stay_as_they_were():
    a, b = operands(sf.bfloat16, (5, 6, 7), "specials")
    a[0, 0] = np.uint32(0xFFC12345).view(np.float32)
    kept = a.copy(), b.copy()
    products.matmul(a, b, "bfloat16", c=np.zeros((5, 7), np.float32))
    for x, y in zip((a, b), kept, strict=True):
        assert np.array_equal(x.view(np.uint32), y.view(np.uint32))


def test_a_nan_is_the_canonical_one():
    a = np.array([[np.inf, -np.inf]], np.float32)
    for order in ("sequential", "pairwise"):
        got = products.matmul(a, np.ones((2, 1), np.float32), "bfloat16", order=order)
        assert got.view(np.uint32)[0, 0] == 0x7FC00000


def test_formats_beyond_the_kernels_take_the_definition():
    for fmt in (sf.float8_e4m3fnuz, sf.Format(5, 10, subnormals="ftz"), sf.Format(11, 40)):
        assert kernels(fmt, fmt, EVEN, 0, 0) == ()
        assert_same_bits(products.matmul([[1.5]], [[2.0]], fmt), [[3.0]])
