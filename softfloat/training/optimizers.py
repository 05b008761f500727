"""Optimizers: the change of every parameter from its gradient, and the state that this takes, held as the policy says.

A change dw is rounded to the update's format, a state to the optimizer's; w + dw is exact and rounded once. Where a
step is a chain of operations (Adam's), it runs in the carrier and its results are rounded once. Constants such as the
learning rate are held in the carrier.

Sources: Kingma and Ba, Adam (2015); Loshchilov and Hutter, Decoupled Weight Decay (2019); Zamirai et al., Revisiting
BFloat16 Training (2020), for the compensated update.
"""

import math

import numpy as np

from softfloat.training.checks import count, real, state_of


class Optimizer:
    """What optimizers share. `state` is {slot: {parameter: array}}, `steps` counts the steps that were not skipped.

    `held` names the numbers that a state holds beside them, as those of PyTorch do: a resumed run has its own.
    """

    held: tuple[str, ...] = ("lr", "weight_decay")
    taken = False  # whether a Trainer has it

    def __init__(self, lr, weight_decay=0.0):
        if not 0 < real("lr", lr) < math.inf:
            raise ValueError(f"lr must be a positive number, got {lr!r}")
        if not 0 <= real("weight_decay", weight_decay) < math.inf:
            raise ValueError(f"weight_decay must be a number >= 0, got {weight_decay!r}")
        self.lr = float(lr)
        self.weight_decay = float(weight_decay)
        self.steps = 0
        self.state = {}

    def slot(self, name, key, like):
        """A state array of one parameter, zeros at first."""
        slots = self.state.setdefault(name, {})
        if key not in slots:
            slots[key] = np.zeros_like(like)
        return slots[key]

    def step(self, parameters, gradients, cast):
        """Replace every array of `parameters` by its update. The gradients are unscaled."""
        self.steps += 1
        for key, gradient in gradients.items():
            module, _, what = key.rpartition(".")
            cast.chain = []
            change = self.change(key, parameters[key], gradient, cast, module, what)
            update = self._compensated if cast.policy_of(module).kahan else self._plain
            parameters[key] = update(key, parameters[key], change, cast, module, what)
        cast.chain = None

    def change(self, key, weights, gradient, cast, module, what):
        """dw, rounded."""
        raise NotImplementedError

    def _plain(self, key, weights, change, cast, module, what):
        return cast.updated(weights, change, module, what)

    def _compensated(self, key, weights, change, cast, module, what):
        """Kahan's sum: what rounding took from w + dw is taken off the next dw."""
        lost = self.slot("compensation", key, weights)
        change = cast(change - lost, "update", module, f"{what}.compensated", own=True)
        result = cast.updated(weights, change, module, what)
        self.state["compensation"][key] = cast(
            (result - weights) - change, "optimizer", module, f"{what}.compensation", own=True
        )
        return result

    def _decayed(self, weights, gradient):
        """The gradient of the loss with weight decay as a part of it."""
        if not self.weight_decay:
            return gradient
        return gradient + weights * weights.dtype.type(self.weight_decay)

    def state_dict(self):
        """Everything that a resumed run needs."""
        slots = {name: {k: v.copy() for k, v in held.items()} for name, held in self.state.items()}
        numbers = {name: getattr(self, name) for name in self.held}
        return {"kind": type(self).__name__, "steps": self.steps, **numbers, "state": slots}

    def load_state_dict(self, state):
        """Go on from a state. Raises ValueError if it belongs to another kind of optimizer."""
        own = type(self).__name__
        state_of("an optimizer", state, ("kind", "steps", "state"))
        if state["kind"] != own:
            raise ValueError(f"this is the state of {state['kind']}, not of {own}")
        state_of(own, state, self.held)
        slots = state_of(f"the slots of {own}", state["state"], ())
        slots = {
            name: {k: np.array(v) for k, v in state_of(f"the slot {name}", held, ()).items()}
            for name, held in slots.items()
        }
        numbers = {name: _number_or_pair(name, state[name]) for name in self.held}
        self.steps, self.state = count("steps", state["steps"], 0), slots
        self.__dict__.update(numbers)


def _number_or_pair(name, value):
    """A number of a state as it was; a file has lists for tuples."""
    if isinstance(value, (tuple, list)):
        return tuple(real(name, one) for one in value)
    return real(name, value)


class SGD(Optimizer):
    """Gradient descent, v = momentum * v + g, w = w - lr * v.

    lr : learning rate.   momentum : 0 for none.   weight_decay : times w, added to g.
    """

    held = (*Optimizer.held, "momentum")

    def __init__(self, lr, momentum=0.0, weight_decay=0.0):
        super().__init__(lr, weight_decay)
        if not 0 <= real("momentum", momentum) < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum!r}")
        self.momentum = float(momentum)

    def change(self, key, weights, gradient, cast, module, what):
        gradient = self._decayed(weights, gradient)
        if self.momentum:
            velocity = self.slot("momentum", key, gradient)
            gradient = cast.momentum(self.momentum, velocity, gradient, module, what)
            self.state["momentum"][key] = gradient
        return cast.change(gradient, self.lr, module, what)


class Adam(Optimizer):
    """Adam: means of the gradients and of their squares, corrected for their start at zero.

    lr, betas, epsilon, weight_decay (times w, added to g) : as in torch.optim.Adam.
    """

    held = (*Optimizer.held, "betas", "epsilon")
    decoupled = False

    def __init__(self, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.0):
        super().__init__(lr, weight_decay)
        pair = isinstance(betas, (tuple, list)) and len(betas) == 2
        if not pair or not all(0 <= real("a beta", beta) < 1 for beta in betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {betas!r}")
        if not 0 <= real("epsilon", epsilon) < math.inf:
            raise ValueError(f"epsilon must be a number >= 0, got {epsilon!r}")
        self.betas = tuple(float(beta) for beta in betas)
        self.epsilon = float(epsilon)

    def change(self, key, weights, gradient, cast, module, what):
        number = gradient.dtype.type
        if not self.decoupled:
            gradient = self._decayed(weights, gradient)
        first, second = self.betas
        m = self._mean("mean", key, first, gradient, cast, module, what)
        v = self._mean("square", key, second, gradient * gradient, cast, module, what)
        rate = self.lr / (1 - first**self.steps)
        root = np.sqrt(v) * number(1 / math.sqrt(1 - second**self.steps)) + number(self.epsilon)
        change = m / root
        change *= number(-rate)
        if self.decoupled and self.weight_decay:
            change -= weights * number(self.lr * self.weight_decay)
        return cast(change, "update", module, f"{what}.change", own=True)

    def _mean(self, slot, key, beta, value, cast, module, what):
        held = self.slot(slot, key, value)
        number = held.dtype.type
        mean = held * number(beta) + value * number(1 - beta)
        mean = cast(mean, "optimizer", module, f"{what}.{slot}", own=True)
        self.state[slot][key] = mean
        return mean


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: w loses lr * weight_decay * w; by default 0.01."""

    decoupled = True

    def __init__(self, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
        super().__init__(lr, betas, epsilon, weight_decay)
