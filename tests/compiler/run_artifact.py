"""Runs an artifact on saved inputs: `python -m tests.compiler.run_artifact STAGE PROGRAM THREADS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from compiler.program.archive import load_program
from compiler.specialise.convolutions import Convolution


def main(stage: Path, program_path: Path, threads: int) -> None:
    """Reads inputs.pt beside the stage, writes outputs.pt."""
    torch.set_num_threads(threads)
    manifest = json.loads((stage / "manifest.json").read_text())
    program = load_program(program_path)
    weights = {**program.state_dict, **program.constants}
    for one in manifest["convolutions"]:
        weights[one["weight"]] = Convolution(**one).pack(weights[one["weight"]].detach())
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(stage / "model.so"), 1)
    names = runner.get_constant_names_to_original_fqns()
    assert sorted(names.values()) == sorted(manifest["constants"]), (names, manifest["constants"])
    runner.update_constant_buffer({name: weights[fqn] for name, fqn in names.items()}, False, False, True)
    results = []
    for inputs in torch.load(stage.parent / "inputs.pt"):
        results.append([output.clone() for output in runner.run(inputs)])
    torch.save(results, stage.parent / "outputs.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
