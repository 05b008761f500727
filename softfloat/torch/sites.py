"""Sites: where in a model an operation stands, so that its random words do not depend on what else runs.

A forward site is (path of the module, number of the call in this step, operation, ordinal); a backward site is that of
the forward operation whose node is running; an optimizer's site is (optimizer, operation, ordinal). Calls and ordinals
are counted apart with and without gradients, and for recomputation within backward, which so meets the sites of the
first pass again.
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


class Site:
    """One forward operation.

    module, op : for the policy.   name : unique within a step.   step : of the optimizer, when it ran.
    operands : {place in memory: (Site, what)} of tensors that autograd saves unrounded, and the products rounded.
    targets : of its node's edges, see Emulation._targets.
    """

    __slots__ = ("_ordinals", "module", "name", "op", "operands", "step", "targets")

    def __init__(self, module, op, name, step):
        self.module, self.op, self.name, self.step = module, op, name, step
        self.operands = {}
        self._ordinals = None
        self.targets = None

    def count(self, name):
        """The ordinal of an operation of the backward pass among those of its name."""
        if self._ordinals is None:
            self._ordinals = {}
        number = self._ordinals.get(name, 0)
        self._ordinals[name] = number + 1
        return number


class Sites:
    """Counts calls and operations between optimizer steps, and remembers the forward site of each autograd node."""

    def __init__(self, random):
        self.random = (
            random  # whether any policy is stochastic: then what cannot be told apart raises
        )
        self.step = 0
        self.first = 0  # number of the first autograd node of `nodes`
        self.seen = {""}  # paths of modules that ran
        self.stack = []  # (module path, name of the call) of the modules that are running
        self.operands = {}  # of the sites of this step, by name
        self.calls = collections.Counter()
        self.ordinals = collections.Counter()
        self.nodes = {}
        self.hidden = {}  # as nodes, of operations that run without gradients
        self.older = collections.deque(maxlen=GENERATIONS)

    def begin(self):
        """A block begins."""
        self.nodes, self.hidden, self.first = {}, {}, sequence_number()

    def end(self):
        """A block ends: nodes that are numbered from now on are not of it."""
        if self.nodes or self.hidden:
            self.older.append((self.first, sequence_number(), {**self.hidden, **self.nodes}))
        self.nodes, self.hidden, self.first = {}, {}, math.inf

    def enter(self, path):
        """A module of this path is called."""
        mode = "again" if graph_task() != -1 else torch.is_grad_enabled()
        number = self.calls[path, mode]
        self.calls[path, mode] += 1
        if mode == "again" and self.random:
            first = self.calls[path, True] or self.calls[path, False]
            if first - number > 1:
                raise EmulationError(
                    f"module {path or 'at the top'!r} was called {first} times and is recomputed in backward "
                    "(activation checkpointing): which call this is cannot be told, so stochastic rounding could not "
                    "be repeated. Checkpoint a module that is called once between backward passes, or round to nearest"
                )
        self.seen.add(path)
        self.stack.append((path, f"{path}#{number}"))

    def leave(self):
        if self.stack:
            self.stack.pop()

    def forward(self, op, tracked):
        """The Site of a forward operation. tracked : whether an operand has a gradient."""
        path, call = self.stack[-1] if self.stack else ("", "")
        again = graph_task() != -1
        key = call, op, tracked, again
        ordinal = self.ordinals[key]
        self.ordinals[key] += 1
        site = Site(path, op, f"{call}/{op}.{ordinal}", self.step)
        if again:  # the nodes of the first pass read what this one saves
            site.operands = self.operands.get(site.name, site.operands)
        else:
            self.operands[site.name] = site.operands
        # An operation without a node of its own must not take the place of the one before. The forward pass of a
        # custom Function runs without gradients, after its node was numbered; so do the hooks of saved tensors.
        nodes = self.nodes if torch.is_grad_enabled() else self.hidden
        number = sequence_number() - 1
        if number >= self.first:
            nodes.setdefault(number, site)
        return site

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
        self.operands.clear()
        self.calls.clear()
        self.ordinals.clear()


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
