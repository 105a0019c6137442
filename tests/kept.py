"""What makes a product of one run of the tests good for the next."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
COMPILER = (
    *sorted((REPO / "compiler").rglob("*.py")), REPO / "compiler/job/stoker-g++", REPO / "compiler/job/artifact.map",
    REPO / "compiler/guards/known_operators.txt",
)  # fmt: skip


def digest(sources: Iterable[Path], *arguments: object) -> str:
    """Changes with the content of any of `sources`, with the arguments and with the interpreter, whose
    packages took part."""
    content = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(content + repr((sys.prefix, arguments)).encode()).hexdigest()[:16]
