"""What the tests of the compiler share: a scratch folder, and artifacts compiled in this process."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from compiler.job import toolchain  # noqa: E402
from tests.kept import COMPILER, digest  # noqa: E402


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inductor's caches: kept between runs where STOKER_TEST_SCRATCH names a folder."""
    named = os.environ.get("STOKER_TEST_SCRATCH")
    folder = Path(named).resolve() if named else tmp_path_factory.mktemp("scratch")
    toolchain.prepare_environment(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def libraries_first(scratch: Path) -> None:
    """Whose operators programs call, before `operators.declare` takes their place in this process."""
    for name in ("torchvision", "transformers.integrations.moe"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@dataclass
class Artifact:
    """A compiled program and where it lies."""

    folder: Path
    manifest: dict[str, Any]
    program: Path

    def run(self, batches: list[list[Any]], threads: int = 2) -> list[list[Any]]:
        """Runs the artifact on each list of inputs, in a process of its own: one that died is a
        failed test, not the end of all tests."""
        import torch

        torch.save(batches, self.folder.parent / "inputs.pt")
        what = [str(self.folder), str(self.program), str(threads)]
        command = [sys.executable, "-m", "tests.compiler.run_artifact", *what]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode == 0, f"the process ended with {ended.returncode}: {ended.stderr[-2000:]}"
        return torch.load(self.folder.parent / "outputs.pt")


class Compiler:
    """Compiles in this process, for speed: the worker would fork."""

    def __init__(self, scratch: Path, folder: Path) -> None:
        self._scratch = scratch
        self._folder = folder
        self._count = 0

    def save(self, program: Any) -> Path:
        """Writes an exported program to a file."""
        import torch

        self._count += 1
        path = self._folder / f"program{self._count}.pt2"
        torch.export.save(program, path)
        return path

    def request(self, program: Path, sizes: dict[str, int]) -> dict[str, Any]:
        """A request as stokerd would send it."""
        self._count += 1
        stage = self._folder / f"job{self._count}" / "stage"
        stage.mkdir(parents=True)
        march, simdlen = toolchain.host_target()
        return {
            "op": "compile", "id": self._count, "key": f"{self._count:064x}", "factors": {"graph": "g"},
            "model": "test:1", "bucket": "small", "program": str(program), "sizes": sizes,
            "march": march, "simdlen": simdlen, "stage": str(stage), "scratch": str(self._scratch),
            "timeout_seconds": 600, "memory_bytes": 8 << 30,
        }  # fmt: skip

    def compiled_before(self, program: Path, sizes: dict[str, int], *sources: Path) -> Artifact:
        """The same; the artifact of an earlier run where neither the compiler nor any of `sources`, from
        which the program comes, has changed."""
        stage = self._scratch / f"compiled-{digest((*COMPILER, *sources), sizes)}"
        if not (stage / "manifest.json").exists():
            shutil.rmtree(stage, ignore_errors=True)
            shutil.copytree(self.compile(program, sizes).folder, stage)
        folder = self._folder / stage.name / "stage"
        shutil.copytree(stage, folder)
        return Artifact(folder, json.loads((folder / "manifest.json").read_text()), program)

    def compile(self, program: Path, sizes: dict[str, int]) -> Artifact:
        """Compiles a bucket of the program; exceptions come through."""
        from compiler.job.job import Job, run_job

        job = Job.parse(self.request(program, sizes))
        run_job(job, job.stage.parent / "work", lambda phase: None)
        return Artifact(job.stage, json.loads((job.stage / "manifest.json").read_text()), program)


@pytest.fixture(scope="session")
def compiler(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    import torch

    torch.set_num_threads(1)
    # pytest would collect megabytes of it.
    logging.getLogger("torch.__trace").propagate = False
    return Compiler(scratch, tmp_path_factory.mktemp("artifacts"))
