"""Products in both passes, and sums over axes: with rounded operands, in the carrier or in the policy's accumulator."""

import contextlib

import numpy as np
import torch

from softfloat.torch.routing import ADDING, Unit, convolution, convolution_backward, matrix_product
from softfloat.torch.tensors import tensor_of


class Products:
    """Forms products and sums as the policy says.   state : State.   operands : Operands."""

    def __init__(self, state, operands):
        self.policy, self.rounder, self.operands = state.policy, state.rounder, operands

    def forward(self, func, name, args, kwargs, site):
        """The result of a product, not rounded yet."""
        places = (1, 2) if name in ADDING else (0, 1)
        args = list(args)
        roles = []
        for i in places:
            args[i], role = self.operands.of_forward(args[i], site, i)
            roles.append(role)
        bias = 0 if name in ADDING else {"convolution": 2}.get(name)
        if bias is not None and args[bias] is not None:
            args[bias] = self.operands.replaced(args[bias])
        return self._run(func, name, args, kwargs, site, tuple(roles), "output")

    def backward(self, func, name, args, kwargs, site):
        """(results of a product of a backward pass, whether they may be gradients of weights)."""
        args = list(args)
        places = {**dict.fromkeys(ADDING, (1, 2)), "convolution_backward": (0, 1, 2)}
        roles = []
        for i in places.get(name, (0, 1)):
            args[i], role = self.operands.of_backward(args[i], site, i)
            roles.append(role)
        found = self._run(func, name, args, kwargs, site, tuple(roles), "gradient")
        return found, "weights" not in roles

    def _run(self, func, name, args, kwargs, site, roles, what):
        if self.policy.at(site.module, site.op).sums is None:
            if name.startswith("convolution"):
                with _onednn():
                    return func(*args, **kwargs)
            return func(*args, **kwargs)
        like = next(t for t in args if isinstance(t, torch.Tensor))
        unit = self._unit(like, site, what)
        if name == "convolution":
            return convolution(unit, args, roles)
        if name == "convolution_backward":
            return convolution_backward(unit, args)
        return _delivered(matrix_product(unit, name, args, kwargs, roles), kwargs)

    def sum_or_other(self, func, name, args, kwargs, site):
        """An operation that is no product: sums over some axes run in the accumulator, all else in the carrier."""
        partial = name == "sum" and len(args) > 1 and args[1] and not kwargs.get("dtype")
        if not partial or self.policy.at(site.module, site.op).sums is None:
            return func(*args, **kwargs)
        x, axes = args[0], tuple(sorted(a % args[0].dim() for a in args[1]))
        total = self._unit(x, site, "sum").total(x, axes)
        if len(args) > 2 and args[2]:
            total = np.expand_dims(total, axes)
        return _delivered(tensor_of(total, x), kwargs)

    def _unit(self, like, site, what):
        dtype = "float64" if like.dtype == torch.float64 else "float32"
        caster = self.rounder.of(dtype, site.module, site.op, f"{site.name}:{what}.sums", site.step)
        return Unit(caster, site.module, what)


def _delivered(found, kwargs):
    """A result, in out= where that is given."""
    out = kwargs.get("out")
    if out is None:
        return found
    if out.shape != found.shape:
        out.resize_(found.shape)
    return out.copy_(found)


@contextlib.contextmanager
def _onednn():
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(True)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
