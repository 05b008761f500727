"""A multilayer perceptron in plain NumPy, every tensor of which goes through a Caster.

Shapes: b images in a batch, i inputs and o outputs of a layer, c classes. Activations are (b, i),
weights (i, o).
"""

import numpy as np


def raw_words(seed, *index):
    """A source of 64-bit words for initial weights and the order of images, set by its arguments.

    Raw words, since NumPy promises that these, unlike its distributions, never change.
    """
    return np.random.Philox(np.random.SeedSequence([seed, *index])).random_raw


def uniform(words, shape):
    """Uniform float32 numbers in [-1, 1), multiples of 2**-23, from raw words."""
    size = int(np.prod(shape))
    top = (np.asarray(words(size), np.uint64) >> np.uint64(40)).astype(np.float32)
    return (top * np.float32(2.0**-23) - np.float32(1.0)).reshape(shape)


def permutation(words, n):
    """The order of n images from raw words."""
    return np.argsort(np.asarray(words(n), np.uint64), kind="stable")


class Linear:
    """y = x W + b. Reads `parameters[name.weight]` (i, o) and `parameters[name.bias]` (o,)."""

    def __init__(self, name, inputs, outputs, output_role="activations"):
        self.name = name
        self.shape = (inputs, outputs)
        self.output_role = output_role

    def initial(self, words):
        """He's uniform initialisation (He et al. 2015): variance 2 / inputs; biases zero."""
        limit = np.float32(np.sqrt(6.0 / self.shape[0]))
        return {
            f"{self.name}.weight": uniform(words, self.shape) * limit,
            f"{self.name}.bias": np.zeros(self.shape[1], np.float32),
        }

    def forward(self, x, parameters, cast):
        """x : (b, i) on the activations' grid. Returns (b, o), rounded."""
        self.input = x
        self.weight, self.bias = (
            parameters[key] if cast.policy.master is None else cast(parameters[key], "weights", key)
            for key in (f"{self.name}.weight", f"{self.name}.bias")
        )
        self.output = cast(x @ self.weight + self.bias, self.output_role, f"{self.name}.output")
        return self.output

    def backward(self, error, cast, gradients, input_error=None):
        """The gradients of weight and bias, put into `gradients`, and that of the input, returned.

        error : (b, o), the gradient with respect to the output.   input_error : name of the
            gradient with respect to the input, (b, i); None for the first layer, which needs none.
        """
        self.error = error
        for key, gradient in (
            (f"{self.name}.weight", self.input.T @ error),
            (f"{self.name}.bias", error.sum(axis=0)),
        ):
            gradients[key] = cast(gradient, "weight_gradients", f"{key}.gradient")
        self.gradients = {
            key: gradients[key] for key in gradients if key.startswith(self.name + ".")
        }
        if input_error is None:
            return None
        return cast(error @ self.weight.T, "errors", input_error)


class ReLU:
    """max(x, 0): a value of the grid goes to a value of the grid, so nothing is rounded."""

    def forward(self, x):
        self.positive = x > 0
        return np.maximum(x, x.dtype.type(0))

    def backward(self, error):
        return np.where(self.positive, error, error.dtype.type(0))


def softmax_cross_entropy(logits, labels):
    """(mean loss, its gradient with respect to the logits), in the logits' dtype.

    logits : (b, c).   labels : (b,) integers. The largest logit is taken off first, so that exp
        cannot overflow.
    """
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(sums[:, 0]) - shifted[rows, labels], dtype=np.float64))
    gradient = exponentials / sums
    gradient[rows, labels] -= 1
    return loss, gradient / gradient.dtype.type(len(labels))


class Network:
    """Linear layers with ReLU between them: sizes (i, h1, ..., c)."""

    def __init__(self, sizes):
        if len(sizes) < 2 or any(int(n) != n or n < 1 for n in sizes):
            raise ValueError(f"layer sizes must be positive integers, got {tuple(sizes)}")
        last = len(sizes) - 1
        self.layers = [
            Linear(f"layer{k}", sizes[k - 1], sizes[k], "logits" if k == last else "activations")
            for k in range(1, last + 1)
        ]
        self.between = [ReLU() for _ in self.layers[1:]]

    def initial(self, seed):
        """A dict of float32 parameters, a function of the seed."""
        words = raw_words(seed, 0)
        return {key: value for layer in self.layers for key, value in layer.initial(words).items()}

    def forward(self, images, parameters, cast):
        """images : (b, i). Returns the logits, (b, c)."""
        x = cast(images, "activations", "input")
        for layer, relu in zip(self.layers, [*self.between, None], strict=True):
            x = layer.forward(x, parameters, cast)
            x = x if relu is None else relu.forward(x)
        return x

    def backward(self, gradient, cast):
        """A dict of the gradients of all parameters.

        gradient : (b, c), that of the scaled loss with respect to the logits.
        """
        gradients = {}
        error = cast(gradient, "errors", f"{self.layers[-1].name}.error")
        below = [None, *self.layers[:-1]]
        relus = [None, *self.between]
        for layer, lower, relu in zip(self.layers[::-1], below[::-1], relus[::-1], strict=True):
            name = f"{lower.name}.error" if lower else None
            error = layer.backward(error, cast, gradients, name)
            error = relu.backward(error) if relu else None
        return gradients

    def tensors(self):
        """(name, role, array) of everything the last step stored: the arrays that it really used.

        The names are those that the Caster was given.
        """
        below = "input"
        for layer in self.layers:
            n = layer.name
            yield below, "activations", layer.input
            below = f"{n}.output"
            yield f"{n}.weight", "weights", layer.weight
            yield f"{n}.bias", "weights", layer.bias
            yield f"{n}.output", layer.output_role, layer.output
            yield f"{n}.error", "errors", layer.error
            for key, gradient in layer.gradients.items():
                yield f"{key}.gradient", "weight_gradients", gradient


class SGD:
    """Gradient descent, v = momentum * v + g, w = w - lr * v, each tensor held as the policy says.

    lr : learning rate.   momentum : 0 for none.   `velocity` is the state, a dict of arrays.
    """

    def __init__(self, lr, momentum=0.0):
        if not 0 < lr < float("inf"):
            raise ValueError(f"lr must be a positive number, got {lr!r}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum!r}")
        self.lr = float(lr)
        self.momentum = float(momentum)
        self.velocity = {}

    def step(self, parameters, gradients, cast):
        """Replace every array of `parameters` by its update. The gradients are unscaled."""
        for key, gradient in gradients.items():
            if self.momentum:
                if key not in self.velocity:
                    self.velocity[key] = np.zeros_like(gradient)
                gradient = cast.momentum(
                    self.momentum, self.velocity[key], gradient, f"{key}.momentum"
                )
                self.velocity[key] = gradient
            change = cast.change(gradient, self.lr, f"{key}.change")
            parameters[key] = cast.updated(parameters[key], change, f"{key}.updated")
