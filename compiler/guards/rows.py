"""Which dimension of a tensor counts the rows of the batch.

A dimension whose size is the batch's symbol is taken for it: no other size can be that symbol by
accident. Where the batch was merged with other dimensions, the way back to a tensor that still had
it alone must be found, because batch × tokens and tokens × batch have the same size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.guards.bounds import operator_name

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.fx import Graph, Node

MAX_DEPTH = 64  # of the way back
RESHAPES = frozenset("view reshape _unsafe_view _reshape_alias flatten".split())
# Operators that keep every element in its place.
IN_PLACE = frozenset(
    "clone contiguous alias detach to _to_copy convert_element_type lift_fresh_copy add sub mul neg abs "
    "clamp clamp_min clamp_max masked_fill where bitwise_and bitwise_or bitwise_not logical_not".split()
)


class Rows:
    """Knows the batch of a graph with symbolic sizes."""

    def __init__(self, graph: Graph) -> None:
        self.batch = batch_symbol(graph)

    def dimension(self, node: Node) -> int | None:
        """The dimension that counts rows alone; None when there is none, or more than one."""
        found = [d for d, size in enumerate(node.meta["val"].shape) if self._is_batch(size)]
        return found[0] if len(found) == 1 else None

    def leads(self, node: Node, depth: int = 0) -> bool:
        """Whether dimension 0 is the rows times something, the rows outermost."""
        shape = node.meta["val"].shape
        if len(shape) == 0 or self.batch is None or depth > MAX_DEPTH:
            return False
        if self._is_batch(shape[0]):
            return self.dimension(node) == 0
        if node.op != "call_function" or not self._divides(shape[0]):
            return False
        name = operator_name(node.target)
        tensors = [n for n in node.all_input_nodes if hasattr(n.meta.get("val"), "shape")]
        if name in RESHAPES:
            return self.leads(tensors[0], depth + 1)
        alike = [n for n in tensors if _same_shape(n, node)]
        return name in IN_PLACE and bool(alike) and all(self.leads(n, depth + 1) for n in alike)

    def counts_up(self, node: Node) -> bool:
        """Whether the node is 0, 1, 2... along the rows and constant along everything else."""
        for _ in range(MAX_DEPTH):
            if node.op != "call_function":
                return False
            name = operator_name(node.target)
            if name == "iota":
                start, step = node.kwargs.get("start"), node.kwargs.get("step")
                return (start, step) == (0, 1) and self.dimension(node) == 0
            if name == "arange":
                return len(node.args) == 1 and self.dimension(node) == 0
            if name not in ("unsqueeze", "view", "reshape", "expand") or self.dimension(node) is None:
                return False
            node = node.args[0]
        return False

    def _is_batch(self, size: int | torch.SymInt) -> bool:
        return self.batch is not None and not isinstance(size, int) and size.node.expr == self.batch

    def _divides(self, size: int | torch.SymInt) -> bool:
        return not isinstance(size, int) and self.batch in size.node.expr.as_ordered_factors()


def batch_symbol(graph: Graph) -> sympy.Symbol | None:
    """The symbol that is axis 0 of the inputs; None when they have none or don't agree."""
    sizes = [n.meta["val"].shape[0] for n in graph.nodes if n.op == "placeholder" and n.meta["val"].dim() > 0]
    expressions = {size.node.expr for size in sizes if not isinstance(size, int)}
    if len(expressions) != 1:
        return None
    (expression,) = expressions
    return expression if expression.is_Symbol else None


def _same_shape(a: Node, b: Node) -> bool:
    sizes = [[str(size) for size in n.meta["val"].shape] for n in (a, b)]
    return sizes[0] == sizes[1]
