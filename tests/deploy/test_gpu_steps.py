"""The GPU bundle's later steps, as far as they can be tried without a GPU: what they look for, what they draw, how they
say that they can't run here; and a hang over the driver that computes nothing (tests/fakes/cuda)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from tests.fakes.stand_in import stand_in
from tests.gpu import steps
from tests.gpu.running import Run, Step
from tests.gpu.several import devices
from tests.gpu.timeline import Span, summary, svg
from tests.integration.daemon import REPO, STOKERD

WHOLE = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
DIVIDED = WHOLE + "  MIG 3g.40gb     Device  0: (UUID: MIG-7f0e1d2c-aaaa-bbbb-cccc-ddddeeeeffff)\n"
FAKES = STOKERD.parents[2] / "tests/fakes/cuda"


def test_what_there_is_of_gpus_and_parts() -> None:
    assert devices("gpus", WHOLE + WHOLE.replace("GPU 0", "GPU 1")) == (["cuda:0", "cuda:1"], "")
    assert devices("mig", DIVIDED) == (["cuda:MIG-7f0e1d2c-aaaa-bbbb-cccc-ddddeeeeffff"], "")
    assert devices("gpus", WHOLE) == ([], "1 GPU here, this needs two")
    assert devices("mig", WHOLE) == ([], "no GPU here is divided (MIG)")
    assert devices("gpus", DIVIDED)[0] == [] and "divided" in devices("gpus", DIVIDED)[1]


def empty_run(tmp_path: Path) -> Run:
    (tmp_path / "logs").mkdir()
    run = Run(
        argparse.Namespace(
            bundle=tmp_path, work=tmp_path, out=tmp_path, budget_seconds=60.0, library_path="", outer_library_path=""
        )
    )
    run.gpu = True
    return run


def test_a_step_says_why_it_cannot_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = empty_run(tmp_path)
    said = "print('{\"skipped\": \"1 GPU here, this needs two\"}')"
    run.run(Step("several", 20, 0, lambda run: [sys.executable, "-c", said]))
    assert (run.results[-1].outcome, run.results[-1].log) == ("skipped", "1 GPU here, this needs two")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gpu_test").touch()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    run.run(Step("sanitizer", 20, 0, steps.sanitizer("memcheck")))
    assert run.results[-1].outcome == "skipped" and run.results[-1].log.startswith("compute-sanitizer, of CUDA's")
    tool = tmp_path / "bin/compute-sanitizer"
    tool.touch(mode=0o755)
    command = steps.sanitizer("racecheck")(run)
    assert isinstance(command, list) and command[:3] == [str(tool), "--tool", "racecheck"]
    run.write()
    assert "this needs two" in (tmp_path / "gpu.txt").read_text()


def test_the_timeline_is_a_picture() -> None:
    spans = [
        Span("host", "launch <a>", 0, 4), Span("device", "a", 5, 9), Span("device", "b", 7, 11),
        Span("device", "c", 21, 22),
    ]  # fmt: skip
    told = summary(spans)
    assert (told.kernels, told.busy_us, told.idle_us) == (3, 7.0, 10.0)
    assert summary([]).kernels == 0
    picture = Xml.fromstring(svg({"eager": spans, "graph": [Span("device", "a", 100, 101)], "none": []}))
    space = "{http://www.w3.org/2000/svg}"
    bars = [bar for bar in picture.iter(f"{space}rect") if bar.get("x")]
    assert len(bars) == 5
    assert {text.text for text in picture.iter(f"{space}text")} >= {"eager, host", "eager, device", "graph, device"}
    # One scale: what takes four microseconds is four times as wide as what takes one; each row begins at its begin.
    width = {bar.find(f"{space}title").text: float(bar.get("width", 0)) for bar in bars}  # type: ignore[union-attr]
    assert width["a: 4.0 us"] == pytest.approx(4 * width["c: 1.0 us"], abs=0.05)
    assert float(bars[0].get("x", 0)) == float(bars[-1].get("x", 1))


@pytest.mark.slow
def test_the_profiler_is_understood(tmp_path: Path) -> None:
    import torch

    from tests.gpu.timeline import profiled

    x = torch.ones(64, 64)
    spans = profiled(lambda: (x @ x).relu(), lambda: None, on_gpu=False)
    names = [span.name for span in spans]
    assert sum("relu" in name for name in names) == sum("matmul" in name for name in names) == 3
    # What is inside another isn't there twice.
    ordered = sorted(spans, key=lambda span: span.begin)
    assert all(a.end <= b.begin for a, b in zip(ordered, ordered[1:], strict=False))


@pytest.mark.slow
@pytest.mark.skipif(not FAKES.is_dir(), reason="the build has no CUDA half")
def test_a_hang_ends_the_daemon(tmp_path: Path) -> None:
    """The step itself, with the daemon and its loader as they are; the fake's kernel never ends when the file that has
    the daemon spin says so."""
    bundle, script = tmp_path / "bundle", tmp_path / "script"
    (bundle / "bin").mkdir(parents=True)
    (bundle / "bin/stokerd").symlink_to(STOKERD)
    (bundle / "bin/python").symlink_to(stand_in(tmp_path / "python", "recorded_gpu.py"))
    (bundle / "compiler").symlink_to(REPO / "compiler")
    preload = ":".join(str(FAKES / name) for name in ("libcuda.so.1", "libcudart.so.13"))
    daemon = bundle / "bin/stokerd"
    daemon.unlink()
    # Of the daemon alone: the step itself exports on a processor.
    daemon.write_text(f'#!/bin/sh\nLD_PRELOAD=$LD_PRELOAD:{preload} FAKE_CUDA_SCRIPT={script} exec {STOKERD} "$@"\n')
    daemon.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.gpu.hang", "--bundle", bundle, "--work", tmp_path / "work", "--device",
            "cuda:0", "--when", script, "--script", "answers zeros\nkernel 0 1 hang\n",
        ],
        cwd=REPO, capture_output=True, text=True, timeout=500, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line["exit_code"] for line in said] == [5, 5] and all(line["passed"] for line in said)
