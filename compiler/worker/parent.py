"""The compile worker: a warm parent that forks one child per job.

Most of what Inductor spends on a small model is first-use set-up: imports, pattern matchers, precompiled
headers. The parent pays it once, by taking a small program as far as C++, and each child inherits it;
torch's state between compiles, which changes the next one, stays in the child. The parent therefore
never starts a thread, never touches a GPU and never compiles anything that a job sent.

A child leads a process group of its own, which its C++ compilers can't leave and end with, and dies with the
parent. The parent alone talks to stokerd: replies of one job can't be torn or doubled.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.job.job import Job
from compiler.job.protocol import PHASES, send
from compiler.job.work_folder import remove
from compiler.worker import usage
from compiler.worker.child import be_child
from compiler.worker.sandbox import MAX_PROCESSES, Sandbox

POLL_SECONDS = 0.2  # how often time and memory are looked at
MAX_LINE_BYTES = 1 << 20  # of a child; of a longer one the end is left, which is no reply
LOG_LINES = 30  # of a failed child, kept for its message
MESSAGE_CHARACTERS = 8000


@dataclass
class Pipe:
    """The parent's end of one that a child writes lines to."""

    end: int | None  # None once nobody can write any more
    partial: bytes = b""  # a line whose end has not come

    def lines(self, data: bytes) -> list[bytes]:
        *lines, partial = (self.partial + data).split(b"\n")
        self.partial = partial[-MAX_LINE_BYTES:]
        return lines


@dataclass
class Child:
    """A running job, as the parent sees it."""

    job: Job
    pid: int
    replies: Pipe
    log: Pipe
    started: float
    log_tail: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    outcome: dict[str, Any] | None = None  # what will be replied when the child has ended


class Worker:
    """Reads jobs from descriptor 0, writes replies to `reply_fd`; `run` returns when stdin closes.

    Each job generates its code in a folder of its own in `work`. `headers` is the process group that makes the
    precompiled headers, and ends with this process.
    """

    def __init__(self, reply_fd: int, work: Path, headers: int, sandbox: Sandbox) -> None:
        self._reply_fd = reply_fd
        self._work = work
        self._headers = headers  # 0 once they are made, and that was noticed
        self._sandbox = sandbox
        self._children: dict[int, Child] = {}  # by process id
        self._processes = True  # whether any are left to wait for: jobs, orphans of jobs, who makes headers
        self._selector = selectors.DefaultSelector()
        self._partial_input = b""
        self._open = True

    def run(self) -> None:
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ, self._read_jobs)
        try:
            while self._open:
                for key, _ in self._selector.select(POLL_SECONDS if self._processes else None):
                    key.data()
                self._enforce_limits()
                self._reap()
        finally:
            if self._headers:
                _kill_group(self._headers)
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
            be_child(job, self._sandbox, self._work_of(os.getpid()), parent, reply_write, log_write)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # as the child does: whoever comes first
        os.close(reply_write)
        os.close(log_write)
        child = Child(job, pid, Pipe(reply_read), Pipe(log_read), time.monotonic())
        self._children[pid] = child
        self._processes = True
        self._selector.register(reply_read, selectors.EVENT_READ, lambda: self._read_replies(child))
        self._selector.register(log_read, selectors.EVENT_READ, lambda: self._read_log(child))

    def _read_replies(self, child: Child) -> None:
        for line in child.replies.lines(self._read(child.replies)):
            if child.outcome is not None:
                continue
            try:
                message = _reply(line)
            except (ValueError, RecursionError):
                self._stop(child, "error", f"the compile process sent what is no reply: {line!r:.200}")
                continue
            if message["event"] == "phase":
                send(self._reply_fd, {**message, "id": child.job.id})
            else:
                child.outcome = message
                _kill_group(child.pid)  # it has nothing left to do, and neither has what it started

    def _read_log(self, child: Child) -> None:
        data = self._read(child.log)
        if data:
            os.write(2, data)
        child.log_tail.extend(line.decode(errors="replace") for line in child.log.lines(data))

    def _read(self, pipe: Pipe) -> bytes:
        """What has come; nothing, and the pipe is closed, when nobody can write any more."""
        assert pipe.end is not None
        data = os.read(pipe.end, 1 << 16)
        if not data:
            self._close(pipe)
        return data

    def _close(self, pipe: Pipe) -> None:
        if pipe.end is not None:
            self._selector.unregister(pipe.end)
            os.close(pipe.end)
            pipe.end = None

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        running = {pid: child for pid, child in self._children.items() if child.outcome is None}
        used = usage.of_groups(running) if running else {}
        for pid, child in running.items():
            if now - child.started > child.job.timeout_seconds:
                self._stop(child, "timeout", f"no artifact after {child.job.timeout_seconds} s")
            elif (processes := used[pid].processes) > MAX_PROCESSES:
                self._stop(child, "error", f"ran {processes} processes at once, allowed are {MAX_PROCESSES}")
            elif (memory := used[pid].memory_bytes) > child.job.memory_bytes:
                self._stop(child, "memory", f"used {memory} bytes, allowed are {child.job.memory_bytes}")

    def _stop(self, child: Child, kind: str, message: str) -> None:
        """Ends a job from outside; what it says afterwards doesn't count."""
        if child.outcome is None:
            child.outcome = {"event": "failed", "kind": kind, "message": message}
        _kill_group(child.pid)

    def _reap(self) -> None:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._bury(*ended)
        except ChildProcessError:
            self._processes = False

    def _bury(self, pid: int, status: int, reply: bool = True) -> None:
        """Cleans up after a process that has ended: a job, an orphan of one, or who made headers."""
        child = self._children.pop(pid, None)
        if child is None:
            if pid == self._headers:
                self._headers = 0
            return
        _kill_group(pid)  # its compilers, when it left any
        # Everything that it said is in the pipes. An orphan that was just killed may still hold the
        # other ends for a moment: nobody waits for it.
        for pipe, read in ((child.replies, self._read_replies), (child.log, self._read_log)):
            with contextlib.suppress(BlockingIOError):
                while pipe.end is not None:
                    os.set_blocking(pipe.end, False)
                    read(child)
            self._close(pipe)
        remove(self._work_of(pid))
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
            tail = [*child.log_tail, child.log.partial.decode(errors="replace")]
            message = "\n".join([message, *(line for line in tail if line.strip())])
        self._send_failure(child.job.id, outcome["kind"], message, seconds)

    def _send_failure(self, job_id: int, kind: str, message: str, seconds: float) -> None:
        if len(message) > MESSAGE_CHARACTERS:
            half = MESSAGE_CHARACTERS // 2
            message = f"{message[:half]}\n...\n{message[-half:]}"
        failure = {"event": "failed", "id": job_id, "kind": kind, "message": message, "seconds": seconds}
        send(self._reply_fd, failure)


def _reply(line: bytes) -> dict[str, Any]:
    """Raises ValueError for a line that no child writes that is its own master, RecursionError for a deep one."""
    reply = json.loads(line)
    match reply:
        case {"event": "phase", "phase": str(phase)} if phase in PHASES and reply.keys() == {"event", "id", "phase"}:
            return reply
        case {"event": "failed", "kind": "refused" | "error" | "memory", "message": str()}:
            return reply
        case {"event": "done"}:
            return reply
    raise ValueError("no reply")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
