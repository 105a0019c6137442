"""Linear layers of float32 programs, computed in a smaller type.

Activations are rounded in front of the layer, its weight once, by the daemon, for all buckets that share it. Sums
are of float32, and so is everything between the layers.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def round_linears(module: torch.fx.GraphModule, dtype: torch.dtype) -> list[str]:
    """Has the layers of a program on a GPU compute in `dtype`; returns the names of the weights that are to be
    bound rounded to it, sorted. A weight that anything else looks at stays as it is, and so do its layers."""
    import torch

    aten = torch.ops.aten
    layers: dict[str, list[torch.fx.Node]] = {}
    others: set[str] = set()
    for node in module.graph.nodes:
        if node.op != "get_attr":
            continue
        value = attrgetter(node.target)(module)
        matrix = isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.dim() == 2
        found = _layers_of(node) if matrix else None
        if found is None:
            others.add(node.target)
        else:
            layers.setdefault(node.target, []).extend(found)
    names = sorted(layers.keys() - others)
    for name in names:
        for layer in layers[name]:
            if layer.target is aten.addmm.default:
                bias, x, weight = layer.args
                layer.target, layer.args = aten.mm.default, (x, weight, bias)
            x, weight, bias = (*layer.args, layer.kwargs.get("bias"))[:3]
            layer.kwargs = {}
            round_layer(module, layer, dtype, (x, weight, bias), ())
    round_weights(module, names, dtype)
    return names


def _layers_of(weight: torch.fx.Node) -> list[torch.fx.Node] | None:
    """The products that take it, as it lies or transposed, and nothing else does; None when something else does."""
    import torch

    aten = torch.ops.aten
    found = []
    for user in weight.users:
        if user.target is aten.linear.default and user.args.index(weight) == 1:
            found.append(user)
        elif user.target in (aten.permute.default, aten.t.default, aten.transpose.int):
            for product in user.users:
                position = {aten.mm.default: 1, aten.addmm.default: 2}.get(product.target)
                if position is None or product.args.index(user) != position or product.kwargs:
                    return None
                found.append(product)
        else:
            return None
    return found


def round_layer(
    module: torch.fx.GraphModule,
    layer: torch.fx.Node,
    dtype: torch.dtype,
    operands: tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None],
    rest: tuple[Any, ...],
) -> None:
    """Activations become `dtype` in front of the layer; its bias is added in float32 behind it. `operands`: the
    activations, the weight and the bias; `rest`: what the layer takes after its weight instead."""
    import torch

    aten = torch.ops.aten
    x, weight, bias = operands
    graph = module.graph
    with graph.inserting_before(layer):
        rounded = graph.call_function(aten._to_copy.default, (x,), {"dtype": dtype})
    layer.args = (rounded, weight, *rest)
    with graph.inserting_after(layer):
        result = graph.call_function(aten._to_copy.default, (layer,), {"dtype": torch.float32})
    result.meta = dict(layer.meta)
    end = result
    if bias is not None:
        with graph.inserting_after(result):
            end = graph.call_function(aten.add.Tensor, (result, bias))
        end.meta = dict(layer.meta)
    layer.replace_all_uses_with(end, delete_user_cb=lambda user: user is not result)


def round_weights(module: torch.fx.GraphModule, names: list[str], dtype: torch.dtype) -> None:
    """The module's own copies, from which Inductor learns the dtypes."""
    import torch

    for name in names:
        *path, last = name.split(".")
        owner = module.get_submodule(".".join(path))
        rounded = getattr(owner, last).detach().to(dtype)
        setattr(owner, last, torch.nn.Parameter(rounded, requires_grad=False))
