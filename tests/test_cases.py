"""Problems that users of other tools reported, collected in data/cases.json.

A case with exact inputs and outputs is read from the file; one that states a property has a test
of its own here, by its number. Cases of reductions, products, training and files belong to the
parts of the package that do them.
"""

import copy
import json
import pickle
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import DATA, assert_same_bits, bits64

import softfloat as sf

CASES = {case["id"]: case for case in json.loads((DATA / "cases.json").read_text())}
ROUNDING = {
    "RNE": "ties_to_even",
    "RZ": "toward_zero",
    "RD": "toward_negative",
    "RU": "toward_positive",
}
SPECIALS = {"ieee": "ieee", "fn": "fn", "fnuz": "fnuz", "none": "finite", "e8m0": "scale"}
VECTORS = [
    case["id"]
    for case in CASES.values()
    if case["checkable"] == "vector" and case["op"] in ("quantize", "from_int", "from_string")
]
ARITHMETIC = [
    case["id"]
    for case in CASES.values()
    if case["checkable"] == "vector"
    and case["op"] in ("add", "mul", "div", "fma")
    and isinstance(case["expected"], str)
]
FUNCTIONS = {"add": sf.add, "mul": sf.multiply, "div": sf.divide, "fma": sf.fma}


def case_format(case):
    described = case["format"]
    specials = SPECIALS[described["specials"]]
    return sf.Format(
        described["exp_bits"],
        described["man_bits"],
        bias=described["bias"],
        specials=specials,
        signed=specials != "scale",
    )


def number(text):
    """An input as the file writes it: hexadecimal float, float32 bits, fraction, integer."""
    if text.startswith("f32:"):
        return np.uint32(int(text[4:], 16)).view(np.float32)
    if "/" in text:
        return Fraction(text)
    if text.lstrip("-").isdigit():
        return int(text)
    return float.fromhex(text)


@pytest.mark.parametrize("name", VECTORS)
def test_conversion_cases(name):
    case, fmt = CASES[name], case_format(CASES[name])
    how = {"rounding": ROUNDING[case["rounding"]], "saturate": bool(case["saturate"])}
    inputs = case["inputs"] if case["op"] == "from_string" else [number(t) for t in case["inputs"]]
    expected = [float.fromhex(t) for t in case["expected"]]
    assert_same_bits([sf.quantize(x, fmt, **how) for x in inputs], expected, inputs)
    assert_same_bits(sf.quantize(inputs, fmt, **how), expected, inputs)
    if case["expected_bits"]:
        codes = [int(t, 16) for t in case["expected_bits"]]
        got = sf.encode(inputs, fmt, **how).tolist()
        # The file gives one code for NaN; e4m3fn keeps the sign.
        assert [
            g & 0x7F if np.isnan(e) and g > 0x80 else g for g, e in zip(got, expected, strict=True)
        ] == codes


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_cases(name):
    case, fmt = CASES[name], case_format(CASES[name])
    operands = [number(t) for t in case["inputs"]]
    got = FUNCTIONS[case["op"]](*operands, fmt)
    assert_same_bits(got, float.fromhex(case["expected"]), *operands)
    if case["expected_bits"]:
        assert sf.encode(got, fmt) == int(case["expected_bits"], 16)


def test_sfb017_powers_of_two_are_exact():
    e = np.arange(-149, 128)
    expected = np.where(e < -126, 1 << np.maximum(e + 149, 0), (e + 127) << 23)
    assert (sf.encode(sf.scalbn(1.0, e, sf.binary32), sf.binary32) == expected).all()


def test_sfb044_nan_has_the_code_of_its_format():
    nan = np.array([np.nan, -np.nan])
    expected = {
        "float8_e4m3fn": [0x7F, 0xFF],
        "float8_e4m3fnuz": [0x80, 0x80],
        "float8_e5m2fnuz": [0x80, 0x80],
        "float8_e8m0fnu": [0xFF, 0xFF],
    }
    assert {n: sf.encode(nan, n).tolist() for n in expected} == expected


def test_sfb048_the_scale_decodes_its_special_codes():
    case = CASES["SFB048"]
    codes = np.array([int(t, 16) for t in case["inputs"]], np.uint8)
    assert_same_bits(
        sf.decode(codes, "float8_e8m0fnu"), [float.fromhex(t) for t in case["expected"]]
    )


@pytest.mark.parametrize(("rounding", "name"), [("ties_to_even", "RNE"), ("toward_negative", "RD")])
def test_sfb052_exact_cancellation(rounding, name):
    for text, expected in zip(CASES["SFB052"]["inputs"], CASES["SFB052"]["expected"], strict=True):
        a, operator, b = text.split()
        function = sf.add if operator == "+" else sf.subtract
        got = function(float(a), float(b), sf.binary16, rounding=rounding)
        sign = dict(part.split(":") for part in expected.split())[name][0]
        assert_same_bits(got, float(sign + "0"), text)


def test_sfb053_underflow_keeps_the_sign():
    for operands, expected in zip(
        CASES["SFB053"]["inputs"], CASES["SFB053"]["expected"], strict=True
    ):
        got = sf.multiply(*map(float.fromhex, operands), sf.binary32)
        assert_same_bits(got, float.fromhex(expected))


@pytest.mark.parametrize(
    "name", ["binary16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float4_e2m1fn"]
)
def test_sfb093_exact_values_never_move(name):
    fmt = sf.as_format(name)
    x = sf.decode(np.arange(2**fmt.bits, dtype=fmt.code_dtype), fmt)
    for seed in range(20 if fmt.bits == 16 else 1000):
        assert_same_bits(sf.quantize(x, fmt, rounding="stochastic", seed=seed), x)


def test_sfb094_infinity_and_nan_pass_through():
    x = np.tile([np.inf, -np.inf, np.nan], 10_000).astype(np.float32)
    for seed in range(5):
        assert_same_bits(sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=seed), x)


@pytest.mark.parametrize(
    "name", [c["id"] for c in CASES.values() if c["checkable"] == "distribution"]
)
def test_stochastic_frequencies(name):
    case, fmt = CASES[name], case_format(CASES[name])
    (text,) = case["inputs"]
    x, n = float(number(text)), 2_000_000
    low, high = (float.fromhex(case["expected"][k]) for k in ("lo", "hi"))
    p = Fraction(case["expected"]["p_hi"] or "65535/65536")
    got = sf.quantize(np.full(n, x), fmt, rounding="stochastic", seed=23)
    assert set(np.unique(got)) <= {low, high}
    count = int((got == high).sum())
    assert abs(count - n * float(p)) <= 5 * float(n * p * (1 - p)) ** 0.5


def test_sfb103_neighbouring_elements_get_independent_bits():
    n = 1_000_000
    x = np.full(n, 1 + 2.0**-9)
    away = sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=99) != 1
    assert abs(int(away.sum()) - n / 4) < 5 * (n * 3 / 16) ** 0.5
    centred = away - away.mean()
    variance = float(np.dot(centred, centred))
    for lag in range(1, 65):
        assert abs(float(np.dot(centred[:-lag], centred[lag:])) / variance) < 5 / n**0.5
    for period in (64, 256, 1024, 4096):
        assert (away[:period] != away[period : 2 * period]).any()


def test_sfb107_nextafter_at_zero_infinity_and_across_signs():
    case = CASES["SFB107"]
    x, y = np.array([[float.fromhex(t) for t in pair] for pair in case["inputs"]]).T
    expected = [float.fromhex(t) for t in case["expected"]]
    assert_same_bits(sf.nextafter(x, y, sf.binary16), expected, x, y)


def test_sfb109_nan_and_signed_zero_compare_as_ieee_754_says():
    nan = np.nan
    assert not sf.equal(nan, nan)
    assert not sf.less(nan, 1.0)
    assert sf.equal(-0.0, 0.0)
    x = np.array([nan, 1.0, -np.inf, -0.0, 0.0])
    ordered = x[np.argsort(sf.total_order(x[:, None], x[None]).sum(axis=1))[::-1]]
    assert_same_bits(ordered, [-np.inf, -0.0, 0.0, 1.0, nan])


def test_sfb111_formats_are_good_objects():
    f = sf.Format(5, 10)
    assert pickle.loads(pickle.dumps(f)) == f == copy.copy(f) == copy.deepcopy(f)
    assert eval(repr(f), {"Format": sf.Format}) == f
    assert sf.Format(5, 10) != sf.Format(5, 10, subnormals="ftz")
    with pytest.raises(AttributeError):
        f.bias = 3


def test_sfb114_any_container_works():
    one = float(np.float16(1.1))
    assert sf.quantize(np.float64(1.1), sf.binary16) == one
    assert sf.quantize(np.array(1.1), sf.binary16) == one
    empty = sf.quantize(np.empty((0, 3)), sf.binary16)
    assert (empty.shape, empty.dtype) == ((0, 3), np.float64)
    assert sf.quantize([1.1, 2.2], sf.binary16).tolist() == [one, float(np.float16(2.2))]


def test_sfb115_the_input_stays_and_out_may_alias():
    x = np.linspace(-3, 3, 1001)
    before = x.copy()
    y = sf.quantize(x, sf.binary16)
    assert_same_bits(x, before)
    assert sf.quantize(x, sf.binary16, out=x) is x
    assert_same_bits(x, y)
    a, b = before.copy(), before[::-1].copy()
    plain = sf.add(a, b, sf.binary16)
    assert_same_bits(sf.add(a, b, sf.binary16, out=a), plain)
    a = before.copy()
    expected = sf.add(a[:-1], b[:-1], sf.binary16)
    sf.add(a[:-1], b[:-1], sf.binary16, out=a[1:])
    assert_same_bits(a[1:], expected)


def test_sfb116_dtypes_are_kept_or_refused():
    x = np.ones(3, np.float32)
    assert sf.add(x, 10, sf.bfloat16).dtype == np.float32
    assert sf.quantize(np.int32(257), sf.bfloat16) == 256
    assert sf.quantize(np.float16(1.1), sf.bfloat16) == 1.1015625
    assert sf.quantize(np.array([True, False]), sf.bfloat16).tolist() == [1.0, 0.0]
    with pytest.raises(TypeError, match="complex"):
        sf.quantize(np.array([1j]), sf.bfloat16)


def test_sfb118_wide_codes_stay_integers():
    x = [float.fromhex(t) for t in CASES["SFB118"]["inputs"]]
    codes = sf.encode(x, sf.binary64)
    assert codes.dtype == np.uint64
    assert codes.tolist() == [int(t, 16) for t in CASES["SFB118"]["expected"]]


def test_sfb124_quantize_makes_no_large_temporaries():
    import tracemalloc

    x = np.ones(16 * 2**20, np.float32)
    out = np.empty_like(x)
    for how in ({}, {"rounding": "toward_zero"}, {"rounding": "stochastic", "seed": 1}):
        for target, limit in ((out, 0.05), (None, 1.05)):
            sf.quantize(x, sf.float8_e4m3fn, out=target, **how)  # compiles
            tracemalloc.start()
            sf.quantize(x, sf.float8_e4m3fn, out=target, **how)
            extra = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert extra <= limit * x.nbytes


def test_sfb134_rounding_to_integral_overflows_only_where_it_must():
    x = np.array([1.0, 2.5, 15.5, 3.75])
    assert sf.round_to_integral(x, "float8_e3m4").tolist() == [1.0, 2.0, np.inf, 4.0]


def test_sfb135_import_needs_no_compiler_and_no_gpu():
    script = "import sys, softfloat; assert 'numba.cuda' not in sys.modules"
    environment = {"PATH": "", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


FORKED = """
import multiprocessing, numpy as np, softfloat as sf
x = np.linspace(-3, 3, 1_000_003)
expected = sf.quantize(x, sf.binary16)
same = lambda: (sf.quantize(x, sf.binary16) == expected).all()
def work(results):
    results.put(bool(same()))
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    results = context.Queue()
    children = [context.Process(target=work, args=(results,)) for _ in range(2)]
    [c.start() for c in children]
    answers = [results.get(timeout=100) for c in children]
    [c.join(100) for c in children]
    assert answers == [True, True] and [c.exitcode for c in children] == [0, 0]
    assert same()
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue", "default"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_sfb136_worker_processes_after_a_parallel_call(method, layer, tmp_path):
    import os

    script = tmp_path / "workers.py"
    script.write_text(FORKED.replace("{method}", method))
    environment = {
        **os.environ,
        "NUMBA_THREADING_LAYER": layer,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, timeout=300, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


THREADS = """
import threading, numpy as np, softfloat as sf
x = np.linspace(-3, 3, 400_009)
expected = sf.quantize(x, sf.binary16), sf.multiply(x, x, sf.bfloat16)
wrong = []
def work():
    for _ in range(40):
        if (sf.quantize(x, sf.binary16) != expected[0]).any():
            wrong.append("quantize")
        if (sf.multiply(x, x, sf.bfloat16) != expected[1]).any():
            wrong.append("multiply")
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue", "default"])
def test_sfb137_eight_python_threads_call_parallel_kernels(layer, tmp_path):
    import os

    environment = {
        **os.environ,
        "NUMBA_THREADING_LAYER": layer,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=environment,
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_sfb137_first_calls_from_many_threads_at_once():
    results, barrier = [], threading.Barrier(8)
    x = np.linspace(-3, 3, 50_000)
    fmt = sf.Format(7, 13)

    def work():
        barrier.wait()
        results.append(bits64(sf.divide(x, 3.0, fmt, rounding="to_odd")))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 8
    assert all((r == results[0]).all() for r in results)


def test_sfb138_a_new_format_compiles_nothing():
    import numba.core.event as event

    x = np.linspace(-3, 3, 1000)
    sf.quantize(x, sf.Format(6, 8))
    sf.add(x, x, sf.Format(6, 8))
    with event.install_recorder("numba:compile") as recorder:
        for m in (3, 5, 7, 9, 11):
            sf.quantize(x, sf.Format(6, m))
            sf.add(x, x, sf.Format(6, m))
    assert not recorder.buffer


def test_sfb086_the_order_of_a_sum_is_named_and_the_layout_does_not_change_it():
    for n, expected in ((2000, 2000.0), (3000, 2048.0), (6000, 2048.0)):
        ones = np.ones((n, 5), np.float32)
        for x, axis in ((ones, 0), (np.asfortranarray(ones), 0), (ones.T, 1), (ones.T.copy(), 1)):
            assert sf.sum(x, sf.binary16, axis=axis).tolist() == [expected] * 5
            once = sf.sum(x, sf.binary16, axis=axis, accumulator=sf.binary64)
            assert once.tolist() == [float(n)] * 5


def test_sfb088_the_accumulator_is_the_callers():
    for n, wide in ((70000, 70144.0), (512, 512.0)):
        ones = np.ones(n, np.float32)
        assert sf.sum(ones, sf.bfloat16) == 256.0
        assert sf.sum(ones, sf.bfloat16, accumulator=sf.binary32) == wide


def test_sfb089_three_terms_in_three_orders():
    first, last = [2048.0, 1.0, 1.0], [1.0, 1.0, 2048.0]
    assert sf.sum(first, sf.binary16) == 2048.0
    assert sf.sum(last, sf.binary16) == 2050.0
    assert sf.sum(first, sf.binary16, order="pairwise") == 2048.0
    assert sf.sum(first, sf.binary16, accumulator=sf.binary64) == 2050.0


@pytest.mark.parametrize("order", ["sequential", "pairwise", "lanes", "blocked"])
def test_sfb090_a_sum_is_the_same_for_any_number_of_threads(order):
    x = np.random.default_rng(0).standard_normal(100003).astype(np.float32)
    block = {"block": 64} if order == "blocked" else {}
    before = sf.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3, 8):
            sf.set_num_threads(threads)
            found |= {float(sf.sum(x, sf.binary16, order=order, **block)) for _ in range(5)}
    finally:
        sf.set_num_threads(before)
    assert len(found) == 1


def test_sfb091_a_row_of_a_product_does_not_depend_on_the_others():
    rng = np.random.default_rng(91)
    a = sf.quantize(rng.standard_normal((128, 96)).astype(np.float32), sf.bfloat16)
    b = sf.quantize(rng.standard_normal((96, 50)).astype(np.float32), sf.bfloat16)
    whole = sf.matmul(a, b, sf.bfloat16)
    for m in (1, 2, 17, 33, 128):
        assert_same_bits(sf.matmul(a[:m], b, sf.bfloat16), whole[:m])
        assert_same_bits(sf.matmul(a[:m], b[:, :7], sf.bfloat16), whole[:m, :7])


def test_sfb130_where_a_multiply_add_rounds_is_named():
    start = np.array([[-1.0]], np.float32)
    seven, other = np.array([[7.0]], np.float32), np.array([[37.0]], np.float32)
    assert sf.matmul(seven, other, sf.bfloat16, c=start) == 260.0
    assert sf.matmul(seven, other, sf.bfloat16, c=start, fma=True) == 258.0
    assert sf.matmul(seven, other, sf.bfloat16, c=start, product=None) == 258.0


def test_every_case_about_formats_and_operations_is_covered():
    """So that a case added to the file does not go unseen."""
    source = (DATA.parent / "test_cases.py").read_text().lower()
    elsewhere = {
        *("SFB106", "SFB125", "SFB127", "SFB128"),  # training; small updates are in test_stochastic
        *("SFB110", "SFB112", "SFB119"),  # text, files, user kernels
    }
    covered = {*VECTORS, *ARITHMETIC, *elsewhere}
    covered |= {c["id"] for c in CASES.values() if c["checkable"] == "distribution"}
    missing = {name for name in CASES if name not in covered and name.lower() not in source}
    assert not missing


def test_sfb005_is_read_as_a_fraction():
    """The readers above must not round their inputs first."""
    assert isinstance(number(CASES["SFB005"]["inputs"][0]), Fraction)
    exact = oracle.quantize(oracle.BINARY16, oracle.finite(number(CASES["SFB005"]["inputs"][0])))
    assert exact.code == 3
