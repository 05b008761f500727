"""Matrix engines: recorded results of hardware, and an independent model in exact fractions."""

import contextlib
import dataclasses
import json
import math
import platform
from fractions import Fraction

import llvmlite.binding
import ml_dtypes
import numba
import numpy as np
import pytest
from helpers import DATA, NAMED, assert_same_bits, values_of
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

import softfloat as sf
from softfloat import engines
from softfloat.backends import engine as backend
from softfloat.bits import leave_standard_arithmetic

RECORDED = DATA / "engines" / "recordings.npz"
STORED = np.load(RECORDED)
META = json.loads(STORED["meta_json"].tobytes())
FORMATS = {"e4m3": NAMED["e4m3fn"], "e5m2": NAMED["e5m2"], "bf16": NAMED["bfloat16"]}
FORMATS |= {"fp16": NAMED["binary16"], "tf32": NAMED["binary32"]}
HALF = Fraction(1, 2)
DOTS = sorted({tuple(key.split("/")[1:3]) for key in STORED.files if key.startswith("hw/")})


def decoded(codes, fmt):
    return values_of(FORMATS[fmt], codes).astype(np.float32)


def dots(a, b, c, fmt, engine):
    """One inner product per row, as a batch."""
    found = sf.matmul(a[:, None, :], b[:, :, None], fmt, c=c[:, None, None], engine=engine)
    return found[:, 0, 0]


def recording(machine, fmt):
    a, b = (decoded(STORED[f"hw/{machine}/{fmt}/{x}"], fmt.lower()) for x in "ab")
    return a, b, STORED[f"hw/{machine}/{fmt}/c"].view(np.float32)


def preset(machine, fmt, accumulator):
    """The preset that stands for a recording."""
    narrow = fmt in ("E4M3", "E5M2")
    name = f"{machine.lower()}_{'fp8' if narrow else fmt}"
    hopper = machine in ("H100", "H200")
    if narrow and (machine == "B200" or (hopper and accumulator == "fp16")):
        name += "_mma"
    return getattr(engines, name + "_fp16" * (accumulator == "fp16"))


@pytest.mark.parametrize(("machine", "fmt"), DOTS)
def test_recorded_dots_with_binary32_accumulator(machine, fmt):
    a, b, c = recording(machine, fmt)
    if machine in ("H100", "H200") and fmt in ("E4M3", "E5M2"):
        c = np.zeros_like(c)  # recorded so
    got = dots(a, b, c, sf.binary32, preset(machine, fmt, "fp32"))
    want = STORED[f"hw/{machine}/{fmt}/d_fp32"].astype(np.uint32).view(np.float32)
    assert_same_bits(got, want)


@pytest.mark.parametrize(
    ("machine", "fmt"), [d for d in DOTS if "hw/{}/{}/d_fp16".format(*d) in STORED.files]
)
def test_recorded_dots_with_binary16_accumulator(machine, fmt):
    a, b, c = recording(machine, fmt)
    c = np.asarray(sf.quantize(c, sf.binary16))
    got = dots(a, b, c, sf.binary16, preset(machine, fmt, "fp16"))
    assert_same_bits(got, STORED[f"hw/{machine}/{fmt}/d_fp16"].astype(np.uint16).view(np.float16))


@pytest.mark.parametrize("case", META["mmaemu_cases"], ids=lambda case: case["key"])
def test_recorded_products_with_promotion_and_split(case):
    base = engines.h100_fp8 if case["engine"] == "hopper" else engines.ada_fp8
    runs = "contiguous" if case["engine"] == "hopper" else "interleaved"
    engine = dataclasses.replace(
        base,
        promote=None if case["fast"] else 128,
        split=case["S"],
        split_tile=128 if case["engine"] == "hopper" else 64,
        split_runs=runs,
        split_order="pairwise" if case["scheme"] == "pairwise" else "serial",
    )
    a = decoded(STORED[case["key"] + "/a"], case["fa"])
    b = decoded(STORED[case["key"] + "/b"], case["fb"])
    got = sf.matmul(a, b.T, sf.binary32, engine=engine)
    assert_same_bits(got, STORED[case["key"] + "/d"].astype(np.uint32).view(np.float32))


@pytest.mark.parametrize("kind", ["unit", "wide", "low", "any"])
def test_recorded_vdpbf16ps(kind):
    with np.load(DATA / "engines" / "vdpbf16ps.npz") as stored:
        a, b = (decoded(stored[f"{kind}/{x}"], "bf16") for x in "ab")
        c, d = (stored[f"{kind}/{x}"].view(np.float32) for x in "cd")
    assert_same_bits(dots(a, b, c, sf.binary32, engines.avx512_bf16), d)


# ---------------------------------------------------------------- an independent model, in fractions
def exponent(x):
    """floor(log2 |x|) of a non-zero fraction."""
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    return e if abs(x) >= Fraction(2) ** e else e - 1


def on_grid(x, grid, mode):
    """|x| as a whole number of steps 2**grid, rounded."""
    steps = abs(x) / Fraction(2) ** grid
    n = steps.numerator // steps.denominator
    rest = steps - n
    if mode == "ties_to_even":
        return n + (rest > HALF or (rest == HALF and n % 2))
    if mode == "ties_to_away":
        return n + (rest >= HALF)
    if mode == "to_odd":
        return n + (rest > 0 and n % 2 == 0)
    up = (mode == "toward_positive" and x > 0) or (mode == "toward_negative" and x < 0)
    return n + (rest > 0 and up)


def rounded(x, man, acc, mode, ftz, signed=True):
    """A non-zero fraction as a float of so many fraction bits, in the range of acc; overflow is infinite."""
    sign = -1.0 if x < 0 else 1.0
    e = exponent(x)
    unbounded = on_grid(x, e - man, mode) * Fraction(2) ** (e - man)
    if ftz and unbounded < Fraction(2) ** acc.emin:
        return sign * 0.0 if signed else 0.0
    grid = max(e, acc.emin) - man
    y = on_grid(x, grid, mode) * Fraction(2) ** grid
    if y == 0:
        return sign * 0.0 if signed else 0.0
    return sign * math.inf if y >= Fraction(2) ** (acc.emax + 1) else sign * float(y)


def plain_fma(x, y, z, engine, mode=None):
    """x * y + z in the accumulator's format."""
    if not all(map(math.isfinite, (x, y, z))):
        return z if math.isfinite(x) and math.isfinite(y) else x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        zero = math.copysign(1, x) * math.copysign(1, y)
        both = zero < 0 and math.copysign(1, z) < 0 and 0 in (x, y) and z == 0
        down = engine.out == "toward_negative" and mode is None
        mixed = not (zero > 0 and math.copysign(1, z) > 0 and 0 in (x, y) and z == 0)
        return -0.0 if both or (down and mixed) else 0.0
    acc = engine.acc
    return rounded(exact, acc.mantissa_bits, acc, mode or engine.out, engine.ftz_out)


def plain_add(x, y, engine, mode=None):
    return plain_fma(x, 1.0, y, engine, mode)


def plain_multiply(x, y, engine):
    zero = math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y))
    return plain_fma(x, y, zero, engine)


def cut_term(x, grid, down):
    """A fraction on a coarser grid, in units of it."""
    steps = x / Fraction(2) ** grid
    return math.floor(steps) if down else math.trunc(steps)


def aligned(terms, engine, lowest):
    """(sum, E) of terms (fraction, exponent), cut at 2**(E - F)."""
    if not terms:
        return Fraction(0), None
    E = max([e for _, e in terms] + ([] if lowest is None else [lowest]))
    if engine.F is None:
        return sum(x for x, _ in terms), E
    grid = E - engine.F
    down = engine.around == "toward_negative"
    return sum(cut_term(x, grid, down) for x, _ in terms) * Fraction(2) ** grid, E


def plain_fused(a, b, c, engine, emins, scales):
    """One step of kind fused on lists of floats and of their scales."""
    four = list(zip(a, b, *scales, strict=True))
    products = [x * y * u * v for x, y, u, v in four]  # float64: exact or special
    if engine.product_overflow:
        products = [math.copysign(math.inf, p) if abs(p) >= 2.0**128 else p for p in products]
    strange = [v for v in (*products, c) if not math.isfinite(v)]
    if strange:
        return strange[0] if len(set(strange)) == 1 else math.nan
    own = lambda x, emin: max(exponent(Fraction(x)), emin)  # noqa: E731
    least = 0 if engine.scales is None else engine.scales.emin
    if engine.G is None:
        terms = [
            (
                Fraction(x) * Fraction(y) * Fraction(u) * Fraction(v),
                own(x, emins[0]) + own(y, emins[1]) + own(u, least) + own(v, least),
            )
            if x and y and u and v
            else None
            for x, y, u, v in four
        ]
    else:
        terms = []
        for g in range(0, len(four), engine.G):
            u, v = four[g][2:]
            total = sum(Fraction(x) * Fraction(y) for x, y, _, _ in four[g : g + engine.G])
            total *= Fraction(u) * Fraction(v)
            terms.append((total, own(u, least) + own(v, least)) if total else None)
    with_c = [(Fraction(c), own(c, engine.acc.emin))] if c else []
    if engine.c_in != "late":
        total, _ = aligned([t for t in terms if t] + with_c, engine, engine.Emin)
    else:
        total = plain_late(terms, with_c, engine)
    if total == 0:
        minus = engine.signed_zeros and all(
            p == 0 and math.copysign(1, p) < 0 for p in [c, *products]
        )
        return -0.0 if minus else 0.0
    man = engine.acc.mantissa_bits if engine.out_man is None else engine.out_man
    return rounded(total, man, engine.acc, engine.out, engine.ftz_out, engine.signed_zeros)


def plain_late(terms, with_c, engine):
    sums = [
        aligned([t for t in terms[g :: engine.groups] if t], engine, engine.Emin)
        for g in range(engine.groups)
    ]
    tops = [E for _, E in sums if E is not None]
    if engine.groups == 2 and tops:
        grid = max(tops) - engine.F
        total = sum(cut_term(s, grid, True) for s, _ in sums) * Fraction(2) ** grid
    else:
        total = sums[0][0]
    tops += [e for _, e in with_c]
    if not tops:
        return Fraction(0)
    E = max(tops)
    total = cut_term(total, E - engine.Fp, True) * Fraction(2) ** (E - engine.Fp)
    for x, e in with_c:
        if engine.reach is None or e >= E - engine.reach:
            total += cut_term(x, E - engine.Fc, True) * Fraction(2) ** (E - engine.Fc)
    return total


def plain_dot(a, b, c, engine, emins, scales=None):
    """c + the sum of a[k] * b[k] as an engine forms it; floats in, float out. scales : of the blocks of a and of b."""
    one = [1.0] * len(a)
    scales = (one, one) if scales is None else [np.repeat(s, engine.block).tolist() for s in scales]
    flush = lambda x, emin: math.copysign(0, x) if abs(x) < 2.0**emin else x  # noqa: E731
    if engine.ftz_in:
        a, b = ([flush(x, e) for x in row] for row, e in zip((a, b), emins, strict=True))
    if engine.ftz_out and a:
        c = flush(c, engine.acc.emin)
    order = engine.order
    depth = engine.L if engine.K is None else engine.K
    if order == "natural":
        order = range(depth)
    elif order == "mod4":
        order = sorted(range(depth), key=lambda k: k % 4 >= 2)
    for first in range(0, len(a), depth):
        taken = [first + k for k in order]
        x, y = ([row[k] if k < len(a) else 0.0 for k in taken] for row in (a, b))
        own = [[row[k] if k < len(a) else 1.0 for k in taken] for row in scales]
        s = c if engine.c_in != "ieee" else -0.0 if engine.signed_zeros else 0.0
        for t in range(0, depth, engine.L):
            part = slice(t, t + engine.L)
            s = plain_step(x[part], y[part], s, engine, emins, [row[part] for row in own])
        c = plain_add(c, s, engine, "ties_to_even") if engine.c_in == "ieee" else s
    return c


def plain_step(x, y, c, engine, emins, scales):
    if engine.kind == "fused":
        return plain_fused(x, y, c, engine, emins, scales)
    if engine.kind == "tree":
        values = [plain_multiply(u, v, engine) for u, v in zip(x, y, strict=True)]
        while len(values) > 1:
            pairs = [
                plain_add(values[i], values[i + 1], engine) for i in range(0, len(values) - 1, 2)
            ]
            values = pairs + values[len(values) - len(values) % 2 :]
        return plain_add(c, values[0], engine)
    chains = [c] if engine.kind == "fma" else [0.0, 0.0]
    for i, (u, v) in enumerate(zip(x, y, strict=True)):
        g = i % len(chains)
        chains[g] = plain_fma(u, v, chains[g], engine)
    return chains[0] if len(chains) == 1 else plain_add(c, plain_add(*chains, engine), engine)


def plain_matmul(a, b, c, engine, formats, scales=(None, None)):
    emins = [(engine.cut or fmt).emin for fmt in formats]
    rows, columns = a.astype(np.float64).tolist(), b.T.astype(np.float64).tolist()
    start = c.astype(np.float64).tolist()
    with_scales = scales[0] is not None
    of = lambda i, j: (scales[0][i], scales[1][:, j]) if with_scales else None  # noqa: E731
    with np.errstate(all="ignore"):
        return np.array(
            [
                [
                    plain_dot(x, y, start[i][j], engine, emins, of(i, j))
                    for j, y in enumerate(columns)
                ]
                for i, x in enumerate(rows)
            ]
        ).reshape(c.shape)


# ---------------------------------------------------------------- data
def drawn(fmt, shape, kind, rng):
    """Values of a format that bring out a kind of trouble."""
    x = rng.standard_normal(shape)
    if kind == "wide":
        x = np.ldexp(x, rng.integers(max(-20, fmt.emin), min(20, fmt.emax - 2) + 1, shape))
    elif kind == "subnormal":
        x = x * fmt.smallest_normal * 2
    elif kind == "tiny products":
        x = np.ldexp(x, fmt.emin // 2 - rng.integers(0, 12, shape))  # about 2**emin
    elif kind == "large":
        x = x * (fmt.max / 8)
    elif kind == "sparse":
        x = x * (rng.random(shape) < 0.3) * rng.choice([-1, 1], shape)
    elif kind == "specials":
        special = [v for v in (np.inf, -np.inf, np.nan, -0.0, 0.0, fmt.max) if holds(fmt, v)]
        x = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(sf.quantize(x, fmt, saturate="propagate")).astype(fmt.carrier)


def drawn_scales(engine, m, k, n, kind, rng):
    """Scales of the blocks of a (m, k) and a (k, n) matrix; (None, None) for an engine without."""
    if engine.scales is None:
        return None, None
    spread = {"wide": 8, "large": 60, "tiny products": 60, "subnormal": 140}.get(kind, 3)
    blocks, found = -(-k // engine.block), []
    for shape in ((m, blocks), (blocks, n)):
        x = np.ldexp(rng.uniform(1, 2, shape), rng.integers(-spread, spread + 1, shape))
        if kind == "specials":
            x[rng.random(shape) < 0.1] = np.nan
        x = np.clip(x, engine.scales.smallest_subnormal, engine.scales.max)
        if kind == "sparse" and engine.scales == sf.float8_e4m3fn:
            x[rng.random(shape) < 0.2] = 0
        found.append(np.asarray(sf.quantize(x, engine.scales)).astype(np.float32))
    return tuple(found)


def scale_options(scales):
    return {} if scales[0] is None else {"scale_a": scales[0], "scale_b": scales[1]}


def holds(fmt, v):
    return (fmt.has_nan if np.isnan(v) else fmt.has_infinity) if not np.isfinite(v) else True


KINDS = ("ordinary", "wide", "subnormal", "tiny products", "large", "sparse", "specials")


def random_engine(seed):
    """An engine of any legal parameters."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    L = pick(1, 2, 3, 4, 8)
    K = L * pick(1, 1, 2, 3)
    chosen = {
        "inputs": (pick(sf.bfloat16, sf.binary16, sf.float8_e4m3fn, sf.float8_e5m2, sf.tf32),),
        "L": L,
        "K": K,
        "order": pick("natural", "natural", "mod4", tuple(int(k) for k in rng.permutation(K))),
        "kind": pick("fused", "fused", "fused", "tree", "fma", "evenodd"),
        "acc": pick(sf.binary32, sf.binary32, sf.binary16, sf.Format(6, 9)),
        "out": pick("toward_zero", "ties_to_even", "to_odd", "toward_negative", "ties_to_away"),
        "ftz_in": pick(False, False, True),
        "ftz_out": pick(False, False, True),
    }
    if chosen["kind"] == "evenodd":
        chosen |= {"L": 2 * L, "K": 2 * K, "order": "natural"}
    if chosen["kind"] == "fused":
        c_in = pick("early", "early", "late", "ieee")
        F = pick(5, 13, 23, 25, 30) if c_in == "late" else pick(None, 2, 13, 23, 25, 35)
        late = c_in == "late"
        chosen |= {
            "c_in": c_in,
            "F": F,
            "Fp": min(F + pick(0, 3, 7), 40) if late else 31,
            "Fc": pick(10, 24, 30) if late else 24,
            "groups": pick(1, 2) if late and L % 2 == 0 else 1,
            "reach": pick(None, 5, 25) if late else None,
            "around": pick("toward_zero", "toward_zero", "toward_negative"),
            "Emin": pick(None, None, -20, -130),
            "out_man": pick(None, None, 5, 9),
            "product_overflow": pick(False, True),
            "signed_zeros": pick(False, True),
        }
        if F is not None and not late and pick(False, True):
            chosen |= {"product_overflow": False, "signed_zeros": False}
            chosen |= {"scales": pick(sf.float8_e8m0fnu, sf.float8_e4m3fn), "block": pick(1, 2, 5)}
    return engines.Engine(**chosen)


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(s, marks=pytest.mark.sweep) for s in range(30, 400))]
)
def test_any_engine_equals_the_model_in_fractions(seed):
    engine = random_engine(seed)
    rng = np.random.default_rng(1000 + seed)
    fmt = engine.inputs[0]
    for kind in KINDS:
        m, k, n = 2, int(rng.integers(1, 14)), 3
        a, b = drawn(fmt, (m, k), kind, rng), drawn(fmt, (k, n), kind, rng)
        c = drawn(engine.acc, (m, n), "specials" if kind == "specials" else "sparse", rng)
        scales = drawn_scales(engine, m, k, n, kind, rng)
        got = sf.matmul(a, b, engine.acc, c=c, engine=engine, **scale_options(scales))
        assert_same_bits(got, plain_matmul(a, b, c, engine, (fmt, fmt), scales))


def distinct():
    """Names of presets, one of each set of parameters."""
    seen = {}
    for name, engine in engines.presets().items():
        plain = dataclasses.replace(engine, name="", evidence="documentation", note="")
        seen.setdefault(plain, name)
    return list(seen.values())


@pytest.mark.parametrize("name", distinct())
def test_presets_equal_the_model_in_fractions(name):
    engine = getattr(engines, name)
    rng = np.random.default_rng(7)
    for kind in KINDS:
        formats = [engine.inputs[rng.integers(len(engine.inputs))] for _ in range(2)]
        k = 19 if engine.scales is None else 83
        a, b = drawn(formats[0], (2, k), kind, rng), drawn(formats[1], (k, 2), kind, rng)
        c = drawn(engine.acc, (2, 2), "sparse", rng)
        used = [next(fmt for fmt in engine.inputs if are_values(fmt, x)) for x in (a, b)]
        scales = drawn_scales(engine, 2, k, 2, kind, rng)
        got = sf.matmul(a, b, engine.acc, c=c, engine=engine, **scale_options(scales))
        if engine.cut is not None:
            cut = {"rounding": "toward_zero", "saturate": "propagate"}
            a, b = (np.asarray(sf.quantize(x, engine.cut, **cut)) for x in (a, b))
        assert_same_bits(got, plain_matmul(a, b, c, engine, used, scales))


@pytest.mark.parametrize("seed", range(12))
def test_any_groups_of_scaled_products_equal_the_model_in_fractions(seed):
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    block = pick(4, 8, 12)
    engine = engines.Engine(
        inputs=pick(sf.float4_e2m1fn, sf.float6_e2m3fn, (sf.float6_e3m2fn, sf.float4_e2m1fn)),
        L=block * pick(1, 2),
        F=pick(10, 25, 35),
        G=pick(2, 4),
        scales=pick(sf.float8_e8m0fnu, sf.float8_e4m3fn),
        block=block,
        out=pick("toward_zero", "ties_to_even"),
        around=pick("toward_zero", "toward_negative"),
        c_in=pick("early", "ieee"),
        acc=pick(sf.binary32, sf.binary16),
        Emin=pick(None, -5),
        out_man=pick(None, 9),
    )
    for kind in KINDS:
        k = int(rng.integers(1, 60))
        fmt = engine.inputs[0]
        a, b = drawn(fmt, (2, k), kind, rng), drawn(fmt, (k, 3), kind, rng)
        c = drawn(engine.acc, (2, 3), "sparse", rng)
        used = [next(fmt for fmt in engine.inputs if are_values(fmt, x)) for x in (a, b)]
        scales = drawn_scales(engine, 2, k, 3, kind, rng)
        got = sf.matmul(a, b, engine.acc, c=c, engine=engine, **scale_options(scales))
        assert_same_bits(got, plain_matmul(a, b, c, engine, used, scales))


def are_values(fmt, x):
    return np.array_equal(sf.quantize(x, fmt), x, equal_nan=fmt.has_nan)


# ---------------------------------------------------------------- vector loops
LOOPS = {
    "early_row": (
        "h100_fp8",
        "ada_fp8_fp16",
        "a100_tf32",
        "h100_bf16",
        "h100_fp8_mma_fp16",
        "b200_fp8",
        "b200_mxf8f6f4",
    ),
    "group_row": ("b200_mxf4", "b200_nvfp4"),
    "late_row": ("cdna3_bf16", "cdna3_fp8"),
    "exact_row": ("arm_bf16_ebf", "cdna1_fp16_exact"),
    "chain_row": ("avx512_bf16", "nvidia_fp64"),
    "evenodd_row": ("amx_bf16", "amx_fp16"),
    "tree_row": ("cdna2_fp16", "cdna1_bf16"),
    "odd_tree_row": ("arm_bf16",),
}
SHAPES = [
    (5, 70, 150),
    (150, 33, 9),
    (3, 1100, 20),
]  # panels with a rest; more rows than columns; two slabs


@contextlib.contextmanager
def loops(monkeypatch, wanted):
    """Without vector loops, or with a count of the elements they form and of those they leave to the definition."""
    counts = {"formed": 0, "left": 0, "rows": set()}
    plain = backend._fast_product

    def counted(row, *arguments):
        found = plain(row, *arguments)
        counts["rows"].add(row.__name__)
        counts["formed"] += found[1].size
        counts["left"] += int(np.count_nonzero(found[1]))
        return found

    with monkeypatch.context() as patch:
        if wanted:
            patch.setattr(backend, "_fast_product", counted)
        else:
            patch.setattr(backend, "choose", lambda *arguments: None)
        yield counts


@pytest.mark.parametrize(
    ("loop", "name"), [(loop, name) for loop, names in LOOPS.items() for name in names]
)
def test_vector_loops_equal_the_definition(loop, name, monkeypatch):
    engine = getattr(engines, name)
    rng = np.random.default_rng(11)
    for i, kind in enumerate((*KINDS, "ordinary", "ordinary")):
        m, k, n = SHAPES[i % len(SHAPES)]
        one, other = (engine.inputs[rng.integers(len(engine.inputs))] for _ in range(2))
        a, b = drawn(one, (m, k), kind, rng), drawn(other, (k, n), kind, rng)
        of = "subnormal" if kind == "tiny products" else "wide"  # a large c would hide them
        c = drawn(engine.acc, (m, n), of, rng) if i % 2 else None
        more = {"c": c} | scale_options(drawn_scales(engine, m, k, n, kind, rng))
        call = lambda: sf.matmul(a, b, engine.acc, engine=engine, **more)  # noqa: B023, E731
        with loops(monkeypatch, True) as counts:
            got = call()
        with loops(monkeypatch, False):
            assert_same_bits(got, call())
        assert counts["rows"] == {loop}
        if kind in ("ordinary", "sparse"):
            assert counts["formed"] == m * n
            assert counts["left"] == 0, "the vector loops were right for nothing"


@pytest.mark.parametrize("seed", range(12))
def test_vector_loops_of_other_parameters_equal_the_definition(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    base = getattr(engines, ["h100_fp16", "cdna3_fp16", "cdna2_fp16", "h100_fp8_mma"][seed % 4])
    L = int(rng.choice([1, 2, 3, 6, 8]))
    changes = {"L": L, "K": L * int(rng.choice([1, 2, 5])), "order": "natural"}
    if base.kind == "fused":
        changes["F"] = int(rng.choice([9, 13, 24, 25, 26, 28]))
        changes["Fp"] = changes["F"] + int(rng.integers(0, 8))
        changes["acc"] = [sf.binary32, sf.binary16, sf.Format(6, 9)][rng.integers(3)]
        changes["out_man"] = [None, 7][rng.integers(2)]
        changes["out"] = ["toward_zero", "ties_to_even"][rng.integers(2)]
        changes["Emin"] = None if base.c_in == "late" else [None, -10][rng.integers(2)]
    engine = dataclasses.replace(base, **changes)
    a, b = (drawn(engine.inputs[0], shape, "wide", rng) for shape in ((4, 61), (61, 140)))
    with loops(monkeypatch, True) as counts:
        got = sf.matmul(a, b, engine.acc, engine=engine)
    assert counts["formed"] == got.size
    with loops(monkeypatch, False):
        assert_same_bits(got, sf.matmul(a, b, engine.acc, engine=engine))


def test_int32_sums_of_many_largest_products_do_not_overflow(monkeypatch):
    for name in ("b200_fp8", "h100_fp16", "h100_bf16"):
        engine = getattr(engines, name)
        fmt = engine.inputs[0]
        top = np.full(
            (2, 64), sf.quantize(2.0, fmt, rounding="toward_zero") - fmt.epsilon, np.float32
        )
        with loops(monkeypatch, True) as counts:
            got = sf.matmul(top, top.T, sf.binary32, engine=engine)
        assert counts["formed"] == 4 and counts["left"] == 0
        with loops(monkeypatch, False):
            assert_same_bits(got, sf.matmul(top, top.T, sf.binary32, engine=engine))


def test_results_just_below_the_smallest_normal_are_flushed():
    """2**-126 * (1 - 2**-24), rounded to 24 bits with unbounded exponent, stays below 2**-126 and is flushed;
    2**-126 * (1 - 2**-26) is rounded up to 2**-126. Rounded on the grid of subnormals, both would be 2**-126."""
    a = np.array([[2.0**-126, 2.0**-75]], np.float32)
    for power, want in ((-75, 0.0), (-77, 2.0**-126)):
        b = np.array([[1.0], [-(2.0**power)]], np.float32)
        got = sf.matmul(
            a, b, sf.binary32, engine=dataclasses.replace(engines.avx512_bf16, order=(0, 1))
        )
        assert got[0, 0] == want


# ---------------------------------------------------------------- the call
def pair(fmt, m=6, k=40, n=7, seed=3):
    rng = np.random.default_rng(seed)
    return drawn(fmt, (m, k), "ordinary", rng), drawn(fmt, (k, n), "ordinary", rng)


def test_shapes_follow_matmul():
    engine, (a, b) = engines.a100_fp16, pair(sf.binary16)
    full = sf.matmul(a, b, sf.binary32, engine=engine)
    assert_same_bits(sf.matmul(a[0], b, sf.binary32, engine=engine), full[0])
    assert_same_bits(sf.matmul(a, b[:, 0], sf.binary32, engine=engine), full[:, 0])
    one = sf.matmul(a[0], b[:, 0], sf.binary32, engine=engine)
    assert np.ndim(one) == 0 and one == full[0, 0]
    stacked = np.stack([a, -a, 2 * a])
    batched = sf.matmul(stacked[:, None], np.stack([b, b[:, ::-1]]), sf.binary32, engine=engine)
    assert batched.shape == (3, 2, 6, 7)
    assert_same_bits(batched[1, 1], sf.matmul(-a, b[:, ::-1], sf.binary32, engine=engine))


# ---------------------------------------------------------------- scales of blocks
def scaled_pair(engine, m, k, n, seed=4):
    rng = np.random.default_rng(seed)
    fmt = engine.inputs[0]
    a, b = drawn(fmt, (m, k), "ordinary", rng), drawn(fmt, (k, n), "ordinary", rng)
    return a, b, drawn_scales(engine, m, k, n, "wide", rng)


@pytest.mark.parametrize("name", ["b200_mxf8f6f4", "b200_mxf4", "b200_nvfp4"])
def test_scales_follow_their_blocks_through_batches_layouts_threads_and_parts(name):
    engine = getattr(engines, name)
    a, b, (u, v) = scaled_pair(engine, 150, 500, 140)
    run = lambda a, b, u, v, engine=engine: sf.matmul(  # noqa: E731
        a, b, sf.binary32, engine=engine, scale_a=u, scale_b=v
    )
    want = run(a, b, u, v)
    threads = sf.get_num_threads()
    try:
        sf.set_num_threads(3)
        assert_same_bits(run(np.asfortranarray(a), b.astype(np.float64), u.tolist(), v), want)
    finally:
        sf.set_num_threads(threads)
    assert_same_bits(run(b.T, a.T, v.T, u.T), want.T)
    assert_same_bits(run(a[3], b, u[3], v), want[3])
    assert_same_bits(run(a, b[:, 5], u, v[:, 5]), want[:, 5])
    batched = run(np.stack([a, -a]), b, np.stack([u, u]), v)
    assert_same_bits(batched, np.stack([want, run(-a, b, u, v)]))
    parts = [
        run(a[:, s], b[s], u[:, p], v[p])
        for s, p in (
            (slice(k, k + 128), slice(k // engine.block, (k + 128) // engine.block))
            for k in range(0, 500, 128)
        )
    ]
    promoted = dataclasses.replace(engine, promote=128)
    assert_same_bits(run(a, b, u, v, promoted), ((parts[0] + parts[1]) + parts[2]) + parts[3])
    split = dataclasses.replace(engine, split=2, split_tile=128, split_runs="interleaved")
    even, odd = (np.arange(500) // 128 % 2 == i for i in range(2))
    apart = [
        run(a[:, s], b[s], u[:, s[:: engine.block]], v[s[:: engine.block]]) for s in (even, odd)
    ]
    assert_same_bits(run(a, b, u, v, split), apart[0] + apart[1])


def test_scales_of_powers_of_two_only_shift_exponents():
    """OCP MX: block scales of one value change no bit of the significands."""
    engine = engines.b200_mxf8f6f4
    a, b, _ = scaled_pair(engine, 5, 96, 7)
    plain = sf.matmul(a, b, sf.binary32, engine=dataclasses.replace(engines.b200_fp8, Emin=None))
    got = sf.matmul(a, b, sf.binary32, engine=engine, scale_a=2.0**-90, scale_b=2.0**100)
    assert_same_bits(got, plain * np.float32(2.0**10))


@pytest.mark.parametrize(("F", "kept"), [(35, True), (18, True), (17, False)])
def test_exponents_of_groups_are_those_of_their_scales(F, kept):
    """Sums 576 and -576 of scales 1 have the exponent 0, not 9: beside them 2**-18 needs F = 18."""
    a, u = np.zeros((1, 64), np.float32), np.ones((1, 4), np.float32)
    b = np.full((64, 1), 6, np.float32)
    a[0, :16], a[0, 16:32], b[32], a[0, 32] = 6, -6, 1, 1
    u[0, 2] = 2.0**-9
    engine = dataclasses.replace(engines.b200_nvfp4, F=F)
    got = sf.matmul(a, b, sf.binary32, engine=engine, scale_a=u, scale_b=u.T)
    assert got[0, 0] == (2.0**-18 if kept else 0)


@pytest.mark.parametrize("name", ["b200_mxf8f6f4", "rtx_blackwell_nvfp4"])
def test_nan_scales_give_nan_even_to_zeros(name):
    engine = getattr(engines, name)
    a, b, (u, v) = scaled_pair(engine, 3, 70, 4)
    a[1], u[1, -1] = 0, np.nan
    got = sf.matmul(a, b, sf.binary32, engine=engine, scale_a=u, scale_b=v)
    assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2]]).all()


def test_wrong_scales_are_refused_by_name():
    engine = engines.b200_nvfp4
    a, b, (u, v) = scaled_pair(engine, 3, 64, 4)
    run = lambda engine, **scales: sf.matmul(a, b, sf.binary32, engine=engine, **scales)  # noqa: E731
    with pytest.raises(ValueError, match="b200_nvfp4 needs scale_b=, a value of float8_e4m3fn"):
        run(engine, scale_a=u)
    with pytest.raises(
        ValueError, match=r"scale_a of shape \(3, 3\) does not broadcast to \(3, 4\)"
    ):
        run(engine, scale_a=u[:, :3], scale_b=v)
    with pytest.raises(ValueError, match=r"not negative; element \(0, 0\) is"):
        run(engine, scale_a=-u, scale_b=v)
    with pytest.raises(ValueError, match=r"scale_b as values of float8_e4m3fn .* \(0, 0\)"):
        run(engine, scale_a=u, scale_b=np.full_like(v, 1 + 2.0**-9))
    with pytest.raises(ValueError, match="h100_fp8 takes no scales"):
        run(engines.h100_fp8, scale_a=u)
    with pytest.raises(ValueError, match="go with engine="):
        sf.matmul(a, b, sf.binary32, scale_a=u)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (2, 3, 0)])
def test_empty_sizes(shape):
    m, k, n = shape
    a, b, c = (
        np.ones((m, k), np.float32),
        np.ones((k, n), np.float32),
        np.full((m, n), 1.5, np.float32),
    )
    got = sf.matmul(a, b, sf.binary32, engine=engines.h100_fp8)
    assert got.shape == (m, n) and not got.any()
    if k == 0:
        assert_same_bits(sf.matmul(a, b, sf.binary32, c=c, engine=engines.h100_fp8), c)


@pytest.mark.parametrize("name", ["h100_fp8", "avx512_bf16", "cdna3_fp8"])
def test_no_layout_and_no_number_of_threads_changes_a_bit(name):
    engine = getattr(engines, name)
    a, b = pair(engine.inputs[0], 300, 200, 160)
    want = sf.matmul(a, b, sf.binary32, engine=engine)
    frozen = a.copy()
    frozen.flags.writeable = False
    views = [
        (np.asfortranarray(a), b[:, ::-1].copy()[:, ::-1]),
        (frozen, np.repeat(b, 2, axis=0)[::2]),
        (a.astype(np.float64), b.astype(">f4")),
    ]
    threads = sf.get_num_threads()
    try:
        for count, (x, y) in zip((1, 2, 3), views, strict=True):
            sf.set_num_threads(count)
            assert_same_bits(sf.matmul(x, y, sf.binary32, engine=engine), want)
    finally:
        sf.set_num_threads(threads)


def test_out_and_the_final_rounding():
    a, b = pair(sf.binary16)
    exact = sf.matmul(a, b, sf.binary32, engine=engines.a100_fp16)
    out = np.empty((6, 7), np.float32)
    assert sf.matmul(a, b, sf.bfloat16, engine=engines.a100_fp16, out=out) is out
    assert_same_bits(out, sf.quantize(exact, sf.bfloat16))


def test_promotion_and_split_are_sums_of_their_parts():
    engine, (a, b) = engines.h100_fp8, pair(sf.float8_e4m3fn, k=300)
    part = lambda s: sf.matmul(a[:, s], b[s], sf.binary32, engine=engine)  # noqa: E731
    runs = [part(slice(k, k + 128)) for k in (0, 128, 256)]
    c = np.full((6, 7), 3.0, np.float32)
    promoted = dataclasses.replace(engine, promote=128)
    assert_same_bits(
        sf.matmul(a, b, sf.binary32, c=c, engine=promoted), ((c + runs[0]) + runs[1]) + runs[2]
    )
    split = dataclasses.replace(engine, split=2)
    assert_same_bits(
        sf.matmul(a, b, sf.binary32, engine=split), part(slice(0, 256)) + part(slice(256, 300))
    )


def test_subnormal_operands_are_read_in_the_format_of_the_operand():
    """2**-7 is subnormal in E4M3, of exponent -6 there, and normal in E5M2: what is cut differs by one bit."""
    a = np.zeros((1, 32), np.float32)
    a[0, :2] = 2.0**-7, 2.0**-9
    b = np.zeros((32, 1), np.float32)
    b[0], b[1] = 1.0, 2.0**-6
    by_values = sf.matmul(a, b, sf.binary32, engine=engines.ada_fp8)
    pinned = dataclasses.replace(engines.ada_fp8, inputs=sf.float8_e5m2)
    by_choice = sf.matmul(a, b, sf.binary32, engine=pinned)
    by_dtype = sf.matmul(a.astype(ml_dtypes.float8_e5m2), b, sf.binary32, engine=engines.ada_fp8)
    for got, fmt in ((by_values, sf.float8_e4m3fn), (by_choice, sf.float8_e5m2)):
        assert_same_bits(got, plain_matmul(a, b, np.zeros((1, 1)), engines.ada_fp8, (fmt, fmt)))
    formats = (sf.float8_e5m2, sf.float8_e4m3fn)
    assert_same_bits(by_dtype, plain_matmul(a, b, np.zeros((1, 1)), engines.ada_fp8, formats))


def test_mixed_formats_are_accepted():
    a = np.array([[448.0, 1.125]], np.float32)  # E4M3 alone
    b = np.array([[57344.0], [2.0**-16]], np.float32)  # E5M2 alone
    assert sf.matmul(a, b, sf.binary32, engine=engines.h100_fp8)[0, 0] == 448.0 * 57344.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounding": "toward_zero"}, "rounding="),
        ({"product": None}, "product="),
        ({"accumulator": sf.binary32}, "accumulator="),
        ({"order": "pairwise"}, "order="),
        ({"fma": True}, "fma="),
        ({"seed": 1}, "seed="),
        ({"saturate": True}, "saturate="),
    ],
)
def test_options_that_contradict_the_engine_are_refused(change, message):
    a, b = pair(sf.binary16)
    with pytest.raises(ValueError, match=message):
        sf.matmul(a, b, sf.binary32, engine=engines.a100_fp16, **change)


def test_values_of_other_formats_are_refused_by_name_and_place():
    a, b = pair(sf.binary16)
    a[2, 5] = 1 + 2.0**-20
    with pytest.raises(ValueError, match=r"takes a as values of binary16; element \(2, 5\)"):
        sf.matmul(a, b, sf.binary32, engine=engines.a100_fp16)
    with pytest.raises(ValueError, match=r"takes c as values of binary16; element \(0, 0\)"):
        sf.matmul(b.T, b, sf.binary16, c=1 + 2.0**-20, engine=engines.a100_fp16_fp16)
    with pytest.raises(TypeError, match="engine must be an Engine"):
        sf.matmul(b.T, b, sf.binary32, engine="h100_fp8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "sum"}, "kind must be one of"),
        ({"L": 0}, "L must be in"),
        ({"K": 5}, "K must be a multiple"),
        ({"F": 99}, "F must be in"),
        ({"order": (0, 1)}, "order must be .* a permutation of range"),
        ({"around": "ties_to_even"}, "around must be"),
        ({"out": "stochastic"}, "out must be"),
        ({"kind": "fma"}, "goes with kind="),
        ({"groups": 2}, 'go with c_in="late"'),
        ({"acc": sf.float8_e4m3fn}, "acc must be"),
        ({"inputs": sf.binary64}, "inputs must be"),
        ({"evidence": "rumour"}, "evidence must be"),
        ({"G": 4}, "go with scales="),
        ({"scales": sf.float8_e8m0fnu}, "needs block="),
        ({"scales": sf.float8_e5m2, "block": 32}, "scales must be float8_e8m0fnu or"),
        ({"scales": sf.float8_e8m0fnu, "block": 32, "F": None}, "needs F"),
        ({"scales": sf.float8_e8m0fnu, "block": 32, "G": 5}, "G must divide L and block"),
        ({"scales": sf.float8_e8m0fnu, "block": 32, "G": 16}, "needs narrower inputs"),
        (
            {
                "kind": "tree",
                "F": None,
                "out_man": None,
                "Emin": None,
                "scales": "e8m0fnu",
                "block": 2,
            },
            "scales= goes",
        ),
    ],
)
def test_parameters_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(engines.h100_fp8, **change)


@pytest.mark.parametrize("change", [{"name": 3}, {"note": None}, {"L": 2.0}])
def test_parameters_of_other_types_are_refused(change):
    with pytest.raises(TypeError, match=f"Engine: {next(iter(change))} must be"):
        engines.Engine(**change)


def test_presets_show_their_evidence():
    for name, engine in engines.presets().items():
        assert getattr(sf.engines, name) is engine and engine.name == name
        assert f"evidence: {engine.evidence}" in repr(engine)
        assert f"\n{name} : {engine.evidence}" in engines.__doc__
    assert engines.cdna1_fp16.evidence == engines.amx_bf16.evidence == "conflict"
    assert engines.h100_fp8.evidence == "hardware"


X86 = platform.machine().lower() in ("x86_64", "amd64")


@numba.njit
def set_control_word(word):
    leave_standard_arithmetic(word)


@pytest.mark.skipif(not X86, reason="sets the control word of x86")
@pytest.mark.parametrize("word", [0x9FC0, 0x5F80], ids=["flush", "round-up"])
@pytest.mark.parametrize("name", ["a100_bf16", "cdna2_bf16", "cdna1_bf16", "arm_bf16_ebf"])
def test_results_do_not_depend_on_the_control_word(name, word):
    engine = getattr(engines, name)
    rng = np.random.default_rng(5)
    tiny = drawn(sf.bfloat16, (9, 40), "subnormal", rng)
    b, c = drawn(sf.bfloat16, (40, 11), "wide", rng), drawn(sf.binary32, (9, 11), "subnormal", rng)
    wide = tiny.astype(np.float64)  # what NumPy converts below loses subnormals
    calls = [
        lambda: sf.matmul(tiny, b, sf.binary32, c=c, engine=engine),
        lambda: sf.matmul(wide, b, sf.binary64, c=c, engine=engine),
    ]
    want = [call() for call in calls]
    set_control_word(word)
    try:
        got = [call() for call in calls]
    finally:
        set_control_word(0x1F80)
    for left, right in zip(got, want, strict=True):
        assert left.tobytes() == right.tobytes()


class BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite lacks."""

    def _to_string(self):
        return "bfloat"

    def __eq__(self, other):
        return isinstance(other, BFloat)

    def __hash__(self):
        return hash(BFloat)


@intrinsic
def vdpbf16ps(context, c, a, b, d):
    """The instruction, on addresses of 16 binary32 numbers, of 32 bfloat16 numbers twice, and of the result."""

    def generate(context, builder, signature, arguments):
        numbers, words = ir.VectorType(ir.FloatType(), 16), ir.VectorType(ir.IntType(32), 16)
        pairs = ir.VectorType(BFloat(), 32)
        kind = ir.FunctionType(numbers, [numbers, pairs, pairs])
        step = ir.Function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
        loaded = []
        for address, held in zip(arguments, (numbers, words, words), strict=False):
            loaded.append(builder.load(builder.inttoptr(address, held.as_pointer())))
            loaded[-1].align = 4
        c, a, b = loaded
        d = builder.call(step, [c, builder.bitcast(a, pairs), builder.bitcast(b, pairs)])
        builder.store(d, builder.inttoptr(arguments[3], numbers.as_pointer())).align = 4
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@numba.njit
def run_vdpbf16ps(c, a, b, d):
    for i in range(0, 4 * c.size, 64):
        vdpbf16ps(c.ctypes.data + i, a.ctypes.data + i, b.ctypes.data + i, d.ctypes.data + i)


@pytest.mark.skipif(
    not llvmlite.binding.get_host_cpu_features().get("avx512bf16"), reason="has no VDPBF16PS"
)
@pytest.mark.parametrize("kind", ["any code", "near the smallest normal", "rounded to it"])
def test_avx512_bf16_is_what_this_processor_does(kind):
    rng, n = np.random.default_rng(2), 1 << 14
    if kind == "any code":
        a, b = (rng.integers(0, 1 << 16, (n, 2), dtype=np.uint16) for _ in range(2))
        c = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    else:
        low = 0 if kind == "rounded to it" else 24
        a = (rng.integers(50, 56, (n, 2)) << 7 | rng.integers(0, 256, (n, 2)) << 8 & 0x807F).astype(
            np.uint16
        )
        b = (rng.integers(52, 60, (n, 2)) + low << 7 | rng.integers(0, 128, (n, 2))).astype(
            np.uint16
        )
        c = (rng.integers(-2, 3, n) + (1 << 23) | rng.integers(0, 2, n) << 31).astype(np.uint32)
    d = np.empty(n, np.float32)
    run_vdpbf16ps(c.view(np.float32), a.view(np.uint32), b.view(np.uint32), d)
    x, y = (decoded(codes, "bf16") for codes in (a, b))
    assert_same_bits(dots(x, y, c.view(np.float32), sf.binary32, engines.avx512_bf16), d)


def documented(engine):
    """The row of docs/engines.md for a preset."""
    inputs = ", ".join(fmt.label for fmt in engine.inputs)
    evidence = engine.evidence + (f": {engine.note}" if engine.note else "")
    return f"| `{engine.name}` | {inputs} | {engine.acc.label} | {engine.summary} | {evidence} |"


def test_the_page_lists_every_preset_as_it_is():
    page = (DATA.parent.parent / "docs" / "engines.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 6]
    assert rows == [documented(engine) for engine in engines.presets().values()]
