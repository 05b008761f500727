"""emulate: a block inside which torch's operations run in the formats of a policy.

A TorchDispatchMode sees every operation below autograd: forward, backward and optimizer step alike. Each has a class
(softfloat.torch.classes); what it gives is rounded to the format of its role, in place, in fresh memory.

Roles. Operands of products are rounded to `activations`, or `weights` for a parameter. Results of forward operations
are rounded to `activations` (or `logits`), those of backward operations to `errors`. A parameter's gradient is rounded
once, when it is complete, to `weight_gradients`. In an optimizer's step what is added to a parameter is rounded to
`update` and the exact sum to the format that weights are stored in; all other tensors to `optimizer`.
"""

import contextlib
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
from softfloat.torch.errors import EmulationError
from softfloat.torch.fused import fused_paths
from softfloat.torch.passes import Passes
from softfloat.torch.refusals import check_class
from softfloat.torch.sites import CustomNode, current_node, graph_task
from softfloat.torch.state import State
from softfloat.torch.tensors import storage_of
from softfloat.training.monitor import Monitor
from softfloat.training.presets import as_policy


class _Mode(TorchDispatchMode):
    def __init__(self, owner):
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and self.owner.strict and not self.owner._plain:
            for kind in types:
                check_class(kind)
        return self.owner._dispatch(func, args, kwargs or {})


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
        _check_options(strict, seed, monitor, logits)
        policy = as_policy(policy)
        self._state = State(policy, strict, seed, monitor, logits, self._hook)
        if self._state.random and seed is None:
            raise ValueError(
                'rounding="stochastic" needs seed=, so that the result can be repeated'
            )
        self.policy, self.strict, self._plain = policy, strict, self._state.plain
        self._passes = Passes(self._state)
        self._mode = _Mode(self)
        self._stack = None

    def __enter__(self):
        if self._stack is not None:
            raise EmulationError("this emulate object is active already; make another one")
        if _is_active():
            raise EmulationError(
                "emulate() is active in this thread already, and blocks inside each other would round twice; leave the "
                "first, or say in one policy what differs, with overrides="
            )
        self._process = os.getpid()
        self._state.begin()
        with contextlib.ExitStack() as stack:
            if not self._plain:
                stack.enter_context(fused_paths.opened())
            handles = [
                modules.register_module_forward_pre_hook(self._enter_module),
                modules.register_module_forward_hook(self._leave_module, always_call=True),
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]
            for handle in handles:
                stack.callback(handle.remove)
            stack.callback(self._state.parameters.close)
            for parameter in self._state.parameters.known.values():
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

    def __exit__(self, kind, error, trace):
        self._close()
        if kind is RuntimeError and "support saved tensor hooks" in str(error):
            error.add_note(
                "softfloat.torch.emulate watches saved tensors: inside it take gradients with backward() or "
                "torch.autograd.grad instead of torch.func"
            )
        if kind is None and self.strict and not self._state.report.products():
            raise EmulationError(
                "no product was emulated in this block: the model ran in another thread or process, was compiled, or "
                "did not run at all. Call the model inside the block, or pass strict=False"
            )
        if kind is None:
            self._warn_of_patterns()
        scaled = self._state.report.saw("_amp_foreach_non_finite")
        if self.policy.loss_scale is not None and not scaled:
            warnings.warn(
                f"policy {self.policy.name!r} asks for a loss scale, and no torch.amp.GradScaler ran in this block; "
                "scale the loss in the loop",
                RuntimeWarning,
                stacklevel=2,
            )

    def _warn_of_patterns(self):
        """An override, or logits=, that no module met is a slip, or a path under another outermost module."""
        given = [pattern.partition(":")[0] for pattern, _ in self.policy.overrides]
        given += [] if self._state.logits is None else [self._state.logits]
        seen = self._state.sites.seen
        missed = [p for p in given if p and not any(fnmatchcase(path, p) for path in seen)]
        if missed:
            ran = ", ".join(sorted(seen)[:8])
            warnings.warn(
                f"no module that ran in this block has a path like {', '.join(map(repr, missed))}; paths are those "
                f"under the outermost module that is called, here: {ran}",
                RuntimeWarning,
                stacklevel=3,
            )

    def _close(self):
        self._state.sites.end()
        stack, self._stack = self._stack, None
        stack.close()
        self._state.sites.stack.clear()

    def report(self):
        """A Report of what ran in this object's blocks, as of now."""
        return self._state.report.taken(self._state.rounder.elements)

    def state_dict(self):
        """What a resumed run needs: the step, the seed, the histories of scaled formats, what updates lost.

        Of numbers, strings and tensors, as `torch.load` takes them.
        """
        own = self._state
        scales = own.rounder.narrow.delayed.state_dict()
        delayed = {name: torch.from_numpy(history) for name, history in scales.items()}
        lost = {number: tensor.clone() for number, tensor in own.compensation.items()}
        place = {"step": own.sites.step, "seed": own.rounder.seed}
        return {**place, "scales": delayed, "compensation": lost}

    def load_state_dict(self, state):
        """Go on from a state. Raises ValueError if it was drawn with another seed."""
        own = self._state
        if state["seed"] != own.rounder.seed:
            raise ValueError(f"the state has seed {state['seed']}, this one {own.rounder.seed}")
        own.sites.step = int(state["step"])
        scales = {n: torch.as_tensor(h).numpy() for n, h in state["scales"].items()}
        own.rounder.narrow.delayed.load_state_dict(scales)
        own.compensation = {n: t.clone() for n, t in state.get("compensation", {}).items()}

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
        if type(module).__name__ == "OptimizedModule" and not self._plain and self.strict:
            raise EmulationError(
                "a compiled module hides its operations; call the module that torch.compile was given"
            )
        parameters, sites = self._state.parameters, self._state.sites
        if not sites.stack:
            parameters.root(module)
        path = parameters.path(module)
        if path is None:  # made during the call
            path = f"?{type(module).__name__}"
        sites.enter(path)

    def _leave_module(self, module, inputs, output):
        if self._is_here():
            self._state.sites.leave()

    def _before_step(self, optimizer, args, kwargs):
        if self._is_here():
            self._state.begin_step(optimizer)

    def _after_step(self, optimizer, args, kwargs):
        if self._is_here():
            self._state.end_step(optimizer)

    def _hook(self, parameter):
        tensor = parameter.tensor
        if not tensor.requires_grad or not tensor.is_leaf or tensor.is_inference():
            return
        parameter.handles.append(
            tensor.register_hook(lambda gradient: self._take_gradient(parameter, gradient))
        )
        parameter.handles.append(
            tensor.register_post_accumulate_grad_hook(
                lambda held: self._state.gradients.__setitem__(storage_of(held.grad), parameter)
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
        with torch._C._DisableTorchDispatch():
            return self._state.rounded_gradient(parameter, gradient)

    def _pack(self, tensor):
        with torch._C._DisableTorchDispatch():
            return tensor.detach(), tensor._version

    def _unpack(self, packed):
        tensor, version = packed
        if self.strict and not self._plain and self._mode not in _get_current_dispatch_mode_stack():
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
        state = self._state
        kind, name = classes.kind_and_name(func)
        state.report.count(kind, name)
        if kind == classes.COMPOSED:
            with self._mode:
                return func.decompose(*args, **kwargs)
        if kind == classes.QUERY or state.plain and state.monitor is None:
            return func(*args, **kwargs)
        tracking = torch.is_grad_enabled()
        if graph_task() != -1 and not self._is_recomputation(tracking):
            if kind == classes.VIEW:
                return func(*args, **kwargs)
            return self._passes.backward(func, name, kind, args, kwargs)
        stepping = state.optimizing is not None and not state.sites.stack
        if stepping and not tracking:  # else a closure calls the model
            return updates.run(state, func, name, kind, args, kwargs)
        return self._passes.forward(func, name, kind, args, kwargs)

    def _is_recomputation(self, tracking):
        """Whether what runs within backward is a forward pass that runs again, as under activation checkpointing."""
        return not self._differentiated() if tracking else self._state.sites.recomputes()

    def _differentiated(self):
        """Whether a backward pass builds a graph of its own, and does not recompute a forward pass."""
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
        if hooks is None or hooks[0] != self._pack or isinstance(current_node(), CustomNode):
            return False
        if self.strict and not self._plain:
            raise EmulationError(
                "a backward pass that is to be differentiated itself (create_graph=True, double backward) has no "
                "emulation; leave create_graph out, or run that part outside the block"
            )
        return True


def _is_active():
    """Whether an emulate block runs in this thread. A process that was forked inherits blocks that are not its own."""
    held = (mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, _Mode))
    return any(mode.owner._process == os.getpid() for mode in held)


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
