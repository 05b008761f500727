"""Monitor: what rounding did to every tensor of a run, counted as the run goes.

Counts are of all elements at every step; histograms, signal-to-noise ratios and the record of single steps come from a
sample of each tensor, at every `every`-th step: cheap enough to leave on, and no longer run takes more memory.
"""

import collections
import math

import numpy as np

from softfloat.training.checks import state_of
from softfloat.training.kernels import (
    COUNTED,
    FLUSHED,
    NONZERO,
    OVERFLOWED,
    SATURATED,
    count_exponents,
    count_lost,
    count_rounded,
    magnitude_bits,
    signal_and_noise,
)
from softfloat.training.policy import ROLES

BINS = 256  # one for each biased exponent of float32
BIAS = 127
COUNTS = ("values", "nonzero", "flushed", "overflowed", "saturated")
_RATIO_ZERO = 256
SAMPLE = 1 << 12  # elements of a tensor that a histogram looks at


def exponent_counts(x):
    """Elements in each binade: (256,) integers, bin e + 127 for 2**e <= |x| < 2**(e + 1).

    Zeros are left out; what lies below 2**-126 is counted in bin 0.
    """
    counts = np.zeros(BINS, np.int64)
    count_exponents(np.ascontiguousarray(x).reshape(-1), 1, 1.0, counts)
    return counts


def _stride(size):
    """The step from one element of a sample to the next: odd, as widths rarely are."""
    return (size // SAMPLE) | 1 if size > SAMPLE else 1


def range_of(fmt):
    """Label, smallest positive, smallest normal and largest value of a format, as a dict."""
    fixed = getattr(fmt, "is_fixed", False)
    smallest = fmt.resolution if fixed else fmt.smallest_subnormal
    normal = smallest if fixed else fmt.smallest_normal
    return {
        "format": fmt.label,
        "smallest": smallest,
        "smallest_normal": normal,
        "largest": fmt.max,
    }


class Account:
    """What was counted of one tensor.

    role : of the tensor.   range : `range_of` its format, None if it is not rounded.   values : elements so far.
    counts : of nonzero, flushed, saturated and overflowed elements, in the order of softfloat.training.kernels.
    histogram, unscaled : (256,) exponents before rounding, with the loss scale and without.   latest : those of the
        last step that was sampled, with the loss scale.
    signal, noise : sums of squares of sampled values and of their changes.   updates, lost : as in Monitor.
    """

    def __init__(self, role, fmt):
        self.role = role
        self.range = None if fmt is None else range_of(fmt)
        self.values = 0
        self.counts = np.zeros(COUNTED, np.int64)
        self.histogram = np.zeros(BINS, np.int64)
        self.unscaled = np.zeros(BINS, np.int64)
        self.latest = np.zeros(BINS, np.int64)
        self.signal = self.noise = 0.0
        self.updates = self.lost = 0
        self.ends = {}  # magnitudes of the range's two ends, as bits, by scale

    def ends_at(self, scale, fmt, dtype):
        """Bits of the range's two ends as values had them before they were multiplied by scale."""
        if len(self.ends) > 64:  # a run may see many scales
            self.ends.clear()
        with np.errstate(over="ignore"):  # of a scale so small that all is inside
            ends = tuple(magnitude_bits(end / scale, dtype) for end in (fmt.max, fmt.min))
        self.ends[scale] = ends if scale > 0 else ends[::-1]
        return self.ends[scale]

    @property
    def snr(self):
        """Signal-to-noise ratio of the rounding in decibels: infinite if nothing moved, NaN if nothing was sampled."""
        return decibels(self.signal, self.noise)

    def share(self, what):
        """Flushed (of the nonzero), overflowed or saturated elements (of all), as a share in 0..1."""
        which = {"flushed": FLUSHED, "overflowed": OVERFLOWED, "saturated": SATURATED}[what]
        of = int(self.counts[NONZERO]) if what == "flushed" else self.values
        return int(self.counts[which]) / of if of else 0.0


def decibels(signal, noise):
    if not signal:
        return math.nan
    return 10 * math.log10(signal / noise) if noise else math.inf


class Monitor:
    """Counts per tensor and per role; histograms of exponents, of every tensor and of updates against weights.

    every : steps from one sample to the next.   keep : how many rows `record` holds, the oldest go first.

    tensors[name] : an Account; that of weights has updates (elements with dw != 0) and lost (those of them with
        w + dw == w). Without a master copy its role is "stored" and its samples are those of w + dw.
    counts[role], histograms[role], unscaled, updates, lost : sums over tensors; counts are of values rounded, nonzero
        (before), flushed (nonzero that became zero), overflowed (beyond the format's range, and then infinite or NaN)
        and saturated (beyond it, and held inside).
    record : rows (step, name, flushed, saturated, overflowed, snr) of the sampled steps, counts of that step, snr in
        decibels; for updates the row is (step, name, moved, lost, None, None).
    """

    def __init__(self, every=16, keep=1 << 14):
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a positive integer, got {every!r}")
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
            raise ValueError(f"keep must be a number of rows, got {keep!r}")
        self.every = every
        self.tensors = {}
        self.ratios = np.zeros(2 * _RATIO_ZERO, np.int64)
        self.record = collections.deque(maxlen=keep)

    def _account(self, name, role, fmt):
        try:
            return self.tensors[name]
        except KeyError:
            account = self.tensors[name] = Account(role, fmt)
            return account

    def due(self, step):
        """Whether a step is one of those that are sampled."""
        return step % self.every == 0

    def tensor(self, name, role, before, after, fmt, step, scale=1.0, loss_scale=1.0):
        """Count one tensor before and after its rounding to fmt; None: it was not rounded.

        scale : the factor of `before` while it was rounded.   loss_scale : that of the errors.
        """
        account = self._account(name, role, fmt)
        due = self.due(step)
        if not due and fmt is None:
            return
        earlier = account.counts.copy() if due else None
        if fmt is not None and before.size:
            account.values += before.size
            ends = account.ends.get(scale) or account.ends_at(scale, fmt, after.dtype)
            if before.dtype != after.dtype:
                before = before.astype(after.dtype)
            count_rounded(before.ravel(), after.ravel(), *ends, account.counts)
        if due:
            self._look(account, name, before, after, step, loss_scale, earlier)

    def _look(self, account, name, before, after, step, loss_scale, earlier):
        x, y = (np.ascontiguousarray(a).reshape(-1) for a in (before, after))
        stride = _stride(x.size)
        if account.role == "errors":
            count_exponents(x, stride, loss_scale, account.unscaled)
        signal, noise = self._sample(account, x, y, stride)
        new = [int(n) for n in account.counts - earlier]
        self.record.append(
            (step, name, new[FLUSHED], new[SATURATED], new[OVERFLOWED], decibels(signal, noise))
        )

    def _sample(self, account, x, y, stride):
        """Exponents, and (signal, noise), of every stride-th element of flat x, rounded to y."""
        account.latest = np.zeros(BINS, np.int64)
        count_exponents(x, stride, 1.0, account.latest)
        account.histogram += account.latest
        signal, noise = signal_and_noise(x, y, stride)
        account.signal += signal
        account.noise += noise
        return signal, noise

    def update(self, name, weights, change, updated, step, fmt=None):
        """Count the update of one parameter: w, dw and w + dw, rounded to fmt; None: it was not rounded."""
        account = self._account(name, "stored", fmt)
        moved, lost = count_lost(weights.ravel(), change.ravel(), updated.ravel())
        account.updates += moved
        account.lost += lost
        if self.due(step):
            stride = _stride(weights.size)
            w, dw, new = (a.reshape(-1)[::stride] for a in (weights, change, updated))
            if (
                account.role == "stored"
            ):  # else it is that of the rounded copy, which has its own samples
                self._sample(account, w + dw, np.ascontiguousarray(new), 1)
            w, dw = w.astype(np.float32), dw.astype(np.float32)
            both = (w != 0) & (dw != 0)
            w, dw = (a[both].view(np.int32) >> 23 & 0xFF for a in (w, dw))
            self.ratios += np.bincount(dw - w + _RATIO_ZERO, minlength=2 * _RATIO_ZERO)
            self.record.append((step, name, moved, lost, None, None))

    # ---------------------------------------------------------------- sums over tensors
    def _of(self, *roles):
        return [a for a in self.tensors.values() if a.role in (roles or ROLES)]

    @property
    def counts(self):
        """{role: {what: count}}."""
        found = {}
        for role in ROLES:
            total = sum((a.counts for a in self._of(role)), np.zeros(COUNTED, np.int64))
            found[role] = {
                "values": sum(a.values for a in self._of(role)),
                "nonzero": int(total[NONZERO]),
                "flushed": int(total[FLUSHED]),
                "overflowed": int(total[OVERFLOWED]),
                "saturated": int(total[SATURATED]),
            }
        return found

    @property
    def histograms(self):
        """{role: (256,) counts of exponents}."""
        empty = np.zeros(BINS, np.int64)
        return {role: sum((a.histogram for a in self._of(role)), empty) for role in ROLES}

    @property
    def unscaled(self):
        """(256,) counts of the exponents of errors without the loss scale."""
        return sum((a.unscaled for a in self._of("errors")), np.zeros(BINS, np.int64))

    @property
    def updates(self):
        """Elements updated with dw != 0."""
        return sum(a.updates for a in self.tensors.values())

    @property
    def lost(self):
        """Those of them with w + dw == w."""
        return sum(a.lost for a in self.tensors.values())

    @property
    def median_ratio(self):
        """Median of the exponent of |dw| less that of |w|, over sampled updates; None without."""
        total = int(self.ratios.sum())
        if not total:
            return None
        return int(np.searchsorted(np.cumsum(self.ratios), (total + 1) // 2)) - _RATIO_ZERO

    def percent(self, what, *roles):
        """Share of flushed, overflowed or saturated values in percent, of these roles or all."""
        counts = self.counts
        chosen = [counts[role] for role in roles or ROLES]
        of = sum(c["nonzero" if what == "flushed" else "values"] for c in chosen)
        return 100.0 * sum(c[what] for c in chosen) / of if of else 0.0

    @property
    def lost_percent(self):
        """Share of updates lost, in percent."""
        updates = self.updates
        return 100.0 * self.lost / updates if updates else 0.0

    # ---------------------------------------------------------------- state
    def state_dict(self):
        """The whole account, so that a resumed run goes on counting."""
        held = ("role", "range", "values", "counts", "signal", "noise")
        held = (*held, "histogram", "unscaled", "latest")
        tensors = {
            name: {f: getattr(a, f) for f in (*held, "updates", "lost")}
            for name, a in self.tensors.items()
        }
        rows = [list(row) for row in self.record]
        return {"every": self.every, "tensors": tensors, "ratios": self.ratios, "record": rows}

    def load_state_dict(self, state):
        """Go on from a state of `state_dict`."""
        state_of("a Monitor", state, ("every", "tensors", "ratios", "record"))
        self.every = int(state["every"])
        self.ratios = np.array(state["ratios"], np.int64)
        self.record = collections.deque(map(tuple, state["record"]), maxlen=self.record.maxlen)
        self.tensors = {}
        for name, fields in state["tensors"].items():
            account = self.tensors[name] = Account(fields["role"], None)
            for field, value in fields.items():
                own = np.array(value, np.int64) if isinstance(value, np.ndarray) else value
                setattr(account, field, own)
