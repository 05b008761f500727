"""Report: what ran inside emulate, by class and operation."""

import collections


class Report:
    """calls : {class: {operation: calls}}.   elements : {role: elements rounded}.   str() is a table.

    Classes are those of softfloat.torch.classes, and "lost": backward operations whose forward pass was not seen.
    """

    def __init__(self):
        self.calls = collections.defaultdict(dict)
        self.elements = {}
        self._before = 0

    def count(self, kind, name):
        held = self.calls[kind]
        held[name] = held.get(name, 0) + 1

    def begin(self):
        """A block begins."""
        self._before = self._all_products()

    def products(self):
        """Products that ran in this block."""
        return self._all_products() - self._before

    def _all_products(self):
        return sum(self.calls.get("product", {}).values())

    def saw(self, start):
        return any(name.startswith(start) for held in self.calls.values() for name in held)

    def taken(self, elements):
        """A copy of what was counted so far."""
        other = Report()
        other.calls = {kind: dict(sorted(held.items())) for kind, held in self.calls.items()}
        other.elements = dict(elements)
        return other

    def __str__(self):
        lines = []
        for kind, held in self.calls.items():
            lines.append(f"{kind}: {sum(held.values())} calls")
            lines += [f"  {name} {number}" for name, number in sorted(held.items())]
        lines += [f"{role}: {number} elements rounded" for role, number in self.elements.items()]
        return "\n".join(lines)
