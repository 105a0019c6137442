"""The bundle for GPU machines: that it is small, holds what it needs, and that the half of its one command that
needs no GPU passes where nothing but Python with torch and g++ is within reach."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import report
from tests.gpu.machine import unusable
from tests.gpu.models import MODELS
from tests.gpu.running import Result, Run, Step, nothing_ran
from tests.gpu.steps import BUCKETS, MORE_BUCKETS, entry_of, steps

REPO = Path(__file__).resolve().parents[2]
MAX_BYTES = 60 << 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    subprocess.run([REPO / "deploy/make-bundle.sh", folder], check=True, timeout=3600)
    return folder / "stoker-gpu-bundle.tar.gz"


@pytest.mark.slow
def test_it_is_small_and_complete(bundle: Path) -> None:
    assert bundle.stat().st_size <= MAX_BYTES
    with tarfile.open(bundle) as archive:
        names = {name.removeprefix("stoker-gpu/") for name in archive.getnames()}
    assert {
        "bin/stokerd", "bin/stokerctl", "bin/stoker-loadtest", "bin/python", "compiler/worker/__main__.py",
        "compiler/job/stoker-g++", "compiler/job/artifact.map",
        "compiler/guards/known_operators.txt", "tests/gpu/run.sh", "tests/gpu/models.py", "tests/gpu/merge.py",
        "COMMIT", "loadtest/servers/stokerd.py",
    } <= names  # fmt: skip
    libraries = {name for name in names if name.startswith("lib/")}
    assert any("libgrpc++" in name for name in libraries)
    assert not [n for n in libraries if any(part in n for part in ("libtorch", "libc10", "libc.so", "libstdc++"))]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU: run tests/gpu/run.sh")
def test_its_half_without_a_gpu_passes(bundle: Path, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [REPO / "tests/gpu/run.sh", "--bundle", bundle, "--out", tmp_path], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "gpu.json").read_text())
    outcomes = {result["name"]: result["outcome"] for result in told["results"]}
    ran = {"machine", "cpu_compile", "cpu_two_ops", "cpu_requests", "cpu_serve", "cpu_timeline"}
    # The last may have had no time.
    ran |= {"cpu_neighbours"} & set(outcomes)
    ran |= {"gpu_test", "cpu_daemon_two_ops"} & {name for name in outcomes if outcomes[name] != "skipped"}
    assert {name for name, outcome in outcomes.items() if outcome == "passed"} == ran
    assert outcomes["gpt2_xl_1"] == outcomes["sanitizer_memcheck"] == "skipped"
    assert "gpt2_xl_1" in (tmp_path / "gpu.txt").read_text()
    (served,) = [result["said"] for result in told["results"] if result["name"] == "cpu_serve"]
    assert any(line.get("step", {}).get("throughput_per_s", 0) > 0 for line in served)
    assert not list(tmp_path.glob("stoker-gpu.*")), "what it unpacked is still there"


def test_skipped_is_not_passed() -> None:
    brief = "../../gpu_test.cc:72: Skipped\nno GPU can be used: {}\n[==========] 19 tests from 3 test suites ran.\n"
    skipped = brief.format("a driver before 580") + "[  PASSED  ] 0 tests.\n[  SKIPPED ] 19 tests.\n"
    assert nothing_ran(skipped) == "no GPU can be used: a driver before 580"
    assert nothing_ran("[  PASSED  ] 10 tests.\n[  SKIPPED ] 9 tests.\n") == ""
    assert nothing_ran("") == ""


def empty_run(tmp_path: Path, budget: float) -> Run:
    run = Run(
        argparse.Namespace(
            bundle=tmp_path, work=tmp_path, out=tmp_path, budget_seconds=budget,
            library_path="", outer_library_path="",
        )  # fmt: skip
    )
    run.gpu = True
    (tmp_path / "logs").mkdir()
    return run


def test_what_there_is_no_time_for_is_named(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=0.0)
    for step in steps():
        run.run(step)
    assert any(what.startswith("gpt2_xl_1: wants 20 s, 0 were left") for what in run.left_out)
    run.write()
    assert "no time for" in (tmp_path / "gpu.txt").read_text()


def test_goals_stand_beside_figures(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=0.0)
    slow, fast = {"tier": "eager", "p50_us": 300.0}, {"tier": "graph", "p50_us": 100.0}
    run.results = [
        Result("gpt2_xl_1", "passed", 1.0, [slow, fast, {"captured_ms": 500.0}]),
        # Not to be mixed with the others: its eager is missing.
        Result("daemon_gpt2_xl_1", "passed", 1.0, [{"tier": "graph", "p50_us": 100.0, "capture_us": 800e3}]),
        Result("kernels100_1", "passed", 1.0, [{"tier": "aot", "p50_us": 300.0}, {"tier": "graph", "p50_us": 100.0}]),
        Result(
            "daemon_kernels100_1", "passed", 1.0,
            [{"tier": "aot", "p50_us": 300.0}, {"tier": "graph", "p50_us": 250.0}],
        ),  # fmt: skip
        Result("requests", "failed", 1.0, [{"check": "replays are bit-equal", "differ": 3, "passed": False}], "why"),
    ]
    run.write()
    goals = {goal["what"]: goal for goal in json.loads((tmp_path / "gpu.json").read_text())["goals"]}
    assert goals["GPT-2 XL, batch 1: graph over eager"] == {
        "what": "GPT-2 XL, batch 1: graph over eager", "goal": ">= 1.5 x", "value": 3.0, "met": True,
    }  # fmt: skip
    # The server's own figures where they are whole.
    assert goals["100 small kernels: graph over uncaptured"]["value"] == 1.2
    assert goals["100 small kernels: graph over uncaptured"]["met"] is False
    assert goals["a capture"]["value"] == 800 and goals["a capture"]["met"] is False
    assert goals["10,000 requests bit-equal"]["met"] is False
    assert goals["warm start, 8 buckets"]["met"] is None
    text = (tmp_path / "gpu.txt").read_text()
    assert "MISSED" in text and '"differ": 3' in text and "why" in text
    assert os.access(REPO / "tests/gpu/run.sh", os.X_OK)


def test_every_steps_command_can_be_formed(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=540.0)
    (tmp_path / "bin").mkdir()
    for name in ("stokerd", "gpu_test", "gpu_bench"):
        (tmp_path / "bin" / name).touch()
    names: list[str] = []
    for step in steps():
        command = step.command(run)
        assert command is None or all(isinstance(word, str) for word in command), step.name
        assert not isinstance(command, str) or step.name.startswith("sanitizer"), command
        assert all(isinstance(value, str) for value in step.environment(run).values())
        assert step.least <= step.limit
        names.append(step.name)
    assert len(names) == len(set(names))
    assert set(MORE_BUCKETS) <= {f"{name}:{batch}" for name, model in MODELS.items() for batch in model.batches}
    # Whatever the first half is for is done before the second begins.
    assert names.index("serve_gpt2_xl") < names.index("compile_more") < names.index("modes_resnet50_1")
    assert names.index("two_ops") < names.index("gpt2_xl_1") < names.index("sanitizer_memcheck")


MACHINE = Result("machine", "passed", 1.0, [{"gpu": True, "facts": {"name": "H200", "arch": "sm_90", "driver": "580"}}])


def told(*results: Result, no_time_for: tuple[str, ...] = ()) -> dict[str, Any]:
    content: dict[str, Any] = {"gpu": True, "no_time_for": list(no_time_for)}
    content["results"] = [vars(result) for result in (MACHINE, *results)]
    return json.loads(json.dumps(content))


def script(text: str) -> Step:
    """A step that is a line of Python."""
    return Step("line", 20, 0, lambda run: [sys.executable, "-c", text])


def test_a_second_call_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=60.0)
    run.results = [MACHINE]
    run.go_on(told(Result("two_ops", "passed", 7.0, [{"tier": "aot", "p50_us": 3.0}]), Result("line", "failed")))
    for step in steps():
        if step.name == "two_ops":
            run.run(step)
    assert run.results[-1].seconds == 7.0 and run.said("two_ops")[0]["p50_us"] == 3.0
    # What failed is tried again.
    run.run(script("print('{\"again\": 1}')"))
    assert run.results[-1].outcome == "passed" and run.said("line") == [{"again": 1}]


def test_what_later_steps_need_is_made_again_where_it_is_gone(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=0.0)
    run.results = [MACHINE]
    run.go_on(told(Result("compile", "passed", 100.0)))
    (compile_step,) = [step for step in steps() if step.name == "compile"]
    run.run(compile_step)
    assert run.left_out and run.left_out[0].startswith("compile: wants")
    for wanted in BUCKETS[1:]:
        entry_of(run, wanted).parent.mkdir(parents=True)
        entry_of(run, wanted).touch()
    command = compile_step.command(run)
    assert command is not None and command[-1] == BUCKETS[0] and BUCKETS[1] not in command
    entry_of(run, BUCKETS[0]).parent.mkdir()
    entry_of(run, BUCKETS[0]).touch()
    run.run(compile_step)
    assert run.results[-1].seconds == 100.0


def test_another_machines_run_is_not_continued_nor_merged(tmp_path: Path) -> None:
    run = empty_run(tmp_path, budget=60.0)
    run.results = [Result("machine", "passed", 1.0, [{"gpu": True, "facts": {"name": "H100"}}])]
    with pytest.raises(ValueError, match=r"another machine: H200, sm_90.* this one is H100"):
        run.go_on(told())
    other = told()
    other["results"][0]["said"][0]["facts"]["driver"] = "590"
    with pytest.raises(ValueError, match="different machines"):
        report.merged([told(), other])


def test_runs_are_merged_with_every_value_and_every_failure() -> None:
    def kernels(graph_us: float, outcome: str = "passed") -> Result:
        said = [{"tier": "aot", "p50_us": 300.0}, {"tier": "graph", "p50_us": graph_us}]
        return Result("kernels100_1", outcome, 1.0, said)

    left = ("images_32: wants 8 s, 0 were left", "adam_0: wants 8 s, 0 were left")
    first = told(kernels(100.0), Result("sticky", "failed", log="a crash"), no_time_for=left)
    second = told(kernels(150.0), Result("sticky", "passed"), Result("adam_0", "passed"), no_time_for=left)
    third = told(kernels(300.0), no_time_for=left)
    content = report.merged([first, second, third])
    goals = {goal["what"]: goal for goal in content["goals"]}
    assert goals["100 small kernels: graph over uncaptured"]["values"] == [1.0, 2.0, 3.0]
    assert goals["100 small kernels: graph over uncaptured"]["value"] == 2.0
    assert content["not_always"] == {"sticky": ["failed", "passed"]}
    assert content["no_time_for"] == [left[0]]
    text = report.table(content)
    assert "of [1.0, 2.0, 3.0]" in text and "sticky: not the same in every run: failed, passed" in text


def test_a_gpu_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    version = tmp_path / "version"
    assert unusable(version) == ""
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31\n")
    assert unusable(version).startswith("the driver is of branch 550: CUDA 13 needs 580")
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n")
    assert unusable(version).startswith("there is a driver of branch 580, and torch finds no GPU")


def test_torch_compile_stands_beside_the_graph() -> None:
    def run(right: bool) -> report.Known:
        modes = [{"mode": "default", "p50_us": 400.0}, {"mode": "reduce-overhead", "p50_us": 150.0}]
        check = {"check": "torch.compile equals eager, default", "passed": right}
        graph = Result("resnet50_8", "passed", 1.0, [{"tier": "graph", "p50_us": 100.0}])
        return report.Known([vars(graph), vars(Result("modes_resnet50_8", "passed", 1.0, [*modes, check]))])

    assert report.over_modes("resnet50_8")(run(right=True)) == 1.5
    # A figure of what answers wrong is none.
    assert report.over_modes("resnet50_8")(run(right=False)) is None


@pytest.mark.slow
def test_modes_are_measured_without_a_gpu_too(tmp_path: Path) -> None:
    mlp = f"--name mlp --program {tmp_path}/mlp/1/model.pt2 --batch 3 --device cpu --iterations 5 --modes default"
    for arguments in (f"tests.gpu.models {tmp_path} mlp", f"tests.gpu.modes {mlp}"):
        command = [sys.executable, "-m", *arguments.split()]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=600, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line.get("tier", line.get("mode", "check")) for line in said] == ["eager", "default", "check"]
    assert said[2]["passed"] and said[1]["p50_us"] > 0
