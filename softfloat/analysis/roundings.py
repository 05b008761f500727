"""What kinds of rounding do: bias and spread of stochastic rounding, few random bits, and rounding twice.

Sources: Fitzgibbon and Felix, On stochastic rounding with few random bits (2025); Figueroa, When is double rounding
innocuous? (1995): p' >= 2 p + 2 digits on the way are enough for +, -, *, / and the square root; El Arar, Sohier, de
Oliveira Castro and Petit, Stochastic rounding variance and probabilistic bounds (2023), for sums of random roundings.
"""

import math

import numpy as np

from softfloat import functional, reductions
from softfloat.analysis.algebra import BATCH, EXHAUSTIVE_BITS, finite_values
from softfloat.analysis.exact import exact_sum
from softfloat.analysis.growth import sizes_up_to
from softfloat.analysis.result import BOUND, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    CONFIDENCE,
    as_floating,
    checked_count,
    deviation,
    is_stochastic,
    mean_interval,
    uniform,
    wilson,
)
from softfloat.format import Format
from softfloat.functional import quantize
from softfloat.rounding import as_rounding

VARIANTS = ("A", "B", "C")
OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt")
ROOM = (11, 52)  # exponent and significand bits of the widest intermediate format


def sr_bias(fmt="bfloat16", *, extra=4, bits=range(1, 9)):
    """The exact mean error of stochastic rounding with few random bits, in units of the last place.

    All numbers with `extra` bits below the last place of fmt in two neighbouring ulps at 1 (one even, one odd), and
    all random words, are taken: nothing is drawn. Table: bits, and for each variant of P3109 the mean (A, B, C) and the
    largest (A_largest, ...) absolute bias of one number.
    """
    fmt, extra = as_floating(fmt), checked_count("extra", extra)
    if fmt.mantissa_bits + extra > 50 or fmt.emax < 1:
        raise ValueError(
            f"{fmt.label} with {extra} bits more does not fit in float64; use a smaller extra="
        )
    x = 1 + np.arange(2 << extra) * fmt.epsilon * 2.0**-extra

    def bias(key):
        variant, count = key
        words = np.arange(1 << count)
        got = quantize(
            np.repeat(x[:, None], words.size, axis=1), fmt, rounding="stochastic", random=words[None, :],
            random_bits=count, variant=variant,
        )  # fmt: skip
        each = (got.astype(float) - x[:, None]).mean(axis=1) / fmt.epsilon
        return [each.mean(), np.abs(each).max()]

    bits = [int(b) for b in bits]
    keys = [(v, b) for v in VARIANTS for b in bits]
    found = np.array(measured("biases", keys, bias)).reshape(len(VARIANTS), len(bits), 2)
    table = {"bits": bits} | {v: found[i, :, 0] for i, v in enumerate(VARIANTS)}
    table |= {f"{v}_largest": found[i, :, 1] for i, v in enumerate(VARIANTS)}
    lines = [Line(f"variant {v}", bits, table[v]) for v in VARIANTS]
    lines += [Line("2**-bits", bits, 2.0 ** -np.array(bits, float), BOUND)]
    lines += [Line("-2**-bits", bits, -(2.0 ** -np.array(bits, float)), BOUND)]
    published = ()
    if extra == 4 and 3 in bits:
        ours = ", ".join(f"{table[v][bits.index(3)]:g}" for v in VARIANTS)
        source = "P3109 variants, worked out by hand"
        published = (
            Published("mean bias, 3 bits, in ulp: A, B, C", "-0.03125, 0.03125, 0", source, ours),
        )
    return Study(
        name="sr_bias",
        title=f"Bias of stochastic rounding with few random bits, {fmt.label}",
        caption=(
            f"{fmt.label}; all {2 << extra} numbers with {extra} bits below the last place in two ulps at 1, all "
            "random words: exact means, nothing is drawn."
        ),
        settings={"format": fmt.label, "extra": extra, "bits": bits},
        arrays=table,
        panels=(Panel("random bits", "mean bias (ulp)", tuple(lines)),),
        published=published,
    )


def sr_sums(fmt="bfloat16", n=4096, *, trials=200, bits=24, failure=0.05, seed=0):
    """Mean and deviation of the error of stochastic sums, one term after the other and pairwise, against their length.

    Terms are uniform in [0, 1), so that errors are relative to sum |x|. Unbiased rounding has mean error 0; an error
    beyond the bound of Bienayme and Chebyshev, sqrt(((1 + v**2)**k - 1) / failure) with v = 2**(1-p) and k = n - 1, or
    k = ceil(log2 n) pairwise, has at most the probability `failure`.   bits : random bits of a rounding.
    Table: n, mean, low and high (its 95 % interval), deviation and bound; the same pairwise. Fact: beyond, the share of
    all sums outside the bounds.
    """
    fmt, trials = as_floating(fmt), checked_count("trials", trials, 2)
    if not 0 < failure < 1:
        raise ValueError(f"failure must be a probability between 0 and 1, got {failure!r}")
    sizes = sizes_up_to(n, 4)
    terms = quantize(uniform(seed, sizes[-1]), fmt)
    orders = ("sequential", "pairwise")

    def errors(key):
        order, size = key
        rows = np.broadcast_to(terms[:size], (trials, size))  # each row has random words of its own
        got = reductions.sum(
            rows, fmt, axis=1, order=order, rounding="stochastic", seed=seed, random_bits=bits
        )
        exact = float(exact_sum(terms[:size], "binary64"))
        return (got.astype(float) - exact) / exact

    keys = [(order, size) for order in orders for size in sizes]
    found = np.reshape(measured("sums", keys, errors), (2, len(sizes), trials))
    table, count, beyond = {"n": np.array(sizes)}, np.array(sizes), 0
    lines, spread = [], []
    for order, rows, k in zip(orders, found, (count - 1, np.ceil(np.log2(count))), strict=True):
        mean, low, high = np.array([mean_interval(row) for row in rows]).T
        bound = np.sqrt(np.expm1(np.minimum(k * math.log1p(fmt.epsilon**2), 700)) / failure)
        own = {"mean": mean, "low": low, "high": high}
        own |= {"deviation": list(map(deviation, rows)), "bound": bound}
        table |= {
            (name if order == "sequential" else f"pairwise_{name}"): v for name, v in own.items()
        }
        beyond += np.count_nonzero(np.abs(rows) > bound[:, None])
        lines.append(Line(f"{order}: mean, 95 %", sizes, mean, low=low, high=high))
        spread.append(Line(f"deviation, {order}", sizes, own["deviation"]))
    spread += [
        Line("bound, sequential", sizes, np.minimum(table["bound"], 1), BOUND),
        Line("bound, pairwise", sizes, np.minimum(table["pairwise_bound"], 1), BOUND),
    ]
    return Study(
        name="sr_sums",
        title=f"Stochastic sums in {fmt.label}: no bias, and a spread that grows like a root",
        caption=(
            f"{fmt.label}, {bits} random bits; sums of the same uniform terms, {trials} runs a length (seed {seed}); "
            f"95 % intervals of the mean; bounds hold with probability {1 - failure:g} each."
        ),
        settings={"format": fmt.label, "n": sizes[-1], "trials": trials, "bits": bits, "failure": failure,
                  "seed": seed},
        facts={"beyond": beyond / found.size},
        arrays=table,
        panels=(
            Panel("n", "mean relative error", (*lines, Line("no bias", sizes, 0.0, BOUND)), x_scale="log"),
            Panel("n", "relative error", tuple(spread), x_scale="log", y_scale="log"),
        ),
        published=(
            Published("growth of the bound", "sqrt(n) u; pairwise sqrt(log n) u", "El Arar et al. (2023)",
                      f"deviation at n = {sizes[-1]:,}: {table['deviation'][-1] / fmt.epsilon:.2g} v; "
                      f"pairwise {table['pairwise_deviation'][-1] / fmt.epsilon:.2g} v"),
        ),
    )  # fmt: skip


def double_rounding(
    fmt="float8_e4m3fn", operation="multiply", *, rounding="ties_to_even", samples=1 << 18, seed=0
):
    """How often an operation rounded to fmt through a wider format differs from one rounded once.

    The way leads through formats of 11 exponent bits and up to 2 p + 2 digits, of the same rounding. All pairs of
    finite values up to 8 bits, else `samples` pairs of codes drawn uniformly. Table: digits (of the format on the
    way), differ, pairs, share, and low and high, the 95 % interval (of an exhaustive count: the share itself).
    """
    fmt, rounding = as_floating(fmt), as_rounding(rounding)
    if operation not in OPERATIONS:
        raise ValueError(
            f"operation must be one of {', '.join(map(repr, OPERATIONS))}, got {operation!r}"
        )
    if is_stochastic(rounding):
        raise ValueError(
            "double rounding is studied in deterministic modes; choose another rounding="
        )
    exhaustive = fmt.bits <= EXHAUSTIVE_BITS
    samples = checked_count("samples", samples)
    pairs = None if exhaustive else _pairs(fmt, samples, seed)
    if exhaustive:
        values = finite_values(fmt)
        pairs = (
            (values,)
            if operation == "sqrt"
            else tuple(v.ravel() for v in np.meshgrid(values, values))
        )
    operands = pairs[:1] if operation == "sqrt" else pairs
    compute = getattr(functional, operation)
    once = compute(*operands, fmt, rounding=rounding)
    precisions = range(fmt.precision, min(2 * fmt.precision + 2, ROOM[1] + 1) + 1)

    def count(precision):
        wide = Format(ROOM[0], precision - 1)
        twice = quantize(compute(*operands, wide, rounding=rounding), fmt, rounding=rounding)
        same = (once == twice) | (np.isnan(once) & np.isnan(twice))
        return int(np.count_nonzero(~same))

    differ = np.array(measured("digits", precisions, count))
    total = once.size
    bounds = [(d / total, d / total) if exhaustive else wilson(int(d), total) for d in differ]
    low, high = np.array(bounds).T
    table = {"digits": list(precisions), "differ": differ, "pairs": [total] * differ.size}
    table |= {"share": differ / total, "low": low, "high": high}
    enough = next((p for i, p in enumerate(precisions) if not differ[i:].any()), None)
    drawn = f"{total:,} pairs of codes drawn uniformly (seed {seed}), intervals at {CONFIDENCE:.0%}"
    what = f"all {total:,} operands" if exhaustive else drawn
    lines = (
        Line("share of results", list(precisions), table["share"], low=low, high=high),
        Line(
            "2 p + 2 digits",
            [2 * fmt.precision + 2] * 2,
            [0, max(table["share"].max(), 1e-9)],
            BOUND,
        ),
    )
    return Study(
        name="double_rounding",
        title=f"Rounding twice: {operation} to {fmt.label} through a wider format",
        caption=f"{fmt.label}, {rounding}; {what}; on the way 11 exponent bits and as many digits as the axis says.",
        settings={"format": fmt.label, "operation": operation, "rounding": str(rounding), "exhaustive": exhaustive}
        | ({} if exhaustive else {"samples": samples, "seed": seed}),
        facts={"innocuous_from_digits": enough},
        arrays=table,
        panels=(Panel("digits of the format on the way", "share of results that differ", lines),),
        published=(
            Published("digits that are enough", f"2 p + 2 = {2 * fmt.precision + 2}", "Figueroa (1995)",
                      f"{enough if enough is not None else 'none tried'} for these"),
        ),
    )  # fmt: skip


def _pairs(fmt, samples, seed):
    parts = []
    for first in range(0, samples, BATCH):
        rng = np.random.default_rng([seed, first])
        parts.append(
            rng.integers(0, 1 << fmt.bits, (2, min(BATCH, samples - first)), dtype=np.uint64)
        )
    a, b = functional.decode(np.concatenate(parts, axis=1), fmt)
    kept = np.isfinite(a) & np.isfinite(b)
    return a[kept], b[kept]
