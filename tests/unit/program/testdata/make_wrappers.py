"""Writes wrappers.json: graphs that call graphs of their own, and what they are inlined to.

    PYTHONPATH=. python tests/unit/program/testdata/make_wrappers.py

Each case is what torch.export.save writes for a module below, cut down to the graph and its outputs.
The server's reader and the compiler's are held to the same file, and tests/compiler/test_wrappers.py
runs what the compiler's makes of the modules. Look at the difference before you commit a new one.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode

Forward = Callable[["Wrapped", Tensor], dict[str, Tensor]]


class Wrapped(nn.Module):
    """[batch, 4] → what `body` makes of it."""

    def __init__(self, body: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.body = body

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return self.body(self, x)


def two_results(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """Results in another order than they are made in; one of them is the program's, too."""
    y = self.first(x)
    with torch.no_grad():
        doubled = y * 2
        added = doubled + x
    return {"added": added * 1.5, "doubled": doubled}


def sizes(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """A size goes in, one comes out."""
    rows = x.shape[0] * 2
    with torch.no_grad():
        y = x.repeat(2, 1).view(rows, 4) + rows
        more = rows + x.shape[0]
    return {"y": y[: x.shape[0]] + more}


def lists(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """Lists of tensors inside; a result that is another result's view."""
    y = self.first(x)
    with torch.no_grad():
        left, right = y.split(2, 1)
        z = torch.cat([right, left], 1)
    return {"left": left, "z": z, "y": y, "again": z}


def nested(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        y = self.first(x)
        with torch.autocast("cpu", enabled=False):
            z = self.second(y.relu()) + x.shape[0]
            with torch.enable_grad():
                z = z + self.first(z)
        z = z * 2
    return {"z": z}


def in_place(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    y = x * 2
    with torch.no_grad():
        y.add_(1)
        z = self.first(y)
    return {"z": z, "y": y}


def in_branch(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    def positive(x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.first(x).sin()

    return {"y": torch.cond(x.sum() > 0, positive, lambda x: x.cos(), (x,))}


def hints(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    return {"y": hints_wrapper(lambda x: x * 2, (x,), {}, hints={"why": "a hint"})}


def strict(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    return {"y": strict_mode(lambda x: (x * 2,), (x,))[0]}


def region(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """One graph that is called twice."""

    @torch.compiler.nested_compile_region
    def sine(x: Tensor) -> Tensor:
        return x.sin() + 1

    return {"y": sine(sine(x))}


def running(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """A loop over columns, from the last one on, of a state that each step gives on; two results of each step."""

    def step(state: tuple[Tensor, Tensor], column: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        total, most = state[0] + column, torch.maximum(state[1], column)
        return (total, most), (total * most, column.sin())

    zero = x.new_zeros(x.shape[0])
    (total, most), (products, sines) = scan(step, (zero, zero.clone()), x, dim=1, reverse=True)
    return {"total": total, "most": most, "products": products, "sines": sines}


def recurrent(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """Weights that each step uses, and a branch in it."""

    def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(self.first(state) + row.unsqueeze(1))
        return state, torch.cond(row.sum() > 0, lambda s: s.sin(), lambda s: s.cos(), (state,))

    last, states = scan(step, x, x.new_ones(3, 1) * x[:, 0])
    return {"last": last, "states": states}


def loops(self: Wrapped, x: Tensor) -> dict[str, Tensor]:
    """A loop in a loop, and one after it, over more than one tensor."""

    def over_rows(rows: Tensor) -> Tensor:
        return scan(lambda total, row: (total + row, total * row), torch.zeros(4), rows)[1]

    y = map_rows(over_rows, self.first(x).new_ones(2, 3, 4).cumsum(0))
    z = map_rows(lambda pair: pair[0] @ pair[1].T, (y, y + 1))
    return {"y": y * x.sum(), "z": z}


BODIES: dict[str, Forward] = {
    body.__name__: body
    for body in (
        two_results, sizes, lists, nested, in_place, in_branch, hints, strict, region,
        running, recurrent, loops,
    )
}  # fmt: skip


def export(body: str) -> torch.export.ExportedProgram:
    """The program of that name."""
    module = Wrapped(BODIES[body]).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    return torch.export.export(module, (torch.ones(3, 4),), dynamic_shapes=({0: batch},), strict=False)


SAID = ("dtype", "sizes", "strides")


def _graph(graph: dict[str, Any]) -> dict[str, Any]:
    """Without what inlining doesn't look at."""
    values = graph["tensor_values"]
    graph["tensor_values"] = {name: {part: said[part] for part in SAID} for name, said in values.items()}
    for node in graph["nodes"]:
        node["metadata"] = {}
        for one in node["inputs"]:
            if "as_graph" in one["arg"]:
                _graph(one["arg"]["as_graph"]["graph"])
    return graph


def program(body: str) -> dict[str, Any]:
    file = io.BytesIO()
    torch.export.save(export(body), file)
    with zipfile.ZipFile(file) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        module = json.loads(archive.read(name))["graph_module"]
    signature = {"output_specs": module["signature"]["output_specs"]}
    return {"graph_module": {"graph": _graph(module["graph"]), "signature": signature}}


def main() -> None:
    from compiler.program.wrappers import inline_wrappers

    cases = {}
    for body in BODIES:
        given = program(body)
        inlined = copy.deepcopy(given)
        assert inline_wrappers(inlined), body
        cases[body] = {"program": given, "inlined": inlined}
    path = Path(__file__).with_name("wrappers.json")
    lines = [f"{json.dumps(body)}: {json.dumps(case, sort_keys=True)}" for body, case in cases.items()]
    path.write_text("{" + ",\n".join(lines) + "}\n")
    print(path)


if __name__ == "__main__":
    main()
