"""Proves that gRPC's health service and reflection tell of the server's state, from launch to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import grpc
import torch
from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.integration.daemon import Daemon
from tests.integration.wire import raw_request, refusal, stub

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN
READINESS = ["", "readiness", "startup", "inference.GRPCInferenceService", "mlp"]


def statuses(channel: grpc.Channel) -> dict[str, int]:
    check = HealthStub(channel).Check
    return {name: check(HealthCheckRequest(service=name)).status for name in ["liveness", *READINESS]}


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

            daemon.process.terminate()
            assert refusal(lambda: list(server)).code() == StatusCode.UNAVAILABLE
        assert daemon.process.wait(40) == 0


def test_unknown_service(serving: Callable[..., Daemon]) -> None:
    with grpc.insecure_channel(serving(["mlp"], uncompiled=True).address) as channel:
        request = HealthCheckRequest(service="nobody")
        error = refusal(lambda: HealthStub(channel).Check(request))
        assert error.code() == StatusCode.NOT_FOUND
        assert "'liveness', 'readiness', 'startup'" in error.details()


def test_reflection(serving: Callable[..., Daemon]) -> None:
    with grpc.insecure_channel(serving(["mlp"], uncompiled=True).address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(database.get_services())
        file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
        (service,) = file.service
        assert {"ModelInfer", "ModelStreamInfer"} <= {method.name for method in service.method}
        assert "ModelInferRequest" in {message.name for message in file.message_type}
