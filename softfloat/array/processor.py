"""The processor's arithmetic while NumPy works on values: as usual, whatever another library made of it.

Some libraries leave the processor so that it flushes subnormal numbers or rounds in another direction. The loops of the
package take care of that themselves; NumPy's, which compare, convert and copy values here, do not.
"""

import functools

from softfloat._jit import jit
from softfloat.bits import enter_standard_arithmetic, leave_standard_arithmetic

# Looked up at run time, so that the processor adds them, not Python's compiler.
ONE, SMALL, SUBNORMAL = 1.0, 2.0**-60, 5e-324


@jit
def _enter():
    return enter_standard_arithmetic()


@jit
def _leave(former):
    leave_standard_arithmetic(former)


def as_usual():
    """Whether the processor keeps subnormals and rounds to nearest."""
    return ONE * SUBNORMAL != 0.0 and ONE + SMALL == ONE == ONE - SMALL


def standard(function):
    """Decorator: the function runs in standard arithmetic; what was before comes back at its end."""

    @functools.wraps(function)
    def run(*given, **options):
        if as_usual():
            return function(*given, **options)
        former = _enter()
        try:
            return function(*given, **options)
        finally:
            _leave(former)

    return run


__all__ = ["as_usual", "standard"]
