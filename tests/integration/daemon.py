"""Starts the real stokerd for one test, on free ports of loopback, and always ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import tritonclient.grpc as triton

REPO = Path(__file__).resolve().parents[2]
STOKERD = Path(os.environ.get("STOKERD", REPO / "build/release/server/main/stokerd"))
STOKERCTL = Path(os.environ.get("STOKERCTL", STOKERD.parents[1] / "ctl/stokerctl"))
LISTENING = re.compile(r"listening: gRPC port (\d+), metrics port (\d+)")
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def eventually(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Polls until `condition` holds; fails the test, saying `what`, when it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)


def ctl(*arguments: object, code: int = 0) -> str:
    """What stokerctl prints; the test fails when it ends with another code."""
    done = subprocess.run([STOKERCTL, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code in (0, 1) else done.stderr


class Daemon:
    """A running stokerd. Use as a context manager."""

    def __init__(self, repository: Path, cache: Path, log: Path, *arguments: str) -> None:
        self.log_path = log
        self._log_file = open(log, "wb")
        if not any(argument.startswith("--compiler-python=") for argument in arguments):
            arguments += (f"--compiler-python={sys.executable}",)
        self.process = subprocess.Popen(
            [
                str(STOKERD),
                f"--model-repository={repository}",
                f"--cache={cache}",
                "--listen=127.0.0.1:0",
                "--metrics-listen=127.0.0.1:0",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=self._log_file,
            cwd=REPO,
        )
        self.port = self.metrics_port = 0

    def __enter__(self) -> Daemon:
        eventually(lambda: bool(LISTENING.search(self.log())) or self.ended(), "the daemon listens")
        match = LISTENING.search(self.log())
        if match is None:
            self._close()
            raise AssertionError(f"the daemon ended at once:\n{self.log()}")
        self.port, self.metrics_port = int(match[1]), int(match[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if not self.ended():
            self.process.kill()
        self.process.wait()
        self._log_file.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self) -> triton.InferenceServerClient:
        return triton.InferenceServerClient(self.address)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait_ready(self, seconds: float = 900) -> None:
        with self.client() as client:
            eventually(lambda: self.ended() or client.is_server_ready(), f"ready:\n{self.log()}", seconds)
        assert not self.ended(), self.log()

    def metrics_page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            return page.read().decode()

    def samples(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """The samples of one metric, each with its labels."""
        for line in self.metrics_page().splitlines():
            match = SAMPLE.match(line)
            if match and match[1] == name:
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
                yield labels, float(match[3])

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over all samples that carry `labels`."""
        return sum(value for have, value in self.samples(name) if labels.items() <= have.items())

    def stop(self, seconds: float = 40) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def children(self) -> list[int]:
        """Pids of all living descendants."""
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            pid = pending.pop()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    kids = [int(kid) for kid in task.read_text().split()]
                except OSError:
                    continue
                found += kids
                pending += kids
        return found


def write_yaml(model: Path, **fields: object) -> None:
    """A model.yaml beside the versions. JSON is YAML."""
    (model / "model.yaml").write_text(json.dumps(fields, indent=1))
