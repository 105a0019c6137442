"""Asks a server over HTTP with what Python and torch have: the bundle's machine has no client of anybody's.

    Client(8000).infer("mlp", {"x": torch.randn(3, 256)})["y"]

Not thread-safe: one for each thread.
"""

from __future__ import annotations

import ctypes
import http.client
import json
from typing import Any

import torch

TYPES = {
    "FP32": torch.float32, "FP64": torch.float64, "FP16": torch.float16, "INT64": torch.int64, "INT32": torch.int32,
    "BOOL": torch.bool,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in TYPES.items()}
LENGTH = "Inference-Header-Content-Length"


class Refused(Exception):
    """What the server said instead; `status` is HTTP's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


def content_of(tensor: torch.Tensor) -> bytes:
    """Of a tensor on the host. Where there is no numpy, torch has no faster way."""
    held = tensor.contiguous()
    return ctypes.string_at(held.data_ptr(), held.nbytes)


class Client:
    def __init__(self, port: int, seconds: float = 120) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)

    def post(self, path: str, body: bytes = b"{}", headers: dict[str, str] | None = None) -> tuple[bytes, int]:
        """The answer, and how much of it is JSON (0: all of it)."""
        self._connection.request("POST", path, body, headers or {})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise Refused(answer.status, content.decode(errors="replace")[:1000])
        return content, int(answer.headers.get(LENGTH, 0))

    def load(self, model: str) -> None:
        self.post(f"/v2/repository/models/{model}/load")

    def unload(self, model: str) -> None:
        self.post(f"/v2/repository/models/{model}/unload")

    def infer(self, model: str, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        elements = [content_of(tensor) for tensor in inputs.values()]
        described = [
            {
                "name": name, "shape": list(tensor.shape), "datatype": NAMES[tensor.dtype],
                "parameters": {"binary_data_size": len(content)},
            }
            for (name, tensor), content in zip(inputs.items(), elements, strict=True)
        ]  # fmt: skip
        head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
        content, length = self.post(
            f"/v2/models/{model}/infer", head + b"".join(elements),
            {LENGTH: str(len(head)), "Content-Type": "application/octet-stream"},
        )  # fmt: skip
        told: dict[str, Any] = json.loads(content[:length])
        outputs, at = {}, length
        for output in told["outputs"]:
            size = output["parameters"]["binary_data_size"]
            given = bytearray(content[at : at + size])
            outputs[output["name"]] = torch.frombuffer(given, dtype=TYPES[output["datatype"]]).reshape(output["shape"])
            at += size
        return outputs
