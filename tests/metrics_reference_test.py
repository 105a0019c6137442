"""Holds the metrics reference of deploy/operations.md to server/metrics/catalog.h, and to the names of
Triton's in server/status/triton_metrics.cc.

The reference is a table whose rows begin with the metric's name and its labels,

    | `stoker_requests_total` | `model`, `version`, `outcome` | counter | ... |

with "–" for none. `python -m tests.metrics_reference_test` prints the whole table from the catalogue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MANUAL = "deploy/operations.md"

STRING = r'"(?:[^"\\]|\\.)*"'
DEFINITION = re.compile(
    r"constexpr\s+MetricDef\s+(?P<symbol>k\w+)\s*\{\s*"
    rf"(?P<name>{STRING})\s*,\s*MetricKind::k(?P<kind>\w+)\s*,\s*"
    rf"(?P<labels>{STRING})\s*,\s*(?P<help>(?:{STRING}\s*)+)"
)
ROW = re.compile(r"^\|\s*`(?P<name>(?:stoker|nv)_\w+)`\s*\|(?P<labels>[^|]*)\|", re.MULTILINE)


@dataclass(frozen=True)
class Metric:
    """One definition of the catalogue."""

    symbol: str
    name: str
    kind: str
    labels: frozenset[str]
    label_text: str
    help: str

    def row(self) -> str:
        """The line of the reference, ready to be pasted."""
        return f"| `{self.name}` | {self.label_text} | {self.kind} | {self.help} |"


def parse_catalog(header: str) -> list[Metric]:
    """Every MetricDef of the header, in its order."""
    metrics = []
    for match in DEFINITION.finditer(header):
        labels = [label for label in match["labels"].strip('"').split(",") if label]
        text = "".join(re.findall(STRING, match["help"])).replace('""', "").strip('"')
        metrics.append(
            Metric(
                symbol=match["symbol"],
                name=match["name"].strip('"'),
                kind=match["kind"].lower(),
                labels=frozenset(labels),
                label_text=", ".join(f"`{label}`" for label in labels) or "–",
                help=text,
            )
        )
    return metrics


def differences(metrics: list[Metric], manual: str) -> list[str]:
    """What is wrong with the reference, one line each."""
    wrong = []
    rows: dict[str, frozenset[str]] = {}
    for match in ROW.finditer(manual):
        if match["name"] in rows:
            wrong.append(f"{match['name']} has two rows")
        rows[match["name"]] = frozenset(re.findall(r"\w+", match["labels"]))
    for metric in metrics:
        if metric.name not in rows:
            wrong.append(f"no row, expected: {metric.row()}")
        elif rows[metric.name] != metric.labels:
            got = ", ".join(sorted(rows[metric.name])) or "none"
            wrong.append(f"{metric.name} has the labels {got}, expected: {metric.row()}")
    known = {metric.name for metric in metrics}
    wrong += [f"{name} is not in the catalogue" for name in rows if name not in known]
    return wrong


def catalog() -> list[Metric]:
    return parse_catalog((REPOSITORY / "server/metrics/catalog.h").read_text())


def triton_metrics() -> list[Metric]:
    return parse_catalog((REPOSITORY / "server/status/triton_metrics.cc").read_text())


def test_every_definition_is_read() -> None:
    header = (REPOSITORY / "server/metrics/catalog.h").read_text()
    assert len(catalog()) == header.count("constexpr MetricDef ") > 0
    assert len(triton_metrics()) == 10


def test_all_returns_every_definition() -> None:
    source = (REPOSITORY / "server/metrics/catalog.cc").read_text()
    listed = re.search(r"kAll\[\] = \{(.*?)\}", source, re.DOTALL)
    assert listed is not None
    assert sorted(re.findall(r"k\w+", listed[1])) == sorted(metric.symbol for metric in catalog())


def test_the_manual_names_every_metric_with_its_labels() -> None:
    wrong = differences(catalog() + triton_metrics(), (REPOSITORY / MANUAL).read_text())
    assert not wrong, f"{MANUAL}, metrics reference:\n" + "\n".join(wrong)


PLANTED = """
inline constexpr MetricDef kA{
    "stoker_a_total", MetricKind::kCounter, "model,version",
    "Things, "
    "counted."};
inline constexpr MetricDef kB{"stoker_b", MetricKind::kGauge, "", "B."};
"""
GOOD_ROWS = ["| `stoker_a_total` | `version`, `model` | counter | Things. |", "| `stoker_b` | – | gauge | B. |"]


def test_planted_definitions_are_understood() -> None:
    first, second = parse_catalog(PLANTED)
    assert first.row() == "| `stoker_a_total` | `model`, `version` | counter | Things, counted. |"
    assert second.row() == "| `stoker_b` | – | gauge | B. |"
    assert differences([first, second], "\n".join(GOOD_ROWS)) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (GOOD_ROWS[:1], "no row, expected: | `stoker_b`"),
        ([GOOD_ROWS[0].replace("`model`", ""), GOOD_ROWS[1]], "labels version, expected"),
        ([*GOOD_ROWS, "| `stoker_c` | – | gauge | C. |"], "stoker_c is not in the catalogue"),
        ([*GOOD_ROWS, GOOD_ROWS[1]], "stoker_b has two rows"),
    ],
)
def test_planted_faults_are_seen(rows: list[str], expected: str) -> None:
    wrong = differences(parse_catalog(PLANTED), "\n".join(rows))
    assert len(wrong) == 1 and expected in wrong[0]


if __name__ == "__main__":
    print("| metric | labels | kind | meaning |\n|---|---|---|---|")
    print("\n".join(metric.row() for metric in catalog() + triton_metrics()))
