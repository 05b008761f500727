"""What kinds of rounding do: the bias of stochastic rounding with few random bits, and rounding twice.

Sources: Fitzgibbon and Felix, On stochastic rounding with few random bits (2025); Figueroa, When is double rounding
innocuous? (1995): p' >= 2 p + 2 digits on the way are enough for +, -, *, / and the square root.
"""

import numpy as np

from softfloat import functional
from softfloat.analysis.algebra import BATCH, EXHAUSTIVE_BITS, finite_values
from softfloat.analysis.result import BOUND, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    CONFIDENCE,
    as_floating,
    checked_count,
    is_stochastic,
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
    innocuous = [p for p, d in zip(precisions, differ, strict=True) if not d]
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
        facts={"innocuous_from_digits": min((p for p in innocuous if all(q in innocuous for q in precisions if q >= p)),
                                            default=None)},
        arrays=table,
        panels=(Panel("digits of the format on the way", "share of results that differ", lines),),
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
