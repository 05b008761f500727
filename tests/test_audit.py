"""softfloat.audit finds what a kernel computed in plain float, line by line, and nothing else."""

import numba
import numpy as np
import pytest

import softfloat as sf


def leaking(x, c, out):
    w = 0.0
    for j in range(c.shape[0]):
        w += c[j] * 0.5  # plain: w meets nothing soft here
    for i in range(x.shape[0]):
        out[i] = w * x[i]
    h = float(x[0]) / 3
    return h


def tight(x, out):
    s = 0.0
    for i in range(x.shape[0]):
        s += 0.5 * x[i]
        out[i] = s / 3 if s > 1 else -s
    return s


def lines(function, *offsets):
    first = function.__code__.co_firstlineno
    return [first + offset for offset in offsets]


def test_plain_operations_are_listed_with_their_lines():
    kernel = numba.njit(leaking)
    kernel(sf.ones(3, "bfloat16"), np.ones(2), sf.zeros(3, "bfloat16"))
    found = sf.audit(kernel)
    assert [operation.line for operation in found] == lines(leaking, 3, 3, 6, 6)
    assert {operation.operation for operation in found} == {"iadd", "mul", "float", "truediv"}
    assert str(found[0]).startswith(f"line {found[0].line}: ")


def test_a_kernel_that_keeps_to_its_format_has_no_finding():
    kernel = numba.njit(tight)
    kernel(sf.ones(3, "bfloat16"), sf.zeros(3, "bfloat16"))
    assert sf.audit(kernel) == []


def test_one_signature_can_be_audited_alone():
    kernel = numba.njit(tight)
    kernel(sf.ones(3, "bfloat16"), sf.zeros(3, "bfloat16"))
    kernel(np.ones(3), np.zeros(3))
    soft, plain = kernel.signatures
    assert sf.audit(kernel, soft) == []
    assert {operation.line for operation in sf.audit(kernel, plain)} == set(lines(tight, 3, 4))
    assert sf.audit(kernel) == sf.audit(kernel, plain)


def test_what_cannot_be_audited_says_so():
    with pytest.raises(TypeError, match=r"compiled by numba\.njit, got function"):
        sf.audit(tight)
    kernel = numba.njit(tight)
    with pytest.raises(ValueError, match="call the kernel once"):
        sf.audit(kernel)
    kernel(np.ones(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"kernel\.signatures"):
        sf.audit(kernel, (numba.int64,))
