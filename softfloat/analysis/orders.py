"""What the order of a sum does to its result: all permutations of a few terms, random ones of many.

Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 4.2: the error of any order is at most
gamma_{n-1} sum |x_i|, with gamma_k = k u / (1 - k u).
"""

import itertools
import math

import numpy as np

from softfloat import reductions
from softfloat._jit import jit
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.result import BOUND, REFERENCE, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    as_floating,
    checked_count,
    checked_seed,
    is_nearest,
    is_stochastic,
    normal,
    options_of,
)
from softfloat.backends.threads import get_num_threads, run_parts
from softfloat.bits import u64
from softfloat.functional import quantize
from softfloat.operands import Held
from softfloat.random import WORD_BITS, element_word, key_word, make_key
from softfloat.rounding import as_rounding

EXHAUSTIVE_TERMS = 8  # 40,320 permutations
BATCH_NUMBERS = 1 << 22  # of permuted terms at a time
PART_NUMBERS = 1 << 15  # of permuted terms that a thread is worth waking for
EXACT_ORDERS = 100  # of which the sums are rounded once, too


def gamma(k, fmt, rounding="ties_to_even"):
    """k u / (1 - k u), infinite from k u = 1 on; u is 2**-p to nearest, 2**(1-p) in other modes."""
    product = k * roundoff(fmt, rounding)
    return product / (1 - product) if product < 1 else math.inf


def roundoff(fmt, rounding="ties_to_even"):
    """The largest relative error of one rounding in the normal range."""
    return fmt.unit_roundoff if is_nearest(rounding) else fmt.epsilon


def order_sweep(
    x=None,
    fmt=None,
    *,
    trials=2000,
    order="sequential",
    rounding="ties_to_even",
    seed=0,
    n=256,
    **how,
):
    """The sums of the terms of x in many orders: all of them up to 8 terms, else `trials` random permutations.

    x : terms, a SoftArray or any array; each is rounded to fmt first. Without x: n normal variates of this seed.
    fmt : by default that of a SoftArray, else binary16.   order, how : as for softfloat.sum: accumulator, block, ...
    Arrays: values (the distinct results, ascending) and counts. Extra: all_values (one for each order). Facts:
    distinct, lowest, highest, spread, deviation, exact (rounded to binary64), bound (Higham's, on |error|),
    predicted_deviation, u / sqrt(3) * sqrt(sum of squared partial sums) of the given order, and distinct_exact, the
    results of some of the orders where the sum is exact and rounded once.
    """
    fmt = as_floating(fmt if fmt is not None else x._format if isinstance(x, Held) else "binary16")
    rounding, trials = as_rounding(rounding), checked_count("trials", trials)
    drawn = x is None
    if drawn:
        x = normal(seed, checked_count("n", n, 2))
    terms = np.asarray(quantize(x._values if isinstance(x, Held) else x, fmt))
    terms = quantize(terms.reshape(-1), fmt, out=np.empty(terms.size, fmt.carrier))
    checked_seed(seed)
    size = checked_count("the number of terms", terms.size, 2)
    every = size <= EXHAUSTIVE_TERMS and not is_stochastic(rounding)
    total = math.factorial(size) if every else trials
    batch = max(1, BATCH_NUMBERS // size)

    def sums(first):
        stop = min(total, first + batch)
        rows = _orders(terms, first, stop, every, seed)
        options = options_of(rounding, seed) | how
        if is_stochastic(rounding):
            options["offset"] = first
        return reductions.sum(rows, fmt, axis=1, order=order, **options)

    found = np.concatenate(
        [np.asarray(v) for v in measured("orders", range(0, total, batch), sums)]
    )
    values, counts = np.unique(found, return_counts=True)
    some = _orders(terms, 0, min(total, EXACT_ORDERS), every, seed)
    facts = _facts(found, values, terms, fmt, rounding)
    facts["distinct_exact"] = int(np.unique(exact_sum(some, fmt, axis=1)).size)
    drawn_text = f"{size} normal variates (seed {seed})" if drawn else f"{size} given terms"
    orders = f"all {total:,} orders" if every else f"{total:,} random orders (seed {seed})"
    return Study(
        name="order_sweep",
        title=f"One sum, {facts['distinct']} results: the order decides in {fmt.label}",
        caption=f"{fmt.label}, {rounding}, {order} sums of {drawn_text} in {orders}.",
        settings={
            "format": fmt.label,
            "n": size,
            "orders": total,
            "exhaustive": every,
            "order": order,
        }
        | {"rounding": str(rounding), "seed": seed},
        facts=facts,
        arrays={"values": values, "counts": counts},
        extra={"all_values": found},
        panels=(_panel(values, counts, facts),),
        published=(
            Published(
                f"results of exact sums in {len(some):,} orders", "1", "ReproBLAS: the same in any order",
                str(facts["distinct_exact"]),
            ),
        ),
    )  # fmt: skip


@jit
def _shuffle(terms, key, first, rows):
    """Row r: the terms in random order number first + r, by Fisher and Yates; the bias of a draw is below n / 2**32."""
    for r in range(rows.shape[0]):
        own, row = key_word(key, first + r), rows[r]
        row[:] = terms
        for i in range(terms.size - 1, 0, -1):
            j = (element_word(own, i) * u64(i + 1)) >> u64(WORD_BITS)
            row[i], row[j] = row[j], row[i]


def _orders(terms, first, stop, every, seed):
    """The terms in the orders number first to stop, one to a row; a random one depends on seed and number only."""
    if every:
        chosen = itertools.islice(itertools.permutations(range(terms.size)), first, stop)
        return terms[np.array(list(chosen))]
    rows, key = np.empty((stop - first, terms.size), terms.dtype), make_key(seed, 0)
    count = max(1, PART_NUMBERS // terms.size)
    parts = [(at, min(stop, at + count)) for at in range(first, stop, count)]
    run_parts(
        lambda at, end: _shuffle(terms, key, at, rows[at - first : end - first]),
        parts,
        get_num_threads(),
    )
    return rows


def _facts(found, values, terms, fmt, rounding):
    wide = terms.astype(float)
    partial = np.cumsum(wide)[1:]
    u = roundoff(fmt, rounding)
    return {
        "distinct": int(values.size),
        "lowest": float(values.min()),
        "highest": float(values.max()),
        "spread": float(values.max() - values.min()),
        "deviation": float(found.astype(float).std()),
        "predicted_deviation": float(u / math.sqrt(3) * math.sqrt(np.sum(partial**2))),
        "exact": float(exact_sum(terms, "binary64")),
        "bound": float(gamma(terms.size - 1, fmt, rounding) * exact_sum(np.abs(terms), "binary64")),
    }


def around(middle, distance, label, top):
    """Upright lines at both sides of a number, of one dash and one entry of the legend."""
    x = [middle - distance] * 2 + [math.nan] + [middle + distance] * 2
    return (Line(label, x, [*top, math.nan, *top], BOUND),) if math.isfinite(distance) else ()


def _panel(values, counts, facts):
    lines = (Line("orders with this result", values, counts),)
    if math.isfinite(facts["exact"]):
        top = [0, int(counts.max())]
        lines += (Line("exact sum", [facts["exact"]] * 2, top, REFERENCE),)
        span = max(facts["spread"], abs(facts["exact"]) * 1e-6)
        if facts["bound"] < 20 * span:
            lines += around(facts["exact"], facts["bound"], "Higham's bound", top)
        lines += around(facts["exact"], facts["predicted_deviation"], "predicted deviation", top)
    note = f"results (Higham's bound: {facts['exact']:.5g} ± {facts['bound']:.3g})"
    return Panel(note, "number of orders", lines, kind="points")
