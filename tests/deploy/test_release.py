"""deploy/release.sh: what it puts into its folder, that this says what it is, and that it comes out the same twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.containers import DOCKER, HOUR, Docker, member
from tests.deploy.test_chart import CASES, helm
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

SCRIPT = REPOSITORY / "deploy/release.sh"


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


def release(*arguments: object, code: int = 0, environment: dict[str, str] | None = None) -> str:
    given = os.environ | (environment or {})
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)], capture_output=True, text=True, env=given, timeout=HOUR
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release without images."""
    if git("status", "--porcelain"):
        pytest.skip("the checkout isn't as it was committed, and only a commit is released")
    folder = tmp_path_factory.mktemp("release") / "out"
    release("--no-images", folder)
    return folder


def packages(document: Path) -> dict[str, Any]:
    """Of a list of parts, by name."""
    content = json.loads(document.read_text())
    assert content["spdxVersion"] == "SPDX-2.3"
    return {each["name"]: each for each in content["packages"]}


def test_what_is_there(made: Path) -> None:
    (version,) = re.findall(r"^project\(stoker VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text(), re.M)
    package = f"stoker_{version}_amd64.deb"
    names = {package, f"{package}.spdx.json", f"stoker-cuda_{version}_amd64.deb", f"stoker-{version}.tgz"}
    assert {path.name for path in made.iterdir()} == names | {"SHA256SUMS"}
    lines = [line.split() for line in (made / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert sums == {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in names}


def test_it_comes_out_the_same_twice(made: Path, tmp_path: Path) -> None:
    release("--no-images", tmp_path / "again")
    assert (tmp_path / "again/SHA256SUMS").read_text() == (made / "SHA256SUMS").read_text()


def test_the_chart_is_as_helm_packs_it(made: Path, tmp_path: Path) -> None:
    (ours,) = made.glob("stoker-*.tgz")
    done = helm("package", str(REPOSITORY / "deploy/kubernetes/charts/stoker"), f"--destination={tmp_path}")
    assert done.returncode == 0, done.stderr
    (theirs,) = tmp_path.glob("stoker-*.tgz")

    def files(path: Path) -> dict[str, bytes]:
        with tarfile.open(path) as archive:
            return {each.name: member(archive, each).read() for each in archive if each.isfile()}

    mine, packed = files(ours), files(theirs)
    assert mine.keys() == packed.keys()
    # Helm writes this one anew.
    assert {name for name in mine if mine[name] != packed[name]} <= {"stoker/Chart.yaml"}
    for case in CASES:
        done = helm("template", "release", str(ours), f"--values={case}")
        assert done.returncode == 0, done.stderr


def test_the_parts_of_the_package(made: Path) -> None:
    (document,) = made.glob("*.deb.spdx.json")
    parts = packages(document)
    package = document.with_suffix("").with_suffix("")
    assert parts["stoker"]["checksums"][0]["checksumValue"] == hashlib.sha256(package.read_bytes()).hexdigest()
    assert parts["stoker"]["sourceInfo"] == f"commit {git('rev-parse', 'HEAD')}"
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    assert "libspdlog1.10" in parts  # provides libspdlog1.10-fmt9
    for name in set(re.findall(r"(lib[a-z0-9+.-]+)", depends)) & parts.keys():
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
        assert parts[name]["versionInfo"] == version.stdout, name
    assert {"libgrpc++1.51", "libssl3", "libc-ares2"} <= parts.keys()  # the last one is libgrpc's
    assert parts["torch"]["externalRefs"][0]["referenceLocator"] == "pkg:pypi/torch@2.11.0"
    assert {"nvidia-cuda-runtime", "nvidia-cuda-cupti", "libcli11-dev", "nlohmann-json3-dev"} <= parts.keys()


def test_wrong_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "expected an empty or a new folder" in release("--no-images", tmp_path, code=1)
    assert "deploy/release.sh FOLDER" in release(code=2)


def test_without_docker(tmp_path: Path) -> None:
    if git("status", "--porcelain"):
        pytest.skip("the checkout isn't as it was committed, and only a commit is released")
    words = release(tmp_path / "out", code=1, environment={"DOCKER_HOST": f"unix://{tmp_path}/nobody"})
    assert "expected a Docker daemon for the images, found none" in words


def test_the_images(docker: Docker, images: None, made: Path, tmp_path: Path) -> None:
    programs = f"{Path(DOCKER).parent}:{os.environ['PATH']}"
    options = "--network=host " + " ".join(f"--build-arg={n}" for n in ("http_proxy", "https_proxy") if n in os.environ)
    out = tmp_path / "out"
    release(out, environment={"PATH": programs, "STOKER_BUILD_OPTIONS": options, **docker.environment()})
    for path in made.glob("stoker[-_]*"):
        assert (out / path.name).read_bytes() == path.read_bytes()
    (archive,) = out.glob("stoker-*-image.tar.zst")
    version = archive.name.removeprefix("stoker-").removesuffix("-image.tar.zst")
    labels = docker.inspect(f"stoker:{version}")["Config"]["Labels"]
    assert labels["org.opencontainers.image.revision"] == git("rev-parse", "HEAD")
    parts = packages(out / f"{archive.name}.spdx.json")
    assert {"base-files", "libgrpc29", "torch"} <= parts.keys() and "python3" not in parts
    for tag in (version, f"{version}-minimal"):
        docker("rmi", f"stoker:{tag}")
    with subprocess.Popen(["zstd", "-dcq", archive], stdout=subprocess.PIPE) as unpacked:
        subprocess.run([DOCKER, "load"], stdin=unpacked.stdout, env=os.environ | docker.environment(), check=True)
    for tag in (version, f"{version}-minimal", f"{version}-cuda", f"{version}-compile"):
        assert version in docker("run", "--rm", f"stoker:{tag}", "--version")
