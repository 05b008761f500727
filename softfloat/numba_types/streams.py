"""Stochastic rounding in compiled code: every operation takes the next word of a stream that the kernel opens.

softfloat.stream(seed, i) opens stream i of a seed in the function, or the body of a prange loop, that calls it.
Operation number k after it rounds with the word of element k of that seed and stream: that of

    sf.add(x, y, fmt, rounding="stochastic", seed=seed, stream=i, offset=k)

So a result depends on seed, i and the operations before it in its stream, never on threads or schedule. Numbers that
are rounded because they meet a soft one go to nearest and take no word.
"""

from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, type_callable

from softfloat._jit import jit
from softfloat.numba_types import forms
from softfloat.numba_types.kinds import SoftFloatType, raw, wrapper
from softfloat.numba_types.operators import ARITHMETIC, ROOTS, meeting
from softfloat.random import element_word, make_key

WORD = ir.IntType(64)


def stream(seed, i):
    """Open stream i of a seed for the stochastic operations that follow in a compiled function; integers both."""
    raise RuntimeError(
        "softfloat.stream works in compiled functions; in Python, use "
        'with softfloat.rounding("stochastic", seed=seed)'
    )


@type_callable(stream)
def _type_stream(context):
    def choose(seed, i):
        if isinstance(seed, types.Integer) and isinstance(i, types.Integer):
            return types.none

    return choose


@jit
def _key(seed, i):
    return make_key(seed, i)


@lower_builtin(stream, types.Integer, types.Integer)
def _open_stream(context, builder, sig, arguments):
    """Keep the key and the number of the next operation in two slots of the function."""
    slots = getattr(builder.function, "_softfloat_stream", None)
    if slots is None:
        slots = [cgutils.alloca_once(builder, WORD), cgutils.alloca_once(builder, WORD)]
        builder.function._softfloat_stream = slots
    words = [
        context.cast(builder, v, t, types.uint64) for v, t in zip(arguments, sig.args, strict=True)
    ]
    run = types.uint64(types.uint64, types.uint64)
    key = context.compile_internal(builder, lambda seed, i: _key(seed, i), run, words)
    builder.store(key, slots[0])
    builder.store(ir.Constant(WORD, 0), slots[1])
    return context.get_dummy_value()


def _next(builder, what):
    """(key, number) of the operation that is lowered now, which is counted."""
    slots = getattr(builder.function, "_softfloat_stream", None)
    if slots is None:
        raise errors.TypingError(
            f"stochastic {what}: this function has no stream of random words. Call softfloat.stream(seed, i) "
            "before its first operation: in each function that computes, inside the body of a prange loop; "
            "whole-array expressions have none, write them as loops"
        )
    key, number = builder.load(slots[0]), builder.load(slots[1])
    builder.store(builder.add(number, ir.Constant(WORD, 1)), slots[1])
    return key, number


def _stochastic(function, name, operands):
    @infer_global(function)
    class _Rule(AbstractTemplate):
        key = function

        def generic(self, args, kws):
            if kws or len(args) != operands:
                return None
            soft = meeting(function.__name__, *args)
            return signature(soft, *args) if soft is not None and soft.stochastic else None

    def lower(context, builder, sig, arguments):
        soft = sig.return_type
        words = _next(builder, function.__name__)
        run, wrap = forms.operation(soft, name), wrapper(soft)

        def impl(x, y, key, number):
            v, w = raw(x), raw(y)
            return wrap(run(v, w, w, element_word(key, number)))

        values = [
            context.cast(builder, v, t, soft) for v, t in zip(arguments, sig.args, strict=True)
        ]
        inner = soft(soft, soft, types.uint64, types.uint64)
        return context.compile_internal(builder, impl, inner, [values[0], values[-1], *words])

    shapes = {
        1: [(SoftFloatType,)],
        2: [(SoftFloatType,) * 2, (SoftFloatType, types.Any), (types.Any, SoftFloatType)],
    }
    for shape in shapes[operands]:
        lower_builtin(function, *shape)(lower)


for _function, _name in ARITHMETIC.items():
    _stochastic(_function, _name, 2)
for _function, _name in ROOTS.items():
    _stochastic(_function, _name, 1)
