"""Where the gradients that a node of autograd makes go: to parameters, which take them raw, or on down the network."""

import math

_PASSING = frozenset(
    ("TBackward0", "TransposeBackward0", "ViewBackward0", "UnsafeViewBackward0", "PermuteBackward0",
     "ReshapeAliasBackward0", "UnsqueezeBackward0", "SqueezeBackward0", "SqueezeBackward1", "ToCopyBackward0",
     "SelectBackward0", "SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0")
)  # fmt: skip
_PRODUCTS = frozenset(
    ("AddmmBackward0", "MmBackward0", "BmmBackward0", "BaddbmmBackward0", "ConvolutionBackward0")
)


def targets_of(forward, node, parameters):
    """What each edge of a node leads to: (parameter or None, shape without ones)."""
    if node is None:
        return ()
    if forward.targets is None:
        forward.targets = tuple(_target(*edge, parameters) for edge in node.next_functions)
    return forward.targets


def _target(node, number, parameters):
    if node is None:
        return None, (-1,)
    metadata = getattr(node, "_input_metadata", ())
    shape = _without_ones(metadata[number].shape) if number < len(metadata) else ()
    for _ in range(8):
        if hasattr(node, "variable"):
            return parameters.find(node.variable), shape
        if node.name() not in _PASSING or node.next_functions[0][0] is None:
            break
        node = node.next_functions[0][0]
    return None, shape


def is_for_parameter(targets, i, result, count, of_product):
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


def is_alone(node):
    """Whether each tensor that a node of a product makes goes along one edge, so that nothing else can read it."""
    return node is not None and node.name() in _PRODUCTS


def _without_ones(shape):
    return tuple(int(n) for n in shape if n != 1)
