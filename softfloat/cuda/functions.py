"""What softfloat's functions do with arrays on a device, by the same names."""

from softfloat.cuda.elementwise import decode, elementwise, encode
from softfloat.cuda.reduce import dot, matmul, reduction

__all__ = ["decode", "dot", "elementwise", "encode", "matmul", "reduction"]
