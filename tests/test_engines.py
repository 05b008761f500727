"""Matrix engines: recorded results of hardware, and an independent model in exact fractions."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers import DATA, NAMED, assert_same_bits, values_of

import softfloat as sf
from softfloat import engines

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


def plain_fused(a, b, c, engine, emins):
    """One step of kind fused on lists of floats."""
    products = [x * y for x, y in zip(a, b, strict=True)]  # float64: exact or special
    if engine.product_overflow:
        products = [math.copysign(math.inf, p) if abs(p) >= 2.0**128 else p for p in products]
    strange = [v for v in (*products, c) if not math.isfinite(v)]
    if strange:
        return strange[0] if len(set(strange)) == 1 else math.nan
    own = lambda x, emin: max(exponent(Fraction(x)), emin)  # noqa: E731
    terms = [
        (Fraction(x) * Fraction(y), own(x, emins[0]) + own(y, emins[1])) if x and y else None
        for x, y in zip(a, b, strict=True)
    ]
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


def plain_dot(a, b, c, engine, emins):
    """c + the sum of a[k] * b[k] as an engine forms it; floats in, float out."""
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
        x, y = ([row[first + k] if first + k < len(row) else 0.0 for k in order] for row in (a, b))
        s = c if engine.c_in != "ieee" else -0.0 if engine.signed_zeros else 0.0
        for t in range(0, depth, engine.L):
            s = plain_step(x[t : t + engine.L], y[t : t + engine.L], s, engine, emins)
        c = plain_add(c, s, engine, "ties_to_even") if engine.c_in == "ieee" else s
    return c


def plain_step(x, y, c, engine, emins):
    if engine.kind == "fused":
        return plain_fused(x, y, c, engine, emins)
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


def plain_matmul(a, b, c, engine, formats):
    emins = [(engine.cut or fmt).emin for fmt in formats]
    rows, columns = a.astype(np.float64).tolist(), b.T.astype(np.float64).tolist()
    start = c.astype(np.float64).tolist()
    with np.errstate(all="ignore"):
        return np.array(
            [
                [plain_dot(x, y, start[i][j], engine, emins) for j, y in enumerate(columns)]
                for i, x in enumerate(rows)
            ]
        ).reshape(c.shape)


# ---------------------------------------------------------------- data
def drawn(fmt, shape, kind, rng):
    """Values of a format that bring out a kind of trouble."""
    x = rng.standard_normal(shape)
    middle = (fmt.emin + fmt.emax) // 2
    if kind == "wide":
        x = np.ldexp(x, rng.integers(max(-20, fmt.emin), min(20, fmt.emax - 2) + 1, shape))
    elif kind == "subnormal":
        x = x * fmt.smallest_normal * 2
    elif kind == "tiny products":
        x = np.ldexp(x, (fmt.emin + middle) // 2 - rng.integers(0, 12, shape))
    elif kind == "large":
        x = x * (fmt.max / 8)
    elif kind == "sparse":
        x = x * (rng.random(shape) < 0.3) * rng.choice([-1, 1], shape)
    elif kind == "specials":
        special = [v for v in (np.inf, -np.inf, np.nan, -0.0, 0.0, fmt.max) if holds(fmt, v)]
        x = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(sf.quantize(x, fmt, saturate="propagate")).astype(fmt.carrier)


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
    return engines.Engine(**chosen)


@pytest.mark.parametrize("seed", range(60))
def test_any_engine_equals_the_model_in_fractions(seed):
    engine = random_engine(seed)
    rng = np.random.default_rng(1000 + seed)
    fmt = engine.inputs[0]
    for kind in KINDS:
        m, k, n = 3, int(rng.integers(1, 20)), 4
        a, b = drawn(fmt, (m, k), kind, rng), drawn(fmt, (k, n), kind, rng)
        c = drawn(engine.acc, (m, n), "specials" if kind == "specials" else "sparse", rng)
        got = sf.matmul(a, b, engine.acc, c=c, engine=engine)
        assert_same_bits(got, plain_matmul(a, b, c, engine, (fmt, fmt)))


@pytest.mark.parametrize("name", engines.presets())
def test_presets_equal_the_model_in_fractions(name):
    engine = getattr(engines, name)
    rng = np.random.default_rng(7)
    for kind in KINDS:
        formats = [engine.inputs[rng.integers(len(engine.inputs))] for _ in range(2)]
        a, b = drawn(formats[0], (2, 37), kind, rng), drawn(formats[1], (37, 3), kind, rng)
        c = drawn(engine.acc, (2, 3), "sparse", rng)
        used = [next(fmt for fmt in engine.inputs if are_values(fmt, x)) for x in (a, b)]
        got = sf.matmul(a, b, engine.acc, c=c, engine=engine)
        if engine.cut is not None:
            cut = {"rounding": "toward_zero", "saturate": "propagate"}
            a, b = (np.asarray(sf.quantize(x, engine.cut, **cut)) for x in (a, b))
        assert_same_bits(got, plain_matmul(a, b, c, engine, used))


def are_values(fmt, x):
    return np.array_equal(sf.quantize(x, fmt), x, equal_nan=fmt.has_nan)
