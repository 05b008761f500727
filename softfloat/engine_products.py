"""Matrix products by an engine: operands in its formats, batches, the scales of blocks, promotion and split k.

softfloat.matmul calls `product`; softfloat.engines says what an engine is, softfloat.backends.engine forms the sums.
"""

import functools
import math

import numpy as np

from softfloat.backends.engine import converted, engine_product
from softfloat.formats import binary32
from softfloat.functional import add, quantize
from softfloat.operands import Held
from softfloat.status import uncounted


def product(engine, a, b, c, rows, columns, scales=(None, None)):
    """All elements of a matrix product by an engine, as values of its accumulator.

    a, b : (operand as the caller gave it, its values as an array of two or more dimensions).   c : initial values of
    the result's shape, or None.   rows, columns : for each batch of the result, the batch of a and of b.
    scales : the scales of the blocks of a and of b, or None.
    """
    left, a_format = _operand(engine, *a, "a")
    right, b_format = _operand(engine, *b, "b")
    left_scales, right_scales = _scales(engine, scales, left.shape, right.shape)
    left, right, left_scales, right_scales = (
        None if x is None else x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
        for x in (left, right, left_scales, right_scales)
    )
    shape = (len(rows), left.shape[-2], right.shape[-1])
    dtype = engine.acc.carrier
    start = np.zeros(shape, dtype) if c is None else _initial(engine, c).reshape(shape)
    prepared = (
        engine.parameters(a_format, b_format),
        engine.places,
        engine.records,
        engine.significand_bits(a_format, b_format),
    )
    sums = format_of_sums(engine)
    zero = np.zeros(shape[1:], dtype)
    out = np.empty(shape, dtype)
    for batch, (i, j) in enumerate(zip(rows, columns, strict=True)):

        def run(k, c, i=i, j=j):
            own = None if engine.scales is None else (left_scales[i][:, k], right_scales[j][k])
            return engine_product(*prepared, left[i][:, k], right[j][k], c, own)

        def plus(x, y):
            return np.asarray(uncounted(add, x, y, sums))

        out[batch] = split_product(engine, left.shape[2], run, plus, start[batch], zero)
    return out


# ---------------------------------------------------------------- what is refused
def check_scales(engine, given):
    """ValueError for scales of a and b that the engine lacks, or that are missing."""
    for what, value in zip(("scale_a", "scale_b"), given, strict=True):
        if engine.scales is None and value is not None:
            raise ValueError(
                f"{engine.name} takes no scales; leave scale_a= and scale_b= out, or choose an engine that has them, "
                "such as softfloat.engines.b200_mxf8f6f4"
            )
        if engine.scales is not None and value is None:
            raise ValueError(
                f"{engine.name} needs {what}=, a value of {engine.scales.label} for each {engine.block} consecutive k"
            )


def refuse_scale(engine, what, place, value):
    allowed = f"values of {engine.scales.label} that are not negative"
    if not engine.scales.mantissa_bits:
        allowed = f"powers of two, the values of {engine.scales.label}"
    raise ValueError(f"{engine.name} takes {what} as {allowed}; element {place} is {value!r}")


def refuse(engine, what, formats, place, value):
    labels = " or ".join(fmt.label for fmt in formats)
    raise ValueError(
        f"{engine.name} takes {what} as values of {labels}; element {place} is {value!r}. Round it first: "
        f"softfloat.quantize({what}, fmt)"
    )


# ---------------------------------------------------------------- operands
def _scales(engine, given, left, right):
    """The scale of each number of a and of b, of shapes left and right, as float32; (None, None) without scales."""
    check_scales(engine, given)
    if engine.scales is None:
        return None, None
    return (
        _scales_of(engine, given[0], left, -1, "scale_a"),
        _scales_of(engine, given[1], right, -2, "scale_b"),
    )


def _scales_of(engine, value, shape, axis, what):
    fmt, block = engine.scales, engine.block
    stray = _first_stray(value, fmt)
    if stray is None:
        stray = _first(np.signbit(value) & ~np.isnan(value))
    if stray is not None:
        refuse_scale(engine, what, stray, value[stray])
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    try:
        value = np.broadcast_to(converted(value, np.dtype(np.float32)), blocks)
    except ValueError:
        raise ValueError(
            f"{what} of shape {value.shape} does not broadcast to {tuple(blocks)}, one scale for each {block} "
            "consecutive k"
        ) from None
    whole = np.repeat(value, block, axis=axis)
    return whole[..., : shape[axis]] if axis == -1 else whole[..., : shape[axis], :]


def _operand(engine, given, value, what):
    """(the values in a carrier that the kernels take, their format); ValueError where no format holds them all."""
    carrier = engine.acc.carrier if engine.kind == "fma" else np.dtype(np.float32)
    for fmt in _candidates(engine, given):
        stray = _first_stray(value, fmt)
        if stray is None:
            value = converted(value, carrier)
            return value if engine.cut is None else _cut_to(value, engine.cut), fmt
    refuse(engine, what, _candidates(engine, given), stray, value[stray])


def _candidates(engine, given):
    """The formats that an operand may be in."""
    if isinstance(given, Held):
        return inputs_of(engine, given._format)
    dtype = getattr(given, "dtype", None)
    typed = isinstance(dtype, np.dtype) and dtype.kind not in "biufOUS"  # a type of ml_dtypes
    return inputs_of(engine, dtype.name if typed else None)


def inputs_of(engine, own):
    """The inputs of an engine, or the one of them that is an operand's own: a Format, or the name of a dtype."""
    same = tuple(fmt for fmt in engine.inputs if own is not None and own in (fmt, fmt.name))
    return same or engine.inputs


def _first_stray(value, fmt):
    """The place of the first element that is no value of fmt, or None."""
    with np.errstate(all="ignore"):
        rounded = uncounted(quantize, value, fmt)
    same = (rounded == value) | np.isnan(value) & fmt.has_nan
    if not fmt.has_infinity:
        same &= ~np.isinf(value)
    return _first(~same)


def _first(chosen):
    """The place of the first element that is chosen, or None."""
    return tuple(int(i) for i in np.argwhere(chosen)[0]) if chosen.any() else None


def _cut_to(value, fmt):
    cut = uncounted(quantize, value, fmt, rounding="toward_zero", saturate="propagate")
    return np.asarray(cut)


def _initial(engine, c):
    stray = _first_stray(c, engine.acc)
    if stray is not None:
        refuse(engine, "c", [engine.acc], stray, c[stray])
    return converted(c, engine.acc.carrier)


def split_product(engine, n, run, plus, c, zero):
    """c + the products of n terms: the parts of k one by one, and their sums.

    run(k, c) : c + the products of these k, a slice or an index array.   plus(x, y) : the sum of two partial sums, in
    `format_of_sums`.   zero : the accumulators that parts begin with, but the first, which begins with c.
    """
    parts = []
    for k in _parts(engine, n):
        parts.append(_promoted_product(engine, k, run, plus, zero if parts else c, zero))
    if engine.split_order == "serial" or len(parts) == 1:
        return functools.reduce(plus, parts)
    half = -(-len(parts) // 2)
    total = parts[-1]
    for i in range(half):
        paired = i + half < len(parts) - 1
        total = plus(total, plus(parts[i], parts[i + half]) if paired else parts[i])
    return total


def _promoted_product(engine, k, run, plus, c, zero):
    if engine.promote is None:
        return run(k, c)
    for piece in _pieces(k, engine.promote):
        c = plus(c, run(piece, zero))
    return c


def _pieces(k, size):
    """Runs of so many of these k, a slice or an index array."""
    if isinstance(k, slice):
        return [slice(i, min(i + size, k.stop)) for i in range(k.start, k.stop, size)]
    return [k[i : i + size] for i in range(0, k.size, size)]


def _parts(engine, n):
    """The k of each part, as slices or index arrays."""
    tiles = -(-n // engine.split_tile)
    if engine.split == 1:
        return [slice(0, n)]
    if engine.split_runs == "contiguous":
        run = -(-tiles // engine.split) * engine.split_tile
        return [slice(min(s * run, n), min((s + 1) * run, n)) for s in range(engine.split)]
    k = np.arange(n)
    return [k[k // engine.split_tile % engine.split == s] for s in range(engine.split)]


def format_of_sums(engine):
    """That of the accumulator that adds partial sums: at least binary32 where the engine promotes."""
    wide = engine.promote is not None and engine.acc.fits(np.float32)
    return binary32 if wide else engine.acc
