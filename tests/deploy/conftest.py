"""Everything here is slow, and needs the repository's root on the path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.deploy import containers


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[containers.Docker]:
    """A Docker daemon: $DOCKER_HOST's, else one of the tests' own."""
    if missing := containers.missing_tools():
        pytest.skip(f"{', '.join(missing)}: missing; tests/deploy/install.sh installs them")
    if os.environ.get("DOCKER_HOST"):
        yield containers.Docker(None)
        return
    if os.geteuid() != 0:
        pytest.skip("a Docker daemon of one's own needs root; or set DOCKER_HOST")
    kept = os.environ.get("STOKER_TEST_SCRATCH")
    with containers.running_daemon(Path(kept or tmp_path_factory.mktemp("kept")) / "docker") as daemon:
        yield daemon


@pytest.fixture(scope="session")
def images(docker: containers.Docker) -> Iterator[None]:
    """Builds the images of the Dockerfile."""
    containers.provide_base(docker)
    for tag, target in containers.IMAGES.items():
        docker.build(tag, target)
    docker.run("network", "rm", "stoker")  # of a run that was killed
    network = docker("network", "create", "stoker")
    yield
    docker("network", "rm", network)
