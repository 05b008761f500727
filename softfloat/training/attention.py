"""Multi-head attention, its products rounded as those of every layer.

Source: Vaswani et al., Attention Is All You Need (2017).
"""

import numpy as np

from softfloat.training.layers import Linear, Module, check_sizes


class MultiHeadAttention(Module):
    """Self-attention: x (n, t, width) to (n, t, width). Layers query, key, value and output, each Linear.

    heads : divides width.   causal : whether a place sees only itself and those before it.
    Rounded as activations: the scaled scores, the softmax and the mixed values.
    """

    op = "attention"

    def __init__(self, width, heads, causal=False):
        width, heads = check_sizes("MultiHeadAttention", width, heads)
        if width % heads:
            raise ValueError(f"heads must divide the width, got width {width}, heads {heads}")
        self.heads = heads
        self.causal = causal
        self.layers = {name: Linear(width, width) for name in ("query", "key", "value", "output")}

    def children(self):
        return self.layers

    def mark_output(self):
        self.role = "logits"
        self.layers["output"].mark_output()

    def _split(self, x):
        n, t, width = x.shape
        return x.reshape(n, t, self.heads, width // self.heads).transpose(0, 2, 1, 3)

    def _joined(self, x):
        n, heads, t, size = x.shape
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(n, t, heads * size)

    def forward(self, x, cast):
        if x.ndim != 3:
            raise ValueError(f"MultiHeadAttention takes (n, t, width), got shape {x.shape}")
        both = ("activations", "activations")
        self.q, self.k, self.v = (
            self._split(self.layers[name].forward(x, cast)) for name in ("query", "key", "value")
        )
        self.scale = x.dtype.type(1 / np.sqrt(self.q.shape[-1]))
        scores = cast.product(self.q, self.k.swapaxes(-1, -2), self.name, "scores", both)
        scores = cast(scores * self.scale, "activations", self.name, "scores", own=True)
        if self.causal:
            t = x.shape[1]
            scores = np.where(np.tri(t, dtype=bool), scores, scores.dtype.type(-np.inf))
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        e /= e.sum(axis=-1, keepdims=True)
        self.weights = cast(e, "activations", self.name, "softmax", own=True)
        mixed = cast.product(self.weights, self.v, self.name, "mixed", both)
        mixed = cast(mixed, "activations", self.name, "mixed", own=True)
        return self.layers["output"].forward(self._joined(mixed), cast)

    def backward(self, error, cast, wanted=True):
        error = self._split(self.layers["output"].backward(error, cast))
        put = lambda x, what: cast(x, "errors", self.name, what, own=True)  # noqa: E731
        left, right = ("errors", "activations"), ("activations", "errors")
        dp = cast.product(error, self.v.swapaxes(-1, -2), self.name, "softmax.error", left)
        dp = put(dp, "softmax.error")
        dv = cast.product(self.weights.swapaxes(-1, -2), error, self.name, "value.error", right)
        p = self.weights
        ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * self.scale
        ds = put(ds, "scores.error")
        dq = cast.product(ds, self.k, self.name, "query.error", left)
        dk = cast.product(ds.swapaxes(-1, -2), self.q, self.name, "key.error", left)
        found = {"query": dq, "key": dk, "value": dv}
        below = [
            self.layers[name].backward(self._joined(put(d, f"{name}.error")), cast, wanted)
            for name, d in found.items()
        ]
        if not wanted:
            return None
        return put(below[0] + below[1] + below[2], "error")
