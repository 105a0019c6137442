"""Sockets that a service manager has opened are served, outlive the daemon, and are nobody else's."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
import torch
from tritonclient.grpc import service_pb2

from loadtest.servers.process import ServerProcess, free_ports
from loadtest.servers.stokerd import STOKERD, command
from tests.integration import http1
from tests.integration.daemon import Daemon, eventually, health_page
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}

# What systemd does between fork and exec: the sockets are descriptors 3, 4 and so on, and LISTEN_PID is the process.
LAUNCHER = f"""#!{sys.executable}
import fcntl, os, sys
numbers = [int(number) for number in os.environ.pop("TEST_SOCKETS").split()]
given = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in numbers]
for number in numbers:
    os.close(number)
for place, descriptor in enumerate(given, 3):
    os.dup2(descriptor, place)
    os.close(descriptor)
os.environ.setdefault("LISTEN_PID", str(os.getpid()))
os.environ.setdefault("LISTEN_FDS", str(len(given)))
os.execv({str(STOKERD)!r}, [{str(STOKERD)!r}, *sys.argv[1:]])
"""


class Manager:
    """A service manager with sockets that are its own."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._launcher = folder / "launch"
        self._launcher.write_text(LAUNCHER)
        self._launcher.chmod(0o755)
        self._folder = folder
        self._root = root
        self._count = 0
        self.sockets: list[tuple[str, socket.socket]] = []

    def open(self, name: str, address: str | tuple[str, int] = ("127.0.0.1", 0), listen: bool = True) -> socket.socket:
        made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        made.bind(address)
        if listen:
            made.listen()
        self.sockets.append((name, made))
        return made

    def port(self, name: str) -> int:
        return next(made.getsockname()[1] for have, made in self.sockets if have == name)

    def _environment(self, changed: Mapping[str, str]) -> dict[str, str]:
        numbers = " ".join(str(made.fileno()) for _, made in self.sockets)
        names = ":".join(name for name, _ in self.sockets)
        return {**os.environ, "TEST_SOCKETS": numbers, "LISTEN_FDNAMES": names, **changed}

    def start(self, *flags: str) -> Daemon:
        self._count += 1
        log = self._folder / f"stokerd-{self._count}.log"
        return Daemon(
            self._root, self._folder / "cache", log, "--no-compile", *flags, binary=self._launcher,
            environment=self._environment({}), descriptors=[made.fileno() for _, made in self.sockets],
        )  # fmt: skip

    def fails(self, *flags: str, **changed: str) -> tuple[int, str]:
        """Exit code and what it says."""
        done = subprocess.run(
            command(self._root, self._folder / "cache", "--no-compile", *flags, binary=self._launcher),
            env=self._environment(changed), pass_fds=[made.fileno() for _, made in self.sockets],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr


@pytest.fixture
def manager(tmp_path: Path, repository: Callable[..., Path]) -> Iterator[Manager]:
    with ExitStack() as opened:
        made = Manager(tmp_path, repository("identity"))
        yield made
        for _, each in made.sockets:
            opened.enter_context(each)


def infer(target: str) -> None:
    with grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        answer = stub(channel).ModelInfer(raw_request("identity", X), timeout=30, wait_for_ready=True)
        assert_same(read(answer), eager("identity", X))


def test_each_port_may_be_the_service_manager_s(manager: Manager) -> None:
    for name in ("metrics", "grpc", "http"):
        manager.open(name)
    with manager.start("--listen=fd:grpc", "--http-listen=fd:http", "--metrics-listen=fd:metrics") as daemon:
        assert (daemon.port, daemon.http_port) == (manager.port("grpc"), manager.port("http"))
        daemon.wait_ready()
        infer(daemon.address)
        assert http1.ask(manager.port("http"), "GET", "/v2/health/ready").status == 200
        assert health_page(daemon, "readiness")[0] == 200
        assert f"gRPC listens on fd:grpc, port {daemon.port}" in daemon.log()
        # On loopback nobody has to be warned of, and no socket is a child's.
        assert "whoever reaches" not in daemon.log() and "the service manager passed" not in daemon.log()
        folder = Path(f"/proc/{daemon.process.pid}")
        ours = {f"socket:[{os.fstat(made.fileno()).st_ino}]" for _, made in manager.sockets}
        held = [entry.name for entry in (folder / "fd").iterdir() if os.readlink(entry) in ours]
        assert len(held) == 3
        for number in held:
            flags = (folder / "fdinfo" / number).read_text().split("flags:")[1].split()[0]
            assert int(flags, 8) & os.O_CLOEXEC
        assert daemon.stop() == 0


def test_who_comes_between_two_daemons_is_answered(manager: Manager) -> None:
    """Nobody is refused while there is no daemon: the socket stays."""
    manager.open("stoker.socket")
    with manager.start("--listen=fd:stoker.socket", "--http-listen=none") as first:
        first.wait_ready()
        assert first.stop() == 0
    with grpc.insecure_channel(f"127.0.0.1:{manager.port('stoker.socket')}") as channel:
        early = stub(channel).ServerLive.future(service_pb2.ServerLiveRequest(), timeout=120, wait_for_ready=True)
        with manager.start("--listen=fd:stoker.socket", "--http-listen=none") as second:
            assert early.result().live
            second.wait_ready()
            infer(second.address)


def test_all_sockets_of_a_name(manager: Manager, tmp_path: Path) -> None:
    manager.open("grpc", ("0.0.0.0", 0))
    manager.open("grpc", str(tmp_path / "grpc.sock"))
    unasked = manager.open("debug")
    with manager.start("--listen=fd:grpc") as daemon:
        daemon.wait_ready()
        infer(daemon.address)
        infer(f"unix:{tmp_path / 'grpc.sock'}")
        assert "whoever reaches fd:grpc may use it, in plain text" in daemon.log()
        assert "the service manager passed sockets that no option asks for (fd:NAME): 'debug'" in daemon.log()
        ours = f"socket:[{os.fstat(unasked.fileno()).st_ino}]"
        links = [os.readlink(entry) for entry in Path(f"/proc/{daemon.process.pid}/fd").iterdir()]
        assert ours not in links
        assert daemon.stop() == 0
    assert (tmp_path / "grpc.sock").exists()


def test_what_is_wrong_is_said(manager: Manager) -> None:
    missing = "can't listen for gRPC on 'fd:grpc': expected a socket of that name from the service manager"
    code, said = manager.fails("--listen=fd:grpc")
    assert code == 1 and missing in said and said.endswith("got none\n")
    manager.open("http")
    code, said = manager.fails("--listen=fd:grpc")
    assert code == 1 and missing in said and said.endswith("got 'http'\n")
    # Those of another process, which was this one's parent.
    code, said = manager.fails("--listen=fd:http", LISTEN_PID=str(os.getpid()))
    assert code == 1 and said.endswith("got none\n")
    for changed, expected in (
        ({"LISTEN_FDS": "one"}, "expected a number of sockets from 0 to 1000 in LISTEN_FDS"),
        ({"LISTEN_FDS": "-1"}, 'got "-1"'),
        ({"LISTEN_FDS": "1000", "LISTEN_FDNAMES": ""}, "expected 1000 open descriptors from 3 on"),
        ({"LISTEN_PID": "me"}, "expected a process' number in LISTEN_PID"),
        ({"LISTEN_FDNAMES": "a:b"}, "expected 1 names in LISTEN_FDNAMES, as many as sockets"),
    ):
        code, said = manager.fails("--listen=127.0.0.1:0", **changed)
        assert code == 1 and expected in said, said
    code, said = manager.fails("--listen=fd:")
    assert code == 2 and "--listen" in said and "expected fd:NAME with a name of 1 to 255 bytes" in said
    manager.open("connected", listen=False)
    code, said = manager.fails("--listen=fd:connected")
    assert code == 1 and "got a socket that doesn't listen, as one of Accept=yes" in said
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    manager.sockets.append(("datagrams", datagrams))
    code, said = manager.fails("--listen=fd:datagrams")
    assert code == 1 and "got a socket that is none of streams" in said
    code, said = manager.fails("--listen=fd:http", "--http-listen=fd:http", "--metrics-listen=127.0.0.1:0")
    assert code == 1 and "can't listen for HTTP on 'fd:http'" in said


def test_by_systemd_s_own_program(tmp_path: Path, repository: Callable[..., Path]) -> None:
    """It starts the daemon when the first client comes, who is answered."""
    grpc_port, http_port = free_ports(2)
    line = command(
        repository("identity"), tmp_path / "cache", "--no-compile", "--listen=fd:grpc", "--http-listen=fd:http",
        "--metrics-listen=127.0.0.1:0",
    )  # fmt: skip
    activate = [
        "systemd-socket-activate", "-l", f"127.0.0.1:{grpc_port}", "-l", f"127.0.0.1:{http_port}",
        "--fdname=grpc:http", *line,
    ]  # fmt: skip
    with ServerProcess(activate, tmp_path / "stokerd.log") as daemon:
        eventually(lambda: "Listening on" in daemon.log(), "systemd-socket-activate listens", 30)
        assert "stokerd" not in daemon.log().replace(str(STOKERD), "")
        body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}]}
        eventually(lambda: http1.ask(http_port, "GET", "/v2/health/ready").status == 200, "it is ready")
        answer = http1.ask(http_port, "POST", "/v2/models/identity/infer", json.dumps(body).encode())
        assert answer.status == 200
        infer(f"127.0.0.1:{grpc_port}")
        assert daemon.stop() == 0
