"""Training in fixed point, to nearest and stochastic: what Gupta et al. found, on small data.

Source: Gupta, Agrawal, Gopalakrishnan and Narayanan, Deep learning with limited numerical precision (2015): words of 16
bits; to nearest training fails where stochastic rounding comes near to floating point.
"""

import numpy as np

from softfloat.analysis.growth import formats_of
from softfloat.analysis.result import BOUND, Line, Panel, Published, Study, measured
from softfloat.analysis.statistics import checked_count, checked_seed
from softfloat.fixed_point import FixedPoint

WORD = 16  # bits, the sign's among them
FRACTIONS = (6, 8, 10, 12)
MODES = ("ties_to_even", "stochastic")
FORMATS = tuple(FixedPoint(WORD - 1 - f, f) for f in FRACTIONS)


def fixed_point_sr(fmt=FORMATS, n=20, *, data="digits", hidden=(64,), lr=0.01, batch=16, seed=0):
    """Test error of a small network trained in fixed point, to nearest and stochastic, beside float32.

    fmt : one format or several, FixedPoint such as "Q3.12" or floating: of weights, activations, gradients and updates;
    by default 16 bits with 6, 8, 10 and 12 of them after the point.   n : epochs.   data, hidden, lr, batch : as for
    `softfloat train`.
    Table: format, nearest and stochastic (test errors in percent; 100 where the loss is not finite), and
    nearest_flushed, the percentage of all rounded numbers, updates among them, that became zero. Fact: float32, its
    test error.
    Raises ImportError where the data need a package that is not installed.
    """
    from softfloat import training

    read = lambda f: training.Policy(weights=f).weights  # noqa: E731  where "Q3.12" is fixed point
    formats, n, seed = formats_of(fmt, read), checked_count("n", n), checked_seed(seed)
    hidden = [checked_count("a size in hidden", int(h)) for h in hidden]
    settings = training.Settings(data=data, hidden=tuple(hidden), epochs=n, lr=lr, batch=batch, seed=seed)  # fmt: skip
    known, labels = {f.label: f for f in formats}, [f.label for f in formats]

    def run(key):
        label, mode = key
        policy = training.Policy("fp32")
        if label != "float32":
            own = {"weights": known[label], "activations": known[label], "errors": known[label]}
            policy = training.custom_policy(
                label, **own, weight_gradients=known[label], rounding=mode
            )
        found = training.train(policy, settings.data, settings=settings)
        right = found.accuracy if found.status == "finished" else 0.0
        return [100 * (1 - right), found.flushed_percent]

    keys = [("float32", MODES[0]), *((label, mode) for label in labels for mode in MODES)]
    (reference, _), *rows = measured("runs", keys, run)
    errors = np.reshape(rows, (len(labels), len(MODES), 2))
    lines = (
        Line("to nearest", labels, errors[:, 0, 0]),
        Line("stochastic", labels, errors[:, 1, 0]),
        Line("float32", labels, reference, BOUND),
    )
    ours = f"float32 {reference:.1f} %, stochastic {errors[:, 1, 0].min():.1f} to {errors[:, 1, 0].max():.1f} %, "
    ours += f"nearest {errors[:, 0, 0].min():.1f} to {errors[:, 0, 0].max():.1f} % ({data})"
    return Study(
        name="fixed_point_sr",
        title="Training in fixed point: stochastic rounding keeps what rounding to nearest loses",
        caption=(
            f"{data}, a network with hidden layers {'-'.join(map(str, hidden))}, {n} epochs, learning rate {lr:g}, "
            f"batches of {batch}, one run each (seed {seed}: the spread over seeds is not shown); every tensor rounded."
        ),
        settings={"formats": labels, "n": n, "data": data, "hidden": hidden, "lr": lr, "batch": batch, "seed": seed},
        facts={"float32": reference},
        arrays={"format": labels, "nearest": errors[:, 0, 0], "stochastic": errors[:, 1, 0],
                "nearest_flushed": errors[:, 0, 1]},
        panels=(Panel("format", "test error (%)", lines, kind="bars"),),
        published=(
            Published("test error", "float 1.4 %, stochastic near it, nearest fails (MNIST)",
                      "Gupta et al. (2015), as recalled", ours),
        ),
    )  # fmt: skip
