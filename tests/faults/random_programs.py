"""Small random programs that are right by construction: what a compiler makes of them should be served.

program(seed) is the same program with every run. Steps are drawn that keep numbers near 1 and don't
magnify rounding: where eager itself is a matter of luck, as a sine of thousands is, no check can tell
a healthy artifact from a spoiled one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812

DTYPES = {torch.float32: 6, torch.float64: 1, torch.bfloat16: 2, torch.float16: 1}
VOCABULARY = 50


class Program(NamedTuple):
    """What torch.export needs, and the bucket."""

    module: nn.Module
    args: tuple[Tensor, ...]
    dynamic_shapes: tuple[dict[int, Any], ...]
    batch: int  # rows of the bucket
    described: str  # family, dtype and steps


class _Steps(nn.Module):
    """Applies steps one after the other; every second result is added to an earlier one of its shape."""

    def __init__(self, steps: list[nn.Module], last: nn.Module) -> None:
        super().__init__()
        self.steps, self.last = nn.ModuleList(steps), last

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for number, step in enumerate(self.steps):
            result = step(x)
            x = (result + x) / 2 if number % 2 and result.shape == x.shape else result
        return {"y": x, "summary": self.last(x)}


class _Apply(nn.Module):
    """A function without parameters, under its name."""

    def __init__(self, name: str, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)


class _Gather(nn.Module):
    """Takes entries of the last axis in another order, some of them twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("order", torch.randint(0, width, (width,)))

    def forward(self, x: Tensor) -> Tensor:
        return x[..., self.order]


POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "softplus": F.softplus,
    "erf": torch.erf,
    "decay": lambda x: torch.exp(-x.abs()),
    "root": lambda x: torch.sqrt(x.abs() + 0.5),
    "logarithm": lambda x: torch.log1p(x.abs()),
    "sine": torch.sin,
    "affine": lambda x: x * 0.731 + 0.113,
    "clamp": lambda x: x.clamp(-0.7, 1.3),
    "choice": lambda x: torch.where(x > 0.2, x * 0.5, x.abs() + 0.25),
    "reciprocal": lambda x: 1 / (1 + x * x),
}
# Along the last axis.
ALONG: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1) * x.shape[-1],
    "log_softmax": lambda x: torch.log_softmax(x, -1) / 4,
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "scaled": lambda x: x / (x.abs().amax(-1, keepdim=True) + 0.5),
    "spread": lambda x: x / torch.sqrt(x.var(-1, keepdim=True) + 0.5),
    "unit": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.5),
    "cumulative": lambda x: x.cumsum(-1) / x.shape[-1],
    "flipped": lambda x: x.flip(-1),
    "rolled": lambda x: x.roll(2, -1),
    "padded": lambda x: F.pad(x, (1, 2)),
    "joined": lambda x: torch.cat((x[..., 1:], x * 0.5), -1),
    "every_second": lambda x: x[..., ::2].contiguous() if x.shape[-1] > 8 else x * 1.25,
}
SUMMARIES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.flatten(1).mean(1),
    "sum": lambda x: x.flatten(1).sum(1) / 8,
    "largest": lambda x: x.flatten(1).amax(1),
    "norm": lambda x: x.flatten(1).square().sum(1).sqrt(),
    "positive": lambda x: (x.flatten(1) > -100).sum(1),
    "finite": lambda x: torch.isfinite(x).flatten(1).all(1),
}


def program(seed: int) -> Program:
    """The program of that number."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choices(list(DTYPES), list(DTYPES.values()))[0]
    family = draw.choice(("rows", "sequence", "image", "tokens"))
    batch = draw.choice((1, 2, 3, 5, 8, 13))
    steps: list[nn.Module] = []
    x = _example(family, draw, dtype)
    shape = x.shape
    if family == "tokens":
        steps.append(nn.Embedding(VOCABULARY, draw.randint(4, 64)))
        shape = (*shape, steps[0].embedding_dim)
    for _ in range(draw.randint(3, 8)):
        step = _image_step(draw, shape) if family == "image" else _row_step(draw, shape)
        steps.append(step)
        with torch.no_grad():
            shape = step(torch.ones(shape)).shape
    summary = draw.choice(list(SUMMARIES))
    module = _Steps(steps, _Apply(summary, SUMMARIES[summary])).to(dtype).eval()
    names = [step.name if isinstance(step, _Apply) else type(step).__name__ for step in steps]
    described = f"{family} {str(dtype).removeprefix('torch.')} {' '.join(names)} → {summary}"
    return Program(module, (x,), ({0: Dim("batch", min=1, max=64)},), batch, described)


def _example(family: str, draw: random.Random, dtype: torch.dtype) -> Tensor:
    if family == "rows":
        return torch.randn(2, draw.randint(3, 150)).to(dtype)
    if family == "sequence":
        return torch.randn(2, draw.randint(2, 33), draw.randint(3, 70)).to(dtype)
    if family == "image":
        return torch.randn(2, draw.choice((1, 3, 8)), draw.randint(6, 24), draw.randint(6, 24)).to(dtype)
    return torch.randint(0, VOCABULARY, (2, draw.randint(2, 33)))


def _row_step(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    width = shape[-1]
    kinds = ["pointwise", "pointwise", "along", "along", "linear", "norm", "gather"]
    kind = draw.choice([*kinds, "attention", "mixed"] if len(shape) == 3 else kinds)
    if kind == "linear":
        return nn.Linear(width, draw.randint(3, 130), bias=draw.random() < 0.8)
    if kind == "norm":
        return nn.LayerNorm(width, eps=0.1)
    if kind == "gather":
        return _Gather(width)
    if kind == "attention":
        return _Attention(width)
    if kind == "mixed":
        return _Apply("mixed", lambda x: (x @ x.transpose(1, 2)).tanh() @ x / x.shape[1])
    return _named(draw, POINTWISE if kind == "pointwise" else ALONG)


def _image_step(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    channels = shape[1]
    kind = draw.choice(("conv", "conv", "depthwise", "norm", "pool", "pointwise", "pointwise", "along"))
    if kind == "conv":
        return nn.Conv2d(channels, draw.choice((4, 8, 12)), draw.choice((1, 3)), draw.choice((1, 2)), 1)
    if kind == "depthwise":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
    if kind == "norm":
        return nn.GroupNorm(2 if channels % 2 == 0 else 1, channels, eps=0.1)
    if kind == "pool" and min(shape[2:]) >= 6:
        pool = draw.choice((F.max_pool2d, F.avg_pool2d))
        return _Apply(pool.__name__, lambda x: pool(x, 2))
    return _named(draw, ALONG if kind == "along" else POINTWISE)


def _named(draw: random.Random, functions: dict[str, Callable[[Tensor], Tensor]]) -> nn.Module:
    name = draw.choice(list(functions))
    return _Apply(name, functions[name])
