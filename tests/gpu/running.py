"""One step after another, each in a process of its own with a limit; what is known after each is written down."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu import report

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Step:
    name: str
    limit: float  # seconds
    least: float  # not begun with less time than this
    command: Callable[[Run], list[str] | str | None]  # None: not in this bundle; a text: why not here
    gpu: bool = True
    needs: tuple[str, ...] = ()  # exports that have to be there
    bundled: bool = False  # runs with the bundle's libraries
    environment: Callable[[Run], dict[str, str]] = lambda run: {}
    # What later steps ask for. Where it is gone the step is made again, though it passed before.
    makes: Callable[[Run], list[Path]] = lambda run: []


@dataclass
class Result:
    name: str
    outcome: str  # passed, failed, timeout, skipped
    seconds: float = 0.0
    said: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""


class Run:
    """What is known so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work
        self.bundle: Path = options.bundle
        self.gpu = False
        self.device = "cuda:0"
        self.results: list[Result] = []
        self.left_out: list[str] = []
        self.exports: dict[str, subprocess.Popen[bytes]] = {}
        self._deadline = time.monotonic() + options.budget_seconds
        self._before: dict[str, Result] = {}

    def go_on(self, told: dict[str, Any]) -> None:
        """What passed in an earlier call, as its gpu.json has it, isn't done again. Raises ValueError where that was
        another machine."""
        for made in told["results"]:
            if made["outcome"] == "passed":
                self._before[made["name"]] = Result(**made)
        then = report.machine(told["results"])
        here = report.machine([vars(result) for result in self.results])
        if then != here:
            raise ValueError(f"what is to be continued is of another machine: {then}, this one is {here}")

    def left(self) -> float:
        return self._deadline - time.monotonic()

    def binary(self, name: str) -> Path | None:
        path = self.bundle / "bin" / name
        return path if path.exists() else None

    def python(self, module: str, *arguments: object) -> list[str]:
        return [sys.executable, "-m", f"tests.gpu.{module}", *map(str, arguments)]

    def program(self, entry: str) -> Path:
        return self.work / "models" / entry.rpartition("_")[0] / "1" / "model.pt2"

    def said(self, step: str) -> list[dict[str, Any]]:
        return [line for result in self.results if result.name == step for line in result.said]

    def export(self, *names: str) -> None:
        """Starts a process that writes those programs that aren't there."""
        names = tuple(name for name in names if not self.program(f"{name}_0").exists())
        if not names:
            return
        log = open(self.work / f"export_{names[0]}.log", "wb")  # noqa: SIM115 (the process writes to it)
        process = subprocess.Popen(
            self.python("models", self.work / "models", *names), cwd=ROOT, stdout=log, stderr=log
        )
        for name in names:
            self.exports[name] = process

    def run(self, step: Step) -> None:
        before = self._before.get(step.name)
        if before is not None and all(path.exists() for path in step.makes(self)):
            self.results.append(before)
            return
        if step.gpu and not self.gpu:
            self.results.append(Result(step.name, "skipped", log="no GPU"))
            return
        command = step.command(self)
        if command is None:
            self.results.append(Result(step.name, "skipped", log="not in this bundle"))
            return
        if isinstance(command, str):
            self.results.append(Result(step.name, "skipped", log=command))
            return
        if self.left() < step.least:
            self.left_out.append(f"{step.name}: wants {step.least:.0f} s, {max(0, self.left()):.0f} were left")
            return
        self.export(*(name for name in step.needs if name not in self.exports))
        for name in step.needs:
            if name not in self.exports:
                continue  # it was there
            try:
                self.exports[name].wait(max(1.0, self.left() - step.least))
            except subprocess.TimeoutExpired:
                self.left_out.append(f"{step.name}: {name} wasn't exported in time")
                return
        self.results.append(self._execute(step, command))
        self.write()

    def _execute(self, step: Step, command: list[str]) -> Result:
        started = time.monotonic()
        log = self.work / "logs" / f"{step.name}.log"
        environment = {**os.environ, **step.environment(self)}
        environment["LD_LIBRARY_PATH"] = (
            self.options.library_path if step.bundled else self.options.outer_library_path
        )
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
            )
            limit = min(step.limit, self.left())
            try:
                output, _ = process.communicate(timeout=limit)
                outcome = "passed" if process.returncode == 0 else "failed"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                outcome = "timeout"
        text = output.decode(errors="replace")
        said = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        rest = "\n".join(line for line in text.splitlines() if not line.startswith("{"))
        # Of a step that went well its figures are enough, and what a test says of itself in the end.
        if outcome == "passed" and (why := nothing_ran(rest)):
            outcome, rest = "skipped", why
        # A step that has found out that it can't do its work here.
        if outcome == "passed" and (found := [line["skipped"] for line in said if "skipped" in line]):
            outcome, rest = "skipped", str(found[0])
        short = outcome in ("passed", "skipped")
        tail = rest[-300:] if short else (rest + "\n" + log.read_text(errors="replace"))[-6000:]
        return Result(step.name, outcome, round(time.monotonic() - started, 1), said, tail)

    def write(self) -> None:
        results: report.Results = [vars(result) for result in self.results]
        content = {
            "gpu": self.gpu,
            "results": results,
            "goals": report.judged([results]),
            "no_time_for": self.left_out,
        }
        (self.options.out / "gpu.json").write_text(json.dumps(content, indent=1) + "\n")
        (self.options.out / "gpu.txt").write_text(report.table(content))

    def close(self) -> None:
        for process in set(self.exports.values()):
            process.kill()
            process.wait()


def nothing_ran(output: str) -> str:
    """Why GoogleTest has skipped all of its tests, which then show nothing; empty where one ran."""
    if re.search(r"^\[  PASSED  \] 0 tests\.$", output, re.MULTILINE) is None:
        return ""
    said = re.search(r": Skipped\n(.+)", output)
    return said[1] if said else "every test was skipped"
