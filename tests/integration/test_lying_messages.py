"""Proves that no memory follows a number that a client merely claims, and no garbage ends the server."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import grpc
import pytest
import torch
from grpc import StatusCode

from tests.integration.daemon import Daemon
from tests.integration.http2 import RawClient
from tests.integration.wire import Request, assert_same, eager, raw_request, read, refusal, stub

ROWS = {"x": torch.linspace(-1, 1, 32).reshape(2, 16)}
GOOD = raw_request("mlp", ROWS)
GOOD_BYTES = GOOD.SerializeToString()
MAX_GROWTH_BYTES = 64 << 20
TWO_GIB = b"\xff\xff\xff\xff\x07"  # 2^31 - 1 as a varint
ENDLESS = b"\xff" * 9 + b"\x01"  # 2^64 - 1

INPUTS, RAW, CONTENTS, FP32 = b"\x2a", b"\x3a", b"\x2a", b"\x32"  # tags of length-delimited fields
INT64, SHAPE = b"\x1a", b"\x1a"


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp"], uncompiled=True)


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


@pytest.fixture(autouse=True)
def lives_and_stays_small(daemon: Daemon, channel: grpc.Channel) -> Iterator[None]:
    stub(channel).ModelInfer(GOOD)
    before = daemon.rss_bytes()
    yield
    assert_same(read(stub(channel).ModelInfer(GOOD)), eager("mlp", ROWS))
    grown = daemon.rss_bytes() - before
    assert grown < MAX_GROWTH_BYTES, f"{grown >> 20} MiB"
    assert not daemon.ended()


def send(channel: grpc.Channel, message: bytes, method: str = "ModelInfer") -> grpc.RpcError:
    call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    return refusal(lambda: call(message, timeout=30))


def nested(*tags_and_lengths: bytes) -> bytes:
    """A good message, then fields that open one inside the other, with 16 bytes at the very end."""
    return GOOD_BYTES + b"".join(tags_and_lengths) + bytes(16)


@pytest.mark.parametrize(
    "message",
    [
        nested(RAW, TWO_GIB),
        nested(RAW, ENDLESS),
        nested(INPUTS, TWO_GIB),
        nested(INPUTS, b"\x40", SHAPE, TWO_GIB),
        nested(INPUTS, b"\x40", CONTENTS, b"\x20", FP32, TWO_GIB),
        nested(INPUTS, b"\x40", CONTENTS, b"\x20", INT64, b"\xfc\xff\xff\xff\x07"),
        nested(b"\x0a", TWO_GIB),  # the model's name
        b"\xff" * 64,
        b"\x0a",
        b"\x0b" * 10_000,  # groups, one inside the other
    ],
    ids=["raw", "endless", "input", "shape", "fp32", "int64", "name", "no-tag", "no-length", "groups"],
)
def test_claimed_length(channel: grpc.Channel, message: bytes) -> None:
    error = send(channel, message)
    assert error.code() == StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("expected a serialised inference.ModelInferRequest")


def test_claimed_length_many_times(channel: grpc.Channel) -> None:
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    calls = [call.future(nested(RAW, TWO_GIB), timeout=60) for _ in range(500)]
    for future in calls:
        assert refusal(future.result).code() == StatusCode.INVALID_ARGUMENT


def test_cut_off_anywhere(channel: grpc.Channel) -> None:
    for length in range(len(GOOD_BYTES)):
        assert send(channel, GOOD_BYTES[:length]).code() in (
            StatusCode.INVALID_ARGUMENT,
            StatusCode.NOT_FOUND,  # cut inside or before the model's name
        )


def test_flipped_bits(channel: grpc.Channel) -> None:
    """Any answer will do: some flips only change an element."""
    dice = random.Random(0)
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for _ in range(500):
        message = bytearray(GOOD_BYTES)
        for _ in range(dice.randint(1, 4)):
            message[dice.randrange(len(message))] ^= 1 << dice.randrange(8)
        try:
            call(bytes(message), timeout=30)
        except grpc.RpcError as error:
            assert error.code() in (
                StatusCode.INVALID_ARGUMENT,
                StatusCode.NOT_FOUND,
                StatusCode.UNIMPLEMENTED,  # a parameter, an output's classification
            )


def in_two_frames(daemon: Daemon, first: bytes, second: bytes) -> bytes:
    """ModelInfer with a message in two DATA frames; what came back, up to the status."""
    prefix = struct.pack(">BI", 0, len(first) + len(second))
    with RawClient(daemon.port) as client:
        stream = client.open()
        client.send(stream, prefix + first)
        client.send(stream, second, last=True)
        return client.answer(stream)


@pytest.mark.parametrize("split", [1, 2, 5, 12])
def test_end_group_close_to_a_seam(daemon: Daemon, split: int) -> None:
    """Parsing ends at a tag that ends no group, before bytes that it looked at in both frames."""
    for behind in range(1, 24):
        message = b"\xa2\x06\x14" + bytes(20) + b"\x0c" + bytes(behind)
        answer = in_two_frames(daemon, message[:-split], message[-split:])
        assert b"expected a serialised inference.ModelInferRequest" in answer


def test_good_request_in_two_frames(daemon: Daemon) -> None:
    for split in range(1, len(GOOD_BYTES), 7):
        answer = in_two_frames(daemon, GOOD_BYTES[:split], GOOD_BYTES[split:])
        assert b"grpc-status: 0" in answer


@pytest.mark.parametrize("method", ["ModelMetadata", "ModelStatistics", "RepositoryIndex", "ServerLive"])
def test_garbage_for_other_methods(channel: grpc.Channel, method: str) -> None:
    for message in (b"\xff" * 64, b"\x0a" + TWO_GIB + b"x"):
        error = send(channel, message, method)
        assert error.code() == StatusCode.INVALID_ARGUMENT
        assert "expected a serialised" in error.details()


@pytest.mark.parametrize(
    "shape",
    [(1 << 62, 16), (1 << 62, 1 << 62), (8, 1 << 60), (1 << 32, 1 << 32), ((1 << 63) - 1,) * 16],
    ids=lambda shape: "x".join(f"{size:g}" for size in shape[:2]),
)
def test_absurd_shape(channel: grpc.Channel, shape: tuple[int, ...]) -> None:
    request = Request()
    request.CopyFrom(GOOD)
    request.inputs[0].shape[:] = shape
    assert refusal(lambda: stub(channel).ModelInfer(request)).code() == StatusCode.INVALID_ARGUMENT


def test_many_inputs_many_times(channel: grpc.Channel) -> None:
    request = raw_request("mlp", {f"x{i}": torch.ones(1) for i in range(10_000)})
    for _ in range(50):
        assert refusal(lambda: stub(channel).ModelInfer(request)).code() == StatusCode.INVALID_ARGUMENT


def test_name_that_is_no_text(channel: grpc.Channel) -> None:
    error = send(channel, GOOD_BYTES.replace(b"\x0a\x03mlp", b"\x0a\x03\xff\xfe\x00"))
    assert error.code() in (StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND)
