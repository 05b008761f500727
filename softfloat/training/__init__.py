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
network under one Policy, for loops of your own; docs/training.md has the layers, optimizers and the rest.

What is rounded: every tensor that a Policy names, once, where it leaves a layer; and, if the policy
has an accumulator or an engine, every product and every sum inside a layer.
"""

from softfloat.training.attention import MultiHeadAttention
from softfloat.training.cast import Caster
from softfloat.training.checkpoint import Checkpoint, load_state, save_state
from softfloat.training.command import train_command
from softfloat.training.data import Dataset
from softfloat.training.data import load as load_data
from softfloat.training.layers import (
    GELU,
    Conv2d,
    Dropout,
    Embedding,
    Flatten,
    Linear,
    Module,
    Position,
    ReLU,
    Residual,
    Sequential,
    perceptron,
)
from softfloat.training.losses import mean_squared_error, softmax_cross_entropy
from softfloat.training.monitor import Monitor
from softfloat.training.normalization import AvgPool2d, BatchNorm, LayerNorm, MaxPool2d
from softfloat.training.optimizers import SGD, Adam, AdamW
from softfloat.training.policy import Policy
from softfloat.training.presets import DEFAULT_RECIPES, PRESETS, as_policy, custom_policy
from softfloat.training.report import save_report
from softfloat.training.run import Report, Run, Settings, run_recipes, train
from softfloat.training.scaler import LossScaler
from softfloat.training.trainer import DivergenceError, Trainer, one_blas_thread

__all__ = [
    "DEFAULT_RECIPES",
    "GELU",
    "PRESETS",
    "SGD",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "BatchNorm",
    "Caster",
    "Checkpoint",
    "Conv2d",
    "Dataset",
    "DivergenceError",
    "Dropout",
    "Embedding",
    "Flatten",
    "LayerNorm",
    "Linear",
    "LossScaler",
    "MaxPool2d",
    "Module",
    "Monitor",
    "MultiHeadAttention",
    "Policy",
    "Position",
    "ReLU",
    "Report",
    "Residual",
    "Run",
    "Sequential",
    "Settings",
    "Trainer",
    "as_policy",
    "custom_policy",
    "load_data",
    "load_state",
    "mean_squared_error",
    "one_blas_thread",
    "perceptron",
    "run_recipes",
    "save_report",
    "save_state",
    "softmax_cross_entropy",
    "train",
    "train_command",
]
