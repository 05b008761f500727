"""Loops of compensated sums, in any way of softfloat.backends.additions: softfloat.ops.reduce defines them.

Each element has two running numbers side by side, its sum and its correction. The loops also watch all the magnitudes
that could overflow an operation: the sums, what is added to them, and the corrections. An operation takes and gives
less than MARGIN times the largest of these.
"""

import numpy as np

from softfloat._jit import jit
from softfloat.bits import magnitude, to_bits, to_float, umax, zero_like

MARGIN = 16


def _step_form(add, neumaier):
    """step(s, e, x, p): (sum, correction, a magnitude to watch, as bits) after the term x."""

    @jit(inline=True)
    def kahan_step(s, e, x, p):
        word = np.uint64(0)
        y = add(x, e, p, word)
        z = add(s, y, p, word)
        e = add(add(s, -z, p, word), y, p, word)
        return z, e, umax(magnitude(to_bits(y)), magnitude(to_bits(z)))

    @jit(inline=True)
    def neumaier_step(s, e, x, p):
        word = np.uint64(0)
        z = add(s, x, p, word)
        first = abs(s) >= abs(x)
        high, low = s if first else x, x if first else s
        e = add(e, add(add(high, -z, p, word), low, p, word), p, word)
        return z, e, umax(magnitude(to_bits(e)), magnitude(to_bits(z)))

    return neumaier_step if neumaier else kahan_step


def columns_loop(add, load, look, note, lane, room, panel, neumaier):
    """columns(flat, stride, n, S, P, seen): entry j takes the terms flat[j], flat[stride + j], ..."""
    step = _step_form(add, neumaier)

    @jit
    def columns(flat, stride, n, S, P, seen, keys, first):
        p = load(P)
        sums, rests = room(panel), room(panel)
        size = S.size // 2
        for j in range(0, size, panel):
            width = min(panel, size - j)
            s, e, pairs = sums[:width], rests[:width], S[2 * j : 2 * (j + width)]
            peak = zero_like(to_bits(S[0]))
            for i in range(width):
                s[i], e[i] = pairs[2 * i], pairs[2 * i + 1]
                peak = umax(peak, umax(magnitude(to_bits(s[i])), magnitude(to_bits(e[i]))))
            for k in range(n):
                row = flat[k * stride + j : k * stride + j + width]
                digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
                for i in range(width):
                    digits, high, stray = look(np.float32(row[i]), digits, high, stray, p)
                    s[i], e[i], m = step(s[i], e[i], lane(row[i]), p)
                    peak = umax(peak, m)
                note(seen, digits, high, stray)
            for i in range(width):
                pairs[2 * i], pairs[2 * i + 1] = s[i], e[i]
            note(seen, np.uint32(0), to_bits(np.float32(to_float(peak))), np.uint32(0))

    return columns


def rows_loop(columns, chain, turn, room, few, rows_at_once, terms_at_once):
    """Entry j takes the terms flat[j * stride], ...: blocks of rows are turned into columns."""

    @jit
    def rows(flat, stride, n, S, P, seen, keys, first):
        size = S.size // 2
        if size < few:
            chain(flat, stride, n, S, P, seen)
            return
        T = room(rows_at_once * terms_at_once)
        for r in range(0, size, rows_at_once):
            width = min(rows_at_once, size - r)
            for k in range(0, n, terms_at_once):
                depth = min(terms_at_once, n - k)
                turn(flat[r * stride + k :], stride, width, depth, T)
                columns(T, width, depth, S[2 * r : 2 * (r + width)], P, seen, keys, first)

    return rows


def chain_loop(add, load, look, note, lane, neumaier):
    """chain(flat, stride, n, S, P, seen): entry j takes the terms flat[j * stride], flat[j * stride + 1], ..."""
    step = _step_form(add, neumaier)

    @jit
    def chain(flat, stride, n, S, P, seen):
        p = load(P)
        for j in range(S.size // 2):
            row = flat[j * stride : j * stride + n]
            s, e = S[2 * j], S[2 * j + 1]
            peak = umax(magnitude(to_bits(s)), magnitude(to_bits(e)))
            digits, high, stray = np.uint32(0), np.uint32(0), np.uint32(0)
            for k in range(n):
                digits, high, stray = look(np.float32(row[k]), digits, high, stray, p)
                s, e, m = step(s, e, lane(row[k]), p)
                peak = umax(peak, m)
            S[2 * j], S[2 * j + 1] = s, e
            note(seen, digits, umax(high, to_bits(np.float32(to_float(peak)))), stray)

    return chain


__all__ = ["MARGIN", "chain_loop", "columns_loop", "rows_loop"]
