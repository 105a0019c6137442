"""Proves that the metrics page is clean and tells what happened: requests, tiers, compiles, cache."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, infer, rows
from tests.integration.daemon import Daemon, eventually, write_yaml

OK = [1, 1, 3, 8, 9]  # rows of the requests that succeed
MODEL = {"model": "mlp", "version": "1"}


@pytest.fixture(scope="module")
def daemon(exported, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Has compiled buckets of 1 and 8 rows and has answered OK and two bad requests."""
    folder = tmp_path_factory.mktemp("metrics")
    shutil.copytree(exported("mlp"), folder / "models/mlp")
    # Room for one request beyond the largest bucket, which eager has to answer.
    write_yaml(folder / "models/mlp", max_batch_size=16, buckets={"batch": [1, 8]})
    with Daemon(folder / "models", kept / "kernels", folder / "log") as running:
        running.wait_ready()
        with running.client() as client:
            for count in OK:
                check_mlp(client, count)
            with pytest.raises(InferenceServerException):
                infer(client, np.zeros((2, 15), np.float32))
            with pytest.raises(InferenceServerException):
                infer(client, rows(1), "nobody")
        yield running
        assert running.stop() == 0


def test_promtool_finds_nothing(daemon: Daemon) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=daemon.metrics_page(), capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_content_type_and_other_paths(daemon: Daemon) -> None:
    root = f"http://127.0.0.1:{daemon.metrics_port}"
    with urllib.request.urlopen(f"{root}/metrics", timeout=10) as page:
        assert page.status == 200
        # Without a version the text format is 0.0.4, the one that every scraper reads.
        assert page.headers["Content-Type"] == "text/plain; charset=utf-8"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{root}/secrets", timeout=10)
    assert refused.value.code == 404


def test_requests_by_outcome(daemon: Daemon) -> None:
    assert daemon.metric("stoker_requests_total", outcome="ok", **MODEL) == len(OK)
    assert daemon.metric("stoker_requests_total", outcome="invalid_argument") == 1
    assert daemon.metric("stoker_requests_total", outcome="not_found") == 1
    assert daemon.metric("stoker_requests_total") == len(OK) + 2


def test_histograms_count_the_requests(daemon: Daemon) -> None:
    def count(name: str) -> float:
        return daemon.metric(f"{name}_count", **MODEL)

    assert count("stoker_queue_seconds") == len(OK)
    assert count("stoker_request_seconds") == daemon.metric("stoker_requests_total", **MODEL)
    # They came one after the other: every one was a batch of its own.
    assert count("stoker_execute_seconds") == len(OK)
    assert count("stoker_batch_rows") == len(OK)
    assert count("stoker_batch_requests") == len(OK)
    assert daemon.metric("stoker_batch_rows_sum", **MODEL) == sum(OK)
    assert daemon.metric("stoker_batch_requests_sum", **MODEL) == len(OK)
    total = daemon.metric("stoker_request_seconds_sum", **MODEL)
    parts = [daemon.metric(f"stoker_{part}_seconds_sum", **MODEL) for part in ("queue", "execute")]
    assert all(part > 0 for part in parts) and sum(parts) <= total


def test_latency_edges_fit_short_requests(daemon: Daemon) -> None:
    edges = sorted(float(labels["le"]) for labels, _ in daemon.samples("stoker_request_seconds_bucket"))
    assert sum(edge < 1e-3 for edge in edges) >= 4
    assert edges[-2] >= 5 and edges[-1] == float("inf")


def test_tiers_and_buckets(daemon: Daemon) -> None:
    served = {
        (labels["tier"], labels["bucket"]): value
        for labels, value in daemon.samples("stoker_tier_requests_total")
        if value > 0
    }
    assert served == {("aot", "batch=1"): 2, ("aot", "batch=8"): 2, ("eager", "none"): 1}
    assert daemon.metric("stoker_bucket_state", state="compiled", **MODEL) == 2
    assert daemon.metric("stoker_model_state", state="serving", **MODEL) == 1
    assert daemon.metric("stoker_model_state", **MODEL) == 1
    for progress in ("total", "settled"):
        assert daemon.metric("stoker_warmup_buckets", progress=progress, **MODEL) == 2
    assert daemon.metric("stoker_promotions_total", outcome="promoted", **MODEL) == 2


def test_padding_waste(daemon: Daemon) -> None:
    assert daemon.metric("stoker_batch_useful_elements_total", **MODEL) == 16 * sum(OK)
    # Three rows went into the bucket of eight.
    assert daemon.metric("stoker_batch_padded_elements_total", **MODEL) == 16 * 5


def test_start_and_build(daemon: Daemon) -> None:
    phases = {labels["phase"]: value for labels, value in daemon.samples("stoker_startup_phase_seconds")}
    assert 0 < phases["runtime"] < phases["listening"] < phases["ready"]
    assert time.time() - 600 < daemon.metric("stoker_ready_timestamp_seconds") <= time.time()
    ((build, value),) = daemon.samples("stoker_build_info")
    assert value == 1 and build["torch"].startswith("2.11.0") and build["march"] and build["version"]
    assert daemon.metric("stoker_weights_bytes", **MODEL) == 4 * (16 * 32 + 32 + 32 * 4 + 4)


def test_artifacts(daemon: Daemon) -> None:
    lookups = {labels["result"]: value for labels, value in daemon.samples("stoker_cache_requests_total")}
    assert lookups.get("hit", 0) + lookups.get("miss", 0) >= 2
    # Once each; one more for a bucket that a busy hour found slower than eager, to be timed again.
    retimed = re.findall(r"mlp:1 (batch=\d+): stays on eager \(profit\).*\1: timed again", daemon.log(), re.S)
    assert 2 <= daemon.metric("stoker_artifact_open_seconds_count") <= 2 + len(retimed)
    assert daemon.metric("stoker_artifact_open_seconds_sum") > 0
    eventually(lambda: daemon.metric("stoker_cache_bytes") > 10_000, "the cache's bytes are counted")
    assert daemon.metric("stoker_cache_entries") >= 2
    assert daemon.metric("stoker_cache_writable") == 1
    assert daemon.metric("stoker_compiles_after_ready_total") == 0


def test_compiles(repository, start, fake_compiler, tmp_path: Path) -> None:
    """A worker that claims 0.5 s more for each phase than for the one before."""
    phases = ["load", "specialise", "lower", "build", "package"]
    with start(repository("mlp"), fake_compiler("--job", "ok"), cache=tmp_path / "cache") as daemon:
        daemon.wait_ready(60)
        assert daemon.metric("stoker_compile_seconds_count", outcome="ok") == 2
        for i, phase in enumerate(phases):
            assert daemon.metric("stoker_compile_phase_seconds_count", phase=phase) == 2
            assert daemon.metric("stoker_compile_phase_seconds_sum", phase=phase) == 2 * 0.5 * (i + 1)
        assert daemon.metric("stoker_cache_requests_total", result="miss") >= 2
        assert daemon.metric("stoker_cache_commits_total", result="ok") == 2
        assert daemon.metric("stoker_compile_worker_starts_total") == 1
        for state in ("waiting", "running", "parked"):
            assert daemon.metric("stoker_compile_queue_length", state=state) == 0
        assert daemon.stop() == 0
