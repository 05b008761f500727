"""The oracle against what stands behind it: TestFloat, the vector files, published decode tables.

Every other test trusts the oracle; here it is checked on a sample (exhaustive suite: on all).
"""

import numpy as np
import oracle
import pytest
from helpers import (
    FORMATS,
    NAMED,
    UNDEFINED,
    VECTOR_ROUNDING,
    VECTOR_SATURATE,
    all_codes,
    bits64,
    is_nan_code,
    manifest,
    some_codes,
    table_format,
    values_of,
    vector_format,
    vectors,
)
from oracle import Flag, How

OPERATIONS = {
    "add": (oracle.add, 2),
    "sub": (oracle.subtract, 2),
    "mul": (oracle.multiply, 2),
    "div": (oracle.divide, 2),
    "sqrt": (oracle.sqrt, 1),
    "fma": (oracle.fma, 3),
    "mulAdd": (oracle.fma, 3),
    "rem": (oracle.remainder, 2),
    "roundToInt": (oracle.round_to_integral, 1),
}
WIDTHS = {"f16": oracle.BINARY16, "f32": oracle.BINARY32, "f64": oracle.BINARY64}
SAMPLE = 40
STORED = [(kind, name) for kind in ("odd", "hard") for name in manifest(kind)["formats"]]
STORED = [(kind, name) for kind, name in STORED if name not in ("e15m48", "e7m56")]


def float_of(bits):
    return float(np.uint64(bits).view(np.float64))


def assert_row(fmt, result, code, after, before):
    assert (result.after, result.before) == (Flag(after), Flag(before))
    nan = bool(is_nan_code(fmt, np.array(int(code))))
    assert bool(is_nan_code(fmt, np.array(result.code))) if nan else result.code == int(code)


def check_testfloat(width, sample):
    fmt, stored = WIDTHS[width], vectors(f"testfloat_{width}")
    keys = {key.rsplit(".", 1)[0] for key in stored}
    for key in sorted(keys):
        operation, rounding = key.split(".")
        name = operation.removeprefix(width + "_")
        if name not in OPERATIONS:
            continue
        function, arity = OPERATIONS[name]
        how = How(VECTOR_ROUNDING[rounding])
        after = stored[f"{key}.fa"]
        before = stored.get(f"{key}.fb", after)
        rows = np.arange(len(after))
        rows = rows[:: max(1, len(rows) // sample)] if sample else rows
        for i in rows:
            operands = [oracle.from_code(fmt, stored[f"{key}.{x}"][i]) for x in "abc"[:arity]]
            result = function(fmt, *operands, how)
            assert_row(fmt, result, stored[f"{key}.r"][i], after[i], before[i])


def check_stored(kind, name, sample):
    table, stored = manifest(kind), vectors(f"{kind}_{name}")
    fmt = vector_format(table["formats"][name])
    quantized = iter(np.cumsum(stored["op"] == table["ops"].index("quantize")) - 1)
    widened = iter(np.cumsum(stored["op"] == table["ops"].index("to_f64")) - 1)
    for i, (q, w) in enumerate(zip(quantized, widened, strict=True)):
        if sample and i % (len(stored["op"]) // (10 * sample)):
            continue
        operation = table["ops"][stored["op"][i]]
        how = How(VECTOR_ROUNDING[table["modes"][stored["mode"][i]]])
        operands = [oracle.from_code(fmt, stored[x][i]) for x in "abc"]
        code, target = stored["r"][i], fmt
        if operation == "compare":
            order = oracle.compare(*operands[:2])
            assert (3 if order is None else order + 1) == code
            continue
        if operation == "quantize":
            result = oracle.quantize(fmt, oracle.from_float(float_of(stored["xq"][q])), how)
        elif operation == "to_f64":
            target, code = oracle.BINARY64, stored["r64"][w]
            result = oracle.quantize(target, operands[0], how)
        else:
            function, arity = OPERATIONS[operation]
            result = function(fmt, *operands[:arity], how)
        assert_row(target, result, code, stored["fa"][i], stored["fb"][i])


@pytest.mark.parametrize("width", WIDTHS)
def test_agrees_with_testfloat_results_and_flags(width):
    check_testfloat(width, SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", WIDTHS)
def test_agrees_with_all_of_testfloat(width):
    check_testfloat(width, None)


@pytest.mark.parametrize(("kind", "name"), STORED)
def test_agrees_with_stored_vectors(kind, name):
    check_stored(kind, name, SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "name"), STORED)
def test_agrees_with_all_stored_vectors(kind, name):
    check_stored(kind, name, None)


@pytest.mark.parametrize("name", manifest("tables")["decode_tables"])
def test_decodes_every_code_of_the_published_tables(name):
    fmt, table = table_format(name), vectors("decode_tables")[name]
    decoded = [oracle.from_code(fmt, c) for c in range(2**fmt.bits)]
    got = [
        np.nan
        if x.is_nan
        else (-1.0 if x.negative else 1.0) * (np.inf if x.is_infinite else float(x.magnitude))
        for x in decoded
    ]
    assert (bits64(got) == bits64(table)).all()


@pytest.mark.parametrize("fmt", [*FORMATS, *NAMED.values()], ids=str)
def test_vectorised_decoding_is_the_oracle_s(fmt):
    codes = all_codes(fmt) if fmt.bits <= 8 else some_codes(fmt, 300)
    for code, value in zip(codes, values_of(fmt, codes), strict=True):
        x, y = oracle.from_code(fmt, code), oracle.from_float(float(value))
        assert (x.kind, x.magnitude) == (y.kind, y.magnitude)
        assert x.is_nan or x.negative == y.negative


@pytest.mark.parametrize("key", manifest("tables")["arith_tables"])
def test_agrees_with_the_arithmetic_tables(key):
    name, operation, rounding, saturate = key.split(".")
    fmt, table = table_format(name), vectors("arith_tables")[key]
    function, arity = OPERATIONS[operation]
    how = How(VECTOR_ROUNDING[rounding], VECTOR_SATURATE[saturate])
    undefined = UNDEFINED if table.dtype == np.uint16 else None
    rng = np.random.default_rng(1)
    for place in rng.integers(0, 2**fmt.bits, (300, arity)):
        result = function(fmt, *(oracle.from_code(fmt, c) for c in place), how)
        expected = int(table[tuple(place)])
        if expected == undefined:
            assert result.code is None
        else:
            assert_row(fmt, result, expected, result.after, result.before)


@pytest.mark.parametrize("key", manifest("tables")["cast_tables_from_binary16"])
def test_agrees_with_the_cast_tables(key):
    name, rounding, saturate = key.split(".")
    fmt, table = table_format(name), vectors("cast_tables_from_binary16")[key]
    how = How(VECTOR_ROUNDING[rounding], VECTOR_SATURATE[saturate])
    undefined = UNDEFINED if table.dtype == np.uint16 and fmt.nan is None else None
    for code in some_codes(oracle.BINARY16, 300, seed=2):
        result = oracle.quantize(fmt, oracle.from_code(oracle.BINARY16, code), how)
        if int(table[code]) == undefined:
            assert result.code is None
        else:
            assert_row(fmt, result, table[code], result.after, result.before)


@pytest.mark.parametrize("name", manifest("sr")["formats"])
def test_stochastic_outcomes_and_probabilities(name):
    entry, rows = manifest("sr")["formats"][name], vectors(f"sr_{name}")
    fmt = vector_format({**entry, "subnormals": "yes"})
    for i in range(0, len(rows["x"]), 6):
        x = oracle.from_float(float_of(rows["x"][i]))
        for variant in "ABC":
            how = How("stochastic", False, int(rows["R"][i]), int(rows["nbits"][i]), variant)
            assert oracle.quantize(fmt, x, how).code == rows[variant][i]


def test_words_are_those_in_the_documentation_of_the_generator():
    import softfloat.random as generator

    key = generator.make_key(7, 0)
    assert int(key) == oracle.random_key(7, 0)
    words = [oracle.random_word(7, 0, i) for i in range(4)]
    assert [int(generator.element_word(key, i)) for i in range(4)] == words
    assert str([hex(w) for w in words]) in generator.__doc__


@pytest.mark.parametrize(
    ("seed", "stream"), [(0, 0), (1, 0), (0, 1), (2**64 - 1, 2**64 - 1), (12345678901234567890, 3)]
)
def test_words_follow_seed_and_stream_over_the_whole_range(seed, stream):
    import softfloat.random as generator

    key = generator.make_key(seed, stream)
    for index in (0, 1, 2, 1001, 2**40 + 1):
        assert int(generator.element_word(key, index)) == oracle.random_word(seed, stream, index)
