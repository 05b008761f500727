"""Images to train on: scikit-learn's digits, and Fashion-MNIST from idx files. No downloads.

Sources: Alpaydin, Kaynak, Optical Recognition of Handwritten Digits (UCI, 1998); Xiao, Rasul,
Vollgraf, Fashion-MNIST (2017). The idx format: LeCun, Cortes, Burges, The MNIST database (1998).
"""

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softfloat.training._extras import need
from softfloat.training.checks import count

DATASETS = ("digits", "fashion-mnist")
# Where Debian's package dataset-fashion-mnist puts its files.
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
_UNSIGNED_BYTES = 8


@dataclass(frozen=True)
class Dataset:
    """Images (n, pixels), float32 in [0, 1], and integer labels (n,), for training and testing."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    classes: int

    def __post_init__(self):
        parts = (self.images, self.labels, self.test_images, self.test_labels)
        if not all(isinstance(part, np.ndarray) for part in parts):
            raise TypeError(
                f"{self.name}: images and labels must be NumPy arrays, got "
                f"{', '.join(type(part).__name__ for part in parts)}"
            )
        count("classes", self.classes, 1)
        for part, images, labels in (
            ("training", self.images, self.labels),
            ("test", self.test_images, self.test_labels),
        ):
            if images.ndim != 2 or len(images) != len(labels) or not len(labels):
                raise ValueError(
                    f"{self.name}: {part} images of shape {images.shape} and labels of shape "
                    f"{labels.shape} do not fit: (n, pixels) and (n,), n > 0, are needed"
                )
            if int(labels.min()) < 0 or int(labels.max()) >= self.classes:
                raise ValueError(f"{self.name}: labels must lie in 0..{self.classes - 1}")
        if self.images.shape[1] != self.test_images.shape[1]:
            raise ValueError(
                f"{self.name}: training images have {self.images.shape[1]} pixels, "
                f"test images {self.test_images.shape[1]}"
            )


def load(name="digits", data_dir=None):
    """The Dataset of that name.

    data_dir : folder of the four idx files of fashion-mnist, plain or gzipped.
    """
    if name not in DATASETS:
        raise ValueError(f"unknown data {name!r}; known: {', '.join(DATASETS)}")
    if name == "digits":
        if data_dir is not None:
            raise ValueError(
                "data_dir is for fashion-mnist; the digits come with scikit-learn. "
                "Use --data fashion-mnist"
            )
        return digits()
    return fashion_mnist(data_dir)


def digits():
    """1797 images of 8 x 8 pixels, 16 grey levels; every fifth image is for testing."""
    bunch = need("sklearn.datasets", "softfloat train", "train", "scikit-learn").load_digits()
    images = (bunch.data / 16.0).astype(np.float32)
    labels = bunch.target.astype(np.int64)
    test = np.arange(len(labels)) % 5 == 4
    return Dataset("digits", images[~test], labels[~test], images[test], labels[test], 10)


def fashion_mnist(data_dir=None):
    """60000 and 10000 images of 28 x 28 pixels, from data_dir or else from Debian's package.

    Raises FileNotFoundError that says how to get the files, ValueError for files that are broken.
    """
    folder = DEBIAN_FASHION_MNIST if data_dir is None else Path(data_dir)
    parts = []
    for prefix in ("train", "t10k"):
        images = read_idx(_find(folder, f"{prefix}-images", 3), 3)
        labels = read_idx(_find(folder, f"{prefix}-labels", 1), 1)
        flat = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
        parts += [flat, labels.astype(np.int64)]
    return Dataset("fashion-mnist", *parts, 10)


def _find(folder, stem, dimensions):
    names = [f"{stem}{dot}idx{dimensions}-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(
        f"no Fashion-MNIST in {folder}: {names[0]} (or .gz) is missing. Install it on Debian or "
        "Ubuntu with 'apt install dataset-fashion-mnist', or get the four idx files from "
        "https://github.com/zalandoresearch/fashion-mnist and give their folder with --data-dir"
    )


def read_idx(path, dimensions):
    """The uint8 array of an idx file, plain or gzipped; it must have that many dimensions."""
    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is no whole gzip file: {error}") from None
    header = 4 + 4 * dimensions
    if len(raw) < header or raw[:4] != bytes([0, 0, _UNSIGNED_BYTES, dimensions]):
        raise ValueError(f"{path} is no idx file of unsigned bytes with {dimensions} dimensions")
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(dimensions)]
    if len(raw) - header != math.prod(shape):
        raise ValueError(
            f"{path} says its shape is {tuple(shape)}, {math.prod(shape)} bytes, "
            f"but holds {len(raw) - header}"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
