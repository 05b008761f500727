"""Rounding in place again and again: what quantize(x, fmt, out=x) does, with its options checked once."""

import numpy as np

from softfloat.backends.cpu import unmoved_loop
from softfloat.backends.threads import SERIAL_BELOW, get_num_threads
from softfloat.functional import Choice, _arithmetic_plans, _plan, _Steps
from softfloat.random import key_of_seed, with_stream
from softfloat.rounding import MODES, STOCHASTIC, as_rounding
from softfloat.status import active_status

_ANY_SEED = 0  # options are checked without one: the key of a call stands for its seed and stream


class _Prepared:
    @classmethod
    def of(cls, fmt, dtype, rounding="ties_to_even", saturate=False):
        """As the constructor; remembered on the format."""
        key = cls, np.dtype(dtype).char, str(rounding), repr(saturate)
        found = fmt.plans.get(key)
        if found is None:
            found = fmt.plans[key] = cls(fmt, dtype, rounding, saturate)
        return found


class InPlace(_Prepared):
    """Rounds flat arrays of one dtype to a format.

    dtype : float32 or float64.   random : whether the rounding draws random words, so that calls need a key.
    """

    def __init__(self, fmt, dtype, rounding="ties_to_even", saturate=False):
        dtype = np.dtype(dtype)
        self.random = MODES[as_rounding(rounding)] >= STOCHASTIC
        choice = Choice(rounding, saturate, _ANY_SEED if self.random else None)
        self._plan = _plan(fmt, dtype, choice)
        nearest = _plan(fmt, dtype, Choice(saturate=saturate))
        self._nearest = None if nearest is None else (nearest.form, nearest.constants)

    def __call__(self, x, key=0, offset=0):
        """Round x, contiguous and flat, as quantize(x, fmt, out=x, seed, stream, offset) does.

        key : make_key(seed, stream) where words are random.   Returns False, having done nothing, where there is no
        fast form for that, where flags are counted, and where several threads would share the work.
        """
        if self._plan is None or active_status() or _is_shared(x.size):
            return False
        return self._plan.in_place(x, key, offset)

    def leaves(self, x):
        """Whether x, contiguous and flat, surely holds values of the format, which no rounding moves."""
        if self._nearest is None or active_status():
            return False
        form, constants = self._nearest
        return unmoved_loop(*form)(x, constants)


class ExactSum(_Prepared):
    """Adds flat arrays of one dtype, each sum exact and rounded once: add(x, y, fmt, out=out), as `InPlace` rounds."""

    def __init__(self, fmt, dtype, rounding="ties_to_even", saturate=False):
        random = MODES[as_rounding(rounding)] >= STOCHASTIC
        choice = Choice(rounding, saturate, _ANY_SEED if random else None)
        plans = _arithmetic_plans("add", fmt, choice)
        self._steps = None
        if plans.narrow and np.dtype(dtype) == np.float32:
            self._steps = _Steps("add", plans, fmt, choice)

    def __call__(self, x, y, out, key=0, offset=0):
        """out = x + y; out shares no memory with them. Returns False, having done nothing, as `InPlace` does."""
        if self._steps is None or active_status() or _is_shared(x.size):
            return False
        self._steps.at(key, offset).lanes([x, y], out, 0)
        return True


def keys_of(seed):
    """key(stream): the key of a (seed, stream) pair as compiled loops take it."""
    first = key_of_seed(seed)
    return lambda stream: np.uint64(with_stream(first, stream))


def _is_shared(size):
    return size >= SERIAL_BELOW and get_num_threads() > 1
