"""Operators of ATen of which it is known that no values lead them astray: known_operators.txt, which the server reads
as well."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.guards.bounds import operator_name
from compiler.guards.refused import Refused

if TYPE_CHECKING:
    from torch.fx import GraphModule

TORCHS_OWN = {"aten", "prims", "quantized", "quantized_decomposed", "higher_order"}

FILE = Path(__file__).with_name("known_operators.txt")


@functools.cache
def known_operators() -> dict[str, bool]:
    """Name, without overload and without the "_" of what works in place → whether code can be compiled of it that is
    as safe as its eager form."""
    lines = [line.split() for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: not rest for name, *rest in lines}


def is_known(name: str) -> bool:
    """`name`: "add" or "add_" of torch.ops.aten.add_.Tensor."""
    return name in known_operators() or name.removesuffix("_") in known_operators()


def check(module: GraphModule) -> None:
    """Raises Refused when the program, as it was exported, calls an operator of ATen that is not among them, or one
    of a library that is not torch's: the server has some of those, for eager alone."""
    import torch

    for graph_module in module.modules():
        if not isinstance(graph_module, torch.fx.GraphModule):
            continue
        for node in graph_module.graph.nodes:
            if node.op != "call_function":
                continue
            namespace = getattr(node.target, "namespace", "")  # none of arithmetic on sizes
            if namespace == "aten" and not is_known(operator_name(node.target)):
                raise Refused("values might lead it astray: it is not among those that were tried", node)
            if namespace and namespace not in TORCHS_OWN:
                raise Refused("it is not one of torch's own operators, which alone are compiled", node)
