"""Polynomials as sequences of coefficients, from the highest power, and sequences of powers."""

import numpy as np

from softfloat.array.numeric import convolve, polyval, soft
from softfloat.array.registry import implements, unsupported
from softfloat.array.ufuncs import accumulate
from softfloat.operands import Held

POLYNOMIALS = "polynomials"


def _pair(a, b):
    """Two polynomials, the shorter one with zeros in front."""
    a, b = (np.atleast_1d(soft(x, y)) for x, y in ((a, b), (b, a)))
    size = max(len(a), len(b))
    zeros = [np.zeros_like(x, shape=(size - len(x),)) for x in (a, b)]
    return np.concatenate([zeros[0], a]), np.concatenate([zeros[1], b])


@implements(np.polyadd, section=POLYNOMIALS)
def polyadd(a1, a2):
    """a[i] + b[i], rounded"""
    first, second = _pair(a1, a2)
    return first + second


@implements(np.polysub, section=POLYNOMIALS)
def polysub(a1, a2):
    """a[i] - b[i], rounded"""
    first, second = _pair(a1, a2)
    return first - second


@implements(np.polymul, section=POLYNOMIALS)
def polymul(a1, a2):
    """as np.convolve, zeros in front left out"""
    return convolve(*(_trimmed(soft(x, y)) for x, y in ((a1, a2), (a2, a1))))


def _trimmed(p):
    """Coefficients without zeros in front; one zero if nothing is left."""
    p = np.atleast_1d(p)
    if p.ndim > 1:
        raise ValueError(f"a polynomial is a sequence of coefficients, got shape {p.shape}")
    first = next(iter(np.flatnonzero(p)), len(p))
    return p[first:] if first < len(p) else np.zeros_like(p, shape=(1,))


@implements(np.polyder, section=POLYNOMIALS)
def polyder(p, m=1):
    """p[i] * power, rounded, m times"""
    if m < 0:
        raise ValueError(f"m must not be negative, got {m}")
    p = np.atleast_1d(p)
    for _ in range(m):
        p = p[:-1] * _counting(max(len(p) - 1, 0), p)
    return p


@implements(np.polyint, section=POLYNOMIALS)
def polyint(p, m=1, k=None):
    """p[i] / power, rounded, m times; the constants k are zero if not given"""
    p = np.atleast_1d(p)
    constants = [0] * m if k is None else list(np.atleast_1d(k))
    constants = constants * m if len(constants) == 1 else constants
    if m < 0 or len(constants) < m:
        raise ValueError(
            f"polyint: m={m} integrations need as many constants, got {len(constants)}"
        )
    for constant in constants[:m]:
        last = np.atleast_1d(soft(constant, p))
        p = np.concatenate([p / _counting(len(p), p), last])
    return p


def _counting(n, like):
    """n, n - 1, ..., 1, each rounded to the nearest value of the format."""
    result = np.zeros_like(like, shape=(n,))
    result[...] = np.arange(n, 0, -1)
    return result


@implements(np.polydiv, section=POLYNOMIALS)
def polydiv(u, v):
    """long division: q = r[k] / v[0], then r - q * v, every step rounded"""
    u, v = (np.atleast_1d(soft(x, y)) for x, y in ((u, v), (v, u)))
    rest = u.copy()
    steps = max(len(u) - len(v) + 1, 1)
    quotient = np.zeros_like(u, shape=(steps,))
    for k in range(len(u) - len(v) + 1):
        quotient[k] = rest[k] / v[0]
        rest[k : k + len(v)] = rest[k : k + len(v)] - quotient[k] * v
        rest[k] = 0
    first = next((i for i in range(len(rest) - 1) if rest[i] != 0), len(rest) - 1)
    return quotient, rest[first:]


@implements(np.vander, section=POLYNOMIALS)
def vander(x, N=None, increasing=False):  # noqa: N803
    """1, x, x * x and so on, each the one before times x, rounded"""
    if x.ndim != 1:
        raise ValueError(f"np.vander takes one dimension, got shape {x.shape}")
    size = len(x) if N is None else N
    powers = np.ones_like(x, shape=(len(x), size))
    powers[:, 1:] = x[:, None]
    powers = accumulate(np.multiply, powers, 1) if size else powers
    return powers if increasing else powers[:, ::-1]


@implements(np.poly, section=POLYNOMIALS)
def poly(seq_of_zeros):
    """convolution with (1, -zero) for each zero in order; not of matrices, which need eigenvalues"""
    if not isinstance(seq_of_zeros, Held) or seq_of_zeros.ndim != 1:
        raise unsupported("np.poly", "only of a sequence of zeros")
    result = np.ones_like(seq_of_zeros, shape=(1,))
    for zero in seq_of_zeros:
        result = convolve(result, np.stack([np.ones_like(zero), -zero]))
    return result


__all__ = ["POLYNOMIALS", "polyval"]
