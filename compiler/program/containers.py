"""Containers that values are passed in, of any class, become those that everybody has.

Named tuples, dataclasses and transformers' ModelOutput need their classes, which is code of the
program's author. Compiled code takes and gives values in flat order, so any container does.
The server's reader does likewise (server/program/plain_containers.h).
"""

from __future__ import annotations

import json
from typing import Any

PLAIN = {None, "builtins.tuple", "builtins.list", "builtins.dict"}


def use_plain_containers(module: dict[str, Any]) -> None:
    """Has the tree specs of a graph module's calls say "a tuple" for any other class, in place.

    What isn't a tree spec stays as it is, for check_graph to refuse.
    """
    calls = module.get("module_call_graph")
    for call in calls if isinstance(calls, list) else []:
        signature = call.get("signature") if isinstance(call, dict) else None
        if isinstance(signature, dict):
            call["signature"] = {
                key: _plain(value) if key in ("in_spec", "out_spec") else value
                for key, value in signature.items()
            }


def _plain(text: Any) -> Any:
    try:
        version, root = json.loads(text)
        return json.dumps([version, _plain_node(root)])
    except (ValueError, TypeError, RecursionError):
        return text


def _plain_node(node: Any) -> Any:
    if not isinstance(node, dict) or not isinstance(node.get("children_spec"), list):
        return node
    node = dict(node, children_spec=[_plain_node(child) for child in node["children_spec"]])
    if isinstance(node.get("type"), str) and node["type"] not in PLAIN:
        node.update(type="builtins.tuple", context="null")
    return node
