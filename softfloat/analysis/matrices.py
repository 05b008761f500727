"""Matrix products on engines and in accumulators of any width; linear systems in low precision, and their refinement.

Sources: DeepSeek-V3 technical report, arXiv:2412.19437v2 (2024), section 3.3.2, for the FP8 accumulator; Blanchard et
al., Mixed precision block fused multiply-add: error analysis and application to GPU tensor cores (2020); Higham
(2002), ch. 9; Carson and Higham, Accelerating the solution of linear systems by iterative refinement in three
precisions (2018).
"""

import dataclasses
import math

import numpy as np

from softfloat import engines, products, reductions
from softfloat.analysis.exact import exact_dot
from softfloat.analysis.growth import growth_bound, probable_bound
from softfloat.analysis.measures import dot_backward_error, relative_error
from softfloat.analysis.orders import roundoff
from softfloat.analysis.result import BOUND, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    as_floating,
    checked_choice,
    checked_count,
    normal,
    options_of,
    uniform,
)
from softfloat.format import Format
from softfloat.formats import binary32, binary64
from softfloat.functional import add, divide, multiply, quantize, subtract
from softfloat.rounding import as_rounding

DISTRIBUTIONS = {"uniform": uniform, "normal": normal}


def _engine(engine):
    if isinstance(engine, str):
        known = engines.presets()
        if engine not in known:
            raise ValueError(f"unknown engine {engine!r}; choose from {', '.join(known)}")
        return known[engine]
    return engine


def _drawn(distribution, seed, size, n, fmt):
    draw = DISTRIBUTIONS[checked_choice("distribution", distribution, DISTRIBUTIONS)]
    return [quantize(draw([seed, i], size, n), fmt, saturate=True) for i in (0, 1)]


def matmul_engine(
    engine="h100_fp8", n=4096, *, fmt=None, size=32, distribution="uniform", promote=128, seed=0
):
    """Error of the inner products of a matrix engine against their length, with and without promotion.

    n : the largest length.   fmt : of the numbers, one that the engine takes, by default its first.
    size : rows and columns, so that size**2 products are measured.
    promote : products after which partial sums go to binary32, for the second measurement.
    Table: n, largest, median and mean (signed: the bias) relative error, the same promoted, backward (the largest
    backward error) and bound (of the backward error of the plain engine, to first order: see `_engine_bound`).
    """
    plain = _engine(engine)
    fmt = plain.inputs[0] if fmt is None else as_floating(fmt)
    if fmt not in plain.inputs:
        known = ", ".join(f.label for f in plain.inputs)
        raise ValueError(f"{plain.name} takes numbers in {known}, got fmt={fmt.label}")
    promoted = dataclasses.replace(plain, promote=checked_count("promote", promote))
    lengths = [1 << k for k in range(7, checked_count("n", n, 128).bit_length())]
    a, b = _drawn(distribution, seed, checked_count("size", size), lengths[-1], fmt)

    def errors(length):
        left, right = a[:, :length], b[:, :length]
        exact = exact_dot(left[:, None], right[None], None)
        wide = exact.astype(float)
        row, found = [], []
        for e in (plain, promoted):
            c = products.matmul(left, np.ascontiguousarray(right.T), binary32, engine=e)
            relative = relative_error(c, exact)
            row += [relative.max(), np.median(relative), np.mean((c - wide) / np.abs(wide))]
            found.append(c)
        return [*row, dot_backward_error(found[0], left[:, None], right[None]).max()]

    found = np.array(measured("lengths", lengths, errors)).T
    names = (
        "largest",
        "median",
        "mean",
        "promoted_largest",
        "promoted_median",
        "promoted_mean",
        "backward",
    )
    table = {"n": np.array(lengths), **dict(zip(names, found, strict=True))}
    table["bound"] = _engine_bound(plain, np.array(lengths))
    lines = (
        Line("largest", lengths, table["largest"]),
        Line("median", lengths, table["median"]),
        Line(f"promoted every {promote}: largest", lengths, table["promoted_largest"]),
        Line("|mean|, the bias", lengths, np.abs(table["mean"])),
        Line("bound of the engine, numbers of one sign", lengths, table["bound"], BOUND),
        Line("n u of binary32", lengths, np.array(lengths) * binary32.unit_roundoff, BOUND),
    )
    published = ()
    if plain.name == "h100_fp8" and 4096 in lengths:
        ours = f"{table['largest'][lengths.index(4096)]:.2%} ({distribution} numbers)"
        source = "DeepSeek-V3 (2024), 3.3.2; distribution and norm are not stated there"
        published = (Published("largest relative error, K = 4096", "nearly 2 %", source, ours),)
    return Study(
        name="matmul_engine",
        title=f"Error of {plain.name} against the length of its sums",
        caption=(
            f"{plain.name}: {size}x{size} inner products of {distribution} numbers in {fmt.label} "
            f"(seed {seed}); evidence for the engine: {plain.evidence}."
        ),
        settings={"engine": plain.name, "format": fmt.label, "n": lengths[-1], "size": size,
                  "distribution": distribution, "promote": promote, "seed": seed},
        arrays=table,
        panels=(Panel("n", "relative error", lines, x_scale="log2", y_scale="log"),),
        published=published,
    )  # fmt: skip


def _engine_bound(engine, n):
    """The backward error of n products, to first order, at most 1.

    A step adds L aligned terms and the accumulator. Where F fraction bits are kept, each of the L + 1 loses at most
    2**(E - F), and 2**E is at most twice the largest of them; then the sum is cut to the accumulator's digits. The
    magnitudes of all partial sums are at most |a|.|b| (Blanchard et al. 2020, for engines that keep every bit).
    """
    steps = np.ceil(n / engine.L)
    kept = 0.0 if engine.F is None else (engine.L + 1) * 2.0 ** (1 - engine.F)
    digits = engine.acc.mantissa_bits if engine.out_man is None else engine.out_man
    return np.minimum(steps * (kept + 2.0**-digits), 1)


def accumulator_width(fmt="float8_e4m3fn", n=1024, *, bits=range(4, 25), size=16, tolerance=1e-3,
                      distribution="normal", seed=0):  # fmt: skip
    """Backward error of products of narrow numbers against the significand bits of the accumulator (8 exponent bits).

    Products are exact, each addition is rounded. Table: bits, nearest, zero (truncated) and bound (n u); to nearest
    also swamped (the share of nonzero products that leave the sum as it is) and retained (the variance of the sums over
    that of exact ones, after Sakr et al. 2019). Facts: smallest, the fewest bits whose error to nearest is below the
    tolerance, or None.
    """
    fmt, n, bits = as_floating(fmt), checked_count("n", n), [int(b) for b in bits]
    a, b = _drawn(distribution, seed, checked_count("size", size), n, fmt)
    right = np.ascontiguousarray(b.T)

    def errors(key):
        mode, width = key
        wide = Format(8, width)
        c = products.matmul(a, right, wide, product=None, rounding=mode)
        error = dot_backward_error(c, a[:, None], b[None]).max()
        if mode != "ties_to_even":
            return [error, math.nan, math.nan]
        running = reductions.cumsum(terms, wide, axis=-1)
        same = np.diff(running, axis=-1, prepend=0) == 0
        return [error, np.mean(same[terms != 0]), np.var(running[..., -1].astype(float)) / variance]

    terms = a[:, None].astype(float) * b[None].astype(float)
    variance = np.var(exact_dot(a[:, None], b[None]))
    modes = ("ties_to_even", "toward_zero")
    keys = [(mode, width) for mode in modes for width in bits]
    found = np.reshape(measured("widths", keys, errors), (2, len(bits), 3))
    nearest, zero, (swamped, retained) = found[0, :, 0], found[1, :, 0], found[0, :, 1:].T
    bound = np.minimum(n * 2.0 ** -(np.array(bits) + 1.0), 1)
    good = [width for width, e in zip(bits, nearest, strict=True) if e < tolerance]
    lines = (
        Line("to nearest", bits, nearest),
        Line("toward zero", bits, zero),
        Line("n u", bits, bound, BOUND),
        Line(f"tolerance {tolerance:g}", bits, tolerance, BOUND),
    )
    return Study(
        name="accumulator_width",
        title=f"How wide an accumulator of {n:,} products of {fmt.label} must be",
        caption=(
            f"{distribution} numbers in {fmt.label} (seed {seed}), {size}x{size} inner products of {n:,} exact "
            "products; accumulators of 8 exponent bits, sequential; the largest backward error. Swamped: products that "
            "leave the sum as it is; retained: the variance of the sums over that of exact ones; both to nearest."
        ),
        settings={"format": fmt.label, "n": n, "bits": bits, "size": size, "tolerance": tolerance,
                  "distribution": distribution, "seed": seed},
        facts={"smallest": good[0] if good else None},
        arrays={"bits": bits, "nearest": nearest, "zero": zero, "bound": bound, "swamped": swamped,
                "retained": retained},
        panels=(
            Panel("significand bits of the accumulator", "backward error", lines, y_scale="log"),
            Panel("significand bits of the accumulator", "share", (
                Line("swamped products", bits, swamped), Line("variance retained", bits, retained),
                Line("all", bits, 1.0, BOUND),
            )),
        ),
        published=(
            Published("variance retained", "near 1 down to some width, then falls", "Sakr et al. (2019), as recalled",
                      f"{retained[0]:.3g} with {bits[0]} bits, {retained[-1]:.3g} with {bits[-1]}"),
        ),
    )  # fmt: skip


def matmul_block(fmt="bfloat16", n=4096, *, blocks=(1, 4, 16, 64, 256, 1024, 4096), outer="binary32", size=8,
                 distribution="uniform", rounding="ties_to_even", seed=0):  # fmt: skip
    """Backward error of inner products against the block of their sums, added in the same format or in a wider one.

    Products and the sums within a block are rounded to fmt. Table: block, same (the sums of blocks are added in fmt),
    wide (in `outer`) and bound ((b + n/b) u, of the first). A block of all n terms, or of one, is the plain sum.
    """
    fmt, outer, n = as_floating(fmt), as_floating(outer), checked_count("n", n)
    blocks, rounding = [checked_count("a block", int(b)) for b in blocks], as_rounding(rounding)
    options = options_of(rounding, seed)
    a, b = _drawn(distribution, seed, checked_count("size", size), n, fmt)
    right = np.ascontiguousarray(b.T)

    def errors(block):
        row = []
        for wide in (fmt, outer):
            c = products.matmul(
                a,
                right,
                wide,
                product=fmt,
                accumulator=fmt,
                order="blocked",
                block=block,
                outer=wide,
                **options,
            )
            row.append(dot_backward_error(c, a[:, None], b[None]).max())
        return row

    same, wide = np.array(measured("blocks", blocks, errors)).T
    sizes = np.minimum(blocks, n)
    bound = np.minimum((sizes + n / sizes) * roundoff(fmt, rounding), 1)
    lines = (
        Line(f"blocks added in {fmt.label}", blocks, same),
        Line(f"blocks added in {outer.label}", blocks, wide),
        Line("(b + n/b) u", blocks, bound, BOUND),
    )
    return Study(
        name="matmul_block",
        title=f"Inner products of {n:,} terms in {fmt.label}, summed in blocks",
        caption=(
            f"{size}x{size} inner products of {n:,} {distribution} numbers in {fmt.label} (seed {seed}), products and "
            f"blocks in {fmt.label}, {rounding}; the largest backward error."
        ),
        settings={"format": fmt.label, "n": n, "blocks": blocks, "outer": outer.label, "size": size,
                  "distribution": distribution, "rounding": str(rounding), "seed": seed},
        arrays={"block": blocks, "same": same, "wide": wide, "bound": bound},
        panels=(Panel("terms in a block", "backward error", lines, x_scale="log2", y_scale="log"),),
    )  # fmt: skip


# ---------------------------------------------------------------- linear systems
def lu(a, fmt, **options):
    """(L and U in one array, row order) of a square matrix, partial pivoting, every operation rounded to fmt.

    Raises numpy.linalg.LinAlgError, a ValueError, where a pivot is zero.
    """
    a = np.array(quantize(a, fmt, **options))
    order = np.arange(len(a))
    for k in range(len(a) - 1):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, pivot]], order[[k, pivot]] = a[[pivot, k]], order[[pivot, k]]
        if a[k, k] == 0:
            raise np.linalg.LinAlgError(
                f"the matrix is singular in {as_floating(fmt).label}: pivot {k} is zero"
            )
        own = _numbered(options, 3 * k)
        a[k + 1 :, k] = divide(a[k + 1 :, k], a[k, k], fmt, **own[0])
        update = multiply(a[k + 1 :, k, None], a[None, k, k + 1 :], fmt, **own[1])
        a[k + 1 :, k + 1 :] = subtract(a[k + 1 :, k + 1 :], update, fmt, **own[2])
    if a[-1, -1] == 0:
        raise np.linalg.LinAlgError(
            f"the matrix is singular in {as_floating(fmt).label}: the last pivot is zero"
        )
    return a, order


def solve_lu(factors, order, b, fmt, **options):
    """x of A x = b from `lu`, by rows of updates, every operation rounded to fmt."""
    x, n = np.array(quantize(b, fmt, **options))[order], len(b)
    for k in range(n):
        own = _numbered(options, 3 * (n + k))
        x[k + 1 :] = subtract(
            x[k + 1 :], multiply(factors[k + 1 :, k], x[k], fmt, **own[0]), fmt, **own[1]
        )
    for k in range(n - 1, -1, -1):
        own = _numbered(options, 3 * (2 * n + k))
        x[k] = divide(x[k], factors[k, k], fmt, **own[0])
        x[:k] = subtract(x[:k], multiply(factors[:k, k], x[k], fmt, **own[1]), fmt, **own[2])
    return x


def _numbered(options, first):
    """The options of three operations in a row, each with a stream of its own where one is needed."""
    return [options | ({"stream": first + i} if "seed" in options else {}) for i in range(3)]


def residual_error(a, x, b):
    """Normwise backward error |b - A x| / (|A| |x|) in the infinity norm, the residual exact."""
    extended = np.concatenate((np.asarray(a, float), -np.asarray(b, float)[:, None]), axis=1)
    residual = exact_dot(extended, np.append(np.asarray(x, float), 1.0), binary64)
    size = np.abs(a).sum(axis=1).max() * np.abs(x).max()
    return float(np.abs(residual).max() / size)


def lu_backward(fmt="binary16", n=100, *, trials=5, rounding="ties_to_even", seed=0):
    """Backward error of linear systems solved by LU with partial pivoting in one format, against their size.

    Matrices uniform in [-1, 1), right sides A times ones. Table: n, mean and largest error of the trials, bound
    (gamma_3n, at most 1) and probabilistic (gamma~_3n = exp(sqrt(3 n) u + 3 n u**2 / (1 - u)) - 1, at most 1). Fact:
    singular, the systems with a zero pivot, which count as errors of 1.
    """
    fmt, rounding, trials = as_floating(fmt), as_rounding(rounding), checked_count("trials", trials)
    sizes = sorted({int(round(v)) for v in np.geomspace(4, max(checked_count("n", n, 4), 5), 6)})

    def error(key):
        size, trial = key
        a = np.asarray(quantize(2 * uniform([seed, size, trial], size, size) - 1, fmt), float)
        b = np.asarray(quantize(a.sum(axis=1), fmt), float)
        options = options_of(rounding, seed + trial)
        try:
            factors, order = lu(a, fmt, **options)
        except np.linalg.LinAlgError:
            return [1.0, 1]
        off = residual_error(a, solve_lu(factors, order, b, fmt, **options), b)
        return [off if off < 1 else 1.0, 0]  # overflow, too, is an error of 1

    keys = [(size, trial) for size in sizes for trial in range(trials)]
    found, singular = np.array(measured("systems", keys, error)).T
    found, u, count = found.reshape(len(sizes), trials), roundoff(fmt, rounding), np.array(sizes)
    table = {"n": count, "mean": found.mean(axis=1), "largest": found.max(axis=1),
             "bound": growth_bound(3 * count, u), "probabilistic": probable_bound(3 * count, u, 1.0)}  # fmt: skip
    below = bool((table["largest"] <= table["probabilistic"]).all())
    lines = (
        Line(
            "mean of the trials", sizes, table["mean"], low=found.min(axis=1), high=table["largest"]
        ),
        Line("gamma_3n", sizes, table["bound"], BOUND),
        Line("of order sqrt(3 n) u", sizes, table["probabilistic"], BOUND),
    )
    return Study(
        name="lu_backward",
        title=f"Linear systems by LU in {fmt.label}: errors against worst case and probable growth",
        caption=(
            f"{fmt.label}, {rounding}, partial pivoting; uniform matrices, {trials} a size (seed {seed}), band: their "
            "range; errors above 1 count as 1. The bound of order sqrt(3 n) u is drawn with l = 1: no guarantee."
        ),
        settings={
            "format": fmt.label,
            "n": sizes[-1],
            "trials": trials,
            "rounding": str(rounding),
            "seed": seed,
        },
        facts={"singular": int(singular.sum())},
        arrays=table,
        panels=(Panel("n", "normwise backward error", lines, x_scale="log", y_scale="log"),),
        published=(
            Published("random systems", "lie below sqrt(n) u, far below n u", "Higham and Mary (2019)",
                      f"largest error {'below' if below else 'not below'} the bound of order sqrt(3 n) u"),
        ),
    )  # fmt: skip


def refinement(
    fmt="binary16",
    n=60,
    *,
    working="binary32",
    residual="binary64",
    condition=100.0,
    steps=8,
    rounding="ties_to_even",
    seed=0,
):
    """Iterative refinement in three precisions: LU in fmt, x in `working`, residuals in `residual`.

    The matrix has singular values from 1 down to 1/condition, geometrically. Convergence needs u_f condition < 1
    (Carson and Higham 2018). Table: step, forward (relative to the exact solution in the infinity norm) and backward.
    """
    low, work, fine = as_floating(fmt), as_floating(working), as_floating(residual)
    n, steps, rounding = (
        checked_count("n", n, 2),
        checked_count("steps", steps),
        as_rounding(rounding),
    )
    if not 1 <= condition < math.inf:
        raise ValueError(f"condition must be a number from 1 on, got {condition}")
    rng = np.random.default_rng(seed)
    q1, _ = np.linalg.qr(rng.standard_normal((n, n)))
    q2, _ = np.linalg.qr(rng.standard_normal((n, n)))
    a = np.asarray(quantize((q1 * np.geomspace(1, 1 / condition, n)) @ q2, work), float)
    b = np.asarray(quantize(rng.standard_normal(n), work), float)
    truth = _true_solution(a, b)
    factors, order = lu(a, low, **options_of(rounding, seed))
    start = solve_lu(factors, order, b, low, **options_of(rounding, seed))
    x, rows = np.asarray(quantize(start, work), float), []
    for number in range(steps + 1):
        rows.append([np.abs(x - truth).max() / np.abs(truth).max(), residual_error(a, x, b)])
        rest = np.asarray(
            products.matmul(np.c_[a, -b], np.append(x, 1.0), fine, product=None), float
        )
        size = np.abs(rest).max()
        if not (size > 0 and math.isfinite(size)):
            rows += [rows[-1]] * (steps + 1 - len(rows))
            break
        # Scaled, as binary16 has no range to waste; each step has random words of its own.
        options = options_of(rounding, seed + number + 1)
        correction = solve_lu(factors, order, -rest / size, low, **options)
        step = np.asarray(multiply(np.asarray(correction, float), size, work), float)
        x = np.asarray(add(x, step, work), float)
    forward, backward = np.array(rows).T
    table = {"step": np.arange(steps + 1), "forward": forward, "backward": backward}
    lines = (
        Line("forward error", table["step"], forward),
        Line("backward error", table["step"], backward),
        Line(f"u of {work.label}", table["step"], work.unit_roundoff, BOUND),
        Line(f"u of {low.label}", table["step"], low.unit_roundoff, BOUND),
    )
    return Study(
        name="refinement",
        title=f"Refinement: LU in {low.label}, results "
        + ("as good as" if forward[-1] <= 4 * work.unit_roundoff else "short of")
        + f" {work.label}",
        caption=(
            f"n = {n}, condition number {condition:g} (seed {seed}); LU in {low.label}, {rounding}, x in {work.label}, "
            f"residual in {fine.label}."
        ),
        settings={"format": low.label, "n": n, "working": work.label, "residual": fine.label,
                  "condition": condition, "steps": steps, "rounding": str(rounding), "seed": seed},
        facts={"final_forward": float(forward[-1]), "final_backward": float(backward[-1]),
               "u_condition": low.unit_roundoff * condition},
        arrays=table,
        panels=(Panel("refinement step", "error", lines, y_scale="log"),),
        published=(
            Published("limit of the forward error", f"u = {work.unit_roundoff:.2g} if u_f condition < 1",
                      "Carson and Higham (2018)",
                      f"{forward[-1]:.2g} at u_f condition = {low.unit_roundoff * condition:.2g}"),
        ),
    )  # fmt: skip


def _true_solution(a, b):
    """x of A x = b to binary64, by refinement with exact residuals."""
    x = np.linalg.solve(a, b)
    for _ in range(5):
        extended = np.concatenate((a, -b[:, None]), axis=1)
        x = x - np.linalg.solve(a, exact_dot(extended, np.append(x, 1.0), binary64))
    return x
