"""Proves that --metrics-compat triton gives Triton's metrics, with the numbers that ModelStatistics reports."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, infer
from tests.integration.daemon import Daemon

MODEL = {"model": "mlp", "version": "1"}
OK = [1, 3, 8]


@pytest.fixture(scope="module")
def daemon(serving) -> Daemon:
    """Has answered OK, and refused two requests."""
    running = serving(["mlp", "tokens"], "--metrics-compat", "triton", uncompiled=True)
    with running.client() as client:
        for count in OK:
            check_mlp(client, count)
        for _ in range(2):
            with pytest.raises(InferenceServerException):
                infer(client, np.zeros((2, 15), np.float32))
    return running


def test_the_figures_are_those_of_model_statistics(daemon: Daemon) -> None:
    with daemon.client() as client:
        listed = client.get_inference_statistics().model_stats
    assert {line.name for line in listed} == {"mlp", "tokens"}
    for line in listed:
        labels = {"model": line.name, "version": line.version}
        totals = line.inference_stats

        def metric(name: str, labels: dict[str, str] = labels) -> float:
            return daemon.metric(f"nv_inference_{name}", **labels)

        assert metric("request_success") == totals.success.count
        assert metric("request_failure") == totals.fail.count
        assert metric("count") == line.inference_count
        assert metric("exec_count") == line.execution_count
        assert metric("request_duration_us") == totals.success.ns // 1000
        assert metric("queue_duration_us") == totals.queue.ns // 1000
        assert metric("compute_input_duration_us") == totals.compute_input.ns // 1000
        assert metric("compute_infer_duration_us") == totals.compute_infer.ns // 1000
        assert metric("compute_output_duration_us") == totals.compute_output.ns // 1000
        assert metric("pending_request_count") == 0


def test_they_count_what_was_asked(daemon: Daemon) -> None:
    assert daemon.metric("nv_inference_request_success", **MODEL) == len(OK)
    assert daemon.metric("nv_inference_count", **MODEL) == sum(OK)
    assert daemon.metric("nv_inference_exec_count", **MODEL) == len(OK)
    failures = {
        labels["reason"]: value
        for labels, value in daemon.samples("nv_inference_request_failure")
        if labels["model"] == "mlp"
    }
    assert failures == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 2}


def test_every_metric_has_its_kind(daemon: Daemon) -> None:

    page = daemon.metrics_page()
    types = {line.split()[2]: line.split()[3] for line in page.splitlines() if line.startswith("# TYPE nv_")}
    assert len(types) == 10
    assert {name for name, kind in types.items() if kind == "gauge"} == {"nv_inference_pending_request_count"}
    assert set(types.values()) == {"gauge", "counter"}


def test_without_the_option_there_are_none(serving) -> None:
    running = serving(["mlp"], uncompiled=True)
    assert "nv_inference" not in running.metrics_page()
