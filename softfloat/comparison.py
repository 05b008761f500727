"""Comparisons, minimum and maximum, neighbours, classes, signs, exponents, and integers.

Nothing here is rounded unless a format is named, and nothing depends on how the processor treats
subnormals. All take what `quantize` takes: large integers, longdouble, Fraction, Decimal and
decimal strings too, each as the exact number that it is.

Source: IEEE 754-2019, sections 5.3, 5.6 to 5.8, 5.10, 5.11 and 9.6.
"""

import math
from typing import Unpack

import numpy as np

from softfloat.backends.compare import (
    AFTER,
    DOWN,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
    UP,
    class_loop,
    compare_floats,
    compare_loop,
    exponent_loop,
    integer_loop,
    select_floats,
    select_loop,
    spacing_loop,
    step_loop,
    total_order_loop,
)
from softfloat.backends.cpu import cast
from softfloat.backends.exact import COUNTED, OFFSET
from softfloat.backends.threads import run_chunks
from softfloat.fixed_point import FixedPoint
from softfloat.format import EMIN, MANTISSA_BITS
from softfloat.formats import as_format
from softfloat.functional import (
    EXACT_GRAIN,
    FAST_GRAIN,
    SHORT,
    Choice,
    Options,
    _broadcast,
    _carriers,
    _checked_out,
    _dress,
    _each_block,
    _exact,
    _result_dtype,
    _round_parts,
    _separate,
    quantize,
)
from softfloat.operands import (
    FLOAT32,
    FLOAT64,
    Devices,
    Held,
    Parts,
    as_values,
    exact_array,
    host_only,
    on_device,
)
from softfloat.ops.compare import CLASS_NAMES, FIRST, NEITHER
from softfloat.rounding import INFINITE_CLASS, NO_SATURATION, QUIET_CLASS, ZERO_CLASS
from softfloat.status import active_status

_UINT8 = np.dtype(np.uint8)
_LARGEST_POWER = 1 << 40
SCALAR_GRAIN = 1 << 15  # elements at a time where an operand is a single number
_NAMES = np.array(CLASS_NAMES)


# ---------------------------------------------------------------- operands
class _Operands:
    """The operands of one call, taken apart as far as needed, and their common shape."""

    def __init__(self, *given):
        taken = [as_values(x) for x in given]
        self.given = given
        self.values = [value for value, _ in taken]
        self.shape = _broadcast([value.shape for value in self.values])
        self.exact = any(isinstance(value, Parts) for value in self.values)
        self.dtypes = [
            value.dtype
            for (value, own), x in zip(taken, given, strict=True)
            if own and type(x) is not float
        ]
        if not self.dtypes and any(type(x) is float for x in given):
            self.dtypes = [FLOAT64]
        # Asked for here: blocks may be done by threads that know nothing of the caller's context.
        self.collected = active_status()

    def format(self):
        """The format that all operands which have one agree on, or None; TypeError for two."""
        formats = [x._format for x in self.given if isinstance(x, Held)]
        if any(fmt != formats[0] for fmt in formats):
            raise TypeError(
                f"{' and '.join(f.label for f in formats)}: name the format of the result with fmt="
            )
        return formats[0] if formats else None

    def report(self, counts):
        """Add the flags of a block to the status blocks around the call."""
        for block in self.collected:
            block.add(counts)

    def common_dtype(self):
        """The narrowest carrier that holds every operand.

        A Python number counts only where float32 does not hold it.
        """
        weak = [type(x) in (bool, int, float) for x in self.given]
        if all(weak):
            return FLOAT64
        for value, light in zip(self.values, weak, strict=True):
            if value.dtype == FLOAT64 and not (light and _is_float32(float(value))):
                return FLOAT64
        return FLOAT32

    def result(self, dtype, out, what):
        """The array to write to: a new one of this dtype, or `out` if it has that dtype."""
        if out is None:
            return np.empty(self.shape, dtype)
        target = _checked_out(out, self.shape, [dtype], what)
        if not self.exact:
            self.values = _separate(self.values, out)
        return target

    def run(self, step, result, grain=EXACT_GRAIN):
        """Call step(operand blocks, result block, index of its start) until `result` is done.

        A block is a flat array of floats or, where any operand is only exact as parts, of columns
        of parts.
        """
        if not self.exact:
            self._run_floats(step, result, grain)
            return
        flat = [_columns(value, self.shape) for value in self.values]
        target = np.empty(result.size, result.dtype)

        def task(start, stop):
            step([a[..., start:stop] for a in flat], target[start:stop], start)

        run_chunks(task, target.size, grain)
        result[...] = target.reshape(self.shape)

    def _run_floats(self, step, result, grain):
        light = [value.size == 1 and result.size > 1 for value in self.values]
        heavy = [value for value, single in zip(self.values, light, strict=True) if not single]
        plain = all(a.shape == result.shape and a.flags.c_contiguous for a in [*heavy, result])
        if not any(light) or not plain:
            _each_block(step, self.values, result, grain)
            return
        # A single number meets a whole array: one block full of it serves for all.
        grain = min(grain, SCALAR_GRAIN)
        flat = [
            np.full(min(grain, result.size), value.reshape(())) if single else value.reshape(-1)
            for value, single in zip(self.values, light, strict=True)
        ]
        target = result.reshape(-1)

        def task(start, stop):
            pieces = [slice(0, stop - start) if single else slice(start, stop) for single in light]
            blocks = [a[piece] for a, piece in zip(flat, pieces, strict=True)]
            step(blocks, target[start:stop], start)

        run_chunks(task, target.size, grain)


def _columns(value, shape):
    if isinstance(value, Parts):
        columns = [np.broadcast_to(a.reshape(value.shape), shape) for a in value.arrays]
        return np.stack([a.reshape(-1) for a in columns])
    return np.broadcast_to(value, shape).reshape(-1)


def _bits(block):
    """(bits or columns, significand field) as the loops read them."""
    if block.dtype.kind != "f":
        return block, 52
    return (block.view(np.int32), 23) if block.dtype == FLOAT32 else (block.view(np.int64), 52)


def _is_float32(v):
    """Whether a Python number is a float32; by integers, so that no processor flag matters."""
    if v == 0 or not math.isfinite(v):
        return True
    significand, exponent = math.frexp(v)
    places = min(24, exponent + 149)
    return exponent <= 128 and places > 0 and math.ldexp(significand, places).is_integer()


def _new_counts():
    return np.zeros(COUNTED, np.int64)


def _floating(fmt, what):
    fmt = as_format(fmt)
    if isinstance(fmt, FixedPoint):
        raise TypeError(f"{what} is a matter of exponents: {fmt.label} is fixed point and has none")
    return fmt


# ---------------------------------------------------------------- comparison
def _quick_compare(relation, a, b):
    """The result on short contiguous arrays of one dtype and shape, else None."""
    if (
        type(a) is not np.ndarray
        or type(b) is not np.ndarray
        or a.dtype is not b.dtype
        or (a.dtype is not FLOAT32 and a.dtype is not FLOAT64)
        or a.shape != b.shape
        or a.ndim == 0
        or a.size > SHORT
        or not (a.flags.c_contiguous and b.flags.c_contiguous)
        or active_status()
    ):
        return None
    result = np.empty(a.shape, bool)
    done = compare_floats(relation)(a.reshape(-1), b.reshape(-1), result.reshape(-1))
    return result if done else None


def _compare(relation, a, b, signaling):
    result = _quick_compare(relation, a, b)
    if result is not None:
        return result
    if on_device(a, b):
        return Devices.load().compare(relation, a, b)
    operands = _Operands(a, b)
    result = np.empty(operands.shape, bool)
    counting = bool(operands.collected)

    def step(blocks, target, start):
        if not (counting or operands.exact) and compare_floats(relation)(*blocks, target):
            return
        (x, mx), (y, my) = map(_bits, blocks)
        counts = _new_counts()
        compare_loop(relation)(x, mx, y, my, target, signaling, counts)
        operands.report(counts)

    operands.run(step, result, EXACT_GRAIN if counting or operands.exact else FAST_GRAIN)
    return _dress(result, (a, b), None)


def equal(a, b, *, signaling=False):
    """a == b, compared as exact numbers; False where one is NaN. The zeros are equal.

    Only a signaling NaN raises invalid, with signaling=True every NaN does. So for all six
    comparisons, which take operands of any two formats, float32 against float64 and large integers
    against floats exactly.
    """
    return _compare(EQUAL, a, b, bool(signaling))


def not_equal(a, b, *, signaling=False):
    """a != b: the negation of `equal`, so True where one is NaN."""
    return _compare(NOT_EQUAL, a, b, bool(signaling))


def less(a, b, *, signaling=False):
    """a < b, compared as exact numbers; False where one is NaN. See `equal`."""
    return _compare(LESS, a, b, bool(signaling))


def less_equal(a, b, *, signaling=False):
    """a <= b, compared as exact numbers; False where one is NaN. See `equal`."""
    return _compare(LESS_EQUAL, a, b, bool(signaling))


def greater(a, b, *, signaling=False):
    """a > b, compared as exact numbers; False where one is NaN. See `equal`."""
    return _compare(GREATER, a, b, bool(signaling))


def greater_equal(a, b, *, signaling=False):
    """a >= b, compared as exact numbers; False where one is NaN. See `equal`."""
    return _compare(GREATER_EQUAL, a, b, bool(signaling))


def _total_order(magnitudes, a, b):
    operands = _Operands(a, b)
    result = np.empty(operands.shape, bool)

    def step(blocks, target, start):
        (x, mx), (y, my) = map(_bits, blocks)
        total_order_loop(magnitudes)(x, mx, y, my, target)

    operands.run(step, result)
    return _dress(result, (a, b), None)


def total_order(a, b):
    """Whether a comes before b, or is the same, in the total order of IEEE 754-2019, 5.10.

    -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN; positive signaling NaNs come before quiet ones,
    then the payloads decide. It reads the NaNs of the arrays as they are; float32 and float64 are
    compared as if widened.
    """
    return _total_order(False, a, b)


def total_order_magnitude(a, b):
    """`total_order` of |a| and |b|."""
    return _total_order(True, a, b)


# ---------------------------------------------------------------- minimum, maximum
def _select(a, b, fmt, out, options, *, larger, magnitudes=False, numbers=False):
    operands = _Operands(a, b)
    kind = larger, magnitudes, numbers
    if fmt is None:
        _refuse_options(options)
        if operands.exact:
            raise TypeError(
                "an operand is no float64; name the format of the result: "
                f"{'maximum' if larger else 'minimum'}(a, b, fmt)"
            )
        dtype = operands.common_dtype()
        if isinstance(out, np.ndarray) and out.dtype == FLOAT64:
            dtype = FLOAT64
        result = operands.result(dtype, out, operands.format() or "operands of this precision")
        _select_values(kind, operands, result)
        return _dress(result, (a, b), out, operands.format())
    fmt = as_format(fmt)
    if operands.exact:
        places = np.empty(operands.shape, np.uint8)
        _select_values(kind, operands, places)
        first, second = (np.broadcast_to(exact_array(x), operands.shape) for x in (a, b))
        best = np.where(places == FIRST, first, second)
        best[places == NEITHER] = math.nan
    else:
        best = np.empty(operands.shape, operands.common_dtype())
        _select_values(kind, operands, best)
    if out is None:
        result = np.empty(operands.shape, _result_dtype(fmt, operands.dtypes))
    else:
        result = _checked_out(out, operands.shape, _carriers(fmt), fmt)
    quantize(best, fmt, out=result, **options)
    return _dress(result, (a, b), out, fmt)


def _select_values(kind, operands, result):
    """Write the selected numbers, or which operand they are if the result is of uint8."""
    places = result.dtype == _UINT8
    counting = bool(operands.collected)

    def step(blocks, target, start):
        if not (counting or places) and _select_fast(kind, blocks, target):
            return
        (x, mx), (y, my) = map(_bits, blocks)
        counts = _new_counts()
        view, mo = (target, 0) if places else _bits(target)
        select_loop(*kind, places)(x, mx, y, my, view, mo, counts)
        operands.report(counts)

    operands.run(step, result)


def _select_fast(kind, blocks, target):
    wide = []
    for block in blocks:
        if block.dtype != target.dtype:
            buffer = np.empty(block.size, target.dtype)
            if not cast(block, buffer):
                return False
            block = buffer
        wide.append(block)
    return select_floats(*kind)(*wide, target)


def _refuse_options(options):
    if options:
        raise TypeError(f"{', '.join(options)} has no meaning without fmt: nothing is rounded")


def minimum(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The smaller of a and b; NaN where one is NaN, and -0 lies below +0 (IEEE 754-2019, 9.6).

    fmt : round the result to this format, once, with the options of `quantize`; by default it stays
    the operand.
    """
    return _select(a, b, fmt, out, options, larger=False)


def maximum(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The larger of a and b; NaN where one is NaN, and -0 lies below +0. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=True)


def minimum_number(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The smaller of a and b; a number beats a NaN (IEEE 754-2019, 9.6). See `minimum`."""
    return _select(a, b, fmt, out, options, larger=False, numbers=True)


def maximum_number(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The larger of a and b; a number beats a NaN. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=True, numbers=True)


def minimum_magnitude(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The operand of smaller magnitude; of equal ones, their minimum. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=False, magnitudes=True)


def maximum_magnitude(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The operand of larger magnitude; of equal ones, their maximum. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=True, magnitudes=True)


def minimum_magnitude_number(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The operand of smaller magnitude; a number beats a NaN. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=False, magnitudes=True, numbers=True)


def maximum_magnitude_number(a, b, fmt=None, *, out=None, **options: Unpack[Options]):
    """The operand of larger magnitude; a number beats a NaN. See `minimum`."""
    return _select(a, b, fmt, out, options, larger=True, magnitudes=True, numbers=True)


# ---------------------------------------------------------------- neighbours
def _step(direction, given, fmt, out):
    fmt = as_format(fmt)
    operands = _Operands(*given)
    dtype = _result_dtype(fmt, operands.dtypes)
    if out is not None and isinstance(out, np.ndarray) and out.dtype in _carriers(fmt):
        dtype = out.dtype
    result = operands.result(dtype, out, fmt)
    record = fmt.record

    def step(blocks, target, start):
        x, mx = _bits(blocks[0])
        y, my = _bits(blocks[-1])
        counts = _new_counts()
        step_loop(direction)(x, mx, y, my, *_bits(target), record, counts)
        operands.report(counts)

    operands.run(step, result)
    return _dress(result, given, out, fmt)


def next_up(x, fmt, *, out=None):
    """The smallest value of the format above x, which need not be one of its values.

    Past the largest finite value comes infinity; in a format without infinity, and past the end of
    an unsigned one, the step stays at the end. The neighbours of both zeros are the smallest
    positive and negative value. Where there is -0, the value above the smallest negative one is -0.
    """
    return _step(UP, (x,), fmt, out)


def next_down(x, fmt, *, out=None):
    """The largest value of the format below x. See `next_up`."""
    return _step(DOWN, (x,), fmt, out)


def nextafter(x, y, fmt, *, out=None):
    """The neighbour of x in the format towards y, next_up(x) or next_down(x); y if they are equal.

    NaN where one is NaN. y itself is rounded to nearest if it is no value of the format. See
    `next_up`.
    """
    return _step(AFTER, (x, y), fmt, out)


def spacing(x, fmt, *, out=None):
    """The distance from x to the next value away from zero, with the sign of x: np.spacing.

    That is one unit in the last place. A number between two values has their distance, one beyond
    the largest value the unit of that. NaN for infinities and NaN.
    """
    fmt = as_format(fmt)
    operands = _Operands(x)
    lowest = fmt.parameters[EMIN] - fmt.parameters[MANTISSA_BITS]
    held = [d for d in _carriers(fmt) if lowest >= (-149 if d == FLOAT32 else -1074)]
    if not held:
        raise ValueError(f"the spacing of {fmt.label} near zero, 2**{lowest}, is below float64")
    dtype = _result_dtype(fmt, operands.dtypes)
    if isinstance(out, np.ndarray) and out.dtype in held:
        dtype = out.dtype
    result = operands.result(dtype if dtype in held else FLOAT64, out, fmt)
    record = fmt.record

    def step(blocks, target, start):
        counts = _new_counts()
        spacing_loop()(*_bits(blocks[0]), *_bits(target), record, counts)
        operands.report(counts)

    operands.run(step, result)
    return _dress(result, (x,), out, fmt)


# ---------------------------------------------------------------- classes
def _predicate(x, of_values, of_parts):
    value, _ = as_values(x)
    if isinstance(value, Parts):
        result = of_parts(*value.arrays[:2]).reshape(value.shape)
    else:
        result = np.asarray(of_values(value))
    return _dress(result, (x,), None)


def isnan(x):
    """Whether each element is NaN; quiet."""
    return _predicate(x, np.isnan, lambda kinds, negatives: kinds >= QUIET_CLASS)


def isinf(x):
    """Whether each element is infinite."""
    return _predicate(x, np.isinf, lambda kinds, negatives: kinds == INFINITE_CLASS)


def isfinite(x):
    """Whether each element is neither infinite nor NaN."""
    return _predicate(x, np.isfinite, lambda kinds, negatives: kinds < INFINITE_CLASS)


def signbit(x):
    """Whether each element has its sign bit set, zeros and NaNs included."""
    return _predicate(x, np.signbit, lambda kinds, negatives: negatives != 0)


def iszero(x):
    """Whether each element is a zero, by its bits: no subnormal number passes for one."""
    return _predicate(
        x, lambda value: _unsigned(value) << 1 == 0, lambda kinds, negatives: kinds == ZERO_CLASS
    )


def _unsigned(value):
    return np.asarray(value).view(f"u{value.dtype.itemsize}")


def _classes(x, fmt):
    operands = _Operands(x)
    places = np.empty(operands.shape, np.uint8)

    def step(blocks, target, start):
        class_loop()(*_bits(blocks[0]), target, fmt.record)

    operands.run(step, places)
    return places


def isnormal(x, fmt):
    """Whether each element is finite and not below the smallest normal value in magnitude."""
    places = _classes(x, _floating(fmt, "isnormal"))
    return _dress((places == 3) | (places == 8), (x,), None)


def issubnormal(x, fmt):
    """Whether each element is non-zero and below the smallest normal value in magnitude."""
    places = _classes(x, _floating(fmt, "issubnormal"))
    return _dress((places == 4) | (places == 7), (x,), None)


def classify(x, fmt):
    """The class of each element as a datum of the format, by its name in IEEE 754-2019, 5.7.2.

    "signalingNaN", "quietNaN", and "negative" or "positive" with "Infinity", "Normal", "Subnormal"
    or "Zero".
    """
    places = _classes(x, _floating(fmt, "classify"))
    return _dress(np.asarray(_NAMES[places]), (x,), None)


# ---------------------------------------------------------------- signs
def _with_sign(given, change_bits, change_exact, fmt, out, options):
    """An operation on signs alone, on bits or on exact numbers; rounded if a format is named."""
    x = given[0]
    operands = _Operands(*given)
    first = operands.values[0]
    if fmt is None:
        _refuse_options(options)
        if isinstance(first, Parts):
            raise TypeError("the operand is no float64; name the format of the result with fmt=")
        result = operands.result(first.dtype, out, operands.format() or "the operand")
    else:
        fmt = as_format(fmt)
        if out is None:
            result = np.empty(operands.shape, _result_dtype(fmt, _Operands(x).dtypes))
        else:
            result = _checked_out(out, operands.shape, _carriers(fmt), fmt)
    if isinstance(first, Parts):
        exact = np.broadcast_to(exact_array(x), operands.shape)
        changed = np.frompyfunc(change_exact, len(given), 1)(exact, *given[1:])
        changed = np.asarray(changed, object)
    else:
        changed = result if fmt is None else np.empty(operands.shape, first.dtype)
        sign = _unsigned(np.array(-0.0, first.dtype))[()]
        change_bits(_unsigned(operands.values[0]), sign, _unsigned(changed))
    if fmt is not None:
        quantize(changed, fmt, out=result, **options)
    return _dress(result, given, out, operands.format() if fmt is None else fmt)


def negative(x, fmt=None, *, out=None, **options: Unpack[Options]):
    """x with the other sign, NaNs included; quiet.

    fmt : round the result to this format, with the options of `quantize`; by default nothing but
    the sign changes. A format without -0 gives +0.
    """
    return _with_sign(
        (x,), lambda u, sign, to: np.bitwise_xor(u, sign, out=to), lambda v: -v, fmt, out, options
    )


def absolute(x, fmt=None, *, out=None, **options: Unpack[Options]):
    """x without its sign, NaNs included; quiet. See `negative`."""
    return _with_sign(
        (x,), lambda u, sign, to: np.bitwise_and(u, ~sign, out=to), abs, fmt, out, options
    )


def copysign(x, y, fmt=None, *, out=None, **options: Unpack[Options]):
    """x with the sign of y, NaNs and zeros included; quiet. See `negative`."""
    signs = np.asarray(signbit(y))

    def change_bits(u, sign, to):
        signed = np.where(signs, sign, sign ^ sign)
        np.bitwise_or(u & ~sign, signed, out=to)

    def change_exact(v, s):
        return -abs(v) if s else abs(v)

    return _with_sign((x, signs), change_bits, change_exact, fmt, out, options)


# ---------------------------------------------------------------- exponents
def logb(x, *, out=None):
    """The exponent of x: the integer e with 2**e <= |x| < 2**(e+1), as a float.

    logb(0) is -inf and raises divide_by_zero; logb of an infinity is +inf, that of NaN is NaN.
    """
    operands = _Operands(x)
    value = operands.values[0]
    dtype = FLOAT64 if operands.exact else value.dtype
    result = operands.result(dtype, out, "exponents")

    def step(blocks, target, start):
        counts = _new_counts()
        exponent_loop()(*_bits(blocks[0]), *_bits(target), counts)
        operands.report(counts)

    operands.run(step, result)
    return _dress(result, (x,), out)


def scalbn(x, n, fmt, *, out=None, **options: Unpack[Options]):
    """x * 2**n, exact, rounded once to `fmt`.   n : integers."""
    fmt = as_format(fmt)
    choice = Choice.of("scalbn", options)
    powers = _powers(n)
    operands = _Operands(x)
    (value,) = operands.values
    shape = _broadcast([value.shape, powers.shape])
    if out is None:
        result = np.empty(shape, _result_dtype(fmt, operands.dtypes))
    else:
        result = _checked_out(out, shape, _carriers(fmt), fmt)
    if isinstance(value, Parts):
        kinds, negatives, exponents, highs, lows = (
            np.broadcast_to(a.reshape(value.shape), shape) for a in value.arrays
        )
        _round_parts(Parts(kinds, negatives, exponents + powers, highs, lows), fmt, choice, result)
    else:
        (value,) = _separate([value], out)
        if out is not None and np.may_share_memory(powers, out):
            powers = powers.copy()
        _exact("scalbn", [value, powers], fmt, choice, shape, result)
    return _dress(result, (x, n), out, fmt)


def _powers(n):
    host_only(n)
    powers = np.asarray(n)
    if powers.dtype == object and all(type(k) is int for k in powers.ravel()):
        powers = np.asarray(np.clip(powers, -_LARGEST_POWER, _LARGEST_POWER))  # beyond 64 bits
    elif powers.dtype.kind not in "iu":
        raise TypeError(f"n must be integers, got dtype {powers.dtype}")
    elif powers.dtype.itemsize == 8 and powers.size:
        low = -_LARGEST_POWER if powers.dtype.kind == "i" else 0
        powers = powers.clip(low, _LARGEST_POWER)
    return powers.astype(np.int64, copy=False)


# ---------------------------------------------------------------- to integers
def to_integer(x, dtype=np.int64, *, out=None, **options: Unpack[Options]):
    """x rounded to integers of a NumPy dtype, in any mode; to_odd takes the odd neighbour.

    dtype : np.int8 to np.int64, np.uint8 to np.uint64.   The other options are those of `quantize`.
    saturate : true to give the nearer end of the range for numbers outside it, and 0 for NaN.
    Without that, an element outside the range, an infinity or NaN is a ValueError that names it.
    Inside a `with sf.status()` block it counts as invalid instead, and gives the nearer end of the
    range, NaN the upper one, as Berkeley SoftFloat and RISC-V have it. A number inside the range
    that is no integer counts as inexact.
    """
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "iu":
        raise TypeError("dtype must be an integer type from int8 to uint64")
    choice = Choice.of("to_integer", options)
    operands = _Operands(x)
    result = operands.result(dtype, out, "integers of this type")
    key, words = np.uint64(choice.key), choice.words(operands.shape)
    limits, ends = _integer_limits(dtype, choice.saturate != NO_SATURATION)
    missing = []

    def step(blocks, target, start):
        mine = choice.array()
        mine[OFFSET] += start
        counts = _new_counts()
        given = words[start : start + target.size] if words.size else words
        wide = np.empty(target.size, np.int64)
        found = integer_loop()(*_bits(blocks[0]), wide, limits, ends, mine, key, given, counts)
        if found >= 0:
            missing.append(start + found)
        np.copyto(target, wide, casting="unsafe")  # the low bits
        operands.report(counts)

    operands.run(step, result)
    if missing and choice.saturate == NO_SATURATION and not operands.collected:
        _outside(operands, min(missing), dtype)
    return _dress(result, (x,), out)


def _integer_limits(dtype, saturate):
    """The largest magnitudes by halves; what stands for numbers above, below, and for NaN."""
    info = np.iinfo(dtype)
    limits = np.array([*divmod(int(info.max), 1 << 32), *divmod(-int(info.min), 1 << 32)], np.int64)
    ends = [int(info.max), int(info.min), 0 if saturate else int(info.max)]
    return limits, np.array([e - (1 << 64) if e >> 63 == 1 else e for e in ends], np.int64)


def _outside(operands, index, dtype):
    info = np.iinfo(dtype)
    shape = operands.shape
    where = tuple(int(i) for i in np.unravel_index(index, shape)) if shape else ()
    place = f"element {where if len(where) != 1 else where[0]}" if shape else "the value"
    (value,) = operands.values
    shown = "" if operands.exact else f" ({float(value[where])!r})"
    raise ValueError(
        f"{place}{shown} is none of the integers {info.min}..{info.max} of {dtype}; use "
        "saturate=True, another dtype, or count such elements in a `with softfloat.status()` block"
    )


__all__ = [
    "absolute",
    "classify",
    "copysign",
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "isnormal",
    "issubnormal",
    "iszero",
    "less",
    "less_equal",
    "logb",
    "maximum",
    "maximum_magnitude",
    "maximum_magnitude_number",
    "maximum_number",
    "minimum",
    "minimum_magnitude",
    "minimum_magnitude_number",
    "minimum_number",
    "negative",
    "next_down",
    "next_up",
    "nextafter",
    "not_equal",
    "scalbn",
    "signbit",
    "spacing",
    "to_integer",
    "total_order",
    "total_order_magnitude",
]
