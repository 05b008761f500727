"""Training in low and mixed precision: policies, loss scaling, and runs that compare recipes.

>>> from softfloat import training
>>> training.PRESETS["mixed_binary16"].labels()["errors"]
'binary16'

`run_recipes(recipes=None, *, progress=None, on_run=None, data="digits", data_dir=None,
hidden=(64,), epochs=None, lr=1e-3, batch=16, momentum=0.0, seed=0)` trains every recipe on the same
data and returns a Report; `report.runs` are Run objects with policy, accuracy, loss and more,
`report.to_dict()` is ready for JSON, `save_report(report, folder)` writes JSON and CSV, and
`softfloat.plot.training_figure(report, path)` draws it.

`train_command(...)` is the whole of `softfloat train`: progress, table, files. A `Trainer` is one
network under one Policy, for loops of your own.

What is rounded: every tensor that a Policy names, once, where it leaves a layer. Products and sums
inside a layer run in NumPy's float32 (float64 for formats that need it) and are not rounded one by
one.
"""

from softfloat.training.cast import Caster
from softfloat.training.command import train_command
from softfloat.training.data import Dataset
from softfloat.training.data import load as load_data
from softfloat.training.monitor import Monitor
from softfloat.training.network import SGD, Linear, Network, ReLU, softmax_cross_entropy
from softfloat.training.policy import DEFAULT_RECIPES, PRESETS, Policy, as_policy, custom_policy
from softfloat.training.report import save_report
from softfloat.training.run import (
    DivergenceError,
    Report,
    Run,
    Settings,
    Trainer,
    run_recipes,
    train,
)
from softfloat.training.scaler import LossScaler

__all__ = [
    "DEFAULT_RECIPES",
    "PRESETS",
    "SGD",
    "Caster",
    "Dataset",
    "DivergenceError",
    "Linear",
    "LossScaler",
    "Monitor",
    "Network",
    "Policy",
    "ReLU",
    "Report",
    "Run",
    "Settings",
    "Trainer",
    "as_policy",
    "custom_policy",
    "load_data",
    "run_recipes",
    "save_report",
    "softmax_cross_entropy",
    "train",
    "train_command",
]
