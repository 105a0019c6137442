"""Whatever befalls a cache that two servers share, they answer as the program does; `schedules.py` plays more of it."""

from __future__ import annotations

from pathlib import Path

from tests.faults import schedules

# Under some of the program's keys, and both servers are launched again.
PUSHED = ["push"] * 8 + ["kill"] * 2


def test_a_few_schedules(kept: Path) -> None:
    outcome = schedules.run(2, kept / "kernels")
    assert outcome.faults == []
    assert outcome.schedules == 2 and outcome.answers > 100 and outcome.judged["promoted"] > 0


def test_what_is_pushed_is_refused_where_it_is_opened(kept: Path) -> None:
    outcome = schedules.run(1, kept / "kernels", actions=PUSHED)
    assert outcome.faults == []
    assert outcome.judged["parity"] > 0


def test_it_would_be_seen(kept: Path) -> None:
    """Without the checks what was pushed is opened, and its answers are another program's."""
    outcome = schedules.run(1, kept / "kernels", arguments=["--no-promotion-checks"], actions=PUSHED)
    assert any("expected, got" in fault for fault in outcome.faults), outcome.faults
