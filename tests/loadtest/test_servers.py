"""Servers that tests and measurements launch are waited for and always ended, whatever happens meanwhile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from loadtest.servers.process import ServerError, ServerProcess, free_ports, listens, wait_until

# Ends with 3 on SIGTERM; when "stubborn" it does not. Its child never does.
PROGRAM = """
import os, signal, sys, time
stubborn = "stubborn" in sys.argv
def end(*_):
    print("asked to end", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else end)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
print("up", flush=True)
time.sleep(600)
"""
UP = re.compile("^up$", re.MULTILINE)


def launched(folder: Path, *words: str, grace_seconds: float = 20) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", PROGRAM, *words], folder / "log", grace_seconds=grace_seconds)


def is_alive(pid: int) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(("words", "grace", "code"), [([], 20, 3), ([], 0, -9), (["stubborn"], 0.2, -9)])
def test_nothing_is_left(tmp_path: Path, words: list[str], grace: float, code: int) -> None:
    with launched(tmp_path, *words, grace_seconds=grace) as server:
        server.logged(UP, 60)
        (child,) = server.children()
    assert server.process.returncode == code
    assert ("asked to end" in server.log()) == (code == 3)
    assert wait_until(lambda: not is_alive(child), 10)


def test_nothing_is_left_of_one_that_was_killed(tmp_path: Path) -> None:
    with launched(tmp_path) as server:
        server.logged(UP, 60)
        (child,) = server.children()
        server.kill()
        assert server.ended() and is_alive(child)
    assert wait_until(lambda: not is_alive(child), 10)


def test_a_failure_within_ends_it_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), launched(tmp_path) as server:
        raise ZeroDivisionError
    assert server.ended()


def test_stop_gives_the_exit_code(tmp_path: Path) -> None:
    with launched(tmp_path, grace_seconds=0) as server:
        server.logged(UP, 60)
        assert server.stop() == 3


def test_the_wait_for_one_that_ends_says_how_and_what_it_said(tmp_path: Path) -> None:
    with ServerProcess([sys.executable, "-c", "print('no such model'); exit(7)"], tmp_path / "log") as server:
        with pytest.raises(ServerError, match=r"(?s)^ended with 7: it listens; the end of its log:\n    no such model"):
            server.until(lambda: False, 60, "it listens")


def test_the_wait_for_too_long_says_what_for(tmp_path: Path) -> None:
    with launched(tmp_path) as server:
        with pytest.raises(ServerError, match=r"not within 0 s: it is ready"):
            server.until(lambda: False, 0.05, "it is ready")
        assert server.until(lambda: True, 0, "nothing") <= server.since_launch()


def test_what_holds_when_it_has_ended_was_not_missed(tmp_path: Path) -> None:
    with ServerProcess([sys.executable, "-c", "print('up')"], tmp_path / "log") as server:
        server.process.wait(60)
        assert server.logged(UP, 0)[0] == "up"


def test_free_ports_are_free_and_differ() -> None:
    ports = free_ports(3)
    assert len(set(ports)) == 3
    assert not any(listens(port) for port in ports)
