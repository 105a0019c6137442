"""Proves that elements in typed fields arrive as they left, for every dtype that has such a field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import DTYPES, assert_same, read, stub, typed_request


class TypedKinds(torch.nn.Module):
    """allkinds of tests/models.py without the dtypes that only raw contents carry."""

    def forward(
        self,
        in_bool: Tensor,
        in_uint8: Tensor,
        in_int8: Tensor,
        in_int16: Tensor,
        in_int32: Tensor,
        in_int64: Tensor,
        in_fp32: Tensor,
        in_fp64: Tensor,
    ) -> dict[str, Tensor]:
        numbers = (in_uint8, in_int8, in_int16, in_int32, in_int64, in_fp32, in_fp64)
        outputs = [torch.logical_not(in_bool), *(x * 1 for x in numbers)]
        return {f"out_{i}": output for i, output in enumerate(outputs)}


def extremes(dtype: torch.dtype) -> Tensor:
    """[2, 3] elements, the dtype's own limits among them."""
    if dtype == torch.bool:
        return torch.tensor([[True, False, True], [False, False, True]])
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return torch.tensor([[limits.min, 0, limits.max], [1, 2, 100]], dtype=dtype)


@pytest.fixture
def daemon(tmp_path: Path, start: Callable[..., Daemon]) -> Daemon:
    path = tmp_path / "models/typed/1/model.pt2"
    path.parent.mkdir(parents=True)
    torch.export.save(torch.export.export(TypedKinds(), tuple(inputs().values())), path)
    return start(tmp_path / "models", "--no-compile")


def inputs() -> dict[str, Tensor]:
    return {f"in_{name.lower()}": extremes(dtype) for dtype, (name, field) in DTYPES.items() if field}


def test_every_dtype(daemon: Daemon) -> None:
    sent = inputs()
    assert len(sent) == 8
    with daemon, grpc.insecure_channel(daemon.address) as channel:
        daemon.wait_ready()
        answer = read(stub(channel).ModelInfer(typed_request("typed", sent)))
    assert_same(answer, {f"out_{i}": expected for i, expected in enumerate(TypedKinds()(**sent).values())})
