"""Capabilities: what root may do beyond what its files say."""

from __future__ import annotations

import ctypes
import struct

from compiler.sandbox.kernel import ARCHITECTURES, MACHINE, prctl, system_call

CAPGET, CAPSET = (125, 90), (126, 91)
VERSION_3 = 0x20080522
PR_SET_NO_NEW_PRIVS = 38
# Of a server that runs as root the models may be others': files are Landlock's matter.
KEPT = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def drop() -> None:
    """No program that this process starts gains rights by being started, and root has no others than a file's."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if MACHINE not in ARCHITECTURES:
        return
    column = ARCHITECTURES[MACHINE][1]
    head = ctypes.create_string_buffer(struct.pack("=Ii", VERSION_3, 0))
    sets = ctypes.create_string_buffer(24)  # effective, permitted, inheritable: the lower halves, then the upper
    system_call(CAPGET[column], head, sets)
    effective, permitted, *_ = struct.unpack("=6I", sets.raw)
    left = struct.pack("=6I", effective & KEPT, permitted & KEPT, 0, 0, 0, 0)
    system_call(CAPSET[column], head, ctypes.create_string_buffer(left, len(left)))
