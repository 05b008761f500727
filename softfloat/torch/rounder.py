"""Rounder: a Caster whose tensors are torch's, and whose random words follow from sites."""

import collections
import zlib
from dataclasses import replace

import numpy as np

from softfloat.torch.tensors import array_of, check_room, write
from softfloat.training.cast import Caster


class _SiteCaster(Caster):
    """A Caster that takes policy and random words from the site that is set."""

    op = ""
    site = ""
    site_step = 0

    def policy_of(self, module):
        return self.policy.at(module, self.op)

    def stream(self, name):
        return (self.site_step << 32) | zlib.crc32(self.site.encode())


class Rounder:
    """Puts tensors on the grids of a policy, in place, and counts what it did.

    elements : {(class, operation): elements rounded}.
    """

    def __init__(self, policy, seed, monitor):
        self.policy = policy
        self.seed = 0 if seed is None else seed
        self.monitor = monitor
        self.narrow = _SiteCaster(policy, self.seed, monitor)
        self._wide = None
        self.elements = collections.Counter()

    def of(self, dtype, module, op, site, step):
        """The caster for tensors of a dtype, at a site."""
        caster = self.narrow
        if dtype == np.float64 and self.policy.dtype != np.float64:
            if self._wide is None:
                policy = replace(self.policy)
                policy.__dict__["dtype"] = np.dtype(np.float64)
                self._wide = _SiteCaster(policy, self.seed, self.monitor)
                self._wide.delayed = self.narrow.delayed
            caster = self._wide
        caster.op, caster.site, caster.site_step = op, site, step
        caster.step = step
        return caster

    def grid(self, role, module, op):
        """The Grid of a role at one place; fmt None: nothing to round."""
        return self.policy.at(module, op).grid(role)

    def put(self, tensor, role, site, what):
        """Round a tensor in place. Returns the format it is in now, None if nothing was to be done.

        A tensor without dimensions, such as a loss or a counter, stays as it is.
        """
        grid = self.grid(role, site.module, site.op)
        if tensor.dim() == 0 or tensor.numel() == 0:
            return None
        if grid.fmt is None and self.monitor is None:
            return None
        if grid.fmt is not None:
            check_room(tensor.dtype, grid.fmt)
        values = array_of(tensor)
        if grid.fmt is None and values.dtype != self.policy.dtype:
            return None
        caster = self.of(values.dtype, site.module, site.op, f"{site.name}:{what}", site.step)
        label = f"{site.op}.{what}" if site.op else what
        found = caster(values, role, site.module, label, own=True)
        if grid.fmt is not None:
            write(tensor, found)
            self.elements[role] += tensor.numel()
        return grid.fmt
