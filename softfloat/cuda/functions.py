"""What softfloat's functions do with arrays on a device, by the same names."""

from softfloat.cuda.elementwise import decode, elementwise, encode

__all__ = ["decode", "elementwise", "encode"]
