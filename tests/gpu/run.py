"""The one command for a GPU machine: everything that can be told in one call, most important first.

tests/gpu/run.sh starts it. Each step is a process with a limit of its own; what it printed as JSON, line by line, is
its result. gpu.json and gpu.txt in --out are written anew after every step, so that a run that is cut off has told
what it knew. A step that the rest of the time isn't enough for is left out and named at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("two_ops", "kernels10", "kernels100", "kernels500", "mlp", "minilm", "adam", "images")
# Compiled in this order, those first that are exported first.
BUCKETS = (
    "gpt2_xl:1", "gpt2_xl:8", "two_ops:1", "kernels500:1", "kernels100:1", "minilm:1", "minilm:64", "adam", "mlp:8",
    "kernels10:1", "images:32", "mlp:1", "mlp:64",
)  # fmt: skip


@dataclass
class Step:
    name: str
    limit: float  # seconds
    least: float  # not begun with less time than this
    command: Callable[[Run], list[str] | None]  # None: not here
    gpu: bool = True
    needs: tuple[str, ...] = ()  # exports that have to be there
    bundled: bool = False  # runs with the bundle's libraries
    environment: Callable[[Run], dict[str, str]] = lambda run: {}


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
        """Starts a process that writes programs."""
        log = open(self.work / f"export_{names[0]}.log", "wb")  # noqa: SIM115 (the process writes to it)
        process = subprocess.Popen(
            self.python("models", self.work / "models", *names), cwd=ROOT, stdout=log, stderr=log
        )
        for name in names:
            self.exports[name] = process

    def run(self, step: Step) -> None:
        if step.gpu and not self.gpu:
            self.results.append(Result(step.name, "skipped", log="no GPU"))
            return
        command = step.command(self)
        if command is None:
            self.results.append(Result(step.name, "skipped", log="not in this bundle"))
            return
        if self.left() < step.least:
            self.left_out.append(f"{step.name}: wants {step.least:.0f} s, {max(0, self.left()):.0f} were left")
            return
        for name in step.needs:
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
        tail = rest[-300:] if outcome == "passed" else (rest + "\n" + log.read_text(errors="replace"))[-6000:]
        return Result(step.name, outcome, round(time.monotonic() - started, 1), said, tail)

    def write(self) -> None:
        goals = [goal.judge(self) for goal in GOALS]
        text = table(self, goals)
        content = {
            "gpu": self.gpu,
            "results": [vars(result) for result in self.results],
            "goals": goals,
            "no_time_for": self.left_out,
        }
        (self.options.out / "gpu.json").write_text(json.dumps(content, indent=1) + "\n")
        (self.options.out / "gpu.txt").write_text(text)

    def close(self) -> None:
        for process in set(self.exports.values()):
            process.kill()
            process.wait()


# Steps


def nothing_ran(output: str) -> str:
    """Why GoogleTest has skipped all of its tests, which then show nothing; empty where one ran."""
    if re.search(r"^\[  PASSED  \] 0 tests\.$", output, re.MULTILINE) is None:
        return ""
    said = re.search(r": Skipped\n(.+)", output)
    return said[1] if said else "every test was skipped"


def bench(entry: str, iterations: int, *more: object) -> Callable[[Run], list[str]]:
    name = entry.rpartition("_")[0]
    return lambda run: run.python(
        "bench", "--name", name, "--program", run.program(entry), "--entry", run.work / "entries" / entry,
        "--device", run.device, "--iterations", iterations, *more,
    )  # fmt: skip


def requests(*more: object) -> Callable[[Run], list[str]]:
    """Random ones, for the three buckets of the small MLP."""

    def command(run: Run) -> list[str]:
        others = [run.work / "entries" / entry for entry in ("mlp_1", "mlp_64")]
        return bench("mlp_8", 200, *more, "--others", *others)(run)

    return command


def daemon_bench(entry: str, iterations: int) -> Callable[[Run], list[str] | None]:
    """The same with the server's own loader."""

    def command(run: Run) -> list[str] | None:
        if (binary := run.binary("gpu_bench")) is None:
            return None
        return [
            str(binary), "--program", str(run.program(entry)), "--entry", str(run.work / "entries" / entry),
            "--device", run.device, "--iterations", str(iterations), "--json",
        ]  # fmt: skip

    return command


def compiling(*wanted: str, timeout: int) -> Callable[[Run], list[str]]:
    return lambda run: run.python(
        "compiling", "--device", run.device, "--models", run.work / "models", "--entries", run.work / "entries",
        "--scratch", run.work / "scratch", "--timeout-seconds", timeout, *wanted,
    )  # fmt: skip


def serving(name: str, inputs: str, *more: object) -> Callable[[Run], list[str] | None]:
    def command(run: Run) -> list[str] | None:
        if run.binary("stokerd") is None:
            return None
        return run.python(
            "serving", "--bundle", run.bundle, "--library-path", run.options.library_path,
            "--models", run.work / "models", "--name", name, "--inputs", inputs,
            "--device", run.device, "--work", run.work / f"serve_{name}", *more,
        )  # fmt: skip

    return command


def gtest(run: Run) -> list[str] | None:
    binary = run.binary("gpu_test")
    return [str(binary), "--gtest_brief=1"] if binary else None


def artifacts(run: Run) -> dict[str, str]:
    """What gpu_test's tests of artifacts ask for."""
    entries = ":".join(str(run.work / "entries" / entry) for entry in ("minilm_64", "minilm_1"))
    return {"STOKER_GPU_TEST_PROGRAM": str(run.program("minilm_1")), "STOKER_GPU_TEST_ENTRIES": entries}


def sticky(run: Run) -> list[str] | None:
    """It poisons the process's context: in a process of its own."""
    binary = run.binary("gpu_test")
    return [str(binary), "--gtest_brief=1", "--gtest_filter=*Sticky*"] if binary else None


def sanitizer(run: Run) -> list[str] | None:
    import shutil

    binary, tool = run.binary("gpu_test"), shutil.which("compute-sanitizer")
    if binary is None or tool is None:
        return None
    return [tool, "--tool", "memcheck", "--error-exitcode", "9", str(binary), "--gtest_brief=1"]


def steps() -> Iterable[Step]:
    """Most important first."""
    yield Step("machine", 60, 5, lambda run: run.python("machine"), gpu=False)
    yield Step("gpu_test", 100, 10, gtest, gpu=False, bundled=True)
    yield Step("compile", 270, 30, compiling(*BUCKETS, timeout=250))
    yield Step("two_ops", 25, 5, bench("two_ops_1", 300))
    yield Step("gpu_test_artifacts", 100, 15, gtest, bundled=True, environment=artifacts)
    poison = {"STOKER_GPU_TEST_STICKY": "1"}
    yield Step("gpu_test_sticky", 30, 5, sticky, bundled=True, environment=lambda run: poison)
    for entry, count in (("kernels100_1", 300), ("kernels500_1", 100), ("minilm_1", 200), ("minilm_64", 50)):
        yield Step(entry, 40, 8, bench(entry, count))
        yield Step(f"daemon_{entry}", 30, 5, daemon_bench(entry, count), bundled=True)
    yield Step("gpt2_xl_1", 60, 20, bench("gpt2_xl_1", 30))
    yield Step("serve_minilm", 190, 60, serving("minilm", "ids,mask", "--seconds", 5), needs=("minilm",))
    yield Step("daemon_gpt2_xl_1", 60, 15, daemon_bench("gpt2_xl_1", 30), bundled=True)
    yield Step("gpt2_xl_8", 60, 20, bench("gpt2_xl_8", 30))
    yield Step("daemon_gpt2_xl_8", 60, 15, daemon_bench("gpt2_xl_8", 30), bundled=True)
    yield Step("adam_0", 30, 8, bench("adam_0", 100))
    yield Step("requests", 60, 15, requests("--requests", 10000, "--loads", 100))
    for entry in ("kernels10_1", "images_32"):
        yield Step(entry, 30, 8, bench(entry, 200))
        yield Step(f"daemon_{entry}", 30, 5, daemon_bench(entry, 200), bundled=True)
    yield Step(
        "serve_images", 90, 40, serving("images", "image", "--seconds", 4, "--concurrency", 64), needs=("images",)
    )
    # A start from nothing, and from the cache that it has filled.
    yield Step(
        "serve_gpt2_xl", 240, 120, serving("gpt2_xl", "ids", "--seconds", 4, "--concurrency", 1, 8),
        needs=("gpt2_xl",),
    )  # fmt: skip
    yield Step("sanitizer", 120, 30, sanitizer, bundled=True, environment=artifacts)


def steps_without_gpu() -> Iterable[Step]:
    """That the bundle runs at all."""
    buckets = compiling("two_ops:1", "mlp:8", "mlp:1", "mlp:64", timeout=140)
    yield Step("cpu_compile", 150, 30, buckets, gpu=False, needs=("two_ops", "mlp"))
    yield Step("cpu_two_ops", 30, 5, bench("two_ops_1", 100), gpu=False)
    yield Step("cpu_daemon_two_ops", 30, 5, daemon_bench("two_ops_1", 100), gpu=False, bundled=True)
    yield Step("cpu_requests", 60, 5, requests("--requests", 1000), gpu=False)
    yield Step("cpu_serve", 200, 60, serving("mlp", "x", "--seconds", 2, "--concurrency", 8), gpu=False)


# What is wanted


def ratio(step: str, slow: str, fast: str) -> Callable[[Run], float | None]:
    """Of two tiers as the server's own loader ran them, or else torch's: never of one against the other."""

    def of(run: Run) -> float | None:
        for said in (run.said(f"daemon_{step}"), run.said(step)):
            found = {line["tier"]: line["p50_us"] for line in said if "tier" in line and "p50_us" in line}
            if slow in found and fast in found:
                return found[slow] / found[fast]
        return None

    return of


def largest(*steps: str, key: str, daemon_us: str = "") -> Callable[[Run], float | None]:
    """The largest of a figure that torch's runner gave, and of one of the server's in us, in thousandths."""

    def of(run: Run) -> float | None:
        found = [line[key] for step in steps for line in run.said(step) if key in line]
        if daemon_us:
            found += [
                line[daemon_us] / 1e3
                for step in steps
                for line in run.said(f"daemon_{step}")
                if line.get("tier") in ("aot", "graph") and daemon_us in line
            ]
        return max(found) if found else None

    return of


def served(step: str, loop: str, rows: int, with_copies: bool) -> Callable[[Run], float | None]:
    """Answers per second over what one process computes in a loop: with the copies of inputs and answers, one after
    another, as the server's loader does it alone, or with everything on the device from the start."""

    def of(run: Run) -> float | None:
        alone = [line["per_second"] for line in run.said(f"daemon_{loop}") if "per_second" in line]
        if not (with_copies and alone):
            alone = [1e6 / line["p50_us"] for line in run.said(loop) if line.get("tier") in ("aot", "graph")]
        for line in run.said(step):
            if line.get("concurrency") == 64 and alone:
                return line["step"]["throughput_per_s"] / (rows * max(alone))
        return None

    return of


def check(step: str, what: str) -> Callable[[Run], float | None]:
    def of(run: Run) -> float | None:
        return next((float(line["passed"]) for line in run.said(step) if line.get("check") == what), None)

    return of


@dataclass
class Goal:
    what: str
    value: Callable[[Run], float | None]
    bound: float
    at_least: bool = True
    unit: str = "x"

    def judge(self, run: Run) -> dict[str, Any]:
        value = self.value(run)
        met = None if value is None else (value >= self.bound if self.at_least else value <= self.bound)
        goal = f"{'>=' if self.at_least else '<='} {self.bound:g} {self.unit}".strip()
        return {"what": self.what, "goal": goal, "value": None if value is None else round(value, 3), "met": met}


OPENED = ("two_ops", "kernels10_1", "kernels100_1", "kernels500_1", "minilm_1", "minilm_64", "gpt2_xl_1", "gpt2_xl_8")
GOALS = (
    Goal("GPT-2 XL, batch 1: graph over eager", ratio("gpt2_xl_1", "eager", "graph"), 1.5),
    Goal("GPT-2 XL, batch 8: graph over eager", ratio("gpt2_xl_8", "eager", "graph"), 1.0),
    Goal("GPT-2 XL, batch 1: uncaptured over eager", ratio("gpt2_xl_1", "eager", "aot"), 1.0),
    Goal("GPT-2 XL, batch 8: uncaptured over eager", ratio("gpt2_xl_8", "eager", "aot"), 1.0),
    Goal("10 small kernels: graph over uncaptured", ratio("kernels10_1", "aot", "graph"), 1.5),
    Goal("100 small kernels: graph over uncaptured", ratio("kernels100_1", "aot", "graph"), 1.5),
    Goal("500 small kernels: graph over uncaptured", ratio("kernels500_1", "aot", "graph"), 1.5),
    Goal("MiniLM, batch 1: graph over uncaptured", ratio("minilm_1", "aot", "graph"), 1.5),
    Goal("a small MLP: graph over uncaptured", ratio("requests", "aot", "graph"), 1.5),
    Goal("replay, host time", largest("kernels100_1", "minilm_1", key="replay_host_us"), 15, False, "us"),
    Goal("Adam's step: compiled over eager", ratio("adam_0", "eager", "aot"), 1.9),
    Goal("warm start, 8 buckets", largest("serve_minilm", key="warm_ready_s"), 3, False, "s"),
    Goal("a capture", largest(*OPENED, key="captured_ms", daemon_us="capture_us"), 300, False, "ms"),
    Goal("an artifact opened", largest(*OPENED, key="opened_ms", daemon_us="open_us"), 20, False, "ms"),
    Goal("concurrency 64 over a loop in one process", served("serve_minilm", "minilm_64", 64, True), 0.95),
    Goal("the same with images: copies hidden", served("serve_images", "images_32", 32, False), 0.9),
    Goal("10,000 requests bit-equal", check("requests", "replays are bit-equal"), 1, True, ""),
    Goal("100 times opened: no growth beyond the code", check("requests", "memory after opening again"), 1, True, ""),
)


# The report


def table(run: Run, goals: list[dict[str, Any]]) -> str:
    lines = [f"{'step':<24}{'outcome':<10}{'seconds':>8}"]
    for result in run.results:
        note = result.log.strip().split("\n")[-1] if result.outcome in ("skipped", "passed") else ""
        lines.append(f"{result.name:<24}{result.outcome:<10}{result.seconds:>8}  {note}".rstrip())
    lines += ["", f"{'p50 in us':<24}{'eager':>12}{'aot':>12}{'graph':>12}{'host aot':>12}{'host graph':>12}"]
    for result in run.results:
        by_tier = {line["tier"]: line for line in result.said if "tier" in line}
        if by_tier:
            cells = [by_tier.get(name, {}).get("p50_us") for name in ("eager", "aot", "graph")]
            cells += [by_tier.get(name, {}).get("host_us") for name in ("aot", "graph")]
            lines.append(f"{result.name:<24}" + "".join(f"{'-' if c is None else c:>12}" for c in cells))
    lines += ["", f"{'peak in MiB':<24}{'eager':>12}{'aot':>12}{'graph':>12}"] if run.gpu else []
    for result in run.results:
        peaks = {line["tier"]: line["peak_bytes"] for line in result.said if line.get("peak_bytes")}
        if peaks:
            cells = [f"{peaks[name] / (1 << 20):.0f}" if name in peaks else "-" for name in ("eager", "aot", "graph")]
            lines.append(f"{result.name:<24}" + "".join(f"{cell:>12}" for cell in cells))
    lines += ["", f"{'seconds to ready':<24}{'cold':>12}{'warm':>12}"]
    for result in run.results:
        ready = {key: line[key] for line in result.said for key in ("first_ready_s", "warm_ready_s") if key in line}
        if ready:
            cells = [ready.get(key, "-") for key in ("first_ready_s", "warm_ready_s")]
            lines.append(f"{result.name:<24}" + "".join(f"{cell:>12}" for cell in cells))
    if run.gpu:
        lines += ["", f"{'goal':<48}{'wanted':>12}{'got':>12}"]
        for goal in goals:
            value = "-" if goal["value"] is None else f"{goal['value']:g}"
            mark = {True: "", False: "  MISSED", None: ""}[goal["met"]]
            lines.append(f"{goal['what']:<48}{goal['goal']:>12}{value:>12}{mark}")
    for result in run.results:
        for line in result.said:
            if line.get("passed") is False or "error" in line or line.get("event") == "failed":
                lines += ["", f"{result.name}: {json.dumps(line)[:1500]}"]
        if result.outcome in ("failed", "timeout") and result.log:
            lines += ["", f"{result.name}, the end of its log:", result.log[-2500:]]
    if run.left_out:
        lines += ["", "no time for", *(f"  {what}" for what in run.left_out)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, required=True, help="the unpacked bundle")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder, for some 10 GB")
    parser.add_argument("--out", type=Path, required=True, help="folder for gpu.json and gpu.txt")
    parser.add_argument("--budget-seconds", type=float, default=540)
    parser.add_argument("--library-path", default="")
    parser.add_argument("--outer-library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--only", nargs="*", help="names of steps")
    options = parser.parse_args()
    options.bundle, options.work, options.out = (p.resolve() for p in (options.bundle, options.work, options.out))
    for folder in (options.out, options.work / "logs", options.work / "models", options.work / "entries"):
        folder.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    try:
        first, *others = steps()
        run.run(first)
        run.gpu = bool(run.said("machine") and run.said("machine")[0].get("gpu"))
        if run.gpu:
            run.export(*SMALL)
            run.export("gpt2_xl")
        else:
            run.device = "cpu"
            run.export("two_ops", "mlp")
        for step in others:
            # What there is no GPU for is named as skipped, once.
            if options.only and step.name not in options.only:
                continue
            run.run(step)
        if not run.gpu:
            skipped = {result.name for result in run.results if result.outcome == "skipped"}
            run.results = [result for result in run.results if result.outcome != "skipped"]
            for step in steps_without_gpu():
                run.run(step)
            run.results += [Result(name, "skipped", log="no GPU") for name in sorted(skipped)]
    finally:
        run.close()
        run.write()
    print((options.out / "gpu.txt").read_text())
    bad = [result.name for result in run.results if result.outcome in ("failed", "timeout")]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
