"""Arithmetic: the exact result rounded once, and flags: TestFloat, stored vectors, the oracle."""

import numpy as np
import oracle
import pytest
from helpers import (
    EXHAUSTIVE,
    FORMATS,
    INTEGER_TYPES,
    NAMED,
    REFERENCE,
    UNDEFINED,
    VECTOR_ROUNDING,
    VECTOR_SATURATE,
    WIDTHS,
    all_codes,
    assert_flags,
    assert_matches_oracle,
    assert_same_bits,
    assert_same_codes,
    bits64,
    core,
    entries_of_testfloat,
    manifest,
    numbers,
    on_both_paths,
    package_format,
    rows_of_testfloat,
    some_codes,
    some_values,
    spread,
    table_format,
    values_of,
    vector_format,
    vectors,
)
from oracle import ROUNDINGS, How

import softfloat as sf

# Vector name: (function of the package, function of the oracle, number of operands).
OPERATIONS = {
    "add": (sf.add, oracle.add, 2),
    "sub": (sf.subtract, oracle.subtract, 2),
    "mul": (sf.multiply, oracle.multiply, 2),
    "div": (sf.divide, oracle.divide, 2),
    "sqrt": (sf.sqrt, oracle.sqrt, 1),
    "fma": (sf.fma, oracle.fma, 3),
    "rem": (sf.remainder, oracle.remainder, 2),
}
MIXED = [name for name in OPERATIONS if name != "rem"]
TESTFLOAT = {**OPERATIONS, "mulAdd": OPERATIONS["fma"]}
STORED = [
    (kind, name, operation)
    for kind in ("odd", "hard")
    for name in manifest(kind)["formats"]
    if name not in ("e15m48", "e7m56")
    for operation in ("add", "sub", "mul", "div", "sqrt", "fma", "to_f64")
]


# --- TestFloat
@pytest.mark.parametrize(
    ("width", "operation", "mode"), entries_of_testfloat(TESTFLOAT.__contains__)
)
def test_testfloat_results_and_flags(width, operation, mode):
    fmt, rows = WIDTHS[width], rows_of_testfloat(width, operation, mode)
    function, _, arity = TESTFLOAT[operation.split("_")[1]]
    operands = [sf.decode(rows[x], fmt) for x in "abc"[:arity]]
    rounding = VECTOR_ROUNDING[mode]

    def call(*v):
        return function(*v, fmt, rounding=rounding)

    assert_same_codes(on_both_paths(call, *operands), rows["r"], REFERENCE[width], *operands)
    assert_flags(call, operands, rows["fa"], "after")
    assert_flags(call, operands, rows["fb"], "before")


@pytest.mark.parametrize(
    ("width", "operation", "mode"),
    entries_of_testfloat(lambda name: name in REFERENCE),
)
def test_testfloat_conversions(width, operation, mode):
    rows = rows_of_testfloat(width, operation, mode)
    source, target = operation.split("_to_")
    x = sf.decode(rows["a"], WIDTHS[source])

    def call(v):
        return sf.convert(v, WIDTHS[target], rounding=VECTOR_ROUNDING[mode])

    assert_same_codes(on_both_paths(call, x), rows["r"], REFERENCE[target], x)
    assert_flags(call, [x], rows["fa"], "after")
    assert_flags(call, [x], rows["fb"], "before")


@pytest.mark.parametrize(
    ("width", "operation", "mode"),
    entries_of_testfloat(lambda name: name in REFERENCE, from_integers=True),
)
def test_testfloat_conversions_from_integers(width, operation, mode):
    rows = rows_of_testfloat(width, operation, mode)
    source, target = operation.split("_to_")
    x = rows["a"].view(INTEGER_TYPES[source])
    fmt, rounding = WIDTHS[target], VECTOR_ROUNDING[mode]
    assert_same_codes(sf.quantize(x, fmt, rounding=rounding), rows["r"], REFERENCE[target], x)
    assert_flags(lambda v: sf.quantize(v, fmt, rounding=rounding), [x], rows["fa"], "after")


# --- stored vectors
@pytest.mark.parametrize("every_mode", [False, pytest.param(True, marks=EXHAUSTIVE)])
@pytest.mark.parametrize(("kind", "name", "operation"), STORED)
def test_stored_rows_and_their_flags(kind, name, operation, every_mode):
    table, rows = manifest(kind), vectors(f"{kind}_{name}")
    fmt = vector_format(table["formats"][name])
    target = package_format(fmt)
    chosen = np.flatnonzero(rows["op"] == table["ops"].index(operation))
    if not len(chosen):
        pytest.skip("no such rows in this file")
    results = rows["r64"] if operation == "to_f64" else rows["r"][chosen]
    reference = oracle.BINARY64 if operation == "to_f64" else fmt
    for number in np.unique(rows["mode"][chosen]):
        rounding = VECTOR_ROUNDING[table["modes"][number]]
        if not every_mode and rounding not in core(fmt, operation):
            continue
        here = rows["mode"][chosen] == number
        row = chosen[here]
        if operation == "to_f64":
            operands = [sf.decode(rows["a"][row], target)]

            def call(x, rounding=rounding):
                return sf.convert(x, sf.binary64, rounding=rounding)
        else:
            function, _, arity = OPERATIONS[operation]
            operands = [sf.decode(rows[x][row], target) for x in "abc"[:arity]]

            def call(*v, function=function, rounding=rounding):
                return function(*v, target, rounding=rounding)

        got = on_both_paths(call, *operands)
        assert_same_codes(got, results[here], reference, *operands)
        assert_flags(call, operands, rows["fa"][row], "after")
        assert_flags(call, operands, rows["fb"][row], "before")


@pytest.mark.parametrize("key", manifest("tables")["arith_tables"])
def test_every_pair_of_codes_as_in_the_tables(key):
    name, operation, rounding, saturate = key.split(".")
    fmt, table = table_format(name), vectors("arith_tables")[key]
    target = package_format(fmt)
    function, _, arity = OPERATIONS[operation]
    x = sf.decode(all_codes(fmt), target)
    operands = np.ix_(*[x] * arity)  # broadcasts to the whole table
    how = {"rounding": VECTOR_ROUNDING[rounding], "saturate": VECTOR_SATURATE[saturate]}
    got = on_both_paths(lambda *v: function(*v, target, **how), *operands)
    assert got.shape == table.shape
    undefined = (table == UNDEFINED) & (table.dtype == np.uint16)
    assert np.isnan(got[undefined]).all()
    shown = [np.broadcast_to(v, table.shape)[~undefined] for v in operands]
    assert_same_codes(got[~undefined], table[~undefined], fmt, *shown)


@pytest.mark.parametrize(("fmt", "operation", "rounding"), spread(FORMATS, OPERATIONS, ROUNDINGS))
def test_edge_and_random_codes_against_the_oracle(fmt, operation, rounding):
    function, reference, arity = OPERATIONS[operation]
    codes = [some_codes(fmt, 150, seed=10 * ROUNDINGS.index(rounding) + i) for i in range(arity)]
    operands = [values_of(fmt, c) for c in codes]
    for saturate in (False, True, "propagate") if rounding == "ties_to_even" else (False,):
        how = How(rounding, saturate)
        expected = [reference(fmt, *v, how) for v in zip(*map(numbers, operands), strict=True)]
        options = {"rounding": rounding, "saturate": saturate}
        got = on_both_paths(lambda *v, o=options: function(*v, package_format(fmt), **o), *operands)
        skip = divisions_of_p3109(fmt, operation, operands)
        kept = [r for r, s in zip(expected, skip, strict=True) if not s]
        assert_matches_oracle(got[~skip], fmt, kept, *(v[~skip] for v in operands))


def extreme_operands(operation, n, seed):
    """float64 operands at both ends of the range whose result often lies well inside it."""
    rng = np.random.default_rng(seed)
    ends = [-1074, -1022, -1000, -969, -960, -900, -540, -450, 0, 450, 540, 960, 1000, 1019, 1023]

    def scaled(exponent):
        significand = rng.uniform(1, 2, n)
        short = rng.random(n) < 0.3  # these make ties and exact results
        significand = np.where(short, np.rint(significand * 32) / 32, significand)
        return np.ldexp(np.minimum(significand, 2 - 2.0**-52), np.clip(exponent, -1074, 1023))

    x = [scaled(rng.choice(ends, n) + rng.integers(-3, 4, n)) for _ in "abc"]
    exponent, result = np.frexp(x[0])[1], rng.integers(-60, 60, n)
    partner = {"mul": result - exponent, "fma": result - exponent, "div": exponent - result}
    near = scaled(partner.get(operation, exponent + result))
    x[1] = np.where(rng.random(n) < 0.5, near, x[1])
    product = np.frexp(x[0])[1] + np.frexp(x[1])[1]
    x[2] = np.where(rng.random(n) < 0.5, scaled(product + rng.integers(-110, 110, n)), x[2])
    signs = [1.0] if operation == "sqrt" else [1.0, -1.0]
    return [v * rng.choice(signs, n) for v in x]


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "stochastic"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "fmt", [oracle.BINARY64, oracle.Format(11, 40), oracle.Format(11, 12), oracle.BINARY32], ids=str
)
def test_operands_at_the_ends_of_float64(fmt, operation, rounding):
    """Where errors of float64 operations overflow or underflow, and a fast form must give way."""
    function, reference, arity = OPERATIONS[operation]
    operands = extreme_operands(
        operation, 400, ROUNDINGS.index(rounding) if rounding in ROUNDINGS else 9
    )
    operands = operands[:arity]
    how = {"rounding": rounding} | ({"seed": 8} if rounding == "stochastic" else {})
    words = [oracle.random_word(8, 0, i, 24) for i in range(400)]
    expected = [
        reference(fmt, *v, How(rounding, False, w))
        for *v, w in zip(*map(numbers, operands), words, strict=True)
    ]
    got = on_both_paths(lambda *v: function(*v, package_format(fmt), **how), *operands)
    assert_matches_oracle(got, fmt, expected, *operands)


def cancelling_fma(fmt, n):
    """c within a few ulps of -a*b, where a*b needs 54 bits: short exact results."""
    rng = np.random.default_rng(1)
    a, b = (np.ldexp(rng.integers(2**26, 2**27, n).astype(float), -26) for _ in "ab")
    c = -(a * b)
    return a, b, c + rng.integers(-3, 4, n) * np.spacing(np.abs(c))


def quotients_beside_ties(fmt, n):
    """a/b within 2**-53 of a tie or value, a so small that its remainder underflows."""
    rng = np.random.default_rng(2)
    p = fmt.mantissa_bits + 1
    tie = np.ldexp(rng.integers(2 ** min(p, 52), 2 ** min(p + 1, 53), n).astype(float), -min(p, 52))
    b = np.ldexp(rng.uniform(1, 2, n), rng.integers(-1022, -1012, n))
    return tie * b, b


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "fmt", [NAMED[n] for n in ("binary16", "bfloat16", "binary32", "binary64")], ids=str
)
@pytest.mark.parametrize(
    ("operation", "make"), [("fma", cancelling_fma), ("div", quotients_beside_ties)]
)
def test_the_error_of_a_float64_operation_is_not_lost(fmt, operation, make, rounding):
    function, reference, _ = OPERATIONS[operation]
    operands = make(fmt, 500)
    expected = [
        reference(fmt, *v, How(rounding)) for v in zip(*map(numbers, operands), strict=True)
    ]
    target = package_format(fmt)
    got = on_both_paths(lambda *v: function(*v, target, rounding=rounding), *operands)
    assert_matches_oracle(got, fmt, expected, *operands)


def divisions_of_p3109(fmt, operation, operands):
    """Where x/0 is concerned: P3109 defines it as NaN, unlike IEEE 754; see its own test."""
    if operation != "div" or not fmt.specials.startswith("p3109"):
        return np.zeros(len(operands[0]), bool)
    return operands[1] == 0


@pytest.mark.parametrize(
    "fmt", [f for f in FORMATS if f.nan is None or f.specials != "ieee"], ids=str
)
@pytest.mark.parametrize("operation", MIXED)
def test_flags_of_formats_without_vectors_against_the_oracle(fmt, operation):
    function, reference, arity = OPERATIONS[operation]
    for rounding in ("ties_to_even", "toward_positive", "to_odd"):
        operands = [values_of(fmt, some_codes(fmt, 300, seed=40 + i)) for i in range(arity)]
        skip = divisions_of_p3109(fmt, operation, operands)
        operands = [x[~skip] for x in operands]
        pairs = list(zip(*map(numbers, operands), strict=True))
        results = [reference(fmt, *v, How(rounding)) for v in pairs]
        for tininess in ("after", "before"):
            flags = np.array([getattr(r, tininess) for r in results])
            assert_flags(
                lambda *v, rounding=rounding: function(*v, package_format(fmt), rounding=rounding),
                operands,
                flags,
                tininess,
            )


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("operation", MIXED)
@pytest.mark.parametrize(
    ("sources", "fmt"),
    [
        (("binary16", "bfloat16", "tf32"), "e4m3fn"),
        (("binary32", "binary64", "bfloat16"), "binary16"),
        (("binary64", "binary64", "binary64"), "bfloat16"),
        (("binary64", "e5m2", "binary32"), "binary32"),
        (("e4m3fn", "e5m2", "e3m4"), "binary64"),
        (("e4m3fn", "e5m2", "binary32"), "e2m1fn"),
        (("binary64", "binary16", "binary64"), "e3m4"),
    ],
    ids=str,
)
def test_operands_of_different_formats_are_exact_numbers(sources, fmt, operation, rounding):
    fmt = NAMED[fmt]
    function, reference, arity = OPERATIONS[operation]
    operands = [
        values_of(NAMED[s], some_codes(NAMED[s], 120, seed=i)) for i, s in enumerate(sources)
    ]
    operands = operands[:arity]
    expected = [
        reference(fmt, *v, How(rounding)) for v in zip(*map(numbers, operands), strict=True)
    ]
    target = package_format(fmt)
    got = on_both_paths(lambda *v: function(*v, target, rounding=rounding), *operands)
    assert_matches_oracle(got, fmt, expected, *operands)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "fmt", [NAMED["binary16"], NAMED["binary64"], oracle.Format(6, 9)], ids=str
)
def test_operands_off_the_grid_are_not_rounded_first(fmt, operation, rounding):
    function, reference, arity = OPERATIONS[operation]
    operands = [some_values(fmt, 150, seed=i) for i in range(arity)]
    expected = [
        reference(fmt, *v, How(rounding)) for v in zip(*map(numbers, operands), strict=True)
    ]
    target = package_format(fmt)
    got = on_both_paths(lambda *v: function(*v, target, rounding=rounding), *operands)
    assert_matches_oracle(got, fmt, expected, *operands)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_float32_operands_give_what_float64_operands_give(operation, rounding):
    function, _, arity = OPERATIONS[operation]
    for fmt in (sf.bfloat16, sf.binary16, sf.float8_e4m3fn, sf.tf32, sf.binary32, sf.Format(6, 9)):
        reference = oracle.Format(fmt.exponent_bits, fmt.mantissa_bits, specials=fmt.specials)
        operands = [
            values_of(reference, some_codes(reference, 30000, seed=i)).astype(np.float32)
            for i in range(arity)
        ]
        narrow = function(*operands, fmt, rounding=rounding)
        wide = function(*(x.astype(np.float64) for x in operands), fmt, rounding=rounding)
        assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)
        assert_same_bits(narrow, wide, *operands)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, ">f8", "object"])
def test_operands_may_have_any_dtype(operation, dtype):
    function, _, arity = OPERATIONS[operation]
    operands = [np.arange(1, 60, dtype=np.float64) + i for i in range(arity)]
    expected = function(*operands, sf.bfloat16)
    cast = [
        x.astype(int).astype(object) if dtype == "object" else x.astype(dtype) for x in operands
    ]
    assert_same_bits(function(*cast, sf.bfloat16), expected, *operands)


def test_integers_beyond_float64_are_exact_operands():
    x = np.array([2**53 + 1, 2**62 + 1, 2**63 - 1], np.int64)
    for rounding in ROUNDINGS:
        got = sf.subtract(x, np.array([2**53, 2**62, 2**63 - 2]), sf.binary32, rounding=rounding)
        assert got.tolist() == [1.0, 1.0, 1.0]


def test_fractions_and_strings_are_exact_operands():
    from fractions import Fraction

    for rounding in ROUNDINGS:
        got = sf.add(
            [Fraction(1, 3), 2**200 + 1],
            [Fraction(2, 3), -(2**200)],
            sf.binary16,
            rounding=rounding,
        )
        assert got.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("fmt", "operation", "rounding"), spread(FORMATS, OPERATIONS, [*ROUNDINGS, "stochastic"])
)
def test_long_arrays_give_what_short_ones_give(fmt, operation, rounding):
    """Blocks, vector bodies and remainders of loops against calls too short for any of them."""
    function, _, arity = OPERATIONS[operation]
    target, n, cut = package_format(fmt), 6151, 41
    how = {"rounding": rounding} | ({"seed": 3} if rounding == "stochastic" else {})
    operands = [values_of(fmt, some_codes(fmt, n, seed=200 + i)) for i in range(arity)]
    offsets = range(0, n, cut)

    def place(i):
        return {"offset": i} if rounding == "stochastic" else {}

    short = [
        function(*(x[i : i + cut] for x in operands), target, **how, **place(i)) for i in offsets
    ]
    assert_same_bits(function(*operands, target, **how), np.concatenate(short), *operands)


# --- shapes, out=, aliases
@pytest.mark.parametrize("operation", ["add", "mul", "div", "fma"])
def test_operands_broadcast(operation):
    function, _, arity = OPERATIONS[operation]
    x = values_of(oracle.BINARY16, some_codes(oracle.BINARY16, 60)).reshape(3, 20)
    shapes = [x, x[0], x[:, :1]][:arity]
    full = np.broadcast_arrays(*shapes)
    expected = function(*(np.ascontiguousarray(v) for v in full), sf.binary16)
    assert_same_bits(function(*shapes, sf.binary16), expected, *full)
    assert function(*shapes[::-1], sf.binary16).shape == (3, 20)


@pytest.mark.parametrize("operation", MIXED)
def test_scalars_give_numpy_scalars(operation):
    function, reference, arity = OPERATIONS[operation]
    operands = [2.5, 0.1, 3.0][:arity]
    got = function(*operands, sf.binary16)
    assert isinstance(got, np.floating)
    expected = reference(oracle.BINARY16, *map(oracle.from_float, operands))
    assert_matches_oracle(got, oracle.BINARY16, [expected])
    array = function(np.array([operands[0]] * 3), *operands[1:], sf.binary16)
    assert_same_bits(array, [float(got)] * 3)


@pytest.mark.parametrize("operation", MIXED)
def test_empty_arrays_stay_empty(operation):
    function, _, arity = OPERATIONS[operation]
    got = function(*[np.empty((0, 3))] * arity, sf.binary16)
    assert got.shape == (0, 3)


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "stochastic"])
@pytest.mark.parametrize("operation", MIXED)
@pytest.mark.parametrize("fmt", [sf.binary16, sf.bfloat16, sf.binary64], ids=repr)
def test_out_may_be_any_operand(fmt, operation, rounding):
    function, _, arity = OPERATIONS[operation]
    reference = oracle.Format(fmt.exponent_bits, fmt.mantissa_bits)
    how = {"rounding": rounding} | ({"seed": 3} if rounding == "stochastic" else {})
    for dtype in (np.float32, np.float64):
        if fmt == sf.binary64 and dtype == np.float32:
            continue
        operands = [
            values_of(reference, some_codes(reference, 5000, seed=i)).astype(dtype)
            for i in range(arity)
        ]
        expected = function(*operands, fmt, **how)
        for place in range(arity):
            again = [x.copy() for x in operands]
            assert function(*again, fmt, out=again[place], **how) is again[place]
            assert_same_bits(again[place], expected, *operands)
            kept = [i for i in range(arity) if i != place]
            assert all((bits64(again[i]) == bits64(operands[i])).all() for i in kept)
        x = operands[0].copy()
        expected = function(*[x] * arity, fmt, **how)
        assert_same_bits(function(*[x] * arity, fmt, out=x, **how), expected)


@pytest.mark.parametrize("operation", ["add", "div", "fma"])
def test_a_partly_overlapping_out_gives_the_plain_result(operation):
    function, _, arity = OPERATIONS[operation]
    x = values_of(oracle.BINARY16, some_codes(oracle.BINARY16, 9000))
    for shift in (1, 3, 2500):
        expected = function(*[x[:-shift]] * arity, sf.binary16)
        buffer = x.copy()
        function(*[buffer[:-shift]] * arity, sf.binary16, out=buffer[shift:])
        assert_same_bits(buffer[shift:], expected)


@pytest.mark.parametrize("operation", MIXED)
def test_strided_and_reversed_operands(operation):
    function, _, arity = OPERATIONS[operation]
    x = [
        values_of(oracle.BINARY16, some_codes(oracle.BINARY16, 3000, seed=i)) for i in range(arity)
    ]
    views = [x[0][::3], *(v[1000:][::-2] for v in x[1:])][:arity]
    expected = function(*(v.copy() for v in views), sf.binary16)
    assert_same_bits(function(*views, sf.binary16), expected)
    for v in views:
        v.flags.writeable = False
    assert_same_bits(function(*views, sf.binary16), expected)


def test_shapes_that_do_not_broadcast_are_refused_with_both_shapes():
    with pytest.raises(ValueError, match=r"(?s)\(3,\).*\(4,\)"):
        sf.add(np.ones(3), np.ones(4), sf.binary16)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty(3), ValueError),
        (np.empty(4, np.int64), TypeError),
        (np.empty(4, np.float16), TypeError),
    ],
)
def test_an_unfit_out_is_refused(out, error):
    with pytest.raises(error, match="out"):
        sf.add(np.ones(4), np.ones(4), sf.binary16, out=out)


def test_a_float32_out_cannot_hold_a_float64_format():
    with pytest.raises(TypeError, match="float64"):
        sf.add(np.ones(4), np.ones(4), sf.binary64, out=np.empty(4, np.float32))


@pytest.mark.parametrize("bad", [1j, None, "x", np.array([1j]), object()])
def test_garbage_operands_are_refused(bad):
    with pytest.raises((TypeError, ValueError)):
        sf.add(bad, 1.0, sf.binary16)
    with pytest.raises((TypeError, ValueError)):
        sf.fma(1.0, 2.0, bad, sf.binary16)


def test_stochastic_arithmetic_needs_a_seed():
    for function, _, arity in OPERATIONS.values():
        with pytest.raises(ValueError, match="seed="):
            function(*[np.ones(3)] * arity, sf.binary16, rounding="stochastic")


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_positive", "stochastic"])
@pytest.mark.parametrize("operation", MIXED)
def test_the_thread_count_changes_no_bit(operation, rounding):
    function, _, arity = OPERATIONS[operation]
    how = {"rounding": rounding} | ({"seed": 3} if rounding == "stochastic" else {})
    threads = sf.get_num_threads()
    for fmt in (sf.bfloat16, sf.Format(11, 40)):
        reference = oracle.Format(fmt.exponent_bits, fmt.mantissa_bits)
        x = [values_of(reference, some_codes(reference, 200_003, seed=i)) for i in range(arity)]
        try:
            results = []
            for n in sorted({1, threads}):
                sf.set_num_threads(n)
                results.append(bits64(function(*x, fmt, **how)))
        finally:
            sf.set_num_threads(threads)
        assert all((r == results[0]).all() for r in results)


# --- sign of zero, NaN, P3109
def test_the_sign_of_an_exact_zero_sum_follows_the_direction():
    a = np.array([2.0, 0.0, -0.0, -0.0, 0.0])
    b = np.array([-2.0, -0.0, -0.0, 0.0, 0.0])
    for rounding in ROUNDINGS:
        got = np.signbit(sf.add(a, b, sf.binary16, rounding=rounding))
        down = rounding == "toward_negative"
        assert got.tolist() == [down, down, True, down, False]


@pytest.mark.parametrize("fmt", [sf.binary16, sf.bfloat16, sf.binary64, sf.float8_e5m2], ids=repr)
def test_nan_results_are_one_canonical_quiet_nan(fmt):
    operands = np.array([np.inf, 0.0, np.nan, -np.nan])
    others = np.array([-np.inf, np.inf, 1.0, 1.0])
    codes = [sf.encode(sf.multiply(operands, others, fmt)[1:], fmt)]
    codes += [sf.encode(sf.add(operands, others, fmt)[[0, 2, 3]], fmt)]
    codes += [sf.encode(sf.sqrt(np.array([-1.0, np.nan]), fmt), fmt)]
    assert np.unique(np.concatenate(codes)).tolist() == [fmt.nan_code]
    results = [sf.add(operands, others, fmt)[[0, 2, 3]], sf.sqrt(np.array([-1.0, -np.nan]), fmt)]
    words = np.unique(np.concatenate(results).astype(np.float64).view(np.uint64))
    assert len(words) == 1


def test_p3109_division_by_zero_is_nan():
    fmt = sf.p3109(8, 3)
    assert np.isnan(sf.divide([1.0, -1.0, 0.0], [0.0, 0.0, 0.0], fmt)).all()


def test_wrong_ways_to_get_there_are_not_taken():
    """Witnesses against computing in float64 and rounding again."""
    assert sf.fma(7.0, 37.0, -(2.0**-60), sf.bfloat16) == 258.0
    assert sf.fma(7.0, 37.0, 2.0**-60, sf.bfloat16) == 260.0
    assert sf.add(1.0, 2.0**-30, sf.binary32, rounding="toward_positive") == 1 + 2.0**-23
    assert sf.add(1.0, -(2.0**-1074), sf.binary64, rounding="toward_zero") == 1 - 2.0**-53
    assert (
        sf.multiply(2.0**-1074, 2.0**-1074, sf.binary64, rounding="toward_positive") == 2.0**-1074
    )
    assert sf.divide(1.0, 3.0, sf.binary64, rounding="to_odd") == float.fromhex(
        "0x1.5555555555555p-2"
    )


# --- status
def test_status_counts_elements_over_all_calls_inside():
    x = np.array([1.0, 1.1, 1e10, np.inf, 0.0, 2.0**-25])
    with sf.status() as s:
        sf.quantize(x, sf.binary16)
        sf.divide(x, 0.0, sf.binary16)
    assert (s.inexact, s.overflow, s.underflow) == (3, 1, 1)
    assert (s.divide_by_zero, s.invalid) == (4, 1)
    sf.quantize(x, sf.binary16)
    assert (s.inexact, s.overflow, s.underflow) == (3, 1, 1)


def test_status_blocks_nest():
    with sf.status() as outer:
        sf.quantize(1.1, sf.binary16)
        with sf.status() as inner:
            sf.quantize([1.1, 1.3], sf.binary16)
        sf.quantize(1.7, sf.binary16)
    assert inner.inexact == 2
    assert outer.inexact == 4


def test_status_belongs_to_its_thread():
    import threading

    def work():
        sf.quantize(np.full(10, 1.1), sf.binary16)

    with sf.status() as s:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        sf.quantize(1.1, sf.binary16)
    assert s.inexact == 1


def test_status_changes_no_result():
    x = some_values(NAMED["binary16"], 50_000)
    plain = sf.multiply(x, x[::-1].copy(), sf.binary16)
    with sf.status():
        assert_same_bits(sf.multiply(x, x[::-1].copy(), sf.binary16), plain)


def test_status_counts_large_arrays_and_stochastic_rounding():
    x = np.full(1_000_003, 1.1)
    with sf.status() as s:
        sf.quantize(x, sf.bfloat16)
        sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=1)
        sf.add(x, x, sf.binary16)
        sf.quantize(np.zeros(1_000_003), sf.bfloat16)
    assert s.inexact == 3 * 1_000_003
    assert s.overflow == s.underflow == s.invalid == s.divide_by_zero == 0


def test_status_counts_both_tininess_rules():
    # 2**-14 - 2**-26 lies below the smallest normal and rounds to it: tiny before rounding only.
    x = 2.0**-14 - 2.0**-26
    for tininess, count in (("after", 0), ("before", 1)):
        with sf.status(tininess=tininess) as s:
            assert sf.quantize(x, sf.binary16) == 2.0**-14
        assert s.underflow == count
    with pytest.raises(ValueError, match="before"):
        sf.status(tininess="later").__enter__()


def test_a_signaling_operand_raises_invalid_and_a_quiet_one_does_not():
    signaling = np.array([0x7FA00000], np.uint32).view(np.float32)
    for function, _, arity in OPERATIONS.values():
        for x, count in ((signaling, 1), (np.array([np.nan], np.float32), 0)):
            with sf.status() as s:
                assert np.isnan(
                    function(x, *[np.ones(1, np.float32)] * (arity - 1), sf.binary16)
                ).all()
            assert s.invalid == count
