"""What systemd hears of the daemon: ready, alive, stopping, and how far it is."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.certificates import Authority
from tests.integration.daemon import Daemon


class Manager:
    """The end of NOTIFY_SOCKET that systemd has."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.heard: list[str] = []

    def hear(self, beginning: str, seconds: float = 60) -> str:
        """The next message that begins so; those before it are kept in `heard`."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                self.heard.append(self._socket.recv(4096).decode())
            except TimeoutError:
                break
            if self.heard[-1].startswith(beginning):
                return self.heard[-1]
        raise AssertionError(f"no {beginning}, only {self.heard}")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    listening = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    yield listening
    listening.close()


def test_ready_alive_stopping(
    manager: Manager, repository: Callable[..., Path], start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "6000000")
    with start(repository("identity")) as daemon:
        manager.hear("READY=1")
        manager.hear("WATCHDOG=1")
        assert daemon.client().is_server_ready()
        assert manager.hear("STATUS=") == "STATUS=1 of 1 versions served"
        manager.hear("WATCHDOG=1", 12)
        # What doesn't run can't say that it does.
        daemon.process.send_signal(signal.SIGSTOP)
        with pytest.raises(AssertionError, match="no WATCHDOG=1"):
            manager.hear("WATCHDOG=1", 8)
        daemon.process.send_signal(signal.SIGCONT)
        manager.hear("WATCHDOG=1", 12)
        daemon.process.send_signal(signal.SIGTERM)
        manager.hear("STOPPING=1")
        assert daemon.process.wait(40) == 0


def test_alive_where_clients_need_certificates(
    manager: Manager, repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("WATCHDOG_USEC", "6000000")
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.sign("server", "DNS:localhost")
    flags = [f"--tls-certificate={certificate}", f"--tls-key={key}", f"--tls-client-ca={authority.certificate}"]
    with start(repository("identity"), *flags) as daemon:
        manager.hear("READY=1")
        manager.hear("WATCHDOG=1")
        manager.hear("WATCHDOG=1", 12)
        daemon.process.send_signal(signal.SIGSTOP)
        with pytest.raises(AssertionError, match="no WATCHDOG=1"):
            manager.hear("WATCHDOG=1", 8)
        daemon.process.send_signal(signal.SIGCONT)
        manager.hear("WATCHDOG=1", 12)
        assert daemon.stop() == 0
    assert "handshake" not in daemon.log()


def test_what_is_not_ready_is_not_announced(
    manager: Manager, repository: Callable[..., Path], start: Callable[..., Daemon]
) -> None:
    root = repository("identity")
    (root / "identity/model.yaml").write_text("buckets: 7\n")
    with start(root) as daemon:
        said = manager.hear("STATUS=")
        assert said.startswith("STATUS=0 of 1 versions served; identity:1 failed: ") and "buckets" in said
        assert daemon.stop() == 0
    assert "READY=1" not in manager.heard


@pytest.mark.parametrize("name", ["relative", "/nobody/listens/here", "@" + "x" * 200])
def test_a_manager_that_cannot_be_told_is_done_without(
    name: str, repository: Callable[..., Path], start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.setenv("WATCHDOG_USEC", "soon")
    with start(repository("identity")) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0


def test_another_process_s_watchdog_is_not_this_one_s(
    manager: Manager, repository: Callable[..., Path], start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with start(repository("identity")) as daemon:
        manager.hear("READY=1")
        manager.hear("STATUS=")
        with pytest.raises(AssertionError, match="no WATCHDOG=1"):
            manager.hear("WATCHDOG=1", 6)
        assert daemon.stop() == 0
