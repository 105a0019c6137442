"""How generated loops are divided among threads: among as many as the calling thread has when they run, so that one
artifact is for any number of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from compiler.job.replaced import replaced

# cpp.threads: what Inductor has in mind when it chooses how many of a loop nest's dimensions to divide, and whether
# there is work for all.
OPTIONS = {"cpp.dynamic_threads": True, "cpp.threads": 16}


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Within, a loop with little work stays serial. Where the number of threads is open, torch 2.11 makes a parallel
    region of every loop, however small, and so wakes all threads for what one has done before they are awake."""
    from torch._inductor import config
    from torch._inductor.codegen import cpp

    decide = cpp.CppKernel.decide_parallel_depth

    def decide_by_work(self: Any, most: Any, threads: int) -> Any:
        with config.patch({"cpp.dynamic_threads": False}):
            return decide(self, most, threads)

    with replaced(cpp.CppKernel, "decide_parallel_depth", decide_by_work):
        yield
