"""Proves that programs out of all proportion serve or are refused in a sentence, and leave the others serving: ten
thousand operators, runs of minutes, weights of eight gigabytes, no example inputs, no input that it takes."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import grpc
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

from tests.fakes.malicious_pt2 import next_member
from tests.integration.clients import check_mlp
from tests.integration.test_bad_models import index
from tests.integration.wire import raw_request, read, stub

WORDS, WIDE = 2_000_000, 1024  # 8.2 GB of float32
ZEROS = bytes(1 << 14)


def save(root: Path, name: str, model: nn.Module, *args: Tensor) -> Path:
    path = root / name / "1/model.pt2"
    path.parent.mkdir(parents=True)
    torch.export.save(torch.export.export(model.eval(), args), path)
    return path


class Long(nn.Module):
    """Ten thousand operators, which Inductor makes one loop of."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for _ in range(5000):
            x = torch.sin(x) + 0.5
        return {"y": x}


def test_ten_thousand_operators(repository, start) -> None:
    """Served by eager while they are compiled, and from then on where that takes too long."""
    root = repository("mlp")
    x = torch.linspace(-1, 1, 8).view(2, 4)
    save(root, "long", Long(), x)
    with start(root, "--compile-timeout-seconds=25") as daemon, grpc.insecure_channel(daemon.address) as channel:
        daemon.wait_ready()
        answer = read(stub(channel).ModelInfer(raw_request("long", {"x": x})))
        torch.testing.assert_close(answer["y"], Long()(x)["y"])
        log = daemon.log()
        assert re.search(r"long:1 \S+: stays on eager \(timeout\): .*no artifact after 25 s", log), log
        with daemon.client() as client:
            check_mlp(client)
        assert daemon.stop() == 0


class Slow(nn.Module):
    """Takes as long as its client says."""

    def forward(self, x: Tensor, turns: Tensor) -> dict[str, Tensor]:
        return {"y": while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, torch.cos(x)), (turns.sum(), x))[1]}


def test_a_run_of_minutes(repository, start) -> None:
    """Its client is told when the deadline passes; others are answered as if it weren't there, until all ends."""
    root = repository("mlp")
    x = torch.zeros(4)
    save(root, "slow", Slow(), x, torch.ones(1, dtype=torch.int64))
    with (
        start(root, "--no-compile", "--drain-seconds=1") as daemon,
        grpc.insecure_channel(daemon.address) as channel,
        daemon.client() as client,
    ):
        daemon.wait_ready()
        endless = raw_request("slow", {"x": x, "turns": torch.tensor([1 << 40])})
        asked = stub(channel).ModelInfer.future(endless, timeout=2)
        answered = 0
        while not asked.done():
            check_mlp(client)
            answered += 1
        assert asked.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert answered > 50
        assert daemon.stop() == 0


class Wide(nn.Module):
    """A table of a row for each of so many words."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, WIDE)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        return {"y": self.table(ids).sum(-1) + 1}


class Sparse(io.FileIO):
    """A file in which zeros take no room."""

    def write(self, data: Any) -> int:
        if data is not ZEROS:
            return super().write(data) or 0
        self.seek(len(data), io.SEEK_CUR)
        return len(data)


def grow(small: Path, words: int, path: Path) -> None:
    """Writes the program with as many words as WORDS, all of zeros."""
    table = f'"as_int": {words}'.encode()
    with zipfile.ZipFile(small) as source, Sparse(path, "w") as file, zipfile.ZipFile(file, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename.endswith(".json"):
                content = content.replace(table, f'"as_int": {WORDS}'.encode())
            if info.file_size < words * WIDE:
                target.writestr(next_member(target, info.filename), content)
                continue
            with target.open(next_member(target, info.filename, zip64=True), "w", force_zip64=True) as member:
                for _ in range(WORDS * WIDE * 4 // len(ZEROS)):
                    member.write(ZEROS)


def test_weights_of_eight_gigabytes(repository, start, tmp_path: Path, fresh_cache: Path) -> None:
    """Mapped by all that look at them, and copied by none."""
    root = repository("mlp")
    words = 1009
    small = save(tmp_path, "small", Wide(words), torch.zeros(2, 3, dtype=torch.int64))
    (root / "wide/1").mkdir(parents=True)
    grow(small, words, root / "wide/1/model.pt2")
    ids = torch.tensor([[0, 1, WORDS - 1], [7, 8, 9]])
    # Whether it is faster is not what is asked here.
    arguments = ("--no-promotion-checks",)
    with start(root, *arguments, cache=fresh_cache) as daemon, grpc.insecure_channel(daemon.address) as channel:
        daemon.wait_ready()
        answer = read(stub(channel).ModelInfer(raw_request("wide", {"ids": ids})))
        torch.testing.assert_close(answer["y"], torch.ones(2, 3))
        assert daemon.metric("stoker_tier_requests_total", model="wide", tier="aot") == 1, daemon.log()
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        (anonymous,) = map(int, re.findall(r"RssAnon:\s+(\d+) kB", status))
        assert anonymous < 1 << 20, f"{anonymous} kB of memory of its own"
        assert daemon.stop() == 0


class Never(nn.Module):
    """Refuses whatever it is given."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": torch.linalg.inv(x * 0)}


def test_a_program_that_cannot_run(repository, start) -> None:
    root = repository("mlp")
    save(root, "never", Never(), torch.eye(4))
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready()
        state, reason = index(daemon)["never"]
        assert state == "UNAVAILABLE"
        assert reason.startswith("its eager form refuses every input that was made up for it: "), reason
        assert "linalg.inv: The diagonal element 1 is zero" in reason and "\n" not in reason
        check_mlp(client)


def test_no_example_inputs(repository, start) -> None:
    """They are never read: what a request must be, the program itself says."""
    root = repository("mlp")
    path = root / "mlp/1/model.pt2"
    with zipfile.ZipFile(path) as source:
        members = {name: source.read(name) for name in source.namelist() if "sample_inputs" not in name}
        assert len(members) == len(source.namelist()) - 1
    path.unlink()
    with zipfile.ZipFile(path, "w") as target:
        for name, content in members.items():
            target.writestr(next_member(target, name), content)
    with start(root) as daemon, daemon.client() as client:
        daemon.wait_ready()
        check_mlp(client)
        assert daemon.metric("stoker_bucket_state", model="mlp", state="failed") == 0
