"""Operators of ATen of which it is known that no values lead them astray: known_operators.txt, which the server reads
as well."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.guards.bounds import operator_name
from compiler.guards.refused import Refused
from compiler.program.operators import OWN, QUESTION, is_of_a_library, is_question

if TYPE_CHECKING:
    from torch.fx import Graph, GraphModule, Node

# Kernels of an operator that take tensors without values.
SAYS_SHAPES = (
    "Meta", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd",
)  # fmt: skip

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


def check(module: GraphModule, on_gpu: bool) -> None:
    """Raises Refused when the program, as it was exported, calls an operator of ATen that is not among them, or one of
    another library that can't be called from compiled code."""
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
            if is_of_a_library(node.target) and not is_question(node):
                _check_callable(node, on_gpu)


def library_calls(graph: Graph) -> Counter[str]:
    """How often each operator of a library that isn't torch's is called, but for those that are made of others."""
    import torch

    composite = torch._C._dispatch_has_kernel_for_dispatch_key
    targets = [node.target for node in graph.nodes if node.op == "call_function" and is_of_a_library(node.target)]
    return Counter(
        target.name()
        for target in targets
        if target.name() != QUESTION and not composite(target.name(), "CompositeImplicitAutograd")
    )


def check_calls(graph: Graph, expected: Counter[str]) -> None:
    """Raises Refused unless the graph calls each operator as often as was expected. A call whose result nobody uses is
    left out by the compiler, and eager makes it: it may refuse its operands."""
    found = library_calls(graph)
    for name, count in expected.items():
        if found[name] < count:
            raise Refused(f"{name}: the program calls it {count} times, the compiled code would {found[name]} times")


def _check_callable(node: Node, on_gpu: bool) -> None:
    """Raises Refused for an operator of a library that compiled code can't call as eager does."""
    import torch

    schema, name = node.target._schema, node.target.name()
    if on_gpu:
        raise Refused("operators that are not torch's own are compiled for CPUs alone", node)
    if schema.is_mutable:
        raise Refused("it writes into what it is given", node)
    if any(result.alias_info is not None for result in schema.returns):
        raise Refused("it returns a view of what it is given", node)
    if not schema.returns or any(str(result.type) != "Tensor" for result in schema.returns):
        raise Refused("it returns something other than tensors", node)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if name.split(".")[0] not in OWN and not any(has_kernel(name, key) for key in SAYS_SHAPES):
        raise Refused("its library doesn't say what its results look like: it has no kernel for meta tensors", node)
