"""The demo model in Python, as every Python server runs it: the exported program, eager."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch

OUTPUTS = ("token_embeddings", "sentence_embedding")


class MiniLm:
    """Loads `model.pt2`; runs on as many threads as this process may use cores. One call at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self._module = torch.export.load(os.fspath(path)).module()

    def run(self, ids: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
        """ids and mask INT64 [batch, tokens] → the outputs by name."""
        with torch.inference_mode():
            outputs = self._module(torch.from_numpy(ids), torch.from_numpy(mask))
        return {name: outputs[name].numpy() for name in OUTPUTS}

    def run_ragged(self, requests: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Several requests in one run: padded to the longest of them, and cut back to size."""
        if len(requests) == 1:
            return [self.run(*requests[0])]
        rows = sum(len(ids) for ids, _ in requests)
        longest = max(ids.shape[1] for ids, _ in requests)
        merged = np.zeros((2, rows, longest), dtype=np.int64)
        first = 0
        for ids, mask in requests:
            batch, tokens = ids.shape
            merged[0, first : first + batch, :tokens] = ids
            merged[1, first : first + batch, :tokens] = mask
            first += batch
        outputs = self.run(merged[0], merged[1])
        answers, first = [], 0
        for ids, _ in requests:
            batch, tokens = ids.shape
            answers.append(
                {
                    "token_embeddings": outputs["token_embeddings"][first : first + batch, :tokens],
                    "sentence_embedding": outputs["sentence_embedding"][first : first + batch],
                }
            )
            first += batch
        return answers
