"""The operator's own passes: what they may do, and what becomes of those that do more."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

from compiler.guards.refused import Refused
from compiler.specialise import passes
from compiler.specialise.bucket_graph import Specialised, specialise

DOUBLE_RELU = """
    import torch

    def apply(graph):
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.relu.default:
                with graph.inserting_after(node):
                    twice = graph.call_function(torch.ops.aten.mul.Tensor, (node, 2.0))
                node.replace_all_uses_with(twice, delete_user_cb=lambda user: user is not twice)
"""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.table = nn.Embedding(5, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(self.table(ids)))


def load(folder: Path, source: str) -> passes.Passes:
    file = folder / "passes.py"
    file.write_text(textwrap.dedent(source))
    return passes.load(file, hashlib.sha256(file.read_bytes()).hexdigest())


def specialised(change: passes.Passes) -> Specialised:
    batch = Dim("batch", min=1, max=8)
    program = torch.export.export(Model().eval(), (torch.ones(2, 3, dtype=torch.long),), dynamic_shapes=({0: batch},))
    (symbol,) = (str(symbol) for symbol in program.range_constraints)
    return specialise(program, {symbol: 2}, change)


def test_a_pass_changes_the_graph_before_the_guards(tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = specialised(load(tmp_path, DOUBLE_RELU))
    torch.manual_seed(0)
    ids = torch.tensor([[1, 2, 0], [4, 4, 3]])
    with torch.no_grad():
        got, validity = result.module(ids)
        torch.testing.assert_close(got, 2 * Model()(ids))
    assert (validity == 0).all()
    assert [guard["operator"] for guard in result.guards] == ["aten.embedding.default"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def apply(graph):\n    1 / 0", "apply failed: ZeroDivisionError: division by zero"),
        ("def apply(graph):\n    graph.erase_node(next(iter(graph.nodes)))", "apply failed: RuntimeError"),
        (
            """
            def apply(graph):
                output = next(iter(reversed(graph.nodes)))
                with graph.inserting_before(output):
                    added = graph.get_attr("somewhere.else")
                output.args = ((added,),)
            """,
            "apply failed",
        ),
        (
            """
            import torch

            def apply(graph):
                output = next(iter(reversed(graph.nodes)))
                with graph.inserting_before(output):
                    half = graph.call_function(torch.ops.aten._to_copy.default, output.args[0], {"dtype": torch.half})
                output.args = ((half,),)
            """,
            r"apply changed inputs or outputs: expected .*float32.*, got .*float16",
        ),
    ],
    ids=["fails", "breaks the graph", "adds a constant", "changes the output"],
)
def test_what_a_pass_may_not_do(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        specialised(load(tmp_path, source))
    assert str(tmp_path / "passes.py") in str(refused.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def apply(graph)", "SyntaxError"),
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("apply = 3", "expected a function apply"),
    ],
)
def test_files_that_hold_no_passes(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, source)


def test_a_file_that_was_changed_since_the_key_was_made(tmp_path: Path) -> None:
    file = tmp_path / "passes.py"
    file.write_text("def apply(graph): ...")
    with pytest.raises(ValueError, match="expected the file of digest 0123456789ab, got .*: it was changed"):
        passes.load(file, "0123456789ab" + "0" * 52)
