"""What the daemon's tests say to a stokerd: loadtest/servers launches it."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from loadtest.servers.process import wait_until
from loadtest.servers.stokerd import REPOSITORY as REPO
from loadtest.servers.stokerd import STOKERCTL, STOKERD, Daemon, warm_up

__all__ = [
    "REPO",
    "STOKERCTL",
    "STOKERD",
    "Daemon",
    "ctl",
    "eventually",
    "health_page",
    "only_failure",
    "warm_up",
    "write_yaml",
]


def eventually(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Polls until `condition` holds; fails the test, saying `what`, when it never does."""
    assert wait_until(condition, seconds), f"not within {seconds:.0f} s: {what}"


def ctl(*arguments: object, code: int = 0) -> str:
    """What stokerctl prints; the test fails when it ends with another code."""
    done = subprocess.run([STOKERCTL, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code in (0, 1) else done.stderr


def only_failure(daemon: Daemon) -> str:
    """Why the one version failed to load; waits for that."""

    def failed() -> bool:
        with daemon.client() as client:
            return [line.state for line in client.get_model_repository_index().models] == ["UNAVAILABLE"]

    eventually(failed, f"the version fails:\n{daemon.log()}")
    with daemon.client() as client:
        (line,) = client.get_model_repository_index().models
        return line.reason


def health_page(daemon: Daemon, service: str) -> tuple[int, str]:
    """What a kubelet is told: code and line."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.metrics_port}/health/{service}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def write_yaml(model: Path, **fields: object) -> None:
    """A model.yaml beside the versions. JSON is YAML."""
    (model / "model.yaml").write_text(json.dumps(fields, indent=1))
