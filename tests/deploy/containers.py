"""Docker for the tests: a daemon of their own, this repository's images, and stokerd in containers.

The daemon needs no network of the host's (no bridge, no iptables) and no registry: where the base image can't be
pulled it is made of Debian's packages. What it keeps between runs lies in $STOKER_TEST_SCRATCH/docker.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.daemon import Daemon, eventually
from tests.metrics_reference_test import REPOSITORY

BASE = "debian:bookworm-slim"
# With tags: `docker save` takes a name without one for all of its tags.
IMAGES = {
    "stoker:latest": "serve",
    "stoker:minimal": "serve-minimal",
    "stoker:cuda": "serve-cuda",
    "stoker:compile": "compile",
}
USER = "10001"
# Debian's: another client earlier on the path may lack what builds need.
DOCKER = "/usr/bin/docker"
HOUR = 3600


def member(archive: tarfile.TarFile, name: str | tarfile.TarInfo) -> io.BufferedReader:
    """A file in an archive."""
    file = archive.extractfile(name)
    assert isinstance(file, io.BufferedReader), f"{name} is no file"
    return file


class Docker:
    """The client, against one daemon."""

    def __init__(self, host: str | None) -> None:
        self._env = os.environ | {"DOCKER_BUILDKIT": "1"}
        if host:
            self._env["DOCKER_HOST"] = host

    def environment(self) -> dict[str, str]:
        """For other clients of the same daemon."""
        return {name: value for name, value in self._env.items() if name.startswith("DOCKER_")}

    def run(self, *arguments: object, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DOCKER, *map(str, arguments)],
            capture_output=True, text=True, env=self._env, timeout=seconds, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def __call__(self, *arguments: object, code: int = 0, seconds: float = 120) -> str:
        """What a command prints; the test fails when it ends with another code."""
        done = self.run(*arguments, seconds=seconds)
        assert done.returncode == code, f"docker {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def inspect(self, name: str) -> dict:
        return json.loads(self("inspect", name))[0]

    @contextmanager
    def files(self, image: str) -> Iterator[tarfile.TarFile]:
        """An image's files, as a container finds them."""
        container = self("create", image)
        with tempfile.TemporaryFile() as file:
            subprocess.run([DOCKER, "export", container], stdout=file, env=self._env, check=True)
            self("rm", container)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                yield archive

    def layers(self, image: str) -> list[Layer]:
        """From the bottom up."""
        sizes = []
        with tempfile.TemporaryFile() as file:
            subprocess.run([DOCKER, "save", image], stdout=file, env=self._env, check=True)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                manifest = json.load(member(archive, "manifest.json"))[0]
                digests = self.inspect(image)["RootFS"]["Layers"]
                for digest, name in zip(digests, manifest["Layers"], strict=True):
                    sizes.append(Layer(digest, member(archive, name)))
        return sizes

    def build(self, tag: str, target: str, folder: Path = REPOSITORY, *arguments: str) -> None:
        given = ["--network=host", f"--target={target}", f"--tag={tag}", *arguments]
        for name in ("http_proxy", "https_proxy", "no_proxy"):
            if os.environ.get(name):
                given.append(f"--build-arg={name}")
        # A private certificate authority of this host.
        if certificates := os.environ.get("PIP_CERT"):
            given.append(f"--secret=id=ca,src={certificates}")
        done = self.run("build", *given, folder, seconds=2 * HOUR)
        assert done.returncode == 0, done.stderr[-8000:]


class Layer:
    """One layer: how large it is, unpacked and as a registry would get it, and what it holds."""

    def __init__(self, digest: str, tar: io.BufferedReader) -> None:
        self.digest = digest
        with tempfile.NamedTemporaryFile() as file:
            shutil.copyfileobj(tar, file)
            file.flush()
            packed = subprocess.run(["zstd", "-3", "-q", "-c", file.name], capture_output=True, check=True)
            self.zstd_bytes = len(packed.stdout)
            with tarfile.open(file.name) as archive:
                members = archive.getmembers()
        self.bytes = sum(member.size for member in members)
        self.files = [member.name for member in members if not member.isdir()]


class Container(Daemon):
    """stokerd in a container, with its ports on loopback. Use as a context manager."""

    def __init__(
        self, docker: Docker, image: str, run: list[str], command: list[str], confined: bool = True
    ) -> None:
        self._docker = docker
        ports = ["-p", "127.0.0.1::8001", "-p", "127.0.0.1::8002"]
        limits = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=512"]
        given = [*ports, *(limits if confined else []), *run]
        self.id = docker("run", "-d", "--network=stoker", *given, image, *command)

    def __enter__(self) -> Container:
        try:
            eventually(lambda: "listening: gRPC port" in self.log() or self.ended(), "the daemon listens")
            assert not self.ended(), self.log()
            self.find_ports()
        except BaseException:
            self._close()
            raise
        return self

    def find_ports(self) -> None:
        """They change with a restart."""
        self.port = int(self._docker("port", self.id, "8001/tcp").split(":")[-1])
        self.metrics_port = int(self._docker("port", self.id, "8002/tcp").split(":")[-1])

    def _close(self) -> None:
        self._docker.run("rm", "-f", "-v", self.id)

    def state(self) -> dict:
        return self._docker.inspect(self.id)["State"]

    def log(self) -> str:
        done = self._docker.run("logs", self.id)
        return done.stdout + done.stderr

    def ended(self) -> bool:
        return not self.state()["Running"] and not self.state()["Restarting"]

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._docker.run("exec", self.id, "/usr/bin/stokerctl", *arguments)

    def stop(self, seconds: float = 40) -> int:
        """docker stop; the exit code, 137 when it had to be killed."""
        self._docker("stop", f"--time={seconds:.0f}", self.id, seconds=seconds + 20)
        return self.state()["ExitCode"]

    def kill(self) -> None:
        """As the kernel would: docker kill counts as a wish to stop, after which nothing is restarted."""
        os.kill(self.state()["Pid"], signal.SIGKILL)


def missing_tools() -> list[str]:
    programs = [DOCKER, "dockerd", "containerd", "runc", "zstd"]
    return [name for name in programs if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]


@contextmanager
def running_daemon(data: Path) -> Iterator[Docker]:
    """dockerd with its data in this folder; ended by process id, with whatever it started."""
    # Sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="stoker-docker-") as short:
        host = f"unix://{short}/sock"
        log = Path(short, "log")
        command = ["dockerd", f"--data-root={data}", f"--exec-root={short}/exec", f"--pidfile={short}/pid"]
        command += [f"--host={host}", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        env = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        with open(log, "wb") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env)
        docker = Docker(host)
        try:
            eventually(
                lambda: docker.run("info").returncode == 0 or process.poll() is not None, "dockerd answers", 60
            )
            assert process.poll() is None, log.read_text()
            remove_containers(docker)  # of a run that was killed
            yield docker
        finally:
            remove_containers(docker)
            # What this run's images have replaced would be kept, too.
            docker.run("image", "prune", "-f")
            docker.run("builder", "prune", "-f", "--keep-storage=12GB")
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            # dockerd leaves the mounts of network namespaces.
            for mount in Path("/proc/mounts").read_text().splitlines():
                if (place := mount.split()[1]).startswith(f"{short}/"):
                    subprocess.run(["umount", place], check=True)


def remove_containers(docker: Docker) -> None:
    for container in docker.run("ps", "-aq").stdout.split():
        docker.run("rm", "-f", "-v", container)


def provide_base(docker: Docker) -> None:
    """The base image: what is there, else a registry's, else one made of the same packages."""
    if docker.run("image", "inspect", BASE).returncode == 0:
        return
    if docker.run("pull", "-q", BASE, seconds=300).returncode == 0:
        return
    if shutil.which("mmdebstrap") is None:
        pytest.skip(f"{BASE} can't be pulled, and mmdebstrap is missing; tests/deploy/install.sh installs it")
    with tempfile.TemporaryDirectory(prefix="stoker-base-") as folder:
        root = f"{folder}/root.tar"
        # What Debian's slim image leaves out.
        excluded = ["doc", "groff", "info", "linda", "lintian", "locale", "man"]
        options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in excluded]
        options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
        command = ["mmdebstrap", "--variant=minbase", "--include=usr-is-merged,ca-certificates", *options]
        command += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "bookworm", root]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HOUR)
        assert done.returncode == 0, done.stderr[-4000:]
        docker("import", root, BASE, seconds=600)


def wait_health(container: Container, wanted: str, seconds: float = 60) -> None:
    eventually(lambda: container.state()["Health"]["Status"] == wanted, f"Docker calls it {wanted}", seconds)
