"""Arrays on a device as their owners have them: numba, CuPy, PyTorch; their streams; results of the same kind.

An array's owner is known by the module of its type. Asking every object for __cuda_array_interface__ would not do:
tensors on the CPU raise an error there.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from softfloat.cuda.driver import SIMULATED, require

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_SHORT = {
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
}


class Owner(NamedTuple):
    """A library and what is asked of it; x is one of its arrays.

    view(x, stream) : the same memory, flat, as numba has it.   stream(x) : the caller's, as numba has it.
    empty(like, shape, dtype, stream) : a new array.   floats(x) : x with a float32 or float64 dtype, if that is exact.
    spread(x, shape) : x broadcast to a shape.   dtype(x) : as NumPy has it, or None.   whole(x) : C-contiguous.
    """

    name: str
    view: Any
    stream: Any
    empty: Any
    floats: Any
    spread: Any
    dtype: Any
    whole: Any


def owner_of(x):
    """The Owner of an array on a device, or None."""
    root = type(x).__module__.partition(".")[0]
    if root in ("numba", "numba_cuda"):
        is_array = hasattr(x, "copy_to_host")
        return _numba() if is_array else None
    if root == "cupy":
        return _cupy() if hasattr(x, "__cuda_array_interface__") else None
    if root == "torch":
        return _torch() if getattr(x, "is_cuda", False) else None
    return None


def to_host(x):
    """A NumPy copy of an array on a device."""
    owner = owner_of(x)
    if owner.name == "numba":
        return np.asarray(x.copy_to_host())
    return np.asarray(x.get() if owner.name == "cupy" else x.detach().cpu().numpy())


def bare(x):
    """What a tuple of kernel arguments takes for an array: in the simulator NumPy's own, which compiled code knows."""
    return getattr(x, "_ary", x) if SIMULATED else x


def _exact(dtype, what):
    """float32 or float64, whichever holds every number of an integer dtype."""
    if dtype.kind in "iu" and dtype.itemsize <= 4 or dtype.kind == "b":
        return np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    raise TypeError(
        f"cannot take {what} of dtype {dtype} as exact float32 or float64 numbers on the device; "
        "give float32 or float64, or copy it to the host"
    )


@functools.cache
def _numba():
    cuda = require()

    def stream(x):
        return getattr(x, "stream", 0) or 0

    def floats(x):
        if x.dtype not in FLOATS:
            raise TypeError(
                f"numba's device arrays must hold float32 or float64 here, got {x.dtype}; convert it first"
            )
        return x

    def view(x, stream):
        if not x.is_c_contiguous():
            from softfloat.cuda.kernels import copied

            return copied(x, stream)
        return x.reshape(x.size) if x.ndim != 1 else x

    def empty(like, shape, dtype, stream):
        return cuda.device_array(shape, dtype, stream=stream)

    return Owner(
        "numba", view, stream, empty, floats, _numba_spread, lambda x: np.dtype(x.dtype),
        lambda x: x.is_c_contiguous(),
    )  # fmt: skip


def _numba_spread(x, shape):
    """The same memory with strides of 0 where it repeats."""
    if tuple(x.shape) == tuple(shape):
        return x
    if SIMULATED:
        return type(x)(np.broadcast_to(x._ary, shape))
    lost = len(shape) - x.ndim
    strides = [0] * lost + [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    np.broadcast_shapes(tuple(x.shape), tuple(shape))  # ValueError where it cannot be
    return type(x)(tuple(shape), tuple(strides), x.dtype, stream=x.stream, gpu_data=x.gpu_data)


@functools.cache
def _cupy():
    import cupy

    cuda = require()

    def stream(x):
        return cuda.external_stream(cupy.cuda.get_current_stream().ptr)

    def floats(x):
        if x.dtype in FLOATS:
            return x
        return x.astype(np.float32 if x.dtype == np.float16 else _exact(x.dtype, "a CuPy array"))

    def view(x, stream):
        return cuda.as_cuda_array(cupy.ascontiguousarray(x).reshape(-1), sync=False)

    def spread(x, shape):
        return cupy.ascontiguousarray(cupy.broadcast_to(x, shape))

    return Owner(
        "cupy", view, stream, lambda like, shape, dtype, s: cupy.empty(shape, dtype), floats, spread,
        lambda x: np.dtype(x.dtype), lambda x: x.flags.c_contiguous,
    )  # fmt: skip


@functools.cache
def _torch():
    import torch

    cuda = require()
    kinds = {
        np.dtype(name): getattr(torch, name)
        for name in ("float32", "float64", "uint8", "uint16", "uint32", "uint64", "int64", "bool")
        if hasattr(torch, name)
    }
    names = {kind: dtype for dtype, kind in kinds.items()}

    def stream(x):
        return cuda.external_stream(torch.cuda.current_stream(x.device).cuda_stream)

    def floats(x):
        x = x.detach()
        if names.get(x.dtype) in FLOATS:
            return x
        name = str(x.dtype).removeprefix("torch.")
        if name in _SHORT:
            return x.to(torch.float32)
        return x.to(kinds[_exact(np.dtype(name), "a tensor")])

    def view(x, stream):
        return cuda.as_cuda_array(x.detach().contiguous().reshape(-1), sync=False)

    def empty(like, shape, dtype, stream):
        return torch.empty(shape, dtype=kinds[np.dtype(dtype)], device=like.device)

    def spread(x, shape):
        return x.expand(shape).contiguous()

    return Owner(
        "torch", view, stream, empty, floats, spread, lambda x: names.get(x.dtype),
        lambda x: x.is_contiguous(),
    )  # fmt: skip
