"""How to tell that a job had too little memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

OUT_OF_MEMORY = re.compile(
    r"out of memory|virtual memory exhausted|can't allocate memory|cannot allocate memory|std::bad_alloc",
    re.IGNORECASE,
)


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
