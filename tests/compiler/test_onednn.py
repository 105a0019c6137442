"""Which products go to oneDNN, which can't, and that none of them changes an answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compiler.guards import rules
from compiler.specialise.bucket_graph import specialise

ONEDNN = torch.ops.mkldnn._linear_pointwise.default
LINEAR = torch.ops.aten.linear.default


K, N = 256, 320


class Transposed(nn.Module):
    """A weight that is bound as it lies: columns first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(K, N).t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight)


class Computed(nn.Module):
    """A weight that is no weight, but a result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, x[:30] * 2)


def targets(model: nn.Module, x: torch.Tensor) -> tuple[set[object], torch.Tensor, torch.Tensor]:
    """The products of the rewritten graph, its answer, and the model's."""
    program = torch.export.export(model.eval(), (x,))
    module = specialise(program, {}).module
    found = {node.target for node in module.graph.nodes if node.target in (ONEDNN, LINEAR)}
    with torch.no_grad():
        return found, module(x)[0], model(x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40, K), (4, 10, K), (1, 2, 20, K)])
def test_a_linear_layer_goes_there(bias: bool, shape: tuple[int, ...]) -> None:
    found, got, expected = targets(nn.Linear(K, N, bias=bias), torch.randn(shape))
    assert found == {ONEDNN}
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_an_operand_need_not_be_dense() -> None:
    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(K, N)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.transpose(0, 1)[:, :, ::2])

    found, got, expected = targets(Sliced(), torch.randn(8, 5, 2 * K))
    assert found == {ONEDNN}
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_a_program_that_must_be_decomposed_keeps_its_layers() -> None:
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(K, N)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(nn.functional.pad(x, (0, 0, 1, 1)))

    program = torch.export.export(Padded().eval(), (torch.randn(40, K),))
    assert rules.needs_decomposing(program.graph)  # by aten.pad
    assert specialise(program, {}).packed == ["layer.weight"]


def test_the_bucket_decides_what_is_worth_it() -> None:
    """One program, two buckets: the product of the larger one goes there."""
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(nn.Linear(K, N).eval(), (torch.randn(4, K),), dynamic_shapes=({0: batch},))
    (symbol,) = (str(symbol) for symbol in program.range_constraints)
    for size, target in ((1, LINEAR), (64, ONEDNN)):
        module = specialise(program, {symbol: size}).module
        assert target in {node.target for node in module.graph.nodes}


class Tied(nn.Module):
    """Three layers; of the first two weights each is also something else."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = nn.Linear(K, K)
        self.table = nn.Embedding(K, K)
        self.tied = nn.Linear(K, K)
        self.tied.weight = self.table.weight
        self.alone = nn.Linear(K, K)
        self.twice = nn.Linear(K, K)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y = self.alone(self.tied(self.looked_at(x))) + self.looked_at.weight.sum() + self.table(ids).sum()
        return self.twice(self.twice(y))


def test_weights_that_nothing_else_looks_at_are_packed() -> None:
    inputs = (torch.randn(40, K), torch.ones(3, dtype=torch.int64))
    result = specialise(torch.export.export(Tied().eval(), inputs), {})
    assert sum(node.target is ONEDNN for node in result.module.graph.nodes) == 5
    assert result.packed == ["alone.weight", "twice.weight"]


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (nn.Linear(K, N).double(), torch.randn(40, K, dtype=torch.float64)),
        (nn.Linear(K, N).bfloat16(), torch.randn(40, K, dtype=torch.bfloat16)),
        (nn.Linear(K, 40 * N), torch.randn(K)),
        (Transposed(), torch.randn(40, K)),
        (Computed(), torch.randn(400, K)),
        (nn.Linear(16, 32), torch.randn(8, 16)),
    ],
    ids=["float64", "bfloat16", "a vector", "a transposed weight", "a computed weight", "a small product"],
)
def test_what_stays_where_it_was(model: nn.Module, x: torch.Tensor) -> None:
    found, got, expected = targets(model, x)
    assert ONEDNN not in found
    torch.testing.assert_close(got, expected)


def test_in_bfloat16_weights_are_rounded_and_sums_are_not() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(40, K), torch.ones(3, dtype=torch.int64))
    model = Tied().eval()
    result = specialise(torch.export.export(model, inputs), {}, precision="bfloat16")
    assert result.packed_as == "bfloat16" and result.packed == ["alone.weight", "twice.weight"]
    layers = [node for node in result.module.graph.nodes if node.target is ONEDNN]
    rounded = [node for node in layers if node.args[1].target in result.packed]
    assert len(layers) == 5 and len(rounded) == 3
    # What else looks at a weight sees all of its bits.
    assert result.module.get_parameter("tied.weight").dtype == torch.float32
    with torch.no_grad():
        got, expected = result.module(*inputs)[0], model(*inputs)
    assert got.dtype == torch.float32
    difference = (got - expected).abs().max() / expected.abs().max()
    assert 1e-5 < difference < 2e-2, difference


def test_a_bias_is_added_in_float32() -> None:
    torch.manual_seed(0)
    model = nn.Linear(K, N).eval()
    model.bias.data.fill_(1 + 2**-12)  # bfloat16 has no such number
    model.weight.data.zero_()
    result = specialise(torch.export.export(model, (torch.randn(40, K),)), {}, precision="bfloat16")
    with torch.no_grad():
        assert (result.module(torch.randn(40, K))[0] == 1 + 2**-12).all()
