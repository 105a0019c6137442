"""What operators that are not torch's own mean for what is compiled: which are refused, that no rule for torch's is
taken for one of theirs, and what is done where there may be nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler.guards import known
from compiler.guards.refused import Refused
from compiler.program import operators
from compiler.specialise.bucket_graph import Specialised, specialise
from tests.compiler.conftest import Compiler

pytest.importorskip("torchvision")  # whose kernels are run here

SCHEMAS = (
    "clamp(Tensor x, int low, int high) -> Tensor",
    "shapeless(Tensor x) -> Tensor",
    "writes(Tensor(a!) x) -> Tensor",
    "part(Tensor(a) x) -> Tensor(a)",
    "count(Tensor x) -> int",
    "parts(Tensor x) -> Tensor[]",
)


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    """Operators as somebody's library would register them."""
    operators.declare()
    library = torch.library.Library("stoker_tests", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    kernels: dict[str, Callable[..., Any]] = {
        "clamp": lambda x, low, high: x + 0,
        "writes": lambda x: x.add_(1).clone(),
        "part": lambda x: x[:1],
        "count": lambda x: x.dim(),
        "parts": lambda x: [x.clone()],
    }
    for name, kernel in kernels.items():
        library.impl(name, kernel, "CompositeExplicitAutograd")
    library.impl("shapeless", lambda x: x.clone(), "CPU")
    yield
    library._destroy()


class Program(torch.nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(40.0).reshape(10, 4))
        self.run = run

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self.table, *inputs)


def exported(run: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(Program(run).eval(), inputs, strict=False)


def specialised(run: Callable[..., Any], *inputs: torch.Tensor) -> Specialised:
    return specialise(exported(run, *inputs), {})


def boxes(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    corners = torch.rand(count, 2) * 20
    return torch.cat([corners, corners + 8 * torch.rand(count, 2)], 1), torch.rand(count)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda table, x: torch.ops.stoker_tests.writes(x.clone()), "writes into what it is given"),
        (lambda table, x: torch.ops.stoker_tests.part(x) + 1, "returns a view"),
        (lambda table, x: x * torch.ops.stoker_tests.count(x), "other than tensors"),
        (lambda table, x: torch.ops.stoker_tests.parts(x)[0] + 1, "other than tensors"),
    ],
)
def test_refused_is_what_compiled_code_cannot_call(run: Callable[..., Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        specialised(run, torch.ones(3, 4))


def test_a_library_says_what_its_results_look_like() -> None:
    fakes = torch.library.Library("stoker_tests", "FRAGMENT")
    torch.library.register_fake("stoker_tests::shapeless", torch.empty_like, lib=fakes)
    program = exported(lambda table, x: torch.ops.stoker_tests.shapeless(x), torch.ones(3, 4))
    fakes._destroy()  # what Python said when it was exported nobody says here
    with pytest.raises(Refused, match="no kernel for meta tensors"):
        specialise(program, {})


def test_operators_are_compiled_for_cpus_alone() -> None:
    program = exported(lambda table, x: torch.ops.stoker_tests.clamp(x, 0, 1), torch.ones(3, 4))
    with pytest.raises(Refused, match="for CPUs alone"):
        known.check(program.graph_module, on_gpu=True)


def test_no_rule_of_torchs_is_taken_for_an_operator_of_the_same_name() -> None:
    def run(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return table[torch.ops.stoker_tests.clamp(index, 0, 9)]

    result = specialised(run, torch.tensor([1, 2]))
    assert len(result.guards) == 1  # torch's would have proved it
    assert result.module(torch.tensor([1, 99]))[-1].any()


def test_every_call_is_in_the_compiled_code(compiler: Compiler) -> None:
    def run(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch.ops.stoker_tests.clamp(x, 0, 1)
        return x + 1

    program = exported(run, torch.ones(3, 4))
    dead = program.graph.find_nodes(op="placeholder")[-1]
    if not known.library_calls(program.graph):  # torch.export leaves it out, others may not
        (add,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
        with program.graph.inserting_before(add):
            node = program.graph.call_function(torch.ops.stoker_tests.clamp.default, (dead, 0, 1))
            node.meta["val"] = dead.meta["val"]
    assert known.library_calls(program.graph) == Counter({"stoker_tests::clamp": 1})
    with pytest.raises(Refused, match="calls it 1 times, the compiled code would 0 times"):
        known.check_calls(specialise(program, {}).module.graph, known.library_calls(program.graph))


def test_as_many_boxes_as_are_found() -> None:
    """Boxes above a threshold, and the kept ones of them."""

    def run(table: torch.Tensor, corners: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        good = scores > 0.5
        found, of = corners[good], scores[good]
        torch._check(found.shape[0] == of.shape[0])
        kept = torch.ops.torchvision.nms(found, of, 0.3)
        return found[kept], kept

    inputs = boxes(12)
    result = specialised(run, *inputs)
    with torch.no_grad():
        *answer, validity = result.module(*inputs)
    assert not validity.any()
    for given, expected in zip(answer, run(torch.empty(0), *inputs), strict=True):
        torch.testing.assert_close(given, expected)


def test_an_index_into_nothing_fails_its_guard() -> None:
    def run(table: torch.Tensor, scores: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return scores[scores > 2][index]

    result = specialised(run, torch.tensor([0.5, 3.0, 4.0]), torch.tensor([0, -1]))
    for scores, index, fails in (
        ([0.5, 3.0, 4.0], [1, -2], False), ([0.5, 3.0, 4.0], [0, 2], True), ([0.5, 3.0, 4.0], [0, -3], True),
        ([0.0, 1.0, 2.0], [0, 0], True), ([0.0, 1.0, 2.0], [-1, -1], True),
    ):  # fmt: skip
        answer, validity = result.module(torch.tensor(scores), torch.tensor(index))
        assert bool(validity.any()) == fails, (scores, index)
        if not fails:
            assert answer.tolist() == [4.0, 3.0]


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda table, x: x[x > 0].argmax(), "refuses it of nothing"),
        (lambda table, x: x * x.sum().item(), "depends on the data"),
        (lambda table, x: torch.unique(x), "depends on the data"),
    ],
)
def test_refused_is_what_eager_refuses_of_nothing(run: Callable[..., Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        specialised(run, torch.ones(3, 4))


def test_something_for_sure_may_be_taken_of() -> None:
    result = specialised(lambda table, x: torch.cat([x[x > 0], x.new_zeros(1)]).amax(), torch.ones(3, 4))
    assert result.module(-torch.ones(3, 4))[0] == 0


def test_a_changed_library_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "libmine.so"
    path.write_bytes(b"other code")
    with pytest.raises(operators.LibraryError, match="has changed since the server opened it"):
        operators.load({"mine": (path, "0" * 64)})
    with pytest.raises(operators.LibraryError, match="No such file"):
        operators.load({"mine": (tmp_path / "none.so", "0" * 64)})
