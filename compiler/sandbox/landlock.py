"""Landlock: which files a process, and all that it starts, can see and change. No way leads back.

Kernels know more of it the newer they are: of what is asked for, a process gets what its kernel has.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from compiler.sandbox.kernel import system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # on every architecture
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# What may be done with a file, or with all that lies in a folder.
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_DIR | MAKE_REG | MAKE_SYM | REMOVE_DIR | REMOVE_FILE | REFER
DEVICE = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV

# How many kinds of access the first versions know; from the fifth on they are all known.
KINDS = {1: 13, 2: 14, 3: 15, 4: 15}
BIND_AND_CONNECT_TCP = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
# The first versions with it.
WITH_TRUNCATION, WITH_TCP, WITH_SIGNALS = 3, 4, 6


def version() -> int:
    """Of the running kernel; 0 where there is none, or none of it for this process."""
    try:
        return system_call(CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def restrict(rules: Iterable[tuple[Path | int, int]]) -> None:
    """Holds this thread to what `rules` say of files, folders and descriptors of them; those that don't exist, nobody
    can read. Also from TCP, and from sockets and processes outside that it could name, where the kernel can.

    `PR_SET_NO_NEW_PRIVS` must be set. Raises OSError, also where `version` is 0.
    """
    known = version()
    handled = (1 << KINDS.get(known, 16)) - 1
    attributes = struct.pack("QQQ", handled, BIND_AND_CONNECT_TCP, ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 8 if known < WITH_TCP else 16 if known < WITH_SIGNALS else 24
    ruleset = system_call(CREATE_RULESET, ctypes.c_char_p(attributes), size, 0)
    try:
        for place, access in rules:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), _opened(place) as descriptor:
                fitting = handled if stat.S_ISDIR(os.fstat(descriptor).st_mode) else handled & OF_FILES
                rule = ctypes.create_string_buffer(struct.pack("=Qi", access & fitting, descriptor))
                system_call(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
        system_call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


@contextlib.contextmanager
def _opened(place: Path | int) -> Iterator[int]:
    if isinstance(place, int):
        yield place
        return
    descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
