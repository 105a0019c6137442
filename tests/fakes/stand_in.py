"""What stokerd is given as --compiler-python in place of a Python: a script that runs another worker."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

FAKES = Path(__file__).resolve().parent


def stand_in(path: Path, worker: str, *behaviour: str) -> Path:
    """Writes the script. What it is asked for besides compiler.worker, it leaves to the real Python."""
    command = shlex.join([sys.executable, str(FAKES / worker), *behaviour])
    path.write_text(f"""#!/bin/sh
if [ "$2" = compiler.worker ]; then  # -m compiler.worker
  shift 2
  exec {command} "$@"
fi
exec {shlex.quote(sys.executable)} "$@"
""")
    path.chmod(0o755)
    return path
