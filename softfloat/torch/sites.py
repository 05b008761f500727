"""Sites: where in a model an operation stands, so that its random words do not depend on what else runs.

A forward site is (path of the module, number of the call in this step, operation, ordinal); a backward site is that of
the forward operation whose node is running; an optimizer's site is (optimizer, operation, ordinal). Calls and ordinals
are counted apart with and without gradients, and for recomputation within backward, which so meets the sites of the
first pass again: those of modules by their paths, those of a checkpointed function by the Region it spans.
"""

import collections
import math

import torch

from softfloat.torch.errors import EmulationError

_UNNUMBERED = 1 << 63  # nodes that gather gradients have a number above
GENERATIONS = 16  # optimizer steps for which the graph of a forward pass is remembered

sequence_number = torch._C._autograd._get_sequence_nr
current_node = torch._C._current_autograd_node
graph_task = torch._C._current_graph_task_id
CHECKPOINT = "torch.utils.checkpoint"
CustomNode = torch.autograd.function.BackwardCFunction


class Site:
    """One forward operation.

    module, op : for the policy.   name : unique within a step.   step : of the optimizer, when it ran.
    operands : {place in memory: (Site, what)} of tensors that autograd saves unrounded, and the products rounded.
    targets : of its node's edges, see `targets_of`.   region : the Region it is in, or None.   whole : see Call.
    """

    __slots__ = (
        "_ordinals",
        "module",
        "name",
        "op",
        "operands",
        "region",
        "step",
        "targets",
        "whole",
    )

    def __init__(self, module, op, name, step):
        self.module, self.op, self.name, self.step = module, op, name, step
        self.operands = {}
        self._ordinals = None
        self.targets = self.region = None
        self.whole = False

    def count(self, name):
        """The ordinal of an operation of the backward pass among those of its name."""
        if self._ordinals is None:
            self._ordinals = {}
        number = self._ordinals.get(name, 0)
        self._ordinals[name] = number + 1
        return number


class Call:
    """A module that is running, or what runs outside any.   path : of the module.   name : of the call.

    task : the backward pass that called it, -1: none.   known : the operations that it may run, None: any.
    whole : whether the pass runs without gradients, or is the recomputation of one that did: then all operations are
        counted together, else those that have a gradient apart from those that have none.
    """

    __slots__ = ("counts", "known", "name", "path", "task", "whole")

    def __init__(self, path, name, whole, known=None):
        self.path, self.name, self.whole, self.task = path, name, whole, graph_task()
        self.counts, self.known = collections.Counter(known or {}), known

    def count(self, op, together):
        """((operation, whether it is counted aside), its ordinal)."""
        key = op, not (together or self.whole)
        number = self.counts[key]
        self.counts[key] = number + 1
        return key, number


class Region:
    """What one activation checkpoint spans, so that its recomputation meets the sites of the first pass again.

    calls : those that were running around all of it.   whole : see Call.   nested : whether another one spans it.
    starts : {(name of a call, key): ordinal of the first}.
    """

    def __init__(self, stack, whole, nested=False):
        self.calls, self.whole, self.nested = list(stack), whole, nested
        self.starts = {}
        self._again = None, None

    def meet(self, stack, call, key, number):
        """An operation of the first pass."""
        while self.calls and (
            len(self.calls) > len(stack) or self.calls[-1] is not stack[len(self.calls) - 1]
        ):
            self.calls.pop()
        self.start(call, key, number)

    def start(self, call, key, number):
        self.starts.setdefault((call.name, key), number)

    def again(self, top):
        """The Call of what its recomputation runs outside the modules that it calls.   top : the one of no module."""
        task, call = self._again
        if task != graph_task():
            first = self.calls[-1] if self.calls else top
            starts = {key: n for (name, key), n in self.starts.items() if name == first.name}
            call = Call(first.path, first.name, self.whole or first.whole, starts)
            self._again = graph_task(), call
        return call


class Sites:
    """Counts calls and operations between optimizer steps, and remembers the forward site of each autograd node."""

    def __init__(self, random):
        # Whether any policy is stochastic: then what cannot be told apart raises.
        self.random = random
        self.step = 0
        self.first = 0  # number of the first autograd node of `nodes`
        self.last = 0  # number of the last node that an operation met with gradients on
        self.seen = {""}  # paths of modules that ran
        self.stack = []  # a Call for each module that is running
        self.operands = {}  # {(name, whole): operands} of the sites of this step
        self.calls = collections.Counter()
        self.ordinals = collections.Counter()
        self.nodes = {}
        self.hidden = {}  # as nodes, of operations that run without gradients
        self.regions = {}  # {hook of a checkpoint: Region}
        self.stretch = {}  # {number of the node of a custom Function: Region}, since the last node
        self.older = collections.deque(maxlen=GENERATIONS)
        self._clear_tops()

    def _clear_tops(self):
        self.tops = {whole: Call("", "", whole) for whole in (True, False)}
        self.lost = Call(
            "", "", False
        )  # what runs in backward, and recomputes nothing that was met

    def begin(self):
        """A block begins."""
        self.nodes, self.hidden, self.first = {}, {}, sequence_number()
        self.last = self.first - 1

    def end(self):
        """A block ends: nodes that are numbered from now on are not of it."""
        if self.nodes or self.hidden:
            self.older.append((self.first, sequence_number(), {**self.hidden, **self.nodes}))
        self.nodes, self.hidden, self.first = {}, {}, math.inf

    def enter(self, path):
        """A module of this path is called."""
        again = graph_task() != -1
        whole = isinstance(current_node(), CustomNode) if again else not torch.is_grad_enabled()
        mode = "again" if again else not whole
        number = self.calls[path, mode]
        self.calls[path, mode] += 1
        if again and self.random:
            first = self.calls[path, not whole]
            if first - number > 1:
                raise EmulationError(
                    f"module {path or 'at the top'!r} was called {first} times and is recomputed in backward "
                    "(activation checkpointing): which call this is cannot be told, so stochastic rounding could not "
                    "be repeated. Checkpoint a module that is called once between backward passes, or round to nearest"
                )
        self.seen.add(path)
        self.stack.append(Call(path, f"{path}#{number}", whole))

    def leave(self):
        if self.stack:
            self.stack.pop()

    def forward(self, op, tracked, rounded=True):
        """The Site of a forward operation.   tracked : whether an operand has a gradient.   rounded : its results."""
        again, enabled = graph_task() != -1, torch.is_grad_enabled()
        if self.stack:
            call = self.stack[-1]
        else:
            call = self._recomputed() if again else self.tops[not enabled]
        number = sequence_number() - 1
        custom = not enabled and number > self.last  # in the forward pass of a custom Function
        key, ordinal = call.count(op, tracked or custom)
        if rounded and self.random and call.known is not None and key not in call.known:
            raise EmulationError(
                f"{op} runs in the recomputation of an activation checkpoint, and was not met in its first pass: its "
                "random words could not be repeated. Do not nest checkpoints of functions, checkpoint modules, or "
                "round to nearest"
            )
        mark = "~" if key[1] else "."
        site = Site(call.path, op, f"{call.name}/{op}{mark}{ordinal}", self.step)
        site.whole = call.whole or custom
        if again:  # the nodes of the first pass read what this one saves
            site.operands = self.operands.get((site.name, site.whole), site.operands)
        else:
            self._meet(site, number if custom else None, (call, key, ordinal))
        # An operation without a node of its own must not take the place of the one before. The forward pass of a
        # custom Function runs without gradients, after its node was numbered; so do the hooks of saved tensors.
        if number >= self.first:
            (self.nodes if enabled else self.hidden).setdefault(number, site)
        if enabled:
            self.last = number
            self.stretch.clear()
        return site

    def keep_operands(self, site):
        """Remember what a product of a first pass rounded, for its recomputation; evaluation has none."""
        if torch.is_grad_enabled() or self.stretch:
            self.operands[site.name, site.whole] = site.operands

    def _meet(self, site, custom, counted):
        """The Region that an operation of a first pass is in.   custom : number of the node of a custom Function."""
        # Reentrant checkpointing is a custom Function. Another one inside it is numbered later, so that what the outer
        # one runs after it is met in both; so is, to no harm, what comes after the outer one.
        if custom is not None:
            if custom not in self.stretch:
                self.stretch[custom] = Region(self.stack, True)
            for region in self.stretch.values():
                region.start(*counted)
            site.region = self.stretch[custom]
            site.region.meet(self.stack, *counted)
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
        if hooks is not None and getattr(hooks[0], "__module__", "") == CHECKPOINT:
            if hooks[0] not in self.regions:
                self.regions[hooks[0]] = Region(self.stack, False, _is_nested(hooks))
            site.region = self.regions[hooks[0]]
            site.region.meet(self.stack, *counted)

    def recomputes(self):
        """Whether what runs in backward without gradients is part of a forward pass that runs again."""
        if self.stack and self.stack[-1].task == graph_task():
            return True
        node = current_node()
        if isinstance(node, CustomNode) and node.name() == "CheckpointFunctionBackward":
            return True
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
        name = "" if hooks is None else getattr(hooks[0], "__qualname__", "")
        return name.startswith("_recomputation_hook")

    def _recomputed(self):
        """The Call of an operation that runs in backward, with gradients, outside any module."""
        node = current_node()
        number = -1 if node is None else node._sequence_nr()
        if isinstance(node, CustomNode) and number >= self.first and number not in self.hidden:
            later = [n for n in self.hidden if n > number]  # it ran another one first
            if later:
                self.hidden[number] = self.hidden[min(later)]
        custom = isinstance(node, CustomNode) and number in self.hidden
        first = self.hidden[number] if custom else None if node is None else self.of_node(node)
        if first is None or first.region is None:
            return self.lost
        if self.random and first.region.nested:
            raise EmulationError(
                "a function is checkpointed inside a checkpointed function: what of them is recomputed cannot be told, "
                "so stochastic rounding could not be repeated. Checkpoint modules, do not nest, or round to nearest"
            )
        return first.region.again(self.tops[first.region.whole])

    def backward(self, where):
        """A Site for what runs in a backward pass and belongs to no forward operation."""
        key = "backward", where
        number = self.ordinals[key]
        self.ordinals[key] += 1
        return Site("", where, f"backward/{where}.{number}", self.step)

    def of_node(self, node):
        """The forward site of an autograd node, or None."""
        number = node._sequence_nr()
        if number in self.nodes:
            return self.nodes[number]
        if number in self.hidden:
            return self.hidden[number]
        now = self.first, _UNNUMBERED, self.nodes
        for first, end, nodes in (now, *reversed(self.older)):
            if first <= number < end:
                if number not in nodes:
                    nodes[number] = _nearest(nodes, number, node.name())
                return nodes[number]
        return None

    def next_step(self):
        self.step += 1
        self.end()
        self.begin()
        for held in (self.operands, self.calls, self.ordinals, self.regions):
            held.clear()
        self.stretch.clear()
        self._clear_tops()


def _is_nested(hooks):
    """Whether the hooks below the top ones, which are given, are of a checkpoint too."""
    torch._C._autograd._pop_saved_tensors_default_hooks()
    below = torch._C._autograd._top_saved_tensors_default_hooks(False)
    torch._C._autograd._push_saved_tensors_default_hooks(*hooks)
    return below is not None and getattr(below[0], "__module__", "") == CHECKPOINT


def _nearest(nodes, number, name):
    """The site of a node that no operation met under its own number.

    In-place operations are numbered before they copy what they overwrite, and meet a later number. Writes to a part of
    a tensor (CopySlices), and custom Functions whose forward pass runs no operation, come after what they belong to.
    """
    later = [n for n in nodes if n > number]
    if later and name.endswith("Backward0"):
        return nodes[min(later)]
    earlier = [n for n in nodes if n < number]
    return nodes[max(earlier)] if earlier else None
