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

from softfloat.backends.engine import converted, engine_product
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
    tf32,
)
from softfloat.functional import add, quantize
from softfloat.operands import Held
from softfloat.ops import engine as model
from softfloat.rounding import MODES, STOCHASTIC, Rounding, as_rounding
from softfloat.status import uncounted

EVIDENCE = ("hardware", "two models", "one model", "documentation", "conflict")
KINDS = {"fused": model.FUSED, "tree": model.TREE, "fma": model.FMA, "evenodd": model.EVENODD}
C_IN = {"early": model.EARLY, "late": model.LATE, "ieee": model.IEEE}
CUTS = (Rounding.TOWARD_ZERO, Rounding.TOWARD_NEGATIVE)
LARGEST_F, LARGEST_L, LARGEST_K = 40, 64, 128  # sums of a step then fit in 62 bits
LARGEST_SPLIT = 1 << 16
MOD4 = "mod4"


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
        _check_meaning(self)

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

    def __repr__(self):
        inputs = "/".join(fmt.label for fmt in self.inputs)
        note = f" ({self.note})" if self.note else ""
        return (
            f"Engine({self.name}: {inputs} -> {self.acc.label}, {self.summary}; "
            f"evidence: {self.evidence}{note})"
        )

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
        return P


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
    if engine.cut is not None:
        _put(engine, "cut", as_format(engine.cut))
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
    optional = ("K", "F", "reach", "Emin", "out_man", "promote")
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


def _check_meaning(engine):
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
    if engine.kind != "fused":
        for field, default in (
            ("F", None), ("c_in", "early"), ("reach", None), ("Emin", None), ("groups", 1),
            ("out_man", None), ("product_overflow", False), ("signed_zeros", False),
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


# ---------------------------------------------------------------- products
def product(engine, a, b, c, rows, columns):
    """All elements of a matrix product by an engine, as values of its accumulator.

    a, b : (operand as the caller gave it, its values as an array of two or more dimensions).   c : initial values of
    the result's shape, or None.   rows, columns : for each batch of the result, the batch of a and of b.
    """
    left, a_format = _operand(engine, *a, "a")
    right, b_format = _operand(engine, *b, "b")
    left = left.reshape(math.prod(left.shape[:-2]), *left.shape[-2:])
    right = right.reshape(math.prod(right.shape[:-2]), *right.shape[-2:])
    shape = (len(rows), left.shape[-2], right.shape[-1])
    dtype = engine.acc.carrier
    start = np.zeros(shape, dtype) if c is None else _initial(engine, c).reshape(shape)
    P = engine.parameters(a_format, b_format)
    bits = sum((engine.cut or fmt).precision for fmt in (a_format, b_format))
    out = np.empty(shape, dtype)
    for i in range(len(rows)):
        out[i] = _split_product(engine, P, bits, left[rows[i]], right[columns[i]], start[i])
    return out


def _operand(engine, given, value, what):
    """(the values in a carrier that the kernels take, their format); ValueError where no format holds them all."""
    carrier = engine.acc.carrier if engine.kind == "fma" else np.dtype(np.float32)
    for fmt in _candidates(engine, given):
        stray = _first_stray(value, fmt)
        if stray is None:
            value = converted(value, carrier)
            return value if engine.cut is None else _cut_to(value, engine.cut), fmt
    labels = " or ".join(fmt.label for fmt in _candidates(engine, given))
    raise ValueError(
        f"{engine.name} takes {what} as values of {labels}; element {stray} is {value[stray]!r}. Round it first: "
        f"softfloat.quantize({what}, fmt)"
    )


def _candidates(engine, given):
    """The formats that an operand may be in: its own alone, where it says more than its carrier does."""
    if isinstance(given, Held):
        return (given._format,) if given._format in engine.inputs else engine.inputs
    dtype = getattr(given, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "biufOUS":  # a type of ml_dtypes
        own = tuple(fmt for fmt in engine.inputs if fmt.name == dtype.name)
        return own or engine.inputs
    return engine.inputs


def _first_stray(value, fmt):
    """The place of the first element that is no value of fmt, or None."""
    with np.errstate(all="ignore"):
        rounded = uncounted(quantize, value, fmt)
    same = (rounded == value) | np.isnan(value) & fmt.has_nan
    if not fmt.has_infinity:
        same &= ~np.isinf(value)
    if same.all():
        return None
    return tuple(int(i) for i in np.argwhere(~same)[0])


def _cut_to(value, fmt):
    cut = uncounted(quantize, value, fmt, rounding="toward_zero", saturate="propagate")
    return np.asarray(cut)


def _initial(engine, c):
    stray = _first_stray(c, engine.acc)
    if stray is not None:
        raise ValueError(
            f"{engine.name} takes c as values of {engine.acc.label}; element {stray} is {c[stray]!r}. Round it "
            f"first: softfloat.quantize(c, fmt)"
        )
    return converted(c, engine.acc.carrier)


def _split_product(engine, P, bits, a, b, c):
    """One matrix product: the parts of k one by one, and their sums."""
    if engine.split == 1:
        return _promoted_product(engine, P, bits, a, b, c)
    parts = []
    for k in _parts(engine, a.shape[1]):
        start = c if not parts else np.zeros_like(c)  # c begins the first part
        parts.append(_promoted_product(engine, P, bits, a[:, k], b[k], start))
    if engine.split_order == "serial":
        total = parts[0]
        for part in parts[1:]:
            total = _plus(engine, total, part)
        return total
    half = -(-len(parts) // 2)
    total = parts[-1]
    for i in range(half):
        paired = i + half < len(parts) - 1
        term = _plus(engine, parts[i], parts[i + half]) if paired else parts[i]
        total = _plus(engine, total, term)
    return total


def _parts(engine, n):
    """The k of each part, as slices or index arrays."""
    tiles = -(-n // engine.split_tile)
    if engine.split_runs == "contiguous":
        run = -(-tiles // engine.split) * engine.split_tile
        return [slice(min(s * run, n), min((s + 1) * run, n)) for s in range(engine.split)]
    k = np.arange(n)
    return [k[k // engine.split_tile % engine.split == s] for s in range(engine.split)]


def _plus(engine, x, y):
    """The sum in the accumulator that adds partial sums: at least binary32 where the engine promotes."""
    wide = engine.promote is not None and engine.acc.fits(np.float32)
    return np.asarray(uncounted(add, x, y, binary32 if wide else engine.acc))


def _promoted_product(engine, P, bits, a, b, c):
    run = lambda a, b, c: engine_product(  # noqa: E731
        P, engine.places, engine.records, bits, a, b, c
    )  # noqa: E731
    if engine.promote is None:
        return run(a, b, c)
    for k in range(0, a.shape[1], engine.promote):
        part = slice(k, k + engine.promote)
        c = _plus(engine, c, run(a[:, part], b[part], np.zeros_like(c)))
    return c


# ---------------------------------------------------------------- presets
_FP8 = (float8_e4m3fn, float8_e5m2)
_FNUZ = (float8_e4m3fnuz, float8_e5m2fnuz)
_NARROW = (float8_e4m3fn, float8_e5m2, float6_e3m2fn, float6_e2m3fn, float4_e2m1fn)
_TF32 = {"inputs": (binary32,), "cut": tf32}
_FP16_OUT = {"acc": binary16, "out": "ties_to_even"}
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
# tcgen05 of the B200 and QMMA of RTX Blackwell: no public recordings. Without block scales.
b200_fp8 = _named(
    "b200_fp8", h100_fp16, inputs=_NARROW, L=32, evidence="one model", note="Emin is unknown"
)
rtx_blackwell_fp8 = _named("rtx_blackwell_fp8", b200_fp8)
nvidia_fp64 = _named(
    "nvidia_fp64",
    inputs=(binary64,),
    kind="fma",
    acc=binary64,
    out="ties_to_even",
    evidence="one model",
)

# AMD, after MMA-Sim and the models of Khattak and Mikaitis.
cdna3_fp16 = _named(
    "cdna3_fp16",
    inputs=(binary16,),
    L=8,
    F=24,
    c_in="late",
    out="ties_to_even",
    product_overflow=True,
    evidence="two models",
)
cdna3_bf16 = _named("cdna3_bf16", cdna3_fp16, inputs=(bfloat16,))
cdna3_xf32 = _named("cdna3_xf32", cdna3_fp16, L=4, evidence="one model", **_TF32)
cdna3_fp8 = _named(
    "cdna3_fp8", cdna3_fp16, inputs=_FNUZ, L=16, groups=2, reach=25, evidence="one model"
)
cdna2_fp16 = _named(
    "cdna2_fp16",
    inputs=(binary16,),
    kind="tree",
    L=4,
    out="ties_to_even",
    ftz_in=True,
    ftz_out=True,
    evidence="two models",
)
cdna2_bf16 = _named("cdna2_bf16", cdna2_fp16, inputs=(bfloat16,), L=2)
cdna2_bf16_1k = _named("cdna2_bf16_1k", cdna2_fp16, inputs=(bfloat16,))
_conflict = {"evidence": "conflict"}
cdna1_fp16 = _named(
    "cdna1_fp16",
    cdna2_fp16,
    ftz_in=False,
    ftz_out=False,
    note="MMA-Sim; MATLAB-tensor-core has one exact sum: cdna1_fp16_exact",
    **_conflict,
)
cdna1_bf16 = _named(
    "cdna1_bf16",
    cdna1_fp16,
    inputs=(bfloat16,),
    L=2,
    note="MMA-Sim; MATLAB-tensor-core has one exact sum: cdna1_bf16_exact",
)
cdna1_fp16_exact = _named(
    "cdna1_fp16_exact",
    inputs=(binary16,),
    L=4,
    out="ties_to_even",
    note="MATLAB-tensor-core; MMA-Sim rounds every operation: cdna1_fp16",
    **_conflict,
)
cdna1_bf16_exact = _named(
    "cdna1_bf16_exact",
    cdna1_fp16_exact,
    inputs=(bfloat16,),
    L=2,
    note="MATLAB-tensor-core; MMA-Sim rounds every operation: cdna1_bf16",
)

# x86: VDPBF16PS, TDPBF16PS and TDPFP16PS.
avx512_bf16 = _named(
    "avx512_bf16",
    inputs=(bfloat16,),
    kind="fma",
    K=2,
    order=(1, 0),
    out="ties_to_even",
    ftz_in=True,
    ftz_out=True,
    evidence="hardware",
)
amx_bf16 = _named(
    "amx_bf16",
    inputs=(bfloat16,),
    kind="evenodd",
    L=32,
    out="ties_to_even",
    ftz_in=True,
    ftz_out=True,
    evidence="conflict",
    note="Intel SDM; the Intrinsics Guide prints a sequential order; no hardware tried",
)
amx_fp16 = _named("amx_fp16", amx_bf16, inputs=(binary16,), ftz_in=False)

# Arm: BFDOT and BFMMLA, without and with extended bfloat16 behaviour (FPCR.EBF; to nearest, FPCR.FZ = 0).
arm_bf16 = _named(
    "arm_bf16",
    inputs=(bfloat16,),
    kind="tree",
    L=2,
    out="to_odd",
    ftz_in=True,
    ftz_out=True,
    evidence="documentation",
)
arm_bf16_ebf = _named(
    "arm_bf16_ebf",
    inputs=(bfloat16,),
    L=2,
    c_in="ieee",
    out="ties_to_even",
    signed_zeros=True,
    evidence="documentation",
)


def presets():
    """A dict from name to Engine of all presets."""
    return {value.name: value for value in globals().values() if isinstance(value, Engine)}
