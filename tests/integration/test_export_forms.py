"""Proves that whatever torch.export.save writes serves, by eager and compiled, or is refused in one line that says what
is in the way: the ways of giving values, of naming sizes, and the kinds of tensors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.export import Dim

from tests.integration.daemon import Daemon
from tests.integration.test_bad_models import index
from tests.integration.wire import assert_same, raw_request, read, refusal, stub

BATCH, ROWS = Dim("batch", min=1, max=16), Dim("rows", min=1, max=16)


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 32).view(4, 8).T)  # not contiguous
        self.register_buffer("steps", torch.arange(4.0), persistent=False)


def module(function: Callable[..., Any]) -> nn.Module:
    """A function as the forward of a module."""
    made: nn.Module = type("Form", (Base,), {"forward": function})()
    return made


@dataclass
class Pair:
    left: Tensor
    right: Tensor


torch.export.register_dataclass(Pair, serialized_type_name="tests.FormsPair")


@dataclass(frozen=True)
class Form:
    """A program, and requests for it: names → tensors. `args` are what it is exported with."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    shapes: Any
    requests: list[dict[str, Tensor]]
    # From a request's tensors to the arguments that they stand for.
    call: Callable[..., tuple[Any, ...]] = lambda *tensors: tensors
    compiles: bool = True
    strict: bool = False
    # Compiled code of it would show nothing that another form's doesn't.
    plain: bool = False


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def doubled_rows(self: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {"z": torch.tanh(x.repeat(2, 1)) + y}


def eights(self: nn.Module, image: Tensor) -> Tensor:
    return nn.functional.avg_pool2d(torch.tanh(image), 8)


def one_more(self: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(torch.cat([x, x[:1]])) * y


def baked(self: nn.Module, mask: Tensor | None, x: Tensor, by: float, how: str, flag: bool) -> dict[str, Any]:
    return {"cache": None, "y": torch.tanh(x if mask is None else x * mask) * by if how == "add" and flag else x}


def nested(self: nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    return {"out": [torch.tanh(given["a"]) + given["b"][0], (given["b"][1] * 2,)]}


FORMS: dict[str, Form] = {
    "derived": Form(doubled_rows, (rows(3, 4), rows(6, 4)), ({0: BATCH}, {0: 2 * BATCH}),
                    [{"x": rows(n, 4), "y": rows(2 * n, 4)} for n in (1, 5, 16)]),
    "eights": Form(eights, (rows(2, 3, 16, 24),), ({0: BATCH, 2: 8 * Dim("high", max=6), 3: 8 * Dim("wide", max=6)},),
                   [{"image": rows(n, 3, 8 * n, 16)} for n in (2, 3)]),
    "one_more": Form(one_more, (rows(3, 4), rows(4, 4)), ({0: BATCH}, {0: BATCH + 1}),
                     [{"x": rows(n, 4), "y": rows(n + 1, 4)} for n in (1, 5)]),
    "baked": Form(baked, (None, rows(3, 4), 2.5, "add", True), (None, {0: BATCH}, None, None, None),
                  [{"x": rows(n, 4)} for n in (1, 5)], call=lambda x: (None, x, 2.5, "add", True)),
    "auto": Form(lambda self, x: x @ self.weight.T, (rows(2, 4),), ({0: Dim.AUTO},), [{"x": rows(7, 4)}], plain=True),
    "unbounded": Form(lambda self, x: x @ self.weight.T, (rows(2, 4),), ({0: Dim("any")},), [{"x": rows(7, 4)}],
                      plain=True),
    "two_batches": Form(lambda self, x, y: {"x": torch.tanh(x), "y": torch.sin(y), "xy": x @ y.T},
                        (rows(3, 4), rows(5, 4)), ({0: BATCH}, {0: ROWS}),
                        [{"x": rows(2, 4), "y": rows(9, 4)}]),
    "second_axis": Form(lambda self, x: torch.tanh(x), (rows(5, 3, 4),), ({1: BATCH},), [{"x": rows(5, 7, 4)}],
                        plain=True),
    "fixed": Form(lambda self, x: torch.tanh(x) + self.steps, (rows(3, 4),), None, [{"x": rows(3, 4)}]),
    "nested": Form(nested, ({"a": rows(3, 4), "b": (rows(3, 4), rows(3, 2))},),
                   ({"a": {0: BATCH}, "b": ({0: BATCH}, {0: BATCH})},),
                   [{"given_a": rows(2, 4), "given_b_0": rows(2, 4), "given_b_1": rows(2, 2)}],
                   call=lambda a, left, right: ({"a": a, "b": (left, right)},)),
    "dataclass": Form(lambda self, pair: torch.tanh(pair.left) + pair.right, (Pair(rows(3, 4), rows(3, 4)),),
                      ([{0: BATCH}, {0: BATCH}],), [{"pair_left": rows(2, 4), "pair_right": rows(2, 4)}],
                      call=lambda left, right: (Pair(left, right),), plain=True),
    "no_inputs": Form(lambda self: self.weight * 2, (), None, [{}], plain=True),
    "unused_input": Form(lambda self, x, unused: torch.tanh(x), (rows(3, 4), rows(3, 2)), ({0: BATCH}, {0: BATCH}),
                         [{"x": rows(5, 4), "unused": rows(5, 2)}]),
    "zero_dimensional": Form(lambda self, x, by: (torch.tanh(x) * by, x.sum()), (rows(3, 4), torch.tensor(2.0)),
                             ({0: BATCH}, None), [{"x": rows(5, 4), "by": torch.tensor(3.0)}]),
    "empty": Form(lambda self, x, none: (torch.cat([torch.tanh(x), none], 1), x[:, :0]), (rows(3, 4), rows(3, 0)), None,
                  [{"x": rows(3, 4), "none": rows(3, 0)}]),
    "views": Form(lambda self, x: (x, x.T, x.view(-1), self.weight, torch.tanh(x)), (rows(3, 4),), ({0: BATCH},),
                  [{"x": rows(5, 4)}]),
    "same_twice": Form(lambda self, x: (y := torch.tanh(x), y), (rows(3, 4),), ({0: BATCH},), [{"x": rows(5, 4)}],
                       plain=True),
    "unsigned": Form(lambda self, x: x.to(torch.float32) * 2, (torch.ones(3, 4, dtype=torch.uint8),), ({0: BATCH},),
                     [{"x": torch.arange(20, dtype=torch.uint8).view(5, 4)}], plain=True),
    "complex_inside": Form(lambda self, x: torch.fft.rfft(x).abs(), (rows(3, 8),), ({0: BATCH},), [{"x": rows(5, 8)}]),
    "strict": Form(lambda self, x: torch.tanh(x) + self.steps, (rows(3, 4),), ({0: BATCH},), [{"x": rows(5, 4)}],
                   strict=True, plain=True),
    "as_the_values_are": Form(lambda self, x: x[x > 0], (rows(3, 4),), ({0: BATCH},), [{"x": rows(5, 4)}],
                              compiles=False),
    "loop": Form(lambda self, x: torch._higher_order_ops.while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, x * 2),
                                                                    (torch.tensor(0), x))[1],
                 (rows(3, 4),), ({0: BATCH},), [{"x": rows(5, 4)}], compiles=False),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forms")
    for name, form in FORMS.items():
        program = torch.export.export(
            module(form.function), form.args, dynamic_shapes=form.shapes, strict=form.strict
        )
        (root / name / "1").mkdir(parents=True)
        torch.export.save(program, root / name / "1/model.pt2")
        # Only how values come and go is looked at: one bucket is enough.
        compiled = "false" if form.plain else "{dynamic: only}" if form.shapes else "true"
        (root / name / "model.yaml").write_text(f"compile: {compiled}\n")
    return root


@pytest.fixture(scope="module", params=["eager", "compiled"])
def daemon(
    request: pytest.FixtureRequest, models: Path, kept: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("serving")
    cache, flag = {
        "eager": (folder / "no-cache", "--no-compile"),
        "compiled": (kept / "kernels", "--no-promotion-checks"),  # whether such small code is worth it is not asked
    }[request.param]
    with Daemon(models, cache, folder / "stokerd.log", flag) as daemon:
        daemon.wait_ready()
        yield daemon


@pytest.fixture(scope="module")
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.address) as channel:
        yield channel


def by_eager(daemon: Daemon, name: str) -> float:
    return daemon.metric("stoker_tier_requests_total", model=name, tier="eager")


@pytest.mark.parametrize("name", FORMS)
def test_answers_are_those_of_the_module(
    daemon: Daemon, channel: grpc.Channel, name: str, request: pytest.FixtureRequest
) -> None:
    form = FORMS[name]
    for asked in form.requests:
        wanted = module(form.function)(*form.call(*asked.values()))
        answer = read(stub(channel).ModelInfer(raw_request(name, asked)))
        leaves = [leaf for leaf in pytree.tree_leaves(wanted) if leaf is not None]
        assert_same(answer, dict(zip(answer, leaves, strict=True)))
    compiled = request.node.callspec.params["daemon"] == "compiled" and form.compiles and not form.plain
    assert by_eager(daemon, name) == (0 if compiled else len(form.requests)), daemon.log()


@pytest.mark.parametrize(
    ("name", "sizes", "wanted"),
    [
        ("derived", [(3, 4), (5, 4)], "axis 0 must be 6 here"),
        ("eights", [(2, 3, 20, 16)], "axis 2 must be a multiple of 8"),
        ("one_more", [(3, 4), (3, 4)], "axis 0 must be 4 here"),
    ],
)
def test_sizes_that_do_not_fit(
    daemon: Daemon, channel: grpc.Channel, name: str, sizes: list[tuple[int, ...]], wanted: str
) -> None:
    given = {key: rows(*size) for key, size in zip(FORMS[name].requests[0], sizes, strict=True)}
    error = refusal(lambda: stub(channel).ModelInfer(raw_request(name, given)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert wanted in error.details()


COMPLEX, FLOAT8 = torch.complex64, torch.float8_e4m3fn
NO_DTYPE = "expected a dtype that the inference protocol has (no complex numbers, no 8-bit floating point)"
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "complex_input": (lambda self, x: x.abs(), (rows(3, 4).to(COMPLEX),), NO_DTYPE),
    "complex_output": (lambda self, x: torch.fft.rfft(x), (rows(3, 4),), NO_DTYPE),
    "float8": (lambda self, x: x.to(torch.float32), (rows(3, 4).to(FLOAT8),), NO_DTYPE),
    "sparse": (lambda self, x: x.to_dense() * 2, (torch.eye(3).to_sparse(),), "expected a dense layout"),
    "text": (lambda self, x: {"y": x * 2, "name": "me"}, (rows(3, 4),), "expected a tensor output, got as_string"),
    "number": (lambda self, x: (x * 2, 7), (rows(3, 4),), "expected a tensor output, got as_int"),
    "strides": (lambda self, x: x * 2, (rows(4, 3).T,), "expected input x to be contiguous (export with contiguous"),
}  # fmt: skip


def test_refused_in_one_line(tmp_path: Path, models: Path, start: Callable[..., Daemon]) -> None:
    shutil.copytree(models / "fixed", tmp_path / "models/fixed")  # one that serves all the same
    for name, (function, args, _) in REFUSED.items():
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        torch.export.save(torch.export.export(module(function), args), tmp_path / "models" / name / "1/model.pt2")
    with start(tmp_path / "models", "--no-compile") as daemon:
        daemon.wait_ready()
        for name, (_, _, wanted) in REFUSED.items():
            state, reason = index(daemon)[name]
            assert state == "UNAVAILABLE"
            assert wanted in reason and f"{name}/1/model.pt2" in reason and "\n" not in reason, reason
