"""Measures all servers in rounds and writes one table.

One server runs at a time. In each round every server runs once, and those of one scenario stand
next to each other, so that a noisy hour hits all alike; every second round goes backwards.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from loadtest.circumstances import commit, machine, torch_version
from loadtest.peers import REPO, environments, servers, table
from loadtest.peers.answers import AnswerCheck
from loadtest.peers.offline import LOOP, OfflineLoop
from loadtest.peers.scenarios import SCENARIOS, LoadError, Seconds, drive
from loadtest.peers.workspace import MINILM_YAML, Workspace
from loadtest.servers.process import ServerError

READY_SECONDS = 180
FILL_SECONDS = 3600
NOT_INSTALLED = "not installed"
RESULTS = REPO / "loadtest/results"


@dataclass(frozen=True)
class Plan:
    """How long everything takes: `null` for what computes nothing, `minilm` for the demo model."""

    rounds: int
    null: Seconds
    minilm: Seconds
    every: int  # sentence of the in-process loop

    def seconds(self, scenario: str) -> Seconds:
        return self.minilm if SCENARIOS[scenario].model == "minilm" else self.null


FULL = Plan(rounds=3, null=Seconds(1, 4), minilm=Seconds(3, 8), every=1)
QUICK = Plan(rounds=1, null=Seconds(0.5, 1.5), minilm=Seconds(1.5, 3.5), every=8)


class Comparison:
    def __init__(self, workspace: Workspace, plan: Plan) -> None:
        self._workspace, self._plan = workspace, plan
        self._rows: dict[tuple[str, int, str], table.Row] = {}
        self._versions: dict[str, str] = {}
        self._failed: dict[str, str] = {}  # server → why it's out
        self._mistakes: dict[str, str] = {}  # server → what was wrong with its answers
        self._loop = OfflineLoop(workspace, plan.minilm, plan.every)
        self._check = AnswerCheck(workspace)

    @property
    def rows(self) -> list[table.Row]:
        """By scenario and requests under way, then as the servers are listed."""
        order = [launch.server for launch in servers.launches()] + [LOOP]
        steps = [(s.title, count) for s in SCENARIOS.values() for count in s.in_flight]
        return sorted(
            self._rows.values(),
            key=lambda row: (steps.index((row.scenario, row.in_flight)), order.index(row.server)),
        )

    @property
    def versions(self) -> dict[str, str]:
        return dict(self._versions)

    @property
    def failed(self) -> dict[str, str]:
        return dict(self._failed)

    @property
    def mistakes(self) -> dict[str, str]:
        return dict(self._mistakes)

    def run(self) -> None:
        for number in range(self._plan.rounds):
            launches = [launch for launch in servers.launches() if self._can_run(launch)]
            for launch in launches if number % 2 == 0 else reversed(launches):
                if launch.server not in self._failed:
                    self._measure(launch, number)
            for scenario in ("minilm_32", "minilm_mixed"):
                self._measure_loop(scenario, number)

    def _can_run(self, launch: servers.Launch) -> bool:
        if launch.peer is None or environments.installed(launch.peer):
            return True
        self._failed.setdefault(
            launch.server, f"{NOT_INSTALLED}: python -m loadtest.peers install {launch.peer}"
        )
        return False

    def _measure(self, launch: servers.Launch, number: int) -> None:
        start = time.monotonic()
        taken: dict[tuple[str, int], table.Sample] = {}
        try:
            with launch.start(self._workspace, launch.models) as server:
                server.wait_ready(READY_SECONDS, launch.models)
                self._versions[launch.server] = server.version
                for name in launch.scenarios:
                    # An echo's rows are not the program's.
                    echo = launch.server == servers.ECHO
                    mistake = "" if echo else self._check.mistake(name, server.address)
                    if mistake:
                        self._mistakes[launch.server] = mistake
                    samples = drive(name, server.address, self._workspace, self._plan.seconds(name))
                    taken |= {(name, n): replace(sample, mistake=mistake) for n, sample in samples.items()}
                resident = server.resident_bytes() / 1e6
                ready = server.ready_seconds
        except (ServerError, LoadError) as error:
            self._failed[launch.server] = str(error)
            print(f"  {launch.server}: {error}", flush=True)
            return
        for (name, count), sample in taken.items():
            self._add(
                name,
                count,
                launch.server,
                launch.settings,
                number,
                replace(sample, ready_s=ready, resident_mb=resident),
            )
        self._say(number, launch.server, launch.models, start)

    def _measure_loop(self, scenario: str, number: int) -> None:
        start = time.monotonic()
        for count, (batch, sample) in self._loop.measure(scenario).items():
            self._add(scenario, count, LOOP, batch, number, sample)
        self._say(number, LOOP, (scenario,), start)

    def _add(
        self, scenario: str, count: int, server: str, settings: str, number: int, sample: table.Sample
    ) -> None:
        title = SCENARIOS[scenario].title
        row = self._rows.setdefault((title, count, server), table.Row(title, count, server, settings))
        row.rounds[number] = sample

    def _say(self, number: int, server: str, what: tuple[str, ...], start: float) -> None:
        seconds = time.monotonic() - start
        where = f"round {number + 1} of {self._plan.rounds}"
        print(f"  {where}  {server:<17} {', '.join(what):<16} {seconds:5.1f} s", flush=True)


def fill_cache(workspace: Workspace, groups: Sequence[tuple[str, ...]]) -> None:
    """Starts Stoker once on each group of models and waits until nothing is left to compile."""
    start = time.monotonic()
    print("  Stoker's kernel cache: compiling what it lacks; minutes for an empty one", flush=True)
    for models in groups:
        with servers.start_stoker(workspace, models) as server:
            server.wait_ready(FILL_SECONDS, models)
        log = workspace.log("stoker").read_text(errors="replace")
        for line in log.splitlines():
            if "stays on eager" in line:
                print(f"  NOT COMPILED {line.split('warning', 1)[-1].strip()}", flush=True)
    print(f"  the cache is full after {time.monotonic() - start:.0f} s", flush=True)


def compare(plan: Plan, build: Path, cache: Path, minilm: Path, output: Path | None) -> int:
    """Prints the table, writes `output`; 1 when a server could not be measured or answered wrongly."""
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="stoker-peers-", dir=REPO / "build"))
    try:
        workspace = Workspace(folder, build.resolve(), cache.resolve(), minilm.resolve())
        fill_cache(workspace, (servers.NULLS, servers.MINILM))
        comparison = Comparison(workspace, plan)
        comparison.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - start) / 60
    print(f"\n{table.render(comparison.rows, servers.STOKER)}\n")
    print(
        f"Medians of {plan.rounds} rounds, {minutes:.1f} minutes. "
        "Stoker ×: its answers/s over the server's, in the same round."
    )
    for server, why in comparison.failed.items():
        print(f"{server}: NOT MEASURED: {why}")
    for server, mistake in comparison.mistakes.items():
        print(f"{server}: WRONG ANSWERS: {mistake}")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result_json(comparison, plan), indent=1) + "\n")
        print(f"written to {output}")
    failed = [why for why in comparison.failed.values() if not why.startswith(NOT_INSTALLED)]
    return int(bool(failed or comparison.mistakes))


def result_json(comparison: Comparison, plan: Plan) -> dict[str, object]:
    times = table.ratios(comparison.rows, servers.STOKER)
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "commit": commit(),
        "versions": comparison.versions | {"torch": torch_version()},
        "rounds": plan.rounds,
        "seconds": {"null": vars(plan.null), "minilm": vars(plan.minilm)},
        "stoker_buckets": MINILM_YAML["buckets"],
        "not_measured": comparison.failed,
        "wrong_answers": comparison.mistakes,
        "rows": [table.row_json(row, times[id(row)]) for row in comparison.rows],
    }
