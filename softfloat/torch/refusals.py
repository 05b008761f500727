"""What has no emulation, refused with what to do instead."""

import functools

import torch

import softfloat.torch.classes as classes
from softfloat.torch.classes import tensors_in
from softfloat.torch.errors import EmulationError
from softfloat.torch.sites import CHECKPOINT


def check_kind(func, kind, values):
    """EmulationError for an operation that cannot be emulated, as far as its arguments tell."""
    if kind == classes.OPAQUE:
        refuse_opaque(func)
    if kind == classes.UNKNOWN and classes.written(func):
        refuse_unknown(func, values)


def check_hooks():
    """Backward knows what it reads by its memory: hooks on saved tensors must not copy, as those of checkpointing."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    if hooks is not None and getattr(hooks[0], "__module__", "") not in (
        "softfloat.torch.emulation",
        CHECKPOINT,
    ):
        raise EmulationError(
            "hooks on saved tensors (saved_tensors_hooks, save_on_cpu, allow_mutation_on_saved_tensors) give backward "
            "copies, of which it cannot be told how to round them; use activation checkpointing to save memory"
        )


@functools.cache
def check_class(kind):
    """EmulationError for a class of tensors that runs operations itself, such as nested ones; others are as Tensor."""
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise EmulationError(
            f"tensors of {kind.__name__} do their arithmetic where emulation cannot see it; use plain tensors"
        )


def refuse_unknown(func, values):
    """values : what it would have to round; without floating numbers there is nothing to refuse."""
    if any(classes.has_rounding(t) for t in tensors_in(values)):
        raise EmulationError(
            f"{func} has no rule for rounding; write it with other operations, or pass strict=False, which "
            "rounds its results"
        )


def refuse_opaque(func):
    raise EmulationError(
        f"{func} does its arithmetic where emulation cannot see it; {classes.remedy(func)}, "
        "or pass strict=False, which rounds its results"
    )


def refuse_lost(node):
    """A backward operation whose forward pass was not seen."""
    raise EmulationError(
        f"backward through {node.name()}, which was built outside this block or more than 16 optimizer steps "
        "ago: what it saved is not rounded. Run forward and backward in the same block"
    )


def is_emulated(args):
    """Whether a product is one of floating numbers. Integers are exact; complex products have no rule."""
    kinds = [t.dtype for t in tensors_in(args)]
    if any(dtype.is_complex for dtype in kinds):
        raise EmulationError(
            "products of complex tensors have no emulation; write them as products of real and imaginary parts"
        )
    return any(dtype.is_floating_point for dtype in kinds)
