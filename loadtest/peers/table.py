"""The figures of a comparison: samples over rounds, their medians, Stoker's ratios, the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from loadtest.text_table import aligned, number

HEAD = (
    "scenario",
    "in flight",
    "server",
    "answers/s",
    "low–high",
    "p50 ms",
    "p99 ms",
    "ready s",
    "MB",
    "Stoker ×",
    "",
)
LEFT = (0, 2, 10)  # columns of text


@dataclass(frozen=True)
class Sample:
    """One step of one round. Limits that have no requests have no latency either."""

    answers_per_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    errors: int = 0
    client_limited: bool = False
    mistake: str = ""  # what was wrong with its answers
    ready_s: float | None = None  # of the launch that it was taken in
    resident_mb: float | None = None  # after its scenarios


@dataclass
class Row:
    """One server in one step of one scenario."""

    scenario: str
    in_flight: int
    server: str
    settings: str
    rounds: dict[int, Sample] = field(default_factory=dict)

    def median(self, value: Callable[[Sample], float | None]) -> float | None:
        """Over the rounds that have it."""
        have = [v for v in map(value, self.rounds.values()) if v is not None]
        return statistics.median(have) if have else None

    @property
    def answers_per_s(self) -> float:
        return self.median(lambda sample: sample.answers_per_s) or 0.0

    @property
    def spread(self) -> tuple[float, float]:
        """Lowest and highest answers per second."""
        rates = [sample.answers_per_s for sample in self.rounds.values()]
        return min(rates), max(rates)

    @property
    def errors(self) -> int:
        return sum(sample.errors for sample in self.rounds.values())

    def notes(self) -> str:
        notes = [self.settings] if self.settings else []
        if any(sample.mistake for sample in self.rounds.values()):
            notes.append("WRONG ANSWERS")
        if self.errors:
            notes.append(f"{self.errors} FAILED")
        limited = sum(sample.client_limited for sample in self.rounds.values())
        if limited:
            notes.append(f"client was the limit in {limited} of {len(self.rounds)} rounds")
        return "; ".join(notes)


def ratio(stoker: Row, other: Row) -> float | None:
    """How many times as many answers Stoker gave: the median of the ratios within each round.

    Rounds that only one of them took part in don't count; None when there is no other.
    """
    ratios = [
        stoker.rounds[number].answers_per_s / sample.answers_per_s
        for number, sample in other.rounds.items()
        if number in stoker.rounds and sample.answers_per_s > 0
    ]
    return statistics.median(ratios) if ratios else None


def ratios(rows: Iterable[Row], stoker: str) -> dict[int, float | None]:
    """By id(row): Stoker's ratio to each row of the same step; 1 to itself, None where Stoker has none."""
    rows = list(rows)
    ours = {(row.scenario, row.in_flight): row for row in rows if row.server == stoker}
    return {
        id(row): ratio(mine, row) if (mine := ours.get((row.scenario, row.in_flight))) else None
        for row in rows
    }


def cells(row: Row, times: float | None, stoker: str) -> tuple[str, ...]:
    low, high = row.spread
    return (
        row.scenario,
        str(row.in_flight),
        row.server,
        number(row.answers_per_s),
        f"{number(low)}–{number(high)}",
        number(row.median(lambda sample: sample.p50_ms), 2),
        number(row.median(lambda sample: sample.p99_ms), 2),
        number(row.median(lambda sample: sample.ready_s), 1),
        number(row.median(lambda sample: sample.resident_mb)),
        "" if row.server == stoker else number(times, 2),
        row.notes(),
    )


def render(rows: Sequence[Row], stoker: str) -> str:
    """The table; rows of one step stand together, a blank line between steps."""
    times = ratios(rows, stoker)
    lines = aligned([HEAD, *(cells(row, times[id(row)], stoker) for row in rows)], LEFT)
    text = [lines[0]]
    previous: tuple[str, int] | None = None
    for row, line in zip(rows, lines[1:], strict=True):
        step = (row.scenario, row.in_flight)
        if step != previous:
            text.append("")
        previous = step
        text.append(line)
    return "\n".join(text)


def row_json(row: Row, times: float | None) -> dict[str, object]:
    """Medians, the ratio, and every round."""
    return {
        "scenario": row.scenario,
        "in_flight": row.in_flight,
        "server": row.server,
        "settings": row.settings,
        "answers_per_s": row.answers_per_s,
        "answers_per_s_spread": row.spread,
        "p50_ms": row.median(lambda sample: sample.p50_ms),
        "p99_ms": row.median(lambda sample: sample.p99_ms),
        "ready_s": row.median(lambda sample: sample.ready_s),
        "resident_mb": row.median(lambda sample: sample.resident_mb),
        "errors": row.errors,
        "stoker_ratio": times,
        "rounds": {str(number): vars(sample) for number, sample in row.rounds.items()},
    }
