"""acc + a * b with product and sum each rounded to nearest in a format of few bits: vector forms in float32.

Operands are values of one format of precision 2 <= p <= 11 with IEEE specials and subnormals. q = 24 - p, Q = 2**q and
K = Q + 1: multiplying by K and subtracting cuts a float32 to p bits (Veltkamp); products with Q and K are exact. A sum
of two values rounded to float32 first loses nothing, because 24 >= 2p + 2 (Figueroa 1995). Three forms:

normal : six operations. t = a * (b K); r = t - a * (b Q), fused, is the product; s = acc + r; u = s K;
    acc = u - (u - s). Domain: no sum or product exceeds the limit `largest_sum`, no product lies in the subnormal
    range, acc is not -0.
gradual : the product by adding and subtracting C, |C| = max(|a b| Q, 2**(emin + q)), which ends at the grid of the
    format, subnormals included. Domain: sums and products within the limit, acc not -0.
full : everything. Integer steps on the bits of a * b where that is normal, a fixed C below, overflow, infinities, NaN.
    Domain: NaN operands are the canonical one.

An emitter writes each form as LLVM vector instructions, so that the accumulators of a tile stay in registers.

Source: Dekker (1971) and Boldo (2006) for the splitting; the proofs of both products are exhaustive tests.
"""

from dataclasses import dataclass

from llvmlite import ir

FLOAT, INT32 = ir.FloatType(), ir.IntType(32)
NORMAL, GRADUAL, FULL = range(3)

# The constants of a format, one float32 each.
(
    SPLITTER,  # K
    SCALE,  # Q
    CLAMP,  # 2**(emin + q)
    GRID,  # 1.5 * 2**(emin + q): added and subtracted, it rounds to the subnormals' grid
    SMALLEST_NORMAL,
    LARGEST,
    BITS_SHIFT,  # q, as an integer
    BITS_HALF,  # 2**(q-1) - 1, as an integer
    BITS_KEEP,  # mask of the kept bits
    CONSTANTS,
) = range(10)

MAGNITUDE, SIGN, INFINITY = 0x7FFFFFFF, 0x80000000, 0x7F800000


@dataclass(frozen=True)
class Vectors:
    """An emitter of instructions on vectors of `width` float32 numbers."""

    builder: ir.IRBuilder
    width: int
    range_instruction: (
        bool  # the processor has the AVX-512 instruction that takes the larger magnitude
    )

    @property
    def floats(self):
        return ir.VectorType(FLOAT, self.width)

    @property
    def integers(self):
        return ir.VectorType(INT32, self.width)

    def splat(self, x):
        empty = ir.Constant(ir.VectorType(x.type, self.width), ir.Undefined)
        one = self.builder.insert_element(empty, x, ir.Constant(INT32, 0))
        everywhere = ir.Constant(self.integers, [0] * self.width)
        return self.builder.shuffle_vector(one, empty, everywhere)

    def integer(self, n):
        return ir.Constant(self.integers, [n] * self.width)

    def bits(self, x):
        return self.builder.bitcast(x, self.integers)

    def number(self, u):
        return self.builder.bitcast(u, self.floats)

    def call(self, name, *arguments):
        module = self.builder.module
        kind = ir.FunctionType(self.floats, [a.type for a in arguments])
        found = module.globals.get(name) or ir.Function(module, kind, name)
        return self.builder.call(found, arguments)

    def fma(self, a, b, c):
        return self.call(f"llvm.fma.v{self.width}f32", a, b, c)

    def magnitude(self, x):
        return self.builder.and_(self.bits(x), self.integer(MAGNITUDE))

    def sign(self, x):
        return self.builder.and_(self.bits(x), self.integer(SIGN))

    def larger_magnitude(self, x, least):
        """x where |x| > least, else least with the sign of x."""
        if self.range_instruction:
            larger_signed_as_first = ir.Constant(INT32, 0b0011)
            return self.call(
                "llvm.x86.avx512.mask.range.ps.512",
                x,
                least,
                larger_signed_as_first,
                ir.Constant(self.floats, [0.0] * self.width),
                ir.Constant(ir.IntType(16), -1),
                ir.Constant(INT32, 4),
            )
        b = self.builder
        m = self.number(self.magnitude(x))
        m = b.select(b.fcmp_ordered(">", m, least), m, least)
        return self.number(b.or_(self.bits(m), self.sign(x)))


def _rounded_sum(v, acc, r, constants):
    b = v.builder
    s = b.fadd(acc, r)
    u = b.fmul(s, constants[SPLITTER])
    return b.fsub(u, b.fsub(u, s))


def normal(v, acc, a, panels, constants):
    """panels: b Q, b K."""
    scaled, split = panels
    t = v.builder.fmul(a, split)
    return _rounded_sum(v, acc, v.fma(v.builder.fneg(a), scaled, t), constants)


def gradual(v, acc, a, panels, constants):
    """panels: b, b Q."""
    plain, scaled = panels
    C = v.larger_magnitude(v.builder.fmul(a, scaled), constants[CLAMP])
    return _rounded_sum(v, acc, v.builder.fsub(v.fma(a, plain, C), C), constants)


def _to_nearest(v, x, constants):
    """The bits of x, cut to p bits, ties to even; a carry runs into the exponent, at last to infinity."""
    b = v.builder
    u = v.bits(x)
    odd = b.and_(b.lshr(u, v.bits(constants[BITS_SHIFT])), v.integer(1))
    return b.and_(b.add(b.add(u, v.bits(constants[BITS_HALF])), odd), v.bits(constants[BITS_KEEP]))


def _overflowed(v, u, signed, constants):
    """The magnitude of u, infinity beyond the largest value, with the sign of `signed`; NaN stays."""
    b = v.builder
    m = v.number(b.and_(u, v.integer(MAGNITUDE)))
    m = b.select(b.fcmp_ordered(">", m, constants[LARGEST]), v.number(v.integer(INFINITY)), m)
    return v.number(b.or_(v.bits(m), v.sign(signed)))


def full(v, acc, a, panels, constants):
    """panels: b, b Q (not used)."""
    b = v.builder
    plain = panels[0]
    p = b.fmul(a, plain)
    small = b.fcmp_ordered("<", v.number(v.magnitude(p)), constants[SMALLEST_NORMAL])
    fixed = b.fsub(v.fma(a, plain, constants[GRID]), constants[GRID])
    r = _overflowed(v, b.select(small, v.bits(fixed), _to_nearest(v, p, constants)), p, constants)
    s = b.fadd(acc, r)
    return _overflowed(v, _to_nearest(v, s, constants), s, constants)


def watched_sum(v, acc, x, seen, constants):
    """(acc + x, rounded, and what was seen of x): the full form for a sum alone.

    seen : bits below the kept ones; the largest magnitude; the smallest non-zero one, less one; all as integers.
    """
    b = v.builder
    s = b.fadd(acc, x)
    total = _overflowed(v, _to_nearest(v, s, constants), s, constants)
    digits, high, low = seen
    dropped = b.xor(v.bits(constants[BITS_KEEP]), v.integer(0xFFFFFFFF))
    m = v.magnitude(x)
    less = b.sub(m, v.integer(1))
    digits = b.or_(digits, b.and_(v.bits(x), dropped))
    high = b.select(b.icmp_unsigned(">", m, high), m, high)
    low = b.select(b.icmp_unsigned("<", less, low), less, low)
    return total, (digits, high, low)


FORMS = {NORMAL: normal, GRADUAL: gradual, FULL: full}
