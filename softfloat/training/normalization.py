"""Pooling and normalization. Statistics are formed in the carrier, as mixed-precision practice has it; what leaves a
layer is rounded once.

Sources: Ioffe and Szegedy, Batch Normalization (2015); Ba, Kiros and Hinton, Layer Normalization (2016).
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from softfloat.training.checks import real
from softfloat.training.layers import Module, check_sizes
from softfloat.training.words import path_of


class _Pool2d(Module):
    """Windows of `size` places, `stride` (by default size) apart, without padding: (n, c, h, w) to (n, c, h', w')."""

    def __init__(self, size, stride=None):
        self.size, self.stride = check_sizes(
            type(self).__name__, size, size if stride is None else stride
        )

    def _windows(self, x):
        """(n, c, h', w', size * size), a copy."""
        if min(x.shape[-2:]) < self.size:
            raise ValueError(f"pooling windows of {self.size} do not fit in {x.shape}")
        self.shape = x.shape
        view = sliding_window_view(x, (self.size, self.size), (-2, -1))
        view = view[..., :: self.stride, :: self.stride, :, :]
        return view.reshape(*view.shape[:-2], -1)

    def _spread(self, shares, dtype):
        """The sum over all windows of what each place of theirs is given. shares : function of the place."""
        below = np.zeros(self.shape, dtype)
        for tap in range(self.size * self.size):
            row, column = divmod(tap, self.size)
            share = shares(tap)
            h, w = share.shape[-2:]
            rows = slice(row, row + (h - 1) * self.stride + 1, self.stride)
            columns = slice(column, column + (w - 1) * self.stride + 1, self.stride)
            below[..., rows, columns] += share
        return below


class MaxPool2d(_Pool2d):
    """The largest of each window, the first where several are."""

    op = "max_pool2d"

    def forward(self, x, cast):
        windows = self._windows(x)
        self.chosen = windows.argmax(axis=-1)
        return np.take_along_axis(windows, self.chosen[..., None], -1)[..., 0]

    def backward(self, error, cast, wanted=True):
        zero = error.dtype.type(0)
        below = self._spread(lambda tap: np.where(self.chosen == tap, error, zero), error.dtype)
        if self.stride >= self.size:
            return below
        return cast(below, "errors", self.name, "error", own=True)  # windows overlap: sums


class AvgPool2d(_Pool2d):
    """The mean of each window."""

    op = "avg_pool2d"

    def forward(self, x, cast):
        y = self._windows(x).mean(axis=-1)
        return cast(y, self.role, self.name, "output", own=True)

    def backward(self, error, cast, wanted=True):
        share = error * error.dtype.type(1 / (self.size * self.size))
        below = self._spread(lambda tap: share, error.dtype)
        return cast(below, "errors", self.name, "error", own=True)


class _Normalization(Module):
    """y = gain * (x - mean) / sqrt(variance + epsilon) + bias. Parameters gain and bias, of the layer's width."""

    def __init__(self, width, epsilon=1e-5):
        (self.width,) = check_sizes(type(self).__name__, width)
        self.epsilon = real("epsilon", epsilon)
        if not 0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon must be a number >= 0, got {epsilon!r}")

    def initial(self, words):
        return {"gain": np.ones(self.width, np.float32), "bias": np.zeros(self.width, np.float32)}

    def _shaped(self, vector, ndim):
        return vector

    def _normalized(self, x, mean, variance, cast):
        self.inverse = 1 / np.sqrt(variance + x.dtype.type(self.epsilon))
        self.unit = (x - mean) * self.inverse
        self.gain = self._shaped(cast.parameter(self.name, "gain"), x.ndim)
        bias = self._shaped(cast.parameter(self.name, "bias"), x.ndim)
        return cast(self.unit * self.gain + bias, self.role, self.name, "output", own=True)

    def _gradients(self, error, axes, cast):
        cast.gradient(self.name, "gain", (error * self.unit).sum(axis=axes))
        cast.gradient(self.name, "bias", error.sum(axis=axes))

    def _below(self, error, over, cast):
        """The gradient of the input. over : the axes of the statistics, None where these are constants."""
        d = error * self.gain
        if over is not None:
            mean = d.mean(axis=over, keepdims=True)
            along = (d * self.unit).mean(axis=over, keepdims=True)
            d = d - mean - self.unit * along
        return cast(d * self.inverse, "errors", self.name, "error", own=True)


class LayerNorm(_Normalization):
    """Statistics of each example over the last axis, of size `width`."""

    op = "layer_norm"

    def forward(self, x, cast):
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        return self._normalized(x, mean, variance, cast)

    def backward(self, error, cast, wanted=True):
        self._gradients(error, tuple(range(error.ndim - 1)), cast)
        return self._below(error, -1, cast) if wanted else None


class BatchNorm(_Normalization):
    """Statistics of each channel (axis 1) over the batch: x (n, width) or (n, width, ...).

    Evaluation uses running means, in which a step counts `momentum`, and running variances (unbiased, as in PyTorch).
    """

    op = "batch_norm"

    def __init__(self, width, epsilon=1e-5, momentum=0.1):
        super().__init__(width, epsilon)
        self.momentum = real("momentum", momentum)
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum must lie in [0, 1], got {momentum!r}")

    def buffers(self):
        return {"mean": np.zeros(self.width), "variance": np.ones(self.width)}

    def _shaped(self, vector, ndim):
        return vector.reshape(-1, *(1,) * (ndim - 2))

    def forward(self, x, cast):
        self.axes = (0, *range(2, x.ndim))
        self.fixed = not cast.training
        if self.fixed:
            names = [path_of(self.name, what) for what in ("mean", "variance")]
            kept = [self._shaped(cast.buffers[name].astype(x.dtype), x.ndim) for name in names]
            return self._normalized(x, *kept, cast)
        mean = x.mean(axis=self.axes, keepdims=True)
        variance = x.var(axis=self.axes, keepdims=True)
        if not cast.dry:
            count = x.size // self.width
            self._remember(cast, "mean", mean)
            self._remember(cast, "variance", variance * (count / max(count - 1, 1)))
        return self._normalized(x, mean, variance, cast)

    def _remember(self, cast, what, value):
        kept = cast.buffers[path_of(self.name, what)]
        kept += self.momentum * (value.reshape(-1) - kept)

    def backward(self, error, cast, wanted=True):
        self._gradients(error, self.axes, cast)
        return self._below(error, None if self.fixed else self.axes, cast) if wanted else None
