"""One kernel on the CPU and on a GPU: the same bits.

The kernel knows nothing of formats; handed soft arrays, it computes in bfloat16. Without a GPU it runs in numba-cuda's
simulator, in another process, and says so. Needs numba-cuda: pip install 'softfloat-numba[cuda12]' or [cuda13].
"""

import os
import subprocess
import sys

import numba
import numpy as np
from numba import cuda

import softfloat as sf


@numba.njit
def orbit(x, steps):
    """The logistic map, whose rounding errors double at each step: any other rounding would show."""
    for _ in range(steps):
        x = 3.75 * x * (1 - x)
    return x


@numba.njit
def on_cpu(x, out):
    for i in range(x.shape[0]):
        out[i] = orbit(x[i], 40)


@cuda.jit
def on_gpu(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = orbit(x[i], 40)


def main():
    simulated = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
    if not simulated and not cuda.is_available():
        environment = {
            **os.environ,
            "NUMBA_ENABLE_CUDASIM": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, __file__]
        shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        print(shown.stdout, end="")
        return
    x = sf.array(np.linspace(0.001, 0.999, 4096), "bfloat16")
    expected = sf.zeros(x.size, "bfloat16")
    on_cpu(x, expected)
    out = sf.zeros(x.size, "bfloat16").to_device()
    on_gpu[16, 256](x.to_device(), out)
    wrong = np.count_nonzero(out.to_host().codes != expected.codes)
    print(
        "Ran in the simulator: no GPU here."
        if simulated
        else f"Ran on {cuda.get_current_device().name}."
    )
    print(f"{wrong} of {x.size} results differ between CPU and GPU, after 40 steps in bfloat16.")


if __name__ == "__main__":
    main()
