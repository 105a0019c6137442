"""Installs each peer into an environment of its own: a venv of pinned packages, with the project's torch."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

from loadtest.circumstances import stoker_home
from loadtest.environments import Environment, InstallError, packages, run, show_project
from loadtest.peers import REPO

PEERS = ("triton", "mlserver", "kserve", "perf_analyzer")
REQUIREMENTS = Path(__file__).parent / "requirements"
NULL_BACKEND = Path(__file__).parent / "adapters/triton_core/null_backend.c"


def _described(peer: str) -> Environment:
    also = (NULL_BACKEND.read_bytes(),) if peer == "triton" else ()
    return Environment(REQUIREMENTS / f"{peer}.txt", stoker_home() / "peers", also)


def environment(peer: str) -> Path:
    """The folder that `peer` is, or would be, installed in."""
    return _described(peer).folder


def installed(peer: str) -> bool:
    return environment(peer).is_dir()


def python(peer: str) -> Path:
    return _described(peer).python


def pins(peer: str) -> dict[str, str]:
    """Versions by package, as pinned."""
    return _described(peer).pins()


def install(peer: str) -> str:
    """Installs `peer` where it isn't; returns what to tell the user. Raises InstallError."""

    def prepare(new: Path) -> None:
        if peer == "perf_analyzer":
            _prepare_perf_analyzer(new)
            return
        show_project(new, ["pytriton" if peer == "triton" else peer])
        if peer == "triton":
            _prepare_triton(new)

    return _described(peer).install(prepare)


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
    run(["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(library), str(NULL_BACKEND)])
    missing = [line for line in run(["ldd", str(stub)]).splitlines() if "not found" in line]
    if missing:
        raise InstallError(f"Triton's Python backend lacks {missing[0].strip()}")


def _prepare_perf_analyzer(new: Path) -> None:
    """Gives the binary Debian's libb64, taken out of its package where the system lacks it."""
    try:
        ctypes.CDLL("libb64.so.0d")
    except OSError:
        run(["apt-get", "download", "libb64-0d"], cwd=new)
        package = next(new.glob("libb64-0d_*.deb"))
        run(["dpkg-deb", "-x", str(package), str(new / "debian")])
    run([str(new / "bin/perf_analyzer"), "--version"], env=perf_analyzer_variables(new))


def perf_analyzer_variables(folder: Path) -> dict[str, str]:
    """The process environment that perf_analyzer's libraries are found in."""
    libraries = [packages(folder) / "nvidia/cuda_runtime/lib", *(folder / "debian").glob("usr/lib/*")]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def variables() -> dict[str, str]:
    """The process environment in which a peer finds this project's adapters."""
    return os.environ | {"PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": "1"}
