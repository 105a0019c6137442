"""Proves that a program that changes itself is not served, by name and line, and harms no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.integration.clients import check_mlp
from tests.integration.test_bad_models import index


class Counting(nn.Module):
    """Answers with how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(16))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        self.count.add_(1)
        return {"y": x + self.count}


class Training(nn.Module):
    """Normalises by each batch's statistics, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16, momentum=0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.norm(x)}


@pytest.mark.parametrize("decomposed", [False, True], ids=["as written", "decomposed"])
@pytest.mark.parametrize(
    ("model", "tensor", "operator"),
    [(Counting(), "count", "add_"), (Training().train(), "norm.num_batches_tracked", "add_")],
    ids=["counter", "batch norm"],
)
def test_refused(
    repository, start, model: nn.Module, tensor: str, operator: str, decomposed: bool
) -> None:
    root: Path = repository("mlp")
    (root / "state/1").mkdir(parents=True)
    program = torch.export.export(
        model, (torch.zeros(2, 16),), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},)
    )
    if decomposed:
        program = program.run_decompositions({})
    torch.export.save(program, root / "state/1/model.pt2")
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        state, reason = index(daemon)["state"]
        assert state == "UNAVAILABLE"
        assert "program that keeps no state" in reason
        assert "all eval() before the export" in reason
        assert "as an input, and out as an output" in reason
        if decomposed:
            assert "got a buffer_mutation of '" in reason
        else:
            assert f"writes '{tensor}'" in reason and operator in reason
            assert f" at {Path(__file__).name}:" in reason
        assert daemon.stop() == 0
