"""Makes what the runner's torch tests open: programs, and artifacts of some of them.

    python make_artifacts.py FOLDER

FOLDER/<program>.pt2 are exported programs and damaged copies; FOLDER/<artifact>/ are artifacts,
compiled by `compiler.worker` over its protocol. FOLDER/stamp names the sources that everything was
made from; nothing is made again while they stay the same. FOLDER.scratch keeps the compiler's caches.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from compiler.job import toolchain
from compiler.job.protocol import encode
from tests import models
from tests.fakes import malicious_pt2

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_SECONDS = 900
# Artifact: program and batch size. The two of "wide" share one set of weights.
ARTIFACTS = {
    "lookup4": ("lookup", 4),
    "dtypes2": ("dtypes", 2),
    "wide2": ("wide", 2),
    "wide3": ("wide", 3),
    "wave2": ("wave", 2),
    "convolutions1": ("convolutions", 1),
    "convolutions3": ("convolutions", 3),
}
DAMAGED = ["sample_inputs", "pickled_weight", "pickled_constant", "file_operator", "wrong_shape", "huge_weight"]
DTYPES = "bool uint8 uint16 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()


class Lookup(torch.nn.Module):
    """Both operations that a value can make fail, and every kind of tensor that a program owns.

    Row i of the table is (i, 10 i), so that answers can be told by heart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 2)
        self.table.weight = torch.nn.Parameter(torch.tensor([[i, 10.0 * i] for i in range(10)]))
        self.tied = torch.nn.Linear(2, 10, bias=False)
        self.tied.weight = self.table.weight
        self.register_buffer("shift", torch.tensor([0.5]), persistent=False)
        self.scale = torch.tensor([2.0, 1.0])

    def forward(self, ids: torch.Tensor, divisor: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = self.table(ids)
        return {
            "total": (rows * self.scale).sum(1) + self.shift,
            "quotient": ids // divisor,
            "columns": rows.transpose(1, 2),
            "logits": self.tied(rows[:, 0]),
            "given": ids,
        }


class Dtypes(torch.nn.Module):
    """One input and one output of every element type, an output of rank 0, and a number."""

    def forward(self, *inputs: torch.Tensor) -> dict[str, Any]:
        outputs = {}
        for name, x in zip(DTYPES, inputs, strict=True):
            outputs[name] = ~x if name == "bool" else x.clone() if name == "uint16" else x + 1
        outputs["sum"] = inputs[DTYPES.index("float32")].sum()
        return outputs


class Wide(torch.nn.Module):
    """16 MB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(512, 4096)
        self.down = torch.nn.Linear(4096, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Wave(torch.nn.Module):
    """Enough of one operator that its loop is cut in parts for several threads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * x


class Convolutions(torch.nn.Module):
    """Large enough for oneDNN: with a norm and without, with a bias and without, in groups, the last one twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 32, 5, stride=2, padding=2, bias=False)
        self.norm = torch.nn.BatchNorm2d(32)
        self.second = torch.nn.Conv2d(32, 48, 3, padding=1, dilation=1, groups=2)
        self.plain = torch.nn.BatchNorm2d(48, affine=False)
        self.third = torch.nn.Conv2d(48, 48, 3, padding=(2, 0), dilation=(2, 1))
        self.twice = torch.nn.Conv2d(48, 48, 3, padding=1)
        for norm in (self.norm, self.plain):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        torch.nn.init.uniform_(self.norm.weight, 0.5, 2)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.plain(self.second(x)))
        return self.twice(torch.relu(self.twice(self.third(x))))


class Counter(torch.nn.Module):
    """Writes into its buffer and into its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x.mul_(2) + self.count


class Doubling(torch.nn.Module):
    """Writes into its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


class Views(torch.nn.Module):
    """A number times views that aren't dense. For a row of 0 to 7 the answers can be told by heart."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "slice": x[:, 1:3] * 10,
            "strided": x[:, ::4] * 10,
            "column": x[:, 5] * 10,
            "expanded": x[:, 1:2].expand(-1, 3) * 10,
            "part": x.chunk(2, 1)[1] * 10,
        }


class Wrapped(torch.nn.Module):
    """Weights and a constant under operators that call graphs; the first output is a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.register_buffer("shift", torch.tensor([10.0, 20.0]), persistent=False)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            y = x @ self.weight
            with torch.autocast("cpu", enabled=False):
                z = y + self.shift
        return {"weight": self.weight[1], "z": z, "constant": z * torch.tensor([1.0, -1.0])}


def programs() -> dict[str, torch.export.ExportedProgram]:
    torch.manual_seed(0)
    batch = Dim("batch", min=1, max=64)
    typed = tuple(torch.zeros(2, 3).to(getattr(torch, name)) for name in DTYPES)
    lookup = (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64))
    wide = (torch.zeros(2, 512),)
    export = torch.export.export
    return {
        "lookup": export(Lookup().eval(), lookup, dynamic_shapes=({0: batch}, {0: batch})),
        "dtypes": export(Dtypes(), typed, dynamic_shapes=(tuple({0: batch} for _ in typed),)),
        "wide": export(Wide().eval(), wide, dynamic_shapes=({0: batch},)),
        "wave": export(Wave(), (torch.zeros(2, 1 << 16),), dynamic_shapes=({0: batch},)),
        "convolutions": export(Convolutions().eval(), (torch.zeros(2, 3, 64, 64),), dynamic_shapes=({0: batch},)),
        "views": export(Views(), (torch.ones(2, 8),), dynamic_shapes=({0: batch},)),
        "doubling": export(Doubling().eval(), (torch.ones(2, 3),)),
        "counter": export(Counter().eval(), (torch.ones(2, 3),)),
        "containers": models.export("containers"),
        "wrapped": export(Wrapped(), (torch.ones(2, 2),), dynamic_shapes=({0: batch},)),
    }


def scratch(folder: Path) -> Path:
    return folder.with_name(folder.name + ".scratch")


def jobs(folder: Path) -> list[dict[str, Any]]:
    march, simdlen = toolchain.host_target()
    result = []
    for i, (artifact, (program, size)) in enumerate(ARTIFACTS.items()):
        path = folder / f"{program}.pt2"
        (symbol,) = torch.export.load(path).range_constraints
        stage = folder / artifact
        stage.mkdir()
        result.append(
            {
                "op": "compile", "id": i, "key": "0" * 64, "factors": {},
                "model": f"{program}:1", "bucket": f"batch={size}", "program": str(path),
                "sizes": {str(symbol): size}, "march": march, "simdlen": simdlen,
                "stage": str(stage), "scratch": str(scratch(folder)),
                "timeout_seconds": TIMEOUT_SECONDS, "memory_bytes": 8 << 30,
            }  # fmt: skip
        )
    return result


def compile_all(folder: Path) -> None:
    """One worker, one job at a time."""
    replies, reply_fd = os.pipe()
    command = [sys.executable, "-m", "compiler.worker", "--reply-fd", str(reply_fd)]
    command += ["--scratch", str(scratch(folder))]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[reply_fd], cwd=ROOT)
    os.close(reply_fd)
    assert worker.stdin is not None
    pending = jobs(folder)
    with worker.stdin, os.fdopen(replies) as lines:
        for line in lines:
            reply = json.loads(line)
            if reply["event"] == "failed":
                raise SystemExit(f"{pending[0]['model']} {pending[0]['bucket']}: {reply['message']}")
            if reply["event"] == "done":
                print(f"{pending[0]['stage']}: {reply['seconds']} s", flush=True)
                pending.pop(0)
            if reply["event"] in ("ready", "done"):
                if not pending:
                    break
                worker.stdin.write(encode(pending[0]))
                worker.stdin.flush()
    if worker.wait() != 0 or pending:
        raise SystemExit(f"the worker ended with {worker.returncode}, {len(pending)} jobs open")


def stamp() -> str:
    """A digest of all that the outcome depends on."""
    compiler = [p for p in sorted((ROOT / "compiler").rglob("*")) if "__pycache__" not in p.parts]
    sources = [*compiler, Path(__file__), Path(models.__file__), Path(malicious_pt2.__file__)]
    digest = hashlib.sha256(torch.__version__.encode())
    digest.update(str(toolchain.host_target()).encode())
    for source in sources:
        if source.is_file():
            digest.update(source.read_bytes())
    return digest.hexdigest()


def main(folder: Path) -> None:
    current = stamp()
    stamp_file = folder / "stamp"
    if stamp_file.exists() and stamp_file.read_text() == current:
        print("up to date")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, program in programs().items():
        torch.export.save(program, folder / f"{name}.pt2")
    for kind in DAMAGED:
        malicious_pt2.build(kind, folder / "lookup.pt2", folder / f"{kind}.pt2")
    compile_all(folder)
    stamp_file.write_text(current)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
