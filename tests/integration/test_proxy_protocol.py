"""Behind a proxy that passes bytes on, the peer is whom the PROXY header names: HAProxy in front of a real daemon.

Clients of HAProxy are at 127.0.0.1 and 127.0.0.5; it connects to the daemon from 127.0.0.9, the only trusted address.
"""

from __future__ import annotations

import csv
import io
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import torch

from loadtest.servers.process import ServerProcess, free_ports, listens
from loadtest.servers.stokerd import command
from tests.integration import http1
from tests.integration.bearer import bearer, digest
from tests.integration.certificates import Authority
from tests.integration.daemon import Daemon, eventually, health_page
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
BODY = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}]}
PROXY, OTHER = "127.0.0.9", "127.0.0.5"
FROM = f"--proxy-protocol-from={PROXY}/32"

CONFIG = """
global
  stats socket {stats}
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen grpc
  bind 127.0.0.1:{grpc}
  server stoker 127.0.0.1:{port} source {source} {options}
listen http
  bind 127.0.0.1:{http}
  server stoker 127.0.0.1:{http_port} source {source} {options}
"""


@contextmanager
def haproxy(daemon: Daemon, folder: Path, options: str, source: str = PROXY) -> Iterator[tuple[int, int]]:
    """Its ports of gRPC and HTTP."""
    grpc_port, http_port = free_ports(2)
    config = folder / f"haproxy-{grpc_port}.cfg"
    config.write_text(
        CONFIG.format(
            stats=folder / "haproxy.sock",
            grpc=grpc_port,
            http=http_port,
            port=daemon.port,
            http_port=daemon.http_port,
            source=source,
            options=options,
        )
    )
    with ServerProcess(["/usr/sbin/haproxy", "-db", "-f", str(config)], config.with_suffix(".log")) as proxy:
        proxy.until(lambda: listens(grpc_port) and listens(http_port), 30, "it listens")
        yield grpc_port, http_port


def checks(folder: Path) -> set[tuple[str, str]]:
    """What HAProxy thinks of its servers, and what its last checks came to."""
    with socket.socket(socket.AF_UNIX) as stats:
        stats.connect(str(folder / "haproxy.sock"))
        stats.sendall(b"show stat\n")
        table = stats.makefile().read().removeprefix("# ")
    return {
        (row["status"], row["check_status"]) for row in csv.DictReader(io.StringIO(table)) if row["svname"] == "stoker"
    }


def channel(port: int, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    own = [("grpc.use_local_subchannel_pool", 1)]
    if credentials is not None:
        return grpc.secure_channel(f"localhost:{port}", credentials, own)
    return grpc.insecure_channel(f"127.0.0.1:{port}", own)


def infer(over: grpc.Channel, **metadata: str) -> None:
    answer = stub(over).ModelInfer(raw_request("identity", X), metadata=list(metadata.items()), timeout=30)
    assert_same(read(answer), eager("identity", X))


def ask_from(address: str, port: int, headers: dict[str, str] | None = None) -> http1.Answer:
    """An inference over HTTP, by a client at that address of loopback."""
    with http1.Connection(port, source=address) as client:
        return client.ask("POST", "/v2/models/identity/infer", json.dumps(BODY).encode(), headers)


def ended(daemon: Daemon, reason: str) -> float:
    return daemon.metric("stoker_connections_ended_total", reason=reason)


@pytest.fixture
def behind(tmp_path: Path, repository: Callable[..., Path], start: Callable[..., Daemon]) -> Callable[..., Daemon]:
    """behind("--flag") is a daemon that takes connections of the proxy only; its request log is tmp_path/requests."""

    def make(*flags: str) -> Daemon:
        return start(repository("identity"), "--no-compile", FROM, f"--request-log={tmp_path / 'requests'}", *flags)

    return make


def ready(daemon: Daemon) -> None:
    """By the metrics port, which no proxy is in front of."""
    eventually(lambda: health_page(daemon, "readiness")[0] == 200, "it is ready")


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
def test_the_peer_is_whom_the_proxy_names(behind: Callable[..., Daemon], tmp_path: Path, version: str) -> None:
    with behind() as daemon:
        ready(daemon)
        with haproxy(daemon, tmp_path, version) as (grpc_port, http_port):
            with channel(grpc_port) as over:
                infer(over)
            assert ask_from(OTHER, http_port).status == 200
            eventually(
                lambda: daemon.metric("stoker_request_log_lines_total", outcome="written") == 2, "both are logged", 30
            )
        lines = [json.loads(line) for line in (tmp_path / "requests").read_text().splitlines()]
        assert {(line["protocol"], line["peer"]) for line in lines} == {("grpc", "127.0.0.1"), ("http", OTHER)}
        # What doesn't come through the proxy is sent away; the metrics port isn't the proxy's.
        with pytest.raises(grpc.RpcError) as refused, channel(daemon.port) as direct:
            infer(direct)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert ended(daemon, "proxy_source") >= 1
        assert "a connection from 127.0.0.1 is closed: expected one from a proxy" in daemon.log()
        assert ended(daemon, "proxy_header") == 0
        assert daemon.stop() == 0


@pytest.mark.parametrize("check", ["", "no-check-send-proxy"])
def test_health_checks_of_the_proxy(behind: Callable[..., Daemon], tmp_path: Path, check: str) -> None:
    """They send LOCAL, or nothing: the proxy finds the server up, and nobody is complained of."""
    with behind() as daemon:
        ready(daemon)
        options = f"send-proxy-v2 check inter 50ms {check}"
        with haproxy(daemon, tmp_path, options) as (grpc_port, _), channel(grpc_port) as over:
            eventually(lambda: checks(tmp_path) == {("UP", "L4OK")}, "checks are well", 30)
            infer(over)
        assert ended(daemon, "proxy_header") == 0 and "PROXY" not in daemon.log()


def test_limits_of_a_peer_and_the_policy(behind: Callable[..., Daemon], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    callers = {"web": {"tokens": [{"sha256": digest("web-token-7Lq2")}]}}
    rules = [{"callers": ["web"], "groups": ["infer"]}, {"callers": ["anonymous"], "groups": ["metrics"]}]
    policy.write_text(json.dumps({"callers": callers, "rules": rules}))
    with behind(f"--policy={policy}", "--max-connections-per-peer=2") as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        with haproxy(daemon, tmp_path, "send-proxy-v2") as (_, http_port):
            assert ask_from(OTHER, http_port).status == 401
            eventually(lambda: f"peer={OTHER}" in daemon.log(), "the audit log names the client", 30)
            with http1.Connection(http_port) as first, http1.Connection(http_port) as second:
                # Both are the server's before the third comes.
                assert first.ask("GET", "/v2/health/live", headers=bearer("web-token-7Lq2")).status == 403
                assert second.ask("GET", "/v2/health/live", headers=bearer("web-token-7Lq2")).status == 403
                with http1.Connection(http_port) as third:
                    third.send(http1.request("GET", "/v2/health/live", None, None))
                    assert third.socket.recv(100) == b""
                assert ended(daemon, "peer_limit") == 1
                # Of the other address there is none yet.
                assert ask_from(OTHER, http_port, bearer("web-token-7Lq2")).status == 200


def test_in_front_of_tls(behind: Callable[..., Daemon], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.sign("server", "DNS:localhost,IP:127.0.0.1")
    client, client_key = authority.sign("client", "DNS:batch.example.com")
    flags = [f"--tls-certificate={certificate}", f"--tls-key={key}", f"--tls-client-ca={authority.certificate}"]
    with behind(*flags) as daemon:
        ready(daemon)
        with haproxy(daemon, tmp_path, "send-proxy-v2") as (grpc_port, _):
            credentials = grpc.ssl_channel_credentials(
                authority.certificate.read_bytes(), client_key.read_bytes(), client.read_bytes()
            )
            with channel(grpc_port, credentials) as over:
                infer(over)
                eventually(lambda: "127.0.0.1" in (tmp_path / "requests").read_text(), "the client is named", 30)
            with pytest.raises(grpc.RpcError), channel(grpc_port) as plain:
                infer(plain)
            said = "TLS handshake of 127.0.0.1 failed, plain_text"
            eventually(lambda: said in daemon.log(), "and so is one that fails", 30)


def test_a_proxy_that_sends_no_header(behind: Callable[..., Daemon], tmp_path: Path) -> None:
    with behind() as daemon:
        ready(daemon)
        with haproxy(daemon, tmp_path, "") as (_, http_port), http1.Connection(http_port) as client:
            client.send(http1.request("GET", "/v2/health/live", None, None))
            assert client.socket.recv(100) == b""
        assert ended(daemon, "proxy_header") == 1
        said = [line for line in daemon.log().splitlines() if "a connection from" in line]
        assert len(said) == 1
        assert f'{PROXY} is closed: expected a PROXY header, got "GET /v2/health/live' in said[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("proxy.example.com", "expected an address or a range"), ("10.1.0.0/8", "first address, 10.0.0.0/8")],
)
def test_a_range_that_is_none(repository: Callable[..., Path], tmp_path: Path, value: str, expected: str) -> None:
    line = command(repository("identity"), tmp_path, f"--proxy-protocol-from={value}")
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "--proxy-protocol-from" in done.stderr and expected in done.stderr
