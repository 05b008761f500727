"""Small networks and batches that the tests of training share."""

import numpy as np

from softfloat import training
from softfloat.training.policy import ROLES

WIDE = training.Policy("wide", **dict.fromkeys(ROLES, "binary64"))


def images_batch(seed, n=6, channels=2, side=9, classes=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, channels, side, side)), rng.integers(0, classes, n)


def tokens_batch(seed, n=3, length=5, entries=7):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, entries, (n, length + 1))
    return tokens[:, :-1], tokens[:, 1:]


def vectors_batch(seed, n=8, width=6, outputs=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, width)), rng.standard_normal((n, outputs))


def convolutional():
    return training.Sequential(
        conv=training.Conv2d(2, 4, 3, padding=1, stride=2),
        norm=training.BatchNorm(4),
        relu=training.ReLU(),
        grouped=training.Conv2d(4, 4, (3, 2), groups=2, bias=False),
        largest=training.MaxPool2d(2, 1),
        mean=training.AvgPool2d(2, 1),
        flat=training.Flatten(),
        head=training.Linear(8, 3),
    )


def transformer(dropout=0.0, width=8, entries=7, places=5):
    block = training.Sequential(
        norm=training.LayerNorm(width),
        attention=training.MultiHeadAttention(width, 2, causal=True),
    )
    feed = training.Sequential(
        norm=training.LayerNorm(width),
        up=training.Linear(width, 3 * width),
        gelu=training.GELU(),
        drop=training.Dropout(dropout),
        down=training.Linear(3 * width, width),
    )
    return training.Sequential(
        embedding=training.Embedding(entries, width),
        position=training.Position(places, width),
        block=training.Residual(block),
        feed=training.Residual(feed),
        head=training.Linear(width, entries),
    )


def regression():
    return training.Sequential(
        first=training.Linear(6, 10),
        norm=training.BatchNorm(10),
        gelu=training.GELU("tanh"),
        last=training.Linear(10, 3, bias=False),
    )


NETWORKS = {
    "convolutional": (convolutional, images_batch, training.softmax_cross_entropy),
    "transformer": (transformer, tokens_batch, training.softmax_cross_entropy),
    "regression": (regression, vectors_batch, training.mean_squared_error),
}


def make(name, policy=WIDE, seed=11, **options):
    """(Trainer, function from a seed to a batch) of one of NETWORKS."""
    network, batch, loss = NETWORKS[name]
    trainer = training.Trainer(policy, network(), loss=loss, seed=seed, **options)

    def drawn(seed):
        inputs, targets = batch(seed)
        if inputs.dtype.kind == "f":
            inputs = inputs.astype(trainer.policy.dtype)
        return inputs, targets

    return trainer, drawn
