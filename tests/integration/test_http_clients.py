"""Proves that Triton's and KServe's HTTP clients, as they are, do with the server what they do with theirs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.daemon import REPO, Daemon


@pytest.fixture(scope="module")
def found(serving: Callable[..., Daemon]) -> dict[str, Any]:
    flags = ("--allow-client-shm", "--model-control=explicit", "--load-model=*")
    daemon = serving(["mlp", "identity"], *flags, uncompiled=True)
    python = subprocess.run([REPO / "tests/clients.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    script = REPO / "tests/integration/http_clients.py"
    done = subprocess.run([python, script, str(daemon.http_port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_triton_infers(found: dict[str, Any]) -> None:
    assert found["triton"]["answers"] == [True] * 33
    assert found["triton"]["classes"] == [1, 2]


def test_triton_asks(found: dict[str, Any]) -> None:
    triton = found["triton"]
    assert (triton["live"], triton["ready"], triton["model_ready"]) == (True, True, [True, True, False])
    assert triton["name"] == "stoker"
    assert triton["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}]
    assert triton["config"] > 0
    assert triton["stats"] >= 33
    assert triton["index"] == ["identity", "mlp"]


def test_triton_loads_and_unloads(found: dict[str, Any]) -> None:
    assert (found["triton"]["loaded"], found["triton"]["unloaded"]) == (None, None)


def test_triton_shares_memory(found: dict[str, Any]) -> None:
    shared = found["triton"]["shared"]
    assert (shared["region"]["name"], shared["region"]["byte_size"]) == ("r", 128)
    assert (shared["same"], shared["left"]) == (True, [])


def test_triton_is_refused(found: dict[str, Any]) -> None:
    status, text = found["triton"]["refused"]
    assert (status, "unknown model" in text) == ("404", True)
    assert found["triton"]["wrong"][0] == "400"
    assert found["triton"]["traces"] == ["OFF"]


def test_kserve(found: dict[str, Any]) -> None:
    kserve = found["kserve"]
    assert kserve["answers"] == [True, True]
    assert (kserve["live"], kserve["ready"], kserve["model_ready"]) == (True, True, [True, False])
    assert "unknown model" in kserve["refused"]
