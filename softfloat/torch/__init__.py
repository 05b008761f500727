"""PyTorch: unmodified models trained in emulated arithmetic, and small tools for models that are written for it.

`emulate(policy)` runs whatever is inside its block, forward, backward and optimizer step, in the formats of a
softfloat.training.Policy. `quantize`, `Quantizer`, `LowPrecisionOptimizer` and `LossScaler` are parts to build with.
Imported by `import softfloat.torch` only: softfloat itself never imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise  # torch is there and lacks something itself: its message is the better one
    raise ImportError(
        "softfloat.torch needs torch: pip install 'softfloat-numba[torch]'"
    ) from error

from softfloat.torch.emulation import emulate
from softfloat.torch.errors import EmulationError
from softfloat.torch.optimizer import LowPrecisionOptimizer
from softfloat.torch.scaler import LossScaler
from softfloat.torch.tools import Quantizer, quantize

__all__ = [
    "EmulationError",
    "LossScaler",
    "LowPrecisionOptimizer",
    "Quantizer",
    "emulate",
    "quantize",
]
