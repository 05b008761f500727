"""Parameters as they are met: their names, their storages, and their rounded copies.

A storage can hold several parameters (flattened ones), and a parameter can change its storage (p.data = ...): both are
looked at whenever a parameter is looked for.
"""

import weakref

import torch

from softfloat.torch.tensors import storage_of


class Parameter:
    """A parameter, the path of its module and its name there. `copy` is what operations read, None if not made yet."""

    def __init__(self, tensor, module, what):
        self.tensor, self.module, self.what = tensor, module, what
        self.copy = None
        self._copied = None
        self.handles = []

    @property
    def name(self):
        return f"{self.module}.{self.what}" if self.module else self.what

    def keep(self, copy):
        """Keep a rounded copy of the values as they are. The storage is held, so that no other takes its address."""
        self.copy = copy
        self._copied = self.tensor.untyped_storage(), self.tensor.storage_offset()

    def is_stale(self):
        """Whether there is no copy, or one of memory that the parameter has left (p.data = ...)."""
        if self.copy is None:
            return True
        storage, offset = self._copied
        return storage._cdata != storage_of(self.tensor) or offset != self.tensor.storage_offset()

    def covers(self, tensor):
        """Whether a tensor lies in this parameter's memory."""
        own = self.tensor
        if storage_of(own) != storage_of(tensor):
            return False
        place = tensor.storage_offset() - own.storage_offset()
        return 0 <= place < max(own.numel(), 1)

    def like(self, tensor, copy):
        """The part of a copy that a view of the parameter sees."""
        place = tensor.storage_offset() - self.tensor.storage_offset()
        return copy.as_strided(tensor.size(), tensor.stride(), place)


class Parameters:
    """All parameters met so far. `on_new(parameter)` is called for each new one, and for one that lacks its hooks."""

    def __init__(self, on_new):
        self.on_new = on_new
        self.paths = weakref.WeakKeyDictionary()
        self.known = {}
        self.places = {}

    def path(self, module):
        """The path of a module under the outermost module that was called."""
        return self.paths.get(module)

    def root(self, module):
        """Take the names of a module that is called from no other, and of all that is below it."""
        for path, part in module.named_modules():
            if part not in self.paths:
                self.paths[part] = path
            for what, tensor in part._parameters.items():
                if tensor is not None and not torch.nn.parameter.is_lazy(tensor):
                    self.add(_unwrapped(tensor), self.paths[part], what)

    def add(self, tensor, module, what):
        found = self.known.get(id(tensor))
        if found is None:
            found = self.known[id(tensor)] = Parameter(tensor, module, what)
            self.on_new(found)
        elif not found.handles and tensor.requires_grad:  # it was frozen before
            self.on_new(found)
        place = storage_of(tensor)
        held = self.places.setdefault(place, [])
        if found not in held:
            held.append(found)
        return found

    def find(self, tensor):
        """The parameter whose memory a tensor shares, or None."""
        for parameter in self.places.get(storage_of(tensor), ()):
            if parameter.covers(tensor):
                return parameter
        base = tensor if tensor._base is None else tensor._base
        if type(base) is torch.Tensor:  # as nearly all are; the question below takes long
            return None
        if isinstance(base, torch.nn.Parameter):
            return self.add(base, *self.home(base))
        return None

    def home(self, tensor):
        """(path of the module, name there) of a parameter that was not met yet: a lazy one, or one of no module."""
        for module, path in self.paths.items():
            for what, held in module._parameters.items():
                if held is tensor:
                    return path, what
        return "", f"parameter{len(self.known)}"

    def forget_copies(self):
        for parameter in self.known.values():
            parameter.copy = None

    def close(self):
        for parameter in self.known.values():
            for handle in parameter.handles:
                handle.remove()
            parameter.handles.clear()


def _unwrapped(tensor):
    """The tensor that a transform of torch.func (vmap) has wrapped, which is what operations meet."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
