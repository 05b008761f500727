"""Monitor: what rounding did to the tensors of a run, counted per role as the run goes.

Counts are taken at every step, histograms at every `every`-th: cheap enough to leave on.
"""

import numpy as np

from softfloat.training.policy import ROLES

BINS = 256  # one for each biased exponent of float32
BIAS = 127
COUNTS = ("values", "nonzero", "flushed", "overflowed", "saturated")
_RATIO_ZERO = 256
SAMPLE = 1 << 14  # elements of a tensor that a histogram looks at


def exponent_counts(x):
    """Elements in each binade: (256,) integers, bin e + 127 for 2**e <= |x| < 2**(e + 1).

    Zeros are left out; what lies below 2**-126 is counted in bin 0.
    """
    flat = np.ascontiguousarray(x, np.float32).reshape(-1).view(np.int32)
    counts = np.bincount((flat >> 23) & 0xFF, minlength=BINS)
    counts[0] -= flat.size - np.count_nonzero(flat & 0x7FFFFFFF)
    return counts


def _sample(x):
    """All elements of x, flat, or every k-th of a large array; k is odd, as widths rarely are."""
    flat = x.reshape(-1)
    return flat[:: (flat.size // SAMPLE) | 1] if flat.size > SAMPLE else flat


class Monitor:
    """Counts per role; histograms of the exponents of every role, and of updates against weights.

    counts[role] : dict of values rounded, nonzero (before), flushed (nonzero that became zero),
        overflowed (beyond the format's range, and then infinite or NaN) and saturated (beyond it,
        and held inside).
    updates, lost : elements updated with dw != 0, and those of them with w + dw == w.
    histograms[role] : (256,) counts of exponents before rounding, of a sample of large tensors;
        `unscaled` the same for errors without loss scale.
    """

    def __init__(self, every=16):
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a positive integer, got {every!r}")
        self.every = every
        self.counts = {role: dict.fromkeys(COUNTS, 0) for role in ROLES}
        self.updates = 0
        self.lost = 0
        self.histograms = {role: np.zeros(BINS, np.int64) for role in ROLES}
        self.unscaled = np.zeros(BINS, np.int64)
        self.ratios = np.zeros(2 * _RATIO_ZERO, np.int64)

    def tensor(self, role, before, after, fmt, step, scale=1.0, loss_scale=1.0, ends=None):
        """Count one tensor before and after its rounding to fmt; None: it was not rounded.

        scale : the factor of the tensor while it was rounded.   loss_scale : that of the errors.
        ends : smallest and largest value of `after`, where they are known.
        """
        if fmt is not None and before.size:
            counts = self.counts[role]
            nonzero = int(np.count_nonzero(before != 0))  # twice as fast as without the comparison
            counts["values"] += before.size
            counts["nonzero"] += nonzero
            counts["flushed"] += nonzero - int(np.count_nonzero(after != 0))
            low, high = ends or (after.min(), after.max())
            # What went beyond the range is at its end now, infinite or NaN, unless it was wrapped.
            inside = fmt.min / scale < low and high < fmt.max / scale
            if not inside or getattr(fmt, "overflow", None) == "wrap":
                self._count_beyond(counts, before, after, fmt.min / scale, fmt.max / scale)
        if step % self.every == 0:
            sample = _sample(before)
            self.histograms[role] += exponent_counts(sample)
            if role == "errors":
                self.unscaled += exponent_counts(sample / sample.dtype.type(loss_scale))

    def _count_beyond(self, counts, before, after, low, high):
        beyond = np.isfinite(before) & ((before < low) | (before > high))
        held = int(np.count_nonzero(beyond & np.isfinite(after)))
        counts["saturated"] += held
        counts["overflowed"] += int(np.count_nonzero(beyond)) - held

    def update(self, weights, change, updated, step):
        """Count the update of one tensor: w, dw and the rounded w + dw."""
        moving = change != 0
        self.updates += int(np.count_nonzero(moving))
        self.lost += int(np.count_nonzero(moving & (updated == weights)))
        if step % self.every == 0:
            w, dw = (_sample(a).astype(np.float32) for a in (weights, change))
            both = (w != 0) & (dw != 0)
            w, dw = (a[both].view(np.int32) >> 23 & 0xFF for a in (w, dw))
            self.ratios += np.bincount(dw - w + _RATIO_ZERO, minlength=2 * _RATIO_ZERO)

    @property
    def median_ratio(self):
        """Median of the exponent of |dw| less that of |w|, over sampled updates; None without."""
        total = int(self.ratios.sum())
        if not total:
            return None
        return int(np.searchsorted(np.cumsum(self.ratios), (total + 1) // 2)) - _RATIO_ZERO

    def percent(self, what, *roles):
        """Share of flushed, overflowed or saturated values in percent, of these roles or all."""
        chosen = [self.counts[role] for role in roles or ROLES]
        of = sum(c["nonzero" if what == "flushed" else "values"] for c in chosen)
        return 100.0 * sum(c[what] for c in chosen) / of if of else 0.0

    @property
    def lost_percent(self):
        """Share of updates lost, in percent."""
        return 100.0 * self.lost / self.updates if self.updates else 0.0
