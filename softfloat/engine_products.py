"""Matrix products by an engine: operands in its formats, batches, the scales of blocks, promotion and split k.

softfloat.matmul calls `product`; softfloat.engines says what an engine is, softfloat.backends.engine forms the sums.
"""

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
    run = _Steps(engine, a_format, b_format)
    out = np.empty(shape, dtype)
    for batch, (i, j) in enumerate(zip(rows, columns, strict=True)):
        own = None if engine.scales is None else (left_scales[i], right_scales[j])
        out[batch] = _split_product(engine, run, left[i], right[j], start[batch], own)
    return out


class _Steps:
    """c + a @ b for matrices, without promotion and split."""

    def __init__(self, engine, a, b):
        bits = engine.significand_bits(a, b)
        self.prepared = engine.parameters(a, b), engine.places, engine.records, bits

    def __call__(self, a, b, c, scales):
        return engine_product(*self.prepared, a, b, c, scales)


def _scales(engine, given, left, right):
    """The scale of each number of a and of b, of shapes left and right, as float32; (None, None) without scales."""
    if engine.scales is None:
        if any(x is not None for x in given):
            raise ValueError(
                f"{engine.name} takes no scales; leave scale_a= and scale_b= out, or choose an engine that has them, "
                "such as softfloat.engines.b200_mxf8f6f4"
            )
        return None, None
    return (
        _scales_of(engine, given[0], left, -1, "scale_a"),
        _scales_of(engine, given[1], right, -2, "scale_b"),
    )


def _scales_of(engine, value, shape, axis, what):
    fmt, block = engine.scales, engine.block
    if value is None:
        raise ValueError(
            f"{engine.name} needs {what}=, a value of {fmt.label} for each {block} consecutive k"
        )
    stray = _first_stray(value, fmt)
    if stray is None:
        stray = _first(np.signbit(value) & ~np.isnan(value))
    if stray is not None:
        allowed = f"values of {fmt.label} that are not negative"
        if not fmt.mantissa_bits:
            allowed = f"powers of two, the values of {fmt.label}"
        raise ValueError(
            f"{engine.name} takes {what} as {allowed}; element {stray} is {value[stray]!r}"
        )
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
    labels = " or ".join(fmt.label for fmt in _candidates(engine, given))
    raise ValueError(
        f"{engine.name} takes {what} as values of {labels}; element {stray} is {value[stray]!r}. Round it first: "
        f"softfloat.quantize({what}, fmt)"
    )


def _candidates(engine, given):
    """The formats that an operand may be in: its own alone, where it says more than its carrier does."""
    if isinstance(given, Held):
        return (given._format,) if given._format in engine.inputs else engine.inputs
    dtype = getattr(given, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind not in "biufOUS":  # a type of ml_dtypes
        own = tuple(fmt for fmt in engine.inputs if fmt.name == dtype.name)
        return own or engine.inputs
    return engine.inputs


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
        raise ValueError(
            f"{engine.name} takes c as values of {engine.acc.label}; element {stray} is {c[stray]!r}. Round it "
            f"first: softfloat.quantize(c, fmt)"
        )
    return converted(c, engine.acc.carrier)


def _split_product(engine, run, a, b, c, scales):
    """One matrix product: the parts of k one by one, and their sums."""
    if engine.split == 1:
        return _promoted_product(engine, run, a, b, c, scales)
    parts = []
    for k in _parts(engine, a.shape[1]):
        start = c if not parts else np.zeros_like(c)  # c begins the first part
        parts.append(_promoted_product(engine, run, *_part(a, b, k), start, _part_of(scales, k)))
    if engine.split_order == "serial":
        total = parts[0]
        for part in parts[1:]:
            total = _plus(engine, total, part)
        return total
    half = -(-len(parts) // 2)
    total = parts[-1]
    for i in range(half):
        paired = i + half < len(parts) - 1
        term = _plus(engine, parts[i], parts[i + half]) if paired else parts[i]
        total = _plus(engine, total, term)
    return total


def _part(a, b, k):
    return a[:, k], b[k]


def _part_of(scales, k):
    return None if scales is None else _part(*scales, k)


def _parts(engine, n):
    """The k of each part, as slices or index arrays."""
    tiles = -(-n // engine.split_tile)
    if engine.split_runs == "contiguous":
        run = -(-tiles // engine.split) * engine.split_tile
        return [slice(min(s * run, n), min((s + 1) * run, n)) for s in range(engine.split)]
    k = np.arange(n)
    return [k[k // engine.split_tile % engine.split == s] for s in range(engine.split)]


def _plus(engine, x, y):
    """The sum in the accumulator that adds partial sums: at least binary32 where the engine promotes."""
    wide = engine.promote is not None and engine.acc.fits(np.float32)
    return np.asarray(uncounted(add, x, y, binary32 if wide else engine.acc))


def _promoted_product(engine, run, a, b, c, scales):
    if engine.promote is None:
        return run(a, b, c, scales)
    for k in range(0, a.shape[1], engine.promote):
        part = slice(k, k + engine.promote)
        c = _plus(engine, c, run(*_part(a, b, part), np.zeros_like(c), _part_of(scales, part)))
    return c
