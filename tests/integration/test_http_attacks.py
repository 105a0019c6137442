"""Proves that whatever one client does to the HTTP port, another one is answered soon, and memory stays below the
ceiling: tests/integration/http_attacks.py has the attacks."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.integration.daemon import REPO, Daemon, eventually
from tests.integration.http1 import Connection
from tests.integration.http_attacks import ATTACKS, HEAD, INFER

MEMORY_MB = 64
ABOVE_MB = 64  # what the ceiling doesn't count
SECONDS = 4.0
P99_SECONDS = 1.5  # beside all other tests, as for gRPC
X = [i / 4 for i in range(16)]
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": X}]}).encode()


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["identity"], f"--max-request-memory-mb={MEMORY_MB}", uncompiled=True)


def asked(connection: Connection) -> float:
    start = time.monotonic()
    answer = connection.ask("POST", INFER, BODY)
    assert answer.status == 200, answer.body
    assert answer.json()["outputs"][0]["data"] == X
    return time.monotonic() - start


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bystander_does_not_notice(daemon: Daemon, name: str) -> None:
    seconds: list[float] = []
    with Connection(daemon.http_port) as bystander:
        asked(bystander)
        before = most = daemon.rss_bytes()
        command = [sys.executable, "-m", "tests.integration.http_attacks", name, str(daemon.http_port), str(SECONDS)]
        attack = subprocess.Popen(command, cwd=REPO)
        try:
            while attack.poll() is None:
                seconds.append(asked(bystander))
                most = max(most, daemon.rss_bytes()) if len(seconds) % 20 == 0 else most
                time.sleep(0.001)
        finally:
            attack.kill()
            attack.wait()
    taken = sorted(seconds)
    p99 = taken[len(taken) * 99 // 100]
    grown = (most - before) / 2**20
    print(
        f"\n{name}: bystander p50 {1e3 * statistics.median(taken):.1f} ms, p99 {1e3 * p99:.1f} ms, "
        f"worst {1e3 * taken[-1]:.1f} ms of {len(taken)}; server {grown:+.0f} MB"
    )
    assert attack.returncode == 0
    assert p99 <= P99_SECONDS
    assert grown <= MEMORY_MB + ABOVE_MB
    with Connection(daemon.http_port) as again:
        asked(again)
    eventually(lambda: daemon.metric("stoker_request_memory_bytes") == 0, "all memory is given back", 30)
    assert not daemon.ended()


@pytest.mark.parametrize(
    "form",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Transfer-Encoding: identity\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length : 5\r\n\r\nhello",
        b"Host: there\r\nContent-Length: 0\r\n\r\n",
        b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        b"X: a\nContent-Length: 0\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(daemon: Daemon, form: bytes) -> None:
    with Connection(daemon.http_port) as connection:
        connection.send(HEAD + form + b"GET /v2 HTTP/1.1\r\nHost: here\r\n\r\n")
        answer = connection.answer()
        assert answer.status in (400, 501), answer
        assert answer.headers["connection"] == "close"
        assert connection.closed()


def test_nothing_but_what_fits_is_let_in(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        large = str(40 << 20)
        answer = connection.ask("POST", INFER, headers={"Content-Length": large, "Expect": "100-continue"})
        assert (answer.status, answer.interim) == (413, [])
