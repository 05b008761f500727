"""Caster: puts every tensor of a step on its grid, and keeps the account.

Every random bit is a function of (seed, step, tensor, element): the stream of a tensor is made of
the step and of a checksum of the tensor's name, the element is its index.
"""

import math
import zlib

import numpy as np

from softfloat.functional import add, fma, multiply, quantize
from softfloat.training.policy import SCALED_ROLES

LARGEST_SHIFT = 60  # of a tensor scale, up or down: float32 has room for that and back


def stream_of(step, name):
    """The stream of random words of one tensor at one step."""
    return (int(step) << 32) | zlib.crc32(name.encode())


class Caster:
    """Rounds tensors as a policy says.

    policy : Policy.   seed : for stochastic rounding.   monitor : Monitor, or None to count
        nothing.
    `step` and `loss_scale` are set by the trainer; `scales` holds the factor of each tensor that
    was scaled, `bad` the description of the first tensor with a value that is not finite.
    """

    def __init__(self, policy, seed=0, monitor=None):
        self.policy = policy
        self.seed = seed
        self.monitor = monitor
        self.step = 0
        self.loss_scale = 1.0
        self.scales = {}
        self.bad = None

    def _options(self, rounding, name, fmt):
        options = {"rounding": rounding}
        if rounding.startswith("stochastic"):
            options.update(seed=self.seed, stream=stream_of(self.step, name))
        if self.policy.saturate:
            options["saturate"] = self.policy.saturate
        return options

    def __call__(self, x, role, name):
        """x on the grid of a role, in the policy's dtype; x itself is left as it is."""
        policy = self.policy
        fmt = policy.grids[role]
        scale = 1.0
        if fmt is None:
            y = x
        else:
            if policy.scaling == "current" and role in SCALED_ROLES:
                scale = self._scale(x, fmt)
                self.scales[name] = scale
            scaled = x if scale == 1.0 else x * x.dtype.type(scale)
            y = quantize(scaled, fmt, **self._options(policy.rounding, name, fmt))
            if scale != 1.0:
                y = y / y.dtype.type(scale)
            y = y.astype(policy.dtype, copy=False)
        self._account(x, y, role, name, fmt, scale)
        return y

    def _scale(self, x, fmt):
        """The power of two that brings the largest magnitude under the largest value of fmt."""
        largest = float(np.max(np.abs(x))) if x.size else 0.0
        if not 0.0 < largest < math.inf:
            return 1.0
        shift = math.frexp(fmt.max / largest)[1] - 1
        return 2.0 ** max(-LARGEST_SHIFT, min(LARGEST_SHIFT, shift))

    def _account(self, x, y, role, name, fmt, scale):
        ends = (y.min(), y.max()) if y.size else (0.0, 0.0)  # NaN, if y has one
        if self.monitor is not None:
            step, loss_scale = self.step, self.loss_scale
            self.monitor.tensor(role, x, y, fmt, step, scale, loss_scale, ends)
        if self.bad is None and not (-math.inf < ends[0] and ends[1] < math.inf):
            self._describe(x, y, role, name)

    def _describe(self, x, y, role, name):
        fmt = self.policy.stored if role == "stored" else getattr(self.policy, role)
        label = "binary32" if fmt is None else fmt.label
        wrong = y.size - int(np.count_nonzero(np.isfinite(y)))
        finite = np.abs(x[np.isfinite(x)])
        if finite.size == x.size:
            cause = f"largest magnitude before rounding {finite.max():.6g}"
            if fmt is not None:
                cause += f", largest value of {label} {fmt.max:.6g}"
        else:
            cause = f"{x.size - finite.size} were not finite before rounding either"
        self.bad = (
            f"{name} ({role.replace('_', ' ')} in {label}) at step {self.step}: "
            f"{wrong} of {y.size} values are not finite; {cause}"
        )

    # ---------------------------------------------------------------- the optimizer's operations
    def momentum(self, factor, velocity, gradient, name):
        """factor * velocity + gradient, rounded once to the optimizer's format."""
        fmt = self.policy.grids["optimizer"]
        plain = velocity * velocity.dtype.type(factor) + gradient
        if fmt is None:
            result = plain
        else:
            options = self._options(self.policy.rounding, name, fmt)
            result = fma(velocity, float(factor), gradient, fmt, **options)
            result = result.astype(self.policy.dtype, copy=False)
        self._account(plain, result, "optimizer", name, fmt, 1.0)
        return result

    def change(self, gradient, lr, name):
        """dw = -lr * gradient, rounded once to the update's format."""
        fmt = self.policy.grids["update"]
        dtype = self.policy.dtype
        plain = gradient * dtype.type(-lr)
        if fmt is None:
            result = plain
        else:
            options = self._options(self.policy.rounding, name, fmt)
            result = multiply(gradient, -float(lr), fmt, **options).astype(dtype, copy=False)
        self._account(plain, result, "update", name, fmt, 1.0)
        return result

    def updated(self, weights, change, name):
        """w + dw, exact, rounded once to the format that the weights are stored in."""
        fmt = self.policy.grids["stored"]
        if fmt is None:
            result = weights + change
        else:
            options = self._options(self.policy.update_rounding, name, fmt)
            result = add(weights, change, fmt, **options).astype(self.policy.dtype, copy=False)
        if self.monitor is not None:
            self.monitor.update(weights, change, result, self.step)
        if self.bad is None and not np.isfinite(result).all():
            self._describe(weights, result, "stored", name)
        return result
