"""The options that bound connections of the gRPC port do, and what is ended by them is counted."""

from __future__ import annotations

import json
import queue
import select
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import grpc
import pytest
import torch

from tests.integration import http1
from tests.integration.daemon import Daemon, eventually
from tests.integration.http2 import END_HEADERS, HEADERS, PING, RST_STREAM, SETTINGS, RawClient, frame, header_block
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}


def ask(daemon: Daemon) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(daemon.address, own) as channel:
        assert_same(read(stub(channel).ModelInfer(raw_request("identity", X), timeout=30)), eager("identity", X))


def ended(daemon: Daemon, reason: str) -> float:
    return daemon.metric("stoker_connections_ended_total", reason=reason)


def test_connections_of_a_peer(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["identity"], "--max-connections-per-peer=3", uncompiled=True)
    eventually(lambda: daemon.metric("stoker_connections") == 0, "the fixture's connection is gone")
    with ExitStack() as held:
        clients = [held.enter_context(RawClient(daemon.port)) for _ in range(5)]
        eventually(lambda: ended(daemon, "peer_limit") == 2, "the newest are closed")
        assert daemon.metric("stoker_connections") == 3
        assert len(clients) == 5
    eventually(lambda: daemon.metric("stoker_connections") == 0, "all are gone")
    ask(daemon)


def test_connections_of_all(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["identity"], "--max-connections=4", uncompiled=True)
    with ExitStack() as held:
        for _ in range(10):
            held.enter_context(RawClient(daemon.port))
        ask(daemon)
        assert ended(daemon, "idle") >= 6


def test_idle_and_old_connections(serving: Callable[..., Daemon]) -> None:
    daemon = serving(
        ["identity"], "--connection-idle-seconds=0.5", "--connection-age-seconds=1000", uncompiled=True
    )
    with RawClient(daemon.port) as client:
        while client.socket.recv(4096):  # until it is closed
            pass
    assert ended(daemon, "idle") >= 1
    ask(daemon)
    old = serving(["identity"], "--connection-age-seconds=0.5", uncompiled=True)
    with RawClient(old.port) as client:
        while client.socket.recv(4096):  # until it is closed
            pass
    assert ended(old, "age") >= 1
    ask(old)


def test_headers_of_a_call(serving: Callable[..., Daemon]) -> None:
    """Of a call that has too many, nothing else is touched: not even its connection."""
    daemon = serving(["identity"], "--max-header-bytes=1024", uncompiled=True)
    with grpc.insecure_channel(daemon.address) as channel:

        def code(size: int) -> grpc.StatusCode:
            metadata = [("x-large", "y" * size)]
            try:
                stub(channel).ModelInfer(raw_request("identity", X), metadata=metadata, timeout=30)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        assert code(100) == grpc.StatusCode.OK
        assert code(1024) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert code(100) == grpc.StatusCode.OK
    assert daemon.metric("stoker_calls_ended_total", reason="headers") == 1
    headers = {"x-large": "y" * 1024}
    assert http1.ask(daemon.http_port, "GET", "/v2/health/live", headers=headers).status == 431


CONTINUATION = 9
SETTING = b"\0\x04\0\0\xff\xff"
LITERAL = b"\0\x01x\x01y"


def cancelled(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, header_block("ModelInfer")) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")


@pytest.mark.parametrize(
    ("flags", "sent", "reason"),
    [
        (["--max-useless-frames=50", "--useless-frames-per-second=0"], frame(PING, 0, 0, bytes(8)) * 51, "frames"),
        (["--max-resets=2", "--resets-per-second=0"], cancelled(1) + cancelled(3) + cancelled(5), "resets"),
        (["--max-settings=10"], frame(SETTINGS, 0, 0, SETTING * 11), "settings"),
        (["--max-waiting-acks=10"], frame(PING, 0, 0, bytes(8)) * 12, "acks"),
        (
            ["--max-continuations=1"],
            frame(HEADERS, 0, 1, header_block("ModelInfer")) + frame(CONTINUATION, 0, 1, LITERAL) * 2,
            "headers",
        ),
        (
            ["--max-header-bytes=1024", "--header-excess=2"],
            frame(HEADERS, END_HEADERS, 1, header_block("ModelInfer") + LITERAL * 100),
            "headers",
        ),
    ],
)
def test_what_a_connection_may_send(serving: Callable[..., Daemon], flags: list[str], sent: bytes, reason: str) -> None:
    daemon = serving(["identity"], *flags, uncompiled=True)
    before = ended(daemon, reason)
    with RawClient(daemon.port) as client, suppress(ConnectionError):
        client.socket.sendall(sent)
        while client.socket.recv(4096):  # until it is closed
            pass
    assert ended(daemon, reason) == before + 1


def test_calls_of_a_connection(serving: Callable[..., Daemon]) -> None:
    """A client that keeps to the limit waits, and loses nothing."""
    daemon = serving(["identity"], "--max-calls-per-connection=1", uncompiled=True)
    with grpc.insecure_channel(daemon.address) as channel:
        request = raw_request("identity", X)
        pending = [stub(channel).ModelInfer.future(request, timeout=60) for _ in range(20)]
        for one in pending:
            assert_same(read(one.result()), eager("identity", X))
    assert daemon.metric("stoker_connections_full_total") >= 20


def test_connections_of_the_status_page(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["identity"], "--max-metrics-connections=2", uncompiled=True)
    before = ended(daemon, "idle")
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(http1.Connection(daemon.metrics_port))
        eventually(lambda: ended(daemon, "idle") >= before + 2, "the oldest make room")


def test_a_message_that_is_too_long(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["identity"], "--max-request-memory-mb=16", uncompiled=True)
    with grpc.insecure_channel(daemon.address) as channel, pytest.raises(grpc.RpcError) as error:
        stub(channel).ModelInfer(raw_request("identity", {"x": torch.zeros(150_000, 16)}), timeout=30)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with http1.Connection(daemon.http_port) as client:
        client.send(http1.request("POST", "/v2/models/identity/infer", headers={"Content-Length": "9000000"}))
        assert client.answer().status == 413
    assert daemon.metric("stoker_calls_ended_total", reason="too_long") == 2


def test_calls_without_a_message(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["identity"], "--max-waiting-calls=1", uncompiled=True)
    with grpc.insecure_channel(daemon.address) as channel:
        release: queue.Queue = queue.Queue()
        infer = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
        calls = [infer.future(iter(release.get, None), timeout=60) for _ in range(2)]
        eventually(lambda: daemon.metric("stoker_calls_ended_total", reason="waiting") == 1, "the first makes room")
        codes = []
        for _ in calls:
            release.put(None)
        for call in calls:
            error = call.exception()
            assert isinstance(error, grpc.RpcError)
            codes.append(error.code())
    assert sorted(code.name for code in codes) == ["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]


def test_progress_of_a_body(serving: Callable[..., Daemon]) -> None:
    """A client that sends a little now and then keeps up; one that sends nothing doesn't."""
    daemon = serving(["identity"], "--stall-seconds=1", "--stall-bytes=4", uncompiled=True)
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}]}).encode()
    head = http1.request("POST", "/v2/models/identity/infer", body)[: -len(body)]
    with http1.Connection(daemon.http_port) as client:
        client.send(head)
        begun = time.monotonic()
        client.send(body[:-1])
        assert client.answer().status == 408
        assert time.monotonic() - begun < 20
    assert daemon.metric("stoker_refused_requests_total", reason="stalled") == 1
    with http1.Connection(daemon.http_port) as client:
        client.send(head)
        begun = time.monotonic()
        for at in range(0, len(body), 4):
            client.send(body[at : at + 4])
            answered, _, _ = select.select([client.socket], [], [], 0.05)
            assert not answered or at + 4 >= len(body)
        assert client.answer().status == 200
        assert time.monotonic() - begun > 1
    ask(daemon)
