"""Proves that HTTP answers what gRPC answers, to the last bit, in JSON and in binary form, and says no as Triton."""

from __future__ import annotations

import gzip
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import torch

from tests.integration.daemon import Daemon
from tests.integration.http1 import Answer, ask, binary, floats, infer
from tests.integration.wire import DTYPES, raw_bytes, raw_request, stub

X = [[i / 7 - 1 for i in range(16)]]
HUGE = (1 << 53) + 1  # no double is between this and its neighbours


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp", "identity", "allkinds", "tokens"], uncompiled=True)


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def x(data: object = X, **more: object) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": data, **more}]}


def kinds() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {
        "in_bool": torch.tensor([[True, False, True]]),
        "in_uint8": torch.tensor([[0, 1, 254]], dtype=torch.uint8),
        "in_int8": torch.tensor([[-128, 0, 126]], dtype=torch.int8),
        "in_int16": torch.tensor([[-(1 << 15), 0, 7]], dtype=torch.int16),
        "in_int32": torch.tensor([[-(1 << 31), 0, 7]], dtype=torch.int32),
        "in_int64": torch.tensor([[HUGE, -HUGE, -(1 << 63)]]),
        "in_fp16": torch.randn(1, 3, dtype=torch.float16),
        "in_bf16": torch.randn(1, 3, dtype=torch.bfloat16),
        "in_fp32": torch.tensor([[0.1, -1e-45, 3.4e38]]),
        "in_fp64": torch.tensor([[0.1, 5e-324, 1.7e308]], dtype=torch.float64),
    }


def halves(name: str) -> bool:
    return name.endswith(("fp16", "bf16"))


def all_kinds(in_json: bool) -> tuple[bytes, dict[str, str]]:
    """Each input in its own place: JSON has no halves."""
    entries, behind = [], []
    for name, tensor in kinds().items():
        entry: dict[str, Any] = {"name": name, "shape": [1, 3], "datatype": DTYPES[tensor.dtype][0]}
        if in_json and not halves(name):
            entry["data"] = tensor.tolist()
        else:
            behind.append(raw_bytes(tensor))
            entry["parameters"] = {"binary_data_size": len(behind[-1])}
        entries.append(entry)
    outputs = [
        {"name": name.replace("in_", "out_"), "parameters": {"binary_data": not in_json or halves(name)}}
        for name in kinds()
    ]
    return binary({"id": "k", "inputs": entries, "outputs": outputs}, behind)


def tensors(answer: Answer) -> dict[str, bytes | list[Any]]:
    size = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    behind = answer.body[size:]
    found: dict[str, bytes | list[Any]] = {}
    for output in json.loads(answer.body[:size])["outputs"]:
        if "data" in output:
            found[output["name"]] = output["data"]
            continue
        count = output["parameters"]["binary_data_size"]
        found[output["name"]], behind = behind[:count], behind[count:]
    assert behind == b""
    return found


@pytest.mark.parametrize("in_json", [True, False], ids=["json", "binary"])
def test_every_datatype_bit_for_bit(daemon: Daemon, channel: grpc.Channel, in_json: bool) -> None:
    body, headers = all_kinds(in_json)
    answer = ask(daemon.http_port, "POST", "/v2/models/allkinds/infer", body, headers)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/octet-stream"
    by_grpc = stub(channel).ModelInfer(raw_request("allkinds", kinds()))
    expected = dict(zip((o.name for o in by_grpc.outputs), by_grpc.raw_output_contents, strict=True))
    for name, got in tensors(answer).items():
        dtype = kinds()[name.replace("out_", "in_")].dtype
        data = raw_bytes(torch.tensor(got, dtype=dtype)) if isinstance(got, list) else got
        assert data == expected[name], name


def test_an_answer_in_json(daemon: Daemon, channel: grpc.Channel) -> None:
    answer = infer(daemon.http_port, "mlp", {"id": "one", **x()})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    got = answer.json()
    assert (got["model_name"], got["model_version"], got["id"]) == ("mlp", "1", "one")
    (output,) = got["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [1, 4])
    by_grpc = stub(channel).ModelInfer(raw_request("mlp", {"x": torch.tensor(X)}))
    assert struct.pack("<4f", *output["data"]) == by_grpc.raw_output_contents[0]


def test_flat_and_nested_data_are_the_same(daemon: Daemon) -> None:
    assert infer(daemon.http_port, "mlp", x(X[0])).json() == infer(daemon.http_port, "mlp", x([X])).json()


def test_numbers_that_are_none(daemon: Daemon) -> None:
    values = [math.nan, math.inf, -math.inf, *X[0][3:]]
    (output,) = infer(daemon.http_port, "identity", x(values)).json()["outputs"]
    assert math.isnan(output["data"][0])
    assert output["data"][1:3] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("number", "expected"),
    [("1", 1.0), ("16777217", 16777216.0), ("0.1", 0.1), ("1e-60", 0.0), ("7.006492321624086e-46", 1e-45)],
)
def test_a_number_is_the_nearest_float(daemon: Daemon, number: str, expected: float) -> None:
    body = json.dumps(x()).replace(json.dumps(X[0][0]), number, 1).encode()
    (output,) = ask(daemon.http_port, "POST", "/v2/models/identity/infer", body).json()["outputs"]
    assert floats(output["data"][:1]) == floats([expected])


def test_binary_outputs_by_one_word(daemon: Daemon) -> None:
    body, headers = binary(
        {"parameters": {"binary_data_output": True}, "inputs": [{
            "name": "x", "shape": [1, 16], "datatype": "FP32", "parameters": {"binary_data_size": 64}}]},
        [floats(X[0])],
    )
    answer = ask(daemon.http_port, "POST", "/v2/models/identity/versions/1/infer", body, headers)
    assert tensors(answer) == {"y": floats(X[0])}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compression_both_ways(daemon: Daemon, coding: str) -> None:
    pack, unpack = (gzip.compress, gzip.decompress) if coding == "gzip" else (zlib.compress, zlib.decompress)
    rows = {"inputs": [{"name": "x", "shape": [32, 16], "datatype": "FP32", "data": X * 32}]}
    headers = {"Content-Encoding": coding, "Accept-Encoding": coding}
    answer = ask(daemon.http_port, "POST", "/v2/models/identity/infer", pack(json.dumps(rows).encode()), headers)
    assert answer.status == 200, answer.body
    assert answer.headers["content-encoding"] == coding
    plain = infer(daemon.http_port, "identity", rows)
    assert "content-encoding" not in plain.headers
    assert unpack(answer.body) == plain.body


def test_parameters_and_outputs(daemon: Daemon) -> None:
    classes = {"outputs": [{"name": "y", "parameters": {"classification": 2}}], **x()}
    (output,) = infer(daemon.http_port, "mlp", classes).json()["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [1, 2])
    assert all(":" in text for text in output["data"])
    assert infer(daemon.http_port, "mlp", {"parameters": {"timeout": 5_000_000, "priority": 1}, **x()}).status == 200
    sequence = {"sequence_id": 5, "sequence_start": True, "sequence_end": False}
    assert infer(daemon.http_port, "mlp", {"parameters": sequence, **x()}).status == 200
    assert infer(daemon.http_port, "mlp", {"parameters": {"sequence_start": 1}, **x()}).status == 400


BAD = [
    ("mlp", x(X[0][:15]), 400, "input byte size mismatch"),
    ("mlp", x([*X[0], 1]), 400, "Shape does not match true shape of 'data' field"),
    ("mlp", x(["a"]), 400, "element 0 is"),
    ("mlp", x({}), 400, "expected an array"),
    ("mlp", x([1e300]), 400, "expected FP32"),
    ("mlp", x(datatype="INT32", data=[1.5]), 400, "element 0 is 1.5, expected INT32"),
    ("mlp", x(datatype="INT8", data=[300]), 400, "element 0 is 300, expected INT8"),
    ("mlp", x(datatype="FP16"), 400, "via JSON is not supported"),
    ("mlp", x(datatype="FP99"), 400, "data-type is 'FP99', but model 'mlp' expects 'FP32'"),
    ("mlp", x(parameters={"binary_data_size": 64}), 400, "one place of the data"),
    ("mlp", {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32"}]}, 400, "unable to find data"),
    ("mlp", {"inputs": [{"shape": [1, 16], "datatype": "FP32"}]}, 400, "expected a 'name'"),
    ("mlp", {"inputs": [{"name": "x", "shape": "16", "datatype": "FP32"}]}, 400, "expected an array of integers"),
    ("mlp", {"inputs": 5}, 400, "expected an array"),
    ("mlp", {}, 400, "expected 1 inputs but got 0"),
    ("mlp", {"parameters": {"a": [1]}, **x()}, 400, "has invalid type"),
    ("mlp", {"parameters": {"triton_x": 1}, **x()}, 400, "reserved"),
    ("mlp", {"outputs": [{"name": "z"}], **x()}, 400, "unexpected inference output 'z'"),
    ("nobody", x(), 404, "unknown model: 'nobody'"),
    ("mlp/versions/9", x(), 404, "version 9"),
    ("mlp/versions/one", x(), 400, "an integral value"),
]


@pytest.mark.parametrize(("model", "message", "status", "text"), BAD, ids=[text for *_, text in BAD])
def test_what_is_wrong_is_said(daemon: Daemon, model: str, message: dict[str, Any], status: int, text: str) -> None:
    answer = infer(daemon.http_port, model, message)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert text in answer.error


@pytest.mark.parametrize(
    ("body", "headers", "text"),
    [
        (b"", {}, "it is empty"),
        (b"[]", {}, "expected an object"),
        (b'{"inputs": [', {}, "failed to parse the request JSON buffer"),
        (b'{"id": "a"} {}', {}, "behind its end"),
        (b'{"id": "\xff"}', {}, "failed to parse the request JSON buffer"),
        (b"{}", {"Inference-Header-Content-Length": "3"}, "invalid header length"),
        (b"{}", {"Inference-Header-Content-Length": "-1"}, "invalid header length"),
        (b"{}??", {"Inference-Header-Content-Length": "2"}, "unexpected additional input data"),
        (b"??", {"Content-Encoding": "gzip"}, "expected a compressed message"),
        (b"{}", {"Content-Encoding": "br"}, "expected Content-Encoding"),
        (json.dumps(x(parameters={"binary_data_size": 64}, data=None)).encode(), {}, "expected an array"),
    ],
)
def test_bodies_that_are_none(daemon: Daemon, body: bytes, headers: dict[str, str], text: str) -> None:
    answer = ask(daemon.http_port, "POST", "/v2/models/mlp/infer", body, headers)
    assert answer.status == 400
    assert text in answer.error


def test_binary_elements_that_are_not_there(daemon: Daemon) -> None:
    entry = {"name": "x", "shape": [1, 16], "datatype": "FP32", "parameters": {"binary_data_size": 64}}
    body, headers = binary({"inputs": [entry]}, [floats(X[0][:15])])
    answer = ask(daemon.http_port, "POST", "/v2/models/mlp/infer", body, headers)
    assert (answer.status, "unexpected binary_data_size 64" in answer.error) == (400, True)


def test_queries(daemon: Daemon) -> None:
    def get(path: str, status: int = 200) -> Any:
        answer = ask(daemon.http_port, "GET", path)
        assert answer.status == status, (path, answer.body)
        return answer.json()

    assert get("/v2")["name"] == "stoker"
    assert {"binary_tensor_data", "statistics"} <= set(get("/v2/")["extensions"])
    assert get("/v2/health/live") == {"live": True}
    assert get("/v2/health/ready") == {"ready": True}
    assert get("/v2/models/mlp/ready")["ready"] is True
    assert get("/v2/models/mlp/versions/2/ready", 400)["ready"] is False
    assert get("/v2/models/nobody/ready", 400)["ready"] is False
    metadata = get("/v2/models/tokens/versions/1")
    assert metadata["versions"] == ["1"]
    assert metadata["inputs"][0] == {"name": "ids", "datatype": "INT64", "shape": [-1, -1]}
    config = get("/v2/models/tokens/config")
    assert (config["name"], config["max_batch_size"]) == ("tokens", 4)
    assert config["input"][0]["data_type"] == "TYPE_INT64"
    assert config["input"][0]["dims"] == [-1]
    (stats,) = get("/v2/models/mlp/stats")["model_stats"]
    assert stats["inference_stats"]["success"]["count"] == stats["inference_count"]
    assert {"mlp", "tokens"} <= {line["name"] for line in get("/v2/models/stats")["model_stats"]}
    get("/v2/models/nobody", 404)
    get("/v2/models/nobody/stats", 400)
    get("/v3", 404)
    get("/v2/models", 404)
    get("/", 404)


def test_repository(daemon: Daemon) -> None:
    index = ask(daemon.http_port, "POST", "/v2/repository/index", b"")
    assert {"name": "mlp", "version": "1", "state": "READY", "reason": ""} in index.json()
    ready = ask(daemon.http_port, "POST", "/v2/repository/index", b'{"ready": true}')
    assert all(line["state"] == "READY" for line in ready.json())
    load = ask(daemon.http_port, "POST", "/v2/repository/models/mlp/load", b"{}")
    assert (load.status, "explicit model load" in load.error) == (503, True)
    bad = ask(daemon.http_port, "POST", "/v2/repository/index", b"[")
    assert bad.status == 400


def test_methods_and_paths(daemon: Daemon) -> None:
    port = daemon.http_port
    wrong = ask(port, "GET", "/v2/models/mlp/infer")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert ask(port, "DELETE", "/v2/health/live").headers["allow"] == "GET, HEAD"
    head = ask(port, "HEAD", "/v2/health/live")
    assert (head.status, head.headers["content-length"]) == (200, str(len(b'{"live":true}')))
    assert ask(port, "POST", "/v2/models/mlp/infer").status == 411
    assert ask(port, "GET", "/v2/models/m%6cp").json()["name"] == "mlp"
    assert ask(port, "GET", "/v2/models/m%6").status == 404
    assert ask(port, "GET", "/v2/models/mlp?x=/ready").json()["name"] == "mlp"
    assert "not allowed" in ask(port, "GET", "/v2/systemsharedmemory/status").error


def test_failures_are_counted(daemon: Daemon) -> None:
    before = daemon.metric("stoker_requests_total", model="", outcome="not_found")
    infer(daemon.http_port, "nobody", x())
    assert daemon.metric("stoker_requests_total", model="", outcome="not_found") == before + 1
