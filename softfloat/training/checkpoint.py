"""Checkpoints: nested states as one .npz file, written whole or not at all, read without executing anything."""

import io
import json
import math
import os
import time
from pathlib import Path

import numpy as np

from softfloat.training.checks import real
from softfloat.training.report import write_atomically

VERSION = 1
_TREE = "tree"


def save_state(path, state):
    """Write a state (dicts and lists of arrays, numbers, strings, None) to a file, atomically."""
    arrays = []
    tree = _packed({"version": VERSION, "state": state}, arrays)
    raw = io.BytesIO()
    named = {f"a{i}": array for i, array in enumerate(arrays)}
    np.savez(raw, allow_pickle=False, **{_TREE: np.array(json.dumps(tree))}, **named)
    write_atomically(path, raw.getvalue())


def load_state(path):
    """The state in a file of `save_state`, bit for bit. Raises ValueError for any other file, OSError for no file."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a checkpoint is the path of a file, got {path!r}")
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            tree = json.loads(str(file[_TREE]))
            found = _unpacked(tree, lambda i: file[f"a{i}"])
    except OSError as error:
        if error.errno is not None:  # of the file system; errors about the content have no number
            raise
        found = None
    except Exception:  # NumPy, zipfile and json have one for every kind of damage
        found = None
    if found is None:
        raise ValueError(
            f"{path} is no checkpoint of softfloat.training, or a damaged one; give a file that was saved"
        )
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"{path} is a checkpoint of another version; this one reads {VERSION}")
    return found["state"]


class Checkpoint:
    """The file that a run goes on from, if it is ended before its end.

    path : of the file, or None to keep nothing.   seconds : of work between two writes, the most that a kill can cost;
    more where a write takes long, which may cost one part in SHARE of the time. When it is written changes no result.
    strict : whether a file that this run cannot go on from is an error; else it counts as none.
    """

    SHARE = 50

    def __init__(self, path=None, seconds=10.0, strict=True):
        if not 0 <= real("seconds", seconds):
            raise ValueError(f"seconds must be a number >= 0, got {seconds!r}")
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"a checkpoint is the path of a file, got {path!r}")
        self.path = None if path is None else Path(path)
        self.seconds = float(seconds)
        self.strict = strict
        self._due = time.monotonic() + self.seconds

    def resume(self, take):
        """Call take(state) with what the file holds, if there is one. take may raise ValueError or TypeError."""
        self._due = time.monotonic() + self.seconds
        if self.path is None or not self.path.exists():
            return
        try:
            take(load_state(self.path))
        except FileNotFoundError:  # another process ended the same run just now
            return
        except (OSError, ValueError, TypeError):
            if self.strict:
                raise

    def offer(self, make):
        """Write make(), a state, if it is time."""
        if self.path is None or time.monotonic() < self._due:
            return
        start = time.monotonic()
        save_state(self.path, make())
        end = time.monotonic()
        self._due = end + max(self.seconds, self.SHARE * (end - start) if self.seconds else 0.0)

    def remove(self):
        """Delete the file: the run has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _packed(value, arrays):
    if isinstance(value, dict):
        return {"d": [[str(key), _packed(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"l": [_packed(item, arrays) for item in value]}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"a": len(arrays) - 1}
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return {"f": float(value).hex()} if math.isfinite(value) else {"f": str(float(value))}
    raise TypeError(f"a checkpoint holds arrays, numbers, strings and None, got {value!r}")


def _unpacked(tree, array):
    if not isinstance(tree, dict):
        return tree
    ((kind, value),) = tree.items()
    if kind == "d":
        return {key: _unpacked(item, array) for key, item in value}
    if kind == "l":
        return [_unpacked(item, array) for item in value]
    return array(value) if kind == "a" else float.fromhex(value)
