"""The canary: a tiny forward, backward and step on entry, which must come out as the policy says.

emulate stands on private parts of torch. Where another version of torch changed one of them, this says so, before a
training run is silently a run in float32.
"""

import numpy as np
import torch

from softfloat.functional import quantize
from softfloat.torch.errors import EmulationError
from softfloat.torch.tensors import array_of

# A number that is a value of no narrow format, so that any rounding moves it.
ODD = 1.0 + 2.0**-12 + 2.0**-22


def check_canary(owner):
    """EmulationError unless a product, its backward pass and an update are seen and rounded."""
    if owner._plain:
        return
    trial = type(owner)(owner.policy, False, owner._state.rounder.seed)
    trial._process, trial._mode = owner._process, owner._mode
    weight = torch.nn.Parameter(torch.full((2, 2), ODD))
    trial._state.optimizers.append(None)
    seen = []
    owner._mode.owner = trial
    try:
        trial._state.parameters.add(weight, "", "canary")
        with torch.enable_grad():
            y = torch.full((2, 2), ODD) @ weight
            seen.append(_count(trial))
            y.backward(torch.full((2, 2), ODD))
            seen.append(_count(trial))
        trial._state.optimizing = 0
        with torch.no_grad():
            weight.add_(torch.full((2, 2), ODD), alpha=-0.5)
        trial._state.optimizing = None
    finally:
        owner._mode.owner = owner
        trial._state.parameters.close()
    if not (0 < seen[0] < seen[1]):
        raise EmulationError(
            f"torch {torch.__version__} hides operations from emulate: of a product and its backward pass {seen} were "
            "seen"
        )
    grids = trial.policy.grid
    for tensor, role in ((y, "activations"), (weight.grad, "weight_gradients"), (weight, "stored")):
        _check_rounded(tensor, role, grids(role), trial.policy)


def _count(trial):
    return trial._state.report.products()


def _check_rounded(tensor, role, grid, policy):
    if grid.fmt is None or policy.scaling:
        return
    values = array_of(tensor)
    options = {"saturate": policy.saturate} if policy.saturate else {}
    again = np.asarray(quantize(values, grid.fmt, **options))
    if not np.array_equal(again, values, equal_nan=True):
        raise EmulationError(
            f"torch {torch.__version__} does not let emulate round: {role} of a trial run are no values of "
            f"{grid.fmt.label}"
        )
