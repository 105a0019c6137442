"""The first stage, in a process and an environment of its own.

    python -m loadtest.coverage.exporting NAME FOLDER

Writes FOLDER/models/NAME/1/model.pt2, what eager PyTorch answered at each size (FOLDER/answers/SIZE.npz), and
FOLDER/export.json. With a batch dimension where the model allows it, of fixed shapes where it doesn't, which
export.json says with the reason. Ends with 1 and the reason on stderr's last line when it can't be exported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from loadtest.coverage.program import MOST_ROWS, B, Program, size_name
from loadtest.coverage.programs import PROGRAMS

SEED = 0
# What torch.vmap leaves in a graph, and torch.export.save can't write.
PREDISPATCH = "torch._functorch.predispatch"
MOST = 256  # of dimensions other than the batch


def tensors(program: Program, sizes: dict[str, int], seed: int = 0) -> dict[str, Tensor]:
    return {name: torch.from_numpy(values) for name, values in program.draw(sizes, seed).items()}


def export(program: Program, module: nn.Module) -> ExportedProgram:
    symbols: dict[str, Dim] = {}
    shapes: dict[str, dict[int, Dim]] = {}
    for name, given in program.inputs.items():
        dynamic = {axis: size for axis, size in enumerate(given.shape) if isinstance(size, str)}
        shapes[name] = {
            axis: symbols.setdefault(size, Dim(size, min=1, max=MOST_ROWS if size == B else MOST))
            for axis, size in dynamic.items()
        }
    # Neither 0 nor 1, which torch.export takes for fixed, nor what another dimension may be.
    example = {dimension: 3 + 2 * place for place, dimension in enumerate(symbols)}
    for name in example.keys() - {B}:
        example[name] = max(sizes[name] for sizes in program.sizes)
    exported = torch.export.export(
        module, (), tensors(program, example), dynamic_shapes=shapes if symbols else None, strict=False
    )
    if any(getattr(node.target, "__module__", "") == PREDISPATCH for node in exported.graph.nodes):
        return exported.run_decompositions({})
    return exported


def export_as_it_allows(program: Program, module: nn.Module) -> tuple[Program, ExportedProgram]:
    """The program as it could be exported: with fixed shapes where a batch dimension is refused."""
    if program.dynamic:
        try:
            return program, export(program, module)
        except Exception as error:
            program = program.without_dynamic(reason(error))
    return program, export(program, module)


def reason(error: Exception) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def write_answers(program: Program, module: nn.Module, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for sizes in program.sizes:
        inputs = tensors(program, sizes)
        given = {f"in.{name}": value.numpy().copy() for name, value in inputs.items()}
        answer = [leaf for leaf in pytree.tree_leaves(module(**inputs)) if isinstance(leaf, Tensor)]
        outputs = {f"out.{place:02}": value.numpy() for place, value in enumerate(answer)}
        np.savez(folder / f"{size_name(sizes)}.npz", **given, **outputs)  # type: ignore[arg-type]


def run(program: Program, folder: Path) -> None:
    start = time.monotonic()
    torch.manual_seed(SEED)
    module = program.make().eval()
    built = time.monotonic()
    with torch.no_grad():
        program, exported = export_as_it_allows(program, module)
        seconds = time.monotonic() - built
        path = folder / f"models/{program.name}/1/model.pt2"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.export.save(exported, path)
        write_answers(program, module, folder / "answers")
    found = {
        "fixed": program.fixed,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "operators": sum(node.op == "call_function" for node in exported.graph.nodes),
        "export_seconds": round(seconds, 2),
        "seconds": round(time.monotonic() - start, 2),
    }
    (folder / "export.json").write_text(json.dumps(found, indent=1) + "\n")


def main() -> int:
    name, folder = sys.argv[1], Path(sys.argv[2])
    try:
        run(PROGRAMS[name], folder)
    except Exception as error:
        import traceback

        traceback.print_exc()
        print(reason(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
