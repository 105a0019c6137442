"""Inference requests and answers as protobuf, so that a test decides about every byte of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

import grpc
import torch
from torch import Tensor
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests import models

# dtype → the protocol's name and the typed field that carries it (None: raw only).
DTYPES: dict[torch.dtype, tuple[str, str | None]] = {
    torch.bool: ("BOOL", "bool_contents"),
    torch.uint8: ("UINT8", "uint_contents"),
    torch.int8: ("INT8", "int_contents"),
    torch.int16: ("INT16", "int_contents"),
    torch.int32: ("INT32", "int_contents"),
    torch.int64: ("INT64", "int64_contents"),
    torch.float16: ("FP16", None),
    torch.bfloat16: ("BF16", None),
    torch.float32: ("FP32", "fp32_contents"),
    torch.float64: ("FP64", "fp64_contents"),
}
DTYPE_OF = {name: dtype for dtype, (name, _) in DTYPES.items()}

Request: TypeAlias = service_pb2.ModelInferRequest
Response: TypeAlias = service_pb2.ModelInferResponse


def stub(channel: grpc.Channel) -> service_pb2_grpc.GRPCInferenceServiceStub:
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


def raw_bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _request(model: str, inputs: dict[str, Tensor], outputs: Iterable[str]) -> Request:
    request = Request(model_name=model)
    for name, tensor in inputs.items():
        request.inputs.add(name=name, datatype=DTYPES[tensor.dtype][0], shape=tensor.shape)
    for name in outputs:
        request.outputs.add(name=name)
    return request


def raw_request(model: str, inputs: dict[str, Tensor], outputs: Iterable[str] = ()) -> Request:
    """All inputs in raw_input_contents."""
    request = _request(model, inputs, outputs)
    request.raw_input_contents.extend(raw_bytes(tensor) for tensor in inputs.values())
    return request


def typed_request(model: str, inputs: dict[str, Tensor], outputs: Iterable[str] = ()) -> Request:
    """All inputs in the typed fields of InferTensorContents; none may be FP16 or BF16."""
    request = _request(model, inputs, outputs)
    for entry, tensor in zip(request.inputs, inputs.values(), strict=True):
        field = DTYPES[tensor.dtype][1]
        assert field is not None, f"{entry.name}: {entry.datatype} has no typed field"
        getattr(entry.contents, field).extend(tensor.flatten().tolist())
    return request


def read(response: Response) -> dict[str, Tensor]:
    """The outputs of an answer, in the order of the answer."""
    assert len(response.outputs) == len(response.raw_output_contents)
    outputs = {}
    for entry, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        dtype = DTYPE_OF[entry.datatype]
        flat = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        outputs[entry.name] = flat.reshape(list(entry.shape))
    return outputs


@functools.cache
def _module(model: str) -> torch.nn.Module:
    torch.manual_seed(0)  # as models.export does
    return models.MODELS[model]().module.eval()


def indices(batch: int) -> dict[str, Tensor]:
    """Inputs that the hostile model takes."""

    def integers(low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, (batch, 4))

    return {
        "values": torch.randn(batch, 8),
        "ids": integers(0, 9),
        "gather_index": integers(0, 7),
        "table_index": integers(-6, 5),
        "select_index": integers(0, 5),
        "put_index": torch.stack([torch.randperm(8)[:4] - 8 * (row % 2) for row in range(batch)]),
        "scatter_index": integers(0, 7),
        "dividend": integers(-100, 100),
        "divisor": integers(1, 7) * (1 - 2 * integers(0, 1)),
    }


def eager(model: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What PyTorch itself answers, from the same weights."""
    with torch.no_grad():
        return _module(model)(**inputs)


def assert_same(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Names in order, shapes and dtypes; values within 1e-4, integers and booleans exactly."""
    assert list(got) == list(expected)
    for name, tensor in expected.items():
        atol = 1e-4 if tensor.dtype.is_floating_point else 0
        torch.testing.assert_close(
            got[name], tensor, atol=atol, rtol=0, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}"
        )


def refusal(call: Callable[[], object]) -> grpc.RpcError:
    """The error that `call` ends with; fails the test when it is answered."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"expected an error, got {answer}")
