"""Unrolls loops over the rows of tensors: torch.scan and torch.map, whose number of rows is fixed.

nativert runs neither, and AOTInductor's C++ fails on both. Each step becomes operators of the program, so that
such a program is run, guarded and compiled like any other. The server's reader does the same, with the same names
(server/program/unrolled_loops.h); tests/unit/program/testdata/wrappers.json holds both to the same answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from compiler.program import limits
from compiler.program.graph_values import (
    FreshNames,
    bad,
    called_graph,
    higher_order,
    is_graph,
    table_of,
    values_of,
)

LOOPS = frozenset(("scan", "map_impl"))
POSITIONAL = 1  # ArgumentKind


@dataclass(frozen=True)
class _Loop:
    """scan(graph, carried, rows of, others) → carried, stacked; map_impl(graph, rows of, others) → stacked."""

    body: dict[str, Any]
    carried: list[str]
    rows: list[str]
    others: list[str]
    results: list[str]
    length: int


def unroll_loops(program: dict[str, Any]) -> bool:
    """Puts, for each step of such loops, a wrapper (compiler.program.wrappers) in their place, however nested, and
    returns whether there were any; `program` is changed. Raises NotInlined."""
    module = program.get("graph_module")
    if not isinstance(module, dict) or not isinstance(module.get("graph"), dict):
        return False
    return _Unroller().run(module["graph"])


class _Unroller:
    def __init__(self) -> None:
        self._weight = 0  # of all steps so far

    def run(self, graph: dict[str, Any]) -> bool:
        if not is_graph(graph):
            return False
        unrolled = False
        for node in graph["nodes"]:
            inputs = node.get("inputs") if higher_order(node) else None
            for one in inputs if isinstance(inputs, list) else ():
                if (inside := called_graph(one)) is not None:
                    unrolled |= self.run(inside["graph"])
        if not any(higher_order(node) in LOOPS for node in graph["nodes"]):
            return unrolled
        names = FreshNames(graph)
        nodes, graph["nodes"] = graph["nodes"], []
        for node in nodes:
            if higher_order(node) in LOOPS:
                self._unroll(graph, node, names)
            else:
                graph["nodes"].append(node)
        return True

    def _unroll(self, graph: dict[str, Any], node: dict[str, Any], names: FreshNames) -> None:
        loop = _read(graph, node)
        said = node.get("metadata") or {}
        self._weight += loop.length * (_weight(loop.body) + (1 + len(loop.rows)) * _weight(said))
        if self._weight > limits.MAX_UNROLLED_WEIGHT:
            raise bad(node, f"loops that unroll to at most {limits.MAX_UNROLLED_WEIGHT >> 20} MB of graph")
        body, kind = json.dumps(loop.body), higher_order(node)
        carried, finals = loop.carried, loop.results[: len(loop.carried)]
        stacked: list[list[str]] = [[] for _ in loop.results[len(finals) :]]
        for step in range(loop.length):
            rows = [names.take(f"{kind}_row") for _ in loop.rows]
            for row, tensor in zip(rows, loop.rows, strict=True):
                graph["tensor_values"][row] = _of_one_row(graph["tensor_values"][tensor])
                index = [("self", _tensor(tensor)), ("dim", {"as_int": 0}), ("index", {"as_int": step})]
                graph["nodes"].append(_node("select.int", index, row, said))
            operands = [*carried, *rows, *loop.others]
            carried = finals if step + 1 == loop.length else [names.take(f"{kind}_carried") for _ in finals]
            made = [names.take(f"{kind}_result") for _ in stacked]
            graph["nodes"].append(_step(json.loads(body), operands, [*carried, *made]))
            for results, result in zip(stacked, made, strict=True):
                results.append(result)
        for result, results in zip(loop.results[len(finals) :], stacked, strict=True):
            graph["nodes"].append(
                _node("stack.default", [("tensors", _tensors(results)), ("dim", {"as_int": 0})], result, said)
            )


def _read(graph: dict[str, Any], node: dict[str, Any]) -> _Loop:
    inputs = node.get("inputs")
    called = called_graph(inputs[0]) if isinstance(inputs, list) and inputs else None
    if not isinstance(inputs, list) or called is None or not is_graph(called["graph"]):
        raise bad(node, "a graph that the operator calls")
    lists = [_names(one.get("arg") if isinstance(one, dict) else None) for one in inputs[1:]]
    results = _names(node.get("outputs"))
    if higher_order(node) == "map_impl":
        lists = [[], *lists]
    fits = "tensors only, as many as the graph that the operator calls takes and gives back"
    if len(lists) != 3 or results is None:
        raise bad(node, fits)
    carried, rows, others = lists
    if carried is None or rows is None or others is None:
        raise bad(node, fits)
    inner = called["graph"]
    takes, gives = len(list(values_of(inner["inputs"]))), len(list(values_of(inner["outputs"])))
    if takes != len(carried) + len(rows) + len(others) or gives != len(results) or gives < len(carried):
        raise bad(node, fits)
    lengths = {_length(table_of(graph, "tensor_values").get(tensor)) for tensor in rows}
    length = lengths.pop() if len(lengths) == 1 else 0
    if not 1 <= length <= limits.MAX_UNROLLED_STEPS:
        raise bad(node, f"a loop over 1 to {limits.MAX_UNROLLED_STEPS} rows, of a number that is fixed")
    return _Loop(inner, carried, rows, others, results, length)


def _names(argument: Any) -> list[str] | None:
    """The tensors that an argument lists; None where anything else is in it."""
    values = list(values_of(argument))
    if not isinstance(argument, (dict, list)) or any(value.kind != "as_tensor" for value in values):
        return None
    return [value.name for value in values if value.name is not None]


def _length(said: Any) -> int:
    """Of a tensor's outermost dimension; 0: none, or not fixed."""
    sizes = said.get("sizes") if isinstance(said, dict) else None
    size = sizes[0].get("as_int") if isinstance(sizes, list) and sizes and isinstance(sizes[0], dict) else None
    return size if type(size) is int else 0


def _of_one_row(said: dict[str, Any]) -> dict[str, Any]:
    """What is said of a row of a tensor of which that is said."""
    return said | {part: said[part][1:] for part in ("sizes", "strides") if isinstance(said.get(part), list)}


def _weight(value: Any) -> int:
    """The bytes that a value takes, roughly."""
    if isinstance(value, dict):
        return 32 + sum(len(key) + _weight(child) for key, child in value.items())
    if isinstance(value, list):
        return 32 + sum(_weight(child) for child in value)
    return 32 + (len(value) if isinstance(value, str) else 0)


def _tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def _tensors(names: list[str]) -> dict[str, Any]:
    return {"as_tensors": [{"name": name} for name in names]}


def _node(operator: str, inputs: list[tuple[str, Any]], output: str, said: dict[str, Any]) -> dict[str, Any]:
    return {
        "target": f"torch.ops.aten.{operator}",
        "inputs": [{"name": name, "arg": argument, "kind": POSITIONAL} for name, argument in inputs],
        "outputs": [_tensor(output)],
        "metadata": dict(said),
        "is_hop_single_tensor_return": None,
        "name": output,
    }


def _step(body: dict[str, Any], operands: list[str], outputs: list[str]) -> dict[str, Any]:
    arguments = [{"as_graph": {"name": "", "graph": body}}, _tensors(operands)]
    return {
        "target": "torch.ops.higher_order.strict_mode",
        "inputs": [{"name": "", "arg": argument, "kind": POSITIONAL} for argument in arguments],
        "outputs": [_tensor(name) for name in outputs],
        "metadata": {},
    }
