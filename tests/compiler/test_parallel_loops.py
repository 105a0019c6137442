"""One artifact for any number of threads, and none where there is little to do."""

from __future__ import annotations

import subprocess

import torch

from tests.compiler.conftest import Artifact, Compiler


class Sums(torch.nn.Module):
    """Loops that threads share in each of Inductor's ways: rows, a reduction as a whole, and variances."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.softmax(x, dim=1), torch.exp(-x).sum(), torch.var_mean(x)[0]


def compiled(compiler: Compiler, rows: int, columns: int) -> Artifact:
    program = torch.export.export(Sums().eval(), (torch.zeros(rows, columns),))
    return compiler.compile(compiler.save(program), {})


def opens_parallel_regions(artifact: Artifact) -> bool:
    nm = ["nm", "--dynamic", "--undefined-only", str(artifact.folder / "model.so")]
    return b"GOMP_parallel" in subprocess.check_output(nm)


def test_one_artifact_serves_any_number_of_threads(compiler: Compiler) -> None:
    artifact = compiled(compiler, 64, 4096)
    assert opens_parallel_regions(artifact)
    x = torch.randn(64, 4096)
    expected = [output.double() for output in Sums()(x.double())]
    for threads in (1, 2, 3, 17):
        (outputs,) = artifact.run([[x]], threads)
        for output, wanted in zip(outputs, expected, strict=False):
            torch.testing.assert_close(output.double(), wanted, rtol=1e-5, atol=1e-6, msg=f"{threads} threads")


def test_a_small_loop_wakes_nobody(compiler: Compiler) -> None:
    artifact = compiled(compiler, 4, 16)
    assert not opens_parallel_regions(artifact)
    x = torch.randn(4, 16)
    (outputs,) = artifact.run([[x]])
    for output, wanted in zip(outputs, Sums()(x), strict=False):
        torch.testing.assert_close(output, wanted)
