"""Proves that a server goes on as if nothing had happened when somebody sets its machine's clock, forward or
back, by hours: durations are measured on another clock."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import pytest
import torch

from loadtest.servers.process import ServerError
from tests.integration.certificates import Authority
from tests.integration.daemon import REPO, Daemon, eventually, write_yaml
from tests.integration.wire import assert_same, eager, raw_request, read, stub

HOURS = 3600
IDENTITY = raw_request("identity", {"x": torch.ones(1, 16)})
SLOW = raw_request("slow", {"x": torch.ones(1, 16)})


class SteppingClock:
    """The time of day of whatever is started while `environment` is set."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "stepping_clock.so"
        self._file = folder / "ahead"
        self._file.write_bytes(bytes(8))
        source = REPO / "tests/fakes/stepping_clock.c"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", self._library, source, "-ldl"], check=True
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "STEPPING_CLOCK": str(self._file)}

    def set_ahead(self, seconds: float) -> None:
        """In one write: nobody sees half of it."""
        with open(self._file, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))


@pytest.fixture
def clock(tmp_path: Path) -> SteppingClock:
    return SteppingClock(tmp_path)


@pytest.fixture
def daemon(repository: Callable[..., Path], clock: SteppingClock, tmp_path: Path) -> Iterator[Daemon]:
    root = repository("identity", "slow")
    queue = {"default_queue_policy": {"max_queue_size": 64, "default_timeout_microseconds": 60_000_000}}
    write_yaml(root / "identity", max_batch_size=8, dynamic_batching=queue)
    write_yaml(root / "slow", max_batch_size=1, threads=1, dynamic_batching=queue)
    with Daemon(
        root, tmp_path / "cache", tmp_path / "log", "--no-compile", "--repository-poll-seconds=1",
        environment={**os.environ, **clock.environment},
    ) as daemon:  # fmt: skip
        daemon.wait_ready()
        yield daemon


def look(daemon: Daemon) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.metrics_port}/status.json", timeout=10) as page:
        return json.load(page)["server"]


def seconds_ahead(daemon: Daemon) -> float:
    """Of the machine's clock: how the server shows what time it is."""
    return (datetime.fromisoformat(look(daemon)["time"]) - datetime.now(UTC)).total_seconds()


def test_steps_of_the_clock_cost_no_request(daemon: Daemon, clock: SteppingClock) -> None:
    ends: list[grpc.StatusCode | None] = []

    def ask() -> None:
        with grpc.insecure_channel(daemon.address) as channel:
            for _ in range(10):
                try:
                    stub(channel).ModelInfer(SLOW, timeout=60)
                    ends.append(None)
                except grpc.RpcError as error:
                    ends.append(error.code())

    def goes_on(done: int) -> bool:
        return len(ends) > done or len(ends) == 80

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for step in (3 * HOURS, -3 * HOURS, 24 * HOURS, 0):
        eventually(partial(goes_on, len(ends)), "requests are answered")
        clock.set_ahead(step)
        assert abs(seconds_ahead(daemon) - step) < 60
    for thread in threads:
        thread.join(120)
    assert ends == [None] * 80
    assert look(daemon)["uptime_seconds"] < HOURS
    with grpc.insecure_channel(daemon.address) as channel:
        assert_same(read(stub(channel).ModelInfer(IDENTITY, timeout=60)), eager("identity", {"x": torch.ones(1, 16)}))
    assert daemon.stop() == 0


@pytest.mark.parametrize("step", [-6 * HOURS, 6 * HOURS])
def test_what_waits_goes_on_in_time(
    daemon: Daemon, clock: SteppingClock, step: int, tmp_path: Path
) -> None:
    """The next look at the repository was planned before the step."""
    clock.set_ahead(step)
    assert abs(seconds_ahead(daemon) - step) < 60
    identity = tmp_path / "models/identity"
    shutil.copytree(identity / "1", tmp_path / "whole")
    (tmp_path / "whole").rename(identity / "2")
    with daemon.client() as client:
        eventually(lambda: client.is_model_ready("identity", "2"), "the new version is found", 60)
    assert daemon.stop() == 0


@pytest.mark.parametrize(("days", "said"), [(-10, "is not valid yet"), (10, "expired at")])
def test_a_certificate_by_a_clock_that_is_off(
    repository: Callable[..., Path], clock: SteppingClock, tmp_path: Path, days: int, said: str
) -> None:
    """Clients have clocks of their own: one that is to come is served, with a warning."""
    certificate, key = Authority(tmp_path / "pki").sign("server", "DNS:localhost")
    clock.set_ahead(days * 24 * HOURS)
    daemon = Daemon(
        repository("identity"), tmp_path / "cache", tmp_path / "log", "--no-compile",
        f"--tls-certificate={certificate}", f"--tls-key={key}", environment={**os.environ, **clock.environment},
    )  # fmt: skip
    if days < 0:
        with daemon:
            eventually(lambda: f"{certificate}: {said}" in daemon.log(), "it is said", 30)
    else:
        with pytest.raises(ServerError):
            daemon.__enter__()
        assert f"{certificate}: {said}" in daemon.log()
