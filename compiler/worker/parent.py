"""The compile worker: a warm parent that forks one child per job.

Most of what Inductor spends on a small model is first-use set-up: imports, pattern matchers,
precompiled headers. The parent pays it once, by compiling a small program, and each child inherits
it; torch's state between compiles, which changes the next one, stays in the child. The parent
therefore never starts a thread, never touches a GPU and never compiles anything that a job sent.

A child leads a process group of its own, so that its C++ compilers end with it, and dies with the
parent. The parent alone talks to stokerd: replies of one job can't be torn or doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from compiler.guards.refused import Refused
from compiler.job import cuda, limits, toolchain
from compiler.job.job import Job, run_job
from compiler.job.protocol import send
from compiler.job.work_folder import claimed

POLL_SECONDS = 0.2  # how often time and memory are looked at
LOG_LINES = 30  # of a failed child, kept for its message
MESSAGE_CHARACTERS = 8000
NICENESS = 10  # of a job: requests that are served meanwhile come first
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Child:
    """A running job, as the parent sees it."""

    job: Job
    pid: int
    replies: int | None  # this end of its pipes; None once the other end is closed
    log: int | None
    started: float
    partial_reply: bytes = b""
    partial_log: bytes = b""
    log_tail: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    outcome: dict[str, Any] | None = None  # what will be replied when the child has ended


class Worker:
    """Reads jobs from descriptor 0, writes replies to `reply_fd`; `run` returns when stdin closes.

    Each job generates its code in a folder of its own in `work`.
    """

    def __init__(self, reply_fd: int, work: Path) -> None:
        self._reply_fd = reply_fd
        self._work = work
        self._children: dict[int, Child] = {}  # by process id
        self._selector = selectors.DefaultSelector()
        self._partial_input = b""
        self._open = True

    def run(self) -> None:
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ, self._read_jobs)
        try:
            while self._open:
                for key, _ in self._selector.select(POLL_SECONDS if self._children else None):
                    key.data()
                self._enforce_limits()
                self._reap()
        finally:
            for child in self._children.values():
                _kill_group(child.pid)
            while self._children:
                self._bury(*os.waitpid(-1, 0), reply=False)

    def _read_jobs(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self._open = False
            return
        *lines, self._partial_input = (self._partial_input + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._accept(line)

    def _accept(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            operation, job_id = message["op"], message["id"]
            if operation not in ("compile", "cancel") or type(job_id) is not int:
                raise ValueError(f"expected a compile or a cancel, got {message!r:.200}")
        except (ValueError, KeyError, TypeError) as error:
            print(f"ignored a line that is no request: {error!r}", file=sys.stderr, flush=True)
            return
        if operation == "cancel":
            for child in self._children.values():
                if child.job.id == job_id:
                    self._stop(child, "cancelled", "cancelled")
            return
        try:
            job = Job.parse(message)
        except ValueError as error:
            self._send_failure(job_id, "error", f"bad request: {error}", 0.0)
            return
        self._start(job)

    def _start(self, job: Job) -> None:
        reply_read, reply_write = os.pipe()
        log_read, log_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            for end in (reply_read, reply_write, log_read, log_write):
                os.close(end)
            self._send_failure(job.id, "error", f"can't start a process: {error}", 0.0)
            return
        if pid == 0:
            inherited = [self._reply_fd, self._selector.fileno(), reply_read, log_read]
            for other in self._children.values():
                inherited += [end for end in (other.replies, other.log) if end is not None]
            _be_child(job, self._work_of(os.getpid()), parent, reply_write, log_write, inherited)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # as the child does: whoever comes first
        os.close(reply_write)
        os.close(log_write)
        child = Child(job, pid, reply_read, log_read, time.monotonic())
        self._children[pid] = child
        self._selector.register(reply_read, selectors.EVENT_READ, lambda: self._read_replies(child))
        self._selector.register(log_read, selectors.EVENT_READ, lambda: self._read_log(child))

    def _read_replies(self, child: Child) -> None:
        assert child.replies is not None
        data = os.read(child.replies, 1 << 16)
        if not data:
            self._close(child.replies)
            child.replies = None
            return
        *lines, child.partial_reply = (child.partial_reply + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["event"] == "phase":
                if child.outcome is None:
                    send(self._reply_fd, message)
            elif child.outcome is None:
                child.outcome = message

    def _read_log(self, child: Child) -> None:
        assert child.log is not None
        data = os.read(child.log, 1 << 16)
        if not data:
            self._close(child.log)
            child.log = None
            return
        os.write(2, data)
        *lines, child.partial_log = (child.partial_log + data).split(b"\n")
        child.log_tail.extend(line.decode(errors="replace") for line in lines)

    def _close(self, end: int) -> None:
        self._selector.unregister(end)
        os.close(end)

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if child.outcome is not None:
                continue
            if now - child.started > child.job.timeout_seconds:
                self._stop(child, "timeout", f"no artifact after {child.job.timeout_seconds} s")
            elif (used := limits.group_memory(child.pid)) > child.job.memory_bytes:
                self._stop(child, "memory", f"used {used} bytes, allowed are {child.job.memory_bytes}")

    def _stop(self, child: Child, kind: str, message: str) -> None:
        """Ends a job from outside; what it says afterwards doesn't count."""
        if child.outcome is None:
            child.outcome = {"event": "failed", "kind": kind, "message": message}
        _kill_group(child.pid)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._bury(pid, status)

    def _bury(self, pid: int, status: int, reply: bool = True) -> None:
        """Cleans up after a process that has ended: a job, or an orphan of one."""
        child = self._children.pop(pid, None)
        if child is None:
            return
        _kill_group(pid)  # its compilers, when it left any
        # Everything that it said is in the pipes. An orphan that was just killed may still hold the
        # other ends for a moment: nobody waits for it.
        with contextlib.suppress(BlockingIOError):
            while child.replies is not None:
                os.set_blocking(child.replies, False)
                self._read_replies(child)
        with contextlib.suppress(BlockingIOError):
            while child.log is not None:
                os.set_blocking(child.log, False)
                self._read_log(child)
        for end in (child.replies, child.log):
            if end is not None:
                self._close(end)
        shutil.rmtree(self._work_of(pid), ignore_errors=True)
        if reply:
            self._send_outcome(child, status)

    def _work_of(self, pid: int) -> Path:
        return self._work / str(pid)

    def _send_outcome(self, child: Child, status: int) -> None:
        outcome = child.outcome
        seconds = round(time.monotonic() - child.started, 3)
        if outcome is not None and outcome["event"] == "done":
            send(self._reply_fd, {**outcome, "id": child.job.id, "seconds": seconds})
            return
        if outcome is None:
            code = os.waitstatus_to_exitcode(status)
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            outcome = {"kind": "crashed", "message": f"the compile process was {how} without an answer"}
        message = outcome["message"]
        if outcome["kind"] in ("error", "crashed"):
            tail = [*child.log_tail, child.partial_log.decode(errors="replace")]
            message = "\n".join([message, *(line for line in tail if line.strip())])
        self._send_failure(child.job.id, outcome["kind"], message, seconds)

    def _send_failure(self, job_id: int, kind: str, message: str, seconds: float) -> None:
        if len(message) > MESSAGE_CHARACTERS:
            half = MESSAGE_CHARACTERS // 2
            message = f"{message[:half]}\n...\n{message[-half:]}"
        failure = {"event": "failed", "id": job_id, "kind": kind, "message": message, "seconds": seconds}
        send(self._reply_fd, failure)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _be_child(job: Job, work: Path, parent: int, replies: int, log: int, inherited: list[int]) -> NoReturn:
    """Runs the job in the forked child and ends the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.nice(NICENESS)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
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


def prewarm(scratch: Path, work: Path) -> None:
    """Does once what every compile of a fresh process would do: imports, tables, headers."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):  # Inductor's progress bars start a thread where they can
        from tqdm import tqdm

        tqdm.monitor_interval = 0
    from compiler.worker import warm_program

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
        run_job(job, work / "prewarming", lambda phase: None)
    shutil.rmtree(stage)
    program.unlink()
    torch._inductor.config.aot_inductor.metadata.clear()
    gc.collect()
    gc.freeze()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compiler.worker", description=__doc__.splitlines()[0])
    parser.add_argument("--reply-fd", type=int, required=True, help="descriptor that replies are written to")
    parser.add_argument("--scratch", type=Path, required=True, help="folder of caches, kept between runs")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    os.set_inheritable(options.reply_fd, False)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # compilers whose job was killed are reaped here
    # Inductor warns of its own ways; what remains in the log is about the model.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    toolchain.prepare_environment(options.scratch)
    with claimed(options.scratch) as work, contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        prewarm(options.scratch, work)
        import torch

        if limits.threads() > 1:
            print(f"{limits.threads()} threads run: forking is at risk", file=sys.stderr, flush=True)
        ready = {"event": "ready", "pid": os.getpid(), "torch": torch.__version__}
        send(options.reply_fd, {**ready, "seconds": round(time.monotonic() - started, 3)})
        Worker(options.reply_fd, work).run()
    return 0
