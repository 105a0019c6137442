"""Measures what servers lose beside busy processes, and under a CPU quota.

    python -m loadtest.benchmarks.neighbours --model minilm --size input_ids.0,attention_mask.0=1 \\
        --size input_ids.1,attention_mask.1=32 [--rounds 5] [--seconds 3] [--under-way 1,8,32] \\
        [--neighbours 1] [--quotas 1,0.5] [--cache FOLDER] [--output FILE.json] \\
        --server "stoker=build/release/server/main/stokerd --model-repository=models --cache={cache} ..." \\
        --server "other=..."

Each --server is a name and the command of any server of the Open Inference Protocol, in whose words {port},
{metrics_port} and {cache} are replaced. All are launched and then measured by turns, one at a time, in a new order each
round: quiet, beside so many processes that do nothing but compute (each in a session of its own, as another pod's would
be), and with the server in a control group that may use so many cores. A quota needs the right to make a control group
with the cpu controller, version 1 or 2; without it that part is left out, and the table says so.

A ratio is of the same round: with the neighbour, or the quota, over quiet. Printed are medians, with the quartiles of
the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loadtest import circumstances
from loadtest.benchmarks.cold_start import Launch
from loadtest.servers.process import ServerError
from loadtest.text_table import aligned

LOADTEST = circumstances.REPOSITORY / "build/release/loadtest/stoker-loadtest"
READY_SECONDS = 1800
SETTLE_SECONDS = 1.5  # what a server may take to notice that it is no longer alone, or alone again
WARM_SECONDS = 0.5
PERIOD_US = 100_000
BUSY = "while :; do :; done"
CONTROLLERS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Sample:
    """One server in one round of one condition."""

    server: str
    condition: str
    under_way: int
    round: int
    per_second: float
    p99_ms: float


class ControlGroup:
    """A control group of the cpu controller for a server. Raises OSError where none can be made."""

    def __init__(self, server: Launch) -> None:
        first = CONTROLLERS / "cpu"
        self._v1 = first.is_dir()
        self._parent = first if self._v1 else CONTROLLERS
        self._folder = self._parent / f"stoker-neighbours-{server.process.pid}"
        self._folder.mkdir()
        try:
            if not (self._folder / ("cpu.cfs_quota_us" if self._v1 else "cpu.max")).exists():
                raise OSError(f"{self._folder} has no cpu controller")
            for pid in [server.process.pid, *server.children()]:
                (self._folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            self.close()
            raise

    def limit(self, cores: float | None) -> None:
        quota = round(cores * PERIOD_US) if cores is not None else None
        if self._v1:
            (self._folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota if quota is not None else -1))
        else:
            (self._folder / "cpu.max").write_text(f"{quota if quota is not None else 'max'} {PERIOD_US}")

    def close(self) -> None:
        """When its process has ended, or never came."""
        with suppress(OSError):
            self._folder.rmdir()


@contextmanager
def busy(count: int) -> Iterator[None]:
    processes = [
        subprocess.Popen(["sh", "-c", BUSY], start_new_session=True, stdin=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def stolen_seconds() -> float:
    """Of all CPUs, by the machine under this one, since it was started."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(server: Launch) -> float:
    """Used by the server's processes that there are now."""
    ticks = 0
    for pid in [server.process.pid, *server.children()]:
        with suppress(OSError):  # it ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Benchmark:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = given, folder
        self.samples: list[Sample] = []
        self.left_out = ""

    def run(self) -> None:
        with ExitStack() as made, ExitStack() as stack:  # control groups outlive their processes
            servers = {}
            for name, command in self._given.servers.items():
                cache = self._given.cache or self._folder / f"cache-{name}"
                servers[name] = stack.enter_context(Launch(command, cache, self._folder / f"{name}.log"))
                servers[name].wait_ready(READY_SECONDS, [self._given.model])
                print(f"  {name}: ready after {servers[name].ready_seconds:.1f} s", flush=True)
            groups: dict[str, ControlGroup] = {}
            try:
                if self._given.quotas:
                    groups = {name: made.enter_context(closing(ControlGroup(s))) for name, s in servers.items()}
            except OSError as error:
                self.left_out = f"no quota was measured: {error}"
            self._await_quiet(servers)
            for number in range(self._given.rounds):
                self._round(number, servers, groups)

    def _await_quiet(self, servers: dict[str, Launch]) -> None:
        """Lets servers do what they do after they have become ready: until each has used little for a while."""
        quiet = 0
        while quiet < 5:
            before = sum(map(cpu_seconds, servers.values()))
            time.sleep(1)
            used = sum(map(cpu_seconds, servers.values())) - before
            quiet = quiet + 1 if used < 0.1 else 0

    def _round(self, number: int, servers: dict[str, Launch], groups: dict[str, ControlGroup]) -> None:
        self._measure(number, "quiet", servers)
        with busy(self._given.neighbours):
            self._measure(number, f"{self._given.neighbours} busy", servers)
        for quota in self._given.quotas if groups else []:
            for group in groups.values():
                group.limit(quota)
            self._measure(number, f"quota {quota:g}", servers)
            for group in groups.values():
                group.limit(None)
        print(f"  round {number + 1} of {self._given.rounds}", flush=True)

    def _measure(self, number: int, condition: str, servers: dict[str, Launch]) -> None:
        time.sleep(SETTLE_SECONDS)
        for under_way in self._given.under_way:
            for name in random.sample(sorted(servers), len(servers)):
                self.samples.append(self._sample(number, condition, under_way, name, servers[name]))

    def _sample(self, number: int, condition: str, under_way: int, name: str, server: Launch) -> Sample:
        output = self._folder / "load.json"
        command = [
            str(LOADTEST), "quick", f"--model={self._given.model}", f"--concurrency={under_way}",
            f"--warmup={WARM_SECONDS}", f"--measure={self._given.seconds}",
            f"--connections={min(under_way, 4)}", f"--address={server.address}",
            f"--output={output}", *(f"--size={size}" for size in self._given.size),
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            raise ServerError(f"{name}, {condition}, {under_way} under way: {ended.stderr[-1000:]}")
        (step,) = json.loads(output.read_text())["steps"]
        return Sample(name, condition, under_way, number, step["throughput_per_s"], step["latency_ms"]["p99"])


def ratio(over: dict[int, float], of: dict[int, float]) -> str:
    """Of figures by round."""
    ratios = sorted(value / of[number] for number, value in over.items() if number in of)
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return f"{statistics.median(ratios):.2f} ({low:.2f}-{high:.2f})"


def report(samples: list[Sample]) -> str:
    def of(server: str, condition: str, under_way: int) -> tuple[dict[int, float], dict[int, float]]:
        """Answers per second, and p99, by round."""
        found = [s for s in samples if (s.server, s.condition, s.under_way) == (server, condition, under_way)]
        return {s.round: s.per_second for s in found}, {s.round: s.p99_ms for s in found}

    rows = [["SERVER", "UNDER WAY", "CONDITION", "PER S", "P99 MS", "OF QUIET", "P99 OF QUIET"]]
    for server in sorted({s.server for s in samples}):
        for under_way in dict.fromkeys(s.under_way for s in samples):
            quiet = of(server, "quiet", under_way)
            for condition in dict.fromkeys(s.condition for s in samples):
                rates, tails = of(server, condition, under_way)
                row = [server, str(under_way), condition]
                row += [f"{statistics.median(rates.values()):.1f}", f"{statistics.median(tails.values()):.1f}"]
                if condition != "quiet":
                    row += [ratio(rates, quiet[0]), ratio(tails, quiet[1])]
                rows.append(row + [""] * (len(rows[0]) - len(row)))
    return "\n".join(aligned(rows, left=(0, 2)))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="loadtest.benchmarks.neighbours",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def numbers(text: str) -> list[float]:
        return [float(word) for word in text.split(",")]

    parser.add_argument("--model", required=True)
    parser.add_argument("--size", action="append", default=[], help="as of stoker-loadtest quick")
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--under-way", type=lambda text: [int(n) for n in numbers(text)], default=[1, 8, 32])
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--quotas", type=numbers, default=[], metavar="CORES,...")
    parser.add_argument("--cache", type=Path, help="a fresh folder for each server unless given")
    parser.add_argument("--output", type=Path, help="JSON file")
    given = parser.parse_args(words)
    given.servers = {}
    for server in given.server:
        name, separator, command = server.partition("=")
        if not separator or not command.strip():
            parser.error(f"--server: expected NAME=COMMAND, got '{server}'")
        given.servers[name] = shlex.split(command)
    if not LOADTEST.exists():
        parser.error(f"{LOADTEST} is not built: cmake --build build/release --target stoker-loadtest")
    return given


def main() -> int:
    given = parse(sys.argv[1:])
    stolen, start = stolen_seconds(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="neighbours-") as folder:
        benchmark = Benchmark(given, Path(folder))
        try:
            benchmark.run()
        except ServerError as error:
            print(f"the server {error}", file=sys.stderr)
            return 1
        finally:  # what was measured is worth keeping
            share = (stolen_seconds() - stolen) / (time.monotonic() - start)
            if benchmark.samples and given.output is not None:
                result = {
                    "machine": circumstances.machine(),
                    "commit": circumstances.commit(),
                    "cores_stolen": round(share, 3),
                    "servers": {name: shlex.join(command) for name, command in given.servers.items()},
                    "samples": [vars(sample) for sample in benchmark.samples],
                }
                given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(report(benchmark.samples))
    print(f"stolen by the machine below: {share:.2f} cores")
    if benchmark.left_out:
        print(benchmark.left_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
