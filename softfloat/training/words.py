"""Random words of training: initial weights, the order of examples, dropped activations; and names of streams.

Everything here is a function of its arguments alone; nothing is drawn from a state that a run would have to keep.
"""

import zlib

import numpy as np

INITIAL, ORDER, DROPOUT = range(3)  # the first index of raw_words, by use


def raw_words(seed, *index):
    """A source of 64-bit words, set by its arguments.

    Raw words, since NumPy promises that these, unlike its distributions, never change.
    """
    return np.random.Philox(np.random.SeedSequence([seed, *index])).random_raw


def uniform(words, shape):
    """Uniform float32 numbers in [-1, 1), multiples of 2**-23, from raw words."""
    size = int(np.prod(shape))
    top = (np.asarray(words(size), np.uint64) >> np.uint64(40)).astype(np.float32)
    return (top * np.float32(2.0**-23) - np.float32(1.0)).reshape(shape)


def permutation(words, n):
    """The order of n examples from raw words."""
    return np.argsort(np.asarray(words(n), np.uint64), kind="stable")


def path_of(module, what):
    """The name of a tensor: the path of its layer, empty for a network of one layer, and what it is there."""
    return f"{module}.{what}" if module and what else module or what


def stream_of(step, name):
    """The stream of random words of one tensor at one step."""
    return (int(step) << 32) | zlib.crc32(name.encode())


def kept_elements(seed, step, name, shape, rate):
    """A mask of the elements that dropout keeps, each with probability 1 - rate (a multiple of 2**-32)."""
    size = int(np.prod(shape))
    words = raw_words(seed, DROPOUT, int(step), zlib.crc32(name.encode()))((size + 1) // 2)
    halves = np.asarray(words, "<u8").view("<u4")[:size]  # low half first, on any machine
    return (halves >= round(rate * 2.0**32)).reshape(shape)
