"""What the compilers make of the kernels: no joined products and sums, no spills, few registers and instructions."""

import math

import numpy as np
import pytest
from cuda_compile import (
    CAPABILITIES,
    SKIP,
    assembled,
    elementwise_signature,
    fused,
    instructions,
    joinable,
    ptx_of,
)

import softfloat as sf
from softfloat import scalar as sc
from softfloat.functional import Choice

pytestmark = pytest.mark.skipif(SKIP, reason="numba-cuda is not installed: pip install '.[test]'")

QUIET = {"ties_to_even": {}, "stochastic": {"rounding": "stochastic", "seed": 1}}


def rounding_case(fmt, rounding, dtype):
    from softfloat.cuda import bodies
    from softfloat.cuda.elementwise import quick_form

    dtype = np.dtype(dtype)
    form, constants = quick_form(sf.as_format(fmt), dtype, Choice(**QUIET[rounding]))
    body = bodies.round_body(*form, 16 // dtype.itemsize)
    return body, elementwise_signature(dtype, dtype, constants)


def operation_case(make, out, operand, with_form=False):
    from softfloat.cuda.elementwise import integers, numbers, quick_form

    fmt = sf.bfloat16
    constants = integers(fmt), numbers(fmt)
    form = ()
    if with_form:
        form, words = quick_form(fmt, np.dtype(operand), Choice())
        constants = words, *constants
    return make(form), elementwise_signature(out, operand, constants)


def case(name):
    """(thread body, type of the kernel's call)."""
    from softfloat.cuda import bodies

    f, d = np.float32, np.float64
    return {
        "quantize binary16": lambda: rounding_case("binary16", "ties_to_even", f),
        "quantize bfloat16": lambda: rounding_case("bfloat16", "ties_to_even", f),
        "stochastic binary16": lambda: rounding_case("binary16", "stochastic", f),
        "stochastic bfloat16": lambda: rounding_case("bfloat16", "stochastic", f),
        "quantize binary32": lambda: rounding_case("binary32", "ties_to_even", d),
        "add": lambda: operation_case(lambda form: bodies.lane_body("add", *form), f, f, True),
        "fma": lambda: operation_case(lambda _: bodies.operation_body("fma", 0), d, d),
        "exp": lambda: operation_case(lambda _: bodies.operation_body("exp", 0), f, f),
        "encode": lambda: operation_case(lambda _: bodies.encode_body(0), np.uint16, f),
    }[name]()


# Elements a thread takes at a time (and one more of the tail), instructions of PTX an element, registers.
CEILINGS = {
    "quantize binary16": (4, 23 * 1.15, 32),
    "quantize bfloat16": (4, 23 * 1.15, 32),
    "stochastic binary16": (4, 47 * 1.15, 48),
    "stochastic bfloat16": (4, 47 * 1.15, 48),
    "quantize binary32": (2, 30, 40),
    "add": (1, math.inf, 48),
    "fma": (1, math.inf, 56),
    "exp": (1, math.inf, 64),
    "encode": (1, math.inf, 48),
}
SHOWN = 50  # instructions around the loop: arguments, the index of the thread


@pytest.mark.parametrize("name", CEILINGS)
def test_kernels_compile_without_joined_operations_or_spills(name, monkeypatch):
    from softfloat.cuda.kernels import elementwise_kernel

    body, signature = case(name)
    function = elementwise_kernel(body).py_func
    width, each, registers = CEILINGS[name]
    for capability in CAPABILITIES:
        ptx = ptx_of(function, signature, capability, monkeypatch)
        counts = instructions(ptx)
        for banned in (".ftz", ".approx", ".local"):
            assert banned not in ptx, (capability, banned)
        assert not [op for op in counts if op.startswith("call")], capability
        if width == 4:  # float32 alone
            assert not [op for op in counts if ".f64" in op], capability
        assert name == "exp" or not joinable(ptx), capability
        assert sum(counts.values()) - SHOWN <= each * (width + 1), (
            capability,
            sum(counts.values()),
        )
        found = assembled(ptx, capability)
        if found is not None:
            assert found[1] == 0, (capability, "spills")
            assert found[0] <= registers, (capability, found)


@pytest.mark.parametrize(("form", "each"), [(0, 6), (1, 7)], ids=["quick", "middle"])
def test_product_tiles_stay_in_registers(form, each, monkeypatch):
    """each : sums and products of a multiply-add; those of a tile's edge are few."""
    from numba import types

    from softfloat.cuda.kernels import tile_kernel
    from softfloat.cuda.product import BROAD, TALL

    matrix = types.Array(types.float32, 2, "C")
    words = types.UniTuple(types.float32, 3)
    signature = types.void(matrix, matrix, matrix, types.int64[::1], types.float32[::1], words)
    for capability in CAPABILITIES:
        ptx = ptx_of(tile_kernel(form).py_func, signature, capability, monkeypatch)
        counts = instructions(ptx)
        for banned in (".ftz", ".approx", ".local", ".f64", "call."):
            assert banned not in ptx, (capability, banned)
        assert not joinable(ptx)
        steps = TALL * BROAD
        assert fused(ptx) == steps
        arithmetic = ("fma.", "mul.", "add.", "sub.")
        float32 = {op: n for op, n in counts.items() if op.startswith(arithmetic) and "f32" in op}
        assert sum(float32.values()) <= each * steps * 1.15, float32
        found = assembled(ptx, capability)
        if found is not None:
            assert found[1] == 0 and found[0] <= 96, (capability, found)


@pytest.mark.parametrize("name", ["add", "fma"])
def test_the_compiler_joins_nothing_when_it_may(name, monkeypatch):
    from softfloat.cuda.kernels import elementwise_kernel

    body, signature = case(name)
    function = elementwise_kernel(body).py_func
    free = fused(ptx_of(function, signature, (9, 0), monkeypatch))
    assert free == fused(ptx_of(function, signature, (9, 0), monkeypatch, contract=False))


def user_kernel(operation, fmt):
    """A kernel in which a product of the user's own is an operand, and the result a term."""
    from numba import cuda

    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = operation(x[i] * y[i], y[i], fmt) + x[i]

    return kernel


@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary64], ids=lambda fmt: fmt.label)
@pytest.mark.parametrize("operation", [sc.add, sc.multiply], ids=lambda f: f.__name__)
def test_scalar_functions_are_not_joined_with_the_users_own_arithmetic(operation, fmt, monkeypatch):
    from numba import types

    array = types.float64[::1]
    kernel = user_kernel(operation, fmt)
    signature = types.void(array, array, array)
    ptx = ptx_of(kernel, signature, (9, 0), monkeypatch)
    assert fused(ptx) == fused(ptx_of(kernel, signature, (9, 0), monkeypatch, contract=False))
    assert not joinable(ptx)


def soft_kernel():
    from numba import cuda

    def axpy(a, x, y, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            total = 0.0
            for _ in range(3):
                total += a * x[i]
            out[i] = total + y[i]

    return axpy


@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary16, sf.binary64], ids=lambda fmt: fmt.label)
def test_an_unmodified_kernel_takes_soft_arrays(fmt, monkeypatch):
    from numba import types

    array = sf.cuda.SoftDeviceArray(Values(), fmt)._numba_type_
    signature, axpy = types.void(types.float64, array, array, array), soft_kernel()
    ptx = ptx_of(axpy, signature, (9, 0), monkeypatch)
    assert fused(ptx) == fused(ptx_of(axpy, signature, (9, 0), monkeypatch, contract=False))
    assert not joinable(ptx) and ".local" not in ptx
    # Of each product and sum, and of the plain a; bfloat16 computes in float32, and cuts bits off.
    roundings = {"bfloat16": 1, "binary16": 6, "binary64": 0}[fmt.label]
    assert fused(ptx) == 2 * roundings


class Values:
    """What a SoftDeviceArray asks numba's array for to know its type."""

    ndim = 1

    def is_c_contiguous(self):
        return True


def test_formats_and_roundings_are_arguments_of_kernels(monkeypatch):
    from numba import types

    from softfloat.cuda.soft import Arguments
    from softfloat.numba_types.options import format_type, rounding_type

    def kernel(x, out, fmt, rounding):
        out[0] = sc.quantize(x[0], fmt, rounding)

    array = types.float64[::1]
    signature = types.void(array, array, format_type, rounding_type)
    ptx = ptx_of(kernel, signature, (9, 0), monkeypatch)
    own = [Arguments.prepare_args(t, v, 0, []) for t, v in (
        (format_type, sf.bfloat16), (rounding_type, sf.Rounding.TO_ODD),
    )]  # fmt: skip
    (kind, (integers, numbers)), mode = own
    assert kind.types[0].count == len(integers) and kind.types[1].count == len(numbers)
    assert mode == (types.int64, 5)
    # One argument of the machine for each number, and seven for an array.
    assert ptx.split(")")[0].count(".param") == 2 * 7 + len(integers) + len(numbers) + 1


def test_the_search_for_joined_operations_finds_some(monkeypatch):
    from numba import cuda, types

    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = x[i] * x[i] + out[i]

    signature = types.void(types.float64[::1], types.float64[::1])
    joined = fused(ptx_of(kernel, signature, (9, 0), monkeypatch))
    assert joined == 1
    assert fused(ptx_of(kernel, signature, (9, 0), monkeypatch, contract=False)) == 0
    text = "mul.f32 %f1, %f2, %f3;\n add.f32 %f4, %f1, %f5;"
    assert joinable(text) and not joinable(text.replace("mul.f32", "mul.rn.f32"))


def _reducing(name):
    """(kernel, type of its call) of the kernels that make sums, products and codes."""
    from numba import typeof, types

    from softfloat.cuda import bodies, kernels, product, reduce
    from softfloat.cuda.elementwise import integers, numbers

    i, u, f = types.int64, types.uint64, types.float32
    line = lambda kind: types.Array(kind, 1, "C")  # noqa: E731
    matrix, words = types.Array(f, 2, "C"), line(i)
    F, N = integers(sf.bfloat16), numbers(sf.bfloat16)
    three, four, roundings = types.UniTuple(i, 3), types.UniTuple(i, 4), types.UniTuple(words, 4)
    tail = four, u, i
    if name == "universal":
        body = product.universal_body(0, False)
        arrays = types.Tuple((line(f), matrix, matrix, roundings))
        kinds = arrays, three, typeof(((F, N),) * 3), *tail, words
        return kernels.universal_kernel(body), types.void(*kinds)
    if name == "sum":
        arrays = types.Tuple((line(f), line(f), roundings))
        kinds = arrays, three, typeof(((F, N),) * 2), *tail
        return kernels.elementwise_kernel(product.sum_body(0)), types.void(*kinds)
    if name == "decode":
        signature = elementwise_signature(np.int32, np.uint16, (F, np.int64(0)))
        return kernels.elementwise_kernel(bodies.decode_body(23)), signature
    arrays = types.Tuple((line(f), *[words] * 5))
    kinds = arrays, three, i, four, typeof((F,) * 4), roundings, u, i
    return reduce.reduce_kernel(), types.void(*kinds)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["universal", "sum", "decode", "definition"])
def test_kernels_of_sums_and_codes_compile_without_spills(name, monkeypatch):
    kernel, signature = _reducing(name)
    ptx = ptx_of(kernel.py_func, signature, (9, 0), monkeypatch)
    assert ".ftz" not in ptx and ".approx" not in ptx and not joinable(ptx)
    if name != "definition":  # what is under way there lies in local memory
        assert ".local" not in ptx
        assert (assembled(ptx, (9, 0)) or (0, 0))[1] == 0
