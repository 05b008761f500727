"""What a compiled kernel computed in plain float: the operations that no format reached, with their lines.

A variable stays a float64 until it meets a soft number, and numba cannot know that it should have been soft.
"""

from dataclasses import dataclass

from numba.core import ir, types

_OPERATORS = ("binop", "inplace_binop", "unary")


@dataclass(frozen=True, order=True)
class PlainOperation:
    """One operation in float32, float64 or complex numbers."""

    line: int
    operation: str
    signature: str

    def __str__(self):
        return f"line {self.line}: {self.operation} {self.signature}"


def _is_plain(kind):
    element = kind.dtype if isinstance(kind, types.Array) else kind
    return isinstance(element, (types.Float, types.Complex))


def _name(expression, annotation):
    if expression.op == "call":
        called = annotation.typemap.get(expression.func.name)
        key = getattr(called, "typing_key", called)
        return getattr(key, "__name__", str(key))
    return getattr(expression.fn, "__name__", str(expression.fn))


def _operations(result):
    annotation = result.type_annotation
    for expression, signature in annotation.calltypes.items():
        if not isinstance(expression, ir.Expr) or signature is None:
            continue
        if not _is_plain(signature.return_type):
            continue
        if expression.op in (*_OPERATORS, "call"):
            yield PlainOperation(expression.loc.line, _name(expression, annotation), str(signature))


def audit(kernel, signature=None):
    """Every operation of a compiled function that ran in plain float, sorted by line; empty if all kept to a format.

    kernel : a function compiled by numba's njit that has been called, or compiled for given types.
    signature : one of kernel.signatures; by default all of them. Functions that it calls are audited by themselves.
    """
    overloads = getattr(kernel, "overloads", None)
    if overloads is None:
        raise TypeError(
            f"audit takes a function compiled by numba.njit, got {type(kernel).__name__}"
        )
    if not overloads:
        raise ValueError("nothing is compiled yet: call the kernel once, then audit it")
    if signature is not None and signature not in overloads:
        raise ValueError(
            f"the kernel has not been compiled for {signature}; kernel.signatures lists what it has"
        )
    chosen = overloads.values() if signature is None else [overloads[signature]]
    return sorted({operation for result in chosen for operation in _operations(result)})
