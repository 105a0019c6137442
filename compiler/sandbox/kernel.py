"""System calls that C's library has no function for."""

from __future__ import annotations

import ctypes
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# By machine: the architecture as seccomp names it, and the column of its numbers in tables of system calls.
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
MACHINE = platform.machine()


def system_call(number: int, *arguments: object) -> int:
    """Raises OSError with the kernel's reason."""
    answer = _libc.syscall(ctypes.c_long(number), *(_word(argument) for argument in arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def prctl(option: int, *arguments: int) -> int:
    """Raises OSError with the kernel's reason."""
    answer = _libc.prctl(option, *(ctypes.c_ulong(argument) for argument in (*arguments, *[0] * (4 - len(arguments)))))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def _word(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
