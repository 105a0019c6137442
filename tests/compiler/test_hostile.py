"""No value ends the process, none goes unnoticed, and none disturbs another row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiler import hostile_operators
from tests.compiler.conftest import Artifact, Compiler
from tests.compiler.hostile_operators import CASES, Case, Hostile, good_inputs

pytestmark = pytest.mark.slow

BAD_ROW = 2
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}  # thousands of rows add to one place, in any order
# Few elements run on one thread, many in an OpenMP region, where a failed check would abort; the
# third leaves the batch dynamic.
BUCKETS = {"small": 4, "large": 3000, "dynamic": 5}


@dataclass
class Program:
    path: Path
    module: Hostile
    symbol: str


@pytest.fixture(scope="module")
def program(compiler: Compiler) -> Program:
    module = Hostile(CASES).eval()
    x, operands = good_inputs(CASES, 5)
    batch = torch.export.Dim("batch", min=2, max=4096)
    shapes = ({0: batch}, {name: {0: batch} for name in operands})
    exported = torch.export.export(module, (x, operands), dynamic_shapes=shapes)
    (symbol,) = map(str, exported.range_constraints)
    return Program(compiler.save(exported), module, symbol)


@pytest.fixture(scope="module", params=list(BUCKETS))
def runs(request: pytest.FixtureRequest, compiler: Compiler, program: Program) -> Runs:
    sizes = {} if request.param == "dynamic" else {program.symbol: BUCKETS[request.param]}
    sources = (Path(hostile_operators.__file__), Path(__file__))
    artifact = compiler.compiled_before(program.path, sizes, *sources)
    return Runs(artifact, program.module, BUCKETS[request.param])


class Runs:
    """All hostile values of all cases, run in one process."""

    def __init__(self, artifact: Artifact, module: Hostile, batch: int) -> None:
        self.artifact = artifact
        self.batch = batch
        x, operands = good_inputs(CASES, batch)
        with torch.no_grad():
            self.expected = module(x, operands)
        inputs = [[x, *operands.values()]]
        self.attempts: list[tuple[Case, float]] = []
        for case in CASES:
            for value in case.hostile:
                changed = dict(operands)
                changed[case.name] = operands[case.name].clone()
                changed[case.name][BAD_ROW] = value
                inputs.append([x, *changed.values()])
                self.attempts.append((case, value))
        self.good, *self.bad = artifact.run(inputs)

    def bits(self, case: Case) -> list[int]:
        """The guards that the case's input is looked at by."""
        names = [entry["name"] for entry in self.artifact.manifest["inputs"]]
        name = names[1 + CASES.index(case)]
        return [guard["bit"] for guard in self.artifact.manifest["guards"] if guard["input"] == name]

    def outputs(self, results: list[Any]) -> dict[str, torch.Tensor]:
        """By case; the validity is left out."""
        return dict(zip((case.name for case in CASES), results, strict=False))


def test_good_values_answer_as_eager_does(runs: Runs) -> None:
    assert runs.artifact.manifest["outputs"] == len(CASES)
    validity = runs.good[runs.artifact.manifest["validity_output"]]
    assert validity.dtype == torch.int64 and validity.shape == (runs.batch,)
    assert not validity.any()
    for name, output in runs.outputs(runs.good).items():
        torch.testing.assert_close(output, runs.expected[name], **TOLERANCE, msg=f"{name} differs from eager")


def test_every_hostile_value_sets_its_bit(runs: Runs) -> None:
    for (case, value), results in zip(runs.attempts, runs.bad, strict=True):
        validity = results[runs.artifact.manifest["validity_output"]]
        mask = sum(1 << bit for bit in runs.bits(case))
        assert mask, f"{case.name}: no guard names its input"
        blamed = (validity & mask) != 0
        assert blamed[BAD_ROW], f"{case.name}: {value} went unnoticed"
        others = blamed.sum().item() - 1
        assert others == (0 if case.by_row else runs.batch - 1), (
            f"{case.name}: {value} blamed on {others} others"
        )
        assert not (validity & ~mask).any(), f"{case.name}: {value} failed guards of other operators"


def test_rows_beside_a_hostile_one_are_unchanged(runs: Runs) -> None:
    others = [row for row in range(runs.batch) if row != BAD_ROW]
    for (case, value), results in zip(runs.attempts, runs.bad, strict=True):
        for name, output in runs.outputs(results).items():
            expected = runs.outputs(runs.good)[name]
            other = next(c for c in CASES if c.name == name)
            if other is not case and other.row_outputs:
                assert torch.equal(output, expected), f"{case.name}: {value} changed the output of {name}"
            elif other is not case:
                torch.testing.assert_close(output, expected, **TOLERANCE)
            elif case.by_row and case.row_outputs:
                assert torch.equal(output[others], expected[others]), (
                    f"{case.name}: {value} changed other rows"
                )


def test_eager_refuses_what_is_flagged(program: Program) -> None:
    """The table itself: a value that eager takes would not be hostile."""
    x, operands = good_inputs(CASES, 5)
    for case in CASES:
        for value in case.hostile:
            changed = operands[case.name].clone()
            changed[BAD_ROW] = value
            with pytest.raises((IndexError, RuntimeError)), torch.no_grad():
                case.run(x, program.module.table, changed)
