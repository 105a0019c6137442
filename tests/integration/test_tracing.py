"""Proves that traces reach a real collector of OpenTelemetry, and that one that is down or stuck harms nothing."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.integration.daemon import REPO, STOKERD, Daemon, eventually
from tests.integration.http1 import ask

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
CALL = "inference.GRPCInferenceService/ModelInfer"
RECORDS = "stoker_trace_records_total"


def x_of(rows: int = 1) -> list[triton.InferInput]:
    x = triton.InferInput("x", [rows, 16], "FP32")
    x.set_data_from_numpy(np.full((rows, 16), 0.5, np.float32))
    return [x]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def collector_program() -> str:
    install = REPO / "tests/otelcol/install.sh"
    found = subprocess.run([install, "--program"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert Path(found).exists(), "expected the collector to be installed: tests/otelcol/install.sh"
    return found


@pytest.fixture(scope="module")
def program() -> str:
    return collector_program()


@dataclass
class Collector:
    port: int
    file: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[dict[str, Any]]:
        """What it has received; attributes as a dictionary."""
        found = []
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            for process in json.loads(line)["resourceSpans"]:
                attributes = plain(process["resource"])
                assert attributes["service.name"] == "stokerd" and attributes["host.name"]
                for scope in process["scopeSpans"]:
                    found += [span | {"attributes": plain(span)} for span in scope["spans"]]
        return found

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans() if span["name"] == name]


def plain(holder: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in holder.get("attributes", ())}


@contextmanager
def collecting(program: str, folder: Path, port: int | None = None) -> Iterator[Collector]:
    collector = Collector(port or free_port(), folder / "spans.json")
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{collector.port}"}}}},
        "exporters": {"file": {"path": str(collector.file), "flush_interval": "100ms"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
        },
    }
    with (folder / "collector.log").open("w") as log:
        # JSON is YAML.
        process = subprocess.Popen([program, f"--config=yaml:{json.dumps(config)}"], stdout=log, stderr=log)
        try:
            eventually(lambda: answers(collector.port) or process.poll() is not None, "the collector listens", 60)
            assert process.poll() is None, (folder / "collector.log").read_text()
            yield collector
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def collector(program: str, tmp_path: Path) -> Iterator[Collector]:
    with collecting(program, tmp_path) as made:
        yield made


@pytest.fixture
def traced(tmp_path: Path, repository: Callable[..., Path]) -> Callable[..., Daemon]:
    """A daemon that sends traces there."""

    def launch(url: str, *flags: str, compiles: bool = False) -> Daemon:
        fixed = [f"--trace-endpoint={url}", *([] if compiles else ["--no-compile"])]
        return Daemon(repository("mlp"), tmp_path / "cache", tmp_path / "stokerd.log", *fixed, *flags)

    return launch


def test_a_request_and_what_it_waited_for(collector: Collector, traced: Callable[..., Daemon]) -> None:
    with traced(collector.url, "--trace-sample=1") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of(3), request_id="r-1")
        eventually(lambda: bool(collector.named("batch")), "spans arrive", 30)
    (request,) = collector.named(CALL)
    assert "parentSpanId" not in request or not request["parentSpanId"]
    assert request["kind"] == 2  # a server's
    assert request["attributes"] == request["attributes"] | {
        "rpc.system": "grpc",
        "rpc.grpc.status_code": "0",
        "client.address": "127.0.0.1",
        "stoker.request_id": "r-1",
        "stoker.model": "mlp",
        "stoker.version": "1",
        "stoker.tier": "eager",
        "stoker.rows": "3",
    }
    own = [span for span in collector.spans() if span["traceId"] == request["traceId"] and span is not request]
    children = {span["name"]: span for span in own if span["name"] != CALL}
    assert set(children) == {"decode", "queue", "run", "answer"}
    assert all(span["parentSpanId"] == request["spanId"] for span in children.values())
    order = [children[name] for name in ("decode", "queue", "run", "answer")]
    times = [int(span[when]) for span in order for when in ("startTimeUnixNano", "endTimeUnixNano")]
    assert times == sorted(times)
    assert times[0] == int(request["startTimeUnixNano"]) and times[-1] <= int(request["endTimeUnixNano"])
    (batch,) = collector.named("batch")
    assert batch["links"][0]["spanId"] == children["run"]["spanId"]
    assert children["run"]["links"][0]["spanId"] == batch["spanId"]
    assert batch["traceId"] != request["traceId"]
    # The version's load was told, too.
    (load,) = collector.named("load")
    assert load["attributes"] == {"stoker.model": "mlp", "stoker.version": "1"}


def test_requests_of_one_batch(collector: Collector, traced: Callable[..., Daemon]) -> None:
    with traced(collector.url, "--trace-sample=1") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for _ in range(200):
                client.async_infer("mlp", x_of(), callback=lambda result, error: None)
            eventually(lambda: len(collector.named(CALL)) == 200, "all are sent", 30)
            eventually(lambda: daemon.metric(RECORDS, outcome="sent") == 201, "they and the load are counted", 30)
    batches = {batch["spanId"]: batch for batch in collector.named("batch")}
    requests = collector.named(CALL)
    assert len(requests) == 200
    rows: dict[str, int] = dict.fromkeys(batches, 0)
    for run in collector.named("run"):
        for link in run.get("links", ()):
            rows[link["spanId"]] += 1
    # Each has one batch, and each batch has as many requests as it had rows.
    assert sum(rows.values()) == 200
    assert rows == {span: int(batch["attributes"]["stoker.batch_rows"]) for span, batch in batches.items()}


def test_a_clients_trace_goes_on(collector: Collector, traced: Callable[..., Daemon]) -> None:
    sampled, unsampled = (f"00-{TRACE[:-1]}{digit}-{PARENT}-0{digit}" for digit in (1, 0))
    data = {"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [0.5] * 16}
    body = json.dumps({"inputs": [data]}).encode()
    with traced(collector.url, "--trace-sample=0") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of())
            client.infer("mlp", x_of(), headers={"traceparent": unsampled})
            client.infer("mlp", x_of(), headers={"traceparent": sampled})
            client.infer("mlp", x_of(), headers={"traceparent": "nonsense"})
        headers = {"Traceparent": sampled}
        assert ask(daemon.http_port, "POST", "/v2/models/mlp/infer", body, headers).status == 200
        eventually(lambda: bool(collector.named("POST /v2/models/{model}/infer")), "spans arrive", 30)
    (over_grpc,) = collector.named(CALL)
    (over_http,) = collector.named("POST /v2/models/{model}/infer")
    for request in (over_grpc, over_http):
        assert (request["traceId"], request["parentSpanId"]) == (TRACE[:-1] + "1", PARENT)


def test_slow_requests_are_traced(collector: Collector, traced: Callable[..., Daemon]) -> None:
    with traced(collector.url, "--trace-sample=0", "--trace-slow-ms=0.001") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of())
        eventually(lambda: len(collector.named(CALL)) == 1, "spans arrive", 30)


def test_a_collector_that_comes_later(program: str, tmp_path: Path, traced: Callable[..., Daemon]) -> None:
    port = free_port()
    with traced(f"http://127.0.0.1:{port}", "--trace-sample=1") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            client.infer("mlp", x_of())
            with collecting(program, tmp_path, port) as collector:
                eventually(lambda: len(collector.named(CALL)) == 1, "spans arrive", 60)


def test_a_collector_that_is_stuck_holds_nobody_up(traced: Callable[..., Daemon]) -> None:
    with socket.socket() as stuck:
        stuck.bind(("127.0.0.1", 0))
        stuck.listen()
        with traced(f"http://127.0.0.1:{stuck.getsockname()[1]}", "--trace-sample=1") as daemon:
            daemon.wait_ready()
            with daemon.client() as client:
                for _ in range(500):
                    client.infer("mlp", x_of())
            assert daemon.stop() == 0
            assert "traces are lost" in daemon.log()


def test_nobody_collects(traced: Callable[..., Daemon]) -> None:
    with traced(f"http://127.0.0.1:{free_port()}", "--trace-sample=1") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for _ in range(100):
                client.infer("mlp", x_of())
            eventually(lambda: daemon.metric(RECORDS, outcome="failed") > 0, "they are lost", 60)
            client.infer("mlp", x_of())
        assert daemon.log().count("traces are lost") == 1


@pytest.mark.parametrize("url", ["https://127.0.0.1:4318", "127.0.0.1:4318", "http://127.0.0.1:port"])
def test_an_endpoint_that_is_none(tmp_path: Path, url: str) -> None:
    line = [str(STOKERD), f"--model-repository={tmp_path}", f"--trace-endpoint={url}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--trace-endpoint" in done.stderr and "expected http://HOST" in done.stderr
