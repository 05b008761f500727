"""A language model of characters: its text, its network, its batches.

The text is that of the modules at the top of Python's own standard library, which every machine has; another version of
Python has other text. Source of the network: Vaswani et al. (2017), with norms before the sublayers (GPT-2, 2019).
"""

import functools
import hashlib
import sysconfig
from pathlib import Path

import numpy as np

from softfloat.training.attention import MultiHeadAttention
from softfloat.training.layers import GELU, Embedding, Linear, Position, Residual, Sequential
from softfloat.training.normalization import LayerNorm
from softfloat.training.words import ORDER, raw_words

SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))  # every other character is one more symbol
LIMIT = 2_000_000  # characters that are read
VALIDATION = 0.1  # share of the text, its end


def read_text(path=None):
    """The text of a file, or of the modules at the top of the standard library in the order of their names."""
    if path is not None:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")[:LIMIT]
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(
                f"cannot read {path}: {reason}; give a text file, or no --text for Python's own library"
            ) from None
    parts, size = [], 0
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        if size >= LIMIT:
            break
        parts.append(file.read_text(encoding="utf-8", errors="replace"))
        size += len(parts[-1])
    return "".join(parts)[:LIMIT]


@functools.lru_cache(maxsize=2)
def symbols_of(path=None):
    """(training, validation) texts as arrays of symbols 0..96, and a checksum of the text."""
    text = read_text(path)
    raw = np.frombuffer(text.encode("ascii", errors="replace"), np.uint8)
    table = np.full(256, len(SYMBOLS), np.uint8)
    table[[ord(c) for c in SYMBOLS]] = np.arange(len(SYMBOLS))
    held = table[raw]
    cut = len(held) - int(VALIDATION * len(held))
    return held[:cut], held[cut:], hashlib.sha256(raw.tobytes()).hexdigest()[:16]


def checked_text(path, length):
    """The checksum of a text. Raises ValueError for one that is too short for sequences of that length."""
    train, held_out, checksum = symbols_of(path)
    if len(held_out) < 2 * length:
        raise ValueError(
            f"{path}: the text has {len(train) + len(held_out)} characters; sequences of {length} need "
            f"{int(2 * length / VALIDATION) + 1} or more"
        )
    return checksum


def batch(symbols, seed, step, size, length):
    """(inputs, targets), (size, length) each: windows at places that seed and step decide."""
    words = np.asarray(raw_words(seed, ORDER, step)(size), np.uint64)
    starts = (words % np.uint64(len(symbols) - length)).astype(np.int64)
    windows = symbols[starts[:, None] + np.arange(length + 1)].astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def network(width=48, heads=4, blocks=2, length=48):
    """Embedding and position, `blocks` of attention and perceptron with norms before them, a norm and the head."""
    parts = {"embedding": Embedding(len(SYMBOLS) + 1, width), "position": Position(length, width)}
    for k in range(1, blocks + 1):
        attention = Sequential(
            norm=LayerNorm(width), attention=MultiHeadAttention(width, heads, causal=True)
        )
        perceptron = Sequential(
            norm=LayerNorm(width),
            up=Linear(width, 4 * width),
            gelu=GELU("tanh"),
            down=Linear(4 * width, width),
        )
        parts[f"attention{k}"], parts[f"perceptron{k}"] = Residual(attention), Residual(perceptron)
    return Sequential(**parts, norm=LayerNorm(width), head=Linear(width, len(SYMBOLS) + 1))
