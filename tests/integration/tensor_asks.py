"""Requests with tensors as clients have them, to a daemon: over gRPC by Triton's client here, over HTTP by its other
one in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from typing import Any, NamedTuple

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import np_to_triton_dtype

from tests.integration.daemon import REPO, Daemon


class Given(NamedTuple):
    """An input of a request; the datatype of an array of objects is BYTES."""

    name: str
    elements: np.ndarray

    @property
    def datatype(self) -> str:
        return str(np_to_triton_dtype(self.elements.dtype))


def by_grpc(client: triton.InferenceServerClient, model: str, *inputs: Given) -> dict[str, np.ndarray]:
    """All outputs by name."""
    tensors = []
    for name, elements in inputs:
        tensor = triton.InferInput(name, elements.shape, str(np_to_triton_dtype(elements.dtype)))
        tensor.set_data_from_numpy(elements)
        tensors.append(tensor)
    answer = client.infer(model, tensors)
    found = {output.name: answer.as_numpy(output.name) for output in answer.get_response().outputs}
    for output in answer.get_response().outputs:
        assert list(output.shape) == list(found[output.name].shape)
    return found


def asked(model: str, binary: bool, *inputs: Given) -> dict[str, Any]:
    """A request for by_http."""

    def plain(elements: np.ndarray) -> list[Any]:
        return [x.decode() if isinstance(x, bytes) else x for x in elements.reshape(-1).tolist()]

    return {
        "model": model,
        "binary": binary,
        "inputs": [
            {"name": x.name, "datatype": x.datatype, "shape": list(x.elements.shape), "data": plain(x.elements)}
            for x in inputs
        ],
    }


def by_http(daemon: Daemon, requests: list[dict[str, Any]]) -> list[Any]:
    """What tests/integration/http_tensors.py says to each."""
    python = subprocess.run([REPO / "tests/clients.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    done = subprocess.run(
        [python, REPO / "tests/integration/http_tensors.py", str(daemon.http_port)],
        input=json.dumps(requests), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))
