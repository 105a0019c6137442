"""Proves that a faulty request gets Triton's code and words and that the next good one is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest
import torch
from grpc import StatusCode
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import (
    DTYPES,
    Request,
    assert_same,
    eager,
    raw_request,
    read,
    refusal,
    stub,
    typed_request,
)


@pytest.fixture(scope="module")
def channel(serving: Callable[..., Daemon]) -> Iterator[grpc.Channel]:
    daemon = serving(["mlp", "tokens", "allkinds", "slow"], uncompiled=True)
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def rows(count: int = 2) -> dict[str, Tensor]:
    return {"x": torch.linspace(-1, 1, count * 16).reshape(count, 16)}


def sentences(batch: int = 2, length: int = 6) -> dict[str, Tensor]:
    ids = torch.arange(batch * length).reshape(batch, length) % 100
    return {"ids": ids, "mask": torch.ones_like(ids)}


def kinds() -> dict[str, Tensor]:
    return {f"in_{name.lower()}": torch.ones(2, 3, dtype=dtype) for dtype, (name, _) in DTYPES.items()}


def mlp(**fields: object) -> Request:
    """A good request, but for `fields`."""
    request = raw_request("mlp", rows())
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def mlp_input(datatype: str = "FP32", shape: tuple[int, ...] = (2, 16), raw: bytes = bytes(128)) -> Request:
    request = Request(model_name="mlp", raw_input_contents=[raw])
    request.inputs.add(name="x", datatype=datatype, shape=shape)
    return request


def mlp_typed(field: str = "fp32_contents", elements: tuple[object, ...] = (1.0,)) -> Request:
    """A good request with `elements` added to a typed field."""
    request = typed_request("mlp", rows())
    getattr(request.inputs[0].contents, field).extend(elements)
    return request


def mlp_parameter(name: str, **value: object) -> Request:
    request = mlp()
    for field, content in value.items():
        setattr(request.parameters[name], field, content)
    return request


def out_of_patience() -> Request:
    """A quicker model may be run by the thread that brings the request, which then waits for nobody."""
    request = raw_request("slow", rows(1))
    request.parameters["timeout"].int64_param = 1
    return request


def kinds_raw(name: str, raw: bytes) -> Request:
    request = raw_request("allkinds", kinds())
    request.raw_input_contents[list(kinds()).index(name)] = raw
    return request


def kinds_typed(name: str, field: str, elements: list[float]) -> Request:
    """Only `name` brings elements; the inputs before it in the model's order bring good ones."""
    request = Request(model_name="allkinds")
    for key, tensor in kinds().items():
        dtype_name, own_field = DTYPES[tensor.dtype]
        entry = request.inputs.add(name=key, datatype=dtype_name, shape=tensor.shape)
        if key == name:
            getattr(entry.contents, field).extend(elements)
        elif own_field is not None:
            getattr(entry.contents, own_field).extend(tensor.flatten().tolist())
    return request


def raw_and_typed() -> Request:
    request = typed_request("mlp", rows())
    request.raw_input_contents.append(bytes(128))
    return request


def same_name_twice() -> Request:
    request = raw_request("tokens", sentences())
    request.inputs[1].name = "ids"
    return request


def raw_entries(model: str, inputs: dict[str, Tensor], count: int) -> Request:
    request = raw_request(model, inputs)
    entries = [*request.raw_input_contents, b""][:count]
    del request.raw_input_contents[:]
    request.raw_input_contents.extend(entries)
    return request


def tensor_parameter(of: str, name: str) -> Request:
    request = raw_request("mlp", rows(), ["y"])
    getattr(request, of)[0].parameters[name].int64_param = 2
    return request


def in_shared_memory() -> Request:
    request = tensor_parameter("inputs", "shared_memory_byte_size")
    request.inputs[0].parameters["shared_memory_region"].string_param = "r"
    return request


def negative_classification() -> Request:
    request = tensor_parameter("outputs", "classification")
    request.outputs[0].parameters["classification"].int64_param = -1
    return request


UNKNOWN = "Request for unknown model: "
VERSION = "failed to get model version from specified version string '"
DATATYPE = "inference input 'x' data-type is '{}', but model 'mlp' expects 'FP32'"
SHAPE = "unexpected shape for input 'x' for model 'mlp'. Expected [-1,16], got "
OPEN_AXIS = "All input dimensions should be specified for input 'x' for model 'mlp', got "
BYTES = "input byte size mismatch for input 'x' for model 'mlp'. Expected 128, got "
BATCH = "inference request batch-size must be <= 8 for 'mlp', got "
FIELD = "input 'x' for model 'mlp': expected FP32 elements in fp32_contents, got 1 in "
NO_DATA = "unable to find data for input tensor '{}' for model '{}' in request."

# What is wrong, the request, the first words of the answer; INVALID_ARGUMENT is the code.
INVALID: list[tuple[str, Request, str]] = [
    ("version in words", mlp(model_version="latest"), VERSION + "latest'"),
    ("negative version", mlp(model_version="-1"), VERSION + "-1'"),
    ("version 1.0", mlp(model_version="1.0"), VERSION + "1.0'"),
    ("version past 64 bits", mlp(model_version="9" * 20), VERSION + "9999"),
    ("wrong dtype", mlp_input("INT32"), DATATYPE.format("INT32")),
    ("dtype of strings", mlp_input("BYTES"), DATATYPE.format("BYTES")),
    ("dtype that is none", mlp_input("FP12"), DATATYPE.format("FP12")),
    ("no dtype", mlp_input(""), DATATYPE.format("")),
    ("no batch axis", mlp_input(shape=(16,)), SHAPE + "[16]: the first dimension must be the batch"),
    ("an axis too many", mlp_input(shape=(1, 2, 16)), SHAPE + "[1,2,16]"),
    ("no shape", mlp_input(shape=()), SHAPE + "[]"),
    ("wrong constant axis", mlp_input(shape=(2, 15)), SHAPE + "[2,15]: axis 1 must be 16"),
    ("axis left open", mlp_input(shape=(-1, 16)), OPEN_AXIS + "[-1,16]"),
    ("least integer as an axis", mlp_input(shape=(-(1 << 63), 16)), OPEN_AXIS),
    ("rows past memory", mlp_input(shape=(1 << 62, 16)), BATCH + str(1 << 62)),
    ("size that wraps to 0", mlp_input(shape=(1 << 62, 1 << 62)), SHAPE),
    ("ten thousand axes", mlp_input(shape=(1,) * 10_000), SHAPE + "[1,1,1,1"),
    ("no row", mlp_input(shape=(0, 16), raw=b""), "unexpected size of dimension 'batch' for model 'mlp'"),
    ("batch over the limit", raw_request("mlp", rows(9)), BATCH + "9"),
    (
        "longer than the program's bound",
        raw_request("tokens", sentences(1, 65)),
        "unexpected size of dimension 'tokens' for model 'tokens': expected 1 to 64, got 65",
    ),
    (
        "inputs that disagree on the batch",
        raw_request("tokens", {"ids": sentences(2)["ids"], "mask": sentences(3)["mask"]}),
        "input 'mask' batch size does not match other inputs for 'tokens'",
    ),
    (
        "inputs that disagree on another axis",
        raw_request("tokens", {"ids": sentences(2, 6)["ids"], "mask": sentences(2, 7)["mask"]}),
        "unexpected shape for input 'mask' for model 'tokens'. Expected [-1,-1], got [2,7]",
    ),
    (
        "missing input",
        raw_request("tokens", {"ids": sentences()["ids"]}),
        (
            "expected 2 inputs but got 1 inputs for model 'tokens'. Got input(s) ['ids'], "
            "but missing required input(s) ['mask']"
        ),
    ),
    ("no input", Request(model_name="mlp"), "expected 1 inputs but got 0 inputs for model 'mlp'"),
    (
        "extra input",
        raw_request("mlp", {**rows(), "w": torch.ones(1)}),
        "expected 1 inputs but got 2 inputs for model 'mlp'. Got input(s) ['x','w']",
    ),
    (
        "ten thousand inputs",
        raw_request("mlp", {f"x{i}": torch.ones(1) for i in range(10_000)}),
        "expected 1 inputs but got 10000 inputs for model 'mlp'",
    ),
    (
        "wrong input name",
        raw_request("mlp", {"X": rows()["x"]}),
        "unexpected inference input 'X' for model 'mlp'",
    ),
    ("same input twice", same_name_twice(), "input 'ids' already exists in request for model 'tokens'"),
    ("unknown output", raw_request("mlp", rows(), ["z"]), "unexpected inference output 'z' for model 'mlp'"),
    ("same output twice", raw_request("mlp", rows(), ["y", "y"]), "output 'y' is requested more than once"),
    (
        "ten thousand outputs",
        raw_request("mlp", rows(), ["y"] * 10_000),
        "output 'y' is requested more than once",
    ),
    ("a byte short", mlp_input(raw=bytes(127)), BYTES + "127"),
    ("a byte long", mlp_input(raw=bytes(129)), BYTES + "129"),
    ("no byte", mlp_input(raw=b""), BYTES + "0"),
    ("fewer elements", mlp_input(shape=(1, 16)), BYTES.replace("128", "64") + "128"),
    (
        "raw entry too many",
        raw_entries("mlp", rows(), 2),
        "unexpected raw_input_contents for model 'mlp'. Expected 1 entries, got 2",
    ),
    ("raw entry too few", raw_entries("tokens", sentences(), 1), NO_DATA.format("mask", "tokens")),
    ("no data", raw_entries("mlp", rows(), 0), NO_DATA.format("x", "mlp")),
    (
        "raw and typed data",
        raw_and_typed(),
        "contents field must not be specified when using raw_input_contents for 'x' for model 'mlp'",
    ),
    ("typed element too many", mlp_typed(), BYTES + "132"),
    ("elements in another field", mlp_typed("int_contents", (1,)), FIELD + "int_contents"),
    ("strings", mlp_typed("bytes_contents", (b"x",)), FIELD + "bytes_contents"),
    (
        "typed FP16",
        kinds_typed("in_fp16", "fp32_contents", [1.0] * 6),
        "unexpected explicit tensor data for input 'in_fp16' for model 'allkinds'",
    ),
    (
        "typed INT8 of 128",
        kinds_typed("in_int8", "int_contents", [0, 0, 0, 0, 128, 0]),
        "input 'in_int8' for model 'allkinds': element 4 is 128, expected INT8 between -128 and 127",
    ),
    (
        "raw BOOL of 2",
        kinds_raw("in_bool", b"\0\1\0\2\0\1"),
        "input 'in_bool' for model 'allkinds': BOOL element 3 is 2, expected 0 or 1",
    ),
    (
        "reserved parameter",
        mlp_parameter("triton_final_response", bool_param=True),
        "parameter keys starting with 'triton_' are reserved",
    ),
    (
        "timeout in words",
        mlp_parameter("timeout", string_param="soon"),
        "invalid value type for 'timeout' parameter",
    ),
    (
        "negative timeout",
        mlp_parameter("timeout", int64_param=-1),
        "invalid value for 'timeout' parameter",
    ),
    (
        "priority in words",
        mlp_parameter("priority", string_param="high"),
        "invalid value type for 'priority' parameter",
    ),
]

OTHER: list[tuple[str, Request, str, StatusCode]] = [
    ("unknown model", mlp(model_name="nobody"), UNKNOWN + "'nobody' is not found", StatusCode.NOT_FOUND),
    ("no model name", mlp(model_name=""), UNKNOWN + "'' is not found", StatusCode.NOT_FOUND),
    ("path for a name", mlp(model_name="../mlp"), UNKNOWN + "'../mlp' is not found", StatusCode.NOT_FOUND),
    ("long name", mlp(model_name="m" * (1 << 20)), UNKNOWN + "'mmmm", StatusCode.NOT_FOUND),
    (
        "unknown version",
        mlp(model_version="7"),
        UNKNOWN + "'mlp' version 7 is not found",
        StatusCode.NOT_FOUND,
    ),
    (
        "waited too long",
        out_of_patience(),
        "Request timeout expired",
        StatusCode.UNAVAILABLE,
    ),
    (
        "sequence",
        mlp_parameter("sequence_start", int64_param=1),
        "invalid value type for 'sequence_start' parameter, expected bool_param.",
        StatusCode.INVALID_ARGUMENT,
    ),
    (
        "shared memory",
        in_shared_memory(),
        "input 'x': shared memory of clients is not allowed by this server",
        StatusCode.UNIMPLEMENTED,
    ),
    (
        "classification",
        negative_classification(),
        "invalid value for 'classification' parameter for output 'y', expected 0 or more, got -1",
        StatusCode.INVALID_ARGUMENT,
    ),
]  # fmt: skip

CASES = [*((*case, StatusCode.INVALID_ARGUMENT) for case in INVALID), *OTHER]


@pytest.mark.parametrize(
    ("request_", "words", "code"), [case[1:] for case in CASES], ids=[case[0].replace(" ", "_") for case in CASES]
)
def test_fault(channel: grpc.Channel, request_: Request, words: str, code: StatusCode) -> None:
    error = refusal(lambda: stub(channel).ModelInfer(request_))
    assert (error.code(), error.details()[: len(words)]) == (code, words)
    # The client gets all of it in a header or trailer, whose size it limits.
    assert len(error.details()) < 4096
    good = raw_request("mlp", rows())
    assert_same(read(stub(channel).ModelInfer(good)), eager("mlp", rows()))


def test_faults_are_counted_under_their_code(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["mlp"], uncompiled=True)

    def refused(**labels: str) -> float:
        return daemon.metric("stoker_requests_total", **labels)

    with grpc.insecure_channel(daemon.address) as channel:
        refusal(lambda: stub(channel).ModelInfer(mlp_input("INT32")))
        refusal(lambda: stub(channel).ModelInfer(mlp(model_name="nobody")))
        stub(channel).ModelInfer(mlp())
    assert refused(model="mlp", outcome="invalid_argument") == 1
    assert refused(model="", outcome="not_found") == 1
    assert refused(outcome="ok") == 1
