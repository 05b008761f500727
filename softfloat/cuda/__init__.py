"""Arrays and kernels on CUDA devices, by numba-cuda: the extra `cuda12` or `cuda13`.

Functions of the package take arrays of numba, CuPy and PyTorch that lie on a device and give back their own kind, with
the bits that the CPU gives. Here is what users' own kernels need:

jit : numba.cuda.jit for kernels that take a Format or a Rounding as an argument.
to_device : a SoftArray, or numbers and a format, on the device, for unmodified kernels.
"""

from softfloat.cuda.driver import require
from softfloat.cuda.soft import SoftDeviceArray, jit, to_device


def is_available():
    """Whether there is a device to run on, or the simulator."""
    try:
        require()
    except (ImportError, RuntimeError):
        return False
    return True


__all__ = ["SoftDeviceArray", "is_available", "jit", "to_device"]
