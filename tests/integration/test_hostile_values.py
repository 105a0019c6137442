"""Proves that no value ends the process: its request is refused, requests beside it are answered right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest
import torch
from grpc import StatusCode
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import Request, assert_same, eager, raw_request, read, refusal, stub

Inputs = dict[str, Tensor]
LEAST, MOST = -(1 << 63), (1 << 63) - 1

# input, a value that PyTorch refuses there, the operator that refuses it
HOSTILE = [
    ("ids", 10, "embedding"),
    ("ids", -1, "embedding"),
    ("ids", LEAST, "embedding"),
    ("ids", MOST, "embedding"),
    ("gather_index", 8, "gather"),
    ("gather_index", -1, "gather"),
    ("gather_index", MOST, "gather"),
    ("table_index", 6, "index"),
    ("table_index", -7, "index"),
    ("table_index", LEAST, "index"),
    ("scatter_index", 8, "scatter_add"),
    ("scatter_index", -1, "scatter_add"),
    ("scatter_index", LEAST, "scatter_add"),
    ("divisor", 0, "div"),
]
HOSTILE_IDS = [f"{name}={value}" for name, value, _ in HOSTILE]


@pytest.fixture(scope="module", params=["eager", "aot"])
def daemon(request: pytest.FixtureRequest, serving: Callable[..., Daemon]) -> Daemon:
    if request.param == "eager":
        return serving(["hostile", "tokens"], uncompiled=True)
    return serving(["hostile", "tokens"], "--no-promotion-checks")


@pytest.fixture(scope="module")
def tier(request: pytest.FixtureRequest, daemon: Daemon) -> str:
    return "aot" if daemon.metric("stoker_bucket_state", model="hostile", state="compiled") else "eager"


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def good(batch: int) -> Inputs:
    def integers(low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, (batch, 4))

    return {
        "values": torch.randn(batch, 8),
        "ids": integers(0, 9),
        "gather_index": integers(0, 7),
        "table_index": integers(-6, 5),
        "scatter_index": integers(0, 7),
        "dividend": integers(-100, 100),
        "divisor": integers(1, 7),
    }


def bad(batch: int, name: str, value: int, row: int = 0) -> Inputs:
    inputs = good(batch)
    inputs[name][row, 2] = value
    return inputs


def check_refused(error: grpc.RpcError, tier: str, name: str, operator: str) -> None:
    assert error.code() == StatusCode.INVALID_ARGUMENT, error
    if tier == "aot":
        assert name in error.details() and operator in error.details()


@pytest.mark.parametrize("name, value, operator", HOSTILE, ids=HOSTILE_IDS)
def test_alone(
    daemon: Daemon, channel: grpc.Channel, tier: str, name: str, value: int, operator: str
) -> None:
    def refused() -> float:
        return daemon.metric("stoker_row_faults_total", model="hostile")

    before = refused()
    request = raw_request("hostile", bad(2, name, value, row=1))
    check_refused(refusal(lambda: stub(channel).ModelInfer(request)), tier, name, operator)
    assert refused() == before + 1
    assert not daemon.ended()


@pytest.mark.parametrize("name, value, operator", HOSTILE, ids=HOSTILE_IDS)
def test_beside_others(
    daemon: Daemon, channel: grpc.Channel, tier: str, name: str, value: int, operator: str
) -> None:
    mates = [good(1 + i % 2) for i in range(12)]
    culprits = [bad(1, name, value) for _ in range(4)]
    requests = [raw_request("hostile", inputs) for inputs in mates]
    for i, inputs in enumerate(culprits):  # between the others, so that batches mix them
        requests.insert(4 * i + 2, raw_request("hostile", inputs))
    calls = [stub(channel).ModelInfer.future(request) for request in requests]
    answered = iter(mates)
    for i, call in enumerate(calls):
        if i % 4 == 2:
            check_refused(refusal(call.result), tier, name, operator)
        else:
            assert_same(read(call.result()), eager("hostile", next(answered)))
    assert not daemon.ended()


@pytest.mark.parametrize("divisor", [-1, 1])
def test_least_integer(daemon: Daemon, channel: grpc.Channel, divisor: int) -> None:
    """By -1 the quotient does not fit in 64 bits: x86 traps where PyTorch's divisions wrap around."""
    inputs = good(2)
    inputs["dividend"][0], inputs["divisor"][0] = LEAST, divisor
    answer = read(stub(channel).ModelInfer(raw_request("hostile", inputs)))
    assert answer["quotient"][0].tolist() == [LEAST] * 4
    assert answer["truncated"][0].tolist() == [LEAST] * 4
    assert answer["remainder"][0].tolist() == [0] * 4
    for name in ("quotient", "truncated", "remainder"):
        row = {key: value[1:] for key, value in inputs.items()}
        torch.testing.assert_close(answer[name][1:], eager("hostile", row)[name])
    assert not daemon.ended()


@pytest.mark.parametrize("token", [-1, 100, LEAST, MOST])
@pytest.mark.parametrize("length", [8, 5, 40], ids=["exact", "padded", "no-bucket"])
def test_token(daemon: Daemon, channel: grpc.Channel, token: int, length: int) -> None:
    ids = torch.randint(0, 100, (2, length))
    mask = torch.ones_like(ids)
    mate = raw_request("tokens", {"ids": ids, "mask": mask})
    hostile = ids.clone()
    hostile[1, length - 1] = token
    calls = [
        stub(channel).ModelInfer.future(request)
        for request in (mate, raw_request("tokens", {"ids": hostile, "mask": mask}), mate)
    ]
    assert refusal(calls[1].result).code() == StatusCode.INVALID_ARGUMENT
    for call in (calls[0], calls[2]):
        assert_same(read(call.result()), eager("tokens", {"ids": ids, "mask": mask}))
    assert not daemon.ended()
