"""A program that serves: launched for as long as a context lasts, its output in a file, and always ended.

    with ServerProcess(["./server", "--port=9000"], log=folder / "server.log") as server:
        server.until(lambda: listens(9000), 60, "it listens")

The constructor launches, in a process group of its own. When the context is left, however it came to that, nothing
of the group is left either: the server gets SIGTERM, and after `grace_seconds` (0: at once) whatever is there is
killed. What it writes to stdout and stderr goes to the file `log`, which stays.

One thread launches and ends a server; any thread may ask it things meanwhile.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

LOG_LINES = 20
POLL_SECONDS = 0.01


class ServerError(Exception):
    """A server that did not do what it was waited for; the end of its log is in the text."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on. Another process could take one before it is used: where a server
    can choose its port itself and say which, that is better."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def listens(port: int) -> bool:
    """Whether a connection to the port of loopback is accepted."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], seconds: float, poll_seconds: float = POLL_SECONDS) -> bool:
    """Whether `condition` held within so many seconds; it is asked at least once."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True


class ServerProcess:
    """A launched program; the module says what is promised.

    `environment` is this process' where none is given; `descriptors` are the program's as well. `process` may be used
    for signals and to wait for its end.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        grace_seconds: float = 20,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.log_path = log
        self._grace_seconds = grace_seconds
        with open(log, "wb") as output:
            self._launched = time.monotonic()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
                pass_fds=descriptors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What leaving the context does; again, it does nothing."""
        if self._grace_seconds > 0 and not self.ended():
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self._grace_seconds)
        with suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 40) -> int:
        """SIGTERM; the exit code. Raises subprocess.TimeoutExpired when it does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL to the server alone, as the kernel would."""
        self.process.kill()
        self.process.wait()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def since_launch(self) -> float:
        """Seconds."""
        return time.monotonic() - self._launched

    def until(
        self, condition: Callable[[], bool], seconds: float, what: str, poll_seconds: float = POLL_SECONDS
    ) -> float:
        """Waits until `condition` holds; returns the seconds since the launch. Raises ServerError, saying `what` was
        waited for, when the server ends before or it does not hold within so many seconds from now."""
        held = wait_until(lambda: self.ended() or condition(), seconds, poll_seconds)
        if held and not self.ended():
            return self.since_launch()
        # It may have come to hold and ended since.
        if self.ended() and condition():
            return self.since_launch()
        how = f"ended with {self.process.returncode}" if self.ended() else f"not within {seconds:.0f} s"
        raise ServerError(f"{how}: {what}{self._said()}")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def logged(self, pattern: re.Pattern[str], seconds: float) -> re.Match[str]:
        """The first match in the log, waited for. Raises ServerError as `until` does."""
        self.until(lambda: pattern.search(self.log()) is not None, seconds, f"it says {pattern.pattern!r}")
        found = pattern.search(self.log())
        assert found is not None  # a log only grows
        return found

    def rss_bytes(self) -> int:
        """Of the server's own process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def resident_bytes(self) -> int:
        """Of all its processes; pages that several share are counted once (PSS)."""
        return sum(_pss_bytes(pid) for pid in [self.process.pid, *self.children()])

    def children(self) -> list[int]:
        """Process ids of all living descendants."""
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            pid = pending.pop()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    kids = [int(kid) for kid in task.read_text().split()]
                except OSError:
                    continue  # the thread has ended
                found += kids
                pending += kids
        return found

    def _said(self) -> str:
        lines = self.log().splitlines()[-LOG_LINES:]
        return "; the end of its log:\n    " + "\n    ".join(lines) if lines else "; its log is empty"


def _pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # the process has ended
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
