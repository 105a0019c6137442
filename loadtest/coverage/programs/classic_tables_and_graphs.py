"""Nets for rows of a table and for graphs, written out."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from loadtest.coverage.program import B, Input, Program, floats, integers

NODES, EDGES = 40, 120


class Dlrm(nn.Module):
    """Bags of embeddings, their products with each other and with dense features, an MLP."""

    def __init__(self, tables: int = 6, rows: int = 2000, width: int = 32) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("pairs", pairs, persistent=False)
        self.top = nn.Sequential(nn.Linear(width + pairs.shape[1], 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())

    def forward(self, dense: Tensor, items: Tensor) -> Tensor:
        features = self.dense(dense)
        joined = torch.stack((features, *(bag(items[:, i]) for i, bag in enumerate(self.bags))), 1)
        products = joined @ joined.transpose(1, 2)
        return self.top(torch.cat((features, products[:, self.pairs[0], self.pairs[1]]), 1))


class TabularTransformer(nn.Module):
    """A token for each column, numbers and categories alike, and one that reads them all."""

    def __init__(self, categories: int = 50, columns: int = 6, numbers: int = 8, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(categories * columns, width)
        self.register_buffer("first", torch.arange(columns) * categories, persistent=False)
        self.scale, self.shift = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.randn(numbers, width))
        self.reader = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        reader = self.reader.expand(numbers.shape[0], -1, -1)
        tokens = (reader, numbers[..., None] * self.scale + self.shift, self.embed(categories + self.first))
        return self.head(self.layers(torch.cat(tokens, 1))[:, 0])


class MixtureOfExperts(nn.Module):
    """Each row goes to the two experts that its gate likes best; all are computed, and weighed."""

    def __init__(self, width: int = 128, experts: int = 8, chosen: int = 2) -> None:
        super().__init__()
        self.gate, self.chosen = nn.Linear(width, experts), chosen
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / width**0.5)

    def forward(self, rows: Tensor) -> Tensor:
        scores, places = self.gate(rows).topk(self.chosen, 1)
        weights = torch.zeros_like(self.gate(rows)).scatter(1, places, scores.softmax(1))
        hidden = F.silu(torch.einsum("bi,eio->ebo", rows, self.up))
        return rows + torch.einsum("ebi,eio,be->bo", hidden, self.down, weights)


class KolmogorovArnold(nn.Module):
    """Layers whose every edge is a spline: B-splines of third order on a fixed grid, and a SiLU beside them."""

    def __init__(self, widths: tuple[int, ...] = (8, 32, 16, 4), cells: int = 5, order: int = 3) -> None:
        super().__init__()
        self.order = order
        self.register_buffer("knots", (torch.arange(-order, cells + order + 1) / cells) * 2 - 1, persistent=False)
        pairs = list(zip(widths, widths[1:], strict=False))
        self.base = nn.ModuleList(nn.Linear(i, o, bias=False) for i, o in pairs)
        self.splines = nn.ModuleList(nn.Linear(i * (cells + order), o, bias=False) for i, o in pairs)

    def forward(self, features: Tensor) -> Tensor:
        for base, spline in zip(self.base, self.splines, strict=True):
            features = base(F.silu(features)) + spline(self.bases(features.tanh()).flatten(1))
        return features

    def bases(self, x: Tensor) -> Tensor:
        x, knots = x[..., None], self.knots
        found = ((x >= knots[:-1]) & (x < knots[1:])).to(x)
        for k in range(1, self.order + 1):
            rising = (x - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
            falling = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
            found = rising * found[..., :-1] + falling * found[..., 1:]
        return found


class GraphConvolution(nn.Module):
    """Messages along edges, added up at their targets by scatter, three rounds; one graph a row."""

    def __init__(self, features: int = 16, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(3))
        self.head = nn.Linear(width, 3)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        hidden = self.enter(nodes)
        width = hidden.shape[2]
        sources, targets = (ends[..., None].expand(-1, -1, width) for ends in (sources, targets))
        for message, update in zip(self.messages, self.updates, strict=True):
            ends = torch.cat((hidden.gather(1, sources), hidden.gather(1, targets)), 2)
            gathered = torch.zeros_like(hidden).scatter_add(1, targets, torch.relu(message(ends)))
            hidden = update(gathered.flatten(0, 1), hidden.flatten(0, 1)).reshape(hidden.shape)
        return self.head(hidden.mean(1))


class GraphAttention(nn.Module):
    """Attention along the edges of one graph: a softmax over each node's incoming edges, by scatter."""

    def __init__(self, features: int = 16, width: int = 32, heads: int = 4, classes: int = 7) -> None:
        super().__init__()
        self.heads = heads
        self.enter = nn.Linear(features, heads * width, bias=False)
        self.source, self.target = (nn.Parameter(torch.randn(heads, width) / 4) for _ in range(2))
        self.head = nn.Linear(heads * width, classes)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        hidden = self.enter(nodes).unflatten(1, (self.heads, -1))
        likes = (hidden * self.source).sum(2)[sources] + (hidden * self.target).sum(2)[targets]
        likes = F.leaky_relu(likes, 0.2)
        index = targets[:, None].expand(-1, self.heads)
        empty = likes.new_full((nodes.shape[0], self.heads), float("-inf"))
        weights = (likes - empty.scatter_reduce(0, index, likes, "amax")[targets]).exp()
        total = torch.zeros_like(empty).index_add(0, targets, weights) + 1e-9
        messages = hidden[sources] * (weights / total[targets])[..., None]
        gathered = torch.zeros_like(hidden).index_add(0, targets, messages)
        return self.head(F.elu(gathered.flatten(1)))


class QuantisedLinear(nn.Module):
    """Weights of eight bits, with a scale for each output; activations stay float32."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.randn(outputs, inputs) / inputs**0.5
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self.weight.to(rows) * self.scale, self.bias)


class QuantisedMlp(nn.Sequential):
    """What int8 weights are to a compiler. PT2E is not in torch 2.11 itself any more."""

    def __init__(self) -> None:
        super().__init__(
            QuantisedLinear(64, 256), nn.ReLU(), QuantisedLinear(256, 256), nn.ReLU(), QuantisedLinear(256, 10)
        )


def programs() -> Iterator[Program]:
    def made(make: type[nn.Module], name: str, family: str, **inputs: Input) -> Program:
        return Program(name, family, make, inputs)

    yield made(Dlrm, "dlrm", "tables", dense=floats(B, 13), items=integers(2000, B, 6, 5))
    yield made(TabularTransformer, "tabular_transformer", "tables", numbers=floats(B, 8), categories=integers(50, B, 6))
    yield made(MixtureOfExperts, "mixture_of_experts", "tables", rows=floats(B, 128))
    yield made(KolmogorovArnold, "kolmogorov_arnold", "tables", features=floats(B, 8))
    ends = integers(NODES, B, EDGES)
    yield made(GraphConvolution, "graph_convolution", "graphs", nodes=floats(B, NODES, 16), sources=ends, targets=ends)
    one = {"nodes": floats(NODES, 16), "sources": integers(NODES, EDGES), "targets": integers(NODES, EDGES)}
    yield Program("graph_attention", "graphs", GraphAttention, one, ({},), "one graph, whose size is given")
    yield Program("quantised_mlp", "tables", QuantisedMlp, {"input": floats(B, 64)})
