"""Training runs: one run under a policy on a data set, and all recipes one after the other.

The same seed gives the same bits: initial weights, the order of images and every random bit of rounding are functions
of the seed.
"""

import contextlib
import math
import os
import time
import warnings
import zlib
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from softfloat.training.checkpoint import Checkpoint
from softfloat.training.checks import count, state_of
from softfloat.training.data import DATASETS, Dataset, load
from softfloat.training.monitor import BIAS, Monitor, range_of
from softfloat.training.optimizers import SGD
from softfloat.training.policy import ROLES
from softfloat.training.presets import DEFAULT_RECIPES, as_policy
from softfloat.training.trainer import DivergenceError, Trainer
from softfloat.training.words import ORDER, permutation, raw_words

DEFAULT_EPOCHS = {"digits": 40, "fashion-mnist": 2}


@dataclass(frozen=True)
class Settings:
    """What all runs of a report share.

    hidden : sizes of the hidden layers.   epochs : None stands for a number that suits the data.
    lr : learning rate.   batch : images in a step; what is left over of an epoch is not used.
    """

    data: str = "digits"
    data_dir: Any = None
    hidden: tuple = (64,)
    epochs: int | None = None
    lr: float = 1e-3
    batch: int = 16
    momentum: float = 0.0
    seed: int = 0

    def __post_init__(self):
        if not isinstance(self.data, str):
            raise TypeError(
                f"data must be the name of a data set, {' or '.join(DATASETS)}, got {self.data!r}"
            )
        if self.data_dir is not None and not isinstance(self.data_dir, (str, os.PathLike)):
            raise TypeError(f"data_dir must be a folder's path, got {self.data_dir!r}")
        hidden = (self.hidden,) if isinstance(self.hidden, (int, np.integer)) else self.hidden
        if not isinstance(hidden, (tuple, list)):
            raise TypeError(f"hidden must be a list of sizes, such as [64], got {hidden!r}")
        object.__setattr__(
            self, "hidden", tuple(count("a size in hidden", h, 1, 1 << 20) for h in hidden)
        )
        if self.epochs is None:
            object.__setattr__(self, "epochs", DEFAULT_EPOCHS.get(self.data, 1))
        count("epochs", self.epochs, 1, 1 << 20)
        count("batch", self.batch, 1, 1 << 20)
        count("seed", self.seed, 0, (1 << 64) - 1)
        SGD(self.lr, self.momentum)


@dataclass
class Run:
    """The result of one recipe. Percentages are of the run's whole account (`Monitor`).

    accuracy : on the test images, in 0..1.   loss : mean training loss of the last epoch. Both are
        NaN for a run that diverged.
    curve : one dict an epoch: epoch, loss, test_loss, accuracy.
    flushed : nonzero values that rounding made zero; overflowed : that left the range or were
        clipped at its end.
    seconds : time in training steps.   time_ratio : that time over fp32's, None without fp32.
    status : "finished" or "diverged", and then `message` names the first tensor that went bad.
    histograms : per role {exponent: count}, before rounding; "errors_unscaled" without loss scale.
    ranges : per rounded role the format, its smallest, smallest normal and largest value.
    """

    policy: str
    accuracy: float = math.nan
    loss: float = math.nan
    updates_lost_percent: float = 0.0
    flushed_percent: float = 0.0
    overflowed_percent: float = 0.0
    seconds: float = 0.0
    time_ratio: float | None = None
    status: str = "finished"
    message: str = ""
    steps: int = 0
    skipped_steps: int = 0
    loss_scale: float | None = None
    median_update_exponent: int | None = None
    formats: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    curve: list = field(default_factory=list)
    histograms: dict = field(default_factory=dict)
    ranges: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)

    def to_dict(self):
        """Plain Python values, ready for JSON: what is not finite is None."""
        return _plain(asdict(self))


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return str(value)


@dataclass
class Report:
    """All runs in the order of the recipes, their settings, and whether Ctrl-C ended them early."""

    runs: list
    settings: Settings
    interrupted: bool = False
    recipes: tuple = ()

    @property
    def missing(self):
        """Names of the recipes that were asked for and did not finish."""
        done = {run.policy for run in self.runs}
        return [name for name in self.recipes if name not in done]

    def to_dict(self):
        settings = _plain(asdict(self.settings))
        runs = [run.to_dict() for run in self.runs]
        return {"settings": settings, "interrupted": self.interrupted, "runs": runs}

    def note(self):
        """A paragraph: how large the updates were against the weights, and what that means."""
        measured = [r for r in self.runs if r.median_update_exponent is not None]
        if not measured:
            return ""
        run = next((r for r in measured if r.policy == "fp32"), measured[0])
        e = run.median_update_exponent
        return (
            f"At a learning rate of {self.settings.lr:g} half of all updates are smaller than "
            f"about 2**{e + 1} of their weight ({run.policy}). {_consequence(e)}"
        )


def _consequence(exponent):
    """What updates of that size mean for formats that round to nearest."""
    if exponent <= -9:
        return (
            "Rounding to nearest loses an update below half an ulp, 2**-12 to 2**-11 of the weight "
            "in binary16 and 2**-9 to 2**-8 in bfloat16. So it goes late in any long training; "
            "this setting is so from the start. With --lr 0.1 the updates are larger and the "
            "difference goes."
        )
    return (
        "Half an ulp is 2**-12 to 2**-11 of the weight in binary16 and 2**-9 to 2**-8 in bfloat16: "
        "rounding to nearest loses the smaller updates, but those that matter arrive. With --lr "
        "0.001 most are smaller than that, as late in any long training."
    )


def train(policy, data="digits", *, settings=None, progress=None, checkpoint=None):
    """Train one recipe. Returns a Run; a loss that is not finite ends it with status "diverged".

    policy : Policy or its name.   data : Dataset or its name.   settings : Settings.
    progress : called as progress(name, step, steps, loss) after every step.
    checkpoint : a Checkpoint, or the path of one: a run that was ended goes on from there, with the
        bits that it would have had. The file is deleted at the end.
    """
    policy = as_policy(policy)
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        raise TypeError(f"settings must be training.Settings(...) or None, got {settings!r}")
    data = data if isinstance(data, Dataset) else load(data, settings.data_dir)
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    run = _train(policy, data, settings, progress, checkpoint)
    checkpoint.remove()
    return run


def _train(policy, data, settings, progress, checkpoint):
    make = lambda: Trainer(  # noqa: E731
        policy, _sizes(data, settings), lr=settings.lr, momentum=settings.momentum,
        seed=settings.seed, monitor=Monitor(),
    )  # fmt: skip
    batch = settings.batch
    check_batch(batch, data.name, len(data.labels))
    _warm_up(make(), data, batch)
    trainer = make()
    run = Run(policy.name, formats=_plain(policy.labels()), settings=_plain(asdict(settings)))
    loop = _Loop(run, trainer, data, settings, checkpoint)
    checkpoint.resume(loop.take)
    try:
        while trainer.steps < loop.per_epoch * settings.epochs:
            loop.epoch(batch, progress)
    except DivergenceError as error:
        run.status, run.message = "diverged", f"{policy.name} {error}"
        run.loss = run.accuracy = math.nan
    _close_account(run, trainer, trainer.monitor)
    return run


def check_batch(batch, name, images):
    """Raise ValueError for a batch of more images than there are: it would be another one than was asked for."""
    if batch > images:
        raise ValueError(
            f"batch is {batch}, but {name} has {images} training images here; give {images} or less"
        )


class _Loop:
    """A run at one of its steps, the trainer's: what the epoch at hand has summed up, and the state of all of it."""

    def __init__(self, run, trainer, data, settings, checkpoint):
        self.run, self.trainer, self.data, self.settings = run, trainer, data, settings
        self.checkpoint = checkpoint
        self.per_epoch = len(data.labels) // settings.batch
        self.total = 0.0  # losses of the epoch so far
        self.task = None

    def epoch(self, batch, progress):
        """The steps of an epoch that are left, and its point of the curve."""
        run, trainer, data = self.run, self.trainer, self.data
        epoch, done = divmod(trainer.steps, self.per_epoch)
        order = permutation(raw_words(self.settings.seed, ORDER, epoch), len(data.labels))
        for k in range(done, self.per_epoch):
            self.checkpoint.offer(self.state)
            chosen = order[k * batch : (k + 1) * batch]
            images, labels = data.images[chosen], data.labels[chosen]
            start = time.perf_counter()
            loss = trainer.step(images, labels)
            run.seconds += time.perf_counter() - start
            self.total += loss
            if progress is not None:
                steps = self.per_epoch * self.settings.epochs
                progress(run.policy, trainer.steps, steps, loss)
        test_loss, run.accuracy = trainer.evaluate(data.test_images, data.test_labels)
        run.loss, self.total = self.total / self.per_epoch, 0.0
        point = {"epoch": epoch + 1, "loss": run.loss, "test_loss": test_loss}
        run.curve.append({**point, "accuracy": run.accuracy})

    def _task(self):
        """What a checkpoint must agree on with a run that goes on from it, beside the trainer's own."""
        if self.task is None:
            sums = [
                zlib.crc32(np.ascontiguousarray(a)) for a in (self.data.images, self.data.labels)
            ]
            self.task = {"settings": self.run.settings, "data": sums}
        return self.task

    def state(self):
        run = self.run
        kept = {"total": self.total, "seconds": run.seconds, "curve": run.curve}
        return {"run": kept, "task": self._task(), "trainer": self.trainer.state_dict()}

    def take(self, state):
        state_of("a run", state, ("run", "task", "trainer"))
        if state["task"] != self._task():
            raise ValueError(
                f"{self.checkpoint.path} is the checkpoint of a run with other settings or data; give another path"
            )
        kept = state_of("a run's sums", state["run"], ("total", "seconds", "curve"))
        self.trainer.load_state_dict(state["trainer"])
        self.total, self.run.seconds = kept["total"], kept["seconds"]
        self.run.curve = list(kept["curve"])


def _sizes(data, settings):
    return (data.images.shape[1], *settings.hidden, data.classes)


def _warm_up(trainer, data, batch):
    """Two steps that count for nothing: what they compile is no part of a recipe's time."""
    with contextlib.suppress(DivergenceError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(2):
            trainer.step(data.images[:batch], data.labels[:batch])
        trainer.evaluate(data.images[:batch], data.labels[:batch])


def _close_account(run, trainer, monitor):
    run.steps = trainer.steps
    run.updates_lost_percent = monitor.lost_percent
    run.flushed_percent = monitor.percent("flushed")
    run.overflowed_percent = monitor.percent("overflowed") + monitor.percent("saturated")
    run.counts = {role: dict(monitor.counts[role]) for role in ROLES}
    run.counts["lost"] = {"updates": monitor.updates, "lost": monitor.lost}
    run.median_update_exponent = monitor.median_ratio
    if trainer.scaler is not None:
        run.skipped_steps, run.loss_scale = trainer.scaler.skipped, trainer.scaler.scale
    run.histograms = {role: _sparse(monitor.histograms[role]) for role in ROLES}
    run.histograms["errors_unscaled"] = _sparse(monitor.unscaled)
    grids = trainer.policy.grids
    run.ranges = {role: range_of(grids[role]) for role in ROLES if grids[role] is not None}


def _sparse(counts):
    """{exponent: count} of the bins that are not empty."""
    return {int(i) - BIAS: int(counts[i]) for i in np.flatnonzero(counts)}


def run_recipes(recipes=None, *, progress=None, on_run=None, **settings):
    """Train every recipe, one after the other, on the same data with the same seed: the Report.

    recipes : names and Policies; by default DEFAULT_RECIPES.
    settings : the fields of Settings: data (a name or a Dataset), data_dir, hidden, epochs, lr,
        batch, momentum, seed.
    progress : called as progress(name, step, steps, loss) after every step.
    on_run : called with the Report so far after every run, to keep what is finished.

    Ctrl-C ends the run at hand; the Report then holds those that finished, and `interrupted` is
    True.
    """
    if isinstance(recipes, str) or not (recipes is None or hasattr(recipes, "__iter__")):
        raise TypeError(f"recipes must be a list of names and Policies, got {recipes!r}")
    unknown = sorted(set(settings) - {f.name for f in fields(Settings)})
    if unknown:
        known = ", ".join(f.name for f in fields(Settings))
        raise TypeError(f"unknown setting {unknown[0]!r}; known: {known}")
    policies = [as_policy(r) for r in (DEFAULT_RECIPES if recipes is None else recipes)]
    names = [policy.name for policy in policies]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"give one or more recipes of different names, got {names}")
    data = settings.pop("data", "digits")
    ready = isinstance(data, Dataset)
    settings = Settings(data=data.name if ready else data, **settings)
    data = data if ready else load(data, settings.data_dir)
    report = Report([], settings, recipes=tuple(names))
    try:
        for policy in policies:
            run = train(policy, data, settings=settings, progress=progress)
            report.runs.append(run)
            _compare_times(report.runs)
            if on_run is not None:
                on_run(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def _compare_times(runs):
    reference = next((r for r in runs if r.policy == "fp32" and r.seconds > 0), None)
    for run in runs:
        if reference is not None and run.status == reference.status == "finished":
            run.time_ratio = run.seconds / reference.seconds
