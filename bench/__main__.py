"""python -m bench [suite ...]: tables of ratios, their spread over rounds, and the goals."""

import importlib
import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

SUITES = (
    "quantize",
    "arithmetic",
    "elementary",
    "sums",
    "analysis",
    "matmul",
    "convolution",
    "engines",
    "training",
    "torch",
    "array",
    "kernels",
    "gpu",
    "startup",
    "peers",
)


def main(arguments):
    """Run the named suites, or all; --json prints the rows instead of a table."""
    as_json = "--json" in arguments
    chosen = [a for a in arguments if not a.startswith("-")] or list(SUITES)
    unknown = [a for a in chosen if a not in SUITES]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; choose from {', '.join(SUITES)}")
    console = Console(width=max(Console().width, 100))
    collected = []
    for suite in chosen:
        table = Table(title=f"{suite}: fastest rounds, side by side", title_justify="left")
        for heading in ("work", "of", "ratio", "10-90 %", "goal", ""):
            table.add_column(heading, justify="left" if heading in ("work", "of") else "right")
        for row in importlib.import_module(f"bench.{suite}").rows():
            collected.append({"suite": suite, **asdict(row), "reached": row.reached})
            sign = "<=" if row.lower_is_better else ">="
            goal = "" if row.goal is None else f"{sign} {row.goal:g}"
            mark = {None: "", True: "reached", False: "[bold]missed[/bold]"}[row.reached]
            spread = f"{row.low:.2f}-{row.high:.2f}"
            table.add_row(row.work, row.reference, f"{row.ratio:.3g}", spread, goal, mark)
        if not as_json:
            console.print(table)
    if as_json:
        print(json.dumps(collected, default=bool, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
