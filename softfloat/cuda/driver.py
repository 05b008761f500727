"""numba-cuda, loaded when the first array on a device comes along, and the shape of launches.

The simulator (NUMBA_ENABLE_CUDASIM=1) runs the thin kernels in Python; the bodies they call stay compiled, for the CPU.
"""

import functools
import importlib.util

from numba.core import config

SIMULATED = bool(getattr(config, "ENABLE_CUDASIM", 0))
THREADS = 256  # of a block
BLOCKS_PER_PROCESSOR = 16  # beyond which threads go round
ON_NO_DEVICE = 64  # multiprocessors taken for granted where none can be asked: in the simulator

_INSTALL = "pip install 'softfloat-numba[cuda12]' or 'softfloat-numba[cuda13]', whichever CUDA the driver has"


@functools.cache
def numba_cuda():
    """The module numba.cuda of the package numba-cuda; ImportError says what to install."""
    if importlib.util.find_spec("numba_cuda") is None and not SIMULATED:
        raise ImportError(
            f"arrays on a CUDA device need numba-cuda, which is not installed: {_INSTALL}"
        )
    from numba import cuda

    return cuda


def require():
    """numba.cuda with a device to run on; RuntimeError says what is missing."""
    cuda = numba_cuda()
    if not SIMULATED and not cuda.is_available():
        raise RuntimeError(
            "no CUDA device can be used: numba-cuda found no working driver or no device "
            f"({_reason(cuda)}). Install NVIDIA's driver and the toolkit's libraries ({_INSTALL}), "
            "or set NUMBA_ENABLE_CUDASIM=1 before Python starts to run kernels in the simulator"
        )
    return cuda


def _reason(cuda):
    try:
        error = cuda.cuda_error()
    except Exception as raised:
        error = raised
    return error or "no device is visible"


@functools.cache
def processors():
    """Multiprocessors of the current device."""
    if SIMULATED:
        return ON_NO_DEVICE
    return require().get_current_device().MULTIPROCESSOR_COUNT


def blocks_for(tasks):
    """Blocks of THREADS threads for a loop in strides of the whole grid."""
    return max(1, min(-(-tasks // THREADS), BLOCKS_PER_PROCESSOR * processors()))
