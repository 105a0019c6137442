"""Inlines operators that call a graph of their own and compute what that graph computes.

torch.export keeps `with torch.no_grad():`, `with torch.autocast(enabled=False):` and marked regions of
a model as operators that call a graph. Inference needs none of them, and what is in such a graph could
not be guarded. The server's reader does the same, with the same names (server/program/inlined_wrappers.h);
tests/unit/program/testdata/wrappers.json holds both to the same answers.
"""

from __future__ import annotations

from typing import Any

from compiler.program.graph_values import (
    TABLES,
    FreshNames,
    Value,
    bad,
    called_graph,
    higher_order,
    input_values,
    is_graph,
    table_of,
    values_of,
)
from compiler.program.loops import unroll_loops

# Where operands begin behind the graph: invoke_subgraph gives its graph a name.
OPERANDS_AT = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 1,
    "strict_mode": 1,
    "hints_wrapper": 1,
    "run_const_graph": 1,
    "invoke_subgraph": 2,
}
WRAPPERS = frozenset(OPERANDS_AT)
HALF, FLOAT, BFLOAT16 = 6, 7, 13  # torch._export.serde.schema.ScalarType
KEYWORD = 2  # ArgumentKind


def inline_wrappers(program: dict[str, Any]) -> bool:
    """Puts the nodes of such graphs, however nested, in the place of the operators that call them, loops over rows
    unrolled before (compiler.program.loops), and returns whether there were any; `program` is changed. Raises
    NotInlined."""
    unroll_loops(program)
    module = program.get("graph_module")
    if not isinstance(module, dict) or not isinstance(module.get("graph"), dict):
        return False
    inliner = _Inliner(module["graph"])
    inlined = inliner.run()
    signature = module.get("signature")
    if inliner.renamed and isinstance(signature, dict):
        _rename_outputs(signature, inliner.renamed)
    return inlined


class _Inliner:
    """One graph, whose wrappers' nodes become its own."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.graph = graph
        self.renamed: dict[str, str] = {}  # what wrappers gave back is called so now

    def run(self) -> bool:
        if not is_graph(self.graph):
            return False
        inlined = False
        called = [node for node in self.graph["nodes"] if higher_order(node)]
        for node in called:
            inputs = node.get("inputs")
            for one in inputs if isinstance(inputs, list) else ():
                if (inside := called_graph(one)) is not None:
                    inlined |= _Inliner(inside["graph"]).run()
        if not any(higher_order(node) in WRAPPERS for node in called):
            return inlined
        self._names = FreshNames(self.graph)
        nodes, self.graph["nodes"] = self.graph["nodes"], []
        for node in nodes:
            if isinstance(node, dict):
                for value in input_values(node.get("inputs")):
                    value.rename(self.renamed)
            if higher_order(node) in WRAPPERS:
                self._inline(node)
            else:
                self.graph["nodes"].append(node)
        for value in values_of(self.graph["outputs"]):
            value.rename(self.renamed)
        return True

    def _inline(self, node: dict[str, Any]) -> None:
        inputs = node.get("inputs")
        if not isinstance(inputs, list) or not isinstance(node.get("outputs"), list):
            raise bad(node, "operators with inputs and outputs")
        _check_precision(node)
        at = next((i for i, one in enumerate(inputs) if called_graph(one) is not None), len(inputs))
        called = called_graph(inputs[at]) if at < len(inputs) else None
        if called is None or not is_graph(called["graph"]):
            raise bad(node, "a graph that the operator calls")
        inner = called["graph"]
        names = self._bind_operands(node, at, inner)
        self._move_nodes(node, inner, names)
        for table in TABLES:
            for name, said in table_of(inner, table).items():
                # What is said of the operator's operands stands.
                if name in names and names[name] not in table_of(self.graph, table):
                    self.graph.setdefault(table, {})[names[name]] = said
        self._bind_outputs(node, inner, names)

    def _bind_operands(self, node: dict[str, Any], at: int, inner: dict[str, Any]) -> dict[str, str]:
        """What the graph calls its inputs is what the operator was given."""
        given: list[Value] = []
        for one in node["inputs"][at + OPERANDS_AT[higher_order(node)] :]:
            # By keyword comes only what hints_wrapper is told, which is no operand.
            if isinstance(one, dict) and one.get("kind") != KEYWORD:
                given += values_of(one.get("arg"))
        taken = list(values_of(inner["inputs"]))
        if len(given) != len(taken):
            raise bad(node, "as many operands as the graph that it calls takes")
        names: dict[str, str] = {}
        for value, wanted in zip(given, taken, strict=True):
            if wanted.name is None:
                fits = value.name is None and value.constant == wanted.constant
            else:
                fits = value.name is not None and value.kind == wanted.kind and wanted.name not in names
                names[wanted.name] = value.name or ""
            if not fits:
                raise bad(node, "operands like the inputs of the graph that it calls")
        return names

    def _move_nodes(self, caller: dict[str, Any], inner: dict[str, Any], names: dict[str, str]) -> None:
        closed = "a graph whose operators use its own values only and make each once"
        for node in inner["nodes"]:
            if not isinstance(node, dict) or not all(
                isinstance(node.get(part), list) for part in ("inputs", "outputs")
            ):
                raise bad(caller, "nodes with inputs and outputs in its graph")
            for value in input_values(node["inputs"]):
                if value.name is not None and value.name not in names:
                    raise bad(caller, closed)
                value.rename(names)
            for value in values_of(node["outputs"]):
                if value.name is None:
                    continue
                if value.name in names:
                    raise bad(caller, closed)
                names[value.name] = self._names.take(value.name)
                value.rename(names)
            if isinstance(name := node.get("name"), str):
                # Mostly that of the node's only output.
                node["name"] = names[name] if name in names else self._names.take(name)
            self.graph["nodes"].append(node)

    def _bind_outputs(self, node: dict[str, Any], inner: dict[str, Any], names: dict[str, str]) -> None:
        """What the operator gave back is what its graph gave back."""
        made, taken = list(values_of(inner["outputs"])), list(values_of(node["outputs"]))
        if len(made) != len(taken):
            raise bad(node, "as many results as the graph that it calls has")
        for value, wanted in zip(made, taken, strict=True):
            if value.name is None and wanted.name is None:
                continue
            if value.name not in names or wanted.name is None or value.kind != wanted.kind:
                raise bad(node, "results like those of the graph that it calls")
            if wanted.name in self.renamed:
                raise bad(node, "results of names of their own")
            self.renamed[wanted.name] = names[value.name]
            for table in TABLES:
                table_of(self.graph, table).pop(wanted.name, None)


def _check_precision(node: dict[str, Any]) -> None:
    """Autocast has (device, dtype, whether it is on, whether it caches, graph, ...)."""
    if higher_order(node) != "wrap_with_autocast":
        return
    settings = [one.get("arg") if isinstance(one, dict) else None for one in node["inputs"][:3]]
    dtype, is_on = (s if isinstance(s, dict) else {} for s in [*settings, None, None, None][1:3])
    if is_on.get("as_bool") is False:
        return
    if dtype.get("as_scalar_type") == FLOAT and not _holds_halves(node):
        return
    raise bad(node, "a program without autocast to another precision than float32")


def _holds_halves(node: dict[str, Any]) -> bool:
    """Whether a graph that the node calls has values that autocast to float32 would widen."""
    left: list[Any] = [node]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if value.get("dtype") in (HALF, BFLOAT16):
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def _rename_outputs(signature: dict[str, Any], names: dict[str, str]) -> None:
    specs = signature.get("output_specs")
    for spec in specs if isinstance(specs, list) else ():
        for body in spec.values() if isinstance(spec, dict) else ():
            argument = body.get("arg") if isinstance(body, dict) else None
            if isinstance(argument, dict):
                for value in values_of(argument):
                    value.rename(names)
                if isinstance(name := argument.get("name"), str):
                    argument["name"] = names.get(name, name)
