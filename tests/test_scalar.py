"""softfloat.scalar in users' kernels: the bits of the array functions, whatever the format, mode and way of passing."""

import contextlib
import math
import subprocess
import sys
import textwrap

import helpers
import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

import softfloat as sf
from softfloat import scalar as sc

SEED = 11
FORMATS = [helpers.package_format(fmt) for fmt in helpers.FORMATS] + [
    sf.float8_e8m0fnu,
    sf.Format(5, 0),
    sf.Format(4, 3, signed=False),
]
UNARY = ("quantize", "sqrt", "round_to_integral")
BINARY = ("add", "subtract", "multiply", "divide", "remainder")
GLOBAL = sf.bfloat16


def bits(x):
    return np.asarray(x, np.float64).view(np.uint64)


def assert_same_bits(got, want):
    wrong = np.flatnonzero(bits(got) != bits(want))
    assert wrong.size == 0, (wrong[:5], np.asarray(got)[wrong[:5]], np.asarray(want)[wrong[:5]])


def numbers(fmt, n, seed):
    """Values of the format, neighbours of its ties, and any float64 at all."""
    rng = np.random.default_rng(seed)
    edges = np.array([0.0, fmt.max, fmt.smallest_normal, fmt.smallest_subnormal, math.inf, 1.0])
    edges = np.concatenate([edges, -edges, [math.nan, 1.5, 5e-324, 1.7e308]])
    exponents = rng.integers(max(fmt.emin - 5, -1060), fmt.emax + 3, n)
    wide = np.ldexp(rng.standard_normal(n), np.minimum(exponents, 1022))
    near = np.ldexp(rng.standard_normal(n), rng.integers(-3, 3, n))
    x = np.concatenate([edges, wide, near])
    with np.errstate(all="ignore"):
        half = with_ties(x, fmt)
    x = np.concatenate([x, half])
    return rng.permutation(x)


def with_ties(x, fmt):
    """Ties of the format: numbers of one bit more, made in float64."""
    shift = 52 - fmt.mantissa_bits - 1
    if shift <= 0:
        return x
    return (x.view(np.uint64) >> np.uint64(shift) << np.uint64(shift)).view(np.float64)


def kernel(name, operands):
    """A user's kernel that applies one function; formats and modes are arguments."""
    f = getattr(sc, name)
    if operands == 1:

        @numba.njit
        def run(x, y, z, out, fmt, rounding, seed):
            for i in range(x.size):
                out[i] = f(x[i], fmt, rounding, sc.random_bits(seed, i))

    elif operands == 2:

        @numba.njit
        def run(x, y, z, out, fmt, rounding, seed):
            for i in range(x.size):
                out[i] = f(x[i], y[i], fmt, rounding, sc.random_bits(seed, i))

    else:

        @numba.njit
        def run(x, y, z, out, fmt, rounding, seed):
            for i in range(x.size):
                out[i] = f(x[i], y[i], z[i], fmt, rounding, sc.random_bits(seed, i))

    return run


CASES = [*((n, 1) for n in UNARY), *((n, 2) for n in BINARY), ("fma", 3)]


# By default the definition answers for most formats, as it does where flags are counted: of the other loops, which
# tests of their own compare with it, each format and mode would be compiled here.
LOOPS = (sf.binary16, sf.bfloat16, sf.binary64)


@pytest.mark.parametrize("by_loops", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("name", "operands"), CASES, ids=[n for n, _ in CASES])
def test_scalar_functions_have_the_bits_of_the_array_functions(name, operands, by_loops):
    run = kernel(name, operands)
    for k, fmt in enumerate(FORMATS):
        x, y, z = (numbers(fmt, 60, 3 * k + j) for j in range(3))
        if not fmt.signed and not fmt.has_nan:
            x, y, z = abs(x), abs(y), abs(z)
        for rounding in sf.Rounding:
            out = np.empty_like(x)
            run(x, y, z, out, fmt, rounding, SEED)
            random = rounding.value.startswith("stochastic")
            seed = {"seed": SEED} if random else {}
            definition = not by_loops and fmt not in LOOPS
            with sf.status() if definition else contextlib.nullcontext():
                want = getattr(sf, name)(*(x, y, z)[:operands], fmt, rounding=rounding, **seed)
            try:
                assert_same_bits(out, want)
            except AssertionError as error:
                raise AssertionError((fmt, str(rounding), error)) from None


ELEMENTARY_FORMATS = [sf.bfloat16, sf.float8_e4m3fn, sf.binary32, sf.Format(8, 40)]


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("exp", 1),
        ("power", 2),
        *(
            pytest.param(n, k, marks=pytest.mark.sweep)
            for n, k in sc.core.ELEMENTARY.items()
            if n not in ("exp", "power")
        ),
    ],
)
def test_elementary_functions_have_the_bits_of_the_array_functions(name, operands):
    run = kernel(name, operands)
    rng = np.random.default_rng(19)
    x, y = np.ldexp(rng.standard_normal((2, 100)), rng.integers(-12, 5, (2, 100)))
    x[:5] = [0.0, -0.0, math.inf, math.nan, 1.0]
    for fmt in ELEMENTARY_FORMATS:
        for rounding in list(sf.Rounding)[:7]:
            out = np.empty_like(x)
            run(x, y, x, out, fmt, rounding, SEED)
            seed = {"seed": SEED} if rounding is sf.Rounding.STOCHASTIC else {}
            want = getattr(sf, name)(*(x, y)[:operands], fmt, rounding=rounding, **seed)
            assert_same_bits(out, want)


@numba.njit
def encode_all(x, out, fmt, rounding):
    for i in range(x.size):
        out[i] = sc.encode(x[i], fmt, rounding)


@numba.njit
def decode_all(codes, out, fmt):
    for i in range(codes.size):
        out[i] = sc.decode(codes[i], fmt)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.label)
def test_codes_are_those_of_the_array_functions(fmt):
    x = numbers(fmt, 200, 5)
    x = x[~np.isnan(x)] if not fmt.has_nan else x
    x = abs(x) if not fmt.signed else x
    for rounding in ("ties_to_even", "toward_positive"):
        codes = np.empty(x.size, np.int64)
        encode_all(x, codes, fmt, sf.Rounding(rounding))
        want = sf.encode(x, fmt, rounding=rounding)
        assert (codes.astype(want.dtype) == want).all()
        back = np.empty(x.size)
        decode_all(codes, back, fmt)
        assert_same_bits(back, sf.decode(want, fmt).astype(np.float64))


def test_every_small_code_decodes_as_in_arrays():
    for fmt in [f for f in FORMATS if f.bits <= 8]:
        codes = np.arange(1 << fmt.bits)
        back = np.empty(codes.size)
        decode_all(codes, back, fmt)
        with np.errstate(invalid="ignore"):  # signaling NaNs
            want = sf.decode(codes.astype(np.uint8), fmt).astype(np.float64)
        # A NaN code may have a sign that the canonical NaN has not.
        assert ((bits(back) == bits(want)) | (np.isnan(back) & np.isnan(want))).all()


def test_a_format_may_be_global_argument_or_literal():
    @numba.njit
    def by_global(x):
        return sc.add(x, 0.001, GLOBAL, sf.Rounding.TOWARD_POSITIVE)

    @numba.njit
    def by_name(x):
        return sc.add(x, 0.001, "bfloat16", "toward_positive")

    @numba.njit
    def by_argument(x, fmt, rounding):
        return sc.add(x, 0.001, fmt, rounding)

    want = float(sf.add(1.0, 0.001, "bfloat16", rounding="toward_positive"))
    assert want != 1.0
    up = sf.Rounding.TOWARD_POSITIVE
    for got in (by_global(1.0), by_name(1.0), by_argument(1.0, GLOBAL, up)):
        assert got == want
    assert sc.add(1.0, 0.001, GLOBAL, "toward_positive") == want  # in plain Python


def test_one_compilation_serves_every_format_and_mode():
    @numba.njit
    def run(x, fmt, rounding):
        return sc.quantize(x, fmt, rounding)

    for fmt in FORMATS[:6]:
        for rounding in sf.Rounding:
            run(1.3, fmt, rounding)
    assert len(run.signatures) == 1


def test_a_branch_may_choose_between_global_formats():
    other = sf.float8_e5m2

    @numba.njit
    def run(x, narrow):
        fmt = other if narrow else GLOBAL
        return sc.quantize(x, fmt)

    assert run(1.3, True) == float(sf.quantize(1.3, other))
    assert run(1.3, False) == float(sf.quantize(1.3, GLOBAL))


@pytest.mark.parametrize("saturate", [False, True, "finite", "propagate"])
def test_saturation_is_a_literal(saturate):
    @numba.njit
    def run(x, fmt):
        return sc.quantize(x, fmt, "ties_to_even", 0, saturate)

    for fmt in (sf.float8_e4m3fn, sf.float8_e5m2, sf.bfloat16):
        for x in (1e30, -1e39, math.inf, -math.inf, 1.3):
            assert_same_bits(run(x, fmt), sf.quantize(x, fmt, saturate=saturate))


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("count", [1, 8, 24, 32])
def test_stochastic_variants_and_numbers_of_bits(variant, count):
    @numba.njit
    def run(x, out, fmt, seed):
        for i in range(x.size):
            word = sc.random_bits(seed, i, 3, count)
            out[i] = sc.multiply(x[i], 1.1, fmt, "SR", word, False, count, variant)

    x = np.random.default_rng(0).standard_normal(300)
    for fmt in (sf.bfloat16, sf.float8_e4m3fn, sf.tf32):
        out = np.empty_like(x)
        run(x, out, fmt, SEED)
        given = {"seed": SEED, "stream": 3, "random_bits": count, "variant": variant}
        assert_same_bits(out, sf.multiply(x, 1.1, fmt, rounding="stochastic", **given))


def test_compare_orders_numbers():
    @numba.njit
    def run(x, y):
        return sc.compare(x, y)

    for x, y, want in ((1, 2, -1), (2.0, 1.0, 1), (-0.0, 0.0, 0), (math.nan, 1.0, 2)):
        assert run(x, y) == sc.compare(x, y) == want


def test_what_cannot_work_says_so():
    @numba.njit
    def complex_operand(x, fmt):
        return sc.add(x, 1j, fmt)

    @numba.njit
    def wrong_name(x):
        return sc.add(x, 1.0, "bfloat17")

    @numba.njit
    def wrong_mode(x, fmt):
        return sc.add(x, 1.0, fmt, "upwards")

    @numba.njit
    def mode_at_run_time(x, fmt, rounding):
        return sc.add(x, 1.0, fmt, rounding)

    @numba.njit
    def wrong_saturation(x, fmt):
        return sc.quantize(x, fmt, "nearest", 0, "clamp")

    with pytest.raises(TypingError, match="y must be a float or an integer"):
        complex_operand(1.0, GLOBAL)
    with pytest.raises(TypingError, match="bfloat17"):
        wrong_name(1.0)
    with pytest.raises(TypingError, match="unknown rounding 'upwards'"):
        wrong_mode(1.0, GLOBAL)
    with pytest.raises(TypingError, match="rounding must be a softfloat.Rounding"):
        mode_at_run_time(1.0, GLOBAL, "toward_zero")
    with pytest.raises(TypingError, match="saturate must be one of"):
        wrong_saturation(1.0, GLOBAL)


def test_fastmath_of_the_caller_changes_nothing():
    def body(x, y, out, fmt, rounding):
        for i in range(x.size):
            out[i] = sc.add(sc.multiply(x[i], y[i], fmt, rounding), x[i], fmt, rounding)

    x, y = numbers(GLOBAL, 500, 1), numbers(GLOBAL, 500, 2)
    for rounding in (sf.Rounding.TOWARD_ZERO, sf.Rounding.TIES_TO_EVEN):
        product = sf.multiply(x, y, GLOBAL, rounding=rounding)
        want = sf.add(product, x, GLOBAL, rounding=rounding)
        for fast in (True, False):
            out = np.empty_like(x)
            numba.njit(fastmath=fast)(body)(x, y, out, GLOBAL, rounding)
            assert_same_bits(out, want)


MODULE = """
import numba, numpy as np, softfloat as sf
from softfloat import scalar as sc
FMT = sf.float8_e5m2

@numba.njit(cache=True)
def run(x, fmt, rounding):
    return sc.add(x, 1.0, fmt, rounding) + sc.quantize(x, FMT, "toward_zero")

print(run(0.3, sf.bfloat16, sf.Rounding.TO_ODD), sum(run.stats.cache_hits.values()))
"""


def test_the_users_disk_cache_works_across_processes(tmp_path):
    path = tmp_path / "user_module.py"
    path.write_text(textwrap.dedent(MODULE))
    shown = [
        subprocess.run(
            [sys.executable, "-c", "import user_module"],
            cwd=tmp_path, check=True, capture_output=True, text=True,
            env={**environment(), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    want = float(sf.add(0.3, 1.0, "bfloat16", rounding="to_odd"))
    want += float(sf.quantize(0.3, "float8_e5m2", rounding="toward_zero"))
    assert [float(line[0]) for line in shown] == [want, want]
    assert [line[1] for line in shown] == ["0", "1"]


def environment():
    """This process's environment, with the package on the path."""
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": str(Path(sf.__file__).resolve().parents[1])}
