"""Work folders are removed with their worker, however it ended, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from compiler.job.work_folder import claimed, temporary_files_in
from tests.compiler.conftest import ROOT

HOLD = """
import sys
from pathlib import Path
from compiler.job.work_folder import claimed
with claimed(Path(sys.argv[1])) as folder:
    (folder / "generated.cpp").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_goes_with_its_owner(tmp_path: Path) -> None:
    with claimed(tmp_path) as folder:
        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.parametrize("killed", [True, False])
def test_the_folder_of_another_worker_goes_when_that_is_gone(tmp_path: Path, killed: bool) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    other = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdin is not None
    folder = Path(other.stdout.readline().strip())
    with claimed(tmp_path):
        assert (folder / "generated.cpp").exists()
    if killed:
        other.kill()
    other.communicate()
    assert folder.exists() == killed
    with claimed(tmp_path):
        assert not folder.exists()


def test_temporary_files_lie_where_they_are_removed(tmp_path: Path) -> None:
    before = os.environ.get("TMPDIR"), tempfile.gettempdir()
    with temporary_files_in(tmp_path):
        shown = subprocess.run(["mktemp", "-u"], capture_output=True, text=True, check=True).stdout
        assert Path(shown).parent == tmp_path
        assert tempfile.gettempdir() == str(tmp_path)
    assert (os.environ.get("TMPDIR"), tempfile.gettempdir()) == before
