"""All functions of NumPy that take SoftArrays: importing this module fills the table of softfloat.array.registry."""

from softfloat.array import (  # noqa: F401
    linear,
    numeric,
    polynomials,
    solving,
    statistics,
    structural,
)
