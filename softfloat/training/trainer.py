"""Trainer: a network under a policy, one step at a time, with everything that a step changes in one state.

The same seed gives the same bits, on any number of threads: NumPy's products run on one thread where threadpoolctl is
installed (scikit-learn brings it), so that the number of threads cannot change a sum. Another BLAS, or another kind of
processor, may sum in another order.
"""

import contextlib
import copy
import functools
import math

import numpy as np

from softfloat.training.cast import Caster
from softfloat.training.checkpoint import load_state, save_state
from softfloat.training.checks import batch_of, count, state_of
from softfloat.training.kernels import all_finite
from softfloat.training.layers import Module, perceptron
from softfloat.training.losses import softmax_cross_entropy
from softfloat.training.monitor import Monitor
from softfloat.training.optimizers import SGD, Optimizer
from softfloat.training.presets import as_policy
from softfloat.training.scaler import LossScaler
from softfloat.training.words import INITIAL, path_of, raw_words

EVALUATION = 1 << 30  # first step of evaluation, which so shares no random word with training
_STATE = (
    "policy",
    "seed",
    "steps",
    "bad",
    "parameters",
    "buffers",
    "optimizer",
    "scaler",
    "scales",
    "monitor",
)


class DivergenceError(ArithmeticError):
    """The loss is not finite; the message names the first tensor that went bad."""


@functools.cache
def _controller():
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def one_blas_thread():
    """A context in which NumPy's products run on one thread, if threadpoolctl is there to ask for it."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    return controller.limit(limits=1, user_api="blas")


class Trainer:
    """A network, its parameters and everything that a step changes.

    policy : Policy or its name.   network : a Module, or the sizes (i, h1, ..., c) of a perceptron.
    loss : a function (outputs, targets) to (loss, gradient).   optimizer : by default SGD(lr, momentum), lr 0.001.
    seed : of initial weights, stochastic rounding and dropout.   monitor : Monitor, or None to count nothing.

    `parameters` are the stored weights, {"layer.weight": array}: the master copy where the policy has one. `buffers`
    are the running statistics. `bad` describes the first tensor that was not finite, once there was one.
    """

    def __init__(
        self,
        policy,
        network,
        *,
        loss=softmax_cross_entropy,
        optimizer=None,
        lr=None,
        momentum=None,
        seed=0,
        monitor=None,
    ):
        self.policy = as_policy(policy)
        _check_parts(loss, optimizer, monitor)
        if optimizer is None:
            optimizer = SGD(1e-3 if lr is None else lr, 0.0 if momentum is None else momentum)
        elif lr is not None or momentum is not None:
            raise ValueError(
                f"lr and momentum are for the default optimizer; {type(optimizer).__name__} has its own: give it those"
            )
        seed = count("seed", seed, 0, (1 << 64) - 1)
        self.network = network if isinstance(network, Module) else perceptron(network)
        self.network.bind()
        self.network.mark_output()
        self.loss = loss
        if optimizer.taken:
            raise ValueError(
                f"this {type(optimizer).__name__} belongs to another Trainer, whose state it holds; make one for each"
            )
        self.optimizer, optimizer.taken = optimizer, True
        parts = _parts(self.network)
        ops = {m.name: m.op for m in parts}
        _check_layers(self.policy, ops)
        self.cast = Caster(self.policy, seed, monitor, ops=ops)
        self.scaler = None
        if self.policy.loss_scale == "dynamic":
            self.scaler = LossScaler()
        elif self.policy.loss_scale is not None:
            self.scaler = LossScaler(self.policy.loss_scale, dynamic=False)
        self.steps = 0
        self._initialize(parts, seed)

    def _initialize(self, parts, seed):
        words = raw_words(seed, INITIAL)
        quiet = self.cast.copy()
        self.parameters, self.buffers = self.cast.parameters, self.cast.buffers
        for module in parts:
            for what, value in module.initial(words).items():
                value = value.astype(self.policy.dtype)
                stored = quiet(value, "stored", module.name, f"{what}.initial")
                self.parameters[path_of(module.name, what)] = stored
            for what, value in module.buffers().items():
                self.buffers[path_of(module.name, what)] = value

    @property
    def bad(self):
        return self.cast.bad

    @property
    def monitor(self):
        return self.cast.monitor

    def step(self, inputs, targets):
        """One step on a batch: the loss before it. Raises DivergenceError if that is not finite.

        inputs : (n, ...), numbers, or integers where the network begins with an Embedding.
        """
        cast, scaler = self.cast, self.scaler
        cast.step = self.steps
        cast.loss_scale = 1.0 if scaler is None else scaler.scale
        with one_blas_thread(), np.errstate(all="ignore"):
            loss = self._passes(cast, inputs, targets)
            if not math.isfinite(loss):
                self._find_bad(inputs, targets)
                raise DivergenceError(self._diagnosis(loss))
            gradients = cast.gradients
            if scaler is None:
                finite = True
                if cast.bad is None and not all(map(all_finite, gradients.values())):
                    self._find_bad(inputs, targets)
            else:
                gradients, finite = scaler.unscale(gradients)
                scaler.update(finite)
            if finite:  # a skipped step leaves no trace in the weights
                self.optimizer.step(self.parameters, gradients, cast)
            cast.close_step()
        self.steps += 1
        return loss

    def _passes(self, cast, inputs, targets):
        """Forward and, where the loss is finite, backward: the loss."""
        outputs = self._forward(cast, inputs)
        loss, gradient = self._loss_of(outputs, targets)
        if math.isfinite(loss) or cast.dry:
            gradient = gradient * gradient.dtype.type(cast.loss_scale)
            error = cast(gradient, "errors", "loss", "error", own=True)
            self.network.backward(error, cast, wanted=False)
        return loss

    def _loss_of(self, outputs, targets):
        """(loss as a float, its gradient), from a function that may be the user's own."""
        found = self.loss(outputs, targets)
        pair = found if isinstance(found, (tuple, list)) and len(found) == 2 else (None, None)
        loss, gradient = pair
        real = np.ndim(loss) == 0 and np.asarray(loss).dtype.kind in "fiu"
        floats = isinstance(gradient, np.ndarray) and gradient.dtype.kind == "f"
        if not real or not floats or gradient.shape != outputs.shape:
            raise TypeError(
                "loss must return a number and its gradient, a floating-point array of the outputs' shape "
                f"{outputs.shape}; it returned {_kinds(found)}"
            )
        return float(loss), gradient

    def _forward(self, cast, inputs):
        inputs = batch_of("inputs", inputs, "fiub")
        if inputs.dtype.kind == "f":
            inputs = cast(inputs, "activations", "input")
        return self.network.forward(inputs, cast)

    def _find_bad(self, inputs, targets):
        """Do the step again and look at every tensor: all of it is a function of what is still there."""
        if self.cast.bad is None:
            again = self.cast.copy(dry=True)
            self._passes(again, inputs, targets)
            self.cast.bad = again.bad

    def _diagnosis(self, loss):
        bad = self.cast.bad or "none was seen but the loss itself"
        return (
            f"stopped at step {self.steps}: the loss is {loss}. First tensor that went bad: {bad}"
        )

    def predict(self, inputs, block=4096, first=0):
        """The outputs of the network as it stands, in blocks, rounded as in training; uncounted.

        first : number of the first block, which decides its random words.
        """
        count("block", block, 1)
        batch_of("inputs", inputs, "fiub")
        cast = self.cast.copy(training=False)
        found = []
        with one_blas_thread(), np.errstate(all="ignore"):
            for k, start in enumerate(range(0, len(inputs), block)):
                cast.step = EVALUATION + first + k
                found.append(self._forward(cast, inputs[start : start + block]))
        return np.concatenate(found)

    def evaluate(self, inputs, labels, block=4096):
        """(mean loss, accuracy) of the network as it stands, rounded as in training; uncounted.

        The accuracy is NaN where `labels` are not one for each output, as those of mean_squared_error.
        """
        count("block", block, 1)
        total, right, labels = 0.0, 0, batch_of("labels", labels, "fiub")
        for k, start in enumerate(range(0, len(labels), block)):
            y = labels[start : start + block]
            logits = self.predict(inputs[start : start + block], block, k)
            with np.errstate(all="ignore"):
                total += self._loss_of(logits, y)[0] * len(y)
            if y.shape == logits.shape[:-1]:
                right += int(np.count_nonzero(logits.argmax(axis=-1) == y))
            else:
                right = math.nan
        return total / len(labels), right / np.size(labels)

    # ---------------------------------------------------------------- state
    def state_dict(self):
        """Everything that a resumed run needs to go on bit for bit; arrays are copies."""
        state = {
            "policy": self.policy.labels(),
            "seed": self.cast.seed,
            "steps": self.steps,
            "bad": self.cast.bad,
            "parameters": {key: value.copy() for key, value in self.parameters.items()},
            "buffers": {key: value.copy() for key, value in self.buffers.items()},
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "scales": self.cast.delayed.state_dict(),
            "monitor": None if self.monitor is None else self.monitor.state_dict(),
        }
        return state

    def load_state_dict(self, state):
        """Go on from a state. Raises ValueError if it belongs to another policy, seed or network.

        A state that is refused changes nothing.
        """
        self._check_state(state)
        parts = [(self.optimizer, "optimizer"), (self.cast.delayed, "scales")]
        if self.scaler is not None:
            parts.append((self.scaler, "scaler"))
        monitor = self.monitor
        if state["monitor"] is not None:
            monitor = self.monitor or Monitor()
            parts.append((monitor, "monitor"))
        # Each part takes its state in a copy: the second may refuse its own when the first has taken it.
        taken = [(part, copy.copy(part), state[what]) for part, what in parts]
        for part, trial, own in taken:
            trial.load_state_dict(own)
            if part is self.optimizer:
                _check_slots(trial, self.parameters)
        for part, trial, _ in taken:
            part.__dict__.update(trial.__dict__)
        self.cast.monitor = monitor
        self.steps, self.cast.bad = int(state["steps"]), state["bad"]
        self.parameters.update((k, np.array(v)) for k, v in state["parameters"].items())
        self.buffers.update((k, np.array(v)) for k, v in state["buffers"].items())

    def _check_state(self, state):
        state_of("a Trainer", state, _STATE)
        count("steps", state["steps"], 0)
        for what, own in (("policy", self.policy.labels()), ("seed", self.cast.seed)):
            if _comparable(state[what]) != _comparable(own):
                raise ValueError(f"the state has {what} {state[what]!r}, this trainer {own!r}")
        for what, own in (("parameters", self.parameters), ("buffers", self.buffers)):
            held = state_of(f"the {what}", state[what], ())
            kinds = [{k: _kind(v) for k, v in one.items()} for one in (held, own)]
            if kinds[0] != kinds[1]:
                raise ValueError(f"the state has {what} {kinds[0]}, this network {kinds[1]}")
        if (state["scaler"] is None) != (self.scaler is None):
            raise ValueError("the state and the trainer do not both have a loss scaler")

    def save(self, path):
        """Write a checkpoint; a reader, or a kill, finds the old file or the whole new one."""
        save_state(path, self.state_dict())

    def load(self, path):
        """Go on from a checkpoint."""
        self.load_state_dict(load_state(path))


def _check_parts(loss, optimizer, monitor):
    if not callable(loss):
        raise TypeError(
            f"loss must be a function (outputs, targets) -> (loss, gradient), got {loss!r}"
        )
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must be an optimizer, such as SGD(0.1), or None, got {optimizer!r}"
        )
    if monitor is not None and not isinstance(monitor, Monitor):
        raise TypeError(f"monitor must be a Monitor() or None, got {monitor!r}")


def _parts(network):
    """Every layer of a network, itself too. Raises ValueError for a layer or a name that stands there twice."""
    parts = list(network.walk())
    for i, part in enumerate(parts):
        if any(part is other for other in parts[:i]):
            raise ValueError(
                f"{part!r} stands in the network more than once; a layer keeps what its backward pass needs, so make "
                f"one for each place (it was last called {part.name!r})"
            )
        if any(part.name == other.name for other in parts[:i]):
            raise ValueError(
                f"two parts of the network are called {part.name!r}; give others, without dots"
            )
    return parts


def _check_slots(optimizer, parameters):
    """The state of an optimizer must be one of these parameters."""
    for slot, held in optimizer.state.items():
        for key, value in held.items():
            own = _kind(parameters[key]) if key in parameters else "no such parameter"
            if _kind(value) != own:
                raise ValueError(
                    f"the state's {slot} of {key} is {_kind(value)}, this network has {own}"
                )


def _kind(value):
    """Shape and dtype of an array, in words."""
    return f"{np.asarray(value).dtype.name} {np.shape(value)}"


def _check_layers(policy, ops):
    """An override of a layer by its whole name is a mistake where the network has none of that name."""
    known = [*(name for name in ops if name), "input", "loss"]
    for pattern, _ in policy.overrides:
        name = pattern.partition(":")[0]
        if name and not set("*?[") & set(name) and name not in ops and name not in known:
            raise ValueError(
                f"policy {policy.name!r}: overrides name {name!r}, which is no part of the network; known: "
                f"{', '.join(known)}"
            )


def _kinds(found):
    """What a loss returned, in words."""
    if isinstance(found, (tuple, list)):
        return f"({', '.join(map(_kinds, found))})"
    if isinstance(found, np.ndarray):
        return f"an array of shape {found.shape} and dtype {found.dtype}"
    return type(found).__name__


def _comparable(value):
    """Labels as they come back from a file: lists for tuples; without the source, which is no part of a policy."""
    if isinstance(value, dict):
        return {k: _comparable(v) for k, v in value.items() if k != "source"}
    return [_comparable(v) for v in value] if isinstance(value, (list, tuple)) else value
