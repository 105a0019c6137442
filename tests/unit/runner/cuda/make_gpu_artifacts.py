"""Makes what gpu_life_test opens: a program, and two artifacts of it for the recorded GPU of tests/fakes.

    python make_gpu_artifacts.py FOLDER

FOLDER/scale.pt2 is the program, FOLDER/scale2 and FOLDER/scale4 are its buckets of 2 and 4 rows, compiled by the
real worker. in_place.pt2 is the same and writes into what it has computed; own.pt2, own_on_cpus.pt2 and boxes.pt2 call
an operator of somebody's own, one that is for CPUs only, and one of the server's own. FOLDER/stamp names the sources
that they were made from; nothing is made again while they stay the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.export import Dim
from torchvision.ops import roi_align

from compiler.job import toolchain
from compiler.job.protocol import encode
from tests.fakes import recorded_gpu

ROOT = Path(__file__).resolve().parents[4]
BUCKETS = (2, 4)
TIMEOUT_SECONDS = 600
# Of an artifact's key, as the daemon has them of that GPU.
FACTORS = {
    "device": "cuda", "cuda.arch": "sm_90", "cuda.sms": "132", "cuda.memory_gib": "79", "cuda.driver": "580",
    "cuda.toolkit": "13.0", "triton": "3.6.0",
}  # fmt: skip


class Scale(torch.nn.Module):
    """A weight, a sum over rows, and nothing that asks for cuBLAS, which the fake GPU hasn't got."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, 65.0))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.weight + torch.arange(64)
        return {"y": y, "sum": y.sum(1)}


class InPlace(Scale):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": (x * self.weight).add_(1)}


class Own(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": getattr(torch.ops.mine, self.name)(x)}


class Boxes(torch.nn.Module):
    def forward(self, image: torch.Tensor, boxes: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"parts": roi_align(image, boxes, 2)}


def save(folder: Path, name: str, module: torch.nn.Module, *example: torch.Tensor, rows: bool = False) -> None:
    sizes = ({0: Dim("batch", min=1, max=64)},) if rows else None
    torch.export.save(torch.export.export(module.eval(), example, dynamic_shapes=sizes), folder / f"{name}.pt2")


def save_all(folder: Path) -> None:
    operators = torch.library.Library("mine", "DEF")
    for name in ("twice", "twice_on_cpus"):
        operators.define(f"{name}(Tensor x) -> Tensor")
        operators.impl(name, lambda x: x * 2, "CompositeExplicitAutograd")
        save(folder, name.replace("twice", "own"), Own(name), torch.ones(2))
    save(folder, "scale", Scale(), torch.ones(2, 64), rows=True)
    save(folder, "in_place", InPlace(), torch.ones(2, 64), rows=True)
    save(folder, "boxes", Boxes(), torch.ones(1, 3, 8, 8), torch.tensor([[0.0, 1, 1, 5, 5], [0.0, 2, 2, 6, 6]]))


def compile_all(folder: Path) -> None:
    replies, reply_fd = os.pipe()
    scratch = folder.with_name(folder.name + ".scratch")
    command = [sys.executable, "-m", "tests.fakes.recorded_gpu", "--reply-fd", str(reply_fd)]
    worker = subprocess.Popen(
        [*command, "--scratch", str(scratch)], stdin=subprocess.PIPE, pass_fds=[reply_fd], cwd=ROOT
    )
    os.close(reply_fd)
    assert worker.stdin is not None
    program = folder / "scale.pt2"
    (symbol,) = torch.export.load(program).range_constraints
    march, simdlen = toolchain.host_target()
    pending = list(BUCKETS)
    with worker.stdin, os.fdopen(replies) as lines:
        for line in lines:
            reply = json.loads(line)
            if reply["event"] == "failed":
                raise SystemExit(f"batch={pending[0]}: {reply['message']}")
            if reply["event"] == "done":
                pending.pop(0)
            if reply["event"] not in ("ready", "done"):
                continue
            if not pending:
                break
            stage = folder / f"scale{pending[0]}"
            stage.mkdir()
            request = {
                "op": "compile", "id": pending[0], "key": "0" * 64, "factors": FACTORS, "device": "cuda:0",
                "model": "scale:1", "bucket": f"batch={pending[0]}", "program": str(program),
                "sizes": {str(symbol): pending[0]}, "march": march, "simdlen": simdlen, "stage": str(stage),
                "scratch": str(scratch), "timeout_seconds": TIMEOUT_SECONDS, "memory_bytes": 8 << 30,
            }  # fmt: skip
            worker.stdin.write(encode(request))
            worker.stdin.flush()
    if worker.wait() != 0 or pending:
        raise SystemExit(f"the worker ended with {worker.returncode}, {len(pending)} jobs open")


def stamp() -> str:
    sources = [p for p in sorted((ROOT / "compiler").rglob("*")) if "__pycache__" not in p.parts and p.is_file()]
    digest = hashlib.sha256(f"{torch.__version__} {toolchain.host_target()}".encode())
    for source in [*sources, Path(__file__), Path(recorded_gpu.__file__)]:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def main(folder: Path) -> None:
    current = stamp()
    if (folder / "stamp").exists() and (folder / "stamp").read_text() == current:
        print("up to date")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_all(folder)
    compile_all(folder)
    (folder / "stamp").write_text(current)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
