"""add, multiply and divide with one exact rounding, against np.add on float32."""

import numpy as np

import softfloat as sf
from bench.quantize import normal
from bench.timing import Row, check_equal, compare


def rows():
    """Ratios to np.add at 1e7 elements, one thread."""
    sf.set_num_threads(1)
    n = 10_000_000
    a, b = normal(n), normal(n)[::-1].copy()
    out = np.empty_like(a)
    for name in ("binary16", "bfloat16"):
        x, y = sf.quantize(a, name), sf.quantize(b, name)
        for operation in ("add", "multiply", "divide"):
            function = getattr(sf, operation)
            call = lambda: function(x, y, name, out=out)  # noqa: B023, E731
            with sf.status():
                want = function(x[:2000], y[:2000], name)
            check_equal(call()[:2000], want, operation)
            ratio = compare(lambda: np.add(x, y, out=out), call, n)  # noqa: B023
            yield Row(f"{name} {operation} 1e7", "np.add", *ratio, 1.0)
    for operation, goal in (("add", None), ("multiply", None), ("fma", None)):
        u, v = normal(1_000_000, np.float64), normal(1_000_000, np.float64)[::-1].copy()
        wide = np.empty_like(u)
        function = getattr(sf, operation)
        operands = (u, v, u) if operation == "fma" else (u, v)
        call = lambda: function(*operands, "binary32", out=wide)  # noqa: B023, E731
        call()
        ratio = compare(lambda: np.add(u, v, out=wide), call, u.size)  # noqa: B023
        yield Row(f"float64 operands, binary32 {operation} 1e6", "np.add", *ratio, goal)
