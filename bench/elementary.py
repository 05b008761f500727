"""Elementary functions, rounded correctly, against NumPy's own in float64 and float32."""

import numpy as np

import softfloat as sf
from bench.quantize import normal
from bench.timing import Row, check_equal, compare

FUNCTIONS = ("exp", "log", "sin", "tanh", "arctan", "cbrt")


def rows():
    """Ratios to NumPy's functions at 1e6 elements, one thread."""
    sf.set_num_threads(1)
    n = 1_000_000
    x = normal(n)
    for fmt in ("bfloat16", "binary32"):
        for name in FUNCTIONS:
            function, numpy_function = getattr(sf, name), getattr(np, name)
            values = sf.quantize(np.abs(x) if name == "log" else x, fmt)
            wide = values.astype(np.float64)
            out, wide_out = np.empty_like(values), np.empty_like(wide)
            call = lambda: function(values, fmt, out=out)  # noqa: B023, E731
            with sf.status():
                want = function(values[:2000], fmt)
            check_equal(call()[:2000], want, name)
            ratio = compare(lambda: numpy_function(wide, out=wide_out), call, n)  # noqa: B023
            yield Row(f"{fmt} {name} 1e6", f"np.{name} float64", *ratio, 0.2)
            ratio = compare(lambda: numpy_function(values, out=out), call, n)  # noqa: B023
            yield Row(f"{fmt} {name} 1e6", f"np.{name} float32", *ratio, None)
    yield from rows_of_binary64()


def rows_of_binary64():
    """Pairs of float64 against NumPy's functions, which are not rounded correctly."""
    n = 200_000
    x = normal(n, np.float64)
    out = np.empty_like(x)
    for name in FUNCTIONS:
        function, numpy_function = getattr(sf, name), getattr(np, name)
        values = np.abs(x) if name == "log" else x
        call = lambda: function(values, "binary64", out=out)  # noqa: B023, E731
        with sf.status():
            want = function(values[:2000], "binary64")
        check_equal(call()[:2000], want, name)
        ratio = compare(lambda: numpy_function(values, out=out), call, n)  # noqa: B023
        yield Row(f"binary64 {name} 2e5", f"np.{name} float64", *ratio, None)
