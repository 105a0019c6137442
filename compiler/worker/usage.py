"""What a job uses: of all processes of its group, which none of them can leave."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

# What processes hold for themselves: mapped files, such as the weights, can be dropped at any time and don't count.
HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)


@dataclass
class Usage:
    processes: int = 0
    memory_bytes: int = 0


def of_groups(leaders: Collection[int]) -> dict[int, Usage]:
    """By the groups' leaders."""
    found = {leader: Usage() for leader in leaders}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(entry.path, "stat").read_bytes()
            usage = found.get(int(stat[stat.rindex(b")") + 2 :].split()[2]))
            if usage is not None:
                usage.processes += 1
                held = HELD.findall(Path(entry.path, "status").read_bytes())
                usage.memory_bytes += sum(int(kilobytes) * 1024 for kilobytes in held)
    return found
