"""stokerd as it is built here, or another one, on ports of loopback that it chooses itself.

    with Daemon(repository, cache, folder / "stokerd.log", "--no-compile") as daemon:
        daemon.wait_ready()

$STOKERD and $STOKERCTL name other programs than those of build/release. A daemon compiles with this process' Python
unless an argument says otherwise. It is killed when its context is left, without being asked to end: `stop()` asks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from loadtest.servers.inference_server import InferenceServer

REPOSITORY = Path(__file__).resolve().parents[2]
STOKERD = Path(os.environ.get("STOKERD", REPOSITORY / "build/release/server/main/stokerd"))
STOKERCTL = Path(os.environ.get("STOKERCTL", STOKERD.parents[1] / "ctl/stokerctl"))
LISTENING = re.compile(r"listening: gRPC port (\d+), metrics port (\d+), HTTP port (\d+)")
LISTEN_SECONDS = 120
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def command(repository: Path, cache: Path, *arguments: str, binary: Path = STOKERD) -> list[str]:
    """The command line; ports are the caller's to name."""
    line = [str(binary), f"--model-repository={repository}", f"--cache={cache}", *arguments]
    if not any(argument.startswith("--compiler-python=") for argument in arguments):
        line.append(f"--compiler-python={sys.executable}")
    return line


def warm_up(
    repository: Path, cache: Path, *arguments: str, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `stokerd --warm-only` to its end, which fills the cache; whether it could is in the exit code."""
    line = command(repository, cache, "--warm-only", *arguments)
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)


class Daemon(InferenceServer):
    """A running stokerd. Its ports are known within the context."""

    def __init__(
        self,
        repository: Path,
        cache: Path,
        log: Path,
        *arguments: str,
        binary: Path = STOKERD,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = 0,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.metrics_port = self.http_port = 0
        given = {argument.partition("=")[0] for argument in arguments}
        flags = {"--listen", "--metrics-listen", "--http-listen"} - given
        ports = [f"{flag}=127.0.0.1:0" for flag in sorted(flags)]
        line = command(repository, cache, *ports, *arguments, binary=binary)
        super().__init__(
            line,
            0,
            log,
            environment=environment,
            folder=REPOSITORY,
            grace_seconds=grace_seconds,
            descriptors=descriptors,
        )

    def __enter__(self) -> Self:
        try:
            listening = self.logged(LISTENING, LISTEN_SECONDS)
        except BaseException:
            self.close()
            raise
        self.port, self.metrics_port, self.http_port = (int(port) for port in listening.groups())
        return self

    def wait_improved(self, seconds: float, models: int = 1) -> None:
        """Until what a version leaves for quiet seconds is done, too: it is served as it will be."""

        def improved() -> bool:
            return self.log().count(": nothing is left to improve") >= models

        self.until(improved, seconds, "it is at full speed", 0.2)

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
