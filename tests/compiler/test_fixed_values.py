"""What isn't a tensor goes out of a program's inputs and outputs: the same for the compiler and for the server."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from compiler.program.archive import load_program
from compiler.program.fixed_values import drop_fixed_values
from tests.compiler.conftest import Compiler

# The server is held to this file as well: tests/unit/program/fixed_values_test.cc.
CASES = json.loads((Path(__file__).parents[1] / "unit/program/testdata/fixed_values.json").read_text())


def module_of(part: dict[str, Any]) -> dict[str, Any]:
    trees = {key: json.dumps(part[key]) for key in ("in_spec", "out_spec")}
    return {
        "graph": {key: part[key] for key in ("inputs", "outputs")},
        "signature": {key: part[key] for key in ("input_specs", "output_specs")},
        "module_call_graph": [{"fqn": "", "signature": trees}],
    }


@pytest.mark.parametrize("name", CASES)
def test_are_dropped_as_the_server_does(name: str) -> None:
    module = module_of(copy.deepcopy(CASES[name]["before"]))
    for _ in range(2):
        drop_fixed_values(module)
        trees = module["module_call_graph"][0]["signature"]
        specs = {key: json.loads(trees[key]) for key in ("in_spec", "out_spec")}
        assert module["graph"] | module["signature"] | specs == CASES[name]["after"]


@pytest.mark.parametrize("value", [{}, {"graph": 7}, {"module_call_graph": [7]}, {"module_call_graph": [{}]}])
def test_what_is_no_program_is_left_alone(value: dict[str, Any]) -> None:
    given = copy.deepcopy(value)
    drop_fixed_values(given)
    assert given == value


class Scaled(torch.nn.Module):
    def forward(
        self, mask: Tensor | None, x: Tensor, by: float, how: str = "", more: dict[str, Any] | None = None
    ) -> dict[str, Tensor | None]:
        assert mask is None and more is not None
        return {"cache": None, "y": x * by + more["add"] if how == "add" else x, "last": None, "z": x + more["n"]}


def test_the_program_is_one_of_tensors(compiler: Compiler) -> None:
    x, add = torch.randn(3, 4), torch.randn(3, 4)
    more = {"n": 7, "add": add}
    batch = torch.export.Dim("batch", max=8)
    shapes = {"mask": None, "x": {0: batch}, "by": None, "how": None, "more": {"n": None, "add": {0: batch}}}
    program = torch.export.export(
        Scaled(), (None, x, 2.5), {"how": "add", "more": more}, dynamic_shapes=shapes
    )
    loaded = load_program(compiler.save(program))
    assert loaded.graph_signature.user_inputs == ("x", "more_add")
    answers = loaded.module(check_guards=False)((), x, (), how=(), more={"n": (), "add": add})
    expected = Scaled()(None, x, 2.5, "add", more)
    assert answers["cache"] == answers["last"] == ()
    torch.testing.assert_close((answers["y"], answers["z"]), (expected["y"], expected["z"]))
