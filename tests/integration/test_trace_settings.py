"""Proves that traces are turned on and off and sampled while the server runs, over gRPC and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.clients import infer
from tests.integration.daemon import Daemon, eventually
from tests.integration.http1 import ask
from tests.integration.test_tracing import CALL, Collector, collecting, collector_program

AS_STARTED = {
    "trace_level": ["TIMESTAMPS"],
    "trace_rate": ["4"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["opentelemetry"],
}
X = np.zeros((1, 16), np.float32)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with collecting(collector_program(), tmp_path) as running:
        yield running


@pytest.fixture
def traced(collector: Collector, repository: Callable[..., Path], start: Callable[..., Daemon]) -> Daemon:
    return start(repository("mlp"), "--no-compile", f"--trace-endpoint={collector.url}", "--trace-sample=0.25")


def shown(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {name: value["value"] for name, value in answer["settings"].items()}


def change(client: triton.InferenceServerClient, model: str | None = None, **settings: Any) -> dict[str, list[str]]:
    return shown(client.update_trace_settings(model_name=model, settings=settings, as_json=True))


def test_they_are_shown_and_changed(traced: Daemon, collector: Collector) -> None:
    with traced as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert shown(client.get_trace_settings(as_json=True)) == AS_STARTED
        assert shown(client.get_trace_settings("mlp", as_json=True)) == AS_STARTED
        assert change(client, trace_rate="1")["trace_rate"] == ["1"]
        for _ in range(5):
            infer(client, X)
        eventually(lambda: len(collector.named(CALL)) == 5, "all are traced")
        assert change(client, trace_level=["OFF"])["trace_level"] == ["OFF"]
        for _ in range(20):
            infer(client, X)
        assert change(client, trace_level="TIMESTAMPS")["trace_level"] == ["TIMESTAMPS"]
        infer(client, X)
        eventually(lambda: len(collector.named(CALL)) == 6, "one more is traced")
        assert change(client, trace_rate=None) == AS_STARTED
        assert change(client, trace_rate="0")["trace_rate"] == ["0"]
        assert daemon.stop() == 0
    assert len(collector.named(CALL)) == 6


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"trace_level": "TENSORS"}, "INVALID_ARGUMENT", "'trace_level': expected OFF or TIMESTAMPS"),
        ({"trace_level": ["OFF", "TIMESTAMPS"]}, "INVALID_ARGUMENT", "got OFF, TIMESTAMPS"),
        ({"trace_rate": "-1"}, "INVALID_ARGUMENT", "'trace_rate': expected of how many requests one is traced"),
        ({"trace_rate": "often"}, "INVALID_ARGUMENT", "got often"),
        ({"trace_count": "7"}, "INVALID_ARGUMENT", "'trace_count': expected -1, got 7"),
        ({"trace_mode": "triton"}, "INVALID_ARGUMENT", "expected opentelemetry, got triton"),
        ({"trace_file": "/tmp/trace"}, "UNIMPLEMENTED", "trace file location can not be updated"),
        ({"trace_everything": "1"}, "INVALID_ARGUMENT", "got 'trace_everything'"),
    ],
)
def test_what_they_may_not_be(traced: Daemon, settings: dict[str, Any], code: str, said: str) -> None:
    with traced as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with pytest.raises(InferenceServerException) as error:
            change(client, **settings)
        assert (str(error.value.status()), said in error.value.message()) == (f"StatusCode.{code}", True)
        with pytest.raises(InferenceServerException, match="one model are not supported"):
            change(client, "mlp", trace_rate="1")
        assert shown(client.get_trace_settings(as_json=True)) == AS_STARTED


def test_over_http(traced: Daemon) -> None:
    with traced as daemon:
        daemon.wait_ready(60)
        answer = ask(daemon.http_port, "GET", "/v2/trace/setting")
        assert (answer.status, json.loads(answer.body)) == (
            200,
            {
                "trace_level": ["TIMESTAMPS"],
                "trace_rate": "4",
                "trace_count": "-1",
                "log_frequency": "0",
                "trace_file": "",
                "trace_mode": "opentelemetry",
            },
        )
        body = json.dumps({"trace_level": ["OFF"], "trace_rate": 7}).encode()
        answer = ask(daemon.http_port, "POST", "/v2/trace/setting", body)
        assert json.loads(answer.body)["trace_level"] == ["OFF"]
        assert json.loads(answer.body)["trace_rate"] == "7"
        answer = ask(daemon.http_port, "POST", "/v2/trace/setting", b'{"trace_rate": null, "trace_level": null}')
        assert json.loads(answer.body)["trace_rate"] == "4"
        assert ask(daemon.http_port, "POST", "/v2/trace/setting", b'{"trace_rate": {}}').status == 400
        assert ask(daemon.http_port, "POST", "/v2/models/mlp/trace/setting", b'{"trace_rate": "1"}').status == 501
        assert ask(daemon.http_port, "GET", "/v2/models/mlp/trace/setting").status == 200


def test_without_a_collector(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["mlp"], uncompiled=True)
    with daemon.client() as client:
        assert shown(client.get_trace_settings(as_json=True))["trace_level"] == ["OFF"]
        with pytest.raises(InferenceServerException, match="--trace-endpoint"):
            change(client, trace_level="TIMESTAMPS")
