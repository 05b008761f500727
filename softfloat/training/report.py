"""Results as files: JSON with everything, CSV with the table and the curves, each written whole."""

import csv
import io
import json
import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path

TABLE = (
    "policy",
    "status",
    "accuracy",
    "loss",
    "updates_lost_percent",
    "flushed_percent",
    "overflowed_percent",
    "time_ratio",
    "seconds",
    "steps",
    "skipped_steps",
    "loss_scale",
)


def write_atomically(path, content):
    """Write bytes or text so that a reader, or a kill, finds the old file or the whole new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes private files
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_folder(path):
    """Raise ValueError unless files can be written into this folder, or it can be made. Nothing is made here."""
    folder = Path(path)
    try:
        if not str(path):
            raise ValueError("the name is empty")
        there = next(p for p in (folder, *folder.absolute().parents) if _there(p))
        reason = None if there.is_dir() else f"{there} is no folder"
        if reason is None and not os.access(there, os.W_OK | os.X_OK):
            reason = f"{there} cannot be written to"
    except (OSError, ValueError) as error:  # a name too long, or one with a NUL
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise ValueError(
            f"results cannot be written to {str(path)!r}: {reason}; give a folder with --out"
        )


def _there(path):
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def environment():
    """Versions that a result may depend on."""
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("numpy", "numba", "softfloat-numba"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def save_report(report, directory):
    """Write results.json, results.csv and curves.csv; returns their paths."""
    directory = Path(directory)
    content = {**report.to_dict(), "environment": environment()}
    runs = content["runs"]
    curves = [{"policy": r["policy"], **point} for r in runs for point in r["curve"]]
    files = {
        "results.json": json.dumps(content, indent=1, allow_nan=False) + "\n",
        "results.csv": csv_text(TABLE, runs),
        "curves.csv": csv_text(("policy", "epoch", "loss", "test_loss", "accuracy"), curves),
    }
    for name, text in files.items():
        write_atomically(directory / name, text)
    return [directory / name for name in files]


def csv_text(columns, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
