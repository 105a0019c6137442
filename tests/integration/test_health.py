"""Proves that gRPC's health service and reflection tell of the server's state, from launch to stop."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.integration.daemon import Daemon, ctl, health_page
from tests.integration.wire import raw_request, refusal, stub

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN
READINESS = ["", "readiness", "startup", "inference.GRPCInferenceService", "mlp"]


def statuses(channel: grpc.Channel) -> dict[str, int]:
    check = HealthStub(channel).Check
    return {name: check(HealthCheckRequest(service=name)).status for name in ["liveness", *READINESS]}


def ask(address: str, *arguments: str, code: int = 0) -> str:
    """What `stokerctl health` prints about the daemon at this address."""
    return ctl("health", "--grpc", address, *arguments, code=code)


def test_from_launch_to_stop(
    repository: Callable[..., Path],
    start: Callable[..., Daemon],
    fake_compiler: Callable[..., str],
    tmp_path: Path,
) -> None:
    """The version warms up until the gate lets its compiler refuse the job."""
    cache = tmp_path / "cache"
    gate = cache / "v1/scratch/gate"
    gate.parent.mkdir(parents=True)
    os.mkfifo(gate)
    compiler = fake_compiler("--start", "gated", "--job", "refuse")
    with start(repository("mlp"), compiler, cache=cache) as daemon, daemon.client() as client:
        with grpc.insecure_channel(daemon.address) as channel:
            watch = HealthStub(channel).Watch
            server = watch(HealthCheckRequest(service=""), timeout=120)
            model = watch(HealthCheckRequest(service="mlp"), timeout=120)
            stranger = watch(HealthCheckRequest(service="nobody"), timeout=120)
            assert next(server).status == NOT_SERVING
            assert next(model).status in (UNKNOWN, NOT_SERVING)  # the repository may not be read yet
            assert next(stranger).status == UNKNOWN
            assert client.is_server_live()
            assert not client.is_server_ready()
            assert not client.is_model_ready("mlp")
            assert ask(daemon.address, code=1) == "not serving\n"
            assert ask(daemon.address, "mlp", code=1) == "not serving\n"
            assert ask(daemon.address, "liveness") == "serving\n"
            assert health_page(daemon, "liveness") == (200, "serving\n")
            assert health_page(daemon, "readiness") == (503, "not serving\n")
            assert health_page(daemon, "startup") == (503, "not serving\n")

            with open(gate, "wb"):  # waits for the worker to wait
                seen = statuses(channel)
                assert seen.pop("liveness") == SERVING
                assert set(seen.values()) == {NOT_SERVING}
                error = refusal(lambda: stub(channel).ModelInfer(raw_request("mlp", {"x": torch.zeros(1, 16)})))
                assert error.code() == StatusCode.UNAVAILABLE
                words = "Request for unknown model: 'mlp' version 1 is not at ready state"
                assert error.details().startswith(words)

            assert next(server).status == SERVING
            changes = (change.status for change in model)
            assert SERVING in changes  # reads up to it
            assert set(statuses(channel).values()) == {SERVING}
            assert ask(daemon.address) == "serving\n"
            for service in ("liveness", "readiness", "startup"):
                assert health_page(daemon, service) == (200, "serving\n")
            assert json.loads(ask(daemon.address, "mlp", "--json")) == {"service": "mlp", "serving": True}

            daemon.process.terminate()
            assert refusal(lambda: list(server)).code() == StatusCode.UNAVAILABLE
        assert daemon.process.wait(40) == 0


def test_unknown_service(serving: Callable[..., Daemon]) -> None:
    with grpc.insecure_channel(serving(["mlp"], uncompiled=True).address) as channel:
        request = HealthCheckRequest(service="nobody")
        error = refusal(lambda: HealthStub(channel).Check(request))
        assert error.code() == StatusCode.NOT_FOUND
        assert "'liveness', 'readiness', 'startup'" in error.details()


def test_the_command_says_why_it_has_no_answer(
    serving: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = serving(["mlp"], uncompiled=True).address
    words = ask(address, "nobody", code=4)
    assert words.startswith(f"stokerctl: expected the health service at {address} to answer within 3s, got: ")
    assert words.count("\n") == 1 and "unknown service 'nobody'" in words

    # Backed by the kernel alone, which takes connections and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        assert "within 500ms" in ask(silent_address, "--timeout-seconds=0.5", code=4)
        assert time.monotonic() - started < 5
    # Nobody listens there any more.
    assert silent_address in ask(silent_address, code=4)

    assert "--timeout-seconds" in ask(address, "--timeout-seconds=0", code=2)
    monkeypatch.setenv("http_proxy", f"http://{silent_address}")
    assert ask(address) == "serving\n"


def test_reflection(serving: Callable[..., Daemon]) -> None:
    with grpc.insecure_channel(serving(["mlp"], uncompiled=True).address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(database.get_services())
        file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
        (service,) = file.service
        assert {"ModelInfer", "ModelStreamInfer"} <= {method.name for method in service.method}
        assert "ModelInferRequest" in {message.name for message in file.message_type}
