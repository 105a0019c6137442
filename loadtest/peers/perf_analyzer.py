"""Runs perf_analyzer, the client that Triton's users measure with, against Stoker and Triton's core."""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtest.peers import REPO, environments, servers
from loadtest.peers.comparison import READY_SECONDS, fill_cache
from loadtest.peers.workspace import Workspace
from loadtest.servers.inference_server import InferenceServer
from loadtest.servers.process import ServerError
from loadtest.text_table import aligned, number

HEAD = ("run", "server", "load", "answers/s", "p50 ms", "p99 ms", "Stoker ×", "")
LEFT = (0, 1, 2, 7)
SWEEP = (1, 8, 32)
STREAMS = 8  # requests under way, over one stream
MODEL = "null"
WINDOWS = 3  # it wants three that agree within a percentage
ANY = "1000000"


@dataclass(frozen=True)
class Run:
    """One call of perf_analyzer. `error` is empty when it ran clean to its end."""

    name: str
    server: str
    load: str
    answers_per_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    error: str = ""


def call(
    name: str, server: str, load: str, flags: list[str], address: str, seconds: float, folder: Path
) -> Run:
    """Runs it for about `seconds`, whether or not its windows agree: a noisy machine is no error."""
    report = folder / "perf_analyzer.csv"
    report.unlink(missing_ok=True)
    environment = environments.environment("perf_analyzer")
    command = [
        str(environment / "bin/perf_analyzer"),
        *("-m", MODEL, "-i", "grpc", "-u", address, "--async", "-f", str(report)),
        *("--measurement-interval", str(int(1000 * seconds / WINDOWS))),
        *("--max-trials", str(WINDOWS), "--stability-percentage", ANY, "--percentile", "99"),
        *flags,
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environments.perf_analyzer_variables(environment),
            timeout=3 * seconds + 60,
        )
    except subprocess.TimeoutExpired:
        return Run(name, server, load, error=f"no end within {3 * seconds + 60:.0f} s")
    if done.returncode != 0 or not report.is_file():
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        return Run(name, server, load, error=f"ended with {done.returncode}: {' '.join(said)}")
    return Run(name, server, load, *read_report(report.read_text()))


def read_report(text: str) -> tuple[float, float, float]:
    """Answers per second, p50 and p99 in ms, of a report with one line."""
    lines = list(csv.DictReader(text.splitlines()))
    if len(lines) != 1:
        raise ValueError(f"expected a report of one line, got {len(lines)}:\n{text}")
    line = lines[0]
    return (
        float(line["Inferences/Second"]),
        float(line["p50 latency"]) / 1e3,
        float(line["p99 latency"]) / 1e3,
    )


class Analyzer:
    """Calls perf_analyzer on one server."""

    def __init__(self, server: str, process: InferenceServer, folder: Path) -> None:
        self._server, self._process, self._folder = server, process, folder

    def run(self, name: str, load: str, seconds: float, *flags: str) -> Run:
        made = call(name, self._server, load, list(flags), self._process.address, seconds, self._folder)
        print(
            f"  {made.server:<14} {name}, {load}: {made.error or f'{made.answers_per_s:,.0f}/s'}", flush=True
        )
        return made

    def sweep(self, seconds: float) -> list[Run]:
        """Closed loops at 1, 8 and 32 under way that take `seconds` together."""
        return [
            self.run("closed loop", f"{n} under way", seconds / len(SWEEP), "--concurrency-range", str(n))
            for n in SWEEP
        ]

    def stream(self, seconds: float) -> Run:
        flags = ("--streaming", "--concurrency-range", str(STREAMS))
        return self.run("streaming", f"{STREAMS} under way", seconds, *flags)

    def request_rate(self, rate: int, seconds: float) -> Run:
        flags = ("--request-rate-range", str(rate), "--request-distribution", "poisson")
        return self.run("request rate", f"{rate:,}/s, Poisson", seconds, *flags)


def all_of_stoker(analyzer: Analyzer, seconds: float) -> list[Run]:
    runs = analyzer.sweep(seconds)
    runs.append(analyzer.stream(seconds))
    # Half of what a closed loop got: near what it can send itself, perf_analyzer delays requests.
    rate = max(1, round(runs[SWEEP.index(8)].answers_per_s / 2))
    runs.append(analyzer.request_rate(rate, seconds))
    return runs


def render(runs: list[Run]) -> str:
    ours = {(run.name, run.load): run for run in runs if run.server == servers.STOKER}
    lines: list[tuple[str, ...]] = [HEAD]
    for run in runs:
        mine = ours.get((run.name, run.load))
        times = (
            mine.answers_per_s / run.answers_per_s if mine and run.answers_per_s and mine is not run else None
        )
        figures = (run.answers_per_s, 0), (run.p50_ms, 3), (run.p99_ms, 3)
        cells = tuple("–" if run.error else number(value, digits) for value, digits in figures)
        lines.append(
            (run.name, run.server, run.load, *cells, "" if times is None else f"{times:.2f}", run.error)
        )
    return "\n".join(aligned(lines, LEFT))


def measure(build: Path, cache: Path, minilm: Path, seconds: float) -> int:
    """Installs what it needs, prints the table; 1 when a run didn't end clean."""
    for peer in ("perf_analyzer", "triton"):
        print(f"  {peer}: {environments.install(peer)}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="stoker-perf-analyzer-", dir=REPO / "build"))
    runs: list[Run] = []
    try:
        workspace = Workspace(folder, build.resolve(), cache.resolve(), minilm.resolve())
        models = (MODEL,)
        fill_cache(workspace, (models,))
        with servers.start_stoker(workspace, models) as process:
            process.wait_ready(READY_SECONDS, models)
            runs += all_of_stoker(Analyzer(servers.STOKER, process, folder), seconds)
        with servers.start_triton_core(workspace, models) as process:
            process.wait_ready(READY_SECONDS, models)
            runs += Analyzer("Triton's core", process, folder).sweep(seconds)
    except ServerError as error:
        runs.append(Run("start", "", "", error=str(error)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{render(runs)}\n")
    return int(any(run.error for run in runs))
