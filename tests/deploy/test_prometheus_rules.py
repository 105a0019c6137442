"""deploy/monitoring/prometheus: the rules parse, fire and stay silent, and each alert has its paragraph."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy import tools
from tests.deploy.queries import selectors, wrong_in
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

FOLDER = REPOSITORY / "deploy/monitoring/prometheus"
RULES = FOLDER / "stoker.rules.yaml"
TESTS = FOLDER / "stoker.rules.test.yaml"
SEVERITIES = {"critical", "warning", "info"}


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict]:
    return [rule for rule in rules() if "alert" in rule]


def cases() -> list[dict]:
    return yaml.safe_load(TESTS.read_text())["tests"]


def promtool(*arguments: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    command = [tools.of_package("promtool", "prometheus"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_rules_are_clean() -> None:
    done = promtool("check", "rules", RULES.name)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_the_cases_hold() -> None:
    done = promtool("test", "rules", TESTS.name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_a_case_fires_and_a_case_is_silent(alert: dict) -> None:
    name = alert["alert"]

    def expected(kind: str) -> list[bool]:
        """For each evaluation of the alert in cases of this kind: is something expected to fire?"""
        return [
            bool(evaluation["exp_alerts"])
            for case in cases()
            if case["name"].startswith(f"{name} {kind}: ")
            for evaluation in case["alert_rule_test"]
            if evaluation["alertname"] == name
        ]

    assert expected("fires") and all(expected("fires"))
    assert expected("is silent") and not any(expected("is silent"))


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_the_runbook_has_a_paragraph(alert: dict) -> None:
    name = alert["alert"]
    runbook = (FOLDER / "runbook.md").read_text()
    match = re.search(rf"^### {name}\n\n(.+?)(?=\n#|\Z)", runbook, re.MULTILINE | re.DOTALL)
    assert match and len(match[1].split()) > 30
    assert alert["annotations"]["runbook"] == f"runbook.md#{name.lower()}"
    assert alert["annotations"]["summary"] and alert["annotations"]["description"]
    assert alert["labels"]["severity"] in SEVERITIES


def test_the_runbook_and_the_cases_name_no_other_alerts() -> None:
    names = {alert["alert"] for alert in alerts()}
    assert set(re.findall(r"^### (\w+)", (FOLDER / "runbook.md").read_text(), re.MULTILINE)) == names
    tested = {case["name"].split()[0] for case in cases() if "alert_rule_test" in case}
    assert tested == names


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_metric_and_label_value_exists(rule: dict) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = set(re.findall(r"\bstoker:[\w:]+", rule["expr"]))
    assert used <= recorded
    assert used or list(selectors(rule["expr"]))
    assert not wrong_in(rule["expr"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"].split(":")[0])
def test_the_cases_use_series_that_exist(case: dict) -> None:
    for series in case["input_series"]:
        # An empty label is what a scrape drops.
        assert not wrong_in(re.sub(r'\w+="",? ?', "", series["series"])), series["series"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(stoker_request_total[5m])", "not in the catalogue"),
        ("rate(stoker_request_seconds[5m])", "is a histogram"),
        ('stoker_bucket_state{state="eeger"}', 'state="eeger" never occurs'),
        ('stoker_bucket_state{sate="eager"}', "has no label sate"),
        ('stoker_fallbacks_total{reason=~"compile|tiemout"}', 'reason="tiemout" never occurs'),
        ('stoker_requests_total{outcome="INTERNAL"}', 'outcome="INTERNAL" never occurs'),
        ('up{pod_name="a"}', "has no label pod_name"),
    ],
)
def test_planted_faults_are_seen(expression: str, expected: str) -> None:
    wrong = wrong_in(expression)
    assert len(wrong) == 1 and expected in wrong[0]


def test_a_threshold_that_moves_is_seen(tmp_path: Path) -> None:
    """The cases are not so loose that any rule passes them."""
    shutil.copy(TESTS, tmp_path)
    text = RULES.read_text()
    assert text.count("ratio5m > 0.01") == 3
    (tmp_path / RULES.name).write_text(text.replace("ratio5m > 0.01", "ratio5m > 0.1"))
    done = promtool("test", "rules", TESTS.name, folder=tmp_path)
    assert done.returncode != 0
    for name in ("StokerRejections", "StokerQueueWaitOverObjective", "StokerInternalErrors"):
        assert name in done.stdout + done.stderr
