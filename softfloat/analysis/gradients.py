"""What low precision takes from training: gradients below the range of a format, and updates below half an ulp.

Source: Micikevicius et al., Mixed precision training (2018), section 3.2: there gradients are scaled for binary16, and
updates 2048 times smaller than their weight are lost.
"""

import numpy as np

from softfloat.analysis.result import BOUND, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import (
    CONFIDENCE,
    as_floating,
    checked_count,
    normal,
    options_of,
    uniform,
    wilson,
)
from softfloat.formats import binary16
from softfloat.functional import add, quantize
from softfloat.rounding import as_rounding

DEPTH = 40  # binades that the scales cover
WEIGHTS = 1 << 12  # on which updates are tried
AROUND = 4  # binades about 2**p of the ratio of weight and update


def loss_scaling(
    fmt="binary16", n=1 << 18, *, center=-26.0, deviation=6.0, rounding="ties_to_even", seed=0
):
    """Shares of synthetic gradients that become zero, become subnormal or overflow, against the loss scale.

    Gradients are log-normal: log2 of the magnitude is normal with this center and standard deviation, in binades. Made
    up, not recorded from a network. Table: log2_scale, zero, subnormal, overflow, and zero_low, zero_high (95 %).
    Extra: log2_ratio and swallowed, the share of updates d with w + d = w where |w| / |d| lies from 2**log2_ratio up to
    its double: to nearest half of those from 2**p on and all from 2**(p+1) on, with p the digits of the format.
    """
    fmt, n, rounding = as_floating(fmt), checked_count("n", n), as_rounding(rounding)
    options = options_of(rounding, seed)
    magnitudes = np.exp2(center + deviation * normal(seed, n))
    scales = list(range(0, DEPTH + 1, 2))

    def shares(exponent):
        scaled = magnitudes * 2.0**exponent
        got = quantize(scaled, fmt, **options)
        over = ~np.isfinite(got) | (scaled >= fmt.max * (1 + fmt.unit_roundoff))
        small = (got > 0) & (got < fmt.smallest_normal)
        return [np.count_nonzero(got == 0), np.count_nonzero(small), np.count_nonzero(over)]

    ratios = list(range(max(0, fmt.precision - AROUND), fmt.precision + AROUND + 1))
    swallowed = np.array(measured("updates", ratios, lambda k: _swallowed(k, fmt, options, seed)))
    counts = np.array(measured("scales", scales, shares))
    low, high = np.array([wilson(int(c), n) for c in counts[:, 0]]).T
    zero, subnormal, overflow = (counts / n).T
    table = {"log2_scale": scales, "zero": zero, "subnormal": subnormal, "overflow": overflow}
    lines = (
        Line("become zero", scales, zero, low=low, high=high),
        Line("become subnormal", scales, subnormal),
        Line("overflow", scales, overflow),
    )
    updates = (
        Line("updates without effect", ratios, swallowed),
        Line("|w| / |d| = 2**p", [fmt.precision] * 2, [0, 1], BOUND),
    )
    source = "Micikevicius et al. (2018), as recalled"
    best = scales[int(np.argmin(zero + overflow))]
    return Study(
        name="loss_scaling",
        title=f"Loss scaling in {fmt.label}: 2**{best} loses least",
        caption=(
            f"{n:,} synthetic log-normal gradients (center 2**{center:g}, deviation {deviation:g} binades, "
            f"seed {seed}), rounded to {fmt.label}, {rounding}; band: Wilson interval at {CONFIDENCE:.0%}. Updates: "
            f"{WEIGHTS:,} weights in [1, 2) for each ratio, drawn with the same seed."
        ),
        settings={"format": fmt.label, "n": n, "center": center, "deviation": deviation, "rounding": str(rounding),
                  "seed": seed},
        facts={"best_log2_scale": best, "below_2**-24": float(np.mean(magnitudes < 2.0**-24))},
        arrays=table | {"zero_low": low, "zero_high": high},
        extra={"log2_ratio": ratios, "swallowed": swallowed},
        panels=(
            Panel("log2 of the loss scale", "share of gradients", lines),
            Panel("log2 of weight / update", "share of updates", updates),
        ),
        published=(
            Published("gradients that become 0 unscaled", "31 % of activation gradients (SSD, binary16)", source,
                      f"{zero[0]:.0%} of these synthetic ones"),
        ) + ((
            Published("updates lost in binary16", "from |w| / |d| = 2048 on", source,
                      f"{_percent(swallowed, ratios, 11)} from 2048 to 4096, {_percent(swallowed, ratios, 12)} above"),
        ) if fmt == binary16 else ()),
    )  # fmt: skip


def _swallowed(k, fmt, options, seed):
    """The share of updates that leave their weight as it is, of ratios in [2**k, 2**(k+1))."""
    u, v = uniform([seed, k], 2, WEIGHTS)
    w = np.asarray(quantize(1 + u, fmt), float)
    d = -w / (2.0**k * (1 + v))  # the ratio is what is asked for, whatever the range of the format
    return float(np.mean(add(w, d, fmt, **options) == w))


def _percent(shares, ratios, k):
    return f"{shares[ratios.index(k)]:.0%}"
