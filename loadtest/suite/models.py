"""The ten models: where they come from, how they are exported, and the buckets they are served in.

Weights are random but seeded, other than MiniLM's, which deploy/export_demo.py has exported. None of
what is measured depends on their values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812

SEED = 0
Sizes = dict[str, int]  # of a bucket, by dimension


@dataclass(frozen=True)
class SuiteModel:
    """A program and how it is served. `make` gives the module and example inputs by name."""

    name: str
    what: str
    make: Callable[[], tuple[nn.Module, dict[str, Tensor]]] | None  # None: exported elsewhere
    # Dimension → "input.axis", one or more. The batch is axis 0 of every input and is not listed.
    axes: dict[str, str] = field(default_factory=dict)
    most: Sizes = field(default_factory=dict)  # the largest size of each dynamic dimension, to export with
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    buckets: tuple[Sizes, ...] = ()
    padded: tuple[str, ...] = ()  # dimensions that a request may be filled up along

    def dynamic_shapes(self, names: list[str]) -> dict[str, dict[int, Any]]:
        """For torch.export."""
        shapes: dict[str, dict[int, Any]] = {name: {} for name in names}
        for dimension, most in self.most.items():
            symbol = Dim(dimension, min=1, max=most)
            for name, axis in self.places(dimension, names):
                shapes[name][axis] = symbol
        return shapes

    def places(self, dimension: str, inputs: Iterable[str]) -> list[tuple[str, int]]:
        """The inputs and axes that have a dimension's size."""
        if dimension == "batch":
            return [(name, 0) for name in inputs]
        places = (place.split(".") for place in self.axes[dimension].split())
        return [(name, int(axis)) for name, axis in places]

    def model_yaml(self, compiled: bool = True) -> str:
        """JSON, which is YAML."""
        fields: dict[str, object] = {} if compiled else {"compile": False}
        if "batch" in self.buckets[0]:
            fields["max_batch_size"] = max(bucket["batch"] for bucket in self.buckets)
        if self.axes:
            fields["dimensions"] = {
                dimension: {"axis": places.split()[0], "padding": dimension in self.padded}
                for dimension, places in self.axes.items()
            }
        if self.ranges:
            fields["inputs"] = {name: {"range": list(limits)} for name, limits in self.ranges.items()}
        fields["buckets"] = list(self.buckets)
        return json.dumps(fields, indent=1) + "\n"


def write(model: SuiteModel, repository: Path, demo: Path) -> None:
    """Puts the model into a model repository; `demo` is the one that holds minilm.

    Raises whatever torch.export raises for a model that can't be exported.
    """
    folder = repository / model.name
    program = folder / "1/model.pt2"
    program.parent.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(model.model_yaml())
    if program.exists():
        return
    if model.make is None:
        os.link(demo / model.name / "1/model.pt2", program)
        return
    torch.manual_seed(SEED)
    module, inputs = model.make()
    exported = torch.export.export(
        module.eval(), (), inputs, dynamic_shapes=model.dynamic_shapes(list(inputs))
    )
    partial = program.with_suffix(".partial.pt2")  # another ending is refused
    torch.export.save(exported, partial)
    partial.rename(program)


# --- the models ---


class _Named(nn.Module):
    """One image in, one tensor out under a name."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        return {"logits": self.inner(image)}


def _settled(module: nn.Module) -> nn.Module:
    """Gives batch norms statistics other than 0 and 1, as training would have."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module


def resnet18() -> tuple[nn.Module, dict[str, Tensor]]:
    from torchvision.models import resnet18 as build

    return _Named(_settled(build(weights=None))), {"image": torch.randn(2, 3, 224, 224)}


def vit_tiny() -> tuple[nn.Module, dict[str, Tensor]]:
    import timm

    return _Named(timm.create_model("vit_tiny_patch16_224", pretrained=False)), {
        "image": torch.randn(2, 3, 224, 224)
    }


class _NextToken(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        answer = self.model(input_ids=input_ids, use_cache=False, logits_to_keep=1)
        return {"next_logits": answer.logits[:, 0]}


def gpt2_small() -> tuple[nn.Module, dict[str, Tensor]]:
    import transformers

    config = transformers.GPT2Config(use_cache=False)
    return _NextToken(transformers.GPT2LMHeadModel(config)), {
        "input_ids": torch.randint(0, config.vocab_size, (2, 16))
    }


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(256),
            nn.Linear(256, 1024),
            nn.ReLU(),
            nn.LayerNorm(1024),
            nn.Linear(1024, 1024),
            nn.ReLU(),
            nn.LayerNorm(1024),
            nn.Linear(1024, 64),
        )

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        return {"scores": self.layers(features)}


def mlp() -> tuple[nn.Module, dict[str, Tensor]]:
    return _Mlp(), {"features": torch.randn(2, 256)}


class _Convolutions(nn.Sequential):
    def __init__(self, width_in: int, width: int) -> None:
        parts: list[nn.Module] = []
        for channels in (width_in, width):
            parts += [nn.Conv2d(channels, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU()]
        super().__init__(*parts)


class _UNet(nn.Module):
    """Three resolutions, 32 to 128 channels, joined across."""

    def __init__(self) -> None:
        super().__init__()
        widths = (32, 64, 128)
        self.down = nn.ModuleList(_Convolutions(i, o) for i, o in zip((3, *widths), widths, strict=False))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[:-1])
        self.up = nn.ModuleList(_Convolutions(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        across = []
        for level, block in enumerate(self.down):
            image = block(F.max_pool2d(image, 2) if level else image)
            across.append(image)
        image = across.pop()
        for grow, block in zip(reversed(self.grow), reversed(self.up), strict=True):
            image = block(torch.cat((grow(image), across.pop()), 1))
        return {"classes": self.head(image)}


def unet() -> tuple[nn.Module, dict[str, Tensor]]:
    return _UNet(), {"image": torch.randn(2, 3, 64, 64)}


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 16)

    def forward(self, series: Tensor) -> dict[str, Tensor]:
        states, _ = self.recurrent(series)
        return {"forecast": self.head(states[:, -1])}


def lstm() -> tuple[nn.Module, dict[str, Tensor]]:
    return _Lstm(), {"series": torch.randn(2, 32, 64)}


class _Recommender(nn.Module):
    """A DLRM: bags of embeddings, their products with each other and with dense features, an MLP."""

    def __init__(self, tables: int = 8, rows: int = 10_000, width: int = 32) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        for bag in self.bags:
            nn.init.uniform_(bag.weight, -0.1, 0.1)
        self.dense = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, offset=-1), persistent=False)

    def forward(self, dense: Tensor, items: Tensor) -> dict[str, Tensor]:
        features = self.dense(dense)
        bags = [bag(items[:, table]) for table, bag in enumerate(self.bags)]
        joined = torch.stack((features, *bags), 1)
        products = joined @ joined.transpose(1, 2)
        chosen = products[:, self.pairs[0], self.pairs[1]]
        return {"probability": self.top(torch.cat((features, chosen), 1))}


def recommender() -> tuple[nn.Module, dict[str, Tensor]]:
    return _Recommender(), {"dense": torch.randn(2, 13), "items": torch.randint(0, 10_000, (2, 8, 10))}


class _EarlyExit(nn.Module):
    """Two encoder layers, and four more where the answer after them isn't clear: torch.cond decides
    by the values. What it decides is decided for all rows, so rows are not put together: no batch."""

    def __init__(self, width: int = 192, classes: int = 16) -> None:
        super().__init__()
        layers = [
            nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True, dropout=0.0)
            for _ in range(6)
        ]
        self.first, self.rest = nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:])
        self.head = nn.Linear(width, classes)

    def forward(self, frames: Tensor) -> dict[str, Tensor]:
        hidden = self.first(frames)
        clear = self.head(hidden.mean(1)).softmax(-1).amax() > 0.9
        hidden = torch.cond(clear, lambda h: h.clone(), lambda h: self.rest(h), (hidden,))
        return {"logits": self.head(hidden.mean(1))}


def early_exit() -> tuple[nn.Module, dict[str, Tensor]]:
    return _EarlyExit(), {"frames": torch.randn(1, 16, 192)}


class _TinyOperators(nn.Module):
    """Hundreds of operators on a few hundred numbers, of kinds that don't fuse with each other: sorts,
    lookups, divisions of integers, tiny products, sums along the rows, copies out of order."""

    def __init__(self, rounds: int = 12) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(rounds, 16, 16) / 4)
        self.table = nn.Parameter(torch.randn(64, 16))

    def forward(self, x: Tensor, ids: Tensor) -> dict[str, Tensor]:
        for step, mix in enumerate(self.mix):
            x = torch.tanh(x @ mix) + self.table[ids]
            order = x.argsort(1)
            x = x.gather(1, order.flip(1)) - x.roll(step % 5 + 1, 1)
            ids = (ids * 5 + step) % 64
            best, _ = x.topk(3, 1)
            smooth = x.cumsum(1) / 16
            x = torch.where(best[:, :1] > 1, smooth, x + best.mean(1, keepdim=True))
            x = x / x.norm(dim=1, keepdim=True).clamp(min=1e-3)
        return {"y": x, "last": ids}


def tiny_operators() -> tuple[nn.Module, dict[str, Tensor]]:
    return _TinyOperators(), {"x": torch.randn(2, 16), "ids": torch.randint(0, 64, (2,))}


BATCHES: tuple[Sizes, ...] = ({"batch": 1}, {"batch": 8})
IMAGES: dict[str, Any] = {"most": {"batch": 16}, "buckets": BATCHES}
ROWS: dict[str, Any] = {"most": {"batch": 64}, "buckets": (*BATCHES, {"batch": 64})}

MODELS: tuple[SuiteModel, ...] = (
    SuiteModel(
        "minilm",
        "sentence encoder, 6 layers of 384",
        None,
        axes={"tokens": "input_ids.1 attention_mask.1"},
        ranges={"input_ids": (0, 30521), "attention_mask": (0, 1)},
        buckets=tuple({"batch": b, "tokens": t} for b in (1, 8) for t in (16, 128)),
        padded=("tokens",),
    ),
    SuiteModel("resnet18", "convolutions, batch norms; 224 × 224", resnet18, **IMAGES),
    SuiteModel("vit_tiny", "vision transformer, 12 layers of 192; 224 × 224", vit_tiny, **IMAGES),
    SuiteModel(
        "gpt2_small",
        "decoder, 12 layers of 768; logits of the next token",
        gpt2_small,
        axes={"tokens": "input_ids.1"},
        most={"batch": 8, "tokens": 256},
        ranges={"input_ids": (0, 50256)},
        buckets=({"batch": 1, "tokens": 16}, {"batch": 1, "tokens": 64}, {"batch": 4, "tokens": 64}),
    ),
    SuiteModel("mlp", "linear layers of 1024, layer norms", mlp, **ROWS),
    SuiteModel("unet", "convolutions up and down, group norms; 64 × 64", unet, **IMAGES),
    SuiteModel("lstm", "one layer of 128, 32 steps", lstm, most={"batch": 64}, buckets=BATCHES),
    SuiteModel("recommender", "eight tables of embedding bags, an MLP", recommender,
               ranges={"items": (0, 9_999)}, **ROWS),
    SuiteModel(
        "early_exit",
        "torch.cond: four more layers where two don't decide",
        early_exit,
        axes={"frames": "frames.1"},
        most={"frames": 128},
        buckets=({"frames": 16}, {"frames": 64}),
    ),
    SuiteModel("tiny_operators", "hostile: hundreds of operators on a few hundred numbers", tiny_operators,
               ranges={"ids": (0, 63)}, **ROWS),
)  # fmt: skip
