"""Python environments of a tool's own: a venv of pinned packages that shows the project's environment behind it.

An environment's folder changes with its pins, so that an old one is never taken for a new one. torch is not
installed again: a .pth file shows the project's own environment, which must be the one that runs this, so that
everything runs the same torch. Packages come without what they depend on: the pins name all that is needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT_PACKAGES = Path(sysconfig.get_paths()["purelib"])
# What the install below does, besides the pins: raise it when that changes.
LAYOUT = 2


class InstallError(Exception):
    """Why an environment can't be installed, for a person to read."""


@dataclass(frozen=True)
class Environment:
    """What `requirements` pins, installed in a folder of `home`."""

    requirements: Path
    home: Path
    also: tuple[bytes, ...] = ()  # what else its content comes from

    @property
    def folder(self) -> Path:
        """Where it is, or would be, installed."""
        parts = [self.requirements.read_bytes(), str(PROJECT_PACKAGES).encode(), str(LAYOUT).encode(), *self.also]
        digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
        return self.home / f"{self.requirements.stem}-{digest}"

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def pins(self) -> dict[str, str]:
        """Versions by package."""
        lines = self.requirements.read_text().splitlines()
        return dict(line.split("==") for line in lines if line and not line.startswith("#"))

    def install(self, prepare: Callable[[Path], None]) -> str:
        """Installs it where it isn't; returns what to tell the user. `prepare` gets the folder once the packages are
        there, does the rest and checks it. Raises InstallError."""
        folder = self.folder
        if folder.is_dir():
            return f"already in {folder}"
        start = time.monotonic()
        # In a folder of this process's own: who needs it at the same time makes it at the same time.
        new = folder.with_name(f"{folder.name}.{os.getpid()}")
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            run([sys.executable, "-m", "venv", str(new)])
            pip = [str(new / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
            run([*pip, "-r", str(self.requirements)])
            prepare(new)
            with contextlib.suppress(OSError):
                new.rename(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        shutil.rmtree(new, ignore_errors=True)  # which is there where another was first
        if not folder.is_dir():
            raise InstallError(f"{folder} can't be put in its place")
        return f"{time.monotonic() - start:.0f} s, in {folder}"


def packages(folder: Path) -> Path:
    """The site-packages of an environment."""
    return folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def show_project(folder: Path, modules: Sequence[str]) -> None:
    """Lets an environment see the project's packages; raises InstallError when torch or one of `modules` is missing."""
    (packages(folder) / "project_environment.pth").write_text(f"{PROJECT_PACKAGES}\n")
    checks = "; ".join(f"assert u.find_spec('{module}'), '{module} is missing'" for module in modules)
    run([str(folder / "bin/python"), "-c", f"import torch, importlib.util as u; {checks}"])


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """stdout; raises InstallError with the end of what the command said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd, env=env)
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise InstallError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(said)}")
    return done.stdout
