"""Rounder: a Caster whose tensors are torch's, and whose random words follow from sites."""

import collections
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from softfloat.functional import add, quantize
from softfloat.in_place import ExactSum, InPlace, keys_of
from softfloat.torch.tensors import array_of, check_not_rounded, check_room, flat_values, write
from softfloat.training.cast import Caster
from softfloat.training.policy import SCALED_ROLES
from softfloat.training.words import stream_of

PIECE = (
    1 << 20
)  # elements of a tensor that is done in pieces: few megabytes, and many calls' worth of work
CARRIERS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


class Place(NamedTuple):
    """How tensors of one role are rounded at one place.

    fmt : None: not at all.   rounds, adds : InPlace and ExactSum, or None where a Caster must do it.
    """

    fmt: Any
    rounding: str
    saturate: Any
    rounds: Any
    adds: Any

    @property
    def is_plain(self):
        """Whether no Caster is needed: nothing scales or watches the tensors."""
        return self.fmt is None or self.rounds is not None

    def options(self, seed, stream, offset):
        """Of `quantize` and `add`; stream, offset : where words are random."""
        options = {"rounding": self.rounding}
        if self.saturate:
            options["saturate"] = self.saturate
        if self.rounds.random:
            options.update(seed=seed, stream=stream, offset=offset)
        return options


class _SiteCaster(Caster):
    """A Caster that takes policy and random words from the site that is set."""

    op = ""
    site = ""
    site_step = 0

    def policy_of(self, module):
        return self.policy.at(module, self.op)

    def stream(self, name):
        return stream_of(self.site_step, self.site)


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
        self._key_of = keys_of(self.seed)
        self.elements = collections.Counter()
        self._grids = {}
        self._places = {}
        self._rooms = {}

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
        key = role, module, op
        found = self._grids.get(key)
        if found is None:
            found = self._grids[key] = self.policy.at(module, op).grid(role)
        return found

    def put(self, tensor, role, site, what):
        """Round a tensor in place. Returns the format it is in now, None if nothing was to be done.

        A tensor without dimensions, such as a loss or a counter, stays as it is.
        """
        if tensor.dim() == 0 or tensor.numel() == 0:
            return None
        place = self.place(role, site.module, site.op, tensor.dtype)
        if place.fmt is None and self.monitor is None:
            return None
        values = flat_values(tensor) if place.rounds else None
        if values is None or not place.rounds(values, self.key(place, site, what)):
            return self._cast(tensor, role, site, what, place.fmt)
        self.elements[role] += values.size
        return place.fmt

    def _cast(self, tensor, role, site, what, fmt):
        """As `put`, by the Caster: for any memory, for scaled formats, and with a monitor."""
        values = array_of(tensor)
        if fmt is None and values.dtype != self.policy.dtype:
            return None
        caster = self.of(values.dtype, site.module, site.op, _name(site, what), site.step)
        label = f"{site.op}.{what}" if site.op else what
        found = caster(values, role, site.module, label, own=True)
        if fmt is not None:
            write(tensor, found)
            self.elements[role] += tensor.numel()
        return fmt

    def holds(self, tensor, role, site):
        """Whether a tensor surely holds values of a role's format, which rounding would leave as they are."""
        place = self.place(role, site.module, site.op, tensor.dtype)
        values = flat_values(tensor) if place.rounds else None
        return values is not None and place.rounds.leaves(values)

    def place(self, role, module, op, dtype):
        """The Place of tensors of a role and dtype; remembered."""
        key = role, module, op, dtype
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._new_place(*key)
        return found

    def _new_place(self, role, module, op, dtype):
        policy = self.policy.at(module, op)
        fmt, rounding = policy.grid(role)
        if fmt is None:
            return Place(None, rounding, policy.saturate, None, None)
        check_room(dtype, fmt)
        if role != "stored":  # which is a sum of our own
            check_not_rounded(dtype, rounding)
        scaled = policy.scaling and role in SCALED_ROLES
        carrier = CARRIERS.get(dtype)
        # A float32 tensor in a policy that needs float64 is rounded there.
        narrow = carrier == np.float32 and self.policy.dtype == np.float64
        options = rounding, policy.saturate
        rounds = adds = None
        if carrier is not None and not narrow and not scaled and self.monitor is None:
            rounds = InPlace.of(fmt, carrier, *options)
            adds = ExactSum.of(fmt, carrier, *options)
        return Place(fmt, *options, rounds, adds)

    def key(self, place, site, what):
        """The key of the random words of one tensor; 0 where its rounding draws none."""
        if not place.rounds.random:
            return 0
        return self._key_of(stream_of(site.step, _name(site, what)))

    # ---------------------------------------------------------------- a tensor in pieces
    def room(self, dtype):
        """(2, PIECE) of scratch memory, kept: fresh pages cost more than the arithmetic."""
        if dtype not in self._rooms:
            self._rooms[dtype] = torch.empty(2, PIECE, dtype=dtype)
        return self._rooms[dtype]

    def in_pieces(self, place, site, what):
        """put(x, start): round elements start... of one tensor of a plain place, in place."""
        if place.fmt is None:
            return lambda x, start: None
        stream, key = stream_of(site.step, _name(site, what)), self.key(place, site, what)

        def put(x, start):
            if not place.rounds(x, key, start):
                quantize(x, place.fmt, out=x, **place.options(self.seed, stream, start))

        return put

    def sum_in_pieces(self, place, site, what):
        """put(x, y, room, start): x + y, exact and rounded once, into x. room : an array like x."""
        if place.fmt is None:
            return lambda x, y, room, start: np.add(x, y, out=x)
        stream = stream_of(site.step, _name(site, what))
        key = self.key(place, site, what)

        def put(x, y, room, start):
            if place.adds(x, y, room, key, start):
                x[...] = room
            else:
                x[...] = add(x, y, place.fmt, out=room, **place.options(self.seed, stream, start))

        return put


def _name(site, what):
    return f"{site.name}:{what}"
