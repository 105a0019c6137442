"""torch.cond: which branches may be compiled.

A branch is a graph of its own, and a guard can't be put into it: what it finds would have to leave by
an output that the other branch hasn't got. So branches may hold only what needs no guard: arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from compiler.guards.bounds import operator_name, value
from compiler.guards.refused import Refused
from compiler.guards.rules import DIVISIONS, PLAIN

if TYPE_CHECKING:
    from torch.fx import Graph, GraphModule, Node


def is_control_flow(node: Node) -> bool:
    """Whether the node runs graphs of its own."""
    import torch

    return isinstance(node.target, torch._ops.HigherOrderOperator)


def has_control_flow(graph: Graph) -> bool:
    return any(node.op == "call_function" and is_control_flow(node) for node in graph.nodes)


def branches(node: Node) -> Iterator[Graph]:
    """The graphs that a torch.cond chooses between. Raises Refused for other control flow."""
    import torch

    if node.target is not torch.ops.higher_order.cond:
        raise Refused("control flow other than torch.cond is not guarded", node)
    for branch in node.args[1:3]:
        yield attrgetter(branch.target)(node.graph.owning_module).graph


def is_branch(module: GraphModule, node: Node) -> bool:
    """Whether the node names a graph of the module, not a tensor."""
    import torch

    return node.op == "get_attr" and isinstance(attrgetter(node.target)(module), torch.nn.Module)


def check(node: Node) -> None:
    """Raises Refused, naming the operator, for branches of an exported program with something in them
    that would need a guard."""
    for graph in branches(node):
        for inner in graph.nodes:
            if inner.op != "call_function":
                continue
            if is_control_flow(inner):
                check(inner)
            elif not _is_arithmetic(inner):
                raise Refused(f"can't be guarded in a branch of {node.target}", inner)


def _is_arithmetic(node: Node) -> bool:
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        return True  # of sizes, or getitem
    name, result = operator_name(node.target), value(node)
    if name in DIVISIONS:
        return isinstance(result, torch.Tensor) and result.dtype.is_floating_point
    return name in PLAIN and not node.target._schema.is_mutable
