"""Sums and their kin equal plain loops over the scalar operations, bit for bit, by every path."""

import _thread
import itertools
import threading

import numpy as np
import pytest
from helpers import assert_same_bits

import softfloat as sf
from softfloat import products, reductions
from softfloat.backends import additions, orders, sums

MASK = 2**64 - 1
SEED, STREAM = 11, 3
FORMATS = [
    sf.bfloat16,
    sf.binary16,
    sf.float8_e4m3fn,
    sf.float8_e5m2fnuz,
    sf.binary32,
    sf.binary64,
    sf.Format(6, 9, subnormals="ftz"),
    sf.dlfloat16,
    sf.p3109(8, 4),
    sf.FixedPoint(6, 5),
]
ORDERS = ("sequential", "pairwise", "lanes", "blocked", "kahan", "neumaier")
BLOCK = 5
ALL = pytest.param(True, marks=pytest.mark.sweep)  # of the cases of a test


def some(cases, name, whole, count=2):
    """The first case and `count` others, which a name picks; or the whole of them."""
    start = sum(map(ord, name)) % (len(cases) - 1)
    picked = {1 + (start + 4 * i) % (len(cases) - 1) for i in range(count)}
    return [(j, case) for j, case in enumerate(cases) if whole or j == 0 or j in picked]


# --- random words, told a second time
def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_word(key, j):
    return mix((key + (j + 1) * 0x9E3779B97F4A7C15) & MASK)


def element_key(index):
    first = mix((SEED + 0x9E3779B97F4A7C15) & MASK)
    return key_word(mix((first + STREAM * 0x94D049BB133111EB) & MASK), index)


def word(key, step, bits=24):
    both = key_word(key, step >> 1)
    return ((both >> 32) if step & 1 else both & 0xFFFFFFFF) >> (32 - bits)


def line_keys(row, column):
    """The keys of a row and a column of a product."""
    seeded = mix((mix((SEED + 0x9E3779B97F4A7C15) & MASK) + STREAM * 0x94D049BB133111EB) & MASK)
    return key_word(seeded ^ 0xBF58476D1CE4E5B9, row), key_word(seeded ^ 0x94D049BB133111EB, column)


def line_word(key, k):
    x = (((k * 0x9E3779B1) + key) ^ (key >> 32)) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16) | 1


def term_word(row, column, k, place, bits):
    """The integer that decides the product (place 0) or the addition (1) of term k."""
    if bits <= 16:
        y = f"{line_word(row, k) * line_word(column, k) & 0xFFFFFFFF:032b}"
        return int(y[place * bits :][:bits], 2)
    y = f"{mix((mix((row + (k + 1) * 0x9E3779B97F4A7C15) & MASK) + column) & MASK):064b}"
    return int(y[32 * place :][:bits], 2)


# --- the definitions, told a second time
class Naive:
    """One output element by scalar operations; `rounding` holds for all of them."""

    def __init__(
        self,
        fmt,
        rounding,
        accumulator=None,
        product=None,
        outer=None,
        index=0,
        columns=None,
        bits=24,
    ):
        self.fmt, self.rounding, self.bits = fmt, rounding, bits
        self.lines = None if columns is None else line_keys(*divmod(index, columns))
        self.accumulator = accumulator or fmt
        self.product = product
        self.outer = outer or self.accumulator
        self.key = element_key(index)

    def options(self, step):
        if "stochastic" not in self.rounding:
            return {"rounding": self.rounding}
        if isinstance(step, tuple):
            drawn = term_word(*self.lines, *step, self.bits)
        else:
            drawn = word(self.key, step, self.bits)
        return {"rounding": self.rounding, "random": np.array(drawn), "random_bits": self.bits}

    def numbered(self, k, place):
        """The number of the product (place 0) or of the addition (1) of term k."""
        return 8 * k + place if self.lines is None else (k, place)

    def call(self, name, *operands, fmt, step):
        return getattr(sf, name)(*map(np.float64, operands), fmt, **self.options(step))

    def add(self, x, y, step, fmt=None):
        return self.call("add", x, y, fmt=fmt or self.accumulator, step=step)

    def plus(self, s, t, step):
        """s + t, where a pair t stands for an exact product."""
        if isinstance(t, tuple):
            return self.call("fma", *t, s, fmt=self.accumulator, step=step)
        return self.add(s, t, step)

    def terms(self, a, b):
        if self.product is None:
            return list(zip(a, b, strict=True))
        pairs = enumerate(zip(a, b, strict=True))
        return [
            self.call("multiply", x, y, fmt=self.product, step=self.numbered(k, 0))
            for k, (x, y) in pairs
        ]

    def straight(self, numbered, s=0.0):
        for k, t in numbered:
            s = self.plus(s, t, self.numbered(k, 1))
        return s

    def split(self, sums, first=0):
        """The tree over partial sums; `first` is the number of the leftmost."""
        n = len(sums)
        if n == 1:
            return sums[0]
        half = 1
        while 2 * half < n:
            half *= 2
        left, right = self.split(sums[:half], first), self.split(sums[half:], first + half)
        return self.add(left, right, 8 * (first + half) + 2)

    def total(self, t, order, start=None):
        numbered = list(enumerate(t))
        s = 0.0 if start is None else start
        match order:
            case "sequential":
                return self.straight(numbered, s)
            case "blocked":
                for first in range(0, len(t), BLOCK):
                    part = self.straight(numbered[first : first + BLOCK])
                    s = self.add(s, part, 8 * first + 5, self.outer)
                return s
            case "kahan":
                return self.kahan(t, s)
            case "neumaier":
                return self.neumaier(t, s)
            case "pairwise":
                parts = [self.straight([one]) for one in numbered]
            case "lanes":
                parts = [self.straight(numbered[lane::64]) for lane in range(min(64, len(t)))]
        tree = self.split(parts) if parts else 0.0
        return tree if start is None else self.add(start, tree, 6)

    def kahan(self, t, s):
        e = 0.0
        for k, x in enumerate(t):
            y = self.plus(e, x, 8 * k + 1)
            z = self.add(s, y, 8 * k + 2)
            e = self.add(self.add(s, -z, 8 * k + 3), y, 8 * k + 4)
            s = z
        return s

    def neumaier(self, t, s):
        e = 0.0
        for k, x in enumerate(t):
            z = self.plus(s, x, 8 * k + 1)
            size = abs(x[0] * x[1]) if isinstance(x, tuple) else abs(x)
            if not abs(s) < size:
                rest = self.plus(self.add(s, -z, 8 * k + 2), x, 8 * k + 3)
            else:
                rest = self.add(self.plus(-z, x, 8 * k + 2), s, 8 * k + 3)
            e = self.add(e, rest, 8 * k + 4)
            s = z
        return self.add(s, e, 6)

    def result(self, s):
        return sf.quantize(np.float64(s), self.fmt, **self.options(7))


def data(fmt, n, seed=0, special=False):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n) * 2.0 ** rng.integers(-8, 3, n)
    x[rng.random(n) < 0.1] = -0.0
    if special and n > 3:
        x[n // 2] = rng.choice([np.inf, -np.inf, np.nan, 3e38])
    x = np.asarray(sf.quantize(x, fmt), np.float64)
    return np.where(np.isnan(x) & ~np.bool_(special), 0.0, x)


def seeds(rounding):
    return {"seed": SEED, "stream": STREAM} if "stochastic" in rounding else {}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rounding", [str(mode) for mode in sf.Rounding])
@pytest.mark.parametrize("whole", [False, ALL])
def test_sum_is_the_naive_loop(whole, rounding, order):
    block = {"block": BLOCK} if order == "blocked" else {}
    for j, fmt in some(FORMATS, rounding, whole):
        for n in (0, 1, 7, 70) if j == 0 else (3, 14 + j):
            x = data(fmt, n, seed=n + j, special=n == 9 + j and j % 3 == 0)
            naive = Naive(fmt, rounding)
            expected = naive.result(naive.total(list(x), order))
            got = reductions.sum(x, fmt, rounding=rounding, order=order, **block, **seeds(rounding))
            assert_same_bits(got, expected)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "product",
    [None, "binary16"]
    + [pytest.param(name, marks=pytest.mark.sweep) for name in ("float8_e5m2", "binary32")],
)
@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_negative", "stochastic"])
def test_matmul_is_the_naive_loop(rounding, product, order):
    fmt, accumulator, outer = sf.bfloat16, sf.Format(6, 5), sf.Format(8, 12)
    block = {"block": BLOCK, "outer": outer} if order == "blocked" else {"outer": None}
    for n, given in itertools.product((0, 1, 13), (False, True)):
        a, b = data(fmt, 2 * n, 1).reshape(2, n), data(fmt, 3 * n, 2, special=given).reshape(n, 3)
        c = data(accumulator, 6, 4).reshape(2, 3) if given else None
        got = products.matmul(
            a, b, fmt, product=product, accumulator=accumulator, order=order, c=c,
            rounding=rounding, **block, **seeds(rounding),
        )  # fmt: skip
        expected = np.empty((2, 3))
        for index, (i, j) in enumerate(itertools.product(range(2), range(3))):
            naive = Naive(fmt, rounding, accumulator, product, block["outer"], index, 3, 13)
            terms = naive.terms(a[i], b[:, j])
            start = c[i, j] if given else None
            expected[i, j] = naive.result(naive.total(terms, order, start))
        assert_same_bits(got, expected)


@pytest.mark.parametrize("rounding", [str(mode) for mode in sf.Rounding])
@pytest.mark.parametrize("whole", [False, ALL])
def test_mean_norm_prod_and_cumsum_are_naive_loops(whole, rounding):
    for _, fmt in some(FORMATS[:5], rounding, whole, 1):
        x = np.abs(data(fmt, 9, 5)) + float(sf.quantize(0.25, fmt))
        options = {"rounding": rounding, **seeds(rounding)}
        naive = Naive(fmt, rounding, accumulator=sf.binary32, product=sf.binary32)
        wide = {"accumulator": sf.binary32, **options}
        total = naive.total(list(x), "sequential")
        expected = naive.call("divide", total, 9.0, fmt=fmt, step=7)
        assert_same_bits(reductions.mean(x, fmt, **wide), expected)
        square = Naive(fmt, rounding, sf.binary32, sf.binary32, columns=1)
        total = square.total(square.terms(x, x), "sequential")
        assert_same_bits(
            reductions.norm(x, fmt, **wide), naive.call("sqrt", total, fmt=fmt, step=7)
        )
        s, running, factor = 0.0, [], 1.0
        for k, t in enumerate(x):
            s = naive.add(s, t, 8 * k + 1)
            running.append(sf.quantize(s, fmt, **naive.options(8 * k + 7)))
            factor = naive.call("multiply", factor, t, fmt=sf.binary32, step=8 * k + 1)
        assert_same_bits(reductions.cumsum(x, fmt, **wide), np.array(running))
        assert_same_bits(reductions.prod(x, fmt, **wide), naive.result(factor))


@pytest.mark.parametrize("name", ["bfloat16", "binary16", "e6m9", "e4m3", "e8m10"])
@pytest.mark.parametrize("scale", ["ordinary", "small", "large", "specials", "stray"])
def test_vector_sums_are_the_definition(name, scale):
    """float32 input takes the vector kernel where it may, float64 input the definition."""
    fmt = sf.as_format(name)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 41, 134))
    x *= {"small": 8 * fmt.smallest_normal, "large": fmt.max / 8}.get(scale, 1.0)
    x = np.asarray(sf.quantize(x, fmt), np.float32)
    x[:, :, 5] = -0.0
    if scale == "specials":
        x[0, 3, 7], x[1, 4, 9], x[1, 5, 9], x[2, 0, 0] = np.inf, np.inf, -np.inf, np.nan
    if scale == "stray":
        x[2, 40, 133] += x[2, 40, 133] * np.float32(2.0**-14)
    for axis in (0, 1, 2, (0, 2), (1, 2)):
        assert_same_bits(
            reductions.sum(x, fmt, axis), reductions.sum(x.astype(np.float64), fmt, axis)
        )
        assert_same_bits(
            reductions.mean(x, fmt, axis), reductions.mean(x.astype(np.float64), fmt, axis)
        )
    for view in (x[:, ::2, ::-3], x.transpose(2, 0, 1), x[:0], x[:, :, :0]):
        got = reductions.sum(view, fmt, 1)
        assert_same_bits(got, reductions.sum(view.astype(np.float64), fmt, 1))
    for n in (0, 1, 63, 64, 200, 5000):
        flat = x.reshape(-1)[:n]
        for order in ("sequential", "lanes"):
            got = reductions.sum(flat, fmt, order=order)
            assert_same_bits(got, reductions.sum(flat.astype(np.float64), fmt, order=order))


@pytest.mark.parametrize("name", ["bfloat16", "binary16", "e6m9", "e4m3", "e8m10"])
def test_vector_sums_see_numbers_outside_the_format(name):
    """Just above a tie, which float32 cannot tell from the tie; and between two numbers of the grid."""
    fmt = sf.as_format(name)
    above = np.float32(fmt.unit_roundoff * (1 + 2.0**-22))
    x = np.ones((2, 70), np.float32)
    x[1] = above
    assert_same_bits(reductions.sum(x, fmt, 0), np.full(70, 1 + fmt.epsilon))
    assert_same_bits(reductions.sum(x[:, :3], fmt, 0), np.full(3, 1 + fmt.epsilon))
    x[:] = 0
    x[0] = np.float32(1.5 * fmt.smallest_subnormal)
    assert_same_bits(reductions.sum(x, fmt, 0), np.full(70, 2 * fmt.smallest_subnormal))


def test_axes_and_layouts_do_not_matter():
    x = data(sf.bfloat16, 4 * 5 * 6).reshape(4, 5, 6)
    options = {"rounding": "stochastic", "seed": 5}
    for axis in (None, 0, 1, -1, (0, 2), (2, 0), (0, 1, 2), ()):
        got = reductions.sum(x, "bfloat16", axis, **options)
        assert np.shape(got) == np.sum(x, axis=axis).shape
        kept = reductions.sum(x, "bfloat16", axis, True, **options)
        assert kept.shape == np.sum(x, axis=axis, keepdims=True).shape
        assert_same_bits(kept.reshape(np.shape(got)), got)
        for other in (np.asfortranarray(x), x.astype(np.float32), x.astype(">f8"), x[::-1][::-1]):
            assert_same_bits(reductions.sum(other, "bfloat16", axis, **options), got)
    running = reductions.cumsum(x, "bfloat16", 1)
    for i, k in itertools.product(range(4), range(6)):
        assert_same_bits(running[i, :, k], reductions.cumsum(x[i, :, k], "bfloat16"))
    assert reductions.sum(x, "bfloat16", 1).dtype == np.float64
    assert reductions.sum(x.astype(np.float32), "bfloat16", 1).dtype == np.float32


def test_offset_continues_the_numbering_of_elements():
    x = data(sf.bfloat16, 60).reshape(6, 10)
    options = {"rounding": "stochastic", "seed": 5}
    whole = reductions.sum(x, "bfloat16", 1, **options)
    assert_same_bits(reductions.sum(x[2:], "bfloat16", 1, offset=2, **options), whole[2:])


def test_rounding_of_a_stage_can_be_its_own():
    x = np.array([1.0, 2.0**-9])
    up = {"accumulator": "binary32", "result_rounding": "toward_positive"}
    assert reductions.sum(x, "bfloat16", **up) == 1.0078125
    assert reductions.sum(x, "bfloat16", accumulator="binary32") == 1.0
    a = np.array([1 + 2.0**-7])
    low = products.matmul(a, a, "bfloat16", product_rounding="toward_negative")
    high = products.matmul(a, a, "bfloat16", product_rounding="toward_positive")
    assert (low, high) == (1 + 2.0**-6, 1 + 2.0**-6 + 2.0**-7)


def test_thread_count_does_not_matter():
    x = data(sf.bfloat16, 3 * 200_000).reshape(200_000, 3)
    threads = sf.get_num_threads()
    results = []
    try:
        for n in (1, 3):
            sf.set_num_threads(n)
            results.append(reductions.sum(x, "bfloat16", 1, rounding="stochastic", seed=1))
    finally:
        sf.set_num_threads(threads)
    assert_same_bits(*results)


def test_out_is_written_and_returned():
    x = data(sf.bfloat16, 12).reshape(3, 4)
    for out in (np.empty(3, np.float32), np.empty(6)[::2]):
        assert reductions.sum(x, "bfloat16", 1, out=out) is out
        assert_same_bits(out, reductions.sum(x, "bfloat16", 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reductions.sum([1.0], "bfloat16", order="random"), "order must be one of"),
        (lambda: reductions.sum([1.0], "bfloat16", order="blocked"), "needs block="),
        (lambda: reductions.sum([1.0], "bfloat16", block=3), 'goes with order="blocked"'),
        (lambda: reductions.sum([1.0], "bfloat16", outer="binary32"), 'goes with order="blocked"'),
        (lambda: reductions.sum([1.0], "bfloat16", 1), "axis must be in"),
        (lambda: reductions.sum([[1.0]], "bfloat16", (0, 0)), "names an axis twice"),
        (lambda: reductions.sum([1.0], "bfloat16", rounding="stochastic"), "needs seed="),
        (lambda: reductions.prod([1.0], "bfloat16", order="kahan"), "compensates sums"),
        (lambda: products.matmul(np.ones((2, 3)), np.ones((2, 3)), "bfloat16"), "inner sizes"),
        (lambda: products.matmul(1.0, [1.0], "bfloat16"), "one or more dimensions"),
        (
            lambda: products.matmul([1.0], [1.0], "bfloat16", fma=True, product="binary32"),
            "leave product= out",
        ),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the fast loops against the definition
SUM_ORDERS = [
    {"order": "sequential"},
    {"order": "pairwise"},
    {"order": "lanes"},
    {"order": "blocked", "block": 7},
    {"order": "blocked", "block": 64, "outer": "binary32"},
]


@pytest.fixture
def paths(monkeypatch):
    """compare(function, x, fmt, ...): the fast loops and the definition give the same bits; which loops ran."""
    ran = []
    run = sums.Adder._run

    def spy(self, name, form, *rest):
        ran.append((name, form.kind))
        return run(self, name, form, *rest)

    monkeypatch.setattr(sums.Adder, "_run", spy)

    def compare(function, x, fmt, axis=None, **options):
        monkeypatch.setattr(reductions, "_FEW_TERMS", 1 << 60)
        expected = function(x, fmt, axis, **options)
        monkeypatch.setattr(reductions, "_FEW_TERMS", 0)
        before = len(ran)
        got = function(x, fmt, axis, **options)
        assert_same_bits(got, expected)
        return {kind for _, kind in ran[before:]}

    return compare


def scaled(fmt, scale, shape, seed=4):
    """Numbers of a format: ordinary, in its lowest or top binades, with specials; or numbers that are none of its."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if scale == "small":
        x *= 8 * fmt.smallest_normal
    if scale == "large":
        x *= fmt.max / 8
    if scale == "wide":
        return x
    x = np.array(sf.quantize(x, fmt), np.float64)
    flat = x.reshape(-1)
    flat[::7] = -0.0
    if scale == "specials":
        flat[[3, 50, 91]] = np.inf, np.nan, -np.inf
    if scale == "stray":
        flat[-1] = 1 + 2.0**-20
    return x if scale == "float64" else x.astype(fmt.carrier)


@pytest.mark.parametrize("how", SUM_ORDERS, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize(
    ("name", "accumulator"),
    [("bfloat16", None), ("bfloat16", "binary32")]
    + [pytest.param(n, None, marks=pytest.mark.sweep) for n in ("binary16", "e8m14")],
)
def test_fast_sums_are_the_definition(paths, name, accumulator, how):
    fmt = sf.as_format(name)
    options = {**how, "accumulator": accumulator}
    kinds = set()
    for scale in ("ordinary", "small", "large", "specials", "stray", "float64", "wide"):
        x = scaled(fmt, scale, (3, 41, 38))
        for axis in (0, 1, 2, (0, 2), (1, 2), None):
            kinds |= paths(reductions.sum, x, fmt, axis, **options)
    for n in (1, 2, 63, 64, 65, 500, 4097):
        kinds |= paths(reductions.sum, x.reshape(-1)[:n], fmt, **options)
    assert additions.WHOLE in kinds
    assert (additions.NATIVE if accumulator else additions.SHORT) in kinds


@pytest.mark.parametrize("how", SUM_ORDERS[:4], ids=lambda how: how["order"])
def test_the_whole_form_is_the_short_form(paths, monkeypatch, how):
    x = scaled(sf.bfloat16, "ordinary", (40, 130))
    adder = sums.adder(sf.bfloat16, 0, 0, 24, 0, False)
    assert additions.SHORT in paths(reductions.sum, x, sf.bfloat16, 0, **how)
    monkeypatch.setattr(adder, "quick", None)
    monkeypatch.setattr(adder, "lane", np.dtype(np.float64))
    for axis in (0, 1):
        assert paths(reductions.sum, x, sf.bfloat16, axis, **how) == {additions.WHOLE}


@pytest.mark.parametrize(
    ("fmt", "options"),
    [
        ("bfloat16", {"rounding": "toward_negative"}),
        ("bfloat16", {"rounding": "stochastic", "seed": 3, "stream": 1, "offset": 5}),
        ("float8_e4m3fn", {"saturate": "propagate"}),
        (sf.Format(6, 9, subnormals="ftz"), {"rounding": "ties_to_away"}),
        (sf.FixedPoint(6, 5), {"rounding": "stochastic_equal", "seed": 3}),
        ("binary64", {}),
        (sf.p3109(8, 4), {"rounding": "to_odd"}),
    ],
    ids=lambda v: getattr(v, "name", None) or str(v).split("\n")[0],
)
@pytest.mark.parametrize("whole", [False, ALL])
def test_every_mode_and_kind_of_format_has_its_loop(paths, whole, fmt, options):
    fmt = sf.as_format(fmt)
    for scale in ("ordinary", "specials", "wide"):
        if scale == "wide" and not whole:
            continue
        x = scaled(fmt, scale, (23, 40))
        for axis in (0, 1):
            assert paths(reductions.sum, x, fmt, axis, **options)
        if scale == "specials" and (whole or fmt == sf.float8_e4m3fn):
            certain = {"result_rounding": "ties_to_even"}
            assert paths(reductions.cumsum, x, fmt, 0, **options, **certain)
            assert paths(reductions.prod, x, fmt, 0, **options)
            paths(reductions.norm, x, fmt, 0, **options)
            assert paths(reductions.mean, x, fmt, 0, accumulator="binary32", **options)


@pytest.fixture
def one_thread():
    threads = sf.get_num_threads()
    sf.set_num_threads(1)
    yield
    sf.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "outer"),
    [
        ("bfloat16", None),
        ("bfloat16", "binary32"),
        pytest.param("binary16", "e8m10", marks=pytest.mark.sweep),
        pytest.param("binary32", "bfloat16", marks=pytest.mark.sweep),
    ],
)
def test_blocks_and_their_sums_are_formed_together(paths, monkeypatch, one_thread, name, outer):
    """Of whole squares and not, in groups that overlap, more than all terms, in rows that begin at cache lines."""
    fmt, together = sf.as_format(name), []
    add_blocks = sums.Adder.add_blocks
    spy = lambda *arguments: together.append(add_blocks(*arguments)) or together[-1]  # noqa: E731
    monkeypatch.setattr(sums.Adder, "add_blocks", spy)
    for scale in ("ordinary", "small", "large", "specials", "stray"):
        x = scaled(fmt, scale, 70 * 300 + 11)
        together.clear()
        if scale == "stray":
            x[80] = 1 + 2.0**-20
        for block in (16, 64, 112):
            for y in (x, x[: 40 * block], x[3 : 35 * block], x[: 5 * block + 1]):
                how = {"order": "blocked", "block": block, "outer": outer}
                paths(reductions.sum, y, fmt, **how)
        if scale in ("specials", "stray"):
            assert not all(together)
        else:
            assert any(together)
    x = scaled(fmt, "ordinary", 36 * 1040 + 9)
    for block, first in itertools.product((7, 1024, 1040, 1030, 50_000), (0, 5)):
        paths(reductions.sum, x[first:], fmt, order="blocked", block=block, outer=outer)
    monkeypatch.setattr(sums, "PIECE", 64 * 33)
    assert paths(reductions.sum, x, fmt, order="blocked", block=64, outer=outer)


@pytest.mark.parametrize(
    ("name", "rounding"),
    [
        ("bfloat16", "toward_positive"),
        ("bfloat16", "toward_negative"),
        pytest.param("binary16", "toward_zero", marks=pytest.mark.sweep),
        pytest.param("binary16", "ties_to_away", marks=pytest.mark.sweep),
        ("bfloat16", "ties_to_away"),
        pytest.param("bfloat16", "toward_zero", marks=pytest.mark.sweep),
        pytest.param("binary32", "toward_zero", marks=pytest.mark.sweep),
    ],
)
def test_sums_in_a_direction_are_the_definition(paths, name, rounding):
    fmt, kinds = sf.as_format(name), set()
    for scale in ("ordinary", "small", "large", "specials", "stray"):
        x = scaled(fmt, scale, (41, 38))
        for axis in (0, 1):
            kinds |= paths(reductions.sum, x, fmt, axis, rounding=rounding)
        if scale == "ordinary" and rounding != "toward_positive":
            for how in SUM_ORDERS[1:4]:
                kinds |= paths(reductions.sum, x, fmt, rounding=rounding, **how)
    assert {additions.STEPPED, additions.WHOLE} <= kinds
    zeros = np.array([[1, -0.0, 0.0], [-1, 0.0, -0.0]], np.float32)
    paths(reductions.sum, zeros, fmt, 0, rounding=rounding)


def test_a_direction_that_no_short_step_keeps_takes_the_whole_form(paths):
    """Upward in binary16, a sum may overflow by roundings alone."""
    x = scaled(sf.binary16, "ordinary", (41, 38))
    assert paths(reductions.sum, x, sf.binary16, 0, rounding="toward_positive") == {additions.WHOLE}


@pytest.mark.parametrize("order", ["kahan", "neumaier"])
@pytest.mark.parametrize(
    ("name", "rounding"),
    [
        ("bfloat16", "ties_to_even"),
        pytest.param("binary16", "ties_to_even", marks=pytest.mark.sweep),
        pytest.param("binary32", "ties_to_even", marks=pytest.mark.sweep),
        pytest.param("binary64", "ties_to_even", marks=pytest.mark.sweep),
        pytest.param("e8m14", "ties_to_even", marks=pytest.mark.sweep),
        pytest.param("bfloat16", "toward_negative", marks=pytest.mark.sweep),
    ],
)
def test_compensated_sums_have_fast_loops(paths, name, rounding, order):
    fmt, kinds = sf.as_format(name), set()
    how = {"order": order, "rounding": rounding}
    for scale in ("ordinary", "small", "large", "specials", "stray"):
        x = scaled(fmt, scale, (141, 70))
        for axis in (0, 1, None):
            kinds |= paths(reductions.sum, x, fmt, axis, **how)
    # The sum is at the top, its neighbour far below: nothing but what came before can tell.
    x = np.zeros((3, 70), fmt.carrier)
    x[:2] = [[fmt.max], [-fmt.max]]
    x[2] = 1
    kinds |= paths(reductions.sum, x, fmt, 0, **how)
    assert kinds - {additions.WHOLE}


def test_products_have_fast_loops(paths):
    x = scaled(sf.bfloat16, "ordinary", (23, 40)) + np.float32(1)
    assert paths(reductions.prod, x, "bfloat16", 0) == {additions.WHOLE}
    assert paths(reductions.prod, x, "bfloat16", 0, accumulator="binary32") == {additions.NATIVE}


def test_layouts_take_the_fast_loops_too(paths):
    x = scaled(sf.bfloat16, "ordinary", (6, 70, 90))
    views = [x.T, x[:, ::2], x[::-1, :, ::3], np.asfortranarray(x), x.transpose(1, 0, 2), x.copy()]
    views[-1].flags.writeable = False
    views.append(np.broadcast_to(x[0], (3, 70, 90)))
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    for view in (*views, unaligned, x[:1], x[:, :1], x[:, :, :1]):
        for axis in (0, 1, 2, (0, 2), (0, 1), None):
            assert paths(reductions.sum, view, "bfloat16", axis)


def test_long_sums_are_cut_into_pieces_without_a_trace(paths, monkeypatch):
    """Pieces of the fast loops, and of the definition, carry their state; the tree is cut at whole subtrees."""
    x = scaled(sf.bfloat16, "ordinary", 3000)
    x[1700] = np.inf
    whole = [reductions.sum(x, "bfloat16", **how) for how in SUM_ORDERS]
    compensated = [reductions.sum(x, "bfloat16", order=order) for order in ORDERS[4:]]
    running = reductions.cumsum(x, "bfloat16")
    for module in (sums, orders):
        monkeypatch.setattr(module, "PIECE", 256)
    monkeypatch.setattr(reductions, "_TERMS_AT_ONCE", 100)
    for how, expected in zip(SUM_ORDERS, whole, strict=True):
        paths(reductions.sum, x, "bfloat16", **how)
        assert_same_bits(reductions.sum(x, "bfloat16", **how), expected)
    for order, expected in zip(ORDERS[4:], compensated, strict=True):
        assert_same_bits(reductions.sum(x, "bfloat16", order=order), expected)
    paths(reductions.cumsum, x, "bfloat16")
    assert_same_bits(reductions.cumsum(x, "bfloat16"), running)


def test_thread_count_does_not_matter_to_the_fast_loops():
    x = scaled(sf.bfloat16, "ordinary", (1030, 700))
    threads = sf.get_num_threads()
    results = []
    try:
        for n in (1, 3):
            sf.set_num_threads(n)
            found = [reductions.sum(x, "bfloat16", axis) for axis in (0, 1, None)]
            found += [reductions.sum(x.reshape(-1), "bfloat16", **how) for how in SUM_ORDERS]
            results.append(np.concatenate([np.atleast_1d(f) for f in found]))
    finally:
        sf.set_num_threads(threads)
    assert_same_bits(*results)


def test_one_long_sum_can_be_interrupted(monkeypatch):
    """Ctrl-C between two pieces of the definition."""
    monkeypatch.setattr(reductions, "_TERMS_AT_ONCE", 1 << 16)
    x = np.ones(1 << 24, np.float16)  # two seconds by the definition, were it not stopped
    x = np.broadcast_to(x[:1].astype(np.float32), x.shape)
    monkeypatch.setattr(reductions, "_bits", lambda value: np.ones(1 << 24).view(np.int64))
    words = {"order": "kahan", "rounding": "stochastic", "seed": 1}
    reductions.sum(x[:4], "bfloat16", **words)
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        reductions.sum(x, "bfloat16", **words)
    timer.join()


# --- status: every operation counts
def counted(call):
    with sf.status() as s:
        call()
    return [s.inexact, s.underflow, s.overflow, s.invalid, s.divide_by_zero]


@pytest.mark.parametrize("order", ORDERS)
def test_status_counts_every_operation(order):
    block = {"block": BLOCK} if order == "blocked" else {}
    for fmt, special in ((sf.bfloat16, False), (sf.binary16, True), (sf.float8_e4m3fn, False)):
        x = data(sf.binary32, 70, special=special) * fmt.max / 16
        naive = Naive(fmt, "ties_to_even")
        expected = counted(lambda: naive.result(naive.total(list(x), order)))  # noqa: B023
        got = counted(lambda: reductions.sum(x, fmt, order=order, **block))  # noqa: B023
        assert got == expected
        assert expected[0] > 0


def test_status_counts_means_norms_products_and_running_sums():
    x = data(sf.binary32, 40)
    naive = Naive(sf.bfloat16, "ties_to_even", product=sf.bfloat16)
    total = lambda: naive.total(list(x), "sequential")  # noqa: E731
    expected = counted(lambda: naive.call("divide", total(), 40.0, fmt="bfloat16", step=7))
    assert counted(lambda: reductions.mean(x, "bfloat16")) == expected
    squares = lambda: naive.total(naive.terms(x, x), "sequential")  # noqa: E731
    expected = counted(lambda: naive.call("sqrt", squares(), fmt="bfloat16", step=7))
    assert counted(lambda: reductions.norm(x, "bfloat16")) == expected
    expected = counted(lambda: naive.result(squares()))
    assert counted(lambda: products.dot(x, x, "bfloat16")) == expected
    twice = [2 * n for n in expected]
    assert counted(lambda: products.matmul(np.stack((x, x)), x, "bfloat16")) == twice
    expected = counted(lambda: naive.result(total()))
    assert counted(lambda: reductions.cumsum(x, "bfloat16")) == expected
    assert counted(lambda: reductions.prod([3.0, 1 / 3, 1e38, 1e38], "bfloat16")) == [3, 0, 1, 0, 0]


def test_status_takes_the_definition_and_changes_no_result():
    x = scaled(sf.bfloat16, "ordinary", (80, 90))
    with sf.status() as s:
        got = reductions.sum(x, "bfloat16", 0)
    assert_same_bits(got, reductions.sum(x, "bfloat16", 0))
    assert s.inexact > 0 and s.overflow == 0


def test_given_random_words_and_inexact_operands_are_refused():
    with pytest.raises(ValueError, match="many roundings"):
        reductions.sum([1.0], "bfloat16", rounding="stochastic", random=[0])
    for x in ([2**70 + 1], ["0.1"]):
        with pytest.raises(TypeError, match=r"round them first"):
            reductions.sum(x, "bfloat16")


# --- formats in which an operation can be without a result
WRAPPING = sf.FixedPoint(3, 4, overflow="wrap")
UNSIGNED = sf.Format(4, 3, specials="finite", signed=False)
FIXED = [
    WRAPPING,
    sf.FixedPoint(3, 4),
    sf.FixedPoint(4, 3, signed=False),
    sf.FixedPoint(4, 3, signed=False, overflow="wrap"),
    sf.FixedPoint(30, 20, overflow="wrap"),
    sf.FixedPoint(2, 3, symmetric=True),
    UNSIGNED,
    sf.float8_e8m0fnu,
]


def tried(call):
    """What a call gives, or None where it raises because something has no result."""
    try:
        return call()
    except ValueError as error:
        assert "neither a sign nor a NaN" in str(error) or "cannot wrap around" in str(error)
        return None


def special_rows():
    """Terms of sums: within the range, beyond it, and with what a format may lack a result for."""
    rng = np.random.default_rng(8)
    rows = np.round(rng.standard_normal((8, 9)) * 40) / 8
    rows[1] = abs(rows[1])
    rows[2, 4], rows[3, 0], rows[4, 8], rows[5, 5] = np.nan, np.inf, -np.inf, 1e300
    rows[6, 2:4] = 2.0**70 + 2.0**18, -1.0
    rows[7] = np.abs(rows[7]) * 2.0**60
    return rows


@pytest.mark.parametrize("fmt", FIXED, ids=lambda fmt: fmt.label)
@pytest.mark.parametrize("order", ORDERS)
def test_sums_and_products_raise_where_the_naive_loop_does(fmt, order):
    """And let a NaN through where it does; whichever stage has the format."""
    block, raised = {"block": BLOCK} if order == "blocked" else {}, 0
    for x, rounding in itertools.product(special_rows(), ("ties_to_even", "toward_negative")):
        how = {"order": order, "rounding": rounding}
        for accumulator, result in ((fmt, fmt), (fmt, sf.binary64), (sf.binary64, fmt)):
            naive = Naive(result, rounding, accumulator, accumulator)
            common = {"accumulator": accumulator, **how, **block}
            expected = tried(lambda: naive.result(naive.total(list(x), order)))  # noqa: B023
            got = tried(lambda: reductions.sum(x, result, **common))  # noqa: B023
            y = np.roll(x, 1) / 4
            pairs = tried(lambda: naive.result(naive.total(naive.terms(x, y), order)))  # noqa: B023
            product = tried(lambda: products.matmul(x, y, result, **common))  # noqa: B023
            for one, other in ((got, expected), (product, pairs)):
                assert (one is None) == (other is None)
                raised += one is None
                if one is not None:
                    assert_same_bits(one, other)
    assert raised > 0 or not (fmt is UNSIGNED or getattr(fmt, "overflow", "") == "wrap")


@pytest.mark.parametrize("fmt", FIXED, ids=lambda fmt: fmt.label)
def test_other_reductions_raise_where_the_naive_loop_does(fmt):
    for x in special_rows():
        naive = Naive(fmt, "ties_to_even", product=fmt)

        def running(x=x, naive=naive):
            sums = itertools.accumulate(x, lambda s, t: naive.add(s, t, 0), initial=0.0)
            return np.array([naive.result(s) for s in sums][1:])

        def factors(x=x, naive=naive):
            s = 1.0
            for t in x:
                s = naive.call("multiply", s, t, fmt=fmt, step=0)
            return s

        def total(terms, naive=naive):
            return naive.total(list(terms), "sequential")

        cases = [
            (reductions.cumsum, running),
            (reductions.prod, factors),
            (reductions.mean, lambda x=x: sf.divide(total(x), 9.0, fmt)),
            (reductions.norm, lambda x=x, n=naive: sf.sqrt(total(n.terms(x, x)), fmt)),
        ]
        for function, definition in cases:
            expected, got = tried(definition), tried(lambda f=function, x=x: f(x, fmt))
            assert (got is None) == (expected is None)
            if got is not None:
                assert_same_bits(got, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: reductions.sum(x, UNSIGNED, 1), r"the accumulator of element 2 is negative"),
        (
            lambda x: reductions.sum(x, UNSIGNED, 1, True, accumulator="binary32"),
            r"^element \(2, 0\) is negative or NaN, and e4m3 finite unsigned has neither",
        ),
        (lambda x: reductions.cumsum(x, UNSIGNED, 1), r"the accumulator of element \(2, 1\)"),
        (
            lambda x: reductions.cumsum(x, UNSIGNED, 1, accumulator="binary32"),
            r"^element \(2, 1\) is",
        ),
        (
            lambda x: reductions.norm(np.where(x < 0, np.inf, x), "binary32", 1, product=WRAPPING),
            r"a product of element 2 cannot wrap around the range of Q3.4 wrap",
        ),
        (
            lambda x: reductions.sum(x, "binary32", 1, order="blocked", block=2, outer=UNSIGNED),
            r"the sum of the blocks of element 2 is negative",
        ),
        (
            lambda x: products.matmul(
                x, np.ones(3), "bfloat16", order="blocked", block=2, outer=UNSIGNED
            ),
            r"the sum of the blocks of element 2 is negative",
        ),
        (
            lambda x: products.matmul(x, np.ones(3), UNSIGNED, engine=sf.engines.a100_fp16),
            r"^element 2 is negative",
        ),
    ],
)
@pytest.mark.parametrize("few", [0, 1 << 12])
def test_the_element_without_a_result_is_named(monkeypatch, few, call, message):
    monkeypatch.setattr(reductions, "_FEW_TERMS", few)
    monkeypatch.setattr(reductions, "_FEW_RESULTS", few)
    x = np.array([[1.0, 2, 3], [4, 5, 6], [0.5, -7, 1]])
    with pytest.raises(ValueError, match=message):
        call(x)


def test_a_result_in_fixed_point_has_fast_products_and_sums(paths):
    """Equal to the definition, which a status block takes."""
    fixed, rng = sf.FixedPoint(6, 5), np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((40, 60), (60, 30)))
    a[3, 7] = np.nan
    assert paths(reductions.mean, a, fixed, 1, accumulator="bfloat16")
    for how in ({}, {"order": "blocked", "block": 16}, {"c": np.ones(30)}):
        got = products.matmul(a, b, fixed, accumulator="bfloat16", **how)
        with sf.status():
            assert_same_bits(got, products.matmul(a, b, fixed, accumulator="bfloat16", **how))
