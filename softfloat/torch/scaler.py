"""LossScaler with the calls of torch.amp.GradScaler, for training loops that are written for one."""

import torch

from softfloat.training.scaler import LossScaler as Scaler


class LossScaler:
    """A softfloat.training.LossScaler, `inner`, floor included, that a torch loop calls as it does GradScaler.

    Options are those of softfloat.training.LossScaler. The calls: scaler.scale(loss).backward();
    scaler.unscale_(optimizer), which clipping needs; scaler.step(optimizer); scaler.update(). `state_dict` has
    GradScaler's keys, and `load_state_dict` takes GradScaler's states.

    >>> import torch, softfloat.torch as st
    >>> p = torch.nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([p], lr=0.5)
    >>> scaler = st.LossScaler(1024.0)
    >>> scaler.scale((3 * p).sum()).backward()
    >>> scaler.step(optimizer); scaler.update()
    >>> p.item(), scaler.get_scale()
    (-0.5, 1024.0)
    """

    def __init__(self, *arguments, **options):
        self.inner = Scaler(*arguments, **options)
        self._finite = {}  # {id of an optimizer: whether its gradients were finite}, since the last update
        self._stepped = set()

    def scale(self, outputs):
        """outputs times the scale: a tensor, or a list or tuple of them."""
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(x) for x in outputs)
        return outputs * self.inner.scale

    def unscale_(self, optimizer):
        """Divide the gradients of an optimizer's parameters by the scale, once between two updates."""
        if id(optimizer) in self._finite:
            raise RuntimeError(
                "unscale_() has been called on this optimizer since the last update(); call it once a step"
            )
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            raise RuntimeError(
                "no parameter of this optimizer has a gradient; call backward() first"
            )
        inverse = torch.tensor(1.0 / self.inner.scale, dtype=torch.float32).item()
        finite = True
        with torch.no_grad():
            for gradient in gradients:
                finite = finite and bool(torch.isfinite(gradient).all())
                gradient.mul_(inverse)
        self._finite[id(optimizer)] = finite

    def step(self, optimizer, *arguments, **options):
        """optimizer.step(), with gradients unscaled, unless one of them is not finite; what it returns, or None."""
        if "closure" in options:
            raise RuntimeError(
                "a closure would be run with gradients that are not unscaled: leave it out"
            )
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has been called on this optimizer since the last update()")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*arguments, **options) if self._finite[id(optimizer)] else None

    def update(self, new_scale=None):
        """Grow or shrink the scale by what the optimizers found since the last update, or set it."""
        if new_scale is not None:
            state = self.inner.state_dict()
            self.inner.load_state_dict({**state, "scale": float(new_scale)})
        elif not self._finite:
            raise RuntimeError(
                "no gradients were unscaled since the last update(); call step() first"
            )
        else:
            self.inner.update(all(self._finite.values()))
        self._finite.clear()
        self._stepped.clear()

    def get_scale(self):
        return self.inner.scale

    def is_enabled(self):
        return True

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state_dict):
        self.inner.load_state_dict(state_dict)

    def __repr__(self):
        return repr(self.inner)
