"""Programs for a GPU, made where they are needed: weights are random but seeded, and no file is fetched.

    python -m tests.gpu.models OUTDIR NAME...       "--list" instead lists the names

writes OUTDIR/NAME/1/model.pt2 for each. Programs are exported on the CPU; large weights are drawn on a GPU where
there is one, which is faster.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812

SEED = 0
TOKENS = 128


@dataclass(frozen=True)
class GpuModel:
    """A program and the batch sizes of its buckets; none: it has no batch."""

    what: str
    make: Callable[[], tuple[nn.Module, dict[str, Any]]]
    batches: tuple[int, ...] = ()
    highest: dict[str, int] = field(default_factory=dict)  # exclusive, of integer inputs
    tolerance: float = 1e-3  # of a compiled answer, absolute and relative


class Kernels(nn.Module):
    """Softmax along one dimension, then along the other: nothing can be fused, each is a kernel of microseconds."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.count):
            x = F.softmax(x * 2.0, dim=1 + number % 2)
        return x


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = (256, 512, 512, 512, 16)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x))
        return self.layers[-1](x)


class Block(nn.Module):
    """A transformer's layer; norms in front (GPT-2) or behind (BERT)."""

    def __init__(self, width: int, heads: int, inner: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.attention(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.projection(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.causal:
            x = x + self._attend(self.norms[0](x), mask)
            return x + self.narrow(F.gelu(self.wide(self.norms[1](x)), approximate="tanh"))
        x = self.norms[0](x + self._attend(x, mask))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


class Gpt2(nn.Module):
    """GPT-2's sizes and operators; logits of the last position, as for the next token."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads, 4 * width, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50257, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, -1])


class Encoder(nn.Module):
    """all-MiniLM-L6-v2's sizes and operators, pooled and normalised; by others, BERT's."""

    def __init__(self, layers: int = 6, width: int = 384) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, 12, 4 * width, causal=False) for _ in range(layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        allowed = (mask != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, allowed)
        weight = mask[..., None].to(x.dtype)
        pooled = (x * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        return F.normalize(pooled, dim=1)


class Images(nn.Module):
    """A small network on images of 224 x 224: copying its input takes about as long as computing."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in ((3, 32), (32, 64), (64, 128), (128, 256)):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Bottleneck(nn.Module):
    """Three convolutions beside a short cut, as in ResNet-50."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.inner = nn.Sequential(
            nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short: nn.Module = nn.Identity()
        if stride != 1 or into != out:
            self.short = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.inner(x) + self.short(x))


class ResNet50(nn.Module):
    """Its sizes and operators."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        ]  # fmt: skip
        into = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Bottleneck(into, width, stride if number == 0 else 1))
                into = 4 * width
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Adam(nn.Module):
    """One step for ten layers of 1024 x 1024, states in and out, a tensor at a time as torch.optim's plain form."""

    LAYERS = 10

    def forward(
        self,
        weights: list[Tensor],
        gradients: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        step: Tensor,
    ) -> dict[str, Any]:
        step = step + 1
        one, two = 1 - torch.pow(0.9, step), 1 - torch.pow(0.999, step)
        parts = []
        for w, g, m, v in zip(weights, gradients, first, second, strict=True):
            mean = m.lerp(g, 0.1)
            square = v * 0.999 + g * g * 0.001
            parts.append((w - 1e-3 * (mean / one) / ((square / two).sqrt() + 1e-8), mean, square))
        w, m, v = (list(column) for column in zip(*parts, strict=True))
        return {"weights": w, "first": m, "second": v, "step": step}


class TwoOps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + x.sum(1, keepdim=True)


def ids(highest: int) -> Tensor:
    return torch.randint(0, highest, (2, TOKENS))


def drawn(make: Callable[[], nn.Module], dtype: torch.dtype) -> nn.Module:
    """The module with small random weights of a dtype, on the CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device("meta"):
        module = make()
    module = module.to(dtype).to_empty(device=device)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            else:
                parameter.normal_(0.0, 0.02)
    return module.cpu()


MODELS = {
    "two_ops": GpuModel("x * 2 + sum", lambda: (TwoOps(), {"x": torch.randn(2, 64)}), (1, 8)),
    **{
        f"kernels{n}": GpuModel(
            f"{n} kernels of microseconds",
            lambda n=n: (Kernels(n), {"x": torch.randn(2, 32, 32)}),  # type: ignore[misc]
            (1,),
        )
        for n in (10, 100, 500)
    },
    "mlp": GpuModel("4 layers of 512", lambda: (Mlp(), {"x": torch.randn(2, 256)}), (1, 8, 64)),
    "minilm": GpuModel(
        "MiniLM-L6's sizes, 128 tokens",
        lambda: (
            drawn(Encoder, torch.float32),
            {"ids": ids(30522), "mask": torch.ones(2, TOKENS, dtype=torch.int64)},
        ),
        (1, 2, 4, 8, 16, 32, 48, 64),
        {"ids": 30522, "mask": 2},
    ),
    "images": GpuModel(
        "4 convolutions, 3 x 224 x 224", lambda: (Images(), {"image": torch.randn(2, 3, 224, 224)}), (8, 32)
    ),
    "gpt2": GpuModel(
        "GPT-2, 124 M, float16, 128 tokens",
        lambda: (drawn(lambda: Gpt2(12, 768, 12), torch.float16), {"ids": ids(50257)}),
        (1, 8),
        {"ids": 50257},
        5e-2,
    ),
    **{
        f"gpt2_xl{suffix}": GpuModel(
            f"GPT-2 XL, 1.5 B, {str(dtype).removeprefix('torch.')}, 128 tokens",
            lambda dtype=dtype: (  # type: ignore[misc]
                drawn(lambda: Gpt2(48, 1600, 25), dtype),
                {"ids": ids(50257)},
            ),
            (1, 8),
            {"ids": 50257},
            tolerance,
        )
        for suffix, dtype, tolerance in (
            ("", torch.float16, 5e-2),
            ("_bf16", torch.bfloat16, 2e-1),
            ("_f32", torch.float32, 1e-3),
        )
    },
    "resnet50": GpuModel(
        "ResNet-50, 3 x 224 x 224",
        lambda: (ResNet50(), {"image": torch.randn(2, 3, 224, 224)}),
        (1, 8, 32),
    ),
    "bert_base": GpuModel(
        "BERT-base, 110 M, 128 tokens",
        lambda: (
            drawn(lambda: Encoder(12, 768), torch.float32),
            {"ids": ids(30522), "mask": torch.ones(2, TOKENS, dtype=torch.int64)},
        ),
        (1, 8, 32),
        {"ids": 30522, "mask": 2},
    ),
    "adam": GpuModel(
        "a step of Adam, 10 x 1024 x 1024",
        lambda: (
            Adam(),
            {
                **{
                    name: [torch.rand(1024, 1024) for _ in range(Adam.LAYERS)]
                    for name in ("weights", "gradients", "first", "second")
                },
                "step": torch.ones(1),
            },
        ),
    ),
}


def export(name: str, path: Path) -> None:
    """Writes the program. Raises KeyError for a name that isn't in MODELS."""
    model = MODELS[name]
    torch.manual_seed(SEED)
    module, inputs = model.make()
    shapes = None
    if model.batches:
        batch = Dim("batch", min=1, max=max(64, *model.batches))
        shapes = {given: {0: batch} for given in inputs}
    program = torch.export.export(module.eval(), (), inputs, dynamic_shapes=shapes)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.pt2")
    torch.export.save(program, partial)
    partial.rename(path)  # whoever waits for it finds it whole


def inputs_of(name: str, shapes: list[list[int]], names: list[str], dtypes: list[str], seed: int) -> list[Tensor]:
    """Random inputs on the CPU, in the program's flat order."""
    generator = torch.Generator().manual_seed(seed)
    model = MODELS[name]
    made = []
    for shape, given, dtype in zip(shapes, names, dtypes, strict=True):
        kind = getattr(torch, dtype)
        if kind.is_floating_point:
            made.append(torch.rand(shape, generator=generator).to(kind))
        else:
            made.append(torch.randint(0, model.highest.get(given, 2), shape, generator=generator, dtype=kind))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="say what there is, and end")
    options = parser.parse_args()
    if options.list or options.outdir is None:
        for name, model in MODELS.items():
            print(f"{name:<12}{model.what}")
        return
    for name in options.names:
        started = time.monotonic()
        export(name, options.outdir / name / "1" / "model.pt2")
        print(json.dumps({"exported": name, "seconds": round(time.monotonic() - started, 1)}), flush=True)


if __name__ == "__main__":
    main()
