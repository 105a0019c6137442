"""Proves that what is too much is refused at once, with a reason and a time to come back, and costs nobody
else anything."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc import StatusCode

from tests.integration.daemon import Daemon, eventually
from tests.integration.wire import Request, assert_same, eager, raw_request, read, stub

MEMORY_MB = 64
SLOW = raw_request("slow", {"x": torch.ones(1, 16)})
IDENTITY = raw_request("identity", {"x": torch.ones(1, 16)})


def _rpc_status() -> dict[str, Any]:
    """google.rpc.Status, of which no package here has the generated code; details stay opaque."""
    file = descriptor_pb2.FileDescriptorProto(name="status_for_tests.proto", package="for_tests", syntax="proto3")
    any_message = file.message_type.add(name="Any")
    any_message.field.add(name="type_url", number=1, type=9, label=1)
    any_message.field.add(name="value", number=2, type=12, label=1)
    duration = file.message_type.add(name="Duration")
    duration.field.add(name="seconds", number=1, type=3, label=1)
    duration.field.add(name="nanos", number=2, type=5, label=1)
    info = file.message_type.add(name="RetryInfo")
    info.field.add(name="retry_delay", number=1, type=11, label=1, type_name=".for_tests.Duration")
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, type=5, label=1)
    status.field.add(name="message", number=2, type=9, label=1)
    status.field.add(name="details", number=3, type=11, label=3, type_name=".for_tests.Any")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"for_tests.{name}"))
        for name in ("Status", "RetryInfo")
    }


MESSAGES = _rpc_status()


def retry_seconds(error: grpc.RpcError) -> float:
    """The hint in the error's details; fails the test when there is none."""
    trailers = dict(error.trailing_metadata())
    status = MESSAGES["Status"].FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    (detail,) = status.details
    assert detail.type_url == "type.googleapis.com/google.rpc.RetryInfo"
    delay = MESSAGES["RetryInfo"].FromString(detail.value).retry_delay
    return delay.seconds + delay.nanos / 1e9


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["slow", "heavy", "identity", "wide"], f"--max-request-memory-mb={MEMORY_MB}", uncompiled=True)


@contextmanager
def flood(daemon: Daemon, request: Request, clients: int) -> Iterator[list[grpc.RpcError | None]]:
    """So many clients send the request again and again; what they got: None for an answer."""
    outcomes: list[grpc.RpcError | None] = []
    stop = threading.Event()

    def client() -> None:
        with grpc.insecure_channel(daemon.address) as channel:
            while not stop.is_set():
                try:
                    stub(channel).ModelInfer(request, timeout=30)
                    outcomes.append(None)
                except grpc.RpcError as error:
                    outcomes.append(error)
                    stop.wait(0.05)  # as a client that honours the hint

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield outcomes
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def held(daemon: Daemon) -> float:
    return daemon.metric("stoker_request_memory_bytes")


def test_full_queue(daemon: Daemon) -> None:
    with grpc.insecure_channel(daemon.address) as channel, flood(daemon, SLOW, 24) as outcomes:
        eventually(lambda: sum(o is not None for o in outcomes) > 20, "requests are refused")
        took: list[float] = []
        while len(took) < 30:
            start = time.monotonic()
            try:
                stub(channel).ModelInfer(SLOW, timeout=30)
            except grpc.RpcError as error:
                took.append(time.monotonic() - start)
                assert error.code() == StatusCode.UNAVAILABLE
    for refused in outcomes:
        if refused is not None:
            assert (refused.code(), refused.details()) == (StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
            assert 0.01 <= retry_seconds(refused) <= 10
    assert None in outcomes
    # The client and the flood's 24 threads share an interpreter: the server takes far less.
    assert statistics.median(took) < 0.1, took
    assert daemon.metric("stoker_refused_requests_total", model="slow", reason="queue") >= 50
    eventually(lambda: held(daemon) == 0, "all memory is given back", 10)


def test_other_models_do_not_notice(daemon: Daemon) -> None:
    with grpc.insecure_channel(daemon.address) as channel, flood(daemon, SLOW, 24) as outcomes:
        eventually(lambda: any(o is not None for o in outcomes), "requests are refused")
        for _ in range(200):
            answer = stub(channel).ModelInfer(IDENTITY, timeout=30)
            assert_same(read(answer), eager("identity", {"x": torch.ones(1, 16)}))


def test_memory_is_bounded(daemon: Daemon) -> None:
    """Requests of 4 MB, 16 at a time: more than a model's share, which is half of all."""
    large = raw_request("heavy", {"x": torch.ones(1, 1 << 20)})
    before = daemon.rss_bytes()
    peak = 0.0
    with grpc.insecure_channel(daemon.address) as channel, flood(daemon, large, 16) as outcomes:
        eventually(lambda: sum(o is not None for o in outcomes) > 100, "requests are refused")
        for _ in range(50):
            peak = max(peak, daemon.rss_bytes())
            # A small request of another model always finds room.
            stub(channel).ModelInfer(IDENTITY, timeout=30)
    refused = Counter(o.code() for o in outcomes if o is not None)
    # Several fit at a time, and as many wait in the queue.
    assert set(refused) <= {StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNAVAILABLE}, refused
    assert refused[StatusCode.RESOURCE_EXHAUSTED] > 0
    for error in outcomes:
        if error is not None and error.code() == StatusCode.RESOURCE_EXHAUSTED:
            assert retry_seconds(error) > 0, error.details()
    # Messages on their way in are gRPC's, and come on top.
    assert peak - before < 3 * (MEMORY_MB << 20), f"{(peak - before) / 2**20:.0f} MiB"
    eventually(lambda: held(daemon) == 0, "all memory is given back", 10)
    eventually(lambda: daemon.rss_bytes() < before + (64 << 20), "the system has its memory back", 60)


def test_small_requests_with_large_answers(daemon: Daemon) -> None:
    """64 bytes asked, a megabyte answered: the answer counts before it exists."""
    request = raw_request("wide", {"x": torch.ones(1, 16)})
    with grpc.insecure_channel(daemon.address) as channel:
        calls = [stub(channel).ModelInfer.future(request, timeout=60) for _ in range(300)]
        codes = Counter(call.code() for call in calls)
    assert set(codes) <= {StatusCode.OK, StatusCode.RESOURCE_EXHAUSTED}, codes
    assert codes[StatusCode.OK] >= 20 and codes[StatusCode.RESOURCE_EXHAUSTED] > 0, codes
    assert daemon.metric("stoker_refused_requests_total", model="wide", reason="model_memory") > 0
    eventually(lambda: held(daemon) == 0, "all memory is given back", 10)
