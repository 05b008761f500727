"""The numba types of numbers and arrays that carry their format and rounding, and how they are laid out.

A number of type SoftFloatType lives in a register as float32 or float64, whichever its operations are done in
(softfloat.numba_types.forms); in arrays it is what SoftArray keeps: the format's carrier. Plain numbers become
soft ones where the two meet; a soft number never becomes a plain one unless `float(x)` asks for it.
"""

from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typeconv import Conversion
from numba.extending import intrinsic, models, register_model

from softfloat._jit import source_hash
from softfloat.fast import FULL, fast_form
from softfloat.format import FLOAT32, FLOAT64
from softfloat.numba_types.options import FormatConstant, FormatModel
from softfloat.rounding import AWAY, EVEN, MODES, STOCHASTIC, ZERO

PLAIN = (types.Float, types.Integer, types.Boolean)
_MODE_NAMES = {code: str(mode) for mode, code in MODES.items()}


class Rules(NamedTuple):
    """How operations on a type round: the integers of softfloat.rounding."""

    mode: int = EVEN
    saturate: int = 0
    bits: int = 24
    variant: int = 0


NEAREST = Rules()


def narrow(fmt, rules):
    """Whether +, -, *, / of values in float32, then a rounding, is one rounding of the exact result.

    Rounding to nearest twice is harmless where the first has 2p + 2 bits (Figueroa 1995) and nothing underflows.
    """
    m, low = fmt.mantissa_bits, fmt.emin - fmt.mantissa_bits
    return (
        rules.mode in (EVEN, AWAY)
        and fmt.fits(FLOAT32.dtype)
        and 2 * m + 4 <= FLOAT32.mantissa_bits + 1
        and 2 * low >= FLOAT32.emin
        and max(2 * fmt.max_exponent + 2, fmt.max_exponent + 1 - low) <= FLOAT32.emax
        and fast_form(fmt, FLOAT32.dtype, rules.mode, rules.saturate) is not None
    )


def shares_range(fmt, rules):
    """The same for a format with float32's own exponents, such as bfloat16, to nearest even or toward zero.

    Sums below the normal range are exact. A product of at least half the smallest value is exact there as well, as
    its 2p bits fit; a lesser one becomes at most that half, which goes to zero. A quotient of p-bit numbers is no
    nearer to a tie than 2**-(p + 1) of half that value.
    """
    m, low = fmt.mantissa_bits, fmt.emin - fmt.mantissa_bits
    return (
        rules.mode in (EVEN, ZERO)
        and not rules.saturate
        and fmt.has_nan
        and fmt.fits(FLOAT32.dtype)
        and (fast_form(fmt, FLOAT32.dtype, rules.mode, False) or (None,))[0] == FULL
        and low - 2 * (m + 1) >= FLOAT32.emin - FLOAT32.mantissa_bits
    )


class SoftFloatType(types.Hashable):
    """A value of a format, and how operations on it round. No types.Number: numba must not treat it as one."""

    # numba's array expressions take no scalars but its own: softfloat.numba_types.arrays spreads ours.
    is_internal = False

    def __init__(self, fmt, rules=NEAREST):
        self.fmt, self.rules = fmt, rules
        self.lane = FLOAT32 if narrow(fmt, rules) or shares_range(fmt, rules) else FLOAT64
        parts = [fmt.label, *([_MODE_NAMES[rules.mode]] if rules.mode != EVEN else [])]
        parts += [
            f"{k}={v}"
            for k, v in rules._asdict().items()
            if k != "mode" and v != getattr(NEAREST, k)
        ]
        super().__init__(name=f"softfloat({', '.join(parts)})")

    @property
    def key(self):
        # With the hash, code that a user's module keeps on disk does not outlive an upgrade.
        return self.fmt, self.rules, source_hash()

    def unify(self, context, other):
        return self if isinstance(other, PLAIN) else None

    def can_convert_from(self, context, other):
        return Conversion.unsafe if isinstance(other, PLAIN) else None

    @property
    def number(self):
        """The numba type it has in a register."""
        return types.float32 if self.lane is FLOAT32 else types.float64

    @property
    def carrier(self):
        """The numba type it has in an array."""
        return types.float32 if self.fmt.carrier == FLOAT32.dtype else types.float64

    @property
    def stochastic(self):
        return self.rules.mode >= STOCHASTIC


class SoftDType(FormatConstant):
    """The dtype of a soft array in a kernel: its format, with its rounding."""

    def __init__(self, soft):
        super().__init__(soft.fmt)
        self.soft = soft
        self.name = f"dtype({soft})"


class SoftArrayType(types.Array):
    """An array of soft numbers."""

    is_internal = True

    def copy(self, dtype=None, ndim=None, layout=None, readonly=None):
        dtype = self.dtype if dtype is None else dtype
        return (SoftArrayType if isinstance(dtype, SoftFloatType) else types.Array)(
            dtype,
            self.ndim if ndim is None else ndim,
            self.layout if layout is None else layout,
            readonly=not self.mutable if readonly is None else readonly,
            aligned=self.aligned,
        )

    def unify(self, context, other):
        joined = super().unify(context, other)
        if joined is None or not isinstance(other, SoftArrayType):
            return None
        return self.copy(layout=joined.layout, readonly=not joined.mutable)

    @property
    def plain(self):
        """The type of the NumPy array of carriers that lies beneath."""
        return types.Array(
            self.dtype.carrier, self.ndim, self.layout, not self.mutable, aligned=self.aligned
        )


register_model(SoftArrayType)(models.ArrayModel)
register_model(SoftDType)(FormatModel)


def _float(kind):
    return ir.FloatType() if kind == types.float32 else ir.DoubleType()


def _resized(builder, value, target):
    if value.type == target:
        return value
    wider = isinstance(target, ir.DoubleType)
    return builder.fpext(value, target) if wider else builder.fptrunc(value, target)


def _canonical(builder, value):
    """NaNs without sign. Integer steps, as comparisons would vanish under a user's fastmath."""
    wide = isinstance(value.type, ir.DoubleType)
    word, field = (ir.IntType(64), 52) if wide else (ir.IntType(32), 23)
    infinity = ((1 << (word.width - 1 - field)) - 1) << field
    bits = builder.bitcast(value, word)
    magnitude = builder.and_(bits, ir.Constant(word, (1 << (word.width - 1)) - 1))
    nan = builder.icmp_unsigned(">", magnitude, ir.Constant(word, infinity))
    quiet = ir.Constant(word, infinity | 1 << (field - 1))
    return builder.bitcast(builder.select(nan, quiet, bits), value.type)


@register_model(SoftFloatType)
class _SoftFloatModel(models.StructModel):
    """A struct of one float, as shared memory on a GPU takes structs but no other types of ours."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("value", kind.number)])
        # Operations leave the sign of NaNs open, except where the format keeps it.
        self._keeps_nan = kind.fmt.specials == "fn"
        self._number, self._carrier = _float(kind.number), _float(kind.carrier)

    def get_data_type(self):
        return ir.LiteralStructType([self._carrier])

    def get_return_type(self):
        return self.get_value_type()

    def as_return(self, builder, value):
        return value

    def from_return(self, builder, value):
        return value

    def as_data(self, builder, value):
        number = builder.extract_value(value, 0)
        number = number if self._keeps_nan else _canonical(builder, number)
        data = ir.Constant(self.get_data_type(), ir.Undefined)
        return builder.insert_value(data, _resized(builder, number, self._carrier), 0)

    def from_data(self, builder, value):
        return self._pack(builder, builder.extract_value(value, 0))

    def load_from_data_pointer(self, builder, ptr, align=None):
        slot = cgutils.gep_inbounds(builder, ptr, 0, 0)
        return self._pack(builder, builder.load(slot, align=align))

    def to_double(self, builder, value):
        """The number as a double, NaNs canonical."""
        number = builder.extract_value(value, 0)
        number = number if self._keeps_nan else _canonical(builder, number)
        return _resized(builder, number, ir.DoubleType())

    def from_double(self, builder, number):
        """A double that is a value of the format."""
        return self._pack(builder, number)

    def _pack(self, builder, number):
        value = ir.Constant(self.get_value_type(), ir.Undefined)
        return builder.insert_value(value, _resized(builder, number, self._number), 0)


# ---------------------------------------------------------------- between a soft number and its float
@intrinsic
def raw(context, x):
    """The float32 or float64 in which a soft number lives."""
    if not isinstance(x, SoftFloatType):
        return None
    return x.number(x), lambda c, b, s, a: b.extract_value(a[0], 0)


def wrapper(soft):
    """An intrinsic that makes a soft number of a float that is a value of its format, unchecked."""

    @intrinsic
    def wrap(context, number):
        if number != soft.number:
            return None

        def generate(context, builder, signature, arguments):
            empty = ir.Constant(context.get_value_type(soft), ir.Undefined)
            return builder.insert_value(empty, arguments[0], 0)

        return soft(number), generate

    return wrap
