"""Products with every product and sum rounded: torch's operations in terms of softfloat's.

Operands arrive rounded. Each function returns a tensor like torch's own; the caller rounds it to its role's format.
"""

import numpy as np

from softfloat.torch.errors import EmulationError
from softfloat.torch.tensors import array_of, tensor_of


class Unit:
    """The multiply-add unit of one site. caster : see Rounder.   roles : of the two operands, for scaled formats."""

    def __init__(self, caster, module, what):
        self.caster, self.module, self.what = caster, module, what

    def matmul(self, a, b, roles):
        """a @ b, both matrices or batches of them."""
        x, y = (np.ascontiguousarray(array_of(t)) for t in (a, b))
        return self.caster.product(x, y, self.module, self.what, roles)

    def add_to(self, y, c):
        """y + c, rounded to the accumulator. Engines leave it to the carrier."""
        c = np.broadcast_to(array_of(c), y.shape).astype(y.dtype, copy=False)
        return self.caster.plus(y, c, self.module, self.what)

    def total(self, x, axes):
        """The sum over axes, in the accumulator."""
        return self.caster.total(array_of(x), axes, self.module, self.what)

    def convolution(self, name, a, b, roles, *shape, **geometry):
        x, y = (np.ascontiguousarray(array_of(t)) for t in (a, b))
        return self.caster.convolution(
            name, x, y, self.module, self.what, roles, *shape, **geometry
        )


ADDING = ("addmm", "baddbmm", "addmv")  # products to which their first argument is added


def matrix_product(unit, name, args, options, roles):
    """mm, addmm, bmm, baddbmm, mv, addmv, dot, vdot."""
    c = None
    if name in ADDING:
        c, a, b = args[:3]
    else:
        a, b = args[:2]
    if name in ("dot", "vdot"):
        y = unit.matmul(a[None], b[:, None], roles)[0, 0]
    elif name in ("mv", "addmv"):
        y = unit.matmul(a, b[:, None], roles)[:, 0]
    else:
        y = unit.matmul(a, b, roles)
    alpha, beta = options.get("alpha", 1), options.get("beta", 1)
    if alpha != 1:
        y = y * y.dtype.type(alpha)
    if c is not None and beta != 0:
        y = unit.add_to(y, c if beta == 1 else c * beta)
    return tensor_of(y, a)


def _geometry(x, stride, padding, dilation, groups):
    dims = x.dim() - 2
    if dims not in (1, 2):
        raise EmulationError(
            f"convolutions in {dims} dimensions have no emulation; use one or two dimensions, or a policy without "
            "accumulator= and engine="
        )
    each = [tuple(int(v) for v in np.broadcast_to(g, dims)) for g in (stride, padding, dilation)]
    if dims == 1:
        each = [g[0] for g in each]
    keys = ("stride", "padding", "dilation")
    return f"conv{dims}d", {**dict(zip(keys, each, strict=True)), "groups": int(groups)}


def convolution(unit, args, roles):
    """aten.convolution, transposed or not: what is transposed is the gradient of a convolution."""
    x, w, bias, stride, padding, dilation, transposed, extra, groups = args
    name, geometry = _geometry(x, stride, padding, dilation, groups)
    if transposed:
        space = [
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(
                x.shape[2:], stride, padding, dilation, w.shape[2:], extra, strict=True
            )
        ]
        shape = (x.shape[0], w.shape[1] * groups, *space)
        y = unit.convolution(f"{name}_input_gradient", x, w, roles, shape, **geometry)
    else:
        y = unit.convolution(name, x, w, roles, **geometry)
    if bias is not None:
        y = unit.add_to(y, bias.reshape(-1, *[1] * (x.dim() - 2)))
    return tensor_of(y, x)


def convolution_backward(unit, args):
    """aten.convolution_backward: gradients of input, weight and bias, None where they are not wanted."""
    gradient, x, w, _, stride, padding, dilation, transposed, _, groups, wanted = args
    name, geometry = _geometry(x, stride, padding, dilation, groups)
    found = [None, None, None]
    if wanted[0]:
        run = name if transposed else f"{name}_input_gradient"
        shape = () if transposed else (tuple(x.shape),)
        found[0] = unit.convolution(run, gradient, w, ("errors", "weights"), *shape, **geometry)
    if wanted[1]:
        pair = (gradient, x) if transposed else (x, gradient)
        kinds = ("errors", "activations") if transposed else ("activations", "errors")
        found[1] = unit.convolution(
            f"{name}_weight_gradient", *pair, kinds, tuple(w.shape), **geometry
        )
    if wanted[2]:
        found[2] = unit.total(gradient, (0, *range(2, gradient.dim())))
    return tuple(None if y is None else tensor_of(y, x) for y in found)
