"""What a program's graph is made of, what TorchInductor makes of it, and where the time goes.

    python -m compiler.explain --program model.pt2 --sizes '{"s77": 8}' --threads 2 --scratch FOLDER

prints a report (report.py) as JSON; with --html it also writes a page. With --reply-fd it talks like the
compile worker instead (compiler/job/protocol.py): lines with the phases, then {"event": "done",
"report": ...}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler.explain.page import page
from compiler.explain.report import explain
from compiler.job import toolchain
from compiler.job.job import Job
from compiler.job.protocol import send
from compiler.job.work_folder import claimed, temporary_files_in
from compiler.program.archive import ArchiveError
from compiler.program.operators import LibraryError


def _arguments() -> argparse.Namespace:
    march, simdlen = toolchain.host_target()
    parser = argparse.ArgumentParser(prog="python -m compiler.explain", description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the .pt2 file")
    parser.add_argument("--sizes", type=json.loads, default={}, help="JSON: sizes by the program's symbols")
    parser.add_argument("--ranges", type=json.loads, default=[], help="JSON: [low, high] or null per input")
    parser.add_argument("--factors", type=json.loads, default={}, help="JSON: factors of the artifact's key")
    parser.add_argument("--operators", type=json.loads, default={},
                        help="JSON: libraries of operators that the program calls, paths by names")  # fmt: skip
    parser.add_argument("--passes", type=Path, help="the operator's passes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--march", default=march)
    parser.add_argument("--simdlen", type=int, default=simdlen)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of caches, kept between runs")
    parser.add_argument("--model", default="", help="name for the report")
    parser.add_argument("--bucket", default="", help="name for the report")
    parser.add_argument("--html", type=Path, help="file to write the report to as one page")
    parser.add_argument("--reply-fd", type=int, help="descriptor for the protocol's lines")
    return parser.parse_args()


@contextlib.contextmanager
def _work_folder(scratch: Path) -> Iterator[Path]:
    with claimed(scratch) as folder, temporary_files_in(folder):
        work = folder / "explain"
        work.mkdir(mode=0o700)
        yield work


def main() -> int:
    given = _arguments()
    toolchain.prepare_environment(given.scratch)

    def tell(message: dict[str, Any]) -> None:
        if given.reply_fd is not None:
            send(given.reply_fd, message)
        elif message["event"] == "done":
            print(json.dumps(message["report"], indent=1))
        else:
            print(message.get("message") or message["phase"], file=sys.stderr, flush=True)

    try:
        if given.html is not None and not given.html.absolute().parent.is_dir():
            raise ValueError(f"--html: there is no folder {given.html.absolute().parent}")
        job = Job(
            id=0, key="", factors=given.factors, model=given.model, bucket=given.bucket,
            program=given.program, sizes=given.sizes, march=given.march,
            simdlen=given.simdlen, stage=given.scratch, scratch=given.scratch, timeout_seconds=0,
            memory_bytes=0, passes=given.passes, operators=given.operators,
        )  # fmt: skip
        with _work_folder(given.scratch) as work:
            report = explain(
                job, given.threads, given.ranges, work, lambda phase: tell({"event": "phase", "id": 0, "phase": phase})
            )
        if given.html is not None:
            given.html.write_text(page(report), encoding="utf-8")
    except (ArchiveError, LibraryError, ValueError, OSError) as error:
        tell({"event": "failed", "id": 0, "kind": "error", "message": str(error)})
        return 1
    tell({"event": "done", "id": 0, "report": report})
    return 0


if __name__ == "__main__":
    sys.exit(main())
