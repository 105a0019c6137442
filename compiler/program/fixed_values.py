"""Takes what isn't a tensor, and is the same in every call, out of a program's inputs and outputs.

torch.export bakes numbers, texts and None into the program and keeps a place for them among the inputs; None is also
returned. The server's reader does likewise (server/program/fixed_values.h);
tests/unit/program/testdata/fixed_values.json holds both to the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

NO_VALUE = {"type": "builtins.tuple", "context": "null", "children_spec": []}  # a node without a leaf


def drop_fixed_values(module: dict[str, Any]) -> None:
    """Changes a graph module in place, whose containers are plain (compiler.program.containers).

    What isn't as torch writes it stays as it is, for check_graph to refuse.
    """
    calls, signature, graph = (module.get(key) for key in ("module_call_graph", "signature", "graph"))
    if not (isinstance(calls, list) and calls and isinstance(calls[0], dict)):
        return
    tree = calls[0].get("signature")
    if not (isinstance(tree, dict) and isinstance(signature, dict) and isinstance(graph, dict)):
        return
    ways: tuple[tuple[str, str, str, Callable[[Any], bool]], ...] = (
        ("input_specs", "inputs", "in_spec", _is_fixed_input),
        ("output_specs", "outputs", "out_spec", _is_none),
    )
    for specs_key, values_key, tree_key, goes in ways:
        specs, values = signature.get(specs_key), graph.get(values_key)
        if not (isinstance(specs, list) and isinstance(values, list) and len(specs) == len(values)):
            continue
        if any(map(goes, specs)):
            signature[specs_key] = [spec for spec in specs if not goes(spec)]
            graph[values_key] = [value for spec, value in zip(specs, values) if not goes(spec)]
            tree[tree_key] = _without(tree.get(tree_key), iter([goes(spec) for spec in specs if _is_leaf(spec)]))


def _is_fixed_input(spec: Any) -> bool:
    return isinstance(spec, dict) and "constant_input" in spec


def _is_none(spec: Any) -> bool:
    try:
        return spec["user_output"]["arg"]["as_none"] is True
    except (TypeError, KeyError):
        return False


def _is_leaf(spec: Any) -> bool:
    """Of the calling convention: weights aren't, nor are buffers that are written back."""
    return isinstance(spec, dict) and ("user_input" in spec or "user_output" in spec or _is_fixed_input(spec))


def _without(text: Any, dropped: Iterator[bool]) -> Any:
    """A tree spec without the leaves, in flat order, of which `dropped` says so."""
    try:
        version, root = json.loads(text)
        return json.dumps([version, _node_without(root, dropped)])
    except (ValueError, TypeError, RecursionError):
        return text


def _node_without(node: Any, dropped: Iterator[bool]) -> Any:
    if not isinstance(node, dict):
        return node
    if node.get("type") is None:
        return NO_VALUE if next(dropped, False) else node
    if not isinstance(node.get("children_spec"), list):
        return node
    return dict(node, children_spec=[_node_without(child, dropped) for child in node["children_spec"]])
