"""Where the system, Python with its packages, and a C++ compiler lie: what one who compiles has to read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

COMPILER = Path(__file__).resolve().parents[1]

# Programs, libraries and headers; nothing of a person's.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
# How libraries are found, how a user is called, what time it is, and openssl's settings, which it wants to see.
SETTINGS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/locale.alias", "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
)  # fmt: skip
MACHINE = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/sys/devices/system",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# What Inductor and g++ start.
TOOLS = ("sh", "mv", "rm", "as", "ld", "readelf", "openssl")


def system() -> list[Path]:
    """What every process reads, and of /proc its own folder."""
    return [*map(Path, (*SYSTEM, *SETTINGS, *MACHINE)), Path(f"/proc/{os.getpid()}")]


def python() -> list[Path]:
    """The interpreter, its packages, and of the folder of `compiler` that alone: programs may lie beside it."""
    found = [sys.prefix, sys.base_prefix, *sys.path, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return [COMPILER, *_folders(found)]


def toolchain(cxx: str) -> list[Path]:
    """The compiler, what it says that it reads, and the tools; nothing without that compiler."""
    if shutil.which(cxx) is None:
        return []
    programs = [Path(found) for tool in (cxx, *TOOLS) if (found := shutil.which(tool))]
    search = _said([cxx, "-print-search-dirs"])
    listed = [folder for line in re.findall(r"^\w+: =?(/.*)$", search, re.MULTILINE) for folder in line.split(":")]
    headers = re.findall(r"^ (/\S+)$", _said([cxx, "-E", "-v", "-x", "c++", os.devnull]), re.MULTILINE)
    return _folders([*(p.parent for p in programs), *(p.resolve().parent for p in programs), *listed, *headers])


def _said(command: list[str]) -> str:
    """On stdout and on stderr, where g++ lists folders."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def _folders(names: Iterable[str | Path]) -> list[Path]:
    """Those that exist, once each, without those that lie in another one or hold all that is the server's."""
    paths = {Path(name).resolve() for name in names if os.path.isabs(name) and os.path.isdir(name)}
    home = Path(os.path.expanduser("~"))
    paths = {path for path in paths if not COMPILER.is_relative_to(path) and not home.is_relative_to(path)}
    return sorted(path for path in paths if not any(parent in paths for parent in path.parents))
