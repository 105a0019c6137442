"""What a long run shows of how far it is."""

from __future__ import annotations

import sys


def show(line: str, done: int, total: int) -> None:
    """A line that changes on a terminal, else one for each tenth."""
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="\n" if done == total else "", flush=True)
    elif done % max(1, total // 10) == 0:
        print(line, flush=True)
