"""What a reviewer of sums, products and engines broke once. Each must stay mended."""

import dataclasses
import platform
from fractions import Fraction

import numba
import numpy as np
import pytest

import softfloat as sf
from softfloat.bits import leave_standard_arithmetic
from softfloat.reductions import _copy

B = sf.bfloat16
A = np.arange(6, dtype=np.float32).reshape(2, 3)
FLUSHING = 0x9FC0  # MXCSR: every exception masked, subnormal results and operands are zeros
USUAL = 0x1F80
ON_X86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="sets the control word of x86"
)


@numba.njit
def set_control_word(word):
    leave_standard_arithmetic(word)


@pytest.mark.parametrize(
    "function", [sf.dot, sf.vdot, sf.inner, sf.matmul], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("x", [[2**60 + 1, 0.5], ["0.1", 1], [Fraction(1, 3), 1]], ids=str)
def test_what_no_float64_holds_is_refused_in_lists_too(function, x):
    with pytest.raises(TypeError, match="no float64 holds exactly"):
        function(x, [1.0, 1.0], sf.binary64)


@pytest.mark.parametrize(
    "function", [sf.dot, sf.vdot, sf.inner, sf.matmul], ids=lambda f: f.__name__
)
def test_ragged_lists_say_that_they_form_no_array(function):
    with pytest.raises(ValueError, match="does not form an array"):
        function([[1, 2], [3]], [1.0, 1.0], B)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: sf.sum(x, B),
        lambda x: sf.cumsum(x, B),
        lambda x: sf.norm(x, B),
        lambda x: sf.matmul(x, A.T, B),
        lambda x: sf.matmul(A, A.T, B, c=x[:, :2]),
        lambda x: sf.dot(A, x.T, B),
        lambda x: sf.vdot(x, A, B),
        lambda x: sf.inner(x, A, B),
        lambda x: sf.outer(x, A, B),
        lambda x: sf.einsum("ij,kj->ik", A, x, B),
        lambda x: sf.conv1d(x[None], A[None], B, padding=2),
    ],
)
def test_masked_elements_are_refused_and_arrays_without_any_taken(call):
    masked = np.ma.masked_array(A, mask=A == 1)
    with pytest.raises(TypeError, match="masked elements.*filled"):
        call(masked)
    assert np.array_equal(call(np.ma.masked_array(A)), call(A))


@pytest.mark.parametrize(
    "call",
    [
        lambda **o: sf.sum(A, B, **o),
        lambda **o: sf.cumsum(A, B, **o),
        lambda **o: sf.matmul(A, A.T, B, **o),
        lambda **o: sf.einsum("ij,kj->ik", A, A, B, **o),
        lambda **o: sf.conv1d(A[None], A[None], B, padding=2, **o),
    ],
)
def test_errors_about_options_name_what_there_is(call):
    with pytest.raises(TypeError, match="no option 'foo' here.*seed.*result_rounding"):
        call(foo=1)
    for name in ("rounding", "product_rounding", "result_rounding"):
        said = "needs seed=, so that the result can be repeated$|product_rounding='stochastic' goes with"
        with pytest.raises(ValueError, match=said):
            call(**{name: "stochastic"})


@pytest.mark.parametrize("function", [sf.sum, sf.mean, sf.prod, sf.cumsum])
def test_the_rounding_of_products_is_refused_where_there_are_none(function):
    with pytest.raises(ValueError, match="'toward_zero' goes with functions that form products"):
        function(A, B, product_rounding="toward_zero")


@pytest.mark.parametrize(
    "call",
    [
        lambda **o: sf.matmul(A, A.T, B, **o),
        lambda **o: sf.dot(A[0], A[0], B, **o),
        lambda **o: sf.norm(A, B, **o),
        lambda **o: sf.einsum("ij,kj->ik", A, A, B, **o),
    ],
)
def test_the_rounding_of_products_is_refused_where_they_are_exact(call):
    with pytest.raises(ValueError, match="'toward_zero' goes with products that are rounded"):
        call(product=None, product_rounding="toward_zero")


@pytest.mark.parametrize("function", [sf.sum, sf.mean, sf.prod, sf.norm])
def test_keepdims_is_true_or_false(function):
    assert function(A, B, axis=1, keepdims=np.True_).shape == (len(A), 1)
    with pytest.raises(TypeError, match="keepdims must be True or False, got 'yes'"):
        function(A, B, axis=1, keepdims="yes")


def test_fma_is_true_or_false_and_cumsum_has_one_axis():
    with pytest.raises(TypeError, match="fma must be True or False, got 'no'"):
        sf.matmul(A, A.T, B, fma="no")
    with pytest.raises(ValueError, match=r"one axis.*got \(0, 1\)"):
        sf.cumsum(A, B, (0, 1))


def test_engines_serve_functions_of_several_products():
    engine = sf.engines.h100_fp8
    x = np.ones((3, 3), np.float32)
    assert np.array_equal(sf.einsum("ij,jk,kl->il", x, x, x, B, engine=engine), 9 * x)
    gradient, w = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 3), np.float32)
    found = sf.conv1d_input_gradient(gradient, w, (1, 1, 5), sf.binary32, stride=2, engine=engine)
    assert found.tolist() == [[[1, 1, 2, 1, 1]]]


@pytest.mark.parametrize(
    "order", [5, None, [0.5] * 32, [float(k) for k in range(32)], (0, 1)], ids=repr
)
def test_an_order_of_an_engine_is_a_permutation_of_integers(order):
    with pytest.raises(ValueError, match="order must be .* a permutation of range"):
        dataclasses.replace(sf.engines.h100_fp8, order=order)
    with pytest.raises(ValueError, match="split must be in"):
        dataclasses.replace(sf.engines.h100_fp8, split=1 << 40)


def test_looking_for_the_format_of_an_operand_raises_no_flag():
    x = np.array([[57344.0, 1.25]], np.float32)  # values of e5m2, beyond and between those of e4m3
    promoting = dataclasses.replace(sf.engines.h100_fp8, promote=32, split=2, split_tile=32)
    for engine in (sf.engines.h100_fp8, promoting, sf.engines.h100_tf32):
        with sf.status() as status:
            sf.matmul(x, x.T, sf.binary32, engine=engine)
        assert (status.inexact, status.overflow) == (0, 0)


SUBNORMAL = (np.linspace(1, 2, 60).reshape(6, 10) * 2.0**-130).astype(np.float32)
FACTOR = np.linspace(0.5, 2, 40, dtype=np.float32).reshape(10, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sf.dot(A, A, B), r"dot: the inner sizes differ: a has shape \(2, 3\)"),
        (lambda: sf.vdot(A, A[0], B), "vdot: a has 6 elements, but b has 3"),
        (lambda: sf.matmul(A[0], A, B), r"matmul: .* a has shape \(3,\), b has shape \(2, 3\)"),
        (lambda: sf.inner(A, [1, 2], B), "inner: axis 1 of a has size 3, axis 0 of b 2"),
    ],
)
def test_an_error_about_sizes_has_the_name_and_the_shapes_that_were_given(call, message):
    with pytest.raises(ValueError, match="^" + message):
        call()


@pytest.mark.parametrize("option", [{"keepdims": True}, {"axis": 0}])
def test_einsum_of_one_operand_has_its_axes_from_the_subscripts(option):
    with pytest.raises(TypeError, match="no option .* here; the subscripts say"):
        sf.einsum("ij->i", A, B, **option)


def test_running_sums_of_a_number_are_those_of_one_element():
    for axis in (None, 0, -1):
        assert sf.cumsum(1.5, B, axis).tolist() == [1.5]
    with pytest.raises(ValueError, match="axis must be in -1..0, got 1"):
        sf.cumsum(1.5, B, 1)


@ON_X86
@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.matmul(SUBNORMAL, FACTOR, B),
        lambda: sf.matmul(SUBNORMAL, FACTOR, B, product=None),
        lambda: sf.matmul(SUBNORMAL, FACTOR, B, rounding="toward_zero"),
        lambda: sf.einsum("ij,jk->ki", SUBNORMAL, FACTOR, B),
        lambda: sf.sum(SUBNORMAL, B, 0),
        lambda: sf.conv1d(SUBNORMAL[None], np.ones((1, 6, 2)), B),
        lambda: sf.conv1d_weight_gradient(SUBNORMAL[None], np.ones((1, 1, 9)), (1, 6, 2), B),
    ],
)
def test_subnormal_results_survive_a_processor_that_flushes(call):
    want = call()
    set_control_word(FLUSHING)
    try:
        got = call()
    finally:
        set_control_word(USUAL)
    assert want.any()
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


@ON_X86
@pytest.mark.parametrize("dtypes", ["fd", "df"])
def test_copies_between_carriers_keep_subnormals_wherever_they_lie(dtypes):
    values = np.array([2.0**-140, -(2.0**-149), np.inf, np.nan, -0.0, 1.5, 3, 4], dtypes[0])
    result = np.zeros((2, 8), dtypes[1])
    set_control_word(FLUSHING)
    try:
        _copy(values.reshape(2, 4), result[:, ::2])
    finally:
        set_control_word(USUAL)
    assert np.array_equal(result[:, ::2].reshape(-1), values, equal_nan=True)


@ON_X86
def test_engines_do_not_depend_on_the_direction_of_the_processor():
    x = np.asarray(sf.quantize(np.linspace(-3, 2, 300).reshape(5, 60), sf.float8_e5m2))
    for engine in (sf.engines.h100_fp8, sf.engines.a100_fp16, sf.engines.cdna2_fp16):
        want = sf.matmul(x, x.T, sf.binary32, engine=engine)
        set_control_word(
            0x7F80
        )  # toward zero; the C library's pow is then inexact at powers of two
        try:
            got = sf.matmul(x, x.T, sf.binary32, engine=engine)
        finally:
            set_control_word(USUAL)
        assert got.tobytes() == want.tobytes()
