"""What one thread of a device does, run on the CPU over whole results: the bits of the CPU's functions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import assert_same_bits

import softfloat as sf
from softfloat._jit import jit
from softfloat.engines import presets

pytest.importorskip("numba_cuda")


def bits(x):
    return np.ascontiguousarray(x, np.float64).reshape(-1).view(np.int64)


NONE = np.zeros(0, np.int64)
ALONE = np.zeros(1, np.int64)


# ---------------------------------------------------------------- engines
def operands_of(engine, shape, rng):
    """(a, b, c, options) with everything but NaN: large and tiny numbers, zeros, an infinity where there is one."""
    m, k, n = shape
    fmt, other = engine.inputs[0], engine.inputs[-1]
    spread = lambda *size: rng.standard_normal(size) * np.exp2(rng.integers(-9, 5, size))  # noqa: E731
    a, b = (
        sf.quantize(spread(m, k), fmt, saturate=True),
        sf.quantize(spread(k, n), other, saturate=True),
    )
    a[0, 0], a[1] = 0.0, 0.0
    if fmt.has_infinity:
        a[2, 3] = np.inf
    c = sf.quantize(spread(m, n), engine.acc)
    if engine.scales is None:
        return a, b, c, {}
    blocks = -(-k // engine.block)
    scales = [np.exp2(rng.integers(-4, 4, s)) for s in ((m, blocks), (blocks, n))]
    return a, b, c, dict(zip(("scale_a", "scale_b"), scales, strict=True))


def by_threads(engine, a, b, c, scales):
    """The product as threads of a device form it, each its element."""
    from softfloat.cuda.engine import ROOM, engine_element

    formats = engine.inputs[0], engine.inputs[-1]
    if engine.cut is not None:
        a, b = (
            sf.quantize(x, engine.cut, rounding="toward_zero", saturate="propagate") for x in (a, b)
        )
    (m, k), n = a.shape, b.shape[1]
    out = np.zeros(m * n, np.int64)
    more = NONE, NONE
    if scales:
        places = np.arange(k) // engine.block
        more = bits(scales["scale_a"][:, places]), bits(scales["scale_b"][places].T)
    arrays = out, bits(a), bits(b.T), *more, bits(c), ALONE, ALONE
    order = engine.places.astype(np.int64)
    records = tuple(tuple(np.int64(x) for x in record) for record in engine.records)
    shape = np.int64(1), np.int64(m), np.int64(n)
    given = shape, np.int64(k), order, engine.parameters(*formats), records
    state = np.zeros(ROOM, np.int64)
    for e in range(m * n):
        engine_element(e, arrays, state, given)
    return out.view(np.float64).reshape(m, n)


# One of each way to add; the others differ in numbers.
USUAL = (
    "h100_fp8", "h100_fp8_mma", "a100_tf32", "cdna3_fp8", "cdna2_bf16", "avx512_bf16", "amx_bf16",
    "arm_bf16_ebf", "cdna1_fp16_exact", "b200_mxf8f6f4", "b200_nvfp4", "nvidia_fp64",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [n if n in USUAL else pytest.param(n, marks=pytest.mark.exhaustive) for n in presets()],
)
def test_engines_have_the_bits_of_the_cpu(name):
    engine = presets()[name]
    a, b, c, scales = operands_of(engine, (17, 70, 13), np.random.default_rng(4))
    own = sf.array(a, engine.inputs[0]), sf.array(b, engine.inputs[-1])  # which says their formats
    wanted = sf.matmul(*own, engine.acc, engine=engine, c=c, **scales).to_numpy()
    assert_same_bits(by_threads(engine, a, b, c, scales).astype(wanted.dtype), wanted)


@pytest.mark.parametrize("runs", ["contiguous", "interleaved"])
def test_parts_of_an_engine_are_the_same_by_any_means(runs):
    """The order of parts and promotions, which CPU and device share, against loops written down here."""
    engine = replace(
        sf.engines.a100_fp16, split=3, split_tile=8, split_runs=runs, promote=16, split_order="pairwise"
    )  # fmt: skip
    plain = replace(engine, split=1, promote=None)
    rng = np.random.default_rng(0)
    a, b = (
        sf.quantize(rng.standard_normal(s).astype(np.float32), "binary16")
        for s in ((3, 77), (77, 2))
    )
    tiles = np.arange(77) // 8
    part = tiles // 4 if runs == "contiguous" else tiles % 3
    sums = []
    for p in range(3):
        k, total = np.flatnonzero(part == p), np.zeros((3, 2), np.float32)
        for i in range(0, k.size, 16):
            own = k[i : i + 16]
            total = total + sf.matmul(a[:, own], b[own], "binary32", engine=plain)
        sums.append(total)
    wanted = sums[2] + sums[0] + sums[1]  # the last part begins, and these two have no partners
    assert_same_bits(sf.matmul(a, b, "binary32", engine=engine), wanted)


# ---------------------------------------------------------------- sums
ORDERS = [
    {"order": "sequential"},
    {"order": "pairwise"},
    {"order": "lanes"},
    {"order": "blocked", "block": 37, "outer": "binary32"},
    {"order": "kahan"},
    {"order": "neumaier"},
]
DRAWN = {"rounding": "stochastic", "seed": 3}


def sum_by_threads(x, fmt, accumulator, order, options):
    """(the sum, how many threads made it)."""
    from softfloat.cuda import reduce
    from softfloat.ops.reduce import PLAIN, STATE, TALLY
    from softfloat.reductions import _DEFAULT, _How

    more = {k: v for k, v in order.items() if k != "order"}
    block, outer = more.get("block"), more.get("outer")
    how = _How(fmt, accumulator, _DEFAULT, order["order"], block, outer, None, None, dict(options))
    out, n = np.zeros(1, np.float32), x.size
    pieces, level = reduce.pieces_of(how.order, how.block, n, 1)
    partial = np.zeros(max(1, pieces), np.int64)
    arrays = out, bits(x), bits(x), ALONE, ALONE, NONE, partial
    shape = (np.int64(1),) * 3
    choice = tuple(np.int64(v) for v in (how.order, how.block, PLAIN, 0))
    F = tuple(tuple(np.int64(v) for v in record) for record in how.formats)
    R = tuple(rounding[:TALLY] for rounding in how.roundings())
    parts = np.int64(pieces), np.int64(level)
    given = shape, np.int64(n), parts, choice, F, R, np.uint64(how.key), np.int64(how.offset)
    state = np.zeros(STATE, np.int64)
    for t in reversed(range(pieces)):
        reduce.reduce_piece(t, arrays, state, given)
    (reduce.join_element if pieces else reduce.reduce_element)(0, arrays, state, given)
    return out[0], max(1, pieces)


@pytest.mark.parametrize("options", [{}, DRAWN], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order["order"])
def test_a_sum_by_many_threads_has_the_bits_of_the_cpu(order, options):
    rng = np.random.default_rng(8)
    for n in (1, 63, 128, 1000, 4096, 30_011):
        x = (rng.standard_normal(n) + 0.25).astype(np.float32)
        got, threads = sum_by_threads(x, "bfloat16", "binary16", order, options)
        assert_same_bits(got, sf.sum(x, "bfloat16", accumulator="binary16", **order, **options))
        if n > 1000:
            split = order["order"] in ("pairwise", "lanes", "blocked")
            assert threads >= 60 if split else threads == 1


# ---------------------------------------------------------------- tiles
def by_steps(tile, constants, a, b, key):
    """A product by the steps of a tile, term after term."""
    from softfloat.cuda.product import column_word, product_word, row_word

    step, random = tile.step, tile.random

    @jit
    def run(a, b, constants, key, out):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                acc = np.float32(0.0)
                for k in range(a.shape[1]):
                    y = np.uint32(0)
                    if random == 1:
                        y = product_word(row_word(key, i, k), column_word(key, j, k))
                    acc = step(acc, a[i, k], b[k, j], b[k, j], constants, y)
                out[i, j] = acc

    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    run(a, b, constants, np.uint64(key), out)
    return out


MODES = [str(mode) for mode in sf.Rounding if str(mode) != "stochastic_equal"]
DEFAULT_TILES = [
    ("bfloat16", "toward_negative"), ("binary16", "stochastic"), ("bfloat16", "stochastic"),
    ("float8_e4m3fnuz", "to_odd"), ("bfloat16", "ties_to_even"),
]  # fmt: skip
TILES = [
    pair if pair in DEFAULT_TILES else pytest.param(*pair, marks=pytest.mark.exhaustive)
    for pair in (
        (fmt, mode) for fmt in ("bfloat16", "binary16", "float8_e5m2", "float8_e4m3fnuz") for mode in MODES
    )
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "rounding"), TILES)
def test_steps_of_the_general_tile_have_the_bits_of_the_cpu(fmt, rounding):
    from test_cuda_ptx import general_tile

    from softfloat.functional import Choice

    rng = np.random.default_rng(1)
    scale = 2.0 ** (-4 if fmt == "binary16" else 0)  # some products are subnormal
    # Sums of few digits that are rounded up, or down, grow by a unit a term, and overflow sooner or later.
    n = (
        24
        if fmt.startswith("float8") and rounding in ("toward_positive", "toward_negative")
        else 90
    )
    a, b = (
        sf.quantize((rng.standard_normal(s) * scale).astype(np.float32), fmt) for s in ((40, n), (n, 33))
    )  # fmt: skip
    options = {"rounding": rounding} | (
        {"seed": 1, "random_bits": 13} if rounding == "stochastic" else {}
    )
    tile, constants = general_tile(fmt, rounding)
    got = by_steps(tile, constants, a, b, Choice(**options).key)
    wanted = sf.matmul(a, b, fmt, **options)
    assert np.isfinite(wanted).all() and math.isfinite(float(got.max()))
    assert_same_bits(got, wanted)
