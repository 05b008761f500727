"""What has no emulation, refused with what to do instead."""

import softfloat.torch.classes as classes
from softfloat.torch.classes import tensors_in
from softfloat.torch.errors import EmulationError


def check_kind(func, kind, values):
    """EmulationError for an operation that cannot be emulated, as far as its arguments tell."""
    if kind == classes.OPAQUE:
        refuse_opaque(func)
    if kind == classes.UNKNOWN and classes.written(func):
        refuse_unknown(func, values)


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
