"""What a job may use, and how to tell that it used more."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

OUT_OF_MEMORY = re.compile(
    r"out of memory|virtual memory exhausted|can't allocate memory|cannot allocate memory|std::bad_alloc",
    re.IGNORECASE,
)


def group_memory(leader: int) -> int:
    """Bytes of memory that the processes of a group hold for themselves: mapped files, such as the
    weights, can be dropped at any time and don't count."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(entry.path, "stat").read_bytes()
            if int(stat[stat.rindex(b")") + 2 :].split()[2]) == leader:
                total += _anonymous_bytes(Path(entry.path, "status").read_bytes())
    return total


def _anonymous_bytes(status: bytes) -> int:
    match = re.search(rb"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def threads() -> int:
    """How many threads this process runs."""
    return len(os.listdir("/proc/self/task"))


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that led to it."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        pending += [cause.__cause__, cause.__context__, getattr(cause, "inner_exception", None)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in this process or in a compiler that it ran."""
    return any(isinstance(cause, MemoryError) or OUT_OF_MEMORY.search(str(cause)) for cause in causes(error))
