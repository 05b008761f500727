"""Runs as jobs: plain dicts, each done once, kept in a file of its own, and spread over processes.

A job says everything that its result depends on; the name of the result's file is a checksum of the job and of the
package's version. So a finished run is never repeated, and one that was killed goes on from its checkpoint, beside it.
"""

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import wait
from pathlib import Path

from softfloat import __version__, set_num_threads
from softfloat.experiments.kinds import check_jobs, run_job
from softfloat.training.checkpoint import Checkpoint
from softfloat.training.report import check_folder, write_atomically

RUNS = "runs"
PAUSE = 0.2  # seconds between two messages of progress


def job_name(job):
    """The checksum that names a job's file."""
    text = json.dumps([__version__, job], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """A folder of finished runs, one JSON file each, and of the checkpoints of those at hand.

    seconds : of work between two checkpoints, see Checkpoint.   Raises ValueError where nothing can be written.
    """

    def __init__(self, folder, seconds=10.0):
        self.folder = Path(folder) / RUNS
        self.seconds = seconds
        check_folder(self.folder)

    def path(self, job):
        return self.folder / f"{job_name(job)}.json"

    def get(self, job):
        """The result of a job, None where there is none that can be read."""
        try:
            kept = json.loads(self.path(job).read_text(encoding="utf-8"))
            return kept["result"] if kept["job"] == json.loads(json.dumps(job)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, job, result):
        text = json.dumps({"job": job, "version": __version__, "result": result}, allow_nan=False)
        write_atomically(self.path(job), text + "\n")
        self.checkpoint(job).remove()

    def checkpoint(self, job):
        """The Checkpoint of a job; a file that cannot be gone on from counts as none."""
        path = self.folder / f"{job_name(job)}.checkpoint.npz"
        return Checkpoint(path, self.seconds, strict=False)


def run_jobs(jobs, store, *, processes=None, on_share=None, on_done=None):
    """Do every job that the store lacks; returns (results in the order of the jobs, messages of failed ones).

    Raises ValueError or FileNotFoundError, before anything runs, if data that jobs need cannot be read.

    processes : None for one on each core; 1 works in this process.   on_share : called as on_share(index, share done).
    on_done : called as on_done(index, result) for every job, those that were kept too.
    A job that raises has the result None and a message; the others go on. Ctrl-C raises KeyboardInterrupt.
    """
    jobs = list(jobs)
    if processes is not None and (
        isinstance(processes, bool) or int(processes) != processes or processes < 1
    ):
        raise ValueError(f"processes must be a positive integer, got {processes!r}")
    call = _Calls(on_share, on_done)
    results = [store.get(job) for job in jobs]
    for i, result in enumerate(results):
        if result is not None:
            call.done(i, result)
    first = {}  # the same job twice is done once
    for i, result in enumerate(results):
        if result is None:
            first.setdefault(job_name(jobs[i]), i)
    missing = list(first.values())
    check_jobs([jobs[i] for i in missing])
    count = min(processes or cores(), len(missing))
    work = _alone if count <= 1 else _together
    failed = work(jobs, missing, store, count, call)
    for i, job in enumerate(jobs):
        if results[i] is None:
            results[i] = store.get(job)
            if i not in missing and results[i] is not None:
                call.done(i, results[i])
    return results, [failed[i] for i in sorted(failed)]


def cores():
    """The number of cores that this process may use."""
    known = getattr(os, "sched_getaffinity", None)
    return len(known(0)) if known else os.cpu_count() or 1


class _Calls:
    """The two callbacks, or nothing in their place."""

    def __init__(self, on_share, on_done):
        nothing = lambda *_: None  # noqa: E731
        self.share, self.done = on_share or nothing, on_done or nothing


def _message(job, error):
    return (
        f"{job.get('recipe', job['kind'])}, seed {job.get('seed')}: {type(error).__name__}: {error}"
    )


def _alone(jobs, missing, store, count, call):
    failed = {}
    for i in missing:
        try:
            share = lambda share, i=i: call.share(i, share)  # noqa: E731
            result = run_job(jobs[i], share, store.checkpoint(jobs[i]))
            store.put(jobs[i], result)
        except Exception as error:
            failed[i] = _message(jobs[i], error)
            continue
        call.done(i, result)
    return failed


# ---------------------------------------------------------------- processes
def _together(jobs, missing, store, count, call):
    """Each process has a pipe of its own and gets one job at a time: one that dies takes only that job with it."""
    context = multiprocessing.get_context("spawn")
    queue, failed, workers = list(reversed(missing)), {}, {}
    try:
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_worker, args=(there, store), daemon=True)
            process.start()
            there.close()
            workers[here] = [process, None]
            _hand_out(here, workers, queue, jobs)
        while any(index is not None for _, index in workers.values()):
            for pipe in wait([p for p, (_, index) in workers.items() if index is not None]):
                _hear(pipe, workers, queue, jobs, failed, call)
        for i in queue:  # every process has died
            failed[i] = (
                f"{jobs[i].get('recipe')}: not run, as the processes that run jobs have ended"
            )
    finally:
        for pipe, (process, _) in workers.items():
            process.kill()  # at the end they wait for jobs; after Ctrl-C there is their checkpoint
            process.join()
            pipe.close()
    return failed


def _hand_out(pipe, workers, queue, jobs):
    workers[pipe][1] = i = queue.pop() if queue else None
    if i is not None:
        with contextlib.suppress(OSError):  # a process that has died is noticed when it is heard
            pipe.send(jobs[i])


def _hear(pipe, workers, queue, jobs, failed, call):
    i = workers[pipe][1]
    try:
        what, value = pipe.recv()
    except (EOFError, OSError):
        workers[pipe][1] = None
        workers[pipe][0].join()
        failed[i] = (
            f"{jobs[i].get('recipe')}: its process ended with code {workers[pipe][0].exitcode}"
        )
        return
    if what == "share":
        call.share(i, value)
        return
    if what == "done":
        call.done(i, value)
    else:
        failed[i] = value
    _hand_out(pipe, workers, queue, jobs)


def _worker(pipe, store):
    """The life of a process: jobs in, results to the store and back.

    It ends with the process that began it, whatever ended that: then the pipe is broken, and a message of progress
    ends the job at hand.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    set_num_threads(1)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = pipe.recv()
            try:
                result = run_job(job, _throttled(pipe), store.checkpoint(job))
                store.put(job, result)
            except Exception as error:
                pipe.send(("failed", _message(job, error)))
            else:
                pipe.send(("done", result))


def _throttled(pipe):
    last = time.monotonic()

    def progress(share):
        nonlocal last
        now = time.monotonic()
        if now - last >= PAUSE:
            last = now
            pipe.send(("share", share))

    return progress
