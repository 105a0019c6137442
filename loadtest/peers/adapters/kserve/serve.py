"""The demo model or the null models on KServe's Python server.

python serve.py --grpc_port PORT --http_port PORT minilm=MODEL.pt2 | null payload
"""

from __future__ import annotations

import argparse

import kserve
import numpy as np
from kserve import InferOutput, InferRequest, InferResponse

from loadtest.peers.adapters.minilm import MiniLm

NULL_WIDTHS = {"null": 16, "payload": 3 * 224 * 224}


def tensor(name: str, datatype: str, *shape: int) -> dict[str, object]:
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def answer(model: kserve.Model, request: InferRequest, outputs: dict[str, np.ndarray]) -> InferResponse:
    tensors = []
    for name, value in outputs.items():
        output = InferOutput(name, list(value.shape), "FP32")
        output.set_data_from_numpy(value)
        tensors.append(output)
    return InferResponse(response_id=request.id, model_name=model.name, infer_outputs=tensors)


class MiniLmModel(kserve.Model):
    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self._model = MiniLm(path)
        self.ready = True

    def get_input_types(self) -> list[dict]:
        return [tensor("input_ids", "INT64", -1, -1), tensor("attention_mask", "INT64", -1, -1)]

    def get_output_types(self) -> list[dict]:
        return [
            tensor("token_embeddings", "FP32", -1, -1, 384),
            tensor("sentence_embedding", "FP32", -1, 384),
        ]

    def predict(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferResponse:
        inputs = (payload.get_input_by_name(name).as_numpy() for name in ("input_ids", "attention_mask"))
        return answer(self, payload, self._model.run(*inputs))


class NullModel(kserve.Model):
    """The first 16 values of each row, without torch."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True

    def get_input_types(self) -> list[dict]:
        return [tensor("x", "FP32", -1, NULL_WIDTHS[self.name])]

    def get_output_types(self) -> list[dict]:
        return [tensor("y", "FP32", -1, 16)]

    def predict(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferResponse:
        x = payload.get_input_by_name("x").as_numpy()
        return answer(self, payload, {"y": np.ascontiguousarray(x[:, :16])})


def main() -> None:
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("models", nargs="+", metavar="NAME[=MODEL.pt2]")
    arguments = parser.parse_args()
    models: list[kserve.Model] = []
    for text in arguments.models:
        name, _, path = text.partition("=")
        models.append(MiniLmModel(name, path) if path else NullModel(name))
    kserve.ModelServer().start(models)


if __name__ == "__main__":
    main()
