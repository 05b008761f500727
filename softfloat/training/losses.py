"""Losses and their gradients, in the carrier: rounded only where they enter the network."""

import numpy as np

from softfloat.training.checks import batch_of


def softmax_cross_entropy(logits, labels):
    """(mean loss, its gradient with respect to the logits), in the logits' dtype.

    logits : (..., c).   labels : (...) integers. The largest logit is taken off first, so that exp cannot overflow.
    """
    shape = logits.shape
    logits, labels = logits.reshape(-1, shape[-1]), batch_of("labels", labels, "iub").reshape(-1)
    if len(logits) != len(labels):
        raise ValueError(f"logits of shape {shape} do not go with {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= shape[-1]:
        raise ValueError(
            f"labels must be in 0..{shape[-1] - 1}, one for each logit, got {labels.min()}..{labels.max()}"
        )
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(sums[:, 0]) - shifted[rows, labels], dtype=np.float64))
    gradient = exponentials / sums
    gradient[rows, labels] -= 1
    return loss, (gradient / gradient.dtype.type(len(labels))).reshape(shape)


def mean_squared_error(outputs, targets):
    """(mean of the squared differences, its gradient with respect to the outputs). outputs, targets : of one shape."""
    targets = batch_of("targets", targets, "fiub").astype(outputs.dtype)
    if targets.shape != outputs.shape:
        raise ValueError(f"targets of shape {targets.shape}, outputs of shape {outputs.shape}")
    difference = outputs - targets
    loss = float(np.mean(np.square(difference), dtype=np.float64))
    return loss, difference * difference.dtype.type(2 / max(difference.size, 1))
