"""acc + a * b with product and sum each rounded: vector forms in float32 or float64, to be emitted as instructions.

A form is a way to round the product and a way to round the sum. Carrier precision is M (24 or 53); for a format of
precision p let q = M - p, Q = 2**q, K = Q + 1, and U the unit in the last place of p digits.

Ways to nearest, ties to even, on a processor that rounds to nearest (p <= 11 in float32, p <= 25 in float64):

normal : t = a * (b K); r = t - a * (b Q), fused. K x rounded to M digits is a multiple of U, and so is Q x if x = a b
    has fewer than M digits; hence r = Q x + (x rounded to U) - Q x. Domain: b K exact, r not subnormal in its format.
gradual : r = (a b + C) - C with |C| = max(|a b| Q, 2**(emin + q)): the sum ends at the grid of the format, subnormals
    included. Domain: a b has fewer than M digits.
split : s = acc + r; u = s K; s' = u - (u - s) (Veltkamp). Domain: r has at most p digits, so that rounding to M digits
    first loses nothing (M >= 2p + 2, Figueroa 1995); nothing below the grid of the format.
corrected : the same with the error e of s (Knuth's two-sum, the product fused) in u = s K + e: any r, or an exact
    product. An M-digit s at a tie is an even multiple of its own last place, so u and u - s both break it as e says.
    Where one instruction can round up or down, s is rounded to odd instead (it is the odd one of the two neighbours),
    and then split; "gradual corrected" does what gradual does with that.
gradual (of a sum) : s' = (s + C) - C with C = 1.5 * 2**(e + q), e the exponent of s but at least emin. Domain: as for
    split, but what is below the grid may come.
full, full corrected : integer steps on the bits, subnormals, overflow, infinities and NaN included. The corrected one
    first makes s odd in its last digit if e is not 0 (rounding to odd).

Steps, on a processor that rounds toward zero (or up, or down, where that is the mode): the hardware result cut at M
digits holds all that decides, whatever the operands; add an integer to its bits and cut at p digits. The integer is 0
(toward zero), half of U (ties away), U less one last place (away from zero, for the directed modes), or the random word
in its top k <= q bits (stochastic: floor(f 2**k) + w >= 2**k is carried into the last place). "Offset steps" add
2**emin to what is below it, so that subnormals are cut at their grid; "loose steps" do so too, but lose the sign of
products that become 0; "full steps" see to overflow besides.

native : the hardware operation; the format is the carrier itself.

None of the ways but the full ones keeps a NaN, an infinity or an overflow; splits and corrections lose the sign of -0.
NaN operands are the canonical one.

Source: Dekker (1971) and Boldo (2006) for the splitting; the claims are exhaustive tests on small carriers.
"""

from dataclasses import dataclass

from llvmlite import ir

FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
INT32, INT64 = ir.IntType(32), ir.IntType(64)

# Ways to form the product and the sum, and what steps add. A form is product + 16 * sum + 256 * addend.
(
    EXACT,
    NATIVE,
    NORMAL,
    GRADUAL,
    FULL,
    SPLIT,
    CORRECTED,
    FULL_CORRECTED,
    STEPS,
    OFFSET_STEPS,
    FULL_STEPS,
    GRADUAL_CORRECTED,
    LOOSE_STEPS,
) = range(13)
# WHOLE_WORD: as WORD, where the bits of the product's word fill the place that they are moved to.
NOTHING, HALF, WORD, WHOLE_WORD, UPWARD, DOWNWARD = range(6)

# The constants of a format.
(
    SPLITTER,  # K
    SCALE,  # Q
    CLAMP,  # 2**(emin + q)
    GRID,  # 1.5 * 2**(emin + q): added and subtracted, it rounds to the subnormals' grid
    SMALLEST_NORMAL,
    LARGEST,
    OVERFLOW,  # what becomes of numbers beyond the largest
    OVERFLOW_NEGATIVE,  # the magnitude of the same for negative ones, where steps are taken
    INFINITE,  # what becomes of infinities, where steps are taken
    BITS_SHIFT,  # q, as an integer, like all that follow
    BITS_HALF,  # 2**(q-1) - 1
    BITS_KEEP,  # mask of the kept bits
    BITS_RAISE,  # what takes the bits of a power of two to those of 1.5 * Q times it
    WORD_SHIFT,  # how far right a word goes to begin at bit q - 1
    WORD_KEEP,  # mask of the bits of the word
    CONSTANTS,
) = range(16)

DOWN, UP = 9, 10  # roundings of one AVX-512 instruction, exceptions suppressed
WORD_PLACE = 32  # bits that a word is moved left in 64-bit lanes


def form(product, total, addend=NOTHING):
    """The code of a form."""
    return product + 16 * total + 256 * addend


def product_way(code):
    return code % 16


def sum_way(code):
    return code // 16 % 16


def addend_kind(code):
    return code // 256


def has_words(code):
    return addend_kind(code) in (WORD, WHOLE_WORD)


@dataclass(frozen=True)
class Vectors:
    """An emitter of instructions on vectors of `width` numbers, float32 or, if wide, float64."""

    builder: ir.IRBuilder
    width: int
    range_instruction: (
        bool  # the processor has the AVX-512 instruction that takes the larger magnitude
    )
    wide: bool = False

    @property
    def number_type(self):
        return DOUBLE if self.wide else FLOAT

    @property
    def floats(self):
        return ir.VectorType(self.number_type, self.width)

    @property
    def integers(self):
        return ir.VectorType(INT64 if self.wide else INT32, self.width)

    def splat(self, x):
        empty = ir.Constant(ir.VectorType(x.type, self.width), ir.Undefined)
        one = self.builder.insert_element(empty, x, ir.Constant(INT32, 0))
        everywhere = ir.Constant(ir.VectorType(INT32, self.width), [0] * self.width)
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
        return self.call(f"llvm.fma.v{self.width}f{64 if self.wide else 32}", a, b, c)

    def directed_fma(self, a, b, c, direction):
        """a * b + c rounded DOWN or UP, whatever the processor's direction; AVX-512 alone has it."""
        name = f"llvm.x86.avx512.vfmadd.p{'d' if self.wide else 's'}.512"
        return self.call(name, a, b, c, ir.Constant(INT32, direction))

    @property
    def top(self):
        return 63 if self.wide else 31

    @property
    def infinity(self):
        return 0x7FF << 52 if self.wide else 0xFF << 23

    def magnitude(self, x):
        return self.builder.and_(self.bits(x), self.integer((1 << self.top) - 1))

    def sign(self, x):
        return self.builder.and_(self.bits(x), self.integer(1 << self.top))

    def is_negative(self, x):
        return self.builder.icmp_signed("<", self.bits(x), self.integer(0))

    def one_if(self, condition):
        return self.builder.zext(condition, self.integers)

    def with_sign(self, magnitude, signed):
        return self.number(self.builder.or_(self.bits(magnitude), self.sign(signed)))

    def larger_magnitude(self, x, least):
        """x where |x| > least, else least with the sign of x."""
        b = self.builder
        if self.range_instruction:
            larger_signed_as_first = ir.Constant(INT32, 0b0011)
            return self.call(
                f"llvm.x86.avx512.mask.range.p{'d' if self.wide else 's'}.512",
                x,
                least,
                larger_signed_as_first,
                ir.Constant(self.floats, [0.0] * self.width),
                ir.Constant(ir.IntType(self.width), -1),
                ir.Constant(INT32, 4),
            )
        m = self.number(self.magnitude(x))
        return self.with_sign(b.select(b.fcmp_ordered(">", m, least), m, least), x)


# ---------------------------------------------------------------- to nearest
def _normal(v, a, panels, constants):
    """panels: b Q, b K."""
    scaled, split = panels
    return v.fma(v.builder.fneg(a), scaled, v.builder.fmul(a, split))


def _gradual(v, a, panels, constants):
    """panels: b, b Q."""
    plain, scaled = panels
    C = v.larger_magnitude(v.builder.fmul(a, scaled), constants[CLAMP])
    return v.builder.fsub(v.fma(a, plain, C), C)


def _to_nearest(v, x, constants):
    """The bits of x, cut to p bits, ties to even; a carry runs into the exponent, at last to infinity."""
    b = v.builder
    u = v.bits(x)
    odd = b.and_(b.lshr(u, v.bits(constants[BITS_SHIFT])), v.integer(1))
    return b.and_(b.add(b.add(u, v.bits(constants[BITS_HALF])), odd), v.bits(constants[BITS_KEEP]))


def _overflowed(v, u, signed, constants):
    """The magnitude of u, what overflow gives beyond the largest value, with the sign of `signed`; NaN stays."""
    b = v.builder
    m = v.number(v.magnitude(u))
    m = b.select(b.fcmp_ordered(">", m, constants[LARGEST]), constants[OVERFLOW], m)
    return v.with_sign(m, signed)


def _is_small(v, x, constants):
    return v.builder.fcmp_ordered("<", v.number(v.magnitude(x)), constants[SMALLEST_NORMAL])


def _full(v, a, plain, constants):
    b = v.builder
    p = b.fmul(a, plain)
    fixed = b.fsub(v.fma(a, plain, constants[GRID]), constants[GRID])
    u = b.select(_is_small(v, p, constants), v.bits(fixed), _to_nearest(v, p, constants))
    return _overflowed(v, u, p, constants)


def _error(v, s, acc, term):
    """acc + term - s, exactly."""
    b = v.builder
    part = b.fsub(s, acc)
    if isinstance(term, tuple):
        rest = v.fma(*term, b.fneg(part))
    else:
        rest = b.fsub(term, part)
    return b.fadd(rest, b.fsub(acc, b.fsub(s, part)))


def _odd_sum(v, s, acc, term):
    """acc + term rounded to odd, where s is what it is to nearest."""
    b = v.builder
    if v.range_instruction and isinstance(term, tuple):
        # Of the two neighbours of an inexact sum, the odd one.
        down, up = (v.directed_fma(*term, acc, way) for way in (DOWN, UP))
        last = b.and_(v.bits(down), v.integer(1))
        return b.select(b.icmp_signed("!=", last, v.integer(0)), down, up)
    error = _error(v, s, acc, term)
    inexact = b.fcmp_ordered("!=", error, ir.Constant(v.floats, [0.0] * v.width))
    below = b.and_(inexact, b.icmp_signed("<", b.xor(v.bits(error), v.bits(s)), v.integer(0)))
    return v.number(b.or_(b.sub(v.bits(s), v.one_if(below)), v.one_if(inexact)))


def _full_corrected(v, s, odd, constants):
    b = v.builder
    fixed = b.fsub(b.fadd(odd, constants[GRID]), constants[GRID])
    u = b.select(_is_small(v, odd, constants), v.bits(fixed), _to_nearest(v, odd, constants))
    return _overflowed(v, u, s, constants)


def _gradual_sum(v, s, constants):
    """s to nearest by adding and subtracting 1.5 * 2**(e + q), with e its exponent but at least emin."""
    b = v.builder
    e = b.and_(v.bits(s), v.integer(v.infinity))
    least = v.bits(constants[SMALLEST_NORMAL])
    e = b.select(b.icmp_unsigned(">", e, least), e, least)
    C = v.number(b.add(e, v.bits(constants[BITS_RAISE])))
    return v.with_sign(b.fsub(b.fadd(s, C), C), s)


# ---------------------------------------------------------------- steps
def _moved_word(v, y, whole, constants):
    """The k bits of a word that this rounding looks at, where they are added: at the bits q - 1, q - 2, ..."""
    moved = v.builder.lshr(y, v.bits(constants[WORD_SHIFT]))
    return moved if whole else v.builder.and_(moved, v.bits(constants[WORD_KEEP]))


def _addend(v, kind, x, y, constants):
    """The integer that is added to the bits of x."""
    b = v.builder
    half = v.bits(constants[BITS_HALF])
    if kind == NOTHING:
        return v.integer(0)
    if kind == HALF:
        return b.add(half, v.integer(1))
    if kind in (WORD, WHOLE_WORD):
        return _moved_word(v, y, kind == WHOLE_WORD, constants)
    dropped = b.xor(v.bits(constants[BITS_KEEP]), v.integer(-1))
    negative = b.ashr(v.bits(x), v.integer(v.top))
    return b.and_(dropped, b.xor(negative, v.integer(-1)) if kind == UPWARD else negative)


def _stepped(v, x, kind, y, constants):
    b = v.builder
    u = b.add(v.bits(x), _addend(v, kind, x, y, constants))
    return v.number(b.and_(u, v.bits(constants[BITS_KEEP])))


def _loose_steps(v, x, kind, y, constants):
    """Steps that cut what is below 2**emin at the grid of subnormals, because 2**emin is added to it meanwhile."""
    b = v.builder
    nothing = ir.Constant(v.floats, [0.0] * v.width)
    offset = v.with_sign(constants[SMALLEST_NORMAL], x)
    offset = b.select(_is_small(v, x, constants), offset, nothing)
    return b.fsub(_stepped(v, b.fadd(x, offset), kind, y, constants), offset)


def _offset_steps(v, x, kind, y, constants):
    """The same with the sign of a zero."""
    return v.with_sign(v.magnitude(_loose_steps(v, x, kind, y, constants)), x)


def _full_steps(v, x, kind, y, constants):
    b = v.builder
    m = v.number(v.magnitude(_offset_steps(v, x, kind, y, constants)))
    infinite = b.fcmp_ordered("==", m, v.number(v.integer(v.infinity)))
    beyond = b.select(v.is_negative(x), constants[OVERFLOW_NEGATIVE], constants[OVERFLOW])
    beyond = b.select(infinite, constants[INFINITE], beyond)
    m = b.select(b.fcmp_ordered(">", m, constants[LARGEST]), beyond, m)
    return v.with_sign(m, x)


# ---------------------------------------------------------------- forms
def panel_rows(code):
    """(vectors of the factor a, panel rows of b) that a form reads."""
    if has_words(code):
        return 2, 2
    return 1, 2 if product_way(code) in (NORMAL, GRADUAL, FULL) else 1


def _product(v, code, factors, panels, y, constants):
    """The rounded product, or the pair of its factors where that stays exact."""
    kind, addend = product_way(code), addend_kind(code)
    a, plain = factors[0], panels[0]
    if kind == EXACT:
        return a, plain
    if kind == NORMAL:
        return _normal(v, a, panels, constants)
    if kind == GRADUAL:
        return _gradual(v, a, panels, constants)
    if kind == FULL:
        return _full(v, a, plain, constants)
    x = v.builder.fmul(a, plain)
    if kind == STEPS:
        return _stepped(v, x, addend, y, constants)
    if kind == LOOSE_STEPS:
        return _loose_steps(v, x, addend, y, constants)
    if kind == OFFSET_STEPS:
        return _offset_steps(v, x, addend, y, constants)
    if kind == FULL_STEPS:
        return _full_steps(v, x, addend, y, constants)
    return x


def _sum(v, code, acc, term, y, constants):
    b = v.builder
    kind, addend = sum_way(code), addend_kind(code)
    addend = WORD if addend == WHOLE_WORD else addend
    s = v.fma(*term, acc) if isinstance(term, tuple) else b.fadd(acc, term)
    if kind == NATIVE:
        return s
    if kind == GRADUAL:
        return _gradual_sum(v, s, constants)
    if kind == STEPS:
        return _stepped(v, s, addend, y, constants)
    if kind == OFFSET_STEPS:
        return _offset_steps(v, s, addend, y, constants)
    if kind == FULL_STEPS:
        return _full_steps(v, s, addend, y, constants)
    if kind == FULL:
        return _overflowed(v, _to_nearest(v, s, constants), s, constants)
    if kind == FULL_CORRECTED:
        return _full_corrected(v, s, _odd_sum(v, s, acc, term), constants)
    if kind == GRADUAL_CORRECTED:
        return _gradual_sum(v, _odd_sum(v, s, acc, term), constants)
    if kind == CORRECTED and v.range_instruction and isinstance(term, tuple):
        s = _odd_sum(v, s, acc, term)
    elif kind == CORRECTED:
        u = v.fma(s, constants[SPLITTER], _error(v, s, acc, term))
        return b.fsub(u, b.fsub(u, s))
    u = b.fmul(s, constants[SPLITTER])
    return b.fsub(u, b.fsub(u, s))


def step(v, code, acc, factors, panels, constants):
    """acc + a * b by the form of this code.

    factors, panels : vectors as panel_rows counts them.   constants : those of the product's format, then those of the
    accumulator's.
    """
    to_product, to_sum = constants[:CONSTANTS], constants[CONSTANTS:]
    y = _word(v, factors[1], panels[1]) if has_words(code) else None
    term = _product(v, code, factors, panels, y, to_product)
    return _sum(v, code, acc, term, y, to_sum)


def _word(v, row, column):
    """The 32-bit word of a multiply-add, at the top of its lane."""
    b = v.builder
    if not v.wide:
        return b.mul(v.bits(row), v.bits(column))
    low = v.integer(0xFFFFFFFF)
    y = b.mul(b.and_(v.bits(row), low), b.and_(v.bits(column), low))
    return b.shl(y, v.integer(WORD_PLACE))


def watched_sum(v, acc, x, seen, constants):
    """(acc + x, rounded, and what was seen of x): the full form for a sum alone.

    seen : bits below the kept ones; the largest magnitude; the smallest non-zero one, less one; all as integers.
    """
    b = v.builder
    s = b.fadd(acc, x)
    total = _overflowed(v, _to_nearest(v, s, constants), s, constants)
    digits, high, low = seen
    dropped = b.xor(v.bits(constants[BITS_KEEP]), v.integer(-1))
    m = v.magnitude(x)
    less = b.sub(m, v.integer(1))
    digits = b.or_(digits, b.and_(v.bits(x), dropped))
    high = b.select(b.icmp_unsigned(">", m, high), m, high)
    low = b.select(b.icmp_unsigned("<", less, low), less, low)
    return total, (digits, high, low)
