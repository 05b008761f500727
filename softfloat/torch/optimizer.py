"""LowPrecisionOptimizer: any torch optimizer with its tensors on grids, the five slots of QPyTorch's OptimLP.

Source: Zhang et al., QPyTorch: A Low-Precision Arithmetic Simulation Framework (2019).
"""

import zlib

import numpy as np
import torch

from softfloat.functional import quantize
from softfloat.rounding import as_rounding
from softfloat.torch.tensors import array_of, check_room, write
from softfloat.training.policy import _as_tensor_format


class LowPrecisionOptimizer(torch.optim.Optimizer):
    """Runs another optimizer's step between roundings.

    optimizer : a torch.optim.Optimizer.   grad_scaling : gradients are multiplied by it first, exactly if it is a power
        of two.   grad : format of the gradients before the step.
    momentum : format of the optimizer's state after the step; its 0-dim counters stay.
    acc : format of an accumulator that takes w + dw in the place of the weights; with it, `weight` is what the model
        reads between steps.   weight : format of the weights after the step.
    Formats are what a Policy takes, pairs (format, rounding) among them; None rounds nothing.
    seed : for stochastic rounding; random words are a function of (seed, step, slot, parameter, element).
    """

    def __init__(
        self,
        optimizer,
        *,
        weight=None,
        grad=None,
        momentum=None,
        acc=None,
        grad_scaling=1.0,
        rounding="ties_to_even",
        seed=None,
    ):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {optimizer!r}")
        real = isinstance(grad_scaling, (int, float, np.number)) and not isinstance(
            grad_scaling, bool
        )
        if not real or not 0 < grad_scaling < float("inf"):
            raise ValueError(f"grad_scaling must be a positive number, got {grad_scaling!r}")
        given = {"weight": weight, "grad": grad, "momentum": momentum, "acc": acc}
        rounding = str(as_rounding(rounding))
        self.grids = {slot: _grid(fmt, rounding) for slot, fmt in given.items()}
        random = any(r.startswith("stochastic") for f, r in self.grids.values() if f is not None)
        if random and seed is None:
            raise ValueError(
                'rounding="stochastic" needs seed=, so that the result can be repeated'
            )
        self.optimizer = optimizer
        self.grad_scaling = float(grad_scaling)
        self.seed = seed
        self.steps = 0
        self.accumulators = {}
        # Not Optimizer.__init__: groups, state and hooks are those of the optimizer inside.
        self.defaults = optimizer.defaults

    def __getattr__(self, name):
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group):
        self.optimizer.add_param_group(param_group)

    def _parameters(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        return [(i, p) for i, p in enumerate(parameters)]

    def step(self, closure=None):
        """One step; the loss that `closure` (called with gradients enabled) returns, else None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            used = [(i, p) for i, p in self._parameters() if p.grad is not None]
            for i, p in used:
                if self.grad_scaling != 1.0:
                    p.grad.mul_(self.grad_scaling)
                self._put(p.grad, "grad", i)
                if self.grids["acc"][0] is not None:
                    held = self.accumulators.setdefault(i, p.detach().clone())
                    p.copy_(held)
            self.optimizer.step()
            for i, p in used:
                for name, value in self.state.get(p, {}).items():
                    if isinstance(value, torch.Tensor) and value.dim():
                        self._put(value, "momentum", i, name)
                if self.grids["acc"][0] is not None:
                    self._put(p, "acc", i)
                    self.accumulators[i].copy_(p)
                self._put(p, "weight", i)
        self.steps += 1
        return loss

    def _put(self, tensor, slot, number, name=""):
        fmt, rounding = self.grids[slot]
        if fmt is None or not tensor.is_floating_point():
            return
        check_room(tensor.dtype, fmt)
        options = {"rounding": rounding}
        if rounding.startswith("stochastic"):
            stream = (self.steps << 32) | zlib.crc32(f"{slot}.{number}.{name}".encode())
            options.update(seed=self.seed, stream=stream)
        write(tensor, np.asarray(quantize(array_of(tensor), fmt, **options)))

    def state_dict(self):
        """The state of the optimizer inside, and beside it the steps and the accumulators."""
        held = {i: value.clone() for i, value in self.accumulators.items()}
        inner = self.optimizer.state_dict()
        return {"optimizer": inner, "steps": self.steps, "accumulators": held}

    def load_state_dict(self, state_dict):
        missing = [k for k in ("optimizer", "steps", "accumulators") if k not in state_dict]
        if missing:
            raise ValueError(
                f"this is no state of a LowPrecisionOptimizer: it lacks {', '.join(missing)}"
            )
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.steps = int(state_dict["steps"])
        self.accumulators = {i: v.clone() for i, v in state_dict["accumulators"].items()}

    def __repr__(self):
        named = [f"{s}={f.label} {r}" for s, (f, r) in self.grids.items() if f is not None]
        return f"LowPrecisionOptimizer({', '.join(named)}, {self.optimizer!r})"


def _grid(value, rounding):
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(
                f"a format with its rounding is a pair (format, rounding), got {value!r}"
            )
        fmt, own = value
        return _as_tensor_format(fmt), str(as_rounding(own))
    return _as_tensor_format(value), rounding
