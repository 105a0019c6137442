"""A job in the process that was forked for it: confined, it compiles, says how that went, and ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from compiler.guards.refused import Refused
from compiler.job import limits
from compiler.job.job import Job, run_job
from compiler.job.protocol import send
from compiler.worker.sandbox import Sandbox

NICENESS = 10  # of a job: requests that are served meanwhile come first
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Has this process, which was just forked, end when its parent does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def keep_descriptors(replies: int, log: int) -> None:
    """Leaves the two to this process, the log as its stdout and stderr. The others become /dev/null and not free, for
    objects of the parent's hold their numbers and may close them."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in (1, 2, replies, null):
            os.dup2(null, descriptor, inheritable=descriptor == 0)


def be_child(job: Job, sandbox: Sandbox, work: Path, parent: int, replies: int, log: int) -> NoReturn:
    """Runs the job in the forked child and ends the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.nice(NICENESS)
        die_with(parent)
        keep_descriptors(replies, log)

        def report(phase: str) -> None:
            send(replies, {"event": "phase", "id": job.id, "phase": phase})

        answer = _answer(job, sandbox, work, report)
        _flush()
        send(replies, answer)  # which ends the process
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(status)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _answer(job: Job, sandbox: Sandbox, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    try:
        work.mkdir(mode=0o700)
        job = sandbox.enter(job, work)
        return {"event": "done", **run_job(job, work / "job", report)}
    except Exception as error:
        for cause in limits.causes(error):
            if isinstance(cause, Refused):
                return {"event": "failed", "kind": "refused", "message": str(cause)}
        kind = "memory" if limits.is_out_of_memory(error) else "error"
        traceback.print_exc()
        reason = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"
        return {"event": "failed", "kind": kind, "message": message}
