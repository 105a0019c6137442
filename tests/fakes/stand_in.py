"""What stokerd is given as --compiler-python in place of a Python: a script that runs another worker."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

FAKES = Path(__file__).resolve().parent


def stand_in(path: Path, worker: str, *behaviour: str) -> Path:
    """Writes the script, which runs the worker of that name among the fakes whatever module it is asked for."""
    command = shlex.join([sys.executable, str(FAKES / worker), *behaviour])
    path.write_text(f'#!/bin/sh\nshift 2  # "-m compiler.worker"\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path
