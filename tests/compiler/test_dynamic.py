"""Programs compiled with dynamic dimensions: the sizes that their code holds for, and their answers there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from compiler.guards.refused import Refused
from compiler.specialise import dynamic
from compiler.specialise.bucket_graph import specialise
from tests.compiler.conftest import Compiler


class Sentences(torch.nn.Module):
    """An embedding, attention's softmax and a linear layer, over two dynamic dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 64)
        self.layer = torch.nn.Linear(64, 1024)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        x = torch.softmax(x @ x.transpose(1, 2), dim=-1) @ x
        return torch.relu(self.layer(x)).mean(dim=1)


@pytest.fixture(scope="module")
def sentences(compiler: Compiler) -> tuple[Any, Any]:
    """The program, and its artifact for any batch and any length."""
    torch.manual_seed(0)
    dims = {0: Dim("batch", min=1, max=32), 1: Dim("tokens", min=1, max=128)}
    program = torch.export.export(Sentences().eval(), (torch.zeros(3, 7, dtype=torch.int64),), dynamic_shapes=(dims,))
    return program, compiler.compile(compiler.save(program), {})


def test_one_artifact_answers_every_size_as_eager_does(sentences: tuple[Any, Any]) -> None:
    program, artifact = sentences
    assert artifact.manifest["inputs"] == [
        {"name": "ids", "dtype": "int64", "shape": [-1, -1], "range": [[2, 32], [2, 128]]}
    ]
    assert artifact.manifest["packed"] == ["layer.weight"]
    module = program.module()
    batches = [[torch.randint(0, 50, size)] for size in ((2, 2), (3, 17), (32, 2), (2, 128), (31, 127))]
    for (ids,), (answer, validity) in zip(batches, artifact.run(batches), strict=True):
        torch.testing.assert_close(answer, module(ids), rtol=3e-5, atol=3e-5)
        assert validity.tolist() == [0] * ids.shape[0]


def test_values_are_guarded_at_every_size(sentences: tuple[Any, Any]) -> None:
    _, artifact = sentences
    ids = torch.zeros(5, 9, dtype=torch.int64)
    ids[3, 8] = 50
    ((_, validity),) = artifact.run([[ids]])
    assert [row != 0 for row in validity.tolist()] == [False, False, False, True, False]


def test_a_dimension_may_be_left_dynamic_beside_one_that_is_fixed(compiler: Compiler, sentences: Any) -> None:
    program, artifact = sentences
    ids = next(node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name == "ids")
    one = compiler.compile(artifact.program, {str(ids.shape[0].node.expr): 1})
    assert one.manifest["inputs"][0]["range"] == [[1, 1], [2, 128]]
    ids = torch.randint(0, 50, (1, 77))
    ((answer, _),) = one.run([[ids]])
    torch.testing.assert_close(answer, program.module()(ids), rtol=3e-5, atol=3e-5)


def test_an_example_s_sizes_decide_nothing(sentences: tuple[Any, Any]) -> None:
    """The program is traced with sizes that are its own: 4 rows would be taken for 4 heads, say."""
    program, _ = sentences
    (fake,) = specialise(program, {}).fakes
    assert [size.node.hint for size in fake.shape] == [11, 17]


def symbolic(count: int = 1) -> list[torch.Tensor]:
    """Fake tensors of one dynamic dimension of 1 to 64 each."""
    dims = [{0: Dim(f"d{i}", min=1, max=64)} for i in range(count)]
    program = torch.export.export(
        Sums(), tuple(torch.zeros(7 + i) for i in range(count)), dynamic_shapes=(tuple(dims),)
    )
    return [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]


class Sums(torch.nn.Module):
    """Takes any number of tensors."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.sum() for x in tensors)


def test_a_decision_that_is_a_range_becomes_one() -> None:
    (fake,) = symbolic()
    assert fake.shape[0] > 2
    assert fake.shape[0] * 1024 < 2**31  # as who takes 32 bits for an index
    assert dynamic.ranges([fake, torch.empty(3)]) == [[[3, 64]], None]


def test_a_decision_that_holds_from_some_size_on_becomes_a_range() -> None:
    (fake,) = symbolic()
    assert 3 % fake.shape[0] == 3  # what isn't a bound, and means more than 3
    assert dynamic.ranges([fake]) == [[[4, 64]]]


def test_a_decision_that_is_no_range_refuses() -> None:
    (fake,) = symbolic()
    assert fake.shape[0] % 2 == 1
    with pytest.raises(Refused, match=r"holds only where .*Mod\(s\d+, 2\)"):
        dynamic.ranges([fake])


def test_a_dimension_that_became_one_size_refuses() -> None:
    (fake,) = symbolic()
    assert fake.shape[0] == 7
    with pytest.raises(Refused, match=r"holds only where s\d+ = 7"):
        dynamic.ranges([fake])


def test_two_dimensions_that_became_one_refuse() -> None:
    one, other = symbolic(2)
    assert one.shape[0] + 1 == other.shape[0]
    with pytest.raises(Refused, match=r"holds only where s\d+ = s\d+ [+-] 1"):
        dynamic.ranges([one, other])
