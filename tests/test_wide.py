"""Arithmetic up to binary64 itself at vector speed: bit for bit the definition, and TestFloat in the fast form."""

import numpy as np
import pytest
from helpers import (
    EXHAUSTIVE,
    REFERENCE,
    VECTOR_ROUNDING,
    WIDTHS,
    assert_same_bits,
    assert_same_codes,
    entries_of_testfloat,
    rows_of_testfloat,
)
from numba import njit

import softfloat as sf
from softfloat.backends import wide
from softfloat.backends.fma_ways import fma_has_ways
from softfloat.backends.wide import WIDE_BLOCK, universal_loop, wide_loop
from softfloat.bits import leave_standard_arithmetic
from softfloat.functional import Choice
from softfloat.wide import wide_constants, wide_form

OPERATIONS = {
    "add": (sf.add, 2),
    "subtract": (sf.subtract, 2),
    "multiply": (sf.multiply, 2),
    "divide": (sf.divide, 2),
    "sqrt": (sf.sqrt, 1),
    "fma": (sf.fma, 3),
}
TESTFLOAT = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "sqrt": "sqrt",
    "mulAdd": "fma",
}
ROUNDINGS = [str(r) for r in sf.Rounding]
SHAPES = [(11, 52), (11, 51), (10, 52), (10, 51), (11, 50), (9, 52), (10, 23), (11, 10), (8, 47)]
PLAIN = [sf.Format(*shape) for shape in SHAPES]
PARTICULAR = [
    sf.Format(10, 52, specials="fn"),
    sf.Format(10, 51, specials="fnuz"),
    sf.Format(9, 52, specials="finite"),
    sf.Format(10, 50, specials="p3109_extended"),
    sf.Format(10, 40, specials="p3109_finite"),
    sf.Format(11, 52, subnormals="ftz"),
    sf.Format(10, 51, subnormals="ftz"),
    sf.Format(10, 52, subnormals="grid"),
    sf.Format(9, 51, bias=700),
    sf.Format(1, 52),
    sf.Format(3, 52),
]
DIVIDED = [f for f in PARTICULAR if not f.specials.startswith("p3109")]  # P3109: x/0 is NaN


def options_of(rounding, **more):
    return {"rounding": rounding} | ({"seed": 5, **more} if rounding.startswith("stoch") else {})


# --- data
def at_the_edges(fmt, n, rng):
    """Numbers of the format and others: full, short and all-ones significands; both ends of the range; specials."""
    m, low, high = fmt.mantissa_bits, max(fmt.emin - fmt.mantissa_bits, -1074), fmt.max_exponent
    ulp = 2.0**-m
    significand = np.choose(
        rng.integers(0, 5, n),
        [
            1 + rng.integers(0, 2**52, n) * 2.0**-52,
            1 + rng.integers(0, 4, n) * ulp,
            2 - rng.integers(1, 5, n) * ulp,
            1 + rng.integers(0, 2**11, n) * 2.0**-11,
            np.ones(n),
        ],
    )
    exponent = np.choose(
        rng.integers(0, 6, n),
        [
            rng.integers(low, high + 1, n),
            rng.integers(-5, 6, n),
            low + rng.integers(0, m + 5, n),
            fmt.emin + rng.integers(-3, 4, n),
            high - rng.integers(0, 4, n),
            low // 2 + rng.integers(-3, 4, n),
        ],
    )
    x = np.ldexp(np.clip(significand, 1, 2 - 2.0**-52), exponent) * rng.choice([-1.0, 1.0], n)
    x = np.where(rng.random(n) < 0.6, sf.quantize(x, fmt, rounding="toward_zero"), x)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, fmt.max, -fmt.max, 5e-324, fmt.smallest_normal]
    return np.where(rng.random(n) < 0.03, rng.choice(special, n), x)


def in_the_middle(fmt, n, rng):
    """Numbers of the format near one, some of them short, some zero: the fast form has them all."""
    x = 1 + np.floor(rng.random(n) * 2.0 ** min(fmt.mantissa_bits, 52)) * fmt.epsilon
    x = np.ldexp(x, rng.integers(-3, 4, n)) * rng.choice([-1.0, 1.0], n)
    kind = rng.random(n)
    x = np.where(kind < 0.3, np.rint(x * 64) / 64, x)
    return np.where(kind > 0.97, rng.choice([0.0, -0.0], n), x)


def operands(operation, fmt, n, seed, make):
    """Operands whose results often cancel, tie, lie beside a value or power of two, or at an end of the range."""
    rng = np.random.default_rng(seed)
    a, b, c = (make(fmt, n, rng) for _ in "abc")
    near = rng.choice([1, 0.5, 2, 1 + 2.0**-52, 1 - 2.0**-53], n) * rng.choice([-1, 1], n)
    far = rng.choice([1, 1.5, 1 - 2.0**-53], n) * rng.choice([-1, 1], n)
    pick = rng.random(n)
    edges = make is at_the_edges
    with np.errstate(all="ignore"):
        if operation in ("add", "subtract"):
            b = np.where(pick < 0.2, a * near, b)
            b = np.where(pick > 0.7, np.ldexp(a * far, -rng.integers(0, 110, n)), b)
        if operation == "multiply" and edges:
            ends = [fmt.emin, fmt.max_exponent, fmt.emin - fmt.mantissa_bits, -960]
            target = rng.choice(ends, n) + rng.integers(-3, 4, n)
            b = np.where(pick < 0.3, np.ldexp(b, target - np.frexp(a)[1] - np.frexp(b)[1]), b)
        if operation == "divide":
            a = np.where(pick < 0.2, b * np.abs(near), a)
            a = np.where(pick > 0.9, np.nextafter(b, np.inf), a)
            if edges:
                low = np.ldexp(a, -930 + rng.integers(-60, 80, n) - np.frexp(a)[1])
                a = np.where((pick > 0.3) & (pick < 0.4), low, a)
        if operation == "sqrt":
            a = np.where(pick < 0.97, np.abs(a), a)
            a = np.where(pick < 0.3, b * b, a)
            a = np.where(pick < 0.1, np.nextafter(b * b, np.inf), a)
        if operation == "fma":
            c = np.where(pick < 0.2, -(a * b) * near, c)
            c = np.where(pick > 0.6, np.ldexp(a * b * far, rng.integers(-120, 120, n)), c)
    return [a, b, c][: OPERATIONS[operation][1]]


def defined(function, operands, fmt, **options):
    """The definition's results: counting flags takes no other path."""
    with sf.status(), np.errstate(all="ignore"):
        return function(*operands, fmt, **options)


class Loops:
    """The two loops of one operation, format and rounding, called as the package calls them."""

    def __init__(self, operation, fmt, **options):
        choice = Choice.of(operation, options)
        how = choice.mode, choice.saturate, choice.bits, choice.variant
        self.form = wide_form(operation, fmt, *how)
        self.constants = wide_constants(fmt, *how)
        self.key = np.uint64(choice.key)
        self.operation = operation

    def __call__(self, operands, first=0, universal=False):
        """(results, whether each block of them was flagged)."""
        a, b, c = [*operands, operands[0], operands[0]][:3]
        out = np.empty(a.size)
        redo = np.full(-(-a.size // WIDE_BLOCK), universal, np.uint8)
        make = universal_loop if universal else wide_loop
        run = make(self.operation, self.form.mode if universal else self.form)
        assert run(a, b, c, out, self.constants, redo, self.key, first)
        return out, redo != 0

    def one_by_one(self, operands):
        """(results, whether each element by itself was flagged)."""
        pairs = [self([x[i : i + 1] for x in operands], first=i) for i in range(operands[0].size)]
        return np.array([z[0] for z, _ in pairs], float), np.array(
            [bad[0] for _, bad in pairs], bool
        )


def assert_loops_are_the_definition(operation, fmt, rounding, n, alone=0, seed=0, **more):
    """Both loops on data of both kinds; the first `alone` elements also each by itself."""
    function = OPERATIONS[operation][0]
    options = options_of(rounding) | more
    loops = Loops(operation, fmt, **options)
    for make in (in_the_middle, at_the_edges):
        x = operands(operation, fmt, n, [seed, ROUNDINGS.index(rounding)], make)
        expected = defined(function, x, fmt, **options).astype(np.float64)
        with np.errstate(invalid="ignore"):
            got = function(*x, fmt, **options).astype(np.float64)
        assert_same_bits(got, expected, *x)
        assert_same_bits(loops(x, universal=True)[0], expected, *x)
        few = [v[:alone] for v in x]
        got, flagged = loops.one_by_one(few)
        inside = ~flagged
        assert_same_bits(got[inside], expected[:alone][inside], *(v[:alone][inside] for v in few))
        assert not alone or inside.any() or fmt.exponent_bits < 5


def spread(formats, step=1):
    """Every operation and mode (every `step`-th) in one format each, in turn; the exhaustive run has the rest.

    Each combination compiles.
    """
    every = [(o, r) for o in OPERATIONS for r in ROUNDINGS]
    return [
        pytest.param(
            f,
            o,
            r,
            id=f"{f.label}-{o}-{r}",
            marks=()
            if (j + j // len(ROUNDINGS)) % len(formats) == i and j % step == 0
            else EXHAUSTIVE,
        )
        for i, f in enumerate(formats)
        for j, (o, r) in enumerate(every)
    ]


# --- the definition
@pytest.mark.parametrize(("fmt", "operation", "rounding"), spread(PLAIN))
def test_every_result_is_that_of_the_definition(fmt, operation, rounding):
    assert_loops_are_the_definition(operation, fmt, rounding, 20_000, alone=600)


@pytest.mark.sweep
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_million_results_an_operation(operation, rounding):
    for seed, fmt in enumerate(PLAIN[:5]):
        assert_loops_are_the_definition(operation, fmt, rounding, 60_000, seed=seed + 1)


@pytest.mark.parametrize(
    ("fmt", "operation", "rounding"),
    [p for p in spread(PARTICULAR, step=6) if p.values[1] != "divide" or p.values[0] in DIVIDED],
)
def test_every_rule_for_the_ends_of_a_format(fmt, operation, rounding):
    assert_loops_are_the_definition(operation, fmt, rounding, 10_000, alone=500)


@pytest.mark.parametrize("rounding", ["ties_to_away", "stochastic_equal"])
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply"])
def test_the_largest_float64_may_stand_for_overflow(operation, rounding):
    """Toward zero float64 itself gives that, in a format that reaches as far but is not float64."""
    fmt = sf.Format(11, 52, subnormals="ftz")
    assert_loops_are_the_definition(operation, fmt, rounding, 5_000, alone=500)


@pytest.mark.parametrize("rounding", ["ties_to_even", "to_odd"])
@pytest.mark.parametrize("fmt", [sf.Format(11, 51), sf.Format(10, 52)], ids=lambda f: f.label)
def test_an_fma_without_instructions_that_bear_their_direction(fmt, rounding, monkeypatch):
    made = wide.wide_loop, wide.fast_block, wide.fast_part, wide.in_place_form
    for known in (fma_has_ways, lambda: False):
        monkeypatch.setattr(wide, "fma_has_ways", known)
        for each in made:
            each.cache_clear()
        for n in (4099, 5):
            assert_loops_are_the_definition("fma", fmt, rounding, n, alone=300, seed=n)
    for each in made:
        each.cache_clear()


@pytest.mark.parametrize("saturate", [True, "propagate"])
@pytest.mark.parametrize("fmt", PLAIN[:3] + PARTICULAR[:2], ids=lambda f: f.label)
def test_saturation(fmt, saturate):
    for operation, rounding in (("add", "ties_to_even"), ("add", "toward_positive")):
        assert_loops_are_the_definition(operation, fmt, rounding, 10_000, saturate=saturate)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@pytest.mark.parametrize("operation", ["add", "divide", "sqrt", "fma"])
def test_any_number_of_random_bits_decides_as_defined(operation, variant):
    for fmt in (sf.binary64, sf.Format(11, 40), sf.Format(10, 51)):
        for bits in (1, 12, 13, 24, 32):
            options = {"rounding": "stochastic", "seed": 9, "random_bits": bits, "offset": bits}
            options["variant"] = variant
            x = operands(operation, fmt, 5000, bits, in_the_middle)
            expected = defined(OPERATIONS[operation][0], x, fmt, **options)
            with np.errstate(invalid="ignore"):
                got = OPERATIONS[operation][0](*x, fmt, **options)
            assert_same_bits(got, expected, *x)


def below_powers_of_two(operation, n):
    """Operands whose result float64 rounds up to a power of two: below that, its own ulp is half as large."""
    rng = np.random.default_rng(11)
    power = np.ldexp(rng.choice([-1.0, 1.0], n), rng.integers(-40, 40, n))
    little = power * np.ldexp(rng.uniform(0.5, 1, n), -54)
    if operation == "add":
        return [power, -little]
    if operation == "fma":
        return [power, np.ones(n), -little]
    step = np.ldexp(rng.integers(1, 2**26, n).astype(float), -52)
    return [(1 - step) * power, 1 + step]  # 1 - step**2


@pytest.mark.parametrize("operation", ["add", "fma", "multiply"])
def test_the_ulp_below_a_power_of_two_decides(operation):
    x = below_powers_of_two(operation, 20_000)
    for fmt in (sf.binary64, sf.Format(10, 51)):
        options = options_of("stochastic")
        expected = defined(OPERATIONS[operation][0], x, fmt, **options)
        assert_same_bits(OPERATIONS[operation][0](*x, fmt, **options), expected, *x)
        assert_same_bits(Loops(operation, fmt, **options)(x, universal=True)[0], expected, *x)


def test_given_random_words_are_used():
    x = operands("add", sf.binary64, 3000, 1, in_the_middle)
    words = np.random.default_rng(3).integers(0, 2**24, 3000)
    options = {"rounding": "stochastic", "random": words}
    expected = defined(sf.add, x, sf.binary64, **options)
    assert_same_bits(sf.add(*x, sf.binary64, **options), expected, *x)


# --- TestFloat
@pytest.mark.parametrize(
    ("width", "name", "mode"),
    [e for e in entries_of_testfloat(TESTFLOAT.__contains__) if e.values[0] == "f64"],
)
def test_testfloat_in_the_fast_form(width, name, mode):
    """Row by row, lest one row send its neighbours to the universal loop."""
    rows = rows_of_testfloat(width, name, mode)
    operation = TESTFLOAT[name.split("_")[1]]
    x = [sf.decode(rows[c], sf.binary64) for c in "abc"[: OPERATIONS[operation][1]]]
    loops = Loops(operation, WIDTHS[width], rounding=VECTOR_ROUNDING[mode])
    got, flagged = loops.one_by_one(x)
    inside = ~flagged
    assert inside.sum() > 900
    assert_same_codes(got[inside], rows["r"][inside], REFERENCE[width], *(v[inside] for v in x))
    got, _ = loops(x, universal=True)
    assert_same_codes(got, rows["r"], REFERENCE[width], *x)


# --- shapes and memory
@pytest.mark.parametrize("rounding", ["toward_zero", "stochastic"])
def test_one_element_stands_for_all(rounding):
    fmt = sf.Format(10, 51)
    options = options_of(rounding)
    for make in (in_the_middle, at_the_edges):
        a, b = operands("multiply", fmt, 6000, 4, make)
        for scalar in (np.float64(0.7), np.array([1.3]), np.float32(0.1), 2.0**-520, 3):
            full = np.full(a.size, scalar, np.float64)
            with np.errstate(invalid="ignore"):
                expected = sf.multiply(a, full, fmt, **options)
                assert_same_bits(sf.multiply(a, scalar, fmt, **options), expected, a)
                assert_same_bits(sf.multiply(scalar, a, fmt, **options), expected, a)
                expected = sf.fma(a, full, full, fmt, **options)
                assert_same_bits(sf.fma(a, scalar, scalar, fmt, **options), expected, a)
    assert sf.multiply(np.float64(3), np.float64(0.5), fmt, **options) == 1.5
    assert sf.add(np.zeros((0, 3)), 1.0, fmt, **options).shape == (0, 3)
    assert sf.add(np.ones((1, 1)), np.ones(1), fmt, **options).shape == (1, 1)


@pytest.mark.parametrize("make", [in_the_middle, at_the_edges])
def test_the_result_may_overlap_the_operands(make):
    fmt = sf.binary64
    for operation, rounding in (("add", "to_odd"), ("fma", "toward_negative")):
        function = OPERATIONS[operation][0]
        x = operands(operation, fmt, 5001, 6, make)
        with np.errstate(invalid="ignore"):
            expected = function(*x, fmt, rounding=rounding)
            for i in range(len(x)):
                mine = [v.copy() for v in x]
                assert function(*mine, fmt, rounding=rounding, out=mine[i]) is mine[i]
                assert_same_bits(mine[i], expected, *x)
            memory = np.concatenate([x[0], [0.0]])
            function(memory[:-1], *x[1:], fmt, rounding=rounding, out=memory[1:])
        assert_same_bits(memory[1:], expected, *x)


@pytest.mark.parametrize("fmt", [sf.Format(11, 51), sf.Format(9, 40)], ids=lambda f: f.label)
def test_results_do_not_depend_on_layout_chunks_or_threads(fmt):
    a, b = operands("add", fmt, 300_001, 7, in_the_middle)
    a[::5000] = np.inf
    options = {"rounding": "stochastic", "seed": 2}
    expected = sf.add(a, b, fmt, **options)
    assert_same_bits(expected, defined(sf.add, [a, b], fmt, **options), a, b)
    parts = [
        sf.add(a[i : i + 77_777], b[i : i + 77_777], fmt, offset=i, **options)
        for i in range(0, a.size, 77_777)
    ]
    assert_same_bits(np.concatenate(parts), expected, a, b)
    strided = [np.repeat(x, 2)[::2] for x in (a, b)]
    assert_same_bits(sf.add(*strided, fmt, **options), expected, a, b)
    threads = sf.get_num_threads()
    try:
        for count in (1, 3):
            sf.set_num_threads(count)
            assert_same_bits(sf.add(a, b, fmt, **options), expected, a, b)
    finally:
        sf.set_num_threads(threads)


def test_float32_operands_are_taken_as_they_are():
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 5000)).astype(np.float32)
    b[:9] = [0, -0.0, np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, 1]
    for fmt in (sf.Format(10, 52), sf.Format(11, 20)):
        for operation, rounding in (("multiply", "ties_to_even"), ("add", "stochastic")):
            function, options = OPERATIONS[operation][0], options_of(rounding)
            with np.errstate(invalid="ignore"):
                got = function(a, b, fmt, **options)
            assert got.dtype == np.float64
            assert_same_bits(got, defined(function, [a, b], fmt, **options), a, b)
    with np.errstate(invalid="ignore"):
        options = options_of("stochastic", random_bits=32)
        got = sf.multiply(a, b, sf.binary32, **options)
    assert got.dtype == np.float32
    assert_same_bits(got, defined(sf.multiply, [a, b], sf.binary32, **options), a, b)


# --- the processor's control word
UNUSUAL, USUAL = 0x1F80 | 0x8040, 0x1F80  # MXCSR: flush to zero, denormals are zero


@njit
def set_control_word(word):
    leave_standard_arithmetic(word)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_subnormals_survive_a_processor_that_flushes_them(dtype):
    x = (operands("add", sf.binary64, 3000, 9, at_the_edges)[0]).astype(np.float64)
    x = np.ldexp(np.frexp(x)[0], -1020 if dtype == np.float64 else -125).astype(dtype)
    y = np.roll(x, 1)
    for fmt in (sf.binary64, sf.Format(11, 51)):
        expected = defined(sf.add, [x, y], fmt, rounding="toward_zero")
        set_control_word(UNUSUAL)
        try:
            got = sf.add(x, y, fmt, rounding="toward_zero")
        finally:
            set_control_word(USUAL)
        assert_same_bits(got, expected, x, y)
