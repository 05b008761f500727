"""Checkpoints: nested states as one .npz file, written whole or not at all, read without executing anything."""

import io
import json
import math

import numpy as np

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
    """The state in a file of `save_state`, bit for bit. Raises ValueError for any other file."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            tree = json.loads(str(file[_TREE]))
            found = _unpacked(tree, lambda i: file[f"a{i}"])
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint of softfloat.training: {error}") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"{path} is a checkpoint of another version; this one reads {VERSION}")
    return found["state"]


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
