"""Settings of every pytest run below this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

# These take longest: a run that deals files out to several processes ends soonest when it starts
# with them. The others follow in the usual order.
LONGEST_FIRST = (
    "test_compile_levers.py",
    "test_traffic_buckets.py",
    "test_planted_faults.py",
    "test_hostile.py",
    "test_eager_first.py",
    "test_evidence.py",
    "test_overload.py",
    "test_worker.py",
    "test_tools.py",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; left out with -m 'not slow'")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(Path(item.path).name, len(rank)))
