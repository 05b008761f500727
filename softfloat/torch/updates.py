"""Operations of an optimizer's step: what is added to a parameter is rounded to `update`, the exact sum to `stored`."""

import numpy as np
import torch

import softfloat.torch.classes as classes
from softfloat.torch.sites import Site
from softfloat.torch.tensors import array_of, write

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


def _changes(name, args, kwargs, count):
    """What an operation adds to each of its targets, in the carrier; None if it is not of a known form."""
    single = not name.startswith("_foreach")
    sign = -1 if "sub" in name else 1
    if "addcdiv" in name:
        values = kwargs.get("value", args[3] if len(args) > 3 else 1)
        scalars = values.tolist() if isinstance(values, torch.Tensor) else values
        scalars = scalars if isinstance(scalars, (list, tuple)) else [scalars] * count
        first, second = ([a] if single else a for a in args[1:3])
        return [x * v / y for x, y, v in zip(first, second, scalars, strict=True)]
    others = [args[1]] if single else args[1]
    if not isinstance(others, (list, tuple)):
        return None
    if not all(isinstance(x, torch.Tensor) and x.dim() for x in others):
        return None
    factor = sign * kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return [x * factor for x in others]


def _update(owner, parameter, target, change, place):
    """target = target + change, as the policy says."""
    here = Site(parameter.module, "", place.name, place.step)
    what = parameter.what
    change = change.expand(target.shape).contiguous()
    owner.rounder.put(change, "update", here, f"{what}.change")
    weights = array_of(target)
    name = f"{here.name}:{what}.updated.{parameter.name}"
    caster = owner.rounder.of(weights.dtype, parameter.module, "", name, here.step)
    updated = caster.updated(weights, array_of(change), parameter.module, what)
    write(target, np.asarray(updated))
    parameter.copy = None
    owner.rounder.elements["stored"] += target.numel()
