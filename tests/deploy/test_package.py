"""The Debian package, installed in a clean Debian 12: what it depends on comes along, and the server serves."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import models
from tests.deploy.containers import BASE, Container, Docker, provide_base
from tests.deploy.test_image import readable
from tests.integration.clients import check_mlp
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

BUILD = REPOSITORY / "build/release"
# As deploy/systemd/stokerd.service starts it, but for systemd, which a container doesn't have.
UNIT = REPOSITORY / "deploy/systemd/stokerd.service"
START = re.search(r"^ExecStart=(.+) \$STOKER_OPTIONS$", UNIT.read_text(), re.M)[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (BUILD / "server/main/stokerd").exists():
        pytest.skip(f"{BUILD} is missing; tests/run.sh builds it")
    folder = tmp_path_factory.mktemp("package")
    command = ["cpack", "--config", str(BUILD / "CPackConfig.cmake"), "-B", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.deb")
    print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
    return readable(made)


def test_what_it_says(package: Path) -> None:
    def field(name: str) -> str:
        return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout

    assert re.fullmatch(r"stoker_\d+\.\d+\.\d+_amd64\.deb", package.name)
    depends = {part.split()[0] for part in field("Depends").split(",")}
    assert {"libc6", "libgrpc++1.51", "libprotobuf32", "libssl3", "systemd"} <= depends
    # torch's own come with it.
    assert not {name for name in depends if re.search("torch|gomp|cuda|cupti", name)}
    contents = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    files = {line.split(None, 5)[5] for line in contents.splitlines() if not line.startswith("d")}
    assert {
        "./usr/bin/stokerd", "./usr/bin/stokerctl", "./usr/lib/stoker/libtorch_cpu.so",
        "./usr/lib/systemd/system/stokerd.service", "./usr/lib/sysusers.d/stoker.conf",
        "./usr/lib/tmpfiles.d/stoker.conf", "./usr/share/stoker/compiler/worker.py",
        "./usr/share/stoker/compiler/stoker-g++",
        "./usr/share/stoker/compiler/artifact.map",
    } <= files  # fmt: skip
    assert not [name for name in files if re.search(r"libtorch\.so|pycache|^\./(home|root|tmp|opt)/", name)]
    assert all(line.split()[1] == "root/root" for line in contents.splitlines())


@pytest.fixture(scope="module")
def installed(docker: Docker, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of a Debian 12 with the package."""
    provide_base(docker)
    folder = tmp_path_factory.mktemp("host")
    shutil.copy(package, folder / "stoker.deb")
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nCOPY stoker.deb /\n"
        "RUN apt-get update && apt-get install -y --no-install-recommends /stoker.deb\n"
    )
    done = docker.run("build", "--network=host", "--tag=stoker-package-test", folder, seconds=900)
    assert done.returncode == 0, done.stderr[-4000:]
    yield "stoker-package-test"
    docker("rmi", "stoker-package-test")


def test_it_installs_user_folders_and_unit(docker: Docker, installed: str) -> None:
    def sh(script: str) -> str:
        return docker("run", "--rm", "--network=none", installed, "sh", "-c", script)

    assert re.fullmatch(r"stokerd? ?\d+\.\d+\.\d+|\d+\.\d+\.\d+", sh("stokerd --version"))
    assert sh("getent passwd stoker | cut -d: -f6,7") == "/var/lib/stoker:/usr/sbin/nologin"
    assert sh("stat -c '%a %U' /var/lib/stoker/models") == "755 root"
    assert "not found" not in sh("ldd /usr/bin/stokerd /usr/bin/stokerctl")
    assert sh("systemd-analyze verify --man=no stokerd.service 2>&1 || true") == ""


def test_it_serves(docker: Docker, images: None, installed: str, tmp_path: Path) -> None:
    models.write("mlp", tmp_path / "models")
    # What systemd does for the unit: the user, and the folder of the cache.
    script = (
        "install -d -o stoker -g stoker -m 700 /var/cache/stoker && "
        f"exec setpriv --reuid=stoker --regid=stoker --clear-groups --no-new-privs {START} --frozen"
    )
    run = ["-v", f"{readable(tmp_path / 'models')}:/var/lib/stoker/models:ro"]
    with Container(docker, installed, run, ["sh", "-c", script], confined=False) as server, server.client() as client:
        server.wait_ready(60)
        check_mlp(client)
        assert server.stop() == 0


def test_a_purge_leaves_the_models_only(docker: Docker, installed: str) -> None:
    script = "mkdir -p /var/cache/stoker/kernels && dpkg --purge stoker >/dev/null && find / -xdev -path '*stoker*'"
    left = docker("run", "--rm", "--network=none", installed, "sh", "-c", script).splitlines()
    assert set(left) <= {"/stoker.deb", "/var/lib/stoker", "/var/lib/stoker/models"}
    assert "/var/lib/stoker/models" in left
