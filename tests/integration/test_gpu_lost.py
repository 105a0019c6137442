"""Proves that the daemon ends with the exit code for a lost GPU, after what still runs was answered."""

from __future__ import annotations

import signal

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon

EXIT_CODE = 5  # GpuGuard::kExitCode


def test_the_exit_code_asks_for_another_process(repository, start) -> None:
    daemon: Daemon
    with start(repository("mlp"), "--no-compile", "--drain-seconds=5") as daemon:
        daemon.wait_ready(60)
        with daemon.client() as client:
            check_mlp(client)
        # What the GPU's health sends; there is none here to be lost.
        daemon.process.send_signal(signal.SIGUSR1)
        assert daemon.process.wait(timeout=20) == EXIT_CODE
        assert "a GPU is lost: draining" in daemon.log()
