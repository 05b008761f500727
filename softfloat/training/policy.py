"""Policy: the format and the rounding of every tensor, and of every multiply-add, of a training step.

A step touches seven kinds of tensor, the roles: the weights that the products read, the activations, the logits, the
errors (gradients of the loss with respect to activations), the weight gradients, the optimizer's state and the update.
A policy gives each a format. There are two depths: products and sums inside a layer run in the carrier (float32, by
BLAS) and are rounded once, where the tensor leaves the layer; or, with `accumulator` or `engine`, every product and
every sum is rounded. softfloat.training.presets has the named recipes.
"""

import functools
import re
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from softfloat.formats import as_format, binary32, binary64
from softfloat.functional import _saturation
from softfloat.rounding import as_rounding

PASSES = ("weights", "activations", "logits", "errors", "weight_gradients")  # forward and backward
OPTIMIZER_ROLES = ("optimizer", "update")
ROLES = (*PASSES, *OPTIMIZER_ROLES)
SCALED_ROLES = ("weights", "activations", "errors")  # operands of products, which scaling= is for
SCALINGS = (None, "current", "delayed")
_SPECS = (*ROLES, "master", "product", "accumulator")
# What the whole run shares: an override cannot change it for one layer.
_COMMON = ("name", "loss_scale", "source", "overrides", "amax_history", "margin", "scaling")
_FIXED = re.compile(r"(U?)Q(\d+)\.(\d+)$", re.IGNORECASE)
_PLAIN = ("none", "fp32", "float32", "binary32")


class Spec(NamedTuple):
    """A format with a rounding of its own: what (format, rounding) becomes."""

    fmt: Any
    rounding: str

    @property
    def label(self):
        return f"{self.fmt.label} {self.rounding}"


class Grid(NamedTuple):
    """Where the values of a role lie and how they get there. fmt None: the carrier itself, nothing is rounded."""

    fmt: Any
    rounding: str


@dataclass(frozen=True)
class Policy:
    """The formats and roundings of one training recipe. A format left at None is plain float32.

    weights : what the forward and backward products read.   activations : inputs and outputs of hidden layers.
    logits : output of the last layer.   errors : gradients with respect to activations, times the loss scale.
    weight_gradients : gradients with respect to weights and biases, times the loss scale.
    optimizer : momentum, moments and Kahan compensation.   update : the change dw, before it is added to the weights.
    master : format of the copy of the weights that the updates go to; None: there is no such copy, and the updates go
        to the weights themselves, in the format `weights`.
    accumulator : None: products run in the carrier; a format: every sum is rounded to it, in sequence, or in blocks of
        `block` terms.   product : "rounded" to the accumulator (default), "exact", or a format.
    engine : a softfloat.engines.Engine (or the name of a preset), which says how products are formed and added.
    rounding : of every tensor but the updated weight.   update_rounding : of w + dw, added exactly and rounded once.
    saturate : as in `quantize`, for tensors.   kahan : whether w + dw is compensated (Zamirai et al. 2020).
    scaling : None, "current" or "delayed": weights, activations and errors are multiplied, each tensor, by a power of
        two, rounded, and divided again. "current": the power that brings the tensor's largest magnitude under the
        format's largest value. "delayed": the one that fits the largest magnitude of the last `amax_history` steps,
        over 2**margin.
    loss_scale : None, a number (constant) or "dynamic" (`LossScaler`).
    overrides : {pattern: {field: value}}, for the layers whose name matches; see `at`.
    source : where the recipe comes from.

    Formats are what `as_format` takes, FixedPoint, "Q3.12", its label (3 bits before and 12 after the point), and pairs
    (format, rounding), where the rounding is one of the role's own; as a string "e5m2 stochastic". Raises ValueError
    for what has no meaning.

    >>> policy = Policy("mine", weights="bfloat16", master="binary32", overrides={"head": {"weights": None}})
    >>> policy.stored.label, policy.at("head").weights
    ('binary32', None)
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
    product: Any = "rounded"
    accumulator: Any = None
    block: int | None = None
    engine: Any = None
    rounding: str = "ties_to_even"
    update_rounding: str = "ties_to_even"
    saturate: Any = False
    kahan: bool = False
    scaling: str | None = None
    amax_history: int = 1024
    margin: int = 0
    loss_scale: Any = None
    overrides: Any = ()
    source: str = field(default="", compare=False)

    def __post_init__(self):
        put = functools.partial(object.__setattr__, self)
        if not isinstance(self.name, str):
            raise TypeError(f"a policy's name must be a string, got {self.name!r}")
        _saturation(self.saturate)
        for role in (*ROLES, "master", "accumulator"):
            put(role, _as_spec(getattr(self, role)))
        if self.product not in ("rounded", "exact"):
            put("product", _as_spec(self.product) or "rounded")
        for name in ("rounding", "update_rounding"):
            put(name, str(as_rounding(getattr(self, name))))
        put("engine", _as_engine(self.engine))
        put("loss_scale", _as_loss_scale(self.loss_scale))
        for name in ("scaling", "block"):
            put(name, _none(getattr(self, name)))
        self._check_numbers()
        self._check_meaning()
        put("overrides", self._checked_overrides())

    def _check_numbers(self):
        limits = {"block": (1, 1 << 31), "amax_history": (1, 1 << 20), "margin": (-64, 64)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if value is None and name == "block":
                continue
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not whole or not low <= value <= high:
                raise ValueError(f"{name} must be an integer in {low}..{high}, got {value!r}")
        if not isinstance(self.kahan, (bool, np.bool_)):
            raise ValueError(f"kahan must be True or False, got {self.kahan!r}")

    def _check_meaning(self):
        mine = f"policy {self.name!r}"
        if self.scaling not in SCALINGS:
            raise ValueError(f'scaling must be None, "current" or "delayed", got {self.scaling!r}')
        if self.scaling and self.weights is not None and self.master is None:
            raise ValueError(
                f"{mine}: scaling={self.scaling!r} changes the grid of the weights at every step, so the updates need "
                'a copy of their own: give master="binary32"'
            )
        if self.engine is not None and (self.accumulator is not None or self.block is not None):
            raise ValueError(
                f"{mine}: an engine says how to add; leave accumulator= and block= out"
            )
        if self.accumulator is None and (self.product != "rounded" or self.block is not None):
            raise ValueError(
                f"{mine}: product= and block= go with accumulator=, the format of the sums; without one, products run "
                "in float32 and are not rounded one by one"
            )

    def _override_pairs(self):
        """[(pattern, {field: value})], from a dict of dicts or from pairs of them, as `overrides` itself holds them."""
        given = self.overrides
        try:
            pairs = list(given.items() if isinstance(given, dict) else given)
            found = [(pattern, dict(changes)) for pattern, changes in pairs]
        except (TypeError, ValueError):
            found = None
        if found is None or not all(isinstance(pattern, str) for pattern, _ in found):
            raise ValueError(
                f"policy {self.name!r}: overrides must be {{pattern: {{field: value}}}} with names of layers for "
                f'patterns, such as {{"layer2": {{"weights": None}}}}, got {given!r}'
            )
        return found

    def _checked_overrides(self):
        known = [f.name for f in fields(self) if f.name not in _COMMON]
        checked = []
        for pattern, changes in self._override_pairs():
            for name in changes:
                if name not in known:
                    raise ValueError(
                        f"policy {self.name!r}: {name!r} cannot be set for {pattern!r} alone; known: {', '.join(known)}"
                    )
            one = replace(self, overrides=(), **changes)  # which checks them
            checked.append((pattern, tuple((name, getattr(one, name)) for name in changes)))
        return tuple(checked)

    def at(self, module, op=None):
        """The policy of one layer: that of the run, changed by each override that matches, in their order.

        module : the layer's name, a path such as "blocks.0.attention".   op : the kind of operation, such as "linear".
        A pattern is one for fnmatch on the name, and after a colon one on the op: "blocks.*", "*:layer_norm".
        """
        return _at(self, module, op) if self.overrides else self

    @property
    def stored(self):
        """Format of the weights that are updated: of the master copy if there is one."""
        return _format(self.weights if self.master is None else self.master)

    @functools.cached_property
    def dtype(self):
        """float32, or float64 where a format of the policy does not fit in float32."""
        named = [getattr(self, name) for name in (*_SPECS, "engine")]
        named += [value for _, changes in self.overrides for _, value in changes]
        wide = any(_carrier(value) == np.float64 for value in named)
        return np.dtype(np.float64 if wide else np.float32)

    @functools.cached_property
    def grids(self):
        """A dict from role to format; None where the carrier itself is that format.

        A role of its own is "stored", the weights that the optimizer updates.
        """
        return {role: self.grid(role).fmt for role in (*ROLES, "stored")}

    def grid(self, role):
        """The Grid of a role, "stored" among them."""
        carrier = binary64 if self.dtype == np.float64 else binary32
        if role == "stored":
            value, rounding = (
                (self.weights if self.master is None else self.master),
                self.update_rounding,
            )
        else:
            value, rounding = getattr(self, role), self.rounding
        if isinstance(value, Spec):
            value, rounding = value
        fmt = binary32 if value is None else value
        return Grid(None if fmt == carrier else fmt, rounding)

    @functools.cached_property
    def sums(self):
        """(format, options) for softfloat.matmul where every multiply-add is rounded, else None."""
        if self.engine is not None:
            return self.engine.acc, {"engine": self.engine}
        if self.accumulator is None:
            return None
        fmt, rounding = self._of(self.accumulator)
        options = {"rounding": rounding}
        if self.block is not None:
            options.update(order="blocked", block=int(self.block))
        if self.product == "exact":
            options["product"] = None
        elif self.product != "rounded":
            options["product"], options["product_rounding"] = self._of(self.product)
        return fmt, options

    def _of(self, value):
        return tuple(value) if isinstance(value, Spec) else (value, self.rounding)

    def labels(self):
        """A dict of what the policy says, in words, for tables and files."""
        words = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ROLES and value is None:
                value = "binary32"
            elif f.name == "overrides":
                value = {p: {k: _word(v) for k, v in changes} for p, changes in value}
            words[f.name] = _word(value)
        return words


def _word(value):
    return getattr(value, "label", None) or getattr(value, "name", None) or value


@functools.lru_cache(maxsize=4096)
def _at(policy, module, op):
    changes = {}
    for pattern, changed in policy.overrides:
        where, _, kind = pattern.partition(":")
        if fnmatchcase(module, where or "*") and fnmatchcase(op or "", kind or "*"):
            changes.update(changed)
    if not changes:
        return policy
    own = replace(policy, overrides=(), **changes)
    own.__dict__["dtype"] = policy.dtype  # one carrier for the whole run
    return own


def _format(value):
    return value.fmt if isinstance(value, Spec) else value


def _carrier(value):
    value = _format(value)
    fmt = getattr(value, "acc", value)
    return np.dtype(fmt.carrier) if hasattr(fmt, "carrier") else None


def _as_spec(value):
    value = _none(value)
    if isinstance(value, str) and len(value.split()) == 2:
        value = value.split()  # as a label has it
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(
                f"a format with its rounding is a pair (format, rounding), got {value!r}"
            )
        fmt, rounding = value
        return Spec(_as_tensor_format(fmt) or binary32, str(as_rounding(rounding)))
    return _as_tensor_format(value)


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


def _none(value):
    """None for the string that files and command lines have in its place."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _as_engine(value):
    value = _none(value)
    if value is None:
        return None
    from softfloat import engines  # many presets: loaded by those who ask for one

    if isinstance(value, str):
        known = engines.presets()
        if value not in known:
            raise ValueError(f"unknown engine {value!r}; known: {', '.join(known)}")
        return known[value]
    if not isinstance(value, engines.Engine):
        raise ValueError(
            f'engine must be an Engine or the name of one, such as "h100_fp8", got {value!r}'
        )
    return value


def _as_loss_scale(value):
    given, value = value, _none(value)
    if value is None or (isinstance(value, str) and value == "dynamic"):
        return value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        value = float("nan")
    with np.errstate(all="ignore"):
        held = np.float32(value)  # as the scaler holds it
    if not 0 < held < np.inf:
        raise ValueError(
            f'loss_scale must be None, "dynamic" or a positive number of float32 such as 1024, got {given!r}'
        )
    return float(value)
