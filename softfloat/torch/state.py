"""State: what one emulate object carries from operation to operation, and how a result is rounded."""

from fnmatch import fnmatchcase

import torch

from softfloat.torch.facts import Facts
from softfloat.torch.parameters import Parameters
from softfloat.torch.report import Report
from softfloat.torch.rounder import Rounder
from softfloat.torch.sites import Site, Sites
from softfloat.torch.tensors import fills_storage, storage_of
from softfloat.training.policy import ROLES


class State:
    """What one emulate object knows.

    random, plain : whether any of the policy's roundings is stochastic; whether it rounds nothing.
    gradients : {storage: parameter} of gradients that were accumulated.   optimizers : those that were met.
    optimizing : the number of the one whose step runs, or None.   running : all those, the innermost last.
    tells_apart : whether it matters which parameter a tensor of the optimizer is about.
    numbers : {id of a parameter: (optimizer, its number there)}.   compensation : {such a number: what rounding took
        from the parameter's last update}.
    """

    def __init__(self, policy, strict, seed, monitor, logits, on_new_parameter):
        self.policy, self.strict, self.monitor, self.logits = policy, strict, monitor, logits
        every = every_policy(policy)
        self.random = any(is_random(one) for one in every)
        self.plain = all(is_plain(one) for one in every)
        self.rounder = Rounder(policy, seed, monitor)
        self.sites = Sites(self.random)
        self.parameters = Parameters(on_new_parameter)
        self.facts = Facts(self.parameters)
        self.report = Report()
        self.gradients = {}
        self.optimizers = []
        self.optimizing = None
        self.running = []
        self.numbers = {}
        self.compensation = {}
        self.tells_apart = bool(policy.overrides) or monitor is not None

    def begin(self):
        """A block begins: forget what was known of memory."""
        self.report.begin()
        self.running, self.optimizing = [], None
        self.parameters.forget_copies()
        self.sites.begin()
        self.facts.clear()

    def end_step(self, optimizer):
        """An optimizer's step has ended; one that ran inside another's, as in Lookahead, ends no step of the run."""
        self._leave_step(self.optimizers.index(optimizer))
        if self.running:
            self.optimizing = self.running[-1]
            return
        self.optimizing = None
        self.rounder.narrow.close_step()
        self.sites.next_step()
        self.parameters.forget_copies()
        self.facts.purge()
        held = (p for p in self.gradients.values() if p.tensor.grad is not None)
        self.gradients = {storage_of(p.tensor.grad): p for p in held}

    def begin_step(self, optimizer):
        """An optimizer's step begins."""
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        self.optimizing = self.optimizers.index(optimizer)
        self._leave_step(self.optimizing)  # one that an error has ended
        self.running.append(self.optimizing)
        tensors = [t for group in optimizer.param_groups for t in group["params"]]
        for number, tensor in enumerate(tensors):
            if id(tensor) not in self.parameters.known:
                self.parameters.add(tensor, *self.parameters.home(tensor))
            self.numbers[id(tensor)] = self.optimizing, number
            if self.tells_apart:
                for held in optimizer.state.get(tensor, {}).values():
                    if isinstance(held, torch.Tensor):
                        self.facts.owners[held] = self.parameters.known[id(tensor)]

    def _leave_step(self, number):
        if number in self.running:
            del self.running[self.running.index(number) :]

    # ---------------------------------------------------------------- results
    def role(self, site):
        """The role of what a forward operation gives."""
        if self.logits is not None and fnmatchcase(site.module, self.logits):
            return "logits"
        return "activations"

    def settle(self, result, role, site, what):
        """Round one result: a parameter or a gradient that is written to keeps its own role."""
        if result.is_complex():
            result = torch.view_as_real(result)
        if not result.is_floating_point():
            return
        parameter = self.parameters.find(result)
        if parameter is not None:
            self.facts.written(parameter)
            place = Site(parameter.module, "", f"{site.name}/{parameter.name}", site.step)
            self.rounder.put(result, "stored", place, f"{parameter.what}.{what}")
            return
        owner = self.of_gradient(result)
        if owner is not None:
            role, what = "weight_gradients", f"{owner.what}.gradient"
            site = self.gradient_site(owner, "written")
        self.facts.mark(result, self.rounder.put(result, role, site, what))

    def rounded_gradient(self, parameter, gradient):
        """The whole gradient of a parameter, rounded; None if that leaves it as it is. No mode may be active."""
        grid = self.rounder.grid("weight_gradients", parameter.module, "")
        # What a product made for this parameter alone nobody else reads.
        own = self.facts.alone[gradient] and gradient.is_contiguous() and fills_storage(gradient)
        self.facts.raw.forget(gradient)
        self.facts.alone.forget(gradient)
        if self.monitor is None and grid.fmt is None:
            return None
        found = gradient if own else gradient.detach().clone()
        site = self.gradient_site(parameter, "gradient")
        fmt = self.rounder.put(found, "weight_gradients", site, f"{parameter.what}.gradient")
        self.facts.mark(found, fmt)
        return found

    def gradient_site(self, parameter, what):
        """The Site of what happens to the gradient of a parameter, in the order in which it does."""
        number = self.sites.ordinals[parameter.name, what]
        self.sites.ordinals[parameter.name, what] += 1
        name = f"{parameter.name}.{what}.{number}"
        return Site(parameter.module, "", name, self.sites.step)

    def meet_gradients(self):
        """Gradients that a loop has assigned (p.grad = ...) are gradients like those that backward left."""
        for parameter in self.parameters.known.values():
            gradient = parameter.tensor.grad if parameter.tensor.is_leaf else None
            if gradient is not None:
                self.gradients[storage_of(gradient)] = parameter

    def of_gradient(self, tensor):
        """The parameter whose gradient a tensor is, or None."""
        held = self.gradients.get(storage_of(tensor))
        if held is None or held.tensor.grad is None:
            return None
        return held if storage_of(held.tensor.grad) == storage_of(tensor) else None


def every_policy(policy):
    """A policy and, for each of its overrides, that of the module and operation which it alone matches."""
    places = (pattern.partition(":") for pattern, _ in policy.overrides)
    return (policy, *(policy.at(module, op or None) for module, _, op in places))


def is_random(policy):
    """Whether any tensor or sum is rounded stochastically."""
    roundings = [
        policy.grid(role).rounding
        for role in (*ROLES, "stored")
        if policy.grid(role).fmt is not None
    ]
    if policy.sums is not None:
        roundings += [str(policy.sums[1].get(r, "")) for r in ("rounding", "product_rounding")]
    return any(r.startswith("stochastic") for r in roundings)


def is_plain(policy):
    """Whether nothing is rounded."""
    return policy.sums is None and all(fmt is None for fmt in policy.grids.values())
