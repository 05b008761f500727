"""NumPy functions that numba would run on soft operands by itself: a TypingError that says what to do.

numba writes its functions for any dtype. Some would read a soft array as plain numbers, sum it in float64 or stop
without a reason. Those known to move, compare or combine elements by operators alone are in WORKS.
"""

import inspect

import numpy as np
from numba.core import errors, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

from softfloat.array.registry import name_of
from softfloat.numba_types.kinds import SoftArrayType, SoftDType, SoftFloatType
from softfloat.numba_types.operators import OURS

WORKS = """
    all allclose any argmax argmin argpartition argsort argwhere array_equal array_split asarray ascontiguousarray
    asfortranarray atleast_1d atleast_2d atleast_3d average broadcast_arrays broadcast_to copy copyto count_nonzero diag
    diagflat diff dsplit empty_like expand_dims fill_diagonal flatnonzero flip fliplr flipud full_like hsplit isclose
    nonzero ones_like outer partition ptp ravel repeat reshape roll rot90 select shape size sort split swapaxes take
    transpose vsplit zeros_like
""".split()
# Of these there are rounded versions for so many arguments.
ARGUMENTS = {np.sum: 1, np.prod: 1, np.mean: 1, np.max: 1, np.min: 1, np.cumsum: 1}


def _is_soft(kind):
    """Whether a numba type is one of a soft number, array or dtype, or holds one."""
    if isinstance(kind, types.BaseTuple):
        return any(map(_is_soft, kind))
    if isinstance(kind, (types.List, types.Set)):
        return _is_soft(kind.dtype)
    return isinstance(kind, (SoftArrayType, SoftFloatType, SoftDType))


def _refuse(function, enough):
    @infer_global(function)
    class _Refusal(AbstractTemplate):
        key = function
        metadata = {"target": "cpu"}  # asked before numba's own, which are for any target

        def generic(self, args, kws):
            given = (*args, *kws.values())
            if len(given) <= enough or not any(map(_is_soft, given)):
                return None
            names = [*(f"argument_{i}" for i in range(len(args))), *kws]
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            pysig = inspect.Signature([inspect.Parameter(name, kind) for name in names])
            result = next((k for k in given if isinstance(k, SoftArrayType)), types.none)
            return signature(result, *given).replace(pysig=pysig)

    # Only here: what a template raises makes numba ask the next one, which would take the call.
    @lower_builtin(function, types.VarArg(types.Any))
    def lower(context, builder, sig, arguments):
        more = f" with more than {enough} argument" if enough else ""
        raise errors.TypingError(
            f"{name_of(function)}{more} has no rounded version in kernels: write it as a loop, or call it outside. "
            "docs/kernels.md lists what there is"
        )


def _unvetted():
    for module in (np, np.linalg):
        for name in dir(module):
            function = getattr(module, name)
            if (
                callable(function)
                and not isinstance(function, (type, np.ufunc))
                and name not in WORKS
                and function not in OURS
            ):
                yield function


def refuse_the_rest(known):
    """Refuse soft operands of NumPy's functions but ours and the vetted ones; known(function): whether numba has it."""
    for function in dict.fromkeys(_unvetted()):
        if known(function):
            _refuse(function, 0)
    for function, enough in ARGUMENTS.items():
        _refuse(function, enough)
