"""Caster: puts every tensor of a step on its grid, forms every product, and keeps the account.

Every random bit is a function of (seed, step, tensor, element): the stream of a tensor is made of the step and of a
checksum of the tensor's name, the element is its index.
"""

from typing import Any, NamedTuple

import numpy as np

from softfloat import contractions
from softfloat.formats import binary32, binary64
from softfloat.functional import add, fma, multiply, quantize
from softfloat.products import matmul
from softfloat.reductions import sum as sum_rounded
from softfloat.training.kernels import all_finite, largest_magnitude
from softfloat.training.policy import OPTIMIZER_ROLES, SCALED_ROLES
from softfloat.training.scaling import DelayedScales, power_under
from softfloat.training.words import kept_elements, path_of, stream_of

_OF_PRODUCTS = ("product", "product_rounding", "engine")


class Site(NamedTuple):
    """One tensor of the network: its name, and where its values lie."""

    name: str
    fmt: Any
    rounding: str
    saturate: Any
    random: bool


class Caster:
    """Rounds tensors as a policy says.

    policy : Policy.   seed : for stochastic rounding and dropout.   monitor : Monitor, or None to count nothing.
    ops : {name of a layer: its kind}, for overrides that name a kind.   training : whether dropout drops and statistics
        are those of the batch.   dry : whether the pass is a repetition, which leaves no trace.
    `step`, `loss_scale` and `parameters` are set by the trainer; `gradients` collects what backward passes find,
    `scales` the factor of each tensor that was scaled. A dry pass keeps in `bad` the first tensor that is not finite.
    """

    def __init__(self, policy, seed=0, monitor=None, *, ops=None, training=True, dry=False):
        self.policy = policy
        self.seed = seed
        self.monitor = monitor
        self.ops = {} if ops is None else ops
        self.training = training
        self.dry = dry
        self.step = 0
        self.loss_scale = 1.0
        self.parameters = {}
        self.gradients = {}
        self.buffers = {}
        self.scales = {}
        self.delayed = DelayedScales(policy.amax_history, policy.margin)
        self.bad = None
        self._sites = {}
        self.chain = None  # in an optimizer, of the update at hand: results, and what gives them again before rounding

    def copy(self, **changes):
        """A Caster for another pass over the same network at the same step: of evaluation, or dry."""
        other = Caster(self.policy, self.seed, ops=self.ops, **changes)
        other.step, other.loss_scale = self.step, self.loss_scale
        other.parameters, other.buffers = self.parameters, self.buffers
        other.delayed = self.delayed
        return other

    def close_step(self):
        """What the next step may know of this one."""
        self.delayed.commit()
        self.gradients = {}

    def policy_of(self, module):
        """The policy of one layer, by name."""
        return self.policy.at(module, self.ops.get(module))

    def _site(self, role, module, what):
        key = role, module, what
        try:
            return self._sites[key]
        except KeyError:
            policy = self.policy_of(module)
            fmt, rounding = policy.grid(role)
            name, random = path_of(module, what), rounding.startswith("stochastic")
            site = self._sites[key] = Site(name, fmt, rounding, policy.saturate, random)
            return site

    def stream(self, name):
        """The stream of random words of one tensor at this step."""
        return stream_of(self.step, name)

    def _options(self, site):
        options = {"rounding": site.rounding}
        if site.random:
            options.update(seed=self.seed, stream=self.stream(site.name))
        if site.saturate:
            options["saturate"] = site.saturate
        return options

    # ---------------------------------------------------------------- tensors
    def __call__(self, x, role, module, what="", own=False):
        """x on the grid of a role, in the policy's dtype.

        module, what : names of the layer and of its tensor.   own : whether x may be overwritten.
        """
        site = self._site(role, module, what)
        if x.dtype != self.policy.dtype:
            x, own = x.astype(self.policy.dtype), True
        scale = 1.0
        if site.fmt is None:
            y = x
        elif self.policy.scaling and role in SCALED_ROLES:
            scale = self._scale(x, site)
            y = self._scaled(x, site, scale)
        else:
            alone = own and self.monitor is None and not self.dry  # nobody asks what x was
            y = quantize(x, site.fmt, out=x if alone else None, **self._options(site))
        if self.monitor is not None:
            self.monitor.tensor(site.name, role, x, y, site.fmt, self.step, scale, self.loss_scale)
        if self.dry:
            self._look(x, y, role, site)
        elif role in OPTIMIZER_ROLES:
            self._follow(y, role, site, lambda: None if y is x and site.fmt else x)
        return y

    def _scale(self, x, site):
        largest = largest_magnitude(x)
        if self.policy.scaling == "current":
            scale = power_under(largest, site.fmt, self.policy.margin)
        else:
            scale = self.delayed.scale(site.name, site.fmt)
            if self.training and not self.dry:
                self.delayed.found[site.name] = largest
        self.scales[site.name] = scale
        return scale

    def _scaled(self, x, site, scale):
        factor, back = x.dtype.type(scale), x.dtype.type(1 / scale)
        y = x * factor
        quantize(y, site.fmt, out=y, **self._options(site))
        y *= back
        return y

    def parameter(self, module, what):
        """A parameter of a layer as its products read it."""
        stored = self.parameters[path_of(module, what)]
        if self.policy_of(module).master is None:
            if self.dry:
                self._look(stored, stored, "weights", self._site("weights", module, what))
            return stored
        return self(stored, "weights", module, what)

    def gradient(self, module, what, value):
        """Take the gradient of a parameter, rounded. value : a fresh array, which may be overwritten."""
        rounded = self(value, "weight_gradients", module, f"{what}.gradient", own=True)
        self.gradients[path_of(module, what)] = rounded

    def kept(self, module, shape, rate):
        """The mask of a dropout layer at this step."""
        return kept_elements(self.seed, self.step, module, shape, rate)

    def _look(self, x, y, role, site):
        if self.bad is None and y.size and not all_finite(y):
            self.bad = description(x, y, role, site, self.step)

    # ---------------------------------------------------------------- products and sums
    def _sums(self, module, what):
        """(format, options) of the products of a layer, random words included; None where the carrier forms them."""
        sums = self.policy_of(module).sums
        if sums is None:
            return None
        fmt, options = sums
        if any(str(options.get(r, "")).startswith("stochastic") for r in _ROUNDINGS):
            stream = self.stream(f"{module}.{what}.sums")
            options = {**options, "seed": self.seed, "stream": stream}
        return fmt, options

    def product(self, a, b, module, what, roles=("activations", "weights")):
        """a @ b, in the carrier or with every product and sum rounded. roles : of a and b.

        module, what : names of the layer and of the product.
        """
        sums = self._sums(module, what)
        if sums is None:
            return np.matmul(a, b)
        return self._emulated(matmul, a, b, module, roles, sums)

    def convolution(self, function, a, b, module, what, roles, *shape, **geometry):
        """As `product` for a convolution of softfloat.contractions, by its name, and its gradients.

        In the carrier, products are added by fma in sequence: no BLAS decides the order.
        """
        wide = self.policy.dtype == np.float64
        plain = (binary64 if wide else binary32), {"product": None}
        sums = self._sums(module, what) or plain
        run = lambda a, b, fmt, **options: getattr(contractions, function)(  # noqa: E731
            a, b, *shape, fmt, **geometry, **options
        )
        return self._emulated(run, a, b, module, roles, sums)

    def _emulated(self, run, a, b, module, roles, sums):
        fmt, options = sums
        back = None
        if self.policy.scaling and self.policy_of(module).sums is not None:
            # The unit sees codes, which the scale is no part of: the product is divided by it. Any power of two that
            # makes values of the format of all elements gives the same codes up to their exponent.
            (a, p), (b, q) = (
                self._as_codes(x, role, module) for x, role in zip((a, b), roles, strict=True)
            )
            back = 1.0 / (p * q)
        try:
            y = np.asarray(run(a, b, fmt, **options)).astype(self.policy.dtype, copy=False)
        except ValueError as error:
            if "engine" not in options:
                raise
            what = " and ".join(role for role in dict.fromkeys(roles) if role in SCALED_ROLES)
            raise ValueError(
                f"{module}: {error}. In a policy: give {what} a format that the engine takes, here as in an override "
                "of this layer, or this layer no engine (engine=None)"
            ) from None
        if back is not None and back != 1.0:
            y *= y.dtype.type(back)
        return y

    def _as_codes(self, x, role, module):
        fmt = self.policy_of(module).grid(role).fmt if role in SCALED_ROLES else None
        scale = 1.0 if fmt is None else power_under(largest_magnitude(x), fmt)
        return (x if scale == 1.0 else x * x.dtype.type(scale)), scale

    def total(self, x, axis, module, what):
        """Sum over axes, in the accumulator or the carrier: an engine only multiplies, and leaves sums to that."""
        sums = self._sums(module, what)
        if sums is None or "engine" in sums[1]:
            return x.sum(axis=axis)
        fmt, options = sums
        options = {key: value for key, value in options.items() if key not in _OF_PRODUCTS}
        return np.asarray(sum_rounded(x, fmt, axis, **options)).astype(x.dtype, copy=False)

    def plus(self, x, y, module, what):
        """x + y, in the carrier (and in place) or rounded to the accumulator."""
        sums = self._sums(module, what)
        if sums is None or "engine" in sums[1]:
            x += y
            return x
        fmt, options = sums
        options = {key: options[key] for key in ("rounding", "seed", "stream") if key in options}
        if "stream" in options:
            options["stream"] = self.stream(f"{module}.{what}.plus")
        return np.asarray(add(x, y, fmt, **options)).astype(x.dtype, copy=False)

    # ---------------------------------------------------------------- the optimizer's operations
    def momentum(self, factor, velocity, gradient, module, what):
        """factor * velocity + gradient, rounded once to the optimizer's format. factor : in the carrier."""
        site = self._site("optimizer", module, f"{what}.momentum")
        factor = self.policy.dtype.type(factor)
        plain = None
        if site.fmt is None or self.monitor is not None:
            plain = velocity * factor
            plain += gradient
        if site.fmt is None:
            result = plain
        else:
            result = fma(velocity, float(factor), gradient, site.fmt, **self._options(site))
            result = np.asarray(result).astype(self.policy.dtype, copy=False)
        if self.monitor is not None:
            self.monitor.tensor(site.name, "optimizer", plain, result, site.fmt, self.step)
        again = lambda: velocity * factor + gradient  # noqa: E731
        self._follow(result, "optimizer", site, again)
        return result

    def change(self, gradient, lr, module, what):
        """dw = -lr * gradient, rounded once to the update's format. lr : in the carrier."""
        site = self._site("update", module, f"{what}.change")
        factor = self.policy.dtype.type(-lr)
        if site.fmt is None:
            result = gradient * factor
        else:
            result = multiply(gradient, float(factor), site.fmt, **self._options(site))
            result = np.asarray(result).astype(self.policy.dtype, copy=False)
        if self.monitor is not None:
            # Between samples the gradient, to which the range is 1 / lr as large, serves as well as the product.
            due = self.monitor.due(self.step)
            before, scale = (gradient * factor, 1.0) if due else (gradient, float(factor))
            self.monitor.tensor(site.name, "update", before, result, site.fmt, self.step, scale)
        self._follow(result, "update", site, lambda: gradient * factor)
        return result

    def updated(self, weights, change, module, what):
        """w + dw, exact, rounded once to the format that the weights are stored in."""
        site = self._site("stored", module, f"{what}.updated")
        if site.fmt is None:
            result = weights + change
        else:
            result = add(weights, change, site.fmt, **self._options(site))
            result = np.asarray(result).astype(self.policy.dtype, copy=False)
        if self.monitor is not None:
            name = path_of(module, what)
            self.monitor.update(name, weights, change, result, self.step, site.fmt)
        if self.bad is None and not all_finite(result):
            self.bad = self._first_bad(weights + change, result, site)
        return result

    def _follow(self, y, role, site, again):
        """Remember a result of the update at hand. again : gives what it was before rounding, None if that is lost."""
        if self.chain is not None:
            self.chain.append((y, role, site, again))

    def _first_bad(self, before, result, site):
        """What went bad first of all that led to an update that is not finite."""
        for y, role, earlier, again in self.chain or ():
            if not all_finite(y):
                return description(again(), y, role, earlier, self.step)
        return description(before, result, "stored", site, self.step)


_ROUNDINGS = ("rounding", "product_rounding")


def description(x, y, role, site, step):
    """What is wrong with a tensor that is not finite, for a report.

    x, y : before (None if that is no longer known) and after its rounding.
    """
    label = "binary32" if site.fmt is None else site.fmt.label
    wrong = y.size - int(np.count_nonzero(np.isfinite(y)))
    finite = None if x is None else np.abs(x[np.isfinite(x)])
    if finite is None:
        cause = f"largest value of {label} {site.fmt.max:.6g}"
    elif finite.size == x.size:
        cause = f"largest magnitude before rounding {finite.max():.6g}"
        if site.fmt is not None:
            cause += f", largest value of {label} {site.fmt.max:.6g}"
    else:
        cause = f"{x.size - finite.size} were not finite before rounding either"
    return (
        f"{site.name} ({role.replace('_', ' ')} in {label}) at step {step}: "
        f"{wrong} of {y.size} values are not finite; {cause}"
    )
