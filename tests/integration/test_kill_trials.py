"""Daemons that are killed while they fill one cache leave nothing broken; `kill_trials.py` runs more of it."""

from __future__ import annotations

from pathlib import Path

from tests.faults import kill_trials


def test_a_few_trials(kept: Path) -> None:
    outcome = kill_trials.run(2, kept / "kernels")
    assert outcome.faults == []
    assert outcome.trials == 2 and outcome.kills > 0
