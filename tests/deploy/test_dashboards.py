"""The dashboards are what their script writes, fit Grafana's schema, and every query has data.

Three daemons are scraped by a real Prometheus while tritonclient loads them. One starts with an empty cache and
compiles, one is frozen with an empty cache, one is frozen with the first one's cache as a layer. Together they show
everything that a panel asks for, but for GPUs: what is asked of those comes from a target that is made up.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
import yaml
from tritonclient.utils import InferenceServerException

from tests import models
from tests.deploy import promised, tools
from tests.deploy.monitored import Prometheus
from tests.deploy.queries import wrong_in
from tests.integration.clients import rows
from tests.integration.daemon import STOKERD, Daemon, eventually, write_yaml
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

GRAFANA = REPOSITORY / "deploy/monitoring/grafana"
RULES = REPOSITORY / "deploy/monitoring/prometheus/stoker.rules.yaml"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
LOAD_SECONDS = 12
FEWEST_REQUESTS = 300


def panels(path: Path) -> list[dict]:
    return json.loads(path.read_text())["panels"]


def queries() -> list[tuple[str, str, str]]:
    """(file, panel, expression) of every query of every panel."""
    return [
        (path.stem, panel["title"], target["expr"])
        for path in FILES
        for panel in panels(path)
        for target in panel["targets"]
    ]


# What needs no server.


def test_there_are_the_four_dashboards() -> None:
    assert [path.stem for path in FILES] == ["cold-start", "device", "economics", "overview"]


def test_the_files_are_what_the_script_writes() -> None:
    command = [sys.executable, str(GRAFANA / "dashboards.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_tells_what_a_bad_value_means(path: Path) -> None:
    board = json.loads(path.read_text())
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "instance", "model"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert len(panel["description"].split()) >= 10, panel["title"]
        assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}", panel["title"]
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells


@pytest.mark.parametrize(("board", "title", "expression"), queries())
def test_every_metric_exists_and_is_filtered(board: str, title: str, expression: str) -> None:
    assert not wrong_in(expression)
    assert expression.count('instance=~"$instance"') == expression.count("{")


def schema_check(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [str(tools.python()), str(REPOSITORY / "tests/deploy/dashboard_schema.py"), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_dashboards_fit_grafanas_schema() -> None:
    done = schema_check(*FILES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ('"gridPos"', '"gridpos"', "gridpos is not in the schema"),
        ('"legendFormat"', '"legendformat"', "legendformat is not in the schema"),
        ('"thresholds": {', '"treshold": {', "treshold is not in the schema"),
        ('"showLegend"', '"showlegend"', "showlegend is not in the schema"),
    ],
)
def test_planted_faults_are_seen(good: str, bad: str, expected: str, tmp_path: Path) -> None:
    text = (GRAFANA / "dashboards/overview.json").read_text()
    assert good in text
    (tmp_path / "bad.json").write_text(text.replace(good, bad))
    done = schema_check(tmp_path / "bad.json")
    assert done.returncode != 0 and expected in done.stdout + done.stderr


# What a Prometheus saw that scraped daemons under load.


class Chain(torch.nn.Module):
    """Pointwise operators in a row: compiled, they are one pass over memory and not many."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for step in range(self.steps):
            x = (x * 1.01 + step).clamp(-50, 50)
        return {"y": x[:, :16]}


def write_chain(path: Path, steps: int) -> None:
    path.parent.mkdir(parents=True)
    batch = torch.export.Dim("batch", min=1, max=16)
    example = (torch.randn(2, 65536),)
    torch.export.save(torch.export.export(Chain(steps).eval(), example, dynamic_shapes=({0: batch},)), path)


def write_models(root: Path, later: Path) -> None:
    """chain has buckets that pay, tokens pads and refuses rows, slow refuses requests; later, a chain 2."""
    write_chain(root / "chain/1/model.pt2", 12)
    write_chain(later / "2/model.pt2", 10)
    # A request of 5 rows fits no bucket.
    write_yaml(root / "chain", max_batch_size=8, buckets={"batch": [1, 4]})
    models.write("slow", root)
    models.write("tokens", root)
    text = (root / "tokens/model.yaml").read_text()
    text = text.replace("batch: [1, 4]", "batch: [4]").replace("tokens: [8, 32]", "tokens: [8]")
    (root / "tokens/model.yaml").write_text(text)


def ask_chain(client: triton.InferenceServerClient, count: int) -> None:
    x = np.ones((count, 65536), np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    client.infer("chain", [given])


def ask_tokens(client: triton.InferenceServerClient, value: int) -> None:
    inputs = []
    for name, number in (("ids", value), ("mask", 1)):
        array = np.full((3, 5), number, np.int64)
        given = triton.InferInput(name, array.shape, "INT64")
        given.set_data_from_numpy(array)
        inputs.append(given)
    client.infer("tokens", inputs)


def load(address: str) -> dict[str, int]:
    """Requests of every kind for LOAD_SECONDS; how many ended how."""
    counts = {"ok": 0, "refused": 0, "invalid": 0}
    lock = threading.Lock()
    end = time.monotonic() + LOAD_SECONDS

    def count(kind: str) -> None:
        with lock:
            counts[kind] += 1

    def steady() -> None:
        turn = 0
        with triton.InferenceServerClient(address) as client:
            while time.monotonic() < end:
                turn += 1
                ask_chain(client, (1, 1, 4, 5)[turn % 4])
                ask_tokens(client, 7)
                count("ok")
                count("ok")
                try:
                    ask_tokens(client, 100_000)  # the table has 100 rows
                except InferenceServerException as error:
                    assert "INVALID_ARGUMENT" in str(error.status()), error
                    count("invalid")

    def flood() -> None:
        """Sixteen at a time on a queue of eight."""
        done = threading.Semaphore(16)

        def answered(result: object, error: InferenceServerException | None) -> None:
            count("ok" if error is None else "refused")
            done.release()

        given = triton.InferInput("x", (1, 16), "FP32")
        given.set_data_from_numpy(rows(1))
        with triton.InferenceServerClient(address) as client:
            while time.monotonic() < end:
                done.acquire()
                client.async_infer("slow", [given], answered)
                time.sleep(0.005)
            for _ in range(16):
                done.acquire()

    failures: list[BaseException] = []

    def watched(task) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=watched, args=(task,)) for task in (steady, steady, flood)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LOAD_SECONDS + 60)
    assert not failures, failures
    return counts


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose precompiled headers of earlier runs save a minute."""
    folder = Path(os.environ.get("STOKER_TEST_SCRATCH") or tmp_path_factory.mktemp("kept"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Iterator[Prometheus]:
    tools.of_package("prometheus", "prometheus")
    if not STOKERD.exists():
        pytest.skip(f"{STOKERD} is missing; tests/run.sh builds it, or name one in $STOKERD")
    folder = tmp_path_factory.mktemp("monitored")
    write_models(folder / "models", folder / "later")
    shutil.copytree(folder / "models/chain", folder / "frozen/chain")
    with ExitStack() as running:
        cache = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="monitored-", dir=kept)))
        headers = kept / "kernels/v1/scratch/headers"
        if headers.exists():
            shutil.copytree(headers, cache / "v1/scratch/headers", copy_function=os.link)
        flags = ("--compile-jobs=1", "--repository-poll-seconds=0.2")
        daemon = running.enter_context(Daemon(folder / "models", cache, folder / "compiling.log", *flags))

        def compiled(version: int) -> float:
            return daemon.metric("stoker_bucket_state", model="chain", version=str(version), state="compiled")

        daemon.wait_ready(600)
        assert compiled(1) == 2, daemon.log()
        # A version that replaces one leaves the server ready: its compiles are compiles after ready.
        (folder / "later/2").rename(folder / "models/chain/2")
        eventually(lambda: compiled(2) == 2, f"chain:2 is compiled:\n{daemon.log()}", 600)
        frozen = running.enter_context(
            Daemon(folder / "frozen", folder / "empty", folder / "frozen.log", "--frozen")
        )
        layer = f"--cache-layer={cache}"
        layered = running.enter_context(
            Daemon(folder / "frozen", folder / "upper", folder / "layered.log", "--frozen", "--require-cache", layer)
        )
        targets = [f"127.0.0.1:{one.metrics_port}" for one in (daemon, frozen, layered)]
        targets.append(running.enter_context(promised.target()))
        prometheus = running.enter_context(Prometheus(folder / "prometheus", targets, RULES))
        frozen.wait_ready(120)
        layered.wait_ready(120)
        counts = load(daemon.address)
        assert counts["refused"] and counts["invalid"] and sum(counts.values()) >= FEWEST_REQUESTS, counts
        time.sleep(2)  # the last scrape
        yield prometheus


def filled(expression: str, instance: str = ".*", model: str = ".*") -> str:
    """What Grafana sends, with its variables replaced."""
    replaced = expression.replace("$__rate_interval", "30s")
    return replaced.replace("$instance", instance).replace("$model", model)


@pytest.mark.parametrize(("board", "title", "expression"), queries())
def test_every_query_has_data(monitored: Prometheus, board: str, title: str, expression: str) -> None:
    # `or vector(0)` always has data; the metric below it has to have some too.
    for asked in {expression, expression.replace(" or vector(0)", "")}:
        assert monitored.values(filled(asked)), asked


def test_only_what_is_of_gpus_is_made_up(monitored: Prometheus) -> None:
    """A panel of another dashboard finds data without that target, too."""
    daemons = "|".join(monitored.label_values('label_values(stoker_startup_phase_seconds, instance)'))
    for board, title, expression in queries():
        found = monitored.values(filled(expression.replace(" or vector(0)", ""), instance=daemons))
        assert bool(found) != (board == "device"), (board, title)


def test_the_filters_filter(monitored: Prometheus) -> None:
    instance = 'label_values(stoker_build_info, instance)'
    assert len(monitored.label_values(instance)) == 4
    for path in FILES:
        for variable in json.loads(path.read_text())["templating"]["list"][1:]:
            assert monitored.label_values(filled(variable["query"]["query"])), variable["name"]
    for _, title, expression in queries():
        assert not monitored.values(filled(expression.replace(" or vector(0)", ""), instance="nobody")), title
    expression = next(e for _, title, e in queries() if title == "Requests by tier")
    assert monitored.values(filled(expression, model="chain"))
    assert not monitored.values(filled(expression, model="nobody"))


def test_the_autoscalers_metric_has_data(monitored: Prometheus) -> None:
    rule = yaml.safe_load((REPOSITORY / "deploy/monitoring/prometheus/adapter.yaml").read_text())["rules"][0]
    asked = rule["metricsQuery"].replace("<<.GroupBy>>", "instance").replace("<<.LabelMatchers>>", 'job="stoker"')
    waits = [value for _, value in monitored.values(asked)]
    # The frozen servers had no traffic: 0 and not nothing.
    assert len(waits) == 3 and min(waits) == 0 < max(waits)


def test_the_rules_run_and_see_what_is_wrong(monitored: Prometheus) -> None:
    rules = [rule for group in monitored.get("rules")["groups"] for rule in group["rules"]]
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    state = {rule["name"]: rule.get("state") for rule in rules}
    assert state["StokerCompilesAfterReady"] == "firing"
    # These wait for minutes first.
    assert state["StokerCacheMissOnFrozenServer"] in ("pending", "firing")
    assert state["StokerRejections"] in ("pending", "firing")
    for name in ("StokerNotReady", "StokerModelFailed", "StokerDown", "StokerParityRefusal", "StokerCacheDamaged"):
        assert state[name] == "inactive"
    for rule in rules:
        if rule["type"] == "recording" and rule["name"] != "stoker:requests_internal:ratio5m":
            assert monitored.values(rule["name"]), rule["name"]
