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
from softfloat.training.checkpoint import Checkpoint
from softfloat.training.checks import state_of
from softfloat.training.data import Dataset, load
from softfloat.training.monitor import Monitor
from softfloat.training.optimizers import SGD, AdamW
from softfloat.training.policy import ROLES, Policy
from softfloat.training.presets import as_policy, custom_policy
from softfloat.training.run import Settings, check_batch, train
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


def check_jobs(jobs):
    """Read what the jobs train on, once: what is missing or broken is an error now, not after hours of work."""
    wanted = {}
    for job in jobs:
        if job["kind"] == "images":
            settings = Settings(**job["settings"])
            needs = wanted.setdefault((settings.data, settings.data_dir), set())
            needs.add((settings.batch, job["examples"]))
    for (name, folder), needs in wanted.items():
        there = len(load(name, folder).labels)
        for size, examples in needs:
            check_batch(size, name, min(there, examples or there))


def run_job(job, progress=None, checkpoint=None):
    """The result of a job, plain values ready for JSON.

    progress : called with the share done, in 0..1.   checkpoint : a Checkpoint, for runs of more than seconds.
    """
    progress, checkpoint = progress or (lambda share: None), checkpoint or Checkpoint()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what the warnings say, the result says
        return KINDS[job["kind"]](job, progress, checkpoint)


def _images(job, progress, checkpoint):
    settings = Settings(**job["settings"], seed=job["seed"])
    data = dataset(settings.data, settings.data_dir, job["examples"])
    share = lambda name, step, steps, loss: progress(step / steps)  # noqa: E731
    policy = policy_of(job["recipe"], job["policy"])
    run = train(policy, data, settings=settings, progress=share, checkpoint=checkpoint)
    return run.to_dict()


# ---------------------------------------------------------------- step by step
def _stepwise(trainer, batches, steps, window, progress, evaluate, checkpoint):
    """{status, message, curve, seconds, ...}: `steps` steps, their mean loss and `evaluate()` every `window` of them.

    batches : batches(step) gives (inputs, targets).
    """
    kept = {"losses": [], "seconds": 0.0, "curve": []}  # with the trainer's, the state of the run

    def take(state):
        mine = state_of("a run", state["run"], kept)
        trainer.load_state_dict(state["trainer"])
        kept.update(mine)

    checkpoint.resume(take)
    found = {"status": "finished", "message": ""}
    try:
        for step in range(trainer.steps, steps):
            checkpoint.offer(lambda: {"run": kept, "trainer": trainer.state_dict()})
            inputs, targets = batches(step)
            start = time.perf_counter()
            kept["losses"].append(trainer.step(inputs, targets))
            kept["seconds"] += time.perf_counter() - start
            progress((step + 1) / steps)
            if (step + 1) % window == 0:
                point = {"step": step + 1, "loss": float(np.mean(kept["losses"])), **evaluate()}
                kept["curve"].append({k: v if math.isfinite(v) else None for k, v in point.items()})
                kept["losses"] = []
    except DivergenceError as error:
        found["status"], found["message"] = "diverged", str(error)
    monitor = trainer.monitor
    found |= {
        "curve": kept["curve"],
        "seconds": kept["seconds"],
        "steps": trainer.steps,
        "updates_lost_percent": monitor.lost_percent,
        "flushed_percent": monitor.percent("flushed"),
        "skipped_steps": 0 if trainer.scaler is None else trainer.scaler.skipped,
    }
    last = found["curve"][-1] if found["status"] == "finished" and found["curve"] else {}
    lowest = min((p["bits"] for p in found["curve"] if p["bits"] is not None), default=None)
    return found | {k: v for k, v in last.items() if k != "step"} | {"lowest": lowest}


def _symbols(job):
    """The (training, held-out) symbols of the text that the job was made for."""
    train_part, held_out, checksum = symbols_of(job["text"])
    if checksum != job["checksum"]:
        raise ValueError(f"{job['text'] or 'the text'} has changed since this job was made")
    return train_part, held_out


def _successors(job, progress, checkpoint):
    """The next character from the one before: one layer, one character in a step, plain SGD."""
    seed, count = job["seed"], len(SYMBOLS) + 1
    symbols, held_out = _symbols(job)
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

    return _stepwise(trainer, batches, job["steps"], job["window"], progress, evaluate, checkpoint)


def _language(job, progress, checkpoint):
    length, seed = job["length"], job["seed"]
    symbols, held_out = _symbols(job)
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
    return _stepwise(trainer, batches, job["steps"], job["window"], progress, evaluate, checkpoint)


def _updates(job, progress, checkpoint):
    """`trials` weights of 1.0, each updated `steps` times by `change`: the optimizer's own code, no network.

    A matter of seconds, which is done from the start again.
    """
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
