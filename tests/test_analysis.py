"""Accuracy studies: exact counts, published values, bands of statistical ones, and what every result offers.

Reference counts and values are those of the literature or of plain Python in this file.
"""

import csv
import io
import itertools
import json
import math
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import numpy as np
import pytest
from studies import quick

import softfloat as sf
from softfloat import analysis, reductions
from softfloat.analysis import orders, reveal
from softfloat.analysis.result import Line, Panel, measured
from softfloat.random import element_word, key_word, make_key


# ---------------------------------------------------------------- laws of algebra
@pytest.mark.parametrize(
    ("fmt", "differ", "triples"),
    [("float8_e5m2", 423_284, 15_165_956), ("float8_e4m3fn", 1_746_252, 16_070_378)],
)
def test_non_associative_triples_of_eight_bit_formats(fmt, differ, triples):
    found = analysis.associativity(fmt)
    assert (found.differ, found.triples) == (differ, triples)
    found = analysis.associativity(sf.as_format(fmt), rounding="ties_to_even")
    assert found.differ == differ


def counted(law, fmt, rounding):
    """(differing, all) triples by plain loops over the public operations."""
    codes = np.arange(1 << fmt.bits)
    values = sf.decode(codes, fmt)
    values = values[np.isfinite(values)]
    plus = lambda a, b: sf.add(a, b, fmt, rounding=rounding)  # noqa: E731
    times = lambda a, b: sf.multiply(a, b, fmt, rounding=rounding)  # noqa: E731
    a, b, c = np.array(list(itertools.product(values, repeat=3))).T
    if law == "addition":
        left, right = plus(plus(a, b), c), plus(a, plus(b, c))
    elif law == "multiplication":
        left, right = times(times(a, b), c), times(a, times(b, c))
    else:
        left, right = times(a, plus(b, c)), plus(times(a, b), times(a, c))
    valid = np.isfinite(left) & np.isfinite(right)
    return int(np.sum(valid & (left != right))), int(np.sum(valid))


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_negative", "to_odd"])
@pytest.mark.parametrize(
    "fmt",
    [sf.float4_e2m1fn, sf.Format(3, 1), sf.Format(2, 2, specials="fn")],
    ids=lambda f: f.label,
)
def test_table_look_ups_count_what_loops_over_operations_count(fmt, rounding):
    for law in ("addition", "multiplication"):
        found = analysis.associativity(fmt, law, rounding=rounding)
        assert (found.differ, found.triples) == counted(law, fmt, rounding)
    found = analysis.distributivity(fmt, rounding=rounding)
    assert (found.differ, found.triples) == counted("distributivity", fmt, rounding)


def test_counts_do_not_depend_on_threads():
    before = sf.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            sf.set_num_threads(threads)
            found.append(analysis.associativity("float6_e2m3fn").to_json())
        assert found[0] == found[1]
    finally:
        sf.set_num_threads(before)


def test_sampled_proportions_have_intervals_that_hold_the_truth():
    true = analysis.associativity("float8_e4m3fn").share
    low, high = analysis.wilson(round(true * 10_000), 10_000)
    assert low < true < high
    drawn = analysis.associativity("bfloat16", samples=20_000, seed=3)
    assert drawn.low < drawn.share < drawn.high and drawn.triples <= 20_000
    assert drawn.differ == analysis.associativity("bfloat16", samples=20_000, seed=3).differ
    assert drawn.differ != analysis.associativity("bfloat16", samples=20_000, seed=4).differ
    assert "seed 3" in drawn.caption and "95%" in drawn.caption
    stochastic = analysis.distributivity("float8_e4m3fn", rounding="stochastic", samples=2_000)
    assert 0 < stochastic.differ < stochastic.triples <= 2_000


def test_wilson_interval_by_hand():
    """50 of 100: (50 + z**2/2) / (100 + z**2) -+ z / (100 + z**2) * sqrt(25 + z**2/4)."""
    z = 1.959963984540054
    half = z / (100 + z * z) * math.sqrt(25 + z * z / 4)
    assert analysis.wilson(50, 100) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-15)
    assert analysis.wilson(0, 10)[0] == 0 and analysis.wilson(10, 10)[1] == 1
    with pytest.raises(ValueError, match="at least one trial"):
        analysis.wilson(0, 0)


# ---------------------------------------------------------------- orders
def test_all_orders_of_few_terms_are_taken():
    terms = np.array([1.0, 2.0**-8, 2.0**-8, 3.0, -3.0])
    found = analysis.order_sweep(terms, "bfloat16")
    sums = []
    for order in itertools.permutations(terms):
        s = 0.0
        for term in order:
            s = float(sf.add(s, term, "bfloat16"))
        sums.append(s)
    assert found.all_values.tolist() == sums
    assert found.values.tolist() == sorted(set(sums)) and found.counts.sum() == 120
    assert found.exact == 1 + 2.0**-7
    assert all(abs(s - found.exact) <= found.bound for s in sums)


def test_random_orders_repeat_by_seed_and_obey_the_bound():
    found = analysis.order_sweep(n=256, trials=300, seed=5)
    again = analysis.order_sweep(n=256, trials=300, seed=5)
    assert found.to_json() == again.to_json()
    assert found.distinct > 20 and np.abs(found.values - found.exact).max() <= found.bound
    # The model holds for orders of independent errors: the same size, not the same number.
    assert 0.4 < found.deviation / found.predicted_deviation < 2.5
    x = sf.quantize(np.random.default_rng(5).standard_normal(256), "binary16")
    assert found.all_values[7] == reductions.sum(x[shuffled(256, 5, 7)], "binary16")
    assert found.distinct_exact == 1 and found.published[0].ours == "1"


def shuffled(n, seed, number):
    """Order `number` of n terms, by Fisher and Yates with the words of the order's own key."""
    key, order = key_word(make_key(seed, 0), number), list(range(n))
    for i in range(n - 1, 0, -1):
        j = int(element_word(key, i)) * (i + 1) >> 32
        order[i], order[j] = order[j], order[i]
    return np.array(order)


def test_orders_depend_on_seed_and_number_only(monkeypatch):
    whole = analysis.order_sweep(n=50, trials=400, seed=9).all_values
    before = sf.get_num_threads()
    try:
        sf.set_num_threads(2)
        monkeypatch.setattr(orders, "BATCH_NUMBERS", 50 * 30)
        monkeypatch.setattr(orders, "PART_NUMBERS", 50 * 7)
        assert np.array_equal(analysis.order_sweep(n=50, trials=400, seed=9).all_values, whole)
    finally:
        sf.set_num_threads(before)
    counts = np.bincount([shuffled(3, 1, i).tolist().index(0) for i in range(3000)])
    assert counts.min() > 900  # each place about 1000 times, deviation 26
    with pytest.raises(ValueError, match="below 2"):
        analysis.order_sweep(n=20, seed=1 << 64)


def test_an_order_sweep_takes_soft_arrays_and_options():
    a = sf.array([1.0, 2.0**-8, 2.0**-8, 1.5], sf.bfloat16)
    assert analysis.order_sweep(a).settings["format"] == "bfloat16"
    assert analysis.order_sweep(a, accumulator="binary32").distinct == 1
    assert analysis.order_sweep(a, rounding="stochastic", trials=50).counts.sum() == 50


TREES = {
    "sequential": lambda x: reductions.sum(x, "binary64"),
    "pairwise": lambda x: reductions.sum(x, "binary64", order="pairwise"),
    "reversed": lambda x: reductions.sum(x[::-1], "binary64"),
    "exact": lambda x: math.fsum(x.tolist()),
}


@pytest.mark.parametrize("n", [2, 3, 7, 16, 33])
@pytest.mark.parametrize("order", TREES)
def test_known_orders_are_revealed(order, n):
    found = analysis.reveal_order(TREES[order], n)
    assert found.consistent
    if n > 3:
        assert found.order == order
    if order == "sequential":
        assert found.calls == n - 1


def random_tree(rng, leaves):
    if len(leaves) == 1:
        return leaves[0]
    cut = rng.integers(1, len(leaves))
    return random_tree(rng, leaves[:cut]), random_tree(rng, leaves[cut:])


def added(tree, x):
    return (
        x[tree]
        if not isinstance(tree, tuple)
        else sum((added(c, x) for c in tree[1:]), added(tree[0], x))
    )


@pytest.mark.parametrize("seed", range(12))
def test_any_tree_is_revealed(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 24))
    tree = random_tree(rng, rng.permutation(n).tolist())
    found = analysis.reveal_order(lambda x: added(tree, x), n)
    assert reveal._normal_form(found.tree) == reveal._normal_form(tree) and found.consistent


def test_fused_additions_of_engines_are_revealed():
    """FPRev's trees: 4+1 terms on V100, 8+1 on A100."""

    def engine_sum(engine):
        return lambda x: sf.matmul(x, np.ones(x.size, np.float32), sf.binary32, engine=engine)

    probe = {"dtype": np.float32, "unit": 2.0**-14, "mask": 2.0**15}
    v100 = analysis.reveal_order(engine_sum(sf.engines.v100_fp16), 12, **probe).tree
    assert v100 == (((0, 1, 2, 3), 4, 5, 6, 7), 8, 9, 10, 11)
    a100 = analysis.reveal_order(engine_sum(sf.engines.a100_fp16), 16, **probe).tree
    assert a100 == ((0, 1, 2, 3, 4, 5, 6, 7), *range(8, 16))


def test_tensor_cores_are_shown_as_fprev_found_them():
    found = analysis.reveal_orders(n=33)
    assert [p.value for p in found.published] == ["4 + 1", "8 + 1", "16 + 1"]
    assert [p.ours.split()[0] for p in found.published] == ["4", "8", "16"]
    assert all(found.consistent) and found.order[:1] != ["sequential"]
    narrow = analysis.reveal_orders("bfloat16", 20)
    assert "numpy.sum" not in narrow.function
    assert narrow.order[:3] == ["sequential", "pairwise", "sequential"]


def test_numpy_sums_of_few_terms_and_narrow_formats():
    found = analysis.reveal_order(np.sum, 5)
    assert found.order == "sequential"
    assert (
        analysis.reveal_order(lambda x: reductions.sum(x, "bfloat16"), 20, fmt="bfloat16").order
        == "sequential"
    )
    with pytest.raises(ValueError, match="counts to 256 only"):
        analysis.reveal_order(np.sum, 300, fmt="bfloat16")
    with pytest.raises(ValueError, match="no sum of its terms"):
        analysis.reveal_order(np.max, 5)
    with pytest.raises(ValueError, match="together"):
        analysis.reveal_order(np.sum, 5, unit=1.0)


# ---------------------------------------------------------------- growth and stagnation
def test_the_harmonic_series_stops_where_it_should():
    found = analysis.harmonic()
    got = dict(zip(found.format, zip(found.value, found.stops_at, strict=True), strict=True))
    assert got["e3m4"] == (3.5, 16)
    assert got["float8_e5m2"] == (2.0, 5)
    assert got["float8_e4m3fn"] == (3.0, 9)
    assert got["bfloat16"] == (5.0625, 65)
    assert got["binary16"] == (7.0859375, 513)
    assert got["binary32"] == (15.403682708740234, 2_097_152)
    assert [p.value for p in found.published] == [p.ours for p in found.published]
    # To nearest a term can stop to count at 2 / ulp(sum): from there on it is half an ulp or less.
    assert all(last <= theory for last, theory in zip(found.last_change, found.theory, strict=True))
    assert found.theory[3:5] == [64, 512]


def test_it_stops_earlier_toward_zero_and_not_at_all_upward():
    found = analysis.harmonic("e3m4,bfloat16,binary16", rounding="toward_zero")
    assert found.value == [2.5, 4.0, 5.74609375] and found.stops_at == [9, 41, 257]
    found = analysis.harmonic("bfloat16", rounding="toward_positive", n=1000)
    assert found.reached_n == [True] and found.last_change == [1000]


def test_counting_and_adding_a_tenth_stop():
    found = analysis.harmonic("bfloat16,binary16,float8_e5m2,float8_e4m3fn", series="counting")
    assert found.value == [256, 2048, 8, 16]
    found = analysis.harmonic("bfloat16,binary16", series="tenth")
    assert found.value == [32, 256] and found.last_change == [276, 2207]


def test_stochastic_sums_do_not_stagnate():
    """Published by Croci et al. (2022): errors of order 1 against 1e-2. Bands."""
    half = analysis.stagnation("binary16", trials=5)
    assert half.nearest_at_n == pytest.approx(0.508, abs=0.001)
    assert 0.003 < half.mean_at_n < 0.03 and half.worst_at_n < 0.06
    brain = analysis.stagnation("bfloat16", trials=5)
    assert brain.nearest_at_n == pytest.approx(0.648, abs=0.001)
    assert 0.01 < brain.mean_at_n < 0.06 and brain.worst_at_n < 0.16
    uniform = analysis.stagnation("bfloat16", 10**5, series="uniform", trials=10)
    assert uniform.nearest_at_n == pytest.approx(0.995, abs=0.001)
    assert 0.01 < uniform.stochastic[-1] < 0.1


def test_matrix_vector_products_leave_the_square_root_law():
    found = analysis.matvec_backward("binary16", 10**4, trials=2)
    assert found.nearest[-1] == pytest.approx(0.26, abs=0.02)
    assert found.stochastic[-1] < found.probabilistic_bound[-1] < found.nearest[-1]
    found = analysis.matvec_backward("bfloat16", 1000, trials=2)
    assert 0.2 < found.nearest[-1] < 0.35 and 0.06 < found.stochastic[-1] < 0.124


def test_inner_products_of_mean_zero_stay_flat():
    found = analysis.dot_backward("binary16", 10**5, trials=6)
    at = dict(zip(found.n.tolist(), zip(found.positive, found.symmetric, strict=True), strict=True))
    assert 0.002 < at[1000][0] < 0.012
    assert at[10_000][0] == pytest.approx(0.25, abs=0.02)
    assert at[100_000][0] == pytest.approx(0.918, abs=0.005)
    assert max(found.symmetric) < 4e-4
    assert np.all(found.positive <= found.deterministic_bound)


# ---------------------------------------------------------------- algorithms
def test_summation_algorithms_at_full_length():
    single = analysis.sum_algorithms("binary32")
    assert 2e-6 < single.recursive[-1] < 2e-5 and 2e-7 < single.blocked[-1] < 1.5e-6
    for name in ("pairwise", "kahan", "fabsum", "neumaier", "exact"):
        assert single.arrays[name][-1] <= 6e-8, name
    brain = analysis.sum_algorithms("bfloat16")
    assert brain.recursive[-1] > 0.99 and brain.neumaier[-1] > 0.98  # its correction stagnates too
    assert brain.blocked[-1] == pytest.approx(0.5, abs=0.01)
    for name in ("pairwise", "kahan", "fabsum"):
        assert brain.arrays[name][-1] < 2.0**-8, name
    for study in (single, brain):
        for name, bound in study.bounds.items():
            known = np.isfinite(bound) & np.isfinite(study.arrays[name])
            assert np.all(study.arrays[name][known] <= 1.0001 * bound[known]), name
    assert np.isnan(single.accsum[-1]) and single.accsum[0] <= 2.0**-23
    assert np.all(single.klein <= 2.0**-24) and np.all(single.sumk <= 2.0**-24)


def test_chunks_save_a_long_sum():
    """Wang et al. (2018), figure 3b: without chunks the sum stops at 4096."""
    found = analysis.chunked_dot()
    at = dict(zip(found.chunk.tolist(), found.value.tolist(), strict=True))
    error = dict(zip(found.chunk.tolist(), found.error.tolist(), strict=True))
    assert at[1] == 4096 and at[8] == pytest.approx(16800, rel=0.02)
    assert error[32] < 0.02 and error[64] < 0.005 and error[128] < 0.005
    assert found.stochastic_mean == pytest.approx(found.exact, rel=0.03)
    assert 800 < found.stochastic_deviation < 3000


def test_knees_lie_at_powers_of_the_condition_number():
    found = analysis.condition_sweep("binary32", points=9, trials=3)
    u = 2.0**-24
    for power, name in ((1, "recursive"), (2, "neumaier"), (3, "sumk")):
        bound = found.condition * u**power
        errors = found.arrays[name]
        assert np.all(errors <= np.minimum(60 * (u + bound), 1)), name
        assert np.all(errors[bound > 100] > 0.1), name
        assert np.all(errors[bound < u] <= 2 * u), name
    assert np.all(found.exact <= u) and np.all(found.accsum <= 2 * u)
    ours = {p.quantity.split(":")[0]: float(p.ours.removeprefix("u^")) for p in found.published}
    assert ours == {name: pytest.approx(p, abs=0.3) for name, p in
                    (("recursive", -1), ("neumaier", -2), ("sumk", -3))}  # fmt: skip


def test_inner_products_have_their_knees_too():
    found = analysis.condition_sweep("binary32", 60, problem="dot", points=9, trials=3)
    u = 2.0**-24
    for power, name in ((1, "recursive"), (1, "fused"), (2, "dot2"), (3, "dot3")):
        bound, errors = found.condition * u**power, found.arrays[name]
        assert np.all(errors <= np.minimum(60 * (u + bound), 1)), name
        assert np.all(errors[bound > 100] > 0.1), name
    assert np.all(found.exact <= u)
    with pytest.raises(ValueError, match="algorithm must be one of 'recursive', 'fused'"):
        analysis.condition_sweep(problem="dot", algorithms="kahan")


@pytest.mark.parametrize("target", [10.0, 1e8, 1e20])
def test_generated_sums_and_products_have_the_condition_number(target):
    x = analysis.ill_conditioned_sum(40, target, "binary64", seed=2)
    assert target / 30 < analysis.sum_condition(x) < 1000 * target
    x, y = analysis.ill_conditioned_dot(40, target, "binary64", seed=2)
    assert target / 30 < analysis.dot_condition(x, y) < 1000 * target
    x = analysis.ill_conditioned_sum(40, target, "binary32", seed=2)
    assert x.dtype == np.float32 and target / 30 < analysis.sum_condition(x) < 1000 * target
    with pytest.raises(ValueError, match="use a wider format"):
        analysis.ill_conditioned_sum(40, 1e20, "binary16")


# ---------------------------------------------------------------- roundings
def test_few_random_bits_have_a_known_bias():
    found = analysis.sr_bias("bfloat16", extra=4, bits=[3])
    assert (found.A[0], found.B[0], found.C[0]) == (-0.03125, 0.03125, 0.0)
    found = analysis.sr_bias("binary16", extra=4)
    for variant in "ABC":
        assert (
            np.all(found.arrays[f"{variant}_largest"] < 2.0 ** -np.array(found.bits, float))
            or variant == "B"
        )
        assert np.all(found.arrays[f"{variant}_largest"][3:] == 0)


@pytest.mark.parametrize("operation", ["add", "multiply", "divide", "sqrt"])
def test_double_rounding_is_innocuous_from_2p_plus_2_digits(operation):
    found = analysis.double_rounding("float8_e4m3fn", operation)
    assert found.differ[list(found.digits).index(10)] == 0
    assert found.differ[1] > 0
    values = sf.decode(np.arange(128), "float8_e4m3fn")[:-1].astype(float)
    if operation == "sqrt":
        once = sf.sqrt(values, "float8_e4m3fn")
        twice = sf.quantize(sf.sqrt(values, sf.Format(11, 4)), "float8_e4m3fn")
        assert found.differ[1] == np.count_nonzero(once != twice)


def test_stochastic_sums_are_unbiased_and_spread_like_a_root():
    found = analysis.sr_sums("bfloat16", 1000, trials=300, seed=2)
    for name in ("", "pairwise_"):
        mean, spread = found.arrays[f"{name}mean"], np.array(found.arrays[f"{name}deviation"])
        assert np.all(np.abs(mean) < 4 * spread / math.sqrt(300))
        # Chebyshev's bound is that of the deviation, divided by the root of the probability.
        assert np.all(spread < found.arrays[f"{name}bound"] * math.sqrt(0.05) * 1.2)
    assert found.beyond <= 0.05 and found.pairwise_deviation[-1] < found.deviation[-1] / 4
    few = analysis.sr_sums("bfloat16", 1000, trials=300, bits=1, seed=2)
    assert few.mean[-1] < found.mean[-1] - 0.01  # one random bit: biased down
    with pytest.raises(ValueError, match="a probability between 0 and 1"):
        analysis.sr_sums(failure=1)


def test_double_rounding_of_wide_formats_is_sampled():
    found = analysis.double_rounding("binary16", "add", samples=5000, seed=1)
    assert found.low[1] <= found.share[1] <= found.high[1] and "seed 1" in found.caption
    with pytest.raises(ValueError, match="deterministic"):
        analysis.double_rounding(rounding="stochastic")


# ---------------------------------------------------------------- iterations, matrices
def test_eulers_method_stands_still_to_nearest():
    for fmt in ("binary16", "bfloat16"):
        found = analysis.euler(fmt, 64, trials=60)
        assert np.all(found.nearest[4:] == found.plateau)
        assert found.plateau == pytest.approx(7.809e-4, abs=1e-7)
        assert found.mean_of_y_error[-1] < 5e-4
        # Stochastic rounding is no better per run where one step is coarser than the solution.
        low, high = (3e-4, 7e-4) if fmt == "binary16" else (8e-4, 1.8e-3)
        assert low < found.stochastic[-1] < high


def test_a_circle_of_small_steps_is_kept_by_stochastic_rounding():
    found = analysis.euler("bfloat16", 1024, trials=20)
    assert found.circle_nearest[-1] > 10 * found.circle_truncation[-1]
    assert found.circle_stochastic[-1] < found.circle_nearest[-1] / 2
    wide = analysis.euler("binary64", 64, trials=2)
    assert np.allclose(wide.circle_nearest, wide.circle_truncation, rtol=1e-9)  # the method's own


def test_the_logistic_map_keeps_steps_by_precision():
    found = analysis.logistic_map()
    assert found.steps_kept == sorted(found.steps_kept)
    assert found.lyapunov == pytest.approx(0.5, abs=0.05)
    assert np.all(np.abs(np.array(found.steps_kept) - found.predicted) < 12)


def test_narrow_accumulators_of_engines_drift():
    found = analysis.matmul_engine("h100_fp8", 4096, size=16)
    at = list(found.n).index
    assert found.largest[at(1024)] == pytest.approx(0.015, abs=0.002)
    assert found.largest[at(4096)] == pytest.approx(0.07, abs=0.007)
    assert np.all(found.mean < 0) and found.promoted_largest[at(4096)] < 9e-4
    normal = analysis.matmul_engine("h100_fp8", 4096, size=24, distribution="normal")
    assert 5e-4 < normal.median[-1] < 2e-3 and 1e-4 < normal.backward[-1] < 6e-4
    assert np.all(found.backward <= found.bound) and found.bound[0] < 0.1
    with pytest.raises(ValueError, match="unknown engine"):
        analysis.matmul_engine("h100_fp9")
    assert (
        analysis.matmul_engine(n=128, size=2, fmt="float8_e5m2").settings["format"] == "float8_e5m2"
    )
    with pytest.raises(
        ValueError, match="h100_fp8 takes numbers in float8_e4m3fn, float8_e5m2, got fmt=bfloat16"
    ):
        analysis.matmul_engine(fmt="bfloat16")


def test_linear_systems_stay_below_their_bounds():
    found = analysis.lu_backward("binary16", 40, trials=3)
    assert np.all(found.largest <= found.probabilistic)
    a = np.array([[2.0, 1.0], [4.0, 3.0]])
    factors, order = analysis.lu(a, "binary64")
    assert order.tolist() == [1, 0] and factors.tolist() == [[4.0, 3.0], [0.5, -0.5]]
    assert analysis.solve_lu(factors, order, np.array([3.0, 7.0]), "binary64").tolist() == [
        1.0,
        1.0,
    ]
    with pytest.raises(np.linalg.LinAlgError, match="singular in binary16"):
        analysis.lu(np.ones((2, 2)), "binary16")
    narrow = analysis.lu_backward("float4_e2m1fn", 12, trials=3)
    assert narrow.singular > 0 and np.all(narrow.largest <= 1)


def test_refinement_reaches_the_working_precision():
    found = analysis.refinement()
    u = 2.0**-24
    assert found.forward[0] > 1e-3 and found.final_forward < 2 * u and found.final_backward < u


def test_an_accumulator_is_wide_enough_from_some_width_on():
    found = analysis.accumulator_width(bits=[5, 8, 11, 14], size=6)
    assert np.all(found.nearest <= found.zero) and np.all(found.nearest <= found.bound)
    assert found.smallest in (8, 11, 14)
    assert np.all(np.diff(found.swamped) < 0) and found.retained[-1] == pytest.approx(1, abs=1e-3)


def test_swamped_products_are_those_that_change_nothing():
    """One term after the other, in plain Python."""
    found = analysis.accumulator_width("float8_e4m3fn", 40, bits=[3], size=2, seed=3)
    draw = lambda i: np.random.default_rng([3, i]).standard_normal((2, 40))  # noqa: E731
    a, b = (sf.quantize(draw(i), "float8_e4m3fn").astype(float) for i in (0, 1))
    same = count = 0
    for row in a:
        for column in b:
            s = 0.0
            for term in row * column:
                t = float(sf.add(s, term, sf.Format(8, 3)))
                count += term != 0
                same += term != 0 and t == s
                s = t
    assert found.swamped[0] == same / count


def test_blocks_lower_the_error_of_inner_products():
    found = analysis.matmul_block(size=4)
    at = dict(zip(found.block, zip(found.same, found.wide, strict=True), strict=True))
    assert at[1][0] == at[4096][0] == at[4096][1] > 0.5  # the plain sum stands still
    assert at[64][0] < 0.03 and at[64][1] < 0.02
    assert np.all(found.same <= found.bound * 1.05)


def test_updates_are_lost_to_nearest_and_kept_on_average():
    """1 + 1000 x 1e-3 in bfloat16: nearest 1, Kahan 2, stochastic mean 2.00, deviation 0.08."""
    found = analysis.updates()
    assert (found.nearest, found.kahan) == (1.0, 2.0)
    assert found.low < found.exact < found.high and found.mean == pytest.approx(2.0, abs=0.01)
    assert found.deviation == pytest.approx(0.08, abs=0.02)
    assert found.predicted_deviation == pytest.approx(0.0825, abs=0.001)
    assert found.runs.sum() == 1000


def test_loss_scales_trade_zeros_for_overflows():
    found = analysis.loss_scaling(n=20_000)
    assert np.all(np.diff(found.zero) <= 0) and np.all(np.diff(found.overflow) >= 0)
    exact = 0.5 * math.erfc((26 - 25) / 6 / math.sqrt(2))  # above 2**-25, half the smallest
    assert 1 - found.zero[0] == pytest.approx(exact, abs=0.012)
    assert (
        found.swallowed[found.log2_ratio.index(12) :].min() == 1
    )  # Micikevicius et al.: 2048 times smaller
    assert found.swallowed[: found.log2_ratio.index(10)].max() == 0
    assert found.swallowed[found.log2_ratio.index(11)] == pytest.approx(0.5, abs=0.05)


def test_training_in_fixed_point_needs_stochastic_rounding():
    """Gupta et al. (2015), on small data: float is near stochastic, and to nearest fails."""
    found = analysis.fixed_point_sr("Q7.8", 12)
    assert found.stochastic[0] < found.float32 + 3 < 15 < 30 < found.nearest[0]
    assert found.nearest_flushed[0] > 30


# ---------------------------------------------------------------- what every result offers
# Quick sizes are too small for what was published on stagnation, chunks and engines.
WITHOUT_LITERATURE = (
    "associativity", "distributivity", "stagnation", "chunked_dot", "sr_bias", "logistic_map", "updates",
    "matmul_block", "matmul_engine",
)  # fmt: skip


@pytest.mark.parametrize("name", analysis.STUDIES)
def test_every_study_has_table_json_csv_and_figure(name, tmp_path):
    found = quick(name)
    assert found.name == name and found.caption.endswith(".") and found.settings
    data = json.loads(found.to_json())
    assert data["study"] == name and data["caption"] == found.caption
    assert found.table() and found.table() in repr(found)
    heading, *rows = csv.reader(io.StringIO(found.to_csv()))
    assert rows and all(len(row) == len(heading) for row in rows)
    found.plot(tmp_path / "figure.svg")
    ElementTree.parse(tmp_path / "figure.svg")
    found.plot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    drawn = [line.kind for panel in found.panels for line in panel.lines]
    assert "bound" in drawn or name == "reveal_order"
    assert found.published or name in WITHOUT_LITERATURE
    assert quick(name).to_json() == found.to_json()


def test_a_study_of_unknown_name_or_argument():
    with pytest.raises(ValueError, match="did you mean harmonic"):
        analysis.study("harmonics")
    with pytest.raises(TypeError, match="has no argument sise"):
        analysis.study("euler").run(sise=3)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = quick("sr_bias").nothing


def test_points_are_tracked_and_taken_from_an_earlier_run():
    seen, kept = [], {}
    tracker = analysis.Tracker(lambda *report: seen.append(report), None, kept.__setitem__)
    with analysis.tracked(tracker):
        values = measured("part", [1, 2, 3], lambda k: [k / 3, math.inf])
    assert seen == [("part", 1, 3), ("part", 2, 3), ("part", 3, 3)]
    restored = json.loads(json.dumps(kept))
    with analysis.tracked(analysis.Tracker(known=restored)):
        assert measured("part", [1, 2, 3], lambda k: pytest.fail("computed again")) == values


def test_figures_leave_matplotlib_as_it_was():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure = quick("sr_bias").plot()
    assert dict(matplotlib.rcParams) == before and figure.axes


def test_a_panel_of_each_kind_draws_zeros_and_single_points():
    lines = (Line("a", [1, 2], [0.0, 1.0]), Line("b", [1], [2.0], low=[1.0], high=[3.0]))
    study = analysis.Study("x", "t", "c.", {}, panels=(Panel("x", "y", lines, "log2", "log"),))
    assert study.plot().axes
    with pytest.raises(ValueError, match="no figure"):
        analysis.Study("x", "t", "c.", {}).plot()


ODD_FORMATS = [
    sf.float8_e4m3fnuz, sf.float8_e8m0fnu, sf.binary64,
    *(
        pytest.param(fmt, marks=pytest.mark.exhaustive)
        for fmt in (sf.dlfloat16, sf.p3109(8, 5, signed=False), sf.Format(3, 0), sf.Format(5, 2, subnormals="grid"))
    ),
]  # fmt: skip


@pytest.mark.parametrize("fmt", ODD_FORMATS, ids=lambda f: f.label)
def test_studies_take_any_format_or_say_why_not(fmt):
    for name in (
        "associativity",
        "order_sweep",
        "harmonic",
        "stagnation",
        "chunked_dot",
        "sr_bias",
        "loss_scaling",
    ):
        try:
            found = quick(name, fmt=fmt)
        except ValueError as error:  # binary64 has no room for more bits
            assert "use a smaller extra=" in str(error)
            continue
        assert fmt.label in found.to_json() and found.table()


def test_fixed_point_where_it_has_a_meaning():
    fixed = sf.FixedPoint(3, 4)
    assert quick("harmonic", fmt=[fixed]).value[0] > 1
    # Integers that wrap form a ring; where they saturate, the order counts.
    wrapped = analysis.associativity(sf.FixedPoint(3, 4, overflow="wrap"))
    assert (wrapped.differ, wrapped.triples) == (0, 256**3)
    assert analysis.associativity(fixed).differ > 0 and analysis.distributivity(fixed).differ > 0
    with pytest.raises(TypeError, match="give a floating-point format"):
        analysis.order_sweep(np.ones(3), fixed)


def test_gamma_by_hand():
    assert orders.gamma(3, sf.bfloat16) == pytest.approx(
        float(Fraction(3, 256) / (1 - Fraction(3, 256)))
    )
    assert orders.gamma(300, sf.bfloat16) == math.inf
    assert orders.roundoff(sf.bfloat16, "toward_zero") == 2.0**-7
