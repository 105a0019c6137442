"""python -m compiler.worker --reply-fd N --scratch FOLDER: parent.py says what it is, stokerd starts it."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import sys
import time
import warnings
from pathlib import Path

from compiler.job import limits, toolchain
from compiler.job.protocol import send
from compiler.job.work_folder import claimed
from compiler.sandbox.confine import holders, lacks
from compiler.worker import parent
from compiler.worker.headers import link
from compiler.worker.prewarm import prewarm
from compiler.worker.sandbox import Sandbox

PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compiler.worker", description=str(parent.__doc__).splitlines()[0])
    parser.add_argument("--reply-fd", type=int, required=True, help="descriptor that replies are written to")
    parser.add_argument("--scratch", type=Path, required=True, help="folder of caches, kept between runs")
    parser.add_argument("--no-sandbox", action="store_true", help="jobs have limits, and else what this user has")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    os.set_inheritable(options.reply_fd, False)
    os.umask(0o077)  # what others may write to is no artifact
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # compilers whose job was killed are reaped here
    # Inductor warns of its own ways; what remains in the log is about the model.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    toolchain.prepare_environment(options.scratch)
    link(options.scratch)
    with claimed(options.scratch) as work, contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        headers = prewarm(options.scratch, work)
        import torch

        if limits.threads() > 1:
            print(f"{limits.threads()} threads run: forking is at risk", file=sys.stderr, flush=True)
        if options.no_sandbox:
            print("compile jobs can do all that this user can: --no-sandbox", file=sys.stderr, flush=True)
        elif able := lacks():
            print(f"the sandbox of compile jobs has gaps on this kernel: they can {able}", file=sys.stderr, flush=True)
        held = "none" if options.no_sandbox else holders()
        ready = {"event": "ready", "pid": os.getpid(), "torch": torch.__version__, "sandbox": held}
        send(options.reply_fd, {**ready, "seconds": round(time.monotonic() - started, 3)})
        parent.Worker(options.reply_fd, work, headers, Sandbox(not options.no_sandbox)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
