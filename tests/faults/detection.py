"""How small a fault the parity check finds, and of how many places.

    python -m tests.faults.detection --count 40 --folder FOLDER [--output FILE]

Compiles random programs (random_programs.py) as they should be and runs each eager, compiled and in float64. Then
judge_faults.cc plants faults in the compiled answers, of every kind that a loop makes which is wrong in one place,
and of falling size, and asks what is asked of a candidate's answers. Answers are kept in FOLDER: a run that was cut
off goes on where it was. Prints, by kind, the share of the faults of each size that are found, and how many answers
are refused as they are, which are false alarms. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from compiler import reference
from compiler.job import toolchain
from compiler.program.archive import load_program
from loadtest.circumstances import REPOSITORY, commit, machine, stoker_home, torch_version
from tests.compiler.conftest import Compiler
from tests.faults.random_programs import VOCABULARY, program

JUDGE = REPOSITORY / "build/release/tests/faults/judge_faults"
SEED = 7  # of the inputs
GROUPS = {"float32": ("float32",), "float16, bfloat16": ("float16", "bfloat16"), "float64": ("float64",)}


def inputs_of(sample: torch.Tensor, batch: int) -> torch.Tensor:
    """As many rows as the bucket has."""
    draw = torch.Generator().manual_seed(SEED)
    shape = (batch, *sample.shape[1:])
    if not sample.dtype.is_floating_point:
        return torch.randint(0, VOCABULARY, shape, generator=draw)
    return torch.randn(shape, generator=draw).to(sample.dtype)


def answers(number: int, compiler: Compiler) -> dict[str, torch.Tensor]:
    """What the program answers in its three forms, by form and output."""
    made = program(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(made.module, made.args, dynamic_shapes=made.dynamic_shapes)
    path = compiler.save(exported)
    (symbol,) = map(str, exported.range_constraints)
    given = [inputs_of(made.args[0], made.batch)]
    artifact = compiler.compile(path, {symbol: made.batch})
    with torch.no_grad():
        eager = list(made.module(*given).values())
    forms = {
        "eager": eager,
        "compiled": artifact.run([given])[0][: artifact.manifest["outputs"]],
        "exact": reference.run(load_program(path), given),
    }
    return {
        f"{form}.{place}": output.detach().contiguous().clone()
        for form, outputs in forms.items()
        for place, output in enumerate(outputs)
    }


def collect(numbers: Iterable[int], folder: Path) -> list[Path]:
    """A file of answers for each program."""
    warnings.simplefilter("ignore", FutureWarning)  # of torch's own ways
    scratch = stoker_home() / "test-scratch"
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    toolchain.prepare_environment(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with tempfile.TemporaryDirectory() as work:
        compiler = Compiler(scratch, Path(work))
        for number in numbers:
            path = folder / f"{number}.safetensors"
            if not path.exists():
                partial = path.with_suffix(".partial")
                save_file(answers(number, compiler), partial)
                partial.rename(path)
                print(f"{number}: {program(number).described}", file=sys.stderr, flush=True)
            files.append(path)
    return files


def judged(files: Sequence[Path]) -> list[dict[str, Any]]:
    said = subprocess.run([JUDGE, *files], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(said)


def group_of(number: int) -> str:
    dtype = program(number).described.split()[1]
    return next(name for name, dtypes in GROUPS.items() if dtype in dtypes)


def curves(results: list[dict[str, Any]]) -> dict[str, dict[str, dict[float, tuple[int, int]]]]:
    """Group → kind → size → how many were found, of how many."""
    found: dict[str, dict[str, dict[float, tuple[int, int]]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        group = group_of(int(Path(result["file"]).stem))
        for fault in result["faults"]:
            counts = found[group][fault["kind"]]
            seen, of = counts.get(fault["size"], (0, 0))
            counts[fault["size"]] = (seen + fault["found"], of + 1)
    return found


def table(kinds: dict[str, dict[float, tuple[int, int]]]) -> str:
    """Shares in percent; a row for each kind, a column for each decade."""
    known = {size for each in kinds.values() for size in each}
    sizes = sorted((size for size in known if abs(math.log10(size) % 1 - 0.5) > 0.4), reverse=True)  # not the halves
    lines = [
        "| fault, in units of the output's root mean square | " + " | ".join(f"{size:.0e}" for size in sizes) + " |"
    ]
    lines.append("|---|" + "---|" * len(sizes))
    for kind, found in kinds.items():
        cells = [f"{100 * found[size][0] / found[size][1]:.0f}" if size in found else "–" for size in sizes]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.detection", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--count", type=int, default=40, help="programs")
    parser.add_argument("--folder", type=Path, required=True, help="where answers are kept")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    results = judged(collect(range(options.count), options.folder))
    refused = [(result["file"], result["refused"]) for result in results if result["refused"]]
    found = curves(results)
    for group in GROUPS:
        if group in found:
            print(f"\n{group}: share of the faults that are found, in percent\n\n{table(found[group])}")
    print(f"\n{len(refused)} of {len(results)} healthy answers refused")
    for file, why in refused:
        print(f"  {file}: {why}")
    if options.output is not None:
        figures = {
            "commit": commit(), "machine": machine(), "torch": torch_version(), "programs": len(results),
            "refused": len(refused),
            "found": {
                group: {kind: [{"size": size, "found": a, "of": b} for size, (a, b) in sorted(sizes.items())]
                        for kind, sizes in kinds.items()} for group, kinds in found.items()
            },
        }  # fmt: skip
        options.output.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
