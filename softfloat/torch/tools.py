"""quantize and Quantizer: rounding inside a model that is written for it, with formats for each direction."""

import numpy as np
import torch

from softfloat.functional import quantize as quantize_array
from softfloat.rounding import as_rounding
from softfloat.torch.errors import EmulationError
from softfloat.torch.tensors import array_of, check_room, tensor_of
from softfloat.training.policy import _as_tensor_format

BACKWARD = 1 << 63  # the half of the streams that gradients draw from


def _rounded(x, fmt, rounding, saturate, seed, stream):
    if fmt is None:
        return x.clone()
    check_room(x.dtype, fmt)
    options = {"rounding": rounding, "saturate": saturate}
    if rounding.startswith("stochastic"):
        options.update(seed=seed, stream=stream)
    values = np.asarray(quantize_array(array_of(x), fmt, **options))
    return tensor_of(values, x)


class _Quantize(torch.autograd.Function):
    @staticmethod
    def forward(x, forward, backward, saturate, seed, stream):
        return _rounded(x, *forward, saturate, seed, stream)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, backward, saturate, seed, stream = inputs
        ctx.how = backward, (None, "ties_to_even"), saturate, seed, stream | BACKWARD

    @staticmethod
    def backward(ctx, gradient):
        return _Quantize.apply(gradient, *ctx.how), None, None, None, None, None

    @staticmethod
    def vmap(info, places, x, forward, backward, saturate, seed, stream):
        if any(f is not None and r.startswith("stochastic") for f, r in (forward, backward)):
            raise EmulationError(
                "random words go by an element's place in its tensor, which torch.vmap hides; quantize outside "
                "vmap, or round to nearest"
            )
        return _Quantize.apply(x, forward, backward, saturate, seed, stream), places[0]


def quantize(
    x,
    forward=None,
    backward=None,
    *,
    rounding="ties_to_even",
    backward_rounding=None,
    saturate=False,
    seed=None,
    stream=0,
):
    """x rounded to the format `forward`; its gradient, passed straight through, rounded to `backward`.

    x : floating tensor, whose dtype must hold the formats.   forward, backward : formats, as for a Policy; None rounds
        nothing.   rounding, backward_rounding : of each; the second is the first by default.
    seed, stream : for stochastic rounding, stream in 0..2**63 - 1; the gradient draws from stream + 2**63.
    Returns a new tensor of x's dtype and device. Raises ValueError for stochastic rounding without a seed.

    >>> import torch, softfloat.torch as st
    >>> x = torch.tensor([1.1], requires_grad=True)
    >>> y = st.quantize(x, "float8_e4m3fn", "float8_e5m2")
    >>> y.backward(torch.tensor([0.3])); y.item(), x.grad.item()
    (1.125, 0.3125)
    """
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        kind = getattr(x, "dtype", type(x).__name__)
        raise TypeError(f"quantize takes a floating torch tensor, got {kind}")
    rounding = str(as_rounding(rounding))
    other = rounding if backward_rounding is None else str(as_rounding(backward_rounding))
    if seed is None and any(r.startswith("stochastic") for r in (rounding, other)):
        raise ValueError('rounding="stochastic" needs seed=, so that the result can be repeated')
    ways = (_as_tensor_format(forward), rounding), (_as_tensor_format(backward), other)
    if isinstance(stream, bool) or not isinstance(stream, (int, np.integer)):
        raise TypeError(f"stream must be an integer, got {stream!r}")
    if not 0 <= stream < BACKWARD:
        raise ValueError(
            f"stream must lie in 0..2**63 - 1, got {stream}: gradients draw from the rest"
        )
    return _Quantize.apply(x, *ways, saturate, seed, stream)


class Quantizer(torch.nn.Module):
    """`quantize` as a module. Each call in training takes the next stream: `calls`, which state_dict keeps.

    stream : number of the module, for networks with several: calls draw from stream * 2**32 + call.
    """

    def __init__(self, forward=None, backward=None, *, stream=0, **options):
        super().__init__()
        self.formats = _as_tensor_format(forward), _as_tensor_format(backward)
        self.options = options
        self.stream = int(stream)
        if not 0 <= self.stream < 1 << 31:
            raise ValueError(f"stream must lie in 0..2**31 - 1, got {stream}")
        quantize(
            torch.zeros(1), *self.formats, **options
        )  # raises now for options that mean nothing
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        stream = (self.stream << 32) + int(self.calls)
        if self.training:
            self.calls += 1
        return quantize(x, *self.formats, stream=stream, **self.options)

    def extra_repr(self):
        names = [fmt.label if fmt is not None else "None" for fmt in self.formats]
        return f"forward={names[0]}, backward={names[1]}"
