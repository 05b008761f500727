"""A kernel written for float64 arrays, run in other formats without a change, and audited."""

import numba
import numpy as np

import softfloat as sf


@numba.njit
def logistic_map(x, rate, steps):
    """Iterate x <- rate * x * (1 - x) on every element; chaotic, so that rounding soon shows."""
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(steps):
            v = rate * v * (1 - v)
        out[i] = v
    return out


def main():
    start = np.linspace(0.1, 0.9, 5)
    print(f"{'float64':<24}", logistic_map(start, 3.9, 20).round(4))
    for fmt in (sf.binary32, sf.binary16, sf.bfloat16):
        for mode in ("nearest", "truncate"):
            with sf.rounding(mode):
                result = logistic_map(sf.array(start, fmt), 3.9, 20)
            print(f"{fmt.label + ' ' + mode:<24}", result.to_numpy().round(4))
    soft = [signature for signature in logistic_map.signatures if "softfloat" in str(signature)]
    leaks = [operation for signature in soft for operation in sf.audit(logistic_map, signature)]
    print(f"operations that left their format: {len(leaks)}")


if __name__ == "__main__":
    main()
