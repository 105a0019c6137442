"""Proves that programs that PT2E has quantised answer as in Python: by operators that torch registers from Python
alone, of which the server has kernels of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.integration.daemon import Daemon
from tests.integration.test_bad_models import index
from tests.integration.test_export_forms import module
from tests.integration.wire import raw_request, read, stub

Q = torch.ops.quantized_decomposed
LEAST, MOST, TYPE = -128, 127, torch.int8
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)) * 3
SCALES, ZEROS = torch.linspace(0.01, 0.3, 8), torch.arange(-4, 4)
STEP = 0.3  # the largest of those scales


def whole(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
    q = Q.quantize_per_tensor.default(x, 0.05, 3, LEAST, MOST, TYPE)
    lower = Q.quantize_per_tensor.default(x.to(torch.bfloat16), 0.05, 3, 0, 200, torch.uint8)
    return {
        "q": q,
        "back": Q.dequantize_per_tensor.default(q, 0.05, 3, LEAST, MOST, TYPE),
        "lower": Q.dequantize_per_tensor.default(lower, 0.05, 3, 0, 200, torch.uint8, out_dtype=torch.bfloat16),
    }


def dynamic(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
    scale, zero = Q.choose_qparams.tensor(x, LEAST, MOST, 1e-5, TYPE)
    even, middle = Q.choose_qparams_symmetric.tensor(x, LEAST, MOST, 1e-5, TYPE)
    q = Q.quantize_per_tensor.tensor(x, scale, zero, LEAST, MOST, TYPE)
    back = Q.dequantize_per_tensor.tensor(q, scale, zero, LEAST, MOST, TYPE)
    return {"scale": scale, "zero": zero, "even": even, "middle": middle, "q": q, "back": back}


def channels(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
    scales, zeros = SCALES.clone(), ZEROS.clone()
    q = Q.quantize_per_channel.default(x, scales, zeros, 1, LEAST, MOST, TYPE)
    return {
        "q": q,
        "back": Q.dequantize_per_channel.default(q, scales, zeros, 1, LEAST, MOST, TYPE),
        "unshifted": Q.dequantize_per_channel.default(q, scales, None, 1, LEAST, MOST, TYPE),
    }


def tokens(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
    # Whose scales torch says are of float64, and makes of float32: no answer to look at.
    scales, zeros = Q.choose_qparams_per_token.default(x, TYPE)
    even = Q.quantize_per_token.default(x, scales, zeros, LEAST, MOST, TYPE)
    shifted, zeros_there = Q.choose_qparams_per_token_asymmetric.default(x, TYPE)
    q = Q.quantize_per_token.default(x, shifted, zeros_there, LEAST, MOST, TYPE)
    back = Q.dequantize_per_token.default(q, shifted, zeros_there, LEAST, MOST, TYPE, torch.float32)
    return {"even": even, "shifted": shifted, "zeros": zeros_there, "q": q, "back": back}


def groups(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
    scales, zeros = SCALES.view(4, 2) * 1, ZEROS.view(4, 2) * 1
    q = Q.quantize_per_channel_group.default(x, scales, zeros, -8, 7, TYPE, 4)
    back = Q.dequantize_per_channel_group.default(q, scales, zeros, -8, 7, TYPE, 4, torch.float32)
    return {"q": q, "back": back}


class Layer(nn.Module):
    """A linear layer as PT2E leaves it: int8 weights with a scale for each row, inputs quantised with one."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
        self.register_buffer("scales", weight.abs().amax(1) / MOST)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))
        weight = Q.quantize_per_channel.default(weight, self.scales, self.zeros, 0, LEAST, MOST, TYPE)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        scale, zero, least, most = 0.04, 10, 0, 255
        q = Q.quantize_per_tensor.default(x, scale, zero, least, most, torch.uint8)
        x = Q.dequantize_per_tensor.default(q, scale, zero, least, most, torch.uint8)
        weight = Q.dequantize_per_channel.default(self.weight, self.scales, self.zeros, 0, LEAST, MOST, TYPE)
        return {"y": torch.relu(F.linear(x, weight))}


PROGRAMS: dict[str, nn.Module] = {
    **{made.__name__: module(made) for made in (whole, dynamic, channels, tokens, groups)},
    "layer": Layer(),
}


def put(root: Path, name: str, program: torch.export.ExportedProgram) -> None:
    (root / name / "1").mkdir(parents=True)
    torch.export.save(program, root / name / "1/model.pt2")


@pytest.mark.parametrize("arguments", [("--no-compile",), ("--no-promotion-checks",)], ids=["eager", "compiled"])
def test_answers_are_those_of_python(
    arguments: tuple[str, ...], start: Callable[..., Daemon], tmp_path: Path, fresh_cache: Path
) -> None:
    for name, made in PROGRAMS.items():
        put(tmp_path / "models", name, torch.export.export(made, (X,)))
    with start(tmp_path / "models", *arguments, cache=fresh_cache) as daemon:
        daemon.wait_ready()
        with grpc.insecure_channel(daemon.address) as channel:
            for name, made in PROGRAMS.items():
                answer, wanted = read(stub(channel).ModelInfer(raw_request(name, {"x": X}))), made(X)
                assert answer.keys() == wanted.keys()
                for key, value in wanted.items():
                    if arguments == ("--no-compile",):
                        assert torch.equal(answer[key], value), (name, key)
                        continue
                    # What lies between two steps is rounded to either by an error in its last digit.
                    apart = (answer[key].double() - value.double()).abs()
                    assert (apart <= 1e-5).double().mean() > 0.9, (name, key)
                    assert apart.max() <= (1 if key in ("q", "even") else STEP) + 1e-5, (name, key)
        tier = "eager" if arguments == ("--no-compile",) else "aot"
        assert daemon.metric("stoker_tier_requests_total", model="layer", tier=tier) == 1, daemon.log()


def test_refused(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """What is not for running a program, by the operator."""

    def fake(self: nn.Module, x: Tensor) -> dict[str, Tensor]:
        return {"y": Q.fake_quant_per_channel.default(x, SCALES * 1, ZEROS * 1, 1, LEAST, MOST)}

    put(tmp_path / "models", "fake", torch.export.export(module(fake), (X,)))
    put(tmp_path / "models", "whole", torch.export.export(module(whole), (X,)))
    with start(tmp_path / "models", "--no-compile") as daemon:
        daemon.wait_ready()
        state, reason = index(daemon)["fake"]
        assert state == "UNAVAILABLE"
        assert "compute on tensors, got 'torch.ops.quantized_decomposed.fake_quant_per_channel.default'" in reason
        assert index(daemon)["whole"][0] == "READY"
