"""The order in which an unknown function adds: its summation tree, found from its results alone.

All terms but two are a small unit; one is a huge +M, one -M. Units that are added while M is in the sum are lost, the
others are counted in the result: the number lost, plus two, is the size of the smallest subtree that holds both. Those
sizes for all pairs determine the tree, and most of them follow from a few.

Source: Xie, Gao, Wang, Xue, FPRev: revealing the floating-point summation order (2025), algorithms 2 and 4.
"""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from softfloat import engines, products, reductions
from softfloat.analysis.result import Line, Panel, Published, Study
from softfloat.analysis.statistics import as_floating, checked_count
from softfloat.formats import as_format, binary32, binary64

CHECKS = 64  # random pairs on which a tree is tried


@dataclass(frozen=True)
class _Probe:
    """The function under test with its units and masks; sizes are remembered and counted."""

    function: object
    n: int
    dtype: np.dtype
    unit: float
    mask: float
    known: dict

    def size(self, i, j):
        """The number of leaves of the smallest subtree that holds the terms i and j."""
        key = min(i, j), max(i, j)
        if key not in self.known:
            x = np.full(self.n, self.unit, self.dtype)
            x[key[0]], x[key[1]] = self.mask, -self.mask
            result = float(self.function(x))
            count = result / self.unit
            if not (math.isfinite(count) and count == int(count) and 0 <= count <= self.n - 2):
                raise ValueError(
                    f"with +M in term {key[0]}, -M in term {key[1]} and {self.unit:g} elsewhere the function gave "
                    f"{result!r}, not a whole number of units from 0 to {self.n - 2}: it is no sum of its terms, or "
                    "its format is narrower than fmt= says"
                )
            self.known[key] = self.n - int(count)
        return self.known[key]


def reveal_order(f, n, *, fmt="binary64", dtype=None, unit=None, mask=None, seed=0):
    """The summation tree of f, a function of an array of n numbers that returns their sum in some fixed order.

    f : called with arrays of `dtype`; an inner product is lambda x: np.dot(x, ones).
    fmt : the format of its additions, which must swallow n units beside 2**emax and count n of them.
    dtype : of the array, by default the format's carrier.   unit, mask : the small terms and the huge one, by default
        chosen for fmt; say both where inputs and accumulator differ, as in a matrix engine.
    seed : of the pairs on which the tree is tried.
    Facts: order (sequential, reversed, pairwise, exact, one fused addition, or other), calls, consistent (whether the
    tree predicts further pairs) and depth. A compensated sum shows the order of its main additions. Extra: tree,
    nested tuples of term numbers: a node of more than two children is one fused addition.

    >>> import numpy as np
    >>> from softfloat.analysis import reveal_order
    >>> reveal_order(lambda x: np.add.accumulate(x)[-1], 4).tree
    (((0, 1), 2), 3)
    """
    n, fmt = checked_count("n", n, 2), as_format(fmt)
    if (unit is None) != (mask is None):
        raise ValueError("give unit= and mask= together, or neither")
    if unit is None:
        unit, mask = _units(n, fmt)
    dtype = fmt.carrier if dtype is None else np.dtype(dtype)
    if float(dtype.type(mask)) != mask or float(dtype.type(unit)) != unit:
        raise ValueError(
            f"{dtype} does not hold the mask {mask!r} or the unit {unit!r}; give another dtype="
        )
    probe = _Probe(f, n, dtype, unit, mask, {})
    if n > 2 and probe.size(0, 1) == probe.size(0, n - 1) == probe.size(1, n - 1) == 2:
        tree, order = tuple(range(n)), "exact"  # M and -M cancel without loss wherever they stand
    else:
        tree, _ = _build(probe, list(range(n)))
        order = _name(tree, n)
    calls = len(probe.known)
    consistent = _consistent(probe, tree, n, order, seed)
    return _study(tree, order, n, fmt, calls, consistent, seed)


def _units(n, fmt):
    """(unit, mask): powers of two in the format; n units beside the mask are less than half its ulp."""
    if n > 2**fmt.precision:
        raise ValueError(
            f"{fmt.label} counts to {2**fmt.precision} only, got n={n}; use fewer terms or a wider fmt="
        )
    mask = 2.0**fmt.emax
    exponent = min(0, fmt.emax - fmt.precision - 1 - n.bit_length())
    if exponent < fmt.emin:
        raise ValueError(
            f"the range of {fmt.label} is too narrow for {n} units beside 2**{fmt.emax}; use fewer terms"
        )
    return 2.0**exponent, mask


def _build(probe, leaves):
    """(tree, size of its root as the function shows it) over some leaves."""
    first, *rest = leaves
    if not rest:
        return first, 1
    groups = {}
    for j in rest:
        groups.setdefault(probe.size(first, j), []).append(j)
    tree = first
    for size in sorted(groups):
        other, other_size = _build(probe, groups[size])
        # A sibling whose own root is as large as the whole is not one subtree but several: one fused node.
        several = isinstance(other, tuple) and other_size == size
        tree = (tree, *other) if several else (tree, other)
    return tree, max(groups)


def _leaves(tree):
    stack, found = [tree], []
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(reversed(node))
        else:
            found.append(node)
    return found


def _consistent(probe, tree, n, order, seed):
    rng = np.random.default_rng(seed)
    for _ in range(CHECKS):
        i, j = rng.choice(n, 2, replace=False).tolist()
        want = 2 if order == "exact" else _predicted(tree, i, j)
        try:
            if probe.size(i, j) != want:
                return False
        except ValueError:
            return False
    return True


def _predicted(tree, i, j):
    """Leaves of the smallest subtree that holds both."""
    node = tree
    while True:
        inside = next((c for c in node if isinstance(c, tuple) and {i, j} <= set(_leaves(c))), None)
        if inside is None:
            return len(_leaves(node))
        node = inside


def _sequential(order):
    tree = order[0]
    for i in order[1:]:
        tree = (tree, i)
    return tree


def _pairwise(first, stop):
    if stop - first == 1:
        return first
    middle = first + (1 << (stop - first - 1).bit_length() - 1)
    return _pairwise(first, middle), _pairwise(middle, stop)


def _normal_form(tree):
    """The same tree, children in the order of their smallest leaves: addition commutes."""
    if not isinstance(tree, tuple):
        return tree
    return tuple(sorted(map(_normal_form, tree), key=lambda c: min(_leaves(c))))


def _name(tree, n):
    """The name of a known order, or "other"."""
    shapes = {
        "sequential": _sequential(range(n)),
        "reversed": _sequential(range(n - 1, -1, -1)),
        "pairwise": _pairwise(0, n),
        "one fused addition": tuple(range(n)),
    }
    own = _normal_form(tree)
    return next((name for name, shape in shapes.items() if _normal_form(shape) == own), "other")


def _verdict(order):
    return {"other": "an order of its own", "exact": "exact, in no order"}.get(order, order)


def _depth(tree):
    return 1 + max(map(_depth, tree)) if isinstance(tree, tuple) else 0


def _study(tree, order, n, fmt, calls, consistent, seed):
    verdict = _verdict(order)
    if not consistent:
        verdict = "no tree of additions explains it"
    nodes = _nodes(tree)
    panel = Panel(
        "terms, in the order of the tree", "depth of additions", (Line("", n, tree),), kind="tree"
    )
    return Study(
        name="reveal_order",
        title=f"Summation order of {n} terms: {verdict}",
        caption=(
            f"{n} terms, additions taken as {fmt.label}; {calls} calls with +M and -M among units, "
            f"the tree then tried on {CHECKS} random pairs (seed {seed})."
        ),
        settings={"n": n, "format": fmt.label, "seed": seed},
        facts={"order": order, "calls": calls, "consistent": consistent, "depth": _depth(tree)},
        arrays={
            "node": list(range(len(nodes))),
            "children": [len(node) for node in nodes],
            "terms": [" ".join(map(str, _leaves(node))) for node in nodes],
        },
        extra={"tree": tree},
        panels=(panel,),
    )


def _nodes(tree):
    """All additions of a tree, children before parents."""
    if not isinstance(tree, tuple):
        return []
    return [node for child in tree for node in _nodes(child)] + [tree]


def _functions(fmt):
    """The functions whose orders `reveal_orders` shows; all add in fmt. NumPy's own know two formats only."""
    ones = lambda x: np.ones(x.size, x.dtype)  # noqa: E731
    others = {
        "numpy.sum": np.sum,
        "numpy.dot": lambda x: np.dot(x, ones(x)),
        "math.fsum": lambda x: math.fsum(x.tolist()),
    }
    return (others if fmt in (binary32, binary64) else {}) | {
        "softfloat.sum": lambda x: reductions.sum(x, fmt),
        "softfloat.sum, pairwise": lambda x: reductions.sum(x, fmt, order="pairwise"),
        "softfloat.dot": lambda x: products.dot(x, ones(x), fmt),
    }


def reveal_orders(fmt="binary32", n=32, *, seed=0):
    """The summation trees of numpy.sum, numpy.dot, math.fsum, of this package and of tensor cores.

    fmt : of the sums; NumPy's are shown in binary32 and binary64 only.
    Table: function, order, depth, calls, consistent. Extra: trees.
    """
    fmt = as_floating(fmt)
    functions = _functions(fmt)
    found = {name: reveal_order(f, n, fmt=fmt, seed=seed) for name, f in functions.items()}
    found |= {
        name: reveal_order(f, n, **probe, seed=seed) for name, (f, probe, _) in _machines().items()
    }
    facts = [study.facts for study in found.values()]
    return Study(
        name="reveal_order",
        title=f"In which order {n} terms are added",
        caption=(
            f"{n} terms in {fmt.label}, on this machine, with NumPy {np.__version__}; each tree found by +M and -M "
            f"among units and tried on {CHECKS} random pairs (seed {seed}). Engines: binary16 inner products of "
            "softfloat.engines."
        ),
        settings={"format": fmt.label, "n": n, "numpy": np.__version__, "seed": seed},
        arrays={"function": list(found)}
        | {key: [f[key] for f in facts] for key in ("order", "depth", "calls", "consistent")},
        extra={"trees": {name: study.tree for name, study in found.items()}},
        panels=tuple(
            dataclasses.replace(study.panels[0], title=f"{name}: {_verdict(study.order)}")
            for name, study in found.items()
        ),
        published=tuple(
            Published(f"terms in one addition, {name}", published, "Xie et al., FPRev (2025)",
                      f"{_widest(found[name].tree) - 1} products + the sum before")
            for name, (_, _, published) in _machines().items()
        ),
    )  # fmt: skip


def _machines():
    """{name: (inner product with ones, probe for `reveal_order`, what FPRev found)} of tensor cores."""
    probe = {"fmt": "binary32", "dtype": np.float32, "unit": 2.0**-24, "mask": 2.0**15}

    def adds(engine):
        return lambda x: products.matmul(x, np.ones(x.size, np.float32), binary32, engine=engine)

    presets = engines.presets()
    found = {"V100": "4 + 1", "A100": "8 + 1", "H100": "16 + 1"}
    return {
        name: (adds(presets[f"{name.lower()}_fp16"]), probe, seen) for name, seen in found.items()
    }


def _widest(tree):
    """The largest number of children of a node, where one of them is a sum itself."""
    if not isinstance(tree, tuple):
        return 0
    return max(len(tree), *map(_widest, tree))
