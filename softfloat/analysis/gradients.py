"""Which part of a distribution a format can hold, against the scale it is multiplied with: loss scaling.

Source: Micikevicius et al., Mixed precision training (2018), section 3.2: there gradients are scaled for binary16.
"""

import numpy as np

from softfloat.analysis.result import Line, Panel, Study, measured
from softfloat.analysis.statistics import CONFIDENCE, as_floating, checked_count, normal, wilson
from softfloat.functional import quantize

DEPTH = 40  # binades that the scales cover


def loss_scaling(fmt="binary16", n=1 << 18, *, center=-26.0, deviation=6.0, seed=0):
    """Shares of synthetic gradients that become zero, become subnormal or overflow, against the loss scale.

    Gradients are log-normal: log2 of the magnitude is normal with this center and standard deviation, in binades. Made
    up, not recorded from a network. Table: log2_scale, zero, subnormal, overflow, and zero_low, zero_high (95 %).
    """
    fmt, n = as_floating(fmt), checked_count("n", n)
    magnitudes = np.exp2(center + deviation * normal(seed, n))
    scales = list(range(0, DEPTH + 1, 2))

    def shares(exponent):
        scaled = magnitudes * 2.0**exponent
        got = quantize(scaled, fmt)
        over = ~np.isfinite(got) | (scaled >= fmt.max * (1 + fmt.unit_roundoff))
        small = (got > 0) & (got < fmt.smallest_normal)
        return [np.count_nonzero(got == 0), np.count_nonzero(small), np.count_nonzero(over)]

    counts = np.array(measured("scales", scales, shares))
    low, high = np.array([wilson(int(c), n) for c in counts[:, 0]]).T
    zero, subnormal, overflow = (counts / n).T
    table = {"log2_scale": scales, "zero": zero, "subnormal": subnormal, "overflow": overflow}
    lines = (
        Line("become zero", scales, zero, low=low, high=high),
        Line("become subnormal", scales, subnormal),
        Line("overflow", scales, overflow),
    )
    best = scales[int(np.argmin(zero + overflow))]
    return Study(
        name="loss_scaling",
        title=f"Loss scaling in {fmt.label}: 2**{best} loses least",
        caption=(
            f"{n:,} synthetic log-normal gradients (center 2**{center:g}, deviation {deviation:g} binades, "
            f"seed {seed}), rounded to {fmt.label}; band: Wilson interval at {CONFIDENCE:.0%}."
        ),
        settings={
            "format": fmt.label,
            "n": n,
            "center": center,
            "deviation": deviation,
            "seed": seed,
        },
        facts={"best_log2_scale": best},
        arrays=table | {"zero_low": low, "zero_high": high},
        panels=(Panel("log2 of the loss scale", "share of gradients", lines),),
    )
