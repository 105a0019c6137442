"""The load generator and its companions against a real stokerd: what they report is what it counted."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from tests import models  # noqa: E402
from tests.integration.daemon import STOKERD, Daemon  # noqa: E402

TOOLS = Path(os.environ.get("STOKER_LOADTEST_FOLDER", REPO / "build/release/loadtest"))
LOADTEST, ECHO = TOOLS / "stoker-loadtest", TOOLS / "echo_server"
SECONDS = 120

SCENARIO = """\
model: tokens
messages: 16
warmup_seconds: 0.2
measure_seconds: 0.6
window_seconds: 0.2
slo: {latency_ms: 10000}
check_answers: true
dimensions:
  tokens: {axes: [ids.1, mask.1], sizes: {uniform: [2, 32]}}
inputs:
  ids: {range: [0, 99]}
  mask: {range: [1, 1]}
steps:
  - closed: [1, 4]
  - open: {arrivals: poisson, rate: 100}
  - open: {arrivals: constant, rate: 50}
"""


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(LOADTEST), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, cwd=REPO)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("serving")
    models.write("tokens", folder / "models")
    with Daemon(folder / "models", folder / "cache", folder / "stokerd.log", "--no-compile") as running:
        running.wait_ready()
        yield running


def served(daemon: Daemon, outcome: str = "ok") -> float:
    return daemon.metric("stoker_requests_total", model="tokens", outcome=outcome)


def run_scenario(daemon: Daemon, folder: Path, text: str) -> tuple[dict, str]:
    """The result, and the report."""
    (folder / "scenario.yaml").write_text(text)
    done = tool(
        "run", folder / "scenario.yaml", "--address", daemon.address,
        "--server-pid", daemon.process.pid, "--metrics", f"http://127.0.0.1:{daemon.metrics_port}/metrics",
        "--output", folder / "result.json", "--html", folder / "report.html", "--label", "commit=abc",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "result.json").read_text()), (folder / "report.html").read_text()


def test_counts_agree_with_the_servers_own(daemon: Daemon, tmp_path: Path) -> None:
    before = served(daemon)
    result, report = run_scenario(daemon, tmp_path, SCENARIO)
    steps = result["steps"]
    assert [step["name"] for step in steps] == [
        "closed, 1 under way", "closed, 4 under way", "poisson, 100/s", "constant, 50/s"
    ]  # fmt: skip
    for step in steps:
        assert step["errors"] == {}
        assert step["requests"]["total"] == step["requests"]["total_ok"]
        assert step["requests"]["cut_off"] == 0
        assert step["latency_ms"]["count"] == step["requests"]["measured_ok"] > 0
        assert sum(window["ok"] for window in step["windows"]) == pytest.approx(
            step["throughput_per_s"] * step["measured_seconds"]
        )
    # One more than was loaded: the request that is tried first.
    assert served(daemon) - before == sum(step["requests"]["total"] for step in steps) + 1
    assert steps[3]["load"]["due"] == 30
    assert steps[3]["requests"]["measured"] == 30
    for field in ("queue_ms", "assemble_ms", "execute_ms", "request_ms"):
        assert steps[1]["server"][field]["mean"] > 0, field
    assert steps[1]["server"]["requests_per_batch"] >= 1
    memory = steps[1]["server"]["resident_mb"]
    assert 20 < memory["first"] <= memory["max"] < 4000
    assert result["labels"] == {"commit": "abc"}
    assert result["server"]["name"] == "stoker"
    assert "closed, 4 under way" in report


def test_streams_count_the_same(daemon: Daemon, tmp_path: Path) -> None:
    before = served(daemon)
    result, _ = run_scenario(daemon, tmp_path, "stream: true\n" + SCENARIO)
    assert result["scenario"]["method"] == "ModelStreamInfer"
    assert all(step["errors"] == {} for step in result["steps"])
    assert served(daemon) - before == sum(step["requests"]["total"] for step in result["steps"]) + 1


def test_the_search_finds_a_rate_and_later_steps_use_it(daemon: Daemon, tmp_path: Path) -> None:
    text = SCENARIO[: SCENARIO.index("steps:")] + (
        "steps:\n"
        "  - search: {min_rate: 20, max_rate: 40, confirmations: 1}\n"
        "  - open: {arrivals: constant, rate_of_peak: 0.5}\n"
    )
    result, report = run_scenario(daemon, tmp_path, text)
    search, half = result["steps"]
    assert search["search"]["rate_per_s"] == 40
    assert [trial["meets"] for trial in search["search"]["trials"]] == [True, True]
    assert half["load"]["rate_per_s"] == 20
    assert "40.00 requests/s" in report


def test_a_recorded_trace_is_replayed(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("tokens,offset_ms\n4,0\n32,5\n9,10\n")
    text = "trace: trace.csv\n" + SCENARIO[: SCENARIO.index("steps:")].replace("sizes: {uniform: [2, 32]}", "")
    text = text.replace("[ids.1, mask.1], }", "[ids.1, mask.1]}") + "steps: [{open: {arrivals: trace, speed: 0.5}}]\n"
    result, _ = run_scenario(daemon, tmp_path, text)
    assert result["scenario"]["distinct_requests"] == 3
    # Every 10 ms at half speed.
    assert result["steps"][0]["load"]["rate_per_s"] == pytest.approx(100)
    assert result["steps"][0]["requests"]["measured_ok"] == 60


def test_values_that_the_model_refuses_are_said_before_any_load(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SCENARIO.replace("[0, 99]", "[100, 200]"))
    done = tool("run", tmp_path / "bad.yaml", "--address", daemon.address)
    assert done.returncode == 1
    assert "trying one request of tokens" in done.stderr


def test_a_bad_scenario_names_its_line(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SCENARIO.replace("messages: 16", "mesages: 16"))
    done = tool("run", tmp_path / "bad.yaml", "--address", daemon.address)
    assert done.returncode == 1
    assert "bad.yaml:2: mesages: " in done.stderr and "did you mean messages?" in done.stderr


def test_a_quick_run_needs_no_file(daemon: Daemon) -> None:
    done = tool(
        "quick", "--address", daemon.address, "--model", "tokens", "--size", "ids.1,mask.1=uniform:2:32",
        "--range", "ids=0:99", "--range", "mask=1:1", "--concurrency", "1,2", "--rate", "50",
        "--warmup", "0", "--measure", "0.3", "--check",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("closed, 1 under way", "closed, 2 under way", "poisson, 50/s"):
        assert name in done.stdout


def test_a_server_that_is_not_there_is_named() -> None:
    done = tool("quick", "--address", "127.0.0.1:1", "--model", "tokens")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr


def test_sizes_are_a_trace_that_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    lines = tool("sizes", tmp_path / "scenario.yaml").stdout.splitlines()
    assert lines[0] == "tokens"
    assert len(lines) == 17
    assert all(2 <= int(line) <= 32 for line in lines[1:])


@pytest.mark.parametrize("form", ["raw", "parsed"])
@pytest.mark.parametrize("api", ["callback", "async"])
def test_the_echo_server_answers_rightly(form: str, api: str) -> None:
    command = [str(ECHO), "--form", form, "--api", api, "--input", "x:FP32:-1,600", "--output", "y:FP32:-1,16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echo:
        try:
            assert echo.stdout is not None
            address = f"127.0.0.1:{int(echo.stdout.readline())}"
            done = tool(
                "quick", "--address", address, "--model", "null", "--size", "x.0=uniform:1:4", "--concurrency", 8,
                "--warmup", "0", "--measure", "0.3", "--check",
            )  # fmt: skip
        finally:
            echo.kill()
    assert done.returncode == 0, done.stderr
    # A step whose answers failed the check names their code.
    assert re.search(r"closed, 8 under way .* 0$", done.stdout, re.MULTILINE), done.stdout


def test_cold_start_measures_every_phase(tmp_path: Path) -> None:
    models.write("tokens", tmp_path / "models")
    command = [
        sys.executable, "-m", "loadtest.benchmarks.cold_start", "--model", "tokens", "--size", "ids.1,mask.1=8",
        "--range", "ids=0:99", "--runs", "2", "--cold", "--no-compiled", "--output", tmp_path / "cold.json", "--",
        STOKERD, "--model-repository", tmp_path / "models", "--cache={cache}", "--listen=127.0.0.1:{port}",
        "--metrics-listen=127.0.0.1:{metrics_port}", "--http-listen=none", "--no-compile",
    ]  # fmt: skip
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=SECONDS, cwd=REPO)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "cold.json").read_text())
    assert len(result["runs"]) == 2
    for run in result["runs"]:
        assert 0 < run["seconds"]["listening"] <= run["seconds"]["answer"]
        assert run["seconds"]["listening"] <= run["seconds"]["ready"]
    assert set(result["phases"]) == {"listening", "ready", "answer"}


def test_neighbours_and_quotas_are_measured(tmp_path: Path) -> None:
    models.write("tokens", tmp_path / "models")
    server = shlex.join([
        str(STOKERD), f"--model-repository={tmp_path / 'models'}", "--cache={cache}", "--no-compile",
        "--listen=127.0.0.1:{port}", "--metrics-listen=127.0.0.1:{metrics_port}", "--http-listen=none",
    ])  # fmt: skip
    command = [
        sys.executable, "-m", "loadtest.benchmarks.neighbours", "--model=tokens", "--size=ids.0,mask.0=1",
        "--size=ids.1,mask.1=8", "--rounds=1", "--seconds=0.3", "--under-way=1,2", "--quotas=0.5",
        f"--output={tmp_path / 'result.json'}", f"--server=this={server}", f"--server=that={server} --fixed-threads",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=REPO)
    assert ended.returncode == 0, ended.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    conditions = ["quiet", "1 busy", "quota 0.5"]
    if "no quota was measured" in ended.stdout:
        conditions.pop()
    found = [(s["server"], s["condition"], s["under_way"]) for s in result["samples"]]
    assert sorted(found) == sorted((s, c, n) for s in ("this", "that") for c in conditions for n in (1, 2))
    assert all(sample["per_second"] > 0 for sample in result["samples"])
    header, *lines = [line for line in ended.stdout.splitlines() if re.match(r"SERVER|this|that", line)]
    assert "OF QUIET" in header and len(lines) == len(found)


def test_cold_start_says_why_a_server_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.benchmarks.cold_start", "--model", "x", "--", STOKERD]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=SECONDS, cwd=REPO)
    assert done.returncode == 1
    assert "the server ended with 2" in done.stderr and "--model-repository is required" in done.stderr
