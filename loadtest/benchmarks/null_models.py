"""Models that compute next to nothing: what a server adds is all there is to measure.

    python -m loadtest.benchmarks.null_models OUTDIR

writes null/1/model.pt2 (FP32 [batch, 16], answered as it came) and payload/1/model.pt2 (FP32
[batch, 150528], 600 KB a row, answered by its first 16 values) with their model.yaml: OUTDIR is
then a model repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

BATCHES = (1, 8, 32)
YAML = f"max_batch_size: {BATCHES[-1]}\nbuckets: {{batch: {list(BATCHES)}}}\n"
WIDTHS = {"null": 16, "payload": 3 * 224 * 224}


class Null(nn.Module):
    """The first 16 values of each row."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x[:, :16] * 1}


def write(name: str, repository: Path) -> Path:
    """Writes the model into a model repository; returns the path of its model.pt2."""
    batch = torch.export.Dim("batch", min=1, max=64)
    example = (torch.zeros(2, WIDTHS[name]),)
    program = torch.export.export(Null(), example, dynamic_shapes=({0: batch},))
    path = repository / name / "1" / "model.pt2"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, path)
    (repository / name / "model.yaml").write_text(YAML)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, metavar="OUTDIR")
    outdir = parser.parse_args().outdir
    for name in WIDTHS:
        print(write(name, outdir))


if __name__ == "__main__":
    main()
