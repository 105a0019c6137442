"""The options that bound connections of the gRPC port do, and what is ended by them is counted."""

from __future__ import annotations

import json
import queue
import select
import time
from collections.abc import Callable
from contextlib import ExitStack

import grpc
import torch

from tests.integration import http1
from tests.integration.daemon import Daemon, eventually
from tests.integration.http2 import RawClient
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
