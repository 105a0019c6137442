"""Real exports, in processes and folders of their own, keep their digests.

    python export_digest_test.py build/.../describe_program

The source of the model lies in another folder for each export, hashing is seeded differently and
the sample inputs have other sizes, so stack traces, orders and hints all differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

MODEL = """
import sys
import torch
from torch import nn
from torch.export import Dim

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, Tokens, *, Weights):
        x = self.encoder(self.embedding(Tokens)) * Weights.unsqueeze(-1)
        return {"Pooled": x.mean(1), "all": (x, ACTIVATION(x))}

torch.manual_seed(int(sys.argv[1]))
rows, columns = int(sys.argv[2]), int(sys.argv[3])
axes = {0: Dim("batch", min=1, max=32), 1: Dim("length", min=1, max=64)}
program = torch.export.export(
    Model().eval(),
    (torch.ones(rows, columns, dtype=torch.long),),
    {"Weights": torch.ones(rows, columns)},
    dynamic_shapes={"Tokens": axes, "Weights": axes},
)
torch.export.save(program, sys.argv[4])
"""

describe_program = ""


def export(seed: int, rows: int, columns: int, activation: str = "torch.relu") -> dict[str, object]:
    """What describe_program says of a fresh export."""
    with tempfile.TemporaryDirectory(prefix=f"export-{seed}-{rows}-") as folder:
        source = Path(folder) / f"model_{rows}.py"
        source.write_text(MODEL.replace("ACTIVATION", activation))
        program = Path(folder) / f"program_{seed}_{columns}.pt2"
        arguments = [str(seed), str(rows), str(columns), str(program)]
        env = os.environ | {"PYTHONHASHSEED": str(seed + rows)}
        subprocess.run([sys.executable, str(source), *arguments], check=True, cwd=folder, env=env)
        printed = subprocess.run([describe_program, str(program)], check=True, capture_output=True)
        return json.loads(printed.stdout)


class ExportDigestTest(unittest.TestCase):
    """One export is compared with three others."""

    first: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.first = export(seed=1, rows=2, columns=6)

    def test_names_are_the_authors(self) -> None:
        self.assertEqual(self.first["inputs"], ["Tokens", "Weights"])
        self.assertEqual(self.first["outputs"], ["Pooled", "all_0", "all_1"])
        self.assertEqual(self.first["dimensions"], ["batch", "Tokens.1"])

    def test_folder_process_and_sample_sizes_do_not_matter(self) -> None:
        self.assertEqual(export(seed=1, rows=5, columns=9), self.first)

    def test_weights_have_a_digest_of_their_own(self) -> None:
        other = export(seed=2, rows=2, columns=6)
        self.assertEqual(other["program_digest"], self.first["program_digest"])
        self.assertNotEqual(other["weights_digest"], self.first["weights_digest"])

    def test_another_operator_is_another_program(self) -> None:
        other = export(seed=1, rows=2, columns=6, activation="torch.tanh")
        self.assertNotEqual(other["program_digest"], self.first["program_digest"])
        self.assertEqual(other["weights_digest"], self.first["weights_digest"])


if __name__ == "__main__":
    describe_program = sys.argv.pop()
    unittest.main()
