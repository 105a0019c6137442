"""That operators which compiled code calls by their names get the types and memory formats that the program has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch._export.serde import schema

from compiler.guards.refused import Refused
from compiler.job import named_calls
from tests.compiler.conftest import Compiler


class Spectrum(torch.nn.Module):
    """Complex numbers, which Inductor has no code for: what takes them is called by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 5, 3, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = torch.fft.rfft(x)
        mixed = torch.einsum("bif,iof->bof", found.transpose(1, 2).contiguous()[:, :4, :3], self.weight)
        precise = torch.view_as_real(found.to(torch.complex128)).sum(-1)
        return {"mixed": torch.fft.irfft(mixed, n=8), "precise": precise}


def test_complex_numbers(compiler: Compiler) -> None:
    torch.manual_seed(0)
    model, x = Spectrum().eval(), torch.randn(2, 3, 8)
    program = torch.export.export(model, (x,))
    (outputs,) = compiler.compile(compiler.save(program), {}).run([[x]])
    for got, expected in zip(outputs, model(x).values(), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def call(**arguments: int | list[int]) -> dict[str, object]:
    return {"nodes": [{"node": {"inputs": [{"arg": {name: value}, "kind": 1} for name, value in arguments.items()]}}]}


def test_every_number_is_translated(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    known = [each for each in schema.ScalarType if each is not schema.ScalarType.UNKNOWN]
    file.write_text(json.dumps(call(as_scalar_types=[each.value for each in known], as_memory_format=1, as_layout=7)))
    named_calls.translate(file)
    numbers = {"BYTE": 0, "LONG": 4, "FLOAT": 6, "COMPLEXDOUBLE": 10, "BOOL": 11, "BFLOAT16": 15, "UINT16": 27}
    (types, memory_format, layout) = json.loads(file.read_text())["nodes"][0]["node"]["inputs"]
    translated = dict(zip((each.name for each in known), types["arg"]["as_scalar_types"], strict=True))
    assert translated | numbers == translated
    assert (memory_format["arg"], layout["arg"]) == ({"as_memory_format": 0}, {"as_layout": 0})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"as_scalar_type": 0}, "the type 0 of the export format"),
        ({"as_layout": 1}, "SparseCoo: expected one of"),
        ({"as_memory_format": 0}, "Unknown: expected one of"),
    ],
)
def test_what_stands_for_nothing_is_refused(arguments: dict[str, int], said: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(call(**arguments)))
    with pytest.raises(Refused, match=said):
        named_calls.translate(tmp_path / "model.json")
