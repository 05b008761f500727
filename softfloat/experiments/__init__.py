"""Experiments: sweeps over formats, seeds and settings, and published ones run again.

`softfloat sweep FILE.toml` and `softfloat reproduce NAME` are `sweep_command` and `reproduce_command`; `read_sweep`,
`run_jobs` and `Store` are their parts, for programs. docs/experiments.md says what each experiment gave.
"""

from softfloat.experiments.catalogue import EXPERIMENTS, Options, experiment
from softfloat.experiments.command import reproduce_command, sweep_command
from softfloat.experiments.jobs import Store, run_jobs
from softfloat.experiments.kinds import policy_of, run_job
from softfloat.experiments.sweep import Sweep, read_sweep, save_sweep, summary, sweep_of

__all__ = [
    "EXPERIMENTS",
    "Options",
    "Store",
    "Sweep",
    "experiment",
    "policy_of",
    "read_sweep",
    "reproduce_command",
    "run_job",
    "run_jobs",
    "save_sweep",
    "summary",
    "sweep_command",
    "sweep_of",
]
