"""What numba must know of the package's objects, and the functions for arrays on a device: loaded when first asked for.

The compiled types are a third of the whole package; `import softfloat` does not wait for them.
"""

from numba.extending import typeof_impl

from softfloat.array import SoftArray
from softfloat.format import Format
from softfloat.operands import Devices
from softfloat.rounding import Rounding, RoundingMeta


def load_numba_types():
    """Teach numba the package's arrays, formats, operators and functions; once."""
    import softfloat.numba_types.registration  # noqa: F401


def _load_devices():
    load_numba_types()
    import softfloat.cuda.functions as functions

    return functions


def _numba_type(self):
    load_numba_types()  # which puts the real attribute in this one's place
    return self._numba_type_


def _typed(value, context):
    load_numba_types()
    return typeof_impl(value, context)


for _class in (SoftArray, Format, Rounding):
    setattr(_class, "_numba_type_", property(_numba_type))  # noqa: B010
    typeof_impl.register(_class)(_typed)
typeof_impl.register(RoundingMeta)(_typed)
Devices.load = staticmethod(_load_devices)
