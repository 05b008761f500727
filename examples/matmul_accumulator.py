"""For authors of kernels: a matrix product whose accumulator is narrow, as in hardware.

Exact products, one rounding in the accumulator for every multiply-add, in the order of k: a model
to test a kernel against. Whole arrays are rounded in one call, in place.
"""

import numpy as np

import softfloat as sf


def matmul(a, b, accumulator):
    """(m, k) times (k, n); after every step of k the sum is rounded to the accumulator's format."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        sf.fma(a[:, k, None], b[None, k, :], c, accumulator, out=c)
    return c


def main():
    rng = np.random.default_rng(0)
    a = sf.quantize(rng.standard_normal((8, 512)).astype(np.float32), sf.float8_e4m3fn)
    b = sf.quantize(rng.standard_normal((512, 8)).astype(np.float32), sf.float8_e4m3fn)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for name in ("binary32", "e8m13", "binary16", "bfloat16"):
        error = np.abs(matmul(a, b, sf.as_format(name)) - exact).max() / np.abs(exact).max()
        print(f"accumulator {name:<9} largest error {error:.1e} of the largest element")


if __name__ == "__main__":
    main()
