"""Arguments of the training library: errors that say what was given and what is allowed."""

import numpy as np


def real(name, value):
    """A number as a float. Raises TypeError for anything else."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def count(name, value, low, high=None):
    """An integer in low..high, or from low on. Raises TypeError for what is no integer, ValueError for one outside."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if high is None and value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    if high is not None and not low <= value <= high:
        raise ValueError(f"{name} must be in {low}..{high}, got {value}")
    return int(value)


def state_of(what, state, keys):
    """A state with these keys, as state_dict() gives it. Raises TypeError or ValueError."""
    if not isinstance(state, dict):
        raise TypeError(f"a state of {what} is a dict that state_dict() gave, got {state!r}")
    missing = [key for key in keys if key not in state]
    if missing:
        raise ValueError(
            f"this is no state of {what}: it lacks {', '.join(missing)}; give what state_dict() gave"
        )
    return state


def batch_of(what, values, kinds):
    """A batch as an array of numbers of these kinds, of one or more rows. Raises TypeError or ValueError."""
    found = np.asarray(values)
    if found.dtype.kind not in kinds:
        wanted = "integers" if "f" not in kinds else "real numbers"
        raise TypeError(f"{what} must be {wanted}, got {type(values).__name__} of {found.dtype}")
    if not found.ndim or not len(found):
        raise ValueError(f"{what} must be a batch of one or more rows, got shape {found.shape}")
    return found
