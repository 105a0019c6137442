"""Compiles buckets of programs through the real worker, as stokerd does, several at a time.

    python -m tests.gpu.compiling --device cuda:0 --models OUTDIR --entries FOLDER NAME[:BATCH]...

Each bucket's artifact is FOLDER/NAME_BATCH. A program that isn't there yet is waited for, while others are
compiled. Prints one JSON object a line: {"entry", "event", "seconds", "phases",
"message"}; ends with 1 when any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JOBS_AT_A_TIME = max(2, min(6, (os.cpu_count() or 1) // 2))
MEMORY_BYTES = 24 << 30


class Worker:
    """A running compile worker."""

    def __init__(self, scratch: Path) -> None:
        receive, send = os.pipe()
        command = [sys.executable, "-m", "compiler.worker", "--reply-fd", str(send), "--scratch", str(scratch)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, pass_fds=[send])
        os.close(send)
        self._replies: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(receive,), daemon=True).start()
        self.ready = self.reply()

    def _read(self, receive: int) -> None:
        with os.fdopen(receive) as replies:
            for line in replies:
                self._replies.put(line)
        self._replies.put("")

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def reply(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next; None when there is none within so many."""
        try:
            line = self._replies.get(timeout=seconds)
        except queue.Empty:
            return None
        if not line:
            raise RuntimeError(f"the compile worker ended with {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def batch_symbols(program: Path) -> list[str]:
    """The symbols of a program that has no dynamic dimension but the batch."""
    import zipfile

    with zipfile.ZipFile(program) as archive:
        (name,) = [entry for entry in archive.namelist() if entry.endswith("models/model.json")]
        return sorted(json.loads(archive.read(name))["range_constraints"])


def request(number: int, program: Path, batch: int, device: str, stage: Path, options: argparse.Namespace) -> dict:
    from compiler.job import toolchain

    march, simdlen = toolchain.host_target()
    level = '"O1"' if device != "cpu" else '"O0"'
    factors = {"inductor.aot_inductor.compile_wrapper_opt_level": level}
    if options.precision:
        factors["precision"] = options.precision
    return {
        "op": "compile", "id": number, "key": f"{number:064x}", "factors": factors, "model": program.parts[-3],
        "bucket": f"batch={batch}", "program": str(program), "passes": "",
        "sizes": dict.fromkeys(batch_symbols(program), batch), "device": device,
        "threads": max(1, min(8, (os.cpu_count() or 1))), "march": march, "simdlen": simdlen, "stage": str(stage),
        "scratch": str(options.scratch), "timeout_seconds": options.timeout_seconds, "memory_bytes": MEMORY_BYTES,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--entries", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--precision", default="")
    parser.add_argument("--timeout-seconds", type=float, default=240)
    parser.add_argument("--wait-seconds", type=float, default=120, help="for programs that aren't there yet")
    parser.add_argument("wanted", nargs="+")
    options = parser.parse_args()
    started = time.monotonic()
    worker = Worker(options.scratch)
    print(json.dumps({"event": "ready", "seconds": round(time.monotonic() - started, 1)}), flush=True)
    pending = list(enumerate(options.wanted, 1))
    running: dict[int, str] = {}
    failed = 0
    while pending or running:
        for number, wanted in list(pending):
            name, _, batch = wanted.partition(":")
            program = options.models / name / "1" / "model.pt2"
            if len(running) >= JOBS_AT_A_TIME or not program.exists():
                continue
            stage = options.entries / f"{name}_{batch or 0}"
            stage.mkdir(parents=True, exist_ok=True)
            worker.send(request(number, program, int(batch or 0), options.device, stage.resolve(), options))
            running[number] = stage.name
            pending.remove((number, wanted))
        if not running and time.monotonic() - started > options.wait_seconds:
            message = f"never exported: {[wanted for _, wanted in pending]}"
            print(json.dumps({"event": "failed", "message": message}), flush=True)
            failed += len(pending)
            break
        reply = worker.reply(0.5)
        if reply is None or reply["event"] == "phase":
            continue
        entry = running.pop(reply["id"])
        failed += reply["event"] != "done"
        kept = {key: reply[key] for key in ("event", "seconds", "phases", "kind", "message") if key in reply}
        print(json.dumps({"entry": entry, **kept}), flush=True)
    worker.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
