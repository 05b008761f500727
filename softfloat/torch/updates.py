"""Operations of an optimizer's step: what is added to a parameter is rounded to `update`, the exact sum to `stored`.

With `kahan` what rounding took from w + dw is kept, on the grid of the optimizer's state, and taken off the next dw
(Zamirai et al., Revisiting BFloat16 Training, 2020); a decay w *= 1 - r is then the change -r w.
"""

from typing import NamedTuple

import numpy as np
import torch

import softfloat.torch.classes as classes
from softfloat.torch.errors import EmulationError
from softfloat.torch.refusals import refuse_opaque
from softfloat.torch.sites import Site
from softfloat.torch.tensors import array_of, flat_values, storage_of, write

# Operations that add something to their first argument.
ADDING = ("add_", "sub_", "addcdiv_", "_foreach_add_", "_foreach_sub_", "_foreach_addcdiv_")
SCALING = ("mul_", "_foreach_mul_")


def run(state, func, name, kind, args, kwargs):
    """One operation of an optimizer's step."""
    if kind == classes.OPAQUE and state.strict and not state.plain:
        refuse_opaque(func)
    place = _site(state, name)
    targets = args[0] if args and isinstance(args[0], (list, tuple)) else args[:1]
    if name in (*ADDING, *SCALING) and all(isinstance(t, torch.Tensor) for t in targets):
        known = [state.parameters.find(t) for t in targets]
        if known and all(known) and not all(_is_plain(state, p) for p in known):
            kahan = any(_is_compensated(state, p) for p in known)
            changes = _changes(name, args, kwargs, len(targets), kahan)
            if changes is not None:
                for parameter, target, change in zip(known, targets, changes, strict=True):
                    _update(state, parameter, target, change, place)
                return args[0] if isinstance(args[0], torch.Tensor) else None
    found = func(*args, **kwargs)
    if kind in (classes.PRODUCT, classes.ROUNDED, classes.UNKNOWN, classes.OPAQUE):
        _settle(state, func, found, args, kwargs, place)
    elif kind == classes.CARRIER:
        state.facts.unmark(func, found, args, kwargs)
    elif kind != classes.VIEW:
        state.facts.pass_on(func, found, args, kwargs)
    return found


def _site(state, name):
    """The Site of an operation of the optimizer that runs."""
    key = state.optimizing, name
    ordinal = state.sites.ordinals[key]
    state.sites.ordinals[key] += 1
    return Site("", name, f"optimizer{state.optimizing}/{name}.{ordinal}", state.sites.step)


def _settle(state, func, found, args, kwargs, place):
    results = classes.results_of(func, found, args, kwargs)
    for i, result in enumerate(results):
        if not isinstance(result, torch.Tensor):
            continue
        here = place
        if state.tells_apart:
            parameter = _owner_of(state, (*args, *kwargs.values()), i, len(results))
            if parameter is not None:
                state.facts.owners[result] = parameter
                here = Site(parameter.module, place.op, place.name, place.step)
        written_to = state.parameters.find(result)
        if written_to is not None and _is_compensated(state, written_to):
            raise EmulationError(
                f"the policy compensates updates (kahan), and {func} changes {written_to.name} otherwise than by "
                "adding to it; use SGD, Adam or AdamW, or kahan=False"
            )
        state.settle(result, "optimizer", here, f"{i}")


def _owner_of(state, values, i, count):
    """The parameter that one result of an operation is about: that of its operands, their gradients or state."""
    for value in values:
        if isinstance(value, (list, tuple)):
            value = value[i] if len(value) == count else None
        if isinstance(value, torch.Tensor):
            known = state.parameters.find(value) or state.of_gradient(value)
            known = known or state.facts.owners[value]
            if known is not None:
                return known
    return None


def _is_plain(state, parameter):
    grid = state.rounder.grid
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


def _is_compensated(state, parameter):
    return state.policy.at(parameter.module, "").kahan


def _changes(name, args, kwargs, count, kahan):
    """The Change of each target of an operation; None if it is not of a known form."""
    single = not name.startswith("_foreach")
    if name in SCALING:
        if not kahan:
            return None
        factors = _listed(args[1], count)
        return [Change(w, f - 1) for w, f in zip(_listed(args[0], count), factors, strict=True)]
    sign = -1 if "sub" in name else 1
    if "addcdiv" in name:
        values = kwargs.get("value", args[3] if len(args) > 3 else 1)
        scalars = values.tolist() if isinstance(values, torch.Tensor) and values.dim() else values
        first, second = ([a] if single else a for a in args[1:3])
        scalars = _listed(scalars, count)
        return [Change(x, v, y) for x, y, v in zip(first, second, scalars, strict=True)]
    others = [args[1]] if single else args[1]
    if not isinstance(others, (list, tuple)) or not all(
        isinstance(x, torch.Tensor) for x in others
    ):
        return None
    factor = sign * kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return [Change(x, factor) for x in others]


def _listed(value, count):
    return value if isinstance(value, (list, tuple)) else [value] * count


def _update(state, parameter, target, change, place):
    """target = target + change, as the policy says. A parameter without dimensions stays in the carrier."""
    state.facts.written(parameter)
    if not target.dim():
        target.add_(change.whole(()))
        return
    # Modules that are called from the loop have equal paths, and one operation may update the parameters of several.
    number = state.numbers.get(id(parameter.tensor), (None, ""))[1]
    here = Site(parameter.module, "", f"{place.name}/{number}.{parameter.name}", place.step)
    names = f"{parameter.what}.change", f"{parameter.what}.updated"
    if _is_compensated(state, parameter):
        _update_compensated(state, parameter, target, change.whole(target.shape), here, names)
    elif not _update_in_pieces(state.rounder, target, change, here, names):
        change = change.whole(target.shape)
        state.rounder.put(change, "update", here, names[0])
        _add(state.rounder, parameter, target, change, here, names)
    state.rounder.elements["stored"] += target.numel()


def _update_compensated(state, parameter, target, change, here, names):
    """As `_update`, less what rounding took from the last one; names : of the change and of the sum."""
    rounder, what = state.rounder, parameter.what
    rounder.put(change, "update", here, names[0])
    number = state.numbers.get(id(parameter.tensor))
    lost = state.compensation.get(number)
    if lost is not None:
        change = change - lost
        rounder.put(change, "update", here, f"{what}.compensated")
    before = target.clone()
    _add(rounder, parameter, target, change, here, names)
    lost = (target - before) - change
    rounder.put(lost, "optimizer", here, f"{what}.compensation")
    state.compensation[number] = lost


def _add(rounder, parameter, target, change, here, names):
    """target + change, rounded once, into the target: in any memory, and with a monitor."""
    weights = array_of(target)
    name = f"{here.name}:{names[1]}"
    caster = rounder.of(weights.dtype, parameter.module, "", name, here.step)
    updated = caster.updated(weights, array_of(change), parameter.module, parameter.what)
    write(target, np.asarray(updated))


def _update_in_pieces(rounder, target, change, here, names):
    """target + change, a piece at a time, in scratch memory; False, nothing done, for other memory."""
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
