"""Which compiler this is: a digest of all of its code that decides what comes out of a program.

It is part of every artifact's key, so that an edit here is noticed like an edited model. stokerd was built with the
same digest (server/runner/CMakeLists.txt makes it) and names it in each job; a worker with other code refuses.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

COMPILER = Path(__file__).resolve().parents[1]
# How jobs are forked, what is exported and explained, and the float64 arbiter write no code.
FILES = (
    "guards/*.py", "guards/*.txt", "job/*.py", "job/stoker-g++", "job/artifact.map", "program/*.py", "specialise/*.py",
)  # fmt: skip


def digest(compiler: Path) -> str:
    """Of the files in that folder, by their names in it."""
    files = sorted(file.relative_to(compiler).as_posix() for pattern in FILES for file in compiler.glob(pattern))
    lines = [f"{hashlib.sha256((compiler / file).read_bytes()).hexdigest()}  {file}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


# As imported: of the code that runs, not of what lies there later.
RECIPE = digest(COMPILER)
