"""Imports point downwards, none runs in a circle, and none loads an optional library."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import softfloat

PACKAGE = Path(softfloat.__file__).parent
LAYERS = [
    {"_jit", "bits", "random"},
    {"format", "rounding", "fixed_point", "fast", "wide"},
    {"formats", "codec", "operands"},
    {"ops"},
    {"backends"},
    {
        "functional",
        "in_place",
        "comparison",
        "elementary",
        "engines",
        "engine_products",
        "reductions",
        "products",
        "contractions",
        "context",
        "status",
    },
    {"array", "audit", "numba_types", "scalar", "cuda", "_late"},
    {"analysis", "experiments", "training", "plot", "torch", "dask", "cli", "__main__"},
]
OPTIONAL = [
    "numba.cuda",
    "cupy",
    "torch",
    "matplotlib",
    "dask",
    "rich",
    "typer",
    "sklearn",
    "scipy",
]


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(p for p in parts if p != "__init__") or "__init__", path


def layer_of(name):
    top = name.split(".")[0]
    return next((i for i, names in enumerate(LAYERS) if top in names), None)


def module_level(body):
    """Statements that run at import; what a function imports when called is deferred on purpose."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield node
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from module_level(getattr(node, field, []) or [])


def imported(path, name, deferred=False):
    """Names of the package's own modules that a module imports."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if deferred else module_level(tree.body):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".")[: None if path.name == "__init__.py" else -1]
                package = package[: len(package) - node.level + 1]
                base = ".".join(
                    ["softfloat", *[p for p in package if p], *([base] if base else [])]
                )
            for alias in node.names:
                found.add(f"{base}.{alias.name}")
                found.add(base)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    known = {m for m, _ in modules()}
    own = {f.removeprefix("softfloat.") for f in found if f.startswith("softfloat.")}
    return own & known


@pytest.mark.parametrize(
    ("name", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_module_imports_only_lower_layers(name, path):
    if name == "__init__":
        return
    here = layer_of(name)
    assert here is not None, f"{name} belongs to no layer of design.md; add it to LAYERS"
    for other in imported(path, name, deferred=True):
        assert layer_of(other) <= here, (
            f"{name} (layer {here}) imports {other} (layer {layer_of(other)})"
        )


def test_imports_run_in_no_circle():
    graph = {name: imported(path, name) for name, path in modules() if name != "__init__"}
    done, open_ = set(), []

    def visit(name):
        assert name not in open_, " -> ".join([*open_[open_.index(name) :], name])
        if name in done:
            return
        open_.append(name)
        for other in sorted(graph.get(name, ()) - {name}):
            visit(other)
        open_.pop()
        done.add(name)

    for name in graph:
        visit(name)


def test_the_import_walker_sees_imports():
    """A walker that finds nothing would pass every test above."""
    graph = {name: imported(path, name) for name, path in modules()}
    assert "format" in graph["formats"]
    assert sum(map(len, graph.values())) > 15


def test_import_loads_no_optional_library():
    script = (
        "import sys, numba; before = set(sys.modules); import softfloat;"
        f"print([m for m in {OPTIONAL!r} if m in sys.modules and m not in before])"
    )
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "[]"


def test_import_compiles_nothing():
    script = (
        "import numba.core.event as event\n"
        "with event.install_recorder('numba:compile') as recorder:\n"
        "    import softfloat\n"
        "print(len(recorder.buffer))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "0"


def test_all_names_exist_and_star_import_works():
    for name in softfloat.__all__:
        assert hasattr(softfloat, name), name
    subprocess.run([sys.executable, "-c", "from softfloat import *; quantize, Format"], check=True)
