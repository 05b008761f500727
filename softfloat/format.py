"""Format: one record that says what a code means. Everything else about a format is derived from it.

Field names follow IEEE 754-2019 section 3.3 and the taxonomy of gfloat. A finite code of sign s, exponent field E and
significand field T stands for (-1)**s * (T + 2**mantissa_bits) * 2**(E - bias - mantissa_bits), or, where the format
has subnormals and E = 0, for (-1)**s * T * 2**(1 - bias - mantissa_bits).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace

import numpy as np

SPECIALS = ("ieee", "fn", "fnuz", "finite", "p3109_extended", "p3109_finite", "scale")
SUBNORMALS = (True, "ftz", "grid", "normal")

# The record that compiled code reads: one int64 array, these indices.
(
    MANTISSA_BITS,
    EMIN,
    MAX_CODE,
    INFINITY_CODE,
    NAN_CODE,
    UNDERFLOW,
    FLAGS,
    MAGNITUDE_BITS,
    NAN_EXISTS,
) = range(9)
# Values of UNDERFLOW.
GRADUAL, FLUSH, GRID, NORMAL, SCALE = range(5)
# Bits of FLAGS.
SIGNED, NEGATIVE_ZERO, SATURATES, SIGNED_NAN, NAN_QUOTIENTS = 1, 2, 4, 8, 16

# The numbers that follow it in `Format.kernel_record`, as bits of float64.
FLOOR, SPREAD, STEP, LOWEST, LARGEST, NUMBERS = range(6)

# Carriers: (significand field, exponent field, emin, smallest exponent of a subnormal).
FLOAT32 = SimpleNamespace(
    dtype=np.dtype(np.float32), bits=32, mantissa_bits=23, emin=-126, emax=127
)
FLOAT64 = SimpleNamespace(
    dtype=np.dtype(np.float64), bits=64, mantissa_bits=52, emin=-1022, emax=1023
)
CARRIERS = {FLOAT32.dtype: FLOAT32, FLOAT64.dtype: FLOAT64}


def _check_width(name, value, low, high):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        note = "; wider formats (binary128, e15m48) are not supported yet" if value > high else ""
        raise ValueError(f"{name} must be in {low}..{high}, got {value}{note}")
    return int(value)


def _choice(name, value, allowed):
    for choice in allowed:
        if value is choice or (isinstance(value, str) and value == choice):
            return choice
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


class Format:
    """A floating-point format; immutable, hashable, picklable, equal by meaning (the name does not count).

    exponent_bits : 1..11.   mantissa_bits : 0..52, the stored field; the precision is one more.
    bias : exponent bias; by default 2**(exponent_bits-1) - 1, and 2**(exponent_bits-1) for "fnuz" and P3109.
    specials : how infinity and NaN are encoded:
        "ieee" (the top exponent holds them), "fn" (only the all-ones code is NaN; no infinity: OCP E4M3),
        "fnuz" (one NaN at the code of -0, or at the last code where unsigned; no infinity, no -0),
        "finite" (neither: OCP FP4 and FP6),
        "p3109_extended" and "p3109_finite" (IEEE P3109 v4.0), "scale" (unsigned powers of two, one NaN: OCP E8M0).
    subnormals : True (gradual underflow), "ftz" or False (codes of exponent 0 read as zero; a result that is tiny after
        rounding becomes a zero of its sign), "grid" (rounded correctly onto the numbers that are left: zero, then the
        smallest normal), "normal" (codes of exponent 0 are ordinary normals: DLFloat).
    signed : False for a format without sign bit.

    Every finite value must be a float64, so a bias far from the default may be refused.
    """

    make: Callable  # softfloat.array.array, which that module puts here

    def __init__(
        self,
        exponent_bits,
        mantissa_bits,
        *,
        bias=None,
        specials="ieee",
        subnormals=True,
        signed=True,
        name=None,
    ):
        put = lambda field, value: object.__setattr__(self, field, value)  # noqa: E731
        put("exponent_bits", _check_width("exponent_bits", exponent_bits, 1, 11))
        put("mantissa_bits", _check_width("mantissa_bits", mantissa_bits, 0, 52))
        put("specials", _choice("specials", specials, SPECIALS))
        if isinstance(subnormals, (bool, np.bool_)):
            subnormals = bool(subnormals) or "ftz"
        if not isinstance(subnormals, (bool, str)) or subnormals not in SUBNORMALS:
            raise ValueError(
                'subnormals must be one of True, False, "ftz", "grid", "normal", '
                f"got {subnormals!r}"
            )
        put("subnormals", subnormals)
        if not isinstance(signed, (bool, np.bool_)):
            raise TypeError(f"signed must be True or False, got {signed!r}")
        if self.specials == "scale":
            if self.mantissa_bits or signed:
                raise ValueError(
                    'specials="scale" is for unsigned powers of two: '
                    "give mantissa_bits=0 and signed=False"
                )
            put("subnormals", "normal")
        put("signed", bool(signed))
        if bias is None:
            bias = self._default_bias()
        elif isinstance(bias, (bool, np.bool_)) or not isinstance(bias, (int, np.integer)):
            raise TypeError(f"bias must be an integer, got {bias!r}")
        put("bias", int(bias))
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}")
        put("name", name)
        key = (self.exponent_bits, self.mantissa_bits, self.bias, self.specials)
        key += (str(self.subnormals), self.signed)
        put("_key", key)
        put("_hash", hash(key))
        put("plans", {})  # kernels and constants chosen for this format, filled on use
        self._check_range()

    def _default_bias(self):
        half = 1 << (self.exponent_bits - 1)
        if self.specials in ("p3109_extended", "p3109_finite") and not self.signed:
            return half
        return half if self.specials in ("fnuz", "p3109_extended", "p3109_finite") else half - 1

    def _check_range(self):
        if self._parts(self.max_code)[0] == 0:
            raise ValueError(
                f"{self!r} has no number but zero; give it more bits or other specials"
            )
        low, high = self._lowest_exponent, self.max_exponent
        if low < -1074 or high > 1023:
            raise ValueError(
                f"{self!r} reaches from 2**{low} to 2**{high + 1}, beyond float64 (2**-1074 to 2**1024); "
                f"use fewer exponent_bits or another bias (got bias={self.bias})"
            )

    # ---------------------------------------------------------------- identity
    def __call__(self, x, **options):
        """x rounded to a scalar or an array of this format: softfloat.array(x, fmt, ...)."""
        return Format.make(x, self, **options)

    def __setattr__(self, field, value):
        raise AttributeError(f"Format is immutable: cannot set {field}; make a new Format")

    def __delattr__(self, field):
        raise AttributeError(f"Format is immutable: cannot delete {field}")

    def __eq__(self, other):
        if self is other:
            return True
        return self._key == other._key if isinstance(other, Format) else NotImplemented

    def __hash__(self):
        return self._hash

    def __reduce__(self):
        return _rebuild, (*self._key[:4], self.subnormals, self.signed, self.name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        parts = [str(self.exponent_bits), str(self.mantissa_bits)]
        if self.bias != self._default_bias():
            parts.append(f"bias={self.bias}")
        if self.specials != "ieee":
            parts.append(f"specials={self.specials!r}")
        if self.subnormals is not True and self.specials != "scale":
            parts.append(f"subnormals={self.subnormals!r}")
        if not self.signed:
            parts.append("signed=False")
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        return f"Format({', '.join(parts)})"

    @property
    def label(self):
        """The name, or a short description such as e6m9: for messages and tables."""
        if self.name:
            return self.name
        label = f"e{self.exponent_bits}m{self.mantissa_bits}"
        if self.specials != "ieee":
            label += f" {self.specials}"
        if self.bias != self._default_bias():
            label += f" bias {self.bias}"
        if self.subnormals is not True and self.specials != "scale":
            label += f" {self.subnormals}"
        return label if self.signed else label + " unsigned"

    def __str__(self):
        return "\n".join(f"{left:<20}{right}" for left, right in self.table())

    def table(self):
        """Rows (quantity, text) that describe layout and range."""
        sign = "1 sign + " if self.signed else ""
        layout = f"{self.bits} bits: {sign}{self.exponent_bits} exponent + {self.mantissa_bits} significand"
        if self.specials == "ieee":
            special = "infinity and NaN in the top exponent" if self.has_nan else "infinity, no NaN"
        else:
            special = {
                "fn": "NaN only at the all-ones code, no infinity: overflow gives NaN",
                "fnuz": "one NaN, no infinity, no -0: overflow gives NaN",
                "finite": "no infinity, no NaN: overflow gives the largest value",
                "p3109_extended": "P3109: one NaN, infinity, no -0",
                "p3109_finite": "P3109: one NaN, no infinity, no -0: overflow gives the largest value",
                "scale": "one NaN, no zero, no sign",
            }[self.specials]
        small = {
            True: "gradual underflow",
            "ftz": "none: tiny results become zero",
            "grid": "none: rounded to zero or the smallest normal",
            "normal": "none: exponent-0 codes are normal numbers",
        }[self.subnormals]
        rows = [
            ("format", self.label),
            ("layout", layout),
            ("bias", str(self.bias)),
            ("precision", f"{self.precision} bits"),
            ("largest", show(self.max)),
            ("smallest normal", show(self.smallest_normal)),
            ("smallest positive", show(self.smallest_subnormal)),
            ("epsilon", f"2**{1 - self.precision} = {show(self.epsilon)}"),
            ("unit roundoff", f"2**{-self.precision} = {show(self.unit_roundoff)}"),
            ("specials", special),
            ("subnormals", small),
        ]
        return rows

    # ---------------------------------------------------------------- derived quantities
    @property
    def precision(self):
        """Bits of the significand, the implicit one included (p)."""
        return self.mantissa_bits + 1

    @property
    def magnitude_bits(self):
        return self.exponent_bits + self.mantissa_bits

    @property
    def bits(self):
        """Width of a code."""
        return self.magnitude_bits + self.signed

    @property
    def emin(self):
        """Exponent of the lowest binade of normal numbers."""
        return (0 if self.subnormals == "normal" else 1) - self.bias

    @cached_property
    def max_code(self):
        """The magnitude code of the largest finite value."""
        top = (1 << self.magnitude_bits) - 1
        if self.specials == "ieee":
            return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1
        if self.specials in ("fn", "scale"):
            return top - 1
        if self.specials == "finite":
            return top
        if self.specials == "fnuz":
            return top - (not self.signed)
        extended = self.specials == "p3109_extended"
        return top - extended - (not self.signed)

    def _parts(self, magnitude):
        """(integer significand, exponent of its last place) of a finite magnitude code."""
        field, fraction = divmod(magnitude, 1 << self.mantissa_bits)
        if self.subnormals == "normal":
            if magnitude == 0 and self.specials != "scale":
                return 0, 0
            return fraction + (1 << self.mantissa_bits), field - self.bias - self.mantissa_bits
        if field == 0:
            fraction = fraction if self.subnormals is True else 0
            return fraction, 1 - self.bias - self.mantissa_bits
        return fraction + (1 << self.mantissa_bits), field - self.bias - self.mantissa_bits

    def _value(self, magnitude):
        significand, exponent = self._parts(magnitude)
        return math.ldexp(significand, exponent)

    @property
    def max_exponent(self):
        """Exponent of the largest finite value: max lies in [2**e, 2**(e+1))."""
        significand, exponent = self._parts(self.max_code)
        return significand.bit_length() - 1 + exponent

    @property
    def emax(self):
        """Exponent of the largest binade of finite numbers."""
        return self.max_exponent

    @property
    def _lowest_exponent(self):
        return (
            self.emin - self.mantissa_bits
        )  # also without subnormals: of the lowest binade's last place

    @cached_property
    def max(self):
        """The largest finite value, as a float (exact)."""
        return self._value(self.max_code)

    @property
    def min(self):
        """The most negative finite value."""
        if self.signed:
            return -self.max
        return self._value(0)

    @cached_property
    def smallest_normal(self):
        """The smallest positive normal value."""
        if self.subnormals == "normal":
            return self._value(0 if self.specials == "scale" else 1)
        return math.ldexp(1.0, self.emin)

    @cached_property
    def smallest_subnormal(self):
        """The smallest positive value: subnormal where the format has subnormals, else the smallest normal."""
        if self.subnormals is True and self.mantissa_bits:
            return math.ldexp(1.0, self.emin - self.mantissa_bits)
        return self.smallest_normal

    @property
    def epsilon(self):
        """Distance from 1 to the next larger number of this precision: 2**(1-p)."""
        return math.ldexp(1.0, 1 - self.precision)

    @property
    def unit_roundoff(self):
        """Largest relative error of rounding to nearest in the normal range: 2**-p."""
        return math.ldexp(1.0, -self.precision)

    @property
    def has_infinity(self):
        return self.specials in ("ieee", "p3109_extended")

    @property
    def has_nan(self):
        return self.specials != "finite" and not (
            self.specials == "ieee" and not self.mantissa_bits
        )

    @property
    def has_negative_zero(self):
        return self.signed and self.specials in ("ieee", "fn", "finite")

    @property
    def has_zero(self):
        return self.specials != "scale"

    @property
    def has_subnormals(self):
        return self.subnormals is True and self.mantissa_bits > 0

    @property
    def infinity_code(self):
        """The code of +infinity, or None."""
        return self.max_code + 1 if self.has_infinity else None

    @property
    def nan_code(self):
        """The code of the canonical quiet NaN, or None."""
        if not self.has_nan:
            return None
        if self.specials == "ieee":
            return self.infinity_code | 1 << (self.mantissa_bits - 1)
        if self.specials in ("fn", "scale") or not self.signed:
            return (1 << self.magnitude_bits) - 1
        return 1 << self.magnitude_bits

    @cached_property
    def code_dtype(self):
        """The smallest unsigned integer dtype that holds a code."""
        return np.dtype(next(f"u{b // 8}" for b in (8, 16, 32, 64) if self.bits <= b))

    def fits(self, carrier):
        """Whether every finite value of this format is a value of the carrier (np.float32 or np.float64)."""
        target = CARRIERS[np.dtype(carrier)]
        lowest = self._lowest_exponent
        return (
            self.mantissa_bits <= target.mantissa_bits
            and lowest >= target.emin - target.mantissa_bits
            and self.max_exponent <= target.emax
        )

    @cached_property
    def carrier(self):
        """The smallest dtype that holds every value: float32 or float64."""
        return FLOAT32.dtype if self.fits(np.float32) else FLOAT64.dtype

    @cached_property
    def parameters(self):
        """What the definition of rounding reads: a tuple of integers, see the index names in this module."""
        underflow = {True: GRADUAL, "ftz": FLUSH, "grid": GRID, "normal": NORMAL}[self.subnormals]
        if self.specials == "scale":
            underflow = SCALE
        flags = SIGNED * self.signed + NEGATIVE_ZERO * self.has_negative_zero
        if self.specials in ("finite", "p3109_finite") or not (self.has_nan or self.has_infinity):
            flags += SATURATES
        if self.specials == "fn" and self.signed:
            flags += SIGNED_NAN
        if self.specials.startswith("p3109"):
            flags += NAN_QUOTIENTS  # there a number over zero is NaN
        nan_code = -1 if self.nan_code is None else self.nan_code
        if nan_code >= 1 << 62:  # as a signed word, like every code of 64 bits
            nan_code -= 0 if nan_code < 1 << 63 else 1 << 64
        return (
            self.mantissa_bits,
            self.emin,
            self.max_code,
            -1 if self.infinity_code is None else self.infinity_code,
            nan_code,
            underflow,
            flags,
            self.magnitude_bits,
            int(self.has_nan),
        )

    @cached_property
    def record(self):
        """`parameters` as an int64 array for compiled code."""
        record = np.array(self.parameters, np.int64)
        record.flags.writeable = False
        return record

    @cached_property
    def kernel_record(self):
        """`parameters`, then the bits of five float64 numbers: what scalar functions in users' kernels read.

        FLOOR is 2**emin, SPREAD 2**(52 - m), STEP 2**-m; magnitudes from LOWEST to LARGEST, and 0, are rounded by one
        sum in float64. LARGEST is -1 where that would not be exact.
        """
        m = self.mantissa_bits
        lowest = 0.0 if self.subnormals is True else self.smallest_normal
        exact = (
            0 < m <= 50 and self.signed and self.emin - m > FLOAT64.emin
            and self.max_exponent + 53 - m <= FLOAT64.emax
        )  # fmt: skip
        largest = self.max if exact else -1.0
        floor = math.ldexp(1.0, max(self.emin, FLOAT64.emin))
        numbers = np.array([floor, math.ldexp(1.0, 52 - m), math.ldexp(1.0, -m), lowest, largest])
        record = np.concatenate([self.record, numbers.view(np.int64)])
        record.flags.writeable = False
        return record

    def exact(self, magnitude):
        """The exact value of a finite magnitude code, as a Fraction."""
        significand, exponent = self._parts(magnitude)
        return Fraction(significand) * Fraction(2) ** exponent


def _rebuild(exponent_bits, mantissa_bits, bias, specials, subnormals, signed, name):
    return Format(
        exponent_bits,
        mantissa_bits,
        bias=bias,
        specials=specials,
        subnormals=subnormals,
        signed=signed,
        name=name,
    )


def show(value):
    """A float with enough digits to tell it, plain where that is short."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text
