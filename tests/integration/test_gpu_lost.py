"""Proves that the daemon ends with the exit code for a lost GPU, whenever that is, and for nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tritonclient.grpc as triton

from tests.integration.clients import check_mlp, rows
from tests.integration.daemon import REPO, Daemon, eventually, write_yaml

EXIT_CODE = 5  # GpuGuard::kExitCode


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("losing") / "losing_gpus.so"
    source = REPO / "tests/fakes/losing_gpus.cc"
    command = ["g++", "-std=c++20", "-shared", "-fPIC", "-O1", "-I", REPO / "server", "-o", library, source]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def daemon(repository: Callable[..., Path], tmp_path: Path, library: Path) -> Daemon:
    """A second model asks for a GPU, and finds none."""
    root = repository("mlp", "identity", "slow")
    write_yaml(root / "identity", device="cuda:0")
    return Daemon(
        root, tmp_path / "cache", tmp_path / "log", "--no-compile", "--drain-seconds=5", f"--cuda-library={library}",
        environment={**os.environ, "STOKER_LOSE_GPU": str(tmp_path / "lose")},
    )  # fmt: skip


def test_the_exit_code_asks_for_another_process(daemon: Daemon, tmp_path: Path) -> None:
    with daemon, daemon.client() as client:
        daemon.wait_ready(60, ["mlp"])
        check_mlp(client)
        (tmp_path / "lose").touch()
        assert daemon.process.wait(timeout=20) == EXIT_CODE
        assert "cuda:0 is lost: a test says so" in daemon.log() and "a GPU is lost: draining" in daemon.log()


def test_also_where_it_is_lost_while_the_daemon_ends(daemon: Daemon, tmp_path: Path) -> None:
    with daemon, daemon.client() as client:
        daemon.wait_ready(60, ["slow"])
        x = rows(1)
        given = triton.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        for _ in range(8):
            client.async_infer("slow", [given], callback=lambda result, error: None)
        eventually(lambda: daemon.metric("stoker_queue_length", model="slow") > 4, "requests wait")
        daemon.process.send_signal(signal.SIGTERM)
        eventually(lambda: "draining for at most" in daemon.log(), "it drains")
        (tmp_path / "lose").touch()
        assert daemon.process.wait(timeout=20) == EXIT_CODE
        assert "is lost" in daemon.log()


def test_a_signal_from_outside_says_nothing_of_a_gpu(daemon: Daemon) -> None:
    with daemon, daemon.client() as client:
        daemon.wait_ready(60, ["mlp"])
        daemon.process.send_signal(signal.SIGUSR1)
        check_mlp(client)
        assert daemon.stop() == 0
        assert "is lost" not in daemon.log()
