"""Proves that a client which stalls, leaves or lies loses its own requests and nobody else's."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import grpc
import pytest
import torch

from tests.integration.daemon import Daemon, eventually
from tests.integration.http2 import RawClient, message
from tests.integration.wire import assert_same, eager, raw_request, read, stub

MEMORY_MB = 64
X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
SLOW = raw_request("slow", X)
IDENTITY = raw_request("identity", X)
WIDE = raw_request("wide", X)


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["slow", "identity", "wide"], f"--max-request-memory-mb={MEMORY_MB}", uncompiled=True)


@pytest.fixture(autouse=True)
def others_are_served(daemon: Daemon) -> Iterator[None]:
    """Another client asks all the time and gets every answer; then nothing is left behind."""
    stop = threading.Event()
    wrong: list[object] = []
    answers = 0

    def ask() -> None:
        nonlocal answers
        with grpc.insecure_channel(daemon.address) as channel:
            while not stop.is_set():
                try:
                    assert_same(read(stub(channel).ModelInfer(IDENTITY, timeout=30)), eager("identity", X))
                    answers += 1
                except (grpc.RpcError, AssertionError) as error:
                    wrong.append(error)
                stop.wait(0.002)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        eventually(lambda: answers > 0 or bool(wrong), "the other client is answered")
        yield
        seen = answers
        eventually(lambda: answers > seen + 20 or bool(wrong), "the other client is answered still")
    finally:
        stop.set()
        asker.join()
    assert not wrong, wrong[:3]
    eventually(lambda: daemon.metric("stoker_request_memory_bytes") == 0, "all memory is given back", 20)
    assert not daemon.ended()


def waiting(daemon: Daemon) -> float:
    return daemon.metric("stoker_queue_length", model="slow")


def test_stalls_in_the_middle_of_a_message(daemon: Daemon) -> None:
    before = daemon.rss_bytes()
    clients = [RawClient(daemon.port) for _ in range(50)]
    for client in clients:
        for _ in range(10):
            stream = client.open()
            client.send(stream, message(b"", claimed=1 << 20))
            client.send(stream, bytes(2000))
    eventually(
        lambda: daemon.metric("stoker_request_memory_bytes") >= 500 * (16 << 10), "500 calls are open", 20
    )
    assert daemon.rss_bytes() - before < MEMORY_MB << 20
    for client in clients:
        client.reset()


@pytest.mark.parametrize(
    ("hello", "shown"),
    [(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", r"GET / HTTP/1.1\r\nHost: h"), (bytes(range(128, 160)), r"\x80\x81")],
)
def test_speaks_another_protocol(serving: Callable[..., Daemon], hello: bytes, shown: str) -> None:
    """One line says who it is and what he said, however often."""
    port = serving(["identity"], uncompiled=True)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port.port), timeout=30) as client, suppress(ConnectionError):
            client.sendall(hello)
            while client.recv(4096):  # until it is closed
                pass
    lines = [line for line in port.log().splitlines() if "speaks no HTTP/2 to the port of gRPC" in line]
    assert len(lines) == 1
    assert f"(127.0.0.1) speaks no HTTP/2 to the port of gRPC, but begins with '{shown}" in lines[0]


def test_claims_gigabytes(daemon: Daemon) -> None:
    """Refused as soon as the length is known; no memory follows the claim."""
    before = daemon.rss_bytes()
    clients = [RawClient(daemon.port) for _ in range(30)]
    for client in clients:
        for claimed in ((1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            stream = client.open()
            client.send(stream, message(bytes(10_000), claimed))
            assert b"grpc-status: 8\n" in client.answer(stream)
    assert daemon.rss_bytes() - before < 32 << 20
    for client in clients:
        client.reset()


def test_sends_half_of_too_much(daemon: Daemon) -> None:
    """Six messages of 31 MB, none of them whole: gRPC's own limit holds, and takes back its windows."""
    before = daemon.rss_bytes()
    clients = [RawClient(daemon.port) for _ in range(6)]
    size = 31 << 20

    def send(client: RawClient) -> None:
        stream = client.open()
        client.send(stream, message(b"", claimed=size))
        client.send_within_windows(stream, size // 3, seconds=3)

    senders = [threading.Thread(target=send, args=(client,)) for client in clients]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert daemon.rss_bytes() - before < 2 * (MEMORY_MB << 20)
    for client in clients:
        client.reset()
    eventually(lambda: daemon.rss_bytes() < before + (64 << 20), "the system has its memory back", 60)


def test_leaves_while_queued(daemon: Daemon) -> None:
    clients = [RawClient(daemon.port) for _ in range(8)]
    for client in clients:
        stream = client.open()
        client.send(stream, message(SLOW.SerializeToString()), last=True)
    eventually(lambda: waiting(daemon) >= 4, "requests wait", 20)
    answered = daemon.metric("stoker_requests_total", model="slow", outcome="ok")
    daemon.process.send_signal(signal.SIGSTOP)  # so that all have gone at once, however busy the machine is
    for client in clients:
        client.reset()
    daemon.process.send_signal(signal.SIGCONT)
    eventually(lambda: waiting(daemon) == 0, "none waits", 20)
    # The one that ran as they left, or two, ran in vain; the others cost no device time.
    ran = daemon.metric("stoker_requests_total", model="slow", outcome="ok") - answered
    assert ran <= 2
    with grpc.insecure_channel(daemon.address) as channel:
        stub(channel).ModelInfer(SLOW, timeout=30)


def test_never_reads_its_answers(daemon: Daemon) -> None:
    """A stream of 500 requests for a megabyte each, whose answers nobody takes."""
    before = daemon.rss_bytes()
    with RawClient(daemon.port) as client:
        stream = client.open("ModelStreamInfer")
        one = message(WIDE.SerializeToString())
        for _ in range(500):
            client.send(stream, one)
        eventually(
            lambda: daemon.metric("stoker_request_memory_bytes") > 16 << 20, "answers pile up", 20
        )
        # No more than 64 requests of a stream are under way, and no more than half of all memory is held.
        for _ in range(20):
            held = daemon.metric("stoker_request_memory_bytes")
            assert held <= (MEMORY_MB // 2 + 2) << 20, held
        assert daemon.rss_bytes() - before < 2 * (MEMORY_MB << 20)


def test_resets_calls_at_once(daemon: Daemon) -> None:
    """Opens calls and drops the connection, again and again."""
    for _ in range(200):
        client = RawClient(daemon.port)
        for _ in range(20):
            stream = client.open()
            client.send(stream, message(IDENTITY.SerializeToString()), last=True)
        client.reset()


def test_headers_without_end(daemon: Daemon) -> None:
    """More metadata than any call needs. A client that has read the server's settings refuses it itself."""
    with grpc.insecure_channel(daemon.address, options=[("grpc.max_metadata_size", 1 << 20)]) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            stub(channel).ModelInfer(IDENTITY, timeout=30, metadata=[("x", "y" * 40_000)])
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
