"""Drawn formats, modes and inputs against the oracle: what no list of cases thought of."""

import numpy as np
import oracle
from helpers import (
    assert_flags,
    assert_matches_oracle,
    assert_same_bits,
    expected_codes,
    numbers,
    package_format,
    some_codes,
    some_values,
    values_of,
)
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import ROUNDINGS, How
from test_arithmetic import MIXED, OPERATIONS

import softfloat as sf

N = 60


@st.composite
def formats(draw, most_exponent_bits=11):
    specials = draw(
        st.sampled_from(["ieee", "ieee", "fn", "fnuz", "finite", "p3109_extended", "p3109_finite"])
    )
    exponent_bits = draw(st.integers(1, most_exponent_bits))
    mantissa_bits = draw(st.integers(0, 52))
    subnormals = draw(st.sampled_from([True, True, "ftz", "grid", "normal"]))
    signed = draw(st.sampled_from([True, True, True, False]))
    fmt = oracle.Format(exponent_bits, mantissa_bits, None, specials, subnormals, signed)
    if exponent_bits < 10:
        shift = draw(st.integers(-40, 40))
        fmt = oracle.Format(
            exponent_bits, mantissa_bits, fmt.bias + shift, specials, subnormals, signed
        )
    if not representable(fmt):
        return oracle.Format(exponent_bits, mantissa_bits or 1, subnormals=True)
    return fmt


def representable(fmt):
    """Has a non-zero finite value, and all of them are float64."""
    if fmt.largest < max(fmt.smallest, 1):
        return False
    highest = oracle.Positive(fmt.value(fmt.largest)).exponent
    return highest <= 1023 and fmt.emin - fmt.mantissa_bits >= -1074


floats = (
    st.floats(width=64) | st.floats(-4, 4) | st.floats(width=16) | st.integers(-9, 9).map(float)
)
seeds = st.integers(0, 2**32 - 1)


@given(
    formats(),
    st.sampled_from(ROUNDINGS),
    st.sampled_from([False, True, "propagate"]),
    seeds,
    st.lists(floats, max_size=8),
)
@example(oracle.Format(5, 0), "ties_to_even", False, 0, [])
@example(oracle.Format(1, 1), "to_odd", False, 0, [1.0, 0.5])
def test_quantize_encode_and_flags(fmt, rounding, saturate, seed, drawn):
    if not representable(fmt):
        return
    x = np.concatenate([some_values(fmt, N, seed), drawn])
    target, how = package_format(fmt), {"rounding": rounding, "saturate": saturate}
    results = [oracle.quantize(fmt, v, How(rounding, saturate)) for v in numbers(x)]
    if not fmt.signed and fmt.nan is None:
        # A negative number that does not round to zero has no result at all there.
        kept = [r.code is not None or np.isnan(v) for r, v in zip(results, x, strict=True)]
        x, results = x[kept], [r for r, k in zip(results, kept, strict=True) if k]
    codes, missing = expected_codes(fmt, results)
    assert_matches_oracle(sf.quantize(x, target, **how), fmt, results, x)
    assert (sf.encode(x[~missing], target, **how) == codes[~missing]).all()
    if fmt.signed:
        for tininess in ("after", "before"):
            flags = np.array([getattr(r, tininess) for r in results])
            assert_flags(lambda v: sf.quantize(v, target, **how), [x], flags, tininess)


@given(formats(), st.integers(1, 32), st.sampled_from("ABC"), seeds)
def test_stochastic_quantize(fmt, k, variant, seed):
    if not fmt.signed and fmt.nan is None:
        return
    x = some_values(fmt, N, seed)
    words = np.random.default_rng(seed).integers(0, 2**k, N)
    words[:10] = [0, 2**k - 1] * 5
    for rounding in oracle.STOCHASTIC:
        results = [
            oracle.quantize(fmt, v, How(rounding, False, int(w), k, variant))
            for v, w in zip(numbers(x), words, strict=True)
        ]
        how = {"rounding": rounding, "random": words, "random_bits": k, "variant": variant}
        assert_matches_oracle(sf.quantize(x, package_format(fmt), **how), fmt, results, x, words)


@given(
    formats(),
    st.sampled_from(MIXED),
    st.sampled_from(ROUNDINGS),
    st.sampled_from([False, True]),
    seeds,
)
def test_arithmetic_and_its_flags(fmt, operation, rounding, saturate, seed):
    if not fmt.signed and fmt.nan is None:
        return
    function, reference, arity = OPERATIONS[operation]
    x = [values_of(fmt, some_codes(fmt, N, seed + i)) for i in range(arity)]
    if operation == "div" and fmt.specials.startswith("p3109"):
        x[1] = np.where(x[1] == 0, float(fmt.value(fmt.largest)), x[1])
    how = How(rounding, saturate)
    results = [reference(fmt, *v, how) for v in zip(*map(numbers, x), strict=True)]
    target = package_format(fmt)
    got = function(*x, target, rounding=rounding, saturate=saturate)
    assert_matches_oracle(got, fmt, results, *x)
    if fmt.signed:
        for tininess in ("after", "before"):
            flags = np.array([getattr(r, tininess) for r in results])
            assert_flags(
                lambda *v: function(*v, target, rounding=rounding, saturate=saturate),
                x,
                flags,
                tininess,
            )


@given(formats(), formats(), st.sampled_from(MIXED), st.sampled_from(ROUNDINGS), seeds)
def test_arithmetic_on_operands_of_another_format(source, fmt, operation, rounding, seed):
    if not fmt.signed and fmt.nan is None:
        return
    function, reference, arity = OPERATIONS[operation]
    x = [values_of(source, some_codes(source, N, seed + i)) for i in range(arity)]
    if operation == "div" and fmt.specials.startswith("p3109"):
        x[1] = np.where(x[1] == 0, 1.0, x[1])
    results = [reference(fmt, *v, How(rounding)) for v in zip(*map(numbers, x), strict=True)]
    assert_matches_oracle(function(*x, package_format(fmt), rounding=rounding), fmt, results, *x)


@given(formats(), st.sampled_from(MIXED), st.integers(1, 32), st.sampled_from("ABC"), seeds)
def test_stochastic_arithmetic(fmt, operation, k, variant, seed):
    if not fmt.signed and fmt.nan is None:
        return
    function, reference, arity = OPERATIONS[operation]
    x = [values_of(fmt, some_codes(fmt, N, seed + i)) for i in range(arity)]
    if operation == "div" and fmt.specials.startswith("p3109"):
        x[1] = np.where(x[1] == 0, 1.0, x[1])
    words = np.random.default_rng(seed).integers(0, 2**k, N)
    words[:10] = [0, 2**k - 1] * 5
    results = [
        reference(fmt, *v, How("stochastic", False, int(w), k, variant))
        for *v, w in zip(*map(numbers, x), words, strict=True)
    ]
    how = {"rounding": "stochastic", "random": words, "random_bits": k, "variant": variant}
    assert_matches_oracle(function(*x, package_format(fmt), **how), fmt, results, *x, words)


@given(formats(), seeds)
def test_codes_decode_to_their_values_and_back(fmt, seed):
    codes = some_codes(fmt, 300, seed)
    target = package_format(fmt)
    values = sf.decode(codes, target)
    assert_same_bits(values, values_of(fmt, codes), codes)
    number = ~np.isnan(values)
    assert_same_bits(
        sf.decode(sf.encode(values[number], target), target), values[number], codes[number]
    )


@given(
    st.sampled_from(["remainder", "round_to_integral"]),
    formats(),
    st.sampled_from(ROUNDINGS),
    seeds,
)
def test_remainder_and_round_to_integral(name, fmt, rounding, seed):
    if not fmt.signed:
        return
    reference, function = getattr(oracle, name), getattr(sf, name)
    arity = 2 if name == "remainder" else 1
    x = [values_of(fmt, some_codes(fmt, N, seed + i)) for i in range(arity)]
    results = [reference(fmt, *v, How(rounding)) for v in zip(*map(numbers, x), strict=True)]
    got = function(*x, package_format(fmt), rounding=rounding)
    assert_matches_oracle(got, fmt, results, *x)
