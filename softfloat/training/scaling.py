"""Scales of single tensors: powers of two that bring a tensor into the range of a narrow format.

Sources: Micikevicius et al., FP8 Formats for Deep Learning (2022); NVIDIA, Transformer Engine (delayed scaling).
"""

import math

import numpy as np

from softfloat.training.checks import state_of

LARGEST_SHIFT = 60  # of a tensor scale, up or down: float32 has room for that and back


def power_under(largest, fmt, margin=0):
    """The power of two that brings `largest` under the largest value of fmt, over 2**margin; 1.0 for 0, inf and NaN."""
    if not 0.0 < largest < math.inf:
        return 1.0
    shift = math.frexp(fmt.max / largest)[1] - 1 - margin
    return 2.0 ** max(-LARGEST_SHIFT, min(LARGEST_SHIFT, shift))


class DelayedScales:
    """The largest magnitudes of each tensor in the last `length` steps, and the scales that follow from them.

    The scale of a step follows from the steps before it; a tensor that was never seen has scale 1. What a step finds
    waits in `found` until `commit`, so that the step can be done again.
    """

    def __init__(self, length, margin=0):
        self.length = length
        self.margin = margin
        self.histories = {}
        self.found = {}
        self._known = {}

    def scale(self, name, fmt):
        """The factor of a tensor at this step."""
        key = name, fmt
        if key not in self._known:
            history = self.histories.get(name)
            largest = 0.0 if history is None else float(history.max())
            self._known[key] = power_under(largest, fmt, self.margin)
        return self._known[key]

    def commit(self):
        """Close a step: what was found moves to the front of the histories, 0 for what is not finite."""
        for name, largest in self.found.items():
            history = self.histories.get(name)
            if history is None:
                history = self.histories[name] = np.zeros(self.length, np.float64)
            history[1:] = history[:-1]
            history[0] = largest if math.isfinite(largest) else 0.0
        self.found.clear()
        self._known.clear()

    def state_dict(self):
        """{tensor: its history}, newest first."""
        return {name: history.copy() for name, history in self.histories.items()}

    def load_state_dict(self, state):
        for name, history in state_of("delayed scales", state, ()).items():
            if np.shape(history) != (self.length,):
                raise ValueError(
                    f"the amax history of {name} has shape {np.shape(history)}, this policy's has {(self.length,)}"
                )
        self.histories = {name: np.array(history, np.float64) for name, history in state.items()}
        self.found, self._known = {}, {}
