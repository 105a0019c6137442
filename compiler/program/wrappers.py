"""Inlines operators that call a graph of their own and compute what that graph computes.

torch.export keeps `with torch.no_grad():`, `with torch.autocast(enabled=False):` and marked regions of
a model as operators that call a graph. Inference needs none of them, and what is in such a graph could
not be guarded. The server's reader does the same, with the same names (server/program/inlined_wrappers.h);
tests/unit/program/testdata/wrappers.json holds both to the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

HIGHER_ORDER = "torch.ops.higher_order."
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
# What a graph says of its values, by their names.
TABLES = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values")
HALF, FLOAT, BFLOAT16 = 6, 7, 13  # torch._export.serde.schema.ScalarType
KEYWORD = 2  # ArgumentKind


class NotInlined(ValueError):
    """A wrapper that changes what is computed, or a call that doesn't fit its graph."""


@dataclass(frozen=True)
class Value:
    """One value that an argument names, or one constant that stands in it."""

    kind: str
    place: dict[str, Any] | None = None  # where the name stands; None: a constant
    key: str = ""
    constant: Any = None

    @property
    def name(self) -> str | None:
        return None if self.place is None else self.place[self.key]

    def rename(self, names: dict[str, str]) -> None:
        if self.place is not None and self.place[self.key] in names:
            self.place[self.key] = names[self.place[self.key]]


def inline_wrappers(program: dict[str, Any]) -> bool:
    """Puts the nodes of such graphs, however nested, in the place of the operators that call them, and
    returns whether there were any; `program` is changed. Raises NotInlined."""
    module = program.get("graph_module")
    if not isinstance(module, dict) or not isinstance(module.get("graph"), dict):
        return False
    inliner = _Inliner(module["graph"])
    inlined = inliner.run()
    signature = module.get("signature")
    if inliner.renamed and isinstance(signature, dict):
        _rename_outputs(signature, inliner.renamed)
    return inlined


def values_of(argument: Any) -> Iterator[Value]:
    """The values and constants in an argument, in order; graphs have values of their own."""
    if isinstance(argument, list):
        for element in argument:
            yield from values_of(element)
        return
    if not isinstance(argument, dict):
        return
    for tag, value in sorted(argument.items()):
        if tag in ("as_tensor", "as_tensors", "as_nested_tensors"):
            yield from _tensors(value)
        elif tag in ("as_optional_tensor", "as_optional_tensors"):
            yield from values_of(value)
        elif tag.startswith("as_sym_"):
            yield from _numbers(value, tag.removesuffix("s"))
        elif tag == "as_string_to_argument":
            if isinstance(value, dict):
                for _, element in sorted(value.items()):
                    yield from values_of(element)
        elif tag != "as_graph":
            yield Value(tag, constant=argument)


def _tensors(value: Any) -> Iterator[Value]:
    if isinstance(value, list):
        for element in value:
            yield from _tensors(element)
    elif isinstance(value, dict) and isinstance(value.get("name"), str):
        yield Value("as_tensor", value, "name")


def _numbers(value: Any, kind: str) -> Iterator[Value]:
    if isinstance(value, list):
        for element in value:
            yield from _numbers(element, kind)
    elif isinstance(value, dict) and isinstance(value.get("as_name"), str):
        yield Value(kind, value, "as_name")
    else:
        yield Value(kind, constant=value)


def _input_values(inputs: Any) -> Iterator[Value]:
    for one in inputs if isinstance(inputs, list) else ():
        if isinstance(one, dict):
            yield from values_of(one.get("arg"))


def _higher_order(node: Any) -> str:
    target = node.get("target") if isinstance(node, dict) else None
    if isinstance(target, str) and target.startswith(HIGHER_ORDER):
        return target.removeprefix(HIGHER_ORDER)
    return ""


def _called(one: Any) -> dict[str, Any] | None:
    """The {"name", "graph"} that an input of a node is."""
    argument = one.get("arg") if isinstance(one, dict) else None
    called = argument.get("as_graph") if isinstance(argument, dict) else None
    return called if isinstance(called, dict) and isinstance(called.get("graph"), dict) else None


def _is_graph(graph: dict[str, Any]) -> bool:
    return all(isinstance(graph.get(part), list) for part in ("inputs", "outputs", "nodes"))


def _table(graph: dict[str, Any], name: str) -> dict[str, Any]:
    table = graph.get(name)
    return table if isinstance(table, dict) else {}


class _Inliner:
    """One graph, whose wrappers' nodes become its own."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.graph = graph
        self.renamed: dict[str, str] = {}  # what wrappers gave back is called so now
        self._taken: set[str] = set()
        self._used: dict[str, int] = {}

    def run(self) -> bool:
        if not _is_graph(self.graph):
            return False
        inlined = False
        called = [node for node in self.graph["nodes"] if _higher_order(node)]
        for node in called:
            inputs = node.get("inputs")
            for one in inputs if isinstance(inputs, list) else ():
                if (inside := _called(one)) is not None:
                    inlined |= _Inliner(inside["graph"]).run()
        if not any(_higher_order(node) in WRAPPERS for node in called):
            return inlined
        self._take_names()
        nodes, self.graph["nodes"] = self.graph["nodes"], []
        for node in nodes:
            if isinstance(node, dict):
                for value in _input_values(node.get("inputs")):
                    value.rename(self.renamed)
            if _higher_order(node) in WRAPPERS:
                self._inline(node)
            else:
                self.graph["nodes"].append(node)
        for value in values_of(self.graph["outputs"]):
            value.rename(self.renamed)
        return True

    def _take_names(self) -> None:
        graph = self.graph
        self._taken |= {value.name for value in values_of(graph["inputs"]) if value.name is not None}
        for node in graph["nodes"]:
            if isinstance(node, dict):
                self._taken |= {v.name for v in values_of(node.get("outputs")) if v.name is not None}
                self._taken.add(str(node.get("name") or ""))
        for table in TABLES:
            self._taken |= set(_table(graph, table))

    def _fresh(self, wanted: str) -> str:
        name = wanted
        while name in self._taken:
            self._used[wanted] = self._used.get(wanted, 0) + 1
            name = f"{wanted}_{self._used[wanted]}"
        self._taken.add(name)
        return name

    def _inline(self, node: dict[str, Any]) -> None:
        inputs = node.get("inputs")
        if not isinstance(inputs, list) or not isinstance(node.get("outputs"), list):
            raise _bad(node, "operators with inputs and outputs")
        _check_precision(node)
        at = next((i for i, one in enumerate(inputs) if _called(one) is not None), len(inputs))
        called = _called(inputs[at]) if at < len(inputs) else None
        if called is None or not _is_graph(called["graph"]):
            raise _bad(node, "a graph that the operator calls")
        inner = called["graph"]
        names = self._bind_operands(node, at, inner)
        self._move_nodes(node, inner, names)
        for table in TABLES:
            for name, said in _table(inner, table).items():
                # What is said of the operator's operands stands.
                if name in names and names[name] not in _table(self.graph, table):
                    self.graph.setdefault(table, {})[names[name]] = said
        self._bind_outputs(node, inner, names)

    def _bind_operands(self, node: dict[str, Any], at: int, inner: dict[str, Any]) -> dict[str, str]:
        """What the graph calls its inputs is what the operator was given."""
        given: list[Value] = []
        for one in node["inputs"][at + OPERANDS_AT[_higher_order(node)] :]:
            # By keyword comes only what hints_wrapper is told, which is no operand.
            if isinstance(one, dict) and one.get("kind") != KEYWORD:
                given += values_of(one.get("arg"))
        taken = list(values_of(inner["inputs"]))
        if len(given) != len(taken):
            raise _bad(node, "as many operands as the graph that it calls takes")
        names: dict[str, str] = {}
        for value, wanted in zip(given, taken, strict=True):
            if wanted.name is None:
                fits = value.name is None and value.constant == wanted.constant
            else:
                fits = value.name is not None and value.kind == wanted.kind and wanted.name not in names
                names[wanted.name] = value.name or ""
            if not fits:
                raise _bad(node, "operands like the inputs of the graph that it calls")
        return names

    def _move_nodes(self, caller: dict[str, Any], inner: dict[str, Any], names: dict[str, str]) -> None:
        closed = "a graph whose operators use its own values only and make each once"
        for node in inner["nodes"]:
            if not isinstance(node, dict) or not all(
                isinstance(node.get(part), list) for part in ("inputs", "outputs")
            ):
                raise _bad(caller, "nodes with inputs and outputs in its graph")
            for value in _input_values(node["inputs"]):
                if value.name is not None and value.name not in names:
                    raise _bad(caller, closed)
                value.rename(names)
            for value in values_of(node["outputs"]):
                if value.name is None:
                    continue
                if value.name in names:
                    raise _bad(caller, closed)
                names[value.name] = self._fresh(value.name)
                value.rename(names)
            if isinstance(name := node.get("name"), str):
                # Mostly that of the node's only output.
                node["name"] = names[name] if name in names else self._fresh(name)
            self.graph["nodes"].append(node)

    def _bind_outputs(self, node: dict[str, Any], inner: dict[str, Any], names: dict[str, str]) -> None:
        """What the operator gave back is what its graph gave back."""
        made, taken = list(values_of(inner["outputs"])), list(values_of(node["outputs"]))
        if len(made) != len(taken):
            raise _bad(node, "as many results as the graph that it calls has")
        for value, wanted in zip(made, taken, strict=True):
            if value.name is None and wanted.name is None:
                continue
            if value.name not in names or wanted.name is None or value.kind != wanted.kind:
                raise _bad(node, "results like those of the graph that it calls")
            if wanted.name in self.renamed:
                raise _bad(node, "results of names of their own")
            self.renamed[wanted.name] = names[value.name]
            for table in TABLES:
                _table(self.graph, table).pop(wanted.name, None)


def _check_precision(node: dict[str, Any]) -> None:
    """Autocast has (device, dtype, whether it is on, whether it caches, graph, ...)."""
    if _higher_order(node) != "wrap_with_autocast":
        return
    settings = [one.get("arg") if isinstance(one, dict) else None for one in node["inputs"][:3]]
    dtype, is_on = (s if isinstance(s, dict) else {} for s in [*settings, None, None, None][1:3])
    if is_on.get("as_bool") is False:
        return
    if dtype.get("as_scalar_type") == FLOAT and not _holds_halves(node):
        return
    raise _bad(node, "a program without autocast to another precision than float32")


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


def _bad(node: dict[str, Any], expected: str) -> NotInlined:
    return NotInlined(f"expected {expected}, got {str(node.get('target'))[:80]!r}")
