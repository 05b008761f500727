"""Interleaved timing: every contender runs once per round, so that a busy machine slows all of them alike."""

import gc
import time
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line of a benchmark: a rate as a ratio to the reference, with the spread over rounds and the goal."""

    work: str
    reference: str
    ratio: float
    low: float
    high: float
    goal: float | None
    lower_is_better: bool = False

    @property
    def reached(self):
        if self.goal is None:
            return None
        return self.ratio <= self.goal if self.lower_is_better else self.ratio >= self.goal


def times(calls, rounds, inner):
    """Seconds per call, as an array (rounds, contenders)."""
    for call in calls:
        call()
    taken = np.empty((rounds, len(calls)))
    enabled = gc.isenabled()
    gc.disable()
    try:
        for r in range(rounds):
            for j, call in enumerate(calls):
                start = time.perf_counter()
                for _ in range(inner):
                    call()
                taken[r, j] = (time.perf_counter() - start) / inner
    finally:
        if enabled:
            gc.enable()
    return taken


def compare(reference, contender, size, seconds=0.6):
    """(ratio of the fastest rounds, 10th and 90th percentile over rounds) of reference time to contender time."""
    inner = max(1, 200_000 // max(size, 1))
    once = times([reference, contender], 2, inner).min(axis=0).sum() * inner
    rounds = int(np.clip(seconds / once, 7, 300))
    taken = times([reference, contender], rounds, inner)
    best = taken.min(axis=0)
    each = taken[:, 0] / taken[:, 1]
    low, high = np.percentile(each, [10, 90])
    return best[0] / best[1], low, high


def check_equal(got, want, what):
    """Stop the benchmark if the result that is about to be timed is wrong."""
    if not np.array_equal(np.asarray(got), np.asarray(want), equal_nan=True):
        raise AssertionError(f"{what}: the result is wrong, so its speed means nothing")
