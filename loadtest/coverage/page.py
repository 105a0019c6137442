"""One self-contained HTML page of all results: pictures in SVG, and the table. No script, nothing fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from loadtest.coverage.outcome import OUTCOMES, Result, Summary
from loadtest.coverage.table import HEAD, LEFT, in_order, rows

OUTCOME_COLOURS = dict(
    zip(OUTCOMES, ("#7f1d1d", "#b91c1c", "#000000", "#db2777", "#9ca3af", "#f59e0b", "#86c89a", "#15803d"), strict=True)
)
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1240px; padding: 0 1rem; color: #1f2937 }
table { border-collapse: collapse; font-size: 12px; width: 100% } td, th { padding: 2px 6px; text-align: right }
tr:nth-child(even) { background: #f3f4f6 } .text { text-align: left } svg { width: 100%; height: auto }
th { border-bottom: 1px solid #9ca3af; position: sticky; top: 0; background: #fff }
.key span { margin-right: 1rem; display: inline-block }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 4px; border-radius: 2px }
text { font: 11px system-ui, sans-serif; fill: #374151 }
"""
WIDTH, HEIGHT, EDGE = 1200, 330, 44
STRIP = 34


def family_colours(results: Sequence[Result]) -> dict[str, str]:
    families = sorted({result.family for result in results})
    hues = (360 * place / max(len(families), 1) for place in range(len(families)))
    return {family: f"hsl({hue:.0f} 58% 48%)" for family, hue in zip(families, hues, strict=True)}


def speed_bars(results: Sequence[Result]) -> str:
    """A bar for each program that was timed, the fastest first, on a logarithmic scale; its colour is its family's."""
    timed = sorted((each for each in results if each.ratio), key=lambda each: -(each.ratio or 0))
    if not timed:
        return "<p>Nothing was timed yet.</p>"
    colours, logs = family_colours(results), [math.log2(each.ratio or 1) for each in timed]
    top, bottom = max(1.0, math.ceil(max(logs))), min(-0.25, *logs)

    def y(log: float) -> float:
        return 10 + (top - log) / (top - bottom) * (HEIGHT - 20)

    step = (WIDTH - EDGE) / len(timed)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="eager / served, by program">']
    for ratio in (1, 1.5, *(2**power for power in range(1, int(top) + 1))):
        at = y(math.log2(ratio))
        parts.append(f'<line x1="{EDGE}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#d1d5db"/>')
        parts.append(f'<text x="{EDGE - 6}" y="{at + 4:.1f}" text-anchor="end">{ratio:g} ×</text>')
    for place, (result, log) in enumerate(zip(timed, logs, strict=True)):
        high, low = sorted((y(log), y(0)))
        parts.append(
            f'<rect x="{EDGE + place * step:.2f}" y="{high:.1f}" width="{step * 0.84:.2f}" '
            f'height="{max(low - high, 1):.1f}" fill="{colours[result.family]}">'
            f"<title>{escape(result.name)} ({escape(result.family)}): {result.ratio:.2f} ×</title></rect>"
        )
    return "".join([*parts, "</svg>"])


def outcome_strip(results: Sequence[Result]) -> str:
    """A cell for each program, families side by side, coloured by the outcome."""
    step = WIDTH / max(len(results), 1)
    parts = [f'<svg viewBox="0 0 {WIDTH} {STRIP}" role="img" aria-label="outcomes">']
    for place, result in enumerate(in_order(results)):
        parts.append(
            f'<rect x="{place * step:.2f}" y="0" width="{step * 0.9:.2f}" height="{STRIP}" '
            f'fill="{OUTCOME_COLOURS[result.outcome]}"><title>{escape(result.name)}: {result.outcome}. '
            f"{escape(result.reason)}</title></rect>"
        )
    return "".join([*parts, "</svg>"])


def key(colours: dict[str, str], counts: dict[str, int]) -> str:
    entries = (
        f'<span><i style="background:{colour}"></i>{escape(name)} {counts[name]}</span>'
        for name, colour in colours.items()
        if counts.get(name)
    )
    return f'<p class="key">{"".join(entries)}</p>'


def page(results: Sequence[Result], circumstances: str) -> str:
    outcomes = {name: sum(each.outcome == name for each in results) for name in OUTCOMES}
    families = {name: sum(each.family == name for each in results) for name in family_colours(results)}
    classes = ['class="text"' if place in LEFT else "" for place in range(len(HEAD))]
    head = "".join(f"<th {each}>{escape(cell)}</th>" for each, cell in zip(classes, HEAD, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td {each}>{escape(cell)}</td>" for each, cell in zip(classes, row, strict=True)) + "</tr>"
        for result in in_order(results)
        for row in rows(result)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Stoker: coverage</title><style>{STYLE}</style></head><body>
<h1>{len(results)} programs through Stoker</h1>
<p>{escape(str(Summary.of(results)))}</p><p>{escape(circumstances)}</p>
<h2>Eager's run time over the served one's</h2>
{speed_bars(results)}{key(family_colours(results), families)}
<h2>Outcomes, by family</h2>
{outcome_strip(results)}{key(OUTCOME_COLOURS, outcomes)}
<h2>Program by program</h2>
<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>
</body></html>
"""
