"""Drawing of formats and numbers with rich: legible without colour, from 80 columns on."""

import math
from fractions import Fraction

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from softfloat.cli.facts import (
    all_values,
    e4m3_note,
    exponent_of,
    format_notes,
    is_e4m3,
    last_integer,
    overflow_result,
    overflow_threshold,
    short_decimal,
)
from softfloat.formats import formats

STYLES = {"sign": "bold red", "exponent": "bold green", "significand": "bold cyan"}
BRIEF = 64  # characters of an exact neighbour that are shown in full
GAP = 2  # columns between the columns of a table


def console():
    return Console(highlight=False)


def grid():
    """A table whose columns stand GAP apart, with a line under the heading."""
    return Table(box=box.SIMPLE, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))


def pack(widths, room):
    """Indices in groups whose widths fit into `room` side by side; at least one in each group."""
    groups, used = [], math.inf
    for i, width in enumerate(widths):
        if used + GAP + width > room:
            groups.append([])
            used = -GAP
        groups[-1].append(i)
        used += GAP + width
    return groups


def print_notes(screen, notes):
    """Lines 'format: note', each once."""
    for label, note in dict.fromkeys(notes):
        screen.print(Text(label, style="bold").append(": " + note, style="not bold yellow"))


# ---------------------------------------------------------------- numbers
def draw_numbers(screen, records, chosen):
    """records : dicts of input and formats (facts of one number, one for each chosen format)."""
    compared = any("error" in facts for record in records for facts in record["formats"])
    screen.print(_legend(compared))
    for record in records:
        _draw_number(screen, record["input"], record["formats"])
    registered = formats()
    doubtful = [fmt for fmt in chosen if is_e4m3(fmt) and fmt.label not in registered]
    print_notes(screen, [(fmt.label, e4m3_note(fmt)) for fmt in doubtful])


def _legend(compared):
    text = Text("bits: ").append_text(_bits({name: name for name in STYLES}))
    return text.append("; error: stored - exact, in units of last place" if compared else "")


def _bits(bits):
    """The fields with spaces between; colour only adds to that."""
    return Text(" ").join(Text(bits[name], style=STYLES[name]) for name in STYLES if bits[name])


def _exponent(facts):
    field, bias = facts["biased_exponent"], facts["bias"]
    if facts["class"] == "normal":
        return f"{field} {'-' if bias >= 0 else '+'} {abs(bias)} = {field - bias}"
    return f"{field}: {facts['class'].replace('nan', 'NaN')}"


def _neighbour(text, precision):
    if text is None:
        return "none"
    digits = int(precision * math.log10(2)) + 3  # enough to tell neighbours apart
    return text if len(text) <= BRIEF else f"about {short_decimal(Fraction(text), digits)}"


ROWS = {
    "bits": lambda f: _bits(f["bits"]),
    "code": lambda f: f["code_hex"],
    "exponent": _exponent,
    "formula": lambda f: f["formula"],
    "value": lambda f: Text(f["value"], style="bold"),
    "error": lambda f: f["error"] or "none",
    "below": lambda f: _neighbour(f["below"], f["precision"]),
    "above": lambda f: _neighbour(f["above"], f["precision"]),
}


def _draw_number(screen, title, records):
    """A column for each format, as many side by side as fit."""
    screen.print(Text(title, style="bold underline"))
    rows = [row for row in ROWS if row != "error" or any("error" in f for f in records)]
    cells = [
        {row: "-" if facts["code"] is None else ROWS[row](facts) for row in rows}
        for facts in records
    ]
    room = screen.width - 8 - GAP
    widths = [min(room, max(20, *map(len, column.values()))) for column in cells]
    for group in pack(widths, room):
        table = grid()
        table.add_column("", style="dim", no_wrap=True)
        for i in group:
            table.add_column(records[i]["format"], overflow="fold", width=widths[i])
        for row in rows:
            table.add_row(row, *(cells[i][row] for i in group))
        screen.print(table)
        pairs = [
            (records[i]["format"], note) for i in group for note in records[i].get("notes", [])
        ]
        print_notes(screen, pairs)
        screen.print()


# ---------------------------------------------------------------- formats
def _power_of_two(value):
    """'2**-24' where a positive Fraction is a power of two, else None."""
    n, d = value.numerator, value.denominator
    if n & (n - 1) or d & (d - 1):
        return None
    return f"2**{n.bit_length() - d.bit_length()}"


def _measure(value):
    """A quantity as power of two and decimal; 19 characters at most in the range of binary32."""
    value = Fraction(value)
    power = _power_of_two(value) if abs(exponent_of(value)) > 4 else None
    if power is None and value.denominator == 1 and value < 10**9:
        return str(value)
    text = short_decimal(value, 8, range(-3, 9))
    if power is None:
        return text
    return f"{power} = {short_decimal(value, 4, range(-4, 9)) if 'e' in text else text}"


def _info_rows(fmt):
    threshold, inclusive = overflow_threshold(fmt)
    present = {"infinity": fmt.has_infinity, "NaN": fmt.has_nan, "-0": fmt.has_negative_zero}
    subnormals = {
        True: "yes" if fmt.mantissa_bits else "none",
        "ftz": "flushed to zero",
        "grid": "none, rounded",
        "normal": "none",
    }[fmt.subnormals]
    p, digits = fmt.precision, fmt.precision * math.log10(2)
    integers = last_integer(fmt)
    return {
        "bits": f"{fmt.bits} = {int(fmt.signed)} + {fmt.exponent_bits} + {fmt.mantissa_bits}",
        "bias": str(fmt.bias),
        "exponents": f"{fmt.emin} to {fmt.emax}",
        "precision": f"{p} bit{'s' if p > 1 else ''}, {digits:.1f} digits",
        "largest": _measure(fmt.exact(fmt.max_code)),
        "overflow": f"{'from' if inclusive else 'above'} {_measure(threshold)}",
        "overflow gives": overflow_result(fmt),
        "smallest normal": _measure(fmt.smallest_normal),
        "smallest": _measure(fmt.smallest_subnormal),
        "subnormals": subnormals,
        "epsilon": _measure(fmt.epsilon),
        "unit roundoff": _measure(fmt.unit_roundoff),
        "integers up to": _measure(integers) if 0 < integers < 10**9 else f"2**{p}",
        "special values": ", ".join(name for name, there in present.items() if there) or "none",
        "held in": str(fmt.carrier),
    }


def _warned(text):
    return Text(text, style="bold yellow" if text == "NaN" else "")


def draw_formats(screen, chosen, values):
    """The quantities of several formats side by side, their notes, and the values of small ones."""
    columns = [_info_rows(fmt) for fmt in chosen]
    widths = [
        max(map(len, [fmt.label, *rows.values()]))
        for fmt, rows in zip(chosen, columns, strict=True)
    ]
    for group in pack(widths, screen.width - len("smallest normal") - GAP):
        table = grid()
        table.add_column("", style="dim", no_wrap=True)
        for i in group:
            table.add_column(chosen[i].label, overflow="fold")
        for row in columns[0]:
            table.add_row(row, *(_warned(columns[i][row]) for i in group))
        screen.print(table)
        screen.print()
    screen.print("bits: sign + exponent + significand; smallest: the least positive", style="dim")
    print_notes(screen, [(fmt.label, note) for fmt in chosen for note in format_notes(fmt)])
    if values:
        for bits in sorted({fmt.bits for fmt in chosen}):
            screen.print()
            draw_values(screen, [fmt for fmt in chosen if fmt.bits == bits])


def _short(value):
    if not value or not math.isfinite(value):
        return {"0.0": "0", "-0.0": "-0"}.get(str(value), str(value))
    return short_decimal(Fraction(value), 7)


def draw_values(screen, chosen):
    """Code by code, the values of formats of one width, in as many blocks side by side as fit."""
    bits = chosen[0].bits
    values = [[_short(v) for v in all_values(fmt)] for fmt in chosen]
    mirrored = all(fmt.signed for fmt in chosen)
    count = 1 << (bits - 1) if mirrored else 1 << bits
    digits = -(-bits // 4)
    widths = [
        max(map(len, [*column[:count], fmt.label]))
        for column, fmt in zip(values, chosen, strict=True)
    ]
    block = 2 + max(2, digits) + GAP + sum(w + GAP for w in widths)
    blocks = max(1, min(screen.width // block, -(-count // 4)))
    height = -(-count // blocks)
    table = grid()
    for _ in range(blocks):
        table.add_column("code", style="dim", no_wrap=True)
        for fmt in chosen:
            table.add_column(fmt.label, justify="right", overflow="fold")
    for row in range(height):
        cells = []
        for code in range(row, count, height):
            cells += [f"0x{code:0{digits}x}", *(column[code] for column in values)]
        table.add_row(*cells)
    screen.print(table)
    if mirrored:
        top = f"0x{count:0{digits}x} to 0x{2 * count - 1:0{digits}x}"
        exceptions = _exceptions(chosen, values)
        screen.print(f"Codes {top} are the same with the sign changed{exceptions}.")


def _exceptions(chosen, values):
    """', but ...' for the codes whose value is not that of the lower half with the sign changed."""
    found = []
    for fmt, column in zip(chosen, values, strict=True):
        half = len(column) // 2
        for code, (low, high) in enumerate(zip(column[:half], column[half:], strict=True)):
            if high != f"-{low}" and not (low == high == "nan"):
                found.append(f"0x{code + half:x} is {high} in {fmt.label}")
    return ", but " + ", ".join(found) if found else ""


def _compact(value):
    value = Fraction(value)
    if value.denominator == 1 and value < 10**6:
        return str(value)
    return short_decimal(value, 4, range(-2, 4))


def draw_list(screen):
    """All named formats, one line each."""
    table = grid()
    table.padding = 0
    table.add_column("format", no_wrap=True)
    for heading in ("bits", "e", "m", "bias", "largest", "smallest", "epsilon"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("overflow", no_wrap=True)
    for name, fmt in formats().items():
        fields = map(str, (fmt.bits, fmt.exponent_bits, fmt.mantissa_bits, fmt.bias))
        numbers = map(_compact, (fmt.max, fmt.smallest_subnormal, fmt.epsilon))
        end = overflow_result(fmt)
        table.add_row(name, *fields, *numbers, _warned("largest" if "largest" in end else end))
    screen.print(table)
    screen.print(
        "\nOther formats by their widths (e6m9), with fields (e6m9:bias=20:subnormals=ftz), "
        "those of IEEE P3109 by name (binary8p3se).\n"
        "E4M3 is two formats: float8_e4m3fn is OCP's (largest 448, overflow gives NaN), "
        "float8_e4m3 the IEEE-style one (largest 240, with infinity)."
    )
