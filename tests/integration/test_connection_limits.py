"""The options that bound connections of the gRPC port do, and what is ended by them is counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import grpc
import torch

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
