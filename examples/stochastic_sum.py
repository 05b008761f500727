"""For machine learning: small updates that rounding to nearest loses and stochastic rounding keeps.

A weight of 1 gets 1000 updates of 0.001, in bfloat16, where numbers at 1 are 0.0078 apart.
"""

import numpy as np

import softfloat as sf


def updated(rounding, weights=64, steps=1000):
    """64 copies of the weight; the step is the stream of random words: no two steps share them."""
    w = np.ones(weights, np.float32)
    for step in range(steps):
        random = {"seed": 7, "stream": step} if rounding == "stochastic" else {}
        sf.add(w, 0.001, sf.bfloat16, rounding=rounding, out=w, **random)
    return w


def main():
    for rounding in ("ties_to_even", "stochastic"):
        w = updated(rounding).astype(np.float64)
        print(f"{rounding:<13} mean {w.mean():.3f}, standard deviation {w.std():.3f} (exact: 2)")


if __name__ == "__main__":
    main()
