"""The studies by name, as `softfloat study` lists and runs them."""

import difflib
import inspect
from dataclasses import dataclass

from softfloat.analysis.algebra import associativity, distributivity
from softfloat.analysis.dynamics import euler, logistic_map, updates
from softfloat.analysis.fixed_point import fixed_point_sr
from softfloat.analysis.gradients import loss_scaling
from softfloat.analysis.growth import dot_backward, harmonic, matvec_backward, stagnation
from softfloat.analysis.matrices import (
    accumulator_width,
    lu_backward,
    matmul_block,
    matmul_engine,
    refinement,
)
from softfloat.analysis.orders import order_sweep
from softfloat.analysis.reveal import reveal_orders
from softfloat.analysis.roundings import double_rounding, sr_bias, sr_sums
from softfloat.analysis.summation import chunked_dot, condition_sweep, sum_algorithms


@dataclass(frozen=True)
class Entry:
    """A study of the catalogue.

    fixed : arguments it is run with unless others are given.   renamed : {common name: the study's own name for it},
    so that each study can be told n, its size.
    """

    name: str
    function: object
    fixed: dict
    renamed: dict

    @property
    def summary(self):
        """The first line of the function's description."""
        return inspect.getdoc(self.function).splitlines()[0]

    @property
    def parameters(self):
        """{name: default} of what the study can be told; x, an array, is not for a command line."""
        signature = inspect.signature(self.function).parameters
        return {
            name: self.fixed.get(name, p.default)
            for name, p in signature.items()
            if name not in ("x", "how") and p.kind is not p.VAR_KEYWORD
        }

    def run(self, **given):
        """The study, with the arguments given; TypeError names one it does not have."""
        given = {self.renamed.get(key, key): value for key, value in given.items()}
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            raise TypeError(
                f"{self.name} has no argument {unknown[0]}; it has {', '.join(self.parameters)}"
            )
        return self.function(**{**self.fixed, **given})


def _entry(name, function, size="n", **fixed):
    return name, Entry(name, function, fixed, {} if size == "n" else {"n": size})


STUDIES = dict(
    [
        _entry("associativity", associativity, "samples", fmt="float8_e4m3fn"),
        _entry("distributivity", distributivity, "samples", fmt="float8_e4m3fn"),
        _entry("order_sweep", order_sweep, fmt="binary16"),
        _entry("reveal_order", reveal_orders),
        _entry("harmonic", harmonic),
        _entry("stagnation", stagnation),
        _entry("matvec_backward", matvec_backward),
        _entry("dot_backward", dot_backward),
        _entry("sum_algorithms", sum_algorithms),
        _entry("chunked_dot", chunked_dot),
        _entry("condition_sweep", condition_sweep),
        _entry("sr_bias", sr_bias, "extra"),
        _entry("sr_sums", sr_sums),
        _entry("double_rounding", double_rounding, "samples"),
        _entry("euler", euler),
        _entry("updates", updates),
        _entry("logistic_map", logistic_map),
        _entry("matmul_engine", matmul_engine),
        _entry("accumulator_width", accumulator_width),
        _entry("matmul_block", matmul_block),
        _entry("lu_backward", lu_backward),
        _entry("refinement", refinement),
        _entry("loss_scaling", loss_scaling),
        _entry("fixed_point_sr", fixed_point_sr),
    ]
)


def study(name):
    """The Entry of this name; ValueError with near matches otherwise."""
    found = STUDIES.get(name.replace("-", "_"))
    if found is None:
        near = difflib.get_close_matches(name, STUDIES, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"unknown study {name!r}; {hint}choose from {', '.join(STUDIES)}")
    return found
