"""Proves that no value ends the process: its request is refused, requests beside it are answered right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest
import torch
from grpc import StatusCode
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import assert_same, eager, indices, raw_request, read, refusal, stub

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
    ("select_index", 6, "index_select"),
    ("select_index", -1, "index_select"),
    ("select_index", LEAST, "index_select"),
    ("put_index", 8, "index_put"),
    ("put_index", -9, "index_put"),
    ("put_index", MOST, "index_put"),
    ("scatter_index", 8, "scatter_add"),
    ("scatter_index", -1, "scatter_add"),
    ("scatter_index", LEAST, "scatter_add"),
    ("divisor", 0, "div"),
]
HOSTILE_IDS = [f"{name}={value}" for name, value, _ in HOSTILE]


@pytest.fixture(scope="module", params=["eager", "aot"])
def daemon(request: pytest.FixtureRequest, serving: Callable[..., Daemon]) -> Daemon:
    if request.param == "eager":
        return serving(["hostile", "bags", "tokens"], uncompiled=True)
    return serving(["hostile", "bags", "tokens"], "--no-promotion-checks")


@pytest.fixture(scope="module")
def tier(request: pytest.FixtureRequest, daemon: Daemon) -> str:
    return "aot" if daemon.metric("stoker_bucket_state", model="hostile", state="compiled") else "eager"


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def bad(batch: int, name: str, value: int, row: int = 0) -> Inputs:
    inputs = indices(batch)
    inputs[name][row, 2] = value
    return inputs


def check_refused(error: grpc.RpcError, tier: str, name: str, operator: str) -> None:
    assert error.code() == StatusCode.INVALID_ARGUMENT, error
    if tier == "aot":
        assert name in error.details() and operator in error.details()


@pytest.mark.parametrize(("name", "value", "operator"), HOSTILE, ids=HOSTILE_IDS)
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


@pytest.mark.parametrize(("name", "value", "operator"), HOSTILE, ids=HOSTILE_IDS)
def test_beside_others(
    daemon: Daemon, channel: grpc.Channel, tier: str, name: str, value: int, operator: str
) -> None:
    mates = [indices(1 + i % 2) for i in range(12)]
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


@pytest.mark.parametrize(
    "offsets",
    [[1, 3, 6, 9], [0, 6, 3, 9], [0, 3, 6, 13], [0, -100_000_000, 6, 9], [LEAST, 3, 6, 9], [0, 3, 6, MOST]],
    ids=str,
)
def test_bags(daemon: Daemon, channel: grpc.Channel, offsets: list[int]) -> None:
    inputs = {"indices": torch.randint(0, 10, (12,)), "offsets": torch.tensor(offsets)}
    error = refusal(lambda: stub(channel).ModelInfer(raw_request("bags", inputs)))
    assert error.code() == StatusCode.INVALID_ARGUMENT
    assert "offsets must begin with 0, not decrease and not pass the indices" in error.details()
    inputs["offsets"] = torch.tensor([0, 0, 5, 12])
    assert_same(read(stub(channel).ModelInfer(raw_request("bags", inputs))), eager("bags", inputs))
    assert not daemon.ended()


@pytest.mark.parametrize("divisor", [-1, 1])
def test_least_integer(daemon: Daemon, channel: grpc.Channel, divisor: int) -> None:
    """By -1 the quotient does not fit in 64 bits: x86 traps where PyTorch's divisions wrap around."""
    inputs = indices(2)
    inputs["dividend"][0], inputs["divisor"][0] = LEAST, divisor
    answer = read(stub(channel).ModelInfer(raw_request("hostile", inputs)))
    assert answer["quotient"][0].tolist() == [LEAST] * 4
    assert answer["truncated"][0].tolist() == [LEAST] * 4
    assert answer["remainder"][0].tolist() == [0] * 4
    assert answer["modulo"][0].tolist() == [0] * 4
    for name in ("quotient", "truncated", "remainder", "modulo"):
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
