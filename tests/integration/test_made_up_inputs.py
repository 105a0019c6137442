"""Proves that programs which are particular about their inputs are compiled and proved all the same, and that one whose
eager form is never seen to run is not ready."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from torch import Tensor, nn
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.integration.clients import check_mlp
from tests.integration.daemon import write_yaml
from tests.integration.test_bad_models import index

BATCH = torch.export.Dim("batch", min=2, max=64)


class Division(nn.Module):
    """By zero there is none, of integers."""

    def forward(self, x: Tensor, by: Tensor) -> dict[str, Tensor]:
        return {"y": (x // (by + 0)) * 2}


class Buckets(nn.Module):
    """Boundaries have to be in order."""

    def forward(self, x: Tensor, boundaries: Tensor) -> dict[str, Tensor]:
        return {"y": torch.bucketize(x, boundaries)}


class Repeats(nn.Module):
    """Each value as often as it says, four times two in all."""

    def forward(self, x: Tensor, repeats: Tensor) -> dict[str, Tensor]:
        return {"y": torch.repeat_interleave(x, repeats, dim=1, output_size=4) + 1.0}


class Root(nn.Module):
    """Of a positive definite matrix."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": torch.linalg.cholesky(x) * 2}


class Never(nn.Module):
    """Refuses whatever it is given."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        torch.ops.aten._assert_async.msg((x.abs().sum() > 1e30), "never")
        return {"y": x + 1}


INTEGERS = torch.full((2, 6), 7)
PARTICULAR: dict[str, tuple[nn.Module, tuple[Tensor, ...], tuple[int | None, ...]]] = {
    "division": (Division(), (INTEGERS, torch.full((2, 6), 3)), (0, 0)),
    "buckets": (Buckets(), (torch.linspace(-2, 2, 12).reshape(2, 6), torch.tensor([-1.0, 0.0, 1.0])), (0, None)),
    "repeats": (Repeats(), (torch.ones(2, 4), torch.ones(4, dtype=torch.int64)), (0, None)),
    "root": (Root(), (torch.eye(4).repeat(2, 1, 1) * 4,), (0,)),
}  # fmt: skip


def save(root: Path, model: nn.Module, inputs: tuple[Tensor, ...], axes: tuple[int | None, ...]) -> None:
    folder = root / "particular/1"
    folder.mkdir(parents=True)
    shapes = tuple({} if axis is None else {axis: BATCH} for axis in axes)
    torch.export.save(torch.export.export(model.eval(), inputs, dynamic_shapes=shapes), folder / "model.pt2")


def given_as(name: str, value: np.ndarray) -> triton.InferInput:
    given = triton.InferInput(name, list(value.shape), np_to_triton_dtype(value.dtype))
    given.set_data_from_numpy(value)
    return given


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTICULAR)
def test_what_is_particular_is_proved(repository, start, unjudged, name: str) -> None:
    """Not whether its compiled form is faster: that it is compared, and answers right."""
    model, inputs, axes = PARTICULAR[name]
    root: Path = repository("mlp")
    save(root, model, inputs, axes)
    write_yaml(root / "particular", buckets={"x.0" if None in axes else "batch": [2]})
    with start(root, cache=unjudged(root)) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert "not checked yet" not in daemon.log(), daemon.log()
        assert "(unjudged)" not in daemon.log(), daemon.log()
        names = [each.name for each in client.get_model_metadata("particular").inputs]
        given = {each: tensor.numpy() for each, tensor in zip(names, inputs, strict=True)}
        answer = client.infer("particular", [given_as(*each) for each in given.items()]).as_numpy("y")
        assert np.allclose(answer, model(*inputs)["y"].numpy())
        assert daemon.stop() == 0


def test_what_never_runs_is_not_ready(repository, start) -> None:
    root: Path = repository("mlp")
    save(root, Never(), (torch.zeros(2, 6),), (0,))
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        state, reason = index(daemon)["particular"]
        assert state == "UNAVAILABLE"
        assert "its eager form refuses every input that was made up for it" in reason
        assert "never" in reason and "unproved: true" in reason
        assert daemon.stop() == 0


def test_what_never_runs_is_ready_where_its_author_says_so(repository, start) -> None:
    root: Path = repository("mlp")
    save(root, Never(), (torch.zeros(2, 6),), (0,))
    write_yaml(root / "particular", unproved=True)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert "ready, though its eager form was not seen to run" in daemon.log()
        with pytest.raises(InferenceServerException, match="never"):
            client.infer("particular", [given_as("x", np.zeros((2, 6), np.float32))])
        assert daemon.stop() == 0
