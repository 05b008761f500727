"""What operations read: rounded copies of parameters, and rounded operands of products, in both passes."""

import torch

import softfloat.torch.classes as classes
from softfloat.torch.classes import base_name, tensors_in
from softfloat.torch.sites import Site, graph_task
from softfloat.torch.tensors import fills_storage, storage_of


class Operands:
    """Puts in the place of what torch hands to an operation what the policy has it read.   state : State."""

    def __init__(self, state):
        self.rounder, self.sites = state.rounder, state.sites
        self.parameters, self.facts = state.parameters, state.facts

    def read(self, func, args):
        """The arguments, parameters that are only read replaced by their rounded copies."""
        if self.is_look(func, args):
            return args
        targets = {i for i, _ in classes.written(func)}
        return tuple(a if i in targets else self.replaced(a) for i, a in enumerate(args))

    def is_look(self, func, args):
        """Whether weights are copied or averaged from outside the model, and not used: then they stay as stored."""
        if self.sites.stack or graph_task() != -1:
            return False
        if not (classes.written(func) or base_name(func) in classes.COPIES):
            return False
        return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in(args)))

    def is_like_weights(self, tensor):
        """Whether what is written to from outside the model may be an average of weights, and is no activation."""
        fmt = self.facts.known[tensor]
        grid = self.rounder.grid
        kept = fmt is None or fmt == grid("stored", "", "").fmt
        return kept and grid("activations", "", "").fmt is not None

    def replaced(self, value):
        """An argument, or a list of them; of a parameter its rounded copy."""
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return [self.replaced(v) for v in value]
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        parameter = self.parameters.find(value)
        if parameter is None or self.rounder.grid("weights", parameter.module, "").fmt is None:
            return value
        return parameter.like(value, self._weight(parameter))

    def _weight(self, parameter):
        """The rounded copy of a parameter, made once for each value that it has."""
        if parameter.is_stale():
            tensor = parameter.tensor.detach()
            site = Site(parameter.module, "", parameter.name, self.sites.step)
            fmt = self._held_format(tensor, site)
            if fmt is not None:
                copy = tensor  # rounding would leave it as it is
            else:
                copy = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
                )
                copy.copy_(tensor)
                fmt = self.rounder.put(copy, "weights", site, parameter.what)
            self.facts.mark(copy, fmt or "weights")
            parameter.keep(copy)
        return parameter.copy

    def _held_format(self, tensor, site):
        """The format of weights if a parameter, alone in its memory, holds values of it already; else None."""
        if not tensor.dim() or not fills_storage(tensor):
            return None
        if not self.rounder.holds(tensor, "weights", site):
            return None
        self.rounder.elements["weights"] += tensor.numel()
        return self.rounder.grid("weights", site.module, site.op).fmt

    def of_forward(self, tensor, site, number):
        """(operand of a forward product, its role)."""
        parameter = self.parameters.find(tensor)
        if parameter is not None:
            return self.replaced(tensor), "weights"
        if self.facts.derived[tensor]:
            return tensor, "weights"
        fmt = self.rounder.grid("activations", site.module, site.op).fmt
        if fmt is None or self.facts.known[tensor] == fmt:
            return tensor, "activations"
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        # One tensor in both places is rounded alike: backward could not tell which it meets.
        own = Site(site.module, site.op, site.name, site.step), f"operand{number}"
        own = site.operands.setdefault(_place_of(tensor), own)
        self.sites.keep_operands(site)
        self.facts.operands[tensor] = own
        self.rounder.put(copy, "activations", *own)
        return copy, "activations"

    def of_backward(self, tensor, site, number):
        """(operand of a backward product, its role): what forward saved unrounded is rounded again, bit for bit."""
        parameter = self.parameters.find(tensor)
        if parameter is not None:
            return self.replaced(tensor), "weights"
        if self.facts.derived[tensor]:
            return tensor, "weights"
        again, turned = _found(site.operands, tensor)
        if again is None:  # recomputed by a module that is called several times
            other = self.facts.operands[tensor]
            again = other if other is not None and other[0].module == site.module else None
        known = self.facts.known[tensor]
        if again is None and known is not None:
            own = self.rounder.grid("activations", site.module, site.op).fmt
            return tensor, "activations" if known == own else "errors"
        if again is None and self.rounder.grid("errors", site.module, site.op).fmt is None:
            return tensor, "errors"
        if again is not None:
            # Random words go by the element's place in the tensor that was rounded, and not in this view of it.
            whole = tensor.mT if turned else tensor
            copy = whole.detach().clone(memory_format=torch.contiguous_format)
            self.rounder.put(copy, "activations", *again)
            return copy.mT if turned else copy, "activations"
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        self.rounder.put(copy, "errors", site, f"error.operand{number}")
        return copy, "errors"


def _place_of(tensor):
    """What tells a tensor from others in the same storage."""
    return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def _found(operands, tensor):
    """(what was kept of a tensor or of its transpose, whether it is the transpose); None for what was not kept."""
    if not operands:
        return None, False
    again = operands.get(_place_of(tensor))
    if again is not None or tensor.dim() < 2:
        return again, False
    return operands.get(_place_of(tensor.mT)), True
