"""For numerical analysts: a sum enclosed by directed rounding, beside the sum to nearest."""

from fractions import Fraction

import softfloat as sf


def harmonic(n, fmt, rounding):
    """1 + 1/2 + ... + 1/n, every division and every addition rounded."""
    total = 0.0
    for k in range(1, n + 1):
        total = sf.add(total, sf.divide(1.0, k, fmt, rounding=rounding), fmt, rounding=rounding)
    return float(total)


def main(n=1000):
    exact = float(sum(Fraction(1, k) for k in range(1, n + 1)))
    print(f"sum of 1/k to {n}: {exact:.10f}")
    for name in ("binary32", "binary16", "bfloat16"):
        low, near, high = (
            harmonic(n, sf.as_format(name), mode)
            for mode in ("toward_negative", "ties_to_even", "toward_positive")
        )
        assert low <= exact <= high  # what directed rounding is for
        print(f"{name:<9} lies in [{low:.6f}, {high:.6f}]; to nearest {near:.6f}")


if __name__ == "__main__":
    main()
