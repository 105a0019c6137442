"""Sends the products of activations and weights to oneDNN.

Inductor leaves float32 linear layers to MKL. On processors of other makers MKL 2024 doesn't use
AVX-512: on an AMD EPYC, 512 x 384 by 384 x 1536 on two cores runs at 200 GFLOP/s there and at 450 in
oneDNN, which libtorch_cpu has too. On Intel's processors both are about as fast. Inductor would take
oneDNN by itself if the weights were frozen, packed and baked into the artifact. Here they stay outside:
oneDNN takes them as they lie, and faster, with few rows by far, packed. So a weight that nothing else
looks at is listed, and the daemon packs it once for all buckets; one layout suits any number of rows.

With precision bfloat16 the daemon rounds such weights as it packs them: half the bytes to read for each
run, and products that AVX-512 BF16 and AMX compute two to sixteen times as fast. Sums are of float32,
and so is everything between the layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from compiler.guards.branches import is_branch
from compiler.specialise import rounding

if TYPE_CHECKING:
    import torch

# Each call of oneDNN's costs 5 us more than one of MKL's: as much as it saves on a product of this size.
FEWEST_FLOPS = 2_000_000


def rewrite(
    module: torch.fx.GraphModule,
    size_in_bucket: Callable[[int | torch.SymInt], int],
    bfloat16: bool = False,
) -> list[str]:
    """Replaces the linear layers that oneDNN can take and that are worth it; returns the names of the
    weights that are to be bound packed, sorted.

    `size_in_bucket` resolves sizes of the graph, those that stay dynamic to a typical one. `bfloat16`:
    compute those layers in it, their weights packed as bfloat16. The caller recompiles the module.
    """
    import torch

    if not torch.backends.mkldnn.is_available():
        return []
    weights = set()
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.linear.default and _fits(module, node):
            elements = math.prod(size_in_bucket(size) for size in node.args[0].meta["val"].shape)
            x, weight, *bias = node.args
            if 2 * elements * attrgetter(weight.target)(module).shape[0] < FEWEST_FLOPS:
                continue
            node.target = torch.ops.mkldnn._linear_pointwise.default
            node.args = (x, weight, bias[0] if bias else None, "none", [], "")
            weights.add(weight)
    others = {storage(module, user) for user in constants(module) if user not in weights}
    packed = [w for w in weights if storage(module, w) not in others and _only_weight(w)]
    names = sorted({weight.target for weight in packed})
    if bfloat16:
        for weight in packed:
            for layer in list(weight.users):
                x, _, bias, *rest = layer.args
                rounding.round_layer(module, layer, torch.bfloat16, (x, weight, bias), (None, *rest))
        rounding.round_weights(module, names, torch.bfloat16)
    return names


def _only_weight(node: torch.fx.Node) -> bool:
    """Whether it is the weight of such products and nothing else."""
    import torch

    onednn = torch.ops.mkldnn._linear_pointwise.default
    return all(user.target is onednn and user.args.index(node) == 1 for user in node.users)


def constants(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "get_attr" and not is_branch(module, node)]


def storage(module: torch.fx.GraphModule, node: torch.fx.Node) -> int:
    """Tensors that share memory, under whatever names, become one constant of the compiled code."""
    return attrgetter(node.target)(module).untyped_storage().data_ptr()


def _fits(module: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    """Whether it is a float32 product with a matrix of weights, which must be bound as they lie."""
    import torch

    if node.kwargs:
        return False
    x, *parameters = node.args
    value = x.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or value.dim() < 2:
        return False
    for parameter, rank in zip(parameters, (2, 1), strict=False):
        if parameter is None:
            continue
        if parameter.op != "get_attr":
            return False
        tensor = attrgetter(parameter.target)(module)
        if tensor.dtype != torch.float32 or tensor.dim() != rank or not tensor.is_contiguous():
            return False
        if tensor.numel() == 0:
            return False
    return True
