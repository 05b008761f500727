"""One HTML page of many studies: figures inside it as SVG, every number in a table too; no other file is needed."""

import html

from softfloat import __version__
from softfloat.analysis.figure import panel_svg
from softfloat.analysis.result import shown

LONG_TABLE = 24  # rows from which a table is folded
STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #5c5c5c; --paper: #fdfdfc; --line: #ddd; --link: #0a58a5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --soft: #aaa7a2; --paper: #17181a; --line: #3a3c40; --link: #7db7f0; }
  .figures svg { filter: invert(.9) hue-rotate(180deg); } /* dark ink on nothing: the same hues on dark */
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; font: 1rem/1.55 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .5rem; }
a { color: var(--link); } nav ul { columns: 16rem; padding-left: 1.2rem; }
section { border-top: 1px solid var(--line); padding: 1.5rem 0; }
.caption, footer { color: var(--soft); font-size: .92rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: .75rem;
  max-width: 100%; margin: 1rem 0; }
.figures div { max-width: 36rem; }
.figures svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: .75rem 0; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
summary { cursor: pointer; color: var(--link); padding: .4rem 0; }
code { font-size: .9em; overflow-wrap: anywhere; }
"""


def report_page(studies, title="Accuracy studies"):
    """The page, as text. studies : Study objects, in the order of the page."""
    links = "\n".join(
        f'<li><a href="#{s.name}">{_text(s.name.replace("_", " "))}</a></li>' for s in studies
    )
    sections = "\n".join(map(_section, studies))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{_text(title)}</h1>
<p>What rounding does to sums, products and algorithms: measured, beside what theory says. Every figure has its numbers
in a table below it, and says what was run.</p>
</header>
<nav aria-label="Studies"><ul>
{links}
</ul></nav>
<main>
{sections}
</main>
<footer>Made with softfloat {_text(__version__)}: <code>softfloat study all</code>.</footer>
</body>
</html>
"""


def _text(value):
    return html.escape(str(value))


def _section(study):
    figures = "".join(_figure(study, i) for i in range(len(study.panels)))
    parts = [
        f'<section id="{study.name}" aria-labelledby="{study.name}-title">',
        f'<h2 id="{study.name}-title">{_text(study.title)}</h2>',
        f'<p class="caption">{_text(study.caption)}</p>',
        f'<div class="figures">{figures}</div>' if figures else "",
    ]
    if study.facts:
        rows = [[key.replace("_", " "), value] for key, value in study.facts.items()]
        parts.append(_table("Found", ["quantity", "value"], rows))
    if study.published:
        rows = [[p.quantity, p.value, p.ours, p.source] for p in study.published]
        heading = ["quantity", "published", "ours", "source"]
        parts.append(_table("Published values beside ours", heading, rows))
    if study.arrays:
        heading = [name.replace("_", " ") for name in study.arrays]
        rows = study.rows()
        table = _table("The numbers of the figure", heading, rows)
        if len(rows) > LONG_TABLE:
            table = f"<details><summary>The table, {len(rows)} rows</summary>{table}</details>"
        parts.append(table)
    return "\n".join(part for part in [*parts, "</section>"] if part)


def _figure(study, number):
    panel = study.panels[number]
    name = f"{panel.title or study.title}: {panel.y_label} against {panel.x_label}; the table below has the numbers"
    drawn = panel_svg(study, number).replace(
        "<svg", f'<svg role="img" aria-label="{_text(name)}"', 1
    )
    return f"<div>{drawn}</div>"


def _table(caption, heading, rows):
    numeric = [all(not isinstance(row[i], str) for row in rows) for i in range(len(heading))]
    head = "".join(
        f'<th scope="col"{_kind(n)}>{_text(h)}</th>' for h, n in zip(heading, numeric, strict=True)
    )
    body = []
    for row in rows:
        first, *others = [
            (_text(shown(value)), _kind(n)) for value, n in zip(row, numeric, strict=True)
        ]
        cells = "".join(f"<td{kind}>{text}</td>" for text, kind in others)
        body.append(f'<tr><th scope="row"{first[1]}>{first[0]}</th>{cells}</tr>')
    shown_table = (
        f"<table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    # A wide table scrolls by itself, by touch or by key.
    return f'<div class="wide" role="region" tabindex="0" aria-label="{_text(caption)}">{shown_table}</div>'


def _kind(numeric):
    return ' class="number"' if numeric else ""
