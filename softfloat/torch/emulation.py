"""emulate: a block inside which torch's operations run in the formats of a policy.

A TorchDispatchMode sees every operation below autograd: forward, backward and optimizer step alike. Each has a class
(softfloat.torch.classes); what it gives is rounded to the format of its role, in place, in fresh memory.

Roles. Operands of products are rounded to `activations`, or `weights` for a parameter. Results of forward operations
are rounded to `activations` (or `logits`), those of backward operations to `errors`. A parameter's gradient is rounded
once, when it is complete, to `weight_gradients`. In an optimizer's step what is added to a parameter is rounded to
`update` and the exact sum to the format that weights are stored in; all other tensors to `optimizer`.
"""

import contextlib
import functools
import math
import os
import warnings
from fnmatch import fnmatchcase

import numpy as np
import torch
from torch.nn.modules import module as modules
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import softfloat.torch.classes as classes
import softfloat.torch.updates as updates
from softfloat.torch.canary import check_canary
from softfloat.torch.classes import base_name, results_of, tensors_in
from softfloat.torch.errors import EmulationError
from softfloat.torch.fused import fused_paths
from softfloat.torch.parameters import Parameters
from softfloat.torch.report import Report
from softfloat.torch.rounder import Rounder
from softfloat.torch.routing import ADDING, Unit, convolution, convolution_backward, matrix_product
from softfloat.torch.sites import Site, Sites, current_node, graph_task
from softfloat.torch.tensors import Known, fills_storage, storage_of, tensor_of
from softfloat.training.monitor import Monitor
from softfloat.training.policy import ROLES
from softfloat.training.presets import as_policy

_PASSING = frozenset(
    ("TBackward0", "TransposeBackward0", "ViewBackward0", "UnsafeViewBackward0", "PermuteBackward0",
     "ReshapeAliasBackward0", "UnsqueezeBackward0", "SqueezeBackward0", "SqueezeBackward1", "ToCopyBackward0",
     "SelectBackward0", "SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0")
)  # fmt: skip


_PRODUCTS = frozenset(
    ("AddmmBackward0", "MmBackward0", "BmmBackward0", "BaddbmmBackward0", "ConvolutionBackward0")
)
_CustomNode = torch.autograd.function.BackwardCFunction


class _Mode(TorchDispatchMode):
    def __init__(self, owner):
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and self.owner.strict and not self.owner.plain:
            for kind in types:
                _refuse_own_dispatch(kind)
        return self.owner._dispatch(func, args, kwargs or {})


@functools.cache
def _refuse_own_dispatch(kind):
    """EmulationError for a class of tensors that runs operations itself, such as nested ones; others are as Tensor."""
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise EmulationError(
            f"tensors of {kind.__name__} do their arithmetic where emulation cannot see it; use plain tensors"
        )


class emulate:
    """Runs torch operations inside a `with` block in the arithmetic of a policy.

    policy : a softfloat.training.Policy or the name of a preset.   strict : whether what cannot be emulated, and a
        block in which no product ran, is an EmulationError; else it is counted in the report.
    seed : for stochastic rounding.   monitor : a softfloat.training.Monitor.
    logits : pattern of the module paths whose results have the role `logits`, such as "head"; None: none has.

    Works around an unmodified model, loss, optimizer and loop. Module paths, as in `named_modules`, are what the
    policy's overrides match, with the aten operation after a colon: "layers.*:gelu". `report()` says what ran;
    `state_dict()` and `load_state_dict` let a resumed run draw the same random words.

    >>> import torch, softfloat.torch as st
    >>> layer = torch.nn.Linear(2, 1)
    >>> with st.emulate("pure_bfloat16") as emulation:
    ...     y = layer(torch.tensor([[0.1, 0.2]]))
    >>> emulation.report().calls["product"]
    {'addmm': 1}
    """

    def __init__(self, policy, strict=True, seed=None, *, monitor=None, logits=None):
        self.policy = as_policy(policy)
        _check_options(strict, seed, monitor, logits)
        self.strict = strict
        self.logits = logits
        every = (self.policy, *(self.policy.at(p, o) for p, o in _overridden(self.policy)))
        self.random = any(_is_random(policy) for policy in every)
        if self.random and seed is None:
            raise ValueError(
                'rounding="stochastic" needs seed=, so that the result can be repeated'
            )
        self.plain = all(_is_plain(policy) for policy in every)
        self.rounder = Rounder(self.policy, seed, monitor)
        self.monitor = monitor
        self.sites = Sites(self.random)
        self.parameters = Parameters(self._hook)
        self._report = Report()
        self._mode = _Mode(self)
        self._known = Known()  # the format that all values of a storage are in
        self._operands = Known()  # (Site, what) of unrounded tensors that products rounded last
        self._raw = Known()  # gradients of parameters on their way, not rounded yet
        self._alone = Known()  # those that a product made, which only views of them share
        self._derived = Known()  # rounded weights in another dtype
        self._facts = self._known, self._operands, self._raw, self._alone, self._derived
        self.tells_apart = bool(self.policy.overrides) or monitor is not None
        self.owners = Known()  # parameters of the tensors in an optimizer's step, for overrides
        self.numbers = {}  # {id of a parameter: (optimizer, its number there)}
        self.compensation = {}  # {such a number: what rounding took from the parameter's last update}
        self._gradients = {}
        self._optimizers = []
        self._optimizing = None
        self._stack = None

    # ---------------------------------------------------------------- the block
    def __enter__(self):
        if self._stack is not None:
            raise EmulationError("this emulate object is active already; make another one")
        if _is_active():
            raise EmulationError(
                "emulate() is active in this thread already, and blocks inside each other would round twice; leave the "
                "first, or say in one policy what differs, with overrides="
            )
        self._process = os.getpid()
        self._report.begin()
        self._begin()
        with contextlib.ExitStack() as stack:
            if not self.plain:
                stack.enter_context(fused_paths.opened())
            handles = [
                modules.register_module_forward_pre_hook(self._enter_module),
                modules.register_module_forward_hook(self._leave_module, always_call=True),
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]
            for handle in handles:
                stack.callback(handle.remove)
            stack.callback(self.parameters.close)
            for parameter in self.parameters.known.values():
                self._hook(parameter)
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack))
            stack.enter_context(self._mode)
            self._stack = stack.pop_all()
        try:
            check_canary(self)
        except BaseException:
            self._close()
            raise
        return self

    def _begin(self):
        """Forget what was known of memory, which anything may have written to since the last block."""
        self.parameters.forget_copies()
        self.sites.begin()
        for table in self._facts:
            table.clear()

    def __exit__(self, kind, error, trace):
        self._close()
        if kind is None and self.strict and not self._report.products():
            raise EmulationError(
                "no product was emulated in this block: the model ran in another thread or process, was compiled, or "
                "did not run at all. Call the model inside the block, or pass strict=False"
            )
        if self.policy.loss_scale is not None and not self._report.saw("_amp_foreach_non_finite"):
            warnings.warn(
                f"policy {self.policy.name!r} asks for a loss scale, and no torch.amp.GradScaler ran in this block; "
                "scale the loss in the loop",
                RuntimeWarning,
                stacklevel=2,
            )

    def _close(self):
        self.sites.end()
        stack, self._stack = self._stack, None
        stack.close()
        self.sites.stack.clear()

    def report(self):
        """A Report of what ran in this object's blocks, as of now."""
        return self._report.taken(self.rounder.elements)

    def state_dict(self):
        """What a resumed run needs: the step, the seed, the histories of scaled formats."""
        delayed = self.rounder.narrow.delayed.state_dict()
        lost = {number: tensor.clone() for number, tensor in self.compensation.items()}
        own = {"step": self.sites.step, "seed": self.rounder.seed}
        return {**own, "scales": delayed, "compensation": lost}

    def load_state_dict(self, state):
        """Go on from a state. Raises ValueError if it was drawn with another seed."""
        if state["seed"] != self.rounder.seed:
            raise ValueError(f"the state has seed {state['seed']}, this one {self.rounder.seed}")
        self.sites.step = int(state["step"])
        self.rounder.narrow.delayed.load_state_dict(state["scales"])
        self.compensation = {n: t.clone() for n, t in state.get("compensation", {}).items()}

    # ---------------------------------------------------------------- hooks
    def _is_here(self):
        """Whether this block's operations run in this thread: in the one that entered, and in autograd's for it."""
        return os.getpid() == self._process and self._mode in _get_current_dispatch_mode_stack()

    def _enter_module(self, module, inputs):
        if not self._is_here():
            if self.strict and not _is_active():
                raise EmulationError(
                    f"{type(module).__name__} was called in another thread or process than the one that entered "
                    "emulate(), where it would run in plain torch. Enter an emulate() there too (each thread may have "
                    "one, on modules they share as well), or pass strict=False if plain is what you want there"
                )
            return
        if type(module).__name__ == "OptimizedModule" and not self.plain and self.strict:
            raise EmulationError(
                "a compiled module hides its operations; call the module that torch.compile was given"
            )
        if not self.sites.stack:
            self.parameters.root(module)
        path = self.parameters.path(module)
        if path is None:  # made during the call
            path = f"?{type(module).__name__}"
        self.sites.enter(path)

    def _leave_module(self, module, inputs, output):
        if self._is_here():
            self.sites.leave()

    def _before_step(self, optimizer, args, kwargs):
        if not self._is_here():
            return
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                if id(tensor) not in self.parameters.known:
                    self.parameters.add(tensor, *self.parameters.home(tensor))
        self._optimizing = self._optimizers.index(optimizer)
        tensors = [t for group in optimizer.param_groups for t in group["params"]]
        for number, tensor in enumerate(tensors):
            self.numbers[id(tensor)] = self._optimizing, number
            if self.tells_apart:
                for held in optimizer.state.get(tensor, {}).values():
                    if isinstance(held, torch.Tensor):
                        self.owners[held] = self.parameters.known[id(tensor)]

    def _after_step(self, optimizer, args, kwargs):
        if not self._is_here():
            return
        self._optimizing = None
        self.rounder.narrow.close_step()
        self.sites.next_step()
        self.parameters.forget_copies()
        for table in (*self._facts, self.owners):
            table.purge()
        held = (p for p in self._gradients.values() if p.tensor.grad is not None)
        self._gradients = {storage_of(p.tensor.grad): p for p in held}

    def _hook(self, parameter):
        tensor = parameter.tensor
        if not tensor.requires_grad or not tensor.is_leaf or tensor.is_inference():
            return
        parameter.handles.append(
            tensor.register_hook(lambda gradient: self._take_gradient(parameter, gradient))
        )
        parameter.handles.append(
            tensor.register_post_accumulate_grad_hook(
                lambda held: self._gradients.__setitem__(storage_of(held.grad), parameter)
            )
        )

    def _take_gradient(self, parameter, gradient):
        """The whole gradient of a parameter, rounded."""
        if not self._is_here():
            return None
        if gradient.layout != torch.strided:
            raise EmulationError(
                f"the gradient of {parameter.name} is sparse, which has no emulation; use sparse=False"
            )
        module = parameter.module
        if self.monitor is None and self.rounder.grid("weight_gradients", module, "").fmt is None:
            return None
        with torch._C._DisableTorchDispatch():
            # A product made it for this parameter alone: nobody else reads it.
            alone = self._alone[gradient] and gradient.is_contiguous() and fills_storage(gradient)
            found = gradient if alone else gradient.detach().clone()
            site = self._gradient_site(parameter, "gradient")
            fmt = self.rounder.put(found, "weight_gradients", site, f"{parameter.what}.gradient")
            self._mark(found, fmt)
            self._raw.forget(found)
        return found

    def _pack(self, tensor):
        with torch._C._DisableTorchDispatch():
            return tensor.detach(), tensor._version

    def _unpack(self, packed):
        tensor, version = packed
        if self.strict and not self.plain and self._mode not in _get_current_dispatch_mode_stack():
            raise EmulationError(
                "backward runs through a graph that was built inside emulate(), but emulate() is not active in this "
                "thread: call backward() inside the block"
            )
        if tensor._version != version:
            raise RuntimeError(
                f"a tensor of shape {tuple(tensor.shape)} that backward needs has been changed in place: it is at "
                f"version {tensor._version}, expected version {version}"
            )
        return tensor

    # ---------------------------------------------------------------- operations
    def _dispatch(self, func, args, kwargs):
        if os.getpid() != self._process:
            return func(*args, **kwargs)
        kind, name = classes.kind_and_name(func)
        if kind == classes.COMPOSED:
            self._report.count(kind, name)
            with self._mode:
                return func.decompose(*args, **kwargs)
        self._report.count(kind, name)
        if kind == classes.QUERY or self.plain and self.monitor is None:
            return func(*args, **kwargs)
        # Recomputation under activation checkpointing runs within backward, with gradients enabled.
        backward = graph_task() != -1 and (not torch.is_grad_enabled() or self._differentiated())
        inside = self._optimizing is not None and not self.sites.stack  # a closure calls the model
        if inside and not torch.is_grad_enabled() and not backward:
            if kind == classes.OPAQUE:
                self._refuse_opaque(func)
            site = updates.site(self, name)
            return updates.run(self, func, name, kind, args, kwargs, site)
        if backward and kind == classes.VIEW:
            return func(*args, **kwargs)
        if backward:
            return self._backward(func, name, kind, args, kwargs)
        return self._forward(func, name, kind, args, kwargs)

    def _differentiated(self):
        """Whether a backward pass builds a graph of its own, and does not recompute a forward pass."""
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
        if hooks is None or hooks[0] != self._pack or isinstance(current_node(), _CustomNode):
            return False
        if self.strict and not self.plain:
            raise EmulationError(
                "a backward pass that is to be differentiated itself (create_graph=True, double backward) has no "
                "emulation; leave create_graph out, or run that part outside the block"
            )
        return True

    def _forward(self, func, name, kind, args, kwargs):
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in(args))
        site = self.sites.forward(name, tracked)
        if kind == classes.VIEW:
            return func(*args, **kwargs)
        self._check_kind(func, kind, args, kwargs)
        if tracked and self.strict:
            self._check_hooks()
        if kind == classes.PRODUCT:
            return self._product(func, name, args, kwargs, site)
        return self._others(func, name, kind, args, kwargs, site, self._settle_forward)

    def _check_hooks(self):
        """Backward knows what it reads by its memory, of which only hooks of checkpointing make no copy."""
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
        if hooks is None or hooks[0] == self._pack:
            return
        if getattr(hooks[0], "__module__", "") != "torch.utils.checkpoint":
            raise EmulationError(
                "hooks on saved tensors (saved_tensors_hooks, save_on_cpu, allow_mutation_on_saved_tensors) give "
                "backward copies, of which it cannot be told how to round them; use activation checkpointing to save "
                "memory"
            )

    def _others(self, func, name, kind, args, kwargs, site, settle):
        """What is no product and no view, in either pass; settle(func, found, args, kwargs, site) rounds results."""
        args = self._read(func, args, site)
        found = self._compute(func, name, args, kwargs, site)
        if kind == classes.UNKNOWN and self.strict:
            # What gives no floating numbers has none to round.
            self._refuse_unknown(func, results_of(func, found, args, kwargs))
        if kind == classes.CARRIER or name in classes.LOSSES:
            self._unmark(func, found, args, kwargs)
        elif kind == classes.EXACT:
            self._pass_on(func, found, args, kwargs)
        else:
            settle(func, found, args, kwargs, site)
        return found

    def _settle_forward(self, func, found, args, kwargs, site):
        average = (
            classes.written(func) and not torch.is_grad_enabled() and self._is_look(func, args)
        )
        if average:
            self._meet_gradients()
        for i, result in enumerate(results_of(func, found, args, kwargs)):
            if i and base_name(func) in classes.FIRST_ONLY:
                break
            stored = average and self._is_like_weights(result)
            self._settle(result, "stored" if stored else self._role(site), site, f"{i}")

    def _role(self, site):
        if self.logits is not None and fnmatchcase(site.module, self.logits):
            return "logits"
        return "activations"

    def _settle(self, result, role, site, what):
        """Round one result: a parameter or a gradient that is written to keeps its own role."""
        if result.is_complex():
            result = torch.view_as_real(result)
        if not result.is_floating_point():
            return
        parameter = self.parameters.find(result)
        if parameter is not None:
            self._written(parameter)
            place = Site(parameter.module, "", f"{site.name}/{parameter.key}", site.step)
            self.rounder.put(result, "stored", place, f"{parameter.what}.{what}")
            return
        owner = self._of_gradient(result)
        if owner is not None:
            role, what = "weight_gradients", f"{owner.what}.gradient"
            site = self._gradient_site(owner, "written")
        self._mark(result, self.rounder.put(result, role, site, what))

    def _gradient_site(self, parameter, what):
        """The Site of what happens to the gradient of a parameter, in the order in which it does."""
        number = self.sites.ordinals[parameter.key, what]
        self.sites.ordinals[parameter.key, what] += 1
        name = f"{parameter.key}.{what}.{number}"
        return Site(parameter.module, "", name, self.sites.step)

    def _meet_gradients(self):
        """Gradients that a loop has assigned (p.grad = ...) are gradients like those that backward left."""
        for parameter in self.parameters.known.values():
            gradient = parameter.tensor.grad if parameter.tensor.is_leaf else None
            if gradient is not None:
                self._gradients[storage_of(gradient)] = parameter

    def _of_gradient(self, tensor):
        """The parameter whose gradient a tensor is, or None."""
        held = self._gradients.get(storage_of(tensor))
        if held is None or held.tensor.grad is None:
            return None
        return held if storage_of(held.tensor.grad) == storage_of(tensor) else None

    def _backward(self, func, name, kind, args, kwargs):
        node = current_node()
        forward = None if node is None else self.sites.of_node(node)
        self._check_kind(func, kind, args, kwargs)
        if forward is None:
            where = "engine" if node is None else node.name()
            forward = self.sites.backward(where)
            if hasattr(node, "variable"):  # a hook of the user's, or the sum of several gradients
                return self._accumulated(func, kind, args, kwargs, node.variable)
            if node is not None:
                self._lost(node)
        ordinal = forward.count(name)
        site = Site(forward.module, forward.op, f"{forward.name}<{name}.{ordinal}", forward.step)
        site.operands = forward.operands
        site.targets = self._targets(forward, node)
        if kind == classes.PRODUCT:
            return self._product_backward(func, name, args, kwargs, site)
        return self._others(func, name, kind, args, kwargs, site, self._settle_backward)

    def _accumulated(self, func, kind, args, kwargs, leaf):
        """An operation on the gradient of a leaf gives a gradient of it, complete or raw as it was."""
        found = func(*args, **kwargs)
        if kind in (classes.EXACT, classes.CARRIER):
            self._pass_on(func, found, args, kwargs)
            return found
        parameter = self.parameters.find(leaf)
        raw = any(self._raw[t] for t in tensors_in(args))
        for result in results_of(func, found, args, kwargs):
            if raw:
                self._raw[result] = True
            elif parameter is None:
                self._settle(result, "errors", self.sites.backward("leaf"), "sum")
            else:
                site = self._gradient_site(parameter, "accumulated")
                fmt = self.rounder.put(
                    result, "weight_gradients", site, f"{parameter.what}.gradient"
                )
                self._mark(result, fmt)
        return found

    def _settle_backward(self, func, found, args, kwargs, site, of_product=False):
        results = results_of(func, found, args, kwargs)
        raw = any(self._raw[t] for t in tensors_in(args))
        for i, result in enumerate(results):
            if not isinstance(result, torch.Tensor) or not classes.has_rounding(result):
                continue
            if raw or self._is_for_parameter(site.targets, i, result, len(results), of_product):
                self._raw[result] = True
                if of_product and _is_alone(current_node()):
                    self._alone[result] = True
            else:
                self._settle(result, "errors", site, f"error{i or ''}")

    def _targets(self, forward, node):
        """What each edge of a node leads to: (parameter or None, shape without ones)."""
        if node is None:
            return ()
        if forward.targets is None:
            forward.targets = tuple(self._target(*edge) for edge in node.next_functions)
        return forward.targets

    def _target(self, node, number):
        if node is None:
            return None, (-1,)
        metadata = getattr(node, "_input_metadata", ())
        shape = _without_ones(metadata[number].shape) if number < len(metadata) else ()
        for _ in range(8):
            if hasattr(node, "variable"):
                return self.parameters.find(node.variable), shape
            if node.name() not in _PASSING or node.next_functions[0][0] is None:
                break
            node = node.next_functions[0][0]
        return None, shape

    @staticmethod
    def _is_for_parameter(targets, i, result, count, of_product):
        """Whether a result is the gradient of a parameter, which is rounded when it is complete."""
        if not targets:
            return False
        if count > 1:
            return count == len(targets) and targets[i][0] is not None
        own = [shape for parameter, shape in targets if parameter is not None]
        if of_product:  # it may be a transpose
            return result.numel() in map(math.prod, own)
        shape = _without_ones(result.shape)
        return shape in own and shape not in [s for parameter, s in targets if parameter is None]

    def _lost(self, node):
        if self.strict and not self.plain:
            raise EmulationError(
                f"backward through {node.name()}, which was built outside this block or more than 16 optimizer steps "
                "ago: what it saved is not rounded. Run forward and backward in the same block"
            )
        self._report.count("lost", node.name())

    def _check_kind(self, func, kind, args, kwargs):
        if kind == classes.OPAQUE:
            self._refuse_opaque(func)
        if kind == classes.UNKNOWN and self.strict and classes.written(func):
            self._refuse_unknown(func, (*args, *kwargs.values()))

    @staticmethod
    def _refuse_unknown(func, values):
        if any(t.is_floating_point() or t.is_complex() for t in tensors_in(values)):
            raise EmulationError(
                f"{func} has no rule for rounding; write it with other operations, or pass strict=False, which "
                "rounds its results"
            )

    def _refuse_opaque(self, func):
        if self.strict:
            raise EmulationError(
                f"{func} does its arithmetic where emulation cannot see it; {classes.remedy(func)}, "
                "or pass strict=False, which rounds its results"
            )

    # ---------------------------------------------------------------- operands
    def _weight(self, parameter):
        """The rounded copy of a parameter, made once for each value that it has."""
        if parameter.is_stale():
            tensor = parameter.tensor.detach()
            site = Site(parameter.module, "", parameter.key, self.sites.step)
            fmt = self._held_format(tensor, site)
            if fmt is not None:
                copy = tensor  # rounding would leave it as it is
            else:
                copy = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
                )
                copy.copy_(tensor)
                fmt = self.rounder.put(copy, "weights", site, parameter.what)
            self._mark(copy, fmt or "weights")
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

    def _written(self, parameter):
        """Something was written to a parameter: what was known of its values is void."""
        parameter.copy = None
        self._known.forget(parameter.tensor)

    def _read(self, func, args, site):
        """The arguments, parameters that are only read replaced by their rounded copies."""
        if self._is_look(func, args):
            return args
        targets = {i for i, _ in classes.written(func)}
        return tuple(a if i in targets else self._replaced(a) for i, a in enumerate(args))

    def _is_look(self, func, args):
        """Whether weights are copied or averaged from outside the model, and not used: then they stay as stored."""
        if self.sites.stack or graph_task() != -1:
            return False
        if not (classes.written(func) or base_name(func) in classes.COPIES):
            return False
        return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in(args)))

    def _is_like_weights(self, tensor):
        """Whether what is written to from outside the model may be an average of weights, and is no activation."""
        fmt = self._known[tensor]
        grid = self.rounder.grid
        kept = fmt is None or fmt == grid("stored", "", "").fmt
        return kept and grid("activations", "", "").fmt is not None

    def _replaced(self, value):
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return [self._replaced(v) for v in value]
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        parameter = self.parameters.find(value)
        if parameter is None or self.rounder.grid("weights", parameter.module, "").fmt is None:
            return value
        return parameter.like(value, self._weight(parameter))

    def _operand(self, tensor, site, number):
        """(operand of a forward product, its role)."""
        parameter = self.parameters.find(tensor)
        if parameter is not None:
            return self._replaced(tensor), "weights"
        if self._derived[tensor]:
            return tensor, "weights"
        fmt = self.rounder.grid("activations", site.module, site.op).fmt
        if fmt is None or self._known[tensor] == fmt:
            return tensor, "activations"
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        # One tensor in both places is rounded alike: backward could not tell which it meets.
        own = Site(site.module, site.op, site.name, site.step), f"operand{number}"
        own = site.operands.setdefault(_place_of(tensor), own)
        self._operands[tensor] = own
        self.rounder.put(copy, "activations", *own)
        return copy, "activations"

    def _saved(self, tensor, site, number):
        """(operand of a backward product, its role): what forward saved unrounded is rounded again, bit for bit."""
        parameter = self.parameters.find(tensor)
        if parameter is not None:
            return self._replaced(tensor), "weights"
        if self._derived[tensor]:
            return tensor, "weights"
        again, turned = _found(site.operands, tensor)
        if again is None:  # recomputed by a module that is called several times
            other = self._operands[tensor]
            again = other if other is not None and other[0].module == site.module else None
        known = self._known[tensor]
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

    def _product(self, func, name, args, kwargs, site):
        if not _is_emulated(args):
            return func(*args, **kwargs)
        places = (1, 2) if name in ADDING else (0, 1)
        args = list(args)
        roles = []
        for i in places:
            args[i], role = self._operand(args[i], site, i)
            roles.append(role)
        bias = 0 if name in ADDING else {"convolution": 2}.get(name)
        if bias is not None and args[bias] is not None:
            args[bias] = self._replaced(args[bias])
        found = self._run_product(func, name, args, kwargs, site, tuple(roles), "output")
        self._settle(found, self._role(site), site, "output")
        return found

    def _product_backward(self, func, name, args, kwargs, site):
        if not _is_emulated(args):
            return func(*args, **kwargs)
        args = list(args)
        places = {**dict.fromkeys(ADDING, (1, 2)), "convolution_backward": (0, 1, 2)}
        roles = []
        for i in places.get(name, (0, 1)):
            args[i], role = self._saved(args[i], site, i)
            roles.append(role)
        found = self._run_product(func, name, args, kwargs, site, tuple(roles), "gradient")
        self._settle_backward(func, found, args, kwargs, site, "weights" not in roles)
        return found

    def _run_product(self, func, name, args, kwargs, site, roles, what):
        if self.policy.at(site.module, site.op).sums is None:
            if name.startswith("convolution"):
                with _onednn():
                    return func(*args, **kwargs)
            return func(*args, **kwargs)
        like = next(t for t in args if isinstance(t, torch.Tensor))
        unit = self._unit(like, site, what)
        if name == "convolution":
            return convolution(unit, args, roles)
        if name == "convolution_backward":
            return convolution_backward(unit, args)
        return _delivered(matrix_product(unit, name, args, kwargs, roles), kwargs)

    def _compute(self, func, name, args, kwargs, site):
        """An operation that is no product: sums over some axes run in the accumulator, all else in the carrier."""
        partial = name == "sum" and len(args) > 1 and args[1] and not kwargs.get("dtype")
        if not partial or self.policy.at(site.module, site.op).sums is None:
            return func(*args, **kwargs)
        x, axes = args[0], tuple(sorted(a % args[0].dim() for a in args[1]))
        total = self._unit(x, site, "sum").total(x, axes)
        if len(args) > 2 and args[2]:
            total = np.expand_dims(total, axes)
        return _delivered(tensor_of(total, x), kwargs)

    def _unit(self, like, site, what):
        dtype = "float64" if like.dtype == torch.float64 else "float32"
        caster = self.rounder.of(dtype, site.module, site.op, f"{site.name}:{what}.sums", site.step)
        return Unit(caster, site.module, what)

    # ---------------------------------------------------------------- what is known of results
    def _mark(self, tensor, fmt):
        # What was written to a part of a storage says nothing of the rest.
        if fmt is None or not fills_storage(tensor) and self._known[tensor] != fmt:
            self._known.forget(tensor)
        else:
            self._known[tensor] = fmt

    def _unmark(self, func, found, args, kwargs):
        for result in results_of(func, found, args, kwargs):
            self._known.forget(result)
            parameter = self.parameters.find(result)
            if parameter is not None:
                self._written(parameter)

    def _pass_on(self, func, found, args, kwargs):
        """What only selects and moves values gives values of the format that all its operands are in."""
        operands = [t for t in tensors_in(args) if t.is_floating_point()]
        formats = {self._known[t] for t in operands}
        fmt = formats.pop() if len(formats) == 1 else None
        if fmt is not None and classes.brings_numbers(func, args, kwargs, fmt):
            fmt = None
        raw = any(self._raw[t] for t in operands)
        copied = base_name(func) == "_to_copy" and bool(operands)
        for result in results_of(func, found, args, kwargs):
            if not result.is_floating_point():
                continue
            parameter = self.parameters.find(result)
            if parameter is not None:
                self._written(parameter)
            self._mark(result, fmt)
            if raw:
                self._raw[result] = True
            if copied and self._of_parameter(operands[0]):
                self._derived[result] = True

    def _of_parameter(self, tensor):
        """Whether a tensor is the rounded copy of a parameter, or such a parameter."""
        if self.parameters.find(tensor) is not None:
            return True
        place = storage_of(tensor)
        held = self.parameters.known.values()
        return any(p.copy is not None and storage_of(p.copy) == place for p in held)


def _is_emulated(args):
    """Whether a product is one of floating numbers. Integers are exact; complex products have no rule."""
    kinds = [t.dtype for t in tensors_in(args)]
    if any(dtype.is_complex for dtype in kinds):
        raise EmulationError(
            "products of complex tensors have no emulation; write them as products of real and imaginary parts"
        )
    return any(dtype.is_floating_point for dtype in kinds)


def _delivered(found, kwargs):
    """A result, in out= where that is given."""
    out = kwargs.get("out")
    if out is None:
        return found
    if out.shape != found.shape:
        out.resize_(found.shape)
    return out.copy_(found)


def _is_active():
    """Whether an emulate block runs in this thread. A process that was forked inherits blocks that are not its own."""
    held = (mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, _Mode))
    return any(mode.owner._process == os.getpid() for mode in held)


def _is_alone(node):
    """Whether each tensor that a node of a product makes goes along one edge, so that nothing else can read it."""
    return node is not None and node.name() in _PRODUCTS


def _without_ones(shape):
    return tuple(int(n) for n in shape if n != 1)


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


@contextlib.contextmanager
def _onednn():
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(True)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _overridden(policy):
    """A (module, operation) that each override alone matches, for a look at what it changes."""
    for pattern, _ in policy.overrides:
        where, _, kind = pattern.partition(":")
        yield where, kind or None


def _check_options(strict, seed, monitor, logits):
    if not isinstance(strict, bool):
        raise TypeError(f"strict must be True or False, got {strict!r}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise TypeError(f"seed must be an integer or None, got {seed!r}")
    if monitor is not None and not isinstance(monitor, Monitor):
        raise TypeError(f"monitor must be a softfloat.training.Monitor or None, got {monitor!r}")
    if logits is not None and not isinstance(logits, str):
        raise TypeError(
            f'logits must be a pattern of module paths, such as "head", or None, got {logits!r}'
        )


def _is_random(policy):
    roundings = [
        policy.grid(role).rounding
        for role in (*ROLES, "stored")
        if policy.grid(role).fmt is not None
    ]
    if policy.sums is not None:
        roundings += [str(policy.sums[1].get(r, "")) for r in ("rounding", "product_rounding")]
    return any(r.startswith("stochastic") for r in roundings)


def _is_plain(policy):
    return policy.sums is None and all(fmt is None for fmt in policy.grids.values())
