"""Whole arrays in compiled kernels, and a long list of expressions of which none may decay to plain float unseen."""

import math

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError, TypingError

import softfloat as sf
from softfloat.numba_types import operators

FMT = sf.bfloat16
RNG = np.random.default_rng(0)


def operands():
    """X, Y, H (another format), M (4 by 3), F (plain): fresh, as kernels may write into them."""
    rng = np.random.default_rng(0)
    return (
        sf.array(rng.standard_normal(8), FMT),
        sf.array(rng.standard_normal(8), FMT),
        sf.array(rng.standard_normal(8), "binary16"),
        sf.array(rng.standard_normal((4, 3)), FMT),
        rng.standard_normal(8),
    )


def thinned(sources):
    """Every second one is long: each is compiled by itself."""
    return [
        pytest.param(s, marks=pytest.mark.sweep if i % 2 else ()) for i, s in enumerate(sources)
    ]


def compiled(source):
    namespace = {"np": np, "math": math, "sf": sf, "FMT": FMT}
    body = "\n    ".join(source.splitlines()) if "return" in source else f"return {source}"
    exec(f"def f(X, Y, H, M, F):\n    {body}", namespace)
    return numba.njit(namespace["f"])


def as_bits(x):
    values = x.to_numpy() if isinstance(x, sf.SoftArray) else np.asarray(x)
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else values


# Expressions that mean the same in Python on SoftArrays: kernels give the same bits.
SAME_AS_PYTHON = """
X + Y
2.0 * X + Y
X - 0.1
X / Y
X // 0.25
X % 0.25
-X
abs(X)
X**2
np.sqrt(np.abs(X))
np.maximum(X, 0.0)
np.minimum(X, Y)
np.floor(X)
np.rint(X)
np.fmod(X, 0.3)
np.square(X)
X > 0
X == Y
np.isnan(X)
np.where(X > 0, X, Y)
np.where(X > 0, X, 0.0)
X * (X > 0)
M + X[:3]
M.T
M[1:, ::2]
M.reshape(12)
M.ravel()
X[X > 0]
X[np.array([0, 1, 5])]
X.copy()
np.zeros_like(X)
np.ones_like(X)
np.full_like(X, 0.1)
X.sum()
np.sum(M)
np.prod(X)
np.max(X)
np.min(M)
np.argmax(X)
np.cumsum(X)
X @ Y
M @ M.T
M @ X[:3]
X[:4] @ M
np.dot(X, Y)
np.any(X)
np.sort(X)
np.clip(X, 0.0, 1.0)
X.astype(sf.binary16)
H.astype(FMT)
sf.array(F, FMT)
sf.array(0.3, FMT)
X[0].astype(sf.float8_e5m2)
abs(X[0])
max(X[0], X[1])
min(X[0], 0.0)
np.sign(X[0])
X.shape
""".strip().splitlines()


@pytest.mark.parametrize("source", thinned(SAME_AS_PYTHON))
def test_expressions_have_the_bits_of_python(source):
    given = operands()
    got = compiled(source)(*given)
    names = dict(zip("XYHMF", given, strict=True)) | {"np": np, "math": math, "sf": sf, "FMT": FMT}
    want = eval(source, names)
    if isinstance(want, sf.SoftArray):
        assert isinstance(got, sf.SoftArray)
        assert got.format == want.format
    assert np.shape(got) == np.shape(want)
    assert (as_bits(got) == as_bits(want)).all()


# By the array functions, where NumPy has another name or none of the kernel's.
ELEMENTARY = {
    "np.exp(X)": lambda x, y: sf.exp(x, FMT),
    "np.hypot(X, Y)": lambda x, y: sf.hypot(x, y, FMT),
    "np.sin(X[0])": lambda x, y: sf.sin(x[0], FMT),
    "math.atan(X[1])": lambda x, y: sf.arctan(x[1], FMT),
    "math.erf(X[1])": lambda x, y: sf.erf(x[1], FMT),
    "X[0] ** 3": lambda x, y: sf.power(x[0], 3, FMT),
    "2 ** X": lambda x, y: sf.power(2, x, FMT),
    "abs(X[0]) ** Y[0]": lambda x, y: sf.power(abs(x[0]), y[0], FMT),
}


@pytest.mark.parametrize("source", thinned(ELEMENTARY))
def test_elementary_functions_are_those_of_the_package(source):
    given = operands()
    want = ELEMENTARY[source](given[0].to_numpy(), given[1].to_numpy())
    assert (as_bits(compiled(source)(*given)) == as_bits(np.float32(want))).all()


# Out of the format by request, or nothing of a format.
PLAIN = """
float(X[0])
int(X[0])
round(X[0])
math.floor(X[0])
X[0] > 0
F[0] > X[0]
X[0] in (1.0, 2.0)
X[0].item()
X.to_numpy()
np.argsort(X)
len(X)
np.array_equal(X, X)
np.allclose(X, Y)
np.signbit(X)
F[0] = float(X[0])\\nreturn F
""".strip().splitlines()

# What kernels refuse, in the words of numba or of ours.
REFUSED = """
X[0] + H[0]
X[0] < H[0]
X * H
X * F
F + X
F * X[0]
np.ones(3) * X[0]
np.eye(3) * M[:3]
X[0] + 1j
complex(X[0])
np.float64(X[0])
F[0] = X[0]\\nreturn F
F[:] = X\\nreturn F
t = np.empty(3)\\nt[0] = X[0]\\nreturn t
t = np.zeros(3)\\nt[0] += X[0]\\nreturn t
X.view(np.float64)
X.astype(np.float64)
F.astype(FMT)
np.add(X, Y, F)
np.std(X)
np.median(X)
np.linalg.norm(X)
np.linalg.solve(M[:3], X[:3])
np.linalg.det(M[:3])
np.interp(X, X, Y)
np.interp(F, X, Y)
np.convolve(X, Y)
np.correlate(X, F)
np.concatenate((X, Y))
np.append(F, X)
np.array([0.5, X[0]])
np.vstack((M, M))
np.unique(X)
np.nansum(X)
np.cov(X)
np.histogram(X)
np.searchsorted(X, 0.1)
np.polyval(F, X[0])
np.arange(X[0])
np.full(3, X[0], np.float64)
np.random.normal(X[0], 1.0)
np.copyto(F, X)
np.cross(X[:3], Y[:3])
np.dot(X, F)
F @ X
M @ F[:3]
np.trapezoid(X)
np.percentile(X, 50)
np.fill_diagonal(F.reshape(4, 2), X[0])
np.nanmean(X)
np.nancumsum(X)
np.identity(3, X.dtype)
np.eye(3, dtype=X.dtype)
np.frombuffer(X)
np.sum(M, axis=0)
np.cumsum(M, 0)
np.kron(M, M)
np.stack((X, Y), axis=1)
np.delete(X, 0)
np.maximum(X, X[0])
str(X[0])
repr(X[0])
f"{X[0]}"
""".strip().splitlines()

# More that may work or not, but never in plain float.
SOFT_OR_REFUSED = """
X[0] if X[0] > 0 else 0.0
s = 0.0\\nfor v in X: s += v\\nreturn s
s = 0.1\\nif X[0] > 100: s = X[0]\\nreturn s
m = -np.inf\\nfor v in X: m = max(m, v)\\nreturn m
s = np.float32(0)\\nfor v in X: s += v\\nreturn s
s = 0.0\\nt = 0.0\\nfor v in X:\\n    t = s * 0.1\\n    s = t + v\\nreturn t
l = [X[0]]\\nl.append(0.5)\\nreturn l[1]
(1.0 / 3) * X[0]
X[0] * F[0]
X[0] * np.float32(0.1)
True * X[0]
X[0] // 0.25
divmod(X[0], 0.25)[1]
pow(X[0], 2)
2 ** X[0]
X[0] ** 0.5
X[0].real
sum([X[0], X[1]])
sum(X)
np.outer(X, Y)
np.diff(X)
np.repeat(X, 2)
np.roll(X, 1)
np.flip(X)
np.trace(M)
np.take(X, np.array([0, 1]))
np.select([X > 0], [X], 0.0)
np.average(X)
np.mean(X)
X.mean()
np.kron(M, M)
np.swapaxes(M, 0, 1)
np.broadcast_to(X, (2, 8))
np.ascontiguousarray(M.T)
np.asarray(X)
np.triu(M)
np.diag(X)
np.linspace(X[0], X[1], 4)
np.empty(3, dtype=X.dtype)
np.zeros((2, 3), FMT)
np.ones(3, X.dtype)
np.full(3, 0.1, X.dtype)
np.exp(X[0])
np.log1p(abs(X[0]))
math.atan2(X[0], X[1])
math.tanh(X[0])
math.erf(X[0])
math.gamma(X[0])
np.arctan(X)
np.cbrt(X)
np.reciprocal(X)
np.positive(X)
math.copysign(X[0], -1.0)
sf.fma(X[0], Y[0], 0.1, X.dtype)
X += Y\\nreturn X
X[:] += Y\\nreturn X
X *= 0.5\\nreturn X
X[0] += 0.5\\nreturn X
X.fill(0.1)\\nreturn X
X[X > 0] = 0.5\\nreturn X
X[1:3] = Y[2:4]\\nreturn X
""".strip().splitlines()


@pytest.mark.parametrize("source", PLAIN)
def test_what_leaves_the_format_says_so_in_the_source(source):
    got = compiled(source.replace("\\n", "\n"))(*operands())
    assert not isinstance(got, sf.SoftArray)


@pytest.mark.parametrize("source", REFUSED)
def test_refusals_are_typing_errors(source):
    with pytest.raises(TypingError):
        compiled(source.replace("\\n", "\n"))(*operands())


@pytest.mark.parametrize("source", thinned(SOFT_OR_REFUSED))
def test_nothing_decays_to_plain_float(source):
    try:
        got = compiled(source.replace("\\n", "\n"))(*operands())
    except (NumbaError, NotImplementedError):
        return
    assert isinstance(got, sf.SoftArray), type(got)
    assert got.format == FMT


def test_refusals_say_what_to_do():
    for source, words in (
        ("X * F", r"softfloat.array\(y, x.dtype\)"),
        ("X.view(np.float64)", "to_numpy"),
        ("X.astype(np.float64)", "to_numpy"),
        ("X[0] + H[0]", r"\.astype\(fmt\)"),
        ("np.nanmean(X)", "np.nanmean has no rounded version in kernels"),
        ("np.concatenate((X, Y))", "np.concatenate has no rounded version in kernels"),
        ("np.sum(M, axis=0)", "np.sum with more than 1 argument"),
        ("np.maximum(X, X[0])", r"np\.full\(1, v, v\.dtype\)"),
        ("str(X[0])", r"str\(float\(x\)\)"),
    ):
        with pytest.raises(TypingError, match=words):
            compiled(source)(*operands())


SCALARS = """
X[1] + X
M * X[0]
X[0] - M
a * X + 1
X / a - X[0] * 2
2 * X + a * a * Y
X[3] <= X
X != a
y = X.copy()\\ny += a\\ny *= X[1]\\ny[:3] -= a\\nreturn y
""".strip().splitlines()


@pytest.mark.parametrize("mode", ["ties_to_even", "toward_zero"])
def test_a_soft_scalar_beside_a_whole_array_has_the_bits_of_python(mode):
    X, Y, _, M, _ = operands()
    lines = []
    for k, source in enumerate(SCALARS):
        *steps, last = source.replace("\\n", "\n").splitlines()
        lines += [*steps, f"r{k} = {last.removeprefix('return ')}"]
    names = ", ".join(f"r{k}" for k in range(len(SCALARS)))
    body = "\n    ".join([*lines, f"return {names}"])
    namespace = {}
    exec(f"def f(X, Y, M, a):\n    {body}", namespace)
    with sf.rounding(mode):
        got = numba.njit(namespace["f"])(X, Y, M, X[2])
        want = namespace["f"](X, Y, M, X[2])
    for mine, theirs in zip(got, want, strict=True):
        assert (as_bits(mine) == as_bits(theirs)).all()


def test_where_broadcasts_as_numpy_does():
    X, _, _, M, _ = operands()
    for source in (
        "np.where(M > 0, M, M[0])",
        "np.where(X[:3] > 0, M, 0.1)",
        "np.where(M > 0, M[:, :1], X[:3])",
    ):
        got, want = (compiled(source)(X, X, X, M, M), eval(source, {"np": np, "X": X, "M": M}))
        assert got.shape == want.shape
        assert (as_bits(got) == as_bits(want)).all()
    with pytest.raises(ValueError, match="broadcast"):
        compiled("np.where(X > 0, X, X[:3])")(*operands())


def test_a_format_that_is_no_constant_makes_no_array():
    with pytest.raises(TypingError, match="must be known when the kernel is compiled"):
        numba.njit(lambda fmt: np.zeros(2, fmt))(FMT)


def test_plain_operands_of_refused_functions_are_numbas():
    run = compiled(
        "np.concatenate((F, F)), np.nanmean(np.arange(4.0)), np.eye(2), np.sum(np.ones((2, 3)), axis=0)"
    )
    joined, mean, one, sums = run(*operands())
    assert joined.tolist() == operands()[4].tolist() * 2
    assert (mean, one.tolist(), sums.tolist()) == (1.5, [[1, 0], [0, 1]], [2, 2, 2])


def test_soft_scalars_have_a_hash():
    assert compiled("len({X[0], X[1], X[0]})")(*operands()) == 2
    assert (
        compiled("d = {X[0]: 1}\nd[X[1]] = 2\nd[X[0]] = 3\nreturn d[X[0]] + len(d)")(*operands())
        == 5
    )


def test_every_name_of_an_elementary_function_is_known():
    assert {math.exp, np.exp, math.asin, np.arcsin, np.arctan2} <= set(
        operators.ELEMENTARY_FUNCTIONS
    )
    assert set(operators.ELEMENTARY_FUNCTIONS.values()) > {
        "exp",
        "log",
        "sin",
        "tanh",
        "hypot",
        "cbrt",
    }


def test_arrays_of_a_global_format_round_to_nearest():
    @numba.njit
    def run(x):
        made = np.zeros(2, FMT)
        made[0] = 0.1
        return made[0] + x[0]

    x = sf.ones(1, FMT)
    assert float(run(x)) == float(sf.array(0.1, FMT) + 1)
    with sf.rounding("toward_zero"), pytest.raises(TypingError, match="dtype=x.dtype"):
        run(x)
