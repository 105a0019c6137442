"""What the rewrite guards, whom it blames, and what it refuses, seen on graphs that are not compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from compiler.guards import proof, rules
from compiler.guards.insertion import LAST_BIT
from compiler.guards.refused import Refused
from compiler.specialise.bucket_graph import Specialised, specialise
from tests.compiler.conftest import ROOT

TABLE = torch.arange(40.0).reshape(10, 4)


class Program(torch.nn.Module):
    """A function of its inputs and a table of weights."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(TABLE.clone())
        self.run = run

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self.table, *inputs)


def exported(run: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = True) -> Any:
    """The program with a dynamic batch, exported from the given inputs."""
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = (tuple({0: batch} for _ in inputs),) if dynamic else None
    return torch.export.export(Program(run).eval(), inputs, dynamic_shapes=shapes)


def specialised(run: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = True) -> Specialised:
    program = exported(run, *inputs, dynamic=dynamic)
    return specialise(program, {})


def validity(result: Specialised, *inputs: torch.Tensor) -> list[int]:
    """The validity that the rewritten graph, run eagerly, reports."""
    with torch.no_grad():
        outputs = result.module(*inputs)
    assert len(outputs) == result.outputs + 1
    return outputs[-1].tolist()


def integers(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def spoiled(tensor: torch.Tensor, *place: int, value: int = 99) -> torch.Tensor:
    changed = tensor.clone()
    changed[place] = value
    return changed


def test_a_guard_says_what_was_expected_of_which_input() -> None:
    result = specialised(lambda t, i: functional.embedding((i + 1).to(torch.int32), t), integers(3, 5))
    message = "index out of range, expected 0 <= index < 10"
    assert [(g["bit"], g["operator"], g["message"]) for g in result.guards] == [
        (0, "aten.embedding.default", message)
    ]
    assert result.guards[0]["input"] == result.inputs[0]["name"]


def test_an_index_made_of_two_inputs_blames_neither() -> None:
    result = specialised(lambda t, i, j: functional.embedding(i + j, t), integers(3, 5), integers(3, 5))
    assert result.guards[0]["input"] is None
    assert validity(result, integers(3, 5), spoiled(integers(3, 5), 1, 4)) == [0, 1, 0]


def test_sizes_are_no_values() -> None:
    """A shape taken from an input does not make the input the origin of the index."""
    result = specialised(
        lambda t, x, i: functional.embedding(i.expand(x.shape[0], -1), t), torch.ones(3, 2), integers(3, 5)
    )
    assert result.guards[0]["input"] == result.inputs[1]["name"]


ROWS: list[tuple[str, Callable[..., Any], list[int]]] = [
    ("alone", lambda t, i: t[i], [0, 1, 0]),
    ("merged", lambda t, i: t[i.reshape(-1)], [0, 1, 0]),
    ("merged and changed", lambda t, i: t[(i.reshape(-1) - 1).clone()], [0, 1, 0]),
    ("transposed", lambda t, i: t[i.T], [0, 1, 0]),
    ("merged both ways", lambda t, i: t[i.T.reshape(-1) * 0 + i.reshape(-1)], [1, 1, 1]),
    ("merged the other way", lambda t, i: t[i.T.reshape(-1)], [1, 1, 1]),
    ("mixed", lambda t, i: t[i.sum(0)], [1, 1, 1]),
    ("square", lambda t, i: t[i[:, :1] + i[:, 0]], [1, 1, 1]),
]


@pytest.mark.parametrize(("run", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows_are_told_apart_only_where_that_is_certain(run: Any, expected: list[int]) -> None:
    result = specialised(run, integers(3, 5))
    assert validity(result, integers(3, 5)) == [0, 0, 0]
    assert validity(result, spoiled(integers(3, 5), 1, 0)) == expected


def test_a_static_program_has_one_element_for_all() -> None:
    result = specialised(lambda t, i: t[i], integers(3, 5), dynamic=False)
    assert validity(result, spoiled(integers(3, 5), 1, 4)) == [1]


def test_inputs_without_a_common_batch_have_one_element_for_all() -> None:
    dims = torch.export.Dim("a", min=2, max=9), torch.export.Dim("b", min=2, max=9)
    program = torch.export.export(
        Program(lambda t, i, j: t[i].sum() + t[j].sum()),
        (integers(3), integers(4)),
        dynamic_shapes=(({0: dims[0]}, {0: dims[1]}),),
    )
    assert validity(specialise(program, {}), integers(3), spoiled(integers(4), 0)) == [2]


FREE: list[tuple[str, Callable[..., Any]]] = [
    ("iota", lambda t, i: t[torch.arange(4)].sum() + i),
    ("clamped by the author", lambda t, i: t[i.clamp(0, 9)]),
    ("remainder", lambda t, i: t[i % 10]),
    ("position of the largest", lambda t, i: i.gather(1, i.argmax(1, keepdim=True))),
    ("position in the order", lambda t, i: i.gather(1, i.sort(1)[1])),
    ("rows counted", lambda t, i: i[torch.arange(i.shape[0])]),
    ("bytes", lambda t, i: i // 3 + i % 7),
    ("division by a size", lambda t, i: i // i.shape[0]),
    ("float division", lambda t, i: i / i + torch.div(i.float(), 0.5, rounding_mode="floor")),
]


@pytest.mark.parametrize("run", [row[1] for row in FREE], ids=[row[0] for row in FREE])
def test_what_can_not_fail_costs_nothing(run: Any) -> None:
    result = specialised(run, integers(3, 5))
    assert result.guards == []
    assert len(result.module(integers(3, 5))) == result.outputs


def test_the_content_of_weights_proves_nothing() -> None:
    """They can be replaced without a compile: a buffer of positions is guarded."""

    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("positions", torch.arange(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, self.positions]

    batch = torch.export.Dim("batch", min=2, max=64)
    result = specialise(
        torch.export.export(Positions(), (torch.ones(3, 5),), dynamic_shapes=({0: batch},)), {}
    )
    assert [guard["input"] for guard in result.guards] == [None]
    assert validity(result, torch.ones(3, 5)) == [0, 0, 0]
    result.module.positions.fill_(77)
    assert validity(result, torch.ones(3, 5)) == [1, 1, 1]


WRAPPING: list[tuple[str, Callable[..., Any]]] = [
    ("sum of bytes", lambda t, i: t.repeat(50, 1).gather(0, (i.to(torch.int8) + 100).long()[:, :4])),
    ("sign", lambda t, i: t.repeat(50, 1).gather(0, i.to(torch.uint8).to(torch.int8).long()[:, :4])),
    ("bits", lambda t, i: t.gather(0, i.clamp(0, 9).view(torch.int32).long()[:, :4])),
    ("narrowed", lambda t, i: t.gather(0, i.clamp(0, 9).mul(2**31).to(torch.int32).long()[:, :4])),
]


@pytest.mark.parametrize("run", [row[1] for row in WRAPPING], ids=[row[0] for row in WRAPPING])
def test_arithmetic_that_may_wrap_around_proves_nothing(run: Any) -> None:
    assert len(specialised(run, integers(3, 5)).guards) == 1


def test_the_same_look_at_the_same_index_is_guarded_once() -> None:
    result = specialised(
        lambda t, i: functional.embedding(i, t) + functional.embedding(i, t * 2), integers(3, 5)
    )
    assert len(result.guards) == 1


def test_guards_beyond_the_last_bit_share_it() -> None:
    def run(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return sum(table[: 3 + k % 7, 0].clone()[i + k] for k in range(70))

    result = specialised(run, integers(3, 5) - 60)
    assert [guard["bit"] for guard in result.guards] == list(range(LAST_BIT + 1))
    assert "one of 8 guards" in result.guards[-1]["message"]
    reported = validity(result, integers(3, 5) * 1000)
    assert reported == [(1 << (LAST_BIT + 1)) - 1] * 3


def test_divisions_keep_eagers_answers() -> None:
    smallest = torch.iinfo(torch.int64).min
    values = torch.tensor([[smallest, 7, -7, 0, 9]] * 3)
    divisors = torch.tensor([[-1, -1, 2, 5, -4]] * 3)
    result = specialised(lambda t, a, b: (a // b, a % b, torch.fmod(a, b)), values, divisors)
    outputs = result.module(values, divisors)
    expected = (values // divisors, values % divisors, torch.fmod(values, divisors))
    assert all(torch.equal(got, want) for got, want in zip(outputs, expected, strict=False))
    assert validity(result, values, spoiled(divisors, 2, 3, value=0)) == [0, 0, 1]


def test_lcm_does_not_divide_by_the_gcd_of_zeros() -> None:
    a, b = torch.tensor([[0, 4, 0]] * 3), torch.tensor([[0, 6, 5]] * 3)
    result = specialised(lambda t, a, b: torch.lcm(a, b), a, b)
    assert result.guards == []
    assert torch.equal(result.module(a, b)[0], torch.lcm(a, b))


def test_constant_divisors() -> None:
    result = specialised(lambda t, i: (i // -1, i % -1, i // 3), integers(3, 5))
    assert result.guards == []
    outputs = result.module(integers(3, 5))
    assert [output[0, 0].item() for output in outputs] == [-1, 0, 0]


def test_bags_must_begin_in_order_and_inside() -> None:
    program = torch.export.export(
        Program(lambda t, i, o: functional.embedding_bag(i, t, o, mode="sum")),
        (integers(6), torch.tensor([0, 2, 4])),
    )
    result = specialise(program, {})
    good = torch.tensor([0, 2, 6])
    assert validity(result, integers(6), good) == [0]
    for offsets in ([1, 2, 3], [0, 4, 2], [0, 2, 7], [0, -1, 3]):
        assert validity(result, integers(6), torch.tensor(offsets)) == [2], offsets
    assert validity(result, spoiled(integers(6), 3), good) == [1]


REFUSED: list[tuple[str, Callable[..., Any], str]] = [
    ("division by zero", lambda t, i: i // 0, "divides by the constant 0"),
    ("mask", lambda t, i: t.index_put((t > 3,), t[t > 3] * 2), "depends on the data"),
    ("item", lambda t, i: t * i.sum().item(), "depends on the data"),
]


@pytest.mark.parametrize(("run", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_can_not_be_made_safe_is_refused(run: Any, said: str) -> None:
    with pytest.raises(Refused, match=said):
        specialised(run, integers(3, 5))


def test_a_program_that_changes_its_buffers_is_refused() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    program = torch.export.export(Counter(), (torch.zeros(2),))
    for form in (program, program.run_decompositions()):
        with pytest.raises(Refused, match="changes its buffers.*count"):
            specialise(form, {})


def test_a_branch_that_would_need_a_guard_is_refused() -> None:
    def run(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.cond(i.sum() > 0, lambda i: table[i], lambda i: table[i] + 1, (i,))

    with pytest.raises(Refused, match="index.Tensor.*can't be guarded in a branch"):
        specialised(run, integers(3, 5))


def test_loops_are_refused() -> None:
    def run(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        def more(i: torch.Tensor) -> torch.Tensor:
            return i.sum() < 100

        return torch.while_loop(more, lambda i: (i + 1,), (i,))[0]

    with pytest.raises(Refused, match="control flow other than torch.cond"):
        specialised(run, integers(3, 5))


def test_branches_without_guards_are_taken() -> None:
    """Outside of them guards are put in as ever."""

    def run(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        found = table[i]
        return torch.cond(i.sum() > 15, lambda x: x / 2, lambda x: x.softmax(-1), (found,))

    result = specialised(run, integers(3, 5))
    assert [guard["operator"] for guard in result.guards] == ["aten.index.Tensor"]
    for i in (integers(3, 5), integers(3, 5) * 2):
        torch.testing.assert_close(result.module(i)[0], run(TABLE, i))
    assert validity(result, spoiled(integers(3, 5), 1, 2)) == [0, 1, 0]


def test_outputs_own_their_memory() -> None:
    result = specialised(lambda t, i: (i, t[:2], i.view(-1, 5)), integers(3, 5))
    given = integers(3, 5)
    weights = result.module.table
    for output, source in zip(result.module(given), (given, weights, given), strict=True):
        assert output.untyped_storage().data_ptr() != source.untyped_storage().data_ptr()


UNPROVED: list[tuple[str, Callable[..., Any]]] = [
    ("embedding", lambda t, i: functional.embedding(i, t)),
    ("index", lambda t, i: t[i]),
    ("gather", lambda t, i: t.gather(0, i[:, :4])),
    ("scatter", lambda t, i: t.scatter(0, i[:, :4], 1.0)),
    ("clamped too wide", lambda t, i: t[i.clamp(0, 10)]),
    ("clamped below", lambda t, i: t.gather(0, i[:, :4].clamp(-1, 9))),
    ("remainder", lambda t, i: 5 % i),
    ("only zero replaced", lambda t, i: 5 // torch.where(i == 0, 1, i)),
    ("replaced by zero", lambda t, i: 5 // torch.where((i == 0) | (i == -1), 0, i)),
    ("another replaced", lambda t, i: 5 // torch.where((i + 1 == 0) | (i + 1 == -1), 1, i)),
]


@pytest.mark.parametrize("run", [row[1] for row in UNPROVED], ids=[row[0] for row in UNPROVED])
def test_an_unguarded_graph_is_not_proved(run: Any) -> None:
    program = exported(run, integers(3, 5)).run_decompositions(rules.decompositions())
    with pytest.raises(Refused, match="was not proved"):
        proof.prove(program.graph)
    proof.prove(specialise(exported(run, integers(3, 5)), {}).module.graph)


def test_an_input_may_be_called_like_an_operator() -> None:
    class Named(torch.nn.Module):
        def forward(self, table: torch.Tensor, clamp: torch.Tensor) -> torch.Tensor:
            return table[clamp]

    inputs = (TABLE, torch.ones(3, dtype=torch.int64))
    result = specialise(torch.export.export(Named(), inputs), {})
    assert [guard["input"] for guard in result.guards] == ["clamp"]
    proof.prove(result.module.graph)


def test_a_branch_is_not_proved_by_what_is_outside_of_it() -> None:
    def run(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.cond(i.sum() > 0, lambda i: table[i], lambda i: table[i] + 1, (i.clamp(0, 9),))

    program = exported(run, integers(3, 5)).run_decompositions(rules.decompositions())
    with pytest.raises(Refused, match="was not proved"):
        proof.prove(program.graph)


def test_pooling_decomposes_in_a_process_that_has_compiled_nothing() -> None:
    """Inductor's rule for it relies on a module that nothing may have imported yet."""
    source = (
        "import torch; from compiler.guards.rules import decompositions; "
        "pool = torch.nn.MaxPool2d(3, 2, 1); image = torch.ones(1, 1, 8, 8); "
        "torch.export.export(pool, (image,)).run_decompositions(decompositions())"
    )
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True, capture_output=True)
