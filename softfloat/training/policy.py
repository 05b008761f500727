"""Policy: the format and the rounding of every tensor of a training step; and the named recipes.

A step of training touches seven kinds of tensor, the roles: the weights that the products read, the
activations, the logits, the errors (gradients of the loss with respect to activations), the weight
gradients, the optimizer's state and the update. A policy gives each a format. Products and sums
inside a layer run in the carrier (float32) and are rounded once, where the tensor leaves the layer.

Sources: Micikevicius et al., Mixed Precision Training (2018); Zamirai et al., Revisiting BFloat16
Training (2020); Micikevicius et al., FP8 Formats for Deep Learning (2022).
"""

import re
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from softfloat.formats import as_format, binary32, binary64
from softfloat.rounding import as_rounding

PASSES = ("weights", "activations", "logits", "errors", "weight_gradients")  # forward and backward
ROLES = (*PASSES, "optimizer", "update")
SCALED_ROLES = ("weights", "activations", "errors")  # operands of products, which scaling= is for
_FIXED = re.compile(r"(U?)Q(\d+)\.(\d+)$", re.IGNORECASE)
_PLAIN = ("none", "fp32", "float32", "binary32")


@dataclass(frozen=True)
class Policy:
    """The formats and roundings of one training recipe. A format left at None is plain float32.

    weights : what the forward and backward products read.   activations : inputs and outputs of
        hidden layers.
    logits : output of the last layer.   errors : gradients with respect to activations, times the
        loss scale.
    weight_gradients : gradients with respect to weights and biases, times the loss scale.
    optimizer : the momentum.   update : the change dw = -lr * gradient, before it is added.
    master : format of the copy of the weights that the updates go to; None: there is no such copy,
        and the updates go to the weights themselves, in the format `weights`.
    rounding : of every tensor but the updated weight.   update_rounding : of w + dw, added exactly
        and rounded once.
    saturate : as in `quantize`.
    scaling : None, or "current": weights, activations and errors are multiplied, each tensor, by
        the power of two that brings its largest magnitude under the format's largest value,
        rounded, and divided again.
    loss_scale : None, a number (constant) or "dynamic" (`LossScaler`).
    source : where the recipe comes from.

    Formats are what `as_format` takes, FixedPoint, and "Q3.12", its label: 3 bits before and 12
    after the point. Raises ValueError for a combination without meaning.

    >>> Policy("mine", weights="bfloat16", master="binary32").stored.label
    'binary32'
    """

    name: str = "custom"
    weights: Any = None
    activations: Any = None
    logits: Any = None
    errors: Any = None
    weight_gradients: Any = None
    optimizer: Any = None
    update: Any = None
    master: Any = None
    rounding: str = "ties_to_even"
    update_rounding: str = "ties_to_even"
    saturate: Any = False
    scaling: str | None = None
    loss_scale: Any = None
    source: str = field(default="", compare=False)

    def __post_init__(self):
        for role in (*ROLES, "master"):
            object.__setattr__(self, role, _as_tensor_format(getattr(self, role)))
        for name in ("rounding", "update_rounding"):
            object.__setattr__(self, name, str(as_rounding(getattr(self, name))))
        object.__setattr__(self, "loss_scale", _as_loss_scale(self.loss_scale))
        if self.scaling not in (None, "current"):
            raise ValueError(f'scaling must be None or "current", got {self.scaling!r}')
        if self.scaling and self.weights is not None and self.master is None:
            raise ValueError(
                f'policy {self.name!r}: scaling="current" changes the grid of the weights at every '
                'step, so the updates need a copy of their own: give master="binary32"'
            )

    @property
    def stored(self):
        """Format of the weights that are updated: of the master copy if there is one."""
        return self.weights if self.master is None else self.master

    @cached_property
    def dtype(self):
        """float32, or float64 where a format of the policy does not fit in float32."""
        named = [getattr(self, role) for role in (*ROLES, "master")]
        wide = any(f is not None and np.dtype(f.carrier) == np.float64 for f in named)
        return np.dtype(np.float64 if wide else np.float32)

    @cached_property
    def grids(self):
        """A dict from role to format; None where the carrier itself is that format.

        A role of its own is "stored", the weights that the optimizer updates.
        """
        carrier = binary64 if self.dtype == np.float64 else binary32
        wanted = {role: getattr(self, role) or binary32 for role in ROLES}
        wanted["stored"] = self.stored or binary32
        return {role: None if fmt == carrier else fmt for role, fmt in wanted.items()}

    def labels(self):
        """A dict of what the policy says, in words, for tables and files."""
        words = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ROLES:
                value = "binary32" if value is None else value.label
            elif f.name == "master":
                value = None if value is None else value.label
            words[f.name] = value
        return words


def _as_tensor_format(value):
    if value is None or (isinstance(value, str) and value.strip().lower() in _PLAIN):
        return None if value is None else binary32
    if getattr(value, "is_fixed", False):
        return value
    fixed = _FIXED.match(value.strip()) if isinstance(value, str) else None
    if fixed:
        from softfloat.fixed_point import FixedPoint

        return FixedPoint(int(fixed[2]), int(fixed[3]), signed=not fixed[1])
    return as_format(value)


def _as_loss_scale(value):
    if value is None or value == "dynamic":
        return value
    if isinstance(value, str):
        if value.strip().lower() == "none":
            return None
        try:
            value = float(value)
        except ValueError:
            value = float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        value = float("nan")
    if not 0 < value < float("inf"):
        raise ValueError('loss_scale must be None, "dynamic" or a positive number such as 1024')
    return float(value)


def _everywhere(fmt, **changes):
    return {**dict.fromkeys(ROLES, fmt), **changes}


def _presets():
    recipes = [
        Policy("fp32", source="IEEE binary32 everywhere: the reference"),
        Policy("tf32", **dict.fromkeys(("weights", "activations", "errors"), "tf32"),
               master="binary32", source="NVIDIA A100 (2020): operands of products in tf32"),
        Policy("pure_binary16", **_everywhere("binary16"), source="binary16 everywhere"),
        Policy("pure_bfloat16", **_everywhere("bfloat16"), source="bfloat16 everywhere"),
        Policy("bfloat16_stochastic", **_everywhere("bfloat16", update_rounding="stochastic"),
               source="bfloat16 everywhere, w + dw rounded stochastically (Zamirai et al. 2020)"),
        Policy("mixed_binary16", **dict.fromkeys(PASSES, "binary16"), master="binary32",
               loss_scale="dynamic", source="Micikevicius et al. (2018)"),
        Policy("mixed_bfloat16", **dict.fromkeys(PASSES, "bfloat16"), master="binary32",
               source="Micikevicius et al. (2018), with bfloat16: no loss scale needed"),
        Policy("fp8_hybrid", weights="float8_e4m3fn", activations="float8_e4m3fn",
               errors="float8_e5m2", logits="bfloat16", master="binary32", saturate=True,
               scaling="current",
               source="OCP FP8, E4M3 (fn) forward and E5M2 backward (Micikevicius et al. 2022)"),
    ]  # fmt: skip
    return {recipe.name: recipe for recipe in recipes}


PRESETS = _presets()
DEFAULT_RECIPES = (
    "fp32",
    "pure_binary16",
    "pure_bfloat16",
    "bfloat16_stochastic",
    "mixed_binary16",
    "fp8_hybrid",
)


def as_policy(recipe):
    """The Policy of that name, or the Policy given. Raises ValueError that lists the names."""
    if isinstance(recipe, Policy):
        return recipe
    name = str(recipe).strip().replace("-", "_")
    if name in PRESETS:
        return PRESETS[name]
    raise ValueError(f"unknown recipe {recipe!r}; known: {', '.join(PRESETS)}")


def custom_policy(name="custom", **options):
    """A Policy from options, those that are None left out, as the command line has them.

    What is not given follows what is: logits the activations; without a master copy, the
    optimizer's state and the update the weights; update_rounding the rounding.
    """
    given = {key: value for key, value in options.items() if value is not None}
    given.setdefault("logits", given.get("activations"))
    if "master" not in given:
        for role in ("optimizer", "update"):
            given.setdefault(role, given.get("weights"))
    if "update_rounding" not in given and "rounding" in given:
        given["update_rounding"] = given["rounding"]
    return replace(Policy(name), **given)
