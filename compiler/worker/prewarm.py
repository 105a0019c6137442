"""What the parent does once, so that no job has to: most of what Inductor spends on a small model is first use."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from compiler.job import cuda, toolchain
from compiler.job.interface_object import SUFFIX
from compiler.job.job import Job, run_job
from compiler.job.replaced import replaced
from compiler.worker import warm_program
from compiler.worker.child import NICENESS, die_with

if TYPE_CHECKING:
    from torch._inductor.cpp_builder import CppBuilder


# What a daemon's jobs say of how C++ is compiled (server/planning/warmup_plan.cc): g++ takes a precompiled header for
# the very flags that it was made with, and reads the text where they differ, without a word.
FACTORS = {"inductor.aot_inductor.compile_wrapper_opt_level": '"O0"'}


class _CompilersBegin(BaseException):
    """Ends the warm program's compile in the parent; no handler of torch's takes it for an error."""


class _HeaderMaker:
    """Forks where the warm program's C++ would be compiled. The new process makes the precompiled headers, which takes
    as long as all else that is done here, beside what jobs do until they need them; they wait at torch's lock. Its own
    code is never compiled: nobody would run it."""

    def __init__(self, work: Path) -> None:
        self.pid = 0
        self._work = work  # of the compile; the new process' alone once the parent has left it
        self._left, self._leaving = os.pipe()
        self._parent = os.getpid()
        self._headers: list[threading.Thread] = []

    def enter(self, phase: str) -> None:
        """The compile's phases; the last one begins in the new process only."""
        if phase == "build":
            self._fork()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        from torch._inductor import codecache
        from torch._inductor.cpp_builder import CppBuilder

        build = CppBuilder.build
        build_header = codecache._worker_compile_cpp

        def build_or_finish(builder: CppBuilder) -> None:
            kept = builder._preprocessing or builder._precompiling or builder.get_target_file_path().endswith(SUFFIX)
            if os.getpid() != self._parent and not kept:
                self._finish()
            build(builder)

        def build_header_beside(lock: str, builders: Sequence[CppBuilder]) -> None:
            self._headers.append(threading.Thread(target=build_header, args=(lock, builders)))
            self._headers[-1].start()

        try:
            with (
                replaced(CppBuilder, "build", build_or_finish),
                replaced(codecache, "_worker_compile_cpp", build_header_beside),
                contextlib.suppress(_CompilersBegin),
            ):
                yield
        except BaseException:
            if os.getpid() == self._parent:
                raise
            traceback.print_exc()
        if os.getpid() != self._parent:
            os._exit(1)
        os.close(self._left)
        os.close(self._leaving)

    def _fork(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid != 0:
            with contextlib.suppress(OSError):
                os.setpgid(self.pid, self.pid)  # as the child does: whoever comes first
            raise _CompilersBegin
        os.setpgid(0, 0)
        os.nice(NICENESS)
        die_with(self._parent)
        os.close(self._leaving)
        os.read(self._left, 1)
        self._work.mkdir(mode=0o700)

    def _finish(self) -> NoReturn:
        for header in self._headers:
            header.join()
        shutil.rmtree(self._work, ignore_errors=True)
        os._exit(0)


def prewarm(scratch: Path, work: Path, march: str = "") -> int:
    """Does once what every compile of a fresh process would do: imports, tables. Returns the process group that makes
    the precompiled headers meanwhile, for this machine unless another level is named."""
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
        march = march or toolchain.host_target()[0]
        job = Job(
            id=0, key="", factors=FACTORS, model="prewarm", bucket="", program=program, sizes=sizes,
            march=march, simdlen=toolchain.LEVELS[march], stage=stage, scratch=scratch, timeout_seconds=0,
            memory_bytes=0,
        )  # fmt: skip
        compiling = work / "prewarming"
        maker = _HeaderMaker(compiling)
        with maker.installed():
            run_job(job, compiling, maker.enter)
    shutil.rmtree(stage)
    program.unlink()
    torch._inductor.config.aot_inductor.metadata.clear()
    gc.collect()
    gc.freeze()
    return maker.pid
