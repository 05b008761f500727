"""Named formats, one line each with its source, and the words that name a format.

`as_format` accepts a Format, a registered name, "e6m9", a NumPy dtype or type, and the types of ml_dtypes.
"""

import difflib
import math
import re

import numpy as np

from softfloat.fixed_point import FixedPoint
from softfloat.format import Format, show

__all__ = [
    "as_format",
    "bfloat16",
    "binary16",
    "binary32",
    "binary64",
    "cfloat16",
    "cfloat8_143",
    "cfloat8_152",
    "dlfloat16",
    "finfo",
    "float16",
    "float32",
    "float4_e2m1fn",
    "float64",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "formats",
    "fp24",
    "p3109",
    "pxr24",
    "tf32",
]

_REGISTRY: dict[str, Format] = {}
_ALIASES: dict[str, str] = {}


def _named(name, exponent_bits, mantissa_bits, *aliases, **fields):
    fmt = Format(exponent_bits, mantissa_bits, name=name, **fields)
    _REGISTRY[name] = fmt
    _ALIASES.update({alias: name for alias in aliases})
    return fmt


# IEEE 754-2019, table 3.5.
binary16 = float16 = _named("binary16", 5, 10, "float16", "fp16", "half")
binary32 = float32 = _named("binary32", 8, 23, "float32", "fp32", "single")
binary64 = float64 = _named("binary64", 11, 52, "float64", "fp64", "double")
# Intel, BFLOAT16 Hardware Numerics Definition (2018).
bfloat16 = _named("bfloat16", 8, 7, "bf16")
# NVIDIA A100 Tensor Core GPU Architecture (2020): 8-bit exponent, 10-bit significand.
tf32 = _named("tf32", 8, 10, "tensorfloat32")
# OCP 8-bit Floating Point Specification (2023). Two E4M3s exist: this one has largest value 448 and no infinity.
float8_e4m3fn = _named("float8_e4m3fn", 4, 3, "e4m3fn", specials="fn")
float8_e5m2 = _named("float8_e5m2", 5, 2)
# ml_dtypes: IEEE style, with infinity; largest value 240.
float8_e4m3 = _named("float8_e4m3", 4, 3)
float8_e3m4 = _named("float8_e3m4", 3, 4)
# Noune et al., 8-bit Numerical Formats for Deep Neural Networks (2022): one NaN, no -0, bias 2**(e-1).
float8_e4m3fnuz = _named("float8_e4m3fnuz", 4, 3, "e4m3fnuz", specials="fnuz")
float8_e5m2fnuz = _named("float8_e5m2fnuz", 5, 2, "e5m2fnuz", specials="fnuz")
# StableHLO RFC e4m3b11 (2023).
float8_e4m3b11fnuz = _named("float8_e4m3b11fnuz", 4, 3, "e4m3b11fnuz", specials="fnuz", bias=11)
# OCP Microscaling Formats (MX) v1.0 (2023): element formats and the scale.
float8_e8m0fnu = _named(
    "float8_e8m0fnu", 8, 0, "e8m0fnu", specials="scale", signed=False, subnormals="normal"
)
float6_e2m3fn = _named("float6_e2m3fn", 2, 3, "e2m3fn", specials="finite")
float6_e3m2fn = _named("float6_e3m2fn", 3, 2, "e3m2fn", specials="finite")
float4_e2m1fn = _named("float4_e2m1fn", 2, 1, "e2m1fn", specials="finite")
# Agrawal et al., DLFloat: A 16-b Floating Point Format (ARITH 2019): no subnormals, one joint NaN and infinity.
dlfloat16 = _named("dlfloat16", 6, 9, specials="fn", subnormals="normal", bias=31)
# Pixar's 24-bit format of OpenEXR: float32 with eight significand bits dropped.
pxr24 = _named("pxr24", 8, 15)
# AMD's 24-bit shader format (R300): 1 + 7 + 16, bias 63.
fp24 = _named("fp24", 7, 16)
# Tesla, Dojo Technology: A Guide to Tesla's Configurable Floating Point Formats (2021); every code is finite there and
# the bias is chosen by the programmer: use Format(..., bias=...) for another one.
cfloat8_143 = _named("cfloat8_143", 4, 3, specials="finite")
cfloat8_152 = _named("cfloat8_152", 5, 2, specials="finite")
cfloat16 = _named("cfloat16", 5, 10, specials="finite")


def p3109(K, P, signed=True, extended=True):
    """IEEE P3109 interim report v4.0 (2026): the K-bit format of precision P.

    signed: with a sign bit. extended: with infinities; without, overflow gives the largest finite value.
    3 <= K <= 16 and 1 <= P < K (P <= K where unsigned).
    """
    for label, value in (("K", K), ("P", P)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"p3109: {label} must be an integer, got {value!r}")
    for label, flag in (("signed", signed), ("extended", extended)):
        if not isinstance(flag, (bool, np.bool_)):
            raise TypeError(f"p3109: {label} must be True or False, got {flag!r}")
    if not 3 <= K <= 16:
        raise ValueError(f"p3109: K must be in 3..16, got {K}")
    top = K - 1 if signed else K
    if not 1 <= P <= top:
        kind = "a signed" if signed else "an unsigned"
        raise ValueError(f"p3109: P must be in 1..{top} for {kind} format of {K} bits, got {P}")
    exponent_bits = K - P if signed else K - P + 1
    if exponent_bits > 11:
        raise ValueError(
            f"p3109({K}, {P}) needs {exponent_bits} exponent bits; at most 11 are supported"
        )
    return Format(
        int(exponent_bits),
        int(P) - 1,
        bias=1 << (K - P - 1 if signed else K - P),
        specials="p3109_extended" if extended else "p3109_finite",
        signed=bool(signed),
        name=f"binary{K}p{P}{'s' if signed else 'u'}{'e' if extended else 'f'}",
    )


def formats():
    """A dict from name to Format of all named formats (P3109's come from `p3109`)."""
    return dict(_REGISTRY)


_PATTERN = re.compile(r"e(\d{1,4})m(\d{1,4})(fn|fnuz|finite)?$")
_P3109 = re.compile(r"binary(\d+)p(\d+)(s|u)(e|f)$")


def as_format(spec):
    """The Format (or FixedPoint) that `spec` names.

    spec : Format, FixedPoint, name ("bfloat16", "e6m9", "e5m6fn", "binary8p3se"), NumPy dtype or type, ml_dtypes type.
    A registered name goes before the eXmY rule. Raises ValueError with near matches for an unknown name.
    """
    if isinstance(spec, (Format, FixedPoint)):
        return spec
    if isinstance(spec, str):
        return _from_name(spec)
    if isinstance(spec, (type, np.dtype)):
        try:
            name = np.dtype(spec).name
        except TypeError:
            name = getattr(spec, "__name__", repr(spec))
        name = _ALIASES.get(name, name)
        if name in _REGISTRY:
            return _REGISTRY[name]
        raise ValueError(f"no format corresponds to dtype {name!r}; {_known()}")
    raise TypeError(
        f"a format is a Format, a name such as 'bfloat16' or 'e6m9', or a dtype; got {type(spec).__name__}: {spec!r}"
    )


def _known():
    return "known names: " + ", ".join(_REGISTRY)


def _from_name(text):
    name = text.strip()
    lowered = name.lower()
    lowered = _ALIASES.get(lowered, lowered)
    if lowered in _REGISTRY:
        return _REGISTRY[lowered]
    if lowered == "e8m0":
        raise ValueError(
            "'e8m0' is ambiguous: 'float8_e8m0fnu' is the unsigned OCP scale, "
            "Format(8, 0) an IEEE-style format with sign and no significand field"
        )
    found = _PATTERN.match(lowered)
    if found:
        specials = found[3] or "ieee"
        return Format(int(found[1]), int(found[2]), specials=specials, name=lowered)
    found = _P3109.match(lowered)
    if found:
        return p3109(int(found[1]), int(found[2]), found[3] == "s", found[4] == "e")
    near = difflib.get_close_matches(lowered, [*_REGISTRY, *_ALIASES], n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    raise ValueError(
        f"unknown format {text!r}{hint} Write 'e6m9' for exponent and significand widths, or use a name: "
        + ", ".join(_REGISTRY)
    )


class finfo:
    """NumPy's finfo for any format: same names, values as Python floats (`precision` is in decimal digits).

    fmt : what as_format takes.
    """

    def __init__(self, fmt):
        fmt = as_format(fmt)
        if isinstance(fmt, FixedPoint):
            raise TypeError(f"finfo is about floating point; {fmt.label} is fixed point")
        p = fmt.precision
        self.format = fmt
        self.bits = fmt.bits
        self.eps = fmt.epsilon
        self.epsneg = fmt.unit_roundoff
        self.max = fmt.max
        self.min = fmt.min
        self.smallest_normal = self.tiny = fmt.smallest_normal
        self.smallest_subnormal = fmt.smallest_subnormal
        self.nexp = self.iexp = fmt.exponent_bits
        self.nmant = fmt.mantissa_bits
        self.machep, self.negep = 1 - p, -p
        self.minexp, self.maxexp = fmt.emin, fmt.max_exponent + 1
        self.precision = int((p - 1) * math.log10(2))
        self.resolution = 10.0**-self.precision
        self.dtype = fmt.carrier

    def __repr__(self):
        return (
            f"finfo({self.format.label}: max={show(self.max)}, smallest_normal={show(self.smallest_normal)}, "
            f"smallest_subnormal={show(self.smallest_subnormal)}, eps={show(self.eps)})"
        )
