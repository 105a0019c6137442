"""Proves that a stream keeps the order of its requests and stays open past one that is refused."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from grpc import StatusCode
from tritonclient.grpc import service_pb2

from tests.integration.daemon import Daemon
from tests.integration.wire import assert_same, eager, raw_request, read, refusal, stub

REQUESTS = 100  # more than the server takes from one stream at a time


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp", "tokens"], uncompiled=True)


def x_of(value: float, rows: int = 1, name: str = "x") -> list[triton.InferInput]:
    x = triton.InferInput(name, [rows, 16], "FP32")
    x.set_data_from_numpy(np.full((rows, 16), value, np.float32))
    return [x]


@pytest.fixture
def answers(daemon: Daemon) -> Iterator[tuple[triton.InferenceServerClient, queue.Queue]]:
    """A client with an open stream, and what comes out of it as (result, error)."""
    received: queue.Queue = queue.Queue()
    with daemon.client() as client:
        client.start_stream(lambda result, error: received.put((result, error)))
        yield client, received
        client.stop_stream()


def test_order(answers: tuple[triton.InferenceServerClient, queue.Queue]) -> None:
    client, received = answers
    for i in range(REQUESTS):
        client.async_stream_infer("mlp", x_of(i / 10, rows=1 + i % 8), request_id=str(i))
    for i in range(REQUESTS):
        result, error = received.get(timeout=30)
        assert error is None
        assert result.get_response().id == str(i)
        expected = eager("mlp", {"x": torch.full((1 + i % 8, 16), np.float32(i / 10))})["y"]
        np.testing.assert_allclose(result.as_numpy("y"), expected.numpy(), atol=1e-4)


def test_sequence_parameters_change_nothing(answers: tuple[triton.InferenceServerClient, queue.Queue]) -> None:
    """As at Triton for models without state: two sequences whose requests lie between each other's."""
    client, received = answers
    sent = [(7, 1.0), ("text", 2.0), (7, 3.0), ("text", 4.0)]
    for i, (sequence, value) in enumerate(sent):
        client.async_stream_infer(
            "mlp", x_of(value), request_id=str(i), sequence_id=sequence, sequence_start=i < 2, sequence_end=i >= 2
        )
    for i, (_, value) in enumerate(sent):
        result, error = received.get(timeout=30)
        assert error is None
        response = result.get_response()
        assert response.id == str(i)
        assert response.parameters["triton_final_response"].bool_param is True
        expected = eager("mlp", {"x": torch.full((1, 16), value)})["y"]
        np.testing.assert_allclose(result.as_numpy("y"), expected.numpy(), atol=1e-4)
    unary = client.infer("mlp", x_of(5.0), sequence_id=7, sequence_start=True)
    expected = eager("mlp", {"x": torch.full((1, 16), 5.0)})["y"]
    np.testing.assert_allclose(unary.as_numpy("y"), expected.numpy(), atol=1e-4)


def test_error_inside_the_stream(answers: tuple[triton.InferenceServerClient, queue.Queue]) -> None:
    client, received = answers
    client.async_stream_infer("mlp", x_of(1), request_id="first")
    client.async_stream_infer("mlp", x_of(1, name="X"), request_id="wrong name")
    client.async_stream_infer("nobody", x_of(1), request_id="wrong model")
    client.async_stream_infer("mlp", x_of(1), request_id="last")
    first, wrong_name, wrong_model, last = (received.get(timeout=30) for _ in range(4))
    assert first[0].get_response().id == "first"
    assert wrong_name[1].message().startswith("unexpected inference input 'X' for model 'mlp'")
    assert wrong_model[1].message().startswith("Request for unknown model: 'nobody' is not found")
    assert last[0].get_response().id == "last"


def test_error_carries_the_id(daemon: Daemon) -> None:
    request = raw_request("mlp", {"x": torch.zeros(9, 16)})
    request.id = "too many rows"
    good = raw_request("mlp", {"x": torch.ones(1, 16)})
    with grpc.insecure_channel(daemon.address) as channel:
        refused, answered = stub(channel).ModelStreamInfer(iter([request, good]), timeout=30)
    assert refused.error_message.startswith("inference request batch-size must be <= 8 for 'mlp'")
    assert refused.infer_response.id == request.id
    assert not answered.error_message
    assert_same(read(answered.infer_response), eager("mlp", {"x": torch.ones(1, 16)}))


def test_error_ends_the_stream_where_asked(daemon: Daemon) -> None:
    good = raw_request("mlp", {"x": torch.zeros(1, 16)})
    wrong = raw_request("nobody", {"x": torch.zeros(1, 16)})
    with grpc.insecure_channel(daemon.address) as channel:
        stream = stub(channel).ModelStreamInfer(
            iter([good, wrong, good]), timeout=30, metadata=[("triton_grpc_error", "true")]
        )
        assert next(stream).infer_response.model_name == "mlp"
        error = refusal(lambda: next(stream))
    assert error.code() == StatusCode.NOT_FOUND
    assert error.details().startswith("Request for unknown model: 'nobody' is not found")


def test_bytes_that_are_no_request(daemon: Daemon) -> None:
    good = raw_request("mlp", {"x": torch.zeros(1, 16)}).SerializeToString()
    with grpc.insecure_channel(daemon.address) as channel:
        call = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )
        refused, answered = call(iter([good[:-7], good]), timeout=30)
    assert refused.error_message.startswith("expected a serialised inference.ModelInferRequest")
    assert not answered.error_message
