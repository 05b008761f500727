"""Arithmetic with one exact rounding: of float32 against np.add, of float64 against NumPy's own operation."""

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
    yield from wide_rows()


WIDE_GOALS = {"add": 0.75, "multiply": 0.75, "divide": 0.6, "sqrt": 1.7, "fma": 0.4}
NUMPY = {"add": np.add, "multiply": np.multiply, "divide": np.divide}


def multiply_and_add(u, v, w, out):
    """What NumPy has in place of an fma, with two roundings."""
    np.add(np.multiply(u, v, out=out), w, out=out)


def wide_rows(shapes=((11, 52), (11, 51), (10, 52), (8, 23))):
    """Every operation and mode of formats near binary64; 1e6 float64 elements.

    NumPy has no fma. Its rows are given twice: of a multiplication and an addition, and of a multiplication alone.
    """
    n = 1_000_000
    u, v, w = (normal(n, np.float64) for _ in range(3))
    out = np.empty(n)
    for shape in shapes:
        fmt = sf.Format(*shape)
        for operation, goal in WIDE_GOALS.items():
            function = getattr(sf, operation)
            operands = {"sqrt": (np.abs(u),), "fma": (u, v[::-1].copy(), w)}.get(
                operation, (u, v[::-1].copy())
            )
            bases = [NUMPY.get(operation, np.sqrt)]
            if operation == "fma":
                bases = [multiply_and_add, np.multiply]
            for rounding in map(str, sf.Rounding):
                options: dict = {"rounding": rounding}
                if rounding.startswith("stochastic"):
                    options["seed"], goal = 1, 0.35
                with sf.status():
                    want = function(*(x[:5000] for x in operands), fmt, **options)
                call = lambda: function(*operands, fmt, out=out, **options)  # noqa: B023, E731
                check_equal(call()[:5000], want, operation)
                for base in bases:
                    given = operands[:2] if base is np.multiply else operands
                    ratio = compare(lambda: base(*given, out=out), call, n, 0.2)  # noqa: B023
                    name = f"{fmt.label} {operation} {rounding} 1e6"
                    yield Row(name, base.__name__, *ratio, goal)
