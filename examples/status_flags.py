"""For those who choose a format: what a computation loses in it, counted by the flags of IEEE 754.

Squares of random numbers over a wide range of scales: how many overflow, how many underflow?
"""

import numpy as np

import softfloat as sf


def main():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(10_000) * 10.0 ** rng.uniform(-6, 6, 10_000)
    print(f"{'format':<14} {'inexact':>8} {'underflow':>10} {'overflow':>9}")
    for name in ("binary32", "bfloat16", "binary16", "float8_e5m2", "float8_e4m3fn"):
        with sf.status() as s:
            sf.multiply(x, x, name)
        print(f"{name:<14} {s.inexact:>8} {s.underflow:>10} {s.overflow:>9}")


if __name__ == "__main__":
    main()
