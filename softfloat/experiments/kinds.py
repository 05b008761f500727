"""What a job runs, by its kind, and policies from the tables that jobs and TOML files hold.

Kinds: "images" (softfloat.training.train), "language" (a model of characters), "successors" (the simplest such model),
"updates" (one weight, a thousand small updates).
"""

import functools
import math
import time
import warnings
from dataclasses import fields, replace

import numpy as np

from softfloat.experiments.language import SYMBOLS, batch, network, symbols_of
from softfloat.training.cast import Caster
from softfloat.training.data import Dataset, load
from softfloat.training.monitor import Monitor
from softfloat.training.optimizers import SGD, AdamW
from softfloat.training.policy import ROLES, Policy
from softfloat.training.presets import as_policy, custom_policy
from softfloat.training.run import Settings, train
from softfloat.training.trainer import DivergenceError, Trainer


def policy_of(name, table):
    """The Policy of a recipe's table: fields of Policy, `base` (a recipe to start from) or `format` (of every role)."""
    table = dict(table)
    known = [f.name for f in fields(Policy) if f.name not in ("name", "source")]
    for key in table:
        if key not in (*known, "base", "format"):
            raise ValueError(
                f"recipe {name!r}: unknown {key!r}; known: base, format, {', '.join(known)}"
            )
    base, fmt = table.pop("base", None), table.pop("format", None)
    if base is not None and fmt is not None:
        raise ValueError(f"recipe {name!r}: give base or format, not both")
    if base is not None:
        return replace(as_policy(base), name=name, **table)
    if fmt is not None:
        return Policy(name, **{**dict.fromkeys(ROLES, fmt), **table})
    return custom_policy(name, **table)


@functools.lru_cache(maxsize=1)
def dataset(name, data_dir, examples):
    """A data set, its first `examples` training images only where that is given."""
    whole = load(name, data_dir)
    if examples is None or examples >= len(whole.labels):
        return whole
    first = whole.images[:examples].copy(), whole.labels[:examples].copy()  # frees the rest
    return Dataset(whole.name, *first, whole.test_images, whole.test_labels, whole.classes)


def run_job(job, progress=None):
    """The result of a job, plain values ready for JSON. progress : called with the share done, in 0..1."""
    progress = progress or (lambda share: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what the warnings say, the result says
        return KINDS[job["kind"]](job, progress)


def _images(job, progress):
    settings = Settings(**job["settings"], seed=job["seed"])
    data = dataset(settings.data, settings.data_dir, job["examples"])
    share = lambda name, step, steps, loss: progress(step / steps)  # noqa: E731
    policy = policy_of(job["recipe"], job["policy"])
    return train(policy, data, settings=settings, progress=share).to_dict()


# ---------------------------------------------------------------- step by step
def _stepwise(trainer, batches, steps, window, progress, evaluate):
    """{status, message, curve, seconds, ...}: `steps` steps, their mean loss and `evaluate()` every `window` of them.

    batches : batches(step) gives (inputs, targets).
    """
    found = {"status": "finished", "message": "", "curve": []}
    losses, seconds = [], 0.0
    try:
        for step in range(steps):
            inputs, targets = batches(step)
            start = time.perf_counter()
            losses.append(trainer.step(inputs, targets))
            seconds += time.perf_counter() - start
            progress((step + 1) / steps)
            if (step + 1) % window == 0:
                point = {"step": step + 1, "loss": float(np.mean(losses)), **evaluate()}
                found["curve"].append(
                    {k: v if math.isfinite(v) else None for k, v in point.items()}
                )
                losses = []
    except DivergenceError as error:
        found["status"], found["message"] = "diverged", str(error)
    monitor = trainer.monitor
    found |= {
        "seconds": seconds,
        "steps": trainer.steps,
        "updates_lost_percent": monitor.lost_percent,
        "flushed_percent": monitor.percent("flushed"),
        "skipped_steps": 0 if trainer.scaler is None else trainer.scaler.skipped,
    }
    last = found["curve"][-1] if found["status"] == "finished" and found["curve"] else {}
    lowest = min((p["bits"] for p in found["curve"] if p["bits"] is not None), default=None)
    return found | {k: v for k, v in last.items() if k != "step"} | {"lowest": lowest}


def _successors(job, progress):
    """The next character from the one before: one layer, one character in a step, plain SGD."""
    seed, count = job["seed"], len(SYMBOLS) + 1
    symbols, held_out, _ = symbols_of(job["text"])
    policy, rows = policy_of(job["recipe"], job["policy"]), np.eye(count, dtype=np.float32)
    trainer = Trainer(
        policy, (count, count), optimizer=SGD(job["lr"]), seed=seed, monitor=Monitor()
    )
    places = np.linspace(0, len(held_out) - 2, job["held_out"]).astype(np.int64)
    test = rows[held_out[places]], held_out[places + 1].astype(np.int64)

    def evaluate():
        loss, accuracy = trainer.evaluate(*test)
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    def batches(step):
        inputs, targets = batch(symbols, seed, step, 1, 1)
        return rows[inputs[0]], targets[0]

    return _stepwise(trainer, batches, job["steps"], job["window"], progress, evaluate)


def _language(job, progress):
    length, seed = job["length"], job["seed"]
    symbols, held_out, _ = symbols_of(job["text"])
    model = network(job["width"], job["heads"], job["blocks"], length)
    policy = policy_of(job["recipe"], job["policy"])
    trainer = Trainer(
        policy,
        model,
        optimizer=AdamW(job["lr"]),
        seed=seed,
        monitor=Monitor(),
    )
    places = np.linspace(0, len(held_out) - length - 1, job["held_out"]).astype(np.int64)
    windows = held_out[places[:, None] + np.arange(length + 1)].astype(np.int64)

    def evaluate():
        loss, accuracy = trainer.evaluate(windows[:, :-1], windows[:, 1:], 64)
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    batches = lambda step: batch(symbols, seed, step, job["batch"], length)  # noqa: E731
    return _stepwise(trainer, batches, job["steps"], job["window"], progress, evaluate)


def _updates(job, progress):
    """`trials` weights of 1.0, each updated `steps` times by `change`: the optimizer's own code, no network."""
    policy = policy_of(job["recipe"], job["policy"])
    cast, optimizer = Caster(policy, job["seed"]), SGD(job["change"])
    key, gradient = "weight.value", np.full(job["trials"], -1.0, np.float32)
    parameters, curve = {key: np.ones(job["trials"], np.float32)}, []
    for step in range(job["steps"]):
        cast.step = step
        optimizer.step(parameters, {key: gradient}, cast)
        progress((step + 1) / job["steps"])
        if (step + 1) % job["window"] == 0:
            w = parameters[key].astype(np.float64)
            curve.append({"step": step + 1, "weight": float(w.mean()), "spread": float(w.std())})
    return {
        "status": "finished",
        "message": "",
        "curve": curve,
        **{k: v for k, v in curve[-1].items() if k != "step"},
    }


KINDS = {"images": _images, "successors": _successors, "language": _language, "updates": _updates}
