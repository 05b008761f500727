"""Published values of sums and roundings, through the public functions; docs/published_values.md quotes them.

Each function of VALUES computes one value and says how it is written; the page must show that text beside its name.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import softfloat as sf
from softfloat import reductions

PAGE = Path(__file__).parent.parent / "docs" / "published_values.md"
VALUES = {}
SEEDS = range(30)


def value(name):
    """Register a function that gives the text of one published value."""

    def register(function):
        assert name not in VALUES
        VALUES[name] = function
        return function

    return register


def last_change(fmt, terms):
    """(number of the last term that changes the running sum, the sum there)."""
    running = np.concatenate(([0.0], reductions.cumsum(terms, fmt)))
    n = int(np.flatnonzero(np.diff(running))[-1]) + 1
    return n, float(running[n])


def number(x):
    return f"{float(x):g}" if float(x) == float(f"{float(x):g}") else repr(float(x))


# --- exact values
for _name in ("bfloat16", "binary16", "float8_e5m2", "float8_e4m3fn"):

    @value(f"harmonic sum, {_name}")
    def harmonic(name=_name):
        terms = sf.divide(1.0, np.arange(1.0, 5000.0), name)
        n, s = last_change(name, terms)
        return f"{number(s)} after {n} terms"

    @value(f"counting by one, {_name}")
    def counting(name=_name):
        return number(reductions.sum(np.ones(3000), name))


@value("harmonic sum, binary32")
def harmonic_binary32():
    terms = np.float32(1) / np.arange(1, 2_100_000, dtype=np.float32)
    n, s = last_change("binary32", terms)
    return f"{s:.6f} after {n} terms"


for _name in ("bfloat16", "binary16"):

    @value(f"adding 0.1, {_name}")
    def tenths(name=_name):
        n, s = last_change(name, np.full(5000, sf.quantize(0.1, name)))
        return f"{number(s)} after {n} terms"

    @value(f"1 + 10000 x 1e-4, {_name}")
    def updates_up(name=_name):
        terms = np.concatenate(([1.0], sf.quantize(np.full(10000, 1e-4), name)))
        return number(reductions.sum(terms, name))

    @value(f"1 - 1000 x 1e-3, {_name}")
    def updates_down(name=_name):
        terms = np.concatenate(([1.0], sf.quantize(np.full(1000, -1e-3), name)))
        return repr(float(reductions.sum(terms, name)))


@value("5000 x 0.1, binary16")
def five_thousand():
    return number(reductions.sum(np.full(5000, sf.quantize(0.1, "binary16")), "binary16"))


for _name, _n in (("e6m9", 65536), ("bfloat16", 4096)):

    @value(f"{_n} ones, {_name}")
    def ones_naive(name=_name, n=_n):
        return number(reductions.sum(np.ones(n), name))

    @value(f"{_n} ones in chunks of 64, {_name}")
    def ones_chunked(name=_name, n=_n):
        return number(reductions.sum(np.ones(n), name, order="blocked", block=64))


def few_bit_bias(variant):
    """Mean of (rounded - exact) in ulp over all inputs with 4 extra bits and all words of 3 bits."""
    fmt = sf.Format(5, 1, specials="finite")
    x, w = np.meshgrid(2 + np.arange(16) / 16, np.arange(8))
    got = sf.quantize(x, fmt, rounding="stochastic", random=w, random_bits=3, variant=variant)
    assert fmt.precision == 2  # so that the ulp in [2, 4) is 1
    return float(np.mean(got - x))


for _variant in "ABC":

    @value(f"bias of 3 random bits, variant {_variant}")
    def bias(variant=_variant):
        return number(few_bit_bias(variant))


@value("updates of a weight, nearest")
def weight_nearest():
    return number(reductions.sum(weight_steps(), "bfloat16"))


@value("updates of a weight, Kahan")
def weight_kahan():
    return number(reductions.sum(weight_steps(), "bfloat16", order="kahan"))


def weight_steps():
    return np.concatenate(([1.0], sf.quantize(np.full(1000, 1e-3), "bfloat16")))


# --- statistics: a fixed seed gives the text of the page, and many seeds must stay in a band
def uniforms(n, seed):
    return sf.quantize(np.random.default_rng(seed).random(n).astype(np.float32), "bfloat16")


def error(x, **how):
    exact = float(np.sum(x, dtype=np.float64))
    return abs(float(reductions.sum(x, "bfloat16", **how)) - exact) / exact


BLOCKS = {"order": "blocked", "block": 64}
SUMS = {
    "65536 uniforms, sequential": (65536, {}, (0.990, 0.994)),
    "65536 uniforms, blocks of 64": (65536, BLOCKS, (0.45, 0.55)),
    "65536 uniforms, FABsum": (65536, {**BLOCKS, "outer": "binary32"}, (0.0, 4e-3)),
    "100000 uniforms, sequential": (100_000, {}, (0.994, 0.996)),
}
for _name, (_n, _how, _band) in SUMS.items():

    @value(_name)
    def uniform_sum(n=_n, how=_how):
        return f"{error(uniforms(n, 6), **how):.3g}"


def stochastic_errors(n, seeds=SEEDS):
    """Relative errors of stochastic sums of the same terms, one seed after the other."""
    rows = np.broadcast_to(uniforms(n, 6), (len(seeds), n))
    exact = float(np.sum(rows[0], dtype=np.float64))
    found = reductions.sum(rows, "bfloat16", 1, rounding="stochastic", seed=1)
    return (np.asarray(found, np.float64) - exact) / exact


@value("100000 uniforms, stochastic, rms of 30")
def stochastic_sum():
    return f"{np.sqrt(np.mean(stochastic_errors(100_000) ** 2)):.3g}"


def weights_stochastic():
    rows = np.broadcast_to(weight_steps(), (200, 1001))
    ends = reductions.sum(rows, "bfloat16", 1, rounding="stochastic", seed=1)
    return float(np.mean(ends)), float(np.std(ends))


@value("updates of a weight, stochastic, mean of 200")
def weight_mean():
    return f"{weights_stochastic()[0]:.3f}"


@value("updates of a weight, stochastic, standard deviation")
def weight_deviation():
    return f"{weights_stochastic()[1]:.2f}"


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_uniforms_lie_in_their_band(name):
    """Blanchard, Higham, Mary (2020); Connolly, Higham, Mary (2021)."""
    n, how, (low, high) = SUMS[name]
    for seed in range(8):
        assert low <= error(uniforms(n, seed), **how) <= high


def test_stochastic_sums_keep_the_mean():
    """Connolly, Higham, Mary (2021): about 0.055 rms where nearest loses 0.995."""
    errors = stochastic_errors(100_000)
    assert 0.03 < np.sqrt(np.mean(errors**2)) < 0.08
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors)) + 0.005


def test_error_growth_of_nearest_and_stochastic_sums():
    """Equal terms: to nearest the errors add up, as n u; stochastic ones as sqrt(n) u (Connolly et al. 2021)."""
    fmt = sf.Format(8, 13)
    x, u = np.float32(sf.quantize(0.7, fmt)), fmt.unit_roundoff
    for n in (1000, 10_000, 100_000):
        rows = np.broadcast_to(x, (30, n))
        found = reductions.sum(rows, fmt, 1, rounding="stochastic", seed=2)
        errors = np.asarray(found, np.float64) / (n * float(x)) - 1
        assert 0.2 < np.sqrt(np.mean(errors**2)) / (np.sqrt(n) * u) < 0.6
        nearest = float(reductions.sum(rows[0], fmt)) / (n * float(x)) - 1
        assert 0.1 < abs(nearest) / (n * u) < 0.2


def test_few_bits_of_randomness_are_biased():
    assert [few_bit_bias(v) for v in "ABC"] == [-0.03125, 0.03125, 0.0]


def test_updates_survive_stochastic_rounding():
    """Zamirai et al. (2020)."""
    mean, deviation = weights_stochastic()
    assert 1.96 < mean < 2.04
    assert 0.05 < deviation < 0.12


# --- the page
def page_rows():
    """{name: text of ours} from the tables of the page."""
    cells = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.M)
    return {name: (published, ours) for name, published, ours, _ in cells if name != "value"}


@pytest.mark.parametrize("name", VALUES)
def test_the_page_shows_what_is_computed(name):
    assert page_rows()[name][1] == VALUES[name]()


def test_the_page_and_the_tests_name_the_same_values():
    assert set(page_rows()) - {"---"} == set(VALUES)
    exact = [n for n in VALUES if "uniforms" not in n and "stochastic" not in n]
    for name in exact:
        published, ours = page_rows()[name]
        assert published == ours
