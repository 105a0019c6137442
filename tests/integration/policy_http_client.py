"""What Triton's HTTP client gets from a server with a policy that serves the model "identity"; run in the environment
of tests/clients.sh, it prints what came of it as JSON.

    python policy_http_client.py PORT TOKEN
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

X = (np.arange(16, dtype=np.float32) / 7 - 1).reshape(1, 16)


Headers = dict[str, str] | None


def outcome(call: Callable[[Headers], Any], headers: Headers) -> list[str]:
    """["ok"], or status and text of the refusal."""
    try:
        call(headers)
    except InferenceServerException as error:
        return [str(error.status()), str(error.message())]
    return ["ok"]


def main(port: str, token: str) -> None:
    found: dict[str, Any] = {}
    value = triton.InferInput("x", list(X.shape), "FP32")
    value.set_data_from_numpy(X)
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        for name, headers in {
            "nobody": None,
            "wrong": {"Authorization": "Bearer wrong"},
            "basic": {"Authorization": "Basic d2ViOndlYg=="},
            "web": {"Authorization": f"Bearer {token}"},
        }.items():
            calls: dict[str, Callable[[Headers], Any]] = {
                "live": lambda headers: client.is_server_live(headers=headers),
                "infer": lambda headers: client.infer("identity", [value], headers=headers),
                "other": lambda headers: client.infer("other", [value], headers=headers),
                "metadata": lambda headers: client.get_model_metadata("identity", headers=headers),
                "index": lambda headers: client.get_model_repository_index(headers=headers),
                "load": lambda headers: client.load_model("identity", headers=headers),
            }
            found[name] = {what: outcome(call, headers) for what, call in calls.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
