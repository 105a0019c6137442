"""Several runs on machines of one kind as one result: tests.gpu.run's gpu.json files.

    python -m tests.gpu.merge --out FOLDER FIRST.json SECOND.json...

writes FOLDER/gpu.json and FOLDER/gpu.txt: of each step what passed last, goals by the median of all with every value
beside it, and what didn't end the same way in every run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.gpu import report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    try:
        content = report.merged([json.loads(run.read_text()) for run in options.runs])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(json.dumps(content, indent=1) + "\n")
    (options.out / "gpu.txt").write_text(report.table(content))
    print((options.out / "gpu.txt").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
