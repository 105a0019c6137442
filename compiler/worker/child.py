"""A job in the process that was forked for it: confined, it compiles, says how that went, and ends."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from compiler.guards.refused import Refused
from compiler.job import cuda, limits
from compiler.job.job import Job, run_job
from compiler.job.protocol import send

NICENESS = 10  # of a job: requests that are served meanwhile come first
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Has this process, which was just forked, end when its parent does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def be_child(job: Job, work: Path, parent: int, replies: int, log: int, inherited: list[int]) -> NoReturn:
    """Runs the job in the forked child and ends the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.nice(NICENESS)
        die_with(parent)
        for descriptor in inherited:
            os.close(descriptor)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        # A burst of allocations between two looks of the parent. The weights are a private mapping.
        size = job.program.stat().st_size if job.program.exists() else 0
        more = size + (cuda.HOST_BYTES if job.on_gpu else 0)
        resource.setrlimit(resource.RLIMIT_DATA, (job.memory_bytes + more,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def report(phase: str) -> None:
            send(replies, {"event": "phase", "id": job.id, "phase": phase})

        send(replies, _answer(job, work, report))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _answer(job: Job, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    try:
        return {"event": "done", **run_job(job, work, report)}
    except Exception as error:
        for cause in limits.causes(error):
            if isinstance(cause, Refused):
                return {"event": "failed", "kind": "refused", "message": str(cause)}
        kind = "memory" if limits.is_out_of_memory(error) else "error"
        traceback.print_exc()
        reason = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"
        return {"event": "failed", "kind": kind, "message": message}
