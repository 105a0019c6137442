"""What became of all programs, as a terminal shows it and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from loadtest.circumstances import commit, machine, torch_version
from loadtest.coverage.outcome import GOALS, OUTCOMES, Result, Summary
from loadtest.text_table import aligned, number

HEAD = ("program", "family", "outcome", "forms", "compile s", "peak MB", "off by", "size", "tier", "eager ms",
        "served ms", "ratio", "95 %", "why it falls short")  # fmt: skip
LEFT = (0, 1, 2, 3, 7, 8, 12, 13)  # columns of text
WHY_CHARACTERS = 120


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WHY_CHARACTERS else line[: WHY_CHARACTERS - 1] + "…"


def in_order(results: Sequence[Result]) -> list[Result]:
    """By family, the worst outcome first."""
    order = list(OUTCOMES)
    return sorted(results, key=lambda each: (each.family, order.index(each.outcome), each.name))


def rows(result: Result) -> list[tuple[str, ...]]:
    """A line for each size, or one where none was timed."""
    off = f"{result.difference:.0e}" if result.difference is not None else "–"
    first = (result.name, result.family, result.outcome, result.forms or "–", number(result.compile_seconds, 1),
             number(result.compile_peak_mb), off)  # fmt: skip
    why = shortened(result.reason)
    if not result.speeds:
        return [(*first, "–", "–", "–", "–", "–", "–", why)]
    lines = []
    for place, speed in enumerate(result.speeds):
        spread = f"{speed.interval[0]:.2f}–{speed.interval[1]:.2f}" if speed.interval else "–"
        figures = (
            speed.size,
            speed.tier,
            number(speed.eager_ms, 2),
            number(speed.served_ms, 2),
            number(speed.ratio, 2),
        )
        lines.append((*(("",) * len(first) if place else first), *figures, spread, "" if place else why))
    return lines


def render(results: Sequence[Result]) -> str:
    lines = [HEAD, *(row for result in in_order(results) for row in rows(result))]
    return "\n".join([*aligned(lines, LEFT), "", str(Summary.of(results))])


def as_json(results: Sequence[Result], versions: dict[str, str]) -> dict[str, Any]:
    summary = Summary.of(results)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "commit": commit(),
        "versions": {"torch": torch_version()} | versions,
        "summary": vars(summary),
        "goals": GOALS,
        "builds": sorted({result.build for result in results}),
        "programs": [result.as_json() for result in in_order(results)],
    }
