"""Proves that clients may have BYTES, Triton's TYPE_STRING, where a program has rows of UINT8."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import Daemon, ctl, only_failure
from tests.integration.tensor_asks import Given, asked, by_grpc, by_http

PBTXT = """\
max_batch_size: 8
input [
  { name: "text" data_type: TYPE_STRING dims: [ 1 ] reshape { } },
  { name: "code" data_type: TYPE_STRING dims: [ 1 ] reshape { } }
]
output [
  { name: "upper" data_type: TYPE_STRING dims: [ 1 ] reshape { } },
  { name: "count" data_type: TYPE_INT64 dims: [ 1 ] reshape { } },
  { name: "edoc" data_type: TYPE_STRING dims: [ 1 ] reshape { } }
]
"""
YAML = """\
max_batch_size: 8
inputs:
  text: {datatype: BYTES, dims: [1]}
  code: {datatype: BYTES, dims: [1]}
outputs:
  upper: {datatype: BYTES, dims: [1]}
  count: {dims: [1]}
  edoc: {datatype: BYTES, dims: [1]}
"""
TEXTS = [b"a text", "größer".encode(), b"", b"x" * 64]
CODES = [b"abcd", b"ab", b"", b"\xc3\xa4z"]


def strings(elements: list[bytes]) -> np.ndarray:
    return np.array(elements, object).reshape(-1, 1)


def given(texts: list[bytes] = TEXTS, codes: list[bytes] = CODES) -> list[Given]:
    return [Given("text", strings(texts)), Given("code", strings(codes))]


def right(pad: bytes = b"\0") -> dict[str, list]:
    return {
        "upper": [text.upper() for text in TEXTS],
        "count": [len(text) for text in TEXTS],
        "edoc": [code.ljust(4, pad)[::-1].rstrip(b"\0") for code in CODES],
    }


def check_grpc(client: triton.InferenceServerClient, pad: bytes = b"\0") -> None:
    answer = by_grpc(client, "letters", *given())
    assert {name: out.reshape(-1).tolist() for name, out in answer.items()} == right(pad)
    assert {out.shape for out in answer.values()} == {(4, 1)}
    metadata = client.get_model_metadata("letters")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("text", "BYTES", [-1, 1]),
        ("code", "BYTES", [-1, 1]),
    ]
    assert [(t.name, t.datatype) for t in metadata.outputs] == [
        ("upper", "BYTES"),
        ("count", "INT64"),
        ("edoc", "BYTES"),
    ]
    config = client.get_model_config("letters").config
    assert [(tensor.data_type, list(tensor.dims)) for tensor in config.input] == [(13, [1]), (13, [1])]


def check_typed(daemon: Daemon) -> None:
    request = service_pb2.ModelInferRequest(model_name="letters")
    for name, elements in (("text", TEXTS), ("code", CODES)):
        request.inputs.add(name=name, datatype="BYTES", shape=[4, 1]).contents.bytes_contents.extend(elements)
    with grpc.insecure_channel(daemon.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = triton.InferResult(stub.ModelInfer(request))
        assert answer.as_numpy("upper").reshape(-1).tolist() == right()["upper"]
        request.inputs[0].contents.int_contents.append(1)
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(request)
        assert "expected BYTES elements in bytes_contents, got others" in str(error.value)


def check_http(daemon: Daemon) -> None:
    """As JSON, where both have to be UTF-8, and in binary form."""
    codes = [*CODES[:3], b"dcba"]
    for answer in by_http(daemon, [asked("letters", binary, *given(TEXTS, codes)) for binary in (False, True)]):
        assert answer["upper"]["datatype"] == "BYTES"
        assert answer["upper"]["shape"] == [4, 1]
        assert [text.encode() for text in answer["upper"]["data"]] == right()["upper"]
        assert answer["edoc"]["data"][3] == "abcd"


def check_refused(client: triton.InferenceServerClient) -> None:
    for texts, codes, name, element, size, most in (
        (TEXTS, [*CODES[:2], b"abcde", b""], "code", 2, 5, 4),
        ([*TEXTS[:3], b"x" * 65], CODES, "text", 3, 65, 64),
    ):
        with pytest.raises(InferenceServerException) as caught:
            by_grpc(client, "letters", *given(texts, codes))
        assert caught.value.message() == (
            f"input '{name}' for model 'letters': string element {element} has {size} bytes, expected at most {most}"
        )
    with pytest.raises(InferenceServerException, match="data-type is 'UINT8', but model 'letters' expects 'BYTES'"):
        by_grpc(client, "letters", Given("text", np.ones((4, 1), np.uint8)), given()[1])
    tensors = []
    for name, elements in given():
        tensors.append(triton.InferInput(name, elements.shape, "BYTES"))
        tensors[-1].set_data_from_numpy(elements)
    classes = [triton.InferRequestedOutput("upper", class_count=1)]
    with pytest.raises(InferenceServerException, match="class result not available for output 'upper'.*'BYTES'"):
        client.infer("letters", tensors, outputs=classes)


@pytest.mark.parametrize(("file", "text"), [("config.pbtxt", PBTXT), ("model.yaml", YAML)])
def test_rows_of_bytes_are_strings(configured, start, file: str, text: str) -> None:
    with start(configured("letters", file, text), "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client)
            check_refused(client)
        check_typed(daemon)
        check_http(daemon)
        assert daemon.stop() == 0


def test_what_fills_them_up(configured, start) -> None:
    text = YAML.replace("code: {datatype: BYTES,", "code: {datatype: BYTES, pad_value: 45,")
    with start(configured("letters", "model.yaml", text), "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client, b"-")
        assert daemon.stop() == 0


def test_what_convert_writes_means_the_same(configured, start) -> None:
    root = configured("letters", "config.pbtxt", PBTXT)
    assert "model.yaml: written" in ctl("convert", root / "letters")
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client)
        assert daemon.stop() == 0


def test_what_is_compiled_serves_them_too(configured, start) -> None:
    text = YAML + "buckets: {batch: [1, 8], text.1: [64]}\ndimensions: {text.1: {axis: text.1, padding: true}}\n"
    with start(configured("letters", "model.yaml", text)) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client)
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        (
            "config.pbtxt",
            PBTXT.replace("reshape { } }", "}", 1),
            "config.pbtxt:3: input[0].dims: expected the program's [], without the batch and without the bytes of an e",
        ),
        (
            "config.pbtxt",
            PBTXT.replace("TYPE_INT64", "TYPE_STRING"),
            "config.pbtxt:8: output[1].data_type: expected the program's TYPE_INT64, got TYPE_STRING",
        ),
        (
            "model.yaml",
            YAML.replace("count: {", "count: {datatype: BYTES, "),
            "model.yaml:7: outputs.count.datatype: expected the program's INT64, got BYTES",
        ),
        (
            "model.yaml",
            YAML.replace("text: {datatype: BYTES", "text: {datatype: FP32"),
            "model.yaml:3: inputs.text.datatype: expected the program's UINT8, or BYTES for rows of it, got FP32",
        ),
    ],
)
def test_what_cannot_be_strings_is_said(configured, start, file: str, text: str, reason: str) -> None:
    with start(configured("letters", file, text), "--no-compile") as daemon:
        assert reason in only_failure(daemon)
