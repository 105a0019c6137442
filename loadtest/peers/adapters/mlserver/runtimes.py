"""Custom runtimes of MLServer for the demo model and the null models."""

from __future__ import annotations

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import get_model_uri

from loadtest.peers.adapters.minilm import MiniLm


class MiniLmRuntime(MLModel):
    async def load(self) -> bool:
        self._model = MiniLm(await get_model_uri(self.settings))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        outputs = self._model.run(inputs["input_ids"], inputs["attention_mask"])
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output(name, value) for name, value in outputs.items()],
        )


class NullRuntime(MLModel):
    """The first 16 values of each row, without torch."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", x[:, :16])])
