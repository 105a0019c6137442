"""Proves, on the graph that Inductor generates code from, that nothing in it can fail on a value.

insertion.py rewrites the program; between it and the code lie torch's tracing, decompositions and
optimisations. This looks at what came out of them: every index must be provably in range and every
divisor provably neither 0 nor -1. What can't be proved is refused, whoever put it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.guards import branches
from compiler.guards.bounds import Bounds, at_most, operator_name, value, within
from compiler.guards.refused import Refused
from compiler.guards.rules import DIVISIONS, INDEX_LISTS, INDEX_RULES, UNGUARDED

if TYPE_CHECKING:
    from torch.fx import Graph, Node

# Operators, by their functional names, whose code looks up elements by the values of a tensor.
LOOKUPS = frozenset({*INDEX_RULES, *INDEX_LISTS, "_unsafe_masked_index"})
# Library calls that look up by themselves, from operands that are guarded.
LIBRARY_LOOKUPS = frozenset(
    "masked_scatter searchsorted bucketize _embedding_bag _embedding_bag_forward_only".split()
)
RANDOM = frozenset(
    "inductor_seed inductor_seeds inductor_random inductor_randint inductor_lookup_seed".split()
)
THROUGH = frozenset(
    "convert_element_type _to_copy view reshape expand unsqueeze squeeze clone permute".split()
)


def functional_name(target: Any) -> str:
    """The name of an operator, that of its functional form for one that works in place."""
    name = operator_name(target).removeprefix("_inductor_prims::")
    return name.removesuffix("_") if not name.endswith("__") else name


def is_lookup(node: Node) -> bool:
    """Whether generated code for the node may index by the values of a tensor."""
    return functional_name(node.target) in LOOKUPS | LIBRARY_LOOKUPS


def is_division(node: Node) -> bool:
    """Whether generated code for the node may divide integers."""
    name = functional_name(node.target)
    return name in DIVISIONS and not _is_floating(node)


def prove(graph: Graph) -> None:
    """Raises Refused, naming the operator, for a graph that can fail on a value.

    Of a branch's operands nothing is known: what needs more than that can't be proved there.
    """
    bounds = Bounds()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = functional_name(node.target)
        if name in RANDOM or is_random(node):
            raise Refused("answers would be random", node)
        if branches.is_control_flow(node):
            for branch in branches.branches(node):
                prove(branch)
            continue
        if name in UNGUARDED:
            raise Refused("its values can't be guarded", node)
        if name in LOOKUPS:
            _prove_lookup(bounds, node, name)
        elif name.startswith("_embedding_bag"):
            _prove_index(bounds, node, node.args[1], value(node.args[0]).shape[0], wraps=False)
        elif name == "searchsorted" and (sorter := node.kwargs.get("sorter")) is not None:
            _prove_index(bounds, node, sorter, value(node.args[0]).shape[-1], wraps=False)
        elif is_division(node):
            _prove_division(bounds, node)


def is_random(node: Node) -> bool:
    """Whether the operator draws random numbers; attention does so for its dropout only."""
    import torch

    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else node.kwargs.get("dropout_p", 0.0)
            return given != 0.0
    return True


def _prove_lookup(bounds: Bounds, node: Node, name: str) -> None:
    if name in INDEX_RULES:
        rule = INDEX_RULES[name]
        tensor, dim = rule.size(node)
        shape = value(tensor).shape
        size = value(tensor).numel() if dim is None else shape[dim] if len(shape) else 1
        _prove_index(bounds, node, node.args[rule.position], size, rule.wraps)
        return
    shape = value(node.args[0]).shape
    indices = node.args[2] if name == "_unsafe_masked_index" else node.args[1]
    for dim, index in enumerate(indices):
        if index is None or _is_mask(index):
            continue
        if name.startswith("_unsafe") and bounds.is_value_free(index):
            continue  # made up by a decomposition from sizes, as eager would
        _prove_index(bounds, node, index, shape[dim], wraps=name != "_unsafe_masked_index")


def _prove_index(bounds: Bounds, node: Node, index: Any, size: Any, wraps: bool) -> None:
    found = bounds.of(index)
    if not within(found, -size if wraps else 0, size - 1):
        raise Refused(f"index {index} in {found} was not proved to be below {size}", node)


def _is_mask(index: Node) -> bool:
    import torch

    return value(index).dtype == torch.bool


def _prove_division(bounds: Bounds, node: Node) -> None:
    divisor = node.args[1]
    low, high = bounds.of(divisor)
    if at_most(1, low) or at_most(high, -2) or _is_replaced(divisor):
        return
    raise Refused(f"divisor {divisor} was not proved to differ from 0 and -1", node)


def _is_replaced(divisor: Any) -> bool:
    """Whether the divisor is where(d == 0 | d == -1, 1, d), the second test left out when unsigned."""
    import torch

    while isinstance(divisor, torch.fx.Node) and functional_name(divisor.target) in THROUGH:
        divisor = divisor.args[0]
    if not isinstance(divisor, torch.fx.Node):
        return False
    if functional_name(divisor.target) == "masked_fill":
        original, condition, replacement = divisor.args
    elif functional_name(divisor.target) == "where":
        condition, replacement, original = divisor.args
    else:
        return False
    if not _is_one(replacement) or not isinstance(original, torch.fx.Node):
        return False
    excluded = _excluded(condition, original)
    unsigned = torch.iinfo(value(original).dtype).min == 0
    return 0 in excluded and (unsigned or -1 in excluded)


def _is_one(node: Any) -> bool:
    import torch

    while isinstance(node, torch.fx.Node) and functional_name(node.target) in THROUGH:
        node = node.args[0]
    if isinstance(node, torch.fx.Node):
        fills = functional_name(node.target) in ("full", "scalar_tensor")
        return fills and not isinstance(node.args[-1], torch.fx.Node) and node.args[-1] == 1
    return node == 1


def _excluded(condition: Any, original: Node) -> set[Any]:
    """The values of `original` for which the condition holds, as far as can be seen."""
    import torch

    if not isinstance(condition, torch.fx.Node):
        return set()
    name = functional_name(condition.target)
    if name in ("bitwise_or", "logical_or"):
        return _excluded(condition.args[0], original) | _excluded(condition.args[1], original)
    if name == "eq" and condition.args[0] is original:
        return {condition.args[1]}
    return set()


def _is_floating(node: Node) -> bool:
    import torch

    result = value(node)
    if not isinstance(result, torch.Tensor) or result.dtype.is_floating_point or result.dtype.is_complex:
        return True
    return functional_name(node.target) == "div" and node.kwargs.get("rounding_mode") is None
