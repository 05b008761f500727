"""The rounding of operators: a block that says how every operator and NumPy function on SoftArrays rounds inside it.

Functions of the package take rounding= themselves and do not look at the block, nor do conversions (sf.array, .astype,
assignment) and Python numbers in an expression, which are data and go to the nearest value.

Where random words decide, the operations of a block are numbered, and operation n draws from a stream of its own:
stream * 2**32 + n of the block's seed. The same block twice gives the same bits. Number and options live in a
ContextVar and are replaced, never changed: a thread starts without a block; a task starts with its parent's block and
number and counts on alone. Give tasks that must differ a block with a stream of their own.
"""

from contextvars import ContextVar
from typing import NamedTuple

from softfloat.functional import Choice, _integer
from softfloat.rounding import STOCHASTIC

_STREAM_BITS = 32


class _State(NamedTuple):
    block: "rounding"
    done: int  # operations so far
    outer: "_State | None"


_active: ContextVar[_State | None] = ContextVar("softfloat_rounding", default=None)


class rounding:
    """Round operators and NumPy functions on SoftArrays in this mode inside the block.

    mode : Rounding or its name.   saturate, seed, variant : as for `quantize`.
    random_bits : 1..32, by default what each function takes by itself: 24, but 13 for products of arrays.
    stream : 0..2**32 - 1, to tell apart blocks of one seed.

    >>> import softfloat as sf
    >>> a = sf.array([1.0, 2.0], sf.bfloat16)
    >>> with sf.rounding("toward_positive"):
    ...     a / 3
    SoftArray([0.334, 0.668], bfloat16)
    """

    def __init__(
        self,
        mode="ties_to_even",
        *,
        saturate=False,
        seed=None,
        stream=0,
        random_bits=None,
        variant="A",
    ):
        bits = 24 if random_bits is None else random_bits
        checked = Choice(mode, saturate, seed, 0, 0, None, bits, variant)
        self._stream = _integer("stream", stream, 0, (1 << _STREAM_BITS) - 1) << _STREAM_BITS
        self.random = checked.mode >= STOCHASTIC
        self.options = {"rounding": str(checked.rounding)}
        if saturate is not False:
            self.options["saturate"] = saturate
        if self.random:
            self.options |= {"seed": seed, "variant": variant}
            if random_bits is not None:
                self.options["random_bits"] = random_bits

    def __enter__(self):
        _active.set(_State(self, 0, _active.get()))
        return self

    def __exit__(self, *failure):
        state = _active.get()
        while state is not None and state.block is not self:
            state = state.outer
        if state is not None:
            _active.set(state.outer)

    def __repr__(self):
        return f"rounding({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    def numbered(self, count):
        """The options of operation number `count` of the block."""
        return {**self.options, "stream": self._stream + count} if self.random else self.options


# The state in force; operators ask at every call, so this is the bare method.
active_rounding = _active.get


def operation_options():
    """The options of the next operation, which is counted."""
    state = _active.get()
    if state is None:
        return {}
    if state.block.random:
        _active.set(state._replace(done=state.done + 1))
    return state.block.numbered(state.done)


__all__ = ["rounding"]
