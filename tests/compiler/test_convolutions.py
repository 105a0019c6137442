"""Which convolutions go to oneDNN, and that none of them changes an answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from compiler.specialise.bucket_graph import Specialised, specialise

ONEDNN = torch.ops.mkldnn._convolution_pointwise.default
X = torch.randn(3, 16, 40, 40)
C, N = 16, 32


def norm(channels: int = N, **options: Any) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(channels, **options)
    made.running_mean.normal_()
    made.running_var.uniform_(0.5, 2)
    return made


def rewritten(model: nn.Module, x: torch.Tensor = X) -> tuple[Specialised, torch.Tensor, torch.Tensor]:
    """The graph, its answer with weights packed as the daemon binds them, and the model's."""
    made = specialise(torch.export.export(model.eval(), (x,)), {})
    with torch.no_grad():
        expected = model(x)
        for one in made.convolutions:
            *path, name = one.weight.split(".")
            owner = made.module.get_submodule(".".join(path))
            packed = one.pack(getattr(owner, name).detach())
            delattr(owner, name)
            owner.register_buffer(name, packed)
        return made, made.module(x)[0], expected


def calls(made: Specialised) -> int:
    return sum(node.target is ONEDNN for node in made.module.graph.nodes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": (3, 5), "stride": (2, 1), "padding": (1, 2)},
        {"kernel_size": 3, "dilation": 2, "groups": 4},
        {"kernel_size": 1, "padding": 1},
    ],
)
@pytest.mark.parametrize("then", ["nothing", "affine", "plain", "in place"])
def test_a_convolution_goes_there(bias: bool, options: dict[str, Any], then: str) -> None:
    layers = [nn.Conv2d(C, N, bias=bias, **options)]
    if then != "nothing":
        layers.append(norm(affine=then != "plain"))
    if then == "in place":  # by which the program has to be decomposed
        layers.append(nn.ReLU(inplace=True))
    made, got, expected = rewritten(nn.Sequential(*layers))
    assert calls(made) == 1 and len(made.convolutions) == 1
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("convolution", "x", "how"),
    [
        (nn.Conv1d(C, N, 5, stride=2, padding=3), X.flatten(2), ([2], [3], [1])),
        (nn.Conv1d(C, N, 5, dilation=2, groups=4), X.flatten(2), ([1], [0], [2])),
        (nn.Conv3d(C, N, (1, 3, 3), padding=(0, 1, 1)), X.unsqueeze(2), ([1, 1, 1], [0, 1, 1], [1, 1, 1])),
    ],
)
def test_of_other_dimensions(convolution: nn.Module, x: torch.Tensor, how: tuple[list[int], ...]) -> None:
    made, got, expected = rewritten(convolution, x)
    assert calls(made) == 1
    (one,) = made.convolutions
    assert (one.stride, one.padding, one.dilation) == how and one.input == list(x.shape)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


class Shared(nn.Module):
    """One norm behind two convolutions, one convolution in two places, and a result that is looked at twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.twice, self.seen = (nn.Conv2d(C, C, 3, padding=1) for _ in range(4))
        self.norm, self.other = norm(C), norm(C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.a(x)) + self.norm(self.b(x))
        z = self.seen(self.twice(self.twice(y)))
        return self.other(z) + z


def test_what_others_look_at_stays() -> None:
    made, got, expected = rewritten(Shared())
    assert [one.weight for one in made.convolutions] == ["a.weight", "b.weight", "seen.weight"]
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


class Flat(nn.Module):
    """Looks at the convolution's result, and at what is computed from it, as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(C, N, 3), nn.Linear(N * 38 * 38, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.convolution(x)
        return self.linear(y.view(x.shape[0], -1)) + self.linear(torch.relu(y).view(x.shape[0], -1))


def test_results_are_looked_at_as_other_shapes() -> None:
    made, got, expected = rewritten(Flat())
    assert calls(made) == 1
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


class Computed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, x[:1, :, :5, :5] * 2)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (nn.Conv2d(C, N, 3).double(), X.double()),
        (nn.ConvTranspose2d(C, N, 3), X),
        (nn.Conv2d(C, N, 3, padding="same", padding_mode="zeros"), X),
        (nn.Conv2d(C, N, 3), X[0]),
        (nn.Conv2d(C, 1, 1), X[:1, :, :4, :4]),
        (Computed(), X),
    ],
    ids=["float64", "transposed", "by word", "no batch", "small", "no weight"],
)
def test_what_does_not_fit_stays(model: nn.Module, x: torch.Tensor) -> None:
    made, got, expected = rewritten(model, x)
    assert made.convolutions == [] and calls(made) == 0
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_weights_are_the_same_in_all_buckets() -> None:
    """Whatever sizes a bucket has, height and width included; what they would be packed for are its own."""
    sizes = {0: torch.export.Dim("batch", min=1, max=64), 2: torch.export.Dim("high", min=32, max=512)}
    model = nn.Sequential(nn.Conv2d(C, N, 3, stride=2), norm(), nn.ReLU(), nn.Conv2d(N, N, 3)).eval()
    program = torch.export.export(model, (X,), dynamic_shapes=(sizes,))
    (x,) = (node for node in program.graph.nodes if node.name == "input")
    batch, high = str(x.meta["val"].shape[0]), str(x.meta["val"].shape[2])
    found = [specialise(program, chosen).convolutions for chosen in ({}, {batch: 1, high: 64}, {batch: 8, high: 500})]
    assert [[one.weight for one in each] for each in found] == [["0.weight", "3.weight"]] * 3
    assert [one.input for one in found[1]] == [[1, C, 64, 40], [1, N, 31, 19]]
    assert [one.input for one in found[2]] == [[8, C, 500, 40], [8, N, 249, 19]]
