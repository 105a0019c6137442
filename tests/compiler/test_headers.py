"""That headers which an installation has made serve a fresh cache, and that others' don't stay for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from compiler.job import toolchain
from compiler.job.job import Job, run_job
from compiler.worker import headers
from compiler.worker.prewarm import FACTORS
from tests.compiler.conftest import ROOT, Compiler

MARCH = toolchain.host_target()[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as on a fresh host, in a process of its own."""
    folder = tmp_path_factory.mktemp("environment") / "headers"
    call = f"print(make({MARCH!r}, Path({str(folder)!r})))"
    line = f"from pathlib import Path; from compiler.worker.headers import make; {call}"
    done = subprocess.run([sys.executable, "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("made in "), done.stderr
    return folder


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "locks" not in path.parts]


def test_a_fresh_cache_makes_none(made: Path, compiler: Compiler, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    headers.link(scratch, made)
    headers.link(scratch, made)  # as the next daemon does
    program = torch.export.export(torch.nn.Linear(8, 8).eval(), (torch.randn(2, 8),))
    path = compiler.save(program)
    request = Compiler(scratch, tmp_path / "artifacts").request(path, {})
    job = Job.parse(request | {"factors": FACTORS})
    run_job(job, tmp_path / "work", lambda phase: None)
    assert (job.stage / "model.so").exists()
    found = [file for file in files(scratch / "headers") if file.suffix in headers.USED]
    assert {file.suffix for file in found} == {*headers.USED}
    assert [file.name for file in found if not file.is_symlink()] == []


def test_once_for_what_is_there(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headers.is_there(MARCH, made) and headers.make(MARCH, made) == "already there"
    assert not headers.is_there("x86-64", made)
    monkeypatch.setattr(toolchain, "compiler_version", lambda: "g++ 99")
    assert not headers.is_there(MARCH, made)


def test_those_of_a_compiler_that_is_gone_go(tmp_path: Path) -> None:
    for name, compiler in (("gone", tmp_path / "nothing"), ("kept", tmp_path)):
        (tmp_path / name).mkdir()
        (tmp_path / name / headers.OWNER).write_text(str(compiler))
    own = headers._prepared(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"kept", own.name}
    assert (own / headers.OWNER).read_text() == str(headers.COMPILER)


def test_without_any_a_cache_makes_its_own(tmp_path: Path) -> None:
    headers.link(tmp_path / "scratch", tmp_path / "nothing")
    assert not (tmp_path / "scratch").exists()
