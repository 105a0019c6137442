"""Proves that a convolution's weights are packed for the threads that its runs have: oneDNN chooses the layout by them,
and would lay the weights out anew in every run of another number, which took ten times the run. And that convolutions
of one and three dimensions answer as eager does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
from torch import nn

from tests.integration.daemon import Daemon
from tests.integration.wire import raw_request, read, stub

IN, OUT = 1152, 320  # for which one thread and two have layouts of their own on a CPU with AVX-512
RUNS = 4


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(IN, OUT, 1, bias=False)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.relu(self.convolution(x))}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="threads can't differ on one core")
@pytest.mark.parametrize("threads", [1, 2])
def test_no_run_lays_weights_out_again(
    threads: int, start: Callable[..., Daemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")  # a line for each of its calls, on stdout
    torch.manual_seed(0)
    model, x = Convolved().eval(), torch.randn(1, IN, 2, 2)
    path = tmp_path / "models/convolved/1/model.pt2"
    path.parent.mkdir(parents=True)
    torch.export.save(torch.export.export(model, (x,)), path)
    (tmp_path / "models/convolved/model.yaml").write_text(f"threads: {threads}\n")
    # Whether it is faster is not what is asked here.
    with start(tmp_path / "models", "--no-promotion-checks") as daemon:
        daemon.wait_ready()
        with grpc.insecure_channel(daemon.address) as channel:
            for _ in range(RUNS):
                answer = read(stub(channel).ModelInfer(raw_request("convolved", {"x": x})))
                torch.testing.assert_close(answer["y"], model(x)["y"], rtol=1e-4, atol=1e-5)
        assert daemon.metric("stoker_tier_requests_total", model="convolved", tier="aot") == RUNS, daemon.log()
        calls = [line for line in daemon.log().splitlines() if line.startswith("onednn_verbose") and ",exec," in line]
    assert sum(",convolution," in line for line in calls) >= RUNS
    packed = [line for line in calls if ",reorder," in line and f"{OUT}x{IN}x1x1" in line]
    assert len(packed) == 1, packed


class Sound(nn.Module):
    """Results of one-dimensional convolutions that are added to, looked at from other sides, and have one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide = nn.Conv1d(64, 128, 5, padding=2), nn.Conv1d(128, 128, 3, padding=2, dilation=2)
        self.norm, self.each = nn.BatchNorm1d(128), nn.Conv1d(128, 128, 1)
        self.grouped, self.one = nn.Conv1d(128, 256, 4, stride=2, groups=4), nn.Conv1d(1, 256, 9, padding=4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.first(x))
        z = torch.tanh(self.each(self.norm(self.wide(y)))) + y
        grouped = self.grouped(z)
        return {"grouped": grouped, "mean": z.mean(2), "last": self.one(grouped[:, :1]).transpose(1, 2)}


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv3d(16, 32, 3, padding=1), nn.BatchNorm3d(32)
        self.flat, self.each = nn.Conv3d(32, 32, (1, 3, 3), stride=(1, 2, 2)), nn.Conv3d(32, 32, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.flat(torch.relu(self.norm(self.first(x))))
        return {"sum": y + self.each(y), "rows": y.flatten(1)}


def test_other_dimensions(start: Callable[..., Daemon], tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch, length = torch.export.Dim("batch", min=1, max=16), torch.export.Dim("length", min=16, max=400)
    models: dict[str, tuple[nn.Module, list[tuple[int, ...]], dict[int, object]]] = {
        "sound": (Sound().eval(), [(2, 64, 100), (1, 64, 17), (5, 64, 399)], {0: batch, 2: length}),
        "video": (Video().eval(), [(2, 16, 6, 20, 20), (1, 16, 6, 20, 20), (5, 16, 6, 20, 20)], {0: batch}),
    }
    for name, (model, shapes, dynamic) in models.items():
        path = tmp_path / f"models/{name}/1/model.pt2"
        path.parent.mkdir(parents=True)
        torch.export.save(torch.export.export(model, (torch.randn(shapes[0]),), dynamic_shapes=(dynamic,)), path)
        (tmp_path / f"models/{name}/model.yaml").write_text("compile: {dynamic: only}\n")
    with start(tmp_path / "models", "--no-promotion-checks") as daemon:
        daemon.wait_ready()
        with grpc.insecure_channel(daemon.address) as channel:
            for name, (model, shapes, _) in models.items():
                for shape in shapes:
                    x = torch.randn(shape)
                    answer = read(stub(channel).ModelInfer(raw_request(name, {"x": x})))
                    expected = model(x)
                    assert set(answer) == set(expected)
                    for output, value in expected.items():
                        torch.testing.assert_close(answer[output], value, rtol=1e-4, atol=1e-5)
        assert daemon.metric("stoker_tier_requests_total", tier="eager") == 0, daemon.log()
