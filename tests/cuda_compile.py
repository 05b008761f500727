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
from typing import NamedTuple

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
def _tool(name):
    """A program of NVIDIA's wheels or of this machine; None without it, but in CI an error."""
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(root).glob(f"*/bin/{name}")):
            return str(path)
    found = shutil.which(name)
    assert found or not os.environ.get("CI"), f"CI needs {name}: see the extra test"
    return found


class Assembled(NamedTuple):
    """A kernel's machine code: registers, bytes of stack and spills, and its text (empty without a disassembler)."""

    registers: int
    spilled: int
    text: str

    @property
    def loops(self):
        """The instructions of each loop, innermost ones first: from the target of a jump back to that jump."""
        code, labels = [], {}
        for line in self.text.splitlines():
            if label := re.match(r"\s*(\.L_[\w.]+):", line):
                labels[label[1]] = len(code)
            elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
                code.append(re.sub(r"^@!?U?P\w+\s+", "", found[1].strip()))
        jumps = ((i, re.search(r"BRA.*`\((\.L_[\w.]+)\)", line)) for i, line in enumerate(code))
        back = [(labels[m[1]], i) for i, m in jumps if m and labels.get(m[1], i + 1) <= i]
        return sorted((code[first : last + 1] for first, last in back), key=len)

    def loop_with(self, instruction):
        """The shortest loop with an instruction of this beginning."""
        return next(x for x in self.loops if any(line.startswith(instruction) for line in x))


@functools.lru_cache(8)
def assembled(ptx, capability):
    """The machine code of a kernel; None without an assembler."""
    assembler, disassembler = _tool("ptxas"), _tool("nvdisasm")
    if assembler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder, "kernel.ptx"), Path(folder, "code")
        source.write_text(ptx)
        target = f"sm_{capability[0]}{capability[1]}"
        command = [assembler, "-v", f"-arch={target}", str(source), "-o", str(code)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        text = ""
        if disassembler:
            command = [disassembler, "-c", str(code)]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = [
        int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", shown)
    ]
    return Assembled(int(re.search(r"Used (\d+) registers", shown)[1]), sum(counts), text)


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
