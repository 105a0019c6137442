"""Proves that compute threads wait with a bounded spin unless the environment says otherwise.

OpenMP's runtime reads its environment when it is loaded, and says what it took where OMP_DISPLAY_ENV asks for it.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from loadtest.servers.stokerd import STOKERD


def openmp(name: str, **given: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not re.match(r"G?OMP_", name)}
    said = subprocess.run(
        [STOKERD, "--version"],
        env=clean | given | {"OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(rf"{name} = '(\w+)'", said.stderr)
    assert found, said.stderr
    return found[1]


def spin_count(**given: str) -> int:
    return int(openmp("GOMP_SPINCOUNT", **given))


def test_the_spin_is_bounded() -> None:
    assert spin_count() == 1000


def test_the_bound_holds_where_several_models_have_threads() -> None:
    """By any other policy libgomp cuts it to a tenth where there are more threads than cores, asleep or not."""
    assert openmp("OMP_WAIT_POLICY") == "ACTIVE"
    assert openmp("OMP_WAIT_POLICY", OMP_WAIT_POLICY="passive") == "PASSIVE"


@pytest.mark.parametrize("asked", ["0", "20000"])
def test_the_environment_wins(asked: str) -> None:
    assert spin_count(GOMP_SPINCOUNT=asked) == int(asked)


def test_an_active_wait_stays_active() -> None:
    assert spin_count(OMP_WAIT_POLICY="active") > 1_000_000
