"""The command `softfloat`: formats (info), numbers (show), training (train, sweep, reproduce), accuracy (study).

typer and rich are imported when a command runs, so that the package does without them.
"""

import importlib
import importlib.util
import json
import os
import re
import sys
from typing import Annotated

from softfloat import __version__
from softfloat.cli.facts import (
    MINUS,
    SMALL,
    UsageError,
    all_values,
    code_facts,
    format_facts,
    number_facts,
    read_code,
    read_formats,
    read_number,
    read_tensor_format,
)
from softfloat.formats import formats
from softfloat.rounding import as_rounding

__all__ = ["main"]

EXTRA = "pip install 'softfloat-numba[cli]'"
EXTRA_PLOT = "pip install 'softfloat-numba[plot]'"
ROLES = (
    "weights",
    "activations",
    "logits",
    "errors",
    "weight_gradients",
    "optimizer",
    "update",
    "master",
    "accumulator",
)
DEFAULT_FORMATS = "binary16,bfloat16,float8_e4m3fn"
_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan|0x)", re.IGNORECASE)


def _print_json(data):
    print(json.dumps(data, indent=2, allow_nan=False))


def info(names, values, as_json):
    """softfloat info: formats side by side, or a list of all named ones."""
    chosen = read_formats(names)
    if values and not chosen:
        raise UsageError("--values needs a format: softfloat info float8_e4m3fn --values")
    for fmt in chosen if values else []:
        all_values(fmt)  # refuses wide formats before anything is printed
    if as_json:
        _print_json([format_facts(fmt, values) for fmt in chosen or formats().values()])
        return
    from softfloat.cli import draw

    if chosen:
        draw.draw_formats(draw.console(), chosen, values)
    else:
        draw.draw_list(draw.console())


def show(numbers, names, rounding, seed, saturate, codes, as_json):
    """softfloat show: numbers in formats. Number i takes the random word of element i."""
    chosen = read_formats(names)
    if not chosen:
        raise UsageError("--format is empty; give names such as binary16,bfloat16")
    try:
        rounding = as_rounding(rounding)
    except ValueError as error:
        raise UsageError(str(error)) from None
    stochastic = rounding.value.startswith("stochastic")
    if stochastic and seed is None:
        raise UsageError(f"--rounding {rounding} needs --seed, so that the result can be repeated")
    if seed is not None and not 0 <= seed < 1 << 64:
        raise UsageError(f"--seed must lie in 0..2**64 - 1, got {seed}")
    records = []
    for index, text in enumerate(numbers):
        if codes:
            found = [code_facts(read_code(text, fmt), fmt) for fmt in chosen]
        else:
            random = {"seed": seed, "offset": index} if stochastic else {}
            options = {"rounding": rounding, "saturate": saturate, **random}
            number = read_number(text)
            found = [number_facts(number, fmt, options) for fmt in chosen]
        records.append({"input": text.replace(MINUS, "-"), "formats": found})
    if as_json:
        _print_json(records)
        return
    from softfloat.cli import draw

    draw.draw_numbers(draw.console(), records, chosen)


def train(**options):
    """softfloat train: hands the options to softfloat.training, which documents them."""
    for role in ROLES:
        if options[role] is not None:
            options[role] = read_tensor_format(options[role])
    if options["product"] not in (None, "rounded", "exact"):
        options["product"] = read_tensor_format(options["product"])
    try:
        from softfloat.training import train_command

        if importlib.util.find_spec("matplotlib"):
            from softfloat.plot import training_figure as figure
        else:
            figure = None
            print(f"softfloat: no figure without matplotlib: {EXTRA_PLOT}", file=sys.stderr)
        return train_command(figure=figure, **options)
    except (ValueError, TypeError, ImportError, OSError) as error:
        if os.environ.get("SOFTFLOAT_TRACEBACK"):
            raise
        raise UsageError(error) from None


def study(name, **options):
    """softfloat study: hands the options to softfloat.analysis, which documents them."""
    return _handed_on("softfloat.analysis.command", "study_command", name, **options)


def experiment(command, *arguments, **options):
    """softfloat sweep and reproduce: hand the options to softfloat.experiments, which documents them."""
    figure = importlib.util.find_spec("matplotlib") is not None
    if not figure:
        print(f"softfloat: no figure without matplotlib: {EXTRA_PLOT}", file=sys.stderr)
    return _handed_on("softfloat.experiments", command, *arguments, figure=figure, **options)


def _handed_on(module, command, *arguments, **options):
    """Call a command of a module; what it refuses is an error of usage."""
    try:
        return getattr(importlib.import_module(module), command)(*arguments, **options)
    except (ValueError, TypeError, ImportError, OSError) as error:
        if os.environ.get("SOFTFLOAT_TRACEBACK"):
            raise
        raise UsageError(error) from None


# ---------------------------------------------------------------- options
def _application():
    import typer

    def option(*names, text, **settings):
        return typer.Option(*names, help=text, **settings)

    json_option = option("--json", text="Print JSON, and nothing else, on standard output.")
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        help="Floating point of any format: look at formats and numbers, train in them, study their errors.",
    )

    def print_version(wanted: bool):
        if wanted:
            print(f"softfloat {__version__}")
            raise typer.Exit

    version_option = option(
        "--version", callback=print_version, is_eager=True, text="Print the version and exit."
    )

    @app.callback()
    def common(version: Annotated[bool, version_option] = False):
        pass

    values_option = option("--values", text=f"List all values of formats of up to {SMALL} bits.")
    names_help = "Names such as bfloat16, or widths such as e6m9; none: list the named formats."

    @app.command("info")
    def info_command(
        names: Annotated[
            list[str] | None, typer.Argument(metavar="FORMAT", help=names_help)
        ] = None,
        values: Annotated[bool, values_option] = False,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Range, layout and special values of formats, side by side."""
        info(names or [], values, as_json)

    numbers_help = "Decimals, ratios (1/3), hex floats (0x1.8p-3), inf, nan."
    format_option = option(
        "--format",
        metavar="NAMES",
        show_default=False,
        text=f"Formats, with commas between; without: {DEFAULT_FORMATS}.",
    )
    rounding_option = option(metavar="MODE", text="Such as toward_zero, stochastic; RNE, RTZ, SR.")
    seed_option = option(metavar="N", text="For stochastic rounding.")
    saturate_option = option("--saturate", text="Overflow gives the largest value.")
    codes_option = option("--codes", text="The numbers are codes (bit patterns): 0x3c00.")

    @app.command("show")
    def show_command(
        numbers: Annotated[list[str], typer.Argument(metavar="NUMBER", help=numbers_help)],
        names: Annotated[list[str], format_option] = (DEFAULT_FORMATS,),  # type: ignore[assignment]
        rounding: Annotated[str, rounding_option] = "ties_to_even",
        seed: Annotated[int | None, seed_option] = None,
        saturate: Annotated[bool, saturate_option] = False,
        codes: Annotated[bool, codes_option] = False,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Numbers in formats: bits, exact stored value, rounding error in ulp, neighbours."""
        show(numbers, list(names), rounding, seed, saturate, codes, as_json)

    _add_train(app, option, json_option)
    _add_study(app, option, json_option)
    _add_experiments(app, option, json_option)
    return app


def _add_experiments(app, option, json_option):
    import typer

    file_argument = typer.Argument(metavar="FILE", help="A TOML file; docs/experiments.md has one.")
    name_argument = typer.Argument(metavar="NAME", help="An experiment, or all; none: list them.")
    out_option = option("--out", metavar="FOLDER", text="For runs, tables and figure.")
    processes_option = option(
        "--processes", metavar="N", text="Runs at a time; without: one for each core."
    )
    seeds_option = option("--seeds", metavar="N", text="Seeds, from 0 on.")
    quick_option = option("--quick", text="Sizes of seconds, which show that it runs and no more.")
    data_option = option(
        "--data", metavar="NAME", text="fashion-mnist or digits; without: the first that is there."
    )
    folder_option = option(
        "--data-dir", metavar="FOLDER", text="Of the idx files of fashion-mnist."
    )
    text_option = option(
        "--text", metavar="FILE", text="Of the language model; without: Python's library."
    )

    @app.command("sweep")
    def sweep_command(
        file: Annotated[str, file_argument],
        out: Annotated[str | None, out_option] = None,
        processes: Annotated[int | None, processes_option] = None,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Train recipes x seeds x settings as a TOML file says; a table of means and spreads.

        Each finished run is kept: after an interruption the same command goes on from there.
        """
        return experiment("sweep_command", file, out=out, processes=processes, as_json=as_json)

    @app.command("reproduce")
    def reproduce_command(
        name: Annotated[str | None, name_argument] = None,
        seeds: Annotated[int, seeds_option] = 3,
        quick: Annotated[bool, quick_option] = False,
        data: Annotated[str | None, data_option] = None,
        data_dir: Annotated[str | None, folder_option] = None,
        text: Annotated[str | None, text_option] = None,
        out: Annotated[str | None, out_option] = None,
        processes: Annotated[int | None, processes_option] = None,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Published experiments on low precision run again, their claims and our figures side by side.

        Each finished run is kept: after an interruption the same command goes on from there.
        """
        return experiment("reproduce_command", **locals())


def _add_study(app, option, json_option):
    import typer

    name_argument = typer.Argument(metavar="NAME", help="A study, or all; none: list them.")
    format_option = option(
        "--format", metavar="NAMES", text="Format of the study; with commas where it takes several."
    )
    n_option = option(
        "--n", metavar="N", text="Number of terms, steps or rows: what the study varies."
    )
    seed_option = option("--seed", metavar="N", text="Of random data and stochastic rounding.")
    rounding_option = option("--rounding", metavar="MODE", text="Where the study has one.")
    out_option = option(
        "--out",
        metavar="FILE",
        text="PNG, SVG, PDF, CSV or JSON by suffix, more than once too; for all: a folder.",
    )
    set_option = option("--set", metavar="KEY=VALUE", text="Any other argument of the study.")

    @app.command("study")
    def study_command(
        name: Annotated[str | None, name_argument] = None,
        fmt: Annotated[str | None, format_option] = None,
        n: Annotated[int | None, n_option] = None,
        seed: Annotated[int | None, seed_option] = None,
        rounding: Annotated[str | None, rounding_option] = None,
        out: Annotated[list[str] | None, out_option] = None,
        settings: Annotated[list[str] | None, set_option] = None,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Accuracy studies: a table and a figure each, measured beside the theory.

        An interrupted study that has --out goes on where it was when the same command is given again.
        """
        return study(
            name, fmt=fmt, n=n, seed=seed, rounding=rounding, out=out or (), settings=settings or (),
            as_json=as_json,
        )  # fmt: skip


def _add_train(app, option, json_option):
    formats_panel = "A recipe of your own"

    def named(metavar, text, panel=None):
        return option(metavar=metavar, text=text, rich_help_panel=panel, show_default=panel is None)

    def role(text):
        return named("FORMAT", text, formats_panel)

    def mode(text):
        return named("MODE", text, formats_panel)

    @app.command("train")
    def train_command(
        recipes: Annotated[
            str | None, named("NAMES", "Recipes, with commas between; without: the six usual ones.")
        ] = None,
        data: Annotated[str, named("NAME", "digits or fashion-mnist.")] = "digits",
        data_dir: Annotated[
            str | None, named("FOLDER", "Of the idx files of fashion-mnist.")
        ] = None,
        hidden: Annotated[str, named("SIZES", "Sizes of the hidden layers: 64 or 64,32.")] = "64",
        epochs: Annotated[
            int | None, named("N", "Passes through the data; without: as fits the data.")
        ] = None,
        lr: Annotated[
            float, named("X", "Learning rate; small by default, as 0.001 shows most.")
        ] = 1e-3,
        batch: Annotated[int, named("N", "Images in a step.")] = 16,
        momentum: Annotated[float, named("X", "Momentum, 0 for none.")] = 0.0,
        seed: Annotated[int, named("N", "Of initial weights, order and stochastic rounding.")] = 0,
        out: Annotated[str, named("FOLDER", "For results and figure.")] = "softfloat-runs",
        weights: Annotated[str | None, role("Weights, as the products read them.")] = None,
        activations: Annotated[str | None, role("Inputs and outputs of hidden layers.")] = None,
        logits: Annotated[
            str | None, role("Output of the last layer; without: as activations.")
        ] = None,
        errors: Annotated[
            str | None, role("Gradients of activations, times the loss scale.")
        ] = None,
        weight_gradients: Annotated[
            str | None, role("Gradients of weights, times the loss scale.")
        ] = None,
        optimizer: Annotated[str | None, role("Momentum; without: as weights.")] = None,
        update: Annotated[str | None, role("The change of a weight; without: as weights.")] = None,
        master: Annotated[
            str | None, role("Copy of the weights that is updated; without: none.")
        ] = None,
        accumulator: Annotated[
            str | None, role("Of every sum in a product; without: float32, by BLAS.")
        ] = None,
        product: Annotated[
            str | None,
            role("With --accumulator: of each product, or exact; without: as the sums."),
        ] = None,
        block: Annotated[
            int | None,
            named("N", "With --accumulator: terms of a partial sum; without: all.", formats_panel),
        ] = None,
        engine: Annotated[
            str | None, named("NAME", "Matrix unit that forms the products.", formats_panel)
        ] = None,
        rounding: Annotated[str | None, mode("Of all tensors; stochastic for one.")] = None,
        update_rounding: Annotated[
            str | None, mode("Of weight + change; without: as --rounding.")
        ] = None,
        kahan: Annotated[
            bool | None,
            option(
                "--kahan",
                text="Make up for what weight + change loses.",
                rich_help_panel=formats_panel,
            ),
        ] = None,
        saturate: Annotated[
            bool | None,
            option("--saturate", text="Clip at the largest value.", rich_help_panel=formats_panel),
        ] = None,
        scaling: Annotated[
            str | None,
            named("current", "Scale tensors to the range of formats; or delayed.", formats_panel),
        ] = None,
        amax_history: Annotated[
            int | None,
            named("N", "Steps that delayed scaling looks back; without: 1024.", formats_panel),
        ] = None,
        margin: Annotated[
            int | None,
            named("N", "Scaled tensors stay 2**N below the end of the range.", formats_panel),
        ] = None,
        loss_scale: Annotated[
            str | None, named("X", "A number such as 1024, or dynamic.", formats_panel)
        ] = None,
        overrides: Annotated[
            list[str] | None,
            option(
                "--override",
                metavar="TEXT",
                text="For some layers: 'layer2 weights=fp32, errors=e5m2'.",
                rich_help_panel=formats_panel,
            ),
        ] = None,
        as_json: Annotated[bool, json_option] = False,
    ):
        """Train a network on images in low and mixed precision, and compare with fp32.

        Without options: six recipes on the digits of scikit-learn, one seed, a table and a figure.
        Any option of the second block adds a recipe "custom" of these formats beside fp32. A
        format may have a rounding of its own: --errors "e5m2 stochastic".
        """
        return train(**locals())


def _guarded(arguments):
    """Negative numbers behind a typographic minus, so that -0.1 is no option; read_number undoes it."""
    guarded = arguments[:1]
    for word in arguments[1:]:
        number = _NEGATIVE.match(word) and guarded[-1] not in ("--format", "--rounding", "--seed")
        guarded.append(MINUS + word[1:] if number else word)
    return guarded


def _complain(message):
    """Print a message as one paragraph on standard error; returns the exit code of wrong usage."""
    print("softfloat: " + " ".join(str(message).split()), file=sys.stderr)
    return 2


def main(arguments=None):
    """Run the command line; returns the exit code. Errors of usage give one paragraph and 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["show"]:
        arguments = _guarded(arguments)
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name not in ("rich", "typer"):
            raise
        return _complain(f"the command line needs {missing.name}; install it with: {EXTRA}")
    try:
        result = _application()(
            arguments or ["--help"], prog_name="softfloat", standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except UsageError as error:
        return _complain(error)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # typer's errors of usage: their class has moved between versions
        if not hasattr(error, "format_message"):
            raise
        return _complain(error.format_message().replace(MINUS, "-"))
