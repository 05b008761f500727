"""The two tables through which NumPy reaches SoftArrays, and how a function gets into one.

A ufunc or function that is in neither is a TypeError that names it: nothing goes on in float64 unseen.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from softfloat.array.processor import standard

FUNCTIONS: dict[Callable, Callable] = {}  # NumPy function -> what does it on SoftArrays
UFUNCS: dict[np.ufunc, Any] = {}  # ufunc -> softfloat.array.ufuncs.Rule
SECTIONS: dict[
    Callable, str
] = {}  # NumPy function -> the section of the documentation it belongs to


def implements(*functions, section):
    """Decorator: this is what the NumPy functions mean on SoftArrays; its docstring goes into the documentation."""

    def register(implementation):
        for function in filter(None, functions):  # None: not in this version of NumPy
            FUNCTIONS[function] = implementation
            SECTIONS[function] = section
        return implementation

    return register


def name_of(function):
    """numpy.linalg.norm as np.linalg.norm."""
    module = getattr(function, "__module__", None) or "numpy"
    module = "numpy" if module.startswith("numpy._core") else module
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"


NO_RULE = "there is no rounded version of it yet"


def unsupported(name, why=NO_RULE):
    return TypeError(
        f"{name} does not take SoftArrays: {why}. Convert with .to_numpy() to go on in float32 or float64; "
        "docs/arrays.md lists what there is"
    )


WHY = {
    np.save: "use softfloat.save, which keeps the format",
    np.savez: "use softfloat.save, which keeps the format",
    np.savez_compressed: "use softfloat.save, which keeps the format",
    np.result_type: "they have a format, not a dtype; two formats do not mix",
    np.can_cast: "they have a format, not a dtype",
}


@standard
def call_function(function, arguments, options):
    """NEP 18: the registered implementation, or a TypeError."""
    import softfloat.array.functions  # noqa: F401  (loaded by the first call: many do without)

    implementation = FUNCTIONS.get(function)
    if implementation is None:
        raise unsupported(name_of(function), WHY.get(function, NO_RULE))
    return implementation(*arguments, **options)
