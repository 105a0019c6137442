"""Measures what it costs to serve more models than the memory budget holds.

    python -m loadtest.benchmarks.resting_models --model FOLDER --cache FOLDER --size ids.1=16 \\
        [--models 200] [--fit 20] [--cold 400] [--warm 400] [--rounds 5] [--output FILE.json]

Makes a repository of so many copies of a model's folder (hard links: one file in the page cache, so what is
measured is the load and not the disk) and serves it twice, from a cache that holds its code: with a budget for
`fit` of them, and the first `fit` alone without a budget. Asks, one request at a time,

* models that rest, in an order drawn at random, each of which has to be loaded for its answer: cold;
* the same `fit` models, by turns, of both daemons in turns: warm, and what the budget costs those that are there.

A request that fails is an error. The budget is a multiple of what one version says to take.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from loadtest.benchmarks.cold_start import make_request
from loadtest.servers.stokerd import Daemon

READY_SECONDS = 1800


@dataclass(frozen=True)
class Figures:
    """Latencies in ms, and the daemon's resident memory in bytes after each cold request."""

    version_bytes: float
    budget_bytes: int
    ready_seconds: float
    cold_ms: list[float]
    most_counted_bytes: float
    resident_bytes: list[int]
    # By round.
    warm_ms: list[list[float]]
    without_budget_ms: list[list[float]]


def copies(model: Path, repository: Path, count: int) -> list[str]:
    """Models of the same files."""
    names = [f"model_{number:03}" for number in range(count)]
    for name in names:
        shutil.copytree(model, repository / name, copy_function=os.link)
    return names


def resident(daemon: Daemon) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


class Asks:
    """One request at a time, of any model of a daemon."""

    def __init__(self, daemon: Daemon, example: str, sizes: dict[str, int], ranges: dict[str, tuple[int, int]]) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{daemon.port}")
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        metadata = self.stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=example), timeout=10)
        self.request = make_request(metadata, sizes, ranges)

    def __enter__(self) -> Asks:
        return self

    def __exit__(self, *error: object) -> None:
        self.channel.close()

    def ms(self, model: str) -> float:
        self.request.model_name = model
        start = time.perf_counter()
        self.stub.ModelInfer(self.request, timeout=60)
        return 1e3 * (time.perf_counter() - start)


def resting(daemon: Daemon) -> list[str]:
    return [
        labels["model"]
        for labels, value in daemon.samples("stoker_model_state")
        if labels["state"] == "resting" and value == 1
    ]


def measure(arguments: argparse.Namespace, folder: Path) -> Figures:
    flags = ("--no-compile", "--log-level=info")
    names = copies(arguments.model, folder / "models", arguments.models)
    copies(arguments.model, folder / "few", arguments.fit)
    with ExitStack() as stack:
        few = stack.enter_context(Daemon(folder / "few", arguments.cache, folder / "few.log", *flags))
        few.wait_ready(READY_SECONDS)
        plain = stack.enter_context(Asks(few, names[0], arguments.size, arguments.range))
        for name in names[: arguments.fit]:
            plain.ms(name)
        each = few.metric("stoker_version_memory_bytes", model=names[0])
        budget = int((arguments.fit + 0.5) * each)
        began = time.monotonic()
        many = stack.enter_context(
            Daemon(folder / "models", arguments.cache, folder / "many.log", *flags, f"--memory-budget={budget}")
        )
        many.wait_ready(READY_SECONDS)
        ready = time.monotonic() - began
        asks = stack.enter_context(Asks(many, names[0], arguments.size, arguments.range))
        print(f"{each / 2**20:.0f} MB a version; ready after {ready:.0f} s, {len(resting(many))} rest", flush=True)

        draw = random.Random(1)
        cold: list[float] = []
        memory: list[int] = []
        counted = 0.0
        while len(cold) < arguments.cold:
            cold.append(asks.ms(draw.choice(resting(many))))
            memory.append(resident(many))
            counted = max(counted, many.metric("stoker_version_memory_bytes"))
        warm: list[list[float]] = []
        without: list[list[float]] = []
        # From here on these are there.
        for name in names[: arguments.fit] * 2:
            asks.ms(name)
        unloads = many.metric("stoker_idle_unloads_total")
        for _ in range(arguments.rounds):
            for latencies, client in ((warm, asks), (without, plain)):
                latencies.append([client.ms(names[turn % arguments.fit]) for turn in range(arguments.warm)])
        if many.metric("stoker_idle_unloads_total") != unloads:
            raise SystemExit("expected warm models to stay in memory, some went to rest")
        return Figures(each, budget, ready, cold, counted, memory, warm, without)


def percentiles(latencies: Iterable[float]) -> str:
    p50, p90, p99, worst = np.percentile(list(latencies), [50, 90, 99, 100])
    return f"p50 {p50:.2f} ms, p90 {p90:.2f}, p99 {p99:.2f}, worst {worst:.2f}"


def show(figures: Figures) -> None:
    print(f"cold: {percentiles(figures.cold_ms)} of {len(figures.cold_ms)}")
    print(f"warm: {percentiles(ms for one in figures.warm_ms for ms in one)}")
    print(f"warm, no budget: {percentiles(ms for one in figures.without_budget_ms for ms in one)}")
    for what, share in (("p50", 50), ("p99", 99)):
        ratios = sorted(
            np.percentile(own, share) / np.percentile(other, share)
            for own, other in zip(figures.warm_ms, figures.without_budget_ms, strict=True)
        )
        print(f"warm {what} over no budget: {statistics.median(ratios):.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})")
    print(
        f"counted at most {figures.most_counted_bytes / figures.budget_bytes:.2f} of the budget of "
        f"{figures.budget_bytes / 2**20:.0f} MB; resident {min(figures.resident_bytes) / 2**20:.0f} to "
        f"{max(figures.resident_bytes) / 2**20:.0f} MB"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of a model, with its model.yaml")
    parser.add_argument("--cache", type=Path, required=True, help="kernel cache that holds its code and verdicts")
    parser.add_argument("--size", action="append", default=[], metavar="INPUT.AXIS=N")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW..HIGH")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--fit", type=int, default=20)
    parser.add_argument("--cold", type=int, default=400)
    parser.add_argument("--warm", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    arguments.size = {name: int(size) for name, _, size in (one.partition("=") for one in arguments.size)}
    bounds = ((name, text.split("..")) for name, _, text in (one.partition("=") for one in arguments.range))
    arguments.range = {name: (int(low), int(high)) for name, (low, high) in bounds}
    return arguments


def main() -> int:
    arguments = parse()
    # Hard links don't leave a file system.
    folder = Path(tempfile.mkdtemp(prefix=".resting_models-", dir=arguments.model.resolve().parent))
    try:
        figures = measure(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(figures)
    if arguments.output:
        arguments.output.write_text(json.dumps(asdict(figures)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
