"""Kernels compiled to PTX and machine code on a machine without a GPU."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np

CAPABILITIES = [(7, 5), (8, 0), (9, 0), (10, 0)]
# In CI nothing is skipped: what is missing there is an error.
SKIP = find_spec("numba_cuda") is None and not os.environ.get("CI")


def ptx_of(function, signature, capability, monkeypatch, contract=True):
    """The PTX of a kernel; contract=False has the compiler told not to join products and sums."""
    import numba.cuda.dispatcher as dispatcher
    from numba import cuda
    from numba.cuda.cudadrv import nvvm

    device = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)
    if not contract:
        compile_ir = nvvm.compile_ir
        monkeypatch.setattr(
            nvvm, "compile_ir", lambda code, **options: compile_ir(code, **{**options, "fma": 0})
        )
    ptx, _ = cuda.compile(function, signature, device=False, abi="numba", cc=capability)
    return ptx


def instructions(ptx):
    """How often each instruction occurs."""
    return Counter(re.findall(r"^\s+(?:@!?%p\d+ )?([a-z][\w.:]*)", ptx, re.M))


def fused(ptx):
    return sum(n for name, n in instructions(ptx).items() if name.startswith("fma."))


def joinable(ptx):
    """Sums without a rounding of their own that read a product without one: what an assembler may join."""
    operands = r"\s+(%\w+), (%?[\w.]+), (%?[\w.]+);"
    products = {m[1] for m in re.finditer(r"mul\.f(?:32|64)" + operands, ptx)}
    sums = re.finditer(r"(?:add|sub)\.f(?:32|64)" + operands, ptx)
    return [m[0] for m in sums if {m[2], m[3]} & products]


@functools.cache
def _assembler():
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(root).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


def assembled(ptx, capability):
    """(registers, bytes of stack and spills) of a kernel's machine code; None without an assembler, but not in CI."""
    assembler = _assembler()
    if assembler is None:
        assert not os.environ.get("CI"), "CI needs ptxas: nvidia-cuda-nvcc"
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        target = f"sm_{capability[0]}{capability[1]}"
        command = [assembler, "-v", f"-arch={target}", str(source), "-o", str(Path(folder, "code"))]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    counts = [
        int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", shown)
    ]
    return int(re.search(r"Used (\d+) registers", shown)[1]), sum(counts)


def elementwise_signature(out, operand, constants):
    """The type of a call of an elementwise kernel, from dtypes and the constants."""
    from numba import from_dtype, typeof, types

    array = lambda dtype: types.Array(from_dtype(np.dtype(dtype)), 1, "C")  # noqa: E731
    x = array(operand)
    arrays = types.Tuple((array(out), array(np.int64), x, x, x))
    three = lambda kind: types.UniTuple(kind, 3)  # noqa: E731
    return types.void(
        arrays,
        three(types.uint64),
        typeof(constants),
        three(types.int64),
        types.uint64,
        types.int64,
    )
