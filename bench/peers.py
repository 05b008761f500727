"""The same work by other packages in the same process, where they are installed; equal results are required."""

import importlib

import numpy as np

import softfloat as sf
from bench.quantize import normal
from bench.timing import Row, check_equal, compare


def _ml_dtypes(module, x):
    return lambda: x.astype(module.bfloat16).astype(np.float32)


def _gfloat(module, x):
    formats = importlib.import_module("gfloat.formats")
    return lambda: module.round_ndarray(formats.format_info_bfloat16, x)


PEERS = {"ml_dtypes": (_ml_dtypes, 1_000_000), "gfloat": (_gfloat, 1_000_000)}


def rows():
    """Rounding to bfloat16: how many times the speed of each peer."""
    sf.set_num_threads(1)
    for name, (prepare, n) in PEERS.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        x = normal(n)
        theirs = prepare(module, x)
        out = np.empty_like(x)
        ours = lambda: sf.quantize(x, sf.bfloat16, out=out)  # noqa: B023, E731
        check_equal(ours(), np.asarray(theirs(), np.float32), name)
        yield Row(
            f"bfloat16 1e6, {name}", f"{name} (times its speed)", *compare(theirs, ours, n), 1
        )
    x = normal(1_000_000)
    out = np.empty_like(x)
    ours = lambda: sf.quantize(x, sf.binary16, out=out)  # noqa: E731
    theirs = lambda: x.astype(np.float16).astype(np.float32)  # noqa: E731
    check_equal(ours(), theirs(), "float16")
    yield Row("binary16 1e6, NumPy", "astype there and back", *compare(theirs, ours, x.size), 1)
