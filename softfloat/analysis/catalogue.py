"""The studies by name, as `softfloat study` lists and runs them."""

import difflib
import inspect
from dataclasses import dataclass

from softfloat.analysis import (
    algebra,
    dynamics,
    gradients,
    growth,
    matrices,
    orders,
    reveal,
    roundings,
    summation,
)


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
        _entry("associativity", algebra.associativity, "samples", fmt="float8_e4m3fn"),
        _entry("distributivity", algebra.distributivity, "samples", fmt="float8_e4m3fn"),
        _entry("order_sweep", orders.order_sweep, fmt="binary16"),
        _entry("reveal_order", reveal.reveal_orders),
        _entry("harmonic", growth.harmonic),
        _entry("stagnation", growth.stagnation),
        _entry("matvec_backward", growth.matvec_backward),
        _entry("dot_backward", growth.dot_backward),
        _entry("sum_algorithms", summation.sum_algorithms),
        _entry("chunked_dot", summation.chunked_dot),
        _entry("condition_sweep", summation.condition_sweep),
        _entry("sr_bias", roundings.sr_bias, "extra"),
        _entry("double_rounding", roundings.double_rounding, "samples"),
        _entry("euler", dynamics.euler),
        _entry("updates", dynamics.updates),
        _entry("logistic_map", dynamics.logistic_map),
        _entry("matmul_engine", matrices.matmul_engine),
        _entry("accumulator_width", matrices.accumulator_width),
        _entry("matmul_block", matrices.matmul_block),
        _entry("lu_backward", matrices.lu_backward),
        _entry("refinement", matrices.refinement),
        _entry("loss_scaling", gradients.loss_scaling),
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
