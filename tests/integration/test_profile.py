"""Proves that a live server's timeline can be had, that it has what ran, and who may ask for it."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.integration.daemon import Daemon, ctl


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp"], uncompiled=True)


def x() -> list[triton.InferInput]:
    made = triton.InferInput("x", [1, 16], "FP32")
    made.set_data_from_numpy(np.full((1, 16), 0.5, np.float32))
    return [made]


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.metrics_port}{path}", timeout=90) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def profile(daemon: Daemon, output: Path, seconds: float) -> dict[str, Any]:
    page = f"http://127.0.0.1:{daemon.metrics_port}/metrics"
    ctl("profile", "--seconds", seconds, "--output", output, "--metrics", page)
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def test_a_timeline_of_what_runs(daemon: Daemon, tmp_path: Path) -> None:
    over = threading.Event()

    def load() -> None:
        with daemon.client() as client:
            while not over.is_set():
                client.infer("mlp", x(), request_id="mine")

    with_load = threading.Thread(target=load)
    with_load.start()
    try:
        found = profile(daemon, tmp_path / "trace.json", 1)
    finally:
        over.set()
        with_load.join()
    events = found["traceEvents"]
    requests = [event for event in events if event["ph"] == "b" and event["name"] == "mlp:1"]
    assert len(requests) == found["otherData"]["requests"] > 10
    assert all(event["args"]["id"] == "mine" and event["args"]["status"] == "OK" for event in requests)
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    batches = {event["args"]["batch"] for event in events if event["ph"] == "X" and "batch" in event.get("args", {})}
    assert batches == {event["args"]["batch"] for event in requests}
    assert all(name.startswith("mlp:1 ") for name in rows.values())
    runs = [event for event in events if event["ph"] == "X" and event["name"] == "run"]
    assert len(runs) == len(batches) and all(event["dur"] > 0 for event in runs)
    # Only what is within the second, but for what began just before it.
    assert all(-1e6 < event["ts"] < 2e6 for event in events if "ts" in event)


def test_nothing_is_kept_without(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.client() as client:
        client.infer("mlp", x())
    assert profile(daemon, tmp_path / "trace.json", 0.1)["otherData"]["requests"] == 0


def test_one_at_a_time(daemon: Daemon) -> None:
    answers: list[tuple[int, str]] = []
    several = [threading.Thread(target=lambda: answers.append(get(daemon, "/profile?seconds=1"))) for _ in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert sorted(status for status, _ in answers) == [200, 503, 503, 503]
    assert all("another profile" in text for status, text in answers if status == 503)
    # Others' pages come meanwhile, and it can be had again.
    assert get(daemon, "/profile?seconds=0.01")[0] == 200


@pytest.mark.parametrize("query", ["seconds=0", "seconds=61", "seconds=nan", "seconds=", "minutes=1", "seconds=1x"])
def test_how_long_is_bounded(daemon: Daemon, query: str) -> None:
    status, text = get(daemon, f"/profile?{query}")
    assert status == 400 and "at most 60" in text


def test_an_end_cuts_it_short(repository: Callable[..., Path], tmp_path: Path) -> None:
    with Daemon(repository("mlp"), tmp_path / "cache", tmp_path / "stokerd.log", "--no-compile") as daemon:
        daemon.wait_ready()
        answers: list[tuple[int, str]] = []
        asking = threading.Thread(target=lambda: answers.append(get(daemon, "/profile?seconds=60")))
        asking.start()
        with daemon.client() as client:
            # Once it records, requests are in it.
            client.infer("mlp", x())
        while get(daemon, "/profile?seconds=0.001")[0] == 200:
            pass
        assert daemon.stop() == 0
        asking.join()
    assert answers[0][0] == 200 and "traceEvents" in answers[0][1]


def test_the_policy_knows_it_as_tracing(repository: Callable[..., Path], tmp_path: Path) -> None:
    rules = [{"callers": ["anonymous"], "groups": ["health", "metadata", "metrics"]}]
    (tmp_path / "policy.yaml").write_text(json.dumps({"callers": {}, "rules": rules}))
    flags = ["--no-compile", f"--policy={tmp_path / 'policy.yaml'}"]
    with Daemon(repository("mlp"), tmp_path / "cache", tmp_path / "stokerd.log", *flags) as daemon:
        daemon.wait_ready()
        assert get(daemon, "/profile?seconds=0.01")[0] == 401
        assert get(daemon, "/metrics")[0] == 200
