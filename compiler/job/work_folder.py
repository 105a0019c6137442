"""Where jobs keep what they generate, and how what a killed worker left is told from what is in use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOCK = "lock"


@contextlib.contextmanager
def claimed(scratch: Path) -> Iterator[Path]:
    """A folder of this process below the scratch folder, which several workers may share, also from
    containers that number their processes alike: it is in use as long as its lock is held.

    Removes the folders of workers that are gone.
    """
    parent = scratch / "work"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in parent.iterdir():
        _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(dir=parent))
    with open(folder / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            remove(folder)


def remove(folder: Path) -> None:
    """Whatever a job has left there: folders in folders so deep that Python's own stack doesn't get down to them."""
    subprocess.run(["rm", "-rf", "--", str(folder)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _remove_if_abandoned(folder: Path) -> None:
    # A folder without a lock is just being made: it goes the next time.
    with contextlib.suppress(OSError), open(folder / LOCK, "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder)


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Within, this process and the compilers that it starts put their temporary files there, where
    they are removed even when everybody is killed."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[1]
        if before[0] is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before[0]
