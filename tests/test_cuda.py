"""CUDA without a GPU: thread bodies on the CPU over whole arrays, kernels in the simulator, what is missing said."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_compile import SKIP
from helpers import assert_same_bits

import softfloat as sf
from softfloat.functional import Choice

needs_numba_cuda = pytest.mark.skipif(SKIP, reason="numba-cuda is not installed")
SCRIPT = Path(__file__).with_name("simulated_cuda.py")


def run_simulator(*groups):
    where = str(Path(sf.__file__).parent.parent)  # installed or not
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": where}
    shown = subprocess.run(
        [sys.executable, str(SCRIPT), *groups], env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert shown.stdout.strip().endswith("the same bits")


@needs_numba_cuda
@pytest.mark.parametrize("group", ["quantize", "soft_arrays", "refusals"])
def test_simulated_kernels_have_the_bits_of_the_cpu(group):
    run_simulator(group)


@needs_numba_cuda
@pytest.mark.exhaustive
@pytest.mark.parametrize("group", ["arithmetic", "codes", "reductions", "products", "any_products"])
def test_more_simulated_kernels_have_the_bits_of_the_cpu(group):
    run_simulator(group)


@needs_numba_cuda
@pytest.mark.sweep
def test_all_simulated_operations_have_the_bits_of_the_cpu():
    run_simulator("everything")


def run_threads(body, x, out, constants, choice, threads):
    """A launch of so many threads, one after the other."""
    none = np.zeros(0, np.int64)
    arrays = (out, none, x, x, x)
    masks = (np.uint64(0xFFFFFFFFFFFFFFFF),) * 3
    how = np.int64(choice.saturate), np.int64(choice.bits), np.int64(choice.variant)
    key, offset = np.uint64(choice.key), np.int64(choice.offset)
    for thread in range(threads):
        body(arrays, masks, constants, how, key, offset, thread, threads)


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("rounding", ["ties_to_even", "stochastic"])
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16"])
def test_thread_bodies_have_the_bits_of_the_cpu_over_whole_arrays(fmt, rounding, offset):
    from softfloat.cuda import bodies
    from softfloat.cuda.elementwise import quick_form

    rng = np.random.default_rng(3)
    x = rng.integers(0, 1 << 32, 400_003, np.uint32).view(np.float32)
    options = {"rounding": rounding}
    if rounding == "stochastic":
        options |= {"seed": 9, "offset": offset}
    choice = Choice(**options)
    form, constants = quick_form(sf.as_format(fmt), x.dtype, choice)
    wanted = sf.quantize(x, fmt, **options)
    for threads in (1, 7, 1024):
        out = np.zeros_like(x)
        run_threads(bodies.round_body(*form, 4), x, out, constants, choice, threads)
        assert_same_bits(out, wanted)


@pytest.mark.parametrize(
    ("hidden", "error", "text"),
    [
        ("numba_cuda", "ImportError", "pip install 'softfloat-numba[cuda12]'"),
        pytest.param(None, "RuntimeError", "no CUDA device can be used", marks=needs_numba_cuda),
    ],
)
def test_a_call_without_cuda_says_what_is_missing(hidden, error, text):
    script = f"""
import importlib.util, numpy as np, softfloat as sf
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {hidden!r} else found(name, *rest)
class DeviceNDArray:
    copy_to_host = None
DeviceNDArray.__module__ = "numba.cuda.cudadrv.devicearray"
try:
    sf.quantize(DeviceNDArray(), "bfloat16")
except {error} as raised:
    print(raised)
"""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    shown = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert text in shown.stdout
