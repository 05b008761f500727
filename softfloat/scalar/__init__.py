"""Scalar functions for users' own compiled kernels: one operation, one rounding, the format known when the kernel runs.

    import numba, softfloat as sf
    from softfloat import scalar as sc

    @numba.njit
    def axpy(a, x, y, out, fmt, rounding):
        for i in range(x.size):
            out[i] = sc.add(sc.multiply(a, x[i], fmt, rounding), y[i], fmt, rounding)

fmt : a softfloat.Format, as an argument of the kernel or a global of it, or the literal name of one.
rounding : a softfloat.Rounding, likewise, or a literal name.
word : for the stochastic modes, the random integer of this rounding, from `random_bits`; it has `bits` bits.
saturate, variant : literals, as for softfloat.quantize.

The elementary functions of softfloat.elementary are here by the same names. What 124 bits of their results do not
decide, array functions settle in Python; here those bits are taken as they are. No such operand is known.

Operands are float64, float32 or integers up to 2**53 in magnitude, taken as the exact numbers they are: they need not
be values of the format. Results are float64 and have the bits of the array functions of the same names; a NaN stays a
NaN in a format without one. Called from plain Python, they are those array functions on one number.
"""

from typing import Any

import numpy as np
from numba.core import errors, types
from numba.extending import overload

from softfloat import elementary, functional
from softfloat.formats import as_format
from softfloat.numba_types.options import (
    OPTIONS,
    SATURATIONS,
    VARIANTS,
    format_integers,
    format_numbers,
    literal,
    read_choice,
    read_format,
    read_mode,
    unliteral,
)
from softfloat.random import WORD_BITS, element_word, make_key
from softfloat.rounding import MODES, STOCHASTIC, as_rounding
from softfloat.scalar import core

_EXACT_MODES = tuple(str(mode) for mode, code in MODES.items() if code < STOCHASTIC)
_NUMBERS = (types.Float, types.Integer, types.Boolean)


def _check_numbers(function, **operands):
    for name, kind in operands.items():
        plain = unliteral(kind)
        if isinstance(plain, types.Float) and plain.bitwidth < 32:
            plain = None
        if not isinstance(plain, _NUMBERS):
            raise errors.TypingError(
                f"softfloat.scalar.{function}: {name} must be a float or an integer, got {kind}"
            )


def _in_python(function, operands, fmt, rounding, word, saturate, bits, variant):
    """The same by the array functions, in plain Python."""
    given = (
        {}
        if str(as_rounding(rounding)) in _EXACT_MODES
        else {"random": [int(word)], "random_bits": bits}
    )
    options = {"rounding": rounding, "saturate": saturate, "variant": variant, **given}
    numbers = [np.array([x], np.float64) for x in operands]
    module = elementary if function in core.ELEMENTARY else functional
    return getattr(module, function)(*numbers, fmt, **options)[0]


def _check_options(word, bits):
    for name, kind in (("word", word), ("bits", bits)):
        known, value = literal(kind)
        plain = unliteral(kind)
        if not isinstance(value if known else plain, int if known else types.Integer):
            raise errors.TypingError(f"{name} must be an integer, got {kind}")


def _readers(fmt, rounding, word, saturate, bits, variant):
    """The functions that turn the options of a call into what the core takes."""
    _check_options(word, bits)
    return (
        read_format(fmt),
        read_mode(rounding),
        read_choice("saturate", saturate, SATURATIONS),
        read_choice("variant", variant, VARIANTS),
    )


def _unary(name):
    def function(
        x, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"
    ) -> Any:
        return _in_python(name, (x,), fmt, rounding, word, saturate, bits, variant)

    def choose(x, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"):
        _check_numbers(name, x=x)
        run = core.encode if name == "encode" else core.operation(name)
        record, mode, saturation, chosen = _readers(fmt, rounding, word, saturate, bits, variant)

        def impl(x, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"):
            f, v = record(fmt), np.float64(x)
            F, N = format_integers(f), format_numbers(f)
            s, o = saturation(saturate), chosen(variant)
            return run(v, v, v, F, N, mode(rounding), s, np.int64(word), np.int64(bits), o)

        return impl

    return function, choose


def _binary(name):
    def function(
        x, y, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"
    ) -> Any:
        return _in_python(name, (x, y), fmt, rounding, word, saturate, bits, variant)

    def choose(x, y, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"):
        _check_numbers(name, x=x, y=y)
        run = core.operation(name)
        record, mode, saturation, chosen = _readers(fmt, rounding, word, saturate, bits, variant)

        def impl(x, y, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"):
            f, v, w = record(fmt), np.float64(x), np.float64(y)
            F, N = format_integers(f), format_numbers(f)
            s, o = saturation(saturate), chosen(variant)
            return run(v, w, w, F, N, mode(rounding), s, np.int64(word), np.int64(bits), o)

        return impl

    return function, choose


def _ternary(name):
    def function(
        x, y, z, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"
    ) -> Any:
        return _in_python(name, (x, y, z), fmt, rounding, word, saturate, bits, variant)

    def choose(x, y, z, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"):
        _check_numbers(name, x=x, y=y, z=z)
        run = core.operation(name)
        record, mode, saturation, chosen = _readers(fmt, rounding, word, saturate, bits, variant)

        def impl(
            x, y, z, fmt, rounding="ties_to_even", word=0, saturate=False, bits=24, variant="A"
        ):
            f, v, w, u = record(fmt), np.float64(x), np.float64(y), np.float64(z)
            F, N = format_integers(f), format_numbers(f)
            s, o = saturation(saturate), chosen(variant)
            return run(v, w, u, F, N, mode(rounding), s, np.int64(word), np.int64(bits), o)

        return impl

    return function, choose


def _scalar(template, name, meaning):
    """A function of this module: callable from Python and from compiled code."""
    function, choose = template(name)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning}, rounded once to `fmt`; options as in softfloat.scalar."
    overload(function, jit_options=OPTIONS, strict=False, prefer_literal=True, target="generic")(
        choose
    )
    return function


add = _scalar(_binary, "add", "x + y")
subtract = _scalar(_binary, "subtract", "x - y")
multiply = _scalar(_binary, "multiply", "x * y")
divide = _scalar(_binary, "divide", "x / y")
remainder = _scalar(_binary, "remainder", "The IEEE remainder x - n*y, n the integer nearest x/y")
fma = _scalar(_ternary, "fma", "x * y + z")
sqrt = _scalar(_unary, "sqrt", "The square root of x")
quantize = _scalar(_unary, "quantize", "x")
round_to_integral = _scalar(_unary, "round_to_integral", "x made integral in the same mode")
encode = _scalar(_unary, "encode", "The code, an int64, of x")


for (
    _name,
    _operands,
) in core.ELEMENTARY.items():  # exp, log, ..., hypot, power, ...: those of softfloat.elementary
    _summary = getattr(elementary, _name).__doc__.splitlines()[0].rstrip(".")
    globals()[_name] = _scalar(_unary if _operands == 1 else _binary, _name, _summary)


def decode(code, fmt):
    """The float64 value of an integer code; every NaN code gives the canonical NaN. Bits above the code are ignored."""
    dtype = as_format(fmt).code_dtype
    return np.float64(functional.decode(np.array([code], dtype), fmt)[0])


@overload(decode, jit_options=OPTIONS, prefer_literal=True, target="generic")
def _decode(code, fmt):
    if not isinstance(unliteral(code), types.Integer):
        raise errors.TypingError(f"softfloat.scalar.decode: code must be an integer, got {code}")
    record, run = read_format(fmt), core.decode
    return lambda code, fmt: run(np.int64(code), format_integers(record(fmt)))


def compare(x, y):
    """-1, 0 or 1 as x is below, at or above y (-0 is at +0); 2 where one is NaN."""
    if x < y:
        return -1
    if x > y:
        return 1
    return 0 if x == y else 2


overload(compare, jit_options=OPTIONS, target="generic")(lambda x, y: compare)


def random_bits(seed, index, stream=0, bits=24):
    """The random integer, in [0, 2**bits), of element `index` under a seed: that of the array functions."""
    return element_word(make_key(seed, stream), index) >> (WORD_BITS - bits)


@overload(random_bits, jit_options=OPTIONS, target="generic")
def _random_bits(seed, index, stream=0, bits=24):
    def impl(seed, index, stream=0, bits=24):
        word = element_word(make_key(np.uint64(seed), np.uint64(stream)), np.int64(index))
        return np.int64(np.uint64(word) >> np.uint64(WORD_BITS - bits))

    return impl


__all__ = [
    *core.ELEMENTARY,
    "add",
    "compare",
    "decode",
    "divide",
    "encode",
    "fma",
    "multiply",
    "quantize",
    "random_bits",
    "remainder",
    "round_to_integral",
    "sqrt",
    "subtract",
]
