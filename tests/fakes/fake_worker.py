"""A compile worker without a compiler: speaks compiler/job/protocol.py's protocol by a script.

    fake_worker.py [--start BEHAVIOUR] [--job BEHAVIOUR] --reply-fd N --scratch FOLDER

The behaviour of each job is the stem of its program's name, "/any/crash.pt2" crashes the worker,
unless --job says one for all of them.
START lists those of the start, JOBS those of jobs. Jobs run on threads, so several can be open.
Every start and every job is a line of FOLDER/journal. "gated" behaviours wait until somebody has
opened the FIFO FOLDER/gate for writing and closed it (a job: FOLDER/<key>.gate); no behaviour sleeps.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compiler.job import protocol
from compiler.job.manifest import write_manifest

Job = dict[str, Any]
PHASES = {name: 0.5 * (i + 1) for i, name in enumerate(protocol.PHASES)}


class Worker:
    def __init__(self, reply_fd: int, scratch: Path, golden: Path | None = None) -> None:
        self.reply_fd = reply_fd
        self.scratch = scratch
        self.golden = golden

    def journal(self, text: str) -> None:
        with open(self.scratch / "journal", "a") as file:
            file.write(text + "\n")

    def first_time(self, name: str) -> bool:
        """Whether `name` has not been asked for before, over all runs of the worker."""
        try:
            os.close(os.open(self.scratch / f"{name}.done", os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False

    def send(self, **message: Any) -> None:
        protocol.send(self.reply_fd, message)

    def raw(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.reply_fd, data) :]

    def ready(self) -> None:
        self.send(event="ready", pid=os.getpid(), torch="0.0.fake", seconds=0.1)

    def fail(self, job: Job, kind: str, message: str) -> None:
        self.send(event="failed", id=job["id"], kind=kind, message=message, seconds=0.5)

    def done(self, job: Job) -> None:
        self.send(event="done", id=job["id"], phases=PHASES, seconds=7.5, attest=attested(job))

    def phase(self, job: Job, name: str) -> None:
        self.send(event="phase", id=job["id"], phase=name)

    def stage(self, job: Job, **changes: Any) -> None:
        """Writes an artifact that is right in everything but `changes` and the generated code."""
        folder = Path(job["stage"])
        (folder / "model.so").write_bytes(b"machine code of " + job["key"].encode())
        fields = {name: job[name] for name in ("key", "model", "bucket", "factors")}
        torch = job["factors"].get("torch", "0.0.fake")
        toolchain = {"torch": torch, "march": job["march"], "simdlen": job["simdlen"]}
        description = {
            "inputs": [], "outputs": 1, "validity_output": None, "guards": [], "constants": [], "packed": [],
            "packed_as": "float32", "convolutions": [], "phases": PHASES, "seconds": 7.5, "peak_rss_bytes": 1 << 20,
            "toolchain": toolchain,
        }  # fmt: skip
        write_manifest(folder, {**fields, **description, **changes})

    def wait_at(self, gate: str) -> None:
        with open(self.scratch / gate, "rb") as opened:
            opened.read()


def attested(job: Job) -> dict[str, str]:
    """As the compiler does, of the program that lies there, where there is one."""
    if not os.path.exists(job["program"]):
        return {}
    from compiler.job.recipe import RECIPE
    from compiler.program import archive

    opened = archive.Archive(job["program"])
    for member in (archive.CONSTANTS_CONFIG, archive.WEIGHTS_CONFIG, archive.GRAPH):
        opened.read(member, 1 << 30)
    return {
        "program": opened.content_digest(),
        "recipe": RECIPE,
        **{name: job["factors"].get(name, "") for name in ("python", "sympy", "torch.git")},
    }


def ok(worker: Worker, job: Job) -> None:
    for name in protocol.PHASES:
        worker.phase(job, name)
    worker.stage(job)
    worker.done(job)


def copied(worker: Worker, job: Job) -> None:
    """What the real compiler made once, out of another kernel cache."""
    assert worker.golden is not None
    key = job["key"]
    for name in protocol.PHASES:
        worker.phase(job, name)
    for file in (worker.golden / "v1/entries" / key[:2] / key).iterdir():
        if file.name != "manifest.sha256":
            shutil.copy(file, job["stage"])
    worker.done(job)


def gated(worker: Worker, job: Job) -> None:
    worker.phase(job, "load")
    worker.wait_at(job["key"] + ".gate")
    worker.stage(job)
    worker.done(job)


def crash(worker: Worker, job: Job) -> None:
    os.write(2, f"about to crash on {job['bucket']}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def crash_once(worker: Worker, job: Job) -> None:
    (crash if worker.first_time("crash") else ok)(worker, job)


def leave(worker: Worker, job: Job) -> None:
    os._exit(0)


def hang(worker: Worker, job: Job) -> None:
    worker.phase(job, "build")


def garbage(worker: Worker, job: Job) -> None:
    worker.raw(b'Segmentation fault \xff\x00 {"event"\n')


def flood(worker: Worker, job: Job) -> None:
    worker.raw(b"x" * (2 << 20))


def odd_types(worker: Worker, job: Job) -> None:
    worker.raw(b'{"event": "done", "id": {"a": []}, "phases": 3}\n')


def odd_but_true(worker: Worker, job: Job) -> None:
    """Replies that are no fault: events of a newer worker, jobs that nobody knows, odd extras."""
    worker.send(event="heartbeat", load=[1, 2])
    worker.send(event="done", id=job["id"] + 1000, phases={})
    worker.stage(job)
    worker.send(event="done", id=job["id"], phases={"load": -1, "build": "x", "coffee": 2}, seconds=None)


def close_reply(worker: Worker, job: Job) -> None:
    os.close(worker.reply_fd)


def half(worker: Worker, job: Job) -> None:
    worker.stage(job)
    (Path(job["stage"]) / "model.so").write_bytes(b"half")
    worker.done(job)


def half_once(worker: Worker, job: Job) -> None:
    (half if worker.first_time("half") else ok)(worker, job)


def missing_file(worker: Worker, job: Job) -> None:
    worker.stage(job)
    (Path(job["stage"]) / "model.so").unlink()
    worker.done(job)


def no_manifest(worker: Worker, job: Job) -> None:
    worker.done(job)


def other_program(worker: Worker, job: Job) -> None:
    worker.stage(job)
    worker.send(event="done", id=job["id"], phases=PHASES, seconds=7.5, attest={"program": "another"})


def wrong_key(worker: Worker, job: Job) -> None:
    worker.stage(job, key="0" * 64)
    worker.done(job)


def spam(worker: Worker, job: Job) -> None:
    for i in range(20_000):
        os.write(2, b"log line %d of a talkative compiler \xe2\x80\x98x\xff\n" % i)
    os.write(2, b"the very last line\n")
    os.kill(os.getpid(), signal.SIGKILL)


def environment(worker: Worker, job: Job) -> None:
    worker.fail(job, "error", " ".join(f"{name}={value}" for name, value in sorted(os.environ.items())))


def failing(kind: str, message: str) -> Callable[[Worker, Job], None]:
    return lambda worker, job: worker.fail(job, kind, message)


JOBS: dict[str, Callable[[Worker, Job], None]] = {
    "ok": ok,
    "environment": environment,
    "copied": copied,
    "gated": gated,
    "crash": crash,
    "crash-once": crash_once,
    "leave": leave,
    "hang": hang,
    "garbage": garbage,
    "flood": flood,
    "odd-types": odd_types,
    "odd-but-true": odd_but_true,
    "close-reply": close_reply,
    "half": half,
    "half-once": half_once,
    "missing-file": missing_file,
    "no-manifest": no_manifest,
    "wrong-key": wrong_key,
    "other-program": other_program,
    "spam": spam,
    "refuse": failing("refused", "an unguarded check is left in the code"),
    "error": failing("error", "g++: fatal error: no input files"),
    "timeout": failing("timeout", "took longer than the limit"),
    "memory": failing("memory", "took more than the limit"),
    "job-crash": failing("crashed", "killed by signal 11"),
    "cancelled": failing("cancelled", "by request"),
    "disk-full": failing("error", "cc1plus: error: /tmp/x.s: No space left on device"),
    "new-kind": failing("bored", "a kind that nobody knows"),
}  # fmt: skip


def die(worker: Worker) -> None:
    sys.stderr.write("ModuleNotFoundError: No module named 'torch'\n")
    sys.exit(3)


def die_once(worker: Worker) -> None:
    (die if worker.first_time("die") else Worker.ready)(worker)


def gated_start(worker: Worker) -> None:
    worker.wait_at("gate")
    worker.ready()


START: dict[str, Callable[[Worker], None]] = {
    "ready": Worker.ready,
    "gated": gated_start,
    "die": die,
    "die-once": die_once,
    "garbage": lambda worker: worker.raw(b"Hello, I am a compiler\n"),
    "silent": lambda worker: None,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reply-fd", type=int, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--start", choices=sorted(START), default="ready")
    parser.add_argument("--job", choices=sorted(JOBS))
    parser.add_argument("--golden", type=Path, help="the kernel cache of \"copied\"")
    options = parser.parse_args()
    worker = Worker(options.reply_fd, options.scratch, options.golden)
    worker.journal(f"start {options.start} {os.getpid()}")
    START[options.start](worker)
    for line in sys.stdin:
        job = json.loads(line)
        behaviour = options.job or Path(job["program"]).stem
        worker.journal(f"job {behaviour} {job['bucket']}")
        threading.Thread(target=JOBS[behaviour], args=(worker, job), daemon=True).start()
    os._exit(0)  # the threads of hanging jobs end with the process


if __name__ == "__main__":
    main()
