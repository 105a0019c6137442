"""What is done to the generated C++, and that an artifact with a hole in it is never built."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compiler.guards import insertion, proof
from compiler.guards.refused import Refused
from compiler.job import codegen
from compiler.job.limits import causes
from tests.compiler.conftest import Compiler

WRAPPER = """\
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_clone(a, &b));
    aoti_torch_cpu_scatter_reduce_two_out(buf0, buf1, f(0, ")"), std::array<int, 2>{1, 2},
        "sum");
    aoti_torch_grad_mode_set_enabled(false);
    auto dtype = aoti_torch_dtype_int64();
"""


def test_dropped_error_codes_are_checked() -> None:
    mended = codegen.check_error_codes(WRAPPER)
    call = """aoti_torch_cpu_scatter_reduce_two_out(buf0, buf1, f(0, ")"), std::array<int, 2>{1, 2},
        "sum")"""
    assert f"    AOTI_TORCH_ERROR_CODE_CHECK({call});\n" in mended
    assert mended.count("AOTI_TORCH_ERROR_CODE_CHECK") == 2  # what returns nothing stays as it is
    codegen.scan(mended, "wrapper")


def test_a_dropped_error_code_is_refused_with_its_line() -> None:
    with pytest.raises(Refused, match="wrapper, line 2: an error code is dropped: aoti_torch_cpu_scatter"):
        codegen.scan(WRAPPER, "wrapper")


def test_a_check_in_a_kernel_is_refused_with_its_line() -> None:
    with pytest.raises(Refused, match="kernel, line 2: an unguarded check"):
        codegen.scan('int x;\nAOTI_TORCH_CHECK((0 <= tmp7) & (tmp7 < 3L), "index");', "kernel")


def test_libtorch_declares_the_functions_that_matter() -> None:
    found = codegen.functions_with_error_code()
    expected = {"aoti_torch_clone", "aoti_torch_proxy_executor_call_function", "aoti_torch_index_put_out"}
    assert expected <= found
    assert "aoti_torch_grad_mode_set_enabled" not in found


class Lookup(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.ones(10, 4))

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.table[i] // 1.0


class Quotient(torch.nn.Module):
    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return 100 // i


def refusal(compiler: Compiler, module: torch.nn.Module) -> str:
    """The message of the refusal that compiling the module must end with."""
    program = torch.export.export(module, (torch.ones(3, 5, dtype=torch.int64),))
    with pytest.raises(Exception) as raised:  # noqa: PT011 (Inductor wraps what comes out of it)
        compiler.compile(compiler.save(program), {})
    (refused,) = [str(cause) for cause in causes(raised.value) if isinstance(cause, Refused)]
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("module", [Lookup(), Quotient()], ids=["lookup", "quotient"])
def test_without_guards_nothing_is_built(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setattr(insertion, "insert", lambda *arguments: [])
    assert "was not proved" in refusal(compiler, module)


@pytest.mark.slow
def test_a_check_of_unknown_origin_is_refused(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insertion, "insert", lambda *arguments: [])
    monkeypatch.setattr(proof, "prove", lambda graph: None)
    monkeypatch.setattr(proof, "is_lookup", lambda node: False)
    assert "an index check against 10 in a kernel of" in refusal(compiler, Lookup())


@pytest.mark.slow
def test_a_division_of_unknown_origin_is_refused(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insertion, "insert", lambda *arguments: [])
    monkeypatch.setattr(proof, "prove", lambda graph: None)
    monkeypatch.setattr(proof, "is_division", lambda node: False)
    assert "an integer" in refusal(compiler, Quotient())


class RowRemainder(torch.nn.Module):
    """A remainder of one number per row, in the middle of a loop over vectors."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x + (i * 5 % 7 + i // 3).unsqueeze(1)


@pytest.mark.slow
def test_a_division_of_scalars_in_a_vector_kernel(compiler: Compiler) -> None:
    given = (torch.randn(4, 16), torch.arange(4))
    program = torch.export.export(RowRemainder(), given)
    ((got,),) = compiler.compile(compiler.save(program), {}).run([list(given)])
    torch.testing.assert_close(got, RowRemainder()(*given))


class Chosen(torch.nn.Module):
    """Two branches with layers and several buffers each."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(200, 200), torch.nn.Linear(200, 200)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def long(x: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = torch.softmax(self.hidden(x), -1) + self.out(torch.relu(x))
            return x

        return torch.cond(x.sum() > 0, long, lambda x: x.tanh() - 1, (self.out(x),)) * 2


@pytest.mark.slow
def test_each_branch_answers_as_eager_does(compiler: Compiler) -> None:
    torch.manual_seed(0)
    module = Chosen().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(module, (torch.ones(2, 200),), dynamic_shapes=({0: batch},))
    (symbol,) = map(str, program.range_constraints)
    inputs = [torch.ones(30, 200), -torch.ones(30, 200), torch.randn(30, 200)]
    results = compiler.compile(compiler.save(program), {symbol: 30}).run([[x] for x in inputs])
    for x, (got,) in zip(inputs, results, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(got, module(x), atol=1e-5, rtol=1e-4)
