"""SoftArrays in unmodified compiled kernels: every operation has the bits of the array functions."""

import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import prange
from numba.core.errors import TypingError

import softfloat as sf
from softfloat.numba_types.forms import rounder
from softfloat.numba_types.kinds import Rules, SoftFloatType
from softfloat.rounding import MODES

EVEN, AWAY, ZERO, UP, DOWN, ODD = list(sf.Rounding)[:6]
# Every way an operation can be done: float32 and float64, with and without error terms, and the definition.
CASES = [
    (sf.binary16, EVEN),
    (sf.binary16, AWAY),
    (sf.binary16, DOWN),
    (sf.bfloat16, EVEN),
    (sf.bfloat16, ZERO),
    (sf.bfloat16, UP),
    (sf.float8_e4m3fn, EVEN),
    (sf.float8_e4m3fn, ODD),
    (sf.float8_e5m2, DOWN),
    (sf.float8_e4m3fnuz, EVEN),
    (sf.float8_e4m3fnuz, DOWN),
    (sf.float4_e2m1fn, EVEN),
    (sf.tf32, AWAY),
    (sf.binary32, EVEN),
    (sf.binary32, ZERO),
    (sf.binary64, EVEN),
    (sf.binary64, DOWN),
    (sf.dlfloat16, EVEN),
    (sf.p3109(8, 3), UP),
    (sf.Format(10, 30), EVEN),
    (sf.Format(6, 9, subnormals="grid"), DOWN),
    (sf.Format(8, 7, subnormals="ftz"), EVEN),
    (sf.Format(4, 3, signed=False), EVEN),
    (sf.Format(5, 0), EVEN),
]
IDS = [f"{fmt.label}-{mode}" for fmt, mode in CASES]
DEFAULT = {
    (sf.binary16, EVEN), (sf.bfloat16, EVEN), (sf.bfloat16, ZERO), (sf.float8_e4m3fn, ODD), (sf.float8_e4m3fnuz, DOWN),
    (sf.binary32, ZERO), (sf.binary64, EVEN), (sf.dlfloat16, EVEN),
}  # fmt: skip


def thinned(cases):
    """Cases as parameters: those not in DEFAULT are long."""
    long = pytest.mark.sweep
    return [pytest.param(*c, marks=() if c in DEFAULT else long) for c in cases]


def bits(a):
    values = a.to_numpy() if isinstance(a, sf.SoftArray) else np.asarray(a)
    return values.view(f"u{values.dtype.itemsize}")


def assert_same(got, want):
    """Equal format, shape and bits."""
    if isinstance(want, sf.SoftArray):
        assert got.format == want.format
    assert np.shape(got) == np.shape(want)
    wrong = np.atleast_1d(bits(got) != bits(want))
    assert not wrong.any(), (np.argwhere(wrong)[:5], got, want)


def assert_rows(got, want):
    for k, (row, expected) in enumerate(zip(got, want, strict=True)):
        try:
            assert_same(row, expected)
        except AssertionError as error:
            raise AssertionError(f"operation {k}: {error}") from None


def values(fmt, n, seed):
    """A SoftArray of n values of all sizes, with every special one."""
    rng = np.random.default_rng(seed)
    low = max(fmt.emin - fmt.mantissa_bits, -1070)
    x = np.ldexp(rng.standard_normal(n), rng.integers(low, fmt.emax + 2, n))
    x[: n // 2] = rng.standard_normal(n // 2) * 3
    x[:6] = [0.0, -0.0, fmt.max, fmt.smallest_subnormal, math.inf, math.nan]
    x = rng.permutation(x)
    return sf.array(x if fmt.signed else np.abs(x), fmt)


@numba.njit
def every_operation(x, y, out):
    for i in range(x.shape[0]):
        a = x[i]
        b = y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a / b
        out[4, i] = np.sqrt(a)
        out[5, i] = sf.fma(a, b, x[0], x.dtype)
        out[6, i] = a * 0.1
        out[7, i] = 3 - a
        out[8, i] = np.maximum(a, b)
        out[9, i] = np.minimum(a, b)
        out[10, i] = np.square(a)
        out[11, i] = a**-1


@pytest.mark.parametrize(("fmt", "mode"), thinned(CASES), ids=IDS)
def test_operations_have_the_bits_of_the_array_functions(fmt, mode):
    x, y = values(fmt, 400, 1), values(fmt, 400, 2)
    got = sf.zeros((12, 400), fmt)
    with sf.rounding(mode):
        every_operation(x, y, got)
        want = [
            x + y, x - y, x * y, x / y, np.sqrt(x), None, x * 0.1, 3 - x,
            np.maximum(x, y), np.minimum(x, y), np.square(x), 1 / x,
        ]  # fmt: skip
    v, w = x.to_numpy(), y.to_numpy()
    want[5] = sf.array(sf.fma(v, w, v[0], fmt, rounding=mode), fmt)
    assert_rows(got, want)


@numba.njit
def unusual_operations(x, y, out):
    for i in range(x.shape[0]):
        a = x[i]
        b = y[i]
        out[0, i] = a % b
        out[1, i] = a // b
        out[2, i] = np.fmod(a, b)
        out[3, i] = -a
        out[4, i] = abs(a)
        out[5, i] = np.floor(a)
        out[6, i] = np.ceil(a)
        out[7, i] = np.trunc(a)
        out[8, i] = np.rint(a)
        out[9, i] = np.sign(a)
        out[10, i] = np.copysign(a, b)
        out[11, i] = np.fmax(a, b)
        out[12, i] = np.fmin(a, b)


UNUSUAL = [c for c in CASES if c[0].exponent_bits < 10 and c[0].signed and c[0] != sf.binary64]


@pytest.mark.parametrize(
    ("fmt", "mode"), thinned(UNUSUAL), ids=lambda v: getattr(v, "label", str(v))
)
def test_remainders_signs_and_integral_values_are_those_of_arrays(fmt, mode):
    x, y = values(fmt, 400, 3), values(fmt, 400, 4)
    got = sf.zeros((13, 400), fmt)
    with sf.rounding(mode), np.errstate(all="ignore"):
        unusual_operations(x, y, got)
        want = [
            x % y, x // y, np.fmod(x, y), -x, abs(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x),
            np.sign(x), np.copysign(x, y), np.fmax(x, y), np.fmin(x, y),
        ]  # fmt: skip
    for k, expected in enumerate(want):
        # The sign of a NaN means something in one kind of format only, and there not after a division by zero.
        if k == 2 or (k in (3, 4, 10) and fmt.specials != "fn"):
            nan = np.isnan(expected)
            expected[nan] = np.nan
    assert_rows(got, want)


@numba.njit
def compare(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = x[i] < y[i]
        out[1, i] = x[i] <= y[i]
        out[2, i] = x[i] == y[i]
        out[3, i] = x[i] != y[i]
        out[4, i] = x[i] < 0.1
        out[5, i] = 0.1 == x[i]
        out[6, i] = x[i] >= 1
        out[7, i] = x[i] > 1e300
        out[8, i] = -1e300 < x[i]
        out[9, i] = math.isnan(x[i])
        out[10, i] = math.isinf(x[i])
        out[11, i] = bool(x[i])
        out[12, i] = not x[i]
        out[13, i] = True if x[i] else False


@pytest.mark.parametrize(
    "fmt", [sf.binary16, sf.bfloat16, sf.float8_e4m3fn, sf.float4_e2m1fn], ids=lambda f: f.label
)
def test_comparisons_round_numbers_first_and_order_as_arrays_do(fmt):
    x, y = values(fmt, 300, 5), values(fmt, 300, 6)
    x[:40] = 0.1
    got = np.zeros((14, 300), bool)
    compare(x, y, got)
    v = x.to_numpy()
    want = [
        x < y, x <= y, x == y, x != y, x < 0.1, x == 0.1, x >= 1, x > 1e300, x > -1e300,
        np.isnan(v), np.isinf(v), v != 0, v == 0, v != 0,
    ]  # fmt: skip
    assert got[5].any()
    for row, expected in zip(got, want, strict=True):
        assert (row == expected).all()


@pytest.mark.parametrize(
    "fmt",
    [
        sf.bfloat16,
        sf.float8_e5m2,
        sf.binary32,
        sf.Format(8, 30),
        sf.Format(10, 50),
        sf.Format(9, 1),
        sf.Format(3, 50),
    ],
    ids=lambda f: f.label,
)
def test_truncation_by_one_sum_is_the_definition(fmt):
    round_one = rounder(SoftFloatType(fmt, Rules(MODES[ZERO])), np.dtype(np.float64))

    @numba.njit
    def run(x, out):
        for i in range(x.size):
            out[i] = round_one(x[i], np.uint64(0))

    rng = np.random.default_rng(17)
    n = 20000
    low = max(fmt.emin - fmt.mantissa_bits - 3, -1070)
    x = np.ldexp(rng.standard_normal(n), rng.integers(low, fmt.emax + 2, n))
    on_grid = sf.quantize(x, fmt, rounding=ZERO).astype(np.float64)
    beside = np.nextafter(on_grid, rng.choice([-np.inf, np.inf], n))
    x = np.choose(rng.integers(0, 3, n), [x, on_grid, beside])
    x[:8] = [0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324, 1.7e308, fmt.smallest_subnormal]
    out = np.empty(n)
    run(x, out)
    with sf.status():  # the definition
        want = sf.quantize(x, fmt, rounding=ZERO)
    assert_same(out, want)


@numba.njit
def beside_all(x, y, out):
    for i in range(x.size):
        for j in range(y.size):
            out[0, i, j] = x[i] + y[j]
            out[1, i, j] = x[i] - y[j]
            out[2, i, j] = x[i] * y[j]
            out[3, i, j] = x[i] / y[j]


@pytest.mark.parametrize(
    "fmt", [sf.bfloat16, sf.Format(8, 6), sf.Format(8, 1)], ids=lambda f: f.label
)
@pytest.mark.parametrize("mode", [EVEN, ZERO], ids=str)
def test_arithmetic_in_float32_with_its_exponents_is_the_definition(fmt, mode):
    assert SoftFloatType(fmt, Rules(MODES[mode])).number is numba.float32
    everything = sf.from_codes(np.arange(1 << fmt.bits, dtype=fmt.code_dtype), fmt)
    step = max(1, everything.size // 40)
    some = np.concatenate(
        [everything[3::step], sf.array([0.0, -0.0, fmt.max, -math.inf, math.nan], fmt)]
    )
    got = sf.empty((4, some.size, everything.size), fmt)
    with sf.rounding(mode):
        beside_all(some, everything, got)
    v, w = some.to_numpy()[:, None], everything.to_numpy()
    with sf.status():  # the definition
        for row, function in zip(got, (sf.add, sf.subtract, sf.multiply, sf.divide), strict=True):
            assert_same(row.to_numpy(), function(v, w, fmt, rounding=mode))


# ---------------------------------------------------------------- accumulators and literals
def sequential(x, start=0.0):
    s = sf.array(start, x.format)
    for v in x:
        s = s + v
    return s


def zero_start(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def integer_start(x):
    s = 0
    for v in x:
        s = s + v
    return s


def start_from_the_array(x):
    s = x[0] * 0
    for i in range(x.size):
        s += x[i]
    return s


@pytest.mark.parametrize(
    "kernel", [zero_start, integer_start, start_from_the_array], ids=lambda k: k.__name__
)
@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary16, sf.float8_e5m2], ids=lambda f: f.label)
def test_accumulators_round_every_step(kernel, fmt):
    x = sf.array(np.random.default_rng(7).standard_normal(500), fmt)
    got = numba.njit(kernel)(x)
    assert isinstance(got, sf.SoftArray)
    assert got.shape == ()
    assert_same(got, sequential(x))


def test_an_accumulator_starts_as_the_nearest_value():
    @numba.njit
    def run(x):
        s = 0.1
        for v in x:
            s += v
        return s

    x = sf.array([0.001] * 10, "bfloat16")
    assert_same(run(x), sequential(x, 0.1))


def test_a_long_sum_stagnates_as_the_format_says():
    ones = sf.ones(400, "bfloat16")
    assert float(numba.njit(zero_start)(ones)) == 256.0


def test_integers_beyond_float64_are_rounded_once():
    fmt = sf.Format(8, 22)

    @numba.njit
    def run(x, n):
        return x[0] * 0 + n

    x = sf.ones(1, fmt)
    for n in (2**53 + 1, 2**62 + 2**39, 2**62 + 2**39 + 1, -(2**62) - 2**39 - 1, 2**63 - 1):
        assert float(run(x, n)) == float(sf.quantize(n, fmt)), n


# ---------------------------------------------------------------- everything else a kernel does
def calls_helpers(x):
    return twice(x[0]) + pick(x, 1)


@numba.njit
def twice(v):
    return 2 * v


@numba.njit
def pick(x, i):
    return x[i] if x[i] > 0 else 0.0


def test_helpers_branches_loops_closures_and_containers():
    x = sf.array([1.5, -2.25, 0.3, 4.0], "bfloat16")
    assert float(numba.njit(calls_helpers)(x)) == 3.0

    @numba.njit
    def closure(x, k):
        def scaled(v):
            return v * k

        return scaled(x[0])

    @numba.njit
    def halve(x):
        v = x[3]
        n = 0
        while v > 0.1:
            v *= 0.5
            n += 1
        return n

    @numba.njit
    def containers(x):
        kept = [x[0], x[1]]
        kept.append(0.1)
        pair = (x[2], 1.0)
        return kept[2] * pair[0], len(kept)

    @numba.njit
    def factorial(v):
        return v if v <= 1 else v * factorial(v - 1)

    assert float(closure(x, 3.0)) == 4.5
    assert halve(x) == 6
    product, length = containers(x)
    assert_same(product, sf.array(0.1, "bfloat16") * x[2])
    assert length == 3
    assert float(factorial(x[3])) == 24.0


def test_two_dimensions_slices_and_layouts():
    @numba.njit
    def jacobi(u, v):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    base = sf.array(np.random.default_rng(8).standard_normal((12, 14)), "binary16")
    for u in (
        base,
        base.T,
        base[::2, 1:],
        sf.array(np.asfortranarray(base.to_numpy()), "binary16"),
    ):
        v = sf.zeros(u.shape, "binary16")
        jacobi(u, v)
        want = sf.zeros(u.shape, "binary16")
        want[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        assert_same(v, want)


def test_a_kernel_writes_into_a_view_of_the_caller():
    @numba.njit
    def fill(x):
        x[1:3] = 0.1
        x[3] += 1
        x[:1] = x[3:4]

    x = sf.zeros(8, "bfloat16")
    fill(x[::2])
    want = sf.array([1, 0, 0.1, 0, 0.1, 0, 1, 0], "bfloat16")
    assert_same(x, want)


def test_read_only_arrays_are_read_only_in_kernels():
    x = sf.zeros(3, "bfloat16")
    x._values.flags.writeable = False

    @numba.njit
    def write(x):
        x[0] = 1.0

    with pytest.raises(TypingError, match="[Rr]ead"):
        write(x)
    assert float(numba.njit(zero_start)(x)) == 0.0


def test_zero_dimensional_arrays_are_scalars():
    @numba.njit
    def run(v, x):
        return v * x[0]

    x = sf.array([3.0], "bfloat16")
    assert float(run(sf.array(0.5, "bfloat16"), x)) == 1.5
    assert float(run(x[0], x)) == 9.0


def test_rounding_of_the_block_is_that_of_the_call():
    @numba.njit
    def run(x):
        return x[0] / 3

    x = sf.ones(1, "bfloat16")
    for mode in (EVEN, UP, DOWN, ZERO, ODD):
        with sf.rounding(mode):
            assert_same(run(x), x[0] / 3)
    with sf.rounding("nearest", saturate=True):
        big = sf.array([3e38], "bfloat16")
        assert float(numba.njit(lambda x: x[0] * x[0])(big)) == sf.bfloat16.max
    assert math.isinf(float(numba.njit(lambda x: x[0] * x[0])(big)))


def test_prange_maps_have_the_bits_of_the_serial_loop():
    def body(x, y, out):
        for i in prange(x.shape[0]):
            out[i] = 0.3 * x[i] + y[i]

    x, y = values(sf.bfloat16, 5000, 9), values(sf.bfloat16, 5000, 10)
    with np.errstate(all="ignore"):
        want = 0.3 * x + y
    threads = numba.get_num_threads()
    for parallel, count in ((False, 1), (True, 1), (True, threads)):
        numba.set_num_threads(count)
        out = sf.zeros(5000, "bfloat16")
        numba.njit(parallel=parallel)(body)(x, y, out)
        assert_same(out, want)
    numba.set_num_threads(threads)


def test_prange_reductions_are_refused():
    @numba.njit(parallel=True)
    def run(x):
        s = 0.0
        for i in prange(x.shape[0]):
            s += x[i]
        return s

    with pytest.raises(TypingError, match="depend on the number of threads"):
        run(sf.ones(8, "bfloat16"))


# ---------------------------------------------------------------- stochastic rounding
def stochastic_axpy(seed, a, x, y, out):
    for i in prange(x.shape[0]):
        sf.stream(seed, i)
        out[i] = a * x[i] + y[i]


@pytest.mark.parametrize("fmt", [sf.bfloat16, sf.binary16, sf.float8_e5m2], ids=lambda f: f.label)
@pytest.mark.parametrize("bits_", [24, 8])
def test_streams_give_the_words_of_the_array_functions(fmt, bits_):
    x, y = values(fmt, 60, 11), values(fmt, 60, 12)
    out = sf.zeros(60, fmt)
    with sf.rounding("stochastic", seed=0, random_bits=bits_):
        numba.njit(stochastic_axpy)(7, 0.3, x, y, out)
    options = {"rounding": "stochastic", "seed": 7, "random_bits": bits_}
    a, v, w = float(sf.array(0.3, fmt)), x.to_numpy(), y.to_numpy()
    want = []
    for i in range(60):
        product = sf.multiply(a, v[i : i + 1], fmt, stream=i, offset=0, **options)
        want.append(sf.add(product, w[i : i + 1], fmt, stream=i, offset=1, **options)[0])
    assert_same(out, sf.array(np.array(want), fmt))


def test_streams_do_not_depend_on_threads_and_differ_by_seed():
    x, y = values(sf.bfloat16, 3000, 13), values(sf.bfloat16, 3000, 14)
    results = {}
    threads = numba.get_num_threads()
    with sf.rounding("stochastic", seed=0):
        for parallel, count, seed in (
            (False, 1, 7),
            (True, 1, 7),
            (True, threads, 7),
            (True, threads, 8),
        ):
            numba.set_num_threads(count)
            out = sf.zeros(3000, "bfloat16")
            numba.njit(parallel=parallel)(stochastic_axpy)(seed, 0.3, x, y, out)
            results[parallel, count, seed] = bits(out)
    numba.set_num_threads(threads)
    first = results[False, 1, 7]
    assert (results[True, 1, 7] == first).all()
    assert (results[True, threads, 7] == first).all()
    assert (results[True, threads, 8] != first).mean() > 0.2


def test_stochastic_operations_without_a_stream_are_refused():
    x = sf.ones(4, "bfloat16")

    @numba.njit(parallel=True)
    def outside(seed, x, out):
        sf.stream(seed, 0)
        for i in prange(x.shape[0]):
            out[i] = x[i] + x[i]

    with sf.rounding("stochastic", seed=0):
        for kernel in (lambda x: x[0] + x[1], lambda x: x + x, lambda x: np.sqrt(x[0])):
            with pytest.raises(TypingError, match="Call softfloat.stream"):
                numba.njit(kernel)(x)
        with pytest.raises(TypingError, match="Call softfloat.stream"):
            outside(1, x, sf.zeros(4, "bfloat16"))
        with pytest.raises(TypingError, match="no stochastic rounding in kernels"):
            numba.njit(lambda x: x[0] % 0.3)(x)
    with pytest.raises(RuntimeError, match="works in compiled functions"):
        sf.stream(1, 2)


# ---------------------------------------------------------------- the user's flags and cache
def fused(x, y, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * y[i] + x[i] - y[i] / x[i]
        if math.isnan(x[i]):
            out[i] = 0.5


@pytest.mark.parametrize("fast_first", [True, False])
@pytest.mark.parametrize(
    ("exponent_bits", "mantissa_bits", "mode"),
    [(5, 9, EVEN), (8, 6, ZERO), (8, 20, DOWN)],
)
def test_fastmath_of_the_user_changes_nothing(exponent_bits, mantissa_bits, mode, fast_first):
    # A bias of its own, so that nothing of ours was compiled for this format before.
    fmt = sf.Format(exponent_bits, mantissa_bits, bias=(1 << (exponent_bits - 1)) - 2 - fast_first)
    x, y = values(fmt, 3000, 15), values(fmt, 3000, 16)
    with sf.rounding(mode), np.errstate(all="ignore"):
        want = x * y + x - y / x
        want[np.isnan(x)] = 0.5
        for fast in (fast_first, not fast_first, fast_first):
            out = sf.zeros(3000, fmt)
            numba.njit(fastmath=fast)(fused)(x, y, out)
            assert_same(out, want)


MODULE = """
import numba, softfloat as sf

@numba.njit(cache=True)
def run(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += 0.3 * x[i] + y[i]
    return s

x = sf.array([0.1, 0.7, 3.0], "bfloat16")
with sf.rounding("toward_zero"):
    result = run(x, x)
print(float(result), sum(run.stats.cache_hits.values()))
"""


def test_the_users_disk_cache_works_across_processes(tmp_path):
    (tmp_path / "user_module.py").write_text(textwrap.dedent(MODULE))
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(sf.__file__).resolve().parents[1]),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", "import user_module"]
    options = {
        "cwd": tmp_path,
        "check": True,
        "capture_output": True,
        "text": True,
        "env": environment,
    }
    shown = [subprocess.run(command, **options).stdout.split() for _ in range(2)]
    x = sf.array([0.1, 0.7, 3.0], "bfloat16")
    with sf.rounding("toward_zero"):
        want = sequential(0.3 * x + x)
    assert [float(line[0]) for line in shown] == [float(want)] * 2
    assert [line[1] for line in shown] == ["0", "1"]


# ---------------------------------------------------------------- what is refused
def test_formats_that_kernels_have_not_say_so():
    fixed = sf.array([0.5], sf.FixedPoint(3, 4))
    bare = sf.array([0.5], sf.Format(3, 2, signed=False, specials="finite"))
    for x, message in ((fixed, "floating-point formats"), (bare, "neither sign nor NaN")):
        with pytest.raises(TypingError, match=message):
            numba.njit(zero_start)(x)


GLOBAL = sf.ones(3, "bfloat16")


def test_global_arrays_and_parallel_array_expressions_say_so():
    x = sf.ones(3, "bfloat16")
    with pytest.raises(TypingError, match="as an argument"):
        numba.njit(lambda x: x[0] * GLOBAL[0])(x)
    with pytest.raises(TypingError, match="write a prange loop"):
        numba.njit(parallel=True)(lambda x: x + x)(x)


def test_two_formats_do_not_mix():
    x, y = sf.ones(3, "bfloat16"), sf.ones(3, "binary16")
    kernels = [
        lambda x, y: x[0] + y[0],
        lambda x, y: x[0] < y[0],
        lambda x, y: max(x[0], y[0]),
        lambda x, y: x * y,
    ]
    for kernel in kernels:
        with pytest.raises(
            TypingError, match=r"cannot mix softfloat\(bfloat16\) and softfloat\(binary16\)"
        ):
            numba.njit(kernel)(x, y)
    assert_same(numba.njit(lambda x, y: x[0] + y[0].astype(x.dtype))(x, y), sf.array(2, "bfloat16"))


def test_the_type_is_cached_by_meaning_and_shows_its_rules():
    assert SoftFloatType(sf.bfloat16) is SoftFloatType(sf.Format(8, 7))
    with sf.rounding("toward_zero", saturate=True):
        assert (
            str(sf.ones((), "bfloat16")._numba_type_)
            == "softfloat(bfloat16, toward_zero, saturate=1)"
        )


def test_values_helper_covers_every_special():
    x = values(sf.binary16, 100, 1).to_numpy()
    assert np.isnan(x).any() and np.isinf(x).any() and (x == 0).any()
