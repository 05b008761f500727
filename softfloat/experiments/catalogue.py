"""Published experiments as lists of jobs, with what their authors say and what our runs must show to agree.

Sources: Gupta, Agrawal, Gopalakrishnan, Narayanan, Deep Learning with Limited Numerical Precision (2015); Zamirai,
Zhang, Aberger, De Sa, Revisiting BFloat16 Training (2020); Micikevicius et al., Mixed Precision Training (2018);
Micikevicius et al., FP8 Formats for Deep Learning (2022). Networks, data and sizes are our own and smaller.
"""

from collections.abc import Callable
from dataclasses import dataclass

from softfloat.experiments.kinds import policy_of
from softfloat.experiments.language import checked_text
from softfloat.experiments.sweep import image_job

GUPTA = "Gupta et al. (2015)"
OURS = "our own question"
ZAMIRAI = "Zamirai et al. (2020)"
MIXED = "Micikevicius et al. (2018)"
FP8 = "Micikevicius et al. (2022)"
FASHION, DIGITS = "fashion-mnist", "digits"
UPDATES, FIXED, PARTS, WEIGHTS, SCALING, RISING, LANGUAGE = (
    "updates", "fixed-point", "fixed-point-parts", "bfloat16-weights", "loss-scaling", "rising-loss", "language-model",
)  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """What a source says, and whether our figures agree.

    check : a function of {recipe: {measure: mean}} that gives (our figures in words, whether they agree).
    """

    text: str
    source: str
    check: Callable


@dataclass(frozen=True)
class Options:
    """quick : sizes of seconds, for tests.   data, data_dir, text : what to train on, None for the default."""

    seeds: tuple = (0, 1, 2)
    quick: bool = False
    data: str = DIGITS
    data_dir: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Experiment:
    """A published experiment, or one told of.

    recipes : {name: table of `policy_of`}.   job : a function of (name, table, Options, seed).   claims : Claims.
    measures : {measure: (heading, digits)}, the table; the first one is drawn.   curve : the measure that is drawn over
    the steps, by its key, and the label of its axis.   setting : a function of a job, what was run in words.
    histogram : recipes whose errors are drawn against the range.
    """

    name: str
    title: str
    recipes: dict
    job: Callable
    claims: tuple
    measures: dict
    curve: tuple
    setting: Callable
    histogram: tuple = ()

    def jobs(self, options):
        """All jobs, seed by seed, so that a part of them is a smaller experiment."""
        return [
            self.job(name, table, options, seed)
            for seed in options.seeds
            for name, table in self.recipes.items()
        ]


def _near(means, a, b, tolerance, measure="accuracy"):
    x, y = means[a][measure], means[b][measure]
    if x is None or y is None:
        return f"{a} or {b} diverged", False
    return f"{a} {x:.3f}, {b} {y:.3f}", abs(x - y) <= tolerance


def _below(means, a, b, gap, measure="accuracy"):
    """a is worse than b by `gap` or more, or did not end at all."""
    x, y = means[a][measure], means[b][measure]
    if x is None:
        return f"{a} diverged", True
    return f"{a} {x:.3f}, {b} {y:.3f}", y - x >= gap


def _images(lr, epochs=3):
    """A perceptron of one hidden layer: 784-256-10 on 20000 images of Fashion-MNIST, 64-64-10 on the digits."""

    def job(recipe, table, options, seed):
        fashion, quick = options.data == FASHION, options.quick
        settings = {
            "data": options.data, "data_dir": options.data_dir, "lr": lr, "batch": 64 if fashion else 32,
            "hidden": [16 if quick else 256 if fashion else 64],
            "epochs": 1 if quick else epochs if fashion else 10 * epochs,
        }  # fmt: skip
        checked = image_job(recipe, table, settings, seed)
        return checked | {"examples": 600 if quick else 20000}

    return job


def _image_setting(job):
    s = job["settings"]
    return (
        f"{s['data']}, at most {job['examples']} training images, hidden layer {s['hidden'][0]}, {s['epochs']} epochs, "
        f"batch {s['batch']}, SGD with learning rate {s['lr']:g}"
    )


# ---------------------------------------------------------------- one weight, many small updates
def _update_job(recipe, table, options, seed):
    policy_of(recipe, table)
    trials = 200 if options.quick else 5000
    return {
        "kind": "updates", "recipe": recipe, "policy": table, "seed": seed, "trials": trials, "steps": 1000,
        "change": 1e-3, "window": 50,
    }  # fmt: skip


_UPDATES = Experiment(
    UPDATES,
    "A weight of 1 and a thousand updates of 0.001 in bfloat16",
    {
        "nearest": {"base": "pure_bfloat16"},
        "stochastic": {"base": "bfloat16_stochastic"},
        "kahan": {"base": "bfloat16_kahan"},
        "fp32": {"base": "fp32"},
    },
    _update_job,
    (
        Claim(
            "rounding to nearest cancels small updates", ZAMIRAI,
            lambda m: (f"the weight ends at {m['nearest']['weight']:.4f}", m["nearest"]["weight"] == 1.0),
        ),
        Claim(
            "stochastic rounding keeps them in the mean", ZAMIRAI,
            lambda m: (
                f"mean {m['stochastic']['weight']:.3f}, sd {m['stochastic']['spread']:.3f}",
                abs(m["stochastic"]["weight"] - 2) < 0.05,
            ),
        ),
        Claim(
            "so does Kahan's sum", ZAMIRAI,
            lambda m: (f"the weight ends at {m['kahan']['weight']:.4f}", abs(m["kahan"]["weight"] - 2) < 0.02),
        ),
    ),
    {"weight": ("weight", 4), "spread": ("sd of trials", 4)},
    ("weight", "weight, mean of the trials"),
    lambda job: f"{job['trials']} independent weights for each seed, {job['steps']} updates by the optimizer's code",
)  # fmt: skip

# ---------------------------------------------------------------- fixed point
_FIXED = Experiment(
    FIXED,
    "16-bit fixed point: nearest against stochastic rounding",
    {
        "fp32": {"base": "fp32"},
        "Q3.12 nearest": {"format": "Q3.12"},
        "Q3.12 stochastic": {"base": "fixed_point"},
        "Q7.8 nearest": {"format": "Q7.8"},
        "Q7.8 stochastic": {"format": "Q7.8", "rounding": "stochastic", "update_rounding": "stochastic"},
    },
    _images(lr=0.1),
    (
        Claim(
            "rounded stochastically, 16 bits train with little to no degradation", GUPTA,
            lambda m: _near(m, "Q3.12 stochastic", "fp32", 0.03),
        ),
        Claim(
            "the rounding scheme is crucial: to nearest, the accuracy falls", GUPTA,
            lambda m: _below(m, "Q3.12 nearest", "fp32", 0.03),
        ),
        Claim(
            "to nearest, fewer fractional bits are worse; with 8 nothing is learned", OURS,
            lambda m: _below(m, "Q7.8 nearest", "Q3.12 nearest", 0.03),
        ),
    ),
    {"accuracy": ("accuracy", 3), "loss": ("loss", 3), "flushed_percent": ("flushed, %", 1)},
    ("loss", "training loss, mean of the epoch"),
    _image_setting,
)  # fmt: skip

# What is at fault in Q3.12 to nearest? Errors below 2**-13 are lost, and with a batch of 64 those are the probabilities
# below 1/128 of wrong classes. What the right class gains is no longer taken from the others: logits grow together,
# which changes nothing, until they meet the end of the range.
_PARTS = Experiment(
    PARTS,
    "16-bit fixed point to nearest: which tensor is at fault",
    {
        "fp32": {"base": "fp32"},
        "all to nearest": {"format": "Q3.12"},
        "errors stochastic": {"format": "Q3.12", "errors": "Q3.12 stochastic"},
        "all but errors stochastic": {"base": "fixed_point", "errors": "Q3.12 ties_to_even"},
        "logits in Q4.12": {"format": "Q3.12", "logits": "Q4.12"},
        "activations in fp32": {"format": "Q3.12", "activations": "fp32"},
    },
    _images(lr=0.1),
    (
        Claim(
            "errors rounded stochastically, and nothing else, repair it", OURS,
            lambda m: _near(m, "errors stochastic", "fp32", 0.03),
        ),
        Claim(
            "all else rounded stochastically does not", OURS,
            lambda m: _below(m, "all but errors stochastic", "fp32", 0.03),
        ),
        Claim(
            "the harm is done at the end of the logits' range: one bit more, and there is none", OURS,
            lambda m: _near(m, "logits in Q4.12", "fp32", 0.03),
        ),
    ),
    {
        "accuracy": ("accuracy", 3), "loss": ("loss", 3), "errors_flushed_percent": ("errors flushed, %", 1),
        "logits_clipped_percent": ("logits clipped, %", 1),
    },
    ("loss", "training loss, mean of the epoch"),
    _image_setting,
)  # fmt: skip

# ---------------------------------------------------------------- weights in bfloat16
_WEIGHTS = Experiment(
    WEIGHTS,
    "Weights in bfloat16: how the update is rounded",
    {
        "fp32": {"base": "fp32"},
        "nearest": {"base": "pure_bfloat16"},
        "stochastic": {"base": "bfloat16_stochastic"},
        "kahan": {"base": "bfloat16_kahan"},
        "fp32 master": {"base": "mixed_bfloat16"},
    },
    _images(lr=0.01),
    (
        Claim(
            "nearest rounding of weight updates cancels small ones, which degrades convergence", ZAMIRAI,
            lambda m: _below(m, "nearest", "fp32", 0.01),
        ),
        Claim("stochastic rounding comes back to fp32", ZAMIRAI, lambda m: _near(m, "stochastic", "fp32", 0.015)),
        Claim("and so does Kahan's sum", ZAMIRAI, lambda m: _near(m, "kahan", "fp32", 0.015)),
        Claim("and a master copy in fp32", MIXED, lambda m: _near(m, "fp32 master", "fp32", 0.015)),
    ),
    {
        "accuracy": ("accuracy", 3), "loss": ("loss", 3), "updates_lost_percent": ("updates lost, %", 1),
    },
    ("loss", "training loss, mean of the epoch"),
    _image_setting,
)  # fmt: skip

# ---------------------------------------------------------------- loss scaling
_SCALING = Experiment(
    SCALING,
    "Activation gradients in eight bits, with and without a loss scale",
    {
        "fp32": {"base": "fp32"},
        "e4m3": {"errors": "float8_e4m3", "saturate": True},
        "e4m3 x 1024": {"errors": "float8_e4m3", "saturate": True, "loss_scale": 1024},
        "e5m2": {"errors": "float8_e5m2", "saturate": True},
        "e5m2 x 1024": {"errors": "float8_e5m2", "saturate": True, "loss_scale": 1024},
    },
    _images(lr=0.1),
    (
        Claim(
            "gradients below the range become zero, and accuracy is lost", MIXED,
            lambda m: _below(m, "e4m3", "fp32", 0.01),
        ),
        Claim(
            "a constant factor on the loss brings them back", MIXED,
            lambda m: _near(m, "e4m3 x 1024", "fp32", 0.01),
        ),
        Claim(
            "E5M2, which is recommended for gradients, hardly needs it", FP8,
            lambda m: _near(m, "e5m2", "fp32", 0.01),
        ),
    ),
    {
        "accuracy": ("accuracy", 3), "loss": ("loss", 3), "errors_flushed_percent": ("errors flushed, %", 1),
    },
    ("loss", "training loss, mean of the epoch"),
    _image_setting,
    histogram=("e4m3", "e4m3 x 1024"),
)  # fmt: skip


# ---------------------------------------------------------------- a loss that falls and then rises
def _rising_job(recipe, table, options, seed):
    policy_of(recipe, table)
    steps, window = (100, 20) if options.quick else (10000, 500)
    return {
        "kind": "successors", "recipe": recipe, "policy": table, "seed": seed, "steps": steps, "window": window,
        "lr": 0.05, "held_out": 4000, "text": options.text, "checksum": checked_text(options.text, 16),
    }  # fmt: skip


def _rise(means, recipe):
    last, lowest = means[recipe]["bits"], means[recipe]["lowest"]
    if last is None or lowest is None:
        return f"{recipe} diverged", True
    return f"{recipe}: lowest {lowest:.2f} bits, at the end {last:.2f}", last > lowest + 0.1


_RISING = Experiment(
    RISING,
    "Pure 16-bit training: a loss that falls and then rises",
    {
        "fp32": {"base": "fp32"},
        "pure bfloat16": {"base": "pure_bfloat16"},
        "pure binary16": {"base": "pure_binary16"},
        "stochastic": {"base": "bfloat16_stochastic"},
        "kahan": {"base": "bfloat16_kahan"},
        "fp32 master": {"base": "mixed_bfloat16"},
    },
    _rising_job,
    (
        Claim(
            "in 16 bits alone the loss falls, and then rises", "common experience",
            lambda m: _rise(m, "pure bfloat16"),
        ),
        Claim("fp32 master weights prevent it", MIXED, lambda m: _near(m, "fp32 master", "fp32", 0.05, "bits")),
        Claim("so does stochastic rounding", ZAMIRAI, lambda m: _near(m, "stochastic", "fp32", 0.05, "bits")),
        Claim("and Kahan's sum", ZAMIRAI, lambda m: _near(m, "kahan", "fp32", 0.05, "bits")),
    ),
    {
        "bits": ("bits per character", 3), "lowest": ("lowest", 3), "updates_lost_percent": ("updates lost, %", 1),
    },
    ("bits", "bits per character, held-out text"),
    lambda job: (
        "the next character from the one before, one linear layer of 97 x 97, one character in a step, "
        f"{job['steps']} steps of SGD with learning rate {job['lr']:g}; text "
        f"{job['text'] or 'of the Python standard library'} ({job['checksum']})"
    ),
)  # fmt: skip

# ---------------------------------------------------------------- a language model
# As FP8 training is done: the operands of linear layers are in FP8; what goes from layer to layer, the inside of
# attention (scores, softmax) and weights that no product reads stay in float32.
_WIDE_ACTIVATIONS = ("residual", "linear", "embedding", "position", "attention")
_WIDE_WEIGHTS = ("embedding", "position", "layer_norm")
_OPERANDS_ONLY = {
    f"*:{op}": {
        **({"activations": "binary32"} if op in _WIDE_ACTIVATIONS else {}),
        **({"weights": "binary32"} if op in _WIDE_WEIGHTS else {}),
    }
    for op in (*_WIDE_ACTIVATIONS, "layer_norm")
}


def _language_job(recipe, table, options, seed):
    policy_of(recipe, table)
    size = {
        "width": 64,
        "heads": 4,
        "blocks": 2,
        "length": 64,
        "batch": 16,
        "steps": 800,
        "window": 50,
    }
    if options.quick:
        size = {
            "width": 16,
            "heads": 2,
            "blocks": 1,
            "length": 16,
            "batch": 4,
            "steps": 20,
            "window": 10,
        }
    return {
        "kind": "language", "recipe": recipe, "policy": table, "seed": seed, **size, "lr": 3e-3, "held_out": 256,
        "text": options.text, "checksum": checked_text(options.text, size["length"]),
    }  # fmt: skip


_LANGUAGE = Experiment(
    LANGUAGE,
    "A language model of characters, with attention",
    {
        "fp32": {"base": "fp32"},
        "bfloat16": {"base": "pure_bfloat16"},
        "mixed bfloat16": {"base": "mixed_bfloat16"},
        "mixed binary16": {"base": "mixed_binary16"},
        "fp8 operands": {"base": "fp8_hybrid", "overrides": _OPERANDS_ONLY},
        "fp8 everywhere": {"base": "fp8_hybrid"},
    },
    _language_job,
    (
        Claim(
            "bfloat16 for everything trains worse than fp32", ZAMIRAI,
            lambda m: _below(m, "fp32", "bfloat16", 0.01, "bits"),
        ),
        Claim(
            "16 bits with fp32 master weights match fp32", MIXED,
            lambda m: _near(m, "mixed bfloat16", "fp32", 0.03, "bits"),
        ),
        Claim(
            "FP8 for the operands of linear layers, E4M3 forward and E5M2 backward, matches 16 bits", FP8,
            lambda m: _near(m, "fp8 operands", "mixed bfloat16", 0.03, "bits"),
        ),
    ),
    {"bits": ("bits per character", 3), "loss": ("loss", 3), "updates_lost_percent": ("updates lost, %", 1)},
    ("bits", "bits per character, held-out text"),
    lambda job: (
        f"{job['blocks']} blocks of attention, width {job['width']}, sequences of {job['length']}, "
        f"batch {job['batch']}, {job['steps']} steps of AdamW, learning rate {job['lr']:g}; text "
        f"{job['text'] or 'of the Python standard library'} ({job['checksum']})"
    ),
)  # fmt: skip

EXPERIMENTS = {
    e.name: e for e in (_UPDATES, _FIXED, _PARTS, _WEIGHTS, _SCALING, _RISING, _LANGUAGE)
}


def experiment(name):
    """The Experiment of that name. Raises ValueError that lists the names."""
    key = str(name).strip().replace("_", "-")
    if key not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[key]


def means(results, measures):
    """{recipe: {measure: mean over seeds, None if a run of the recipe diverged}}."""
    found = {}
    for name, runs in results.items():
        ended = all(run["status"] == "finished" for run in runs)
        columns = {m: [run.get(m) for run in runs] for m in measures}
        found[name] = {
            m: sum(values) / len(values) if ended and None not in values else None
            for m, values in columns.items()
        }
    return found
