"""Layers in plain NumPy, every tensor of which goes through a Caster; forward and backward written out.

Shapes: n examples in a batch, c channels, h and w height and width, i inputs and o outputs. A layer keeps what its
backward pass needs until the next forward pass, and so can stand in a network once only. What leaves a layer is rounded
once; what only selects, moves or negates values (ReLU, MaxPool2d, Flatten) has nothing to round.
"""

import numpy as np

from softfloat.training.checks import real
from softfloat.training.kernels import gated
from softfloat.training.words import uniform


class Module:
    """A part of a network. `name` is its path, set by `bind`; `role` the role of what it puts out."""

    name = ""
    op = "module"
    role = "activations"

    def children(self):
        """{name: Module}, in the order of the forward pass."""
        return {}

    def bind(self, name=""):
        """Give every part its path; returns the module."""
        self.name = name
        for child, module in self.children().items():
            module.bind(f"{name}.{child}" if name else child)
        return self

    def walk(self):
        """This module and all below it."""
        yield self
        for module in self.children().values():
            yield from module.walk()

    def mark_output(self):
        """Make the output of this module the network's logits."""
        self.role = "logits"

    def initial(self, words):
        """{name: float32 array} of its own parameters, from a source of random words."""
        return {}

    def buffers(self):
        """{name: array} of what it keeps from step to step and no optimizer updates."""
        return {}

    def forward(self, x, cast):
        """The output, rounded."""
        raise NotImplementedError

    def backward(self, error, cast, wanted=True):
        """The gradient with respect to the input, rounded, or None if it is not wanted.

        error : the gradient with respect to the output. Gradients of parameters go to cast.gradient.
        """
        raise NotImplementedError

    def __repr__(self):
        inner = ", ".join(f"{name}={module!r}" for name, module in self.children().items())
        return f"{type(self).__name__}({inner})"


def he_uniform(words, shape, inputs):
    """He's uniform initialisation (He et al. 2015): variance 2 / inputs."""
    return uniform(words, shape) * np.float32(np.sqrt(6.0 / inputs))


class Linear(Module):
    """y = x W + b, over the last axis. Parameters weight (i, o) and bias (o,)."""

    op = "linear"

    def __init__(self, inputs, outputs, bias=True):
        self.shape = check_sizes("Linear", inputs, outputs)
        self.bias = bias

    def initial(self, words):
        found = {"weight": he_uniform(words, self.shape, self.shape[0])}
        return {**found, "bias": np.zeros(self.shape[1], np.float32)} if self.bias else found

    def forward(self, x, cast):
        inputs, outputs = self.shape
        if x.shape[-1] != inputs:
            raise ValueError(f"{self.name}: Linear takes (..., {inputs}), got shape {x.shape}")
        self.leading = x.shape[:-1]
        self.input = x.reshape(-1, inputs)
        self.weight = cast.parameter(self.name, "weight")
        y = cast.product(self.input, self.weight, self.name, "output")
        if self.bias:
            y = cast.plus(y, cast.parameter(self.name, "bias"), self.name, "output")
        y = cast(y, self.role, self.name, "output", own=True)
        return y.reshape(*self.leading, outputs)

    def backward(self, error, cast, wanted=True):
        inputs, outputs = self.shape
        error = error.reshape(-1, outputs)
        roles = ("activations", "errors")
        product = cast.product(self.input.T, error, self.name, "weight.gradient", roles)
        cast.gradient(self.name, "weight", product)
        if self.bias:
            cast.gradient(self.name, "bias", cast.total(error, 0, self.name, "bias.gradient"))
        if not wanted:
            return None
        roles = ("errors", "weights")
        below = cast.product(error, self.weight.T, self.name, "error", roles)
        below = cast(below, "errors", self.name, "error", own=True)
        return below.reshape(*self.leading, inputs)


class Conv2d(Module):
    """Convolution: x (n, c, h, w) to (n, o, h', w'). Parameters weight (o, c / groups, k, k) and bias (o,).

    size : of the kernel.   stride, padding, dilation, groups : as for softfloat.conv2d.
    """

    op = "conv2d"

    def __init__(self, inputs, outputs, size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        inputs, outputs, groups = check_sizes("Conv2d", inputs, outputs, groups)
        if inputs % groups or outputs % groups:
            raise ValueError(
                f"Conv2d: groups must divide inputs and outputs, got {groups} for {inputs} and {outputs}"
            )
        size = (size, size) if np.ndim(size) == 0 else tuple(size)
        if len(size) != 2:
            raise ValueError(f"Conv2d: size must be one number or two, got {size}")
        size = check_sizes("Conv2d: kernel", *size)
        self.shape = (outputs, inputs // groups, *size)
        self.geometry = {
            "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        }  # fmt: skip
        self.bias = bias

    def initial(self, words):
        found = {"weight": he_uniform(words, self.shape, int(np.prod(self.shape[1:])))}
        return {**found, "bias": np.zeros(self.shape[0], np.float32)} if self.bias else found

    def forward(self, x, cast):
        self.input = x
        self.weight = cast.parameter(self.name, "weight")
        roles = ("activations", "weights")
        y = cast.convolution("conv2d", x, self.weight, self.name, "output", roles, **self.geometry)
        if self.bias:
            bias = cast.parameter(self.name, "bias")[:, None, None]
            y = cast.plus(y, bias, self.name, "output")
        return cast(y, self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        error = np.ascontiguousarray(error)
        weight = cast.convolution(
            "conv2d_weight_gradient", self.input, error, self.name, "weight.gradient",
            ("activations", "errors"), self.shape, **self.geometry,
        )  # fmt: skip
        cast.gradient(self.name, "weight", weight)
        if self.bias:
            total = cast.total(error, (0, 2, 3), self.name, "bias.gradient")
            cast.gradient(self.name, "bias", total)
        if not wanted:
            return None
        below = cast.convolution(
            "conv2d_input_gradient", error, self.weight, self.name, "error",
            ("errors", "weights"), self.input.shape, **self.geometry,
        )  # fmt: skip
        return cast(below, "errors", self.name, "error", own=True)


class Embedding(Module):
    """Rows of a table, by integer index. Parameter weight (entries, width)."""

    op = "embedding"

    def __init__(self, entries, width):
        self.shape = check_sizes("Embedding", entries, width)

    def initial(self, words):
        return {"weight": uniform(words, self.shape) * np.float32(0.05)}

    def forward(self, x, cast):
        indices = np.asarray(x)
        if indices.dtype.kind not in "iu":
            raise TypeError(f"Embedding takes integers, got dtype {indices.dtype}")
        if indices.size and not (0 <= indices.min() and indices.max() < self.shape[0]):
            raise ValueError(
                f"Embedding has entries 0..{self.shape[0] - 1}, got {indices.min()}..{indices.max()}"
            )
        self.indices = indices
        rows = cast.parameter(self.name, "weight")[indices]
        return cast(rows, self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        entries, width = self.shape
        chosen = self.indices.reshape(1, -1) == np.arange(entries)[:, None]
        error = error.reshape(-1, width)
        # A product with zeros and ones: sums in the order of the batch, rounded as all products are.
        product = cast.product(
            chosen.astype(error.dtype), error, self.name, "weight.gradient", ("plain", "errors")
        )
        cast.gradient(self.name, "weight", product)
        return None


class Position(Module):
    """Adds a learned vector to each place of a sequence: x (n, t, width). Parameter weight (places, width)."""

    op = "position"

    def __init__(self, places, width):
        self.shape = check_sizes("Position", places, width)

    def initial(self, words):
        return {"weight": uniform(words, self.shape) * np.float32(0.05)}

    def forward(self, x, cast):
        self.length = x.shape[1]
        if self.length > self.shape[0]:
            raise ValueError(f"Position has {self.shape[0]} places, the sequence {self.length}")
        y = x + cast.parameter(self.name, "weight")[: self.length]
        return cast(y, self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        total = np.zeros(self.shape, error.dtype)
        total[: self.length] = cast.total(error, 0, self.name, "weight.gradient")
        cast.gradient(self.name, "weight", total)
        return error


class ReLU(Module):
    """max(x, 0)."""

    op = "relu"

    def forward(self, x, cast):
        self.output = np.maximum(x, x.dtype.type(0))
        return self.output

    def backward(self, error, cast, wanted=True):
        return gated(self.output, error)


class GELU(Module):
    """x times the normal distribution function, exact or (approximate="tanh") by Hendrycks and Gimpel's formula."""

    op = "gelu"

    def __init__(self, approximate="none"):
        if approximate not in ("none", "tanh"):
            raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
        self.approximate = approximate

    def _parts(self, x):
        """The distribution function, or what stands for it, and its derivative."""
        number = x.dtype.type
        if self.approximate == "none":
            from scipy.special import erf

            density = np.exp(number(-0.5) * x * x) * number(1 / np.sqrt(2 * np.pi))
            return number(0.5) * (number(1) + erf(x * number(np.sqrt(0.5)))), density
        root, cubic = number(np.sqrt(2 / np.pi)), number(0.044715)
        t = np.tanh(root * (x + cubic * x * x * x))
        slope = root * (number(1) + number(3) * cubic * x * x)
        return number(0.5) * (number(1) + t), number(0.5) * (number(1) - t * t) * slope

    def forward(self, x, cast):
        self.input = x
        return cast(x * self._parts(x)[0], self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        share, density = self._parts(self.input)
        below = error * (share + self.input * density)
        return cast(below, "errors", self.name, "error", own=True)


class Dropout(Module):
    """Sets each element to zero with probability `rate` and multiplies the others by 1 / (1 - rate), in training."""

    op = "dropout"

    def __init__(self, rate=0.5):
        if not 0 <= real("rate", rate) < 1:
            raise ValueError(f"rate must lie in [0, 1), got {rate!r}")
        self.rate = float(rate)

    def forward(self, x, cast):
        self.mask = None
        if not cast.training or self.rate == 0:
            return x
        kept = cast.kept(self.name, x.shape, self.rate)
        self.mask = kept.astype(x.dtype) * x.dtype.type(1 / (1 - self.rate))
        return cast(x * self.mask, self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        if self.mask is None:
            return error
        return cast(error * self.mask, "errors", self.name, "error", own=True)


class Flatten(Module):
    """(n, ...) to (n, all the rest)."""

    op = "flatten"

    def forward(self, x, cast):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, error, cast, wanted=True):
        return error.reshape(self.shape)


class Sequential(Module):
    """Modules one after the other: Sequential(a, b), called "0" and "1", or Sequential(first=a, second=b)."""

    op = "sequential"

    def __init__(self, *modules, **named):
        self.parts = {**{str(i): m for i, m in enumerate(modules)}, **named}
        if not self.parts:
            raise ValueError("Sequential needs one or more modules")
        for name, module in self.parts.items():
            if not isinstance(module, Module):
                raise TypeError(f"Sequential: {name} must be a Module, got {module!r}")

    def children(self):
        return self.parts

    def mark_output(self):
        self.role = "logits"
        list(self.parts.values())[-1].mark_output()

    def forward(self, x, cast):
        for module in self.parts.values():
            x = module.forward(x, cast)
        return x

    def backward(self, error, cast, wanted=True):
        parts = list(self.parts.values())
        for i in range(len(parts) - 1, -1, -1):
            # What no parameter lies below is not worth computing.
            needed = wanted or any(has_parameters(module) for module in parts[:i])
            error = parts[i].backward(error, cast, needed)
            if not needed:
                return None
        return error


class Residual(Module):
    """x + inner(x), rounded once."""

    op = "residual"

    def __init__(self, inner):
        if not isinstance(inner, Module):
            raise TypeError(f"Residual: inner must be a Module, got {inner!r}")
        self.inner = inner

    def children(self):
        return {"inner": self.inner}

    def forward(self, x, cast):
        return cast(x + self.inner.forward(x, cast), self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        below = self.inner.backward(error, cast, wanted)
        if not wanted:
            return None
        return cast(error + below, "errors", self.name, "error", own=True)


def has_parameters(module):
    """Whether anything in a module is trained."""
    return any(type(part).initial is not Module.initial for part in module.walk())


def check_sizes(name, *sizes):
    """The sizes as integers; ValueError for one that is no positive integer."""
    for n in sizes:
        number = isinstance(n, (int, float, np.number)) and not isinstance(n, bool)
        if not number or not n >= 1 or int(n) != n:
            raise ValueError(f"{name}: sizes must be positive integers, got {sizes}")
    return tuple(int(n) for n in sizes)


def perceptron(sizes):
    """Linear layers with ReLU between them: sizes (i, h1, ..., c); layers are called layer1, relu1, layer2, ..."""
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"a network is a Module, or a list of layer sizes, got {sizes!r}")
    if len(sizes) < 2:
        raise ValueError(f"layer sizes must be two or more positive integers, got {tuple(sizes)}")
    sizes = check_sizes("layer", *sizes)
    parts = {}
    for k in range(1, len(sizes)):
        parts[f"layer{k}"] = Linear(sizes[k - 1], sizes[k])
        parts[f"relu{k}"] = ReLU()
    del parts[f"relu{len(sizes) - 1}"]
    return Sequential(**parts)
