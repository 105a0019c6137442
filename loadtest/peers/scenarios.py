"""What every server is measured in: the project's scenario files, with the steps of a comparison."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from loadtest.peers.table import Sample
from loadtest.peers.workspace import Workspace

FILES = Path(__file__).resolve().parents[1] / "scenarios"


@dataclass(frozen=True)
class Scenario:
    """A file of loadtest/scenarios, and how many requests are under way in each step."""

    title: str
    file: str
    model: str
    in_flight: tuple[int, ...]


SCENARIOS = {
    "null": Scenario("null model", "null_closed.yaml", "null", (1, 8, 32, 64)),
    "payload": Scenario("600 KB payload", "payload_600kb.yaml", "payload", (8,)),
    "minilm_32": Scenario("MiniLM, 32 tokens", "minilm_32_tokens.yaml", "minilm", (1, 32)),
    "minilm_mixed": Scenario("MiniLM, 8 to 128 tokens", "minilm_mixed.yaml", "minilm", (32,)),
}


@dataclass(frozen=True)
class Seconds:
    """Of warm-up and of measuring, for each step."""

    warmup: float
    measure: float


class LoadError(Exception):
    """stoker-loadtest refused or failed; its own words are in the text."""


def scenario_file(name: str, workspace: Workspace, seconds: Seconds) -> Path:
    """The scenario with this comparison's steps and times."""
    scenario = SCENARIOS[name]
    fields = yaml.safe_load((FILES / scenario.file).read_text())
    fields["warmup_seconds"], fields["measure_seconds"] = seconds.warmup, seconds.measure
    fields["steps"] = [{"closed": list(scenario.in_flight)}]
    path = workspace.folder / f"{name}.yaml"
    path.write_text(json.dumps(fields))  # JSON is YAML
    return path


def drive(name: str, address: str, workspace: Workspace, seconds: Seconds) -> dict[int, Sample]:
    """Loads the server at `address`; samples by requests under way. Raises LoadError."""
    output = workspace.folder / "result.json"
    output.unlink(missing_ok=True)
    command = [
        str(workspace.build / "loadtest/stoker-loadtest"),
        "run",
        str(scenario_file(name, workspace, seconds)),
        f"--address={address}",
        f"--output={output}",
    ]
    steps = len(SCENARIOS[name].in_flight)
    limit = 60 + steps * (seconds.warmup + seconds.measure + 30)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{name}: no result within {limit:.0f} s") from None
    if done.returncode != 0:
        raise LoadError(f"{name}: {done.stderr.strip()}")
    return {
        step["load"]["concurrency"]: Sample(
            answers_per_s=step["throughput_per_s"],
            p50_ms=step["latency_ms"]["p50"],
            p99_ms=step["latency_ms"]["p99"],
            errors=step["requests"]["measured"] - step["requests"]["measured_ok"],
            client_limited=step["client"]["limited"],
        )
        for step in json.loads(output.read_text())["steps"]
    }


def sentence_lengths(name: str, workspace: Workspace, seconds: Seconds) -> list[int]:
    """The tokens of the very sentences that the scenario sends."""
    command = [
        str(workspace.build / "loadtest/stoker-loadtest"),
        "sizes",
        str(scenario_file(name, workspace, seconds)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.splitlines()[1:]]
