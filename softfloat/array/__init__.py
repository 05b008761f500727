"""Arrays of values of a format, on which NumPy's functions and operators round as the format does."""

from softfloat.array.core import SoftArray
from softfloat.array.create import (
    arange,
    array,
    asarray,
    empty,
    eye,
    from_codes,
    full,
    linspace,
    ones,
    zeros,
)
from softfloat.array.files import load, save

__all__ = [
    "SoftArray",
    "arange",
    "array",
    "asarray",
    "empty",
    "eye",
    "from_codes",
    "full",
    "linspace",
    "load",
    "ones",
    "save",
    "zeros",
]
