"""The Debian packages, installed in a clean Debian 12: what they depend on comes along, and the server serves."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests import models
from tests.deploy.containers import BASE, Container, Docker, provide_base
from tests.deploy.test_image import readable
from tests.integration.clients import check_mlp
from tests.integration.daemon import eventually
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

BUILD = REPOSITORY / "build/release"
# As deploy/packages/systemd/stokerd.service starts it, but for systemd, which a container doesn't have.
UNIT = REPOSITORY / "deploy/packages/systemd/stokerd.service"
(START,) = re.findall(r"^ExecStart=(.+) \$STOKER_OPTIONS$", UNIT.read_text(), re.M)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name."""
    if not (BUILD / "server/main/stokerd").exists():
        pytest.skip(f"{BUILD} is missing; tests/run.sh builds it")
    folder = tmp_path_factory.mktemp("package")
    command = ["cpack", "--config", str(BUILD / "CPackConfig.cmake"), "-B", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name.split("_")[0]: readable(path) for path in folder.glob("*.deb")}
    assert set(made) == {"stoker", "stoker-cuda"}
    for path in made.values():
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return made


def field(package: Path, name: str) -> str:
    done = subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


def files_of(package: Path) -> set[str]:
    contents = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in contents.splitlines())
    return {line.split(None, 5)[5] for line in contents.splitlines() if not line.startswith("d")}


def test_what_it_says(packages: dict[str, Path]) -> None:
    package = packages["stoker"]
    assert re.fullmatch(r"stoker_\d+\.\d+\.\d+_amd64\.deb", package.name)
    depends = {part.split()[0] for part in field(package, "Depends").split(",")}
    assert {"libc6", "libgrpc++1.51", "libnghttp2-14", "libprotobuf32", "libssl3", "systemd"} <= depends
    assert "libnghttp2-14 (>= 1.52.0-1+deb12u3)" in field(package, "Depends")
    # torch's own come with it.
    assert not {name for name in depends if re.search("torch|gomp|cuda|cupti", name)}
    files = files_of(package)
    assert {
        "./usr/bin/stokerd", "./usr/bin/stokerctl", "./usr/lib/stoker/libtorch_cpu.so",
        "./usr/lib/stoker/libstoker_openmp.so",
        "./usr/lib/systemd/system/stokerd.service", "./usr/lib/sysusers.d/stoker.conf",
        "./usr/lib/tmpfiles.d/stoker.conf", "./usr/share/stoker/compiler/worker/__main__.py",
        "./usr/share/stoker/compiler/job/stoker-g++",
        "./usr/share/stoker/compiler/job/artifact.map",
        "./usr/share/stoker/compiler/guards/known_operators.txt",
    } <= files  # fmt: skip
    assert not [name for name in files if re.search(r"libtorch\.so|cuda_|pycache|^\./(home|root|tmp|opt)/", name)]


def test_what_the_one_for_gpus_says(packages: dict[str, Path]) -> None:
    package = packages["stoker-cuda"]
    assert field(package, "Description") != field(packages["stoker"], "Description")
    assert field(package, "Depends") == f"stoker (= {field(packages['stoker'], 'Version')})"
    assert files_of(package) == {
        "./usr/lib/stoker/libstoker_cuda.so",
        "./usr/lib/systemd/system/stokerd.service.d/gpu.conf",
        "./usr/share/stoker/cuda_libraries.sh",
    }


@pytest.fixture(scope="module")
def installed(
    docker: Docker, packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """An image of a Debian 12 with the package."""
    provide_base(docker)
    folder = tmp_path_factory.mktemp("host")
    shutil.copy(packages["stoker"], folder / "stoker.deb")
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


def test_a_gpus_models_find_the_libraries_where_the_script_puts_them(
    docker: Docker, images: None, installed: str, packages: dict[str, Path], tmp_path: Path
) -> None:
    """There is no GPU here: what the refusal says tells how far it got."""
    models.write("mlp", tmp_path / "models")
    (tmp_path / "models/mlp/model.yaml").write_text("device: cuda:0\n")
    shutil.copy(packages["stoker-cuda"], tmp_path / "stoker-cuda.deb")
    folder = Path(torch.__path__[0])
    run = ["-v", f"{readable(tmp_path)}:/given:ro", "-v", f"{folder.parent}:{folder.parent}:ro"]
    start = f"{START} --frozen".replace("/var/lib/stoker/models", "/given/models")

    def said(script: str) -> str:
        with Container(docker, installed, run, ["sh", "-c", script], confined=False) as server:
            eventually(lambda: "mlp:1: loading -> failed" in server.log(), "the model is refused", 60)
            return server.log()

    install = "dpkg -i /given/stoker-cuda.deb && "
    assert "/usr/lib/stoker/libstoker_cuda.so isn't there" in said(f"exec {start}")
    lacking = said(f"{install}exec {start}")
    assert "libtorch_cuda.so: cannot open shared object file" in lacking and "CUDA libraries of torch's" in lacking
    placed = said(f"{install}/usr/share/stoker/cuda_libraries.sh --link {folder} /usr/lib/stoker && exec {start}")
    assert "no NVIDIA driver" in placed and "cannot open" not in placed
