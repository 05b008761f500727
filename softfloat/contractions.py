"""Contractions and convolutions with every product and sum rounded, each laid out for `matmul`.

An output element is one sum, from +0 or from c, of its terms in an order that each function states; a sum of a single
term is a sum too. softfloat.ops.reduce defines what the options make of the terms. Where rounding is stochastic, the
random words of an element are those that it has in the matrix product that forms it, which each function states too.
Deterministic work is done in chunks, to bound memory; stochastic work is one product, as its words demand.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from softfloat.formats import as_format
from softfloat.functional import _carriers, _checked_out, _integer, _result_dtype
from softfloat.operands import FLOAT32, FLOAT64, Held, hold, keeps_format
from softfloat.products import rearranged
from softfloat.reductions import _copy, _values
from softfloat.reductions import sum as sum_over
from softfloat.rounding import MODES, STOCHASTIC, as_rounding

AT_ONCE = 1 << 20  # numbers of an operand that are laid out at a time: they stay in the cache
SHARE = 4  # at least so many times the size of the other operand, which every chunk reads anew
_OF_PRODUCTS = ("product", "product_rounding", "fma", "engine")
_LARGEST = (1 << 31) - 1  # stride, padding, dilation and groups


# --- what all share
def _taken(x, what):
    """x as float32 where that is exact, else float64; and its dtype if that is float32 or float64."""
    value, dtypes = _values(x, what)
    if value.dtype == FLOAT64:
        with np.errstate(all="ignore"):
            narrow = value.astype(FLOAT32)
            wide = narrow.astype(FLOAT64)
        # Bits, not values: under DAZ every subnormal number would equal the zero it was cast to.
        if np.array_equal(wide.view(np.int64), np.ascontiguousarray(value).view(np.int64)):
            value = narrow
    return value, dtypes


def _finish(result, fmt, dtypes, out):
    """The values in C order, in the carrier that the operands ask for, or in out."""
    if out is not None:
        _copy(result, _checked_out(out, result.shape, _carriers(fmt), fmt))
        return out
    dtype = _result_dtype(fmt, dtypes)
    if result.dtype != dtype:
        found = np.empty(result.shape, dtype)
        _copy(result, found)
        result = found
    result = np.array(result, order="C", copy=None)
    return result if result.ndim else result[()]


def _advanced(options, steps):
    """The options of one of several products, which must not share random words: the stream is `steps` further on."""
    if not steps or not _draws(options):
        return options
    return {**options, "stream": (options.get("stream", 0) + steps) % (1 << 64)}


# --- contractions
def _labels(term, ndim, number):
    """The labels of an operand's axes: letters, and negative numbers, counted from the last, for those of '...'."""
    before, dots, after = term.partition("...")
    for letter in before + after:
        if not (letter.isascii() and letter.isalpha()):
            raise ValueError(
                f"einsum: {letter!r} in the subscripts {term!r} of operand {number} is no letter; "
                "indices are letters, and one '...' may stand for further axes"
            )
    named = len(before) + len(after)
    if ndim < named or (ndim > named and not dots):
        hint = "; add '...' for the others" if ndim > named else ""
        raise ValueError(
            f"einsum: the subscripts {term!r} name {named} axes, but operand {number} has {ndim}{hint}"
        )
    return (*before, *range(named - ndim, 0), *after)


@functools.lru_cache(maxsize=256)
def _parsed(subscripts, ndims):
    """(labels of each operand, labels of the output) for operands of these numbers of dimensions."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    pairs = enumerate(zip(terms, ndims, strict=True))
    labels = tuple(_labels(term, ndim, i) for i, (term, ndim) in pairs)
    everything = list(itertools.chain(*labels))
    dots = sorted({label for label in everything if isinstance(label, int)})
    if not arrow:
        letters = {label for label in everything if isinstance(label, str)}
        return labels, (*dots, *sorted(c for c in letters if everything.count(c) == 1))
    before, shown, after = output.partition("...")
    if dots and not shown:
        raise ValueError(
            f"einsum: the output {output!r} lacks the '...' of the operands; add it, or name the axes"
        )
    for letter in before + after:
        if letter not in everything:
            raise ValueError(f"einsum: the output's {letter!r} is an index of no operand")
        if (before + after).count(letter) > 1:
            raise ValueError(f"einsum: the output names index {letter!r} more than once")
    return labels, (*before, *dots, *after)


def _index_sizes(labels, arrays):
    """The size of each index; an axis of size 1 is repeated, as in NumPy, where another operand has more."""
    sizes = {}
    for number, (own, x) in enumerate(zip(labels, arrays, strict=True)):
        inside = {}
        for label, size in zip(own, x.shape, strict=True):
            name = repr(label) if isinstance(label, str) else "of '...'"
            if inside.setdefault(label, size) != size:
                raise ValueError(
                    f"einsum: index {name} has sizes {inside[label]} and {size} in operand {number}"
                )
            known = sizes.get(label, 1)
            if size not in (1, known) and known != 1:
                raise ValueError(
                    f"einsum: index {name} has size {known}, but {size} in operand {number}"
                )
            sizes[label] = known if size == 1 else size
    return sizes


def _arranged(x, labels, wanted, sizes):
    """x with one axis for each wanted label, in that order; repeated labels take the diagonal."""
    own = list(dict.fromkeys(labels))
    if len(own) < len(labels):
        x = np.einsum(x, [own.index(label) for label in labels], list(range(len(own))))
    x = x.transpose([own.index(label) for label in wanted if label in own])
    x = x[tuple(slice(None) if label in own else None for label in wanted)]
    shape = tuple(sizes[label] for label in wanted)
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _one(x, labels, output, sizes, fmt, options):
    """The sums of one operand's elements."""
    for name in _OF_PRODUCTS:
        if name in options:
            raise ValueError(
                f"{name}= is about products, and a single operand has none; leave it out"
            )
    for name in ("axis", "keepdims"):
        if name in options:
            raise TypeError(
                f"einsum: there is no option {name!r} here; the subscripts say what is summed over"
            )
    summed = [label for label in dict.fromkeys(labels) if label not in output]
    terms = _arranged(x, labels, [*output, *summed], sizes)
    axes = tuple(range(len(output), terms.ndim))
    return np.asarray(sum_over(terms, fmt, axes, **options))


def _pair(first, second, summed, output, sizes, fmt, options):
    """The contraction of two operands, each a pair (array, labels), over the labels `summed` in this order."""
    (a, left), (b, right) = first, second
    batch = [label for label in output if label in left and label in right]
    rows = [label for label in output if label in left and label not in right]
    columns = [label for label in output if label in right and label not in left]
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        # Products commute, and this way round the result needs no transposition.
        return _pair(second, first, summed, output, sizes, fmt, options)
    many = [sizes[label] for label in batch]
    m, k, n = (math.prod(sizes[label] for label in group) for group in (rows, summed, columns))
    a = _arranged(a, left, [*batch, *rows, *summed], sizes).reshape(*many, m, k)
    b = _arranged(b, right, [*batch, *summed, *columns], sizes).reshape(*many, k, n)
    order = [*batch, *rows, *columns]
    product = rearranged(a, b, fmt, **options).reshape([sizes[label] for label in order])
    return product.transpose([order.index(label) for label in output])


def _einsum(arrays, labels, output, fmt, options):
    sizes = _index_sizes(labels, arrays)
    if len(arrays) == 1:
        return _one(arrays[0], labels[0], output, sizes, fmt, options)
    everything = dict.fromkeys(itertools.chain(*labels))
    result, own = arrays[0], labels[0]
    for i in range(1, len(arrays)):
        here = [label for label in everything if label in own or label in labels[i]]
        later = {*output, *itertools.chain(*labels[i + 1 :])}
        kept = output if i == len(arrays) - 1 else tuple(x for x in here if x in later)
        summed = [label for label in here if label not in kept]
        more = _advanced(options, i - 1)
        result = _pair((result, own), (arrays[i], labels[i]), summed, kept, sizes, fmt, more)
        own = kept
    return result


def einsum(subscripts, *operands, fmt=None, out=None, **options):
    """Sums of products in Einstein's notation, every operation rounded: einsum("ij,jk->ik", a, b, fmt).

    subscripts : as for np.einsum: letters, '...', repeated letters for diagonals; without '->' the output has the
        letters that occur once, in alphabetical order.   fmt : the result's format, the last argument or fmt=.
    The terms of an element come in C order of the summed indices, these in the order in which they first appear in
    the subscripts: bit for bit the loops `for each summed index: s = s + a[...] * b[...]`. One operand is summed as by
    `sum`. More than two are taken from left to right: the first two are contracted over the indices that no later
    operand and not the output has, and rounded to fmt; so are that result and the third, and so on.
    options : as for `matmul` (product, accumulator, order, block, outer, fma, rounding and so on), as for `sum` with
        one operand.
    Random words: those of the matrix product (of one batch for each index that is in both operands and the output)
    whose rows are the indices of the operand that comes first in the output; product number i = 0, 1, ... of more than
    two operands takes the stream `stream + i`. One operand: as for `sum`.
    Raises ValueError if subscripts and shapes do not agree.

    >>> import numpy as np, softfloat as sf
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> sf.einsum("ij,kj->ik", a, a, sf.bfloat16)
    array([[ 5., 14.],
           [14., 50.]])
    >>> float(sf.einsum("ii", np.full((300, 300), 1.0), sf.bfloat16))
    256.0
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum: the subscripts must be a string, got {type(subscripts).__name__}")
    subscripts = "".join(subscripts.split())
    count = subscripts.partition("->")[0].count(",") + 1
    if fmt is None:
        if len(operands) != count + 1:
            raise ValueError(
                f"einsum: {subscripts!r} has {count} operand{'s' * (count > 1)}, then comes the format: "
                f"{count + 1} arguments, got {len(operands)}"
            )
        *operands, fmt = operands
    elif len(operands) != count:
        raise ValueError(
            f"einsum: {subscripts!r} has {count} operand{'s' * (count > 1)}, got {len(operands)}"
        )
    _refuse_start("einsum", options)
    fmt = as_format(fmt)
    values, dtypes = zip(*(_values(x, f"operand {i}") for i, x in enumerate(operands)), strict=True)
    labels, output = _parsed(subscripts, tuple(x.ndim for x in values))
    result = _einsum(values, labels, output, fmt, options)
    result = _finish(result, fmt, [d for own in dtypes for d in own], out)
    soft = any(isinstance(x, Held) for x in operands)
    return hold(result, fmt) if soft and out is None else result


def _refuse_start(name, options):
    if "c" in options:
        raise TypeError(f"{name}() takes no c=; matmul and the convolutions do")


def _axis_pairs(axes, first, second):
    """The axes of both operands that are summed over, pair by pair."""
    if isinstance(axes, (int, np.integer)):
        count = _integer("axes", axes, 0, min(first.ndim, second.ndim))
        return list(range(first.ndim - count, first.ndim)), list(range(count))
    try:
        pair = [list(side) if np.ndim(side) else [side] for side in axes]
    except (TypeError, ValueError):
        pair = []
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ValueError(
            f"axes must be a number or two lists of axes of equal length, got {axes!r}"
        )
    normal = []
    for side, x in zip(pair, (first, second), strict=True):
        if side and not x.ndim:
            raise ValueError(f"axes {axes!r} name axes of an operand that has none")
        own = [_integer("axes", i, -x.ndim, x.ndim - 1) % x.ndim for i in side]
        if len(set(own)) != len(own):
            raise ValueError(f"axes {axes!r} name an axis twice")
        normal.append(own)
    return normal


@keeps_format
def tensordot(a, b, fmt, axes=2, *, out=None, **options):
    """Sums of products over pairs of axes, as np.tensordot forms them, every operation rounded.

    axes : a number n, for the last n of a and the first n of b, or two lists of axes.
    Terms come in C order of the axes in the order given; options and random words as for `einsum`.

    >>> import numpy as np, softfloat as sf
    >>> float(sf.tensordot(np.ones((20, 20)), np.ones((20, 20)), sf.bfloat16))
    256.0
    """
    return _tensordot("tensordot", _values(a, "a"), _values(b, "b"), fmt, axes, out, options)


def _tensordot(name, a, b, fmt, axes, out, options):
    """As `tensordot`, for the function of this name; a, b : what `_values` gives."""
    _refuse_start(name, options)
    fmt = as_format(fmt)
    (first, dtypes), (second, more) = a, b
    own, other = _axis_pairs(axes, first, second)
    left = list(range(first.ndim))
    right = list(range(first.ndim, first.ndim + second.ndim))
    for i, j in zip(own, other, strict=True):
        if first.shape[i] != second.shape[j]:
            raise ValueError(
                f"{name}: axis {i} of a has size {first.shape[i]}, axis {j} of b {second.shape[j]}"
            )
        right[j] = i
    sizes = dict(zip(left + right, first.shape + second.shape, strict=True))
    output = [i for i in left if i not in own] + [i for i in right if i not in own]
    result = _pair((first, left), (second, right), own, output, sizes, fmt, options)
    return _finish(result, fmt, dtypes + more, out)


@keeps_format
def inner(a, b, fmt, *, out=None, **options):
    """Inner products over the last axes, as np.inner forms them; options as for `tensordot`."""
    a, b = _values(a, "a"), _values(b, "b")
    axes = (-1, -1) if a[0].ndim and b[0].ndim else 0
    return _tensordot("inner", a, b, fmt, axes, out, options)


@keeps_format
def outer(a, b, fmt, *, out=None, **options):
    """All products of an element of a and one of b, both in C order, each added to +0; options as for `tensordot`."""
    flat = [(x.reshape(-1), dtypes) for x, dtypes in (_values(a, "a"), _values(b, "b"))]
    return _tensordot("outer", *flat, fmt, 0, out, options)


# --- convolutions
@dataclass(frozen=True)
class _Geometry:
    """The checked sizes of one convolution; all but groups, one entry for each dimension of space."""

    size: tuple  # of the input
    kernel: tuple
    output: tuple
    stride: tuple
    before: tuple  # zeros before the first place of the input
    after: tuple
    dilation: tuple
    groups: int


def _each(name, value, dims, low):
    """A number, or one for each dimension, as a tuple."""
    if isinstance(value, (tuple, list)):
        if len(value) != dims:
            raise ValueError(f"{name} must be a number or {dims} of them, got {value!r}")
        return tuple(_integer(name, v, low, _LARGEST) for v in value)
    return (_integer(name, value, low, _LARGEST),) * dims


def _padding(padding, kernel, stride, dilation):
    """Zeros (before, after) each dimension."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ValueError(f'padding must be numbers, "valid" or "same", got {padding!r}')
        if padding == "valid":
            return (0,) * len(kernel), (0,) * len(kernel)
        if any(s != 1 for s in stride):
            raise ValueError(f'padding="same" goes with stride 1, got stride {stride}')
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    both = _each("padding", padding, len(kernel), 0)
    return both, both


def _geometry(name, dims, x, w, stride, padding, dilation, groups):
    """The geometry of inputs and weights of these shapes."""
    axes = {1: "length", 2: "height, width"}[dims]
    if len(x) != dims + 2:
        raise ValueError(f"{name}: the input must have shape (n, c_in, {axes}), got {x}")
    if len(w) != dims + 2:
        raise ValueError(
            f"{name}: the weights must have shape (c_out, c_in / groups, {axes}), got {w}"
        )
    groups = _integer("groups", groups, 1, _LARGEST)
    if w[0] % groups or w[1] * groups != x[1]:
        raise ValueError(
            f"{name}: weights of shape {w} with groups={groups} go with {w[1] * groups} input channels and a "
            f"multiple of {groups} output channels; the input has shape {x}"
        )
    size, kernel = x[2:], w[2:]
    if 0 in kernel:
        raise ValueError(
            f"{name}: the weights of shape {w} have no place in space; give at least one"
        )
    stride = _each("stride", stride, dims, 1)
    dilation = _each("dilation", dilation, dims, 1)
    before, after = _padding(padding, kernel, stride, dilation)
    output = []
    for length, k, s, p, q, d in zip(size, kernel, stride, before, after, dilation, strict=True):
        room = length + p + q - d * (k - 1) - 1
        if room < 0:
            raise ValueError(
                f"{name}: the kernel of size {k}, dilation {d}, reaches over {d * (k - 1) + 1} places, "
                f"but the input with its padding has {length + p + q}; pad it, or take a smaller kernel"
            )
        output.append(room // s + 1)
    return _Geometry(size, kernel, tuple(output), stride, before, after, dilation, groups)


def _cut(x, starts, lengths):
    """The places starts ... starts + lengths of the last dimensions, +0 beyond the borders of x."""
    sizes = x.shape[-len(starts) :]
    if sizes == tuple(lengths) and not any(starts):
        return x
    cut = np.zeros(x.shape[: -len(starts)] + tuple(lengths), x.dtype)
    target, source = [...], [...]
    for start, length, size in zip(starts, lengths, sizes, strict=True):
        first, stop = max(start, 0), max(min(start + length, size), max(start, 0))
        source.append(slice(first, stop))
        target.append(slice(first - start, stop - start))
    cut[tuple(target)] = x[tuple(source)]
    return cut


def _windows(x, kernel, stride, dilation):
    """What each output place sees: from (n, groups, c, *space) a view (groups, c, *kernel, n, *output)."""
    dims = len(kernel)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = sliding_window_view(x, reach, tuple(range(3, 3 + dims)))
    view = view[(..., *(slice(None, None, s) for s in (*stride, *dilation)))]
    places, taps = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    return view.transpose(1, 2, *taps, 0, *places)


def _seen(x, geometry):
    """The windows of a convolution's input."""
    g = geometry
    lengths = [sum(t) for t in zip(g.size, g.before, g.after, strict=True)]
    padded = _cut(x, [-p for p in g.before], lengths)
    n, channels = x.shape[:2]
    grouped = padded.reshape(n, g.groups, channels // g.groups, *lengths)
    return _windows(grouped, g.kernel, g.stride, g.dilation)


def _draws(options):
    """Whether an operation of this call is stochastic."""
    given = (options.get(name) for name in ("rounding", "product_rounding", "result_rounding"))
    return any(MODES[as_rounding(r)] >= STOCHASTIC for r in given if r is not None)


def _parts(outer_size, inner_size, unit, budget):
    """Pairs of slices that cover outer x inner items of `unit` numbers each, about `budget` numbers a pair.

    At least one pair, if an empty one: even then the options are to be checked.
    """
    outer_step = max(1, budget // max(inner_size * unit, 1))
    inner_step = max(1, inner_size if outer_step > 1 else budget // max(unit, 1))
    for i in range(0, max(outer_size, 1), outer_step):
        for j in range(0, max(inner_size, 1), inner_step):
            yield (
                slice(i, min(i + outer_step, outer_size)),
                slice(j, min(j + inner_step, inner_size)),
            )


def _correlate(windows, weights, result, c, fmt, options):
    """result = the sums over (channel, *kernel) of weights times windows, of the kernel's last place last.

    windows : as `_windows` gives them.   weights : (groups, m, terms).   result, c : (n, groups, m, *output) or None.
    """
    dims = result.ndim - 3
    groups, m, terms = weights.shape
    n, rows, *line = windows.shape[-dims - 1 :]
    unit = groups * terms * math.prod(line)
    budget = windows.size if _draws(options) else max(AT_ONCE, SHARE * weights.size)
    forth, back = (1, 2, 0, *range(3, 3 + dims)), (2, 0, 1, *range(3, 3 + dims))
    buffer = np.empty(0, windows.dtype)
    for images, lines in _parts(n, rows, unit, budget):
        part = windows[(..., images, lines, *(slice(None) for _ in line))]
        buffer = buffer if buffer.size >= part.size else np.empty(part.size, part.dtype)
        columns = buffer[: part.size].reshape(part.shape)
        columns[...] = part
        places = part.shape[part.ndim - dims - 1 :]
        place = (images, slice(None), slice(None), lines)
        flat = (groups, m, math.prod(places))
        start = None if c is None else c[place].transpose(forth).reshape(flat)
        columns = columns.reshape(groups, terms, flat[2])
        product = rearranged(weights, columns, fmt, c=start, **options)
        _copy(product.reshape(groups, m, *places).transpose(back), result[place])


def _start(c, shape):
    if c is None:
        return None
    value, _ = _values(c, "c")
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(
            f"c of shape {value.shape} does not broadcast to the result's shape {shape}"
        ) from None


def _grouped(x, groups):
    """(n, channels, *space) as (n, groups, channels / groups, *space), a view."""
    return None if x is None else x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])


def _convolution(dims, x, w, fmt, stride, padding, dilation, groups, c, out, options):
    fmt = as_format(fmt)
    (x, dtypes), (w, more) = _taken(x, "x"), _taken(w, "w")
    geometry = _geometry(f"conv{dims}d", dims, x.shape, w.shape, stride, padding, dilation, groups)
    result = np.empty((len(x), len(w), *geometry.output), _result_dtype(fmt, dtypes + more))
    weights = w.reshape(geometry.groups, len(w) // geometry.groups, math.prod(w.shape[1:]))
    start = _start(c, result.shape)
    target, start = _grouped(result, geometry.groups), _grouped(start, geometry.groups)
    _correlate(_seen(x, geometry), weights, target, start, fmt, options)
    return _finish(result, fmt, dtypes + more, out)


def _shape(name, shape):
    try:
        return tuple(_integer(name, size, 0, (1 << 62) - 1) for size in shape)
    except TypeError:
        raise TypeError(f"{name} must be a tuple of integers, got {shape!r}") from None


def _check_gradient(name, gradient, n, channels, geometry):
    expected = (n, channels, *geometry.output)
    if gradient.shape != expected:
        raise ValueError(
            f"{name}: the gradient must have the output's shape {expected}, got {gradient.shape}"
        )


@dataclass(frozen=True)
class _Phase:
    """In one dimension, the input places residue, residue + stride, ... and the taps of the kernel that reach them.

    Input place t of these meets tap j of these at the gradient's place t + first + (count - 1 - j) * step.
    """

    places: int
    taps: slice
    count: int  # of the taps
    first: int
    step: int


def _phase(residue, size, k, s, before, d):
    """The phase of a residue, for a kernel of size k, stride s and dilation d."""
    places = len(range(residue, size, s))
    taps = [j for j in range(k) if (residue + before - j * d) % s == 0]
    if not taps:
        return _Phase(places, slice(0, 0), 0, 0, 1)
    common = math.gcd(s, d)
    first = (residue + before - taps[-1] * d) // s
    return _Phase(places, slice(taps[0], None, s // common), len(taps), first, d // common)


def _phases(g):
    """(place of the residues in C order of all, residues, their phases) for each set of input places."""
    steps = [range(max(1, min(s, size))) for s, size in zip(g.stride, g.size, strict=True)]
    for residues in itertools.product(*steps):
        number = 0
        for residue, s in zip(residues, g.stride, strict=True):
            number = number * s + residue
        each = zip(residues, g.size, g.kernel, g.stride, g.before, g.dilation, strict=True)
        yield number, residues, [_phase(*one) for one in each]


def _places_met(gradient, phases):
    """What the input places of these phases meet through their taps, as `_windows` arranges it."""
    counts = tuple(phase.count for phase in phases)
    places = tuple(phase.places for phase in phases)
    steps = [phase.step for phase in phases]
    if 0 in counts + places:
        n, groups, channels = gradient.shape[:3]
        return np.zeros((groups, channels, *counts, n, *places), gradient.dtype)
    lengths = [t + (j - 1) * step for t, j, step in zip(places, counts, steps, strict=True)]
    cut = _cut(gradient, [phase.first for phase in phases], lengths)
    windows = _windows(cut, counts, (1,) * len(phases), steps)
    # The kernel's places in their own order: the last one meets the first place.
    return np.flip(windows, tuple(range(2, 2 + len(phases))))


def _input_gradient(
    dims, gradient, w, shape, fmt, stride, padding, dilation, groups, c, out, options
):
    name = f"conv{dims}d_input_gradient"
    fmt, shape = as_format(fmt), _shape("input_shape", shape)
    (gradient, dtypes), (w, more) = _taken(gradient, "gradient"), _taken(w, "w")
    g = _geometry(name, dims, shape, w.shape, stride, padding, dilation, groups)
    _check_gradient(name, gradient, shape[0], len(w), g)
    result = np.empty(shape, _result_dtype(fmt, dtypes + more))
    target, start = _grouped(result, g.groups), _grouped(_start(c, shape), g.groups)
    gradient = _grouped(gradient, g.groups)
    weights = w.reshape(g.groups, len(w) // g.groups, *w.shape[1:]).swapaxes(1, 2)
    for number, residues, phases in _phases(g):
        windows = _places_met(gradient, phases)
        some = weights[(..., *(phase.taps for phase in phases))]
        some = some.reshape(*some.shape[:2], math.prod(some.shape[2:]))
        where = (..., *(slice(r, None, s) for r, s in zip(residues, g.stride, strict=True)))
        begin = None if start is None else start[where]
        _correlate(windows, some, target[where], begin, fmt, _advanced(options, number))
    return _finish(result, fmt, dtypes + more, out)


def _weight_gradient(
    dims, x, gradient, shape, fmt, stride, padding, dilation, groups, c, out, options
):
    name = f"conv{dims}d_weight_gradient"
    fmt, shape = as_format(fmt), _shape("weight_shape", shape)
    (x, dtypes), (gradient, more) = _taken(x, "x"), _taken(gradient, "gradient")
    g = _geometry(name, dims, x.shape, shape, stride, padding, dilation, groups)
    _check_gradient(name, gradient, len(x), shape[0], g)
    m = shape[0] // g.groups
    grouped = (g.groups, m, *shape[1:])
    result = np.empty(shape, _result_dtype(fmt, dtypes + more))
    target, start = result.reshape(grouped), _start(c, shape)
    start = None if start is None else start.reshape(grouped)
    terms = len(x) * math.prod(g.output)
    right = _grouped(gradient, g.groups).transpose(1, 0, *range(3, 3 + dims), 2)
    right = np.ascontiguousarray(right).reshape(g.groups, terms, m)
    windows = _seen(x, g)
    unit = math.prod(g.kernel) * terms
    budget = windows.size if _draws(options) else max(AT_ONCE, SHARE * right.size)
    for some, channels in _parts(g.groups, shape[1], unit, budget):
        part = windows[some, channels]
        rows = (part.shape[0], math.prod(part.shape[1 : 2 + dims]), m)
        left = part.reshape(rows[0], rows[1], terms)
        where = (some, slice(None), channels)
        begin = None if start is None else np.moveaxis(start[where], 1, -1).reshape(rows)
        product = rearranged(left, right[some], fmt, c=begin, **options)
        _copy(np.moveaxis(product.reshape(*part.shape[: 2 + dims], m), -1, 1), target[where])
    return _finish(result, fmt, dtypes + more, out)


@keeps_format
def conv2d(x, w, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None, **options):
    """Convolution of images with every operation rounded; a cross-correlation, as in neural networks.

    x : (n, c_in, height, width).   w : (c_out, c_in / groups, kernel height, kernel width).
    stride, dilation : a number, or two for height and width.   padding : likewise, or "valid" (0) or "same" (the
        output of the input's size, stride 1; an odd zero comes last).
    Element (i, o, y, x) is the sum, from c or +0, over (channel, kernel row, kernel column) in C order, the channels
    those of its group, of w[o, channel, row, column] times the input at (i, channel, y * stride + row * dilation -
    padding, ...). Padded places take part as +0, as if the input had been padded: they make NaN of infinite weights.
    c : initial accumulator, of a shape that broadcasts to the output's; a bias is c=bias[:, None, None].
    options : as for `matmul`. Random words: those of the matrix product w @ windows, one batch for each group, with
        the output channels of the group as rows and (image, y, x) as columns.
    Returns (n, c_out, height, width) values of fmt. Raises ValueError if shapes do not agree.

    >>> import numpy as np, softfloat as sf
    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> sf.conv2d(x, np.ones((1, 1, 3, 3)), sf.bfloat16)
    array([[[[45., 54.],
             [81., 90.]]]])
    """
    return _convolution(2, x, w, fmt, stride, padding, dilation, groups, c, out, options)


@keeps_format
def conv1d(x, w, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None, **options):
    """Convolution of sequences: x (n, c_in, length), w (c_out, c_in / groups, kernel length); else as `conv2d`.

    >>> import numpy as np, softfloat as sf
    >>> sf.conv1d(np.ones((1, 1, 4)), np.ones((1, 1, 3)), sf.bfloat16, padding="same")
    array([[[2., 3., 3., 2.]]])
    """
    return _convolution(1, x, w, fmt, stride, padding, dilation, groups, c, out, options)


@keeps_format
def conv2d_input_gradient(
    gradient, w, input_shape, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None,
    **options,
):  # fmt: skip
    """The gradient of `conv2d` with respect to its input, from that of its output, every operation rounded.

    gradient : (n, c_out, height, width), of the output.   w and the geometry as for `conv2d`.
    input_shape : (n, c_in, height, width), also the result's.
    Element (i, channel, y, x) is the sum, from c or +0, over (output channel of its group, kernel row, kernel column)
    in C order of w[o, channel, row, column] times the gradient at the output place that saw (y, x) through (row,
    column). Kernel places through which the stride lets no output see it are no terms; those whose output would lie
    beyond the border meet a gradient of +0.
    options : as for `matmul`. Random words: input places with equal remainders modulo the strides form one matrix
        product, with the channels of a group as rows and (image, y, x) as columns; it takes the stream `stream + i`,
        where i is the place of the remainders in C order.

    >>> import numpy as np, softfloat as sf
    >>> sf.conv2d_input_gradient(np.ones((1, 1, 1, 2)), np.ones((1, 1, 1, 3)), (1, 1, 1, 5), sf.bfloat16, stride=2)
    array([[[[1., 1., 2., 1., 1.]]]])
    """
    return _input_gradient(
        2, gradient, w, input_shape, fmt, stride, padding, dilation, groups, c, out, options
    )


@keeps_format
def conv1d_input_gradient(
    gradient, w, input_shape, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None,
    **options,
):  # fmt: skip
    """The gradient of `conv1d` with respect to its input, of shape (n, c_in, length); as `conv2d_input_gradient`."""
    return _input_gradient(
        1, gradient, w, input_shape, fmt, stride, padding, dilation, groups, c, out, options
    )


@keeps_format
def conv2d_weight_gradient(
    x, gradient, weight_shape, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None,
    **options,
):  # fmt: skip
    """The gradient of `conv2d` with respect to its weights, from that of its output, every operation rounded.

    x and the geometry as for `conv2d`.   gradient : (n, c_out, height, width), of the output.
    weight_shape : (c_out, c_in / groups, kernel height, kernel width), also the result's.
    Element (o, channel, row, column) is the sum, from c or +0, over (image, y, x) of the output in C order of
    gradient[image, o, y, x] times the input that (y, x) sees through (row, column); padded places take part as +0.
    options : as for `matmul`. Random words: those of the matrix product windows @ gradient, one batch for each group,
        with (channel, row, column) as rows and the output channels of the group as columns.

    >>> import numpy as np, softfloat as sf
    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> sf.conv2d_weight_gradient(x, np.ones((1, 1, 3, 3)), (1, 1, 2, 2), sf.bfloat16)
    array([[[[45., 54.],
             [81., 90.]]]])
    """
    return _weight_gradient(
        2, x, gradient, weight_shape, fmt, stride, padding, dilation, groups, c, out, options
    )


@keeps_format
def conv1d_weight_gradient(
    x, gradient, weight_shape, fmt, *, stride=1, padding=0, dilation=1, groups=1, c=None, out=None,
    **options,
):  # fmt: skip
    """The gradient of `conv1d` with respect to its weights, of shape (c_out, c_in / groups, kernel length)."""
    return _weight_gradient(
        1, x, gradient, weight_shape, fmt, stride, padding, dilation, groups, c, out, options
    )


__all__ = [
    "conv1d",
    "conv1d_input_gradient",
    "conv1d_weight_gradient",
    "conv2d",
    "conv2d_input_gradient",
    "conv2d_weight_gradient",
    "einsum",
    "inner",
    "outer",
    "tensordot",
]
