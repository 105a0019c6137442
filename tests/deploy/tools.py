"""The tools that tests/deploy/install.sh installs, or the reason why a test is skipped."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.metrics_reference_test import REPOSITORY

INSTALL = "tests/deploy/install.sh installs it"


@functools.cache
def _folder() -> Path:
    script = 'source deploy/steps.sh; source tests/deploy/tools.sh; tools_folder'
    done = subprocess.run(["bash", "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return Path(done.stdout)


def python() -> Path:
    """The Python that has the schemas."""
    path = _folder() / "bin/python"
    if not path.exists():
        pytest.skip(f"the environment with the schemas is missing; {INSTALL}")
    return path


def helm() -> str:
    path = _folder() / "bin/helm"
    found = str(path) if path.exists() else shutil.which("helm")
    return found or pytest.skip(f"helm is missing; {INSTALL}")


def built(name: str) -> str:
    """A program that is built from a Go module."""
    path = _folder() / "bin" / name
    if not path.exists():
        pytest.skip(f"{name} is missing; {INSTALL}")
    return str(path)


def kinds() -> Path:
    """The folder with the definitions of custom resources."""
    path = _folder() / "kinds"
    if not path.exists():
        pytest.skip(f"the definitions of custom resources are missing; {INSTALL}")
    return path


def kserve(name: str) -> Path:
    """settings.yaml or webhooks.yaml of KServe."""
    built("kserve-controller")
    return _folder() / "kserve" / name


def misfits(objects: list[dict], folder: Path) -> str:
    """What in these custom resources doesn't fit their definitions. `folder`: for files."""
    path = folder / "custom.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    command = [str(python()), str(REPOSITORY / "tests/deploy/kinds_schema.py"), str(kinds()), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout


def of_package(name: str, package: str) -> str:
    """A program of a Debian package of deploy/install.sh --tests."""
    return shutil.which(name) or pytest.skip(
        f"{name} is missing; deploy/install.sh --tests installs it (package {package})"
    )
