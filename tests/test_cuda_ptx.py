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


# Elements of a turn of the loop, instructions of the machine an element, the load that shows the loop, registers. The
# bounds of ../docs/gpu.md, where each is an integer form, one of a magic constant, or a stochastic one.
MAGIC, STOCHASTIC = 23 * 1.15, 47 * 1.15
CEILINGS = {
    "quantize binary16": (4, MAGIC, "LDG.E.128", 32),
    "quantize bfloat16": (4, MAGIC, "LDG.E.128", 32),
    "stochastic binary16": (4, STOCHASTIC, "LDG.E.128", 48),
    "stochastic bfloat16": (4, STOCHASTIC, "LDG.E.128", 48),
    "quantize binary32": (2, MAGIC, "LDG.E.128", 40),
    "add": (1, math.inf, "LDG", 48),
    "fma": (1, math.inf, "LDG", 56),
    "exp": (1, math.inf, "LDG", 64),
    "encode": (1, math.inf, "LDG", 48),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_kernels_compile_without_joined_operations_or_spills(name, monkeypatch):
    from softfloat.cuda.kernels import elementwise_kernel

    body, signature = case(name)
    function = elementwise_kernel(body).py_func
    width, each, load, registers = CEILINGS[name]
    for capability in CAPABILITIES:
        ptx = ptx_of(function, signature, capability, monkeypatch)
        counts = instructions(ptx)
        for banned in (".ftz", ".approx", ".local"):
            assert banned not in ptx, (capability, banned)
        assert not [op for op in counts if op.startswith("call")], capability
        if width == 4:  # float32 alone
            assert not [op for op in counts if ".f64" in op], capability
        assert name == "exp" or not joinable(ptx), capability
        found = assembled(ptx, capability)
        if found is not None:
            assert found.spilled == 0 and found.registers <= registers, (capability, found[:2])
        if found is not None and found.text and each < math.inf:
            loop = found.loop_with(load)
            assert len(loop) <= each * width, (capability, len(loop))


def general_tile(fmt, rounding):
    from softfloat.cuda.product import GENERAL, Tile
    from softfloat.fast import fast_constants, fast_form

    choice = Choice(
        rounding, **({"seed": 1, "random_bits": 13} if rounding == "stochastic" else {})
    )
    fmt, carrier = sf.as_format(fmt), np.dtype(np.float32)
    form = fast_form(fmt, carrier, choice.mode, 0, choice.bits, 0)
    constants = fast_constants(form[0], fmt, carrier, choice.mode, 0, choice.bits)
    return Tile(GENERAL, (*form, choice.bits)), tuple(constants)


def tile_case(name):
    from softfloat.cuda.product import MIDDLE, QUICK, Tile

    if name in ("quick", "middle"):
        return Tile(QUICK if name == "quick" else MIDDLE), (np.float32(1),) * 3
    return general_tile(*name.split())


# Instructions of a multiply-add, loads included: of the six and seven operations (the latter with a choice of the
# larger and a sign), of one with magic constants, and of one in integers.
TILES = {
    "quick": 6 * 1.15,
    "middle": 9 * 1.15,
    "bfloat16 ties_to_even": 22.8 * 1.15,
    "binary16 ties_to_even": 22.8 * 1.15,
    "bfloat16 stochastic": 85 * 1.15,
    "binary16 stochastic": 85 * 1.15,
}
MORE_TILES = [
    f"{fmt} {rounding}"
    for fmt in ("bfloat16", "float8_e4m3fnuz")
    for rounding in ("ties_to_away", "toward_zero", "toward_negative", "to_odd")
]


@pytest.mark.parametrize(
    "name", [*TILES, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in MORE_TILES)]
)
def test_product_tiles_stay_in_registers(name, monkeypatch):
    from numba import typeof, types

    from softfloat.cuda.kernels import tile_kernel
    from softfloat.cuda.product import BROAD

    f, i = types.float32, types.int64
    matrix, line = types.Array(f, 2, "C"), types.Array(f, 1, "C")
    tile, constants = tile_case(name)
    steps = tile.tall * BROAD
    signature = types.void(
        matrix, matrix, line, matrix, i[::1], line, typeof(constants), types.uint64, i
    )
    for capability in CAPABILITIES if name in ("quick", "middle") else [(9, 0)]:
        ptx = ptx_of(tile_kernel(tile).py_func, signature, capability, monkeypatch)
        for banned in (".ftz", ".approx", ".local", ".f64", "call."):
            assert banned not in ptx, (capability, banned)
        assert not joinable(ptx)
        if name in ("quick", "middle"):
            assert fused(ptx) == steps
        found = assembled(ptx, capability)
        if found is not None:
            assert found.spilled == 0 and found.registers <= 96, (capability, found[:2])
        if found is not None and found.text:
            assert len(found.loop_with("LDS")) <= TILES.get(name, 85 * 1.15) * steps, capability


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

    from softfloat.cuda import bodies, engine, kernels, product, reduce
    from softfloat.cuda.elementwise import integers, numbers

    i, u, f = types.int64, types.uint64, types.float32
    line = lambda kind: types.Array(kind, 1, "C")  # noqa: E731
    matrix, words = types.Array(f, 2, "C"), line(i)
    F, N = integers(sf.bfloat16), numbers(sf.bfloat16)
    three, four, roundings = types.UniTuple(i, 3), types.UniTuple(i, 4), types.UniTuple(words, 4)
    tail = four, u, i
    if name == "universal":
        body = product.universal_body(0, False)
        arrays = types.Tuple((line(f), matrix, matrix, line(f), roundings))
        kinds = arrays, three, typeof(((F, N),) * 3), *tail, words
        return kernels.universal_kernel(body), types.void(*kinds)
    if name == "sum":
        arrays = types.Tuple((line(f), line(f), roundings))
        kinds = arrays, three, typeof(((F, N),) * 2), *tail
        return kernels.elementwise_kernel(product.sum_body(0)), types.void(*kinds)
    if name == "decode":
        signature = elementwise_signature(np.int32, np.uint16, (F, np.int64(0)))
        return kernels.elementwise_kernel(bodies.decode_body(23)), signature
    pair = types.UniTuple(i, 2)
    if name == "engine":
        records = typeof((tuple(map(np.int64, sf.binary32.record)),) * 2)
        kinds = types.Tuple((three, i, words, words, records))
        kernel = kernels.per_element_kernel(engine.engine_element, engine.ROOM)
        return kernel, types.void(i, types.UniTuple(words, 8), kinds)
    arrays = types.Tuple((line(f), *[words] * 6))
    given = types.Tuple((three, i, pair, four, typeof((F,) * 4), roundings, u, i))
    element = {
        "definition": reduce.reduce_element,
        "piece": reduce.reduce_piece,
        "join": reduce.join_element,
    }[name]
    return kernels.per_element_kernel(element, reduce.STATE), types.void(i, arrays, given)


def _helping(name):
    """(kernel, type of its call) of the kernels around those."""
    from numba import typeof, types

    from softfloat.cuda import bodies, engine, kernels, terms
    from softfloat.cuda.elementwise import integers, numbers

    i, u, f = types.int64, types.uint64, types.float32
    line = lambda kind: types.Array(kind, 1, "C")  # noqa: E731
    F, N, n = integers(sf.bfloat16), numbers(sf.bfloat16), np.int64(0)

    def elementwise(kernel, body, kinds, constants, *more):
        head = types.Tuple(tuple(kinds)), types.UniTuple(u, 3), typeof(constants)
        return kernel(body), types.void(*head, types.UniTuple(i, 3), u, i, *more)

    words, values, strided = line(i), line(f), types.Array(f, 3, "A")
    if name == "survey":
        return kernels.survey_kernel(), types.void(values, types.Array(types.uint32, 2, "C"), i)
    if name == "choice":
        found, offers = types.Array(types.uint32, 2, "C"), types.Array(types.float64, 2, "C")
        return kernels.choice_kernel(), types.void(found, offers, words, values)
    if name == "starts":
        return kernels.start_kernel(), types.void(values, typeof(F), typeof(N), words)
    usual, careful = kernels.elementwise_kernel, kernels.careful_kernel
    if name == "copy":
        kinds = values, values, *[strided] * 3
        return elementwise(usual, bodies.copy_body(), kinds, (n,))
    if name == "compare":
        kinds = line(types.boolean), words, values, line(types.float64), values
        return elementwise(usual, bodies.compare_body(2), kinds, (n,))
    if name == "gather":
        kinds = words, words, values, words, words
        return elementwise(usual, terms.gather_body(), kinds, (n, n, n))
    if name == "plus":
        return elementwise(usual, engine.plus_body(), [words] * 5, F)
    kinds = values, words, values, values, values
    return elementwise(careful, terms.stray_body(), kinds, ((F, N), n, n, n), words)


HELPING = ["survey", "choice", "starts", "copy", "compare", "gather", "plus", "stray"]


@pytest.mark.parametrize("name", HELPING)
def test_kernels_around_those_compile(name, monkeypatch):
    kernel, signature = _helping(name)
    ptx = ptx_of(kernel.py_func, signature, (7, 5), monkeypatch)
    assert ".ftz" not in ptx and ".approx" not in ptx and ".local" not in ptx
    assert not joinable(ptx)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["universal", "sum", "decode", "definition", "piece", "join", "engine"]
)
def test_kernels_of_sums_and_codes_compile_without_spills(name, monkeypatch):
    kernel, signature = _reducing(name)
    ptx = ptx_of(kernel.py_func, signature, (9, 0), monkeypatch)
    assert ".ftz" not in ptx and ".approx" not in ptx and not joinable(ptx)
    if name in ("universal", "sum", "decode"):  # elsewhere what is under way lies in local memory
        assert ".local" not in ptx
        assert (assembled(ptx, (9, 0)) or (0, 0))[1] == 0
