"""A program that torch.export.save has written before as an export source: of an older torch, whose format is another
one, or without what model.yaml says of it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.export import Dim, ExportedProgram

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource


def from_program(path: Path) -> ExportSource:
    """With the sizes that its dimensions may have. Raises ExportRefused."""
    if not path.is_file():
        raise ExportRefused(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise ExportRefused(f"{path}: expected a program that torch.export.save has written")
    try:
        program = torch.export.load(path)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ExportRefused(f"{path}: torch {torch.__version__} can't read this program: {reason}") from error
    examples = program.example_inputs
    if examples is None:
        raise ExportRefused(f"{path}: the program has no example inputs to be exported again with")
    args, kwargs = examples
    module = program.module()
    module.training = False  # as it was exported, which can't be changed any more
    return ExportSource(_name(path), module, args, dict(kwargs), _shapes(program, args, kwargs))


def _name(path: Path) -> str:
    """Of the model in a repository, where it lies in one; else the file's."""
    if path.name == "model.pt2" and path.parent.name.isdigit() and path.parent.parent.name:
        return path.parent.parent.name
    return path.stem.replace(".", "_")


def _shapes(program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As torch.export.export takes them: a Dim for each size that the program leaves open."""
    nodes = {node.name: node for node in program.graph.nodes}
    values = {name: nodes[name].meta["val"] if name in nodes else None for name in _input_names(program)}
    leaves, structure = pytree.tree_flatten((args, kwargs))
    if len(leaves) != len(values):
        raise ExportRefused(f"the program takes {len(values)} inputs, its example has {len(leaves)}")
    dims: dict[Any, Any] = {}
    shapes = [_axes(program, name, x, dims) if isinstance(x, Tensor) else None for name, x in values.items()]
    if not dims:
        return None
    given_args, given_kwargs = pytree.tree_unflatten(shapes, structure)
    names = list(torch.export.dynamic_shapes._combine_args(program.module(), args, kwargs))
    return dict(zip(names, given_args, strict=False)) | dict(given_kwargs)


def _input_names(program: ExportedProgram) -> list[str]:
    specs = program.graph_signature.input_specs
    return [getattr(spec.arg, "name", "") for spec in specs if spec.kind.name == "USER_INPUT"]


def _axes(program: ExportedProgram, name: str, value: Tensor, dims: dict[Any, Any]) -> dict[int, Any]:
    """The Dim of each open axis; `dims` has those of symbols, by which inputs share them."""
    found: dict[int, Any] = {}
    for axis, size in enumerate(value.shape):
        if isinstance(size, int):
            continue
        expression = size.node.expr
        (symbol, *others) = sorted(expression.free_symbols, key=str)
        if symbol not in dims:
            bounds = program.range_constraints[symbol]
            is_batch = axis == 0 and "batch" not in {dim.__name__ for dim in dims.values()}
            high = int(bounds.upper) if bounds.upper.is_finite else None
            dims[symbol] = Dim("batch" if is_batch else f"{name}_{axis}", min=int(bounds.lower), max=high)
        factor = expression.coeff(symbol)
        if others or expression - factor * symbol != 0:
            raise ExportRefused(f"an input has a dimension of {expression}, expected a size or a multiple of one")
        found[axis] = dims[symbol] if factor == 1 else int(factor) * dims[symbol]
    return found
