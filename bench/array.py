"""Operators of SoftArrays: what they add to the functions behind them, and a call on ten elements in microseconds."""

import numpy as np

import softfloat as sf
from bench.quantize import normal
from bench.timing import Row, check_equal, compare, times

OPERATORS = {
    "a + b": (lambda a, b: a + b, sf.add),
    "a * b": (lambda a, b: a * b, sf.multiply),
    "a / b": (lambda a, b: a / b, sf.divide),
    "a < b": (lambda a, b: a < b, lambda x, y, fmt: sf.less(x, y)),
    "np.sqrt(a)": (lambda a, b: np.sqrt(a), lambda x, y, fmt: sf.sqrt(x, fmt)),
}
SHORT = {
    "a + b": lambda a, b: a + b,
    "a * 2.5": lambda a, b: a * 2.5,
    "1 - a": lambda a, b: 1 - a,
    "a < b": lambda a, b: a < b,
    "a < 0.5": lambda a, b: a < 0.5,
    "-a": lambda a, b: -a,
    "a**2": lambda a, b: a**2,
    "a += b": lambda a, b: a.__iadd__(b),
    "a[0] * b[0]": lambda a, b: a[0] * b[0],
    "np.sqrt(a)": lambda a, b: np.sqrt(a),
}


def rows():
    """Function time over operator time at 1e6 elements; microseconds at 10. One thread."""
    sf.set_num_threads(1)
    fmt = sf.bfloat16
    n = 1_000_000
    a, b = (sf.array(v, fmt) for v in (np.abs(normal(n)), np.abs(normal(n))[::-1].copy()))
    x, y = a.to_numpy(), b.to_numpy()
    for name, (operator, function) in OPERATORS.items():
        got = operator(a, b)
        got = got.to_numpy() if isinstance(got, sf.SoftArray) else got
        check_equal(got, function(x, y, fmt), name)
        ratio = compare(
            lambda: function(x, y, fmt),  # noqa: B023
            lambda: operator(a, b),  # noqa: B023
            n,
        )
        yield Row(f"{name} 1e6", "the function", *ratio, 0.91)
    a, b = a[:10].copy(), b[:10].copy()
    for name, operator in SHORT.items():
        taken = times([lambda: operator(a, b)], 60, 2000)[:, 0] * 1e6  # noqa: B023
        low, high = np.percentile(taken, [10, 90])
        goal = None if "[" in name else 5.0  # three calls
        yield Row(f"{name} 10, microseconds", "1", taken.min(), low, high, goal, True)
