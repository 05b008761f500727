"""Status flags: counting the elements that raised an exception of IEEE 754, in every call inside a block.

Source: IEEE 754-2019, section 7. Without a block nothing is counted and nothing is paid.
"""

from contextvars import ContextVar, copy_context

import numpy as np

from softfloat.rounding import (
    DIVIDED_BY_ZERO,
    INEXACT,
    INVALID,
    OVERFLOWED,
    TINY_BEFORE,
    UNDERFLOWED,
)

_active: ContextVar[tuple["status", ...]] = ContextVar("softfloat_status", default=())
_POSITION = {
    flag: flag.bit_length() - 1
    for flag in (INEXACT, UNDERFLOWED, OVERFLOWED, DIVIDED_BY_ZERO, INVALID, TINY_BEFORE)
}


class status:
    """Count, per flag, the elements that raised it in calls inside the block; of sums and products, the operations.

    tininess : "after" or "before" rounding, the two rules that IEEE 754 allows for underflow.

    >>> import softfloat as sf
    >>> with sf.status() as s:
    ...     _ = sf.divide([1.0, 1.0], [3.0, 0.0], "binary16")
    >>> s.inexact, s.divide_by_zero
    (1, 1)
    """

    def __init__(self, tininess="after"):
        if tininess not in ("after", "before"):
            raise ValueError(f'tininess must be "after" or "before", got {tininess!r}')
        self.tininess = tininess
        self._counts = np.zeros(len(_POSITION), np.int64)
        self._depth = 0

    def __enter__(self):
        self._depth += 1
        if self._depth == 1:
            _active.set((*_active.get(), self))
        return self

    def __exit__(self, *exception):
        # Blocks need not end in the order in which they began: each takes out itself alone.
        self._depth -= 1
        if self._depth == 0:
            _active.set(tuple(block for block in _active.get() if block is not self))

    def add(self, counts):
        """Add an array of counts, one per flag, in the order of the flag bits."""
        self._counts += counts

    def _count(self, flag):
        return int(self._counts[_POSITION[flag]])

    @property
    def inexact(self):
        return self._count(INEXACT)

    @property
    def underflow(self):
        return self._count(UNDERFLOWED if self.tininess == "after" else TINY_BEFORE)

    @property
    def overflow(self):
        return self._count(OVERFLOWED)

    @property
    def invalid(self):
        return self._count(INVALID)

    @property
    def divide_by_zero(self):
        return self._count(DIVIDED_BY_ZERO)

    def __repr__(self):
        names = ("inexact", "underflow", "overflow", "invalid", "divide_by_zero")
        return f"status({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


def uncounted(function, *arguments, **options):
    """A call that no block counts, for work that is no operation of the caller's, such as a look at the operands."""

    def call():
        _active.set(())
        return function(*arguments, **options)

    return copy_context().run(call)


# The blocks that count in this context, outermost first; every call asks, so this is the bare method.
active_status = _active.get
