"""LossScaler: the factor on the loss that keeps small gradients above a format's smallest value.

Semantics of torch.amp.GradScaler: the scale is a float32; a step with a gradient that is not finite
is skipped and multiplies it by backoff_factor; growth_interval good steps in a row multiply it by
growth_factor, unless that would overflow float32. On top of that a floor, so that the scale never
reaches zero.

Source: Micikevicius et al., Mixed Precision Training (2018); PyTorch, torch/amp/grad_scaler.py.
"""

import math
import warnings

import numpy as np

from softfloat.training.checks import count, real, state_of

MINIMUM = 2.0**-14
FLOAT32_MAX = float(np.finfo(np.float32).max)


class LossScaler:
    """A loss scale, constant or dynamic.

    init_scale : the first scale.   growth_factor, backoff_factor, growth_interval : as in
        torch.amp.GradScaler.
    dynamic : False keeps the scale constant; steps that are not finite are skipped all the same.
    minimum : the floor, > 0; by default 2**-14, thirty skipped steps in a row from 2**16. A scale
        that would fall below stays there, and a RuntimeWarning says so once.

    `scale` is the factor now, `skipped` counts skipped steps, `floor_hits` the steps that met the
    floor.

    >>> scaler = LossScaler()
    >>> gradients, finite = scaler.unscale([np.float32([1, np.nan])])
    >>> scaler.update(finite)
    >>> finite, scaler.scale
    (False, 32768.0)
    """

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        *,
        dynamic=True,
        minimum=MINIMUM,
    ):
        self.growth_factor = _number("growth_factor", growth_factor, 1.0, math.inf)
        self.backoff_factor = _number("backoff_factor", backoff_factor, 0.0, 1.0)
        self.growth_interval = count("growth_interval", growth_interval, 1)
        if not isinstance(dynamic, (bool, np.bool_)):
            raise TypeError(f"dynamic must be True or False, got {dynamic!r}")
        self.dynamic = bool(dynamic)
        self.minimum = _float32("minimum", minimum)
        self.scale = _float32("init_scale", init_scale)
        if self.dynamic and self.scale < self.minimum:
            raise ValueError(f"init_scale {self.scale} lies below minimum {self.minimum}")
        self.growth_tracker = 0
        self.skipped = 0
        self.floor_hits = 0

    def unscale(self, gradients):
        """(the gradients divided by the scale, whether all of them are finite).

        gradients : a list of arrays, or a dict of them; they are not changed. As in GradScaler, they
            are multiplied by the scale's reciprocal, a float32: exact for a power of two.
        """
        named = isinstance(gradients, dict)
        if not named and not isinstance(gradients, (list, tuple)):
            raise TypeError(f"gradients must be a list or a dict of arrays, got {gradients!r}")
        values = list(gradients.values()) if named else list(gradients)
        finite = all(bool(np.isfinite(g).all()) for g in values)
        with np.errstate(all="ignore"):
            inverse = float(np.float32(1.0 / self.scale))
            values = [np.multiply(g, inverse) for g in values]
        return (dict(zip(gradients, values, strict=True)) if named else values), finite

    def update(self, finite):
        """Tell, at every step, whether its gradients were finite; if not, the step is skipped."""
        if not isinstance(finite, (bool, np.bool_)):
            raise TypeError(f"finite must be True or False, got {finite!r}")
        if not finite:
            self.skipped += 1
            self.growth_tracker = 0
            if self.dynamic:
                self._shrink()
            return
        self.growth_tracker += 1
        if self.growth_tracker == self.growth_interval:
            self.growth_tracker = 0
            with np.errstate(over="ignore"):
                grown = float(np.float32(self.scale * self.growth_factor))
            if self.dynamic and grown < math.inf:
                self.scale = grown

    def _shrink(self):
        shrunk = float(np.float32(self.scale * self.backoff_factor))
        if shrunk >= self.minimum:
            self.scale = shrunk
            return
        self.scale = self.minimum
        self.floor_hits += 1
        if self.floor_hits == 1:
            warnings.warn(
                f"the loss scale has fallen to its floor of {self.minimum:g}, and gradients are "
                "still not finite. This is not a matter of scaling; look for a learning rate that "
                "is too large, or for the first tensor that overflows",
                RuntimeWarning,
                stacklevel=3,
            )

    def state_dict(self):
        """What a resumed run needs, under the keys of torch.amp.GradScaler and some of our own."""
        return {
            "scale": self.scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self.growth_tracker,
            "dynamic": self.dynamic,
            "minimum": self.minimum,
            "skipped": self.skipped,
            "floor_hits": self.floor_hits,
        }

    def load_state_dict(self, state):
        """Take over a state of this class, or one of torch.amp.GradScaler."""
        wanted = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        state_of("a loss scaler", state, wanted)
        loaded = LossScaler(
            *(state[key] for key in wanted[:4]),
            dynamic=state.get("dynamic", True),
            minimum=state.get("minimum", self.minimum),
        )
        loaded.growth_tracker = count("_growth_tracker", state["_growth_tracker"], 0)
        loaded.skipped = count("skipped", state.get("skipped", 0), 0)
        loaded.floor_hits = count("floor_hits", state.get("floor_hits", 0), 0)
        self.__dict__.update(loaded.__dict__)

    def __repr__(self):
        kind = "dynamic" if self.dynamic else "constant"
        return f"LossScaler({kind}, scale={self.scale:g}, skipped={self.skipped})"


def _float32(name, value):
    """A positive number as the float32 that GradScaler would hold."""
    rounded = float(np.float32(_number(name, value, 0.0, FLOAT32_MAX)))
    if not rounded:
        raise ValueError(f"{name} must be a positive float32, got {value!r}, which rounds to 0")
    return rounded


def _number(name, value, above, most):
    value = real(name, value)
    below = value < most if most in (1.0, math.inf) else value <= most
    if not (value > above and below):
        limits = f"> {above:g}" + (f" and < {most:g}" if most == 1.0 else "")
        raise ValueError(f"{name} must be {limits} and finite, got {value}")
    return value
