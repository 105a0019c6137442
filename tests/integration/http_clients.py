"""What Triton's and KServe's HTTP clients do with a server that serves the models "mlp" and "identity"; run in the
environment of tests/clients.sh, it prints what came of it as JSON.

    python http_clients.py PORT
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from tritonclient.utils import InferenceServerException

X = (np.arange(16, dtype=np.float32) / 7 - 1).reshape(1, 16)


def input_x(binary: bool) -> triton.InferInput:
    made = triton.InferInput("x", [1, 16], "FP32")
    made.set_data_from_numpy(X, binary_data=binary)
    return made


def refused(call: Callable[[], Any]) -> list[str]:
    try:
        call()
    except InferenceServerException as error:
        return [str(error.status()), str(error.message())]
    return []


def shared(client: triton.InferenceServerClient) -> dict[str, Any]:
    name = f"/stoker_http_{os.getpid()}"
    memory = shm.create_shared_memory_region("r", name, 128)
    try:
        shm.set_shared_memory_region(memory, [X])
        client.register_system_shared_memory("r", name, 128)
        (region,) = client.get_system_shared_memory_status()
        given = triton.InferInput("x", [1, 16], "FP32")
        given.set_shared_memory("r", 64)
        wanted = triton.InferRequestedOutput("y")
        wanted.set_shared_memory("r", 64, 64)
        client.infer("identity", [given], outputs=[wanted])
        answer = shm.get_contents_as_numpy(memory, np.float32, [1, 16], 64)
        same = bool(np.array_equal(answer, X))
        client.unregister_system_shared_memory("r")
        return {"region": region, "same": same, "left": client.get_system_shared_memory_status()}
    finally:
        shm.destroy_shared_memory_region(memory)


def by_triton(port: int) -> dict[str, Any]:
    client = triton.InferenceServerClient(f"127.0.0.1:{port}", concurrency=4)
    answers = []
    for in_binary in (True, False):
        for out_binary in (True, False):
            for coding in (None, "gzip", "deflate"):
                output = triton.InferRequestedOutput("y", binary_data=out_binary)
                result = client.infer(
                    "identity", [input_x(in_binary)], outputs=[output], request_id="7",
                    request_compression_algorithm=coding, response_compression_algorithm=coding,
                )
                answers.append(bool(np.array_equal(result.as_numpy("y"), X)) and result.get_response()["id"] == "7")
    answers.append(bool(np.array_equal(client.infer("identity", [input_x(True)]).as_numpy("y"), X)))
    running = [client.async_infer("identity", [input_x(True)]) for _ in range(20)]
    answers += [bool(np.array_equal(one.get_result().as_numpy("y"), X)) for one in running]
    top = triton.InferRequestedOutput("y", class_count=2)
    found = {
        "answers": answers,
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": [client.is_model_ready("mlp"), client.is_model_ready("mlp", "1"), client.is_model_ready("none")],
        "name": client.get_server_metadata()["name"],
        "metadata": client.get_model_metadata("mlp"),
        "config": client.get_model_config("mlp")["max_batch_size"],
        "stats": client.get_inference_statistics("identity")["model_stats"][0]["inference_count"],
        "index": sorted(line["name"] for line in client.get_model_repository_index()),
        "classes": client.infer("mlp", [input_x(True)], outputs=[top]).as_numpy("y").shape,
        "loaded": client.load_model("mlp"),
        "unloaded": client.unload_model("mlp"),
        "refused": refused(lambda: client.infer("none", [input_x(True)])),
        "wrong": refused(lambda: client.infer("identity", [])),
        "traces": client.get_trace_settings()["trace_level"],
        "shared": shared(client),
    }
    client.close()
    return found


async def by_kserve(port: int) -> dict[str, Any]:
    base = f"http://127.0.0.1:{port}"
    answers = []
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        for binary in (True, False):
            given = InferInput("x", [1, 16], "FP32")
            given.set_data_from_numpy(X, binary_data=binary)
            request = InferRequest(model_name="identity", infer_inputs=[given], request_id="k")
            result = await client.infer(base, request, model_name="identity")
            (output,) = result.outputs
            answers.append(bool(np.array_equal(output.as_numpy().reshape(1, 16), X)) and result.id == "k")
        error = ""
        try:
            await client.infer(base, {"inputs": []}, model_name="none")
        except httpx.HTTPStatusError as failure:
            error = str(failure)
        return {
            "answers": answers,
            "live": await client.is_server_live(base),
            "ready": await client.is_server_ready(base),
            "model_ready": [await client.is_model_ready(base, "identity"), await client.is_model_ready(base, "none")],
            "refused": error,
        }


if __name__ == "__main__":
    port = int(sys.argv[1])
    print(json.dumps({"triton": by_triton(port), "kserve": asyncio.run(by_kserve(port))}))
