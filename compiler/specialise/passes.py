"""The operator's own passes over a program's graph, from a Python file beside model.yaml.

The file defines

    def apply(graph: torch.fx.Graph) -> None

which changes the graph in place, before anything else does: flat inputs, then ATen operators, with
constants as get_attr nodes, and one output with a tuple of tensors. It may not add constants, and what
it makes of the outputs' shapes and dtypes has to be what they were. The result is compared with the
program as exported, like any compiled code. Its identity in the key is the SHA-256 of the file; what
it imports is not.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.guards.refused import Refused

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Passes:
    path: Path
    function: Callable[[torch.fx.Graph], Any]

    def apply(self, module: torch.fx.GraphModule) -> None:
        """Raises Refused, naming the file, when the passes fail or leave a graph that can't be used."""
        constants = {node.target for node in module.graph.nodes if node.op == "get_attr"}
        signature = _signature(module)
        try:
            self.function(module.graph)
            module.graph.lint()
            _infer_values(module)
        except Exception as error:
            raise Refused(f"{self.path}: apply failed: {type(error).__name__}: {error}") from error
        added = {node.target for node in module.graph.nodes if node.op == "get_attr"} - constants
        if added:
            raise Refused(f"{self.path}: apply added the constants {sorted(added)}, which can't be bound")
        if (after := _signature(module)) != signature:
            raise Refused(f"{self.path}: apply changed inputs or outputs: expected {signature}, got {after}")
        module.recompile()


def load(path: Path, digest: str) -> Passes:
    """Runs the file. Raises ValueError when its content isn't that of the digest or it has no `apply`."""
    source = path.read_bytes()
    found = hashlib.sha256(source).hexdigest()
    if found != digest:
        raise ValueError(f"{path}: expected the file of digest {digest[:12]}, got {found[:12]}: it was changed")
    loaded = types.ModuleType("passes")
    loaded.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec"), loaded.__dict__)
    except Exception as error:
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
    function = getattr(loaded, "apply", None)
    if not callable(function):
        raise ValueError(f"{path}: expected a function apply(graph), got {function!r}")
    return Passes(path, function)


def _signature(module: torch.fx.GraphModule) -> list[str]:
    """The inputs and outputs, as texts."""
    described = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            described.append(f"{node.name}: {_text(node)}")
        elif node.op == "output":
            described += [f"output {i}: {_text(result)}" for i, result in enumerate(node.args[0])]
    return described


def _text(node: torch.fx.Node) -> str:
    value = node.meta["val"]
    return f"{str(value.dtype).removeprefix('torch.')}{[str(size) for size in value.shape]}"


def _infer_values(module: torch.fx.GraphModule) -> None:
    """What later passes read in node.meta["val"], for nodes that are new or follow new ones."""
    import torch
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    inputs = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    fake = next((value.fake_mode for value in inputs), None) or torch._subclasses.FakeTensorMode()
    fake.allow_non_fake_inputs = True
    FakeTensorProp(module, fake).propagate_dont_convert_inputs(*inputs)
