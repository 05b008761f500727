"""Matrix engines: how tensor cores and their like add, as parameters, with named presets and the evidence for each.

`softfloat.matmul(a, b, fmt, engine=softfloat.engines.h100_fp8)` gives the bits that the machine gives. An engine of
your own is `dataclasses.replace(engine, ...)`, or a new `Engine`; softfloat.ops.engine defines what the parameters do.

Evidence: "hardware" (recorded results are reproduced bit for bit), "two models" or "one model" (public models agree
with this one), "documentation" (the vendor's text; no recording), "conflict" (public sources disagree).

Sources: docs/engines.md.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from softfloat.format import Format
from softfloat.formats import (
    as_format,
    bfloat16,
    binary16,
    binary32,
    binary64,
    float4_e2m1fn,
    float6_e2m3fn,
    float6_e3m2fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    tf32,
)
from softfloat.ops import engine as model
from softfloat.rounding import MODES, STOCHASTIC, Rounding, as_rounding

EVIDENCE = ("hardware", "two models", "one model", "documentation", "conflict")
KINDS = {"fused": model.FUSED, "tree": model.TREE, "fma": model.FMA, "evenodd": model.EVENODD}
C_IN = {"early": model.EARLY, "late": model.LATE, "ieee": model.IEEE}
CUTS = (Rounding.TOWARD_ZERO, Rounding.TOWARD_NEGATIVE)
LARGEST_F, LARGEST_L, LARGEST_K = 40, 64, 128  # sums of a step then fit in 62 bits
LARGEST_SPLIT = 1 << 16
MOD4 = "mod4"
SUM_BITS = 62  # of the sums that the definition forms in integers


@dataclass(frozen=True, kw_only=True, repr=False)
class Engine:
    """One matrix engine; immutable.

    inputs : formats that a and b may have, each for itself; an operand is read in the first one that holds it all.
    cut : operands are first cut to this format, toward zero (fp32 to tf32), or None.
    kind : "fused", "tree", "fma" or "evenodd".   L : products of a step.   K : products of an instruction, default L.
    order : in which an instruction takes its K products: "natural", "mod4" (those with k % 4 < 2, then the others), or
        a permutation of range(K).
    F : fraction bits kept below 2**E where terms are aligned; None keeps all.   around : how the others are cut,
        "toward_zero" or "toward_negative".
    c_in : "early" (c is one of the terms), "late" (c joins the sum of the products, of which Fp fraction bits are kept,
        with Fc of its own, both cut toward -infinity; with reach=R it is dropped below 2**(E - R)), or "ieee" (an
        instruction starts from +0 and its result is added to c, to nearest).
    Emin : lower bound of E, or None.   groups : 2 aligns even and odd products apart, then joins them.
    out_man, out : fraction bits (by default the accumulator's) and rounding of a step's result.
    acc : format of the accumulator.   ftz_in : subnormal operands are zeros.   ftz_out : subnormal accumulators are.
    product_overflow : products from 2**128 on are infinite.   signed_zeros : zeros have the signs of IEEE 754 in kind
        "fused" too, where otherwise each is +0.
    scales : format of the scales of blocks, float8_e8m0fnu or float8_e4m3fn (never negative), or None: without scales.
    block : so many consecutive k share a scale.   G : so many consecutive products are summed exactly before they are
        aligned, with the exponent of their scales alone; None: each product is aligned.
    promote : after so many products the accumulator is added to one of binary32 and begins anew; None never.
    split : number of parts of k whose sums are formed apart.   split_tile : parts are made of tiles of so many
        products.   split_runs : "contiguous" (runs of tiles) or "interleaved" (tile t goes to part t modulo split).
    split_order : how the parts are added: "serial" or "pairwise".

    >>> import numpy as np, softfloat as sf
    >>> x = np.array([1.0, 2.0**-7], np.float32)
    >>> float(sf.matmul(x, x, sf.binary32, engine=sf.engines.h100_fp8))  # 2**-14 is cut off
    1.0
    >>> float(sf.matmul(x, x, sf.binary32, engine=sf.engines.h100_fp8_mma))
    1.00006103515625
    """

    name: str = "engine"
    inputs: tuple[Format, ...] = (binary16,)
    cut: Format | None = None
    kind: str = "fused"
    L: int = 1
    K: int | None = None
    order: str | tuple[int, ...] = "natural"
    F: int | None = None
    around: str = "toward_zero"
    c_in: str = "early"
    Fp: int = 31
    Fc: int = 24
    reach: int | None = None
    Emin: int | None = None
    groups: int = 1
    out_man: int | None = None
    out: str = "toward_zero"
    acc: Format = binary32
    ftz_in: bool = False
    ftz_out: bool = False
    product_overflow: bool = False
    signed_zeros: bool = False
    scales: Format | None = None
    block: int | None = None
    G: int | None = None
    promote: int | None = None
    split: int = 1
    split_tile: int = 128
    split_runs: str = "contiguous"
    split_order: str = "serial"
    evidence: str = "documentation"
    note: str = ""

    def __post_init__(self):
        _check_formats(self)
        _check_words(self)
        _check_numbers(self)
        _check_order(self)
        _check_kind(self)
        _check_scales(self)

    @property
    def depth(self):
        """Products of an instruction."""
        return self.L if self.K is None else self.K

    @property
    def summary(self):
        """The parameters that are not the default ones, as text."""
        plain = ("name", "inputs", "acc", "evidence", "note")
        return ", ".join(
            f"{f.name}={_shown(getattr(self, f.name))}"
            for f in fields(self)
            if f.name not in plain and getattr(self, f.name) != f.default
        )

    @property
    def known(self):
        """How well the engine is known, as text: the evidence and the note."""
        return f"{self.evidence} ({self.note})" if self.note else self.evidence

    def __repr__(self):
        inputs = "/".join(fmt.label for fmt in self.inputs)
        return f"Engine({self.name}: {inputs} -> {self.acc.label}, {self.summary}; evidence: {self.known})"

    @cached_property
    def places(self):
        """For each product of an instruction, its place in memory."""
        k = np.arange(self.depth)
        if self.order == "natural":
            return k
        if self.order == MOD4:
            return np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
        return np.array(self.order, np.int64)

    @cached_property
    def records(self):
        """What compiled code reads of the formats of a step's result and of the accumulator."""
        subnormals = "ftz" if self.ftz_out else True
        wide = self.acc.mantissa_bits
        widths = (wide if self.out_man is None else self.out_man, wide)
        return tuple(
            Format(self.acc.exponent_bits, m, bias=self.acc.bias, subnormals=subnormals).record
            for m in widths
        )

    def parameters(self, a, b):
        """What compiled code reads, for operands of formats a and b."""
        P = np.zeros(model.PARAMETERS, np.int64)
        P[model.KIND] = KINDS[self.kind]
        P[model.STEP], P[model.DEPTH] = self.L, self.depth
        P[model.FRACTION] = -1 if self.F is None else self.F
        P[model.DOWN] = self.around == str(Rounding.TOWARD_NEGATIVE)
        P[model.C_IN] = C_IN[self.c_in]
        P[model.FRACTION_P], P[model.FRACTION_C] = self.Fp, self.Fc
        P[model.REACH] = -1 if self.reach is None else self.reach
        P[model.LOWEST] = model.NONE if self.Emin is None else self.Emin
        P[model.GROUPS] = self.groups
        P[model.A_EMIN], P[model.B_EMIN] = (self.cut or a).emin, (self.cut or b).emin
        P[model.C_EMIN] = self.acc.emin
        P[model.FLUSH_IN], P[model.FLUSH_OUT] = self.ftz_in, self.ftz_out
        P[model.LIMIT], P[model.SIGNED_ZEROS] = self.product_overflow, self.signed_zeros
        P[model.MODE] = MODES[as_rounding(self.out)]
        if self.scales is not None:
            P[model.SCALE_BITS], P[model.SCALE_EMIN] = self.scales.precision, self.scales.emin
            P[model.GROUP] = self.G or 0
            P[model.UNIT] = _unit(a) + _unit(b)
        return P

    def significand_bits(self, a, b):
        """The most bits of a product, or of a group of them, with its scales, for operands of formats a and b."""
        if self.G is not None:
            return _sum_bits(self.G, a, b) - _unit(a) - _unit(b) + 2 * model.SCALE_PIECE
        scale = (
            self.scales.precision if self.scales is not None and self.scales.mantissa_bits else 0
        )
        return sum((self.cut or fmt).precision + scale for fmt in (a, b))


def _unit(fmt):
    """The exponent of a power of two of which all values are multiples."""
    return fmt.emin - fmt.mantissa_bits


def _sum_bits(count, a, b):
    """Bits before the point of the sum of so many products."""
    return math.frexp(count * a.max * b.max)[1]


# ---------------------------------------------------------------- checks
def _shown(value):
    return value.label if isinstance(value, Format) else repr(value)


def _put(engine, field, value):
    object.__setattr__(engine, field, value)


def _wrong(engine, field, allowed):
    raise ValueError(f"Engine: {field} must be {allowed}, got {getattr(engine, field)!r}")


def _check_formats(engine):
    inputs = engine.inputs
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    _put(engine, "inputs", tuple(as_format(fmt) for fmt in inputs))
    _put(engine, "acc", as_format(engine.acc))
    for field in ("cut", "scales"):
        if getattr(engine, field) is not None:
            _put(engine, field, as_format(getattr(engine, field)))
    if not engine.inputs:
        _wrong(engine, "inputs", "one or more formats")
    wide = engine.kind == "fma" and engine.acc == binary64
    for fmt in (*engine.inputs, *([engine.cut] if engine.cut is not None else [])):
        if not isinstance(fmt, Format) or not (fmt.fits(np.float32) or wide) or not fmt.signed:
            raise ValueError(
                f"Engine: inputs must be signed formats whose values float32 holds (any, for a chain of fma in "
                f"binary64), got {fmt.label}"
            )
    ordinary = isinstance(engine.acc, Format) and engine.acc.specials == "ieee"
    if not ordinary or not engine.acc.signed or engine.acc.subnormals is not True:
        raise ValueError(
            "Engine: acc must be a format with infinity, NaN, sign and subnormals (ftz_out flushes them), "
            f"got {engine.acc.label}"
        )
    if engine.kind != "fma" and not engine.acc.fits(np.float32):
        raise ValueError(f"Engine: acc must fit in float32, got {engine.acc.label}")


def _check_words(engine):
    for field, allowed in (
        ("kind", tuple(KINDS)),
        ("c_in", tuple(C_IN)),
        ("split_runs", ("contiguous", "interleaved")),
        ("split_order", ("serial", "pairwise")),
        ("evidence", EVIDENCE),
    ):
        value = getattr(engine, field)
        if not isinstance(value, str) or value not in allowed:
            _wrong(engine, field, "one of " + ", ".join(map(repr, allowed)))
    for field in ("name", "note"):
        if not isinstance(getattr(engine, field), str):
            raise TypeError(f"Engine: {field} must be a string, got {getattr(engine, field)!r}")
    for field in ("ftz_in", "ftz_out", "product_overflow", "signed_zeros"):
        if not isinstance(getattr(engine, field), (bool, np.bool_)):
            _wrong(engine, field, "True or False")
    for field in ("around", "out"):
        _put(engine, field, str(as_rounding(getattr(engine, field))))
    if as_rounding(engine.around) not in CUTS:
        _wrong(engine, "around", '"toward_zero" or "toward_negative"')
    if MODES[as_rounding(engine.out)] >= STOCHASTIC:
        _wrong(engine, "out", "a rounding without random bits")


def _check_numbers(engine):
    huge = 1 << 62
    optional = ("K", "F", "reach", "Emin", "out_man", "promote", "block", "G")
    for field, low, high in (
        ("L", 1, LARGEST_L),
        ("K", 1, LARGEST_K),
        ("F", 0, LARGEST_F),
        ("Fp", 0, LARGEST_F),
        ("Fc", 0, LARGEST_F),
        ("reach", 0, LARGEST_F),
        ("Emin", -1000, 1000),
        ("groups", 1, 2),
        ("out_man", 0, engine.acc.mantissa_bits),
        ("block", 1, huge),
        ("G", 1, LARGEST_L),
        ("promote", 1, huge),
        ("split", 1, LARGEST_SPLIT),
        ("split_tile", 1, huge),
    ):
        value = getattr(engine, field)
        if value is None and field in optional:
            continue
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"Engine: {field} must be an integer, got {value!r}")
        if not low <= value <= high:
            _wrong(engine, field, f"in {low}..{high}")
        _put(engine, field, int(value))


def _whole_numbers(order):
    """An order as a tuple of integers; empty, and so no permutation, if it is none."""
    order = tuple(order) if np.iterable(order) else ()
    return tuple(map(int, order)) if all(isinstance(k, (int, np.integer)) for k in order) else ()


def _check_order(engine):
    depth = engine.depth
    if depth % engine.L:
        _wrong(engine, "K", f"a multiple of L={engine.L}")
    if not isinstance(engine.order, str):
        order = _whole_numbers(engine.order)
        if sorted(order) != list(range(depth)):
            _wrong(engine, "order", f'"natural", "mod4" or a permutation of range({depth})')
        _put(engine, "order", order)
    elif engine.order not in ("natural", MOD4):
        _wrong(engine, "order", f'"natural", "mod4" or a permutation of range({depth})')


def _check_kind(engine):
    if engine.kind != "fused":
        for field, default in (
            ("F", None), ("c_in", "early"), ("reach", None), ("Emin", None), ("groups", 1),
            ("out_man", None), ("product_overflow", False), ("signed_zeros", False), ("scales", None),
        ):  # fmt: skip
            if getattr(engine, field) != default:
                raise ValueError(f'Engine: {field}= goes with kind="fused", got {engine.kind!r}')
    if engine.kind == "evenodd" and engine.L % 2:
        _wrong(engine, "L", 'even for kind="evenodd"')
    late = engine.c_in == "late"
    if not late and (engine.groups == 2 or engine.reach is not None):
        raise ValueError('Engine: groups=2 and reach= go with c_in="late"')
    if late and (engine.F is None or max(engine.Fp, engine.F) - min(engine.Fp, engine.F) > 12):
        raise ValueError(
            f'Engine: c_in="late" needs F within 12 of Fp, got F={engine.F}, Fp={engine.Fp}'
        )


def _check_scales(engine):
    block, G = engine.block, engine.G
    if engine.scales is None:
        if block is not None or G is not None:
            raise ValueError("Engine: block= and G= go with scales=")
        return
    if engine.scales not in (float8_e8m0fnu, float8_e4m3fn):
        raise ValueError(
            f"Engine: scales must be float8_e8m0fnu or float8_e4m3fn, got {engine.scales.label}"
        )
    if block is None:
        raise ValueError("Engine: scales= needs block=, how many consecutive k share a scale")
    if engine.F is None or engine.c_in == "late" or engine.product_overflow or engine.signed_zeros:
        raise ValueError(
            "Engine: scales= needs F, and goes without c_in='late', product_overflow and signed_zeros"
        )
    if G is not None:
        _check_groups(engine)


def _check_groups(engine):
    block, G = engine.block, engine.G
    if engine.L % G or block % G or (engine.depth % block and block % engine.depth):
        raise ValueError(
            f"Engine: G must divide L and block, one of which K and block divides the other, got G={G}, "
            f"L={engine.L}, K={engine.depth}, block={block}"
        )
    if engine.order != "natural" or engine.cut is not None:
        raise ValueError('Engine: G= goes with order="natural" and without cut=')
    cuts = (engine.promote or block), (engine.split_tile if engine.split > 1 else block)
    if any(cut % block for cut in cuts):
        raise ValueError(
            f"Engine: G= needs promote and split_tile to be multiples of block={block}"
        )
    largest = max(engine.inputs, key=lambda fmt: fmt.max)
    finest = min(map(_unit, engine.inputs))
    above = _sum_bits(engine.L, largest, largest) + 2  # bits of a step's sum above 2**E
    if max(above + engine.F, above - 2 * finest + 2 * model.SCALE_PIECE) > SUM_BITS:
        raise ValueError(
            f"Engine: G= needs narrower inputs: sums of products of {largest.label} need more than {SUM_BITS} bits"
        )


# ---------------------------------------------------------------- presets
_FP8 = (float8_e4m3fn, float8_e5m2)
_FNUZ = (float8_e4m3fnuz, float8_e5m2fnuz)
_NARROW = (float8_e4m3fn, float8_e5m2, float6_e3m2fn, float6_e2m3fn, float4_e2m1fn)
_TF32 = {"inputs": (binary32,), "cut": tf32}
_FP16_OUT = {"acc": binary16, "out": "ties_to_even"}
_MX = {"scales": float8_e8m0fnu, "block": 32}
_NEAREST = {"out": "ties_to_even"}
_FLUSHED = {"ftz_in": True, "ftz_out": True}
_F_OPEN = "F is not identified by the recordings"
_EMIN_OPEN = "Emin as in one public model; no recording identifies it"


def _named(name, base=None, **changes):
    changes["name"] = name
    return Engine(**changes) if base is None else replace(base, **changes)


# NVIDIA, recorded by Khattak and Mikaitis.
v100_fp16 = _named("v100_fp16", inputs=(binary16,), L=4, F=23, evidence="hardware")
v100_fp16_fp16 = _named("v100_fp16_fp16", v100_fp16, Emin=-19, note=_F_OPEN, **_FP16_OUT)
turing_fp16 = _named(
    "turing_fp16", v100_fp16, L=8, F=24, evidence="one model", note="L was not checked"
)
a100_fp16 = _named("a100_fp16", v100_fp16, L=8, F=24, Emin=-132, note=_EMIN_OPEN)
a100_bf16 = _named("a100_bf16", a100_fp16, inputs=(bfloat16,))
a100_tf32 = _named("a100_tf32", a100_fp16, L=4, **_TF32)
a100_fp16_fp16 = _named("a100_fp16_fp16", a100_fp16, Emin=-20, note=_F_OPEN, **_FP16_OUT)
a2_fp16 = _named("a2_fp16", a100_fp16)
a2_bf16 = _named("a2_bf16", a100_bf16)
a2_tf32 = _named("a2_tf32", a100_tf32)
a2_fp16_fp16 = _named("a2_fp16_fp16", a100_fp16_fp16)
_as_a100 = {"evidence": "documentation", "note": "taken to be as the A100: same architecture"}
a30_fp16 = _named("a30_fp16", a100_fp16, **_as_a100)
a30_bf16 = _named("a30_bf16", a100_bf16, **_as_a100)
a30_tf32 = _named("a30_tf32", a100_tf32, **_as_a100)
a30_fp16_fp16 = _named("a30_fp16_fp16", a100_fp16_fp16, **_as_a100)
ada_fp16 = _named("ada_fp16", a100_fp16)
ada_bf16 = _named("ada_bf16", a100_bf16)
ada_tf32 = _named("ada_tf32", a100_tf32)
ada_fp16_fp16 = _named("ada_fp16_fp16", a100_fp16_fp16)
ada_fp8 = _named("ada_fp8", a100_fp16, inputs=_FP8, L=16, F=13, out_man=13)
ada_fp8_fp16 = _named("ada_fp8_fp16", ada_fp8, Emin=None, out_man=None, note="", **_FP16_OUT)
l40s_fp16 = _named("l40s_fp16", ada_fp16)
l40s_bf16 = _named("l40s_bf16", ada_bf16)
l40s_tf32 = _named("l40s_tf32", ada_tf32)
l40s_fp16_fp16 = _named("l40s_fp16_fp16", ada_fp16_fp16)
l40s_fp8 = _named("l40s_fp8", ada_fp8)
l40s_fp8_fp16 = _named("l40s_fp8_fp16", ada_fp8_fp16, note="recorded on another Ada")
h100_fp16 = _named("h100_fp16", a100_fp16, L=16, F=25, Emin=-133)
h100_bf16 = _named("h100_bf16", h100_fp16, inputs=(bfloat16,))
h100_tf32 = _named("h100_tf32", h100_fp16, L=8, note="recorded with 4 products only", **_TF32)
h100_fp16_fp16 = _named("h100_fp16_fp16", h100_fp16, Emin=-21, note=_F_OPEN, **_FP16_OUT)
# wgmma; mma.sync does the same products by two steps of the binary16 unit.
h100_fp8 = _named(
    "h100_fp8",
    h100_fp16,
    inputs=_FP8,
    L=32,
    F=13,
    out_man=13,
    note="recorded with c = 0; c early: two models",
)
h100_fp8_mma = _named(
    "h100_fp8_mma",
    h100_fp16,
    inputs=_FP8,
    K=32,
    order=MOD4,
    c_in="ieee",
    note="order identified with the binary16 accumulator only",
)
h100_fp8_mma_fp16 = _named("h100_fp8_mma_fp16", h100_fp8_mma, Emin=-21, note=_F_OPEN, **_FP16_OUT)
h200_fp16 = _named("h200_fp16", h100_fp16)
h200_bf16 = _named("h200_bf16", h100_bf16)
h200_tf32 = _named("h200_tf32", h100_tf32)
h200_fp16_fp16 = _named("h200_fp16_fp16", h100_fp16_fp16)
h200_fp8 = _named("h200_fp8", h100_fp8)
h200_fp8_mma = _named("h200_fp8_mma", h100_fp8_mma)
h200_fp8_mma_fp16 = _named("h200_fp8_mma_fp16", h100_fp8_mma_fp16)
b200_fp16 = _named("b200_fp16", h100_fp16)
b200_bf16 = _named("b200_bf16", h100_bf16)
b200_tf32 = _named("b200_tf32", h100_tf32)
b200_fp16_fp16 = _named("b200_fp16_fp16", h100_fp16_fp16)
b200_fp8_mma = _named("b200_fp8_mma", h100_fp8_mma)
b200_fp8_mma_fp16 = _named("b200_fp8_mma_fp16", h100_fp8_mma_fp16)
# tcgen05 of the B200 and QMMA of RTX Blackwell, without and with the scales of blocks: no public recordings.
_EMIN_UNKNOWN = {"evidence": "one model", "note": "Emin is unknown"}
b200_fp8 = _named("b200_fp8", h100_fp16, inputs=_NARROW, L=32, **_EMIN_UNKNOWN)
b200_mxf8f6f4 = _named("b200_mxf8f6f4", b200_fp8, Emin=None, **_MX)
b200_mxf4 = _named("b200_mxf4", b200_mxf8f6f4, inputs=(float4_e2m1fn,), L=64, F=35, G=16)
b200_nvfp4 = _named("b200_nvfp4", b200_mxf4, scales=float8_e4m3fn, block=16)
rtx_blackwell_fp8 = _named("rtx_blackwell_fp8", b200_fp8)
rtx_blackwell_mxf8f6f4 = _named("rtx_blackwell_mxf8f6f4", b200_mxf8f6f4)
rtx_blackwell_mxf4 = _named("rtx_blackwell_mxf4", b200_mxf4)
rtx_blackwell_nvfp4 = _named("rtx_blackwell_nvfp4", b200_nvfp4)
nvidia_fp64 = _named(
    "nvidia_fp64", inputs=(binary64,), kind="fma", acc=binary64, evidence="one model", **_NEAREST
)

# AMD, after MMA-Sim and the models of Khattak and Mikaitis.
_CDNA3 = {"c_in": "late", "product_overflow": True, "evidence": "two models", **_NEAREST}
cdna3_fp16 = _named("cdna3_fp16", inputs=(binary16,), L=8, F=24, **_CDNA3)
cdna3_bf16 = _named("cdna3_bf16", cdna3_fp16, inputs=(bfloat16,))
cdna3_xf32 = _named("cdna3_xf32", cdna3_fp16, L=4, evidence="one model", **_TF32)
cdna3_fp8 = _named(
    "cdna3_fp8", cdna3_fp16, inputs=_FNUZ, L=16, groups=2, reach=25, evidence="one model"
)
_TREE = {"kind": "tree", **_NEAREST}
cdna2_fp16 = _named(
    "cdna2_fp16", inputs=(binary16,), L=4, evidence="two models", **_TREE, **_FLUSHED
)
cdna2_bf16 = _named("cdna2_bf16", cdna2_fp16, inputs=(bfloat16,), L=2)
cdna2_bf16_1k = _named("cdna2_bf16_1k", cdna2_fp16, inputs=(bfloat16,))


def _conflicting(name, fmt, L, own, other, other_name, **changes):
    """An engine of which two public models disagree."""
    note = f"{own}; {other}: {other_name}"
    return _named(name, inputs=(fmt,), L=L, evidence="conflict", note=note, **_NEAREST, **changes)


_ROUNDED = "MMA-Sim", "MATLAB-tensor-core has one exact sum"
_EXACT = "MATLAB-tensor-core", "MMA-Sim rounds every operation"
cdna1_fp16 = _conflicting("cdna1_fp16", binary16, 4, *_ROUNDED, "cdna1_fp16_exact", kind="tree")
cdna1_bf16 = _conflicting("cdna1_bf16", bfloat16, 2, *_ROUNDED, "cdna1_bf16_exact", kind="tree")
cdna1_fp16_exact = _conflicting("cdna1_fp16_exact", binary16, 4, *_EXACT, "cdna1_fp16")
cdna1_bf16_exact = _conflicting("cdna1_bf16_exact", bfloat16, 2, *_EXACT, "cdna1_bf16")

# x86: VDPBF16PS, TDPBF16PS and TDPFP16PS.
avx512_bf16 = _named(
    "avx512_bf16",
    inputs=(bfloat16,),
    kind="fma",
    K=2,
    order=(1, 0),
    evidence="hardware",
    **_NEAREST,
    **_FLUSHED,
)
amx_bf16 = _named(
    "amx_bf16",
    inputs=(bfloat16,),
    kind="evenodd",
    L=32,
    evidence="conflict",
    note="Intel SDM; the Intrinsics Guide prints a sequential order; no hardware tried",
    **_NEAREST,
    **_FLUSHED,
)
amx_fp16 = _named("amx_fp16", amx_bf16, inputs=(binary16,), ftz_in=False)

# Arm: BFDOT and BFMMLA, without and with extended bfloat16 behaviour (FPCR.EBF; to nearest, FPCR.FZ = 0).
_ARM = {"inputs": (bfloat16,), "L": 2, "evidence": "documentation"}
arm_bf16 = _named("arm_bf16", kind="tree", out="to_odd", **_ARM, **_FLUSHED)
arm_bf16_ebf = _named("arm_bf16_ebf", c_in="ieee", signed_zeros=True, **_ARM, **_NEAREST)


def presets():
    """A dict from name to Engine of all presets."""
    return {value.name: value for value in globals().values() if isinstance(value, Engine)}


__doc__ = (
    (__doc__ or "")
    + "\nThe presets:\n\n"
    + "\n".join(f"{engine.name} : {engine.known}." for engine in presets().values())
)
