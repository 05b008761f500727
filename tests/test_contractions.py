"""Contractions and convolutions equal loops over their terms, bit for bit, and NumPy's where all is exact."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import scipy.signal
from helpers import assert_same_bits

import softfloat as sf
from softfloat import contractions

FORMATS = {
    "bfloat16": sf.bfloat16,
    "binary16": sf.binary16,
    "e4m3fn": sf.float8_e4m3fn,
    "e5m2fnuz": sf.float8_e5m2fnuz,
    "binary32": sf.binary32,
    "binary64": sf.binary64,
    "e6m9_ftz": sf.Format(6, 9, subnormals="ftz"),
    "p3109": sf.p3109(8, 4),
}
DETERMINISTIC = [str(mode) for mode in sf.Rounding if "stochastic" not in str(mode)]
STOCHASTIC = {"rounding": "stochastic", "seed": 5, "stream": 9}
BLOCK = 4


# --- the definitions, told a second time
def fold(
    a, b, start, fmt, *, rounding="ties_to_even", product="same", accumulator=None, order=None
):
    """For each column, the sum of the products of the rows of a and b, by elementwise operations in float64."""
    how = {"rounding": rounding}
    accumulator = accumulator or fmt
    product = accumulator if product == "same" else product

    def plus(s, k):
        if product is None:
            return sf.fma(a[k], b[k], s, accumulator, **how)
        return sf.add(s, sf.multiply(a[k], b[k], product, **how), accumulator, **how)

    def straight(s, rows):
        for k in rows:
            s = plus(s, k)
        return s

    def tree(rows):
        if len(rows) == 1:
            return plus(zero, rows[0])
        half = 1 << (len(rows) - 1).bit_length() - 1
        return sf.add(tree(rows[:half]), tree(rows[half:]), accumulator, **how)

    zero, rows = np.zeros(a.shape[1]), range(len(a))
    if order == "pairwise":
        s = tree(rows) if len(a) else zero
        s = s if start is None else sf.add(start, s, accumulator, **how)
    elif order == "blocked":
        s = zero if start is None else start
        for first in range(0, len(a), BLOCK):
            part = straight(zero, rows[first : first + BLOCK])
            s = sf.add(s, part, accumulator, **how)
    else:
        s = straight(zero if start is None else start, rows)
    return sf.quantize(np.asarray(s, np.float64), fmt, **how)


def result_of(terms, shape, start, fmt, options):
    """All elements; terms : for each, in C order, the list of the pairs of factors."""
    result = np.empty(len(terms))
    start = None if start is None else np.broadcast_to(start, shape).astype(float).reshape(-1)
    for length in {len(t) for t in terms}:
        here = [i for i, t in enumerate(terms) if len(t) == length]
        pairs = np.array([terms[i] for i in here], float).reshape(len(here), length, 2)
        begin = None if start is None else start[here]
        result[here] = fold(pairs[..., 0].T, pairs[..., 1].T, begin, fmt, **options)
    return result.reshape(shape)


def tuples(geometry):
    return [geometry[name] for name in ("stride", "padding", "dilation")]


def place_seen(y, tap, geometry):
    """The input place that output place y sees through a tap of the kernel."""
    return tuple(o * s + t * d - p for o, t, s, p, d in zip(y, tap, *tuples(geometry), strict=True))


def output_size(size, kernel, geometry):
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, *tuples(geometry), strict=True)
    )


def everywhere(shape):
    return itertools.product(*map(range, shape))


def inside(place, size):
    return all(0 <= i < n for i, n in zip(place, size, strict=True))


def value(x, lead, place):
    return float(x[(*lead, *place)]) if inside(place, x.shape[2:]) else 0.0


def forward_terms(x, w, geometry):
    share, own = w.shape[1], w.shape[0] // geometry["groups"]
    places = output_size(x.shape[2:], w.shape[2:], geometry)
    terms = []
    for n, o, *y in everywhere((len(x), len(w), *places)):
        first = o // own * share
        terms.append(
            [
                (value(x, (n, first + c), place_seen(y, tap, geometry)), float(w[(o, c, *tap)]))
                for c, *tap in everywhere(w.shape[1:])
            ]
        )
    return terms, (len(x), len(w), *places)


def source(place, tap, geometry):
    """The output place that sees an input place through a tap, or None where the stride has none."""
    found = []
    for i, t, s, p, d in zip(place, tap, *tuples(geometry), strict=True):
        if (i + p - t * d) % s:
            return None
        found.append((i + p - t * d) // s)
    return tuple(found)


def input_terms(gradient, w, shape, geometry):
    share, own = w.shape[1], w.shape[0] // geometry["groups"]
    terms = []
    for n, c, *place in everywhere(shape):
        first = c // share * own
        mine = []
        for o, *tap in everywhere((own, *w.shape[2:])):
            y = source(place, tap, geometry)
            if y is not None:
                weight = float(w[(first + o, c % share, *tap)])
                mine.append((value(gradient, (n, first + o), y), weight))
        terms.append(mine)
    return terms


def weight_terms(x, gradient, shape, geometry):
    share, own = shape[1], shape[0] // geometry["groups"]
    terms = []
    for o, c, *tap in everywhere(shape):
        channel = o // own * share + c
        terms.append(
            [
                (
                    value(x, (n, channel), place_seen(y, tap, geometry)),
                    float(gradient[(n, o, *y)]),
                )
                for n, *y in everywhere((len(x), *gradient.shape[2:]))
            ]
        )
    return terms


# --- data
def geometry(dims, stride=1, padding=0, dilation=1, groups=1):
    each = lambda v: v if isinstance(v, tuple) else (v,) * dims  # noqa: E731
    return {
        "stride": each(stride),
        "padding": each(padding),
        "dilation": each(dilation),
        "groups": groups,
    }


CASES = {
    "plain": ((2, 3, 4, 5), (4, 3, 2, 3), geometry(2)),
    "padded": ((2, 2, 3, 3), (3, 2, 3, 3), geometry(2, padding=(1, 2))),
    "strided": ((1, 2, 6, 7), (2, 2, 3, 2), geometry(2, stride=(2, 3), padding=1)),
    "dilated": ((1, 2, 6, 7), (2, 2, 3, 2), geometry(2, dilation=(2, 3), padding=(2, 0))),
    "stride and dilation": ((1, 1, 9, 8), (2, 1, 3, 3), geometry(2, 4, 2, (2, 3))),
    "grouped": ((2, 4, 4, 3), (6, 2, 2, 2), geometry(2, padding=1, groups=2)),
    "depthwise": ((1, 3, 4, 4), (3, 1, 3, 3), geometry(2, padding=1, groups=3)),
    "one place": ((3, 5, 1, 1), (2, 5, 1, 1), geometry(2)),
    "stride beyond the kernel": ((1, 2, 7, 5), (2, 2, 1, 2), geometry(2, stride=3)),
    "padding beyond the kernel": ((1, 1, 2, 2), (1, 1, 2, 2), geometry(2, padding=3)),
    "line": ((2, 3, 9), (4, 3, 3), geometry(1, padding=1)),
    "strided line": ((2, 2, 11), (2, 1, 3), geometry(1, 2, 1, 2, 2)),
    "no image": ((0, 2, 3, 3), (2, 2, 2, 2), geometry(2)),
    "no input channel": ((2, 0, 3, 3), (2, 0, 2, 2), geometry(2)),
    "no output channel": ((2, 2, 3), (0, 2, 2), geometry(1)),
    "only padding": ((1, 2, 0, 3), (2, 2, 2, 2), geometry(2, padding=1)),
}


def data(fmt, shape, seed=0, kind="ordinary"):
    """Values of a format, some of them zeros; of a kind that brings out trouble."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 2, shape)
    if kind == "small":
        x *= fmt.smallest_normal**0.5
    if kind == "large":
        x *= fmt.max**0.5
    x = np.where(rng.random(shape) < 0.1, -0.0, x)
    x = np.asarray(sf.quantize(x, fmt, saturate=True), np.float64)
    if kind == "specials" and x.size and fmt.has_nan:
        x.reshape(-1)[rng.integers(0, x.size)] = np.nan
        x.reshape(-1)[rng.integers(0, x.size)] = rng.choice([np.inf, -np.inf])
    return x


def operands(case, fmt, kind="ordinary"):
    """x, w, the gradient of the output, and the geometry."""
    shape, weights, geo = CASES[case]
    size = output_size(shape[2:], weights[2:], geo)
    gradient = data(fmt, (shape[0], weights[0], *size), 3, kind)
    return data(fmt, shape, 1, kind), data(fmt, weights, 2, kind), gradient, geo


def functions(dims):
    return [
        getattr(sf, f"conv{dims}d{part}") for part in ("", "_input_gradient", "_weight_gradient")
    ]


def check_all(case, fmt, kind="ordinary", start=None, **options):
    """A convolution and both gradients against their definitions."""
    x, w, gradient, geo = operands(case, fmt, kind)
    forward, to_input, to_weights = functions(x.ndim - 2)
    block = {"block": BLOCK} if options.get("order") == "blocked" else {}
    given = {**geo, **options, **block, "c": start}
    terms, shape = forward_terms(x, w, geo)
    assert_same_bits(forward(x, w, fmt, **given), result_of(terms, shape, start, fmt, options))
    terms = input_terms(gradient, w, x.shape, geo)
    got = to_input(gradient, w, x.shape, fmt, **given)
    assert_same_bits(got, result_of(terms, x.shape, start, fmt, options))
    terms = weight_terms(x, gradient, w.shape, geo)
    got = to_weights(x, gradient, w.shape, fmt, **given)
    assert_same_bits(got, result_of(terms, w.shape, start, fmt, options))


# --- convolutions
@pytest.mark.parametrize("case", CASES)
def test_convolutions_and_gradients_are_the_naive_loops(case):
    for kind in ("ordinary", "specials"):
        check_all(case, sf.bfloat16, kind)
    check_all(case, sf.float8_e4m3fn, rounding="toward_negative")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *itertools.product(FORMATS, ("ordinary", "small", "large", "specials")),
        ("fixed", "ordinary"),
    ],
)
def test_every_format_and_range_is_the_naive_loop(name, kind):
    fmt = FORMATS.get(name, sf.FixedPoint(6, 5))
    check_all("strided", fmt, kind)
    check_all("grouped", fmt, kind)


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize("order", ["sequential", "pairwise", "blocked"])
def test_orders_modes_and_formats_of_the_steps_reach_every_sum(order, rounding):
    for product in ("same", None, sf.float8_e5m2):
        options = {"order": order, "rounding": rounding, "accumulator": sf.Format(6, 5)}
        options |= {} if product == "same" else {"product": product}
        check_all("padded", sf.bfloat16, start=np.float64(0.375), **options)


@pytest.mark.parametrize("case", ["padded", "strided", "grouped", "no input channel"])
def test_an_initial_accumulator_is_broadcast(case):
    check_all(case, sf.bfloat16, start=1.5)
    x, w, _, geo = operands(case, sf.bfloat16)
    bias = data(sf.bfloat16, (len(w), 1, 1), 7)
    terms, shape = forward_terms(x, w, geo)
    got = sf.conv2d(x, w, sf.bfloat16, c=bias, **geo)
    assert_same_bits(got, result_of(terms, shape, bias, sf.bfloat16, {}))


def windows_matrix(x, kernel, places, group, share, geo):
    """(share * taps, n * places): what the windows of a group see, by loops."""
    return np.array(
        [
            [
                value(x, (n, group * share + c), place_seen(y, tap, geo))
                for n, *y in everywhere((len(x), *places))
            ]
            for c, *tap in everywhere((share, *kernel))
        ]
    )


@pytest.mark.parametrize("case", ["plain", "strided", "grouped", "strided line"])
def test_stochastic_words_are_those_of_the_stated_products(case):
    x, w, gradient, geo = operands(case, sf.bfloat16)
    dims, groups = x.ndim - 2, geo["groups"]
    share, own = w.shape[1], len(w) // groups
    forward, to_input, to_weights = functions(dims)
    places = gradient.shape[2:]
    seen = [windows_matrix(x, w.shape[2:], places, g, share, geo) for g in range(groups)]
    product = sf.matmul(w.reshape(groups, own, -1), np.stack(seen), sf.bfloat16, **STOCHASTIC)
    expected = np.moveaxis(product.reshape(len(w), len(x), *places), 1, 0)
    assert_same_bits(forward(x, w, sf.bfloat16, **geo, **STOCHASTIC), expected)

    turned = np.moveaxis(gradient, 1, 0).reshape(groups, own, -1)
    product = sf.matmul(np.stack(seen), np.swapaxes(turned, 1, 2), sf.bfloat16, **STOCHASTIC)
    expected = np.swapaxes(product, 1, 2).reshape(w.shape)
    got = to_weights(x, gradient, w.shape, sf.bfloat16, **geo, **STOCHASTIC)
    assert_same_bits(got, expected)

    expected = np.empty(x.shape)
    terms = np.empty(x.shape, object)
    flat = input_terms(gradient, w, x.shape, geo)
    for where, mine in zip(everywhere(x.shape), flat, strict=True):
        terms[where] = mine
    for number, residue in enumerate(everywhere(geo["stride"])):
        phase = tuple(slice(r, None, s) for r, s in zip(residue, geo["stride"], strict=True))
        part = terms[(..., *phase)]
        left, right = [], []
        for g in range(groups):
            mine = np.moveaxis(part[:, g * share : (g + 1) * share], 1, 0).reshape(share, -1)
            left.append([[b for _, b in row[0]] for row in mine])
            right.append(np.array([[a for a, _ in t] for t in mine[0]]).T)
        how = {**STOCHASTIC, "stream": STOCHASTIC["stream"] + number}
        left, right = np.array(left).reshape(groups, share, -1), np.stack(right)
        product = sf.matmul(left, right, sf.bfloat16, **how)
        shape = (x.shape[1], len(x), *part.shape[2:])
        expected[(..., *phase)] = np.moveaxis(product.reshape(shape), 1, 0)
    got = to_input(gradient, w, x.shape, sf.bfloat16, **geo, **STOCHASTIC)
    assert_same_bits(got, expected)


@pytest.mark.parametrize("case", ["padded", "strided", "grouped", "strided line"])
@pytest.mark.parametrize(
    "options", [{}, {"order": "pairwise"}, STOCHASTIC], ids=["plain", "pairwise", "stochastic"]
)
def test_memory_bounds_do_not_matter(case, options, monkeypatch):
    x, w, gradient, geo = operands(case, sf.bfloat16)
    forward, to_input, to_weights = functions(x.ndim - 2)
    bias = np.float32(0.75)
    calls = [
        lambda: forward(x, w, sf.bfloat16, c=bias, **geo, **options),
        lambda: to_input(gradient, w, x.shape, sf.bfloat16, c=bias, **geo, **options),
        lambda: to_weights(x, gradient, w.shape, sf.bfloat16, c=bias, **geo, **options),
    ]
    whole = [call() for call in calls]
    monkeypatch.setattr(contractions, "SHARE", 0)
    for at_once in (1, 50, 200):
        monkeypatch.setattr(contractions, "AT_ONCE", at_once)
        for call, expected in zip(calls, whole, strict=True):
            assert_same_bits(call(), expected)


def test_work_is_split_only_where_it_may_be(monkeypatch):
    """So that the test above tests something."""
    shapes = []
    true = contractions.rearranged
    watch = lambda a, b, fmt, **more: (shapes.append(b.shape), true(a, b, fmt, **more))[1]  # noqa: E731
    monkeypatch.setattr(contractions, "rearranged", watch)
    monkeypatch.setattr(contractions, "SHARE", 0)
    monkeypatch.setattr(contractions, "AT_ONCE", 100)
    x, w, _, geo = operands("padded", sf.bfloat16)
    sf.conv2d(x, w, sf.bfloat16, **geo)
    assert len(shapes) > 3
    assert max(math.prod(shape) for shape in shapes) <= 100
    for name in ("rounding", "product_rounding", "result_rounding"):
        shapes.clear()
        sf.conv2d(x, w, sf.bfloat16, **geo, **{name: "stochastic", "seed": 1})
        assert len(shapes) == 1


def test_exact_convolutions_are_those_of_scipy():
    rng = np.random.default_rng(4)
    x, w = rng.integers(-3, 4, (2, 3, 9, 8)), rng.integers(-3, 4, (4, 3, 3, 2))
    expected = [
        [sum(scipy.signal.correlate(c, k, "valid") for c, k in zip(i, o, strict=True)) for o in w]
        for i in x
    ]
    assert_same_bits(sf.conv2d(x, w, sf.binary32), np.array(expected))
    got = sf.conv1d(x[:, :1, 0], w[:, :1, :, 0], sf.binary32, padding="same")
    same = [[np.correlate(c, o, "same") for o in w[:, 0, :, 0]] for c in x[:, 0, 0]]
    assert_same_bits(got, np.array(same))


@pytest.mark.parametrize("seed", range(60))
def test_gradients_are_the_adjoint_maps(seed):
    """<conv(x, w), g> = <x, input gradient> = <w, weight gradient>, exactly, for integers of any geometry."""
    rng = np.random.default_rng(seed)
    dims = int(rng.integers(1, 3))
    groups, share, own = (int(i) for i in rng.integers(1, 4, 3))
    kernel, dilation, stride = (rng.integers(1, 4, dims) for _ in range(3))
    padding = rng.integers(0, 4, dims)
    room = np.maximum(dilation * (kernel - 1) + 1 - 2 * padding, 1)
    size = room + rng.integers(0, 6, dims)
    names = ("stride", "padding", "dilation")
    geo = dict(zip(names, (tuple(v.tolist()) for v in (stride, padding, dilation)), strict=True))
    draw = lambda *shape: rng.integers(-3, 4, shape)  # noqa: E731
    x = draw(int(rng.integers(1, 4)), groups * share, *size)
    w = draw(groups * own, share, *kernel)
    forward, to_input, to_weights = functions(dims)
    y = forward(x, w, sf.binary32, groups=groups, **geo)
    assert y.shape[2:] == output_size(x.shape[2:], w.shape[2:], geo)
    g = draw(*y.shape)
    dx = to_input(g, w, x.shape, sf.binary32, groups=groups, **geo)
    dw = to_weights(x, g, w.shape, sf.binary32, groups=groups, **geo)
    total = (y * g).sum()
    assert total == (x * dx).sum() == (w * dw).sum()


def test_padding_names():
    x, w, _, _ = operands("plain", sf.bfloat16)
    assert_same_bits(
        sf.conv2d(x, w, "bfloat16", padding="valid"), sf.conv2d(x, w, "bfloat16", padding=0)
    )
    wide = np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 2)))
    w = data(sf.bfloat16, (4, 3, 4, 3))
    same = sf.conv2d(x, w, "bfloat16", padding="same", dilation=(1, 2))
    assert same.shape[2:] == x.shape[2:]
    assert_same_bits(same, sf.conv2d(wide, w, "bfloat16", dilation=(1, 2)))
    got = sf.conv2d_input_gradient(same, w, x.shape, "bfloat16", padding="same", dilation=(1, 2))
    whole = sf.conv2d_input_gradient(same, w, wide.shape, "bfloat16", dilation=(1, 2))
    assert_same_bits(got, whole[:, :, 1:-2, 2:-2])
    got = sf.conv2d_weight_gradient(x, same, w.shape, "bfloat16", padding="same", dilation=(1, 2))
    assert_same_bits(
        got, sf.conv2d_weight_gradient(wide, same, w.shape, "bfloat16", dilation=(1, 2))
    )


def test_dtype_and_layout_of_the_operands():
    x, w, _, geo = operands("padded", sf.bfloat16)
    expected = sf.conv2d(x, w, "bfloat16", **geo)
    assert expected.dtype == np.float64
    narrow = x.astype(np.float32), w.astype(np.float32)
    got = sf.conv2d(*narrow, "bfloat16", **geo)
    assert got.dtype == np.float32 and got.flags.c_contiguous
    assert_same_bits(got, expected)
    typed = [v.astype(ml_dtypes.bfloat16) for v in (x, w)]
    assert sf.conv2d(*typed, "bfloat16", **geo).dtype == np.float32
    assert_same_bits(sf.conv2d(*typed, "bfloat16", **geo), expected)
    for y in (np.asfortranarray(x), x[..., ::-1].copy()[..., ::-1], x.astype(">f8"), x.tolist()):
        assert_same_bits(sf.conv2d(y, w, "bfloat16", **geo), expected)
    ones = np.ones((1, 1, 3), np.int64)
    assert sf.conv1d(ones, ones, "bfloat16").dtype == np.float32
    assert sf.conv1d(ones, ones, "binary64").dtype == np.float64
    assert_same_bits(sf.conv1d([[[0.1, 0.2]]], [[[1.0]]], "binary64"), [[[0.1, 0.2]]])
    tiny = np.array([[[5e-324, 1.0]]])
    assert_same_bits(sf.conv1d(tiny, np.ones((1, 1, 1)), "binary64"), tiny)


def test_out_may_be_the_input():
    x = data(sf.bfloat16, (1, 1, 9))
    w = data(sf.bfloat16, (1, 1, 3), 1)
    expected = sf.conv1d(x, w, "bfloat16", padding="same")
    kept = x.copy()
    assert sf.conv1d(x, w, "bfloat16", padding="same", out=x) is x
    assert_same_bits(x, expected)
    assert_same_bits(sf.conv1d(kept, w, "bfloat16", padding="same"), expected)
    out = np.empty((1, 1, 9), np.float32)
    assert sf.conv1d(kept, w, "bfloat16", padding="same", out=out) is out
    assert_same_bits(out, expected)
    for call in (
        lambda **o: sf.conv1d_input_gradient(kept, w, (1, 1, 9), "bfloat16", padding=1, **o),
        lambda **o: sf.conv1d_weight_gradient(kept, kept, (1, 1, 3), "bfloat16", padding=1, **o),
        lambda **o: sf.einsum("ijk->kji", kept, "bfloat16", **o),
        lambda **o: sf.einsum("ijk,ijk->i", kept, kept, "bfloat16", **o),
        lambda **o: sf.inner(kept, w[..., :1].repeat(9, 2), "bfloat16", **o),
    ):
        expected = call()
        out = np.empty(expected.shape, np.float32)
        assert call(out=out) is out
        assert_same_bits(out, expected)
    with pytest.raises(ValueError, match="out= must have shape"):
        sf.conv1d(kept, w, "bfloat16", out=np.empty((1, 1, 9)))


X, W = np.ones((2, 4, 5, 6)), np.ones((6, 2, 3, 3))
L, V = np.ones((2, 4, 5)), np.ones((6, 4, 3))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: sf.conv2d(X[0], W, "bfloat16"), ValueError, "input must have shape"),
        (lambda: sf.conv2d(X, W[0], "bfloat16"), ValueError, "weights must have shape"),
        (lambda: sf.conv2d(X, W, "bfloat16"), ValueError, "with groups=1 go with 2 input"),
        (lambda: sf.conv2d(X, W[:5], "bfloat16", groups=2), ValueError, "multiple of 2 output"),
        (lambda: sf.conv1d(L, V, "bfloat16", groups=0), ValueError, "groups must be in 1"),
        (lambda: sf.conv1d(L, V, "bfloat16", stride=0), ValueError, "stride must be in 1"),
        (lambda: sf.conv1d(L, V, "bfloat16", stride=1.0), TypeError, "stride must be an integer"),
        (lambda: sf.conv1d(L, V, "bfloat16", stride=(1, 1)), ValueError, "a number or 1 of them"),
        (lambda: sf.conv1d(L, V, "bfloat16", padding=-1), ValueError, "padding must be in 0"),
        (lambda: sf.conv1d(L, V, "bfloat16", padding="full"), ValueError, '"valid" or "same"'),
        (lambda: sf.conv1d(L, V, "bfloat16", padding="same", stride=2), ValueError, "stride 1"),
        (lambda: sf.conv1d(L, V, "bfloat16", dilation=3), ValueError, "reaches over 7 places"),
        (lambda: sf.conv1d(L[..., :2], V, "bfloat16"), ValueError, "its padding has 2"),
        (lambda: sf.conv1d(L, V[..., :0], "bfloat16"), ValueError, "no place in space"),
        (lambda: sf.conv1d(L, V, "bfloat16", c=np.ones(6)), ValueError, "does not broadcast"),
        (lambda: sf.conv1d(L, V, "bfloat16", rounding="stochastic"), ValueError, "needs seed="),
        (lambda: sf.conv1d(L[:0], V, "bfloat16", rounding="up"), ValueError, "rounding"),
        (lambda: sf.conv1d(L[:0], V, "bfloat16", order="up"), ValueError, "order must be one"),
        (lambda: sf.conv1d(L, V, "bfloat16", bias=1), TypeError, "bias"),
        (lambda: sf.conv1d(L, V * 1j, "bfloat16"), TypeError, "real numbers"),
        (
            lambda: sf.conv1d_input_gradient(np.ones((2, 6, 4)), V, (2, 4, 5), "bfloat16"),
            ValueError,
            r"output's shape \(2, 6, 3\), got \(2, 6, 4\)",
        ),
        (
            lambda: sf.conv1d_weight_gradient(L, np.ones((1, 6, 3)), V.shape, "bfloat16"),
            ValueError,
            r"output's shape \(2, 6, 3\), got \(1, 6, 3\)",
        ),
        (
            lambda: sf.conv1d_input_gradient(np.ones((2, 6, 3)), V, 5, "bfloat16"),
            TypeError,
            "input_shape must be a tuple",
        ),
        (
            lambda: sf.conv1d_weight_gradient(L, np.ones((2, 6, 3)), (6, 4, -3), "bfloat16"),
            ValueError,
            "weight_shape must be in 0",
        ),
    ],
)
def test_errors_of_convolutions(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_an_error_that_names_an_element_says_of_what():
    fmt = sf.FixedPoint(3, 2, overflow="wrap")
    x = np.array([[[1.0, np.inf]]])
    with pytest.raises(ValueError, match=r"a product of element \(0, 0, 1\) cannot wrap") as caught:
        sf.conv1d(x, np.ones((1, 1, 1)), fmt)
    assert any("matrix product" in note for note in caught.value.__notes__)


# --- contractions
SUBSCRIPTS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ji,kj->ik", (3, 2), (4, 3)),
    ("i,i", (5,), (5,)),
    ("i,i->i", (5,), (5,)),
    ("i,j->ij", (3,), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("i,j->", (3,), (4,)),
    ("ij,k->k", (2, 3), (4,)),
    ("ijk,jil->kl", (2, 3, 2), (3, 2, 2)),
    ("ijk,lij->kl", (2, 3, 2), (3, 2, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("bij,bjk->ibk", (2, 3, 4), (2, 4, 2)),
    ("bij,bjk->kib", (2, 3, 4), (2, 4, 2)),
    ("iij,jkk->ik", (2, 2, 3), (3, 4, 4)),
    ("ii,jj", (2, 2), (3, 3)),
    ("ij,ij->ij", (2, 1), (2, 3)),
    ("ij,jk->ik", (2, 1), (3, 2)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("b...,...b->...b", (2, 3), (3, 2)),
    ("...,...", (2, 3), (3,)),
    (",ij->ji", (), (2, 3)),
    ("Ab,bA", (2, 3), (3, 2)),
    (" i j , j k -> i k ", (2, 3), (3, 2)),
    ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (2, 2, 3)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ij->", (2, 3)),
    ("kij->j", (2, 3, 4)),
    ("i...->...i", (2, 3, 4)),
    ("...i", (2, 3, 4)),
    ("i...->i", (2,)),
    ("", ()),
    ("ij->i", (0, 3)),
    ("ij->i", (3, 0)),
]


def einsum_terms(subscripts, arrays):
    """The pairs of factors of each output element, by loops over indices; the output's shape."""
    text = subscripts.replace(" ", "")
    inputs, _, output = text.partition("->")
    sides = inputs.split(",")
    assert "." not in text
    if "->" not in text:
        output = "".join(sorted(c for c in set(inputs) - {","} if inputs.count(c) == 1))
    sizes = {}
    for side, x in zip(sides, arrays, strict=True):
        for letter, size in zip(side, x.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0)) if size else 0
    summed = [c for c in dict.fromkeys(inputs.replace(",", "")) if c not in output]
    pick = lambda x, side, at: float(  # noqa: E731
        x[tuple(at[c] if n > 1 else 0 for c, n in zip(side, x.shape, strict=True))]
    )
    terms = []
    for outside in everywhere([sizes[c] for c in output]):
        mine = []
        for inner in everywhere([sizes[c] for c in summed]):
            at = dict(zip([*output, *summed], [*outside, *inner], strict=True))
            factors = [pick(x, side, at) for side, x in zip(sides, arrays, strict=True)]
            mine.append((*factors, 1.0)[:2])
        terms.append(mine)
    return terms, tuple(sizes[c] for c in output)


@pytest.mark.parametrize(("subscripts", "shapes"), [(s, shapes) for s, *shapes in SUBSCRIPTS])
def test_exact_contractions_are_those_of_numpy(subscripts, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape) for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    for options in ({}, {"order": "pairwise"}, {"rounding": "toward_zero"}):
        assert_same_bits(sf.einsum(subscripts, *arrays, sf.binary32, **options), expected)
    assert_same_bits(sf.einsum(subscripts, *arrays, fmt="bfloat16"), expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"), [(s, shapes) for s, *shapes in SUBSCRIPTS if "." not in s]
)
def test_contractions_are_the_naive_loops(subscripts, shapes):
    for fmt, kind in (
        (sf.bfloat16, "ordinary"),
        (sf.bfloat16, "specials"),
        (sf.p3109(8, 4), "large"),
    ):
        arrays = [data(fmt, shape, i, kind) for i, shape in enumerate(shapes)]
        terms, shape = einsum_terms(subscripts, arrays)
        for options in (
            {},
            {"rounding": "toward_negative", "order": "pairwise"},
            {"accumulator": sf.Format(6, 5), "order": "blocked"},
        ):
            block = {"block": BLOCK} if options.get("order") == "blocked" else {}
            got = sf.einsum(subscripts, *arrays, fmt, **options, **block)
            # A single operand is summed as it is: times one, exactly.
            more = {"product": None} if len(arrays) == 1 else {}
            assert_same_bits(got, result_of(terms, shape, None, fmt, {**options, **more}))


def test_products_of_contractions_have_their_options():
    a, b = data(sf.bfloat16, (3, 7)), data(sf.bfloat16, (7, 4), 1)
    for options in (
        {"product": None},
        {"fma": True, "accumulator": "binary32"},
        {"product": "float8_e5m2", "product_rounding": "toward_zero"},
        {"result_rounding": "toward_positive", "accumulator": "binary32", "saturate": True},
        {"order": "blocked", "block": 3, "outer": "binary32"},
        {"order": "kahan"},
        {**STOCHASTIC, "offset": 1000, "random_bits": 8, "variant": "C"},
    ):
        expected = sf.matmul(a, b, "bfloat16", **options)
        assert_same_bits(sf.einsum("ij,jk", a, b, "bfloat16", **options), expected)
        assert_same_bits(sf.tensordot(a, b, "bfloat16", 1, **options), expected)
        assert_same_bits(sf.inner(a, b.T, "bfloat16", **options), expected)


def test_stochastic_contractions_take_the_words_of_the_stated_products():
    a, b, c = (data(sf.bfloat16, (3, 4, 4), i) for i in range(3))
    product = sf.matmul(a, b, "bfloat16", **STOCHASTIC)
    assert_same_bits(sf.einsum("bij,bjk->bik", a, b, "bfloat16", **STOCHASTIC), product)
    got = sf.einsum("bij,bjk->kbi", a, b, "bfloat16", **STOCHASTIC)
    turned = sf.matmul(b.swapaxes(1, 2), a.swapaxes(1, 2), "bfloat16", **STOCHASTIC)
    assert_same_bits(got, turned.transpose(1, 0, 2))
    got = sf.einsum("bij,bjk,bkl->bil", a, b, c, "bfloat16", **STOCHASTIC)
    second = {**STOCHASTIC, "stream": STOCHASTIC["stream"] + 1}
    assert_same_bits(got, sf.matmul(product, c, "bfloat16", **second))
    total = sf.sum(a.transpose(1, 0, 2), "bfloat16", (1, 2), **STOCHASTIC)
    assert_same_bits(sf.einsum("bij->i", a, "bfloat16", **STOCHASTIC), total)


@pytest.mark.parametrize(
    ("subscripts", "steps"),
    [
        ("ij,jk,kl->il", ("ij,jk->ik", "ik,kl->il")),
        ("ij,jk,kl->li", ("ij,jk->ik", "ik,kl->li")),
        ("ij,jk,ik->", ("ij,jk->ik", "ik,ik->")),
        ("ij,jk,lj->ikl", ("ij,jk->ijk", "ijk,lj->ikl")),
        ("ij,kl,jm->ikm", ("ij,kl->ijk", "ijk,jm->ikm")),
        ("ij,jk,kl,lm->im", ("ij,jk->ik", "ik,kl->il", "il,lm->im")),
    ],
)
def test_many_operands_are_taken_from_left_to_right(subscripts, steps):
    arrays = [data(sf.bfloat16, (4, 4), i) for i in range(len(steps) + 1)]
    expected = arrays[0]
    for step, x in zip(steps, arrays[1:], strict=True):
        expected = sf.einsum(step, expected, x, "bfloat16", accumulator="binary16")
    got = sf.einsum(subscripts, *arrays, "bfloat16", accumulator="binary16")
    assert_same_bits(got, expected)
    exact = [np.arange(-8, 8).reshape(4, 4) % 3 for _ in arrays]
    assert_same_bits(sf.einsum(subscripts, *exact, "binary32"), np.einsum(subscripts, *exact))


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [
        ((3, 4, 5), (4, 5, 2), 2),
        ((3, 4), (5,), 0),
        ((3, 4, 5), (5, 4, 2), ([1, 2], [1, 0])),
        ((3, 4, 5), (5, 4, 2), ([2, 1], [0, 1])),
        ((3, 4, 5), (2, 4), (1, 1)),
        ((3, 4, 5), (2, 4), (-2, -1)),
        ((2, 3), (2, 3), ([1, 0], [1, 0])),
        ((2, 0), (0, 3), 1),
        ((), (2,), 0),
    ],
)
def test_tensordot_inner_and_outer_are_those_of_numpy(left, right, axes):
    rng = np.random.default_rng(1)
    a, b = rng.integers(-3, 4, left), rng.integers(-3, 4, right)
    assert_same_bits(sf.tensordot(a, b, "binary32", axes), np.tensordot(a, b, axes))
    assert_same_bits(sf.outer(a, b, "binary32"), np.outer(a, b))
    c = rng.integers(-3, 4, (7, *left[-1:]))
    if left:
        assert_same_bits(sf.inner(a, c, "binary32"), np.inner(a, c))
    assert_same_bits(sf.inner(a, 3, "binary32"), np.inner(a, 3))


def test_the_terms_of_tensordot_come_in_the_order_of_its_axes():
    a, b = data(sf.bfloat16, (2, 5, 3)), data(sf.bfloat16, (3, 5, 2), 1)
    flat = a.transpose(0, 2, 1).reshape(2, 15), b.reshape(15, 2)
    assert_same_bits(sf.tensordot(a, b, "bfloat16", ([2, 1], [0, 1])), sf.matmul(*flat, "bfloat16"))
    flat = a.reshape(2, 15), b.transpose(1, 0, 2).reshape(15, 2)
    assert_same_bits(sf.tensordot(a, b, "bfloat16", ([1, 2], [1, 0])), sf.matmul(*flat, "bfloat16"))


A = np.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: sf.einsum(A, A, "bfloat16"), TypeError, "must be a string"),
        (lambda: sf.einsum("ij,jk", A, "bfloat16"), ValueError, "3 arguments, got 2"),
        (lambda: sf.einsum("ij", A, A, "bfloat16"), ValueError, "2 arguments, got 3"),
        (lambda: sf.einsum("ij", A, A, fmt="bfloat16"), ValueError, "1 operand, got 2$"),
        (lambda: sf.einsum("ij,jk", A, A, "bfloat16"), ValueError, "'j' has size 3, but 2"),
        (lambda: sf.einsum("ii", A, "bfloat16"), ValueError, "'i' has sizes 2 and 3"),
        (lambda: sf.einsum("ijk", A, "bfloat16"), ValueError, "name 3 axes, but operand 0 has 2"),
        (lambda: sf.einsum("i", A, "bfloat16"), ValueError, "add '...'"),
        (lambda: sf.einsum("ij->ik", A, "bfloat16"), ValueError, "'k' is an index of no operand"),
        (lambda: sf.einsum("ij->ii", A, "bfloat16"), ValueError, "'i' more than once"),
        (lambda: sf.einsum("i1", A, "bfloat16"), ValueError, "'1' in the subscripts"),
        (lambda: sf.einsum("i..", A, "bfloat16"), ValueError, "'.' in the subscripts"),
        (lambda: sf.einsum("......", A, "bfloat16"), ValueError, "'.' in the subscripts"),
        (lambda: sf.einsum("ij->i->j", A, "bfloat16"), ValueError, "'-' is an index of no"),
        (lambda: sf.einsum("i...->i", A, "bfloat16"), ValueError, "lacks the '...'"),
        (lambda: sf.einsum("...,...", A, np.ones(2), "bfloat16"), ValueError, "of '...' has size"),
        (lambda: sf.einsum("ij", A, "bfloat16", fma=True), ValueError, "fma= is about products"),
        (lambda: sf.einsum("ij,jk", A, A.T, "bfloat16", c=A), TypeError, "no c="),
        (lambda: sf.einsum("ij", A, "bfloat16", rounding="stochastic"), ValueError, "needs seed="),
        (lambda: sf.einsum("ij,jk", A, A.T, "bfloat16", wrong=1), TypeError, "wrong"),
        (lambda: sf.einsum("ij", A, "bfloat15"), ValueError, "bfloat15"),
        (lambda: sf.tensordot(A, A, "bfloat16", 1), ValueError, "axis 1 of a has size 3"),
        (lambda: sf.tensordot(A, A, "bfloat16", 3), ValueError, "axes must be in 0..2"),
        (lambda: sf.tensordot(A, A, "bfloat16", ([0], [0, 1])), ValueError, "equal length"),
        (lambda: sf.tensordot(A, A, "bfloat16", ([0, 0], [0, 0])), ValueError, "an axis twice"),
        (lambda: sf.tensordot(A, A, "bfloat16", "abc"), ValueError, "two lists of axes"),
        (lambda: sf.tensordot(A, A, "bfloat16", (2, 0)), ValueError, "axes must be in -2..1"),
        (lambda: sf.inner(A, A.T, "bfloat16"), ValueError, "inner: axis 1 of a has size 3"),
        (lambda: sf.inner(A, A, "bfloat16", c=A), TypeError, r"^inner\(\) takes no c="),
        (lambda: sf.outer(A, A, "bfloat16", c=A), TypeError, r"^outer\(\) takes no c="),
        (lambda: sf.tensordot(A, 1.0, "bfloat16", ([0], [0])), ValueError, "that has none"),
        (lambda: sf.tensordot(A, A, "bfloat16", ([0.5], [0])), TypeError, "axes must be an int"),
        (lambda: sf.tensordot(A, A, "bfloat16", 1.0), ValueError, "axes must be a number"),
    ],
)
def test_errors_of_contractions(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, **o: sf.dot(x, np.ones((2, 3, 2)), "bfloat16", **o),
        lambda x, **o: sf.einsum("ij,kj->ki", x, x, "bfloat16", **o),
        lambda x, **o: sf.conv1d(x[None], x[None, :, :2], "bfloat16", **o),
    ],
)
def test_an_error_in_a_product_laid_out_for_a_result_says_so(call):
    unsigned = sf.Format(4, 3, specials="finite", signed=False)
    x = np.array([[1.0, -3.0, 0.5], [1.0, 2.0, 4.0]])
    with pytest.raises(ValueError, match="accumulator of element") as caught:
        call(x, accumulator=unsigned, product="binary32")
    assert "In the matrix product of shapes" in caught.value.__notes__[0]


def test_the_carrier_of_integers_is_the_smallest_that_holds_the_format():
    for function in (sf.inner, sf.outer, sf.dot, sf.tensordot):
        axes = {"axes": 1} if function is sf.tensordot else {}
        assert function([1, 2], np.array([3, 4]), "bfloat16", **axes).dtype == np.float32


def test_inputs_stay_as_they_were():
    x, w, gradient, geo = operands("padded", sf.bfloat16, "specials")
    kept = [v.copy() for v in (x, w, gradient)]
    for v in (x, w, gradient):
        v.flags.writeable = False
    sf.conv2d(x, w, "bfloat16", **geo)
    sf.conv2d_input_gradient(gradient, w, x.shape, "bfloat16", **geo)
    sf.conv2d_weight_gradient(x, gradient, w.shape, "bfloat16", **geo)
    sf.einsum("nchw,ocyx->no", x, w, "bfloat16")
    for now, before in zip((x, w, gradient), kept, strict=True):
        assert np.array_equal(now.view(np.int64), before.view(np.int64))
