"""Confidence intervals, and the options that turn a rounding mode and a trial into keyword arguments.

Source: Wilson, Probable inference, the law of succession, and statistical inference (1927), for proportions.
"""

import math

import numpy as np

from softfloat.format import Format
from softfloat.formats import as_format
from softfloat.rounding import AWAY, EVEN, MODES, STOCHASTIC, as_rounding

CONFIDENCE = 0.95
Z = 1.959963984540054  # the normal quantile of (1 + 0.95) / 2


def as_floating(fmt):
    """as_format, for studies of errors relative to the number: TypeError for fixed point."""
    fmt = as_format(fmt)
    if not isinstance(fmt, Format):
        raise TypeError(
            f"this study measures errors relative to the number, which {fmt.label}, fixed point, does not bound; "
            "give a floating-point format"
        )
    return fmt


def deviation(values):
    """The standard deviation of a sample; NaN of one value, or where some are not finite."""
    values = np.asarray(values, float)
    if values.size < 2 or not np.isfinite(values).all():
        return math.nan
    return float(values.std(ddof=1))


def wilson(count, trials, z=Z):
    """The Wilson score interval (low, high) of a proportion, at 95 % by default."""
    if trials < 1:
        raise ValueError(f"a proportion needs at least one trial, got {trials}")
    p, zz = count / trials, z * z / trials
    middle = (p + zz / 2) / (1 + zz)
    half = z / (1 + zz) * math.sqrt(p * (1 - p) / trials + zz / (4 * trials))
    # At the ends the interval reaches them exactly.
    return 0.0 if count == 0 else middle - half, 1.0 if count == trials else middle + half


def mean_interval(values, z=Z):
    """(mean, low, high) of a sample, by the normal approximation; one value has an interval of no known width."""
    values = np.asarray(values, float)
    with np.errstate(invalid="ignore"):
        mean = float(values.mean())
    half = z * deviation(values) / math.sqrt(values.size)
    return mean, mean - half, mean + half


def is_stochastic(rounding):
    return MODES[as_rounding(rounding)] >= STOCHASTIC


def is_nearest(rounding):
    return MODES[as_rounding(rounding)] in (EVEN, AWAY)


def options_of(rounding, seed, stream=0):
    """rounding=, and seed= and stream= where the mode takes them."""
    rounding = as_rounding(rounding)
    return {"rounding": rounding} | (
        {"seed": seed, "stream": stream} if is_stochastic(rounding) else {}
    )


def uniform(seed, *shape):
    """Uniform float64 numbers in [0, 1) of one seed."""
    return np.random.default_rng(seed).random(shape)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def checked_choice(name, value, known):
    """The value, if it is one of these texts; ValueError otherwise."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return value


def checked_seed(seed):
    """A seed, an integer in [0, 2**64); ValueError or TypeError otherwise."""
    checked_count("seed", seed, 0)
    if seed >= 1 << 64:
        raise ValueError(f"seed must be below 2**64, got {seed}")
    return int(seed)


def checked_count(name, value, low=1):
    """An integer of at least `low`; ValueError or TypeError otherwise."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)
