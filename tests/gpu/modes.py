"""What torch.compile makes of a program in Python, by its modes: the figures that an artifact's stand beside.

    python -m tests.gpu.modes --name bert_base --program model.pt2 --batch 8 --device cuda:0 --iterations 100

Prints one JSON object a line: {"tier": "eager", ...} as bench.py does, and for each mode {"mode": ..., "p50_us",
"p99_us", "host_us", "peak_bytes", "first_s"}; first_s is how long its first answer took. An answer that is further from
eager's than the model allows is a check that failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import torch

from compiler.program.archive import load_program
from tests.gpu import models
from tests.gpu.bench import Device, apart, say

MODES = ("default", "reduce-overhead", "max-autotune")


def inputs(program: torch.export.ExportedProgram, name: str, batch: int) -> list[torch.Tensor]:
    """Random ones of so many rows, on the CPU."""
    wanted = set(program.graph_signature.user_inputs)
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.name in wanted}
    shapes = [[size if isinstance(size, int) else batch for size in value.shape] for value in values.values()]
    dtypes = [str(value.dtype).removeprefix("torch.") for value in values.values()]
    return models.inputs_of(name, shapes, list(values), dtypes, seed=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False
    device = Device(options.device)
    model = models.MODELS[options.name]
    program = load_program(options.program)
    if device.on_gpu:
        from torch.export.passes import move_to_device_pass

        torch.cuda.set_device(options.device)
        program = move_to_device_pass(program, options.device)
    module = program.module(check_guards=False)
    given = [tensor.to(options.device) for tensor in inputs(program, options.name, options.batch)]
    arguments, keywords = program.call_spec.in_spec.unflatten(given)
    expected = torch.utils._pytree.tree_leaves(module(*arguments, **keywords))
    say(tier="eager", **device.measure(lambda: module(*arguments, **keywords), min(options.iterations, 50)))
    passed = True
    for mode in options.modes:
        torch._dynamo.reset()
        compiled = torch.compile(module, mode=mode)
        started = time.monotonic()
        got = [tensor.clone() for tensor in torch.utils._pytree.tree_leaves(compiled(*arguments, **keywords))]
        device.synchronize()
        first = round(time.monotonic() - started, 1)
        distance = apart(got, expected)
        figures = device.measure(partial(compiled, *arguments, **keywords), options.iterations)
        say(mode=mode, first_s=first, **figures)
        close = distance <= model.tolerance
        passed &= close
        say(check=f"torch.compile equals eager, {mode}", distance=distance, passed=close)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
