"""For users of NumPy: run a computation in a format that the machine does not have.

Newton's iteration for the reciprocal of 3, in the formats named on the command line.
"""

import sys

import softfloat as sf


def reciprocal(a, fmt, steps=6):
    """1/a by x <- x * (2 - a * x), every operation rounded to fmt."""
    x = 0.3
    for _ in range(steps):
        residual = sf.fma(-a, x, 2.0, fmt)
        x = sf.multiply(x, residual, fmt)
    return float(x)


def main(names):
    for name in names or ("binary32", "tf32", "bfloat16", "e5m10", "e6m9", "float8_e4m3fn"):
        fmt = sf.as_format(name)
        best = float(sf.divide(1.0, 3.0, fmt))
        print(f"{fmt.label:<14} {reciprocal(3.0, fmt):<20.12g} the nearest number: {best:.12g}")


if __name__ == "__main__":
    main(sys.argv[1:])
