"""Small exported programs for tests, each with one property that a server has to get right.

    python -m tests.models NAME OUTDIR        NAME may be "all"

writes OUTDIR/NAME/1/model.pt2, and OUTDIR/NAME/model.yaml where the program needs one: OUTDIR is
then a model repository. Weights are seeded, so that two runs write the same numbers.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.export import Dim


class Model(NamedTuple):
    """What torch.export needs, and the model.yaml that goes with it."""

    module: nn.Module
    args: tuple[Any, ...]
    dynamic_shapes: Any = None
    yaml: str = ""


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.net(x)}


def mlp() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 4]."""
    batch = Dim("batch", min=1, max=64)
    return Model(_Mlp(), (torch.randn(2, 16),), ({0: batch},), "max_batch_size: 8\nbuckets: {batch: [1, 8]}\n")


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 512), nn.GELU(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.net(x)}


def layers() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 4], through a layer that is worth oneDNN's while."""
    batch = Dim("batch", min=1, max=64)
    return Model(_Layers(), (torch.randn(2, 16),), ({0: batch},), "")


class _Identity(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x * 1}


def identity() -> Model:
    """FP32 [batch, 16] → y, the same values."""
    batch = Dim("batch", min=1, max=64)
    return Model(
        _Identity(), (torch.randn(2, 16),), ({0: batch},), "max_batch_size: 32\nbuckets: {batch: [1, 4, 32]}\n"
    )


DTYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}


class _AllKinds(nn.Module):
    def forward(
        self,
        in_bool: Tensor,
        in_uint8: Tensor,
        in_int8: Tensor,
        in_int16: Tensor,
        in_int32: Tensor,
        in_int64: Tensor,
        in_fp16: Tensor,
        in_bf16: Tensor,
        in_fp32: Tensor,
        in_fp64: Tensor,
    ) -> dict[str, Tensor]:
        numbers = (in_uint8, in_int8, in_int16, in_int32, in_int64, in_fp16, in_bf16, in_fp32, in_fp64)
        outputs = [torch.logical_not(in_bool), *(x + 1 for x in numbers)]
        return {f"out_{kind}": output for kind, output in zip(DTYPES, outputs, strict=True)}


def allkinds() -> Model:
    """One input in_KIND and one output out_KIND [batch, 3] per dtype: not x for bool, x + 1 otherwise."""
    batch = Dim("batch", min=1, max=16)
    args = tuple(torch.ones(2, 3, dtype=dtype) for dtype in DTYPES.values())
    shapes = tuple({0: batch} for _ in args)
    return Model(_AllKinds(), args, shapes, "max_batch_size: 4\nbuckets: {batch: [1, 4]}\n")


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.linear = nn.Linear(16, 16)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        tokens = torch.tanh(self.linear(self.embedding(ids)))
        weight = mask.unsqueeze(-1).to(tokens.dtype)
        pooled = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return {"token_embeddings": tokens, "pooled": pooled}


TOKENS_YAML = """\
max_batch_size: 4
dimensions:
  batch: {axis: ids.0}
  tokens: {axis: ids.1, padding: true}
inputs:
  ids: {pad_value: 0, range: [0, 99]}
  mask: {pad_value: 0, range: [0, 1]}
buckets:
  batch: [1, 4]
  tokens: [8, 32]
"""


def tokens() -> Model:
    """ids, mask INT64 [batch, tokens] → token_embeddings [batch, tokens, 16], pooled [batch, 16]."""
    batch, length = Dim("batch", min=1, max=16), Dim("tokens", min=1, max=64)
    args = (torch.randint(0, 100, (2, 6)), torch.ones(2, 6, dtype=torch.long))
    shape = {0: batch, 1: length}
    return Model(_Tokens(), args, (shape, shape), TOKENS_YAML)


class _Hostile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.table = nn.Parameter(torch.randn(6, 8))

    def forward(
        self,
        values: Tensor,
        ids: Tensor,
        gather_index: Tensor,
        table_index: Tensor,
        select_index: Tensor,
        put_index: Tensor,
        scatter_index: Tensor,
        dividend: Tensor,
        divisor: Tensor,
    ) -> dict[str, Tensor]:
        rows = torch.arange(values.shape[0]).unsqueeze(1)
        return {
            "embedded": self.embedding(ids),
            "gathered": torch.gather(values, 1, gather_index),
            "indexed": self.table[table_index],
            "selected": self.table.index_select(0, select_index.reshape(-1)).reshape(-1, 4, 8),
            "put": values.index_put((rows, put_index), torch.zeros(())),
            "scattered": torch.zeros_like(values).scatter_add(1, scatter_index, values[:, :4]),
            "quotient": torch.div(dividend, divisor, rounding_mode="floor"),
            "truncated": torch.div(dividend, divisor, rounding_mode="trunc"),
            "remainder": torch.remainder(dividend, divisor),
            "modulo": torch.fmod(dividend, divisor),
        }


HOSTILE_YAML = """\
max_batch_size: 4
inputs:
  ids: {range: [0, 9]}
  gather_index: {range: [0, 7]}
  table_index: {range: [-6, 5]}
  select_index: {range: [0, 5]}
  put_index: {range: [-8, 7]}
  scatter_index: {range: [0, 7]}
  dividend: {range: [-100, 100]}
  divisor: {range: [1, 7]}
buckets: {batch: [1, 4]}
"""


def hostile() -> Model:
    """Operators that eager refuses on some value: each *_index, ids and divisor is one, INT64 [batch, 4].

    Accepted: ids 0..9, gather_index and scatter_index 0..7, table_index -6..5, select_index 0..5,
    put_index -8..7, divisor anything but 0.
    """
    batch = Dim("batch", min=1, max=16)
    index = torch.ones(2, 4, dtype=torch.long)
    args = (torch.randn(2, 8), *(index.clone() for _ in range(8)))
    return Model(_Hostile(), args, tuple({0: batch} for _ in args), HOSTILE_YAML)


class _Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(10, 8, mode="sum")

    def forward(self, indices: Tensor, offsets: Tensor) -> dict[str, Tensor]:
        return {"sums": self.table(indices, offsets)}


def bags() -> Model:
    """indices INT64 [12] 0..9, offsets INT64 [4]: where each bag of indices begins → sums FP32 [4, 8]."""
    args = (torch.arange(12) % 10, torch.tensor([0, 3, 6, 9]))
    return Model(_Bags(), args, yaml="inputs: {indices: {range: [0, 9]}, offsets: {range: [0, 0]}}\n")


def static() -> Model:
    """FP32 [2, 16] → y FP32 [2, 4], without a dynamic dimension."""
    return Model(_Mlp(), (torch.randn(2, 16),))


class _NoBatch(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"total": x.sum(1), "cumulative": torch.cumsum(x, 1)}


class _Scaled(nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
        y = x * scale[:, None]
        return {"y": y, "total": y.sum(1)}


def scaled() -> Model:
    """x FP32 [batch, 16], scale FP32 [batch] → y [batch, 16], the product, and total [batch], its sum."""
    batch = Dim("batch", min=1, max=64)
    return Model(_Scaled(), (torch.randn(2, 16), torch.randn(2)), ({0: batch}, {0: batch}), "")


class _Letters(nn.Module):
    def forward(self, text: Tensor, code: Tensor) -> dict[str, Tensor]:
        small = (text >= ord("a")) & (text <= ord("z"))
        return {"upper": torch.where(small, text - 32, text), "count": (text != 0).sum(1), "edoc": code.flip(1)}


def letters() -> Model:
    """text UINT8 [batch, length], code UINT8 [batch, 4] → upper, as text; count INT64 [batch], bytes that aren't
    0; edoc [batch, 4], code from behind."""
    batch, length = Dim("batch", min=1, max=64), Dim("length", min=1, max=64)
    args = (torch.ones(2, 6, dtype=torch.uint8), torch.ones(2, 4, dtype=torch.uint8))
    return Model(_Letters(), args, ({0: batch, 1: length}, {0: batch}), "")


def nobatch() -> Model:
    """FP32 [4, length] → total [4], cumulative [4, length]: what varies is not a batch."""
    return Model(
        _NoBatch(), (torch.randn(4, 6),), ({1: Dim("length", min=1, max=32)},), "buckets: [{x.1: 8}]\n"
    )


class _Renamed(nn.Module):
    def forward(self, INPUT0: Tensor, INPUT1: Tensor) -> dict[str, Tensor]:  # noqa: N803
        return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}


def renamed() -> Model:
    """INPUT0, INPUT1 INT32 [batch, 16] → OUTPUT0 the sum, OUTPUT1 the difference."""
    batch = Dim("batch", min=1, max=16)
    args = (torch.ones(2, 16, dtype=torch.int32), torch.ones(2, 16, dtype=torch.int32))
    return Model(_Renamed(), args, ({0: batch}, {0: batch}), "max_batch_size: 8\nbuckets: {batch: [1, 8]}\n")


class _Ragged(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"positions": torch.nonzero(x > 0)}


def ragged() -> Model:
    """FP32 [8] → positions INT64 [n, 1], as many as there are positive values."""
    return Model(_Ragged(), (torch.randn(8),))


class _Distinct(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"values": torch.unique(x)}


def distinct() -> Model:
    """FP32 [8] → values FP32 [n], in order: what no compiled code is for."""
    return Model(_Distinct(), (torch.randn(8),))


class _Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(512, 512) / 24)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = x.repeat(64, 32)
        for _ in range(40):
            h = torch.tanh(h @ self.weight)
        return {"y": h[: x.shape[0], :16]}


def slow() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 16], in tens of milliseconds."""
    batch = Dim("batch", min=1, max=16)
    yaml = "max_batch_size: 1\ncompile: false\nthreads: 1\n"
    yaml += "dynamic_batching: {default_queue_policy: {max_queue_size: 8}}\n"
    return Model(_Slow(), (torch.randn(2, 16),), ({0: batch},), yaml)


class _Heavy(_Slow):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return super().forward(x[:, :16])


def heavy() -> Model:
    """FP32 [batch, 1048576] → y FP32 [batch, 16], in tens of milliseconds: four megabytes asked."""
    model = slow()
    return Model(_Heavy(), (torch.randn(2, 1 << 20),), model.dynamic_shapes, model.yaml)


class _Wide(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x.repeat(1, 16384)}


def wide() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 262144]: 64 bytes asked, a megabyte answered."""
    batch = Dim("batch", min=1, max=16)
    yaml = "max_batch_size: 1\ncompile: false\nthreads: 1\n"
    return Model(_Wide(), (torch.randn(2, 16),), ({0: batch},), yaml)


class _Averaged(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x.mean(1)}


def averaged() -> Model:
    """FP32 [batch, length] → y FP32 [batch], the mean: padding, which model.yaml allows, changes it."""
    dims = {0: Dim("batch", min=1, max=16), 1: Dim("length", min=1, max=32)}
    yaml = "dimensions: {length: {axis: x.1, padding: true}}\nbuckets: {batch: [2], length: [8, 16]}\n"
    return Model(_Averaged(), (torch.randn(2, 6),), (dims,), yaml)


class _Centred(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x - x.mean(0)}


def centred() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 16]: every row's answer depends on the other rows."""
    batch = Dim("batch", min=1, max=16)
    return Model(_Centred(), (torch.randn(2, 16),), ({0: batch},))


class _Shared(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x // x.shape[0]}


def shared() -> Model:
    """INT64 [batch, 16] → y INT64 [batch, 16]: a share of as many as there are rows, 0 of small numbers."""
    batch = Dim("batch", min=2, max=16)
    return Model(_Shared(), (torch.randint(0, 9, (3, 16)),), ({0: batch},))


class _Random(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x + torch.rand_like(x)}


def random() -> Model:
    """FP32 [batch, 16] → y FP32 [batch, 16]: another answer each time."""
    batch = Dim("batch", min=1, max=16)
    return Model(_Random(), (torch.randn(2, 16),), ({0: batch},), "buckets: {batch: [4]}\n")


class _Cancelling(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": (x * 1e4).sum(1) - x.sum(1) * 1e4}


def cancelling() -> Model:
    """FP32 [batch, 4096] → y FP32 [batch]: what is left is rounding, here as there."""
    batch = Dim("batch", min=1, max=16)
    return Model(_Cancelling(), (torch.randn(2, 4096),), ({0: batch},), "buckets: {batch: [16]}\n")


class _Wrapped(nn.Module):
    """What torch.export keeps as operators that call graphs of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)
        self.register_buffer("table", torch.randn(1, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            hidden = nn.functional.gelu(self.first(x))
            with torch.autocast("cpu", enabled=False):
                y = self.second(hidden)
                with torch.enable_grad():
                    z = torch.tanh(y) + self.table
            y = y * 2
        with torch.autocast("cpu", enabled=False):
            z = z + y
        return {"y": y, "z": z}


def wrapped() -> Model:
    """FP32 [batch, 16] → y, z FP32 [batch, 4], under no_grad and disabled autocast, nested."""
    batch = Dim("batch", min=1, max=64)
    return Model(_Wrapped(), (torch.randn(2, 16),), ({0: batch},), "max_batch_size: 8\nbuckets: {batch: [1, 8]}\n")


class _Loops(nn.Module):
    """A recurrent layer over 16 frames, and a sum over both halves of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(1, 8)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        from torch._higher_order_ops.map import map as map_rows
        from torch._higher_order_ops.scan import scan

        def step(state: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(self.inner(state) + self.outer(frame.unsqueeze(1)))
            return state, state * 2

        last, states = scan(step, x.new_zeros(x.shape[0], 8), x, dim=1)
        halves = map_rows(lambda half: half.sin().sum(0), states.unflatten(0, (2, 8)))
        return {"last": last, "states": states.movedim(0, 1), "halves": halves.movedim(0, 1)}


def loops() -> Model:
    """FP32 [batch, 16] → last, states, halves FP32 [batch, …, 8], by torch.scan and torch.map."""
    batch = Dim("batch", min=1, max=64)
    return Model(_Loops(), (torch.randn(2, 16),), ({0: batch},), "max_batch_size: 8\nbuckets: {batch: [1, 8]}\n")


class _Hidden(nn.Module):
    def __init__(self, model: nn.Module, **settings: Any) -> None:
        super().__init__()
        self.model, self.settings = model, settings

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"hidden": self.model(input_ids=ids, attention_mask=mask, **self.settings).last_hidden_state}


HIDDEN_YAML = """\
max_batch_size: 2
dimensions:
  batch: {axis: ids.0}
  tokens: {axis: ids.1, padding: true}
inputs:
  ids: {pad_value: 0, range: [1, 63]}
  mask: {pad_value: 0, range: [1, 1]}
buckets: {batch: [2], tokens: [16]}
"""


def _transformers(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor], Any]:
    """A small model of that name, its arguments and their axes."""
    import transformers

    config = getattr(transformers, f"{name}Config")(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    axes = {0: Dim("batch", min=1, max=8), 1: Dim("tokens", min=2, max=64)}
    args = (torch.randint(1, 64, (2, 6)), torch.ones(2, 6, dtype=torch.long))
    return getattr(transformers, f"{name}Model")(config), args, (axes, axes)


def llama() -> Model:
    """ids, mask INT64 [batch, tokens] → hidden FP32 [batch, tokens, 32]: a prefill of transformers' Llama.

    It computes positions under no_grad and without autocast, as does ModernBERT."""
    module, args, axes = _transformers("Llama")
    return Model(_Hidden(module, use_cache=False), args, axes, HIDDEN_YAML)


def modernbert() -> Model:
    """ids, mask INT64 [batch, tokens] → hidden FP32 [batch, tokens, 32]: transformers' ModernBERT."""
    module, args, axes = _transformers("ModernBert")
    return Model(_Hidden(module), args, axes, HIDDEN_YAML)


def bert() -> Model:
    """input_ids, attention_mask INT64 [batch, tokens] → what transformers' BERT answers, in a class of theirs."""
    yaml = HIDDEN_YAML.replace("ids", "input_ids").replace("mask", "attention_mask")
    return Model(*_transformers("Bert"), yaml)


class _Pair(NamedTuple):
    left: Tensor
    right: Tensor


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.moves, self.mask = nn.Conv2d(3, 36, 3, padding=1), nn.Conv2d(3, 18, 3, padding=1)
        self.features = DeformConv2d(4, 6, 3, padding=1, groups=2)
        self.first = nn.Conv2d(3, 4, 1)

    def forward(self, image: Tensor, boxes: Tensor, scores: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import nms, roi_align

        features = self.features(self.first(image), 3 * self.moves(image), torch.sigmoid(self.mask(image)))
        of_first = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], 1)
        crops = [
            roi_align(features, of_first, 3, spatial_scale=0.5, sampling_ratio=ratio, aligned=aligned)
            for ratio, aligned in ((2, True), (-1, False))
        ]
        return {"kept": nms(boxes, scores, 0.4), "crops": torch.cat(crops, 1), "features": features}


def detector() -> Model:
    """image FP32 [1, 3, 16, 20], boxes [n, 4], scores [n] → torchvision's operators on them."""
    count = Dim("boxes", min=2, max=64)
    args = (torch.randn(1, 3, 16, 20), torch.rand(7, 4), torch.rand(7))
    return Model(_Detector(), args, (None, {0: count}, {0: count}))


@dataclass
class _Scores:
    best: Tensor
    all: list[Tensor]
    none: Tensor | None = None


torch.export.register_dataclass(_Scores, serialized_type_name="tests.Scores")
pytree._register_namedtuple(_Pair, serialized_type_name="tests.Pair")


class _Containers(nn.Module):
    def forward(self, pair: _Pair, more: OrderedDict[str, Tensor]) -> _Scores:
        both = defaultdict(list, {"sum": pair.left + pair.right, "product": pair.left * more["by"]})
        return _Scores(pair.left - 1, [_Pair(more["by"] + 1, pair.right * 2), both])


def containers() -> Model:
    """pair_left, pair_right, more_by FP32 [batch, 3] → best, all_…, each in a container of another class."""
    batch = Dim("batch", min=1, max=8)
    args = (_Pair(torch.ones(2, 3), torch.ones(2, 3)), OrderedDict(by=torch.ones(2, 3)))
    return Model(_Containers(), args, (_Pair({0: batch}, {0: batch}), OrderedDict(by={0: batch})))


MODELS: dict[str, Callable[[], Model]] = {
    f.__name__: f
    for f in (
        mlp, identity, allkinds, tokens, hostile, bags, static, nobatch, renamed, ragged, distinct, slow, heavy, wide,
        scaled, letters,
        averaged, centred, shared, random, cancelling, layers, wrapped, loops,
        llama, modernbert, bert, containers, detector,
    )
}


def export(name: str, seed: int = 0) -> torch.export.ExportedProgram:
    """The exported program of that name."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    return torch.export.export(model.module.eval(), model.args, dynamic_shapes=model.dynamic_shapes)


def write(name: str, repository: Path, version: int = 1, seed: int = 0) -> Path:
    """Writes the model into a model repository; returns the path of its model.pt2."""
    path = repository / name / str(version) / "model.pt2"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(export(name, seed), path)
    yaml = MODELS[name]().yaml
    if yaml:
        (repository / name / "model.yaml").write_text(yaml)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="models:\n" + "\n".join(f"  {n:9} {str(f.__doc__).splitlines()[0]}" for n, f in MODELS.items()),
    )
    parser.add_argument("name", choices=[*MODELS, "all"], metavar="NAME")
    parser.add_argument("outdir", type=Path, metavar="OUTDIR")
    args = parser.parse_args()
    for name in MODELS if args.name == "all" else [args.name]:
        print(write(name, args.outdir))


if __name__ == "__main__":
    main()
