"""Proves that SIGTERM is told to health watchers first, and answers what was accepted, within a deadline."""

from __future__ import annotations

import queue
import re
import signal
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from torch import Tensor, nn

from tests.integration.daemon import Daemon, eventually, health_page, write_yaml

SIZE = 384
REQUESTS = 24
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class _Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(SIZE))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for _ in range(30):
            x = x @ self.weight
        return {"y": x}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a model that takes tens of milliseconds a request and answers its input."""
    root = tmp_path_factory.mktemp("slow")
    (root / "slow/1").mkdir(parents=True)
    batch = torch.export.Dim("batch", min=1, max=4)
    program = torch.export.export(_Slow(), (torch.zeros(2, SIZE, SIZE),), dynamic_shapes=({0: batch},))
    torch.export.save(program, root / "slow/1/model.pt2")
    write_yaml(root / "slow", max_batch_size=1, buckets=[])
    return root


class Requests:
    """REQUESTS requests at once; what became of them."""

    def __init__(self, client: triton.InferenceServerClient) -> None:
        self._ended: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
        for number in range(REQUESTS):
            x = triton.InferInput("x", [1, SIZE, SIZE], "FP32")
            x.set_data_from_numpy(np.full((1, SIZE, SIZE), number, np.float32))
            client.async_infer(
                "slow", [x], lambda result, error, n=number: self._ended.put((n, result, error))
            )

    def wait(self) -> tuple[int, list[Any]]:
        """How many were answered right, and the errors of the others."""
        right, errors = 0, []
        for _ in range(REQUESTS):
            number, result, error = self._ended.get(timeout=60)
            if error is not None:
                errors.append(error)
            else:
                assert (result.as_numpy("y") == number).all()
                right += 1
        return right, errors


def wait_until_busy(daemon: Daemon) -> None:
    """All are accepted, and most still wait."""

    def accepted() -> bool:
        waiting = daemon.metric("stoker_queue_length")
        ended = daemon.metric("stoker_requests_total")
        return ended >= 1 and waiting >= REQUESTS / 2 and waiting + ended >= REQUESTS - 1

    eventually(accepted, "all requests are accepted and most of them wait")


def test_accepted_requests_are_answered(start, slow: Path) -> None:
    with start(slow, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with grpc.insecure_channel(daemon.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == SERVING
            requests = Requests(client)
            wait_until_busy(daemon)
            daemon.process.send_signal(signal.SIGTERM)
            # Load balancers learn of it while the requests are being answered.
            assert next(watch).status == NOT_SERVING
            assert health_page(daemon, "readiness") == (503, "draining\n")
            assert health_page(daemon, "liveness") == (200, "draining\n")
            assert not daemon.ended()
            with pytest.raises(grpc.RpcError) as ended:
                next(watch)
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
            assert requests.wait() == (REQUESTS, [])
        assert daemon.process.wait(40) == 0
    assert re.search(r"slow:1: draining -> unloaded[\s\S]*stopped\n", daemon.log())


def test_the_deadline_ends_the_rest(start, slow: Path) -> None:
    """Nobody waits for a queue that can't be finished in time: those requests get an error."""
    with start(slow, "--no-compile", "--drain-seconds=0") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        requests = Requests(client)
        wait_until_busy(daemon)
        assert daemon.stop() == 0
        right, errors = requests.wait()
        assert right >= 1 and len(errors) >= 1
        allowed = ("StatusCode.UNAVAILABLE", "StatusCode.CANCELLED")
        assert all(error.status() in allowed for error in errors), errors


def test_an_interrupt_stops_too(start, slow: Path) -> None:
    with start(slow, "--no-compile") as daemon:
        daemon.wait_ready(60)
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(40) == 0


def test_before_anything_is_loaded(repository, start) -> None:
    with start(repository("mlp"), "--no-compile") as daemon:
        assert daemon.stop() == 0
    assert "stopped" in daemon.log()
