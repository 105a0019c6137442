"""Proves what the HTTP port does with connections: kept, cut in pieces, continued, encrypted, over unix sockets."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.certificates import Authority
from tests.integration.daemon import Daemon
from tests.integration.http1 import Connection, request

INFER = "/v2/models/identity/infer"
X = [[i / 4 for i in range(16)]]
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": X}]}).encode()


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["identity"], uncompiled=True)


def test_a_connection_is_kept(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        for _ in range(3):
            assert connection.ask("POST", INFER, BODY).status == 200
            assert connection.ask("GET", "/v2/models/nobody").status == 404
        assert connection.ask("GET", "/v2", headers={"Connection": "close"}).headers["connection"] == "close"
        assert connection.closed()


def test_requests_sent_ahead_are_answered_in_order(daemon: Daemon) -> None:
    count = 200
    with Connection(daemon.http_port) as connection:
        messages = [json.dumps({"id": str(i), **json.loads(BODY)}).encode() for i in range(count)]
        connection.send(b"".join(request("POST", INFER, message) for message in messages))
        assert [connection.answer().json()["id"] for _ in range(count)] == [str(i) for i in range(count)]


def test_a_request_may_come_byte_by_byte(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("POST", INFER, BODY):
            connection.send(bytes([byte]))
        assert connection.answer().status == 200


def test_chunks(daemon: Daemon) -> None:
    pieces = [BODY[:7], BODY[7:8], BODY[8:]]
    chunks = b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: x\r\n\r\n"
    with Connection(daemon.http_port) as connection:
        head = f"POST {INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        connection.send((head + chunks) * 2)
        assert [connection.answer().status for _ in range(2)] == [200, 200]


def test_expectations(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        whole = request("POST", INFER, BODY, {"Expect": "100-continue"})
        connection.send(whole[: -len(BODY)])
        assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(BODY)
        assert connection.answer().status == 200
        assert connection.ask("POST", INFER, BODY, {"Expect": "tea"}).status == 417
    with Connection(daemon.http_port) as connection:
        refused = connection.ask("POST", "/nowhere", headers={"Expect": "100-continue", "Content-Length": "5"})
        assert (refused.status, refused.interim) == (404, [])


def test_an_old_client(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        connection.send(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert connection.answer().status == 200
        assert connection.closed()


def test_another_protocol_is_told(daemon: Daemon) -> None:
    with Connection(daemon.http_port) as connection:
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert "HTTP/1.1, not HTTP/2" in connection.answer().error


def test_over_a_unix_socket(repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with start(repository("identity"), "--no-compile", f"--http-listen=unix:{path}") as daemon:
        daemon.wait_ready()
        curl = shutil.which("curl")
        assert curl is not None
        command = [curl, "-s", "--unix-socket", str(path), f"http://here{INFER}", "-d", BODY.decode()]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert answer["outputs"][0]["data"] == X[0]


def test_the_port_can_be_closed(repository: Callable[..., Path], start: Callable[..., Daemon]) -> None:
    with start(repository("identity"), "--no-compile", "--http-listen=none") as daemon:
        assert daemon.http_port == 0


def test_encrypted(repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.sign("server", "DNS:localhost")
    flags = (f"--tls-certificate={certificate}", f"--tls-key={key}", "--metrics-tls")
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with start(repository("identity"), "--no-compile", *flags) as daemon:
        for port, path in ((daemon.http_port, "/v2/health/live"), (daemon.metrics_port, "/metrics")):
            client = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=30)
            for _ in range(3):
                client.request("GET", path)
                answer = client.getresponse()
                assert answer.status == 200
                answer.read()
            client.close()
