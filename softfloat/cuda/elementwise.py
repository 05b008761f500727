"""Quantize, encode, decode, arithmetic and elementary functions on arrays that lie on a device.

Work goes to the caller's stream; nothing waits for it, but for formats in which an element may have no result.
"""

import functools

import numpy as np

from softfloat.backends.compare import RELATIONS
from softfloat.backends.cpu import FAST_OPERATIONS
from softfloat.cuda import bodies
from softfloat.cuda.arrays import bare, owner_of
from softfloat.cuda.driver import SIMULATED, require
from softfloat.fast import fast_constants, fast_form
from softfloat.format import FLAGS, NAN_QUOTIENTS, Format
from softfloat.formats import as_format
from softfloat.functional import (
    Choice,
    _broadcast,
    _carriers,
    _may_fail,
    _no_result,
    _result_dtype,
)
from softfloat.operands import FLOAT32, as_values
from softfloat.rounding import STOCHASTIC
from softfloat.status import active_status

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
NOBODY = np.iinfo(np.int64).max


class Call:
    """One call: its arrays as numba sees them, the stream, and where the results go."""

    def __init__(self, name, operands):
        self.name = name
        owners = {o.name: (o, x) for o, x in ((owner_of(x), x) for x in operands) if o}
        if len(owners) > 1:
            raise TypeError(
                f"softfloat.{name}: the operands lie in arrays of {' and '.join(owners)}; give arrays of one library"
            )
        self.owner, self.first = next(iter(owners.values()))
        if active_status():
            raise TypeError(
                "flags are not counted on a device; leave the block of softfloat.status, or copy the arrays to the host"
            )
        self.cuda = require()
        self.stream = self.owner.stream(self.first)

    def upload(self, x):
        """A small host array on the device, for this call."""
        return self.cuda.to_device(np.ascontiguousarray(x), stream=self.stream)

    def read(self, operands):
        """Operands as float arrays: (the arrays, their shape together, the dtypes that decide the result's)."""
        values, shapes, dtypes = self.read_apart(operands)
        return values, _broadcast(shapes), dtypes

    def read_apart(self, operands):
        """As `read`, with a shape for each."""
        values, dtypes = [], []
        for x in operands:
            if owner_of(x):
                value = self.owner.floats(x)
                dtypes.append(self.owner.dtype(value))
                values.append(value)
            else:
                values.append(self._from_host(x, dtypes))
        return values, [tuple(v.shape) for v in values], dtypes

    def _from_host(self, x, dtypes):
        value, own = as_values(x)
        if not isinstance(value, np.ndarray) or value.size != 1:
            raise TypeError(
                f"softfloat.{self.name}: beside arrays on a device stand other such arrays or single float64 numbers, "
                f"got {type(x).__name__} of shape {np.shape(x)}; copy it to the device"
            )
        if own and type(x) is not float:
            dtypes.append(value.dtype)
        return value

    def flat(self, value, shape, target=None):
        """(a flat view, the mask of its indices): all of it or, of one element, always the first.

        Where it shares memory with the target but does not lie where that lies, it is copied first.
        """
        size = int(np.prod(value.shape, dtype=np.int64))
        mask = ALL if size > 1 or tuple(value.shape) == tuple(shape) else np.uint64(0)
        if isinstance(value, np.ndarray):
            return self.upload(value.reshape(-1)), np.uint64(0)
        if mask and tuple(value.shape) != tuple(shape):
            value = self.owner.spread(value, shape)
        view = self.owner.view(value, self.stream)
        if target is not None and overlap(view, target) and not (mask and same_place(view, target)):
            view = self.copied(view)
        return view, mask

    def spread(self, value, shape):
        """A flat copy of an operand broadcast to a shape."""
        if isinstance(value, np.ndarray):
            return self.upload(np.broadcast_to(value, shape).reshape(-1))
        return self.copied(self.owner.view(self.owner.spread(value, shape), self.stream))

    def copied(self, view):
        """A flat copy of an array as numba has it."""
        from softfloat.cuda.kernels import copied

        return copied(view, self.stream)

    def apart(self, view, target):
        """The view, or a copy where it shares memory with the target."""
        return self.copied(view) if overlap(view, target) else view

    def result(self, out, shape, dtype, allowed, what):
        """(the array to fill and to return, its flat view)."""
        if out is None:
            out = self.owner.empty(self.first, shape, dtype, self.stream)
        else:
            self._check_out(out, shape, allowed, what)
        return out, self.owner.view(out, self.stream)

    def _check_out(self, out, shape, allowed, what):
        owner = owner_of(out)
        if owner is None or owner.name != self.owner.name:
            raise TypeError(f"out= must be an array of {self.owner.name}, got {type(out).__name__}")
        if tuple(out.shape) != tuple(shape):
            raise ValueError(f"out= must have shape {tuple(shape)}, got {tuple(out.shape)}")
        if self.owner.dtype(out) not in allowed:
            names = " or ".join(str(d) for d in allowed)
            raise TypeError(f"out= must have dtype {names} to hold {what}, got {out.dtype}")
        if not self.owner.whole(out):
            raise ValueError(
                f"out= must be C-contiguous on a device, got strides {_strides(out)} for shape {tuple(shape)}"
            )

    def words(self, choice, shape):
        """The given random words on the device; empty where a seed decides."""
        words = choice.words(shape)
        return self.upload(words) if words.size else _no_words()

    def _arguments(self, out, words, flat, constants, choice):
        views = [view for view, _ in flat]
        masks = tuple(mask for _, mask in flat)
        masks = (*masks, *[masks[0]] * 2)[:3]
        arrays = tuple(bare(x) for x in (out, words, *(*views, views[0], views[0])[:3]))
        how = tuple(np.int64(n) for n in (choice.saturate, choice.bits, choice.variant))
        return arrays, masks, constants, how, np.uint64(choice.key), np.int64(choice.offset)

    def run(self, body, out, words, flat, constants, choice, tasks=None):
        """Launch a body that gives every element a result."""
        from softfloat.cuda.kernels import elementwise_kernel, launch

        arguments = self._arguments(out, words, flat, constants, choice)
        tasks = out.size if tasks is None else tasks
        if out.size:
            launch(elementwise_kernel(body), tasks, self.stream, *arguments)

    def missing(self, body, out, words, flat, constants, choice):
        """Launch a body and wait: the least index of an element without a result, or None."""
        from softfloat.cuda.kernels import careful_kernel, launch

        if not out.size:
            return None
        arguments = self._arguments(out, words, flat, constants, choice)
        missing = self.upload(np.array([NOBODY]))
        launch(careful_kernel(body), out.size, self.stream, *arguments, missing)
        found = int(self.download(missing, 0))
        return None if found == NOBODY else found

    def download(self, view, index):
        """One element of a flat array; waits for it."""
        host = view[index : index + 1].copy_to_host(stream=self.stream)
        if self.stream:
            self.stream.synchronize()
        return host[0]

    def fill(self, name, flat, target, fmt, choice, words, shape=()):
        """An operation into a flat target; ValueError where an element, of this shape, has no result."""
        if not isinstance(fmt, Format) or _may_fail(fmt):
            body = bodies.careful_body(name, choice.mode, False)
            index = self.missing(body, target, words, flat, integers(fmt), choice)
            if index is not None:
                _no_result(fmt, index, tuple(shape))
            return
        quick = quick_form(fmt, target.dtype, choice)
        carriers = {np.dtype(x.dtype) for x in (target, *(view for view, _ in flat))}
        if name == "quantize" and quick and len(carriers) == 1:
            form, constants = quick
            width = _width(target, flat[0][0])
            tasks = -(-target.size // width)
            body = bodies.round_body(*form, width)
        elif quick and carriers == {FLOAT32} and _in_lanes(name, fmt, choice):
            form, constants = quick
            body, tasks = bodies.lane_body(name, *form), None
            constants = constants, integers(fmt), numbers(fmt)
        else:
            body, tasks = bodies.operation_body(name, choice.mode), None
            constants = integers(fmt), numbers(fmt)
        self.run(body, target, words, flat, constants, choice, tasks)


@functools.cache
def _no_words():
    return require().device_array(0, np.int64)


def integers(fmt):
    """F of a format as a kernel's argument."""
    return tuple(np.int64(n) for n in fmt.parameters)


def numbers(fmt):
    """N of a Format."""
    return tuple(float(x) for x in fmt.kernel_record[len(fmt.parameters) :].view(np.float64))


def quick_form(fmt, carrier, choice):
    """(form, its constants) of a Format by which a device rounds, or None."""
    if choice.random is not None or not isinstance(fmt, Format):
        return None
    form = fast_form(fmt, carrier, choice.mode, choice.saturate, choice.bits, choice.variant)
    if form is None:
        return None
    return form, tuple(
        fast_constants(form[0], fmt, carrier, choice.mode, choice.saturate, choice.bits)
    )


def _width(*views):
    """Elements that a thread takes at a time: as many as fit in 16 bytes where every array is aligned to that."""
    if any(_address(v) % 16 for v in views):
        return 1
    return 16 // views[0].dtype.itemsize


def _address(view):
    return bare(view).ctypes.data if SIMULATED else view.device_ctypes_pointer.value or 0


def overlap(x, y):
    """Whether two flat arrays share memory."""
    a, b = _address(x), _address(y)
    return a < b + y.size * y.dtype.itemsize and b < a + x.size * x.dtype.itemsize


def same_place(x, y):
    return _address(x) == _address(y) and x.dtype.itemsize == y.dtype.itemsize


def _strides(x):
    return tuple(x.stride() if callable(getattr(x, "stride", None)) else x.strides)


def elementwise(name, operands, fmt, out, options):
    """Any operation of softfloat.functional or softfloat.elementary that gives values."""
    fmt, choice = as_format(fmt), Choice.of(name, options)
    call = Call(name, [*operands, *([] if out is None else [out])])
    values, shape, dtypes = call.read(operands)
    dtype = _result_dtype(fmt, dtypes)
    result, target = call.result(out, shape, dtype, _carriers(fmt), fmt.label)
    flat = [call.flat(v, shape, target) for v in values]
    call.fill(name, flat, target, fmt, choice, call.words(choice, shape), shape)
    return result


def _in_lanes(name, fmt, choice):
    """Whether float32 arithmetic, rounded to odd, decides: see functional._arithmetic_plans."""
    undefined = name == "divide" and fmt.parameters[FLAGS] & NAN_QUOTIENTS
    return (
        name in FAST_OPERATIONS
        and name != "fma"
        and fmt.mantissa_bits <= 21
        and choice.mode < STOCHASTIC
        and not undefined
    )


def compare(relation, a, b):
    """Booleans: whether numbers of a and b are in this relation, of softfloat.backends.compare."""
    choice, boolean = Choice(), np.dtype(np.bool_)
    call = Call(RELATIONS[relation], [a, b])
    values, shape, _ = call.read([a, b])
    result, target = call.result(None, shape, boolean, (), "")
    flat = [call.flat(v, shape, target) for v in values]
    constants = (np.int64(0),)
    call.run(bodies.compare_body(relation), target, call.words(choice, ()), flat, constants, choice)
    return result


def encode(x, fmt, out, options):
    """The codes of x."""
    fmt, choice = as_format(fmt), Choice.of("encode", options)
    call = Call("encode", [x, *([] if out is None else [out])])
    (value,), shape, _ = call.read([x])
    what = f"codes of {fmt.label}"
    result, target = call.result(out, shape, fmt.code_dtype, [fmt.code_dtype], what)
    flat, words = [call.flat(value, shape, target)], call.words(choice, shape)
    if isinstance(fmt, Format) and fmt.has_nan:
        body, constants = bodies.encode_body(choice.mode), (integers(fmt), numbers(fmt))
        call.run(body, target, words, flat, constants, choice)
        return result
    body = bodies.careful_body("quantize", choice.mode, True)
    index = call.missing(body, target, words, flat, integers(fmt), choice)
    if index is not None:
        _no_result(fmt, index, tuple(shape))
    return result


def decode(codes, fmt, out):
    """The values of codes; bits above those of the format's codes are ignored."""
    fmt, choice = as_format(fmt), Choice()
    call = Call("decode", [codes, *([] if out is None else [out])])
    dtype = call.owner.dtype(codes)
    if dtype is None or dtype.kind not in "iu":
        raise TypeError(
            f"codes must be integers, got dtype {codes.dtype}; to round values use quantize"
        )
    result, target = call.result(out, tuple(codes.shape), fmt.carrier, _carriers(fmt), fmt.label)
    quiet = 0
    if isinstance(fmt, Format) and fmt.specials == "ieee" and fmt.mantissa_bits > 1:
        quiet = 1 << (fmt.mantissa_bits - 1)
    bits = target.view(np.dtype(f"i{target.dtype.itemsize}"))
    flat = [call.flat(codes, codes.shape, target)]
    body = bodies.decode_body(23 if target.dtype == FLOAT32 else 52)
    constants = integers(fmt), np.int64(quiet)
    call.run(body, bits, call.words(choice, ()), flat, constants, choice)
    return result
