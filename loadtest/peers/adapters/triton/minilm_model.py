"""The demo model for Triton's Python backend: <model>/<version>/model.py."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from minilm import MiniLm  # adapters/minilm.py, copied beside this file


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        version = Path(args["model_repository"]) / args["model_version"]
        self._model = MiniLm(version / "model.pt2")

    def execute(self, requests: list) -> list:
        """`requests` is what the dynamic batcher put together: here they become one run."""
        inputs = [
            tuple(
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in ("input_ids", "attention_mask")
            )
            for request in requests
        ]
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor(name, np.ascontiguousarray(value)) for name, value in answer.items()]
            )
            for answer in self._model.run_ragged(inputs)
        ]
