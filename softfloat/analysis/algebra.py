"""Laws of algebra that rounding breaks: associativity and distributivity, counted over all triples of a small format.

Formats of up to 8 bits are exhausted by table look-ups; of larger ones, codes are drawn uniformly and the proportion
comes with its Wilson interval.
"""

import numpy as np

from softfloat import functional
from softfloat.analysis.result import BOUND, Line, Panel, Study, measured
from softfloat.analysis.statistics import (
    CONFIDENCE,
    checked_count,
    is_stochastic,
    options_of,
    wilson,
)
from softfloat.backends.defects import associativity_loop, distributivity_loop
from softfloat.formats import as_format
from softfloat.rounding import as_rounding

EXHAUSTIVE_BITS = 8
BATCH = 1 << 18  # sampled triples at a time
SAMPLED = 1 << 20
LAWS = {
    "addition": ("(a + b) + c against a + (b + c)", "add"),
    "multiplication": ("(a b) c against a (b c)", "multiply"),
    "distributivity": ("a (b + c) against a b + a c", None),
}
OPERATIONS = {"add": functional.add, "multiply": functional.multiply}


def finite_values(fmt):
    """All finite values of a format, in the order of its codes: -0 beside +0."""
    codes = np.arange(1 << fmt.bits, dtype=np.uint64)
    values = functional.decode(codes, fmt)
    return values[np.isfinite(values)]


def result_table(operation, values, fmt, options):
    """Numbers of the results among `values`, -1 where they are not finite, int16 (n, n)."""
    results = OPERATIONS[operation](values[:, None], values[None, :], fmt, **options)
    order = np.argsort(values, kind="stable")
    finite = np.isfinite(results)
    places = np.searchsorted(values[order], np.where(finite, results, 0.0))
    return np.where(finite, order[places], -1).astype(np.int16)


def associativity(fmt, operation="addition", *, rounding="ties_to_even", samples=SAMPLED, seed=0):
    """How often (a + b) + c and a + (b + c) differ, over triples of finite values whose sums stay finite.

    operation : "addition" or "multiplication".   samples, seed : for formats above 8 bits and stochastic rounding.
    Facts: differ, triples, share, and low and high, its 95 % interval, where triples were drawn. +0 and -0 are equal.

    >>> from softfloat.analysis import associativity
    >>> found = associativity("float4_e2m1fn")
    >>> found.differ, found.triples
    (948, 4096)
    """
    if operation not in ("addition", "multiplication"):
        raise ValueError(f'operation must be "addition" or "multiplication", got {operation!r}')
    return _law(operation, fmt, rounding, samples, seed)


def distributivity(fmt, *, rounding="ties_to_even", samples=SAMPLED, seed=0):
    """How often a (b + c) and a b + a c differ, as `associativity` counts."""
    return _law("distributivity", fmt, rounding, samples, seed)


def _law(law, fmt, rounding, samples, seed):
    fmt, rounding = as_format(fmt), as_rounding(rounding)
    samples = checked_count("samples", samples)
    exhaustive = fmt.bits <= EXHAUSTIVE_BITS and not is_stochastic(rounding)
    words = LAWS[law][0]
    if exhaustive:
        differ, triples, by_first = _exhausted(law, fmt, rounding)
        how = f"all {triples:,} triples of finite values whose results stay finite"
        facts = {"differ": differ, "triples": triples, "share": differ / max(triples, 1)}
    else:
        differ, triples = _drawn(law, fmt, rounding, samples, seed)
        low, high = wilson(differ, max(triples, 1))
        how = (
            f"{samples:,} triples of codes drawn uniformly (seed {seed}), {triples:,} with finite results; "
            f"Wilson interval at {CONFIDENCE:.0%}"
        )
        share = differ / max(triples, 1)
        facts = {"differ": differ, "triples": triples, "share": share, "low": low, "high": high}
        by_first = None
    return Study(
        name="distributivity" if law == "distributivity" else "associativity",
        title=f"{words}: {facts['share']:.2%} of triples differ in {fmt.label}",
        caption=f"{fmt.label}, {rounding}; {how}.",
        settings={
            "format": fmt.label,
            "law": law,
            "rounding": str(rounding),
            "exhaustive": exhaustive,
        }
        | ({} if exhaustive else {"samples": samples, "seed": seed}),
        facts=facts,
        arrays=_by_value(fmt, by_first),
        panels=(_panel(fmt, by_first, facts),),
        published=(),
    )


def _exhausted(law, fmt, rounding):
    values, options = finite_values(fmt), {"rounding": rounding}
    by_first = np.zeros(values.size, np.int64)
    names = ["add", "multiply"] if law == "distributivity" else [LAWS[law][1]]
    tables = [result_table(name, values, fmt, options) for name in names]
    loop = distributivity_loop if law == "distributivity" else associativity_loop
    counts = np.zeros(2, np.int64)
    loop(*tables, 0, values.size, counts, by_first)
    triples, differ = counts.tolist()
    return differ, triples, (values, by_first)


def _drawn(law, fmt, rounding, samples, seed):
    def batch(first):
        rng = np.random.default_rng([seed, first])
        size = min(BATCH, samples - first)
        codes = rng.integers(0, 1 << fmt.bits, (3, size), dtype=np.uint64)
        a, b, c = functional.decode(codes, fmt)
        left, right = _sides(law, a, b, c, fmt, rounding, seed, first)
        with np.errstate(invalid="ignore"):
            valid = np.isfinite(left) & np.isfinite(right)
            return [np.count_nonzero(valid & (left != right)), np.count_nonzero(valid)]

    counts = measured(law, range(0, samples, BATCH), batch)
    return sum(c[0] for c in counts), sum(c[1] for c in counts)


def _sides(law, a, b, c, fmt, rounding, seed, first):
    streams = iter(range(8))

    def apply(name, x, y):
        options = options_of(rounding, seed, next(streams))
        if "seed" in options:
            options["offset"] = first
        return OPERATIONS[name](x, y, fmt, **options)

    if law == "distributivity":
        left = apply("multiply", a, apply("add", b, c))
        return left, apply("add", apply("multiply", a, b), apply("multiply", a, c))
    name = LAWS[law][1]
    return apply(name, apply(name, a, b), c), apply(name, a, apply(name, b, c))


def _by_value(fmt, by_first):
    if by_first is None:
        return {}
    values, differ = by_first
    kept = values > 0
    return {"a": values[kept].astype(float), "differing_triples": differ[kept]}


def _panel(fmt, by_first, facts):
    if by_first is None:
        line = Line(
            "share, 95 % interval",
            ["sampled"],
            [facts["share"]],
            low=[facts["low"]],
            high=[facts["high"]],
        )
        return Panel(fmt.label, "share of triples that differ", (line,), kind="bars")
    values, differ = by_first
    kept = values > 0
    every = (values.size) ** 2
    lines = (
        Line("of the triples that begin with a", values[kept], differ[kept] / every),
        Line("of all triples", None, facts["share"], BOUND),
    )
    return Panel("a", "share of triples that differ", lines, x_scale="log", kind="lines")
