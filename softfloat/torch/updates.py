"""Operations of an optimizer's step: what is added to a parameter is rounded to `update`, the exact sum to `stored`."""

from typing import NamedTuple

import numpy as np
import torch

import softfloat.torch.classes as classes
from softfloat.torch.sites import Site
from softfloat.torch.tensors import array_of, flat_values, storage_of, write

# Operations that add something to their first argument.
ADDING = ("add_", "sub_", "addcdiv_", "_foreach_add_", "_foreach_sub_", "_foreach_addcdiv_")


def site(owner, name):
    """The Site of an operation of the optimizer that runs."""
    key = owner._optimizing, name
    ordinal = owner.sites.ordinals[key]
    owner.sites.ordinals[key] += 1
    return Site("", name, f"optimizer{owner._optimizing}/{name}.{ordinal}", owner.sites.step)


def run(owner, func, name, kind, args, kwargs, place):
    """One operation of an optimizer's step."""
    targets = args[0] if args and isinstance(args[0], (list, tuple)) else args[:1]
    if name in ADDING and all(isinstance(t, torch.Tensor) for t in targets):
        known = [owner.parameters.find(t) for t in targets]
        if known and all(known) and not all(_is_plain(owner, p) for p in known):
            changes = _changes(name, args, kwargs, len(targets))
            if changes is not None:
                for parameter, target, change in zip(known, targets, changes, strict=True):
                    _update(owner, parameter, target, change, place)
                return args[0] if isinstance(args[0], torch.Tensor) else None
    found = func(*args, **kwargs)
    if kind in (classes.PRODUCT, classes.ROUNDED, classes.UNKNOWN, classes.OPAQUE):
        _settle(owner, func, found, args, kwargs, place)
    elif kind != classes.VIEW:
        owner._pass_on(func, found, args, kwargs)
    return found


def _settle(owner, func, found, args, kwargs, place):
    for i, result in enumerate(classes.results_of(func, found, args, kwargs)):
        if isinstance(result, torch.Tensor):
            owner._settle(result, "optimizer", place, f"{i}")


def _is_plain(owner, parameter):
    grid = owner.rounder.grid
    stored = grid("stored", parameter.module, "").fmt
    return stored is None and grid("update", parameter.module, "").fmt is None


class Change(NamedTuple):
    """What is added to a target: x * factor, or x * factor / divisor, in the carrier."""

    x: torch.Tensor
    factor: float
    divisor: torch.Tensor | None = None

    def whole(self, shape):
        """All of it, in fresh memory, of the shape of the target."""
        found = self.x * self.factor
        if self.divisor is not None:
            found = found / self.divisor
        return found.expand(shape).contiguous()

    def into(self, out, start):
        """A piece of it, the elements that a flat tensor has room for, from `start` on. All memory is contiguous."""
        stop = start + out.numel()
        torch.mul(self.x.view(-1)[start:stop], self.factor, out=out)
        if self.divisor is not None:
            out.div_(self.divisor.view(-1)[start:stop])

    def is_flat_like(self, target):
        """Whether `into` can be used: all tensors lie in memory as a contiguous target does, apart from it or on it."""
        return all(
            t is None
            or t.shape == target.shape
            and t.dtype == target.dtype
            and t.device == target.device
            and t.is_contiguous()
            and not t.is_neg()
            and (t.data_ptr() == target.data_ptr() or storage_of(t) != storage_of(target))
            for t in (self.x, self.divisor)
        )


def _changes(name, args, kwargs, count):
    """The Change of each target of an operation; None if it is not of a known form."""
    single = not name.startswith("_foreach")
    sign = -1 if "sub" in name else 1
    if "addcdiv" in name:
        values = kwargs.get("value", args[3] if len(args) > 3 else 1)
        scalars = values.tolist() if isinstance(values, torch.Tensor) else values
        scalars = scalars if isinstance(scalars, (list, tuple)) else [scalars] * count
        first, second = ([a] if single else a for a in args[1:3])
        return [Change(x, v, y) for x, y, v in zip(first, second, scalars, strict=True)]
    others = [args[1]] if single else args[1]
    if not isinstance(others, (list, tuple)):
        return None
    if not all(isinstance(x, torch.Tensor) and x.dim() for x in others):
        return None
    factor = sign * kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return [Change(x, factor) for x in others]


def _update(owner, parameter, target, change, place):
    """target = target + change, as the policy says."""
    here = Site(parameter.module, "", place.name, place.step)
    names = f"{parameter.what}.change", f"{parameter.what}.updated.{parameter.name}"
    owner._written(parameter)
    if not _update_in_pieces(owner.rounder, target, change, here, names):
        change = change.whole(target.shape)
        _update_at_once(owner.rounder, parameter, target, change, here, names)
    owner.rounder.elements["stored"] += target.numel()


def _update_at_once(rounder, parameter, target, change, here, names):
    """names : of the change and of the sum, for random words."""
    rounder.put(change, "update", here, names[0])
    weights = array_of(target)
    name = f"{here.name}:{names[1]}"
    caster = rounder.of(weights.dtype, parameter.module, "", name, here.step)
    updated = caster.updated(weights, array_of(change), parameter.module, parameter.what)
    write(target, np.asarray(updated))


def _update_in_pieces(rounder, target, change, here, names):
    """As `_update_at_once`, a piece at a time that stays in the cache; False, nothing done, for other memory."""
    of_change, of_sum = (
        rounder.place(role, here.module, "", target.dtype) for role in ("update", "stored")
    )
    weights = flat_values(target)
    if weights is None or not weights.size or not change.is_flat_like(target):
        return False
    if not (of_change.is_plain and of_sum.is_plain):
        return False
    put_change = rounder.in_pieces(of_change, here, names[0])
    put_sum = rounder.sum_in_pieces(of_sum, here, names[1])
    room = rounder.room(target.dtype)
    for start in range(0, weights.size, room.shape[1]):
        piece = weights[start : start + room.shape[1]]
        moved = room[0, : piece.size]
        change.into(moved, start)
        moved = moved.numpy()
        put_change(moved, start)
        put_sum(piece, moved, room[1, : piece.size].numpy(), start)
    if of_change.fmt is not None:
        rounder.elements["update"] += weights.size
    return True
