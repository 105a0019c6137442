"""Programs that call operators which values lead astray: each request runs in a process of its own, and what ends that
one is an error of the request and of nothing else."""

from __future__ import annotations

import concurrent.futures
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import torch
from torch import nn

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon
from tests.integration.wire import raw_request, read, refusal, stub


class Segments(nn.Module):
    """Sums of so many rows each; torch was told not to look at the lengths."""

    def forward(self, data: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sums": torch.segment_reduce(data, "sum", lengths=lengths, unsafe=True)}


class Values(nn.Module):
    """LAPACK reads what isn't its own where the matrix has no number in it."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.view_as_real(torch.linalg.eigvals(x)).sum(-1)}


def export(root: Path, name: str, net: nn.Module, example: tuple[torch.Tensor, ...], shapes: object, yaml: str) -> None:
    path = root / name / "1" / "model.pt2"
    path.parent.mkdir(parents=True)
    torch.export.save(torch.export.export(net, example, dynamic_shapes=shapes), path)
    (root / name / "model.yaml").write_text(yaml)


LENGTHS = torch.tensor([1, 1, 2])
DATA = torch.arange(4.0)
ASTRAY = torch.tensor([2**34, 2, 2])


@pytest.fixture(scope="module")
def unlisted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("unlisted")
    yaml = "unproved: true\ninputs: {lengths: {range: [0, 1]}}\n"
    export(root, "segments", Segments(), (DATA, LENGTHS), None, yaml)
    batch = torch.export.Dim("batch", min=1, max=8)
    export(root, "values", Values(), (torch.rand(2, 3, 3),), ({0: batch},), "buckets: {batch: [8]}\n")
    return root


@pytest.fixture
def both(unlisted: Path, repository: Callable[..., Path]) -> Path:
    """Those two, and one that is like any other."""
    root = repository("mlp")
    for model in unlisted.iterdir():
        os.symlink(model, root / model.name)
    return root


@pytest.fixture
def daemon(both: Path, start: Callable[..., Daemon]) -> Iterator[Daemon]:
    with start(both) as daemon:
        daemon.wait_ready()
        yield daemon


def test_a_request_that_ends_its_process_is_an_error_of_its_own(daemon: Daemon) -> None:
    with grpc.insecure_channel(daemon.address) as channel:
        infer = stub(channel).ModelInfer
        good = raw_request("segments", {"data": DATA, "lengths": LENGTHS})
        for _ in range(3):
            torch.testing.assert_close(read(infer(good))["sums"], torch.tensor([0.0, 1.0, 5.0]))
            lost = refusal(lambda: infer(raw_request("segments", {"data": DATA, "lengths": ASTRAY})))
            assert lost.code() == grpc.StatusCode.INTERNAL
            assert "ended the process that it had to itself: killed by signal 11 (Segmentation fault)" in lost.details()
        assert daemon.metric("stoker_isolated_runs_lost_total", model="segments") >= 3
    with daemon.client() as client:
        check_mlp(client)
    log = daemon.log()
    assert "segments:1: runs uncompiled, each time in a process of its own: calls " in log
    assert "torch.ops.aten.segment_reduce.default at test_unlisted_operators.py:" in log.replace(
        str(Path(__file__).parent) + "/", ""
    )


def test_of_a_batch_only_the_request_at_fault_fails(daemon: Daemon) -> None:
    """Whichever were run together."""
    x = torch.rand(1, 3, 3)
    wanted = Values()(x)["y"]
    with grpc.insecure_channel(daemon.address) as channel, concurrent.futures.ThreadPoolExecutor(12) as pool:
        infer = stub(channel).ModelInfer

        def ask(number: int) -> str:
            given = torch.full_like(x, float("nan")) if number % 4 == 0 else x
            try:
                got = read(infer(raw_request("values", {"x": given})))["y"]
            except grpc.RpcError as error:
                return str(error.code().name)
            torch.testing.assert_close(got, wanted)
            return "OK"

        answers = list(pool.map(ask, range(24)))
    assert [answer for number, answer in enumerate(answers) if number % 4] == ["OK"] * 18
    assert {answer for number, answer in enumerate(answers) if number % 4 == 0} == {"INTERNAL"}


def test_the_process_itself_is_killed(daemon: Daemon) -> None:
    """As by the kernel, when memory is short: another one takes its place."""
    with grpc.insecure_channel(daemon.address) as channel:
        infer = stub(channel).ModelInfer
        good = raw_request("segments", {"data": DATA, "lengths": LENGTHS})
        infer(good)
        found = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and b"isolated-runs" in command_of(entry)
            and f"\nPPid:\t{daemon.process.pid}\n" in (entry / "status").read_text()
        ]  # fmt: skip
        assert found
        for pid in found:
            assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
            os.kill(pid, signal.SIGKILL)
        torch.testing.assert_close(read(infer(good))["sums"], torch.tensor([0.0, 1.0, 5.0]))


def command_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_they_can_be_refused(both: Path, start: Callable[..., Daemon]) -> None:
    with start(both, "--unlisted-operators", "refuse") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_mlp(client)
            assert not client.is_model_ready("segments") and not client.is_model_ready("values")
        log = daemon.log()
        assert "expected operators that no values can lead astray, got torch.ops.aten.segment_reduce.default at " in log
        assert "; stokerd --unlisted-operators isolate serves it in a process of its own" in log
