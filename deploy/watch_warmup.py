"""Shows a daemon's warm-up until it is ready.

    python deploy/watch_warmup.py --grpc 127.0.0.1:8001 [--pid PID]

Reads what RepositoryIndex says of each version. On a terminal the last line is
rewritten; elsewhere a line is printed when something changed. Exit code 1 when the
process PID ends or a model fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import tritonclient.grpc as triton


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Show a daemon's warm-up until it is ready.")
    parser.add_argument("--grpc", default="127.0.0.1:8001", help="address of the daemon")
    parser.add_argument("--pid", type=int, help="give up when this process ends")
    return parser.parse_args()


def alive(pid: int | None) -> bool:
    """Whether the process runs: a zombie, which its shell has yet to reap, does not."""
    if pid is None:
        return True
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Display:
    """One line for now, and the lines that stay."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._last = ""

    def show(self, text: str, final: bool = False) -> None:
        line = f"  {time.monotonic() - self._start:6.1f} s  {text}"
        if self._terminal:
            width = os.get_terminal_size().columns - 1
            print("\r" + line[:width].ljust(width), end="\n" if final else "", flush=True)
        elif self._without_seconds(text) != self._last or final:
            print(line, flush=True)
        self._last = self._without_seconds(text)

    @staticmethod
    def _without_seconds(text: str) -> str:
        head, comma, tail = text.rpartition(", ")
        return head if comma and tail.endswith(" s") else text


def watch(client: triton.InferenceServerClient, pid: int | None) -> bool:
    display = Display()
    while alive(pid):
        try:
            if client.is_server_ready():
                display.show("ready", final=True)
                return True
            index = client.get_model_repository_index()
        except triton.InferenceServerException:
            display.show("starting")
            time.sleep(0.05)
            continue
        for model in index.models:
            display.show(f"{model.name}:{model.version} {model.state.lower()} {model.reason}")
        time.sleep(0.2)
    return False


def main() -> int:
    arguments = parse_arguments()
    with triton.InferenceServerClient(arguments.grpc) as client:
        return 0 if watch(client, arguments.pid) else 1


if __name__ == "__main__":
    sys.exit(main())
