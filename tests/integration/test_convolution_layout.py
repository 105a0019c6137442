"""Proves that a convolution's weights are packed for the threads that its runs have: oneDNN chooses the layout by them,
and would lay the weights out anew in every run of another number, which took ten times the run."""

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
