"""Proves that torchvision's operators, which detectors call, answer what torchvision's own answer, and that no
values lead them astray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
import torch
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import assert_same, eager, raw_request, read, refusal, stub


@pytest.fixture(scope="module")
def channel(serving: Callable[..., Daemon]) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(serving(["detector"], uncompiled=True).address) as channel:
        yield channel


def found(count: int, seed: int) -> dict[str, Tensor]:
    """An image of 32 x 40 at half the size, with boxes in it, over its edges, and beyond."""
    torch.manual_seed(seed)
    corners = torch.rand(count, 2) * torch.tensor([48.0, 40.0]) - 4
    sizes = torch.rand(count, 2) * 24
    boxes = torch.cat([corners, corners + sizes], 1)
    return {"image": torch.randn(1, 3, 16, 20), "boxes": boxes, "scores": torch.rand(count)}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [2, 7, 64])
def test_as_torchvision_answers(channel: grpc.Channel, count: int, seed: int) -> None:
    inputs = found(count, seed)
    expected = eager("detector", inputs)
    if len(expected["kept"]) < 2:
        pytest.skip("torch.export asserts that more than one box is kept")
    assert_same(read(stub(channel).ModelInfer(raw_request("detector", inputs))), expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_values_that_lead_nowhere_are_refused_or_answered(channel: grpc.Channel, value: float) -> None:
    def ask(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return read(stub(channel).ModelInfer(raw_request("detector", inputs)))

    for name in ("image", "scores", "boxes"):
        inputs = found(7, 0)
        inputs[name].view(-1)[3] = value
        if name == "boxes" and not value < 0:  # where its first box ends
            error = refusal(partial(ask, inputs))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "at most 65536 elements along each side" in error.details()
        else:
            ask(inputs)
    assert_same(ask(found(7, 0)), eager("detector", found(7, 0)))


def test_compiled_it_answers_the_same(serving: Callable[..., Daemon]) -> None:
    """Of a fixed size: the code is for any number of boxes above one, and eager has to refuse what it can't do."""
    daemon = serving(["detector"])
    with grpc.insecure_channel(daemon.address) as channel:
        infer = stub(channel).ModelInfer
        for count, seed in ((7, 0), (7, 1), (12, 2)):
            inputs = found(count, seed)
            assert_same(read(infer(raw_request("detector", inputs))), eager("detector", inputs))
        broken = found(7, 0)
        broken["boxes"][2, 2] = 1e30
        error = refusal(lambda: infer(raw_request("detector", broken)))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "at most 65536 elements along each side" in error.details()
        assert_same(read(infer(raw_request("detector", found(7, 0)))), eager("detector", found(7, 0)))
    assert daemon.metric("stoker_fallbacks_total", model="detector", reason="run") == 0
    assert "(refused)" not in daemon.log()


class Sensitive(torch.nn.Module):
    def forward(self, features: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import ps_roi_align

        parts = [ps_roi_align(features, boxes, (2, 3), spatial_scale=0.5, sampling_ratio=ratio) for ratio in (2, -1)]
        return {"fixed": parts[0], "as_large": parts[1]}


def test_a_channel_for_each_part(tmp_path: Path, start: Callable[..., Daemon]) -> None:
    torch.manual_seed(0)
    corners = torch.rand(5, 2) * 20 - 2
    rows = torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0]])
    boxes = torch.cat([rows, corners, corners + torch.rand(5, 2) * 12], 1)
    inputs = {"features": torch.randn(2, 12, 9, 11), "boxes": boxes}
    path = tmp_path / "models/sensitive/1/model.pt2"
    path.parent.mkdir(parents=True)
    torch.export.save(torch.export.export(Sensitive(), (), inputs), path)
    with start(tmp_path / "models", "--frozen") as daemon:
        daemon.wait_ready()
        with grpc.insecure_channel(daemon.address) as channel:
            infer = stub(channel).ModelInfer
            assert_same(read(infer(raw_request("sensitive", inputs))), Sensitive()(**inputs))
            boxes[2, 0] = 2
            error = refusal(lambda: infer(raw_request("sensitive", inputs)))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "ps_roi_align: expected boxes of rows 0 to 1, got box 2 of row 2" in error.details()
