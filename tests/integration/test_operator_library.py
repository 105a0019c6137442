"""Proves that a library of one's own, of the few lines that compiler/README.md shows, serves: that programs call its
operators, and that nothing else brings operators."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
from torch import nn

from tests.integration.clients import check_mlp
from tests.integration.daemon import REPO, STOKERCTL, STOKERD, Daemon, ctl
from tests.integration.test_bad_models import index
from tests.integration.wire import raw_request, read, refusal, stub


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the README, built as it says."""
    manual = (REPO / "compiler/README.md").read_text().split("## Operators of other libraries")[1]
    source, command = re.findall(r"```(?:cpp|bash)\n(.*?)```", manual, re.DOTALL)[:2]
    folder = tmp_path_factory.mktemp("library")
    folder.chmod(0o755)
    (folder / "mine.cc").write_text(source)
    (folder / "command").write_text(command)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # of python, in the command
    subprocess.run(
        ["bash", "-e"], input=command, cwd=folder, env=os.environ | {"PATH": path}, text=True, check=True, timeout=300
    )
    return folder / "libmine.so"


class Squashed(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.ops.mine.squash(x, 0.5) + 1}


@pytest.fixture(scope="module")
def models(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.ops.load_library(str(library))
    root = tmp_path_factory.mktemp("models")
    path = root / "squashed/1/model.pt2"
    path.parent.mkdir(parents=True)
    batch = torch.export.Dim("batch", min=1, max=8)
    torch.export.save(torch.export.export(Squashed(), (torch.ones(2, 3),), dynamic_shapes=({0: batch},)), path)
    (root / "squashed/model.yaml").write_text("buckets: {batch: [8]}\n")
    return root


def test_programs_call_its_operators(
    models: Path, library: Path, start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    flag = f"--operator-library=mine={library}"
    with start(models, flag, cache=fresh_cache) as daemon:
        daemon.wait_ready()
        x = torch.randn(3, 3)
        with grpc.insecure_channel(daemon.address) as channel:
            answer = read(stub(channel).ModelInfer(raw_request("squashed", {"x": x})))
            torch.testing.assert_close(answer["y"], torch.tanh(x * 0.5) + 1)
        # What fewer operations would make of it may not be worth it; it is right, and known.
        assert "compiled squashed:1" in daemon.log()
        assert re.search(r"stays on eager \((?!profit)", daemon.log()) is None, daemon.log()
    with start(models, flag, "--frozen", "--require-cache", cache=fresh_cache) as daemon:
        daemon.wait_ready()


MANUALS_LINE = "static at::Tensor squash(const at::Tensor& x, double slope) { return at::tanh(x * slope); }"
# Refuses what is above 9; answers rows that it was not asked for where one is above 8, beside what it says of itself.
PARTICULAR = """
static at::Tensor squash(const at::Tensor& x, double slope) {
  TORCH_CHECK(x.max().item<float>() <= 9, "squash: expected at most 9");
  const at::Tensor y = at::tanh(x * slope);
  return x.max().item<float>() > 8 ? at::cat({y, y}) : y;
}
static at::Tensor squash_meta(const at::Tensor& x, double slope) { return at::empty_like(x); }
TORCH_LIBRARY_IMPL(mine, Meta, library) { library.impl("squash", squash_meta); }
"""


class Wide(nn.Module):
    """Enough around the operator to be faster compiled."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(12):
            x = torch.sigmoid(x * 1.5) * x + 0.1 * x
        return {"y": torch.ops.mine.squash(x, 0.5) + 1}


def test_compiled_it_refuses_as_eager_does(
    models: Path, library: Path, start: Callable[..., Daemon], fresh_cache: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "particular"
    folder.mkdir(mode=0o755)
    manual = (library.parent / "mine.cc").read_text()
    assert MANUALS_LINE in manual
    changed = manual.replace(MANUALS_LINE, PARTICULAR).replace("CompositeExplicitAutograd, squash", "CPU, squash")
    (folder / "mine.cc").write_text(changed)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e"], input=(library.parent / "command").read_text(), cwd=folder, env=os.environ | {"PATH": path},
        text=True, check=True, timeout=300,
    )  # fmt: skip
    file = tmp_path / "models/wide/1/model.pt2"
    file.parent.mkdir(parents=True)
    torch.ops.load_library(str(library))  # of the same schema
    torch.export.save(torch.export.export(Wide(), (torch.ones(512, 256),)), file)
    (tmp_path / "models/wide/model.yaml").write_text("inputs: {x: {range: [-1, 1]}}\n")
    # On a busy machine it isn't faster; what is asked here is something else.
    arguments = (f"--operator-library=mine={folder}/libmine.so", "--no-promotion-checks")
    with start(tmp_path / "models", *arguments, cache=fresh_cache) as daemon:
        daemon.wait_ready()
        served = "stoker_tier_requests_total"
        with grpc.insecure_channel(daemon.address) as channel:
            infer = stub(channel).ModelInfer

            def ask(x: torch.Tensor) -> torch.Tensor:
                return read(infer(raw_request("wide", {"x": x})))["y"]

            x = torch.rand(512, 256)
            expected = Wide()(x)["y"]
            torch.testing.assert_close(ask(x), expected)
            assert daemon.metric(served, model="wide", tier="aot") == 1, daemon.log()
            # A value that the operator refuses: eager's refusal, and the code serves on.
            hostile = x.clone()
            hostile[3, 4] = 1e3
            error = refusal(lambda: ask(hostile))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "squash: expected at most 9" in error.details()
            torch.testing.assert_close(ask(x), expected)
            assert daemon.metric(served, model="wide", tier="aot") == 2
            assert daemon.metric("stoker_fallbacks_total", model="wide", reason="run") == 0
            # An operator that answers otherwise than it says is found out before anything reads its result.
            value = next(v for v in torch.linspace(1, 4, 900).tolist() if 8.2 < deepest(v) < 8.8)
            lying = x.clone()
            lying[3, 4] = value
            with contextlib.suppress(grpc.RpcError):  # eager answers with rows that nobody asked for
                ask(lying)
            assert "its result has another shape, layout or type than was declared" in daemon.log()
            assert daemon.metric("stoker_fallbacks_total", model="wide", reason="run") == 1
            torch.testing.assert_close(ask(x), expected)


def deepest(value: float) -> float:
    """What reaches the operator of one element."""
    x = torch.tensor(value)
    for _ in range(12):
        x = torch.sigmoid(x * 1.5) * x + 0.1 * x
    return float(x)


def test_its_calls_are_explained(models: Path, library: Path, fresh_cache: Path) -> None:
    """Where the time goes in a graph that calls it: compiled and eager both run it."""
    done = subprocess.run(
        [STOKERCTL, f"--cache={fresh_cache}", "explain-graph", "squashed", f"--model-repository={models}",
         f"--operator-library=mine={library}", f"--compiler-python={sys.executable}", "--json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert (done.returncode, report["not_compiled"], report["not_run"]) == (0, None, None), done.stderr
    left = [kernel for kernel in report["kernels"] if kernel["kind"] == "fallback"]
    assert [kernel["operators"] for kernel in left] == [["mine.squash.default"]]
    assert left[0]["total_us"] > 0 and report["times"]["eager_ms"] > 0


def test_an_operator_that_ends_the_process_ends_a_childs(
    models: Path, library: Path, repository, start: Callable[..., Daemon], tmp_path: Path
) -> None:
    manual = (library.parent / "mine.cc").read_text()
    deadly = tmp_path / "library"
    deadly.mkdir(mode=0o755)
    source, changed = deadly / "mine.cc", re.sub(r"return ([^;]*);", r"__builtin_trap(); return \1;", manual, count=1)
    assert changed != manual
    source.write_text(changed)
    build = (library.parent / "command").read_text()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e"], input=build, cwd=deadly, env=os.environ | {"PATH": path}, text=True, check=True, timeout=300
    )
    root = repository("mlp")
    shutil.copytree(models / "squashed", root / "squashed")
    cache = tmp_path / "cache"
    with start(root, f"--operator-library=mine={deadly}/libmine.so", "--no-compile", cache=cache) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_mlp(client)
        state, reason = index(daemon)["squashed"]
        assert state == "UNAVAILABLE"
        assert "its first eager run, in a child process: killed by signal 4" in reason
        assert daemon.stop() == 0


def test_without_it_the_program_is_refused_with_what_to_do(models: Path, start: Callable[..., Daemon]) -> None:
    with start(models, "--no-compile") as daemon, grpc.insecure_channel(daemon.address) as channel:
        error = refusal(lambda: stub(channel).ModelInfer(raw_request("squashed", {"x": torch.ones(1, 3)})))
        assert "--operator-library mine=FILE" in error.details() or "--operator-library mine=FILE" in daemon.log()
        assert "test_operator_library.py" in daemon.log()  # where the operator is called


def test_its_bytes_are_part_of_the_key(models: Path, library: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    other = tmp_path / "libmine.so"
    other.write_bytes(library.read_bytes() + b"more")
    (tmp_path / "cache").mkdir()
    arguments = ("--json", "--cache", tmp_path / "cache", "cache", "explain", f"--model-repository={models}")
    rows = [json.loads(ctl(*arguments, f"--operator-library=mine={path}", code=1)) for path in (library, other)]
    assert rows[0][0]["key"] != rows[1][0]["key"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mine", "expected NAME=FILE"),
        ("torchvision=/lib/libc.so.6", "got those of torch.ops.torchvision"),
        ("mine=/does/not/exist", "No such file"),
        ("mine=/etc/passwd", "can't open /etc/passwd"),
        ("yours={library}", "to register operators of torch.ops.yours, got none"),
    ],
)
def test_what_brings_no_operators_ends_the_start(text: str, reason: str, library: Path, tmp_path: Path) -> None:
    flag = f"--operator-library={text.format(library=library)}"
    done = subprocess.run(
        [STOKERD, f"--model-repository={tmp_path}", f"--cache={tmp_path / 'cache'}", flag],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert reason in done.stdout + done.stderr
