"""The worker process, driven over its pipes as stokerd drives it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler.job import protocol, toolchain
from compiler.job.manifest import file_record
from tests.compiler.conftest import ROOT, Compiler
from tests.integration.daemon import eventually

pytestmark = pytest.mark.slow


class Worker:
    """A running worker; `events` are read one line at a time."""

    def __init__(
        self, scratch: Path, module: str = "compiler.worker", *arguments: str, **environment: str
    ) -> None:
        receive, send = os.pipe()
        command = [
            sys.executable,
            "-m",
            module,
            "--reply-fd",
            str(send),
            "--scratch",
            str(scratch),
            *arguments,
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, pass_fds=[send], env={**os.environ, **environment}
        )
        os.close(send)
        self.replies = os.fdopen(receive)
        self.ready = self.event()
        self.makers = self.children()  # of headers

    def event(self) -> dict[str, Any]:
        line = self.replies.readline()
        assert line, f"the worker closed its replies, status {self.process.poll()}"
        return json.loads(line)

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(protocol.encode(message) for message in messages))
        self.process.stdin.flush()

    def outcome(self, job_id: int) -> dict[str, Any]:
        """The reply that ends the job."""
        while (event := self.event())["event"] == "phase" or event["id"] != job_id:
            assert event["phase"] in protocol.PHASES
        return event

    def await_phase(self, job_id: int) -> None:
        while (event := self.event()) != {"event": "phase", "id": job_id, "phase": "load"}:
            assert event["event"] == "phase", event

    def jobs(self) -> list[int]:
        """The processes that it forked for jobs."""
        return [child for child in self.children() if child not in self.makers]

    def children(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == self.process.pid:
                    found.append(int(entry.name))
        return found

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(60)
        self.replies.close()
        return status


@pytest.fixture(scope="module")
def worker(scratch: Path) -> Iterator[Worker]:
    worker = Worker(scratch)
    yield worker
    assert worker.close() == 0


@pytest.fixture(scope="module")
def program(compiler: Compiler) -> tuple[Path, str]:
    """A small program and the symbol of its batch."""
    net = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(net, (torch.zeros(2, 5, dtype=torch.int64),), dynamic_shapes=({0: batch},))
    (symbol,) = map(str, exported.range_constraints)
    return compiler.save(exported), symbol


@pytest.fixture
def request_of(compiler: Compiler, program: tuple[Path, str]) -> Any:
    path, symbol = program
    return lambda **changes: {**compiler.request(path, {symbol: 4}), **changes}


def test_a_start_makes_headers_beside_the_first_job(tmp_path: Path, request_of: Any) -> None:
    """Nobody waits for them before they are needed, and code of its own, which nobody would run, is not compiled."""
    scratch = tmp_path / "scratch"
    written = scratch / "headers"  # a job can write here
    written.mkdir(parents=True)
    calls, complaints = written / "calls", written / "complaints"
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >>{calls}\nexec g++ -Winvalid-pch "$@" 2>>{complaints}\n')
    compiler.chmod(0o700)
    worker = Worker(scratch, STOKER_CXX=str(compiler))
    assert not list(scratch.glob("headers/*/*.gch"))
    worker.send(request_of(id=1, scratch=str(scratch), factors=factors_of_a_daemon()))
    assert worker.outcome(1)["event"] == "done"
    asked = calls.read_text().splitlines()
    assert sum("-x c++-header" in line for line in asked) == 2, asked
    assert sum(".wrapper.cpp" in line for line in asked) == 1, asked
    assert sum(".kernel.cpp" in line for line in asked) == 1, asked
    # Of a header that was made with other flags.
    assert "not used because" not in complaints.read_text()
    assert worker.close() == 0


def factors_of_a_daemon() -> dict[str, str]:
    """TorchInductor's options as stokerd sends them."""
    source = (ROOT / "server/planning/warmup_plan.cc").read_text()
    table = source[source.index("kInductorOptions[]") : source.index("};", source.index("kInductorOptions[]"))]
    found = re.findall(r'\{"([\w.]+)", "((?:[^"\\]|\\.)*)"\}', table)
    assert len(found) > 3, table
    return {f"inductor.{name}": value.replace('\\"', '"') for name, value in found}


def test_a_start_that_is_killed_leaves_no_half_of_a_header(tmp_path: Path, request_of: Any) -> None:
    """g++ fails on one, and it would stay for all that come after."""
    scratch = tmp_path / "scratch"
    worker = Worker(scratch)
    eventually(lambda: bool(list(scratch.glob("headers/*/*.partial.*"))), "a header is begun")
    makers = worker.makers
    worker.process.kill()
    worker.process.wait(60)
    worker.replies.close()
    for maker in makers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(maker, signal.SIGKILL)
    worker = Worker(scratch)
    worker.send(request_of(id=1, scratch=str(scratch)))
    assert worker.outcome(1)["event"] == "done"
    assert not list(scratch.glob("headers/*/*.partial.*"))
    assert worker.close() == 0


def test_a_worker_that_is_closed_ends_who_makes_headers(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "scratch")
    makers = worker.makers
    assert makers
    assert worker.close() == 0

    def ended(maker: int) -> bool:
        try:
            return "\nState:\tZ" in Path(f"/proc/{maker}/status").read_text()
        except OSError:
            return True

    eventually(lambda: all(map(ended, makers)), f"{makers} end")


def test_ready_comes_first(worker: Worker) -> None:
    assert worker.ready["event"] == "ready"
    assert worker.ready["pid"] == worker.process.pid
    assert worker.ready["torch"] == torch.__version__


def test_a_worker_that_forks_has_one_thread(worker: Worker) -> None:
    assert len(os.listdir(f"/proc/{worker.process.pid}/task")) == 1


def test_a_job_goes_through_its_phases_to_a_complete_artifact(worker: Worker, request_of: Any) -> None:
    request = request_of()
    worker.send(request)
    events: list[dict[str, Any]] = []
    while not events or events[-1]["event"] == "phase":
        events.append(worker.event())
    assert [event["phase"] for event in events[:-1]] == list(protocol.PHASES)
    done = events[-1]
    assert done["event"] == "done" and done["id"] == request["id"]
    assert list(done["phases"]) == list(protocol.PHASES)

    stage = Path(request["stage"])
    manifest = json.loads((stage / "manifest.json").read_text())
    assert {path.name for path in stage.iterdir()} == {*manifest["files"], "manifest.json"}
    for name, record in manifest["files"].items():
        assert record == file_record(stage / name)
    assert manifest["schema"] == 1
    assert manifest["key"] == request["key"] and manifest["factors"] == request["factors"]
    assert manifest["inputs"] == [{"name": "input", "dtype": "int64", "shape": [4, 5]}]
    assert (manifest["outputs"], manifest["validity_output"]) == (1, 1)
    assert sorted(manifest["constants"]) == ["0.weight", "1.bias", "1.weight"]
    (guard,) = manifest["guards"]
    assert guard == {
        "bit": 0, "operator": "aten.embedding.default", "input": "input",
        "message": "index out of range, expected 0 <= index < 10",
    }  # fmt: skip
    assert manifest["toolchain"]["torch"] == torch.__version__
    assert manifest["peak_rss_bytes"] > 1 << 20


def test_jobs_run_at_once_and_keep_their_answers_apart(worker: Worker, request_of: Any) -> None:
    good, bad = request_of(), request_of(program="/nonexistent.pt2")
    worker.send(good, bad)
    outcomes: dict[int, dict[str, Any]] = {}
    while len(outcomes) < 2:
        event = worker.event()
        if event["event"] != "phase":
            outcomes[event["id"]] = event
    assert outcomes[good["id"]]["event"] == "done"
    failed = outcomes[bad["id"]]
    assert failed["kind"] == "error" and "/nonexistent.pt2" in failed["message"]


def test_a_program_that_can_not_be_made_safe_is_refused(worker: Worker, compiler: Compiler) -> None:
    class Noisy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(x)

    path = compiler.save(torch.export.export(Noisy(), (torch.zeros(2),)))
    request = compiler.request(path, {})
    worker.send(request)
    failed = worker.outcome(request["id"])
    assert failed["kind"] == "refused" and "random" in failed["message"]
    assert not list(Path(request["stage"]).iterdir())


def test_an_error_ends_with_the_log(worker: Worker, request_of: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.pt2").write_bytes(b"no archive at all")
    request = request_of(program=str(tmp_path / "broken.pt2"))
    worker.send(request)
    failed = worker.outcome(request["id"])
    assert failed["kind"] == "error"
    assert "broken.pt2" in failed["message"].splitlines()[0]
    assert "Traceback" in failed["message"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"march": "x86-64; rm"}, "march: expected a name"),
        ({"march": "x86-64-v2", "simdlen": 512}, "simdlen: x86-64-v2 has vectors of 0 bits"),
        ({"sizes": {"s9": "8"}}, "s9: expected"),
        ({"stage": None}, "stage: expected"),
    ],
)
def test_a_bad_request_is_answered(worker: Worker, request_of: Any, change: dict[str, Any], said: str) -> None:
    request = request_of(**change)
    worker.send(request)
    failed = worker.outcome(request["id"])
    assert failed["kind"] == "error" and said in failed["message"]


def test_sizes_outside_the_bounds_are_an_error(worker: Worker, request_of: Any, program: Any) -> None:
    request = request_of(sizes={program[1]: 65})
    worker.send(request)
    assert f"{program[1]} is bounded to 1..64, got 65" in worker.outcome(request["id"])["message"]


def test_timeout(worker: Worker, request_of: Any) -> None:
    request = request_of(timeout_seconds=0.1)
    worker.send(request)
    assert worker.outcome(request["id"])["kind"] == "timeout"
    assert worker.jobs() == []


def test_memory(worker: Worker, request_of: Any) -> None:
    request = request_of(memory_bytes=16 << 20)
    worker.send(request)
    assert worker.outcome(request["id"])["kind"] == "memory"
    assert worker.jobs() == []


def test_cancel(worker: Worker, request_of: Any) -> None:
    request = request_of()
    worker.send(request)
    worker.await_phase(request["id"])
    worker.send({"op": "cancel", "id": request["id"]}, {"op": "cancel", "id": 10**6})
    assert worker.outcome(request["id"])["kind"] == "cancelled"
    assert worker.jobs() == []


def test_crash(worker: Worker, request_of: Any) -> None:
    request = request_of()
    worker.send(request)
    worker.await_phase(request["id"])
    (child,) = worker.jobs()
    os.kill(child, signal.SIGSEGV)
    failed = worker.outcome(request["id"])
    assert failed["kind"] == "crashed" and "SIGSEGV" in failed["message"]


def test_garbage_is_ignored(worker: Worker, request_of: Any) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.write(b'nonsense\n[]\n{"op": "dance", "id": 1}\n\n')
    request = request_of(march="x86-64; rm")
    worker.send(request)
    assert worker.outcome(request["id"])["kind"] == "error"


def test_closing_stdin_ends_the_worker_and_its_jobs(scratch: Path, request_of: Any) -> None:
    worker = Worker(scratch)
    request = request_of()
    worker.send(request)
    worker.await_phase(request["id"])
    (child,) = worker.jobs()
    assert worker.close() == 0
    assert not Path(f"/proc/{child}").exists()
    assert not list((scratch / "work").glob(f"*/{child}"))


def test_the_driver_of_a_gpu_is_left_to_the_jobs(scratch: Path, request_of: Any, tmp_path: Path) -> None:
    """A process that has called the driver can't hand it on by a fork. The driver here only says who
    called it: torch loads it in any case."""
    record = scratch / "inductor/called"  # a job can write here
    record.unlink(missing_ok=True)
    source = tmp_path / "driver.c"
    calls = "cuInit cuGetProcAddress cuGetProcAddress_v2 cuDriverGetVersion cuGetExportTable".split()
    source.write_text(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "static int called(void) {\n"
        f'  dprintf(open("{record}", O_CREAT | O_APPEND | O_WRONLY, 0600), "%d\\n", getpid());\n'
        "  return 100;\n"  # CUDA_ERROR_NO_DEVICE
        "}\n" + "".join(f"int {name}(void) {{ return called(); }}\n" for name in calls)
    )
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(driver)], check=True)
    worker = Worker(scratch, LD_LIBRARY_PATH=str(tmp_path), CUDA_VISIBLE_DEVICES="0")
    try:
        worker.send(request_of(id=1))
        assert worker.outcome(1)["event"] == "done"

        worker.send(request_of(id=2, device="cuda:0"))
        outcome = worker.outcome(2)
        assert (outcome["event"], outcome["kind"]) == ("failed", "error")
        reason = outcome["message"].splitlines()[0]
        assert "cuda:0 can't be opened (CUDA_VISIBLE_DEVICES=0): " in reason
        assert "forked subprocess" not in reason  # torch's own words for a parent that did call it
        callers = set(record.read_text().split())
        assert callers and str(worker.process.pid) not in callers

        worker.send(request_of(id=3))
        assert worker.outcome(3)["event"] == "done"
    finally:
        assert worker.close() == 0


def test_a_forked_job_compiles_for_a_gpu(scratch: Path, request_of: Any) -> None:
    """Its parent believes, and remembers in many places, that there is none."""
    try:
        toolchain.cuda_home()
    except RuntimeError as error:
        pytest.skip(str(error))
    worker = Worker(scratch, "tests.fakes.recorded_gpu")
    try:
        request = request_of(id=1, device="cuda:0")
        worker.send(request)
        outcome = worker.outcome(1)
        assert outcome["event"] == "done", outcome["message"]
        manifest = json.loads((Path(request["stage"]) / "manifest.json").read_text())
        assert (manifest["device"], manifest["capturable"]) == ("cuda", True)
        assert manifest["toolchain"]["arch"] == "sm_90"
        assert b"triton_" in (Path(request["stage"]) / "model.so").read_bytes()
    finally:
        assert worker.close() == 0
