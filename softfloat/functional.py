"""The functions of the package: validation, broadcasting, out=, and the choice of the loop that does the work.

Every function is a pure function of its inputs, the format, the rounding and the seed.
"""

from copy import copy
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy import empty, ndarray  # by their own names where a microsecond counts

from softfloat.backends.cpu import (
    FAST_OPERATIONS,
    REDO_BLOCK,
    arithmetic_loop,
    cast,
    odd_loop,
    round_in_place_loop,
    round_loop,
    round_random_loop,
)
from softfloat.backends.exact import (
    COUNTED,
    MODE,
    OFFSET,
    RANDOM_BITS,
    SATURATE,
    VARIANT,
    decode_loop,
    exact_loop,
    parts_loop,
)
from softfloat.backends.random_lanes import RandomLanes
from softfloat.backends.threads import SERIAL_BELOW, get_num_threads, run_chunks
from softfloat.backends.wide import WIDE_BLOCK, universal_loop, wide_loop
from softfloat.fast import fast_constants, fast_form
from softfloat.fixed_point import STEPS, FixedPoint, fixed_constants
from softfloat.format import FLAGS, NAN_QUOTIENTS
from softfloat.formats import as_format
from softfloat.operands import (
    FLOAT32,
    FLOAT64,
    Devices,
    Held,
    Parts,
    as_values,
    exact_array,
    hold,
    on_device,
)
from softfloat.ops.rational import rational_parts
from softfloat.random import WORD_BITS, element_word, make_key
from softfloat.rounding import MODES, NEGATIVE, STOCHASTIC, Rounding, as_rounding
from softfloat.status import active_status
from softfloat.wide import wide_constants, wide_form

_SATURATION = {False: 0, True: 1, "finite": 1, "propagate": 2}
_VARIANTS = {"A": 0, "B": 1, "C": 2}
_NO_WORDS = np.zeros(0, np.int64)
_NOTHING = np.zeros(0, np.int64)
_UNUSED = (0, 0, 24, "A")  # stream, offset, random_bits and variant, where nothing is random
SHORT = SERIAL_BELOW  # elements up to which one thread works without looking at Ctrl-C
ARITHMETIC_GRAIN = 1 << 24  # the same, where two operands are read
FAST_GRAIN = 1 << 24  # elements between two looks at Ctrl-C in the fast loops
FEW = 1 << 11  # elements below which a copy is cheaper than setting up an iteration over blocks
EXACT_GRAIN = 1 << 15  # elements between two looks at Ctrl-C in the exact loops
_LEFT_OUT = object()  # no rounding= was given
BLOCK = 1 << 15  # elements buffered at a time for strided or broadcast operands


class Options(TypedDict, total=False):
    """The rounding options that every operation takes; `quantize` explains them."""

    rounding: Rounding | str
    saturate: bool | Literal["finite", "propagate"]
    seed: int | None
    stream: int
    offset: int
    random: Any
    random_bits: int
    variant: Literal["A", "B", "C"]


class Choice:
    """The checked rounding options of one call."""

    def __init__(
        self,
        rounding="ties_to_even",
        saturate=False,
        seed=None,
        stream=0,
        offset=0,
        random=None,
        random_bits=24,
        variant="A",
    ):
        self.rounding = as_rounding(rounding)
        self.mode = MODES[self.rounding]
        self.saturate = _saturation(saturate)
        if not isinstance(variant, str) or variant not in _VARIANTS:
            raise ValueError(f'variant must be "A", "B" or "C", got {variant!r}')
        self.variant = _VARIANTS[variant]
        self.bits = _integer("random_bits", random_bits, 1, WORD_BITS)
        self.offset = _integer("offset", offset, 0, (1 << 62) - 1)
        stream = _integer("stream", stream, 0, (1 << 64) - 1)
        seed = seed if seed is None else _integer("seed", seed, 0, (1 << 64) - 1)
        self.key = 0
        self.random = None
        if self.mode < STOCHASTIC:
            # One plan serves all calls in a mode without random words.
            self.variant, self.bits, self.offset = 0, 24, 0
            if random is not None:
                raise ValueError(
                    f'random= has no meaning for rounding="{self.rounding}"; '
                    'use rounding="stochastic", or leave it out'
                )
        elif random is not None:
            if seed is not None:
                raise ValueError("give seed= or random=, not both: each decides the random words")
            self.random = _given_words(random, self.bits)
        elif seed is None:
            raise ValueError(
                f'rounding="{self.rounding}" needs seed=, so that the result can be repeated '
                "(or random=, an array of random words)"
            )
        else:
            self.key = make_key(seed, stream)

    @classmethod
    def of(cls, function, options):
        """The Choice of a call's **options; TypeError names the function and the options it has."""
        unknown = [name for name in options if name not in Options.__annotations__]
        if unknown:
            raise TypeError(
                f"{function}() has no option {unknown[0]!r}; its options are fmt, out, "
                + ", ".join(Options.__annotations__)
            )
        return cls(**options)

    def array(self):
        """The int64 array that the exact loops read."""
        choice = np.zeros(5, np.int64)
        choice[MODE] = self.mode
        choice[SATURATE] = self.saturate
        choice[RANDOM_BITS] = self.bits
        choice[VARIANT] = self.variant
        choice[OFFSET] = self.offset
        return choice

    def words(self, shape):
        """Given random words, one per element of the result, in C order; empty where a seed decides."""
        if self.random is None:
            return _NO_WORDS
        try:
            words = np.broadcast_to(self.random, shape)
        except ValueError:
            raise ValueError(
                f"random= of shape {self.random.shape} does not fit the result's shape {shape}"
            ) from None
        return np.ascontiguousarray(words).reshape(-1)

    def word(self, index):
        """The random integer of one element of a result with as many words as elements; in plain Python."""
        if self.random is not None:
            return int(self.random.reshape(-1)[index])
        return element_word(self.key, self.offset + index) >> (WORD_BITS - self.bits)


def _integer(name, value, low, high):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low}..{high}, got {value}")
    return int(value)


def _saturation(saturate):
    try:
        if isinstance(saturate, (bool, np.bool_, str)):
            return _SATURATION[saturate]
    except KeyError:
        pass
    raise ValueError(f'saturate must be False, True, "finite" or "propagate", got {saturate!r}')


def _given_words(random, bits):
    if on_device(random):
        raise TypeError(
            f"random= must be an array of the host, got {type(random).__name__}; copy it there, or give seed="
        )
    words = np.asarray(random)
    if not words.size:
        words = words.astype(np.int64)
    if words.dtype.kind not in "iu":
        raise TypeError(f"random= must be an array of integers, got dtype {words.dtype}")
    if words.size and not (0 <= int(words.min()) and int(words.max()) < 1 << bits):
        raise ValueError(
            f"random= must hold integers in 0..{(1 << bits) - 1} (random_bits={bits}), "
            f"got {_span(words)}"
        )
    return words.astype(np.int64)


def _span(a):
    low, high = int(a.min()), int(a.max())
    return str(low) if low == high else f"values from {low} to {high}"


# ---------------------------------------------------------------- running a loop
def _bits_view(a):
    return a.view(np.int32 if a.dtype == FLOAT32 else np.int64)


def _mantissa(a):
    return 23 if a.dtype == FLOAT32 else 52


def _result_dtype(fmt, inputs):
    """float32/float64 of the inputs if that can hold the format, else the smallest that can."""
    wanted = FLOAT64 if any(d == FLOAT64 for d in inputs) else FLOAT32
    if inputs and fmt.fits(wanted):
        return wanted
    return fmt.carrier


def _plain(out):
    """The array behind out=, which may hold values of a format."""
    return out._values if isinstance(out, Held) else out


def _checked_out(out, shape, allowed, what):
    """The array to write to: out= itself, or what is behind it. what : the format of the results, or their name."""
    if isinstance(out, Held) and not isinstance(what, str):
        if out._format != what:
            raise TypeError(
                f"out= must hold values of {what.label}, the format of the result, got {out._format.label}"
            )
        out = out._values
    what = what if isinstance(what, str) else what.label
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out= must be a plain NumPy array, got {type(out).__name__}")
    if out.dtype not in allowed or not out.dtype.isnative:
        names = " or ".join(str(d) for d in allowed)
        raise TypeError(f"out= must have dtype {names} to hold {what}, got {out.dtype.str}")
    if out.shape != shape:
        raise ValueError(f"out= must have shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError("out= is read-only")
    return out.view(np.ndarray)


def _may_fail(fmt, codes=False):
    """Whether an element can be without a result in the format, so that `out` must wait until all are known."""
    wraps = isinstance(fmt, FixedPoint) and fmt.overflow == "wrap"
    return wraps or (not fmt.has_nan and (codes or not fmt.signed))


def _room(out, shape, allowed, what, fallible):
    """Where to put the results: `out` itself, or an array beside it while a call may still fail."""
    result = _checked_out(out, shape, allowed, what)
    return np.empty(shape, result.dtype) if fallible else result


def _broadcast(shapes):
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    if any(len(shape) > 32 for shape in shapes):
        raise ValueError("operands of more than 32 dimensions must have equal shapes")
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            "operands of shapes " + " and ".join(map(str, shapes)) + " do not broadcast together"
        ) from None


def _exact_block(operation, fmt, options, key, words, blocks, target, codes, collected=()):
    """One flat block through the definition; the index of the first element without a result, or -1."""
    a, b, c = [*blocks, _NOTHING, _NOTHING][:3]
    ma, mb, mc = (_mantissa(x) if x.dtype.kind == "f" else 52 for x in (a, b, c))
    a, b, c = (_bits_view(x) if x.dtype.kind == "f" else x for x in (a, b, c))
    counts = np.zeros(COUNTED, np.int64)
    view = target if codes else _bits_view(target)
    mo = 0 if codes else _mantissa(target)
    run = exact_loop(operation)
    found = run(a, b, c, ma, mb, mc, view, mo, fmt.record, options, key, words, counts)
    for block in collected:
        block.add(counts)
    return found


def _exact(operation, arrays, fmt, choice, shape, out, codes=False):
    """Run an exact loop over broadcast operands; returns nothing, raises where there is no result."""
    options = choice.array()
    words, key = choice.words(shape), np.uint64(choice.key)
    collected = active_status()
    missing = []

    def apply(blocks, target, start):
        mine = options.copy()
        mine[OFFSET] += start
        given = words[start : start + target.size] if words.size else words
        found = _exact_block(operation, fmt, mine, key, given, blocks, target, codes, collected)
        if found >= 0:
            missing.append(start + found)

    _each_block(apply, arrays, out, EXACT_GRAIN)
    if missing:
        _no_result(fmt, min(missing), shape)


class NoValueError(ValueError):
    """An element has no value, or no code, in a format."""


def _no_result(fmt, index, shape, part=""):
    """Raise what is to be said of an element; part : what of it has no value, in words, if not all of it."""
    where = tuple(int(i) for i in np.unravel_index(index, shape)) if shape else ()
    place = f"element {where if len(where) != 1 else where[0]}" if shape else "the value"
    if part:
        place = f"{part} of {place}" if shape else part
    if isinstance(fmt, FixedPoint):
        raise NoValueError(fmt.no_result(place))
    if not fmt.signed:
        raise NoValueError(
            f"{place} is negative or NaN, and {fmt.label} has neither a sign nor a NaN"
        )
    raise NoValueError(f"{place} is NaN, and {fmt.label} has no code for NaN")


def _each_block(apply, arrays, out, grain):
    """Call apply(operand blocks, out block, index of the first element) until all of `out`, in C order, is done."""
    if (
        all(a.shape == out.shape and a.flags.c_contiguous for a in arrays)
        and out.flags.c_contiguous
    ):
        flat = [a.reshape(-1) for a in arrays]
        result = out.reshape(-1)

        def task(start, stop):
            apply([a[start:stop] for a in flat], result[start:stop], start)

        run_chunks(task, out.size, grain)
        return
    if out.ndim > 32 or out.size <= FEW:  # more than nditer takes, or too little to be worth it
        flat = [np.array(np.broadcast_to(a, out.shape), order="C") for a in arrays]
        result = np.empty(out.shape, out.dtype)
        _each_block(apply, flat, result, grain)
        out[...] = result
        return
    iterator = np.nditer(
        [*arrays, out],
        flags=["external_loop", "buffered", "zerosize_ok", "delay_bufalloc", "copy_if_overlap"],
        op_flags=[["readonly", "contig"]] * len(arrays) + [["writeonly", "contig"]],
        order="C",
        buffersize=min(grain, BLOCK),
    )
    with iterator:
        iterator.reset()
        start = 0
        for *blocks, target in iterator:
            apply(blocks, target, start)
            start += target.size


def _separate(arrays, out):
    """Copies of operands that share memory with `out` other than element by element."""
    if out is None:
        return arrays
    out = _plain(out)
    same = lambda a: (  # noqa: E731
        a.ctypes.data == out.ctypes.data and a.strides == out.strides and a.dtype == out.dtype
    )
    return [
        a.copy() if np.may_share_memory(a, out) and not (a.shape == out.shape and same(a)) else a
        for a in arrays
    ]


def _dress(result, operands, out, fmt=None):
    """The result as the caller gets it: `out`, a NumPy scalar, or dressed as the operands' subclass is.

    As for NumPy's ufuncs; masks of masked arrays are joined. Values of a format (`fmt`) are held as an operand's are.
    """
    if out is not None:
        target = _plain(out)
        if not np.may_share_memory(result, target):
            target[...] = result
        return out
    if fmt is not None and any(isinstance(x, Held) for x in operands):
        return hold(result, fmt)
    masked = [x for x in operands if isinstance(x, np.ma.MaskedArray)]
    if masked:
        mask = np.zeros(result.shape, bool)
        for x in masked:
            mask |= np.ma.getmaskarray(x)
        return np.ma.MaskedArray(result, mask=mask)
    for x in operands:
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray and x.shape == result.shape:
            return x.__array_wrap__(result)
    return result[()] if result.ndim == 0 else result


class ArithmeticPlans(NamedTuple):
    """The fast forms of an operation; None where there is none.

    odd, narrow : round float64 and float32 results that were rounded to odd.   wide : rounds float64 results with their
    errors, by the loops of softfloat.backends.wide; of the others only the odd one has no domain of operands.
    """

    odd: Any = None
    narrow: Any = None
    wide: Any = None


def _arithmetic_plans(operation, fmt, choice):
    """The fast forms for one format and rounding.

    Rounding to odd needs two bits more than the format; where random words decide, as many as the words have.
    """
    if choice.random is not None or isinstance(fmt, FixedPoint) and fmt.overflow == "wrap":
        return ArithmeticPlans()  # to wrap a large number, its last bits must be known
    m, stochastic = fmt.mantissa_bits, choice.mode >= STOCHASTIC
    odd = narrow = None
    undefined = operation == "divide" and fmt.parameters[FLAGS] & NAN_QUOTIENTS
    if m <= (51 - choice.bits if stochastic else 50) and not undefined:
        fixed = isinstance(fmt, FixedPoint)
        odd = _plan(fmt, FLOAT64, choice)
        if stochastic and not fixed:
            narrow = _random_lanes(operation, fmt, choice)
        elif m <= 21 and operation != "fma" and not fixed:
            narrow = _plan(fmt, FLOAT32, choice)
    return ArithmeticPlans(odd, narrow, _wide_plan(operation, fmt, choice))


def _random_lanes(operation, fmt, choice):
    """RandomLanes, or None; remembered on the format."""
    key = ("lanes", operation, choice.mode, choice.saturate, choice.bits, choice.variant)
    try:
        return fmt.plans[key]
    except KeyError:
        plan = _plan(fmt, FLOAT32, choice)
        fits = RandomLanes.fit(operation, plan and plan.form, fmt, choice)
        lanes = RandomLanes(operation, plan.form, fmt, choice) if fits else None
        fmt.plans[key] = lanes
        return lanes


def _wide_plan(operation, fmt, choice):
    """(WideForm, its constants), or None; remembered on the format."""
    how = choice.mode, choice.saturate, choice.bits, choice.variant
    key = ("wide", operation, *how)
    try:
        return fmt.plans[key]
    except KeyError:
        form = wide_form(operation, fmt, *how)
        plan = fmt.plans[key] = form and (form, wide_constants(fmt, *how))
        return plan


def _runs(flags, total, size=REDO_BLOCK, head=None):
    """Slices of range(total), of at most BLOCK elements, that cover the blocks whose flag is set.

    Blocks have `size` elements, the first one `head` where that is given.
    """
    if b"\x01" not in flags.tobytes():  # nearly always
        return []
    head = size if head is None else head
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags != 0, [0])))).reshape(-1, 2)
    place = lambda j: min(head + (int(j) - 1) * size, total) if j else 0  # noqa: E731
    return [
        slice(start, min(start + BLOCK, place(last)))
        for first, last in edges
        for start in range(place(first), place(last), BLOCK)
    ]


class _Steps:
    """How one operation does a flat block by each of its ways: functions of (operand blocks, target, first index)."""

    def __init__(self, operation, plans, fmt, choice):
        self.operation, self.plans, self.fmt = operation, plans, fmt
        self.key, self.offset, self.options = np.uint64(choice.key), choice.offset, choice.array()
        signed_zeros = operation in ("add", "subtract", "fma")
        self.toward_negative = choice.mode == NEGATIVE and signed_zeros

    def at(self, key, offset):
        """The same for other random words."""
        other = copy(self)
        other.key, other.offset, other.options = key, offset, self.options.copy()
        other.options[OFFSET] = offset
        return other

    def define(self, blocks, target, start):
        """By the definition."""
        mine = self.options.copy()
        mine[OFFSET] += start
        _exact_block(self.operation, self.fmt, mine, self.key, _NO_WORDS, blocks, target, False)

    def odd(self, blocks, target, start):
        """In float64, rounded to odd first; what could go wrong there by the definition."""
        a, b, c = [*blocks, blocks[0], blocks[0]][:3]
        buffer = np.empty(target.size)
        redo = np.empty(-(-target.size // REDO_BLOCK), np.uint8)
        if not (
            odd_loop(self.operation, self.toward_negative)(a, b, c, buffer, redo)
            and self.plans.odd.in_place(buffer, self.key, self.offset + start)
        ):
            self.define(blocks, target, start)
            return
        again = _runs(redo, target.size)
        originals = [[x[piece].copy() for x in blocks] for piece in again]
        cast(buffer, target)
        for piece, operands in zip(again, originals, strict=True):
            self.define(operands, target[piece], start + piece.start)

    def lanes(self, blocks, target, start):
        """In float32, what could go wrong there in float64; the target shares no memory with the operands."""
        redo = np.empty(target.size // REDO_BLOCK + 2, np.uint8)
        narrow = self.plans.narrow
        if isinstance(narrow, RandomLanes):
            head = REDO_BLOCK
            redo = redo[: -(-target.size // REDO_BLOCK)]
            first = self.offset + start
            if not narrow.run(*blocks, target, narrow.constants, redo, self.key, first):
                head = -1
        else:
            run = arithmetic_loop(self.operation, *narrow.form)
            head = run(blocks[0], blocks[-1], target, narrow.constants, redo)
        if head < 0:
            self.define(blocks, target, start)
            return
        for piece in _runs(redo, target.size, head=head):
            self.odd([x[piece] for x in blocks], target[piece], start + piece.start)

    def wide(self, blocks, target, start):
        """By the wide form; blocks outside its domain by `odd`, else by the universal loop.

        An operand of one element stands for as many as needed; all are float64, and share no memory with the target.
        """
        form, constants = self.plans.wide
        a, b, c = [*blocks, blocks[0], blocks[0]][:3]
        redo = np.empty(-(-target.size // WIDE_BLOCK), np.uint8)
        run = wide_loop(self.operation, form)
        if not run(a, b, c, target, constants, redo, self.key, self.offset + start):
            self.define([_repeated(x, target.size) for x in blocks], target, start)
        elif self.plans.odd:
            for piece in _runs(redo, target.size, WIDE_BLOCK):
                count = piece.stop - piece.start
                parts = [x[piece] if x.size > 1 else _repeated(x, count) for x in blocks]
                self.odd(parts, target[piece], start + piece.start)
        elif b"\x01" in redo.tobytes():
            universal = universal_loop(self.operation, form.mode)
            universal(a, b, c, target, constants, redo, self.key, self.offset + start)


def _repeated(x, count):
    return x if x.size == count else x.repeat(count)


def _fast_arithmetic(operation, plans, values, fmt, choice, result):
    """Run an operation over broadcast operands by the fast forms: the first of these that has the operands' dtypes.

    Where that needs no more than flat operands of the result's dtype, `_quick_arithmetic` will find it again.
    """
    steps = _Steps(operation, plans, fmt, choice)
    shared = any(np.may_share_memory(v, result) for v in values)
    dtypes = {a.dtype for a in (*values, result)}
    quick = None
    if plans.narrow and dtypes == {FLOAT32}:
        quick = steps.lanes
    elif plans.wide and dtypes == {FLOAT64}:
        quick = steps.wide
    if quick and choice.saturate == 0 and choice.mode < STOCHASTIC:
        for rounding in (choice.rounding, str(choice.rounding), *[_LEFT_OUT] * (choice.mode == 0)):
            fmt.plans[operation, rounding, result.dtype] = quick
    if quick == steps.lanes and not shared:
        _each_block(quick, values, result, ARITHMETIC_GRAIN)
    elif plans.wide and (plans.odd is None or quick == steps.wide):
        _wide_arithmetic(steps, values, result, shared)
    else:
        _each_block(steps.odd, values, result, BLOCK)


def _wide_arithmetic(steps, values, result, shared):
    """As `_fast_arithmetic`, by the wide form.   shared : whether the result overlaps operands."""
    # An operand of one element need not be spread out; None leaves its place for a block of an array.
    single = [_double(v.reshape(-1)) if v.size == 1 != result.size else None for v in values]
    arrays = [v for v, one in zip(values, single, strict=True) if one is None]
    beside = shared or result.dtype != FLOAT64

    def apply(blocks, target, start):
        rest = iter(blocks)
        operands = [_double(next(rest)) if one is None else one for one in single]
        out = np.empty(target.size) if beside else target
        steps.wide(operands, out, start)
        if beside and not cast(out, target):
            target[...] = out

    _each_block(apply, arrays, result, BLOCK if beside else ARITHMETIC_GRAIN)


def _double(x):
    """A flat block as float64; subnormals stay what they are, whatever the processor's control word says."""
    if x.dtype == FLOAT64:
        return x
    wide = np.empty(x.size)
    return wide if cast(x, wide) else x.astype(FLOAT64)


def _one_piece(size):
    """Whether one thread does a fast loop over so many elements in one go."""
    return size <= FAST_GRAIN and get_num_threads() == 1


def _quick_arithmetic(operation, operands, fmt, out, options):
    """The result on short contiguous arrays of one shape and dtype where an earlier call left its way, else None."""
    if options and (len(options) > 1 or "rounding" not in options):
        return None
    first = operands[0]
    try:
        apply = fmt.plans[operation, options.get("rounding", _LEFT_OUT), first.dtype]
    except (AttributeError, KeyError, TypeError):
        return None
    dtype, shape, size = first.dtype, first.shape, first.size
    if not shape or not size or (size > SHORT and not _one_piece(size)) or active_status():
        return None
    for x in operands:
        if (
            type(x) is not np.ndarray
            or x.dtype is not dtype
            or x.shape != shape
            or not x.flags.c_contiguous
        ):
            return None
    if out is None:
        result = np.empty(shape, dtype)
    elif (
        type(out) is np.ndarray
        and out.dtype is dtype
        and out.shape == shape
        and out.flags.c_contiguous
        and out.flags.writeable
        and not any(np.may_share_memory(x, out) for x in operands)
    ):
        result = out
    else:
        return None
    apply([x.reshape(-1) for x in operands], result.reshape(-1), 0)
    return result


def _opened(operands, fmt, out):
    """(values or Parts of the operands, the shape that they broadcast to, an array for the result)."""
    values, dtypes = [], []
    for x in operands:
        value, own = as_values(x)
        values.append(value)
        if own and type(x) is not float:
            dtypes.append(value.dtype)
    if not dtypes and any(type(x) is float for x in operands):
        dtypes = [FLOAT64]
    shape = _broadcast([v.shape for v in values])
    if out is None:
        return values, shape, np.empty(shape, _result_dtype(fmt, dtypes))
    return values, shape, _room(out, shape, _carriers(fmt), fmt, _may_fail(fmt))


def _elementwise(operation, operands, fmt, out, options):
    """Any operation of the exact loops on broadcast operands: the whole path from arguments to result."""
    result = _quick_arithmetic(operation, operands, fmt, out, options)
    if result is not None:
        return result
    if on_device(*operands):
        return Devices.load().elementwise(operation, operands, fmt, out, options)
    fmt = as_format(fmt)
    choice = Choice.of(operation, options)
    values, shape, result = _opened(operands, fmt, out)
    if any(isinstance(value, Parts) for value in values):
        exact = [np.broadcast_to(exact_array(x), shape).ravel() for x in operands]
        *columns, flags = rational_parts(operation, exact, choice)
        parts = Parts(*(column.reshape(shape) for column in columns))
        _round_parts(parts, fmt, choice, result, flags=flags)
    else:
        values = _separate(values, out)
        plans = ArithmeticPlans()
        if operation in FAST_OPERATIONS and not active_status():
            plans = _arithmetic_plans(operation, fmt, choice)
        if plans.odd is None and plans.wide is None:
            _exact(operation, values, fmt, choice, shape, result)
        else:
            _fast_arithmetic(operation, plans, values, fmt, choice, result)
    return _dress(result, operands, out, fmt)


def _carriers(fmt):
    return [d for d in (FLOAT32, FLOAT64) if fmt.fits(d)]


def _round_parts(parts, fmt, choice, result, codes=False, flags=None):
    run = parts_loop()
    counts = np.zeros(COUNTED, np.int64)
    columns = [a.reshape(-1) for a in parts.arrays]
    flat = np.empty(parts.shape, result.dtype).reshape(-1)
    mo = 0 if codes else _mantissa(result)
    raised = np.zeros(flat.size, np.int64) if flags is None else flags
    words = choice.words(parts.shape)
    view = flat if codes else _bits_view(flat)
    found = run(
        *columns, raised, view, mo, fmt.record, choice.array(), np.uint64(choice.key), words, counts
    )
    for block in active_status():
        block.add(counts)
    if found >= 0:
        _no_result(fmt, found, parts.shape)
    result[...] = flat.reshape(parts.shape)


class Plan:
    """A fast form ready to run: its loops and constants for one format, carrier, mode and saturation."""

    def __init__(self, form, fmt, carrier, choice):
        kind, mode, rule = self.form = form
        bits = choice.bits
        self.stochastic = mode >= STOCHASTIC
        if kind == STEPS:
            self.constants = fixed_constants(fmt, carrier, mode, bits)
        else:
            self.constants = fast_constants(kind, fmt, carrier, mode, choice.saturate, bits)
        if self.stochastic:
            self.run = round_random_loop(*form)
        else:
            self.run = round_loop(*form)

    def in_place(self, x, key, start):
        """Round a flat block in place; False where the processor's arithmetic is not known to be standard."""
        if self.stochastic:
            return round_random_loop(*self.form, 1)(x, x, self.constants, key, start)
        return round_in_place_loop(*self.form)(x, self.constants)

    def __call__(self, x, out, key, start):
        """Round a flat block into another; False as above."""
        if self.stochastic:
            return self.run(x, out, self.constants, key, start)
        return self.run(x, out, self.constants)


def _plan(fmt, carrier, choice):
    """The fast form for values of a carrier, or None; remembered on the format."""
    if choice.random is not None:
        return None
    key = (carrier.char, choice.mode, choice.saturate, choice.bits, choice.variant)
    try:
        return fmt.plans[key]
    except KeyError:
        form = fast_form(fmt, carrier, choice.mode, choice.saturate, choice.bits, choice.variant)
        plan = fmt.plans[key] = form and Plan(form, fmt, carrier, choice)
        return plan


def _fast(plan, value, fmt, choice, result):
    """Round by a fast form, block by block; blocks that it declines go through the definition."""
    key, offset = np.uint64(choice.key), choice.offset
    wide = FLOAT64 if FLOAT64 in (value.dtype, result.dtype) else FLOAT32
    same = value.dtype == result.dtype
    missing = []

    def apply(blocks, target, start):
        (x,) = blocks
        if same and np.may_share_memory(x, target):  # all of it: anything else was copied before
            done = plan.in_place(target, key, offset + start)
        elif same:
            done = plan(x, target, key, offset + start)
        else:
            buffer = np.empty(x.size, wide)
            done = cast(x, buffer) and plan.in_place(buffer, key, offset + start)
            done = done and cast(buffer, target)
        if not done:
            options = choice.array()
            options[OFFSET] += start
            found = _exact_block("convert", fmt, options, key, _NO_WORDS, (x,), target, False)
            if found >= 0:
                missing.append(start + found)

    _each_block(apply, [value], result, FAST_GRAIN)
    if missing:
        _no_result(fmt, min(missing), result.shape)


def _quick(x, fmt, rounding, saturate, rest, out):
    """The result for a short contiguous array where an earlier call has left a plan, else None.

    A plan is kept under the very arguments that were checked then, so only the arrays are looked at here.
    """
    if saturate is not False and saturate is not True and type(saturate) is not str:
        return None  # 1 == True, but is no option
    try:
        plan = fmt.plans[rounding, saturate, x.dtype]
        if rest != _UNUSED:
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if type(x) is not ndarray or not x.flags.c_contiguous or active_status():
        return None
    if x.size > SHORT and not _one_piece(x.size):
        return None
    ndim = x.ndim
    if out is None and ndim == 1:
        result = empty(x.size, x.dtype)
        return result if plan.run(x, result, plan.constants) else None
    if ndim == 0:
        return None
    flat = x if ndim == 1 else x.reshape(-1)
    if out is None:
        result = empty(x.shape, x.dtype)
    elif type(out) is not ndarray or out.dtype != x.dtype or out.shape != x.shape:
        return None
    elif not (out.flags.c_contiguous and out.flags.writeable):
        return None
    elif out is x:
        return x if plan.in_place(flat, 0, 0) else None
    else:
        result = out  # the loop itself declines if it overlaps x
    target = result if result.ndim == 1 else result.reshape(-1)
    return result if plan.run(flat, target, plan.constants) else None


def _given(*options):
    """The options of `quantize`, in its order, by their names."""
    return dict(zip(Options.__annotations__, options, strict=True))


def quantize(
    x,
    fmt,
    *,
    rounding="ties_to_even",
    saturate=False,
    seed=None,
    stream=0,
    offset=0,
    random=None,
    random_bits=24,
    variant="A",
    out=None,
):
    """Round every element of x to the nearest value of a format (or as `rounding` says), once.

    x : anything NumPy takes as real numbers; also Fraction, Decimal and decimal strings. Never changed, unless out=x.
    fmt : Format, or what as_format takes.   rounding : Rounding or its name.
    saturate : False, True or "finite" (overflow and infinities give the largest finite value), or "propagate"
        (only finite numbers saturate).
    seed, stream, offset : for stochastic rounding; offset is the global index of element 0, so that chunks of an array
        repeat the whole.   random : given words in [0, 2**random_bits) instead, one per element.
    out : array of the result's shape, float32 or float64, that can hold the format; it may be x.
    Returns values, of x's dtype if that is float32 or float64 and can hold the format, else of the smallest that can.
    Raises TypeError for what is not real numbers, ValueError for options out of range.
    """
    if seed is None and random is None:
        rest = stream, offset, random_bits, variant
        result = _quick(x, fmt, rounding, saturate, rest, out)
        if result is not None:
            return result
    if on_device(x):
        options = _given(rounding, saturate, seed, stream, offset, random, random_bits, variant)
        return Devices.load().elementwise("quantize", (x,), fmt, out, options)
    fmt = as_format(fmt)
    choice = Choice(rounding, saturate, seed, stream, offset, random, random_bits, variant)
    value, own = as_values(x)
    shape = value.shape
    if out is None:
        result = np.empty(shape, _result_dtype(fmt, [value.dtype] if own else []))
    else:
        result = _room(out, shape, _carriers(fmt), fmt, _may_fail(fmt))
    if isinstance(value, Parts):
        _round_parts(value, fmt, choice, result)
        return _dress(result, (x,), out, fmt)
    (value,) = _separate([value], out)
    plan = None
    if not active_status():
        plan = _plan(fmt, FLOAT64 if FLOAT64 in (value.dtype, result.dtype) else FLOAT32, choice)
    if plan is None:
        _exact("convert", [value], fmt, choice, shape, result)
    else:
        _fast(plan, value, fmt, choice, result)
        if value.dtype == result.dtype and not plan.stochastic:
            fmt.plans[rounding, saturate, value.dtype] = plan
    return _dress(result, (x,), out, fmt)


def encode(
    x,
    fmt,
    *,
    rounding="ties_to_even",
    saturate=False,
    seed=None,
    stream=0,
    offset=0,
    random=None,
    random_bits=24,
    variant="A",
    out=None,
):
    """The codes of x in a format, rounding as `quantize` does: the smallest unsigned integers that hold them.

    Raises ValueError for a NaN where the format has no NaN, naming the element.
    """
    if on_device(x):
        options = _given(rounding, saturate, seed, stream, offset, random, random_bits, variant)
        return Devices.load().encode(x, fmt, out, options)
    fmt = as_format(fmt)
    choice = Choice(rounding, saturate, seed, stream, offset, random, random_bits, variant)
    value, _ = as_values(x)
    if out is None:
        result = np.empty(value.shape, fmt.code_dtype)
    else:
        what = f"codes of {fmt.label}"
        result = _room(out, value.shape, [fmt.code_dtype], what, _may_fail(fmt, codes=True))
    if isinstance(value, Parts):
        _round_parts(value, fmt, choice, result, codes=True)
    else:
        _exact("convert", _separate([value], out), fmt, choice, value.shape, result, codes=True)
    return _dress(result, (x,), out)


def decode(codes, fmt, *, out=None):
    """The values of codes: float32 if that holds the format, else float64. NaN codes keep whether they signal.

    codes : integers in [0, 2**fmt.bits). Raises TypeError for anything but integers, ValueError for codes out of range.
    """
    if on_device(codes):
        return Devices.load().decode(codes, fmt, out)
    fmt = as_format(fmt)
    try:
        a = np.asarray(codes)
    except ValueError as error:
        raise ValueError(f"the codes do not form an array: {error}") from None
    if not a.size:
        a = a.astype(np.uint64)
    if a.dtype.kind not in "iu":
        raise TypeError(
            f"codes must be integers, got dtype {a.dtype}; to round values use quantize"
        )
    if a.size and (
        (a.dtype.kind == "i" and int(a.min()) < 0)
        or (a.dtype.itemsize * 8 > fmt.bits and int(a.max()) >> fmt.bits)
    ):
        raise ValueError(f"codes of {fmt.label} lie in 0..{(1 << fmt.bits) - 1}, got {_span(a)}")
    if out is None:
        result = np.empty(a.shape, fmt.carrier)
    else:
        result = _checked_out(out, a.shape, _carriers(fmt), fmt)
    quiet = 0
    if fmt.specials == "ieee" and fmt.mantissa_bits > 1:
        quiet = 1 << (fmt.mantissa_bits - 1)
    words = a.astype(np.uint64).view(np.int64)
    run = decode_loop()
    record, mo = fmt.record, _mantissa(result)

    def apply(blocks, target, start):
        run(blocks[0], _bits_view(target), mo, record, quiet)

    _each_block(apply, [words], result, EXACT_GRAIN)
    return _dress(result, (codes,), out)


def add(a, b, fmt, *, out=None, **options: Unpack[Options]):
    """a + b, exact, rounded once to `fmt`. Operands are taken as the exact numbers they are; shapes broadcast."""
    return _elementwise("add", (a, b), fmt, out, options)


def subtract(a, b, fmt, *, out=None, **options: Unpack[Options]):
    """a - b, exact, rounded once to `fmt`."""
    return _elementwise("subtract", (a, b), fmt, out, options)


def multiply(a, b, fmt, *, out=None, **options: Unpack[Options]):
    """a * b, exact, rounded once to `fmt`."""
    return _elementwise("multiply", (a, b), fmt, out, options)


def divide(a, b, fmt, *, out=None, **options: Unpack[Options]):
    """a / b, rounded once to `fmt`. A number over zero is an infinity of its sign (NaN in P3109 formats)."""
    return _elementwise("divide", (a, b), fmt, out, options)


def sqrt(a, fmt, *, out=None, **options: Unpack[Options]):
    """The square root of a, rounded once to `fmt`; sqrt(-0) is -0."""
    return _elementwise("sqrt", (a,), fmt, out, options)


def fma(a, b, c, fmt, *, out=None, **options: Unpack[Options]):
    """a * b + c, exact, rounded once to `fmt`."""
    return _elementwise("fma", (a, b, c), fmt, out, options)


def remainder(a, b, fmt, *, out=None, **options: Unpack[Options]):
    """IEEE remainder: a - n*b with n the integer nearest to a/b, ties to even n (IEEE 754-2019, 5.3.1).

    Exact where the operands are values of `fmt`; NumPy's remainder is another function.
    """
    return _elementwise("remainder", (a, b), fmt, out, options)


def round_to_integral(x, fmt, *, out=None, **options: Unpack[Options]):
    """x rounded to an integral value in the given mode; one beyond the largest value of `fmt` overflows."""
    return _elementwise("round_to_integral", (x,), fmt, out, options)


def convert(x, fmt, *, out=None, **options: Unpack[Options]):
    """x in another format: `quantize` by the name that IEEE 754 gives it."""
    return quantize(x, fmt, out=out, **options)


__all__ = [
    "add",
    "convert",
    "decode",
    "divide",
    "encode",
    "fma",
    "multiply",
    "quantize",
    "remainder",
    "round_to_integral",
    "sqrt",
    "subtract",
]
