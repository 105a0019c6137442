"""The key names the compiler's code: what the daemon was built with is what jobs run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compiler.job import recipe
from compiler.job.job import Job
from tests.compiler.conftest import Compiler


def test_each_file_that_decides_is_in_it(tmp_path: Path) -> None:
    copy = tmp_path / "compiler"
    shutil.copytree(recipe.COMPILER, copy)
    assert recipe.digest(copy) == recipe.RECIPE
    seen = {recipe.RECIPE}
    code = ("guards/rules.py", "job/codegen.py", "job/stoker-g++", "job/artifact.map", "specialise/onednn.py")
    for name in (*code, "guards/known_operators.txt"):
        with (copy / name).open("a") as file:
            file.write("\n")
        assert recipe.digest(copy) not in seen, name
        seen.add(recipe.digest(copy))
    for name in ("worker/parent.py", "export/exporter.py", "README.md"):
        with (copy / name).open("a") as file:
            file.write("\n")
        assert recipe.digest(copy) in seen, name
    (copy / "specialise/new.py").touch()
    assert recipe.digest(copy) not in seen


def test_another_compilers_job_is_refused(compiler: Compiler) -> None:
    message = compiler.request(Path("program.pt2"), {})
    message["factors"] = {"recipe": "0123456789abcdef"}
    with pytest.raises(ValueError, match=f"recipe: the code in .*compiler is {recipe.RECIPE}, the job asks for 0123"):
        Job.parse(message)
    message["factors"] = {"recipe": recipe.RECIPE}
    assert Job.parse(message).factors == message["factors"]
