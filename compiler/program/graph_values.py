"""The values of a program's graph, as torch.export writes it: what operators' arguments and outputs name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

HIGHER_ORDER = "torch.ops.higher_order."
# What a graph says of its values, by their names.
TABLES = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values")


class NotInlined(ValueError):
    """An operator with a graph of its own that can't become a part of the graph around it."""


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


def input_values(inputs: Any) -> Iterator[Value]:
    for one in inputs if isinstance(inputs, list) else ():
        if isinstance(one, dict):
            yield from values_of(one.get("arg"))


def higher_order(node: Any) -> str:
    target = node.get("target") if isinstance(node, dict) else None
    if isinstance(target, str) and target.startswith(HIGHER_ORDER):
        return target.removeprefix(HIGHER_ORDER)
    return ""


def called_graph(one: Any) -> dict[str, Any] | None:
    """The {"name", "graph"} that an input of a node is."""
    argument = one.get("arg") if isinstance(one, dict) else None
    called = argument.get("as_graph") if isinstance(argument, dict) else None
    return called if isinstance(called, dict) and isinstance(called.get("graph"), dict) else None


def is_graph(graph: dict[str, Any]) -> bool:
    return all(isinstance(graph.get(part), list) for part in ("inputs", "outputs", "nodes"))


def table_of(graph: dict[str, Any], name: str) -> dict[str, Any]:
    table = graph.get(name)
    return table if isinstance(table, dict) else {}


class FreshNames:
    """Names that nothing in a graph has."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self._taken = {value.name for value in values_of(graph["inputs"]) if value.name is not None}
        self._used: dict[str, int] = {}  # digits, by wanted name
        for node in graph["nodes"]:
            if isinstance(node, dict):
                self._taken |= {v.name for v in values_of(node.get("outputs")) if v.name is not None}
                self._taken.add(str(node.get("name") or ""))
        for table in TABLES:
            self._taken |= set(table_of(graph, table))

    def take(self, wanted: str) -> str:
        """The wanted one, with digits behind it where that is taken."""
        name = wanted
        while name in self._taken:
            self._used[wanted] = self._used.get(wanted, 0) + 1
            name = f"{wanted}_{self._used[wanted]}"
        self._taken.add(name)
        return name


def bad(node: dict[str, Any], expected: str) -> NotInlined:
    return NotInlined(f"expected {expected}, got {str(node.get('target'))[:80]!r}")
