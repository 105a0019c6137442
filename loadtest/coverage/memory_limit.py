"""A limit for the memory of a launched program and all its descendants."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Self

from loadtest.servers.process import ServerProcess

POLL_SECONDS = 0.25


class MemoryLimit:
    """Kills a server that holds more than `megabytes` resident, as long as the context lasts."""

    def __init__(self, server: ServerProcess, megabytes: int) -> None:
        self._server, self._megabytes = server, megabytes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.exceeded = ""  # why it was killed, if it was

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            resident = self._server.resident_bytes() / 2**20
            if resident > self._megabytes:
                self.exceeded = f"took {resident:,.0f} MB, allowed are {self._megabytes:,}"
                # Its workers die with it.
                with suppress(ProcessLookupError):
                    os.kill(self._server.process.pid, signal.SIGKILL)
                return
