"""What is known of the memory that torch's operations read and write, by storage, between two steps of an optimizer."""

import softfloat.torch.classes as classes
from softfloat.torch.classes import base_name, results_of, tensors_in
from softfloat.torch.tensors import Known, fills_storage, storage_of


class Facts:
    """Tables of what is known of storages.

    known : the format that all values are in.   operands : (Site, what) of unrounded tensors that products rounded.
    raw : gradients of parameters on their way, not rounded yet.   alone : those of them that a product made, and that
        nothing but views of them shares.
    derived : rounded weights in another dtype.   owners : parameters of the tensors in an optimizer's step.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self.known, self.operands, self.raw = Known(), Known(), Known()
        self.alone, self.derived, self.owners = Known(), Known(), Known()

    def clear(self):
        """A block begins, before which anything may have been written to memory."""
        for table in (self.known, self.operands, self.raw, self.alone, self.derived):
            table.clear()

    def purge(self):
        """Leave out what has died."""
        for table in (self.known, self.operands, self.raw, self.alone, self.derived, self.owners):
            table.purge()

    def mark(self, tensor, fmt):
        """All values of a tensor are in a format, as far as is known (else None)."""
        # What was written to a part of a storage says nothing of the rest.
        if fmt is None or not fills_storage(tensor) and self.known[tensor] != fmt:
            self.known.forget(tensor)
        else:
            self.known[tensor] = fmt

    def unmark(self, func, found, args, kwargs):
        """Nothing is known of what an operation gave."""
        for result in results_of(func, found, args, kwargs):
            self.known.forget(result)
            parameter = self.parameters.find(result)
            if parameter is not None:
                self.written(parameter)

    def pass_on(self, func, found, args, kwargs):
        """What only selects and moves values gives values of the format that all its operands are in."""
        operands = [t for t in tensors_in(args) if t.is_floating_point()]
        formats = {self.known[t] for t in operands}
        fmt = formats.pop() if len(formats) == 1 else None
        if fmt is not None and classes.brings_numbers(func, args, kwargs, fmt):
            fmt = None
        raw = any(self.raw[t] for t in operands)
        copied = base_name(func) == "_to_copy" and bool(operands)
        for result in results_of(func, found, args, kwargs):
            if not result.is_floating_point():
                continue
            parameter = self.parameters.find(result)
            if parameter is not None:
                self.written(parameter)
            self.mark(result, fmt)
            if raw:
                self.raw[result] = True
            if copied and self.of_parameter(operands[0]):
                self.derived[result] = True

    def of_parameter(self, tensor):
        """Whether a tensor is the rounded copy of a parameter, or such a parameter."""
        if self.parameters.find(tensor) is not None:
            return True
        place = storage_of(tensor)
        held = self.parameters.known.values()
        return any(p.copy is not None and storage_of(p.copy) == place for p in held)

    def written(self, parameter):
        """Something was written to a parameter: what was known of its values is void."""
        parameter.copy = None
        self.known.forget(parameter.tensor)
