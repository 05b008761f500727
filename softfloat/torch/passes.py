"""Forward and backward operations: each finds its site, reads rounded operands, computes, and rounds its results."""

import torch

import softfloat.torch.classes as classes
from softfloat.torch.classes import base_name, results_of, tensors_in
from softfloat.torch.operands import Operands
from softfloat.torch.products import Products
from softfloat.torch.refusals import (
    check_hooks,
    check_kind,
    is_emulated,
    refuse_lost,
    refuse_unknown,
)
from softfloat.torch.sites import Site, current_node
from softfloat.torch.targets import is_alone, is_for_parameter, targets_of


class Passes:
    """Runs the operations of a model, none of an optimizer.   state : State."""

    def __init__(self, state):
        self.state = state
        self.strict = state.strict and not state.plain  # what is rounded nowhere hides nothing
        self.sites, self.facts = state.sites, state.facts
        self.operands = Operands(state)
        self.products = Products(state, self.operands)

    def forward(self, func, name, kind, args, kwargs):
        """The results of an operation of class `kind`."""
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in(args))
        rounded = kind in (classes.PRODUCT, classes.ROUNDED)
        site = self.sites.forward(name, tracked, rounded)
        if kind == classes.VIEW:
            return func(*args, **kwargs)
        if self.strict:
            check_kind(func, kind, (*args, *kwargs.values()))
            if tracked:
                check_hooks()
        if kind == classes.PRODUCT:
            return self._product(func, name, args, kwargs, site)
        return self._others(func, name, kind, args, kwargs, site, self._settle_forward)

    def backward(self, func, name, kind, args, kwargs):
        """As `forward`, for what autograd calls; views need no site there."""
        node = current_node()
        forward = None if node is None else self.sites.of_node(node)
        if self.strict:
            check_kind(func, kind, (*args, *kwargs.values()))
        if forward is None:
            where = "engine" if node is None else node.name()
            forward = self.sites.backward(where)
            if hasattr(node, "variable"):  # a hook of the user's, or the sum of several gradients
                return self._accumulated(func, kind, args, kwargs, node.variable)
            if node is not None:
                self._lose(node)
        ordinal = forward.count(name)
        site = Site(forward.module, forward.op, f"{forward.name}<{name}.{ordinal}", forward.step)
        site.operands = forward.operands
        site.targets = targets_of(forward, node, self.state.parameters)
        if kind == classes.PRODUCT:
            return self._product_backward(func, name, args, kwargs, site)
        return self._others(func, name, kind, args, kwargs, site, self._settle_backward)

    def _accumulated(self, func, kind, args, kwargs, leaf):
        """An operation on the gradient of a leaf gives a gradient of it, complete or raw as it was."""
        found = func(*args, **kwargs)
        if kind in (classes.EXACT, classes.CARRIER):
            self.facts.pass_on(func, found, args, kwargs)
            return found
        parameter = self.state.parameters.find(leaf)
        raw = any(self.facts.raw[t] for t in tensors_in(args))
        for result in results_of(func, found, args, kwargs):
            if raw:
                self.facts.raw[result] = True
            elif parameter is None:
                self.state.settle(result, "errors", self.sites.backward("leaf"), "sum")
            else:
                site = self.state.gradient_site(parameter, "accumulated")
                fmt = self.state.rounder.put(
                    result, "weight_gradients", site, f"{parameter.what}.gradient"
                )
                self.facts.mark(result, fmt)
        return found

    def _others(self, func, name, kind, args, kwargs, site, settle):
        """What is no product and no view, in either pass; settle(func, found, args, kwargs, site) rounds results."""
        args = self.operands.read(func, args)
        found = self.products.sum_or_other(func, name, args, kwargs, site)
        if kind == classes.UNKNOWN and self.strict:
            # What gives no floating numbers has none to round.
            refuse_unknown(func, results_of(func, found, args, kwargs))
        if kind == classes.CARRIER or name in classes.LOSSES:
            self.facts.unmark(func, found, args, kwargs)
        elif kind == classes.EXACT:
            self.facts.pass_on(func, found, args, kwargs)
        else:
            settle(func, found, args, kwargs, site)
        return found

    def _settle_forward(self, func, found, args, kwargs, site):
        average = classes.written(func) and not torch.is_grad_enabled()
        average = average and self.operands.is_look(func, args)
        if average:
            self.state.meet_gradients()
        for i, result in enumerate(results_of(func, found, args, kwargs)):
            if i and base_name(func) in classes.FIRST_ONLY:
                break
            stored = average and self.operands.is_like_weights(result)
            self.state.settle(result, "stored" if stored else self.state.role(site), site, f"{i}")

    def _settle_backward(self, func, found, args, kwargs, site, of_product=False):
        results = results_of(func, found, args, kwargs)
        raw = any(self.facts.raw[t] for t in tensors_in(args))
        for i, result in enumerate(results):
            if not isinstance(result, torch.Tensor) or not classes.has_rounding(result):
                continue
            if raw or is_for_parameter(site.targets, i, result, len(results), of_product):
                self.facts.raw[result] = True
                if of_product and is_alone(current_node()):
                    self.facts.alone[result] = True
            else:
                self.state.settle(result, "errors", site, f"error{i or ''}")

    def _product(self, func, name, args, kwargs, site):
        if not is_emulated(args):
            return func(*args, **kwargs)
        found = self.products.forward(func, name, args, kwargs, site)
        self.state.settle(found, self.state.role(site), site, "output")
        return found

    def _product_backward(self, func, name, args, kwargs, site):
        if not is_emulated(args):
            return func(*args, **kwargs)
        found, of_weights = self.products.backward(func, name, args, kwargs, site)
        self._settle_backward(func, found, args, kwargs, site, of_weights)
        return found

    def _lose(self, node):
        if self.strict:
            refuse_lost(node)
        self.state.report.count("lost", node.name())
