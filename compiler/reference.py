"""Runs a program in float64: what a parity check asks when eager and compiled differ by rounding.

    python -m compiler.reference [--no-sandbox] PROGRAM <inputs 3>outputs

PROGRAM is a .pt2 file; inputs and outputs are safetensors files whose tensors are named by their
flat positions, "0", "1", .... Floating outputs are float64. The program is the one that was exported, with
every floating tensor, and every floating dtype that its graph names, widened: to float64, or to float32 where all
its weights and inputs are of half that size, whose rounding is a thousand times float32's (GPT-2 XL would take
12 GB, not 6). Of one that can't be computed so, the one output is "refused", the bytes of the reason. An end
without any says nothing of the program: it may be the host's, which had no memory, say. A program is somebody
else's: it is run where it can read what it needs, write nothing and reach nobody, as far as the kernel can see to
that.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch.utils import _pytree as pytree

from compiler.program import operators
from compiler.program.archive import MissingOperator, load_program
from compiler.sandbox import landlock, places
from compiler.sandbox.confine import confine, opened

REPLY = 3  # the descriptor that outputs are written to

# They only check what widening changes.
CHECKS = ("_assert_tensor_metadata",)


def run(program: torch.export.ExportedProgram, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The flat outputs. Raises what torch raises when the program can't be run."""
    wide = wide_dtype([*program.state_dict.values(), *program.constants.values(), *inputs])
    module = program.module(check_guards=False)
    widen(module, wide)
    args, kwargs = program.call_spec.in_spec.unflatten([_widened(tensor, wide) for tensor in inputs])
    with torch.no_grad():
        outputs = module(*args, **kwargs)
    return [
        _widened(output, torch.float64)
        for output in pytree.tree_leaves(outputs)
        if isinstance(output, torch.Tensor)
    ]


def wide_dtype(tensors: list[Any]) -> torch.dtype:
    """What a program with these weights, constants and inputs is widened to."""
    floating = {value.dtype for value in tensors if isinstance(value, torch.Tensor) and value.is_floating_point()}
    return torch.float32 if floating and floating <= {torch.float16, torch.bfloat16} else torch.float64


def widen(module: torch.fx.GraphModule, wide: torch.dtype = torch.float64) -> None:
    """Makes the module, with its branches, compute in `wide`."""
    module.to(wide)
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, _widened(value, wide))
        for node in list(part.graph.nodes):
            if any(check in str(node.target) for check in CHECKS):
                part.graph.erase_node(node)
                continue
            node.args = pytree.tree_map(lambda value: _widened(value, wide), node.args)
            node.kwargs = pytree.tree_map(lambda value: _widened(value, wide), node.kwargs)
        part.recompile()


def _widened(value: Any, wide: torch.dtype) -> Any:
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return wide
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(wide)
    return value


def is_the_hosts(error: Exception) -> bool:
    """Whether another time, or another host, may well do what failed with this."""
    return isinstance(error, (MemoryError, OSError, ImportError)) or "can't allocate memory" in str(error)


def answer(program: torch.export.ExportedProgram, inputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    try:
        outputs = run(program, inputs)
    except Exception as error:
        if is_the_hosts(error):
            raise
        reason = f"{type(error).__name__}: {error}".encode(errors="replace")
        return {"refused": torch.tensor(list(reason), dtype=torch.uint8)}
    return {str(i): output.contiguous().clone() for i, output in enumerate(outputs)}


def read(program: Path) -> torch.export.ExportedProgram:
    """The program; with torchvision, where it is installed, if it calls operators of that. Of those that the server has
    and nothing here it is known that they can't be run."""
    try:
        return load_program(program)
    except MissingOperator:
        with contextlib.suppress(ImportError):
            importlib.import_module("torchvision")
        operators.declare()
        return load_program(program)


def held_to(program: Path) -> Path:
    """Confines this process, which must have one thread. Where the program lies then."""
    # To read a program torch imports this, which makes a folder where it would cache things.
    import torch._dynamo  # noqa: F401

    descriptor, path = opened(program)
    readable = ((place, landlock.READ) for place in (*places.system(), *places.python()))
    devices = ((Path(device), landlock.DEVICE) for device in places.DEVICES)
    confine([(descriptor, landlock.READ_FILE), *readable, *devices])
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compiler.reference", description=str(__doc__).splitlines()[0])
    parser.add_argument("program", type=Path, help="the .pt2 file")
    parser.add_argument(
        "--operator-library", action="append", default=[], metavar="NAME=FILE",
        help="a library of operators that programs may call",
    )  # fmt: skip
    parser.add_argument("--no-sandbox", action="store_true", help="the program can do all that this user can")
    given = parser.parse_args()
    for library in given.operator_library:
        torch.ops.load_library(library.partition("=")[2])
    tensors = load(sys.stdin.buffer.read())
    program = given.program if given.no_sandbox else held_to(given.program)
    reply = save(answer(read(program), [tensors[str(i)] for i in range(len(tensors))]))
    with os.fdopen(REPLY, "wb") as file:
        file.write(reply)


if __name__ == "__main__":
    main()
