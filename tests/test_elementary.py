"""Elementary functions against MPFR: the real result, rounded once, in every mode."""

import functools

import elementary_reference as mpfr
import numpy as np
import oracle
import pytest
from helpers import (
    NAMED,
    all_codes,
    assert_matches_oracle,
    assert_same_bits,
    package_format,
    some_codes,
    values_of,
)

import softfloat as sf

FUNCTIONS = [*mpfr.UNARY, *mpfr.BINARY]
NARROW = {name: NAMED[name] for name in ("e5m2", "e4m3", "e4m3fn", "e4m3fnuz")}
MIDDLE = {"binary16": NAMED["binary16"], "bfloat16": NAMED["bfloat16"], "e6m9": oracle.Format(6, 9)}
WIDE = {"binary32": NAMED["binary32"], "binary64": NAMED["binary64"]}
MODES = [
    *({"rounding": mode} for mode in oracle.ROUNDINGS),
    {"rounding": "stochastic", "seed": 5},
    {"rounding": "stochastic", "seed": 6, "variant": "B", "random_bits": 5},
    {"rounding": "stochastic", "seed": 7, "variant": "C", "random_bits": 32},
    {"rounding": "stochastic_equal", "seed": 8},
]
HARD = [  # near midpoints of binary64, or near multiples of pi/2, for one function or another
    *(float.fromhex(x) for x in ("0x1.9E9CBBFD6080Bp-31", "0x1.62A88613629B5p+678")),
    *(float.fromhex(x) for x in ("0x1.E0000000001C2p-20", "0x1.8000000000009p-23")),
    *(float.fromhex(x) for x in ("0x1.DFFFFFFFFFF1Fp-22", "0x1.921FB54442D18p+0")),
    *(6381956970095103 * 2.0**797, 2.0**1023, 1e22, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 0.5, 0.25),
    *(2.0**-1074, 2.0**-1022, 2.0**-540, 2.0**-93, 2.0**-60, 2.0**-47, 2.0**-46, 2.0**-26),
    *(709.78, 745.13, -745.14, 3.0, 8.0, 27.0, 10.0, 100.0, 1e15, 1.5, 2.5, 1e300, 88.7, -103.9),
]


@functools.cache
def references(name, operands):
    """MPFR's results at tuples of floats, as an object array, and the counts of invalid and divide_by_zero."""
    found = [mpfr.reference(name, *row) for row in zip(*operands, strict=True)]
    results = np.empty(len(found), object)
    results[:] = [result for result, _, _ in found]
    return results, sum(bool(i) for _, i, _ in found), sum(bool(p) for _, _, p in found)


def check(name, operands, fmt, modes):
    """A function at operand arrays in all these modes, bit for bit."""
    results, invalid, poles = references(name, tuple(tuple(map(float, x)) for x in operands))
    for options in modes:
        with sf.status() as status:
            got = getattr(sf, name)(*operands, fmt, **options)
        with sf.status() as plain:
            expected = sf.quantize(results, fmt, out=np.empty(got.shape, got.dtype), **options)
        assert_same_bits(got, expected, *operands)
        assert (status.invalid, status.divide_by_zero) == (invalid, poles)
        for flag in ("inexact", "underflow", "overflow"):
            assert getattr(status, flag) == getattr(plain, flag), flag


def sample(fmt, n, seed):
    with np.errstate(invalid="ignore"):
        return values_of(fmt, some_codes(fmt, n, seed=seed)).astype(np.float64)


def operands_for(name, fmt, n, seed=1):
    """Values of every kind, half of them of magnitudes where the functions do something."""
    arity = 1 if name in mpfr.UNARY else 2
    rng = np.random.default_rng(seed)
    arrays = []
    for i in range(arity):
        drawn = sample(fmt, n, seed + i)
        usual = rng.standard_normal(n) * 2.0 ** rng.integers(-8, 6, n)
        mixed = np.where(rng.random(n) < 0.5, drawn, usual)
        arrays.append(np.asarray(sf.quantize(mixed, package_format(fmt)), np.float64))
    return arrays


@pytest.mark.parametrize("name", mpfr.UNARY)
def test_every_8_bit_operand_is_rounded_correctly_in_every_mode(name):
    for fmt in NARROW.values():
        check(name, [values_of(fmt, all_codes(fmt))], package_format(fmt), MODES)


@pytest.mark.parametrize("name", mpfr.BINARY)
def test_pairs_of_8_bit_operands_are_rounded_correctly(name):
    for fmt in (NARROW["e5m2"], NARROW["e4m3fn"]):
        x = values_of(fmt, all_codes(fmt))
        keep = np.random.default_rng(3).permutation(x.size**2)[:1500]
        check(
            name, [np.repeat(x, x.size)[keep], np.tile(x, x.size)[keep]], package_format(fmt), MODES
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("fmt", NARROW)
@pytest.mark.parametrize("name", mpfr.BINARY)
def test_all_pairs_of_8_bit_operands_are_rounded_correctly(name, fmt):
    x = values_of(NARROW[fmt], all_codes(NARROW[fmt]))
    operands = [np.repeat(x, x.size), np.tile(x, x.size)]
    check(name, operands, package_format(NARROW[fmt]), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_16_bit_operands_are_rounded_correctly(name):
    for fmt in MIDDLE.values():
        check(name, operands_for(name, fmt, 300), package_format(fmt), MODES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fmt", MIDDLE)
@pytest.mark.parametrize("name", mpfr.UNARY)
def test_every_16_bit_operand_is_rounded_correctly_in_every_mode(name, fmt):
    fmt = MIDDLE[fmt]
    check(name, [values_of(fmt, all_codes(fmt))], package_format(fmt), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wide_operands_are_rounded_correctly(name):
    for fmt in WIDE.values():
        check(name, operands_for(name, fmt, 250), package_format(fmt), MODES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fmt", WIDE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_wide_operands_are_rounded_correctly(name, fmt):
    check(name, operands_for(name, WIDE[fmt], 100_000, seed=9), package_format(WIDE[fmt]), MODES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hard_tiny_and_huge_operands_are_rounded_correctly(name):
    x = np.array([*HARD, *(-v for v in HARD)])
    operands = [x] if name in mpfr.UNARY else [np.repeat(x, x.size)[::3], np.tile(x, x.size)[::3]]
    for fmt in ("binary16", "binary64"):
        check(name, operands, fmt, MODES[:7])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_agree_with_the_oracle(name):
    """A second opinion on the rounding, in integers and fractions."""
    for fmt in (oracle.Format(4, 3), oracle.Format(3, 6, subnormals="ftz"), NAMED["e4m3fnuz"]):
        operands = operands_for(name, fmt, 60, seed=4)
        results = [mpfr.reference(name, *row)[0] for row in zip(*operands, strict=True)]
        for options in MODES[:6]:
            how = oracle.How(options["rounding"])
            expected = [
                oracle.deliver(
                    fmt, oracle.from_float(r) if isinstance(r, float) else oracle.finite(r), how
                )
                for r in results
            ]
            got = getattr(sf, name)(*operands, package_format(fmt), **options)
            assert_matches_oracle(got, fmt, expected, *operands)
