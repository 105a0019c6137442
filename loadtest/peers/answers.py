"""Whether a server computes what it is asked to: a fast wrong answer wins no comparison."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton

from loadtest.benchmarks.null_models import WIDTHS
from loadtest.peers.adapters.minilm import MiniLm
from loadtest.peers.workspace import Workspace

AT_ONCE = 8  # so that servers that batch do
TOLERANCE = 1e-3
SECONDS = 60
Tensors = dict[str, np.ndarray]


def null_questions(model: str) -> list[tuple[Tensors, Tensors]]:
    """Inputs and expected outputs: most of one row, one of several."""
    rng = np.random.default_rng(0)
    inputs = [rng.random((rows, WIDTHS[model]), dtype=np.float32) for rows in [4] + [1] * (AT_ONCE - 1)]
    return [({"x": x}, {"y": x[:, :16]}) for x in inputs]


class AnswerCheck:
    """Asks each scenario's model a few questions at once and compares with the program, run eagerly."""

    def __init__(self, workspace: Workspace) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch's, about how its own loader reads weights
            model = MiniLm(workspace.minilm)
        rng = np.random.default_rng(0)

        def sentences(lengths: list[int]) -> list[tuple[Tensors, Tensors]]:
            questions = []
            for length in lengths:
                ids = rng.integers(1000, 30000, (1, length), dtype=np.int64)
                inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
                questions.append((inputs, model.run(*inputs.values())))
            return questions

        self._questions = {
            "null": ("null", null_questions("null")),
            "payload": ("payload", null_questions("payload")),
            "minilm_32": ("minilm", sentences([32] * AT_ONCE)),
            "minilm_mixed": ("minilm", sentences([8 + 15 * i for i in range(AT_ONCE)])),
        }

    def mistake(self, scenario: str, address: str) -> str:
        """What was wrong with the answers; empty when nothing was."""
        model, questions = self._questions[scenario]
        with triton.InferenceServerClient(address) as client, ThreadPoolExecutor(AT_ONCE) as threads:
            try:
                answers = list(threads.map(lambda question: _ask(client, model, question[0]), questions))
            except triton.InferenceServerException as error:
                return f"{model}: {error}"
        for answer, (_, expected) in zip(answers, questions, strict=True):
            for name, value in expected.items():
                got = answer.as_numpy(name)
                shape = None if got is None else got.shape
                if shape != value.shape:
                    return f"{model}: {name}: expected the shape {value.shape}, got {shape}"
                off = float(np.abs(got - value).max())
                if not off <= TOLERANCE:
                    return f"{model}: {name}: expected at most {TOLERANCE} off eager, got {off:.3g}"
        return ""


def _ask(client: triton.InferenceServerClient, model: str, inputs: Tensors) -> triton.InferResult:
    datatypes = {np.dtype(np.int64): "INT64", np.dtype(np.float32): "FP32"}
    tensors = []
    for name, value in inputs.items():
        tensor = triton.InferInput(name, list(value.shape), datatypes[value.dtype])
        tensor.set_data_from_numpy(value)
        tensors.append(tensor)
    return client.infer(model, tensors, client_timeout=SECONDS)
