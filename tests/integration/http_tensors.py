"""Asks a server by Triton's HTTP client, as it is; run in the environment of tests/clients.sh.

    python http_tensors.py PORT < ASKED

ASKED is JSON, a list of requests: {"model": …, "inputs": [{"name", "datatype", "shape", "data"}], "binary": …}, with
texts as elements of BYTES. Prints a list of answers: outputs by name, with datatype, shape and data, or the error's
text. A request with "metadata" is answered by the model's metadata and configuration.
"""

import json
import sys
from typing import Any

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype


def given(tensor: dict[str, Any], binary: bool) -> triton.InferInput:
    made = triton.InferInput(tensor["name"], tensor["shape"], tensor["datatype"])
    elements = tensor["data"]
    if tensor["datatype"] == "BYTES":
        elements = [text.encode() for text in elements]
    array = np.array(elements, dtype=triton_to_np_dtype(tensor["datatype"])).reshape(tensor["shape"])
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def infer(client: triton.InferenceServerClient, asked: dict[str, Any]) -> dict[str, Any]:
    inputs = [given(tensor, asked["binary"]) for tensor in asked["inputs"]]
    result = client.infer(asked["model"], inputs, outputs=outputs(client, asked))
    answer = {}
    for output in result.get_response()["outputs"]:
        array = result.as_numpy(output["name"])
        data = [x.decode() if isinstance(x, bytes) else x for x in array.reshape(-1).tolist()]
        answer[output["name"]] = {"datatype": output["datatype"], "shape": list(array.shape), "data": data}
    return answer


def outputs(client: triton.InferenceServerClient, asked: dict[str, Any]) -> list[triton.InferRequestedOutput]:
    names = [output["name"] for output in client.get_model_metadata(asked["model"])["outputs"]]
    return [triton.InferRequestedOutput(name, binary_data=asked["binary"]) for name in names]


def main() -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{sys.argv[1]}")
    answers: list[Any] = []
    for asked in json.load(sys.stdin):
        try:
            if "metadata" in asked:
                model = asked["metadata"]
                answers.append([client.get_model_metadata(model), client.get_model_config(model)])
            else:
                answers.append(infer(client, asked))
        except InferenceServerException as error:
            answers.append(str(error.message()))
    print(json.dumps(answers))


main()
