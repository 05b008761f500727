"""Stochastic rounding: exact decisions for chosen words, exact probabilities, clean statistics."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import (
    EXHAUSTIVE,
    FORMATS,
    NAMED,
    all_codes,
    assert_matches_oracle,
    assert_same_bits,
    core,
    numbers,
    on_both_paths,
    package_format,
    some_codes,
    some_values,
    values_of,
)
from oracle import How
from test_arithmetic import MIXED, OPERATIONS

import softfloat as sf

SHORT = [f for f in FORMATS if f.bits <= 16]
MODES = oracle.STOCHASTIC
COMBINATIONS = [
    pytest.param(f, o, id=f"{f}-{o}", marks=() if "stochastic" in core(f, o) else EXHAUSTIVE)
    for f in FORMATS
    for o in MIXED
]


def discarded_part(fmt, x):
    """floor(f * 2**k) of the discarded fraction f as a function of k; None for special values."""
    if x.kind != "finite" or x.is_zero:
        return None
    positive = oracle.Positive(x.magnitude)
    unit = oracle.power_of_two(max(positive.exponent, fmt.emin) - fmt.mantissa_bits)
    if fmt.subnormals is not True and positive.below(fmt.value(fmt.smallest)):
        unit = fmt.value(fmt.smallest)
    return oracle.tail(positive.over(unit))


# --- what never moves
@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("fmt", SHORT, ids=str)
def test_a_value_of_the_format_never_moves_whatever_the_seed(fmt, rounding):
    x = values_of(fmt, all_codes(fmt))
    target = package_format(fmt)
    for seed in range(12):
        assert_same_bits(sf.quantize(x, target, rounding=rounding, seed=seed), x)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fmt", SHORT, ids=str)
def test_a_value_of_the_format_never_moves_in_a_thousand_seeds(fmt):
    x = values_of(fmt, all_codes(fmt))
    target = package_format(fmt)
    for seed in range(1000):
        assert_same_bits(sf.quantize(x, target, rounding="stochastic", seed=seed), x)


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("k", [1, 7, 24, 32])
def test_a_value_does_not_move_with_any_word(variant, k):
    x = np.repeat(values_of(oracle.BINARY16, some_codes(oracle.BINARY16, 300)), 3)
    words = np.tile([0, 2**k - 1, 2 ** (k - 1)], 300)
    got = sf.quantize(
        x, sf.binary16, rounding="stochastic", random=words, random_bits=k, variant=variant
    )
    assert_same_bits(got, x)


@pytest.mark.parametrize("rounding", MODES)
def test_infinity_and_nan_pass_through(rounding):
    x = np.tile([np.inf, -np.inf, np.nan], 1000)
    for dtype in (np.float32, np.float64):
        got = sf.quantize(x.astype(dtype), sf.bfloat16, rounding=rounding, seed=1)
        assert_same_bits(got, x)


# --- exact decisions
@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_the_words_beside_the_threshold_decide_as_the_exact_fraction_does(fmt, variant):
    x = some_values(fmt, 150, seed=5)
    for k in (1, 3, 8, 24, 32):
        data, words = [], []
        for v in numbers(x):
            fraction = discarded_part(fmt, v)
            steps = fraction(k)[0] if fraction else 0
            chosen = {0, 2**k - 1, 2**k - steps, 2**k - steps - 1, 2**k - steps + 1}
            chosen = sorted(w for w in chosen if 0 <= w < 2**k)
            data += [v] * len(chosen)
            words += chosen
        operands = np.array([float_of(v) for v in data])
        expected = [
            oracle.quantize(fmt, v, How("stochastic", False, w, k, variant))
            for v, w in zip(data, words, strict=True)
        ]
        got = sf.quantize(
            operands,
            package_format(fmt),
            rounding="stochastic",
            random=np.array(words),
            random_bits=k,
            variant=variant,
        )
        assert_matches_oracle(got, fmt, expected, operands, words)


def float_of(number):
    if number.is_nan:
        return np.nan
    magnitude = np.inf if number.is_infinite else float(number.magnitude)
    return -magnitude if number.negative else magnitude


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_equal_rounding_looks_at_the_top_bit_of_the_word_alone(fmt):
    x = some_values(fmt, 300, seed=6)
    for k in (1, 8, 24, 32):
        words = np.resize([0, 2**k - 1, 2 ** (k - 1), 2 ** (k - 1) - 1], len(x))
        expected = [
            oracle.quantize(fmt, v, How("stochastic_equal", False, int(w), k))
            for v, w in zip(numbers(x), words, strict=True)
        ]
        got = sf.quantize(
            x, package_format(fmt), rounding="stochastic_equal", random=words, random_bits=k
        )
        assert_matches_oracle(got, fmt, expected, x, words)


@pytest.mark.parametrize(("fmt", "operation"), COMBINATIONS)
def test_arithmetic_decides_as_the_exact_result_would(fmt, operation):
    """Words on both sides of the threshold of the exact result: one step off shows."""
    function, reference, arity = OPERATIONS[operation]
    rng = np.random.default_rng(len(operation))
    columns = [values_of(fmt, some_codes(fmt, 100, seed=70 + i)) for i in range(arity)]
    # Half of the rows near the bottom of the range, where the discarded part is longest.
    low = float(fmt.value(fmt.smallest)) * rng.integers(1, 2 ** min(fmt.mantissa_bits + 2, 20), 100)
    columns[0][::2] = low[::2] * rng.choice([-1.0, 1.0], 50)
    columns[0] = sf.quantize(columns[0], package_format(fmt))
    if operation == "div" and fmt.specials.startswith("p3109"):
        columns[1] = np.where(columns[1] == 0, 1.0, columns[1])
    for k in (1, 8, 24, 32):
        rows, words = [], []
        for i, operands in enumerate(zip(*map(numbers, columns), strict=True)):
            steps = threshold(fmt, reference, operands, k)
            chosen = {0, 2**k - 1} | {2**k - steps + d for d in (-1, 0, 1)}
            chosen = sorted(w for w in chosen if 0 <= w < 2**k)
            rows += [i] * len(chosen)
            words += chosen
        operands = [c[rows] for c in columns]
        expected = [
            reference(fmt, *v, How("stochastic", False, w, k))
            for *v, w in zip(*map(numbers, operands), words, strict=True)
        ]
        how = {"rounding": "stochastic", "random": np.array(words), "random_bits": k}
        got = on_both_paths(lambda *v, how=how: function(*v, package_format(fmt), **how), *operands)
        assert_matches_oracle(got, fmt, expected, *operands, words)


def threshold(fmt, reference, operands, k):
    """floor(f * 2**k) of the exact result, by bisection over the words that round away."""
    code = {
        w: reference(fmt, *operands, How("stochastic", False, w, k)).code for w in (0, 2**k - 1)
    }
    below, above = 0, 2**k - 1
    if code[below] == code[above]:
        return 0
    while above - below > 1:
        middle = (below + above) // 2
        result = reference(fmt, *operands, How("stochastic", False, middle, k)).code
        below, above = (middle, above) if result == code[0] else (below, middle)
    return 2**k - above


@pytest.mark.parametrize("k", [1, 3, 24])
@pytest.mark.parametrize(("fmt", "operation"), COMBINATIONS)
def test_seeded_arithmetic_uses_the_documented_words(fmt, operation, k):
    """With few bits the words often lie on the threshold itself."""
    function, reference, arity = OPERATIONS[operation]
    columns = [values_of(fmt, some_codes(fmt, 150, seed=i)) for i in range(arity)]
    if operation == "div" and fmt.specials.startswith("p3109"):
        columns[1] = np.where(columns[1] == 0, 1.0, columns[1])
    words = [oracle.random_word(5, 2, 10 + i, k) for i in range(150)]
    expected = [
        reference(fmt, *v, How("stochastic", False, w, k))
        for *v, w in zip(*map(numbers, columns), words, strict=True)
    ]
    how = {"rounding": "SR", "seed": 5, "stream": 2, "offset": 10, "random_bits": k}
    got = on_both_paths(lambda *v: function(*v, package_format(fmt), **how), *columns)
    assert_matches_oracle(got, fmt, expected, *columns, words)


# --- probabilities
FRACTIONS = [Fraction(n, 256) for n in (0, 1, 2, 3, 64, 127, 128, 129, 254, 255)] + [Fraction(1, 3)]


def step_above(fmt, x):
    """Distance from a value to the next one; at the largest, that to the one below."""
    code = oracle.quantize(fmt, oracle.from_float(x)).code
    low = min(code, fmt.largest - 1)
    above = max(low + 1, fmt.smallest)
    return float(fmt.value(above) - fmt.value(low))


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("fmt", "base"),
    [
        ("bfloat16", 1.0),
        ("bfloat16", 1.0 + 127 / 128),  # the neighbour lies in the next binade
        ("binary16", 2.0**-24),  # subnormal
        ("binary16", 0.0),  # below the smallest
        ("binary16", 2.0**-14 - 2.0**-24),  # into the normal range
        ("binary16", 65504.0),  # beyond the largest
        ("e4m3fn", 448.0),
        ("e2m1fn", 6.0),
        ("e2m1fn", 0.0),
    ],
)
def test_the_number_of_words_that_round_away_is_exact(fmt, base, sign, variant):
    target, k = package_format(NAMED[fmt]), 8
    step = step_above(NAMED[fmt], base)
    words = np.arange(2**k)
    for f in FRACTIONS:
        x = sign * (base + step * float(f))
        got = sf.quantize(
            np.full(2**k, x), target, rounding="SR", random=words, random_bits=k, variant=variant
        )
        with np.errstate(invalid="ignore"):
            away = int((~(np.abs(got) <= base)).sum()) if base != target.max or f else 0
        exact = float(f)  # all but 1/3 are exact; that one lies far from any threshold
        scaled = Fraction(exact) * 2**k
        expected = {"A": int(scaled), "B": None, "C": round(scaled)}[variant]
        if variant == "B":
            expected = sum(int(2 * scaled) + 2 * w + 1 >= 2 ** (k + 1) for w in range(2**k))
        if NAMED[fmt].specials == "finite" and base == target.max:
            expected = 0
        assert away == expected, (f, away, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", [1 / 8192, 1 / 64, 0.25, 1 / 3, 0.5, 0.999])
@pytest.mark.parametrize(
    ("fmt", "base"), [("bfloat16", 1.0), ("binary16", 2.0**-20), ("e5m2", 0.0)]
)
def test_frequencies_are_the_discarded_fractions(fmt, base, f, dtype):
    n = 1_000_000
    step, fmt = step_above(NAMED[fmt], base), package_format(NAMED[fmt])
    x = dtype(base + step * f)
    p = (float(x) - base) / step
    got = sf.quantize(np.full(n, x), fmt, rounding="stochastic", seed=17)
    count = int((got != base).sum())
    assert abs(count - n * p) <= 5 * (n * p * (1 - p)) ** 0.5 + 1
    mirrored = sf.quantize(np.full(n, -x), fmt, rounding="stochastic", seed=17)
    assert_same_bits(mirrored, -got)


def test_equal_rounding_goes_away_half_the_time():
    n = 1_000_000
    for f in (1e-6, 0.5, 0.999999):
        got = sf.quantize(
            np.full(n, 1 + f * 2.0**-7), sf.bfloat16, rounding="stochastic_equal", seed=3
        )
        assert abs(int((got != 1).sum()) - n / 2) < 5 * (n / 4) ** 0.5


def test_overflow_in_both_senses_of_saturation():
    x = np.full(400_000, 3.4028234663852886e38, np.float32)
    loose = sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=1)
    tight = sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=1, saturate=True)
    assert (tight == sf.bfloat16.max).all()
    assert set(np.unique(loose)) <= {np.float32(sf.bfloat16.max), np.float32(np.inf)}
    kept = int(np.isfinite(loose).sum())
    expected = len(x) / 65536
    assert abs(kept - expected) < 6 * expected**0.5


def test_bias_is_below_the_resolution_of_the_words():
    """The mean over all words of 4 bits is less than 2**-4 ulp from x, towards zero (variant A)."""
    rng = np.random.default_rng(0)
    x = 1 + rng.random(200)
    words = np.arange(16)
    got = sf.quantize(
        np.repeat(x[:, None], 16, axis=1),
        sf.bfloat16,
        rounding="SR",
        random=np.tile(words, (200, 1)),
        random_bits=4,
    )
    error = (x - got.mean(axis=1)) / 2.0**-7
    assert (error >= 0).all()
    assert (error < 2.0**-4).all()


# --- independence
def test_neighbouring_decisions_are_uncorrelated():
    n = 1_000_000
    for seed in (0, 1, 2**63):
        x = np.full(n, 1 + 2.0**-9)
        away = sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=seed) != 1
        p = 0.25
        assert abs(int(away.sum()) - n * p) < 5 * (n * p * (1 - p)) ** 0.5
        centred = (away - p) / (p * (1 - p)) ** 0.5
        for lag in [*range(1, 65), 128, 256, 512, 1024, 4096]:
            rho = float(np.dot(centred[:-lag], centred[lag:])) / (n - lag)
            assert abs(rho) < 5 / (n - lag) ** 0.5, lag


def test_streams_and_neighbouring_seeds_are_uncorrelated():
    n = 500_000
    x = np.full(n, 1 + 2.0**-8)

    def decisions(**options):
        away = sf.quantize(x, sf.bfloat16, rounding="stochastic", **options) != 1
        return away * 2.0 - 1.0

    base = decisions(seed=10)
    for other in (
        {"seed": 11},
        {"seed": 10, "stream": 1},
        {"seed": 11, "stream": 1},
        {"seed": 10 + 2**32},
    ):
        assert abs(float(np.dot(base, decisions(**other))) / n) < 5 / n**0.5


def test_the_high_and_the_low_bits_of_words_are_uniform():
    n = 400_000
    x = np.full(n, 1 + 2.0**-7 / 3)
    for k in (1, 2, 3, 32):
        steps = int(Fraction(float(x[0]) - 1) * 2 ** (7 + k))
        p = steps / 2**k
        got = sf.quantize(x, sf.bfloat16, rounding="SR", seed=9, random_bits=k) != 1
        assert abs(int(got.sum()) - n * p) <= 5 * (n * p * (1 - p)) ** 0.5


def test_small_updates_survive_on_average():
    n, updates = 256, 4096
    w = np.ones(n, np.float32)
    fixed = np.ones(n, np.float32)
    for i in range(updates):
        sf.add(w, np.float32(2.0**-12), sf.bfloat16, rounding="stochastic", seed=1, stream=i, out=w)
        sf.add(fixed, np.float32(2.0**-12), sf.bfloat16, out=fixed)
    assert (fixed == 1).all()
    assert abs(float(w.mean()) - 2) < 0.04
    assert len(np.unique(w)) > 10


def test_words_given_as_random_are_used_elementwise_and_broadcast():
    x = np.full((3, 4), 1 + 2.0**-8)
    words = np.array([0, 2**23 - 1, 2**23, 2**24 - 1])
    got = sf.quantize(x, sf.bfloat16, rounding="SR", random=words)
    assert (got == [1, 1, 1 + 2.0**-7, 1 + 2.0**-7]).all()
    for dtype in (np.uint32, np.int64, np.uint64, ">i4"):
        again = sf.quantize(x, sf.bfloat16, rounding="SR", random=words.astype(dtype))
        assert_same_bits(again, got)
    assert words.tolist() == [0, 2**23 - 1, 2**23, 2**24 - 1]
