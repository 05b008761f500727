"""What softfloat's functions do with arrays on a device, by the same names."""

import functools

from softfloat.cuda import contract as _contractions
from softfloat.cuda import elementwise as _elements
from softfloat.cuda import reduce as _reductions
from softfloat.cuda.soft import SoftDeviceArray
from softfloat.formats import as_format


def _values(x):
    return x._values if isinstance(x, SoftDeviceArray) else x


def _soft(operands, fmt, result):
    """The result as soft as its operands are."""
    if isinstance(result, SoftDeviceArray) or not any(
        isinstance(x, SoftDeviceArray) for x in operands
    ):
        return result
    return SoftDeviceArray(result, as_format(fmt))


def _into(out, fmt):
    """The array behind out=, which must hold values of the result's format."""
    if isinstance(out, SoftDeviceArray) and out._format != as_format(fmt):
        raise TypeError(
            f"out= must hold values of {as_format(fmt).label}, the format of the result, got {out._format.label}"
        )
    return _values(out)


def _finished(operands, fmt, out, run):
    result = run(tuple(map(_values, operands)), _into(out, fmt))
    return _soft(operands, fmt, result) if out is None else out


def elementwise(name, operands, fmt, out, options):
    run = functools.partial(_elements.elementwise, name)
    return _finished(operands, fmt, out, lambda given, target: run(given, fmt, target, options))


def compare(relation, a, b):
    return _elements.compare(relation, _values(a), _values(b))


def encode(x, fmt, out, options):
    return _elements.encode(_values(x), fmt, out, options)


def decode(codes, fmt, out):
    return _elements.decode(codes, fmt, _into(out, fmt))


def reduction(x, how, axis, keepdims, kind, finish, out):
    def run(given, target):
        return _reductions.reduction(*given, how, axis, keepdims, kind, finish, target)

    return _finished((x,), how.result, out, run)


def _own(x):
    """The format that an array says its numbers are in: a Format, the name of a dtype of PyTorch, or None."""
    return getattr(x, "_format", None) or str(getattr(x, "dtype", "")).removeprefix("torch.")


def matmul(a, b, how, c, engine, scales, out):
    own = _own(a), _own(b)

    def run(given, target):
        left, right, start, *more = given
        return _contractions.matmul(left, right, how, start, engine, more, own, target)

    result = run(tuple(map(_values, (a, b, c, *scales))), _into(out, how.result))
    return _soft((a, b), how.result, result) if out is None else out


dot = _contractions.dot

__all__ = ["compare", "decode", "dot", "elementwise", "encode", "matmul", "reduction"]
