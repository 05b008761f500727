"""CUDA without a GPU: thread bodies on the CPU over whole arrays, kernels in the simulator, what is missing said."""

import functools
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_compile import SKIP
from helpers import assert_same_bits

import softfloat as sf
from softfloat import elementary, functional
from softfloat.backends.compare import RELATIONS
from softfloat.functional import Choice

ON_DEVICES = {
    *functional.__all__,
    *elementary.__all__,
    *RELATIONS,
    "dot",
    "matmul",
    "mean",
    "norm",
    "prod",
    "sum",
}
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
@pytest.mark.parametrize("group", ["quantize", "soft_arrays", "comparisons", "refusals"])
def test_simulated_kernels_have_the_bits_of_the_cpu(group):
    run_simulator(group)


@needs_numba_cuda
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "group",
    [
        "arithmetic", "codes", "reductions", "products", "any_products", "soft_kernels", "engines",
        "scaled_engines", "starts", "orders", "tiles", "layouts",
    ],
)  # fmt: skip
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


class DeviceNDArray:
    """Numbers that lie on a device, as numba says it; to read them is an error."""

    shape, ndim, size, strides, dtype = (2, 2), 2, 4, (8, 4), np.dtype(np.float32)
    copy_to_host = None

    def __array__(self, *_, **__):
        raise AssertionError("copied to the host in silence")

    __len__ = __iter__ = __getitem__ = __float__ = __index__ = __bool__ = __array__


DeviceNDArray.__module__ = "numba.cuda.cudadrv.devicearray"
# What takes no arrays of numbers, and the arguments of others that are none.
NOT_OF_NUMBERS = {
    "arange", "as_format", "audit", "empty", "eye", "finfo", "formats", "full",
    "get_num_threads", "linspace", "load", "ones", "p3109", "rounding", "save", "set_num_threads",
    "status", "stream", "zeros", "info",
}  # fmt: skip
OTHER_ARGUMENTS = {
    "fmt": "bfloat16", "subscripts": "ij,jk->ik", "input_shape": (1, 1, 4, 4),
    "weight_shape": (1, 1, 2, 2), "indices_or_sections": 1, "shape": (4,),
}  # fmt: skip


def public_functions():
    for name in sorted(sf.__all__):
        function = getattr(sf, name)
        if inspect.isroutine(function) and name not in NOT_OF_NUMBERS:
            yield name


@pytest.mark.parametrize("name", list(public_functions()))
def test_no_function_copies_from_a_device_in_silence(name):
    """It asks for CUDA, which it could run on, or says that it does not go there and what to do."""
    function = getattr(sf, name)
    parameters = inspect.signature(function).parameters.values()
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD
    ]
    arguments = [OTHER_ARGUMENTS.get(p, DeviceNDArray()) for p in needed]
    if name == "einsum":
        arguments += [DeviceNDArray(), DeviceNDArray()]
    if name in ("einsum", "array", "asarray"):
        run = functools.partial(function, *arguments, fmt="bfloat16")
    else:
        run = functools.partial(function, *arguments)
    with pytest.raises((TypeError, RuntimeError, ImportError)) as raised:
        run()
    text = str(raised.value)
    offered = isinstance(raised.value, (RuntimeError, ImportError))
    assert ("CUDA device" in text) if offered else (f"softfloat.{name} is not offered" in text)
    assert offered == (name in ON_DEVICES)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, d: x + d, "do not mix"),
        (lambda x, d: x < d, "do not mix"),
        (lambda x, d: np.add(x, d), "do not mix"),
        (lambda x, d: x.__setitem__(0, d), "not offered for arrays on a device"),
        (lambda x, d: sf.add(x, x, "bfloat16", out=d), "out= must be"),
        (
            lambda x, d: sf.quantize(x, "bfloat16", rounding="stochastic", random=d),
            "random= must be",
        ),
    ],
    ids=["add", "less", "ufunc", "setitem", "out", "random"],
)
def test_host_and_device_do_not_mix_in_silence(call, text):
    with pytest.raises(TypeError, match=text):
        call(sf.ones((2, 2), "bfloat16"), DeviceNDArray())


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
