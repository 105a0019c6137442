"""What a job can't do. A file of passes runs as a part of the job: it tries, and the job reports what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler.sandbox import landlock, seccomp
from tests.compiler.conftest import ROOT, Compiler
from tests.compiler.test_worker import Worker
from tests.integration.daemon import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(landlock.version() < 6, reason=f"Landlock 6 is needed, this kernel has {landlock.version()}"),
    pytest.mark.skipif(not seccomp.available(), reason="this kernel takes no seccomp filter"),
]

DENIED = r"PermissionError: \[Errno 13\] Permission denied"
REFUSED = r"PermissionError: \[Errno 1\] Operation not permitted"
BEGIN = """
import ctypes, mmap, os, resource, signal, socket, subprocess, sys
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""

REFUSALS = [
    # The network, and sockets of this host.
    ("socket.create_connection(('127.0.0.1', PORT))", DENIED),
    ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', DATAGRAMS))", DENIED),
    ("socket.socket(socket.AF_INET6)", DENIED),
    ("socket.socket(socket.AF_UNIX).connect(UNIX)", DENIED),
    ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", DENIED),
    ("call(425, 8, None)  # io_uring", REFUSED),
    # Files of others.
    ("open(OTHER)", DENIED),
    ("open(SECRET)", DENIED),
    ("open(os.path.expanduser('~/.netrc'))", DENIED),
    ("open(ENTRY)", DENIED),
    ("open(REPOSITORY + '/README.md')", DENIED),
    ("open('/etc/shadow')", DENIED),
    ("os.listdir('/')", DENIED),
    ("os.listdir(SCRATCH + '/work')", DENIED),
    ("subprocess.run(['cat', SECRET], check=True, stderr=1)", "CalledProcessError"),
    # Other processes, as files.
    ("open(f'/proc/{parent}/environ')", DENIED),
    ("open(f'/proc/{TEST}/mem', 'rb')", DENIED),
    ("os.listdir(f'/proc/{parent}/fd')", DENIED),
    ("os.listdir('/proc')", DENIED),
    # What it may not change.
    ("open(REPOSITORY + '/compiler/planted.py', 'w')", DENIED),
    ("open(REPOSITORY + '/compiler/__init__.py', 'a')", DENIED),
    ("open(ENTRY, 'w')", DENIED),
    ("os.truncate(ENTRY, 0)", DENIED),
    ("os.unlink(ENTRY)", DENIED),
    ("os.replace(ENTRY, ENTRY + '.moved')", DENIED),
    ("open(SECRET + '.new', 'w')", DENIED),
    ("open(SCRATCH + '/planted', 'w')", DENIED),
    ("open('/dev/shm/planted', 'w')", DENIED),
    ("os.memfd_create('memory')", REFUSED),
    ("call(29, 0, 1 << 30, 0o1600)  # shmget", REFUSED),
    ("os.chown(ENTRY, 1, 1)", REFUSED),
    ("os.setxattr(ENTRY, 'user.planted', b'x')", REFUSED),
    # Other processes.
    ("os.kill(parent, signal.SIGKILL)", REFUSED),
    ("os.kill(TEST, 0)", REFUSED),
    ("resource.prlimit(parent, resource.RLIMIT_NOFILE, (0, 0))", REFUSED),
    ("os.sched_setaffinity(parent, {0})", REFUSED),
    ("call(101, 16, parent, None, None)  # ptrace", REFUSED),
    ("call(310, parent, None, 0, None, 0, 0)  # process_vm_readv", REFUSED),
    # Out of the group, and of what holds it.
    ("os.setsid()", REFUSED),
    ("subprocess.check_output([sys.executable, '-c', 'import os; os.setsid()'])", "CalledProcessError"),
    ("os.setpgid(0, 0)", REFUSED),
    ("subprocess.run(['true'], start_new_session=True)", REFUSED),
    ("call(157, 1, 0, 0, 0, 0)  # prctl: outlive the parent", REFUSED),
    ("call(272, 0x10000000)  # unshare: a user namespace", REFUSED),
    ("call(56, 0x10000011, None, None, None, None)  # clone into one", REFUSED),
    ("call(435, None, 0)  # clone3", r"OSError: \[Errno 38\] Function not implemented"),
    ("call(0x40000000 + 39)  # getpid of x32", r"OSError: \[Errno 38\] Function not implemented"),
    ("call(165, None, None, None, 0, None)  # mount", REFUSED),
    ("call(321, 0, None, 0)  # bpf", REFUSED),
    ("os.chroot('/usr')", REFUSED),
    ("resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))", "not allowed to raise maximum limit"),
]


class Host:
    """What a job should not come to, and a worker whose jobs try."""

    def __init__(
        self, scratch: Path, compiler: Compiler, folder: Path, worker: str = "compiler.worker", *arguments: str
    ) -> None:
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
        self._compiler = compiler
        self.scratch = scratch
        self.folder = folder
        self.program = compiler.save(torch.export.export(net, (torch.zeros(2, 4),)))
        self.other_program = compiler.save(torch.export.export(net, (torch.zeros(3, 4),)))
        self.secret = folder / "home" / ".netrc"
        self.secret.parent.mkdir()
        self.secret.write_text("a password")
        self.entry = folder / "cache" / "model.so"
        self.entry.parent.mkdir()
        self.entry.write_text("an artifact")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.datagrams.setblocking(False)
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "socket"))
        self.unix.listen()
        home = str(self.secret.parent)
        self.worker = Worker(scratch, worker, *arguments, HOME=home, STOKER_TEST_SECRET="of the environment")
        self.names: dict[str, Any] = {
            "PORT": self.listener.getsockname()[1], "DATAGRAMS": self.datagrams.getsockname()[1],
            "UNIX": str(folder / "socket"), "OTHER": str(self.other_program), "SECRET": str(self.secret),
            "ENTRY": str(self.entry), "REPOSITORY": str(ROOT), "SCRATCH": str(scratch), "TEST": os.getpid(),
        }  # fmt: skip

    def close(self) -> None:
        for end in (self.listener, self.datagrams, self.unix):
            end.close()
        assert self.worker.close() == 0

    def request(self, attempt: str | None = None, **changes: Any) -> dict[str, Any]:
        """A job for a healthy program; with passes that attempt something, where there is such a thing."""
        request = self._compiler.request(self.program, {})
        self.names["STAGE"] = request["stage"]
        if attempt is not None:
            passes = self.folder / "passes.py"
            names = "".join(f"{name} = {value!r}\n" for name, value in self.names.items())
            passes.write_text(BEGIN + names + textwrap.dedent(attempt) + "\nraise RuntimeError('it did')\n")
            request["factors"]["passes"] = hashlib.sha256(passes.read_bytes()).hexdigest()
            request["passes"] = str(passes)
        return {**request, **changes}

    def failure_of(self, attempt: str, **changes: Any) -> tuple[str, str]:
        """The kind and the first line of what the job reports."""
        request = self.request(attempt, **changes)
        self.worker.send(request)
        failed = self.worker.outcome(request["id"])
        assert failed["event"] == "failed", failed
        return failed["kind"], failed["message"].splitlines()[0]


@pytest.fixture(scope="module")
def host(scratch: Path, compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(scratch, compiler, tmp_path_factory.mktemp("host"))
    yield host
    host.close()


def test_a_worker_says_what_holds_its_jobs(host: Host) -> None:
    assert host.worker.ready["sandbox"] == f"landlock {landlock.version()}, seccomp"


@pytest.fixture(scope="module")
def outcomes(host: Host) -> list[str]:
    """What came of each of REFUSALS, in one job."""
    _, message = host.failure_of(
        f"""
        import json
        outcomes = []
        for attempt in {[attempt for attempt, _ in REFUSALS]!r}:
            try:
                exec(attempt, globals())
                outcomes.append("it did")
            except Exception as error:
                outcomes.append(f"{{type(error).__name__}}: {{error}}")
        open(STAGE + "/outcomes", "w").write(json.dumps(outcomes))
        """
    )
    assert message.endswith("RuntimeError: it did"), message
    return json.loads((Path(host.names["STAGE"]) / "outcomes").read_text())


@pytest.mark.parametrize(("number", "attempt"), enumerate(attempt for attempt, _ in REFUSALS))
def test_what_is_refused(outcomes: list[str], number: int, attempt: str) -> None:
    assert re.search(REFUSALS[number][1], outcomes[number]), outcomes[number]


def test_nothing_was_changed(host: Host) -> None:
    """Of what is refused in silence, and of all the attempts before."""
    before = host.entry.stat().st_mode
    kind, message = host.failure_of("os.chmod(ENTRY, 0o777)")
    assert (kind, message.endswith("RuntimeError: it did")) == ("error", True)
    assert host.entry.stat().st_mode == before
    assert host.entry.read_text() == "an artifact" and host.secret.read_text() == "a password"
    assert list(host.entry.parent.iterdir()) == [host.entry] and list(host.secret.parent.iterdir()) == [host.secret]
    with pytest.raises(BlockingIOError):
        host.datagrams.recv(1)


def test_descriptors_of_the_worker(host: Host) -> None:
    """Of the others' pipes, and of the lock that says that its folder is in use."""
    attempt = """
        held = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                held[int(name)] = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                pass
        raise RuntimeError(sorted({where.split(":")[0] for where in held.values()}))
        """
    assert host.failure_of(attempt)[1].endswith(f"RuntimeError: ['/dev/null', '{host.program}', 'pipe']")


@pytest.mark.parametrize(
    "reply",
    [
        b"garbage", b"[" * 100_000, b'{"event":"phase","id":1,"phase":"dancing"}', b'{"event":"done"', b"\xff",
        b'{"event":"failed","kind":"a new one","message":""}', b"x" * (3 << 20),
    ],
    ids=["no JSON", "deep", "no phase", "half", "no text", "no kind", "long"],
)  # fmt: skip
def test_replies_that_are_none(host: Host, reply: bytes) -> None:
    """What the job writes is the job's; the worker that reads it is everybody's."""
    kind, message = host.failure_of(
        f"""
        pipes = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
        for descriptor in pipes:
            try:
                if "pipe" in os.readlink(f"/proc/self/fd/{{descriptor}}"):
                    os.write(descriptor, {reply!r})
                    os.write(descriptor, b"\\n")
            except OSError:
                pass
        signal.pause()
        """
    )
    assert kind == "error" and message.startswith("the compile process sent what is no reply: b"), message


def test_folders_too_deep_for_python(host: Host) -> None:
    """Its own cleaning up fails on them; the worker's must not."""
    attempt = """
        os.chdir(os.environ["TMPDIR"] + "/..")
        for _ in range(3000):
            os.mkdir("deep")
            os.chdir("deep")
        os._exit(1)
        """
    # The scratch folder may be shared with other workers; no job of theirs leaves a folder of this name.
    assert host.failure_of(attempt)[0] == "crashed"
    assert not list(host.scratch.glob("work/*/*/deep"))


def test_root_is_held_too(host: Host) -> None:
    attempt = "raise RuntimeError(open('/proc/self/status').read().split('CapEff:')[1].split()[0])"
    _, message = host.failure_of(attempt)
    held = int(message.split()[-1], 16)
    assert held & ~0b110 == 0, f"capabilities {held:x}, expected those for files at most"


def test_a_process_that_left_its_parent_ends_with_the_job(host: Host) -> None:
    kind, message = host.failure_of(
        """
        read, write = os.pipe()
        if os.fork() == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if os.fork() == 0:
                os.write(write, b"%d\\n" % os.getpid())
                while True:
                    signal.pause()
            os._exit(0)
        os.wait()
        raise RuntimeError(f"daemon {os.read(read, 100).decode()}")
        """
    )
    daemon = re.search(r"daemon (\d+)", message)
    assert kind == "error" and daemon, message
    eventually(lambda: not Path(f"/proc/{daemon[1]}").exists(), "it ends", 20)


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        ("subprocess.run(['sh', '-c', 'for n in $(seq 2000); do sleep 600 & done; wait'])", ["error"]),
        # Of a process this large fewer are too much.
        ("for _ in range(2000):\n    if os.fork() == 0: signal.pause()", ["error", "memory"]),
        ("while True: os.fork()", ["error", "memory"]),
    ],
    ids=["small ones", "large ones", "that fork"],
)
def test_a_fork_bomb(host: Host, attempt: str, expected: list[str]) -> None:
    kind, message = host.failure_of(attempt)
    assert kind in expected and re.match(r"ran \d+ processes at once, allowed are 128|used \d+ bytes", message), message
    eventually(lambda: host.worker.jobs() == [], "they all end", 20)


def test_a_job_that_answered_is_over(host: Host) -> None:
    """Whatever it does afterwards: here a child of it answers, and it stays."""
    attempt = "if os.fork() == 0: raise RuntimeError('enough')\nwhile True: signal.pause()"
    assert host.failure_of(attempt)[1].endswith("RuntimeError: enough")


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        ("bytearray(64 << 30)", "MemoryError"),
        ("mmap.mmap(-1, 64 << 30, mmap.MAP_PRIVATE)", "Cannot allocate memory"),
        ("subprocess.run([sys.executable, '-c', 'bytearray(64 << 30)'], check=True, stderr=1)", "CalledProcessError"),
        (
            """
            memory = mmap.mmap(-1, 8 << 30)  # shared, which no limit of a process counts
            for page in range(0, len(memory), mmap.PAGESIZE):
                memory[page] = 1
            """,
            r"used \d+ bytes, allowed are 1073741824",
        ),
        (
            """
            for _ in range(4):
                if os.fork() == 0:
                    held = b"x" * (100 << 20)
                    signal.pause()
            signal.pause()
            """,
            r"used \d+ bytes, allowed are 1073741824",
        ),
    ],
    ids=["bytearray", "private", "of a grandchild", "shared", "of several processes"],
)
def test_memory(host: Host, attempt: str, expected: str) -> None:
    kind, message = host.failure_of(attempt, memory_bytes=1 << 30)
    assert re.search(expected, message), message
    assert kind == ("error" if expected == "CalledProcessError" else "memory")


def test_limits_of_each_process(host: Host) -> None:
    assert "File too large" in host.failure_of("open(os.environ['TMPDIR'] + '/large', 'w').truncate(5 << 30)")[1]
    code = "import resource; print(*[resource.getrlimit(w)[1] for w in (resource.RLIMIT_CPU, resource.RLIMIT_CORE)])"
    attempt = f"raise RuntimeError(subprocess.check_output([sys.executable, '-c', {code!r}], text=True))"
    _, message = host.failure_of(attempt, timeout_seconds=50)
    assert message.endswith(f"RuntimeError: {50 * (os.cpu_count() or 1)} 0"), message


def test_a_healthy_job_makes_what_it_makes_outside(host: Host, compiler: Compiler) -> None:
    """After all that was tried, and to the byte."""
    outside = compiler.compile(host.program, {})
    request = host.request()
    host.worker.send(request)
    assert host.worker.outcome(request["id"])["event"] == "done"
    inside = Path(request["stage"])
    assert (inside / "model.so").read_bytes() == (outside.folder / "model.so").read_bytes()
    assert {path.name for path in inside.iterdir()} == {path.name for path in outside.folder.iterdir()}


def test_a_kernel_with_neither(scratch: Path, compiler: Compiler, tmp_path: Path, capfd: Any) -> None:
    """Jobs run all the same, and the worker says once what they can."""
    host = Host(scratch, compiler, tmp_path, "tests.fakes.bare_kernel")
    try:
        assert host.worker.ready["sandbox"] == "none"
        for _ in range(2):
            assert "RuntimeError: a password" in host.failure_of("raise RuntimeError(open(SECRET).read())")[1]
    finally:
        host.close()
    assert capfd.readouterr().err.count("the sandbox of compile jobs has gaps on this kernel: they can read and ") == 1


def test_an_operator_may_do_without(scratch: Path, compiler: Compiler, tmp_path: Path, capfd: Any) -> None:
    """Jobs keep their limits."""
    host = Host(scratch, compiler, tmp_path, "compiler.worker", "--no-sandbox")
    try:
        assert host.worker.ready["sandbox"] == "none"
        assert "RuntimeError: a password" in host.failure_of("raise RuntimeError(open(SECRET).read())")[1]
        assert host.failure_of("bytearray(64 << 30)")[0] == "memory"
    finally:
        host.close()
    assert "compile jobs can do all that this user can: --no-sandbox" in capfd.readouterr().err


OLDER = """
import ctypes, os, signal, sys
from pathlib import Path
from compiler.sandbox import landlock, seccomp
from compiler.sandbox.confine import confine, lacks

landlock.version = lambda: int(sys.argv[1])
mine, other, parent = Path(sys.argv[2]), Path(sys.argv[3]), os.getppid()
print(lacks())
sys.stdout.flush()
confine([(mine, landlock.WRITE)])
(mine / "folder").mkdir()
(mine / "folder/file").write_text("text")
for attempt in (other.read_bytes, lambda: other.with_name("x").touch(), lambda: os.kill(parent, 0), other.unlink):
    try:
        attempt()
    except PermissionError:
        continue
    print("it did", flush=True)
os.abort()
"""


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_an_older_landlock(version: int, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    other = tmp_path / "other"
    other.write_text("another's")
    command = [sys.executable, "-c", OLDER, str(version), str(tmp_path / "mine"), str(other)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    gaps = f"truncate their user's files (Landlock is of version {version})" if version < 3 else ""
    assert done.stdout == gaps + "\n", done.stderr
    # Where seccomp has to refuse signals, to oneself too, abort() ends by a trap.
    assert done.returncode == -(signal.SIGABRT if version >= 6 else signal.SIGSEGV), done.stderr
    assert other.read_text() == "another's"


def test_a_program_that_another_process_holds_open(host: Host) -> None:
    """As /proc names it, which is out of sight once the job runs; the name in the folder is gone."""
    held = host.folder / "held.pt2"
    held.write_bytes(host.program.read_bytes())
    with open(held, "rb") as file:
        held.unlink()
        _, message = host.failure_of("", program=f"/proc/{os.getpid()}/fd/{file.fileno()}")
    assert message.endswith("RuntimeError: it did"), message
