"""Proves that a repository may appear after the launch: KServe makes /mnt/models a link into a container beside it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import STOKERD, Daemon, eventually
from tests.integration.wire import refusal

WAIT = "--repository-wait-seconds=60"


def serves(daemon: Daemon, service: str) -> bool:
    with grpc.insecure_channel(daemon.address) as channel:
        answer = HealthStub(channel).Check(HealthCheckRequest(service=service))
        return answer.status == HealthCheckResponse.SERVING


@pytest.mark.parametrize("flags", [[], ["--model-name=host"]], ids=["repository", "program"])
def test_a_link_that_appears_late(start, exported, tmp_path: Path, flags: list[str]) -> None:
    """To a repository, or, as a model's name is given, to a folder with model.pt2 itself."""
    if flags:
        name, content = "host", exported("mlp") / "1"
    else:
        name, content = "mlp", tmp_path / "content"
        content.mkdir()
        (content / "mlp").symlink_to(exported("mlp"))
    models = tmp_path / "mnt/models"
    models.parent.mkdir()
    with start(models, "--frozen", WAIT, *flags) as daemon, daemon.client() as client:
        eventually(lambda: f'got "{models}"; waiting for it, 1m at most' in daemon.log(), "it waits", 10)
        assert serves(daemon, "liveness")
        assert not serves(daemon, "readiness") and not serves(daemon, "startup")
        with grpc.insecure_channel(daemon.address) as channel:
            error = refusal(lambda: HealthStub(channel).Check(HealthCheckRequest(service=name)))
        assert error.code() == StatusCode.NOT_FOUND  # no model is known yet

        models.symlink_to(tmp_path / "gone")  # what it leads to comes later still
        assert not serves(daemon, "readiness")
        (tmp_path / "gone").symlink_to(content)
        daemon.wait_ready(60)
        for service in ("", "liveness", "readiness", "startup", "inference.GRPCInferenceService", name):
            assert serves(daemon, service), service
        x = rows(2)
        assert abs(infer(client, x, name) - expected(x)).max() < 1e-5
        assert daemon.stop() == 0


def test_a_name_is_what_the_path_says(start, exported, tmp_path: Path) -> None:
    with start(f"{tmp_path}/greeter/", "--frozen", WAIT) as daemon, daemon.client() as client:
        (tmp_path / "greeter").symlink_to(exported("mlp") / "1")
        daemon.wait_ready(60)
        assert client.is_model_ready("greeter")


def test_a_stop_while_it_waits(start, tmp_path: Path) -> None:
    with start(tmp_path / "models", WAIT) as daemon:
        assert daemon.stop(10) == 0
        assert "stopped" in daemon.log()


def test_nothing_appears(start, tmp_path: Path) -> None:
    with start(tmp_path / "models", "--repository-wait-seconds=0.5") as daemon:
        assert daemon.process.wait(10) == 1
        assert f'expected a folder, got "{tmp_path}/models"; waited for 500ms' in daemon.log().splitlines()[-1]


@pytest.fixture
def warming(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    def run(*arguments: str) -> subprocess.Popen[str]:
        folders = [f"--model-repository={tmp_path}/models", f"--cache={tmp_path}/cache"]
        words: list[str | Path] = [STOKERD, "--warm-only", *folders, *arguments]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)

    return run


def test_warming_up_waits_too(warming: Callable[..., subprocess.Popen[str]]) -> None:
    with warming("--repository-wait-seconds=0.5") as process:
        assert "waited for 500ms" in process.communicate(timeout=10)[1]
        assert process.returncode == 1
    with warming(WAIT) as process:
        assert process.stderr is not None and "waiting for it" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 3
