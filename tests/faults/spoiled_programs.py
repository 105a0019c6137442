"""Programs for planted faults, each named after the fault that tests/fakes/faulty_compiler.py gives it.

Every program has a width of its own, so that no two of them have the same graph and thereby the same
artifact. Sizes are no multiples of a vector: loops have ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812

BATCH = 5  # rows of the only bucket


class _Layers(nn.Module):
    """A hidden layer with a norm, and a clamp at the end: results of about 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = nn.Linear(width, 80), nn.LayerNorm(80), nn.Linear(80, 37)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = F.gelu(self.norm(self.hidden(x)))
        return {"y": F.relu(self.out(hidden) + 0.25) * 1.7}


class _Classes(nn.Module):
    """Probabilities of 1003 classes: results of about 0.001."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(width, 96), nn.Linear(96, 1003)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": F.softmax(self.out(F.relu(self.hidden(x))) * 1.3, 1)}


class _Sums(nn.Module):
    """Sums of 300 numbers of about 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(300, width) + 0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": (x.unsqueeze(1) * self.scale).sum(1)}


def layers(width: int) -> nn.Module:
    return _Layers(width)


def classes(width: int) -> nn.Module:
    return _Classes(width)


def sums(width: int) -> nn.Module:
    return _Sums(width)


def doubles(width: int) -> nn.Module:
    return _Layers(width).double()


def bfloats(width: int) -> nn.Module:
    return _Layers(width).bfloat16()


# Model → program. What follows the dash tells models with one fault apart.
PROGRAMS: dict[str, Callable[[int], nn.Module]] = {
    "constant_1e_2": layers,
    "constant_1e_2-classes": classes,
    "constant_1e_2-bfloats": bfloats,
    "constant_1e_3": layers,
    "constant_1e_3-classes": classes,
    "constant_1e_4": layers,
    "relu_dropped": layers,
    "relu_dropped-classes": classes,
    "bias_dropped": layers,
    "tail_store_short": layers,
    "tail_store_short-classes": classes,
    "last_row_left_out": layers,
    "last_row_left_out-classes": classes,
    "reduction_mask_short-classes": classes,
    "products_in_bfloat16": layers,
    "products_in_bfloat16-classes": classes,
    "sums_in_bfloat16-classes": classes,
    "sums_in_bfloat16-sums": sums,
    "doubles_as_floats-doubles": doubles,
}

def module(model: str) -> nn.Module:
    """The program with its seeded weights."""
    torch.manual_seed(0)
    return PROGRAMS[model](_width(model)).eval()


def example(model: str, rows: int, seed: int) -> Tensor:
    """Inputs of the model's dtype."""
    dtype = next(module(model).parameters()).dtype
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, _width(model), generator=generator, dtype=torch.float32).to(dtype)


def _width(model: str) -> int:
    return 41 + list(PROGRAMS).index(model)


def write(repository: Path) -> None:
    """A model repository of all of them."""
    for model in PROGRAMS:
        path = repository / model / "1/model.pt2"
        path.parent.mkdir(parents=True)
        batch = Dim("batch", min=1, max=64)
        shapes = ({0: batch},)
        torch.export.save(
            torch.export.export(module(model), (example(model, 2, 0),), dynamic_shapes=shapes), path
        )
        yaml = {"max_batch_size": BATCH, "buckets": {"batch": [BATCH]}}
        (path.parents[1] / "model.yaml").write_text(json.dumps(yaml))  # JSON is YAML
