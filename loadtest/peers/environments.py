"""Installs each peer into an environment of its own: a venv of pinned packages.

An environment's folder changes with its pins, so that an old one is never taken for a new one.
torch is not installed again: a .pth file shows the project's own environment, which must be the
one that runs this, so that every server runs the same torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from loadtest.circumstances import stoker_home
from loadtest.peers import REPO

PEERS = ("triton", "mlserver", "kserve", "perf_analyzer")
REQUIREMENTS = Path(__file__).parent / "requirements"
NULL_BACKEND = Path(__file__).parent / "adapters/triton_core/null_backend.c"
PROJECT_PACKAGES = Path(sysconfig.get_paths()["purelib"])
# What the install below does, besides the pins: raise it when that changes.
LAYOUT = 2


class InstallError(Exception):
    """Why a peer can't be installed, for a person to read."""


def environment(peer: str) -> Path:
    """The folder that `peer` is, or would be, installed in."""
    parts = [
        (REQUIREMENTS / f"{peer}.txt").read_bytes(),
        str(PROJECT_PACKAGES).encode(),
        str(LAYOUT).encode(),
    ]
    if peer == "triton":
        parts.append(NULL_BACKEND.read_bytes())
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    return stoker_home() / "peers" / f"{peer}-{digest}"


def installed(peer: str) -> bool:
    return environment(peer).is_dir()


def python(peer: str) -> Path:
    return environment(peer) / "bin/python"


def packages(folder: Path) -> Path:
    """The site-packages of an environment."""
    return folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def pins(peer: str) -> dict[str, str]:
    """Versions by package, as pinned."""
    lines = (REQUIREMENTS / f"{peer}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def install(peer: str) -> str:
    """Installs `peer` where it isn't; returns what to tell the user. Raises InstallError."""
    folder = environment(peer)
    if folder.is_dir():
        return f"already in {folder}"
    start = time.monotonic()
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        _run([sys.executable, "-m", "venv", str(new)])
        pip = [str(new / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        _run([*pip, "-r", str(REQUIREMENTS / f"{peer}.txt")])
        if peer == "perf_analyzer":
            _prepare_perf_analyzer(new)
        else:
            (packages(new) / "project_environment.pth").write_text(f"{PROJECT_PACKAGES}\n")
            module = "pytriton" if peer == "triton" else peer
            _run(
                [
                    str(new / "bin/python"),
                    "-c",
                    f"import torch, importlib.util as u; assert u.find_spec('{module}')",
                ]
            )
        if peer == "triton":
            _prepare_triton(new)
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return f"{time.monotonic() - start:.0f} s, in {folder}"


def triton_folder(environment_folder: Path) -> Path:
    """Where the wheel keeps tritonserver."""
    return packages(environment_folder) / "pytriton/tritonserver"


def _prepare_triton(new: Path) -> None:
    """Puts the Python backend's stub for this Python beside it, and builds the null backend."""
    server = triton_folder(new)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        raise InstallError(f"Triton's wheel has no Python backend for Python {version}")
    shutil.copy(stub, server / "backends/python")
    null = server / "backends/null"
    null.mkdir()
    library = null / "libtriton_null.so"
    _run(["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(library), str(NULL_BACKEND)])
    missing = [line for line in _run(["ldd", str(stub)]).splitlines() if "not found" in line]
    if missing:
        raise InstallError(f"Triton's Python backend lacks {missing[0].strip()}")


def _prepare_perf_analyzer(new: Path) -> None:
    """Gives the binary Debian's libb64, taken out of its package where the system lacks it."""
    try:
        ctypes.CDLL("libb64.so.0d")
    except OSError:
        _run(["apt-get", "download", "libb64-0d"], cwd=new)
        package = next(new.glob("libb64-0d_*.deb"))
        _run(["dpkg-deb", "-x", str(package), str(new / "debian")])
    _run([str(new / "bin/perf_analyzer"), "--version"], env=perf_analyzer_variables(new))


def perf_analyzer_variables(folder: Path) -> dict[str, str]:
    """The process environment that perf_analyzer's libraries are found in."""
    libraries = [packages(folder) / "nvidia/cuda_runtime/lib", *(folder / "debian").glob("usr/lib/*")]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """stdout; raises InstallError with the end of what the command said."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd, env=env
        )
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise InstallError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(said)}")
    return done.stdout


def variables() -> dict[str, str]:
    """The process environment in which a peer finds this project's adapters."""
    return os.environ | {"PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": "1"}
