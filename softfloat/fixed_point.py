"""Fixed point: multiples of a power of two, as one more record that says what a code means.

A value is k * 2**-fraction_bits with an integer k; its code is k in two's complement. On the line
of magnitude codes (see softfloat.rounding) such a format is one whose numbers are all subnormal, up
to 2**integer_bits itself: so the parity of a code, ties and stochastic decisions mean what they
mean everywhere. What is its own is the overflow: `softfloat.ops.convert.round_fixed` saturates to
two ends that may differ, or wraps.
"""

import functools
from fractions import Fraction
from functools import cached_property

import numpy as np

from softfloat._jit import both, jit
from softfloat.bits import (
    and_,
    magnitude,
    one_like,
    or_,
    quiet_nan_like,
    shr,
    sign_bit,
    to_bits,
    to_float,
    unsigned_to_float,
    zero_like,
)
from softfloat.format import (
    CARRIERS,
    FLAGS,
    FLOAT32,
    FLOAT64,
    GRADUAL,
    MAX_CODE,
    SATURATES,
    SIGNED,
    Format,
)
from softfloat.random import WORD_BITS
from softfloat.rounding import (
    AWAY,
    EQUAL,
    EVEN,
    NEGATIVE,
    NO_SATURATION,
    ODD,
    POSITIVE,
    STOCHASTIC,
    VARIANT_A,
)

OVERFLOWS = ("saturate", "wrap")
LARGEST_BITS = 53  # sign included: what the significand of a float64 holds
# Bits of FLAGS, above those of softfloat.format. LOPSIDED: the negative end lies one step further.
FIXED, WRAPS, LOPSIDED = 32, 64, 128


def _check_bits(name, value):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 0 <= value <= LARGEST_BITS:
        raise ValueError(f"{name} must be in 0..{LARGEST_BITS}, got {value}")
    return int(value)


def _check_flag(name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


class FixedPoint:
    """A fixed-point format: multiples of 2**-fraction_bits below 2**integer_bits in magnitude.

    integer_bits : bits before the point, the sign not counted.   fraction_bits : bits after it.
    signed : with a sign; two's complement, so that -2**integer_bits is a value.
    symmetric : leave that value out; the range is then [-max, max].
    overflow : "saturate" (to the nearer end) or "wrap" (modulo the range, as integers of that width
    do).

    Immutable, hashable, picklable. At most 53 bits in all, so that every value is a float64. There
    is no infinity, no NaN and no -0: an infinite operand saturates (where overflow wraps it is a
    ValueError), a NaN stays in the values and has no code.

    >>> import softfloat as sf
    >>> q = sf.FixedPoint(3, 4)
    >>> sf.quantize([0.1, 2.71828, -100.0], q)
    array([ 0.125 ,  2.6875, -8.    ])
    """

    is_fixed = True
    specials = "fixed"
    subnormals = True
    has_infinity = has_nan = has_negative_zero = False
    has_zero = True
    infinity_code = nan_code = name = None

    def __init__(
        self, integer_bits, fraction_bits, signed=True, symmetric=False, overflow="saturate"
    ):
        put = lambda field, value: object.__setattr__(self, field, value)  # noqa: E731
        put("integer_bits", _check_bits("integer_bits", integer_bits))
        put("fraction_bits", _check_bits("fraction_bits", fraction_bits))
        put("signed", _check_flag("signed", signed))
        put("symmetric", _check_flag("symmetric", symmetric))
        if not isinstance(overflow, str) or overflow not in OVERFLOWS:
            raise ValueError(f'overflow must be "saturate" or "wrap", got {overflow!r}')
        put("overflow", overflow)
        put("_key", (self.integer_bits, self.fraction_bits, self.signed, self.symmetric, overflow))
        put("_hash", hash(self._key))
        put("plans", {})  # kernels and constants chosen for this format, filled on use
        if not 1 <= self.magnitude_bits <= LARGEST_BITS - self.signed:
            kind = "a sign and " if self.signed else ""
            raise ValueError(
                f"integer_bits + fraction_bits must be in 1..{LARGEST_BITS - self.signed} "
                f"({kind}53 bits in all fit in a float64), got {integer_bits} + {fraction_bits}"
            )
        if self.symmetric and not self.signed:
            raise ValueError(
                "symmetric=True leaves out the most negative value: it needs signed=True"
            )
        if self.symmetric and overflow == "wrap":
            raise ValueError(
                "symmetric=True leaves out a value that overflow='wrap' can give; choose one"
            )

    # ---------------------------------------------------------------- identity
    def __call__(self, x, **options):
        """x rounded to a scalar or an array of this format: softfloat.array(x, fmt, ...)."""
        return Format.make(x, self, **options)

    def __setattr__(self, field, value):
        raise AttributeError(f"FixedPoint is immutable: cannot set {field}; make a new FixedPoint")

    def __delattr__(self, field):
        raise AttributeError(f"FixedPoint is immutable: cannot delete {field}")

    def __eq__(self, other):
        return self._key == other._key if isinstance(other, FixedPoint) else NotImplemented

    def __hash__(self):
        return self._hash

    def __reduce__(self):
        return FixedPoint, self._key

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        parts = [str(self.integer_bits), str(self.fraction_bits)]
        parts += [] if self.signed else ["signed=False"]
        parts += ["symmetric=True"] if self.symmetric else []
        parts += ["overflow='wrap'"] if self.overflow == "wrap" else []
        return f"FixedPoint({', '.join(parts)})"

    @property
    def label(self):
        """A short description such as Q3.4 or UQ8.0: for messages and tables."""
        label = f"{'' if self.signed else 'U'}Q{self.integer_bits}.{self.fraction_bits}"
        label += " symmetric" if self.symmetric else ""
        return label + " wrap" if self.overflow == "wrap" else label

    def __str__(self):
        return "\n".join(f"{left:<20}{right}" for left, right in self.table())

    def table(self):
        """Rows (quantity, text) that describe layout and range."""
        sign = "1 sign + " if self.signed else ""
        layout = f"{self.integer_bits} integer + {self.fraction_bits} fraction"
        return [
            ("format", self.label),
            ("layout", f"{self.bits} bits: {sign}{layout}"),
            ("codes", "two's complement" if self.signed else "unsigned"),
            ("largest", repr(self.max)),
            ("smallest", repr(self.min)),
            ("resolution", f"2**{-self.fraction_bits} = {self.resolution!r}"),
            ("overflow", "wraps around" if self.overflow == "wrap" else "saturates"),
            ("specials", "no infinity, no NaN, no -0"),
        ]

    # ---------------------------------------------------------------- derived quantities
    @property
    def magnitude_bits(self):
        return self.integer_bits + self.fraction_bits

    @property
    def bits(self):
        """Width of a code."""
        return self.magnitude_bits + self.signed

    @property
    def mantissa_bits(self):
        """One less than the bits of the largest significand, as in a Format."""
        return self.magnitude_bits - 1

    @property
    def resolution(self):
        """The distance between neighbours: 2**-fraction_bits."""
        return 2.0**-self.fraction_bits

    @property
    def max_code(self):
        """The code of the largest value."""
        return (1 << self.magnitude_bits) - 1

    @property
    def max(self):
        """The largest value, as a float (exact)."""
        return self.max_code * self.resolution

    @property
    def min(self):
        """The smallest value, the most negative one where there is a sign."""
        if not self.signed:
            return 0.0
        return -self.max if self.symmetric else -(2.0**self.integer_bits)

    @cached_property
    def code_dtype(self):
        """The smallest unsigned integer dtype that holds a code."""
        return np.dtype(next(f"u{b // 8}" for b in (8, 16, 32, 64) if self.bits <= b))

    def fits(self, carrier):
        """Whether every value of this format is a value of np.float32 or np.float64."""
        return self.magnitude_bits <= CARRIERS[np.dtype(carrier)].mantissa_bits + 1

    @cached_property
    def carrier(self):
        """The smallest dtype that holds every value: float32 or float64."""
        return FLOAT32.dtype if self.fits(np.float32) else FLOAT64.dtype

    @cached_property
    def parameters(self):
        """What the definition of rounding reads: as Format.parameters, FIXED among the flags."""
        wraps = self.overflow == "wrap"
        flags = FIXED + SIGNED * self.signed + (WRAPS if wraps else SATURATES)
        flags += LOPSIDED * (self.signed and not self.symmetric)
        n = self.magnitude_bits
        return (n, self.integer_bits, self.max_code, -1, -1, GRADUAL, flags, n, 0)

    @cached_property
    def record(self):
        """`parameters` as an int64 array for compiled code."""
        record = np.array(self.parameters, np.int64)
        record.flags.writeable = False
        return record

    def exact(self, code):
        """The exact value of a code, as a Fraction."""
        negative = self.signed and code >> self.magnitude_bits
        return Fraction(code - (1 << self.bits) if negative else code, 1 << self.fraction_bits)

    def no_result(self, place):
        """The message for an element, named by `place`, that has no value or no code here."""
        if self.overflow == "wrap":
            return (
                f"{place} cannot wrap around the range of {self.label}: it is NaN, infinite, or has "
                "more digits than can be wrapped exactly"
            )
        return f"{place} is NaN, and {self.label} has no code for NaN"


@both
def lowest_code(F):
    """The magnitude code of the most negative value of a signed format."""
    return F[MAX_CODE] + (1 if (F[FLAGS] & LOPSIDED) != 0 else 0)


# ---------------------------------------------------------------- the fast form
# Entries of the array of constants, all as bits of the carrier's width.
(
    LOW,  # the ends of the range
    HIGH,
    SPREAD,  # 2**M steps: adding it rounds to a whole number of steps
    STEP,
    HALF_STEP,
    SPAN,  # the width of the range, 2**integer_bits, twice that where there is a sign
    INVERSE_SPAN,
    WORD_SHIFT,  # 32 - k
    WORDS,  # 2**k
    WORD_STEP,  # 2**-k steps
    CONSTANTS,
) = range(11)
STEPS = 3  # the kind of this form, beside those of softfloat.fast
# Bits of `rule`.
WRAPPING, SIGNED_RANGE = 1, 2


def fixed_rule(fmt, carrier, mode, saturate, random_bits=24, variant=VARIANT_A):
    """The rule of the fast form for values of a carrier, or None where there is none.

    Where the rule has WRAPPING, no element may be infinite.
    """
    if not fmt.fits(carrier):
        return None
    # 2**k - w and the discarded fraction must be values of the carrier.
    if mode == STOCHASTIC and (
        variant != VARIANT_A or random_bits > CARRIERS[carrier].mantissa_bits + 1
    ):
        return None
    rule = SIGNED_RANGE if fmt.signed else 0
    return rule | WRAPPING if fmt.overflow == "wrap" and saturate == NO_SATURATION else rule


def fixed_constants(fmt, carrier, mode, random_bits=24):
    """The constants of the fast form, as one unsigned array."""
    c = CARRIERS[carrier]
    unsigned = np.dtype(f"u{c.bits // 8}").type
    P = np.zeros(CONSTANTS, unsigned)
    k = 1 if mode == EQUAL else random_bits  # there the top bit of the word decides
    span = 2.0 ** (fmt.integer_bits + fmt.signed)
    numbers = {
        LOW: fmt.min,
        HIGH: fmt.max,
        SPREAD: 2.0**c.mantissa_bits * fmt.resolution,
        STEP: fmt.resolution,
        HALF_STEP: fmt.resolution / 2,
        SPAN: span,
        INVERSE_SPAN: 1 / span,
        WORDS: 2.0**k,
        WORD_STEP: fmt.resolution * 2.0**-k,
    }
    for index, value in numbers.items():
        P[index] = np.array(value, carrier).view(unsigned)
    P[WORD_SHIFT] = WORD_BITS - k
    return P


@jit(inline=True)
def load_fixed_constants(P):
    """The constants as scalars, once per call of a loop."""
    return (
        to_float(P[LOW]), to_float(P[HIGH]), to_float(P[SPREAD]), to_float(P[STEP]),
        to_float(P[HALF_STEP]), to_float(P[SPAN]), to_float(P[INVERSE_SPAN]), P[WORD_SHIFT],
        to_float(P[WORDS]), to_float(P[WORD_STEP]),
    )  # fmt: skip


@functools.cache
def steps_form(mode, rule):
    """The compiled function round(x, p, word) of the fast form, which adds and subtracts 2**M steps.

    Rounding is monotone and keeps the ends of the range, so saturating first gives the same and
    keeps |x| in bounds.
    """
    wrapping = int(rule & WRAPPING != 0)
    signed_range = int(rule & SIGNED_RANGE != 0)

    @jit(inline=True)
    def round_to_steps(x, p, word):
        low, high, spread, step, half_step, span, inverse_span, word_shift, words, word_step = p
        zero = to_float(zero_like(to_bits(x)))
        c = x
        if wrapping == 0:
            c = low if c < low else c
            c = high if c > high else c
        u = to_bits(c)
        negative = sign_bit(u) != zero_like(u)
        a = to_float(magnitude(u))
        t = a + spread
        y = t - spread if a < spread else a  # beyond, every number is whole
        if mode == AWAY:
            y = y + step if a - y == half_step else y
        elif mode == ODD:
            other = y - step if y > a else y + step
            even = and_(to_bits(t), one_like(u)) == zero_like(u)
            y = other if (y != a) & even else y
        elif mode != EVEN:
            y = y - step if y > a else y
            if mode == POSITIVE:
                y = y + step if (y < a) & (not negative) else y
            elif mode == NEGATIVE:
                y = y + step if (y < a) & negative else y
            elif mode == EQUAL:
                up = (y < a) & (shr(word, word_shift) != zero_like(word))
                y = y + step if up else y
            elif mode == STOCHASTIC:
                steps = words - unsigned_to_float(shr(word, word_shift))
                y = y + step if a - y >= steps * word_step else y
        # Adding +0 turns -0 into +0.
        y = to_float(or_(to_bits(y), sign_bit(u))) + zero
        if wrapping == 1:
            turns = y * inverse_span
            if signed_range == 1:
                y = y - np.rint(turns) * span
                y = y - span if y > high else y
            else:
                y = y - np.floor(turns) * span
        return y if x == x else to_float(quiet_nan_like(u))

    return round_to_steps
