"""Proves that every curl line of proto/README.md does what stands behind it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable

import pytest

from tests.integration.daemon import REPO, Daemon

MANUAL = (REPO / "proto/README.md").read_text()
LINES = re.findall(r"^(curl .*\S) +# (\d+)$", MANUAL, re.MULTILINE)
# The manual's model and its inputs, as tests/models.py has them.
NAMES = {"minilm": "tokens", "input_ids": "ids", "attention_mask": "mask", "sentence_embedding": "pooled",
         "101, 7592, 102": "1, 2, 3"}  # fmt: skip


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["tokens"], uncompiled=True)


def test_there_are_lines() -> None:
    assert {status for _, status in LINES} == {"200", "400", "404"}


@pytest.mark.parametrize(("line", "status"), LINES)
def test_line(daemon: Daemon, line: str, status: str) -> None:
    for name, ours in NAMES.items():
        line = line.replace(name, ours)
    words = shlex.split(line.replace("localhost:8000", f"127.0.0.1:{daemon.http_port}"))
    done = subprocess.run([*words, "-w", "\n%{http_code}"], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == status, done.stdout
