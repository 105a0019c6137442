"""Proves the classification extension: the largest elements of an output, with labels, in place of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from tests.integration.clients import expected, rows
from tests.integration.daemon import Daemon, eventually

LABELS = ["cat", "dog: large", "bird"]  # of four classes


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp", "allkinds"], "--model-control=explicit", "--allow-client-shm", uncompiled=True)


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(daemon.address) as client:
        for model in ("mlp", "allkinds"):
            client.load_model(model)
        yield client


def given(x: np.ndarray) -> triton.InferInput:
    tensor = triton.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    return tensor


def classes(client: triton.InferenceServerClient, x: np.ndarray, count: int) -> list[list[str]]:
    wanted = [triton.InferRequestedOutput("y", class_count=count)]
    answer = client.infer("mlp", [given(x)], outputs=wanted)
    assert answer.get_output("y").datatype == "BYTES"
    return [[text.decode() for text in row] for row in answer.as_numpy("y")]


def right(x: np.ndarray, count: int, labels: list[str]) -> list[list[str]]:
    """What Triton says of the same values."""
    texts = []
    for row in expected(x):
        best = np.argsort(-row, kind="stable")[:count]
        texts.append([f"{row[i]:f}:{i}" + (f":{labels[i]}" if i < len(labels) else "") for i in best])
    return texts


@pytest.mark.parametrize("count", [1, 3, 4, 100])
@pytest.mark.parametrize("batch", [1, 5])
def test_without_labels(client: triton.InferenceServerClient, batch: int, count: int) -> None:
    answer = classes(client, rows(batch), count)
    assert [len(row) for row in answer] == [min(count, 4)] * batch
    for got, wanted in zip(answer, right(rows(batch), count, []), strict=True):
        for text, other in zip(got, wanted, strict=True):
            value, index = text.split(":")
            assert index == other.split(":")[1]
            assert abs(float(value) - float(other.split(":")[0])) < 1e-5


def test_labels(repository, start) -> None:
    root = repository("mlp")
    with start(root, "--no-compile", "--repository-poll-seconds=0.2") as daemon, daemon.client() as own:
        daemon.wait_ready(60)
        assert classes(own, rows(2), 4)[0][0].count(":") == 1
        (root / "mlp/labels.txt").write_text("\n".join(LABELS) + "\n")
        eventually(lambda: "cat" in str(classes(own, rows(2), 4)), "the labels are read")
        indices = [[text.split(":", 1)[1] for text in row] for row in classes(own, rows(2), 4)]
        assert indices == [[text.split(":", 1)[1] for text in row] for row in right(rows(2), 4, LABELS)]
        assert daemon.stop() == 0


def test_beside_other_outputs(client: triton.InferenceServerClient) -> None:
    inputs = []
    for tensor in client.get_model_metadata("allkinds").inputs:
        one = triton.InferInput(tensor.name, [2, 3], tensor.datatype)
        one.set_data_from_numpy(np.array([[1, 0, 1], [0, 1, 1]], triton_to_np_dtype(tensor.datatype)))
        inputs.append(one)
    outputs = [
        triton.InferRequestedOutput("out_int16", class_count=1),
        triton.InferRequestedOutput("out_fp64"),
        triton.InferRequestedOutput("out_uint8", class_count=2),
    ]
    answer = client.infer("allkinds", inputs, outputs=outputs)
    assert answer.as_numpy("out_int16").tolist() == [[b"2:0"], [b"2:1"]]
    assert answer.as_numpy("out_fp64").tolist() == [[2, 1, 2], [1, 2, 2]]
    assert answer.as_numpy("out_uint8").tolist() == [[b"2:0", b"2:2"], [b"2:1", b"2:2"]]
    for name in ("out_bool", "out_fp16", "out_bf16"):
        with pytest.raises(InferenceServerException, match=f"class result not available for output '{name}'"):
            client.infer("allkinds", inputs, outputs=[triton.InferRequestedOutput(name, class_count=1)])


def test_not_in_shared_memory(daemon: Daemon, client: triton.InferenceServerClient) -> None:
    request = service_pb2.ModelInferRequest(model_name="mlp")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 16])
    request.raw_input_contents.append(rows(1).tobytes())
    parameters = request.outputs.add(name="y").parameters
    parameters["classification"].int64_param = 1
    parameters["shared_memory_region"].string_param = "r"
    parameters["shared_memory_byte_size"].int64_param = 64
    with grpc.insecure_channel(daemon.address) as channel:
        with pytest.raises(grpc.RpcError) as error:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    text = error.value.details()  # type: ignore[attr-defined]
    assert text == "'classification' can not be specified with 'shared_memory_region' parameter for output 'y'"


def test_streams(daemon: Daemon, client: triton.InferenceServerClient) -> None:
    """An answer in a stream says that it is the request's last; one of a unary call says nothing."""
    answers: list[triton.InferResult] = []
    with daemon.client() as own:
        own.start_stream(lambda result, error: answers.append(error or result))
        wanted = [triton.InferRequestedOutput("y", class_count=1)]
        for enable in (False, True):
            own.async_stream_infer("mlp", [given(rows(1))], outputs=wanted, enable_empty_final_response=enable)
        own.stop_stream()
    assert len(answers) == 2  # no empty one behind them: each answer is final
    for answer in answers:
        response = answer.get_response()
        assert response.parameters["triton_final_response"].bool_param is True
        assert answer.as_numpy("y").shape == (1, 1)
    unary = client.infer("mlp", [given(rows(1))]).get_response()
    assert "triton_final_response" not in unary.parameters


def test_the_extension_is_announced(client: triton.InferenceServerClient) -> None:
    assert "classification" in client.get_server_metadata().extensions
