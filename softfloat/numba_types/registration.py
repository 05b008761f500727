"""Importing this module teaches numba the package's arrays, scalars, operators and functions."""

from numba.core import errors
from numba.core.registry import cpu_target

from softfloat.array import SoftArray
from softfloat.context import active_rounding
from softfloat.format import Format
from softfloat.numba_types import (  # noqa: F401  (they fill numba's tables)
    arrays,
    functions,
    host,
    operators,
    streams,
)
from softfloat.numba_types.kinds import NEAREST, Rules
from softfloat.numba_types.options import SATURATIONS, VARIANTS
from softfloat.numba_types.refusals import refuse_the_rest
from softfloat.operands import hold
from softfloat.rounding import MODES, as_rounding


def current_rules():
    """How operators round now: what a block of softfloat.rounding says, else to nearest."""
    state = active_rounding()
    if state is None:
        return NEAREST
    options = state.block.options
    return Rules(
        MODES[as_rounding(options["rounding"])],
        SATURATIONS[options.get("saturate", False)],
        options.get("random_bits", NEAREST.bits),
        VARIANTS[options.get("variant", "A")],
    )


def check_format(fmt):
    """TypingError for a format that kernels have not."""
    if not isinstance(fmt, Format):
        raise errors.TypingError(
            f"compiled kernels take floating-point formats, not {fmt.label}; use the functions of softfloat, "
            "which take fixed point"
        )
    if not fmt.signed and not fmt.has_nan:
        raise errors.TypingError(
            f"{fmt.label} has neither sign nor NaN, so that some operations have no result: compiled kernels "
            "have no way to say so. Use the functions of softfloat"
        )


def _known_to_numba(function):
    """Whether compiled code can call a function, once numba has loaded all that it brings."""
    context = cpu_target.typing_context
    context.refresh()
    return context._lookup_global(function) is not None


host.register(SoftArray, hold, current_rules, check_format)
refuse_the_rest(_known_to_numba)
