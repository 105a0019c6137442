"""Proves that programs serve that torch.export writes in its own way: with numbers where a schema says a tensor, and
with the operator that transformers brings for mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (registers its operator)
from torch import Tensor, nn

from tests.integration.daemon import Daemon
from tests.integration.wire import assert_same, raw_request, read, refusal, stub


class Divided(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> dict[str, Tensor]:
        return {
            "by_two": x // 2, "integers": i // 2, "by_less": i // 0.5, "of_seven": 7 // (i.abs() + 1),
            "of_a_half": 0.5 // (x.abs() + 1), "rows": i // i.shape[0],
        }  # fmt: skip


class Floats(nn.Module):
    """Numbers that are found in a tensor, as transformers' Funnel computes its positions."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first, last = x[0, 0].item(), x[0, 1].item()
        torch._check(first <= last)
        return {"y": x * (first % last) + torch.arange(first, last, 1).sum()}


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6, 5))

    def forward(self, x: Tensor, ends: Tensor) -> dict[str, Tensor]:
        return {"y": torch.ops.transformers.grouped_mm_fallback(x, self.weight, ends)}


X = {"x": torch.randn(4, 4), "i": torch.tensor([[-7, -1, 0, 8]] * 4)}
ROWS = {"x": torch.randn(8, 6), "ends": torch.tensor([2, 2, 7, 8])}


FLOATS = {"x": torch.tensor([[-1.5, 2.5]])}


@pytest.fixture(scope="module")
def modules() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"divided": Divided(), "experts": Experts(), "floats": Floats()}


@pytest.fixture(scope="module")
def models(modules: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    batch = torch.export.Dim("batch", min=4, max=64)  # no bucket is filled up: answers depend on the number of rows
    for name, inputs in (("divided", X), ("experts", ROWS), ("floats", FLOATS)):
        path = root / name / "1/model.pt2"
        path.parent.mkdir(parents=True)
        shapes = {"x": {0: batch}, "i": {0: batch}} if name == "divided" else None
        torch.export.save(torch.export.export(modules[name], (), inputs, dynamic_shapes=shapes), path)
    (root / "divided/model.yaml").write_text("buckets: {batch: [4]}\n")
    (root / "floats/model.yaml").write_text("inputs: {x: {range: [2, 2]}}\n")
    (root / "experts/model.yaml").write_text("inputs: {ends: {range: [8, 8]}}\n")
    return root


@pytest.fixture
def channel(models: Path, start: Callable[..., Daemon]) -> Iterator[grpc.Channel]:
    with start(models) as daemon:
        daemon.wait_ready()
        with grpc.insecure_channel(daemon.address) as channel:
            yield channel
        # What the compiler made of it was compared with that.
        assert daemon.metric("stoker_fallbacks_total", model="divided", reason="parity") == 0


def test_numbers_where_a_schema_says_a_tensor(channel: grpc.Channel, modules: dict[str, nn.Module]) -> None:
    answer = read(stub(channel).ModelInfer(raw_request("divided", X)))
    assert_same(answer, modules["divided"](**X))


def test_comparisons_and_remainders_of_floats(channel: grpc.Channel, modules: dict[str, nn.Module]) -> None:
    answer = read(stub(channel).ModelInfer(raw_request("floats", FLOATS)))
    assert_same(answer, modules["floats"](**FLOATS))
    falling = {"x": -FLOATS["x"]}
    error = refusal(lambda: stub(channel).ModelInfer(raw_request("floats", falling)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "zuf0 <= zuf1" in error.details()
    error = refusal(lambda: stub(channel).ModelInfer(raw_request("floats", {"x": torch.tensor([[-1.0, 0.0]])})))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "than 0" in error.details()


def test_a_mixture_of_experts(channel: grpc.Channel, modules: dict[str, nn.Module]) -> None:
    infer = stub(channel).ModelInfer
    assert_same(read(infer(raw_request("experts", ROWS))), modules["experts"](**ROWS))
    for ends, what in (
        ([2, 1, 7, 8], "from 2 to 8, got 1 for expert 1"),
        ([2, 2, 9, 9], "from 2 to 8, got 9 for expert 2"),
        ([-1, 2, 7, 8], "from 0 to 8, got -1 for expert 0"),
    ):
        wrong = {**ROWS, "ends": torch.tensor(ends)}
        error = refusal(lambda wrong=wrong: infer(raw_request("experts", wrong)))  # type: ignore[misc]
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert f"grouped_mm: expected offsets {what}" in error.details()
