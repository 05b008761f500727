"""One sum in many orders: how many results it has, and the exact one. Then the order in which NumPy itself adds."""

import numpy as np

from softfloat import analysis

terms = np.random.default_rng(1).standard_normal(200)
for fmt in ("bfloat16", "binary16", "binary32"):
    found = analysis.order_sweep(terms, fmt, trials=500)
    print(
        f"{fmt}: {found.distinct} results, {found.lowest:.6g} to {found.highest:.6g}; exact {found.exact:.6g}"
    )

found = analysis.reveal_order(np.sum, 20)
print(f"np.sum of 20 numbers: depth {found.depth} after {found.calls} calls; {found.tree}")
