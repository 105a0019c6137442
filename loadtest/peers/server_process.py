"""One server under test: started on free ports of loopback, watched, and always ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import tritonclient.grpc as triton

STOP_SECONDS = 20
LOG_LINES = 12


class ServerError(Exception):
    """A server that didn't start; the end of its log is in the text."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on. Another process could take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ServerProcess:
    """A running server of the Open Inference Protocol, in a process group of its own.

    Use as a context manager: on leaving it, the server gets SIGTERM, and after STOP_SECONDS whatever
    is left of its group is killed.
    """

    def __init__(
        self, command: list[str], port: int, log: Path, variables: dict[str, str], folder: Path
    ) -> None:
        self.address = f"127.0.0.1:{port}"
        self.version = ""
        self.ready_seconds = 0.0
        self._log = log
        self._started = time.monotonic()
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=folder,
                start_new_session=True,
            )

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self, models: tuple[str, ...], seconds: float) -> None:
        """Until every model answers that it is ready; `ready_seconds` counts from the launch."""
        deadline = self._started + seconds
        # gRPC waits a second before it tries again a port that nobody listens on yet.
        self._until(self._listens, deadline)
        with triton.InferenceServerClient(self.address) as client:

            def ready() -> bool:
                try:
                    return all(client.is_model_ready(model, client_timeout=5) for model in models)
                except triton.InferenceServerException:
                    return False  # it doesn't know the model yet

            self._until(ready, deadline)
            self.ready_seconds = time.monotonic() - self._started
            self.version = client.get_server_metadata().version

    def _until(self, condition: Callable[[], bool], deadline: float) -> None:
        while not condition():
            if self._process.poll() is not None:
                raise ServerError(f"ended with {self._process.returncode} before it was ready{self._said()}")
            if time.monotonic() > deadline:
                raise ServerError(f"not ready within {deadline - self._started:.0f} s{self._said()}")
            time.sleep(0.01)

    def _listens(self) -> bool:
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            return False
        return True

    def resident_bytes(self) -> int:
        """Of all its processes; pages that several share are counted once (PSS)."""
        return sum(_pss_bytes(pid) for pid in self._pids())

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _pids(self) -> list[int]:
        """Its process and all living descendants."""
        found, pending = [], [self._process.pid]
        while pending:
            pid = pending.pop()
            found.append(pid)
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    pending += [int(child) for child in children.read_text().split()]
                except OSError:
                    continue  # the thread has ended
        return found

    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "; the end of its log:\n    " + "\n    ".join(lines) if lines else "; its log is empty"


def _pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # the process has ended
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
