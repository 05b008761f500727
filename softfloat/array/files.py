"""Files: codes and format side by side in an .npz archive, so that no format is lost and any NumPy can read it."""

import json

import numpy as np

from softfloat.array.create import from_codes
from softfloat.fixed_point import FixedPoint
from softfloat.format import Format
from softfloat.operands import Held

_CODES, _FORMAT = ".codes", ".format"
_ALONE = "array"
_FIELDS = ("exponent_bits", "mantissa_bits", "bias", "specials", "subnormals", "signed", "name")
_FIXED = ("integer_bits", "fraction_bits", "signed", "symmetric", "overflow")


def save(file, array=None, /, **arrays):
    """Write one SoftArray, or several by name, to an .npz archive: for each NAME.codes and NAME.format (JSON).

    ValueError if an array holds a NaN that its format cannot encode.
    """
    if (array is None) == (not arrays):
        raise TypeError("save takes one SoftArray, or several by name: save(file, x=x, y=y)")
    arrays = {_ALONE: array} if array is not None else arrays
    contents = {}
    for name, x in arrays.items():
        if not isinstance(x, Held):
            raise TypeError(f"save takes SoftArrays, got {type(x).__name__} for {name}")
        fields = _FIXED if isinstance(x._format, FixedPoint) else _FIELDS
        contents[name + _CODES] = x.codes
        contents[name + _FORMAT] = np.array(json.dumps({f: getattr(x._format, f) for f in fields}))
    np.savez(file, **contents)


def load(file):
    """What `save` wrote: a SoftArray, or a dict of them by name."""
    with np.load(file, allow_pickle=False) as stored:
        names = [key.removesuffix(_CODES) for key in stored.files if key.endswith(_CODES)]
        if not names or any(name + _FORMAT not in stored.files for name in names):
            raise ValueError(f"{file} holds no SoftArrays: it was not written by softfloat.save")
        found = {n: from_codes(stored[n + _CODES], _format(stored[n + _FORMAT])) for n in names}
    return found[_ALONE] if list(found) == [_ALONE] else found


def _format(text):
    fields = json.loads(str(text))
    return FixedPoint(**fields) if "integer_bits" in fields else Format(**fields)


__all__ = ["load", "save"]
