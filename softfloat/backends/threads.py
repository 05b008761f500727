"""Splitting a long array over threads: plain Python threads around compiled loops that release the GIL.

numba's own layers abort when two Python threads use them at once (workqueue) or die in a forked child (GNU OpenMP).
Here a pool belongs to one process and is made anew after a fork; chunks are cut at fixed places, and since no result
depends on where, none depends on the number of threads. Between chunks a waiting Ctrl-C is answered.
"""

import operator
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait

_lock = threading.Lock()
_pool = None
_pool_owner = None
_threads = None
ALIGN = 1024  # chunk edges are multiples of this many elements
SERIAL_BELOW = 1 << 17  # elements that are not worth waking a second thread for


def _default_threads():
    text = os.environ.get("SOFTFLOAT_NUM_THREADS")
    if text:
        try:
            return max(1, int(text))
        except ValueError:
            raise ValueError(
                f"SOFTFLOAT_NUM_THREADS must be a positive integer, got {text!r}"
            ) from None
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def get_num_threads():
    """How many threads long calls use: all available cores, or what set_num_threads or SOFTFLOAT_NUM_THREADS said."""
    global _threads
    if _threads is None:
        _threads = _default_threads()
    return _threads


def set_num_threads(n):
    """Set the number of threads for this process. Results never depend on it."""
    global _threads
    try:
        count = operator.index(n)
    except TypeError:
        count = 0
    if isinstance(n, bool) or count < 1:
        raise ValueError(f"the number of threads must be a positive integer, got {n!r}")
    _threads = count


def _executor(threads):
    global _pool, _pool_owner
    owner = (os.getpid(), threads)
    with _lock:
        if _pool is None or _pool_owner != owner:
            # A pool of another process is left alone: its threads do not exist here.
            if _pool is not None and _pool_owner[0] == owner[0]:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="softfloat")
            _pool_owner = owner
        return _pool


def _after_fork():
    global _lock, _pool
    _lock = threading.Lock()
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_chunks(task, size, grain):
    """Call task(start, stop), as `run_parts` does, for chunks of about `grain` elements that cover range(size)."""
    threads = get_num_threads() if size >= SERIAL_BELOW else 1
    if threads > 1:
        share = -(-size // (4 * threads))  # several chunks a thread: one may be slower than another
        grain = max(ALIGN, min(grain, -(-share // ALIGN) * ALIGN))
    run_parts(
        task, [(at, min(size, at + grain)) for at in range(0, size, grain)] or [(0, 0)], threads
    )


def run_parts(task, parts, threads):
    """Call task(*part) for each part of a list, in up to so many threads.

    Parts may run at the same time in other threads, so tasks must not depend on each other. An exception, Ctrl-C
    included, is raised once the parts in progress have ended; no further ones begin.
    """
    if min(threads, len(parts)) == 1:
        for part in parts:
            task(*part)
        return
    remaining = iter(parts)
    take = threading.Lock()
    stopped = False

    def work():
        nonlocal stopped
        try:
            while True:
                with take:
                    part = None if stopped else next(remaining, None)
                if part is None:
                    return
                task(*part)
        except BaseException:
            stopped = True
            raise

    helpers = []
    try:
        for _ in range(min(threads, len(parts)) - 1):
            helpers.append(_executor(threads).submit(work))
    except RuntimeError:
        pass  # no more threads are to be had, or the interpreter is shutting down: fewer will do
    try:
        work()
    finally:
        # Helpers that have not begun are called off; those at work end with their chunk.
        stopped = True
        wait([helper for helper in helpers if not helper.cancel()])
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
