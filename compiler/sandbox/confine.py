"""Holds a process to what it needs, with whatever of it this kernel has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from compiler.sandbox import landlock, privileges, seccomp

Rules = Iterable[tuple[Path | int, int]]


def confine(rules: Rules, *, devices: bool = False) -> None:
    """For good, this process, which must have one thread, and all that it will start: to the files of `rules`, as
    landlock.restrict takes them; `devices`: it drives some. Root is held like anyone.

    Raises OSError where the kernel should be able to do what it then does not."""
    privileges.drop()
    known = landlock.version()
    if known:
        landlock.restrict(rules)
    if seccomp.available():
        seccomp.install(signals=known >= landlock.WITH_SIGNALS, devices=devices)


def opened(file: Path) -> tuple[int, Path]:
    """A descriptor, to make a rule of, and a path that still leads there when the rules hold: those of other
    processes in /proc don't. Raises OSError for what can't be read."""
    descriptor = os.open(file, os.O_RDONLY)
    return descriptor, Path(f"/proc/self/fd/{descriptor}") if file.is_relative_to("/proc") else file


def holders() -> str:
    """What of the kernel's is there: "landlock 7, seccomp", or "none"."""
    known = landlock.version()
    return ", ".join([f"landlock {known}"] * (known > 0) + ["seccomp"] * seccomp.available()) or "none"


def lacks() -> str:
    """What a confined process can do here that it should not; empty on a kernel that has everything."""
    known = landlock.version()
    able = []
    if known == 0:
        able.append("read and write what their user can (there is no Landlock)")
    elif known < landlock.WITH_TRUNCATION:
        able.append(f"truncate their user's files (Landlock is of version {known})")
    if not seccomp.available():
        able.append("reach the network, signal and trace processes, and leave their group (there is no seccomp)")
    return ", ".join(able)
