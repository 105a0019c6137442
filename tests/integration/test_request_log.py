"""Proves that the request log has a line for each inference, says who asked and what it took, and holds nobody up."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import STOKERD, Daemon, eventually
from tests.integration.http1 import ask

VALUE = 0.7315
TOKEN = "web-token-8s2Kq"


def x_of(rows: int = 1, width: int = 16) -> list[triton.InferInput]:
    x = triton.InferInput("x", [rows, width], "FP32")
    x.set_data_from_numpy(np.full((rows, width), VALUE, np.float32))
    return [x]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(daemon: Daemon, count: int) -> None:
    """Once the log has that many lines."""
    wanted = "stoker_request_log_lines_total"
    eventually(lambda: daemon.metric(wanted, outcome="written") >= count, f"{count} lines are written", 30)


@pytest.fixture
def logged(tmp_path: Path, repository: Callable[..., Path]) -> Callable[..., Daemon]:
    """A daemon with the log in tmp_path."""

    def launch(*flags: str) -> Daemon:
        log = f"--request-log={tmp_path / 'requests.log'}"
        return Daemon(repository("mlp"), tmp_path / "cache", tmp_path / "stokerd.log", "--no-compile", log, *flags)

    return launch


def test_a_line_for_each(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    with logged() as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of(rows=3), request_id="unary")
            answers: list[Any] = []
            client.start_stream(lambda result, error: answers.append((result, error)))
            client.async_stream_infer("mlp", x_of(), request_id="streamed")
            client.stop_stream()
            with pytest.raises(InferenceServerException):
                client.infer("mlp", x_of(width=15), request_id="too-narrow")
            with pytest.raises(InferenceServerException):
                client.infer("nobody\n\x1b", x_of(), request_id="x" * 300)
        data = {"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [VALUE] * 16}
        body = json.dumps({"id": "over-http", "inputs": [data]}).encode()
        assert ask(daemon.http_port, "POST", "/v2/models/mlp/infer", body).status == 200
        written(daemon, 5)
        found = {line["id"]: line for line in lines(tmp_path / "requests.log")}
        unary = found["unary"]
        assert {key: unary[key] for key in ("status", "protocol", "peer", "model", "version", "tier", "rows")} == {
            "status": "OK",
            "protocol": "grpc",
            "peer": "127.0.0.1",
            "model": "mlp",
            "version": 1,
            "tier": "eager",
            "rows": 3,
        }
        assert unary["bytes_in"] > 3 * 16 * 4 and unary["bytes_out"] > 0
        assert unary["total_us"] >= unary["queue_us"] + unary["run_us"] > 0
        assert "caller" not in unary and "error" not in unary
        assert found["streamed"]["protocol"] == "stream"
        assert found["over-http"]["protocol"] == "http"
        assert found["too-narrow"]["status"] == "INVALID_ARGUMENT"
        assert "error" not in found["too-narrow"]  # it may name a value
        nobody = found["x" * 128 + "..."]
        assert (nobody["status"], nobody["model"]) == ("NOT_FOUND", "nobody\\n\\x1b")
        assert nobody["error"].startswith("Request for unknown model")
        # Nothing of a tensor, in whatever form.
        assert str(VALUE) not in (tmp_path / "requests.log").read_text()


def test_a_sample_and_the_failures(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    with logged("--request-log-sample=0", "--request-log-failures=2") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for _ in range(20):
                client.infer("mlp", x_of())
            for _ in range(5):
                with pytest.raises(InferenceServerException):
                    client.infer("mlp", x_of(width=15))
        written(daemon, 2)
        assert all(line["status"] == "INVALID_ARGUMENT" for line in lines(tmp_path / "requests.log"))
        left_out = daemon.metric("stoker_request_log_lines_total", outcome="failure_rate")
        assert left_out + len(lines(tmp_path / "requests.log")) == 5


def test_text_to_the_standard_output(tmp_path: Path, repository: Callable[..., Path]) -> None:
    flags = ["--no-compile", "--request-log=-", "--request-log-format=text"]
    # It comes to where the daemon's own log goes.
    with Daemon(repository("mlp"), tmp_path / "cache", tmp_path / "stokerd.log", *flags) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of(), request_id="a b")
        written(daemon, 1)
        assert 'status=OK protocol=grpc peer=127.0.0.1 id="a b" model=mlp version=1' in daemon.log()


def test_a_log_that_is_rotated(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    path = tmp_path / "requests.log"
    with logged() as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of(), request_id="before")
            written(daemon, 1)
            path.rename(tmp_path / "requests.log.1")
            client.infer("mlp", x_of(), request_id="after")
            written(daemon, 2)
    assert [line["id"] for line in lines(tmp_path / "requests.log.1")] == ["before"]
    assert [line["id"] for line in lines(path)] == ["after"]


def test_the_last_lines_are_written(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    with logged() as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for i in range(100):
                client.infer("mlp", x_of(), request_id=str(i))
        assert daemon.stop() == 0
    assert [line["id"] for line in lines(tmp_path / "requests.log")] == [str(i) for i in range(100)]


def test_a_reader_that_is_stuck_holds_nobody_up(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    fifo = tmp_path / "requests.log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with logged() as daemon:
            daemon.wait_ready()
            with daemon.client() as client:
                # Far more than a pipe holds.
                for i in range(1000):
                    client.infer("mlp", x_of(), request_id=str(i))
            assert daemon.stop() == 0
    finally:
        os.close(reader)


def test_a_disk_that_is_full(logged: Callable[..., Daemon], tmp_path: Path) -> None:
    (tmp_path / "requests.log").symlink_to("/dev/full")
    with logged() as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of())
            lost = "stoker_request_log_lines_total"
            eventually(lambda: daemon.metric(lost, outcome="write_failed") >= 1, "the line is lost", 30)
            client.infer("mlp", x_of())
        assert daemon.log().count("request log: ") == 1


def test_callers_have_the_policys_names(tmp_path: Path, logged: Callable[..., Daemon]) -> None:
    policy = {
        "callers": {"web": {"tokens": [{"sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]}},
        "rules": [
            {"callers": ["web"], "groups": ["infer"]},
            {"callers": ["anonymous"], "groups": ["health", "metadata", "metrics"]},
        ],
    }
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    with logged(f"--policy={tmp_path / 'policy.yaml'}") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of(), headers={"authorization": f"Bearer {TOKEN}"})
            with pytest.raises(InferenceServerException):
                client.infer("mlp", x_of())
        written(daemon, 2)
    first, second = lines(tmp_path / "requests.log")
    assert (first["caller"], first["status"]) == ("web", "OK")
    assert (second["caller"], second["status"], second["peer"]) == ("anonymous", "UNAUTHENTICATED", "127.0.0.1")
    assert TOKEN not in (tmp_path / "requests.log").read_text()


def test_a_log_that_cannot_be_written(tmp_path: Path, repository: Callable[..., Path]) -> None:
    line = [str(STOKERD), f"--model-repository={repository('mlp')}", f"--request-log={tmp_path}/no/requests.log"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"{tmp_path}/no/requests.log: No such file or directory" in done.stderr
