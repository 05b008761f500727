"""SoftArrays handled roughly: random keys and shapes against NumPy, files, threads, odd processors, misuse."""

import asyncio
import copy
import math
import pickle
import platform
import re
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest
from helpers import assert_same_bits

import softfloat as sf
from softfloat.array.processor import as_usual
from softfloat.array.registry import UFUNCS
from softfloat.bits import leave_standard_arithmetic

BF, HALF = sf.bfloat16, sf.binary16


# ---------------------------------------------------------------- against NumPy on integers, which are exact
def random_key(rng, shape):
    """A key of one of NumPy's forms, valid or not, for an array of a shape."""
    parts = []
    for size in shape:
        form = rng.integers(0, 8)
        if form == 0:
            parts.append(int(rng.integers(-size - 1, size + 1)))
        elif form <= 3:
            start, stop = (
                None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3)) for _ in "ab"
            )
            step = None if rng.random() < 0.4 else int(rng.choice([-2, -1, 1, 2, 3]))
            parts.append(slice(start, stop, step))
        elif form == 4 and size:
            parts.append(rng.integers(-size, size, rng.integers(0, 4)))
        elif form == 5:
            parts.append(rng.random(size) < 0.5)
        elif form == 6:
            parts.append(None)
        else:
            parts.append(slice(None))
    parts = parts[: rng.integers(0, len(parts) + 1)] if rng.random() < 0.3 else parts
    if rng.random() < 0.2:
        parts.insert(int(rng.integers(0, len(parts) + 1)), Ellipsis)
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


def outcome(function):
    """A result, or the kind of error."""
    try:
        return function(), None
    except (IndexError, ValueError, TypeError) as error:
        return None, type(error)


def random_array(rng):
    shape = tuple(rng.integers(0, 5, rng.integers(0, 4)))
    x = rng.integers(-40, 40, shape).astype(np.float32)
    if rng.random() < 0.5:
        x = x.T
    if x.ndim and rng.random() < 0.5:
        x = x[:: int(rng.choice([-1, 2, -2]))]
    return x


@pytest.mark.parametrize("seed", range(6))
def test_keys_of_every_form_do_what_numpy_does(seed):
    rng = np.random.default_rng(seed)
    for _ in range(150):
        x = random_array(rng)
        a = sf.array(x, BF)
        x = x.copy()
        key = random_key(rng, x.shape)
        expected, failed = outcome(lambda x=x, key=key: x[key])
        got, error = outcome(lambda a=a, key=key: a[key])
        assert error == failed, key
        if failed:
            continue
        assert_same_bits(got.to_numpy(), expected)
        new = rng.integers(-9, 9, np.shape(expected)).astype(np.float32)
        new = new if rng.random() < 0.5 else new.reshape(-1)[:1]
        _, failed = outcome(lambda x=x, key=key, new=new: x.__setitem__(key, new))
        _, error = outcome(lambda a=a, key=key, new=new: a.__setitem__(key, sf.array(new, BF)))
        assert error == failed, key
        assert_same_bits(a.to_numpy(), x)


def integers(rng, *shape):
    return rng.integers(-6, 7, shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_ufuncs_on_views_with_where_and_out_do_what_numpy_does(seed):
    """Small integers: exact in both, so NumPy's results on them are the truth."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n, m = rng.integers(0, 5, 2)
        x, y = (
            integers(rng, n, m),
            integers(rng, *((n, m), (m,), (n, 1), (), (1, m))[rng.integers(5)]),
        )
        a, b = sf.array(x, BF), sf.array(y, BF)
        if rng.random() < 0.5:
            x, a = x[::-1], a[::-1]
        ufunc = [np.add, np.subtract, np.multiply, np.maximum, np.minimum][rng.integers(5)]
        assert_same_bits(ufunc(a, b).to_numpy(), ufunc(x, y))
        mask = rng.random(((n, m), (m,), ())[rng.integers(3)]) < 0.5
        target, own = np.zeros((m, n), np.float32).T, sf.zeros((m, n), BF).T
        ufunc(x, y, out=target, where=mask)
        assert ufunc(a, b, out=own, where=mask) is own
        assert_same_bits(own.to_numpy(), target)
        into, mine = x.copy(), a.copy()
        np.add(into, y, out=into[::-1])
        np.add(mine, b, out=mine[::-1])  # overlaps what is read
        assert_same_bits(mine.to_numpy(), into)


REDUCTIONS = {np.add: 0, np.multiply: 1, np.maximum: -9, np.minimum: 9}


@pytest.mark.parametrize("seed", range(4))
def test_reductions_over_axes_with_initial_and_where_do_what_numpy_does(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        x = rng.integers(-2, 3, rng.integers(1, 4, 3)).astype(np.float32)
        a = sf.array(x, sf.binary32)
        ufunc = list(REDUCTIONS)[rng.integers(4)]
        axis = [None, 0, -1, (0, 2), (1, -1), (), (0, 1, 2)][rng.integers(7)]
        options = {"axis": axis, "keepdims": bool(rng.integers(2))}
        if rng.random() < 0.6:
            options["initial"] = float(rng.integers(-3, 4))
        if rng.random() < 0.5:
            options["where"] = rng.random(x.shape[-1:]) < 0.6
            options.setdefault("initial", REDUCTIONS[ufunc])
        got, expected = ufunc.reduce(a, **options), ufunc.reduce(x, **options)
        # A sum that starts at +0 has no -0, NumPy's may.
        assert_same_bits(got.to_numpy() + np.float32(0), expected + np.float32(0))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum])
def test_at_repeats_repeated_indices(ufunc):
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = integers(rng, 4, 3)
        a = sf.array(x, sf.binary32)
        key = rng.integers(-4, 4, 7)
        key = key if rng.random() < 0.5 else (key, rng.integers(0, 3, 7))
        b = integers(rng, *((7,) if isinstance(key, tuple) else (7, 1)))
        ufunc.at(x, key, b)
        ufunc.at(a, key, sf.array(b, sf.binary32))
        assert_same_bits(a.to_numpy(), x)
        view = sf.array(x, sf.binary32)
        ufunc.at(view[::-1, 1:], ([0, 0, -1], [1, 0, 1]), 2.0)
        ufunc.at(x[::-1, 1:], ([0, 0, -1], [1, 0, 1]), 2.0)
        assert_same_bits(view.to_numpy(), x)


def test_views_of_views_write_through():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = sf.array(x, BF)
    for z in (x, a):
        z.transpose(2, 0, 1)[::-1].swapaxes(0, 2)[1, :, ::2][...] = 7
        z[..., None].squeeze(-1)[0].T[3] = 9
        z.reshape(6, 4)[::5].ravel("K")[0] = -1
    assert_same_bits(a.to_numpy(), x)


# ---------------------------------------------------------------- storage
def test_pickles_keep_bits_views_and_scalars():
    a = sf.array([[0.1, -0.0], [np.nan, np.inf]], "float8_e5m2")
    for x in (a, a.T, a[::-1, 1:], a[0, 0], a[:0], sf.FixedPoint(3, 4)([0.1, 2])):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            y = pickle.loads(pickle.dumps(x, protocol))
            assert y.format == x.format and y.shape == x.shape
            assert_same_bits(y.to_numpy(), x.to_numpy())
        for y in (copy.copy(x), copy.deepcopy(x)):
            assert_same_bits(y.to_numpy(), x.to_numpy())
            assert not y.ndim or not np.shares_memory(x, y)
    twice = pickle.loads(pickle.dumps([a, a]))
    assert twice[0] is twice[1]
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(a[0, 0]))[()] = 1


def test_a_pickle_is_read_in_another_process():
    a = sf.array([0.1, 2.0], sf.Format(4, 3, bias=9, specials="finite"))
    script = (
        "import pickle, sys; a = pickle.loads(bytes.fromhex(sys.argv[1])); "
        "print(type(a).__name__, a.format.bias, a.codes.tolist())"
    )
    command = [sys.executable, "-c", script, pickle.dumps(a).hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"SoftArray 9 {a.codes.tolist()}"


# ---------------------------------------------------------------- threads and tasks
def test_every_thread_has_its_own_rounding():
    a, wrong = sf.array([1.0], BF), []
    modes = ["toward_positive", "toward_negative", "ties_to_even", "toward_zero"]
    expected = {m: float(sf.divide(np.ones(1, np.float32), 3.0, BF, rounding=m)[0]) for m in modes}
    barrier = threading.Barrier(len(modes))

    def work(mode):
        barrier.wait()
        for _ in range(200):
            with sf.rounding(mode):
                if float((a / 3)[0]) != expected[mode]:
                    wrong.append(mode)
            if float((a / 3)[0]) != expected["ties_to_even"]:
                wrong.append("after " + mode)

    threads = [threading.Thread(target=work, args=(mode,)) for mode in modes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_every_task_has_its_own_rounding_and_random_words():
    a = sf.array(np.full(50, 0.7), BF)

    async def alone(seed):
        with sf.rounding("stochastic", seed=seed):
            first = a / 3
            await asyncio.sleep(0)
            second = a / 3
            await asyncio.sleep(0)
            return np.concatenate([first, second, np.exp(a)]).to_numpy()

    async def both():
        return await asyncio.gather(*(alone(seed) for seed in (1, 2, 1)))

    x, y, z = asyncio.run(both())
    assert_same_bits(x, asyncio.run(alone(1)))
    assert_same_bits(x, z)
    assert (x != y).any()
    assert (x[:50] != x[50:100]).any()


# ---------------------------------------------------------------- a processor that is not as usual
X86 = platform.machine().lower() in ("x86_64", "amd64")
FLUSH, UPWARD, USUAL = 0x9FC0, 0x5F80, 0x1F80  # MXCSR, as in test_reliability


@numba.njit
def set_control_word(word):
    leave_standard_arithmetic(word)


def evidence(result):
    """What there is to compare of a result."""
    if isinstance(result, (tuple, list)):
        return [evidence(r) for r in result]
    if isinstance(result, sf.SoftArray):
        return result._values.tobytes()
    return result.tobytes() if isinstance(result, (np.ndarray, np.generic)) else repr(result)


def tiny_calls():
    rng = np.random.default_rng(0)
    a = sf.array(rng.normal(size=12) * 2.0**-131, BF).reshape(3, 4)
    b = sf.array(rng.normal(size=12) * 2.0**-130, BF).reshape(3, 4)
    wide = sf.array(rng.normal(size=6) * 2.0**-1070, sf.binary64)
    x, numbers = a.to_numpy(), a.tolist()
    return {
        "operators": lambda: [a + b, a - b, a / 3, a % b, a // b, -a, abs(a), a < b, a == 0, divmod(a, b)],
        "ufuncs": lambda: [np.fmod(a, b), np.sign(a), np.heaviside(a, 1.0), np.modf(a), np.frexp(a),
                           np.logical_not(a), np.logical_and(a, b), np.spacing(a), np.copysign(b, a)],
        "elementary": lambda: [np.exp2(a), np.sin(a), np.sinh(a), np.hypot(a, b), np.power(a, 2)],
        "truth": lambda: [np.any(a), np.all(a), a.nonzero(), np.count_nonzero(a), bool(a[0, 0]), a != a],
        "order": lambda: [np.sort(a), np.argsort(a), a.argmax(), np.unique(a), np.searchsorted(np.sort(a[0]), b),
                          np.max(a, axis=0), np.median(a), np.quantile(a, 0.3), np.clip(a, -1e-40, 1e-40)],
        "out": lambda: [a.to_numpy(), a.to_numpy(np.float64), a.tolist(), float(a[0, 0]), a[0, 0].item(),
                        repr(a), str(b), hash(a[0, 0]), a.codes, f"{a[0, 0]:.3e}", wide.tolist()],
        "in": lambda: [sf.array(x, BF), sf.array(numbers, BF), sf.array(1e-39, BF), sf.full(3, 1e-40, BF),
                       a.astype(sf.binary32), wide.astype(sf.binary64), a + x, a * 1.5, 1e-39 + a, a < 1e-39,
                       sf.from_codes(a.codes, BF), sf.linspace(0.0, 1e-38, 5, fmt=BF)],
        "functions": lambda: [np.sum(a), np.mean(a), np.var(b * 2.0**70), np.cumsum(a), np.where(a > 0, a, b),
                              np.diff(a), np.allclose(a, b), np.trapezoid(a), np.nan_to_num(a), np.round(a, 40)],
        "products": lambda: [a @ b.T, np.einsum("ij,ij->i", a, b), np.inner(a, b), np.linalg.norm(a), np.cov(b)],
        "division by tiny": lambda: [sf.ones(4, BF) / a[0], np.reciprocal(b), wide / 3, wide % 1e-310],
    }  # fmt: skip


@pytest.mark.skipif(not X86, reason="sets the control word of x86")
@pytest.mark.parametrize(
    "word", [FLUSH, 0x8000 | USUAL, 0x0040 | USUAL, UPWARD], ids=["both", "ftz", "daz", "up"]
)
@pytest.mark.parametrize("name", list(tiny_calls()))
def test_nothing_depends_on_the_control_word(name, word):
    expected = evidence(tiny_calls()[name]())
    calls = tiny_calls()[name]
    set_control_word(word)
    try:
        unusual = not as_usual()
        results = calls()
        still = not as_usual()
    finally:
        set_control_word(USUAL)
    assert unusual and still  # as the caller left it
    assert evidence(results) == expected


# ---------------------------------------------------------------- out= of the package's functions
A, B = sf.array([1.0, 2.0, 3.0], BF), sf.array([0.1, 0.2, 0.3], BF)
INTO = {
    "quantize": lambda out: sf.quantize([0.1, 0.2, 0.3], BF, out=out),
    "add": lambda out: sf.add(A, B, BF, out=out),
    "fma": lambda out: sf.fma(A, B, A, BF, out=out),
    "exp": lambda out: sf.exp(A, BF, out=out),
    "decode": lambda out: sf.decode([1, 2, 3], BF, out=out),
    "minimum": lambda out: sf.minimum(A, B, out=out),
    "next_up": lambda out: sf.next_up(A, BF, out=out),
    "spacing": lambda out: sf.spacing(A, BF, out=out),
    "negative": lambda out: sf.negative(A, out=out),
    "scalbn": lambda out: sf.scalbn(A, 3, BF, out=out),
    "sum": lambda out: sf.sum(np.ones((3, 2)), BF, axis=1, out=out),
    "cumsum": lambda out: sf.cumsum(A, BF, out=out),
    "matmul": lambda out: sf.matmul(np.eye(3), A, BF, out=out),
    "dot": lambda out: sf.dot(A, B[0], BF, out=out),
    "einsum": lambda out: sf.einsum("i,i->i", A, B, BF, out=out),
    "tensordot": lambda out: sf.tensordot(np.eye(3), A, BF, 1, out=out),
}


@pytest.mark.parametrize("name", INTO)
def test_functions_of_the_package_write_into_softarrays_of_their_format(name):
    call = INTO[name]
    expected = np.asarray(getattr(call(None), "_values", call(None)))
    whole = sf.zeros(6, BF)
    target = whole[::2]
    assert call(target) is target
    assert_same_bits(whole.to_numpy()[::2], expected)
    assert not whole[1::2].any()
    with pytest.raises(TypeError, match="must hold values of bfloat16.*got binary16"):
        call(sf.zeros(3, HALF))
    with pytest.raises(ValueError, match="shape"):
        call(sf.zeros(4, BF))


def test_codes_do_not_go_into_a_softarray():
    with pytest.raises(TypeError, match="plain NumPy array"):
        sf.encode(A, BF, out=A.copy())


def test_results_may_overwrite_their_operands():
    a, b = A.copy(), B.copy()
    sf.subtract(a[::-1], b, BF, out=a)
    assert_same_bits(a.to_numpy(), sf.subtract(A[::-1], B, BF).to_numpy())


# ---------------------------------------------------------------- out= of NumPy's functions
M = sf.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]], BF)
FILLED = {
    **{
        name: lambda out, name=name: getattr(np, name)(M, axis=0, out=out)
        for name in (
            *("sum", "prod", "max", "min", "mean", "var", "std", "ptp", "median"),
            *("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian"),
        )
    },
    "quantile": lambda out: np.quantile(M, 0.3, axis=0, out=out),
    "nanpercentile": lambda out: np.nanpercentile(M, 30, axis=0, out=out),
    "round": lambda out: np.round(B, 1, out=out),
    "rint": lambda out: np.round(B, out=out),
    "fix": lambda out: np.fix(B, out=out),
    "clip": lambda out: np.clip(B, 0.15, 0.25, out=out),
    "clip nothing": lambda out: np.clip(B, None, None, out=out),
    "cumsum": lambda out: np.cumsum(B, out=out),
    "cumprod": lambda out: np.cumprod(B, out=out),
    "nancumsum": lambda out: np.nancumsum(B, out=out),
    "take": lambda out: np.take(B, [2, 0, 0], out=out),
    "concatenate": lambda out: np.concatenate([B[:1], B[:2]], out=out),
    "stack": lambda out: np.stack([B[0], B[1], B[0]], out=out),
    "choose": lambda out: np.choose([0, 1, 0], [A, B], out=out),
    "compress": lambda out: np.compress([1, 1, 1], B, out=out),
    "dot": lambda out: np.dot(M, B, out=out),
    "trace": lambda out: np.trace(np.stack([M, M, M]), axis1=1, axis2=2, out=out),
    "einsum": lambda out: np.einsum("ij,j->i", M, B, out=out),
    "a view of einsum": lambda out: np.einsum("ii->i", M, out=out),
    "multi_dot": lambda out: np.linalg.multi_dot([M, M, B], out=out),
    "matmul": lambda out: np.matmul(M, B, out=out),
    "add": lambda out: np.add(A, B, out=out),
    "reduce": lambda out: np.subtract.reduce(M, out=out),
    "reduceat": lambda out: np.add.reduceat(A, [0, 1, 0], out=out),
    "accumulate": lambda out: np.subtract.accumulate(A, out=out),
    **(
        {"cumulative_sum": lambda out: np.cumulative_sum(B, out=out)}
        if hasattr(np, "cumulative_sum")
        else {}
    ),
}


@pytest.mark.parametrize("name", FILLED)
def test_functions_of_numpy_write_into_softarrays_of_the_results_format_and_shape(name):
    call = FILLED[name]
    expected = call(None).to_numpy()
    whole = sf.zeros(6, BF)
    target = whole[::2]
    assert call(target) is target
    assert_same_bits(target.to_numpy(), expected)
    assert not whole[1::2].any()
    with pytest.raises(TypeError, match="bfloat16.*binary16"):
        call(sf.zeros(3, HALF))
    with pytest.raises(TypeError, match="out= must be a SoftArray.*ndarray"):
        call(np.zeros(3))
    with pytest.raises((ValueError, TypeError)):
        call(sf.zeros(4, BF))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "median", "dot", "einsum"])
def test_what_is_reduced_does_not_spread_over_a_larger_array(name):
    with pytest.raises(ValueError, match="shape"):
        FILLED[name](sf.zeros((2, 3), BF))
    spread = sf.zeros((2, 3), BF)
    assert np.add(A, B, out=spread) is spread  # an elementwise call does, as NumPy's
    assert_same_bits(spread.to_numpy(), np.stack([(A + B).to_numpy()] * 2))


@pytest.mark.parametrize("function", [np.all, np.any, np.argmax, np.argmin, np.isnan, np.less])
def test_truths_and_indices_do_not_go_into_a_softarray(function):
    operands = (A, B) if function is np.less else (A,)
    shape = () if function in (np.all, np.any, np.argmax, np.argmin) else 3
    with pytest.raises(TypeError, match="out= must be a NumPy array"):
        function(*operands, out=sf.zeros(shape, BF))


# ---------------------------------------------------------------- messages
MISUSE = {
    "two formats": (lambda a: a + sf.ones(3, HALF), "bfloat16.*binary16.*astype"),
    "a number between": (
        lambda a: a + np.array([1.0, 0.1, 1.0]),
        r"element 1.*0\.1.*softfloat\.array",
    ),
    "text": (lambda a: a + "1", "str"),
    "none": (lambda a: np.add(a, None), "None"),
    "complex": (lambda a: a + 1j, "complex"),
    "a choice of none": (lambda a: np.where(a > 1, a, None), "None"),
    "nothing to join": (lambda a: np.append(a, None), "None"),
    "shapes": (lambda a: a + sf.ones(4, BF), r"\(3,\).*\(4,\)"),
    "a plain out": (lambda a: np.add(a, a, out=np.zeros(3)), "out= must be a SoftArray.*ndarray"),
    "out of another format": (lambda a: np.add(a, a, out=sf.zeros(3, HALF)), "bfloat16.*binary16"),
    "out of another shape": (lambda a: np.add(a, a, out=sf.zeros(4, BF)), r"\(3,\).*\(4,\)"),
    "read-only out": (lambda a: np.add(a[0], a[1], out=a[2]), "read-only"),
    "several truths": (lambda a: bool(a), "ambiguous"),
    "a float of several": (lambda a: float(a), "scalar.*(3,)"),
    "an index": (lambda a: [1, 2, 3][a[0]], "SoftArray|integer"),
    "a soft key": (lambda a: a[a], r"an index takes.*bfloat16.*astype\(int\)"),
    "a soft key among others": (lambda a: a[..., a[0]], r"an index takes.*astype\(int\)"),
    "a soft place to set": (lambda a: a.copy().__setitem__(a, 1), r"an index takes.*astype"),
    "a device": (lambda a: a.to_device("tpu"), 'device must be "cuda" or "cpu".*tpu'),
    "a step that is no format": (lambda a: sf.arange(0, 1, "0.1"), "name the format"),
    "a float key": (lambda a: a[1.5], "integers"),
    "a dtype": (lambda a: a.astype("float99"), "float99"),
    "casting": (lambda a: np.add(a, a, casting="no"), "casting"),
    "an axis": (lambda a: np.sum(a, axis=1), "axis"),
    "soft indices": (lambda a: np.take(a, a), r"indices= of np\.take.*bfloat16.*astype\(int\)"),
    "soft counts": (lambda a: np.repeat(a, a), r"repeats= of np\.repeat.*astype\(int\)"),
    "a soft choice": (lambda a: np.choose(a, [a, a]), r"a= of np\.choose.*astype\(int\)"),
    "soft conditions": (lambda a: np.select([a], [a]), r"condlist= of np\.select.*a != 0"),
    "a soft place": (lambda a: np.put(a.copy(), a, 1), r"ind= of np\.put.*astype\(int\)"),
    "a soft where": (lambda a: np.add(a, a, where=a), r"where= of np\.add.*a != 0"),
    "a sum where": (lambda a: np.sum(a, where=a), r"where= of np\.add\.reduce.*a != 0"),
    "a copy where": (lambda a: np.copyto(a.copy(), 1, where=a), r"where= of np\.copyto.*a != 0"),
    "half a number": (lambda a: sf.linspace(0, 1, 2.5, fmt=BF), "num must be an integer.*2.5"),
    "less than none": (lambda a: sf.linspace(0, 1, -3, fmt=BF), "num must be .*-3"),
    "a soft number": (lambda a: np.linspace(a[0], a[1], a[2]), "num must be an integer"),
    "no elements": (lambda a: np.max(a[:0]), "no elements.*initial"),
    "a set seed": (lambda a: sf.rounding("stochastic"), "seed"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_messages_say_what_was_given_and_what_to_do(name):
    call, said = MISUSE[name]
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        call(A)
    assert re.search(said, str(caught.value), re.S), str(caught.value)


def test_soft_conditions_are_true_where_not_zero():
    x = np.array([1.0, 0.0, -0.0, np.nan, -2.0])
    a, plain = sf.array(x, BF), np.arange(5.0)
    mask = x != 0
    assert_same_bits(np.where(a, a, -1).to_numpy(), np.where(mask, x, -1.0))
    assert_same_bits(np.where(a, plain, -1.0), np.where(mask, plain, -1.0))
    assert np.where(a)[0].tolist() == [0, 3, 4]
    assert_same_bits(np.compress(a, a).to_numpy(), x[mask])
    assert_same_bits(np.extract(a, plain), plain[mask])
    for change in (lambda y: np.putmask(y, a, 7), lambda y: np.place(y, a, [7.0])):
        changed = a.copy()
        change(changed)
        assert_same_bits(changed.to_numpy(), np.where(mask, 7.0, x))


def test_at_takes_indices_of_every_form():
    table = np.arange(12.0).reshape(4, 3)
    for key in (
        slice(1, 3),
        (slice(None), 0),
        Ellipsis,
        None,
        (0, slice(0, 2)),
        table > 4,
        ([0, 0], 1),
    ):
        a, plain = sf.array(table, sf.binary64), table.copy()
        np.add.at(a, key, 1)
        np.add.at(plain, key, 1)
        assert a.tolist() == plain.tolist(), key


# ---------------------------------------------------------------- out of the format
def test_indices_and_masks_are_plain_arrays():
    a = sf.array([-1.75, 0.0, 2.5, 300.0], BF)
    for dtype in (int, np.int16, "int32", np.dtype("i8")):
        got = a.astype(dtype)
        assert type(got) is np.ndarray
        assert got.dtype == np.dtype(dtype)
        assert got.tolist() == [-1, 0, 2, 300]
    assert a.astype(int, rounding="toward_negative").tolist() == [-2, 0, 2, 300]
    assert a.astype(bool).tolist() == [True, False, True, True]
    assert np.arange(400)[a[1:].astype(int)].tolist() == [0, 2, 300]
    with pytest.raises(ValueError, match="300"):
        a.astype(np.int8)
    with pytest.raises(ValueError, match="nan|NaN"):
        sf.array([np.nan], BF).astype(int)
    with pytest.raises(ValueError, match="complex"):
        a.astype(complex)


def test_whole_numbers_of_scalars_are_pythons():
    x = BF(-2.5)
    got = [math.floor(x), math.ceil(x), math.trunc(x), round(x), int(x)]
    assert got == [-3, -2, -2, -2, -2]
    assert {type(v) for v in got} == {int}
    with pytest.raises(OverflowError):
        math.floor(BF(np.inf))
    with pytest.raises(TypeError, match="scalar"):
        math.floor(A)


def test_strange_things_are_not_contained():
    assert None not in A
    assert "1" not in A
    assert np.float32(2) in A


def test_logspace_raises_the_base_to_linspace():
    got = np.logspace(A[0], A[2], 5, base=2.0)
    assert_same_bits(got.to_numpy(), np.power(2.0, np.linspace(A[0], A[2], 5)).to_numpy())
    assert [float(got[i]) for i in (0, 2, 4)] == [2, 4, 8]


# ---------------------------------------------------------------- what is masked out
@pytest.mark.parametrize(
    "fmt",
    [BF, "float8_e4m3fn", sf.binary64, sf.FixedPoint(3, 4), "float8_e8m0fnu"],
    ids=lambda f: sf.as_format(f).label,
)
def test_no_ufunc_raises_a_flag_where_nothing_is_asked_for(fmt):
    x = sf.array([3.0, 0.7], fmt)
    for ufunc, rule in UFUNCS.items():
        if rule.elementwise:
            operands = [x, np.array([3, 4])] if rule.integers else [x] * ufunc.nin
            with sf.status() as flags:
                ufunc(*operands, where=np.zeros(2, bool))
            raised = (
                flags.inexact,
                flags.underflow,
                flags.overflow,
                flags.invalid,
                flags.divide_by_zero,
            )
            assert not any(raised), ufunc
