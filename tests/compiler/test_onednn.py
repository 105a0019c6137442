"""Which products go to oneDNN, which can't, and that none of them changes an answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compiler.specialise import specialise

ONEDNN = torch.ops.mkldnn._linear_pointwise.default
LINEAR = torch.ops.aten.linear.default


class Transposed(nn.Module):
    """A weight that is bound as it lies: columns first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 6).t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight)


class Computed(nn.Module):
    """A weight that is no weight, but a result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, x[:3] * 2)


def targets(model: nn.Module, x: torch.Tensor) -> tuple[set[object], torch.Tensor, torch.Tensor]:
    """The products of the rewritten graph, its answer, and the model's."""
    program = torch.export.export(model.eval(), (x,))
    module = specialise(program, {}).module
    found = {node.target for node in module.graph.nodes if node.target in (ONEDNN, LINEAR)}
    with torch.no_grad():
        return found, module(x)[0], model(x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4, 8), (2, 3, 8), (1, 8), (2, 1, 3, 8)])
def test_a_linear_layer_goes_there(bias: bool, shape: tuple[int, ...]) -> None:
    found, got, expected = targets(nn.Linear(8, 6, bias=bias), torch.randn(shape))
    assert found == {ONEDNN}
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_an_operand_need_not_be_dense() -> None:
    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.transpose(0, 1)[:, :, ::2])

    found, got, expected = targets(Sliced(), torch.randn(3, 5, 8))
    assert found == {ONEDNN}
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (nn.Linear(8, 6).double(), torch.randn(4, 8, dtype=torch.float64)),
        (nn.Linear(8, 6).bfloat16(), torch.randn(4, 8, dtype=torch.bfloat16)),
        (nn.Linear(8, 6), torch.randn(8)),
        (Transposed(), torch.randn(4, 8)),
        (Computed(), torch.randn(4, 8)),
    ],
    ids=["float64", "bfloat16", "a vector", "a transposed weight", "a computed weight"],
)
def test_what_stays_where_it_was(model: nn.Module, x: torch.Tensor) -> None:
    found, got, expected = targets(model, x)
    assert ONEDNN not in found
    torch.testing.assert_close(got, expected)
