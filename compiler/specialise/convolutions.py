"""Sends convolutions to oneDNN, with weights that are laid out once.

Inductor leaves float32 convolutions to the operator that eager runs, which has oneDNN lay out the weights again in
every run; it would pack them itself if they were frozen and baked into the artifact, for the sizes and the threads of
the compile alone. Here they stay outside: each convolution whose weight nothing else looks at is listed, and the daemon
keeps its weight in every layout that runs want (server/runner/convolution_weight.h): 1 x 1 convolutions want another
for eight images than for one. Between such convolutions activations lie in channels-last order. oneDNN packs weights of
two and three dimensions; the daemon has it run one-dimensional convolutions as two-dimensional ones of height one.

Batch norms are not folded into the weights: rounded once more, the answers of a ResNet-50 are twice as far from float64
as eager's, and it isn't faster (1.2 to 1.3 times eager's speed; with the norm in a loop of its own 1.3 to 1.5).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from compiler.specialise import dynamic, onednn

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Convolution:
    """As in the manifest: what takes the constant `weight`, and how it would be packed for images of the sizes that the
    graph was traced with."""

    weight: str
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    input: list[int]  # [rows, channels, depth, height, width], of which there are the last one, two or three

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def pack(self, weight: torch.Tensor) -> torch.Tensor:
        """In the layout that oneDNN wants it in; of a one-dimensional convolution as it lies."""
        import torch

        if weight.dim() == 3:
            return weight
        how = (self.padding, self.stride, self.dilation, self.groups, self.input)
        return torch.ops.mkldnn._reorder_convolution_weight(weight, *how)


def rewrite(module: torch.fx.GraphModule, sizes: dict[str, int]) -> list[Convolution]:
    """Replaces the convolutions that oneDNN can take and that are worth it; returns them by the names of their weights.

    `sizes` are the bucket's, as for specialise. The caller recompiles the module.
    """
    import torch

    if not torch.backends.mkldnn.is_available():
        return []
    looking: dict[int, int] = {}  # how many operators look at each storage
    for node in onednn.constants(module):
        storage = onednn.storage(module, node)
        looking[storage] = looking.get(storage, 0) + len(node.users)
    found = []
    for node in list(module.graph.nodes):
        operands, how = _arguments(module, node)
        if operands is None:
            continue
        x, weight, bias = operands
        out = [dynamic.hint(size, sizes) for size in node.meta["val"].shape]
        flops = 2 * math.prod(out) * attrgetter(weight.target)(module)[0].numel()
        # Eager, too, has oneDNN run convolutions of several images or groups, however small.
        alone = out[0] == 1 and how["groups"] == 1
        if (alone and flops < onednn.FEWEST_FLOPS) or looking[onednn.storage(module, weight)] != 1:
            continue
        node.target = torch.ops.mkldnn._convolution_pointwise.default
        numbers = (how["padding"], how["stride"], how["dilation"], how["groups"])
        node.args = (x, weight, bias, *numbers, "none", [], "")
        images = [dynamic.hint(size, sizes) for size in x.meta["val"].shape]
        found.append(Convolution(weight.target, input=images, **how))
    if found:
        _copy_where_views_fail(module)
    return sorted(found, key=lambda one: one.weight)


def _copy_where_views_fail(module: torch.fx.GraphModule) -> None:
    """What the program could look at as another shape lies in channels-last order now, and has to be copied first."""
    import torch

    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


def _arguments(
    module: torch.fx.GraphModule, node: torch.fx.Node
) -> tuple[tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None] | None, dict[str, Any]]:
    """Operands and numbers of a convolution that oneDNN can take; else None."""
    import torch

    aten = torch.ops.aten
    none: tuple[None, dict[str, Any]] = None, {}
    if node.op != "call_function" or node.kwargs:
        return none
    if node.target in (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default):
        given = dict(zip(("x", "weight", "bias", "stride", "padding", "dilation", "groups"), node.args, strict=False))
    elif node.target is aten.convolution.default and not node.args[6]:
        names = ("x", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
        given = dict(zip(names, node.args, strict=True))
    else:
        return none
    x, weight, bias = given["x"], given["weight"], given.get("bias")
    value = x.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() not in (3, 4, 5):
        return none
    dimensions = value.dim() - 2
    usual = {"stride": 1, "padding": 0, "dilation": 1}
    how = {name: _of_each(given.get(name, number), dimensions) for name, number in usual.items()}
    fits = (
        value.dtype == torch.float32
        and isinstance(value.shape[1], int)
        and _is_weight(module, weight, value.dim())
        and (bias is None or _is_weight(module, bias, 1))
        and all(isinstance(number, int) for numbers in how.values() for number in numbers)
    )
    return ((x, weight, bias), {**how, "groups": given.get("groups", 1)}) if fits else none


def _of_each(value: int | list[int], dimensions: int) -> list[int]:
    given = [value] if isinstance(value, int) else list(value)
    return given * dimensions if len(given) == 1 else given


def _is_weight(module: torch.fx.GraphModule, node: torch.fx.Node, rank: int) -> bool:
    """Whether it is a float32 constant, which must be bound as it lies."""
    import torch

    if node.op != "get_attr":
        return False
    tensor = attrgetter(node.target)(module)
    return bool(
        isinstance(tensor, torch.Tensor)
        and tensor.dtype == torch.float32
        and tensor.dim() == rank
        and tensor.is_contiguous()
        and tensor.numel() > 0
    )
