"""Exports the programs of this folder with the torch that runs this: `python export.py FOLDER`.

    for version in 2.7.1 2.8.0 2.9.1 2.10.0; do
      python -m venv /tmp/torch && /tmp/torch/bin/pip install torch==$version numpy
      /tmp/torch/bin/python tests/integration/older_exports/export.py tests/integration/older_exports
      rm -r /tmp/torch
    done

Writes VERSION-NAME.pt2 and, beside it, VERSION-NAME.npz with inputs and that torch's own answers. Imports nothing of
the project, which needs a newer torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

BATCH = torch.export.Dim("batch", min=1, max=16)


class Convolved(nn.Module):
    """Buffers, a norm, an operator in place, and a dictionary of results."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4)
        self.relu, self.linear = nn.ReLU(inplace=True), nn.Linear(4, 5)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 5))

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.relu(self.norm(self.convolution(image))).mean((2, 3))
        return {"scores": torch.softmax(self.linear(y) * self.scale, 1), "features": y}


class Attended(nn.Module):
    """Token ids, attention with a mask, and a length that varies."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 8), nn.LayerNorm(8)
        self.query, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.table(ids))
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.query(x).chunk(3, 2))
        hidden = mask[:, None, None, :] > 0
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
        with torch.no_grad():
            return self.out(y.transpose(1, 2).flatten(2)).sum(1)


class Chosen(nn.Module):
    """A branch, and numbers that are computed with integers."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda t: t.cos(), lambda t: t.sin() * 2, (x,))
        return y.gather(1, index.clamp(0, 5)) + torch.arange(index.shape[1])


def programs() -> dict[str, tuple[nn.Module, dict[str, torch.Tensor], dict[str, dict[int, object]]]]:
    ids, length = torch.arange(21).reshape(3, 7), torch.export.Dim("length", min=2, max=32)
    rows: dict[int, object] = {0: BATCH}
    tokens: dict[int, object] = {0: BATCH, 1: length}
    return {
        "convolved": (Convolved(), {"image": torch.randn(2, 3, 9, 9)}, {"image": rows}),
        "attended": (Attended(), {"ids": ids, "mask": (ids % 7 < 5).long()}, {"ids": tokens, "mask": tokens}),
        "chosen": (Chosen(), {"x": torch.randn(2, 6), "index": torch.tensor([[5, 1], [0, 3]])}, {"x": {}, "index": {}}),
    }


def main(folder: Path) -> None:
    version = torch.__version__.partition("+")[0]
    for name, (model, inputs, dynamic) in programs().items():
        torch.manual_seed(0)
        model.eval()
        program = torch.export.export(model, (), inputs, dynamic_shapes=dynamic, strict=False)
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # with the paths of whoever runs this
        path = folder / f"{version}-{name}.pt2"
        torch.export.save(program, path)
        with torch.no_grad():
            answer = model(**inputs)
        answers = answer if isinstance(answer, dict) else {"": answer}
        kept = {f"in.{key}": value.numpy() for key, value in inputs.items()}
        np.savez_compressed(path.with_suffix(".npz"), **kept, **{f"out.{key}": v.numpy() for key, v in answers.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
