"""Tensors as NumPy arrays: which memory is shared, what a dtype can hold, and which storage a tensor lives in.

float32 and float64 on the CPU share memory with NumPy. Narrower dtypes and other devices go through a float32 (or
float64) array on the host and back, which is exact where the dtype can hold the format.
"""

import weakref

import numpy as np
import torch

from softfloat.formats import as_format, binary16
from softfloat.formats import bfloat16 as _bfloat16
from softfloat.torch.errors import EmulationError

SHARED = (torch.float32, torch.float64)
NARROW = {torch.bfloat16: _bfloat16, torch.float16: binary16}


def array_of(tensor):
    """The values of a floating tensor as a float32 or float64 array, in its own memory where that is possible."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype in SHARED and tensor.device.type == "cpu":
        return tensor.numpy()
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return tensor.to("cpu", wide).numpy()


def flat_values(tensor):
    """The memory of a contiguous float32 or float64 tensor on the CPU as a flat array; None for any other tensor."""
    if tensor.is_cpu and tensor.dtype in SHARED and tensor.is_contiguous() and not tensor.is_neg():
        return tensor.numpy(force=True).reshape(-1)
    return None


def tensor_of(array, like):
    """An array as a tensor of the dtype and the device of another."""
    dense = np.ascontiguousarray(array).reshape(
        np.shape(array)
    )  # which it would give an axis if it has none
    return torch.from_numpy(dense).to(like.device, like.dtype)


def write(tensor, array):
    """Put an array's values into a tensor; the version counter stays."""
    target = tensor.detach()
    if target.dtype in SHARED and target.device.type == "cpu":
        own = target.numpy()
        if own is not array:
            own[...] = array
    else:
        target.copy_(torch.from_numpy(np.ascontiguousarray(array)))


def check_room(dtype, fmt):
    """EmulationError if a dtype of 16 bits cannot hold every value of a format."""
    native = NARROW.get(dtype)
    if native is None:
        if dtype not in SHARED:
            raise EmulationError(f"tensors of {dtype} cannot be emulated; use torch.float32")
        if dtype == torch.float32 and not fmt.fits(np.float32):
            raise EmulationError(
                f"a float32 tensor cannot hold every value of {fmt.label}; use model.double() and inputs to match"
            )
        return
    if getattr(fmt, "is_fixed", False):
        held = fmt.max <= native.max and fmt.bits <= native.precision
    else:
        fmt = as_format(fmt)
        held = (
            fmt.precision <= native.precision
            and fmt.max <= native.max
            and fmt.smallest_subnormal >= native.smallest_subnormal
        )
    if not held:
        raise EmulationError(
            f"a tensor of {dtype} cannot hold every value of {fmt.label}; use float32 tensors "
            "(without autocast), or a format that fits"
        )


def check_not_rounded(dtype, rounding):
    """EmulationError where torch has rounded to nearest what is to be rounded otherwise."""
    if dtype in NARROW and rounding != "ties_to_even":
        raise EmulationError(
            f"torch rounds what it computes in {dtype} to nearest, and {rounding} would come too late; use float32 "
            "tensors (without autocast)"
        )


def storage_of(tensor):
    """The identity of a tensor's storage: an address, which a Known table keeps from being used again."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        raise EmulationError(
            f"tensors of layout {tensor.layout} have no emulation; use dense ones, as .to_dense() gives them"
        ) from None


def fills_storage(tensor):
    """Whether a tensor is all that its storage holds."""
    return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()


class Known:
    """Facts about storages. A weak reference keeps the address of a dead storage from being taken for a new one."""

    def __init__(self):
        self._facts = {}
        self._limit = 4096

    def __getitem__(self, tensor):
        """The fact known of a tensor's storage, or None."""
        found = self._facts.get(storage_of(tensor))
        return None if found is None or found[0]() is None else found[1]

    def __setitem__(self, tensor, fact):
        storage = tensor.untyped_storage()
        self._facts[storage._cdata] = weakref.ref(storage), fact
        if len(self._facts) > self._limit:
            self.purge()
            self._limit = max(4096, 2 * len(self._facts))

    def forget(self, tensor):
        self._facts.pop(storage_of(tensor), None)

    def purge(self):
        """Leave out what has died."""
        self._facts = {key: held for key, held in self._facts.items() if held[0]() is not None}

    def clear(self):
        self._facts.clear()
