"""The vector kernels of the matrix product equal the definition, whichever form of them runs."""

import contextlib
import itertools

import numpy as np
import pytest
from helpers import assert_same_bits

import softfloat as sf
from softfloat import products
from softfloat.backends import contract

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
ANY, GRADUAL, FULL = -1, contract.GRADUAL, contract.FULL


@contextlib.contextmanager
def forced(fmt, form):
    """Take one form of the kernels wherever it is right."""
    fast = contract.fast_product(fmt)
    fast.forced = form
    try:
        yield
    finally:
        fast.forced = ANY


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
            with forced(fmt, form):
                assert_same_bits(products.matmul(a, b, fmt), expected)


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_the_kernels_are_the_definition(name):
    """The scalar definition itself, which calls no elementwise function."""
    for kind in KINDS:
        a, b = operands(FORMATS[name], (5, 40, 6), kind, 3)
        fast = products.matmul(a, b, name)
        exact = products.matmul(a, b, name, order="blocked", block=1000)
        assert_same_bits(fast, exact)


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_an_initial_accumulator_begins_the_loop(name):
    fmt = FORMATS[name]
    a, b = operands(fmt, (6, 12, 35), "ordinary")
    for scale in (1.0, fmt.max / 4, fmt.smallest_normal):
        c = normal(fmt, (6, 35), scale, 8)
        c[0, :4] = [-0.0, np.inf, np.nan, -fmt.max]
        for form in (ANY, GRADUAL, FULL):
            with forced(fmt, form):
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
        with forced(fmt, form):
            got = products.matmul(a, b, fmt)
        product = np.asarray(sf.multiply(a.astype(np.float64), b.astype(np.float64), fmt))
        assert_same_bits(got, product + 0.0)  # sums start at +0


@pytest.mark.parametrize("form", [ANY, GRADUAL, FULL])
def test_sums_of_all_pairs(form):
    for fmt in (sf.Format(5, 3), sf.Format(8, 2), sf.Format(4, 5)):
        codes = np.arange(2**fmt.bits)
        values = np.unique(np.asarray(sf.decode(codes, fmt)))
        c = np.broadcast_to(values, (len(values), len(values)))
        with forced(fmt, form):
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
    for fmt in (sf.float8_e4m3fn, sf.binary32, sf.Format(5, 10, subnormals="ftz"), "e5m11"):
        assert contract.fast_product(sf.as_format(fmt)) is None
