"""Holds the limits of server/wire/limits.h to their options, their metrics and their lines of the manual.

Each field of WireLimits is bound to one option in server/main/wire_options.cc, and the table "What peers may do" of
config/README.md has a row for each, which names the metric that counts who reaches the limit.
tests/integration/test_manual_options.py compares the options and their defaults with what stokerd prints.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.metrics_reference_test import Metric, catalog

REPOSITORY = Path(__file__).resolve().parent.parent
MANUAL = "config/README.md"
# Of what the daemon sets from another option.
ELSEWHERE = {"max_message_bytes": "--max-request-memory-mb"}
# Options that stand beside them and bound nothing of WireLimits.
BESIDE = {"--max-metrics-connections": "metrics_connections"}

FIELD = re.compile(r"^  [\w:]+ (\w+) = [^;]*;", re.MULTILINE)
BOUND = re.compile(r"\"(--[\w-]+)\",\s*(?:limits\.)?(\w+)")
ROW = re.compile(r"^\| `(--[\w-]+)` \|[^|]*\| ([^|]*) \|$", re.MULTILINE)
COUNTED = re.compile(r"`(stoker_\w+)(?:\{([\w, ]+)\})?`")


def fields(header: str) -> list[str]:
    return FIELD.findall(header.split("struct WireLimits {")[1].split("\n};")[0])


def rows(manual: str) -> dict[str, str]:
    """Option → what the last column says."""
    table = manual.split("\n**What peers may do**")[1].split("\n\n**")[0]
    return dict(ROW.findall(table))


def reasons(metric: Metric) -> set[str]:
    """The values of its label `reason`: words between commas in its help, without what stands in parentheses."""
    listed = re.sub(r"\([^)]*\)", "", metric.help.split("by reason: ")[1].split(". ")[0])
    return set(re.findall(r"[a-z_]+", listed))


def wrong_metrics(option: str, counted: str, metrics: dict[str, Metric]) -> list[str]:
    named = COUNTED.findall(counted)
    if not named:
        return [f"{option}: no metric counts it"]
    wrong = []
    for name, values in named:
        if name not in metrics:
            wrong.append(f"{option}: {name} is not in the catalogue")
            continue
        unknown = [one for one in re.findall(r"\w+", values) if one not in reasons(metrics[name])]
        wrong += [f"{option}: {name} has no reason {one}" for one in unknown]
        if not values and "reason" in metrics[name].labels:
            wrong.append(f"{option}: no reason of {name} is named")
    return wrong


def differences(header: str, options: str, manual: str, metrics: list[Metric]) -> list[str]:
    """What is missing, one line each."""
    bound: dict[str, str] = {field: option for option, field in BOUND.findall(options)}
    listed = rows(manual)
    wrong = [f"{field} has no option" for field in fields(header) if field not in bound and field not in ELSEWHERE]
    wrong += [f"{option} has no row" for option in bound.values() if option not in listed]
    wrong += [f"{option} is no limit's option" for option in listed if option not in bound.values()]
    known = {metric.name: metric for metric in metrics}
    for option, counted in listed.items():
        wrong += wrong_metrics(option, counted, known)
    return wrong


def read(path: str) -> str:
    return (REPOSITORY / path).read_text()


HEADER, OPTIONS = "server/wire/limits.h", "server/main/wire_options.cc"


def test_every_limit_is_read() -> None:
    found = fields(read(HEADER))
    assert len(found) > 20
    assert {"max_connections", "max_settings", "age_grace", "resets", *ELSEWHERE} <= set(found)


def test_every_limit_has_an_option_a_metric_and_a_row() -> None:
    wrong = differences(read(HEADER), read(OPTIONS), read(MANUAL), catalog())
    assert not wrong, f"{HEADER}, {OPTIONS}, {MANUAL}:\n" + "\n".join(wrong)
    assert {field for option, field in BOUND.findall(read(OPTIONS)) if option in BESIDE} == set(BESIDE.values())


def test_every_reason_is_in_the_reference() -> None:
    """Of why the transport ends connections and calls."""
    source = read("server/wire/wire_metrics.cc")
    by_name = {metric.name: metric for metric in catalog()}
    for kind, name in (("Hangup", "stoker_connections_ended_total"), ("CallEnd", "stoker_calls_ended_total")):
        counted = set(re.findall(rf"case {kind}::k\w+:\n      return \"(\w+)\";", source))
        assert len(counted) > 3
        assert counted == reasons(by_name[name]), name


PLANTED_HEADER = "struct WireLimits {\n  int max_things = 1;\n  size_t others = 1 << 2;\n};\n"
PLANTED_OPTIONS = (
    'AddNumber(app, "--max-things", limits.max_things, "");\n  AddNumber(\n app, "--others", limits.others, "");'
)
PLANTED_ROWS = ["| `--max-things` | m | `stoker_a{few, many}` |", "| `--others` | m | `stoker_b` |"]
PLANTED_METRICS = [
    Metric("kA", "stoker_a", "counter", frozenset({"reason"}), "`reason`", "A, by reason: few (not many), many. B."),
    Metric("kB", "stoker_b", "counter", frozenset(), "–", "B."),
]


def planted(header: str, options: str, *table: str) -> list[str]:
    return differences(header, options, "\n**What peers may do**\n\n" + "\n".join(table) + "\n\n**", PLANTED_METRICS)


def test_a_whole_reference_passes() -> None:
    assert planted(PLANTED_HEADER, PLANTED_OPTIONS, *PLANTED_ROWS) == []


THINGS, OTHERS = PLANTED_ROWS


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([THINGS], "--others has no row"),
        ([*PLANTED_ROWS, "| `--c` | m | `stoker_b` |"], "--c is no limit's option"),
        ([THINGS, "| `--others` | m | – |"], "--others: no metric"),
        ([THINGS, "| `--others` | m | `stoker_c` |"], "not in the catalogue"),
        ([OTHERS, "| `--max-things` | m | `stoker_a{not}` |"], "no reason not"),
        ([OTHERS, "| `--max-things` | m | `stoker_a` |"], "no reason of stoker_a"),
    ],
)
def test_planted_gaps_are_seen(table: list[str], expected: str) -> None:
    (line,) = planted(PLANTED_HEADER, PLANTED_OPTIONS, *table)
    assert expected in line


def test_a_limit_without_an_option_is_seen() -> None:
    header = PLANTED_HEADER.replace("};", "  absl::Duration more = absl::Seconds(2);\n};")
    assert planted(header, PLANTED_OPTIONS, *PLANTED_ROWS) == ["more has no option"]
