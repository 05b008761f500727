"""SoftArrays on a device, and the arguments of users' kernels that numba-cuda has no way to pass.

An unmodified `@cuda.jit` kernel takes a SoftDeviceArray as an array of soft numbers, as `@njit` takes a SoftArray. In
the simulator, where kernels run as Python, its elements are SoftArrays.
"""

from typing import Any

import numpy as np
from numba.core import types

from softfloat.array import SoftArray
from softfloat.cuda.driver import SIMULATED, numba_cuda, require
from softfloat.formats import as_format
from softfloat.functional import quantize
from softfloat.numba_types.host import array_type
from softfloat.numba_types.options import INTEGERS, FormatConstant, FormatType, RoundingType
from softfloat.numba_types.registration import check_format, current_rules
from softfloat.operands import hold


class SoftDeviceArray:
    """Values of a format in memory of a device; made by SoftArray.to_device or softfloat.cuda.to_device."""

    on_device = True  # what softfloat.operands.on_device asks of a type
    __cuda_memory__ = True  # numba-cuda: this is no array of the host
    __hash__: Any = None

    def __init__(self, values, fmt):
        self._values, self._format = values, fmt

    @property
    def dtype(self):
        """The format."""
        return self._format

    @property
    def values(self):
        """The numba device array of the values, the same memory."""
        return self._values

    def to_host(self):
        """A SoftArray with a copy of the values."""
        return hold(np.asarray(self._values.copy_to_host()), self._format)

    @property
    def _numba_type_(self):
        values = self._values
        layout = "C" if values.is_c_contiguous() else "A"
        fmt, rules = self._format, current_rules()
        return array_type(fmt, rules, check_format, values.ndim, layout, False, True)

    def __getattr__(self, name):
        if name.startswith("_") and name != "_strided_memory_view_shim":
            raise AttributeError(name)
        return getattr(self._values, name)  # shape, size, strides: as numba-cuda asks

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f"SoftDeviceArray({self._format.label}, shape={tuple(self._values.shape)})"

    def __getitem__(self, index):
        self._simulated("read")
        return hold(np.asarray(self._values._ary[index]), self._format)

    def __setitem__(self, index, value):
        self._simulated("write")
        hold(self._values._ary, self._format)[index] = value

    def _simulated(self, what):
        if not SIMULATED:
            raise TypeError(f"cannot {what} single elements on a device; use .to_host()")


def to_device(x, fmt=None, stream=0):
    """Values on the current device: of a SoftArray, or of plain numbers rounded to `fmt` first (to nearest)."""
    cuda = require()
    soft = isinstance(x, SoftArray)
    if fmt is None and not soft:
        raise TypeError(
            f"to_device takes a SoftArray, or numbers and a format; got {type(x).__name__} alone"
        )
    fmt = x._format if fmt is None else as_format(fmt)
    values = x._values if soft and x._format == fmt else quantize(x, fmt)
    values = values._values if isinstance(values, SoftArray) else values
    values = np.ascontiguousarray(values, fmt.carrier)
    return SoftDeviceArray(cuda.to_device(values, stream=stream), fmt)


class Arguments:
    """An extension of numba-cuda: Formats and Roundings as arguments of kernels, known when the kernel runs."""

    @staticmethod
    def prepare_args(kind, value, stream, retr):
        if isinstance(kind, (FormatType, FormatConstant)):
            record = value.kernel_record
            numbers = record[INTEGERS:].view(np.float64)
            pair = tuple(map(int, record[:INTEGERS])), tuple(map(float, numbers))
            one = lambda t, n: types.UniTuple(t, n)  # noqa: E731
            kinds = one(types.int64, INTEGERS), one(types.float64, len(numbers))
            return types.Tuple(kinds), pair
        if isinstance(kind, RoundingType):
            return types.int64, value.mode
        return kind, value


def jit(*arguments, extensions=(), **options):
    """numba.cuda.jit for kernels that take a Format or a Rounding as an argument; the same in all else."""
    if not SIMULATED:  # there, arguments stay the Python objects they are
        options["extensions"] = [*extensions, Arguments()]
    return numba_cuda().jit(*arguments, **options)
