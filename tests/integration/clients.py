"""What the daemon's tests ask the models of tests/models.py, and what the right answers are."""

from __future__ import annotations

import functools

import numpy as np
import torch
import tritonclient.grpc as triton

from tests import models


def rows(count: int, seed: int = 0) -> np.ndarray:
    """Inputs for mlp and identity."""
    return np.random.default_rng(seed).standard_normal((count, 16), dtype=np.float32)


def infer(client: triton.InferenceServerClient, x: np.ndarray, model: str = "mlp", **options) -> np.ndarray:
    """y of a model that takes one x."""
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    return client.infer(model, [given], **options).as_numpy("y")


@functools.cache
def _mlp(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return models.mlp().module.eval()


def expected(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """What mlp answers, with the weights of that seed."""
    with torch.no_grad():
        return _mlp(seed)(torch.from_numpy(x))["y"].numpy()


def check_mlp(client: triton.InferenceServerClient, count: int = 3) -> None:
    """mlp answers, and right."""
    np.testing.assert_allclose(infer(client, rows(count)), expected(rows(count)), atol=1e-5)
