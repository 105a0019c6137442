"""Writes author.pt2, the exported program that unit tests read and damage.

    python tests/unit/program/testdata/make_fixtures.py

It has what a reader can get wrong: inputs nested, positional and by keyword, with capitals; outputs
in a dict with a tuple; tied weights, a buffer that is not persistent, a lifted constant; two dynamic
dimensions, one of them under an expression. Stack traces are shortened and sample inputs left out,
so that the file neither names the machine it was made on nor carries a pickle.
"""

from __future__ import annotations

import json
import struct
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim


class Author(nn.Module):
    """INPUT_ids, Pair_0, Pair_1_Left, Mask → Scores [batch, 12], Parts_0, Parts_1."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 4)
        self.head = nn.Linear(4, 12, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((1,), 0.5), persistent=False)

    def forward(self, INPUT_ids: Tensor, Pair: list, *, Mask: Tensor) -> dict[str, object]:  # noqa: N803
        tokens = self.embedding(INPUT_ids) * Mask.unsqueeze(-1) * self.scale + torch.tensor(0.25)
        doubled = torch.cat([Pair[0], Pair[1]["Left"]], dim=1)
        return {"Scores": self.head(tokens.sum(1)), "Parts": (doubled, tokens)}


def export() -> torch.export.ExportedProgram:
    """The program of this file's fixture."""
    torch.manual_seed(0)
    batch, length = Dim("batch", min=1, max=32), Dim("length", min=2, max=64)
    ids = torch.ones(3, 5, dtype=torch.int32)
    pair = [torch.ones(3, 5), {"Left": torch.ones(3, 5)}]
    axes = {0: batch, 1: length}
    return torch.export.export(
        Author().eval(),
        (ids, pair),
        {"Mask": torch.ones(3, 5)},
        dynamic_shapes={"INPUT_ids": axes, "Pair": [axes, {"Left": axes}], "Mask": axes},
    )


def anonymous(program: bytes) -> bytes:
    """model.json with stack traces that name no folder."""
    document = json.loads(program)
    for node in document["graph_module"]["graph"]["nodes"]:
        node["metadata"]["stack_trace"] = 'File "author.py", line 1, in forward'
    return json.dumps(document, separators=(",", ":")).encode()


def aligned(name: str, offset: int) -> zipfile.ZipInfo:
    """A member whose content begins at a multiple of 64, as torch's writer lays them."""
    padding = -(offset + 30 + len(name) + 4) % 64
    info = zipfile.ZipInfo(name)
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    return info


def main() -> None:
    target = Path(__file__).parent / "author.pt2"
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "author.pt2"
        torch.export.save(export(), exported)
        with zipfile.ZipFile(exported) as source, zipfile.ZipFile(target, "w") as archive:
            for name in source.namelist():
                if "/data/sample_inputs/" in name or name.endswith("/serialization_id"):
                    continue
                content = source.read(name)
                if name.endswith("/models/model.json"):
                    content = anonymous(content)
                assert archive.fp is not None
                archive.writestr(aligned(name, archive.fp.tell()), content)
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
