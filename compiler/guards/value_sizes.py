"""Sizes that depend on the values of tensors, as those of what a detector finds: which may be compiled, and what has to
be seen to where there may be nothing.

Such a size is read off the result that has it, in compiled code as in eager. What is refused is a number taken out of a
tensor, which would let a client say how much is allocated, and what eager refuses only of nothing: that isn't looked at
in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compiler.guards.bounds import Size, at_most, operator_name, value
from compiler.guards.refused import Refused
from compiler.program.operators import is_of_a_library

if TYPE_CHECKING:
    from torch.fx import Graph, Node

# Operators that return as many elements as they find, and a part of those.
FINDERS = frozenset("nonzero argwhere where index masked_select slice".split())
# What eager refuses to take of nothing.
OF_SOMETHING = frozenset("amax amin aminmax argmax argmin max min median nanmedian mode kthvalue".split())
SHAPES = frozenset("view reshape _unsafe_view unflatten".split())


def has_any(graph: Graph) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(free_unbacked_symbols(node.meta.get("val")) for node in graph.nodes)


def check(node: Node) -> None:
    """Raises Refused for a size or number that depends on values in another way than a finder's."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    found = free_unbacked_symbols(node.meta.get("val"))
    given = {symbol for operand in node.all_input_nodes for symbol in free_unbacked_symbols(value(operand))}
    if not found - given:
        return
    if not (is_of_a_library(node.target) or operator_name(node.target) in FINDERS):
        raise Refused("its result's size or value depends on the data", node)


def check_of_nothing(node: Node) -> None:
    """Raises Refused where eager would refuse what has no elements, and there may be none."""
    import torch

    name = operator_name(node.target)
    operand = value(node.args[0]) if node.args else None
    if not isinstance(operand, torch.Tensor):
        return
    if name in OF_SOMETHING and not any(isinstance(value(a), torch.Tensor) for a in node.args[1:]):
        place = 2 if name == "kthvalue" else 1
        dims = node.args[place] if len(node.args) > place else node.kwargs.get("dim")
        dims = [dims] if isinstance(dims, int) else list(dims or range(operand.dim()))
        if name in ("mode", "kthvalue") and not dims:
            dims = [-1]
        if operand.dim() and any(_may_be_nothing(operand.shape[dim]) for dim in dims):
            raise Refused("eager refuses it of nothing, and whether there is something depends on the data", node)
    if name in SHAPES and isinstance(node.args[-1], (list, tuple)):  # view.dtype has none
        shape = [value(size) for size in node.args[-1]]
        others = [size for size in shape if not (isinstance(size, int) and size == -1)]
        if len(others) < len(shape) and any(_may_be_nothing(size) for size in others):
            raise Refused("eager tells no shape of nothing, and whether there is something depends on the data", node)


def _may_be_nothing(size: Size) -> bool:
    return not isinstance(size, int) and not at_most(1, size)


def may_be_empty(size: Size) -> bool:
    """Whether what is looked up may be in a tensor of no elements, as far as values decide."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(size)) and not at_most(1, size)


def as_positions(emit: Callable[..., Node], node: Node, tensor: Node, indices: list[Any]) -> list[Any]:
    """The indices of a selection, with the positions of what its masks select in the place of each mask: as eager does,
    and with a proof that they are in range."""
    import torch

    shape = value(tensor).shape
    found: list[Any] = []
    for index in indices:
        if index is None or value(index).dtype != torch.bool:
            found.append(index)
            continue
        mask = value(index).shape
        covered = shape[len(found) : len(found) + len(mask)]
        same = len(covered) == len(mask) and all(
            at_most(a, b) and at_most(b, a) for a, b in zip(mask, covered, strict=True)
        )
        if not same or not mask:
            raise Refused("its mask was not proved to be of the shape of what it selects from", node)
        positions = emit(torch.ops.aten.nonzero.default, index)
        found += [emit(torch.ops.aten.select.int, positions, 1, dim) for dim in range(len(mask))]
    return found
