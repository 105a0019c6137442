"""Operators that only call a graph are inlined: the same program, for the compiler and for the server."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler.program import limits
from compiler.program.archive import ArchiveError, load_program
from compiler.program.graph_values import NotInlined
from compiler.program.wrappers import inline_wrappers
from tests import models
from tests.compiler.conftest import Compiler

TESTDATA = Path(__file__).parents[1] / "unit/program/testdata"
CASES = json.loads((TESTDATA / "wrappers.json").read_text())


def _maker() -> Any:
    """testdata/make_wrappers.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("make_wrappers", TESTDATA / "make_wrappers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch looks for what it traces
    spec.loader.exec_module(module)
    return module


made = _maker()


def higher_order(program: torch.export.ExportedProgram) -> set[str]:
    """The operators that call graphs, in all graphs of a program."""
    return {
        str(node.target)
        for part in program.graph_module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if isinstance(node.target, torch._ops.HigherOrderOperator)
    }


@pytest.mark.parametrize("body", CASES)
def test_the_file_is_what_this_torch_writes(body: str) -> None:
    """The server is held to this file as well: tests/unit/program/inlined_wrappers_test.cc."""
    assert CASES.keys() == made.BODIES.keys()
    given = made.program(body)
    assert given == CASES[body]["program"], "make_wrappers.py writes it again"
    assert inline_wrappers(given)
    assert given == CASES[body]["inlined"]
    assert not inline_wrappers(given)


@pytest.mark.parametrize("body", CASES)
def test_answers_are_those_of_the_module(body: str, compiler: Compiler) -> None:
    program = load_program(compiler.save(made.export(body)))
    assert higher_order(program) == ({"cond"} if body in ("in_branch", "recurrent") else set())
    module = made.Wrapped(made.BODIES[body]).eval()
    for rows in (1, 5):
        x = torch.randn(rows, 4)
        wanted, got = module(x), program.module(check_guards=False)(x)
        assert got.keys() == wanted.keys()
        for name in wanted:
            # Where torch runs a loop of eager ones itself, it runs linear layers as other kernels.
            torch.testing.assert_close(got[name], wanted[name], rtol=0, atol=1e-6 if body == "recurrent" else 0)


@pytest.mark.parametrize("body", ["nested", "lists", "running", "loops"])
def test_compiled_answers_are_those_of_the_module(body: str, compiler: Compiler) -> None:
    path = compiler.save(made.export(body))
    (symbol,) = load_program(path).range_constraints
    artifact = compiler.compile(path, {str(symbol): 4})
    x = torch.randn(4, 4)
    (answers,) = artifact.run([[x]])
    wanted = list(made.Wrapped(made.BODIES[body]).eval()(x).values())
    for got, want in zip(answers[: len(wanted)], wanted, strict=True):
        torch.testing.assert_close(got, want)


def test_autocast_to_another_precision_is_refused(compiler: Compiler) -> None:
    def lower(self: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return {"y": self.first(x)}

    program = torch.export.export(made.Wrapped(lower), (torch.ones(3, 4),), strict=False)
    with pytest.raises(ArchiveError, match=r"without autocast to another precision.*wrap_with_autocast'$"):
        load_program(compiler.save(program))


def _wrapper(program: dict[str, Any]) -> dict[str, Any]:
    nodes = program["graph_module"]["graph"]["nodes"]
    (node,) = (node for node in nodes if "higher_order" in node["target"])
    return node


def _without_operand(node: dict[str, Any]) -> None:
    del node["inputs"][-1]


def _of_another_kind(node: dict[str, Any]) -> None:
    node["inputs"][-1]["arg"] = {"as_sym_int": {"as_name": "x"}}


def _without_result(node: dict[str, Any]) -> None:
    del node["outputs"][-1]


def _same_result_twice(node: dict[str, Any]) -> None:
    node["outputs"][0] = node["outputs"][1]


def _without_graph(node: dict[str, Any]) -> None:
    del node["inputs"][1]


def _of_values_of_others(node: dict[str, Any]) -> None:
    node["inputs"][1]["arg"]["as_graph"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {
        "as_tensor": {"name": "p_first_weight"}
    }


def _that_makes_its_input(node: dict[str, Any]) -> None:
    graph = node["inputs"][1]["arg"]["as_graph"]["graph"]
    graph["nodes"][0]["outputs"] = [copy.deepcopy(graph["inputs"][0])]


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (_without_operand, "as many operands"),
        (_of_another_kind, "operands like"),
        (_without_result, "as many results"),
        (_same_result_twice, "names of their own"),
        (_without_graph, "a graph that the operator calls"),
        (_of_values_of_others, "its own values only"),
        (_that_makes_its_input, "make each once"),
    ],
)
def test_a_call_that_does_not_fit_its_graph_is_refused(damage: Any, wanted: str) -> None:
    program = copy.deepcopy(CASES["two_results"]["program"])
    damage(_wrapper(program))
    with pytest.raises(NotInlined, match=wanted):
        inline_wrappers(program)


def _over_a_size(node: dict[str, Any]) -> None:
    node["inputs"][2]["arg"] = {"as_sym_ints": [{"as_int": 4}]}


def _with_an_operand_more(node: dict[str, Any]) -> None:
    node["inputs"][3]["arg"] = node["inputs"][2]["arg"]


def _over_nothing(node: dict[str, Any]) -> None:
    del node["inputs"][2:]


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (_over_a_size, "tensors only"),
        (_with_an_operand_more, "as many as the graph"),
        (_over_nothing, "as many as the graph"),
        (lambda node: node["inputs"].pop(0), "a graph that the operator calls"),
        (lambda node: node["outputs"].pop(), "as many as the graph"),
    ],
)
def test_a_loop_that_does_not_fit_its_graph_is_refused(damage: Any, wanted: str) -> None:
    program = copy.deepcopy(CASES["running"]["program"])
    damage(_wrapper(program))
    with pytest.raises(NotInlined, match=wanted):
        inline_wrappers(program)


@pytest.mark.parametrize("length", [{"as_int": 257}, {"as_int": 0}, {"as_expr": {"expr_str": "s77"}}, None])
def test_a_loop_over_any_number_of_rows_is_refused(length: Any) -> None:
    program = copy.deepcopy(CASES["running"]["program"])
    (rows,) = _wrapper(program)["inputs"][2]["arg"]["as_tensors"]
    program["graph_module"]["graph"]["tensor_values"][rows["name"]]["sizes"][0] = length
    with pytest.raises(NotInlined, match=r"a loop over 1 to 256 rows.*scan'$"):
        inline_wrappers(program)


def test_loops_that_unroll_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_UNROLLED_WEIGHT", 4 << 10)
    with pytest.raises(NotInlined, match=r"unroll to at most 0 MB of graph.*scan'$"):
        inline_wrappers(copy.deepcopy(CASES["running"]["program"]))


@pytest.mark.parametrize("other", [{}, {"graph_module": 3}, {"graph_module": {"graph": {"nodes": 3}}}])
def test_what_is_no_program_is_left_alone(other: dict[str, Any]) -> None:
    before = copy.deepcopy(other)
    assert not inline_wrappers(other)
    assert other == before


@pytest.mark.parametrize("name", ["wrapped", "loops", "llama", "modernbert"])
def test_models_are_what_they_were(name: str, compiler: Compiler) -> None:
    """As exported: tests/integration/test_answers.py serves them."""
    exported = models.export(name)
    assert higher_order(exported)
    program = load_program(compiler.save(exported))
    assert not higher_order(program)
    torch.manual_seed(0)  # as models.export does
    model = models.MODELS[name]()
    with torch.no_grad():
        wanted, got = model.module.eval()(*model.args), program.module(check_guards=False)(*model.args)
    assert got.keys() == wanted.keys()
    assert all(torch.equal(got[output], wanted[output]) for output in wanted)
