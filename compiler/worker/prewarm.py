"""What the parent does once, so that no job has to: most of what Inductor spends on a small model is first use."""

from __future__ import annotations

import contextlib
import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from compiler.job import cuda, toolchain
from compiler.job.codegen import replaced
from compiler.job.job import Job, run_job
from compiler.worker import warm_program


class _HeadersMade(BaseException):
    """Ends the warm program's compile; no handler of torch's takes it for an error."""


@contextlib.contextmanager
def _ended_after_headers() -> Iterator[Callable[[str], None]]:
    """Within, a compile ends when all is done that a later one is spared: before the C++ compilers are given its
    own code, which takes half of the time of all this and leaves nothing behind. Gives what is to be told of the
    compile's phases."""
    from torch._inductor.cpp_builder import CppBuilder

    build = CppBuilder.build
    phases: list[str] = []

    def build_headers(builder: Any) -> None:
        if "build" in phases and not (builder._preprocessing or builder._precompiling):
            raise _HeadersMade
        build(builder)

    with replaced(CppBuilder, "build", build_headers), contextlib.suppress(_HeadersMade):
        yield phases.append


def prewarm(scratch: Path, work: Path) -> None:
    """Does once what every compile of a fresh process would do: imports, tables, headers."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):  # Inductor's progress bars start a thread where they can
        from tqdm import tqdm

        tqdm.monitor_interval = 0
    stage = work / "prewarm"
    stage.mkdir()
    program = work / "prewarm.pt2"
    with cuda.left_alone():
        sizes = warm_program.save(program)
        march, simdlen = toolchain.host_target()
        job = Job(
            id=0, key="", factors={}, model="prewarm", bucket="", program=program, sizes=sizes, threads=2,
            march=march, simdlen=simdlen, stage=stage, scratch=scratch, timeout_seconds=0, memory_bytes=0,
        )  # fmt: skip
        with _ended_after_headers() as enter:
            run_job(job, work / "prewarming", enter)
    shutil.rmtree(stage)
    program.unlink()
    torch._inductor.config.aot_inductor.metadata.clear()
    gc.collect()
    gc.freeze()
