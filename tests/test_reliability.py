"""Threads, forks, spawned workers, a processor that flushes subnormals, Ctrl-C, read-only installs and stale caches."""

import multiprocessing
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numba
import numpy as np
import pytest

import softfloat as sf
from softfloat.backends.threads import SERIAL_BELOW
from softfloat.bits import leave_standard_arithmetic

LONG = 4 * SERIAL_BELOW + 17
PACKAGE = pathlib.Path(sf.__file__).parent


def sample(n=LONG, dtype=np.float32):
    return np.random.default_rng(5).standard_normal(n).astype(dtype)


def work(x):
    """Calls that use several threads: fast, stochastic, and by the definition."""
    return [
        sf.quantize(x, sf.binary16),
        sf.quantize(x, sf.bfloat16, rounding="stochastic", seed=3),
        sf.add(x, x[::-1], sf.binary16, rounding="toward_zero"),
        sf.quantize(x[: SERIAL_BELOW + 1], sf.binary16, rounding="stochastic", seed=3, variant="C"),
    ]


def same(left, right):
    return all(
        np.array_equal(a.view(np.uint32), b.view(np.uint32))
        for a, b in zip(left, right, strict=True)
    )


@pytest.fixture
def two_threads():
    before = sf.get_num_threads()
    sf.set_num_threads(2)
    yield
    sf.set_num_threads(before)


def test_one_two_and_five_threads_give_the_same_bits():
    x = sample()
    before = sf.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            sf.set_num_threads(threads)
            results.append(work(x))
    finally:
        sf.set_num_threads(before)
    assert same(results[0], results[1]) and same(results[0], results[2])


def test_chunks_with_offset_give_the_bits_of_the_whole():
    x = sample(10_001)
    whole = sf.quantize(x, sf.bfloat16, rounding="SR", seed=9)
    for cut in (1, 2, 777, 5000):
        parts = [
            sf.quantize(x[:cut], sf.bfloat16, rounding="SR", seed=9),
            sf.quantize(x[cut:], sf.bfloat16, rounding="SR", seed=9, offset=cut),
        ]
        assert np.array_equal(np.concatenate(parts), whole)


def test_layout_does_not_change_stochastic_bits():
    x = sample(6000).reshape(60, 100)
    want = sf.quantize(x, sf.bfloat16, rounding="SR", seed=9)
    for same_values in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
        assert np.array_equal(sf.quantize(same_values, sf.bfloat16, rounding="SR", seed=9), want)
    out = np.empty((100, 60), np.float32).T
    assert np.array_equal(sf.quantize(x, sf.bfloat16, rounding="SR", seed=9, out=out), want)


def test_eight_python_threads_call_parallel_kernels(two_threads):
    x = sample()
    want = work(x)
    wrong = []

    def caller():
        for _ in range(5):
            if not same(work(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=caller) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def _child(queue, x):
    queue.put([a.tobytes() for a in work(x)])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_give_the_same_bits_after_a_parallel_call(method, two_threads):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    x = sample()
    want = [a.tobytes() for a in work(x)]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_child, args=(queue, x)) for _ in range(2)]
    for worker in workers:
        worker.start()
    got = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert got == [want, want] and all(worker.exitcode == 0 for worker in workers)


X86 = platform.machine().lower() in ("x86_64", "amd64")
FLUSH, UPWARD = 0x9FC0, 0x5F80  # MXCSR: flush to zero and denormals are zero; round toward positive


@numba.njit
def set_control_word(word):
    leave_standard_arithmetic(word)


@pytest.mark.skipif(not X86, reason="sets the control word of x86")
@pytest.mark.parametrize("word", [FLUSH, UPWARD], ids=["flush", "round-up"])
@pytest.mark.parametrize("rounding", sf.Rounding, ids=str)
def test_results_do_not_depend_on_the_control_word(word, rounding, two_threads):
    seed = {"seed": 1} if rounding.value.startswith("stochastic") else {}
    tiny = np.float32(2.0**-126) * sample(3000)
    wide = sample(3000, np.float64) * 2.0**-1022
    a, b = sample(3000), tiny[::-1].copy()
    calls = [
        lambda: sf.quantize(tiny, sf.bfloat16, rounding=rounding, **seed),
        lambda: sf.quantize(tiny, sf.binary16, rounding=rounding, **seed),
        lambda: sf.quantize(wide, sf.Format(11, 20), rounding=rounding, **seed),
        lambda: sf.quantize(wide, sf.Format(9, 20), rounding=rounding, **seed),
        lambda: sf.multiply(a, b, sf.bfloat16, rounding=rounding, **seed),
        lambda: sf.add(tiny, b, sf.binary32, rounding=rounding, **seed),
        lambda: sf.divide(wide, a.astype(np.float64), sf.binary64, rounding=rounding, **seed),
    ]
    want = [call() for call in calls]
    set_control_word(word)
    try:
        got = [call() for call in calls]
    finally:
        set_control_word(0x1F80)
    for left, right in zip(got, want, strict=True):
        assert left.tobytes() == right.tobytes()


@pytest.mark.skipif(not X86, reason="sets the control word of x86")
def test_the_control_word_is_given_back():
    @numba.njit
    def flushes(a):
        return a[0] * np.float32(0.5) == np.float32(0)

    smallest = np.array([2.0**-126], np.float32)
    assert not flushes(smallest)
    set_control_word(FLUSH)
    try:
        sf.quantize(smallest, sf.binary16)
        kept = flushes(smallest)
    finally:
        set_control_word(0x1F80)
    assert kept


def run_script(script, folder=None, **environment):
    """Run Python code in a process of its own; with folder as its current one, modules there come first."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_stops_a_long_call_within_a_second():
    script = """
    import numpy as np, softfloat as sf, time, sys
    x = np.ones(30_000_000)
    sf.divide(x[:1000], x[:1000], sf.binary64)
    print("ready", flush=True)
    start = time.perf_counter()
    try:
        sf.divide(x, x, sf.binary64)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        y = sf.quantize(x[:300000].astype(np.float32), sf.binary16)
        print("works", float(y.sum()) == 300000.0)
    else:
        print("finished", time.perf_counter() - start)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        assert process.stdout.readline().strip() == "stopped"
        waited = time.perf_counter() - sent
        assert process.stdout.readline().strip() == "works True"
    assert waited < 1.0


def copy_of_package(folder):
    target = folder / "softfloat"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def test_a_changed_helper_is_never_served_from_the_cache(tmp_path):
    package = copy_of_package(tmp_path)
    script = "import softfloat as sf; print(sf.quantize([1.1], 'binary16', variant='C', rounding='SR', seed=1)[0])"
    where = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = run_script(script, tmp_path, **where)
    again = run_script(script, tmp_path, **where)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    codec = package / "codec.py"
    text = codec.read_text()
    assert "    return bits\n" in text
    # The helper of another file now gives negated results.
    codec.write_text(text.replace("    return bits\n", "    return bits | sign\n"))
    changed = run_script(script, tmp_path, **where)
    assert changed.stdout.strip() == "-" + first.stdout.strip(), changed.stderr


def test_a_read_only_install_works_and_says_once_that_nothing_is_cached(tmp_path):
    copy_of_package(tmp_path)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder would have to be")
    script = """
    import numpy as np, softfloat as sf
    x = np.ones(10, np.float32)
    print(sf.quantize(x, "binary16")[0], sf.quantize(x, "bfloat16", rounding="RTZ")[0])
    """
    done = run_script(script, tmp_path, NUMBA_CACHE_DIR=str(blocked))
    assert done.returncode == 0 and done.stdout.split() == ["1.0", "1.0"]
    assert done.stderr.count("CacheWarning") == 1 and "NUMBA_CACHE_DIR" in done.stderr


def test_a_damaged_cache_file_counts_as_a_miss(tmp_path):
    script = "import softfloat as sf; print(sf.quantize([1.1], 'binary16')[0])"
    first = run_script(script, NUMBA_CACHE_DIR=str(tmp_path))
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:40])
    again = run_script(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert again.returncode == 0 and again.stdout == first.stdout


def test_a_first_call_compiles_only_what_it_runs(tmp_path):
    script = """
    import numpy as np, softfloat as sf
    sf.quantize(np.ones(10, np.float32), "bfloat16")
    """
    done = run_script(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    kept = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert not any("exact" in name or "scaled" in name or "in_place" in name for name in kept), kept
    assert any("round_loop" in name for name in kept)


def test_code_from_several_processes_is_not_confused():
    """numba numbers functions within a process, so that two from the cache may bear one number."""
    script = """
import itertools
from numba.core.bytecode import FunctionIdentity
from softfloat._jit import jit

def compiled(function):
    FunctionIdentity._unique_ids = itertools.count(1)  # as in a process of its own
    function(1.0)
    return function

def factory(k):
    @jit
    def plus(x):
        return x + k
    return plus

one, two = compiled(factory(1.0)), compiled(factory(2.0))
three, four = [compiled(f) for f in (jit(lambda x: x * 3.0),
                                     jit(lambda x: x * 4.0))]

@jit
def all_four(x):
    return one(x), two(x), three(x), four(x)

print(all_four(10.0))
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "(11.0, 12.0, 30.0, 40.0)"
