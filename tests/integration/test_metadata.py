"""Proves that what the server says about itself and its models is what stock clients rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc import StatusCode
from tritonclient.grpc import service_pb2
from tritonclient.grpc.model_config_pb2 import DataType
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import Daemon
from tests.integration.wire import refusal, stub


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp", "tokens", "static"], uncompiled=True)


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[triton.InferenceServerClient]:
    with daemon.client() as client:
        yield client


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def infer(client: triton.InferenceServerClient, rows: int) -> None:
    x = triton.InferInput("x", [rows, 16], "FP32")
    x.set_data_from_numpy(np.zeros((rows, 16), np.float32))
    client.infer("mlp", [x])


def test_server_metadata(client: triton.InferenceServerClient) -> None:
    metadata = client.get_server_metadata()
    assert metadata.name == "stoker"
    assert metadata.version
    assert {"statistics", "model_configuration", "binary_tensor_data", "trace", "logging"} <= set(metadata.extensions)
    assert not {"sequence", "system_shared_memory"} & set(metadata.extensions)


def test_model_metadata(client: triton.InferenceServerClient) -> None:
    def tensors(entries: list) -> list[tuple[str, str, list[int]]]:
        return [(entry.name, entry.datatype, list(entry.shape)) for entry in entries]

    metadata = client.get_model_metadata("tokens")
    assert (metadata.name, metadata.versions) == ("tokens", ["1"])
    assert tensors(metadata.inputs) == [("ids", "INT64", [-1, -1]), ("mask", "INT64", [-1, -1])]
    assert tensors(metadata.outputs) == [
        ("token_embeddings", "FP32", [-1, -1, 16]),
        ("pooled", "FP32", [-1, 16]),
    ]
    assert tensors(client.get_model_metadata("static", "1").inputs) == [("x", "FP32", [2, 16])]


def test_model_config(client: triton.InferenceServerClient) -> None:
    config = client.get_model_config("tokens").config
    assert (config.name, config.max_batch_size) == ("tokens", 4)
    ids, mask = config.input
    # With a batch size the batch is left out of dims.
    assert (ids.name, ids.data_type, list(ids.dims)) == ("ids", DataType.TYPE_INT64, [-1])
    assert mask.name == "mask"
    assert [output.name for output in config.output] == ["token_embeddings", "pooled"]
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 1024
    unbatched = client.get_model_config("static").config
    assert (unbatched.max_batch_size, list(unbatched.input[0].dims)) == (0, [2, 16])
    assert unbatched.WhichOneof("scheduling_choice") is None


def test_perf_analyzers_sequence(client: triton.InferenceServerClient) -> None:
    """Metadata, config, server metadata, then statistics before and after a window of requests."""
    client.get_model_metadata("mlp")
    client.get_model_config("mlp")
    assert "statistics" in client.get_server_metadata().extensions
    (before,) = client.get_inference_statistics("mlp").model_stats
    for rows in (1, 2, 3, 8):
        infer(client, rows)
    (after,) = client.get_inference_statistics("mlp").model_stats
    assert (after.name, int(after.version)) == ("mlp", 1)
    assert after.inference_count - before.inference_count == 1 + 2 + 3 + 8
    assert after.execution_count - before.execution_count == 4
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        old, new = getattr(before.inference_stats, name), getattr(after.inference_stats, name)
        assert new.count - old.count == 4, name
        assert new.ns > old.ns, name
    parts = ("queue", "compute_input", "compute_infer", "compute_output")
    stats = after.inference_stats
    assert stats.success.ns >= sum(getattr(stats, part).ns for part in parts)
    assert stats.fail.count == before.inference_stats.fail.count
    batches = {line.batch_size: line.compute_infer.count for line in after.batch_stats}
    assert {1, 2, 3, 8} <= set(batches)


def test_statistics_of_all_models(client: triton.InferenceServerClient) -> None:
    everything = client.get_inference_statistics()
    assert {stats.name for stats in everything.model_stats} == {"mlp", "tokens", "static"}


def test_repository_index(client: triton.InferenceServerClient, channel: grpc.Channel) -> None:
    index = client.get_model_repository_index()
    assert {(line.name, line.version, line.state) for line in index.models} == {
        (name, "1", "READY") for name in ("mlp", "tokens", "static")
    }
    request = service_pb2.RepositoryIndexRequest(ready=True)
    assert len(stub(channel).RepositoryIndex(request).models) == 3
    request.repository_name = "elsewhere"
    assert refusal(lambda: stub(channel).RepositoryIndex(request)).code() == StatusCode.UNIMPLEMENTED


def test_ready(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("mlp")
    assert client.is_model_ready("mlp", "1")
    # An answer, not an error.
    assert not client.is_model_ready("nobody")
    assert not client.is_model_ready("mlp", "2")


@pytest.mark.parametrize("method", ["ModelMetadata", "ModelConfig"])
@pytest.mark.parametrize(
    ("name", "version", "code", "words"),
    [
        ("nobody", "", StatusCode.NOT_FOUND, "Request for unknown model: 'nobody' is not found"),
        ("mlp", "7", StatusCode.NOT_FOUND, "Request for unknown model: 'mlp' version 7 is not found"),
        ("mlp", "x", StatusCode.INVALID_ARGUMENT, "failed to get model version from specified version"),
    ],
)
def test_wrong_model(
    channel: grpc.Channel, method: str, name: str, version: str, code: StatusCode, words: str
) -> None:
    request = getattr(service_pb2, f"{method}Request")(name=name, version=version)
    error = refusal(lambda: getattr(stub(channel), method)(request))
    assert error.code() == code
    assert error.details().startswith(words)


@pytest.mark.parametrize(("name", "version"), [("nobody", ""), ("mlp", "7")])
def test_statistics_of_wrong_model(channel: grpc.Channel, name: str, version: str) -> None:
    request = service_pb2.ModelStatisticsRequest(name=name, version=version)
    error = refusal(lambda: stub(channel).ModelStatistics(request))
    assert error.code() == StatusCode.INVALID_ARGUMENT
    assert error.details().startswith(f"requested model '{name}' is not available")


def test_explicit_load_and_unload_are_refused(client: triton.InferenceServerClient) -> None:
    for call in (client.load_model, client.unload_model):
        with pytest.raises(InferenceServerException) as caught:
            call("mlp")
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        assert caught.value.message().startswith("explicit model load / unload is not allowed")
    assert client.is_model_ready("mlp")


@pytest.mark.parametrize("method", ["SystemSharedMemoryStatus", "CudaSharedMemoryStatus"])
def test_not_offered(channel: grpc.Channel, method: str) -> None:
    request = getattr(service_pb2, f"{method}Request")()
    error = refusal(lambda: getattr(stub(channel), method)(request))
    assert error.code() == StatusCode.UNIMPLEMENTED
    assert "by this server" in error.details()
