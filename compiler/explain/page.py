"""A report of report.py as one HTML page: tables and inline SVG, no script, nothing fetched.

Widths in the pictures are percentages and each label is clipped by an <svg> of its own, so that text
keeps its size on a narrow screen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import Any

from compiler.explain.kernel_calls import FALLBACK, FUSED, LIBRARY

Report = dict[str, Any]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #66727f; --line: #dde3e8; --paper: #fff;
  --alarm: #b3261e; --alarm-paper: #fdeceb; --eager: #aab4bd;
  --fused: #2f6fde; --library: #2c9a57; --fallback: #d9622b; --branch: #7d93b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #98a4af; --line: #333d47;
  --paper: #14191e; --alarm: #ffb4ab; --alarm-paper: #3b1613; --eager: #5b6772;
  --fused: #4a86ea; --library: #37a866; --fallback: #e0723d; --branch: #5d7294; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p.facts { color: var(--soft); margin-top: 0; }
.numbers { display: flex; flex-wrap: wrap; gap: .4rem 2rem; margin: 1.2rem 0; }
.numbers div { min-width: 7rem; } .numbers b { display: block; font-size: 1.35rem; }
.numbers span { color: var(--soft); font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .55rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
th.text, td.text { text-align: left; } td.long { white-space: normal; min-width: 13rem; text-align: left;
  overflow-wrap: anywhere; }
code { font: .92em ui-monospace, monospace; }
.alarm { color: var(--alarm); background: var(--alarm-paper); padding: .6rem .8rem;
  border-left: 4px solid var(--alarm); overflow-wrap: anywhere; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 .9em; }
figure { margin: .6rem 0; } svg { display: block; overflow: hidden; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .value { text-anchor: end; }
svg .on { fill: #fff; } svg rect.cell { stroke: var(--paper); stroke-width: 1.5; }
.fused { fill: var(--fused); background: var(--fused); }
.library { fill: var(--library); background: var(--library); }
.fallback { fill: var(--fallback); background: var(--fallback); }
.eager { fill: var(--eager); background: var(--eager); }
.branch { fill: var(--branch); background: var(--branch); }
summary { cursor: pointer; color: var(--soft); margin-top: .6rem; }
"""

KINDS = {
    FUSED: "written by TorchInductor",
    LIBRARY: "library call",
    FALLBACK: "left to libtorch",
}
LAYERS = re.compile(r"\.(?!\d)")  # "encoder", "layer.0", "attention"
MOST_BARS = 30
MOST_NAMES = 8  # in a cell of a table
LABEL, BAR, GAP = 18, 9, 7  # heights of a row's label, of each of its bars, and below them
CELL = 24  # height of a level of the icicle
NARROWEST = 0.004  # share below which a cell of the icicle is left out


def page(report: Report) -> str:
    """The whole document."""
    title = " ".join(filter(None, (report["model"], report["bucket"]))) or "a program"
    body = [_head(report, title), _refusal(report), _numbers(report)]
    if report["times"]:
        body += [_modules(report), _places(report), _kernels(report)]
    body += [_fallbacks(report), _guards(report), _eager(report), _operators(report)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head><body>\n"
        f"{''.join(body)}</body></html>\n"
    )


def _head(report: Report, title: str) -> str:
    tools = report["toolchain"]
    sizes = ", ".join(f"{name} = {size}" for name, size in report["sizes"].items())
    facts = [sizes, f"{report['threads']} threads", f"torch {tools['torch']}", tools["cxx"], tools["march"]]
    return f'<h1>{escape(title)}</h1>\n<p class="facts">{escape(" · ".join(filter(None, facts)))}</p>\n'


def _refusal(report: Report) -> str:
    html = ""
    if (why := report["not_compiled"]) is not None:
        where = f"<br>{_where(why['origin'])}" if why["origin"] else ""
        html += f'<p class="alarm">Not compiled: {escape(why["reason"])}{where}</p>\n'
    if report["not_run"] is not None:
        html += f'<p class="alarm">Not run: {escape(report["not_run"])}</p>\n'
    return html


def _numbers(report: Report) -> str:
    graph, times, compiled = report["graph"], report["times"], report["compiled"]
    shown = []
    if times and "compiled_ms" in times:
        shown += [
            (f"{times['eager_ms'] / times['compiled_ms']:.2f} ×", "eager / compiled"),
            (_ms(times["compiled_ms"] * 1e3), "a compiled run"),
        ]
    if times:
        shown.append((_ms(times["eager_ms"] * 1e3), "an eager run"))
    if times and "explained" in times:
        shown.append((_percent(times["explained"]), "of a compiled run is in kernels"))
    if compiled:
        shown += [
            (str(compiled["fused_kernels"]), f"fused kernels, {compiled['fused_calls']} calls"),
            (str(compiled["library_calls"]), "library calls"),
            (str(compiled["fallback_calls"]), "calls left to libtorch"),
        ]
    shown += [
        (str(graph["operators"]), f"operators of {len(graph['by_operator'])} kinds"),
        (_count(graph["parameters"]), f"parameters, {graph['weight_bytes'] / 1e6:.1f} MB"),
    ]
    cells = "".join(f"<div><b>{escape(b)}</b><span>{escape(s)}</span></div>" for b, s in shown)
    return f'<div class="numbers">{cells}</div>\n'


# ---- pictures ----


@dataclass
class _Cell:
    """A module of the icicle, with what its parts take."""

    us: float = 0.0
    parts: dict[str, _Cell] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((part.depth() for part in self.parts.values()), default=0)


def _modules(report: Report) -> str:
    """An icicle: the width of a module is the time that its operators take, with those of its parts."""
    which = "compiled_us" if report["compiled"] else "eager_us"
    root = _Cell()
    for module in report["modules"]:
        root.us += module[which]
        cell = root
        for part in filter(None, LAYERS.split(module["name"])):
            cell = cell.parts.setdefault(part, _Cell())
            cell.us += module[which]
    if not root.us or not root.parts:
        return ""
    cells: list[str] = []
    _draw(root, "the whole program", 0.0, 0, root.us, cells)
    note = "compiled" if report["compiled"] else "eager"
    return (
        f"<h2>By module, {note}</h2>\n<figure><svg width='100%' height='{root.depth() * CELL}'>"
        f"{''.join(cells)}</svg></figure>\n{_split_note(report)}"
    )


def _draw(cell: _Cell, name: str, left: float, level: int, total: float, cells: list[str]) -> None:
    width = cell.us / total
    kind = "branch" if cell.parts else "fused"
    tip = f"{name}: {_ms(cell.us)}, {_percent(width)}"
    cells.append(
        f"<svg x='{left:.3%}' y='{level * CELL}' width='{width:.3%}' height='{CELL}'>"
        f"<title>{escape(tip)}</title><rect class='cell {kind}' width='100%' height='{CELL}'/>"
        f"<text class='on' x='5' y='16'>{escape(name)} · {_percent(width)}</text></svg>"
    )
    for part, inner in sorted(cell.parts.items(), key=lambda item: _in_order(item[0])):
        if inner.us / total >= NARROWEST:
            _draw(inner, part, left, level + 1, total, cells)
        left += inner.us / total


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts layer.2 before layer.10."""
    return [(int(part or 0), "") if i % 2 else (0, part) for i, part in enumerate(re.split(r"(\d+)", name))]


def _split_note(report: Report) -> str:
    if not report["compiled"]:
        return ""
    return (
        '<p class="facts">A kernel of TorchInductor\'s counts in equal parts for the operators that were '
        "fused into it, a library call for the product or convolution that it was chosen for.</p>\n"
    )


def _places(report: Report) -> str:
    compiled = bool(report["compiled"])
    kinds = [("eager_us", "eager", "eager")] + ([("compiled_us", "fused", "compiled")] if compiled else [])
    key = "".join(f'<span class="key {css}"></span>{label}' for _, css, label in kinds)
    bars = [
        (
            f"{place['name']}  {place['origin']['code']}",
            " / ".join(_ms(place[what]) for what, _, _ in kinds),
            [(place[what], css) for what, css, _ in kinds],
        )
        for place in report["places"]
    ]
    return f"<h2>By line of the source</h2>\n<p class='facts'>{key}</p>\n{_bars(bars)}"


def _kernels(report: Report) -> str:
    if not report["compiled"]:
        return ""
    key = "".join(f'<span class="key {kind}"></span>{escape(text)}' for kind, text in KINDS.items())
    bars = [
        (
            f"{kernel['kernel']}  {', '.join(kernel['places'])}",
            f"{_ms(kernel['total_us'])}, {_percent(kernel['share'])}",
            [(kernel["total_us"], kernel["kind"])],
        )
        for kernel in report["kernels"]
    ]
    rows = [
        [
            kernel["kernel"],
            KINDS[kernel["kind"]],
            f"{kernel['calls']:g}",
            _ms(kernel["total_us"]),
            _ms(kernel["mean_us"]),
            _percent(kernel["share"]),
            _listed(kernel["operators"]),
            _listed(kernel["places"]),
        ]
        for kernel in report["kernels"]
    ]
    head = ["kernel", "", "calls", "total", "mean", "share", "operators", "from"]
    calls = [
        [
            str(call["call"]),
            call["kernel"],
            _ms(call["us"]),
            _percent(call["share"]),
            "; ".join(_text(origin) for origin in call["origins"]),
        ]
        for call in report["calls"]
    ]
    places = _table(["call", "kernel", "time", "share", "from"], calls, text={1}, long={4})
    return (
        f"<h2>By kernel</h2>\n<p class='facts'>{key}</p>\n{_bars(bars)}"
        f"{_table(head, rows, text={1}, long={0, 6, 7})}"
        f"<details><summary>each of the {len(calls)} places where a kernel is called</summary>{places}"
        "</details>\n"
    )


def _bars(bars: list[tuple[str, str, list[tuple[float, str]]]]) -> str:
    """Rows of a label, a value and one bar or more, (length, class)."""
    longest = max((length for _, _, lengths in bars for length, _ in lengths), default=0) or 1
    parts, y = [], 0
    for label, value, lengths in bars[:MOST_BARS]:
        parts.append(
            f"<svg y='{y}' width='60%' height='17'><title>{escape(label)}</title>"
            f"<text x='0' y='13'>{escape(label)}</text></svg>"
            f"<text class='value' x='100%' y='{y + 13}'>{escape(value)}</text>"
        )
        y += LABEL
        for length, css in lengths:
            width = max(length / longest, 0.001)
            parts.append(f"<rect class='{css}' y='{y}' width='{width:.3%}' height='{BAR - 1}' rx='1.5'/>")
            y += BAR
        y += GAP
    left_out = len(bars) - MOST_BARS
    more = f'<p class="facts">and {left_out} shorter ones</p>\n' if left_out > 0 else ""
    return f"<figure><svg width='100%' height='{y}'>{''.join(parts)}</svg></figure>\n{more}"


# ---- tables ----


def _fallbacks(report: Report) -> str:
    rows = [
        [
            ", ".join(call["operators"]),
            call["kernel"] + (" (through the dispatcher)" if call["by_proxy"] else ""),
            _ms(call["us"]) if "us" in call else "",
            "; ".join(_text(origin) for origin in call["origins"]),
        ]
        for call in report["calls"]
        if call["kind"] == FALLBACK
    ]
    if not rows:
        return ""
    table = _table(["operator", "calls", "time", "from"], rows, text={0, 1}, long={3})
    return f"<h2>Left to libtorch: TorchInductor has no code for it</h2>\n{table}"


def _guards(report: Report) -> str:
    guards = (report["compiled"] or {}).get("guards")
    if not guards:
        return ""
    rows = [[guard["operator"], guard["input"] or "", guard["message"]] for guard in guards]
    table = _table(["operator", "input", "a request is refused for"], rows, text={0, 1}, long={2})
    return f"<h2>Guarded operators</h2>\n{table}"


def _eager(report: Report) -> str:
    rows = [
        [
            row["operator"],
            f"{row['calls']:g}",
            _ms(row["total_us"]),
            _ms(row["mean_us"]),
            _percent(row["share"]),
        ]
        for row in report["eager_operators"]
    ]
    if not rows:
        return ""
    return "<h2>Eager, by operator</h2>\n" + _table(
        ["operator", "calls", "total", "mean", "share"], rows, text={0}
    )


def _operators(report: Report) -> str:
    graph = report["graph"]
    rows = [[row["operator"], str(row["count"])] for row in graph["by_operator"]]
    return (
        f"<h2>The graph</h2>\n<p class='facts'>{graph['nodes']} nodes, {graph['operators']} operators, "
        f"{graph['inputs']} inputs, {graph['outputs']} outputs, {graph['parameters']:,} parameters, "
        f"{graph['weight_bytes']:,} bytes of weights; {graph['operators_with_a_line']} operators know their "
        f"line</p>\n{_table(['operator', 'count'], rows, text={0})}"
    )


def _table(
    head: list[str], rows: list[list[str]], text: frozenset[int] | set[int] = frozenset(), long: Any = ()
) -> str:
    def css(column: int) -> str:
        return " class='long'" if column in long else " class='text'" if column in text else ""

    lines = [
        "<tr>"
        + "".join(
            f"<th{' class=text' if i in text or i in long else ''}>{escape(h)}</th>"
            for i, h in enumerate(head)
        )
        + "</tr>"
    ]
    lines += [
        "<tr>" + "".join(f"<td{css(i)}>{escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    ]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>\n"


def _text(origin: Report) -> str:
    """ "zoo.py:12 forward (encoder.layer.0)"."""
    module = f"({origin['module']})" if origin["module"] and origin["file"] else ""
    return " ".join(filter(None, (origin["place"], origin["function"], module)))


def _where(origin: Report) -> str:
    file = f"{origin['file']}:{origin['line']}, " if origin["file"] else ""
    code = f" <code>{escape(origin['code'])}</code>" if origin["code"] else ""
    return f"from {escape(file + _text(origin))}{code}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _ms(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _count(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,}"
