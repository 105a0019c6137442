"""The limit of the demo model: its artifacts run in process, by loadtest/benchmarks/offline_loop.cc."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from loadtest.peers.scenarios import SCENARIOS, Seconds, sentence_lengths
from loadtest.peers.table import Sample
from loadtest.peers.workspace import BATCHES, TOKENS, Workspace

LOOP = "in-process loop"
CORES = len(os.sched_getaffinity(0))
BUCKET = re.compile(r"batch=(\d+),tokens=(\d+)")


def demo_artifacts(cache: Path, model: Path) -> dict[tuple[int, int], Path]:
    """The cache's entries for the model at `model`, by (batch, tokens).

    Of several for one bucket, the newest.
    """
    found: dict[tuple[int, int], tuple[float, Path]] = {}
    for manifest in cache.glob("v1/entries/*/*/manifest.json"):
        fields = json.loads(manifest.read_text())
        match = BUCKET.fullmatch(fields["bucket"])
        if match is None or fields["model"].split(":")[0] != model.parents[1].name:
            continue
        bucket, written = (int(match[1]), int(match[2])), manifest.stat().st_mtime
        if bucket not in found or written > found[bucket][0]:
            found[bucket] = (written, manifest.parent)
    return {bucket: folder for bucket, (_, folder) in found.items()}


class OfflineLoop:
    """Finds the best batch size in the first round, and runs that one from then on."""

    def __init__(self, workspace: Workspace, seconds: Seconds, every: int) -> None:
        """`every`: of the sentences, sorted by length, take each n-th (a quick run's)."""
        self._workspace, self._seconds, self._every = workspace, seconds, every
        self._artifacts = demo_artifacts(workspace.cache, workspace.minilm)
        self._best: dict[str, int] = {}

    def measure(self, scenario: str) -> dict[int, tuple[str, Sample]]:
        """By requests under way: the batch size as text, and the sentences per second.

        With one request under way a server has nothing to batch, so there the limit is batch 1.
        """
        in_flight = SCENARIOS[scenario].in_flight
        batches = {self._best[scenario]} if scenario in self._best else set(BATCHES)
        if 1 in in_flight:
            batches.add(1)
        rates = self._run(scenario, batches)
        self._best.setdefault(scenario, max(rates, key=rates.__getitem__))
        chosen = {count: 1 if count == 1 else self._best[scenario] for count in in_flight}
        return {count: (f"batch {batch}", Sample(rates[batch])) for count, batch in chosen.items()}

    def _run(self, scenario: str, batches: set[int]) -> dict[int, float]:
        lengths = sorted(sentence_lengths(scenario, self._workspace, self._seconds))[:: self._every]
        sizes = self._workspace.folder / f"{scenario}.csv"
        sizes.write_text("tokens\n" + "".join(f"{length}\n" for length in lengths))
        wanted = [(batch, tokens) for batch in sorted(batches) for tokens in TOKENS]
        missing = [bucket for bucket in wanted if bucket not in self._artifacts]
        if missing:
            raise FileNotFoundError(f"{self._workspace.cache} holds no artifact for batch, tokens = {missing[0]}")
        command = [
            str(self._workspace.build / "loadtest/offline_loop"),
            f"--program={self._workspace.minilm}",
            f"--sizes={sizes}",
            f"--seconds={self._seconds.measure}",
            f"--threads={CORES}",
            *(f"--artifact={batch},{tokens}={self._artifacts[batch, tokens]}" for batch, tokens in wanted),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        return {int(batch): rate for batch, rate in json.loads(done.stdout)["per_second"].items()}
